//! The file of the keys that seal Secrets on the disk: who may read it is looked at before its keys are used.

use crate::making::Entropy;
use crate::store::{KEY_FILE_BYTES_MAX, KeyRing, SealKeys, key_line};
use nix::unistd::{Uid, fchown};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everybody but the owner.
const OTHERS: u32 = 0o077;
const OTHERS_OF_ROOT: u32 = 0o037;
const PLAIN: &str = "plain\n";

/// The keys of the file that the configuration names. A file that cannot be used is no reason not to start.
pub fn load(path: Option<&Path>) -> SealKeys {
    let Some(path) = path else { return SealKeys::Off };
    let ring = read(path).and_then(|text| KeyRing::parse(&text).map_err(|why| format!("{}: {why}", path.display())));
    match ring {
        Ok(ring) => SealKeys::Ring(Arc::new(ring)),
        Err(why) => {
            log::error!("encryption-key: {why}; what is sealed stays closed, and no Secret is written");
            SealKeys::Lost(why)
        }
    }
}

/// The text of a key file. Fails where other users can read the file.
pub fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let failed = |error: io::Error| format!("{shown}: {error}");
    let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(format!("{shown}: it is no file"));
    }
    let (us, mode) = (Uid::effective(), found.mode() & 0o7777);
    // Root reads for the owner of the data directory.
    if found.uid() != 0 && found.uid() != us.as_raw() && !us.is_root() {
        return Err(format!("{shown}: it is another user's: run `chown {us} {shown}`"));
    }
    // systemd lets the group root read what it passes on to another user.
    let others = if found.uid() == 0 && found.gid() == 0 { OTHERS_OF_ROOT } else { OTHERS };
    if mode & others != 0 {
        return Err(format!("{shown}: it is open to others (mode {mode:04o}): run `chmod 0600 {shown}`"));
    }
    let mut text = String::new();
    file.take(KEY_FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(failed)?;
    match text.len() > KEY_FILE_BYTES_MAX {
        true => Err(format!("{shown}: it has more than {KEY_FILE_BYTES_MAX} bytes")),
        false => Ok(text),
    }
}

/// A line with a new key.
pub fn new_line() -> Result<String, String> {
    let entropy = Entropy::open().map_err(|error| format!("/dev/urandom: {error}"))?;
    let id: String = entropy.bytes::<4>().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(key_line(&format!("k-{id}"), &entropy.bytes()))
}

/// Puts a key file in its place, for one user alone. `owner`: user and group; `None`: as who writes it.
pub fn write(path: &Path, text: &str, owner: Option<(u32, u32)>) -> Result<(), String> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = (|| {
        fs::remove_file(&partial).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
        if let Some((user, group)) = owner {
            fchown(&file, Some(user.into()), Some(group.into()))?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    })();
    written.map_err(|error| format!("write {}: {error}", path.display()))
}

/// The same keys, with a new one that seals.
pub fn with_new(text: &str, line: &str) -> String {
    format!("{line}{}", without_plain(text))
}

/// The same keys, of which none seals.
pub fn with_none(text: &str) -> String {
    format!("{PLAIN}{}", without_plain(text))
}

fn without_plain(text: &str) -> String {
    text.lines().filter(|line| line.trim() != PLAIN.trim_end()).map(|line| format!("{line}\n")).collect()
}

/// For people: which key seals.
pub fn sealed_by(keys: &SealKeys) -> String {
    match keys.current() {
        Some(key) => format!("Secrets and private keys are sealed by {}\n", key.id),
        None => "Secrets and private keys are in clear text\n".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_file_that_others_may_read_is_refused_with_the_line_that_mends_it() {
        let path = std::env::temp_dir().join(format!("coracle-encryption-{}", std::process::id()));
        fs::remove_file(&path).ok();
        assert!(matches!(load(None), SealKeys::Off));
        assert!(load(Some(&path)).why_lost().is_some_and(|why| why.contains("No such file")));
        let line = new_line().expect("chance");
        assert_ne!(line, new_line().expect("chance"));
        write(&path, &line, None).expect("written");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        assert!(load(Some(&path)).current().is_some_and(|key| key.id.starts_with("k-")));
        for mode in [0o604, 0o660, 0o666] {
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("ours");
            let keys = load(Some(&path));
            let why = keys.why_lost().expect("it is open");
            assert!(why.ends_with(&format!("(mode {mode:04o}): run `chmod 0600 {}`", path.display())), "{why}");
        }
        fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).expect("ours");
        assert!(load(Some(&path)).current().is_some());
        write(&path, "nonsense", None).expect("written");
        assert!(load(Some(&path)).why_lost().is_some_and(|why| why.contains("line 1: expected an id and a key")));
        fs::remove_file(&path).expect("ours");
        fs::create_dir(&path).expect("ours");
        assert!(load(Some(&path)).why_lost().is_some());
        fs::remove_dir(&path).expect("ours");
    }

    #[test]
    fn a_new_key_goes_before_the_others() {
        let (old, new) = ("plain\n# mine\na A\n", "b B\n");
        assert_eq!(with_new(old, new), "b B\n# mine\na A\n");
        assert_eq!(with_none(&with_new(old, new)), "plain\nb B\n# mine\na A\n");
    }
}

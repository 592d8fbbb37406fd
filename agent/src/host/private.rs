//! Files and directories of the agent: for its own user alone, whatever the umask says. They hold the content of pods'
//! volumes, including passwords.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{getegid, geteuid};

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
const MANIFESTS_MODE: u32 = 0o750;
/// With more files than this, one `syncfs` writes the whole file system: one wait instead of a wait for each file.
const SYNCED_EACH_MAX: usize = 8;
/// Any access of anybody but the owner.
const OF_OTHERS: u32 = 0o077;

/// Makes missing parent directories, too. Existing directories keep their mode.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// Manifests may hold passwords, so only root and its group may read them.
pub fn make_manifest_directory(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    DirBuilder::new().mode(MANIFESTS_MODE).create(path)
}

/// Empty. What a killed agent has left under this name is replaced, with whatever mode it had.
pub fn create_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Files of one folder with these contents, whole and durable; after an error each is as it was, or as it should be.
pub fn replace_files(folder: &Path, files: impl Iterator<Item = (OsString, Vec<u8>)>) -> io::Result<()> {
    make_directory(folder)?;
    let mut names = Vec::new();
    let replaced = replace_in(folder, files, &mut names);
    if replaced.is_err() {
        for index in 0..names.len() {
            let _ = fs::remove_file(temporary(folder, index));
        }
    }
    replaced
}

fn replace_in(
    folder: &Path,
    files: impl Iterator<Item = (OsString, Vec<u8>)>,
    names: &mut Vec<OsString>,
) -> io::Result<()> {
    let mut open = Vec::new();
    for (index, (name, bytes)) in files.enumerate() {
        names.push(name);
        let mut file = create_file(&temporary(folder, index))?;
        file.write_all(&bytes)?;
        if index < SYNCED_EACH_MAX {
            open.push(file);
        }
    }
    let folder_itself = File::open(folder)?;
    if names.len() > SYNCED_EACH_MAX {
        nix::unistd::syncfs(&folder_itself)?;
    } else {
        open.iter().try_for_each(File::sync_all)?;
    }
    for (index, name) in names.iter().enumerate() {
        fs::rename(temporary(folder, index), folder.join(name))?;
    }
    folder_itself.sync_all()
}

fn temporary(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!(".new-{index}"))
}

/// Makes the data directory. An error names the command that repairs the directory.
pub fn data_directory(path: &str) -> io::Result<()> {
    make_directory(Path::new(path))?;
    judge_data_directory(path)
}

/// Whether the directory can be used as it is. A missing directory is fine: the agent makes it.
pub fn judge_data_directory(path: &str) -> io::Result<()> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.is_dir() {
        return Err(io::Error::other("it is no directory"));
    }
    let own = geteuid().as_raw();
    let refused = |text: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    if found.uid() != own {
        return refused(format!(
            "it belongs to user {}, not to this agent's: `chown {own} {path} && chmod 0700 {path}`",
            found.uid()
        ));
    }
    if found.mode() & OF_OTHERS != 0 {
        return refused(format!(
            "others may enter it (mode {:04o}), and it holds what pods keep secret: `chmod 0700 {path}`",
            found.mode() & 0o7777
        ));
    }
    Ok(())
}

/// Who may write there besides root and the agent's own user. None: no such user, or the path cannot be read.
pub fn writers(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    if found.uid() != 0 && found.uid() != geteuid().as_raw() {
        return Some(format!("user {}", found.uid()));
    }
    if found.mode() & 0o002 != 0 {
        return Some("everybody".to_owned());
    }
    let group = ![0, getegid().as_raw()].contains(&found.gid());
    (group && found.mode() & 0o020 != 0).then(|| format!("group {}", found.gid()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("coracle-private-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_for_its_owner() {
        let path = folder("made");
        make_directory(&path.join("a/b")).unwrap();
        assert_eq!([mode(&path), mode(&path.join("a")), mode(&path.join("a/b"))], [0o700; 3]);
        // What another umask has left under the same name.
        let file = path.join("f");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        create_file(&file).unwrap();
        assert_eq!((mode(&file), fs::read_to_string(&file).unwrap().as_str()), (0o600, ""));
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn files_are_replaced_whole_few_or_many() {
        let path = folder("replaced");
        for count in [1, SYNCED_EACH_MAX, SYNCED_EACH_MAX + 5] {
            let text = |index: usize| format!("{index} of {count}");
            replace_files(&path, (0..count).map(|index| (index.to_string().into(), text(index).into()))).unwrap();
            for index in 0..count {
                assert_eq!(fs::read_to_string(path.join(index.to_string())).unwrap(), text(index));
            }
        }
        let there = || fs::read_dir(&path).unwrap().count();
        assert_eq!(there(), SYNCED_EACH_MAX + 5, "nothing else is left");
        let impossible = [("0".into(), b"new".to_vec()), ("no/such/folder".into(), Vec::new())];
        assert!(replace_files(&path, impossible.into_iter()).is_err());
        assert_eq!(there(), SYNCED_EACH_MAX + 5, "nor after an error");
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_data_directory_that_others_may_enter_is_refused_with_the_line_that_mends_it() {
        let path = folder("data");
        let text = path.to_str().unwrap();
        data_directory(text).unwrap();
        assert_eq!(mode(&path), 0o700);
        for bad in [0o750, 0o755, 0o777, 0o701] {
            fs::set_permissions(&path, fs::Permissions::from_mode(bad)).unwrap();
            let refused = data_directory(text).unwrap_err().to_string();
            assert!(refused.contains(&format!("`chmod 0700 {text}`")), "{refused}");
            assert_eq!(mode(&path), bad, "it is not mended behind anybody's back");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        data_directory(text).unwrap();
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn who_may_write() {
        let path = folder("writers");
        make_directory(&path).unwrap();
        for (mode, expected) in [
            (0o700, None),
            (0o755, None),
            (0o777, Some("everybody".to_owned())),
            (0o1777, Some("everybody".to_owned())),
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(writers(&path), expected, "{mode:o}");
        }
        assert_eq!(writers(&path.join("none")), None);
        fs::remove_dir_all(path).unwrap();
    }
}

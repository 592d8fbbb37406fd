//! The folder `keys` of a data directory: the keys and lists of the cluster, for the owner of the directory alone.
//!
//! A file is written beside its place, synced and renamed, so that a power cut leaves the old content or the new. The
//! store knows nothing of this folder.

use crate::store::{SealKeys, SharedKeys, is_key_name, is_secret_file};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub const FOLDER: &str = "keys";
pub const AUTHORITY: &str = "ca.crt";
pub const AUTHORITY_KEY: &str = "ca.key";
/// The certificate of a new authority, signed by the old one.
pub const CROSS: &str = "ca-cross.crt";
pub const PROXY_AUTHORITY: &str = "front-proxy-ca.crt";
pub const PROXY_AUTHORITY_KEY: &str = "front-proxy-ca.key";
pub const ACCOUNTS: &str = "service-accounts.key";
pub const SERVER: &str = "server.crt";
pub const SERVER_KEY: &str = "server.key";
pub const CLOCK: &str = "clock";
/// How long masters have run, and the ages of certificates by that time.
pub const LIFE: &str = "life.json";
/// The file of static tokens and bootstrap tokens.
pub const TOKENS: &str = "tokens.json";
pub const ISSUED: &str = "issued.json";
pub const REVOKED: &str = "revoked";
/// Bytes of a file: the longest list takes some megabytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// What a file is called until it is whole.
const PARTIAL: &str = ".partial";
/// Held while a list is read, changed and written.
const LOCK: &str = "lock";

/// A file that a keeper has named.
pub fn read_any(path: &Path) -> Result<String, String> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text)).map_err(failed)?;
    Ok(text)
}

/// The folder, which need not be there yet.
#[derive(Clone, Debug)]
pub struct KeyFolder {
    path: PathBuf,
    /// What seals private keys. The other files are lists and certificates, and stay plain.
    keys: SharedKeys,
}

/// Whether a file is the one that was read: its number, time and length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(Option<(u64, i64, i64, u64)>);

impl Stamp {
    pub fn of(path: &Path) -> Stamp {
        Stamp(fs::metadata(path).ok().map(|found| (found.ino(), found.mtime(), found.mtime_nsec(), found.size())))
    }
}

impl KeyFolder {
    pub fn of(data_dir: &Path) -> KeyFolder {
        KeyFolder { path: data_dir.join(FOLDER), keys: SharedKeys::default() }
    }

    pub fn sealed_by(self, keys: SharedKeys) -> KeyFolder {
        KeyFolder { keys, ..self }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn stamp(&self, name: &str) -> Stamp {
        Stamp::of(&self.path(name))
    }

    /// `None`: there is no such file. Whatever else keeps it from being read is an error: unknown is not absent.
    pub fn read(&self, name: &str) -> Result<Option<String>, String> {
        let lies = self.read_raw(name)?;
        let open = |text: String| if is_secret_file(name) { self.keys.get().open_text(name, text) } else { Ok(text) };
        lies.map(open).transpose().map_err(|why| format!("{}: {why}", self.path(name).display()))
    }

    /// A file as it lies there.
    fn read_raw(&self, name: &str) -> Result<Option<String>, String> {
        let path = self.path(name);
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
            Ok(file) => {
                let mut text = String::new();
                file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
                match text.len() as u64 > FILE_BYTES_MAX {
                    true => Err(format!("{}: it has more than {FILE_BYTES_MAX} bytes", path.display())),
                    false => Ok(Some(text)),
                }
            }
        }
    }

    /// Puts a file in its place, durable when this returns.
    pub fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let lies = match self.keys.get() {
            SealKeys::Lost(why) if is_secret_file(name) => {
                return Err(format!("{} is to be sealed, and cannot be: {why}", self.path(name).display()));
            }
            keys if is_secret_file(name) => keys.seal_text(name, text),
            _ => text.to_owned(),
        };
        self.make()?;
        let (path, partial) = (self.path(name), self.path(&format!("{name}{PARTIAL}")));
        let written = (|| {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
            file.set_permissions(Permissions::from_mode(0o600))?;
            file.write_all(lies.as_bytes())?;
            file.sync_all()?;
            fs::rename(&partial, &path)?;
            File::open(&self.path)?.sync_all()
        })();
        written.map_err(|error| format!("write {}: {error}", path.display()))
    }

    /// Makes the folder, and closes it to others.
    fn make(&self) -> Result<(), String> {
        let failed = |error: io::Error| format!("make {}: {error}", self.path.display());
        match DirBuilder::new().mode(0o700).create(&self.path) {
            Ok(()) => {
                let above = self.path.parent().unwrap_or(Path::new("/"));
                File::open(above).and_then(|above| above.sync_all()).map_err(failed)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::set_permissions(&self.path, Permissions::from_mode(0o700)).map_err(failed)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Takes a file away, durable when this returns. A missing file is no error.
    pub fn remove(&self, name: &str) -> Result<(), String> {
        let removed = match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed.and_then(|()| File::open(&self.path)?.sync_all()),
        };
        removed.map_err(|error| format!("remove {}: {error}", self.path(name).display()))
    }

    /// Nobody else changes a list or a key until the value is dropped.
    pub fn hold(&self) -> Result<HeldFolder<'_>, String> {
        self.make()?;
        let path = self.path(LOCK);
        let failed = |error: io::Error| format!("lock {}: {error}", path.display());
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = lock.map_err(failed)?;
        lock.lock().map_err(failed)?;
        Ok(HeldFolder { folder: self, _lock: lock })
    }

    /// Reads a list, lets `change` change it, and writes it where it gives a text. Nobody else changes it meanwhile.
    pub fn update<T>(
        &self,
        name: &str,
        change: impl FnOnce(&str) -> Result<(Option<String>, T), String>,
    ) -> Result<T, String> {
        self.hold()?.update(name, change)
    }

    /// Writes the private keys anew that are not sealed as they should be, and removes what a crash left of earlier
    /// ones.
    pub fn reseal(&self) -> Result<(), String> {
        let keys = self.keys.get();
        let wants = |name: &str, text: &str| is_secret_file(name) && keys.wants_text(text);
        if !self.all()?.iter().any(|(name, text)| wants(name, text)) {
            return Ok(());
        }
        // Another process may have written a new key since: what counts is read under the lock.
        let _held = self.hold()?;
        for (name, _) in self.all()?.into_iter().filter(|(name, text)| wants(name, text)) {
            let path = self.path(&format!("{name}{PARTIAL}"));
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(format!("remove {}: {error}", path.display()));
                }
                _ => {}
            }
            if let Some(text) = self.read(&name)? {
                self.write(&name, &text)?;
            }
        }
        Ok(())
    }

    /// Every file, for a backup: name and content as it lies there. Nothing where there is no folder.
    pub fn all(&self) -> Result<Vec<(String, String)>, String> {
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| format!("{}: {error}", self.path.display()))?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| format!("{}: {error}", self.path.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == LOCK || name.ends_with(PARTIAL) || !is_key_name(&name) {
                continue;
            }
            if let Some(text) = self.read_raw(&name)? {
                files.push((name, text));
            }
        }
        files.sort();
        Ok(files)
    }
}

/// The text of a file that a master has made. `Err`: there is none.
pub fn needed(folder: &KeyFolder, name: &str) -> Result<String, String> {
    folder
        .read(name)?
        .ok_or_else(|| format!("{} is not there: start the master once, which makes it", folder.path(name).display()))
}

/// The folder, locked against other writers.
pub struct HeldFolder<'f> {
    folder: &'f KeyFolder,
    _lock: File,
}

impl HeldFolder<'_> {
    pub fn update<T>(
        &self,
        name: &str,
        change: impl FnOnce(&str) -> Result<(Option<String>, T), String>,
    ) -> Result<T, String> {
        let text = self.folder.read(name)?.unwrap_or_default();
        let (text, value) = change(&text).map_err(|why| format!("{}: {why}", self.folder.path(name).display()))?;
        if let Some(text) = text {
            self.folder.write(name, &text)?;
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another process makes a new key while private keys are sealed.
    #[test]
    fn sealing_loses_no_key_of_another_process() {
        let dir = std::env::temp_dir().join(format!("coracle-keys-resealed-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("ours");
        let folder = KeyFolder::of(&dir);
        folder.write(ACCOUNTS, "old").expect("written");
        let ring = crate::store::KeyRing::parse(&crate::store::key_line("k", &[7; 32])).expect("a key");
        let keys = SealKeys::Ring(std::sync::Arc::new(ring));
        let sealed = folder.clone().sealed_by(SharedKeys::new(keys));
        let held = folder.hold().expect("held");
        let inode = format!(":{} ", fs::metadata(folder.path(LOCK)).expect("there").ino());
        let is_waiting = || {
            let locks = fs::read_to_string("/proc/locks").expect("of the kernel");
            locks.lines().any(|line| line.contains("->") && line.contains(&inode))
        };
        let resealing = std::thread::spawn({
            let sealed = sealed.clone();
            move || sealed.reseal()
        });
        while !is_waiting() {
            assert!(!resealing.is_finished(), "it does not wait for the lock");
            std::thread::yield_now();
        }
        folder.write(ACCOUNTS, "new").expect("written");
        drop(held);
        resealing.join().expect("no panic").expect("sealed");
        assert_eq!(sealed.read(ACCOUNTS), Ok(Some("new".to_owned())));
        assert_ne!(folder.read_raw(ACCOUNTS), Ok(Some("new".to_owned())), "it is sealed");
        fs::remove_dir_all(&dir).expect("ours");
    }

    #[test]
    fn files_are_for_their_owner_alone() {
        let dir = std::env::temp_dir().join(format!("coracle-keys-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("ours");
        let folder = KeyFolder::of(&dir);
        assert_eq!((folder.read("a"), folder.all()), (Ok(None), Ok(Vec::new())));
        folder.write("a", "one").expect("written");
        let before = folder.stamp("a");
        fs::set_permissions(dir.join(FOLDER), Permissions::from_mode(0o755)).expect("ours");
        folder.write("a", "two").expect("written");
        assert_ne!(folder.stamp("a"), before);
        let mode = |path: PathBuf| fs::metadata(path).expect("there").mode() & 0o777;
        assert_eq!((mode(dir.join(FOLDER)), mode(folder.path("a"))), (0o700, 0o600));
        let changed = folder.update("a", |text| Ok((Some(format!("{text} three")), text.len())));
        assert_eq!(changed, Ok(3));
        assert_eq!(folder.all(), Ok(vec![("a".to_owned(), "two three".to_owned())]));
        // A file that is there and cannot be read is not absent.
        fs::create_dir(folder.path("b")).expect("ours");
        assert!(folder.read("b").is_err() && folder.all().is_err());
        fs::remove_dir_all(&dir).expect("ours");
    }
}

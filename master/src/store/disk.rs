//! The disk below the store, as few calls as it needs, so that tests can fail and cut each of them.

use super::OpenError;
use nix::fcntl::OFlag;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, DirEntryExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Paths are relative to the store's directory, with `/`; the empty one is the directory itself.
pub trait Disk: Send + Sync {
    /// Creates or truncates a file of mode 0600, writes it and makes its content durable: its name is not, before `sync_dir`.
    /// After an error nothing is known of the file.
    fn create(&self, path: &str, bytes: &[u8]) -> io::Result<()>;
    /// Atomic, also over an existing file; durable after `sync_dir` of both folders.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn unlink(&self, path: &str) -> io::Result<()>;
    /// One level, of mode 0700.
    fn make_dir(&self, path: &str) -> io::Result<()>;
    fn sync_dir(&self, path: &str) -> io::Result<()>;
    /// At most `bytes_max` bytes; a longer file is an error of kind FileTooLarge.
    fn read(&self, path: &str, bytes_max: usize) -> io::Result<Vec<u8>>;
    fn list(&self, path: &str) -> io::Result<Vec<Found>>;
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    pub name: String,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    File,
    Folder,
    /// A symbolic link, a pipe, a socket: never opened.
    Other,
}

pub struct RealDisk {
    root: PathBuf,
}

impl RealDisk {
    /// Makes the directory where it is missing.
    pub fn new(root: &Path) -> io::Result<RealDisk> {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        Ok(RealDisk { root: root.to_owned() })
    }

    fn at(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }
}

impl Disk for RealDisk {
    fn create(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(self.at(path))?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.at(path))
    }

    fn make_dir(&self, path: &str) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(self.at(path))
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        File::open(self.at(path))?.sync_all()
    }

    fn read(&self, path: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        // What is no file is not waited for, as a pipe would be, and a link is not followed out of the directory.
        let flags = (OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW).bits();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.at(path))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        let length = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        if length > bytes_max {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        let mut bytes = Vec::with_capacity(length + 1);
        file.take(bytes_max as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// In the order of inodes: that is how a cold card reads fastest.
    fn list(&self, path: &str) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.at(path))? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let what = if kind.is_file() {
                What::File
            } else if kind.is_dir() {
                What::Folder
            } else {
                What::Other
            };
            found.push((entry.ino(), Found { name: entry.file_name().to_string_lossy().into_owned(), what }));
        }
        found.sort();
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }
}

/// Takes the directory for this process, for as long as the file stays open.
pub fn lock(root: &Path) -> Result<File, OpenError> {
    let path = root.join("LOCK");
    let failed = |error: io::Error| OpenError::Io { path: path.clone(), error };
    let open = |write: bool| OpenOptions::new().read(true).write(write).create(write).truncate(false).mode(0o600).open(&path);
    // On a read-only file system an existing LOCK still locks.
    let mut file = open(true).or_else(|error| open(false).map_err(|_| error)).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            let line = format!("{}\n", std::process::id());
            // The pid is for people: the lock holds without it, on a full disk too.
            if let Err(error) = file.set_len(0).and_then(|()| file.write_all(line.as_bytes())) {
                log::warn!("{}: the pid could not be written: {error}", path.display());
            }
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            file.read_to_string(&mut pid).map_err(failed)?;
            Err(OpenError::InUse { dir: root.to_owned(), pid: pid.trim().to_owned() })
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// A fresh identity from the kernel.
pub fn random_uuid() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}

/// Which run of the host this is: what lies on tmpfs belongs to it alone.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

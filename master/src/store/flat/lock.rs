//! A data directory is one process's, for as long as that holds the lock.

use super::disk::UNFOLLOWED;
use crate::store::OpenError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of the file that are read: a pid has fewer.
const PID_BYTES_MAX: u64 = 32;

/// A directory that is this process's.
pub struct Lock {
    /// The folder itself, which nobody can remove and make anew under us as the file.
    _folder: File,
    /// For people, and for masters that lock the file alone.
    _file: File,
    /// The one that has the file's name since it was taken from a file of several names.
    _renewed: Option<File>,
}

/// The file that is locked, with a pid for people inside.
pub const LOCK: &str = "LOCK";

/// Takes the directory for this process, for as long as the file stays open.
pub fn lock(root: &Path) -> Result<Lock, OpenError> {
    let path = root.join(LOCK);
    let failed = |error: io::Error| OpenError::Io { path: path.clone(), error };
    if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
        return Err(failed(io::Error::other("it is no plain file, and nothing of the store's: move it away")));
    }
    let folder = File::open(root).map_err(failed)?;
    let alone = folder.try_lock();
    // A file that is open for writing would keep a file system from being mounted read-only; an existing one locks
    // there as well.
    let open = |options: &mut OpenOptions| options.mode(0o600).custom_flags(UNFOLLOWED.bits()).open(&path);
    let writing = open(OpenOptions::new().write(true).create(true));
    let file =
        open(OpenOptions::new().read(true)).map_err(|error| failed(writing.as_ref().err().map_or(error, again)))?;
    match alone.and_then(|()| file.try_lock()) {
        Ok(()) => {
            let renewed = writing.and_then(|writing| note_pid(&path, writing)).unwrap_or_else(|error| {
                log::warn!("{}: the pid could not be written: {error}", path.display());
                None
            });
            Ok(Lock { _folder: folder, _file: file, _renewed: renewed })
        }
        Err(TryLockError::WouldBlock) => {
            let mut pid = Vec::new();
            file.take(PID_BYTES_MAX).read_to_end(&mut pid).map_err(failed)?;
            let pid = String::from_utf8_lossy(&pid);
            // A process that could not write its pid has left the pid of an earlier process.
            let lives = |pid: &&str| writing.is_ok() && Path::new("/proc").join(pid).is_dir();
            Err(OpenError::InUse {
                dir: root.to_owned(),
                pid: Some(pid.trim()).filter(|pid| !pid.is_empty()).filter(lives).map(str::to_owned),
            })
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// The pid is for people: the lock holds without it, on a full disk too. A file that has another name as well is not
/// written to, for it may be anybody's: a new one takes this name.
fn note_pid(path: &Path, mut file: File) -> io::Result<Option<File>> {
    let is_linked = file.metadata()?.nlink() > 1;
    if is_linked {
        fs::remove_file(path)?;
        file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.try_lock().map_err(io::Error::other)?;
    }
    file.set_len(0)?;
    file.write_all(format!("{}\n", std::process::id()).as_bytes())?;
    Ok(is_linked.then_some(file))
}

/// The same error, to be told once more.
fn again(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::from(error.kind()), io::Error::from_raw_os_error)
}

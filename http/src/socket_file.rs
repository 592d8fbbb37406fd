//! The file of a Unix socket: whose it is, and a way to it that nobody can exchange meanwhile, however long its path.
//!
//! An address of a Unix socket has 107 bytes, and a connect follows links. So a file is opened as it lies there, looked
//! at, and then reached through its descriptor.
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub(crate) struct SocketFile(File);

impl SocketFile {
    /// Only what is a socket, and no link to one, and belongs to root or to this process' own user.
    pub(crate) fn open(path: &Path) -> io::Result<SocketFile> {
        let file = as_it_lies(path, OFlag::empty())?;
        let found = file.metadata()?;
        if !found.file_type().is_socket() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something that is not a socket"));
        }
        if !is_trusted(found.uid()) {
            let uid = found.uid();
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("the socket there is of user {uid}, not of root"),
            ));
        }
        Ok(SocketFile(file))
    }

    /// As long as this value lives.
    pub(crate) fn address(&self) -> PathBuf {
        through(&self.0)
    }
}

/// Root, or this process' own user.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

/// Nothing is read of it, and a link is opened itself.
pub(crate) fn as_it_lies(path: &Path, more: OFlag) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags((OFlag::O_PATH | OFlag::O_NOFOLLOW | more).bits()).open(path)
}

pub(crate) fn through(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

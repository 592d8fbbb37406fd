//! A failed operation of the disk, as people are told of it. PURE.

use std::fmt;
use std::io;

/// A failed operation of the disk.
#[derive(Debug)]
pub struct DiskError {
    pub what: String,
    pub error: io::Error,
}

impl DiskError {
    pub fn no_space(&self) -> bool {
        matches!(self.error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)?;
        match self.error.kind() {
            _ if self.no_space() => {
                f.write_str("; make room on its file system, or move the data directory to a larger one")
            }
            io::ErrorKind::CrossesDevices => f.write_str(
                "; the whole data directory has to lie on one file system: mount nothing on its folders, but on itself",
            ),
            io::ErrorKind::ReadOnlyFilesystem => f.write_str("; mount it for writing again"),
            _ => Ok(()),
        }
    }
}

pub fn failed(verb: &str, path: &str) -> impl FnOnce(io::Error) -> DiskError {
    let what = format!("cannot {verb} {path}");
    move |error| DiskError { what, error }
}

/// Whether it may be that something stands where a file or a folder belongs, or that a folder is gone.
pub fn is_in_the_way(error: &DiskError) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, IsADirectory, NotADirectory, NotFound};
    matches!(error.error.kind(), AlreadyExists | DirectoryNotEmpty | IsADirectory | NotADirectory | NotFound)
}

//! The files of a volume that the agent fills itself, as values. PURE.

use std::fmt;
use std::sync::Arc;

pub const STAMP_LENGTH: usize = 16;
/// All files of one volume: an object has at most one megabyte, and a volume may be made of several.
pub const VOLUME_BYTES_MAX: usize = 4 << 20;
/// The limit for all such volumes in a pod.
pub const POD_BYTES_MAX: usize = 16 << 20;
/// A file counts for no less: its name and place take as much.
pub const FILE_BYTES_MIN: usize = 1024;

/// One file of a volume.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeFile {
    /// Relative, without `.` and `..`.
    pub path: String,
    pub bytes: Arc<[u8]>,
    pub mode: u32,
    pub user: Option<u32>,
}

/// Its content stands in no log.
impl fmt::Debug for VolumeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:o} {:?} {} bytes", self.path, self.mode, self.user, self.bytes.len())
    }
}

/// All of a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Content {
    pub stamp: String,
    pub files: Vec<VolumeFile>,
    /// Empty directories as mount points for the pod's other volumes.
    pub folders: Vec<String>,
    pub group: Option<u32>,
}

/// The stamp in the name that the link to the content leads to.
pub fn stamp_of(directory: &str) -> Option<&str> {
    directory.rsplit('.').next()?.get(..STAMP_LENGTH)
}

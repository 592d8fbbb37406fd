//! The folders of a data directory: how they are called, how one is made, and whether the directory is there.

use super::disk::Disk;
use super::disk_error::{DiskError, failed};
use std::io;

pub const OBJECTS: &str = "objects";
pub const TMP: &str = "tmp";
pub const QUARANTINE: &str = "quarantine";

/// Whether the directory is where it was.
pub fn here(disk: &dyn Disk) -> Result<(), DiskError> {
    match disk.gone() {
        None => Ok(()),
        Some(why) => Err(failed("write", "the data directory")(io::Error::other(why))),
    }
}

/// Makes every missing level of a path, durable in the level above: a folder that stands may be one that a crash left
/// half made.
pub fn make_folder(disk: &dyn Disk, folder: &str) -> Result<(), DiskError> {
    for level in levels(folder) {
        make_one(disk, level)?;
        let above = level.rsplit_once('/').map_or("", |(above, _)| above);
        disk.sync_dir(above).map_err(failed("fsync", if above.is_empty() { "the data directory" } else { above }))?;
    }
    Ok(())
}

/// One level, not yet durable.
pub fn make_one(disk: &dyn Disk, level: &str) -> Result<(), DiskError> {
    match disk.make_dir(level) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done.map_err(failed("make", level)),
    }
}

/// A path and the folders that it lies in, the outermost first.
pub fn levels(folder: &str) -> impl Iterator<Item = &str> {
    let ends = folder.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| at).chain([folder.len()]);
    ends.map(|end| &folder[..end])
}

//! The objects' files and their folders, as a checkpoint writes them: `tmp/N`, renamed over `objects/...`. Nothing of it is durable before
//! the checkpoint's one sync.

use super::disk::Disk;
use super::{document, names};
use coracle_api::meta::Key;
use std::collections::HashSet;
use std::fmt;
use std::io;

pub const OBJECTS: &str = "objects";
pub const TMP: &str = "tmp";
pub const QUARANTINE: &str = "quarantine";

/// What the disk would not do.
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
        write!(f, "{}: {}", self.what, self.error)
    }
}

/// Writes object files.
#[derive(Default)]
pub struct Files {
    /// What `objects` lies below: nothing, or a folder with its slash.
    root: String,
    /// Folders that are known to stand.
    folders: HashSet<String>,
    tmp_next: u64,
}

impl Files {
    /// Of objects that lie below a folder.
    pub fn below(folder: &str) -> Files {
        Files { root: format!("{folder}/"), ..Files::default() }
    }

    /// Brings an object's file to what it should say: a compact document, or None: that there is none.
    pub fn bring(&mut self, disk: &dyn Disk, key: &Key, wanted: Option<&[u8]>) -> Result<(), DiskError> {
        let path = format!("{}{OBJECTS}/{}", self.root, names::path(key));
        let Some(compact) = wanted else {
            return match disk.unlink(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                done => done.map_err(failed("remove", &path)),
            };
        };
        let (folder, _) = path.rsplit_once('/').expect("every file lies in a folder");
        self.make_folder(disk, folder)?;
        self.tmp_next += 1;
        let tmp = format!("{TMP}/{}", self.tmp_next);
        let text = document::indented(compact);
        let written = disk.put(&tmp, &text, Some(document::crc32(compact))).map_err(failed("write", &tmp));
        let done = written.and_then(|()| match disk.rename(&tmp, &path) {
            // Somebody removed the folder under us.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.folders.clear();
                self.make_folder(disk, folder)?;
                disk.rename(&tmp, &path).map_err(failed("rename", &path))
            }
            done => done.map_err(failed("rename", &path)),
        });
        if done.is_err() {
            // If it stays it costs space until the next start, nothing else.
            disk.unlink(&tmp).ok();
        }
        done
    }

    fn make_folder(&mut self, disk: &dyn Disk, folder: &str) -> Result<(), DiskError> {
        for level in levels(folder) {
            if !self.folders.contains(level) {
                make_one(disk, level)?;
                self.folders.insert(level.to_owned());
            }
        }
        Ok(())
    }
}

/// Makes every missing level of a path, durable in the level above: a folder that stands may be one that a crash left half made.
pub fn make_folder(disk: &dyn Disk, folder: &str) -> Result<(), DiskError> {
    for level in levels(folder) {
        make_one(disk, level)?;
        let above = level.rsplit_once('/').map_or("", |(above, _)| above);
        disk.sync_dir(above).map_err(failed("fsync", if above.is_empty() { "the data directory" } else { above }))?;
    }
    Ok(())
}

pub fn failed(verb: &str, path: &str) -> impl FnOnce(io::Error) -> DiskError {
    let what = format!("cannot {verb} {path}");
    move |error| DiskError { what, error }
}

/// One level, not yet durable.
pub fn make_one(disk: &dyn Disk, level: &str) -> Result<(), DiskError> {
    match disk.make_dir(level) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done.map_err(failed("make", level)),
    }
}

fn levels(folder: &str) -> impl Iterator<Item = &str> {
    let ends = folder.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| at).chain([folder.len()]);
    ends.map(|end| &folder[..end])
}

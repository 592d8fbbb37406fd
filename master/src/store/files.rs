//! The durable side of the store: makes one change durable at a time, reserves revisions, and knows what it could not settle.
//! Everything above asks for nothing but `make_durable`, `reserve` and `close`.
//!
//! ```text
//! put:    tmp/N (written, fsynced) -> rename over objects/... -> fsync of the folder
//! remove: unlink -> fsync of the folder
//! ```
//!
//! Where a step fails after the file's name has changed, nobody knows what a power cut would leave. The change is refused, and what
//! memory holds is written again before anything else is.

use super::disk::Disk;
use super::document::crc32;
use super::names;
use super::quarantine;
use super::state::FileStep;
use coracle_api::meta::{Key, Revision};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::io;
use std::sync::Arc;

/// The form of the directory that this program writes and reads.
pub const FORMAT: u32 = 1;
/// Revisions reserved at a time: so many volatile writes cost one write of HEAD.json.
pub const RESERVE: u64 = 100_000;
/// HEAD.json is a line of some 150 bytes.
pub const HEAD_BYTES_MAX: usize = 4096;

pub const HEAD: &str = "HEAD.json";
pub const OBJECTS: &str = "objects";
pub const TMP: &str = "tmp";
pub const QUARANTINE: &str = "quarantine";

/// HEAD.json: what no object's file can say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    pub format: u32,
    /// The identity of this store.
    pub store: String,
    /// No revision above this one has been used.
    pub reserved: u64,
    /// Closed by its master: `reserved` is exact, and `files` tells whether somebody edited the files since.
    pub clean: bool,
    /// The sum of the checksums of all files.
    pub files: u64,
}

impl Head {
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string(self).expect("plain fields");
        text.pop();
        let crc = crc32(text.as_bytes());
        format!("{text},\"crc\":\"{crc:08x}\"}}\n")
    }

    /// None: damaged.
    pub fn from_text(text: &str) -> Option<Head> {
        let (checked, crc) = text.trim_end().strip_suffix("\"}")?.rsplit_once(",\"crc\":\"")?;
        let head = serde_json::from_str(&format!("{checked}}}")).ok()?;
        (u32::from_str_radix(crc, 16) == Ok(crc32(checked.as_bytes()))).then_some(head)
    }
}

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

pub struct Files {
    disk: Arc<dyn Disk>,
    head: Head,
    /// Folders below `objects` whose own names are known to be durable.
    folders: HashSet<String>,
    /// Files that may differ from memory after a failure, and what memory says: None, that there is none.
    unsettled: BTreeMap<String, Option<Vec<u8>>>,
    /// Damaged keys and the folders in quarantine that say so.
    pub incidents: BTreeMap<Key, BTreeSet<String>>,
    /// Damaged keys whose files could not be moved away, and the word for it.
    pub in_place: BTreeMap<Key, &'static str>,
    pub incident_next: u32,
    tmp_next: u64,
}

impl Files {
    pub fn new(disk: Arc<dyn Disk>, head: Head, incidents: BTreeMap<Key, BTreeSet<String>>) -> Files {
        let (folders, unsettled) = (HashSet::new(), BTreeMap::new());
        Files { disk, head, folders, unsettled, incidents, in_place: BTreeMap::new(), incident_next: 1, tmp_next: 0 }
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Makes the step durable. `now`: the file as memory has it, for when the step fails half-way.
    pub fn make_durable(&mut self, key: &Key, step: &FileStep, now: impl FnOnce() -> Option<Vec<u8>>) -> Result<(), DiskError> {
        if *step == FileStep::Keep {
            return Ok(());
        }
        self.settle()?;
        if *step == FileStep::Settle {
            return self.settle_incidents(key);
        }
        let path = format!("{OBJECTS}/{}", names::path(key));
        let wanted = if let FileStep::Put(text) = step { Some(text.as_slice()) } else { None };
        let mut touched = false;
        let done = self.bring(&path, wanted, &mut touched);
        if done.is_err() && touched {
            self.unsettled.insert(path, now());
        }
        done
    }

    /// Revisions up to and including this one may be used. Reserves ahead, so that this seldom touches the disk.
    pub fn reserve(&mut self, revision: Revision, disk_anyway: bool) -> Result<(), DiskError> {
        let short = self.head.reserved.saturating_sub(revision.0) < RESERVE / 2;
        // With half of them left a failure harms nobody yet: volatile writes go on while the disk is full.
        if revision.0 <= self.head.reserved && !(short && disk_anyway) {
            return Ok(());
        }
        let head = Head { reserved: revision.0 + RESERVE, clean: false, files: 0, ..self.head.clone() };
        match self.write_head(head) {
            Err(_) if revision.0 <= self.head.reserved => Ok(()),
            done => done,
        }
    }

    /// The last word: no revision above `last` was used, and the files sum up to `files`.
    pub fn close(&mut self, last: Revision, files: u64) -> Result<(), DiskError> {
        self.settle()?;
        self.write_head(Head { reserved: last.0, clean: true, files, ..self.head.clone() })
    }

    pub fn write_head(&mut self, head: Head) -> Result<(), DiskError> {
        let tmp = self.create_tmp(head.to_text().as_bytes())?;
        self.rename(&tmp, HEAD)?;
        self.sync("")?;
        self.head = head;
        Ok(())
    }

    fn settle(&mut self) -> Result<(), DiskError> {
        while let Some((path, wanted)) = self.unsettled.first_key_value().map(|(path, wanted)| (path.clone(), wanted.clone())) {
            self.bring(&path, wanted.as_deref(), &mut false)?;
            self.unsettled.remove(&path);
        }
        Ok(())
    }

    /// `touched` says, also after a failure, whether the name in `objects` may have changed.
    fn bring(&mut self, path: &str, wanted: Option<&[u8]>, touched: &mut bool) -> Result<(), DiskError> {
        let (folder, _) = path.rsplit_once('/').expect("every file lies in a folder");
        match wanted {
            Some(text) => {
                self.make_folder(folder)?;
                let tmp = self.create_tmp(text)?;
                *touched = true;
                self.rename(&tmp, path).or_else(|error| {
                    // Somebody removed the folder under us.
                    if error.error.kind() != io::ErrorKind::NotFound {
                        return Err(error);
                    }
                    self.folders.clear();
                    self.make_folder(folder)?;
                    self.rename(&tmp, path)
                })?;
            }
            None => {
                *touched = true;
                match self.disk.unlink(path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    done => done.map_err(failed("remove", path))?,
                }
            }
        }
        match self.sync(folder) {
            // Without its folder the file is gone, too.
            Err(error) if wanted.is_none() && error.error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// A new file in `tmp`, its content durable. After a failure nothing is left of it.
    fn create_tmp(&mut self, text: &[u8]) -> Result<String, DiskError> {
        self.tmp_next += 1;
        let tmp = format!("{TMP}/{}", self.tmp_next);
        match self.disk.create(&tmp, text) {
            Ok(()) => Ok(tmp),
            Err(error) => {
                // If it stays it costs space until the next start, nothing else.
                self.disk.unlink(&tmp).ok();
                Err(failed("write", &tmp)(error))
            }
        }
    }

    fn rename(&self, tmp: &str, path: &str) -> Result<(), DiskError> {
        self.disk.rename(tmp, path).map_err(|error| failed("rename", path)(error))
    }

    fn sync(&self, folder: &str) -> Result<(), DiskError> {
        self.disk.sync_dir(folder).map_err(|error| failed("fsync", if folder.is_empty() { "the data directory" } else { folder })(error))
    }

    /// Every level's name is made durable in the level above, once a run: a folder that stands may be one that a crash left half made.
    fn make_folder(&mut self, folder: &str) -> Result<(), DiskError> {
        if self.folders.contains(folder) {
            return Ok(());
        }
        make_folder(&*self.disk, folder, &mut self.folders)
    }

    /// The quarantined file stays; its folder's new name says that nobody waits for it.
    fn settle_incidents(&mut self, key: &Key) -> Result<(), DiskError> {
        if let Some(word) = self.in_place.get(key) {
            let (path, folder) = (names::path(key), quarantine::folder(self.incident_next, word));
            quarantine::set_aside(&*self.disk, &format!("{OBJECTS}/{path}"), &path, &folder)?;
            self.incident_next += 1;
            self.incidents.entry(key.clone()).or_default().insert(folder);
            self.in_place.remove(key);
        }
        let Some(folders) = self.incidents.get(key).cloned() else { return Ok(()) };
        for folder in &folders {
            quarantine::settle(&*self.disk, folder)?;
        }
        self.incidents.remove(key);
        Ok(())
    }
}

/// Makes every missing level of a path and makes their names durable.
pub fn make_folder(disk: &dyn Disk, folder: &str, known: &mut HashSet<String>) -> Result<(), DiskError> {
    let ends = folder.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| at).chain([folder.len()]);
    for end in ends {
        let level = &folder[..end];
        if known.contains(level) {
            continue;
        }
        match disk.make_dir(level) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => done.map_err(failed("make", level))?,
        }
        let above = level.rsplit_once('/').map_or("", |(above, _)| above);
        disk.sync_dir(above).map_err(failed("fsync", above))?;
        known.insert(level.to_owned());
    }
    Ok(())
}

pub fn failed(verb: &str, path: &str) -> impl FnOnce(io::Error) -> DiskError {
    let what = format!("cannot {verb} {path}");
    move |error| DiskError { what, error }
}

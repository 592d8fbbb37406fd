//! The objects' files and their folders, as a checkpoint writes them: `tmp/N`, put in the place of `objects/...`. No
//! file is durable before the checkpoint's one sync.

use super::content::FILE_BYTES_MAX;
use super::disk::{Disk, Stamp};
use super::disk_error::{DiskError, failed, is_in_the_way};
use super::folders::{OBJECTS, QUARANTINE, TMP, levels, make_one};
use super::journal::record::Was;
use super::{document, names, quarantine};
use coracle_api::meta::Key;
use std::collections::{BTreeSet, HashSet};
use std::io;

/// Writes object files.
#[derive(Default)]
pub struct Files {
    /// The prefix of `objects`: empty, or a directory with its slash.
    root: String,
    /// Folders that are known to stand.
    folders: HashSet<String>,
    tmp_next: u64,
    /// Each file is made durable by itself; `sync_folders` does the rest.
    pub each: bool,
    /// The directories whose content has changed.
    changed: BTreeSet<String>,
    /// The files that were set aside, with the reasons.
    pub kept: Vec<String>,
    /// The number of the next incident, as far as there was one.
    pub next_incident: u32,
}

impl Files {
    /// The keys of objects below a directory.
    pub fn below(folder: &str) -> Files {
        Files { root: format!("{folder}/"), ..Files::default() }
    }

    /// The same beside people who may have written to the files while the master runs. `was`: what the file was left
    /// with.
    pub fn replace(&mut self, disk: &dyn Disk, key: &Key, wanted: Option<&[u8]>, was: Was) -> Result<(), DiskError> {
        self.keep_edit(disk, key, wanted, was)?;
        match self.bring(disk, key, wanted) {
            Err(error) if is_in_the_way(&error) => {
                let (path, tmp) = (format!("{OBJECTS}/{}", names::path(key)), format!("{TMP}/{}", self.tmp_next));
                self.make_way(disk, &[&path, &tmp])?;
                self.bring(disk, key, wanted)
            }
            done => done,
        }
    }

    /// Whoever put something where the master writes shall find it again.
    pub fn make_way(&mut self, disk: &dyn Disk, paths: &[&str]) -> Result<(), DiskError> {
        for path in paths {
            self.kept.extend(quarantine::make_way(disk, path)?);
        }
        self.next_incident = quarantine::next_number(disk).map_err(failed("list", QUARANTINE))?;
        self.folders.clear();
        make_one(disk, TMP)
    }

    /// Brings an object's file to what it should say: a compact document, or None: that there is none.
    pub fn bring(&mut self, disk: &dyn Disk, key: &Key, wanted: Option<&[u8]>) -> Result<(), DiskError> {
        let path = format!("{}{OBJECTS}/{}", self.root, names::path(key));
        if self.each {
            self.changed.extend(path.rsplit_once('/').map(|(folder, _)| folder.to_owned()));
        }
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
        let text = document::indented_within(compact, FILE_BYTES_MAX);
        let written = disk.put(&tmp, &text, Some(document::crc32(compact)));
        let written = written
            .and_then(|()| if self.each { disk.open(&tmp)?.sync() } else { Ok(()) })
            .map_err(failed("write", &tmp));
        let done = written.and_then(|()| match disk.replace(&tmp, &path) {
            // Somebody removed the folder under us.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.folders.clear();
                self.make_folder(disk, folder)?;
                disk.replace(&tmp, &path).map_err(failed("rename", &path))
            }
            done => done.map_err(failed("rename", &path)),
        });
        if done.is_err() {
            // If it stays it costs space until the next start, nothing else.
            disk.unlink(&tmp).ok();
        }
        done
    }

    /// Whoever wrote to a file while the master ran was not heard; his work is not thrown away either.
    fn keep_edit(&mut self, disk: &dyn Disk, key: &Key, wanted: Option<&[u8]>, was: Was) -> Result<(), DiskError> {
        let path = format!("{OBJECTS}/{}", names::path(key));
        let (left, touched) = match disk.stamp(&path) {
            // Content that differs from an intact stamp is damage by the medium, not an edit.
            Ok(Stamp::Intact(crc)) if was == Was::Sum(crc) => return Ok(()),
            Ok(Stamp::Touched(crc)) => (Was::Sum(crc), true),
            Ok(Stamp::None | Stamp::Intact(_)) | Err(_) => (was, false),
        };
        let edited = match disk.read(&path, FILE_BYTES_MAX) {
            Ok(bytes) => {
                let mut compact = Vec::new();
                document::stripped(&bytes, &mut compact);
                let crc = document::crc32(&compact);
                // A start that could not write knows of an edit that the stamp shows as well.
                left != Was::Unknown
                    && ![left, was].contains(&Was::Sum(crc))
                    && wanted.map(document::crc32) != Some(crc)
            }
            Err(error) => match error.kind() {
                // What is no file is in the way.
                io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::InvalidInput => false,
                io::ErrorKind::FileTooLarge => true,
                _ if touched || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => true,
                // It may be anybody's: that is known at the next try, or the one after it.
                _ => return Err(failed("read", &path)(error)),
            },
        };
        if !edited {
            return Ok(());
        }
        let number = quarantine::next_number(disk).map_err(failed("list", QUARANTINE))?;
        let to = quarantine::keep(disk, &path, &names::path(key), number)?;
        self.next_incident = number + 1;
        self.kept.push(format!(
            "{path} was edited while the master ran, and then written by it: the edit does not count, and lies in {to}"
        ));
        Ok(())
    }

    /// Makes what was brought durable. False: not like that, each has to be brought again by itself.
    pub fn settle(&mut self, disk: &dyn Disk) -> Result<bool, DiskError> {
        if self.each {
            return self.sync_folders(disk).map(|()| true);
        }
        let done = disk.sync_all();
        self.each = done.is_err();
        Ok(done.is_ok())
    }

    /// What `each` leaves to do.
    pub fn sync_folders(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        let mut folders = BTreeSet::from([String::new()]);
        for folder in std::mem::take(&mut self.changed) {
            folders.extend(levels(&folder).map(str::to_owned));
        }
        // The inner ones first: a name is worth something once what it names is there.
        for folder in folders.iter().rev() {
            match disk.sync_dir(folder) {
                // An object was removed that had no folder any more.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done.map_err(failed("fsync", if folder.is_empty() { "the data directory" } else { folder }))?,
            }
        }
        Ok(())
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

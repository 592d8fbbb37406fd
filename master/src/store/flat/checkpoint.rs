//! Brings the files up to what the journal has said since the last time, so that the journal may be forgotten. Commits
//! go on meanwhile.
//!
//! ```text
//! begin (with the writer: what changed, where the journal stands)
//!   -> step, step, ... (a file each: tmp, rename; or unlink)
//!   -> one sync of everything (where there is none: each file and folder) -> HEAD.json says so, durable
//!   -> with the writer: segments before it are superseded
//! ```
//!
//! A value that advances in steps, so that the simulation can put commits and cuts between them. Where a step fails,
//! HEAD.json stays, the journal stays, and what is not durable is brought anew by the next checkpoint.

use super::content::FILE_BYTES_MAX;
use super::disk::{Disk, Stamp};
use super::disk_error::{DiskError, failed, is_in_the_way};
use super::entry;
use super::files::Files;
use super::folders::{OBJECTS, TMP};
use super::head::{HEAD, Head};
use super::journal::record::Was;
use super::protocol::{Protocol, ProtocolRule};
use super::seal::keys::SealKey;
use super::seal::{Sealing, has_sealed_part, sealed};
use super::summary::Sketch;
use super::{document, names};
use bytes::Bytes;
use coracle_api::meta::{Durable, Key, Revision};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// An object that the journal has and its file does not hold yet. It shares the bytes that memory holds anyway, and is
/// taken out of them when the file is brought.
pub struct NewFile {
    json: Bytes,
    durable: Durable,
    crc: u32,
    /// The revision of the durable part; the object's own may be later.
    revision: Option<Revision>,
    /// The key by which the file is sealed, and of which object it is.
    seal: Option<(Arc<SealKey>, Arc<Key>)>,
}

impl NewFile {
    /// An object that has just become durable. None: nothing of it is.
    pub fn of(entry: &entry::Entry, sealing: &Sealing) -> Option<NewFile> {
        let entry::Entry { stored, durable, file_crc, .. } = entry;
        Some(NewFile {
            json: stored.json.clone(),
            durable: *durable,
            crc: (*file_crc)?,
            revision: Some(stored.revision),
            seal: sealing.key_of(&stored.key).ok().flatten().map(|seal| (seal.clone(), stored.key.clone())),
        })
    }

    /// A durable part by itself, compact.
    pub fn part(json: Bytes) -> NewFile {
        let crc = document::crc32(&json);
        NewFile { json, durable: Durable::Whole, crc, revision: None, seal: None }
    }

    /// The text itself is sealed, and says nothing of the object: it stays as it is.
    fn is_sealed_text(&self) -> bool {
        self.seal.is_none() && self.revision.is_none() && has_sealed_part(&self.json)
    }

    /// The approximate disk space of its file.
    fn room(&self) -> u64 {
        room_of(self.json.len())
    }

    /// The very bytes that the journal holds.
    fn compact(&self) -> Bytes {
        if document::crc32(&self.json) == self.crc {
            return self.json.clone();
        }
        let part = || document::durable_part(&self.json, self.durable, self.revision).unwrap_or_default();
        let compact = match &self.seal {
            Some((seal, key)) => sealed(seal, key, &part()).unwrap_or_default(),
            None => part(),
        };
        debug_assert_eq!(document::crc32(&compact), self.crc, "{}", String::from_utf8_lossy(&compact));
        compact
    }
}

/// A file that is behind.
struct Due {
    /// None: there is no such object.
    wanted: Option<NewFile>,
    /// The content of the file, unless another program has written to the file.
    was: Was,
}

/// Keys that there is room for in any case.
const KEYS_KEPT: usize = 64;

/// The keys whose files are behind. It holds at most what the journal holds.
#[derive(Default)]
pub struct Dirty {
    keys: HashMap<Arc<Key>, Due>,
    /// Files that are as they should be, but for their stamps: their checksums.
    unstamped: HashMap<Arc<Key>, u32>,
    /// When the first came, in uptime.
    since: Option<Duration>,
    /// The disk space of files that failed checkpoints have written.
    brought_bytes: u64,
    /// A checkpoint failed: the set of written files is unknown.
    failed: bool,
}

impl Dirty {
    /// `was`: the content of the file, if the file was not behind before. An object that came and went has no file and
    /// needs no file.
    pub fn add(&mut self, key: Arc<Key>, wanted: Option<NewFile>, was: Was, uptime: Duration) {
        self.since.get_or_insert(uptime);
        match self.keys.entry(key) {
            Entry::Occupied(due) if wanted.is_none() && due.get().was == Was::Absent && !self.failed => {
                due.remove();
            }
            Entry::Occupied(mut due) => due.get_mut().wanted = wanted,
            Entry::Vacant(place) => _ = place.insert(Due { wanted, was }),
        }
        // A burst that is over leaves no table behind for as many as it had.
        if self.keys.capacity() > KEYS_KEPT && self.keys.len() < self.keys.capacity() / 8 {
            self.keys.shrink_to_fit();
        }
    }

    /// What of an object lives in memory alone has changed. Its file is still to say the same.
    pub fn share(&mut self, entry: &entry::Entry) {
        if let Some(Due { wanted: Some(wanted), .. }) = self.keys.get_mut(&entry.stored.key)
            && !wanted.is_sealed_text()
            && let Some(revision) = wanted.revision.or_else(|| Sketch::of(&wanted.json)?.revision())
        {
            wanted.revision = Some(revision);
            (wanted.json, wanted.durable) = (entry.stored.json.clone(), entry.durable);
        }
    }

    /// The journal need not know such a file, so its content is never replaced: a cut could leave neither.
    pub fn stamp(&mut self, key: Arc<Key>, crc: u32, uptime: Duration) {
        self.since.get_or_insert(uptime);
        self.unstamped.insert(key, crc);
    }

    pub fn since(&self) -> Option<Duration> {
        self.since
    }

    pub fn holds(&self, key: &Key) -> bool {
        self.keys.contains_key(key)
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.unstamped.is_empty()
    }

    /// A checkpoint failed: what it took is behind still, but for what was written since.
    fn put_back(&mut self, Checkpoint { wanted: files, unstamped, since, brought_bytes, .. }: Checkpoint) {
        (self.brought_bytes, self.failed) = (brought_bytes, true);
        self.unstamped.extend(unstamped);
        for (key, due) in files {
            match self.keys.entry(key) {
                Entry::Occupied(mut newer) => newer.get_mut().was = due.was,
                Entry::Vacant(place) => _ = place.insert(due),
            }
        }
        self.since = since.or(self.since);
    }
}

/// The disk space that files may use.
#[derive(Default)]
struct Room {
    /// Before it is asked again.
    left: u64,
    /// Stays in any case; None: not asked yet.
    spared: Option<u64>,
}

pub struct Checkpoint {
    pub disk: Arc<dyn Disk>,
    protocol: Protocol,
    /// The content of the new HEAD.json.
    pub head: Head,
    wanted: Vec<(Arc<Key>, Due)>,
    unstamped: Vec<(Arc<Key>, u32)>,
    since: Option<Duration>,
    brought_bytes: u64,
    done: usize,
    sorted: bool,
    pub files: Files,
    /// The disk space that is left to the journal, where the files may need all of it.
    pub spared: u64,
    room: Room,
    /// This disk has no sync of everything, and need not be asked again.
    pub each_alone: bool,
}

impl Checkpoint {
    pub fn begin(disk: Arc<dyn Disk>, protocol: Protocol, head: Head, dirty: &mut Dirty) -> Checkpoint {
        let Dirty { keys, unstamped, since, brought_bytes, .. } = std::mem::take(dirty);
        let unstamped = unstamped.into_iter().filter(|(key, _)| !keys.contains_key(key)).collect();
        let wanted = keys.into_iter().collect();
        Checkpoint {
            disk,
            protocol,
            head,
            wanted,
            unstamped,
            since,
            brought_bytes,
            done: 0,
            sorted: false,
            files: Files::default(),
            spared: 0,
            room: Room::default(),
            each_alone: false,
        }
    }

    /// Brings one file. False: all are brought.
    pub fn step(&mut self) -> Result<bool, DiskError> {
        // Not in `begin`, over which writers wait.
        if !std::mem::replace(&mut self.sorted, true) {
            // On a full disk the files that go make room for the others.
            self.wanted.sort_unstable_by(|(key, due), (other, others)| {
                due.wanted.is_some().cmp(&others.wanted.is_some()).then_with(|| key.cmp(other))
            });
        }
        if let Some((key, due)) = self.wanted.get_mut(self.done) {
            let compact = due.wanted.as_ref().map(NewFile::compact);
            let key = key.clone();
            if let Some(compact) = &compact {
                self.take_room(&key, compact.len())?;
            }
            let (_, due) = &mut self.wanted[self.done];
            self.files.replace(&*self.disk, &key, compact.as_deref(), due.was)?;
            due.was = Was::of(due.wanted.as_ref().map(|wanted| wanted.crc));
        } else if let Some((key, crc)) = self.unstamped.get(self.done - self.wanted.len()) {
            self.head.stamped &= self.mark(key, *crc);
        } else {
            return Ok(false);
        }
        self.done += 1;
        Ok(true)
    }

    /// Files that do not all fit would take the last block, and no delete had room for its record, least of all after a
    /// start.
    fn take_room(&mut self, key: &Key, bytes: usize) -> Result<(), DiskError> {
        if room_of(bytes) > self.room.left {
            let Some(room) = self.disk.room() else { return Ok(()) };
            let rest = || self.wanted[self.done..].iter().filter_map(|(_, due)| due.wanted.as_ref());
            let needed = || self.brought_bytes + rest().map(NewFile::room).sum::<u64>();
            let spared = || if room / 2 > needed() { 0 } else { self.spared };
            let spared = self.room.spared.unwrap_or_else(spared);
            self.room = Room { left: room.saturating_sub(spared), spared: Some(spared) };
        }
        let short = || {
            let why =
                format!("the last {} bytes are left to the journal, for deletes", self.room.spared.unwrap_or_default());
            failed("write", &format!("{OBJECTS}/{}", names::path(key)))(io::Error::new(io::ErrorKind::StorageFull, why))
        };
        self.room.left = self.room.left.checked_sub(room_of(bytes)).ok_or_else(short)?;
        Ok(())
    }

    /// Whether the file has its stamp. One that somebody has written to meanwhile shall be known by having none.
    fn mark(&self, key: &Key, crc: u32) -> bool {
        let path = format!("{OBJECTS}/{}", names::path(key));
        let Ok(text) = self.disk.read(&path, FILE_BYTES_MAX) else { return true };
        let mut compact = Vec::new();
        document::stripped(&text, &mut compact);
        let synced = || if self.files.each { self.disk.open(&path)?.sync() } else { Ok(()) };
        document::crc32(&compact) != crc || self.disk.mark(&path, crc).and_then(|()| synced()).is_ok()
    }

    /// Makes it count. Everything has been brought.
    pub fn publish(&mut self) -> Result<(), DiskError> {
        while self.step()? {}
        if let Some((key, _)) = self.wanted.iter().rev().find(|(_, due)| due.wanted.is_some()) {
            // Not every file system keeps stamps.
            let stamp = self.disk.stamp(&format!("{OBJECTS}/{}", names::path(key)));
            self.head.stamped &= stamp.is_ok_and(|stamp| matches!(stamp, Stamp::Intact(_)));
        }
        if self.protocol.holds(ProtocolRule::ObjectsBeforeHead) {
            self.settle()?;
            // The files are durable, even if the write of HEAD.json fails.
            self.wanted.clear();
        }
        match self.head.write(&*self.disk, &self.protocol) {
            Err(error) if is_in_the_way(&error) => {
                self.files.make_way(&*self.disk, &[HEAD, &format!("{TMP}/{HEAD}")])?;
                self.head.write(&*self.disk, &self.protocol)?;
            }
            done => done?,
        }
        if !self.protocol.holds(ProtocolRule::ObjectsBeforeHead) {
            self.settle()?;
        }
        Ok(())
    }

    /// Makes the files durable: by one sync of everything, or where that fails or is not to be had, each by itself. For
    /// single syncs the files are written anew: after a failed sync the content of the cache is unknown.
    fn settle(&mut self) -> Result<(), DiskError> {
        if !self.protocol.holds(ProtocolRule::SyncObjects) || self.done == 0 {
            return Ok(());
        }
        if !self.files.each {
            if self.sync_all() {
                return Ok(());
            }
            self.done = 0;
            while self.step()? {}
        }
        if self.protocol.holds(ProtocolRule::SyncEachFolder) { self.files.sync_folders(&*self.disk) } else { Ok(()) }
    }

    /// False: each file has to be synced by itself.
    fn sync_all(&mut self) -> bool {
        let Err(error) = self.disk.sync_all() else { return true };
        log::warn!("the files cannot be synced at once ({error}), so each is synced by itself");
        // A failure may pass; a system that does not allow it will not.
        self.each_alone = matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied);
        self.files.each = true;
        false
    }

    /// A file could not be written. All earlier files are made durable, so that a retry does not write the earlier
    /// files again.
    pub fn keep_brought(&mut self) {
        let brought = self.done.min(self.wanted.len());
        if brought > 0 && if self.files.each { self.files.sync_folders(&*self.disk).is_ok() } else { self.sync_all() } {
            self.brought_bytes +=
                self.wanted.drain(..brought).filter_map(|(_, due)| due.wanted).map(|wanted| wanted.room()).sum::<u64>();
        }
    }

    /// It failed.
    pub fn give_back(self, dirty: &mut Dirty) {
        dirty.put_back(self);
    }
}

/// The approximate disk space of a document's file: whole blocks, and more bytes for white space.
fn room_of(bytes: usize) -> u64 {
    (bytes + bytes / 4).next_multiple_of(4096) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::meta::Resource;

    #[test]
    fn what_came_and_went_is_not_behind() {
        let key = || Arc::new(Key { resource: Resource::core("pods"), namespace: "n".into(), name: "a".into() });
        let new = || Some(NewFile::part(Bytes::from_static(b"{}")));
        let check = |failed: bool, was: Was, expected: bool| {
            let mut dirty = Dirty { failed, ..Dirty::default() };
            dirty.add(key(), new(), was, Duration::ZERO);
            dirty.add(key(), None, Was::Sum(1), Duration::ZERO);
            assert_eq!(dirty.holds(&key()), expected, "{failed} {was:?}");
        };
        check(false, Was::Absent, false);
        check(false, Was::Sum(1), true);
        check(false, Was::Unknown, true);
        // A checkpoint that failed may have made its file.
        check(true, Was::Absent, true);
    }
}

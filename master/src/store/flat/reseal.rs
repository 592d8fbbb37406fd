//! Writes what is to be sealed anew by the key that seals now: after encryption was turned on, or off, and after a
//! rotation. Then the journal's segments go that have it in an earlier form.
//!
//! ```text
//! a record for each object, at its own revision: nobody who watches hears of it
//!   -> a new segment -> checkpoint: the files -> earlier segments are removed -> HEAD.json names the key
//! ```
//!
//! Cut anywhere, the next start finds another key in HEAD.json than the one that seals, and does the rest.

use super::checkpoint::NewFile;
use super::committer::{Committer, Purge};
use super::disk_error::{DiskError, failed};
use super::document::{self, crc32};
use super::entry::Entry;
use super::head::Head;
use super::journal::record::{Record, Was};
use super::journal::{WAL, path};
use super::pages::Listing;
use super::protocol::Protocol;
use super::seal::keys::SealKeys;
use super::setup::{BATCH_BYTES_MAX, Setup};
use crate::store::{FlatStore, locked};
use bytes::Bytes;
use coracle_api::meta::Key;
use std::io;
use std::sync::{Arc, PoisonError};

/// Checkpoints that a rotation waits for.
const FLUSHES_MAX: usize = 3;

/// An object in its new form.
struct Resealed {
    /// With the checksum of the new form.
    entry: Entry,
    was: Was,
    object: Bytes,
}

impl FlatStore {
    /// Seals by other keys from now on, and writes what lies in another form anew. The files and the journal have
    /// nothing else when this returns.
    pub fn reseal(&self, keys: SealKeys) -> Result<(), DiskError> {
        let refused = |why: String| failed("write", "the objects")(io::Error::other(why));
        if let SealKeys::Off | SealKeys::Lost(_) = keys {
            return Err(refused("there is no key".to_owned()));
        }
        {
            let mut writer = self.settled_writer();
            if let Some(why) = writer.refuses() {
                return Err(refused(why));
            }
            let id = keys.current().map_or(String::new(), |key| key.id.to_string());
            self.inner.state.write().unwrap_or_else(PoisonError::into_inner).seal_by(keys);
            writer.purge = Some(Purge { id, through: None });
        }
        self.reseal_if_due()?;
        for _ in 0..FLUSHES_MAX {
            // The keeper may have begun a checkpoint before.
            self.flush()?;
            if locked(&self.inner.writer).purge.is_none() {
                return Ok(());
            }
        }
        Err(refused("the earlier form is still in the journal: it goes once the disk has room".to_owned()))
    }

    /// Writes all anew that a start or a rotation has found in another form.
    pub(super) fn reseal_if_due(&self) -> Result<(), DiskError> {
        let is_due = |writer: &Committer| {
            let unwritten = writer.purge.as_ref().is_some_and(|purge| purge.through.is_none());
            unwritten && writer.refuses().is_none() && !writer.full
        };
        if !is_due(&locked(&self.inner.writer)) {
            return Ok(());
        }
        let mut keys = {
            let state = self.state();
            let resources = state.sealer().resources.clone();
            let mut keys = Vec::new();
            for resource in &*resources {
                keys.extend(state.listed(&Listing::all(resource, None)).map(|stored| stored.key.clone()));
            }
            keys.into_iter()
        };
        // Writers come between two batches.
        loop {
            let mut writer = locked(&self.inner.writer);
            if !is_due(&writer) {
                return Ok(());
            }
            let (found, more) = self.next_resealed(&mut keys);
            let idle = found.is_empty();
            let done = self.write_resealed(&mut writer, found);
            self.note(&done, idle);
            done?;
            if !more {
                let through = writer.journal.position().segment;
                writer.purge.iter_mut().for_each(|purge| purge.through = Some(through));
                return Ok(());
            }
        }
    }

    /// The next objects that lie in another form, as many as one batch takes. False: that was all.
    fn next_resealed(&self, keys: &mut impl Iterator<Item = Arc<Key>>) -> (Vec<Resealed>, bool) {
        let (state, mut found, mut bytes) = (self.state(), Vec::new(), 0);
        while bytes < BATCH_BYTES_MAX {
            let Some(key) = keys.next() else { return (found, false) };
            let Some(entry) = state.get(&key) else { continue };
            let Some(former) = entry.file_crc else { continue };
            let Some(plain) = document::durable_part(&entry.stored.json, entry.durable, None) else { continue };
            let object = state.sealer().at_rest(&key, plain);
            let crc = crc32(&object);
            if crc != former {
                bytes += object.len();
                let entry = Entry { file_crc: Some(crc), ..entry.clone() };
                found.push(Resealed { entry, was: Was::Sum(former), object });
            }
        }
        (found, true)
    }

    fn write_resealed(&self, writer: &mut Committer, found: Vec<Resealed>) -> Result<(), DiskError> {
        if found.is_empty() {
            return Ok(());
        }
        let record = |Resealed { entry: Entry { stored, .. }, was, object }: &Resealed| Record::Put {
            revision: stored.revision,
            key: stored.key.clone(),
            was: *was,
            by_hand: false,
            object: object.clone(),
        };
        self.append(writer, &found.iter().map(record).collect::<Vec<_>>())?;
        let uptime = self.uptime();
        let mut state = self.inner.state.write().unwrap_or_else(PoisonError::into_inner);
        for Resealed { entry, was, .. } in found {
            let key = entry.stored.key.clone();
            let wanted = NewFile::of(&entry, state.sealer());
            entry.file_crc.into_iter().for_each(|crc| state.rewritten(&key, crc));
            writer.dirty.add(key, wanted, was, uptime);
        }
        Ok(())
    }
}

impl Committer {
    /// Before a checkpoint: what is written from here on goes to a segment that has nothing older. On a disk that is
    /// nearly full the checkpoint makes room first.
    pub(super) fn leave_for_purge(&mut self, protocol: &Protocol, setup: &Setup) -> Result<(), DiskError> {
        let Some(Purge { through: Some(through), .. }) = self.purge else { return Ok(()) };
        let is_tight = self.full || self.disk.room().is_some_and(|room| setup.nearly_full(room));
        if is_tight || self.journal.position().segment > through {
            return Ok(());
        }
        self.begin_to_write(protocol)?;
        self.journal.roll()
    }

    /// After a checkpoint: removes the segments that have something in an earlier form, and says so in HEAD.json.
    pub(super) fn purge(&mut self, protocol: &Protocol) {
        let Some(Purge { id, through: Some(through) }) = &self.purge else { return };
        if self.journal.holds_until(*through) {
            return;
        }
        let gone = self.journal.retired.iter().all(|retired| match self.disk.unlink(&path(retired.segment)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                log::warn!("{}: it is to be removed, and cannot be: {error}", path(retired.segment));
                false
            }
            _ => true,
        });
        if !gone || self.disk.sync_dir(WAL).is_err() {
            return;
        }
        self.journal.retired.clear();
        self.journal.free = 0;
        let head = Head { sealed: id.clone(), ..self.head.clone() };
        match head.write(&*self.disk, protocol) {
            Ok(()) => (self.head, self.purge) = (head, None),
            Err(error) => log::warn!("{error}"),
        }
    }
}

//! Once a week of uptime every object's file is read again from the medium, one after the other with a pause between
//! two, and held against memory, which is right. A file that says something else is written anew at once: the next
//! start would have to believe it, or to set it aside.
//!
//! The keeper calls it after all that is more urgent; between two rounds it costs nothing, not even a wake-up.

use super::checkpoint::NewFile;
use super::content::FILE_BYTES_MAX;
use super::disk_error::DiskError;
use super::document::crc32;
use super::folders::OBJECTS;
use super::head::{HEAD, HEAD_BYTES_MAX};
use super::journal::record::Was;
use super::{document, names};
use crate::store::{FlatStore, locked};
use coracle_api::meta::Key;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

impl FlatStore {
    /// Looks at one file where it is time, and says at what uptime it will be again.
    pub(super) fn scrub(&self) -> Duration {
        let due = locked(&self.inner.scrub).due;
        if self.uptime() >= due {
            self.scrub_one();
        }
        locked(&self.inner.scrub).due
    }

    /// Looks at the next file. False: that was the end of a round.
    pub(super) fn scrub_one(&self) -> bool {
        let after = locked(&self.inner.scrub).after.clone();
        // The directory at the path is not this store's.
        if locked(&self.inner.writer).disk.gone().is_some() {
            return locked(&self.inner.scrub).went_on(None, self.uptime());
        }
        let next = self.state().after(after.as_deref()).map(|entry| (entry.stored.key.clone(), entry.file_crc));
        let healed = match &next {
            Some((key, Some(crc))) => self.is_rotten(key, *crc) && self.heal_file(key),
            Some((_, None)) => false,
            None => self.heal_head(),
        };
        let mut scrub = locked(&self.inner.scrub);
        scrub.healed += u64::from(healed);
        let more = scrub.went_on(next.map(|(key, _)| key), self.uptime());
        if !more {
            log::info!("all files were read again: {} had to be written anew", std::mem::take(&mut scrub.healed));
        }
        more
    }

    fn is_rotten(&self, key: &Key, crc: u32) -> bool {
        let path = format!("{OBJECTS}/{}", names::path(key));
        let disk = locked(&self.inner.writer).disk.clone();
        let why = match disk.read_medium(&path, FILE_BYTES_MAX) {
            Ok(bytes) => {
                let mut compact = Vec::new();
                document::stripped(&bytes, &mut compact);
                if crc32(&compact) == crc {
                    return false;
                }
                "it says something else than was written".to_owned()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => "it is gone".to_owned(),
            Err(error) => format!("it cannot be read: {error}"),
        };
        // The file of a change that is on its way to it is behind, and that is no damage.
        let writer = locked(&self.inner.writer);
        let on_its_way = writer.checkpointing || writer.dirty.holds(key) || writer.closed || writer.frozen.is_some();
        let changed = self.state().get(key).is_none_or(|entry| entry.file_crc != Some(crc));
        drop(writer);
        if on_its_way || changed {
            return false;
        }
        self.remark(format!("{path}: {why}; it is written anew from memory"));
        true
    }

    /// True: the file is as it should be again.
    fn heal_file(&self, key: &Arc<Key>) -> bool {
        {
            let uptime = self.uptime();
            let mut writer = locked(&self.inner.writer);
            let mut state = self.inner.state.write().unwrap_or_else(PoisonError::into_inner);
            let was = Was::of(state.get(key).and_then(|entry| entry.file_crc));
            let object =
                state.get(key).and_then(|entry| document::durable_part(&entry.stored.json, entry.durable, None));
            let object = object.map(|object| state.sealer().at_rest(key, object));
            // Deleted, or written since: then its file is on its way.
            let Some(object) = object.filter(|_| !writer.dirty.holds(key)) else { return false };
            state.rewritten(key, crc32(&object));
            writer.dirty.add(key.clone(), Some(NewFile::part(object)), was, uptime);
        }
        // At once: as long as the file is wrong, a start would believe it.
        let done = self.checkpoint();
        if let Err(error) = &done {
            log::warn!("{error}");
        }
        done.is_ok()
    }

    fn heal_head(&self) -> bool {
        let writer = locked(&self.inner.writer);
        if writer.checkpointing || writer.closed || writer.frozen.is_some() {
            return false;
        }
        let text = writer.head.to_text();
        if writer.disk.read_medium(HEAD, HEAD_BYTES_MAX).is_ok_and(|found| found == text.as_bytes()) {
            return false;
        }
        let done = writer.head.write(&*writer.disk, &self.inner.setup.protocol);
        drop(writer);
        let outcome = done.as_ref().map_or_else(DiskError::to_string, |()| "it is written anew from memory".to_owned());
        self.remark(format!("{HEAD}: it says something else than was written; {outcome}"));
        done.is_ok()
    }
}

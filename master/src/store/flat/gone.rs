//! A data directory that somebody takes away while the master runs, whole or in part: nothing is written where nobody
//! would find it, or to what lies there now. Memory holds everything: a backup can be made, and what is only missing
//! its folders is made anew.

use super::checkpoint::NewFile;
use super::committer::Committer;
use super::disk_error::DiskError;
use super::document;
use super::entry::Entry;
use super::folders::{OBJECTS, TMP, here, make_folder};
use super::journal::record::Was;
use super::journal::{SPARE, WAL};
use crate::store::FlatStore;
use std::io;
use std::sync::PoisonError;

impl FlatStore {
    /// The checkpoint that begins now brings the records of a removed segment to the files; if the files are gone as
    /// well, the checkpoint writes all files.
    pub(super) fn go_on_elsewhere(&self, writer: &mut Committer) -> Result<(), DiskError> {
        here(&*writer.disk)?;
        if !writer.journal.leave_gone() {
            return Ok(());
        }
        let disk = writer.disk.clone();
        let all = disk.list(OBJECTS).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        for folder in [WAL, SPARE, TMP, OBJECTS] {
            make_folder(&*disk, folder)?;
        }
        writer.begin_to_write(&self.inner.setup.protocol)?;
        writer.journal.go_on_anew()?;
        if all {
            self.write_all_anew(writer);
        }
        let whose = if all {
            "all objects are written to their files anew"
        } else {
            "all that was acknowledged is brought to the files now"
        };
        self.remark(format!(
            "{WAL}/: somebody took away a segment while the master wrote to it: {whose}, and the journal goes on in a \
             new segment"
        ));
        self.note(&Ok(()), false);
        Ok(())
    }

    fn write_all_anew(&self, writer: &mut Committer) {
        let uptime = self.uptime();
        let mut state = self.inner.state.write().unwrap_or_else(PoisonError::into_inner);
        let durable = |entry: &Entry| {
            let object =
                document::durable_part(&entry.stored.json, entry.durable, None).filter(|_| entry.file_crc.is_some())?;
            let key = entry.stored.key.clone();
            let object = state.sealer().at_rest(&key, object);
            Some((key, object))
        };
        for (key, object) in state.all().filter_map(durable).collect::<Vec<_>>() {
            state.rewritten(&key, document::crc32(&object));
            writer.dirty.add(key, Some(NewFile::part(object)), Was::Absent, uptime);
        }
    }
}

//! What a start could not write: it goes before anything else does, a batch at a time. In one it might be a segment that is longer than any
//! start reads. The objects are shared with what the files are to say, so they take no memory of their own.

use super::Journal;
use super::record::Record;
use crate::store::files::DiskError;

impl Journal {
    pub fn owe(&mut self, batch: Vec<Record>) {
        self.owed.push_back(batch);
    }

    /// Whether the files could not say it all without a place in the journal that HEAD.json may name.
    pub fn owes(&self) -> bool {
        self.debt().any(|record| record.key().is_some())
    }

    /// Whether it is more than what was found: nothing may be built on it before it is written.
    pub fn owes_edits(&self) -> bool {
        self.debt().any(|record| matches!(record, Record::Put { by_hand: true, .. }))
    }

    /// What fails stays owed.
    pub(super) fn append_owed(&mut self, text: &mut Vec<u8>) -> Result<(), DiskError> {
        while let Some(batch) = self.owed.pop_front() {
            if let Err(error) = self.append_as(&batch, text) {
                self.owed.push_front(batch);
                return Err(error);
            }
        }
        Ok(())
    }

    fn debt(&self) -> impl Iterator<Item = &Record> {
        self.carry.iter().chain(self.owed.iter().flatten())
    }
}

//! The files of objects whose kind this version does not know. They are left alone, and counted.

use super::journal_view::JournalView;
use super::objects::row;
use crate::store::disk::Disk;
use crate::store::parallel_read::{self, sum};
use crate::store::sums::Sums;
use crate::store::{StoreRules, document, names};
use coracle_api::meta::Key;

/// The files of objects whose kind this version does not know: HEAD.json counts them, so that the version that knows
/// their kind finds all files as they were left.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnknownFiles {
    pub sum: Sums,
    pub count: u64,
}

impl UnknownFiles {
    fn add(&mut self, key: &Key, crc: u32) {
        self.sum.add(key, crc);
        self.count += 1;
    }

    /// The files of unknown kinds that the journal does not mention. None: one of them cannot be read.
    pub fn read(disk: &dyn Disk, unknown: &[Key], journal: &JournalView) -> Option<UnknownFiles> {
        let (mut files, mut scratch) = (UnknownFiles::default(), Vec::new());
        for key in unknown.iter().filter(|key| !journal.contains_key(*key)) {
            let bytes = parallel_read::read(disk, &names::path(key)).ok()?;
            files.add(key, sum(&bytes, &mut scratch).crc);
        }
        Some(files)
    }

    /// The same files when the next checkpoint has written all objects that the journal mentions.
    pub fn after_checkpoint(mut self, rules: &StoreRules, journal: &JournalView) -> UnknownFiles {
        for (key, said) in journal.iter().filter(|(key, _)| row(rules, key).is_none()) {
            said.object.iter().for_each(|object| self.add(key, document::crc32(object)));
        }
        self
    }
}

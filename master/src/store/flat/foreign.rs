//! PURE. Files of kinds that were not known at the start, where a person wrote them: no object, and in nobody's way.

use super::sums::Sums;
use crate::store::Damage;
use coracle_api::meta::Key;
use std::collections::BTreeMap;

/// HEAD.json counts such a file as the store wrote it, and a file that no store wrote not at all: so the version that
/// knows the kind finds that somebody wrote to the file.
#[derive(Default)]
pub struct ForeignFiles {
    pub sum: Sums,
    pub count: u64,
    /// Why nothing can be written in the place of each.
    pub files: BTreeMap<Key, Damage>,
}

/// The sum and the number of some files.
#[derive(Default)]
pub struct Counted {
    pub sum: Sums,
    pub count: u64,
}

impl Counted {
    pub fn add(&mut self, key: &Key, crc: u32) {
        self.sum.add(key, crc);
        self.count += 1;
    }
}

//! PURE. The records that a start keeps in memory. The journal may be many times as long as its last words, and as the
//! memory of a small host: of an object that a later record replaces or removes only the checksum is kept, and what is
//! kept shares no memory with the segment that it was read from.

use super::record::{Line, Record, Was};
use crate::store::flat::document::crc32;
use bytes::Bytes;
use coracle_api::meta::{Key, Revision};
use std::collections::HashSet;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub struct HeldRecord {
    /// Where it lies.
    pub segment: u64,
    pub n: u64,
    pub worth: Worth,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Worth {
    Whole(Record),
    /// A put that a later record of the same key replaces. `sum`: the checksum of the object.
    Outdone {
        revision: Revision,
        key: Arc<Key>,
        was: Was,
        by_hand: bool,
        sum: u32,
    },
}

impl HeldRecord {
    pub fn key(&self) -> Option<&Arc<Key>> {
        match &self.worth {
            Worth::Whole(record) => record.key(),
            Worth::Outdone { key, .. } => Some(key),
        }
    }

    pub fn revision(&self) -> Option<Revision> {
        match &self.worth {
            Worth::Whole(Record::Put { revision, .. } | Record::Remove { revision, .. })
            | Worth::Outdone { revision, .. } => Some(*revision),
            Worth::Whole(Record::Open { .. } | Record::Reserve { .. }) => None,
        }
    }

    /// Whether a person wrote it into the object's file.
    pub fn by_hand(&self) -> bool {
        matches!(self.worth, Worth::Whole(Record::Put { by_hand: true, .. }) | Worth::Outdone { by_hand: true, .. })
    }
}

/// The keys that later records have: segments are gone through from the last one.
#[derive(Default)]
pub struct Later {
    keys: HashSet<Arc<Key>>,
}

impl Later {
    /// The lines of the segment before, in their order, of which all count. `whole`: from this record on they may have
    /// to be written again.
    pub fn hold(&mut self, segment: u64, lines: Vec<Line>, whole: u64) -> Vec<HeldRecord> {
        let hold = |line: Line| HeldRecord { segment, n: line.n, worth: self.worth(line.record, line.n >= whole) };
        let mut held: Vec<HeldRecord> = lines.into_iter().rev().map(hold).collect();
        held.reverse();
        held
    }

    fn worth(&mut self, mut record: Record, whole: bool) -> Worth {
        let Some(key) = record.key() else { return Worth::Whole(record) };
        let later = self.keys.get(key).cloned();
        if later.is_none() {
            self.keys.insert(key.clone());
        }
        // All records of an object share a single key in memory.
        match (&mut record, later) {
            (Record::Put { revision, was, by_hand, object, .. }, Some(key)) if !whole => {
                return Worth::Outdone { revision: *revision, key, was: *was, by_hand: *by_hand, sum: crc32(object) };
            }
            (Record::Put { key, object, .. }, later) => {
                *object = Bytes::copy_from_slice(object);
                later.into_iter().for_each(|later| *key = later);
            }
            (Record::Remove { key, .. }, Some(later)) => *key = later,
            _ => {}
        }
        Worth::Whole(record)
    }
}

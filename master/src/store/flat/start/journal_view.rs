//! PURE. The journal as a map: for each object in the journal, the last record and every content that the object's file
//! may hold.

use super::judge::JournalEvidence;
use crate::store::flat::document;
use crate::store::flat::journal::held::{HeldRecord, Worth};
use crate::store::flat::journal::record::{Record, Was};
use crate::store::flat::journal::recover::Recovered;
use bytes::Bytes;
use coracle_api::meta::{Key, Revision};
use std::collections::BTreeMap;
use std::sync::Arc;

pub type JournalView = BTreeMap<Arc<Key>, LastRecord>;

pub struct LastRecord {
    /// The last record: the durable part, compact; None: the object does not exist.
    pub object: Option<Bytes>,
    pub revision: Revision,
    /// The content of the file before the first record.
    pub was: Was,
    /// The first record is of what a person wrote: HEAD.json may know another file, or none.
    by_hand: bool,
    /// Checksums of what a checkpoint may have left in the file.
    sums: Vec<u32>,
    /// All that the file may hold is known.
    known: bool,
    /// There was a file, and no record removes it.
    pub stays: bool,
    /// The present content of the file.
    pub found: Was,
}

/// The last word of the journal on each key, and every earlier one. Records behind a hole count too where something is
/// missing: they were acknowledged, and are newer than the files. Then nothing is known of what the files may hold.
pub fn view(recovered: &Recovered) -> JournalView {
    let mut view = JournalView::new();
    let whole = recovered.missing.is_none();
    let mut all: Vec<&HeldRecord> = recovered.records.iter().collect();
    if !whole {
        // Later segments say something newer than what lies behind a hole.
        all.extend(&recovered.beyond);
        all.sort_by_key(|held| held.n);
    }
    for held in all {
        // `sum` and `object`: the checksum of the content that the record puts, and the content if kept.
        let (key, revision, was, sum, object) = match &held.worth {
            Worth::Whole(Record::Put { key, revision, was, object, .. }) => {
                (key, revision, was, Some(document::crc32(object)), Some(object))
            }
            Worth::Outdone { key, revision, was, sum, .. } => (key, revision, was, Some(*sum), None),
            Worth::Whole(Record::Remove { key, revision, was }) => (key, revision, was, None, None),
            Worth::Whole(Record::Open { .. } | Record::Reserve { .. }) => continue,
        };
        let said = view.entry(key.clone()).or_insert_with(|| LastRecord::first(*revision, *was, whole, held.by_hand()));
        if let Was::Sum(sum) = was {
            said.sums.push(*sum);
        }
        said.stays &= sum.is_some();
        said.revision = *revision;
        said.object = object.cloned();
        said.sums.extend(sum);
    }
    view
}

impl LastRecord {
    fn first(revision: Revision, was: Was, whole: bool, by_hand: bool) -> LastRecord {
        let (known, stays) = (whole && was != Was::Unknown, whole && matches!(was, Was::Sum(_)));
        LastRecord { object: None, revision, was, by_hand, sums: Vec::new(), known, stays, found: Was::Absent }
    }

    /// The checksum of what its file held before the journal began to say more, if there was one; None: nobody knows.
    pub fn file_before(&self) -> Option<Option<u32>> {
        match self.was {
            _ if self.by_hand => None,
            Was::Unknown => None,
            Was::Absent => Some(None),
            Was::Sum(sum) => Some(Some(sum)),
        }
    }

    /// The evidence about a missing file.
    pub fn on_absence(&self) -> JournalEvidence {
        if self.stays { JournalEvidence::Contradicts } else { JournalEvidence::Explains }
    }

    /// A file of this checksum. `changed`: the stamp shows a write by another program.
    pub fn on_content(&self, sum: u32, changed: bool) -> JournalEvidence {
        if self.sums.contains(&sum) || !self.known && !changed {
            JournalEvidence::Explains
        } else {
            JournalEvidence::Contradicts
        }
    }

    /// A file that is no object.
    pub fn on_no_object(&self) -> JournalEvidence {
        if self.known { JournalEvidence::Contradicts } else { JournalEvidence::Explains }
    }
}

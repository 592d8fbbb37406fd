//! For tests outside of this crate, behind the feature `trial` that no package is built with: stores of other sizes, or
//! with a rule off.

use super::journal::recover::{ScannedSegment, recover};
use super::journal::scan::scan;
pub use super::protocol::{Protocol, ProtocolRule};
pub use super::setup::Setup;
use crate::store::{FlatStore, OpenError, Opened, StoreRules};
use bytes::Bytes;
use std::path::Path;

impl FlatStore {
    pub fn open_as(dir: &Path, volatile: Option<&Path>, rules: &StoreRules, setup: Setup) -> Result<Opened, OpenError> {
        FlatStore::open_in(dir, volatile, rules, setup)
    }
}

/// Segments of anything are read in one pass, and their records come in order.
pub fn read_segments(segments: &[Bytes], protocol: &Protocol) {
    let scanned = segments.iter().zip(1..).map(|(text, segment)| {
        let found = scan(text, segment, protocol);
        assert!(found.len() <= text.len() / 2 + 1);
        ScannedSegment { segment, bytes: text.len(), found: Some(found) }
    });
    let recovered = recover(None, false, scanned.collect::<Vec<_>>().into_iter(), &Protocol::WHOLE);
    assert!(recovered.records.is_sorted_by_key(|held| held.n), "records out of order: {segments:?}");
}

//! PURE. How the journal's folders and its segments are called.

use crate::store::flat::setup::REVISION_MAX;

pub const WAL: &str = "wal";
pub const SPARE: &str = "spare";

/// Where a segment lies.
pub fn path(segment: u64) -> String {
    format!("{WAL}/{segment:010}.jsonl")
}

/// The segment that lies in a file of the journal's folder.
pub fn segment(name: &str) -> Option<u64> {
    let segment = name.strip_suffix(".jsonl")?.parse().ok().filter(|segment| *segment <= REVISION_MAX)?;
    (path(segment).strip_prefix("wal/") == Some(name)).then_some(segment)
}

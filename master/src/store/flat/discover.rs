//! Reads HEAD.json and the journal at a start. Changes nothing, except that what is read is made durable.
//!
//! HEAD.json and each segment name the journal that they belong to: what was copied in from another store is not taken
//! for this one's.

use super::disk::Disk;
use super::head::{FORMAT_SEALED, HEAD, HEAD_BYTES_MAX, Head};
use super::journal::record::{Line, Record};
use super::journal::recover::{JournalPlace, Missing, Recovered, ScannedSegment, recover};
use super::journal::scan::{self, scan};
use super::journal::{self, WAL};
use super::protocol::{Protocol, ProtocolRule};
use super::setup::Setup;
use crate::store::OpenError;
use bytes::Bytes;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

/// A segment is one MiB, or a batch of some more; a longer file is none of ours.
pub const SEGMENT_BYTES_READ_MAX: usize = 256 << 20;

/// The journal as a start finds it.
pub struct FoundJournal {
    pub recovered: Recovered,
    /// Segments that the files have caught up with, and those that count; each with its bytes.
    pub old: Vec<(u64, u64)>,
    pub live: VecDeque<(u64, u64)>,
    pub next: u64,
    /// The mark of the journal; 0: nothing says it.
    pub of: u32,
    /// The reason why the segments could not be listed, only in a store that is whole without segments.
    pub unlisted: Option<String>,
}

/// Whether the journal has nothing to add to what HEAD.json says. An empty segment, which its master could not remove,
/// adds nothing.
pub fn silent(found: &FoundJournal) -> bool {
    let recovered = &found.recovered;
    recovered.records.is_empty() && !recovered.unclear && recovered.torn.is_empty() && recovered.missing.is_none()
}

/// The store and the journal that the segments belong to.
struct Marks {
    /// From HEAD.json, or else from the first segment with a mark.
    of: u32,
    /// The first segment of a different store.
    stranger: Option<u64>,
}

impl Marks {
    fn are_of(&mut self, segment: u64, found: &[scan::ScannedLine]) -> bool {
        let mark = mark_of(found);
        if self.of == 0 {
            self.of = mark;
        }
        let ours = mark == 0 || mark == self.of;
        if !ours {
            self.stranger = Some(self.stranger.map_or(segment, |other| other.min(segment)));
        }
        ours
    }
}

/// The journal that a segment belongs to; 0: it does not say.
fn mark_of(found: &[scan::ScannedLine]) -> u32 {
    let mark = found.iter().find_map(|found| match found {
        scan::ScannedLine::Line { line: Line { record: Record::Open { of, .. }, .. }, .. } => Some(*of),
        _ => None,
    });
    mark.unwrap_or_default()
}

/// A directory of a newer form is not even locked: nothing in it is ours to change.
pub fn refuse_newer(disk: &dyn Disk, dir: &Path) -> Result<(), OpenError> {
    match find_head(disk) {
        Err(OpenError::Newer { format, .. }) => Err(OpenError::Newer { dir: dir.to_owned(), format }),
        _ => Ok(()),
    }
}

/// None: there is none. The other is whether it is damaged.
pub fn find_head(disk: &dyn Disk) -> Result<(Option<Head>, bool), OpenError> {
    let text = match disk.read(HEAD, HEAD_BYTES_MAX).or_else(|_| disk.read(HEAD, HEAD_BYTES_MAX)) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, false)),
        Err(error) if is_no_file(&error) => return Ok((None, true)),
        Err(error) => {
            let why = format!(
                "{error}; what it says is unknown, so nothing is written: start again, or copy the directory to a disk \
                 that is well; where it is lost for good, move {HEAD} out of the directory, and everything else goes \
                 on under a new identity"
            );
            return Err(OpenError::Io { path: PathBuf::from(HEAD), error: io::Error::new(error.kind(), why) });
        }
    };
    if let Some(format) = Head::format_of(&text).filter(|format| *format > u64::from(FORMAT_SEALED)) {
        return Err(OpenError::Newer { dir: PathBuf::from(HEAD), format });
    }
    let head = Head::from_text(&text);
    let damaged = head.is_none();
    Ok((head, damaged))
}

/// A folder, a pipe, a link: there is nothing to be read.
fn is_no_file(error: &io::Error) -> bool {
    let link = rustix::io::Errno::LOOP.raw_os_error();
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory)
        || error.raw_os_error() == Some(link)
}

/// Reads the journal and changes nothing but that what is read is durable.
pub fn find_journal(disk: &dyn Disk, head: Option<&Head>, setup: &Setup) -> FoundJournal {
    let mut unlisted = None;
    let mut segments: Vec<u64> = match disk.list(WAL) {
        Ok(found) => found.iter().filter_map(|found| journal::segment(&found.name)).collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Vec::new(),
        Err(error) => {
            log::error!("{WAL}: {error}");
            unlisted = Some(error);
            Vec::new()
        }
    };
    segments.sort_unstable();
    let mut marks = Marks { of: head.map_or(0, |head| head.journal), stranger: None };
    let closed = head.is_some_and(|head| head.clean);
    let begun = head.map_or(0, |head| head.begun);
    let head = head.and_then(|head| head.wal);
    let from = head.map_or(0, |head| head.segment);
    let next = segments.last().copied().unwrap_or_default().max(from).max(begun) + 1;
    let there = segments.clone();
    let counted = segments.split_off(segments.partition_point(|segment| *segment < from));
    let length = |segment: u64| disk.length(&journal::path(segment)).unwrap_or(setup.segment_bytes as u64);
    let old: Vec<_> = segments.into_iter().map(|segment| (segment, length(segment))).collect();
    for segment in counted.iter().filter(|_| setup.protocol.holds(ProtocolRule::SyncAtStart)) {
        // On a read-only file system nothing is on its way to the disk.
        disk.open(&journal::path(*segment)).and_then(|file| file.sync()).ok();
    }
    if marks.of == 0 {
        let said = |segment: &u64| Some(mark_of(&scanned(disk, *segment, &setup.protocol).found?));
        marks.of = counted.iter().filter_map(said).find(|mark| *mark != 0).unwrap_or_default();
    }
    // Where none counts, the newest of the others tells whose they are.
    if let Some((segment, _)) = old.last().filter(|_| counted.is_empty())
        && let Some(found) = scanned(disk, *segment, &setup.protocol).found
    {
        marks.are_of(*segment, &found);
    }
    let mut bytes = VecDeque::new();
    let read = |segment: &u64| {
        let ScannedSegment { segment, bytes: length, found } = scanned(disk, *segment, &setup.protocol);
        bytes.push_front((segment, length as u64));
        ScannedSegment { segment, bytes: length, found: found.filter(|found| marks.are_of(segment, found)) }
    };
    // It may hold anything.
    let unknown = (unlisted.is_some() && !closed).then_some(ScannedSegment { segment: from, bytes: 0, found: None });
    let mut recovered = recover(head, closed, unknown.into_iter().chain(counted.iter().map(read)), &setup.protocol);
    if let Some(segment) = marks.stranger {
        let why = "it is of another store's journal; bring HEAD.json, wal/ and objects/ of one store together".into();
        recovered.missing =
            Some(Missing { place: JournalPlace { segment, offset: 0 }, n: head.map_or(1, |head| head.n), why });
    }
    let live: VecDeque<_> = bytes.into_iter().filter(|(segment, _)| !recovered.void.contains(segment)).collect();
    // The one that stands ready was made once the one before it was written to.
    let is_taken = |last: u64| there.last().is_some_and(|ready| *ready == last + 2);
    recovered.behind |= !closed && live.back().is_some_and(|(last, _)| is_taken(*last) || *last < begun);
    let unlisted = unlisted.filter(|_| closed).map(cannot_list);
    FoundJournal { recovered, old, live, next, of: marks.of, unlisted }
}

fn cannot_list(error: io::Error) -> String {
    format!(
        "{WAL} cannot be read ({error}): the store was closed in order and nothing is missing, but a new segment might \
         be put over one that lies there; nothing is written before it can be read: see to the disk or to who may read \
         the folder, and restart the master"
    )
}

/// Reads and scans a segment.
fn scanned(disk: &dyn Disk, segment: u64, protocol: &Protocol) -> ScannedSegment {
    let path = journal::path(segment);
    let text = disk
        .read(&path, SEGMENT_BYTES_READ_MAX)
        .map(Bytes::from)
        .inspect_err(|error| log::error!("{path}: {error}"))
        .ok();
    let bytes = text.as_ref().map_or(0, Bytes::len);
    ScannedSegment { segment, bytes, found: text.map(|text| scan(&text, segment, protocol)) }
}

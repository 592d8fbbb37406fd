//! The commit point: an append-only journal of JSON lines in segments of fixed size. A write is acknowledged when its line is in it and
//! fdatasync has returned.
//!
//! ```text
//! the oldest segment that nobody needs any more, or else spare/...: a file of newlines, made durable beforehand
//!            -> rename to the next place in wal/ -> fsync of wal/ -> fence -> batch, batch, batch ...
//! a batch:   one write of whole blocks, one fdatasync
//! ```
//!
//! So a commit changes no metadata of the file system and rewrites no acknowledged byte, and in the long run nothing is written but
//! batches. What an older segment left in the file behind the newest batch names that segment, and does not count. A file whose write or
//! fdatasync failed is left for good: the same batch goes behind the fence of a new segment, and where that fails as well, the batch is
//! refused and the next one begins with a new segment.
//!
//! record, scan, recover PURE: a line, a segment, all of them.

pub mod record;
pub mod recover;
pub mod scan;

use super::disk::{Disk, DiskFile};
use super::files::{DiskError, failed};
use super::setup::Setup;
use record::{Record, encode};
use recover::{Position, Recovered};
use scan::BLOCK_BYTES;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub const WAL: &str = "wal";
pub const SPARE: &str = "spare";
/// New segments that one batch is tried on after its own failed.
const NEW_SEGMENTS: u32 = 2;

/// Where a segment lies.
pub fn path(segment: u64) -> String {
    format!("{WAL}/{segment:010}.jsonl")
}

/// The segment that lies in a file of the journal's folder.
pub fn segment(name: &str) -> Option<u64> {
    let segment = name.strip_suffix(".jsonl")?.parse().ok()?;
    (path(segment).strip_prefix("wal/") == Some(name)).then_some(segment)
}

pub struct Journal {
    disk: Arc<dyn Disk>,
    setup: Setup,
    /// The last record that is durable, and where it lies.
    n: u64,
    segment: u64,
    /// None: the next batch needs a new segment.
    writing: Option<Writing>,
    next: u64,
    spare: Option<Spare>,
    /// Found unproven at the start: it goes again right behind the next fence.
    carry: Vec<Record>,
    reserved: u64,
    /// The mark of this journal: its segments name it, and so does HEAD.json.
    of: u32,
    /// From the one that HEAD.json names, each with its bytes.
    live: VecDeque<(u64, u64)>,
    /// Those before it that are still there, oldest first.
    pub retired: VecDeque<Retired>,
    /// So many of the oldest of them nobody needs any more.
    pub free: usize,
    /// Only segments from this one on are written over: this process made them, so all their lines name them and nobody else has
    /// another name for them, and no write has failed since.
    own: u64,
    /// Bytes written since the last checkpoint began.
    pub fresh_bytes: u64,
}

struct Writing {
    segment: u64,
    file: Box<dyn DiskFile>,
    offset: usize,
    bytes: usize,
}

/// A segment that the files have caught up with.
pub struct Retired {
    pub segment: u64,
    pub bytes: u64,
    /// In uptime.
    pub since: Duration,
}

/// A file to make a segment of.
pub struct Spare {
    path: String,
    bytes: usize,
}

impl Journal {
    /// `next`: no segment of this number or a higher one is there.
    pub fn new(
        disk: Arc<dyn Disk>,
        setup: Setup,
        recovered: &Recovered,
        live: VecDeque<(u64, u64)>,
        next: u64,
        reserved: u64,
        of: u32,
    ) -> Journal {
        Journal {
            disk,
            setup,
            n: recovered.last,
            segment: live.back().map_or(next, |(segment, _)| *segment),
            writing: None,
            next,
            spare: None,
            carry: recovered.carry.clone(),
            reserved,
            of,
            live,
            retired: VecDeque::new(),
            free: 0,
            own: next,
            fresh_bytes: 0,
        }
    }

    /// Where the next record will stand: everything before it has been applied.
    pub fn position(&self) -> Position {
        Position { segment: self.segment, n: self.n + 1 }
    }

    /// Revisions up to this one may be used by what is not journaled.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Whether revisions should be reserved the next time something is written anyway.
    pub fn reserves_soon(&self, revision: u64) -> bool {
        self.reserved.saturating_sub(revision) < self.setup.reserve / 2
    }

    /// Bytes of segments that the files have not caught up with.
    pub fn live_bytes(&self) -> u64 {
        self.live.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The segments that the files have not caught up with, and where what was written of each ends; None: with the file.
    pub fn live(&self) -> Vec<(u64, Option<usize>)> {
        let end = |segment: u64| self.writing.as_ref().filter(|writing| writing.segment == segment).map(|writing| writing.offset);
        self.live.iter().map(|(segment, _)| (*segment, end(*segment))).collect()
    }

    /// Whether the last batch failed: the next one has to find a new segment first.
    pub fn is_broken(&self) -> bool {
        self.writing.is_none()
    }

    pub fn wants_spare(&self) -> bool {
        self.spare.is_none() && self.free == 0
    }

    #[cfg(test)]
    pub fn drop_spare(&mut self) {
        self.spare = None;
    }

    pub fn take_spare(&mut self, spare: Spare) {
        self.spare.get_or_insert(spare);
    }

    /// Makes a batch durable. After an error nobody knows whether it is, but it can only come back as long as no other batch was.
    pub fn append(&mut self, records: &[Record]) -> Result<(), DiskError> {
        let mut failures = 0;
        loop {
            let Some(writing) = &self.writing else {
                self.begin_segment(records)?;
                continue;
            };
            let text = self.batch(writing, records);
            if writing.offset > 0 && writing.offset + text.len() > writing.bytes {
                self.begin_segment(records)?;
                continue;
            }
            match write(writing, &text, &self.setup) {
                Ok(()) => {
                    self.written(text.len(), records);
                    return Ok(());
                }
                Err(error) => {
                    let error = failed("write", &path(writing.segment))(error);
                    self.give_up_segment();
                    failures += 1;
                    if failures > NEW_SEGMENTS {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Proves that the disk takes writes again.
    pub fn heal(&mut self) -> Result<(), DiskError> {
        if self.is_broken() { self.append(&[]) } else { Ok(()) }
    }

    /// The files hold everything before a position, and HEAD.json says so.
    pub fn retire(&mut self, position: Position, uptime: Duration) {
        let count = self.live.iter().take_while(|(segment, _)| *segment < position.segment).count();
        let retired = self.live.drain(..count).map(|(segment, bytes)| Retired { segment, bytes, since: uptime });
        self.retired.extend(retired);
    }

    /// Whether a retired segment may be written over, once nobody needs it.
    pub fn is_own(&self, retired: &Retired) -> bool {
        retired.segment >= self.own
    }

    /// Goes on behind what was found, as no start should. False: there is nothing to go on in.
    pub fn go_on(&mut self, recovered: &Recovered) -> bool {
        let (Some((segment, bytes)), Some(last)) = (self.live.back().copied(), recovered.records.last()) else { return false };
        let torn = recovered.torn.iter().filter(|place| place.segment == segment).map(|place| place.offset).min();
        let Ok(file) = self.disk.open(&path(segment)) else { return false };
        let offset = torn.unwrap_or(recovered.end).next_multiple_of(BLOCK_BYTES);
        self.carry.clear();
        (self.n, self.segment) = (last.n, segment);
        self.writing = Some(Writing { segment, file, offset, bytes: bytes as usize });
        true
    }

    fn batch(&self, writing: &Writing, records: &[Record]) -> Vec<u8> {
        let (first, mut n) = (self.n + 1, self.n + 1);
        let mut text = Vec::with_capacity(records.iter().map(record::length_about).sum());
        let mut add = |record: &Record| {
            encode(writing.segment, n, first, record, &mut text);
            n += 1;
        };
        if writing.offset == 0 {
            let carry = self.carry.len() as u64;
            add(&Record::Open { prev: self.n, reserved: self.reserved, carry, bytes: writing.bytes as u64, of: self.of });
            self.carry.iter().for_each(&mut add);
        }
        records.iter().for_each(add);
        if self.setup.protocol.align {
            text.resize(text.len().next_multiple_of(BLOCK_BYTES), b'\n');
        }
        text
    }

    fn written(&mut self, bytes: usize, records: &[Record]) {
        let Some(writing) = &mut self.writing else { return };
        if writing.offset == 0 {
            self.n += 1 + self.carry.len() as u64;
            self.carry.clear();
            self.live.push_back((writing.segment, writing.bytes as u64));
        }
        self.n += records.len() as u64;
        self.segment = writing.segment;
        writing.offset += bytes;
        self.fresh_bytes += bytes as u64;
        for record in records {
            if let Record::Reserve { reserved } = record {
                self.reserved = self.reserved.max(*reserved);
            }
        }
    }

    fn begin_segment(&mut self, records: &[Record]) -> Result<(), DiskError> {
        self.writing = None;
        // How long it gets is only known once it has a number; that adds no digit.
        let needed = {
            let fence = Record::Open { prev: u64::MAX, reserved: u64::MAX, carry: u64::MAX, bytes: u64::MAX, of: self.of };
            let mut text = Vec::new();
            let batch = std::iter::once(&fence).chain(&self.carry).chain(records);
            batch.for_each(|record| encode(u64::MAX, u64::MAX, u64::MAX, record, &mut text));
            text.len().next_multiple_of(BLOCK_BYTES)
        };
        let spare = self.spare_of(needed)?;
        let segment = self.next;
        let place = path(segment);
        self.next += 1;
        if let Err(error) = self.disk.rename(&spare.path, &place) {
            // Nobody knows where it is now, and it holds nothing that anybody needs.
            self.disk.unlink(&spare.path).ok();
            return Err(failed("rename", &spare.path)(error));
        }
        let opened = if self.setup.protocol.sync_journal_folder { self.disk.sync_dir(WAL) } else { Ok(()) };
        match opened.and_then(|()| self.disk.open(&place)) {
            Ok(file) => {
                self.writing = Some(Writing { segment, file, offset: 0, bytes: spare.bytes });
                Ok(())
            }
            Err(error) => {
                // It holds nothing; if it stays, the next start removes it.
                self.disk.unlink(&place).ok();
                Err(failed("open", &place)(error))
            }
        }
    }

    /// A file for a segment of so many bytes at least.
    fn spare_of(&mut self, needed: usize) -> Result<Spare, DiskError> {
        let fits = |oldest: &&Retired| self.free > 0 && self.is_own(oldest) && oldest.bytes >= needed as u64;
        if let Some(Retired { segment, bytes, .. }) = self.retired.front().filter(fits) {
            let spare = Spare { path: path(*segment), bytes: *bytes as usize };
            self.retired.pop_front();
            self.free -= 1;
            return Ok(spare);
        }
        if let Some(spare) = self.spare.take_if(|spare| spare.bytes >= needed) {
            return Ok(spare);
        }
        let name = format!("{SPARE}/{:010}.jsonl", self.next);
        let wanted = needed.max(self.setup.segment_bytes);
        prefill_at(&*self.disk, &name, wanted).or_else(|error| {
            // A full disk may have room for this batch.
            if error.no_space() { prefill_at(&*self.disk, &name, needed) } else { Err(error) }
        })
    }

    /// Nothing is known of the file any more. One that nothing durable lies in need not cost space until the disk is well again; if it
    /// comes back, the next fence cuts it.
    fn give_up_segment(&mut self) {
        (self.own, self.free) = (self.next, 0);
        if let Some(writing) = self.writing.take()
            && writing.offset == 0
        {
            drop(writing.file);
            self.disk.unlink(&path(writing.segment)).ok();
        }
    }
}

/// Makes a segment of newlines for later.
pub fn prefill(disk: &dyn Disk, bytes: usize) -> Result<Spare, DiskError> {
    prefill_at(disk, &format!("{SPARE}/next.jsonl"), bytes)
}

fn prefill_at(disk: &dyn Disk, name: &str, bytes: usize) -> Result<Spare, DiskError> {
    // What lies there may be a live segment's second name, of a rename that a power cut tore.
    match disk.unlink(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("remove", name)(error)),
        _ => {}
    }
    match disk.create_filled(name, b'\n', bytes) {
        Ok(()) => Ok(Spare { path: name.to_owned(), bytes }),
        Err(error) => {
            disk.unlink(name).ok();
            Err(failed("write", name)(error))
        }
    }
}

fn write(writing: &Writing, text: &[u8], setup: &Setup) -> io::Result<()> {
    let sync = || if setup.protocol.sync_before_answer { writing.file.sync() } else { Ok(()) };
    writing.file.write_at(writing.offset as u64, text)?;
    sync().or_else(|error| if setup.protocol.leave_failed_file { Err(error) } else { sync() })
}

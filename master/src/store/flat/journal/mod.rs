//! The commit point: an append-only journal of JSON lines in segments of fixed size. A write is acknowledged when its
//! line is in it and fdatasync has returned.
//!
//! ```text
//! the oldest segment that nobody needs any more, or else spare/...: a file of newlines, made durable beforehand
//!            -> rename to the next place in wal/ -> fsync of wal/, before it is needed
//!            -> fence -> batch, batch, batch ...
//! a batch:   one write of whole blocks, one fdatasync
//! ```
//!
//! So a commit changes no metadata of the file system and rewrites no acknowledged byte, and in the long run nothing is
//! written but batches. What an older segment left in the file behind the newest batch names that segment, and does not
//! count. A file whose write or fdatasync failed is left for good: the same batch goes behind the fence of a new
//! segment, and where that fails as well, the batch is refused and the next one begins with a new segment.
//!
//! place: how a segment comes to its place · record, scan, recover PURE: a line, a segment, all of them · held PURE:
//! what a start keeps. gone: a segment that is removed during writes.

mod gone;
pub mod held;
mod loss;
mod place;
pub mod record;
pub mod recover;
pub mod scan;
mod segments;

use super::disk::Disk;
use super::disk_error::{DiskError, failed};
use super::protocol::ProtocolRule;
use super::setup::Setup;
pub use place::Writing;
use place::{NEXT, SegmentPlacing};
use record::{Record, encode};
use recover::{Position, Recovered};
use scan::BLOCK_BYTES;
pub use segments::{SPARE, WAL, path, segment};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// New segments that one batch is tried on after its own failed.
const NEW_SEGMENTS: u32 = 2;

/// Memory for the text of a batch that is kept for the next one: what 64 writers of usual objects need.
const TEXT_BYTES_KEPT: usize = 256 << 10;

pub struct Journal {
    disk: Arc<dyn Disk>,
    setup: Setup,
    /// The last record that is durable, and where it lies.
    n: u64,
    segment: u64,
    /// None: the next batch needs a new segment.
    writing: Option<Writing>,
    next: u64,
    /// The next segment, in its place already: no batch waits for that.
    ahead: Option<Writing>,
    /// Found unproven at the start: it goes again right behind the next fence.
    carry: Vec<Record>,
    reserved: u64,
    /// The mark of this journal, in each segment and in HEAD.json.
    of: u32,
    /// The segments from the segment in HEAD.json on, each with the size in bytes.
    live: VecDeque<(u64, u64)>,
    /// Earlier segments that still exist, oldest first.
    pub retired: VecDeque<Retired>,
    /// The number of retired segments, from the oldest on, that are no longer needed.
    pub free: usize,
    /// Only segments from this one on are written over: this process made them, so all their lines name them and nobody
    /// else has another name for them, and no write has failed since.
    own: u64,
    /// Bytes written since the last checkpoint began.
    pub fresh_bytes: u64,
    /// Its last segment was taken away: nothing is written before the files hold what was in it.
    lost: bool,
    /// The records of the last batch.
    text: Vec<u8>,
}

/// A segment that the files have caught up with.
pub struct Retired {
    pub segment: u64,
    pub bytes: u64,
    /// In uptime.
    pub since: Duration,
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
            ahead: None,
            carry: recovered.carry.clone(),
            reserved,
            of,
            live,
            retired: VecDeque::new(),
            free: 0,
            own: next,
            fresh_bytes: 0,
            lost: false,
            text: Vec::new(),
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

    /// The disk space of the whole journal.
    pub fn bytes(&self) -> u64 {
        let retired: u64 = self.retired.iter().map(|retired| retired.bytes).sum();
        self.live_bytes() + retired + self.ahead.as_ref().map_or(0, |ahead| ahead.bytes as u64)
    }

    /// Whether the last batch failed: the next one has to find a new segment first.
    pub fn is_broken(&self) -> bool {
        self.writing.is_none()
    }

    /// Whether the disk had no room for a whole segment.
    pub fn is_scarce(&self) -> bool {
        self.writing.as_ref().is_some_and(|writing| writing.bytes < self.setup.segment_bytes)
    }

    pub fn wants_next(&self) -> bool {
        self.ahead.is_none()
    }

    #[cfg(test)]
    pub fn drop_next(&mut self) {
        self.ahead = None;
    }

    /// The parts of the next segment, so that the segment is made while commits go on.
    pub fn place_next(&mut self) -> SegmentPlacing {
        self.placing(0)
    }

    /// It is in its place; a batch may have gone on to a later one meanwhile. Where that failed, and lies there all the
    /// same, its fence would cut whatever this one holds.
    pub fn take_next(&mut self, placed: Writing) {
        if self.ahead.is_none() && placed.segment + 1 == self.next {
            self.ahead = Some(placed);
        } else {
            self.leave(placed);
        }
    }

    /// Nothing is written any more: what stands ready is not left for a start to wonder at.
    pub fn close(&mut self) {
        if let Some(ahead) = self.ahead.take() {
            self.leave(ahead);
        }
    }

    /// Nothing lies in it. If it stays, the next start removes it.
    fn leave(&self, unused: Writing) {
        drop(unused.file);
        self.disk.unlink(&path(unused.segment)).ok();
    }

    /// Makes a batch durable. After an error nobody knows whether it is, but it can only come back as long as no other
    /// batch was.
    pub fn append(&mut self, records: &[Record]) -> Result<(), DiskError> {
        let mut text = std::mem::take(&mut self.text);
        let done = self.append_as(records, &mut text);
        text.clear();
        text.shrink_to(TEXT_BYTES_KEPT);
        self.text = text;
        done
    }

    fn append_as(&mut self, records: &[Record], text: &mut Vec<u8>) -> Result<(), DiskError> {
        let mut failures = 0;
        loop {
            self.refuse_lost()?;
            let Some(writing) = &self.writing else {
                self.begin_segment(records)?;
                continue;
            };
            self.encode(writing, records, text);
            if writing.offset > 0 && writing.offset + text.len() > writing.bytes {
                self.begin_segment(records)?;
                continue;
            }
            let done = writing.write(text, &self.setup.protocol);
            if writing.file.is_gone() {
                self.lose();
                continue;
            }
            match done {
                Ok(()) => {
                    self.written(text.len(), records);
                    return Ok(());
                }
                Err(error) => {
                    let place = path(writing.segment);
                    let error = failed("write", if writing.offset == 0 { NEXT } else { &place })(error);
                    self.give_up_segment();
                    failures += 1;
                    if failures > NEW_SEGMENTS {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Whether what was found unproven at the start is not written again yet: the files could not say it all without a
    /// place in the journal that HEAD.json may name.
    pub fn owes(&self) -> bool {
        self.carry.iter().any(|record| record.key().is_some())
    }

    /// Revisions up to this one are reserved before anything else is written.
    pub fn reserve_first(&mut self, reserved: u64) {
        self.carry.push(Record::Reserve { reserved });
    }

    /// The files hold all that its segments say: those that are gone count no more.
    pub fn forget(&mut self, gone: impl Fn(u64) -> bool) {
        self.live.retain(|(segment, _)| !gone(*segment));
    }

    /// Whether a segment up to this one counts.
    pub fn holds_until(&self, segment: u64) -> bool {
        self.live.front().is_some_and(|(first, _)| *first <= segment)
    }

    /// Goes on in a new segment that was none before.
    pub fn roll(&mut self) -> Result<(), DiskError> {
        self.close();
        self.free = 0;
        self.begin_segment(&[])?;
        self.append(&[])
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
        let (Some((segment, bytes)), Some(last)) = (self.live.back().copied(), recovered.records.last()) else {
            return false;
        };
        let torn = recovered.torn.iter().filter(|place| place.segment == segment).map(|place| place.offset).min();
        let Ok(file) = self.disk.open(&path(segment)) else { return false };
        let offset = torn.unwrap_or(recovered.end).next_multiple_of(BLOCK_BYTES);
        self.carry.clear();
        (self.n, self.segment) = (last.n, segment);
        self.writing = Some(Writing { segment, file, offset, bytes: bytes as usize, over: false });
        true
    }

    fn encode(&self, writing: &Writing, records: &[Record], text: &mut Vec<u8>) {
        let (first, mut n) = (self.n + 1, self.n + 1);
        text.clear();
        text.reserve(records.iter().map(record::length_about).sum());
        let mut add = |record: &Record| {
            encode(writing.segment, n, first, record, text);
            n += 1;
        };
        if writing.offset == 0 {
            let carry = self.carry.len() as u64;
            let (bytes, over) = (writing.bytes as u64, writing.over);
            add(&Record::Open { prev: self.n, reserved: self.reserved, carry, bytes, of: self.of, over });
            self.carry.iter().for_each(&mut add);
        }
        records.iter().for_each(add);
        if self.setup.protocol.holds(ProtocolRule::Align) {
            text.resize(text.len().next_multiple_of(BLOCK_BYTES), b'\n');
        }
    }

    fn written(&mut self, bytes: usize, records: &[Record]) {
        let Some(writing) = &mut self.writing else { return };
        let mut carried = Vec::new();
        if writing.offset == 0 {
            carried = std::mem::take(&mut self.carry);
            self.n += 1 + carried.len() as u64;
            self.live.push_back((writing.segment, writing.bytes as u64));
        }
        self.n += records.len() as u64;
        self.segment = writing.segment;
        writing.offset += bytes;
        self.fresh_bytes += bytes as u64;
        for record in carried.iter().chain(records) {
            if let Record::Reserve { reserved } = record {
                self.reserved = self.reserved.max(*reserved);
            }
        }
    }

    fn begin_segment(&mut self, records: &[Record]) -> Result<(), DiskError> {
        self.writing = None;
        // How long it gets is only known once it has a number; that adds no digit.
        let needed = {
            let fence = Record::Open {
                prev: u64::MAX,
                reserved: u64::MAX,
                carry: u64::MAX,
                bytes: u64::MAX,
                of: self.of,
                over: true,
            };
            let mut text = Vec::new();
            let batch = std::iter::once(&fence).chain(&self.carry).chain(records);
            batch.for_each(|record| encode(u64::MAX, u64::MAX, u64::MAX, record, &mut text));
            text.len().next_multiple_of(BLOCK_BYTES)
        };
        match self.ahead.take() {
            Some(ahead) if ahead.bytes >= needed => self.writing = Some(ahead),
            too_short => {
                too_short.into_iter().for_each(|ahead| self.leave(ahead));
                self.writing = Some(self.placing(needed).place()?);
            }
        }
        Ok(())
    }

    fn placing(&mut self, needed: usize) -> SegmentPlacing {
        let fits = |oldest: &&Retired| self.free > 0 && self.is_own(oldest) && oldest.bytes >= needed as u64;
        let old = self.retired.front().filter(fits).map(|oldest| (oldest.segment, oldest.bytes as usize));
        if old.is_some() {
            self.retired.pop_front();
            self.free -= 1;
        }
        // Where one behind the last that was written to was given up, it leaves out two more: a gap of one is of
        // somebody's making, also where the one that was given up is there all the same.
        let segment = if self.next > self.segment + 1 { self.next + 2 } else { self.next };
        let bytes = needed.max(self.setup.segment_bytes);
        // A batch that waits for it waits for no more than it needs.
        let bytes_better =
            Some(self.setup.segment_ahead_bytes(self.live_bytes())).filter(|better| needed == 0 && *better > bytes);
        self.next = segment + 1;
        let (disk, sync_folder) = (self.disk.clone(), self.setup.protocol.holds(ProtocolRule::SyncJournalFolder));
        SegmentPlacing { disk, segment, old, bytes, bytes_better, bytes_min: needed, sync_folder }
    }

    /// Nothing is known of the file any more. One that nothing durable lies in need not cost space until the disk is
    /// well again; if it comes back, the next fence cuts it.
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

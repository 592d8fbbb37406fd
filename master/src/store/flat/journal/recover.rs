//! PURE. Combines the segments of a start: valid records, records that never were acknowledged, and provably missing
//! ones.
//!
//! - A segment's first record is a fence: it says where the truth before it ended. What earlier segments hold beyond
//!   was refused.
//! - The end of the last segment may be torn: a batch that was being written when the power went was never
//!   acknowledged.
//! - A bad line with a later batch behind it is no torn end: that batch was only written once this one was durable.
//! - The last batch may be whole to look at and on no medium (its fsync failed, or the master was killed before). It
//!   goes again, behind the next fence, before anybody sees it.
//! - What the files hold already may be damaged in the journal.

use super::held::{HeldRecord, Later, Worth};
pub use super::loss::{JournalPlace, Missing, Wiped};
use super::record::{Line, Record};
use super::scan::{BLOCK_BYTES, ScannedLine};
use crate::store::flat::protocol::{Protocol, ProtocolRule};
use serde::{Deserialize, Serialize};

/// A segment is written over in place, so a power cut leaves either the old or the new content in each sector. A bad
/// medium spoils the pages of the current write, some tens of KiB; more strange bytes mean that the medium has lost
/// stored content.
const SPOILT_BYTES_MAX: usize = 32 << 10;

/// Where the journal begins to say more than the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    pub segment: u64,
    pub n: u64,
}

/// A segment as it was read.
pub struct ScannedSegment {
    pub segment: u64,
    /// The length of the file.
    pub bytes: usize,
    /// None: it cannot be read. What it holds is unknown, not absent.
    pub found: Option<Vec<ScannedLine>>,
}

#[derive(Debug, Default, PartialEq)]
pub struct Recovered {
    /// The records that the files do not hold yet, in order.
    pub records: Vec<HeldRecord>,
    /// Whole records behind what is missing.
    pub beyond: Vec<HeldRecord>,
    /// The next segment's fence: the last record that is proven.
    pub last: u64,
    /// The records that the new segment has to carry: those of the last batch.
    pub carry: Vec<Record>,
    /// The last segment, where it holds nothing else.
    pub carried: Option<u64>,
    /// Revisions up to this one may have been used.
    pub reserved: u64,
    /// Where the first record stands; None: there is no journal.
    pub start: Option<Position>,
    /// Segments that hold nothing.
    pub void: Vec<u64>,
    /// Ends that a power cut tore, and that no later segment says to be dealt with.
    pub torn: Vec<JournalPlace>,
    /// Something lies behind the end that is no line. Most likely an earlier segment left it.
    pub unclear: bool,
    pub missing: Option<Missing>,
    /// The medium has lost more of the end than the one batch that was being written: acknowledged ones may have been
    /// there.
    pub wiped: Option<Wiped>,
    /// The journal ends before the position in HEAD.json, and the files hold the records in between; or the last
    /// segment is missing. The journal may have had more records.
    pub behind: bool,
    /// Where the last record of the last segment begins.
    pub end: usize,
}

/// `head`: what HEAD.json says; None: it is lost, or of a time before the journal. `closed`: it says as well that
/// nothing was acknowledged since. `segments` in ascending order; they are asked for from the last one, one at a time:
/// what a record is worth to a start is known once the later ones are, and no more than one segment is in memory.
pub fn recover(
    head: Option<Position>,
    closed: bool,
    segments: impl DoubleEndedIterator<Item = ScannedSegment>,
    protocol: &Protocol,
) -> Recovered {
    let mut chain =
        Chain { head, closed, from: head.map_or(0, |head| head.n), protocol, end: None, all: Recovered::default() };
    let mut behind = Behind::default();
    let links: Vec<Link> =
        segments.rev().map(|segment| behind.link(Part::read(segment, chain.from, protocol), protocol)).collect();
    links.into_iter().rev().for_each(|link| chain.join(link));
    let mut recovered = chain.finish();
    if recovered.missing.is_none() {
        // The rest of batches that were never acknowledged.
        recovered.beyond.clear();
    }
    recovered
}

/// The evidence of later segments about the records of a segment.
#[derive(Default)]
struct Behind {
    /// The last record that all their fences let hold; None: there is no fence.
    cut: Option<u64>,
    records: Later,
    beyond: Later,
}

/// A segment with the held records.
struct Link {
    /// Without its lines.
    part: Part,
    records: Vec<HeldRecord>,
    beyond: Vec<HeldRecord>,
}

impl Behind {
    fn link(&mut self, mut part: Part, protocol: &Protocol) -> Link {
        let (mut lines, mut beyond) = (std::mem::take(&mut part.lines), std::mem::take(&mut part.beyond));
        // Refused, or carried over: whoever wrote the fence has dealt with it.
        let holds = |line: &Line| self.cut.is_none_or(|cut| line.n <= cut) || !protocol.holds(ProtocolRule::Fence);
        lines.retain(holds);
        beyond.retain(holds);
        let beyond = self.beyond.hold(part.segment, beyond, u64::MAX);
        let Some(fence) = part.fence else { return Link { part, records: Vec::new(), beyond } };
        // Only the last batch of all is carried.
        let whole = if self.cut.is_none() { part.batch } else { u64::MAX };
        let records = self.records.hold(part.segment, lines, whole);
        self.cut = Some(self.cut.map_or(fence.prev, |cut| cut.min(fence.prev)));
        Link { part, records, beyond }
    }
}

struct Chain<'a> {
    head: Option<Position>,
    /// Nothing from there on was acknowledged.
    closed: bool,
    from: u64,
    protocol: &'a Protocol,
    /// The last segment that holds something.
    end: Option<Part>,
    all: Recovered,
}

impl Chain<'_> {
    fn join(&mut self, Link { part, mut records, mut beyond }: Link) {
        self.all.beyond.append(&mut beyond);
        let Some(fence) = part.fence else {
            if part.damaged && !self.closed && self.protocol.holds(ProtocolRule::LaterBatchIsDamage) {
                let why = match part.unread {
                    true => {
                        "the segment cannot be read, so what it holds is unknown: start again, or copy the directory \
                         to a disk that is well"
                    }
                    false => "the beginning of the segment is damaged, and later batches follow",
                };
                self.miss(part.bad_place(), self.next(), why);
            } else {
                self.all.void.push(part.segment);
                self.all.torn.extend(part.torn.then(|| part.bad_place()));
                self.all.unclear |= part.bad.is_some();
                self.all.wiped = self.all.wiped.or(part.wiped().filter(|_| !self.closed));
            }
            return;
        };
        // Whoever wrote the fence knew what was before.
        self.all.wiped = None;
        match &self.end {
            Some(end) if self.protocol.holds(ProtocolRule::Fence) => {
                if end.last < fence.prev && fence.prev >= self.from {
                    let (place, n) = (end.bad_place(), (end.last + 1).max(self.from));
                    self.miss(
                        place,
                        n,
                        "the next segment continues after it, as in a copy that a master overtook by its writes: copy \
                         it again",
                    );
                }
            }
            Some(_) => {}
            None => {
                if self.head.is_some() && part.first > self.from {
                    self.miss(
                        JournalPlace { segment: part.segment, offset: 0 },
                        self.from,
                        "the journal begins after it",
                    );
                }
                self.all.start = Some(Position { segment: part.segment, n: part.first.max(self.from) });
            }
        }
        self.all.reserved = self.all.reserved.max(part.reserved);
        self.all.records.append(&mut records);
        self.end = Some(part);
    }

    fn finish(mut self) -> Recovered {
        let Some(end) = self.end.take() else {
            if let Some(head) = self.head.filter(|_| !self.closed) {
                self.miss(
                    JournalPlace { segment: head.segment, offset: 0 },
                    head.n,
                    "the segment that HEAD.json names is gone or damaged",
                );
            }
            self.all.last = self.from.saturating_sub(1);
            return self.all;
        };
        let matters = !self.closed || end.last >= self.from;
        if end.damaged && matters && self.protocol.holds(ProtocolRule::LaterBatchIsDamage) {
            let why = if end.short {
                "the file is shorter than it was made"
            } else {
                "the line is damaged, and later batches follow"
            };
            self.miss(end.bad_place(), end.last + 1, why);
        } else if matters {
            self.all.torn.extend(end.torn.then(|| end.bad_place()));
            self.all.unclear |= end.bad.is_some();
            self.all.wiped = end.wiped().or(self.all.wiped);
        }
        self.all.behind = !self.closed && end.last + 1 < self.from;
        self.all.end = end.end;
        self.all.last = end.last.max(self.from.saturating_sub(1));
        if end.batch >= self.from && self.protocol.holds(ProtocolRule::Rejournal) {
            self.all.last = end.batch.saturating_sub(1);
            self.all.carried = (end.batch == end.first).then_some(end.segment);
            let unproven = self.all.records.iter().filter(|held| held.n >= end.batch && held.key().is_some());
            let whole =
                |held: &HeldRecord| if let Worth::Whole(record) = &held.worth { Some(record.clone()) } else { None };
            self.all.carry = unproven.filter_map(whole).collect();
        }
        self.all
    }

    fn next(&self) -> u64 {
        self.end.as_ref().map_or(self.from, |end| end.last + 1)
    }

    /// The first is what people have to look at.
    fn miss(&mut self, place: JournalPlace, n: u64, why: &'static str) {
        self.all.missing.get_or_insert(Missing { place, n, why: why.into() });
    }
}

#[derive(Clone, Copy)]
struct Fence {
    prev: u64,
    carry: u64,
}

/// One segment, read for itself.
struct Part {
    segment: u64,
    /// None: it holds nothing.
    fence: Option<Fence>,
    first: u64,
    last: u64,
    /// The first line of the last batch.
    batch: u64,
    reserved: u64,
    /// The records that the files do not hold yet.
    lines: Vec<Line>,
    beyond: Vec<Line>,
    /// Where the first thing lies that does not follow what came before.
    bad: Option<usize>,
    /// A line of this segment begins there, which was not left by an earlier one.
    torn: bool,
    /// The number of bytes from `bad` on that no master wrote.
    strange: usize,
    /// A later batch lies behind that.
    damaged: bool,
    /// It may hold anything.
    unread: bool,
    /// How long the file was made.
    made_bytes: u64,
    /// It is shorter now.
    short: bool,
    end: usize,
}

impl Part {
    fn read(scanned: ScannedSegment, from: u64, protocol: &Protocol) -> Part {
        let (fence, bad) = (None, None);
        let mut part = Part {
            segment: scanned.segment,
            fence,
            first: 0,
            last: 0,
            batch: 0,
            reserved: 0,
            lines: Vec::new(),
            beyond: Vec::new(),
            bad,
            torn: false,
            strange: 0,
            damaged: false,
            unread: false,
            made_bytes: 0,
            short: false,
            end: 0,
        };
        let Some(found) = scanned.found else {
            (part.bad, part.damaged, part.unread) = (Some(0), true, true);
            return part;
        };
        for found in found {
            match found {
                ScannedLine::Bad { offset, begun, strange } => {
                    part.bad.get_or_insert(offset);
                    part.torn |= begun;
                    part.strange += strange;
                }
                ScannedLine::Line { offset, line } => part.line(offset, line, from, protocol),
            }
        }
        // A segment is made long, durably, before it has its name: a shorter one was cut.
        if (scanned.bytes as u64) < part.made_bytes.max(BLOCK_BYTES as u64) {
            (part.damaged, part.short) = (true, true);
            part.bad.get_or_insert(scanned.bytes);
        }
        if let Some(fence) = part.fence
            && part.last < part.first + fence.carry
            && protocol.holds(ProtocolRule::Carry)
        {
            part.fence = None;
            part.bad.get_or_insert(part.end);
        }
        part
    }

    fn line(&mut self, offset: usize, line: Line, from: u64, protocol: &Protocol) {
        let opens = matches!(line.record, Record::Open { .. }) && line.segment == Some(self.segment);
        let begins_batch =
            line.n == line.batch && (offset.is_multiple_of(BLOCK_BYTES) || !protocol.holds(ProtocolRule::Align));
        let follows = self.fence.is_some() && line.n == self.last + 1 && !matches!(line.record, Record::Open { .. });
        let fits = match (self.fence, self.bad) {
            (None, None) => opens,
            (Some(_), None) => follows,
            // Nothing but the end of a block was damaged.
            (Some(_), Some(_)) if follows && begins_batch => true,
            // All that was damaged is in the files.
            (_, Some(_)) => begins_batch && line.n <= from && line.n > self.last,
        };
        if !fits {
            self.damaged |= match self.fence {
                Some(_) => line.batch > self.last + 1,
                // A segment's second batch is written once its first is durable.
                None => line.n == line.batch && offset > 0,
            };
            self.bad.get_or_insert(offset);
            if line.n >= from {
                self.beyond.push(line);
            }
            return;
        }
        (self.bad, self.torn, self.strange, self.damaged, self.end) = (None, false, 0, false, offset);
        if let Record::Open { reserved, .. } | Record::Reserve { reserved } = line.record {
            self.reserved = self.reserved.max(reserved);
        }
        if self.fence.is_none() {
            self.first = line.n;
            self.fence = Some(match line.record {
                Record::Open { prev, carry, bytes, .. } => {
                    self.made_bytes = bytes;
                    Fence { prev, carry }
                }
                _ => Fence { prev: line.n - 1, carry: 0 },
            });
        }
        (self.last, self.batch) = (line.n, line.batch);
        if line.n >= from {
            self.lines.push(line);
        }
    }

    fn wiped(&self) -> Option<Wiped> {
        (self.strange > SPOILT_BYTES_MAX).then(|| Wiped { place: self.bad_place(), bytes: self.strange })
    }

    fn bad_place(&self) -> JournalPlace {
        JournalPlace { segment: self.segment, offset: self.bad.unwrap_or(self.end) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record;
    use super::super::scan::scan;
    use super::*;
    use crate::store::flat::start::view;
    use bytes::Bytes;
    use coracle_api::meta::{Key, Resource, Revision};
    use std::collections::HashSet;
    use std::sync::Arc;

    fn put(n: u64) -> Record {
        let key = Key { resource: Resource::core("pods"), namespace: "ns".to_owned(), name: format!("p{n}") };
        let (was, object) = (record::Was::Absent, Bytes::from_static(b"{}"));
        Record::Put { revision: Revision(n), key: Arc::new(key), was, by_hand: false, object }
    }

    fn open(prev: u64, carry: u64) -> Record {
        Record::Open { prev, reserved: 100, carry, bytes: 0, of: 0, over: false }
    }

    /// A segment of batches, each on a block of its own.
    fn segment(number: u64, first: u64, batches: &[&[Record]]) -> Vec<u8> {
        let (mut n, mut text) = (first, Vec::new());
        for batch in batches {
            let begun = n;
            for record in *batch {
                record::encode(number, n, begun, record, &mut text);
                n += 1;
            }
            text.resize(text.len().next_multiple_of(BLOCK_BYTES), b'\n');
        }
        text
    }

    fn read(head: Option<(u64, u64)>, segments: &[(u64, Vec<u8>)]) -> Recovered {
        let scanned = |(segment, text): &(u64, Vec<u8>)| ScannedSegment {
            segment: *segment,
            bytes: usize::MAX,
            found: Some(scan(&Bytes::copy_from_slice(text), *segment, &Protocol::WHOLE)),
        };
        let head = head.map(|(segment, n)| Position { segment, n });
        recover(head, false, segments.iter().map(scanned), &Protocol::WHOLE)
    }

    /// The records with a key that hold, the fence of the next segment, and how many it carries.
    fn check(head: Option<(u64, u64)>, segments: &[(u64, Vec<u8>)], holds: &[u64], last: u64, carry: usize) {
        let recovered = read(head, segments);
        assert_eq!(recovered.missing, None);
        let numbers: Vec<u64> =
            recovered.records.iter().filter(|held| held.key().is_some()).map(|held| held.n).collect();
        assert_eq!((numbers.as_slice(), recovered.last, recovered.carry.len()), (holds, last, carry));
    }

    fn check_missing(head: Option<(u64, u64)>, segments: &[(u64, Vec<u8>)], n: u64, place: (u64, usize)) {
        let missing = read(head, segments).missing.expect("something is missing");
        assert_eq!((missing.n, missing.place), (n, JournalPlace { segment: place.0, offset: place.1 }), "{missing}");
    }

    /// 1: open · 2: put · 3, 4: put · 5: put
    fn first() -> Vec<u8> {
        segment(1, 1, &[&[open(0, 0)], &[put(2)], &[put(3), put(4)], &[put(5)]])
    }

    fn flip(mut text: Vec<u8>, at: usize) -> Vec<u8> {
        text[at] ^= 4;
        text
    }

    #[test]
    fn what_is_whole_holds_and_its_last_batch_goes_again() {
        check(None, &[], &[], 0, 0);
        check(None, &[(1, first())], &[2, 3, 4, 5], 4, 1);
        check(Some((1, 3)), &[(1, first())], &[3, 4, 5], 4, 1);
        check(Some((1, 5)), &[(1, first())], &[5], 4, 1);
        // The files hold all records.
        check(Some((1, 6)), &[(1, first())], &[], 5, 0);
        let second = segment(2, 5, &[&[open(4, 1), put(6)], &[put(7)]]);
        // The fence cuts record 5, and the carried one stands in its place.
        check(None, &[(1, first()), (2, second.clone())], &[2, 3, 4, 6, 7], 6, 1);
        assert_eq!(read(None, &[(1, first()), (2, second)]).torn, []);
        let only_opened = segment(2, 6, &[&[open(5, 0)]]);
        check(None, &[(1, first()), (2, only_opened)], &[2, 3, 4, 5], 5, 0);
    }

    #[test]
    fn a_torn_end_never_was() {
        let whole = first();
        for cut in [12_288, 12_290, 12_300] {
            check(None, &[(1, whole[..cut].to_vec())], &[2, 3, 4], 2, 2);
        }
        // A part of a batch that was never acknowledged.
        check(None, &[(1, whole[..8_300].to_vec())], &[2, 3], 2, 1);
        let in_the_middle = flip(whole[..12_288].to_vec(), 8_200);
        check(None, &[(1, in_the_middle.clone())], &[2], 1, 1);
        assert_eq!(read(None, &[(1, in_the_middle)]).beyond, []);
        check(None, &[(1, flip(whole.clone(), 12_300))], &[2, 3, 4], 2, 2);
        assert_eq!(read(None, &[(1, flip(whole, 12_300))]).torn, [JournalPlace { segment: 1, offset: 12_288 }]);
        // A segment without its beginning, or without what it carries, is void.
        let torn = segment(2, 5, &[&[open(4, 1), put(6)]]);
        for cut in [0, 50, 100] {
            check(None, &[(1, first()), (2, torn[..cut].to_vec())], &[2, 3, 4, 5], 4, 1);
            assert_eq!(read(None, &[(1, first()), (2, torn[..cut].to_vec())]).void, [2]);
        }
    }

    #[test]
    fn damage_of_the_last_batch_is_told_wherever_it_is() {
        let whole = first();
        let line = whole[12_288..].iter().position(|byte| *byte == b'\n').expect("a line");
        for at in 12_288..=12_288 + line {
            let recovered = read(None, &[(1, flip(whole.clone(), at))]);
            assert_eq!(
                (recovered.last, recovered.torn),
                (2, vec![JournalPlace { segment: 1, offset: 12_288 }]),
                "{at}"
            );
        }
        // A card has lost pages.
        for from in [4_096, 8_200, 8_300, 12_288, 12_300] {
            let mut zeros = whole.clone();
            zeros[from..].fill(0);
            let recovered = read(None, &[(1, zeros)]);
            assert_eq!((recovered.missing, recovered.torn.len()), (None, 1), "{from}");
        }
        assert_eq!(read(None, &[(1, whole)]).torn, []);
    }

    #[test]
    fn damage_before_a_later_batch_is_no_torn_end() {
        check_missing(None, &[(1, flip(first(), 4_100))], 2, (1, 4_096));
        check_missing(None, &[(1, flip(first(), 10))], 0, (1, 0));
        check_missing(Some((1, 1)), &[(1, flip(first(), 10))], 1, (1, 0));
        let recovered = read(None, &[(1, flip(first(), 4_100))]);
        assert_eq!(recovered.beyond.iter().map(|line| line.n).collect::<Vec<_>>(), [3, 4, 5]);
        // The next segment knows that there was more.
        let second = segment(2, 6, &[&[open(5, 0)], &[put(7)]]);
        check_missing(
            None,
            &[(1, first()[..12_288].to_vec()), (2, second.clone())],
            5,
            (1, 8_192 + first()[8_192..].iter().position(|b| *b == b'\n').expect("a line") + 1),
        );
        // A segment that cannot be read may hold anything.
        let unreadable = vec![ScannedSegment { segment: 1, bytes: usize::MAX, found: None }];
        let recovered = recover(Some(Position { segment: 1, n: 3 }), false, unreadable.into_iter(), &Protocol::WHOLE);
        let missing = recovered.missing.expect("unknown is not absent");
        assert!(
            missing.n == 3 && missing.why.contains("start again, or copy the directory") && recovered.void.is_empty(),
            "{missing}"
        );
        // Segments are gone.
        check_missing(Some((1, 3)), &[(2, second)], 3, (2, 0));
        check_missing(Some((1, 3)), &[], 3, (1, 0));
    }

    #[test]
    fn damage_that_hides_no_record_or_only_what_the_files_hold_harms_nobody() {
        check(None, &[(1, flip(first(), 4_095))], &[2, 3, 4, 5], 4, 1);
        check(None, &[(1, flip(first(), 8_191))], &[2, 3, 4, 5], 4, 1);
        check(Some((1, 3)), &[(1, flip(first(), 4_100))], &[3, 4, 5], 4, 1);
        check(Some((1, 5)), &[(1, flip(first(), 10))], &[5], 4, 1);
        // The files hold all of the first segment but its damaged last batch, which a later fence never was told of.
        let second = segment(2, 5, &[&[open(4, 0)], &[put(6)]]);
        check(Some((1, 3)), &[(1, flip(first(), 12_300)), (2, second)], &[3, 4, 6], 5, 1);
    }

    #[test]
    fn a_segment_that_was_cut_short_has_lost_something() {
        let made = |bytes: u64| Record::Open { prev: 0, reserved: 100, carry: 0, bytes, of: 0, over: false };
        let text = segment(1, 1, &[&[made(16_384)], &[put(2)], &[put(3)]]);
        let lost = |text: &[u8], bytes: usize| {
            let scanned = ScannedSegment {
                segment: 1,
                bytes,
                found: Some(scan(&Bytes::copy_from_slice(text), 1, &Protocol::WHOLE)),
            };
            recover(None, false, [scanned].into_iter(), &Protocol::WHOLE)
                .missing
                .map(|missing| (missing.n, missing.place.offset))
        };
        assert_eq!(lost(&text, 16_384), None);
        assert_eq!(lost(&text[..8_192], 8_192), Some((3, 8_192)));
        assert_eq!(lost(&text[..5_000], 5_000), Some((3, 5_000)));
        assert_eq!(lost(&text[..50], 50).map(|(n, _)| n), Some(0));
        assert_eq!(lost(&[], 0), Some((0, 0)));
    }

    fn say(name: &str, n: u64) -> Record {
        let key = Key { resource: Resource::core("pods"), namespace: "ns".to_owned(), name: name.to_owned() };
        let object = Bytes::from(format!("{{\"is\":\"{}\"}}", "x".repeat(SAID_BYTES - 9)));
        Record::Put { revision: Revision(n), key: Arc::new(key), was: record::Was::Unknown, by_hand: false, object }
    }

    const SAID_BYTES: usize = 1000;

    /// The numbers of the objects that are held whole.
    fn whole(records: &[HeldRecord]) -> Vec<u64> {
        let is_whole = |held: &&HeldRecord| {
            matches!(&held.worth,
            Worth::Whole(Record::Put { object, .. }) if object.len() == SAID_BYTES)
        };
        records.iter().filter(is_whole).map(|held| held.n).collect()
    }

    #[test]
    fn one_segment_is_in_memory_and_of_each_object_what_is_said_last() {
        const SEGMENTS: u64 = 20;
        let text = |number: u64| {
            let first = (number - 1) * 6 + 1;
            let a = |n: u64| say("a", first + n);
            segment(
                number,
                first,
                &[
                    &[open(first - 1, 0), a(1)],
                    &[say("b", first + 2), say(&format!("c{number}"), first + 3)],
                    &[a(4), a(5)],
                ],
            )
        };
        let texts: Vec<Bytes> = (1..=SEGMENTS).map(|number| text(number).into()).collect();
        let are_free = || texts.iter().all(Bytes::is_unique);
        let scanned = |number: u64| {
            assert!(are_free(), "another one is in memory when segment {number} is read");
            let text = &texts[number as usize - 1];
            ScannedSegment { segment: number, bytes: text.len(), found: Some(scan(text, number, &Protocol::WHOLE)) }
        };
        let recovered = recover(None, false, (1..SEGMENTS + 1).map(scanned), &Protocol::WHOLE);
        assert!(are_free(), "{:?} share memory with their segments", whole(&recovered.records));
        assert_eq!((recovered.missing, recovered.records.len()), (None, 6 * SEGMENTS as usize));
        let first = (SEGMENTS - 1) * 6 + 1;
        // The last batch may have to be written again, all of it.
        let expected: Vec<u64> =
            (0..SEGMENTS - 1).map(|segment| segment * 6 + 4).chain(first + 2..=first + 5).collect();
        assert_eq!(whole(&recovered.records), expected);
        assert_eq!(recovered.carry, [say("a", first + 4), say("a", first + 5)]);
        let keys: HashSet<*const Key> = recovered.records.iter().filter_map(HeldRecord::key).map(Arc::as_ptr).collect();
        assert_eq!(keys.len(), 2 + SEGMENTS as usize, "a key is held more than once");
    }

    #[test]
    fn only_what_holds_takes_the_place_of_an_object() {
        // 1: open · 2: a · 3: a
        let first = segment(1, 1, &[&[open(0, 0)], &[say("a", 1)], &[say("a", 2)]]);
        let check = |segments: &[(u64, Vec<u8>)], expected: &[u64]| {
            let recovered = read(None, segments);
            assert_eq!((whole(&recovered.records).as_slice(), recovered.missing), (expected, None));
        };
        check(&[(1, first.clone())], &[3]);
        // Refused, and refused again in a segment of its own, and void.
        let after = |prev: u64, records: &[Record]| segment(2, prev + 1, &[&[&[open(prev, 0)], records].concat()]);
        check(&[(1, first.clone()), (2, after(2, &[]))], &[2]);
        let third = segment(3, 3, &[&[open(2, 0)], &[say("b", 4)]]);
        check(&[(1, first.clone()), (2, after(2, &[say("a", 3)])), (3, third)], &[2, 4]);
        let void = segment(2, 4, &[&[open(3, 1), say("a", 3)]]);
        check(&[(1, first.clone()), (2, void[..200].to_vec())], &[3]);
        check(&[(1, first.clone()), (2, void)], &[5]);
        let Record::Put { revision, key, was, .. } = say("a", 3) else { unreachable!() };
        check(&[(1, first), (2, after(3, &[Record::Remove { revision, key, was }]))], &[]);
    }

    #[test]
    fn what_lies_behind_a_hole_leaves_the_last_of_it_and_of_what_is_before() {
        let batches: [&[Record]; 6] =
            [&[open(0, 0)], &[say("a", 1)], &[say("a", 2)], &[say("b", 3)], &[say("a", 4)], &[say("a", 5)]];
        let recovered = read(None, &[(1, flip(segment(1, 1, &batches), 12_300))]);
        assert_eq!(
            (recovered.missing.map(|missing| missing.n), whole(&recovered.records), whole(&recovered.beyond)),
            (Some(4), vec![3], vec![6])
        );
        assert_eq!(recovered.beyond.iter().map(|held| held.n).collect::<Vec<_>>(), [5, 6]);
    }

    #[test]
    fn what_lies_behind_a_hole_is_older_than_later_segments() {
        let first =
            [&[open(0, 0)], &[say("a", 1)], &[say("b", 2)], &[say("a", 3)], &[say("refused", 4)]] as [&[Record]; 5];
        let second = segment(2, 5, &[&[open(4, 0)], &[say("a", 5)]]);
        let recovered = read(None, &[(1, flip(segment(1, 1, &first), 8_200)), (2, second)]);
        assert_eq!(recovered.missing.as_ref().map(|missing| missing.n), Some(3));
        let said: Vec<(String, u64)> =
            view(&recovered).into_iter().map(|(key, said)| (key.name.clone(), said.revision.0)).collect();
        assert_eq!(said, [("a".to_owned(), 5)]);
    }

    #[test]
    fn what_was_refused_is_fenced_off() {
        // Batch 5 failed, went to segment 2, failed there too, and was refused; something else came later.
        let refused = segment(2, 5, &[&[open(4, 0), put(6)]]);
        let third = segment(3, 5, &[&[open(4, 0), put(60)]]);
        let recovered = read(None, &[(1, first()), (2, refused), (3, third)]);
        let revisions: Vec<u64> =
            recovered.records.iter().filter_map(HeldRecord::revision).map(|revision| revision.0).collect();
        assert_eq!((revisions, recovered.last, recovered.missing), (vec![2, 3, 4, 60], 4, None));
    }
}

//! PURE. What each object's file was to hold, one content after the other, as far back as the segments tell without a gap: also those
//! segments that the files have caught up with and that are still there. It tells a file that is older than HEAD.json says from one that
//! a person wrote.

use super::record::{Record, Was};
use super::recover::{Part, Scanned};
use crate::store::document::crc32;
use crate::store::protocol::Protocol;
use coracle_api::meta::{Key, Revision};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a record made of a file, and where the record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    pub segment: u64,
    pub n: u64,
    pub revision: Revision,
    /// The checksum of the compact document; None: there is no file any more.
    pub sum: Option<u32>,
}

/// What a file is by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// No record tells.
    Unknown,
    /// It holds the last word on it.
    Last,
    /// It holds what it held before the last word.
    Older,
    /// It holds what no record says.
    Other,
}

/// The contents of one file.
struct Line {
    /// Before the first word.
    before: Was,
    words: Vec<Word>,
}

#[derive(Default)]
pub struct Past {
    files: BTreeMap<Arc<Key>, Line>,
    /// The last record that was seen.
    last: u64,
    /// HEAD.json counts from this one on.
    end: u64,
}

impl Past {
    /// `end`: only what was said before this record matters.
    pub fn before(end: u64) -> Past {
        Past { end, ..Past::default() }
    }

    /// The next segment, in order.
    pub fn add(&mut self, segment: Scanned, protocol: &Protocol) {
        let part = Part::read(segment, 0, protocol);
        let Some(prev) = part.prev() else {
            // Void, unless something is lost that it held: then the next one does not follow.
            return;
        };
        if prev > self.last {
            self.files.clear();
        }
        // Refused, or carried over.
        for line in self.files.values_mut() {
            line.words.retain(|word| word.n <= prev);
        }
        self.files.retain(|_, line| !line.words.is_empty());
        self.last = prev;
        for line in part.lines {
            self.last = self.last.max(line.n);
            if line.n >= self.end {
                continue;
            }
            let (key, revision, was, sum) = match line.record {
                Record::Put { key, revision, was, object, .. } => (key, revision, was, Some(crc32(&object))),
                Record::Remove { key, revision, was } => (key, revision, was, None),
                Record::Open { .. } | Record::Reserve { .. } => continue,
            };
            let word = Word { segment: part.segment, n: line.n, revision, sum };
            self.files.entry(key).or_insert_with(|| Line { before: was, words: Vec::new() }).words.push(word);
        }
    }

    /// Whether the last words are the last: nothing is missing between them and what HEAD.json counts from.
    pub fn is_whole(&self) -> bool {
        self.last + 1 >= self.end
    }

    pub fn last(&self, key: &Key) -> Option<Word> {
        self.files.get(key)?.words.last().copied()
    }

    /// `now`: what its file holds; None: it is not there.
    pub fn age(&self, key: &Key, now: Option<u32>) -> Age {
        let Some(line) = self.files.get(key) else { return Age::Unknown };
        let (last, earlier) = line.words.split_last().expect("a line has a word");
        if last.sum == now {
            Age::Last
        } else if line.before == Was::of(now) || earlier.iter().any(|word| word.sum == now) {
            Age::Older
        } else {
            Age::Other
        }
    }

    /// The last word on each file.
    pub fn all(&self) -> impl Iterator<Item = (&Arc<Key>, Word)> {
        self.files.iter().map(|(key, line)| (key, *line.words.last().expect("a line has a word")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::encode;
    use super::super::scan::{BLOCK_BYTES, scan};
    use super::*;
    use bytes::Bytes;
    use coracle_api::meta::Resource;

    fn key() -> Arc<Key> {
        Arc::new(Key { resource: Resource::core("pods"), namespace: "ns".to_owned(), name: "p".to_owned() })
    }

    fn text(content: u64) -> Bytes {
        Bytes::from(format!("{{\"is\":{content}}}"))
    }

    fn sum(content: u64) -> u32 {
        crc32(&text(content))
    }

    fn put(content: u64, was: Was) -> Record {
        Record::Put { revision: Revision(content), key: key(), was, by_hand: false, object: text(content) }
    }

    fn remove(revision: u64, was: u64) -> Record {
        Record::Remove { revision: Revision(revision), key: key(), was: Was::Sum(sum(was)) }
    }

    fn open(prev: u64, carry: u64) -> Record {
        Record::Open { prev, reserved: 100, carry, bytes: 0, of: 0, over: false }
    }

    /// A segment: the first record's number, and its batches.
    fn segment(number: u64, first: u64, batches: &[&[Record]]) -> Scanned {
        let (mut n, mut text) = (first, Vec::new());
        for batch in batches {
            let begun = n;
            for record in *batch {
                encode(number, n, begun, record, &mut text);
                n += 1;
            }
            text.resize(text.len().next_multiple_of(BLOCK_BYTES), b'\n');
        }
        let bytes = text.len();
        Scanned { segment: number, bytes, found: Some(scan(&text.into(), number, &Protocol::WHOLE)) }
    }

    /// What each of the contents is, 0 for no file.
    fn check(end: u64, segments: Vec<Scanned>, whole: bool, ages: &[(u64, Age)]) {
        let mut past = Past::before(end);
        segments.into_iter().for_each(|segment| past.add(segment, &Protocol::WHOLE));
        assert_eq!(past.is_whole(), whole);
        for (content, age) in ages {
            let now = (*content > 0).then(|| sum(*content));
            assert_eq!(past.age(&key(), now), *age, "{content}");
        }
    }

    /// 1: open · 2: put 1 · 3: put 2
    fn first() -> Scanned {
        segment(1, 1, &[&[open(0, 0)], &[put(1, Was::Absent)], &[put(2, Was::Sum(sum(1)))]])
    }

    #[test]
    fn what_a_file_held_before_is_older() {
        let ages = [(0, Age::Older), (1, Age::Older), (2, Age::Last), (9, Age::Other)];
        check(4, vec![first()], true, &ages);
        check(3, vec![first()], true, &[(0, Age::Older), (1, Age::Last), (2, Age::Other)]);
        check(2, vec![first()], true, &[(0, Age::Unknown), (1, Age::Unknown)]);
        let gone = segment(2, 4, &[&[open(3, 0), remove(3, 2)]]);
        check(6, vec![first(), gone], true, &[(0, Age::Last), (1, Age::Older), (2, Age::Older), (9, Age::Other)]);
        // What was before the first record is known, where that says it.
        let later = segment(7, 50, &[&[open(49, 0)], &[put(5, Was::Sum(sum(4)))]]);
        check(52, vec![later], true, &[(4, Age::Older), (5, Age::Last), (0, Age::Other)]);
    }

    #[test]
    fn what_was_refused_never_was_and_what_was_carried_is() {
        let refused = segment(2, 3, &[&[open(2, 0)]]);
        check(4, vec![first(), refused], true, &[(1, Age::Last), (2, Age::Other)]);
        let carried = segment(2, 3, &[&[open(2, 1), put(2, Was::Sum(sum(1)))]]);
        check(5, vec![first(), carried], true, &[(1, Age::Older), (2, Age::Last)]);
    }

    #[test]
    fn nothing_is_said_over_a_gap() {
        let later = || segment(3, 9, &[&[open(8, 0)]]);
        check(10, vec![first(), later()], true, &[(1, Age::Unknown), (2, Age::Unknown)]);
        check(20, vec![first(), later()], false, &[(2, Age::Unknown)]);
        // They end before HEAD.json counts.
        check(5, vec![first()], false, &[(1, Age::Older), (2, Age::Last)]);
        check(5, vec![], false, &[(1, Age::Unknown)]);
        // A segment that cannot be read may have said something newer of anything.
        let unread = Scanned { segment: 2, bytes: 0, found: None };
        check(10, vec![first(), unread, later()], true, &[(1, Age::Unknown), (2, Age::Unknown)]);
    }
}

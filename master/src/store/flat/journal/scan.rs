//! PURE. Scans a segment of the journal: its lines in order, and the place of anything that is not a line. A reused
//! file holds the rest of an earlier segment behind the end of the new segment: whole lines, which name the earlier
//! segment, and parts of lines. A file in its first use holds newlines alone.

use super::record::{self, Line, Record};
use crate::store::flat::protocol::{Protocol, ProtocolRule};
use bytes::Bytes;

/// A batch begins at a multiple of it: what a batch does not fill is newlines, and no block holds two batches.
pub const BLOCK_BYTES: usize = 4096;

/// A line names its segment and its number in so many bytes.
const FRONT_BYTES: usize = 64;

/// Newlines that fill what no batch does.
const NOTHING: [u8; 256] = [b'\n'; 256];

#[derive(Debug, PartialEq)]
pub enum ScannedLine {
    Line {
        offset: usize,
        line: Line,
    },
    /// Torn, damaged or not ours. It may hide any number of lines. `begun`: no earlier segment has left it, so somebody
    /// wrote there, or the medium failed. `strange`: so many bytes of it nobody ever wrote to a segment, from the first
    /// to the last of each piece.
    Bad {
        offset: usize,
        begun: bool,
        strange: usize,
    },
}

/// A byte that no line contains: zeros of a card that lost pages, the content of an erased card, noise.
fn is_strange(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, b'\n' | b'\t' | b'\r') || byte >= 0xf8
}

/// From the first to the last of such bytes.
fn strange_bytes(text: &[u8]) -> usize {
    let strange = |byte: &u8| is_strange(*byte);
    let (first, last) = (text.iter().position(strange), text.iter().rposition(strange));
    first.zip(last).map_or(0, |(first, last)| last + 1 - first)
}

/// Every line of the segment that is whole, whatever lies between.
pub fn scan(text: &Bytes, segment: u64, protocol: &Protocol) -> Vec<ScannedLine> {
    let beginning = record::beginning(segment);
    let is_own =
        |line: &Line| line.segment.is_none_or(|named| named == segment) || !protocol.holds(ProtocolRule::OwnLines);
    let mut found = Vec::new();
    // The end of the line that `at` is in is looked for once: damage may be longer than many blocks.
    let (mut at, mut end) = (0, 0);
    // The segment and number of the next line, by which a line with a damaged beginning is recognized: no earlier
    // segment has come so far.
    let mut next = String::new();
    let mut reused = false;
    while at < text.len() {
        if text[at] == b'\n' {
            at += 1;
            // Most of a segment that is seldom written to.
            while text[at..].starts_with(&NOTHING) {
                at += NOTHING.len();
            }
            continue;
        }
        if end <= at {
            end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |length| at + length);
        }
        match record::decode(&text.slice(at..end), protocol.holds(ProtocolRule::Checksums)) {
            Some(line) => {
                reused |= line.segment.is_some_and(|named| named != segment);
                if is_own(&line) {
                    reused |= matches!(line.record, Record::Open { over: true, .. });
                    next = record::number(line.n + 1);
                    found.push(ScannedLine::Line { offset: at, line });
                }
                at = end + 1;
            }
            None => {
                // The damage may have swallowed an end of line, but no batch begins before the next block.
                let behind = (end + 1).min((at / BLOCK_BYTES + 1) * BLOCK_BYTES);
                let bad = &text[at..behind.min(end)];
                let numbered = || {
                    !next.is_empty()
                        && memchr::memmem::find(&bad[..bad.len().min(FRONT_BYTES)], next.as_bytes()).is_some()
                };
                let odd = strange_bytes(bad);
                let begins = odd > 0 || bad.starts_with(beginning.as_bytes()) || numbered();
                match found.last_mut() {
                    Some(ScannedLine::Bad { begun, strange, .. }) => {
                        (*begun, *strange) = (*begun | begins, *strange + odd)
                    }
                    _ => found.push(ScannedLine::Bad { offset: at, begun: begins, strange: odd }),
                }
                at = behind;
            }
        }
    }
    for found in &mut found {
        if let ScannedLine::Bad { begun, .. } = found {
            *begun |= !reused;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: u64) -> Vec<u8> {
        let mut text = Vec::new();
        record::encode(1, n, n, &Record::Reserve { reserved: n }, &mut text);
        text
    }

    /// Numbers are lines, None is something bad.
    fn check(text: Vec<u8>, expected: &[Option<u64>]) {
        let found = scan(&Bytes::from(text), 1, &Protocol::WHOLE);
        let lines: Vec<Option<u64>> = found
            .iter()
            .map(|found| match found {
                ScannedLine::Line { line, .. } => Some(line.n),
                ScannedLine::Bad { .. } => None,
            })
            .collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn lines_are_found_around_what_is_bad() {
        let blocks = |texts: &[&[u8]]| {
            let mut all = Vec::new();
            for text in texts {
                all.extend_from_slice(text);
                all.resize(all.len().next_multiple_of(BLOCK_BYTES), b'\n');
            }
            all
        };
        check(Vec::new(), &[]);
        check(vec![b'\n'; 10_000], &[]);
        check([line(1), line(2)].concat(), &[Some(1), Some(2)]);
        check(blocks(&[&line(1), &line(2)]), &[Some(1), Some(2)]);
        // An end of line is lost: both lines are, up to the next block.
        let mut joined = [line(1), line(2)].concat();
        joined[line(1).len() - 1] = b' ';
        check(blocks(&[&joined, &line(3)]), &[None, Some(3)]);
        // A block of zeros in a long line.
        let mut zeros = blocks(&[&[b'x'; 10_000], &line(2)]);
        zeros[4096..8192].fill(0);
        check(zeros, &[None, Some(2)]);
        // Torn in the middle.
        check(line(1)[..10].to_vec(), &[None]);
        check([&line(1)[..10], b"\n", &line(2)].concat(), &[None, Some(2)]);
    }

    #[test]
    fn what_an_earlier_segment_left_is_no_line_of_this_one() {
        let mut earlier = Vec::new();
        for n in 1..400 {
            record::encode(7, n, n, &Record::Reserve { reserved: n }, &mut earlier);
        }
        let mut text = earlier.clone();
        let mut now = Vec::new();
        record::encode(8, 500, 500, &Record::Reserve { reserved: 9 }, &mut now);
        now.resize(BLOCK_BYTES, b'\n');
        text[..BLOCK_BYTES].copy_from_slice(&now);
        let of = |text: &[u8], segment, protocol: &Protocol| scan(&Bytes::copy_from_slice(text), segment, protocol);
        let lines = of(&text, 8, &Protocol::WHOLE);
        // A line of the earlier one was cut by the end of the block.
        assert!(
            matches!(&lines[..], [ScannedLine::Line { line, .. },
                ScannedLine::Bad { offset: BLOCK_BYTES, begun: false, .. }] if line.n == 500),
            "{lines:?}"
        );
        assert!(of(&text, 8, &Protocol::WHOLE.without(ProtocolRule::OwnLines)).len() > 200);
        assert_eq!(of(&earlier, 8, &Protocol::WHOLE), []);
        // A bit of the next line's beginning is another one, or the medium has given zeros for it.
        let mut next = Vec::new();
        record::encode(8, 501, 501, &Record::Reserve { reserved: 9 }, &mut next);
        for at in 0..next.len() {
            let mut damaged = text.clone();
            damaged[BLOCK_BYTES..][..next.len()].copy_from_slice(&next);
            damaged[BLOCK_BYTES + at] ^= 2;
            let lines = of(&damaged, 8, &Protocol::WHOLE);
            assert!(
                matches!(lines[..], [_, ScannedLine::Bad { offset: BLOCK_BYTES, begun: true, .. }]),
                "{at}: {lines:?}"
            );
        }
        let mut zeros = text.clone();
        zeros[BLOCK_BYTES..][..512].fill(0);
        assert!(matches!(
            of(&zeros, 8, &Protocol::WHOLE)[..],
            [_, ScannedLine::Bad { offset: BLOCK_BYTES, begun: true, .. }]
        ));
        // The second batch of this one was torn.
        text[BLOCK_BYTES..][..30].copy_from_slice(&now[..30]);
        assert!(matches!(
            of(&text, 8, &Protocol::WHOLE)[..],
            [_, ScannedLine::Bad { offset: BLOCK_BYTES, begun: true, .. }]
        ));
    }

    #[test]
    fn what_nobody_wrote_is_counted() {
        let check = |fill: &[u8], strange: usize| {
            let mut text = [line(1), line(2)].concat();
            text.resize(BLOCK_BYTES, b'\n');
            text.extend_from_slice(fill);
            text.resize(text.len().next_multiple_of(BLOCK_BYTES), b'\n');
            let lines = scan(&Bytes::from(text), 1, &Protocol::WHOLE);
            assert!(
                matches!(lines[..], [_, _, ScannedLine::Bad { strange: found, .. }] if found == strange),
                "{strange}: {lines:?}"
            );
        };
        check(&line(3)[..30], 0);
        check("{\"seg\":1,\"n\":3,\"\u{fc}\u{10ffff}\t".as_bytes(), 0);
        check(&[0; 10_000], 10_000);
        check(&[0xff; 3 * BLOCK_BYTES], 3 * BLOCK_BYTES);
        check(b"{\"seg\":1\x00,\"n\"\x01 ", 6);
    }

    #[test]
    fn a_segment_that_was_one_before_says_so() {
        let object = Bytes::from(format!("\"{}\"", "x".repeat(30_000)));
        let key = coracle_api::meta::Key {
            resource: coracle_api::meta::Resource::core("pods"),
            namespace: "ns".to_owned(),
            name: "p".to_owned(),
        };
        let (revision, was) = (coracle_api::meta::Revision(7), record::Was::Absent);
        let mut earlier = Vec::new();
        record::encode(7, 1, 1, &Record::Put { revision, key: key.into(), was, by_hand: false, object }, &mut earlier);
        for over in [false, true] {
            let mut text = Vec::new();
            record::encode(8, 2, 2, &Record::Open { prev: 1, reserved: 9, carry: 0, bytes: 0, of: 0, over }, &mut text);
            text.resize(BLOCK_BYTES, b'\n');
            text.extend_from_slice(&earlier[BLOCK_BYTES..]);
            let lines = scan(&Bytes::from(text), 8, &Protocol::WHOLE);
            assert!(
                matches!(lines[..], [_, ScannedLine::Bad { offset: BLOCK_BYTES, begun, strange: 0 }] if begun != over),
                "{lines:?}"
            );
        }
    }
}

//! PURE. What a segment of the journal holds: its lines in order, and where something lies that is none.

use super::record::{self, Line};
use bytes::Bytes;

/// A batch begins at a multiple of it: what a batch does not fill is newlines, and no block holds two batches.
pub const BLOCK_BYTES: usize = 4096;

#[derive(Debug, PartialEq)]
pub enum Found {
    Line {
        offset: usize,
        line: Line,
    },
    /// Torn, damaged or not ours. It may hide any number of lines.
    Bad {
        offset: usize,
    },
}

/// Every line that is whole, whatever lies between.
pub fn scan(text: &Bytes, checksums: bool) -> Vec<Found> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if text[at] == b'\n' {
            at += 1;
            continue;
        }
        let end = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |length| at + length);
        match record::decode(&text.slice(at..end), checksums) {
            Some(line) => {
                found.push(Found::Line { offset: at, line });
                at = end + 1;
            }
            None => {
                if !matches!(found.last(), Some(Found::Bad { .. })) {
                    found.push(Found::Bad { offset: at });
                }
                // The damage may have swallowed an end of line, but no batch begins before the next block.
                at = (end + 1).min((at / BLOCK_BYTES + 1) * BLOCK_BYTES);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::record::Record;
    use super::*;

    fn line(n: u64) -> Vec<u8> {
        let mut text = Vec::new();
        record::encode(n, n, &Record::Reserve { reserved: n }, &mut text);
        text
    }

    /// Numbers are lines, None is something bad.
    fn check(text: Vec<u8>, expected: &[Option<u64>]) {
        let found = scan(&Bytes::from(text), true);
        let told: Vec<Option<u64>> = found
            .iter()
            .map(|found| match found {
                Found::Line { line, .. } => Some(line.n),
                Found::Bad { .. } => None,
            })
            .collect();
        assert_eq!(told, expected);
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
}

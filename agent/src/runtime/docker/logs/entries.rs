//! PURE. The bytes of a log as the engine sends it -> its entries. Entries from stdout and stderr are framed. Entries
//! from a terminal follow each other without a separator, each after its timestamp, and a long line takes several
//! entries.

use bytes::{Buf, Bytes, BytesMut};

use super::super::dialect::Dialect;
use super::lines::{PIECE_BYTES, Piece};

const HEAD_BYTES: usize = 8;
/// Of one framed entry: engines cut longer lines.
const FRAME_BYTES_MAX: usize = 1 << 20;
/// Of a timestamp: `2026-01-01T00:00:00.000000000Z`, or with an offset.
const STAMP_BYTES_MAX: usize = 35;

/// Tells entries apart.
#[derive(Debug)]
pub enum EntryReader {
    Framed { read: BytesMut, dialect: Dialect },
    TerminalEntries(TerminalEntries),
}

/// Splits the output of a terminal, which has a single stream.
#[derive(Debug, Default)]
pub struct TerminalEntries {
    stamp: Vec<u8>,
    /// What may become the next timestamp; behind a whole piece it may be more of the line instead.
    head: Option<Vec<u8>>,
    text: Vec<u8>,
    dialect: Dialect,
}

impl EntryReader {
    pub fn new(is_terminal: bool, dialect: Dialect) -> EntryReader {
        match is_terminal {
            true => EntryReader::TerminalEntries(TerminalEntries {
                head: Some(Vec::new()),
                dialect,
                ..TerminalEntries::default()
            }),
            false => EntryReader::Framed { read: BytesMut::new(), dialect },
        }
    }

    /// The entries that are whole now.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Vec<Piece>, String> {
        match self {
            EntryReader::TerminalEntries(terminal) => Ok(terminal.take(bytes)),
            EntryReader::Framed { read, dialect } => {
                read.extend_from_slice(bytes);
                frames(read, *dialect)
            }
        }
    }

    /// The engine says no more.
    pub fn end(&mut self) -> Vec<Piece> {
        match self {
            EntryReader::TerminalEntries(terminal) => {
                let rest = terminal.head.take().unwrap_or_default();
                terminal.text.extend(rest);
                if terminal.text.is_empty() { Vec::new() } else { terminal.piece().into_iter().collect() }
            }
            EntryReader::Framed { .. } => Vec::new(),
        }
    }
}

fn frames(read: &mut BytesMut, dialect: Dialect) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    while read.len() >= HEAD_BYTES {
        let length = u32::from_be_bytes([read[4], read[5], read[6], read[7]]) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(format!("an entry of {length} bytes: it is no log of this engine, or is damaged"));
        }
        if read.len() < HEAD_BYTES + length {
            break;
        }
        let stream = read[0];
        read.advance(HEAD_BYTES);
        pieces.extend(Piece::read(stream, read.split_to(length).freeze(), dialect));
    }
    Ok(pieces)
}

impl TerminalEntries {
    fn take(&mut self, mut bytes: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        while let Some(first) = bytes.first() {
            if let Some(head) = &mut self.head {
                head.push(*first);
                bytes = &bytes[1..];
                if *first == b' ' && is_stamp(&head[..head.len() - 1]) {
                    self.stamp = self.head.take().unwrap_or_default();
                    self.stamp.pop();
                } else if head.len() > STAMP_BYTES_MAX || !may_be_stamp(head) {
                    let text = self.head.take().unwrap_or_default();
                    pieces.extend(self.add(&text));
                }
                continue;
            }
            let line = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
            let taken = line.min(PIECE_BYTES - self.text.len());
            pieces.extend(self.add(&bytes[..taken]));
            bytes = &bytes[taken..];
        }
        pieces
    }

    /// Adds text, at most up to the end of the piece. Returns the piece if it is complete.
    fn add(&mut self, text: &[u8]) -> Option<Piece> {
        self.text.extend_from_slice(text);
        if !self.text.ends_with(b"\n") && self.text.len() < PIECE_BYTES {
            return None;
        }
        self.head = Some(Vec::new());
        self.piece()
    }

    fn piece(&mut self) -> Option<Piece> {
        let entry = [&self.stamp[..], b" ", &std::mem::take(&mut self.text)[..]].concat();
        Piece::read(1, Bytes::from(entry), self.dialect)
    }
}

/// Whether the bytes may begin a timestamp: digits, and the separators at their places.
fn may_be_stamp(head: &[u8]) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    head.iter().enumerate().all(|(at, byte)| match FORM.get(at) {
        Some(b'0') => byte.is_ascii_digit(),
        Some(mark) => byte == mark,
        None => byte.is_ascii_digit() || b".Z+-:".contains(byte),
    })
}

fn is_stamp(head: &[u8]) -> bool {
    head.len() > 19 && may_be_stamp(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::docker::logs::lines::Joined;

    const A: &str = "2026-01-01T00:00:00.100000000Z";
    const B: &str = "2026-01-01T00:00:00.200000000Z";

    fn told(bytes: &[u8], is_terminal: bool, timestamps: bool, size: usize) -> String {
        let mut entries = EntryReader::new(is_terminal, Dialect::Docker);
        let mut lines = Joined::new(timestamps, None, None);
        let mut pieces: Vec<Piece> = bytes.chunks(size).flat_map(|piece| entries.take(piece).unwrap()).collect();
        pieces.extend(entries.end());
        let mut text: Vec<Bytes> = pieces.into_iter().flat_map(|piece| lines.take(piece)).collect();
        text.extend(lines.give_up());
        String::from_utf8(text.concat()).unwrap()
    }

    #[test]
    fn the_pieces_of_a_terminals_line_are_told_apart() {
        let (long, half) = ("x".repeat(PIECE_BYTES), "y".repeat(PIECE_BYTES / 2));
        let check = |said: &[(&str, &str)], plain: &str, stamped: &str| {
            let bytes: String = said.iter().map(|(stamp, text)| format!("{stamp} {text}")).collect();
            for size in [1, 7, 4096, bytes.len()] {
                assert!(told(bytes.as_bytes(), true, false, size) == plain, "{plain:.40} {size}");
                assert!(told(bytes.as_bytes(), true, true, size) == stamped, "{stamped:.40} {size}");
            }
        };
        check(&[(A, "a\r\n"), (B, "\r\n")], "a\r\n\r\n", &format!("{A} a\r\n{B} \r\n"));
        check(
            &[(A, &long), (A, &long), (A, &format!("{half}\r\n")), (B, "next\n")],
            &format!("{long}{long}{half}\r\nnext\n"),
            &format!("{A} {long}{long}{half}\r\n{B} next\n"),
        );
        // As long as pieces are, with and without an end.
        check(&[(A, &long), (A, "\n"), (B, "next\n")], &format!("{long}\nnext\n"), &format!("{A} {long}\n{B} next\n"));
        let fits = format!("{}\n", &long[1..]);
        check(&[(A, &fits), (B, "next\n")], &format!("{fits}next\n"), &format!("{A} {fits}{B} next\n"));
        // What looks like the beginning of a timestamp is text.
        check(
            &[(A, &format!("{B} {A}\n")), (B, "2026-01\n")],
            &format!("{B} {A}\n2026-01\n"),
            &format!("{A} {B} {A}\n{B} 2026-01\n"),
        );
        // The log ended in the middle of a line.
        check(&[(A, "half")], "half", &format!("{A} half"));
        // An engine that says the time of a line once.
        check(&[(A, &format!("{long}{half}\n"))], &format!("{long}{half}\n"), &format!("{A} {long}{half}\n"));
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let mut entries = EntryReader::new(true, Dialect::Docker);
        let mut told = 0;
        for _ in 0..100 {
            let said = format!("{A} {}", "x".repeat(PIECE_BYTES));
            told += entries.take(said.as_bytes()).unwrap().len();
        }
        assert_eq!(told, 100);
    }

    #[test]
    fn frames_come_apart_however_they_are_cut() {
        let frame = |stream: u8, text: &str| {
            let said = format!("{A} {text}");
            [&[stream, 0, 0, 0][..], &(said.len() as u32).to_be_bytes(), said.as_bytes()].concat()
        };
        let bytes = [frame(1, "out\n"), frame(2, "err\n"), frame(1, "half")].concat();
        for size in [1, 2, 5, 8, 100, 1000] {
            assert_eq!(told(&bytes, false, false, size), "out\nerr\nhalf");
        }
        assert!(EntryReader::new(false, Dialect::Docker).take(&[1, 0, 0, 0, 0xff, 0, 0, 0]).is_err());
    }
}

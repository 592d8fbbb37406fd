//! Joins the pieces of a log to whole lines, and counts lines. PURE.

use std::collections::VecDeque;

use bytes::Bytes;
use coracle_api::meta::Time;

use super::super::dialect::Dialect;

/// The size of Docker's pieces of a long line.
pub(super) const PIECE_BYTES: usize = 16 * 1024;
/// The limit for pieces held back from a stream while a line in the second stream is unfinished.
const HELD_BYTES_MAX: usize = 256 * 1024;
/// Lines at the end of a log of which more than their number is kept; of more, the beginning may be off by a piece.
const COUNTED_MAX: usize = 200_000;

/// A record in the engine's log.
#[derive(Clone, Debug)]
pub struct Piece {
    /// 2 is stderr.
    stream: u8,
    /// With the timestamp before it.
    bytes: Bytes,
    text_at: usize,
    dialect: Dialect,
}

/// The piece that a tail begins with, and the newest that was there when it was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First {
    stream: u8,
    stamp: Bytes,
    newest: Bytes,
    /// Among all pieces of the log, where these are counted and not known by their stamps.
    number: Option<u64>,
}

impl Piece {
    /// Reads an entry from stdout or stderr, with its timestamp.
    pub fn read(stream: u8, bytes: Bytes, dialect: Dialect) -> Option<Piece> {
        let blank = bytes.iter().position(|byte| *byte == b' ')?;
        Some(Piece { stream: if stream == 2 { 2 } else { 1 }, bytes, text_at: blank + 1, dialect })
    }

    fn stamp(&self) -> Bytes {
        self.bytes.slice(..self.text_at - 1)
    }

    fn text(&self) -> Bytes {
        self.bytes.slice(self.text_at..)
    }

    fn time(&self) -> Option<Time> {
        time(&self.bytes[..self.text_at - 1])
    }

    /// Whether this is the last piece of its line. Podman's pieces have any length.
    fn ends(&self) -> bool {
        let text = &self.bytes[self.text_at..];
        text.ends_with(b"\n") || self.dialect == Dialect::Docker && text.len() < PIECE_BYTES
    }

    /// Whether the piece continues the unfinished line with that timestamp. In Podman's logs each piece has its own
    /// timestamp.
    fn follows(&self, stamp: &Bytes) -> bool {
        self.dialect == Dialect::Podman || *stamp == self.stamp()
    }

    /// Podman's times have whole seconds: an entry in the same second may be later than its time says.
    fn is_older(&self, than: Time) -> bool {
        self.time().is_some_and(|time| {
            if self.dialect == Dialect::Podman { time.seconds() < than.seconds() } else { time < than }
        })
    }
}

fn time(stamp: &[u8]) -> Option<Time> {
    std::str::from_utf8(stamp).ok().and_then(Time::parse)
}

/// Of each stream the timestamp of a line whose end has not come.
#[derive(Default)]
struct Open([Option<Bytes>; 2]);

impl Open {
    /// Whether a piece goes on with a line.
    fn goes_on(&mut self, piece: &Piece) -> bool {
        let place = &mut self.0[usize::from(piece.stream) - 1];
        let stamp = piece.stamp();
        let continues = place.as_ref().is_some_and(|open| piece.follows(open));
        *place = (!piece.ends()).then_some(stamp);
        continues
    }

    fn is_of(&self, piece: &Piece) -> bool {
        self.0[usize::from(piece.stream) - 1].as_ref().is_some_and(|open| piece.follows(open))
    }
}

/// Takes the timestamp off each piece and joins the pieces of one line, also where the other stream was written between
/// them.
pub struct Joined {
    timestamps: bool,
    since: Option<Time>,
    first: Option<First>,
    /// Lines that began before the first wanted line: their remaining pieces are dropped.
    passed: Open,
    open: Open,
    /// The stream whose current line was sent only in part.
    telling: Option<u8>,
    /// The pieces of the second stream meanwhile.
    held: VecDeque<Piece>,
    held_bytes: usize,
    /// So many were here.
    pieces: u64,
}

impl Joined {
    pub fn new(timestamps: bool, since: Option<Time>, first: Option<First>) -> Joined {
        let (passed, open, held) = (Open::default(), Open::default(), VecDeque::new());
        Joined { timestamps, since, first, passed, open, telling: None, held, held_bytes: 0, pieces: 0 }
    }

    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// What can be told now.
    pub fn take(&mut self, piece: Piece) -> Vec<Bytes> {
        if self.is_before(&piece) {
            return Vec::new();
        }
        if self.telling.is_some_and(|stream| stream != piece.stream) {
            self.held_bytes += piece.bytes.len();
            self.held.push_back(piece);
            return if self.held_bytes > HELD_BYTES_MAX { self.give_up() } else { Vec::new() };
        }
        let mut ready = vec![self.tell(&piece)];
        if self.telling.is_none() {
            ready.extend(self.drain());
        }
        ready
    }

    /// The end of a line is not waited for any longer.
    pub fn give_up(&mut self) -> Vec<Bytes> {
        let ready = self.drain();
        self.telling = None;
        ready
    }

    fn drain(&mut self) -> Vec<Bytes> {
        self.held_bytes = 0;
        let held: Vec<Piece> = self.held.drain(..).collect();
        held.iter().map(|piece| self.tell(piece)).collect()
    }

    fn tell(&mut self, piece: &Piece) -> Bytes {
        let continues = self.open.goes_on(piece);
        self.telling = (!piece.ends()).then_some(piece.stream);
        if self.timestamps && !continues { piece.bytes.clone() } else { piece.text() }
    }

    /// The time, and the piece, that it begins with have not come.
    fn is_before(&mut self, piece: &Piece) -> bool {
        self.pieces += 1;
        if let Some(first) = &self.first {
            let begins = match first.number {
                Some(number) => self.pieces > number,
                None => {
                    first.stream == piece.stream && first.stamp == piece.stamp() || piece.time() > time(&first.newest)
                }
            };
            if !begins {
                self.passed.goes_on(piece);
                return true;
            }
            self.first = None;
        }
        if self.passed.is_of(piece) {
            return self.passed.goes_on(piece);
        }
        self.since.is_some_and(|since| piece.is_older(since))
    }
}

/// Counts the lines of the end of a log.
pub struct Tail {
    lines: usize,
    pub pieces: u64,
    open: Open,
    begun: u64,
    /// The newest pieces that begin a line.
    starts: VecDeque<(u8, Bytes, Option<u64>)>,
    newest: Bytes,
}

impl Tail {
    pub fn new(lines: u64) -> Tail {
        let lines = usize::try_from(lines).unwrap_or(usize::MAX).min(COUNTED_MAX);
        Tail { lines, pieces: 0, open: Open::default(), begun: 0, starts: VecDeque::new(), newest: Bytes::new() }
    }

    pub fn count(&mut self, piece: &Piece) {
        let number = (piece.dialect == Dialect::Podman).then_some(self.pieces);
        self.pieces += 1;
        if !self.open.goes_on(piece) {
            self.begun += 1;
            self.starts.push_back((piece.stream, piece.stamp(), number));
            if self.starts.len() > self.lines {
                self.starts.pop_front();
            }
        }
        if time(&self.newest) < piece.time() {
            self.newest = piece.stamp();
        }
    }

    /// The first wanted line. None: the pieces so far do not contain all wanted lines. `all`: this is the whole log.
    pub fn first(&self, all: bool) -> Option<First> {
        // Of each stream the first line here may be the rest of one.
        let whole = if all { self.begun } else { self.begun.saturating_sub(2) };
        let (stream, stamp, number) = self.starts.front().filter(|_| whole >= self.lines as u64)?;
        Some(First { stream: *stream, stamp: stamp.clone(), newest: self.newest.clone(), number: *number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "2026-01-01T00:00:00.1Z";
    const B: &str = "2026-01-01T00:00:00.2Z";
    const C: &str = "2026-01-01T00:00:00.3Z";

    fn piece(stream: u8, stamp: &str, text: &str) -> Piece {
        piece_of(Dialect::Docker, stream, stamp, text)
    }

    fn piece_of(dialect: Dialect, stream: u8, stamp: &str, text: &str) -> Piece {
        Piece::read(stream, Bytes::from(format!("{stamp} {text}")), dialect).unwrap()
    }

    fn check(mut lines: Joined, pieces: &[(u8, &str, &str)], expected: &str) {
        let mut out = Vec::new();
        for (stream, stamp, text) in pieces {
            out.extend(lines.take(piece(*stream, stamp, text)));
        }
        out.extend(lines.give_up());
        assert!(String::from_utf8(out.concat()).unwrap() == expected, "{expected:.40}");
    }

    #[test]
    fn long_lines_are_joined_and_stamped_once() {
        let long = "x".repeat(PIECE_BYTES);
        let pieces = [(1, A, long.as_str()), (1, A, "end\n"), (1, B, "next\n")];
        check(Joined::new(false, None, None), &pieces, &format!("{long}end\nnext\n"));
        check(Joined::new(true, None, None), &pieces, &format!("{A} {long}end\n{B} next\n"));
        check(Joined::new(false, Time::parse(B), None), &pieces, "next\n");
    }

    #[test]
    fn what_is_written_between_the_pieces_of_a_line_comes_behind_it() {
        let long = "x".repeat(PIECE_BYTES);
        let both = [
            (1, A, long.as_str()),
            (2, B, "error\n"),
            (1, A, long.as_str()),
            (2, C, "again\n"),
            (1, A, "end\n"),
            (1, C, "next\n"),
        ];
        check(Joined::new(true, None, None), &both, &format!("{A} {long}{long}end\n{B} error\n{C} again\n{C} next\n"));
        // Two long lines at once, and one whose end never comes.
        let two = [(1, A, long.as_str()), (2, B, long.as_str()), (1, A, "end\n"), (2, B, "too\n")];
        check(Joined::new(true, None, None), &two, &format!("{A} {long}end\n{B} {long}too\n"));
        check(Joined::new(true, None, None), &both[..2], &format!("{A} {long}{B} error\n"));
        // So much is not kept.
        let mut many = vec![(1, A, long.as_str())];
        many.extend(vec![(2, B, long.as_str()); HELD_BYTES_MAX / PIECE_BYTES]);
        let mut lines = Joined::new(false, None, None);
        let taken: usize = many.iter().map(|(stream, stamp, text)| lines.take(piece(*stream, stamp, text)).len()).sum();
        assert!(!lines.holds() && taken == many.len(), "{taken}");
    }

    #[test]
    fn a_tail_is_counted_by_lines() {
        let long = "x".repeat(PIECE_BYTES);
        let log = [(1, A, "first\n"), (1, B, long.as_str()), (1, B, long.as_str()), (1, B, "end\n"), (2, C, "error\n")];
        let check = |last: usize, lines: u64, all: bool, expected: Option<(u8, &str)>| {
            let mut tail = Tail::new(lines);
            log[log.len() - last..].iter().for_each(|(stream, stamp, text)| tail.count(&piece(*stream, stamp, text)));
            let first = tail.first(all);
            let found = first.as_ref().map(|first| (first.stream, std::str::from_utf8(&first.stamp).unwrap()));
            assert_eq!(found, expected, "{last} {lines}");
            let Some(first) = first else { return };
            let mut joined = Joined::new(false, None, Some(first));
            let text = log.iter().flat_map(|(stream, stamp, text)| joined.take(piece(*stream, stamp, text)));
            let text = String::from_utf8(text.collect::<Vec<_>>().concat()).unwrap();
            assert_eq!(text.lines().count() as u64, lines, "{last} {lines}");
        };
        check(5, 2, true, Some((1, B)));
        check(5, 1, true, Some((2, C)));
        check(5, 3, true, Some((1, A)));
        check(5, 4, true, None);
        check(5, 1, false, Some((2, C)));
        // The line's beginning is not among them.
        check(3, 2, false, None);
    }

    /// The last line stands between the pieces of an earlier line.
    #[test]
    fn a_tail_has_no_rest_of_a_line_that_it_does_not_begin_with() {
        let long = "x".repeat(PIECE_BYTES);
        let log = [(1, A, "first\n"), (1, B, long.as_str()), (2, C, "error\n"), (1, B, long.as_str()), (1, B, "end\n")];
        for (lines, expected) in [(1, "error\n".to_owned()), (2, format!("{long}{long}end\nerror\n"))] {
            let mut tail = Tail::new(lines);
            log.iter().for_each(|(stream, stamp, text)| tail.count(&piece(*stream, stamp, text)));
            check(Joined::new(false, None, tail.first(true)), &log, &expected);
        }
    }

    /// Where more was written meanwhile than is asked for again.
    #[test]
    fn a_tail_whose_beginning_is_gone_begins_with_what_is_new() {
        let mut tail = Tail::new(1);
        tail.count(&piece(1, A, "old\n"));
        let mut joined = Joined::new(false, None, tail.first(true));
        let mut taken = joined.take(piece(2, A, "older\n"));
        taken.extend(joined.take(piece(1, B, "new\n")));
        assert_eq!(taken, [Bytes::from_static(b"new\n")]);
    }

    /// Podman cuts a line where its reading ended, says whole seconds, and many lines have one time.
    #[test]
    fn podmans_lines() {
        const S: &str = "2026-01-01T00:00:05Z";
        const T: &str = "2026-01-01T00:00:06Z";
        let log = [(1, S, "first\n"), (1, S, "par"), (2, S, "error\n"), (1, T, "ti"), (1, T, "al\n"), (1, T, "last\n")];
        let told = |mut lines: Joined| {
            let pieces = log.iter().map(|(stream, stamp, text)| piece_of(Dialect::Podman, *stream, stamp, text));
            let mut out: Vec<Bytes> = pieces.flat_map(|piece| lines.take(piece)).collect();
            out.extend(lines.give_up());
            String::from_utf8(out.concat()).unwrap()
        };
        assert_eq!(told(Joined::new(false, None, None)), "first\npartial\nerror\nlast\n");
        assert_eq!(told(Joined::new(true, None, None)), format!("{S} first\n{S} partial\n{S} error\n{T} last\n"));
        // Any entry in the same second may be wanted.
        assert_eq!(
            told(Joined::new(false, Time::parse("2026-01-01T00:00:05.5Z"), None)),
            "first\npartial\nerror\nlast\n"
        );
        for (lines, expected) in
            [(1, "last\n"), (2, "error\nlast\n"), (3, "partial\nerror\nlast\n"), (4, "first\npartial\nerror\nlast\n")]
        {
            let mut tail = Tail::new(lines);
            log.iter().for_each(|(stream, stamp, text)| tail.count(&piece_of(Dialect::Podman, *stream, stamp, text)));
            assert_eq!(told(Joined::new(false, None, tail.first(true))), expected, "{lines}");
        }
    }
}

//! The script of a stranger on one connection to a port that speaks TLS, from a throw of the dice: the handshake, the
//! requests of HTTP/1.1 or the frames of HTTP/2, the reading, the end. `tests/it/hostile` plays scripts over sockets.

mod http1;
mod http2;

pub use http1::request;
pub use http2::{PREFACE, SETTINGS, get};

use super::{Dice, spoil_bytes};

/// What a port has that a stranger can ask for.
pub struct Targets<'a> {
    /// Paths whose answers end.
    pub paths: &'a [&'a str],
    /// Paths whose answers go on until the client leaves.
    pub endless: &'a [&'a str],
    /// Values of Authorization.
    pub credentials: &'a [&'a str],
}

/// One connection.
#[derive(Debug)]
pub struct Script {
    pub handshake: Handshake,
    pub protocol: Protocol,
    pub is_tls12: bool,
    /// Which certificate it shows: a number that the player takes modulo what it has.
    pub certificate: usize,
    /// What is sent in HTTP, part by part.
    pub parts: Vec<Vec<u8>>,
    /// Between two parts, and between two pieces of a slow handshake.
    pub pause_ms: u64,
    pub reads: Reads,
    pub end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
    /// It says in the handshake that it speaks something else.
    Unknown,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Handshake {
    Good,
    /// Piece by piece, with pauses.
    Slow,
    /// The parts are sent without TLS.
    None,
    /// Bytes in the place of the first flight.
    Bytes(Vec<u8>),
    /// The bytes of this flight are spoiled.
    Spoiled(usize),
    /// Nothing is sent behind some bytes of this flight.
    Cut(usize),
    /// Good, and then records that are spoiled.
    RecordsSpoiled,
    /// So many connections at once that send half of their first flight.
    Flood(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    Nothing,
    /// A few bytes after each part.
    Little,
    /// Until nothing comes for a moment.
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Leaves,
    /// Without a word, so that what it was sent is lost.
    Resets,
    /// Says that it sends no more, reads until the server has ended the connection.
    HalfCloses,
    /// Says nothing more; the server has to end the connection.
    Awaits,
}

/// A connection as the dice have it.
pub fn script(targets: &Targets<'_>, dice: &mut Dice) -> Script {
    let end = match dice.below(40) {
        0..26 => End::Leaves,
        26..37 => End::Resets,
        37 | 38 => End::HalfCloses,
        _ => End::Awaits,
    };
    let protocol = match dice.below(20) {
        0..8 => Protocol::Http1,
        8..19 => Protocol::Http2,
        _ => Protocol::Unknown,
    };
    let handshake = handshake(dice);
    // Requests behind one that does not end are not read, and so is not the end of what its client sends.
    let endless = if matches!(end, End::Awaits | End::HalfCloses) { &[] } else { targets.endless };
    let targets = Targets { endless, ..*targets };
    let mut parts = match protocol {
        Protocol::Http2 => http2::parts(&targets, dice),
        Protocol::Http1 | Protocol::Unknown => http1::parts(&targets, dice),
    };
    let mut pause_ms = 0;
    if dice.once_in(30) {
        pause_ms = 1 + dice.below(20) as u64;
        parts = slowly(&parts.concat(), dice);
    }
    let reads = match dice.below(6) {
        0 => Reads::Nothing,
        1 | 2 => Reads::Little,
        _ => Reads::All,
    };
    let (is_tls12, certificate) = (dice.once_in(4), dice.below(1 << 10));
    Script { handshake, protocol, is_tls12, certificate, parts, pause_ms, reads, end }
}

fn handshake(dice: &mut Dice) -> Handshake {
    match dice.below(40) {
        0..3 => Handshake::Spoiled(dice.below(2)),
        3 | 4 => Handshake::Cut(dice.below(2)),
        5 => Handshake::None,
        6 => Handshake::Bytes(records(dice)),
        7 => Handshake::Slow,
        8..11 => Handshake::RecordsSpoiled,
        11 if dice.once_in(4) => Handshake::Flood(2 + dice.below(30)),
        _ => Handshake::Good,
    }
}

/// Records of TLS that no client sends.
fn records(dice: &mut Dice) -> Vec<u8> {
    let mut all = Vec::new();
    let many = if dice.once_in(4) { 500 } else { 4 };
    for _ in 0..=dice.below(many) {
        let length = *dice.pick(&[0, 1, 2, 7, 64, 16_384, 16_640, 65_535]);
        let said = if dice.once_in(3) { dice.below(65_536) } else { length };
        all.extend([*dice.pick(&[20, 21, 22, 23, 24, 128, 255]), 3, *dice.pick(&[0, 1, 3, 4, 9])]);
        all.extend((said as u16).to_be_bytes());
        // A hello, an alert, or nothing known.
        let first = [*dice.pick(&[1, 2, 11, 20, 24, 0]), 0, dice.below(256) as u8, dice.below(256) as u8];
        let body = first.into_iter().chain(std::iter::repeat_with(|| dice.below(256) as u8));
        all.extend(body.take(if all.len() > 200_000 { 0 } else { length }));
    }
    all
}

/// In pieces that a client with little to do sends.
fn slowly(bytes: &[u8], dice: &mut Dice) -> Vec<Vec<u8>> {
    const PIECES: usize = 10;
    let each = 1 + dice.below(bytes.len() / PIECES + 8);
    bytes.chunks(each).take(PIECES).map(<[u8]>::to_vec).collect()
}

/// Some of the parts a little wrong.
fn spoil_some(parts: &mut [Vec<u8>], dice: &mut Dice) {
    for part in parts {
        if dice.once_in(3) {
            spoil_bytes(part, dice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGETS: Targets<'_> = Targets { paths: &["/a", "/b"], endless: &["/watch"], credentials: &["Bearer a"] };

    /// The scripts have everything that they are for.
    #[test]
    fn all_comes_up() {
        let scripts: Vec<Script> = (0..2000).map(|seed| script(&TARGETS, &mut Dice::of(seed))).collect();
        let has = |what: &dyn Fn(&Script) -> bool| scripts.iter().filter(|script| what(script)).count();
        assert!(has(&|script| script.handshake == Handshake::Good) > 1000);
        assert!(has(&|script| script.handshake == Handshake::Slow) > 10);
        assert!(has(&|script| matches!(script.handshake, Handshake::Flood(_))) > 2);
        for end in [End::Leaves, End::Resets, End::HalfCloses, End::Awaits] {
            assert!(has(&|script| script.end == end) > 20, "{end:?}");
        }
        assert!(has(&|script| script.pause_ms > 0) > 20);
        let watches = |script: &Script| script.parts.concat().windows(6).any(|part| part == b"/watch");
        assert!(has(&|script| watches(script)) > 100);
        let waits = |script: &Script| matches!(script.end, End::Awaits | End::HalfCloses);
        assert_eq!(has(&|script| watches(script) && waits(script)), 0, "nobody would end it");
        let again = script(&TARGETS, &mut Dice::of(7));
        assert_eq!(format!("{again:?}"), format!("{:?}", scripts[7]), "a seed is a script");
    }
}

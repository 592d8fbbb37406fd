//! Frames of HTTP/2: conversations, floods, storms and bombs, each a little wrong.

use super::{Targets, spoil_some};
use crate::fuzz::Dice;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// SETTINGS without any.
pub const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS_KIND: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Numbers at which counters turn over.
const NUMBERS: &[u32] = &[0, 1, 2, 16_384, 16_385, 65_535, 65_536, (1 << 24) - 1, (1 << 31) - 1, 1 << 31, u32::MAX];

pub(super) fn parts(targets: &Targets<'_>, dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut parts = vec![[PREFACE, &settings(dice)].concat()];
    parts.extend(match dice.below(16) {
        0 => storm(targets, dice),
        1 => rapid_reset(targets, dice),
        2 => provoked_resets(targets, dice),
        3 => continuations(dice),
        4 => header_bomb(dice),
        5 => body(dice),
        6 => starved(targets, dice),
        7 | 8 => flood(targets, dice),
        _ => mixture(targets, dice),
    });
    if dice.once_in(3) {
        spoil_some(&mut parts, dice);
    }
    parts
}

/// One frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A field that enters no table.
fn field(name: &str, value: &str) -> Vec<u8> {
    [&[0][..], &text(name), &text(value)].concat()
}

/// A text without Huffman's code.
fn text(text: &str) -> Vec<u8> {
    [&integer(7, text.len())[..], text.as_bytes()].concat()
}

/// A number behind a prefix of so many bits, which are the only ones of the first byte.
fn integer(bits: u32, number: usize) -> Vec<u8> {
    let most = (1 << bits) - 1;
    if number < most {
        return vec![number as u8];
    }
    let (mut bytes, mut rest) = (vec![most as u8], number - most);
    while rest >= 128 {
        bytes.push(rest as u8 | 128);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

/// The block of a request; 2 is GET in the table of HPACK, 3 POST.
fn block(method: u8, path: &str, credential: Option<&str>) -> Vec<u8> {
    let path = [&[4][..], &text(path)].concat();
    let authority = [&[1][..], &text("localhost")].concat();
    let credential = credential.map(|value| field("authorization", value)).unwrap_or_default();
    [&[0x80 | method, 0x87], &path[..], &authority, &credential].concat()
}

/// A whole request without a body.
pub fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block(2, path, None))
}

fn asked(targets: &Targets<'_>, dice: &mut Dice) -> Vec<u8> {
    let is_endless = !targets.endless.is_empty() && dice.once_in(6);
    let path = *dice.pick(if is_endless { targets.endless } else { targets.paths });
    let has_credential = !targets.credentials.is_empty() && dice.once_in(3);
    let credential = has_credential.then(|| *dice.pick(targets.credentials));
    block(if dice.once_in(4) { 3 } else { 2 }, path, credential)
}

fn settings(dice: &mut Dice) -> Vec<u8> {
    let mut payload = Vec::new();
    for _ in 0..dice.below(5) {
        payload.extend((1 + dice.below(8) as u16).to_be_bytes());
        let number = if dice.once_in(2) { *dice.pick(NUMBERS) } else { 100 };
        payload.extend(number.to_be_bytes());
    }
    frame(SETTINGS_KIND, 0, 0, if dice.once_in(2) { &[] } else { &payload })
}

/// Streams without end, which are answered or wait.
fn storm(targets: &Targets<'_>, dice: &mut Dice) -> Vec<Vec<u8>> {
    let count = 1 + dice.below(400) as u32;
    let each = |at: u32| frame(HEADERS, END_STREAM | END_HEADERS, 2 * at + 1, &asked(targets, dice));
    vec![(0..count).flat_map(each).collect()]
}

fn rapid_reset(targets: &Targets<'_>, dice: &mut Dice) -> Vec<Vec<u8>> {
    let count = 1 + dice.below(300) as u32;
    let flags = END_HEADERS | dice.below(2) as u8;
    let each = |at: u32| {
        let stream = 2 * at + 1;
        [frame(HEADERS, flags, stream, &asked(targets, dice)), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
    };
    vec![(0..count).flat_map(each).collect()]
}

/// Streams that the server resets for the client's own mistake.
fn provoked_resets(targets: &Targets<'_>, dice: &mut Dice) -> Vec<Vec<u8>> {
    let count = 1 + dice.below(300) as u32;
    let mistake = dice.below(3);
    let each = |at: u32| {
        let stream = 2 * at + 1;
        let mistake = match mistake {
            0 => frame(WINDOW_UPDATE, 0, stream, &[0; 4]),
            1 => frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff]),
            _ => frame(DATA, END_STREAM, stream, b"behind the end"),
        };
        [frame(HEADERS, END_HEADERS, stream, &asked(targets, dice)), mistake].concat()
    };
    vec![(0..count).flat_map(each).collect()]
}

/// A head in very many frames.
fn continuations(dice: &mut Dice) -> Vec<Vec<u8>> {
    let part: &[u8] = *dice.pick(&[&b""[..], &[0, 1, b'a', 1, b'b'], &[0xbe], &[0x82]]);
    let part = frame(CONTINUATION, 0, 1, part).repeat(1 + dice.below(4000));
    let end = if dice.once_in(2) { frame(CONTINUATION, END_HEADERS, 1, b"") } else { Vec::new() };
    vec![frame(HEADERS, END_STREAM, 1, &block(2, "/a", None)), part, end]
}

/// One large field in the table, named very often: some bytes that unfold to megabytes.
fn header_bomb(dice: &mut Dice) -> Vec<Vec<u8>> {
    let large = [&[0x40][..], &text("bomb"), &text(&"b".repeat(3_000 + dice.below(1_000)))].concat();
    let sizes = [&[0x3f][..], &integer(7, dice.below(1 << 20))].concat();
    let named = [0xbe].repeat(1 + dice.below(12_000));
    let first = if dice.once_in(3) { sizes } else { Vec::new() };
    let head = [first, block(2, "/a", None), large, named].concat();
    let streams = 1 + dice.below(8) as u32;
    (0..streams).map(|at| frame(HEADERS, END_STREAM | END_HEADERS, 2 * at + 1, &head)).collect()
}

/// A body in frames of any length, that may never end.
fn body(dice: &mut Dice) -> Vec<Vec<u8>> {
    let length = *dice.pick(&[0, 1, 100, 16_384]);
    let padded = if dice.once_in(4) { 8 } else { 0 };
    let data = frame(DATA, padded, 1, &vec![b'a'; length]).repeat(1 + dice.below(if length > 100 { 20 } else { 2000 }));
    let end = if dice.once_in(2) { frame(DATA, END_STREAM, 1, b"") } else { Vec::new() };
    vec![frame(HEADERS, END_HEADERS, 1, &block(3, "/dump", None)), data, end]
}

/// Answers that are asked for, and for which no window is open.
fn starved(targets: &Targets<'_>, dice: &mut Dice) -> Vec<Vec<u8>> {
    let window = dice.below(3) as u32;
    let closed = frame(SETTINGS_KIND, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat());
    let mut parts = vec![closed];
    parts.extend(storm(targets, dice));
    parts.extend((0..dice.below(20)).map(|_| frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])));
    parts
}

/// Frames that cost nothing to send, in masses.
fn flood(targets: &Targets<'_>, dice: &mut Dice) -> Vec<Vec<u8>> {
    let stream = dice.below(2) as u32;
    let one = match dice.below(7) {
        0 => frame(PING, 0, 0, &[0; 8]),
        1 => frame(SETTINGS_KIND, 0, 0, &[0, 3, 0, 0, 0, 100]),
        2 => frame(SETTINGS_KIND, 1, 0, &[]),
        3 => frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 16]),
        4 => frame(WINDOW_UPDATE, 0, stream, &[0, 0, 0, 1]),
        5 => frame(0x42, 0, stream, b"unknown"),
        _ => frame(GOAWAY, 0, 0, &[0; 8]),
    };
    vec![frame(HEADERS, END_HEADERS, 1, &asked(targets, dice)), one.repeat(100 + dice.below(10_000))]
}

/// Any frames, in any order.
fn mixture(targets: &Targets<'_>, dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut next = 1;
    (0..=dice.below(30))
        .map(|_| {
            let stream = if dice.once_in(10) { *dice.pick(NUMBERS) } else { 1 + 2 * dice.below(8) as u32 };
            let flags = if dice.once_in(6) { dice.below(256) as u8 } else { 5 * dice.below(2) as u8 };
            match dice.below(14) {
                0 => frame(DATA, flags, stream, &vec![b'a'; dice.below(200)]),
                1 => frame(PRIORITY, flags, stream, &vec![1; dice.below(8)]),
                2 => frame(RST_STREAM, flags, stream, &vec![0; *dice.pick(&[4, 4, 4, 0, 5])]),
                3 => settings(dice),
                4 => frame(PING, flags & 1, 0, &vec![7; *dice.pick(&[8, 8, 8, 0, 9])]),
                5 => frame(WINDOW_UPDATE, 0, stream, &dice.pick(NUMBERS).to_be_bytes()),
                6 => frame(CONTINUATION, flags, stream, &asked(targets, dice)),
                7 => frame(dice.below(256) as u8, flags, stream, &vec![0; dice.below(100)]),
                8 => frame(5, flags, stream, &asked(targets, dice)),
                _ => {
                    let stream = if dice.once_in(8) { stream } else { next };
                    next += 2;
                    let flags = if dice.once_in(8) { flags } else { END_HEADERS | END_STREAM };
                    frame(HEADERS, flags, stream, &asked(targets, dice))
                }
            }
        })
        .collect()
}

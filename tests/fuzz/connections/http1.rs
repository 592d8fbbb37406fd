//! Requests of HTTP/1.1: good ones, several at once, and ones that are wrong in the ways that servers get wrong.

use super::{Targets, spoil_some};
use crate::fuzz::Dice;

const METHODS: &[&str] = &["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "G T", "PRI"];

/// Fields by which servers and proxies were led astray.
const FIELDS: &[&str] = &[
    "Content-Length: 5",
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 40000000000",
    "Content-Length: -1",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 3",
    "Transfer-Encoding: gzip, chunked",
    "Expect: 100-continue",
    "Connection: close",
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
     Sec-WebSocket-Version: 13",
    "Connection: Upgrade\r\nUpgrade: SPDY/3.1",
    "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
    "Host: other",
    "A : b",
    "A: b\r\n  folded",
    "Origin: https://example.com",
    "Accept-Encoding: gzip",
    "Accept: application/json;as=Table;v=v1;g=meta.k8s.io",
    "Impersonate-User: system:admin",
];

const BODIES: &[&[u8]] = &[
    b"",
    b"hello",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    b"+5\r\nhello\r\n0\r\n\r\n",
    b"5;a=1\r\nhello\r\n0\r\nX: y\r\n\r\n",
    b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    b"{\"kind\":\"Pod\"}",
    b"\x81\x05hello\x89\x00",
];

/// A good request without a body.
pub fn request(method: &str, path: &str, fields: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").into_bytes()
}

pub(super) fn parts(targets: &Targets<'_>, dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut parts = match dice.below(12) {
        0 => vec![one(targets, dice).repeat(2 + dice.below(60))],
        1 => endless_head(dice),
        2 => many_chunks(dice),
        _ => (0..=dice.below(6)).map(|_| one(targets, dice)).collect(),
    };
    if dice.once_in(2) {
        spoil_some(&mut parts, dice);
    }
    parts
}

fn one(targets: &Targets<'_>, dice: &mut Dice) -> Vec<u8> {
    let is_endless = !targets.endless.is_empty() && dice.once_in(6);
    let path = *dice.pick(if is_endless { targets.endless } else { targets.paths });
    let method = if dice.once_in(2) { "GET" } else { *dice.pick(METHODS) };
    let mut fields = String::new();
    if !targets.credentials.is_empty() && dice.once_in(3) {
        fields = format!("Authorization: {}\r\n", dice.pick(targets.credentials));
    }
    for _ in 0..dice.below(4) {
        fields = fields + *dice.pick(FIELDS) + "\r\n";
    }
    [request(method, path, &fields).as_slice(), *dice.pick(BODIES)].concat()
}

/// A head that is too long, has too many fields, or does not end.
fn endless_head(dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut parts = vec![b"GET /a HTTP/1.1\r\nHost: localhost\r\n".to_vec()];
    let field = match dice.below(3) {
        0 => format!("A: {}\r\n", "b".repeat(dice.below(40_000))),
        1 => "A: b\r\n".repeat(100),
        _ => "a".repeat(30_000),
    };
    parts.extend((0..dice.below(6)).map(|_| field.clone().into_bytes()));
    parts
}

fn many_chunks(dice: &mut Dice) -> Vec<Vec<u8>> {
    let head = b"POST /dump HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let chunk = match dice.below(3) {
        0 => b"1\r\na\r\n".repeat(1 + dice.below(4000)),
        1 => [&b"8000\r\n"[..], &[b'a'; 0x8000], b"\r\n"].concat().repeat(1 + dice.below(20)),
        _ => [&b"1;"[..], &[b'a'; 300], b"\r\na\r\n"].concat().repeat(1 + dice.below(100)),
    };
    let end: &[u8] = if dice.once_in(2) { b"0\r\n\r\n" } else { b"" };
    vec![head, chunk, end.to_vec()]
}

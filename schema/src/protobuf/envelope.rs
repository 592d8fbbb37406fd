//! `runtime.Unknown` behind four bytes: says what the message inside is.

use super::Malformed;
use super::wire::{Reader, put_bytes, put_message};

const PREFIX: [u8; 4] = *b"k8s\0";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    pub api_version: String,
    pub kind: String,
    pub raw: &'a [u8],
}

/// The content, and its type; either may be empty.
pub fn open(bytes: &[u8]) -> Result<Envelope<'_>, Malformed> {
    let mut reader = Reader::new(bytes.strip_prefix(&PREFIX).ok_or(Malformed::NoEnvelope)?);
    let mut envelope = Envelope::default();
    while let Some((number, wire)) = reader.field()? {
        match number {
            1 => {
                let mut meta = Reader::new(wire.bytes()?);
                while let Some((number, wire)) = meta.field()? {
                    let text = String::from_utf8_lossy(wire.bytes()?).into_owned();
                    match number {
                        1 => envelope.api_version = text,
                        2 => envelope.kind = text,
                        _ => {}
                    }
                }
            }
            2 => envelope.raw = wire.bytes()?,
            // The content encoding: only contents without an encoding, such as compression, are read.
            3 if !wire.bytes()?.is_empty() => {
                return Err(Malformed::Encoding(String::from_utf8_lossy(wire.bytes()?).into_owned()));
            }
            _ => {}
        }
    }
    Ok(envelope)
}

/// `raw` appends the contents.
pub fn seal(api_version: &str, kind: &str, raw: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = PREFIX.to_vec();
    put_message(&mut out, 1, |out| {
        put_bytes(out, 1, api_version.as_bytes());
        put_bytes(out, 2, kind.as_bytes());
    });
    put_message(&mut out, 2, raw);
    // contentEncoding and contentType: Go writes both as empty texts.
    put_bytes(&mut out, 3, b"");
    put_bytes(&mut out, 4, b"");
    out
}

//! The protobuf form of documents, driven by the numbers of their types.
//!
//!     k8s\0 + Unknown { typeMeta { apiVersion, kind }, raw }   ->  open  ->  decode (by type)  ->  a document
//!     a document  ->  encode (by type)  ->  seal
//!
//! Go writes a plain field even when nobody set the field: a zero in a plain field says nothing and is dropped, a zero
//! in a `pointer` field is a value. Decoding takes time linear in the bytes of any input, and is bounded in depth and
//! nodes.

mod decode;
mod encode;
mod envelope;
mod wire;

pub use decode::decode;
pub use encode::{encode, put};
pub use envelope::{Envelope, open, seal};
pub use wire::{put_bytes, put_message, put_varint};

use std::fmt;

/// Messages within messages; no type goes so deep.
const DEPTH_MAX: usize = 100;
/// Values of one document: a message costs two bytes on the wire and much more in memory.
const NODES_MAX: usize = 200_000;

/// Why bytes are no document of their type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They do not begin as Kubernetes' messages do.
    NoEnvelope,
    /// The contents are encoded once more, in a way nobody uses.
    Encoding(String),
    /// The bytes end too early.
    Truncated,
    /// A number of more than 64 bits, or a field number that cannot be.
    Number,
    /// A field is not written as its type is, or in a way that is not used any more.
    WireType(u8),
    /// A time outside the years 0 to 9999.
    Time,
    /// JSON inside that is none.
    Json(String),
    TooDeep,
    TooManyValues,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::NoEnvelope => {
                f.write_str("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
            }
            Malformed::Encoding(encoding) => write!(f, "contents encoded as {encoding:?} are not supported"),
            Malformed::Truncated => f.write_str("unexpected EOF"),
            Malformed::Number => f.write_str("proto: integer overflow"),
            Malformed::WireType(wire) => write!(f, "proto: illegal wireType {wire}"),
            Malformed::Time => f.write_str("a time outside the years 0 to 9999"),
            Malformed::Json(why) => f.write_str(why),
            Malformed::TooDeep => write!(f, "nested deeper than {DEPTH_MAX} levels"),
            Malformed::TooManyValues => write!(f, "more than {NODES_MAX} values"),
        }
    }
}

impl std::error::Error for Malformed {}

#[cfg(test)]
mod tests;

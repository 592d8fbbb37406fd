//! PURE. An object in memory, and the change of it that a write comes to.

use crate::store::{Claimed, Stored};
use bytes::Bytes;
use coracle_api::meta::{Durable, Key, Revision};
use std::sync::Arc;

/// An object in memory.
#[derive(Clone)]
pub struct Entry {
    pub stored: Stored,
    /// The part of the object that lies on disk.
    pub durable: Durable,
    /// The checksum of the durable part as compact JSON, if any part is durable. The file has the same content with
    /// more white space.
    pub file_crc: Option<u32>,
    pub claims: Box<[Claimed]>,
}

pub enum WriteVerdict {
    /// It is so already.
    Unchanged(Stored),
    Change(Box<PlannedChange>),
}

/// A write that may be done: first `step`, then the rest.
pub struct PlannedChange {
    pub revision: Revision,
    pub key: Arc<Key>,
    pub step: Durability,
    pub old: Option<Stored>,
    /// The earlier claims of the object.
    pub former: Box<[Claimed]>,
    /// The checksum of its file's earlier content.
    pub former_crc: Option<u32>,
    /// None: deleted.
    pub entry: Option<Entry>,
    /// The answer to the writer.
    pub answer: Stored,
}

/// The record that must be durable before anybody may see the change.
#[derive(Debug, PartialEq)]
pub enum Durability {
    Keep,
    /// The durable part, compact.
    Put(Bytes),
    Remove,
    /// A person gave a damaged object up.
    Settle,
}

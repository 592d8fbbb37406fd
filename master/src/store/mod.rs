//! The one door to what the master remembers: `Store::write`, and reading and following what was written.
//!
//!     write: check -> claim -> make durable -> commit -> notify
//!
//! Synchronous: a write blocks its caller until it is durable, and only then does anybody see it.

use bytes::Bytes;
use coracle_api::meta::{Claim, Durable, Key, Resource, Revision};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// An object as it is stored: compact v1 JSON, resourceVersion inside. It always begins `{"apiVersion":"..","kind":"..",`.
#[derive(Clone, Debug)]
pub struct Stored {
    pub key: Key,
    pub revision: Revision,
    pub json: Bytes,
    /// `metadata.labels`, for selectors; sorted by key.
    pub labels: Arc<[(Box<str>, Box<str>)]>,
}

/// A claim that a write makes for its object; it is checked and committed together with the object.
#[derive(Clone, Debug)]
pub struct Claimed {
    pub claim: Claim,
    /// How long it stays taken after the object is gone, in uptime of this process. Zero for most.
    pub after_death: Duration,
}

/// What `prepare` hands over.
#[derive(Clone, Debug)]
pub enum Write {
    /// Absent before.
    Create { key: Key, object: Value, durable: Durable, claims: Vec<Claimed> },
    /// Present, at `seen`. An object equal to the stored one but for its resourceVersion changes nothing: no revision, no event, no byte.
    Update { key: Key, object: Value, seen: Revision, durable: Durable, claims: Vec<Claimed> },
    /// Present, at `seen`.
    Delete { key: Key, seen: Revision },
}

/// Why a write was not done. Expected outcomes; nothing has changed.
#[derive(Debug)]
pub enum Refused {
    Exists {
        revision: Option<Revision>,
    },
    Missing,
    /// Somebody else wrote first; `now` is what stands there.
    Stale {
        now: Stored,
    },
    /// Another object owns the claim.
    Claimed {
        claim: Claim,
        owner: Key,
    },
    /// The object's file is damaged: reads answer 500, a create of this name 409.
    Damaged {
        why: String,
    },
    TooLarge {
        bytes: usize,
    },
    /// The disk would not take it (no space, read-only, IO error). `space`: it is ENOSPC.
    Disk {
        why: String,
        space: bool,
    },
}

/// One change of one object. `old` and `new` as before and after; no `new`: deleted, and `revision` is the deletion's.
#[derive(Clone, Debug)]
pub struct Event {
    pub revision: Revision,
    pub key: Key,
    pub old: Option<Stored>,
    pub new: Option<Stored>,
}

/// A list at one revision.
pub struct Snapshot {
    pub revision: Revision,
    /// In order of namespace and name.
    pub items: Vec<Stored>,
    /// Keys whose files are damaged: they exist, but cannot be shown.
    pub damaged: Vec<Key>,
}

/// Changes after a revision that the history no longer holds, or that has not been yet.
#[derive(Debug, PartialEq)]
pub struct Gone {
    pub oldest: Revision,
}

/// Which events a watcher is told of.
#[derive(Clone, Debug)]
pub struct Scope {
    pub resource: Resource,
    /// None: all namespaces.
    pub namespace: Option<String>,
    pub name: Option<String>,
}

/// What a watcher is called with, in order, on the committing thread: it must not block.
/// `false` ends the watch (slow or gone).
pub type Sink = Box<dyn FnMut(&Event) -> bool + Send>;

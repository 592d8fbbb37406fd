//! The words of the door: what is stored, written, refused, followed and reported.

use super::{Sealing, Sketch};
use crate::store::flat::document;
use bytes::Bytes;
use coracle_api::labels::LabelSet;
use coracle_api::meta::{Claim, Durable, Key, Resource, Revision};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// An object as it is stored: compact v1 JSON, resourceVersion inside. It always begins
/// `{"apiVersion":"..","kind":"..",`.
///
/// Shared by the state, the history, lists and events: a clone costs a counter.
#[derive(Clone, Debug)]
pub struct Stored(Arc<StoredObject>);

#[derive(Debug)]
pub struct StoredObject {
    /// One for all states of the object.
    pub key: Arc<Key>,
    pub revision: Revision,
    pub json: Bytes,
    /// `metadata.labels`, for selectors.
    pub labels: LabelSet,
}

impl Deref for Stored {
    type Target = StoredObject;

    fn deref(&self) -> &StoredObject {
        &self.0
    }
}

impl Stored {
    pub fn new(key: Arc<Key>, revision: Revision, json: Bytes, labels: LabelSet) -> Stored {
        Stored(Arc::new(StoredObject { key, revision, json, labels }))
    }

    /// Whether both are the very same in memory.
    pub fn is(&self, other: &Stored) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A document as the object that it is at a revision, which is written into it.
    pub fn of(key: Arc<Key>, revision: Revision, document: &mut Value) -> Stored {
        document::stamp(document, revision);
        Stored::new(key, revision, document::compact(document), document::labels(document))
    }

    /// The same object without a revision: one that nobody has written.
    pub(super) fn unwritten(&self) -> Stored {
        let mut document: Value = serde_json::from_slice(&self.json).expect("the store wrote this JSON itself");
        if let Some(metadata) = document["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        Stored::new(self.key.clone(), Revision(0), document::compact(&document), self.labels.clone())
    }

    /// The same object with another revision inside, as the event of its deletion shows it.
    pub fn at(&self, revision: Revision) -> Stored {
        if let Some(json) = Sketch::of(&self.json).and_then(|sketch| sketch.with_revision(&self.json, revision)) {
            return Stored::new(self.key.clone(), revision, json.into(), self.labels.clone());
        }
        let mut document: Value = serde_json::from_slice(&self.json).expect("the store wrote this JSON itself");
        Stored::of(self.key.clone(), revision, &mut document)
    }
}

/// A claim that a write makes for its object; it is checked and committed together with the object.
#[derive(Clone, Debug)]
pub struct Claimed {
    pub claim: Claim,
    /// How long it stays taken after the object is gone, in uptime of this process. Zero for most.
    pub after_death: Duration,
}

/// The revision of an object that no client can have seen, because the object's file is damaged.
pub const UNSEEN: Revision = Revision(0);

/// A write, as `prepare` hands it over.
#[derive(Clone, Debug)]
pub enum Write {
    /// Absent before.
    Create { key: Key, object: Value, durable: Durable, claims: Vec<Claimed> },
    /// Present, at `seen`. An object equal to the stored one but for its resourceVersion changes nothing: no revision,
    /// no event, no byte. At `UNSEEN`: damaged, and what is written is a new object.
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
    /// It is to be sealed on the disk, and there is no key.
    Sealed {
        why: String,
    },
    TooLarge {
        bytes: usize,
    },
    /// There is no room for it in memory, and nothing was tried: less has to be there first.
    Full {
        why: String,
    },
    /// More was written than the disk keeps up with: not now.
    Busy {
        why: String,
        retry_after_s: u32,
    },
    /// The disk would not take it (no space, read-only, IO error). `space`: it is ENOSPC.
    Disk {
        why: String,
        space: bool,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Exists { .. } => f.write_str("it exists already"),
            Refused::Missing => f.write_str("it does not exist"),
            Refused::Stale { now } => write!(f, "somebody else wrote first; it is at revision {} now", now.revision),
            Refused::Claimed { claim, owner } => write!(f, "{} {} belongs to {owner}", claim.space, claim.value),
            Refused::Damaged { why } => write!(f, "its file is damaged: {why}"),
            Refused::Sealed { why } => write!(f, "it is to be sealed, and cannot be: {why}"),
            Refused::TooLarge { bytes } => write!(f, "it is too large: {bytes} bytes"),
            Refused::Full { why } | Refused::Busy { why, .. } | Refused::Disk { why, .. } => f.write_str(why),
        }
    }
}

/// One change of one object. `old` and `new` as before and after; no `new`: deleted, and `revision` is the deletion's.
/// Neither: a damaged object, that nobody could see, was given up.
#[derive(Clone, Debug)]
pub struct Event {
    pub revision: Revision,
    pub key: Arc<Key>,
    pub old: Option<Stored>,
    pub new: Option<Stored>,
    /// The object replaces a damaged object, which is given up.
    pub renewed: bool,
}

impl Event {
    /// The event by which a new watcher learns of an existing object.
    pub fn created(stored: Stored) -> Event {
        Event { revision: stored.revision, key: stored.key.clone(), old: None, new: Some(stored), renewed: false }
    }
}

/// Why a list cannot be shown at the revision that was asked for.
#[derive(Debug, PartialEq)]
pub enum Unlisted {
    /// The history no longer reaches back to it.
    Gone(Gone),
    /// It has not been yet.
    Future { now: Revision },
}

/// Why a watch does not begin.
#[derive(Debug, PartialEq)]
pub enum Unwatched {
    Gone(Gone),
    /// The revision is not reached yet: a client that saw the revision saw another state of the store, and the events
    /// of that state are not valid here.
    Future {
        now: Revision,
    },
    /// As many follow already as there may be.
    TooMany,
}

impl From<Gone> for Unwatched {
    fn from(gone: Gone) -> Unwatched {
        Unwatched::Gone(gone)
    }
}

/// Changes after a revision that the history no longer holds.
#[derive(Debug, PartialEq)]
pub struct Gone {
    pub oldest: Revision,
}

/// The selection of events for a watcher.
#[derive(Clone, Debug, PartialEq)]
pub struct Scope {
    pub resource: Resource,
    /// None: all namespaces.
    pub namespace: Option<String>,
    pub name: Option<String>,
}

impl Scope {
    pub fn holds(&self, key: &Key) -> bool {
        key.resource == self.resource
            && self.namespace.as_ref().is_none_or(|namespace| key.namespace == *namespace)
            && self.name.as_ref().is_none_or(|name| key.name == *name)
    }
}

/// The callback of a watcher, called in order on the committing thread: it must not block, nor write to the store.
/// `false` ends the watch (slow or gone).
pub type Sink = Box<dyn FnMut(&Event) -> bool + Send>;

pub type Edit<'a> = dyn Fn(&Key, Value) -> Result<Value, String> + 'a;

/// The rules of the kinds that the store needs; it names no kind itself.
pub struct StoreRules<'a> {
    pub kinds: Vec<KindRow>,
    /// The claims of an object as it is loaded.
    pub claims: &'a dyn Fn(&Key, &Value) -> Vec<Claimed>,
    /// The fields of wrong type in an object that people may have edited.
    pub fault: &'a dyn Fn(&Key, Value) -> Option<String>,
    /// Checks and completes a file that a person wrote, as any write. `Err`: why it was refused.
    pub edited: &'a Edit<'a>,
    /// The object that must exist before this object, such as the namespace.
    pub home: &'a dyn Fn(&Key) -> Option<Key>,
    /// How much of an object was worth flash, where that and that it claims nothing can be told without reading it
    /// whole.
    pub durable_by_sketch: &'a (dyn Fn(&Key, &Sketch) -> Option<Durable> + Sync),
    /// How much of a loaded object was worth flash.
    pub durable: &'a dyn Fn(&Key, &Value) -> Durable,
    /// What is sealed on the disk.
    pub sealing: Sealing,
}

pub struct KindRow {
    pub resource: Resource,
    pub api_version: Cow<'static, str>,
    pub kind: Cow<'static, str>,
}

#[derive(Debug)]
pub enum OpenError {
    /// The pid where it is known.
    InUse {
        dir: PathBuf,
        pid: Option<String>,
    },
    Newer {
        dir: PathBuf,
        format: u64,
    },
    Io {
        path: PathBuf,
        error: io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::InUse { dir, pid } => {
                let pid = pid.as_ref().map_or_else(String::new, |pid| format!(", pid {pid}"));
                write!(
                    f,
                    "{}: a master is running on it{pid}; stop it first, or choose another --data-dir",
                    dir.display()
                )
            }
            OpenError::Newer { dir, format } => {
                let shown = dir.display();
                write!(
                    f,
                    "{shown}: written in format {format} by a newer master; nothing was touched, install that version \
                     again"
                )
            }
            OpenError::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for OpenError {}

/// The object exists, but its content is unknown.
#[derive(Debug, PartialEq)]
pub struct Damaged {
    pub why: String,
}

/// A file that could not be taken for what its place says.
#[derive(Clone, Debug, PartialEq)]
pub struct Damage {
    /// Where it lies now, below the data directory.
    pub file: String,
    /// None: it was no object's file.
    pub key: Option<Key>,
    /// apiVersion and kind, where there is a key.
    pub(super) kind: Option<(String, String)>,
    pub why: String,
    /// The remedy.
    pub remedy: String,
}

impl Damage {
    /// To whoever asks for the object: what is wrong, and what he can do.
    pub(super) fn to_asker(&self) -> String {
        if self.remedy.is_empty() { self.why.clone() } else { format!("{}; {}", self.why, self.remedy) }
    }

    /// All that can be said of the object.
    pub(super) fn identity(&self, key: &Key, revision: Revision) -> Stored {
        let (api_version, kind) = self.kind.clone().unwrap_or_default();
        let mut document = serde_json::json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": key.name}});
        if !key.namespace.is_empty() {
            document["metadata"]["namespace"] = Value::String(key.namespace.clone());
        }
        Stored::of(Arc::new(key.clone()), revision, &mut document)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)?;
        if !self.why.starts_with(&self.file) {
            write!(f, " (now at {})", self.file)?;
        }
        if self.remedy.is_empty() { Ok(()) } else { write!(f, ": {}", self.remedy) }
    }
}

#[derive(Debug, Default)]
pub struct Health {
    /// Why nothing can be written at the moment.
    pub degraded: Option<String>,
    /// Why the files are not what was written; that much is safe all the same.
    pub behind: Option<String>,
    pub damaged: Vec<Damage>,
    /// Objects that are sealed by keys that are not at hand.
    pub shut: Vec<Damage>,
    /// Why nothing can be sealed though a key file is named.
    pub keyless: Option<String>,
    /// The problems since the start that are solved.
    pub remarks: Vec<String>,
    /// Edits of files that did not have the effect that their author may expect: shown until the next start.
    pub edits: Vec<Damage>,
    pub fill: FillLevel,
    pub figures: Figures,
}

/// The counters since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Appends to the journal that are durable, each of one or many records.
    pub commits: u64,
    pub records: u64,
    /// Journal that the files have not caught up with.
    pub journal_bytes: u64,
}

/// How full the store is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FillLevel {
    pub bytes: u64,
    pub bytes_max: u64,
    /// The limits that are reached or nearly so, for people.
    pub warnings: Vec<String>,
}

/// A file that should be in a backup and is not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Where it lies below the data directory.
    pub file: String,
    pub why: String,
}

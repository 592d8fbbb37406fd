//! Intents: the writes and events that a controller wants. PURE.

use super::view::PodView;
use coracle_api::meta::{Key, Resource, Revision};
use serde_json::Value;
use std::borrow::Cow;
use std::time::Duration;

/// One write that a controller wants. It carries the revision that was seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Intent {
    Create {
        resource: Resource,
        namespace: String,
        object: Value,
    },
    /// The document as it shall be.
    Update {
        key: Key,
        seen: Revision,
        object: Value,
    },
    /// Only `status`, put over what stands.
    Status {
        key: Key,
        seen: Revision,
        status: Value,
    },
    Bind {
        key: Key,
        seen: Revision,
        node: String,
    },
    /// A namespace that ends holds nothing any more.
    Emptied {
        key: Key,
        seen: Revision,
    },
    /// With the grace that the object itself asks for, or none at all.
    Delete {
        key: Key,
        seen: Revision,
        at_once: bool,
    },
    /// With what it owns: after it, or before it (`foreground`).
    Collect {
        key: Key,
        seen: Revision,
        foreground: bool,
    },
    /// These of its owners, by their uids, are taken off it.
    Disown {
        key: Key,
        seen: Revision,
        owners: Vec<String>,
    },
    /// One of its finalizers is taken off it. None: nothing holds it any more, and it goes.
    Release {
        key: Key,
        seen: Revision,
        finalizer: Option<&'static str>,
    },
    /// Something to tell whoever looks at the object, about the intent before it: told only if that was done.
    Tell(Tale),
}

/// An event about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Tale {
    pub about: About,
    /// `Normal` or `Warning`.
    pub severity: &'static str,
    pub reason: &'static str,
    pub message: String,
    /// The message ends with the name of the object that the intent before it made.
    pub names_made: bool,
    /// The component that reports it: `default-scheduler`, `replication-controller`, `node-controller`, `controllermanager`, `store`.
    pub source: &'static str,
}

impl Tale {
    pub fn normal(source: &'static str, about: About, reason: &'static str, message: String) -> Tale {
        Tale { about, severity: "Normal", reason, message, names_made: false, source }
    }

    pub fn warning(source: &'static str, about: About, reason: &'static str, message: String) -> Tale {
        Tale { severity: "Warning", ..Tale::normal(source, about, reason, message) }
    }
}

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    pub api_version: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub revision: Revision,
}

impl About {
    /// `kind`: the apiVersion and kind of the object.
    pub fn new(kind: (&'static str, &'static str), key: &Key, uid: &str, revision: Revision) -> About {
        let (namespace, name, uid) = (key.namespace.clone(), key.name.clone(), uid.to_owned());
        About { api_version: kind.0.into(), kind: kind.1.into(), namespace, name, uid, revision }
    }

    pub fn pod(key: &Key, pod: &PodView) -> About {
        About::new(("v1", "Pod"), key, &pod.uid, pod.revision)
    }
}

/// Something about a whole namespace that a controller needs and that is in no view.
#[derive(Clone, Debug, PartialEq)]
pub enum Errand {
    /// Reads all that the namespace holds. The decision is asked for once more, with it.
    Contents(String),
    /// Counts the use of its quotas, under the lock that writes are charged under.
    Recount(String),
}

/// A namespace, and all that it holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// The namespace as it stands.
    pub namespace: Value,
    pub seen: Revision,
    pub items: Vec<Item>,
    /// Objects that cannot be read. They are there all the same; a plain DELETE gives one up.
    pub damaged: Vec<Key>,
}

/// An object in a namespace that ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub key: Key,
    pub revision: Revision,
    /// Its own deletion has begun.
    pub deleting: bool,
    pub finalizers: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// In order. One that fails does not stop the others, but no more is made after a creation that failed.
    pub intents: Vec<Intent>,
    /// The uptime at which to look again though nothing happens.
    pub wake_at: Option<Duration>,
    pub errand: Option<Errand>,
}

impl Decision {
    pub fn of(intents: Vec<Intent>) -> Decision {
        Decision { intents, ..Decision::default() }
    }

    /// To look again at this uptime, and nothing else.
    pub fn later(at: Duration) -> Decision {
        Decision { wake_at: Some(at), ..Decision::default() }
    }

    pub fn errand(errand: Errand) -> Decision {
        Decision { errand: Some(errand), ..Decision::default() }
    }
}

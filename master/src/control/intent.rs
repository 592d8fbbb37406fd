//! What controllers want done, whole. PURE.

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
    /// The name of what the intent before it made belongs at the end of the message.
    pub names_made: bool,
    /// Who says so: `default-scheduler`, `replication-controller`, `node-controller`, `controllermanager`, `store`.
    pub source: &'static str,
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

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// In order. One that fails does not stop the others, but no more is made after a creation that failed.
    pub intents: Vec<Intent>,
    /// When to look again though nothing happens, by uptime.
    pub wake_at: Option<Duration>,
}

impl Decision {
    pub fn of(intents: Vec<Intent>) -> Decision {
        Decision { intents, wake_at: None }
    }
}

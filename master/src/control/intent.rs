//! Intents: the writes and events that a controller wants. PURE.

use super::view::PodView;
use coracle_api::meta::{Key, Resource, Revision};
use serde_json::Value;
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A write that a controller wants, with the revision that the controller saw.
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
    /// `metadata.annotations` and `status`, written as a status: no new generation.
    Note {
        key: Key,
        seen: Revision,
        object: Value,
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
    /// A pod is deleted with the grace that it asks for, after its status has said why.
    Disrupt {
        key: Key,
        seen: Revision,
        status: Value,
    },
    /// Deletes an object and its dependents: the dependents afterwards, or first (`foreground`).
    Collect {
        key: Key,
        seen: Revision,
        foreground: bool,
    },
    /// Removes the owner references with these uids from an object.
    Disown {
        key: Key,
        seen: Revision,
        owners: Vec<String>,
    },
    /// Removes a finalizer from an object. None: nothing holds the object any more, and the object goes.
    Release {
        key: Key,
        seen: Revision,
        finalizer: Option<&'static str>,
    },
    /// Adds the condition that approves a signing request.
    Approve {
        key: Key,
        seen: Revision,
        condition: Value,
    },
    /// Signs an approved request, which is PEM, and puts the certificate into its status.
    Sign {
        key: Key,
        seen: Revision,
        request: String,
        usages: Vec<String>,
        /// `None`: nobody asked for an end.
        life: Option<Duration>,
    },
    /// A Node of this name has gone: its certificates end.
    Revoke {
        node: String,
    },
    /// The certificates of a node's name belong to the Node with this uid.
    Settle {
        node: String,
        uid: String,
    },
    /// Carried out only if the intent before it was.
    Then(Box<Intent>),
    /// Something to tell whoever looks at the object, about the intent before it: told only if that was done. As the
    /// first intent of a list it is always told.
    Tell(EventDraft),
    /// An event to tell in any case. The deciding controller remembers that the event was told.
    Announce(EventDraft),
}

/// Why an intent was not carried out, for a reason that will not pass by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// As it is told.
    pub why: String,
    /// The same without a name that was generated for this attempt: so the same is known as the same.
    pub gist: String,
    pub doing: Doing,
}

/// What was refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Doing {
    /// Making an object with this name, or with a name generated from this base.
    Making(Resource, String),
    Deleting(Key),
    #[default]
    Changing,
    /// What none of the controller's names has the right to.
    Unrighted,
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal { gist: why.clone(), why, doing: Doing::default() }
    }
}

/// An event about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct EventDraft {
    pub about: About,
    /// `Normal` or `Warning`.
    pub severity: &'static str,
    pub reason: &'static str,
    pub message: String,
    /// The message ends with the name of the object that the intent before it made.
    pub names_made: bool,
    /// The component that reports it: `default-scheduler`, `replication-controller`, `node-controller`,
    /// `controllermanager`, `store`.
    pub source: &'static str,
    /// The action, for components that name the action in their events. `None`: an event of the old form.
    pub action: Option<&'static str>,
    /// A second object that the event concerns.
    pub related: Option<About>,
}

impl EventDraft {
    pub fn normal(source: &'static str, about: About, reason: &'static str, message: String) -> EventDraft {
        EventDraft {
            about,
            severity: "Normal",
            reason,
            message,
            names_made: false,
            source,
            action: None,
            related: None,
        }
    }

    pub fn doing(self, action: &'static str) -> EventDraft {
        EventDraft { action: Some(action), ..self }
    }

    pub fn warning(source: &'static str, about: About, reason: &'static str, message: String) -> EventDraft {
        EventDraft { severity: "Warning", ..EventDraft::normal(source, about, reason, message) }
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
pub enum Lookup {
    /// Reads all that the namespace holds. The decision is asked for once more, with it.
    Contents(String),
    /// Counts the use of its quotas, under the lock that writes are charged under.
    Recount(String),
    /// The usage of pods. The answer comes into the cluster later, and wakes the controllers that follow it.
    Readings,
}

/// A namespace, and all that it holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// The namespace as it stands.
    pub namespace: Value,
    pub seen: Revision,
    pub items: Vec<Item>,
    /// Unreadable objects. These objects still exist; a plain DELETE gives an unreadable object up.
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
    pub errand: Option<Lookup>,
    /// Why not all could be done: as if an intent had been refused.
    pub trouble: Option<Refusal>,
    /// What the next look at this key is to know, from this process alone. `None`: what it knows already.
    pub memory: Option<Value>,
    /// What the next look at this key is given: what cannot be read off the cluster, such as when something was
    /// noticed.
    pub memo: Option<Memo>,
}

/// A controller's memory about a key: kept only in memory, until a decision brings no memo.
#[derive(Clone)]
pub struct Memo(Arc<dyn Any + Send + Sync>);

impl Memo {
    pub fn of<T: Any + Send + Sync>(remembered: T) -> Memo {
        Memo(Arc::new(remembered))
    }

    pub fn read<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

/// Nothing is done by remembering.
impl PartialEq for Memo {
    fn eq(&self, _: &Memo) -> bool {
        true
    }
}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memo")
    }
}

impl Decision {
    pub fn of(intents: Vec<Intent>) -> Decision {
        Decision { intents, ..Decision::default() }
    }

    /// To look again at this uptime, and nothing else.
    pub fn later(at: Duration) -> Decision {
        Decision { wake_at: Some(at), ..Decision::default() }
    }

    pub fn errand(errand: Lookup) -> Decision {
        Decision { errand: Some(errand), ..Decision::default() }
    }
}

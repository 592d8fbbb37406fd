//! A change of one object, the outcome, and the reasons for a refusal: the types of `Registry::commit`. PURE.

use crate::admit::Refusal;
use crate::prepare::{Departure, InvalidDocument, Ownership, Part, Standing};
use crate::store::{Refused, Stored};
use coracle_api::kinds::Kind;
use coracle_api::meta::{Key, Resource};
use coracle_api::strategy::Rules;
use coracle_http::Identity;
use serde_json::Value;
use std::fmt;
use std::sync::LazyLock;

/// The identity of the master itself: it may do everything. Its controllers have identities of their own.
pub static MASTER: LazyLock<Identity> =
    LazyLock::new(|| Identity { user: "system:apiserver".to_owned(), ..Identity::administrator() });

/// A change of one object, as requested by the writer. `E`: the writer's own reason for a refusal.
pub struct Change<'a, E> {
    pub kind: &'a Kind,
    pub namespace: &'a str,
    /// Empty: a new object, whose name stands in the document or is generated.
    pub name: &'a str,
    pub expects: Expects,
    /// An object whose file is damaged counts as none: a new one takes its place, or a deletion gives it up.
    pub over_damaged: bool,
    /// It is a deletion, at once or for later.
    pub deletes: bool,
    /// The writer's function from the stored object to the new one. Called again if somebody else wrote meanwhile.
    pub make: Make<'a, E>,
}

pub type Make<'a, E> = &'a dyn Fn(Option<Standing<'_>>) -> Result<Made<'a>, E>;

/// The precondition of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expects {
    /// Nothing: it is a create.
    Nothing,
    /// An object.
    Object,
    /// An object; where there is none it is made.
    Either,
}

/// The outcome of a writer's function.
pub enum Made<'a> {
    /// A document of an object or of a part of the object: the document goes through all steps.
    Document { part: Part, object: Value, ownership: Ownership<'a>, warnings: Vec<String> },
    /// The stored object, changed by the server itself without asking its strategy: a binding, a mark, a finalizer
    /// less.
    Own(Value),
    /// It is written like this, and then it goes.
    Last(Value),
    /// It goes as it stands.
    Gone,
    /// Nothing is to be written.
    Unchanged,
}

impl<'a> Made<'a> {
    pub fn document(part: Part, object: Value, ownership: Ownership<'a>) -> Made<'a> {
        Made::Document { part, object, ownership, warnings: Vec::new() }
    }

    /// What stands without a finalizer or an owner: where that was the last thing that held an object whose time is
    /// over, it goes.
    pub fn relieved(kind: &Kind, object: Value) -> Made<'a> {
        if kind.strategy.released(&object) { Made::Gone } else { Made::Own(object) }
    }
}

impl From<Departure> for Made<'_> {
    fn from(departure: Departure) -> Self {
        match departure {
            Departure::Now => Made::Gone,
            Departure::Last(object) => Made::Last(object),
            Departure::Marked(object) => Made::Own(object),
            Departure::Pending => Made::Unchanged,
        }
    }
}

/// The writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    Client,
    /// Through the flat versions, where a namespace is made on first use.
    ClientOf2014,
    /// To it a namespace is there though its file is damaged.
    Controller,
    /// The master itself: no quota refuses its objects, and their namespace need not be there.
    Master,
}

/// How a change is written.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    pub writer: Writer,
    /// The client's identity, a controller's, or `MASTER`.
    pub identity: &'a Identity,
    /// The resource by which the client names the kind. None: the kind's own.
    pub shown: Option<&'a Resource>,
    pub rules: Rules,
    /// Every step is taken but the writing.
    pub rehearsal: bool,
    /// The writer wants to hear what its kind advises.
    pub advised: bool,
}

impl Terms<'_> {
    /// The terms of a writer of this program. The writer's documents derive from stored objects, and stored names may
    /// follow the rules of 2014.
    pub fn of(writer: Writer) -> Terms<'static> {
        Terms {
            writer,
            identity: &MASTER,
            shown: None,
            rules: Rules { old_names: true, ..Rules::default() },
            rehearsal: false,
            advised: false,
        }
    }
}

/// The outcome of a change.
pub struct Committed {
    /// As it stands now; as it was at last, if it is gone.
    pub stored: Stored,
    pub outcome: Outcome,
    /// The writer's own warnings about the document.
    pub warnings: Vec<String>,
    /// The warnings of its kind, and then of admission.
    pub advice: Vec<String>,
    /// Annotations of admission for the audit log.
    pub notes: Vec<(&'static str, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Created,
    /// In place of one whose file is damaged.
    Renewed,
    Changed,
    Unchanged,
    Gone,
    /// It was damaged: nothing but its key is known.
    GivenUp,
}

/// Why nothing was written.
#[derive(Debug)]
pub enum CommitError<E> {
    /// The writer itself.
    Writer(E),
    /// Nothing stands there.
    Missing,
    /// The role of a binding is not there, and so nobody can say whether the writer may grant it.
    NoRole(String),
    /// The object is stored, but unreadable.
    Damaged {
        why: String,
    },
    NamespaceError(NamespaceError),
    InvalidDocument(InvalidDocument),
    /// Whatever address or port the server chose was taken by then.
    NoneFree {
        key: Key,
        space: String,
    },
    /// The store.
    Refused(Box<NotStored>),
}

/// Why nothing can be made in a namespace.
#[derive(Debug, PartialEq)]
pub enum NamespaceError {
    Missing,
    /// It would be made, and the writer may not make namespaces.
    Forbidden {
        name: String,
        why: String,
    },
    Damaged {
        why: String,
    },
    Ending {
        /// The name of the object that is not made, or the `generateName` of an object without a name.
        name: String,
    },
    /// The flat versions make a namespace on first use, and this one could not be made.
    Unmade {
        why: String,
    },
}

impl fmt::Display for NamespaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamespaceError::Missing | NamespaceError::Ending { .. } => {
                f.write_str("its namespace is not there, or it ends: nothing is made in it")
            }
            NamespaceError::Forbidden { why, .. } => f.write_str(why),
            NamespaceError::Damaged { why } => write!(f, "the file of its namespace is damaged: {why}"),
            NamespaceError::Unmade { why } => f.write_str(why),
        }
    }
}

/// A write that the store refused.
#[derive(Debug)]
pub struct NotStored {
    pub key: Key,
    /// Where a claim stands in what was to be written; None for a deletion.
    pub written: Option<Value>,
    pub refused: Refused,
}

impl<E> CommitError<E> {
    pub(super) fn refused(key: Key, written: Option<Value>, refused: Refused) -> CommitError<E> {
        CommitError::Refused(Box::new(NotStored { key, written, refused }))
    }

    pub(super) fn forbidden(name: String, why: String) -> CommitError<E> {
        CommitError::InvalidDocument(InvalidDocument::Forbidden { name, why })
    }

    pub(super) fn unadmitted(name: String, refusal: Refusal) -> CommitError<E> {
        CommitError::InvalidDocument(unadmitted(name, refusal))
    }

    /// Whether another object stands now where the change has read one, or none.
    pub(super) fn has_moved(&self, expects: Expects) -> bool {
        matches!(self, CommitError::Refused(not_stored) if match not_stored.refused {
            Refused::Stale { .. } | Refused::Missing => true,
            Refused::Exists { .. } => expects == Expects::Either,
            _ => false,
        })
    }

    /// Whether another object has the name.
    pub fn is_taken(&self) -> bool {
        matches!(self, CommitError::Refused(not_stored) if matches!(not_stored.refused, Refused::Exists { .. }))
    }
}

impl<E> fmt::Display for CommitError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Only a caller that knows the writer can show the reason.
            CommitError::Writer(_) => f.write_str("its writer refuses it"),
            CommitError::Missing => f.write_str("it does not exist"),
            CommitError::NoRole(name) => write!(f, "role {name:?} is not there"),
            CommitError::Damaged { why } => write!(f, "its file is damaged: {why}"),
            CommitError::NamespaceError(homeless) => homeless.fmt(f),
            CommitError::InvalidDocument(unfit) => unfit.fmt(f),
            CommitError::NoneFree { space, .. } => write!(f, "no free {space} was found"),
            CommitError::Refused(not_stored) => not_stored.refused.fmt(f),
        }
    }
}

/// The refusal of an object that would be called like this.
pub(super) fn unadmitted(name: String, refusal: Refusal) -> InvalidDocument {
    match refusal {
        Refusal::Forbidden(why) => InvalidDocument::Forbidden { name, why },
        Refusal::Invalid(problems) => InvalidDocument::Unadmitted { name, problems },
        Refusal::Missing(key) => InvalidDocument::NotThere { key },
        Refusal::TooMany { why, retry_after_s } => InvalidDocument::TooMany { why, retry_after_s },
    }
}

impl<'a, E> Change<'a, E> {
    /// A new object.
    pub fn create(kind: &'a Kind, namespace: &'a str, make: Make<'a, E>) -> Change<'a, E> {
        Change { kind, namespace, name: "", expects: Expects::Nothing, over_damaged: false, deletes: false, make }
    }

    /// An object that stands, and that can be read.
    pub fn update(kind: &'a Kind, namespace: &'a str, name: &'a str, make: Make<'a, E>) -> Change<'a, E> {
        Change { kind, namespace, name, expects: Expects::Object, over_damaged: false, deletes: false, make }
    }

    /// A deletion of an object that stands, and that can be read.
    pub fn delete(kind: &'a Kind, namespace: &'a str, name: &'a str, make: Make<'a, E>) -> Change<'a, E> {
        Change { deletes: true, ..Change::update(kind, namespace, name, make) }
    }

    /// Empty in its name: one that is generated, or stands in the document.
    pub fn key(&self) -> Key {
        Key { resource: self.kind.resource.clone(), namespace: self.namespace.to_owned(), name: self.name.to_owned() }
    }
}

//! A change on its way into the store: the stored object and the document to write. PURE.

use super::change::{Committed, Outcome, Terms};
use crate::admit::Remarks;
use crate::prepare::{Draft, Standing};
use crate::store::{Stored, UNSEEN, Write};
use coracle_api::kinds::Kind;
use coracle_api::meta::Key;
use serde_json::Value;

/// The object in the place of a change.
pub(super) enum ReadBack {
    Nothing,
    Object(Stored, Value),
    /// Its file is, and the change does not mind.
    Damaged,
}

impl ReadBack {
    pub(super) fn standing(&self) -> Option<Standing<'_>> {
        let ReadBack::Object(stored, object) = self else { return None };
        Some(Standing { key: &stored.key, revision: stored.revision, object })
    }

    pub(super) fn unchanged(self) -> Option<Committed> {
        let ReadBack::Object(stored, _) = self else { return None };
        Some(Committed {
            stored,
            outcome: Outcome::Unchanged,
            warnings: Vec::new(),
            advice: Vec::new(),
            notes: Vec::new(),
        })
    }
}

/// A change after its draft.
#[derive(Clone)]
pub(super) enum Drafted<'a> {
    Document {
        draft: Draft<'a>,
        warnings: Vec<String>,
    },
    /// The server's own change, or a deletion: nothing is generated or validated.
    Ready(Write, Option<Last>),
}

impl Drafted<'_> {
    /// The draft of the next attempt. None: the server generates no value that another object may have.
    pub(super) fn again(&self) -> Option<Self> {
        match self {
            Drafted::Document { draft, .. } if !self.is_named() || draft.claims() => Some(self.clone()),
            Drafted::Document { .. } | Drafted::Ready(..) => None,
        }
    }

    /// Whether the document has a name; else one is generated.
    pub(super) fn is_named(&self) -> bool {
        match self {
            Drafted::Document { draft, .. } => {
                draft.object["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty())
            }
            Drafted::Ready(..) => true,
        }
    }

    /// Whether the document names the value of a claim itself: `10.96.0.7`, `TCP/30080`.
    pub(super) fn holds(&self, value: &str) -> bool {
        let value = value.rsplit('/').next().unwrap_or(value);
        matches!(self, Drafted::Document { draft, .. } if holds(&draft.object, value))
    }
}

/// A write, and what goes with it.
pub(super) struct ToWrite {
    pub(super) write: Write,
    pub(super) last: Option<Last>,
    pub(super) warnings: Vec<String>,
    pub(super) remarks: Remarks,
}

/// An object that goes.
#[derive(Clone)]
pub(super) enum Last {
    /// Like this, with the write.
    Shown(Value),
    /// After the write.
    Goes,
}

impl ToWrite {
    pub(super) fn advice(&self, kind: &Kind, terms: &Terms<'_>) -> Vec<String> {
        let Some(advice) = kind.advice.filter(|_| terms.advised) else { return Vec::new() };
        let object = if let Some(Last::Shown(last)) = &self.last { Some(last) } else { object_of(&self.write) };
        object.map(advice).unwrap_or_default()
    }

    pub(super) fn outcome(&self, found: &ReadBack) -> Outcome {
        match (&self.write, found) {
            (Write::Create { .. }, _) => Outcome::Created,
            (Write::Update { .. }, ReadBack::Damaged) => Outcome::Renewed,
            (Write::Delete { .. }, ReadBack::Damaged) => Outcome::GivenUp,
            (Write::Update { .. }, _) if matches!(self.last, Some(Last::Goes)) => Outcome::Gone,
            (Write::Update { .. }, _) => Outcome::Changed,
            (Write::Delete { .. }, _) => Outcome::Gone,
        }
    }
}

/// What a refusal would show of what was to be written: where a claim stands in it, if it makes any.
pub(super) fn to_show(write: &Write) -> Option<Value> {
    match write {
        Write::Create { object, claims, .. } | Write::Update { object, claims, .. } if !claims.is_empty() => {
            Some(object.clone())
        }
        Write::Create { .. } | Write::Update { .. } => Some(Value::Null),
        Write::Delete { .. } => None,
    }
}

fn holds(document: &Value, value: &str) -> bool {
    match document {
        Value::Object(fields) => fields.values().any(|field| holds(field, value)),
        Value::Array(items) => items.iter().any(|item| holds(item, value)),
        Value::String(text) => text == value,
        Value::Number(number) => number.to_string() == value,
        Value::Null | Value::Bool(_) => false,
    }
}

pub(super) fn key_of(write: &Write) -> Key {
    match write {
        Write::Create { key, .. } | Write::Update { key, .. } | Write::Delete { key, .. } => key.clone(),
    }
}

/// Whether a write makes the store larger.
pub(super) fn adds(write: &Write, found: &ReadBack) -> bool {
    // The store sets the revision, and it grows by itself.
    let size = |object: &Value| {
        let mut object = object.clone();
        object["metadata"].as_object_mut().map(|meta| meta.remove("resourceVersion"));
        object.to_string().len()
    };
    match (object_of(write), found) {
        (Some(new), ReadBack::Object(_, old)) => size(new) > size(old),
        (new, _) => new.is_some(),
    }
}

fn object_of(write: &Write) -> Option<&Value> {
    match write {
        Write::Create { object, .. } | Write::Update { object, .. } => Some(object),
        Write::Delete { .. } => None,
    }
}

/// A new object takes the place of one whose file is damaged.
pub(super) fn in_place(write: Write) -> Write {
    match write {
        Write::Create { key, object, durable, claims } => Write::Update { key, object, seen: UNSEEN, durable, claims },
        write => write,
    }
}

//! A document on its way to a write, one step after the other, in the order that `commit` lists. PURE.

use super::owned::{self, ClientFields};
use super::{InvalidDocument, Ownership, Part, Standing, claims, fit, new_faults, place, replace};
use crate::store::Write;
use coracle_api::kinds::Kind;
use coracle_api::meta::{Key, Revision, Time};
use coracle_api::strategy::{self, Making, Rules};
use coracle_schema::{check, default, tidy};
use serde_json::Value;

/// A document that becomes a write.
#[derive(Clone)]
pub struct Draft<'a> {
    kind: &'a Kind,
    namespace: &'a str,
    /// None: a new object.
    old: Option<Standing<'a>>,
    pub part: Part,
    ownership: Ownership<'a>,
    said: ClientFields,
    pub object: Value,
}

/// A write, and how the object goes if the write takes the last thing that held one whose time is over.
#[derive(Debug)]
pub struct Prepared {
    pub write: Write,
    pub last: Option<Value>,
}

impl<'a> Draft<'a> {
    /// A new object, with the defaults of its type. `namespace` is where it goes: the document's own has been compared
    /// with it.
    pub fn create(kind: &'a Kind, namespace: &'a str, mut object: Value, ownership: Ownership<'a>) -> Draft<'a> {
        place(kind, namespace, &mut object);
        if kind.keeps_status
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
        default(&kind.types, &kind.type_name, &mut object);
        let said = owned::said(kind, &mut object, &ownership);
        Draft { kind, namespace, old: None, part: Part::Main, ownership, said, object }
    }

    /// The draft of a document that replaces the stored object or a part of the object; `mutate` sets the defaults of a
    /// part after taking over the rest. A document with a resourceVersion is meant for exactly that revision, one
    /// without (or with 0) for any, where the kind allows that.
    pub fn update(
        kind: &'a Kind,
        old: Standing<'a>,
        part: Part,
        mut object: Value,
        rules: Rules,
        ownership: Ownership<'a>,
    ) -> Result<Draft<'a>, InvalidDocument> {
        place(kind, &old.key.namespace, &mut object);
        is_meant(kind, old, &object, rules)?;
        if matches!(part, Part::Main | Part::Scale) {
            if kind.keeps_status {
                strategy::keep_status(&mut object, old.object);
            }
            default(&kind.types, &kind.type_name, &mut object);
        }
        let said = owned::said(kind, &mut object, &ownership);
        Ok(Draft { kind, namespace: &old.key.namespace, old: Some(old), part, ownership, said, object })
    }

    /// The name that refusals call it by: what a generated name will begin with, as long as there is none.
    pub fn called(&self) -> String {
        let said = |field: &str| self.object["metadata"][field].as_str().filter(|name| !name.is_empty());
        said("name").or(said("generateName")).unwrap_or_default().to_owned()
    }

    /// Whether its kind claims values that no two objects may have.
    pub fn claims(&self) -> bool {
        !self.kind.strategy.claims_nothing()
    }

    /// Lets the kind's strategy complete the document.
    pub fn mutate(&mut self, making: &mut Making<'_>) {
        let Draft { kind, object, .. } = self;
        let Some(old) = self.old.map(|old| old.object) else { return kind.strategy.create(object, making) };
        match self.part {
            Part::Main | Part::Scale => {
                tidy(&kind.types, &kind.type_name, object);
                return kind.strategy.update(object, old, making);
            }
            Part::Status => {
                strategy::keep_metadata(object, old, kind.status_keeps);
                kind.strategy.status_update(object, old);
            }
            Part::Share(share) => (share.take)(object, old, making.now),
        }
        default(&kind.types, &kind.type_name, object);
        tidy(&kind.types, &kind.type_name, object);
    }

    /// Checks the document against the schema of the type and the rules of the kind.
    pub fn validate(&self, rules: Rules) -> Result<(), InvalidDocument> {
        let Draft { kind, object, said, part, .. } = self;
        let (of_type, of_kind) = match self.old {
            None => (check(&kind.types, &kind.type_name, object), kind.strategy.validate(object, rules)),
            Some(old) => {
                let of_kind = match part {
                    Part::Share(share) => (share.validate_update)(object, old.object, rules),
                    Part::Main | Part::Scale | Part::Status => kind.strategy.validate_update(object, old.object, rules),
                };
                (new_faults(kind, object, old.object), of_kind)
            }
        };
        fit(object, of_type, [of_kind, said.problems(*part)].concat())
    }

    /// Whether it takes the last thing that held an object whose time is over.
    pub fn goes(&self) -> bool {
        let strategy = &self.kind.strategy;
        self.old.is_some_and(|old| strategy.released(&self.object) && !strategy.released(old.object))
    }

    /// The resulting write, with field owners and claims.
    pub fn finish(self, now: Time) -> Prepared {
        let goes = self.goes();
        let Draft { kind, namespace, old, part, ownership, said, mut object } = self;
        if old.is_none() {
            // Problems are told of the document as it was sent.
            tidy(&kind.types, &kind.type_name, &mut object);
        }
        owned::settle(kind, part, old.map(|old| old.object), &mut object, said, ownership, now);
        let Some(old) = old else {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let key = Key { resource: kind.resource.clone(), namespace: namespace.to_owned(), name };
            let (claims, durable) = (claims(kind, &object), kind.strategy.durable(&object));
            return Prepared { write: Write::Create { key, durable, object, claims }, last: None };
        };
        if goes {
            return Prepared { write: Write::Delete { key: old.key.clone(), seen: old.revision }, last: Some(object) };
        }
        Prepared { write: replace(kind, old, object), last: None }
    }
}

/// Whether a document is about the object that stands, at the revision that stands.
fn is_meant(kind: &Kind, old: Standing<'_>, object: &Value, rules: Rules) -> Result<(), InvalidDocument> {
    let meta = &object["metadata"];
    let given = meta["resourceVersion"].as_str().unwrap_or_default();
    let uid = meta["uid"].as_str().unwrap_or_default();
    let stands = old.object["metadata"]["uid"].as_str().unwrap_or_default();
    if !uid.is_empty() && uid != stands && !rules.patched {
        return Err(InvalidDocument::OtherUid { given: uid.to_owned(), stands: stands.to_owned() });
    }
    let given = if given.is_empty() { Ok(Revision(0)) } else { Revision::parse(given) };
    match given.map_err(|why| InvalidDocument::NoRevision { why })? {
        Revision(0) if kind.put_names_revision => Err(InvalidDocument::Unseen),
        given if given != Revision(0) && given != old.revision => Err(InvalidDocument::Stale),
        _ => Ok(()),
    }
}

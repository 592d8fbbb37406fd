//! The rules of one kind: a trait, the row of functions by which built-in kinds implement it, and the values that the
//! rules take and return.

use super::time_zone::ZoneFault;
use super::{NodePorts, Ranges, doc, finalizer};
use crate::meta::{Claim, Durable, Time};
use coracle_schema::Problem;
use serde_json::Value;
use std::fmt;
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::sync::Arc;

/// The rules of a kind beyond the schema. `metadata.namespace` of a namespaced object is set before any rule runs.
pub trait Strategy: Send + Sync {
    /// Completes a new object: name from generateName, uid, times, generation, the first status, defaults that depend
    /// on other fields, addresses. The schema's own defaults are set already.
    fn create(&self, object: &mut Value, making: &mut Making<'_>);

    /// Puts back the fields that clients may not change (uid, status, generation, deletion) or may leave out (a
    /// service's address). The schema's own defaults are set already.
    fn update(&self, new: &mut Value, old: &Value, making: &mut Making<'_>);

    /// The same for an update of the status subresource: everything but status and metadata stays as it was. The fields
    /// of the metadata that stay as well are listed in `Kind::status_keeps`.
    fn status_update(&self, new: &mut Value, old: &Value);

    /// Every problem of an object on its own, metadata included.
    fn validate(&self, object: &Value, rules: Rules) -> Vec<Problem>;

    /// Every problem of an update: the problems of `validate`, and forbidden changes.
    fn validate_update(&self, new: &Value, old: &Value, rules: Rules) -> Vec<Problem>;

    /// The names, addresses and ports that the object owns while it lives. Its creation token is claimed elsewhere: see
    /// `creation_token`.
    fn claims(&self, object: &Value) -> Vec<Claim>;

    /// Whether objects of this kind are known to claim nothing but a creation token.
    fn claims_nothing(&self) -> bool;

    /// How much of the object goes to disk. The kind and the status decide. A label or a namespace may only keep the
    /// whole object off the disk: a start passes null instead of a stored object without a status.
    fn durable(&self, object: &Value) -> Durable;

    /// The effect of a DELETE.
    fn delete(&self, object: &Value, deleting: Deleting) -> Deletion;

    /// Whether an object that is being deleted is held by nothing any more.
    fn released(&self, object: &Value) -> bool;
}

/// The rules of a built-in kind: a function for each method of the trait.
pub struct BuiltinStrategy {
    pub create: fn(&mut Value, &mut Making<'_>),
    pub update: fn(new: &mut Value, old: &Value, &mut Making<'_>),
    pub status_update: fn(new: &mut Value, old: &Value),
    pub validate: fn(&Value, Rules) -> Vec<Problem>,
    pub validate_update: fn(new: &Value, old: &Value, Rules) -> Vec<Problem>,
    pub claims: fn(&Value) -> Vec<Claim>,
    pub durable: fn(&Value) -> Durable,
    pub delete: fn(&Value, Deleting) -> Deletion,
    pub released: fn(&Value) -> bool,
}

impl Strategy for BuiltinStrategy {
    fn create(&self, object: &mut Value, making: &mut Making<'_>) {
        (self.create)(object, making);
    }

    fn update(&self, new: &mut Value, old: &Value, making: &mut Making<'_>) {
        (self.update)(new, old, making);
    }

    fn status_update(&self, new: &mut Value, old: &Value) {
        (self.status_update)(new, old);
    }

    fn validate(&self, object: &Value, rules: Rules) -> Vec<Problem> {
        (self.validate)(object, rules)
    }

    fn validate_update(&self, new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
        (self.validate_update)(new, old, rules)
    }

    fn claims(&self, object: &Value) -> Vec<Claim> {
        (self.claims)(object)
    }

    fn claims_nothing(&self) -> bool {
        std::ptr::fn_addr_eq(self.claims, no_claims as fn(&Value) -> Vec<Claim>)
    }

    fn durable(&self, object: &Value) -> Durable {
        (self.durable)(object)
    }

    fn delete(&self, object: &Value, deleting: Deleting) -> Deletion {
        (self.delete)(object, deleting)
    }

    fn released(&self, object: &Value) -> bool {
        (self.released)(object)
    }
}

/// The rules in a row of the kind table. A kind that is defined at run time brings its own rules, and the data of these
/// rules with them.
#[derive(Clone)]
pub enum StrategyRef {
    Builtin(&'static BuiltinStrategy),
    Own(Arc<dyn Strategy>),
}

impl Deref for StrategyRef {
    type Target = dyn Strategy;

    fn deref(&self) -> &(dyn Strategy + 'static) {
        match self {
            StrategyRef::Builtin(row) => *row,
            StrategyRef::Own(own) => &**own,
        }
    }
}

/// A part of an object's document, apart from the status, that has a subresource.
pub struct Share {
    /// The name of the subresource: the last part of the path.
    pub name: &'static str,
    /// Reduces the document that was sent to this part: all further fields get the stored values.
    pub take: fn(new: &mut Value, old: &Value, now: Time),
    /// Every problem of the object as it would be then.
    pub validate_update: fn(new: &Value, old: &Value, Rules) -> Vec<Problem>,
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The rules that an object is held to, where they depend on the request.
#[derive(Clone, Copy, Default)]
pub struct Rules {
    /// Ids, label keys and values and container names as 2014 allowed them: for creates through v1beta1, and for pods
    /// that a controller makes from a template that was accepted so. Updates need these rules only through v1beta1: a
    /// name that the old object has is never a problem of the new one.
    pub old_names: bool,
    /// Only the values of labels as in 2014: for v1beta3, which has the names of v1.
    pub old_labels: bool,
    /// Where service addresses come from; a wanted address outside is a problem. None: unchecked.
    pub service_cidr: Option<Ranges>,
    /// Where node ports come from.
    pub node_ports: NodePorts,
    /// The object exists, and its earlier form is unknown: fields that a create may not set may be set.
    pub standing: bool,
    /// A patch made the document: a different uid is then a problem of the uid field, not a sign that the client meant
    /// a different object.
    pub patched: bool,
    /// The object was sent in another form than it is stored in (`Kind::alias`), which may be held to more.
    pub other_form: bool,
    /// The time zone database of the host.
    pub zone_fault: ZoneFault,
}

/// Times, chance and free addresses: values that a pure function cannot make.
pub struct Making<'a> {
    pub now: Time,
    /// The uid of an object that is made now.
    pub uid: String,
    /// Five characters for a generated name, different ones each time.
    pub suffix: &'a mut dyn FnMut() -> String,
    /// A free address of the service range; None when all are taken.
    pub service_address: &'a mut dyn FnMut() -> Option<Ipv4Addr>,
    /// A free port of the nodes; None when all are taken.
    pub node_port: &'a mut dyn FnMut() -> Option<u16>,
}

/// The request of a DELETE.
#[derive(Clone, Copy, Debug)]
pub struct Deleting {
    /// `gracePeriodSeconds` of the DeleteOptions or the query.
    pub grace_s: Option<i64>,
    pub now: Time,
}

/// The fate of the objects that a deleted object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionPropagation {
    /// They stay, without their owner.
    Orphan,
    /// They go after their owner.
    Background,
    /// They go before their owner.
    Foreground,
}

impl DeletionPropagation {
    /// `propagationPolicy` on the wire.
    pub const WIRE: [(&'static str, DeletionPropagation); 3] = [
        ("Foreground", DeletionPropagation::Foreground),
        ("Background", DeletionPropagation::Background),
        ("Orphan", DeletionPropagation::Orphan),
    ];

    pub fn parse(text: &str) -> Option<DeletionPropagation> {
        DeletionPropagation::WIRE.iter().find(|(name, _)| *name == text).map(|(_, fate)| *fate)
    }

    /// The finalizer that holds the object until its dependents have met their fate.
    pub fn finalizer(self) -> Option<&'static str> {
        match self {
            DeletionPropagation::Orphan => Some(finalizer::ORPHAN),
            DeletionPropagation::Background => None,
            DeletionPropagation::Foreground => Some(finalizer::FOREGROUND),
        }
    }
}

/// The effect of a DELETE.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion {
    /// The object goes at once, as it stands.
    Remove,
    /// It goes at once. Watchers are shown it like this: with its deletion's time and no grace.
    Last(Value),
    /// The object stays, written like this: with its deletion's time and grace.
    Mark(Value),
    /// An earlier DELETE still runs, and this one does not shorten it.
    Pending,
}

/// Puts back the status, for updates of anything else.
pub fn keep_status(new: &mut Value, old: &Value) {
    doc::copy(new, old, "status");
}

/// Puts back these fields of the metadata.
pub fn keep_metadata(new: &mut Value, old: &Value, fields: &[&str]) {
    for field in fields {
        doc::copy(&mut new["metadata"], &old["metadata"], field);
    }
}

/// For kinds that claim nothing.
pub(super) fn no_claims(_: &Value) -> Vec<Claim> {
    Vec::new()
}

/// For kinds whose document goes to disk as it is.
pub(super) fn whole(_: &Value) -> Durable {
    Durable::Whole
}

/// For kinds whose status can be observed again.
pub(super) fn without_status(_: &Value) -> Durable {
    Durable::WithoutStatus
}

/// For kinds that live in memory only.
pub(super) fn nothing(_: &Value) -> Durable {
    Durable::Nothing
}

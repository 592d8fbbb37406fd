//! What is particular to a kind and no schema can say: what a create or an update sets, keeps or refuses, which
//! names and addresses the object claims, how much of it is worth flash, how it is deleted.
//!
//!     create:  schema defaults -> Strategy::create -> Strategy::validate -> claims -> Store::write
//!     update:  schema defaults -> Strategy::update -> Strategy::validate_update -> claims -> Store::write
//!     status:  Strategy::status_update -> schema defaults -> Strategy::validate_update -> ...
//!
//! Metadata is covered by each kind's functions (they call `meta`), so whoever writes calls the kind's strategy and
//! nothing else. All of it is PURE: what would have to be invented (time, uid, addresses) comes in `Making`.

pub mod addresses;
pub mod advice;
mod affinity;
mod amounts;
mod annotated;
mod apps;
mod batch;
pub mod binding;
mod claim;
mod classes;
mod conditions;
mod config;
mod container;
mod counts;
mod cron;
mod csi;
mod devices;
mod diff;
pub mod doc;
mod endpoints;
mod env;
pub mod ephemeral;
mod event;
pub mod eviction;
pub mod finalizer;
mod flow;
pub mod forms;
pub mod furniture;
mod general;
mod inner;
mod job_rules;
mod kinds;
pub mod label_selector;
pub mod lease;
mod limits;
pub mod meta;
mod mounts;
pub(crate) mod names;
pub mod namespace;
mod network;
mod networking;
mod node;
mod pem;
pub mod pod;
pub mod pod_defaults;
mod pod_parts;
mod pod_spec;
mod pod_status;
mod policies;
pub mod qos;
mod rbac;
mod replicationcontroller;
pub mod review;
pub mod scale;
mod scaling;
mod security;
pub mod service;
mod service_rules;
mod signing;
mod stateful;
mod systems;
mod templates;
pub mod token;
mod volume;
mod webhooks;

pub use network::Cidr;

use crate::meta::{Claim, Durable, Time};
use coracle_schema::{Path, Problem};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::net::Ipv4Addr;

pub use addresses::{IP_ADDRESS, SERVICE_RANGE};
pub use apps::{DAEMON_SET, DEPLOYMENT, REPLICA_SET, TEMPLATE_GENERATION};
pub use batch::{CRON_JOB, JOB};
pub use binding::{BINDING, bind, no_target};
pub use claim::{CLAIM, VOLUME};
pub use classes::{
    ATTRIBUTES_CLASS, PRIORITY_CLASS, RUNTIME_CLASS, STORAGE_CLASS, VOLUME_ATTACHMENT, refuse_delete as priority_class_stays,
    system_classes,
};
pub use config::{CONFIG_MAP, SECRET};
pub use csi::{CSI_CAPACITY, CSI_DRIVER, CSI_NODE};
pub use devices::{CLAIM_TEMPLATE, DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE};
pub use endpoints::{ENDPOINTS, elsewhere};
pub use event::EVENT;
pub use flow::{FLOW_SCHEMA, PRIORITY_LEVEL};
pub use kinds::*;
pub use lease::{ENDPOINT_SLICE, LEASE};
pub use limits::{LIMIT_RANGE, RESOURCE_QUOTA};
pub use namespace::NAMESPACE;
pub use networking::{INGRESS, INGRESS_CLASS, NETWORK_POLICY};
pub use node::NODE;
pub use pod::POD;
pub use policies::{MUTATING_BINDING, MUTATING_POLICY, VALIDATING_BINDING, VALIDATING_POLICY};
pub use rbac::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING};
pub use replicationcontroller::REPLICATION_CONTROLLER;
pub use review::REVIEW;
pub use scale::SCALE;
pub use scaling::{AUTOSCALER, DISRUPTION_BUDGET};
pub use service::SERVICE;
pub use signing::{APPROVAL, CLIENT_SIGNER, SIGNING_REQUEST, wants_masters};
pub use stateful::STATEFUL_SET;
pub use templates::{CONTROLLER_REVISION, POD_TEMPLATE};
pub use webhooks::WEBHOOKS;

/// The rules of one kind, as a row of functions. `metadata.namespace` of a namespaced object is set before any of them.
pub struct Strategy {
    /// What a create sets or wipes: name from generateName, uid, times, generation, the kind's first status, defaults
    /// that depend on other fields, addresses. After the schema's own defaults.
    pub create: fn(&mut Value, &mut Making<'_>),
    /// What an update puts back: what clients may not say (uid, status, generation, deletion) and what they may leave
    /// out (a service's address). After the schema's own defaults.
    pub update: fn(new: &mut Value, old: &Value, &mut Making<'_>),
    /// An update of the status subresource: all but status and metadata stays as it was. What of the metadata stays, too, is
    /// a word of the kind's row.
    pub status_update: fn(new: &mut Value, old: &Value),
    /// Every problem of an object on its own, metadata included.
    pub validate: fn(&Value, Rules) -> Vec<Problem>,
    /// Every problem of an object that replaces another: those of `validate`, and what may not change.
    pub validate_update: fn(new: &Value, old: &Value, Rules) -> Vec<Problem>,
    /// What the object owns alone while it lives. The creation token is not among them: see `creation_token`.
    pub claims: fn(&Value) -> Vec<Claim>,
    /// How much of the object goes to disk: its status says that, if anything of it does.
    pub durable: fn(&Value) -> Durable,
    /// What a DELETE of the object does.
    pub delete: fn(&Value, Deleting) -> Deletion,
    /// Whether nothing holds any more an object that is being deleted.
    pub released: fn(&Value) -> bool,
}

impl Strategy {
    /// Whether no object of this kind claims anything but perhaps a creation token. False where that is not known.
    pub fn claims_nothing(&self) -> bool {
        std::ptr::fn_addr_eq(self.claims, no_claims as fn(&Value) -> Vec<Claim>)
    }

    /// How much goes to disk of an object that has no status: `durable` looks at nothing else.
    pub fn durable_without_status(&self) -> Durable {
        (self.durable)(&Value::Null)
    }
}

/// A part of an object's document that has a path of its own, beside its status.
pub struct Share {
    /// Behind the object's path.
    pub name: &'static str,
    /// What a write of it leaves of the document that was sent: all else is as it stands.
    pub take: fn(new: &mut Value, old: &Value, now: Time),
    /// Every problem of the object that it makes.
    pub validate_update: fn(new: &Value, old: &Value, Rules) -> Vec<Problem>,
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Which rules an object is held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Ids, label keys and values and container names as 2014 allowed them: creates through v1beta1, and pods that a
    /// controller makes of a template that was taken so. Updates need it only through v1beta1: a name that stands in the
    /// old object already is never a problem of the new one.
    pub old_names: bool,
    /// Values of labels alone as then: v1beta3, whose names are those of v1.
    pub old_labels: bool,
    /// Where service addresses come from; a wanted address outside is a problem. None: unchecked.
    pub service_cidr: Option<Cidr>,
    /// The object stands already, and nobody knows what it was before: what may not be there from the first may be there now.
    pub standing: bool,
    /// A patch made the document: a uid in it that is another one is a fault of its own, not a sign that another object was meant.
    pub patched: bool,
    /// The object is said in another form than it is stored in (`Kind::alias`), which may be held to more.
    pub other_form: bool,
}

/// What purity forbids to invent.
pub struct Making<'a> {
    pub now: Time,
    /// The uid of an object that is made now.
    pub uid: String,
    /// Five characters for a generated name, others each time.
    pub suffix: &'a mut dyn FnMut() -> String,
    /// A free address of the service range; None when all are taken.
    pub service_address: &'a mut dyn FnMut() -> Option<Ipv4Addr>,
    /// A free port of 30000-32767; None when all are taken.
    pub node_port: &'a mut dyn FnMut() -> Option<u16>,
}

/// What a DELETE asks for.
#[derive(Clone, Copy, Debug)]
pub struct Deleting {
    /// `gracePeriodSeconds` of the DeleteOptions or the query.
    pub grace_s: Option<i64>,
    pub now: Time,
}

/// What becomes of what a deleted object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is let go, and stays.
    Orphan,
    /// It goes after its owner.
    Background,
    /// It goes before its owner.
    Foreground,
}

impl Fate {
    /// `propagationPolicy` on the wire.
    pub const WIRE: [(&'static str, Fate); 3] =
        [("Foreground", Fate::Foreground), ("Background", Fate::Background), ("Orphan", Fate::Orphan)];

    pub fn parse(text: &str) -> Option<Fate> {
        Fate::WIRE.iter().find(|(name, _)| *name == text).map(|(_, fate)| *fate)
    }

    /// What holds the object until this has been done to what it owns.
    pub fn finalizer(self) -> Option<&'static str> {
        match self {
            Fate::Orphan => Some(finalizer::ORPHAN),
            Fate::Background => None,
            Fate::Foreground => Some(finalizer::FOREGROUND),
        }
    }
}

/// What a DELETE does.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion {
    /// The object goes at once, as it stands.
    Remove,
    /// It goes at once, and who watches is shown it like this: with its deletion's time and no grace.
    Last(Value),
    /// The object stays, written like this: with its deletion's time and grace.
    Mark(Value),
    /// It was asked for before, and nothing is shortened.
    Pending,
}

/// Where a create says its token in v1.
pub const CREATION_TOKEN: &str = "coracle.dev/creation-token";
/// Longest creation token, in bytes: as long as a name may be.
pub const CREATION_TOKEN_BYTES_MAX: usize = 253;

/// The claim that an object's creation token makes; None without one. Unique per kind and namespace.
pub fn creation_token(plural: &str, object: &Value) -> Option<Claim> {
    let token = object["metadata"]["annotations"][CREATION_TOKEN].as_str().filter(|token| !token.is_empty())?;
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    Some(Claim { space: Cow::Owned(format!("creationToken/{plural}/{namespace}")), value: token.to_owned() })
}

/// What is wrong with an object's creation token. Part of every kind's `validate`.
fn creation_token_problem(object: &Value) -> Option<Problem> {
    let token = object["metadata"]["annotations"][CREATION_TOKEN].as_str()?;
    let good = !token.is_empty() && token.len() <= CREATION_TOKEN_BYTES_MAX && token.bytes().all(|byte| byte.is_ascii_graphic());
    let path = Path::new("metadata.annotations").key(CREATION_TOKEN);
    let detail = format!("must be 1 to {CREATION_TOKEN_BYTES_MAX} printable ASCII characters without blanks");
    (!good).then(|| Problem::invalid(&path, token, detail))
}

/// The status of an update of anything else: as it stands.
pub fn keep_status(new: &mut Value, old: &Value) {
    doc::copy(new, old, "status");
}

/// These fields of the metadata as they stand.
pub fn keep_metadata(new: &mut Value, old: &Value, fields: &[&str]) {
    for field in fields {
        doc::copy(&mut new["metadata"], &old["metadata"], field);
    }
}

/// For kinds that claim nothing.
fn no_claims(_: &Value) -> Vec<Claim> {
    Vec::new()
}

/// For kinds whose document goes to disk as it is.
fn whole(_: &Value) -> Durable {
    Durable::Whole
}

/// For kinds whose status can be observed again.
fn without_status(_: &Value) -> Durable {
    Durable::WithoutStatus
}

/// For kinds that live in memory only.
fn nothing(_: &Value) -> Durable {
    Durable::Nothing
}

/// Problems that are told of one list in a document: enough for whoever mends it, and no more memory than that.
const PROBLEMS_MAX: usize = 1000;

/// Whether enough was found to stop looking.
fn full(found: &[Problem]) -> bool {
    found.len() >= PROBLEMS_MAX
}

/// Whether a strategy has told of what a type has found: at the place, at the place without its indexes, of the whole whose type it is,
/// or in the same words elsewhere.
pub fn told(by_strategy: &Problem, of_type: &Problem) -> bool {
    let (told, found) = (by_strategy.path.as_str(), of_type.path.as_str());
    let bare: String = found.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect();
    let alike = by_strategy.reason == of_type.reason && by_strategy.value == of_type.value && by_strategy.detail == of_type.detail;
    // That it may not change is another matter.
    let of_place = (told == found || told == bare) && by_strategy.detail != "field is immutable";
    of_place || (by_strategy.shown.is_some() && found.strip_suffix(".type") == Some(told)) || alike
}

/// A field that must be there and be one of a list.
fn supported(of: &Value, field: &str, list: &[&str], path: &Path) -> Option<Problem> {
    let path = path.field(field);
    match doc::text(of, field) {
        "" => Some(Problem::required(&path, "")),
        value => container::one_of(value, list, &path),
    }
}

fn supported_text(list: &[&str]) -> String {
    let quoted: Vec<String> = list.iter().map(|one| format!("\"{one}\"")).collect();
    format!("supported values: {}", quoted.join(", "))
}

#[cfg(test)]
mod tests;

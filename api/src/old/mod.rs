//! The versions of 2014 and 2015 at the edge: documents are decoded to v1 on the way in and encoded on the way out, and
//! nothing else knows them.
//!
//!     v1beta1, v1beta2   flat: `id`, `desiredState`, `currentState`; the second without the oldest spellings of the
//!                        first
//!     v1beta3            upright: `metadata`, `spec` and `status`, and some names that v1 gave up
//!
//! `shape.rs` is the language in which the rows of the kinds say what a version can express and where it stands in v1;
//! the same rows read, show, and merge a PUT. `manifest.rs` reads the manifest files of the agent.

mod amount;
mod binding;
mod common;
mod container;
mod controller;
mod endpoints;
mod event;
mod later;
mod manifest;
mod merge;
mod minion;
mod namespace;
mod place;
mod pod;
mod reading;
mod scalar;
mod service;
mod shape;
mod status;
mod strategic;
mod upright;
mod volume;
mod words;

use std::fmt;

use coracle_schema::{Path, Problem};
use serde_json::{Value, json};

use crate::strategy::CREATION_TOKEN;

pub use manifest::{FileRefused, Format, FromFile, decode_any};
pub use status::{encode_deleted, encode_status};
pub use strategic::patched;

use place::{get, get_text, put, take};
use reading::{Object, OldReading};
use shape::Shape;

/// A version of the API from before v1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    V1beta1,
    V1beta2,
    V1beta3,
}

impl Version {
    pub const ALL: [Version; 3] = [Version::V1beta1, Version::V1beta2, Version::V1beta3];

    /// As paths and documents call it.
    pub fn name(self) -> &'static str {
        match self {
            Version::V1beta1 => "v1beta1",
            Version::V1beta2 => "v1beta2",
            Version::V1beta3 => "v1beta3",
        }
    }

    pub fn named(name: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|version| version.name() == name)
    }

    /// Whether the version is of 2014: documents have no metadata of their own, and the namespace stands in the query.
    pub fn is_flat(self) -> bool {
        self != Version::V1beta3
    }
}

/// An older document as v1.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The v1 document: `apiVersion`, `kind`, `metadata` and what was said.
    pub object: Value,
    /// Fields that the version does not have, dropped; worth a warning.
    pub unknown: Vec<Path>,
    version: Version,
    /// A service came with the one port that clients before `ports` know; `merge_put` leaves the others alone.
    first_port_only: bool,
}

/// Why a document could not be decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum DecodeError {
    /// Not a map at all.
    NotAnObject,
    WrongKind {
        given: String,
        wanted: &'static str,
        version: Version,
    },
    WrongVersion {
        given: String,
        wanted: Version,
    },
    /// All that is wrong, with the field paths of the version.
    Malformed(Vec<Problem>),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::NotAnObject => f.write_str("the body must be a JSON object"),
            DecodeError::WrongKind { given, wanted, version } => {
                write!(f, "{given} in version {} cannot be handled as a {wanted}", version.name())
            }
            DecodeError::WrongVersion { given, wanted } => {
                write!(f, "apiVersion {given:?} is not known here: write {}", wanted.name())
            }
            DecodeError::Malformed(problems) => {
                let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
                f.write_str(&problems.join("; "))
            }
        }
    }
}

impl std::error::Error for DecodeError {}

/// One kind in all versions.
struct Row {
    v1: &'static str,
    /// As the flat versions call it.
    flat_kind: &'static str,
    /// As in their URLs.
    flat_plural: &'static str,
    plural: &'static str,
    namespaced: bool,
    /// None: the flat versions do not know it.
    flat: Option<&'static Shape>,
    upright: &'static Shape,
}

impl Row {
    fn kind(&self, version: Version) -> &'static str {
        if version.is_flat() { self.flat_kind } else { self.v1 }
    }

    fn shape(&self, version: Version) -> Option<&'static Shape> {
        if version.is_flat() { self.flat } else { Some(self.upright) }
    }

    /// The path of an object; without a name, the path of the list.
    fn path(&self, version: Version, namespace: Option<&str>, name: Option<&str>) -> String {
        let of_name = name.map(|name| format!("/{name}")).unwrap_or_default();
        let version_name = version.name();
        match (version.is_flat(), namespace) {
            (true, Some(namespace)) => {
                format!("/api/{version_name}/{}{of_name}?namespace={namespace}", self.flat_plural)
            }
            (true, None) => format!("/api/{version_name}/{}{of_name}", self.flat_plural),
            (false, Some(namespace)) => format!("/api/{version_name}/namespaces/{namespace}/{}{of_name}", self.plural),
            (false, None) => format!("/api/{version_name}/{}{of_name}", self.plural),
        }
    }
}

const fn kind(v1: &'static str, plural: &'static str, flat: &'static Shape, upright: &'static Shape) -> Row {
    Row { v1, flat_kind: v1, flat_plural: plural, plural, namespaced: true, flat: Some(flat), upright }
}

/// One whose plural has capitals in the flat versions.
const fn in_capitals(
    v1: &'static str,
    capitals: &'static str,
    plural: &'static str,
    flat: &'static Shape,
    upright: &'static Shape,
) -> Row {
    Row { flat_plural: capitals, ..kind(v1, plural, flat, upright) }
}

const fn of_cluster(row: Row) -> Row {
    Row { namespaced: false, ..row }
}

#[rustfmt::skip]
static ROWS: &[Row] = &[
    kind("Pod", "pods", &pod::POD, &upright::POD),
    in_capitals("ReplicationController", "replicationControllers", "replicationcontrollers",
        &controller::CONTROLLER, &upright::CONTROLLER),
    kind("Service", "services", &service::SERVICE, &upright::SERVICE),
    kind("Endpoints", "endpoints", &endpoints::ENDPOINTS, &upright::ENDPOINTS),
    Row { flat_kind: "Minion", flat_plural: "minions",
        ..of_cluster(kind("Node", "nodes", &minion::MINION, &upright::NODE)) },
    kind("Event", "events", &event::EVENT, &upright::EVENT),
    of_cluster(kind("Namespace", "namespaces", &namespace::NAMESPACE, &upright::NAMESPACE)),
    kind("Binding", "bindings", &binding::BINDING, &upright::BINDING),
    kind("Secret", "secrets", &later::flat::SECRET, &later::upright::SECRET),
    in_capitals("ServiceAccount", "serviceAccounts", "serviceaccounts", &later::flat::ACCOUNT,
        &later::upright::ACCOUNT),
    in_capitals("LimitRange", "limitRanges", "limitranges", &later::flat::LIMIT_RANGE, &later::upright::LIMIT_RANGE),
    in_capitals("ResourceQuota", "resourceQuotas", "resourcequotas", &later::flat::QUOTA, &later::upright::QUOTA),
    of_cluster(in_capitals("PersistentVolume", "persistentVolumes", "persistentvolumes", &later::flat::VOLUME,
        &later::upright::VOLUME)),
    in_capitals("PersistentVolumeClaim", "persistentVolumeClaims", "persistentvolumeclaims", &later::flat::CLAIM,
        &later::upright::CLAIM),
    of_cluster(in_capitals("ComponentStatus", "componentStatuses", "componentstatuses", &later::flat::COMPONENT,
        &later::upright::COMPONENT)),
    Row { flat: None, ..kind("PodTemplate", "podtemplates", &upright::POD_TEMPLATE, &upright::POD_TEMPLATE) },
];

/// By either name.
fn row(kind: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.v1 == kind || row.flat_kind == kind)
}

/// Reads an older document as the v1 document of `kind` (any version's name of it). Missing `kind` and `apiVersion` are
/// fine.
pub fn decode(version: Version, kind: &str, body: &Value) -> Result<Decoded, DecodeError> {
    let unknown = || DecodeError::WrongKind { given: kind.to_owned(), wanted: "known object", version };
    let row = row(kind).ok_or_else(unknown)?;
    let shape = row.shape(version).ok_or_else(unknown)?;
    let Value::Object(from) = body else { return Err(DecodeError::NotAnObject) };
    if let Some(given) = said(from, "kind").filter(|given| *given != row.flat_kind && *given != row.v1) {
        return Err(DecodeError::WrongKind { given, wanted: row.kind(version), version });
    }
    // The two flat versions read each other's documents.
    let right = |given: &str| Version::named(given).is_some_and(|given| given.is_flat() == version.is_flat());
    if let Some(given) = said(from, "apiVersion").filter(|given| !right(given)) {
        return Err(DecodeError::WrongVersion { given, wanted: version });
    }
    read(version, row, shape, from)
}

/// A text field of the document; a value that is no text is shown as JSON. None: the field is missing or empty.
fn said(from: &Object, field: &str) -> Option<String> {
    match from.get(field)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        other => Some(other.to_string()),
    }
}

fn read(version: Version, row: &Row, shape: &Shape, from: &Object) -> Result<Decoded, DecodeError> {
    let mut seen = OldReading::default();
    let mut object = Object::new();
    object.insert("apiVersion".to_owned(), json!("v1"));
    object.insert("kind".to_owned(), json!(row.v1));
    object.insert("metadata".to_owned(), json!({}));
    shape.read(from, &mut object, &Path::root(), &mut seen);
    if !seen.problems.is_empty() {
        return Err(DecodeError::Malformed(seen.problems));
    }
    Ok(Decoded { object: Value::Object(object), unknown: seen.unknown, version, first_port_only: seen.first_port_only })
}

/// A field of the v1 document in an older version's words: `spec.containers[0].name` of a pod is
/// `desiredState.manifest.containers[0].name`. What the version has no word for keeps its v1 path.
pub fn field_path(version: Version, kind: &str, v1_path: &str) -> String {
    let shape = row(kind).and_then(|row| row.shape(version));
    // What v1 says twice the older versions say once.
    let path = if kind == "Service" && v1_path == "spec.clusterIPs[0]" { "spec.clusterIP" } else { v1_path };
    shape.map_or_else(|| v1_path.to_owned(), |shape| words::old_path(shape, path))
}

/// The problems that v1's validation finds, worded for a client of an older version.
pub fn reworded(version: Version, kind: &str, problems: Vec<Problem>) -> Vec<Problem> {
    let reword =
        |problem: Problem| Problem { path: Path::new(&field_path(version, kind, problem.path.as_str())), ..problem };
    problems.into_iter().map(reword).collect()
}

/// Shows a v1 object, list or Status in an older version. What the version has no kind for is shown as it is.
pub fn encode(version: Version, v1: &Value) -> Value {
    let kind = v1.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind == "Status" {
        return encode_status(version, v1);
    }
    if let Some((row, shape)) = kind.strip_suffix("List").and_then(row).and_then(|row| Some((row, row.shape(version)?)))
    {
        return encode_list(version, row, shape, v1);
    }
    match (row(kind).and_then(|row| Some((row, row.shape(version)?))), v1) {
        (Some((row, shape)), Value::Object(v1)) => {
            let mut shown = encode_item(version, row, shape, v1);
            shown.insert("kind".to_owned(), json!(row.kind(version)));
            shown.insert("apiVersion".to_owned(), json!(version.name()));
            Value::Object(shown)
        }
        _ => v1.clone(),
    }
}

fn encode_item(version: Version, row: &Row, shape: &Shape, v1: &Object) -> Object {
    let mut shown = shape.show(v1);
    if version != Version::V1beta1 {
        shape.drop_twins(&mut shown);
    }
    if let Some(name) = get_text(v1, &["metadata", "name"]).filter(|_| row.v1 != "Binding") {
        let namespace = get_text(v1, &["metadata", "namespace"]).filter(|_| row.namespaced);
        let link = row.path(version, namespace, Some(name));
        let at: &[&str] = if version.is_flat() { &["selfLink"] } else { &["metadata", "selfLink"] };
        put(&mut shown, at, json!(link));
    }
    shown
}

/// Items of a flat list carry neither kind nor version; v1beta1 has minions under both names of their list.
fn encode_list(version: Version, row: &Row, shape: &Shape, v1: &Value) -> Value {
    let items = v1.get("items").and_then(Value::as_array).into_iter().flatten();
    let items: Value =
        items.filter_map(Value::as_object).map(|item| Value::Object(encode_item(version, row, shape, item))).collect();
    let revision = v1.get("metadata").and_then(|meta| meta.get("resourceVersion")?.as_str());
    let mut list = Object::new();
    list.insert("kind".to_owned(), json!(format!("{}List", row.kind(version))));
    list.insert("apiVersion".to_owned(), json!(version.name()));
    let link = json!(row.path(version, None, None));
    if version.is_flat() {
        list.insert("creationTimestamp".to_owned(), Value::Null);
        list.insert("selfLink".to_owned(), link);
        let revision = revision.and_then(|revision| revision.parse::<u64>().ok());
        list.extend(revision.map(|revision| ("resourceVersion".to_owned(), json!(revision))));
    } else {
        put(&mut list, &["metadata", "selfLink"], link);
        if let Some(revision) = revision {
            put(&mut list, &["metadata", "resourceVersion"], json!(revision));
        }
    }
    if version == Version::V1beta1 && row.v1 == "Node" {
        list.insert("minions".to_owned(), items.clone());
    }
    list.insert("items".to_owned(), items);
    Value::Object(list)
}

/// The path of an object in an older version. None: the version has no such kind.
pub fn path(version: Version, kind: &str, namespace: Option<&str>, name: &str) -> Option<String> {
    let row = row(kind)?;
    row.shape(version)?;
    Some(row.path(version, namespace.filter(|_| row.namespaced), Some(name)))
}

/// Which half of an object a PUT is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    Asked,
    Observed,
}

/// The outcome of a PUT through an older version: all that the version can express is as the client says, the rest as
/// stored. What clients only observe (`currentState`) stays, and so does what the server gave (uid, addresses) where
/// the client is silent. `resourceVersion` is the client's: absent means unconditional.
pub fn merge_put(stored: &Value, new: &Decoded, half: Half) -> Value {
    let (Value::Object(stored_object), Value::Object(new_object)) = (stored, &new.object) else {
        return new.object.clone();
    };
    let shape = get_text(stored_object, &["kind"]).and_then(row).and_then(|row| row.shape(new.version));
    let Some(shape) = shape else { return new.object.clone() };
    let mut new_object = new_object.clone();
    if new.first_port_only {
        service::complete_ports(stored_object, &mut new_object);
    }
    let mut merged = stored_object.clone();
    if half == Half::Observed {
        merge::merge_observed(shape, &mut merged, &new_object);
        copy_revision(&mut merged, &new_object);
        return Value::Object(merged);
    }
    merge::merge(shape, &mut merged, &new_object);
    // The token names the create that made the object; clients before annotations do not send it back.
    let token_at = ["metadata", "annotations", CREATION_TOKEN];
    if let (Some(token), None) = (get(stored_object, &token_at), get(&merged, &token_at)) {
        put(&mut merged, &token_at, token.clone());
    }
    Value::Object(merged)
}

fn copy_revision(into: &mut Object, from: &Object) {
    match get(from, &["metadata", "resourceVersion"]) {
        Some(revision) => put(into, &["metadata", "resourceVersion"], revision.clone()),
        None => take(into, &["metadata", "resourceVersion"]),
    }
}

#[cfg(test)]
mod tests;

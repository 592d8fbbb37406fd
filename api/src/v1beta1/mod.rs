//! v1beta1, the API of 2014 and 2015, at the edge: documents are decoded to v1 on the way in and encoded on the way
//! out, and nothing else knows it.
//!
//! `shape.rs` is the language in which the files of the kinds say what v1beta1 can express and where it stands in v1;
//! the same tables read, show, and merge a PUT. `manifest.rs` reads the manifest files of the agent.

mod amount;
mod binding;
mod common;
mod container;
mod controller;
mod endpoints;
mod event;
mod manifest;
mod merge;
mod minion;
mod namespace;
mod place;
mod pod;
mod scalar;
mod service;
mod shape;
mod status;
mod volume;
mod words;

use std::fmt;

use coracle_schema::{Path, Problem};
use serde_json::{Value, json};

use crate::strategy::CREATION_TOKEN;

pub use manifest::{FileRefused, Format, FromFile, decode_any};
pub use status::{encode_deleted, encode_status};

use place::{get, get_text, put};
use shape::{Object, Reading, Shape};

/// A v1beta1 document as v1.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The v1 document: `apiVersion`, `kind`, `metadata` and what was said.
    pub object: Value,
    /// Fields that v1beta1 does not have, dropped; worth a warning.
    pub unknown: Vec<Path>,
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
    },
    WrongVersion {
        given: String,
    },
    /// All that is wrong, with the field paths of v1beta1.
    Malformed(Vec<Problem>),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::NotAnObject => f.write_str("the body must be a JSON object"),
            DecodeError::WrongKind { given, wanted } => write!(f, "{given} in version v1beta1 cannot be handled as a {wanted}"),
            DecodeError::WrongVersion { given } => write!(f, "apiVersion {given:?} is not known here: write v1beta1"),
            DecodeError::Malformed(problems) => {
                let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
                f.write_str(&problems.join("; "))
            }
        }
    }
}

impl std::error::Error for DecodeError {}

/// One kind in both versions.
struct Row {
    v1: &'static str,
    v1beta1: &'static str,
    /// As in URLs; empty for what has none.
    plural: &'static str,
    namespaced: bool,
    shape: &'static Shape,
}

#[rustfmt::skip]
static ROWS: &[Row] = &[
    Row { v1: "Pod", v1beta1: "Pod", plural: "pods", namespaced: true, shape: &pod::POD },
    Row { v1: "ReplicationController", v1beta1: "ReplicationController", plural: "replicationControllers", namespaced: true, shape: &controller::CONTROLLER },
    Row { v1: "Service", v1beta1: "Service", plural: "services", namespaced: true, shape: &service::SERVICE },
    Row { v1: "Endpoints", v1beta1: "Endpoints", plural: "endpoints", namespaced: true, shape: &endpoints::ENDPOINTS },
    Row { v1: "Node", v1beta1: "Minion", plural: "minions", namespaced: false, shape: &minion::MINION },
    Row { v1: "Event", v1beta1: "Event", plural: "events", namespaced: true, shape: &event::EVENT },
    Row { v1: "Namespace", v1beta1: "Namespace", plural: "namespaces", namespaced: false, shape: &namespace::NAMESPACE },
    Row { v1: "Binding", v1beta1: "Binding", plural: "bindings", namespaced: true, shape: &binding::BINDING },
];

/// By either name.
fn row(kind: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.v1 == kind || row.v1beta1 == kind)
}

/// Reads a v1beta1 document as the v1 document of `kind` (either version's name of it). Missing `kind` and
/// `apiVersion` are fine.
pub fn decode(kind: &str, body: &Value) -> Result<Decoded, DecodeError> {
    let row = row(kind).ok_or(DecodeError::WrongKind { given: kind.to_owned(), wanted: "v1beta1 object" })?;
    let Value::Object(from) = body else { return Err(DecodeError::NotAnObject) };
    if let Some(given) = said(from, "kind").filter(|given| *given != row.v1beta1 && *given != row.v1) {
        return Err(DecodeError::WrongKind { given, wanted: row.v1beta1 });
    }
    if let Some(given) = said(from, "apiVersion").filter(|given| !["v1beta1", "v1beta2"].contains(&given.as_str())) {
        return Err(DecodeError::WrongVersion { given });
    }
    read(row, row.shape, from)
}

/// A word of the document about itself; what is no text is shown as the JSON that it is. None: nothing, or nothing in it.
fn said(from: &Object, field: &str) -> Option<String> {
    match from.get(field)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        other => Some(other.to_string()),
    }
}

fn read(row: &Row, shape: &Shape, from: &Object) -> Result<Decoded, DecodeError> {
    let mut seen = Reading::default();
    let mut object = Object::new();
    object.insert("apiVersion".to_owned(), json!("v1"));
    object.insert("kind".to_owned(), json!(row.v1));
    object.insert("metadata".to_owned(), json!({}));
    shape.read(from, &mut object, &Path::root(), &mut seen);
    if !seen.problems.is_empty() {
        return Err(DecodeError::Malformed(seen.problems));
    }
    Ok(Decoded { object: Value::Object(object), unknown: seen.unknown, first_port_only: seen.first_port_only })
}

/// A field of the v1 document in v1beta1's words: `spec.containers[0].name` of a pod is
/// `desiredState.manifest.containers[0].name`. What v1beta1 has no word for keeps its v1 path.
pub fn field_path(kind: &str, v1_path: &str) -> String {
    row(kind).map_or_else(|| v1_path.to_owned(), |row| words::old_path(row.shape, v1_path))
}

/// What v1's validation finds in an object, told to a client of v1beta1.
pub fn told(kind: &str, problems: Vec<Problem>) -> Vec<Problem> {
    let told = |problem: Problem| Problem { path: Path::new(&field_path(kind, problem.path.as_str())), ..problem };
    problems.into_iter().map(told).collect()
}

/// Shows a v1 object, list or Status as v1beta1. What v1beta1 has no kind for is shown as it is.
pub fn encode(v1: &Value) -> Value {
    let kind = v1.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind == "Status" {
        return encode_status(v1);
    }
    if let Some(row) = kind.strip_suffix("List").and_then(row) {
        return encode_list(row, v1);
    }
    match (row(kind), v1) {
        (Some(row), Value::Object(v1)) => {
            let mut shown = encode_item(row, v1);
            shown.insert("kind".to_owned(), json!(row.v1beta1));
            shown.insert("apiVersion".to_owned(), json!("v1beta1"));
            Value::Object(shown)
        }
        _ => v1.clone(),
    }
}

fn encode_item(row: &Row, v1: &Object) -> Object {
    let mut shown = row.shape.show(v1);
    if let Some(name) = get_text(v1, &["metadata", "name"]).filter(|_| row.v1 != "Binding") {
        let namespace = get_text(v1, &["metadata", "namespace"]).filter(|_| row.namespaced);
        let query = namespace.map(|namespace| format!("?namespace={namespace}")).unwrap_or_default();
        shown.insert("selfLink".to_owned(), json!(format!("/api/v1beta1/{}/{name}{query}", row.plural)));
    }
    shown
}

/// Items carry neither kind nor version; minions come under both names of their list.
fn encode_list(row: &Row, v1: &Value) -> Value {
    let items = v1.get("items").and_then(Value::as_array).into_iter().flatten();
    let items: Value = items.filter_map(Value::as_object).map(|item| Value::Object(encode_item(row, item))).collect();
    let mut list = Object::new();
    list.insert("kind".to_owned(), json!(format!("{}List", row.v1beta1)));
    list.insert("apiVersion".to_owned(), json!("v1beta1"));
    list.insert("creationTimestamp".to_owned(), Value::Null);
    list.insert("selfLink".to_owned(), json!(format!("/api/v1beta1/{}", row.plural)));
    let revision = v1.get("metadata").and_then(|meta| meta.get("resourceVersion")?.as_str()?.parse::<u64>().ok());
    list.extend(revision.map(|revision| ("resourceVersion".to_owned(), json!(revision))));
    if row.v1beta1 == "Minion" {
        list.insert("minions".to_owned(), items.clone());
    }
    list.insert("items".to_owned(), items);
    Value::Object(list)
}

/// What a PUT through v1beta1 leaves: all that v1beta1 can express is as the client says, the rest as stored.
/// What clients only observe (`currentState`) stays, and so does what the server gave (uid, addresses) where the
/// client is silent. `resourceVersion` is the client's: absent means unconditional.
pub fn merge_put(stored: &Value, new: &Decoded) -> Value {
    let (Value::Object(stored_object), Value::Object(new_object)) = (stored, &new.object) else { return new.object.clone() };
    let Some(row) = get_text(stored_object, &["kind"]).and_then(row) else { return new.object.clone() };
    let mut new_object = new_object.clone();
    if new.first_port_only {
        service::complete_ports(stored_object, &mut new_object);
    }
    let mut merged = stored_object.clone();
    merge::merge(row.shape, &mut merged, &new_object);
    // The token names the create that made the object; clients before annotations do not send it back.
    let token_at = ["metadata", "annotations", CREATION_TOKEN];
    if let (Some(token), None) = (get(stored_object, &token_at), get(&merged, &token_at)) {
        put(&mut merged, &token_at, token.clone());
    }
    Value::Object(merged)
}

#[cfg(test)]
mod tests;

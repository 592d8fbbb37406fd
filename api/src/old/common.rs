//! Conversions that all kinds share: metadata, which is flat in v1beta1, and references to objects.

use coracle_schema::{Path, Problem};
use serde_json::{Value, json};

use super::place::{get, get_text, put};
use super::scalar::text;
use crate::strategy::CREATION_TOKEN;

use super::reading::{Object, OldReading};
use super::shape::{Blank, Field, Form, Own, Shape, field, ignored, own};

/// `id`, `uid`, ... of every kind. `kind`, `apiVersion` and `selfLink` are written by `encode`.
pub(super) const META: &[Field] = &[
    ignored("kind").also(&["apiVersion", "selfLink"]),
    field("id", &["metadata", "name"], Form::Text).given(),
    field("uid", &["metadata", "uid"], Form::Text).given(),
    field("namespace", &["metadata", "namespace"], Form::Text).given(),
    field("generateName", &["metadata", "generateName"], Form::Text).given(),
    field("creationTimestamp", &["metadata", "creationTimestamp"], Form::Text).given().blank(Blank::Null),
    field("deletionTimestamp", &["metadata", "deletionTimestamp"], Form::Text).given(),
    field("resourceVersion", &["metadata", "resourceVersion"], Form::Revision),
    field("annotations", &["metadata", "annotations"], Form::TextMap),
    own("creationToken", &[], &TOKEN),
];

pub(super) const LABELS: &[Field] = &[field("labels", &["metadata", "labels"], Form::TextMap)];

static TOKEN: Own = Own { read: read_token, show: show_token, governs: &[], words: &[], merge: None };

const TOKEN_AT: &[&str] = &["metadata", "annotations", CREATION_TOKEN];

fn read_token(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    let Some(value) = from.get("creationToken").filter(|value| !value.is_null()) else { return };
    let path = path.field("creationToken");
    let Some(token) = text(value, &path, seen).filter(|token| !token.is_empty()) else { return };
    if get_text(into, TOKEN_AT).is_some_and(|annotated| annotated != token) {
        return seen.problem(Problem::invalid(
            &path,
            token,
            format!("differs from annotations[{CREATION_TOKEN}]: give one"),
        ));
    }
    put(into, TOKEN_AT, json!(token));
}

fn show_token(v1: &Object, out: &mut Object) {
    if let Some(token) = get_text(v1, TOKEN_AT) {
        out.insert("creationToken".to_owned(), json!(token));
    }
}

pub(super) static REFERENCE: Shape = Shape(&[&[
    field("kind", &["kind"], Form::Text),
    field("namespace", &["namespace"], Form::Text),
    field("name", &["name"], Form::Text),
    field("uid", &["uid"], Form::Text),
    field("apiVersion", &["apiVersion"], Form::Text),
    field("resourceVersion", &["resourceVersion"], Form::Text),
    field("fieldPath", &["fieldPath"], Form::Text),
]]);

/// The conditions of pods and nodes call True `Full` and False `None`.
pub(super) const CONDITION_WORDS: &[(&str, &str)] = &[("Full", "True"), ("None", "False"), ("Unknown", "Unknown")];

pub(super) fn name_of(v1: &Object) -> Option<Value> {
    get(v1, &["metadata", "name"]).cloned()
}

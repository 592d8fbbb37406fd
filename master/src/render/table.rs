//! Tables: the columns of a kind and a row an object. What stands in the cells is decided in `coracle_api::table`.
//! PURE.
//!
//! Rows are written as JSON at once: of the object only what cells are made of is looked at, and its metadata is copied
//! as it stands.

use super::{ListMeta, put_partial, text};
use crate::form::{Include, MetaVersion};
use crate::store::Stored;
use coracle_api::kinds::Kind;
use coracle_api::meta::{Revision, Time};
use coracle_api::table::{self, Document};
use serde::Serialize;
use serde_json::{Value, json};

/// An object twice: as it is stored, of which the cells are made, and as it is shown.
pub struct Row<'a> {
    stored: Document<'a>,
    text: &'a str,
    /// None: as it is stored.
    shown: Option<Value>,
}

impl<'a> Row<'a> {
    pub fn of(kind: &Kind, stored: &'a Stored) -> Row<'a> {
        Row { shown: kind.alias.map(|_| super::said(kind, stored)), ..Row::same(text(stored)) }
    }

    /// The row of a JSON document.
    pub fn same(text: &'a str) -> Row<'a> {
        Row { stored: Document::read(text).expect("what is stored is JSON"), text, shown: None }
    }

    fn revision(&self) -> Revision {
        let said = self.stored.reading["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        Revision(said.parse().unwrap_or_default())
    }
}

/// The columns of a kind.
pub fn columns(api_version: &str, kind: &str) -> Value {
    table::columns(api_version, kind).into()
}

/// A table of one object, at the object's revision, as JSON.
pub fn of(version: MetaVersion, include: Include, columns: Value, entry: &Row<'_>, now: Time) -> Vec<u8> {
    let meta = list_meta(&ListMeta::at(entry.revision()));
    let head =
        json!({"kind": "Table", "apiVersion": version.api_version(), "metadata": meta, "columnDefinitions": columns});
    let mut out = head.to_string().into_bytes();
    out.pop();
    out.extend_from_slice(b",\"rows\":[");
    put_row(&mut out, version, include, entry, now);
    out.extend_from_slice(b"]}");
    out
}

/// One row, as JSON.
pub fn put_row(out: &mut Vec<u8>, version: MetaVersion, include: Include, entry: &Row<'_>, now: Time) {
    let Document { reading, metadata } = &entry.stored;
    out.extend_from_slice(b"{\"cells\":");
    put(out, &table::row(reading, now));
    if let Some(conditions) = table::conditions(reading) {
        out.extend_from_slice(b",\"conditions\":");
        put(out, &conditions);
    }
    out.extend_from_slice(b",\"object\":");
    match (include, &entry.shown) {
        (Include::Nothing, _) => out.extend_from_slice(b"null"),
        (Include::Object, None) => out.extend_from_slice(entry.text.as_bytes()),
        (Include::Object, Some(shown)) => put(out, shown),
        (Include::Metadata, _) => match table::unshown(reading) {
            None => put_partial(out, version, metadata),
            Some(unshown) => put_partial(out, version, &without(metadata, unshown)),
        },
    }
    out.push(b'}');
}

fn put(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(out, value).expect("a Vec takes all, and keys are texts");
}

/// Metadata without an annotation.
fn without(metadata: &str, unshown: &str) -> String {
    let mut meta: Value = serde_json::from_str(metadata).expect("it was read as JSON");
    if let Some(annotations) = meta["annotations"].as_object_mut() {
        annotations.remove(unshown);
        if annotations.is_empty()
            && let Some(meta) = meta.as_object_mut()
        {
            meta.remove("annotations");
        }
    }
    meta.to_string()
}

/// A table of what has no revision says none.
fn list_meta(meta: &ListMeta) -> Value {
    if meta.revision.0 == 0 && meta.continues.is_empty() { json!({}) } else { meta.to_v1() }
}

//! Tables: the columns of a kind and a row an object. What stands in the cells is decided in `coracle_api::table`. PURE.

use super::ListMeta;
use super::form::{Include, Meta};
use crate::store::Stored;
use coracle_api::kinds::Kind;
use coracle_api::meta::Time;
use coracle_api::table;
use serde_json::{Value, json};

/// An object twice: as it is stored, of which the cells are made, and as it is shown.
pub struct Entry {
    pub stored: Value,
    /// None: as it is stored.
    pub shown: Option<Value>,
}

impl Entry {
    pub fn of(kind: &Kind, stored: &Stored) -> Entry {
        Entry { stored: super::parsed(stored), shown: kind.alias.map(|_| super::said(kind, stored)) }
    }

    pub fn same(document: Value) -> Entry {
        Entry { stored: document, shown: None }
    }

    fn shown(&self) -> &Value {
        self.shown.as_ref().unwrap_or(&self.stored)
    }
}

/// The columns of a kind.
pub fn columns(api_version: &str, kind: &str) -> Value {
    table::columns(api_version, kind).into()
}

/// A table of one row.
pub fn of(version: Meta, include: Include, meta: &ListMeta, columns: Value, entry: &Entry, now: Time) -> Value {
    let rows = [row(version, include, entry, now)];
    json!({
        "kind": "Table", "apiVersion": version.api_version(), "metadata": list_meta(meta), "columnDefinitions": columns, "rows": rows,
    })
}

/// One row.
pub fn row(version: Meta, include: Include, entry: &Entry, now: Time) -> Value {
    let object = match include {
        Include::Metadata => without_unshown(&entry.stored, super::metadata(version, &entry.stored)),
        Include::Object => entry.shown().clone(),
        Include::Nothing => Value::Null,
    };
    let mut row = json!({"cells": table::row(&entry.stored, now), "object": object});
    if let Some(conditions) = table::conditions(&entry.stored) {
        row["conditions"] = conditions;
    }
    row
}

fn without_unshown(stored: &Value, mut object: Value) -> Value {
    if let Some(unshown) = table::unshown(stored)
        && let Some(annotations) = object["metadata"]["annotations"].as_object_mut()
    {
        annotations.remove(unshown);
        if annotations.is_empty()
            && let Some(meta) = object["metadata"].as_object_mut()
        {
            meta.remove("annotations");
        }
    }
    object
}

/// A table of what has no revision says none.
fn list_meta(meta: &ListMeta) -> Value {
    if meta.revision.0 == 0 && meta.continues.is_empty() { json!({}) } else { meta.to_v1() }
}

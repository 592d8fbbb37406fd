//! Tables: the columns of a kind and a row an object. What stands in the cells is decided in `coracle_api::table`. PURE.

use super::ListMeta;
use super::form::{Include, Meta, Shape};
use coracle_api::meta::Time;
use serde_json::{Value, json};

/// Of documents of one kind, of which there is one at least.
pub fn of(shape: Shape, meta: &ListMeta, documents: &[&Value], columns: bool, now: Time) -> Value {
    of_kind(shape, documents.first().copied().unwrap_or(&Value::Null), meta, documents, columns, now)
}

/// `like` says the kind where there may be no document.
pub fn of_kind(shape: Shape, like: &Value, meta: &ListMeta, documents: &[&Value], columns: bool, now: Time) -> Value {
    let (version, include) = match shape {
        Shape::Table(version, include) => (version, include),
        Shape::Whole | Shape::Metadata(_) | Shape::MetadataList(_) => (Meta::V1, Include::Metadata),
    };
    let text = |field: &str| like[field].as_str().unwrap_or_default();
    let sheet = coracle_api::table::of(text("apiVersion"), text("kind"));
    let rows: Vec<Value> = documents
        .iter()
        .map(|document| {
            let object = match include {
                Include::Metadata => super::metadata(version, document),
                Include::Object => (*document).clone(),
                Include::Nothing => Value::Null,
            };
            json!({"cells": (sheet.cells)(document, now), "object": object})
        })
        .collect();
    let columns = if columns { sheet.columns.iter().map(coracle_api::table::Column::to_v1).collect() } else { Value::Null };
    json!({
        "kind": "Table", "apiVersion": version.api_version(), "metadata": list_meta(meta), "columnDefinitions": columns, "rows": rows,
    })
}

/// A table of what has no revision says none.
fn list_meta(meta: &ListMeta) -> Value {
    if meta.revision.0 == 0 && meta.continues.is_empty() { json!({}) } else { meta.to_v1() }
}

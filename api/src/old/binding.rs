//! Bindings: which pod, to which host.

use coracle_schema::Path;
use serde_json::json;

use super::common::META;
use super::place::{get_text, put};
use super::reading::{Object, OldReading};
use super::shape::{Blank, Form, Own, Shape, field, own};

pub(super) static BINDING: Shape = Shape(&[
    META,
    &[field("podID", &["metadata", "name"], Form::Text).blank(Blank::Text("")), own("host", &[], &HOST)],
]);

static HOST: Own =
    Own { read, show, governs: &[&["target"]], words: &[field("host", &["target", "name"], Form::Text)], merge: None };

fn read(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    let Some(value) = from.get("host").filter(|value| !value.is_null()) else { return };
    if let Some(host) = Form::Text.read(value, &path.field("host"), seen) {
        put(into, &["target"], json!({"kind": "Node", "name": host}));
    }
}

fn show(v1: &Object, out: &mut Object) {
    out.insert("host".to_owned(), json!(get_text(v1, &["target", "name"]).unwrap_or_default()));
}

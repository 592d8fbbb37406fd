//! Events: the source and its host are two texts, and one `timestamp` stands for the first and the last of v1.

use coracle_schema::Path;
use serde_json::json;

use super::common::{META, REFERENCE};
use super::place::{get, put};
use super::reading::{Object, OldReading};
use super::shape::{Field, Form, Own, Shape, field, ignored, own};

pub(super) static EVENT: Shape = Shape(&[META, EVENT_FIELDS]);

const EVENT_FIELDS: &[Field] = &[
    field("involvedObject", &["involvedObject"], Form::Object(&REFERENCE)),
    field("reason", &["reason"], Form::Text),
    field("message", &["message"], Form::Text),
    field("source", &["source", "component"], Form::Text),
    field("host", &["source", "host"], Form::Text),
    field("firstTimestamp", &["firstTimestamp"], Form::Text),
    field("lastTimestamp", &["lastTimestamp"], Form::Text),
    field("count", &["count"], Form::Number),
    own("timestamp", &[], &TIMESTAMP),
    // The status of the object at that time (v0.4 to v0.18), and the whole event of v0.2.
    ignored("status").also(&["event", "manifest", "container"]),
];

static TIMESTAMP: Own = Own { read, show, governs: &[], words: &[], merge: Some(|_, _| {}) };

fn read(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    let Some(value) = from.get("timestamp").filter(|value| !value.is_null()) else { return };
    // v0.2 had seconds here.
    let Some(time) = value.as_str() else { return seen.unknown(path.field("timestamp")) };
    let set = |at: &[&str], value, into: &mut Object| {
        if get(into, at).is_none() {
            put(into, at, value);
        }
    };
    if !time.is_empty() {
        set(&["firstTimestamp"], json!(time), into);
        set(&["lastTimestamp"], json!(time), into);
        set(&["count"], json!(1), into);
    }
}

fn show(v1: &Object, out: &mut Object) {
    if let Some(time) = get(v1, &["firstTimestamp"]).or_else(|| get(v1, &["eventTime"])) {
        out.insert("timestamp".to_owned(), time.clone());
    }
}

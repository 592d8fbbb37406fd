//! Renders answers: v1 as it is stored, as metadata or as a table, in JSON, YAML or protobuf; older versions encoded.
//! PURE.
//!
//!     Stored -> shape (the object, its metadata, rows of a table) -> media (bytes)
//!
//! `form` chooses shape and media from the Accept header. A plain JSON answer is the stored bytes, spliced and unread;
//! any other answer is made from a parsed document. `now` is for the ages in tables.

pub mod discovery;
pub mod gnostic;
pub mod gzip;
mod list;
pub mod openapi;
#[cfg(test)]
mod round_trip;
mod table;

pub use list::list;

use crate::form::{Form, Media, MetaVersion, Shape, Version};
use crate::store::Stored;
use bytes::Bytes;
use coracle_api::kinds::Kind;
use coracle_api::meta::{Revision, Time};
use coracle_api::old;
use coracle_api::status::Status;
use coracle_api::types::MACHINERY;
use coracle_api::watch::Change;
use coracle_schema::{Types, protobuf, yaml};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use table::Row;

/// The metadata of a list.
#[derive(Clone, Debug, Default)]
pub struct ListMeta {
    pub revision: Revision,
    /// Where the next page begins; empty on the last.
    pub continues: String,
    /// Objects behind this page, where that is known.
    pub remaining: Option<u64>,
}

impl ListMeta {
    pub fn at(revision: Revision) -> ListMeta {
        ListMeta { revision, ..ListMeta::default() }
    }

    fn to_v1(&self) -> Value {
        let mut meta = json!({"resourceVersion": self.revision.to_string()});
        if !self.continues.is_empty() {
            meta["continue"] = self.continues.as_str().into();
        }
        if let Some(remaining) = self.remaining {
            meta["remainingItemCount"] = remaining.into();
        }
        meta
    }
}

/// One object.
pub fn object(form: Form, kind: &Kind, stored: &Stored, now: Time) -> Bytes {
    match (form.version, form.media, form.shape) {
        (Version::Old(version), ..) => old::encode(version, &parsed(stored)).to_string().into(),
        (Version::V1, Media::Json, Shape::Whole) if kind.alias.is_none() => stored.json.clone(),
        (Version::V1, media, Shape::Table(version, include)) => {
            rewritten(media, TABLE, table::of(version, include, columns(kind), &Row::of(kind, stored), now))
        }
        (Version::V1, media, Shape::Metadata(version) | Shape::MetadataList(version)) => {
            metadata(media, version, text(stored))
        }
        (Version::V1, _, Shape::Whole) => document(form, Message::of(kind), &said(kind, stored), now),
    }
}

/// One v1 document without a stored object: a scale, a review.
pub fn document(form: Form, message: Message<'_>, document: &Value, now: Time) -> Bytes {
    match form.shape {
        Shape::Whole => written(form.media, message, document),
        Shape::Metadata(version) | Shape::MetadataList(version) => metadata(form.media, version, &document.to_string()),
        Shape::Table(version, include) => {
            let said = |field: &str| document[field].as_str().unwrap_or_default();
            let columns = table::columns(said("apiVersion"), said("kind"));
            rewritten(form.media, TABLE, table::of(version, include, columns, &Row::same(&document.to_string()), now))
        }
    }
}

/// One event of a watch. A deletion shows the last state that the watcher could see, at the revision of the deletion.
/// The `first` of a table brings the columns.
pub fn event(
    form: Form,
    kind: &Kind,
    change: Change,
    stored: &Stored,
    revision: Revision,
    first: bool,
    now: Time,
) -> Vec<u8> {
    let stale = change == Change::Deleted && stored.revision != revision;
    let late;
    let stored = if stale {
        late = stored.at(revision);
        &late
    } else {
        stored
    };
    let shown = match form.shape {
        Shape::Table(version, include) => {
            let columns = if first { columns(kind) } else { Value::Null };
            rewritten(form.media, TABLE, table::of(version, include, columns, &Row::of(kind, stored), now))
        }
        _ => object(form, kind, stored, now),
    };
    framed(form.media, change.wire(), &shown)
}

/// Up to which revision a watcher has seen everything. `annotations` say more of it.
pub fn bookmark(form: Form, kind: &Kind, revision: Revision, annotations: &[(&str, &str)], now: Time) -> Vec<u8> {
    let mut object = json!({
        "kind": kind.kind, "apiVersion": kind.api_version(), "metadata": {"resourceVersion": revision.to_string()},
    });
    if !annotations.is_empty() {
        let annotations: Map<String, Value> =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
        object["metadata"]["annotations"] = annotations.into();
    }
    let shown = match (form.version, form.shape) {
        (Version::Old(version), _) => old::encode(version, &object).to_string().into(),
        (Version::V1, Shape::Table(version, include)) => {
            rewritten(form.media, TABLE, table::of(version, include, Value::Null, &Row::same(&object.to_string()), now))
        }
        (Version::V1, _) => document(form, Message::of(kind), &object, now),
    };
    framed(form.media, "BOOKMARK", &shown)
}

pub fn error_event(form: Form, status: &Status) -> Vec<u8> {
    framed(form.media, "ERROR", &self::status(form, status))
}

/// The columns of a kind; an alias has the columns of the aliased kind.
fn columns(kind: &Kind) -> Value {
    match kind.alias {
        Some(alias) => table::columns(alias.of.0, alias.of.1),
        None => table::columns(&kind.api_version(), &kind.kind),
    }
}

/// One event as it stands on the wire: a line of JSON, or a WatchEvent behind its length.
fn framed(media: Media, change: &str, object: &[u8]) -> Vec<u8> {
    match media {
        Media::Protobuf => {
            let (mut raw, mut event) = (Vec::with_capacity(object.len() + 8), Vec::with_capacity(object.len() + 32));
            protobuf::put_bytes(&mut raw, 1, object);
            protobuf::put_bytes(&mut event, 1, change.as_bytes());
            protobuf::put_bytes(&mut event, 2, &raw);
            let length = u32::try_from(event.len()).expect("no object has four gigabytes");
            [&length.to_be_bytes()[..], &event].concat()
        }
        Media::Json | Media::Yaml => {
            let mut line = Vec::with_capacity(object.len() + 40);
            line.extend_from_slice(format!(r#"{{"type":"{change}","object":"#).as_bytes());
            line.extend_from_slice(object);
            line.extend_from_slice(b"}\n");
            line
        }
    }
}

pub fn status(form: Form, status: &Status) -> Bytes {
    match form.version {
        Version::V1 => written(form.media, Message::Machinery("Status"), &status.to_v1()),
        Version::Old(version) => old::encode_status(version, &status.to_v1()).to_string().into(),
    }
}

/// The answer of a deletion that has no object to show. The documents of June 2014 promise `success`.
pub fn deleted(form: Form, status: &Status) -> Bytes {
    match form.version {
        Version::V1 => written(form.media, Message::Machinery("Status"), &status.to_v1()),
        Version::Old(version) => old::encode_deleted(version, &status.to_v1()).to_string().into(),
    }
}

/// PartialObjectMetadata of a document as JSON.
fn metadata(media: Media, version: MetaVersion, document: &str) -> Bytes {
    let mut out = Vec::new();
    put_metadata(&mut out, version, document);
    rewritten(media, Message::Metadata, out)
}

fn put_metadata(out: &mut Vec<u8>, version: MetaVersion, document: &str) {
    #[derive(Deserialize)]
    struct Front<'a> {
        #[serde(borrow)]
        metadata: Option<&'a RawValue>,
    }
    let front: Front = serde_json::from_str(document).expect("what is stored is JSON");
    put_partial(out, version, front.metadata.map_or("null", RawValue::get));
}

/// PartialObjectMetadata, of metadata as JSON.
fn put_partial(out: &mut Vec<u8>, version: MetaVersion, metadata: &str) {
    out.extend_from_slice(br#"{"apiVersion":""#);
    out.extend_from_slice(version.api_version().as_bytes());
    out.extend_from_slice(br#"","kind":"PartialObjectMetadata","metadata":"#);
    out.extend_from_slice(metadata.as_bytes());
    out.push(b'}');
}

/// The type of a document, for its form in protobuf.
pub enum Message<'a> {
    /// The type of this name among these.
    Object(&'a Types, &'a str),
    /// A type that belongs to no kind.
    Machinery(&'a str),
    /// PartialObjectMetadata.
    Metadata,
}

/// Tables have no protobuf form; nobody is promised one.
const TABLE: Message<'static> = Message::Machinery("Table");

fn written(media: Media, message: Message<'_>, document: &Value) -> Bytes {
    match media {
        Media::Json => document.to_string().into(),
        Media::Yaml => yaml::write(document).into(),
        Media::Protobuf => {
            let text = |field: &str| document[field].as_str().unwrap_or_default();
            protobuf::seal(text("apiVersion"), text("kind"), |out| message.put(document, out)).into()
        }
    }
}

/// The rendered JSON.
fn rewritten(media: Media, message: Message<'_>, json: Vec<u8>) -> Bytes {
    match media {
        Media::Json => json.into(),
        _ => written(media, message, &serde_json::from_slice(&json).expect("it was written as JSON")),
    }
}

impl<'a> Message<'a> {
    pub fn of(kind: &'a Kind) -> Message<'a> {
        Message::Object(&kind.types, &kind.type_name)
    }

    fn put(&self, document: &Value, out: &mut Vec<u8>) {
        match self {
            Message::Object(types, type_name) => protobuf::put(types, type_name, document, out),
            Message::Machinery(type_name) => protobuf::put(&MACHINERY, type_name, document, out),
            Message::Metadata => {
                let metadata = |out: &mut Vec<u8>| Message::Machinery("ObjectMeta").put(&document["metadata"], out);
                protobuf::put_message(out, 1, metadata);
            }
        }
    }
}

/// As an item of a list: its kind is known.
fn bare(mut document: Value) -> Value {
    if let Value::Object(fields) = &mut document {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    document
}

/// An object in the form of its kind: an alias shows the object in a different form.
fn said(kind: &Kind, stored: &Stored) -> Value {
    let mut object = parsed(stored);
    if let Some(alias) = kind.alias {
        (alias.show)(&mut object);
    }
    object
}

fn text(stored: &Stored) -> &str {
    std::str::from_utf8(&stored.json).expect("what is stored is JSON")
}

/// Stored documents are JSON: the store has read or written each.
fn parsed(stored: &Stored) -> Value {
    serde_json::from_slice(&stored.json).expect("what is stored is JSON")
}

//! Lists, and pages of them: what a list says of itself, and each object in the form that was asked for. PURE.
//!
//! Objects are rendered one by one, so that a long list costs little more than its bytes. Plain JSON is spliced of the
//! stored bytes, unread, and a long one only while it is sent.

use super::table::{self, Row};
use super::{ListMeta, Message, bare, columns, parsed, put_metadata, said, text};
use crate::form::{Form, Media, Shape, Version};
use crate::store::Stored;
use bytes::Bytes;
use coracle_api::kinds::Kind;
use coracle_api::meta::Time;
use coracle_api::old;
use coracle_http::{Body, Long};
use coracle_schema::{protobuf, yaml};
use serde_json::{Value, json};

/// The smallest list that is put together while it is sent. What is larger the allocator takes from the kernel, page by
/// page, and gives back: that costs three times the copying.
const LONG_BYTES_MIN: usize = 128 << 10;
/// Of one piece of it: few writes, and little that waits.
const PIECE_BYTES: usize = 32 << 10;

/// A list, or a page of one.
pub fn list(form: Form, kind: &Kind, meta: &ListMeta, items: Vec<Stored>, now: Time) -> Body {
    if let Version::Old(version) = form.version {
        let items: Vec<Value> = items.iter().map(parsed).collect();
        let list = json!({"kind": kind.list_kind(), "apiVersion": "v1", "metadata": meta.to_v1(), "items": items});
        return Body::Whole(old::encode(version, &list).to_string().into());
    }
    let value = |stored| item(form.shape, kind, stored, now);
    Body::Whole(match (form.media, form.shape) {
        (Media::Json, Shape::Whole) if kind.alias.is_none() => return spliced(kind, meta, items),
        (Media::Json, shape) => joined(kind, meta, shape, &items, now),
        (Media::Yaml, shape) => {
            yaml::write_list(&head(shape, kind, meta), field(shape), items.iter().map(value)).into()
        }
        (Media::Protobuf, shape) => {
            let message = match shape {
                // Nobody is promised a table in protobuf.
                Shape::Whole | Shape::Table(..) => Message::of(kind),
                Shape::Metadata(_) | Shape::MetadataList(_) => Message::Metadata,
            };
            sealed(&head(shape, kind, meta), &message, items.iter().map(value))
        }
    })
}

fn field(shape: Shape) -> &'static str {
    if matches!(shape, Shape::Table(..)) { "rows" } else { "items" }
}

/// All of a list but its entries.
fn head(shape: Shape, kind: &Kind, meta: &ListMeta) -> Value {
    let meta = meta.to_v1();
    match shape {
        Shape::Whole => json!({"kind": kind.list_kind(), "apiVersion": kind.api_version(), "metadata": meta}),
        Shape::Metadata(version) | Shape::MetadataList(version) => {
            json!({"kind": "PartialObjectMetadataList", "apiVersion": version.api_version(), "metadata": meta})
        }
        Shape::Table(version, _) => {
            json!({
                "kind": "Table", "apiVersion": version.api_version(), "metadata": meta,
                "columnDefinitions": columns(kind),
            })
        }
    }
}

/// One entry, for what is not written as JSON.
fn item(shape: Shape, kind: &Kind, stored: &Stored, now: Time) -> Value {
    if shape == Shape::Whole {
        return bare(said(kind, stored));
    }
    let mut text = Vec::new();
    put_item(&mut text, shape, kind, stored, now);
    serde_json::from_slice(&text).expect("it was written as JSON")
}

fn put_item(out: &mut Vec<u8>, shape: Shape, kind: &Kind, stored: &Stored, now: Time) {
    match shape {
        Shape::Whole => out.extend_from_slice(bare(said(kind, stored)).to_string().as_bytes()),
        Shape::Metadata(version) | Shape::MetadataList(version) => put_metadata(out, version, text(stored)),
        Shape::Table(version, include) => table::put_row(out, version, include, &Row::of(kind, stored), now),
    }
}

fn joined(kind: &Kind, meta: &ListMeta, shape: Shape, items: &[Stored], now: Time) -> Bytes {
    let mut out = head(shape, kind, meta).to_string().into_bytes();
    out.pop();
    out.extend_from_slice(format!(",\"{}\":[", field(shape)).as_bytes());
    for (at, stored) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        put_item(&mut out, shape, kind, stored, now);
    }
    out.extend_from_slice(b"]}");
    out.into()
}

fn sealed(head: &Value, message: &Message<'_>, items: impl Iterator<Item = Value>) -> Bytes {
    let said = |field: &str| head[field].as_str().unwrap_or_default();
    let list = |out: &mut Vec<u8>| {
        protobuf::put_message(out, 1, |out| Message::Machinery("ListMeta").put(&head["metadata"], out));
        for item in items {
            protobuf::put_message(out, 2, |out| message.put(&item, out));
        }
    };
    protobuf::seal(said("apiVersion"), said("kind"), list).into()
}

fn spliced(kind: &Kind, meta: &ListMeta, items: Vec<Stored>) -> Body {
    let (api_version, list_kind) = (kind.api_version(), kind.list_kind());
    let head = format!(r#"{{"kind":"{list_kind}","apiVersion":"{api_version}","metadata":{},"items":["#, meta.to_v1());
    let prefix = format!(r#"{{"apiVersion":"{api_version}","kind":"{}","#, kind.kind);
    let of_items: usize =
        items.iter().map(|stored| entry(&prefix, stored).map_or(stored.json.len(), |rest| rest.len() + 1)).sum();
    let bytes = head.len() + of_items + items.len().saturating_sub(1) + END.len();
    let pieces =
        Box::new(Spliced { head: head.into_bytes(), prefix, items: items.into_iter(), begun: false, ended: false });
    let long = Long { bytes, pieces };
    if bytes < LONG_BYTES_MIN { Body::Whole(long.whole()) } else { Body::Long(long) }
}

/// The end of a list.
const END: &[u8] = b"]}";

/// Items of a list carry neither version nor kind; every stored object begins with both.
fn entry<'s>(prefix: &str, stored: &'s Stored) -> Option<&'s [u8]> {
    stored.json.strip_prefix(prefix.as_bytes())
}

/// A list of objects as they are stored, piece by piece.
struct Spliced {
    head: Vec<u8>,
    prefix: String,
    items: std::vec::IntoIter<Stored>,
    /// Whether an object was written.
    begun: bool,
    ended: bool,
}

impl Iterator for Spliced {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        let mut piece = std::mem::take(&mut self.head);
        piece.reserve(PIECE_BYTES);
        while piece.len() < PIECE_BYTES {
            let Some(stored) = self.items.next() else {
                piece.extend_from_slice(END);
                self.ended = true;
                break;
            };
            if std::mem::replace(&mut self.begun, true) {
                piece.push(b',');
            }
            match entry(&self.prefix, &stored) {
                Some(rest) => {
                    piece.push(b'{');
                    piece.extend_from_slice(rest);
                }
                None => piece.extend_from_slice(&stored.json),
            }
        }
        Some(piece.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::{Include, MetaVersion};
    use coracle_api::kinds::Kinds;
    use coracle_api::meta::{Key, Revision};
    use std::sync::Arc;

    fn stored(kind: &Kind, name: &str) -> Stored {
        let mut object = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": name}, "data": {"k": name},
        });
        let key = Key { resource: kind.resource.clone(), namespace: "default".to_owned(), name: name.to_owned() };
        Stored::of(Arc::new(key), Revision(5), &mut object)
    }

    fn at_once(form: Form, kind: &Kind, meta: &ListMeta, items: &[Stored], now: Time) -> Bytes {
        match list(form, kind, meta, items.to_vec(), now) {
            Body::Whole(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_long_list_is_made_piece_by_piece() {
        let kinds = Kinds::builtin();
        let kind = kinds.by_kind("v1", "ConfigMap").expect("it is served");
        let names: Vec<String> = (0..3000).map(|n| format!("map-{n:04}")).collect();
        let mut items: Vec<Stored> = names.iter().map(|name| stored(kind, name)).collect();
        items.push(stored(kind, &"x".repeat(3 * PIECE_BYTES)));
        let Body::Long(long) =
            list(Form::default(), kind, &ListMeta::default(), items, Time::from_seconds(0).expect("a time"))
        else {
            panic!("it is long")
        };
        let pieces: Vec<Bytes> = long.pieces.collect();
        assert!(pieces.len() > 5 && pieces.iter().all(|piece| !piece.is_empty()));
        assert_eq!(pieces.iter().map(Bytes::len).sum::<usize>(), long.bytes);
        let found: Value = serde_json::from_slice(&pieces.concat()).expect("JSON");
        let found: Vec<&str> = found["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|item| item["metadata"]["name"].as_str())
            .collect();
        assert_eq!((found.len(), &found[..3000]), (3001, &names.iter().map(String::as_str).collect::<Vec<_>>()[..]));
    }

    #[test]
    fn one_list_in_all_forms() {
        let kinds = Kinds::builtin();
        let kind = kinds.by_kind("v1", "ConfigMap").expect("it is served");
        let items = [stored(kind, "a"), stored(kind, "b")];
        let meta = ListMeta { revision: Revision(7), continues: "c".to_owned(), remaining: Some(3) };
        let now = Time::from_seconds(0).expect("a time");
        let list_meta = json!({"resourceVersion": "7", "continue": "c", "remainingItemCount": 3});
        let whole = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": list_meta,
            "items": [{"metadata": {"name": "a", "resourceVersion": "5"}, "data": {"k": "a"}},
                {"metadata": {"name": "b", "resourceVersion": "5"}, "data": {"k": "b"}}]});
        let partial = |name: &str| {
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"name": name, "resourceVersion": "5"}})
        };
        let metadata = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": list_meta,
            "items": [partial("a"), partial("b")]});
        let rows =
            json!([{"cells": ["a", 1, "<unknown>"], "object": null}, {"cells": ["b", 1, "<unknown>"], "object": null}]);
        let table = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_meta,
            "columnDefinitions": columns(kind),
            "rows": rows});
        for (shape, expected) in [
            (Shape::Whole, whole),
            (Shape::MetadataList(MetaVersion::V1), metadata),
            (Shape::Table(MetaVersion::V1, Include::Nothing), table),
        ] {
            let form = Form { shape, ..Form::default() };
            let found: Value = serde_json::from_slice(&at_once(form, kind, &meta, &items, now)).expect("JSON");
            assert_eq!(found, expected);
            let written = at_once(Form { media: Media::Yaml, ..form }, kind, &meta, &items, now);
            let text = std::str::from_utf8(&written).expect("text");
            assert_eq!(text, yaml::write(&expected));
            assert_eq!(coracle_schema::yaml::read(text).map(|(document, _)| document), Ok(expected));
        }
        let sealed = at_once(Form { media: Media::Protobuf, ..Form::default() }, kind, &meta, &items, now);
        let envelope = protobuf::open(&sealed).expect("an envelope");
        assert_eq!((envelope.api_version.as_str(), envelope.kind.as_str()), ("v1", "ConfigMapList"));
        let item = protobuf::encode(
            &kind.types,
            "ConfigMap",
            &json!({"metadata": {"name": "b", "resourceVersion": "5"}, "data": {"k": "b"}}),
        );
        assert!(envelope.raw.ends_with(&item));
    }
}

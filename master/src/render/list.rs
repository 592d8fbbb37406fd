//! Lists, and pages of them: what a list says of itself, and each object in the form that was asked for. PURE.
//!
//! Objects are rendered one by one, so that a long list costs little more than its bytes. Plain JSON is spliced of the stored
//! bytes, unread.

use super::form::{Form, Media, Shape};
use super::table::{self, Entry};
use super::{ListMeta, Message, bare, columns, metadata, parsed, said, yaml};
use crate::call::Version;
use crate::store::Stored;
use bytes::Bytes;
use coracle_api::kinds::Kind;
use coracle_api::meta::Time;
use coracle_api::{old, types};
use coracle_schema::protobuf;
use serde_json::{Value, json};

/// A list, or a page of one.
pub fn list(form: Form, kind: &Kind, meta: &ListMeta, items: &[Stored], now: Time) -> Bytes {
    if let Version::Old(version) = form.version {
        let items: Vec<Value> = items.iter().map(parsed).collect();
        let list = json!({"kind": kind.list_kind(), "apiVersion": "v1", "metadata": meta.to_v1(), "items": items});
        return old::encode(version, &list).to_string().into();
    }
    let rendered = |stored| item(form.shape, kind, stored, now);
    match (form.media, form.shape) {
        (Media::Json, Shape::Whole) if kind.alias.is_none() => spliced(kind, meta, items),
        (Media::Json, shape) => joined(&head(shape, kind, meta), field(shape), items.iter().map(rendered)),
        (Media::Yaml, shape) => {
            let mut list = head(shape, kind, meta);
            list[field(shape)] = items.iter().map(rendered).collect();
            yaml::write(&list).into()
        }
        (Media::Protobuf, shape) => {
            let message = match shape {
                // Nobody is promised a table in protobuf.
                Shape::Whole | Shape::Table(..) => Message::Object(&kind.type_name),
                Shape::Metadata(_) | Shape::MetadataList(_) => Message::Metadata,
            };
            sealed(&head(shape, kind, meta), &message, items.iter().map(rendered))
        }
    }
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
            json!({"kind": "Table", "apiVersion": version.api_version(), "metadata": meta, "columnDefinitions": columns(kind)})
        }
    }
}

fn item(shape: Shape, kind: &Kind, stored: &Stored, now: Time) -> Value {
    match shape {
        Shape::Whole => bare(said(kind, stored)),
        Shape::Metadata(version) | Shape::MetadataList(version) => metadata(version, &parsed(stored)),
        Shape::Table(version, include) => table::row(version, include, &Entry::of(kind, stored), now),
    }
}

fn joined(head: &Value, field: &str, items: impl Iterator<Item = Value>) -> Bytes {
    let mut out = head.to_string();
    out.pop();
    out.push_str(&format!(",\"{field}\":["));
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(&item.to_string());
    }
    out.push_str("]}");
    out.into()
}

fn sealed(head: &Value, message: &Message<'_>, items: impl Iterator<Item = Value>) -> Bytes {
    let mut raw = Vec::new();
    protobuf::put_bytes(&mut raw, 1, &protobuf::encode(&types::builtin(), "ListMeta", &head["metadata"]));
    for item in items {
        protobuf::put_bytes(&mut raw, 2, &message.encode(&item));
    }
    let text = |field: &str| head[field].as_str().unwrap_or_default();
    protobuf::seal(text("apiVersion"), text("kind"), &raw).into()
}

fn spliced(kind: &Kind, meta: &ListMeta, items: &[Stored]) -> Bytes {
    let mut out = Vec::with_capacity(256 + items.iter().map(|stored| stored.json.len()).sum::<usize>());
    let (api_version, list_kind) = (kind.api_version(), kind.list_kind());
    let head = format!(r#"{{"kind":"{list_kind}","apiVersion":"{api_version}","metadata":{},"items":["#, meta.to_v1());
    out.extend_from_slice(head.as_bytes());
    // Items of a list carry neither; every stored object begins with both.
    let prefix = format!(r#"{{"apiVersion":"{api_version}","kind":"{}","#, kind.kind);
    for (at, stored) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match stored.json.strip_prefix(prefix.as_bytes()) {
            Some(rest) => {
                out.push(b'{');
                out.extend_from_slice(rest);
            }
            None => out.extend_from_slice(&stored.json),
        }
    }
    out.extend_from_slice(b"]}");
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::form::{Include, Meta};
    use coracle_api::kinds::Kinds;
    use coracle_api::meta::{Key, Revision};
    use std::sync::Arc;

    fn stored(kind: &Kind, name: &str) -> Stored {
        let mut object = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": name}, "data": {"k": name}});
        let key = Key { resource: kind.resource.clone(), namespace: "default".to_owned(), name: name.to_owned() };
        Stored::of(Arc::new(key), Revision(5), &mut object)
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
            "items": [{"metadata": {"name": "a", "resourceVersion": "5"}, "data": {"k": "a"}}, {"metadata": {"name": "b", "resourceVersion": "5"}, "data": {"k": "b"}}]});
        let partial = |name: &str| {
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"name": name, "resourceVersion": "5"}})
        };
        let metadata = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": list_meta,
            "items": [partial("a"), partial("b")]});
        let rows = json!([{"cells": ["a", 1, "<unknown>"], "object": null}, {"cells": ["b", 1, "<unknown>"], "object": null}]);
        let table = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_meta, "columnDefinitions": columns(kind),
            "rows": rows});
        for (shape, expected) in
            [(Shape::Whole, whole), (Shape::MetadataList(Meta::V1), metadata), (Shape::Table(Meta::V1, Include::Nothing), table)]
        {
            let form = Form { shape, ..Form::default() };
            let found: Value = serde_json::from_slice(&list(form, kind, &meta, &items, now)).expect("JSON");
            assert_eq!(found, expected);
            let yaml = list(Form { media: Media::Yaml, ..form }, kind, &meta, &items, now);
            let text = std::str::from_utf8(&yaml).expect("text");
            assert_eq!(crate::serve::read_yaml(text).map(|(document, _)| document), Ok(expected));
        }
        let sealed = list(Form { media: Media::Protobuf, ..Form::default() }, kind, &meta, &items, now);
        let envelope = protobuf::open(&sealed).expect("an envelope");
        assert_eq!((envelope.api_version.as_str(), envelope.kind.as_str()), ("v1", "ConfigMapList"));
        let item = protobuf::encode(
            &types::builtin(),
            "ConfigMap",
            &json!({"metadata": {"name": "b", "resourceVersion": "5"}, "data": {"k": "b"}}),
        );
        assert!(envelope.raw.ends_with(&item));
    }
}

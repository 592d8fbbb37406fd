//! What replies look like: v1 as it is stored, v1beta1 encoded. PURE.

pub mod discovery;
pub mod pretty;

use crate::call::Version;
use crate::store::Stored;
use bytes::Bytes;
use coracle_api::kinds::Kind;
use coracle_api::meta::Revision;
use coracle_api::status::Status;
use coracle_api::v1beta1;
use coracle_api::watch::Change;
use serde_json::{Value, json};

/// One object.
pub fn object(version: Version, stored: &Stored) -> Bytes {
    match version {
        Version::V1 => stored.json.clone(),
        Version::V1beta1 => v1beta1::encode(&parsed(stored)).to_string().into(),
    }
}

/// A list at one revision. In v1 the stored bytes are spliced, unread.
pub fn list(version: Version, kind: &Kind, revision: Revision, items: &[Stored]) -> Bytes {
    if version == Version::V1beta1 {
        let items: Vec<Value> = items.iter().map(parsed).collect();
        let list =
            json!({"kind": kind.list_kind(), "apiVersion": "v1", "metadata": {"resourceVersion": revision.to_string()}, "items": items});
        return v1beta1::encode(&list).to_string().into();
    }
    let mut out = Vec::with_capacity(128 + items.iter().map(|stored| stored.json.len()).sum::<usize>());
    let (api_version, list_kind) = (kind.api_version(), kind.list_kind());
    out.extend_from_slice(
        format!(r#"{{"kind":"{list_kind}","apiVersion":"{api_version}","metadata":{{"resourceVersion":"{revision}"}},"items":["#)
            .as_bytes(),
    );
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

/// One line of a watch. A deletion shows the last state that the watcher could see, at the revision of the deletion.
pub fn event(version: Version, change: Change, stored: &Stored, revision: Revision) -> Vec<u8> {
    let stale = change == Change::Deleted && stored.revision != revision;
    let shown = if stale { object(version, &stored.at(revision)) } else { object(version, stored) };
    line(change.wire(), &shown)
}

/// Up to which revision a watcher has seen everything.
pub fn bookmark(version: Version, kind: &Kind, revision: Revision) -> Vec<u8> {
    let object = json!({"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": {"resourceVersion": revision.to_string()}});
    let object = if version == Version::V1beta1 { v1beta1::encode(&object) } else { object };
    line("BOOKMARK", object.to_string().as_bytes())
}

pub fn error_event(version: Version, status: &Status) -> Vec<u8> {
    line("ERROR", &self::status(version, status))
}

fn line(change: &str, object: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(format!(r#"{{"type":"{change}","object":"#).as_bytes());
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line
}

pub fn status(version: Version, status: &Status) -> Bytes {
    match version {
        Version::V1 => status.to_v1(),
        Version::V1beta1 => v1beta1::encode_status(&status.to_v1()),
    }
    .to_string()
    .into()
}

/// What a deletion answers that has no object to show. The documents of June 2014 promise `success`.
pub fn deleted(version: Version, status: &Status) -> Bytes {
    match version {
        Version::V1 => status.to_v1(),
        Version::V1beta1 => v1beta1::encode_deleted(&status.to_v1()),
    }
    .to_string()
    .into()
}

/// Stored documents are JSON: the store has read or written each.
fn parsed(stored: &Stored) -> Value {
    serde_json::from_slice(&stored.json).expect("what is stored is JSON")
}

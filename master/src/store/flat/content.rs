//! PURE. Checks that a file holds the object that its path names, as far as the store can tell.

use super::{document, summary};
use coracle_api::meta::Key;
use serde_json::Value;

/// One object as compact JSON: what etcd takes by default.
pub const OBJECT_BYTES_MAX: usize = 1536 << 10;
/// Indentation makes a file longer than its compact form. The store indents a deep document no further than to this, so
/// a longer one is none of its own.
pub const FILE_BYTES_MAX: usize = 8 * OBJECT_BYTES_MAX;

/// Words for folders: nothing but zeros, and a document of something else.
pub const EMPTY: &str = "empty";
pub const MISPLACED: &str = "misplaced";

/// Why a file is no object of its key: a word for the folder, a sentence for people.
pub struct Wrong {
    pub word: &'static str,
    pub why: String,
}

pub fn too_large() -> String {
    format!("it is larger than {FILE_BYTES_MAX} bytes")
}

/// Whether a file's content is the object that its place says.
/// `kind`: apiVersion and kind of this resource's objects; None: they are not known, and only the group has to fit.
pub fn check(bytes: &[u8], key: &Key, kind: Option<(&str, &str)>) -> Result<Value, Wrong> {
    if bytes.iter().all(|byte| *byte == 0) {
        let why = if bytes.is_empty() { "it is empty" } else { "it holds nothing but zeros" };
        return Err(Wrong { word: EMPTY, why: why.to_owned() });
    }
    let mut document: Value = serde_json::from_slice(bytes)
        .map_err(|error| Wrong { word: "not-json", why: format!("it is not JSON: {error}") })?;
    if let Some(metadata) =
        document.get_mut("metadata").and_then(Value::as_object_mut).filter(|_| !key.namespace.is_empty())
    {
        // The place says it.
        metadata.entry("namespace").or_insert_with(|| Value::String(key.namespace.clone()));
    }
    let said = |field: &str| document[field].as_str().unwrap_or_default();
    let kind = kind.or(Some((said("apiVersion"), said("kind"))).filter(|said| may_be(*said, key)));
    let Some(kind) = kind else {
        let why = format!("it is no object of the group {:?}", key.resource.group);
        return Err(Wrong { word: MISPLACED, why });
    };
    document::belongs(&document, key, kind).map_err(|why| Wrong { word: MISPLACED, why })?;
    Ok(document)
}

/// The apiVersion and kind that a text leads with, where they can be those of an object of this key.
pub fn leading<'t>(text: &'t [u8], key: &Key) -> Option<(&'t str, &'t str)> {
    summary::leading(text).filter(|said| may_be(*said, key))
}

fn may_be((api_version, kind): (&str, &str), key: &Key) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    group == key.resource.group && !api_version.is_empty() && !kind.is_empty()
}

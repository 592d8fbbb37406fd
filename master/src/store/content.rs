//! PURE. Checks that a file holds the object that its path names, as far as the store can tell.

use super::document;
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
pub fn check(bytes: &[u8], key: &Key, kind: (&str, &str)) -> Result<Value, Wrong> {
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
    document::belongs(&document, key, kind).map_err(|why| Wrong { word: MISPLACED, why })?;
    Ok(document)
}

//! PURE. What the store knows of a document: its revision, its labels, which part of it is worth flash, and how it is written down.

use bytes::Bytes;
use coracle_api::labels::LabelSet;
use coracle_api::meta::{Durable, Key, Revision};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value};

/// Writes the revision into the document.
pub fn stamp(document: &mut Value, revision: Revision) {
    if let Some(metadata) = metadata_mut(document) {
        metadata.insert("resourceVersion".to_owned(), Value::String(revision.to_string()));
    }
}

/// The revision that the document says of itself.
pub fn revision(document: &Value) -> Option<Revision> {
    document["metadata"]["resourceVersion"].as_str()?.parse().ok().map(Revision)
}

/// As it stays in memory and goes over the wire.
pub fn compact(document: &Value) -> Bytes {
    // Copied, so that it keeps no more memory than it has bytes.
    Bytes::copy_from_slice(&serde_json::to_vec(&KindFirst(document)).expect("a Value has string keys only"))
}

/// As it lies on disk, for people, jq and git.
pub fn pretty(document: &Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(&KindFirst(document)).expect("a Value has string keys only");
    text.push(b'\n');
    text
}

/// Takes away what is not made durable. False: nothing of it is.
pub fn keep_durable(document: &mut Value, durable: Durable) -> bool {
    match durable {
        Durable::Whole => true,
        Durable::WithoutStatus => {
            if let Some(fields) = document.as_object_mut() {
                fields.remove("status");
            }
            true
        }
        Durable::Nothing => false,
    }
}

pub fn labels(document: &Value) -> LabelSet {
    let labels = document["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

/// Whether the document is the object of this key, as far as it says so itself; otherwise what is wrong.
pub fn belongs(document: &Value, key: &Key, kind: (&str, &str)) -> Result<(), String> {
    let wanted = [
        ("apiVersion", &document["apiVersion"], kind.0),
        ("kind", &document["kind"], kind.1),
        ("metadata.name", &document["metadata"]["name"], key.name.as_str()),
        ("metadata.namespace", &document["metadata"]["namespace"], key.namespace.as_str()),
    ];
    for (field, is, wanted) in wanted {
        if is.as_str().unwrap_or_default() != wanted {
            return Err(format!("{field} is {is}, but the file's place says {wanted:?}"));
        }
    }
    Ok(())
}

fn metadata_mut(document: &mut Value) -> Option<&mut Map<String, Value>> {
    document.as_object_mut()?.entry("metadata").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

/// apiVersion and kind lead, for people and for whoever reads the front of the bytes; the rest is sorted.
struct KindFirst<'a>(&'a Value);

impl Serialize for KindFirst<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const FIRST: [&str; 2] = ["apiVersion", "kind"];
        let Some(fields) = self.0.as_object() else { return self.0.serialize(serializer) };
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for name in FIRST {
            if let Some(value) = fields.get(name) {
                map.serialize_entry(name, value)?;
            }
        }
        for (name, value) in fields.iter().filter(|(name, _)| !FIRST.contains(&name.as_str())) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// CRC-32 (IEEE). It finds accidents; nobody has to be kept from forging what lies in a directory of mode 0700.
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| (crc >> 8) ^ CRC_TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize])
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

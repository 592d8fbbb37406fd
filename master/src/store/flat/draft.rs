//! PURE. A write as it is when only its revision is missing: each writer makes its own, before it waits for others, so
//! that whoever commits for all has little left to do.

use super::document;
use super::entry::Entry;
use crate::store::{Claimed, Write};
use bytes::Bytes;
use coracle_api::labels::LabelSet;
use coracle_api::meta::{Durable, Key, Revision};
use serde_json::{Map, Value};
use std::ops::Range;

/// The size of most objects, so that their text is seldom moved while it grows.
const TEXT_BYTES: usize = 4096;

pub struct PreparedWrite {
    pub key: Key,
    pub wish: Operation,
}

pub enum Operation {
    /// `seen`: what it replaces; None: nothing.
    Put {
        seen: Option<Revision>,
        document: Box<NewObject>,
    },
    Delete {
        seen: Revision,
    },
}

pub struct NewObject {
    pub text: CompactText,
    pub part: DiskPart,
    pub durable: Durable,
    pub labels: LabelSet,
    pub claims: Vec<Claimed>,
}

/// The durable part of a document.
pub enum DiskPart {
    Nothing,
    Whole,
    Less(CompactText),
}

/// Compact JSON, but for its revision.
pub struct CompactText {
    bytes: Vec<u8>,
    /// Where the revision goes.
    gap: usize,
    /// Where its status stands, with the comma before it: behind the revision.
    status: Range<usize>,
}

impl PreparedWrite {
    pub fn of(write: Write) -> PreparedWrite {
        let (key, seen, object, durable, claims) = match write {
            Write::Create { key, object, durable, claims } => (key, None, object, durable, claims),
            Write::Update { key, object, seen, durable, claims } => (key, Some(seen), object, durable, claims),
            Write::Delete { key, seen } => return PreparedWrite { key, wish: Operation::Delete { seen } },
        };
        PreparedWrite { key, wish: Operation::Put { seen, document: Box::new(NewObject::of(object, durable, claims)) } }
    }

    pub fn claims(&self) -> &[Claimed] {
        match &self.wish {
            Operation::Put { document, .. } => &document.claims,
            Operation::Delete { .. } => &[],
        }
    }
}

impl NewObject {
    /// Whether the durable part is what the journal or the file says already, but for the revision. The documents
    /// differ.
    pub fn is_on_disk(&self, former: &Entry) -> bool {
        let Some(crc) = former.file_crc else { return false };
        let (text, all) = match &self.part {
            DiskPart::Nothing => return false,
            DiskPart::Whole => (&self.text, true),
            DiskPart::Less(text) => (text, false),
        };
        let stored = &former.stored;
        if former.durable == Durable::Whole || document::crc32(&stored.json) == crc {
            return !all && text.is(stored.revision, &stored.json);
        }
        document::durable_part(&stored.json, former.durable, None).is_some_and(|old| text.is(stored.revision, &old))
    }

    fn of(mut object: Value, durable: Durable, claims: Vec<Claimed>) -> NewObject {
        let (text, labels) = (CompactText::of(&mut object), document::labels(&object));
        let has_status = object.get("status").is_some();
        let part = match durable {
            Durable::Nothing => DiskPart::Nothing,
            Durable::WithoutStatus if has_status && !document::has_status_owner(&object) => {
                DiskPart::Less(text.without_status())
            }
            Durable::WithoutStatus if has_status => {
                document::keep_durable(&mut object, durable);
                DiskPart::Less(CompactText::of(&mut object))
            }
            Durable::WithoutRenewal => {
                document::keep_durable(&mut object, durable);
                DiskPart::Less(CompactText::of(&mut object))
            }
            Durable::Whole | Durable::WithoutStatus => DiskPart::Whole,
        };
        NewObject { text, part, durable, labels, claims }
    }
}

impl CompactText {
    pub fn of(object: &mut Value) -> CompactText {
        document::stamp(object, Revision(0));
        let mut text = CompactText { bytes: Vec::with_capacity(TEXT_BYTES), gap: 0, status: 0..0 };
        match object.as_object() {
            Some(fields) => text.object(fields),
            None => text.value(object),
        }
        text
    }

    fn without_status(&self) -> CompactText {
        let (front, back) = (&self.bytes[..self.status.start], &self.bytes[self.status.end..]);
        CompactText { bytes: [front, back].concat(), gap: self.gap, status: 0..0 }
    }

    /// The text in memory of the exact size: spare capacity beside long-lived texts would be wasted.
    pub fn at(self, revision: Revision) -> Bytes {
        let revision = if self.gap > 0 { revision.to_string() } else { String::new() };
        let (front, back) = self.bytes.split_at(self.gap);
        Bytes::from([front, revision.as_bytes(), back].concat())
    }

    /// Whether it would be this JSON, at this revision.
    pub fn is(&self, revision: Revision, json: &[u8]) -> bool {
        let revision = if self.gap > 0 { revision.to_string() } else { String::new() };
        let (front, back) = self.bytes.split_at(self.gap);
        json.len() == self.bytes.len() + revision.len()
            && json.starts_with(front)
            && json[front.len()..].starts_with(revision.as_bytes())
            && json.ends_with(back)
    }

    /// apiVersion and kind lead, for people and for whoever reads the front of the bytes; the rest is sorted.
    fn object(&mut self, fields: &Map<String, Value>) {
        const FIRST: [&str; 2] = ["apiVersion", "kind"];
        let first = FIRST.iter().filter_map(|name| fields.get_key_value(*name));
        let rest = fields.iter().filter(|(name, _)| !FIRST.contains(&name.as_str()));
        self.bytes.push(b'{');
        for (name, value) in first.chain(rest) {
            let from = self.bytes.len();
            self.name(name);
            match value.as_object() {
                Some(metadata) if name == "metadata" => self.metadata(metadata),
                _ => self.value(value),
            }
            if name == "status" {
                self.status = from..self.bytes.len();
            }
        }
        self.bytes.push(b'}');
    }

    fn metadata(&mut self, fields: &Map<String, Value>) {
        self.bytes.push(b'{');
        for (name, value) in fields {
            self.name(name);
            if name == "resourceVersion" {
                self.bytes.push(b'"');
                self.gap = self.bytes.len();
                self.bytes.push(b'"');
            } else {
                self.value(value);
            }
        }
        self.bytes.push(b'}');
    }

    fn name(&mut self, name: &str) {
        if self.bytes.last() != Some(&b'{') {
            self.bytes.push(b',');
        }
        self.string(name);
        self.bytes.push(b':');
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                self.bytes.push(b'{');
                for (name, value) in fields {
                    self.name(name);
                    self.value(value);
                }
                self.bytes.push(b'}');
            }
            Value::Array(values) => {
                self.bytes.push(b'[');
                for (at, value) in values.iter().enumerate() {
                    if at > 0 {
                        self.bytes.push(b',');
                    }
                    self.value(value);
                }
                self.bytes.push(b']');
            }
            Value::String(text) => self.string(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                serde_json::to_writer(&mut self.bytes, value).expect("a Vec takes all")
            }
        }
    }

    /// Nearly all output is strings without escapes: copying such strings is most of a writer's work.
    fn string(&mut self, text: &str) {
        if is_plain(text.as_bytes()) {
            self.bytes.push(b'"');
            self.bytes.extend_from_slice(text.as_bytes());
            self.bytes.push(b'"');
        } else {
            serde_json::to_writer(&mut self.bytes, text).expect("a Vec takes all");
        }
    }
}

/// Whether no byte is one that JSON escapes; eight are looked at together.
fn is_plain(text: &[u8]) -> bool {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    // Sets the highest bit of each byte less than `bound`; a borrow may also set the bit in higher bytes.
    let less = |word: u64, bound: u8| word.wrapping_sub(ONES * u64::from(bound)) & !word & (ONES << 7);
    let is = |word: u64, byte: u8| less(word ^ (ONES * u64::from(byte)), 1);
    let (words, rest) = text.as_chunks::<8>();
    let words_are = words
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .all(|word| less(word, b' ') | is(word, b'"') | is(word, b'\\') == 0);
    words_are && rest.iter().all(|byte| *byte >= b' ' && *byte != b'"' && *byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_draft_becomes_what_the_document_is_at_the_revision() {
        for object in [
            json!({
                "metadata": {"name": "a", "labels": {"resourceVersion": "5"}, "uid": "u", "resourceVersion": "old"},
                "kind": "K", "apiVersion": "v1", "a": {}, "z": [1, null],
            }),
            json!({"kind": "K", "involved": {"metadata": {"resourceVersion": "7"}}, "metadata": {}}),
            json!({"kind": "K"}),
            json!({"metadata": "text"}),
            json!({}),
            json!("text"),
        ] {
            for revision in [Revision(1), Revision(12_345)] {
                let mut stamped = object.clone();
                document::stamp(&mut stamped, revision);
                let json = document::compact(&stamped);
                let text = CompactText::of(&mut object.clone());
                assert!(text.is(revision, &json));
                assert!(!text.is(Revision(23), &json) || text.gap == 0);
                let mut longer = json.to_vec();
                longer.push(b' ');
                assert!(!text.is(revision, &longer));
                assert_eq!(text.at(revision), json);
            }
        }
    }

    #[test]
    fn a_string_is_written_as_everybody_writes_it() {
        for text in ["", "plain", "1234567", "12345678", "ä\u{2028}\u{7f}\u{1f6f6} and so on, é"] {
            assert!(is_plain(text.as_bytes()), "{text:?}");
        }
        for escaped in ["\"", "\\", "\u{0}", "\u{1f}", "\n"] {
            for before in 0..20 {
                for after in [0, 7, 8] {
                    let text = format!("{}{escaped}{}", "é ".repeat(before), "!".repeat(after));
                    assert!(!is_plain(text.as_bytes()), "{text:?}");
                    let document = json!({&text: [text, {"a": [[], {}, null, true, -1, 2.5e300]}]});
                    assert_eq!(CompactText::of(&mut json!({"a": document.clone()})).bytes, {
                        let mut whole = json!({"a": document});
                        document::stamp(&mut whole, Revision(0));
                        String::from_utf8_lossy(&document::compact(&whole)).replace("\"0\"", "\"\"").into_bytes()
                    });
                }
            }
        }
    }

    #[test]
    fn what_goes_to_disk() {
        let part = |object: Value, durable: Durable| match NewObject::of(object, durable, Vec::new()).part {
            DiskPart::Nothing => "nothing".to_owned(),
            DiskPart::Whole => "whole".to_owned(),
            DiskPart::Less(text) => String::from_utf8_lossy(&text.at(Revision(3))).into_owned(),
        };
        let object = || json!({"metadata": {}, "status": {"x": 1}});
        assert_eq!(part(object(), Durable::Nothing), "nothing");
        assert_eq!(part(object(), Durable::Whole), "whole");
        assert_eq!(part(object(), Durable::WithoutStatus), r#"{"metadata":{"resourceVersion":"3"}}"#);
        assert_eq!(part(json!({"metadata": {}}), Durable::WithoutStatus), "whole");
        let owned = |owners: Value| {
            json!({
                "kind": "K", "metadata": {"managedFields": owners}, "spec": 1, "status": {}, "z": {"status": 1},
            })
        };
        let (one, other) = (json!({"manager": "a"}), json!({"manager": "b", "subresource": "status"}));
        for owners in [json!([one]), json!([one, other])] {
            let left = r#"{"kind":"K","metadata":{"managedFields":[{"manager":"a"}],"resourceVersion":"3"},"spec":1,"z":{"status":1}}"#;
            assert_eq!(part(owned(owners), Durable::WithoutStatus), left);
        }
    }
}

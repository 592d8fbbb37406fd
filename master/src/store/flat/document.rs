//! PURE. Reads and writes the parts of a document that the store knows: revision, labels, the durable part.

use bytes::Bytes;
use coracle_api::labels::LabelSet;
use coracle_api::meta::{Durable, Key, Revision};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Of the spec of a lease: when the holder said the last time that it leads, and when it took the lease.
const RENEWED: &str = "renewTime";
const TAKEN: &str = "acquireTime";

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
    let text = match document.as_object() {
        Some(fields) => written(fields.iter().map(|(name, value)| (name.as_str(), value))),
        None => serde_json::to_vec(document).expect("a Value has string keys only"),
    };
    // Without what it might have grown by.
    Bytes::from(text.into_boxed_slice())
}

/// Whether a compact text begins in the order in which the store writes an object.
pub fn leads(text: &[u8]) -> bool {
    const FIRST: &[u8] = b"{\"apiVersion\":\"";
    let rest = text.starts_with(FIRST).then(|| text.get(string_end_from(text, FIRST.len())..)).flatten();
    rest.is_some_and(|rest| rest.starts_with(b",\"kind\":"))
}

/// A person's text in the order in which the store writes an object; None: it is none.
pub fn ordered(text: &[u8]) -> Option<Bytes> {
    let document: Value = serde_json::from_slice(text).ok()?;
    document.is_object().then(|| compact(&document))
}

/// Compact JSON as a person asks for it: two blanks a level, for eyes, jq and git.
pub fn indented(compact: &[u8]) -> Vec<u8> {
    indented_within(compact, usize::MAX)
}

/// The form on disk: the same, but where a deep document would exceed `bytes_max`, the following lines are not
/// indented. The compact text takes at most half of `bytes_max`.
pub fn indented_within(compact: &[u8], bytes_max: usize) -> Vec<u8> {
    // What follows needs at most a line end or a blank for each of its bytes.
    let line = |out: &mut Vec<u8>, depth: usize, at: usize| {
        out.push(b'\n');
        let indented = out.len() + 2 * depth;
        if indented + 2 * (compact.len() - at) < bytes_max {
            out.resize(indented, b' ');
        }
    };
    let mut out = Vec::with_capacity(compact.len() * 2);
    let (mut depth, mut at) = (0, 0);
    while let Some(&byte) = compact.get(at) {
        let next = compact.get(at + 1).copied();
        match byte {
            b'"' => {
                let end = string_end(compact, at);
                out.extend_from_slice(&compact[at..end]);
                at = end;
                continue;
            }
            b'{' | b'[' if matches!(next, Some(b'}' | b']')) => {
                out.extend_from_slice(&compact[at..at + 2]);
                at += 1;
            }
            b'{' | b'[' => {
                depth += 1;
                out.push(byte);
                line(&mut out, depth, at);
            }
            b'}' | b']' => {
                depth = usize::saturating_sub(depth, 1);
                line(&mut out, depth, at);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth, at);
            }
            b':' => out.extend_from_slice(b": "),
            _ => out.push(byte),
        }
        at += 1;
    }
    out.push(b'\n');
    out
}

/// JSON without the white space between its words. A start does this to every file: strings are copied by the word
/// while their end is looked for.
pub fn stripped(text: &[u8], out: &mut Vec<u8>) {
    // The last word may be written beyond what counts.
    out.resize(text.len() + WORD, 0);
    let (mut at, mut to) = (0, 0);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => {
                let length = copy_string(&text[at..], &mut out[to..]);
                (at, to) = (at + length, to + length);
            }
            b' ' | b'\n' | b'\t' | b'\r' => {
                at += 1;
                // An indented line begins with many.
                while let Some(word) = text[at..].first_chunk::<WORD>() {
                    let blanks = (u128::from_le_bytes(*word) ^ BLANKS).trailing_zeros() as usize / 8;
                    at += blanks;
                    if blanks < WORD {
                        break;
                    }
                }
            }
            _ => {
                out[to] = byte;
                (at, to) = (at + 1, to + 1);
            }
        }
    }
    out.truncate(to);
}

/// Bytes that are looked at together.
const WORD: usize = 16;
const BLANKS: u128 = u128::from_le_bytes([b' '; WORD]);
/// A longer string is copied as a whole once its end is known.
const STRING_BYTES_SHORT: usize = 64;

/// Copies the string at the front, and gives its length with both quotes. `to` has room for a word more.
fn copy_string(text: &[u8], to: &mut [u8]) -> usize {
    to[0] = b'"';
    let mut at = 1;
    while at < STRING_BYTES_SHORT
        && let Some(word) = text[at..].first_chunk::<WORD>()
    {
        to[at..at + WORD].copy_from_slice(word);
        let found = first_mark(u128::from_le_bytes(*word));
        at += found;
        match text.get(at) {
            Some(b'"') if found < WORD => return at + 1,
            _ if found < WORD => break,
            _ => {}
        }
    }
    let end = string_end_from(text, at);
    to[at..end].copy_from_slice(&text[at..end]);
    end
}

/// Where in a word of text the first quote or backslash is; `WORD`: nowhere.
#[inline]
fn first_mark(word: u128) -> usize {
    const ONES: u128 = u128::from_le_bytes([1; WORD]);
    // Where a byte is zero its highest bit is set, and of those above it nobody asks.
    let zeros = |word: u128| word.wrapping_sub(ONES) & !word & (ONES << 7);
    let (quotes, escapes) = (ONES * u128::from(b'"'), ONES * u128::from(b'\\'));
    (zeros(word ^ quotes) | zeros(word ^ escapes)).trailing_zeros() as usize / 8
}

/// Behind the quote that ends the string that begins at `at`.
fn string_end(text: &[u8], at: usize) -> usize {
    string_end_from(text, at + 1)
}

/// The same from somewhere inside it.
fn string_end_from(text: &[u8], mut end: usize) -> usize {
    while let Some(found) = text.get(end..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        end += found;
        if text[end] == b'"' {
            return end + 1;
        }
        end += 2;
    }
    text.len()
}

/// The durable part of a compact document; None: no part is durable, or the text is no document. `revision`: the new
/// revision, if different from the document's own. What stays is copied as text, for a number that is read and written
/// need not be the same.
pub fn durable_part(compact: &[u8], durable: Durable, revision: Option<Revision>) -> Option<Bytes> {
    let own = "a text, and what was JSON before";
    if durable == Durable::Nothing {
        return None;
    }
    let mut fields: Fields = serde_json::from_slice(compact).ok()?;
    let mut metadata: Fields =
        fields.get("metadata").map_or(Some(Fields::new()), |text| serde_json::from_str(text.get()).ok())?;
    let owners = metadata
        .get("managedFields")
        .filter(|_| durable == Durable::WithoutStatus)
        .and_then(|owners| outlasting(owners));
    if durable == Durable::WithoutStatus {
        fields.remove("status");
    }
    let lease = fields.get("spec").filter(|_| durable == Durable::WithoutRenewal).and_then(|spec| taken(spec));
    if let Some(lease) = &lease {
        fields.insert("spec".into(), lease);
    }
    match &owners {
        Some(Some(some)) => drop(metadata.insert("managedFields".into(), some)),
        Some(None) => drop(metadata.remove("managedFields")),
        None => {}
    }
    let version = revision.map(|revision| to_raw_value(&revision.to_string()).expect(own));
    if let Some(version) = &version {
        metadata.insert("resourceVersion".into(), version);
    }
    let metadata = to_raw_value(&metadata).expect(own);
    if let Some(text) = fields.get_mut("metadata") {
        *text = &metadata;
    }
    Some(Bytes::from(written(fields.iter().map(|(name, text)| (name.as_ref(), text))).into_boxed_slice()))
}

/// The fields of an object, as text.
pub type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// The spec of a lease as it was when the holder took it. None: nobody has renewed it.
fn taken(spec: &RawValue) -> Option<Box<RawValue>> {
    let mut spec: Fields = serde_json::from_str(spec.get()).ok()?;
    spec.remove(RENEWED)?;
    if let Some(at) = spec.get(TAKEN).copied() {
        spec.insert(RENEWED.into(), at);
    }
    Some(to_raw_value(&spec).expect("a text, and what was JSON before"))
}

/// A list of field owners without the owners of status fields. None: the list has no such owners.
fn outlasting(owners: &RawValue) -> Option<Option<Box<RawValue>>> {
    memchr::memmem::find(owners.get().as_bytes(), b"\"status\"")?;
    let mut owners: Vec<Value> = serde_json::from_str(owners.get()).ok()?;
    owners.retain(|owner| !is_of_status(owner));
    Some((!owners.is_empty()).then(|| to_raw_value(&owners).expect("a Value has string keys only")))
}

fn is_of_status(owner: &Value) -> bool {
    owner["subresource"] == "status"
}

/// Whether a field manager owns fields of the status.
pub fn has_status_owner(document: &Value) -> bool {
    document["metadata"]["managedFields"].as_array().into_iter().flatten().any(is_of_status)
}

/// Takes away what is not made durable. False: nothing of it is.
pub fn keep_durable(document: &mut Value, durable: Durable) -> bool {
    match durable {
        Durable::Whole => true,
        Durable::WithoutStatus => {
            if let Some(fields) = document.as_object_mut() {
                fields.remove("status");
            }
            remove_status_owners(document);
            true
        }
        Durable::WithoutRenewal => {
            if let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut)
                && spec.remove(RENEWED).is_some()
                && let Some(at) = spec.get(TAKEN).cloned()
            {
                spec.insert(RENEWED.to_owned(), at);
            }
            true
        }
        Durable::Nothing => false,
    }
}

/// The owner of a status is as durable as the status.
fn remove_status_owners(document: &mut Value) {
    let Some(meta) = document.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(owners) = meta.get_mut("managedFields").and_then(Value::as_array_mut) else { return };
    owners.retain(|owner| !is_of_status(owner));
    if owners.is_empty() {
        meta.remove("managedFields");
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

/// The fields of an object, sorted, as they are written down: apiVersion and kind lead, for people and for whoever
/// reads the front of the bytes.
pub fn written<'a, V: Serialize>(fields: impl Iterator<Item = (&'a str, V)>) -> Vec<u8> {
    let mut fields: Vec<(&str, V)> = fields.collect();
    fields.sort_by_key(|(name, _)| match *name {
        "apiVersion" => 0,
        "kind" => 1,
        _ => 2,
    });
    let mut text = Vec::new();
    serde_json::Serializer::new(&mut text).collect_map(fields).expect("a Vec takes all");
    text
}

/// CRC-32 (IEEE). It finds accidents; nobody has to be kept from forging what lies in a directory of mode 0700.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The same, piece by piece.
#[derive(Default)]
pub struct Crc(crc32fast::Hasher);

impl Crc {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn sum(&self) -> u32 {
        self.0.clone().finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_persons_order_becomes_the_stores() {
        for (text, is_led, becomes) in [
            (r#"{"apiVersion":"v1","kind":"A","data":{}}"#, true, Some(r#"{"apiVersion":"v1","kind":"A","data":{}}"#)),
            (
                r#"{"apiVersion":"v1","data":{"b":1,"a":[]},"kind":"A"}"#,
                false,
                Some(r#"{"apiVersion":"v1","kind":"A","data":{"a":[],"b":1}}"#),
            ),
            (r#"{"kind":"A","apiVersion":"v1"}"#, false, Some(r#"{"apiVersion":"v1","kind":"A"}"#)),
            (r#"{"apiVersion":{},"kind":"A"}"#, false, Some(r#"{"apiVersion":{},"kind":"A"}"#)),
            (r#"{"apiVersion":"v1","data":1 2,"kind":"A"}"#, false, None),
            (r#"{"apiVersion":"v1"#, false, None),
            (r#"{"apiVersion":""#, false, None),
            ("[]", false, None),
            ("", false, None),
        ] {
            assert_eq!(leads(text.as_bytes()), is_led, "{text}");
            assert_eq!(ordered(text.as_bytes()).as_deref(), becomes.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn white_space_comes_and_goes() {
        for value in [
            serde_json::json!({
                "a": {}, "b": [], "c": [1, -2.5e3, null, true, [{"d": "e f\\\" \n{},:[]"}], {"": ""}], "z": "\u{1f6f6}",
            }),
            serde_json::json!([]),
            serde_json::json!("a \"b\" \\"),
            serde_json::json!([
                "123456789012345",
                "1234567890123456",
                "12345678901234\"6",
                "123456789012345\\7",
                " long ".repeat(30),
                format!("{}\"", " ".repeat(66))
            ]),
            serde_json::json!(7),
        ] {
            let compact = serde_json::to_vec(&value).expect("JSON");
            let mut text = serde_json::to_vec_pretty(&value).expect("JSON");
            text.push(b'\n');
            assert_eq!(String::from_utf8_lossy(&indented(&compact)), String::from_utf8_lossy(&text));
            let mut back = b"rest".to_vec();
            stripped(&text, &mut back);
            assert_eq!(back, compact);
        }
        // Whatever it is, it ends.
        for torn in
            ["\"", "{\"a\\", "\\", "]]", "{,:", "\"", "\"0123456789abcde", "\"0123456789abcdef", "\"0123456789abcde\\"]
        {
            indented(torn.as_bytes());
            stripped(torn.as_bytes(), &mut Vec::new());
        }
    }

    #[test]
    fn a_deep_document_gets_no_longer_file_than_is_read_again() {
        let check = |compact: String, bytes_max: usize| {
            let text = indented_within(compact.as_bytes(), bytes_max);
            assert!(text.len() <= bytes_max.max(2 * compact.len() + 1), "{} of {bytes_max}: {compact:.80}", text.len());
            let mut back = Vec::new();
            stripped(&text, &mut back);
            assert!(back == compact.as_bytes(), "{compact:.80}");
            if indented(compact.as_bytes()).len() < bytes_max / 2 {
                assert!(text == indented(compact.as_bytes()), "{compact:.80}");
            }
        };
        for depth in [0, 1, 3, 10, 126] {
            for element in ["1", "[]", "{}", "\"\"", "{\"\":1}", "[[[[1]]]]", "\"{[,:\""] {
                for count in [1, 2, 300] {
                    let (opening, closing) = ("{\"\":[".repeat(depth), "]}".repeat(depth));
                    let list = format!("{opening}[{}]{closing}", vec![element; count].join(","));
                    let tower = [list.as_str(); 3].join(",");
                    for factor in 2..=10 {
                        check(list.clone(), factor * list.len() + 1);
                        check(format!("[{tower}]"), factor * (tower.len() + 2) + 1);
                    }
                }
            }
        }
    }

    #[test]
    fn the_durable_part_is_text_of_the_document() {
        let check = |document: &str, durable, revision, part: Option<&str>| {
            let made = durable_part(document.as_bytes(), durable, revision);
            assert_eq!(made.as_deref().map(String::from_utf8_lossy).as_deref(), part, "{document}");
        };
        let owners = |status: &str| format!(r#"[{{"manager":"a","operation":"Update"}}{status}]"#);
        let (both, one) = (owners(r#",{"manager":"b","subresource":"status"}"#), owners(""));
        let document = |version: u64, owners: &str, status: &str| {
            let meta = format!(
                r#"{{"annotations":{{"a/\"b":"\u0001ü"}},"managedFields":{owners},"resourceVersion":"{version}"}}"#
            );
            format!(
                r#"{{"apiVersion":"v1","kind":"K","big":[1e400,0.1000000000000000055],"metadata":{meta},"spec":{{}}{status}}}"#
            )
        };
        let status = r#","status":{"phase":"Running"}"#;
        let whole = document(23, &both, status);
        check(&whole, Durable::Nothing, None, None);
        check(&whole, Durable::Whole, None, Some(&whole));
        check(&whole, Durable::Whole, Some(Revision(7)), Some(&document(7, &both, status)));
        check(&whole, Durable::WithoutStatus, Some(Revision(7)), Some(&document(7, &one, "")));
        check(&whole, Durable::WithoutStatus, None, Some(&document(23, &one, "")));
        check("{}", Durable::WithoutStatus, Some(Revision(7)), Some("{}"));
    }

    #[test]
    fn the_durable_part_of_a_lease_has_no_renewal() {
        let lease = |taken: &str, renewed: &str| {
            format!(r#"{{"kind":"Lease","metadata":{{}},"spec":{{{taken}"holderIdentity":"a"{renewed}}},"z":1}}"#)
        };
        let at = |name: &str, time: &str| format!(r#""{name}":"{time}""#);
        let taken = format!("{},", at(TAKEN, "2026-01-01T00:00:00.000000Z"));
        let renewed = |time: &str| format!(",{}", at(RENEWED, time));
        for (taken, last, left) in [
            (&*taken, &*renewed("2026-01-01T00:00:09.000000Z"), &*renewed("2026-01-01T00:00:00.000000Z")),
            (&taken, "", ""),
            ("", &renewed("2026-01-01T00:00:09.000000Z"), ""),
        ] {
            let (whole, expected) = (lease(taken, last), lease(taken, left));
            let part = durable_part(whole.as_bytes(), Durable::WithoutRenewal, None);
            assert_eq!(part.as_deref(), Some(expected.as_bytes()), "{whole}");
            let mut document: Value = serde_json::from_str(&whole).expect("it is JSON");
            assert!(keep_durable(&mut document, Durable::WithoutRenewal));
            assert_eq!(compact(&document), expected.as_bytes(), "both ways agree");
        }
    }

    #[test]
    fn the_checksum_is_the_common_one() {
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b"The quick brown fox jumps over the lazy dog"), 0x414f_a339);
    }
}

//! PURE. Objects that are sealed on the disk: Secrets, where a key file is named. Memory, watches and answers have them
//! as they are; the journal, the files and backups have this form:
//!
//! ```text
//! {"apiVersion":"v1","kind":"Secret","metadata":{name, namespace, uid, labels, ...},
//!  "sealed":{"data":"BASE64","key":"ID"}}
//! ```
//!
//! Sealed are all fields but these, and the annotations and the field managers: `kubectl apply` keeps the data in an
//! annotation. The key of the object and its uid are bound, so that what was sealed for one object does not open as
//! another's. The same object at the same revision has the same form every time.

pub mod keys;

use super::document::{Fields, written};
use bytes::Bytes;
use coracle_api::meta::{Key, Resource};
use coracle_schema::base64;
use keys::{SealKey, SealKeys};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::sync::Arc;

/// How the reason begins why an object cannot be shown that is whole, and sealed.
pub const SEALED: &str = "sealed: ";
const FIELD: &str = "sealed";
/// Where a compact text has none it is not sealed: a quote inside of a string is escaped.
const FIELD_BEGINS: &[u8] = b"\"sealed\":{";
/// The fields that stay legible.
const LEGIBLE: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// The fields of metadata that are sealed.
const HIDDEN_METADATA: [&str; 2] = ["annotations", "managedFields"];

/// What is sealed, and by which keys.
#[derive(Clone, Debug, Default)]
pub struct Sealing {
    pub resources: Arc<[Resource]>,
    pub keys: SealKeys,
}

/// How an object lies on the disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Form {
    #[default]
    Plain,
    /// By the key of this id.
    Sealed(String),
    /// It cannot be opened, and why.
    Shut(String),
}

#[derive(Deserialize, Serialize)]
struct SealedPart<'a> {
    #[serde(borrow)]
    data: Cow<'a, str>,
    #[serde(borrow)]
    key: Cow<'a, str>,
}

/// What is sealed, as text.
#[derive(Deserialize, Serialize)]
struct Hidden<'a> {
    #[serde(borrow)]
    fields: Fields<'a>,
    #[serde(borrow)]
    metadata: Fields<'a>,
}

impl Sealing {
    pub fn seals(&self, key: &Key) -> bool {
        self.resources.contains(&key.resource)
    }

    /// The key that seals an object which a client writes. `Err`: it is not at hand, so nothing may be written.
    pub fn key_of(&self, key: &Key) -> Result<Option<&Arc<SealKey>>, &str> {
        match &self.keys {
            SealKeys::Lost(why) if self.seals(key) => Err(why),
            keys => Ok(keys.current().filter(|_| self.seals(key))),
        }
    }

    /// The form in which an object of memory lies on the disk. Without a key it is as it was there before: plain.
    pub fn at_rest(&self, key: &Key, compact: Bytes) -> Bytes {
        let seal = self.key_of(key).ok().flatten();
        seal.and_then(|seal| sealed(seal, key, &compact)).unwrap_or(compact)
    }

    /// The object of a text of the disk, and how it lies there. What is shut stays as it is.
    pub fn opened(&self, key: &Key, compact: Bytes) -> (Bytes, Form) {
        if !self.seals(key) || !has_sealed_part(&compact) {
            return (compact, Form::Plain);
        }
        let Some((fields, part)) = sealed_part(&compact) else { return (compact, Form::Plain) };
        let opened = self.keys.find(&part.key).and_then(|seal| open(seal, key, fields, &part));
        match opened {
            Ok(text) => (text, Form::Sealed(part.key.into_owned())),
            Err(why) => (compact.clone(), Form::Shut(why)),
        }
    }

    /// Whether an object that lies like this is to be written anew.
    pub fn wants(&self, key: &Key, form: &Form) -> bool {
        let by = if let Form::Sealed(id) = form { Some(id.as_str()) } else { None };
        match &self.keys {
            SealKeys::Ring(ring) if self.seals(key) => ring.current().map(|seal| &*seal.id) != by,
            _ => false,
        }
    }
}

/// The sealed form of a compact document. `None`: it is no object.
pub fn sealed(seal: &SealKey, key: &Key, compact: &[u8]) -> Option<Bytes> {
    let own = "a text, and what was JSON before";
    let mut fields: Fields = serde_json::from_slice(compact).ok()?;
    let mut metadata: Fields = serde_json::from_str(fields.get("metadata")?.get()).ok()?;
    let hidden = Hidden {
        fields: taken(&mut fields, |name| !LEGIBLE.contains(&name)),
        metadata: taken(&mut metadata, |name| HIDDEN_METADATA.contains(&name)),
    };
    let plain = serde_json::to_vec(&hidden).expect(own);
    let revision = metadata.get("resourceVersion").map_or("", |revision| revision.get());
    let data = base64::encode(&seal.seal(&place(key, &metadata), revision, &plain));
    let part = to_raw_value(&SealedPart { data: data.into(), key: (&*seal.id).into() }).expect(own);
    let metadata = to_raw_value(&metadata).expect(own);
    fields.insert("metadata".into(), &metadata);
    fields.insert(FIELD.into(), &part);
    Some(joined(&fields))
}

/// Whether a compact document may be sealed.
pub fn has_sealed_part(compact: &[u8]) -> bool {
    memchr::memmem::find(compact, FIELD_BEGINS).is_some()
}

/// The fields of a sealed document, and its sealed part.
fn sealed_part(compact: &[u8]) -> Option<(Fields<'_>, SealedPart<'_>)> {
    let mut fields: Fields = serde_json::from_slice(compact).ok()?;
    let part = serde_json::from_str(fields.remove(FIELD)?.get()).ok()?;
    Some((fields, part))
}

fn open(seal: &SealKey, key: &Key, fields: Fields, part: &SealedPart) -> Result<Bytes, String> {
    let strange = || {
        format!(
            "key {} does not open it: it was sealed as another object, or was changed, or the key is another of that \
             id",
            part.key
        )
    };
    let metadata: Option<Fields> = fields.get("metadata").and_then(|text| serde_json::from_str(text.get()).ok());
    let metadata = metadata.ok_or_else(strange)?;
    let plain = base64::decode(&part.data).ok().and_then(|data| seal.open(&place(key, &metadata), &data));
    let plain = plain.ok_or_else(strange)?;
    let hidden: Hidden = serde_json::from_slice(&plain).map_err(|_| strange())?;
    Ok(merged(fields, metadata, hidden))
}

/// What a person has written beside the sealed part is what they want.
fn merged(fields: Fields, metadata: Fields, hidden: Hidden) -> Bytes {
    let mut metadata_whole = hidden.metadata;
    metadata_whole.extend(metadata);
    let metadata = to_raw_value(&metadata_whole).expect("a text, and what was JSON before");
    let mut whole = hidden.fields;
    whole.extend(fields);
    whole.insert("metadata".into(), &metadata);
    joined(&whole)
}

fn taken<'a>(fields: &mut Fields<'a>, hides: impl Fn(&str) -> bool) -> Fields<'a> {
    let (hidden, legible) = std::mem::take(fields).into_iter().partition(|(name, _)| hides(name));
    *fields = legible;
    hidden
}

fn joined(fields: &Fields) -> Bytes {
    Bytes::from(written(fields.iter().map(|(name, text)| (name.as_ref(), text))).into_boxed_slice())
}

/// The object alone that a sealed part opens in.
fn place(key: &Key, metadata: &Fields) -> String {
    let uid = metadata.get("uid").map_or("", |uid: &&RawValue| uid.get());
    let Key { resource, namespace, name } = key;
    format!("object\0{}\0{}\0{namespace}\0{name}\0{uid}", resource.group, resource.plural)
}

#[cfg(test)]
mod tests {
    use super::super::document;
    use super::*;
    use crate::store::flat::seal::keys::{KEY_BYTES, KeyRing, line};
    use serde_json::{Value, json};

    const SECRETS: Resource = Resource::core("secrets");

    fn sealing(text: &str) -> Sealing {
        let keys = SealKeys::Ring(Arc::new(KeyRing::parse(text).expect("keys")));
        Sealing { resources: Arc::new([SECRETS]), keys }
    }

    fn key(resource: Resource, name: &str) -> Key {
        Key { resource, namespace: "n".to_owned(), name: name.to_owned() }
    }

    fn secret() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"password": "aHVudGVyMg=="},
            "immutable": true,
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u-1", "resourceVersion": "7", "labels": {"app": "web"},
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"data\":\"aHVudGVyMg==\"}"},
                "managedFields": [{"fieldsV1": {"f:data": {"f:password": {}}}}],
            },
        })
    }

    #[test]
    fn only_the_identity_of_a_secret_is_legible() {
        let sealing = sealing(&line("k1", &[1; KEY_BYTES]));
        let plain = document::compact(&secret());
        let lies = sealing.at_rest(&key(SECRETS, "a"), plain.clone());
        let text = String::from_utf8(lies.to_vec()).expect("JSON");
        for hidden in ["aHVudGVyMg", "password", "annotations", "managedFields", "Opaque", "immutable"] {
            assert!(!text.contains(hidden), "{hidden}: {text}");
        }
        let begins = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"labels":{"app":"web"},"name":"a","namespace":"n","resourceVersion":"7","uid":"u-1"},"sealed":{"data":""#;
        assert!(text.starts_with(begins) && text.ends_with(r#"","key":"k1"}}"#), "{text}");
        assert!(document::leads(&lies));
        assert_eq!(sealing.opened(&key(SECRETS, "a"), lies.clone()), (plain.clone(), Form::Sealed("k1".to_owned())));
        assert_eq!(sealing.at_rest(&key(SECRETS, "a"), plain.clone()), lies, "the same every time");
        assert_eq!(sealing.opened(&key(SECRETS, "a"), plain.clone()), (plain, Form::Plain));
    }

    #[test]
    fn what_is_no_secret_stays_as_it_is() {
        let sealing = sealing(&line("k1", &[1; KEY_BYTES]));
        let map = key(Resource::core("configmaps"), "a");
        let plain = document::compact(&secret());
        assert_eq!(sealing.at_rest(&map, plain.clone()), plain);
        assert!(!sealing.wants(&map, &Form::Plain));
        let lies = sealing.at_rest(&key(SECRETS, "a"), plain);
        assert_eq!(sealing.opened(&map, lies.clone()), (lies, Form::Plain));
    }

    #[test]
    fn a_moved_or_changed_secret_stays_shut() {
        let keys = line("k1", &[1; KEY_BYTES]);
        let sealed_here = sealing(&keys);
        let lies = sealed_here.at_rest(&key(SECRETS, "a"), document::compact(&secret()));
        let shut = |sealing: &Sealing, key: &Key, text: &str| match sealing.opened(key, Bytes::from(text.to_owned())) {
            (same, Form::Shut(why)) => {
                assert_eq!(same, text);
                why
            }
            (_, form) => panic!("{form:?}: {text}"),
        };
        let text = String::from_utf8(lies.to_vec()).expect("JSON");
        // Under another name, in another namespace, as an object of another uid.
        let moved = shut(&sealed_here, &key(SECRETS, "b"), &text.replace("\"name\":\"a\"", "\"name\":\"b\""));
        assert!(moved.starts_with("key k1 does not open it"), "{moved}");
        shut(&sealed_here, &Key { namespace: "m".to_owned(), ..key(SECRETS, "a") }, &text);
        shut(&sealed_here, &key(SECRETS, "a"), &text.replace("u-1", "u-2"));
        shut(&sealed_here, &key(SECRETS, "a"), &text.replace("\"data\":\"", "\"data\":\"AAAA"));
        shut(&sealed_here, &key(SECRETS, "a"), &text.replace("\"data\":\"", "\"data\":\"!"));
        shut(&sealing(&line("k1", &[2; KEY_BYTES])), &key(SECRETS, "a"), &text);
        for (keys, expected) in [
            (SealKeys::Off, "no key file is named"),
            (SealKeys::Lost("/k: not found".to_owned()), "/k: not found"),
            (sealing(&line("k2", &[1; KEY_BYTES])).keys, "which the key file does not have"),
        ] {
            let why = shut(&Sealing { keys, ..sealed_here.clone() }, &key(SECRETS, "a"), &text);
            assert!(why.contains(expected), "{why}");
        }
        // A label that a person changed is theirs to change.
        let (opened, form) =
            sealed_here.opened(&key(SECRETS, "a"), Bytes::from(text.replace("\"app\":\"web\"", "\"app\":\"shop\"")));
        assert!(form == Form::Sealed("k1".to_owned()) && memchr::memmem::find(&opened, b"shop").is_some());
    }

    #[test]
    fn what_is_written_anew() {
        let (a, b) = (line("a", &[1; KEY_BYTES]), line("b", &[2; KEY_BYTES]));
        let by = |id: &str| Form::Sealed(id.to_owned());
        for (text, form, wants) in [
            (a.clone(), Form::Plain, true),
            (a.clone(), by("a"), false),
            (format!("{b}{a}"), by("a"), true),
            (format!("{b}{a}"), by("b"), false),
            (format!("plain\n{a}"), by("a"), true),
            (format!("plain\n{a}"), Form::Plain, false),
        ] {
            assert_eq!(sealing(&text).wants(&key(SECRETS, "a"), &form), wants, "{text} {form:?}");
        }
        let lost = Sealing { keys: SealKeys::Lost("gone".to_owned()), ..sealing(&a) };
        assert!(!lost.wants(&key(SECRETS, "a"), &Form::Plain) && lost.key_of(&key(SECRETS, "a")).is_err());
        assert!(lost.key_of(&key(Resource::core("pods"), "a")).is_ok());
    }
}

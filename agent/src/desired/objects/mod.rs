//! The ConfigMaps and Secrets that pods of this host use, and the tokens of their service accounts, as far as they are known. PURE:
//! `door`, `requests` and `kept` beside this file fetch and
//! keep them.
//!
//!     pods of the master -> `uses` -> one watch a kind and namespace (`door`), token requests (`requests`) -> `room` -> `Objects` -> the loop
//!
//! Unknown is not absent: what the master has not said yet is waited for, and while it does not answer what was known before counts.

pub mod door;
pub mod kept;
pub mod requests;
mod room;
pub mod tokens;
pub mod uses;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use coracle_schema::base64;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::claims;
use crate::desired::SourceState;
use crate::hash::hash_text;
use crate::naming::{PodName, Source};
pub use tokens::{Got, Token, TokenRef};

const TOKEN: &str = "token";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    ConfigMap,
    Secret,
    /// PersistentVolumeClaim and PersistentVolume.
    Claim,
    Volume,
    RuntimeClass,
}

impl Kind {
    pub fn plural(self) -> &'static str {
        match self {
            Kind::ConfigMap => "configmaps",
            Kind::Secret => "secrets",
            Kind::Claim => "persistentvolumeclaims",
            Kind::Volume => "persistentvolumes",
            Kind::RuntimeClass => "runtimeclasses",
        }
    }

    /// The version of the API that has it.
    pub fn root(self) -> &'static str {
        match self {
            Kind::RuntimeClass => "/apis/node.k8s.io/v1",
            Kind::ConfigMap | Kind::Secret | Kind::Claim | Kind::Volume => "/api/v1",
        }
    }

    /// As a kubelet's messages have it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::ConfigMap => "configmap",
            Kind::Secret => "secret",
            Kind::Claim => "persistentvolumeclaim",
            Kind::Volume => "persistentvolume",
            Kind::RuntimeClass => "runtimeclass",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::ConfigMap => "ConfigMap",
            Kind::Secret => "Secret",
            Kind::Claim => "PersistentVolumeClaim",
            Kind::Volume => "PersistentVolume",
            Kind::RuntimeClass => "RuntimeClass",
        }
    }
}

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ref {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

/// The data of a ConfigMap or Secret that pods are given.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Object {
    /// The stamp of all of it: equal stamps are equal objects.
    pub stamp: String,
    /// The type of a Secret.
    pub type_name: String,
    pub data: BTreeMap<String, Vec<u8>>,
    /// A ConfigMap's bytes that are no text: they become files, and no variables.
    pub binary: BTreeMap<String, Vec<u8>>,
    /// The facts of a claim or a volume.
    pub facts: Value,
}

impl Object {
    /// Parts that cannot be read are left out: the master accepts no such object.
    pub fn read(kind: Kind, document: &Value) -> Object {
        let texts = |field: &str| {
            let entries = document[field].as_object().into_iter().flatten();
            entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect::<Vec<_>>()
        };
        let bytes = |field: &str| texts(field).into_iter().filter_map(|(key, text)| Some((key, base64::decode(&text).ok()?))).collect();
        let mut object = Object::default();
        match kind {
            Kind::ConfigMap => {
                object.data = texts("data").into_iter().map(|(key, text)| (key, text.into_bytes())).collect();
                object.binary = bytes("binaryData");
            }
            Kind::Secret => {
                document["type"].as_str().unwrap_or_default().clone_into(&mut object.type_name);
                object.data = bytes("data");
            }
            Kind::Claim | Kind::Volume | Kind::RuntimeClass => object.facts = claims::facts(kind, document),
        }
        object.stamp = hash_text(&object.document(kind).to_string());
        object
    }

    /// As the API shows it.
    pub fn document(&self, kind: Kind) -> Value {
        let encoded = |map: &BTreeMap<String, Vec<u8>>| -> Value {
            map.iter().map(|(key, bytes)| (key.clone(), Value::String(base64::encode(bytes)))).collect()
        };
        let plain = |map: &BTreeMap<String, Vec<u8>>| -> Value {
            map.iter().map(|(key, bytes)| (key.clone(), Value::String(String::from_utf8_lossy(bytes).into_owned()))).collect()
        };
        match kind {
            Kind::ConfigMap => serde_json::json!({"data": plain(&self.data), "binaryData": encoded(&self.binary)}),
            Kind::Secret => serde_json::json!({"type": self.type_name, "data": encoded(&self.data)}),
            Kind::Claim | Kind::Volume | Kind::RuntimeClass => self.facts.clone(),
        }
    }

    /// A token in the form of a Secret, for the disk.
    pub fn of_token(token: &str) -> Object {
        Object { stamp: hash_text(token), data: [(TOKEN.to_owned(), token.as_bytes().to_vec())].into(), ..Object::default() }
    }

    pub fn token(&self) -> Arc<str> {
        String::from_utf8_lossy(self.data.get(TOKEN).map(Vec::as_slice).unwrap_or_default()).into()
    }

    /// One key of it, as a file has it.
    pub fn file(&self, key: &str) -> Option<&[u8]> {
        self.data.get(key).or_else(|| self.binary.get(key)).map(Vec::as_slice)
    }
}

/// Its content stands in no log.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.data.keys()).entries(self.binary.keys()).finish()
    }
}

/// The known state of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Found<'a> {
    There(&'a Arc<Object>),
    /// The master does not answer; this is what it said last.
    Kept(&'a Arc<Object>),
    Absent,
    Unknown {
        /// The master was asked and does not answer.
        silent: bool,
    },
}

/// All that is known now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// The objects of the master's present cluster. None: there is no such object.
    pub known: BTreeMap<Ref, Option<Arc<Object>>>,
    /// The objects that pods of this host used when the master last answered.
    pub kept: BTreeMap<Ref, Arc<Object>>,
    /// The same of clusters that this host belonged to before.
    pub others: BTreeMap<Ref, Arc<Object>>,
    /// Uids of pods of those clusters.
    pub foreign: BTreeSet<String>,
    /// The outcomes of requests for tokens, and the earlier tokens.
    pub tokens: BTreeMap<TokenRef, Got>,
    pub kept_tokens: BTreeMap<TokenRef, Arc<str>>,
    /// The master does not answer.
    pub silent: bool,
    /// Those of the manifest directory.
    pub files: BTreeMap<Ref, Arc<Object>>,
    /// Not all of the directory could be read.
    pub files_unknown: bool,
}

impl Objects {
    pub fn find(&self, pod: &PodName, kind: Kind, name: &str) -> Found<'_> {
        self.find_in(pod, kind, &pod.namespace, name)
    }

    /// `namespace` is empty for what is the cluster's.
    pub fn find_in(&self, pod: &PodName, kind: Kind, namespace: &str, name: &str) -> Found<'_> {
        if name.is_empty() {
            return Found::Absent;
        }
        let wanted = Ref { kind, namespace: namespace.to_owned(), name: name.to_owned() };
        match pod.source {
            Source::File => match self.files.get(&wanted) {
                Some(object) => Found::There(object),
                None if self.files_unknown => Found::Unknown { silent: true },
                None => Found::Absent,
            },
            Source::Master if self.foreign.contains(&pod.uid) => match self.others.get(&wanted) {
                Some(object) => Found::Kept(object),
                None => Found::Unknown { silent: true },
            },
            Source::Master => match self.known.get(&wanted) {
                Some(Some(object)) => Found::There(object),
                Some(None) => Found::Absent,
                None => match self.kept.get(&wanted).filter(|_| self.silent) {
                    Some(object) => Found::Kept(object),
                    None => Found::Unknown { silent: self.silent },
                },
            },
        }
    }

    pub fn token(&self, pod: &PodName, wanted: &TokenRef) -> Token<'_> {
        if pod.source == Source::File {
            return Token::Failed("pods of files have no service account");
        }
        let kept = self.kept_tokens.get(wanted).map(|text| Token::Kept(text));
        if self.foreign.contains(&pod.uid) {
            return kept.unwrap_or(Token::Failed("the pod's cluster is not the master's"));
        }
        match self.tokens.get(wanted) {
            Some(Got::Token(text)) => Token::There(text),
            Some(Got::Failed(_)) | None if self.silent && kept.is_some() => kept.unwrap_or(Token::Asked),
            Some(Got::Failed(why)) => Token::Failed(why),
            None if self.silent => Token::Failed("the master does not answer"),
            None => Token::Asked,
        }
    }
}

/// Adds the objects of files, which pods of files use.
pub fn with_files(objects: Arc<Objects>, files: Option<&SourceState>) -> Arc<Objects> {
    let files_unknown = files.is_none_or(|files| !files.complete);
    let files = files.map(|files| files.objects.clone()).unwrap_or_default();
    if files.is_empty() && !files_unknown {
        return objects;
    }
    Arc::new(Objects { files, files_unknown, ..(*objects).clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(text: &str) -> Arc<Object> {
        Arc::new(Object::read(Kind::ConfigMap, &json!({"data": {"k": text}})))
    }

    #[test]
    fn unknown_is_not_absent() {
        let pod = |source, uid: &str| PodName { source, namespace: "n".into(), name: "p".into(), uid: uid.into() };
        let reference = |name: &str| Ref { kind: Kind::ConfigMap, namespace: "n".into(), name: name.into() };
        let mut objects = Objects::default();
        let master = pod(Source::Master, "u");
        let (new, old, foreign, file) = (object("new"), object("old"), object("foreign"), object("file"));
        assert_eq!(objects.find(&master, Kind::ConfigMap, "a"), Found::Unknown { silent: false });
        objects.kept.insert(reference("a"), old.clone());
        assert_eq!(objects.find(&master, Kind::ConfigMap, "a"), Found::Unknown { silent: false }, "the master may answer yet");
        objects.silent = true;
        assert_eq!(objects.find(&master, Kind::ConfigMap, "a"), Found::Kept(&old));
        assert_eq!(objects.find(&master, Kind::Secret, "a"), Found::Unknown { silent: true });
        objects.known.insert(reference("a"), Some(new.clone()));
        objects.known.insert(reference("b"), None);
        assert_eq!(objects.find(&master, Kind::ConfigMap, "a"), Found::There(&new));
        assert_eq!(objects.find(&master, Kind::ConfigMap, "b"), Found::Absent);
        objects.foreign.insert("f".into());
        assert_eq!(objects.find(&pod(Source::Master, "f"), Kind::ConfigMap, "a"), Found::Unknown { silent: true });
        objects.others.insert(reference("a"), foreign.clone());
        assert_eq!(objects.find(&pod(Source::Master, "f"), Kind::ConfigMap, "a"), Found::Kept(&foreign));
        objects.files.insert(reference("a"), file.clone());
        assert_eq!(objects.find(&pod(Source::File, "x"), Kind::ConfigMap, "a"), Found::There(&file));
        assert_eq!(objects.find(&pod(Source::File, "x"), Kind::ConfigMap, "c"), Found::Absent);
    }

    #[test]
    fn an_object_is_read_as_it_was_written() {
        let check = |kind: Kind, document: Value| {
            let read = Object::read(kind, &document);
            assert_eq!(Object::read(kind, &read.document(kind)), read);
            read
        };
        let map = check(Kind::ConfigMap, json!({"data": {"a": "1"}, "binaryData": {"b": "AP8="}}));
        assert_eq!((map.file("a"), map.file("b"), map.file("c")), (Some(&b"1"[..]), Some(&[0, 255][..]), None));
        let claim =
            check(Kind::Claim, json!({"metadata": {"uid": "u", "name": "c"}, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}));
        assert_eq!(claims::bound_to(&claim), Some("v"));
        let volume = check(Kind::Volume, json!({"metadata": {"name": "v"}, "spec": {"hostPath": {"path": "/x"}}}));
        assert_eq!(volume.facts["spec"]["hostPath"]["path"], "/x");
        let secret = check(Kind::Secret, json!({"type": "Opaque", "data": {"a": "AP8="}}));
        assert_eq!((secret.file("a"), secret.type_name.as_str()), (Some(&[0, 255][..]), "Opaque"));
        assert!(!format!("{secret:?}").contains("255"), "content stands in no log");
    }
}

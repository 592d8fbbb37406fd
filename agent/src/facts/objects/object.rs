//! An object of the cluster that a pod uses: its reference, and the fields that pods are given. PURE.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use coracle_schema::base64;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::facts::hash::hash_text;

const TOKEN: &str = "token";
/// How the annotations of a claim begin that are about backups.
pub const BACKUP: &str = "coracle.dev/backup";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ObjectKind {
    ConfigMap,
    Secret,
    /// PersistentVolumeClaim and PersistentVolume.
    Claim,
    Volume,
    RuntimeClass,
}

impl ObjectKind {
    pub fn plural(self) -> &'static str {
        match self {
            ObjectKind::ConfigMap => "configmaps",
            ObjectKind::Secret => "secrets",
            ObjectKind::Claim => "persistentvolumeclaims",
            ObjectKind::Volume => "persistentvolumes",
            ObjectKind::RuntimeClass => "runtimeclasses",
        }
    }

    /// The path prefix of the API version that serves this kind.
    pub fn root(self) -> &'static str {
        match self {
            ObjectKind::RuntimeClass => "/apis/node.k8s.io/v1",
            ObjectKind::ConfigMap | ObjectKind::Secret | ObjectKind::Claim | ObjectKind::Volume => "/api/v1",
        }
    }

    /// As a kubelet's messages have it.
    pub fn word(self) -> &'static str {
        match self {
            ObjectKind::ConfigMap => "configmap",
            ObjectKind::Secret => "secret",
            ObjectKind::Claim => "persistentvolumeclaim",
            ObjectKind::Volume => "persistentvolume",
            ObjectKind::RuntimeClass => "runtimeclass",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::ConfigMap => "ConfigMap",
            ObjectKind::Secret => "Secret",
            ObjectKind::Claim => "PersistentVolumeClaim",
            ObjectKind::Volume => "PersistentVolume",
            ObjectKind::RuntimeClass => "RuntimeClass",
        }
    }
}

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ref {
    pub kind: ObjectKind,
    pub namespace: String,
    pub name: String,
}

/// The bytes of each key. All files made from a key share the same bytes.
pub type KeyedBytes = BTreeMap<String, Arc<[u8]>>;

/// The data of a ConfigMap or Secret that pods are given.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Object {
    /// A stamp over the whole object: equal stamps are equal objects.
    pub stamp: String,
    /// The type of a Secret.
    pub type_name: String,
    /// The uid of a Secret, which tells it from a later Secret of that name. No part of the stamp.
    pub uid: String,
    pub data: KeyedBytes,
    /// A ConfigMap's bytes that are no text: they become files, and no variables.
    pub binary: KeyedBytes,
    /// The facts of a claim or a volume.
    pub facts: Value,
}

impl Object {
    /// Parts that cannot be read are left out: the master accepts no such object.
    pub fn read(kind: ObjectKind, document: &Value) -> Object {
        let texts = |field: &str| {
            let entries = document[field].as_object().into_iter().flatten();
            entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?))).collect::<Vec<_>>()
        };
        let bytes = |field: &str| {
            texts(field).into_iter().filter_map(|(key, text)| Some((key, base64::decode(text).ok()?.into()))).collect()
        };
        let mut object = Object::default();
        match kind {
            ObjectKind::ConfigMap => {
                object.data = texts("data").into_iter().map(|(key, text)| (key, text.as_bytes().into())).collect();
                object.binary = bytes("binaryData");
            }
            ObjectKind::Secret => {
                document["type"].as_str().unwrap_or_default().clone_into(&mut object.type_name);
                object.data = bytes("data");
            }
            ObjectKind::Claim | ObjectKind::Volume | ObjectKind::RuntimeClass => object.facts = facts(kind, document),
        }
        object.stamp = hash_text(&object.document(kind).to_string());
        if kind == ObjectKind::Secret {
            document["metadata"]["uid"].as_str().unwrap_or_default().clone_into(&mut object.uid);
        }
        object
    }

    /// As the API shows it.
    pub fn document(&self, kind: ObjectKind) -> Value {
        let encoded = |map: &KeyedBytes| -> Value {
            map.iter().map(|(key, bytes)| (key.clone(), Value::String(base64::encode(bytes)))).collect()
        };
        let plain = |map: &KeyedBytes| -> Value {
            map.iter()
                .map(|(key, bytes)| (key.clone(), Value::String(String::from_utf8_lossy(bytes).into_owned())))
                .collect()
        };
        match kind {
            ObjectKind::ConfigMap => json!({"data": plain(&self.data), "binaryData": encoded(&self.binary)}),
            ObjectKind::Secret if self.uid.is_empty() => {
                json!({"type": self.type_name, "data": encoded(&self.data)})
            }
            ObjectKind::Secret => {
                json!({"metadata": {"uid": self.uid}, "type": self.type_name, "data": encoded(&self.data)})
            }
            ObjectKind::Claim | ObjectKind::Volume | ObjectKind::RuntimeClass => self.facts.clone(),
        }
    }

    /// A token in the form of a Secret, for the disk.
    pub fn of_token(token: &str) -> Object {
        Object {
            stamp: hash_text(token),
            data: [(TOKEN.to_owned(), token.as_bytes().into())].into(),
            ..Object::default()
        }
    }

    pub fn token(&self) -> Arc<str> {
        String::from_utf8_lossy(self.data.get(TOKEN).map(Arc::as_ref).unwrap_or_default()).into()
    }

    /// The bytes that a key has as a file.
    pub fn file(&self, key: &str) -> Option<&Arc<[u8]>> {
        self.data.get(key).or_else(|| self.binary.get(key))
    }
}

/// Its content stands in no log.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.data.keys()).entries(self.binary.keys()).finish()
    }
}

/// The fields of a claim or a volume that matter here.
fn facts(kind: ObjectKind, document: &Value) -> Value {
    let spec = &document["spec"];
    match kind {
        ObjectKind::RuntimeClass => json!({"handler": document["handler"]}),
        ObjectKind::Claim => claim_facts(document),
        ObjectKind::Volume => json!({"spec": spec}),
        ObjectKind::ConfigMap | ObjectKind::Secret => Value::Null,
    }
}

fn claim_facts(document: &Value) -> Value {
    let (meta, spec, status) = (&document["metadata"], &document["spec"], &document["status"]);
    let mut facts = json!({
            "metadata": {
                "uid": meta["uid"], "deletionTimestamp": meta["deletionTimestamp"], "finalizers": meta["finalizers"],
                "ownerReferences": meta["ownerReferences"],
            },
            "spec": {"volumeName": spec["volumeName"]},
            "status": {"phase": status["phase"]},
            // Of a file.
            "directory": document["directory"],
    });
    let annotations = meta["annotations"].as_object().into_iter().flatten();
    let of_backups = annotations.filter(|(key, _)| key.starts_with(BACKUP));
    let of_backups: serde_json::Map<_, _> = of_backups.map(|(key, value)| (key.clone(), value.clone())).collect();
    if !of_backups.is_empty() {
        facts["metadata"]["annotations"] = of_backups.into();
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_read_as_it_was_written() {
        let check = |kind: ObjectKind, document: Value| {
            let read = Object::read(kind, &document);
            assert_eq!(Object::read(kind, &read.document(kind)), read);
            read
        };
        let map = check(ObjectKind::ConfigMap, json!({"data": {"a": "1"}, "binaryData": {"b": "AP8="}}));
        let file = |object: &Object, key: &str| object.file(key).map(|bytes| bytes.to_vec());
        assert_eq!((file(&map, "a"), file(&map, "b"), file(&map, "c")), (Some(vec![b'1']), Some(vec![0, 255]), None));
        let claim = check(
            ObjectKind::Claim,
            json!({"metadata": {"uid": "u", "name": "c"}, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}),
        );
        assert_eq!(claim.facts["spec"]["volumeName"], "v");
        let volume =
            check(ObjectKind::Volume, json!({"metadata": {"name": "v"}, "spec": {"hostPath": {"path": "/x"}}}));
        assert_eq!(volume.facts["spec"]["hostPath"]["path"], "/x");
        let secret = check(ObjectKind::Secret, json!({"type": "Opaque", "data": {"a": "AP8="}}));
        assert_eq!((file(&secret, "a"), secret.type_name.as_str()), (Some(vec![0, 255]), "Opaque"));
        assert!(!format!("{secret:?}").contains("255"), "content stands in no log");
    }
}

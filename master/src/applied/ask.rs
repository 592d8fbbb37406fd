//! Applies and deletes objects, by requests as clients send them: each goes the way of HTTP through authorization,
//! admission and the audit log.

use super::manifest::Named;
use crate::store::Stored;
use bytes::Bytes;
use coracle_api::kinds::{Kind, Kinds};
use coracle_api::meta::Key;
use coracle_http::{Answer, Body, Caller, HeaderMap, HeaderValue, Identity, Method, Request, header};
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;

/// Answers a request; what serves the ports.
pub type Serving = Box<dyn Fn(&Request) -> Answer + Send>;

/// The manager of the fields that files set.
pub const MANAGER: &str = "coracle-apply";
/// The manager of the ConfigMaps of the inventory.
const INVENTORY_MANAGER: &str = "coracle-apply-inventory";
/// The identity in the audit log.
const USER: &str = "system:apply";

pub struct Asker {
    serving: Serving,
    identity: Arc<Identity>,
}

/// An answer.
#[derive(Debug, Default)]
pub struct Reply {
    pub code: u16,
    pub document: Value,
}

impl Reply {
    pub fn is_well(&self) -> bool {
        (200..300).contains(&self.code)
    }

    pub fn text(&self, path: &[&str]) -> &str {
        path.iter().fold(&self.document, |value, field| &value[*field]).as_str().unwrap_or_default()
    }

    pub fn message(&self) -> String {
        match self.text(&["message"]) {
            "" => format!("the master answers {}", self.code),
            message => message.to_owned(),
        }
    }

    /// Other managers own fields that the file sets otherwise.
    pub fn is_conflict_of_fields(&self) -> bool {
        let mut causes = self.document["details"]["causes"].as_array().into_iter().flatten();
        self.code == 409 && causes.any(|cause| cause["reason"] == "FieldManagerConflict")
    }
}

impl Asker {
    pub fn new(serving: Serving) -> Asker {
        let identity = Identity { user: USER.to_owned(), ..Identity::administrator() };
        Asker { serving, identity: Arc::new(identity) }
    }

    /// Applies the document of a file.
    pub fn apply(&self, kind: &Kind, named: &Named, key: &Key, json: &str) -> Reply {
        let path = path(kind, &key.namespace, &named.name);
        // A namespace says nothing of an object that belongs to none, and charts write one all the same.
        let outside = (key.namespace.is_empty() && !named.namespace.is_empty()).then(|| {
            let mut object: Value = serde_json::from_str(json).unwrap_or_default();
            if let Some(meta) = object["metadata"].as_object_mut() {
                meta.remove("namespace");
            }
            object.to_string()
        });
        let body = outside.unwrap_or_else(|| json.to_owned());
        self.send(Method::PATCH, &format!("{path}?fieldManager={MANAGER}&fieldValidation=Strict"), APPLY, body)
    }

    /// Deletes this very object: another with its name stays.
    pub fn delete(&self, kind: &Kind, key: &Key, uid: &str) -> Reply {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": {"uid": uid}, "propagationPolicy": "Background",
        });
        self.send(Method::DELETE, &path(kind, &key.namespace, &key.name), JSON, options.to_string())
    }

    /// Writes a ConfigMap of the inventory, whoever has changed it meanwhile; None: it goes.
    pub fn keep(&self, namespace: &str, name: &str, map: Option<&Value>) -> Reply {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
        match map {
            Some(map) => {
                let target = format!("{path}?fieldManager={INVENTORY_MANAGER}&force=true");
                self.send(Method::PATCH, &target, APPLY, map.to_string())
            }
            None => self.send(Method::DELETE, &path, JSON, String::new()),
        }
    }

    /// An event; one that cannot be stored is no reason for anything.
    pub fn tell(&self, event: &Value) {
        let namespace = event["metadata"]["namespace"].as_str().unwrap_or_default();
        let reply = self.send(Method::POST, &format!("/api/v1/namespaces/{namespace}/events"), JSON, event.to_string());
        if !reply.is_well() {
            log::debug!("event: {}", reply.message());
        }
    }

    fn send(&self, method: Method, target: &str, content_type: &'static str, body: String) -> Reply {
        let Ok(target) = target.parse() else {
            return Reply { code: 400, document: json!({"message": format!("{target:?} is no path")}) };
        };
        let headers = HeaderMap::from_iter([
            (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
            (header::ACCEPT, HeaderValue::from_static(JSON)),
            (header::USER_AGENT, HeaderValue::from_static(MANAGER)),
        ]);
        let (caller, identity) = (Caller::Local, self.identity.clone());
        let answer = (self.serving)(&Request { method, target, headers, body: Bytes::from(body), caller, identity });
        let code = answer.status.as_u16();
        let document = match answer.body {
            Body::Whole(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            _ => Value::Null,
        };
        Reply { code, document }
    }
}

const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

/// The path of an object, in the version of the kind's row.
fn path(kind: &Kind, namespace: &str, name: &str) -> String {
    let root = match &*kind.resource.group {
        "" => format!("/api/{}", kind.version),
        group => format!("/apis/{group}/{}", kind.version),
    };
    let place = if namespace.is_empty() { String::new() } else { format!("/namespaces/{}", escaped(namespace)) };
    format!("{root}{place}/{}/{}", kind.resource.plural, escaped(name))
}

fn escaped(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

/// The kind as which an object of this key is deleted.
pub fn kind_of<'k>(kinds: &'k Kinds, key: &Key) -> Option<&'k Kind> {
    kinds.by_resource(&key.resource)
}

/// An event about an object.
pub fn event(
    (kind, key, uid): (&Kind, &Key, &str),
    (severity, reason, message): (&str, &str, &str),
    (now, unique): (&str, u64),
) -> Value {
    /// Bytes of a message that are told.
    const MESSAGE_BYTES_MAX: usize = 1024;
    let namespace = if key.namespace.is_empty() { "default" } else { &key.namespace };
    let end = (0..=MESSAGE_BYTES_MAX.min(message.len())).rev().find(|end| message.is_char_boundary(*end));
    let mut about = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "name": key.name});
    for (field, text) in [("namespace", key.namespace.as_str()), ("uid", uid)] {
        if !text.is_empty() {
            about[field] = text.into();
        }
    }
    let name: String = key.name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-' || *c == '.').collect();
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{}.{unique:016x}", name.to_lowercase()), "namespace": namespace},
        "involvedObject": about,
        "type": severity, "reason": reason, "message": &message[..end.unwrap_or_default()],
        "source": {"component": MANAGER}, "reportingComponent": MANAGER, "reportingInstance": "",
        "eventTime": null, "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    })
}

/// What a decision has to know of an object.
pub fn live(stored: &Stored) -> super::decide::Live {
    let object: Value = serde_json::from_slice(&stored.json).unwrap_or_default();
    let meta = &object["metadata"];
    let mut managers = meta["managedFields"].as_array().into_iter().flatten();
    super::decide::Live {
        uid: meta["uid"].as_str().unwrap_or_default().to_owned(),
        prunes: meta["annotations"][super::removal::PRUNE] == "true",
        is_ours: managers.any(|one| one["manager"] == MANAGER && one["operation"] == "Apply"),
        is_ending: meta["deletionTimestamp"].is_string(),
    }
}

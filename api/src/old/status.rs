//! The Status reply: flat like everything in the flat versions, and `details.id` where v1 has `details.name`.

use super::Version;
use serde_json::{Map, Value, json};

/// A v1 Status as an older version shows it.
pub fn encode_status(version: Version, v1: &Value) -> Value {
    let mut status = Map::new();
    status.insert("kind".to_owned(), json!("Status"));
    status.insert("apiVersion".to_owned(), json!(version.name()));
    match version.is_flat() {
        true => status.insert("creationTimestamp".to_owned(), Value::Null),
        false => status.insert("metadata".to_owned(), json!({})),
    };
    for name in ["status", "message", "reason", "code"] {
        if let Some(value) = v1.get(name).filter(|value| !value.is_null() && *value != "") {
            status.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(Value::Object(details)) =
        v1.get("details").filter(|details| details.as_object().is_some_and(|d| !d.is_empty()))
    {
        let details: Map<String, Value> = details
            .iter()
            .filter(|(name, _)| ["name", "kind", "causes", "retryAfterSeconds"].contains(&name.as_str()))
            .map(|(name, value)| (if name == "name" { "id" } else { name }.to_owned(), value.clone()))
            .collect();
        status.insert("details".to_owned(), Value::Object(details));
    }
    Value::Object(status)
}

/// The answer to a DELETE: a Status that also says what the first documents of the API promised.
pub fn encode_deleted(version: Version, v1: &Value) -> Value {
    let mut status = encode_status(version, v1);
    if let Value::Object(status) = &mut status
        && version.is_flat()
    {
        status.insert("success".to_owned(), json!(true));
    }
    status
}

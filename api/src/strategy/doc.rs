//! Reading and writing documents by field: missing, null and empty are the same to most rules of Kubernetes.

use serde_json::{Map, Value};

/// The text at a field; empty when missing.
pub fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or_default()
}

/// The list at a field; empty when missing.
pub fn list<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    of[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The entries of the map at a field, sorted by key; none when missing.
pub fn entries<'a>(of: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    of[field].as_object().into_iter().flat_map(Map::iter)
}

/// The map of texts at a field, for labels and the like.
pub fn texts<'a>(of: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    entries(of, field).map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// The number at a field, if there is one.
pub fn number(of: &Value, field: &str) -> Option<i64> {
    of[field].as_i64()
}

/// Whether a field is there and true.
pub fn yes(of: &Value, field: &str) -> bool {
    of[field].as_bool().unwrap_or_default()
}

/// Whether a field holds something: not missing, not null.
pub fn has(of: &Value, field: &str) -> bool {
    !of[field].is_null()
}

/// Missing, null, empty text, empty list or empty map.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The map at a field, made where it is missing, for writing. A value that is no map is replaced.
pub fn map_at<'a>(of: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !of.is_object() {
        *of = Value::Object(Map::new());
    }
    let slot = &mut of[field];
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut().expect("made an object just now")
}

/// The entries of the list at a field, for writing.
pub fn list_at<'a>(of: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    of.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets a field where it is missing, null or empty text.
pub fn default_to(of: &mut Value, field: &str, value: impl Into<Value>) {
    let missing = match of.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    if missing && of.is_object() {
        of[field] = value.into();
    }
}

/// Takes a field away.
pub fn remove(of: &mut Value, field: &str) {
    if let Some(map) = of.as_object_mut() {
        map.remove(field);
    }
}

/// An object as Kubernetes shows it in a message: the fields in the order of its type. A field with a name of its own
/// in Go (`Key` for `key`) is shown even without a value.
pub fn shown(of: &Value, fields: &[&str]) -> String {
    let parts = fields.iter().filter_map(|name| {
        let field = name[..1].to_ascii_lowercase() + &name[1..];
        let of_go = field != *name;
        let value = if name.starts_with("SELinux") { &of["seLinuxOptions"] } else { &of[&field] };
        (of_go || !value.is_null()).then(|| format!("{name:?}:{value}"))
    });
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}

/// Copies a field from a document: sets the same value, or removes the field if the document has no value.
pub fn copy(to: &mut Value, from: &Value, field: &str) {
    match from.get(field).filter(|value| !value.is_null()) {
        Some(value) if to.is_object() => to[field] = value.clone(),
        Some(_) => {}
        None => remove(to, field),
    }
}

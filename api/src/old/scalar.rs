//! Scalars, lists and maps of text, read as liberally as the decoders of 2014 did.

use coracle_schema::Path;
use serde_json::{Value, json};

use super::reading::{Object, OldReading};

pub(super) fn text(value: &Value, path: &Path, seen: &mut OldReading) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        other => {
            seen.mistyped(path, other, "must be a string");
            None
        }
    }
}

pub(super) fn whole(value: &Value, path: &Path, seen: &mut OldReading) -> Option<i64> {
    let number = value.as_i64();
    if number.is_none() {
        seen.mistyped(path, value, "must be a whole number");
    }
    number
}

/// A port by number or by name. Digits in quotes are a number: no port's name is made of digits alone.
pub(super) fn port_or_name(value: &Value, path: &Path, seen: &mut OldReading) -> Option<Value> {
    match value {
        Value::String(name) if name.is_empty() => None,
        Value::String(name) => Some(name.parse::<i64>().map_or_else(|_| value.clone(), |number| json!(number)))
            .filter(|port| *port != json!(0)),
        Value::Number(number) if number.is_i64() => (number.as_i64() != Some(0)).then(|| value.clone()),
        other => {
            seen.mistyped(path, other, "must be a port number or the name of a port");
            None
        }
    }
}

pub(super) fn revision(value: &Value, path: &Path, seen: &mut OldReading) -> Option<Value> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    match number {
        Some(0) => None,
        Some(number) => Some(json!(number.to_string())),
        None if value == "" => None,
        None => {
            seen.mistyped(path, value, "must be a whole number as a read showed it");
            None
        }
    }
}

pub(super) fn texts(value: &Value, path: &Path, seen: &mut OldReading) -> Option<Value> {
    let list: Vec<Value> = match value {
        Value::Array(list) => list
            .iter()
            .enumerate()
            .filter_map(|(at, value)| text(value, &path.index(at), seen))
            .map(Value::String)
            .collect(),
        Value::Object(_) => {
            seen.mistyped(path, value, "must be a list of strings");
            return None;
        }
        scalar => text(scalar, path, seen).filter(|text| !text.is_empty()).map(Value::String).into_iter().collect(),
    };
    (!list.is_empty()).then_some(Value::Array(list))
}

pub(super) fn text_map(value: &Value, path: &Path, seen: &mut OldReading) -> Option<Value> {
    let Value::Object(from) = value else {
        seen.mistyped(path, value, "must be a map of strings");
        return None;
    };
    let mut map = Object::new();
    for (key, value) in from {
        let value = if value.is_null() { Some(String::new()) } else { text(value, &path.key(key), seen) };
        if let Some(value) = value {
            map.insert(key.clone(), Value::String(value));
        }
    }
    (!map.is_empty()).then_some(Value::Object(map))
}

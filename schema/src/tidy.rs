//! Takes out what says nothing. The built-in types are Go's, whose documents leave out an empty text, a zero and an
//! empty list where the type does not insist on the field; a document that has them means the same as one without.
//!
//! Not for types that are defined at run time: in their documents a zero is a value that the client set.

use crate::trail::DEPTH_MAX;
use crate::types::{Container, Element, Field, Types};
use serde_json::{Map, Value};

/// Takes every field that says nothing out of a document that was decoded and defaulted.
pub fn tidy(types: &Types, name: &str, value: &mut Value) {
    if let Value::Object(object) = value {
        sweep(types, name, object, 0);
    }
}

fn sweep(types: &Types, name: &str, object: &mut Map<String, Value>, depth: usize) {
    let Some(row) = types.get(name).filter(|_| depth <= DEPTH_MAX) else { return };
    object.retain(|key, value| {
        let Some(field) = row.field(key) else { return true };
        if let Element::Named(name) = &field.element {
            match (field.container, &mut *value) {
                (Container::One, Value::Object(inner)) => sweep(types, name, inner, depth + 1),
                (Container::List, Value::Array(list)) => each(types, name, list.iter_mut(), depth + 2),
                (Container::Map, Value::Object(map)) => each(types, name, map.values_mut(), depth + 2),
                _ => {}
            }
        }
        if field.rules.default.as_deref() == Some("null") && is_empty(value) {
            *value = Value::Null;
        }
        !says_nothing(field, value)
    });
}

fn each<'v>(types: &Types, name: &str, entries: impl Iterator<Item = &'v mut Value>, depth: usize) {
    for entry in entries {
        if let Value::Object(inner) = entry {
            sweep(types, name, inner, depth);
        }
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

fn says_nothing(field: &Field, value: &Value) -> bool {
    if field.rules.declared || field.rules.pointer || field.rules.default.is_some() {
        return false;
    }
    if field.container != Container::One {
        return is_empty(value);
    }
    match (&field.element, value) {
        (Element::Text | Element::Bytes, Value::String(text)) => text.is_empty(),
        (Element::Bool, Value::Bool(yes)) => !yes,
        (Element::Int32 | Element::Int64, Value::Number(number)) => number.as_i64() == Some(0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_says_nothing_goes() {
        let text = "
[Pod]
  name 1 string declared
  host 2 bool
  grace 3 int64 pointer
  priority 4 int32
  rules 5 [string] default=null
  args 6 [string]
  labels 7 {string}
  source 8 Source
  ports 9 [Source]
  port 10 intorstring
[Source]
  path 1 string
";
        let types = Types::parse(text, &Types::default()).unwrap();
        for (document, expected) in [
            (
                json!({"name": "", "host": false, "grace": 0, "priority": 0, "args": [], "labels": {}}),
                json!({"name": "", "grace": 0}),
            ),
            (
                json!({"rules": [], "source": {"path": ""}, "ports": [{"path": ""}]}),
                json!({"rules": null, "source": {}, "ports": [{}]}),
            ),
            (
                json!({"labels": {"a": ""}, "args": [""], "port": 0, "host": true}),
                json!({"labels": {"a": ""}, "args": [""], "port": 0, "host": true}),
            ),
        ] {
            let mut value = document.clone();
            tidy(&types, "Pod", &mut value);
            assert_eq!(value, expected, "{document}");
            let once = value.clone();
            tidy(&types, "Pod", &mut value);
            assert_eq!(value, once);
        }
    }
}

//! Writes out what a missing field means. Only what does not depend on other fields stands in the types; the rest is
//! each kind's strategy.

use crate::trail::DEPTH_MAX;
use crate::types::{Container, Element, Field, Types};
use serde_json::{Map, Value};

/// Sets every missing field that has a default, everywhere in a document that was decoded.
pub fn default(types: &Types, name: &str, value: &mut Value) {
    if let Value::Object(object) = value {
        fill(types, name, object, 0);
    }
}

fn fill(types: &Types, name: &str, object: &mut Map<String, Value>, depth: usize) {
    let Some(row) = types.get(name).filter(|_| depth <= DEPTH_MAX) else { return };
    for field in row.fields.iter() {
        if let Some(default) =
            field.rules.default.as_deref().filter(|default| is_missing(field, object.get(&*field.name), default))
        {
            // The text was read when the types were parsed.
            let default = serde_json::from_str(default).unwrap_or(Value::Null);
            object.insert(field.name.to_string(), default);
        }
        let Element::Named(name) = &field.element else { continue };
        match (field.container, object.get_mut(&*field.name)) {
            (Container::One, Some(Value::Object(inner))) => fill(types, name, inner, depth + 1),
            (Container::List, Some(Value::Array(list))) => each(types, name, list.iter_mut(), depth + 2),
            (Container::Map, Some(Value::Object(map))) => each(types, name, map.values_mut(), depth + 2),
            (Container::MapOfLists, Some(Value::Object(map))) => {
                each(types, name, map.values_mut().filter_map(Value::as_array_mut).flatten(), depth + 3);
            }
            _ => {}
        }
    }
}

fn each<'v>(types: &Types, name: &str, entries: impl Iterator<Item = &'v mut Value>, depth: usize) {
    for entry in entries {
        if let Value::Object(inner) = entry {
            fill(types, name, inner, depth);
        }
    }
}

/// Missing, null, an empty text where the default is a text, and zero where zero says nothing. What a pointer holds is
/// said.
fn is_missing(field: &Field, value: Option<&Value>, default: &str) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty() && default.starts_with('"') && !field.rules.pointer,
        Some(Value::Number(number)) => field.rules.zero_is_missing && number.as_i64() == Some(0),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_is_written_out() {
        let text = "
[Pod]
  spec 1 Spec default={}
[Spec]
  policy 1 string default=\"Always\"
  grace 2 int64 default=30
  probes 3 [Probe]
  named 4 {Probe}
  mode 5 string default=\"File\" pointer
[Probe]
  period 1 int32 default=10 nonzero
";
        let types = Types::parse(text, &Types::default()).unwrap();
        for (document, expected) in [
            (json!({}), json!({"spec": {"policy": "Always", "grace": 30, "mode": "File"}})),
            (
                json!({"spec": {"policy": "", "grace": 0, "mode": ""}}),
                json!({"spec": {"policy": "Always", "grace": 0, "mode": ""}}),
            ),
            (
                json!({
                    "spec": {
                        "policy": "Never", "grace": null, "mode": null, "probes": [{"period": 0}, {}],
                        "named": {"a": {"period": 7}, "b": {}},
                    },
                }),
                json!({"spec": {"policy": "Never", "grace": 30, "mode": "File",
                    "probes": [{"period": 10}, {"period": 10}],
                    "named": {"a": {"period": 7}, "b": {"period": 10}}}}),
            ),
            (json!([]), json!([])),
        ] {
            let mut value = document.clone();
            default(&types, "Pod", &mut value);
            assert_eq!(value, expected, "{document}");
        }
    }
}

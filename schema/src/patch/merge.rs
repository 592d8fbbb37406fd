//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

/// Lays a patch over a document: null takes a field away, an object goes deeper, anything else is put in its place.
pub fn merge(document: &mut Value, patch: Value) {
    let Value::Object(fields) = patch else {
        *document = patch;
        return;
    };
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let Value::Object(standing) = document else { return };
    for (name, value) in fields {
        if value.is_null() {
            standing.remove(&name);
        } else {
            merge(standing.entry(name).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Chance;
    use super::*;
    use serde_json::json;

    #[test]
    fn the_examples_of_the_standard() {
        for (document, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let mut merged = document.clone();
            merge(&mut merged, patch.clone());
            assert_eq!(merged, expected, "{document} and {patch}");
        }
    }

    /// Laid over its own result a patch changes nothing, and no field of it is null there.
    #[test]
    fn again_changes_nothing() {
        let mut chance = Chance(7);
        for _ in 0..20_000 {
            let (mut document, patch) = (chance.value(4), chance.value(4));
            merge(&mut document, patch.clone());
            let once = document.clone();
            merge(&mut document, patch.clone());
            assert_eq!(document, once, "{patch}");
        }
    }
}

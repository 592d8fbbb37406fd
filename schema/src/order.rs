//! JSON text with fields in the order of their types, as Go writes its structs: clients find it in a few messages.
//!
//! What a patch has gone into Go holds as maps, whose keys it sorts; all the rest it keeps as it was written.

use crate::types::{Container, Element, Field, Type, Types};
use serde_json::Value;

/// A field that is written behind a second field in spite of their numbers: type, field, second field.
pub type MovedField = (&'static str, &'static str, &'static str);

/// `touched`: nested objects, with an object for each level of the document that a patch entered. None: no level.
pub fn in_type_order(
    types: &Types,
    name: &str,
    value: &Value,
    touched: Option<&Value>,
    moved: &[MovedField],
) -> String {
    let mut text = String::new();
    let writer = Writer { types, moved };
    writer.object(types.get(name), value, touched, &mut text);
    text
}

struct Writer<'t> {
    types: &'t Types,
    moved: &'t [MovedField],
}

impl Writer<'_> {
    fn object(&self, row: Option<&Type>, value: &Value, touched: Option<&Value>, text: &mut String) {
        let Value::Object(fields) = value else { return text.push_str(&value.to_string()) };
        let touched = touched.and_then(Value::as_object);
        let mut names: Vec<&String> = fields.keys().collect();
        if let Some(row) = row.filter(|_| touched.is_none()) {
            names.sort_by_key(|name| self.place(row, name));
        }
        text.push('{');
        for (at, name) in names.into_iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(&Value::from(name.as_str()).to_string());
            text.push(':');
            let inside = touched.and_then(|touched| touched.get(name));
            match row.and_then(|row| row.field(name)) {
                Some(field) => self.field(field, &fields[name], inside, text),
                None => text.push_str(&fields[name].to_string()),
            }
        }
        text.push('}');
    }

    fn field(&self, field: &Field, value: &Value, touched: Option<&Value>, text: &mut String) {
        let row = match &field.element {
            Element::Named(name) => self.types.get(name),
            _ => None,
        };
        match (field.container, value) {
            (Container::One, value) if row.is_some() => self.object(row, value, touched, text),
            (Container::List, Value::Array(entries)) if row.is_some() => {
                text.push('[');
                for (at, entry) in entries.iter().enumerate() {
                    if at > 0 {
                        text.push(',');
                    }
                    self.object(row, entry, touched.and_then(|touched| touched.get(at.to_string())), text);
                }
                text.push(']');
            }
            _ => text.push_str(&value.to_string()),
        }
    }

    /// `kind` comes before `apiVersion`, unnumbered both.
    fn place(&self, row: &Type, name: &str) -> ([u16; 3], bool, bool) {
        let way = |name: &str| row.field(name).map_or([u16::MAX, 0, 0], Field::way);
        let behind = self.moved.iter().find(|(kind, field, _)| *kind == row.name && *field == name);
        match behind {
            Some((_, _, before)) => (way(before), true, false),
            None => (way(name), false, name == "apiVersion"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn as_go_writes_it() {
        let text = "
[Pod]
  apiVersion 0 string
  kind 0 string
  metadata 1 Meta
  spec 2 Spec
[Meta]
  name 1 string
  labels 2 {string}
  annotations 3 {string}
[Spec]
  volumes 1 [Meta]
  late 2 string
  early 3 string
";
        let types = Types::parse(text, &Types::default()).unwrap();
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"annotations": {"b": "", "a": ""}, "labels": {}, "name": "n"},
            "spec": {"early": "e", "late": "l", "volumes": [{"annotations": {}, "name": "v"}]}, "other": 1});
        let written =
            |touched: Option<&Value>| in_type_order(&types, "Pod", &pod, touched, &[("Spec", "early", "volumes")]);
        let spec = r#""spec":{"volumes":[{"name":"v","annotations":{}}],"early":"e","late":"l"}"#;
        let meta = r#""metadata":{"name":"n","labels":{},"annotations":{"a":"","b":""}}"#;
        assert_eq!(written(None), format!(r#"{{"kind":"Pod","apiVersion":"v1",{meta},{spec},"other":1}}"#));
        let touched = json!({"metadata": {"labels": "x"}});
        let meta = r#""metadata":{"annotations":{"a":"","b":""},"labels":{},"name":"n"}"#;
        assert_eq!(written(Some(&touched)), format!(r#"{{"apiVersion":"v1","kind":"Pod",{meta},"other":1,{spec}}}"#));
    }
}

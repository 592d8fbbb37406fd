//! Types as OpenAPI tells them: one schema a type, in the words of version 2 and of version 3.
//!
//! Types that JSON shows as a text or a number have schemas of their own (`COMMON`), which clients know by name.

use crate::types::{Container, Element, Field, Merge, Type, Types};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_TEXT: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const RAW: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
/// The types that every document may name.
pub const COMMON: [&str; 5] = [QUANTITY, MICRO_TIME, TIME, RAW, INT_OR_TEXT];

/// The version of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// A schema by its name.
    pub fn reference(self, name: &str) -> Value {
        match self {
            Dialect::V2 => json!({"$ref": format!("#/definitions/{name}")}),
            Dialect::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
        }
    }
}

/// The OpenAPI name of a type: `io.k8s.api.core.v1.Pod`.
pub fn name(row: &Type) -> String {
    if row.package.is_empty() { row.short().to_owned() } else { format!("{}.{}", row.package, row.short()) }
}

/// Types by name, each with the table that it was found in.
pub type Closure<'t> = BTreeMap<&'t str, &'t Types>;

/// Adds these types and all that they name, directly or through others. Names that are no type are left out.
pub fn close<'t>(types: &'t Types, names: impl IntoIterator<Item = String>, found: &mut Closure<'t>) {
    let mut left: Vec<&'t Type> = names.into_iter().filter_map(|name| types.get(&name)).collect();
    while let Some(row) = left.pop() {
        if found.insert(&*row.name, types).is_none() {
            left.extend(row.fields.iter().filter_map(|field| match &field.element {
                Element::Named(name) => types.get(name),
                _ => None,
            }));
        }
    }
}

/// One of `COMMON`.
pub fn common(dialect: Dialect, name: &str) -> Value {
    match (name, dialect) {
        (TIME | MICRO_TIME, _) => json!({"type": "string", "format": "date-time"}),
        (QUANTITY, Dialect::V2) => json!({"type": "string"}),
        (QUANTITY, Dialect::V3) => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        (INT_OR_TEXT, Dialect::V2) => json!({"type": "string", "format": "int-or-string"}),
        (INT_OR_TEXT, Dialect::V3) => {
            json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"})
        }
        _ => json!({"type": "object"}),
    }
}

/// The schema of a type.
pub fn schema(types: &Types, dialect: Dialect, row: &Type) -> Value {
    let mut schema = json!({"type": "object"});
    let prose = types.prose(&row.name);
    if !prose.is_empty() {
        schema["description"] = json!(prose);
    }
    let properties: Map<String, Value> =
        row.fields.iter().map(|field| (field.name.to_string(), property(types, dialect, row, field))).collect();
    if !properties.is_empty() {
        schema["properties"] = properties.into();
    }
    let required: Vec<&str> = row
        .fields
        .iter()
        .filter(|field| field.rules.required || field.rules.declared)
        .map(|field| &*field.name)
        .collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if row.atomic {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    schema
}

fn property(types: &Types, dialect: Dialect, row: &Type, field: &Field) -> Value {
    let rule = &*field.rules;
    let mut inner = element(types, dialect, &field.element);
    if !rule.choices.is_empty()
        && let Value::Object(inner) = &mut inner
    {
        inner.insert("enum".to_owned(), json!(rule.choices));
    }
    let mut outer = Map::new();
    match field.container {
        Container::One => {}
        Container::List => drop(outer.insert("items".to_owned(), inner.take())),
        Container::Map => drop(outer.insert("additionalProperties".to_owned(), inner.take())),
        Container::MapOfLists => {
            let list = json!({"type": "array", "items": inner.take(), "x-kubernetes-list-type": "atomic"});
            outer.insert("additionalProperties".to_owned(), list);
        }
    }
    match field.container {
        Container::One => {}
        Container::List => drop(outer.insert("type".to_owned(), json!("array"))),
        Container::Map | Container::MapOfLists => drop(outer.insert("type".to_owned(), json!("object"))),
    }
    merging(field, &mut outer);
    let prose = types.prose(&format!("{}.{}", row.name, field.name));
    if !prose.is_empty() {
        outer.insert("description".to_owned(), json!(prose));
    }
    if let Some(default) = rule
        .default
        .as_deref()
        .and_then(|json| serde_json::from_str::<Value>(json).ok())
        .filter(|value| !value.is_null())
    {
        outer.insert("default".to_owned(), default);
    }
    beside(dialect, inner, outer)
}

/// In version 3 nothing may stand beside a reference.
fn beside(dialect: Dialect, inner: Value, mut outer: Map<String, Value>) -> Value {
    match inner {
        Value::Object(inner) if dialect == Dialect::V3 && inner.contains_key("$ref") && !outer.is_empty() => {
            outer.insert("allOf".to_owned(), json!([inner]));
        }
        Value::Object(inner) => outer.extend(inner),
        _ => {}
    }
    outer.into()
}

fn element(types: &Types, dialect: Dialect, element: &Element) -> Value {
    match element {
        Element::Text => json!({"type": "string"}),
        Element::Bool => json!({"type": "boolean"}),
        Element::Int32 => json!({"type": "integer", "format": "int32"}),
        Element::Int64 => json!({"type": "integer", "format": "int64"}),
        Element::Float => json!({"type": "number", "format": "double"}),
        Element::Bytes => json!({"type": "string", "format": "byte"}),
        Element::Time => dialect.reference(TIME),
        Element::MicroTime => dialect.reference(MICRO_TIME),
        Element::Quantity => dialect.reference(QUANTITY),
        Element::IntOrText => dialect.reference(INT_OR_TEXT),
        Element::Any => dialect.reference(RAW),
        Element::Named(named) => {
            types.get(named).map_or_else(|| json!({"type": "object"}), |row| dialect.reference(&name(row)))
        }
    }
}

/// How entries of two versions belong together.
fn merging(field: &Field, outer: &mut Map<String, Value>) {
    let mut tell = |word: &str, value: Value| drop(outer.insert(format!("x-kubernetes-{word}"), value));
    match (&field.rules.merge, field.container) {
        (Merge::Keys(keys), _) => {
            tell("list-type", json!("map"));
            tell("list-map-keys", json!(keys));
        }
        (Merge::Set, _) => tell("list-type", json!("set")),
        (Merge::Plain | Merge::Atomic, Container::List) => tell("list-type", json!("atomic")),
        (Merge::Atomic, _) => tell("map-type", json!("atomic")),
        (Merge::Granular, _) => tell("map-type", json!("granular")),
        (Merge::Plain, _) => {}
    }
    let patch = &*field.rules.patch;
    if !patch.is_empty() {
        let (strategy, key) = patch.split_once(':').unwrap_or((patch, ""));
        tell("patch-strategy", json!(strategy));
        if !key.is_empty() {
            tell("patch-merge-key", json!(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
package = io.k8s.api.core.v1
[Pod]
  spec 1 Spec default={} -- what is asked for
  when 2 time
  owner 3 Spec granular
[Spec atomic] -- how to run
  policy 1 string declared default=\"Always\" enum=Always|Never
  ports 2 [Port] keys=number,protocol patch=merge:number
  words 3 [string] set
  extra 4 {[string]}
  choice 5 {string} atomic
  many 6 [int64]
[Port]
  number 1 int32 required
";

    #[test]
    fn as_clients_read_it() {
        let types = Types::parse(TEXT, &Types::default()).unwrap();
        let check = |dialect, row: &str, expected: Value| {
            assert_eq!(schema(&types, dialect, types.get(row).unwrap()), expected, "{row}")
        };
        check(
            Dialect::V3,
            "Pod",
            json!({"type": "object", "properties": {
                "spec": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Spec"}], "default": {},
                    "description": "what is asked for"},
                "when": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Time"},
                "owner": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Spec"}],
                    "x-kubernetes-map-type": "granular"},
            }}),
        );
        check(
            Dialect::V2,
            "Spec",
            json!({"type": "object", "description": "how to run", "x-kubernetes-map-type": "atomic",
                "required": ["policy"], "properties": {
                "policy": {"type": "string", "default": "Always", "enum": ["Always", "Never"]},
                "ports": {"type": "array", "items": {"$ref": "#/definitions/io.k8s.api.core.v1.Port"},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["number", "protocol"], "x-kubernetes-patch-strategy": "merge",
                    "x-kubernetes-patch-merge-key": "number"},
                "words": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "extra": {"type": "object", "additionalProperties":
                    {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}},
                "choice": {"type": "object", "additionalProperties": {"type": "string"},
                    "x-kubernetes-map-type": "atomic"},
                "many": {"type": "array", "items": {"type": "integer", "format": "int64"},
                    "x-kubernetes-list-type": "atomic"},
            }}),
        );
        let mut found = Closure::new();
        close(&types, ["Pod".to_owned(), "Nothing".to_owned()], &mut found);
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["Pod", "Port", "Spec"]);
    }
}

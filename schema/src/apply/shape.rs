//! Walks two versions of a document together, position by position, by type.

use super::fields;
use crate::types::{Container, Element, Field, Merge, Type, Types};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// A position in a document, by its type.
#[derive(Clone, Copy)]
pub enum Position<'t> {
    Root(&'t Type),
    /// A field's value.
    Field(&'t Field),
    /// An entry of a field's list or map.
    Entry(&'t Field),
    /// Inside an entry of a map of lists: nobody looks there.
    Anything,
}

/// How two versions of a place meet.
pub enum Shape<'t> {
    Scalar(Scalar),
    /// Replaced as a whole. `Whole` names the expected value, for messages.
    Whole(Whole),
    /// Field by field.
    Fields(&'t Type),
    /// Key by key.
    Keys(&'t Field),
    Set(&'t Field),
    /// Entries by the values of these of their fields.
    List(&'t Field, &'t [Cow<'static, str>]),
}

#[derive(Clone, Copy, PartialEq)]
pub enum Scalar {
    Text,
    Number,
    Bool,
    /// A text or a number: quantities, ports by name.
    Either,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Whole {
    Map,
    List,
    Anything,
}

impl<'t> Position<'t> {
    pub fn shape(self, types: &'t Types) -> Shape<'t> {
        let (field, container) = match self {
            Position::Root(row) => return Shape::Fields(row),
            Position::Anything => return Shape::Whole(Whole::Anything),
            Position::Field(field) => (field, field.container),
            // Entries of a map of lists are lists.
            Position::Entry(field) if field.container == Container::MapOfLists => return Shape::Whole(Whole::List),
            Position::Entry(field) => (field, Container::One),
        };
        let merge = &field.rules.merge;
        match container {
            Container::One => element(types, field, matches!(self, Position::Field(_))),
            Container::List => match merge {
                Merge::Set => Shape::Set(field),
                Merge::Keys(keys) => Shape::List(field, keys),
                Merge::Plain | Merge::Atomic | Merge::Granular => Shape::Whole(Whole::List),
            },
            Container::Map | Container::MapOfLists if *merge == Merge::Atomic => Shape::Whole(Whole::Map),
            Container::Map | Container::MapOfLists => Shape::Keys(field),
        }
    }
}

fn element<'t>(types: &'t Types, field: &'t Field, own_rule: bool) -> Shape<'t> {
    match &field.element {
        Element::Named(name) => match types.get(name) {
            None => Shape::Whole(Whole::Anything),
            Some(row) => {
                let whole = match field.rules.merge {
                    Merge::Atomic if own_rule => true,
                    Merge::Granular => false,
                    _ => row.atomic,
                };
                if whole { Shape::Whole(Whole::Map) } else { Shape::Fields(row) }
            }
        },
        Element::Any => Shape::Whole(Whole::Anything),
        Element::Text | Element::Bytes => Shape::Scalar(Scalar::Text),
        Element::Bool => Shape::Scalar(Scalar::Bool),
        Element::Int32 | Element::Int64 | Element::Float => Shape::Scalar(Scalar::Number),
        Element::Quantity | Element::IntOrText | Element::Time | Element::MicroTime => Shape::Scalar(Scalar::Either),
    }
}

/// The step to an entry of a list with keys, or why the entry has no step. A missing, null or empty key counts as the
/// field's default: the object is stored with the default, and the next apply meets the stored object.
pub fn keyed(types: &Types, field: &Field, keys: &[Cow<'static, str>], entry: &Value) -> Result<String, String> {
    let Value::Object(map) = entry else {
        let what = if entry.is_null() { "a null element" } else { "non-map elements" };
        return Err(format!("associative list with keys may not have {what}"));
    };
    let row = match &field.element {
        Element::Named(name) => types.get(name),
        _ => None,
    };
    let mut step = Map::new();
    for key in keys {
        let default = || {
            let default = row.and_then(|row| row.field(key)).and_then(|field| field.rules.default.as_deref());
            default.and_then(|default| serde_json::from_str(default).ok()).filter(|value: &Value| !value.is_null())
        };
        let said = map.get(&**key).filter(|value| !value.is_null());
        let value =
            said.filter(|value| *value != "").cloned().or_else(default).or_else(|| said.cloned()).ok_or_else(|| {
                format!(
                    "associative list with keys has an element that omits key field {key:?} (and doesn't have default \
                     value)"
                )
            })?;
        step.insert(key.to_string(), value);
    }
    Ok(format!("k:{}", Value::Object(step)))
}

/// The step to an entry of a set.
pub fn member(entry: &Value) -> Result<String, String> {
    match entry {
        Value::Object(_) | Value::Array(_) | Value::Null => {
            Err("associative list without keys has an element that's a map type, a list or null".to_owned())
        }
        plain => Ok(format!("v:{plain}")),
    }
}

/// The steps to all entries of a list that is merged by entries.
pub fn steps(types: &Types, shape: &Shape<'_>, list: &[Value]) -> Result<Vec<String>, String> {
    let step = |entry| match shape {
        Shape::List(field, keys) => keyed(types, field, keys, entry),
        _ => member(entry),
    };
    list.iter().map(step).collect()
}

/// A field's step and place in an object.
pub fn child<'t>(row: &'t Type, name: &str) -> (String, Position<'t>) {
    (fields::field(name), row.field(name).map_or(Position::Anything, Position::Field))
}

/// A document of a type in which nothing is set, with the fields that are written all the same.
pub fn zero(types: &Types, name: &str) -> Value {
    Value::Object(types.get(name).map(|row| zero_of(types, row, 0)).unwrap_or_default())
}

fn zero_of(types: &Types, row: &Type, depth: usize) -> Map<String, Value> {
    let mut map = Map::new();
    for field in row.fields.iter().filter(|_| depth < crate::trail::DEPTH_MAX) {
        let value = match (field.rules.default.as_deref(), &field.element) {
            // A pointer that the server fills is not there before.
            (Some("{}"), Element::Named(name)) if !field.rules.pointer => {
                types.get(name).map(|row| Value::Object(zero_of(types, row, depth + 1)))
            }
            (Some("null"), _) => Some(Value::Null),
            (Some(zero @ ("\"\"" | "0" | "false")), _) if !field.rules.pointer => serde_json::from_str(zero).ok(),
            // A pointer is left out where it points nowhere.
            (None, _) if field.rules.declared && !field.rules.pointer => Some(Value::Null),
            _ => None,
        };
        if let Some(value) = value {
            map.insert(field.name.to_string(), value);
        }
    }
    map
}

//! Documents made from the types: right by their shape, with entries that a list's keys tell apart.

use super::Dice;
use coracle_schema::types::{Container, Element, Field, Merge, Type, Types};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// Types name one another, some themselves.
const DEPTH_MAX: usize = 6;

/// A document of a type with about `share` of eight of its fields.
pub fn document(types: &Types, name: &str, dice: &mut Dice, share: usize) -> Value {
    made(types, name, dice, 0, share)
}

fn made(types: &Types, name: &str, dice: &mut Dice, depth: usize, share: usize) -> Value {
    let row = types.get(name).expect("a type that is named is there");
    let mut fields = Map::new();
    for field in row.fields.iter().filter(|field| field.number > 0) {
        let too_deep = depth == DEPTH_MAX && matches!(field.element, Element::Named(_));
        if !too_deep && dice.below(8) < share {
            fields.insert(field.name.to_string(), value(types, field, dice, depth, share));
        }
    }
    Value::Object(fields)
}

fn value(types: &Types, field: &Field, dice: &mut Dice, depth: usize, share: usize) -> Value {
    let mut entry = || element(types, &field.element, dice, depth, share.min(4));
    match field.container {
        Container::One => entry(),
        Container::List => {
            let mut list = vec![entry(), entry()];
            tell_apart(field, &mut list);
            Value::Array(list)
        }
        Container::Map => json!({"a": entry(), "b.c/d": entry()}),
        Container::MapOfLists => json!({"a": [], "b": [entry(), entry()]}),
    }
}

/// Entries that belong to one another by keys have all of them, and different ones.
fn tell_apart(field: &Field, list: &mut Vec<Value>) {
    let patch_key = field.rules.patch.split_once(':').map_or("", |(_, key)| key);
    let keys: Vec<&str> = match &field.rules.merge {
        Merge::Keys(keys) => keys.iter().map(|key| &**key).chain([patch_key]).filter(|key| !key.is_empty()).collect(),
        _ if patch_key.is_empty() => Vec::new(),
        _ => vec![patch_key],
    };
    for (at, entry) in list.iter_mut().enumerate() {
        let Some(fields) = entry.as_object_mut() else { continue };
        for key in &keys {
            let number = ["containerPort", "port", "hostPort"].contains(key);
            fields.insert((*key).to_owned(), if number { json!(at + 1) } else { json!(format!("k{at}")) });
        }
    }
    // A set of plain values holds none twice.
    if !list[0].is_object() && list.len() == 2 && list[0] == list[1] {
        list.pop();
    }
}

fn element(types: &Types, element: &Element, dice: &mut Dice, depth: usize, share: usize) -> Value {
    match element {
        Element::Text => {
            json!(*dice.pick(&["text", "yes", "1.5", "two\nlines\n", " ä: # \u{1f680}\t", "null", "- x", "k0"]))
        }
        Element::Bool => json!(true),
        Element::Int32 => json!(*dice.pick(&[1, -1, i32::MIN, i32::MAX])),
        Element::Int64 => json!(*dice.pick(&[1, -1, i64::MIN, i64::MAX])),
        Element::Float => json!(0.25),
        Element::Bytes => json!("AAEC/w=="),
        Element::Time => json!("2020-01-02T03:04:05Z"),
        Element::MicroTime => json!("2020-01-02T03:04:05.000006Z"),
        Element::Quantity => json!(*dice.pick(&["500m", "1Gi", "7"])),
        Element::IntOrText => dice.pick(&[json!(8080), json!("25%"), json!(-1)]).clone(),
        Element::Any => json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "list": [1, "x"]}),
        Element::Named(name) => made(types, name, dice, depth + 1, share),
    }
}

/// The built-in types, and their names.
pub struct Builtin {
    types: Types,
    all: Vec<String>,
    whole: Vec<String>,
}

impl Builtin {
    pub fn types(&self) -> &Types {
        &self.types
    }

    /// The names of all types.
    pub fn all(&self) -> &[String] {
        &self.all
    }

    /// Of those that are whole objects.
    pub fn whole(&self) -> &[String] {
        &self.whole
    }
}

/// The same in every round.
pub fn builtin() -> &'static Builtin {
    static BUILTIN: LazyLock<Builtin> = LazyLock::new(|| {
        let types = coracle_api::types::builtin();
        let is_whole = |row: &&Type| {
            row.field("metadata").is_some_and(|field| field.element == Element::Named("ObjectMeta".into()))
        };
        let whole = types.iter().filter(is_whole).map(|row| row.name.to_string()).collect();
        Builtin { all: types.iter().map(|row| row.name.to_string()).collect(), whole, types }
    });
    &BUILTIN
}

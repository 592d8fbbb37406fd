//! Every field of every type goes through each form and comes back the same.

use coracle_api::types;
use coracle_schema::types::{Container, Element, Field, Types};
use coracle_schema::{decode, protobuf, yaml};
use serde_json::{Map, Value, json};

/// Documents of each type.
const DOCUMENTS: u64 = 12;
/// Types may contain one another or themselves, so the depth is limited.
const DEPTH_MAX: usize = 6;

struct Chance(u64);

impl Chance {
    /// Below `end`.
    fn draw(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

/// A document of a type with `share` of eight fields; no set field has a value that means the same as absence.
fn document(types: &Types, name: &str, chance: &mut Chance, depth: usize, share: usize) -> Value {
    let row = types.get(name).expect("a type that is named is there");
    let mut fields = Map::new();
    for field in row.fields.iter().filter(|field| field.number > 0) {
        if chance.draw(8) < share
            && let Some(value) = value(types, field, chance, depth)
        {
            fields.insert(field.name.to_string(), value);
        }
    }
    Value::Object(fields)
}

fn value(types: &Types, field: &Field, chance: &mut Chance, depth: usize) -> Option<Value> {
    if depth == DEPTH_MAX && matches!(field.element, Element::Named(_)) {
        return None;
    }
    let mut entry = |zero| element(types, &field.element, chance, depth, zero);
    let value = match field.container {
        Container::One => entry(field.rules.pointer),
        Container::List => json!([entry(true), entry(true)]),
        Container::Map => json!({"a": entry(true), "b.c/d": entry(true)}),
        Container::MapOfLists => json!({"a": [], "b": [entry(true), entry(true)]}),
    };
    let nothing =
        value == json!({}) && field.container == Container::One && field.rules.default.as_deref() == Some("{}");
    (!nothing).then_some(value)
}

fn element(types: &Types, element: &Element, chance: &mut Chance, depth: usize, zero: bool) -> Value {
    let zero = zero && chance.draw(4) == 0;
    match element {
        Element::Text if zero => json!(""),
        Element::Text => {
            json!(["text", "yes", "1.5", "two\nlines\n", " ä: # \u{1f680}\t", "null", "- x"][chance.draw(7)])
        }
        Element::Bool => json!(!zero),
        Element::Int32 if zero => json!(0),
        Element::Int64 if zero => json!(0),
        Element::Int32 => json!([1, -1, i32::MIN, i32::MAX][chance.draw(4)]),
        Element::Int64 => json!([1, -1, i64::MIN, i64::MAX][chance.draw(4)]),
        Element::Float => json!(0.25),
        Element::Bytes => json!(if zero { "" } else { "AAEC/w==" }),
        Element::Time => json!("2020-01-02T03:04:05Z"),
        Element::MicroTime => json!("2020-01-02T03:04:05.000006Z"),
        Element::Quantity => json!(["500m", "1Gi", "0"][chance.draw(3)]),
        Element::IntOrText => [json!(8080), json!("25%"), json!(-1)][chance.draw(3)].clone(),
        Element::Any => json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "list": [1, "x", null]}),
        Element::Named(name) => document(types, name, chance, depth + 1, 4),
    }
}

#[test]
fn every_field_of_every_type() {
    let types = types::builtin();
    for row in types.iter() {
        for seed in 1..=DOCUMENTS {
            // The first has all fields.
            let share = if seed == 1 { 8 } else { 4 };
            let written = document(&types, &row.name, &mut Chance(seed * 7919), 0, share);
            let mut shaped = written.clone();
            assert_eq!(decode(&types, &row.name, &mut shaped), Default::default(), "{}: {written}", row.name);
            assert_eq!(shaped, written, "{}", row.name);
            let message = protobuf::encode(&types, &row.name, &written);
            assert_eq!(protobuf::decode(&types, &row.name, &message).as_ref(), Ok(&written), "{}", row.name);
            let text = yaml::write(&written);
            assert_eq!(yaml::read(&text).map(|(document, _)| document).as_ref(), Ok(&written), "{}:\n{text}", row.name);
        }
    }
}

//! A document -> bytes, by type.

use super::wire::{put_bytes, put_fixed64, put_message, put_varint};
use crate::base64;
use crate::time;
use crate::types::{Container, Element, Field, Types};
use serde_json::{Map, Value};

/// The message for a document in the form that `decode` returns. Fields and values that do not fit are left out.
pub fn encode(types: &Types, type_name: &str, document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put(types, type_name, document, &mut out);
    out
}

/// Like `encode`, but appends to `out`.
pub fn put(types: &Types, type_name: &str, document: &Value, out: &mut Vec<u8>) {
    if let Value::Object(fields) = document {
        message(types, type_name, fields, out);
    }
}

fn message(types: &Types, type_name: &str, document: &Map<String, Value>, out: &mut Vec<u8>) {
    let Some(row) = types.get(type_name) else { return };
    let mut fields: Vec<(&Field, &Value)> = document
        .iter()
        .filter_map(|(name, value)| Some((row.field(name)?, value)))
        .filter(|(field, _)| field.number > 0)
        .collect();
    fields.sort_by_key(|(field, _)| field.way());
    parts(types, &fields, 0, out);
}

/// Fields that share their way so far: those that go on together stand in a message that JSON does not show.
fn parts(types: &Types, fields: &[(&Field, &Value)], step: usize, out: &mut Vec<u8>) {
    for part in fields.chunk_by(|(a, _), (b, _)| a.way()[step] == b.way()[step]) {
        let (first, value) = part[0];
        match first.way().get(step + 1) {
            Some(next) if *next > 0 => put_message(out, first.way()[step], |out| parts(types, part, step + 1, out)),
            _ => field(types, first, value, out),
        }
    }
}

fn field(types: &Types, field: &Field, value: &Value, out: &mut Vec<u8>) {
    match (field.container, value) {
        (Container::One, value) => element(types, field.number, &field.element, value, out),
        (Container::List, Value::Array(list)) => {
            for entry in list {
                element(types, field.number, &field.element, entry, out);
            }
        }
        (Container::Map, Value::Object(map)) => {
            for (key, value) in map {
                put_message(out, field.number, |out| {
                    put_bytes(out, 1, key.as_bytes());
                    element(types, 2, &field.element, value, out);
                });
            }
        }
        (Container::MapOfLists, Value::Object(map)) => {
            for (key, values) in map {
                let values = || values.as_array().into_iter().flatten();
                put_message(out, field.number, |out| {
                    put_bytes(out, 1, key.as_bytes());
                    put_message(out, 2, |out| values().for_each(|value| element(types, 1, &field.element, value, out)));
                });
            }
        }
        (Container::List | Container::Map | Container::MapOfLists, _) => {}
    }
}

fn element(types: &Types, number: u16, element: &Element, value: &Value, out: &mut Vec<u8>) {
    match (element, value) {
        // No field says nothing; in a list it would say an empty entry.
        (_, Value::Null) if !matches!(element, Element::Any) => {}
        (Element::Text, Value::String(text)) => put_bytes(out, number, text.as_bytes()),
        (Element::Bool, Value::Bool(yes)) => put_varint(out, number, u64::from(*yes)),
        (Element::Int32 | Element::Int64, Value::Number(given)) => {
            put_varint(out, number, given.as_i64().unwrap_or_default() as u64)
        }
        (Element::Float, Value::Number(given)) => {
            put_fixed64(out, number, given.as_f64().unwrap_or_default().to_bits())
        }
        (Element::Bytes, Value::String(text)) => put_bytes(out, number, &base64::decode(text).unwrap_or_default()),
        (Element::Time | Element::MicroTime, Value::String(text)) => {
            if let Some((seconds, nanos)) = time::moment(text) {
                put_message(out, number, |out| {
                    put_varint(out, 1, seconds as u64);
                    put_varint(out, 2, u64::from(nanos));
                });
            }
        }
        (Element::Quantity, Value::String(text)) => put_message(out, number, |out| put_bytes(out, 1, text.as_bytes())),
        (Element::IntOrText, value) => put_message(out, number, |out| {
            put_varint(out, 1, u64::from(value.is_string()));
            put_varint(out, 2, value.as_i64().unwrap_or_default() as u64);
            put_bytes(out, 3, value.as_str().unwrap_or_default().as_bytes());
        }),
        (Element::Any, value) => put_message(out, number, |out| put_bytes(out, 1, value.to_string().as_bytes())),
        (Element::Named(name), Value::Object(fields)) => {
            put_message(out, number, |out| message(types, name, fields, out))
        }
        _ => {}
    }
}

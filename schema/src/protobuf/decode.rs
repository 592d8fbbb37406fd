//! Bytes -> a document, by type.

use super::wire::{Reader, Wire};
use super::{DEPTH_MAX, Malformed, NODES_MAX};
use crate::base64;
use crate::time;
use crate::types::{Container, Element, Field, Type, Types};
use serde_json::{Map, Value};

/// The document of a type that a message holds. Fields that the type does not have are passed over, as Go does.
pub fn decode(types: &Types, type_name: &str, message: &[u8]) -> Result<Value, Malformed> {
    let mut decoder = Decoder { types, nodes: 0 };
    let mut fields = Map::new();
    decoder.message(type_name, message, &mut fields, 0)?;
    Ok(Value::Object(fields))
}

struct Decoder<'t> {
    types: &'t Types,
    nodes: usize,
}

impl Decoder<'_> {
    /// A message that comes twice is one: the second adds to the first.
    fn message(
        &mut self,
        type_name: &str,
        message: &[u8],
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Malformed> {
        let types = self.types;
        match types.get(type_name) {
            Some(row) => self.part(row, (0, 0), message, into, depth),
            None => Ok(()),
        }
    }

    /// Reads a type's fields from one message: the type's own message, or a nested message without a level in JSON.
    fn part(
        &mut self,
        row: &Type,
        inside: (u16, u16),
        message: &[u8],
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Malformed> {
        if depth > DEPTH_MAX {
            return Err(Malformed::TooDeep);
        }
        let mut reader = Reader::new(message);
        while let Some((number, wire)) = reader.field()? {
            if let Some(field) =
                row.fields.iter().find(|field| field.inside == inside && u32::from(field.number) == number)
            {
                self.field(field, wire, into, depth)?;
                continue;
            }
            let deeper = row.fields.iter().map(|field| field.inside).find(|(outer, inner)| match inside {
                (0, _) => u32::from(*outer) == number,
                (here, 0) => *outer == here && u32::from(*inner) == number,
                _ => false,
            });
            match deeper {
                Some((outer, _)) if inside.0 == 0 => self.part(row, (outer, 0), wire.bytes()?, into, depth + 1)?,
                Some(deeper) => self.part(row, deeper, wire.bytes()?, into, depth + 1)?,
                None => {}
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &Field,
        wire: Wire<'_>,
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Malformed> {
        match field.container {
            Container::One => self.one(field, wire, into, depth),
            Container::List => {
                let list = into.entry(&*field.name).or_insert_with(|| Value::Array(Vec::new()));
                let Value::Array(list) = list else { return Ok(()) };
                self.entries(&field.element, wire, list, depth)
            }
            Container::Map | Container::MapOfLists => {
                let map = into.entry(&*field.name).or_insert_with(|| Value::Object(Map::new()));
                let Value::Object(map) = map else { return Ok(()) };
                self.map_entry(field, wire.bytes()?, map, depth)
            }
        }
    }

    fn one(
        &mut self,
        field: &Field,
        wire: Wire<'_>,
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Malformed> {
        let name = &*field.name;
        if let Element::Named(type_name) = &field.element {
            self.count()?;
            let was = into.entry(name).or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(inner) = was else { return Ok(()) };
            self.message(type_name, wire.bytes()?, inner, depth + 1)?;
            // Go writes a struct that is no pointer even when it is empty.
            if inner.is_empty() && field.rules.default.as_deref() == Some("{}") {
                into.remove(name);
            }
            return Ok(());
        }
        let value = self.scalar(&field.element, wire, depth)?;
        let is_amount = matches!(field.element, Element::Quantity);
        if value.is_null() || (!field.rules.pointer && !is_amount && is_zero(&value)) {
            // What came before is overwritten by this nothing.
            into.remove(name);
        } else {
            into.insert(name.to_owned(), value);
        }
        Ok(())
    }

    /// Reads one entry of a list, or packed numbers in one field.
    fn entries(
        &mut self,
        element: &Element,
        wire: Wire<'_>,
        list: &mut Vec<Value>,
        depth: usize,
    ) -> Result<(), Malformed> {
        if let (Element::Int32 | Element::Int64 | Element::Bool, Wire::Bytes(packed)) = (element, wire) {
            let mut reader = Reader::new(packed);
            while !reader.is_empty() {
                let number = Wire::Varint(reader.varint()?);
                list.push(self.scalar(element, number, depth)?);
            }
            return Ok(());
        }
        list.push(self.entry(element, wire, depth)?);
        Ok(())
    }

    fn entry(&mut self, element: &Element, wire: Wire<'_>, depth: usize) -> Result<Value, Malformed> {
        let Element::Named(type_name) = element else { return self.scalar(element, wire, depth) };
        self.count()?;
        let mut inner = Map::new();
        self.message(type_name, wire.bytes()?, &mut inner, depth + 1)?;
        Ok(Value::Object(inner))
    }

    fn map_entry(
        &mut self,
        field: &Field,
        entry: &[u8],
        map: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Malformed> {
        let (mut key, mut value) = (String::new(), None);
        let mut reader = Reader::new(entry);
        while let Some((number, wire)) = reader.field()? {
            match (number, field.container) {
                (1, _) => key = text(wire)?,
                (2, Container::MapOfLists) => {
                    let mut list = Vec::new();
                    let mut items = Reader::new(wire.bytes()?);
                    while let Some((number, wire)) = items.field()? {
                        if number == 1 {
                            self.entries(&field.element, wire, &mut list, depth + 1)?;
                        }
                    }
                    value = Some(Value::Array(list));
                }
                (2, _) => value = Some(self.entry(&field.element, wire, depth)?),
                _ => {}
            }
        }
        self.count()?;
        let value = match (value, field.container) {
            (Some(value), _) => value,
            (None, Container::MapOfLists) => Value::Array(Vec::new()),
            (None, _) => crate::decode::empty(&field.element),
        };
        map.insert(key, value);
        Ok(())
    }

    fn scalar(&mut self, element: &Element, wire: Wire<'_>, depth: usize) -> Result<Value, Malformed> {
        self.count()?;
        Ok(match element {
            Element::Text => text(wire)?.into(),
            Element::Bool => (wire.number()? != 0).into(),
            // Go cuts off what is too much.
            Element::Int32 => (wire.number()? as i32).into(),
            Element::Int64 => (wire.number()? as i64).into(),
            Element::Float => match wire {
                Wire::Fixed64(bits) => f64::from_bits(bits).into(),
                other => return Err(Malformed::WireType(other.code())),
            },
            Element::Bytes => base64::encode(wire.bytes()?).into(),
            Element::Time => moment(wire.bytes()?, time::write)?,
            Element::MicroTime => moment(wire.bytes()?, time::write_micro)?,
            Element::Quantity => {
                // One without a text is nothing; an empty text is no amount, which whoever reads it says.
                let amount = first_bytes(wire.bytes()?)?.unwrap_or(b"0");
                String::from_utf8_lossy(amount).into_owned().into()
            }
            Element::IntOrText => int_or_text(wire.bytes()?)?,
            Element::Any => any(first_bytes(wire.bytes()?)?.unwrap_or_default())?,
            Element::Named(_) => self.entry(element, wire, depth)?,
        })
    }

    fn count(&mut self) -> Result<(), Malformed> {
        self.nodes += 1;
        if self.nodes > NODES_MAX { Err(Malformed::TooManyValues) } else { Ok(()) }
    }
}

fn text(wire: Wire<'_>) -> Result<String, Malformed> {
    Ok(String::from_utf8_lossy(wire.bytes()?).into_owned())
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(yes) => !yes,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Null => true,
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// Field 1 of a message without further fields: a quantity, a piece of JSON.
fn first_bytes(message: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    let mut reader = Reader::new(message);
    let mut first = None;
    while let Some((number, wire)) = reader.field()? {
        if number == 1 {
            first = Some(wire.bytes()?);
        }
    }
    Ok(first)
}

/// Seconds and nanoseconds; an empty message is no time at all.
fn moment(message: &[u8], write: fn(i64, u32) -> Option<String>) -> Result<Value, Malformed> {
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(message);
    while let Some((number, wire)) = reader.field()? {
        match number {
            1 => seconds = wire.number()? as i64,
            2 => nanos = wire.number()? as i32,
            _ => {}
        }
    }
    let nanos = u32::try_from(nanos).map_err(|_| Malformed::Time)?;
    write(seconds, nanos).map(Value::from).ok_or(Malformed::Time)
}

fn int_or_text(message: &[u8]) -> Result<Value, Malformed> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    let mut reader = Reader::new(message);
    while let Some((field, wire)) = reader.field()? {
        match field {
            1 => is_text = wire.number()? == 1,
            2 => number = wire.number()? as i32,
            3 => text = self::text(wire)?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

fn any(json: &[u8]) -> Result<Value, Malformed> {
    if json.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(json).map_err(|error| Malformed::Json(error.to_string()))
}

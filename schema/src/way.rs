//! Where a field stands in protobuf: `2.5` is number 5 of the message that is field 2 and that JSON does not show.

use crate::types::Field;

/// Of the messages around it, and its own.
pub(crate) fn numbers(text: &str) -> Result<((u16, u16), u16), String> {
    let number = |text: &str| text.parse::<u16>().map_err(|_| format!("{text:?} is no field number"));
    match *text.split('.').collect::<Vec<_>>() {
        [own] => Ok(((0, 0), number(own)?)),
        [outer, own] => Ok(((number(outer)?, 0), number(own)?)),
        [outer, inner, own] => Ok(((number(outer)?, number(inner)?), number(own)?)),
        _ => Err(format!("{text:?} is no field number")),
    }
}

impl Field {
    /// Its way through the messages of protobuf: their numbers, then its own, then zeros.
    pub fn way(&self) -> [u16; 3] {
        match self.inside {
            (0, _) => [self.number, 0, 0],
            (outer, 0) => [outer, self.number, 0],
            (outer, inner) => [outer, inner, self.number],
        }
    }
}

fn shape(text: &str) -> Result<(Element, Container), String> {
    let inner = |open, close| text.strip_prefix(open).and_then(|text: &str| text.strip_suffix(close));
    let (name, container) = match (inner('[', ']'), inner('{', '}')) {
        (Some(entry), _) => (entry, Container::List),
        (_, Some(entry)) => match entry.strip_prefix('[').and_then(|entry| entry.strip_suffix(']')) {
            Some(entry) => (entry, Container::MapOfLists),
            None => (entry, Container::Map),
        },
        _ => (text, Container::One),
    };
    let element = match name {
        "string" => Element::Text,
        "bool" => Element::Bool,
        "int32" => Element::Int32,
        "int64" => Element::Int64,
        "float" => Element::Float,
        "bytes" => Element::Bytes,
        "time" => Element::Time,
        "microtime" => Element::MicroTime,
        "quantity" => Element::Quantity,
        "intorstring" => Element::IntOrText,
        "any" => Element::Any,
        other => {
            type_name(short(other))?;
            Element::Named(Cow::Owned(other.to_owned()))
        }
    };
    Ok((element, container))
}

fn read_attribute(rule: &mut Rule, attribute: &str) -> Result<(), String> {
    let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
    let parts = |by: char| value.split(by).map(|part| Cow::Owned(part.to_owned())).collect::<Vec<_>>();
    match key {
        "required" => rule.required = true,
        "nonzero" => rule.zero_is_missing = true,
        "set" => rule.merge = Merge::Set,
        "atomic" => rule.merge = Merge::Atomic,
        "granular" => rule.merge = Merge::Granular,
        "declared" => rule.declared = true,
        "pointer" => rule.pointer = true,
        "keys" => rule.merge = Merge::Keys(Cow::Owned(parts(','))),
        "patch" => rule.patch = Cow::Owned(value.to_owned()),
        "enum" => rule.choices = Cow::Owned(parts('|')),
        "default" => {
            serde_json::from_str::<serde_json::Value>(value).map_err(|why| format!("default {value:?} is no JSON: {why}"))?;
            rule.default = Some(Cow::Owned(value.to_owned()));
        }
        _ => return Err(format!("{attribute:?} is no attribute")),
    }
    Ok(())
}

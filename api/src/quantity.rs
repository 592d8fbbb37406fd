//! Amounts, and what is a number or a name.

pub use coracle_schema::{Quantity, QuantityError, Sum};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::fmt;

/// A port by number or by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IntOrString {
    Int(i32),
    String(String),
}

impl Default for IntOrString {
    fn default() -> IntOrString {
        IntOrString::Int(0)
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntOrString::Int(number) => number.fmt(f),
            IntOrString::String(text) => f.write_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IntOrString, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(IntOrString::String(text)),
            Value::Number(number) => match number.as_i64().and_then(|number| i32::try_from(number).ok()) {
                Some(number) => Ok(IntOrString::Int(number)),
                None => Err(serde::de::Error::custom(format!("{number} is no int32"))),
            },
            other => Err(serde::de::Error::custom(format!("{other} is neither a number nor text"))),
        }
    }
}

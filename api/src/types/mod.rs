//! The types of the built-in kinds. Their text stands beside this file; the build script makes static tables of it.

use coracle_schema::Types;
use coracle_schema::types::{Container, Element, Field, Merge, Rule, Rules, Type};
use std::borrow::Cow;

include!(concat!(env!("OUT_DIR"), "/types.rs"));

/// All of them, by name: `Pod`, `PodSpec`, `DeleteOptions`.
pub const fn builtin() -> Types {
    Types::of_static(&ROWS)
}

#[cfg(test)]
mod tests;

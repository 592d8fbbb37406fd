//! Applies a PATCH to a document, in three languages. All work on plain JSON; the outcome is decoded, defaulted and
//! checked like any document.
//!
//!     json        a list of operations, done all or not at all (RFC 6902)
//!     merge       a document laid over another: null deletes, lists are replaced (RFC 7386)
//!     strategic   the same by types: lists that have a merge key are merged entry by entry, directives say the rest

pub mod json;
mod merge;
mod ordered;
pub mod strategic;

pub use merge::merge;

use serde_json::Value;
use std::fmt;

/// Why a patch was refused. A refused patch changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unpatched {
    /// The body is not a valid patch in the format that its content type names.
    Malformed(String),
    /// It asks for more work or growth than a patch may.
    TooLarge(String),
    /// An operation does not go with what stands there.
    Failed(String),
    /// A strategic patch whose lists cannot be brought together.
    Unmergeable(String),
}

impl fmt::Display for Unpatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unpatched::Malformed(why)
            | Unpatched::TooLarge(why)
            | Unpatched::Failed(why)
            | Unpatched::Unmergeable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Unpatched {}

/// Nested objects, with an object for each level of a document that a list of operations enters.
pub fn touched(operations: &[json::Operation]) -> Value {
    let mut tree = Value::Object(Default::default());
    let paths = operations.iter().flat_map(|operation| [&operation.path, &operation.from]).flatten();
    for path in paths {
        let mut place = &mut tree;
        let steps: Vec<&str> = path.split('/').skip(1).collect();
        for step in steps.iter().take(steps.len().saturating_sub(1)) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let inside = &mut place[&step];
            if !inside.is_object() {
                *inside = Value::Object(Default::default());
            }
            place = inside;
        }
    }
    tree
}

/// A value as messages of Kubernetes show it: `map[name:web ports:[80 81]]`.
pub fn shown(value: &Value) -> String {
    let mut text = String::new();
    show(value, &mut text);
    text
}

fn show(value: &Value, text: &mut String) {
    let between = |text: &mut String, first: bool| {
        if !first {
            text.push(' ');
        }
    };
    match value {
        Value::Null => text.push_str("<nil>"),
        Value::Bool(yes) => text.push_str(if *yes { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number.to_string()),
        Value::String(plain) => text.push_str(plain),
        Value::Array(list) => {
            text.push('[');
            for (at, entry) in list.iter().enumerate() {
                between(text, at == 0);
                show(entry, text);
            }
            text.push(']');
        }
        Value::Object(map) => {
            text.push_str("map[");
            for (at, (key, entry)) in map.iter().enumerate() {
                between(text, at == 0);
                text.push_str(key);
                text.push(':');
                show(entry, text);
            }
            text.push(']');
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A small random generator without a library: the same seed gives the same documents on every machine.
    pub struct Chance(pub u64);

    impl Chance {
        pub fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % end as u64) as usize
        }

        /// Any document, at most so deep.
        pub fn value(&mut self, depth: usize) -> Value {
            match self.below(if depth == 0 { 5 } else { 8 }) {
                0 => Value::Null,
                1 => json!(self.below(3)),
                2 => json!(self.below(2) == 0),
                3 | 4 => json!(["", "a", "b/c", "~"][self.below(4)]),
                5 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
                _ => (0..self.below(4))
                    .map(|_| (self.key(), self.value(depth - 1)))
                    .collect::<serde_json::Map<_, _>>()
                    .into(),
            }
        }

        pub fn key(&mut self) -> String {
            ["a", "b", "c/d", "e~f", "", "0"][self.below(6)].to_owned()
        }
    }

    #[test]
    fn levels_that_are_gone_into() {
        let (operations, _) = json::parse(
            json!([{"op": "add", "path": "/a/b~1c/0", "value": 1}, {"op": "move", "path": "/a/d", "from": "/e/f"}]),
        )
        .unwrap();
        assert_eq!(touched(&operations), json!({"a": {"b/c": {}}, "e": {}}));
    }

    #[test]
    fn values_are_shown_as_go_shows_them() {
        for (value, text) in [
            (json!({"b": [1, "x", null, true], "a": {}}), "map[a:map[] b:[1 x <nil> true]]"),
            (json!([[], "y"]), "[[] y]"),
            (json!("plain"), "plain"),
        ] {
            assert_eq!(shown(&value), text);
        }
    }
}

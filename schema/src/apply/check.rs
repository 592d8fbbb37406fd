//! Checks an applied configuration against the types. A null fits every type: the client names the field and gives no
//! value.

use super::fields::{self, shown};
use super::shape::{Position, Scalar, Shape, Whole, child, keyed, member};
use crate::patch::strategic::go_kind;
use crate::trail::DEPTH_MAX;
use crate::types::Types;
use serde_json::Value;
use std::collections::HashSet;

/// Problems that are told.
const PROBLEMS_MAX: usize = 20;

/// The values that do not fit, in Kubernetes' words, each with its place: `.spec.foo: field not declared in schema`.
pub fn problems(types: &Types, name: &str, document: &Value) -> Vec<String> {
    let mut check = Check { types, found: Vec::new() };
    if let Some(row) = types.get(name) {
        check.value(Position::Root(row), document, &mut String::new(), 0);
    }
    check.found
}

/// As one message.
pub fn message(mut problems: Vec<String>) -> String {
    if problems.len() == 1 { problems.remove(0) } else { format!("errors:\n  {}", problems.join("\n  ")) }
}

struct Check<'t> {
    types: &'t Types,
    found: Vec<String>,
}

impl Check<'_> {
    fn value(&mut self, place: Position<'_>, value: &Value, way: &mut String, depth: usize) {
        if depth > DEPTH_MAX {
            return self.tell(way, format!("nested deeper than {DEPTH_MAX} levels"));
        }
        let shape = place.shape(self.types);
        match (&shape, value) {
            (_, Value::Null) => {}
            (Shape::Scalar(scalar), value) => self.scalar(*scalar, value, way),
            (Shape::Whole(Whole::Map) | Shape::Fields(_) | Shape::Keys(_), value) if !value.is_object() => {
                self.tell(way, format!("expected map, got {}", got(value)));
            }
            (Shape::Whole(Whole::List) | Shape::Set(_) | Shape::List(..), value) if !value.is_array() => {
                self.tell(way, format!("expected list, got {}", got(value)));
            }
            (Shape::Fields(row), Value::Object(map)) => {
                for (name, value) in map {
                    let (step, place) = child(row, name);
                    match place {
                        Position::Anything => {
                            self.at(way, &step, |check, way| check.tell(way, "field not declared in schema".to_owned()))
                        }
                        place => self.at(way, &step, |check, way| check.value(place, value, way, depth + 1)),
                    }
                }
            }
            (Shape::Keys(field), Value::Object(map)) => {
                for (key, value) in map {
                    self.at(way, &fields::field(key), |check, way| {
                        check.value(Position::Entry(field), value, way, depth + 1)
                    });
                }
            }
            (Shape::Set(field) | Shape::List(field, _), Value::Array(list)) => {
                let mut seen = HashSet::new();
                for (at, entry) in list.iter().enumerate() {
                    let step = match &shape {
                        Shape::List(field, keys) => keyed(self.types, field, keys, entry),
                        _ => member(entry),
                    };
                    match step {
                        Err(why) => self.tell(way, format!("element {at}: {why}")),
                        Ok(step) => {
                            if !seen.insert(step.clone()) {
                                self.tell(way, format!("duplicate entries for key {}", shown(&step)));
                            }
                            self.at(way, &step, |check, way| {
                                check.value(Position::Entry(field), entry, way, depth + 1)
                            });
                        }
                    }
                }
            }
            // Whole lists and maps, and what nobody knows, are looked into when the outcome is decoded.
            _ => self.whole(place, value, way, depth),
        }
    }

    /// A value that is replaced as a whole must fit all the same.
    fn whole(&mut self, place: Position<'_>, value: &Value, way: &mut String, depth: usize) {
        let Position::Field(field) = place else { return };
        if let Value::Array(list) = value {
            for (at, entry) in list.iter().enumerate() {
                self.at(way, &format!("i:{at}"), |check, way| {
                    check.value(Position::Entry(field), entry, way, depth + 1)
                });
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value, way: &str) {
        let wanted = match scalar {
            Scalar::Text if !value.is_string() => format!("string, got {}", held(value)),
            Scalar::Number if !value.is_number() => format!("numeric (int or float), got {}", go_kind(value)),
            Scalar::Bool if !value.is_boolean() => format!("boolean, got {}", got(value)),
            Scalar::Either if value.is_array() || value.is_object() => format!("any scalar, got {}", got(value)),
            _ => return,
        };
        self.tell(way, format!("expected {wanted}"));
    }

    fn at(&mut self, way: &mut String, step: &str, look: impl FnOnce(&mut Self, &mut String)) {
        let before = way.len();
        way.push_str(&shown(step));
        look(self, way);
        way.truncate(before);
    }

    fn tell(&mut self, way: &str, what: String) {
        if self.found.len() < PROBLEMS_MAX {
            self.found.push(if way.is_empty() { what } else { format!("{way}: {what}") });
        }
    }
}

/// As Go prints the value that it found: plainly,
fn got(value: &Value) -> String {
    format!("&{{{}}}", crate::patch::shown(value))
}

/// or with the type that holds it.
fn held(value: &Value) -> String {
    let inner = match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(_) => "[]interface {}{...}".to_owned(),
        Value::Object(_) => "map[string]interface {}{...}".to_owned(),
        other => other.to_string(),
    };
    format!("&value.valueUnstructured{{Value:{inner}}}")
}

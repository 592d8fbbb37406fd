//! The fields of a document, and what differs between two.

use super::fields::{Fields, field};
use super::shape::{Place, Shape, child, steps};
use crate::trail::DEPTH_MAX;
use crate::types::Types;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The fields that a document says.
pub fn fields_of(types: &Types, name: &str, document: &Value) -> Fields {
    types.get(name).map(|row| said(types, Place::Root(row), document, 0).1).unwrap_or_default()
}

/// Whether the place itself is said, and what inside it.
fn said(types: &Types, place: Place<'_>, value: &Value, depth: usize) -> (bool, Fields) {
    let mut inside = Fields::default();
    if depth > DEPTH_MAX {
        return (true, inside);
    }
    let shape = place.shape(types);
    match (&shape, value) {
        (Shape::Scalar(_) | Shape::Whole(_), _) => return (true, inside),
        (Shape::Fields(_) | Shape::Keys(_), Value::Object(map)) => {
            for (name, value) in map {
                let (step, place, known) = entry(&shape, name);
                let (whole, deeper) = said(types, place, value, depth + 1);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                inside.take(&step, whole || empty || !known, deeper);
            }
        }
        (Shape::Set(list) | Shape::List(list, _), Value::Array(entries)) => {
            for (step, value) in steps(types, &shape, entries).unwrap_or_default().iter().zip(entries) {
                let (_, deeper) = said(types, Place::Entry(list), value, depth + 1);
                inside.take(step, true, deeper);
            }
        }
        _ => {}
    }
    (false, inside)
}

/// The step, the place, and whether it is a field with a name of its own.
fn entry<'t>(shape: &Shape<'t>, name: &str) -> (String, Place<'t>, bool) {
    match shape {
        Shape::Fields(row) => {
            let (step, place) = child(row, name);
            let known = !matches!(place, Place::Anything);
            (step, place, known)
        }
        Shape::Keys(map) => (field(name), Place::Entry(map), false),
        _ => (field(name), Place::Anything, false),
    }
}

/// What is another in the second of two documents.
#[derive(Debug, Default)]
pub struct Differences {
    pub added: Fields,
    pub changed: Fields,
    pub removed: Fields,
}

impl Differences {
    pub fn new_values(&self) -> Fields {
        self.added.union(&self.changed)
    }

    /// But for these fields and all that is inside them.
    pub fn without(&self, fields: &Fields) -> Differences {
        Differences { added: self.added.without(fields), changed: self.changed.without(fields), removed: self.removed.without(fields) }
    }
}

pub fn compare(types: &Types, name: &str, old: &Value, new: &Value) -> Differences {
    let mut found = Differences::default();
    if let Some(row) = types.get(name) {
        let mut walk = Walk { types, found: &mut found, way: Vec::new() };
        walk.compare(Place::Root(row), Some(old), Some(new));
    }
    found
}

struct Walk<'a> {
    types: &'a Types,
    found: &'a mut Differences,
    way: Vec<String>,
}

impl Walk<'_> {
    fn compare(&mut self, place: Place<'_>, old: Option<&Value>, new: Option<&Value>) {
        let shape = place.shape(self.types);
        let whole = match &shape {
            Shape::Scalar(_) | Shape::Whole(_) => true,
            _ => self.way.len() > DEPTH_MAX || (is_bare(old) && is_bare(new)),
        };
        if whole {
            return self.leaf(old, new);
        }
        match &shape {
            Shape::Fields(_) | Shape::Keys(_) => self.maps(&shape, old.and_then(Value::as_object), new.and_then(Value::as_object)),
            Shape::Set(list) | Shape::List(list, _) => {
                self.lists(&shape, Place::Entry(list), entries(old), entries(new));
            }
            Shape::Scalar(_) | Shape::Whole(_) => {}
        }
        match (old, new) {
            (None, _) => self.note(|found| &mut found.added),
            (_, None) => self.note(|found| &mut found.removed),
            _ => {}
        }
    }

    fn maps(&mut self, shape: &Shape<'_>, old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>) {
        let names: BTreeSet<&String> = old.into_iter().chain(new).flat_map(Map::keys).collect();
        for name in names {
            let (step, place, _) = entry(shape, name);
            self.at(step, |walk| walk.compare(place, old.and_then(|old| old.get(name)), new.and_then(|new| new.get(name))));
        }
    }

    /// Entries that are there several times are looked at together, as one.
    fn lists(&mut self, shape: &Shape<'_>, place: Place<'_>, old: &[Value], new: &[Value]) {
        let (Ok(before), Ok(after)) = (steps(self.types, shape, old), steps(self.types, shape, new)) else { return };
        let mut all: BTreeMap<String, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (step, value) in before.into_iter().zip(old) {
            all.entry(step).or_default().0.push(value);
        }
        for (step, value) in after.into_iter().zip(new) {
            all.entry(step).or_default().1.push(value);
        }
        for (step, (old, new)) in all {
            self.at(step, |walk| match (old.as_slice(), new.as_slice()) {
                ([] | [_], [] | [_]) => walk.compare(place, old.first().copied(), new.first().copied()),
                ([_, _, ..], [_, _, ..]) if old == new => {}
                ([_, _, ..], [_, _, ..]) => walk.note(|found| &mut found.changed),
                ([_, _, ..], few) => {
                    if let Some(one) = few.first() {
                        walk.compare(place, None, Some(one));
                    }
                    walk.note(|found| &mut found.removed);
                }
                (few, _) => {
                    if let Some(one) = few.first() {
                        walk.compare(place, Some(one), None);
                    }
                    walk.note(|found| &mut found.added);
                }
            });
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, None) => {}
            (None, Some(_)) => self.note(|found| &mut found.added),
            (Some(_), None) => self.note(|found| &mut found.removed),
            (Some(old), Some(new)) if old != new => self.note(|found| &mut found.changed),
            _ => {}
        }
    }

    fn note(&mut self, of: impl FnOnce(&mut Differences) -> &mut Fields) {
        if !self.way.is_empty() {
            of(self.found).insert(self.way.iter().map(String::as_str));
        }
    }

    fn at(&mut self, step: String, look: impl FnOnce(&mut Self)) {
        self.way.push(step);
        look(self);
        self.way.pop();
    }
}

fn entries(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Not there, null or empty.
fn is_bare(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(_) => false,
    }
}

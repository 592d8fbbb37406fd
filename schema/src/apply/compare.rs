//! The fields of a document, and what differs between two.

use super::fields::{Fields, field};
use super::shape::{Position, Shape, steps};
use crate::trail::DEPTH_MAX;
use crate::types::Types;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The fields that a document says.
pub fn fields_of(types: &Types, name: &str, document: &Value) -> Fields {
    types.get(name).map(|row| said(types, Position::Root(row), document, 0).1).unwrap_or_default()
}

/// Whether the place itself is said, and what inside it.
fn said(types: &Types, place: Position<'_>, value: &Value, depth: usize) -> (bool, Fields) {
    let mut inside = Fields::default();
    if depth > DEPTH_MAX {
        return (true, inside);
    }
    let shape = place.shape(types);
    match (&shape, value) {
        (Shape::Scalar(_) | Shape::Whole(_), _) => return (true, inside),
        (Shape::Fields(_) | Shape::Keys(_), Value::Object(map)) => {
            for (name, value) in map {
                let place = entry(&shape, name);
                // A field with a name of its own; keys of a map have none.
                let known = matches!(place, Position::Field(_));
                let (whole, deeper) = said(types, place, value, depth + 1);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                inside.take(field(name), whole || empty || !known, deeper);
            }
        }
        (Shape::Set(list) | Shape::List(list, _), Value::Array(entries)) => {
            for (step, value) in steps(types, &shape, entries).unwrap_or_default().into_iter().zip(entries) {
                let (_, deeper) = said(types, Position::Entry(list), value, depth + 1);
                inside.take(step, true, deeper);
            }
        }
        _ => {}
    }
    (false, inside)
}

/// The position of a named field.
fn entry<'t>(shape: &Shape<'t>, name: &str) -> Position<'t> {
    match shape {
        Shape::Fields(row) => row.field(name).map_or(Position::Anything, Position::Field),
        Shape::Keys(map) => Position::Entry(map),
        _ => Position::Anything,
    }
}

/// The differences of the second of two documents from the first.
#[derive(Debug, Default)]
pub struct Differences {
    pub added: Fields,
    pub changed: Fields,
    pub removed: Fields,
}

impl Differences {
    /// But for these fields and all that is inside them.
    pub fn without(self, fields: &Fields) -> Differences {
        let Differences { added, changed, removed } = self;
        Differences { added: added.without(fields), changed: changed.without(fields), removed: removed.without(fields) }
    }

    /// The fields that are new or changed, and those that are gone.
    pub fn set_and_removed(self) -> (Fields, Fields) {
        (self.added.union(&self.changed), self.removed)
    }

    fn take(&mut self, step: &str, found: Found) {
        let Found { added, changed, removed, inside } = found;
        self.added.take(step, added, inside.added);
        self.changed.take(step, changed, inside.changed);
        self.removed.take(step, removed, inside.removed);
    }
}

pub fn compare(types: &Types, name: &str, old: &Value, new: &Value) -> Differences {
    types
        .get(name)
        .map(|row| Walk { types }.compare(Position::Root(row), Some(old), Some(new), 0).inside)
        .unwrap_or_default()
}

/// How one position differs, with the differences of the fields and entries inside.
#[derive(Default)]
struct Found {
    added: bool,
    changed: bool,
    removed: bool,
    inside: Differences,
}

struct Walk<'a> {
    types: &'a Types,
}

impl Walk<'_> {
    fn compare(&self, place: Position<'_>, old: Option<&Value>, new: Option<&Value>, depth: usize) -> Found {
        // Most of a document stays as it is.
        if old == new {
            return Found::default();
        }
        let shape = place.shape(self.types);
        let mut found = Found { added: old.is_none(), removed: new.is_none(), ..Found::default() };
        let bare = depth > DEPTH_MAX || (is_bare(old) && is_bare(new));
        match &shape {
            Shape::Scalar(_) | Shape::Whole(_) => found.changed = !found.added && !found.removed,
            _ if bare => found.changed = !found.added && !found.removed,
            Shape::Fields(_) | Shape::Keys(_) => {
                found.inside = self.maps(&shape, old.and_then(Value::as_object), new.and_then(Value::as_object), depth);
            }
            Shape::Set(list) | Shape::List(list, _) => {
                found.inside = self.lists(&shape, Position::Entry(list), entries(old), entries(new), depth);
            }
        }
        found
    }

    fn maps(
        &self,
        shape: &Shape<'_>,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
        depth: usize,
    ) -> Differences {
        let mut all = Differences::default();
        let gone = names(old).filter(|name| new.is_none_or(|new| !new.contains_key(*name)));
        for name in names(new).chain(gone) {
            let (old, new) = (old.and_then(|old| old.get(name)), new.and_then(|new| new.get(name)));
            let found = self.compare(entry(shape, name), old, new, depth + 1);
            all.take(&field(name), found);
        }
        all
    }

    /// Entries that are there several times are looked at together, as one.
    fn lists(&self, shape: &Shape<'_>, place: Position<'_>, old: &[Value], new: &[Value], depth: usize) -> Differences {
        let mut differences = Differences::default();
        let (Ok(before), Ok(after)) = (steps(self.types, shape, old), steps(self.types, shape, new)) else {
            return differences;
        };
        let mut all: BTreeMap<String, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (step, value) in before.into_iter().zip(old) {
            all.entry(step).or_default().0.push(value);
        }
        for (step, value) in after.into_iter().zip(new) {
            all.entry(step).or_default().1.push(value);
        }
        for (step, (old, new)) in all {
            let of = |old: &[&Value], new: &[&Value]| {
                self.compare(place, old.first().copied(), new.first().copied(), depth + 1)
            };
            let found = match (old.as_slice(), new.as_slice()) {
                (old @ ([] | [_]), new @ ([] | [_])) => of(old, new),
                ([_, _, ..], [_, _, ..]) => Found { changed: old != new, ..Found::default() },
                ([_, _, ..], []) => Found { removed: true, ..Found::default() },
                ([_, _, ..], few) => Found { removed: true, ..of(&[], few) },
                ([], _) => Found { added: true, ..Found::default() },
                (few, _) => Found { added: true, ..of(few, &[]) },
            };
            differences.take(&step, found);
        }
        differences
    }
}

fn names(map: Option<&Map<String, Value>>) -> impl Iterator<Item = &String> {
    map.into_iter().flat_map(Map::keys)
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

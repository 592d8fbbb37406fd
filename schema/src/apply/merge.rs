//! One document laid over another by the types, and fields taken out of a document.

use super::fields::{Fields, field};
use super::shape::{Position, Shape, child, steps};
use crate::trail::DEPTH_MAX;
use crate::types::{Type, Types};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet, VecDeque};

/// The stored document with the applied one merged into it.
pub fn merge(types: &Types, name: &str, standing: &Value, applied: &Value) -> Value {
    match types.get(name) {
        Some(row) => merged(types, Position::Root(row), Some(standing), Some(applied), 0).unwrap_or_default(),
        None => applied.clone(),
    }
}

fn merged(
    types: &Types,
    place: Position<'_>,
    standing: Option<&Value>,
    applied: Option<&Value>,
    depth: usize,
) -> Option<Value> {
    let shape = place.shape(types);
    let (old, new) = (standing.unwrap_or(&Value::Null), applied.unwrap_or(&Value::Null));
    match &shape {
        _ if depth > DEPTH_MAX => {}
        Shape::Fields(_) | Shape::Keys(_) => {
            let (old, new) =
                (old.as_object().filter(|map| !map.is_empty()), new.as_object().filter(|map| !map.is_empty()));
            if old.is_some() || new.is_some() {
                return maps(types, &shape, old, new, depth);
            }
        }
        Shape::Set(_) | Shape::List(..) => {
            let (old, new) =
                (old.as_array().map_or(&[][..], Vec::as_slice), new.as_array().map_or(&[][..], Vec::as_slice));
            if !old.is_empty() || !new.is_empty() {
                return lists(types, &shape, old, new, depth);
            }
        }
        Shape::Scalar(_) | Shape::Whole(_) => {}
    }
    applied.or(standing).cloned()
}

fn place_of<'t>(shape: &Shape<'t>, name: &str) -> Position<'t> {
    match shape {
        Shape::Fields(row) => child(row, name).1,
        Shape::Keys(map) => Position::Entry(map),
        _ => Position::Anything,
    }
}

fn maps(
    types: &Types,
    shape: &Shape<'_>,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    depth: usize,
) -> Option<Value> {
    let mut out = Map::new();
    for name in old.into_iter().chain(new).flat_map(Map::keys) {
        if !out.contains_key(name) {
            let (old, new) = (old.and_then(|old| old.get(name)), new.and_then(|new| new.get(name)));
            out.extend(merged(types, place_of(shape, name), old, new, depth + 1).map(|value| (name.clone(), value)));
        }
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

/// Entries in both lists take the order of the applied list; entries in the old list alone keep their places between.
fn lists(types: &Types, shape: &Shape<'_>, old: &[Value], new: &[Value], depth: usize) -> Option<Value> {
    let (Shape::Set(list) | Shape::List(list, _)) = shape else { return None };
    let (Ok(old_steps), Ok(new_steps)) = (steps(types, shape, old), steps(types, shape, new)) else {
        return Some(new.into());
    };
    let wanted: HashMap<&str, &Value> = new_steps.iter().map(String::as_str).zip(new).collect();
    let mut standing: HashMap<&str, Option<&Value>> = HashMap::new();
    for (step, value) in old_steps.iter().zip(old) {
        // An entry that the old list has several times is not merged with the applied entry.
        standing.entry(step).and_modify(|one| *one = None).or_insert(Some(value));
    }
    let mut shared: VecDeque<&str> =
        new_steps.iter().map(String::as_str).filter(|step| standing.contains_key(step)).collect();
    let join = |old: Option<&Value>, new: Option<&Value>| merged(types, Position::Entry(list), old, new, depth + 1);
    let mut out = Vec::with_capacity(old.len().max(new.len()));
    let mut done: HashSet<&str> = HashSet::new();
    let (mut at_old, mut at_new) = (0, 0);
    while at_old < old.len() || at_new < new.len() {
        let (left, right) = (old_steps.get(at_old).map(String::as_str), new_steps.get(at_new).map(String::as_str));
        if let (Some(left), Some(right)) = (left, right) {
            let other_turn = shared.front().is_some_and(|next| *next != left);
            if left != right && wanted.contains_key(left) && other_turn {
                at_old += 1;
                continue;
            }
        }
        if let Some(left) = left.filter(|left| Some(*left) != right) {
            if !wanted.contains_key(left) {
                out.extend(join(Some(&old[at_old]), None));
                at_old += 1;
                continue;
            }
            if done.contains(left) {
                at_old += 1;
            }
        }
        if let Some(right) = right {
            out.extend(join(standing.get(right).copied().flatten(), Some(&new[at_new])));
            done.insert(right);
            at_new += 1;
            at_old += usize::from(left == Some(right));
            if shared.front() == Some(&right) {
                shared.pop_front();
            }
        }
    }
    (!out.is_empty()).then_some(Value::Array(out))
}

/// A document without some of its fields. An object or list that becomes empty is replaced by null.
pub fn removed(types: &Types, name: &str, document: &Value, gone: &Fields) -> Value {
    match types.get(name) {
        Some(row) => take_out(types, Position::Root(row), document, gone).unwrap_or_default(),
        None => document.clone(),
    }
}

fn take_out(types: &Types, place: Position<'_>, value: &Value, gone: &Fields) -> Option<Value> {
    let shape = place.shape(types);
    match (&shape, value) {
        (Shape::Fields(_) | Shape::Keys(_), Value::Object(map)) => {
            let mut out = Map::new();
            for (name, value) in map {
                let step = field(name);
                if !gone.has(&step) {
                    let value = match gone.inside(&step) {
                        Some(gone) => take_out(types, place_of(&shape, name), value, gone).unwrap_or_default(),
                        None => value.clone(),
                    };
                    out.insert(name.clone(), value);
                }
            }
            (!out.is_empty()).then_some(Value::Object(out))
        }
        (Shape::Set(list) | Shape::List(list, _), Value::Array(entries)) => {
            let steps = steps(types, &shape, entries).ok()?;
            let kept = steps.iter().zip(entries).filter(|(step, _)| !gone.has(step));
            let out: Vec<Value> = kept
                .map(|(step, value)| match gone.inside(step) {
                    Some(gone) => {
                        take_out(types, Position::Entry(list), value, gone).unwrap_or_else(|| bare(&shape, value))
                    }
                    None => value.clone(),
                })
                .collect();
            (!out.is_empty()).then_some(Value::Array(out))
        }
        (Shape::Scalar(_), value) => Some(value.clone()),
        // What is one as a whole goes as a whole.
        _ => None,
    }
}

/// An entry without all that can be taken from it: its keys remain, without which it would not be an entry.
fn bare(shape: &Shape<'_>, entry: &Value) -> Value {
    let (Shape::List(_, keys), Value::Object(fields)) = (shape, entry) else { return Value::Null };
    keys.iter()
        .filter_map(|key| fields.get(&**key).map(|value| (key.to_string(), value.clone())))
        .collect::<Map<_, _>>()
        .into()
}

/// A set in which every field that has a name of its own is a member where something inside it is one.
pub fn with_names(types: &Types, name: &str, fields: &Fields) -> Fields {
    types.get(name).map_or_else(|| fields.clone(), |row| named(types, Position::Root(row), fields))
}

fn named(types: &Types, place: Position<'_>, fields: &Fields) -> Fields {
    let shape = place.shape(types);
    let mut out = Fields::default();
    for (step, member, inside) in fields.steps() {
        let (place, own_name) = match (&shape, step.strip_prefix("f:")) {
            (Shape::Fields(row), Some(name)) => (child(row, name).1, is_field(row, name)),
            (Shape::Keys(map), Some(_)) => (Position::Entry(map), false),
            (Shape::Set(list) | Shape::List(list, _), None) => (Position::Entry(list), false),
            _ => (Position::Anything, false),
        };
        out.take(step, member || (own_name && !inside.is_empty()), named(types, place, inside));
    }
    out
}

fn is_field(row: &Type, name: &str) -> bool {
    row.field(name).is_some()
}

//! A PUT through an older version replaces all that this version can express; the rest of the stored object stays.
//!
//! What the client saw as the same is left in the words in which it is stored (`0.25` cores were `250m`), so a
//! document that was read and put back changes nothing. List entries are matched by name.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::place::{get, is_empty, put, take};
use super::reading::Object;
use super::shape::{Field, Form, Own, Role, Shape};

/// Changes `stored` into what a PUT of `new` leaves.
pub(super) fn merge(shape: &Shape, stored: &mut Object, new: &Object) {
    for field in shape.fields() {
        merge_field(field, stored, new);
    }
}

/// The same for a PUT to the status: only observed fields change.
pub(super) fn merge_observed(shape: &Shape, stored: &mut Object, new: &Object) {
    for field in shape.fields().filter(|field| field.role == Role::Observed) {
        merge_value(field, stored, new);
    }
}

fn merge_field(field: &Field, stored: &mut Object, new: &Object) {
    if field.role != Role::Observed {
        merge_value(field, stored, new);
    }
}

fn merge_value(field: &Field, stored: &mut Object, new: &Object) {
    match (field.role, field.form) {
        (_, Form::Said(_) | Form::Ignored) => {}
        (_, Form::Own(own)) => match own.merge {
            Some(merge) => merge(stored, new),
            None => replace_unless_alike(own, stored, new),
        },
        (Role::Given, _) if get(new, field.at).is_none_or(is_empty) => {}
        (_, Form::Object(shape)) if field.at.is_empty() => merge(shape, stored, new),
        (_, Form::Object(shape)) => merge_object(shape, field.at, stored, new),
        (_, Form::Present(shape)) => match (get(stored, field.at), get(new, field.at)) {
            (Some(Value::Object(_)), Some(Value::Object(_))) => merge_object(shape, field.at, stored, new),
            (_, Some(new)) => put(stored, field.at, new.clone()),
            (_, None) => take(stored, field.at),
        },
        (_, Form::List(shape, key)) => {
            let none = Vec::new();
            let old = get(stored, field.at).and_then(Value::as_array).unwrap_or(&none);
            let list = get(new, field.at).and_then(Value::as_array).unwrap_or(&none);
            if old.is_empty() && list.is_empty() {
                return;
            }
            let merged = merge_list(shape, key, old, list);
            if merged.is_empty() { take(stored, field.at) } else { put(stored, field.at, Value::Array(merged)) }
        }
        (_, form) => {
            let shown = |object: &Object| {
                get(object, field.at).and_then(|value| form.show(value)).or_else(|| field.blank.value())
            };
            if shown(stored) != shown(new) {
                copy(field.at, stored, new);
            }
        }
    }
}

fn copy(at: &[&str], stored: &mut Object, new: &Object) {
    match get(new, at) {
        Some(value) => put(stored, at, value.clone()),
        None => take(stored, at),
    }
}

pub(super) fn replace(own: &Own, stored: &mut Object, new: &Object) {
    for at in own.governs {
        copy(at, stored, new);
    }
}

fn replace_unless_alike(own: &Own, stored: &mut Object, new: &Object) {
    let shown = |object: &Object| {
        let mut out = Object::new();
        (own.show)(object, &mut out);
        out
    };
    if shown(stored) != shown(new) {
        replace(own, stored, new);
    }
}

fn merge_object(shape: &Shape, at: &[&str], stored: &mut Object, new: &Object) {
    let (none, old, new) =
        (Object::new(), get(stored, at).and_then(Value::as_object), get(new, at).and_then(Value::as_object));
    let had_something = old.is_some_and(|old| !old.is_empty());
    if new.is_none() && !had_something {
        return;
    }
    let mut merged = old.cloned().unwrap_or_default();
    merge(shape, &mut merged, new.unwrap_or(&none));
    if merged.is_empty() && new.is_none() { take(stored, at) } else { put(stored, at, Value::Object(merged)) }
}

pub(super) fn merge_list(shape: &Shape, key: &[&str], old: &[Value], new: &[Value]) -> Vec<Value> {
    let name = |entry: &Value| -> String {
        key.iter().map(|field| entry.get(*field).map(Value::to_string).unwrap_or_default() + "/").collect()
    };
    let mut known: HashMap<String, VecDeque<&Value>> = HashMap::new();
    for entry in old {
        known.entry(name(entry)).or_default().push_back(entry);
    }
    new.iter()
        .map(|entry| {
            let stored = known.get_mut(&name(entry)).and_then(VecDeque::pop_front);
            match (stored, entry) {
                (Some(Value::Object(stored)), Value::Object(entry)) => {
                    let mut merged = stored.clone();
                    merge(shape, &mut merged, entry);
                    Value::Object(merged)
                }
                _ => entry.clone(),
            }
        })
        .collect()
}

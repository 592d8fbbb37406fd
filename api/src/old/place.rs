//! Places in a v1 object: `spec.template.spec` as a list of names.

pub(super) use crate::strategy::doc::is_empty;
use serde_json::{Value, json};

use super::reading::Object;

/// The value at a place in a v1 object; null is absent.
pub(super) fn get<'v>(object: &'v Object, at: &[&str]) -> Option<&'v Value> {
    let (last, parents) = at.split_last()?;
    let parent = parents.iter().try_fold(object, |object, name| object.get(*name)?.as_object())?;
    parent.get(*last).filter(|value| !value.is_null())
}

pub(super) fn get_text<'v>(object: &'v Object, at: &[&str]) -> Option<&'v str> {
    get(object, at)?.as_str().filter(|text| !text.is_empty())
}

/// Sets the value at a place, making the objects on the way.
pub(super) fn put(object: &mut Object, at: &[&str], value: Value) {
    let Some((last, parents)) = at.split_last() else { return };
    let mut object = object;
    for name in parents {
        let child = object.entry((*name).to_owned()).or_insert_with(|| json!({}));
        if !child.is_object() {
            *child = json!({});
        }
        let Value::Object(child) = child else { return };
        object = child;
    }
    object.insert((*last).to_owned(), value);
}

/// Takes the value at a place away, and the objects on the way that are empty then.
pub(super) fn take(object: &mut Object, at: &[&str]) {
    match at {
        [] => {}
        [last] => {
            object.remove(*last);
        }
        [first, rest @ ..] => {
            let Some(Value::Object(child)) = object.get_mut(*first) else { return };
            let was_empty = child.is_empty();
            take(child, rest);
            if child.is_empty() && !was_empty {
                object.remove(*first);
            }
        }
    }
}

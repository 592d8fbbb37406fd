//! Lists of a strategic merge patch: their special entries, and the order of the others.

use super::strategic::{DIRECTIVE, SET_ORDER, go_kind, no_key, unknown_directive};
use super::{Unpatched, shown};
use serde_json::Value;
use std::collections::HashMap;

/// Applies the special entries of a patch to a list: the remaining list, and the remaining patch.
pub(super) fn special_entries(
    mut standing: Vec<Value>,
    changes: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Unpatched> {
    let (mut plain, mut gone, mut replace) = (Vec::new(), HashMap::new(), false);
    for entry in changes {
        let Value::Object(map) = &entry else {
            return Err(Unpatched::Unmergeable("an entry of the list is not a map".to_owned()));
        };
        match map.get(DIRECTIVE).map(Value::as_str) {
            None => plain.push(entry),
            Some(Some("delete")) => {
                gone.insert(text(map.get(key).ok_or_else(|| no_key(map, key))?), 0);
            }
            Some(Some("replace")) => replace = true,
            Some(Some("merge")) => {
                return Err(Unpatched::Unmergeable("merging lists cannot yet be specified in the patch".to_owned()));
            }
            Some(_) => return Err(unknown_directive(map)),
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    if !gone.is_empty() {
        standing.retain(|entry| entry.get(key).is_none_or(|value| !gone.contains_key(&text(value))));
    }
    Ok((standing, plain))
}

/// A merged list in order: what `order` names as it says, the rest as it stood before; the rest goes in between as near
/// to where it stood as the first rule lets it.
pub(super) fn arranged(
    merged: Vec<Value>,
    order: &[Value],
    before: &[Value],
    key: &str,
) -> Result<Vec<Value>, Unpatched> {
    let (wanted, stood) = (positions(order, key), positions(before, key));
    let mut ordered: Vec<(usize, Option<usize>, Value)> = Vec::new();
    let mut others: Vec<(usize, Value)> = Vec::new();
    for entry in merged {
        let own = key_of(&entry, key)?;
        match (wanted.get(&own), stood.get(&own).copied()) {
            (Some(place), before) => ordered.push((*place, before, entry)),
            (None, before) => others.push((before.unwrap_or_default(), entry)),
        }
    }
    ordered.sort_by_key(|(place, _, _)| *place);
    others.sort_by_key(|(place, _)| *place);
    let mut all = Vec::with_capacity(ordered.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, before, entry) in ordered {
        while let Some((_, other)) = others.next_if(|(place, _)| before.is_some_and(|before| *place < before)) {
            all.push(other);
        }
        all.push(entry);
    }
    all.extend(others.map(|(_, other)| other));
    Ok(all)
}

/// A patch's list may not contradict the order that it gives.
pub(super) fn in_order(changes: &[Value], order: &[Value], key: &str) -> Result<(), Unpatched> {
    if changes.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut order_left = order.iter();
    for entry in changes.iter().filter(|entry| entry.get(DIRECTIVE).is_none()) {
        let own = key_of(entry, key)?;
        let mut found = false;
        for candidate in order_left.by_ref() {
            found = key_of(candidate, key)? == own;
            if found {
                break;
            }
        }
        if !found {
            let (changes, order) = (shown(&changes.into()), shown(&order.into()));
            return Err(Unpatched::Unmergeable(format!(
                "The order in patch list:\n{changes}\n doesn't match {SET_ORDER} list:\n{order}\n"
            )));
        }
    }
    Ok(())
}

/// All entries of both lists are maps, or all are plain values of one type.
pub(super) fn alike(standing: &[Value], changes: &[Value]) -> Result<(), Unpatched> {
    let mut all = standing.iter().chain(changes);
    let Some(first) = all.next() else { return Ok(()) };
    if first.is_array() {
        return Err(Unpatched::Failed("lists of lists are not supported".to_owned()));
    }
    if all.any(|entry| std::mem::discriminant(entry) != std::mem::discriminant(first)) {
        let both = shown(&Value::Array(vec![standing.into(), changes.into()]));
        return Err(Unpatched::Unmergeable(format!("list element types are not identical: {both}")));
    }
    Ok(())
}

/// Where the first entry with each key stands. An empty `key`: the entries are their own keys.
pub(super) fn positions(list: &[Value], key: &str) -> HashMap<String, usize> {
    let mut at = HashMap::with_capacity(list.len());
    for (place, entry) in list.iter().enumerate() {
        let own = if key.is_empty() { Some(entry) } else { entry.get(key) };
        if let Some(own) = own {
            at.entry(text(own)).or_insert(place);
        }
    }
    at
}

pub(super) fn key_of(entry: &Value, key: &str) -> Result<String, Unpatched> {
    if key.is_empty() {
        return Ok(text(entry));
    }
    let Value::Object(map) = entry else {
        return Err(Unpatched::Unmergeable(format!(
            "expected a map[string]interface {{}}, but received a {}",
            go_kind(entry)
        )));
    };
    map.get(key).map(text).ok_or_else(|| no_key(map, key))
}

/// Tells values apart, `"1"` and `1` too.
pub(super) fn text(value: &Value) -> String {
    value.to_string()
}

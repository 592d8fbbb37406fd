//! Strategic merge patch: a merge patch that knows types. A list whose field says `patch=merge:KEY` is merged entry by
//! entry, one whose entries are plain is a set; every other list is replaced. Directives in the patch say the rest:
//!
//!     "$patch": "replace" | "delete"              of a map: take the patch as it is, or empty the map
//!     "$patch": "delete", KEY: x                  in a list: the entries with this key go; "replace": only the patch's
//!                                                 stay
//!     "$deleteFromPrimitiveList/LIST": [x]        these go from a list of plain values
//!     "$setElementOrder/LIST": [{KEY: x}]         the order of what the client knows; what it does not know stays in
//!                                                 between
//!     "$retainKeys": [FIELD]                      every other field of the map goes
//!
//! As in Kubernetes new entries come first where no order is given, and what is wrong with a patch is said in its
//! words.

use super::ordered::{alike, arranged, in_order, positions, special_entries, text};
use super::{Unpatched, shown};
use crate::types::{Container, Element, Field, Type, Types};
use serde_json::{Map, Value};

pub(super) const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
pub(super) const SET_ORDER: &str = "$setElementOrder";

/// Does a patch to a document of the type called `name`. Where no type says what is there, maps are merged and lists
/// replaced.
pub fn apply(types: &Types, name: &str, document: Value, patch: Map<String, Value>) -> Result<Value, Unpatched> {
    let Value::Object(document) = document else { return Ok(Value::Object(patch)) };
    let shape = types.get(name).map_or(Shape::Unknown, Shape::Of);
    Strategy { types }.map(document, patch, shape).map(Value::Object)
}

/// The known types of a map's fields.
#[derive(Clone, Copy)]
enum Shape<'t> {
    Of(&'t Type),
    /// Entries of a map with free keys, or of a field.
    Entries(&'t Field),
    Unknown,
}

/// The type and merge strategy of a known field.
#[derive(Clone, Copy)]
struct Known<'t> {
    /// The shape of a map, or of the maps in a list.
    shape: Shape<'t>,
    merged: bool,
    replaced: bool,
    /// Empty: its entries are plain values.
    key: &'t str,
}

struct Strategy<'t> {
    types: &'t Types,
}

impl<'t> Strategy<'t> {
    fn map(
        &self,
        mut original: Map<String, Value>,
        mut patch: Map<String, Value>,
        shape: Shape<'t>,
    ) -> Result<Map<String, Value>, Unpatched> {
        match patch.get(DIRECTIVE).map(|directive| directive.as_str()) {
            None => {}
            Some(Some("replace")) => {
                patch.remove(DIRECTIVE);
                return Ok(patch);
            }
            Some(Some("delete")) => return Ok(Map::new()),
            Some(_) => return Err(unknown_directive(&patch)),
        }
        retain_keys(&mut original, &mut patch)?;
        self.ordered_lists(&mut original, &mut patch, shape)?;
        for (name, value) in patch {
            let (name, deletes) = match name.strip_prefix(DELETE_FROM) {
                Some(list) => (list.strip_prefix('/').ok_or_else(|| bad("primitive list"))?.to_owned(), true),
                None => (name, false),
            };
            if value.is_null() {
                original.remove(&name);
                continue;
            }
            let Some(standing) = original.remove(&name) else {
                // There is nothing to delete from, order or keep.
                if !deletes && let Some(value) = plain(value) {
                    original.insert(name, value);
                }
                continue;
            };
            let merged = match (standing, value) {
                (Value::Object(standing), Value::Object(value)) => {
                    let known = self.field(shape, &name)?;
                    // What replaces something whole is taken as it is, its directives too: they are told of as unknown
                    // fields.
                    Value::Object(if known.replaced { value } else { self.map(standing, value, known.shape)? })
                }
                (Value::Array(standing), Value::Array(value)) => {
                    let known = self.field(shape, &name)?;
                    // Entries are deleted from a list of any strategy.
                    Value::Array(if known.merged || deletes {
                        self.list(standing, value, known, deletes)?
                    } else {
                        value
                    })
                }
                (standing, _) if deletes => standing,
                (_, value) => match plain(value) {
                    Some(value) => value,
                    None => continue,
                },
            };
            original.insert(name, merged);
        }
        Ok(original)
    }

    /// Lists whose order the patch gives; they are done, and gone from the patch.
    fn ordered_lists(
        &self,
        original: &mut Map<String, Value>,
        patch: &mut Map<String, Value>,
        shape: Shape<'t>,
    ) -> Result<(), Unpatched> {
        let directives: Vec<String> = patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
        for directive in directives {
            let Some(order) = patch.remove(&directive) else { continue };
            let order = entries(order)?;
            let name = directive
                .strip_prefix(SET_ORDER)
                .and_then(|list| list.strip_prefix('/'))
                .ok_or_else(|| bad("setElementOrder list"))?;
            let standing = original.remove(name).map(entries).transpose()?;
            let changes = patch.remove(name).map(entries).transpose()?;
            let known = self.field(shape, name)?;
            in_order(changes.as_deref().unwrap_or_default(), &order, known.key)?;
            let before = standing.clone().unwrap_or_default();
            let merged = match (standing, changes) {
                (None, None) => continue,
                (Some(standing), None) => standing,
                (None, Some(changes)) => changes.into_iter().filter_map(plain).collect(),
                (Some(standing), Some(changes)) if known.merged => self.list(standing, changes, known, false)?,
                (Some(_), Some(changes)) => changes.into_iter().filter_map(plain).collect(),
            };
            original.insert(name.to_owned(), Value::Array(arranged(merged, &order, &before, known.key)?));
        }
        Ok(())
    }

    fn list(
        &self,
        mut standing: Vec<Value>,
        changes: Vec<Value>,
        known: Known<'t>,
        deletes: bool,
    ) -> Result<Vec<Value>, Unpatched> {
        if standing.is_empty() && changes.is_empty() {
            return Ok(standing);
        }
        alike(&standing, &changes)?;
        let of_maps = standing.first().or(changes.first()).is_some_and(Value::is_object);
        if !of_maps && deletes {
            let gone = positions(&changes, "");
            standing.retain(|entry| !gone.contains_key(&text(entry)));
            return Ok(standing);
        }
        if !of_maps {
            let mut merged = standing.clone();
            let mut seen = positions(&merged, "");
            for entry in &changes {
                if seen.insert(text(entry), 0).is_none() {
                    merged.push(entry.clone());
                }
            }
            return arranged(merged, &changes, &standing, "");
        }
        if known.key.is_empty() {
            return Err(Unpatched::Unmergeable("cannot merge lists without merge key for type struct".to_owned()));
        }
        let (standing, changes) = special_entries(standing, changes, known.key)?;
        let merged = self.entries(standing.clone(), changes.clone(), known)?;
        arranged(merged, &changes, &standing, known.key)
    }

    /// A change whose key is in the list is merged into the entry with the key; a change with a new key is appended.
    fn entries(&self, standing: Vec<Value>, changes: Vec<Value>, known: Known<'t>) -> Result<Vec<Value>, Unpatched> {
        let mut merged = standing;
        let mut at = positions(&merged, known.key);
        for entry in changes {
            let Value::Object(entry) = entry else {
                return Err(Unpatched::Unmergeable("an entry of the list is not a map".to_owned()));
            };
            let key = text(entry.get(known.key).ok_or_else(|| no_key(&entry, known.key))?);
            match at.get(&key).copied() {
                Some(place) => {
                    let Value::Object(old) = std::mem::take(&mut merged[place]) else { continue };
                    merged[place] = Value::Object(self.map(old, entry, known.shape)?);
                }
                None => {
                    at.insert(key, merged.len());
                    merged.extend(plain(Value::Object(entry)));
                }
            }
        }
        Ok(merged)
    }

    fn field(&self, shape: Shape<'t>, name: &str) -> Result<Known<'t>, Unpatched> {
        let plain = |shape| Known { shape, merged: false, replaced: false, key: "" };
        match shape {
            Shape::Unknown => Ok(plain(Shape::Unknown)),
            Shape::Entries(field) => Ok(plain(self.inside(field))),
            Shape::Of(row) => {
                let missing = || {
                    format!(
                        "unable to find api field in struct {} for the json field {name:?}",
                        crate::types::short(&row.name)
                    )
                };
                let field = row.field(name).ok_or_else(|| Unpatched::Unmergeable(missing()))?;
                let shape = if matches!(field.container, Container::Map | Container::MapOfLists) {
                    Shape::Entries(field)
                } else {
                    self.inside(field)
                };
                let (strategies, key) = field.rules.patch.split_once(':').unwrap_or((&field.rules.patch, ""));
                let has = |strategy: &str| strategies.split(',').any(|one| one == strategy);
                Ok(Known { shape, merged: has("merge"), replaced: has("replace"), key })
            }
        }
    }

    fn inside(&self, field: &'t Field) -> Shape<'t> {
        match &field.element {
            Element::Named(name) => self.types.get(name).map_or(Shape::Unknown, Shape::Of),
            _ => Shape::Unknown,
        }
    }
}

/// `$retainKeys`: what it does not name goes, and the patch may not set what it does not name.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), Unpatched> {
    let Some(kept) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(kept) = kept else { return Err(bad("retainKeys")) };
    let kept: std::collections::HashSet<&str> = kept.iter().filter_map(Value::as_str).collect();
    let directive = |name: &str| name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER);
    if patch.iter().any(|(name, value)| !value.is_null() && !directive(name) && !kept.contains(name.as_str())) {
        return Err(bad("retainKeys"));
    }
    original.retain(|name, _| kept.contains(name.as_str()));
    Ok(())
}

/// A patch's value where nothing stands yet: without the directives, which have nothing to direct. None: it is one
/// itself.
fn plain(value: Value) -> Option<Value> {
    match value {
        Value::Object(mut map) => {
            // Whatever it directs has nothing to be done to.
            if map.contains_key(DIRECTIVE) {
                return None;
            }
            let directive = |name: &str| {
                name == DIRECTIVE || name == RETAIN_KEYS || name.starts_with(SET_ORDER) || name.starts_with(DELETE_FROM)
            };
            map.retain(|name, _| !directive(name));
            Some(map.into_iter().filter_map(|(name, value)| Some((name, plain(value)?))).collect::<Map<_, _>>().into())
        }
        Value::Array(list) => Some(list.into_iter().filter_map(plain).collect()),
        other => Some(other),
    }
}

fn entries(list: Value) -> Result<Vec<Value>, Unpatched> {
    match list {
        Value::Array(list) => Ok(list),
        Value::Null => Ok(Vec::new()),
        other => {
            Err(Unpatched::Unmergeable(format!("expected a []interface {{}}, but received a {}", go_kind(&other))))
        }
    }
}

/// The type that Go has for it.
pub(crate) fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn bad(what: &str) -> Unpatched {
    Unpatched::Malformed(format!("invalid patch format of {what}"))
}

pub(super) fn no_key(map: &Map<String, Value>, key: &str) -> Unpatched {
    let map = shown(&Value::Object(map.clone()));
    Unpatched::Unmergeable(format!("map: {map} does not contain declared merge key: {key}"))
}

pub(super) fn unknown_directive(map: &Map<String, Value>) -> Unpatched {
    let directive = match map.get(DIRECTIVE) {
        Some(Value::String(directive)) => directive.clone(),
        // Go's text for a value that should be a string and is not.
        Some(other) => format!("%!s({}={})", go_kind(other), shown(other)),
        None => String::new(),
    };
    Unpatched::Unmergeable(format!("unknown patch type: {directive} in map: {}", shown(&Value::Object(map.clone()))))
}

#[cfg(test)]
mod tests;

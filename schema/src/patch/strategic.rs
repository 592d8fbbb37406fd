//! Strategic merge patch: a merge patch that knows types. A list whose field says `patch=merge:KEY` is merged entry by
//! entry, one whose entries are plain is a set; every other list is replaced. Directives in the patch say the rest:
//!
//!     "$patch": "replace" | "delete"              of a map: take the patch as it is, or empty the map
//!     "$patch": "delete", KEY: x                  in a list: the entries with this key go; "replace": only the patch's stay
//!     "$deleteFromPrimitiveList/LIST": [x]        these go from a list of plain values
//!     "$setElementOrder/LIST": [{KEY: x}]         the order of what the client knows; what it does not know stays in between
//!     "$retainKeys": [FIELD]                      every other field of the map goes
//!
//! As in Kubernetes new entries come first where no order is given, and what is wrong with a patch is said in its words.

use super::{Unpatched, shown};
use crate::types::{Container, Element, Field, Type, Types};
use serde_json::{Map, Value};
use std::collections::HashMap;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Does a patch to a document of the type called `name`. Where no type says what is there, maps are merged and lists replaced.
pub fn apply(types: &Types, name: &str, document: Value, patch: Map<String, Value>) -> Result<Value, Unpatched> {
    let Value::Object(document) = document else { return Ok(Value::Object(patch)) };
    let shape = types.get(name).map_or(Shape::Unknown, Shape::Of);
    Strategy { types }.map(document, patch, shape).map(Value::Object)
}

/// What is known of a map's fields.
#[derive(Clone, Copy)]
enum Shape<'t> {
    Of(&'t Type),
    /// Entries of a map with free keys, or of a field.
    Entries(&'t Field),
    Unknown,
}

/// What is known of one field.
#[derive(Clone, Copy)]
struct Known<'t> {
    /// Of a map, or of the maps in a list.
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
                    if known.replaced { new(Value::Object(value)) } else { Value::Object(self.map(standing, value, known.shape)?) }
                }
                (Value::Array(standing), Value::Array(value)) => {
                    let known = self.field(shape, &name)?;
                    match known.merged {
                        true => Value::Array(self.list(standing, value, known, deletes)?),
                        false if deletes => return Err(bad("primitive list")),
                        false => new(Value::Array(value)),
                    }
                }
                (_, value) => new(value),
            };
            original.insert(name, merged);
        }
        Ok(original)
    }

    /// Lists whose order the patch gives; they are done, and gone from the patch.
    fn ordered_lists(&self, original: &mut Map<String, Value>, patch: &mut Map<String, Value>, shape: Shape<'t>) -> Result<(), Unpatched> {
        let directives: Vec<String> = patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
        for directive in directives {
            let Some(order) = patch.remove(&directive) else { continue };
            let order = entries(order)?;
            let name =
                directive.strip_prefix(SET_ORDER).and_then(|list| list.strip_prefix('/')).ok_or_else(|| bad("setElementOrder list"))?;
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

    fn list(&self, mut standing: Vec<Value>, changes: Vec<Value>, known: Known<'t>, deletes: bool) -> Result<Vec<Value>, Unpatched> {
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

    /// Entries with a key that stands there go into it, others come behind.
    fn entries(&self, standing: Vec<Value>, changes: Vec<Value>, known: Known<'t>) -> Result<Vec<Value>, Unpatched> {
        let mut merged = standing;
        let mut at = positions(&merged, known.key);
        for entry in changes {
            let Value::Object(entry) = entry else { return Err(Unpatched::Unmergeable("an entry of the list is not a map".to_owned())) };
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
                let missing =
                    || format!("unable to find api field in struct {} for the json field {name:?}", crate::types::short(&row.name));
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

/// What takes the place of something whole is as it would be where nothing stood.
fn new(value: Value) -> Value {
    match plain(value) {
        Some(value) => value,
        None => Value::Object(Map::new()),
    }
}

/// A patch's value where nothing stands yet: without the directives, which have nothing to direct. None: it was to be deleted.
fn plain(value: Value) -> Option<Value> {
    match value {
        Value::Object(mut map) => {
            if map.get(DIRECTIVE).is_some_and(|directive| directive == "delete") {
                return None;
            }
            let directive =
                |name: &str| name == DIRECTIVE || name == RETAIN_KEYS || name.starts_with(SET_ORDER) || name.starts_with(DELETE_FROM);
            map.retain(|name, _| !directive(name));
            Some(map.into_iter().filter_map(|(name, value)| Some((name, plain(value)?))).collect::<Map<_, _>>().into())
        }
        Value::Array(list) => Some(list.into_iter().filter_map(plain).collect()),
        other => Some(other),
    }
}

/// What of a list the special entries of a patch leave, and the patch without them.
fn special_entries(mut standing: Vec<Value>, changes: Vec<Value>, key: &str) -> Result<(Vec<Value>, Vec<Value>), Unpatched> {
    let (mut plain, mut gone, mut replace) = (Vec::new(), HashMap::new(), false);
    for entry in changes {
        let Value::Object(map) = &entry else { return Err(Unpatched::Unmergeable("an entry of the list is not a map".to_owned())) };
        match map.get(DIRECTIVE).map(Value::as_str) {
            None => plain.push(entry),
            Some(Some("delete")) => {
                gone.insert(text(map.get(key).ok_or_else(|| no_key(map, key))?), 0);
            }
            Some(Some("replace")) => replace = true,
            Some(Some("merge")) => return Err(Unpatched::Unmergeable("merging lists cannot yet be specified in the patch".to_owned())),
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

/// A merged list in order: what `order` names as it says, the rest as it stood before; the rest goes in between as near to where
/// it stood as the first rule lets it.
fn arranged(merged: Vec<Value>, order: &[Value], before: &[Value], key: &str) -> Result<Vec<Value>, Unpatched> {
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
fn in_order(changes: &[Value], order: &[Value], key: &str) -> Result<(), Unpatched> {
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
fn alike(standing: &[Value], changes: &[Value]) -> Result<(), Unpatched> {
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
fn positions(list: &[Value], key: &str) -> HashMap<String, usize> {
    let mut at = HashMap::with_capacity(list.len());
    for (place, entry) in list.iter().enumerate() {
        let own = if key.is_empty() { Some(entry) } else { entry.get(key) };
        if let Some(own) = own {
            at.entry(text(own)).or_insert(place);
        }
    }
    at
}

fn key_of(entry: &Value, key: &str) -> Result<String, Unpatched> {
    if key.is_empty() {
        return Ok(text(entry));
    }
    let Value::Object(map) = entry else {
        return Err(Unpatched::Unmergeable(format!("expected a map[string]interface {{}}, but received a {}", go_kind(entry))));
    };
    map.get(key).map(text).ok_or_else(|| no_key(map, key))
}

/// Tells values apart, `"1"` and `1` too.
fn text(value: &Value) -> String {
    value.to_string()
}

fn entries(list: Value) -> Result<Vec<Value>, Unpatched> {
    match list {
        Value::Array(list) => Ok(list),
        Value::Null => Ok(Vec::new()),
        other => Err(Unpatched::Unmergeable(format!("expected a []interface {{}}, but received a {}", go_kind(&other)))),
    }
}

fn go_kind(value: &Value) -> &'static str {
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

fn no_key(map: &Map<String, Value>, key: &str) -> Unpatched {
    let map = shown(&Value::Object(map.clone()));
    Unpatched::Unmergeable(format!("map: {map} does not contain declared merge key: {key}"))
}

fn unknown_directive(map: &Map<String, Value>) -> Unpatched {
    let directive = map.get(DIRECTIVE).map(shown).unwrap_or_default();
    Unpatched::Unmergeable(format!("unknown patch type: {directive} in map: {}", shown(&Value::Object(map.clone()))))
}

#[cfg(test)]
mod tests {
    use super::super::tests::Chance;
    use super::*;
    use serde_json::json;

    const TEXT: &str = "
[Pod]
  metadata 1 Meta
  spec 2 Spec
[Meta]
  labels 1 {string}
  finalizers 2 [string] set patch=merge
  owners 3 {Container}
[Spec]
  containers 1 [Container] keys=name patch=merge:name
  volumes 2 [Volume] keys=name patch=merge,retainKeys:name
  tolerations 3 [Toleration]
  strategy 4 Volume patch=retainKeys
  whole 5 Meta patch=replace
  odd 6 [Volume] patch=merge
[Container]
  name 1 string
  image 2 string
  args 3 [string]
  env 4 [Env] keys=name patch=merge:name
  ports 5 [Port] keys=port,protocol patch=merge:port
[Env]
  name 1 string
  value 2 string
[Port]
  port 1 int32
  protocol 2 string
[Volume]
  name 1 string
  empty 2 Toleration
  secret 3 Toleration
[Toleration]
  key 1 string
";

    static TYPES: std::sync::LazyLock<Types> = std::sync::LazyLock::new(|| Types::parse(TEXT, &Types::default()).unwrap());

    fn done(document: &Value, patch: &Value) -> Result<Value, Unpatched> {
        apply(&TYPES, "Pod", document.clone(), patch.as_object().unwrap().clone())
    }

    /// Patches of `spec`.
    fn check(spec: Value, patch: Value, expected: Result<Value, &str>) {
        let found = done(&json!({"spec": spec}), &json!({"spec": patch}));
        match expected {
            Ok(expected) => assert_eq!(found.map(|found| found["spec"].clone()), Ok(expected), "{patch}"),
            Err(why) => assert_eq!(found.unwrap_err().to_string(), why, "{patch}"),
        }
    }

    #[test]
    fn lists_by_key() {
        let standing = json!({"containers": [{"name": "web", "image": "a", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"name": "side", "image": "b"}]});
        let names = |list: Value| {
            let mut spec = standing.clone();
            spec["containers"] = list;
            Ok(spec)
        };
        let web = standing["containers"][0].clone();
        let side = standing["containers"][1].clone();
        for (patch, expected) in [
            (json!({"containers": [{"name": "side", "image": "c"}]}), names(json!([web, {"name": "side", "image": "c"}]))),
            // New ones first, the last word on one counts.
            (
                json!({"containers": [{"name": "n", "image": "x"}, {"name": "n", "image": "y"}]}),
                names(json!([{"name": "n", "image": "y"}, web, side])),
            ),
            (json!({"containers": [{"name": "side", "$patch": "delete"}, {"name": "nope", "$patch": "delete"}]}), names(json!([web]))),
            (json!({"containers": [{"$patch": "replace"}, {"name": "n"}]}), names(json!([{"name": "n"}]))),
            (json!({"containers": [{"name": "web", "$patch": "replace"}]}), names(json!([]))),
            (
                json!({"containers": [{"name": "web", "env": [{"name": "A", "value": "9"}, {"name": "N"}]}]}),
                names(
                    json!([{"name": "web", "image": "a", "env": [{"name": "A", "value": "9"}, {"name": "N"}, {"name": "B", "value": "2"}]}, side]),
                ),
            ),
            // As kubectl apply says it.
            (
                json!({"$setElementOrder/containers": [{"name": "web"}], "containers": [{"name": "web",
                    "$setElementOrder/env": [{"name": "B"}, {"name": "C"}], "env": [{"name": "A", "$patch": "delete"}, {"name": "C"}]}, {"name": "side", "$patch": "delete"}]}),
                names(json!([{"name": "web", "image": "a", "env": [{"name": "B", "value": "2"}, {"name": "C"}]}])),
            ),
            (json!({"$setElementOrder/containers": [{"name": "side"}, {"name": "web"}]}), names(json!([side, web]))),
            (
                json!({"$setElementOrder/containers": [{"name": "n"}, {"name": "side"}], "containers": [{"name": "n"}]}),
                names(json!([{"name": "n"}, web, side])),
            ),
            (json!({"containers": null}), Ok(json!({}))),
            (
                json!({"containers": [{"name": "web", "args": ["a"]}]}),
                names(json!([{"name": "web", "image": "a", "env": web["env"], "args": ["a"]}, side])),
            ),
            // Where nothing stands, directives direct nothing.
            (
                json!({"containers": [{"name": "n", "$setElementOrder/env": [{"name": "A"}], "env": [{"name": "A"}, {"name": "Z", "$patch": "delete"}]}]}),
                names(json!([{"name": "n", "env": [{"name": "A"}]}, web, side])),
            ),
            // Mistakes.
            (json!({"containers": [{"image": "x"}]}), Err("map: map[image:x] does not contain declared merge key: name")),
            (json!({"containers": [{"$patch": "delete"}]}), Err("map: map[$patch:delete] does not contain declared merge key: name")),
            (json!({"containers": [{"name": "a", "$patch": "frob"}]}), Err("unknown patch type: frob in map: map[$patch:frob name:a]")),
            (json!({"containers": [{"name": "a", "$patch": "merge"}]}), Err("merging lists cannot yet be specified in the patch")),
            (
                json!({"$setElementOrder/containers": [{"name": "x"}], "containers": [{"name": "y"}]}),
                Err("The order in patch list:\n[map[name:y]]\n doesn't match $setElementOrder list:\n[map[name:x]]\n"),
            ),
            (json!({"$setElementOrder/containers": "x"}), Err("expected a []interface {}, but received a string")),
            (json!({"$setElementOrder": []}), Err("invalid patch format of setElementOrder list")),
            (json!({"$setElementOrder/nope": []}), Err("unable to find api field in struct Spec for the json field \"nope\"")),
            (
                json!({"containers": ["web"]}),
                Err(
                    "list element types are not identical: [[map[env:[map[name:A value:1] map[name:B value:2]] image:a name:web] map[image:b name:side]] [web]]",
                ),
            ),
            (
                json!({"containers": [[]]}),
                Err(
                    "list element types are not identical: [[map[env:[map[name:A value:1] map[name:B value:2]] image:a name:web] map[image:b name:side]] [[]]]",
                ),
            ),
        ] {
            check(standing.clone(), patch, expected);
        }
        let ports = json!({"containers": [{"name": "c", "ports": [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}]});
        // The merge key is the port alone, and what two entries share tells them not apart.
        check(
            ports.clone(),
            json!({"containers": [{"name": "c", "ports": [{"port": 53, "$patch": "delete"}]}]}),
            Ok(json!({"containers": [{"name": "c", "ports": []}]})),
        );
        check(
            ports,
            json!({"containers": [{"name": "c", "ports": [{"port": 53, "protocol": "x"}]}]}),
            Ok(json!({"containers": [{"name": "c", "ports": [{"port": 53, "protocol": "x"}, {"port": 53, "protocol": "UDP"}]}]})),
        );
        check(
            json!({"odd": [{"name": "a"}]}),
            json!({"odd": [{"name": "b"}]}),
            Err("cannot merge lists without merge key for type struct"),
        );
    }

    #[test]
    fn maps_and_other_lists() {
        for (standing, patch, expected) in [
            (json!({"tolerations": [{"key": "a"}]}), json!({"tolerations": [{"key": "b"}]}), Ok(json!({"tolerations": [{"key": "b"}]}))),
            (json!({"strategy": {"name": "a"}}), json!({"strategy": {"$patch": "delete"}}), Ok(json!({"strategy": {}}))),
            (
                json!({"strategy": {"name": "a"}}),
                json!({"strategy": {"$patch": "replace", "empty": {}}}),
                Ok(json!({"strategy": {"empty": {}}})),
            ),
            (json!({}), json!({"strategy": {"$patch": "delete"}}), Ok(json!({}))),
            (
                json!({"whole": {"labels": {"a": "b"}}}),
                json!({"whole": {"labels": {"c": "d"}}}),
                Ok(json!({"whole": {"labels": {"c": "d"}}})),
            ),
            (
                json!({"strategy": {"name": "a", "empty": {"key": "x"}}}),
                json!({"strategy": {"$retainKeys": ["name", "secret"], "secret": {"key": "y"}}}),
                Ok(json!({"strategy": {"name": "a", "secret": {"key": "y"}}})),
            ),
            (
                json!({"volumes": [{"name": "v", "empty": {}}]}),
                json!({"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {}}]}),
                Ok(json!({"volumes": [{"name": "v", "secret": {}}]})),
            ),
            (
                json!({"strategy": {"name": "a"}}),
                json!({"strategy": {"$retainKeys": ["name"], "secret": {}}}),
                Err("invalid patch format of retainKeys"),
            ),
            (json!({"strategy": {"name": "a"}}), json!({"strategy": {"$retainKeys": "name"}}), Err("invalid patch format of retainKeys")),
            (json!({"strategy": {"name": "a"}}), json!({"strategy": {"$patch": 5}}), Err("unknown patch type: 5 in map: map[$patch:5]")),
            // The types say later that it is none.
            (json!({"strategy": {"name": "a"}}), json!({"strategy": "x"}), Ok(json!({"strategy": "x"}))),
            (json!({}), json!({"nope": {"a": 1}}), Ok(json!({"nope": {"a": 1}}))),
            (
                json!({"tolerations": [{}]}),
                json!({"$deleteFromPrimitiveList/tolerations": [{}]}),
                Err("invalid patch format of primitive list"),
            ),
        ] {
            check(standing, patch, expected);
        }
        let document = json!({"metadata": {"owners": {"a": {"name": "x", "env": [{"name": "A"}]}}}});
        let patch = json!({"metadata": {"owners": {"a": {"env": [{"name": "B"}]}, "b": {"name": "y"}}}});
        let expected = json!({"metadata": {"owners": {"a": {"name": "x", "env": [{"name": "B"}, {"name": "A"}]}, "b": {"name": "y"}}}});
        assert_eq!(done(&document, &patch), Ok(expected));
    }

    #[test]
    fn lists_of_plain_values() {
        let standing = json!({"metadata": {"finalizers": ["a", "b"]}});
        for (patch, expected) in [
            (json!({"finalizers": ["c"]}), json!(["c", "a", "b"])),
            (json!({"finalizers": ["b"]}), json!(["a", "b"])),
            (json!({"$deleteFromPrimitiveList/finalizers": ["a", "z"]}), json!(["b"])),
            (json!({"$setElementOrder/finalizers": ["b", "a"]}), json!(["b", "a"])),
            (json!({"$setElementOrder/finalizers": ["d", "b"], "finalizers": ["d"]}), json!(["d", "a", "b"])),
        ] {
            let found = done(&standing, &json!({"metadata": patch})).unwrap();
            assert_eq!(found["metadata"]["finalizers"], expected, "{patch}");
        }
    }

    fn any_patch(chance: &mut Chance) -> Value {
        let name = |chance: &mut Chance| json!(["a", "b", "c", "d"][chance.below(4)]);
        let entry = |chance: &mut Chance| match chance.below(6) {
            0 => json!({"name": name(chance), "$patch": "delete"}),
            1 => json!({"name": name(chance), "env": [{"name": name(chance), "value": "x"}]}),
            2 => json!({"name": name(chance), "env": [{"name": "b", "value": null}], "args": ["x"]}),
            _ => json!({"name": name(chance), "image": "x"}),
        };
        let mut spec = Map::new();
        if chance.below(4) > 0 {
            let mut entries: Vec<Value> = (0..chance.below(4)).map(|_| entry(chance)).collect();
            // What is deleted and made in one patch is made anew each time.
            let mut seen = std::collections::HashSet::new();
            entries.retain(|entry| seen.insert(entry["name"].to_string()));
            // An order that is given is kept.
            entries.sort_by_key(|entry| entry["name"].to_string());
            spec.insert("containers".into(), entries.into());
        }
        if chance.below(3) == 0 {
            spec.insert("$setElementOrder/containers".into(), ["a", "b", "c", "d"].iter().map(|name| json!({"name": name})).collect());
        }
        if chance.below(8) == 0 {
            spec.insert("strategy".into(), json!({"$retainKeys": ["name"], "name": "x"}));
        }
        let mut finalizers: Vec<Value> = (0..chance.below(4)).map(|_| name(chance)).collect();
        finalizers.sort_by_key(Value::to_string);
        finalizers.dedup();
        let list = ["finalizers", "$deleteFromPrimitiveList/finalizers"][chance.below(2)];
        json!({"metadata": {list: finalizers}, "spec": spec})
    }

    /// As decoding leaves it.
    fn without_nulls(value: Value) -> Value {
        match value {
            Value::Object(map) => {
                let fields = map.into_iter().filter(|(_, value)| !value.is_null());
                fields.map(|(name, value)| (name, without_nulls(value))).collect::<Map<_, _>>().into()
            }
            Value::Array(list) => list.into_iter().map(without_nulls).collect(),
            other => other,
        }
    }

    /// Done to its own result a patch changes nothing.
    #[test]
    fn again_changes_nothing() {
        let mut chance = Chance(3);
        let mut document = json!({});
        let mut changed = 0;
        for _ in 0..20_000 {
            let patch = any_patch(&mut chance);
            // A list that contradicts the order which it gives is refused.
            let Ok(once) = done(&document, &patch) else { continue };
            let once = without_nulls(once);
            assert_eq!(done(&once, &patch).map(without_nulls), Ok(once.clone()), "{document} and {patch}");
            changed += usize::from(once != document);
            document = if chance.below(20) == 0 { json!({}) } else { once };
        }
        assert!(changed > 1000, "{changed}");
    }

    #[test]
    fn any_document_and_any_patch() {
        let mut chance = Chance(5);
        for _ in 0..20_000 {
            let (document, patch) = (chance.value(5), chance.value(5));
            if let Value::Object(patch) = patch {
                drop(apply(&TYPES, "Spec", document, patch));
            }
        }
    }
}

//! Strategic merge patch of 2015: a merge patch that matches the entries of lists by a key. The rows name the lists
//! with a key. `$patch` is the only directive of 2015.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::reading::Object;
use super::shape::{Form, Shape};
use super::{Version, row};

const DIRECTIVE: &str = "$patch";
/// Levels of a patch: a template's probe is twelve deep. The limit of the parser is higher.
const DEPTH_MAX: usize = 64;

/// Applies a patch to a document as the version shows it. The error is the problem of the patch.
pub fn patched(version: Version, kind: &str, document: Object, patch: Object) -> Result<Object, String> {
    map(document, patch, row(kind).and_then(|row| row.shape(version)), DEPTH_MAX)
}

fn map(mut standing: Object, mut patch: Object, shape: Option<&'static Shape>, depth: usize) -> Result<Object, String> {
    let deeper = depth.checked_sub(1).ok_or("the patch is nested too deeply")?;
    match directive(&mut patch)? {
        Directive::Merge => {}
        Directive::Replace => return Ok(patch),
        Directive::Delete => return Ok(Object::new()),
    }
    for (name, value) in patch {
        let form = shape.and_then(|shape| shape.fields().find(|field| field.name == name)).map(|field| field.form);
        let merged = match (standing.remove(&name), value) {
            (_, Value::Null) => continue,
            (Some(Value::Object(was)), Value::Object(over)) => Value::Object(map(was, over, inner(form), deeper)?),
            (Some(Value::Array(was)), Value::Array(over)) => match form {
                Some(Form::List(shape, [key, ..])) => Value::Array(list(was, over, shape, key, deeper)?),
                _ => Value::Array(over),
            },
            (_, value) => value,
        };
        standing.insert(name, merged);
    }
    Ok(standing)
}

fn inner(form: Option<Form>) -> Option<&'static Shape> {
    match form {
        Some(Form::Object(shape) | Form::Present(shape)) => Some(shape),
        _ => None,
    }
}

/// `key`: as v1 calls it.
fn list(
    was: Vec<Value>,
    over: Vec<Value>,
    shape: &'static Shape,
    key: &str,
    depth: usize,
) -> Result<Vec<Value>, String> {
    let key = shape.fields().find(|field| field.at == [key]).map_or(key, |field| field.name);
    let mut merged = was;
    let mut changes = Vec::new();
    let mut gone = HashSet::new();
    for entry in over {
        let Value::Object(mut entry) = entry else {
            return Err(format!("an entry of a list whose entries have a {key:?} is no map"));
        };
        match (directive(&mut entry)?, entry.get(key).map(Value::to_string)) {
            (Directive::Replace, _) => merged.clear(),
            (Directive::Delete, Some(named)) => drop(gone.insert(named)),
            (Directive::Delete, None) => return Err(format!("the entry to delete has no {key:?}")),
            (Directive::Merge, Some(named)) => changes.push((named, entry)),
            (Directive::Merge, None) => {
                return Err(format!("an entry of a list whose entries have a {key:?} has none"));
            }
        }
    }
    let name_of = |entry: &Value| entry.get(key).map(Value::to_string);
    merged.retain(|entry| name_of(entry).is_none_or(|named| !gone.contains(&named)));
    let mut places: HashMap<String, usize> = HashMap::new();
    for (at, entry) in merged.iter().enumerate() {
        name_of(entry).map(|named| *places.entry(named).or_insert(at));
    }
    for (named, entry) in changes {
        match places.get(&named) {
            Some(at) => {
                let Value::Object(was) = std::mem::take(&mut merged[*at]) else {
                    return Err(format!("the entry {named} is no map"));
                };
                merged[*at] = Value::Object(map(was, entry, Some(shape), depth)?);
            }
            None => {
                places.insert(named, merged.len());
                merged.push(Value::Object(entry));
            }
        }
    }
    Ok(merged)
}

enum Directive {
    Merge,
    Replace,
    Delete,
}

fn directive(of: &mut Object) -> Result<Directive, String> {
    match of.remove(DIRECTIVE) {
        None => Ok(Directive::Merge),
        Some(said) => match said.as_str() {
            Some("merge") => Ok(Directive::Merge),
            Some("replace") => Ok(Directive::Replace),
            Some("delete") => Ok(Directive::Delete),
            _ => Err(format!("{DIRECTIVE} must be merge, replace or delete, not {said}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_with_keys_are_merged() {
        let document = json!({"labels": {"a": "b", "c": "d"}, "desiredState": {"manifest": {"containers": [
            {"name": "x", "image": "i", "command": ["one", "two"], "ports": [{"containerPort": 80, "name": "web"}]},
            {"name": "y"}]}}});
        let manifest = |containers: Value| json!({"desiredState": {"manifest": {"containers": containers}}});
        let table = [
            (json!({"labels": {"a": null, "e": "f"}}), "/labels", Ok(json!({"c": "d", "e": "f"}))),
            (json!({"labels": {"$patch": "replace", "e": "f"}}), "/labels", Ok(json!({"e": "f"}))),
            (
                manifest(json!([{"name": "x", "image": "j"}])),
                "/desiredState/manifest/containers/0/image",
                Ok(json!("j")),
            ),
            (
                manifest(json!([{"name": "x", "command": ["z"]}])),
                "/desiredState/manifest/containers/0/command",
                Ok(json!(["z"])),
            ),
            (
                manifest(json!([{"name": "x", "ports": [{"containerPort": 80, "name": "w"}, {"containerPort": 81}]}])),
                "/desiredState/manifest/containers/0/ports",
                Ok(json!([{"containerPort": 80, "name": "w"}, {"containerPort": 81}])),
            ),
            (manifest(json!([{"name": "z"}])), "/desiredState/manifest/containers/2", Ok(json!({"name": "z"}))),
            (
                manifest(json!([{"name": "x", "$patch": "delete"}])),
                "/desiredState/manifest/containers",
                Ok(json!([{"name": "y"}])),
            ),
            (
                manifest(json!([{"$patch": "replace"}, {"name": "z"}])),
                "/desiredState/manifest/containers",
                Ok(json!([{"name": "z"}])),
            ),
            (manifest(json!(["x"])), "", Err("an entry of a list whose entries have a \"name\" is no map")),
            (manifest(json!([{"image": "x"}])), "", Err("an entry of a list whose entries have a \"name\" has none")),
            (json!({"$patch": "sing"}), "", Err("$patch must be merge, replace or delete, not \"sing\"")),
        ];
        for (patch, at, expected) in table {
            let map = |value: &Value| value.as_object().cloned().expect("a map");
            let found = patched(Version::V1beta1, "Pod", map(&document), map(&patch)).map(Value::Object);
            let found = found.map(|document| document.pointer(at).cloned().unwrap_or_default());
            assert_eq!(found, expected.map_err(str::to_owned), "{patch}");
        }
    }
}

//! JSON patch (RFC 6902), as Kubernetes reads it: what the standard leaves open, or forbids where the original does not
//! mind, is done as there. An index may count from the end (`-1`), a `replace` of a member that is not there adds it, a
//! `test` of one against null passes, a value left out is null.

use super::Unpatched;
use crate::problem::Path;
use serde_json::{Map, Value};

/// Operations of one patch.
pub const OPERATIONS_MAX: usize = 10_000;
/// Bytes by which `copy` may make a document grow in one patch: as much as a request may bring.
pub const COPIED_BYTES_MAX: usize = 3 << 20;
/// List entries that one patch may push aside, and values that it may look at: some tenths of a second of work.
const WORK_MAX: usize = 50_000_000;
/// Levels of the patched document: as deep as JSON is read. Operations that nest values by moves go no deeper either.
const LEVELS_MAX: usize = 128;

#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Any word: an unknown one fails when its turn comes.
    pub op: String,
    pub path: Option<String>,
    pub from: Option<String>,
    pub value: Value,
}

/// The operations of a patch, and the fields in it that mean nothing.
pub fn parse(patch: Value) -> Result<(Vec<Operation>, Vec<Path>), Unpatched> {
    let Value::Array(list) = patch else { return Err(mistyped(&patch, "[]handlers.jsonPatchOp")) };
    if list.len() > OPERATIONS_MAX {
        let why = format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}", list.len());
        return Err(Unpatched::TooLarge(why));
    }
    let mut unknown = Vec::new();
    let operations =
        list.into_iter().enumerate().map(|(at, entry)| operation(at, entry, &mut unknown)).collect::<Result<_, _>>()?;
    Ok((operations, unknown))
}

fn operation(at: usize, entry: Value, unknown: &mut Vec<Path>) -> Result<Operation, Unpatched> {
    let Value::Object(mut fields) = entry else { return Err(mistyped(&entry, "handlers.jsonPatchOp")) };
    let mut text = |name: &str| match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(mistyped(&other, &format!("struct field jsonPatchOp.{name} of type string"))),
    };
    let (op, path, from) = (text("op")?.unwrap_or_default(), text("path")?, text("from")?);
    let value = fields.remove("value").unwrap_or(Value::Null);
    let here = Path::root().index(at);
    unknown.extend(fields.keys().map(|name| here.field(name)));
    Ok(Operation { op, path, from, value })
}

fn mistyped(found: &Value, wanted: &str) -> Unpatched {
    let kind = crate::decode::json_kind(found);
    let place = if wanted.starts_with("struct") { "" } else { "value of type " };
    Unpatched::Malformed(format!("json: cannot unmarshal {kind} into Go {place}{wanted}"))
}

/// Does the operations, all of them or none.
pub fn apply(mut document: Value, operations: &[Operation]) -> Result<Value, Unpatched> {
    let mut spent = Spent::default();
    for (at, operation) in operations.iter().enumerate() {
        let done = one(&mut document, operation, &mut spent);
        done.map_err(|why| {
            Unpatched::Failed(format!("operation {at}, {:?} of {:?}: {why}", operation.op, operation.path))
        })?;
        if spent.copied_bytes > COPIED_BYTES_MAX {
            let why = format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit \
                 {COPIED_BYTES_MAX}",
                spent.copied_bytes
            );
            return Err(Unpatched::TooLarge(why));
        }
        if spent.work > WORK_MAX {
            let why = format!(
                "the patch moves long lists and large values about too often: more than {WORK_MAX} were touched"
            );
            return Err(Unpatched::TooLarge(why));
        }
    }
    Ok(document)
}

#[derive(Default)]
struct Spent {
    copied_bytes: usize,
    work: usize,
}

const MISSING: &str = "the path is missing";
const NO_PLACE: &str = "the path leads nowhere";

fn one(document: &mut Value, operation: &Operation, spent: &mut Spent) -> Result<(), String> {
    let path = operation.path.as_deref().ok_or(MISSING)?;
    let from = || operation.from.as_deref().ok_or("from is missing");
    match operation.op.as_str() {
        "add" => add(document, path, operation.value.clone(), spent),
        "remove" => remove(document, path, spent).map(drop),
        "replace" => replace(document, path, operation.value.clone(), spent),
        "move" => {
            let moved = remove(document, from()?, spent)?;
            add(document, path, moved, spent)
        }
        "copy" => {
            let copied = get(document, from()?)?.cloned().unwrap_or(Value::Null);
            spent.copied_bytes = spent.copied_bytes.saturating_add(weight(&copied));
            // The limit is looked at before the next operation; what it allows fits in memory many times.
            add(document, path, copied, spent)
        }
        "test" => {
            let found = get(document, path)?.unwrap_or(&Value::Null);
            if *found == operation.value { Ok(()) } else { Err("the test failed".to_owned()) }
        }
        _ => Err("there is no such operation".to_owned()),
    }
}

fn add(document: &mut Value, path: &str, value: Value, spent: &mut Spent) -> Result<(), String> {
    not_too_deep(path, &value, spent)?;
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Object(map) => drop(map.insert(key, value)),
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) => {
            let at = index(&key, list.len() + 1)?;
            spent.work += list.len() - at;
            list.insert(at, value);
        }
        _ => return Err(NO_PLACE.to_owned()),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str, spent: &mut Spent) -> Result<Value, String> {
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Object(map) => map.remove(&key).ok_or_else(|| NO_PLACE.to_owned()),
        Value::Array(list) => {
            let at = index(&key, list.len())?;
            spent.work += list.len() - at;
            Ok(list.remove(at))
        }
        _ => Err(NO_PLACE.to_owned()),
    }
}

fn replace(document: &mut Value, path: &str, value: Value, spent: &mut Spent) -> Result<(), String> {
    not_too_deep(path, &value, spent)?;
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err("a document is an object or a list".to_owned());
        }
        *document = value;
        return Ok(());
    }
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Object(map) => drop(map.insert(key, value)),
        Value::Array(list) => {
            let at = index(&key, list.len())?;
            list[at] = value;
        }
        _ => return Err(NO_PLACE.to_owned()),
    }
    Ok(())
}

/// None: the parent exists and lacks the member.
fn get<'a>(document: &'a mut Value, path: &str) -> Result<Option<&'a Value>, String> {
    if path.is_empty() {
        return Ok(Some(document));
    }
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Object(map) => Ok(map.get(&key)),
        Value::Array(list) => {
            let at = index(&key, list.len())?;
            Ok(list.get(at))
        }
        _ => Err(NO_PLACE.to_owned()),
    }
}

/// The parent of the last step of a path, and that step. A path should begin with a slash; text before the first one is
/// skipped, as in Kubernetes.
fn parent<'a>(document: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let (_, path) = path.split_once('/').ok_or(NO_PLACE)?;
    let (way, last) = path.rsplit_once('/').map_or((None, path), |(way, last)| (Some(way), last));
    let mut here = document;
    for step in way.into_iter().flat_map(|way| way.split('/')) {
        let step = unescaped(step);
        here = match here {
            Value::Object(map) => map.get_mut(&step),
            Value::Array(list) => {
                let at = index(&step, list.len())?;
                list.get_mut(at)
            }
            _ => None,
        }
        .ok_or(NO_PLACE)?;
    }
    Ok((here, unescaped(last)))
}

fn unescaped(step: &str) -> String {
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~") } else { step.to_owned() }
}

/// `end`: how many there are; one from the end is -1.
fn index(text: &str, end: usize) -> Result<usize, String> {
    let at: i64 = text.parse().map_err(|_| format!("{text:?} is no index"))?;
    let from_start = if at < 0 { i64::try_from(end).unwrap_or(i64::MAX).saturating_add(at) } else { at };
    usize::try_from(from_start).ok().filter(|at| *at < end).ok_or_else(|| format!("index {at} is out of bounds"))
}

fn not_too_deep(path: &str, value: &Value, spent: &mut Spent) -> Result<(), String> {
    let levels = path.split('/').count() + levels(value, spent);
    if levels > LEVELS_MAX {
        Err(format!("the document would be nested deeper than {LEVELS_MAX} levels"))
    } else {
        Ok(())
    }
}

fn levels(value: &Value, spent: &mut Spent) -> usize {
    spent.work += 1;
    let deepest = match value {
        Value::Array(list) => list.iter().map(|entry| levels(entry, spent)).max(),
        Value::Object(map) => map.values().map(|entry| levels(entry, spent)).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    1 + deepest.unwrap_or_default()
}

/// About its bytes as JSON.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(list) => list.iter().map(|entry| weight(entry) + 1).sum::<usize>() + 2,
        Value::Object(map) => weight_of(map),
    }
}

fn weight_of(map: &Map<String, Value>) -> usize {
    map.iter().map(|(key, entry)| key.len() + 4 + weight(entry)).sum::<usize>() + 2
}

#[cfg(test)]
mod tests {
    use super::super::tests::Chance;
    use super::*;
    use serde_json::json;

    fn check(document: Value, patch: Value, expected: Result<Value, &str>) {
        let done = parse(patch.clone()).and_then(|(operations, _)| apply(document, &operations));
        match expected {
            Ok(expected) => assert_eq!(done, Ok(expected), "{patch}"),
            Err(why) => assert!(done.as_ref().is_err_and(|error| error.to_string().contains(why)), "{patch}: {done:?}"),
        }
    }

    #[test]
    fn operations() {
        for (document, patch, expected) in [
            // From the standard's appendix.
            (
                json!({"foo": "bar"}),
                json!([{"op": "add", "path": "/baz", "value": "qux"}]),
                Ok(json!({"baz": "qux", "foo": "bar"})),
            ),
            (
                json!({"a": ["x", "y"]}),
                json!([{"op": "add", "path": "/a/1", "value": "q"}]),
                Ok(json!({"a": ["x", "q", "y"]})),
            ),
            (json!({"a": 1, "b": 2}), json!([{"op": "remove", "path": "/a"}]), Ok(json!({"b": 2}))),
            (json!({"a": ["x", "y", "z"]}), json!([{"op": "remove", "path": "/a/1"}]), Ok(json!({"a": ["x", "z"]}))),
            (json!({"a": 1}), json!([{"op": "replace", "path": "/a", "value": 2}]), Ok(json!({"a": 2}))),
            (
                json!({"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}}),
                json!([{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}]),
                Ok(json!({"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}})),
            ),
            (
                json!({"a": ["1", "2", "3"]}),
                json!([{"op": "move", "from": "/a/0", "path": "/a/2"}]),
                Ok(json!({"a": ["2", "3", "1"]})),
            ),
            (
                json!({"a": {"b": 1}}),
                json!([{"op": "test", "path": "/a", "value": {"b": 1}}]),
                Ok(json!({"a": {"b": 1}})),
            ),
            (json!({"a": 1}), json!([{"op": "test", "path": "/a", "value": "1"}]), Err("the test failed")),
            (
                json!({"a": {}}),
                json!([{"op": "add", "path": "/a/b", "value": {"c": 1}}]),
                Ok(json!({"a": {"b": {"c": 1}}})),
            ),
            (json!({"a": 1}), json!([{"op": "add", "path": "/b/c", "value": 1}]), Err(NO_PLACE)),
            (
                json!({"/": 9, "~1": 10}),
                json!([{"op": "test", "path": "/~01", "value": 10}]),
                Ok(json!({"/": 9, "~1": 10})),
            ),
            (json!({"a": [1]}), json!([{"op": "add", "path": "/a/-", "value": [2]}]), Ok(json!({"a": [1, [2]]}))),
            // Escapes.
            (
                json!({"a": {}}),
                json!([{"op": "add", "path": "/a/x~1y~0z", "value": 1}]),
                Ok(json!({"a": {"x/y~z": 1}})),
            ),
            // What Kubernetes lets pass.
            (json!({}), json!([{"op": "replace", "path": "/a", "value": 2}]), Ok(json!({"a": 2}))),
            (json!({}), json!([{"op": "test", "path": "/a", "value": null}]), Ok(json!({}))),
            (json!({}), json!([{"op": "add", "path": "/a"}]), Ok(json!({"a": null}))),
            (json!({}), json!([{"op": "add", "path": "data/a", "value": 1}]), Ok(json!({"a": 1}))),
            (json!({"a": [1, 2]}), json!([{"op": "replace", "path": "/a/-1", "value": 9}]), Ok(json!({"a": [1, 9]}))),
            (json!({"a": [1, 2]}), json!([{"op": "add", "path": "/a/-1", "value": 9}]), Ok(json!({"a": [1, 2, 9]}))),
            (json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/01"}]), Ok(json!({"a": [1]}))),
            (json!({}), json!([{"op": "copy", "from": "/x", "path": "/y"}]), Ok(json!({"y": null}))),
            (json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {"b": 1}}]), Ok(json!({"b": 1}))),
            (json!({"a": 1}), json!([]), Ok(json!({"a": 1}))),
            // What fails, and leaves nothing done.
            (json!({}), json!([{"op": "frob", "path": "/a"}]), Err("there is no such operation")),
            (json!({}), json!([{"path": "/a", "value": 1}]), Err("there is no such operation")),
            (json!({}), json!([{"op": "add", "value": 1}]), Err(MISSING)),
            (json!({}), json!([{"op": "move", "path": "/a"}]), Err("from is missing")),
            (json!({}), json!([{"op": "add", "path": "", "value": 1}]), Err(NO_PLACE)),
            (json!({}), json!([{"op": "remove", "path": "/a"}]), Err(NO_PLACE)),
            (json!({}), json!([{"op": "move", "from": "/a", "path": "/b"}]), Err(NO_PLACE)),
            (json!({"a": [1]}), json!([{"op": "add", "path": "/a/2", "value": 1}]), Err("out of bounds")),
            (json!({"a": [1]}), json!([{"op": "add", "path": "/a/-3", "value": 1}]), Err("out of bounds")),
            (json!({"a": [1]}), json!([{"op": "remove", "path": "/a/-"}]), Err("no index")),
            (json!({"a": [1]}), json!([{"op": "test", "path": "/a/9", "value": null}]), Err("out of bounds")),
            (json!({"a": "x"}), json!([{"op": "add", "path": "/a/b", "value": 1}]), Err(NO_PLACE)),
            // What is no patch.
            (
                json!({}),
                json!({"a": 1}),
                Err("json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
            ),
            (json!({}), json!([1]), Err("json: cannot unmarshal number into Go value of type handlers.jsonPatchOp")),
            (
                json!({}),
                json!([{"op": 1}]),
                Err("json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
            ),
        ] {
            check(document, patch, expected);
        }
    }

    #[test]
    fn fields_of_no_meaning_are_named() {
        let (_, unknown) = parse(json!([{"op": "test", "path": ""}, {"op": "test", "pth": 1}])).unwrap();
        assert_eq!(unknown, [Path::new("[1].pth")]);
    }

    #[test]
    fn work_and_growth_are_bounded() {
        let many: Vec<Value> = (0..=OPERATIONS_MAX).map(|_| json!({"op": "test", "path": "/a", "value": 1})).collect();
        check(json!({"a": 1}), many.into(), Err("The allowed maximum operations in a JSON patch is 10000, got 10001"));
        let doubling: Vec<Value> = (0..30).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/-"})).collect();
        check(json!({"a": ["some text to begin with"]}), doubling.into(), Err("exceeding the limit"));
        let pushing: Vec<Value> = (0..10_000).map(|_| json!({"op": "add", "path": "/a/0", "value": 1})).collect();
        check(json!({"a": vec![0; 100_000]}), pushing.into(), Err("were touched"));
        let nesting: Vec<Value> = (0..3_000)
            .flat_map(|_| {
                [
                    json!({"op": "add", "path": "/b", "value": {}}),
                    json!({"op": "move", "from": "/a", "path": "/b/a"}),
                    json!({"op": "move", "from": "/b", "path": "/a"}),
                ]
            })
            .collect();
        check(json!({"a": {}}), nesting.into(), Err("nested deeper than 128 levels"));
    }

    /// A remove undoes an add; and no patch panics.
    #[test]
    fn any_patch() {
        let mut chance = Chance(11);
        for _ in 0..20_000 {
            let document = chance.value(4);
            let path = |chance: &mut Chance| {
                (0..chance.below(4))
                    .map(|_| format!("/{}", chance.key().replace('~', "~0").replace('/', "~1")))
                    .collect()
            };
            let operations: Vec<Operation> = (0..chance.below(4))
                .map(|_| Operation {
                    op: ["add", "remove", "replace", "move", "copy", "test", ""][chance.below(7)].to_owned(),
                    path: Some(path(&mut chance)),
                    from: Some(path(&mut chance)),
                    value: chance.value(2),
                })
                .collect();
            drop(apply(document.clone(), &operations));
            let (place, value): (String, Value) = (path(&mut chance), chance.value(2));
            let mut added = document.clone();
            let was = get(&mut added.clone(), &place).ok().flatten().cloned();
            let in_object = matches!(parent(&mut added.clone(), &place), Ok((Value::Object(_), _)));
            if in_object && was.is_none() && add(&mut added, &place, value, &mut Spent::default()).is_ok() {
                remove(&mut added, &place, &mut Spent::default()).unwrap();
                assert_eq!(added, document, "{place}");
            }
        }
    }
}

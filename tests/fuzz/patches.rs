//! Patches of every language: none panics, and what a patch makes of a document it makes of the result again.

use super::documents::{builtin, document};
use super::{Dice, spoil};
use coracle_schema::apply::Fields;
use coracle_schema::apply::{Writer, apply};
use coracle_schema::patch::{json as operations_of, merge, strategic as patched};
use coracle_schema::{Types, decode, default, tidy};
use serde_json::{Map, Value, json};

fn patch(types: &Types, name: &str, dice: &mut Dice, spoiled: bool) -> Map<String, Value> {
    let mut patch = document(types, name, dice, 3);
    if spoiled {
        spoil(&mut patch, dice);
    }
    let Value::Object(fields) = patch else { return Map::new() };
    fields
}

pub fn strategic(dice: &mut Dice) {
    let types = builtin().types();
    let name = dice.pick(builtin().all());
    let standing = document(types, name, dice, 4);
    let spoiled = dice.once_in(2);
    let patch = patch(types, name, dice, spoiled);
    let Ok(mut once) = patched::apply(types, name, standing.clone(), patch.clone()) else { return };
    // What does not fit its type is refused after the patch, and never patched again.
    if decode(types, name, &mut once).faults.is_empty() {
        let again = patched::apply(types, name, once.clone(), patch.clone());
        // Nothing is promised of directives in odd places, of nulls in opaque data, of a key that is there twice.
        if !spoiled {
            let twice = again.map(|mut twice| {
                decode(types, name, &mut twice);
                twice
            });
            assert_eq!(twice.as_ref(), Ok(&once), "{name}\n{}\nover {standing}", Value::Object(patch));
        }
    }
}

pub fn merge_patch(dice: &mut Dice) {
    let types = builtin().types();
    let name = dice.pick(builtin().all());
    let mut once = document(types, name, dice, 4);
    let patch = Value::Object(patch(types, name, dice, true));
    merge(&mut once, patch.clone());
    let mut twice = once.clone();
    merge(&mut twice, patch.clone());
    assert_eq!(twice, once, "{patch}");
}

/// Paths that are there, almost there and nowhere.
fn pointer(document: &Value, dice: &mut Dice) -> String {
    let (mut path, mut here) = (String::new(), document);
    loop {
        let next = match here {
            Value::Object(map) if !map.is_empty() => {
                map.iter().nth(dice.below(map.len())).map(|(name, value)| (name.clone(), value))
            }
            Value::Array(list) if !list.is_empty() => {
                let at = dice.below(list.len());
                Some((at.to_string(), &list[at]))
            }
            _ => None,
        };
        let Some((step, value)) = next.filter(|_| !dice.once_in(5)) else { break };
        path = format!("{path}/{}", step.replace('~', "~0").replace('/', "~1"));
        here = value;
    }
    path.push_str(dice.pick::<&str>(&["", "", "", "/x", "/-", "/0", "/-1", "/99999999999999999999", "/~", "//", "~1"]));
    path
}

pub fn operations(dice: &mut Dice) {
    let types = builtin().types();
    let standing = document(types, dice.pick::<String>(builtin().all()), dice, 3);
    let mut list = Vec::new();
    for _ in 0..=dice.below(5) {
        let op = *dice.pick(&["add", "remove", "replace", "move", "copy", "test", "nonsense"]);
        let (path, from) = (pointer(&standing, dice), pointer(&standing, dice));
        list.push(json!({"op": op, "path": path, "from": from, "value": super::odd(dice)}));
    }
    let mut patch = Value::Array(list);
    if dice.once_in(4) {
        spoil(&mut patch, dice);
    }
    let Ok((operations, _)) = operations_of::parse(patch) else { return };
    let first = operations_of::apply(standing.clone(), &operations);
    assert_eq!(first, operations_of::apply(standing, &operations));
}

/// An applier that says the same again changes nothing, whoever wrote in between what it does not own. Once it may: a
/// map of which all fields are taken goes, as in Kubernetes, and one that is still named comes back empty with the next
/// apply.
pub fn applied(dice: &mut Dice) {
    let types = builtin().types();
    let nothing = Fields::default();
    let name = dice.pick(builtin().whole());
    let writer = |manager| Writer {
        manager,
        subresource: "",
        api_version: "v1",
        kind: name,
        type_name: name,
        now: "2026-01-01T00:00:00Z",
        ignored: &nothing,
        other: None,
    };
    let mut live = json!({"apiVersion": "v1", "kind": name, "metadata": {"name": "a"}});
    for round in 0..3 {
        let mut config = document(types, name, dice, 3);
        if dice.once_in(3) {
            spoil(&mut config, dice);
        }
        let Some(fields) = config.as_object_mut() else { return };
        fields.insert("apiVersion".to_owned(), json!("v1"));
        fields.insert("kind".to_owned(), json!(name));
        fields.insert("metadata".to_owned(), json!({"name": "a", "labels": {"l": format!("{round}")}}));
        let manager = *dice.pick(&["one", "two"]);
        let Some(once) = laid(types, &live, &config, writer(manager)) else { return };
        let again =
            |live: &Value| laid(types, live, &config, writer(manager)).expect("what was applied can be applied again");
        let twice = again(&once);
        assert_eq!(again(&twice), twice, "{manager} applies\n{config}\nover {live}");
        live = once;
    }
}

/// The object with its owners as it is stored, brought in form as every write is; None: it was refused, or does not fit
/// its type.
fn laid(types: &Types, live: &Value, config: &Value, writer: Writer<'_>) -> Option<Value> {
    let applied = apply(types, live, config, writer, true).ok()?;
    let mut object = applied.object;
    let fits = decode(types, writer.type_name, &mut object).faults.is_empty();
    default(types, writer.type_name, &mut object);
    tidy(types, writer.type_name, &mut object);
    applied.managed.put(&mut object);
    fits.then_some(object)
}

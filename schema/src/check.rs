//! Checks a decoded and defaulted document by its types alone: required fields, and values outside of an enumeration.
//!
//! The built-in types mark nothing as required: Kubernetes' rules for that depend on other fields or have words of
//! their own, and stand in the strategies. Types that are given later (whose only rules these are) use it.

use crate::problem::{Problem, Reason};
use crate::trail::{DEPTH_MAX, Step, Trail};
use crate::types::{Container, Element, Field, Types};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Problems that are told.
const PROBLEMS_MAX: usize = 100;

/// All problems of a document, at most a hundred, in the order of its fields.
pub fn check(types: &Types, name: &str, value: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Value::Object(object) = value {
        object_of(types, name, object, &Trail::root(), &mut problems);
    }
    problems
}

fn object_of(types: &Types, name: &str, object: &Map<String, Value>, trail: &Trail<'_>, problems: &mut Vec<Problem>) {
    let Some(row) = types.get(name).filter(|_| trail.depth <= DEPTH_MAX) else { return };
    // Both are sorted by name.
    let mut said = object.iter().peekable();
    for field in row.fields.iter() {
        let here = trail.then(Step::Field(&field.name));
        while said.next_if(|(name, _)| name.as_str() < &*field.name).is_some() {}
        match said.next_if(|(name, _)| **name == *field.name).map(|(_, value)| value) {
            None | Some(Value::Null) if field.rules.required => tell(problems, || Problem::required(&here.path(), "")),
            None | Some(Value::Null) => {}
            Some(value) => value_of(types, field, value, &here, problems),
        }
    }
}

fn value_of(types: &Types, field: &Field, value: &Value, trail: &Trail<'_>, problems: &mut Vec<Problem>) {
    match (field.container, value) {
        (Container::One, value) => entry_of(types, field, value, trail, problems),
        (Container::List, Value::Array(list)) => {
            for (at, entry) in list.iter().enumerate() {
                entry_of(types, field, entry, &trail.then(Step::Index(at)), problems);
            }
        }
        (Container::Map, Value::Object(map)) => {
            for (key, entry) in map {
                entry_of(types, field, entry, &trail.then(Step::Key(key)), problems);
            }
        }
        (Container::MapOfLists, Value::Object(map)) => {
            for (key, list) in map {
                let here = trail.then(Step::Key(key));
                for (at, entry) in list.as_array().into_iter().flatten().enumerate() {
                    entry_of(types, field, entry, &here.then(Step::Index(at)), problems);
                }
            }
        }
        _ => {}
    }
}

fn entry_of(types: &Types, field: &Field, value: &Value, trail: &Trail<'_>, problems: &mut Vec<Problem>) {
    match (&field.element, value) {
        (Element::Named(name), Value::Object(object)) => object_of(types, name, object, trail, problems),
        // Where it is no pointer an empty text is as good as none.
        (_, Value::String(text))
            if (field.rules.pointer || !text.is_empty()) && !allows(&field.rules.choices, text) =>
        {
            tell(problems, || unsupported(field, value, trail));
        }
        _ => {}
    }
}

/// No choices allow everything.
fn allows(choices: &[Cow<'static, str>], text: &str) -> bool {
    choices.is_empty() || choices.iter().any(|choice| choice == text)
}

fn unsupported(field: &Field, value: &Value, trail: &Trail<'_>) -> Problem {
    let choices: Vec<String> = field.rules.choices.iter().map(|choice| format!("{choice:?}")).collect();
    let detail = format!("supported values: {}", choices.join(", "));
    Problem::new(&trail.path(), Reason::NotSupported, Some(value.clone()), detail)
}

fn tell(problems: &mut Vec<Problem>, problem: impl FnOnce() -> Problem) {
    if problems.len() < PROBLEMS_MAX {
        problems.push(problem());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn required_and_allowed() {
        let text = "
[Pod]
  spec 1 Spec required
[Spec]
  policy 1 string enum=Always|Never
  ports 2 [Port]
  by 3 {Port}
  kinds 4 [string] enum=A
  mode 5 string enum=Block|File pointer
[Port]
  number 1 int32 required
  protocol 2 string enum=TCP|UDP
";
        let types = Types::parse(text, &Types::default()).unwrap();
        for (document, expected) in [
            (json!({}), vec!["spec: Required value"]),
            (json!({"spec": {"policy": ""}}), vec![]),
            (
                json!({"spec": {"mode": ""}}),
                vec!["spec.mode: Unsupported value: \"\": supported values: \"Block\", \"File\""],
            ),
            (
                json!({"spec": {"policy": "never"}}),
                vec!["spec.policy: Unsupported value: \"never\": supported values: \"Always\", \"Never\""],
            ),
            (
                json!({
                    "spec": {
                        "ports": [{"number": 1, "protocol": "UDP"}, {"protocol": "x"}], "by": {"a": {}},
                        "kinds": ["A", "B"],
                    },
                }),
                vec![
                    "spec.by[a].number: Required value",
                    "spec.kinds[1]: Unsupported value: \"B\": supported values: \"A\"",
                    "spec.ports[1].number: Required value",
                    "spec.ports[1].protocol: Unsupported value: \"x\": supported values: \"TCP\", \"UDP\"",
                ],
            ),
        ] {
            let found: Vec<String> = check(&types, "Pod", &document).iter().map(Problem::to_string).collect();
            assert_eq!(found, expected, "{document}");
        }
    }
}

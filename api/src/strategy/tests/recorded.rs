//! Compares the strategies with recorded answers of a kube-apiserver 1.36: problem for problem, in order.

use crate::kinds::{Kind, Kinds};
use crate::meta::Time;
use crate::strategy::{Making, Rules, ZoneFault};
use crate::types;
use coracle_schema::{Problem, check, decode, default, tidy};
use serde_json::{Value, json};

fn steps(case: &str) -> Vec<Value> {
    let path = format!("{}/../tests/data/v1/cases/{case}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    let case: Value = serde_json::from_str(&text).unwrap();
    case["steps"].as_array().unwrap().clone()
}

/// The kind, and the namespace, of a path of a create.
fn place<'k>(kinds: &'k Kinds, path: &str) -> Option<(&'k Kind, &'static str)> {
    let path = path.split('?').next().unwrap_or_default();
    let (group, version, rest) = match path.strip_prefix("/api/v1/") {
        Some(rest) => ("", "v1", rest),
        None => {
            let mut parts = path.strip_prefix("/apis/")?.splitn(3, '/');
            (parts.next()?, parts.next()?, parts.next()?)
        }
    };
    let (namespace, plural) = match rest.strip_prefix("namespaces/{{ns}}/") {
        Some(plural) => ("{{ns}}", plural),
        None => ("", rest),
    };
    Some((kinds.by_path(group, version, plural)?, namespace))
}

fn filled(value: &Value) -> Value {
    let text = value
        .to_string()
        .replace("{{ns}}", "ns")
        .replace("<uid>", "u1")
        .replace("<fill:", "{{fill:")
        .replace(":254>", ":254}}");
    let text = text.replace("<suffix>", "abcde");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("{{fill:") {
        out.push_str(&rest[..at]);
        let (what, behind) = rest[at + 7..].split_once("}}").unwrap();
        let (letter, times) = what.split_once(':').unwrap();
        out.push_str(&letter.repeat(times.parse().unwrap()));
        rest = behind;
    }
    out.push_str(rest);
    serde_json::from_str(&out).unwrap()
}

/// A create as `prepare` does it: the document that would be stored, and its problems.
pub fn made(kind: &Kind, namespace: &str, mut object: Value) -> Result<(Value, Vec<Problem>), String> {
    let types = types::builtin();
    if let Some(message) = decode(&types, &kind.type_name, &mut object).message() {
        return Err(message);
    }
    let unknown = |zone: &str| zone.starts_with("Mars/").then(|| format!("unknown time zone {zone}"));
    let rules = Rules { other_form: kind.alias.is_some(), zone_fault: ZoneFault(unknown), ..Rules::default() };
    if let Some(alias) = kind.alias {
        (alias.read)(&mut object);
    }
    let kinds = Kinds::builtin();
    let kind = kinds.stored_as(kind);
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.as_ref().into();
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    if kind.namespaced {
        object["metadata"]["namespace"] = namespace.replace("{{ns}}", "ns").into();
    }
    if kind.keeps_status {
        object.as_object_mut().unwrap().remove("status");
    }
    default(&types, &kind.type_name, &mut object);
    let mut port = 30_000;
    let mut making = Making {
        now: Time::from_seconds(1_600_000_000).unwrap(),
        uid: "u1".into(),
        suffix: &mut || "abcde".into(),
        service_address: &mut || Some([10, 96, 0, 9].into()),
        node_port: &mut || {
            port += 1;
            Some(port)
        },
    };
    kind.strategy.create(&mut object, &mut making);
    let mut found = kind.strategy.validate(&object, rules);
    for problem in check(&types, &kind.type_name, &object) {
        let same = |other: &Problem| crate::strategy::covers(other, &problem);
        if !found.iter().any(same) {
            found.push(problem);
        }
    }
    tidy(&types, &kind.type_name, &mut object);
    Ok((object, found))
}

/// Differences, a line each.
fn compare(case: &str) -> Vec<String> {
    let kinds = Kinds::builtin();
    let mut lines = Vec::new();
    for (at, step) in steps(case).iter().enumerate().filter(|(_, step)| step["method"] == "POST") {
        let path = step["path"].as_str().unwrap();
        let Some((kind, namespace)) = place(&kinds, path) else { continue };
        let (status, theirs) = (step["answer"]["status"].as_u64().unwrap(), &step["answer"]["body"]);
        if !step["body"].is_object() || kind.answer.is_some() {
            continue;
        }
        let ours = made(kind, namespace, filled(&step["body"]));
        let expected: Vec<String> = match status {
            201 => Vec::new(),
            422 => theirs["details"]["causes"].as_array().into_iter().flatten().map(cause).collect(),
            400 => vec![theirs["message"].as_str().unwrap_or_default().to_owned()],
            _ => continue,
        };
        let found: Vec<String> = match &ours {
            Err(message) => vec![message.clone()],
            Ok((_, problems)) => problems.iter().map(Problem::to_string).collect(),
        };
        let alike = match status {
            400 => found.len() == 1 && expected[0].ends_with(&found[0]),
            _ => filled(&json!(expected)) == json!(found),
        };
        if !alike {
            lines.push(format!("{case} step {at}\n  theirs {expected:?}\n  ours   {found:?}"));
        } else if status == 201 && theirs["kind"] == *kind.kind {
            let (mut shown, _) = ours.unwrap();
            if let Some(alias) = kind.alias {
                (alias.show)(&mut shown);
            }
            differing(&filled(theirs), &shown, "", &format!("{case} step {at} "), &mut lines);
        }
    }
    lines
}

fn cause(cause: &Value) -> String {
    format!("{}: {}", cause["field"].as_str().unwrap_or_default(), cause["message"].as_str().unwrap_or_default())
}

/// Where two documents differ, but for what varies and what admission sets.
fn differing(theirs: &Value, ours: &Value, path: &str, at: &str, lines: &mut Vec<String>) {
    const LEFT_OUT: [&str; 8] = [
        ".metadata.managedFields",
        ".metadata.resourceVersion",
        ".metadata.creationTimestamp",
        ".metadata.finalizers",
        ".spec.username",
        ".spec.groups",
        ".spec.uid",
        ".metadata.uid",
    ];
    if LEFT_OUT.contains(&path) || *theirs == "<time>" || *theirs == "<ip>" || *theirs == "<port>" {
        return;
    }
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            let keys: std::collections::BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
            for key in keys {
                let here = format!("{path}.{key}");
                match (theirs.get(key), ours.get(key)) {
                    (Some(theirs), Some(ours)) => differing(theirs, ours, &here, at, lines),
                    (Some(theirs), None) if !LEFT_OUT.contains(&here.as_str()) => {
                        lines.push(format!("{at}{here}: missing {theirs}"))
                    }
                    (None, Some(ours)) if !LEFT_OUT.contains(&here.as_str()) => {
                        lines.push(format!("{at}{here}: extra {ours}"))
                    }
                    _ => {}
                }
            }
        }
        (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
            for (n, (theirs, ours)) in theirs.iter().zip(ours).enumerate() {
                differing(theirs, ours, &format!("{path}[{n}]"), at, lines);
            }
        }
        _ if theirs != ours => lines.push(format!("{at}{path}: {ours}, recorded {theirs}")),
        _ => {}
    }
}

/// Every case of an area whose name is not in `later`; those must differ still.
fn area(name: &str, later: &[&str]) {
    let folder = format!("{}/../tests/data/v1/cases/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut cases: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    cases.sort();
    let mut wrong = Vec::new();
    for case in &cases {
        let lines = compare(&format!("{name}/{case}"));
        match later.contains(&case.as_str()) {
            true if lines.is_empty() => wrong.push(format!("{name}/{case} is alike now")),
            true => {}
            false => wrong.extend(lines),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn validation() {
    area("validation", &[]);
}

#[test]
fn kinds() {
    let later = ["node", "pod-token-volume"];
    area("kinds", &later);
}

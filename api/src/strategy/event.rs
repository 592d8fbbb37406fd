//! Events: what happened to an object. They live in memory only. What is said as events.k8s.io/v1 is held to more than
//! what is said as v1.

use super::checks::immutable;
use super::doc::{has, is_empty, number, text};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Rules, nothing};
use super::{general, inner, names, rbac};
use coracle_schema::{Path, Problem};
use serde_json::Value;

/// Longest of the short texts of a new-style event, in bytes.
const WORD_BYTES_MAX: usize = 128;
/// Longest message of a new-style event, in bytes.
const MESSAGE_BYTES_MAX: usize = 1024;
/// Once is no series.
const SERIES_MIN: i64 = 2;

/// The fields of events.k8s.io/v1 that may not change. The names are the names in storage, as in Kubernetes' messages.
const FIXED: [&str; 12] = [
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingInstance",
];

pub static EVENT: BuiltinStrategy = BuiltinStrategy {
    validate: |event, rules| {
        let mut found = any(event, rules);
        if rules.other_form {
            found.extend(new(event));
        }
        found
    },
    validate_update: |new, old, rules| {
        let mut found = general::changed(new, old, rules, any);
        if rules.other_form {
            found.extend(changed(new, old));
        }
        found
    },
    durable: nothing,
    ..general::strategy::<false, false>()
};

/// The rules of events in both forms. In v1 an event is called as its writer likes.
fn any(event: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = Vec::new();
    let (namespace, of) = (text(&event["metadata"], "namespace"), text(&event["involvedObject"], "namespace"));
    let dated = has(event, "eventTime");
    // Events about objects without a namespace, like nodes, live in the namespace `default`. Dated events may be about
    // an object in a different namespace.
    let right = match of.is_empty() {
        true => namespace == "default" || (dated && namespace == "kube-system"),
        false => dated || namespace == of,
    };
    if !right {
        found.push(Problem::invalid(&Path::new("involvedObject.namespace"), of, "does not match event.namespace"));
    }
    if dated {
        found.extend(reported(event, rules));
    }
    found.extend(match rules.other_form {
        true => meta::validate(event, Scope::Namespaced, names::subdomain, rules),
        false => meta::validate_any(event, Scope::Namespaced, rbac::segment, rules),
    });
    found
}

/// Events with a precise time say who reports and what was done.
fn reported(event: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = Vec::new();
    let root = Path::root();
    let (path, word) = (reporter(rules), text(event, "reportingComponent"));
    if word.is_empty() {
        found.push(Problem::required(&path, ""));
    }
    found.extend(names::problems(&path, word, names::qualified(word)));
    for field in ["reportingInstance", "action", "reason"] {
        let (path, word) = (root.field(field), text(event, field));
        if word.is_empty() {
            found.push(Problem::required(&path, ""));
        }
        found.extend(too_long(word, WORD_BYTES_MAX, &path));
    }
    found.extend(too_long(text(event, "message"), MESSAGE_BYTES_MAX, &root.field("message")));
    found
}

fn reporter(rules: Rules) -> Path {
    Path::new(if rules.other_form { "reportingController" } else { "reportingComponent" })
}

fn too_long(word: &str, bytes_max: usize, path: &Path) -> Option<Problem> {
    (word.len() > bytes_max).then(|| Problem::invalid(path, "", format!("can have at most {bytes_max} characters")))
}

/// A new event must have a time and a type, and may not use the old fields.
fn new(event: &Value) -> Vec<Problem> {
    let mut found = series(event);
    if !has(event, "eventTime") {
        found.push(Problem::required(&Path::new("eventTime"), ""));
    }
    let sort = text(event, "type");
    if !matches!(sort, "Normal" | "Warning") {
        found.push(Problem::invalid(&Path::new("type"), "", format!("has invalid value: {sort}")));
    }
    let said = |field: &str| match &event[field] {
        Value::Object(source) => source.values().any(|value| !is_empty(value)),
        value => !is_empty(value) && *value != 0,
    };
    for field in ["firstTimestamp", "lastTimestamp", "count", "source"].into_iter().filter(|field| said(field)) {
        found.push(Problem::invalid(&Path::new(field), "", "needs to be unset"));
    }
    found
}

fn series(event: &Value) -> Vec<Problem> {
    let (series, path, mut found) = (&event["series"], Path::new("series"), Vec::new());
    if series.is_null() {
        return found;
    }
    if number(series, "count").unwrap_or(0) < SERIES_MIN {
        found.push(Problem::invalid(&path.field("count"), "", format!("should be at least {SERIES_MIN}")));
    }
    if !has(series, "lastObservedTime") {
        found.push(Problem::required(&path.field("lastObservedTime"), ""));
    }
    found
}

/// Of an event of events.k8s.io/v1 only the series may change.
fn changed(new: &Value, old: &Value) -> Vec<Problem> {
    let mut found = if new["series"] == old["series"] { Vec::new() } else { series(new) };
    let differs = |field: &str| new[field] != old[field] && !(is_empty(&new[field]) && is_empty(&old[field]));
    for field in FIXED.into_iter().filter(|field| differs(field)) {
        found.extend(match field {
            "involvedObject" | "related" if new[field].is_object() => {
                Some(inner::invalid("ObjectReference", &Path::new(field), &new[field], "field is immutable"))
            }
            field => immutable(new, old, field, &Path::root()),
        });
    }
    if differs("reportingComponent") {
        let problem = immutable(new, old, "reportingComponent", &Path::root());
        found.extend(problem.map(|problem| Problem { path: Path::new("reportingController"), ..problem }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::tests::assert_problems;
    use serde_json::json;

    fn event(more: Value) -> Value {
        let mut event = json!({"metadata": {"name": "a.1", "namespace": "ns"},
            "eventTime": "2020-01-01T00:00:00.000000Z",
            "involvedObject": {"kind": "Pod", "name": "a", "namespace": "ns"}, "reportingComponent": "x.io/c",
            "reportingInstance": "i",
            "action": "Do", "reason": "R", "message": "n", "type": "Normal"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    }

    /// The problems of an event in the form of v1, and in that of events.k8s.io.
    fn made(more: Value, core: &[&str], own: &[&str]) {
        for (other_form, expected) in [(false, core), (true, own)] {
            assert_problems((EVENT.validate)(&event(more.clone()), Rules { other_form, ..Rules::default() }), expected);
        }
    }

    #[test]
    fn two_forms() {
        made(json!({}), &[], &[]);
        for name in ["system:x.1", "a b", "x~y", "-1", "A", "a_b"] {
            made(json!({"metadata": {"name": name, "namespace": "ns"}}), &[], &["metadata.name: Invalid value"]);
        }
        let refused = &["metadata.name: Invalid value: \"a%b\": may not contain '%'"];
        assert_problems(
            (EVENT.validate)(&event(json!({"metadata": {"name": "a%b", "namespace": "ns"}})), Rules::default()),
            refused,
        );
        let nul = &["metadata.name: Invalid value: \"a\\x00b\": may not contain '\\x00'"];
        assert_problems(
            (EVENT.validate)(&event(json!({"metadata": {"name": "a\0b", "namespace": "ns"}})), Rules::default()),
            nul,
        );
        let observed = "2020-01-01T00:00:00.000000Z";
        made(json!({"series": {"count": 2, "lastObservedTime": observed}}), &[], &[]);
        for count in [0, -1, 1] {
            let series = json!({"series": {"count": count, "lastObservedTime": observed}});
            made(series, &[], &["series.count: Invalid value: \"\": should be at least 2"]);
        }
        made(
            json!({"series": {"count": 2, "lastObservedTime": null}}),
            &[],
            &["series.lastObservedTime: Required value"],
        );
        made(json!({"involvedObject": {"namespace": "other"}}), &[], &[]);
        let namespace = &["involvedObject.namespace: Invalid value: \"\": does not match event.namespace"];
        made(json!({"involvedObject": {}}), namespace, namespace);
        made(json!({"involvedObject": {}, "metadata": {"name": "a", "namespace": "kube-system"}}), &[], &[]);
        made(json!({"eventTime": null}), &[], &["eventTime: Required value"]);
        made(json!({"type": "Odd"}), &[], &["type: Invalid value: \"\": has invalid value: Odd"]);
        let unset = ["firstTimestamp", "lastTimestamp", "count", "source"]
            .map(|field| format!("{field}: Invalid value: \"\": needs to be unset"));
        let old =
            json!({"firstTimestamp": observed, "lastTimestamp": observed, "count": 1, "source": {"component": "c"}});
        made(old, &[], &unset.each_ref().map(String::as_str));
        made(json!({"firstTimestamp": null, "count": 0, "source": {"component": ""}}), &[], &[]);
        let words = "name part must";
        made(
            json!({"reportingComponent": "a b", "reason": "ä".repeat(65)}),
            &[
                &format!("reportingComponent: Invalid value: \"a b\": {words}"),
                "reason: Invalid value: \"\": can have at most 128",
            ],
            &[
                &format!("reportingController: Invalid value: \"a b\": {words}"),
                "reason: Invalid value: \"\": can have at most 128",
            ],
        );
    }

    #[test]
    fn what_stays() {
        fn check(more: Value, own: &[&str]) {
            for (other_form, expected) in [(false, &[][..]), (true, own)] {
                let rules = Rules { other_form, ..Rules::default() };
                assert_problems(
                    (EVENT.validate_update)(&event(more.clone()), &event(json!({"series": {"count": 1}})), rules),
                    expected,
                );
            }
        }
        check(json!({"series": {"count": 1}}), &[]);
        check(
            json!({
                "series": {"count": 3, "lastObservedTime": "2020-01-01T00:00:00.000000Z"}, "source": {},
                "related": null,
            }),
            &[],
        );
        check(
            json!({"series": {"count": 0}}),
            &["series.count: Invalid value", "series.lastObservedTime: Required value"],
        );
        for (field, value) in [
            ("reason", json!("S")),
            ("message", json!("m")),
            ("action", json!("Undo")),
            ("involvedObject", json!({"kind": "Pod", "name": "b", "namespace": "ns"})),
            ("eventTime", json!("2021-01-01T00:00:00.000000Z")),
            ("type", json!("Warning")),
            ("reportingInstance", json!("j")),
        ] {
            let same = json!({"series": {"count": 1}, field: value});
            let shown = if value.is_object() { inner::shown("ObjectReference", &value) } else { value.to_string() };
            check(same, &[&format!("{field}: Invalid value: {shown}: field is immutable")]);
        }
        let same = json!({"series": {"count": 1}, "reportingComponent": "d"});
        check(same, &["reportingController: Invalid value: \"d\": field is immutable"]);
    }
}

//! Conditions in the form that kinds of Kubernetes share: each type once, since when, and why in one word. PURE.

use super::checks::{full, one_of};
use super::doc::{is_empty, list, number, text};
use super::names;
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::HashSet;

const REASON_BYTES_MAX: usize = 1 << 10;
const MESSAGE_BYTES_MAX: usize = 32 << 10;
const REASON_WORDS: &str = "a condition reason must start with alphabetic character, optionally followed by a string \
                            of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' \
                            (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or \
                            'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// Every problem of a status's conditions.
pub fn problems(status: &Value, path: &Path) -> Vec<Problem> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for (at, condition) in list(status, "conditions").iter().enumerate() {
        if full(&found) {
            break;
        }
        let (kind, path) = (text(condition, "type"), path.index(at));
        if !seen.insert(kind) {
            found.push(Problem::new(&path.field("type"), Reason::Duplicate, Some(kind.into()), ""));
        }
        found.extend(names::problems(&path.field("type"), kind, names::qualified(kind)));
        found.extend(one_of(text(condition, "status"), &["False", "True", "Unknown"], &path.field("status")));
        if let Some(number) = number(condition, "observedGeneration").filter(|number| *number < 0) {
            let words = "must be greater than or equal to zero";
            found.push(Problem::invalid(&path.field("observedGeneration"), number, words));
        }
        if is_empty(&condition["lastTransitionTime"]) {
            found.push(Problem::required(&path.field("lastTransitionTime"), ""));
        }
        found.extend(reason(text(condition, "reason"), &path.field("reason")));
        found.extend(too_long(text(condition, "message"), MESSAGE_BYTES_MAX, &path.field("message")));
    }
    found
}

fn reason(reason: &str, path: &Path) -> Vec<Problem> {
    if reason.is_empty() {
        return vec![Problem::required(path, "")];
    }
    let bytes = reason.as_bytes();
    let good = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_,:".contains(byte));
    let mut found = Vec::new();
    if !good {
        found.push(Problem::invalid(path, reason, REASON_WORDS));
    }
    found.extend(too_long(reason, REASON_BYTES_MAX, path));
    found
}

fn too_long(text: &str, bytes_max: usize, path: &Path) -> Option<Problem> {
    let words = || format!("may not be more than {bytes_max} bytes");
    (text.len() > bytes_max).then(|| Problem::new(path, Reason::TooLong, None, words()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions() {
        fn check(conditions: Value, expected: &[&str]) {
            let found: Vec<String> =
                problems(&json!({"conditions": conditions}), &Path::new("c")).iter().map(Problem::to_string).collect();
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(found.iter().zip(expected).all(|(found, start)| found.starts_with(start)), "{found:?}");
        }
        let good = json!({
            "type": "A", "status": "True", "reason": "ReasonA,B_", "lastTransitionTime": "2020-01-01T00:00:00Z",
        });
        check(json!([good]), &[]);
        check(json!([good, good]), &["c[1].type: Duplicate value: \"A\""]);
        check(
            json!([
                {
                    "type": "A b", "status": "x", "reason": "_", "observedGeneration": -1,
                    "message": "x".repeat(MESSAGE_BYTES_MAX + 1),
                },
            ]),
            &[
                "c[0].type: Invalid value: \"A b\": name part must consist",
                "c[0].status: Unsupported value: \"x\"",
                "c[0].observedGeneration: Invalid value: -1",
                "c[0].lastTransitionTime: Required value",
                "c[0].reason: Invalid value: \"_\": a condition reason must start",
                "c[0].message: Too long: may not be more than 32768 bytes",
            ],
        );
    }
}

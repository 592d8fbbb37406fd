//! Jobs in detail: numbers that go together, when a failed pod fails the job and a finished one finishes it, and what
//! may become of a job's status. PURE.

use super::checks::{full, not_negative, supported_text, too_many};
use super::doc::{has, is_empty, list, number, text, yes};
use super::job_failure_policy::failure_policy;
use super::{inner, names};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::HashSet;

const PARALLELISM_MAX: i64 = 100_000;
const FAILED_INDEXES_MAX: i64 = 100_000;
/// From here on an indexed job with a limit for each index is held shorter.
const COMPLETIONS_MANY: i64 = 100_000;
const HIGH_MAX: i64 = 10_000;
const MANAGED_BY_BYTES_MAX: usize = 63;
const SUCCESS_RULES_MAX: usize = 20;
const INDEXES_BYTES_MAX: usize = 64 * 1024;

/// Numbers and policies of a spec, a cron job's template too.
pub fn spec(spec: &Value, path: &Path) -> Vec<Problem> {
    let mut found = managed_by(spec, path);
    let (completions, parallelism) = (number(spec, "completions"), number(spec, "parallelism"));
    let limit = number(spec, "maxFailedIndexes");
    if limit.is_some() && !has(spec, "backoffLimitPerIndex") {
        found.push(Problem::required(&path.field("backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
    }
    let too_many = |field: &str, number: Option<i64>, max: i64, words: String| {
        number.filter(|number| *number > max).map(|number| Problem::invalid(&path.field(field), number, words))
    };
    if has(spec, "completionMode") && !matches!(text(spec, "completionMode"), "NonIndexed" | "Indexed") {
        let words = supported_text(&["NonIndexed", "Indexed"]);
        found.push(Problem::new(
            &path.field("completionMode"),
            Reason::NotSupported,
            Some(spec["completionMode"].clone()),
            words,
        ));
    }
    if is_indexed(spec) {
        if completions.is_none() {
            found.push(Problem::required(&path.field("completions"), "when completion mode is Indexed"));
        }
        let words = format!("must be less than or equal to {PARALLELISM_MAX} when completion mode is Indexed");
        found.extend(too_many("parallelism", parallelism, PARALLELISM_MAX, words));
        let words = "must be less than or equal to completions".to_owned();
        found.extend(completions.and_then(|completions| too_many("maxFailedIndexes", limit, completions, words)));
        let words = format!("must be less than or equal to {FAILED_INDEXES_MAX}");
        found.extend(too_many("maxFailedIndexes", limit, FAILED_INDEXES_MAX, words));
        if completions.is_some_and(|completions| completions > COMPLETIONS_MANY) && has(spec, "backoffLimitPerIndex") {
            if limit.is_none() {
                let words = format!("must be specified when completions is above {COMPLETIONS_MANY}");
                found.push(Problem::required(&path.field("maxFailedIndexes"), words));
            }
            let words = format!("when completions are above {COMPLETIONS_MANY} and used with backoff limit per index");
            let words = format!("must be less than or equal to {HIGH_MAX} {words}");
            found.extend(too_many("parallelism", parallelism, HIGH_MAX, words.clone()));
            found.extend(too_many("maxFailedIndexes", limit, HIGH_MAX, words));
        }
    } else if matches!(text(spec, "completionMode"), "" | "NonIndexed") && spec["completionMode"] != "" {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"].into_iter().filter(|field| has(spec, field)) {
            found.push(Problem::invalid(&path.field(field), spec[field].clone(), "requires indexed completion mode"));
        }
    }
    found.extend(failure_policy(spec, &path.field("podFailurePolicy")));
    found.extend(success_policy(spec, &path.field("successPolicy")));
    let replaced = text(spec, "podReplacementPolicy");
    if has(spec, "podFailurePolicy") && has(spec, "podReplacementPolicy") && replaced != "Failed" {
        let words = supported_text(&["Failed"]);
        found.push(Problem::new(
            &path.field("podReplacementPolicy"),
            Reason::NotSupported,
            Some(replaced.into()),
            words,
        ));
    }
    found
}

pub fn is_indexed(spec: &Value) -> bool {
    text(spec, "completionMode") == "Indexed"
}

fn managed_by(spec: &Value, path: &Path) -> Vec<Problem> {
    let Some(by) = spec["managedBy"].as_str() else { return Vec::new() };
    let path = path.field("managedBy");
    let mut found = names::domain_prefixed(by, &path);
    if by.len() > MANAGED_BY_BYTES_MAX {
        let words = format!("may not be more than {MANAGED_BY_BYTES_MAX} bytes");
        found.push(Problem::new(&path, Reason::TooLong, None, words));
    }
    found
}

fn success_policy(spec: &Value, path: &Path) -> Vec<Problem> {
    let policy = &spec["successPolicy"];
    if policy.is_null() {
        return Vec::new();
    }
    if !is_indexed(spec) {
        let problem = Problem::invalid(path, policy.clone(), "requires indexed completion mode");
        return vec![problem.showing(inner::shown("batch.v1.SuccessPolicy", policy))];
    }
    let (rules, path) = (list(policy, "rules"), path.field("rules"));
    let mut found: Vec<Problem> = too_many(rules.len(), SUCCESS_RULES_MAX, &path).into_iter().collect();
    if rules.is_empty() {
        found
            .push(Problem::required(&path, "at least one rules must be specified when the successPolicy is specified"));
    }
    let completions = number(spec, "completions").unwrap_or(0);
    for (at, rule) in rules.iter().enumerate().take(SUCCESS_RULES_MAX) {
        found.extend(success_rule(rule, completions, &path.index(at)));
    }
    found
}

fn success_rule(rule: &Value, completions: i64, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let (count, written) = (number(rule, "succeededCount"), rule["succeededIndexes"].as_str());
    if count.is_none() && written.is_none() {
        found.push(Problem::required(path, "at least one of succeededCount or succeededIndexes must be specified"));
    }
    let mut total = 0;
    if let Some(written) = written {
        let path = path.field("succeededIndexes");
        if written.len() > INDEXES_BYTES_MAX {
            found.push(Problem::new(
                &path,
                Reason::TooLong,
                None,
                format!("may not be more than {INDEXES_BYTES_MAX} bytes"),
            ));
        }
        match indexes(written, completions) {
            Ok(spans) => total = spans.iter().map(|(first, last)| last - first + 1).sum(),
            Err(why) => found.push(Problem::invalid(&path, written, format!("error parsing succeededIndexes: {why}"))),
        }
    }
    if let Some(count) = count {
        let at = path.field("succeededCount");
        found.extend(not_negative(rule, &["succeededCount"], path));
        if count > completions {
            let words = format!("must be less than or equal to {completions} (the number of specified completions)");
            found.push(Problem::invalid(&at, count, words));
        }
        if written.is_some() && count > total {
            let words = "(the number of indexes in the specified succeededIndexes field)";
            found.push(Problem::invalid(&at, count, format!("must be less than or equal to {total} {words}")));
        }
    }
    found
}

/// `1,3-5`: the first and last of each span, in growing order.
fn indexes(written: &str, completions: i64) -> Result<Vec<(i64, i64)>, String> {
    let index = |text: &str| {
        let number: i64 = text.parse().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
        if number >= completions { Err(format!("too large index: {text:?}")) } else { Ok(number) }
    };
    let mut spans: Vec<(i64, i64)> = Vec::new();
    for span in written.split(',').filter(|_| !written.is_empty()) {
        let (first, last) = match span.split('-').collect::<Vec<_>>()[..] {
            [one] => (index(one)?, None),
            [first, last] => (index(first)?, Some(index(last)?)),
            _ => {
                let words =
                    "violates the requirement that an index interval can have at most two parts separated by '-'";
                return Err(format!("the fragment {span:?} {words}"));
            }
        };
        let before = last.map(|last| (first, last)).or_else(|| spans.last().map(|(_, before)| (*before, first)));
        let before =
            [before, spans.last().map(|(_, before)| (*before, first))].into_iter().flatten().find(|(a, b)| a >= b);
        if let Some((previous, current)) = before {
            return Err(format!("non-increasing order, previous: {previous}, current: {current}"));
        }
        spans.push((first, last.unwrap_or(first)));
    }
    Ok(spans)
}

/// The problems of a status on its own, for the spec beside it.
pub fn status(job: &Value) -> Vec<Problem> {
    let (spec, status, path) = (&job["spec"], &job["status"], Path::new("status"));
    let mut found = not_negative(status, &["active", "succeeded", "failed", "ready", "terminating"], &path);
    found.extend(uncounted(&status["uncountedTerminatedPods"], &path.field("uncountedTerminatedPods")));
    let is = |condition: &str| is_true(status, condition);
    let (complete, failed) = (is("Complete"), is("Failed"));
    let finished = complete || failed;
    let conditions = |words: &str| Problem::new(&path.field("conditions"), Reason::Invalid, None, words);
    let mut refuse = |wrong: bool, problem: &dyn Fn() -> Problem| found.extend(wrong.then(problem));
    refuse(complete && failed, &|| conditions("cannot set Complete=True and Failed=true conditions"));
    refuse(complete && is("FailureTarget"), &|| {
        conditions("cannot set Complete=True and FailureTarget=true conditions")
    });
    let ended = text(status, "completionTime");
    let invalid = |field: &str, words: &str| Problem::invalid(&path.field(field), status[field].clone(), words);
    let required = |field: &str, words: &str| Problem::required(&path.field(field), words);
    let words = "cannot set completionTime when there is no Complete=True condition";
    refuse(!ended.is_empty() && !complete, &|| invalid("completionTime", words));
    refuse(complete && ended.is_empty(), &|| {
        required("completionTime", "completionTime is required for Complete jobs")
    });
    let begun = text(status, "startTime");
    // Times in the same format sort like the texts.
    let backwards = !begun.is_empty() && !ended.is_empty() && ended < begun;
    refuse(backwards, &|| invalid("completionTime", "completionTime cannot be set before startTime"));
    let words = "cannot set Failed=True condition without the FailureTarget=true condition";
    refuse(failed && !is("FailureTarget"), &|| conditions(words));
    let words = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
    refuse(complete && !is("SuccessCriteriaMet"), &|| conditions(words));
    let some = |field: &str| number(status, field).unwrap_or(0) > 0;
    refuse(finished && some("active"), &|| invalid("active", "active>0 is invalid for finished job"));
    refuse(finished && begun.is_empty(), &|| required("startTime", "startTime is required for finished job"));
    let left = &status["uncountedTerminatedPods"];
    let words = "uncountedTerminatedPods needs to be empty for finished job";
    let some_left = !is_empty(&left["succeeded"]) || !is_empty(&left["failed"]);
    refuse(finished && some_left, &|| invalid("uncountedTerminatedPods", words));
    found.extend(of_indexes(spec, status, &path));
    let mut refuse = |wrong: bool, problem: &dyn Fn() -> Problem| found.extend(wrong.then(problem));
    refuse(finished && some("terminating"), &|| invalid("terminating", "terminating>0 is invalid for finished job"));
    let more = number(status, "ready").is_some_and(|ready| ready > number(status, "active").unwrap_or(0));
    refuse(more, &|| invalid("ready", "cannot set more ready pods than active"));
    let met = is("SuccessCriteriaMet");
    refuse(met && failed, &|| conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions"));
    refuse(met && is("FailureTarget"), &|| {
        conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    });
    found
}

fn uncounted(pods: &Value, path: &Path) -> Vec<Problem> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for field in ["succeeded", "failed"] {
        for (at, uid) in list(pods, field).iter().enumerate() {
            if full(&found) {
                return found;
            }
            let path = path.field(field).index(at);
            if is_empty(uid) {
                found.push(Problem::invalid(&path, "", "must not be empty"));
            } else if !seen.insert(uid.as_str()) {
                found.push(Problem::new(&path, Reason::Duplicate, Some(uid.clone()), ""));
            }
        }
    }
    found
}

fn of_indexes(spec: &Value, status: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let (done, lost) = (text(status, "completedIndexes"), status["failedIndexes"].as_str());
    let completions = number(spec, "completions");
    let mut spans = [Vec::new(), Vec::new()];
    if let Some(completions) = completions {
        let failed = lost.filter(|_| has(spec, "backoffLimitPerIndex")).unwrap_or_default();
        for (at, (field, written)) in [("completedIndexes", done), ("failedIndexes", failed)].into_iter().enumerate() {
            match indexes(written, completions) {
                Ok(read) => spans[at] = read,
                Err(why) => {
                    found.push(Problem::invalid(&path.field(field), written, format!("error parsing {field}: {why}")))
                }
            }
        }
    }
    if !done.is_empty() && !is_indexed(spec) {
        let words = "cannot set non-empty completedIndexes when non-indexed completion mode";
        found.push(Problem::invalid(&path.field("completedIndexes"), done, words));
    }
    if let Some(lost) = lost.filter(|_| !has(spec, "backoffLimitPerIndex")) {
        let words = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        found.push(Problem::invalid(&path.field("failedIndexes"), lost, words));
    }
    if let Some(both) = overlap(&spans[0], &spans[1]) {
        let words = format!("failedIndexes and completedIndexes overlap at index: {both}");
        found.push(Problem::invalid(&path.field("failedIndexes"), lost, words));
    }
    found
}

/// The first index in both; spans are in order.
fn overlap(one: &[(i64, i64)], other: &[(i64, i64)]) -> Option<i64> {
    let (mut a, mut b) = (0, 0);
    while let (Some(left), Some(right)) = (one.get(a), other.get(b)) {
        if left.0 <= right.1 && right.0 <= left.1 {
            return Some(left.0.max(right.0));
        }
        if left.0 <= right.0 { a += 1 } else { b += 1 }
    }
    None
}

/// Refuses forbidden changes of a status.
pub fn status_update(new: &Value, old: &Value) -> Vec<Problem> {
    let (spec, now, was, path) = (&new["spec"], &new["status"], &old["status"], Path::new("status"));
    let mut found = Vec::new();
    let conditions = |words: String| Problem::new(&path.field("conditions"), Reason::Invalid, None, words);
    for condition in ["Failed", "Complete", "FailureTarget"] {
        if is_true(was, condition) && !is_true(now, condition) {
            found.push(conditions(format!("cannot disable the terminal {condition}=True condition")));
        }
    }
    let count = |of: &Value, field: &str| number(of, field).unwrap_or(0);
    // A job with an index for each of its pods may be made smaller.
    let elastic = is_indexed(spec) && spec["completions"] == spec["parallelism"];
    for field in ["failed", "succeeded"].into_iter().filter(|field| *field == "failed" || !elastic) {
        if count(now, field) < count(was, field) {
            let words = format!("cannot decrease the {field} counter");
            found.push(Problem::invalid(&path.field(field), count(now, field), words));
        }
    }
    if has(now, "completionTime") && has(was, "completionTime") && now["completionTime"] != was["completionTime"] {
        found.push(Problem::invalid(
            &path.field("completionTime"),
            now["completionTime"].clone(),
            "completionTime cannot be mutated",
        ));
    }
    if has(was, "startTime") && now["startTime"] != was["startTime"] && !yes(spec, "suspend") {
        found.push(Problem::required(&path.field("startTime"), "startTime cannot be removed for unsuspended job"));
    }
    let met = |status: &Value| is_true(status, "SuccessCriteriaMet");
    if met(was) && !met(now) {
        found.push(conditions("cannot disable the SuccessCriteriaMet=True condition".into()));
    }
    if is_true(was, "Complete") && !met(was) && met(now) {
        found
            .push(conditions("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions".into()));
    }
    found
}

fn is_true(status: &Value, condition: &str) -> bool {
    list(status, "conditions").iter().any(|one| text(one, "type") == condition && text(one, "status") == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(found: Vec<Problem>) -> Vec<String> {
        found.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn specs() {
        fn check(of: Value, expected: &[&str]) {
            assert_eq!(texts(spec(&of, &Path::new("spec"))), expected, "{of}");
        }
        let indexed = |more: Value| {
            let mut of = json!({"completionMode": "Indexed", "completions": 5});
            of.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            of
        };
        check(json!({"completions": 1}), &[]);
        check(
            json!({"completionMode": "Indexed"}),
            &["spec.completions: Required value: when completion mode is Indexed"],
        );
        check(
            json!({"maxFailedIndexes": 1}),
            &[
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
            ],
        );
        check(
            json!({"managedBy": "me"}),
            &["spec.managedBy: Invalid value: \"me\": must be a domain-prefixed path (such as \"acme.io/foo\")"],
        );
        let rule = json!({
            "action": "FailIndex", "onExitCodes": {"operator": "In", "containerName": "x", "values": [3, 0, 3]},
        });
        check(
            json!({
                "podFailurePolicy": {"rules": [rule, {"action": "Ignore"}]},
                "podReplacementPolicy": "TerminatingOrFailed",
            }),
            &[
                "spec.podFailurePolicy.rules[0].action: Invalid value: \"FailIndex\": requires the \
                 backoffLimitPerIndex to be set",
                "spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: \"x\": must be one of the \
                 container or initContainer names in the pod template",
                "spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In \
                 operator",
                "spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 3",
                "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,0,3]: must be ordered",
                "spec.podFailurePolicy.rules[1]: Invalid value: specifying one of OnExitCodes and OnPodConditions is \
                 required",
                "spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"",
            ],
        );
        let words = "must be less than or equal to 3 (the number of indexes in the specified succeededIndexes field)";
        check(
            indexed(json!({
                "successPolicy": {
                    "rules": [{"succeededIndexes": "0,2-3", "succeededCount": 4}, {"succeededIndexes": "7"}, {}],
                },
            })),
            &[
                &format!("spec.successPolicy.rules[0].succeededCount: Invalid value: 4: {words}"),
                "spec.successPolicy.rules[1].succeededIndexes: Invalid value: \"7\": error parsing succeededIndexes: \
                 too large index: \"7\"",
                "spec.successPolicy.rules[2]: Required value: at least one of succeededCount or succeededIndexes must \
                 be specified",
            ],
        );
        check(
            json!({"successPolicy": {}}),
            &["spec.successPolicy: Invalid value: {\"Rules\":null}: requires indexed completion mode"],
        );
    }

    #[test]
    fn spans() {
        for (written, expected) in [
            ("", Ok(vec![])),
            ("0,2-4", Ok(vec![(0, 0), (2, 4)])),
            (
                "1-2-3",
                Err(
                    "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts \
                     separated by '-'",
                ),
            ),
            ("x", Err("cannot convert string to integer for index: \"x\"")),
            ("9", Err("too large index: \"9\"")),
            ("3-3", Err("non-increasing order, previous: 3, current: 3")),
            ("3,2", Err("non-increasing order, previous: 3, current: 2")),
        ] {
            assert_eq!(indexes(written, 5), expected.map_err(str::to_owned), "{written}");
        }
        assert_eq!(overlap(&[(0, 1), (4, 9)], &[(2, 3), (8, 8)]), Some(8));
        assert_eq!(overlap(&[(0, 1)], &[(2, 3)]), None);
    }

    #[test]
    fn statuses() {
        let condition = |kind: &str| json!({"type": kind, "status": "True"});
        let done = json!({"startTime": "2020-01-01T00:00:00Z", "completionTime": "2020-01-01T00:01:00Z", "succeeded": 1,
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]});
        fn check(of: &Value, expected: &[&str]) {
            assert_eq!(texts(status(&json!({"spec": {"completions": 1}, "status": of}))), expected, "{of}");
        }
        check(&done, &[]);
        let mut wrong = done.clone();
        (wrong["completionTime"], wrong["active"], wrong["conditions"][0]) =
            (json!("2019-01-01T00:00:00Z"), json!(1), condition("x"));
        check(
            &wrong,
            &[
                "status.completionTime: Invalid value: \"2019-01-01T00:00:00Z\": completionTime cannot be set before \
                 startTime",
                "status.conditions: Invalid value: cannot set Complete=True condition without the \
                 SuccessCriteriaMet=true condition",
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
            ],
        );
        check(&json!({"ready": 2}), &["status.ready: Invalid value: 2: cannot set more ready pods than active"]);
        let words = "status.completedIndexes: Invalid value: \"0\": cannot set non-empty completedIndexes when \
                     non-indexed completion mode";
        check(&json!({"completedIndexes": "0"}), &[words]);
        let of = |status: &Value| json!({"spec": {}, "status": status});
        assert_eq!(
            texts(status_update(&of(&json!({})), &of(&done))),
            [
                "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
                "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
                "status.startTime: Required value: startTime cannot be removed for unsuspended job",
                "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
            ]
        );
    }
}

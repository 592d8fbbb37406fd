//! When a failed pod fails its job. PURE.

use super::checks::{full, one_of, too_many};
use super::doc::{has, list, text};
use super::names;
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::HashSet;

const FAILURE_RULES_MAX: usize = 20;

const EXIT_CODES_MAX: usize = 255;

const CONDITIONS_MAX: usize = 20;

pub(super) fn failure_policy(spec: &Value, path: &Path) -> Vec<Problem> {
    let (rules, path) = (list(&spec["podFailurePolicy"], "rules"), path.field("rules"));
    let mut found: Vec<Problem> = too_many(rules.len(), FAILURE_RULES_MAX, &path).into_iter().collect();
    let template = &spec["template"]["spec"];
    let containers = ["containers", "initContainers"].into_iter().flat_map(|field| list(template, field));
    let containers: HashSet<&str> = containers.map(|container| text(container, "name")).collect();
    for (at, rule) in rules.iter().enumerate() {
        if full(&found) {
            break;
        }
        let path = path.index(at);
        found.extend(failure_action(spec, rule, &path.field("action")));
        if has(rule, "onExitCodes") {
            found.extend(exit_codes(&rule["onExitCodes"], &containers, &path.field("onExitCodes")));
        }
        let conditions = list(rule, "onPodConditions");
        found.extend(pod_conditions(conditions, &path.field("onPodConditions")));
        let words = match (has(rule, "onExitCodes"), !conditions.is_empty()) {
            (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        found.push(Problem::new(&path, Reason::Invalid, None, words));
    }
    found
}

fn failure_action(spec: &Value, rule: &Value, path: &Path) -> Option<Problem> {
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    match text(rule, "action") {
        "" => Some(Problem::required(path, "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]")),
        "FailIndex" if !has(spec, "backoffLimitPerIndex") => {
            Some(Problem::invalid(path, "FailIndex", "requires the backoffLimitPerIndex to be set"))
        }
        action => one_of(action, &ACTIONS, path),
    }
}

fn pod_conditions(conditions: &[Value], path: &Path) -> Vec<Problem> {
    let mut found: Vec<Problem> = too_many(conditions.len(), CONDITIONS_MAX, path).into_iter().collect();
    for (at, condition) in conditions.iter().enumerate().take(CONDITIONS_MAX) {
        let (kind, path) = (text(condition, "type"), path.index(at));
        found.extend(names::problems(&path.field("type"), kind, names::qualified(kind)));
        found.extend(match text(condition, "status") {
            "" => Some(Problem::required(&path.field("status"), "valid values: [\"False\" \"True\" \"Unknown\"]")),
            status => one_of(status, &["False", "True", "Unknown"], &path.field("status")),
        });
    }
    found
}

fn exit_codes(codes: &Value, containers: &HashSet<&str>, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let operator = text(codes, "operator");
    found.extend(match operator {
        "" => Some(Problem::required(&path.field("operator"), "valid values: [\"In\" \"NotIn\"]")),
        operator => one_of(operator, &["In", "NotIn"], &path.field("operator")),
    });
    if let Some(name) = codes["containerName"].as_str().filter(|name| !containers.contains(name)) {
        let words = "must be one of the container or initContainer names in the pod template";
        found.push(Problem::invalid(&path.field("containerName"), name, words));
    }
    let (values, path) = (list(codes, "values"), path.field("values"));
    if values.is_empty() {
        found.push(Problem::invalid(&path, codes["values"].clone(), "at least one value is required"));
    }
    found.extend(too_many(values.len(), EXIT_CODES_MAX, &path));
    let numbers: Vec<i64> = values.iter().filter_map(Value::as_i64).collect();
    let mut seen = HashSet::new();
    for (at, code) in numbers.iter().enumerate().take(EXIT_CODES_MAX) {
        if operator == "In" && *code == 0 {
            found.push(Problem::invalid(&path.index(at), 0, "must not be 0 for the In operator"));
        }
        if !seen.insert(code) {
            found.push(Problem::new(&path.index(at), Reason::Duplicate, Some((*code).into()), ""));
        }
    }
    if !numbers.is_sorted() {
        found.push(Problem::invalid(&path, values.to_vec(), "must be ordered"));
    }
    found
}

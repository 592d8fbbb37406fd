//! Admission policies and policy bindings. The checks are complete except for expressions: expressions are not
//! evaluated here. PURE.

use super::checks::{PROBLEMS_MAX, full, one_of, supported};
use super::doc::{has, list, text};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Rules};
use super::webhooks::{conditions, of_rule};
use super::{general, label_selector, names, rbac};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::HashSet;

const ANNOTATIONS_MAX: usize = 20;
const ANNOTATION_BYTES_MAX: usize = 5 * 1024;
/// The operations that a mutating policy may match: no deletions.
const MUTABLE: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

pub static VALIDATING_POLICY: BuiltinStrategy = of(validating);
pub static VALIDATING_BINDING: BuiltinStrategy = of(validating_binding);
pub static MUTATING_POLICY: BuiltinStrategy = of(mutating);
pub static MUTATING_BINDING: BuiltinStrategy = of(mutating_binding);

type Validate = fn(&Value, Rules) -> Vec<Problem>;

const fn of(validate: Validate) -> BuiltinStrategy {
    BuiltinStrategy { validate, ..general::strategy::<true, true>() }
}

fn validating(policy: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = policy_meta(policy, rules);
    let (spec, path) = (&policy["spec"], Path::new("spec"));
    found.extend(variables(spec, &path));
    let (checks, notes) = (list(spec, "validations"), list(spec, "auditAnnotations"));
    if checks.is_empty() && notes.is_empty() {
        let words = "validations or auditAnnotations must contain at least one item";
        found.extend(["validations", "auditAnnotations"].map(|field| Problem::required(&path.field(field), words)));
    }
    for (n, check) in checks.iter().enumerate() {
        if full(&found) {
            return found;
        }
        found.extend(of_check(check, &path.field("validations").index(n)));
    }
    if notes.len() > ANNOTATIONS_MAX {
        let words = format!("must not have more than {ANNOTATIONS_MAX} auditAnnotations");
        found.push(Problem::invalid(&path.field("auditAnnotations"), notes.to_vec(), words));
        return found;
    }
    let mut keys = HashSet::new();
    for (n, note) in notes.iter().enumerate() {
        let (key, path) = (text(note, "key"), path.field("auditAnnotations").index(n));
        let whole = format!("{}/{key}", text(&policy["metadata"], "name"));
        found.extend(names::problems(&path.field("key"), whole.as_str(), names::qualified(&whole)));
        let (expression, at) = (text(note, "valueExpression").trim(), path.field("valueExpression"));
        if expression.is_empty() {
            found.push(Problem::required(&at, "valueExpression is not specified"));
        } else if expression.len() > ANNOTATION_BYTES_MAX {
            found.push(Problem::required(&at, format!("must not exceed {ANNOTATION_BYTES_MAX} bytes in length")));
        }
        if !keys.insert(key) {
            found.push(Problem::new(&path.field("key"), Reason::Duplicate, Some(key.into()), ""));
        }
    }
    found
}

fn mutating(policy: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = policy_meta(policy, rules);
    let (spec, path) = (&policy["spec"], Path::new("spec"));
    found.extend(mutable(&spec["matchConstraints"], &path.field("matchConstraints")));
    found.extend(variables(spec, &path));
    let changes = list(spec, "mutations");
    if changes.is_empty() {
        found.push(Problem::required(&path.field("mutations"), "mutations must contain at least one item"));
    }
    for (n, change) in changes.iter().enumerate() {
        if full(&found) {
            return found;
        }
        found.extend(of_change(change, &path.field("mutations").index(n)));
    }
    found.extend(supported(spec, "reinvocationPolicy", &["IfNeeded", "Never"], &path));
    found
}

/// Checks the fields that policies of both kinds have.
fn policy_meta(policy: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(policy, Scope::Cluster, names::subdomain, rules);
    let (spec, path) = (&policy["spec"], Path::new("spec"));
    if has(spec, "paramKind") {
        let (kind, path) = (&spec["paramKind"], path.field("paramKind"));
        found.extend(api_version(text(kind, "apiVersion"), &path.field("apiVersion")));
        let (name, path) = (text(kind, "kind"), path.field("kind"));
        if name.is_empty() {
            found.push(Problem::required(&path, ""));
        } else {
            let faults = word(&name.to_ascii_lowercase());
            let faults = faults
                .into_iter()
                .map(|why| format!("may have mixed case, but should otherwise match: {why}"))
                .collect();
            found.extend(names::problems(&path, name, faults));
        }
    }
    let at = path.field("matchConstraints");
    if has(spec, "matchConstraints") {
        found.extend(meant(&spec["matchConstraints"], rules, &at));
        if list(&spec["matchConstraints"], "resourceRules").is_empty() {
            found.push(Problem::required(&at.field("resourceRules"), ""));
        }
    } else {
        found.push(Problem::required(&at, ""));
    }
    found.extend(conditions(spec, &path.field("matchConditions")));
    found
}

/// The rule for kinds and versions: a label that begins with a letter.
fn word(name: &str) -> names::Faults {
    const WORDS: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                         alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
                         regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let good = names::label(name).is_empty() && name.starts_with(|c: char| c.is_ascii_lowercase());
    if good { Vec::new() } else { vec![WORDS.to_owned()] }
}

fn api_version(said: &str, path: &Path) -> Vec<Problem> {
    let (group, version) = match *said.split('/').collect::<Vec<_>>() {
        [""] | ["", ""] => return vec![Problem::required(path, "")],
        [version] => ("", version),
        [group, version] => (group, version),
        _ => return vec![Problem::invalid(path, said, format!("unexpected GroupVersion string: {said}"))],
    };
    let mut found = Vec::new();
    if !group.is_empty() {
        found.extend(names::problems(path, group, names::subdomain(group)));
    }
    match version {
        "" => found.push(Problem::invalid(path, said, "version must be specified")),
        version => found.extend(names::problems(path, version, word(version))),
    }
    found
}

/// Requests that are meant.
fn meant(of: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for field in ["namespaceSelector", "objectSelector"] {
        found.extend(label_selector::validate(&of[field], rules, &path.field(field)));
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (n, rule) in list(of, field).iter().enumerate() {
            if full(&found) {
                return found;
            }
            let path = path.field(field).index(n);
            let mut seen = HashSet::new();
            for (n, name) in list(rule, "resourceNames").iter().filter_map(Value::as_str).enumerate().take(PROBLEMS_MAX)
            {
                let path = path.field("resourceNames").index(n);
                found.extend(names::problems(&path, name, rbac::segment(name)));
                if !seen.insert(name) {
                    found.push(Problem::new(&path, Reason::Duplicate, Some(name.into()), ""));
                }
            }
            found.extend(of_rule(rule, &path));
        }
    }
    found
}

/// A mutating policy may only name operations that can change an object.
fn mutable(of: &Value, path: &Path) -> Vec<Problem> {
    let operations =
        list(of, "resourceRules").iter().flat_map(|rule| list(rule, "operations")).filter_map(Value::as_str);
    let path = path.field("resourceRules").field("operations");
    operations.take(PROBLEMS_MAX).filter_map(|one| one_of(one, &MUTABLE, &path)).collect()
}

fn variables(spec: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for (n, variable) in list(spec, "variables").iter().enumerate() {
        if full(&found) {
            break;
        }
        let (name, path) = (text(variable, "name"), path.field("variables").index(n));
        let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
        if name.trim().is_empty() {
            found.push(Problem::required(&path.field("name"), "name is not specified"));
        } else if !name.starts_with(starts) || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            found.push(Problem::invalid(&path.field("name"), name, "must be a valid CEL identifier"));
        }
        found.extend(expression(variable, "expression", "expression is not specified", &path));
    }
    found
}

/// Checks only that the expression is not empty.
fn expression(of: &Value, field: &str, words: &str, path: &Path) -> Option<Problem> {
    text(of, field).trim().is_empty().then(|| Problem::required(&path.field(field), words))
}

fn of_check(check: &Value, path: &Path) -> Vec<Problem> {
    let mut found: Vec<Problem> =
        expression(check, "expression", "expression is not specified", path).into_iter().collect();
    for field in ["messageExpression", "message"] {
        let said = text(check, field);
        if !said.is_empty() && said.trim().is_empty() {
            found.push(Problem::invalid(&path.field(field), said, "must be non-empty if specified"));
        } else if field == "message" && said.trim().contains(['\n', '\r']) {
            found.push(Problem::invalid(&path.field(field), said, "must not contain line breaks"));
        }
    }
    let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    found.extend(check["reason"].as_str().and_then(|reason| one_of(reason, &reasons, &path.field("reason"))));
    found
}

fn of_change(change: &Value, path: &Path) -> Vec<Problem> {
    const WAYS: [(&str, &str); 2] = [("ApplyConfiguration", "applyConfiguration"), ("JSONPatch", "jsonPatch")];
    let way = text(change, "patchType");
    let Some((_, own)) = WAYS.iter().find(|(known, _)| *known == way) else {
        return supported(change, "patchType", &WAYS.map(|(way, _)| way), path).into_iter().collect();
    };
    let mut found = Vec::new();
    if has(change, own) {
        found.extend(expression(&change[*own], "expression", "", &path.field(own)));
    } else {
        found.push(Problem::required(&path.field(own), format!("must be specified when patchType is {way}")));
    }
    let others = WAYS.iter().filter(|(_, field)| field != own && has(change, field));
    found.extend(others.map(|(_, field)| {
        Problem::invalid(
            &path.field(field),
            format!("{{{field}}}"),
            format!("must not be specified when patchType is {way}"),
        )
    }));
    found
}

fn validating_binding(binding: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = bound(binding, rules);
    let (actions, path) = (list(&binding["spec"], "validationActions"), Path::new("spec.validationActions"));
    let mut seen = HashSet::new();
    for (n, action) in actions.iter().filter_map(Value::as_str).enumerate().take(PROBLEMS_MAX) {
        found.extend(one_of(action, &["Audit", "Deny", "Warn"], &path.index(n)));
        if !seen.insert(action) {
            found.push(Problem::new(&path.index(n), Reason::Duplicate, Some(action.into()), ""));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let words = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                     response and headers serves no purpose)";
        found.push(Problem::invalid(&path, actions.to_vec(), words));
    }
    if actions.is_empty() {
        found.push(Problem::required(&path, "at least one validation action is required"));
    }
    found
}

fn mutating_binding(binding: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = bound(binding, rules);
    found.extend(mutable(&binding["spec"]["matchResources"], &Path::new("spec.matchResources")));
    found
}

/// Checks the fields that bindings of both kinds have.
fn bound(binding: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(binding, Scope::Cluster, names::subdomain, rules);
    let (spec, path) = (&binding["spec"], Path::new("spec"));
    let (name, at) = (text(spec, "policyName"), path.field("policyName"));
    if name.is_empty() {
        found.push(Problem::required(&at, ""));
    } else {
        found.extend(names::problems(&at, name, names::subdomain(name)));
    }
    if has(spec, "paramRef") {
        found.extend(parameters(&spec["paramRef"], rules, &path.field("paramRef")));
    }
    found.extend(meant(&spec["matchResources"], rules, &path.field("matchResources")));
    found
}

fn parameters(of: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let (name, selects) = (text(of, "name"), has(of, "selector"));
    let mut found = Vec::new();
    if !name.is_empty() {
        found.extend(names::problems(&path.field("name"), name, rbac::segment(name)));
    }
    let both = (!name.is_empty() && selects).then_some("name and selector are mutually exclusive");
    found.extend(both.map(|words| Problem::forbidden(&path.field("name"), words)));
    if selects {
        found.extend(label_selector::validate(&of["selector"], rules, &path.field("selector")));
    }
    found.extend(both.map(|words| Problem::forbidden(&path.field("selector"), words)));
    if name.is_empty() && !selects {
        found.push(Problem::required(path, "one of name or selector must be specified"));
    }
    found.extend(supported(of, "parameterNotFoundAction", &["Deny", "Allow"], path));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::tests::assert_problems;
    use serde_json::json;

    fn rule() -> Value {
        json!({"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]})
    }

    fn check(validate: Validate, spec: Value, expected: &[&str]) {
        assert_problems(
            validate(&json!({"metadata": {"name": "p.example.com"}, "spec": spec}), Rules::default()),
            expected,
        );
    }

    #[test]
    fn policies() {
        let of = |more: Value| {
            let mut spec = json!({
                "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule()]}, "reinvocationPolicy": "Never",
            });
            more.as_object().into_iter().flatten().for_each(|(field, value)| spec[field] = value.clone());
            spec
        };
        check(validating, of(json!({"validations": [{"expression": "true"}]})), &[]);
        check(validating, of(json!({})), &["spec.validations: Required", "spec.auditAnnotations: Required"]);
        let expected = [
            "spec.matchConstraints: Required",
            "spec.validations[0].expression: Required",
            "spec.validations[0].reason: Unsupp",
        ];
        check(validating, json!({"validations": [{"expression": " ", "reason": "Why"}]}), &expected);
        let more = json!({
            "variables": [{"name": "1", "expression": "2"}],
            "auditAnnotations": [{"key": "a b", "valueExpression": ""}],
        });
        let expected = [
            "spec.variables[0].name: Invalid",
            "spec.auditAnnotations[0].key: Inv",
            "spec.auditAnnotations[0].valueExpression: R",
        ];
        check(validating, of(more), &expected);
        let patch = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}});
        check(mutating, of(json!({"mutations": [patch]})), &[]);
        let both = json!({"patchType": "JSONPatch", "applyConfiguration": {"expression": "x"}});
        let expected = ["spec.mutations[0].jsonPatch: Required", "spec.mutations[0].applyConfiguration: Invalid"];
        check(mutating, of(json!({"mutations": [both]})), &expected);
        let mut gone = rule();
        gone["operations"] = json!(["DELETE"]);
        let expected = ["spec.matchConstraints.resourceRules.operations: Unsupported", "spec.mutations: Required"];
        check(mutating, of(json!({"matchConstraints": {"resourceRules": [gone]}})), &expected);
        let kind = json!({"paramKind": {"apiVersion": "a/b/c", "kind": "1"}, "validations": [{"expression": "true"}]});
        check(
            validating,
            of(kind),
            &["spec.paramKind.apiVersion: Invalid", "spec.paramKind.kind: Invalid value: \"1\": may have mixed case"],
        );
    }

    #[test]
    fn bindings() {
        check(validating_binding, json!({"policyName": "p", "validationActions": ["Deny"]}), &[]);
        check(validating_binding, json!({}), &["spec.policyName: Required", "spec.validationActions: Required"]);
        let both = json!({"policyName": "p", "validationActions": ["Deny", "Warn", "Warn"]});
        check(validating_binding, both, &["spec.validationActions[2]: Duplicate", "spec.validationActions: Invalid"]);
        check(
            mutating_binding,
            json!({"policyName": "p", "paramRef": {"name": "c", "parameterNotFoundAction": "Deny"}}),
            &[],
        );
        let expected = ["spec.paramRef: Required", "spec.paramRef.parameterNotFoundAction: Required"];
        check(mutating_binding, json!({"policyName": "p", "paramRef": {}}), &expected);
    }
}

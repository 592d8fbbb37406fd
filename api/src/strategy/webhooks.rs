//! Webhooks that would be asked before a write: complete, and reachable the way Kubernetes would reach them. PURE.

use super::checks::{full, one_of};
use super::doc::{has, list, number, text};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Rules};
use super::{general, names};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::HashSet;

const SECONDS_MAX: i64 = 30;
const CONDITIONS_MAX: usize = 64;
/// Versions of AdmissionReview that Kubernetes can send.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const URL_FORM: &str = "desired format: https://host[/path]";

pub static WEBHOOKS: BuiltinStrategy = BuiltinStrategy {
    validate: webhooks,
    validate_update: |new, old, rules| general::changed(new, old, rules, webhooks),
    ..general::strategy::<true, true>()
};

fn webhooks(configuration: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate_any(configuration, Scope::Cluster, names::subdomain, rules);
    let mut seen = HashSet::new();
    for (at, hook) in list(configuration, "webhooks").iter().enumerate() {
        if full(&found) {
            break;
        }
        let (name, path) = (text(hook, "name"), Path::new("webhooks").index(at));
        found.extend(webhook(hook, rules, &path));
        found.extend(reviews(hook, &path.field("admissionReviewVersions")));
        if !name.is_empty() && !seen.insert(name) {
            found.push(Problem::new(&path.field("name"), Reason::Duplicate, Some(name.into()), ""));
        }
    }
    found
}

fn webhook(hook: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let (name, at) = (text(hook, "name"), path.field("name"));
    let mut found = match name {
        "" => vec![Problem::required(&at, "")],
        name => names::problems(&at, name, names::subdomain(name)),
    };
    if found.is_empty() && name.split('.').count() < 3 {
        found.push(Problem::invalid(&at, name, "should be a domain with at least three segments separated by dots"));
    }
    for (n, rule) in list(hook, "rules").iter().enumerate() {
        if full(&found) {
            return found;
        }
        found.extend(of_rule(rule, &path.field("rules").index(n)));
    }
    found.extend(match hook["sideEffects"].as_str() {
        None => Some(Problem::required(&path.field("sideEffects"), "must specify one of None, NoneOnDryRun")),
        Some(effects) => one_of(effects, &["None", "NoneOnDryRun"], &path.field("sideEffects")),
    });
    if let Some(seconds) = number(hook, "timeoutSeconds").filter(|seconds| !(1..=SECONDS_MAX).contains(seconds)) {
        let words = format!("the timeout value must be between 1 and {SECONDS_MAX} seconds");
        found.push(Problem::invalid(&path.field("timeoutSeconds"), seconds, words));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        found.extend(super::label_selector::validate(&hook[field], rules, &path.field(field)));
    }
    found.extend(conditions(hook, &path.field("matchConditions")));
    found.extend(client(&hook["clientConfig"], &path.field("clientConfig")));
    found
}

/// Match conditions are not evaluated here: an expression must only be present.
pub fn conditions(hook: &Value, path: &Path) -> Vec<Problem> {
    let all = list(hook, "matchConditions");
    let mut found = Vec::new();
    if all.len() > CONDITIONS_MAX {
        let words = format!("must have at most {CONDITIONS_MAX} items");
        found.push(Problem::new(path, Reason::TooMany, Some(all.len().into()), words));
    }
    let mut seen = HashSet::new();
    for (at, condition) in all.iter().enumerate() {
        if full(&found) {
            break;
        }
        let (name, path) = (text(condition, "name"), path.index(at));
        if text(condition, "expression").trim().is_empty() {
            found.push(Problem::required(&path.field("expression"), ""));
        }
        if name.is_empty() {
            found.push(Problem::required(&path.field("name"), ""));
        } else if !seen.insert(name) {
            found.push(Problem::new(&path.field("name"), Reason::Duplicate, Some(name.into()), ""));
        } else {
            found.extend(names::problems(&path.field("name"), name, names::qualified(name)));
        }
    }
    found
}

pub fn of_rule(rule: &Value, path: &Path) -> Vec<Problem> {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let mut found = Vec::new();
    for (field, what) in [
        ("operations", "other operations"),
        ("apiGroups", "other API groups"),
        ("apiVersions", "other API versions"),
        ("resources", ""),
    ] {
        let (values, at) = (list(rule, field), path.field(field));
        if values.is_empty() {
            found.push(Problem::required(&at, ""));
        }
        if values.len() > 1 && values.iter().any(|value| value == "*") && !what.is_empty() {
            let words = format!("if '*' is present, must not specify {what}");
            found.push(Problem::invalid(&at, values.to_vec(), words));
        }
        for (n, value) in values.iter().enumerate() {
            if full(&found) {
                return found;
            }
            let value = value.as_str().unwrap_or_default();
            match field {
                "operations" => found.extend(one_of(value, &OPERATIONS, &at.index(n))),
                "apiVersions" | "resources" if value.is_empty() => found.push(Problem::required(&at.index(n), "")),
                _ => {}
            }
        }
    }
    found
}

fn reviews(hook: &Value, path: &Path) -> Vec<Problem> {
    let versions: Vec<&str> = list(hook, "admissionReviewVersions").iter().filter_map(Value::as_str).collect();
    if versions.is_empty() {
        return vec![Problem::required(path, format!("must specify one of {}", REVIEWS.join(", ")))];
    }
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for (at, version) in versions.iter().enumerate() {
        if full(&found) {
            return found;
        }
        if !seen.insert(version) {
            found.push(Problem::invalid(&path.index(at), *version, "duplicate version"));
        }
        found.extend(names::problems(&path.index(at), *version, names::label(version)));
    }
    if !versions.iter().any(|version| REVIEWS.contains(version)) {
        let words = format!("must include at least one of {}", REVIEWS.join(", "));
        found.push(Problem::invalid(path, versions, words));
    }
    found
}

/// How the webhook is reached: one way.
fn client(client: &Value, path: &Path) -> Vec<Problem> {
    match (client["url"].as_str(), has(client, "service")) {
        (Some(url), false) => address(url, &path.field("url")),
        (None, true) => service(&client["service"], &path.field("service")),
        _ => vec![Problem::required(path, "exactly one of url or service is required")],
    }
}

fn address(url: &str, path: &Path) -> Vec<Problem> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return vec![Problem::invalid(path, "", format!("'https' is the only allowed URL scheme; {URL_FORM}"))];
    };
    let (authority, _) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let mut found = Vec::new();
    if scheme != "https" {
        found.push(Problem::invalid(path, scheme, format!("'https' is the only allowed URL scheme; {URL_FORM}")));
    }
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if host.is_empty() {
        found.push(Problem::invalid(path, host, format!("host must be specified; {URL_FORM}")));
    }
    if let Some(user) = user {
        found.push(Problem::invalid(path, user, "user information is not permitted in the URL"));
    }
    if let Some((_, fragment)) = rest.split_once('#').filter(|(_, fragment)| !fragment.is_empty()) {
        found.push(Problem::invalid(path, fragment, "fragments are not permitted in the URL"));
    }
    let query = rest.split('#').next().unwrap_or_default().split_once('?').map(|(_, query)| query);
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        found.push(Problem::invalid(path, query, "query parameters are not permitted in the URL"));
    }
    found
}

fn service(service: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for field in ["name", "namespace"] {
        if text(service, field).is_empty() {
            found.push(Problem::required(&path.field(field), format!("service {field} is required")));
        }
    }
    for fault in number(service, "port").map(names::port_number).unwrap_or_default() {
        found.push(Problem::invalid(
            &path.field("port"),
            service["port"].clone(),
            format!("port is not valid: {fault}"),
        ));
    }
    if let Some(at) = service["path"].as_str().filter(|at| !at.starts_with('/')) {
        found.push(Problem::invalid(&path.field("path"), at, "must start with a '/'"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_they_match() {
        fn check(of: &[(&str, &str)], expected: &[&str]) {
            let of: Vec<Value> =
                of.iter().map(|(name, expression)| json!({"name": name, "expression": expression})).collect();
            crate::strategy::tests::assert_problems(
                conditions(&json!({"matchConditions": of}), &Path::new("c")),
                expected,
            );
        }
        check(&[], &[]);
        check(&[("a", "true"), ("b.c/d", "true")], &[]);
        check(&[("a", "true"), ("a", "true")], &["c[1].name: Duplicate value: \"a\""]);
        check(&[("", " ")], &["c[0].expression: Required value", "c[0].name: Required value"]);
        check(&[("a b", "true")], &["c[0].name: Invalid value: \"a b\": name part must consist"]);
        let many: Vec<String> = (0..65).map(|n| format!("n{n}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "true")).collect();
        check(&many[..64], &[]);
        check(&many, &["c: Too many: 65: must have at most 64 items"]);
    }

    #[test]
    fn how_they_are_reached() {
        fn check(of: Value, expected: &[&str]) {
            let found: Vec<String> = client(&of, &Path::new("c")).iter().map(Problem::to_string).collect();
            assert_eq!(found, expected, "{of}");
        }
        check(json!({"url": "https://a.b/c"}), &[]);
        check(json!({"service": {"name": "a", "namespace": "b", "path": "/c"}}), &[]);
        check(json!({}), &["c: Required value: exactly one of url or service is required"]);
        check(
            json!({"url": "http://u@/p?q#f"}),
            &[
                "c.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: \
                 https://host[/path]",
                "c.url: Invalid value: \"\": host must be specified; desired format: https://host[/path]",
                "c.url: Invalid value: \"u\": user information is not permitted in the URL",
                "c.url: Invalid value: \"f\": fragments are not permitted in the URL",
                "c.url: Invalid value: \"q\": query parameters are not permitted in the URL",
            ],
        );
        check(
            json!({"service": {"name": "", "namespace": "b", "port": 0, "path": "c"}}),
            &[
                "c.service.name: Required value: service name is required",
                "c.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
                "c.service.path: Invalid value: \"c\": must start with a '/'",
            ],
        );
    }

    #[test]
    fn what_they_are_asked() {
        let rule = json!({"operations": ["*", "MAKE"], "apiGroups": ["*", "a"], "apiVersions": [""], "resources": []});
        let found: Vec<String> = of_rule(&rule, &Path::new("r")).iter().map(Problem::to_string).collect();
        assert_eq!(
            found,
            [
                "r.operations: Invalid value: [\"*\",\"MAKE\"]: if '*' is present, must not specify other operations",
                "r.operations[1]: Unsupported value: \"MAKE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \
                 \"DELETE\", \"UPDATE\"",
                "r.apiGroups: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other API groups",
                "r.apiVersions[0]: Required value",
                "r.resources: Required value",
            ]
        );
        let found = reviews(&json!({"admissionReviewVersions": ["v2"]}), &Path::new("v"));
        assert_eq!(found[0].to_string(), "v: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1");
    }
}

//! Rules of FlowSchema and PriorityLevelConfiguration. PURE.

use super::checks::{PROBLEMS_MAX, full, one_of, supported_text};
use super::doc::{has, list, number, text, yes};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Rules, keep_metadata, without_status};
use super::{general, names};
use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};
use std::collections::HashSet;

const PRECEDENCE_MAX: i64 = 10_000;
const QUEUES_MAX: i64 = 10_000_000;
const PERCENT_MAX: i64 = 100;
const HASH_BITS_MAX: i64 = 60;
/// The name of the priority level without limits, and of the flow schema that matches first.
const EXEMPT: &str = "exempt";
const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

pub static FLOW_SCHEMA: BuiltinStrategy = BuiltinStrategy {
    status_update,
    validate: schema,
    validate_update: |new, old, rules| general::changed(new, old, rules, schema),
    durable: without_status,
    ..general::strategy::<true, true>()
};

pub static PRIORITY_LEVEL: BuiltinStrategy = BuiltinStrategy {
    status_update,
    validate: level,
    validate_update: |new, old, rules| general::changed(new, old, rules, level),
    durable: without_status,
    ..general::strategy::<true, true>()
};

/// A write of the status changes nothing of the metadata.
fn status_update(new: &mut Value, old: &Value) {
    meta::status_update(new, old);
    keep_metadata(new, old, &["annotations", "finalizers", "labels", "ownerReferences"]);
}

fn schema(schema: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(schema, Scope::Cluster, names::subdomain, rules);
    let (spec, path) = (&schema["spec"], Path::new("spec"));
    let (precedence, at) = (number(spec, "matchingPrecedence").unwrap_or_default(), path.field("matchingPrecedence"));
    if precedence <= 0 {
        found.push(Problem::invalid(&at, precedence, "must be a positive value"));
    }
    if precedence > PRECEDENCE_MAX {
        found.push(Problem::invalid(&at, precedence, format!("must not be greater than {PRECEDENCE_MAX}")));
    }
    if precedence == 1 && text(&schema["metadata"], "name") != EXEMPT {
        found.push(Problem::invalid(&at, precedence, "only the schema named 'exempt' may have matchingPrecedence 1"));
    }
    if has(spec, "distinguisherMethod") {
        let (at, kind) = (path.field("distinguisherMethod").field("type"), text(&spec["distinguisherMethod"], "type"));
        let wrong = one_of(kind, &["ByNamespace", "ByUser"], &at);
        found.extend(wrong.map(|problem| Problem { value: Some(json!({"Type": kind})), ..problem }));
    }
    let (name, at) =
        (text(&spec["priorityLevelConfiguration"], "name"), path.field("priorityLevelConfiguration").field("name"));
    if name.is_empty() {
        found.push(Problem::required(&at, "must reference a priority level"));
    } else {
        found.extend(names::problems(&at, name, names::subdomain(name)));
    }
    for (n, rule) in list(spec, "rules").iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(requests(rule, &path.field("rules").index(n)));
    }
    found.extend(conditions(schema));
    found
}

/// Checks the subjects and the requests of a rule.
fn requests(rule: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let (subjects, resources, urls) =
        (list(rule, "subjects"), list(rule, "resourceRules"), list(rule, "nonResourceRules"));
    if subjects.is_empty() {
        found.push(Problem::required(&path.field("subjects"), "subjects must contain at least one value"));
    }
    for (n, one) in subjects.iter().enumerate().take(PROBLEMS_MAX) {
        found.extend(subject(one, &path.field("subjects").index(n)));
    }
    if resources.is_empty() && urls.is_empty() {
        found.push(Problem::required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"));
    }
    for (n, one) in resources.iter().enumerate().take(PROBLEMS_MAX) {
        found.extend(of_resources(one, &path.field("resourceRules").index(n)));
    }
    for (n, one) in urls.iter().enumerate().take(PROBLEMS_MAX) {
        let path = path.field("nonResourceRules").index(n);
        found.extend(verbs(one, &path));
        found.extend(stars(
            one,
            "nonResourceURLs",
            "nonResourceURLs must contain at least one value",
            "non-resource URLs",
            &path,
        ));
        let shown = list(one, "nonResourceURLs").iter().filter_map(Value::as_str).enumerate();
        for (n, url) in shown.filter(|(_, url)| *url != "*" && !url.starts_with('/')).take(PROBLEMS_MAX) {
            found.push(Problem::invalid(&path.field("nonResourceURLs").index(n), url, "must start with slash"));
        }
    }
    found
}

fn subject(subject: &Value, path: &Path) -> Vec<Problem> {
    const KINDS: [(&str, &str); 3] = [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];
    let kind = text(subject, "kind");
    let Some((_, own)) = KINDS.iter().find(|(known, _)| *known == kind) else {
        return one_of(kind, &KINDS.map(|(kind, _)| kind), &path.field("kind")).into_iter().collect();
    };
    let (said, at) = (&subject[*own], path.field(own));
    let mut found = Vec::new();
    if !has(subject, own) {
        found.push(Problem::required(&at, format!("{own} is required when subject kind is '{kind}'")));
    } else {
        let (name, namespace) = (text(said, "name"), text(said, "namespace"));
        if name.is_empty() {
            found.push(Problem::required(&at.field("name"), ""));
        } else if *own == "serviceAccount" && name != "*" {
            found.extend(names::problems(&at.field("name"), name, names::subdomain(name)));
        }
        if *own == "serviceAccount" && namespace.is_empty() {
            found.push(Problem::required(&at.field("namespace"), "must specify namespace for service account"));
        } else if *own == "serviceAccount" {
            found.extend(names::problems(&at.field("namespace"), namespace, names::label(namespace)));
        }
    }
    for (other, field) in
        ["serviceAccount", "user", "group"].map(|field| (KINDS.iter().find(|(_, own)| *own == field), field))
    {
        if let Some((other, _)) = other.filter(|_| field != *own && has(subject, field)) {
            found.push(Problem::forbidden(
                &path.field(field),
                format!("{field} is forbidden when subject kind is not '{other}'"),
            ));
        }
    }
    found
}

fn of_resources(rule: &Value, path: &Path) -> Vec<Problem> {
    let mut found: Vec<Problem> = verbs(rule, path).into_iter().collect();
    found.extend(stars(rule, "apiGroups", "resource rules must supply at least one api group", "api groups", path));
    found.extend(stars(rule, "resources", "resource rules must supply at least one resource", "resources", path));
    let (namespaces, at) = (list(rule, "namespaces"), path.field("namespaces"));
    if namespaces.is_empty() && !yes(rule, "clusterScope") {
        let words = "resource rules that are not cluster scoped must supply at least one namespace";
        found.push(Problem::required(&at, words));
    } else if namespaces.iter().any(|one| one == "*") {
        found.extend(stars(rule, "namespaces", "", "namespaces", path));
    } else {
        for (n, name) in namespaces.iter().filter_map(Value::as_str).enumerate().take(PROBLEMS_MAX) {
            let faults = names::label(name)
                .into_iter()
                .map(|why| format!("each member of this list must be '*' or a DNS-1123 label; {why}"));
            found.extend(names::problems(&at.index(n), name, faults.collect()));
        }
    }
    found
}

/// A list that holds something, and nothing beside a star.
fn stars(of: &Value, field: &str, empty: &str, what: &str, path: &Path) -> Option<Problem> {
    let (values, at) = (list(of, field), path.field(field));
    if values.is_empty() {
        return Some(Problem::required(&at, empty));
    }
    let more = values.len() > 1 && values.iter().any(|value| value == "*");
    more.then(|| Problem::invalid(&at, values.to_vec(), format!("if '*' is present, must not specify other {what}")))
}

fn verbs(rule: &Value, path: &Path) -> Option<Problem> {
    let verbs = list(rule, "verbs");
    let wrong = stars(rule, "verbs", "verbs must contain at least one value", "verbs", path);
    let known = verbs.iter().all(|verb| verb == "*" || verb.as_str().is_some_and(|verb| VERBS.contains(&verb)));
    let unknown = || {
        Problem::new(&path.field("verbs"), Reason::NotSupported, Some(verbs.to_vec().into()), supported_text(&VERBS))
    };
    wrong.or_else(|| (!known).then(unknown))
}

fn level(level: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(level, Scope::Cluster, names::subdomain, rules);
    let (spec, path) = (&level["spec"], Path::new("spec"));
    let kind = text(spec, "type");
    if (text(&level["metadata"], "name") == EXEMPT) != (kind == "Exempt") {
        found.push(Problem::invalid(&path.field("type"), kind, "must be 'Exempt' if and only if `name` is 'exempt'"));
    }
    match kind {
        "Exempt" => {
            if has(spec, "limited") {
                found.push(Problem::forbidden(&path.field("limited"), "must be nil if the type is not Limited"));
            }
            found.extend(shares(&spec["exempt"], &path.field("exempt")));
            found.extend(lent(&spec["exempt"], &path.field("exempt")));
        }
        "Limited" => {
            if has(spec, "exempt") {
                found.push(Problem::forbidden(&path.field("exempt"), "must be nil if the type is Limited"));
            }
            if has(spec, "limited") {
                found.extend(limited(&spec["limited"], &path.field("limited")));
            } else {
                found.push(Problem::required(&path.field("limited"), "must not be empty when type is Limited"));
            }
        }
        _ => found.extend(one_of(kind, &["Exempt", "Limited"], &path.field("type"))),
    }
    found.extend(conditions(level));
    found
}

fn shares(of: &Value, path: &Path) -> Option<Problem> {
    let shares = number(of, "nominalConcurrencyShares").filter(|shares| *shares < 0)?;
    Some(Problem::invalid(&path.field("nominalConcurrencyShares"), shares, "must be a non-negative integer"))
}

fn lent(of: &Value, path: &Path) -> Option<Problem> {
    let share = number(of, "lendablePercent").filter(|share| !(0..=PERCENT_MAX).contains(share))?;
    Some(Problem::invalid(
        &path.field("lendablePercent"),
        share,
        format!("must be between 0 and {PERCENT_MAX}, inclusive"),
    ))
}

fn limited(limited: &Value, path: &Path) -> Vec<Problem> {
    let mut found: Vec<Problem> = shares(limited, path).into_iter().collect();
    let (response, at) = (&limited["limitResponse"], path.field("limitResponse"));
    match text(response, "type") {
        "Reject" if has(response, "queuing") => {
            found.push(Problem::forbidden(
                &at.field("queuing"),
                "must be nil if limited.limitResponse.type is not Limited",
            ));
        }
        "Reject" => {}
        "Queue" if has(response, "queuing") => found.extend(queues(&response["queuing"], &at.field("queuing"))),
        "Queue" => found.push(Problem::required(
            &at.field("queuing"),
            "must not be empty if limited.limitResponse.type is Limited",
        )),
        kind => found.extend(one_of(kind, &["Queue", "Reject"], &at.field("type"))),
    }
    found.extend(lent(limited, path));
    if let Some(share) = number(limited, "borrowingLimitPercent").filter(|share| *share < 0) {
        let words = "if specified, must be a non-negative integer";
        found.push(Problem::invalid(&path.field("borrowingLimitPercent"), share, words));
    }
    found
}

fn queues(queuing: &Value, path: &Path) -> Vec<Problem> {
    let of = |field: &str| number(queuing, field).unwrap_or_default();
    let (queues, hand) = (of("queues"), of("handSize"));
    let mut found = Vec::new();
    for field in ["queueLengthLimit", "queues", "handSize"] {
        if of(field) <= 0 {
            found.push(Problem::invalid(&path.field(field), of(field), "must be positive"));
        }
    }
    if queues > QUEUES_MAX {
        found.push(Problem::invalid(&path.field("queues"), queues, format!("must not be greater than {QUEUES_MAX}")));
    }
    // A hand is dealt by the bits of a hash.
    let bits = ((queues.max(1) as f64).log2() * hand as f64).ceil() as i64;
    if hand > 0 && hand > queues {
        found.push(Problem::invalid(
            &path.field("handSize"),
            hand,
            format!("should not be greater than queues ({queues})"),
        ));
    } else if hand > 0 && bits > HASH_BITS_MAX {
        let words = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS_MAX}"
        );
        found.push(Problem::invalid(&path.field("handSize"), hand, words));
    }
    found
}

/// Each condition must have a type, and no type may occur twice.
fn conditions(of: &Value) -> Vec<Problem> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for (n, condition) in list(&of["status"], "conditions").iter().enumerate() {
        let (kind, path) = (text(condition, "type"), Path::new("status.conditions").index(n).field("type"));
        if full(&found) {
            break;
        }
        if !seen.insert(kind) {
            found.push(Problem::new(&path, Reason::Duplicate, Some(kind.into()), ""));
        }
        if kind.is_empty() {
            found.push(Problem::required(&path, ""));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::tests::assert_problems;

    #[test]
    fn schemas() {
        fn check(spec: Value, expected: &[&str]) {
            assert_problems(schema(&json!({"metadata": {"name": "s"}, "spec": spec}), Rules::default()), expected);
        }
        let rule = |subject: Value, resources: Value, urls: Value| {
            json!({
                "subjects": [subject], "resourceRules": resources, "nonResourceRules": urls,
            })
        };
        let of = |rule: Value| {
            json!({
                "matchingPrecedence": 9, "priorityLevelConfiguration": {"name": "p"}, "rules": [rule],
            })
        };
        let user = json!({"kind": "User", "user": {"name": "u"}});
        let urls = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
        check(of(rule(user.clone(), json!([]), urls.clone())), &[]);
        check(
            json!({"matchingPrecedence": 1}),
            &["spec.matchingPrecedence: Invalid", "spec.priorityLevelConfiguration.name: Required"],
        );
        check(
            of(rule(json!({"kind": "Robot"}), json!([]), urls.clone())),
            &["spec.rules[0].subjects[0].kind: Unsupported"],
        );
        check(
            of(rule(json!({"kind": "Group", "user": {"name": "u"}}), json!([]), urls)),
            &["spec.rules[0].subjects[0].group: Required", "spec.rules[0].subjects[0].user: Forbidden"],
        );
        check(of(rule(user.clone(), json!([]), json!([]))), &["spec.rules[0]: Required value: at least one"]);
        let resources = json!([{"verbs": ["eat"], "apiGroups": ["*", "a"], "resources": []}]);
        let path = "spec.rules[0].resourceRules[0]";
        let expected = ["verbs: Unsupported", "apiGroups: Invalid", "resources: Required", "namespaces: Required"];
        let expected = expected.map(|rest| format!("{path}.{rest}"));
        check(of(rule(user, resources, json!([]))), &expected.each_ref().map(String::as_str));
    }

    #[test]
    fn levels() {
        fn check(name: &str, spec: Value, expected: &[&str]) {
            assert_problems(level(&json!({"metadata": {"name": name}, "spec": spec}), Rules::default()), expected);
        }
        let limited = |response: Value| {
            json!({
                "type": "Limited", "limited": {"nominalConcurrencyShares": 2, "limitResponse": response},
            })
        };
        check("p", limited(json!({"type": "Reject"})), &[]);
        check("exempt", json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0}}), &[]);
        check("exempt", limited(json!({"type": "Reject"})), &["spec.type: Invalid"]);
        check("p", json!({"type": "Limited"}), &["spec.limited: Required"]);
        check("p", limited(json!({"type": "Queue"})), &["spec.limited.limitResponse.queuing: Required"]);
        let queuing = json!({"queues": 2, "handSize": 3, "queueLengthLimit": 0});
        let path = "spec.limited.limitResponse.queuing";
        let expected =
            [format!("{path}.queueLengthLimit: Invalid"), format!("{path}.handSize: Invalid value: 3: should not be")];
        check("p", limited(json!({"type": "Queue", "queuing": queuing})), &expected.each_ref().map(String::as_str));
    }
}

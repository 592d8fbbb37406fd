//! Where a pod wants to run: near or far from nodes and other pods, and spread over them.

use super::doc::{has, list, number, text};
use super::{Rules, container::one_of, full, label_selector, names};
use coracle_schema::{Path, Problem};
use serde_json::Value;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const NO_KEY: &str = "can not be empty";

/// Every problem of a spec's `affinity`.
pub fn validate(affinity: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = nodes(&affinity["nodeAffinity"], &path.field("nodeAffinity"));
    for field in ["podAffinity", "podAntiAffinity"] {
        let (pods, path) = (&affinity[field], path.field(field));
        for (at, term) in list(pods, REQUIRED).iter().enumerate() {
            if full(&found) {
                break;
            }
            found.extend(pod_term(term, rules, &path.field(REQUIRED).index(at)));
        }
        for (at, wish) in list(pods, PREFERRED).iter().enumerate() {
            if full(&found) {
                break;
            }
            let path = path.field(PREFERRED).index(at);
            found.extend(weight(wish, &path));
            found.extend(pod_term(&wish["podAffinityTerm"], rules, &path.field("podAffinityTerm")));
        }
    }
    found
}

fn nodes(affinity: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    if has(affinity, REQUIRED) {
        found.extend(node_selector(&affinity[REQUIRED], &path.field(REQUIRED)));
    }
    for (at, wish) in list(affinity, PREFERRED).iter().enumerate() {
        if full(&found) {
            break;
        }
        let path = path.field(PREFERRED).index(at);
        found.extend(weight(wish, &path));
        found.extend(node_term(&wish["preference"], &path.field("preference")));
    }
    found
}

/// What some nodes must have, of a pod or of a volume.
pub fn node_selector(selector: &Value, path: &Path) -> Vec<Problem> {
    let (terms, path) = (list(selector, "nodeSelectorTerms"), path.field("nodeSelectorTerms"));
    if terms.is_empty() {
        return vec![Problem::required(&path, "must have at least one node selector term")];
    }
    let mut found = Vec::new();
    for (at, term) in terms.iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(node_term(term, &path.index(at)));
    }
    found
}

fn node_term(term: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for field in ["matchExpressions", "matchFields"] {
        for (at, rule) in list(term, field).iter().enumerate() {
            if full(&found) {
                break;
            }
            found.extend(node_rule(rule, &path.field(field).index(at)));
        }
    }
    found
}

fn node_rule(rule: &Value, path: &Path) -> Vec<Problem> {
    let (values, at) = (list(rule, "values"), path.field("values"));
    let mut found = Vec::new();
    match text(rule, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            found.push(Problem::required(&at, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            found.push(Problem::forbidden(&at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            found.push(Problem::required(&at, "must be specified single value when `operator` is 'Lt' or 'Gt'"));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => found.push(Problem::invalid(&path.field("operator"), other, "not a valid selector operator")),
    }
    let key = text(rule, "key");
    found.extend(names::problems(&path.field("key"), key, names::qualified(key)));
    found
}

fn weight(wish: &Value, path: &Path) -> Option<Problem> {
    let weight = number(wish, "weight").unwrap_or(0);
    let good = (1..=100).contains(&weight);
    (!good).then(|| Problem::invalid(&path.field("weight"), weight, "must be in the range 1-100"))
}

fn pod_term(term: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = label_selector::validate(&term["labelSelector"], rules, &path.field("labelSelector"));
    found.extend(label_selector::validate(&term["namespaceSelector"], rules, &path.field("namespaceSelector")));
    for (at, namespace) in list(term, "namespaces").iter().enumerate() {
        if full(&found) {
            break;
        }
        let namespace = namespace.as_str().unwrap_or_default();
        found.extend(names::problems(&path.field("namespaces").index(at), namespace, names::label(namespace)));
    }
    let (key, at) = (text(term, "topologyKey"), path.field("topologyKey"));
    if key.is_empty() {
        found.push(Problem::required(&at, NO_KEY));
    }
    found.extend(names::problems(&at, key, names::qualified(key)));
    found
}

/// How evenly pods are spread.
pub fn spread(constraint: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let skew = number(constraint, "maxSkew").unwrap_or(0);
    if skew <= 0 {
        found.push(Problem::invalid(&path.field("maxSkew"), skew, "must be greater than zero"));
    }
    let (key, at) = (text(constraint, "topologyKey"), path.field("topologyKey"));
    if key.is_empty() {
        found.push(Problem::required(&at, NO_KEY));
    } else {
        found.extend(names::problems(&at, key, names::qualified(key)));
    }
    let words = ["DoNotSchedule", "ScheduleAnyway"];
    found.extend(one_of(text(constraint, "whenUnsatisfiable"), &words, &path.field("whenUnsatisfiable")));
    if let Some(domains) = number(constraint, "minDomains").filter(|domains| *domains <= 0) {
        found.push(Problem::invalid(&path.field("minDomains"), domains, "must be greater than zero"));
    }
    found.extend(label_selector::validate(&constraint["labelSelector"], rules, &path.field("labelSelector")));
    found
}

//! Rules of affinity, anti-affinity and topology spread of a pod.

use super::checks::{PROBLEMS_MAX, full, one_of};
use super::doc::{entries, has, list, list_at, map_at, number, text};
use super::rules::Rules;
use super::{label_selector, names};
use coracle_schema::{Path, Problem, Reason};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const NO_KEY: &str = "can not be empty";

/// Adds `matchLabelKeys` and `mismatchLabelKeys` to the selectors, with the values of the new pod's own labels: a
/// scheduler reads only the selectors.
pub fn merge_keys(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    let Some(spec) = pod.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    for field in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(field)) else { continue };
        list_at(pods, REQUIRED).for_each(|term| merge(term, &labels));
        list_at(pods, PREFERRED)
            .filter_map(|wish| wish.get_mut("podAffinityTerm"))
            .for_each(|term| merge(term, &labels));
    }
    list_at(spec, "topologySpreadConstraints").for_each(|constraint| merge(constraint, &labels));
}

fn merge(of: &mut Value, labels: &Map<String, Value>) {
    // Without a selector nothing is looked for.
    if !has(of, "labelSelector") {
        return;
    }
    let mut rules = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let own = list(of, field).iter().filter_map(|key| Some((key, labels.get(key.as_str()?)?)));
        rules.extend(own.map(|(key, value)| json!({"key": key, "operator": operator, "values": [value]})));
    }
    if !rules.is_empty() {
        let mut all = list(&of["labelSelector"], "matchExpressions").to_vec();
        all.extend(rules);
        map_at(of, "labelSelector").insert("matchExpressions".into(), all.into());
    }
}

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

/// Checks a node selector, of a pod or of a volume.
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
        found.extend(impossible(term, &path.index(at)));
    }
    found
}

fn node_term(term: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for (field, of_rule) in
        [("matchExpressions", node_rule as fn(&Value, &Path) -> Vec<Problem>), ("matchFields", field_rule)]
    {
        for (at, rule) in list(term, field).iter().enumerate() {
            if full(&found) {
                break;
            }
            found.extend(of_rule(rule, &path.field(field).index(at)));
        }
    }
    found
}

/// A field of a node: its name alone, which is this or is not.
fn field_rule(rule: &Value, path: &Path) -> Vec<Problem> {
    let (key, values, at) = (text(rule, "key"), list(rule, "values"), path.field("values"));
    let mut found = Vec::new();
    match text(rule, "operator") {
        "In" | "NotIn" if values.len() != 1 => {
            let words = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            found.push(Problem::required(&at, words));
        }
        "In" | "NotIn" => {}
        other => found.push(Problem::invalid(&path.field("operator"), other, "not a valid selector operator")),
    }
    if key != "metadata.name" {
        found.push(Problem::invalid(&path.field("key"), key, "not a valid field selector key"));
        return found;
    }
    for (n, value) in values.iter().enumerate().take(PROBLEMS_MAX) {
        let value = value.as_str().unwrap_or_default();
        found.extend(names::problems(&at.index(n), value, names::subdomain(value)));
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

/// Values that no label of a node can have. Only required terms are checked for such values; preferences may have them.
fn impossible(term: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for (at, rule) in list(term, "matchExpressions").iter().enumerate() {
        for (n, value) in list(rule, "values").iter().enumerate() {
            if full(&found) {
                return found;
            }
            let (value, path) =
                (value.as_str().unwrap_or_default(), path.field("matchExpressions").index(at).field("values").index(n));
            found.extend(names::problems(&path, value, names::label_value(value)));
        }
    }
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
    for namespace in list(term, "namespaces") {
        if full(&found) {
            break;
        }
        let namespace = namespace.as_str().unwrap_or_default();
        found.extend(names::problems(&path.field("namespace"), namespace, names::label(namespace)));
    }
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        found.extend(match_keys(term, field, &path.field(field)));
    }
    found.extend(doubled_keys(term, path));
    let both = list(term, "matchLabelKeys")
        .iter()
        .enumerate()
        .filter(|(_, key)| list(term, "mismatchLabelKeys").contains(key))
        .take(8);
    for (at, key) in both {
        let words = "exists in both matchLabelKeys and mismatchLabelKeys";
        found.push(Problem::invalid(&path.field("matchLabelKeys").index(at), key.clone(), words));
    }
    let (key, at) = (text(term, "topologyKey"), path.field("topologyKey"));
    if key.is_empty() {
        found.push(Problem::required(&at, NO_KEY));
    }
    found.extend(names::problems(&at, key, names::qualified(key)));
    found
}

/// How evenly pods are spread, over each kind of place.
pub fn spreads(spec: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let all = list(spec, "topologySpreadConstraints");
    let kind = |one: &Value| format!("{{{}, {}}}", text(one, "topologyKey"), text(one, "whenUnsatisfiable"));
    let mut left: HashMap<String, usize> = HashMap::new();
    all.iter().for_each(|one| *left.entry(kind(one)).or_default() += 1);
    for (at, constraint) in all.iter().enumerate() {
        if full(&found) {
            break;
        }
        let (path, kind) = (path.index(at), kind(constraint));
        found.extend(spread(constraint, rules, &path));
        let after = left.entry(kind.clone()).or_default();
        *after -= 1;
        if *after > 0 {
            found.push(Problem::new(
                &path.field("{topologyKey, whenUnsatisfiable}"),
                Reason::Duplicate,
                Some(kind.into()),
                "",
            ));
        }
    }
    found
}

fn spread(constraint: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let skew = number(constraint, "maxSkew").unwrap_or(0);
    if skew <= 0 {
        found.push(Problem::invalid(&path.field("maxSkew"), skew, "must be greater than zero"));
    }
    // Any text: no label of a node is called what is no name, and nothing is spread.
    if text(constraint, "topologyKey").is_empty() {
        found.push(Problem::required(&path.field("topologyKey"), NO_KEY));
    }
    let words = ["DoNotSchedule", "ScheduleAnyway"];
    found.extend(one_of(text(constraint, "whenUnsatisfiable"), &words, &path.field("whenUnsatisfiable")));
    let when = text(constraint, "whenUnsatisfiable");
    if let Some(domains) = number(constraint, "minDomains") {
        let at = path.field("minDomains");
        if domains <= 0 {
            found.push(Problem::invalid(&at, domains, "must be greater than zero"));
        }
        if when != "DoNotSchedule" {
            let words = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}");
            found.push(Problem::invalid(&at, domains, words));
        }
    }
    for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if has(constraint, field) {
            found.extend(one_of(text(constraint, field), &["Honor", "Ignore"], &path.field(field)));
        }
    }
    found.extend(match_keys(constraint, "matchLabelKeys", &path.field("matchLabelKeys")));
    found.extend(doubled_keys(constraint, path));
    found.extend(label_selector::validate(&constraint["labelSelector"], rules, &path.field("labelSelector")));
    found
}

/// A key in the selector as well: the selector then has more rules for the key than the rule made from
/// `matchLabelKeys`. The path is the path of Kubernetes.
fn doubled_keys(of: &Value, path: &Path) -> Vec<Problem> {
    let (keys, selector) = (list(of, "matchLabelKeys"), &of["labelSelector"]);
    let mut seen: HashSet<&str> = entries(selector, "matchLabels").map(|(key, _)| key.as_str()).collect();
    let mut found = Vec::new();
    for key in list(selector, "matchExpressions").iter().map(|rule| text(rule, "key")) {
        if let Some(at) = keys.iter().rposition(|one| one == key).filter(|_| !seen.insert(key) && !full(&found)) {
            found.push(Problem::invalid(&path.index(at), key, "exists in both matchLabelKeys and labelSelector"));
        }
        seen.insert(key);
    }
    found
}

/// Keys of labels whose values a pod takes from itself: more of a selector.
fn match_keys(of: &Value, field: &str, path: &Path) -> Vec<Problem> {
    let keys = list(of, field);
    if !keys.is_empty() && !has(of, "labelSelector") {
        return vec![Problem::forbidden(path, "must not be specified when labelSelector is not set")];
    }
    let mut found = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        if full(&found) {
            break;
        }
        let key = key.as_str().unwrap_or_default();
        found.extend(names::problems(&path.index(at), key, names::qualified(key)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_labels_become_part_of_the_selector() {
        fn check(term: Value, expected: Value, problems: &[&str]) {
            let affinity = json!({
                "podAffinity": {REQUIRED: [term]},
                "podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]},
            });
            let labels = json!({"z": "1", "y": "2"});
            let mut pod = json!({
                "metadata": {"labels": labels}, "spec": {"affinity": affinity, "topologySpreadConstraints": [term]},
            });
            merge_keys(&mut pod);
            let spec = &pod["spec"];
            let merged = &spec["affinity"]["podAffinity"][REQUIRED][0];
            assert_eq!(merged["labelSelector"]["matchExpressions"], expected, "{term}");
            assert_eq!(spec["affinity"]["podAntiAffinity"][PREFERRED][0]["podAffinityTerm"], *merged);
            assert_eq!(spec["topologySpreadConstraints"][0], *merged);
            let found: Vec<String> =
                pod_term(merged, Rules::default(), &Path::new("t")).iter().map(Problem::to_string).collect();
            assert_eq!(found, problems, "{term}");
        }
        let term = |more: Value| {
            let mut one = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"x": "y"}}});
            one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            one
        };
        let rule =
            |key: &str, operator: &str, value: &str| json!({"key": key, "operator": operator, "values": [value]});
        check(term(json!({})), Value::Null, &[]);
        let merged = json!([rule("z", "In", "1"), rule("y", "NotIn", "2")]);
        check(term(json!({"matchLabelKeys": ["absent", "z"], "mismatchLabelKeys": ["y"]})), merged, &[]);
        let own = json!({"matchExpressions": [rule("a", "In", "b")]});
        let merged = json!([rule("a", "In", "b"), rule("z", "In", "1")]);
        check(term(json!({"labelSelector": own, "matchLabelKeys": ["z"]})), merged, &[]);
        let words = "t[1]: Invalid value: \"z\": exists in both matchLabelKeys and labelSelector";
        let both = json!([rule("y", "In", "2"), rule("z", "In", "1")]);
        let own = json!({"matchLabels": {"z": "1"}});
        check(term(json!({"labelSelector": own, "matchLabelKeys": ["y", "z"]})), both, &[words]);
        let unselected = json!({"labelSelector": null, "matchLabelKeys": ["z"]});
        check(
            term(unselected),
            Value::Null,
            &["t.matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"],
        );
    }

    #[test]
    fn a_new_pod_alone_is_merged() {
        let term =
            json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"z": "1"}}, "matchLabelKeys": ["z"]});
        assert_eq!(pod_term(&term, Rules::default(), &Path::new("t")), [], "as in a template");
    }
}

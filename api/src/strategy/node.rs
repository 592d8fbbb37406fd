//! Nodes: hosts that run pods.

use super::checks::{PROBLEMS_MAX, full};
use super::doc::{copy, entries, has, is_empty, list, map_at, remove};
use super::meta::{self, Scope};
use super::network::Range;
use super::rules::{BuiltinStrategy, Making, Rules, without_status};
use super::{amounts, general, inner, names, pod_spec};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::HashSet;

pub static NODE: BuiltinStrategy = BuiltinStrategy {
    create,
    update,
    status_update,
    validate,
    validate_update,
    durable: without_status,
    ..general::strategy::<true, false>()
};

/// The agent on a node creates the node object together with the status.
fn create(node: &mut Value, making: &mut Making<'_>) {
    defaults(node);
    meta::create(node, making, false);
}

fn update(new: &mut Value, old: &Value, _making: &mut Making<'_>) {
    defaults(new);
    copy(new, old, "status");
    meta::update(new, old, false);
}

fn status_update(new: &mut Value, old: &Value) {
    meta::status_update(new, old);
    // Nor this.
    if !has(&old["status"], "config") && has(&new["status"], "config") {
        remove(&mut new["status"], "config");
    }
    allocatable(new);
}

fn defaults(node: &mut Value) {
    allocatable(node);
    let spec = map_at(node, "spec");
    // Nothing reads it since kubelets take their settings from files alone.
    spec.remove("configSource");
    let first = spec.get("podCIDRs").and_then(|all| all.get(0)).cloned();
    match (spec.get("podCIDR").filter(|cidr| !is_empty(cidr)).cloned(), first) {
        // The older field decides.
        (Some(cidr), first) if first.as_ref() != Some(&cidr) => {
            spec.insert("podCIDRs".into(), vec![cidr].into());
        }
        (None, Some(first)) => {
            spec.insert("podCIDR".into(), first);
        }
        _ => {}
    }
}

/// A node that does not say what pods may have lets them have all.
fn allocatable(node: &mut Value) {
    if has(&node["status"], "capacity") && is_empty(&node["status"]["allocatable"]) {
        node["status"]["allocatable"] = node["status"]["capacity"].clone();
    }
}

fn validate(node: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(node, Scope::Cluster, names::subdomain, rules);
    let spec = &node["spec"];
    found.extend(pod_spec::taints(spec));
    let path = Path::new("spec").field("podCIDRs");
    let ranges: Vec<&str> = list(spec, "podCIDRs").iter().filter_map(Value::as_str).collect();
    for (at, range) in ranges.iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(names::problems(&path.index(at), *range, names::cidr(range)));
    }
    for field in ["capacity", "allocatable"] {
        for (name, amount) in entries(&node["status"], field).take(PROBLEMS_MAX) {
            found.extend(amounts::amount(name, amount, &Path::new("status").field(field).field(name)));
        }
    }
    let families: Vec<bool> = ranges.iter().filter_map(|range| Range::parse(range)).map(|range| range.v6).collect();
    if families.len() > 1 && (families.len() > 2 || families[0] == families[1]) {
        let words = "may specify no more than one CIDR for each IP family";
        found.push(Problem::invalid(&path, spec["podCIDRs"].clone(), words));
    }
    found
}

/// On an update each address of a node is reported once.
fn doubled_addresses(node: &Value) -> Vec<Problem> {
    let mut seen = HashSet::new();
    let doubled =
        list(&node["status"], "addresses").iter().enumerate().filter(|(_, one)| !seen.insert(one.to_string())).take(8);
    let at = Path::new("status.addresses");
    doubled
        .map(|(n, one)| Problem::new(&at.index(n), Reason::Duplicate, None, inner::shown("NodeAddress", one)))
        .collect()
}

fn validate_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = general::changed(new, old, rules, validate);
    // Of a node that stands each is looked at once more: what is wrong is a cause twice.
    found.extend(pod_spec::taints(&new["spec"]));
    found.extend(doubled_addresses(new));
    for (field, said) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let (now, was) = (&new["spec"][field], &old["spec"][field]);
        if !is_empty(was) && now != was {
            let words = format!("node updates may not change {said} except from \"\" to valid");
            found.push(Problem::forbidden(&Path::new("spec").field(field), words));
        }
    }
    let external = |node: &Value| node["spec"]["externalID"].as_str().unwrap_or_default().to_owned();
    if external(new) != external(old) {
        found.push(Problem::forbidden(&Path::new("spec.externalID"), "may not be updated"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::Time;
    use serde_json::json;

    #[test]
    fn a_life() {
        let mut making = Making {
            now: Time::from_seconds(1_600_000_000).unwrap(),
            uid: "u".into(),
            suffix: &mut || "abcde".into(),
            service_address: &mut || None,
            node_port: &mut || None,
        };
        let mut node = json!({
            "metadata": {"name": "n"}, "spec": {"podCIDR": "10.244.0.0/24"}, "status": {"capacity": {"cpu": "4"}},
        });
        create(&mut node, &mut making);
        assert_eq!(node["spec"], json!({"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"]}));
        assert_eq!(node["status"], json!({"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}));
        assert_eq!(validate(&node, Rules::default()), []);
        for (said, expected) in [
            (
                json!({"podCIDRs": ["10.1.0.0/24", "fd00::/64"]}),
                json!({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00::/64"]}),
            ),
            (
                json!({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.2.0.0/24"]}),
                json!({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}),
            ),
            (json!({"podCIDR": "", "podCIDRs": []}), json!({"podCIDR": "", "podCIDRs": []})),
        ] {
            let mut one = json!({"metadata": {"name": "n"}, "spec": said});
            create(&mut one, &mut making);
            assert_eq!(one["spec"], expected);
            assert_eq!(validate(&one, Rules::default()), []);
        }

        let said = json!({"metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.1.2.3/24", "fd00::/064"]}});
        let expected = [
            "spec.podCIDRs[0]: Invalid value: \"10.1.2.3/24\": must not have bits set beyond the prefix length",
            "spec.podCIDRs[1]: Invalid value: \"fd00::/064\": must not have leading 0s in IP or prefix length",
        ];
        crate::strategy::tests::assert_problems(validate(&said, Rules::default()), &expected);

        let mut new = json!({"metadata": {"name": "n", "labels": {"a": "b"}},
            "spec": {"podCIDR": "10.244.0.0/24", "unschedulable": true}, "status": {"capacity": {}}});
        update(&mut new, &node, &mut making);
        assert_eq!(
            new["spec"],
            json!({"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"], "unschedulable": true})
        );
        assert_eq!(new["status"], node["status"]);
        assert_eq!(validate_update(&new, &node, Rules::default()), []);
        let mut said = json!({"metadata": {"name": "n", "annotations": {"x": "y"}, "labels": {"a": "b"}},
            "spec": {"unschedulable": false}, "status": {"capacity": {"cpu": "2"}, "config": {"error": "e"}}});
        status_update(&mut said, &new);
        assert_eq!(said["metadata"]["annotations"], json!({"x": "y"}));
        assert_eq!((&said["spec"], &said["metadata"]["labels"]), (&new["spec"], &json!({"a": "b"})));
        assert_eq!(said["status"], json!({"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}}));
    }

    #[test]
    fn what_a_node_is_called_elsewhere_stays() {
        let node = |spec: Value| {
            let mut node = json!({"metadata": {"name": "n"}, "spec": spec});
            defaults(&mut node);
            node
        };
        let check = |old: Value, new: Value, expected: &[&str]| {
            crate::strategy::tests::assert_problems(
                validate_update(&node(new), &node(old), Rules::default()),
                expected,
            );
        };
        let range = "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid";
        let provider = "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid";
        let other = "spec.externalID: Forbidden: may not be updated";
        let known = || json!({"providerID": "a://b", "podCIDR": "10.1.0.0/24"});
        check(known(), known(), &[]);
        check(known(), json!({"providerID": "a://b", "podCIDRs": ["10.1.0.0/24"], "unschedulable": true}), &[]);
        check(
            json!({}),
            json!({"providerID": "a://b", "podCIDR": "10.1.0.0/24", "taints": [{"key": "k", "effect": "NoSchedule"}]}),
            &[],
        );
        check(known(), json!({"podCIDR": "10.1.0.0/24"}), &[provider]);
        check(known(), json!({"providerID": "a://c", "podCIDR": "10.1.0.0/24"}), &[provider]);
        check(known(), json!({"providerID": "a://b"}), &[range]);
        check(known(), json!({"providerID": "a://b", "podCIDR": "10.2.0.0/24"}), &[range]);
        check(json!({}), json!({"externalID": "x"}), &[other]);
    }
}

//! Bindings: a pod is put on a node, once.

use super::checks::one_of;
use super::doc::{entries, has, list, map_at, text, texts};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Rules, nothing};
use super::{general, names};
use crate::meta::Time;
use coracle_schema::{Path, Problem};
use serde_json::{Value, json};

/// Where a node is, which its pods may ask about themselves.
pub const PLACES: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// A binding is never stored: it changes its pod. See `bind`.
pub static BINDING: BuiltinStrategy = BuiltinStrategy {
    validate,
    validate_update: |new, _, rules| validate(new, rules),
    durable: nothing,
    ..general::strategy::<false, false>()
};

fn validate(binding: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(binding, Scope::Namespaced, names::subdomain, rules);
    found.extend(no_target(binding));
    let name = text(&binding["target"], "name");
    if !name.is_empty() {
        let form = if rules.old_names { names::old_id } else { names::subdomain };
        found.extend(names::problems(&Path::new("target.name"), name, form(name)));
    }
    found
}

/// It names no node.
pub fn no_target(binding: &Value) -> Vec<Problem> {
    let (target, path) = (&binding["target"], Path::new("target"));
    let kind = text(target, "kind");
    let mut found: Vec<Problem> = Vec::new();
    if !matches!(kind, "" | "Node") {
        found.extend(one_of(kind, &["Node", "<empty>"], &path.field("kind")));
    }
    if text(target, "name").is_empty() {
        found.push(Problem::required(&path.field("name"), ""));
    }
    found
}

/// The pod on the node that the binding names, with the binding's labels and annotations and the node's place; or why
/// that cannot be, in the words of a Conflict. `node`: null if no node has this name.
pub fn bind(pod: &Value, binding: &Value, node: &Value, now: Time) -> Result<Value, String> {
    let name = text(&pod["metadata"], "name");
    for (field, called) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (meant, stands) = (text(&binding["metadata"], field), text(&pod["metadata"], field));
        if !meant.is_empty() && meant != stands {
            return Err(format!(
                "Precondition failed: {called} in precondition: {meant}, {called} in object meta: {stands}"
            ));
        }
    }
    if has(&pod["metadata"], "deletionTimestamp") {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let bound = text(&pod["spec"], "nodeName");
    if !bound.is_empty() {
        return Err(format!("pod {name} is already assigned to node {bound:?}"));
    }
    if !list(&pod["spec"], "schedulingGates").is_empty() {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut pod = pod.clone();
    map_at(&mut pod, "spec").insert("nodeName".into(), binding["target"]["name"].clone());
    for field in ["labels", "annotations"] {
        for (key, value) in entries(&binding["metadata"], field) {
            map_at(&mut pod["metadata"], field).insert(key.clone(), value.clone());
        }
    }
    for (key, value) in texts(&node["metadata"], "labels").filter(|(key, _)| PLACES.contains(key)) {
        map_at(&mut pod["metadata"], "labels").insert(key.into(), value.into());
    }
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now.to_string(),
    });
    let status = map_at(&mut pod, "status");
    // It has a node now, and waits for no other.
    status.remove("nominatedNodeName");
    let mut conditions =
        status.remove("conditions").map(|all| list(&json!({"all": all}), "all").to_vec()).unwrap_or_default();
    conditions.retain(|condition| text(condition, "type") != "PodScheduled");
    conditions.push(condition);
    status.insert("conditions".into(), conditions.into());
    Ok(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Time {
        Time::from_seconds(1_600_000_000).unwrap()
    }

    #[test]
    fn a_pod_is_bound_once() {
        let waiting = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
        let pod = json!({"metadata": {"name": "p", "uid": "u", "labels": {"a": "1"}}, "spec": {},
            "status": {"phase": "Pending", "nominatedNodeName": "n2",
                "conditions": [{"type": "Other", "status": "True"}, waiting]}});
        let binding = json!({
            "metadata": {"name": "p", "labels": {"b": "2"}, "annotations": {"c": "3"}},
            "target": {"kind": "Node", "name": "n1"},
        });
        let zone = "topology.kubernetes.io/zone";
        let node = json!({"metadata": {"labels": {zone: "z1", "kubernetes.io/hostname": "n1"}}});
        let bound = bind(&pod, &binding, &node, now()).unwrap();
        assert_eq!(bound["spec"]["nodeName"], "n1");
        assert_eq!(bound["metadata"]["labels"], json!({"a": "1", "b": "2", zone: "z1"}));
        assert_eq!(bound["metadata"]["annotations"], json!({"c": "3"}));
        let conditions = json!([{"type": "Other", "status": "True"},
            {"type": "PodScheduled", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": "2020-09-13T12:26:40Z"}]);
        assert_eq!(bound["status"], json!({"phase": "Pending", "conditions": conditions}));
        assert_eq!(bind(&bound, &binding, &node, now()), Err("pod p is already assigned to node \"n1\"".into()));
    }

    #[test]
    fn refusals() {
        fn check(pod: Value, binding: Value, expected: &str) {
            let refused = bind(&pod, &binding, &Value::Null, now()).expect_err("refused");
            assert!(refused.starts_with(expected), "{refused}");
        }
        let binding = json!({"metadata": {"uid": "v"}, "target": {"name": "n"}});
        check(
            json!({"metadata": {"name": "p", "uid": "u"}}),
            binding.clone(),
            "Precondition failed: UID in precondition: v",
        );
        check(
            json!({"metadata": {"name": "p", "uid": "v", "deletionTimestamp": "2020-01-01T00:00:00Z"}}),
            binding,
            "pod p is being deleted",
        );
        let pod =
            json!({"metadata": {"name": "p", "resourceVersion": "8"}, "spec": {"schedulingGates": [{"name": "a/b"}]}});
        let stale = json!({"metadata": {"resourceVersion": "7"}, "target": {"name": "n"}});
        check(
            pod.clone(),
            stale,
            "Precondition failed: ResourceVersion in precondition: 7, ResourceVersion in object meta: 8",
        );
        check(
            pod,
            json!({"metadata": {"resourceVersion": "8"}, "target": {"name": "n"}}),
            "pod p has non-empty .spec.schedulingGates",
        );
    }

    #[test]
    fn targets() {
        fn check(target: Value, expected: &[&str]) {
            let binding = json!({"metadata": {"name": "p", "namespace": "default"}, "target": target});
            let found: Vec<String> = validate(&binding, Rules::default()).iter().map(Problem::to_string).collect();
            assert_eq!(found, expected);
        }
        check(json!({"name": "n"}), &[]);
        check(json!({"kind": "Node", "name": "n"}), &[]);
        check(json!({"kind": "Node"}), &["target.name: Required value"]);
        check(
            json!({"kind": "Pod", "name": "n"}),
            &["target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\""],
        );
    }
}

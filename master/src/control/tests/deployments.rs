//! Deployments over clusters made of documents.

use super::*;

/// A Deployment of template `new`.
fn deployment(replicas: i64, strategy: &str, paused: bool) -> (&'static str, Value) {
    let spec = json!({
        "replicas": replicas, "paused": paused, "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"type": strategy, "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "new"}]}},
    });
    ("deployments", json!({"metadata": {"name": "web", "uid": "uid-web", "generation": 1}, "spec": spec}))
}

/// One of its ReplicaSets, last scaled for a Deployment of so many pods.
fn set(image: &str, replicas: i64, desired: i64) -> (&'static str, Value) {
    let labels = json!({"app": "web", "pod-template-hash": image});
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web", "controller": true});
    let annotations = json!({"deployment.kubernetes.io/desired-replicas": desired.to_string(),
        "deployment.kubernetes.io/max-replicas": (desired + 1).to_string()});
    let spec = json!({
        "replicas": replicas, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}},
    });
    let name = format!("web-{image}");
    let metadata = json!({"name": name, "uid": format!("uid-{name}"), "labels": labels, "annotations": annotations,
        "ownerReferences": [owner]});
    ("replicasets", json!({"metadata": metadata, "spec": spec}))
}

/// The sizes that its ReplicaSets are given.
fn sized(deployment: (&'static str, Value), sets: &[(&'static str, Value)]) -> Vec<String> {
    let objects: Vec<_> = std::iter::once(deployment).chain(sets.iter().cloned()).collect();
    let line = |intent: Intent| match intent {
        Intent::Create { object, .. } => Some(format!("new={}", object["spec"]["replicas"])),
        Intent::Update { key, object, .. } => Some(format!("{}={}", key.name, object["spec"]["replicas"])),
        _ => None,
    };
    decide(&cluster(&objects), "deployments", key("deployments", "web"), at(MINUTE))
        .intents
        .into_iter()
        .filter_map(line)
        .collect()
}

#[test]
fn a_rollout_goes_on_where_nothing_is_to_be_scaled() {
    let two = |desired| [set("a", 2, desired), set("b", 1, desired)];
    for (replicas, strategy, paused, sets, expected) in [
        // A scaled one keeps the proportions of its sets.
        (6, "RollingUpdate", false, two(3).as_slice(), &["web-a=5", "web-b=2"][..]),
        (0, "RollingUpdate", false, &two(3), &["web-a=0", "web-b=0"]),
        // `Recreate` has none: all old ones go, whatever they were scaled for.
        (3, "Recreate", false, &two(3), &["web-a=0", "web-b=0"]),
        (0, "Recreate", false, &two(3), &["web-a=0", "web-b=0"]),
        (5, "Recreate", false, &two(3), &["web-a=0", "web-b=0"]),
        (5, "Recreate", true, &two(3), &[]),
        // A single one that has the size already.
        (2, "RollingUpdate", false, &[set("a", 2, 3)], &["new=1"]),
        (2, "RollingUpdate", true, &[set("a", 2, 3)], &[]),
        (2, "RollingUpdate", false, &[set("a", 3, 3)], &["web-a=2"]),
    ] {
        let name = format!("{replicas} {strategy} paused={paused} {sets:?}");
        assert_eq!(sized(deployment(replicas, strategy, paused), sets), expected, "{name}");
    }
}

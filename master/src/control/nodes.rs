//! Node life: a node that is silent for too long is Unknown and its pods are not ready; the pods of a node that was seen to be
//! deleted, and has not come back for a while, are deleted. PURE.
//!
//! Silence is measured by uptime, never by the clocks of two hosts. A node that comes back says so itself, with its next status.

use super::cluster::Cluster;
use super::controller::{Change, Look, Now};
use super::intent::{About, Decision, Intent, Tale};
use super::view::{NodeView, PodView, document, node_key};
use coracle_api::meta::{Key, Time};
use serde_json::json;
use std::time::Duration;

/// Silence after which a node counts as gone: four times the agents' beat of 10 s, as Kubernetes has it.
pub const SILENCE_MAX: Duration = Duration::from_secs(40);
/// A node that was deleted may register again within this, and its pods stay: an agent that lives does so with its next beat. As long as
/// Kubernetes waits.
pub const ABSENCE_MAX: Duration = Duration::from_secs(40);
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Nodes, and those that pods are bound to though they were deleted.
pub fn all(cluster: &Cluster) -> Vec<Key> {
    cluster.nodes.keys().chain(cluster.removed_nodes.keys()).map(|name| node_key(name)).collect()
}

/// The node that a pod is on, or was.
pub fn by_pod(cluster: &Cluster, change: &Change<'_>) -> Vec<Key> {
    change.pods(cluster).filter(|pod| !pod.node.is_empty()).map(|pod| node_key(&pod.node)).collect()
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, name, now) = (look.cluster, look.key.name.as_str(), look.now);
    let Some(node) = cluster.nodes.get(name) else { return orphans(cluster, name, now) };
    let silent_at = cluster.heard(name).unwrap_or_default() + SILENCE_MAX;
    if now.uptime < silent_at {
        // It speaks again: its next status says so, and that is an event.
        let wake_at = (!node.silent()).then_some(silent_at);
        return Decision { wake_at, ..Decision::of(welcome(name, node)) };
    }
    let mut intents = Vec::new();
    if !node.silent() {
        intents.push(unknown(name, node, now.wall));
        let message = format!("Node {name} status is now: NodeNotReady");
        let about = About::new(("v1", "Node"), look.key, &node.uid, node.revision);
        intents.push(Intent::Tell(Tale::normal("node-controller", about, "NodeNotReady", message)));
    }
    intents.extend(
        cluster.pods_on(name).filter(|(_, pod)| pod.ready == Some(true) && !pod.terminal()).map(|(key, pod)| not_ready(key, pod, now.wall)),
    );
    Decision::of(intents)
}

/// A node that is ready for the first time: what admission put on it when it was made is taken away.
fn welcome(name: &str, node: &NodeView) -> Vec<Intent> {
    let new = |key: &str, effect: &str| key == NOT_READY && effect == "NoSchedule";
    if node.ready != "True" || !node.taints.iter().any(|taint| new(&taint.key, &taint.effect)) {
        return Vec::new();
    }
    let mut object = document(&node.document);
    if let Some(taints) = object["spec"]["taints"].as_array_mut() {
        taints.retain(|taint| !new(taint["key"].as_str().unwrap_or_default(), taint["effect"].as_str().unwrap_or_default()));
    }
    vec![Intent::Update { key: node_key(name), seen: node.revision, object }]
}

/// The pods of a node whose deletion was seen: nobody will stop them, nobody will say that they have stopped.
fn orphans(cluster: &Cluster, name: &str, now: Now) -> Decision {
    let Some(removed) = cluster.removed_nodes.get(name) else { return Decision::default() };
    let due = *removed + ABSENCE_MAX;
    if now.uptime < due {
        return Decision::later(due);
    }
    let left = cluster.pods_on(name).filter(|(_, pod)| !pod.ending);
    Decision::of(left.map(|(key, pod)| Intent::Delete { key: key.clone(), seen: pod.revision, at_once: true }).collect())
}

/// All that the node said about itself is in doubt. One that never said anything is not ready either.
fn unknown(name: &str, node: &NodeView, wall: Time) -> Intent {
    let document = document(&node.document);
    let mut status = if document["status"].is_object() { document["status"].clone() } else { json!({}) };
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    for condition in &mut conditions {
        condition["status"] = "Unknown".into();
        condition["reason"] = "NodeStatusUnknown".into();
        condition["message"] = "Kubelet stopped posting node status.".into();
        condition["lastTransitionTime"] = wall.to_string().into();
    }
    if !conditions.iter().any(|condition| condition["type"] == "Ready") {
        conditions.push(json!({
            "type": "Ready", "status": "Unknown", "reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status.",
            "lastTransitionTime": wall.to_string(),
        }));
    }
    status["conditions"] = conditions.into();
    Intent::Status { key: node_key(name), seen: node.revision, status }
}

fn not_ready(key: &Key, pod: &PodView, wall: Time) -> Intent {
    let document = document(&pod.document);
    let mut status = document["status"].clone();
    for condition in status["conditions"].as_array_mut().into_iter().flatten().filter(|condition| condition["type"] == "Ready") {
        condition["status"] = "False".into();
        condition["reason"] = "NodeNotReady".into();
        condition["message"] = json!("the node does not say anything any more");
        condition["lastTransitionTime"] = wall.to_string().into();
    }
    Intent::Status { key: key.clone(), seen: pod.revision, status }
}

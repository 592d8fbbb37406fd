//! Node life: a node that is silent for too long is Unknown and its pods are not ready; the pods of a node that was seen to be
//! deleted, and has not come back for a while, are deleted. And the life of events, which is one hour. PURE.
//!
//! Silence is measured by uptime, never by the clocks of two hosts. A node that comes back says so itself, with its next status.

use super::Now;
use super::cluster::{Cluster, node_key};
use super::intent::{About, Decision, Intent, Tale};
use super::view::{NodeView, PodView};
use coracle_api::meta::{Key, Time};
use serde_json::{Value, json};
use std::time::Duration;

/// Silence after which a node counts as gone: four times the agents' beat of 10 s, as Kubernetes has it.
pub const SILENCE_MAX: Duration = Duration::from_secs(40);
/// A node that was deleted may register again within this, and its pods stay: an agent that lives does so with its next beat. As long as
/// Kubernetes waits.
pub const ABSENCE_MAX: Duration = Duration::from_secs(40);
/// How long an event is kept, as Kubernetes keeps it.
pub const EVENT_LIFE: Duration = Duration::from_secs(3600);
/// Events kept in all; beyond that the oldest go first. About 2 MB.
pub const EVENTS_MAX: usize = 2000;
/// Their bytes: who writes long ones gets fewer.
pub const EVENTS_BYTES_MAX: usize = 8 << 20;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub fn decide(cluster: &Cluster, name: &str, now: Now) -> Decision {
    let Some(node) = cluster.nodes.get(name) else { return orphans(cluster, name, now) };
    let silent_at = cluster.heard(name).unwrap_or_default() + SILENCE_MAX;
    if now.uptime < silent_at {
        // It speaks again: its next status says so, and that is an event.
        return Decision { intents: welcome(name, node), wake_at: (!node.silent()).then_some(silent_at) };
    }
    let mut intents = Vec::new();
    if !node.silent() {
        intents.push(unknown(name, node, now.wall));
        let message = format!("Node {name} status is now: NodeNotReady");
        let (api_version, kind) = ("v1".into(), "Node".into());
        let (name, uid, revision) = (name.to_owned(), node.uid.clone(), node.revision);
        let about = About { api_version, kind, namespace: String::new(), name, uid, revision };
        let source = "node-controller";
        intents.push(Intent::Tell(Tale { about, severity: "Normal", reason: "NodeNotReady", message, names_made: false, source }));
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
    let mut object: Value = serde_json::from_slice(&node.document.json).unwrap_or_default();
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
        return Decision { intents: Vec::new(), wake_at: Some(due) };
    }
    let left = cluster.pods_on(name).filter(|(_, pod)| !pod.ending);
    Decision::of(left.map(|(key, pod)| Intent::Delete { key: key.clone(), seen: pod.revision, at_once: true }).collect())
}

/// All that the node said about itself is in doubt. One that never said anything is not ready either.
fn unknown(name: &str, node: &NodeView, wall: Time) -> Intent {
    let document: Value = serde_json::from_slice(&node.document.json).unwrap_or_default();
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
    let document: Value = serde_json::from_slice(&pod.document.json).unwrap_or_default();
    let mut status = document["status"].clone();
    for condition in status["conditions"].as_array_mut().into_iter().flatten().filter(|condition| condition["type"] == "Ready") {
        condition["status"] = "False".into();
        condition["reason"] = "NodeNotReady".into();
        condition["message"] = json!("the node does not say anything any more");
        condition["lastTransitionTime"] = wall.to_string().into();
    }
    Intent::Status { key: key.clone(), seen: pod.revision, status }
}

pub fn expire_events(cluster: &Cluster, now: Now) -> Decision {
    let (mut left, mut bytes) = (cluster.events.len(), cluster.events.bytes());
    let mut intents = Vec::new();
    for (key, came) in cluster.events.by_age() {
        if left <= EVENTS_MAX && bytes <= EVENTS_BYTES_MAX && now.uptime < came.at + EVENT_LIFE {
            return Decision { intents, wake_at: Some(came.at + EVENT_LIFE) };
        }
        (left, bytes) = (left - 1, bytes - came.bytes);
        intents.push(Intent::Delete { key: key.clone(), seen: came.revision, at_once: true });
    }
    Decision::of(intents)
}

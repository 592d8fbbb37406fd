//! Node life: a node that is silent for too long is Unknown and its pods are not ready; the pods of a node that was seen to be
//! deleted are deleted. And the life of events, which is one hour. PURE.
//!
//! Silence is measured by uptime, never by the clocks of two hosts. A node that comes back says so itself, with its next status.

use super::Now;
use super::cluster::{Cluster, NodeView, PodView};
use super::intent::{About, Decision, Intent, Tale};
use coracle_api::meta::{Key, Resource, Time};
use serde_json::{Value, json};
use std::time::Duration;

/// Silence after which a node counts as gone: four times the agents' beat of 10 s, as Kubernetes has it.
pub const SILENCE_MAX: Duration = Duration::from_secs(40);
/// How long an event is kept, as Kubernetes keeps it.
pub const EVENT_LIFE: Duration = Duration::from_secs(3600);
/// Events kept in all; beyond that the oldest go first. About 2 MB.
pub const EVENTS_MAX: usize = 2000;

pub fn decide(cluster: &Cluster, name: &str, now: Now) -> Decision {
    let Some(node) = cluster.nodes.get(name) else { return orphans(cluster, name) };
    let heard = cluster.heard(name).unwrap_or_default();
    let silent_at = heard + SILENCE_MAX;
    if now.uptime < silent_at {
        // Nothing is known to be wrong with a node that says that it is not ready.
        let watched = !matches!(node.ready.as_str(), "Unknown");
        return Decision { intents: Vec::new(), wake_at: watched.then_some(silent_at) };
    }
    let mut intents = Vec::new();
    if node.ready != "Unknown" && !node.ready.is_empty() {
        intents.push(unknown(name, node, now.wall));
        let about = About { kind: "Node", namespace: String::new(), name: name.to_owned(), uid: node.uid.clone(), revision: node.revision };
        let message = format!("Node {name} status is now: NodeNotReady");
        intents.push(Intent::Tell(Tale { about, severity: "Normal", reason: "NodeNotReady", message, source: "node-controller" }));
    }
    intents.extend(
        cluster.pods_on(name).filter(|(_, pod)| pod.ready == Some(true) && !pod.terminal()).map(|(key, pod)| not_ready(key, pod, now.wall)),
    );
    Decision::of(intents)
}

/// The pods of a node whose deletion was seen: nobody will stop them, nobody will say that they have stopped.
fn orphans(cluster: &Cluster, name: &str) -> Decision {
    if !cluster.removed_nodes.contains(name) {
        return Decision::default();
    }
    Decision::of(cluster.pods_on(name).map(|(key, pod)| Intent::Delete { key: key.clone(), seen: pod.revision, at_once: true }).collect())
}

/// All that the node said about itself is in doubt.
fn unknown(name: &str, node: &NodeView, wall: Time) -> Intent {
    let document: Value = serde_json::from_slice(&node.document.json).unwrap_or_default();
    let mut status = document["status"].clone();
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition["status"] = "Unknown".into();
        condition["reason"] = "NodeStatusUnknown".into();
        condition["message"] = "Kubelet stopped posting node status.".into();
        condition["lastTransitionTime"] = wall.to_string().into();
    }
    Intent::Status {
        key: Key { resource: Resource::core("nodes"), namespace: String::new(), name: name.to_owned() },
        seen: node.revision,
        status,
    }
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
    let mut by_age: Vec<_> = cluster.events.iter().map(|(key, (revision, came))| (*came, key, *revision)).collect();
    by_age.sort_unstable_by_key(|(came, ..)| *came);
    let surplus = by_age.len().saturating_sub(EVENTS_MAX);
    let due = by_age.iter().enumerate().filter(|(nth, (came, ..))| *nth < surplus || now.uptime >= *came + EVENT_LIFE);
    let intents: Vec<Intent> =
        due.map(|(_, (_, key, revision))| Intent::Delete { key: (*key).clone(), seen: *revision, at_once: true }).collect();
    let wake_at = by_age.get(intents.len()).map(|(came, ..)| *came + EVENT_LIFE);
    Decision { intents, wake_at }
}

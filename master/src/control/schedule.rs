//! The scheduler: a node for each pod that has none, all of them at once. PURE.
//!
//! A node must be ready and schedulable, carry the labels that the pod selects, have its host ports free and room for what
//! it asks. Among those the one with the fewest siblings wins (replicas spread), then the least loaded.

use super::cluster::{Cluster, HostPort, NodeView, PodView};
use super::intent::{About, Decision, Intent, Tale};
use coracle_api::meta::Key;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What stands on a node, counted along as pods are placed.
struct Room<'a> {
    node: &'a NodeView,
    cpu_milli: i64,
    memory_bytes: i64,
    pods: i64,
    /// Taken host ports and by whom.
    ports: Vec<(HostPort, String)>,
    /// Pods by their siblings' mark.
    siblings: BTreeMap<String, usize>,
}

pub fn decide(cluster: &Cluster) -> Decision {
    let mut waiting: Vec<(&Key, &PodView)> = cluster.pods.iter().filter(|(_, pod)| waits(pod)).collect();
    if waiting.is_empty() {
        return Decision::default();
    }
    waiting.sort_by_key(|(key, pod)| (pod.created.map(|time| time.seconds()), *key));
    let mut rooms: BTreeMap<&String, Room> = cluster.nodes.iter().map(|(name, node)| (name, Room::of(cluster, name, node))).collect();
    let mut intents = Vec::new();
    for (key, pod) in waiting {
        if pod.gated {
            intents.extend(explain(key, pod, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates".to_owned()));
            continue;
        }
        match place(&rooms, key, pod) {
            Ok(name) => {
                rooms.get_mut(&name).expect("it was chosen among them").take(key, pod);
                intents.push(Intent::Bind { key: key.clone(), seen: pod.revision, node: name.clone() });
                let message = format!("Successfully assigned {}/{} to {name}", key.namespace, key.name);
                intents.push(Intent::Tell(Tale {
                    about: about(key, pod),
                    severity: "Normal",
                    reason: "Scheduled",
                    message,
                    source: "scheduler",
                }));
            }
            Err(why) => intents.extend(explain(key, pod, "Unschedulable", why)),
        }
    }
    Decision::of(intents)
}

fn waits(pod: &PodView) -> bool {
    pod.node.is_empty() && pod.active() && pod.default_scheduler
}

impl<'a> Room<'a> {
    fn of(cluster: &Cluster, name: &str, node: &'a NodeView) -> Room<'a> {
        let mut room = Room { node, cpu_milli: 0, memory_bytes: 0, pods: 0, ports: Vec::new(), siblings: BTreeMap::new() };
        // A pod that is being deleted holds its ports until it is gone.
        for (key, pod) in cluster.pods_on(name).filter(|(_, pod)| !pod.terminal()) {
            room.take(key, pod);
        }
        room
    }

    fn take(&mut self, key: &Key, pod: &PodView) {
        self.cpu_milli += pod.cpu_milli;
        self.memory_bytes += pod.memory_bytes;
        self.pods += 1;
        self.ports.extend(pod.host_ports.iter().map(|port| (port.clone(), format!("{}/{}", key.namespace, key.name))));
        *self.siblings.entry(mark(key, pod)).or_default() += 1;
    }

    /// Why a pod has no place here, in Kubernetes' words.
    fn refuses(&self, pod: &PodView) -> Option<String> {
        let node = self.node;
        if node.ready != "True" {
            return Some("node(s) were not ready".to_owned());
        }
        if node.unschedulable {
            return Some("node(s) were unschedulable".to_owned());
        }
        if !pod.node_selector.iter().all(|(name, value)| node.labels.get(name) == Some(value)) {
            return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
        }
        for wanted in &pod.host_ports {
            if let Some((port, owner)) = self.ports.iter().find(|(port, _)| port.clashes(wanted)) {
                let HostPort { port, protocol, .. } = port;
                return Some(format!(
                    "node(s) didn't have free ports for the requested pod ports (host port {port}/{protocol} is taken by pod {owner})"
                ));
            }
        }
        if node.pods_max.is_some_and(|max| self.pods >= max) {
            return Some("Too many pods".to_owned());
        }
        if pod.cpu_milli > 0 && self.cpu_milli.saturating_add(pod.cpu_milli) > node.cpu_milli {
            return Some("Insufficient cpu".to_owned());
        }
        if pod.memory_bytes > 0 && self.memory_bytes.saturating_add(pod.memory_bytes) > node.memory_bytes {
            return Some("Insufficient memory".to_owned());
        }
        None
    }

    /// The fuller share of cpu and memory that would be asked for, in thousandths.
    fn load(&self, pod: &PodView) -> i64 {
        let share = |used: i64, of: i64| if of > 0 { used.saturating_mul(1000) / of } else { 0 };
        share(self.cpu_milli + pod.cpu_milli, self.node.cpu_milli).max(share(self.memory_bytes + pod.memory_bytes, self.node.memory_bytes))
    }
}

/// What replicas of one thing have in common: their controller, else namespace and labels.
fn mark(key: &Key, pod: &PodView) -> String {
    match &pod.owner {
        Some(uid) => uid.clone(),
        None => format!("{} {:?}", key.namespace, pod.labels),
    }
}

fn place(rooms: &BTreeMap<&String, Room>, key: &Key, pod: &PodView) -> Result<String, String> {
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    let mut fitting = Vec::new();
    for (name, room) in rooms {
        match room.refuses(pod) {
            Some(why) => *refusals.entry(why).or_default() += 1,
            None => {
                let siblings = room.siblings.get(&mark(key, pod)).copied().unwrap_or_default();
                fitting.push((siblings, room.load(pod), room.pods, *name));
            }
        }
    }
    if let Some((.., name)) = fitting.into_iter().min() {
        return Ok(name.clone());
    }
    if rooms.is_empty() {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let whys: Vec<String> = refusals.into_iter().map(|(why, count)| format!("{count} {why}")).collect();
    Err(format!("0/{} nodes are available: {}.", rooms.len(), whys.join(", ")))
}

/// Says why a pod waits, unless it says so already.
fn explain(key: &Key, pod: &PodView, reason: &'static str, why: String) -> Vec<Intent> {
    if pod.unscheduled.as_ref() == Some(&why) {
        return Vec::new();
    }
    let document: Value = serde_json::from_slice(&pod.document.json).unwrap_or_default();
    let mut status = document["status"].clone();
    let mut conditions: Vec<Value> = status["conditions"].as_array().cloned().unwrap_or_default();
    let since =
        conditions.iter().find(|condition| condition["type"] == "PodScheduled").map(|condition| condition["lastTransitionTime"].clone());
    conditions.retain(|condition| condition["type"] != "PodScheduled");
    // The time of a condition that did not change its status stays; a new one begins when the pod was made.
    let since = since.unwrap_or_else(|| document["metadata"]["creationTimestamp"].clone());
    conditions.push(json!({"type": "PodScheduled", "status": "False", "reason": reason, "message": why, "lastProbeTime": null, "lastTransitionTime": since}));
    status["conditions"] = conditions.into();
    let told = Tale { about: about(key, pod), severity: "Warning", reason: "FailedScheduling", message: why, source: "scheduler" };
    vec![Intent::Status { key: key.clone(), seen: pod.revision, status }, Intent::Tell(told)]
}

fn about(key: &Key, pod: &PodView) -> About {
    About { kind: "Pod", namespace: key.namespace.clone(), name: key.name.clone(), uid: pod.uid.clone(), revision: pod.revision }
}

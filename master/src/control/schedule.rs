//! The scheduler: a node for each pod that has none, all of them at once. PURE.
//!
//! A node must be ready and schedulable, carry the labels that the pod selects, have its host ports free and room for what
//! it asks. Among those the one with the fewest siblings wins (replicas spread), then the least loaded.

use super::cluster::Cluster;
use super::controller::{Change, Look, Now};
use super::intent::{About, Decision, Intent, Tale};
use super::view::{HostPort, NodeView, PODS, PodView, Unbound, document};
use coracle_api::meta::Key;
use coracle_api::node::Taint;
use coracle_api::pod::Toleration;
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

/// The source of the events.
const SOURCE: &str = "default-scheduler";
/// Pods that are named as those who hold a port; the others are counted.
const TAKERS_NAMED_MAX: usize = 3;

/// All pods on no node, which are looked at together: the one key of this controller.
pub fn key() -> Key {
    Key { resource: PODS, namespace: String::new(), name: String::new() }
}

pub fn all(_: &Cluster) -> Vec<Key> {
    vec![key()]
}

pub fn by_node(_: &Cluster, _: &Change<'_>) -> Vec<Key> {
    vec![key()]
}

/// A pod waits for a node, or leaves another room than before. One that cannot be read may do either.
pub fn by_pod(cluster: &Cluster, change: &Change<'_>) -> Vec<Key> {
    let waits = || change.pods(cluster).any(|pod| pod.node.is_empty());
    let same_room = || change.was().map(PodView::room) == cluster.pod(change.key).map(PodView::room);
    if change.is_unreadable() || waits() || !same_room() { vec![key()] } else { Vec::new() }
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, now) = (look.cluster, look.now);
    let mut waiting: Vec<(&Key, &PodView)> = cluster.pods_on("").filter(|(_, pod)| waits(pod)).collect();
    if waiting.is_empty() {
        return Decision::default();
    }
    waiting.sort_by_key(|(key, pod)| (pod.created.map(|time| time.seconds()), *key));
    let mut rooms: BTreeMap<&String, Room> = cluster.nodes.iter().map(|(name, node)| (name, Room::of(cluster, name, node))).collect();
    let mut intents = Vec::new();
    for (key, pod) in waiting {
        if pod.unbound.as_ref().is_some_and(|pod| pod.gated) {
            intents.extend(explain(key, pod, now, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates".to_owned()));
            continue;
        }
        match place(&rooms, key, pod) {
            Ok(name) => {
                rooms.get_mut(&name).expect("it was chosen among them").take(key, pod);
                intents.push(Intent::Bind { key: key.clone(), seen: pod.revision, node: name.clone() });
                let message = format!("Successfully assigned {}/{} to {name}", key.namespace, key.name);
                intents.push(Intent::Tell(Tale::normal(SOURCE, About::pod(key, pod), "Scheduled", message)));
            }
            Err(why) => intents.extend(explain(key, pod, now, "Unschedulable", why)),
        }
    }
    Decision::of(intents)
}

fn waits(pod: &PodView) -> bool {
    pod.active() && pod.unbound.as_ref().is_some_and(|pod| pod.default_scheduler)
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
        self.cpu_milli = self.cpu_milli.saturating_add(pod.cpu_milli);
        self.memory_bytes = self.memory_bytes.saturating_add(pod.memory_bytes);
        self.pods += 1;
        self.ports.extend(pod.host_ports.iter().map(|port| (port.clone(), format!("{}/{}", key.namespace, key.name))));
        *self.siblings.entry(mark(key, pod)).or_default() += 1;
    }

    /// Why a pod has no place here. Empty: it has.
    fn refuses(&self, pod: &PodView) -> Vec<Refusal> {
        let (node, asks) = (self.node, pod.unbound.as_deref());
        if node.ready != "True" {
            return vec![Refusal::of("node(s) were not ready")];
        }
        if node.unschedulable {
            return vec![Refusal::of("node(s) were unschedulable")];
        }
        let hard = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
        let tolerated = |taint: &Taint| asks.is_some_and(|asks| asks.tolerations.iter().any(|one| tolerates(one, taint)));
        if let Some(taint) = node.taints.iter().filter(hard).find(|taint| !tolerated(taint)) {
            return vec![Refusal::of(format!("node(s) had untolerated taint {{{}: {}}}", taint.key, taint.value))];
        }
        let selected = |asks: &Unbound| asks.node_selector.iter().all(|(name, value)| node.labels.get(name) == Some(value));
        if !asks.is_none_or(selected) {
            return vec![Refusal::of("node(s) didn't match Pod's node affinity/selector")];
        }
        for wanted in &pod.host_ports {
            if let Some((port, owner)) = self.ports.iter().find(|(port, _)| port.clashes(wanted)) {
                let why = "node(s) didn't have free ports for the requested pod ports".to_owned();
                return vec![Refusal { why, taken: Some((format!("{}/{}", port.port, port.protocol), owner.clone())) }];
            }
        }
        let mut short = Vec::new();
        if node.pods_max.is_some_and(|max| self.pods >= max) {
            short.push(Refusal::of("Too many pods"));
        }
        if pod.cpu_milli > 0 && self.cpu_milli.saturating_add(pod.cpu_milli) > node.cpu_milli {
            short.push(Refusal::of("Insufficient cpu"));
        }
        if pod.memory_bytes > 0 && self.memory_bytes.saturating_add(pod.memory_bytes) > node.memory_bytes {
            short.push(Refusal::of("Insufficient memory"));
        }
        short
    }

    /// The fuller share of cpu and memory that would be asked for, in thousandths.
    fn load(&self, pod: &PodView) -> i64 {
        let share = |used: i64, of: i64| if of > 0 { used.saturating_mul(1000) / of } else { 0 };
        let cpu = share(self.cpu_milli.saturating_add(pod.cpu_milli), self.node.cpu_milli);
        cpu.max(share(self.memory_bytes.saturating_add(pod.memory_bytes), self.node.memory_bytes))
    }
}

/// Why a node does not take a pod, in Kubernetes' words.
struct Refusal {
    why: String,
    /// A host port, and the pod that has it.
    taken: Option<(String, String)>,
}

impl Refusal {
    fn of(why: impl Into<String>) -> Refusal {
        Refusal { why: why.into(), taken: None }
    }
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let any_key = toleration.key.is_empty() && toleration.operator == "Exists";
    (toleration.effect.is_empty() || toleration.effect == taint.effect)
        && (any_key || toleration.key == taint.key)
        && (toleration.operator == "Exists" || toleration.value == taint.value)
}

/// What replicas of one thing have in common: their controller, else namespace and labels.
fn mark(key: &Key, pod: &PodView) -> String {
    match &pod.owner {
        Some(owner) => owner.clone(),
        None => format!("{} {:?}", key.namespace, pod.labels()),
    }
}

fn place(rooms: &BTreeMap<&String, Room>, key: &Key, pod: &PodView) -> Result<String, String> {
    let mut refusals: BTreeMap<String, (usize, Vec<(String, String)>)> = BTreeMap::new();
    let mut fitting = Vec::new();
    for (name, room) in rooms {
        let whys = room.refuses(pod);
        if whys.is_empty() {
            let siblings = room.siblings.get(&mark(key, pod)).copied().unwrap_or_default();
            fitting.push((siblings, room.load(pod), room.pods, *name));
        }
        for Refusal { why, taken } in whys {
            let (count, takers) = refusals.entry(why).or_default();
            *count += 1;
            takers.extend(taken);
        }
    }
    if let Some((.., name)) = fitting.into_iter().min() {
        return Ok(name.clone());
    }
    if rooms.is_empty() {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let whys: Vec<String> = refusals.into_iter().map(|(why, (count, takers))| format!("{count} {why}{}", taken_by(&takers))).collect();
    Err(format!("0/{} nodes are available: {}.", rooms.len(), whys.join(", ")))
}

fn taken_by(takers: &[(String, String)]) -> String {
    if takers.is_empty() {
        return String::new();
    }
    let named: Vec<String> =
        takers.iter().take(TAKERS_NAMED_MAX).map(|(port, pod)| format!("host port {port} is taken by pod {pod}")).collect();
    let more = takers.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(" ({}{more})", named.join(", "))
}

/// Says why a pod waits, unless it says so already.
fn explain(key: &Key, pod: &PodView, now: Now, reason: &'static str, why: String) -> Vec<Intent> {
    if pod.unbound.as_ref().and_then(|pod| pod.unscheduled.as_ref()) == Some(&why) {
        return Vec::new();
    }
    let mut status = document(&pod.document)["status"].clone();
    let mut conditions: Vec<Value> = status["conditions"].as_array().cloned().unwrap_or_default();
    // The time of a condition that did not change its status stays.
    let stands = conditions.iter().find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False");
    let since = stands.map_or_else(|| json!(now.wall.to_string()), |condition| condition["lastTransitionTime"].clone());
    conditions.retain(|condition| condition["type"] != "PodScheduled");
    let mut condition = json!({
        "type": "PodScheduled", "status": "False", "reason": reason, "message": why, "lastProbeTime": null, "lastTransitionTime": since,
    });
    if pod.generation > 0 {
        condition["observedGeneration"] = pod.generation.into();
    }
    conditions.push(condition);
    status["conditions"] = conditions.into();
    let tale = Tale::warning(SOURCE, About::pod(key, pod), "FailedScheduling", why);
    vec![Intent::Status { key: key.clone(), seen: pod.revision, status }, Intent::Tell(tale)]
}

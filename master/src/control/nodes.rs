//! Node life: a node that is silent for too long is Unknown and its pods are not ready; a node's conditions keep new
//! pods off the node; the pods of a node that has not existed for a while are given up. PURE.
//!
//! Silence is measured by uptime, never by the clocks of two hosts. A node that comes back says so itself, with its
//! next status.

use super::cluster::Cluster;
use super::controller::{Look, Now, ObservedChange};
use super::evictions::doomed;
use super::intent::{About, Decision, EventDraft, Intent};
use super::rules::ControlRule;
use super::view::{LEASES, LeaseView, NODE_LEASES, NOT_READY, NodeView, PodView, UNREACHABLE, document, node_key};
use coracle_api::meta::{Key, Time};
use serde_json::{Value, json};
use std::time::Duration;

/// If a deleted node registers again within this time, its pods stay: a live agent registers with its next heartbeat.
/// Kubernetes waits as long.
pub const ABSENCE_MAX: Duration = Duration::from_secs(40);
/// What a node that has never said how it is has for its first word, beyond what silence has.
const STARTUP_GRACE: Duration = Duration::from_secs(10);
/// A person puts it on a node that is gone for good.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Taints derived from the node's reported state: a taint from this list without the matching state is removed.
const OURS: [&str; 7] = [
    NOT_READY,
    UNREACHABLE,
    UNSCHEDULABLE,
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/pid-pressure",
];
/// Conditions that become Unknown when a node is silent.
const DOUBTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
/// How long kubelets may cache secrets, by the number of nodes; only people and old clients still read this
/// annotation.
const TTL: &str = "node.alpha.kubernetes.io/ttl";
const TTL_S: [(usize, &str); 4] = [(100, "0"), (500, "15"), (1000, "30"), (2000, "60")];
const TTL_S_MAX: &str = "300";
/// Labels, and the older names that say the same.
const MIRRORED: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];
const SOURCE: &str = "node-controller";

/// All existing nodes, and missing nodes that still have bound pods or a lease.
pub fn all(cluster: &Cluster) -> Vec<Key> {
    let leases = cluster.all::<LeaseView>().map(|(key, _)| key.name.as_str());
    let mut names: Vec<&str> = cluster.nodes.keys().map(String::as_str).chain(cluster.hosts()).chain(leases).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(node_key).collect()
}

/// The node that a pod is on, or was.
pub fn by_pod(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    change.pods(cluster).filter(|pod| !pod.node.is_empty()).map(|pod| node_key(&pod.node)).collect()
}

/// A lease has the name of its node. A renewal only matters for a silent or missing node.
pub fn by_lease(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let silent = cluster.get::<LeaseView>(change.key).is_some()
        && cluster.nodes.get(&change.key.name).is_none_or(NodeView::silent);
    if silent { vec![node_key(&change.key.name)] } else { Vec::new() }
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, name, now) = (look.cluster, look.key.name.as_str(), look.now);
    let Some(node) = cluster.nodes.get(name) else { return orphans(cluster, name, now) };
    let silent_at = silent_at(cluster, name, node);
    if now.uptime < silent_at {
        // A silent node that speaks again needs no timer: its next status update is an event.
        let wake_at = (!node.silent()).then_some(silent_at);
        let mut intents: Vec<Intent> = marked(cluster, name, node, now).into_iter().collect();
        intents.extend(out_of_service(cluster, name, node));
        return Decision { wake_at, ..Decision::of(intents) };
    }
    if !cluster.holds(ControlRule::SilentNodesAreUnknown) {
        return Decision::default();
    }
    if !node.silent() {
        let message = format!("Node {name} status is now: NodeNotReady");
        let about = About::new(("v1", "Node"), look.key, &node.uid, node.revision);
        let tale = Intent::Tell(EventDraft::normal(SOURCE, about, "NodeNotReady", message));
        return Decision::of(vec![unknown(name, node, now.wall), tale]);
    }
    let tale_of = |key: &Key, pod: &PodView| {
        EventDraft::warning(SOURCE, About::pod(key, pod), "NodeNotReady", "Node is not ready".to_owned())
    };
    let left = cluster.pods_on(name).filter(|(_, pod)| pod.ready == Some(true));
    let mut intents: Vec<Intent> = marked(cluster, name, node, now).into_iter().collect();
    intents.extend(out_of_service(cluster, name, node));
    intents.extend(left.flat_map(|(key, pod)| [not_ready(key, pod, now.wall), Intent::Tell(tale_of(key, pod))]));
    Decision::of(intents)
}

/// The uptime from which on its silence counts.
fn silent_at(cluster: &Cluster, name: &str, node: &NodeView) -> Duration {
    let first = if node.ready.is_empty() { STARTUP_GRACE } else { Duration::ZERO };
    cluster.settings.round_after(cluster.heard(name).unwrap_or_default() + cluster.settings.node_grace + first)
}

/// The next write that makes a node's labels, taints and annotations agree with its reported state. A single write at
/// a time: the write's event brings the next write.
fn marked(cluster: &Cluster, name: &str, node: &NodeView, now: Now) -> Option<Intent> {
    let mut object = document(&node.document);
    let many = cluster.nodes.len();
    let ttl = TTL_S.iter().find(|(nodes_max, _)| many <= *nodes_max).map_or(TTL_S_MAX, |(_, seconds)| seconds);
    let stands = object["metadata"]["annotations"][TTL].as_str();
    // Between two steps what stands stays: a node more or less must not write to all of them.
    let changed = if stands.is_none() {
        object["metadata"]["annotations"][TTL] = ttl.into();
        true
    } else {
        tainted(&mut object, node, cluster.holds(ControlRule::ReturningNodesAreOpen), now.wall)
            || mirrored(&mut object, node)
    };
    changed.then(|| Intent::Update { key: node_key(name), seen: node.revision, object })
}

/// New taints come before those that go, in two writes.
fn tainted(object: &mut Value, node: &NodeView, opens: bool, wall: Time) -> bool {
    let cordoned = node.unschedulable.then_some(UNSCHEDULABLE);
    let wanted: Vec<&str> = node.troubles.iter().copied().chain(cordoned).collect();
    let ours = |key: &str, effect: &str| effect == "NoSchedule" && OURS.contains(&key);
    let stand: Vec<&str> =
        node.taints.iter().filter(|one| ours(&one.key, &one.effect)).map(|one| one.key.as_str()).collect();
    let lacking: Vec<&str> = wanted.iter().copied().filter(|key| !stand.contains(key)).collect();
    if !lacking.is_empty() {
        add_taints(object, &lacking, "NoSchedule", wall);
    } else if opens && stand.iter().any(|key| !wanted.contains(key)) {
        remove_taints(object, |key, effect| ours(key, effect) && !wanted.contains(&key));
    } else {
        return false;
    }
    true
}

pub fn add_taints(node: &mut Value, keys: &[&str], effect: &str, wall: Time) {
    let taint = |key: &&str| json!({"key": key, "effect": effect, "timeAdded": wall.to_string()});
    match node["spec"]["taints"].as_array_mut() {
        Some(taints) => taints.extend(keys.iter().map(taint)),
        None => node["spec"]["taints"] = keys.iter().map(taint).collect(),
    }
}

pub fn remove_taints(node: &mut Value, goes: impl Fn(&str, &str) -> bool) {
    let Some(taints) = node["spec"]["taints"].as_array_mut() else { return };
    taints
        .retain(|taint| !goes(taint["key"].as_str().unwrap_or_default(), taint["effect"].as_str().unwrap_or_default()));
    if taints.is_empty()
        && let Some(spec) = node["spec"].as_object_mut()
    {
        spec.remove("taints");
    }
}

fn mirrored(object: &mut Value, node: &NodeView) -> bool {
    let mut changed = false;
    for (label, older) in MIRRORED {
        if let Some(value) = node.labels.get(label).filter(|value| node.labels.get(older) != Some(value)) {
            object["metadata"]["labels"][older] = value.as_str().into();
            changed = true;
        }
    }
    changed
}

/// The pods of a node that does not exist: no agent will stop the pods or report their end. The pods are given up if
/// the node does not register within `ABSENCE_MAX`.
fn orphans(cluster: &Cluster, name: &str, now: Now) -> Decision {
    // A node with an unreadable file still exists.
    if cluster.damaged.contains(&node_key(name)) || !cluster.holds(ControlRule::PodsOfLostNodesAreGivenUp) {
        return Decision::default();
    }
    let removed = cluster.removed_nodes.get(name).copied().unwrap_or_default();
    let (mut intents, mut wake_at) = (Vec::new(), None);
    for (key, pod) in cluster.pods_on(name).filter(|(_, pod)| !pod.ending) {
        let due = removed.max(pod.came) + ABSENCE_MAX;
        if now.uptime < due {
            wake_at = Some(wake_at.map_or(due, |wake: Duration| wake.min(due)));
        } else {
            intents.push(given_up(key, pod, now.wall));
        }
    }
    // The node's lease is deleted too, unless the lease was renewed within `ABSENCE_MAX`: a node may make and renew
    // its lease before it registers.
    let lease = Key { resource: LEASES, namespace: NODE_LEASES.to_owned(), name: name.to_owned() };
    if let Some(view) = cluster.get::<LeaseView>(&lease) {
        let due = removed.max(view.at) + ABSENCE_MAX;
        if now.uptime < due {
            wake_at = Some(wake_at.map_or(due, |wake: Duration| wake.min(due)));
        } else {
            intents.push(Intent::Delete { key: lease, seen: view.revision, at_once: true });
        }
    }
    Decision { wake_at, ..Decision::of(intents) }
}

/// A person marked a node as gone for good: its terminating pods are given up without waiting for the agent.
fn out_of_service(cluster: &Cluster, name: &str, node: &NodeView) -> Vec<Intent> {
    if node.ready == "True" || node.taints.iter().all(|taint| taint.key != OUT_OF_SERVICE) {
        return Vec::new();
    }
    let given_up = |(key, pod): (&Key, &PodView)| {
        if pod.terminal() {
            return Intent::Delete { key: key.clone(), seen: pod.revision, at_once: true };
        }
        let mut status = document(&pod.document)["status"].clone();
        status["phase"] = "Failed".into();
        status["observedGeneration"] = pod.generation.into();
        Intent::Status { key: key.clone(), seen: pod.revision, status }
    };
    cluster.pods_on(name).filter(|(_, pod)| pod.deleting && !(pod.ending && pod.terminal())).map(given_up).collect()
}

/// First it has failed, and says why; then it goes.
fn given_up(key: &Key, pod: &PodView, wall: Time) -> Intent {
    if pod.terminal() {
        return Intent::Delete { key: key.clone(), seen: pod.revision, at_once: true };
    }
    let mut status =
        doomed(&document(&pod.document), pod.generation, "DeletionByPodGC", "PodGC: node no longer exists", wall);
    status["phase"] = "Failed".into();
    Intent::Status { key: key.clone(), seen: pod.revision, status }
}

/// All that the node said about itself is in doubt. One that never said anything is not ready either.
fn unknown(name: &str, node: &NodeView, wall: Time) -> Intent {
    let document = document(&node.document);
    let mut status = if document["status"].is_object() { document["status"].clone() } else { json!({}) };
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    for kind in DOUBTED {
        let Some(condition) = conditions.iter_mut().find(|condition| condition["type"] == kind) else {
            conditions.push(json!({
                "type": kind, "status": "Unknown", "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": document["metadata"]["creationTimestamp"], "lastTransitionTime": wall.to_string(),
            }));
            continue;
        };
        if condition["status"] != "Unknown" {
            condition["status"] = "Unknown".into();
            condition["reason"] = "NodeStatusUnknown".into();
            condition["message"] = "Kubelet stopped posting node status.".into();
            condition["lastTransitionTime"] = wall.to_string().into();
        }
    }
    status["conditions"] = conditions.into();
    Intent::Status { key: node_key(name), seen: node.revision, status }
}

/// Marks a pod of a silent node as not ready. The rest of the pod's reported status stays.
fn not_ready(key: &Key, pod: &PodView, wall: Time) -> Intent {
    let document = document(&pod.document);
    let mut status = document["status"].clone();
    for condition in
        status["conditions"].as_array_mut().into_iter().flatten().filter(|condition| condition["type"] == "Ready")
    {
        condition["status"] = "False".into();
        condition["lastTransitionTime"] = wall.to_string().into();
    }
    Intent::Status { key: key.clone(), seen: pod.revision, status }
}

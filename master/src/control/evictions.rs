//! Pods leave nodes with NoExecute taints that they do not tolerate, or tolerate for some time only. PURE.
//!
//! Time is uptime. A timer that runs is not changed by a further taint; after a restart of the master all of them begin
//! anew, so a pod stays rather too long than too short.

use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{About, Decision, EventDraft, Intent, Memo};
use super::rules::ControlRule;
use super::view::{NodeView, PodView, document, node_key, read};
use coracle_api::meta::{Key, Revision, Time};
use coracle_api::node::Taint;
use coracle_api::placement::tolerates;
use coracle_api::pod::Pod;
use coracle_api::strategy::eviction;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const SOURCE: &str = "taint-eviction-controller";
/// A toleration that says for longer is for ever.
const TOLERATED_MAX: Duration = Duration::from_secs(u32::MAX as u64);

/// By the uid of the pod.
type Timers = BTreeMap<String, Timer>;

#[derive(Clone)]
struct Timer {
    /// Namespace and name of the pod.
    pod: (String, String),
    at: Duration,
    fired: bool,
}

pub fn all(cluster: &Cluster) -> Vec<Key> {
    cluster.nodes.iter().filter(|(_, node)| node.expelling().next().is_some()).map(|(name, _)| node_key(name)).collect()
}

pub fn by_node(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let expelling = |node: Option<&NodeView>| {
        node.map(|node| node.expelling().cloned().collect::<Vec<Taint>>()).unwrap_or_default()
    };
    let (was, is) = (expelling(change.was::<NodeView>()), expelling(cluster.nodes.get(&change.key.name)));
    if was == is { Vec::new() } else { vec![change.key.clone()] }
}

/// The tainted node that a pod is on, or was.
pub fn by_pod(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let tainted = |pod: &&PodView| cluster.nodes.get(&pod.node).is_none_or(|node| node.expelling().next().is_some());
    change.pods(cluster).filter(|pod| !pod.node.is_empty()).filter(tainted).map(|pod| node_key(&pod.node)).collect()
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, name, now) = (look.cluster, look.key.name.as_str(), look.now);
    let mut timers: Timers = look.remembered();
    let mut intents = cancelled(cluster, name, &mut timers);
    // The timers of a node that is gone run on.
    if let Some(node) = cluster.nodes.get(name) {
        for (key, pod) in cluster.pods_on(name) {
            let forgives = cluster.holds(ControlRule::PodsOfReturningNodesStay) || node.expelling().next().is_some();
            intents.extend(forgives.then(|| timed(node, key, pod, &mut timers, now.uptime)).flatten());
        }
    }
    let mut wake_at: Option<Duration> = None;
    for (key, pod) in cluster.pods_on(name) {
        let Some(timer) = timers.get_mut(&pod.uid) else { continue };
        if timer.at > now.uptime {
            wake_at = Some(wake_at.map_or(timer.at, |wake| wake.min(timer.at)));
        } else if !pod.deleting && cluster.holds(ControlRule::SilentNodesLoseTheirPods) {
            timer.fired = true;
            intents.extend(evicted(key, pod, now.wall));
        }
    }
    let memo = (!timers.is_empty()).then(|| Memo::of(timers));
    Decision { wake_at, memo, ..Decision::of(intents) }
}

/// Removes the timers of pods that are no longer on the node. Returns an event for each timer that had not fired.
fn cancelled(cluster: &Cluster, node: &str, timers: &mut Timers) -> Vec<Intent> {
    let here: BTreeMap<&str, ()> = cluster.pods_on(node).map(|(_, pod)| (pod.uid.as_str(), ())).collect();
    let mut intents = Vec::new();
    timers.retain(|uid, timer| {
        let stays = here.contains_key(uid.as_str());
        if !stays && !timer.fired {
            intents.push(cancelling(&timer.pod));
        }
        stays
    });
    intents
}

/// Sets the timer of a pod, or takes it away.
fn timed(node: &NodeView, key: &Key, pod: &PodView, timers: &mut Timers, uptime: Duration) -> Option<Intent> {
    let name = || (key.namespace.clone(), key.name.clone());
    let standing = timers.get(&pod.uid);
    let running = standing.is_some_and(|timer| !timer.fired);
    let patience = if node.expelling().next().is_none() { None } else { patience(node, pod) };
    match patience {
        None => timers.remove(&pod.uid).filter(|_| running).map(|timer| cancelling(&timer.pod)),
        // A timer that would end at once is no other than an order to go.
        Some(Duration::ZERO) if standing.is_none_or(|timer| timer.at > uptime) => {
            timers.insert(pod.uid.clone(), Timer { pod: name(), at: uptime, fired: false });
            running.then(|| cancelling(&name()))
        }
        Some(patience) if standing.is_none() => {
            timers.insert(pod.uid.clone(), Timer { pod: name(), at: uptime + patience, fired: false });
            None
        }
        Some(_) => None,
    }
}

/// How long the pod bears all the taints of the node. `None`: for ever.
fn patience(node: &NodeView, pod: &PodView) -> Option<Duration> {
    let tolerations = read::<Pod>(&pod.document).map(|pod| pod.spec.tolerations).unwrap_or_default();
    let mut shortest = None;
    for taint in node.expelling() {
        let Some(bearing) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
            return Some(Duration::ZERO);
        };
        if let Some(seconds) = bearing.toleration_seconds {
            let time = Duration::from_secs(u64::try_from(seconds).unwrap_or_default()).min(TOLERATED_MAX);
            shortest = Some(shortest.map_or(time, |shortest: Duration| shortest.min(time)));
        }
    }
    shortest
}

/// It says why it goes.
fn evicted(key: &Key, pod: &PodView, wall: Time) -> [Intent; 2] {
    let status = doomed(
        &document(&pod.document),
        pod.generation,
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
        wall,
    );
    let about = About { uid: String::new(), revision: Revision(0), ..About::pod(key, pod) };
    let message = format!("Marking for deletion Pod {}/{}", key.namespace, key.name);
    let tale = EventDraft::normal(SOURCE, about, "TaintManagerEviction", message);
    [Intent::Disrupt { key: key.clone(), seen: pod.revision, status }, Intent::Tell(tale)]
}

/// The status of a pod that is to be disrupted.
pub fn doomed(pod: &Value, generation: i64, reason: &str, message: &str, wall: Time) -> Value {
    let mut status = if pod["status"].is_object() { pod["status"].clone() } else { json!({}) };
    let mut condition = json!({
        "type": eviction::DISRUPTED, "status": "True", "reason": reason, "message": message, "lastProbeTime": null,
        "lastTransitionTime": wall.to_string(),
    });
    if generation > 0 {
        condition["observedGeneration"] = generation.into();
    }
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    match conditions.iter_mut().find(|one| one["type"] == eviction::DISRUPTED) {
        Some(stands) => *stands = condition,
        None => conditions.push(condition),
    }
    status["conditions"] = conditions.into();
    status
}

fn cancelling((namespace, name): &(String, String)) -> Intent {
    let key = Key { resource: super::view::PODS, namespace: namespace.clone(), name: name.clone() };
    let about = About::new(("v1", "Pod"), &key, "", Revision(0));
    let message = format!("Cancelling deletion of Pod {namespace}/{name}");
    Intent::Announce(EventDraft::normal(SOURCE, about, "TaintManagerEviction", message))
}

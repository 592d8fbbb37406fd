//! The taints that make running pods leave nodes which are not well, put there with restraint; and which nodes there
//! are. PURE.
//!
//! Where many nodes fail at once it is rather the network that has failed: in each zone one node is given up every ten
//! seconds, fewer or none where most of a large or small zone are down, and none at all where every node is down: then
//! nobody knows better.

use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{About, Decision, EventDraft, Intent, Memo};
use super::nodes::{add_taints, remove_taints};
use super::view::{NODES, NOT_READY, NodeView, UNREACHABLE, document, node_key};
use coracle_api::meta::{Key, Revision};
use std::collections::BTreeMap;
use std::time::Duration;

/// Between two nodes of a zone.
const PACE: Duration = Duration::from_secs(10);
/// The same in a large zone most of whose nodes are down.
const PACE_IN_TROUBLE: Duration = Duration::from_secs(100);
/// A zone with more nodes is large.
const LARGE: usize = 50;
/// Nodes that must be down at least, and their share in hundredths, for a zone to be in trouble.
const DOWN_MIN: usize = 3;
const DOWN_SHARE: usize = 55;
/// Nodes with this label do not count.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
const SOURCE: &str = "node-controller";

#[derive(Clone, Default)]
struct Memory {
    /// By name: the uids of the nodes that events have reported.
    known: BTreeMap<String, String>,
    /// When the next node of a zone may be given up.
    next: BTreeMap<String, Duration>,
    /// When to do what there is to do.
    due: Option<Duration>,
    /// When to tell of nodes that have come and gone: one that is made anew at once is none.
    news_due: Option<Duration>,
}

/// The controller's only key: all nodes together.
pub fn key() -> Key {
    Key { resource: NODES, namespace: String::new(), name: String::new() }
}

pub fn all(_: &Cluster) -> Vec<Key> {
    vec![key()]
}

/// Only what is decided by: a heartbeat is nothing new.
pub fn by_node(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let (was, is) = (change.was::<NodeView>(), cluster.nodes.get(&change.key.name));
    let same = matches!((was, is), (Some(was), Some(is))
        if was.uid == is.uid && was.ready == is.ready && was.taints == is.taints && was.labels == is.labels);
    if same { Vec::new() } else { vec![key()] }
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, now) = (look.cluster, look.now);
    let mut memory: Memory = look.remembered();
    let (mut intents, mut wake_at) = news(cluster, &mut memory, now.uptime);
    let work = work(cluster, &memory.next);
    if work.is_empty() {
        memory.due = None;
    } else {
        // Halfway after the next round: nodes that fell silent together, but on two sides of a round's beginning, are
        // seen together.
        let due =
            *memory.due.get_or_insert(cluster.settings.round_after(now.uptime) + cluster.settings.node_round() / 2);
        if now.uptime < due {
            wake_at = Some(wake_at.map_or(due, |wake: Duration| wake.min(due)));
        } else {
            for Work { name, zone, node, task, at } in work {
                if at > now.uptime
                    || (task == Task::GiveUp && memory.next.get(&zone).is_some_and(|next| *next > now.uptime))
                {
                    let at = memory.next.get(&zone).copied().unwrap_or(at).max(at);
                    wake_at = Some(wake_at.map_or(at, |wake: Duration| wake.min(at)));
                    continue;
                }
                if task == Task::GiveUp {
                    memory.next.insert(zone.clone(), now.uptime + pace(cluster, &zone));
                }
                intents.push(carried_out(name, node, task, now.wall));
            }
            memory.next.retain(|_, next| *next > now.uptime);
            memory.due = memory.due.filter(|_| wake_at.is_some());
        }
    }
    Decision { wake_at, memo: Some(Memo::of(memory)), ..Decision::of(intents) }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Task {
    /// It is well again, or all are down.
    Spare,
    /// The node needs a different taint now.
    Swap,
    GiveUp,
}

struct Work<'a> {
    name: &'a str,
    zone: String,
    node: &'a NodeView,
    task: Task,
    /// Not before.
    at: Duration,
}

/// What is to be done about each node.
fn work<'a>(cluster: &'a Cluster, next: &BTreeMap<String, Duration>) -> Vec<Work<'a>> {
    let counted = || cluster.nodes.values().filter(|node| !node.labels.contains_key(EXCLUDED));
    let all_down = counted().next().is_some() && counted().all(|node| node.ready != "True");
    let mut work = Vec::new();
    for (name, node) in &cluster.nodes {
        let has = |key: &str| node.expelling().any(|taint| taint.key == key);
        let (not_ready, unreachable) = (has(NOT_READY), has(UNREACHABLE));
        let task = match node.ready.as_str() {
            _ if all_down && (not_ready || unreachable) => Task::Spare,
            "True" if not_ready || unreachable => Task::Spare,
            "False" if unreachable => Task::Swap,
            "Unknown" if not_ready => Task::Swap,
            "False" if !not_ready && !all_down => Task::GiveUp,
            "Unknown" if !unreachable && !all_down => Task::GiveUp,
            _ => continue,
        };
        let zone = node.zone();
        if task == Task::GiveUp && pace(cluster, &zone) == Duration::MAX {
            continue;
        }
        let at = if task == Task::GiveUp { next.get(&zone).copied().unwrap_or_default() } else { Duration::ZERO };
        work.push(Work { name, zone, node, task, at });
    }
    work
}

/// Time between two nodes of a zone that are given up; the longest there is: none are.
fn pace(cluster: &Cluster, zone: &str) -> Duration {
    let of_zone = || cluster.nodes.values().filter(|node| !node.labels.contains_key(EXCLUDED) && node.zone() == zone);
    let (all, down) = (of_zone().count(), of_zone().filter(|node| node.ready != "True").count());
    let in_trouble = down < all && down >= DOWN_MIN && down * 100 >= all * DOWN_SHARE;
    match in_trouble {
        false => PACE,
        true if all > LARGE => PACE_IN_TROUBLE,
        true => Duration::MAX,
    }
}

/// One write; the next look sees to what is left.
fn carried_out(name: &str, node: &NodeView, task: Task, wall: coracle_api::meta::Time) -> Intent {
    let mut object = document(&node.document);
    let wanted = if node.ready == "False" { NOT_READY } else { UNREACHABLE };
    let stands = |key: &str| node.expelling().any(|taint| taint.key == key);
    match task {
        Task::GiveUp => add_taints(&mut object, &[wanted], "NoExecute", wall),
        Task::Swap if !stands(wanted) => add_taints(&mut object, &[wanted], "NoExecute", wall),
        Task::Swap => remove_taints(&mut object, |key, effect| {
            effect == "NoExecute" && [NOT_READY, UNREACHABLE].contains(&key) && key != wanted
        }),
        Task::Spare => {
            remove_taints(&mut object, |key, effect| effect == "NoExecute" && [NOT_READY, UNREACHABLE].contains(&key))
        }
    }
    Intent::Update { key: node_key(name), seen: node.revision, object }
}

/// Tells of nodes that have come and gone, at the next round; and when that is.
fn news(cluster: &Cluster, memory: &mut Memory, uptime: Duration) -> (Vec<Intent>, Option<Duration>) {
    let stays = |name: &String| cluster.nodes.contains_key(name) || cluster.damaged.contains(&node_key(name));
    if cluster.nodes.keys().all(|name| memory.known.contains_key(name)) && memory.known.keys().all(stays) {
        memory.news_due = None;
        return (Vec::new(), None);
    }
    let due = *memory.news_due.get_or_insert(cluster.settings.round_after(uptime));
    if uptime < due {
        return (Vec::new(), Some(due));
    }
    memory.news_due = None;
    let tale = |name: &str, uid: &str, reason: &'static str, what: String| {
        let about = About::new(("v1", "Node"), &node_key(name), uid, Revision(0));
        Intent::Announce(EventDraft::normal(SOURCE, about, reason, format!("Node {name} event: {what}")))
    };
    let mut intents = Vec::new();
    for (name, node) in &cluster.nodes {
        if memory.known.insert(name.clone(), node.uid.clone()).is_none() {
            intents.push(tale(name, &node.uid, "RegisteredNode", format!("Registered Node {name} in Controller")));
        }
    }
    memory.known.retain(|name, uid| {
        if !stays(name) {
            intents.push(tale(name, uid, "RemovingNode", format!("Removing Node {name} from Controller")));
        }
        stays(name)
    });
    (intents, None)
}

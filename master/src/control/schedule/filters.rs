//! Which nodes take a pod, and why the others do not: the first filter that says no gives the only reasons of a node.
//! PURE.

use super::super::rules::ControlRule;
use super::ask::{Ask, list};
use super::rebuff::{Filter, HARD, Rebuff};
use super::relations::Near;
use super::spread::Evenness;
use super::volumes::Needs;
use super::world::{Room, World};
use coracle_api::placement::{suits, untolerated};
use std::collections::BTreeSet;

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// What is worked out once for all nodes.
pub struct Cycle<'a> {
    pub near: Near,
    pub evenness: Evenness,
    pub needs: &'a Needs<'a>,
}

impl<'a> Cycle<'a> {
    pub fn of<'w>(world: &World<'w>, ask: &Ask<'w>, needs: &'a Needs<'a>) -> Cycle<'a> {
        Cycle { near: Near::of(world, ask), evenness: Evenness::of(world, ask), needs }
    }
}

/// `None`: it takes the pod.
pub fn refuses(world: &World<'_>, at: usize, ask: &Ask<'_>, cycle: &Cycle<'_>) -> Option<Rebuff> {
    let room = &world.rooms[at];
    stands_open(world, room, ask)
        .or_else(|| ports(world, room, ask))
        .or_else(|| resources(room, ask).filter(|_| world.cluster.holds(ControlRule::RoomIsCounted)))
        .or_else(|| cycle.needs.refuses(world, room, ask))
        .or_else(|| cycle.evenness.refuses(room.node, ask))
        .or_else(|| cycle.near.refuses(room.node, ask).filter(|_| world.cluster.holds(ControlRule::PodsStandApart)))
}

/// Filters by the node's own state.
fn stands_open(world: &World<'_>, room: &Room<'_>, ask: &Ask<'_>) -> Option<Rebuff> {
    let node = room.node;
    let holds = |rule| world.cluster.holds(rule);
    // After a restart the master does not know a node's state until the node reports again. A node that stays silent
    // never reports its capacity.
    if node.ready.is_empty() || (node.ready == "Unknown" && node.pods_max.is_none()) {
        return Some(Rebuff::unresolvable(Filter::Taints, "node(s) were not ready"));
    }
    let cordon =
        coracle_api::node::Taint { key: UNSCHEDULABLE.into(), effect: "NoSchedule".into(), ..Default::default() };
    if holds(ControlRule::CordonsAreKept)
        && node.unschedulable
        && untolerated(&[cordon], &ask.tolerations, &HARD).is_some()
    {
        return Some(Rebuff::unresolvable(Filter::Cordon, "node(s) were unschedulable"));
    }
    if holds(ControlRule::TaintsAreKept) && untolerated(&node.taints, &ask.tolerations, &HARD).is_some() {
        return Some(Rebuff::unresolvable(Filter::Taints, "node(s) had untolerated taint(s)"));
    }
    if !suits(&ask.spec, room.name, &node.labels) {
        return Some(Rebuff::unresolvable(Filter::Affinity, "node(s) didn't match Pod's node affinity/selector"));
    }
    None
}

fn ports(world: &World<'_>, room: &Room<'_>, ask: &Ask<'_>) -> Option<Rebuff> {
    const TAKEN: &str = "node(s) didn't have free ports for the requested pod ports";
    if ask.pod.host_ports.iter().any(|port| room.is_balanced(port)) {
        return Some(Rebuff::unresolvable(Filter::Ports, TAKEN));
    }
    let taken = ask.pod.host_ports.iter().any(|port| room.has_port(world.cluster, port));
    taken.then(|| Rebuff::of(Filter::Ports, TAKEN))
}

fn resources(room: &Room<'_>, ask: &Ask<'_>) -> Option<Rebuff> {
    let (node, usage, pod) = (room.node, &room.usage, ask.pod);
    let mut refusal = Rebuff { filter: Filter::Resources, why: Vec::new(), unresolvable: false };
    if node.pods_max.is_some_and(|max| usage.pods >= max) {
        refusal.why.push("Too many pods".into());
    }
    let others = pod.others.iter().map(|(name, amount)| {
        let used = usage.others.get(name).copied().unwrap_or_default();
        (name.as_str(), *amount, used, node.other(name))
    });
    let first = [
        ("cpu", pod.cpu_milli, usage.cpu_milli, node.cpu_milli),
        ("memory", pod.memory_bytes, usage.memory_bytes, node.memory_bytes),
    ];
    for (name, asked, used, there) in first.into_iter().chain(others) {
        if asked > 0 && used.saturating_add(asked) > there {
            refusal.why.push(format!("Insufficient {name}").into());
            refusal.unresolvable |= asked > there;
        }
    }
    (!refusal.why.is_empty()).then_some(refusal)
}

/// Whether a node is looked at by a pod that names nodes in every term of its affinity. `None`: all are.
pub fn named(ask: &Ask<'_>) -> Option<BTreeSet<String>> {
    let required = &ask.spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"].as_array().filter(|terms| !terms.is_empty())?;
    let mut all = BTreeSet::new();
    for term in terms {
        let mut names: Option<BTreeSet<String>> = None;
        for field in list(&term["matchFields"]) {
            if field["key"] == "metadata.name" && field["operator"] == "In" {
                let said: BTreeSet<String> =
                    list(&field["values"]).iter().filter_map(|one| one.as_str()).map(str::to_owned).collect();
                names = Some(names.map_or(said.clone(), |names| names.intersection(&said).cloned().collect()));
            }
        }
        all.extend(names?);
    }
    Some(all)
}

//! Pods that are to be spread evenly over nodes and zones. PURE.

use super::super::view::{NodeView, ServiceView, selects};
use super::ask::{Ask, Spread};
use super::rebuff::{Filter, Rebuff, included};
use super::world::World;
use std::collections::{BTreeMap, BTreeSet};

const HOSTNAME: &str = "kubernetes.io/hostname";

/// How many pods that count stand where, for each hard constraint.
#[derive(Default)]
pub struct Evenness {
    counts: Vec<BTreeMap<String, i64>>,
}

impl Evenness {
    pub fn of<'a>(world: &World<'a>, ask: &Ask<'a>) -> Evenness {
        let hard: Vec<&Spread> = ask.spreads.iter().filter(|spread| spread.hard).collect();
        if hard.is_empty() {
            return Evenness::default();
        }
        let mut counts: Vec<BTreeMap<String, i64>> = hard.iter().map(|_| BTreeMap::new()).collect();
        // A node without all topology labels counts for no constraint.
        let has_all = |node: &NodeView| hard.iter().all(|spread| node.labels.contains_key(&spread.topology));
        let mut here: Vec<Vec<bool>> = Vec::new();
        for room in &world.rooms {
            let counted = |spread: &&Spread| {
                has_all(room.node) && included(room.node, room.name, ask, spread.honor_affinity, spread.honor_taints)
            };
            here.push(hard.iter().map(counted).collect());
            for ((spread, counts), counted) in hard.iter().zip(&mut counts).zip(here.last().into_iter().flatten()) {
                if *counted {
                    counts.entry(room.node.labels[&spread.topology].clone()).or_default();
                }
            }
        }
        for (nth, (spread, counts)) in hard.iter().zip(&mut counts).enumerate() {
            for at in world.counted(ask, spread).filter(|at| here[*at][nth]) {
                *counts.entry(world.rooms[at].node.labels[&spread.topology].clone()).or_default() += 1;
            }
        }
        Evenness { counts }
    }

    pub fn refuses(&self, node: &NodeView, ask: &Ask<'_>) -> Option<Rebuff> {
        for (spread, counts) in ask.spreads.iter().filter(|spread| spread.hard).zip(&self.counts) {
            let Some(value) = node.labels.get(&spread.topology) else {
                return Some(Rebuff::unresolvable(
                    Filter::Spread,
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                ));
            };
            let fewest =
                if counts.len() < spread.min_domains { 0 } else { counts.values().min().copied().unwrap_or_default() };
            let itself = i64::from(spread.counts(ask.pod.labels(), ask.pod.owner.as_ref()));
            let there = counts.get(value).copied().unwrap_or_default();
            if there + itself - fewest > spread.max_skew {
                return Some(Rebuff::of(Filter::Spread, "node(s) didn't match pod topology spread constraints"));
            }
        }
        None
    }
}

/// Scores of these nodes: higher where fewer counted pods are. `None`: no constraint applies.
pub fn scores<'a>(world: &World<'a>, ask: &Ask<'a>, fitting: &[usize]) -> Option<Vec<i64>> {
    let asks = !ask.spreads.is_empty();
    let usual = if asks { Vec::new() } else { usual(world, ask) };
    let soft: Vec<&Spread> = ask.spreads.iter().filter(|spread| !spread.hard).chain(&usual).collect();
    if soft.is_empty() {
        return None;
    }
    let lacks =
        |at: &usize| asks && soft.iter().any(|spread| !world.rooms[*at].node.labels.contains_key(&spread.topology));
    let ignored: BTreeSet<usize> = fitting.iter().copied().filter(lacks).collect();
    let value = |at: usize, spread: &Spread| world.rooms[at].node.labels.get(&spread.topology).cloned();
    let mut zones: Vec<BTreeMap<String, i64>> = soft.iter().map(|_| BTreeMap::new()).collect();
    for at in fitting.iter().filter(|at| !ignored.contains(at)) {
        for (spread, counts) in soft.iter().zip(&mut zones).filter(|(spread, _)| spread.topology != HOSTNAME) {
            counts.entry(value(*at, spread).unwrap_or_default()).or_default();
        }
    }
    let mut hosts: Vec<BTreeMap<usize, i64>> = soft.iter().map(|_| BTreeMap::new()).collect();
    for (nth, spread) in soft.iter().enumerate() {
        for at in world.counted(ask, spread) {
            let room = &world.rooms[at];
            if spread.topology == HOSTNAME {
                *hosts[nth].entry(at).or_default() += 1;
            } else if included(room.node, room.name, ask, spread.honor_affinity, spread.honor_taints)
                && let Some(count) = zones[nth].get_mut(&value(at, spread).unwrap_or_default())
            {
                *count += 1;
            }
        }
    }
    let places =
        |nth: usize| if soft[nth].topology == HOSTNAME { fitting.len() - ignored.len() } else { zones[nth].len() };
    let weights: Vec<f64> = (0..soft.len()).map(|nth| ((places(nth) + 2) as f64).ln()).collect();
    let raw = |at: &usize| {
        if ignored.contains(at) {
            return None;
        }
        let one = |(nth, spread): (usize, &&Spread)| {
            let Some(value) = value(*at, spread) else { return 0.0 };
            let count = if spread.topology == HOSTNAME { hosts[nth].get(at) } else { zones[nth].get(&value) };
            count.copied().unwrap_or_default() as f64 * weights[nth] + (spread.max_skew - 1) as f64
        };
        Some(soft.iter().enumerate().map(one).sum::<f64>().round() as i64)
    };
    let raw: Vec<Option<i64>> = fitting.iter().map(raw).collect();
    let (least, most) = (
        raw.iter().flatten().min().copied().unwrap_or_default(),
        raw.iter().flatten().max().copied().unwrap_or_default(),
    );
    let score = |raw: Option<i64>| match raw {
        None => 0,
        Some(_) if most == 0 => 100,
        Some(raw) => 100 * (most + least - raw) / most,
    };
    Some(raw.into_iter().map(score).collect())
}

/// The default for a pod without constraints: pods with the same services and owner are spread.
fn usual(world: &World<'_>, ask: &Ask<'_>) -> Vec<Spread> {
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    for (_, service) in world.cluster.selecting::<ServiceView>(&ask.key.namespace, ask.pod.labels().iter()) {
        if selects(&service.selector, ask.pod.labels()) {
            labels.extend(service.selector.clone());
        }
    }
    if labels.is_empty() && ask.group.is_none() {
        return Vec::new();
    }
    let labels: Vec<(String, String)> = labels.into_iter().collect();
    Spread::usual(&labels, ask.group.as_ref())
}

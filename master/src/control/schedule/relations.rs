//! Pods that want to be near other pods, or far from them. PURE.

use super::super::view::{NamespaceView, NodeView, namespace_key};
use super::ask::{Ask, Relations, Term};
use super::rebuff::{Filter, Rebuff};
use super::world::World;
use coracle_api::labels::LabelSet;
use std::collections::{BTreeMap, BTreeSet};

/// A node label and the label's value.
type TopologyDomain = (String, String);

/// The effect of placed pods on a pod without a node: affinity and anti-affinity.
#[derive(Default)]
pub struct Near {
    /// For each term that wants pods near: where pods are that all terms mean.
    wanted: Vec<BTreeSet<String>>,
    /// No pod matches the affinity terms yet, and the waiting pod matches its own terms.
    first_of_all: bool,
    /// For each term that wants pods far: where those are.
    unwanted: Vec<BTreeSet<String>>,
    /// Where pods are that want this one far.
    guarded: BTreeSet<TopologyDomain>,
}

impl Near {
    pub fn of(world: &World<'_>, ask: &Ask<'_>) -> Near {
        let mut near = Near::default();
        let own = &ask.key.namespace;
        let homes = Homes(world);
        let Relations { affinity, anti_affinity, .. } = &ask.relations;
        if !affinity.is_empty() || !anti_affinity.is_empty() {
            near.wanted = affinity.iter().map(|_| BTreeSet::new()).collect();
            near.unwanted = anti_affinity.iter().map(|_| BTreeSet::new()).collect();
            for (at, key, pod) in world.pods() {
                let (node, labels, home) = (world.rooms[at].node, pod.labels(), homes.labels(&key.namespace));
                let means = |term: &Term| term.means(own, &key.namespace, &home, labels);
                if !affinity.is_empty() && affinity.iter().all(means) {
                    note(affinity, node, &mut near.wanted, |_| true);
                }
                note(anti_affinity, node, &mut near.unwanted, means);
            }
            let home = homes.labels(own);
            let itself = affinity.iter().all(|term| term.means(own, own, &home, ask.pod.labels()));
            near.first_of_all = itself && near.wanted.iter().all(BTreeSet::is_empty);
        }
        let home = homes.labels(own);
        for (at, key, pod) in world.related() {
            for term in &world.relations(pod).anti_affinity {
                if term.means(&key.namespace, own, &home, ask.pod.labels())
                    && let Some(value) = world.rooms[at].node.labels.get(&term.topology)
                {
                    near.guarded.insert((term.topology.clone(), value.clone()));
                }
            }
        }
        near
    }

    pub fn refuses(&self, node: &NodeView, ask: &Ask<'_>) -> Option<Rebuff> {
        let relations = &ask.relations;
        let is_near = |(term, places): (&Term, &BTreeSet<String>)| {
            node.labels.get(&term.topology).is_some_and(|value| self.first_of_all || places.contains(value))
        };
        if !relations.affinity.iter().zip(&self.wanted).all(is_near) {
            return Some(Rebuff::unresolvable(Filter::Relations, "node(s) didn't match pod affinity rules"));
        }
        let is_by = |(term, places): (&Term, &BTreeSet<String>)| {
            node.labels.get(&term.topology).is_some_and(|value| places.contains(value))
        };
        if relations.anti_affinity.iter().zip(&self.unwanted).any(is_by) {
            return Some(Rebuff::of(Filter::Relations, "node(s) didn't match pod anti-affinity rules"));
        }
        let guarded = self.guarded.iter().any(|(label, value)| node.labels.get(label) == Some(value));
        guarded.then(|| Rebuff::of(Filter::Relations, "node(s) didn't satisfy existing pods anti-affinity rules"))
    }
}

fn note(terms: &[Term], node: &NodeView, places: &mut [BTreeSet<String>], means: impl Fn(&Term) -> bool) {
    for (term, places) in terms.iter().zip(places) {
        if let Some(value) = node.labels.get(&term.topology).filter(|_| means(term)) {
            places.insert(value.clone());
        }
    }
}

/// The labels of namespaces.
struct Homes<'w, 'a>(&'w World<'a>);

impl Homes<'_, '_> {
    fn labels(&self, namespace: &str) -> LabelSet {
        self.0
            .cluster
            .get::<NamespaceView>(&namespace_key(namespace))
            .map(|view| view.labels.clone())
            .unwrap_or_default()
    }
}

/// How much the pods that stand draw this one to a place, by label and value.
pub fn drawn(world: &World<'_>, ask: &Ask<'_>) -> BTreeMap<TopologyDomain, i64> {
    let mut drawn = BTreeMap::new();
    let own = &ask.key.namespace;
    let homes = Homes(world);
    let mut draw = |node: &NodeView, term: &Term, weight: i64| {
        if let Some(value) = node.labels.get(&term.topology) {
            *drawn.entry((term.topology.clone(), value.clone())).or_default() += weight;
        }
    };
    if !ask.relations.preferred.is_empty() {
        for (at, key, pod) in world.pods() {
            let home = homes.labels(&key.namespace);
            for (weight, term) in &ask.relations.preferred {
                if term.means(own, &key.namespace, &home, pod.labels()) {
                    draw(world.rooms[at].node, term, *weight);
                }
            }
        }
    }
    let home = homes.labels(own);
    for (at, key, pod) in world.related() {
        let relations = world.relations(pod);
        // Placed pods with a required affinity to this pod attract the pod a little.
        let preferred = relations.preferred.iter().map(|(weight, term)| (*weight, term));
        for (weight, term) in relations.affinity.iter().map(|term| (1, term)).chain(preferred) {
            if term.means(&key.namespace, own, &home, ask.pod.labels()) {
                draw(world.rooms[at].node, term, weight);
            }
        }
    }
    drawn
}

//! The scheduler: a node for each pod that has none, the most important first. PURE.
//!
//!     pods that wait -> Ask -> filters -> scores -> bound
//!                                  \-> preemption -> others leave, and it waits for them
//!
//! What is taken by pods placed in one look is counted along. A pod that found no place is looked at again when
//! something has happened that may help it: see `hints`.

mod ask;
mod filters;
mod hints;
mod preempt;
mod rebuff;
mod relations;
mod score;
mod spread;
mod volumes;
mod words;
mod world;

pub use ask::{claims, list};

use super::cluster::Cluster;
use super::controller::{Look, Now, ObservedChange};
use super::intent::{Decision, Intent, Memo};
use super::view::{PODS, PodView};
use ask::Ask;
use coracle_api::meta::Key;
use filters::Cycle;
use hints::Tried;
use preempt::{InVain, Sacrifice};
use rebuff::{Filter, Rebuff};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use volumes::{Grant, Needs};
use words::Words;
use world::World;

/// A pod that was refused again and again, or where there is no node at all, is not looked at again before this: nodes
/// that come and change together are one occasion.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The controller's only key: all pods without a node, which are looked at together.
pub fn key() -> Key {
    Key { resource: PODS, namespace: String::new(), name: String::new() }
}

pub fn all(_: &Cluster) -> Vec<Key> {
    vec![key()]
}

/// For changes that may matter to a waiting pod; most of the time no pod waits.
pub fn when_waiting(cluster: &Cluster, _: &ObservedChange<'_>) -> Vec<Key> {
    if cluster.pods_on("").next().is_some() { vec![key()] } else { Vec::new() }
}

/// By the uid of the pod.
type Memory = BTreeMap<String, Tried>;

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, now) = (look.cluster, look.now);
    let mut memory: Memory = look.remembered();
    let mut waiting: Vec<(&Key, &PodView)> = cluster.pods_on("").filter(|(_, pod)| waits(pod)).collect();
    let present: BTreeSet<&str> = waiting.iter().map(|(_, pod)| pod.uid.as_str()).collect();
    memory.retain(|uid, _| present.contains(uid.as_str()));
    let mut wake_at: Option<Duration> = None;
    waiting.retain(|(_, pod)| match memory.get_mut(&pod.uid) {
        None => true,
        Some(tried) => {
            let due = tried.due(cluster, pod);
            if due && now.uptime < tried.not_before {
                wake_at = Some(wake_at.map_or(tried.not_before, |wake| wake.min(tried.not_before)));
                return false;
            }
            due
        }
    });
    waiting.sort_by_key(|(key, pod)| {
        (std::cmp::Reverse(pod.priority), pod.created.map(|time| time.seconds()), pod.came, *key)
    });
    let mut intents = Vec::new();
    if !waiting.is_empty() {
        let mut round = Round {
            world: World::of(cluster),
            intents: Vec::new(),
            now,
            memory: &mut memory,
            granted: BTreeSet::new(),
        };
        waiting.into_iter().for_each(|(key, pod)| round.attempt(key, pod));
        intents = round.intents;
    }
    let memo = (!memory.is_empty()).then(|| Memo::of(memory));
    Decision { wake_at, memo, ..Decision::of(intents) }
}

fn waits(pod: &PodView) -> bool {
    pod.active() && pod.unbound.as_ref().is_some_and(|pod| pod.default_scheduler && !pod.gated)
}

/// A look at all waiting pods that are due.
struct Round<'a, 'm> {
    world: World<'a>,
    intents: Vec<Intent>,
    now: Now,
    memory: &'m mut Memory,
    /// Volumes that were given to claims in this look.
    granted: BTreeSet<Key>,
}

impl<'a> Round<'a, '_> {
    fn attempt(&mut self, key: &'a Key, pod: &'a PodView) {
        let cluster = self.world.cluster;
        let ask = Ask::of(key, pod);
        // Device claims are not supported: a pod with resourceClaims stays pending, like a pod whose claims do not
        // exist.
        if !list(&ask.spec["resourceClaims"]).is_empty() {
            self.memory.insert(pod.uid.clone(), Tried::now(cluster, pod, [Filter::None].into()));
            return;
        }
        if self.world.rooms.is_empty() {
            let tried = Tried::now(cluster, pod, [Filter::None].into()).not_before(self.now.uptime + AGAIN_AFTER);
            self.memory.insert(pod.uid.clone(), tried);
            self.tell(&ask, "no nodes available to schedule pods".to_owned(), None);
            return;
        }
        let needs = match Needs::of(&self.world, &ask) {
            Ok(needs) => needs,
            Err(why) => {
                self.memory.insert(pod.uid.clone(), Tried::now(cluster, pod, [Filter::Volumes].into()));
                let text = format!("0/{} nodes are available: {why}. not found", self.world.rooms.len());
                return self.tell(&ask, text, None);
            }
        };
        let said = self.said(&ask, &needs);
        let fitting: Vec<usize> = (0..said.len()).filter(|at| said[*at].is_none()).collect();
        if fitting.is_empty() {
            let said: Vec<Rebuff> = said.into_iter().flatten().collect();
            return self.refused(&ask, &needs, &said);
        }
        let nominated = pod.unbound.as_ref().and_then(|unbound| self.world.room(&unbound.nominated));
        let at =
            nominated.filter(|at| fitting.contains(at)).unwrap_or_else(|| score::best(&self.world, &ask, &fitting));
        self.place(&ask, &needs, at);
    }

    /// What each node says to the pod.
    fn said(&mut self, ask: &Ask<'a>, needs: &Needs<'_>) -> Vec<Option<Rebuff>> {
        if let Some(names) =
            filters::named(ask).filter(|names| !self.world.rooms.iter().any(|room| names.contains(room.name)))
        {
            debug_assert!(names.iter().all(|name| self.world.room(name).is_none()));
            let why = "node(s) didn't satisfy plugin(s) [NodeAffinity]";
            return vec![Some(Rebuff::unresolvable(Filter::Affinity, why)); self.world.rooms.len()];
        }
        let held = |(_, pod, _): &(&Key, &PodView, String)| pod.uid != ask.pod.uid && pod.priority >= ask.pod.priority;
        if self.world.nominated.iter().any(held) {
            return (0..self.world.rooms.len()).map(|at| preempt::fits(&mut self.world, at, ask, needs)).collect();
        }
        let cycle = Cycle::of(&self.world, ask, needs);
        (0..self.world.rooms.len()).map(|at| filters::refuses(&self.world, at, ask, &cycle)).collect()
    }

    fn place(&mut self, ask: &Ask<'a>, needs: &Needs<'_>, at: usize) {
        let node = self.world.rooms[at].name.to_owned();
        self.world.rooms[at].take(ask.key, ask.pod);
        self.world.nominated.retain(|(_, pod, _)| pod.uid != ask.pod.uid);
        let words = Words { now: self.now, ask };
        if needs.are_met() {
            self.memory.remove(&ask.pod.uid);
            self.intents.extend(words.bound(&node));
            return;
        }
        // The pod waits for its volumes on this node.
        self.memory.insert(ask.pod.uid.clone(), Tried::now(self.world.cluster, ask.pod, [Filter::Volumes].into()));
        self.intents.extend(words.nominated(&node));
        for grant in needs.grants(&self.world, &self.world.rooms[at]).unwrap_or_default() {
            if let Grant::Volume { volume, .. } = &grant
                && !self.granted.insert(volume.clone())
            {
                continue;
            }
            self.intents.extend(words.granted(self.world.cluster, &grant, &node));
        }
    }

    fn refused(&mut self, ask: &Ask<'a>, needs: &Needs<'_>, said: &[Rebuff]) {
        let by: BTreeSet<Filter> = said.iter().map(|refusal| refusal.filter).collect();
        let before = self.memory.get(&ask.pod.uid);
        let tried = Tried::now(self.world.cluster, ask.pod, by).refused(before, self.now.uptime, AGAIN_AFTER);
        self.memory.insert(ask.pod.uid.clone(), tried);
        let nodes = self.world.rooms.len();
        let short =
            format!("0/{nodes} nodes are available: {}.", counted(said.iter().flat_map(|refusal| refusal.why.clone())));
        let long = |why: String| format!("{short} no new claims to deallocate, preemption: {why}");
        match preempt::sacrifice(&mut self.world, ask, needs, said) {
            Ok(Sacrifice { at, victims, .. }) => {
                let node = self.world.rooms[at].name.to_owned();
                let words = Words { now: self.now, ask };
                for (key, pod) in victims.iter().filter(|(_, pod)| !pod.deleting) {
                    self.intents.extend(words.preempted(key, pod, &node));
                }
                self.tell(ask, short, Some(&node));
                self.world.nominated.retain(|(_, pod, _)| pod.uid != ask.pod.uid);
                self.world.nominated.push((ask.key, ask.pod, node));
            }
            Err(InVain::NotEligible(why)) => {
                let stands =
                    ask.pod.unbound.as_ref().map(|unbound| unbound.nominated.clone()).filter(|node| !node.is_empty());
                self.tell(ask, long(why.to_owned()), stands.as_deref());
            }
            Err(InVain::Nowhere(whys)) => {
                self.tell(ask, long(format!("0/{nodes} nodes are available: {}.", counted(whys))), None)
            }
        }
    }

    fn tell(&mut self, ask: &Ask<'_>, why: String, nominated: Option<&str>) {
        self.intents.extend(Words { now: self.now, ask }.waits(why, nominated.unwrap_or_default()));
    }
}

/// Each text once, with how often it was said, in the order of all that.
fn counted(texts: impl IntoIterator<Item = Cow<'static, str>>) -> String {
    let mut counts: BTreeMap<Cow<'static, str>, usize> = BTreeMap::new();
    texts.into_iter().for_each(|text| *counts.entry(text).or_default() += 1);
    let mut lines: Vec<String> = counts.into_iter().map(|(text, count)| format!("{count} {text}")).collect();
    lines.sort();
    lines.join(", ")
}

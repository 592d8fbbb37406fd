//! Preemption: chooses pods of lower priority that leave a node to a pod of higher priority. PURE.

use super::super::budgets::BudgetView;
use super::super::rules::ControlRule;
use super::super::view::{PodView, document};
use super::ask::{Ask, list};
use super::filters::{Cycle, refuses};
use super::rebuff::Rebuff;
use super::volumes::Needs;
use super::world::World;
use coracle_api::meta::{Key, Time};
use coracle_api::strategy::{eviction, label_selector};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

pub const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
pub const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
pub const REASON: &str = "PreemptionByScheduler";

/// Pods that leave a node.
pub struct Sacrifice<'a> {
    pub at: usize,
    /// The most important first.
    pub victims: Vec<(&'a Key, &'a PodView)>,
    /// How many of them a budget would spare.
    violations: usize,
}

/// Why no pods make room.
pub enum InVain {
    /// The pod may not preempt, or waits for pods that go already.
    NotEligible(&'static str),
    /// What each node says.
    Nowhere(Vec<Cow<'static, str>>),
}

/// Looks for a node on which others make room. `said`: why each node does not take the pod.
pub fn sacrifice<'a>(
    world: &mut World<'a>,
    ask: &Ask<'a>,
    needs: &Needs<'_>,
    said: &[Rebuff],
) -> Result<Sacrifice<'a>, InVain> {
    if ask.never_preempts || !world.cluster.holds(ControlRule::ImportantPodsGetRoom) {
        return Err(InVain::NotEligible("not eligible due to preemptionPolicy=Never."));
    }
    if waits_for_victims(world, ask, said) {
        return Err(InVain::NotEligible("not eligible due to a terminating pod on the nominated node."));
    }
    let mut nowhere: Vec<Cow<'static, str>> = Vec::new();
    let mut found: Vec<Sacrifice<'a>> = Vec::new();
    for (at, refusal) in said.iter().enumerate() {
        if refusal.unresolvable {
            nowhere.push(NOT_HELPFUL.into());
            continue;
        }
        match on_node(world, at, ask, needs) {
            Ok(sacrifice) => found.push(sacrifice),
            Err(why) => nowhere.extend(why),
        }
    }
    let best = found.into_iter().min_by_key(|sacrifice| {
        let top = sacrifice.victims.first().map_or(0, |(_, pod)| pod.priority);
        let sum: i64 = sacrifice.victims.iter().map(|(_, pod)| i64::from(pod.priority) + i64::from(i32::MAX) + 1).sum();
        let first = sacrifice
            .victims
            .iter()
            .filter(|(_, pod)| pod.priority == top)
            .map(|(_, pod)| started(pod))
            .min()
            .flatten();
        (sacrifice.violations, top, sum, sacrifice.victims.len(), Reverse(first))
    });
    best.ok_or(InVain::Nowhere(nowhere))
}

/// Whether pods that go for its sake are still on the node that it waits for.
fn waits_for_victims(world: &World<'_>, ask: &Ask<'_>, said: &[Rebuff]) -> bool {
    let nominated = ask.pod.unbound.as_ref().map(|unbound| unbound.nominated.as_str()).filter(|node| !node.is_empty());
    let Some(at) = nominated.and_then(|node| world.room(node)).filter(|at| !said[*at].unresolvable) else {
        return false;
    };
    let leaves = |pod: &PodView| {
        let conditions = &document(&pod.document)["status"]["conditions"];
        pod.deleting
            && list(conditions)
                .iter()
                .any(|one| one["type"] == eviction::DISRUPTED && one["status"] == "True" && one["reason"] == REASON)
    };
    world.rooms[at].pods(world.cluster).any(|(_, pod)| pod.priority < ask.pod.priority && leaves(pod))
}

fn started(pod: &PodView) -> Option<i64> {
    pod.started.or(pod.created).map(Time::seconds)
}

/// The fewest and least important pods of a node whose going helps.
fn on_node<'a>(
    world: &mut World<'a>,
    at: usize,
    ask: &Ask<'a>,
    needs: &Needs<'_>,
) -> Result<Sacrifice<'a>, Vec<Cow<'static, str>>> {
    let cluster = world.cluster;
    let mut lesser: Vec<(&Key, &PodView)> =
        world.rooms[at].pods(cluster).filter(|(_, pod)| pod.priority < ask.pod.priority).collect();
    if lesser.is_empty() {
        return Err(vec![NO_VICTIMS.into()]);
    }
    lesser.sort_by_key(|(key, pod)| (Reverse(pod.priority), started(pod).unwrap_or(i64::MAX), *key));
    lesser.iter().for_each(|(_, pod)| world.rooms[at].leave(pod));
    let refused = fits(world, at, ask, needs);
    let outcome = match refused {
        Some(refusal) => Err(refusal.why),
        None => Ok(reprieved(world, at, ask, needs, &lesser)),
    };
    // Restores the world: the spared pods are back already.
    let still = |victims: &[(&Key, &PodView)], uid: &str| victims.iter().any(|(_, pod)| pod.uid == uid);
    let away: &[(&Key, &PodView)] = match &outcome {
        Ok((victims, _)) => victims,
        Err(_) => &lesser,
    };
    let back: Vec<(&Key, &PodView)> = lesser.iter().copied().filter(|(_, pod)| still(away, &pod.uid)).collect();
    back.into_iter().for_each(|(key, pod)| world.rooms[at].take(key, pod));
    let (victims, violations) = outcome?;
    Ok(Sacrifice { at, victims, violations })
}

/// As many as possible stay, the important ones first, and before them those that a budget guards.
fn reprieved<'a>(
    world: &mut World<'a>,
    at: usize,
    ask: &Ask<'a>,
    needs: &Needs<'_>,
    lesser: &[(&'a Key, &'a PodView)],
) -> (Vec<(&'a Key, &'a PodView)>, usize) {
    let (guarded, free) = by_budgets(world, lesser);
    let (mut victims, mut violations) = (Vec::new(), 0);
    for (key, pod, is_guarded) in
        guarded.iter().map(|(key, pod)| (*key, *pod, true)).chain(free.iter().map(|(key, pod)| (*key, *pod, false)))
    {
        world.rooms[at].take(key, pod);
        if fits(world, at, ask, needs).is_some() {
            world.rooms[at].leave(pod);
            victims.push((key, pod));
            violations += usize::from(is_guarded);
        }
    }
    victims.sort_by_key(|(key, pod)| (Reverse(pod.priority), started(pod).unwrap_or(i64::MAX), *key));
    (victims, violations)
}

type Pods<'a> = Vec<(&'a Key, &'a PodView)>;

/// Those whose going a budget does not allow, and the others.
fn by_budgets<'a>(world: &World<'a>, pods: &[(&'a Key, &'a PodView)]) -> (Pods<'a>, Pods<'a>) {
    let mut left: BTreeMap<&'a Key, i64> = BTreeMap::new();
    let mut guarded = |key: &'a Key, pod: &'a PodView| {
        let mut violated = false;
        for (budget, view) in world.cluster.within::<BudgetView>(&key.namespace) {
            let document = document(&view.document);
            let selector = &document["spec"]["selector"];
            let guards = !label_selector::selects_all(selector)
                && label_selector::selects(selector, |label| pod.labels().get(label));
            if pod.labels().is_empty() || !guards || document["status"]["disruptedPods"][&key.name].is_string() {
                continue;
            }
            let allowed = left
                .entry(budget)
                .or_insert_with(|| document["status"]["disruptionsAllowed"].as_i64().unwrap_or_default());
            *allowed -= 1;
            violated |= *allowed < 0;
        }
        violated
    };
    pods.iter().copied().partition(|(key, pod)| guarded(key, pod))
}

/// Whether the node takes the pod now, also beside those more important ones that wait for it.
pub fn fits<'a>(world: &mut World<'a>, at: usize, ask: &Ask<'a>, needs: &Needs<'_>) -> Option<Rebuff> {
    let name = world.rooms[at].name;
    let before = |(_, pod, node): &&(&Key, &PodView, String)| {
        node == name && pod.priority >= ask.pod.priority && pod.uid != ask.pod.uid
    };
    let waiting: Vec<_> = world.nominated.iter().filter(before).map(|(key, pod, _)| (*key, *pod)).collect();
    waiting.iter().for_each(|(key, pod)| world.rooms[at].take(key, pod));
    let with = refuses(world, at, ask, &Cycle::of(world, ask, needs));
    waiting.iter().for_each(|(_, pod)| world.rooms[at].leave(pod));
    match with {
        None if !waiting.is_empty() => refuses(world, at, ask, &Cycle::of(world, ask, needs)),
        with => with,
    }
}

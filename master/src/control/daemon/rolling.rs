//! The rolling update of a DaemonSet. PURE.

use super::super::replicas::Pod;
use super::super::rules::ControlRule;
use super::daemons::Daemons;
use super::work::Work;
use serde_json::Value;

/// A number, or a share of a whole in percent, rounded up.
pub fn share(value: &Value, whole: i32) -> i32 {
    super::super::deployment::share(value, whole, true)
}

/// The pods of a node: with the present template, and with an earlier template.
struct Pair<'c> {
    new: Option<Pod<'c>>,
    old: Option<Pod<'c>>,
}

/// `None`: there are too many, which is put right first.
fn pair<'c>(daemons: &Daemons<'c>, pods: &[Pod<'c>]) -> Option<Pair<'c>> {
    let of = |new: bool| {
        let mut all = pods.iter().copied().filter(|pod| !pod.1.deleting && daemons.is_new(*pod) == new);
        let first = all.next();
        all.next().is_none().then_some(first)
    };
    Some(Pair { new: of(true)?, old: of(false)? })
}

pub fn work<'c>(daemons: &Daemons<'c>, work: &mut Work<'c>) {
    let desired = daemons.desired();
    let surge = share(&daemons.set.surge, desired);
    let unavailable = share(&daemons.set.unavailable, desired);
    // A pod whose state is lost may be missing already: no pod is rolled.
    if daemons.pods.values().flatten().any(|(_, pod)| pod.untold()) {
        return;
    }
    if surge > 0 {
        return with_surge(daemons, (surge, desired), work);
    }
    let unavailable = if desired > 0 && unavailable == 0 { 1 } else { unavailable };
    without_surge(daemons, unavailable, work);
}

/// The nodes with a pod, and the nodes that need a pod.
fn nodes<'a>(daemons: &'a Daemons<'_>) -> impl Iterator<Item = &'a String> {
    let lacking = daemons.cluster.nodes.iter();
    let lacking =
        lacking.filter(|(name, node)| !daemons.pods.contains_key(*name) && daemons.placing.of(name, node).should_run);
    daemons.pods.keys().chain(lacking.map(|(name, _)| name))
}

/// Deletes unavailable old pods in any case, and available old pods as long as maxUnavailable permits.
fn without_surge<'c>(daemons: &Daemons<'c>, unavailable_max: i32, work: &mut Work<'c>) {
    let mut missing = 0;
    let (mut bad, mut good) = (Vec::new(), Vec::new());
    for node in nodes(daemons) {
        match pair(daemons, daemons.on(node)) {
            Some(Pair { new: Some(new), old: None }) => missing += i32::from(!daemons.available(new)),
            Some(Pair { new: None, old: Some(old) }) if !daemons.available(old) => {
                bad.push(old);
                missing += 1;
            }
            Some(Pair { new: None, old: Some(old) }) => good.push(old),
            _ => missing += 1,
        }
    }
    let spare =
        if daemons.cluster.holds(ControlRule::DaemonsStayAvailable) { unavailable_max - missing } else { i32::MAX };
    let spare = usize::try_from(spare).unwrap_or_default();
    work.delete.extend(bad);
    work.delete.extend(good.into_iter().take(spare));
}

/// A new pod beside the old one, which goes when the new one is available.
fn with_surge<'c>(daemons: &Daemons<'c>, (surge_max, desired): (i32, i32), work: &mut Work<'c>) {
    let (mut surge, mut available) = (0, 0);
    let (mut candidates, mut allowed, mut misplaced) = (Vec::new(), Vec::new(), Vec::new());
    for node in nodes(daemons) {
        let Some(pair) = pair(daemons, daemons.on(node)) else {
            surge += 1;
            continue;
        };
        available += i32::from(pair.old.or(pair.new).is_some_and(|pod| daemons.available(pod)));
        let should_run = daemons.cluster.nodes.get(node).is_some_and(|view| daemons.placing.of(node, view).should_run);
        match (pair.old, pair.new) {
            (None, _) => {}
            (Some(old), None) => match (daemons.available(old), should_run) {
                (false, false) => work.delete.push(old),
                (false, true) => allowed.push(node.clone()),
                (true, false) => misplaced.push(old),
                (true, true) => candidates.push(node.clone()),
            },
            (Some(old), Some(new)) if daemons.available(new) => work.delete.push(old),
            (Some(_), Some(_)) => surge += 1,
        }
    }
    let count = |number: i32| usize::try_from(number).unwrap_or_default();
    work.delete.extend(misplaced.into_iter().take(count(available - desired)));
    work.create.extend(allowed);
    work.create.extend(candidates.into_iter().take(count(surge_max - surge)));
}

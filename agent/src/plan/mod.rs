//! Compares the wanted state with the state of the host, and lists the actions. PURE.
//!
//! `world` is all that a decision may look at, `round` what comes of it, `waiting` what stands in the way. `seen` reads
//! the listing into pods, `ports` says who may have which port of the host, `admission` whether a pod is taken, `pods`
//! decides over one pod (its sandbox in `sandbox`, what its volumes hold in `contents`, its containers in `containers`
//! and their turns in `order`, with `images` and `backoff`), `stops` ends what has to end, `garbage` clears up,
//! `leftovers` ends pods that nobody wants, `renewal` tells when all containers of a pod start anew and `anew` does it,
//! `restart` is the request of a person for that,
//! `strain` says what a host without memory or disk does, `again` what becomes of what somebody starts again. `memory`
//! is what the loop saw itself and the engine does not tell. `paused` unpauses containers.

pub mod admission;
pub mod allocation;
mod anew;
pub mod case;
pub mod containers;
pub mod contents;
pub mod garbage;
pub mod images;
pub mod leftovers;
pub mod order;
mod paused;
pub mod pods;
pub mod renewal;
pub mod resize;
pub mod restart;
pub mod rules;
pub mod sandbox;
pub mod stops;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::facts::desired::Desired;
use crate::facts::members::MemberKind;
use crate::facts::round::{PodPlan, Round};
use crate::facts::wanted::Wanted;
use crate::facts::{ports, seen};
pub use case::Case;
pub use rules::{Rule, Rules};

pub fn plan(case: Case<'_>) -> Round {
    let pods = seen::group(&case.world.containers);
    let mut ports = ports::TakenPorts::held(&pods);
    let mut room = admission::NodeCapacity::of(case, |uid| pods.contains_key(uid));
    let mut round = Round::default();
    paused::go_on(case, &pods, &mut round);
    let nothing = Vec::new();
    for wanted in in_order(case.desired) {
        let uid = &wanted.name.uid;
        let runs = pods.get(uid).map_or(&nothing, |pod| &pod.runs);
        let left = pods.iter().filter(|(uid, _)| !case.desired.pods.contains_key(*uid)).map(|(_, pod)| pod);
        let mut part = match leftovers::earlier_of_file(wanted, runs, left) {
            Some(waiting) => PodPlan::waiting(waiting),
            None => pods::decide(case, wanted, runs, &mut ports, &mut room),
        };
        hold_if_busy(case, &mut round, uid, runs, &mut part);
        round.add(uid, part);
    }
    for (uid, pod) in pods.iter().filter(|(uid, _)| !case.desired.pods.contains_key(*uid)) {
        let mut part = leftovers::leftover_pod(case, pod);
        hold_if_busy(case, &mut round, uid, &pod.runs, &mut part);
        round.add(uid, part);
    }
    for uid in &case.world.volumes {
        if !pods.contains_key(uid) && !case.desired.pods.contains_key(uid) && !case.world.busy.contains(uid) {
            round.add(uid, leftovers::leftover_volumes(case, uid));
        }
    }
    round
}

/// A pod with an action in flight gets no second one. What the first waits for may have to give way.
fn hold_if_busy(case: Case<'_>, round: &mut Round, uid: &str, runs: &[seen::Run<'_>], part: &mut PodPlan) {
    if case.world.busy.contains(uid) && case.rules.hold(Rule::BusyPodsWait) {
        if case.rules.hold(Rule::HooksGiveWay) {
            round.hooks_given_up.extend(stops::hooks_in_the_way(case, runs, &part.actions));
        }
        part.actions.clear();
        part.pulls.clear();
    }
}

/// The images that `plan` will ask about: the images of containers that will be started.
pub fn images_needed(case: Case<'_>) -> BTreeSet<String> {
    let pods = seen::group(&case.world.containers);
    let nothing = Vec::new();
    let mut needed = BTreeSet::new();
    for (uid, wanted) in &case.desired.pods {
        let runs = pods.get(uid).map_or(&nothing, |pod| &pod.runs);
        let waits = wanted.members().filter(|member| {
            let mut own = seen::of(runs, &member.spec.name);
            match member.kind {
                // One that starts once and has been made needs its image no more.
                MemberKind::Ephemeral => own.next().is_none(),
                MemberKind::Init if order::is_initialized(wanted, runs, case.world.restart(uid)) => false,
                _ => !own.any(|run| run.seen.lives()),
            }
        });
        // An engine is not asked about what can be no name: one answers `a//b` with a redirection.
        for member in waits.filter(|member| images::is_reference(&member.spec.image)) {
            needed.insert(member.spec.image.clone());
            needed.extend(images::pinned(case, wanted, member.spec).map(str::to_owned));
        }
    }
    needed
}

/// Earlier pods first: if two pods want the same port, the earlier pod gets the port. Pods of files have no time and
/// come first.
fn in_order(desired: &Desired) -> Vec<&Wanted> {
    let mut pods: Vec<&Wanted> = desired.pods.values().map(Arc::as_ref).collect();
    pods.sort_by_key(|wanted| (wanted.pod.metadata.creation_timestamp, &wanted.name));
    pods
}

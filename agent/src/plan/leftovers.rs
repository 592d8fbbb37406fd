//! Pods that no source lists, and volumes without a pod: they are ended and removed. PURE.

use super::round::{ActionKind, PodPlan, StopReason};
use super::rules::Rule;
use super::seen::{self, PodSeen, Run};
use super::world::Case;
use super::{garbage, pods};
use crate::naming::SANDBOX;
use crate::runtime::State;

/// A pod that no source lists: stopped and removed with all that it had, if its source is known not to want it.
pub fn leftover_pod(case: Case<'_>, pod: &PodSeen<'_>) -> PodPlan {
    let mut part = PodPlan::default();
    let gone = case.desired.is_gone(&pod.name) || !case.rules.hold(Rule::UnknownIsNotAbsent);
    if !gone || !case.rules.hold(Rule::GonePodsEnd) || pods::rests(case, &mut part, &pod.name.uid) {
        return part;
    }
    // Whether it shares the host's network stands in its manifest alone, which is gone.
    let address = seen::address(&pod.runs, false, &case.world.node.address).unwrap_or_default();
    if pods::end(case, &mut part, &pod.runs, address, None, StopReason::PodUnwanted)
        && case.rules.hold(Rule::VolumesGoLast)
    {
        return part;
    }
    let members: Vec<&Run> = seen::members(&pod.runs).collect();
    let sandboxes: Vec<&Run> = seen::of(&pod.runs, SANDBOX).collect();
    let reason = StopReason::PodUnwanted.to_string();
    let reason = reason.as_str();
    garbage::remove(case, &mut part, &members, reason);
    // The dead sandbox says whose the volumes are, so it goes last; but not where it mounts them itself, or may have
    // begun since the listing: the engine removes none that runs.
    let may_run = |run: &&Run| matches!(run.seen.state, State::Created { refused: None });
    let sandbox_first = sandboxes.iter().any(|run| run.tag.holds_volumes || may_run(run));
    if sandbox_first {
        garbage::remove(case, &mut part, &sandboxes, reason);
    }
    if case.world.volumes.contains(&pod.name.uid) {
        part.act(ActionKind::RemoveVolumes, reason);
    }
    if !sandbox_first {
        garbage::remove(case, &mut part, &sandboxes, reason);
    }
    part
}

/// Volumes without a container. If this agent did not see whose they were, every source must have spoken.
pub fn leftover_volumes(case: Case<'_>, uid: &str) -> PodPlan {
    let mut part = PodPlan::default();
    let owner = case.world.memory.owners.get(uid);
    let gone = case.desired.gone.contains(uid)
        || case.desired.unknown.is_empty()
        || owner.is_some_and(|pod| case.desired.is_gone(pod));
    if gone && !pods::rests(case, &mut part, uid) {
        part.act(ActionKind::RemoveVolumes, "no pod has them");
    }
    part
}

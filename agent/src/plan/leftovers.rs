//! Pods that no source lists, and volumes without a pod: they are ended and removed. PURE.

use super::rules::Rule;
use super::{garbage, pods};
use crate::facts::engine::State;
use crate::facts::naming::{PodName, SANDBOX, Source};
use crate::facts::round::{ActionKind, PodPlan, StopReason};
use crate::facts::seen::{self, PodSeen, Run};
use crate::facts::waiting::{WaitReason, Waiting};
use crate::facts::wanted::Wanted;
use crate::plan::case::Case;

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

/// Of a pod of a file that has nothing running yet, the pod of the same name under another uid that is still to end:
/// the host had another node name before, or the file another uid. The two would share claims and directories. A
/// kubelet starts no static pod before the earlier one of its name has ended either.
pub fn earlier_of_file<'a>(
    wanted: &Wanted,
    runs: &[Run<'_>],
    mut others: impl Iterator<Item = &'a PodSeen<'a>>,
) -> Option<Waiting> {
    let name = &wanted.name;
    if name.source != Source::File || runs.iter().any(|run| run.seen.lives()) {
        return None;
    }
    let is_earlier = |other: &PodName| {
        let PodName { namespace, name: called, uid, source } = other;
        *source == Source::File && (namespace, called) == (&name.namespace, &name.name) && *uid != name.uid
    };
    let earlier = others.find(|pod| is_earlier(&pod.name) && pod.runs.iter().any(|run| run.seen.lives()))?;
    let text =
        format!("it waits for the pod of the same name with the uid {}, which is still to end", earlier.name.uid);
    Some(Waiting::new(WaitReason::EarlierPodEnds, text))
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

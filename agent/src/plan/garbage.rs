//! What is dead and of no more use, and what is left of pods that are gone. PURE.

use std::collections::BTreeMap;

use super::seen::{self, PodSeen, Run};
use super::{Case, Part, Rule, What, pods};
use crate::naming::SANDBOX;

/// Of each container the last two starts stay: what runs, or how it ended, and the one before for lastState and its log.
const STARTS_KEPT: usize = 2;

/// Dead containers of a pod that lives. Of sandboxes only the newest has anything to tell: how often it failed.
pub fn dead(case: Case<'_>, part: &mut Part, runs: &[Run<'_>], sandbox: Option<u32>) {
    let mut starts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut useless = Vec::new();
    for run in runs {
        let count = starts.entry(&run.tag.container).or_default();
        *count += 1;
        let kept = if run.tag.is_sandbox() { if sandbox.is_some() { 1 } else { 0 } } else { STARTS_KEPT };
        let outlived = run.tag.is_sandbox() && sandbox.is_some_and(|attempt| run.tag.attempt < attempt);
        if *count > kept || outlived {
            useless.push(run);
        }
    }
    remove(case, part, &useless, "newer ones have taken its place");
}

/// Those of them that do not run.
pub fn remove(case: Case<'_>, part: &mut Part, runs: &[&Run<'_>], reason: &str) {
    for run in runs {
        if !run.seen.runs() && case.rules.hold(Rule::GarbageIsRemoved) {
            part.act(What::Remove { id: run.seen.id.clone(), container: run.tag.container.clone() }, reason);
        }
    }
}

/// A pod that no source lists: stopped and removed with all that it had, if its source is known not to want it.
pub fn leftover_pod(case: Case<'_>, pod: &PodSeen<'_>) -> Part {
    let mut part = Part::default();
    let gone = case.desired.is_gone(&pod.name) || !case.rules.hold(Rule::UnknownIsNotAbsent);
    if !gone || !case.rules.hold(Rule::GonePodsEnd) || pods::rests(case, &mut part, &pod.name.uid) {
        return part;
    }
    if pods::end(case, &mut part, &pod.runs, None, "nobody wants its pod any more") && case.rules.hold(Rule::VolumesGoLast) {
        return part;
    }
    let members: Vec<&Run> = seen::members(&pod.runs).collect();
    let sandboxes: Vec<&Run> = seen::of(&pod.runs, SANDBOX).collect();
    let reason = "nobody wants its pod any more";
    remove(case, &mut part, &members, reason);
    // The dead sandbox says whose the volumes are, so it goes last; but not where it mounts them itself.
    let sandbox_first = sandboxes.iter().any(|run| run.tag.holds_volumes);
    if sandbox_first {
        remove(case, &mut part, &sandboxes, reason);
    }
    if case.world.volumes.contains(&pod.name.uid) {
        part.act(What::RemoveVolumes, reason);
    }
    if !sandbox_first {
        remove(case, &mut part, &sandboxes, reason);
    }
    part
}

/// Volumes without a container. If this agent did not see whose they were, every source must have spoken.
pub fn leftover_volumes(case: Case<'_>, uid: &str) -> Part {
    let mut part = Part::default();
    let owner = case.world.memory.owners.get(uid);
    let gone = case.desired.gone.contains(uid) || case.desired.unknown.is_empty() || owner.is_some_and(|pod| case.desired.is_gone(pod));
    if gone && !pods::rests(case, &mut part, uid) {
        part.act(What::RemoveVolumes, "no pod has them");
    }
    part
}

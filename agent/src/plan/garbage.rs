//! Removal of dead containers. PURE.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::Rule;
use crate::facts::round::{ActionKind, PodPlan};
use crate::facts::seen::Run;
use crate::facts::strain::Short;
use crate::plan::case::{Case, PodCase};

/// Of each container the last two starts stay: what runs, or how it ended, and the one before for lastState and its
/// log.
const STARTS_KEPT: usize = 2;
/// The last start: for a pod that has ended, its exit code and log; for a living pod under disk pressure, its count of
/// failures, which would be lost with the container.
const STARTS_KEPT_MIN: usize = 1;
/// The status reason of an evicted pod.
const EVICTED: &str = "Evicted";

/// Removes old dead containers of a living pod. Among sandboxes only the newest stays, for its count of failures.
pub fn dead(case: Case<'_>, part: &mut PodPlan, runs: &[Run<'_>], sandbox: u32) {
    let kept = if is_short_of_disk(case) { STARTS_KEPT_MIN } else { STARTS_KEPT };
    remove_older(case, part, runs, Some(sandbox), kept);
}

/// Nothing of a pod runs that has ended for good: its volumes and its sandbox go, and of its containers all but the
/// last of each name. That goes, too, where the pod was evicted or the disk is short, and its master or this host's
/// disk has on record how the pod ended.
pub fn ended(pod: PodCase<'_>, part: &mut PodPlan) {
    let PodCase { case, wanted, runs, .. } = pod;
    if !case.rules.hold(Rule::EndedPodsFree) {
        return remove_older(case, part, runs, None, STARTS_KEPT);
    }
    let status = &wanted.pod.status;
    let evicted = status.reason == EVICTED && case.rules.hold(Rule::EvictedPodsFree);
    if status.terminal() && (evicted || is_short_of_disk(case)) {
        remove(case, part, &runs.iter().collect::<Vec<_>>(), "its pod has ended, and that is on record");
    } else {
        remove_older(case, part, runs, None, STARTS_KEPT_MIN);
    }
    let uid = &wanted.name.uid;
    if runs.is_empty() && case.world.volumes.contains(uid) {
        part.act(ActionKind::RemoveVolumes, "its pod has ended");
    } else if case.world.held_volumes.contains(uid) {
        part.act(ActionKind::FreeVolumes, "its pod has ended");
    }
}

fn is_short_of_disk(case: Case<'_>) -> bool {
    case.world.strain.short.contains(&Short::Disk) && case.rules.hold(Rule::StrainFreesDead)
}

/// `sandbox`: the one that runs.
fn remove_older(case: Case<'_>, part: &mut PodPlan, runs: &[Run<'_>], sandbox: Option<u32>, starts_kept: usize) {
    let mut starts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut useless = Vec::new();
    let mut numbers = BTreeSet::new();
    for run in runs {
        // A copy: the container with this attempt number was there before.
        if !numbers.insert((run.tag.container.as_str(), run.tag.attempt)) {
            useless.push(run);
            continue;
        }
        let count = starts.entry(&run.tag.container).or_default();
        *count += 1;
        let kept = if run.tag.is_sandbox() { usize::from(sandbox.is_some()) } else { starts_kept };
        let outlived = run.tag.is_sandbox() && sandbox.is_some_and(|attempt| run.tag.attempt < attempt);
        if *count > kept || outlived {
            useless.push(run);
        }
    }
    let reason = if sandbox.is_some() { "newer ones have taken its place" } else { "its pod has ended" };
    remove(case, part, &useless, reason);
}

/// Removes the dead containers among `runs`.
pub fn remove(case: Case<'_>, part: &mut PodPlan, runs: &[&Run<'_>], reason: &str) {
    for run in runs {
        if !run.seen.runs() && case.rules.hold(Rule::GarbageIsRemoved) {
            part.act(ActionKind::Remove { id: run.seen.id.clone(), container: run.tag.container.clone() }, reason);
        }
    }
}

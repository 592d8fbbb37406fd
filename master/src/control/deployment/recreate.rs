//! Recreate: all old pods are gone before a new one is made. PURE.

use super::super::rules::ControlRule;
use super::rollout::{Rollout, Set, Stage};
use super::sets;

pub fn next(rollout: &Rollout<'_>) -> Stage {
    let old = rollout.old.iter().filter(|(_, set)| set.replicas > 0);
    if let Some(step) = Stage::of(old.flat_map(|set| sets::resize(rollout, *set, 0, false)).collect()) {
        return step;
    }
    if still_runs(rollout) {
        return Stage::Waits;
    }
    let Some(new) = rollout.new else { return sets::make(rollout, rollout.deployment.replicas) };
    match Stage::of(sets::resize(rollout, new, rollout.deployment.replicas, false)) {
        Some(step) => step,
        None => Stage::Done,
    }
}

/// Whether an old pod runs or may run: a terminating pod runs until its phase is terminal.
fn still_runs(rollout: &Rollout<'_>) -> bool {
    let runs = |(key, set): &Set<'_>| {
        set.status.replicas > 0 || rollout.cluster.pods_of(key, &set.template.uid).any(|(_, pod)| !pod.terminal())
    };
    rollout.cluster.holds(ControlRule::RecreateWaits) && rollout.old.iter().any(runs)
}

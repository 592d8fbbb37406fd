//! A rolling update: the new ReplicaSet grows as far as there may be more pods, the old ones shrink as far as pods may
//! be missing. PURE.

use super::super::intent::Intent;
use super::super::rules::ControlRule;
use super::rollout::{Rollout, Set, Stage};
use super::sets;

pub fn next(rollout: &Rollout<'_>) -> Stage {
    let wanted = rollout.deployment.replicas;
    let Some(new) = rollout.new else { return sets::make(rollout, grown(rollout, 0)) };
    let size = if new.1.replicas > wanted { wanted } else { grown(rollout, new.1.replicas) };
    if let Some(step) = Stage::of(sets::resize(rollout, new, size, false)) {
        return step;
    }
    match Stage::of(shrink(rollout, new)) {
        Some(step) => step,
        None => Stage::Done,
    }
}

/// The size of the new set: all pods together are no more than there may be.
fn grown(rollout: &Rollout<'_>, size: i32) -> i32 {
    let deployment = rollout.deployment;
    let room = deployment.replicas.saturating_add(deployment.surge) - rollout.size();
    let room = if rollout.cluster.holds(ControlRule::SurgeIsBounded) { room } else { i32::MAX };
    size + room.min(deployment.replicas - size).max(0)
}

/// First pods that are not available go; in the next look as many as can be spared. Of the oldest set first.
fn shrink(rollout: &Rollout<'_>, new: Set<'_>) -> Vec<Intent> {
    let deployment = rollout.deployment;
    let old: Vec<Set<'_>> = rollout.old.iter().filter(|(_, set)| set.replicas > 0).copied().collect();
    let needed = if rollout.cluster.holds(ControlRule::EnoughStayAvailable) {
        deployment.replicas - deployment.unavailable
    } else {
        0
    };
    let mut spare = rollout.size() - needed - (new.1.replicas - new.1.status.available_replicas);
    if old.is_empty() || spare <= 0 || rollout.is_untold() {
        return Vec::new();
    }
    let mut smaller = Vec::new();
    for set in &old {
        let bad = (set.1.replicas - set.1.status.available_replicas).clamp(0, spare);
        spare -= bad;
        smaller.extend(sets::resize(rollout, *set, set.1.replicas - bad, false));
    }
    if !smaller.is_empty() {
        return smaller;
    }
    let available: i32 = rollout.all().map(|(_, set)| set.status.available_replicas).sum();
    let mut spare = (available - needed).max(0);
    for set in &old {
        let less = set.1.replicas.min(spare);
        spare -= less;
        smaller.extend(sets::resize(rollout, *set, set.1.replicas - less, false));
    }
    smaller
}

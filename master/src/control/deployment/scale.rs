//! A Deployment that is scaled, or paused: its ReplicaSets keep their proportions, so that a rollout neither hastens
//! nor turns back. PURE.

use super::super::intent::Intent;
use super::rollout::{Rollout, Set, age};
use super::sets;
use std::cmp::Reverse;

/// Whether a set was last scaled for another number of pods.
pub fn is_asked(rollout: &Rollout<'_>) -> bool {
    rollout
        .active()
        .iter()
        .any(|(_, set)| set.rollout.desired.is_some_and(|desired| desired != rollout.deployment.replicas))
}

pub fn proportionally(rollout: &Rollout<'_>) -> Vec<Intent> {
    let wanted = rollout.deployment.replicas;
    let active = rollout.active();
    let only = match active.as_slice() {
        [] => rollout.new.or(rollout.old.last().copied()),
        [one] => Some(*one),
        _ => None,
    };
    if active.len() < 2 {
        return only.map(|set| sets::resize(rollout, set, wanted, false)).unwrap_or_default();
    }
    if rollout.new.is_some_and(|new| is_saturated(new, wanted)) {
        let old = rollout.old.iter().filter(|(_, set)| set.replicas > 0);
        return old.flat_map(|set| sets::resize(rollout, *set, 0, false)).collect();
    }
    if rollout.deployment.recreate {
        return Vec::new();
    }
    let sized = spread(rollout, active);
    sized.into_iter().flat_map(|(set, size)| sets::resize(rollout, set, size, true)).collect()
}

fn is_saturated((_, set): Set<'_>, wanted: i32) -> bool {
    set.replicas == wanted && set.rollout.desired == Some(wanted) && set.status.available_replicas == wanted
}

/// The larger ones first, each gets its share of what comes or goes; what is left by rounding is the first one's.
fn spread<'c>(rollout: &Rollout<'_>, mut active: Vec<Set<'c>>) -> Vec<(Set<'c>, i32)> {
    let deployment = rollout.deployment;
    let allowed = if deployment.replicas > 0 { deployment.replicas.saturating_add(deployment.surge) } else { 0 };
    let more = allowed - active.iter().map(|(_, set)| set.replicas).sum::<i32>();
    // They may stand in any order: the new one can be older than others.
    active.sort_by_key(|set| age(*set));
    if more > 0 {
        active.reverse();
    }
    active.sort_by_key(|(_, set)| Reverse(set.replicas));
    let mut left = more;
    let mut sized = Vec::new();
    for set in active {
        let share = proportion(rollout, set.1.replicas, set.1.rollout.max);
        let share = if more > 0 { share.min(left) } else { share.max(left) };
        left -= share;
        sized.push((set, set.1.replicas + share));
    }
    if let Some((_, size)) = sized.first_mut() {
        *size = (*size + left).max(0);
    }
    sized
}

/// By how much a set of this size changes. `max`: how many pods there might be at most when it was scaled.
fn proportion(rollout: &Rollout<'_>, size: i32, max: Option<i32>) -> i32 {
    let deployment = rollout.deployment;
    if deployment.replicas == 0 {
        return -size;
    }
    // A client removed the annotation: the present number is the best estimate.
    let before = max.filter(|max| *max > 0).unwrap_or(deployment.status.replicas);
    if before == 0 {
        return 0;
    }
    let after = i64::from(size) * i64::from(deployment.replicas.saturating_add(deployment.surge));
    let rounded = (after * 2 + i64::from(before)) / (i64::from(before) * 2);
    i32::try_from(rounded).unwrap_or(i32::MAX) - size
}

//! Old ReplicaSets beyond those that are kept for a way back. PURE.

use super::super::intent::Intent;
use super::rollout::{Rollout, Set};

/// Deletes those of the lowest revisions that have no pods any more.
pub fn clean_up(rollout: &Rollout<'_>) -> Vec<Intent> {
    let Some(kept) = rollout.deployment.history else { return Vec::new() };
    let mut old: Vec<Set<'_>> = rollout.old.iter().filter(|(_, set)| !set.template.deleting).copied().collect();
    // They stand in order of their age, which decides between equal ones.
    old.sort_by_key(|(_, set)| set.rollout.revision);
    let surplus = old.len().saturating_sub(usize::try_from(kept).unwrap_or_default());
    let empty = |set: &Set<'_>| {
        set.1.status.replicas == 0 && set.1.replicas == 0 && set.1.generation <= set.1.status.observed_generation
    };
    let delete = |(key, set): Set<'_>| Intent::Delete { key: key.clone(), seen: set.template.revision, at_once: false };
    old.into_iter().take(surplus).filter(empty).map(delete).collect()
}

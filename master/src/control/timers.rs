//! When to look at a key again though nothing happened. PURE.

use super::table::Owner;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// When to look at a key again though nothing happened, by uptime: once for each.
#[derive(Default)]
pub(super) struct Timers {
    by_time: BTreeSet<(Duration, Owner)>,
    by_owner: BTreeMap<Owner, Duration>,
}

impl Timers {
    pub(super) fn set(&mut self, owner: &Owner, at: Option<Duration>) {
        if let Some(old) = self.by_owner.remove(owner) {
            self.by_time.remove(&(old, owner.clone()));
        }
        if let Some(at) = at {
            self.by_owner.insert(owner.clone(), at);
            self.by_time.insert((at, owner.clone()));
        }
    }

    pub(super) fn first(&self) -> Option<Duration> {
        self.by_time.first().map(|(at, _)| *at)
    }

    pub(super) fn due(&mut self, uptime: Duration) -> Option<Owner> {
        let (_, owner) = self.by_time.first().filter(|(at, _)| *at <= uptime)?.clone();
        self.set(&owner, None);
        Some(owner)
    }
}

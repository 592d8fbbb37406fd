//! Containers as they were inspected last, by id. An event makes the entry of its container stale, and a silence of the
//! engine makes every entry stale.

use std::collections::{HashMap, HashSet};

use crate::facts::engine::SeenContainer;

/// Containers that there is room for in any case.
const ROOM_KEPT: usize = 32;

/// By container id: the state word in the listing that led to the inspect, and the inspected container.
#[derive(Default)]
pub struct InspectCache {
    pub(super) seen: HashMap<String, (String, SeenContainer)>,
    /// Counts removals, so that an inspect that was overtaken by an event is not kept.
    pub(super) changes: u64,
}

impl InspectCache {
    pub fn clear(&mut self) {
        self.seen.clear();
        self.changes += 1;
    }

    pub fn remove(&mut self, id: &str) {
        self.seen.remove(id);
        self.changes += 1;
    }

    /// Keeps the entries of these containers, and shrinks a table with far more room than entries: a table never
    /// shrinks by itself.
    pub(super) fn keep(&mut self, ids: &[&str]) {
        let ids: HashSet<&str> = ids.iter().copied().collect();
        self.seen.retain(|id, _| ids.contains(id.as_str()));
        if self.seen.capacity() > 4 * self.seen.len().max(ROOM_KEPT) {
            self.seen.shrink_to_fit();
        }
    }
}

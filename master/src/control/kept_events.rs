//! The events that the master keeps, by their age. PURE.

use coracle_api::meta::{Key, Revision};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Events by age.
#[derive(Default)]
pub struct Events {
    came: BTreeMap<Arc<Key>, Came>,
    by_age: BTreeSet<(Duration, Arc<Key>)>,
    bytes: usize,
}

#[derive(Clone, Copy)]
pub struct Came {
    pub revision: Revision,
    /// The uptime then.
    pub at: Duration,
    pub bytes: usize,
}

impl Events {
    pub(super) fn put(&mut self, key: &Arc<Key>, new: Option<Came>) {
        let old = match new {
            Some(new) => self.came.insert(key.clone(), new),
            None => self.came.remove(key),
        };
        if let Some(old) = old {
            self.by_age.remove(&(old.at, key.clone()));
            self.bytes -= old.bytes;
        }
        if let Some(new) = new {
            self.by_age.insert((new.at, key.clone()));
            self.bytes += new.bytes;
        }
    }

    /// Events that were known before keep their old time of arrival.
    pub fn inherit(&mut self, old: Events) {
        for (key, was) in old.came {
            if let Some(is) = self.came.get(&key).copied() {
                self.put(&key, Some(Came { at: was.at, ..is }));
            }
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.came.len()
    }

    /// The oldest first.
    pub fn by_age(&self) -> impl Iterator<Item = (&Key, Came)> {
        self.by_age.iter().filter_map(|(_, key)| Some((&**key, *self.came.get(key)?)))
    }
}

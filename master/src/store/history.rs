//! PURE. The last events, so that a watcher can come back to where it was.

use super::{Event, Gone, Stored};
use coracle_api::meta::Revision;
use std::collections::VecDeque;

/// Events kept, whichever of the two is reached first: a client may be away for some minutes of a busy cluster, and the memory stays small.
pub const HISTORY_EVENTS_MAX: usize = 10_000;
pub const HISTORY_BYTES_MAX: usize = 16 << 20;
/// Events that it gets room for at a time: twice as many each time would be half of it empty.
const GROWTH_EVENTS: usize = 1024;

pub struct History {
    events: VecDeque<Event>,
    bytes: usize,
    /// Everything after this revision is held.
    floor: Revision,
    events_max: usize,
    bytes_max: usize,
}

impl History {
    pub fn with_limits(floor: Revision, events_max: usize, bytes_max: usize) -> History {
        History { events: VecDeque::new(), bytes: 0, floor, events_max, bytes_max }
    }

    pub fn push(&mut self, event: Event) {
        self.bytes += weight(&event);
        if self.events.len() == self.events.capacity() {
            self.events.reserve_exact(GROWTH_EVENTS);
        }
        self.events.push_back(event);
        while self.events.len() > self.events_max || self.bytes > self.bytes_max {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= weight(&oldest);
            self.floor = oldest.revision;
        }
    }

    /// What happened after a revision, oldest first.
    pub fn after(&self, revision: Revision) -> Result<impl Iterator<Item = &Event>, Gone> {
        if revision < self.floor {
            return Err(Gone { oldest: self.floor });
        }
        let from = self.events.partition_point(|event| event.revision <= revision);
        Ok(self.events.range(from..))
    }
}

/// What an event keeps in memory: what was before it usually is the `new` of an earlier one and shares its memory, but where an object got
/// shorter it may be the most of it. So the history never keeps twice of what it weighs.
fn weight(event: &Event) -> usize {
    let length = |stored: &Option<Stored>| stored.as_ref().map_or(0, |stored| stored.json.len());
    length(&event.new).max(length(&event.old)) + size_of::<Event>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use coracle_api::labels::LabelSet;
    use coracle_api::meta::{Key, Resource};
    use std::sync::Arc;

    #[test]
    fn what_an_object_was_before_it_got_shorter_counts() {
        let key = Arc::new(Key { resource: Resource::core("pods"), namespace: "ns".to_owned(), name: "a".to_owned() });
        let stored = |revision: u64, bytes: usize| {
            Some(Stored::new(key.clone(), Revision(revision), Bytes::from(vec![b'x'; bytes]), LabelSet::default()))
        };
        let mut history = History::with_limits(Revision(0), 1000, 100_000);
        for revision in 1..=100 {
            let (old, new) = (stored(revision, 10_000), stored(revision + 1, 10));
            history.push(Event { revision: Revision(revision), key: key.clone(), old, new, renewed: false });
        }
        assert!(history.events.len() < 10, "{}", history.events.len());
    }
}

//! PURE. The last events, so that a watcher can come back to where it was.

use super::{Event, Gone};
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

/// An event's own bytes: what was before it usually is the `new` of an earlier one and shares its memory.
fn weight(event: &Event) -> usize {
    let json = event.new.as_ref().or(event.old.as_ref()).map_or(0, |stored| stored.json.len());
    json + size_of::<Event>()
}

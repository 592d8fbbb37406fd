//! PURE. The last events, so that a watcher can come back to where it was.

use crate::store::{Event, Gone, Stored};
use coracle_api::meta::Revision;
use std::collections::VecDeque;
use std::time::Duration;

/// Events kept, whichever of the three is reached first: a client may be away for some minutes of a busy cluster, and
/// the memory stays small.
pub const HISTORY_EVENTS_MAX: usize = 10_000;
pub const HISTORY_BYTES_MAX: usize = 16 << 20;
/// Kubernetes forgets what is older as well: it has its store compacted this often.
pub const HISTORY_LIFE: Duration = Duration::from_secs(300);
/// Events that it gets room for at a time: twice as many each time would be half of it empty.
const GROWTH_EVENTS: usize = 1024;

pub struct History {
    /// When each came, in uptime.
    events: VecDeque<(Duration, Event)>,
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

    pub fn push(&mut self, event: Event, uptime: Duration) {
        self.bytes += weight(&event);
        if self.events.len() == self.events.capacity() {
            self.events.reserve_exact(GROWTH_EVENTS);
        }
        self.events.push_back((uptime, event));
        self.forget(uptime);
    }

    /// Forgets what is too old, and the room for it. When to do it again, though nothing happens until then: once for
    /// all that is left.
    pub fn age(&mut self, uptime: Duration) -> Option<Duration> {
        self.forget(uptime);
        if self.events.capacity() - self.events.len() > GROWTH_EVENTS {
            self.events.shrink_to_fit();
        }
        self.events.back().map(|(came, _)| *came + HISTORY_LIFE)
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    fn forget(&mut self, uptime: Duration) {
        let too_many =
            |history: &History| history.events.len() > history.events_max || history.bytes > history.bytes_max;
        while let Some((came, _)) = self.events.front()
            && (*came + HISTORY_LIFE <= uptime || too_many(self))
        {
            let Some((_, oldest)) = self.events.pop_front() else { return };
            self.bytes -= weight(&oldest);
            self.floor = oldest.revision;
        }
    }

    /// The events after a revision, oldest first.
    pub fn after(&self, revision: Revision) -> Result<impl Iterator<Item = &Event>, Gone> {
        if revision < self.floor {
            return Err(Gone { oldest: self.floor });
        }
        let from = self.events.partition_point(|(_, event)| event.revision <= revision);
        Ok(self.events.range(from..).map(|(_, event)| event))
    }
}

/// The memory of an event. The old object usually is the `new` of an earlier event and shares that memory, but if an
/// object got shorter, the old object may be the larger part. So the history keeps less than twice the sum of the
/// weights.
fn weight(event: &Event) -> usize {
    let length = |stored: &Option<Stored>| stored.as_ref().map_or(0, |stored| stored.json.len());
    length(&event.new).max(length(&event.old)) + size_of::<(Duration, Event)>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use coracle_api::labels::LabelSet;
    use coracle_api::meta::{Key, Resource};
    use std::sync::Arc;

    fn event(revision: u64, (before, after): (usize, usize)) -> Event {
        let key = Arc::new(Key { resource: Resource::core("pods"), namespace: "ns".to_owned(), name: "a".to_owned() });
        let stored = |revision: u64, bytes: usize| {
            Some(Stored::new(key.clone(), Revision(revision), Bytes::from(vec![b'x'; bytes]), LabelSet::default()))
        };
        let (old, new) = (stored(revision, before), stored(revision + 1, after));
        Event { revision: Revision(revision), key: key.clone(), old, new, renewed: false }
    }

    #[test]
    fn what_an_object_was_before_it_got_shorter_counts() {
        let mut history = History::with_limits(Revision(0), 1000, 100_000);
        for revision in 1..=100 {
            history.push(event(revision, (10_000, 10)), Duration::ZERO);
        }
        assert!(history.events.len() < 10, "{}", history.events.len());
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let (second, life) = (Duration::from_secs(1), HISTORY_LIFE);
        // Revisions 11, 12, .. came at these times. At this one: the oldest revision to begin from, and when it is
        // looked at again.
        let check = |came: &[Duration], now: Duration, floor: u64, again: Option<Duration>| {
            let mut history = History::with_limits(Revision(10), 1000, 100_000);
            came.iter().zip(11..).for_each(|(at, revision)| history.push(event(revision, (0, 10)), *at));
            assert_eq!((history.age(now), history.floor.0), (again, floor), "{came:?} at {now:?}");
            assert_eq!(history.after(Revision(floor - 1)).err().map(|gone| gone.oldest.0), Some(floor));
            let last = 10 + came.len() as u64;
            let kept: Vec<u64> = history
                .after(Revision(floor))
                .map(|events| events.map(|event| event.revision.0).collect())
                .unwrap_or_default();
            assert_eq!(kept, (floor + 1..=last).collect::<Vec<_>>());
            assert_eq!(history.is_empty(), floor == last);
            assert_eq!(history.bytes == 0, history.is_empty());
        };
        check(&[], life, 10, None);
        check(&[second], second, 10, Some(second + life));
        check(&[second, 3 * second], life, 10, Some(3 * second + life));
        check(&[second, 3 * second], second + life, 11, Some(3 * second + life));
        check(&[second, second], second + life, 12, None);
        // Whoever writes forgets as well.
        check(&[second, 2 * second, second + life], second + life, 11, Some(second + 2 * life));
        check(&[second, 2 * second], 9 * life, 12, None);
    }

    #[test]
    fn a_burst_leaves_no_room_behind() {
        let mut history = History::with_limits(Revision(0), 10_000, 100_000_000);
        (1..=9_000).for_each(|revision| history.push(event(revision, (0, 10)), Duration::ZERO));
        history.push(event(9_001, (0, 10)), HISTORY_LIFE);
        history.age(HISTORY_LIFE);
        assert!((1..GROWTH_EVENTS).contains(&history.events.capacity()), "{}", history.events.capacity());
    }
}

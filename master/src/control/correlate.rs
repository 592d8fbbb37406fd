//! Which events are told anew, which once more, and which not at all, as Kubernetes' clients do it. PURE.
//!
//!     the same words about the same object      one event more often: its count rises
//!     many words for one reason                 from the tenth on one event with the latest, marked as combined
//!     too much about one object                 nothing, until some minutes have passed

use super::intent::EventDraft;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// From this number of different messages about an object with the same reason on, the messages are combined.
const MESSAGES_MAX: usize = 10;
/// After so long without a message they are counted anew.
const MESSAGES_FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
const COMBINED: &str = "(combined from similar events): ";
/// Events from a source about an object that may come at once; each `ONE_MORE_AFTER` allows a further event.
const AT_ONCE: u32 = 25;
const ONE_MORE_AFTER: Duration = Duration::from_secs(300);
/// An event is kept no longer, so it cannot be told once more either.
const LIFE: Duration = Duration::from_secs(3600);
/// Entries of each kind that are remembered, of about a hundred bytes. The oldest is forgotten first.
const REMEMBERED_MAX: usize = 1000;

/// What becomes of a tale.
#[derive(Clone, Debug, PartialEq)]
pub enum Telling {
    New {
        message: String,
    },
    /// One that was told before, at this moment, is told again.
    Again {
        moment: u64,
        count: u32,
        message: String,
    },
    Nothing,
}

/// What was told lately. Keys are hashes of words: two that are alike would only share a count.
#[derive(Default)]
pub struct Correlator {
    messages: Remembered<Messages>,
    counts: Remembered<EventCount>,
    /// How much of what may come at once is used up.
    used: Remembered<u32>,
}

/// Hashes of the latest messages.
#[derive(Clone, Copy, Default)]
struct Messages {
    hashes: [u32; MESSAGES_MAX - 1],
    count: usize,
}

#[derive(Clone, Copy, Default)]
struct EventCount {
    /// By which it is named.
    moment: Option<u64>,
    count: u32,
}

impl Messages {
    /// Adds the hash of a message; true if the message exceeds the number of different messages.
    fn add(&mut self, hash: u32) -> bool {
        if self.hashes[..self.count].contains(&hash) {
            return false;
        }
        let is_full = self.count == self.hashes.len();
        if is_full {
            self.hashes.rotate_left(1);
        } else {
            self.count += 1;
        }
        self.hashes[self.count - 1] = hash;
        is_full
    }
}

/// Entries by key, in a single allocation: entries are made in a burst of other work, and separate allocations would
/// each keep a page when the rest of the burst's memory is given back to the host.
struct Remembered<T> {
    entries: Vec<Entry<T>>,
}

struct Entry<T> {
    key: u64,
    at: Duration,
    value: T,
}

impl<T> Default for Remembered<T> {
    fn default() -> Remembered<T> {
        Remembered { entries: Vec::new() }
    }
}

impl<T: Copy + Default> Remembered<T> {
    /// Forgets an entry that has not been touched for so long, and makes it anew.
    fn entry(&mut self, key: u64, uptime: Duration, life: Duration) -> &mut Entry<T> {
        let is_over = |entry: &Entry<T>| uptime.saturating_sub(entry.at) > life;
        let new = Entry { key, at: uptime, value: T::default() };
        let mut found = self.find(key);
        if found.is_err() && self.entries.len() == self.entries.capacity().min(REMEMBERED_MAX) {
            self.entries.retain(|entry| !is_over(entry));
            if self.entries.len() >= REMEMBERED_MAX {
                let oldest = (0..self.entries.len()).min_by_key(|at| self.entries[*at].at);
                oldest.map(|oldest| self.entries.remove(oldest));
            }
            found = self.find(key);
        }
        match found {
            Ok(at) if is_over(&self.entries[at]) => self.entries[at] = new,
            Ok(_) => {}
            Err(at) => self.entries.insert(at, new),
        }
        let at = found.unwrap_or_else(|at| at);
        &mut self.entries[at]
    }

    fn find(&self, key: u64) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&key, |entry| entry.key)
    }
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Correlator {
    /// `message`: with the name of the made object. `moment`: names the event if a new event is told.
    pub fn tell(&mut self, tale: &EventDraft, message: String, moment: u64, uptime: Duration) -> Telling {
        let about = &tale.about;
        let object =
            (tale.source, &about.api_version, &about.kind, &about.namespace, &about.name, &about.uid, tale.severity);
        let group = hash((object, tale.reason));
        let messages = self.messages.entry(group, uptime, MESSAGES_FORGOTTEN_AFTER);
        messages.at = uptime;
        let combined = messages.value.add(hash(&message) as u32);
        let key = if combined { group } else { hash((group, &message)) };
        let message = if combined { format!("{COMBINED}{message}") } else { message };
        let known = self.counts.entry(key, uptime, LIFE);
        known.at = uptime;
        known.value.count += 1;
        let EventCount { moment: before, count } = known.value;
        known.value.moment.get_or_insert(moment);
        if !self.allowed(hash(object), uptime) {
            return Telling::Nothing;
        }
        match before {
            Some(moment) => Telling::Again { moment, count, message },
            None => Telling::New { message },
        }
    }

    fn allowed(&mut self, object: u64, uptime: Duration) -> bool {
        let Entry { at: since, value: used, .. } = self.used.entry(object, uptime, ONE_MORE_AFTER * (AT_ONCE + 1));
        let back =
            u32::try_from(uptime.saturating_sub(*since).as_secs() / ONE_MORE_AFTER.as_secs()).unwrap_or(u32::MAX);
        *used = used.saturating_sub(back);
        *since = if *used == 0 { uptime } else { *since + ONE_MORE_AFTER * back };
        *used += u32::from(*used < AT_ONCE + 1);
        if *used > AT_ONCE {
            *used = AT_ONCE;
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::intent::About;
    use super::*;
    use coracle_api::meta::{Key, Resource, Revision};

    fn tale(name: &str, reason: &'static str) -> EventDraft {
        let key = Key { resource: Resource::core("pods"), namespace: "n".to_owned(), name: name.to_owned() };
        EventDraft::normal("test", About::new(("v1", "Pod"), &key, "uid", Revision(1)), reason, String::new())
    }

    #[test]
    fn the_same_again() {
        let mut correlator = Correlator::default();
        let mut tell = |name: &str, message: &str, moment: u64| {
            correlator.tell(&tale(name, "R"), message.to_owned(), moment, Duration::from_secs(1))
        };
        assert_eq!(tell("a", "x", 1), Telling::New { message: "x".to_owned() });
        assert_eq!(tell("a", "x", 2), Telling::Again { moment: 1, count: 2, message: "x".to_owned() });
        assert_eq!(tell("a", "y", 3), Telling::New { message: "y".to_owned() });
        assert_eq!(tell("b", "x", 4), Telling::New { message: "x".to_owned() });
    }

    #[test]
    fn many_are_combined() {
        let mut correlator = Correlator::default();
        let tellings: Vec<Telling> =
            (0..12).map(|n| correlator.tell(&tale("a", "R"), format!("m{n}"), n, Duration::from_secs(1))).collect();
        assert_eq!(tellings[8], Telling::New { message: "m8".to_owned() });
        assert_eq!(tellings[9], Telling::New { message: "(combined from similar events): m9".to_owned() });
        let again = |n: u32| Telling::Again {
            moment: 9,
            count: n - 8,
            message: format!("(combined from similar events): m{n}"),
        };
        assert_eq!(tellings[10..], [again(10), again(11)]);
    }

    #[test]
    fn too_much_is_left_out() {
        let mut correlator = Correlator::default();
        let mut tell =
            |s: u64| correlator.tell(&tale("a", "R"), "x".to_owned(), 1, Duration::from_secs(s)) != Telling::Nothing;
        assert_eq!((0..30).filter(|_| tell(1)).count(), 25);
        assert!(!tell(299));
        assert!(tell(302));
        assert!(!tell(303));
    }

    #[test]
    fn little_is_remembered() {
        let mut correlator = Correlator::default();
        for n in 0..REMEMBERED_MAX + 10 {
            correlator.tell(&tale(&n.to_string(), "R"), "x".to_owned(), 1, Duration::from_secs(n as u64));
        }
        assert_eq!(correlator.counts.entries.len(), REMEMBERED_MAX);
        assert_eq!(correlator.used.entries.len(), REMEMBERED_MAX);
    }
}

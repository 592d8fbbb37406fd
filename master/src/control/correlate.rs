//! Which events are told anew, which once more, and which not at all, as Kubernetes' clients do it. PURE.
//!
//!     the same words about the same object      one event more often: its count rises
//!     many words for one reason                 from the tenth on one event with the latest, marked as combined
//!     too much about one object                 nothing, until some minutes have passed

use super::intent::Tale;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// Different messages of one reason about one object: from this one on they are combined.
const MESSAGES_MAX: usize = 10;
/// After so long without a message they are counted anew.
const MESSAGES_FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
const COMBINED: &str = "(combined from similar events): ";
/// Events of one source about one object that may come at once; one more after each of these times.
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
    /// One that was told before is told again.
    Again {
        name: String,
        count: u32,
        message: String,
    },
    Nothing,
}

/// What was told lately. Keys are hashes of words: two that are alike would only share a count.
#[derive(Default)]
pub struct Correlator {
    messages: Remembered<BTreeSet<u64>>,
    counts: Remembered<EventCount>,
    /// How much of what may come at once is used up.
    used: Remembered<u32>,
}

#[derive(Clone, Default)]
struct EventCount {
    name: String,
    count: u32,
}

struct Remembered<T> {
    entries: BTreeMap<u64, (Duration, T)>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Remembered<T> {
        Remembered { entries: BTreeMap::new() }
    }
}

impl<T: Default> Remembered<T> {
    /// Forgets an entry that has not been touched for so long, and makes it anew.
    fn entry(&mut self, key: u64, uptime: Duration, life: Duration) -> &mut (Duration, T) {
        if self.entries.get(&key).is_some_and(|(at, _)| uptime.saturating_sub(*at) > life) {
            self.entries.remove(&key);
        }
        if !self.entries.contains_key(&key) && self.entries.len() >= REMEMBERED_MAX {
            let oldest = self.entries.iter().min_by_key(|(_, (at, _))| *at).map(|(key, _)| *key);
            oldest.map(|oldest| self.entries.remove(&oldest));
        }
        self.entries.entry(key).or_insert_with(|| (uptime, T::default()))
    }
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Correlator {
    /// `message`: with the name of what was made. `name`: of the event, if it is told anew.
    pub fn tell(&mut self, tale: &Tale, message: String, name: &str, uptime: Duration) -> Telling {
        let about = &tale.about;
        let object =
            (tale.source, &about.api_version, &about.kind, &about.namespace, &about.name, &about.uid, tale.severity);
        let group = hash((object, tale.reason));
        let (at, messages) = self.messages.entry(group, uptime, MESSAGES_FORGOTTEN_AFTER);
        *at = uptime;
        messages.insert(hash(&message));
        let combined = messages.len() >= MESSAGES_MAX;
        if combined {
            messages.pop_first();
        }
        let key = if combined { group } else { hash((group, &message)) };
        let message = if combined { format!("{COMBINED}{message}") } else { message };
        let (at, known) = self.counts.entry(key, uptime, LIFE);
        *at = uptime;
        known.count += 1;
        let (count, again) = (known.count, !known.name.is_empty());
        if !again {
            known.name = name.to_owned();
        }
        let name = known.name.clone();
        if !self.allowed(hash(object), uptime) {
            return Telling::Nothing;
        }
        if again { Telling::Again { name, count, message } } else { Telling::New { message } }
    }

    fn allowed(&mut self, object: u64, uptime: Duration) -> bool {
        let (since, used) = self.used.entry(object, uptime, ONE_MORE_AFTER * (AT_ONCE + 1));
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

    fn tale(name: &str, reason: &'static str) -> Tale {
        let key = Key { resource: Resource::core("pods"), namespace: "n".to_owned(), name: name.to_owned() };
        Tale::normal("test", About::new(("v1", "Pod"), &key, "uid", Revision(1)), reason, String::new())
    }

    #[test]
    fn the_same_again() {
        let mut correlator = Correlator::default();
        let mut tell = |name: &str, message: &str, event: &str| {
            correlator.tell(&tale(name, "R"), message.to_owned(), event, Duration::from_secs(1))
        };
        assert_eq!(tell("a", "x", "a.1"), Telling::New { message: "x".to_owned() });
        assert_eq!(tell("a", "x", "a.2"), Telling::Again { name: "a.1".to_owned(), count: 2, message: "x".to_owned() });
        assert_eq!(tell("a", "y", "a.3"), Telling::New { message: "y".to_owned() });
        assert_eq!(tell("b", "x", "b.1"), Telling::New { message: "x".to_owned() });
    }

    #[test]
    fn many_are_combined() {
        let mut correlator = Correlator::default();
        let tellings: Vec<Telling> = (0..12)
            .map(|n| correlator.tell(&tale("a", "R"), format!("m{n}"), &format!("a.{n}"), Duration::from_secs(1)))
            .collect();
        assert_eq!(tellings[8], Telling::New { message: "m8".to_owned() });
        assert_eq!(tellings[9], Telling::New { message: "(combined from similar events): m9".to_owned() });
        let again = |n: u32| Telling::Again {
            name: "a.9".to_owned(),
            count: n - 8,
            message: format!("(combined from similar events): m{n}"),
        };
        assert_eq!(tellings[10..], [again(10), again(11)]);
    }

    #[test]
    fn too_much_is_left_out() {
        let mut correlator = Correlator::default();
        let mut tell = |s: u64| {
            correlator.tell(&tale("a", "R"), "x".to_owned(), "a.1", Duration::from_secs(s)) != Telling::Nothing
        };
        assert_eq!((0..30).filter(|_| tell(1)).count(), 25);
        assert!(!tell(299));
        assert!(tell(302));
        assert!(!tell(303));
    }

    #[test]
    fn little_is_remembered() {
        let mut correlator = Correlator::default();
        for n in 0..REMEMBERED_MAX + 10 {
            correlator.tell(&tale(&n.to_string(), "R"), "x".to_owned(), "e", Duration::from_secs(n as u64));
        }
        assert_eq!(correlator.counts.entries.len(), REMEMBERED_MAX);
        assert_eq!(correlator.used.entries.len(), REMEMBERED_MAX);
    }
}

//! PURE. Limits the memory of the store: in all, per namespace, and for objects that live in memory alone. The counts
//! are exact, because objects are counted where they come and go.

use super::entry::{Entry, PlannedChange, WriteVerdict};
use crate::store::{FillLevel, Refused, Stored};
use coracle_api::meta::Durable;
use std::collections::BTreeMap;

/// Bytes that an object takes beside its text: key, labels, entries in maps.
pub const OBJECT_BYTES: u64 = 512;
/// A namespace takes at most this share of the limit, so that other namespaces always find room.
const NAMESPACE_SHARE: u64 = 2;
/// But never less than so many bytes: a small host has one namespace that counts.
const NAMESPACE_BYTES_MIN: u64 = 32 << 20;
/// Objects that are on no disk, such as events, take at most this share of the limit: components create events without
/// a request by a user, and nobody restores lost events.
const VOLATILE_SHARE: u64 = 4;
/// The share of the limit that is left to objects of no namespace and to namespaces whose names begin with `SYSTEM`:
/// however many namespaces users fill, nodes report and an administrator repairs.
const SYSTEM_SHARE: u64 = 16;
const SYSTEM: &str = "kube-";
/// The share beyond each limit for objects that grow a little: otherwise no pod's status could be written any more.
const SPARED_SHARE: u64 = 16;
/// Bytes that are a little: a status that fills up.
const LITTLE_BYTES: u64 = 4 << 10;
/// From so many tenths of a limit on people are told.
const WARNED_TENTHS: u64 = 9;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreUsage {
    all: u64,
    volatile: u64,
    namespaces: BTreeMap<String, u64>,
}

pub struct StoreRoom {
    held: StoreUsage,
    /// As the start found it: what is over a limit already may go on as it is.
    begun: StoreUsage,
    limit: u64,
}

impl StoreUsage {
    pub fn add(&mut self, entry: &Entry) {
        let bytes = weight(&entry.stored);
        self.all += bytes;
        if is_volatile(entry) {
            self.volatile += bytes;
        }
        self.add_to(&entry.stored.key.namespace, bytes);
    }

    fn add_to(&mut self, namespace: &str, bytes: u64) {
        match self.namespaces.get_mut(namespace) {
            Some(held) => *held += bytes,
            None => drop(self.namespaces.insert(namespace.to_owned(), bytes)),
        }
    }

    pub fn take(&mut self, entry: &Entry) {
        let bytes = weight(&entry.stored);
        self.all -= bytes;
        if is_volatile(entry) {
            self.volatile -= bytes;
        }
        let namespace = &entry.stored.key.namespace;
        if let Some(held) = self.namespaces.get_mut(namespace) {
            *held -= bytes;
            if *held == 0 {
                self.namespaces.remove(namespace);
            }
        }
    }

    /// The memory that a change adds, if any.
    pub fn grow(&mut self, change: &PlannedChange) {
        let (Some(entry), by) = (&change.entry, growth(change)) else { return };
        if by > 0 {
            self.all += by;
            self.volatile += if is_volatile(entry) { by } else { 0 };
            self.add_to(&change.key.namespace, by);
        }
    }

    fn of(&self, namespace: &str) -> u64 {
        self.namespaces.get(namespace).copied().unwrap_or_default()
    }
}

impl WriteVerdict {
    /// Refuses a change that finds no room. `ahead`: the memory of changes that are decided but not done.
    pub fn within(self, room: &StoreRoom, ahead: &StoreUsage) -> Result<WriteVerdict, Refused> {
        match &self {
            WriteVerdict::Change(change) => {
                room.refuses(change, ahead).map_or(Ok(self), |why| Err(Refused::Full { why }))
            }
            WriteVerdict::Unchanged(_) => Ok(self),
        }
    }
}

impl Default for StoreRoom {
    /// Without a limit.
    fn default() -> StoreRoom {
        StoreRoom { held: StoreUsage::default(), begun: StoreUsage::default(), limit: u64::MAX }
    }
}

impl StoreRoom {
    pub fn new(held: StoreUsage, limit: u64) -> StoreRoom {
        StoreRoom { begun: held.clone(), held, limit }
    }

    pub fn held(&self) -> &StoreUsage {
        &self.held
    }

    pub fn held_mut(&mut self) -> &mut StoreUsage {
        &mut self.held
    }

    /// Why a change has no room. What goes, shrinks or is marked to go always has some.
    fn refuses(&self, change: &PlannedChange, ahead: &StoreUsage) -> Option<String> {
        let entry = change.entry.as_ref()?;
        let by = growth(change);
        let marked = |stored: &Stored| memchr::memmem::find(&stored.json, b"\"deletionTimestamp\":\"").is_some();
        let namespace = &*change.key.namespace;
        let little = change.old.is_some() && by <= LITTLE_BYTES;
        let over = |held: &dyn Fn(&StoreUsage) -> u64, most: u64| {
            let spared = if little { held(&self.begun).max(most).saturating_add(most / SPARED_SHARE) } else { most };
            held(&self.held).saturating_add(held(ahead)).saturating_add(by) > spared
        };
        let why = if by == 0 {
            None
        } else if over(&|held| held.all, self.limit) {
            Some(full("the store", self.held.all, "it may", self.limit))
        } else if is_of_users(namespace) && over(&|held| held.all, self.users_limit()) {
            Some(full("the store", self.held.all, "users' namespaces may", self.users_limit()))
        } else if !namespace.is_empty() && over(&|held| held.of(namespace), self.namespace_limit()) {
            Some(full(
                &format!("namespace {namespace}"),
                self.held.of(namespace),
                "one namespace may",
                self.namespace_limit(),
            ))
        } else if is_volatile(entry) && over(&|held| held.volatile, self.volatile_limit()) {
            let limit = self.volatile_limit();
            Some(format!(
                "what lives in memory alone is full: it holds {} of {}; the oldest events go by themselves",
                megabytes(self.held.volatile),
                megabytes(limit)
            ))
        } else {
            None
        };
        why.filter(|_| !change.old.as_ref().is_some_and(|old| marked(&entry.stored) && !marked(old)))
    }

    pub fn fill(&self) -> FillLevel {
        let near = |held: u64, limit: u64| held >= limit / 10 * WARNED_TENTHS;
        let all = near(self.held.all, self.limit).then(|| full("the store", self.held.all, "it may", self.limit));
        let limit = self.namespace_limit();
        // Where one may have all, that all is full says it.
        let shares = self.held.namespaces.iter().filter(|(name, _)| !name.is_empty() && limit < self.limit);
        let namespaces = shares.filter(|(_, held)| near(**held, limit));
        let namespaces =
            namespaces.map(|(name, held)| full(&format!("namespace {name}"), *held, "one namespace may", limit));
        FillLevel { bytes: self.held.all, bytes_max: self.limit, warnings: all.into_iter().chain(namespaces).collect() }
    }

    fn namespace_limit(&self) -> u64 {
        (self.limit / NAMESPACE_SHARE).max(NAMESPACE_BYTES_MIN).min(self.limit)
    }

    fn users_limit(&self) -> u64 {
        self.limit - self.limit / SYSTEM_SHARE
    }

    fn volatile_limit(&self) -> u64 {
        self.limit / VOLATILE_SHARE
    }
}

fn is_of_users(namespace: &str) -> bool {
    !namespace.is_empty() && !namespace.starts_with(SYSTEM)
}

fn weight(stored: &Stored) -> u64 {
    stored.json.len() as u64 + OBJECT_BYTES
}

fn is_volatile(entry: &Entry) -> bool {
    entry.durable == Durable::Nothing
}

fn growth(change: &PlannedChange) -> u64 {
    let new = change.entry.as_ref().map_or(0, |entry| weight(&entry.stored));
    new.saturating_sub(change.old.as_ref().map_or(0, weight))
}

fn full(what: &str, held: u64, may: &str, limit: u64) -> String {
    let (held, limit) = (megabytes(held), megabytes(limit));
    format!(
        "{what} holds {held} of the {limit} that {may}: delete what is not needed, or start the master with a larger \
         --store-limit"
    )
}

/// `127.9 MB`, never more than it is.
pub fn megabytes(bytes: u64) -> String {
    let (whole, rest) = (bytes >> 20, bytes % (1 << 20));
    if rest == 0 { format!("{whole} MB") } else { format!("{whole}.{} MB", (rest * 10) >> 20) }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Durability;
    use super::*;
    use bytes::Bytes;
    use coracle_api::labels::LabelSet;
    use coracle_api::meta::{Key, Resource, Revision};
    use std::sync::Arc;

    const MB: u64 = 1 << 20;

    /// An object of this size in this namespace.
    fn stored(namespace: &str, bytes: u64, marked: bool) -> Stored {
        let mark = if marked { "\"deletionTimestamp\":\"now\"" } else { "" };
        let text = format!("{mark}{}", "x".repeat((bytes - OBJECT_BYTES) as usize - mark.len()));
        let key = Key { resource: Resource::core("pods"), namespace: namespace.to_owned(), name: "a".to_owned() };
        Stored::new(Arc::new(key), Revision(1), Bytes::from(text), LabelSet::default())
    }

    fn change(old: Option<Stored>, new: Option<Stored>, durable: Durable) -> PlannedChange {
        let known = new.clone().or(old.clone()).expect("one of both");
        let entry = new.map(|stored| Entry { stored, durable, file_crc: None, claims: Box::default() });
        let (revision, key) = (Revision(2), known.key.clone());
        PlannedChange {
            revision,
            key,
            step: Durability::Keep,
            old,
            former: Box::default(),
            former_crc: None,
            entry,
            answer: known,
        }
    }

    /// `held`: in all, in namespace `a`, in memory alone. `ahead`: the part of `held` that is decided but not done.
    fn check(limit: u64, held: (u64, u64, u64), ahead: u64, change: &PlannedChange, expected: Option<&str>) {
        let of = |all: u64, namespace: u64, volatile: u64| StoreUsage {
            all,
            volatile,
            namespaces: BTreeMap::from([("a".to_owned(), namespace), ("b".to_owned(), all - namespace)]),
        };
        let room = StoreRoom {
            held: of(held.0 - ahead, held.1.saturating_sub(ahead), held.2.saturating_sub(ahead)),
            begun: StoreUsage::default(),
            limit,
        };
        let why = room.refuses(change, &of(ahead, ahead, ahead));
        let fits = match (&why, expected) {
            (Some(why), Some(expected)) => why.starts_with(expected),
            (why, expected) => why.is_none() && expected.is_none(),
        };
        assert!(fits, "{limit} {held:?} {ahead}: {why:?}, not {expected:?}");
    }

    #[test]
    fn what_has_room() {
        let made = |bytes: u64| change(None, Some(stored("a", bytes, false)), Durable::Whole);
        let grown =
            |from: u64, to: u64| change(Some(stored("a", from, false)), Some(stored("a", to, false)), Durable::Whole);
        let marked =
            |from: u64, to: u64| change(Some(stored("a", from, false)), Some(stored("a", to, true)), Durable::Whole);
        let gone = change(Some(stored("a", MB, false)), None, Durable::Whole);
        let whole = Some("the store holds 100 MB of the 100 MB that it may: delete");
        let half = Some("namespace a holds 50 MB of the 50 MB that one namespace may: delete");
        let of_users = Some("the store holds 93.7 MB of the 93.7 MB that users' namespaces may: delete");
        let users = 100 * MB - 100 * MB / 16;
        // In all.
        let of = |namespace: &str| change(None, Some(stored(namespace, MB, false)), Durable::Whole);
        check(100 * MB, (users - MB, 0, 0), 0, &made(MB), None);
        check(100 * MB, (users, 0, 0), 0, &made(1_000), of_users);
        check(100 * MB, (99 * MB, 0, 0), 0, &of("kube-system"), None);
        check(100 * MB, (99 * MB, 0, 0), 0, &of(""), None);
        check(100 * MB, (100 * MB, 0, 0), 0, &of(""), whole);
        check(100 * MB, (100 * MB, 0, 0), 0, &made(1_000), whole);
        check(100 * MB, (100 * MB, 4_000, 0), 4_000, &made(1_000), Some("the store holds"));
        check(100 * MB, (100 * MB, 0, 0), 0, &gone, None);
        check(100 * MB, (100 * MB, 0, 0), 0, &grown(2_000, 1_000), None);
        // What grows a little has some more, and what is marked to go always.
        check(100 * MB, (users, 0, 0), 0, &grown(1_000, 5_000), None);
        check(100 * MB, (users, 0, 0), 0, &grown(1_000, 6_000), of_users);
        check(100 * MB, (100 * MB, 0, 0), 0, &grown(1_000, 6_000), whole);
        check(100 * MB, (107 * MB, 0, 0), 0, &grown(1_000, 2_000), Some("the store holds 107 MB of the 100 MB"));
        check(100 * MB, (200 * MB, 0, 0), 0, &marked(1_000, 2_000), None);
        // One namespace.
        check(100 * MB, (49 * MB, 49 * MB, 0), 0, &made(MB), None);
        check(100 * MB, (50 * MB, 50 * MB, 0), 0, &made(1_000), half);
        check(100 * MB, (50 * MB, 50 * MB, 0), 0, &change(None, Some(stored("b", 1_000, false)), Durable::Whole), None);
        check(100 * MB, (50 * MB, 50 * MB, 0), 0, &change(None, Some(stored("", 1_000, false)), Durable::Whole), None);
        check(40 * MB, (31 * MB, 31 * MB, 0), 0, &made(MB), None);
        check(40 * MB, (32 * MB, 32 * MB, 0), 0, &made(1_000), Some("namespace a holds 32 MB of the 32 MB"));
        check(10 * MB, (8 * MB, 8 * MB, 0), 0, &made(MB), None);
        // What is on no disk.
        let event = change(None, Some(stored("a", 1_000, false)), Durable::Nothing);
        check(100 * MB, (25 * MB, MB, 25 * MB - 1_000), 0, &event, None);
        check(
            100 * MB,
            (25 * MB, MB, 25 * MB),
            0,
            &event,
            Some("what lives in memory alone is full: it holds 25 MB of 25 MB"),
        );
        check(100 * MB, (25 * MB, MB, 25 * MB), 0, &made(1_000), None);
        check(u64::MAX, (100 * MB, 100 * MB, 100 * MB), 0, &event, None);
    }

    #[test]
    fn what_is_over_its_limit_at_the_start_goes_on_as_it_is() {
        let mut held = StoreUsage::default();
        let entry =
            |bytes: u64| change(None, Some(stored("a", bytes, false)), Durable::Whole).entry.expect("it is made");
        held.add(&entry(20 * MB));
        let room = StoreRoom::new(held, 10 * MB);
        let grown = change(Some(stored("a", 1_000, false)), Some(stored("a", 2_000, false)), Durable::Whole);
        assert_eq!(room.refuses(&grown, &StoreUsage::default()), None);
        assert!(
            room.refuses(&change(None, Some(stored("a", 1_000, false)), Durable::Whole), &StoreUsage::default())
                .is_some()
        );
        let warnings: Vec<String> =
            room.fill().warnings.iter().map(|warning| warning.chars().take(40).collect()).collect();
        assert_eq!(warnings, ["the store holds 20 MB of the 10 MB that "]);
        let room = StoreRoom {
            limit: 40 * MB,
            held: StoreUsage { namespaces: BTreeMap::from([("a".to_owned(), 30 * MB)]), ..StoreUsage::default() },
            ..room
        };
        assert!(
            room.fill().warnings[0].starts_with("namespace a holds 30 MB of the 32 MB that one namespace may"),
            "{:?}",
            room.fill()
        );
    }

    #[test]
    fn bytes_for_people() {
        for (bytes, shown) in
            [(0, "0 MB"), (MB, "1 MB"), (MB + MB / 2, "1.5 MB"), (MB - 1, "0.9 MB"), (128 * MB, "128 MB")]
        {
            assert_eq!(megabytes(bytes), shown);
        }
    }
}

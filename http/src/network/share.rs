//! Requests in progress, and the handlers' places that those of each party may take.
use crate::budget::Party;
use http::Method;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

#[derive(Clone)]
pub(super) struct Shares {
    entries_max: usize,
    /// The places of readers, and of writers.
    places_max: (usize, usize),
    parties: Arc<Mutex<HashMap<Party, Share>>>,
}

struct Share {
    entries: usize,
    places: Places,
}

/// Handlers that may run at once: for requests that read, and for requests that may wait for a disk.
#[derive(Clone)]
pub(super) struct Places {
    readers: Arc<Semaphore>,
    writers: Arc<Semaphore>,
}

/// One request of a party; gives its place back when dropped.
pub(super) struct Entry {
    shares: Shares,
    party: Party,
    /// For this party.
    pub(super) places: Places,
}

impl Places {
    pub(super) fn new((readers, writers): (usize, usize)) -> Places {
        Places { readers: Arc::new(Semaphore::new(readers)), writers: Arc::new(Semaphore::new(writers)) }
    }

    /// The semaphore for requests with this method.
    pub(super) fn of(&self, method: &Method) -> Arc<Semaphore> {
        if method.is_safe() { self.readers.clone() } else { self.writers.clone() }
    }
}

impl Shares {
    pub(super) fn new(entries_max: usize, places_max: (usize, usize)) -> Shares {
        Shares { entries_max, places_max, parties: Arc::default() }
    }

    /// `always`: enters even above `entries_max`.
    pub(super) fn enter(&self, party: Party, always: bool) -> Option<Entry> {
        let mut parties = self.parties.lock().expect("no panic under this lock");
        let share = parties.entry(party).or_insert_with(|| Share { entries: 0, places: Places::new(self.places_max) });
        if share.entries >= self.entries_max && !always {
            return None;
        }
        share.entries += 1;
        Some(Entry { shares: self.clone(), party, places: share.places.clone() })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut parties = self.shares.parties.lock().expect("no panic under this lock");
        if let Some(share) = parties.get_mut(&self.party) {
            share.entries -= 1;
            if share.entries == 0 {
                parties.remove(&self.party);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_has_its_share_and_gives_it_back() {
        let shares = Shares::new(2, (1, 2));
        let first = shares.enter(Party::Local, false).unwrap();
        let second = shares.enter(Party::Local, false).unwrap();
        for (method, places) in
            [(Method::GET, 1), (Method::HEAD, 1), (Method::OPTIONS, 1), (Method::PUT, 2), (Method::DELETE, 2)]
        {
            assert!(Arc::ptr_eq(&first.places.of(&method), &second.places.of(&method)));
            assert_eq!(first.places.of(&method).available_permits(), places, "{method}");
        }
        assert!(shares.enter(Party::Local, false).is_none());
        assert!(shares.enter(Party::Local, true).is_some());
        let other = shares.enter(Party::Address([10, 0, 0, 1].into()), false).unwrap();
        drop(first);
        let again = shares.enter(Party::Local, false).unwrap();
        drop((second, again, other));
        assert!(shares.parties.lock().unwrap().is_empty());
    }
}

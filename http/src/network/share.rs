//! How much of something each address has.
use http::Method;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

#[derive(Clone)]
pub(super) struct Shares {
    entries_max: usize,
    /// Who reads, and who may write.
    places_max: (usize, usize),
    addresses: Arc<Mutex<HashMap<IpAddr, Share>>>,
}

struct Share {
    entries: usize,
    places: Places,
}

/// Handlers that may run at once: those that read, and those that may have to wait for a disk.
#[derive(Clone)]
pub(super) struct Places {
    readers: Arc<Semaphore>,
    writers: Arc<Semaphore>,
}

/// One connection or request of an address; gives its place back when dropped.
pub(super) struct Entry {
    shares: Shares,
    key: IpAddr,
    /// For this address.
    pub(super) places: Places,
}

impl Places {
    pub(super) fn new((readers, writers): (usize, usize)) -> Places {
        Places { readers: Arc::new(Semaphore::new(readers)), writers: Arc::new(Semaphore::new(writers)) }
    }

    /// Those that a request takes one of.
    pub(super) fn of(&self, method: &Method) -> Arc<Semaphore> {
        if method.is_safe() { self.readers.clone() } else { self.writers.clone() }
    }
}

impl Shares {
    pub(super) fn new(entries_max: usize, places_max: (usize, usize)) -> Shares {
        Shares { entries_max, places_max, addresses: Arc::default() }
    }

    /// `always`: also where that is one more than there may be.
    pub(super) fn enter(&self, address: IpAddr, always: bool) -> Option<Entry> {
        let key = key(address);
        let mut addresses = self.addresses.lock().expect("no panic under this lock");
        let share = addresses.entry(key).or_insert_with(|| Share { entries: 0, places: Places::new(self.places_max) });
        if share.entries >= self.entries_max && !always {
            return None;
        }
        share.entries += 1;
        Some(Entry { shares: self.clone(), key, places: share.places.clone() })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut addresses = self.shares.addresses.lock().expect("no panic under this lock");
        if let Some(share) = addresses.get_mut(&self.key) {
            share.entries -= 1;
            if share.entries == 0 {
                addresses.remove(&self.key);
            }
        }
    }
}

/// A host commonly has a whole /64 of IPv6.
fn key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_share_and_gives_it_back() {
        let shares = Shares::new(2, (1, 2));
        let enter = |address: &str| shares.enter(address.parse().unwrap(), false);
        let first = enter("10.0.0.1").unwrap();
        let second = enter("::ffff:10.0.0.1").unwrap();
        for (method, places) in [(Method::GET, 1), (Method::HEAD, 1), (Method::OPTIONS, 1), (Method::PUT, 2), (Method::DELETE, 2)] {
            assert!(Arc::ptr_eq(&first.places.of(&method), &second.places.of(&method)));
            assert_eq!(first.places.of(&method).available_permits(), places, "{method}");
        }
        assert!(enter("10.0.0.1").is_none());
        let other = enter("2001:db8::1").unwrap();
        let neighbour = enter("2001:db8::2").unwrap();
        assert!(enter("2001:db8::3").is_none());
        assert!(enter("2001:db8:0:1::3").is_some());
        assert!(shares.enter("2001:db8::3".parse().unwrap(), true).is_some());
        drop(first);
        let again = enter("10.0.0.1").unwrap();
        drop((second, again, other, neighbour));
        assert!(shares.addresses.lock().unwrap().is_empty());
    }
}

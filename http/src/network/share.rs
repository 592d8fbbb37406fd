//! How much of something each address has.
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

#[derive(Clone)]
pub(super) struct Shares {
    entries_max: usize,
    handlers_max: usize,
    addresses: Arc<Mutex<HashMap<IpAddr, Share>>>,
}

struct Share {
    entries: usize,
    handlers: Arc<Semaphore>,
}

/// One connection or request of an address; gives its place back when dropped.
pub(super) struct Entry {
    shares: Shares,
    key: IpAddr,
    /// The handlers that may run at once for this address.
    pub(super) handlers: Arc<Semaphore>,
}

impl Shares {
    pub(super) fn new(entries_max: usize, handlers_max: usize) -> Shares {
        Shares { entries_max, handlers_max, addresses: Arc::default() }
    }

    pub(super) fn enter(&self, address: IpAddr) -> Option<Entry> {
        let key = key(address);
        let mut addresses = self.addresses.lock().expect("no panic under this lock");
        let share = addresses.entry(key).or_insert_with(|| Share { entries: 0, handlers: Arc::new(Semaphore::new(self.handlers_max)) });
        if share.entries >= self.entries_max {
            return None;
        }
        share.entries += 1;
        Some(Entry { shares: self.clone(), key, handlers: share.handlers.clone() })
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
        let shares = Shares::new(2, 1);
        let enter = |address: &str| shares.enter(address.parse().unwrap());
        let first = enter("10.0.0.1").unwrap();
        let second = enter("::ffff:10.0.0.1").unwrap();
        assert!(Arc::ptr_eq(&first.handlers, &second.handlers));
        assert!(enter("10.0.0.1").is_none());
        let other = enter("2001:db8::1").unwrap();
        let neighbour = enter("2001:db8::2").unwrap();
        assert!(enter("2001:db8::3").is_none());
        assert!(enter("2001:db8:0:1::3").is_some());
        drop(first);
        let again = enter("10.0.0.1").unwrap();
        drop((second, again, other, neighbour));
        assert!(shares.addresses.lock().unwrap().is_empty());
    }
}

//! A limit that many clients share. A greedy client, or several, always leave room for others.
//!
//!     take        a share that is within what its party may have
//!     take_most   the same; or, for a party that has nothing, as much of it as it may have: one thing may be larger
//!                 than any share
//!     take_any    what has been done already and must be counted

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Part of a budget that must be there for a thing that is larger than its party's share: else a few such would be in
/// memory at once.
const MOST_PART: usize = 16;

/// The party that a share belongs to: a user, or all clients of one address that have not said who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Party {
    /// Through the socket that only root can open.
    Local,
    Address(IpAddr),
    /// A user of this host: the kernel reports the uid at the other end of a Unix socket.
    User(u32),
    /// A user by name: behind one address may be many. The number is the name's, and another in each process.
    Named(u64),
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Party::Local => f.write_str("the local socket"),
            Party::Address(address) => address.fmt(f),
            Party::User(uid) => write!(f, "user {uid}"),
            Party::Named(_) => f.write_str("a user"),
        }
    }
}

impl Party {
    /// All clients with the name of this user.
    pub fn named(user: &str) -> Party {
        static NUMBERS: OnceLock<RandomState> = OnceLock::new();
        Party::Named(NUMBERS.get_or_init(RandomState::new).hash_one(user))
    }

    /// A host commonly has a whole /64 of IPv6.
    pub fn at(address: SocketAddr) -> Party {
        Party::Address(match address.ip().to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
            v4 => v4,
        })
    }
}

/// Units of something: bytes, places. A party may have at most `times` as much as is then left: with 3 one has three
/// quarters, a second three quarters of what is left, and there is room for the next.
#[derive(Clone)]
pub struct Budget(Arc<Shared>);

struct Shared {
    units: usize,
    times: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    /// Those who have something.
    parties: HashMap<Party, usize>,
}

/// Given back when dropped.
pub struct Held {
    budget: Arc<Shared>,
    party: Party,
    units: usize,
    /// The amount that is held and not counted: more than a share.
    beyond: usize,
}

impl Budget {
    pub fn new(units: usize, times: usize) -> Budget {
        Budget(Arc::new(Shared { units, times, taken: Mutex::default() }))
    }

    pub fn take(&self, party: Party, units: usize) -> Option<Held> {
        let mut held = self.take_any(party, 0);
        held.grow(units).then_some(held)
    }

    pub fn take_most(&self, party: Party, units: usize) -> Option<Held> {
        let mut held = self.take_any(party, 0);
        held.grow_most(units).then_some(held)
    }

    pub fn take_any(&self, party: Party, units: usize) -> Held {
        if units > 0 {
            self.0.lock().add(party, units);
        }
        Held { budget: self.0.clone(), party, units, beyond: 0 }
    }

    /// The total of all parties.
    pub fn taken(&self) -> usize {
        self.0.lock().all
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn add(&mut self, party: Party, units: usize) {
        self.all += units;
        *self.parties.entry(party).or_default() += units;
    }

    fn remove(&mut self, party: Party, units: usize) {
        self.all -= units;
        if let Some(has) = self.parties.get_mut(&party) {
            *has -= units;
            if *has == 0 {
                self.parties.remove(&party);
            }
        }
    }

    fn of(&self, party: Party) -> usize {
        self.parties.get(&party).copied().unwrap_or_default()
    }
}

impl Held {
    /// Takes more units if the party may have so many more; otherwise returns false and changes nothing.
    pub fn grow(&mut self, units: usize) -> bool {
        if units == 0 {
            return true;
        }
        let Shared { units: whole, times, .. } = *self.budget;
        let mut taken = self.budget.lock();
        let left = whole.checked_sub(taken.all + units);
        let may = left.is_some_and(|left| taken.of(self.party) + units <= left.saturating_mul(times));
        if may {
            taken.add(self.party, units);
            self.units += units;
        }
        may
    }

    /// Like `grow`, but if the party holds nothing else and its share is not small, units above the share are not
    /// counted.
    pub fn grow_most(&mut self, units: usize) -> bool {
        if self.grow(units) {
            return true;
        }
        let Shared { units: whole, times, .. } = *self.budget;
        let mut taken = self.budget.lock();
        if taken.of(self.party) > self.units {
            return false;
        }
        let share = whole.saturating_sub(taken.all - self.units) / (times + 1) * times;
        if share < whole / MOST_PART {
            return false;
        }
        let more = share.saturating_sub(self.units).min(units);
        if more > 0 {
            taken.add(self.party, more);
        }
        self.units += more;
        self.beyond += units - more;
        true
    }

    /// Gives units back, uncounted units first.
    pub fn shrink(&mut self, units: usize) {
        let counted = units.saturating_sub(self.beyond).min(self.units);
        self.beyond = self.beyond.saturating_sub(units);
        if counted > 0 {
            self.units -= counted;
            self.budget.lock().remove(self.party, counted);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink(self.units + self.beyond);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(address: &str) -> Party {
        Party::at(SocketAddr::new(address.parse().expect("an address"), 1))
    }

    #[test]
    fn a_party_is_an_address_or_a_network_of_one_host() {
        assert_eq!(party("10.0.0.1"), party("::ffff:10.0.0.1"));
        assert_ne!(party("10.0.0.1"), party("10.0.0.2"));
        assert_eq!(party("2001:db8::1"), party("2001:db8::2"));
        assert_ne!(party("2001:db8::1"), party("2001:db8:0:1::1"));
    }

    #[test]
    fn whoever_takes_all_he_can_leaves_room() {
        let budget = Budget::new(64, 3);
        let all = |party: Party| std::iter::from_fn(|| budget.take(party, 1)).collect::<Vec<Held>>();
        let hogs: Vec<Vec<Held>> = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|address| all(party(address))).into();
        assert_eq!(hogs.iter().map(Vec::len).collect::<Vec<_>>(), [48, 12, 3]);
        assert_eq!(budget.taken(), 63);
        drop(hogs);
        assert_eq!(budget.taken(), 0);
        assert!(budget.0.lock().parties.is_empty(), "nothing is remembered of who has left");
        assert_eq!(all(Party::Local).len(), 48);
    }

    #[test]
    fn what_grows_keeps_within_its_share() {
        let budget = Budget::new(64, 3);
        let mut held = budget.take(Party::Local, 0).expect("nothing is always there");
        assert!(held.grow(40) && !held.grow(9) && held.grow(8) && !held.grow(1));
        assert_eq!(budget.taken(), 48);
        drop(held);
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn one_thing_may_be_larger_than_a_share() {
        let budget = Budget::new(64, 3);
        let large = budget.take_most(Party::Local, 1000).expect("it has nothing yet");
        assert_eq!(budget.taken(), 48);
        assert!(budget.take_most(Party::Local, 1).is_none(), "now it has");
        let other = budget.take_most(party("10.0.0.1"), 1000).expect("another has nothing yet");
        assert_eq!(budget.taken(), 60);
        assert!(budget.take_most(party("10.0.0.2"), 1000).is_none(), "too little is left for what is large");
        assert!(budget.take_most(party("10.0.0.2"), 2).is_some(), "and enough for what is not");
        drop((large, other));
        let mut growing = budget.take(Party::Local, 0).expect("nothing is always there");
        assert!((0..100).all(|_| growing.grow_most(1)));
        assert_eq!(budget.taken(), 48);
        drop(growing);
        let done = budget.take_any(Party::Local, 100);
        assert!(budget.take(party("10.0.0.1"), 1).is_none());
        drop(done);
        assert_eq!(budget.taken(), 0);
    }
}

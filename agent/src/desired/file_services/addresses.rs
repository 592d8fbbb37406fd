//! The addresses of the Services of files, by name: the same name has the same address after every restart. PURE.
//!
//!     NAMESPACE/NAME -> the address on record, else one that follows from the name, else the next free address
//!
//! An address that follows from the name is mostly the same even where the record is lost. The first address of the
//! range is the agent's DNS server.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use coracle_api::strategy::Cidr;
use serde::{Deserialize, Serialize};

use crate::facts::hash::hash_text;

/// Names on record: as many as a directory has files. The names of Services that are gone are forgotten first.
pub const NAMES_MAX: usize = 1000;

/// What is on record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AddressBook {
    /// The agent answers for names although no master gives an address for that. It stays so: pods that run ask there.
    pub dns: bool,
    /// By `NAMESPACE/NAME`.
    pub addresses: BTreeMap<String, Ipv4Addr>,
}

impl AddressBook {
    /// Nothing was ever asked for.
    pub fn is_empty(&self) -> bool {
        *self == AddressBook::default()
    }

    /// The address of a name, put on record. `taken`: addresses of the Services that are served now. None: no address
    /// of the range is free.
    pub fn give(&mut self, range: Cidr, name: &str, taken: &BTreeSet<Ipv4Addr>) -> Option<Ipv4Addr> {
        let fits = |address: &Ipv4Addr| can_give(range, *address) && !taken.contains(address);
        if let Some(known) = self.addresses.get(name).copied().filter(fits) {
            return Some(known);
        }
        let on_record: BTreeSet<Ipv4Addr> = self.addresses.values().copied().collect();
        let free = candidates(range, name).find(|address| fits(address) && !on_record.contains(address));
        // Every address is on record: the address of a Service that is gone is used again.
        let given = free.or_else(|| candidates(range, name).find(fits))?;
        self.note(name, given);
        Some(given)
    }

    /// Records the address that a Service names itself.
    pub fn note(&mut self, name: &str, address: Ipv4Addr) {
        self.addresses.retain(|of, known| of == name || *known != address);
        self.addresses.insert(name.to_owned(), address);
    }

    /// Forgets names beyond the limit of the record. `asked`: the names that files ask for.
    pub fn shorten(&mut self, asked: &BTreeSet<String>) {
        let too_many = self.addresses.len().saturating_sub(NAMES_MAX);
        let unused = self.addresses.keys().filter(|name| !asked.contains(*name)).take(too_many);
        for name in unused.cloned().collect::<Vec<_>>() {
            self.addresses.remove(&name);
        }
    }
}

/// Where the agent answers for names.
pub fn dns_address(range: Cidr) -> Option<Ipv4Addr> {
    range.nth(0)
}

pub fn can_give(range: Cidr, address: Ipv4Addr) -> bool {
    range.can_give(address) && dns_address(range) != Some(address)
}

/// All addresses that can be given, beginning at a place that follows from the name.
fn candidates(range: Cidr, name: &str) -> impl Iterator<Item = Ipv4Addr> {
    let count = range.usable();
    let start = u32::from_str_radix(&hash_text(name)[..8], 16).unwrap_or_default() % count.max(1);
    (0..count).filter_map(move |step| range.nth((start + step) % count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range() -> Cidr {
        Cidr::parse("10.97.0.0/29").unwrap()
    }

    #[test]
    fn a_name_keeps_its_address() {
        let mut book = AddressBook::default();
        let nobody = BTreeSet::new();
        let web = book.give(range(), "default/web", &nobody).unwrap();
        assert_eq!(book.give(range(), "default/web", &nobody), Some(web));
        assert_eq!(AddressBook::default().give(range(), "default/web", &nobody), Some(web), "a record that was lost");
        let taken = BTreeSet::from([web]);
        let db = book.give(range(), "default/db", &taken).unwrap();
        assert_ne!(web, db);
        // A Service that is gone for a while finds its address free.
        assert_eq!(book.give(range(), "default/web", &BTreeSet::from([db])), Some(web));
        let text = serde_json::to_string(&book).unwrap();
        assert_eq!(serde_json::from_str::<AddressBook>(&text).unwrap(), book);
        // Another range gives another address.
        let other = Cidr::parse("10.98.0.0/29").unwrap();
        assert!(other.contains(book.give(other, "default/web", &nobody).unwrap()));
    }

    #[test]
    fn a_full_range_uses_addresses_of_services_that_are_gone() {
        let mut book = AddressBook::default();
        let mut taken = BTreeSet::new();
        // Six addresses, of which the first is the DNS server's.
        for at in 0..5 {
            let address = book.give(range(), &format!("d/{at}"), &taken).unwrap();
            assert!(taken.insert(address) && Some(address) != dns_address(range()), "{address}");
        }
        assert_eq!(book.give(range(), "d/more", &taken), None);
        let gone = book.addresses["d/3"];
        taken.remove(&gone);
        assert_eq!(book.give(range(), "d/more", &taken), Some(gone));
        assert!(!book.addresses.contains_key("d/3"));
    }

    #[test]
    fn the_record_is_bounded() {
        let mut book = AddressBook::default();
        let wide = Cidr::parse("10.96.0.0/12").unwrap();
        for at in 0..NAMES_MAX + 7 {
            book.give(wide, &format!("d/{at:05}"), &BTreeSet::new());
        }
        let asked: BTreeSet<String> = (0..5).map(|at| format!("d/{at:05}")).collect();
        book.shorten(&asked);
        assert_eq!(book.addresses.len(), NAMES_MAX);
        assert!(asked.iter().all(|name| book.addresses.contains_key(name)));
    }
}

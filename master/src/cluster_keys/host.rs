//! The addresses of this host, as the kernel's files say: a sandbox without netlink sockets can read them too.

use super::names::{addresses_of_interfaces, addresses_of_trie};
use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;

/// Addresses of IPv4 that are this host's own.
const TRIE: &str = "/proc/net/fib_trie";
/// Interfaces with addresses of IPv6; absent where the kernel has none.
const INTERFACES: &str = "/proc/net/if_inet6";

/// Every address of this host. A file that cannot be read gives none: the certificate then lacks them, and the next
/// look adds them.
pub fn addresses() -> Vec<IpAddr> {
    let (trie, interfaces) =
        (fs::read_to_string(TRIE).unwrap_or_default(), fs::read_to_string(INTERFACES).unwrap_or_default());
    let all: BTreeSet<IpAddr> = addresses_of_trie(&trie).chain(addresses_of_interfaces(&interfaces)).collect();
    all.into_iter().collect()
}

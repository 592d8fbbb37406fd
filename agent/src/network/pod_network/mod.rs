//! The network of the pods, where it is the agent's own: which address a pod has, and how it is plugged in. PURE.
//!
//!     sandbox (engine's network `none`) --eth0 ==veth== bridge `coracle0` --- this host, which is the pods' way out
//!
//!     here: addresses, and what `ip` is told · forward: the rules beside Docker's · nft: the table of ours
//!     guard: the table that holds each wire to its addresses · plug: carries it out · keep: looks after all of it
//!
//! The address stands on the sandbox's label, so whoever looks at the engine knows it. If the engine has a network of
//! the same name, the agent uses the bridge of that network: pods of both kinds share the bridge.

pub mod forward;
pub mod guard;
pub mod keep;
pub mod nft;
pub mod plug;

use coracle_api::strategy::Cidr;

use crate::host::machine::gateway;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

/// The kernel's name for the pods' bridge. Routes to service addresses lead to the bridge.
pub const BRIDGE: &str = "coracle0";
/// The label with a sandbox's address, on sandboxes that the agent plugs in.
pub const LABEL_ADDRESS: &str = "dev.coracle.address";

/// Whose the network of new pods is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// The engine makes it, gives addresses and publishes ports.
    #[default]
    Engine,
    /// The agent does.
    Own,
}

/// A free address of the pods' range. The engine gives its own from below, so these come from above: should pods go
/// back to the engine's network, it takes none of theirs. The search begins after `given_last`, so that an address
/// rests before another pod gets the address.
pub fn free(pods: Cidr, used: &BTreeSet<IpAddr>, given_last: Option<IpAddr>) -> Option<IpAddr> {
    let (first, last) = (u32::from(pods.first()), u32::from(pods.last()));
    let middle = first + (last - first) / 2;
    let given_last = given_last.and_then(number).filter(|given| *given > middle && *given < last).unwrap_or(last);
    let upper = (middle + 1..given_last).rev().chain((given_last..last).rev());
    let lower = (first + 2..=middle).rev();
    upper.chain(lower).map(|number| IpAddr::from(Ipv4Addr::from(number))).find(|address| !used.contains(address))
}

/// The pods' range is of IPv4, for now.
fn number(address: IpAddr) -> Option<u32> {
    match address {
        IpAddr::V4(address) => Some(address.into()),
        IpAddr::V6(_) => None,
    }
}

/// The network that an interface is in with others: `192.0.2.7/24`. None: it is alone in it, or in all.
pub fn network(text: &str) -> Option<Cidr> {
    Cidr::parse(text).filter(|network| (1..=30).contains(&network.bits()))
}

/// The name of the host's end of a sandbox's wire. Each start gets a new name, because the former wire may still exist.
pub fn wire(id: &str, pid: i64) -> String {
    format!("{}{pid:06x}", wires_of(id))
}

/// How the names of a sandbox's wires begin.
pub fn wires_of(id: &str) -> String {
    format!("v{}", id.get(..8).unwrap_or(id))
}

/// Whether this is the name of a sandbox's wire.
pub fn is_wire(name: &str) -> bool {
    const LETTERS: usize = 15;
    let hex = |rest: &str| rest.len() + 1 == LETTERS && rest.bytes().all(|sign| sign.is_ascii_hexdigit());
    name.strip_prefix('v').is_some_and(hex)
}

/// Derives the MAC address from the IP address, so that neighbour caches stay right when another pod gets the IP
/// address.
fn hardware(address: IpAddr) -> String {
    let [.., a, b, c, d] = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    format!("02:43:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

/// Makes the bridge. A fixed MAC address is set: a bridge without it takes the lowest MAC address of its ports, which
/// changes with the pods.
pub fn new_bridge(pods: Cidr) -> String {
    format!("link add name {BRIDGE} type bridge\nlink set {BRIDGE} address {}\n", hardware(gateway(pods)))
}

pub fn bridge_up(pods: Cidr) -> String {
    format!("addr replace {}/{} dev {BRIDGE}\nlink set {BRIDGE} up\n", gateway(pods), pods.bits())
}

/// A wire into that network, named by a path.
pub fn new_wire(name: &str, network: &str, address: IpAddr) -> String {
    format!("link add name {name} type veth peer name eth0 address {} netns {network}\n", hardware(address))
}

/// Files of the kernel below `/proc/sys` and their values: what pods send changes no route and no address of this host.
/// Nothing of IPv6 goes over the bridge and its wires. The values before the last one hold where somebody switches
/// IPv6 on again.
pub fn closed_routes(name: &str) -> [(String, &'static str); 5] {
    let of = |setting: &str, value| (format!("net/ipv6/conf/{name}/{setting}"), value);
    [
        (format!("net/ipv4/conf/{name}/accept_redirects"), "0"),
        of("accept_ra", "0"),
        of("accept_redirects", "0"),
        of("autoconf", "0"),
        of("disable_ipv6", "1"),
    ]
}

/// Whether a process is of that container, by the groups that the kernel names: its number may have become another's.
/// An engine that names no container there says nothing.
pub fn is_of(groups: &str, container: &str) -> bool {
    const ID_LETTERS: usize = 64;
    let is_id = |word: &str| word.len() == ID_LETTERS && word.bytes().all(|sign| sign.is_ascii_hexdigit());
    groups.contains(container) || !groups.split(|sign: char| !sign.is_ascii_alphanumeric()).any(is_id)
}

pub fn end_wire(name: &str) -> String {
    format!("link delete {name}\n")
}

/// In the sandbox. It may be said twice.
pub fn inside(pods: Cidr, address: IpAddr) -> String {
    let (bits, gateway) = (pods.bits(), gateway(pods));
    format!(
        "link set lo up\naddr replace {address}/{bits} dev eth0\nlink set eth0 up\n\
         route replace default via {gateway} dev eth0\n"
    )
}

/// The last of it: a wire that is on the bridge is whole.
pub fn join(name: &str) -> String {
    format!("link set {name} master {BRIDGE}\nlink set {name} up\n")
}

/// An interface of this host whose network and that of the pods have addresses in common. `shown`: what
/// `ip -4 -o addr show` says.
pub fn overlap(shown: &str, pods: Cidr) -> Option<String> {
    shown.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (name, _, at) = (words.next()?, words.next()?, words.next()?);
        (name != BRIDGE && network(at)?.overlaps(pods)).then(|| format!("{at} of {name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_are_given_from_above_and_rest() {
        let check = |cidr: &str, used: &[&str], last: Option<&str>, expected: Option<&str>| {
            let used = used.iter().map(|text| address(text)).collect();
            let found = free(Cidr::parse(cidr).unwrap(), &used, last.map(address));
            assert_eq!(found, expected.map(address), "{cidr} {used:?} {last:?}");
        };
        let net = "10.244.0.0/24";
        check(net, &[], None, Some("10.244.0.254"));
        check(net, &["10.244.0.254"], None, Some("10.244.0.253"));
        check(net, &[], Some("10.244.0.254"), Some("10.244.0.253"));
        check(net, &["10.244.0.252"], Some("10.244.0.253"), Some("10.244.0.251"));
        // Round and round in the upper half.
        check(net, &[], Some("10.244.0.128"), Some("10.244.0.254"));
        check(net, &[], Some("10.9.0.7"), Some("10.244.0.254"));
        // A small one: its own, this host's and the broadcast address are nobody's.
        let small = "10.0.0.8/29";
        check(small, &["10.0.0.14", "10.0.0.13", "10.0.0.12"], Some("10.0.0.12"), Some("10.0.0.11"));
        check(small, &["10.0.0.14", "10.0.0.13", "10.0.0.12", "10.0.0.11"], None, Some("10.0.0.10"));
        check(small, &["10.0.0.14", "10.0.0.13", "10.0.0.12", "10.0.0.11", "10.0.0.10"], None, None);
        for wrong in ["", "10.0.0.0", "10.0.0.0/0", "10.0.0.0/31", "x/24"] {
            assert_eq!(network(wrong), None, "{wrong}");
        }
        let pods = network("10.244.3.7/24").unwrap();
        assert_eq!((gateway(pods), pods.to_string().as_str()), (address("10.244.3.1"), "10.244.3.0/24"));
    }

    #[test]
    fn what_ip_is_told() {
        let pods = Cidr::parse("10.244.0.0/24").unwrap();
        let name = wire("0123456789abcdef", 4_194_303);
        assert!(
            name == "v012345673fffff" && name.len() == 15 && name.starts_with(&wires_of("0123456789abcdef")),
            "{name}"
        );
        assert!(is_wire(&name) && !is_wire("veth1234567") && !is_wire("veth12345678901") && !is_wire("v1"));
        assert_eq!(
            new_bridge(pods) + &bridge_up(pods),
            "link add name coracle0 type bridge\nlink set coracle0 address 02:43:0a:f4:00:01\n\
             addr replace 10.244.0.1/24 dev coracle0\nlink set coracle0 up\n"
        );
        assert_eq!(
            new_wire("v1", "/proc/7/fd/9", address("10.244.0.254")) + &join("v1"),
            "link add name v1 type veth peer name eth0 address 02:43:0a:f4:00:fe netns /proc/7/fd/9\n\
             link set v1 master coracle0\nlink set v1 up\n"
        );
        assert_eq!(
            inside(pods, address("10.244.0.254")),
            "link set lo up\naddr replace 10.244.0.254/24 dev eth0\nlink set eth0 up\n\
             route replace default via 10.244.0.1 dev eth0\n"
        );
    }

    #[test]
    fn a_number_that_became_another_processs_is_noticed() {
        let (ours, other) = ("a".repeat(64), "b".repeat(64));
        for (groups, expected) in [
            (format!("0::/system.slice/docker-{ours}.scope\n"), true),
            (format!("9:name=systemd:/docker/{ours}\n0::/\n"), true),
            (format!("0::/machine.slice/libpod-{ours}.scope/container\n"), true),
            (format!("0::/system.slice/docker-{other}.scope\n"), false),
            ("0::/\n".to_owned(), true),
            (String::new(), true),
        ] {
            assert_eq!(is_of(&groups, &ours), expected, "{groups}");
        }
    }

    #[test]
    fn networks_that_overlap_are_named() {
        let shown = "1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever\n\
                     2: eth0    inet 10.244.0.7/16 brd 10.244.255.255 scope global eth0\n\
                     3: coracle0    inet 10.244.0.1/24 scope global coracle0\n\
                     4: wg0    inet 10.245.0.1/32 scope global wg0\n";
        let check = |cidr: &str, expected: Option<&str>| {
            assert_eq!(overlap(shown, Cidr::parse(cidr).unwrap()).as_deref(), expected, "{cidr}");
        };
        check("10.244.0.0/24", Some("10.244.0.7/16 of eth0"));
        check("10.0.0.0/8", Some("10.244.0.7/16 of eth0"));
        check("10.245.0.0/24", None);
    }
}

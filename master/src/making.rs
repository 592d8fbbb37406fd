//! Supplies what a create needs and pure code cannot have: the time, a uid, the random part of a name, a free address
//! or port.

use crate::store::{Derived, Page, Store, Stored};
use coracle_api::meta::Time;
use coracle_api::strategy::addresses::{RANGES, cidrs, is_ready};
use coracle_api::strategy::{Cidr, Making, NodePorts, Ranges};
use serde_json::Value;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Characters of generated names, as Kubernetes picks them: no vowels, so no words, and nothing that looks like
/// another.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
pub const SUFFIX_BYTES: usize = 5;
/// The kernel has 64.
const HOST_NAME_BYTES_MAX: u64 = 256;

/// Makes a `Making` for one decision.
pub struct Maker {
    store: Arc<dyn Store>,
    /// All ranges of service addresses.
    service_ranges: Derived<Ranges>,
    node_ports: NodePorts,
    entropy: Entropy,
    clock: Box<dyn Fn() -> Time + Send + Sync>,
}

impl Maker {
    pub fn new(store: Arc<dyn Store>, service_cidr: Cidr, node_ports: NodePorts) -> io::Result<Maker> {
        let service_ranges = service_ranges(service_cidr);
        Ok(Maker { store, service_ranges, node_ports, entropy: Entropy::open()?, clock: Box::new(wall_clock) })
    }

    /// For simulations: chance and time are the caller's.
    pub fn simulated(
        store: Arc<dyn Store>,
        service_cidr: Cidr,
        random: impl Fn(&mut [u8]) + Send + Sync + 'static,
        clock: impl Fn() -> Time + Send + Sync + 'static,
    ) -> Maker {
        Maker {
            store,
            service_ranges: service_ranges(service_cidr),
            node_ports: NodePorts::default(),
            entropy: Entropy::Simulated(Box::new(random)),
            clock: Box::new(clock),
        }
    }

    /// All ranges of service addresses: the cluster's own range, and the ranges of all ready ServiceCIDRs.
    pub fn service_ranges(&self) -> Ranges {
        *self.service_ranges.get(&*self.store, None)
    }

    pub fn node_ports(&self) -> NodePorts {
        self.node_ports
    }

    pub fn uuid(&self) -> String {
        self.entropy.uuid()
    }

    /// Numbers that nobody can guess.
    pub fn random<const N: usize>(&self) -> [u8; N] {
        self.entropy.bytes()
    }

    /// Letters for a name that nobody has.
    pub fn suffix(&self) -> String {
        self.entropy.suffix()
    }

    /// The values that a create needs and that cannot be computed, handed to `with`, which decides.
    pub fn making<T>(&self, with: impl FnOnce(&mut Making<'_>) -> T) -> T {
        let taken = |space: &'static str| {
            let mut owners: Option<HashSet<String>> = None;
            move |value: &str| {
                owners
                    .get_or_insert_with(|| {
                        self.store.claimed(space).into_iter().map(|(value, _)| bare(value)).collect()
                    })
                    .contains(value)
            }
        };
        let mut given = Vec::new();
        let mut addresses = taken("clusterIP");
        let mut ports = taken("nodePort");
        let mut given_ports: Vec<String> = Vec::new();
        let mut making = Making {
            now: (self.clock)(),
            uid: self.entropy.uuid(),
            suffix: &mut || self.entropy.suffix(),
            service_address: &mut || {
                let start = self.entropy.below(u32::MAX);
                let mut taken = |text: &str| given.contains(&text.to_owned()) || addresses(text);
                let free = self
                    .service_ranges()
                    .iter()
                    .find_map(|cidr| free_address(cidr.usable(), |n| cidr.nth(n), start, &mut taken));
                given.extend(free.map(|address| address.to_string()));
                free
            },
            node_port: &mut || {
                let start = self.entropy.below(u32::MAX);
                let free =
                    free_port(self.node_ports, start, |text| given_ports.contains(&text.to_owned()) || ports(text));
                given_ports.extend(free.map(|port| port.to_string()));
                free
            },
        };
        with(&mut making)
    }
}

fn service_ranges(own: Cidr) -> Derived<Ranges> {
    Derived::new([RANGES], move |pages: &[Page]| {
        let ready = |stored: &Stored| -> Vec<Cidr> {
            let document: Value = serde_json::from_slice(&stored.json).unwrap_or_default();
            if is_ready(&document) { cidrs(&document).collect() } else { Vec::new() }
        };
        let more = pages.iter().flat_map(|page| &page.items).flat_map(ready).filter(|range| *range != own);
        Ranges::new(std::iter::once(own).chain(more))
    })
}

/// For files that people wrote before there was a store to ask: addresses and ports have to stand in them.
pub fn by_hand<T>(with: impl FnOnce(&mut Making<'_>) -> T) -> io::Result<T> {
    let entropy = Entropy::open()?;
    Ok(with(&mut Making {
        now: wall_clock(),
        uid: entropy.uuid(),
        suffix: &mut || entropy.suffix(),
        service_address: &mut || None,
        node_port: &mut || None,
    }))
}

/// The claim `TCP/30080` is of port 30080, and takes it for all protocols: people expect one number to mean one
/// service.
fn bare(value: String) -> String {
    value.rsplit('/').next().map(str::to_owned).unwrap_or(value)
}

/// The name of this host. None: the kernel does not say.
pub fn host_name() -> Option<String> {
    let mut name = String::new();
    File::open("/proc/sys/kernel/hostname")
        .and_then(|file| file.take(HOST_NAME_BYTES_MAX).read_to_string(&mut name))
        .ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The wall clock, as objects show it.
pub fn wall_clock() -> Time {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Time::from_seconds(i64::try_from(since_1970.as_secs()).unwrap_or_default())
        .expect("a time of this age of the world")
}

/// The wall clock as RFC 3339 with microseconds, as logs show it.
pub fn precise_time() -> String {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since_1970.as_micros()).unwrap_or_default();
    jiff::Timestamp::from_microsecond(micros).map(|at| format!("{at:.6}")).unwrap_or_default()
}

/// The kernel's random device, kept open: it must still answer when no descriptor is free.
pub type Fill = Box<dyn Fn(&mut [u8]) + Send + Sync>;

/// The kernel's random device, or the numbers of a simulation.
pub enum Entropy {
    Device(File),
    Simulated(Fill),
}

impl Entropy {
    pub fn open() -> io::Result<Entropy> {
        File::open("/dev/urandom").map(Entropy::Device)
    }

    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        match self {
            Entropy::Device(device) => {
                let mut device: &File = device;
                device.read_exact(&mut bytes).expect("the kernel's random device never ends and was open");
            }
            Entropy::Simulated(fill) => fill(&mut bytes),
        }
        bytes
    }

    /// A random (version 4) UUID.
    fn uuid(&self) -> String {
        let mut bytes = self.bytes::<16>();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    fn suffix(&self) -> String {
        self.bytes::<SUFFIX_BYTES>().iter().map(|byte| LETTERS[usize::from(*byte) % LETTERS.len()] as char).collect()
    }

    /// A number below `end`, which is not 0.
    fn below(&self, end: u32) -> u32 {
        u32::from_le_bytes(self.bytes::<4>()) % end
    }
}

/// A free address: searched from a random place in the upper part of the range, since people choose from the lower.
fn free_address(
    usable: u32,
    nth: impl Fn(u32) -> Option<Ipv4Addr>,
    start: u32,
    mut taken: impl FnMut(&str) -> bool,
) -> Option<Ipv4Addr> {
    let chosen = (usable / 16).clamp(16, 256).min(usable / 2);
    let upper = usable.checked_sub(chosen).filter(|upper| *upper > 0)?;
    let order = (0..upper).map(|n| chosen + (start % upper + n) % upper).chain(0..chosen);
    order.filter_map(nth).find(|address| !taken(&address.to_string()))
}

/// A free port, in the same way.
fn free_port(ports: NodePorts, start: u32, mut taken: impl FnMut(&str) -> bool) -> Option<u16> {
    let (first, count) = (u32::from(ports.first()), ports.count());
    // As many for people as in Kubernetes, given only when no other is left.
    let chosen = Some((count / 32).clamp(16, 128)).filter(|chosen| *chosen < count).unwrap_or_default();
    let upper = count - chosen;
    let order = (0..upper).map(|n| chosen + (start % upper + n) % upper).chain(0..chosen);
    order.map(|n| first + n).filter_map(|port| u16::try_from(port).ok()).find(|port| !taken(&port.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        let entropy = Entropy::open().expect("a random device");
        let (one, other) = (entropy.uuid(), entropy.uuid());
        assert_ne!(one, other);
        assert_eq!((one.len(), one.as_bytes()[14]), (36, b'4'));
        assert_eq!(entropy.suffix().len(), SUFFIX_BYTES);
    }

    #[test]
    fn every_address_is_found_once_all_others_are_taken() {
        let nth = |n: u32| (n < 62).then(|| Ipv4Addr::from(0x0a00_0001 + n));
        let mut given = Vec::new();
        while let Some(address) = free_address(62, nth, 77, |text| given.contains(&text.to_owned())) {
            given.push(address.to_string());
        }
        assert_eq!(given.len(), 62);
        assert_eq!(given[61], "10.0.0.16", "the part that people choose from comes last");
    }

    #[test]
    fn ports() {
        let usual = NodePorts::default();
        assert_eq!(free_port(usual, 5, |_| false), Some(30091));
        assert_eq!(free_port(usual, 2681, |port| port == "32767"), Some(30086));
        assert_eq!(free_port(usual, 0, |port| port >= "30086"), Some(30000));
        assert_eq!(free_port(usual, 0, |_| true), None);
        assert!(free_port(usual, u32::MAX, |port| port != "30000").is_some());
        let few = NodePorts::parse("80-82").unwrap();
        assert_eq!((free_port(few, 4, |_| false), free_port(few, 4, |port| port != "80")), (Some(81), Some(80)));
    }
}

//! Address ranges: IPv4 ranges of services and pods, and ranges of either family in objects.

use coracle_schema::Path;
use serde_json::Value;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 address range for services or pods: `10.96.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    base: Ipv4Addr,
    bits: u8,
}

impl Cidr {
    /// None unless it is an address, a slash and a prefix length up to 32, written as Kubernetes writes them. Bits
    /// after the prefix are dropped.
    pub fn parse(text: &str) -> Option<Cidr> {
        let (address, bits) = text.split_once('/')?;
        let address: Ipv4Addr = address.parse().ok()?;
        let plain = bits == "0"
            || (!bits.is_empty() && !bits.starts_with('0') && bits.bytes().all(|byte| byte.is_ascii_digit()));
        let bits = bits.parse().ok().filter(|bits| plain && *bits <= 32)?;
        Some(Cidr { base: Ipv4Addr::from(u32::from(address) & mask(bits)), bits })
    }

    /// The length of its prefix.
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// The range's own address.
    pub fn first(self) -> Ipv4Addr {
        self.base
    }

    /// Its broadcast address.
    pub fn last(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.base) | !mask(self.bits))
    }

    /// None of IPv6.
    pub fn contains(self, address: impl Into<IpAddr>) -> bool {
        match address.into() {
            IpAddr::V4(address) => u32::from(address) & mask(self.bits) == u32::from(self.base),
            IpAddr::V6(_) => false,
        }
    }

    /// All of the other.
    pub fn holds(self, other: Cidr) -> bool {
        self.bits <= other.bits && self.contains(other.base)
    }

    /// Whether both have addresses in common.
    pub fn overlaps(self, other: Cidr) -> bool {
        self.holds(other) || other.holds(self)
    }

    /// How many addresses can be given to services: all but the range's own address and its broadcast.
    pub fn usable(self) -> u32 {
        (!mask(self.bits)).saturating_sub(1)
    }

    /// The n-th of the addresses that can be given, from 0. None past the last.
    pub fn nth(self, n: u32) -> Option<Ipv4Addr> {
        (n < self.usable()).then(|| Ipv4Addr::from(u32::from(self.base) + 1 + n))
    }

    /// Whether an address can be given to a service.
    pub fn can_give(self, address: Ipv4Addr) -> bool {
        self.contains(address) && (u32::from(address) - u32::from(self.base)).wrapping_sub(1) < self.usable()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

fn mask(bits: u8) -> u32 {
    if bits == 0 { 0 } else { u32::MAX << (32 - bits) }
}

/// Ranges of service addresses at once; further ones are not given from.
const RANGES_MAX: usize = 8;

/// Where service addresses come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ranges([Option<Cidr>; RANGES_MAX]);

impl Ranges {
    pub fn new(all: impl IntoIterator<Item = Cidr>) -> Ranges {
        let mut all = all.into_iter();
        Ranges(std::array::from_fn(|_| all.next()))
    }

    pub fn iter(&self) -> impl Iterator<Item = Cidr> {
        self.0.into_iter().flatten()
    }

    pub fn can_give(&self, address: Ipv4Addr) -> bool {
        self.iter().any(|range| range.can_give(address))
    }
}

impl From<Cidr> for Ranges {
    fn from(one: Cidr) -> Ranges {
        Ranges::new([one])
    }
}

/// The range of node ports for services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePorts {
    first: u16,
    last: u16,
}

impl Default for NodePorts {
    fn default() -> NodePorts {
        NodePorts { first: 30_000, last: 32_767 }
    }
}

impl NodePorts {
    /// `30000-32767`
    pub fn parse(text: &str) -> Result<NodePorts, String> {
        let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
        let both = text.split_once('-').and_then(|(first, last)| Some((port(first)?, port(last)?)));
        let (first, last) = both
            .filter(|(first, last)| first <= last)
            .ok_or("must be the first and the last port, like 30000-32767")?;
        Ok(NodePorts { first, last })
    }

    pub fn first(self) -> u16 {
        self.first
    }

    pub fn count(self) -> u32 {
        u32::from(self.last - self.first) + 1
    }

    pub fn contains(self, port: i64) -> bool {
        (i64::from(self.first)..=i64::from(self.last)).contains(&port)
    }
}

impl fmt::Display for NodePorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// A range of addresses of either family, as a number of 128 bits.
pub struct Range {
    pub v6: bool,
    start: u128,
    /// The prefix length within `start`. An IPv4 address takes the highest 32 bits.
    bits: u32,
}

impl Range {
    /// None unless it is an address, a slash and a prefix length, which may have zeros before it.
    pub fn parse(text: &str) -> Option<Range> {
        let (address, bits) = text.split_once('/')?;
        let (v6, start, most) = match address.parse().ok()? {
            IpAddr::V4(address) => (false, u128::from(u32::from(address)) << 96, 32),
            IpAddr::V6(address) => (true, u128::from(address), 128),
        };
        let bits =
            bits.parse().ok().filter(|length| *length <= most && bits.bytes().all(|byte| byte.is_ascii_digit()))?;
        Some(Range { v6, start, bits })
    }

    fn mask(&self) -> u128 {
        u128::MAX.checked_shl(128 - self.bits).unwrap_or(0)
    }

    /// Whether its address has nothing behind the prefix.
    pub fn is_bare(&self) -> bool {
        self.start & !self.mask() == 0
    }

    pub fn strictly_holds(&self, inner: &Range) -> bool {
        self.v6 == inner.v6 && inner.bits > self.bits && inner.start & self.mask() == self.start & self.mask()
    }

    /// Whether this is a range of IPv4-mapped IPv6 addresses.
    pub fn is_mapped(&self) -> bool {
        self.v6 && Ipv6Addr::from(self.start).to_ipv4_mapped().is_some()
    }
}

/// The warning for an IPv6 address or range in an unusual spelling, which some programs take for a different address.
pub fn unusual(said: &Value, path: &Path) -> Option<String> {
    let said = said.as_str()?.trim();
    let (what, address, bits) = match said.split_once('/') {
        Some((address, bits)) => ("CIDR value", address, format!("/{bits}")),
        None => ("address", said, String::new()),
    };
    let usual = format!("{}{bits}", address.parse::<Ipv6Addr>().ok()?);
    (usual != said).then(|| format!("{path}: IPv6 {what} {said:?} should be in RFC 5952 canonical format ({usual:?})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        fn check(text: &str, expected: Option<(&str, u32)>) {
            let found = Cidr::parse(text).map(|cidr| (cidr.to_string(), cidr.usable()));
            assert_eq!(found, expected.map(|(text, usable)| (text.to_owned(), usable)), "{text}");
        }
        check("10.96.0.0/16", Some(("10.96.0.0/16", 65534)));
        check("10.96.3.4/16", Some(("10.96.0.0/16", 65534)));
        check("10.96.0.0/30", Some(("10.96.0.0/30", 2)));
        check("10.96.0.0/31", Some(("10.96.0.0/31", 0)));
        check("10.96.0.1/32", Some(("10.96.0.1/32", 0)));
        check("0.0.0.0/0", Some(("0.0.0.0/0", u32::MAX - 1)));
        for bad in
            ["", "10.96.0.0", "10.96.0.0/", "10.96.0.0/33", "10.96.0.0/016", "10.96.0.0/+8", "10.96.0/16", "fd00::/64"]
        {
            check(bad, None);
        }
    }

    #[test]
    fn addresses() {
        let cidr = Cidr::parse("10.96.0.2/30").expect("a range");
        let ends = (cidr.first().to_string(), cidr.last().to_string(), cidr.bits());
        assert_eq!(ends, ("10.96.0.0".to_owned(), "10.96.0.3".to_owned(), 30));
        for (other, expected) in [("10.96.0.3/32", true), ("10.0.0.0/8", true), ("10.96.0.4/30", false)] {
            let other = Cidr::parse(other).expect("a range");
            assert_eq!((cidr.overlaps(other), other.overlaps(cidr)), (expected, expected), "{other}");
        }
        let given: Vec<_> = (0..4).map(|n| cidr.nth(n).map(|address| address.to_string())).collect();
        assert_eq!(given, [Some("10.96.0.1".to_owned()), Some("10.96.0.2".to_owned()), None, None]);
        for (address, expected) in
            [("10.96.0.0", false), ("10.96.0.1", true), ("10.96.0.2", true), ("10.96.0.3", false), ("10.97.0.1", false)]
        {
            assert_eq!(cidr.can_give(address.parse().expect("an address")), expected, "{address}");
        }
    }
}

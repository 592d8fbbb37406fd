//! Where uids and the random part of names come from: the kernel.

use std::fs::File;
use std::io::{self, Read};
use std::net::Ipv4Addr;

/// Characters of generated names, as Kubernetes picks them: no vowels, so no words, and nothing that looks like another.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_BYTES: usize = 5;
pub const NODE_PORTS: std::ops::RangeInclusive<u16> = 30000..=32767;

/// The kernel's random device, kept open: it must still answer when no descriptor is free.
pub struct Entropy(File);

impl Entropy {
    pub fn open() -> io::Result<Entropy> {
        File::open("/dev/urandom").map(Entropy)
    }

    fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        (&self.0).read_exact(&mut bytes).expect("the kernel's random device never ends and was open");
        bytes
    }

    /// A random (version 4) UUID.
    pub fn uuid(&self) -> String {
        let mut bytes = self.bytes::<16>();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    pub fn suffix(&self) -> String {
        self.bytes::<SUFFIX_BYTES>().iter().map(|byte| LETTERS[usize::from(*byte) % LETTERS.len()] as char).collect()
    }

    /// A number below `end`, which is not 0.
    pub fn below(&self, end: u32) -> u32 {
        u32::from_le_bytes(self.bytes::<4>()) % end
    }
}

/// A free address: searched from a random place in the upper part of the range, since people choose from the lower.
pub fn free_address(
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

pub fn free_port(start: u32, mut taken: impl FnMut(&str) -> bool) -> Option<u16> {
    let (first, count) = (u32::from(*NODE_PORTS.start()), NODE_PORTS.len() as u32);
    let ports = (0..count).map(|n| first + (start + n) % count);
    ports.filter_map(|port| u16::try_from(port).ok()).find(|port| !taken(&port.to_string()))
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
        assert_eq!(free_port(5, |_| false), Some(30005));
        assert_eq!(free_port(2767, |port| port == "32767"), Some(30000));
        assert_eq!(free_port(0, |_| true), None);
    }
}

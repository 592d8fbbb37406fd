//! Addresses as names hold them: with dashes, and turned round below .arpa. PURE.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `10.244.0.7` -> `10-244-0-7`
pub(crate) fn with_dashes(address: IpAddr) -> String {
    address.to_string().replace(['.', ':'], "-")
}

pub(crate) fn dashes(label: &str) -> Option<IpAddr> {
    let four = || label.replace('-', ".").parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    four().or_else(|| label.replace('-', ":").parse::<Ipv6Addr>().ok().map(IpAddr::V6))
}

/// The address that a name below .arpa is about.
pub(crate) fn turned(name: &str) -> Option<IpAddr> {
    if let Some(parts) = name.strip_suffix(".in-addr.arpa") {
        let parts: Vec<&str> = parts.split('.').rev().collect();
        return (parts.len() == 4).then(|| parts.join(".").parse::<Ipv4Addr>().ok().map(IpAddr::V4))?;
    }
    let parts: Vec<&str> = name.strip_suffix(".ip6.arpa")?.split('.').rev().collect();
    let digits = parts.len() == 32 && parts.iter().all(|part| part.len() == 1);
    let number = digits.then(|| u128::from_str_radix(&parts.concat(), 16).ok())??;
    Some(IpAddr::V6(Ipv6Addr::from_bits(number)))
}

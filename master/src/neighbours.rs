//! Networks of this host that overlap with the service CIDR: a packet to a shared address would go to the wrong
//! destination, or never reach the service.

use coracle_api::strategy::Cidr;
use std::fs;
use std::net::Ipv4Addr;

/// Says so in the log, once at a start.
pub fn tell_of_overlaps(services: Cidr) {
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    for (network, interface) in overlaps(services, &routes) {
        log::warn!(
            "the range of service addresses (--service-cidr) and {network}, the network of {interface} on this host, \
             overlap: services whose addresses are in both are not reached, or hide hosts of that network. Give either \
             another range; everything else goes on"
        );
    }
}

/// Networks that an interface is in, in the kernel's table of routes. A route to one address is no network: services
/// have such ones.
fn overlaps(services: Cidr, routes: &str) -> Vec<(String, String)> {
    let word = |text: &str| u32::from_str_radix(text, 16).ok().map(|word| Ipv4Addr::from(word.to_ne_bytes()));
    let network = |line: &str| -> Option<(String, String)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (interface, base, gateway, mask) =
            (words.first()?, word(words.get(1)?)?, word(words.get(2)?)?, word(words.get(7)?)?);
        let text = format!("{base}/{}", u32::from(mask).leading_ones());
        let other = Cidr::parse(&text)?;
        let is_network = gateway.is_unspecified() && !mask.is_unspecified() && mask != Ipv4Addr::BROADCAST;
        (is_network && services.overlaps(other)).then(|| (text, (*interface).to_owned()))
    };
    routes.lines().skip(1).filter_map(network).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_that_overlap_are_named() {
        let hex = |text: &str| format!("{:08X}", u32::from_ne_bytes(text.parse::<Ipv4Addr>().unwrap().octets()));
        let route = |interface: &str, base: &str, gateway: &str, mask: &str| {
            format!("{interface}\t{}\t{}\t0001\t0\t0\t0\t{}\t0\t0\t0\n", hex(base), hex(gateway), hex(mask))
        };
        let check = |line: String, expected: &[&str]| {
            let found = overlaps(Cidr::parse("10.96.0.0/16").unwrap(), &format!("Iface\tDestination\n{line}"));
            let found: Vec<String> =
                found.into_iter().map(|(network, interface)| format!("{network} {interface}")).collect();
            assert_eq!(found, expected, "{line}");
        };
        check(route("eth0", "10.96.3.0", "0.0.0.0", "255.255.255.0"), &["10.96.3.0/24 eth0"]);
        check(route("eth0", "10.0.0.0", "0.0.0.0", "255.0.0.0"), &["10.0.0.0/8 eth0"]);
        check(route("eth0", "10.97.0.0", "0.0.0.0", "255.255.0.0"), &[]);
        check(route("eth0", "0.0.0.0", "192.0.2.1", "0.0.0.0"), &[]);
        // Somebody else's network behind a router is an address less for services, and nothing of this host; a service
        // has such a route.
        check(route("eth0", "10.96.3.0", "192.0.2.1", "255.255.255.0"), &[]);
        check(route("coracle0", "10.96.0.1", "0.0.0.0", "255.255.255.255"), &[]);
        check("eth0 nonsense\n".to_owned(), &[]);
    }
}

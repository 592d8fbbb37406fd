//! The table of the pods' own network, as nft's text: their way out, and the ports of this host that lead to them.
//! PURE.
//!
//! What leaves the pods' network goes as from this host. A port of the host leads to a pod from the LAN, from this host
//! (its loopback, too) and from pods; what comes from a pod, or from the loopback, is masqueraded, or the answer would
//! not come back here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use coracle_api::strategy::Cidr;

use super::BRIDGE;

/// The family and the name.
pub const TABLE: &str = "ip coracle_pods";
/// After services (-110), before Docker (-100).
const PRIORITY: i32 = -105;

/// A host port that leads to a pod's port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapping {
    /// `tcp`, `udp` or `sctp`
    pub protocol: String,
    /// None: every address of this host.
    pub host: Option<IpAddr>,
    pub host_port: u16,
    pub pod: IpAddr,
    pub port: u16,
}

impl Mapping {
    /// `host`: the hostIP of the pod. None: the hostIP is no IPv4 address, so the port is not served.
    pub fn at(host: &str) -> Option<Option<IpAddr>> {
        match host {
            "" | "0.0.0.0" | "::" => Some(None),
            other => other.parse().ok().filter(IpAddr::is_ipv4).map(Some),
        }
    }
}

/// Replaces the agent's table in a single transaction and touches no other table.
pub fn script(pods: Cidr, mappings: &BTreeSet<Mapping>) -> String {
    let (mut anywhere, mut at, mut served) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    for Mapping { protocol, host, host_port, pod, port } in mappings {
        let to = format!("{pod} . {port}");
        served.insert(format!("{pod} . {protocol} . {port}"));
        match host {
            None => anywhere.entry(format!("{protocol} . {host_port}")).or_insert(to),
            Some(host) => at.entry(format!("{host} . {protocol} . {host_port}")).or_insert(to),
        };
    }
    let pairs = |map: BTreeMap<String, String>| map.into_iter().map(|(key, to)| format!("{key} : {to}")).collect();
    let end = "ipv4_addr . inet_service";
    let held = block("map", "ports", &format!("inet_proto . inet_service : {end}"), pairs(anywhere))
        + &block("map", "ports_at", &format!("ipv4_addr . inet_proto . inet_service : {end}"), pairs(at))
        + &block("set", "served", "ipv4_addr . inet_proto . inet_service", served.into_iter().collect());
    format!("table {TABLE}\ndelete table {TABLE}\ntable {TABLE} {{\n{held}{}}}\n", base(pods))
}

fn block(what: &str, name: &str, kind: &str, elements: Vec<String>) -> String {
    let elements = if elements.is_empty() {
        String::new()
    } else {
        format!("\t\telements = {{\n\t\t\t{}\n\t\t}}\n", elements.join(",\n\t\t\t"))
    };
    format!("\t{what} {name} {{\n\t\ttype {kind}\n{elements}\t}}\n")
}

fn base(pods: Cidr) -> String {
    let some = "meta l4proto { tcp, udp, sctp }";
    let lead = format!(
        "\t\t{some} dnat ip to ip daddr . meta l4proto . th dport map @ports_at\n\
         \t\tfib daddr type local {some} dnat ip to meta l4proto . th dport map @ports\n"
    );
    format!(
        "\tchain guard {{\n\t\ttype filter hook prerouting priority -300; policy accept;\n\
         \t\tiifname \"{BRIDGE}\" ip daddr 127.0.0.0/8 drop comment \"the loopback is this host's own\"\n\
         \t\tiifname \"{BRIDGE}\" ip saddr 127.0.0.0/8 drop\n\t}}\n\tchain prerouting {{\n\
         \t\ttype nat hook prerouting priority {PRIORITY}; policy accept;\n{lead}\t}}\n\tchain output {{\n\
         \t\ttype nat hook output priority {PRIORITY}; policy accept;\n{lead}\t}}\n\tchain postrouting {{\n\
         \t\ttype nat hook postrouting priority 95; policy accept;\n\
         \t\tip saddr 127.0.0.0/8 oifname \"{BRIDGE}\" ct status dnat masquerade comment \"from the loopback to a port \
         of a pod\"\n\t\tip saddr {pods} ct status dnat ip daddr . meta l4proto . th dport @served masquerade comment \
         \"a pod to a port of the host\"\n\t\tip saddr {pods} ip daddr != {pods} oifname != \"{BRIDGE}\" masquerade \
         comment \"pods go out as this host\"\n\t}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_lead_to_pods() {
        let pods = Cidr::parse("10.244.0.0/24").unwrap();
        let mapping = |protocol: &str, host: &str, host_port, port| Mapping {
            protocol: protocol.into(),
            host: Mapping::at(host).unwrap(),
            host_port,
            pod: IpAddr::from([10, 244, 0, 9]),
            port,
        };
        let none = script(pods, &BTreeSet::new());
        assert!(
            !none.contains("elements") && none.starts_with("table ip coracle_pods\ndelete table ip coracle_pods\n"),
            "{none}"
        );
        let mappings =
            [mapping("tcp", "", 8080, 80), mapping("udp", "::", 53, 53), mapping("tcp", "127.0.0.1", 81, 80)];
        let some = script(pods, &mappings.into_iter().collect());
        for line in [
            "\t\t\ttcp . 8080 : 10.244.0.9 . 80,\n\t\t\tudp . 53 : 10.244.0.9 . 53\n",
            "\t\t\t127.0.0.1 . tcp . 81 : 10.244.0.9 . 80\n",
            "\t\t\t10.244.0.9 . tcp . 80,\n\t\t\t10.244.0.9 . udp . 53\n",
        ] {
            assert!(some.contains(line), "{line} in {some}");
        }
        assert_eq!(Mapping::at("fd00::1"), None);
    }
}

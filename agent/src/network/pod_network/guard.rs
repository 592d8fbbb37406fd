//! The table that holds each wire of a pod to its own hardware address and address, as nft's text. PURE.
//!
//! A pod may have the right to send whole frames. The hardware address and the address of a wire are the agent's own
//! choice, so whatever else comes from a wire is a claim to be another pod, or this host. Pods have no IPv6: a router
//! advertisement, or a neighbor's, ends here, too.
//!
//! A bridge takes frames to the link-local groups (01:80:c2:00:00:00 to 0f: LLDP, spanning tree) before any rule of the
//! bridge family, learns their source, and gives them to this host as frames of the wire. Each wire has a chain of the
//! netdev family, which comes before the bridge, and drops them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use coracle_api::strategy::Cidr;

use super::hardware;

pub const TABLE: &str = "coracle_pods";

/// The wires of this host's pods, by name, and the pod's address.
pub type Wires = BTreeMap<String, IpAddr>;

/// Replaces the table in a single transaction and touches no other table. The pods behind the engine's own bridge ports
/// have unknown addresses; the rules only keep them from using this host's address.
pub fn script(pods: Cidr, wires: &Wires) -> String {
    let table = format!("table bridge {TABLE}");
    let names = elements(wires.keys().map(|name| format!("\"{name}\"")).collect());
    let ends = elements(wires.iter().map(|(name, address)| end(name, *address)).collect());
    let gateway = crate::host::machine::gateway(pods);
    format!(
        "{table}\ndelete {table}\n{table} {{\n\tset wires {{\n\t\ttype ifname\n{names}\t}}\n\tset ends {{\n\
         \t\ttype ifname . ether_addr . ipv4_addr\n{ends}\t}}\n\tchain prerouting {{\n\
         \t\ttype filter hook prerouting priority -300; policy accept;\n\
         \t\tiifname . ether saddr . ip saddr @ends accept\n\
         \t\tiifname . ether saddr . arp saddr ip @ends iifname . arp saddr ether . arp saddr ip @ends accept\n\
         \t\tiifname @wires drop\n\t\tip saddr {gateway} drop\n\t\tarp saddr ip {gateway} drop\n\t}}\n}}\n"
    )
}

/// Adds a wire to the existing table.
pub fn addition(name: &str, address: IpAddr) -> String {
    format!(
        "add element bridge {TABLE} ends {{ {} }}\nadd element bridge {TABLE} wires {{ \"{name}\" }}\n",
        end(name, address)
    )
}

/// The chains of all wires that keep frames to the link-local groups away from the bridge. Every wire has to exist.
pub fn groups_script(wires: &Wires) -> String {
    let table = format!("table netdev {TABLE}");
    let chains: String = wires.keys().map(|name| groups_chain(name)).collect();
    format!("add {table}\ndelete {table}\nadd {table}\n{chains}")
}

/// Adds the chain of a wire.
pub fn groups_addition(name: &str) -> String {
    format!("add table netdev {TABLE}\n{}", groups_chain(name))
}

fn groups_chain(name: &str) -> String {
    let chain = format!("netdev {TABLE} {name}");
    format!(
        "add chain {chain} {{ type filter hook ingress device \"{name}\" priority -300; policy accept; }}\n\
         flush chain {chain}\nadd rule {chain} ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:00 drop\n"
    )
}

fn end(name: &str, address: IpAddr) -> String {
    format!("\"{name}\" . {} . {address}", hardware(address))
}

fn elements(all: Vec<String>) -> String {
    if all.is_empty() { String::new() } else { format!("\t\telements = {{ {} }}\n", all.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wire_has_its_own_addresses() {
        let pods = Cidr::parse("10.244.0.0/24").unwrap();
        let none = script(pods, &Wires::new());
        assert!(
            none.starts_with("table bridge coracle_pods\ndelete table bridge coracle_pods\n")
                && !none.contains("elements")
                && none.contains("arp saddr ip 10.244.0.1 drop"),
            "{none}"
        );
        let wires = [("v1", [10, 244, 0, 254]), ("v2", [10, 244, 0, 253])];
        let wires: Wires = wires.into_iter().map(|(name, ip)| (name.to_owned(), IpAddr::from(ip))).collect();
        let some = script(pods, &wires);
        for line in [
            "\t\telements = { \"v1\", \"v2\" }\n",
            "\t\telements = { \"v1\" . 02:43:0a:f4:00:fe . 10.244.0.254, \"v2\" . 02:43:0a:f4:00:fd . 10.244.0.253 }\n",
        ] {
            assert!(some.contains(line), "{line} in {some}");
        }
        assert_eq!(
            addition("v3", IpAddr::from([10, 244, 0, 9])),
            "add element bridge coracle_pods ends { \"v3\" . 02:43:0a:f4:00:09 . 10.244.0.9 }\n\
             add element bridge coracle_pods wires { \"v3\" }\n"
        );
    }

    #[test]
    fn each_wire_has_a_chain_before_the_bridge() {
        let chain = "add chain netdev coracle_pods v3 { type filter hook ingress device \"v3\" priority -300; policy \
                     accept; }\nflush chain netdev coracle_pods v3\nadd rule netdev coracle_pods v3 ether daddr & \
                     ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:00 drop\n";
        assert_eq!(groups_addition("v3"), format!("add table netdev coracle_pods\n{chain}"));
        let anew = "add table netdev coracle_pods\ndelete table netdev coracle_pods\nadd table netdev coracle_pods\n";
        assert_eq!(groups_script(&Wires::new()), anew);
        let wires: Wires = [("v3".to_owned(), IpAddr::from([10, 244, 0, 9]))].into();
        assert_eq!(groups_script(&wires), format!("{anew}{chain}"));
    }
}

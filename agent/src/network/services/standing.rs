//! The service table that an earlier agent left in the kernel: does the table stay until the master's services are
//! heard? PURE.
//!
//!     the kernel's table leads somewhere that the file's rules do not   it stays: the file is older than the table
//!     the same pods of this host serve in both                          it stays: the file knows nothing newer
//!     other pods of this host serve now, and the file lacks nothing     the file's rules are loaded
//!     a Service of a manifest file is new or reached elsewhere          the rules are loaded
//!
//! The file of services (`desired/known`) is up to a minute old, and its endpoints on other nodes are older still. The
//! table of an agent that was killed is as new as the last word of the master.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::KernelRules;

/// The maps and sets that say which services there are, and at which addresses and ports they are reached.
const PLACES: [&str; 4] = ["addresses", "services", "node_ports", "firewall"];
/// Has an element for each endpoint on this host.
const OWN_ENDS: &str = "hairpins";

/// The elements of the maps and sets of a listed table.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StandingTable<'t> {
    /// The name of a map or set, and a key in it.
    elements: BTreeSet<(&'t str, &'t str)>,
}

impl<'t> StandingTable<'t> {
    /// `listing`: the output of `nft list table`.
    pub fn read(listing: &'t str) -> StandingTable<'t> {
        let mut elements = BTreeSet::new();
        let (mut name, mut in_elements) = ("", false);
        for line in listing.lines().map(str::trim) {
            let mut words = line.split(' ');
            if let (Some("set" | "map"), Some(named)) = (words.next(), words.next()) {
                name = named;
            }
            let first = line.strip_prefix("elements = {");
            in_elements |= first.is_some();
            if in_elements {
                let keys = first.unwrap_or(line).trim_end_matches('}').split(',');
                let keys = keys.map(|one| one.split(" : ").next().unwrap_or(one).trim());
                elements.extend(keys.filter(|key| !key.is_empty()).map(|key| (name, key)));
                in_elements = !line.ends_with('}');
            }
        }
        StandingTable { elements }
    }

    /// The cluster addresses of its services.
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        self.elements.iter().filter(|(map, _)| *map == "addresses").filter_map(|(_, key)| key.parse().ok()).collect()
    }

    /// The pods of this host that it leads to.
    pub fn own_ends(&self) -> BTreeSet<IpAddr> {
        let own = self.elements.iter().filter(|(map, _)| *map == OWN_ENDS);
        own.filter_map(|(_, key)| key.split(" . ").next()?.parse().ok()).collect()
    }

    /// Whether the table stays, and `rules` are not loaded. Only rules of the file give way to a table.
    pub fn stays(&self, rules: &KernelRules) -> bool {
        if !rules.from_file {
            return false;
        }
        let of_files =
            rules.parts.iter().filter(|part| rules.of_files.contains(&(part.namespace.clone(), part.name.clone())));
        let mut places = of_files.flat_map(|part| part.held.elements.keys()).filter(|(map, _)| PLACES.contains(map));
        if places.any(|(map, key)| !self.elements.contains(&(*map, key.as_str()))) {
            return false;
        }
        let wanted: BTreeSet<(&str, &str)> = rules
            .parts
            .iter()
            .flat_map(|part| part.held.elements.keys().map(|(map, key)| (*map, key.as_str())))
            .collect();
        let is_newer = self.elements.iter().any(|one| PLACES.contains(&one.0) && !wanted.contains(one));
        let own = |all: &BTreeSet<(&str, &str)>| -> BTreeSet<String> {
            all.iter().filter(|(map, _)| *map == OWN_ENDS).map(|(_, key)| (*key).to_owned()).collect()
        };
        is_newer || own(&self.elements) == own(&wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::services::group::grouped;
    use crate::network::services::{Pieces, RuleHost, rules, script};
    use coracle_api::service::{EndpointSlice, Service};
    use serde_json::json;
    use std::sync::Arc;

    /// Services with their number, their endpoints on this node and their endpoints on another.
    fn made(services: &[(u8, &[u8], &[u8])], from_file: bool) -> KernelRules {
        let (mut all, mut slices) = (Vec::new(), Vec::new());
        for (number, here, elsewhere) in services {
            let name = format!("s{number}");
            let service = json!({"metadata": {"namespace": "default", "name": name},
                "spec": {"type": "NodePort", "clusterIP": format!("10.96.0.{number}"),
                    "ports": [{"port": 80, "nodePort": 30_000 + u32::from(*number)}]}});
            all.push(Arc::new(Service::read(&service).unwrap()));
            let end = |node: &str, last: &u8| json!({"addresses": [format!("10.244.0.{last}")], "nodeName": node});
            let ends: Vec<_> =
                here.iter().map(|last| end("n1", last)).chain(elsewhere.iter().map(|last| end("n2", last))).collect();
            let slice = json!({"metadata": {"namespace": "default", "name": name,
                "labels": {"kubernetes.io/service-name": name}}, "endpoints": ends, "ports": [{"port": 8080}]});
            slices.push(Arc::new(EndpointSlice::read(&slice).unwrap()));
        }
        let here = RuleHost { node: "n1".to_owned(), ..RuleHost::default() };
        KernelRules { from_file, ..rules(&grouped(&all, &slices), &here, None, &mut Pieces::default()) }
    }

    /// What is loaded is listed in the same form, and what nft lists is read the same.
    fn listing(rules: &KernelRules) -> String {
        script(&rules.parts, &rules.here)
    }

    #[test]
    fn a_table_gives_way_to_a_file_that_is_as_new() {
        let check = |table: &[(u8, &[u8], &[u8])], file: &[(u8, &[u8], &[u8])], stays: bool| {
            let text = listing(&made(table, false));
            let table = StandingTable::read(&text);
            assert_eq!(table.stays(&made(file, true)), stays, "{text}");
            assert!(!table.stays(&made(file, false)), "the master was heard");
        };
        check(&[(1, &[9], &[])], &[(1, &[9], &[])], true);
        // The table knows a service, or an endpoint of a service, that the file lacks.
        check(&[(1, &[9], &[]), (2, &[9], &[])], &[(1, &[9], &[])], true);
        check(&[(1, &[9], &[]), (2, &[8], &[])], &[(1, &[7], &[]), (2, &[], &[])], true);
        // Endpoints on other nodes: the table's are as new.
        check(&[(1, &[9], &[20])], &[(1, &[9], &[21])], true);
        check(&[(1, &[9], &[])], &[(1, &[9], &[]), (2, &[9], &[])], true);
        // A pod of this host came, or has another address.
        check(&[(1, &[9], &[])], &[(1, &[8], &[])], false);
        check(&[(1, &[9], &[])], &[(1, &[8, 9], &[])], false);
        check(&[(1, &[], &[])], &[(1, &[9], &[])], false);
        check(&[(1, &[8, 9], &[])], &[(1, &[9], &[])], false);
        check(&[], &[(1, &[9], &[])], false);
    }

    #[test]
    fn a_listing_of_nft_is_read() {
        let text = "table ip coracle {\n\tset addresses {\n\t\ttype ipv4_addr\n\t\telements = { 10.96.0.1, 10.96.0.2,\n\
                    \t\t\t     10.96.0.3 }\n\t}\n\n\tmap services {\n\t\ttype ipv4_addr . inet_proto . inet_service : \
                    verdict\n\t\telements = { 10.96.0.1 . tcp . 80 : goto svc_0 }\n\t}\n\n\tset hairpins {\n\t\ttype \
                    ipv4_addr . ipv4_addr\n\t}\n\n\tchain svc_0 {\n\t\tmeta l4proto tcp dnat ip to numgen random mod 2 \
                    map { 0 : 10.244.0.8 . 80, 1 : 10.244.0.9 . 80 }\n\t}\n}\n";
        let table = StandingTable::read(text);
        let addresses = ["10.96.0.1", "10.96.0.2", "10.96.0.3"];
        assert_eq!(table.addresses(), addresses.iter().map(|one| one.parse().unwrap()).collect());
        assert_eq!(table.elements.len(), 4, "{table:?}");
        assert!(table.elements.contains(&("services", "10.96.0.1 . tcp . 80")));
    }
}

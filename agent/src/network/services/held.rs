//! The content of the service table for some services: elements of its maps and sets, and chains. PURE.

use std::collections::{BTreeMap, BTreeSet};

use super::ends::Endpoint;
use crate::facts::hash::hash_text;

/// The name of a map or set, and a key in it.
pub type ElementKey = (&'static str, String);

/// Elements of maps and sets, chains, and sets of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableContent {
    /// By map and key: where it leads; empty in a set.
    pub elements: BTreeMap<ElementKey, String>,
    /// By name, the lines.
    pub chains: BTreeMap<String, Vec<String>>,
    /// By name, for how long the kernel keeps whom it puts there.
    pub clients: BTreeMap<String, i32>,
}

impl TableContent {
    pub fn put(&mut self, map: &'static str, key: String, to: &str) {
        self.elements.entry((map, key)).or_insert_with(|| to.to_owned());
    }

    pub fn leads_anywhere(&self) -> bool {
        self.elements.keys().any(|(map, _)| matches!(*map, "services" | "node_ports"))
    }

    /// Adds a chain that leads to an endpoint by chance, or with affinity to the client's last endpoint. Returns the
    /// chain's name.
    pub fn balance(
        &mut self,
        name: &str,
        hash: &str,
        protocol: &str,
        to: &BTreeSet<Endpoint>,
        affinity_s: Option<i32>,
        said: &str,
    ) -> String {
        let count = to.len();
        let Some(seconds) = affinity_s else {
            let map: Vec<String> =
                to.iter().enumerate().map(|(index, (ip, port))| format!("{index} : {ip} . {port}")).collect();
            let rule = format!(
                "meta l4proto {protocol} dnat ip to numgen random mod {count} map {{ {} }} comment \"{said}\"",
                map.join(", ")
            );
            self.chains.insert(name.to_owned(), vec![rule]);
            return name.to_owned();
        };
        let mut lines = Vec::new();
        let mut by_chance = Vec::new();
        for (index, (ip, port)) in to.iter().enumerate() {
            let end = &hash_text(&format!("{hash}/{ip}:{port}"))[..16];
            let (clients, chain) = (format!("aff_{end}"), format!("end_{end}"));
            lines.push(format!("ip saddr @{clients} goto {chain}"));
            by_chance.push(format!("{index} : goto {chain}"));
            self.chains.insert(
                chain,
                vec![format!(
                    "update @{clients} {{ ip saddr }} meta l4proto {protocol} dnat ip to {ip}:{port} comment \"{said}\""
                )],
            );
            self.clients.insert(clients, seconds);
        }
        lines.push(format!("numgen random mod {count} vmap {{ {} }}", by_chance.join(", ")));
        self.chains.insert(name.to_owned(), lines);
        name.to_owned()
    }

    /// From outside to the ends on this node alone; whoever is in the cluster already goes to all.
    pub fn outward(&mut self, name: &str, cluster: &str, local: Option<&str>, pod_cidr: &str) -> String {
        let mut lines =
            vec![format!("ip saddr {pod_cidr} goto {cluster}"), format!("fib saddr type local goto {cluster}")];
        lines.extend(local.map(|local| format!("goto {local}")));
        self.chains.insert(name.to_owned(), lines);
        name.to_owned()
    }

    /// Adds a chain that drops packets from any source outside `ranges`.
    pub fn only_from(&mut self, name: &str, ranges: &[String]) -> String {
        let plain = |range: &&String| coracle_api::strategy::Cidr::parse(range.trim()).is_some();
        let ranges: BTreeSet<&str> = ranges.iter().filter(plain).map(|range| range.trim()).collect();
        let mut lines: Vec<String> = ranges.iter().map(|range| format!("ip saddr {range} return")).collect();
        lines.push("drop".to_owned());
        self.chains.insert(name.to_owned(), lines);
        name.to_owned()
    }

    /// Adds the chains in `held`, with their sets.
    pub fn take_chains(&mut self, held: &TableContent) {
        self.chains.extend(held.chains.iter().map(|(name, lines)| (name.clone(), lines.clone())));
        self.clients.extend(held.clients.iter().map(|(name, seconds)| (name.clone(), *seconds)));
    }
}

//! The nftables table of services as text: the whole table, or only the changes. PURE.
//!
//! A table of ours has maps from addresses and ports to chains. Of a change only the chains and elements that differ
//! are written, in one transaction: whatever else goes on is not touched, and sets that the kernel fills itself (who
//! came lately, for affinity) stay.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use super::held::{ElementKey, TableContent};
use super::here::RuleHost;
use super::part::ServiceRules;
use crate::facts::hash::hash_text;

/// The family and the name.
pub const TABLE: &str = "ip coracle";
/// The longest comment that nft accepts.
const COMMENT_BYTES_MAX: usize = 128;
/// Earlier than Docker's own chains (-100), so that a service address is rewritten before they look at it.
const PRIORITY: i32 = -110;
/// The number of clients that session affinity remembers for each endpoint. Further clients are balanced anew.
const CLIENTS_MAX: u32 = 65_536;

const TO_ADDRESS: &str = "type ipv4_addr . inet_proto . inet_service : verdict";
const TO_PORT: &str = "type inet_proto . inet_service : verdict";
/// The name, the kind and the type of each map or set.
const MAPS: [(&str, &str, &str); 8] = [
    ("addresses", "set", "type ipv4_addr"),
    ("services", "map", TO_ADDRESS),
    ("node_ports", "map", TO_PORT),
    ("unserved", "map", TO_ADDRESS),
    ("unserved_ports", "map", TO_PORT),
    ("firewall", "map", TO_ADDRESS),
    ("hairpins", "set", "type ipv4_addr . ipv4_addr"),
    ("remote", "set", "type ipv4_addr . inet_proto . inet_service"),
];

/// If two services have the same address (a master lost its claims), the first service gets the address.
fn all_of(parts: &[Arc<ServiceRules>]) -> TableContent {
    let mut all = TableContent::default();
    for part in parts {
        for (key, to) in &part.held.elements {
            all.elements.entry(key.clone()).or_insert_with(|| to.clone());
        }
        all.take_chains(&part.held);
    }
    all
}

/// The chains of the changed services, and the elements under the changed keys from all services: an unchanged service
/// may have an element with the same key.
fn touched(parts: &[Arc<ServiceRules>], differ: &[&Arc<ServiceRules>], keys: &BTreeSet<&ElementKey>) -> TableContent {
    let mut some = TableContent::default();
    for part in parts {
        let elements = &part.held.elements;
        let mut put = |key: &ElementKey, to: &String| {
            some.elements.entry(key.clone()).or_insert_with(|| to.clone());
        };
        match keys.len() < elements.len() {
            true => keys.iter().filter_map(|key| elements.get_key_value(*key)).for_each(|(key, to)| put(key, to)),
            false => elements.iter().filter(|(key, _)| keys.contains(key)).for_each(|(key, to)| put(key, to)),
        }
    }
    differ.iter().for_each(|part| some.take_chains(&part.held));
    some
}

/// The services in `old` that `new` lacks or has changed, and the reverse.
fn differing<'p>(old: &'p [Arc<ServiceRules>], new: &'p [Arc<ServiceRules>]) -> [Vec<&'p Arc<ServiceRules>>; 2] {
    let by_name = |parts: &'p [Arc<ServiceRules>]| -> BTreeMap<(&'p str, &'p str), &'p Arc<ServiceRules>> {
        parts.iter().map(|part| ((part.namespace.as_str(), part.name.as_str()), part)).collect()
    };
    let (before, now) = (by_name(old), by_name(new));
    let not_in = |all: &BTreeMap<(&str, &str), &'p Arc<ServiceRules>>,
                  others: &BTreeMap<(&str, &str), &'p Arc<ServiceRules>>| {
        all.iter().filter(|(key, part)| others.get(*key) != Some(*part)).map(|(_, part)| *part).collect()
    };
    [not_in(&before, &now), not_in(&now, &before)]
}

/// A whole nft script: a single transaction that replaces the agent's table and touches no other table.
pub fn script(parts: &[Arc<ServiceRules>], here: &RuleHost) -> String {
    format!("table {TABLE}\ndelete table {TABLE}\ntable {TABLE} {{\n{}{}}}\n", whole(&all_of(parts)), base(here))
}

/// The same without what looks at packets, in a table of its own that the same transaction takes away again: the kernel
/// says whether it would take these, and nothing is different afterwards.
pub fn trial(parts: &[Arc<ServiceRules>]) -> String {
    let name = "table ip coracle_trial";
    format!("{name}\ndelete {name}\n{name} {{\n{}}}\ndelete {name}\n", whole(&all_of(parts)))
}

/// The nft commands that turn a table with the old parts into one with the new. Empty: no change.
pub fn change(old: &[Arc<ServiceRules>], new: &[Arc<ServiceRules>]) -> String {
    let [gone, come] = differing(old, new);
    let keys: BTreeSet<&ElementKey> = gone.iter().chain(&come).flat_map(|part| part.held.elements.keys()).collect();
    let (old, new) = (touched(old, &gone, &keys), touched(new, &come, &keys));
    let mut script = String::new();
    let out: Vec<_> =
        old.elements.iter().filter(|(key, to)| new.elements.get(*key) != Some(*to)).map(|(key, _)| key).collect();
    for (map, ..) in MAPS {
        let keys: Vec<&str> = out.iter().filter(|(of, _)| *of == map).map(|(_, key)| key.as_str()).collect();
        if !keys.is_empty() {
            let _ = writeln!(script, "delete element {TABLE} {map} {{ {} }}", keys.join(", "));
        }
    }
    let others = |name: &String, lines: &Vec<String>| new.chains.get(name) != Some(lines);
    for (name, _) in old.chains.iter().filter(|(name, lines)| others(name, lines)) {
        let _ = writeln!(script, "flush chain {TABLE} {name}");
    }
    // A set whose time is another is another set.
    for (name, seconds) in &old.clients {
        if new.clients.get(name).is_some_and(|now| now != seconds) {
            let _ = writeln!(script, "delete set {TABLE} {name}");
        }
    }
    let made = TableContent {
        elements: BTreeMap::new(),
        chains: new.chains.iter().filter(|(name, lines)| old.chains.get(*name) != Some(*lines)).map(owned).collect(),
        clients: new
            .clients
            .iter()
            .filter(|(name, seconds)| old.clients.get(*name) != Some(*seconds))
            .map(owned)
            .collect(),
    };
    if !made.chains.is_empty() || !made.clients.is_empty() {
        let _ = write!(script, "table {TABLE} {{\n{}{}}}\n", clients(&made), chains(&made));
    }
    for (map, ..) in MAPS {
        let added = new.elements.iter().filter(|(key, to)| key.0 == map && old.elements.get(*key) != Some(*to));
        let added: Vec<String> = added.map(|((_, key), to)| element(key, to)).collect();
        if !added.is_empty() {
            let _ = writeln!(script, "add element {TABLE} {map} {{ {} }}", added.join(", "));
        }
    }
    for name in old.chains.keys().filter(|name| !new.chains.contains_key(*name)) {
        let _ = writeln!(script, "delete chain {TABLE} {name}");
    }
    for name in old.clients.keys().filter(|name| !new.clients.contains_key(*name)) {
        let _ = writeln!(script, "delete set {TABLE} {name}");
    }
    script
}

fn owned<V: Clone>((name, value): (&String, &V)) -> (String, V) {
    (name.clone(), value.clone())
}

fn element(key: &str, to: &str) -> String {
    if to.is_empty() { key.to_owned() } else { format!("{key} : {to}") }
}

fn whole(held: &TableContent) -> String {
    let mut text = String::new();
    for (map, what, kind) in MAPS {
        let of_it = held.elements.iter().filter(|((of, _), _)| *of == map);
        let elements: Vec<String> = of_it.map(|((_, key), to)| element(key, to)).collect();
        let _ = write!(text, "\t{what} {map} {{\n\t\t{kind}\n");
        if !elements.is_empty() {
            let _ = write!(text, "\t\telements = {{\n\t\t\t{}\n\t\t}}\n", elements.join(",\n\t\t\t"));
        }
        text.push_str("\t}\n");
    }
    text + &clients(held)
        + "\tchain refuse {\n\t\tmeta l4proto tcp reject with tcp reset\n\t\treject\n\t}\n"
        + &chains(held)
}

fn clients(held: &TableContent) -> String {
    let set = |(name, seconds): (&String, &i32)| {
        format!(
            "\tset {name} {{\n\t\ttype ipv4_addr\n\t\tsize {CLIENTS_MAX}\n\t\tflags dynamic,timeout\n\
             \t\ttimeout {seconds}s\n\t}}\n"
        )
    };
    held.clients.iter().map(set).collect()
}

/// A chain comes before the chains that lead to it: nft reads from top to bottom.
fn chains(held: &TableContent) -> String {
    let rank = |name: &str| match name.split('_').next() {
        Some("end") => 0,
        Some("ext") => 2,
        _ => 1,
    };
    let mut sorted: Vec<(&String, &Vec<String>)> = held.chains.iter().collect();
    sorted.sort_by_key(|(name, _)| rank(name));
    let chain =
        |(name, lines): (&String, &Vec<String>)| format!("\tchain {name} {{\n\t\t{}\n\t}}\n", lines.join("\n\t\t"));
    sorted.into_iter().map(chain).collect()
}

/// The chains that look at packets.
fn base(here: &RuleHost) -> String {
    let pods = &here.pod_cidr;
    let balance = "\t\tip daddr . meta l4proto . th dport vmap @services\n\
                   \t\tip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport vmap @node_ports\n";
    let refuse = "\t\tip daddr . meta l4proto . th dport vmap @unserved\n\t\tip daddr @addresses goto refuse\n";
    // Also where it leaves: what a program of this host sends to it would be remembered as led nowhere, for as long as
    // it goes on.
    let refuse_port = "\t\tip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport vmap @unserved_ports\n";
    let beside = format!(
        "\t\tct status dnat ip saddr {pods} ip daddr {pods} masquerade comment \"a pod to a service of a pod beside \
         it\"\n"
    );
    let beside = if here.bridges_are_seen { "" } else { beside.as_str() };
    format!(
        "\tchain guard {{\n\t\ttype filter hook prerouting priority -115; policy accept;\n\
         \t\tip daddr . meta l4proto . th dport vmap @firewall\n\t}}\n\tchain prerouting {{\n\
         \t\ttype nat hook prerouting priority {PRIORITY}; policy accept;\n{balance}\t}}\n\tchain output {{\n\
         \t\ttype nat hook output priority {PRIORITY}; policy accept;\n{balance}\t}}\n\tchain postrouting {{\n\
         \t\ttype nat hook postrouting priority 90; policy accept;\n\
         \t\tct status dnat ip saddr . ip daddr @hairpins masquerade comment \"a pod to a service of its own\"\n\
         {beside}\t\tct status dnat ip saddr != {pods} ip daddr . meta l4proto . th dport @remote masquerade comment \
         \"answers come back here\"\n\t}}\n\tchain refuse_input {{\n\
         \t\ttype filter hook input priority {PRIORITY}; policy accept;\n\
         \t\tip daddr . meta l4proto . th dport vmap @unserved\n{refuse_port}\t}}\n\tchain refuse_forward {{\n\
         \t\ttype filter hook forward priority {PRIORITY}; policy accept;\n{refuse}\t}}\n\tchain refuse_output {{\n\
         \t\ttype filter hook output priority 0; policy accept;\n{refuse}{refuse_port}\t}}\n"
    )
}

/// A listing of the table without the elements of dynamic sets, which the kernel itself adds and ages.
pub fn lasting(listing: &str) -> String {
    let (mut is_dynamic, mut in_elements) = (false, false);
    let lasts = |line: &&str| {
        let words = line.trim_start();
        if words.ends_with('{') && !words.starts_with("elements") {
            is_dynamic = false;
        }
        is_dynamic |= words.strip_prefix("flags ").is_some_and(|flags| flags.split(',').any(|flag| flag == "dynamic"));
        let skipped = in_elements || is_dynamic && words.starts_with("elements = ");
        in_elements = skipped && !words.ends_with('}');
        !skipped
    };
    listing.lines().filter(lasts).flat_map(|line| [line, "\n"]).collect()
}

/// For people who list the table. What is too long, or would end the quotes, is cut or replaced, and has its hash: no
/// two look alike.
pub fn comment(text: &str) -> String {
    let plain = |sign: char| sign.is_ascii_graphic() && !matches!(sign, '"' | '\\');
    if text.len() <= COMMENT_BYTES_MAX && text.chars().all(plain) {
        return text.to_owned();
    }
    let hash = &hash_text(text)[..16];
    let shown: String = text
        .chars()
        .map(|sign| if plain(sign) { sign } else { '?' })
        .take(COMMENT_BYTES_MAX - hash.len() - 1)
        .collect();
    format!("{shown}~{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_come_and_go_are_no_change_of_the_table() {
        let listing = |clients: &str, fixed: &str| {
            let dynamic = format!(
                "\tset who_1 {{\n\t\ttype ipv4_addr\n\t\tflags dynamic,timeout\n\t\ttimeout 3h\n{clients}\t}}\n"
            );
            format!(
                "table ip coracle {{\n{dynamic}\n\tset addresses {{\n\t\ttype ipv4_addr\n\t\telements = {{ {fixed} }}\n\
                 \t}}\n}}\n"
            )
        };
        let nobody = lasting(&listing("", "10.0.0.1"));
        assert_eq!(nobody, listing("", "10.0.0.1"));
        for clients in [
            "\t\telements = { 127.0.0.1 expires 4m59s876ms }\n",
            "\t\telements = { 127.0.0.1 expires 4m59s876ms, 127.0.0.2 expires 4m58s564ms,\n\
             \t\t\t     127.0.0.3 expires 4m58s }\n",
        ] {
            assert_eq!(lasting(&listing(clients, "10.0.0.1")), nobody);
            assert_ne!(lasting(&listing(clients, "10.0.0.2")), nobody);
        }
    }

    #[test]
    fn comments_are_what_nft_takes_and_no_two_alike() {
        assert_eq!(comment("default/web:80"), "default/web:80");
        let long = |end: &str| format!("{}/{}{end}:30000", "n".repeat(63), "s".repeat(62));
        let (one, other) = (comment(&long("a")), comment(&long("b")));
        assert!(
            one != other
                && one.starts_with("nnn")
                && one.len() == COMMENT_BYTES_MAX
                && other.len() == COMMENT_BYTES_MAX,
            "{one}"
        );
        for text in ["a\" } flush ruleset", "a\nb", "\u{e4}".repeat(100).as_str(), "a\\", "a b"] {
            let comment = comment(text);
            assert!(
                comment.len() <= COMMENT_BYTES_MAX
                    && comment.chars().all(|c| c.is_ascii_graphic() && c != '"' && c != '\\'),
                "{comment}"
            );
        }
        assert_ne!(comment("a b"), comment("a\tb"));
    }
}

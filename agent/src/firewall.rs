//! Chains of other firewalls that drop what pods send, or what comes to this host. PURE.

use crate::pod_network::BRIDGE;

/// A chain of nftables through which packets go.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    pub table: String,
    pub name: String,
    pub hook: String,
    pub drops: bool,
}

/// What is in the way, and how it is let through.
#[derive(Clone, Debug, PartialEq)]
pub struct Obstacle {
    /// Pods reach nobody; else names and node ports may not work.
    pub forward: bool,
    pub says: String,
    pub mend: String,
}

/// Chains with a hook, in the text that `nft list chains` writes.
pub fn chains(text: &str) -> Vec<Chain> {
    let (mut table, mut name, mut found) = (String::new(), String::new(), Vec::new());
    for line in text.lines().map(str::trim) {
        let rest = |word: &str| line.strip_prefix(word).map(|rest| rest.trim_end_matches('{').trim().to_owned());
        if let Some(rest) = rest("table ") {
            table = rest;
        } else if let Some(rest) = rest("chain ") {
            name = rest;
        } else if let Some((rest, hook)) = line.split_once(" hook ") {
            let hook = hook.split_whitespace().next().unwrap_or_default().to_owned();
            // The chains of firewalld accept by their policy, and refuse by their last rule whatever is in no zone that does.
            let drops = line.contains("policy drop") || is_firewalld(&table) && rest == "type filter";
            found.push(Chain { table: table.clone(), name: name.clone(), hook, drops });
        }
    }
    found
}

fn is_firewalld(table: &str) -> bool {
    table.ends_with(" firewalld")
}

/// Whether the rules of a table speak of the pods' bridge: somebody has let it through.
pub fn knows_bridge(table: &str) -> bool {
    table.contains(&format!("\"{BRIDGE}\""))
}

/// Tables with a chain that drops and is not the engine's business: of iptables' own the engine has opened what it needs.
pub fn closed(chains: &[Chain]) -> impl Iterator<Item = &Chain> {
    let foreign = |chain: &&Chain| chain.drops && !["ip filter", "ip6 filter"].contains(&chain.table.as_str());
    chains.iter().filter(foreign).filter(|chain| ["forward", "input"].contains(&chain.hook.as_str()))
}

pub fn obstacles(chains: &[Chain]) -> Vec<Obstacle> {
    closed(chains).map(obstacle).collect()
}

fn obstacle(chain: &Chain) -> Obstacle {
    let forward = chain.hook == "forward";
    let place = format!("table {}, chain {}", chain.table, chain.name);
    let (says, way) = match forward {
        true => (format!("{place} drops what is forwarded: pods reach nobody"), "through"),
        false => (format!("{place} drops what comes to this host: names and node ports may not work"), "in"),
    };
    let more = if forward { ", and oifname likewise" } else { "" };
    let mend = match is_firewalld(&chain.table) {
        true => format!(
            "let the pods' bridge {way}: firewall-cmd --permanent --zone=trusted --add-interface={BRIDGE}, then firewall-cmd --reload"
        ),
        false => format!("let the pods' bridge {way}: nft insert rule {} {} iifname {BRIDGE} accept{more}", chain.table, chain.name),
    };
    Obstacle { forward, says, mend }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_with_a_hook() {
        let text = "table ip filter {\n\tchain FORWARD {\n\t\ttype filter hook forward priority filter; policy drop;\n\t}\n\tchain DOCKER {\n\t}\n}\n\
                    table inet coracle {\n\tchain out {\n\t\ttype nat hook output priority -100; policy accept;\n\t}\n}\n\
                    table inet firewalld {\n\tchain filter_FORWARD {\n\t\ttype filter hook forward priority filter + 10; policy accept;\n\t}\n\
                    \tchain nat_PREROUTING {\n\t\ttype nat hook prerouting priority dstnat + 10; policy accept;\n\t}\n}\n";
        let chain = |table: &str, name: &str, hook: &str, drops| Chain { table: table.into(), name: name.into(), hook: hook.into(), drops };
        let expected = [
            chain("ip filter", "FORWARD", "forward", true),
            chain("inet coracle", "out", "output", false),
            chain("inet firewalld", "filter_FORWARD", "forward", true),
            chain("inet firewalld", "nat_PREROUTING", "prerouting", false),
        ];
        assert_eq!(chains(text), expected);
        let found = obstacles(&expected);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].forward && found[0].says.contains("inet firewalld") && found[0].mend.contains("firewall-cmd"), "{found:?}");
        let own = [chain("inet mine", "in", "input", true)];
        let found = obstacles(&own);
        assert!(!found[0].forward && found[0].mend.ends_with("nft insert rule inet mine in iifname coracle0 accept"), "{found:?}");
        assert!(knows_bridge("iifname \"coracle0\" goto x") && !knows_bridge("iifname \"coracle01\""));
    }
}

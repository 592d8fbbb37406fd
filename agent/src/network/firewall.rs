//! Finds chains of other firewalls that drop packets of pods, or packets to this host. PURE.

use crate::network::pod_network::BRIDGE;

/// A base chain in nftables.
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
            // The chains of firewalld accept by their policy, and refuse by their last rule whatever is in no zone that
            // does.
            let drops = line.contains("policy drop") || is_firewalld(&table) && rest == "type filter";
            found.push(Chain { table: table.clone(), name: name.clone(), hook, drops });
        }
    }
    found
}

fn is_firewalld(table: &str) -> bool {
    table.ends_with(" firewalld")
}

fn is_iptables(table: &str) -> bool {
    table == "ip filter"
}

/// Whether rules in a table name the pods' bridge: the administrator has let the bridge through. The iptables table
/// holds the chains of every iptables user, so only chains for the same hook count: `ufw-user-input` for `input`.
pub fn lets_bridge_through(chain: &Chain, table: &str) -> bool {
    let (mut inside, bridge) = (String::new(), format!("\"{BRIDGE}\""));
    table.lines().map(str::trim).any(|line| {
        if let Some(name) = line.strip_prefix("chain ") {
            inside = name.to_lowercase();
        }
        line.contains(&bridge) && (!is_iptables(&chain.table) || inside.contains(&chain.hook))
    })
}

/// Chains that may drop pods' packets, forwarded or to this host. IPv6 does not count: pods have no IPv6 addresses.
pub fn closed(chains: &[Chain]) -> impl Iterator<Item = &Chain> {
    let foreign = |chain: &&Chain| chain.drops && chain.table != "ip6 filter";
    chains.iter().filter(foreign).filter(|chain| ["forward", "input"].contains(&chain.hook.as_str()))
}

/// `agent_answers`: whether the agent has started. An agent adds its accept rules to iptables' FORWARD chain at its
/// start, so before the start that chain is no obstacle.
pub fn obstacles(chains: &[Chain], agent_answers: bool) -> Vec<Obstacle> {
    let makes_way = |chain: &&Chain| !agent_answers && is_iptables(&chain.table) && chain.hook == "forward";
    closed(chains).filter(|chain| !makes_way(chain)).map(obstacle).collect()
}

fn obstacle(chain: &Chain) -> Obstacle {
    let forward = chain.hook == "forward";
    let place = format!("table {}, chain {}", chain.table, chain.name);
    let (says, way) = match forward {
        true => (format!("{place} drops what is forwarded: pods reach nobody"), "through"),
        false => (format!("{place} drops what comes to this host: names and node ports may not work"), "in"),
    };
    let more = if forward { ", and oifname likewise" } else { "" };
    let mend = match (is_firewalld(&chain.table), is_iptables(&chain.table)) {
        (true, _) => format!(
            "let the pods' bridge {way}: firewall-cmd --permanent --zone=trusted --add-interface={BRIDGE}, then \
             firewall-cmd --reload"
        ),
        (_, true) if forward => {
            "apt-get install iptables: with it the agent lets the pods' bridge through, or its log says why not"
                .to_owned()
        }
        (_, true) => {
            format!("let the pods' bridge in: ufw allow in on {BRIDGE}, or iptables -I INPUT -i {BRIDGE} -j ACCEPT")
        }
        _ => format!(
            "let the pods' bridge {way}: nft insert rule {} {} iifname {BRIDGE} accept{more}",
            chain.table, chain.name
        ),
    };
    Obstacle { forward, says, mend }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_with_a_hook() {
        let text = "table ip filter {\n\tchain FORWARD {\n\t\ttype filter hook forward priority filter; policy drop;\n\
                    \t}\n\tchain DOCKER {\n\t}\n}\ntable inet coracle {\n\tchain out {\n\
                    \t\ttype nat hook output priority -100; policy accept;\n\t}\n}\ntable inet firewalld {\n\
                    \tchain filter_FORWARD {\n\t\ttype filter hook forward priority filter + 10; policy accept;\n\t}\n\
                    \tchain nat_PREROUTING {\n\t\ttype nat hook prerouting priority dstnat + 10; policy accept;\n\t}\n\
                    }\n";
        let chain = |table: &str, name: &str, hook: &str, drops| Chain {
            table: table.into(),
            name: name.into(),
            hook: hook.into(),
            drops,
        };
        let expected = [
            chain("ip filter", "FORWARD", "forward", true),
            chain("inet coracle", "out", "output", false),
            chain("inet firewalld", "filter_FORWARD", "forward", true),
            chain("inet firewalld", "nat_PREROUTING", "prerouting", false),
        ];
        assert_eq!(chains(text), expected);
        let found = obstacles(&expected, false);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].forward && found[0].says.contains("inet firewalld") && found[0].mend.contains("firewall-cmd"),
            "{found:?}"
        );
        let own = [chain("inet mine", "in", "input", true)];
        let found = obstacles(&own, true);
        assert!(
            !found[0].forward && found[0].mend.ends_with("nft insert rule inet mine in iifname coracle0 accept"),
            "{found:?}"
        );
        assert!(
            lets_bridge_through(&own[0], "iifname \"coracle0\" goto x")
                && !lets_bridge_through(&own[0], "iifname \"coracle01\"")
        );
    }

    #[test]
    fn the_table_of_iptables_is_shared() {
        let chain =
            |hook: &str| Chain { table: "ip filter".into(), name: hook.to_uppercase(), hook: hook.into(), drops: true };
        // The agent's own way for what is forwarded lets nothing in.
        let table = "chain FORWARD {\n iifname \"coracle0\" counter packets 3 bytes 180 accept\n }\n";
        assert!(lets_bridge_through(&chain("forward"), table) && !lets_bridge_through(&chain("input"), table));
        assert!(lets_bridge_through(
            &chain("input"),
            "chain ufw-user-input {\n iifname \"coracle0\" counter packets 0 bytes 0 accept\n }\n"
        ));
        let says = |hook: &str, agent_answers| {
            obstacles(&[chain(hook)], agent_answers).first().map(|found| found.mend.clone())
        };
        assert_eq!(says("forward", false), None);
        assert!(says("forward", true).is_some_and(|mend| mend.contains("iptables")));
        assert!(says("input", true).is_some_and(|mend| mend.contains("ufw allow in")));
        assert_eq!(obstacles(&[Chain { table: "ip6 filter".into(), ..chain("input") }], true), []);
    }
}

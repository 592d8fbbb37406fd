//! Rules that let the pods' bridge through: Docker, ufw and similar programs drop forwarded packets that no rule
//! accepts. PURE.
//!
//! An accept in a table of ours ends nothing in theirs, so it stands where Docker wants such rules (DOCKER-USER), or
//! first in FORWARD. What Docker keeps apart stays apart: pods reach containers on its other networks at their
//! published ports alone, as before.

use std::collections::BTreeSet;

use super::BRIDGE;

pub const CHAIN: &str = "CORACLE-FORWARD";

/// What `iptables-restore --noflush` is told. None: it is so already, or nothing is in the way. `rules`: what
/// `iptables -S` says.
pub fn script(rules: &str) -> Option<String> {
    let place = if rules.lines().any(|line| line == "-N DOCKER-USER") { "DOCKER-USER" } else { "FORWARD" };
    let jump = format!("-A {place} -j {CHAIN}");
    let in_place = |line: &&str| line.starts_with(&format!("-A {place} "));
    let drops = rules.lines().any(|line| line.starts_with("-P FORWARD") && line != "-P FORWARD ACCEPT");
    let others = rules.lines().any(|line| line.starts_with("-A FORWARD ") && line != jump);
    if !drops && !others {
        return None;
    }
    let wanted = wanted(rules);
    let own: Vec<&str> = rules.lines().filter(|line| line.starts_with(&format!("-A {CHAIN} "))).collect();
    let leads = rules.lines().find(in_place) == Some(jump.as_str());
    if own == wanted && leads {
        return None;
    }
    let first = if leads { String::new() } else { format!("-I {place} 1 -j {CHAIN}\n") };
    Some(format!("*filter\n:{CHAIN} - [0:0]\n{}\n{first}COMMIT\n", wanted.join("\n")))
}

/// In the very words in which iptables lists them.
fn wanted(rules: &str) -> Vec<String> {
    let state = "-m conntrack --ctstate";
    let apart =
        bridges(rules).into_iter().map(|other| format!("-A {CHAIN} -i {BRIDGE} -o {other} {state} NEW -j RETURN"));
    let through = [
        format!("-A {CHAIN} -i {BRIDGE} -j ACCEPT"),
        // Replies, and packets that a port mapping or a service leads here. Other packets from outside get no rule, as
        // before.
        format!("-A {CHAIN} -o {BRIDGE} {state} RELATED,ESTABLISHED,DNAT -j ACCEPT"),
    ];
    apart.chain(through).collect()
}

/// Docker's other ones.
fn bridges(rules: &str) -> BTreeSet<&str> {
    let of =
        |line: &str| line.starts_with("-A ") && line.ends_with(" -j DOCKER") && line.split(' ').nth(2) == Some("-o");
    rules
        .lines()
        .filter(|line| of(line))
        .filter_map(|line| line.split(' ').nth(3))
        .filter(|name| *name != BRIDGE)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Docker 20.10 leaves it.
    const DOCKERS: &str = "-P INPUT ACCEPT\n-P FORWARD DROP\n-P OUTPUT ACCEPT\n-N DOCKER\n-N DOCKER-USER\n\
                           -A FORWARD -j DOCKER-USER\n-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED \
                           -j ACCEPT\n-A FORWARD -o docker0 -j DOCKER\n-A FORWARD -i docker0 ! -o docker0 -j ACCEPT\n\
                           -A FORWARD -o coracle0 -j DOCKER\n-A DOCKER-USER -j RETURN\n";
    const OURS: &str = "-A CORACLE-FORWARD -i coracle0 -o docker0 -m conntrack --ctstate NEW -j RETURN\n\
        -A CORACLE-FORWARD -i coracle0 -j ACCEPT\n\
        -A CORACLE-FORWARD -o coracle0 -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT\n";

    #[test]
    fn the_bridge_is_let_through() {
        let made = |rules: &str, body: &str, first: &str| {
            assert_eq!(
                script(rules).as_deref(),
                Some(format!("*filter\n:{CHAIN} - [0:0]\n{body}{first}COMMIT\n").as_str()),
                "{rules}"
            );
        };
        made(DOCKERS, OURS, "-I DOCKER-USER 1 -j CORACLE-FORWARD\n");
        let there = DOCKERS
            .replace("-A DOCKER-USER -j RETURN", &format!("-A DOCKER-USER -j {CHAIN}\n-A DOCKER-USER -j RETURN"));
        assert_eq!(script(&format!("{there}{OURS}")), None, "it is so already");
        // A network that Docker has made since, and rules that somebody has flushed.
        let another = format!("{there}{OURS}-A DOCKER-BRIDGE -o br-0123 -j DOCKER\n");
        let apart = OURS.replace("docker0", "br-0123").lines().next().map(|line| format!("{line}\n")).unwrap();
        made(&another, &format!("{apart}{OURS}"), "");
        made(&there, OURS, "");
        // ufw without Docker.
        let (_, plain) = OURS.split_once('\n').unwrap();
        made("-P FORWARD DROP\n-N ufw-x\n-A FORWARD -j ufw-x\n", plain, "-I FORWARD 1 -j CORACLE-FORWARD\n");
        // Nothing drops forwarded packets.
        assert_eq!(script("-P INPUT ACCEPT\n-P FORWARD ACCEPT\n-P OUTPUT ACCEPT\n"), None);
    }
}

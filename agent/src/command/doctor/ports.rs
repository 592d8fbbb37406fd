//! Checks whether other programs hold the host ports that the agent and its pods need. PURE.

use std::net::{IpAddr, SocketAddr};

use super::{Finding, Readings};
use crate::facts::ports::overlap;

const DNS: u16 = 53;

/// What a pod asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPort {
    /// `default/web`
    pub pod: String,
    pub port: u16,
    /// `tcp`
    pub protocol: String,
    /// Empty: every address.
    pub host_ip: String,
    /// An nftables rule leads from the host port to the pod: the host port needs no socket.
    pub by_rule: bool,
    /// Its pod runs here: the socket may be its own. False while the engine does not answer.
    pub runs: bool,
}

/// The agent's own.
pub fn agent(host: &Readings, all: &mut Vec<Finding>) {
    let takes = |one: &SocketAddr| {
        one.port() == host.listen.port() && (one.ip() == host.listen.ip() || one.ip().is_unspecified())
    };
    let taken = host.listening.iter().any(takes);
    all.push(match (taken, host.agent_answers) {
        (true, false) => {
            let mend =
                "`ss -tlnp` says by whom; end it, or give the agent another port (listen in /etc/coracle/agent.conf)";
            Finding::problem("ports", format!("{} is taken, and not by this agent", host.listen), mend)
        }
        (_, true) => Finding::good("ports", format!("the agent answers on {}", host.listen)),
        (false, false) => Finding::good("ports", format!("{} is free; the agent does not run", host.listen)),
    });
}

/// Where pods ask for names.
pub fn names(host: &Readings, all: &mut Vec<Finding>) {
    let Some(address) = host.dns else { return };
    let on = |sockets: &[SocketAddr], ip: IpAddr| sockets.iter().any(|one| one.port() == DNS && one.ip() == ip);
    let own = on(&host.listening, address) && on(&host.listening_udp, address);
    let everywhere = |sockets: &[SocketAddr]| sockets.iter().any(|one| one.port() == DNS && one.ip().is_unspecified());
    let mend = "`ss -lnptu sport = :53` says by whom; let it listen on the host's own addresses alone (dnsmasq: \
                bind-interfaces)";
    all.push(match (own, everywhere(&host.listening) || everywhere(&host.listening_udp)) {
        (true, _) if host.agent_answers => Finding::good("ports", format!("pods are answered at {address}:{DNS}")),
        (false, true) => Finding::problem(
            "ports",
            format!("port {DNS} is taken on every address: pods get no names at {address}:{DNS}"),
            mend,
        ),
        (false, false) if host.agent_answers && host.engine.is_err() => {
            Finding::good("ports", format!("{address}:{DNS} is free; the agent waits for the engine"))
        }
        (false, false) if host.agent_answers => {
            let says = format!("the agent runs, and nobody answers pods' questions for names at {address}:{DNS}");
            Finding::problem("ports", says, "journalctl -u coracle-agent says why, in a line that begins with DNS")
        }
        (true, _) => Finding::problem("ports", format!("{address}:{DNS} is taken, and not by this agent"), mend),
        (false, false) => Finding::good("ports", format!("{address}:{DNS} is free; the agent does not run")),
    });
}

pub fn of_pods(host: &Readings, all: &mut Vec<Finding>) {
    for wanted in &host.host_ports {
        let sockets = if wanted.protocol == "udp" { &host.listening_udp } else { &host.listening };
        let takes = |one: &&SocketAddr| one.port() == wanted.port && overlap(&one.ip().to_string(), &wanted.host_ip);
        let Some(taken) = sockets.iter().find(takes) else { continue };
        let HostPort { pod, port, .. } = wanted;
        let protocol = wanted.protocol.to_uppercase();
        let mend = format!("`ss -lnptu sport = :{port}` says by whom; end it, or give the pod another hostPort");
        if wanted.by_rule {
            let says = format!(
                "a program listens on {taken}/{protocol}, and what comes there goes to pod {pod}, which has the \
                 hostPort"
            );
            all.push(Finding::warning("ports", says, mend));
        } else if !wanted.runs && host.engine.is_ok() {
            // Of an engine that does not answer nobody knows which pods run, and the socket may be the pod's own.
            let says = format!("pod {pod} asks for host port {port}/{protocol}, and a program listens on {taken}");
            all.push(Finding::problem("ports", says, mend));
        }
    }
}

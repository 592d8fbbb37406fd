//! Finds host ports and host addresses of services that a program of this host already uses (host ports of pods:
//! `plan/ports.rs`). PURE.
//!
//!     services, what listens here, this host's networks -> `troubles`: a line and an event each
//!
//! The rules lead on what comes to a node port whoever listens there: the program would be beaten without a word. At
//! other ports of this host the program stays (`services::outer`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use coracle_api::service::Service;
use coracle_api::strategy::Cidr;

/// Sockets that take what comes to a port, by protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listening {
    pub tcp: Vec<SocketAddr>,
    pub udp: Vec<SocketAddr>,
}

/// An obstacle on this host for a service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub reason: &'static str,
    pub what: String,
}

/// `networks`: by the name of an interface.
pub fn troubles(services: &[Arc<Service>], listening: &Listening, networks: &[(String, Cidr)]) -> BTreeSet<Trouble> {
    let mut all = BTreeSet::new();
    for service in services {
        let (meta, spec) = (&service.metadata, &service.spec);
        let trouble = |reason, what| Trouble {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            reason,
            what,
        };
        for port in &spec.ports {
            let protocol = if port.protocol.is_empty() { "TCP" } else { &port.protocol };
            let all_of = match protocol {
                "TCP" => &listening.tcp,
                "UDP" => &listening.udp,
                _ => continue,
            };
            let number = port.node_port;
            let holder = all_of.iter().find(|one| i32::from(one.port()) == number && takes(one.ip(), None));
            if let Some(holder) = holder.filter(|_| number > 0) {
                let what = format!(
                    "a program of this host listens at {holder}/{protocol}, and the node port {number} of this \
                     service takes what comes there (`ss -lntup` says which program; end it, or give the service \
                     another port)"
                );
                all.insert(trouble("PortTaken", what));
            }
        }
        let Ok(address) = spec.cluster_ip.parse::<IpAddr>() else { continue };
        if let Some((name, network)) = networks.iter().find(|(_, network)| network.contains(address)) {
            let what = format!(
                "its address {address} is one of {network}, the network of {name} on this host: give the master \
                 another --service-cidr, or the interface another network"
            );
            all.insert(trouble("AddressOverlaps", what));
        }
    }
    all
}

/// Whether a socket at `at` receives packets to `address` (none: every address that remote hosts reach). A socket on
/// the loopback receives nothing from remote hosts.
pub fn takes(at: IpAddr, address: Option<IpAddr>) -> bool {
    if at.is_unspecified() {
        return true;
    }
    match address {
        None => !at.is_loopback(),
        Some(address) => at == address,
    }
}

/// From the kernel's socket tables: the listening TCP sockets, and the UDP sockets without a connected peer.
pub fn listening(tcp: [&str; 2], udp: [&str; 2]) -> Listening {
    const LISTEN: &str = "0A";
    const UNCONNECTED: &str = "07";
    let of = |tables: [&str; 2], state: &str| tables.iter().flat_map(|table| sockets(table, state)).collect();
    Listening { tcp: of(tcp, LISTEN), udp: of(udp, UNCONNECTED) }
}

/// Addresses of the sockets in a state.
pub fn sockets(table: &str, state: &str) -> Vec<SocketAddr> {
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(3) == Some(&state)).filter_map(|row| address(row.get(1)?)).collect()
}

/// `0100007F:280A`: words of the machine's own order.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            IpAddr::V6(std::net::Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// What is asked of this host by services, to tell whether anything has changed: a look costs.
pub fn asked(services: &[Arc<Service>]) -> BTreeMap<(String, String), Vec<String>> {
    let of = |service: &Arc<Service>| {
        let spec = &service.spec;
        let ports = spec.ports.iter().map(|port| format!("{}/{}", port.protocol, port.node_port));
        ports.chain([spec.cluster_ip.clone()]).collect()
    };
    services
        .iter()
        .map(|service| ((service.metadata.namespace.clone(), service.metadata.name.clone()), of(service)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn texts_of_the_kernel() {
        let loopback = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
        let table = format!(
            "  sl  local_address rem\n   0: {loopback}:280A 0:0 0A 0\n   1: {loopback}:0016 0:0 01 0\n   2: \
             00000000:0035 0:0 07 0\n"
        );
        let found = listening([&table, ""], [&table, ""]);
        assert_eq!(
            (found.tcp, found.udp),
            (vec!["127.0.0.1:10250".parse().unwrap()], vec!["0.0.0.0:53".parse().unwrap()])
        );
        assert_eq!(address(&format!("{:032}:0050", 0)), Some("[::]:80".parse().unwrap()));
        assert_eq!(address("nonsense"), None);
    }

    #[test]
    fn what_this_host_has_already_is_named() {
        let check = |tcp: &[&str], udp: &[&str], expected: &[&str]| {
            let service = json!({"metadata": {"namespace": "shop", "name": "web", "uid": "u"},
                "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.7",
                    "ports": [{"port": 80, "nodePort": 30080}, {"port": 53, "protocol": "UDP"}]},
                "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"ip": "198.51.100.1"}]}}});
            let parse = |all: &[&str]| all.iter().map(|text| text.parse().unwrap()).collect();
            let listening = Listening { tcp: parse(tcp), udp: parse(udp) };
            let networks = [("eth0".to_owned(), Cidr::parse("192.0.2.0/24").unwrap())];
            let found = troubles(&[Arc::new(Service::read(&service).unwrap())], &listening, &networks);
            let said: Vec<&str> = found.iter().map(|one| one.what.split(" of this service").next().unwrap()).collect();
            assert_eq!(said, expected, "{tcp:?} {udp:?}");
            assert!(found.iter().all(|one| one.reason == "PortTaken"
                && (one.namespace.as_str(), one.uid.as_str()) == ("shop", "u")));
        };
        let says = |at: &str, kind: &str| format!("a program of this host listens at {at}, and the {kind}");
        check(&[], &[], &[]);
        check(&["0.0.0.0:30080"], &[], &[&says("0.0.0.0:30080/TCP", "node port 30080")]);
        check(&["[::]:30080"], &[], &[&says("[::]:30080/TCP", "node port 30080")]);
        check(&["127.0.0.1:30080"], &["0.0.0.0:30080"], &[]);
        // Of the balanced ones `services::outer` tells.
        check(&["192.0.2.1:80", "0.0.0.0:53"], &["0.0.0.0:53"], &[]);
    }

    #[test]
    fn an_address_of_a_network_here_is_named() {
        let service =
            |ip: &str| -> Value { json!({"metadata": {"namespace": "d", "name": "a"}, "spec": {"clusterIP": ip}}) };
        let networks = [("eth0".to_owned(), Cidr::parse("10.96.3.9/24").unwrap())];
        let found =
            |ip: &str| troubles(&[Arc::new(Service::read(&service(ip)).unwrap())], &Listening::default(), &networks);
        assert!(found("10.96.4.1").is_empty() && found("None").is_empty());
        let one = found("10.96.3.1").pop_first().unwrap();
        assert_eq!(one.reason, "AddressOverlaps");
        assert!(one.what.contains("10.96.3.1 is one of 10.96.3.0/24, the network of eth0"), "{}", one.what);
    }
}

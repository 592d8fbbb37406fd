//! Where the pods of a node are, and which addresses are none of a pod. PURE.
//!
//! Objects say where pods are, and clients and nodes write objects. The agent of a node says on its own socket which
//! range its pods have and what address its host has; only root makes that socket. A request leads through the master
//! only where both say the same:
//!
//!     a pod                          the range of its node, without the addresses of the master's host
//!     a pod of the host's network    the address of its node, and a port that the pod names

use coracle_api::pod::Pod;
use coracle_api::strategy::Cidr;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};

/// Why there is no address to go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyError {
    /// No client may be sent to this address.
    Forbidden(String),
    /// The service has no such port: what was asked for.
    NoPort(String),
    /// The service has no endpoints, ready or not, or nobody has kept any for it yet.
    NoEndpoints,
    /// It has some, and none is ready to answer there.
    NoneReady,
    /// The object does not say where it is.
    Unplaced(&'static str),
}

/// A node in the words of its agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodePlace {
    /// The addresses of its pods.
    pub range: Option<Cidr>,
    /// The address of its host, which pods of the host's network have.
    pub address: Option<IpAddr>,
}

/// The nodes that are known, and this host.
pub trait KnownPlaces {
    /// `None`: no agent says where the pods of that node are.
    fn node(&self, name: &str) -> Option<NodePlace>;

    /// Whether programs of the master's host listen at the address.
    fn is_own(&self, address: IpAddr) -> bool;
}

impl NodePlace {
    /// The answer of an agent to `/node`.
    pub fn read(answer: &[u8]) -> Option<NodePlace> {
        let node: Value = serde_json::from_slice(answer).ok()?;
        let range = node["podCIDR"].as_str().and_then(Cidr::parse);
        Some(NodePlace { range, address: node["address"].as_str().and_then(|address| address.parse().ok()) })
    }
}

/// The address of a pod. Fails if the address is outside the pod range of its node.
pub fn of_pod(pod: &Pod, at: SocketAddr, places: &dyn KnownPlaces) -> Result<SocketAddr, ProxyError> {
    let node = node(places, &pod.spec.node_name)?;
    if !pod.spec.host_network {
        return in_range(node, at, places);
    }
    if node.address != Some(at.ip()) {
        return Err(forbidden(at.ip(), "not the address of the pod's node"));
    }
    let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
    let mut ports = containers.flat_map(|container| &container.ports);
    match ports.any(|port| port.container_port == i32::from(at.port())) {
        true => Ok(at),
        false => {
            let why = format!("port {} of a host, and the pod on the host's network does not name it", at.port());
            Err(forbidden(at.ip(), &why))
        }
    }
}

/// The place of an endpoint that names its node, and perhaps a pod of the host's network.
pub fn of_endpoint(
    (node_name, pod): (&str, Option<&Pod>),
    at: SocketAddr,
    places: &dyn KnownPlaces,
) -> Result<SocketAddr, ProxyError> {
    match pod {
        Some(pod) if pod.spec.host_network => of_pod(pod, at, places),
        _ if node_name.is_empty() => Err(forbidden(at.ip(), "an endpoint that names no node, so not one of a pod")),
        _ => in_range(node(places, node_name)?, at, places),
    }
}

fn node(places: &dyn KnownPlaces, name: &str) -> Result<NodePlace, ProxyError> {
    if name.is_empty() {
        return Err(ProxyError::Unplaced("no node runs it"));
    }
    places.node(name).ok_or(ProxyError::Unplaced("the agent of its node does not say where the node's pods are"))
}

fn in_range(node: NodePlace, at: SocketAddr, places: &dyn KnownPlaces) -> Result<SocketAddr, ProxyError> {
    if !node.range.is_some_and(|range| range.contains(at.ip())) {
        return Err(forbidden(at.ip(), "outside of the range of the node's pods"));
    }
    if places.is_own(at.ip()) {
        return Err(forbidden(at.ip(), "an address of the master's host"));
    }
    Ok(at)
}

fn forbidden(address: IpAddr, why: &str) -> ProxyError {
    ProxyError::Forbidden(format!("address not allowed: {address} is {why}"))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    /// Node n has pods in 10.1.0.0/16, and its host is 192.0.2.7. The master's host has 10.1.0.1.
    pub struct OneNode;

    impl KnownPlaces for OneNode {
        fn node(&self, name: &str) -> Option<NodePlace> {
            let answer = br#"{"name": "n", "podCIDR": "10.1.0.0/16", "address": "192.0.2.7"}"#;
            (name == "n").then(|| NodePlace::read(answer)).flatten()
        }

        fn is_own(&self, address: IpAddr) -> bool {
            ["10.1.0.1", "192.0.2.7"].iter().any(|own| own.parse() == Ok(address))
        }
    }

    fn pod(node: &str, host_network: bool) -> Pod {
        let container = json!({"name": "c", "ports": [{"containerPort": 8080}]});
        let spec = json!({"nodeName": node, "hostNetwork": host_network, "containers": [container]});
        Pod::deserialize(json!({ "spec": spec })).expect("a pod")
    }

    fn outcome(found: Result<SocketAddr, ProxyError>) -> &'static str {
        match found {
            Ok(_) => "ok",
            Err(ProxyError::Forbidden(_)) => "forbidden",
            Err(ProxyError::Unplaced(_)) => "unplaced",
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn pods_are_where_their_node_runs_them() {
        let check = |node: &str, host_network: bool, at: &str, expected: &str| {
            let found = of_pod(&pod(node, host_network), at.parse().expect("an address"), &OneNode);
            assert_eq!(outcome(found), expected, "{node} {host_network} {at}");
        };
        check("n", false, "10.1.0.7:80", "ok");
        check("n", false, "10.1.0.7:6443", "ok");
        // The bridge, the host, its neighbours, another network.
        for other in ["10.1.0.1:80", "192.0.2.7:8080", "192.0.2.8:80", "10.2.0.7:80", "8.8.8.8:80", "[fd00::7]:80"] {
            check("n", false, other, "forbidden");
        }
        check("n", true, "192.0.2.7:8080", "ok");
        for other in ["192.0.2.7:22", "192.0.2.7:6443", "192.0.2.8:8080", "10.1.0.7:8080"] {
            check("n", true, other, "forbidden");
        }
        check("m", false, "10.1.0.7:80", "unplaced");
        check("", true, "192.0.2.7:8080", "unplaced");
    }

    #[test]
    fn endpoints_are_pods() {
        let check = |node: &str, pod: Option<&Pod>, at: &str, expected: &str| {
            let found = of_endpoint((node, pod), at.parse().expect("an address"), &OneNode);
            assert_eq!(outcome(found), expected, "{node} {at}");
        };
        check("n", None, "10.1.0.7:80", "ok");
        check("n", None, "192.0.2.7:80", "forbidden");
        check("n", None, "10.1.0.1:80", "forbidden");
        check("", None, "10.1.0.7:80", "forbidden");
        check("m", None, "10.1.0.7:80", "unplaced");
        let (of_host, of_network) = (pod("n", true), pod("n", false));
        check("n", Some(&of_host), "192.0.2.7:8080", "ok");
        check("n", Some(&of_host), "192.0.2.7:6443", "forbidden");
        check("n", Some(&of_network), "192.0.2.7:8080", "forbidden");
    }

    #[test]
    fn what_agents_say() {
        let none = NodePlace::default();
        assert_eq!(NodePlace::read(b"no JSON"), None);
        assert_eq!(NodePlace::read(br#"{"podCIDR": null, "address": "a.b"}"#), Some(none));
        assert!(OneNode.node("n").is_some_and(|node| node.range.is_some() && node.address.is_some()));
    }
}

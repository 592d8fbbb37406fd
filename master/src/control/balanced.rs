//! Services of type LoadBalancer, and the ports of nodes that they hold, as a pod holds its host ports. PURE.

use super::shelf::View;
use super::view::{HostPort, NodeView, SERVICES, document, protocol};
use crate::store::Stored;
use coracle_api::meta::{Resource, Revision};
use coracle_api::node::Node;
use coracle_api::service::Service;
use serde_json::Value;
use std::net::IpAddr;
use std::time::Duration;

/// How the agent of this project ends its version.
pub const AGENT: &str = "-coracle";

/// A service, as far as a balancer looks at it.
#[derive(Clone, Debug)]
pub struct BalancedView {
    /// It asks for a balancer of this cluster.
    pub wants: bool,
    pub revision: Revision,
    pub uid: String,
    pub made: String,
    /// At every address of a node.
    pub ports: Vec<HostPort>,
    pub status: Value,
    /// The node addresses that the service was given.
    pub given: Vec<IpAddr>,
}

impl View for BalancedView {
    const OF: &'static [Resource] = &[SERVICES];

    fn read(stored: &Stored, _: Option<&BalancedView>, _: Duration) -> Option<BalancedView> {
        let document = document(stored);
        let service = Service::read(&document).ok()?;
        let wants = service.spec.kind == "LoadBalancer" && service.spec.load_balancer_class.is_none();
        let port = |port: &coracle_api::service::ServicePort| HostPort {
            port: port.port,
            protocol: protocol(&port.protocol),
            ip: String::new(),
        };
        Some(BalancedView {
            wants: wants && document["metadata"]["deletionTimestamp"].is_null(),
            revision: stored.revision,
            made: document["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned(),
            ports: service.spec.ports.iter().map(port).collect(),
            status: document["status"].clone(),
            given: service.status.load_balancer.ingress.iter().filter_map(|one| one.ip.parse().ok()).collect(),
            uid: service.metadata.uid,
        })
    }
}

impl BalancedView {
    /// Whether traffic to this address of a node goes to the service.
    pub fn has(&self, address: IpAddr) -> bool {
        self.wants && self.given.contains(&address)
    }

    /// Whether a pod may have a port that it could not have before.
    pub fn leaves(was: Option<&BalancedView>, is: Option<&BalancedView>) -> bool {
        let stays = |was: &BalancedView| {
            is.is_some_and(|is| {
                was.ports.iter().all(|port| is.ports.contains(port)) && was.given.iter().all(|address| is.has(*address))
            })
        };
        was.is_some_and(|was| was.wants && !was.given.is_empty() && !stays(was))
    }
}

/// Whether an agent of this project runs it.
pub fn is_ours(node: &NodeView) -> bool {
    memchr::memmem::find(&node.document.json, AGENT.as_bytes()).is_some() && said(node).is_some_and(|node| node.0)
}

/// The address of a node with this project's agent.
pub fn address(node: &NodeView) -> Option<IpAddr> {
    said(node).filter(|(ours, _)| *ours)?.1
}

fn said(node: &NodeView) -> Option<(bool, Option<IpAddr>)> {
    let document: Value = serde_json::from_slice(&node.document.json).ok()?;
    let Node { status, .. } = serde_json::from_value(document.clone()).ok()?;
    let ours =
        document["status"]["nodeInfo"]["kubeletVersion"].as_str().is_some_and(|version| version.ends_with(AGENT));
    let address = status.addresses.iter().find(|one| one.kind == "InternalIP").and_then(|one| one.address.parse().ok());
    Some((ours, address.filter(|address: &IpAddr| !address.is_loopback())))
}

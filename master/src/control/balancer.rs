//! A load balancer of the cluster's own: a service of that type gets the addresses of the nodes, whose agents lead its ports on. PURE.
//!
//!     every service of the type, the oldest first -> the ports that are free yet -> `status.loadBalancer`
//!
//! Only nodes of this project's agent take part: another kubelet would not lead the ports on. Whoever names another balancer in
//! `spec.loadBalancerClass` has that.

use super::cluster::Cluster;
use super::controller::{Change, Look};
use super::intent::{Decision, Intent};
use super::shelf::View;
use super::view::{NodeView, SERVICES, document};
use crate::store::Stored;
use coracle_api::meta::{Key, Resource, Revision};
use coracle_api::node::Node;
use coracle_api::service::Service;
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// How the agent of this project ends its version.
pub const AGENT: &str = "-coracle";

/// A service, as far as a balancer looks at it.
#[derive(Clone, Debug)]
pub struct BalancedView {
    /// It asks for a balancer of this cluster.
    wants: bool,
    revision: Revision,
    made: String,
    /// Protocol and number.
    ports: BTreeSet<(String, i32)>,
    status: Value,
}

impl View for BalancedView {
    const OF: &'static [Resource] = &[SERVICES];

    fn read(stored: &Stored, _: Option<&BalancedView>, _: Duration) -> Option<BalancedView> {
        let document = document(stored);
        let service = Service::read(&document).ok()?;
        let wants = service.spec.kind == "LoadBalancer" && service.spec.load_balancer_class.is_none();
        let protocol = |text: &str| if text.is_empty() { "TCP".to_owned() } else { text.to_owned() };
        Some(BalancedView {
            wants: wants && document["metadata"]["deletionTimestamp"].is_null(),
            revision: stored.revision,
            made: document["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned(),
            ports: service.spec.ports.iter().map(|port| (protocol(&port.protocol), port.port)).collect(),
            status: document["status"].clone(),
        })
    }
}

fn wanting(cluster: &Cluster) -> impl Iterator<Item = (&Key, &BalancedView)> {
    cluster.all::<BalancedView>().filter(|(_, view)| view.wants)
}

pub fn all(cluster: &Cluster) -> Vec<Key> {
    wanting(cluster).map(|(key, _)| key.clone()).collect()
}

/// One service that goes may leave its ports to another.
pub fn by_service(cluster: &Cluster, _: &Change<'_>) -> Vec<Key> {
    all(cluster)
}

pub fn by_node(cluster: &Cluster, _: &Change<'_>) -> Vec<Key> {
    all(cluster)
}

pub fn decide(look: &Look<'_>) -> Decision {
    let Some(service) = look.cluster.get::<BalancedView>(look.key).filter(|view| view.wants) else { return Decision::default() };
    // Another balancer gives addresses then, and what it gave stays.
    if look.cluster.settings.own.as_ref().is_some_and(|own| !own.balancer) {
        return Decision::default();
    }
    let addresses = nodes(look.cluster);
    // Nodes that have not said where they are yet: what stands may be true.
    if addresses.is_empty() {
        return Decision::default();
    }
    let older = |other: &(&Key, &BalancedView)| (&other.1.made, other.0).cmp(&(&service.made, look.key)) == Ordering::Less;
    let taken = wanting(look.cluster).filter(older).any(|(_, other)| !other.ports.is_disjoint(&service.ports));
    let standing = &service.status["loadBalancer"]["ingress"];
    let wanted: Vec<Value> = if taken { Vec::new() } else { addresses.iter().map(|ip| json!({"ip": ip, "ipMode": "VIP"})).collect() };
    if standing.as_array().map(Vec::as_slice).unwrap_or_default() == wanted.as_slice() {
        return Decision::default();
    }
    let mut status = service.status.clone();
    status["loadBalancer"] = if wanted.is_empty() { json!({}) } else { json!({"ingress": wanted}) };
    Decision::of(vec![Intent::Status { key: look.key.clone(), seen: service.revision, status }])
}

/// Whether an agent of this project runs it.
pub fn is_ours(node: &NodeView) -> bool {
    memchr::memmem::find(&node.document.json, AGENT.as_bytes()).is_some() && said(node).is_some_and(|node| node.0)
}

/// The addresses of the nodes of ours.
fn nodes(cluster: &Cluster) -> BTreeSet<IpAddr> {
    cluster.nodes.values().filter_map(said).filter(|(ours, _)| *ours).filter_map(|(_, address)| address).collect()
}

fn said(node: &NodeView) -> Option<(bool, Option<IpAddr>)> {
    let document: Value = serde_json::from_slice(&node.document.json).ok()?;
    let Node { status, .. } = serde_json::from_value(document.clone()).ok()?;
    let ours = document["status"]["nodeInfo"]["kubeletVersion"].as_str().is_some_and(|version| version.ends_with(AGENT));
    let address = status.addresses.iter().find(|one| one.kind == "InternalIP").and_then(|one| one.address.parse().ok());
    Some((ours, address.filter(|address: &IpAddr| !address.is_loopback())))
}

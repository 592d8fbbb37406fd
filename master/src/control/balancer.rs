//! A load balancer of the cluster's own: a service of that type gets the addresses of the nodes, whose agents lead its
//! ports on. PURE.
//!
//!     every service of the type -> the nodes where its ports are nobody else's
//!         -> `status.loadBalancer`, and an event of the others
//!
//! A port of a node has one holder, as between pods: what stands there stays. Pods that stand there come first, since
//! nobody can take a host port from them; then services that have the node already, the oldest first; then those that
//! ask. The scheduler keeps pods off the ports that services hold. Only nodes of this project's agent take part:
//! another kubelet would not forward the ports. A service with a `spec.loadBalancerClass` is left to that balancer.

use super::balanced::{BalancedView, address};
use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{About, Decision, EventDraft, Intent, Memo};
use super::view::{HostPort, NodeView};
use coracle_api::meta::Key;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The services that ask for a balancer, if this cluster has a balancer.
pub fn wanting(cluster: &Cluster) -> impl Iterator<Item = (&Key, &BalancedView)> {
    let own = cluster.settings.own.as_ref().is_none_or(|own| own.balancer);
    cluster.all::<BalancedView>().filter(move |(_, view)| own && view.wants)
}

/// The ports of a node that are led to services: no pod can have them.
pub fn held(cluster: &Cluster, node: &NodeView) -> Vec<HostPort> {
    // Most clusters have none, and reading nodes takes its time.
    let mut all = wanting(cluster).filter(|(_, view)| !view.given.is_empty()).peekable();
    let Some(address) = all.peek().and_then(|_| address(node)) else { return Vec::new() };
    all.filter(|(_, view)| view.has(address)).flat_map(|(_, view)| view.ports.iter().cloned()).collect()
}

pub fn all(cluster: &Cluster) -> Vec<Key> {
    wanting(cluster).map(|(key, _)| key.clone()).collect()
}

/// A service that goes may free ports for any service.
pub fn by_service(cluster: &Cluster, _: &ObservedChange<'_>) -> Vec<Key> {
    all(cluster)
}

pub fn by_node(cluster: &Cluster, _: &ObservedChange<'_>) -> Vec<Key> {
    all(cluster)
}

/// A pod that comes to a node or leaves it, with ports of the host.
pub fn by_pod(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let holds = change.pods(cluster).any(|pod| !pod.host_ports.is_empty() && !pod.node.is_empty());
    if holds || change.is_unreadable() { all(cluster) } else { Vec::new() }
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, key) = (look.cluster, look.key);
    let Some((_, service)) = wanting(cluster).find(|(other, _)| *other == key) else { return Decision::default() };
    let nodes: Vec<(&str, IpAddr)> =
        cluster.nodes.iter().filter_map(|(name, node)| Some((name.as_str(), address(node)?))).collect();
    let mut announced: Option<String> = look.remembered();
    // Nodes that have not said where they are yet: what stands may be true.
    if nodes.is_empty() {
        return Decision { memo: announced.map(|announced| Memo::of(Some(announced))), ..Decision::default() };
    }
    let (mut free, mut clashes) = (BTreeSet::new(), Vec::new());
    for (name, address) in nodes {
        match clash(cluster, (name, address), (key, service)) {
            None => drop(free.insert(address)),
            Some(clash) => clashes.push(clash),
        }
    }
    let mut intents = Vec::new();
    let standing = &service.status["loadBalancer"]["ingress"];
    let wanted: Vec<Value> = free.iter().map(|ip| json!({"ip": ip, "ipMode": "VIP"})).collect();
    if standing.as_array().map(Vec::as_slice).unwrap_or_default() != wanted.as_slice() {
        let mut status = service.status.clone();
        status["loadBalancer"] = if wanted.is_empty() { json!({}) } else { json!({"ingress": wanted}) };
        intents.push(Intent::Status { key: key.clone(), seen: service.revision, status });
    }
    let trouble = words(&clashes);
    if let Some(message) = trouble.as_ref().filter(|message| announced.as_ref() != Some(message)) {
        let about = About::new(("v1", "Service"), key, &service.uid, service.revision);
        intents.push(Intent::Announce(EventDraft::warning(
            "service-controller",
            about,
            "SyncLoadBalancerFailed",
            message.clone(),
        )));
    }
    announced = trouble;
    Decision { memo: announced.map(|announced| Memo::of(Some(announced))), ..Decision::of(intents) }
}

/// A port on a node, and the pod or service that already holds this port.
struct Clash<'c> {
    node: &'c str,
    port: HostPort,
    by: String,
}

/// The first port of a service that a pod, or a service with precedence, already holds on this node.
fn clash<'c>(
    cluster: &'c Cluster,
    (node, address): (&'c str, IpAddr),
    (own, service): (&Key, &BalancedView),
) -> Option<Clash<'c>> {
    // Whoever reads the events of this service may know nothing of other namespaces.
    let named = |what: &str, key: &Key| match key.namespace == own.namespace {
        true => format!("{what} {}/{}", key.namespace, key.name),
        false => format!("a {what} of another namespace"),
    };
    let pods = cluster.pods_on(node).filter(|(_, pod)| !pod.terminal());
    let mut taken: Vec<(HostPort, String)> =
        pods.flat_map(|(key, pod)| pod.host_ports.iter().map(move |port| (port.clone(), named("pod", key)))).collect();
    let mut before: Vec<(&Key, &BalancedView)> = wanting(cluster).collect();
    before.sort_by_key(|(key, view)| (!view.has(address), &view.made, *key));
    let first = |taken: &[(HostPort, String)], view: &BalancedView| {
        view.ports.iter().find_map(|port| {
            taken.iter().find(|(other, _)| other.clashes(port)).map(|(_, by)| (port.clone(), by.clone()))
        })
    };
    for (key, view) in before.into_iter().take_while(|(key, _)| *key != own) {
        // A service with a clash gets nothing of this node, and therefore holds no port there.
        if first(&taken, view).is_none() {
            taken.extend(view.ports.iter().map(|port| (port.clone(), named("service", key))));
        }
    }
    first(&taken, service).map(|(port, by)| Clash { node, port, by })
}

/// Names the holder on the first node by name; further nodes are only counted.
fn words(clashes: &[Clash<'_>]) -> Option<String> {
    let Clash { node, port, by } = clashes.first()?;
    let HostPort { port, protocol, .. } = port;
    let more = match clashes.len() {
        1 => String::new(),
        several => format!(", and {} more nodes have no room for this service either", several - 1),
    };
    Some(format!("Error syncing load balancer: port {port}/{protocol} of node {node} is held by {by}{more}"))
}

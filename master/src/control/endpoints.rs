//! Endpoints: the addresses of the ready pods that a service selects, by port. PURE.
//!
//! A pod whose status nobody has said (a restart of the master loses it) keeps the place that it has: unknown is not absent.

use super::cluster::{Cluster, EndpointsView, MANAGED_BY, PodView, ServiceView, protocol, selects};
use super::intent::{Decision, Intent};
use coracle_api::meta::{Key, Resource};
use coracle_api::quantity::IntOrString;
use coracle_api::service::ServicePort;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Addresses of one endpoints object; Kubernetes cuts at the same number.
const ADDRESSES_MAX: usize = 1000;

/// A port of an endpoint: name, number, protocol.
type Port = (String, i32, String);

#[derive(Default)]
struct Addresses {
    ready: BTreeMap<String, Value>,
    not_ready: BTreeMap<String, Value>,
}

pub fn decide(cluster: &Cluster, service_key: &Key) -> Decision {
    let key = Key { resource: Resource::core("endpoints"), ..service_key.clone() };
    let standing = cluster.endpoints.get(&key);
    let Some(service) = cluster.services.get(service_key) else {
        // The service has gone, and with it what was made for it. What a person made stays.
        let gone = standing.filter(|endpoints| endpoints.managed && !cluster.damaged.contains(service_key));
        return Decision::of(gone.map(|endpoints| Intent::Delete { key, seen: endpoints.revision, at_once: true }).into_iter().collect());
    };
    // Without a selector the endpoints are a person's business.
    if service.external || service.selector.is_empty() {
        return Decision::default();
    }
    let subsets = subsets(cluster, service_key, service, standing);
    Decision::of(write(key, service, standing, subsets).into_iter().collect())
}

fn subsets(cluster: &Cluster, key: &Key, service: &ServiceView, standing: Option<&EndpointsView>) -> Value {
    let mut by_ports: BTreeMap<Vec<Port>, Addresses> = BTreeMap::new();
    let mut left = ADDRESSES_MAX;
    for (pod_key, pod) in cluster.pods_in(&key.namespace).filter(|(_, pod)| selects(&service.selector, &pod.labels) && !pod.terminal()) {
        let Some((ip, ready)) = place(cluster, pod, service, standing) else { continue };
        let ports: Vec<Port> = service.ports.iter().filter_map(|port| resolve(port, pod)).collect();
        // A service with ports of which this pod has none is not served by it.
        if left == 0 || (ports.is_empty() && !service.ports.is_empty()) {
            continue;
        }
        left -= 1;
        let address = json!({
            "ip": ip,
            "nodeName": pod.node,
            "targetRef": {"kind": "Pod", "namespace": pod_key.namespace, "name": pod_key.name, "uid": pod.uid},
        });
        let addresses = by_ports.entry(ports).or_default();
        let half = if ready { &mut addresses.ready } else { &mut addresses.not_ready };
        half.insert(ip, address);
    }
    by_ports.into_iter().map(|(ports, addresses)| subset(&ports, addresses)).collect()
}

/// The pod's address, and whether it takes requests; None: it has no place.
fn place(cluster: &Cluster, pod: &PodView, service: &ServiceView, standing: Option<&EndpointsView>) -> Option<(String, bool)> {
    if let (None, Some(standing)) = (pod.ready, standing) {
        let named =
            |address: &&coracle_api::service::EndpointAddress| address.target_ref.as_ref().is_some_and(|target| target.uid == pod.uid);
        for subset in &standing.view.subsets {
            if let Some(address) = subset.addresses.iter().find(named) {
                return Some((address.ip.clone(), !pod.deleting));
            }
            if let Some(address) = subset.not_ready_addresses.iter().find(named) {
                return Some((address.ip.clone(), false));
            }
        }
    }
    if pod.ip.is_empty() {
        return None;
    }
    // Of a node that is silent nobody knows whether it serves; a node that never said anything is not held against its pods.
    let silent = cluster.nodes.get(&pod.node).is_some_and(|node| node.ready == "Unknown");
    let ready = service.publish_not_ready || (pod.ready == Some(true) && !pod.deleting && !silent);
    Some((pod.ip.clone(), ready))
}

/// The service's port as this pod has it; a name that none of its containers has is no port.
fn resolve(port: &ServicePort, pod: &PodView) -> Option<Port> {
    let wanted = protocol(&port.protocol);
    let number = match &port.target_port {
        None | Some(IntOrString::Int(0)) => port.port,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(name)) => pod.ports.iter().find(|(other, _, protocol)| other == name && *protocol == wanted)?.1,
    };
    Some((port.name.clone(), number, wanted))
}

fn subset(ports: &[Port], addresses: Addresses) -> Value {
    let port = |(name, number, protocol): &Port| {
        let mut port = json!({"port": number, "protocol": protocol});
        if !name.is_empty() {
            port["name"] = name.clone().into();
        }
        port
    };
    let mut subset = json!({});
    for (field, half) in [("addresses", addresses.ready), ("notReadyAddresses", addresses.not_ready)] {
        if !half.is_empty() {
            subset[field] = half.into_values().collect();
        }
    }
    if !ports.is_empty() {
        subset["ports"] = ports.iter().map(port).collect();
    }
    subset
}

/// The endpoints as they should be, unless they are.
fn write(key: Key, service: &ServiceView, standing: Option<&EndpointsView>, subsets: Value) -> Option<Intent> {
    let mut labels = service.labels.clone();
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    if service.headless {
        labels.insert("service.kubernetes.io/headless".to_owned(), String::new());
    }
    let Some(standing) = standing else {
        let mut object = json!({"metadata": {"name": key.name, "labels": labels}});
        fill(&mut object, subsets);
        return Some(Intent::Create { resource: key.resource, namespace: key.namespace, object });
    };
    let was: Value = serde_json::from_slice(&standing.document.json).unwrap_or_default();
    let mut object = was.clone();
    object["metadata"]["labels"] = json!(labels);
    fill(&mut object, subsets);
    (object != was).then_some(Intent::Update { key, seen: standing.revision, object })
}

/// Kubernetes leaves an empty list out.
fn fill(object: &mut Value, subsets: Value) {
    if subsets.as_array().is_some_and(Vec::is_empty) {
        object.as_object_mut().map(|fields| fields.remove("subsets"));
    } else {
        object["subsets"] = subsets;
    }
}

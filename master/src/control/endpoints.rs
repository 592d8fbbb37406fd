//! Endpoints: the addresses of the ready pods that a service selects, by port. PURE.
//!
//! A pod whose status nobody has said (a restart of the master loses it) keeps the place that it has: unknown is not absent.

use super::cluster::Cluster;
use super::intent::{Decision, Intent};
use super::slices;
use super::view::{EndpointsView, Labels, MANAGED_BY, PodView, ServiceView, protocol, selects};
use coracle_api::meta::{Key, ObjectReference, Resource};
use coracle_api::quantity::IntOrString;
use coracle_api::service::{EndpointAddress, EndpointPort, EndpointSubset, ServicePort};
use coracle_api::strategy::elsewhere;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Addresses of one endpoints object; Kubernetes cuts at the same number. The slices hold all.
const ADDRESSES_MAX: usize = 1000;
/// Says that there are more.
const TRUNCATED: (&str, &str) = ("endpoints.kubernetes.io/over-capacity", "truncated");

/// A port of an endpoint: name, number, protocol.
pub type Port = (String, i32, String);

#[derive(Default)]
struct Addresses {
    ready: BTreeMap<String, EndpointAddress>,
    not_ready: BTreeMap<String, EndpointAddress>,
}

pub fn decide(cluster: &Cluster, service_key: &Key) -> Decision {
    let key = Key { resource: Resource::core("endpoints"), ..service_key.clone() };
    let standing = cluster.endpoints.get(&key);
    let Some(service) = cluster.services.get(service_key) else {
        // The service has gone, and with it what was made for it. What a person made stays.
        if cluster.damaged.contains(service_key) {
            return Decision::default();
        }
        let gone = standing.filter(|endpoints| endpoints.managed());
        let gone = gone.map(|endpoints| Intent::Delete { key, seen: endpoints.revision, at_once: true });
        return Decision::of(gone.into_iter().chain(slices::decide(cluster, service_key, None)).collect());
    };
    // What cannot be read cannot be written over.
    if cluster.damaged.contains(&key) {
        return Decision::default();
    }
    if service.external {
        return Decision::of(slices::decide(cluster, service_key, None));
    }
    // Without a selector the endpoints are a person's business.
    if service.selector.is_empty() {
        let mirrored = standing.filter(|_| !service.deleting).and_then(|endpoints| slices::mirrored(&key, endpoints));
        return Decision::of(slices::decide(cluster, service_key, mirrored));
    }
    let places = places(cluster, service_key, service, standing);
    let slices = (!service.deleting).then(|| slices::of_places(service_key, service, &places));
    let write = write(key, service, standing, Shown::of(service, places));
    Decision::of(write.into_iter().chain(slices::decide(cluster, service_key, slices)).collect())
}

/// Where a service is served: a pod of it, also one that is about to end.
pub struct Place<'a> {
    pub ip: String,
    /// It answers, as far as anybody knows.
    pub serving: bool,
    pub ports: Vec<Port>,
    pub key: &'a Key,
    pub pod: &'a PodView,
}

fn places<'a>(cluster: &'a Cluster, key: &'a Key, service: &ServiceView, standing: Option<&EndpointsView>) -> Vec<Place<'a>> {
    let meant = cluster.pods_in(&key.namespace).filter(|(_, pod)| !pod.terminal() && selects(&service.selector, pod.labels()));
    let mut places = Vec::new();
    for (key, pod) in meant {
        let Some((ip, serving)) = place(cluster, pod, standing) else { continue };
        let ports: Vec<Port> = service.ports.iter().filter_map(|port| resolve(port, pod)).collect();
        // A service with ports of which this pod has none is not served by it.
        if !ports.is_empty() || service.ports.is_empty() {
            places.push(Place { ip, serving, ports, key, pod });
        }
    }
    places
}

/// What an endpoints object says of the places of its service.
struct Shown {
    subsets: Vec<EndpointSubset>,
    truncated: bool,
}

impl Shown {
    fn of(service: &ServiceView, mut places: Vec<Place<'_>>) -> Shown {
        // One that is being deleted has no place here, as in Kubernetes.
        places.retain(|place| service.publish_not_ready || !place.pod.deleting);
        let ready = |place: &Place<'_>| service.publish_not_ready || place.serving;
        let truncated = places.len() > ADDRESSES_MAX;
        // What does not fit is rather what is not ready.
        if truncated {
            places.sort_by_key(|place| !ready(place));
            places.truncate(ADDRESSES_MAX);
        }
        Shown { subsets: subsets(places, ready), truncated }
    }
}

fn subsets(places: Vec<Place<'_>>, ready: impl Fn(&Place<'_>) -> bool) -> Vec<EndpointSubset> {
    let mut by_ports: BTreeMap<Vec<Port>, Addresses> = BTreeMap::new();
    for place in places {
        let (ready, ip, address) = (ready(&place), place.ip.clone(), address(&place));
        let addresses = by_ports.entry(place.ports).or_default();
        let half = if ready { &mut addresses.ready } else { &mut addresses.not_ready };
        half.insert(ip, address);
    }
    let subset = |(ports, addresses): (Vec<Port>, Addresses)| EndpointSubset {
        addresses: addresses.ready.into_values().collect(),
        not_ready_addresses: addresses.not_ready.into_values().collect(),
        ports: ports.into_iter().map(|(name, port, protocol)| EndpointPort { name, port, protocol, app_protocol: None }).collect(),
    };
    by_ports.into_iter().map(subset).collect()
}

/// The pod that is there.
pub fn target(place: &Place<'_>) -> ObjectReference {
    ObjectReference {
        kind: "Pod".to_owned(),
        namespace: place.key.namespace.clone(),
        name: place.key.name.clone(),
        uid: place.pod.uid.clone(),
        ..ObjectReference::default()
    }
}

fn address(place: &Place<'_>) -> EndpointAddress {
    // A pod that was never placed may have an address all the same: whoever writes statuses says so.
    let node_name = Some(place.pod.node.clone()).filter(|node| !node.is_empty());
    EndpointAddress { ip: place.ip.clone(), hostname: String::new(), node_name, target_ref: Some(target(place)) }
}

/// The pod's address, and whether it serves; None: it has no place.
fn place(cluster: &Cluster, pod: &PodView, standing: Option<&EndpointsView>) -> Option<(String, bool)> {
    // Of a node that is silent nobody knows whether it serves; a node that never said anything is not held against its pods.
    let silent = cluster.nodes.get(&pod.node).is_some_and(|node| node.silent());
    let takes = |ready: bool| ready && !silent;
    if let (None, Some(standing)) = (pod.ready, standing) {
        let named = |address: &&EndpointAddress| address.target_ref.as_ref().is_some_and(|target| target.uid == pod.uid);
        for subset in &standing.subsets {
            for (half, ready) in [(&subset.addresses, true), (&subset.not_ready_addresses, false)] {
                if let Some(address) = half.iter().find(named) {
                    return Some((address.ip.clone(), takes(ready)));
                }
            }
        }
    }
    // Nobody could be sent there, and what says so would be refused whole.
    let reached = !pod.ip.is_empty() && elsewhere(&pod.ip).is_none();
    reached.then(|| (pod.ip.clone(), takes(pod.ready == Some(true))))
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

/// The endpoints as they should be, unless they are.
fn write(key: Key, service: &ServiceView, standing: Option<&EndpointsView>, shown: Shown) -> Option<Intent> {
    let mut labels = service.labels.clone();
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    if service.headless {
        labels.insert("service.kubernetes.io/headless".to_owned(), String::new());
    }
    let Some(standing) = standing else {
        let mut object = json!({"metadata": {"name": key.name, "labels": labels}});
        fill(&mut object, &shown);
        return Some(Intent::Create { resource: key.resource, namespace: key.namespace, object });
    };
    if standing.labels == labels && standing.subsets == shown.subsets && standing.truncated == shown.truncated {
        return None;
    }
    let mut object: Value = serde_json::from_slice(&standing.document.json).unwrap_or_default();
    object["metadata"]["labels"] = json!(labels);
    fill(&mut object, &shown);
    Some(Intent::Update { key, seen: standing.revision, object })
}

/// Kubernetes leaves an empty list out.
fn fill(object: &mut Value, shown: &Shown) {
    if shown.subsets.is_empty() {
        object.as_object_mut().map(|fields| fields.remove("subsets"));
    } else {
        object["subsets"] = shown.subsets.iter().map(subset).collect();
    }
    if shown.truncated {
        object["metadata"]["annotations"][TRUNCATED.0] = TRUNCATED.1.into();
    } else if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove(TRUNCATED.0);
    }
}

/// Whether endpoints say that there are more.
pub fn is_truncated(annotations: &Labels) -> bool {
    annotations.contains_key(TRUNCATED.0)
}

fn subset(subset: &EndpointSubset) -> Value {
    let address = |address: &EndpointAddress| {
        let target = address.target_ref.clone().unwrap_or_default();
        let target = json!({"kind": target.kind, "namespace": target.namespace, "name": target.name, "uid": target.uid});
        let mut shown = json!({"ip": address.ip, "targetRef": target});
        if let Some(node) = &address.node_name {
            shown["nodeName"] = node.as_str().into();
        }
        shown
    };
    let port = |EndpointPort { name, port, protocol, .. }: &EndpointPort| {
        let mut port = json!({"port": port, "protocol": protocol});
        if !name.is_empty() {
            port["name"] = name.clone().into();
        }
        port
    };
    let mut shown = json!({});
    for (field, half) in [("addresses", &subset.addresses), ("notReadyAddresses", &subset.not_ready_addresses)] {
        if !half.is_empty() {
            shown[field] = half.iter().map(address).collect();
        }
    }
    if !subset.ports.is_empty() {
        shown["ports"] = subset.ports.iter().map(port).collect();
    }
    shown
}

//! Endpoints: the addresses of the ready pods that a service selects, by port. PURE.

use super::backends::{Backend, Port, backends, target};
use super::cluster::Cluster;
use super::controller::{Look, ObservedChange, all as keys_of};
use super::intent::{About, Decision, EventDraft, Intent, Memo};
use super::slices::mirror::{self, Mirrored};
use super::trigger::{self, Moments, stamp};
use super::view::{
    ENDPOINTS, EndpointsView, MANAGED_BY, NodeView, PodView, SERVICES, ServiceView, SliceView, TRUNCATED, document,
    selects,
};
use super::{own, slices};
use coracle_api::meta::{Key, Revision, Time};
use coracle_api::service::{EndpointAddress, EndpointPort, EndpointSubset};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Addresses of one endpoints object; Kubernetes cuts at the same number. The slices hold all.
const ADDRESSES_MAX: usize = 1000;

#[derive(Default)]
struct Addresses {
    ready: BTreeMap<String, EndpointAddress>,
    not_ready: BTreeMap<String, EndpointAddress>,
}

/// Services, and the names of Endpoints and of slices that may have outlived theirs.
pub fn all(cluster: &Cluster) -> Vec<Key> {
    let mut services = keys_of::<ServiceView>(cluster);
    services.extend(cluster.all::<EndpointsView>().map(|(key, _)| service_of(key)));
    services.extend(cluster.all::<SliceView>().filter_map(|(key, slice)| slice.key_of_service(key)));
    services
}

/// Endpoints have the name of their service.
pub fn by_name(_: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    vec![service_of(change.key)]
}

pub fn by_slice(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    slices::services(cluster, change).collect()
}

/// The services that select a pod, or did.
pub fn by_pod(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    change.pods(cluster).flat_map(|pod| selecting(cluster, &change.key.namespace, pod)).collect()
}

/// The services of the pods on a node that has come, gone or moved, fallen silent or speaks again.
pub fn by_node(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let (was, is) = (change.was::<NodeView>(), cluster.nodes.get(&change.key.name));
    if was.map(|node| (node.silent(), node.zone())) == is.map(|node| (node.silent(), node.zone())) {
        return Vec::new();
    }
    cluster.pods_on(&change.key.name).flat_map(|(key, pod)| selecting(cluster, &key.namespace, pod)).collect()
}

fn selecting<'a>(cluster: &'a Cluster, namespace: &'a str, pod: &'a PodView) -> impl Iterator<Item = Key> {
    let services = cluster.selecting::<ServiceView>(namespace, pod.labels().iter());
    services.filter(|(_, service)| selects(&service.selector, pod.labels())).map(|(key, _)| key.clone())
}

fn service_of(endpoints: &Key) -> Key {
    Key { resource: SERVICES, ..endpoints.clone() }
}

pub fn decide(look: &Look<'_>) -> Decision {
    if own::keeps(look.cluster, look.key) {
        return Decision::default();
    }
    let mut moments: Moments = look.remembered();
    let intents = of_service(look.cluster, look.key, &mut moments);
    let selects = look.cluster.get::<ServiceView>(look.key).is_some_and(|service| !service.selector.is_empty());
    let remembers = selects || !moments.trouble.is_empty();
    Decision { memo: remembers.then(|| Memo::of(moments)), ..Decision::of(intents) }
}

fn of_service(cluster: &Cluster, service_key: &Key, moments: &mut Moments) -> Vec<Intent> {
    let key = Key { resource: ENDPOINTS, ..service_key.clone() };
    let standing = cluster.get::<EndpointsView>(&key);
    let Some(service) = cluster.get::<ServiceView>(service_key) else {
        moments.trouble.clear();
        // The service is gone, and its Endpoints go too. Endpoints that a person made stay.
        if cluster.damaged.contains(service_key) {
            return Vec::new();
        }
        let gone = standing.filter(|endpoints| endpoints.managed());
        let gone = gone.map(|endpoints| Intent::Delete { key, seen: endpoints.revision, at_once: true });
        return gone.into_iter().chain(slices::outlived(cluster, service_key)).collect();
    };
    // A file that cannot be read cannot be written over.
    if cluster.damaged.contains(&key) {
        return Vec::new();
    }
    // Without a selector the endpoints are a person's business.
    if service.selector.is_empty() {
        return mirrored(cluster, service_key, standing.map(|endpoints| (&key, endpoints)), moments);
    }
    // The service has a selector now: slices mirrored from a person's earlier Endpoints are deleted.
    let before = mirror::decide(cluster, service_key, None).intents;
    // A service that became an ExternalName keeps its existing Endpoints and slices.
    if service.external {
        return before;
    }
    let backends = backends(cluster, service_key, service, standing);
    let (moment, known) = trigger::newest(moments, service, &backends);
    *moments = known;
    let mut intents = before;
    intents.extend(strays(cluster, service_key, service, &backends, moments));
    let slices = slices::of_backends(cluster, service_key, service, &backends);
    intents.extend(write(key, service, standing, Shown::of(service, backends), moment));
    intents.extend(slices::decide(cluster, service_key, slices, moment));
    intents
}

/// What is left out is told once.
fn mirrored(
    cluster: &Cluster,
    service: &Key,
    standing: Option<(&Key, &EndpointsView)>,
    moments: &mut Moments,
) -> Vec<Intent> {
    let Mirrored { mut intents, trouble } = mirror::decide(cluster, service, standing);
    if let Some((key, endpoints)) = standing.filter(|_| !trouble.is_empty() && trouble != moments.trouble) {
        intents.push(mirror::told(key, endpoints, &trouble));
    }
    moments.trouble = trouble;
    intents
}

/// Pods on missing nodes are in no slice: their location is unknown.
fn strays(
    cluster: &Cluster,
    key: &Key,
    service: &ServiceView,
    backends: &[Backend<'_>],
    moments: &mut Moments,
) -> Vec<Intent> {
    let stray = |backend: &&Backend<'_>| !slices::is_placed(cluster, service, backend);
    let text = |backend: &Backend<'_>| {
        let (namespace, name, pod, node) = (&key.namespace, &key.name, &backend.key.name, &backend.pod.node);
        format!("skipping Pod {pod} for Service {namespace}/{name}: Node {node} Not Found")
    };
    let all: Vec<String> = backends.iter().filter(stray).map(text).collect();
    let said = match all.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    if said == moments.trouble {
        return Vec::new();
    }
    moments.trouble.clone_from(&said);
    if said.is_empty() {
        return Vec::new();
    }
    let about = About::new(("v1", "Service"), key, &service.uid, Revision(0));
    let message = format!("Error updating Endpoint Slices for Service {}/{}: {said}", key.namespace, key.name);
    vec![Intent::Announce(EventDraft::warning(
        "endpoint-slice-controller",
        about,
        "FailedToUpdateEndpointSlices",
        message,
    ))]
}

/// The content of the Endpoints of a service.
struct Shown {
    subsets: Vec<EndpointSubset>,
    truncated: bool,
}

impl Shown {
    fn of(service: &ServiceView, mut backends: Vec<Backend<'_>>) -> Shown {
        // A pod that is being deleted is left out, as in Kubernetes, and so is one that has none of the ports.
        let serves = |backend: &Backend<'_>| !backend.ports.is_empty() || service.ports.is_empty();
        backends.retain(|backend| serves(backend) && (service.publish_not_ready || !backend.pod.deleting));
        let ready = |backend: &Backend<'_>| service.publish_not_ready || backend.serving;
        let truncated = backends.len() > ADDRESSES_MAX;
        // Pods that are not ready give way first.
        if truncated {
            backends.sort_by_key(|backend| !ready(backend));
            backends.truncate(ADDRESSES_MAX);
        }
        Shown { subsets: subsets(service, backends, ready), truncated }
    }
}

/// Ports that the same addresses have are in one subset.
fn subsets(
    service: &ServiceView,
    backends: Vec<Backend<'_>>,
    ready: impl Fn(&Backend<'_>) -> bool,
) -> Vec<EndpointSubset> {
    let mut by_port: BTreeMap<Option<Port>, Addresses> = BTreeMap::new();
    for backend in backends {
        let (ready, address) = (ready(&backend), address(service, &backend));
        let ports: Vec<Option<Port>> =
            if backend.ports.is_empty() { vec![None] } else { backend.ports.into_iter().map(Some).collect() };
        for port in ports {
            let addresses = by_port.entry(port).or_default();
            let half = if ready { &mut addresses.ready } else { &mut addresses.not_ready };
            half.insert(address.ip.clone(), address.clone());
        }
    }
    let mut subsets: Vec<EndpointSubset> = Vec::new();
    for (port, addresses) in by_port {
        let (ready, not_ready): (Vec<_>, Vec<_>) =
            (addresses.ready.into_values().collect(), addresses.not_ready.into_values().collect());
        let port = port.map(|(name, port, protocol)| EndpointPort { name, port, protocol, app_protocol: None });
        match subsets.iter_mut().find(|subset| subset.addresses == ready && subset.not_ready_addresses == not_ready) {
            Some(subset) => subset.ports.extend(port),
            None => subsets.push(EndpointSubset {
                addresses: ready,
                not_ready_addresses: not_ready,
                ports: port.into_iter().collect(),
            }),
        }
    }
    subsets
}

fn address(service: &ServiceView, backend: &Backend<'_>) -> EndpointAddress {
    // A pod that was never placed may have an address all the same, if a client wrote the status.
    let node_name = Some(backend.pod.node.clone()).filter(|node| !node.is_empty());
    let hostname = backend.hostname(service).unwrap_or_default();
    EndpointAddress { ip: backend.ip.clone(), hostname, node_name, target_ref: Some(target(backend)) }
}

/// The write that brings the Endpoints up to date, if they are not.
fn write(
    key: Key,
    service: &ServiceView,
    standing: Option<&EndpointsView>,
    shown: Shown,
    moment: Option<Time>,
) -> Option<Intent> {
    let mut labels = service.labels.clone();
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    if service.headless {
        labels.insert("service.kubernetes.io/headless".to_owned(), String::new());
    }
    let Some(standing) = standing else {
        let mut object = json!({"metadata": {"name": key.name, "labels": labels}});
        fill(&mut object, &shown);
        stamp(&mut object, moment);
        return Some(Intent::Create { resource: key.resource, namespace: key.namespace, object });
    };
    if standing.labels == labels && standing.subsets == shown.subsets && standing.truncated == shown.truncated {
        return None;
    }
    let mut object = document(&standing.document);
    object["metadata"]["labels"] = json!(labels);
    fill(&mut object, &shown);
    stamp(&mut object, moment);
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
    } else if let Some(annotations) = object["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(TRUNCATED.0);
    }
}

fn subset(subset: &EndpointSubset) -> Value {
    let address = |address: &EndpointAddress| {
        let target = address.target_ref.clone().unwrap_or_default();
        let target =
            json!({"kind": target.kind, "namespace": target.namespace, "name": target.name, "uid": target.uid});
        let mut shown = json!({"ip": address.ip, "targetRef": target});
        if !address.hostname.is_empty() {
            shown["hostname"] = address.hostname.as_str().into();
        }
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

//! EndpointSlices: the endpoints of a service in pieces, so that a change of one pod writes one piece. PURE.
//!
//!     backends of a service, or a person's Endpoints -> spots by port -> the slices that stand, filled up -> intents
//!
//! A spot stays in the slice where it is; a new one goes where there is room. What is seen again is not made durable:
//! see the strategy.

use super::backends::{Backend, Port, target};
use super::cluster::Cluster;
use super::controller::Change;
use super::intent::Intent;
use super::view::{EndpointsView, Labels, NamespaceView, SLICES, ServiceView, SliceView, document, namespace_key, protocol};
use coracle_api::meta::{Key, ObjectReference};
use coracle_api::service::EndpointPort;
use coracle_api::strategy::lease::{CONTROLLER, MANAGED_BY, MIRROR, SERVICE};
use coracle_api::strategy::meta::generated_base;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Of one slice; Kubernetes cuts at the same number.
const SPOTS_MAX: usize = 100;
const HEADLESS: &str = "service.kubernetes.io/headless";
/// On Endpoints that are to stay the only ones.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

/// The slices of one service, as they should be.
pub struct Wanted {
    by: &'static str,
    labels: Labels,
    owner: Value,
    spots: BTreeMap<Group, BTreeMap<Id, Spot>>,
}

/// What all spots of a slice share: the family of their addresses, and their ports with what is spoken there.
type Group = (&'static str, Vec<(Port, String)>);
/// The pod's uid, or nothing, and the address.
type Id = (String, String);

#[derive(Clone, Debug, Default, PartialEq)]
struct Spot {
    ip: String,
    ready: bool,
    serving: bool,
    terminating: bool,
    hostname: String,
    node: Option<String>,
    target: Option<ObjectReference>,
}

impl Spot {
    fn id(&self) -> Id {
        (self.target.as_ref().map(|target| target.uid.clone()).unwrap_or_default(), self.ip.clone())
    }
}

/// The service of a slice, as its label says and said before.
pub fn services<'a>(cluster: &'a Cluster, change: &'a Change<'_>) -> impl Iterator<Item = Key> + 'a {
    let slices = change.was::<SliceView>().into_iter().chain(cluster.get::<SliceView>(change.key));
    slices.filter_map(|slice| slice.key_of_service(change.key))
}

/// The slices of a service with a selector.
pub fn of_backends(key: &Key, service: &ServiceView, backends: &[Backend<'_>]) -> Wanted {
    let mut labels = service.labels.clone();
    if service.headless {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    let mut wanted = Wanted::new(CONTROLLER, labels, ("Service", key, &service.uid), key);
    let spoken: BTreeMap<&str, &str> = service.ports.iter().map(|port| (port.name.as_str(), port.app_protocol.as_str())).collect();
    for backend in backends {
        let terminating = backend.pod.deleting;
        let ports = backend.ports.iter().map(|port| (port.clone(), spoken.get(port.0.as_str()).copied().unwrap_or_default().to_owned()));
        let spot = Spot {
            ip: backend.ip.clone(),
            ready: service.publish_not_ready || (backend.serving && !terminating),
            serving: backend.serving,
            terminating,
            hostname: String::new(),
            node: Some(backend.pod.node.clone()),
            target: Some(target(backend)),
        };
        wanted.put(ports.collect(), spot);
    }
    wanted
}

/// The slices of Endpoints that a person made for a service without a selector.
pub fn mirrored(key: &Key, endpoints: &EndpointsView) -> Option<Wanted> {
    if endpoints.managed() || endpoints.labels.get(SKIP_MIRROR).is_some_and(|said| said == "true") {
        return None;
    }
    let mut wanted = Wanted::new(MIRROR, endpoints.labels.clone(), ("Endpoints", key, &endpoints.uid), key);
    for subset in &endpoints.subsets {
        let port = |EndpointPort { name, port, protocol: written, app_protocol }: &EndpointPort| {
            ((name.clone(), *port, protocol(written)), app_protocol.clone().unwrap_or_default())
        };
        let ports: Vec<(Port, String)> = subset.ports.iter().map(port).collect();
        for (half, ready) in [(&subset.addresses, true), (&subset.not_ready_addresses, false)] {
            for address in half {
                let (hostname, node, target) = (address.hostname.clone(), address.node_name.clone(), address.target_ref.clone().map(plain));
                let spot = Spot { ip: address.ip.clone(), ready, serving: ready, terminating: false, hostname, node, target };
                wanted.put(ports.clone(), spot);
            }
        }
    }
    Some(wanted)
}

impl Wanted {
    fn new(by: &'static str, mut labels: Labels, (kind, owner, uid): (&str, &Key, &str), service: &Key) -> Wanted {
        labels.insert(SERVICE.to_owned(), service.name.clone());
        labels.insert(MANAGED_BY.to_owned(), by.to_owned());
        let owner =
            json!([{"apiVersion": "v1", "kind": kind, "name": owner.name, "uid": uid, "controller": true, "blockOwnerDeletion": true}]);
        Wanted { by, labels, owner, spots: BTreeMap::new() }
    }

    fn put(&mut self, mut ports: Vec<(Port, String)>, mut spot: Spot) {
        ports.sort();
        spot.node = spot.node.filter(|node| !node.is_empty());
        let family = if spot.ip.contains(':') { "IPv6" } else { "IPv4" };
        self.spots.entry((family, ports)).or_default().insert(spot.id(), spot);
    }
}

/// A slice that stands, as it stands and as it shall be.
struct Standing<'a> {
    key: &'a Key,
    view: &'a SliceView,
    slice: Slice,
    group: Option<Group>,
    was: Vec<Spot>,
    spots: Vec<Spot>,
}

/// `wanted`: none, where the service is to have no slices of ours.
pub fn decide(cluster: &Cluster, service: &Key, wanted: Option<Wanted>) -> Vec<Intent> {
    // They go with their namespace.
    if cluster.get::<NamespaceView>(&namespace_key(&service.namespace)).is_some_and(|namespace| namespace.ends) {
        return Vec::new();
    }
    let ours = cluster.within::<SliceView>(&service.namespace).filter(|(_, view)| view.service == service.name && view.ours());
    let gone = |key: &Key, view: &SliceView| Intent::Delete { key: key.clone(), seen: view.revision, at_once: true };
    let Some(mut wanted) = wanted else { return ours.map(|(key, view)| gone(key, view)).collect() };
    let mut intents = Vec::new();
    let mut standing = Vec::new();
    for (key, view) in ours {
        match stands(key, view, &mut wanted) {
            Some(slice) => standing.push(slice),
            None => intents.push(gone(key, view)),
        }
    }
    for slice in &mut standing {
        let Some(rest) = slice.group.as_ref().and_then(|group| wanted.spots.get_mut(group)) else { continue };
        while slice.spots.len() < SPOTS_MAX
            && let Some((_, spot)) = rest.pop_first()
        {
            slice.spots.push(spot);
        }
    }
    wanted.spots.retain(|_, rest| !rest.is_empty());
    // As in Kubernetes a service that nobody serves has one slice, with nothing in it.
    let mut spare = wanted.by == CONTROLLER && wanted.spots.is_empty() && standing.iter().all(|slice| slice.spots.is_empty());
    for slice in standing {
        if slice.spots.is_empty() && !std::mem::take(&mut spare) {
            intents.push(gone(slice.key, slice.view));
        } else if slice.spots != slice.was
            || slice.slice.metadata.labels != wanted.labels
            || slice.slice.metadata.owner_references != wanted.owner
        {
            intents.push(slice.update(&wanted));
        }
    }
    if spare {
        wanted.spots.insert(("IPv4", Vec::new()), BTreeMap::new());
    }
    for (group, rest) in &wanted.spots {
        let spots: Vec<&Spot> = rest.values().collect();
        let mut pieces: Vec<&[&Spot]> = spots.chunks(SPOTS_MAX).collect();
        if pieces.is_empty() {
            pieces.push(&[]);
        }
        intents.extend(pieces.into_iter().map(|piece| create(service, &wanted, group, piece)));
    }
    intents
}

/// None: it cannot be read as one of ours, and goes. What stays of it is taken out of what is wanted.
fn stands<'a>(key: &'a Key, view: &'a SliceView, wanted: &mut Wanted) -> Option<Standing<'a>> {
    let slice: Slice = serde_json::from_slice(&view.document.json).ok()?;
    if slice.metadata.labels.get(MANAGED_BY).is_none_or(|by| by != wanted.by) {
        return None;
    }
    let was: Vec<Spot> = slice.endpoints.iter().flatten().map(Endpoint::spot).collect();
    let mut ports: Vec<(Port, String)> = slice.ports.iter().flatten().map(port_of).collect();
    ports.sort();
    let family = if slice.address_type == "IPv6" { "IPv6" } else { "IPv4" };
    let group = Some((family, ports)).filter(|group| wanted.spots.contains_key(group));
    let mut spots = Vec::new();
    if let Some(rest) = group.as_ref().and_then(|group| wanted.spots.get_mut(group)) {
        spots.extend(was.iter().filter_map(|spot| rest.remove(&spot.id())));
    }
    Some(Standing { key, view, slice, group, was, spots })
}

impl Standing<'_> {
    fn update(&self, wanted: &Wanted) -> Intent {
        let mut object = document(&self.view.document);
        object["metadata"]["labels"] = json!(wanted.labels);
        object["metadata"]["ownerReferences"] = wanted.owner.clone();
        object["endpoints"] = self.spots.iter().map(endpoint).collect();
        Intent::Update { key: self.key.clone(), seen: self.view.revision, object }
    }
}

fn create(service: &Key, wanted: &Wanted, (family, ports): &Group, spots: &[&Spot]) -> Intent {
    let port = |((name, number, protocol), spoken): &(Port, String)| {
        let mut port = json!({"name": name, "port": number, "protocol": protocol});
        if !spoken.is_empty() {
            port["appProtocol"] = spoken.as_str().into();
        }
        port
    };
    let object = json!({
        "metadata": {"generateName": format!("{}-", generated_base(&service.name).trim_end_matches('-')), "labels": wanted.labels,
            "ownerReferences": wanted.owner},
        "addressType": family,
        "endpoints": spots.iter().map(|spot| endpoint(spot)).collect::<Vec<_>>(),
        "ports": ports.iter().map(port).collect::<Vec<_>>(),
    });
    Intent::Create { resource: SLICES, namespace: service.namespace.clone(), object }
}

fn endpoint(spot: &Spot) -> Value {
    let conditions = json!({"ready": spot.ready, "serving": spot.serving, "terminating": spot.terminating});
    let mut shown = json!({"addresses": [spot.ip], "conditions": conditions});
    if !spot.hostname.is_empty() {
        shown["hostname"] = spot.hostname.as_str().into();
    }
    if let Some(node) = spot.node.as_ref().filter(|node| !node.is_empty()) {
        shown["nodeName"] = node.as_str().into();
    }
    if let Some(ObjectReference { kind, namespace, name, uid, .. }) = &spot.target {
        let said = [("kind", kind), ("namespace", namespace), ("name", name), ("uid", uid)];
        shown["targetRef"] =
            said.into_iter().filter(|(_, text)| !text.is_empty()).map(|(field, text)| (field.to_owned(), json!(text))).collect();
    }
    shown
}

/// What a slice says of it.
fn plain(ObjectReference { kind, namespace, name, uid, .. }: ObjectReference) -> ObjectReference {
    ObjectReference { kind, namespace, name, uid, ..ObjectReference::default() }
}

fn port_of(port: &EndpointPort) -> (Port, String) {
    ((port.name.clone(), port.port, protocol(&port.protocol)), port.app_protocol.clone().unwrap_or_default())
}

/// As it stands in the store.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Slice {
    metadata: Meta,
    address_type: String,
    /// Null where there are none.
    endpoints: Option<Vec<Endpoint>>,
    ports: Option<Vec<EndpointPort>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    labels: Labels,
    owner_references: Value,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Endpoint {
    addresses: Vec<String>,
    conditions: Conditions,
    hostname: String,
    node_name: Option<String>,
    target_ref: Option<ObjectReference>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Conditions {
    ready: bool,
    serving: bool,
    terminating: bool,
}

impl Endpoint {
    fn spot(&self) -> Spot {
        let Conditions { ready, serving, terminating } = self.conditions;
        let ip = self.addresses.first().cloned().unwrap_or_default();
        let (hostname, node, target) = (self.hostname.clone(), self.node_name.clone(), self.target_ref.clone());
        Spot { ip, ready, serving, terminating, hostname, node, target }
    }
}

//! EndpointSlices: the endpoints of a service in pieces; a change of a pod writes a single piece. PURE.
//!
//!     backends of a service -> spots by port -> the slices that stand, filled up -> intents
//!     a person's Endpoints -> `mirror`
//!
//! A spot stays in the slice where it is; a new one goes where there is room. What is seen again is not made durable:
//! see the strategy.

mod document;
pub mod mirror;

use super::backends::{Backend, Port, target};
use super::cluster::Cluster;
use super::controller::ObservedChange;
use super::intent::Intent;
use super::trigger::stamp;
use super::view::{Labels, NamespaceView, SLICES, ServiceView, SliceView, document, namespace_key, node_key, protocol};
use coracle_api::meta::{Key, ObjectReference, Time};
use coracle_api::service::EndpointPort;
use coracle_api::strategy::lease::{CONTROLLER, MANAGED_BY, MIRROR, SERVICE};
use coracle_api::strategy::meta::generated_base;
use document::{Endpoint, Slice, endpoint, shown_ports};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Of one slice; Kubernetes cuts at the same number.
const SPOTS_MAX: usize = 100;
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Labels of slices that are not copies of the service's labels.
const OWN_LABELS: [&str; 3] = [SERVICE, MANAGED_BY, HEADLESS];
const ZONE: &str = "topology.kubernetes.io/zone";

/// The wanted slices of a service.
pub struct Wanted {
    by: &'static str,
    labels: Labels,
    annotations: Labels,
    owner: Value,
    /// No more slices are made.
    ends: bool,
    spots: BTreeMap<Group, BTreeMap<Id, Spot>>,
}

/// The common properties of a slice's spots: the address family, and the ports with their application protocols.
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
    zone: Option<String>,
    hints: Hints,
    target: Option<ObjectReference>,
}

/// For whom a spot is meant.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Hints {
    for_zones: Vec<Named>,
    for_nodes: Vec<Named>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct Named {
    name: String,
}

impl Hints {
    /// Near it, as the service wishes.
    fn of(service: &ServiceView, ready: bool, zone: Option<&String>, node: &str) -> Hints {
        let wish = service.distribution.as_str();
        let named = |name: &str| vec![Named { name: name.to_owned() }];
        if !ready || !matches!(wish, "PreferClose" | "PreferSameZone" | "PreferSameNode") {
            return Hints::default();
        }
        Hints {
            for_zones: zone.map(|zone| named(zone)).unwrap_or_default(),
            for_nodes: if wish == "PreferSameNode" && !node.is_empty() { named(node) } else { Vec::new() },
        }
    }
}

impl Spot {
    fn id(&self) -> Id {
        (self.target.as_ref().map(|target| target.uid.clone()).unwrap_or_default(), self.ip.clone())
    }
}

/// The service of a slice, as its label says and said before.
pub fn services<'a>(cluster: &'a Cluster, change: &'a ObservedChange<'_>) -> impl Iterator<Item = Key> + 'a {
    let slices = change.was::<SliceView>().into_iter().chain(cluster.get::<SliceView>(change.key));
    slices.filter_map(|slice| slice.key_of_service(change.key))
}

/// Whether a slice can name the pod's node. A service that publishes unready addresses publishes such a pod too.
pub fn is_placed(cluster: &Cluster, service: &ServiceView, backend: &Backend<'_>) -> bool {
    let there = |node: &String| {
        node.is_empty() || cluster.nodes.contains_key(node) || cluster.damaged.contains(&node_key(node))
    };
    service.publish_not_ready || there(&backend.pod.node)
}

/// The slices of a service with a selector.
pub fn of_backends(cluster: &Cluster, key: &Key, service: &ServiceView, backends: &[Backend<'_>]) -> Wanted {
    let mut labels = service.labels.clone();
    labels.remove(HEADLESS);
    if service.headless {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    let mut wanted = Wanted::new(CONTROLLER, labels, ("Service", key, &service.uid), key);
    wanted.ends = service.deleting;
    let spoken: BTreeMap<&str, &str> =
        service.ports.iter().map(|port| (port.name.as_str(), port.app_protocol.as_str())).collect();
    for backend in backends.iter().filter(|backend| is_placed(cluster, service, backend)) {
        let zone = cluster.nodes.get(&backend.pod.node).and_then(|node| node.labels.get(ZONE)).cloned();
        let ready = service.publish_not_ready || (backend.serving && !backend.pod.deleting);
        let terminating = backend.pod.deleting;
        let ports = backend
            .ports
            .iter()
            .map(|port| (port.clone(), spoken.get(port.0.as_str()).copied().unwrap_or_default().to_owned()));
        let spot = Spot {
            ip: backend.ip.clone(),
            ready,
            serving: backend.serving,
            terminating,
            hostname: backend.hostname(service).unwrap_or_default(),
            node: Some(backend.pod.node.clone()),
            hints: Hints::of(service, ready, zone.as_ref(), &backend.pod.node),
            zone,
            target: Some(target(backend)),
        };
        wanted.put(ports.collect(), spot);
    }
    wanted
}

impl Wanted {
    fn new(by: &'static str, mut labels: Labels, (kind, owner, uid): (&str, &Key, &str), service: &Key) -> Wanted {
        labels.insert(SERVICE.to_owned(), service.name.clone());
        labels.insert(MANAGED_BY.to_owned(), by.to_owned());
        let owner = json!([
            {
                "apiVersion": "v1", "kind": kind, "name": owner.name, "uid": uid, "controller": true,
                "blockOwnerDeletion": true,
            },
        ]);
        Wanted { by, labels, annotations: Labels::new(), owner, ends: false, spots: BTreeMap::new() }
    }

    fn put(&mut self, mut ports: Vec<(Port, String)>, mut spot: Spot) {
        ports.sort();
        spot.node = spot.node.filter(|node| !node.is_empty());
        let family = if spot.ip.contains(':') { "IPv6" } else { "IPv4" };
        self.spots.entry((family, ports)).or_default().insert(spot.id(), spot);
    }
}

/// What becomes of a slice.
enum Standing<'a> {
    Is(StandingSlice<'a>),
    /// The slice is unreadable, or belongs to an earlier service with the same name.
    Goes,
    /// The slice is being deleted and waits for a finalizer: a new slice takes its place.
    Ends,
}

/// A slice that stands, as it stands and as it shall be.
struct StandingSlice<'a> {
    key: &'a Key,
    view: &'a SliceView,
    slice: Slice,
    group: Option<Group>,
    was: Vec<Spot>,
    spots: Vec<Spot>,
}

/// They go with their namespace.
fn is_ending(cluster: &Cluster, service: &Key) -> bool {
    cluster.get::<NamespaceView>(&namespace_key(&service.namespace)).is_some_and(|namespace| namespace.ends)
}

/// Deletes the slices of a service that is gone. Slices without an owner were meant to stay.
pub fn outlived(cluster: &Cluster, service: &Key) -> Vec<Intent> {
    if is_ending(cluster, service) {
        return Vec::new();
    }
    let of_service = [(SERVICE, service.name.as_str())];
    let ours = cluster.selecting::<SliceView>(&service.namespace, of_service);
    let ours = ours.filter(|(_, view)| view.service == service.name && view.ours());
    let owned = |view: &SliceView| !is_none(&document(&view.document)["metadata"]["ownerReferences"]);
    ours.filter(|(_, view)| owned(view)).map(|(key, view)| gone(key, view)).collect()
}

/// `moment`: the time of the last change that written slices show.
pub fn decide(cluster: &Cluster, service: &Key, mut wanted: Wanted, moment: Option<Time>) -> Vec<Intent> {
    if is_ending(cluster, service) {
        return Vec::new();
    }
    let of_service = [(SERVICE, service.name.as_str())];
    let is_ours = |view: &SliceView| {
        view.service == service.name && view.document.labels.get(MANAGED_BY).is_some_and(|by| by == CONTROLLER)
    };
    let ours = cluster.selecting::<SliceView>(&service.namespace, of_service).filter(|(_, view)| is_ours(view));
    let (mut standing, mut over) = (Vec::new(), Vec::new());
    for (key, view) in ours {
        match stands(key, view, &mut wanted) {
            Standing::Is(slice) => standing.push(slice),
            Standing::Goes => over.push((key, view, String::new())),
            Standing::Ends => {}
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
    let mut fresh: Vec<(Group, Vec<Spot>)> = Vec::new();
    for (group, rest) in std::mem::take(&mut wanted.spots) {
        let spots: Vec<Spot> = rest.into_values().collect();
        fresh.extend(spots.chunks(SPOTS_MAX).map(|piece| (group.clone(), piece.to_vec())));
    }
    // As in Kubernetes, a service without backends has a single empty slice.
    let nobody = fresh.is_empty() && standing.iter().all(|slice| slice.spots.is_empty());
    if nobody {
        fresh.push((("IPv4", Vec::new()), Vec::new()));
    }
    let mut intents = Vec::new();
    for slice in standing {
        if slice.spots.is_empty() {
            over.push((slice.key, slice.view, slice.slice.address_type.clone()));
        } else if slice.spots != slice.was || own_labels(&slice.slice.metadata.labels) != own_labels(&wanted.labels) {
            intents.push(slice.update(&wanted, moment));
        }
    }
    // An obsolete slice is rewritten as a new slice of the same address family.
    for (key, view, family) in over {
        match fresh.pop_if(|((wanted, _), _)| *wanted == family) {
            Some((group, spots)) => intents.extend(turned(key, view, &wanted, (&group, &spots), moment)),
            None => intents.push(gone(key, view)),
        }
    }
    let fresh = fresh.iter().filter(|_| !wanted.ends);
    intents.extend(fresh.map(|(group, spots)| create(service, &wanted, group, spots, moment)));
    intents
}

fn own_labels(labels: &Labels) -> Labels {
    labels
        .iter()
        .filter(|(name, _)| !OWN_LABELS.contains(&name.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

fn gone(key: &Key, view: &SliceView) -> Intent {
    Intent::Delete { key: key.clone(), seen: view.revision, at_once: true }
}

/// The slice with other ports and spots, unless it is that already.
fn turned(
    key: &Key,
    view: &SliceView,
    wanted: &Wanted,
    (group, spots): (&Group, &[Spot]),
    moment: Option<Time>,
) -> Option<Intent> {
    let mut object = document(&view.document);
    let before = object.clone();
    object["metadata"]["labels"] = json!(wanted.labels);
    object["metadata"]["ownerReferences"] = wanted.owner.clone();
    object["endpoints"] = shown_spots(wanted, spots);
    object["ports"] = shown_ports(&group.1);
    let same = |field: &str| object[field] == before[field] || (is_none(&object[field]) && is_none(&before[field]));
    if ["endpoints", "ports"].iter().all(|field| same(field)) && object["metadata"] == before["metadata"] {
        return None;
    }
    // Apart from the name, the slice becomes a new slice.
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["annotations", "finalizers"] {
            metadata.remove(field);
        }
    }
    stamp(&mut object, moment);
    Some(Intent::Update { key: key.clone(), seen: view.revision, object })
}

fn is_none(list: &Value) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
}

/// Compares a slice with the wanted state, and takes the spots that stay in the slice out of `wanted`.
fn stands<'a>(key: &'a Key, view: &'a SliceView, wanted: &mut Wanted) -> Standing<'a> {
    let Ok(slice) = serde_json::from_slice::<Slice>(&view.document.json) else { return Standing::Goes };
    if slice.metadata.deletion_timestamp.is_some() {
        return Standing::Ends;
    }
    let is_owner =
        |owner: &Value| ["apiVersion", "kind", "uid"].iter().all(|field| owner[*field] == wanted.owner[0][*field]);
    let owned = slice.metadata.owner_references.as_array().is_some_and(|owners| owners.iter().any(is_owner));
    if !owned {
        return Standing::Goes;
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
    Standing::Is(StandingSlice { key, view, slice, group, was, spots })
}

impl StandingSlice<'_> {
    fn update(&self, wanted: &Wanted, moment: Option<Time>) -> Intent {
        let mut object = document(&self.view.document);
        object["metadata"]["labels"] = json!(wanted.labels);
        object["endpoints"] = shown_spots(wanted, &self.spots);
        stamp(&mut object, moment);
        Intent::Update { key: self.key.clone(), seen: self.view.revision, object }
    }
}

fn create(service: &Key, wanted: &Wanted, (family, ports): &Group, spots: &[Spot], moment: Option<Time>) -> Intent {
    let mut object = json!({
        "metadata": {"generateName": generated_name(service),
            "labels": wanted.labels,
            "ownerReferences": wanted.owner},
        "addressType": family,
        "endpoints": shown_spots(wanted, spots),
        "ports": shown_ports(ports),
    });
    if !wanted.annotations.is_empty() {
        object["metadata"]["annotations"] = json!(wanted.annotations);
    }
    stamp(&mut object, moment);
    Intent::Create { resource: SLICES, namespace: service.namespace.clone(), object }
}

/// The base of generated names for a service's slices.
fn generated_name(service: &Key) -> String {
    format!("{}-", generated_base(&service.name).trim_end_matches('-'))
}

/// Nothing is null, as Kubernetes has it.
fn shown_spots(wanted: &Wanted, spots: &[Spot]) -> Value {
    let one = |spot: &Spot| {
        let mut shown = endpoint(spot);
        // A person's Endpoints give only readiness: the other conditions are unknown.
        if wanted.by == MIRROR {
            shown["conditions"] = json!({"ready": spot.ready});
        }
        shown
    };
    if spots.is_empty() { Value::Null } else { spots.iter().map(one).collect() }
}

fn port_of(port: &EndpointPort) -> (Port, String) {
    ((port.name.clone(), port.port, protocol(&port.protocol)), port.app_protocol.clone().unwrap_or_default())
}

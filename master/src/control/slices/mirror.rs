//! EndpointSlices of Endpoints that a person made for a service without a selector: a slice for each set of ports and
//! address family. PURE.
//!
//!     Endpoints -> the addresses of each port -> ports with the same addresses together -> slices -> intents
//!
//! A slice holds only the content of its Endpoints: the next write removes foreign changes to the slice.

use super::document::{Endpoint, Slice, shown_ports};
use super::{Group, Id, Port, Spot, Wanted, create, generated_name, gone, is_ending, port_of, shown_spots};
use crate::control::cluster::Cluster;
use crate::control::intent::{About, EventDraft, Intent};
use crate::control::trigger::LAST_CHANGE;
use crate::control::view::{EndpointsView, Labels, SliceView, document, protocol};
use coracle_api::meta::{Key, Revision};
use coracle_api::service::{EndpointAddress, EndpointPort, EndpointSubset};
use coracle_api::strategy::lease::{MANAGED_BY, MIRROR, SERVICE};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Addresses with the same ports; Kubernetes cuts at the same number.
const ADDRESSES_MAX: usize = 1000;
/// On Endpoints that are to stay the only ones.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Marks Endpoints that serve only as a lock for leader election.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations about the Endpoints object itself.
const NOT_COPIED: [&str; 2] = ["kubectl.kubernetes.io/last-applied-configuration", LAST_CHANGE];

type Spots = BTreeMap<Id, Spot>;

/// What is to be done, and what of the Endpoints is not mirrored, in an event's words.
#[derive(Default)]
pub struct Mirrored {
    pub intents: Vec<Intent>,
    pub trouble: String,
}

/// `endpoints`: none, where there are none.
pub fn decide(cluster: &Cluster, service: &Key, endpoints: Option<(&Key, &EndpointsView)>) -> Mirrored {
    if is_ending(cluster, service) {
        return Mirrored::default();
    }
    let is_ours = |view: &SliceView| {
        view.service == service.name && view.document.labels.get(MANAGED_BY).is_some_and(|by| by == MIRROR)
    };
    let of_service = [(SERVICE, service.name.as_str())];
    let ours = cluster.selecting::<SliceView>(&service.namespace, of_service).filter(|(_, view)| is_ours(view));
    let Some((key, endpoints)) = endpoints else { return all_gone(ours) };
    let metadata = &document(&endpoints.document)["metadata"];
    if endpoints.labels.get(SKIP_MIRROR).is_some_and(|said| said == "true")
        || metadata["annotations"][LEADER].is_string()
    {
        return all_gone(ours);
    }
    let mut wanted = Wanted::new(MIRROR, endpoints.labels.clone(), ("Endpoints", key, &endpoints.uid), key);
    wanted.annotations = copied(&metadata["annotations"]);
    let (mut groups, left_out) = groups(&endpoints.subsets);
    let (mut intents, mut over) = (Vec::new(), Vec::new());
    for (key, view) in ours {
        let Ok(slice) = serde_json::from_slice::<Slice>(&view.document.json) else {
            over.push((key, view, String::new()));
            continue;
        };
        match group_of(&slice).and_then(|group| groups.remove_entry(&group)) {
            Some((group, spots)) if !is_as(&slice, &wanted, &spots) => {
                intents.push(rewritten((key, view), &wanted, (&group, &spots), None));
            }
            Some(_) => {}
            None => over.push((key, view, slice.address_type)),
        }
    }
    let mut fresh: Vec<(Group, Spots)> = groups.into_iter().collect();
    // An obsolete slice is rewritten as a new slice of the same address family.
    for (key, view, family) in over {
        match fresh.iter().position(|((wanted, _), _)| *wanted == family) {
            Some(at) => {
                let (group, spots) = fresh.remove(at);
                let name = generated_name(service);
                intents.push(rewritten((key, view), &wanted, (&group, &spots), Some(name)));
            }
            None => intents.push(gone(key, view)),
        }
    }
    if !metadata["deletionTimestamp"].is_string() {
        let made = |(group, spots): &(Group, Spots)| create(service, &wanted, group, &list(spots), None);
        intents.extend(fresh.iter().map(made));
    }
    Mirrored { intents, trouble: trouble(left_out) }
}

/// The event about what is left out.
pub fn told(key: &Key, endpoints: &EndpointsView, trouble: &str) -> Intent {
    let about = About::new(("v1", "Endpoints"), key, &endpoints.uid, Revision(0));
    let source = "endpoint-slice-mirroring-controller";
    Intent::Announce(EventDraft::warning(source, about, "TooManyAddressesToMirror", trouble.to_owned()))
}

fn trouble(left_out: usize) -> String {
    if left_out == 0 {
        return String::new();
    }
    format!(
        "A max of {ADDRESSES_MAX} addresses can be mirrored to EndpointSlices per Endpoints subset. {left_out} \
         addresses were skipped"
    )
}

fn all_gone<'a>(ours: impl Iterator<Item = (&'a Key, &'a SliceView)>) -> Mirrored {
    Mirrored { intents: ours.map(|(key, view)| gone(key, view)).collect(), trouble: String::new() }
}

fn copied(annotations: &Value) -> Labels {
    let all = annotations.as_object().into_iter().flatten().filter(|(name, _)| !NOT_COPIED.contains(&name.as_str()));
    all.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// By address and target uid: ready unless a subset with this port lists the address as not ready.
type Addresses<'a> = BTreeMap<(&'a str, &'a str), bool>;

/// The addresses of each port. A port that has the same ones as another is with it; the first word about an address
/// counts.
fn groups(subsets: &[EndpointSubset]) -> (BTreeMap<Group, Spots>, usize) {
    let mut known: BTreeMap<(&str, &str), &EndpointAddress> = BTreeMap::new();
    let mut by_port: BTreeMap<Option<(Port, String)>, Addresses<'_>> = BTreeMap::new();
    for subset in subsets {
        let ports = subset.ports.iter().map(|port| Some(port_said(port)));
        let none = subset.ports.is_empty().then_some(None);
        for port in ports.chain(none) {
            let addresses = by_port.entry(port).or_default();
            for (half, is_ready) in [(&subset.addresses, true), (&subset.not_ready_addresses, false)] {
                for address in half {
                    let who = (address.ip.as_str(), address.target_ref.as_ref().map_or("", |target| &target.uid));
                    known.entry(who).or_insert(address);
                    *addresses.entry(who).or_insert(true) &= is_ready;
                }
            }
        }
    }
    let mut by_addresses: BTreeMap<Addresses<'_>, Vec<(Port, String)>> = BTreeMap::new();
    for (port, addresses) in by_port {
        by_addresses.entry(addresses).or_default().extend(port);
    }
    let (mut groups, mut left_out) = (BTreeMap::<Group, Spots>::new(), 0);
    for (addresses, ports) in by_addresses {
        left_out += addresses.len().saturating_sub(ADDRESSES_MAX);
        let of = |wanted: bool| addresses.iter().filter(move |(_, ready)| **ready == wanted);
        for (who, ready) in of(true).chain(of(false)).take(ADDRESSES_MAX) {
            let Some(address) = known.get(who) else { continue };
            let (family, spot) = spot(address, *ready);
            groups.entry((family, ports.clone())).or_default().insert(id(&spot), spot);
        }
    }
    (groups, left_out)
}

fn port_said(EndpointPort { name, port, protocol: written, app_protocol }: &EndpointPort) -> (Port, String) {
    ((name.clone(), *port, protocol(written)), app_protocol.clone().unwrap_or_default())
}

/// An address in the form in which slices have them.
fn spot(address: &EndpointAddress, ready: bool) -> (&'static str, Spot) {
    let parsed = address.ip.parse::<IpAddr>().map(|ip| ip.to_canonical());
    let ip = parsed.map_or_else(|_| address.ip.clone(), |ip| ip.to_string());
    let family = if ip.contains(':') { "IPv6" } else { "IPv4" };
    let node = address.node_name.clone().filter(|node| !node.is_empty());
    let (hostname, target) = (address.hostname.clone(), address.target_ref.clone());
    (family, Spot { ip, ready, serving: ready, hostname, node, target, ..Spot::default() })
}

fn id(spot: &Spot) -> Id {
    let target = spot.target.as_ref().map(|target| format!("{}/{}/{}", target.namespace, target.name, target.uid));
    (target.unwrap_or_default(), spot.ip.clone())
}

fn group_of(slice: &Slice) -> Option<Group> {
    let family = ["IPv4", "IPv6"].into_iter().find(|family| *family == slice.address_type)?;
    let mut ports: Vec<(Port, String)> = slice.ports.iter().flatten().map(port_of).collect();
    ports.sort();
    Some((family, ports))
}

fn is_as(slice: &Slice, wanted: &Wanted, spots: &Spots) -> bool {
    let standing: Vec<Spot> = slice.endpoints.iter().flatten().map(Endpoint::spot).collect();
    standing.len() == spots.len()
        && standing.into_iter().map(|spot| (id(&spot), spot)).collect::<Spots>() == *spots
        && slice.metadata.labels == wanted.labels
        && slice.metadata.annotations == wanted.annotations
        && !is_of_others(slice, wanted)
}

/// Whether the slice belongs to earlier Endpoints with the same name. Other owners do not matter.
fn is_of_others(slice: &Slice, wanted: &Wanted) -> bool {
    let (owners, wanted) = (slice.metadata.owner_references.as_array(), &wanted.owner[0]);
    let is_same = |owner: &&Value, field: &str| owner[field] == wanted[field];
    let mut named = owners.into_iter().flatten().filter(|owner| is_same(owner, "kind") && is_same(owner, "name"));
    named.any(|owner| owner["uid"] != wanted["uid"])
}

/// The slice as a newly made slice, but for its name. If only the content differs, Kubernetes leaves out the base of
/// the generated name.
fn rewritten(
    (key, view): (&Key, &SliceView),
    wanted: &Wanted,
    (group, spots): (&Group, &Spots),
    name: Option<String>,
) -> Intent {
    let mut object = document(&view.document);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["annotations", "finalizers", "generateName"] {
            metadata.remove(field);
        }
    }
    let metadata = &mut object["metadata"];
    metadata["labels"] = json!(wanted.labels);
    metadata["ownerReferences"] = wanted.owner.clone();
    if !wanted.annotations.is_empty() {
        metadata["annotations"] = json!(wanted.annotations);
    }
    if let Some(name) = name {
        metadata["generateName"] = name.into();
    }
    object["endpoints"] = shown_spots(wanted, &list(spots));
    object["ports"] = shown_ports(&group.1);
    Intent::Update { key: key.clone(), seen: view.revision, object }
}

fn list(spots: &Spots) -> Vec<Spot> {
    spots.values().cloned().collect()
}

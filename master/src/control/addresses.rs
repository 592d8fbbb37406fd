//! An IPAddress for each address of a service: `kubectl get ipaddresses` lists the service of each address. PURE.
//!
//!     a service has an address       -> an IPAddress of that name, which says so
//!     no service has it any more     -> it goes, if this controller made it
//!
//! The claim itself is the service's, and is made with it; these are worked out again after a restart.

use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{Decision, Intent};
use super::shelf::View;
use super::view::{SERVICES, document};
use crate::store::Stored;
use coracle_api::meta::{Key, Resource, Revision};
use coracle_api::strategy::addresses::{ADDRESSES, FAMILY, KEPT_BY_US, MANAGED_BY};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::Duration;

/// The addresses of a service.
#[derive(Clone, Debug)]
pub struct AddressedView {
    pub addresses: Vec<String>,
}

impl View for AddressedView {
    const OF: &'static [Resource] = &[SERVICES];

    fn read(stored: &Stored, _: Option<&AddressedView>, _: Duration) -> Option<AddressedView> {
        let spec = &document(stored)["spec"];
        let all = spec["clusterIPs"].as_array().cloned().unwrap_or_else(|| vec![spec["clusterIP"].clone()]);
        let texts = all.iter().filter_map(Value::as_str);
        let addresses =
            texts.filter_map(|text| text.parse::<IpAddr>().ok()).map(|address| address.to_string()).collect();
        Some(AddressedView { addresses })
    }
}

/// An IPAddress.
#[derive(Clone, Debug)]
pub struct AddressView {
    revision: Revision,
    ours: bool,
    deleting: bool,
    /// Namespace and name of the service with this address.
    of: (String, String),
}

impl View for AddressView {
    const OF: &'static [Resource] = &[ADDRESSES];

    fn read(stored: &Stored, _: Option<&AddressView>, _: Duration) -> Option<AddressView> {
        let document = document(stored);
        let text = |field: &str| document["spec"]["parentRef"][field].as_str().unwrap_or_default().to_owned();
        Some(AddressView {
            revision: stored.revision,
            ours: document["metadata"]["labels"][MANAGED_BY] == KEPT_BY_US,
            deleting: !document["metadata"]["deletionTimestamp"].is_null(),
            of: (text("namespace"), text("name")),
        })
    }
}

fn key_of(address: &str) -> Key {
    Key { resource: ADDRESSES, namespace: String::new(), name: address.to_owned() }
}

pub fn all(cluster: &Cluster) -> Vec<Key> {
    let of_services =
        cluster.all::<AddressedView>().flat_map(|(_, service)| &service.addresses).map(|address| key_of(address));
    of_services.chain(cluster.all::<AddressView>().map(|(key, _)| key.clone())).collect()
}

pub fn by_service(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let both = change.was::<AddressedView>().into_iter().chain(cluster.get::<AddressedView>(change.key));
    both.flat_map(|service| &service.addresses).map(|address| key_of(address)).collect()
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, key) = (look.cluster, look.key);
    let standing = cluster.get::<AddressView>(key);
    let has = |service: &AddressedView| service.addresses.contains(&key.name);
    let owner = cluster.all::<AddressedView>().find(|(_, service)| has(service)).map(|(key, _)| key);
    match (owner, standing) {
        (Some(owner), None) if !cluster.damaged.contains(key) => Decision::of(vec![made(owner, &key.name)]),
        (None, Some(standing)) if standing.ours && !standing.deleting => {
            let (namespace, name) = standing.of.clone();
            // What cannot be read may still have it.
            match cluster.damaged.contains(&Key { resource: SERVICES, namespace, name }) {
                true => Decision::default(),
                false => {
                    Decision::of(vec![Intent::Delete { key: key.clone(), seen: standing.revision, at_once: true }])
                }
            }
        }
        _ => Decision::default(),
    }
}

fn made(owner: &Key, address: &str) -> Intent {
    let family = if address.contains(':') { "IPv6" } else { "IPv4" };
    let object = json!({
        "metadata": {"name": address, "labels": {FAMILY: family, MANAGED_BY: KEPT_BY_US}},
        "spec": {"parentRef": {"resource": "services", "namespace": owner.namespace, "name": owner.name}},
    });
    Intent::Create { resource: ADDRESSES, namespace: String::new(), object }
}

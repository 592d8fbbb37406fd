//! Whose world an event changed. PURE. Only a hint: the full pass over all keys finds nothing more.

use super::cluster::{Cluster, PodView, selects};
use crate::store::Event;
use coracle_api::meta::Key;
use std::collections::BTreeSet;

/// What a controller is asked about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// One replicationController and its pods.
    Controller(Key),
    /// All pods on no node: the scheduler looks at them at once.
    Unbound,
    /// One service and its endpoints.
    Service(Key),
    /// One node and the pods on it.
    Node(String),
    /// All events: they expire.
    Events,
}

impl Owner {
    /// Whether this is about the object itself.
    pub fn is(&self, key: &Key) -> bool {
        match self {
            Owner::Controller(own) | Owner::Service(own) => own == key,
            Owner::Node(name) => &*key.resource.plural == "nodes" && *name == key.name,
            Owner::Unbound | Owner::Events => false,
        }
    }
}

/// Asked before and after the event is applied, so that what an object left is looked at as well as what it joined.
pub fn of(cluster: &Cluster, event: &Event) -> BTreeSet<Owner> {
    let key = &event.key;
    match &*key.resource.plural {
        "pods" => cluster.pods.get(key).map(|pod| of_pod(cluster, key, pod)).unwrap_or_default(),
        "replicationcontrollers" => [Owner::Controller(key.clone())].into(),
        "services" => [Owner::Service(key.clone())].into(),
        // Of the same name as their service.
        "endpoints" => [Owner::Service(service_of(key))].into(),
        "nodes" => {
            let mut owners: BTreeSet<Owner> = [Owner::Node(key.name.clone()), Owner::Unbound].into();
            for (key, pod) in cluster.pods_on(&key.name) {
                owners.extend(of_pod(cluster, key, pod));
            }
            owners
        }
        "events" => [Owner::Events].into(),
        _ => BTreeSet::new(),
    }
}

fn of_pod(cluster: &Cluster, key: &Key, pod: &PodView) -> BTreeSet<Owner> {
    let mut owners = BTreeSet::from([Owner::Unbound]);
    if !pod.node.is_empty() {
        owners.insert(Owner::Node(pod.node.clone()));
    }
    let here = |other: &Key| other.namespace == key.namespace;
    for (other, controller) in cluster.controllers.iter().filter(|(other, _)| here(other)) {
        if pod.owner.as_ref() == Some(&controller.uid) || selects(&controller.selector, &pod.labels) {
            owners.insert(Owner::Controller(other.clone()));
        }
    }
    for (other, _) in cluster.services.iter().filter(|(other, service)| here(other) && selects(&service.selector, &pod.labels)) {
        owners.insert(Owner::Service(other.clone()));
    }
    owners
}

fn service_of(endpoints: &Key) -> Key {
    Key { resource: coracle_api::meta::Resource::core("services"), ..endpoints.clone() }
}

pub fn all(cluster: &Cluster) -> BTreeSet<Owner> {
    let mut owners = BTreeSet::from([Owner::Unbound, Owner::Events]);
    owners.extend(cluster.controllers.keys().cloned().map(Owner::Controller));
    owners.extend(cluster.services.keys().cloned().map(Owner::Service));
    owners.extend(cluster.endpoints.keys().map(service_of).map(Owner::Service));
    owners.extend(cluster.nodes.keys().cloned().map(Owner::Node));
    owners.extend(cluster.removed_nodes.iter().cloned().map(Owner::Node));
    owners
}

//! Whose world an event changed. PURE. Only a hint: the full pass over all keys finds nothing more.

use super::cluster::Cluster;
use super::namespaces;
use super::own;
use super::view::{PodView, selects};
use crate::store::Event;
use coracle_api::meta::{Key, Resource};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

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
    /// One namespace and what is in it.
    Namespace(String),
    /// The quotas of one namespace.
    Quotas(String),
    /// All events: they expire.
    Events,
    /// One object that owns, is owned, or is being deleted.
    Garbage(Key),
    /// One disruption budget and the pods that it guards.
    Budget(Key),
    /// One pod that says it is to be disrupted.
    Doomed(Key),
}

impl Owner {
    /// Whether this is about the object itself.
    pub fn is(&self, key: &Key) -> bool {
        match self {
            Owner::Controller(own) | Owner::Service(own) | Owner::Garbage(own) => own == key,
            Owner::Budget(own) | Owner::Doomed(own) => own == key,
            Owner::Node(name) => &*key.resource.plural == "nodes" && *name == key.name,
            Owner::Namespace(name) => &*key.resource.plural == "namespaces" && *name == key.name,
            Owner::Quotas(_) | Owner::Unbound | Owner::Events => false,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Controller(key) | Owner::Service(key) | Owner::Garbage(key) => key.fmt(f),
            Owner::Budget(key) | Owner::Doomed(key) => key.fmt(f),
            Owner::Unbound => f.write_str("pods on no node"),
            Owner::Node(name) => write!(f, "nodes/{name}"),
            Owner::Namespace(name) => write!(f, "namespaces/{name}"),
            Owner::Quotas(name) => write!(f, "resourcequotas/{name}"),
            Owner::Events => f.write_str("events"),
        }
    }
}

/// Lets the cluster know of an event: what the object left is to be looked at as well as what it joined.
pub fn apply(cluster: &mut Cluster, event: &Event, uptime: Duration) -> BTreeSet<Owner> {
    let key: &Key = &event.key;
    let mut owners = of(cluster, key);
    let room = |cluster: &Cluster| cluster.pods.get(key).map(|pod| pod.room().map(str::to_owned));
    let silent = |cluster: &Cluster| cluster.nodes.get(&key.name).map(|node| node.silent());
    let (room_before, silent_before) = (room(cluster), silent(cluster));
    cluster.apply(event, uptime);
    owners.extend(of(cluster, key));
    owners.extend(cluster.garbage.dirty().into_iter().map(Owner::Garbage));
    if &*key.resource.plural == "pods" {
        owners.extend(cluster.garbage.guarded(&key.namespace).cloned().map(Owner::Garbage));
    }
    // Something has gone from a namespace that waits for it, or has its quota back.
    if event.new.is_none() {
        owners.extend(left(cluster, &key.namespace));
    } else if is_counted(key) && (event.old.is_none() || room_before != room(cluster)) {
        owners.extend(charged(cluster, &key.namespace));
    }
    // A pod that is where it was leaves as much room to others as before.
    if room_before != room(cluster) {
        owners.insert(Owner::Unbound);
    }
    if &*key.resource.plural == "nodes" && silent_before != silent(cluster) {
        for (key, pod) in cluster.pods_on(&key.name) {
            owners.extend(of_pod(cluster, key, pod));
        }
    }
    owners
}

fn of(cluster: &Cluster, key: &Key) -> BTreeSet<Owner> {
    match &*key.resource.plural {
        "pods" => match cluster.pods.get(key) {
            Some(pod) => of_pod(cluster, key, pod),
            // It may have been anybody's.
            None if cluster.damaged.contains(key) => {
                let all = cluster.controllers_in(&key.namespace);
                let all = all.map(|(controller, _)| Owner::Controller(controller.clone()));
                all.chain([Owner::Unbound]).chain(budgets(cluster, key)).collect()
            }
            None => BTreeSet::new(),
        },
        "replicationcontrollers" => budgets(cluster, key).chain([Owner::Controller(key.clone())]).collect(),
        "poddisruptionbudgets" => [Owner::Budget(key.clone())].into(),
        _ if Cluster::is_scaled(&key.resource) => budgets(cluster, key).collect(),
        "services" => [Owner::Service(key.clone())].into(),
        // Of the same name as their service.
        "endpoints" => [Owner::Service(service_of(key))].into(),
        "endpointslices" => {
            let service = cluster.slices.get(key).map(|slice| slice.service.clone()).filter(|name| !name.is_empty());
            let key = |name| Key { resource: Resource::core("services"), namespace: key.namespace.clone(), name };
            service.into_iter().map(|name| Owner::Service(key(name))).collect()
        }
        "nodes" => [Owner::Node(key.name.clone()), Owner::Unbound, Owner::Service(own::key())].into(),
        "servicecidrs" if own::concerns(key) => [Owner::Service(own::key())].into(),
        "events" => [Owner::Events].into(),
        "resourcequotas" => [Owner::Quotas(key.namespace.clone())].into(),
        "namespaces" if key.name == own::key().namespace => [Owner::Namespace(key.name.clone()), Owner::Service(own::key())].into(),
        "namespaces" => [Owner::Namespace(key.name.clone())].into(),
        "serviceaccounts" | "configmaps" if namespaces::concerns(key) => [Owner::Namespace(key.namespace.clone())].into(),
        _ => BTreeSet::new(),
    }
}

/// The budgets of the namespace of an object: they may count by it.
fn budgets<'c>(cluster: &'c Cluster, of: &'c Key) -> impl Iterator<Item = Owner> + 'c {
    cluster.budgets_in(&of.namespace).map(|(budget, _)| Owner::Budget(budget.clone()))
}

/// Whom it concerns that something is gone from a namespace.
pub fn left(cluster: &Cluster, namespace: &str) -> impl Iterator<Item = Owner> {
    let ends = cluster.namespaces.get(namespace).is_some_and(|ends| *ends);
    ends.then(|| Owner::Namespace(namespace.to_owned())).into_iter().chain(charged(cluster, namespace))
}

/// The quotas of a namespace, if it has any.
fn charged(cluster: &Cluster, namespace: &str) -> Option<Owner> {
    cluster.quotas.iter().any(|quota| quota.namespace == namespace).then(|| Owner::Quotas(namespace.to_owned()))
}

/// What uses a quota by what it becomes, and not only by being there.
fn is_counted(key: &Key) -> bool {
    key.resource.group.is_empty() && matches!(&*key.resource.plural, "pods" | "services")
}

fn of_pod(cluster: &Cluster, key: &Key, pod: &PodView) -> BTreeSet<Owner> {
    let mut owners = BTreeSet::new();
    owners.insert(if pod.node.is_empty() { Owner::Unbound } else { Owner::Node(pod.node.clone()) });
    owners.extend(owner_of(cluster, key, pod));
    for (controller, view) in cluster.controllers_in(&key.namespace) {
        if selects(&view.selector, pod.labels()) {
            owners.insert(Owner::Controller(controller.clone()));
        }
    }
    for (service, view) in cluster.services_in(&key.namespace) {
        if selects(&view.selector, pod.labels()) {
            owners.insert(Owner::Service(service.clone()));
        }
    }
    let guards = cluster.budgets_in(&key.namespace).filter(|(_, budget)| budget.selects(pod.labels()));
    owners.extend(guards.map(|(budget, _)| Owner::Budget(budget.clone())));
    owners.extend(pod.doomed().map(|_| Owner::Doomed(key.clone())));
    owners
}

/// The replicationController that a pod names as its own.
fn owner_of(cluster: &Cluster, key: &Key, pod: &PodView) -> Option<Owner> {
    let name = pod.owner.as_ref()?.controller.clone()?;
    let key = Key { resource: Resource::core("replicationcontrollers"), namespace: key.namespace.clone(), name };
    cluster.controllers.contains_key(&key).then_some(Owner::Controller(key))
}

fn service_of(endpoints: &Key) -> Key {
    Key { resource: Resource::core("services"), ..endpoints.clone() }
}

/// Every key there is.
pub fn all(cluster: &Cluster) -> BTreeSet<Owner> {
    let mut owners = BTreeSet::from([Owner::Unbound, Owner::Events, Owner::Service(own::key())]);
    owners.extend(cluster.controllers.keys().cloned().map(Owner::Controller));
    owners.extend(cluster.services.keys().cloned().map(Owner::Service));
    owners.extend(cluster.endpoints.keys().map(service_of).map(Owner::Service));
    owners.extend(cluster.slices.keys().flat_map(|key| of(cluster, key)));
    owners.extend(cluster.nodes.keys().cloned().map(Owner::Node));
    owners.extend(cluster.quotas.iter().map(|quota| Owner::Quotas(quota.namespace.clone())));
    owners.extend(cluster.namespaces.keys().cloned().map(Owner::Namespace));
    owners.extend(cluster.removed_nodes.keys().cloned().map(Owner::Node));
    owners.extend(cluster.garbage.keys().cloned().map(Owner::Garbage));
    owners.extend(cluster.budgets.keys().cloned().map(Owner::Budget));
    let doomed = cluster.pods.iter().filter(|(_, pod)| pod.doomed().is_some());
    owners.extend(doomed.map(|(key, _)| Owner::Doomed(Key::clone(key))));
    owners
}

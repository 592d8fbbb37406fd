//! The cluster as the controllers see it: narrow views of the objects, indexed, fed by events. PURE.

use super::intent::{About, Intent, Tale};
use super::{Now, Owner};
use crate::store::{Event, Stored};
use coracle_api::meta::{Key, Revision, Time};
use coracle_api::node::Node;
use coracle_api::pod::{Container, Pod, ResourceList};
use coracle_api::quantity::Quantity;
use coracle_api::service::{Endpoints, Service};
use coracle_api::workload::ReplicationController;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub type Labels = BTreeMap<String, String>;

#[derive(Default)]
pub struct Cluster {
    pub pods: BTreeMap<Key, PodView>,
    pub nodes: BTreeMap<String, NodeView>,
    pub controllers: BTreeMap<Key, ControllerView>,
    pub services: BTreeMap<Key, ServiceView>,
    pub endpoints: BTreeMap<Key, EndpointsView>,
    /// When each event came, by uptime.
    pub events: BTreeMap<Key, (Revision, Duration)>,
    /// Objects that exist and cannot be read: they are not absent.
    pub damaged: BTreeSet<Key>,
    /// Nodes whose deletion was seen while pods were bound to them.
    pub removed_nodes: BTreeSet<String>,
    /// When each node last gave a sign of life, by uptime.
    heard: BTreeMap<String, Duration>,
    /// What was last complained about, so that it is said once.
    complaints: BTreeMap<Owner, String>,
}

/// What is read of a pod.
#[derive(Clone, Debug)]
pub struct PodView {
    pub revision: Revision,
    pub uid: String,
    pub created: Option<Time>,
    pub labels: Labels,
    /// Empty: on no node yet.
    pub node: String,
    pub node_selector: Labels,
    pub default_scheduler: bool,
    pub gated: bool,
    /// The uid of its controller.
    pub owner: Option<String>,
    pub deleting: bool,
    pub phase: String,
    /// None: nobody has said, or what was said is lost.
    pub ready: Option<bool>,
    pub ready_since: Option<Time>,
    pub restarts: i64,
    pub ip: String,
    /// Name, number, protocol.
    pub ports: Vec<(String, i32, String)>,
    pub host_ports: Vec<HostPort>,
    pub cpu_milli: i64,
    pub memory_bytes: i64,
    /// Why it is on no node, as its condition says.
    pub unscheduled: Option<String>,
    pub document: Stored,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    pub port: i32,
    pub protocol: String,
    /// Empty: every address.
    pub ip: String,
}

impl HostPort {
    pub fn clashes(&self, other: &HostPort) -> bool {
        let every = |ip: &str| ip.is_empty() || ip == "0.0.0.0";
        self.port == other.port && self.protocol == other.protocol && (self.ip == other.ip || every(&self.ip) || every(&other.ip))
    }
}

impl PodView {
    pub fn terminal(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Counts as a replica.
    pub fn active(&self) -> bool {
        !self.terminal() && !self.deleting
    }
}

#[derive(Clone, Debug)]
pub struct NodeView {
    pub revision: Revision,
    pub uid: String,
    pub labels: Labels,
    pub unschedulable: bool,
    /// The Ready condition's status: True, False, Unknown, or empty when nobody has said.
    pub ready: String,
    pub cpu_milli: i64,
    pub memory_bytes: i64,
    /// None: no bound is known.
    pub pods_max: Option<i64>,
    pub document: Stored,
}

#[derive(Clone, Debug)]
pub struct ControllerView {
    pub revision: Revision,
    pub uid: String,
    pub generation: i64,
    pub replicas: i64,
    pub selector: Labels,
    pub template_labels: Labels,
    pub deleting: bool,
    pub document: Stored,
}

#[derive(Clone, Debug)]
pub struct ServiceView {
    pub selector: Labels,
    pub publish_not_ready: bool,
    pub labels: Labels,
    pub external: bool,
    pub headless: bool,
    /// Name, protocol, port, target.
    pub ports: Vec<coracle_api::service::ServicePort>,
}

#[derive(Clone, Debug)]
pub struct EndpointsView {
    pub revision: Revision,
    /// Made by the endpoints controller.
    pub managed: bool,
    pub view: Endpoints,
    pub document: Stored,
}

/// The label of endpoints that a controller made, as Kubernetes has it.
pub const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
/// Complaints that are remembered; more keys than this fail only when everything does.
const COMPLAINTS_MAX: usize = 1000;

impl Cluster {
    /// One change of one object. A document that cannot be read is left as it was: unknown is not absent.
    pub fn apply(&mut self, event: &Event, uptime: Duration) {
        let key = &event.key;
        let new = event.new.as_ref();
        self.damaged.remove(key);
        match &*key.resource.plural {
            "pods" => put(&mut self.pods, key.clone(), new, pod_view),
            "replicationcontrollers" => put(&mut self.controllers, key.clone(), new, controller_view),
            "services" => put(&mut self.services, key.clone(), new, service_view),
            "endpoints" => put(&mut self.endpoints, key.clone(), new, endpoints_view),
            "nodes" => self.apply_node(key, new, uptime),
            "events" => match new {
                Some(stored) => drop(self.events.insert(key.clone(), (stored.revision, uptime))),
                None => drop(self.events.remove(key)),
            },
            _ => {}
        }
        if new.is_none() {
            self.complaints.retain(|owner, _| !owner.is(key));
        }
        let removed = std::mem::take(&mut self.removed_nodes);
        self.removed_nodes = removed.into_iter().filter(|name| self.pods.values().any(|pod| pod.node == *name)).collect();
    }

    fn apply_node(&mut self, key: &Key, new: Option<&Stored>, uptime: Duration) {
        if new.is_none() && self.nodes.contains_key(&key.name) {
            self.removed_nodes.insert(key.name.clone());
            self.heard.remove(&key.name);
        }
        if new.is_some() {
            self.removed_nodes.remove(&key.name);
            self.heard.entry(key.name.clone()).or_insert(uptime);
        }
        put(&mut self.nodes, key.name.clone(), new, node_view);
    }

    /// A sign of life; true if it came after a silence that has been noticed.
    pub fn hear(&mut self, node: &str, uptime: Duration) -> bool {
        self.heard.insert(node.to_owned(), uptime);
        self.nodes.get(node).is_some_and(|node| node.ready == "Unknown")
    }

    pub fn heard(&self, node: &str) -> Option<Duration> {
        self.heard.get(node).copied()
    }

    pub fn pods_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a PodView)> {
        self.pods.iter().filter(move |(key, _)| key.namespace == namespace)
    }

    pub fn pods_on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (&'a Key, &'a PodView)> {
        self.pods.iter().filter(move |(_, pod)| pod.node == node)
    }

    /// Something that a key's controller wanted was refused; said once for each reason.
    pub fn complain(&mut self, owner: &Owner, why: String, _now: Now) -> Option<Intent> {
        if self.complaints.get(owner) == Some(&why) {
            return None;
        }
        if self.complaints.len() >= COMPLAINTS_MAX {
            self.complaints.clear();
        }
        self.complaints.insert(owner.clone(), why.clone());
        let Owner::Controller(key) = owner else { return None };
        let controller = self.controllers.get(key)?;
        let about = About {
            kind: "ReplicationController",
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: controller.uid.clone(),
            revision: controller.revision,
        };
        let message = format!("Error creating: {why}");
        Some(Intent::Tell(Tale { about, severity: "Warning", reason: "FailedCreate", message, source: "replication-controller" }))
    }
}

/// Whether an object with these labels is meant by a selector; an empty selector means nothing.
pub fn selects(selector: &Labels, labels: &Labels) -> bool {
    !selector.is_empty() && selector.iter().all(|(name, value)| labels.get(name) == Some(value))
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, new: Option<&Stored>, view: impl Fn(&Stored, &Value) -> Option<V>) {
    let Some(stored) = new else {
        map.remove(&key);
        return;
    };
    let document = serde_json::from_slice(&stored.json).unwrap_or_default();
    if let Some(view) = view(stored, &document) {
        map.insert(key, view);
    }
}

fn pod_view(stored: &Stored, document: &Value) -> Option<PodView> {
    let pod = Pod::read(document).ok()?;
    let ready = pod.status.condition("Ready");
    let scheduled = pod.status.condition("PodScheduled").filter(|condition| condition.status == "False");
    let ports = pod.spec.containers.iter().flat_map(|container| &container.ports);
    Some(PodView {
        revision: stored.revision,
        created: pod.metadata.creation_timestamp,
        owner: pod.metadata.controller().map(|owner| owner.uid.clone()),
        deleting: pod.metadata.deletion_timestamp.is_some(),
        uid: pod.metadata.uid,
        labels: pod.metadata.labels,
        node_selector: pod.spec.node_selector,
        default_scheduler: matches!(pod.spec.scheduler_name.as_str(), "" | "default-scheduler"),
        gated: !pod.spec.scheduling_gates.is_empty(),
        ready: ready.map(|condition| condition.status == "True"),
        ready_since: ready.and_then(|condition| condition.last_transition_time),
        restarts: pod.status.container_statuses.iter().map(|status| i64::from(status.restart_count)).sum(),
        unscheduled: scheduled.map(|condition| condition.message.clone()),
        phase: pod.status.phase,
        ip: pod.status.pod_ip,
        host_ports: ports.clone().filter(|port| port.host_port > 0).map(host_port).collect(),
        ports: ports.map(|port| (port.name.clone(), port.container_port, protocol(&port.protocol))).collect(),
        cpu_milli: requested(&pod.spec.containers, "cpu", |amount| amount.milli()),
        memory_bytes: requested(&pod.spec.containers, "memory", |amount| amount.value()),
        node: pod.spec.node_name,
        document: stored.clone(),
    })
}

fn host_port(port: &coracle_api::pod::ContainerPort) -> HostPort {
    HostPort { port: port.host_port, protocol: protocol(&port.protocol), ip: port.host_ip.clone() }
}

pub fn protocol(written: &str) -> String {
    if written.is_empty() { "TCP".to_owned() } else { written.to_owned() }
}

/// The sum of what the containers ask for; a limit without a request is one.
fn requested(containers: &[Container], name: &str, amount: impl Fn(Quantity) -> i64) -> i64 {
    let of = |resources: &ResourceList| resources.get(name).copied().map(&amount);
    containers.iter().filter_map(|c| of(&c.resources.requests).or_else(|| of(&c.resources.limits))).sum()
}

fn node_view(stored: &Stored, document: &Value) -> Option<NodeView> {
    let node = Node::read(document).ok()?;
    let allocatable = if node.status.allocatable.is_empty() { &node.status.capacity } else { &node.status.allocatable };
    Some(NodeView {
        revision: stored.revision,
        ready: node.status.condition("Ready").map(|condition| condition.status.clone()).unwrap_or_default(),
        cpu_milli: allocatable.get("cpu").map_or(i64::MAX, |amount| amount.milli()),
        memory_bytes: allocatable.get("memory").map_or(i64::MAX, |amount| amount.value()),
        pods_max: allocatable.get("pods").map(|amount| amount.value()),
        uid: node.metadata.uid,
        labels: node.metadata.labels,
        unschedulable: node.spec.unschedulable,
        document: stored.clone(),
    })
}

fn controller_view(stored: &Stored, document: &Value) -> Option<ControllerView> {
    let controller = ReplicationController::read(document).ok()?;
    Some(ControllerView {
        revision: stored.revision,
        uid: controller.metadata.uid,
        generation: controller.metadata.generation,
        replicas: i64::from(controller.spec.replicas.unwrap_or(1)),
        selector: controller.spec.selector,
        template_labels: controller.spec.template.map(|template| template.metadata.labels).unwrap_or_default(),
        deleting: controller.metadata.deletion_timestamp.is_some(),
        document: stored.clone(),
    })
}

fn service_view(_: &Stored, document: &Value) -> Option<ServiceView> {
    let service = Service::read(document).ok()?;
    Some(ServiceView {
        external: service.spec.kind == "ExternalName",
        headless: service.spec.headless(),
        selector: service.spec.selector,
        publish_not_ready: service.spec.publish_not_ready_addresses,
        labels: service.metadata.labels,
        ports: service.spec.ports,
    })
}

fn endpoints_view(stored: &Stored, document: &Value) -> Option<EndpointsView> {
    let view = Endpoints::read(document).ok()?;
    let managed = view.metadata.labels.get(MANAGED_BY.0).is_some_and(|by| by == MANAGED_BY.1);
    Some(EndpointsView { revision: stored.revision, managed, view, document: stored.clone() })
}

//! Views that several controllers share: typed and narrow, so that a cluster of thousands stays small. PURE.

use super::shelf::View;
use crate::store::Stored;
use coracle_api::labels::LabelSet;
use coracle_api::meta::{Key, Resource, Revision, Time};
use coracle_api::node::{Node, Taint};
use coracle_api::pod::{Container, ContainerPort, Pod, ResourceList, ResourceRequirements, Toleration};
use coracle_api::quantity::Quantity;
use coracle_api::service::{EndpointSubset, Endpoints, Service, ServicePort};
use coracle_api::strategy::namespace::is_ending;
use coracle_api::strategy::{eviction, label_selector, lease};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

pub const PODS: Resource = Resource::core("pods");
pub const NODES: Resource = Resource::core("nodes");
pub const EVENTS: Resource = Resource::core("events");
pub const NAMESPACES: Resource = Resource::core("namespaces");
pub const SERVICES: Resource = Resource::core("services");
pub const ENDPOINTS: Resource = Resource::core("endpoints");
pub const SLICES: Resource = of_group("discovery.k8s.io", "endpointslices");

pub const fn of_group(group: &'static str, plural: &'static str) -> Resource {
    Resource { group: Cow::Borrowed(group), plural: Cow::Borrowed(plural) }
}

const PHASES: [&str; 5] = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];

pub type Labels = BTreeMap<String, String>;

/// The label of endpoints that a controller made, as Kubernetes has it.
pub const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
/// Annotation of endpoints that leave addresses out.
pub const TRUNCATED: (&str, &str) = ("endpoints.kubernetes.io/over-capacity", "truncated");
/// Annotation of a pod: those with lower numbers are deleted first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Why a pod is to be disrupted that its agent ends.
const BY_ITS_AGENT: &str = "TerminationByKubelet";

#[derive(Clone, Debug)]
pub struct PodView {
    pub revision: Revision,
    pub uid: String,
    pub generation: i64,
    pub created: Option<Time>,
    /// Empty: on no node yet.
    pub node: String,
    /// Of a pod on no node yet: only who looks for one asks, and there are thousands on theirs.
    pub unbound: Option<Box<Unbound>>,
    /// The uid of the one owner that acts on it.
    pub owner: Option<String>,
    pub deleting: bool,
    /// Its grace is over; only finalizers hold it.
    pub ending: bool,
    pub deletion_cost: i32,
    /// Empty: none that is known.
    pub phase: &'static str,
    /// None: nobody has said, or what was said is lost.
    pub ready: Option<bool>,
    pub ready_since: Option<Time>,
    pub restarts: i64,
    pub ip: String,
    /// Name, number, protocol of each that has a name: by it services find the number.
    pub ports: Box<[(String, i32, String)]>,
    pub host_ports: Box<[HostPort]>,
    pub cpu_milli: i64,
    pub memory_bytes: i64,
    /// Since when it says that it is to be disrupted, by its condition.
    pub doomed: Option<Time>,
    /// When it was first seen, by uptime.
    pub came: Duration,
    /// When it was first seen to be ready, by uptime, as long as it is.
    pub ready_at: Duration,
    pub document: Stored,
}

/// What who looks for a pod's node must know.
#[derive(Clone, Debug)]
pub struct Unbound {
    pub node_selector: Labels,
    pub tolerations: Vec<Toleration>,
    pub default_scheduler: bool,
    pub gated: bool,
    /// Why it is on no node, as its condition says.
    pub unscheduled: Option<String>,
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
        matches!(self.phase, "Succeeded" | "Failed")
    }

    /// Counts as a replica.
    pub fn active(&self) -> bool {
        !self.terminal() && !self.deleting
    }

    pub fn labels(&self) -> &LabelSet {
        &self.document.labels
    }

    /// Since when it is to be disrupted, if nothing has come of that yet. What an agent ends by itself takes its time.
    pub fn doomed(&self) -> Option<Time> {
        self.doomed.filter(|_| self.active())
    }

    /// What its node must have free for it. None: it takes no room.
    pub fn room(&self) -> Option<&str> {
        (!self.terminal()).then_some(self.node.as_str())
    }
}

#[derive(Clone, Debug)]
pub struct NodeView {
    pub revision: Revision,
    pub uid: String,
    pub labels: Labels,
    pub unschedulable: bool,
    pub taints: Vec<Taint>,
    /// The Ready condition's status: True, False, Unknown, or empty when nobody has said.
    pub ready: String,
    pub cpu_milli: i64,
    pub memory_bytes: i64,
    /// None: no bound is known.
    pub pods_max: Option<i64>,
    pub document: Stored,
}

impl NodeView {
    /// Its silence has been noticed.
    pub fn silent(&self) -> bool {
        self.ready == "Unknown"
    }
}

pub fn node_key(name: &str) -> Key {
    Key { resource: NODES, namespace: String::new(), name: name.to_owned() }
}

#[derive(Clone, Debug)]
pub struct NamespaceView {
    /// Its deletion has begun.
    pub ends: bool,
}

pub fn namespace_key(name: &str) -> Key {
    Key { resource: NAMESPACES, namespace: String::new(), name: name.to_owned() }
}

#[derive(Clone, Debug)]
pub struct ServiceView {
    pub uid: String,
    pub deleting: bool,
    pub selector: Labels,
    pub publish_not_ready: bool,
    pub labels: Labels,
    pub external: bool,
    pub headless: bool,
    pub ports: Vec<ServicePort>,
}

#[derive(Clone, Debug)]
pub struct EndpointsView {
    pub revision: Revision,
    pub uid: String,
    pub labels: Labels,
    pub subsets: Vec<EndpointSubset>,
    /// It says that there are more.
    pub truncated: bool,
    pub document: Stored,
}

/// Read when it is looked at: what it says stands in the store once.
#[derive(Clone, Debug)]
pub struct SliceView {
    pub revision: Revision,
    /// By its label; empty: of none.
    pub service: String,
    pub document: Stored,
}

impl SliceView {
    /// The key of its service, from its own. `None`: it names no service.
    pub fn key_of_service(&self, slice: &Key) -> Option<Key> {
        let key = || Key { resource: SERVICES, namespace: slice.namespace.clone(), name: self.service.clone() };
        (!self.service.is_empty()).then(key)
    }

    /// Kept by one of this master's controllers.
    pub fn ours(&self) -> bool {
        self.document.labels.get(lease::MANAGED_BY).is_some_and(|by| [lease::CONTROLLER, lease::MIRROR].contains(&by))
    }
}

impl EndpointsView {
    /// Made by the endpoints controller.
    pub fn managed(&self) -> bool {
        self.labels.get(MANAGED_BY.0).is_some_and(|by| by == MANAGED_BY.1)
    }
}

/// Selects objects by their labels.
#[derive(Clone, Debug)]
pub enum Selector {
    Labels(Labels),
    /// A label selector, as documents hold it.
    Rules(Value),
}

impl Selector {
    pub fn selects(&self, labels: &LabelSet) -> bool {
        match self {
            Selector::Labels(wanted) => selects(wanted, labels),
            Selector::Rules(selector) => label_selector::selects(selector, |key| labels.get(key)),
        }
    }
}

/// Whether all of these labels are there; an empty map selects nothing.
pub fn selects(wanted: &Labels, labels: &LabelSet) -> bool {
    !wanted.is_empty() && wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
}

pub fn protocol(written: &str) -> String {
    if written.is_empty() { "TCP".to_owned() } else { written.to_owned() }
}

/// Straight from the text: a start reads thousands, and a tree of each would cost more than all that is made of it.
/// None: it makes no sense.
pub fn read<T: DeserializeOwned>(stored: &Stored) -> Option<T> {
    serde_json::from_slice(&stored.json).ok()
}

/// A document as a tree. One that makes no sense is null.
pub fn document(stored: &Stored) -> Value {
    serde_json::from_slice(&stored.json).unwrap_or_default()
}

/// Apart: the nodes of a map that is filled in order stay half empty.
impl View for Box<PodView> {
    const OF: &'static [Resource] = &[PODS];

    fn read(stored: &Stored, was: Option<&Box<PodView>>, uptime: Duration) -> Option<Box<PodView>> {
        pod(stored, was.map(|was| &**was), uptime).map(Box::new)
    }
}

fn pod(stored: &Stored, was: Option<&PodView>, uptime: Duration) -> Option<PodView> {
    let pod: Pod = read(stored)?;
    // Another pod of this name begins anew.
    let was = was.filter(|was| was.uid == pod.metadata.uid);
    let ready = pod.status.condition("Ready");
    let scheduled = pod.status.condition("PodScheduled").filter(|condition| condition.status == "False");
    let doomed = pod.status.condition(eviction::DISRUPTED).filter(|one| one.status == "True" && one.reason != BY_ITS_AGENT);
    let ports = pod.spec.containers.iter().flat_map(|container| &container.ports);
    let unbound = pod.spec.node_name.is_empty().then(|| Unbound {
        node_selector: pod.spec.node_selector,
        tolerations: pod.spec.tolerations,
        default_scheduler: matches!(pod.spec.scheduler_name.as_str(), "" | "default-scheduler"),
        gated: !pod.spec.scheduling_gates.is_empty(),
        unscheduled: scheduled.map(|condition| condition.message.clone()),
    });
    Some(PodView {
        revision: stored.revision,
        generation: pod.metadata.generation,
        created: pod.metadata.creation_timestamp,
        owner: pod.metadata.controller().map(|owner| owner.uid.clone()),
        deleting: pod.metadata.deletion_timestamp.is_some(),
        ending: pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds == Some(0),
        deletion_cost: pod.metadata.annotations.get(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or_default(),
        doomed: doomed.and_then(|condition| condition.last_transition_time),
        came: was.map_or(uptime, |was| was.came),
        ready_at: was.filter(|was| was.ready == Some(true)).map_or(uptime, |was| was.ready_at),
        uid: pod.metadata.uid,
        unbound: unbound.map(Box::new),
        ready: ready.map(|condition| condition.status == "True"),
        ready_since: ready.and_then(|condition| condition.last_transition_time),
        restarts: pod.status.container_statuses.iter().map(|status| i64::from(status.restart_count)).sum(),
        phase: PHASES.into_iter().find(|known| *known == pod.status.phase).unwrap_or_default(),
        ip: pod.status.pod_ip,
        host_ports: ports.clone().filter(|port| port.host_port > 0).map(host_port).collect(),
        ports: ports
            .filter(|port| !port.name.is_empty())
            .map(|port| (port.name.clone(), port.container_port, protocol(&port.protocol)))
            .collect(),
        cpu_milli: requested(&pod.spec.resources, &pod.spec.containers, "cpu", |amount| amount.milli()),
        memory_bytes: requested(&pod.spec.resources, &pod.spec.containers, "memory", |amount| amount.value()),
        node: pod.spec.node_name,
        document: stored.clone(),
    })
}

fn host_port(port: &ContainerPort) -> HostPort {
    HostPort { port: port.host_port, protocol: protocol(&port.protocol), ip: port.host_ip.clone() }
}

/// What the pod asks for as a whole, or the sum of what its containers do; a limit without a request is one.
fn requested(whole: &ResourceRequirements, containers: &[Container], name: &str, amount: impl Fn(Quantity) -> i64) -> i64 {
    let of = |resources: &ResourceList| resources.get(name).copied().map(&amount);
    let asked = containers.iter().filter_map(|c| of(&c.resources.requests).or_else(|| of(&c.resources.limits)));
    of(&whole.requests).map_or_else(|| asked.fold(0, |sum: i64, one| sum.saturating_add(one.max(0))), |asked| asked.max(0))
}

pub fn node(stored: &Stored) -> Option<NodeView> {
    let node: Node = read(stored)?;
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
        taints: node.spec.taints,
        document: stored.clone(),
    })
}

impl View for NamespaceView {
    const OF: &'static [Resource] = &[NAMESPACES];

    fn read(stored: &Stored, _: Option<&NamespaceView>, _: Duration) -> Option<NamespaceView> {
        Some(NamespaceView { ends: is_ending(&document(stored)) })
    }
}

impl View for ServiceView {
    const OF: &'static [Resource] = &[SERVICES];

    fn read(stored: &Stored, _: Option<&ServiceView>, _: Duration) -> Option<ServiceView> {
        let service: Service = read(stored)?;
        Some(ServiceView {
            uid: service.metadata.uid,
            deleting: service.metadata.deletion_timestamp.is_some(),
            external: service.spec.kind == "ExternalName",
            headless: service.spec.headless(),
            selector: service.spec.selector,
            publish_not_ready: service.spec.publish_not_ready_addresses,
            labels: service.metadata.labels,
            ports: service.spec.ports,
        })
    }
}

impl View for EndpointsView {
    const OF: &'static [Resource] = &[ENDPOINTS];

    fn read(stored: &Stored, _: Option<&EndpointsView>, _: Duration) -> Option<EndpointsView> {
        let Endpoints { metadata, subsets } = read(stored)?;
        Some(EndpointsView {
            revision: stored.revision,
            uid: metadata.uid,
            labels: metadata.labels,
            subsets,
            truncated: metadata.annotations.contains_key(TRUNCATED.0),
            document: stored.clone(),
        })
    }
}

impl View for SliceView {
    const OF: &'static [Resource] = &[SLICES];

    fn read(stored: &Stored, _: Option<&SliceView>, _: Duration) -> Option<SliceView> {
        let service = stored.labels.get(lease::SERVICE).unwrap_or_default().to_owned();
        Some(SliceView { revision: stored.revision, service, document: stored.clone() })
    }
}

//! Views that several controllers share: typed and narrow, so that a cluster of thousands stays small. PURE.

use super::shelf::View;
use super::tracked::Tracked;
use crate::store::Stored;
use coracle_api::labels::LabelSet;
use coracle_api::meta::{Key, Resource, Revision, Time};
use coracle_api::node::{ContainerImage, Node, Taint};
use coracle_api::pod::{Container, ContainerPort, Pod, PodSpec, ResourceList};
use coracle_api::quantity::Quantity;
use coracle_api::service::{EndpointSubset, Endpoints, Service, ServicePort};
use coracle_api::strategy::namespace::is_ending;
use coracle_api::strategy::{eviction, lease};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

mod pod;
mod selector;
mod service;

pub use self::selector::{Selector, selects};

pub const PODS: Resource = Resource::core("pods");
pub const NODES: Resource = Resource::core("nodes");
pub const EVENTS: Resource = Resource::core("events");
pub const NAMESPACES: Resource = Resource::core("namespaces");
pub const SERVICES: Resource = Resource::core("services");
pub const ENDPOINTS: Resource = Resource::core("endpoints");
pub const LEASES: Resource = of_group("coordination.k8s.io", "leases");
/// The namespace of the leases that nodes renew.
pub const NODE_LEASES: &str = "kube-node-lease";
pub const SLICES: Resource = of_group("discovery.k8s.io", "endpointslices");

pub const fn of_group(group: &'static str, plural: &'static str) -> Resource {
    Resource { group: Cow::Borrowed(group), plural: Cow::Borrowed(plural) }
}

const PHASES: [&str; 5] = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];

pub type Labels = BTreeMap<String, String>;

/// The label of endpoints that a controller made, as Kubernetes has it.
pub const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
/// The annotation on endpoints with omitted addresses.
pub const TRUNCATED: (&str, &str) = ("endpoints.kubernetes.io/over-capacity", "truncated");
/// Annotation of a pod: those with lower numbers are deleted first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Taints of nodes with problems.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The reason of a disruption by the pod's own agent.
const BY_ITS_AGENT: &str = "TerminationByKubelet";

#[derive(Clone, Debug)]
pub struct PodView {
    pub revision: Revision,
    pub uid: String,
    pub generation: i64,
    pub created: Option<Time>,
    /// Empty: on no node yet.
    pub node: String,
    /// Only for a pod without a node: only the scheduler needs these fields, and thousands of pods have nodes.
    pub unbound: Option<Box<Unbound>>,
    /// The uid of the controlling owner.
    pub owner: Option<String>,
    /// The name of that owner.
    pub owner_name: Box<str>,
    pub deleting: bool,
    /// Its grace is over; only finalizers hold it.
    pub ending: bool,
    pub deletion_cost: i32,
    /// The agent evicted the pod to free resources.
    pub evicted: bool,
    /// Empty: no known phase.
    pub phase: &'static str,
    /// None: the status has no such condition, or the reported status is lost.
    pub ready: Option<bool>,
    pub ready_since: Option<Time>,
    /// Of the container that was restarted most often.
    pub restarts: i64,
    pub ip: String,
    /// Name, number, protocol of each that has a name: by it services find the number.
    pub ports: Box<[(String, i32, String)]>,
    pub host_ports: Box<[HostPort]>,
    pub cpu_milli: i64,
    pub memory_bytes: i64,
    /// The request as scores count it: a pod without a request counts with a small default.
    pub scored_cpu_milli: i64,
    pub scored_memory_bytes: i64,
    /// The pod's requests for other resources.
    pub others: Box<[(String, i64)]>,
    pub priority: i32,
    /// When the node accepted the pod.
    pub started: Option<Time>,
    /// The pod has affinity or anti-affinity to other pods.
    pub related: bool,
    /// It uses claims.
    pub claims: bool,
    /// Since when the pod's condition announces a disruption.
    pub doomed: Option<Time>,
    /// When it was first seen, by uptime.
    pub came: Duration,
    /// When it was first seen to be ready, by uptime, as long as it is.
    pub ready_at: Duration,
    /// The part that the pod's job reads.
    pub job: Option<Box<Tracked>>,
    pub document: Stored,
}

/// The fields that the scheduler needs of a pod without a node.
#[derive(Clone, Debug)]
pub struct Unbound {
    pub default_scheduler: bool,
    pub gated: bool,
    /// Why it is on no node, as its condition says.
    pub unscheduled: Option<String>,
    /// The nominated node. Empty: none.
    pub nominated: String,
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
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || every(&self.ip) || every(&other.ip))
    }
}

impl PodView {
    pub fn terminal(&self) -> bool {
        matches!(self.phase, "Succeeded" | "Failed")
    }

    /// The pod is on a node, and its reported status is lost: the pod may be in any state.
    pub fn untold(&self) -> bool {
        self.phase.is_empty() && !self.node.is_empty()
    }

    /// Ready for long enough.
    pub fn available(&self, min_ready: Duration, uptime: Duration) -> bool {
        self.ready == Some(true) && (min_ready.is_zero() || self.ready_at + min_ready <= uptime)
    }

    /// Counts as a replica.
    pub fn active(&self) -> bool {
        !self.terminal() && !self.deleting
    }

    pub fn labels(&self) -> &LabelSet {
        &self.document.labels
    }

    /// The pod's requests occupy room on its node.
    pub fn takes_room(&self) -> bool {
        !self.node.is_empty() && !self.terminal()
    }

    /// Since when it is to be disrupted, if nothing has come of that yet. What an agent ends by itself takes its time.
    pub fn doomed(&self) -> Option<Time> {
        self.doomed.filter(|_| self.active())
    }
}

#[derive(Clone, Debug)]
pub struct NodeView {
    pub revision: Revision,
    pub uid: String,
    pub labels: Labels,
    pub created: Option<Time>,
    pub unschedulable: bool,
    pub taints: Vec<Taint>,
    /// The Ready condition's status: True, False, Unknown, or empty without a reported condition.
    pub ready: String,
    /// The taints that its conditions ask for, in their order.
    pub troubles: Vec<&'static str>,
    pub cpu_milli: i64,
    pub memory_bytes: i64,
    /// None: no bound is known.
    pub pods_max: Option<i64>,
    /// Amounts of other resources. `None`: the node has not reported any resources.
    pub others: Option<BTreeMap<String, i64>>,
    /// The marks and sizes of the node's images.
    pub images: Box<[(u64, i64)]>,
    pub document: Stored,
}

impl NodeView {
    /// Region and zone, as one text: nodes fail together by them.
    pub fn zone(&self) -> String {
        let label = |name: &str| self.labels.get(name).map(String::as_str).unwrap_or_default();
        format!("{}/{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
    }

    /// The node's amount of a resource besides cpu and memory.
    pub fn other(&self, name: &str) -> i64 {
        self.others.as_ref().map_or(i64::MAX, |others| others.get(name).copied().unwrap_or_default())
    }

    /// Taints that running pods leave for.
    pub fn expelling(&self) -> impl Iterator<Item = &Taint> {
        self.taints.iter().filter(|taint| taint.effect == "NoExecute")
    }

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
    pub labels: LabelSet,
    /// Its deletion has begun.
    pub ends: bool,
}

pub fn namespace_key(name: &str) -> Key {
    Key { resource: NAMESPACES, namespace: String::new(), name: name.to_owned() }
}

#[derive(Clone, Debug)]
pub struct ServiceView {
    pub name: String,
    pub uid: String,
    pub created: Option<Time>,
    /// Who should use which endpoints. Empty: all may use all.
    pub distribution: String,
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
    /// An annotation says that addresses are left out.
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
    /// The key of the slice's service, from the slice's key. `None`: the slice names no service.
    pub fn key_of_service(&self, slice: &Key) -> Option<Key> {
        let key = || Key { resource: SERVICES, namespace: slice.namespace.clone(), name: self.service.clone() };
        (!self.service.is_empty()).then(key)
    }

    /// A controller of this master keeps the slice.
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

pub fn protocol(written: &str) -> String {
    if written.is_empty() { "TCP".to_owned() } else { written.to_owned() }
}

/// Straight from the text: a start reads thousands, and a tree of each would cost more than all that is made of it.
/// None: it makes no sense.
pub fn read<T: DeserializeOwned>(stored: &Stored) -> Option<T> {
    serde_json::from_slice(&stored.json).ok()
}

/// A document as a tree; null if the document is invalid.
pub fn document(stored: &Stored) -> Value {
    serde_json::from_slice(&stored.json).unwrap_or_default()
}

/// Apart: the nodes of a map that is filled in order stay half empty.
pub fn node(stored: &Stored) -> Option<NodeView> {
    let node: Node = read(stored)?;
    let allocatable = if node.status.allocatable.is_empty() { &node.status.capacity } else { &node.status.allocatable };
    let said = !allocatable.is_empty();
    let has = |name: &str, amount: fn(Quantity) -> i64| {
        allocatable.get(name).map_or(if said { 0 } else { i64::MAX }, |one| amount(*one))
    };
    let others = allocatable.iter().filter(|(name, _)| !matches!(name.as_str(), "cpu" | "memory" | "pods"));
    let image = |image: &ContainerImage| {
        image.names.iter().map(|name| (image_mark(name), image.size_bytes)).collect::<Vec<_>>()
    };
    Some(NodeView {
        revision: stored.revision,
        ready: node.status.condition("Ready").map(|condition| condition.status.clone()).unwrap_or_default(),
        cpu_milli: has("cpu", Quantity::milli),
        memory_bytes: has("memory", Quantity::value),
        others: said.then(|| others.map(|(name, amount)| (name.clone(), amount.value())).collect()),
        images: node.status.images.iter().flat_map(image).collect(),
        created: node.metadata.creation_timestamp,
        pods_max: allocatable.get("pods").map(|amount| amount.value()),
        troubles: node.status.conditions.iter().filter_map(|one| trouble(&one.kind, &one.status)).collect(),
        uid: node.metadata.uid,
        labels: node.metadata.labels,
        unschedulable: node.spec.unschedulable,
        taints: node.spec.taints,
        document: stored.clone(),
    })
}

/// The key of the taint that keeps new pods off a node in this condition.
fn trouble(condition: &str, status: &str) -> Option<&'static str> {
    Some(match (condition, status) {
        ("Ready", "False") => NOT_READY,
        ("Ready", "Unknown") => UNREACHABLE,
        ("MemoryPressure", "True") => "node.kubernetes.io/memory-pressure",
        ("DiskPressure", "True") => "node.kubernetes.io/disk-pressure",
        ("NetworkUnavailable", "True") => "node.kubernetes.io/network-unavailable",
        ("PIDPressure", "True") => "node.kubernetes.io/pid-pressure",
        _ => return None,
    })
}

/// A sign of life of the node with this name. The lease's content is only in the store.
#[derive(Clone, Debug)]
pub struct LeaseView {
    pub revision: Revision,
    /// The uptime of the last renewal.
    pub at: Duration,
}

impl View for LeaseView {
    const OF: &'static [Resource] = &[LEASES];

    fn concerns(key: &Key) -> bool {
        key.namespace == NODE_LEASES
    }

    fn read(stored: &Stored, _: Option<&LeaseView>, uptime: Duration) -> Option<LeaseView> {
        Some(LeaseView { revision: stored.revision, at: uptime })
    }
}

/// The mark of an image's name; one without a tag means `latest`.
pub fn image_mark(name: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let tag = if name.rfind(':') > name.rfind('/') { "" } else { ":latest" };
    let mut hasher = DefaultHasher::new();
    name.bytes().chain(tag.bytes()).for_each(|byte| byte.hash(&mut hasher));
    hasher.finish()
}

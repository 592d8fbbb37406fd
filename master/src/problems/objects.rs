//! The objects from which problems and gauges are made: typed and narrow, read from the store at one moment each kind.

use crate::store::Store;
use coracle_api::job::{CronJob, Job};
use coracle_api::meta::{ObjectMeta, ObjectReference, Resource, Time};
use coracle_api::node::Node;
use coracle_api::pod::{LocalObjectReference, PodStatus, ResourceList, ResourceRequirements, Volume};
use coracle_api::service::{EndpointSlice, Service};
use coracle_api::workload::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use memchr::memmem::Finder;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;

pub const EVENTS: Resource = Resource::core("events");

/// The kinds that are read. Events explain problems and are none: they wake nobody.
pub const KINDS: [Resource; 17] = [
    Resource::core("nodes"),
    Resource::core("namespaces"),
    Resource::core("pods"),
    Resource::core("replicationcontrollers"),
    Resource::core("services"),
    Resource::core("persistentvolumeclaims"),
    Resource::core("persistentvolumes"),
    Resource::core("resourcequotas"),
    of_group("apps", "deployments"),
    of_group("apps", "replicasets"),
    of_group("apps", "statefulsets"),
    of_group("apps", "daemonsets"),
    of_group("batch", "jobs"),
    of_group("batch", "cronjobs"),
    of_group("discovery.k8s.io", "endpointslices"),
    of_group("storage.k8s.io", "storageclasses"),
    of_group("autoscaling", "horizontalpodautoscalers"),
];

const fn of_group(group: &'static str, plural: &'static str) -> Resource {
    Resource { group: Cow::Borrowed(group), plural: Cow::Borrowed(plural) }
}

#[derive(Default)]
pub struct Objects {
    pub nodes: Vec<Node>,
    pub namespaces: Vec<NamespaceLook>,
    pub pods: Vec<PodLook>,
    pub replication_controllers: Vec<ReplicaSet>,
    pub services: Vec<Service>,
    pub claims: Vec<ClaimLook>,
    pub volumes: Vec<VolumeLook>,
    pub quotas: Vec<QuotaLook>,
    pub deployments: Vec<Deployment>,
    pub replica_sets: Vec<ReplicaSet>,
    pub stateful_sets: Vec<StatefulSet>,
    pub daemon_sets: Vec<DaemonSet>,
    pub jobs: Vec<Job>,
    pub cron_jobs: Vec<CronJob>,
    pub slices: Vec<EndpointSlice>,
    pub classes: Vec<ClassLook>,
    pub autoscalers: Vec<AutoscalerLook>,
    /// Warnings, and what else says why a claim waits.
    pub events: Vec<EventLook>,
}

impl Objects {
    pub fn read(store: &dyn Store) -> Objects {
        let [nodes, namespaces, pods, controllers, services, claims, volumes, quotas, rest @ ..] = &KINDS;
        let [deployments, replica_sets, stateful_sets, daemon_sets, jobs, cron_jobs, slices, classes, autoscalers] =
            rest;
        Objects {
            nodes: all(store, nodes),
            namespaces: all(store, namespaces),
            pods: all(store, pods),
            replication_controllers: all(store, controllers),
            services: all(store, services),
            claims: all(store, claims),
            volumes: all(store, volumes),
            quotas: all(store, quotas),
            deployments: all(store, deployments),
            replica_sets: all(store, replica_sets),
            stateful_sets: all(store, stateful_sets),
            daemon_sets: all(store, daemon_sets),
            jobs: all(store, jobs),
            cron_jobs: all(store, cron_jobs),
            slices: all(store, slices),
            classes: all(store, classes),
            autoscalers: all(store, autoscalers),
            events: warnings(store),
        }
    }
}

/// Damaged objects are told by the store's health.
fn all<T: DeserializeOwned>(store: &dyn Store, resource: &Resource) -> Vec<T> {
    store.list(resource, None).items.iter().filter_map(|stored| serde_json::from_slice(&stored.json).ok()).collect()
}

/// Most events are no warnings, and are not parsed. Kubernetes' event of a claim without a volume is none.
fn warnings(store: &dyn Store) -> Vec<EventLook> {
    let [warning, unbound] = ["\"type\":\"Warning\"", "\"reason\":\"FailedBinding\""].map(Finder::new);
    let items = store.list(&EVENTS, None).items;
    let told = items.iter().filter(|stored| [&warning, &unbound].iter().any(|one| one.find(&stored.json).is_some()));
    told.filter_map(|stored| serde_json::from_slice(&stored.json).ok()).collect()
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NamespaceLook {
    pub metadata: ObjectMeta,
    pub status: NamespaceStatusLook,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NamespaceStatusLook {
    pub phase: String,
    pub conditions: Vec<ConditionLook>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodLook {
    pub metadata: ObjectMeta,
    pub spec: PodSpecLook,
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpecLook {
    pub node_name: String,
    pub host_network: bool,
    pub priority_class_name: String,
    pub restart_policy: String,
    pub scheduling_gates: Vec<LocalObjectReference>,
    pub containers: Vec<ContainerLook>,
    pub volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerLook {
    pub name: String,
    pub image: String,
    pub resources: ResourceRequirements,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimLook {
    pub metadata: ObjectMeta,
    pub spec: ClaimSpecLook,
    pub status: PhaseLook,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimSpecLook {
    pub storage_class_name: Option<String>,
    pub volume_name: String,
    pub volume_mode: String,
    pub resources: ResourceRequirements,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PhaseLook {
    pub phase: String,
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeLook {
    pub metadata: ObjectMeta,
    pub status: PhaseLook,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClassLook {
    pub metadata: ObjectMeta,
    pub volume_binding_mode: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct QuotaLook {
    pub metadata: ObjectMeta,
    pub status: QuotaStatusLook,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct QuotaStatusLook {
    pub hard: ResourceList,
    pub used: ResourceList,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoscalerLook {
    pub metadata: ObjectMeta,
    pub spec: AutoscalerSpecLook,
    pub status: AutoscalerStatusLook,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoscalerSpecLook {
    /// Missing means 1.
    pub min_replicas: Option<i32>,
    pub max_replicas: i32,
    pub scale_target_ref: ObjectReference,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoscalerStatusLook {
    pub current_replicas: i32,
    pub desired_replicas: i32,
    pub conditions: Vec<ConditionLook>,
}

/// A condition of any object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConditionLook {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub last_transition_time: Option<Time>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EventLook {
    pub involved_object: ObjectReference,
    pub reason: String,
    pub message: String,
    pub last_timestamp: Option<Time>,
    pub event_time: Option<Time>,
}

//! Typed views of workloads: lenient and read-only, like `pod`.

use crate::meta::{ObjectMeta, Time};
use serde::Deserialize;
use serde_json::Value;

/// A ReplicaSet or a ReplicationController.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSet {
    pub metadata: ObjectMeta,
    pub spec: ReplicaSetSpec,
    pub status: ReplicaSetStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSetSpec {
    /// Missing means 1.
    pub replicas: Option<i32>,
    pub min_ready_seconds: i32,
    /// A label selector, or of a ReplicationController a map of labels.
    pub selector: Value,
    pub template: TemplateMeta,
}

/// The metadata of a template: the rest is copied, not read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TemplateMeta {
    pub metadata: ObjectMeta,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSetStatus {
    pub replicas: i32,
    pub fully_labeled_replicas: i32,
    pub ready_replicas: i32,
    pub available_replicas: i32,
    pub terminating_replicas: Option<i32>,
    pub observed_generation: i64,
    pub conditions: Vec<Condition>,
}

/// A condition of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub last_update_time: Option<Time>,
    pub last_transition_time: Option<Time>,
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Deployment {
    pub metadata: ObjectMeta,
    pub spec: DeploymentSpec,
    pub status: DeploymentStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentSpec {
    /// Missing means 1.
    pub replicas: Option<i32>,
    pub min_ready_seconds: i32,
    pub paused: bool,
    pub progress_deadline_seconds: Option<i32>,
    pub revision_history_limit: Option<i32>,
    pub selector: Value,
    pub strategy: UpdateStrategy,
    pub template: TemplateMeta,
}

/// The update strategy of any workload: how pods of a new template replace old pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UpdateStrategy {
    #[serde(rename = "type")]
    pub kind: String,
    pub rolling_update: RollingUpdate,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RollingUpdate {
    /// Numbers, or shares in percent.
    pub max_surge: Value,
    pub max_unavailable: Value,
    pub partition: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentStatus {
    pub observed_generation: i64,
    pub replicas: i32,
    pub updated_replicas: i32,
    pub ready_replicas: i32,
    pub available_replicas: i32,
    pub unavailable_replicas: i32,
    pub terminating_replicas: Option<i32>,
    pub collision_count: Option<i32>,
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ControllerRevision {
    pub metadata: ObjectMeta,
    pub revision: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSet {
    pub metadata: ObjectMeta,
    pub spec: StatefulSetSpec,
    pub status: StatefulSetStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetSpec {
    /// Missing means 1.
    pub replicas: Option<i32>,
    pub min_ready_seconds: i32,
    pub ordinals: Ordinals,
    pub persistent_volume_claim_retention_policy: ClaimRetention,
    pub pod_management_policy: String,
    pub revision_history_limit: Option<i32>,
    pub selector: Value,
    pub service_name: String,
    pub template: TemplateMeta,
    pub update_strategy: StatefulSetUpdate,
    pub volume_claim_templates: Vec<TemplateMeta>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Ordinals {
    pub start: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimRetention {
    pub when_deleted: String,
    pub when_scaled: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetUpdate {
    #[serde(rename = "type")]
    pub kind: String,
    pub rolling_update: Option<RollingUpdate>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetStatus {
    pub observed_generation: i64,
    pub replicas: i32,
    pub ready_replicas: i32,
    pub current_replicas: i32,
    pub updated_replicas: i32,
    pub available_replicas: i32,
    pub current_revision: String,
    pub update_revision: String,
    pub collision_count: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSet {
    pub metadata: ObjectMeta,
    pub spec: DaemonSetSpec,
    pub status: DaemonSetStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSetSpec {
    pub min_ready_seconds: i32,
    pub revision_history_limit: Option<i32>,
    pub selector: Value,
    pub template: TemplateMeta,
    pub update_strategy: UpdateStrategy,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSetStatus {
    pub observed_generation: i64,
    pub current_number_scheduled: i32,
    pub number_misscheduled: i32,
    pub desired_number_scheduled: i32,
    pub number_ready: i32,
    pub updated_number_scheduled: i32,
    pub number_available: i32,
    pub number_unavailable: i32,
    pub collision_count: Option<i32>,
}

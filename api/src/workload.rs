//! What makes pods, as logic reads it. Lenient and read-only, like `pod`.

use crate::meta::{ObjectMeta, Time};
use crate::pod::PodTemplateSpec;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicationController {
    pub metadata: ObjectMeta,
    pub spec: ReplicationControllerSpec,
    pub status: ReplicationControllerStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicationControllerSpec {
    /// Missing means 1.
    pub replicas: Option<i32>,
    pub min_ready_seconds: i32,
    pub selector: BTreeMap<String, String>,
    pub template: Option<PodTemplateSpec>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicationControllerStatus {
    pub replicas: i32,
    pub fully_labeled_replicas: i32,
    pub ready_replicas: i32,
    pub available_replicas: i32,
    pub observed_generation: i64,
    pub conditions: Vec<ReplicationControllerCondition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicationControllerCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub last_transition_time: Option<Time>,
    pub reason: String,
    pub message: String,
}

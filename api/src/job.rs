//! Jobs and cron jobs, as logic reads them. Lenient and read-only, like `pod`.

use crate::meta::{ObjectMeta, Time};
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Job {
    pub metadata: ObjectMeta,
    pub spec: JobSpec,
    pub status: JobStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSpec {
    pub parallelism: Option<i32>,
    /// Missing: it is complete when one pod has succeeded and none is active.
    pub completions: Option<i32>,
    pub active_deadline_seconds: Option<i64>,
    pub backoff_limit: Option<i32>,
    pub backoff_limit_per_index: Option<i32>,
    pub max_failed_indexes: Option<i32>,
    pub selector: Value,
    pub completion_mode: String,
    pub suspend: Option<bool>,
    pub pod_replacement_policy: String,
    pub pod_failure_policy: Option<PodFailurePolicy>,
    pub success_policy: Option<SuccessPolicy>,
    pub managed_by: Option<String>,
    pub ttl_seconds_after_finished: Option<i32>,
    pub template: JobTemplatePod,
}

impl JobSpec {
    pub fn is_indexed(&self) -> bool {
        self.completion_mode == "Indexed"
    }

    pub fn is_suspended(&self) -> bool {
        self.suspend == Some(true)
    }

    /// A pod is replaced only when it is over, not already when its deletion has begun.
    pub fn replaces_only_failed(&self) -> bool {
        self.pod_replacement_policy == "Failed" || self.pod_failure_policy.is_some()
    }
}

/// The fields of a job's template that matter here; the pods are made from the document.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobTemplatePod {
    pub metadata: ObjectMeta,
    pub spec: JobPodSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobPodSpec {
    pub restart_policy: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodFailurePolicy {
    pub rules: Vec<PodFailurePolicyRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodFailurePolicyRule {
    pub action: String,
    pub on_exit_codes: Option<OnExitCodes>,
    pub on_pod_conditions: Option<Vec<OnPodCondition>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OnExitCodes {
    /// Missing: of any container.
    pub container_name: Option<String>,
    pub operator: String,
    pub values: Vec<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OnPodCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SuccessPolicy {
    pub rules: Vec<SuccessPolicyRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SuccessPolicyRule {
    pub succeeded_indexes: Option<String>,
    pub succeeded_count: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobStatus {
    pub conditions: Vec<JobCondition>,
    pub start_time: Option<Time>,
    pub completion_time: Option<Time>,
    pub active: i32,
    pub succeeded: i32,
    pub failed: i32,
    pub completed_indexes: String,
    pub failed_indexes: Option<String>,
    pub uncounted_terminated_pods: Option<UncountedTerminatedPods>,
}

/// Pods that are over, by uid, whose finalizer goes before they are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UncountedTerminatedPods {
    pub succeeded: Vec<String>,
    pub failed: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub last_transition_time: Option<Time>,
    pub reason: String,
    pub message: String,
}

impl JobStatus {
    /// A condition that says True.
    pub fn says(&self, kind: &str) -> Option<&JobCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind && condition.status == "True")
    }

    /// The final condition of a finished job.
    pub fn finished(&self) -> Option<&JobCondition> {
        self.conditions.iter().find(|one| matches!(one.kind.as_str(), "Complete" | "Failed") && one.status == "True")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJob {
    pub metadata: ObjectMeta,
    pub spec: CronJobSpec,
    pub status: CronJobStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJobSpec {
    pub schedule: String,
    /// Missing: that of the master's host.
    pub time_zone: Option<String>,
    pub starting_deadline_seconds: Option<i64>,
    /// `Allow`, `Forbid` or `Replace`.
    pub concurrency_policy: String,
    pub suspend: Option<bool>,
    pub successful_jobs_history_limit: Option<i32>,
    pub failed_jobs_history_limit: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJobStatus {
    pub active: Vec<crate::meta::ObjectReference>,
    pub last_schedule_time: Option<Time>,
    pub last_successful_time: Option<Time>,
}

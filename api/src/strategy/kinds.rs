//! Kinds that have no rules of their own, a row each; and how often messages about the metadata of any kind are
//! repeated.

use super::general;
use super::rules::BuiltinStrategy;

pub static COMPONENT_STATUS: BuiltinStrategy = general::strategy::<true, false>();
pub static DEFINITION: BuiltinStrategy = general::strategy::<true, false>();
pub static SERVICE_ACCOUNT: BuiltinStrategy = general::strategy::<false, false>();

/// How often Kubernetes repeats a metadata problem of an update. Most kinds: 4.
pub fn metadata_repeats(kind: &str) -> usize {
    match kind {
        "Event" | "PodDisruptionBudget" => 2,
        "Service"
        | "LimitRange"
        | "ResourceQuota"
        | "PodTemplate"
        | "ReplicationController"
        | "Deployment"
        | "ReplicaSet"
        | "StatefulSet"
        | "DaemonSet"
        | "CronJob"
        | "Lease"
        | "NetworkPolicy"
        | "PriorityClass"
        | "EndpointSlice"
        | "HorizontalPodAutoscaler" => 3,
        _ => 4,
    }
}

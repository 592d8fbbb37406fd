//! One row a kind that has no rules of its own.

use super::general;
use super::rules::BuiltinStrategy;

pub static COMPONENT_STATUS: BuiltinStrategy = general::strategy::<true, false>();
pub static DEFINITION: BuiltinStrategy = general::strategy::<true, false>();
pub static SERVICE_ACCOUNT: BuiltinStrategy = general::strategy::<false, false>();

/// In how many places Kubernetes looks at the metadata of an update of this kind: where a kind is validated as a whole once more, there
/// is one more, and the few whose registry is of another make lack one.
pub fn looks(kind: &str) -> usize {
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

//! In which order objects are applied: what others stand in, then what they need, then what runs. Removals go the other
//! way. PURE.

/// Kinds by their names, in the order in which helm installs them, with the kinds before it that define others.
const KINDS: &[&str] = &[
    "Namespace",
    "CustomResourceDefinition",
    "PriorityClass",
    "RuntimeClass",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
];

/// The place of a kind; other kinds, such as those that a definition brought, come last.
pub fn rank(kind: &str) -> usize {
    KINDS.iter().position(|known| *known == kind).unwrap_or(KINDS.len())
}

/// Kinds whose objects are removed only where they say so themselves: with them go data, or all objects in them.
pub fn is_guarded(kind: &str) -> bool {
    ["Namespace", "PersistentVolumeClaim", "PersistentVolume", "CustomResourceDefinition"].contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_need_comes_first() {
        let mut kinds =
            ["Widget", "Ingress", "Deployment", "Service", "ConfigMap", "CustomResourceDefinition", "Namespace"];
        kinds.sort_by_key(|kind| rank(kind));
        let expected =
            ["Namespace", "CustomResourceDefinition", "ConfigMap", "Service", "Deployment", "Ingress", "Widget"];
        assert_eq!(kinds, expected);
    }
}

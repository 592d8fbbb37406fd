//! What Kubernetes' scheme knows beside the kinds that are served: it decides how a document of a wrong kind is
//! refused.
//! PURE.

use coracle_api::kinds::Kinds;

/// By group and version, as of Kubernetes 1.36.
const UNSERVED: &[(&str, &str)] = &[
    (
        "v1",
        "Binding ComponentStatus List NodeProxyOptions PodAttachOptions PodExecOptions PodLogOptions \
         PodPortForwardOptions PodProxyOptions PodStatusResult RangeAllocation SerializedReference ServiceProxyOptions \
         Status APIVersions APIGroupList APIGroup APIResourceList",
    ),
    ("admission.k8s.io/v1", "AdmissionReview"),
    ("admission.k8s.io/v1beta1", "AdmissionReview"),
    (
        "admissionregistration.k8s.io/v1alpha1",
        "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy \
         MutatingAdmissionPolicyBinding",
    ),
    (
        "admissionregistration.k8s.io/v1beta1",
        "ValidatingWebhookConfiguration MutatingWebhookConfiguration ValidatingAdmissionPolicy \
         ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy MutatingAdmissionPolicyBinding",
    ),
    ("apps/v1beta1", "Deployment DeploymentRollback Scale StatefulSet ControllerRevision"),
    ("apps/v1beta2", "Deployment Scale StatefulSet DaemonSet ReplicaSet ControllerRevision"),
    ("authentication.k8s.io/v1", "TokenReview TokenRequest SelfSubjectReview"),
    ("authentication.k8s.io/v1alpha1", "SelfSubjectReview"),
    ("authentication.k8s.io/v1beta1", "SelfSubjectReview TokenReview"),
    (
        "authorization.k8s.io/v1",
        "SelfSubjectRulesReview SelfSubjectAccessReview SubjectAccessReview LocalSubjectAccessReview",
    ),
    (
        "authorization.k8s.io/v1beta1",
        "SelfSubjectRulesReview SelfSubjectAccessReview SubjectAccessReview LocalSubjectAccessReview",
    ),
    ("autoscaling/v1", "HorizontalPodAutoscaler Scale"),
    ("batch/v1beta1", "CronJob"),
    ("certificates.k8s.io/v1alpha1", "ClusterTrustBundle"),
    ("certificates.k8s.io/v1beta1", "CertificateSigningRequest ClusterTrustBundle PodCertificateRequest"),
    ("coordination.k8s.io/v1alpha2", "LeaseCandidate"),
    ("coordination.k8s.io/v1beta1", "Lease LeaseCandidate"),
    ("discovery.k8s.io/v1beta1", "EndpointSlice"),
    ("events.k8s.io/v1beta1", "Event"),
    ("extensions/v1beta1", "Deployment DeploymentRollback Scale DaemonSet Ingress ReplicaSet NetworkPolicy"),
    ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchema PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io/v1beta2", "FlowSchema PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema PriorityLevelConfiguration"),
    ("imagepolicy.k8s.io/v1alpha1", "ImageReview"),
    ("internal.apiserver.k8s.io/v1alpha1", "StorageVersion"),
    ("networking.k8s.io/v1beta1", "Ingress IngressClass IPAddress ServiceCIDR"),
    ("node.k8s.io/v1alpha1", "RuntimeClass"),
    ("node.k8s.io/v1beta1", "RuntimeClass"),
    ("policy/v1", "Eviction"),
    ("policy/v1beta1", "PodDisruptionBudget Eviction"),
    ("rbac.authorization.k8s.io/v1alpha1", "Role RoleBinding ClusterRole ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1beta1", "Role RoleBinding ClusterRole ClusterRoleBinding"),
    ("resource.k8s.io/v1", "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice"),
    ("resource.k8s.io/v1alpha3", "DeviceTaintRule ResourcePoolStatusRequest"),
    ("resource.k8s.io/v1beta1", "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice"),
    ("resource.k8s.io/v1beta2", "DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice"),
    ("scheduling.k8s.io/v1alpha2", "Workload PodGroup"),
    ("scheduling.k8s.io/v1beta1", "PriorityClass"),
    ("storage.k8s.io/v1alpha1", "VolumeAttachment CSIStorageCapacity VolumeAttributesClass"),
    (
        "storage.k8s.io/v1beta1",
        "StorageClass VolumeAttachment CSIDriver CSINode CSIStorageCapacity VolumeAttributesClass",
    ),
    ("storagemigration.k8s.io/v1beta1", "StorageVersionMigration"),
];
/// Known in every group and version.
const EVERYWHERE: [&str; 7] =
    ["CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions", "WatchEvent"];
/// What stands in another group today than in its old version: group, kind, and today's group. Events stand in two.
const MOVED: [(&str, &str, &str); 6] = [
    ("extensions", "Ingress", "networking.k8s.io"),
    ("extensions", "NetworkPolicy", "networking.k8s.io"),
    ("extensions", "Scale", "autoscaling"),
    ("apps", "Scale", "autoscaling"),
    ("extensions", "", "apps"),
    ("events.k8s.io", "", ""),
];

/// Whether a kind is one in a group and version, or a list of one.
pub fn is_kind(kinds: &Kinds, api_version: &str, kind: &str) -> bool {
    let named = |kind: &str| {
        let row = UNSERVED.iter().find(|(version, _)| *version == api_version);
        kinds.by_kind(api_version, kind).is_some()
            || row.is_some_and(|(_, kinds)| kinds.split_ascii_whitespace().any(|known| known == kind))
    };
    let version = || {
        UNSERVED.iter().any(|(version, _)| *version == api_version)
            || kinds.iter().any(|kind| kind.api_version() == api_version)
    };
    named(kind)
        || kind.strip_suffix("List").is_some_and(|one| !one.is_empty() && named(one))
        || (EVERYWHERE.contains(&kind) && version())
}

/// Whether two groups mean the same by a kind.
pub fn is_same(kind: &str, group: &str, other: &str) -> bool {
    home(kind, group) == home(kind, other)
}

fn home<'a>(kind: &str, group: &'a str) -> &'a str {
    let moved = MOVED.iter().find(|(old, of, _)| *old == group && (of.is_empty() || *of == kind));
    moved.map_or(group, |(.., today)| today)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_before() {
        let kinds = Kinds::builtin();
        for (version, kind, known) in [
            ("v1", "Pod", true),
            ("v1", "PodList", true),
            ("v1", "List", true),
            ("v1", "Status", true),
            ("apps/v1", "Status", false),
            ("apps/v1", "DeleteOptions", true),
            ("apps/v1beta1", "Deployment", true),
            ("apps/v1beta1", "DeploymentList", true),
            ("apps/v1beta1", "DaemonSet", false),
            ("autoscaling/v2beta2", "HorizontalPodAutoscaler", false),
            ("example.com/v1", "DeleteOptions", false),
        ] {
            assert_eq!(is_kind(&kinds, version, kind), known, "{version} {kind}");
        }
        assert!(is_same("Deployment", "extensions", "apps") && is_same("Event", "", "events.k8s.io"));
        assert!(is_same("Ingress", "extensions", "networking.k8s.io") && !is_same("Ingress", "extensions", "apps"));
    }
}

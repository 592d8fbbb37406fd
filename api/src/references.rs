//! The objects that a pod or a volume names: Secrets, ConfigMaps, claims. A node may read what its pods name. PURE.

use crate::strategy::doc::{list, text};
use serde_json::Value;

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// Volumes that name a Secret by `secretRef`.
const BY_REFERENCE: [&str; 8] = ["cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos", "quobyte"];
/// The Secrets of a CSI volume that a node reads; a controller reads the others.
const OF_NODES: [&str; 3] = ["nodeStageSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];

/// The Secrets that a pod names, each as often as it names it.
pub fn secrets(pod: &Value) -> Vec<&str> {
    let spec = &pod["spec"];
    let pulls = list(spec, "imagePullSecrets").iter().map(|secret| text(secret, "name"));
    let volumes = list(spec, "volumes").iter().flat_map(|volume| {
        let by_reference = BY_REFERENCE.iter().map(|kind| text(&volume[kind]["secretRef"], "name"));
        let others = [
            text(&volume["azureFile"], "secretName"),
            text(&volume["secret"], "secretName"),
            text(&volume["csi"]["nodePublishSecretRef"], "name"),
        ];
        by_reference.chain(others).chain(projected(volume, "secret")).collect::<Vec<_>>()
    });
    pulls
        .chain(in_containers(spec, "secretKeyRef", "secretRef"))
        .chain(volumes)
        .filter(|name| !name.is_empty())
        .collect()
}

/// The ConfigMaps that a pod names, each as often as it names it.
pub fn config_maps(pod: &Value) -> Vec<&str> {
    let spec = &pod["spec"];
    let volumes = list(spec, "volumes")
        .iter()
        .flat_map(|volume| projected(volume, "configMap").chain(std::iter::once(text(&volume["configMap"], "name"))));
    in_containers(spec, "configMapKeyRef", "configMapRef").chain(volumes).filter(|name| !name.is_empty()).collect()
}

/// The PersistentVolumeClaims of a pod, with those that are made for it.
pub fn claims(pod: &Value) -> Vec<String> {
    let named = list(&pod["spec"], "volumes").iter().filter_map(|volume| {
        let claim = text(&volume["persistentVolumeClaim"], "claimName");
        let own = format!("{}-{}", text(&pod["metadata"], "name"), text(volume, "name"));
        match claim {
            "" => volume["ephemeral"].is_object().then_some(own),
            claim => Some(claim.to_owned()),
        }
    });
    named.collect()
}

/// The ResourceClaims of a pod: the named ones, and those that were made for it.
pub fn resource_claims(pod: &Value) -> Vec<&str> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let made = |entry: &Value| {
        let made = list(status, "resourceClaimStatuses").iter().find(|made| made["name"] == entry["name"]);
        made.map(|made| text(made, "resourceClaimName")).unwrap_or_default()
    };
    let own = list(spec, "resourceClaims").iter().map(|entry| match text(entry, "resourceClaimName") {
        "" => made(entry),
        name => name,
    });
    let extended = text(&status["extendedResourceClaimStatus"], "resourceClaimName");
    own.chain([extended]).filter(|name| !name.is_empty()).collect()
}

/// The Secrets that a node reads to mount a PersistentVolume: their namespaces and names.
pub fn secrets_of_volume(volume: &Value) -> Vec<(&str, &str)> {
    let (spec, claim) = (&volume["spec"], text(&volume["spec"]["claimRef"], "namespace"));
    let by_reference = BY_REFERENCE.iter().map(|kind| &spec[kind]["secretRef"]);
    let of_csi = OF_NODES.iter().map(|reference| &spec["csi"][reference]);
    let named = by_reference.chain(of_csi).map(|reference| (text(reference, "namespace"), text(reference, "name")));
    let azure = &spec["azureFile"];
    let all = named.chain([(text(azure, "secretNamespace"), text(azure, "secretName"))]);
    let placed = all.map(|(namespace, name)| (if namespace.is_empty() { claim } else { namespace }, name));
    placed.filter(|(_, name)| !name.is_empty()).collect()
}

/// The objects of the API that a pod needs, if it needs any: a pod that its node runs by itself may need none.
pub fn needed(pod: &Value) -> Option<&'static str> {
    let spec = &pod["spec"];
    match () {
        () if !text(spec, "serviceAccountName").is_empty() => Some("serviceaccounts"),
        () if !secrets(pod).is_empty() => Some("secrets"),
        () if !config_maps(pod).is_empty() => Some("configmaps"),
        () if !list(spec, "resourceClaims").is_empty() => Some("resourceclaims"),
        () => list(spec, "volumes").iter().find_map(needed_by_volume),
    }
}

fn needed_by_volume(volume: &Value) -> Option<&'static str> {
    const NEEDS: [(&str, &str); 7] = [
        ("configMap", "configmaps (via configmap volumes)"),
        ("secret", "secrets (via secret volumes)"),
        ("csi", "csidrivers (via CSI volumes)"),
        ("glusterfs", "endpoints (via glusterFS volumes)"),
        ("persistentVolumeClaim", "persistentvolumeclaims"),
        ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
        ("azureFile", "secrets (via azureFile volumes)"),
    ];
    const PROJECTED: [(&str, &str); 5] = [
        ("configMap", "configmaps (via projected volumes)"),
        ("secret", "secrets (via projected volumes)"),
        ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
        ("clusterTrustBundle", "clustertrustbundles"),
        ("podCertificate", "podcertificates"),
    ];
    let needs = |of: &Value, table: &[(&str, &'static str)]| {
        table.iter().find(|(kind, _)| of[kind].is_object()).map(|(_, needed)| *needed)
    };
    let in_sources = || list(&volume["projected"], "sources").iter().find_map(|source| needs(source, &PROJECTED));
    needs(volume, &NEEDS).or_else(in_sources)
}

fn in_containers<'a>(spec: &'a Value, key: &'a str, all: &'a str) -> impl Iterator<Item = &'a str> {
    CONTAINERS.iter().flat_map(|field| list(spec, field)).flat_map(move |container| {
        let one = list(container, "env").iter().map(move |variable| text(&variable["valueFrom"][key], "name"));
        one.chain(list(container, "envFrom").iter().map(move |source| text(&source[all], "name")))
    })
}

fn projected<'a>(volume: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a str> {
    list(&volume["projected"], "sources").iter().map(move |source| text(&source[kind], "name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_pod_names() {
        let env = json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s-env"}}},
            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c-env"}}}, {"name": "C", "value": "v"}]);
        let from = json!([{"secretRef": {"name": "s-from"}}, {"configMapRef": {"name": "c-from"}}]);
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "imagePullSecrets": [{"name": "s-pull"}],
            "initContainers": [{"name": "i", "env": env}], "containers": [{"name": "c", "envFrom": from}],
            "ephemeralContainers": [{"name": "e", "envFrom": [{"secretRef": {"name": "s-eph"}}]}],
            "volumes": [
                {"name": "a", "secret": {"secretName": "s-vol"}}, {"name": "b", "configMap": {"name": "c-vol"}},
                {"name": "c", "projected": {"sources": [
                    {"secret": {"name": "s-pro"}}, {"configMap": {"name": "c-pro"}}]}},
                {"name": "d", "csi": {"nodePublishSecretRef": {"name": "s-csi"}}},
                {"name": "e", "azureFile": {"secretName": "s-az"}},
                {"name": "f", "rbd": {"secretRef": {"name": "s-rbd"}}},
                {"name": "g", "persistentVolumeClaim": {"claimName": "claim"}}, {"name": "h", "ephemeral": {}},
                {"name": "i", "emptyDir": {}},
            ],
            "resourceClaims": [{"name": "r", "resourceClaimName": "rc"},
                {"name": "t", "resourceClaimTemplateName": "x"}],
        }, "status": {"resourceClaimStatuses": [{"name": "t", "resourceClaimName": "made"}]}});
        let secrets_named = ["s-pull", "s-env", "s-from", "s-eph", "s-vol", "s-pro", "s-csi", "s-az", "s-rbd"];
        assert_eq!(secrets(&pod), secrets_named);
        assert_eq!(config_maps(&pod), ["c-env", "c-from", "c-vol", "c-pro"]);
        assert_eq!(claims(&pod), ["claim", "p-h"]);
        assert_eq!(resource_claims(&pod), ["rc", "made"]);
    }

    #[test]
    fn what_a_volume_names() {
        let volume = json!({"spec": {"claimRef": {"namespace": "ns", "name": "c"},
            "csi": {"nodePublishSecretRef": {"name": "a", "namespace": "other"},
                "controllerPublishSecretRef": {"name": "b", "namespace": "other"}},
            "rbd": {"secretRef": {"name": "c"}}, "azureFile": {"secretName": "d"}}});
        assert_eq!(secrets_of_volume(&volume), [("ns", "c"), ("other", "a"), ("ns", "d")]);
    }

    #[test]
    fn what_a_pod_needs_of_the_api() {
        let volume = |source: Value| json!({"volumes": [source]});
        for (spec, expected) in [
            (json!({}), None),
            (json!({"serviceAccountName": "a"}), Some("serviceaccounts")),
            (json!({"imagePullSecrets": [{"name": "a"}]}), Some("secrets")),
            (volume(json!({"configMap": {"name": "a"}})), Some("configmaps")),
            (json!({"resourceClaims": [{"name": "a"}]}), Some("resourceclaims")),
            (volume(json!({"persistentVolumeClaim": {"claimName": "a"}})), Some("persistentvolumeclaims")),
            (volume(json!({"ephemeral": {}})), Some("persistentvolumeclaims (via ephemeral volumes)")),
            (volume(json!({"csi": {"driver": "a"}})), Some("csidrivers (via CSI volumes)")),
            (
                volume(
                    json!({"projected": {"sources": [{"downwardAPI": {}}, {"serviceAccountToken": {"path": "t"}}]}}),
                ),
                Some("serviceaccounts (via projected volumes)"),
            ),
            (volume(json!({"hostPath": {"path": "/"}})), None),
        ] {
            assert_eq!(needed(&json!({"spec": spec})), expected, "{spec}");
        }
    }
}

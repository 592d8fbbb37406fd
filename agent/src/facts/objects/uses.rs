//! Lists the ConfigMaps, Secrets and claims that a pod names anywhere. PURE.

use std::collections::BTreeSet;

use coracle_api::pod::{Container, PodSpec, Volume};

use super::{ObjectKind, Ref};
use crate::facts::members::members;

/// Every object that the pod may be given, whether it is there or not.
pub fn objects(namespace: &str, pod: &str, spec: &PodSpec) -> BTreeSet<Ref> {
    let mut found = Vec::new();
    members(spec).for_each(|member| of_container(member.spec, &mut found));
    spec.volumes.iter().for_each(|volume| of_volume(volume, &mut found));
    let claims: Vec<String> = spec.volumes.iter().filter_map(|volume| Some(claim_of(volume, pod)?.0)).collect();
    found.extend(claims.iter().map(|name| (ObjectKind::Claim, name.as_str())));
    found.extend(spec.image_pull_secrets.iter().map(|secret| (ObjectKind::Secret, secret.name.as_str())));
    let named = found.into_iter().filter(|(_, name)| !name.is_empty());
    let class = spec.runtime_class_name.iter().filter(|name| !name.is_empty());
    let class = class.map(|name| Ref { kind: ObjectKind::RuntimeClass, namespace: String::new(), name: name.clone() });
    named
        .map(|(kind, name)| Ref { kind, namespace: namespace.to_owned(), name: name.to_owned() })
        .chain(class)
        .collect()
}

/// The name of the claim, and whether it is to be made for this pod; None: the volume is no claim.
pub fn claim_of(volume: &Volume, pod: &str) -> Option<(String, bool)> {
    match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => Some((claim.claim_name.clone(), false)),
        (None, Some(_)) => Some((format!("{pod}-{}", volume.name), true)),
        (None, None) => None,
    }
}

fn of_container<'a>(container: &'a Container, found: &mut Vec<(ObjectKind, &'a str)>) {
    for source in &container.env_from {
        found.extend(source.config_map_ref.iter().map(|one| (ObjectKind::ConfigMap, one.name.as_str())));
        found.extend(source.secret_ref.iter().map(|one| (ObjectKind::Secret, one.name.as_str())));
    }
    for source in container.env.iter().filter_map(|variable| variable.value_from.as_ref()) {
        found.extend(source.config_map_key_ref.iter().map(|one| (ObjectKind::ConfigMap, one.name.as_str())));
        found.extend(source.secret_key_ref.iter().map(|one| (ObjectKind::Secret, one.name.as_str())));
    }
}

fn of_volume<'a>(volume: &'a Volume, found: &mut Vec<(ObjectKind, &'a str)>) {
    found.extend(volume.config_map.iter().map(|one| (ObjectKind::ConfigMap, one.name.as_str())));
    found.extend(volume.secret.iter().map(|one| (ObjectKind::Secret, one.secret_name.as_str())));
    for source in volume.projected.iter().flat_map(|projected| &projected.sources) {
        found.extend(source.config_map.iter().map(|one| (ObjectKind::ConfigMap, one.name.as_str())));
        found.extend(source.secret.iter().map(|one| (ObjectKind::Secret, one.name.as_str())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wherever_a_pod_names_one() {
        let spec: PodSpec = serde_json::from_value(json!({
            "initContainers": [{"name": "i", "envFrom": [{"prefix": "P", "configMapRef": {"name": "a"}}]}],
            "containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "b", "optional": true}}], "env": [
                {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
                {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "d", "key": "k"}}}]}],
            "ephemeralContainers": [{"name": "e", "envFrom": [{"secretRef": {"name": "e"}}]}],
            "imagePullSecrets": [{"name": "f"}, {"name": ""}],
            "volumes": [{"name": "v", "configMap": {"name": "g"}}, {"name": "w", "secret": {"secretName": "h"}},
                {"name": "x", "emptyDir": {}},
                {"name": "p1", "persistentVolumeClaim": {"claimName": "k"}},
                {"name": "p2", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "y", "projected": {"sources": [{"configMap": {"name": "i"}}, {"secret": {"name": "j"}},
                    {"downwardAPI": {}}]}}],
        }))
        .unwrap();
        let found: Vec<String> = objects("n", "p", &spec)
            .iter()
            .map(|one| format!("{}/{}/{}", one.kind.word(), one.namespace, one.name))
            .collect();
        let expected = ["a", "c", "g", "i"].map(|name| format!("configmap/n/{name}"));
        let expected =
            expected.into_iter().chain(["b", "d", "e", "f", "h", "j"].map(|name| format!("secret/n/{name}")));
        let claims = ["k", "p-p2"].map(|name| format!("persistentvolumeclaim/n/{name}"));
        assert_eq!(found, expected.chain(claims).collect::<Vec<_>>());
    }
}

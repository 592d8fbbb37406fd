//! Mirrors: the API's copies of pods from manifest files. PURE.

use coracle_api::annotations::MIRROR;
use serde_json::{Value, json};

use crate::facts::hash::manifest_hash;
use crate::facts::members::{Member, MemberKind};
use crate::facts::naming::{CONFIG_FILE, CONFIG_SOURCE};
use crate::facts::recorded::ended_for_good;
use crate::facts::wanted::Wanted;
use crate::status::is_final;

const HASH: &str = "kubernetes.io/config.hash";

/// The API's copy of a pod from a file: bound to this node, and never started from the API.
pub(crate) fn mirror(document: &Value, name: &str, node_name: &str, file: Option<&str>) -> Value {
    let mut pod = document.clone();
    // How it ended here is told as any status.
    if let Some(fields) = pod.as_object_mut() {
        fields.remove("status");
    }
    let hash = manifest_hash(&pod);
    let mut annotations = pod["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    for (key, value) in [(MIRROR, hash.as_str()), (HASH, hash.as_str()), (CONFIG_SOURCE, "file")] {
        annotations.insert(key.to_owned(), value.into());
    }
    annotations.extend(file.map(|file| (CONFIG_FILE.to_owned(), file.into())));
    pod["metadata"] = json!({
        "name": name, "namespace": pod["metadata"]["namespace"], "labels": pod["metadata"]["labels"],
        "annotations": annotations,
    });
    let spec = &mut pod["spec"];
    without_objects(spec);
    spec["nodeName"] = node_name.into();
    // Defaults of pods without a priority class: the master may have a default class, and refuses a different priority.
    if spec["priorityClassName"].as_str().unwrap_or_default().is_empty()
        && let Some(spec) = spec.as_object_mut()
    {
        for (field, default) in [("priority", json!(0)), ("preemptionPolicy", json!("PreemptLowerPriority"))] {
            if spec.get(field) == Some(&default) {
                spec.remove(field);
            }
        }
    }
    pod
}

/// The Node owns the copy: the master takes copies from no node that does not say so.
pub(crate) fn owned(mut mirror: Value, node_name: &str, uid: &str) -> Value {
    mirror["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": uid, "controller": true}]);
    mirror
}

/// The objects of a pod from a file stand in files, too. Objects of the API with the same names are others, and the
/// copy must not name them.
fn without_objects(spec: &mut Value) {
    const OF_API: [&str; 6] = ["secret", "configMap", "persistentVolumeClaim", "ephemeral", "csi", "azureFile"];
    const SOURCES: [&str; 5] = ["secret", "configMap", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
    // `get_mut`: an index would make a field that is missing.
    let Some(fields) = spec.as_object_mut() else { return };
    for field in ["serviceAccountName", "serviceAccount", "imagePullSecrets", "resourceClaims"] {
        fields.remove(field);
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        let names = |of: &Value, kinds: &[&str]| kinds.iter().any(|kind| of[kind].is_object());
        let sources = volume["projected"]["sources"].as_array().cloned().unwrap_or_default();
        if names(volume, &OF_API) || sources.iter().any(|source| names(source, &SOURCES)) {
            *volume = json!({"name": volume["name"], "emptyDir": {}});
        }
    }
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(fields) = container.as_object_mut() {
                fields.remove("envFrom");
            }
            let of_object = |variable: &Value| {
                ["secretKeyRef", "configMapKeyRef"].iter().any(|kind| variable["valueFrom"][kind].is_object())
            };
            if let Some(env) = container.get_mut("env").and_then(Value::as_array_mut) {
                env.retain(|variable| !of_object(variable));
            }
        }
    }
}

/// Whether the pod has ended otherwise than its mirror shows, or a container that has ended for good runs again, or is
/// about to.
pub(crate) fn is_contradicted(wanted: &Wanted, shows: &Value, status: &Value) -> bool {
    if is_final(shows) && status["phase"] != shows["phase"] {
        return true;
    }
    let policy = &wanted.pod.spec.restart_policy;
    // Where all may start anew, no end is one for good.
    let ended =
        |status: &Value, member: &Member| !wanted.restarts_all() && ended_for_good(status, policy, member).is_some();
    let mut main = wanted.members().filter(|member| member.kind == MemberKind::Main);
    main.any(|member| ended(shows, &member) && !ended(status, &member))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_names_no_object_of_the_api() {
        let document = json!({"metadata": {"name": "a", "namespace": "default"}, "spec": {
            "serviceAccountName": "default", "imagePullSecrets": [{"name": "s"}],
            "containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}], "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}, {"name": "B", "value": "b"}]}],
            "volumes": [{"name": "v", "secret": {"secretName": "s"}}, {"name": "w", "hostPath": {"path": "/"}},
                {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
        }});
        let copy = owned(mirror(&document, "a-n1", "n1", None), "n1", "u1");
        assert_eq!(
            copy["spec"],
            json!({
                "nodeName": "n1", "containers": [{"name": "c", "env": [{"name": "B", "value": "b"}]}],
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "hostPath": {"path": "/"}},
                    {"name": "t", "emptyDir": {}}],
            })
        );
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": true}]);
        assert_eq!(copy["metadata"]["ownerReferences"], owner);
    }

    #[test]
    fn the_masters_default_class_is_not_contradicted() {
        let usual = json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"});
        for (said, shown) in [
            (usual, json!({})),
            (json!({"priority": 7, "preemptionPolicy": "Never"}), json!({"priority": 7, "preemptionPolicy": "Never"})),
            (json!({"priority": 0, "priorityClassName": "calm"}), json!({"priority": 0, "priorityClassName": "calm"})),
        ] {
            let of = |mut spec: Value| {
                spec["nodeName"] = "n1".into();
                spec
            };
            let document = json!({"metadata": {"name": "a", "namespace": "default"}, "spec": said});
            assert_eq!(mirror(&document, "a-n1", "n1", None)["spec"], of(shown));
        }
    }
}

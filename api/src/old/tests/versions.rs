//! v1beta2 and v1beta3 beside v1beta1.

use super::*;

/// Documents with every field of v1beta3.
#[test]
fn every_field_of_v1beta3_is_shown_again() {
    let mut kinds = BTreeSet::new();
    for (file, document) in documents("full-v1beta3") {
        let kind = document["kind"].as_str().expect("a kind");
        kinds.insert(kind.to_owned());
        let v1 = super::super::decode(Version::V1beta3, kind, &document).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(v1.unknown.is_empty(), "{file}: {:?}", v1.unknown);
        let mut found = Vec::new();
        lost("", &document, Some(&super::super::encode(Version::V1beta3, &v1.object)), &mut found);
        assert!(found.is_empty(), "{file}: {found:#?}");
        check_put_back(&file, &v1.object);
    }
    assert_eq!(kinds.len(), ROWS.len(), "a document for each kind");
}

/// What v1beta3 clients drop because they do not know it stays when they put an object back.
#[test]
fn what_v1beta3_cannot_say_survives_a_put() {
    for (file, stored) in documents("rich") {
        let kind = stored["kind"].as_str().expect("a kind");
        let shown = super::super::encode(Version::V1beta3, &stored);
        let mut text = shown.clone();
        text["metadata"]["labels"]["new"] = json!("label");
        let decoded = super::super::decode(Version::V1beta3, kind, &text).unwrap_or_else(|e| panic!("{file}: {e}"));
        let merged = super::super::merge_put(&stored, &decoded, Half::Asked);
        let (was, is) = (leaves("", &stored), leaves("", &merged));
        let changed: Vec<&str> = was.symmetric_difference(&is).map(String::as_str).collect();
        let ours = |leaf: &&str| leaf.starts_with(".metadata.labels") || leaf.starts_with(".metadata.resourceVersion");
        assert!(changed.iter().all(ours), "{file}: {changed:?}");
    }
}

/// v1beta2 is v1beta1 without the oldest spellings, and reads both.
#[test]
fn v1beta2_drops_the_oldest_spellings() {
    let pod = json!({"kind": "Pod", "apiVersion": "v1beta1", "id": "p",
        "desiredState": {"manifest": {"containers": [{"name": "c", "image": "i",
        "env": [{"name": "A", "value": "b"}], "volumeMounts": [{"name": "v", "mountPath": "/x"}]}]}}});
    let v1 = decoded(&pod).object;
    let at = |version, pointer: &str| super::super::encode(version, &v1).pointer(pointer).cloned();
    let container = "/desiredState/manifest/containers/0";
    for (pointer, value) in [("env/0/key", json!("A")), ("volumeMounts/0/path", json!("/x"))] {
        assert_eq!(at(Version::V1beta1, &format!("{container}/{pointer}")), Some(value));
        assert_eq!(at(Version::V1beta2, &format!("{container}/{pointer}")), None);
    }
    assert_eq!(at(Version::V1beta2, "/apiVersion"), Some(json!("v1beta2")));
    assert_eq!(at(Version::V1beta2, "/selfLink"), Some(json!("/api/v1beta2/pods/p")));
    let read = |version| super::super::decode(version, "Pod", &pod).map(|decoded| decoded.object);
    assert_eq!(read(Version::V1beta2), read(Version::V1beta1));
    assert!(matches!(read(Version::V1beta3), Err(DecodeError::WrongVersion { .. })));
    let list = json!({"kind": "NodeList", "metadata": {}, "items": []});
    assert!(super::super::encode(Version::V1beta2, &list).get("minions").is_none());
    let of_v1beta3 = super::super::encode(Version::V1beta3, &list);
    assert_eq!(
        (&of_v1beta3["kind"], &of_v1beta3["metadata"]["selfLink"]),
        (&json!("NodeList"), &json!("/api/v1beta3/nodes"))
    );
}

/// One thing, and what each version calls it.
#[test]
fn names_by_version() {
    let table = [
        ("Pod", "spec.nodeName", "desiredState.host", "spec.host"),
        ("Pod", "spec.serviceAccountName", "serviceAccount", "spec.serviceAccount"),
        (
            "Pod",
            "spec.containers[0].args[0]",
            "desiredState.manifest.containers[0].command[0]",
            "spec.containers[0].args[0]",
        ),
        (
            "Pod",
            "spec.containers[0].securityContext.privileged",
            "desiredState.manifest.containers[0].privileged",
            "spec.containers[0].privileged",
        ),
        (
            "Pod",
            "spec.volumes[0].hostPath.path",
            "desiredState.manifest.volumes[0].source.hostDir.path",
            "spec.volumes[0].hostPath.path",
        ),
        ("Pod", "metadata.labels[a]", "labels[a]", "metadata.labels[a]"),
        ("Service", "spec.clusterIP", "portalIP", "spec.portalIP"),
        ("Service", "spec.clusterIPs[0]", "portalIP", "spec.portalIP"),
        ("Service", "spec.externalIPs[0]", "publicIPs[0]", "spec.publicIPs[0]"),
        ("Service", "spec.ports[0].targetPort", "ports[0].containerPort", "spec.ports[0].targetPort"),
        ("Node", "spec.podCIDR", "podCIDR", "spec.podCIDR"),
        ("Endpoints", "subsets[0].addresses[0].ip", "subsets[0].addresses[0].IP", "subsets[0].addresses[0].IP"),
        (
            "PersistentVolume",
            "spec.gcePersistentDisk.pdName",
            "spec.persistentDisk.pdName",
            "spec.gcePersistentDisk.pdName",
        ),
        ("LimitRange", "spec.limits[0].max[cpu]", "spec.limits[0].max[cpu]", "spec.limits[0].max[cpu]"),
        ("PodTemplate", "template.spec.nodeName", "template.spec.nodeName", "template.spec.host"),
        ("ConfigMap", "data[a]", "data[a]", "data[a]"),
    ];
    for (kind, v1, flat, upright) in table {
        let of = |version| field_path(version, kind, v1);
        assert_eq!(
            (of(Version::V1beta1), of(Version::V1beta2), of(Version::V1beta3)),
            (flat.into(), flat.into(), upright.into()),
            "{kind} {v1}"
        );
    }
}

#[test]
fn amounts_are_numbers_in_the_flat_versions() {
    let v1 = json!({
        "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"cpu": "250m", "memory": "64Mi", "pods": "10"}},
    });
    let hard = |version| super::super::encode(version, &v1)["spec"]["hard"].clone();
    assert_eq!(hard(Version::V1beta1), json!({"cpu": "0.25", "memory": 67108864, "pods": 10}));
    assert_eq!(hard(Version::V1beta3), v1["spec"]["hard"]);
}

/// Only the half that a PUT is about changes.
#[test]
fn a_status_is_put_apart() {
    let stored = json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": []},
        "status": {"phase": "Pending", "qosClass": "BestEffort"}});
    for (version, sent) in [
        (
            Version::V1beta1,
            json!({
                "id": "p", "labels": {"a": "b"}, "desiredState": {"host": "m"},
                "currentState": {"status": "Running", "podIP": "1.1.1.1"},
            }),
        ),
        (
            Version::V1beta3,
            json!({
                "metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"host": "m"},
                "status": {"phase": "Running", "podIP": "1.1.1.1"},
            }),
        ),
    ] {
        let decoded = super::super::decode(version, "Pod", &sent).expect("a pod");
        let merged = super::super::merge_put(&stored, &decoded, Half::Observed);
        let mut expected = stored.clone();
        expected["status"]["phase"] = json!("Running");
        expected["status"]["podIP"] = json!("1.1.1.1");
        assert_eq!(merged, expected);
    }
}

//! Claims, volumes and classes over clusters made of documents.

use super::super::storage::view::{claim_key, volume_key};
use super::*;

const HOSTNAME: &str = "kubernetes.io/hostname";

fn class(name: &str, more: Value) -> (&'static str, Value) {
    let mut class = json!({
        "metadata": {"name": name}, "provisioner": "coracle/local", "volumeBindingMode": "WaitForFirstConsumer",
    });
    merge(&mut class, more);
    ("storageclasses", class)
}

/// A claim of class `local` whose pod stands on n1.
fn claim(more: Value) -> (&'static str, Value) {
    let mut claim = json!({
        "metadata": {"name": "c", "uid": "u", "finalizers": ["kubernetes.io/pvc-protection"],
            "annotations": {"volume.kubernetes.io/selected-node": "n1"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "resources": {"requests": {"storage": "2Gi"}}},
        "status": {"phase": "Pending"},
    });
    merge(&mut claim, more);
    ("persistentvolumeclaims", claim)
}

fn volume(name: &str, more: Value) -> (&'static str, Value) {
    let mut volume = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "hand", "capacity": {"storage": "2Gi"},
            "hostPath": {"path": "/data"}, "persistentVolumeReclaimPolicy": "Retain"},
        "status": {"phase": "Available"},
    });
    merge(&mut volume, more);
    ("persistentvolumes", volume)
}

fn host() -> (&'static str, Value) {
    node("n1", json!({"metadata": {"labels": {HOSTNAME: "host-1"}}}))
}

fn unannotated((plural, mut object): (&'static str, Value)) -> (&'static str, Value) {
    object["metadata"]["annotations"] = json!({});
    (plural, object)
}

/// What becomes of the claim: the writes in short, and what is told.
fn of_claim(objects: &[(&'static str, Value)]) -> Vec<String> {
    shown(decide(&cluster(objects), "claims", claim_key("default", "c"), at(MINUTE)))
}

fn of_volume(objects: &[(&'static str, Value)], name: &str) -> Vec<String> {
    shown(decide(&cluster(objects), "volumes", volume_key(name), at(MINUTE)))
}

fn shown(decision: Decision) -> Vec<String> {
    let line = |intent: Intent| match intent {
        Intent::Create { object, .. } => format!("make {}", object["metadata"]["name"].as_str().unwrap_or_default()),
        Intent::Update { key, object, .. } => {
            let of = object["spec"]["claimRef"]["name"].as_str().map(|name| format!(" for {name}"));
            let size = object["spec"]["capacity"]["storage"].as_str().map(|size| format!(" of {size}"));
            format!("write {}{}{}", key.name, of.unwrap_or_default(), size.unwrap_or_default())
        }
        Intent::Status { key, status, .. } => {
            format!("{} is {}", key.name, status["phase"].as_str().unwrap_or_default())
        }
        Intent::Delete { key, .. } => format!("delete {}", key.name),
        Intent::Tell(tale) | Intent::Announce(tale) => format!("{}: {}", tale.reason, tale.message),
        other => panic!("{other:?}"),
    };
    decision.intents.into_iter().map(line).collect()
}

#[test]
fn a_directory_is_made_where_the_pod_stands() {
    let decision = decide(
        &cluster(&[host(), class("local", json!({})), claim(json!({}))]),
        "claims",
        claim_key("default", "c"),
        at(MINUTE),
    );
    let Some(Intent::Create { object, .. }) = decision.intents.first() else { panic!("{:?}", decision.intents) };
    assert_eq!(
        object["metadata"]["finalizers"],
        json!(["coracle/local-volume"]),
        "it stays until its directory is gone"
    );
    assert_eq!(object["metadata"]["annotations"], json!({"pv.kubernetes.io/provisioned-by": "coracle/local"}));
    assert_eq!(object["spec"]["hostPath"]["path"], "/var/lib/coracle/volumes/default_c_pvc-u");
    assert_eq!(object["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    let terms = &object["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    assert_eq!(terms[0]["matchExpressions"][0], json!({"key": HOSTNAME, "operator": "In", "values": ["host-1"]}));

    let check = |class: (&'static str, Value), claim: (&'static str, Value), expected: &[&str]| {
        assert_eq!(of_claim(&[host(), class, claim.clone()]), expected, "{}", claim.1);
    };
    let usual = || class("local", json!({}));
    check(usual(), claim(json!({})), &["make pvc-u", "ProvisioningSucceeded: Successfully provisioned volume pvc-u"]);
    let unplaced = unannotated(claim(json!({})));
    check(
        usual(),
        unplaced.clone(),
        &["WaitForFirstConsumer: waiting for first consumer to be created before binding"],
    );
    // With one node there is no choice to wait for.
    let at_once = class("local", json!({"volumeBindingMode": "Immediate"}));
    check(at_once, unplaced, &["make pvc-u", "ProvisioningSucceeded: Successfully provisioned volume pvc-u"]);
    let block = claim(json!({"spec": {"volumeMode": "Block"}}));
    check(usual(), block, &["ProvisioningFailed: a directory is no block device: ask for volumeMode Filesystem"]);
    let selecting = claim(json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}));
    let words = "ProvisioningFailed: a claim with a selector gets volumes that are there already, none is made for it";
    check(usual(), selecting, &[words]);
    let elsewhere = claim(json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n2"}}}));
    let words = "ProvisioningFailed: class \"local\" makes a directory on the node of the claim's pod: node \"n2\" is \
                 not there";
    check(usual(), elsewhere, &[words]);
    check(
        class("other", json!({})),
        claim(json!({})),
        &["ProvisioningFailed: storageclass.storage.k8s.io \"local\" not found"],
    );
}

#[test]
fn a_claim_gets_the_smallest_volume_that_fits() {
    let of_hand = |more: Value| {
        let (plural, mut claim) = claim(json!({"spec": {"storageClassName": "hand"}}));
        merge(&mut claim, more);
        (plural, claim)
    };
    let sized = |name: &str, size: &str| volume(name, json!({"spec": {"capacity": {"storage": size}}}));
    let check = |volumes: &[(&'static str, Value)], claim: (&'static str, Value), expected: &str| {
        let mut objects = volumes.to_vec();
        objects.extend([
            claim,
            class("hand", json!({"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "Immediate"})),
        ]);
        let found = of_claim(&objects);
        assert_eq!(found.first().map(String::as_str), Some(expected), "{volumes:?}");
    };
    let none = "ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner";
    check(&[sized("a", "9Gi"), sized("b", "3Gi"), sized("d", "1Gi")], of_hand(json!({})), "write b for c of 3Gi");
    check(&[sized("a", "1Gi")], of_hand(json!({})), none);
    for misfit in [
        json!({"spec": {"accessModes": ["ReadOnlyMany"]}}),
        json!({"spec": {"storageClassName": "else"}}),
        json!({"spec": {"volumeMode": "Block"}}),
        json!({"spec": {"claimRef": {"namespace": "default", "name": "other", "uid": "o"}}}),
        json!({"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z"}}),
        json!({"status": {"phase": "Released"}}),
    ] {
        check(&[volume("a", misfit)], of_hand(json!({})), none);
    }
    // What is kept for it comes before what is smaller.
    let kept = volume(
        "a",
        json!({"spec": {"capacity": {"storage": "9Gi"}, "claimRef": {"namespace": "default", "name": "c"}}}),
    );
    check(&[kept, sized("b", "2Gi")], of_hand(json!({})), "write a for c of 9Gi");
    let named = of_hand(json!({"spec": {"volumeName": "a"}}));
    check(
        &[sized("a", "1Gi")],
        named.clone(),
        "VolumeMismatch: Cannot bind to requested volume \"a\": requested PV is too small",
    );
    check(&[sized("a", "2Gi")], named, "write a for c of 2Gi");
}

/// Bound to each other.
fn pair(claim_more: Value, volume_more: Value) -> [(&'static str, Value); 2] {
    let done = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "pvc-u"},
        "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}}});
    let (claims, mut bound) = claim(done);
    merge(&mut bound, claim_more);
    let (volumes, mut of) = volume(
        "pvc-u",
        json!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "coracle/local"}},
            "spec": {"storageClassName": "local", "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": {"namespace": "default", "name": "c", "uid": "u"}},
            "status": {"phase": "Bound"}}),
    );
    merge(&mut of, volume_more);
    [(claims, bound), (volumes, of)]
}

#[test]
fn a_directory_grows_with_its_claim() {
    assert!(of_claim(&pair(json!({}), json!({}))).is_empty(), "what is bound is quiet");
    let more = json!({"spec": {"resources": {"requests": {"storage": "5Gi"}}}});
    assert_eq!(of_claim(&pair(more.clone(), json!({}))), ["write pvc-u for c of 5Gi"], "first the volume");
    let grown = json!({"spec": {"capacity": {"storage": "5Gi"}}});
    assert_eq!(of_claim(&pair(more.clone(), grown)), ["c is Bound"], "then the claim says so");
    let by_hand = json!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "else"}}});
    let words = "ExternalExpanding: waiting for an external controller to expand this PVC";
    assert_eq!(of_claim(&pair(more, by_hand)), [words]);
}

#[test]
fn a_volume_whose_claim_is_gone_is_given_up_or_kept() {
    let check = |more: Value, expected: &[&str]| {
        let [_, volume] = pair(json!({}), more.clone());
        assert_eq!(of_volume(&[volume], "pvc-u"), expected, "{more}");
    };
    let released = |more: Value| {
        let mut released = json!({"status": {"phase": "Released"}});
        merge(&mut released, more);
        released
    };
    check(json!({}), &["pvc-u is Released"]);
    check(released(json!({})), &["delete pvc-u"]);
    check(released(json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}})), &[]);
    // It waits for its agent.
    check(released(json!({"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z"}})), &[]);
    check(released(json!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "else"}}})), &[]);
    let words = "host_path deleter only supports /tmp/.+ but received provided /data";
    let [_, made] = pair(json!({}), released(json!({})));
    assert_eq!(
        of_volume(&[unannotated(made)], "pvc-u"),
        ["pvc-u is Failed", &format!("VolumeFailedDelete: {words}")],
        "made by nobody"
    );
    assert!(of_volume(&pair(json!({}), json!({})), "pvc-u").is_empty(), "a claim has it");
}

//! Volumes: the claim of each volume, and the fate of a volume whose claim is gone. PURE.

use super::super::cluster::Cluster;
use super::super::controller::{Look, ObservedChange};
use super::super::intent::{About, Decision, EventDraft, Intent};
use super::super::view::document;
use super::binding::SOURCE;
use super::provision::{PROVISIONED_BY, made_here};
use super::view::{BY_CONTROLLER, ClaimView, VOLUME_FINALIZER, VolumeView, claim_key, volume_key};
use coracle_api::meta::{Key, Time};
use serde_json::{Value, json};

/// Where volumes of hostPath may be emptied, as Kubernetes has it.
const EMPTIED: &str = "/tmp/";

pub fn all(cluster: &Cluster) -> Vec<Key> {
    cluster.all::<VolumeView>().map(|(key, _)| key.clone()).collect()
}

/// The volumes that a claim has, or that are kept for it.
pub fn by_claim(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let views = change.was::<ClaimView>().into_iter().chain(cluster.get::<ClaimView>(change.key));
    let mut keys: Vec<Key> =
        views.filter(|claim| !claim.volume.is_empty()).map(|claim| volume_key(&claim.volume)).collect();
    let own =
        |volume: &VolumeView| volume.claim.as_ref().is_some_and(|of| claim_key(&of.namespace, &of.name) == *change.key);
    keys.extend(cluster.all::<VolumeView>().filter(|(_, volume)| own(volume)).map(|(key, _)| key.clone()));
    keys.sort();
    keys.dedup();
    keys
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, key, wall) = (look.cluster, look.key, look.now.wall);
    let Some(volume) = cluster.get::<VolumeView>(key) else { return Decision::default() };
    if !volume.protected && !volume.deleting {
        let mut object = document(&volume.document);
        protect(&mut object, VOLUME_FINALIZER);
        return Decision::of(vec![Intent::Update { key: key.clone(), seen: volume.revision, object }]);
    }
    let to =
        |wanted: &str| if volume.phase == wanted { Vec::new() } else { vec![phase(key, volume, wanted, "", wall)] };
    let Some(of) = volume.claim.as_ref().filter(|of| !of.uid.is_empty()) else { return Decision::of(to("Available")) };
    let claim_of = claim_key(&of.namespace, &of.name);
    if cluster.damaged.contains(&claim_of) {
        return Decision::default();
    }
    match cluster.get::<ClaimView>(&claim_of).filter(|claim| claim.uid == of.uid) {
        // The claim ties itself to it.
        Some(claim) if claim.volume.is_empty() => Decision::default(),
        Some(claim) if claim.volume == key.name => Decision::of(to("Bound")),
        Some(_) => Decision::of(unneeded(key, volume, wall)),
        None => Decision::of(released(key, volume, wall)),
    }
}

/// Its claim has another volume.
fn unneeded(key: &Key, volume: &VolumeView, wall: Time) -> Vec<Intent> {
    let mut object = document(&volume.document);
    let made = object["metadata"]["annotations"][PROVISIONED_BY].is_string();
    if made && volume.reclaim == "Delete" {
        return released(key, volume, wall);
    }
    if object["metadata"]["annotations"][BY_CONTROLLER].is_string() {
        object["metadata"]["annotations"].as_object_mut().map(|all| all.remove(BY_CONTROLLER));
        object["spec"].as_object_mut().map(|spec| spec.remove("claimRef"));
    } else {
        // A person reserved the volume for this claim: the reservation stays.
        for field in ["uid", "resourceVersion"] {
            object["spec"]["claimRef"].as_object_mut().map(|of| of.remove(field));
        }
    }
    vec![Intent::Update { key: key.clone(), seen: volume.revision, object }]
}

/// Its claim is gone.
fn released(key: &Key, volume: &VolumeView, wall: Time) -> Vec<Intent> {
    if !matches!(volume.phase.as_str(), "Released" | "Failed") {
        return vec![phase(key, volume, "Released", "", wall)];
    }
    if volume.phase == "Failed" || volume.deleting {
        return Vec::new();
    }
    let failed = |reason: &'static str, why: String| {
        let about = About::new(("v1", "PersistentVolume"), key, &volume.uid, volume.revision);
        vec![phase(key, volume, "Failed", &why, wall), Intent::Tell(EventDraft::warning(SOURCE, about, reason, why))]
    };
    let object = document(&volume.document);
    match volume.reclaim.as_str() {
        "Recycle" => failed("VolumeFailedRecycle", "No recycler plugin found for the volume!".to_owned()),
        "Delete" => match unmade(key, &object) {
            Ok(true) => vec![Intent::Delete { key: key.clone(), seen: volume.revision, at_once: false }],
            Ok(false) => Vec::new(),
            Err(why) => failed("VolumeFailedDelete", why),
        },
        _ => Vec::new(),
    }
}

/// Whether a volume can be given up here. False: the volume's provisioner does that.
fn unmade(key: &Key, volume: &Value) -> Result<bool, String> {
    if made_here(volume) {
        return Ok(true);
    }
    let by = &volume["metadata"]["annotations"][PROVISIONED_BY];
    if by.is_string() || volume["spec"]["csi"].is_object() && by.is_string() {
        return Ok(false);
    }
    match volume["spec"]["hostPath"]["path"].as_str() {
        Some(path) if path.len() > EMPTIED.len() && path.starts_with(EMPTIED) => Ok(true),
        Some(path) => Err(format!("host_path deleter only supports /tmp/.+ but received provided {path}")),
        None => Err(format!(
            "error getting deleter volume plugin for volume {:?}: no deletable volume plugin matched",
            key.name
        )),
    }
}

pub fn phase(key: &Key, volume: &VolumeView, phase: &str, message: &str, wall: Time) -> Intent {
    let mut status = document(&volume.document)["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    if status["phase"] != phase {
        status["lastPhaseTransitionTime"] = wall.to_string().into();
    }
    status["phase"] = phase.into();
    match status.as_object_mut() {
        Some(fields) if message.is_empty() => drop(fields.remove("message")),
        _ => status["message"] = message.into(),
    }
    Intent::Status { key: key.clone(), seen: volume.revision, status }
}

pub fn protect(object: &mut Value, finalizer: &str) {
    match object["metadata"]["finalizers"].as_array_mut() {
        Some(finalizers) => finalizers.push(finalizer.into()),
        None => object["metadata"]["finalizers"] = json!([finalizer]),
    }
}

//! Replication: as many pods of a template as were asked for. PURE.
//!
//! Pods that match and have no controller are adopted, owned ones that match no more are released. Too few: make them from the
//! template. Too many: delete those first that lose least.

use super::cluster::{Cluster, ControllerView, PodView, selects};
use super::intent::{About, Decision, Intent, Tale};
use coracle_api::meta::{Key, Resource};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Pods made or deleted in one look; the rest follows when these are seen.
const BURST_MAX: usize = 100;

pub fn decide(cluster: &Cluster, key: &Key) -> Decision {
    let Some(controller) = cluster.controllers.get(key).filter(|controller| !controller.deleting) else { return Decision::default() };
    let mut intents = Vec::new();
    let mut owned: Vec<(&Key, &PodView)> = Vec::new();
    for (pod_key, pod) in cluster.pods_in(&key.namespace) {
        let matches = selects(&controller.selector, &pod.labels);
        match &pod.owner {
            Some(uid) if *uid == controller.uid && matches => owned.push((pod_key, pod)),
            Some(uid) if *uid == controller.uid && !pod.deleting => intents.push(release(pod_key, pod, &controller.uid)),
            None if matches && pod.active() => {
                intents.push(adopt(pod_key, pod, key, controller));
                owned.push((pod_key, pod));
            }
            _ => {}
        }
    }
    let mut active: Vec<(&Key, &PodView)> = owned.into_iter().filter(|(_, pod)| pod.active()).collect();
    let wanted = usize::try_from(controller.replicas).unwrap_or_default();
    intents.extend(status(key, controller, &active));
    let there = active.len() + damaged(cluster, key);
    if there < wanted {
        for _ in 0..(wanted - there).min(BURST_MAX) {
            intents.push(make(key, controller));
        }
    } else if active.len() > wanted {
        let siblings = siblings_by_node(&active);
        active.sort_by_key(|(_, pod)| cost(pod, &siblings));
        for (pod_key, pod) in active.iter().take((active.len() - wanted).min(BURST_MAX)) {
            intents.push(Intent::Delete { key: (*pod_key).clone(), seen: pod.revision, at_once: false });
            intents.push(tell(key, controller, "SuccessfulDelete", format!("Deleted pod: {}", pod_key.name)));
        }
    }
    Decision::of(intents)
}

/// Pods of this controller, by their names, whose files cannot be read. They may run, so nothing is made in their place.
fn damaged(cluster: &Cluster, key: &Key) -> usize {
    let prefix = base(key);
    cluster
        .damaged
        .iter()
        .filter(|pod| &*pod.resource.plural == "pods" && pod.namespace == key.namespace && pod.name.starts_with(&prefix))
        .count()
}

/// What the names of the pods begin with. An id of 2014 may have upper case; the names made of it must not.
fn base(key: &Key) -> String {
    format!("{}-", key.name.to_lowercase())
}

fn siblings_by_node<'a>(pods: &[(&Key, &'a PodView)]) -> BTreeMap<&'a str, usize> {
    let mut count = BTreeMap::new();
    for (_, pod) in pods {
        *count.entry(pod.node.as_str()).or_default() += 1;
    }
    count
}

/// What deleting a pod costs, cheapest first, in Kubernetes' order: on no node, waiting, not ready, on the fullest node, ready for
/// the shortest time, restarted most often, youngest.
fn cost(pod: &PodView, siblings: &BTreeMap<&str, usize>) -> impl Ord + use<> {
    let phase = match pod.phase.as_str() {
        "" | "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    let crowd = siblings.get(pod.node.as_str()).copied().unwrap_or_default();
    let youngest_first = |time: Option<coracle_api::meta::Time>| std::cmp::Reverse(time.map(|time| time.seconds()));
    (
        !pod.node.is_empty(),
        phase,
        pod.ready == Some(true),
        std::cmp::Reverse(crowd),
        youngest_first(pod.ready_since),
        std::cmp::Reverse(pod.restarts),
        youngest_first(pod.created),
    )
}

fn make(key: &Key, controller: &ControllerView) -> Intent {
    let document: Value = serde_json::from_slice(&controller.document.json).unwrap_or_default();
    let template = &document["spec"]["template"];
    let mut metadata = json!({
        "generateName": base(key),
        "labels": template["metadata"]["labels"],
        "ownerReferences": [reference(key, controller)],
    });
    if !template["metadata"]["annotations"].is_null() {
        metadata["annotations"] = template["metadata"]["annotations"].clone();
    }
    let object = json!({"metadata": metadata, "spec": template["spec"]});
    Intent::Create { resource: Resource::core("pods"), namespace: key.namespace.clone(), object }
}

fn reference(key: &Key, controller: &ControllerView) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "name": key.name,
        "uid": controller.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

fn adopt(pod_key: &Key, pod: &PodView, key: &Key, controller: &ControllerView) -> Intent {
    owners_changed(pod_key, pod, |owners| owners.push(reference(key, controller)))
}

fn release(pod_key: &Key, pod: &PodView, uid: &str) -> Intent {
    owners_changed(pod_key, pod, |owners| owners.retain(|owner| owner["uid"] != uid))
}

fn owners_changed(key: &Key, pod: &PodView, change: impl FnOnce(&mut Vec<Value>)) -> Intent {
    let mut object: Value = serde_json::from_slice(&pod.document.json).unwrap_or_default();
    let mut owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    change(&mut owners);
    if owners.is_empty() {
        object["metadata"].as_object_mut().map(|metadata| metadata.remove("ownerReferences"));
    } else {
        object["metadata"]["ownerReferences"] = owners.into();
    }
    Intent::Update { key: key.clone(), seen: pod.revision, object }
}

/// The counts, if they are not what the status says.
fn status(key: &Key, controller: &ControllerView, active: &[(&Key, &PodView)]) -> Option<Intent> {
    let ready = active.iter().filter(|(_, pod)| pod.ready == Some(true)).count();
    let labeled = active.iter().filter(|(_, pod)| selects(&controller.template_labels, &pod.labels)).count();
    let document: Value = serde_json::from_slice(&controller.document.json).unwrap_or_default();
    let mut status = document["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    // Kubernetes leaves zeros out, but for `replicas`.
    let counts = [("fullyLabeledReplicas", labeled), ("readyReplicas", ready), ("availableReplicas", ready)];
    let fields = status.as_object_mut().expect("it was made an object");
    fields.insert("replicas".to_owned(), active.len().into());
    for (name, count) in counts {
        if count > 0 {
            fields.insert(name.to_owned(), count.into())
        } else {
            fields.remove(name)
        };
    }
    if controller.generation > 0 {
        fields.insert("observedGeneration".to_owned(), controller.generation.into());
    }
    (status != document["status"]).then(|| Intent::Status { key: key.clone(), seen: controller.revision, status })
}

fn tell(key: &Key, controller: &ControllerView, reason: &'static str, message: String) -> Intent {
    let about = About {
        kind: "ReplicationController",
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: controller.uid.clone(),
        revision: controller.revision,
    };
    Intent::Tell(Tale { about, severity: "Normal", reason, message, source: "replication-controller" })
}

//! Claims of ephemeral volumes: each claim is made for a pod, and goes with this pod. PURE.

use super::super::cluster::Cluster;
use super::super::controller::{Look, ObservedChange};
use super::super::intent::{About, Decision, EventDraft, Intent, Memo};
use super::super::schedule::list;
use super::super::view::{PODS, PodView, document};
use super::view::{CLAIMS, ClaimView, claim_key};
use coracle_api::meta::Key;
use serde_json::json;

const SOURCE: &str = "ephemeral_volume";

pub fn all(cluster: &Cluster) -> Vec<Key> {
    cluster.pods().filter(|(_, pod)| pod.claims).map(|(key, _)| key.clone()).collect()
}

pub fn by_pod(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let needs = |pod: &PodView| pod.claims && pod.active();
    if cluster.pod(change.key).is_some_and(needs) { vec![change.key.clone()] } else { Vec::new() }
}

/// A claim that is gone may be missed by its pod.
pub fn by_claim(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let owner = change.was::<ClaimView>().filter(|_| change.gone).and_then(|claim| claim.owner.clone());
    let Some(owner) = owner else { return Vec::new() };
    let pods = cluster.pods_in(&change.key.namespace).filter(|(_, pod)| pod.uid == owner);
    pods.map(|(key, _)| Key { resource: PODS, ..key.clone() }).collect()
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, key) = (look.cluster, look.key);
    let Some(pod) = cluster.pod(key).filter(|pod| pod.claims && pod.active()) else { return Decision::default() };
    let document = document(&pod.document);
    let (mut intents, mut strange) = (Vec::new(), Vec::new());
    for volume in list(&document["spec"]["volumes"]) {
        let template = &volume["ephemeral"]["volumeClaimTemplate"];
        if !template.is_object() {
            continue;
        }
        let name = format!("{}-{}", key.name, volume["name"].as_str().unwrap_or_default());
        let claim = claim_key(&key.namespace, &name);
        match cluster.get::<ClaimView>(&claim) {
            Some(view) if view.owner.as_deref() == Some(pod.uid.as_str()) => {}
            Some(_) => strange.push(name),
            None if cluster.damaged.contains(&claim) => {}
            None => {
                let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": pod.uid,
                    "controller": true,
                    "blockOwnerDeletion": true}]);
                let mut metadata = json!({"name": name, "ownerReferences": owner});
                for field in ["labels", "annotations"] {
                    if template["metadata"][field].is_object() {
                        metadata[field] = template["metadata"][field].clone();
                    }
                }
                let object = json!({"metadata": metadata, "spec": template["spec"]});
                intents.push(Intent::Create { resource: CLAIMS, namespace: key.namespace.clone(), object });
            }
        }
    }
    // Told once of each.
    let known: Vec<String> = look.remembered();
    for name in strange.iter().filter(|name| !known.contains(name)) {
        let (namespace, pod_name) = (&key.namespace, &key.name);
        let text = format!("PVC {namespace}/{name} was not created for pod {namespace}/{pod_name} (pod is not owner)");
        intents.push(Intent::Announce(EventDraft::warning(SOURCE, About::pod(key, pod), "FailedBinding", text)));
    }
    let memo = (!strange.is_empty()).then(|| Memo::of(strange));
    Decision { memo, ..Decision::of(intents) }
}

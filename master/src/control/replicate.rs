//! Replication: as many pods of a template as were asked for. PURE.
//!
//! Pods that match and have no controller are adopted, owned ones that match no more are released. Too few: make them from the
//! template. Too many: delete those first that lose least. What a controller leaves behind is told in `garbage`.

use super::Now;
use super::cluster::Cluster;
use super::intent::{About, Decision, Intent, Tale};
use super::keys::Owner;
use super::view::{ControllerView, PodView, selects};
use coracle_api::meta::{Key, Resource};
use coracle_api::strategy::CREATION_TOKEN;
use coracle_api::strategy::meta::{GENERATED_BASE_BYTES_MAX, generated_base};
use coracle_api::workload::{ReplicationControllerCondition, ReplicationControllerStatus};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Who says so in events.
const SOURCE: &str = "replication-controller";
/// The condition of one that cannot make its pods, and why it has it.
const FAILURE: &str = "ReplicaFailure";
const FAILED: &str = "FailedCreate";
/// Pods made or deleted in one look; the rest follows when these are seen.
const BURST_MAX: usize = 100;
/// What follows the base of a generated name.
const SUFFIX_BYTES: usize = 5;
/// Pods that fail as soon as they are made are made anew at once, once; then after this, doubling.
const FAILED_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Failed pods are kept for people to look at: so many for each replica, the youngest.
const FAILED_KEPT_EACH: usize = 5;

pub fn decide(cluster: &Cluster, key: &Key, now: Now) -> Decision {
    // What becomes of the pods of one that is gone, or is being deleted, is not its own matter any more.
    let Some(controller) = cluster.controllers.get(key).filter(|controller| !controller.deleting) else { return Decision::default() };
    let mut intents = Vec::new();
    let mut owned: Vec<(&Key, &PodView)> = Vec::new();
    for (pod_key, pod) in cluster.pods_in(&key.namespace) {
        let matches = selects(&controller.selector, pod.labels());
        match &pod.owner {
            Some(owner) if owner.uid == controller.uid && matches => owned.push((pod_key, pod)),
            Some(owner) if owner.uid == controller.uid && !pod.deleting => intents.push(release(pod_key, pod)),
            None if matches && pod.active() => {
                intents.push(owners_changed(pod_key, pod, |owners| owners.push(reference(key, controller))));
                owned.push((pod_key, pod));
            }
            _ => {}
        }
    }
    let (active, over): (Vec<_>, Vec<_>) = owned.into_iter().partition(|(_, pod)| pod.active());
    let wanted = usize::try_from(controller.replicas).unwrap_or_default();
    let there = active.len() + damaged(cluster, key);
    let failure = cluster.complaint(&Owner::Controller(key.clone())).filter(|_| there < wanted);
    let (status, available_at) = status(key, controller, &active, failure, now);
    intents.extend(status);
    let mut wake_at = available_at;
    if there < wanted {
        match patience(&over, wanted).filter(|until| now.uptime < *until) {
            Some(until) => wake_at = Some(wake_at.map_or(until, |at| at.min(until))),
            None => intents.extend((0..(wanted - there).min(BURST_MAX)).flat_map(|_| make(key, controller))),
        }
    } else if active.len() > wanted {
        intents.extend(surplus(key, controller, active, wanted));
    }
    intents.extend(failed_long_ago(over, wanted));
    Decision { intents, wake_at }
}

/// Pods of this controller, by their names, whose files cannot be read. They may run, so nothing is made in their place.
fn damaged(cluster: &Cluster, key: &Key) -> usize {
    let base = generated_base(&key.name);
    let cut = (0..=GENERATED_BASE_BYTES_MAX.min(base.len())).rev().find(|at| base.is_char_boundary(*at)).unwrap_or_default();
    let ours = |name: &str| name.len() == cut + SUFFIX_BYTES && name.starts_with(&base[..cut]);
    cluster.damaged.iter().filter(|pod| &*pod.resource.plural == "pods" && pod.namespace == key.namespace && ours(&pod.name)).count()
}

/// Until when nothing is made, because what was made before failed: the more often, the longer.
fn patience(over: &[(&Key, &PodView)], wanted: usize) -> Option<Duration> {
    let failed = || over.iter().filter(|(_, pod)| pod.phase == "Failed" && !pod.deleting);
    let rounds = u32::try_from((failed().count() / wanted.max(1)).min(FAILED_KEPT_EACH)).unwrap_or_default();
    let doublings = rounds.checked_sub(2)?;
    Some(failed().map(|(_, pod)| pod.came).max()? + FAILED_AGAIN_AFTER * 2u32.pow(doublings))
}

fn failed_long_ago(over: Vec<(&Key, &PodView)>, wanted: usize) -> Vec<Intent> {
    let mut failed: Vec<_> = over.into_iter().filter(|(_, pod)| pod.phase == "Failed" && !pod.deleting).collect();
    failed.sort_by_key(|(key, pod)| (pod.created.map(|time| time.seconds()), pod.came, *key));
    let surplus = failed.len().saturating_sub(FAILED_KEPT_EACH * wanted.max(1)).min(BURST_MAX);
    failed[..surplus].iter().map(|(key, pod)| Intent::Delete { key: (*key).clone(), seen: pod.revision, at_once: false }).collect()
}

fn surplus(key: &Key, controller: &ControllerView, mut active: Vec<(&Key, &PodView)>, wanted: usize) -> Vec<Intent> {
    let siblings = siblings_by_node(&active);
    active.sort_by_key(|(_, pod)| cost(pod, &siblings));
    let mut intents = Vec::new();
    for (pod_key, pod) in active.iter().take((active.len() - wanted).min(BURST_MAX)) {
        intents.push(Intent::Delete { key: (*pod_key).clone(), seen: pod.revision, at_once: false });
        intents.push(tell(key, controller, "SuccessfulDelete", format!("Deleted pod: {}", pod_key.name), false));
    }
    intents
}

fn siblings_by_node<'a>(pods: &[(&Key, &'a PodView)]) -> BTreeMap<&'a str, usize> {
    let mut count = BTreeMap::new();
    for (_, pod) in pods {
        *count.entry(pod.node.as_str()).or_default() += 1;
    }
    count
}

/// What deleting a pod costs, cheapest first, in Kubernetes' order: on no node, waiting, not ready, called cheap, on the fullest node, ready for
/// the shortest time, restarted most often, youngest.
fn cost(pod: &PodView, siblings: &BTreeMap<&str, usize>) -> impl Ord + use<> {
    let phase = match pod.phase {
        "Pending" => 0,
        "" | "Unknown" => 1,
        _ => 2,
    };
    let crowd = siblings.get(pod.node.as_str()).copied().unwrap_or_default();
    let youngest_first = |time: Option<coracle_api::meta::Time>| std::cmp::Reverse(time.map(|time| time.seconds()));
    (
        !pod.node.is_empty(),
        phase,
        pod.ready == Some(true),
        pod.deletion_cost,
        std::cmp::Reverse(crowd),
        youngest_first(pod.ready_since),
        std::cmp::Reverse(pod.restarts),
        youngest_first(pod.created),
    )
}

fn make(key: &Key, controller: &ControllerView) -> [Intent; 2] {
    let document: Value = serde_json::from_slice(&controller.document.json).unwrap_or_default();
    let template = &document["spec"]["template"];
    let mut metadata = json!({
        "generateName": generated_base(&key.name),
        "labels": template["metadata"]["labels"],
        "ownerReferences": [reference(key, controller)],
    });
    for field in ["annotations", "finalizers"] {
        if !template["metadata"][field].is_null() {
            metadata[field] = template["metadata"][field].clone();
        }
    }
    // A token means one creation, and all of these would claim it.
    if let Some(annotations) = metadata["annotations"].as_object_mut() {
        annotations.remove(CREATION_TOKEN);
    }
    let object = json!({"metadata": metadata, "spec": template["spec"]});
    let create = Intent::Create { resource: Resource::core("pods"), namespace: key.namespace.clone(), object };
    [create, tell(key, controller, "SuccessfulCreate", "Created pod: ".to_owned(), true)]
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

fn release(key: &Key, pod: &PodView) -> Intent {
    let uid = pod.owner.as_ref().map(|owner| owner.uid.as_str()).unwrap_or_default();
    owners_changed(key, pod, |owners| owners.retain(|owner| owner["uid"] != uid))
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

/// The counts, if they are not what the status says; and when they will be others though nothing happens.
/// `failure`: why no more pods are made.
fn status(
    key: &Key,
    controller: &ControllerView,
    active: &[(&Key, &PodView)],
    failure: Option<&str>,
    now: Now,
) -> (Option<Intent>, Option<Duration>) {
    let count = |counts: &dyn Fn(&PodView) -> bool| i32::try_from(active.iter().filter(|(_, pod)| counts(pod)).count()).unwrap_or(i32::MAX);
    let ready = |pod: &PodView| pod.ready == Some(true);
    let available_at = |pod: &PodView| pod.ready_at + controller.min_ready;
    let counts = ReplicationControllerStatus {
        replicas: count(&|_| true),
        fully_labeled_replicas: count(&|pod| selects(&controller.template_labels, pod.labels())),
        ready_replicas: count(&ready),
        available_replicas: count(&|pod| ready(pod) && (controller.min_ready.is_zero() || available_at(pod) <= now.uptime)),
        observed_generation: controller.generation,
        conditions: conditions(&controller.status.conditions, failure, now),
    };
    let later = active.iter().filter(|(_, pod)| ready(pod)).map(|(_, pod)| available_at(pod)).filter(|at| *at > now.uptime).min();
    let intent = (counts != controller.status).then(|| Intent::Status {
        key: key.clone(),
        seen: controller.revision,
        status: shown(controller, &counts),
    });
    (intent, later)
}

/// Those of others stay as they are.
fn conditions(was: &[ReplicationControllerCondition], failure: Option<&str>, now: Now) -> Vec<ReplicationControllerCondition> {
    let mut conditions: Vec<_> = was.iter().filter(|one| one.kind != FAILURE).cloned().collect();
    if let Some(why) = failure {
        let since = was.iter().find(|one| one.kind == FAILURE).and_then(|one| one.last_transition_time);
        conditions.push(ReplicationControllerCondition {
            kind: FAILURE.to_owned(),
            status: "True".to_owned(),
            last_transition_time: since.or(Some(now.wall)),
            reason: FAILED.to_owned(),
            message: why.to_owned(),
        });
    }
    conditions
}

/// Kubernetes leaves zeros out, but for `replicas`.
fn shown(controller: &ControllerView, counts: &ReplicationControllerStatus) -> Value {
    let document: Value = serde_json::from_slice(&controller.document.json).unwrap_or_default();
    let mut status = document["status"].as_object().cloned().unwrap_or_default();
    status.insert("replicas".to_owned(), counts.replicas.into());
    let others = [
        ("fullyLabeledReplicas", i64::from(counts.fully_labeled_replicas)),
        ("readyReplicas", i64::from(counts.ready_replicas)),
        ("availableReplicas", i64::from(counts.available_replicas)),
        ("observedGeneration", counts.observed_generation),
    ];
    for (name, count) in others {
        if count > 0 {
            status.insert(name.to_owned(), count.into())
        } else {
            status.remove(name)
        };
    }
    let shown = |one: &ReplicationControllerCondition| {
        let since = one.last_transition_time.map(|time| time.to_string());
        json!({"type": one.kind, "status": one.status, "lastTransitionTime": since, "reason": one.reason, "message": one.message})
    };
    if counts.conditions.is_empty() {
        status.remove("conditions");
    } else if counts.conditions != controller.status.conditions {
        status.insert("conditions".to_owned(), counts.conditions.iter().map(shown).collect());
    }
    status.into()
}

fn tell(key: &Key, controller: &ControllerView, reason: &'static str, message: String, names_made: bool) -> Intent {
    let about = about(key, controller);
    Intent::Tell(Tale { about, severity: "Normal", reason, message, names_made, source: SOURCE })
}

/// Something that a controller wanted was refused.
pub fn complaint(cluster: &Cluster, key: &Key, why: &str) -> Option<Tale> {
    let about = about(key, cluster.controllers.get(key)?);
    let message = format!("Error creating: {why}");
    Some(Tale { about, severity: "Warning", reason: FAILED, message, names_made: false, source: SOURCE })
}

fn about(key: &Key, controller: &ControllerView) -> About {
    About {
        api_version: "v1".into(),
        kind: "ReplicationController".into(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: controller.uid.clone(),
        revision: controller.revision,
    }
}

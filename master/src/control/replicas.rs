//! Replicas: the pods that an object makes from its template. They are made, adopted, released and deleted here, for
//! every kind of such objects. PURE.
//!
//! Pods that match and have no controller are adopted, owned ones that match no more are released. What a parent leaves
//! behind when it goes is told in `garbage`.

use super::cluster::Cluster;
use super::controller::Change;
use super::intent::{About, Intent, Tale};
use super::shelf::View;
use super::view::{Labels, PODS, PodView, Selector, document};
use crate::store::Stored;
use coracle_api::meta::{Key, Revision, Time};
use coracle_api::strategy::CREATION_TOKEN;
use coracle_api::strategy::meta::{GENERATED_BASE_BYTES_MAX, generated_base};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// Pods made or deleted in one look; the rest follows when these are seen.
pub const BURST_MAX: usize = 100;
/// The reason of the event, and of the condition, that a pod cannot be made.
pub const FAILED: &str = "FailedCreate";
/// What follows the base of a generated name.
const SUFFIX_BYTES: usize = 5;
/// Pods that fail as soon as they are made are made anew at once, once; then after this, doubling.
const FAILED_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Failed pods are kept for people to look at: so many for each replica, the youngest.
const FAILED_KEPT_EACH: usize = 5;

/// A kind of parents, as references and events name it.
#[derive(Debug)]
pub struct ParentKind {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// The source of its events.
    pub source: &'static str,
}

/// An object that makes pods from a template.
#[derive(Clone, Debug)]
pub struct TemplateView {
    pub of: &'static ParentKind,
    pub uid: String,
    pub revision: Revision,
    pub deleting: bool,
    pub selector: Selector,
    /// The labels of the template.
    pub labels: Labels,
    /// The parent as it stands. Its template is `spec.template`.
    pub document: Stored,
}

impl TemplateView {
    fn reference(&self, key: &Key) -> Value {
        json!({
            "apiVersion": self.of.api_version,
            "kind": self.of.kind,
            "name": key.name,
            "uid": self.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }

    fn about(&self, key: &Key) -> About {
        About::new((self.of.api_version, self.of.kind), key, &self.uid, self.revision)
    }
}

/// A view of a kind of parents.
pub trait Parent: View {
    fn template(&self) -> &TemplateView;
}

/// The parents that a pod concerns: its owner, and those that select it. They may have before the change, too.
pub fn by_pod<V: Parent>(cluster: &Cluster, change: &Change<'_>) -> Vec<Key> {
    let concerned = |parent: &TemplateView| {
        let is = |pod: &PodView| pod.owner.as_ref() == Some(&parent.uid) || parent.selector.selects(pod.labels());
        change.is_unreadable() || change.pods(cluster).any(is)
    };
    let parents = cluster.within::<V>(&change.key.namespace);
    parents.filter(|(_, parent)| concerned(parent.template())).map(|(key, _)| key.clone()).collect()
}

pub type Pod<'c> = (&'c Key, &'c PodView);

/// The pods of a parent.
#[derive(Default)]
pub struct Pods<'c> {
    pub active: Vec<Pod<'c>>,
    /// Those that are over, or are being deleted.
    pub over: Vec<Pod<'c>>,
    /// Those of which the file cannot be read, by their names. They may run, so nothing is made in their place.
    pub damaged: usize,
}

/// Finds the pods of a parent; adopts and releases those that changed sides.
pub fn claim<'c>(cluster: &'c Cluster, key: &'c Key, parent: &TemplateView, intents: &mut Vec<Intent>) -> Pods<'c> {
    let mut pods = Pods { damaged: damaged(cluster, key), ..Pods::default() };
    for (pod_key, pod) in cluster.pods_in(&key.namespace) {
        let matches = parent.selector.selects(pod.labels());
        match &pod.owner {
            Some(owner) if *owner == parent.uid && matches => {}
            Some(owner) if *owner == parent.uid && !pod.deleting => {
                intents.push(owners_changed(pod_key, pod, |owners| owners.retain(|owner| owner["uid"] != parent.uid)));
                continue;
            }
            None if matches && pod.active() => {
                intents.push(owners_changed(pod_key, pod, |owners| owners.push(parent.reference(key))));
            }
            _ => continue,
        }
        if pod.active() { &mut pods.active } else { &mut pods.over }.push((pod_key, pod));
    }
    pods
}

fn damaged(cluster: &Cluster, key: &Key) -> usize {
    let base = generated_base(&key.name);
    let cut = (0..=GENERATED_BASE_BYTES_MAX.min(base.len())).rev().find(|at| base.is_char_boundary(*at)).unwrap_or_default();
    let ours = |name: &str| name.len() == cut + SUFFIX_BYTES && name.starts_with(&base[..cut]);
    cluster.damaged_pods(&key.namespace).filter(|pod| ours(&pod.name)).count()
}

fn owners_changed(key: &Key, pod: &PodView, change: impl FnOnce(&mut Vec<Value>)) -> Intent {
    let mut object = document(&pod.document);
    let mut owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    change(&mut owners);
    if owners.is_empty() {
        object["metadata"].as_object_mut().map(|metadata| metadata.remove("ownerReferences"));
    } else {
        object["metadata"]["ownerReferences"] = owners.into();
    }
    Intent::Update { key: key.clone(), seen: pod.revision, object }
}

/// A new pod of the template.
pub fn pod(key: &Key, parent: &TemplateView) -> Value {
    let document = document(&parent.document);
    let template = &document["spec"]["template"];
    let mut metadata = json!({
        "generateName": generated_base(&key.name),
        "labels": template["metadata"]["labels"],
        "ownerReferences": [parent.reference(key)],
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
    json!({"metadata": metadata, "spec": template["spec"]})
}

/// Makes a pod, and tells of it.
pub fn make(key: &Key, parent: &TemplateView, pod: Value) -> [Intent; 2] {
    let made = Tale::normal(parent.of.source, parent.about(key), "SuccessfulCreate", "Created pod: ".to_owned());
    let create = Intent::Create { resource: PODS, namespace: key.namespace.clone(), object: pod };
    [create, Intent::Tell(Tale { names_made: true, ..made })]
}

/// Deletes a pod, and tells of it.
pub fn delete(key: &Key, parent: &TemplateView, (pod_key, pod): Pod<'_>) -> [Intent; 2] {
    let message = format!("Deleted pod: {}", pod_key.name);
    let deleted = Tale::normal(parent.of.source, parent.about(key), "SuccessfulDelete", message);
    [delete_silently((pod_key, pod)), Intent::Tell(deleted)]
}

fn delete_silently((key, pod): Pod<'_>) -> Intent {
    Intent::Delete { key: key.clone(), seen: pod.revision, at_once: false }
}

/// Tells that a pod could not be made, or another intent was refused.
pub fn refused(key: &Key, parent: &TemplateView, why: &str) -> Tale {
    Tale::warning(parent.of.source, parent.about(key), FAILED, format!("Error creating: {why}"))
}

/// Until when nothing is made, because pods that were made before failed: the more often, the longer.
pub fn patience(over: &[Pod<'_>], wanted: usize) -> Option<Duration> {
    let failed = || over.iter().filter(|(_, pod)| pod.phase == "Failed" && !pod.deleting);
    let rounds = u32::try_from((failed().count() / wanted.max(1)).min(FAILED_KEPT_EACH)).unwrap_or_default();
    let doublings = rounds.checked_sub(2)?;
    Some(failed().map(|(_, pod)| pod.came).max()? + FAILED_AGAIN_AFTER * 2u32.pow(doublings))
}

/// Deletes failed pods beyond those that are kept, the oldest first.
pub fn failed_long_ago(over: &[Pod<'_>], wanted: usize) -> Vec<Intent> {
    let mut failed: Vec<Pod<'_>> = over.iter().filter(|(_, pod)| pod.phase == "Failed" && !pod.deleting).copied().collect();
    failed.sort_by_key(|(key, pod)| (pod.created.map(|time| time.seconds()), pod.came, *key));
    let surplus = failed.len().saturating_sub(FAILED_KEPT_EACH * wanted.max(1)).min(BURST_MAX);
    failed[..surplus].iter().copied().map(delete_silently).collect()
}

/// Puts those first of which the deletion costs least, in Kubernetes' order: on no node, waiting, not ready, called
/// cheap, on the fullest node, ready for the shortest time, restarted most often, youngest.
pub fn cheapest_first(pods: &mut [Pod<'_>]) {
    let mut by_node: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, pod) in pods.iter() {
        *by_node.entry(pod.node.as_str()).or_default() += 1;
    }
    let youngest_first = |time: Option<Time>| Reverse(time.map(|time| time.seconds()));
    pods.sort_by_key(|(_, pod)| {
        let phase = match pod.phase {
            "Pending" => 0,
            "" | "Unknown" => 1,
            _ => 2,
        };
        let siblings = by_node.get(pod.node.as_str()).copied().unwrap_or_default();
        (
            !pod.node.is_empty(),
            phase,
            pod.ready == Some(true),
            pod.deletion_cost,
            Reverse(siblings),
            youngest_first(pod.ready_since),
            Reverse(pod.restarts),
            youngest_first(pod.created),
        )
    });
}

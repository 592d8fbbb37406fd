//! Replicas: the pods that an object makes from its template. They are made, adopted, released and deleted here, for
//! every kind of such objects. PURE.
//!
//! Pods that match and have no controller are adopted, owned ones that match no more are released. What a parent leaves
//! behind when it goes is told in `garbage`.

use super::cluster::Cluster;
use super::controller::ObservedChange;
use super::intent::{About, Doing, EventDraft, Intent, Refusal};
use super::rules::ControlRule;
use super::shelf::View;
use super::view::{Labels, PODS, PodView, Selector, document};
use crate::store::Stored;
use coracle_api::meta::{Key, ObjectMeta, Revision, Time};
use coracle_api::strategy::CREATION_TOKEN;
use coracle_api::strategy::meta::{GENERATED_BASE_BYTES_MAX, generated_base};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// Pods made or deleted in one look; the rest follows when these are seen.
pub const BURST_MAX: usize = 100;
/// The reasons of the events, and of the condition, that a pod cannot be made or deleted.
pub const FAILED_CREATE: &str = "FailedCreate";
pub const FAILED_DELETE: &str = "FailedDelete";
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
    /// Pods that are over are adopted and released like others.
    pub claims_finished: bool,
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
    pub fn of(
        of: &'static ParentKind,
        stored: &Stored,
        metadata: &ObjectMeta,
        selector: Selector,
        labels: Labels,
    ) -> TemplateView {
        TemplateView {
            of,
            uid: metadata.uid.clone(),
            revision: stored.revision,
            deleting: metadata.deletion_timestamp.is_some(),
            selector,
            labels,
            document: stored.clone(),
        }
    }

    pub fn reference(&self, key: &Key) -> Value {
        json!({
            "apiVersion": self.of.api_version,
            "kind": self.of.kind,
            "name": key.name,
            "uid": self.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }

    pub fn about(&self, key: &Key) -> About {
        About::new((self.of.api_version, self.of.kind), key, &self.uid, self.revision)
    }

    pub fn tell(&self, key: &Key, reason: &'static str, message: String) -> Intent {
        Intent::Tell(EventDraft::normal(self.of.source, self.about(key), reason, message))
    }

    pub fn warn(&self, key: &Key, reason: &'static str, message: String) -> EventDraft {
        EventDraft::warning(self.of.source, self.about(key), reason, message)
    }
}

/// A view of objects that own pods.
pub trait Parent: View {
    fn template(&self) -> &TemplateView;
}

/// The parents that a pod concerns: the pod's controller; for a pod without a controller, all parents that select the
/// pod. The pod's state before the change counts too.
pub fn by_pod<V: Parent>(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let namespace = &change.key.namespace;
    if change.is_unreadable() {
        return cluster.within::<V>(namespace).map(|(key, _)| key.clone()).collect();
    }
    let mut keys = Vec::new();
    for pod in change.pods(cluster) {
        match &pod.owner {
            Some(uid) => keys.extend(owner::<V>(cluster, namespace, &pod.owner_name, uid)),
            None => {
                let takers = cluster
                    .within::<V>(namespace)
                    .filter(|(_, parent)| parent.template().selector.selects(pod.labels()));
                keys.extend(takers.map(|(key, _)| key.clone()));
            }
        }
    }
    keys
}

/// The parent of this name and uid.
pub fn owner<V: Parent>(cluster: &Cluster, namespace: &str, name: &str, uid: &str) -> Option<Key> {
    let key = |resource: &coracle_api::meta::Resource| Key {
        resource: resource.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    V::OF.iter().map(key).find(|key| cluster.get::<V>(key).is_some_and(|parent| parent.template().uid == uid))
}

pub type Pod<'c> = (&'c Key, &'c PodView);

/// The pods of a parent.
#[derive(Default)]
pub struct Pods<'c> {
    pub active: Vec<Pod<'c>>,
    /// Those that are over, or are being deleted.
    pub over: Vec<Pod<'c>>,
    /// The number of unreadable pods that belong here by their names. They may run, so no pod is made in their place.
    pub damaged: usize,
}

impl<'c> Pods<'c> {
    pub fn all(&self) -> impl Iterator<Item = Pod<'c>> {
        self.active.iter().chain(&self.over).copied()
    }

    /// Those that still run, and will not for long.
    pub fn terminating(&self) -> usize {
        self.over.iter().filter(|(_, pod)| pod.deleting && !pod.terminal()).count()
    }
}

/// Finds the pods of a parent; adopts matching orphans, and releases pods that no longer match.
pub fn claim<'c>(cluster: &'c Cluster, key: &'c Key, parent: &'c TemplateView, intents: &mut Vec<Intent>) -> Pods<'c> {
    claim_of(cluster, key, parent, &|_| true, intents)
}

/// The same, where a pod is a member only by its name.
pub fn claim_of<'c>(
    cluster: &'c Cluster,
    key: &'c Key,
    parent: &'c TemplateView,
    member: &dyn Fn(&Key) -> bool,
    intents: &mut Vec<Intent>,
) -> Pods<'c> {
    let mut pods = Pods { damaged: damaged(cluster, key), ..Pods::default() };
    let claims = |pod: &PodView| pod.active() || (parent.of.claims_finished && !pod.deleting);
    let mut put = |pod: Pod<'c>| if pod.1.active() { &mut pods.active } else { &mut pods.over }.push(pod);
    for (pod_key, pod) in cluster.pods_of(key, &parent.uid) {
        if member(pod_key) && parent.selector.selects(pod.labels()) {
            put((pod_key, pod));
        } else if !parent.deleting && claims(pod) {
            intents.push(owners_changed(pod_key, pod, |owners| owners.retain(|owner| owner["uid"] != parent.uid)));
        }
    }
    if parent.deleting || !cluster.holds(ControlRule::OrphansAreAdopted) {
        return pods;
    }
    for (pod_key, pod) in cluster.orphaned_pods_in(&key.namespace) {
        if claims(pod) && member(pod_key) && parent.selector.selects(pod.labels()) {
            intents.push(owners_changed(pod_key, pod, |owners| owners.insert(0, parent.reference(key))));
            put((pod_key, pod));
        }
    }
    pods
}

fn damaged(cluster: &Cluster, key: &Key) -> usize {
    let base = generated_base(&key.name);
    let cut =
        (0..=GENERATED_BASE_BYTES_MAX.min(base.len())).rev().find(|at| base.is_char_boundary(*at)).unwrap_or_default();
    let ours = |name: &str| name.len() == cut + SUFFIX_BYTES && name.starts_with(&base[..cut]);
    cluster.damaged_pods(&key.namespace).filter(|pod| ours(&pod.name)).count()
}

fn owners_changed(key: &Key, pod: &PodView, change: impl FnOnce(&mut Vec<Value>)) -> Intent {
    let object = with_owners(document(&pod.document), change);
    Intent::Update { key: key.clone(), seen: pod.revision, object }
}

/// A document with other owners.
pub fn with_owners(mut object: Value, change: impl FnOnce(&mut Vec<Value>)) -> Value {
    let mut owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    change(&mut owners);
    if owners.is_empty() {
        object["metadata"].as_object_mut().map(|metadata| metadata.remove("ownerReferences"));
    } else {
        object["metadata"]["ownerReferences"] = owners.into();
    }
    object
}

/// A new pod of the template.
pub fn pod(key: &Key, parent: &TemplateView) -> Value {
    of_template(key, parent, &document(&parent.document)["spec"]["template"])
}

/// A new pod from a template, which may be an older template of the parent.
pub fn of_template(key: &Key, parent: &TemplateView, template: &Value) -> Value {
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

/// Makes a pod, with an event.
pub fn make(key: &Key, parent: &TemplateView, pod: Value) -> [Intent; 2] {
    let made = EventDraft::normal(parent.of.source, parent.about(key), "SuccessfulCreate", "Created pod: ".to_owned());
    let create = Intent::Create { resource: PODS, namespace: key.namespace.clone(), object: pod };
    [create, Intent::Tell(EventDraft { names_made: true, ..made })]
}

/// Deletes a pod, with an event.
pub fn delete(key: &Key, parent: &TemplateView, (pod_key, pod): Pod<'_>) -> [Intent; 2] {
    let deleted = parent.tell(key, "SuccessfulDelete", format!("Deleted pod: {}", pod_key.name));
    [delete_silently((pod_key, pod)), deleted]
}

pub fn delete_silently((key, pod): Pod<'_>) -> Intent {
    Intent::Delete { key: key.clone(), seen: pod.revision, at_once: false }
}

/// Tells that a pod could not be made or deleted.
pub fn refused(key: &Key, parent: &TemplateView, refusal: &Refusal) -> Option<EventDraft> {
    match &refusal.doing {
        Doing::Making(..) => Some(parent.warn(key, FAILED_CREATE, format!("Error creating: {}", refusal.why))),
        Doing::Deleting(_) => Some(parent.warn(key, FAILED_DELETE, format!("Error deleting: {}", refusal.why))),
        Doing::Changing | Doing::Unrighted => None,
    }
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
    let mut failed: Vec<Pod<'_>> =
        over.iter().filter(|(_, pod)| pod.phase == "Failed" && !pod.deleting).copied().collect();
    failed.sort_by_key(|(key, pod)| (pod.created.map(|time| time.seconds()), pod.came, *key));
    let surplus = failed.len().saturating_sub(FAILED_KEPT_EACH * wanted.max(1)).min(BURST_MAX);
    failed[..surplus].iter().copied().map(delete_silently).collect()
}

/// Puts those first of which the deletion costs least, in Kubernetes' order: on no node, waiting, not ready, called
/// cheap, on the node with most pods of the parent's siblings, ready for the shortest time, restarted most often,
/// youngest. Times count by their order of magnitude; chance decides between equals.
pub fn cheapest_first<'c>(pods: &mut [Pod<'_>], siblings: impl Iterator<Item = Pod<'c>>, now: Time) {
    let mut by_node: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, pod) in siblings.filter(|(_, pod)| pod.active()) {
        *by_node.entry(pod.node.as_str()).or_default() += 1;
    }
    pods.sort_by_cached_key(|(key, pod)| {
        let phase = match pod.phase {
            "Pending" => 0,
            "" | "Unknown" => 1,
            _ => 2,
        };
        let doubled = by_node.get(pod.node.as_str()).copied().unwrap_or_default();
        let ready = pod.ready == Some(true);
        (
            !pod.node.is_empty(),
            phase,
            ready,
            pod.deletion_cost,
            Reverse(doubled),
            if ready { magnitude(pod.ready_since, now) } else { 0 },
            Reverse(pod.restarts),
            magnitude(pod.created, now),
            key.name.clone(),
        )
    });
}

/// Of an age. A time that is not known counts as the youngest.
fn magnitude(since: Option<Time>, now: Time) -> i64 {
    let age = since.map(|since| now.0.as_nanosecond() - since.0.as_nanosecond());
    age.map_or(-2, |age| u128::try_from(age).ok().and_then(u128::checked_ilog2).map_or(-1, i64::from))
}

//! ReplicaSets and ReplicationControllers: as many pods of the template as were asked for, and the counts in the
//! status.
//! PURE.

use super::cluster::Cluster;
use super::conditions;
use super::controller::{Look, Now};
use super::counts::Counts;
use super::deployment::{REVISION, sizes};
use super::intent::{Decision, EventDraft, Intent, Refusal};
use super::replicas::{self, BURST_MAX, FAILED_CREATE, FAILED_DELETE, Parent, ParentKind, Pods, TemplateView};
use super::rules::ControlRule;
use super::shelf::View;
use super::template;
use super::view::{PodView, Selector, document, of_group, read, selects};
use crate::store::Stored;
use coracle_api::meta::{Key, ObjectMeta, OwnerReference, Resource, Time};
use coracle_api::workload::{Condition, ReplicaSet, ReplicaSetStatus};
use std::time::Duration;

pub const CONTROLLERS: Resource = Resource::core("replicationcontrollers");
pub const REPLICA_SETS: Resource = of_group("apps", "replicasets");
const CONTROLLER: ParentKind = ParentKind {
    api_version: "v1",
    kind: "ReplicationController",
    source: "replication-controller",
    claims_finished: false,
};
const SET: ParentKind =
    ParentKind { api_version: "apps/v1", kind: "ReplicaSet", source: "replicaset-controller", claims_finished: false };
/// The condition of a parent whose pods cannot be made.
pub const FAILURE: &str = "ReplicaFailure";

#[derive(Clone, Debug)]
pub struct ReplicationView {
    pub template: TemplateView,
    /// The controlling owner: of a ReplicaSet mostly a Deployment.
    pub owner: Option<OwnerReference>,
    pub generation: i64,
    pub replicas: i32,
    pub min_ready: Duration,
    pub status: ReplicaSetStatus,
    pub rollout: RolloutPart,
}

/// A ReplicaSet's part in its Deployment's rollout.
#[derive(Clone, Debug, Default)]
pub struct RolloutPart {
    pub created: Option<Time>,
    /// A hash of the template's content.
    pub template: u64,
    /// The template's revision number in the Deployment.
    pub revision: i64,
    /// How many pods there were to be, and might be at most, when it was scaled.
    pub desired: Option<i32>,
    pub max: Option<i32>,
}

impl RolloutPart {
    fn of(stored: &Stored, metadata: &ObjectMeta) -> RolloutPart {
        let (desired, max) = sizes(&metadata.annotations);
        let revision = metadata.annotations.get(REVISION).and_then(|number| number.parse().ok());
        RolloutPart {
            created: metadata.creation_timestamp,
            template: template::meaning(&document(stored)["spec"]["template"]),
            revision: revision.unwrap_or_default(),
            desired,
            max,
        }
    }
}

impl View for ReplicationView {
    const OF: &'static [Resource] = &[CONTROLLERS, REPLICA_SETS];

    fn is_orphan(&self) -> bool {
        self.owner.is_none()
    }

    fn read(stored: &Stored, _: Option<&ReplicationView>, _: Duration) -> Option<ReplicationView> {
        let ReplicaSet { metadata, spec, status } = read(stored)?;
        let is_set = stored.key.resource == REPLICA_SETS;
        let labels = || serde_json::from_value(spec.selector.clone()).unwrap_or_default();
        let kind = if is_set { &SET } else { &CONTROLLER };
        let selector = if is_set { Selector::Rules(spec.selector) } else { Selector::Labels(labels()) };
        let template = TemplateView::of(kind, stored, &metadata, selector, spec.template.metadata.labels);
        Some(ReplicationView {
            template,
            owner: metadata.controller().cloned(),
            rollout: if is_set { RolloutPart::of(stored, &metadata) } else { RolloutPart::default() },
            generation: metadata.generation,
            replicas: spec.replicas.unwrap_or(1),
            min_ready: Duration::from_secs(spec.min_ready_seconds.try_into().unwrap_or_default()),
            status,
        })
    }
}

impl Parent for ReplicationView {
    fn template(&self) -> &TemplateView {
        &self.template
    }
}

impl ReplicationView {
    /// The key of the controlling owner.
    pub fn owner_key(&self, cluster: &Cluster, key: &Key) -> Option<Key> {
        let owner = self.owner.as_ref()?;
        let resource = cluster.references.resource(&owner.api_version, &owner.kind)?.clone();
        Some(Key { resource, namespace: key.namespace.clone(), name: owner.name.clone() })
    }
}

/// The pods of all parents with this controlling owner.
fn siblings<'c>(cluster: &'c Cluster, owner: Option<&'c Key>, uid: &'c str) -> impl Iterator<Item = replicas::Pod<'c>> {
    let sets = owner.into_iter().flat_map(|owner| cluster.dependents::<ReplicationView>(owner));
    let sets = sets.filter(move |(_, set)| set.owner.as_ref().is_some_and(|owner| owner.uid == uid));
    sets.flat_map(|(key, set)| cluster.pods_of(key, &set.template.uid))
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (key, now, cluster) = (look.key, look.now, look.cluster);
    let Some(set) = cluster.get::<ReplicationView>(key) else { return Decision::default() };
    let parent = &set.template;
    let mut intents = Vec::new();
    let mut pods = replicas::claim(cluster, key, parent, &mut intents);
    let wanted = usize::try_from(set.replicas).unwrap_or_default();
    let there = pods.active.len() + pods.damaged;
    let (status, mut wake_at) = status(key, set, &pods, failure(look.refusal, there, wanted), now);
    intents.extend(status);
    if parent.deleting {
        // Garbage collection decides about the pods of a parent that is being deleted.
        return Decision { wake_at, ..Decision::of(intents) };
    }
    if there < wanted {
        match replicas::patience(&pods.over, wanted).filter(|until| now.uptime < *until) {
            Some(until) => wake_at = Some(wake_at.map_or(until, |at| at.min(until))),
            None => {
                let missing = 0..(wanted - there).min(BURST_MAX);
                intents.extend(missing.flat_map(|_| replicas::make(key, parent, replicas::pod(key, parent))));
            }
        }
    } else if pods.active.len() > wanted && cluster.holds(ControlRule::SurplusPodsGo) {
        let surplus = (pods.active.len() - wanted).min(BURST_MAX);
        let owner = set.owner_key(cluster, key);
        let uid = set.owner.as_ref().map(|owner| owner.uid.as_str()).unwrap_or_default();
        replicas::cheapest_first(&mut pods.active, siblings(cluster, owner.as_ref(), uid), now.wall);
        intents.extend(pods.active[..surplus].iter().flat_map(|pod| replicas::delete(key, parent, *pod)));
    }
    intents.extend(replicas::failed_long_ago(&pods.over, wanted));
    Decision { wake_at, ..Decision::of(intents) }
}

pub fn refused(cluster: &Cluster, key: &Key, refusal: &Refusal) -> Option<EventDraft> {
    replicas::refused(key, &cluster.get::<ReplicationView>(key)?.template, refusal)
}

/// Why there are not as many pods as there should be: reason and message.
fn failure(refusal: Option<&Refusal>, there: usize, wanted: usize) -> Option<(&'static str, &str)> {
    let reason = match there.cmp(&wanted) {
        std::cmp::Ordering::Less => FAILED_CREATE,
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Greater => FAILED_DELETE,
    };
    Some((reason, refusal?.why.as_str()))
}

/// The write of the counts, if the status says others; and the uptime at which they will change though nothing happens.
fn status(
    key: &Key,
    set: &ReplicationView,
    pods: &Pods<'_>,
    failure: Option<(&'static str, &str)>,
    now: Now,
) -> (Option<Intent>, Option<Duration>) {
    let active = &pods.active;
    let count = |counts: &dyn Fn(&PodView) -> bool| {
        i32::try_from(active.iter().filter(|(_, pod)| counts(pod)).count()).unwrap_or(i32::MAX)
    };
    let ready = |pod: &PodView| pod.ready == Some(true);
    let counts = ReplicaSetStatus {
        replicas: count(&|_| true),
        fully_labeled_replicas: count(&|pod| {
            set.template.labels.is_empty() || selects(&set.template.labels, pod.labels())
        }),
        ready_replicas: count(&ready),
        available_replicas: count(&|pod| pod.available(set.min_ready, now.uptime)),
        terminating_replicas: (key.resource == REPLICA_SETS)
            .then(|| i32::try_from(pods.terminating()).unwrap_or(i32::MAX)),
        observed_generation: set.generation,
        conditions: with_failure(&set.status.conditions, failure, now),
    };
    let available_at = |pod: &PodView| pod.ready_at + set.min_ready;
    let later = active
        .iter()
        .filter(|(_, pod)| ready(pod))
        .map(|(_, pod)| available_at(pod))
        .filter(|at| *at > now.uptime)
        .min();
    let intent = (counts != set.status).then(|| shown(key, set, &counts));
    (intent, later)
}

/// The first refusal stays until there is none.
fn with_failure(was: &[Condition], failure: Option<(&'static str, &str)>, now: Now) -> Vec<Condition> {
    let mut conditions = was.to_vec();
    match failure {
        None => conditions::remove(&mut conditions, FAILURE),
        Some((reason, why)) if conditions::find(&conditions, FAILURE).is_none() => conditions.push(Condition {
            kind: FAILURE.to_owned(),
            status: "True".to_owned(),
            last_update_time: None,
            last_transition_time: Some(now.wall),
            reason: reason.to_owned(),
            message: why.to_owned(),
        }),
        Some(_) => {}
    }
    conditions
}

/// Kubernetes leaves zeros out, but for `replicas` and `terminatingReplicas`.
fn shown(key: &Key, set: &ReplicationView, counts: &ReplicaSetStatus) -> Intent {
    let status = Counts::of(&set.template.document)
        .always("replicas", i64::from(counts.replicas))
        .unless_zero("fullyLabeledReplicas", i64::from(counts.fully_labeled_replicas))
        .unless_zero("readyReplicas", i64::from(counts.ready_replicas))
        .unless_zero("availableReplicas", i64::from(counts.available_replicas))
        .maybe("terminatingReplicas", counts.terminating_replicas.map(i64::from))
        .unless_zero("observedGeneration", counts.observed_generation)
        .conditions(&counts.conditions);
    Intent::Status { key: key.clone(), seen: set.template.revision, status: status.into() }
}

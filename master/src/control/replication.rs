//! ReplicationControllers: as many pods of the template as were asked for, and the counts in the status. PURE.

use super::cluster::Cluster;
use super::controller::{Look, Now};
use super::intent::{Decision, Intent, Tale};
use super::replicas::{self, BURST_MAX, FAILED, Parent, ParentKind, Pod, TemplateView};
use super::shelf::View;
use super::view::{PodView, Selector, document, read, selects};
use crate::store::Stored;
use coracle_api::meta::{Key, Resource};
use coracle_api::workload::{ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus};
use serde_json::{Value, json};
use std::time::Duration;

pub const CONTROLLERS: Resource = Resource::core("replicationcontrollers");
const KIND: ParentKind = ParentKind { api_version: "v1", kind: "ReplicationController", source: "replication-controller" };
/// The condition of one that cannot make its pods.
const FAILURE: &str = "ReplicaFailure";

#[derive(Clone, Debug)]
pub struct ReplicationView {
    template: TemplateView,
    generation: i64,
    replicas: i64,
    min_ready: Duration,
    status: ReplicationControllerStatus,
}

impl View for ReplicationView {
    const OF: &'static [Resource] = &[CONTROLLERS];

    fn read(stored: &Stored, _: Option<&ReplicationView>, _: Duration) -> Option<ReplicationView> {
        let ReplicationController { metadata, spec, status } = read(stored)?;
        let template = TemplateView {
            of: &KIND,
            uid: metadata.uid,
            revision: stored.revision,
            deleting: metadata.deletion_timestamp.is_some(),
            selector: Selector::Labels(spec.selector),
            labels: spec.template.map(|template| template.metadata.labels).unwrap_or_default(),
            document: stored.clone(),
        };
        Some(ReplicationView {
            template,
            generation: metadata.generation,
            replicas: i64::from(spec.replicas.unwrap_or(1)),
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

pub fn decide(look: &Look<'_>) -> Decision {
    let (key, now) = (look.key, look.now);
    let controller = look.cluster.get::<ReplicationView>(key);
    // What becomes of the pods of one that is gone, or is being deleted, is not its own matter any more.
    let Some(controller) = controller.filter(|controller| !controller.template.deleting) else { return Decision::default() };
    let parent = &controller.template;
    let mut intents = Vec::new();
    let mut pods = replicas::claim(look.cluster, key, parent, &mut intents);
    let wanted = usize::try_from(controller.replicas).unwrap_or_default();
    let there = pods.active.len() + pods.damaged;
    let failure = look.refusal.filter(|_| there < wanted);
    let (status, available_at) = status(key, controller, &pods.active, failure, now);
    intents.extend(status);
    let mut wake_at = available_at;
    if there < wanted {
        match replicas::patience(&pods.over, wanted).filter(|until| now.uptime < *until) {
            Some(until) => wake_at = Some(wake_at.map_or(until, |at| at.min(until))),
            None => {
                let missing = 0..(wanted - there).min(BURST_MAX);
                intents.extend(missing.flat_map(|_| replicas::make(key, parent, replicas::pod(key, parent))));
            }
        }
    } else if pods.active.len() > wanted {
        let surplus = (pods.active.len() - wanted).min(BURST_MAX);
        replicas::cheapest_first(&mut pods.active);
        intents.extend(pods.active[..surplus].iter().flat_map(|pod| replicas::delete(key, parent, *pod)));
    }
    intents.extend(replicas::failed_long_ago(&pods.over, wanted));
    Decision { wake_at, ..Decision::of(intents) }
}

pub fn refused(cluster: &Cluster, key: &Key, why: &str) -> Option<Tale> {
    Some(replicas::refused(key, &cluster.get::<ReplicationView>(key)?.template, why))
}

/// The write of the counts, if the status says others; and the uptime at which they will change though nothing happens.
/// `failure`: why no more pods are made.
fn status(
    key: &Key,
    controller: &ReplicationView,
    active: &[Pod<'_>],
    failure: Option<&str>,
    now: Now,
) -> (Option<Intent>, Option<Duration>) {
    let count = |counts: &dyn Fn(&PodView) -> bool| i32::try_from(active.iter().filter(|(_, pod)| counts(pod)).count()).unwrap_or(i32::MAX);
    let ready = |pod: &PodView| pod.ready == Some(true);
    let available_at = |pod: &PodView| pod.ready_at + controller.min_ready;
    let counts = ReplicationControllerStatus {
        replicas: count(&|_| true),
        fully_labeled_replicas: count(&|pod| selects(&controller.template.labels, pod.labels())),
        ready_replicas: count(&ready),
        available_replicas: count(&|pod| ready(pod) && (controller.min_ready.is_zero() || available_at(pod) <= now.uptime)),
        observed_generation: controller.generation,
        conditions: conditions(&controller.status.conditions, failure, now),
    };
    let later = active.iter().filter(|(_, pod)| ready(pod)).map(|(_, pod)| available_at(pod)).filter(|at| *at > now.uptime).min();
    let intent = (counts != controller.status).then(|| Intent::Status {
        key: key.clone(),
        seen: controller.template.revision,
        status: shown(controller, &counts),
    });
    (intent, later)
}

/// Conditions of other types stay as they are.
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
fn shown(controller: &ReplicationView, counts: &ReplicationControllerStatus) -> Value {
    let document = document(&controller.template.document);
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

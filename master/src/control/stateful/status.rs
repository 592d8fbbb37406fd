//! The status of a StatefulSet. PURE.

use super::super::counts::Counts;
use super::super::intent::Intent;
use super::super::view::PodView;
use super::identity;
use super::seen::Seen;
use super::view::StatefulSetView;
use coracle_api::meta::Key;
use coracle_api::workload::StatefulSetStatus;
use std::time::Duration;

/// The write of the counts, if the status says others; and the uptime at which they will change though nothing happens.
pub fn written(seen: &Seen<'_>, less_current: i32) -> (Option<Intent>, Option<Duration>) {
    let set = seen.set;
    let count = |counts: &dyn Fn(&PodView) -> bool| {
        i32::try_from(seen.pods().filter(|(_, pod)| counts(pod)).count()).unwrap_or(i32::MAX)
    };
    let ready = |pod: &PodView| pod.phase == "Running" && pod.ready == Some(true);
    let of =
        |pod: &PodView, revision: &Key| !pod.deleting && pod.labels().get(identity::REVISION) == Some(&revision.name);
    let mut status = StatefulSetStatus {
        observed_generation: set.generation,
        replicas: count(&|_| true),
        ready_replicas: count(&ready),
        available_replicas: count(&|pod| ready(pod) && pod.available(set.min_ready, seen.now.uptime)),
        current_replicas: count(&|pod| of(pod, seen.current.0)) - less_current,
        updated_replicas: count(&|pod| of(pod, seen.update.0)),
        current_revision: seen.current.0.name.clone(),
        update_revision: seen.update.0.name.clone(),
        collision_count: Some(seen.collisions),
    };
    status.current_replicas = status.current_replicas.max(0);
    let all = [status.updated_replicas, status.ready_replicas, status.replicas];
    if !set.on_delete && all.iter().all(|count| *count == set.replicas) {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
    let available_at = seen.pods().filter(|(_, pod)| ready(pod)).map(|(_, pod)| pod.ready_at + set.min_ready);
    let later = available_at.filter(|at| *at > seen.now.uptime).min();
    ((status != set.status).then(|| shown(seen.key, set, &status)), later)
}

/// How often a name was taken.
pub fn collided(key: &Key, set: &StatefulSetView, collisions: i32) -> Intent {
    shown(key, set, &StatefulSetStatus { collision_count: Some(collisions), ..set.status.clone() })
}

fn shown(key: &Key, set: &StatefulSetView, status: &StatefulSetStatus) -> Intent {
    let mut shown = Counts::of(&set.template.document)
        .unless_zero("observedGeneration", status.observed_generation)
        .always("replicas", i64::from(status.replicas))
        .unless_zero("readyReplicas", i64::from(status.ready_replicas))
        .unless_zero("currentReplicas", i64::from(status.current_replicas))
        .unless_zero("updatedReplicas", i64::from(status.updated_replicas))
        .always("availableReplicas", i64::from(status.available_replicas))
        .maybe("collisionCount", status.collision_count.map(i64::from));
    for (name, text) in [("currentRevision", &status.current_revision), ("updateRevision", &status.update_revision)] {
        if !text.is_empty() {
            shown = shown.text(name, text);
        }
    }
    Intent::Status { key: key.clone(), seen: set.template.revision, status: shown.into() }
}

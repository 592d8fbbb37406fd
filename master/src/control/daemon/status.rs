//! The status of a DaemonSet: each node counts with its oldest pod. PURE.

use super::super::counts::Counts;
use super::super::intent::Intent;
use super::DaemonSetView;
use super::daemons::Daemons;
use coracle_api::meta::Key;
use coracle_api::workload::DaemonSetStatus;
use std::time::Duration;

/// The write of the counts, if the status says others; and the uptime at which they will change though nothing happens.
pub fn written(daemons: &Daemons<'_>) -> (Option<Intent>, Option<Duration>) {
    let set = daemons.set;
    let mut status = DaemonSetStatus {
        observed_generation: set.generation,
        collision_count: set.status.collision_count,
        ..Default::default()
    };
    let mut later: Option<Duration> = None;
    for (name, node) in &daemons.cluster.nodes {
        let first = daemons.on(name).first().copied();
        if !daemons.placing.of(name, node).should_run {
            status.number_misscheduled += i32::from(first.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = first else { continue };
        status.current_number_scheduled += 1;
        status.updated_number_scheduled += i32::from(daemons.is_new(pod));
        if pod.1.ready != Some(true) {
            continue;
        }
        status.number_ready += 1;
        status.number_available += i32::from(daemons.available(pod));
        let at = pod.1.ready_at + set.min_ready;
        if at > daemons.now.uptime {
            later = Some(later.map_or(at, |later| later.min(at)));
        }
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    ((status != set.status).then(|| shown(daemons.key, set, &status)), later)
}

/// The name of a revision was taken.
pub fn collided(key: &Key, set: &DaemonSetView) -> Intent {
    let count = set.status.collision_count.unwrap_or_default().saturating_add(1);
    shown(key, set, &DaemonSetStatus { collision_count: Some(count), ..set.status.clone() })
}

fn shown(key: &Key, set: &DaemonSetView, status: &DaemonSetStatus) -> Intent {
    let shown = Counts::of(&set.template.document)
        .always("currentNumberScheduled", i64::from(status.current_number_scheduled))
        .always("numberMisscheduled", i64::from(status.number_misscheduled))
        .always("desiredNumberScheduled", i64::from(status.desired_number_scheduled))
        .always("numberReady", i64::from(status.number_ready))
        .unless_zero("observedGeneration", status.observed_generation)
        .unless_zero("updatedNumberScheduled", i64::from(status.updated_number_scheduled))
        .unless_zero("numberAvailable", i64::from(status.number_available))
        .unless_zero("numberUnavailable", i64::from(status.number_unavailable))
        .maybe("collisionCount", status.collision_count.map(i64::from));
    Intent::Status { key: key.clone(), seen: set.template.revision, status: shown.into() }
}

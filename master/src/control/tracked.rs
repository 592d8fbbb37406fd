//! The part of a pod that the pod's job reads. PURE.

use super::since::Since;
use coracle_api::meta::{ObjectMeta, Time};
use coracle_api::pod::{ContainerStatus, Pod};
use std::time::Duration;

/// The finalizer of a pod that its job has not counted yet.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";
pub const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracked {
    /// The job has not counted this pod yet.
    pub uncounted: bool,
    pub index: Option<i32>,
    /// Earlier failed pods of the same index; `ignored`: earlier pods whose failure did not count.
    pub failures: i32,
    pub ignored: i32,
    /// Of all its containers.
    pub restarts: i64,
    pub finished: Option<Time>,
    /// Since when it is over, or is being deleted.
    pub over: Option<Since>,
}

impl Tracked {
    /// `None`: no job has to do with it.
    pub fn read(pod: &Pod, was: Option<&Tracked>, known: bool, uptime: Duration) -> Option<Tracked> {
        let meta = &pod.metadata;
        let uncounted = meta.finalizers.iter().any(|one| one == TRACKING);
        if !uncounted && meta.controller().is_none_or(|owner| owner.kind != "Job") {
            return None;
        }
        let number = |name: &str| {
            meta.annotations.get(name).and_then(|text| text.parse::<i32>().ok()).filter(|number| *number >= 0)
        };
        let statuses = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
        let over = pod.status.terminal() || meta.deletion_timestamp.is_some();
        Some(Tracked {
            uncounted,
            index: number(INDEX),
            failures: number(FAILURES).unwrap_or_default(),
            ignored: number(IGNORED).unwrap_or_default(),
            restarts: statuses.map(|status| i64::from(status.restart_count)).sum(),
            finished: over.then(|| finished(pod)).flatten(),
            over: over.then(|| Since::of(was.and_then(|was| was.over), known, uptime)),
        })
    }
}

/// The end of the last container; else the end of readiness, the start of the deletion, or the creation.
fn finished(pod: &Pod) -> Option<Time> {
    let is_sidecar = |status: &&ContainerStatus| {
        pod.spec
            .init_containers
            .iter()
            .any(|container| container.name == status.name && container.restart_policy == "Always")
    };
    let sidecars = pod.status.init_container_statuses.iter().filter(is_sidecar);
    let ends: Option<Vec<Time>> = pod.status.container_statuses.iter().chain(sidecars).map(ended).collect();
    let unready = || pod.status.condition("Ready").filter(|ready| ready.status == "False")?.last_transition_time;
    ends.and_then(|ends| ends.into_iter().max())
        .or_else(unready)
        .or_else(|| deleted(&pod.metadata))
        .or(pod.metadata.creation_timestamp)
}

fn ended(status: &ContainerStatus) -> Option<Time> {
    status.state.terminated.as_ref()?.finished_at
}

fn deleted(meta: &ObjectMeta) -> Option<Time> {
    Time::from_seconds(meta.deletion_timestamp?.seconds() - meta.deletion_grace_period_seconds.unwrap_or_default())
}

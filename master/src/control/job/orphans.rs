//! Pods that wait to be counted by a job that will not: it is gone, or has ended. They are let go. PURE.

use super::{JOBS, JobView};
use crate::control::cluster::Cluster;
use crate::control::controller::{Look, ObservedChange};
use crate::control::intent::{Decision, Intent};
use crate::control::tracked::TRACKING;
use crate::control::view::{PodView, read};
use coracle_api::meta::{Key, ObjectMeta};
use serde::Deserialize;

fn waits(pod: &PodView) -> bool {
    pod.job.as_ref().is_some_and(|said| said.uncounted)
}

pub fn all(cluster: &Cluster) -> Vec<Key> {
    cluster.pods().filter(|(_, pod)| waits(pod)).map(|(key, _)| key.clone()).collect()
}

pub fn by_pod(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    cluster.pod(change.key).filter(|pod| waits(pod)).map(|_| change.key.clone()).into_iter().collect()
}

/// The pods of a job that is gone, or has ended.
pub fn by_job(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let job = cluster.get::<JobView>(change.key);
    let Some(over) = job.filter(|job| job.finished.is_some()).or(change.was().filter(|_| job.is_none())) else {
        return Vec::new();
    };
    let pods = cluster.pods_of(change.key, &over.template.uid).filter(|(_, pod)| waits(pod));
    pods.map(|(key, _)| key.clone()).collect()
}

pub fn decide(look: &Look<'_>) -> Decision {
    let Some(pod) = look.cluster.pod(look.key).filter(|pod| waits(pod)) else { return Decision::default() };
    if is_waited_for(look.cluster, look.key, pod) {
        return Decision::default();
    }
    Decision::of(vec![Intent::Release { key: look.key.clone(), seen: pod.revision, finalizer: Some(TRACKING) }])
}

/// Whether a controller may still count the pod. An unreadable pod or job counts as yes.
fn is_waited_for(cluster: &Cluster, key: &Key, pod: &PodView) -> bool {
    #[derive(Deserialize)]
    struct Owned {
        metadata: ObjectMeta,
    }
    let Some(Owned { metadata }) = read(&pod.document) else { return true };
    let Some(owner) = metadata.controller() else {
        // A job whose selector matches adopts the pod.
        let selects = |job: &JobView| {
            !job.template.deleting && job.finished.is_none() && job.template.selector.selects(pod.labels())
        };
        return !pod.deleting && cluster.within::<JobView>(&key.namespace).any(|(_, job)| selects(job));
    };
    if owner.kind != "Job" || owner.api_version != "batch/v1" {
        return true;
    }
    let job = Key { resource: JOBS, namespace: key.namespace.clone(), name: owner.name.clone() };
    let job_view = cluster.get::<JobView>(&job).filter(|job| job.template.uid == owner.uid);
    cluster.damaged.contains(&job) || job_view.is_some_and(|job| job.foreign || job.finished.is_none())
}

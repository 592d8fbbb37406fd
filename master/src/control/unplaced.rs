//! Pods that are being deleted, are held by a finalizer and were never placed: no agent will report the end of such a
//! pod, and this controller marks the pod as failed. PURE.

use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{Decision, Intent, Memo};
use super::view::{PodView, document};
use coracle_api::meta::Key;
use std::time::Duration;

/// From the deletion on, as far as rounds of Kubernetes' collector of pods are apart: who holds the pod may let go.
const PATIENCE: Duration = Duration::from_secs(20);

fn is_left(pod: &PodView) -> bool {
    pod.deleting && pod.node.is_empty() && !pod.terminal()
}

pub fn all(cluster: &Cluster) -> Vec<Key> {
    cluster.pods().filter(|(_, pod)| is_left(pod)).map(|(key, _)| key.clone()).collect()
}

pub fn by_pod(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    cluster.pod(change.key).filter(|pod| is_left(pod)).map(|_| change.key.clone()).into_iter().collect()
}

pub fn decide(look: &Look<'_>) -> Decision {
    let Some(pod) = look.cluster.pod(look.key).filter(|pod| is_left(pod)) else { return Decision::default() };
    let since = look.remembered::<Option<Duration>>().unwrap_or(look.now.uptime);
    let due = since + PATIENCE;
    if look.now.uptime < due {
        return Decision { wake_at: Some(due), memo: Some(Memo::of(Some(since))), ..Decision::default() };
    }
    let mut status = document(&pod.document)["status"].clone();
    status["phase"] = "Failed".into();
    if pod.generation > 0 {
        status["observedGeneration"] = pod.generation.into();
    }
    Decision::of(vec![Intent::Status { key: look.key.clone(), seen: pod.revision, status }])
}

//! Pods with a DisruptionTarget condition that are not deleted in time: the condition is withdrawn. PURE.

use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{Decision, Intent};
use super::view::{PodView, document};
use coracle_api::meta::{Key, Time};
use coracle_api::strategy::eviction;
use std::time::Duration;

/// A pod that was to be evicted, and is not being deleted after this, stays.
const DELETION_MAX: Duration = Duration::from_secs(120);

pub fn all(cluster: &Cluster) -> Vec<Key> {
    cluster.pods().filter(|(_, pod)| pod.doomed().is_some()).map(|(key, _)| key.clone()).collect()
}

pub fn by_pod(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let doomed = |pod: &PodView| pod.doomed().is_some();
    if change.pods(cluster).any(doomed) { vec![change.key.clone()] } else { Vec::new() }
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (key, now) = (look.key, look.now);
    let pod = look.cluster.pod(key);
    let Some((pod, doomed)) = pod.and_then(|pod| Some((pod, pod.doomed()?))) else { return Decision::default() };
    let left = left(now.wall, doomed);
    if !left.is_zero() {
        return Decision::later(now.uptime + left);
    }
    let status = eviction::spared(&document(&pod.document)["status"], now.wall);
    Decision::of(vec![Intent::Status { key: key.clone(), seen: pod.revision, status }])
}

/// The time that is left for the deletion of a pod that was to be evicted then.
pub fn left(now: Time, since: Time) -> Duration {
    let waited = u64::try_from(now.seconds() - since.seconds()).unwrap_or_default();
    DELETION_MAX.saturating_sub(Duration::from_secs(waited))
}

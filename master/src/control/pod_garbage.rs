//! Ended pods that no client has deleted: a limited number is kept, and the oldest pods beyond the limit go. PURE.

use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{Decision, Intent};
use super::view::{PODS, PodView};
use coracle_api::meta::Key;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pods that have ended and are kept, in all namespaces. Kubernetes keeps 12,500; here each takes some 8 KB of memory
/// and of flash.
pub const ENDED_MAX: usize = 500;

/// Ended pods in the order of their deletion: evicted pods first, because no controller counts them, then the oldest.
#[derive(Default)]
pub struct Ended {
    by_age: BTreeSet<(bool, i64, Arc<Key>)>,
}

impl Ended {
    /// Takes in a pod as it was, and as it is.
    pub fn put(&mut self, key: &Arc<Key>, was: Option<&PodView>, is: Option<&PodView>) {
        // A pod that is being deleted goes by itself, or waits for a finalizer.
        let ended = |pod: &&PodView| pod.terminal() && !pod.deleting;
        let entry =
            |pod: &PodView| (!pod.evicted, pod.created.map_or(i64::MIN, |created| created.seconds()), key.clone());
        if let Some(was) = was.filter(ended) {
            self.by_age.remove(&entry(was));
        }
        if let Some(is) = is.filter(ended) {
            self.by_age.insert(entry(is));
        }
    }

    /// Those that are too many.
    fn beyond(&self, kept: usize) -> impl Iterator<Item = &Key> {
        self.by_age.iter().take(self.by_age.len().saturating_sub(kept)).map(|(.., key)| &**key)
    }
}

/// The controller's only key: all pods that have ended.
pub fn key() -> Key {
    Key { resource: PODS, namespace: String::new(), name: String::new() }
}

pub fn all(_: &Cluster) -> Vec<Key> {
    vec![key()]
}

pub fn by_pod(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    cluster.pod(change.key).filter(|pod| pod.terminal()).map(|_| key()).into_iter().collect()
}

pub fn decide(look: &Look<'_>) -> Decision {
    let cluster = look.cluster;
    let beyond = cluster.ended.beyond(ENDED_MAX).filter_map(|key| Some((key, cluster.pod(key)?)));
    Decision::of(
        beyond.map(|(key, pod)| Intent::Delete { key: key.clone(), seen: pod.revision, at_once: true }).collect(),
    )
}

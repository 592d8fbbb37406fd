//! What a look at a StatefulSet sees. PURE.

use super::super::cluster::Cluster;
use super::super::controller::Now;
use super::super::replicas::Pod;
use super::super::revisions::Revision;
use super::view::StatefulSetView;
use coracle_api::meta::Key;
use std::collections::BTreeMap;

/// What a look at a StatefulSet sees.
pub struct Seen<'c> {
    pub cluster: &'c Cluster,
    pub now: Now,
    pub key: &'c Key,
    pub set: &'c StatefulSetView,
    /// The pods that it is to have, by their numbers.
    pub kept: BTreeMap<i64, Pod<'c>>,
    /// The pods beyond the wanted number; the highest ordinal last.
    pub condemned: BTreeMap<i64, Pod<'c>>,
    pub current: Revision<'c>,
    pub update: Revision<'c>,
    pub collisions: i32,
}

impl<'c> Seen<'c> {
    pub fn pods(&self) -> impl Iterator<Item = Pod<'c>> {
        self.kept.values().chain(self.condemned.values()).copied()
    }

    pub fn available(&self, (_, pod): Pod<'_>) -> bool {
        pod.available(self.set.min_ready, self.now.uptime)
    }

    pub fn unavailable(&self, pod: Pod<'_>) -> bool {
        pod.1.deleting || !self.available(pod)
    }
}

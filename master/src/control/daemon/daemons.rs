//! What a look at a DaemonSet sees. PURE.

use super::super::cluster::Cluster;
use super::super::controller::Now;
use super::super::replicas::Pod;
use super::placing::Placing;
use super::view::DaemonSetView;
use coracle_api::meta::Key;
use serde_json::Value;
use std::collections::BTreeMap;

/// The label with the template's hash on pods and revisions.
pub const HASH: &str = "controller-revision-hash";
pub const GENERATION: &str = "pod-template-generation";

/// What a look at a DaemonSet sees.
pub struct Daemons<'c> {
    pub cluster: &'c Cluster,
    pub now: Now,
    pub key: &'c Key,
    pub set: &'c DaemonSetView,
    pub placing: Placing,
    /// By the nodes that they are on, or meant for. The oldest that is on its node comes first.
    pub pods: BTreeMap<String, Vec<Pod<'c>>>,
    pub hash: String,
    pub memory: Option<&'c Value>,
}

impl<'c> Daemons<'c> {
    pub fn on(&self, node: &str) -> &[Pod<'c>] {
        self.pods.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    pub fn available(&self, (_, pod): Pod<'_>) -> bool {
        pod.available(self.set.min_ready, self.now.uptime)
    }

    /// Made of the present template.
    pub fn is_new(&self, (_, pod): Pod<'_>) -> bool {
        let label = |name: &str| pod.labels().get(name);
        label(HASH) == Some(&self.hash)
            || self.set.template_generation.as_deref().is_some_and(|one| label(GENERATION) == Some(one))
    }

    /// How many nodes are to have a pod.
    pub fn desired(&self) -> i32 {
        let nodes = self.cluster.nodes.iter();
        i32::try_from(nodes.filter(|(name, node)| self.placing.of(name, node).should_run).count()).unwrap_or(i32::MAX)
    }
}

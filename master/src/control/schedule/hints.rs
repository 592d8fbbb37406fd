//! Whether a happening may help a pod that found no node: other pods are not looked at again in vain. PURE.

use super::super::cluster::Cluster;
use super::super::happened::Happening;
use super::super::view::{PodView, document};
use super::rebuff::Filter;
use coracle_api::placement::suits;
use std::collections::BTreeSet;
use std::time::Duration;

/// The last attempt to find a node for a pod.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Happenings that there were.
    count: u64,
    generation: i64,
    labels: coracle_api::labels::LabelSet,
    /// The filters that refused nodes.
    by: BTreeSet<Filter>,
    pub not_before: Duration,
    /// When it was refused last, in uptime, and how often without a rest before.
    refused_at: Duration,
    refusals: u32,
}

/// So often a pod is refused without a rest.
const REFUSALS_MAX: u32 = 3;

impl Tried {
    pub fn now(cluster: &Cluster, pod: &PodView, by: BTreeSet<Filter>) -> Tried {
        let (count, labels) = (cluster.happened.count, pod.labels().clone());
        let (not_before, refused_at) = (Duration::ZERO, Duration::ZERO);
        Tried { count, generation: pod.generation, labels, by, not_before, refused_at, refusals: 0 }
    }

    /// Now; `before` is the attempt before this one.
    pub fn refused(self, before: Option<&Tried>, uptime: Duration, rest: Duration) -> Tried {
        let close = before.filter(|before| uptime < before.refused_at + rest);
        let refusals = close.map_or(0, |before| before.refusals) + 1;
        let not_before = if refusals < REFUSALS_MAX { Duration::ZERO } else { uptime + rest };
        Tried { not_before, refused_at: uptime, refusals, ..self }
    }

    pub fn not_before(self, uptime: Duration) -> Tried {
        Tried { not_before: uptime, ..self }
    }

    /// Whether something has happened that may help. A pod that was changed itself waits for nothing.
    pub fn due(&mut self, cluster: &Cluster, pod: &PodView) -> bool {
        if self.generation != pod.generation || self.labels != *pod.labels() {
            self.not_before = Duration::ZERO;
            return true;
        }
        let helps = match cluster.happened.since(self.count) {
            None => true,
            Some(mut since) => since.any(|happening| self.may_help(happening, cluster, pod)),
        };
        if !helps {
            self.count = cluster.happened.count;
        }
        helps
    }

    fn may_help(&self, happening: &Happening, cluster: &Cluster, pod: &PodView) -> bool {
        let by = |filters: &[Filter]| filters.iter().any(|filter| self.by.contains(filter));
        // A pod that is nowhere sees everything.
        if by(&[Filter::None]) {
            return true;
        }
        match happening {
            Happening::NodeCame(name) => {
                let node = cluster.nodes.get(name);
                let matches = || node.is_some_and(|node| suits(&document(&pod.document)["spec"], name, &node.labels));
                let open = || node.is_some_and(|node| node.taints.is_empty());
                by(&[Filter::Ports, Filter::Resources, Filter::Volumes, Filter::Spread, Filter::Relations])
                    || (by(&[Filter::Affinity]) && matches())
                    || (by(&[Filter::Taints, Filter::Cordon]) && open())
            }
            Happening::NodeChanged(_) | Happening::NodeTaints(_) | Happening::NodeLeft => true,
            Happening::PodLeft => {
                by(&[Filter::Ports, Filter::Resources, Filter::Volumes, Filter::Spread, Filter::Relations])
            }
            Happening::PodCame => by(&[Filter::Spread, Filter::Relations]),
            Happening::PortsLeft => by(&[Filter::Ports]),
            Happening::Storage => by(&[Filter::Volumes]),
        }
    }
}

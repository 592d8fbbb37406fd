//! Why a node does not take a pod. PURE.

use super::super::view::NodeView;
use super::ask::Ask;
use coracle_api::placement::{suits, untolerated};
use std::borrow::Cow;

/// The filter that refuses a node: only some changes may help a pod against a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Filter {
    Cordon,
    Taints,
    Affinity,
    Ports,
    Resources,
    Volumes,
    Spread,
    Relations,
    /// No node was looked at.
    None,
}

/// Why a node does not take a pod, in Kubernetes' words.
#[derive(Clone, Debug, PartialEq)]
pub struct Rebuff {
    pub filter: Filter,
    pub why: Vec<Cow<'static, str>>,
    /// Kubernetes' UnschedulableAndUnresolvable: preemption would not help.
    pub unresolvable: bool,
}

impl Rebuff {
    pub fn of(filter: Filter, why: &'static str) -> Rebuff {
        Rebuff { filter, why: vec![why.into()], unresolvable: false }
    }

    pub fn unresolvable(filter: Filter, why: &'static str) -> Rebuff {
        Rebuff { unresolvable: true, ..Rebuff::of(filter, why) }
    }
}

pub const HARD: [&str; 2] = ["NoSchedule", "NoExecute"];

/// Whether a node counts where constraints look at nodes that the pod could stand on.
pub fn included(node: &NodeView, name: &str, ask: &Ask<'_>, honor_affinity: bool, honor_taints: bool) -> bool {
    (!honor_affinity || suits(&ask.spec, name, &node.labels))
        && (!honor_taints || untolerated(&node.taints, &ask.tolerations, &HARD).is_none())
}

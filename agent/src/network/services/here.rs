//! The host that the rules of services are for. PURE.

use super::outer::Outer;

/// The host that the rules are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleHost {
    pub node: String,
    /// Empty where nobody said.
    pub zone: String,
    /// Where this node's pods live.
    pub pod_cidr: String,
    /// Whether the kernel's rules see packets between ports of the same bridge. If not, a pod's answer to another pod
    /// of this node would bypass the rules.
    pub bridges_are_seen: bool,
    /// Which addresses outside of the cluster are served here.
    pub outer: Outer,
}

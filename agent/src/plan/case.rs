//! The inputs of a decision: the wanted pods, the state of this host, and the time. PURE.

use super::renewal::{self, Renewal};
use super::rules::{Rule, Rules};
use crate::facts::backoff::Now;
use crate::facts::desired::Desired;
use crate::facts::round::StopReason;
use crate::facts::seen::{self, Run};
use crate::facts::wanted::Wanted;
use crate::facts::world::World;

/// All that a decision may look at.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    pub desired: &'a Desired,
    pub world: &'a World,
    pub now: Now,
    pub rules: Rules,
}

/// All that a decision over one pod looks at.
#[derive(Clone, Copy)]
pub struct PodCase<'a> {
    pub case: Case<'a>,
    pub wanted: &'a Wanted,
    pub runs: &'a [Run<'a>],
    /// Empty while it has none.
    pub address: &'a str,
    pub renewal: Renewal,
}

impl<'a> PodCase<'a> {
    pub fn new(case: Case<'a>, wanted: &'a Wanted, runs: &'a [Run<'a>]) -> PodCase<'a> {
        let address = seen::address(runs, wanted.pod.spec.host_network, &case.world.node.address).unwrap_or_default();
        let asked = case.world.restart(&wanted.name.uid).round;
        let renewal = if case.rules.hold(Rule::AllRestartTogether) {
            renewal::of(wanted, runs, asked)
        } else {
            Renewal::default()
        };
        PodCase { case, wanted, runs, address, renewal }
    }

    /// Why a container that is not as wanted starts. `sandbox`: that of its last start.
    pub fn why_anew(&self, sandbox: Option<u32>) -> StopReason {
        let updated = sandbox.is_some_and(|sandbox| sandbox < self.sandbox_min());
        if updated { StopReason::Updated } else { StopReason::Edited }
    }

    /// The smallest attempt number of a sandbox that is not older than an update of the pod.
    pub fn sandbox_min(&self) -> u32 {
        self.case.desired.update_of(&self.wanted.name.uid).map_or(0, |update| update.sandbox)
    }
}

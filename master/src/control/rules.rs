//! The rules of the controllers that the simulation of a cluster switches off, one at a time, to show that each is
//! needed and would be missed. PURE.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlRule {
    /// A rollout makes no more pods than its surge allows.
    SurgeIsBounded,
    /// A rollout takes away no more available pods than may be missing.
    EnoughStayAvailable,
    /// A pod whose state is lost does not count as missing.
    UntoldIsNotMissing,
    /// `Recreate` makes no new pod while an old one runs.
    RecreateWaits,
    /// Pods beyond the number asked for go.
    SurplusPodsGo,
    /// Pods that match and have no owner are adopted.
    OrphansAreAdopted,
    /// A StatefulSet's pods come in order.
    OrderIsKept,
    /// A StatefulSet's pod that is over is replaced.
    EndedPodsAreReplaced,
    /// A job counts each pod once.
    JobsCountOnce,
    /// A cron job that forbids it has one job at a time.
    ForbidWaits,
    /// Ended jobs of a cron job are kept up to a limit.
    HistoryIsLimited,
    /// A node that is silent for too long is unknown.
    SilentNodesAreUnknown,
    /// A node that speaks again loses its taints.
    ReturningNodesAreOpen,
    /// The pods of a node that stays away are deleted.
    SilentNodesLoseTheirPods,
    /// Unless it comes back in time.
    PodsOfReturningNodesStay,
    /// The pods of a node that was deleted are given up.
    PodsOfLostNodesAreGivenUp,
    /// Objects whose owners are gone are collected.
    OwnedObjectsAreCollected,
    /// A cordoned node gets no pods.
    CordonsAreKept,
    /// A tainted node gets no pods that do not bear it.
    TaintsAreKept,
    /// A node gets no more pods than fit.
    RoomIsCounted,
    /// Only ready pods serve.
    OnlyReadyPodsServe,
    /// A bound volume belongs to a single claim.
    BoundVolumesAreTaken,
    /// A DaemonSet's update takes away no more pods than may be missing.
    DaemonsStayAvailable,
    /// A StatefulSet's update goes on when the pod before is available again.
    UpdatesGoOneByOne,
    /// Ended jobs go when their time is over.
    EndedJobsGo,
    /// Pods of less importance make room.
    ImportantPodsGetRoom,
    /// Pods that are to be apart stand apart.
    PodsStandApart,
    /// The objects in a terminating namespace are deleted.
    EndingNamespacesAreEmptied,
    /// A budget allows no more than is healthy beyond what it keeps.
    BudgetsCountTheHealthy,
}

impl ControlRule {
    pub const ALL: [ControlRule; 29] = [
        ControlRule::SurgeIsBounded,
        ControlRule::EnoughStayAvailable,
        ControlRule::UntoldIsNotMissing,
        ControlRule::RecreateWaits,
        ControlRule::SurplusPodsGo,
        ControlRule::OrphansAreAdopted,
        ControlRule::OrderIsKept,
        ControlRule::EndedPodsAreReplaced,
        ControlRule::JobsCountOnce,
        ControlRule::ForbidWaits,
        ControlRule::HistoryIsLimited,
        ControlRule::SilentNodesAreUnknown,
        ControlRule::ReturningNodesAreOpen,
        ControlRule::SilentNodesLoseTheirPods,
        ControlRule::PodsOfReturningNodesStay,
        ControlRule::PodsOfLostNodesAreGivenUp,
        ControlRule::OwnedObjectsAreCollected,
        ControlRule::CordonsAreKept,
        ControlRule::TaintsAreKept,
        ControlRule::RoomIsCounted,
        ControlRule::OnlyReadyPodsServe,
        ControlRule::BoundVolumesAreTaken,
        ControlRule::BudgetsCountTheHealthy,
        ControlRule::DaemonsStayAvailable,
        ControlRule::UpdatesGoOneByOne,
        ControlRule::EndedJobsGo,
        ControlRule::ImportantPodsGetRoom,
        ControlRule::PodsStandApart,
        ControlRule::EndingNamespacesAreEmptied,
    ];
}

/// All of them hold, except in the simulation's own test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlRules {
    pub switched_off: Option<ControlRule>,
}

impl ControlRules {
    pub fn hold(self, rule: ControlRule) -> bool {
        self.switched_off != Some(rule)
    }
}

//! What a history is about when one rule of the controllers is to be missed in it: few workloads, and often what that
//! rule is for. Without a rule to look for, anything may happen.

use coracle_master::control::rules::ControlRule;

/// The workloads that a history may ask for.
pub const WORKLOADS: [&str; 12] =
    ["web", "app", "db", "each", "once", "tick", "doomed", "disk", "brief", "vip", "apart", "room"];

#[derive(Clone, Copy, Debug)]
pub struct Theme {
    /// `None`: some of all of them, as chance has it.
    pub workloads: Option<&'static [&'static str]>,
    /// What happens in every other operation.
    pub deed: Option<Deed>,
}

/// What people and the world do to a cluster.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    /// A rollout.
    RollWeb,
    Pause,
    RollApp,
    RollDb,
    RollEach,
    RollApart,
    ScaleApp,
    /// What is important comes once the others have the room, and goes.
    ScaleVip,
    ScaleDb,
    RemoveApp,
    /// Somebody cordons a node, or opens it.
    Cordon,
    /// A node is deleted that may come back at once.
    RemoveNode,
    /// A host is taken away, and its node is deleted.
    TakeHost,
    /// A host is not reached, or is reached again.
    CutOff,
    /// A pod is evicted or deleted.
    RemovePod,
    Evict,
    /// Somebody takes the owner out of a pod.
    Disown,
    /// A pod gets a deadline, and ends.
    EndPod,
    /// Somebody writes of a pod that it has failed, or succeeded.
    EndByHand,
    /// Namespace `room` is deleted.
    EndRoom,
    /// A rollout begins, and the master dies and comes back in the middle of it.
    RestartInRollout,
}

impl Theme {
    pub fn of(rule: Option<ControlRule>) -> Theme {
        use Deed::*;
        let Some(rule) = rule else { return Theme { workloads: None, deed: None } };
        let (workloads, deed): (&'static [&'static str], Deed) = match rule {
            ControlRule::SurgeIsBounded | ControlRule::EnoughStayAvailable => (&["web"], RollWeb),
            ControlRule::UntoldIsNotMissing => (&["web"], RestartInRollout),
            ControlRule::RecreateWaits => (&["app"], RollApp),
            ControlRule::SurplusPodsGo => (&["app"], ScaleApp),
            ControlRule::OrphansAreAdopted => (&["web", "db"], Disown),
            ControlRule::OrderIsKept => (&["db"], ScaleDb),
            ControlRule::EndedPodsAreReplaced => (&["db"], EndPod),
            ControlRule::JobsCountOnce => (&["once"], RemovePod),
            ControlRule::ForbidWaits | ControlRule::HistoryIsLimited => (&["tick"], CutOff),
            ControlRule::SilentNodesAreUnknown | ControlRule::ReturningNodesAreOpen => (&["each"], CutOff),
            ControlRule::SilentNodesLoseTheirPods | ControlRule::PodsOfReturningNodesStay => (&["web"], CutOff),
            ControlRule::PodsOfLostNodesAreGivenUp => (&["web", "each"], TakeHost),
            ControlRule::OwnedObjectsAreCollected => (&["app"], RemoveApp),
            ControlRule::CordonsAreKept => (&["web", "once"], Cordon),
            ControlRule::TaintsAreKept => (&["web", "db"], RemoveNode),
            ControlRule::RoomIsCounted => (&["app"], ScaleApp),
            ControlRule::OnlyReadyPodsServe => (&["web"], RollWeb),
            ControlRule::BoundVolumesAreTaken => (&["disk"], CutOff),
            ControlRule::BudgetsCountTheHealthy => (&["web"], Evict),
            ControlRule::DaemonsStayAvailable => (&["each"], RollEach),
            ControlRule::UpdatesGoOneByOne => (&["db"], RollDb),
            ControlRule::EndedJobsGo => (&["brief"], CutOff),
            ControlRule::ImportantPodsGetRoom => (&["app", "vip"], ScaleVip),
            ControlRule::PodsStandApart => (&["apart"], RollApart),
            ControlRule::EndingNamespacesAreEmptied => (&["room"], EndRoom),
        };
        Theme { workloads: Some(workloads), deed: Some(deed) }
    }
}

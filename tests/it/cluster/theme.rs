//! What a history is about when one rule of the controllers is to be missed in it: few workloads, and often what that
//! rule is for. Without a rule to look for, anything may happen.

use coracle_master::control::rules::Rule;

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
    /// Namespace `room` is deleted.
    EndRoom,
    /// A rollout begins, and the master dies and comes back in the middle of it.
    RestartInRollout,
}

impl Theme {
    pub fn of(rule: Option<Rule>) -> Theme {
        use Deed::*;
        let Some(rule) = rule else { return Theme { workloads: None, deed: None } };
        let (workloads, deed): (&'static [&'static str], Deed) = match rule {
            Rule::SurgeIsBounded | Rule::EnoughStayAvailable => (&["web"], RollWeb),
            Rule::UntoldIsNotMissing => (&["web"], RestartInRollout),
            Rule::RecreateWaits => (&["app"], RollApp),
            Rule::SurplusPodsGo => (&["app"], ScaleApp),
            Rule::OrphansAreAdopted => (&["web", "db"], Disown),
            Rule::OrderIsKept => (&["db"], ScaleDb),
            Rule::EndedPodsAreReplaced => (&["db"], EndPod),
            Rule::JobsCountOnce => (&["once"], RemovePod),
            Rule::ForbidWaits | Rule::HistoryIsLimited => (&["tick"], CutOff),
            Rule::SilentNodesAreUnknown | Rule::ReturningNodesAreOpen => (&["each"], CutOff),
            Rule::SilentNodesLoseTheirPods | Rule::PodsOfReturningNodesStay => (&["web"], CutOff),
            Rule::PodsOfLostNodesAreGivenUp => (&["web", "each"], TakeHost),
            Rule::OwnedObjectsAreCollected => (&["app"], RemoveApp),
            Rule::CordonsAreKept => (&["web", "once"], Cordon),
            Rule::TaintsAreKept => (&["web", "db"], RemoveNode),
            Rule::RoomIsCounted => (&["app"], ScaleApp),
            Rule::OnlyReadyPodsServe => (&["web"], RollWeb),
            Rule::BoundVolumesAreTaken => (&["disk"], CutOff),
            Rule::BudgetsCountTheHealthy => (&["web"], Evict),
            Rule::DaemonsStayAvailable => (&["each"], RollEach),
            Rule::UpdatesGoOneByOne => (&["db"], RollDb),
            Rule::EndedJobsGo => (&["brief"], CutOff),
            Rule::ImportantPodsGetRoom => (&["app", "vip"], ScaleApp),
            Rule::PodsStandApart => (&["apart"], RollApart),
            Rule::EndingNamespacesAreEmptied => (&["room"], EndRoom),
        };
        Theme { workloads: Some(workloads), deed: Some(deed) }
    }
}

//! What a history is about when one rule is to be missed in it: pods that have what the rule is for, and often what
//! puts it to the test. Without a rule to look for, anything may happen.

use coracle_agent::plan::Rule;

/// Of a hundred pods, so many have it.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    pub init: u64,
    pub probes: u64,
    pub hooks: u64,
    /// Of a hundred postStart hooks of a first container, so many hang.
    pub hanging: u64,
    pub content: u64,
    pub resources: u64,
    pub deadline: u64,
    /// Containers with restart policies and rules of their own.
    pub own_policies: u64,
    /// One container's rule starts all of them anew.
    pub restart_all: u64,
    pub ports: u64,
    pub refused: u64,
    /// From the master, not a file.
    pub master: u64,
    /// A policy for all pods; None: any.
    pub policy: Option<&'static str>,
}

const ANY: Traits = Traits {
    init: 35,
    probes: 30,
    hooks: 30,
    hanging: 4,
    content: 30,
    resources: 35,
    deadline: 6,
    own_policies: 20,
    restart_all: 12,
    ports: 30,
    refused: 7,
    master: 50,
    policy: None,
};

#[derive(Clone, Copy, Debug)]
pub struct Theme {
    pub traits: Traits,
    /// What happens in every other step.
    pub deed: Option<Deed>,
    /// Of a hundred histories, so many are without lost calls and late listings.
    pub calm: u64,
}

/// What people and the world do to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    AddPod,
    EditContainer,
    EditShared,
    ChangeContainers,
    Delete,
    Remove,
    Revive,
    LoseSight,
    Kill,
    KillSandbox,
    RemoveByHand,
    /// With Docker's own commands, beside the agent: `restart` or `start`, and the same while no agent looks.
    Restart,
    RestartUnseen,
    Pause,
    Rename,
    /// A container with the labels of one.
    Copy,
    /// `update --restart=always`
    RestartAlways,
    Prune,
    /// While no agent looks.
    RemoveUnseen,
    Jump,
    Crash,
    Outage,
    Stuck,
    Debug,
    /// Checks of a container begin or cease to fail.
    Sicken,
    Resize,
    /// A ConfigMap or Secret is written or deleted.
    ChangeObject,
    /// The host is short of something, or no more.
    Strain,
    Evict,
    /// Somebody writes to the API that a pod has failed, or succeeded.
    EndByHand,
}

impl Deed {
    /// Each as often as it stands here.
    pub const ALL: [Deed; 42] = [
        Deed::AddPod,
        Deed::AddPod,
        Deed::EditContainer,
        Deed::EditContainer,
        Deed::EditShared,
        Deed::ChangeContainers,
        Deed::Delete,
        Deed::Remove,
        Deed::Revive,
        Deed::LoseSight,
        Deed::Kill,
        Deed::Kill,
        Deed::KillSandbox,
        Deed::RemoveByHand,
        Deed::RemoveUnseen,
        Deed::Jump,
        Deed::Crash,
        Deed::Crash,
        Deed::Outage,
        Deed::Stuck,
        Deed::Debug,
        Deed::Sicken,
        Deed::Sicken,
        Deed::Sicken,
        Deed::Sicken,
        Deed::Resize,
        Deed::Resize,
        Deed::ChangeObject,
        Deed::ChangeObject,
        Deed::ChangeObject,
        Deed::Strain,
        Deed::Evict,
        Deed::Restart,
        Deed::Restart,
        Deed::RestartUnseen,
        Deed::Pause,
        Deed::Pause,
        Deed::Rename,
        Deed::Copy,
        Deed::RestartAlways,
        Deed::Prune,
        Deed::EndByHand,
    ];
}

impl Theme {
    pub fn of(rule: Option<Rule>) -> Theme {
        let any = Theme { traits: ANY, deed: None, calm: 30 };
        let Some(rule) = rule else { return any };
        let about = |traits: Traits, deed: Deed| Theme { traits, deed: Some(deed), calm: 70 };
        match rule {
            Rule::InitContainersComeFirst => about(Traits { init: 100, ..ANY }, Deed::KillSandbox),
            Rule::SidecarsComeUpFirst => about(Traits { init: 100, probes: 100, ..ANY }, Deed::Crash),
            Rule::SidecarsEndLast => about(Traits { init: 100, hooks: 60, ..ANY }, Deed::Delete),
            Rule::PreStopComesFirst => about(Traits { hooks: 100, ..ANY }, Deed::EditContainer),
            Rule::PreStopRunsOnce => Theme { calm: 0, ..about(Traits { hooks: 100, ..ANY }, Deed::EditContainer) },
            Rule::HooksGiveWay => about(Traits { hooks: 100, hanging: 80, ..ANY }, Deed::Delete),
            Rule::SickIsStopped => about(Traits { probes: 100, hooks: 60, ..ANY }, Deed::Sicken),
            Rule::AllRestartTogether => about(Traits { restart_all: 100, init: 60, ..ANY }, Deed::Kill),
            Rule::EndedStayEnded => about(ANY, Deed::Restart),
            Rule::PausedGoOn => about(ANY, Deed::Pause),
            Rule::EphemeralsStartOnce => about(Traits { master: 100, ..ANY }, Deed::Debug),
            Rule::RecordedEndsStay => about(Traits { master: 100, policy: Some("Never"), ..ANY }, Deed::RemoveUnseen),
            Rule::EndsAreFinal => about(Traits { master: 100, policy: Some("Always"), ..ANY }, Deed::EndByHand),
            Rule::ContentsComeFirst | Rule::ContentsFollow => about(Traits { content: 100, ..ANY }, Deed::ChangeObject),
            Rule::ResizesAreMade => about(Traits { resources: 100, ..ANY }, Deed::Resize),
            Rule::ResizesWaitForRoom => about(Traits { resources: 100, init: 0, ..ANY }, Deed::Resize),
            Rule::EndedPodsFree => about(Traits { policy: Some("Never"), init: 0, ..ANY }, Deed::AddPod),
            Rule::EvictedPodsFree => about(Traits { master: 100, ..ANY }, Deed::Evict),
            Rule::StrainFreesDead => about(Traits { policy: Some("Always"), ..ANY }, Deed::Strain),
            Rule::EvictedPodsEnd => about(Traits { master: 100, ..ANY }, Deed::Evict),
            Rule::StrainKeepsPodsOut => about(Traits { master: 100, resources: 0, ..ANY }, Deed::Strain),
            Rule::DeadlinesEnd => about(Traits { deadline: 100, ..ANY }, Deed::EditContainer),
            Rule::PortsAreTaken => about(Traits { ports: 100, master: 0, ..ANY }, Deed::AddPod),
            Rule::RefusedPodsWait => about(Traits { refused: 60, ..ANY }, Deed::AddPod),
            Rule::UnknownIsNotAbsent => about(ANY, Deed::LoseSight),
            Rule::GonePodsEnd | Rule::VolumesGoLast => about(ANY, Deed::Remove),
            Rule::DeletedPodsEnd => about(ANY, Deed::Delete),
            Rule::EditsReplaceTheContainer | Rule::RemovalsFirst | Rule::GarbageIsRemoved | Rule::GraceEnds => {
                about(ANY, Deed::EditContainer)
            }
            Rule::EditsReplaceTheSandbox => about(ANY, Deed::EditShared),
            Rule::StrangersEnd => about(ANY, Deed::ChangeContainers),
            Rule::MembersFollowTheirSandbox => about(ANY, Deed::KillSandbox),
            Rule::PolicyDecides => about(Traits { own_policies: 60, ..ANY }, Deed::Kill),
            Rule::HalfMadeIsBegun | Rule::SetbacksRest | Rule::BusyPodsWait => {
                Theme { calm: 0, ..about(ANY, Deed::Crash) }
            }
            Rule::RestartsBackOff | Rule::PullsBackOff | Rule::LocalImageWillDo | Rule::FinishedPodsRest => {
                about(ANY, Deed::EditContainer)
            }
        }
    }
}

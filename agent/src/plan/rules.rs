//! The rules of the plan: each a switch that the simulation turns off. PURE.

/// The rules that the simulation switches off one at a time, to show that each is needed and would be missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Never two actions in flight for one pod.
    BusyPodsWait,
    /// A pod that its source may still want is not stopped.
    UnknownIsNotAbsent,
    /// A pod that is gone is stopped.
    GonePodsEnd,
    /// A pod whose deletion was asked for is stopped, but what it was stays to be reported.
    DeletedPodsEnd,
    /// A container that was edited is replaced.
    EditsReplaceTheContainer,
    /// A pod whose shared part was edited is replaced.
    EditsReplaceTheSandbox,
    /// Containers that the pod no longer has are stopped.
    StrangersEnd,
    /// Members of a sandbox that is no more are replaced.
    MembersFollowTheirSandbox,
    /// A sandbox is replaced only when nothing of the old one runs.
    RemovalsFirst,
    /// Init containers run one after the other, and the main ones after them.
    InitContainersComeFirst,
    /// What stands behind a sidecar waits until it is up.
    SidecarsComeUpFirst,
    /// Sidecars end one by one after all ordinary containers.
    SidecarsEndLast,
    /// The restart policy says whether what ended starts again.
    PolicyDecides,
    /// A container with a `RestartAllContainers` rule restarts the whole pod.
    AllRestartTogether,
    /// What has ended for good, by its master's record, does not start again.
    RecordedEndsStay,
    /// A container that has ended once and was started again beside the agent is stopped.
    EndedStayEnded,
    /// A container that was paused beside the agent goes on.
    PausedGoOn,
    /// A pod that has ended, by whoever's word, ends with all of its containers and does not run again.
    EndsAreFinal,
    /// An ephemeral container starts once and never again.
    EphemeralsStartOnce,
    /// Restarts wait longer and longer.
    RestartsBackOff,
    /// A container that was made and not started is started.
    HalfMadeIsBegun,
    /// A container that ignores its signal is killed when the grace period is over.
    GraceEnds,
    /// The preStop hook runs before the signal.
    PreStopComesFirst,
    /// And not again for the same end.
    PreStopRunsOnce,
    /// A hook is not waited for when its container is to end, or has ended.
    HooksGiveWay,
    /// A container that fails its liveness probe or its postStart hook is stopped.
    SickIsStopped,
    /// Of two pods with one host port the later waits.
    PortsAreTaken,
    /// Pulls wait longer and longer.
    PullsBackOff,
    /// Always, with the registry out of reach and the image here, starts.
    LocalImageWillDo,
    /// A pod that has run to completion stops its sandbox.
    FinishedPodsRest,
    /// Dead containers are removed but for the last two.
    GarbageIsRemoved,
    /// An ended pod keeps only the last instance of each container.
    EndedPodsFree,
    /// An evicted pod keeps no container.
    EvictedPodsFree,
    /// A host with little free disk keeps no dead container unless a later decision needs the container.
    StrainFreesDead,
    /// Volumes go after the last container.
    VolumesGoLast,
    /// A pod with a field that is not supported is not started.
    RefusedPodsWait,
    /// After a failed action the pod rests for a moment.
    SetbacksRest,
    /// Nothing starts before the volumes hold what they are to hold.
    ContentsComeFirst,
    /// Volumes follow changes to their ConfigMaps and Secrets.
    ContentsFollow,
    /// Running containers get the currently requested resources.
    ResizesAreMade,
    /// A pod grows when there is room for it.
    ResizesWaitForRoom,
    /// A pod that was evicted ends.
    EvictedPodsEnd,
    /// A pod that took longer than it may ends.
    DeadlinesEnd,
    /// A host that is short of something takes no new pods.
    StrainKeepsPodsOut,
}

impl Rule {
    pub const ALL: [Rule; 44] = [
        Rule::BusyPodsWait,
        Rule::UnknownIsNotAbsent,
        Rule::GonePodsEnd,
        Rule::DeletedPodsEnd,
        Rule::EditsReplaceTheContainer,
        Rule::EditsReplaceTheSandbox,
        Rule::StrangersEnd,
        Rule::MembersFollowTheirSandbox,
        Rule::RemovalsFirst,
        Rule::InitContainersComeFirst,
        Rule::SidecarsComeUpFirst,
        Rule::SidecarsEndLast,
        Rule::PolicyDecides,
        Rule::AllRestartTogether,
        Rule::RecordedEndsStay,
        Rule::EndedStayEnded,
        Rule::PausedGoOn,
        Rule::EndsAreFinal,
        Rule::EphemeralsStartOnce,
        Rule::RestartsBackOff,
        Rule::HalfMadeIsBegun,
        Rule::GraceEnds,
        Rule::PreStopComesFirst,
        Rule::PreStopRunsOnce,
        Rule::HooksGiveWay,
        Rule::SickIsStopped,
        Rule::PortsAreTaken,
        Rule::PullsBackOff,
        Rule::LocalImageWillDo,
        Rule::FinishedPodsRest,
        Rule::GarbageIsRemoved,
        Rule::EndedPodsFree,
        Rule::EvictedPodsFree,
        Rule::StrainFreesDead,
        Rule::VolumesGoLast,
        Rule::RefusedPodsWait,
        Rule::SetbacksRest,
        Rule::ContentsComeFirst,
        Rule::ContentsFollow,
        Rule::ResizesAreMade,
        Rule::ResizesWaitForRoom,
        Rule::EvictedPodsEnd,
        Rule::DeadlinesEnd,
        Rule::StrainKeepsPodsOut,
    ];
}

/// All of them hold, except in the simulation's own test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub switched_off: Option<Rule>,
}

impl Rules {
    pub fn hold(self, rule: Rule) -> bool {
        self.switched_off != Some(rule)
    }
}

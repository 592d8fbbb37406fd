//! Compares what is wanted with what is there, and lists what to do. PURE.
//!
//! `seen` reads the listing into pods, `ports` says who may have which port of the host, `pods` decides over one pod (its sandbox in
//! `sandbox`, its containers in `containers`, with `images` and `backoff`), `stops` ends what has to end, `garbage` clears up.
//! `memory` is what the loop saw itself and the engine does not tell.

pub mod backoff;
pub mod checks;
pub mod containers;
pub mod garbage;
pub mod images;
pub mod memory;
pub mod pods;
pub mod ports;
pub mod sandbox;
pub mod seen;
pub mod stops;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::desired::{Desired, Wanted};
use crate::naming::PodName;
use crate::runtime::{Check, ContainerConfig, Image, Seen, Volume};
pub use memory::Memory;

/// Both clocks at one moment. Timers use the monotonic one; the wall clock is for what is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    pub wall_ms: i64,
    /// Since the agent started; what happened before that is negative.
    pub mono_ms: i64,
}

/// What there is, and what cannot be read off the engine.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub node: Node,
    /// One whole listing of the engine.
    pub containers: Vec<Seen>,
    /// Uids of pods that have volumes on this host.
    pub volumes: BTreeSet<String>,
    /// The images that were looked up for this round: None is absent, a missing key was not asked for.
    pub images: BTreeMap<String, Option<Image>>,
    /// What the probes found, by the engine's container id.
    pub verdicts: Verdicts,
    /// Pods with an action in flight, by uid.
    pub busy: BTreeSet<String>,
    pub memory: Memory,
}

/// Facts of this host that stay while the agent runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub address: String,
    pub data_dir: String,
    pub cpu_milli: u64,
    pub memory_bytes: u64,
    /// The id of the pause image (`sha256:...`), known before it is loaded.
    pub pause_image: String,
}

pub type Verdicts = BTreeMap<String, Verdict>;

/// What the probes of one container found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Of the readiness probe; None before its first result. Without a probe nobody asks.
    pub ready: Option<bool>,
    /// Set once the liveness probe failed as often as its threshold says: the last output, in words.
    pub dead: Option<String>,
}

/// What to do now. Actions of one pod run in their order and stop at the first failure; pods run side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// By uid.
    pub pods: BTreeMap<String, Vec<Action>>,
    pub pulls: Vec<PullWanted>,
    /// When to look again though nothing happened (monotonic).
    pub wake_at_ms: Option<i64>,
    /// What wanted pods wait for, by uid: what their statuses and the log say.
    pub waits: BTreeMap<String, Waits>,
}

/// Pulls belong to no pod's order: a slow registry holds up nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullWanted {
    pub pod: PodName,
    pub container: String,
    pub attempt: u32,
    pub image: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    pub what: What,
    /// Why, for the log.
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    MakeVolumes {
        volumes: Vec<Volume>,
    },
    /// Create and start.
    Start(Box<Start>),
    /// Start what was made before.
    Begin(Box<Begin>),
    /// All at once: preStop, then the signal.
    Stop(Vec<Stop>),
    /// The grace is over.
    Kill {
        id: String,
        container: String,
    },
    Remove {
        id: String,
        container: String,
    },
    RemoveVolumes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub pod: PodName,
    pub container: String,
    pub attempt: u32,
    pub step: u32,
    pub config: ContainerConfig,
    pub post_start: Option<Check>,
    /// The image was pulled for this start: no event says that it was here already.
    pub pulled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    pub id: String,
    pub container: String,
    pub post_start: Option<Check>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    pub id: String,
    pub container: String,
    pub pre_stop: Option<Check>,
    pub signal: String,
    pub grace_ms: i64,
}

/// What one pod waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The pod as a whole: a refused field, a taken port, a sandbox that cannot start.
    pub pod: Option<Waiting>,
    pub containers: BTreeMap<String, Waiting>,
}

/// In the words of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub reason: String,
    pub message: String,
}

impl Waiting {
    pub fn new(reason: &str, message: impl Into<String>) -> Waiting {
        Waiting { reason: reason.to_owned(), message: message.into() }
    }
}

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
    /// The restart policy says whether what ended starts again.
    PolicyDecides,
    /// An ephemeral container starts once and never again.
    EphemeralsStartOnce,
    /// Restarts wait longer and longer.
    RestartsBackOff,
    /// What was made and not started is started.
    HalfMadeIsBegun,
    /// What ignores its signal is killed when the grace is over.
    GraceEnds,
    /// What fails its liveness probe, or its postStart hook, is stopped.
    SickIsStopped,
    /// Of two pods with one host port the later waits.
    PortsAreTaken,
    /// Pulls wait longer and longer.
    PullsBackOff,
    /// Always, with the registry out of reach and the image here, starts.
    LocalImageWillDo,
    /// A pod that has run to its end stops its sandbox.
    FinishedPodsRest,
    /// Dead containers are removed but for the last two.
    GarbageIsRemoved,
    /// Volumes go after the last container.
    VolumesGoLast,
    /// A pod with a field that is not supported is not started.
    RefusedPodsWait,
    /// After a failed action the pod rests for a moment.
    SetbacksRest,
}

impl Rule {
    pub const ALL: [Rule; 23] = [
        Rule::BusyPodsWait,
        Rule::UnknownIsNotAbsent,
        Rule::GonePodsEnd,
        Rule::DeletedPodsEnd,
        Rule::EditsReplaceTheContainer,
        Rule::EditsReplaceTheSandbox,
        Rule::StrangersEnd,
        Rule::MembersFollowTheirSandbox,
        Rule::RemovalsFirst,
        Rule::PolicyDecides,
        Rule::EphemeralsStartOnce,
        Rule::RestartsBackOff,
        Rule::HalfMadeIsBegun,
        Rule::GraceEnds,
        Rule::SickIsStopped,
        Rule::PortsAreTaken,
        Rule::PullsBackOff,
        Rule::LocalImageWillDo,
        Rule::FinishedPodsRest,
        Rule::GarbageIsRemoved,
        Rule::VolumesGoLast,
        Rule::RefusedPodsWait,
        Rule::SetbacksRest,
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

/// All that a decision may look at.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    pub desired: &'a Desired,
    pub world: &'a World,
    pub now: Now,
    pub rules: Rules,
}

pub fn plan(case: Case<'_>) -> Round {
    let pods = seen::group(&case.world.containers);
    let mut ports = ports::Ports::held(&pods);
    let mut round = Round::default();
    let nothing = Vec::new();
    for wanted in in_order(case.desired) {
        let uid = &wanted.name.uid;
        let runs = pods.get(uid).map_or(&nothing, |pod| &pod.runs);
        let mut part = pods::decide(case, wanted, runs, &mut ports);
        if case.world.busy.contains(uid) && case.rules.hold(Rule::BusyPodsWait) {
            part.actions.clear();
            part.pulls.clear();
        }
        round.add(uid, part);
    }
    for (uid, pod) in &pods {
        let busy = case.world.busy.contains(uid) && case.rules.hold(Rule::BusyPodsWait);
        if !busy && !case.desired.pods.contains_key(uid) {
            round.add(uid, garbage::leftover_pod(case, pod));
        }
    }
    for uid in &case.world.volumes {
        if !pods.contains_key(uid) && !case.desired.pods.contains_key(uid) && !case.world.busy.contains(uid) {
            round.add(uid, garbage::leftover_volumes(case, uid));
        }
    }
    round
}

/// The images that `plan` will ask about: those of containers that have to be started.
pub fn images_needed(case: Case<'_>) -> BTreeSet<String> {
    let pods = seen::group(&case.world.containers);
    let nothing = Vec::new();
    let mut needed = BTreeSet::new();
    for (uid, wanted) in &case.desired.pods {
        let runs = pods.get(uid).map_or(&nothing, |pod| &pod.runs);
        let spec = &wanted.pod.spec;
        let waits = spec.containers.iter().filter(|container| !seen::of(runs, &container.name).any(|run| run.seen.runs()));
        // One that starts once and has been made needs its image no more.
        let never_made = spec.ephemeral_containers.iter().filter(|container| seen::of(runs, &container.name).next().is_none());
        // An engine is not asked about what can be no name: one answers `a//b` with a redirection.
        let images = waits.chain(never_made).map(|container| &container.image).filter(|image| images::is_reference(image));
        needed.extend(images.cloned());
    }
    needed
}

/// Earlier pods first: of two that want one port, the first gets it. Pods of files have no time and come first.
fn in_order(desired: &Desired) -> Vec<&Wanted> {
    let mut pods: Vec<&Wanted> = desired.pods.values().collect();
    pods.sort_by_key(|wanted| (wanted.pod.metadata.creation_timestamp, &wanted.name));
    pods
}

/// What was decided over one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    pub actions: Vec<Action>,
    pub pulls: Vec<PullWanted>,
    pub wake_at_ms: Option<i64>,
    pub waits: Waits,
}

impl Part {
    pub fn act(&mut self, what: What, reason: impl Into<String>) {
        self.actions.push(Action { what, reason: reason.into() });
    }

    pub fn wake_at(&mut self, at_ms: i64) {
        self.wake_at_ms = Some(self.wake_at_ms.map_or(at_ms, |earlier| earlier.min(at_ms)));
    }
}

impl Round {
    fn add(&mut self, uid: &str, part: Part) {
        if !part.actions.is_empty() {
            self.pods.insert(uid.to_owned(), part.actions);
        }
        self.pulls.extend(part.pulls);
        self.wake_at_ms = match (self.wake_at_ms, part.wake_at_ms) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if part.waits != Waits::default() {
            self.waits.insert(uid.to_owned(), part.waits);
        }
    }
}

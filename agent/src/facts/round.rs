//! The outcome of a plan: the actions for a pod, and for all pods. PURE.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::facts::checks::ProbeKind;
use crate::facts::engine::{Check, ContainerConfig, Limits, NamedVolume};
use crate::facts::logins::Login;
use crate::facts::naming::{PodName, SANDBOX};
use crate::facts::waiting::{Dismissal, Waiting, Waits};

/// What to do now. Actions of one pod run in their order and stop at the first failure; pods run side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// By uid.
    pub pods: BTreeMap<String, Vec<Action>>,
    pub pulls: Vec<PullWanted>,
    pub unpauses: Vec<Unpause>,
    /// When to look again though nothing happened (monotonic).
    pub wake_at_ms: Option<i64>,
    /// The reasons why wanted pods wait, by uid, as their statuses and the log give them.
    pub waits: BTreeMap<String, Waits>,
    /// By uid: whether this node takes pods that it was asked about for the first time.
    pub admissions: BTreeMap<String, Option<Dismissal>>,
    /// By uid: what pods are given of this node from now on.
    pub allocations: BTreeMap<String, Arc<Value>>,
    /// Containers, by the engine's id, whose hook is not waited for any longer.
    pub hooks_given_up: BTreeSet<String>,
}

/// Pulls belong to no pod's order: a slow registry holds up nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullWanted {
    pub pod: PodName,
    pub container: String,
    pub attempt: u32,
    pub image: String,
    /// Out of the pod's own Secrets, in the order in which they are tried; then come the host's.
    pub logins: Vec<Login>,
    pub reason: String,
    /// The engine does not have it: an archive of this host may.
    pub absent: bool,
    /// A registry is asked in any case.
    pub always: bool,
    /// No registry is asked: an archive of this host has the image, or nothing has it.
    pub never: bool,
}

/// No part of a pod's order either: what is under way for it may wait for this very container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpause {
    pub pod: PodName,
    pub id: String,
    pub container: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    pub what: ActionKind,
    /// Why, for the log.
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionKind {
    MakeVolumes {
        volumes: Vec<NamedVolume>,
    },
    /// Create and start.
    Start(Box<Start>),
    /// Start what was made before.
    Begin(Box<Begin>),
    /// All at once: preStop, then the signal.
    Stop {
        stops: Vec<Stop>,
        why: StopReason,
    },
    /// The grace is over.
    Kill {
        id: String,
        container: String,
    },
    Remove {
        id: String,
        container: String,
    },
    /// All that it has on this host beside containers.
    RemoveVolumes,
    /// Its own volumes alone.
    FreeVolumes,
    /// Changes the limits of running containers. `summary`: the text of the events.
    Resize {
        resizes: Vec<Resize>,
        summary: String,
    },
    /// An event of the pod that is nothing else's outcome.
    Warn {
        reason: &'static str,
        message: String,
    },
}

/// The new limits for a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resize {
    pub id: String,
    pub container: String,
    pub limits: Limits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub pod: PodName,
    pub container: String,
    pub attempt: u32,
    pub step: u32,
    pub config: ContainerConfig,
    pub post_start: Option<Check>,
    /// The image was here already, which an event says; false where it was pulled for this start.
    pub present: bool,
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
    /// The container is paused: the agent unpauses the container before the hook.
    pub paused: bool,
    pub pre_stop: Option<Check>,
    pub signal: String,
    pub grace_ms: i64,
}

/// Why containers are stopped. The log says it, and the Killing event tells some apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    PodDeleted,
    PodFinished,
    PodUnwanted,
    SandboxGone,
    SandboxEdited,
    Edited,
    /// A newer image has come, or the one of before comes back.
    Updated,
    /// The pod no longer has such a container.
    Stranger,
    /// A newer instance of the container exists.
    Replaced,
    /// The container runs although its final end is on record, at the master or in this agent's memory.
    EndedForGood,
    /// The container had ended, and another program started the container again or made a copy.
    StartedAgain,
    /// Continues a stop that has begun, whatever its reason was.
    UnderWay,
    Unhealthy {
        probe: ProbeKind,
        /// The probe's last output.
        output: String,
        restarts: bool,
    },
    PostStartFailed,
    /// A restart rule of a container restarts all containers in its pod.
    AllRestart,
    /// A person restarts the pod.
    Restarted,
    /// The pod took longer than it may.
    OutOfTime,
    Evicted,
    HostStops,
}

impl StopReason {
    /// Nothing of the pod is to run any more.
    pub fn ends_the_pod(&self) -> bool {
        use StopReason::{Evicted, HostStops, OutOfTime, PodDeleted, PodFinished, PodUnwanted};
        matches!(self, PodDeleted | PodFinished | PodUnwanted | OutOfTime | Evicted | HostStops)
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopReason::PodDeleted => "the pod is being deleted",
            StopReason::PodFinished => "the pod has finished",
            StopReason::PodUnwanted => "nobody wants its pod any more",
            StopReason::SandboxGone => "its sandbox is gone",
            StopReason::SandboxEdited => "what its containers share has changed",
            StopReason::Edited => "it was edited",
            StopReason::Updated => "its pod is updated",
            StopReason::Stranger => "its pod no longer has it",
            StopReason::Replaced => "there is a newer one",
            StopReason::StartedAgain => "it had ended, and somebody started it again",
            StopReason::EndedForGood => "it has ended for good before",
            StopReason::UnderWay => "it is being stopped",
            StopReason::Unhealthy { probe, output, restarts } => {
                let for_good = if *restarts { "" } else { " for good" };
                return write!(f, "its {} probe failed{for_good}: {output}", probe.name().to_lowercase());
            }
            StopReason::AllRestart => "all containers of its pod start anew",
            StopReason::Restarted => "somebody restarts its pod",
            StopReason::PostStartFailed => "its postStart hook failed",
            StopReason::OutOfTime => "its pod was active for longer than it may",
            StopReason::Evicted => "its pod is evicted",
            StopReason::HostStops => "the host stops",
        })
    }
}

/// The decisions over one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodPlan {
    pub actions: Vec<Action>,
    pub pulls: Vec<PullWanted>,
    pub wake_at_ms: Option<i64>,
    pub waits: Waits,
    /// Some: whether the node takes it was decided just now.
    pub admission: Option<Option<Dismissal>>,
    /// Some: the resources allocated to the pod have changed.
    pub allocation: Option<Arc<Value>>,
}

impl PodPlan {
    /// Nothing is done for the pod.
    pub fn waiting(reason: Waiting) -> PodPlan {
        PodPlan { waits: Waits { pod: Some(reason), ..Waits::default() }, ..PodPlan::default() }
    }

    pub fn act(&mut self, what: ActionKind, reason: impl Into<String>) {
        self.actions.push(Action { what, reason: reason.into() });
    }

    pub fn wake_at(&mut self, at_ms: i64) {
        self.wake_at_ms = Some(self.wake_at_ms.map_or(at_ms, |earlier| earlier.min(at_ms)));
    }
}

impl Round {
    pub fn wake_at(&mut self, at_ms: i64) {
        self.wake_at_ms = Some(self.wake_at_ms.map_or(at_ms, |earlier| earlier.min(at_ms)));
    }

    pub fn add(&mut self, uid: &str, part: PodPlan) {
        if !part.actions.is_empty() {
            self.pods.insert(uid.to_owned(), part.actions);
        }
        self.pulls.extend(part.pulls);
        if let Some(at_ms) = part.wake_at_ms {
            self.wake_at(at_ms);
        }
        if let Some(admission) = part.admission {
            self.admissions.insert(uid.to_owned(), admission);
        }
        if let Some(allocation) = part.allocation {
            self.allocations.insert(uid.to_owned(), allocation);
        }
        if part.waits != Waits::default() {
            self.waits.insert(uid.to_owned(), part.waits);
        }
    }
}

/// `start container web (1)`, for people.
pub fn words(what: &ActionKind) -> String {
    match what {
        ActionKind::MakeVolumes { volumes } => {
            format!("make {} volume{}", volumes.len(), if volumes.len() == 1 { "" } else { "s" })
        }
        ActionKind::Start(start) if start.container == SANDBOX => format!("start the sandbox ({})", start.attempt),
        ActionKind::Start(start) => format!("start container {} ({})", start.container, start.attempt),
        ActionKind::Begin(begin) => format!("start container {}", begin.container),
        ActionKind::Stop { stops, .. } => {
            let names: Vec<&str> = stops.iter().map(|stop| stop.container.as_str()).collect();
            format!("stop {}", names.join(", "))
        }
        ActionKind::Kill { container, .. } => format!("kill {container}"),
        ActionKind::Remove { container, .. } => format!("remove a dead {container}"),
        ActionKind::RemoveVolumes | ActionKind::FreeVolumes => "remove its volumes".to_owned(),
        ActionKind::Resize { resizes, .. } => {
            let names: Vec<&str> = resizes.iter().map(|resize| resize.container.as_str()).collect();
            format!("resize {}", names.join(", "))
        }
        ActionKind::Warn { reason, message } => format!("{reason}: {message}"),
    }
}

//! Compares what is wanted with what is there, and lists what to do. PURE.

use std::collections::{BTreeMap, BTreeSet};

use crate::runtime::{Check, ContainerConfig, Image, Seen, Volume};

/// Both clocks at one moment. Timers use the monotonic one; the wall clock is for what is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    pub wall_ms: i64,
    /// Since the agent started.
    pub mono_ms: u64,
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

/// What the loop saw itself and the engine does not tell. Losing it costs an early retry, nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {}

/// What to do now. Actions of one pod run in their order and stop at the first failure; pods run side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// By uid.
    pub pods: BTreeMap<String, Vec<Action>>,
    /// When to look again though nothing happened (monotonic).
    pub wake_at_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    pub what: What,
    /// Why, for the log: `web/nginx: its image changed`.
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Pull {
        image: String,
    },
    MakeVolumes {
        uid: String,
        volumes: Vec<Volume>,
    },
    /// Create and start. A container of that name that was made and not started is started.
    Start {
        config: Box<ContainerConfig>,
        post_start: Option<(Check, u64)>,
    },
    Stop(Stop),
    Remove {
        id: String,
        name: String,
    },
    RemoveVolumes {
        uid: String,
    },
}

/// preStop, then the signal, then SIGKILL when the grace is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    pub id: String,
    pub name: String,
    pub pre_stop: Option<Check>,
    pub signal: String,
    pub grace_ms: u64,
}

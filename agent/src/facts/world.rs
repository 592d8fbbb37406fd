//! The inputs of a decision: the state of the engine and of this host. PURE.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use crate::facts::checks::Dead;
use crate::facts::engine::{Image, SeenContainer};
use crate::facts::huge_pages::HugePages;
use crate::facts::memory::Memory;
use crate::facts::restarts::{Restart, Restarts};
use crate::facts::strain::Strain;
use crate::facts::wanted::Wanted;

/// The state of the engine and of this host.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub node: Node,
    /// A complete listing from the engine.
    pub containers: Vec<SeenContainer>,
    /// Uids of pods that have something on this host beside containers.
    pub volumes: BTreeSet<String>,
    /// The subset of `volumes` whose pods have their own volumes; the agent removes these volumes when the pod ends.
    pub held_volumes: BTreeSet<String>,
    /// The stamps of volumes that the agent fills itself, by path.
    pub contents: BTreeMap<String, String>,
    /// The images that were looked up for this round: None is absent, a missing key was not asked for.
    pub images: BTreeMap<String, Option<Image>>,
    /// The verdicts of probes, by the engine's container id.
    pub verdicts: Verdicts,
    pub strain: Arc<Strain>,
    /// Restarts that somebody asked for and that are not carried out yet.
    pub restarts: Arc<Restarts>,
    /// The host stops: all pods end, and begin again when it is back.
    pub leaving: bool,
    /// Pods with an action in flight, by uid.
    pub busy: BTreeSet<String>,
    /// Pods of the master whose end this agent has shown, by uid. The end is final even before the master has heard of
    /// the end.
    pub ended: BTreeSet<String>,
    pub memory: Memory,
}

impl World {
    /// Whether a pod has ended for good: by its master's record, or by what this agent said before.
    pub fn has_ended(&self, wanted: &Wanted) -> bool {
        wanted.pod.status.terminal() || self.ended.contains(&wanted.name.uid)
    }

    /// The restart that somebody asked for. Where nobody did, its numbers are below all.
    pub fn restart(&self, uid: &str) -> Restart {
        self.restarts.get(uid).copied().unwrap_or_default()
    }
}

/// Facts of this host that stay while the agent runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub address: String,
    pub data_dir: String,
    /// For volumes that stand on no disk.
    pub volatile_dir: String,
    pub cpu_milli: u64,
    pub memory_bytes: u64,
    /// Its engine may make processes the last that the kernel ends for lack of memory.
    pub spares_processes: bool,
    /// The disk space that pods may use; 0: unknown.
    pub disk_bytes: u64,
    /// The id of the pause image (`sha256:...`), known before it is loaded.
    pub pause_image: String,
    /// The kernel confines by AppArmor.
    pub app_armor: bool,
    /// Names and patterns of sysctls that pods may set beside the safe ones.
    pub unsafe_sysctls: Vec<String>,
    /// Containers that do not ask for it may send no packets of their own making.
    pub drops_net_raw: bool,
    pub devices: Vec<Devices>,
    /// Of each container.
    pub pids_max: Option<i64>,
    pub huge_pages: HugePages,
    /// How long this host had been up when the agent began. None: not known.
    pub up_ms: Option<i64>,
}

/// Devices of this host under a resource name. A container that requests the resource gets all paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Devices {
    /// `example.com/serial`
    pub resource: String,
    /// How many may have them at once.
    pub count: u32,
    pub paths: Vec<String>,
}

pub type Verdicts = BTreeMap<String, Verdict>;

/// The probe results of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The result of the readiness probe; None before the first. Not used without a probe.
    pub ready: Option<bool>,
    /// The words of the readiness probe when it began to fail. Later words are dropped: words with a time in them would
    /// be a change at each failure.
    pub unready: Option<String>,
    /// The startup probe has passed.
    pub started: bool,
    /// Set once the startup or the liveness probe has failed as often as its threshold says.
    pub dead: Option<Dead>,
}

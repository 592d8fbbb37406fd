//! The loop: wake -> list -> plan -> act -> look again.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};

use crate::desired::Desired;
use crate::plan::{Node, Verdicts, World};

/// What the loop is given and gives.
pub struct Ends {
    pub desired: watch::Receiver<Arc<Desired>>,
    /// From the probes.
    pub verdicts: watch::Receiver<Arc<Verdicts>>,
    /// Something may have changed (an engine event): look again. Carries nothing.
    pub wake: Arc<Notify>,
    pub node: Node,
    /// After each look: what is there and what each pod's status is.
    pub shown: watch::Sender<Arc<Shown>>,
    /// What happened to pods, for the events of the API. Full: the newest is dropped.
    pub happenings: mpsc::Sender<Happening>,
}

/// The agent's view of itself, for its endpoints, the probes and the reports to the master.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    pub desired: Arc<Desired>,
    pub world: Arc<World>,
    /// v1 PodStatus by uid.
    pub statuses: BTreeMap<String, Value>,
    /// Why the engine cannot be asked, since when it could not (monotonic).
    pub engine_trouble: Option<(String, i64)>,
    /// False until the first listing.
    pub looked: bool,
}

/// One line of an Event of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    /// `spec.containers{c}`; None for what concerns the pod.
    pub field_path: Option<String>,
    pub warning: bool,
    pub reason: String,
    pub message: String,
}

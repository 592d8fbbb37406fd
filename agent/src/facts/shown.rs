//! The agent's view of itself: the wanted pods, the state of the host, and the status of each pod. PURE.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::facts::desired::Desired;
use crate::facts::waiting::Waits;
use crate::facts::world::World;

/// The last lines of the logs of containers that failed, by the engine's id. Empty: the log has no line.
pub type LastLines = BTreeMap<String, String>;

/// The agent's view of itself, for its endpoints, the probes and the reports to the master.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    pub desired: Arc<Desired>,
    pub world: Arc<World>,
    /// v1 PodStatus by uid.
    pub statuses: BTreeMap<String, Value>,
    /// By uid.
    pub waits: BTreeMap<String, Waits>,
    /// Why the engine cannot be asked, and since when (wall clock, in milliseconds).
    pub engine_trouble: Option<(String, i64)>,
    /// False until the first listing.
    pub looked: bool,
}

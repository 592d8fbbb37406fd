//! The cpu and memory use of nodes and pods. The agents of this host are asked on demand; nothing is stored.

use coracle_http::{PathAndQuery, Server, gather};
use serde::Deserialize;
use serde_json::Value;
use std::io;
use std::time::Duration;

/// A rate takes an agent a second at most, and an engine that is asked may be busy.
const PATIENCE: Duration = Duration::from_secs(15);
/// The size limit of one agent's answer: a container takes about a hundred bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// As an agent tells it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct UsageReport {
    pub timestamp: String,
    pub window: String,
    pub node: Option<OfNode>,
    pub pods: Vec<OfPod>,
}

#[derive(Debug, Deserialize)]
pub struct OfNode {
    pub name: String,
    pub usage: Value,
}

#[derive(Debug, Deserialize)]
pub struct OfPod {
    pub namespace: String,
    pub name: String,
    pub containers: Value,
}

/// Asks them all at once. One that does not answer has nothing to tell.
pub fn ask(agents: Vec<Server>) -> io::Result<Vec<UsageReport>> {
    let target = PathAndQuery::from_static("/usage");
    let asked = agents.into_iter().map(|agent| (agent, target.clone())).collect();
    let mut usages = Vec::new();
    for answer in gather(asked, PATIENCE, ANSWER_BYTES_MAX)? {
        match answer.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string())) {
            Ok(usage) => usages.push(usage),
            Err(why) => log::debug!("figures: {why}"),
        }
    }
    Ok(usages)
}

//! Where pods are: the agents of their nodes are asked on their sockets, and each answer is believed for a moment.

use super::Serve;
use crate::cluster_keys::host;
use crate::store::locked;
use crate::through::{KnownPlaces, NodePlace};
use coracle_http::{PathAndQuery, gather};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long an agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The size limit of an agent's answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// How long an answer is believed: many requests that lead through ask an agent once.
const AGE: Duration = Duration::from_secs(1);
/// Nodes that are remembered.
const NODES_MAX: usize = 16;

/// What agents said last.
#[derive(Default)]
pub struct Places(Mutex<BTreeMap<String, (Instant, NodePlace)>>);

impl KnownPlaces for Serve {
    fn node(&self, name: &str) -> Option<NodePlace> {
        let known = locked(&self.places.0).get(name).copied();
        if let Some((_, place)) = known.filter(|(asked, _)| asked.elapsed() < AGE) {
            return Some(place);
        }
        let asked = vec![(self.agents.reach(name)?, PathAndQuery::from_static("/node"))];
        let answers = gather(asked, PATIENCE, ANSWER_BYTES_MAX).inspect_err(|error| log::warn!("ask agents: {error}"));
        let answer = answers.ok()?.pop()?.inspect_err(|why| log::debug!("{why}")).ok()?;
        let place = NodePlace::read(&answer)?;
        let mut places = locked(&self.places.0);
        if places.len() >= NODES_MAX {
            places.clear();
        }
        places.insert(name.to_owned(), (Instant::now(), place));
        Some(place)
    }

    fn is_own(&self, address: IpAddr) -> bool {
        host::addresses().contains(&address)
    }
}

//! The life of events: one hour, or less where there are too many. PURE.

use super::cluster::Cluster;
use super::controller::Look;
use super::intent::{Decision, Intent};
use super::view::EVENTS;
use coracle_api::meta::Key;
use std::time::Duration;

/// How long an event is kept, as Kubernetes keeps it.
pub const LIFE: Duration = Duration::from_secs(3600);
/// Events kept in all; beyond that the oldest go first. About 2 MB.
pub const COUNT_MAX: usize = 2000;
/// Bytes of all kept events together. Long events leave room for fewer events.
pub const BYTES_MAX: usize = 8 << 20;

/// The controller's only key: all events together.
pub fn key() -> Key {
    Key { resource: EVENTS, namespace: String::new(), name: String::new() }
}

pub fn all(_: &Cluster) -> Vec<Key> {
    vec![key()]
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, now) = (look.cluster, look.now);
    let (mut left, mut bytes) = (cluster.events.len(), cluster.events.bytes());
    let mut intents = Vec::new();
    for (key, came) in cluster.events.by_age() {
        if left <= COUNT_MAX && bytes <= BYTES_MAX && now.uptime < came.at + LIFE {
            return Decision { wake_at: Some(came.at + LIFE), ..Decision::of(intents) };
        }
        (left, bytes) = (left - 1, bytes - came.bytes);
        intents.push(Intent::Delete { key: key.clone(), seen: came.revision, at_once: true });
    }
    Decision::of(intents)
}

//! The time of the change behind the present endpoints: the earliest new moment at which a pod became ready or the
//! service was made. PURE.
//!
//! What was told is remembered by service, so that a change without such a moment shows none.

use super::backends::Backend;
use super::view::ServiceView;
use coracle_api::meta::Time;
use serde_json::{Map, Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};

pub const LAST_CHANGE: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The moments that were told of, in seconds.
#[derive(Clone, Default)]
pub struct Moments {
    service: Option<i64>,
    /// By the mark of a pod's uid, in its order.
    pods: Vec<(u64, i64)>,
    /// What could not be done, as it was told.
    pub trouble: String,
}

/// The earliest moment that is news, and all that are known now.
pub fn newest(before: &Moments, service: &ServiceView, backends: &[Backend<'_>]) -> (Option<Time>, Moments) {
    let made = service.created.map(Time::seconds);
    let mut earliest = made.filter(|made| before.service.is_none_or(|known| *made > known));
    let mut pods: Vec<(u64, i64)> = Vec::with_capacity(backends.len());
    for backend in backends {
        let Some(since) = backend.pod.ready_since.map(Time::seconds) else { continue };
        let mark = mark(&backend.pod.uid);
        let known = before.pods.binary_search_by_key(&mark, |(mark, _)| *mark).ok().map(|at| before.pods[at].1);
        if known.is_none_or(|known| since > known) {
            earliest = Some(earliest.map_or(since, |earliest| earliest.min(since)));
        }
        pods.push((mark, since));
    }
    pods.sort_unstable();
    let moments = Moments { service: made.or(before.service), pods, trouble: before.trouble.clone() };
    (earliest.and_then(Time::from_seconds), moments)
}

fn mark(uid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    hasher.finish()
}

/// Writes the moment into an object that is written anyway; a change without one takes away the last.
pub fn stamp(object: &mut Value, moment: Option<Time>) {
    let metadata = &mut object["metadata"];
    match moment {
        Some(moment) => metadata["annotations"][LAST_CHANGE] = json!(moment.to_string()),
        // An index would leave a null where there are no annotations.
        None => {
            metadata.get_mut("annotations").and_then(Value::as_object_mut).map(|all| all.remove(LAST_CHANGE));
        }
    }
    let empty = metadata["annotations"].as_object().is_none_or(Map::is_empty);
    if empty && let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("annotations");
    }
}

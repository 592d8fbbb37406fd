//! The engine's listing, read into pods. PURE.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use crate::facts::engine::SeenContainer;
use crate::facts::naming::{PodName, SANDBOX, Tag};

/// The containers of one pod.
#[derive(Clone, Debug)]
pub struct PodSeen<'a> {
    pub name: PodName,
    /// Sandboxes and containers, dead and alive, the newest attempt first.
    pub runs: Vec<Run<'a>>,
}

/// A single start of a container or sandbox.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    pub tag: Tag,
    pub seen: &'a SeenContainer,
}

/// Groups our containers by pod uid, and leaves out other containers.
pub fn group(containers: &[SeenContainer]) -> BTreeMap<String, PodSeen<'_>> {
    let mut pods: BTreeMap<String, PodSeen> = BTreeMap::new();
    for seen in containers {
        if let Some(tag) = Tag::read(&seen.name, &seen.labels) {
            let pod =
                pods.entry(tag.pod.uid.clone()).or_insert_with(|| PodSeen { name: tag.pod.clone(), runs: Vec::new() });
            pod.runs.push(Run { tag, seen });
        }
    }
    for pod in pods.values_mut() {
        pod.runs.sort_by(in_order);
    }
    pods
}

/// The newest attempt first; among containers with the same number, the original before its copies.
pub fn in_order(one: &Run<'_>, other: &Run<'_>) -> Ordering {
    let place = |run: &Run<'_>| (Reverse(run.tag.attempt), run.tag.container.clone());
    let counts = |run: &Run<'_>| (run.seen.beside.copy, run.seen.created_ms);
    place(one).cmp(&place(other)).then_with(|| counts(one).cmp(&counts(other)))
}

/// The runs of one container (or of the sandbox, `POD`), the newest first.
pub fn of<'r, 'a>(runs: &'r [Run<'a>], container: &str) -> impl Iterator<Item = &'r Run<'a>> {
    runs.iter().filter(move |run| run.tag.container == container)
}

/// All but the sandboxes.
pub fn members<'r, 'a>(runs: &'r [Run<'a>]) -> impl Iterator<Item = &'r Run<'a>> {
    runs.iter().filter(|run| run.tag.container != SANDBOX)
}

/// Where a pod can be reached: at its sandbox, or at this host if it shares the host's network.
pub fn address<'a>(runs: &[Run<'a>], host_network: bool, host: &'a str) -> Option<&'a str> {
    if host_network {
        return Some(host);
    }
    ip(runs)
}

/// The address on the pod network, from the newest sandbox with an address.
pub fn ip<'a>(runs: &[Run<'a>]) -> Option<&'a str> {
    of(runs, SANDBOX).find_map(|run| run.seen.ip.as_deref())
}

//! Which nodes of a DaemonSet get a pod, and which pods go. PURE.

use super::super::intent::Intent;
use super::super::replicas::Pod;
use super::super::view::NODES;
use super::daemons::Daemons;
use super::rolling::share;
use super::work::Work;
use serde_json::{Value, json};
use std::time::Duration;

/// A failed pod is deleted at once, the next one on its node after this, then after twice as long, and so on.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(15 * 60);
/// After twice the longest time without a failure it begins anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30 * 60);

pub fn work<'c>(daemons: &Daemons<'c>) -> Work<'c> {
    let mut work = Work::default();
    let mut failures = Failures::of(daemons);
    for (name, node) in &daemons.cluster.nodes {
        let (place, pods) = (daemons.placing.of(name, node), daemons.on(name));
        if place.should_run && pods.is_empty() {
            work.create.push(name.clone());
        } else if place.may_stay {
            let running = running(daemons, (name, pods), &mut work, &mut failures);
            if surges(daemons) {
                replace(daemons, name, place.should_run, &running, &mut work);
            } else {
                work.delete.extend(running.into_iter().skip(1));
            }
        } else {
            work.delete.extend(pods.iter().filter(|(_, pod)| !pod.deleting));
        }
    }
    // Pods meant for a node that is gone, but not bound yet. Bound pods are collected with their node.
    for (name, pods) in &daemons.pods {
        let unread = daemons.cluster.damaged.iter().any(|key| key.resource == NODES && key.name == *name);
        if !daemons.cluster.nodes.contains_key(name) && !unread {
            work.delete.extend(pods.iter().filter(|(_, pod)| pod.node.is_empty() && !pod.deleting));
        }
    }
    work.memory = failures.remembered();
    work
}

/// The running pods of a node; ended pods are deleted.
fn running<'c>(
    daemons: &Daemons<'c>,
    (node, pods): (&str, &[Pod<'c>]),
    work: &mut Work<'c>,
    failures: &mut Failures,
) -> Vec<Pod<'c>> {
    let (set, namespace) = (&daemons.set.template, &daemons.key.namespace);
    let mut running = Vec::new();
    for pod in pods.iter().filter(|(_, pod)| !pod.deleting) {
        let name = &pod.0.name;
        match pod.1.phase {
            "Failed" => {
                if let Err(at) = failures.another(node, daemons.now.uptime) {
                    work.wake_at = Some(work.wake_at.map_or(at, |wake| wake.min(at)));
                    continue;
                }
                let words = format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
                work.tales.push(Intent::Tell(set.warn(daemons.key, "FailedDaemonPod", words)));
                work.delete.push(*pod);
            }
            "Succeeded" => {
                let words =
                    format!("Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it");
                work.tales.push(set.tell(daemons.key, "SucceededDaemonPod", words));
                work.delete.push(*pod);
            }
            _ => running.push(*pod),
        }
    }
    running
}

/// With surge a node may have an old pod and a new one: the old one goes when the new one is available, or it is not
/// ready itself.
fn replace<'c>(daemons: &Daemons<'c>, node: &str, should_run: bool, running: &[Pod<'c>], work: &mut Work<'c>) {
    if running.is_empty() && should_run {
        work.create.push(node.to_owned());
    }
    if running.len() < 2 {
        return;
    }
    let first = |new: bool| running.iter().copied().find(|pod| daemons.is_new(*pod) == new);
    let (new, old) = (first(true), first(false));
    let kept = |pod: Pod<'_>| [new, old].into_iter().flatten().any(|one| one.0 == pod.0);
    work.delete.extend(running.iter().filter(|pod| !kept(**pod)));
    if let (Some(new), Some(old)) = (new, old)
        && !old.1.untold()
        && (old.1.ready != Some(true) || daemons.available(new))
    {
        work.delete.push(old);
    }
}

/// Whether new pods come before old ones go.
fn surges(daemons: &Daemons<'_>) -> bool {
    !daemons.set.on_delete && share(&daemons.set.surge, 1) > 0
}

/// How often pods failed on each node since this DaemonSet was changed, as far as this process has seen.
struct Failures {
    generation: i64,
    by_node: serde_json::Map<String, Value>,
    changed: bool,
}

impl Failures {
    fn of(daemons: &Daemons<'_>) -> Failures {
        let generation = daemons.set.status.observed_generation;
        let memory = daemons.memory.filter(|memory| memory["generation"] == generation);
        let by_node = memory.and_then(|memory| memory["nodes"].as_object()).cloned().unwrap_or_default();
        Failures { generation, by_node, changed: false }
    }

    /// `Err`: when the next failed pod may go.
    fn another(&mut self, node: &str, uptime: Duration) -> Result<(), Duration> {
        let ms = |entry: &Value, field: &str| Duration::from_millis(entry[field].as_u64().unwrap_or_default());
        let known = self.by_node.get(node).filter(|entry| ms(entry, "at") + FORGOTTEN_AFTER > uptime);
        let wait = match known {
            None => AGAIN_AFTER,
            Some(entry) if uptime < ms(entry, "at") + ms(entry, "wait") => {
                return Err(ms(entry, "at") + ms(entry, "wait"));
            }
            Some(entry) => (ms(entry, "wait") * 2).min(AGAIN_AFTER_MAX),
        };
        let of = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.by_node.insert(node.to_owned(), json!({"at": of(uptime), "wait": of(wait)}));
        self.changed = true;
        Ok(())
    }

    fn remembered(self) -> Option<Value> {
        self.changed.then(|| json!({"generation": self.generation, "nodes": self.by_node}))
    }
}

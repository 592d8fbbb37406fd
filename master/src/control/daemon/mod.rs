//! DaemonSets: a pod on every node that suits the template. PURE.
//!
//!     manage      nodes without a pod get one; pods that failed, that are over or that have no business there go
//!     roll        old pods make room for new ones: first gone, then made (maxUnavailable), or the other way round
//!                 (maxSurge)
//!     history, status

mod daemons;
mod manage;
mod placing;
mod rolling;
mod status;
mod view;
mod work;

pub use placing::by_node;
pub use view::DaemonSetView;

use super::cluster::Cluster;
use super::controller::Look;
use super::intent::{Decision, EventDraft, Intent, Refusal};
use super::replicas::{self, Pod};
use super::revisions::{self, REVISIONS, Revision};
use super::template;
use super::view::document;
use coracle_api::meta::Key;
use daemons::{Daemons, HASH};
use placing::Placing;
use serde_json::{Value, json};

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, key) = (look.cluster, look.key);
    // Garbage collection decides about the pods of a DaemonSet that is being deleted.
    let Some(set) = cluster.get::<DaemonSetView>(key).filter(|set| !set.template.deleting) else {
        return Decision::default();
    };
    let mut intents = Vec::new();
    let revisions = revisions::claim(cluster, key, &set.template, &mut intents);
    let pods = replicas::claim(cluster, key, &set.template, &mut intents);
    if !intents.is_empty() {
        return Decision::of(intents);
    }
    let document = document(&set.template.document);
    let (current, old): (Vec<Revision<'_>>, Vec<_>) =
        revisions.into_iter().partition(|(_, one)| one.identity == set.identity);
    let current = match present(cluster, key, set, &document, &current, revisions::next_number(&old)) {
        Ok(current) => current,
        Err(intent) => return Decision::of(vec![*intent]),
    };
    let hash = current.1.document.labels.get(HASH).unwrap_or(&current.0.name).to_owned();
    let placing = Placing::of_template(&document["spec"]["template"]);
    let by_node = placing::by_target(pods.all().filter(|(_, pod)| !(pod.terminal() && pod.deleting)));
    let daemons = Daemons { cluster, now: look.now, key, set, placing, pods: by_node, hash, memory: look.memory };
    let mut work = manage::work(&daemons);
    if pods.damaged > 0 {
        // Unreadable pods may run on an unknown node.
        work.create.clear();
    }
    if work.is_empty() && !set.on_delete {
        rolling::work(&daemons, &mut work);
    }
    let mut decision = work.into_decision(&daemons, &document);
    decision.intents.extend(clean_up(&daemons, &old, pods.all()));
    let (status, later) = status::written(&daemons);
    decision.intents.extend(status);
    decision.wake_at = [decision.wake_at, later].into_iter().flatten().min();
    decision
}

/// The revision of the present template, or the write that creates or updates this revision.
fn present<'c>(
    cluster: &'c Cluster,
    key: &Key,
    set: &DaemonSetView,
    document: &Value,
    current: &[Revision<'c>],
    number: i64,
) -> Result<Revision<'c>, Box<Intent>> {
    if let Some((revision_key, revision)) = current.last() {
        if revision.number >= number {
            return Ok((revision_key, revision));
        }
        let mut object = super::view::document(&revision.document);
        object["revision"] = number.into();
        return Err(Box::new(Intent::Update { key: Key::clone(revision_key), seen: revision.seen, object }));
    }
    let hash = template::hash(&document["spec"]["template"], set.status.collision_count);
    let name = format!("{}-{hash}", key.name);
    let taken = Key { resource: REVISIONS, namespace: key.namespace.clone(), name: name.clone() };
    match cluster.entry::<super::revisions::RevisionView>(&taken) {
        Some(taken) if taken.1.identity == set.identity => Ok(taken),
        Some(_) => Err(Box::new(status::collided(key, set))),
        None => Err(Box::new(made(key, set, document, (name, hash), number))),
    }
}

fn made(key: &Key, set: &DaemonSetView, document: &Value, (name, hash): (String, String), number: i64) -> Intent {
    let template = &document["spec"]["template"];
    let mut labels = template["metadata"]["labels"].clone();
    labels[HASH] = hash.into();
    let mut object = json!({
        "metadata": {"name": name, "labels": labels, "ownerReferences": [set.template.reference(key)]},
        "data": revisions::data(template),
        "revision": number,
    });
    if !document["metadata"]["annotations"].is_null() {
        object["metadata"]["annotations"] = document["metadata"]["annotations"].clone();
    }
    Intent::Create { resource: REVISIONS, namespace: key.namespace.clone(), object }
}

/// Deletes the oldest revisions beyond those that are kept, but none that a pod is of.
fn clean_up<'c>(daemons: &Daemons<'_>, old: &[Revision<'_>], pods: impl Iterator<Item = Pod<'c>>) -> Vec<Intent> {
    let kept = daemons.set.history.and_then(|kept| usize::try_from(kept).ok()).unwrap_or(usize::MAX);
    let surplus = old.len().saturating_sub(kept);
    if surplus == 0 {
        return Vec::new();
    }
    let live: Vec<&str> = pods.filter_map(|(_, pod)| pod.labels().get(HASH)).collect();
    let unused = old.iter().filter(|(_, one)| !one.document.labels.get(HASH).is_some_and(|hash| live.contains(&hash)));
    let delete = |(key, one): &Revision<'_>| Intent::Delete { key: Key::clone(key), seen: one.seen, at_once: false };
    unused.take(surplus).filter(|(_, one)| !one.deleting).map(delete).collect()
}

pub fn refused(cluster: &Cluster, key: &Key, refusal: &Refusal) -> Option<EventDraft> {
    replicas::refused(key, &cluster.get::<DaemonSetView>(key)?.template, refusal)
}

//! The ReplicaSets of a Deployment: adopted and released, made, and kept up with its annotations. PURE.

use super::super::cluster::Cluster;
use super::super::conditions;
use super::super::controller::ObservedChange;
use super::super::intent::Intent;
use super::super::replicas::{owner, with_owners};
use super::super::replication::{REPLICA_SETS, ReplicationView};
use super::super::template::{self, HASH_LABEL};
use super::super::view::document;
use super::annotations::{REVISION, copy, note_size, number};
use super::rollout::{FAILED, Rollout, Set, Stage, not_made};
use super::status::{CREATED, PROGRESSING, RESUMED};
use super::view::DeploymentView;
use coracle_api::meta::Key;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Longest name of an object.
const NAME_BYTES_MAX: usize = 253;

/// The Deployments that a ReplicaSet concerns.
pub fn by_set(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let namespace = &change.key.namespace;
    if change.key.resource != REPLICA_SETS {
        return Vec::new();
    }
    if change.is_unreadable() {
        return cluster.within::<DeploymentView>(namespace).map(|(key, _)| key.clone()).collect();
    }
    let mut keys = Vec::new();
    for set in change.was::<ReplicationView>().into_iter().chain(cluster.get(change.key)) {
        match &set.owner {
            Some(one) => keys.extend(owner::<DeploymentView>(cluster, namespace, &one.name, &one.uid)),
            None => {
                let takers = cluster.within::<DeploymentView>(namespace);
                let takers = takers.filter(|(_, one)| one.template.selector.selects(&set.template.document.labels));
                keys.extend(takers.map(|(key, _)| key.clone()));
            }
        }
    }
    keys
}

/// A pod that is over may have been the last one that a Deployment waits for before it makes new ones.
pub fn by_pod(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let namespace = &change.key.namespace;
    let now = cluster.pod(change.key);
    if now.is_some_and(|pod| !pod.terminal() && !pod.untold()) {
        return Vec::new();
    }
    let set = |pod: &super::super::view::PodView| {
        let key = Key { resource: REPLICA_SETS, namespace: namespace.clone(), name: pod.owner_name.to_string() };
        let set = cluster.get::<ReplicationView>(&key).filter(|set| Some(&set.template.uid) == pod.owner.as_ref())?;
        let by = set.owner.as_ref()?;
        owner::<DeploymentView>(cluster, namespace, &by.name, &by.uid)
    };
    change.pods(cluster).filter_map(set).collect()
}

/// Finds the ReplicaSets of a Deployment; adopts matching orphans, and releases sets that no longer match.
pub fn claim<'c>(
    cluster: &'c Cluster,
    key: &'c Key,
    deployment: &'c DeploymentView,
    intents: &mut Vec<Intent>,
) -> Vec<Set<'c>> {
    let template = &deployment.template;
    let mut sets = Vec::new();
    let mine = |set: &ReplicationView| set.owner.as_ref().is_some_and(|owner| owner.uid == template.uid);
    let changed = |key: &Key, set: &ReplicationView, object| Intent::Update {
        key: key.clone(),
        seen: set.template.revision,
        object,
    };
    for (set_key, set) in
        cluster.dependents::<ReplicationView>(key).filter(|(key, set)| key.resource == REPLICA_SETS && mine(set))
    {
        if template.selector.selects(&set.template.document.labels) {
            sets.push((set_key, set));
        } else if !template.deleting {
            let object = with_owners(document(&set.template.document), |owners| {
                owners.retain(|owner| owner["uid"] != template.uid)
            });
            intents.push(changed(set_key, set, object));
        }
    }
    if template.deleting {
        return sets;
    }
    for (set_key, set) in
        cluster.orphans_in::<ReplicationView>(&key.namespace).filter(|(key, _)| key.resource == REPLICA_SETS)
    {
        if !set.template.deleting && template.selector.selects(&set.template.document.labels) {
            let object =
                with_owners(document(&set.template.document), |owners| owners.insert(0, template.reference(key)));
            intents.push(changed(set_key, set, object));
        }
    }
    sets
}

/// The next write that brings the annotations, the minimal time of readiness and the revision of the new set and the
/// Deployment into agreement.
pub fn follow(rollout: &Rollout<'_>) -> Option<Intent> {
    let ((key, set), deployment) = (rollout.new?, rollout.deployment);
    let mut object = document(&set.template.document);
    let was = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let mut annotations = was.clone();
    copy(deployment, &mut annotations);
    number(&mut annotations, next_revision(rollout));
    let min_ready = set.min_ready == seconds(deployment.min_ready_s);
    if annotations != was || !min_ready {
        if !min_ready {
            object["spec"]["minReadySeconds"] = deployment.min_ready_s.into();
        }
        object["metadata"]["annotations"] = annotations.into();
        return Some(Intent::Update { key: key.clone(), seen: set.template.revision, object });
    }
    let revision = was.get(REVISION).cloned().unwrap_or_default();
    let found =
        deployment.deadline_s.is_some() && conditions::find(&deployment.status.conditions, PROGRESSING).is_none();
    let known = deployment.annotations.get(REVISION).map(String::as_str) == Some(revision.as_str().unwrap_or_default());
    if known && !found {
        return None;
    }
    let words = format!("Found new replica set \"{}\"", key.name);
    let condition = found.then(|| conditions::new(PROGRESSING, "True", "FoundNewReplicaSet", words, rollout.now));
    Some(super::status::note(rollout, Some(revision.as_str().unwrap_or_default()), condition))
}

/// Seconds that a document says, as a time.
fn seconds(count: i32) -> Duration {
    Duration::from_secs(count.try_into().unwrap_or_default())
}

/// The number after the highest revision of the old sets.
fn next_revision(rollout: &Rollout<'_>) -> i64 {
    rollout.old.iter().map(|(_, set)| set.rollout.revision).max().unwrap_or_default().saturating_add(1)
}

/// Changes the size of a set; `noted`: also writes if only the annotations about the Deployment's size change.
pub fn resize(rollout: &Rollout<'_>, (key, set): Set<'_>, size: i32, noted: bool) -> Vec<Intent> {
    let deployment = rollout.deployment;
    let noted_already = (set.rollout.desired, set.rollout.max)
        == (Some(deployment.replicas), Some(deployment.replicas.saturating_add(deployment.surge)));
    if set.replicas == size && (!noted || noted_already) {
        return Vec::new();
    }
    let mut object = document(&set.template.document);
    object["spec"]["replicas"] = size.into();
    let mut annotations = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    note_size(&mut annotations, deployment);
    object["metadata"]["annotations"] = annotations.into();
    let update = Intent::Update { key: key.clone(), seen: set.template.revision, object };
    if set.replicas == size {
        return vec![update];
    }
    vec![update, scaled(rollout, &key.name, set.replicas, size)]
}

fn scaled(rollout: &Rollout<'_>, name: &str, from: i32, to: i32) -> Intent {
    let way = if from < to { "up" } else { "down" };
    let words = format!("Scaled {way} replica set {name} from {from} to {to}");
    rollout.deployment.template.tell(rollout.key, "ScalingReplicaSet", words)
}

/// Makes the set of the present template.
pub fn make(rollout: &Rollout<'_>, size: i32) -> Stage {
    let (deployment, key) = (rollout.deployment, rollout.key);
    let wanted = &document(&deployment.template.document)["spec"]["template"];
    let hash = template::hash(wanted, deployment.status.collision_count);
    let name = name(&key.name, &hash);
    let taken = Key { resource: REPLICA_SETS, namespace: key.namespace.clone(), name: name.clone() };
    if rollout.cluster.get::<ReplicationView>(&taken).is_some() {
        let count = deployment.status.collision_count.unwrap_or_default().saturating_add(1);
        return Stage::Made(vec![rollout.note(|object| object["status"]["collisionCount"] = count.into())]);
    }
    if let Some(words) = rollout.refusal.and_then(not_made)
        && deployment.deadline_s.is_some()
    {
        let condition = conditions::new(PROGRESSING, "False", FAILED, words, rollout.now);
        let was = conditions::find(&deployment.status.conditions, PROGRESSING);
        if was.is_none_or(|was| (&was.status, &was.reason) != (&condition.status, &condition.reason)) {
            return Stage::Made(vec![super::status::note(rollout, None, Some(condition))]);
        }
    }
    let revision = next_revision(rollout);
    let mut intents = vec![Intent::Create {
        resource: REPLICA_SETS,
        namespace: key.namespace.clone(),
        object: new_set(rollout, &name, &hash, size, revision),
    }];
    if size > 0 {
        intents.push(scaled(rollout, &name, 0, size));
    }
    let words = format!("Created new replica set \"{name}\"");
    let condition = || conditions::new(PROGRESSING, "True", CREATED, words, rollout.now);
    // Kubernetes loses this word where a rollout that was paused begins.
    let resumed = conditions::find(&deployment.status.conditions, PROGRESSING).is_some_and(|one| one.reason == RESUMED);
    let has_condition = deployment.deadline_s.is_some() && !resumed;
    let note = super::status::note(rollout, Some(&revision.to_string()), has_condition.then(condition));
    intents.push(Intent::Then(Box::new(note)));
    Stage::Made(intents)
}

fn name(deployment: &str, hash: &str) -> String {
    let max = NAME_BYTES_MAX - 1 - hash.len();
    format!("{}-{hash}", deployment.get(..max).unwrap_or(deployment))
}

fn new_set(rollout: &Rollout<'_>, name: &str, hash: &str, size: i32, revision: i64) -> Value {
    let deployment = rollout.deployment;
    let spec = &document(&deployment.template.document)["spec"];
    let (mut template, mut selector) = (spec["template"].clone(), spec["selector"].clone());
    template["metadata"]["labels"][HASH_LABEL] = hash.into();
    selector["matchLabels"][HASH_LABEL] = hash.into();
    let mut annotations = Map::new();
    copy(deployment, &mut annotations);
    number(&mut annotations, revision);
    note_size(&mut annotations, deployment);
    json!({
        "metadata": {
            "name": name,
            "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": [deployment.template.reference(rollout.key)],
        },
        "spec": {"replicas": size, "minReadySeconds": deployment.min_ready_s, "selector": selector,
            "template": template},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit() {
        assert_eq!(name("web", "abc"), "web-abc");
        assert_eq!(name(&"x".repeat(253), "abcdefghij").len(), 253);
    }
}

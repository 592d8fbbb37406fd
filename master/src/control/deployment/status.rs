//! The status of a Deployment: counts over its ReplicaSets, and how its rollout goes. PURE.

use super::super::conditions;
use super::super::counts::{self, Counts};
use super::super::intent::{Decision, Intent};
use super::super::replication::FAILURE;
use super::annotations::REVISION;
use super::rollout::{Rollout, Set};
use super::view::DeploymentView;
use coracle_api::workload::{Condition, DeploymentStatus};
use serde_json::Value;
use std::time::Duration;

pub const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
/// Reasons of `Progressing`.
pub const CREATED: &str = "NewReplicaSetCreated";
const DONE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
pub const RESUMED: &str = "DeploymentResumed";
/// A deadline is looked at this much later: times are written in whole seconds.
const SLACK: Duration = Duration::from_secs(1);

/// A write of a revision and a condition.
pub fn note(rollout: &Rollout<'_>, revision: Option<&str>, condition: Option<Condition>) -> Intent {
    let mut all = rollout.deployment.status.conditions.clone();
    rollout.note(|object| {
        if let Some(revision) = revision {
            object["metadata"]["annotations"][REVISION] = revision.into();
        }
        if let Some(condition) = condition {
            conditions::set(&mut all, condition);
            object["status"]["conditions"] = counts::shown(&all);
        }
    })
}

/// That a rollout rests, or goes on: then it cannot have timed out meanwhile.
pub fn paused(rollout: &Rollout<'_>) -> Option<Intent> {
    let deployment = rollout.deployment;
    let reason = conditions::find(&deployment.status.conditions, PROGRESSING).map(|one| one.reason.as_str());
    if deployment.deadline_s.is_none() || reason == Some(TIMED_OUT) {
        return None;
    }
    let (reason, words) = match (deployment.paused, reason == Some(PAUSED)) {
        (true, false) => (PAUSED, "Deployment is paused"),
        (false, true) => (RESUMED, "Deployment is resumed"),
        _ => return None,
    };
    Some(note(rollout, None, Some(conditions::new(PROGRESSING, "Unknown", reason, words.to_owned(), rollout.now))))
}

/// The counts alone.
pub fn counted(rollout: &Rollout<'_>, mut intents: Vec<Intent>) -> Decision {
    intents.extend(written(rollout, &count(rollout, false)));
    Decision::of(intents)
}

/// The counts, and how the rollout goes.
pub fn rolled(rollout: &Rollout<'_>, mut intents: Vec<Intent>) -> Decision {
    let deployment = rollout.deployment;
    let mut status = count(rollout, begins(rollout));
    progress(rollout, &mut status);
    let failures = |set: Set<'_>| conditions::find(&set.1.status.conditions, FAILURE).cloned();
    match rollout.new.and_then(failures).or_else(|| rollout.old.iter().find_map(|set| failures(*set))) {
        Some(failure) => {
            conditions::set(
                &mut status.conditions,
                Condition { last_update_time: failure.last_transition_time, ..failure },
            );
        }
        None => conditions::remove(&mut status.conditions, FAILURE),
    }
    let intent = written(rollout, &status);
    let wake_at = if intent.is_none() { deadline(rollout, deployment) } else { None };
    intents.extend(intent);
    Decision { wake_at, ..Decision::of(intents) }
}

/// The new set was made, and nothing has been counted since.
fn begins(rollout: &Rollout<'_>) -> bool {
    let DeploymentView { status, generation, .. } = rollout.deployment;
    let created = conditions::find(&status.conditions, PROGRESSING).is_some_and(|one| one.reason == CREATED);
    created && status.observed_generation < *generation && rollout.new.is_some()
}

fn progress(rollout: &Rollout<'_>, status: &mut DeploymentStatus) {
    let (deployment, now) = (rollout.deployment, rollout.now);
    if deployment.deadline_s.is_none() {
        return conditions::remove(&mut status.conditions, PROGRESSING);
    }
    let was = conditions::find(&deployment.status.conditions, PROGRESSING);
    if status.replicas == status.updated_replicas && was.is_some_and(|was| was.reason == DONE) {
        return;
    }
    let what = match rollout.new {
        Some((key, _)) => format!("ReplicaSet \"{}\"", key.name),
        None => format!("Deployment \"{}\"", rollout.key.name),
    };
    let say = |kind: &str, reason: &str, words: &str| {
        conditions::new(PROGRESSING, kind, reason, format!("{what} {words}"), now)
    };
    if complete(deployment, status) {
        conditions::set(&mut status.conditions, say("True", DONE, "has successfully progressed."));
    } else if has_progressed(&deployment.status, status) {
        let mut condition = say("True", "ReplicaSetUpdated", "is progressing.");
        if let Some(was) = was.filter(|was| was.status == "True") {
            condition.last_transition_time = was.last_transition_time;
        }
        // Also where it says the same: the time of the last progress counts.
        conditions::remove(&mut status.conditions, PROGRESSING);
        status.conditions.push(condition);
    } else if has_timed_out(rollout, was) {
        conditions::set(&mut status.conditions, say("False", TIMED_OUT, "has timed out progressing."));
    }
}

/// All pods are of the new set, and available.
pub fn complete(deployment: &DeploymentView, status: &DeploymentStatus) -> bool {
    let all = [status.updated_replicas, status.replicas, status.available_replicas];
    all.iter().all(|count| *count == deployment.replicas) && status.observed_generation >= deployment.generation
}

fn has_progressed(was: &DeploymentStatus, is: &DeploymentStatus) -> bool {
    is.updated_replicas > was.updated_replicas
        || is.replicas - is.updated_replicas < was.replicas - was.updated_replicas
        || is.ready_replicas > was.ready_replicas
        || is.available_replicas > was.available_replicas
}

fn has_timed_out(rollout: &Rollout<'_>, was: Option<&Condition>) -> bool {
    match was {
        None => false,
        Some(was) if was.reason == DONE => false,
        Some(was) if was.reason == TIMED_OUT => true,
        Some(was) => left(rollout, was).is_none(),
    }
}

/// The time until the deadline. `None`: it is over.
fn left(rollout: &Rollout<'_>, condition: &Condition) -> Option<Duration> {
    let since = condition.last_update_time.map_or(0, |time| time.0.as_nanosecond());
    let until = since + i128::from(rollout.deployment.deadline_s.unwrap_or_default()) * 1_000_000_000;
    let left = until - rollout.now.wall.0.as_nanosecond();
    u64::try_from(left).ok().map(Duration::from_nanos)
}

/// The uptime at which a rollout that does not move has timed out.
fn deadline(rollout: &Rollout<'_>, deployment: &DeploymentView) -> Option<Duration> {
    let condition = conditions::find(&deployment.status.conditions, PROGRESSING)?;
    deployment.deadline_s?;
    if complete(deployment, &deployment.status) || [TIMED_OUT, DONE, PAUSED].contains(&condition.reason.as_str()) {
        return None;
    }
    Some(rollout.now.uptime + left(rollout, condition).unwrap_or_default() + SLACK)
}

/// `begins`: the new set counts as a set without pods. Pods that came quickly are counted in the next look, and
/// watchers see each step.
fn count(rollout: &Rollout<'_>, begins: bool) -> DeploymentStatus {
    let deployment = rollout.deployment;
    let new = rollout.new.filter(|_| !begins);
    let sum = |of: &dyn Fn(Set<'_>) -> i32| rollout.old.iter().copied().chain(new).map(of).fold(0, i32::saturating_add);
    let available = sum(&|(_, set)| set.status.available_replicas);
    let mut status = DeploymentStatus {
        observed_generation: deployment.generation,
        replicas: sum(&|(_, set)| set.status.replicas),
        updated_replicas: new.map_or(0, |(_, set)| set.status.replicas),
        ready_replicas: sum(&|(_, set)| set.status.ready_replicas),
        available_replicas: available,
        unavailable_replicas: (rollout.size() - available).max(0),
        terminating_replicas: terminating(rollout),
        collision_count: deployment.status.collision_count,
        conditions: deployment.status.conditions.clone(),
    };
    let unavailable = if deployment.recreate { 0 } else { deployment.unavailable };
    let condition = if available >= deployment.replicas - unavailable {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    conditions::set(
        &mut status.conditions,
        conditions::new(AVAILABLE, condition.0, condition.1, condition.2.to_owned(), rollout.now),
    );
    status
}

/// `None`: a set does not say.
fn terminating(rollout: &Rollout<'_>) -> Option<i32> {
    let looked_at = rollout
        .all()
        .filter(|(_, set)| set.status.observed_generation != 0 || set.status.terminating_replicas.is_some());
    looked_at
        .map(|(_, set)| set.status.terminating_replicas)
        .try_fold(0, |sum: i32, one| Some(sum.saturating_add(one?)))
}

fn written(rollout: &Rollout<'_>, status: &DeploymentStatus) -> Option<Intent> {
    let deployment = rollout.deployment;
    let written = || shown(deployment, status);
    let (key, seen) = (rollout.key.clone(), deployment.template.revision);
    (*status != deployment.status).then(|| Intent::Status { key, seen, status: written() })
}

fn shown(deployment: &DeploymentView, status: &DeploymentStatus) -> Value {
    let shown = Counts::of(&deployment.template.document)
        .unless_zero("observedGeneration", status.observed_generation)
        .unless_zero("replicas", i64::from(status.replicas))
        .unless_zero("updatedReplicas", i64::from(status.updated_replicas))
        .unless_zero("readyReplicas", i64::from(status.ready_replicas))
        .unless_zero("availableReplicas", i64::from(status.available_replicas))
        .unless_zero("unavailableReplicas", i64::from(status.unavailable_replicas))
        .maybe("terminatingReplicas", status.terminating_replicas.map(i64::from))
        .maybe("collisionCount", status.collision_count.map(i64::from))
        .conditions(&status.conditions);
    shown.into()
}

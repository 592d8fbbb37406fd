//! The conditions of a pod that are the agent's to say. PURE.

use serde_json::{Value, json};

use super::end::PodEnd;
use super::member::{One, time};
use super::whole::begun_ms;
use crate::facts::backoff::Now;
use crate::facts::engine::State;
use crate::facts::members::MemberKind;
use crate::facts::seen::Run;
use crate::facts::waiting::{Dismissal, Dismissed};
use crate::facts::wanted::Wanted;

/// The part of an init container or a sidecar.
pub(super) struct MemberStatus {
    pub(super) kind: MemberKind,
    pub(super) one: One,
}

impl MemberStatus {
    /// The next one may start.
    fn complete(&self) -> bool {
        if self.kind == MemberKind::Sidecar { self.one.value["started"] == true } else { self.one.ready }
    }
}

/// The facts that determine the conditions.
pub(super) struct ConditionFacts<'a> {
    pub(super) up: bool,
    pub(super) ended: Option<PodEnd>,
    pub(super) initialized: bool,
    pub(super) init: &'a [MemberStatus],
    pub(super) containers: &'a [One],
    pub(super) runs: &'a [Run<'a>],
    /// The problem of each readiness gate that is not passed.
    pub(super) gates: &'a [String],
    pub(super) resize: Resizing,
    /// Whether all containers are about to start anew; None: the pod has no such rule.
    pub(super) renewing: Option<bool>,
}

/// The progress of a resize of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resizing {
    No,
    /// The node has no room for the requested resources: the reason.
    Pending(String),
    InProgress,
}

/// The readiness gates that are not passed: conditions from other controllers, as the master's status shows them.
pub(super) fn gates(wanted: &Wanted) -> Vec<String> {
    let stands = |kind: &str| wanted.pod.status.condition(kind).map(|condition| condition.status.as_str());
    let problem = |kind: &str| match stands(kind) {
        Some("True") => None,
        None => Some(format!("corresponding condition of pod readiness gate {kind:?} does not exist.")),
        Some(other) => Some(format!("the status of pod readiness gate {kind:?} is not \"True\", but {other}")),
    };
    wanted.pod.spec.readiness_gates.iter().filter_map(|gate| problem(&gate.condition_type)).collect()
}

/// The conditions that are the agent's to say.
pub const CONDITIONS: [&str; 8] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "PodResizePending",
    "PodResizeInProgress",
    "AllContainersRestarting",
];

const RENEWING: &str = "AllContainersRestarting";
pub(super) const DISRUPTION: &str = "DisruptionTarget";
const DISRUPTED: &str = "TerminationByKubelet";

pub(super) fn conditions(facts: &ConditionFacts<'_>, generation: Option<i64>, was: &Value, now: Now) -> Value {
    let sidecars = facts.init.iter().filter(|member| member.kind == MemberKind::Sidecar).map(|member| &member.one);
    let unready: Vec<&str> =
        sidecars.chain(facts.containers).filter(|one| !one.ready).map(|one| one.name.as_str()).collect();
    let incomplete: Vec<&str> =
        facts.init.iter().filter(|member| !member.complete()).map(|member| member.one.name.as_str()).collect();
    let mut list = Conditions::new(facts, generation, was, now);
    let mut add = |kind: &str, holds: bool, reason: Option<&str>, message: Option<String>| {
        list.add(kind, holds, reason, message);
    };
    match &facts.resize {
        Resizing::No => {}
        Resizing::Pending(message) => add("PodResizePending", true, Some("Deferred"), Some(message.clone())),
        Resizing::InProgress => add("PodResizeInProgress", true, None, None),
    }
    add("PodReadyToStartContainers", facts.up, None, None);
    // An initialized pod keeps the condition while `RestartAllContainers` runs the init containers again.
    let was_initialized = facts.renewing.is_some()
        && was["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|one| one["type"] == "Initialized" && one["status"] == "True");
    if facts.initialized || incomplete.is_empty() || was_initialized {
        add("Initialized", true, (facts.ended == Some(PodEnd::Succeeded)).then_some("PodCompleted"), None);
    } else {
        let message = format!("containers with incomplete status: [{}]", incomplete.join(" "));
        add("Initialized", false, Some("ContainersNotInitialized"), Some(message));
    }
    for kind in ["Ready", "ContainersReady"] {
        match facts.ended {
            None if kind == "Ready"
                && unready.is_empty()
                && !facts.containers.is_empty()
                && !facts.gates.is_empty() =>
            {
                add(kind, false, Some("ReadinessGatesNotReady"), Some(facts.gates.join(", ")));
            }
            Some(end) if !facts.containers.iter().any(|one| one.unmade) => add(kind, false, Some(end.reason()), None),
            _ if unready.is_empty() && !facts.containers.is_empty() => add(kind, true, None, None),
            _ => {
                let message = format!("containers with unready status: [{}]", unready.join(" "));
                add(kind, false, Some("ContainersNotReady"), Some(message));
            }
        }
    }
    add("PodScheduled", true, None, None);
    match (facts.renewing, facts.ended) {
        (None, _) => {}
        (Some(_), Some(end)) => add(RENEWING, false, Some(end.reason()), None),
        (Some(true), None) => {
            add(
                RENEWING,
                true,
                Some("RestartAllContainersStarted"),
                Some("container exited with restart policy rule".to_owned()),
            );
        }
        (Some(false), None) => add(RENEWING, false, None, None),
    }
    Value::Array(list.list)
}

/// The conditions of a status under construction.
struct Conditions<'a> {
    facts: &'a ConditionFacts<'a>,
    generation: Option<i64>,
    was: &'a Value,
    now: Now,
    /// An agent that starts anew has only others' conditions, and reads the times off the engine.
    had: bool,
    list: Vec<Value>,
}

impl<'a> Conditions<'a> {
    fn new(facts: &'a ConditionFacts<'a>, generation: Option<i64>, was: &'a Value, now: Now) -> Conditions<'a> {
        let own = |one: &Value| CONDITIONS.iter().any(|kind| one["type"] == **kind);
        let had = was["conditions"].as_array().into_iter().flatten().any(own);
        Conditions { facts, generation, was, now, had, list: Vec::new() }
    }

    fn add(&mut self, kind: &str, holds: bool, reason: Option<&str>, message: Option<String>) {
        let (facts, now) = (self.facts, self.now);
        let status = if holds { "True" } else { "False" };
        let before =
            self.was["conditions"].as_array().into_iter().flatten().find(|condition| condition["type"] == kind);
        let since = before
            .filter(|condition| condition["status"] == status)
            .and_then(|condition| condition["lastTransitionTime"].as_str());
        let first_ms = match kind {
            // The engine says when, whoever asks.
            "PodReadyToStartContainers" if holds => ready_ms(facts.runs, now),
            _ if self.had => now.wall_ms,
            "Ready" | "ContainersReady" if holds || facts.ended.is_some() => turned_ms(facts.runs, now),
            "Ready" | "ContainersReady" => now.wall_ms,
            _ => begun_ms(facts.runs, now),
        };
        let since = since.map_or_else(|| time(first_ms), str::to_owned);
        let mut condition = json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since});
        if let Some(generation) = self.generation {
            condition["observedGeneration"] = json!(generation);
        }
        if let Some(reason) = reason {
            condition["reason"] = json!(reason);
        }
        if let Some(message) = message {
            condition["message"] = json!(message);
        }
        self.list.push(condition);
    }
}

/// Whether the agent owns a condition. Other components also write `DisruptionTarget`, with their own reasons.
pub fn is_own(condition: &Value) -> bool {
    condition["type"].as_str().is_some_and(|kind| CONDITIONS.contains(&kind)) || condition["reason"] == DISRUPTED
}

/// The condition for a pod that was evicted for other pods: controllers do not count this failure.
pub(super) fn disruption(dismissal: &Dismissal, generation: Option<i64>, was: &Value, now: Now) -> Option<Value> {
    if dismissal.kind != Dismissed::Displaced {
        return None;
    }
    let before = was["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == DISRUPTION);
    let since =
        before.and_then(|one| one["lastTransitionTime"].as_str()).map_or_else(|| time(now.wall_ms), str::to_owned);
    let mut condition = json!({
        "type": DISRUPTION, "status": "True", "reason": DISRUPTED, "message": dismissal.message,
        "lastProbeTime": null, "lastTransitionTime": since,
    });
    if let Some(generation) = generation {
        condition["observedGeneration"] = json!(generation);
    }
    Some(condition)
}

/// When its sandbox was made: of its start the engine's listing says no more than the second.
fn ready_ms(runs: &[Run<'_>], now: Now) -> i64 {
    let sandboxes = runs.iter().filter(|run| run.tag.is_sandbox() && run.seen.lives()).map(|run| run.seen.created_ms);
    sandboxes.filter(|ms| *ms > 0).max().map_or(now.wall_ms, |ms| ms.min(now.wall_ms))
}

/// When the last of it started, or ended if nothing runs: since then it is as ready as it is.
fn turned_ms(runs: &[Run<'_>], now: Now) -> i64 {
    let starts = runs.iter().filter_map(|run| match run.seen.state {
        State::Running { started_ms } => Some(started_ms),
        State::Created { .. } | State::Exited { .. } => None,
    });
    let ends = runs.iter().filter_map(|run| match run.seen.state {
        State::Exited { finished_ms, .. } => Some(finished_ms),
        State::Created { .. } | State::Running { .. } => None,
    });
    starts.max().or(ends.max()).map_or(now.wall_ms, |ms| ms.min(now.wall_ms))
}

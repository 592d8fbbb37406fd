//! Pods: those that wait for a node, whose containers wait or failed, and that do not end. PURE.

use super::context::{Context, Found, Words, is_mirror, later};
use super::objects::PodLook;
use coracle_api::meta::Time;
use coracle_api::pod::{ContainerStateTerminated, ContainerStatus, PodCondition};
use coracle_keeper::ended::{self, FailedProbe};
use coracle_keeper::problem::Subject;
use serde_json::json;
use std::collections::HashSet;

/// A pod that is there so many seconds after its grace is over does not end.
const ENDED_AFTER_S: i64 = 60;
pub const STARTING: &str = "Starting";
/// Owners that tell of their failed pods themselves.
const TELLS_OF_PODS: [&str; 5] = ["ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"];
/// Reasons of a container that is being made.
const MAKING: [&str; 3] = ["", "ContainerCreating", "PodInitializing"];
const IMAGE: [&str; 6] = [
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "RegistryUnavailable",
];

/// A reason and the sentences about one pod.
pub type Trouble = (&'static str, Words);

/// `short`: uids of controllers whose pods are told already.
pub fn tell(context: &Context<'_>, short: &HashSet<&str>, found: &mut Found) {
    for pod in context.objects.pods.iter().filter(|pod| !is_mirror(pod)) {
        let owner = pod.metadata.controller();
        if owner.is_some_and(|owner| short.contains(owner.uid.as_str())) {
            continue;
        }
        let tells = |kind: &str| TELLS_OF_PODS.contains(&kind);
        if pod.status.phase == "Failed" && owner.is_some_and(|owner| tells(&owner.kind)) {
            continue;
        }
        let subject = || Subject::new("pod", &pod.metadata.namespace, &pod.metadata.name);
        if let Some(deadline) = pod.metadata.deletion_timestamp {
            let stuck_at = later(deadline, ENDED_AFTER_S);
            if context.now < stuck_at {
                found.look_again(stuck_at);
            } else {
                found.tell("TerminatingTooLong", subject(), stuck(context, pod, deadline));
            }
            continue;
        }
        if let Some((reason, words)) = trouble(context, pod).filter(|_| !context.goes(&pod.metadata)) {
            found.tell(reason, subject(), words);
        }
    }
}

fn stuck(context: &Context<'_>, pod: &PodLook, deadline: Time) -> Words {
    let node = pod.spec.node_name.as_str();
    let is_away = context.objects.nodes.iter().any(|one| one.metadata.name == node && !one.status.ready());
    let (why, advice) = match pod.metadata.finalizers.as_slice() {
        [] if is_away => (format!("its node {node} is not ready"), format!("kubectl describe node {node}")),
        [] => (format!("its node {node} has not said that its containers ended"), "coracle status".to_owned()),
        finalizers => (format!("its finalizers are there: {}", finalizers.join(", ")), described("pod", pod)),
    };
    Words { what: "does not end".to_owned(), why, advice, since: Some(deadline) }
}

fn described(kind: &str, pod: &PodLook) -> String {
    format!("kubectl -n {} describe {kind} {}", pod.metadata.namespace, pod.metadata.name)
}

/// What is wrong with a pod that is to run. None: nothing is, or it ends.
pub fn trouble(context: &Context<'_>, pod: &PodLook) -> Option<Trouble> {
    let status = &pod.status;
    if status.phase == "Succeeded" || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    if status.phase == "Failed" {
        return Some(("PodFailed", failed(context, pod)));
    }
    if pod.spec.node_name.is_empty() {
        return Some(unplaced(pod));
    }
    let ready = status.condition("Ready");
    let is_away = |node: &&coracle_api::node::Node| node.metadata.name == pod.spec.node_name && !node.status.ready();
    if let Some(node) = context.objects.nodes.iter().find(is_away) {
        let what = format!("its node {} is not ready", node.metadata.name);
        let advice = format!("kubectl describe node {}", node.metadata.name);
        let since = node.status.condition("Ready").and_then(|ready| ready.last_transition_time);
        return Some(("NodeNotReady", Words { what, why: String::new(), advice, since }));
    }
    let inits = status.init_container_statuses.iter().filter(|one| !has_begun(one));
    let all = inits.chain(&status.container_statuses);
    let mut troubles: Vec<Trouble> = all.filter_map(|one| of_container(context, pod, one)).collect();
    // A container that failed says more than one that waits for it.
    troubles.sort_by_key(|(reason, _)| *reason == STARTING);
    if let Some(first) = troubles.into_iter().next() {
        return Some(first);
    }
    match ready {
        Some(ready) if ready.status == "True" => None,
        Some(ready) if status.phase == "Running" => Some(("NotReady", not_ready(ready, pod))),
        _ => Some((STARTING, starting(context, pod, "is starting".to_owned()))),
    }
}

/// An init container that is over, or a sidecar that runs.
fn has_begun(container: &ContainerStatus) -> bool {
    let over = container.state.terminated.as_ref().is_some_and(|ended| ended.exit_code == 0);
    over || (container.state.running.is_some() && container.started == Some(true))
}

fn failed(context: &Context<'_>, pod: &PodLook) -> Words {
    let status = &pod.status;
    let ended = |one: &ContainerStatus| {
        let ended = one.state.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
        Some(format!("container {}: {}", one.name, words_of(context, pod, ended)))
    };
    let all = status.init_container_statuses.iter().chain(&status.container_statuses);
    let said = [status.reason.as_str(), status.message.as_str()];
    let said: Vec<&str> = said.into_iter().filter(|text| !text.is_empty()).collect();
    let why = if said.is_empty() { all.filter_map(ended).next().unwrap_or_default() } else { said.join(": ") };
    let since = status.condition("Ready").and_then(|ready| ready.last_transition_time);
    Words { what: "has failed".to_owned(), why, advice: logs(pod, false, ""), since: since.or(created(pod)) }
}

fn unplaced(pod: &PodLook) -> Trouble {
    let what = "waits for a node".to_owned();
    let advice = described("pod", pod);
    let scheduled = pod.status.condition("PodScheduled").filter(|one| one.status == "False");
    if !pod.spec.scheduling_gates.is_empty() {
        let gates: Vec<&str> = pod.spec.scheduling_gates.iter().map(|gate| gate.name.as_str()).collect();
        let why = format!("its scheduling gates are there: {}", gates.join(", "));
        return ("SchedulingGated", Words { what, why, advice, since: created(pod) });
    }
    match scheduled {
        Some(one) => {
            let since = one.last_transition_time.or(created(pod));
            ("Unschedulable", Words { what, why: one.message.clone(), advice, since })
        }
        None => {
            let why = "the scheduler has not looked at it yet".to_owned();
            (STARTING, Words { what, why, advice, since: created(pod) })
        }
    }
}

fn of_container(context: &Context<'_>, pod: &PodLook, one: &ContainerStatus) -> Option<Trouble> {
    let (name, state) = (one.name.as_str(), &one.state);
    if let Some(waiting) = &state.waiting {
        return Some(waits(context, pod, one, (&waiting.reason, &waiting.message)));
    }
    if let Some(ended) = &state.terminated {
        let over = ended.exit_code == 0 && pod.spec.restart_policy != "Always";
        let what = format!("its container {name} has ended");
        let (why, since) = (words_of(context, pod, ended), ended.finished_at);
        return (!over).then(|| ("ContainerFailed", Words { what, why, advice: logs(pod, false, name), since }));
    }
    if state.running.is_none() {
        return Some((STARTING, starting(context, pod, format!("its container {name} is starting"))));
    }
    if one.ready || (one.started == Some(true) && is_init(pod, name)) {
        return None;
    }
    let begun = state.running.as_ref().and_then(|running| running.started_at);
    let since = begun.or(created(pod));
    let unhealthy = context.warned("Pod", &pod.metadata, &["Unhealthy", "ProbeError"], begun);
    let last =
        one.last_state.terminated.as_ref().map(|ended| format!("it ended before: {}", words_of(context, pod, ended)));
    let why = unhealthy.map(|warned| warned.message.to_owned()).or(last).unwrap_or_default();
    if one.started == Some(false) {
        let what = format!("its container {name} is starting");
        return Some((STARTING, Words { what, why, advice: logs(pod, false, name), since }));
    }
    let what = format!("its container {name} is not ready");
    Some(("NotReady", Words { what, why, advice: logs(pod, false, name), since }))
}

fn is_init(pod: &PodLook, name: &str) -> bool {
    pod.status.init_container_statuses.iter().any(|one| one.name == name)
}

fn waits(context: &Context<'_>, pod: &PodLook, one: &ContainerStatus, (reason, message): (&str, &str)) -> Trouble {
    let name = one.name.as_str();
    let since = pod.status.condition("Ready").and_then(|ready| ready.last_transition_time).or(created(pod));
    if reason == "CrashLoopBackOff" {
        let last = one.last_state.terminated.as_ref();
        let what = format!("its container {name} fails again and again");
        let why = last.map_or_else(|| message.to_owned(), |ended| words_of(context, pod, ended));
        let since = last.and_then(|ended| ended.finished_at).or(since);
        return ("ContainerFailed", Words { what, why, advice: logs(pod, true, name), since });
    }
    if IMAGE.contains(&reason) {
        let image = pod.spec.containers.iter().find(|spec| spec.name == name).map(|spec| spec.image.as_str());
        let image = image.unwrap_or(&one.image);
        let what = format!("its container {name} waits for the image {image}");
        let why = if message.is_empty() { reason.to_owned() } else { message.to_owned() };
        return ("ImageMissing", Words { what, why, advice: described("pod", pod), since });
    }
    if MAKING.contains(&reason) {
        let mut words = starting(context, pod, format!("its container {name} is starting"));
        if words.why.is_empty() {
            words.why = message.to_owned();
        }
        return (STARTING, words);
    }
    let what = format!("its container {name} cannot start");
    let why = if message.is_empty() { reason.to_owned() } else { format!("{reason}: {message}") };
    ("ContainerNotMade", Words { what, why, advice: described("pod", pod), since })
}

/// The last warning says what a start waits for, such as a Secret.
fn starting(context: &Context<'_>, pod: &PodLook, what: String) -> Words {
    let since = pod.status.start_time.or(created(pod));
    let warned = context.warned("Pod", &pod.metadata, &[], since).filter(|one| one.reason != "FailedScheduling");
    let why = warned.map(|one| format!("{}: {}", one.reason, one.message)).unwrap_or_default();
    Words { what, why, advice: described("pod", pod), since }
}

fn not_ready(ready: &PodCondition, pod: &PodLook) -> Words {
    let why = if ready.message.is_empty() { ready.reason.clone() } else { ready.message.clone() };
    let since = ready.last_transition_time.or(created(pod));
    Words { what: "is not ready".to_owned(), why, advice: described("pod", pod), since }
}

fn created(pod: &PodLook) -> Option<Time> {
    pod.metadata.creation_timestamp
}

fn logs(pod: &PodLook, previous: bool, container: &str) -> String {
    let several = pod.spec.containers.len() > 1 || is_init(pod, container);
    let named = if several && !container.is_empty() { format!(" -c {container}") } else { String::new() };
    let previous = if previous { " -p" } else { "" };
    format!("kubectl -n {} logs{previous} {}{named}", pod.metadata.namespace, pod.metadata.name)
}

/// How a container ended, in words; with the probe for which it was ended.
fn words_of(context: &Context<'_>, pod: &PodLook, end: &ContainerStateTerminated) -> String {
    let terminated = json!({"exitCode": end.exit_code, "reason": end.reason, "message": end.message});
    let unhealthy = context.warned("Pod", &pod.metadata, &["Unhealthy"], end.started_at);
    let unhealthy = unhealthy.filter(|one| end.exit_code != 0 && one.at <= end.finished_at);
    let probe = unhealthy.and_then(|one| {
        let (probe, output) = one.message.split_once(" probe failed: ")?;
        // A container is not ended for its readiness.
        (probe != "Readiness").then_some(FailedProbe { probe, output })
    });
    ended::words(&terminated, probe)
}

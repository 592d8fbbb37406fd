//! The status of a single container. PURE.

use coracle_api::meta::Time;
use coracle_api::pod::{Action, Container};
use serde_json::{Value, json};

use super::before::{removed, restarts, start_before, told_start};
use super::end::Told;
use crate::facts::engine::State;
use crate::facts::hash;
use crate::facts::members::{Member, MemberKind};
use crate::facts::memory::{Lost, UNKNOWN_CODE};
use crate::facts::naming::PodName;
use crate::facts::recorded::status_of;
use crate::facts::seen::{self, Run};
use crate::facts::waiting::{WaitReason, Waiting, Waits};
use crate::facts::wanted::Wanted;
use crate::facts::world::World;
use crate::plan::renewal::{self, Renewal};
use crate::plan::{images, resize};

const UNLOCATED: &str = "The container could not be located when the pod was terminated";

/// The inputs of a pod's status, without the pod's runs.
pub(super) struct StatusCase<'a> {
    pub(super) wanted: &'a Wanted,
    pub(super) world: &'a World,
    pub(super) waits: &'a Waits,
    /// The status that was shown before.
    pub(super) was: &'a Value,
    /// The pod's final end, if already reported.
    pub(super) told: Option<&'a Told<'a>>,
    /// Its init containers are over.
    pub(super) initialized: bool,
    pub(super) renewal: Renewal,
}

pub(super) struct One {
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) ready: bool,
    /// Nothing of it ever ran.
    pub(super) never_ran: bool,
    /// The engine refused its newest start.
    pub(super) start_error: bool,
    /// The pod ended before it was made.
    pub(super) unmade: bool,
    /// How its newest start ended.
    pub(super) exit_code: Option<i32>,
}

/// A start that left no container, where none came after it.
fn lost<'a>(case: &StatusCase<'a>, member: &Member<'_>, newest: Option<&Run<'_>>) -> Option<&'a Lost> {
    let lost = case.world.memory.lost.get(&(case.wanted.name.uid.clone(), member.spec.name.clone()));
    lost.filter(|lost| newest.is_none_or(|run| lost.attempt > run.tag.attempt))
}

/// Whether a running container counts as started, and as ready.
fn readiness(case: &StatusCase<'_>, member: &Member<'_>, newest: Option<&Run<'_>>, runs_now: bool) -> (bool, bool) {
    let (container, verdict) = (member.spec, newest.and_then(|run| case.world.verdicts.get(&run.seen.id)));
    let started = runs_now && (container.startup_probe.is_none() || verdict.is_some_and(|verdict| verdict.started));
    let passed = container.readiness_probe.is_none() || verdict.is_some_and(|verdict| verdict.ready == Some(true));
    (started, started && passed)
}

pub(super) fn one(case: &StatusCase<'_>, runs: &[Run<'_>], member: &Member<'_>, pod_is_over: bool) -> One {
    left_behind(case, runs, member).unwrap_or_else(|| seen_one(case, runs, member, pod_is_over))
}

/// As the engine and the loop have seen it.
fn seen_one(case: &StatusCase<'_>, runs: &[Run<'_>], member: &Member<'_>, pod_is_over: bool) -> One {
    let StatusCase { wanted, world, waits, initialized, .. } = *case;
    let container = member.spec;
    let newest = seen::of(runs, &container.name).next();
    let lost = lost(case, member, newest);
    let creating = misconfigured(case, member).unwrap_or_else(|| Waiting::new(about_to_start(wanted), ""));
    let waiting = waits.containers.get(&container.name);
    let waiting =
        waiting.map(|waiting| if waiting.reason == WaitReason::ContainerCreating { &creating } else { waiting });
    if let Some(before) = recorded(case, member, newest, lost.filter(|_| waiting.is_none())) {
        return ended_before(before);
    }
    if let Some(run) = newest.filter(|run| lost.is_none() && is_over(case, runs, member, run)) {
        return renewed(case, member, run, waiting.unwrap_or(&creating));
    }
    let told = status_of(case.was, member);
    let mut before = start_before(case, runs, member, newest);
    let (mut exit_code, mut runs_now, mut unmade) = (None, false, false);
    let state = match (newest, lost) {
        (_, Some(lost)) => {
            exit_code = lost.exit_code;
            if waiting.is_some() {
                // What was never made never ended either.
                before = newest.map_or_else(
                    || lost.exit_code.map_or(Value::Null, |_| unknown(&lost.text)),
                    |run| terminated(run, told),
                );
            }
            of_lost(lost, waiting)
        }
        (Some(run), None) => match &run.seen.state {
            State::Running { .. } if world.memory.hooks_running.contains(&run.seen.id) => wait(&creating),
            State::Running { .. } if world.memory.hooks_failed.contains_key(&run.seen.id) => {
                wait(&hook_failed(wanted, container, &world.memory.hooks_failed[&run.seen.id]))
            }
            State::Running { started_ms } => {
                runs_now = true;
                json!({"running": {"startedAt": time(*started_ms)}})
            }
            State::Created { refused: None } => wait(&creating),
            State::Created { refused: Some(_) } | State::Exited { .. } => {
                let death = terminated(run, told);
                // A stop for a replacement is not an end, unless an end is on record.
                let edited = wanted.ended_before(member).is_none() && is_edited(wanted, world, member, run);
                exit_code = death["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok()).filter(|_| !edited);
                match waiting.or(edited.then_some(&creating)) {
                    Some(waiting) => {
                        before = death;
                        wait(waiting)
                    }
                    None => json!({"terminated": death}),
                }
            }
        },
        (None, None) => {
            let absent = absent(member.kind, initialized, pod_is_over);
            (exit_code, unmade) =
                (absent.as_ref().and_then(|absent| absent.exit_code), pod_is_over && absent.is_some());
            absent.and_then(|absent| absent.state).unwrap_or_else(|| wait(waiting.unwrap_or(&creating)))
        }
    };
    let (started, ready) = readiness(case, member, newest, runs_now);
    let ready =
        if member.kind == MemberKind::Init { exit_code == Some(0) && state["terminated"].is_object() } else { ready };
    let never_ran = state.get("waiting").is_some() && before.is_null();
    let mut value = json!({
        "name": container.name, "state": state, "ready": ready, "restartCount": 0, "image": container.image,
        "lastState": if before.is_null() { json!({}) } else { json!({"terminated": before}) },
        "imageID": "", "started": started,
    });
    add_origin(&mut value, case, member, newest);
    value["restartCount"] = restarts(&value, told, newest, lost).into();
    let start_error = newest.is_some_and(|run| matches!(run.seen.state, State::Created { refused: Some(_) }));
    One { name: container.name.clone(), value, ready, never_ran, start_error, unmade, exit_code }
}

/// Whether `RestartAllContainers` ended the container, and no container from an earlier round runs any more. Of a pod
/// without such a rule a person began the round, and its containers have ends like any other.
fn is_over(case: &StatusCase<'_>, runs: &[Run<'_>], member: &Member<'_>, newest: &Run<'_>) -> bool {
    let earlier = |run: &Run<'_>| run.tag.renewal < case.renewal.number;
    let alive = seen::members(runs).any(|run| run.seen.runs() && earlier(run));
    case.wanted.restarts_all() && member.kind != MemberKind::Ephemeral && earlier(newest) && !alive
}

/// A container that waits for `RestartAllContainers`. As in a kubelet, its status drops the state that it had before.
fn renewed(case: &StatusCase<'_>, member: &Member<'_>, newest: &Run<'_>, waiting: &Waiting) -> One {
    let all = Waiting::new(WaitReason::RestartingAllContainers, renewal::MESSAGE);
    let idle = matches!(waiting.reason, WaitReason::ContainerCreating | WaitReason::PodInitializing);
    let waiting = if case.renewal.begins && idle { &all } else { waiting };
    let mut value = json!({
        "name": member.spec.name, "state": wait(waiting), "lastState": {"terminated": removed()}, "ready": false,
        "restartCount": newest.restarts().saturating_add(1), "image": member.spec.image, "imageID": "",
        "started": false,
    });
    add_mounts(&mut value, member.spec);
    One {
        name: member.spec.name.clone(),
        value,
        ready: false,
        never_ran: false,
        start_error: false,
        unmade: false,
        exit_code: None,
    }
}

/// The state of a container whose newest start left nothing.
fn of_lost(lost: &Lost, waiting: Option<&Waiting>) -> Value {
    match (waiting, lost.exit_code) {
        (Some(waiting), _) => wait(waiting),
        (None, Some(_)) => json!({"terminated": unknown(&lost.text)}),
        (None, None) => wait(&Waiting::new(WaitReason::CreateContainerError, lost.text.clone())),
    }
}

/// The status of a container that is not here and will not start.
struct Absent {
    /// None: it waits as before.
    state: Option<Value>,
    exit_code: Option<i32>,
}

fn absent(kind: MemberKind, initialized: bool, pod_is_over: bool) -> Option<Absent> {
    let unknown = || unknown(UNLOCATED);
    let completed = || json!({"exitCode": 0, "reason": "Completed", "startedAt": null, "finishedAt": null});
    match kind {
        // It has succeeded: others would not have started.
        MemberKind::Init if initialized => {
            Some(Absent { state: Some(json!({"terminated": completed()})), exit_code: Some(0) })
        }
        _ if !pod_is_over => None,
        _ if initialized => {
            Some(Absent { state: Some(json!({"terminated": unknown()})), exit_code: Some(UNKNOWN_CODE) })
        }
        // Its turn never came.
        MemberKind::Init | MemberKind::Sidecar => Some(Absent { state: None, exit_code: None }),
        MemberKind::Main | MemberKind::Ephemeral => Some(Absent { state: None, exit_code: Some(UNKNOWN_CODE) }),
    }
}

/// Whether the container was made from an earlier spec and its end would be final.
fn is_edited(wanted: &Wanted, world: &World, member: &Member<'_>, run: &Run<'_>) -> bool {
    let may_end = member.kind != MemberKind::Sidecar && !member.spec.starts_again(&wanted.pod.spec.restart_policy, 0);
    let replaced = world.memory.lives.get(&run.seen.id).and_then(|life| life.death).is_some_and(|death| death.edited);
    may_end
        && wanted.pod.metadata.deletion_timestamp.is_none()
        && (replaced || !hash::same(&run.tag.hash, &wanted.hash_of(member)))
}

/// The end of a container that the engine no longer shows: from the record, or from the status reported before another
/// program removed the container.
fn recorded<'a>(
    case: &StatusCase<'a>,
    member: &Member<'_>,
    newest: Option<&Run<'_>>,
    lost: Option<&Lost>,
) -> Option<&'a Value> {
    let ended = |lost: &Lost| {
        let status = status_of(case.was, member).filter(|status| status["restartCount"] == lost.attempt)?;
        status["state"]["terminated"].is_object().then_some(status)
    };
    let tells = newest.is_some_and(|run| matches!(run.seen.state, State::Exited { .. }));
    let attempt = newest.map_or(0, |run| u64::from(run.tag.attempt));
    let stands =
        |before: &&Value| !case.wanted.restarts_all() || before["restartCount"].as_u64().unwrap_or(0) >= attempt;
    let before = case
        .wanted
        .ended_before(member)
        .filter(stands)
        .or_else(|| case.wanted.succeeded_before(member).filter(|_| case.initialized));
    before.filter(|_| !tells).or_else(|| lost.and_then(ended))
}

/// As it is on record.
fn ended_before(before: &Value) -> One {
    let mut value = before.clone();
    (value["ready"], value["started"]) = (false.into(), false.into());
    let start_error = value["state"]["terminated"]["reason"] == "StartError";
    let exit_code = value["state"]["terminated"]["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
    One {
        name: value["name"].as_str().unwrap_or_default().to_owned(),
        value,
        ready: false,
        never_ran: false,
        start_error,
        unmade: false,
        exit_code: exit_code.or(Some(0)),
    }
}

/// The last reported status of a removed container, for a pod that has ended. None: the container is here, or no end
/// was reported.
fn left_behind(case: &StatusCase<'_>, runs: &[Run<'_>], member: &Member<'_>) -> Option<One> {
    let mut before = status_of(case.told?.status, member)?.clone();
    let here = seen::of(runs, &member.spec.name).next().is_some() || lost(case, member, None).is_some();
    if before["state"]["running"].is_object() {
        before["state"] = json!({"terminated": unknown(UNLOCATED)});
    }
    (!here && before["state"]["terminated"].is_object()).then(|| ended_before(&before))
}

/// Its image and id, its resources and mounts.
fn add_origin(value: &mut Value, case: &StatusCase<'_>, member: &Member<'_>, newest: Option<&Run<'_>>) {
    let StatusCase { wanted, was, .. } = *case;
    if let Some(run) = newest.filter(|run| run.seen.state != (State::Created { refused: None })) {
        // A container that an update holds to an image was made from the image's id, not from a name.
        let made_from = Some(&run.seen.image).filter(|image| !image.starts_with("sha256:"));
        value["image"] = json!(images::full_name(made_from.unwrap_or(&member.spec.image)));
        value["imageID"] = json!(run.seen.image_id);
        value["containerID"] = json!(format!("docker://{}", run.seen.id));
        add_resources(value, wanted, member);
        // Until the engine has done a resize, the container uses its former resources.
        let before =
            status_of(was, member).map(|status| &status["resources"]).filter(|resources| resources.is_object());
        if let Some(before) = before.filter(|_| resize::wanted_of(wanted, member, run).is_some()) {
            value["resources"] = before.clone();
        }
    }
    add_mounts(value, member.spec);
}

/// A container keeps a reported `CreateContainerConfigError` until the container runs.
fn misconfigured(case: &StatusCase<'_>, member: &Member<'_>) -> Option<Waiting> {
    let waiting = &status_of(case.was, member)?["state"]["waiting"];
    let reason = WaitReason::CreateContainerConfigError;
    let message = waiting["message"].as_str().unwrap_or_default();
    (waiting["reason"] == reason.name()).then(|| Waiting::new(reason, message))
}

/// The waiting reason of a container that nothing blocks.
fn about_to_start(wanted: &Wanted) -> WaitReason {
    if wanted.pod.spec.init_containers.is_empty() { WaitReason::ContainerCreating } else { WaitReason::PodInitializing }
}

fn wait(waiting: &Waiting) -> Value {
    if waiting.message.is_empty() {
        json!({"waiting": {"reason": waiting.reason.name()}})
    } else {
        json!({"waiting": {"reason": waiting.reason.name(), "message": waiting.message}})
    }
}

fn hook_failed(wanted: &Wanted, container: &Container, text: &str) -> Waiting {
    let PodName { namespace, name, uid, .. } = &wanted.name;
    let action = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
    let kind = match action {
        Some(Action { exec: Some(exec), .. }) => format!("Exec lifecycle hook ([{}])", exec.command.join(" ")),
        Some(Action { http_get: Some(get), .. }) => format!("HTTP lifecycle hook ({})", get.path),
        Some(Action { sleep: Some(sleep), .. }) => format!("Sleep lifecycle hook ({})", sleep.seconds),
        _ => "TCP lifecycle hook".to_owned(),
    };
    let message = format!(
        "{kind} for Container \"{}\" in Pod \"{name}_{namespace}({uid})\" failed - error: {text}",
        container.name
    );
    Waiting::new(WaitReason::PostStartHookError, message)
}

/// The `terminated` state of a dead run. `told`: the container status that was reported before.
pub(super) fn terminated(run: &Run<'_>, told: Option<&Value>) -> Value {
    let (code, reason, started_ms, finished_ms, message) = match &run.seen.state {
        State::Exited { exit_code, out_of_memory, started_ms, finished_ms } => {
            let reason = match exit_code {
                0 => "Completed",
                // With any other code, the kernel killed only a child process.
                137 if *out_of_memory => "OOMKilled",
                _ => "Error",
            };
            (*exit_code, reason, *started_ms, *finished_ms, run.seen.message.clone())
        }
        State::Created { refused: Some(text) } => (128, "StartError", 0, run.seen.created_ms, Some(text.clone())),
        State::Created { refused: None } | State::Running { .. } => return Value::Null,
    };
    let mut value = json!({
        "exitCode": code, "reason": reason, "startedAt": time(started_ms), "finishedAt": time(finished_ms),
        "containerID": format!("docker://{}", run.seen.id),
    });
    if let Some(start) = told.and_then(|told| told_start(told, run)) {
        value["startedAt"] = start.clone();
    }
    if let Some(message) = message.filter(|message| !message.is_empty()) {
        value["message"] = json!(message);
    }
    value
}

pub(super) fn unknown(text: &str) -> Value {
    json!({
        "exitCode": UNKNOWN_CODE, "reason": "ContainerStatusUnknown", "message": text, "startedAt": null,
        "finishedAt": null,
    })
}

fn add_resources(value: &mut Value, wanted: &Wanted, member: &Member<'_>) {
    let mut resources = wanted.document_of(member)["resources"].clone();
    // A limit without a request is the request too.
    if let Some(limits) = resources["limits"].as_object().cloned() {
        for (name, amount) in limits {
            if resources["requests"].get(&name).is_none() {
                resources["requests"][name] = amount;
            }
        }
    }
    if let Some(requests) = resources.get("requests").filter(|requests| !requests.is_null()) {
        value["allocatedResources"] = requests.clone();
    }
    value["resources"] = if resources.is_null() { json!({}) } else { resources };
}

fn add_mounts(value: &mut Value, container: &Container) {
    if container.volume_mounts.is_empty() {
        return;
    }
    let mounts = container.volume_mounts.iter().map(|mount| {
        let mut shown = json!({"name": mount.name, "mountPath": mount.mount_path});
        if mount.read_only {
            shown["readOnly"] = json!(true);
            shown["recursiveReadOnly"] = json!("Disabled");
        }
        shown
    });
    value["volumeMounts"] = mounts.collect();
}

/// As documents show it.
pub(super) fn time(wall_ms: i64) -> String {
    Time::from_seconds(wall_ms.div_euclid(1000))
        .map_or_else(|| "1970-01-01T00:00:00Z".to_owned(), |time| time.to_string())
}

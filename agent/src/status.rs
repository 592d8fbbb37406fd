//! What is there of a pod -> its v1 PodStatus, in the words of the kubelet. PURE.
//!
//! `was` is the status that was shown before: it keeps the times of conditions that did not change, and what the engine has
//! forgotten (an address, when it all began).

use coracle_api::meta::Time;
use coracle_api::pod::Container;
use coracle_api::strategy::qos;
use serde_json::{Map, Value, json};

use crate::desired::Wanted;
use crate::naming::{LABEL_POD_UID, PodName, SANDBOX, Tag};
use crate::plan::images;
use crate::plan::memory::UNKNOWN_CODE;
use crate::plan::seen::{self, Run};
use crate::plan::{Now, Waiting, Waits, World};
use crate::runtime::State;

pub fn status(wanted: &Wanted, world: &World, waits: &Waits, was: &Value, now: Now) -> Value {
    let (runs, ephemeral_runs) = runs(wanted, world);
    let recorded = &wanted.document["status"];
    // It ended before, and nothing of it is left here to say more: what is on record stays.
    if wanted.pod.status.terminal() && runs.is_empty() {
        return recorded.clone();
    }
    let spec = &wanted.pod.spec;
    let sandbox = seen::of(&runs, SANDBOX).find(|run| run.seen.runs());
    let deleting = wanted.pod.metadata.deletion_timestamp.is_some();
    let containers: Vec<One> =
        spec.containers.iter().map(|container| one(wanted, world, waits, &runs, container, deleting && sandbox.is_none())).collect();
    let ended = end(&wanted.pod.spec.restart_policy, deleting, &containers, waits);
    let phase = match ended {
        // The sandbox goes last; only then is it over.
        Some(end) if sandbox.is_none() => end.phase(),
        Some(_) if containers.iter().all(|one| one.start_error) => "Pending",
        Some(_) => "Running",
        None if containers.is_empty() || containers.iter().any(|one| one.never_ran) => "Pending",
        None => "Running",
    };
    let facts = Facts { up: sandbox.is_some(), ended, containers: &containers, runs: &runs };
    let generation = Some(wanted.pod.metadata.generation).filter(|generation| *generation > 0);
    let mut status = Map::new();
    let mut set = |name: &str, value: Value| drop(status.insert(name.to_owned(), value));
    if let Some(generation) = generation {
        set("observedGeneration", json!(generation));
    }
    set("phase", json!(phase));
    set("conditions", conditions(&facts, generation, was, now));
    if let Some(Waiting { reason, message }) = &waits.pod {
        set("reason", json!(reason));
        set("message", json!(message));
    }
    set("hostIP", json!(world.node.address));
    set("hostIPs", json!([{"ip": world.node.address}]));
    let ip = match sandbox {
        _ if spec.host_network => Some(world.node.address.clone()),
        Some(run) => run.seen.ip.clone(),
        None => None,
    };
    if let Some(ip) = ip.or_else(|| was["podIP"].as_str().map(str::to_owned)).filter(|ip| !ip.is_empty()) {
        set("podIP", json!(ip));
        set("podIPs", json!([{"ip": ip}]));
    }
    let start = was["startTime"].as_str().map_or_else(|| time(begun_ms(&runs, now)), str::to_owned);
    set("startTime", json!(start));
    set("containerStatuses", containers.into_iter().map(|one| one.value).collect());
    let ephemeral = spec.ephemeral_containers.iter();
    let ephemeral: Vec<Value> = ephemeral.map(|container| ephemeral_status(wanted, world, waits, &ephemeral_runs, container)).collect();
    if !ephemeral.is_empty() {
        set("ephemeralContainerStatuses", Value::Array(ephemeral));
    }
    set("qosClass", json!(qos::class(&wanted.document)));
    Value::Object(status)
}

/// Since when something of the pod is here: an agent that starts anew finds it on the engine.
fn begun_ms(runs: &[Run<'_>], now: Now) -> i64 {
    runs.iter().map(|run| run.seen.created_ms).filter(|ms| *ms > 0).min().map_or(now.wall_ms, |ms| ms.min(now.wall_ms))
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

/// How a pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Succeeded,
    Failed,
}

impl End {
    fn phase(self) -> &'static str {
        match self {
            End::Succeeded => "Succeeded",
            End::Failed => "Failed",
        }
    }

    fn reason(self) -> &'static str {
        match self {
            End::Succeeded => "PodCompleted",
            End::Failed => "PodFailed",
        }
    }
}

/// One container's part of the status.
struct One {
    name: String,
    value: Value,
    ready: bool,
    /// Nothing of it ever ran.
    never_ran: bool,
    /// The engine refused its newest start.
    start_error: bool,
    /// The pod ended before it was made.
    unmade: bool,
    /// How its newest start ended.
    exit_code: Option<i32>,
}

struct Facts<'a> {
    up: bool,
    ended: Option<End>,
    containers: &'a [One],
    runs: &'a [Run<'a>],
}

/// Those of the pod itself, and those of its ephemeral containers: the newest first.
fn runs<'a>(wanted: &Wanted, world: &'a World) -> (Vec<Run<'a>>, Vec<Run<'a>>) {
    let mut runs: Vec<Run> = world
        .containers
        .iter()
        .filter(|seen| seen.labels.get(LABEL_POD_UID) == Some(&wanted.name.uid))
        .filter_map(|seen| Some(Run { tag: Tag::read(&seen.name, &seen.labels)?, seen }))
        .collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.tag.attempt));
    let is_ephemeral = |run: &Run<'_>| wanted.pod.spec.ephemeral_containers.iter().any(|container| container.name == run.tag.container);
    runs.into_iter().partition(|run| !is_ephemeral(run))
}

/// It is neither ready nor restarted, whatever it does.
fn ephemeral_status(wanted: &Wanted, world: &World, waits: &Waits, runs: &[Run<'_>], container: &Container) -> Value {
    let lost = world.memory.lost.contains_key(&(wanted.name.uid.clone(), container.name.clone()));
    if let Some(before) = wanted.started_before(&container.name)
        && seen::of(runs, &container.name).next().is_none()
        && !lost
    {
        // Somebody removed it while no agent looked.
        let mut shown = before.clone();
        if shown["state"]["terminated"].is_null() {
            shown["state"] = json!({"terminated": unknown("The container could not be located any more")});
        }
        return shown;
    }
    let mut value = one(wanted, world, waits, runs, container, false).value;
    value["ready"] = json!(false);
    value["restartCount"] = json!(0);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("started");
    }
    value
}

fn end(policy: &str, deleting: bool, containers: &[One], waits: &Waits) -> Option<End> {
    let over = |one: &One| {
        one.exit_code.is_some_and(|code| match policy {
            _ if deleting => true,
            "Never" => true,
            "OnFailure" => code == 0,
            _ => false,
        }) && !waits.containers.contains_key(&one.name)
    };
    if containers.is_empty() || !containers.iter().all(over) {
        return None;
    }
    Some(if containers.iter().all(|one| one.exit_code == Some(0)) { End::Succeeded } else { End::Failed })
}

fn one(wanted: &Wanted, world: &World, waits: &Waits, runs: &[Run<'_>], container: &Container, pod_is_over: bool) -> One {
    let newest = seen::of(runs, &container.name).next();
    let previous = seen::of(runs, &container.name).nth(1);
    let lost = world.memory.lost.get(&(wanted.name.uid.clone(), container.name.clone()));
    let lost = lost.filter(|lost| newest.is_none_or(|run| lost.attempt > run.tag.attempt));
    let waiting = waits.containers.get(&container.name);
    let mut before = previous.map_or(Value::Null, terminated);
    let mut exit_code = None;
    let (mut runs_now, mut unmade) = (false, false);
    let state = match (newest, lost) {
        (_, Some(lost)) => {
            exit_code = lost.exit_code;
            let unknown = unknown(&lost.text);
            match (waiting, lost.exit_code) {
                (Some(waiting), _) => {
                    // What was never made never ended either.
                    before = newest.map_or_else(|| lost.exit_code.map_or(Value::Null, |_| unknown), terminated);
                    wait(waiting)
                }
                (None, Some(_)) => json!({"terminated": unknown}),
                (None, None) => wait(&Waiting::new("CreateContainerError", lost.text.clone())),
            }
        }
        (Some(run), None) => match &run.seen.state {
            State::Running { .. } if world.memory.hooks_running.contains(&run.seen.id) => wait(&creating()),
            State::Running { .. } if world.memory.hooks_failed.contains_key(&run.seen.id) => {
                wait(&hook_failed(wanted, container, &world.memory.hooks_failed[&run.seen.id]))
            }
            State::Running { started_ms } => {
                runs_now = true;
                json!({"running": {"startedAt": time(*started_ms)}})
            }
            State::Created { refused: None } => wait(&creating()),
            State::Created { refused: Some(_) } | State::Exited { .. } => {
                let death = terminated(run);
                exit_code = death["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
                match waiting {
                    Some(waiting) => {
                        before = death;
                        wait(waiting)
                    }
                    None => json!({"terminated": death}),
                }
            }
        },
        (None, None) if pod_is_over => {
            unmade = true;
            exit_code = Some(UNKNOWN_CODE);
            json!({"terminated": unknown("The container could not be located when the pod was terminated")})
        }
        (None, None) => wait(waiting.unwrap_or(&creating())),
    };
    let verdict = newest.and_then(|run| world.verdicts.get(&run.seen.id));
    let ready = runs_now && (container.readiness_probe.is_none() || verdict.is_some_and(|verdict| verdict.ready == Some(true)));
    let attempt = lost.map(|lost| lost.attempt).or(newest.map(|run| run.tag.attempt)).unwrap_or(0);
    let never_ran = state.get("waiting").is_some() && before.is_null();
    let last_state = if before.is_null() { json!({}) } else { json!({"terminated": before}) };
    let mut value = json!({
        "name": container.name, "state": state, "lastState": last_state, "ready": ready, "restartCount": attempt,
        "image": container.image, "imageID": "", "started": runs_now,
    });
    if let Some(run) = newest.filter(|run| run.seen.state != (State::Created { refused: None })) {
        value["image"] = json!(images::full_name(&run.seen.image));
        value["imageID"] = json!(run.seen.image_id);
        value["containerID"] = json!(format!("docker://{}", run.seen.id));
        add_resources(&mut value, wanted, container);
    }
    add_mounts(&mut value, container);
    let start_error = newest.is_some_and(|run| matches!(run.seen.state, State::Created { refused: Some(_) }));
    One { name: container.name.clone(), value, ready, never_ran, start_error, unmade, exit_code }
}

fn wait(waiting: &Waiting) -> Value {
    if waiting.message.is_empty() {
        json!({"waiting": {"reason": waiting.reason}})
    } else {
        json!({"waiting": {"reason": waiting.reason, "message": waiting.message}})
    }
}

fn creating() -> Waiting {
    Waiting::new("ContainerCreating", "")
}

fn hook_failed(wanted: &Wanted, container: &Container, text: &str) -> Waiting {
    let PodName { namespace, name, uid, .. } = &wanted.name;
    let action = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
    let kind = match action.and_then(|action| action.exec.as_ref()) {
        Some(exec) => format!("Exec lifecycle hook ([{}])", exec.command.join(" ")),
        None => "HTTP lifecycle hook".to_owned(),
    };
    let message = format!("{kind} for Container \"{}\" in Pod \"{name}_{namespace}({uid})\" failed - error: {text}", container.name);
    Waiting::new("PostStartHookError", message)
}

/// Of a run that is dead.
fn terminated(run: &Run<'_>) -> Value {
    let (code, reason, started_ms, finished_ms, message) = match &run.seen.state {
        State::Exited { exit_code, out_of_memory, started_ms, finished_ms } => {
            let reason = match exit_code {
                0 => "Completed",
                // With another code only a child of it was killed.
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
    if let Some(message) = message.filter(|message| !message.is_empty()) {
        value["message"] = json!(message);
    }
    value
}

fn unknown(text: &str) -> Value {
    json!({"exitCode": UNKNOWN_CODE, "reason": "ContainerStatusUnknown", "message": text, "startedAt": null, "finishedAt": null})
}

fn add_resources(value: &mut Value, wanted: &Wanted, container: &Container) {
    let documents = wanted.document["spec"]["containers"].as_array();
    let document = documents.into_iter().flatten().find(|document| document["name"] == container.name.as_str());
    let mut resources = document.map_or(Value::Null, |document| document["resources"].clone());
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

fn conditions(facts: &Facts<'_>, generation: Option<i64>, was: &Value, now: Now) -> Value {
    let unready: Vec<&str> = facts.containers.iter().filter(|one| !one.ready).map(|one| one.name.as_str()).collect();
    let mut list = Vec::new();
    let mut add = |kind: &str, holds: bool, reason: Option<&str>, message: Option<String>| {
        let status = if holds { "True" } else { "False" };
        let before = was["conditions"].as_array().into_iter().flatten().find(|condition| condition["type"] == kind);
        let since = before.filter(|condition| condition["status"] == status).and_then(|condition| condition["lastTransitionTime"].as_str());
        // Nothing was shown before: an agent that starts anew reads the times off the engine.
        let first_ms = match kind {
            _ if !was["conditions"].is_null() => now.wall_ms,
            "Ready" | "ContainersReady" if holds || facts.ended.is_some() => turned_ms(facts.runs, now),
            "Ready" | "ContainersReady" => now.wall_ms,
            _ => begun_ms(facts.runs, now),
        };
        let since = since.map_or_else(|| time(first_ms), str::to_owned);
        let mut condition = json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since});
        if let Some(generation) = generation {
            condition["observedGeneration"] = json!(generation);
        }
        if let Some(reason) = reason {
            condition["reason"] = json!(reason);
        }
        if let Some(message) = message {
            condition["message"] = json!(message);
        }
        list.push(condition);
    };
    add("PodReadyToStartContainers", facts.up, None, None);
    add("Initialized", true, (facts.ended == Some(End::Succeeded)).then_some("PodCompleted"), None);
    for kind in ["Ready", "ContainersReady"] {
        match facts.ended {
            Some(end) if !facts.containers.iter().any(|one| one.unmade) => add(kind, false, Some(end.reason()), None),
            _ if unready.is_empty() && !facts.containers.is_empty() => add(kind, true, None, None),
            _ => {
                let message = format!("containers with unready status: [{}]", unready.join(" "));
                add(kind, false, Some("ContainersNotReady"), Some(message));
            }
        }
    }
    add("PodScheduled", true, None, None);
    Value::Array(list)
}

fn time(wall_ms: i64) -> String {
    Time::from_seconds(wall_ms.div_euclid(1000)).map_or_else(|| "1970-01-01T00:00:00Z".to_owned(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::Source;
    use crate::plan::memory::Lost;

    #[test]
    fn a_new_agent_reads_the_times_off_the_engine() {
        let document =
            json!({"metadata": {"namespace": "d", "name": "p", "uid": "u"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let wanted = Wanted::new(Source::File, document).unwrap();
        let tag = |container: &str| {
            let labels = crate::container::sandbox_config(&World::default(), &wanted, 0, 0, String::new()).labels;
            let mut tag = Tag::read(&crate::naming::container_name(&wanted.name, SANDBOX, 0), &labels).unwrap();
            tag.container = container.to_owned();
            tag
        };
        let seen = |container: &str, created_ms: i64, started_ms: i64| crate::runtime::Seen {
            id: container.to_owned(),
            name: tag(container).name(),
            labels: tag(container).labels(),
            image: String::new(),
            image_id: String::new(),
            created_ms,
            state: State::Running { started_ms },
            ip: None,
            message: None,
        };
        let world = World { containers: vec![seen(SANDBOX, 1000, 2000), seen("c", 3000, 4000)], ..World::default() };
        let status = status(&wanted, &world, &Waits::default(), &Value::Null, Now { wall_ms: 99_000, mono_ms: 0 });
        assert_eq!(status["startTime"], "1970-01-01T00:00:01Z");
        let times: Vec<&str> =
            status["conditions"].as_array().unwrap().iter().map(|one| &one["lastTransitionTime"].as_str().unwrap()[17..19]).collect();
        assert_eq!(times, ["01", "01", "04", "04", "01"]);
    }

    #[test]
    fn an_ephemeral_container_that_is_lost_stays_ended() {
        let check = |state: Value, expected: Value| {
            let before = json!({"name": "e", "containerID": "docker://1", "image": "i", "state": state});
            let document = json!({
                "metadata": {"namespace": "d", "name": "p", "uid": "u"}, "status": {"ephemeralContainerStatuses": [before]},
                "spec": {"containers": [{"name": "c", "image": "i"}], "ephemeralContainers": [{"name": "e", "image": "i"}]},
            });
            let wanted = Wanted::new(Source::Master, document).unwrap();
            let status = status(&wanted, &World::default(), &Waits::default(), &Value::Null, Now::default());
            assert_eq!(status["ephemeralContainerStatuses"][0]["state"]["terminated"]["reason"], expected);
        };
        check(json!({"running": {}}), json!("ContainerStatusUnknown"));
        check(json!({"terminated": {"reason": "Completed"}}), json!("Completed"));
        check(json!({"waiting": {}}), Value::Null);
    }

    #[test]
    fn what_was_never_made_never_ended() {
        let document = json!({
            "metadata": {"namespace": "d", "name": "p", "uid": "u"}, "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]},
        });
        let wanted = Wanted::new(Source::File, document).unwrap();
        let check = |exit_code: Option<i32>, phase: &str, reason_before: Value| {
            let mut world = World::default();
            let lost = Lost { attempt: 1, step: 1, hash: String::new(), at_ms: 0, exit_code, text: "no such mount".to_owned() };
            world.memory.lost.insert(("u".to_owned(), "c".to_owned()), lost);
            let mut waits = Waits::default();
            waits.containers.insert("c".to_owned(), Waiting::new("CreateContainerError", "no such mount"));
            let status = status(&wanted, &world, &waits, &Value::Null, Now::default());
            let before = &status["containerStatuses"][0]["lastState"]["terminated"]["reason"];
            assert_eq!((status["phase"].as_str(), before), (Some(phase), &reason_before));
        };
        check(None, "Pending", Value::Null);
        // It ran, and somebody else removed it.
        check(Some(137), "Running", json!("ContainerStatusUnknown"));
    }
}

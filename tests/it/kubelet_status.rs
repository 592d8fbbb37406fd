//! The agent's statuses against what a real kubelet 1.36 reported, status by status.
//!
//! Each recorded status is turned back into what the engine held at that moment; from that, the agent's own words must
//! be the same. Intended differences:
//!
//! 1. Container ids say `docker://`; times, addresses and ids are not compared.
//! 2. There is no service account, so its mount is in no container.
//! 3. `podIP` stands in the status as soon as the sandbox is up; the kubelet shows it one write later.
//! 4. The pod's own `resources` are not compared once it is over: then a kubelet may say less than it did before.
//! 5. After a failure the back-off is shown at once (waiting, CrashLoopBackOff); the kubelet shows `terminated` until
//!    its next sync. So both forms are compared as they stand, only not when they come.
//! 6. The phase ends in the same status that shows the sandbox down; the kubelet sometimes needs one more (a container
//!    killed by its liveness probe with policy Never, a pod deleted while its image is missing).
//! 7. A readiness gate counts as soon as it is set; the kubelet shows it one write later.
//! 8. A container that was refused by the engine has no `finishedAt` of its own: it is when it was made.

use std::collections::BTreeMap;

use coracle_agent::facts::backoff::Now;
use coracle_agent::facts::engine::{SeenContainer, State};
use coracle_agent::facts::naming::Source;
use coracle_agent::facts::naming::{SANDBOX, Tag};
use coracle_agent::facts::waiting::{Waiting, Waits};
use coracle_agent::facts::wanted::Wanted;
use coracle_agent::facts::world::{Node, Verdict, World};
use coracle_agent::status::{CONDITIONS, status};
use serde_json::{Value, json};

#[test]
fn as_a_kubelet_says_it() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/data/v1/kubelet");
    let mut compared = 0;
    let mut wrongs = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let case: Value = serde_json::from_str(&text.replace("<uid>", "uid")).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        compared += replay(name, &case, &mut wrongs);
    }
    assert!(wrongs.is_empty(), "{} of {compared} differ:\n{}", wrongs.len(), wrongs.join("\n"));
    assert!(compared > 200, "only {compared} statuses were compared");
}

fn replay(name: &str, case: &Value, wrongs: &mut Vec<String>) -> usize {
    let mut was = Value::Null;
    let mut compared = 0;
    let mut was_up = false;
    for entry in case["timeline"].as_array().unwrap() {
        let recorded = &entry["status"];
        // The API server's own first status, and the end.
        if recorded["conditions"].is_null() {
            continue;
        }
        let up = is_up(recorded);
        if was_up && !up && !matches!(recorded["phase"].as_str(), Some("Succeeded" | "Failed")) {
            continue;
        }
        was_up |= up;
        let ready = |kind: &str| {
            recorded["conditions"].as_array().unwrap().iter().any(|one| one["type"] == kind && one["status"] == "True")
        };
        let gates = case["pod"]["spec"]["readinessGates"].as_array().into_iter().flatten();
        let open = gates.into_iter().any(|gate| ready(gate["conditionType"].as_str().unwrap()));
        if open && ready("ContainersReady") && !ready("Ready") {
            continue;
        }
        let (wanted, world, waits) = moment(name, case, recorded);
        let ours = status(&wanted, &world, &waits, &was, Now { wall_ms: 1_800_000_000_000, mono_ms: 0 });
        let (left, right) = (plain(&ours), plain(recorded));
        let left = if recorded.get("podIP").is_none() { without_ip(left) } else { left };
        if left != right {
            wrongs.push(format!("{name} at {}:\n  ours   {left}\n  theirs {right}", entry["t"]));
        }
        compared += 1;
        was = ours;
    }
    compared
}

/// What the engine held when a kubelet said this.
fn moment(name: &str, case: &Value, recorded: &Value) -> (Wanted, World, Waits) {
    let mut document = case["pod"].clone();
    document["metadata"]["namespace"] = json!("gt");
    document["metadata"]["name"] = json!(name);
    document["metadata"]["uid"] = json!("uid");
    // A mirror's status has none.
    if let Some(generation) = recorded.get("observedGeneration") {
        document["metadata"]["generation"] = generation.clone();
    }
    let ephemeral = recorded["ephemeralContainerStatuses"].as_array();
    if ephemeral.is_some() {
        document["spec"]["ephemeralContainers"] = case["actions"][0]["patch"]["spec"]["ephemeralContainers"].clone();
    } else if recorded["observedGeneration"] == 2 {
        document["metadata"]["deletionTimestamp"] = json!("2027-01-01T00:00:00Z");
    }
    if document["spec"]["restartPolicy"].is_null() {
        document["spec"]["restartPolicy"] = json!("Always");
    }
    default_requests(&mut document);
    let others = recorded["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| !CONDITIONS.iter().any(|kind| one["type"] == *kind));
    document["status"] = json!({"conditions": others.collect::<Vec<_>>()});
    let wanted = Wanted::new(Source::Master, document).unwrap();
    let mut world = World { node: Node { address: "10.0.0.1".into(), ..Node::default() }, ..World::default() };
    let mut waits = Waits::default();
    if is_up(recorded) {
        world.containers.push(seen(&wanted, SANDBOX, 0, "", State::Running { started_ms: 1 }, None));
    }
    let spec = &wanted.pod.spec;
    let ephemeral = spec.ephemeral_containers.iter().zip(ephemeral.into_iter().flatten());
    let init = spec.init_containers.iter().zip(recorded["initContainerStatuses"].as_array().into_iter().flatten());
    for (container, said) in
        init.chain(spec.containers.iter().zip(recorded["containerStatuses"].as_array().unwrap())).chain(ephemeral)
    {
        let attempt = u32::try_from(said["restartCount"].as_u64().unwrap()).unwrap();
        let (state, last) = (&said["state"], &said["lastState"]["terminated"]);
        let mut add = |attempt: u32, state: State, message: Option<String>| {
            let seen = seen(&wanted, &container.name, attempt, &container.image, state, message);
            world.containers.push(seen);
        };
        if let Some(waiting) = state.get("waiting") {
            let reason = waiting["reason"].as_str().unwrap();
            if !last.is_null() {
                let (state, message) = dead(last);
                add(attempt, state, message);
            } else if reason == "PostStartHookError" {
                add(attempt, State::Running { started_ms: 1 }, None);
                let text = waiting["message"].as_str().unwrap().split(" failed - error: ").nth(1).unwrap().to_owned();
                world.memory.hooks_failed.insert(format!("{}-{attempt}", container.name), text);
                continue;
            }
            if !["ContainerCreating", "PodInitializing"].contains(&reason) {
                let message = waiting["message"].as_str().unwrap_or("");
                let reason = serde_json::from_value(waiting["reason"].clone()).expect("a reason that the agent has");
                waits.containers.insert(container.name.clone(), Waiting::new(reason, message));
            }
            continue;
        }
        if !last.is_null() {
            let (state, message) = dead(last);
            add(attempt - 1, state, message);
        }
        if let Some(terminated) = state.get("terminated") {
            if terminated["reason"] != "ContainerStatusUnknown" {
                let (state, message) = dead(terminated);
                add(attempt, state, message);
            }
        } else {
            add(attempt, State::Running { started_ms: 1 }, None);
            if container.readiness_probe.is_some() || container.startup_probe.is_some() {
                let verdict =
                    Verdict { ready: said["ready"].as_bool(), started: said["started"] == true, ..Verdict::default() };
                world.verdicts.insert(format!("{}-{attempt}", container.name), verdict);
            }
        }
    }
    (wanted, world, waits)
}

/// As the API server writes them out: where there is none, the limit.
fn default_requests(document: &mut Value) {
    for container in document["spec"]["containers"].as_array_mut().unwrap() {
        for (name, limit) in container["resources"]["limits"].as_object().cloned().unwrap_or_default() {
            if container["resources"]["requests"].get(&name).is_none() {
                container["resources"]["requests"][name] = limit;
            }
        }
    }
}

fn is_up(status: &Value) -> bool {
    let mut conditions = status["conditions"].as_array().unwrap().iter();
    conditions.any(|condition| condition["type"] == "PodReadyToStartContainers" && condition["status"] == "True")
}

fn dead(terminated: &Value) -> (State, Option<String>) {
    let message = terminated["message"].as_str().map(str::to_owned);
    if terminated["reason"] == "StartError" {
        return (State::Created { refused: message.clone() }, message);
    }
    let exit_code = i32::try_from(terminated["exitCode"].as_i64().unwrap()).unwrap();
    let out_of_memory = terminated["reason"] == "OOMKilled";
    (State::Exited { exit_code, out_of_memory, started_ms: 1, finished_ms: 2 }, message)
}

fn seen(
    wanted: &Wanted,
    container: &str,
    attempt: u32,
    image: &str,
    state: State,
    message: Option<String>,
) -> SeenContainer {
    let tag = Tag {
        pod: wanted.name.clone(),
        container: container.to_owned(),
        attempt,
        sandbox: 0,
        hash: wanted.member(container).map(|member| wanted.hash_of(&member)).unwrap_or_default(),
        step: 0,
        renewal: 0,
        grace_s: 30,
        stop_signal: "SIGTERM".to_owned(),
        pre_stop: None,
        restart_policy: wanted.pod.spec.restart_policy.clone(),
        end_turn: 0,
        message_file: None,
        message_from_log: false,
        host_ports: Vec::new(),
        holds_volumes: false,
    };
    let ip = (container == SANDBOX).then(|| "10.244.0.9".to_owned());
    SeenContainer {
        id: format!("{container}-{attempt}"),
        name: tag.name(),
        labels: tag.labels(),
        image: image.to_owned(),
        image_id: "sha256:1".to_owned(),
        created_ms: 1,
        state,
        ip,
        limits: None,
        message,
        beside: Default::default(),
    }
}

/// Without what is not compared.
fn plain(status: &Value) -> Value {
    let mut status = status.clone();
    let object = status.as_object_mut().unwrap();
    // Without containers to measure, a kubelet on cgroup v1 says less than it did before.
    if matches!(object["phase"].as_str(), Some("Succeeded" | "Failed")) {
        object.remove("resources");
    }
    for name in ["hostIP", "podIP", "startTime"] {
        if let Some(value) = object.get_mut(name) {
            *value = json!("-");
        }
    }
    for name in ["hostIPs", "podIPs"] {
        if let Some(value) = object.get_mut(name) {
            *value = json!([{"ip": "-"}]);
        }
    }
    let conditions = object["conditions"].as_array_mut().unwrap();
    conditions.retain(|one| CONDITIONS.iter().any(|kind| one["type"] == *kind));
    for condition in conditions {
        condition["lastTransitionTime"] = json!("-");
    }
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().for_each(plain_container);
    }
    status
}

fn plain_container(container: &mut Value) {
    let mounts = container.get("volumeMounts").and_then(Value::as_array).cloned().unwrap_or_default();
    let mounts: Vec<Value> = mounts
        .into_iter()
        .filter(|mount| mount["mountPath"] != "/var/run/secrets/kubernetes.io/serviceaccount")
        .collect();
    container.as_object_mut().unwrap().remove("volumeMounts");
    if !mounts.is_empty() {
        container["volumeMounts"] = Value::Array(mounts);
    }
    for id in ["containerID", "imageID"] {
        if container.get(id).is_some_and(|id| id != "") {
            container[id] = json!("-");
        }
    }
    for state in ["state", "lastState"] {
        for kind in ["running", "terminated"] {
            let Some(shown) = container[state].get_mut(kind) else { continue };
            let times: BTreeMap<&str, Value> =
                ["startedAt", "finishedAt"].into_iter().map(|time| (time, shown[time].clone())).collect();
            for (time, value) in times {
                if value.is_string() {
                    shown[time] = json!("-");
                } else if kind == "terminated" {
                    shown[time] = value;
                }
            }
            if let Some(shown) = shown.as_object_mut() {
                shown.remove("containerID");
            }
        }
    }
}

fn without_ip(mut status: Value) -> Value {
    let object = status.as_object_mut().unwrap();
    object.remove("podIP");
    object.remove("podIPs");
    status
}

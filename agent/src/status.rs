//! A pod as it is here -> its v1 PodStatus, in the words of the kubelet. PURE.
//!
//! `was` is the status that was shown before: it keeps the times of conditions that did not change, and what the engine has
//! forgotten (an address, when it all began).

mod member;

use coracle_api::strategy::qos;
use serde_json::{Map, Value, json};

use self::member::{Case, One, one, time, unknown};
use crate::desired::Wanted;
use crate::members::{Kind, Member};
use crate::naming::{LABEL_POD_UID, SANDBOX, Tag};
use crate::plan::order;
use crate::plan::seen::{self, Run};
use crate::plan::{Now, Waits, World};
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
    let initialized = order::is_initialized(wanted, &runs);
    let case = Case { wanted, world, waits, was, initialized };
    let (init, containers): (Vec<Told>, Vec<Told>) = wanted
        .members()
        .filter(|member| member.kind != Kind::Ephemeral)
        .map(|member| Told { kind: member.kind, one: one(&case, &runs, &member, deleting && sandbox.is_none()) })
        .partition(|told| told.kind != Kind::Main);
    let containers: Vec<One> = containers.into_iter().map(|told| told.one).collect();
    let ended = end(&wanted.pod.spec.restart_policy, deleting, &containers, waits).or_else(|| init_end(wanted, &init, waits));
    let phase = match ended {
        // The sandbox goes last; only then is it over.
        Some(end) if sandbox.is_none() => end.phase(),
        Some(_) if !initialized || containers.iter().all(|one| one.start_error) => "Pending",
        Some(_) => "Running",
        None if !initialized => "Pending",
        None if containers.is_empty() || containers.iter().any(|one| one.never_ran) => "Pending",
        None => "Running",
    };
    let facts = Facts { up: sandbox.is_some(), ended, initialized, init: &init, containers: &containers, runs: &runs };
    let generation = Some(wanted.pod.metadata.generation).filter(|generation| *generation > 0);
    let mut status = Map::new();
    let mut set = |name: &str, value: Value| drop(status.insert(name.to_owned(), value));
    if let Some(generation) = generation {
        set("observedGeneration", json!(generation));
    }
    set("phase", json!(phase));
    set("conditions", conditions(&facts, generation, was, now));
    if let Some(waiting) = &waits.pod {
        set("reason", json!(waiting.reason.name()));
        set("message", json!(waiting.message));
    }
    set("hostIP", json!(world.node.address));
    set("hostIPs", json!([{"ip": world.node.address}]));
    let ip = seen::address(&runs, spec.host_network, &world.node.address);
    if let Some(ip) = ip.or(was["podIP"].as_str()).filter(|ip| !ip.is_empty()) {
        set("podIP", json!(ip));
        set("podIPs", json!([{"ip": ip}]));
    }
    let start = was["startTime"].as_str().map_or_else(|| time(begun_ms(&runs, now)), str::to_owned);
    set("startTime", json!(start));
    if !init.is_empty() {
        set("initContainerStatuses", init.into_iter().map(|told| told.one.value).collect());
    }
    set("containerStatuses", containers.into_iter().map(|one| one.value).collect());
    let ephemeral = wanted.members().filter(|member| member.kind == Kind::Ephemeral);
    let ephemeral: Vec<Value> = ephemeral.map(|member| ephemeral_status(&case, &ephemeral_runs, &member)).collect();
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

/// The part of an init container or a sidecar.
struct Told {
    kind: Kind,
    one: One,
}

impl Told {
    /// The next one may start.
    fn complete(&self) -> bool {
        if self.kind == Kind::Sidecar { self.one.value["started"] == true } else { self.one.ready }
    }
}

struct Facts<'a> {
    up: bool,
    ended: Option<End>,
    initialized: bool,
    init: &'a [Told],
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
    let kind = |run: &Run<'_>| wanted.member(&run.tag.container).map(|member| member.kind);
    runs.into_iter().partition(|run| kind(run) != Some(Kind::Ephemeral))
}

/// It is neither ready nor restarted, whatever it does.
fn ephemeral_status(case: &Case<'_>, runs: &[Run<'_>], member: &Member<'_>) -> Value {
    let wanted = case.wanted;
    let lost = case.world.memory.lost.contains_key(&(wanted.name.uid.clone(), member.spec.name.clone()));
    if let Some(before) = wanted.started_before(member)
        && seen::of(runs, &member.spec.name).next().is_none()
        && !lost
    {
        // Somebody removed it while no agent looked.
        let mut shown = before.clone();
        if shown["state"]["terminated"].is_null() {
            shown["state"] = json!({"terminated": unknown("The container could not be located any more")});
        }
        return shown;
    }
    let mut value = one(case, runs, member, false).value;
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

/// An init container that failed, with a policy that leaves it so, ends its pod.
fn init_end(wanted: &Wanted, init: &[Told], waits: &Waits) -> Option<End> {
    let never = wanted.pod.spec.restart_policy == "Never";
    let failed = |told: &Told| {
        let one = &told.one;
        told.kind == Kind::Init && one.exit_code.is_some_and(|code| code != 0) && !waits.containers.contains_key(&one.name)
    };
    (never && init.iter().any(failed)).then_some(End::Failed)
}

/// The conditions that are the agent's to say.
pub const CONDITIONS: [&str; 5] = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

fn conditions(facts: &Facts<'_>, generation: Option<i64>, was: &Value, now: Now) -> Value {
    let sidecars = facts.init.iter().filter(|told| told.kind == Kind::Sidecar).map(|told| &told.one);
    let unready: Vec<&str> = sidecars.chain(facts.containers).filter(|one| !one.ready).map(|one| one.name.as_str()).collect();
    let incomplete: Vec<&str> = facts.init.iter().filter(|told| !told.complete()).map(|told| told.one.name.as_str()).collect();
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
    if facts.initialized || incomplete.is_empty() {
        add("Initialized", true, (facts.ended == Some(End::Succeeded)).then_some("PodCompleted"), None);
    } else {
        let message = format!("containers with incomplete status: [{}]", incomplete.join(" "));
        add("Initialized", false, Some("ContainersNotInitialized"), Some(message));
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::{Instance, member_config, sandbox_config};
    use crate::naming::Source;
    use crate::plan::memory::Lost;
    use crate::plan::{Node, WaitReason, Waiting};

    #[test]
    fn a_new_agent_reads_the_times_off_the_engine() {
        let document =
            json!({"metadata": {"namespace": "d", "name": "p", "uid": "u"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let wanted = Wanted::new(Source::File, document).unwrap();
        let tag = |container: &str| {
            let labels = sandbox_config(&Node::default(), &wanted, 0, 0, String::new()).labels;
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

    /// The master takes no other word of it: see `pod_status` among its strategies.
    #[test]
    fn what_has_ended_for_good_stays_ended() {
        let check = |policy: &str, code: i64, seen: Option<(State, &str)>, expected: Value| {
            let before = json!({"name": "c", "image": "i", "ready": false, "state": {"terminated": {"exitCode": code, "reason": "Told"}}});
            let document = json!({
                "metadata": {"namespace": "d", "name": "p", "uid": "u"}, "status": {"phase": "Running", "containerStatuses": [before]},
                "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]},
            });
            let wanted = Wanted::new(Source::Master, document).unwrap();
            let mut world = World::default();
            if let Some((state, hash)) = seen {
                let hash = if hash.is_empty() { wanted.hash_of(&wanted.member("c").unwrap()) } else { hash.to_owned() };
                let instance = Instance { attempt: 0, sandbox: 0, step: 0, hash, processes_of: None, address: String::new() };
                let image = crate::runtime::Image::default();
                let config = member_config(&Node::default(), &[], &wanted, &wanted.pod.spec.containers[0], &image, instance).unwrap();
                let (id, image) = (config.name.clone(), config.image);
                let (name, labels, image_id) = (config.name, config.labels, String::new());
                world.containers.push(crate::runtime::Seen {
                    id,
                    name,
                    labels,
                    image,
                    image_id,
                    created_ms: 0,
                    state,
                    ip: None,
                    message: None,
                });
            }
            let status = status(&wanted, &world, &Waits::default(), &Value::Null, Now::default());
            let shown = &status["containerStatuses"][0]["state"];
            assert_eq!(
                (shown, status["phase"] == "Succeeded"),
                (&expected, shown["terminated"]["exitCode"] == 0),
                "{policy} {code}: {status}"
            );
        };
        let told = |code: i64| json!({"terminated": {"exitCode": code, "reason": "Told"}});
        let (runs, ended) = (State::Running { started_ms: 0 }, |exit_code| State::Exited {
            exit_code,
            out_of_memory: false,
            started_ms: 0,
            finished_ms: 0,
        });
        let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
        check("Never", 3, None, told(3));
        check("Never", 0, Some((runs.clone(), "")), told(0));
        check("Never", 0, Some((runs.clone(), "another")), told(0));
        check("OnFailure", 0, None, told(0));
        check("OnFailure", 3, None, waiting.clone());
        check("Always", 0, None, waiting.clone());
        // Edited after its end, which its master takes no other word of.
        check(
            "Never",
            0,
            Some((ended(0), "another")),
            json!({"terminated": {
                "containerID": "docker://k8s_c_p_d_u_0", "exitCode": 0, "reason": "Completed", "startedAt": "1970-01-01T00:00:00Z", "finishedAt": "1970-01-01T00:00:00Z",
            }}),
        );
        // Stopped to be replaced by what it was edited to: that is not its end.
        check("OnFailure", 3, Some((ended(0), "another")), waiting);
    }

    #[test]
    fn an_end_that_was_told_stays_told() {
        let document = json!({
            "metadata": {"namespace": "d", "name": "p", "uid": "u"}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
        });
        let wanted = Wanted::new(Source::File, document).unwrap();
        let check = |attempt: u32, state: Value, expected: i64| {
            let mut world = World::default();
            let lost =
                Lost { attempt, step: 0, hash: String::new(), sandbox: Some(0), at_ms: 0, exit_code: Some(4), text: "removed".to_owned() };
            world.memory.lost.insert(("u".to_owned(), "c".to_owned()), lost);
            let was = json!({"containerStatuses": [{"name": "c", "restartCount": 0, "state": state}]});
            let status = status(&wanted, &world, &Waits::default(), &was, Now::default());
            assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], expected);
        };
        check(0, json!({"terminated": {"exitCode": 4}}), 4);
        check(0, json!({"running": {}}), 137);
        check(1, json!({"terminated": {"exitCode": 4}}), 137);
    }

    #[test]
    fn what_was_never_made_never_ended() {
        let document = json!({
            "metadata": {"namespace": "d", "name": "p", "uid": "u"}, "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]},
        });
        let wanted = Wanted::new(Source::File, document).unwrap();
        let check = |exit_code: Option<i32>, phase: &str, reason_before: Value| {
            let mut world = World::default();
            let lost =
                Lost { attempt: 1, step: 1, hash: String::new(), sandbox: Some(0), at_ms: 0, exit_code, text: "no such mount".to_owned() };
            world.memory.lost.insert(("u".to_owned(), "c".to_owned()), lost);
            let mut waits = Waits::default();
            waits.containers.insert("c".to_owned(), Waiting::new(WaitReason::CreateContainerError, "no such mount"));
            let status = status(&wanted, &world, &waits, &Value::Null, Now::default());
            let before = &status["containerStatuses"][0]["lastState"]["terminated"]["reason"];
            assert_eq!((status["phase"].as_str(), before), (Some(phase), &reason_before));
        };
        check(None, "Pending", Value::Null);
        // It ran, and somebody else removed it.
        check(Some(137), "Running", json!("ContainerStatusUnknown"));
    }
}

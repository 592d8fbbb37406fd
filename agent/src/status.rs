//! A pod as it is here -> its v1 PodStatus, in the words of the kubelet. PURE.
//!
//! `was` is the status that was shown before: it keeps the times of conditions that did not change, and what the engine
//! has forgotten (an address, when it all began).

mod before;
mod conditions;
mod end;
mod member;
mod whole;

use coracle_api::strategy::qos;
use serde_json::{Map, Value, json};

pub use self::before::least_restarts;
pub use self::conditions::{CONDITIONS, is_own};
use self::conditions::{ConditionFacts, DISRUPTION, MemberStatus, Resizing, conditions, disruption, gates};
pub use self::end::is_final;
use self::end::{PodEnd, Told, told};
use self::member::{One, StatusCase, one, time, unknown};
use self::whole::{add_resources, begun_ms, ending, rejected};
use crate::facts::backoff::Now;
use crate::facts::members::{Member, MemberKind};
use crate::facts::naming::{LABEL_POD_UID, SANDBOX, Tag};
use crate::facts::seen::{self, Run};
use crate::facts::waiting::{Dismissal, Dismissed, Waits};
use crate::facts::wanted::Wanted;
use crate::facts::world::World;
use crate::plan::{allocation, order, renewal, resize};

pub fn status(wanted: &Wanted, world: &World, waits: &Waits, was: &Value, now: Now) -> Value {
    let waits = &with_record(wanted, waits, was);
    // A held resize: the status shows the allocated resources while the node has no room for the requested ones.
    let held = waits.held.as_ref().and_then(|held| allocation::with(wanted, &held.allocation));
    status_of(held.as_ref().unwrap_or(wanted), world, waits, was, now)
}

fn status_of(wanted: &Wanted, world: &World, waits: &Waits, was: &Value, now: Now) -> Value {
    let (runs, ephemeral_runs) = runs(wanted, world);
    let told = told(wanted, was);
    let for_good = told.filter(|told| told.for_good);
    let for_good = for_good.as_ref();
    if let Some(status) = settled(wanted, &runs, waits, (was, for_good), now) {
        return status;
    }
    let deleting = wanted.pod.metadata.deletion_timestamp.is_some();
    let sandbox = seen::of(&runs, SANDBOX).find(|run| run.seen.lives());
    // While something is done for it, what the listing lacks may be about to come.
    let may_run = sandbox.is_some() || world.busy.contains(&wanted.name.uid);
    // A deleted or dismissed pod is over when its containers are, whatever their states.
    let ends = deleting || waits.dismissed.is_some();
    let restart = world.restart(&wanted.name.uid);
    let initialized = order::is_initialized(wanted, &runs, restart);
    let renewal = renewal::of(wanted, &runs, restart.round);
    let case = StatusCase { wanted, world, waits, was, told: for_good, initialized, renewal };
    let (init, containers) = member_statuses(&case, &runs, ends && !may_run);
    let (told, ended) = ends_of(&case, told, &init, &containers);
    // The sandbox goes last; only then is it over.
    let still = || waits.dismissed.is_some() && seen::members(&runs).any(|run| run.seen.runs());
    let over = ended.filter(|_| told.is_some() || !may_run && !still());
    let gates = gates(wanted);
    let generation = Some(wanted.pod.metadata.generation).filter(|generation| *generation > 0);
    let mut status = Map::new();
    let mut set = |name: &str, value: Value| drop(status.insert(name.to_owned(), value));
    if let Some(generation) = generation {
        set("observedGeneration", json!(generation));
    }
    set("phase", json!(phase(ended, over.is_some(), initialized || renewal.begins, &containers)));
    let resize = resizing(wanted, waits, &runs);
    let (init_members, gates) = (&init, &gates);
    let (up, renewing) = (sandbox.is_some(), wanted.restarts_all().then_some(renewal.begins));
    let facts = ConditionFacts {
        up,
        ended,
        initialized,
        init: init_members,
        containers: &containers,
        runs: &runs,
        gates,
        resize,
        renewing,
    };
    let mut conditions = conditions(&facts, generation, was, now);
    if let (Some(dismissal), Value::Array(list)) =
        (waits.dismissed.as_ref().filter(|_| over.is_some()), &mut conditions)
    {
        list.extend(disruption(dismissal, generation, was, now));
    }
    set("conditions", conditions);
    if let Some(told) = &told {
        told.words().for_each(|(field, text)| set(field, text.clone()));
    } else if let Some((reason, message)) = reason(waits, over.is_some()) {
        set("reason", json!(reason));
        set("message", json!(message));
    }
    let ip = seen::address(&runs, wanted.pod.spec.host_network, &world.node.address);
    for (name, value) in addresses(&world.node.address, ip.or(was["podIP"].as_str())) {
        set(name, value);
    }
    let start = was["startTime"].as_str().map_or_else(|| time(begun_ms(&runs, now)), str::to_owned);
    set("startTime", json!(start));
    if !init.is_empty() {
        set("initContainerStatuses", init.into_iter().map(|member| member.one.value).collect());
    }
    set("containerStatuses", containers.into_iter().map(|one| one.value).collect());
    if let Some(statuses) = ephemeral_statuses(&case, &ephemeral_runs) {
        set("ephemeralContainerStatuses", statuses);
    }
    set("qosClass", json!(qos::class(&wanted.document)));
    add_resources(&mut status, wanted);
    Value::Object(status)
}

/// The end that was told, if it stands, and how the pod has ended.
fn ends_of<'a>(
    case: &StatusCase<'_>,
    told: Option<Told<'a>>,
    init: &[MemberStatus],
    containers: &[One],
) -> (Option<Told<'a>>, Option<PodEnd>) {
    let StatusCase { wanted, waits, .. } = *case;
    let deleting = wanted.pod.metadata.deletion_timestamp.is_some();
    let ended = match &waits.dismissed {
        Some(_) => Some(PodEnd::Failed),
        None => end(wanted, deleting, containers, waits).or_else(|| init_end(wanted, init, waits)),
    };
    let told = told.filter(|told| told.for_good || ended.is_some());
    (told, told.map(|told| told.end).or(ended))
}

/// The statuses of init containers and sidecars, then the statuses of main containers.
fn member_statuses(case: &StatusCase<'_>, runs: &[Run<'_>], is_over: bool) -> (Vec<MemberStatus>, Vec<One>) {
    let (init, containers): (Vec<MemberStatus>, Vec<MemberStatus>) = case
        .wanted
        .members()
        .filter(|member| member.kind != MemberKind::Ephemeral)
        .map(|member| MemberStatus { kind: member.kind, one: one(case, runs, &member, is_over) })
        .partition(|member| member.kind != MemberKind::Main);
    (init, containers.into_iter().map(|member| member.one).collect())
}

/// The status of a pod of which this host's containers say nothing new.
fn settled(
    wanted: &Wanted,
    runs: &[Run<'_>],
    waits: &Waits,
    (was, told): (&Value, Option<&Told<'_>>),
    now: Now,
) -> Option<Value> {
    // It ended before, and nothing of it is left here to say more: what was told stays.
    if let Some(told) = told.filter(|_| runs.is_empty()) {
        return Some(told.status.clone());
    }
    if let Some(dismissal) = waits.dismissed.as_ref().filter(|dismissal| dismissal.kind == Dismissed::Rejected) {
        return Some(rejected(wanted, dismissal, was, now));
    }
    let deleting = wanted.pod.metadata.deletion_timestamp.is_some();
    let ends = deleting && was["containerStatuses"].is_array() && seen::members(runs).any(|run| run.seen.runs());
    ends.then(|| ending(wanted, was, told))
}

/// Why it is as it is, and in words. What is over waits for nothing.
fn reason(waits: &Waits, is_over: bool) -> Option<(&str, &String)> {
    let dismissed =
        waits.dismissed.as_ref().filter(|_| is_over).map(|dismissal| (dismissal.reason.as_str(), &dismissal.message));
    let waiting = waits.pod.as_ref().filter(|_| !is_over);
    dismissed.or_else(|| waiting.map(|waiting| (waiting.reason.name(), &waiting.message)))
}

fn ephemeral_statuses(case: &StatusCase<'_>, runs: &[Run<'_>]) -> Option<Value> {
    let ephemeral = case.wanted.members().filter(|member| member.kind == MemberKind::Ephemeral);
    let statuses: Vec<Value> = ephemeral.map(|member| ephemeral_status(case, runs, &member)).collect();
    (!statuses.is_empty()).then_some(Value::Array(statuses))
}

/// A resize that waits, or has not been done yet.
fn resizing(wanted: &Wanted, waits: &Waits, runs: &[Run<'_>]) -> Resizing {
    if let Some(held) = &waits.held {
        return Resizing::Pending(held.message.clone());
    }
    let undone = |member: Member<'_>| {
        seen::of(runs, &member.spec.name).next().is_some_and(|run| resize::wanted_of(wanted, &member, run).is_some())
    };
    if wanted.members().any(undone) { Resizing::InProgress } else { Resizing::No }
}

/// The IP of the host, and the IP of the pod once the pod has an IP.
fn addresses(host: &str, pod: Option<&str>) -> Vec<(&'static str, Value)> {
    let mut all = vec![("hostIP", json!(host)), ("hostIPs", json!([{"ip": host}]))];
    if let Some(ip) = pod.filter(|ip| !ip.is_empty()) {
        all.extend([("podIP", json!(ip)), ("podIPs", json!([{"ip": ip}]))]);
    }
    all
}

/// What ended a pod as a whole was told, and stays its end while the rest of it is cleared away.
fn with_record(wanted: &Wanted, waits: &Waits, was: &Value) -> Waits {
    let mut waits = waits.clone();
    let Some(record) = told(wanted, was).filter(|told| told.for_good).map(|told| told.status) else { return waits };
    // A disruption by another component has a reason in that component's own words.
    let own = |one: &Value| one["type"] == DISRUPTION && is_own(one);
    let displaced = || record["conditions"].as_array().into_iter().flatten().any(own);
    let text = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
    let kind = match text("reason").as_str() {
        "DeadlineExceeded" => Dismissed::OutOfTime,
        "Evicted" if displaced() => Dismissed::Displaced,
        "Evicted" => Dismissed::Evicted,
        _ => return waits,
    };
    if waits.dismissed.is_none() && record["phase"] == "Failed" {
        let (reason, message) = (text("reason"), text("message"));
        waits.dismissed = Some(Dismissal { kind, reason, message, event: String::new() });
    }
    waits
}

fn phase(ended: Option<PodEnd>, over: bool, initialized: bool, containers: &[One]) -> &'static str {
    match ended {
        Some(end) if over => end.phase(),
        Some(_) if !initialized || containers.iter().all(|one| one.start_error) => "Pending",
        Some(_) => "Running",
        None if !initialized => "Pending",
        None if containers.is_empty() || containers.iter().any(|one| one.never_ran) => "Pending",
        None => "Running",
    }
}

/// The runs of the ordinary containers and sandboxes, then the runs of the ephemeral containers. The newest run comes
/// first.
fn runs<'a>(wanted: &Wanted, world: &'a World) -> (Vec<Run<'a>>, Vec<Run<'a>>) {
    let mut runs: Vec<Run> = world
        .containers
        .iter()
        .filter(|seen| seen.labels.get(LABEL_POD_UID) == Some(&wanted.name.uid))
        .filter_map(|seen| Some(Run { tag: Tag::read(&seen.name, &seen.labels)?, seen }))
        .collect();
    runs.sort_by(seen::in_order);
    let kind = |run: &Run<'_>| wanted.member(&run.tag.container).map(|member| member.kind);
    runs.into_iter().partition(|run| kind(run) != Some(MemberKind::Ephemeral))
}

/// An ephemeral container is never ready and never restarts.
fn ephemeral_status(case: &StatusCase<'_>, runs: &[Run<'_>], member: &Member<'_>) -> Value {
    let wanted = case.wanted;
    let lost = case.world.memory.lost.contains_key(&(wanted.name.uid.clone(), member.spec.name.clone()));
    if let Some(before) = wanted.started_before(member)
        && seen::of(runs, &member.spec.name).next().is_none()
        && !lost
    {
        // Another program removed the container while no agent was running.
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

fn end(wanted: &Wanted, deleting: bool, containers: &[One], waits: &Waits) -> Option<PodEnd> {
    let again =
        |one: &One, code: i32| wanted.member(&one.name).is_some_and(|member| wanted.starts_again(&member, code));
    let over = |one: &One| {
        one.exit_code.is_some_and(|code| deleting || !again(one, code)) && !waits.containers.contains_key(&one.name)
    };
    if containers.is_empty() || !containers.iter().all(over) {
        return None;
    }
    Some(if containers.iter().all(|one| one.exit_code == Some(0)) { PodEnd::Succeeded } else { PodEnd::Failed })
}

/// A failed init container that will not restart fails its pod.
fn init_end(wanted: &Wanted, init: &[MemberStatus], waits: &Waits) -> Option<PodEnd> {
    let again =
        |one: &One, code: i32| wanted.member(&one.name).is_some_and(|member| wanted.starts_again(&member, code));
    let failed = |member: &MemberStatus| {
        let one = &member.one;
        let for_good = one.exit_code.is_some_and(|code| code != 0 && !again(one, code));
        member.kind == MemberKind::Init && for_good && !waits.containers.contains_key(&one.name)
    };
    init.iter().any(failed).then_some(PodEnd::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::desired::Desired;
    use crate::facts::engine::State;
    use crate::facts::memory::Lost;
    use crate::facts::naming::Source;
    use crate::facts::waiting::{WaitReason, Waiting};
    use crate::facts::world::Node;
    use crate::spec::container::{Instance, member_config, sandbox_config};

    #[test]
    fn a_new_agent_reads_the_times_off_the_engine() {
        let document = json!({
            "metadata": {"namespace": "d", "name": "p", "uid": "u"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        let wanted = Wanted::new(Source::File, document).unwrap();
        let tag = |container: &str| {
            let labels = sandbox_config(&Node::default(), &wanted, &[], 0, 0, String::new()).labels;
            let mut tag = Tag::read(&crate::facts::naming::container_name(&wanted.name, SANDBOX, 0), &labels).unwrap();
            tag.container = container.to_owned();
            tag
        };
        let seen = |container: &str, created_ms: i64, started_ms: i64| crate::facts::engine::SeenContainer {
            id: container.to_owned(),
            name: tag(container).name(),
            labels: tag(container).labels(),
            image: String::new(),
            image_id: String::new(),
            created_ms,
            state: State::Running { started_ms },
            ip: None,
            limits: None,
            message: None,
            beside: Default::default(),
        };
        let world = World { containers: vec![seen(SANDBOX, 1000, 2000), seen("c", 3000, 4000)], ..World::default() };
        let status = status(&wanted, &world, &Waits::default(), &Value::Null, Now { wall_ms: 99_000, mono_ms: 0 });
        assert_eq!(status["startTime"], "1970-01-01T00:00:01Z");
        let times: Vec<&str> = status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["lastTransitionTime"].as_str().unwrap()[17..19])
            .collect();
        assert_eq!(times, ["01", "01", "04", "04", "01"]);
    }

    #[test]
    fn what_is_over_waits_for_nothing() {
        let check = |deleted: Value, busy: &[&str], expected: Value| {
            let document = json!({
                "metadata": {"namespace": "d", "name": "p", "uid": "u", "deletionTimestamp": deleted},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            });
            let wanted = Wanted::new(Source::Master, document).unwrap();
            let resting = Some(Waiting::new(WaitReason::SetupFailed, "the call was lost".to_owned()));
            let waits = Waits { pod: resting, ..Waits::default() };
            let world = World { busy: busy.iter().map(|uid| (*uid).to_owned()).collect(), ..World::default() };
            let status = status(&wanted, &world, &waits, &Value::Null, Now::default());
            assert_eq!(json!([status["phase"], status["reason"], status["message"]]), expected);
        };
        let lost = json!(["Pending", "SetupFailed", "the call was lost"]);
        check(Value::Null, &[], lost.clone());
        check("2026-01-01T00:00:00Z".into(), &[], json!(["Failed", null, null]));
        // What is being made for it may run in a moment.
        check("2026-01-01T00:00:00Z".into(), &["u"], lost);
    }

    #[test]
    fn an_ephemeral_container_that_is_lost_stays_ended() {
        let check = |state: Value, expected: Value| {
            let before = json!({"name": "e", "containerID": "docker://1", "image": "i", "state": state});
            let document = json!({
                "metadata": {"namespace": "d", "name": "p", "uid": "u"},
                "status": {"ephemeralContainerStatuses": [before]},
                "spec": {"containers": [{"name": "c", "image": "i"}],
                    "ephemeralContainers": [{"name": "e", "image": "i"}]},
            });
            let wanted = Wanted::new(Source::Master, document).unwrap();
            let status = status(&wanted, &World::default(), &Waits::default(), &Value::Null, Now::default());
            assert_eq!(status["ephemeralContainerStatuses"][0]["state"]["terminated"]["reason"], expected);
        };
        check(json!({"running": {}}), json!("ContainerStatusUnknown"));
        check(json!({"terminated": {"reason": "Completed"}}), json!("Completed"));
        check(json!({"waiting": {}}), Value::Null);
    }

    /// The master refuses any other state: see `pod_status` among its strategies.
    #[test]
    fn what_has_ended_for_good_stays_ended() {
        let check = |policy: &str, code: i64, seen: Option<(State, &str)>, expected: Value| {
            let before = json!({
                "name": "c", "image": "i", "ready": false,
                "state": {"terminated": {"exitCode": code, "reason": "Told"}},
            });
            let document = json!({
                "metadata": {"namespace": "d", "name": "p", "uid": "u"},
                "status": {"phase": "Running", "containerStatuses": [before]},
                "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]},
            });
            let wanted = Wanted::new(Source::Master, document).unwrap();
            let mut world = World::default();
            if let Some((state, hash)) = seen {
                let hash = if hash.is_empty() { wanted.hash_of(&wanted.member("c").unwrap()) } else { hash.to_owned() };
                let instance = Instance {
                    attempt: 0,
                    sandbox: 0,
                    step: 0,
                    renewal: 0,
                    hash,
                    processes_of: None,
                    address: String::new(),
                };
                let image = crate::facts::engine::Image::default();
                let config = member_config(
                    &Node::default(),
                    &Desired::default(),
                    &wanted,
                    &wanted.pod.spec.containers[0],
                    &image,
                    instance,
                )
                .unwrap();
                let (id, image) = (config.name.clone(), config.image);
                let (name, labels, image_id) = (config.name, config.labels, String::new());
                world.containers.push(crate::facts::engine::SeenContainer {
                    id,
                    name,
                    labels,
                    image,
                    image_id,
                    created_ms: 0,
                    state,
                    ip: None,
                    limits: None,
                    message: None,
                    beside: Default::default(),
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
        let terminated = |code: i64| json!({"terminated": {"exitCode": code, "reason": "Told"}});
        let (runs, ended) = (State::Running { started_ms: 0 }, |exit_code| State::Exited {
            exit_code,
            out_of_memory: false,
            started_ms: 0,
            finished_ms: 0,
        });
        let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
        check("Never", 3, None, terminated(3));
        check("Never", 0, Some((runs.clone(), "")), terminated(0));
        check("Never", 0, Some((runs.clone(), "another")), terminated(0));
        check("OnFailure", 0, None, terminated(0));
        check("OnFailure", 3, None, waiting.clone());
        check("Always", 0, None, waiting.clone());
        // The container was edited after it ended: the master accepts no other end.
        check(
            "Never",
            0,
            Some((ended(0), "another")),
            json!({"terminated": {
                "containerID": "docker://k8s_c_p_d_u_0", "exitCode": 0, "reason": "Completed",
                "startedAt": "1970-01-01T00:00:00Z", "finishedAt": "1970-01-01T00:00:00Z",
            }}),
        );
        // Stopped to be replaced by what it was edited to: that is not its end.
        check("OnFailure", 3, Some((ended(0), "another")), waiting);
    }

    /// `c` of a pod, as the engine has it; and a running sandbox if `sandbox`.
    fn world_of(wanted: &Wanted, state: &State, sandbox: bool, busy: bool) -> World {
        let seen = |container: &str, state: State| {
            let labels = sandbox_config(&Node::default(), wanted, &[], 0, 0, String::new()).labels;
            let mut tag = Tag::read(&crate::facts::naming::container_name(&wanted.name, SANDBOX, 0), &labels).unwrap();
            tag.container = container.to_owned();
            if container != SANDBOX {
                tag.hash = wanted.hash_of(&wanted.member("c").unwrap());
            }
            crate::facts::engine::SeenContainer {
                id: container.to_owned(),
                name: tag.name(),
                labels: tag.labels(),
                image: String::new(),
                image_id: String::new(),
                created_ms: 0,
                state,
                ip: None,
                limits: None,
                message: None,
                beside: Default::default(),
            }
        };
        let mut world = World { containers: vec![seen("c", state.clone())], ..World::default() };
        world.containers.extend(sandbox.then(|| seen(SANDBOX, State::Running { started_ms: 0 })));
        world.busy.extend(busy.then(|| wanted.name.uid.clone()));
        world
    }

    fn ended(exit_code: i32) -> State {
        State::Exited { exit_code, out_of_memory: false, started_ms: 0, finished_ms: 0 }
    }

    /// An action for the pod is in flight: the agent removes the sandbox, or the containers change in another way.
    #[test]
    fn a_pod_that_has_ended_stays_so_while_it_is_cleared_away() {
        for source in [Source::Master, Source::File] {
            let document = json!({
                "metadata": {"namespace": "d", "name": "p", "uid": "u"},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
            });
            let wanted = Wanted::new(source, document).unwrap();
            let mut was = Value::Null;
            let mut check = |code: i32, sandbox: bool, busy: bool, expected: &str| {
                let world = world_of(&wanted, &ended(code), sandbox, busy);
                was = status(&wanted, &world, &Waits::default(), &was, Now::default());
                assert_eq!(was["phase"], expected, "{source} {sandbox} {busy}");
            };
            check(0, true, false, "Running");
            check(0, true, true, "Running");
            check(0, false, false, "Succeeded");
            check(0, false, true, "Succeeded");
            check(0, true, true, "Succeeded");
        }
    }

    /// A pod of a file may run again under the same uid. A pod of the API has its uid only once.
    #[test]
    fn a_pod_of_a_file_runs_again() {
        let check = |source: Source, expected: &str| {
            let document = json!({
                "metadata": {"namespace": "d", "name": "p", "uid": "u"},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
            });
            let wanted = Wanted::new(source, document).unwrap();
            let was = json!({"phase": "Failed", "reason": "Evicted"});
            let world = world_of(&wanted, &State::Running { started_ms: 0 }, true, false);
            let status = status(&wanted, &world, &Waits::default(), &was, Now::default());
            assert_eq!(status["phase"], expected, "{source}");
        };
        check(Source::File, "Running");
        check(Source::Master, "Failed");
    }

    #[test]
    fn an_end_that_somebody_wrote_is_the_end() {
        for (phase, ready) in [("Failed", "PodFailed"), ("Succeeded", "PodCompleted")] {
            let document = json!({
                "metadata": {"namespace": "d", "name": "p", "uid": "u"},
                "status": {"phase": phase, "reason": "NodeLost", "message": "gone"},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            });
            let wanted = Wanted::new(Source::Master, document.clone()).unwrap();
            let was = json!({"phase": "Running"});
            for state in [State::Running { started_ms: 0 }, ended(137), ended(0)] {
                let world = world_of(&wanted, &state, true, false);
                let status = status(&wanted, &world, &Waits::default(), &was, Now::default());
                let told = json!([status["phase"], status["reason"], status["message"]]);
                assert_eq!(told, json!([phase, "NodeLost", "gone"]), "{state:?}");
                let of = |kind: &str| status["conditions"].as_array().unwrap().iter().find(|one| one["type"] == kind);
                assert_eq!(
                    json!([of("Ready").unwrap()["status"], of("Ready").unwrap()["reason"]]),
                    json!(["False", ready])
                );
            }
            // The same for a pod that is deleted while its containers end.
            let mut deleted = document;
            deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            let wanted = Wanted::new(Source::Master, deleted).unwrap();
            let was = json!({"phase": "Running", "containerStatuses": []});
            let world = world_of(&wanted, &State::Running { started_ms: 0 }, true, false);
            assert_eq!(status(&wanted, &world, &Waits::default(), &was, Now::default())["phase"], phase);
        }
    }

    #[test]
    fn an_end_that_was_told_stays_told() {
        let document = json!({
            "metadata": {"namespace": "d", "name": "p", "uid": "u"},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
        });
        let wanted = Wanted::new(Source::File, document).unwrap();
        let check = |attempt: u32, state: Value, expected: i64| {
            let mut world = World::default();
            let lost = Lost {
                attempt,
                step: 0,
                hash: String::new(),
                renewal: 0,
                sandbox: Some(0),
                at_ms: 0,
                exit_code: Some(4),
                text: "removed".to_owned(),
                misconfigured: false,
            };
            world.memory.lost.insert(("u".to_owned(), "c".to_owned()), lost);
            let was = json!({"containerStatuses": [{"name": "c", "restartCount": 0, "state": state}]});
            let status = status(&wanted, &world, &Waits::default(), &was, Now::default());
            assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], expected);
        };
        check(0, json!({"terminated": {"exitCode": 4}}), 4);
        check(0, json!({"running": {}}), 137);
        check(1, json!({"terminated": {"exitCode": 4}}), 137);
    }

    /// A pod of a file that has ended is on record on this host's disk: the record overrides the later state of the
    /// containers on the engine.
    #[test]
    fn a_pod_of_a_file_ends_as_it_is_on_record() {
        let document = |image: &str| {
            json!({"metadata": {"namespace": "d", "name": "p", "uid": "u"},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}})
        };
        let ended = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
        let record = json!({"phase": "Succeeded", "containerStatuses": [{"name": "c", "state": ended}]});
        let wanted = Wanted::new(Source::File, document("i")).unwrap();
        let of = |wanted: &Wanted| status(wanted, &World::default(), &Waits::default(), &Value::Null, Now::default());
        assert_eq!(of(&wanted.with_status(&record)), record);
        assert_eq!(of(&wanted)["phase"], "Pending");
    }

    #[test]
    fn what_was_never_made_never_ended() {
        let document = json!({
            "metadata": {"namespace": "d", "name": "p", "uid": "u"},
            "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]},
        });
        let wanted = Wanted::new(Source::File, document).unwrap();
        let check = |exit_code: Option<i32>, phase: &str, reason_before: Value| {
            let mut world = World::default();
            let lost = Lost {
                attempt: 1,
                step: 1,
                hash: String::new(),
                renewal: 0,
                sandbox: Some(0),
                at_ms: 0,
                exit_code,
                text: "no such mount".to_owned(),
                misconfigured: false,
            };
            world.memory.lost.insert(("u".to_owned(), "c".to_owned()), lost);
            let mut waits = Waits::default();
            waits.containers.insert("c".to_owned(), Waiting::new(WaitReason::CreateContainerError, "no such mount"));
            let status = status(&wanted, &world, &waits, &Value::Null, Now::default());
            let before = &status["containerStatuses"][0]["lastState"]["terminated"]["reason"];
            assert_eq!((status["phase"].as_str(), before), (Some(phase), &reason_before));
        };
        check(None, "Pending", Value::Null);
        // The container ran, and another program removed the container.
        check(Some(137), "Running", json!("ContainerStatusUnknown"));
    }
}

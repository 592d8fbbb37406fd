use super::*;
use crate::facts::checks::{Dead, ProbeKind};
use crate::facts::desired::Desired;
use crate::facts::engine::{SeenContainer, State};
use crate::facts::memory::{Pull, PullState};
use crate::facts::naming::{SANDBOX, Tag};
use crate::facts::strain::{Short, Strain};
use crate::facts::waiting::{WaitReason, Waiting, Waits};
use crate::facts::wanted::Wanted;
use crate::facts::world::{Node, Verdict, World};
use crate::spec::container::sandbox_config;
use serde_json::json;
use std::sync::Arc;

/// 2026-01-01T00:01:00Z.
const NOW_MS: i64 = 1_767_225_660_000;
const BEGUN_MS: i64 = NOW_MS - 60_000;

/// One pod, and what is known of it.
struct Bed {
    source: Source,
    document: Value,
    status: Value,
    waits: Waits,
    world: World,
    lines: LastLines,
    others: Vec<Value>,
}

fn bed(container: Value, status: Value) -> Bed {
    let mut main = json!({"name": "c", "image": "shop:1"});
    main.as_object_mut().unwrap().extend(container.as_object().cloned().unwrap_or_default());
    Bed {
        source: Source::File,
        document: json!({
            "metadata": {"namespace": "default", "name": "web", "uid": "u"}, "spec": {"containers": [main]},
        }),
        status,
        waits: Waits::default(),
        world: World::default(),
        lines: LastLines::default(),
        others: Vec::new(),
    }
}

/// The status of a pod with one container.
fn of_container(phase: &str, container: Value) -> Value {
    let mut status = json!({"name": "c", "restartCount": 0, "lastState": {}});
    status.as_object_mut().unwrap().extend(container.as_object().cloned().unwrap_or_default());
    json!({"phase": phase, "containerStatuses": [status]})
}

fn waiting(reason: &str, message: &str) -> Value {
    of_container("Pending", json!({"state": {"waiting": {"reason": reason, "message": message}}}))
}

fn running(more: Value) -> Value {
    let mut container = json!({"state": {"running": {}}, "started": true, "ready": true});
    container.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    of_container("Running", container)
}

impl Bed {
    /// The container runs as the start of this step.
    fn with_run(mut self, step: u32, started_ms: i64) -> Bed {
        let wanted = Wanted::new(self.source, self.document.clone()).unwrap();
        let labels = sandbox_config(&Node::default(), &wanted, &[], 0, 0, String::new()).labels;
        let mut tag = Tag::read(&crate::facts::naming::container_name(&wanted.name, SANDBOX, 0), &labels).unwrap();
        (tag.container, tag.step) = ("c".to_owned(), step);
        self.world.containers.push(SeenContainer {
            id: "live".to_owned(),
            name: tag.name(),
            labels: tag.labels(),
            image: String::new(),
            image_id: String::new(),
            created_ms: started_ms,
            state: State::Running { started_ms },
            ip: None,
            limits: None,
            message: None,
            beside: Default::default(),
        });
        self
    }

    fn shown(&self) -> Shown {
        let mut desired = Desired::default();
        let wanted = Wanted::new(self.source, self.document.clone()).unwrap();
        let mut statuses = std::collections::BTreeMap::from([("u".to_owned(), self.status.clone())]);
        desired.pods.insert("u".to_owned(), Arc::new(wanted));
        for other in &self.others {
            let wanted = Wanted::new(self.source, other.clone()).unwrap();
            statuses.insert(wanted.name.uid.clone(), other["status"].clone());
            desired.pods.insert(wanted.name.uid.clone(), Arc::new(wanted));
        }
        Shown {
            desired: Arc::new(desired),
            world: Arc::new(self.world.clone()),
            statuses,
            waits: [("u".to_owned(), self.waits.clone())].into(),
            engine_trouble: None,
            looked: true,
        }
    }

    fn problems(&self) -> Vec<Problem> {
        problems(&self.shown(), &beside(&self.lines))
    }

    /// One problem of the pod: its reason, and words of its line.
    #[track_caller]
    fn check(&self, reason: &str, words: &[&str]) {
        let all = self.problems();
        let [problem] = all.as_slice() else { panic!("{reason}: {all:#?}") };
        assert_eq!((problem.reason.as_str(), problem.is_warning()), (reason, false), "{problem:?}");
        let line = problem.line();
        assert!(words.iter().all(|word| line.contains(word)), "{words:?} in {line}");
    }

    #[track_caller]
    fn check_warning(&self, reason: &str, words: &[&str]) {
        let all = self.problems();
        let [problem] = all.as_slice() else { panic!("{reason}: {all:#?}") };
        assert_eq!((problem.reason.as_str(), problem.is_warning()), (reason, true), "{problem:?}");
        assert!(words.iter().all(|word| problem.line().contains(word)), "{words:?} in {}", problem.line());
    }

    #[track_caller]
    fn check_well(&self) {
        assert_eq!(self.problems(), []);
    }
}

fn beside(last_lines: &LastLines) -> Beside<'_> {
    Beside { node_name: "n1", engine: None, unkept: &[], refused: &[], updates: &[], last_lines, now_ms: NOW_MS }
}

fn ended(more: Value) -> Value {
    let mut end =
        json!({"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z", "containerID": "docker://dead"});
    end.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    json!({"terminated": end})
}

#[test]
fn a_container_that_fails_says_how_and_what_it_said_last() {
    let crash = |end: Value| {
        let state = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed"}});
        let mut bed = bed(
            json!({}),
            of_container("Running", json!({"state": state, "lastState": ended(end), "restartCount": 3})),
        );
        bed.lines.insert("dead".to_owned(), "cannot open /data: no space".to_owned());
        bed
    };
    crash(json!({})).check(
        "ContainerFailed",
        &[
            "pod default/web: container c fails again and again, 3 restarts so far: exit code 1 (",
            "; the last line of its log: cannot open /data: no space: coracle logs -p web",
        ],
    );
    assert_eq!(crash(json!({})).problems()[0].since.as_deref(), Some("2026-01-01T00:00:00Z"));
    crash(json!({"exitCode": 137, "reason": "OOMKilled"}))
        .check("ContainerFailed", &["killed for memory", "OOMKilled"]);
    crash(json!({"exitCode": 0, "reason": "Completed"}))
        .check("ContainerFailed", &["container c ends again and again", "without an error"]);
    let no_program = "exec: \"frob\": executable file not found in $PATH";
    let mut missing = crash(json!({"exitCode": 128, "reason": "StartError", "message": no_program}));
    missing.lines.clear();
    missing.check("ContainerFailed", &["its program is missing in the image", no_program, "manifest file"]);
    let mut killed = crash(json!({"exitCode": 137}));
    let dead = Dead { probe: ProbeKind::Liveness, output: "HTTP probe failed with statuscode: 500".to_owned() };
    killed.world.memory.found_dead.insert("dead".to_owned(), dead);
    killed.check(
        "ContainerFailed",
        &["killed because its liveness probe failed: HTTP probe failed with statuscode: 500"],
    );
}

/// Between two ends a container runs for a moment: the problem stays.
#[test]
fn a_container_that_fails_again_and_again_does_not_look_well_while_it_runs() {
    let again = |step: u32, started_ms: i64, end: Value| {
        let status = running(json!({"lastState": ended(end), "restartCount": step}));
        bed(json!({}), status).with_run(step, started_ms)
    };
    again(2, BEGUN_MS, json!({})).check("ContainerFailed", &["fails again and again and runs once more, 2 restarts"]);
    again(2, NOW_MS - 600_000, json!({})).check_well();
    assert_eq!(changes_at_ms(&again(2, BEGUN_MS, json!({})).shown(), NOW_MS), Some(BEGUN_MS + 600_000));
    assert_eq!(changes_at_ms(&again(0, BEGUN_MS, json!({})).shown(), NOW_MS), None);
    // One end, as after a power cut, is no problem, and a kill for memory is a warning.
    again(1, BEGUN_MS, json!({"exitCode": 255})).check_well();
    again(1, BEGUN_MS, json!({"exitCode": 137, "reason": "OOMKilled"}))
        .check_warning("ContainerRestarted", &["killed for memory"]);
}

#[test]
fn a_container_that_waits_says_for_what() {
    let registry = "dial tcp: lookup registry.example.com: no such host, and much more of it".repeat(5);
    let image = |image: &str, reason: &str, message: &str| bed(json!({"image": image}), waiting(reason, message));
    image("registry.example.com/shop:1", "ErrImagePull", &registry).check(
        "ImageMissing",
        &["container c waits for its image registry.example.com/shop:1 from registry.example.com", &registry],
    );
    let back_off = format!("Back-off pulling image \"shop:1\": ErrImagePull: {registry}");
    let problem = &image("shop:1", "ImagePullBackOff", &back_off).problems()[0];
    assert_eq!(
        (problem.what.as_str(), &problem.why),
        ("container c waits for its image shop:1 from docker.io", &registry)
    );
    image("shop:1", "ErrImageNeverPull", "it is not here")
        .check("ImageMissing", &["has no image shop:1: it is not here"]);
    let config = "secret \"login\" not found";
    image("shop:1", "CreateContainerConfigError", config).check("ContainerNotMade", &["cannot be started", config]);
    image("shop:1", "PostStartHookError", "").check("ContainerNotMade", &["PostStartHookError"]);
    image("shop:1", "ContainerCreating", "").check("Starting", &["it is starting: container c is about to start"]);
    let mut pulls = image("nodered:4", "ContainerCreating", "");
    let pull =
        Pull { image: "nodered:4".to_owned(), attempt: 0, failures: 0, state: PullState::InFlight { failed: None } };
    pulls.world.memory.pulls.insert(("u".to_owned(), "c".to_owned()), pull);
    pulls.check("ImagePulling", &["container c waits for its image nodered:4, which comes from docker.io"]);
}

#[test]
fn a_pod_that_waits_says_for_what() {
    let whole = |reason, message: &str| {
        let mut bed = bed(json!({}), json!({"phase": "Pending"}));
        bed.waits.pod = Some(Waiting::new(reason, message));
        bed
    };
    whole(WaitReason::HostPortTaken, "host port 80/TCP is taken")
        .check("HostPortTaken", &["it waits for a port", "80/TCP"]);
    whole(WaitReason::UnsupportedField, "spec.hostUsers")
        .check("UnsupportedField", &["it is not started", "spec.hostUsers"]);
    whole(WaitReason::SandboxBackOff, "").check("SandboxBackOff", &["it cannot be started: SandboxBackOff"]);
    let mut volume = bed(json!({}), waiting("ContainerCreating", ""));
    let missing = Waiting::new(WaitReason::FailedMount, "secret \"s\" not found");
    volume.waits.notes.insert("volume s".to_owned(), missing);
    volume.check("FailedMount", &["it waits for a volume: secret \"s\" not found"]);
    bed(json!({}), Value::Null).check("Starting", &["it is starting"]);
    let mut resize = bed(json!({}), running(json!({}))).with_run(0, BEGUN_MS);
    let held = Waiting::new(WaitReason::ResizeDeferred, "no room for 2 CPUs");
    resize.waits.notes.insert("resize".to_owned(), held);
    resize.check_warning("ResizeDeferred", &["its resize waits: no room"]);
}

#[test]
fn a_probe_that_fails_says_which_and_what() {
    let probed = |probe: &str, status: Value, verdict: Verdict| {
        let mut bed = bed(json!({probe: {"tcpSocket": {"port": 80}}}), running(status)).with_run(0, BEGUN_MS);
        bed.world.verdicts.insert("live".to_owned(), verdict);
        bed
    };
    let unready = Verdict { ready: Some(false), unready: Some("connection refused".to_owned()), ..Verdict::default() };
    probed("readinessProbe", json!({"ready": false}), unready)
        .check("ProbeFails", &["the readiness probe of container c fails: connection refused: coracle logs web"]);
    probed("readinessProbe", json!({"ready": false}), Verdict::default())
        .check("ProbeFails", &["the readiness probe of container c has not passed yet"]);
    probed("startupProbe", json!({"ready": false, "started": false}), Verdict::default())
        .check("ProbeFails", &["the startup probe of container c has not passed yet"]);
    let dead = Some(Dead { probe: ProbeKind::Liveness, output: "no".to_owned() });
    probed("livenessProbe", json!({}), Verdict { dead, ..Verdict::default() })
        .check("ProbeFails", &["the liveness probe of container c fails: no"]);
    let ready = Verdict { ready: Some(true), ..Verdict::default() };
    probed("readinessProbe", json!({}), ready).check_well();
    let mut gated = running(json!({}));
    gated["conditions"] = json!([{"type": "Ready", "status": "False", "message": "a gate is closed",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let gated = bed(json!({}), gated).with_run(0, BEGUN_MS);
    gated.check("NotReady", &["it is not ready: a gate is closed"]);
    assert_eq!(gated.problems()[0].since.as_deref(), Some("2026-01-01T00:00:00Z"));
}

#[test]
fn a_pod_with_init_containers_says_which_one() {
    let with_init = |state: Value| {
        let mut bed = bed(json!({}), waiting("PodInitializing", ""));
        bed.document["spec"]["initContainers"] = json!([{"name": "fill", "image": "x"}]);
        bed.status["initContainerStatuses"] = json!([{"name": "fill", "state": state, "lastState": {}}]);
        bed
    };
    with_init(json!({"running": {}})).check("Starting", &["init container fill runs"]);
    with_init(ended(json!({"exitCode": 5})))
        .check("ContainerFailed", &["init container fill has failed: exit code 5", "coracle logs -c fill web"]);
}

#[test]
fn a_pod_that_has_failed_is_told_unless_another_took_its_place() {
    let failed = |source, owned: bool| {
        let mut bed = bed(json!({}), of_container("Failed", json!({"state": ended(json!({}))})));
        bed.source = source;
        bed.document["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        if owned {
            bed.document["metadata"]["ownerReferences"] =
                json!([{"kind": "Job", "name": "dump", "uid": "job", "controller": true}]);
        }
        bed
    };
    let later = |bed: Bed, at: &str, phase: &str| {
        let mut other = bed.document.clone();
        other["metadata"]["uid"] = "u2".into();
        other["metadata"]["name"] = "web2".into();
        other["metadata"]["creationTimestamp"] = at.into();
        other["status"] = json!({"phase": phase});
        Bed { others: vec![other], ..bed }
    };
    failed(Source::File, false).check("PodFailed", &["it has failed: container c: exit code 1", "coracle logs web"]);
    failed(Source::Master, false).check("PodFailed", &["it has failed"]);
    failed(Source::File, true).check("PodFailed", &["it has failed"]);
    failed(Source::Master, true)
        .check_warning("PodFailed", &["coracle-master status says whether Job dump has another pod"]);
    for source in Source::ALL {
        later(failed(source, true), "2026-01-01T00:00:30Z", "Succeeded").check_well();
    }
    later(failed(Source::Master, true), "2025-12-31T00:00:00Z", "Succeeded").check_warning("PodFailed", &[]);
    let mut evicted = failed(Source::File, false);
    evicted.status =
        json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
    evicted.check("PodFailed", &["it has failed: Evicted: The node was low on resource: memory."]);
    bed(json!({}), json!({"phase": "Succeeded"})).check_well();
}

#[test]
fn a_pod_that_ends_has_its_grace() {
    let ending = |at: &str| {
        let mut bed = bed(json!({}), waiting("ContainerCreating", "")).with_run(0, BEGUN_MS);
        bed.document["metadata"]["deletionTimestamp"] = at.into();
        bed
    };
    ending("2026-01-01T00:01:00Z").check_well();
    assert_eq!(changes_at_ms(&ending("2026-01-01T00:01:00Z").shown(), NOW_MS), Some(NOW_MS + 15_000));
    let late = ending("2026-01-01T00:00:00Z");
    late.check("TerminatingTooLong", &["it is Terminating for longer than its grace: still running: c"]);
    assert_eq!(late.problems()[0].since.as_deref(), Some("2026-01-01T00:00:00Z"));
}

#[test]
fn a_node_says_what_it_is_short_of() {
    let lines = LastLines::default();
    let check = |shown: &Shown, beside: &Beside<'_>, reason: &str, words: &str| {
        let all = problems(shown, beside);
        let [problem] = all.as_slice() else { panic!("{reason}: {all:#?}") };
        assert!(problem.reason == reason && problem.line().contains(words), "{words} in {problem:?}");
    };
    let looked = || Shown { looked: true, ..Shown::default() };
    let beside = beside(&lines);
    assert_eq!(problems(&looked(), &beside), []);
    check(&Shown::default(), &beside, "EngineDown", "engine: it was not reached yet");
    let down = Shown { engine_trouble: Some(("refused".to_owned(), BEGUN_MS)), ..looked() };
    check(&down, &beside, "EngineDown", "engine: it does not answer; the pods are shown as they were before: refused");
    assert_eq!(problems(&down, &beside)[0].since.as_deref(), Some("2026-01-01T00:00:00Z"));
    check(&looked(), &Beside { engine: Some("slow"), ..beside }, "EngineDown", "slow");
    for (short, advice) in
        [(Short::Disk, "docker system df"), (Short::Memory, "ps -eo rss"), (Short::Processes, "nlwp")]
    {
        let strain = Arc::new(Strain { short: [short].into(), ..Strain::default() });
        let shown = Shown { world: Arc::new(World { strain, ..World::default() }), ..looked() };
        check(&shown, &beside, short.condition(), advice);
    }
    let low = LowDisk { path: "/d".to_owned(), inodes: false, percent: 9 };
    let strain = Arc::new(Strain { low: vec![low], ..Strain::default() });
    let shown = Shown { world: Arc::new(World { strain, ..World::default() }), ..looked() };
    check(&shown, &beside, "DiskLow", "disk /d: about 9 % of it are free");
    assert!(problems(&shown, &beside)[0].is_warning());
    let texts = ["/d/ended.json: cannot write x: no space".to_owned()];
    check(&looked(), &Beside { unkept: &texts, ..beside }, "FileUnwritten", &texts[0]);
    check(&looked(), &Beside { refused: &texts, ..beside }, "MasterRefuses", &texts[0]);
    let mut shown = looked();
    Arc::make_mut(&mut shown.desired).former.insert("vm".to_owned());
    check(&shown, &beside, "FormerName", "kubectl delete node vm");
    let mut shown = looked();
    let file = Problem::new("FileRefused", Subject::new("file", "", "/m/a.yaml"), "it is not used");
    Arc::make_mut(&mut shown.desired).problems.push(file);
    check(&shown, &beside, "FileRefused", "file /m/a.yaml: it is not used");
}

//! Small worlds, and what the plan makes of them.

use std::slice::from_ref;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::facts::backoff::Now;
use crate::facts::engine::{Check, ContainerConfig, Image, SeenContainer, State};
use crate::facts::hash::EPHEMERAL_HASH;
use crate::facts::memory::{self, Memory, Pull, PullState, Setback, SetbackKind};
use crate::facts::naming::Source;
use crate::facts::round::ActionKind;
use crate::facts::strain::Strain;
use crate::facts::update::{PinnedImage, PodUpdate};
use crate::facts::waiting::{Dismissal, Dismissed, WaitReason, Waits};
use crate::facts::world::{Dead, Node, Verdict, World};
use crate::spec::container::{Instance, member_config, sandbox_config};

pub(crate) const RUNS: State = State::Running { started_ms: 0 };

pub(crate) fn died(exit_code: i32) -> State {
    State::Exited { exit_code, out_of_memory: false, started_ms: 0, finished_ms: 1000 }
}

pub(crate) fn pod(spec: Value) -> Wanted {
    Wanted::new(Source::File, json!({"metadata": {"namespace": "d", "name": "p", "uid": "u"}, "spec": spec})).unwrap()
}

fn one(policy: &str) -> Wanted {
    pod(json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "i:1"}]}))
}

/// A world in which a pod has a sandbox and one start of each container.
fn world(wanted: &Wanted, sandbox: Option<State>, members: &[(u32, u32, State)]) -> World {
    let mut world = World::default();
    let image = Image { id: "sha256:1".into(), ..Image::default() };
    world.images.insert("i:1".to_owned(), Some(image.clone()));
    let mut add = |config: ContainerConfig, state: State| {
        world.containers.push(SeenContainer {
            id: config.name.clone(),
            name: config.name,
            labels: config.labels,
            image: config.image,
            image_id: String::new(),
            created_ms: 0,
            state,
            ip: None,
            limits: None,
            message: None,
            beside: Default::default(),
        });
    };
    if let Some(state) = sandbox {
        add(sandbox_config(&Node::default(), wanted, &[], 0, 0, wanted.sandbox_hash.clone()), state);
    }
    for (attempt, step, state) in members {
        let first = wanted.members().next().unwrap();
        let hash = wanted.hash_of(&first);
        let instance = Instance {
            attempt: *attempt,
            sandbox: 0,
            step: *step,
            renewal: 0,
            hash,
            processes_of: None,
            address: String::new(),
        };
        add(
            member_config(&Node::default(), &Desired::default(), wanted, first.spec, &image, instance).unwrap(),
            state.clone(),
        );
    }
    world
}

/// What is done at that moment, in short.
pub(crate) fn check(wanted: &[Wanted], world: World, mono_ms: i64, expected: &[&str]) {
    check_in(Desired::default(), wanted, world, mono_ms, expected);
}

fn check_in(mut desired: Desired, wanted: &[Wanted], mut world: World, mono_ms: i64, expected: &[&str]) {
    desired.pods.extend(wanted.iter().map(|wanted| (wanted.name.uid.clone(), Arc::new(wanted.clone()))));
    let mut memory = std::mem::take(&mut world.memory);
    memory.look(&world.containers, Now { wall_ms: 1000, mono_ms: 0 });
    memory.correct(&mut world.containers);
    world.memory = memory;
    let case = Case {
        desired: &desired,
        world: &world,
        now: Now { wall_ms: 1000 + mono_ms, mono_ms },
        rules: Rules::default(),
    };
    let round = plan(case);
    let mut found: Vec<String> = round.pods.values().flatten().map(|action| short(&action.what)).collect();
    found.extend(round.pulls.iter().map(|pull| format!("pull {} for {}", pull.image, pull.container)));
    for waits in round.waits.values() {
        found.extend(
            waits.pod.iter().chain(waits.containers.values()).map(|waiting| format!("waits: {}", waiting.reason)),
        );
    }
    assert_eq!(found, expected);
}

fn short(what: &ActionKind) -> String {
    match what {
        ActionKind::MakeVolumes { .. } => "make volumes".to_owned(),
        ActionKind::Start(start) => format!("start {} {} step {}", start.container, start.attempt, start.step),
        ActionKind::Begin(begin) => format!("begin {}", begin.container),
        ActionKind::Stop { stops, .. } => {
            format!("stop {}", stops.iter().map(|stop| stop.container.as_str()).collect::<Vec<_>>().join(" "))
        }
        ActionKind::Kill { container, .. } => format!("kill {container}"),
        ActionKind::Remove { container, .. } => format!("remove {container}"),
        ActionKind::RemoveVolumes => "remove volumes".to_owned(),
        ActionKind::FreeVolumes => "free volumes".to_owned(),
        ActionKind::Resize { resizes, .. } => {
            format!("resize {}", resizes.iter().map(|one| one.container.as_str()).collect::<Vec<_>>().join(" "))
        }
        ActionKind::Warn { reason, .. } => format!("warn {reason}"),
    }
}

/// What the master has on record as ended stays ended: removed by hand, edited, started by hand; beside another that
/// runs.
#[test]
fn what_ended_on_record_stays_ended() {
    for (policy, code, stays) in
        [("Never", 0, true), ("Never", 3, true), ("OnFailure", 0, true), ("OnFailure", 3, false), ("Always", 0, false)]
    {
        let spec = json!({
            "restartPolicy": policy, "containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "i:1"}],
        });
        let recorded = json!({"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code}}}]});
        let document =
            json!({"metadata": {"namespace": "d", "name": "p", "uid": "u"}, "spec": spec, "status": recorded});
        let wanted = Wanted::new(Source::Master, document).unwrap();
        let due = |what: &[&'static str], attempt: &str| -> Vec<String> {
            let start = (!stays).then(|| format!("start c {attempt}"));
            start.into_iter().chain(what.iter().map(|one| (*one).to_owned())).collect()
        };
        let check = |world: World, expected: &[String]| {
            check(from_ref(&wanted), world, 0, &expected.iter().map(String::as_str).collect::<Vec<_>>());
        };
        check(world(&wanted, Some(RUNS), &[]), &due(&["start d 0 step 0"], "0 step 0"));
        let mut edited = world(&wanted, Some(RUNS), &[(0, 0, died(code))]);
        for seen in &mut edited.containers {
            seen.labels.entry(crate::facts::naming::LABEL_HASH.to_owned()).and_modify(|hash| {
                if hash.contains('.') {
                    "of.another".clone_into(hash);
                }
            });
        }
        check(edited, &due(&["start d 0 step 0"], "1 step 0"));
        let by_hand = if stays { vec!["stop c".to_owned()] } else { Vec::new() };
        let expected: Vec<String> = by_hand.into_iter().chain(["start d 0 step 0".to_owned()]).collect();
        check(world(&wanted, Some(RUNS), &[(0, 0, RUNS)]), &expected);
    }
}

/// An update replaces the pod as a whole, whatever its policy says of containers that end, and without a back-off.
#[test]
fn an_update_replaces_the_pod() {
    let updated = |sandbox: u32| {
        let pinned = PinnedImage { reference: "i:1".to_owned(), id: "sha256:old".to_owned() };
        let images = [("c".to_owned(), pinned)].into();
        Desired { updates: Arc::new([("u".to_owned(), PodUpdate { sandbox, images })].into()), ..Desired::default() }
    };
    for policy in ["Always", "OnFailure", "Never"] {
        let wanted = one(policy);
        let check = |sandbox: u32, world: World, expected: &[&str]| {
            check_in(updated(sandbox), from_ref(&wanted), world, 0, expected);
        };
        let alive = || world(&wanted, Some(RUNS), &[(0, 0, RUNS)]);
        check(0, alive(), &[]);
        check(1, alive(), &["stop c"]);
        check(1, world(&wanted, Some(RUNS), &[(0, 3, died(143))]), &["stop POD"]);
        let ended = || world(&wanted, Some(died(137)), &[(0, 3, died(143))]);
        check(1, ended(), &["start POD 1 step 0", "remove POD", "start c 1 step 0"]);
        // What was made for the sandbox before goes.
        let half = world(&wanted, Some(State::Created { refused: None }), &[]);
        check(1, half, &["remove POD"]);
    }
}

/// A container that is held to an image starts from the image's id, and from its name where the image is gone or the
/// pod was edited.
#[test]
fn a_pinned_image_is_started_from() {
    let image_of = |reference: &str, is_here: bool| {
        let wanted = one("Always");
        let mut world = world(&wanted, Some(RUNS), &[]);
        let old = is_here.then(|| Image { id: "sha256:old".into(), ..Image::default() });
        world.images.insert("sha256:old".to_owned(), old);
        let pinned = PinnedImage { reference: reference.to_owned(), id: "sha256:old".to_owned() };
        let update = PodUpdate { sandbox: 0, images: [("c".to_owned(), pinned)].into() };
        let mut desired = Desired { updates: Arc::new([("u".to_owned(), update)].into()), ..Desired::default() };
        desired.pods.insert("u".to_owned(), Arc::new(wanted));
        let now = Now { wall_ms: 1000, mono_ms: 0 };
        let case = Case { desired: &desired, world: &world, now, rules: Rules::default() };
        let needed = images_needed(case);
        assert_eq!(needed.contains("sha256:old"), reference == "i:1", "{needed:?}");
        let round = plan(case);
        let start = round.pods["u"].iter().find_map(|action| match &action.what {
            ActionKind::Start(start) if start.container == "c" => Some(start.config.image.clone()),
            _ => None,
        });
        start.unwrap()
    };
    assert_eq!(image_of("i:1", true), "sha256:old");
    assert_eq!(image_of("i:1", false), "i:1");
    assert_eq!(image_of("i:2", true), "i:1");
}

#[test]
fn an_evicted_pod_ends_and_so_does_all_when_the_host_stops() {
    use crate::facts::strain::Strain;
    let wanted = one("Always");
    let running = || world(&wanted, Some(RUNS), &[(0, 0, RUNS)]);
    let evicted = [("u".to_owned(), Dismissal::evicted(Dismissed::Evicted, "too much".into()))].into();
    check(
        from_ref(&wanted),
        World { strain: Strain { evicted, ..Strain::default() }.into(), ..running() },
        0,
        &["stop c"],
    );
    check(from_ref(&wanted), World { leaving: true, ..running() }, 0, &["stop c"]);
    check(
        from_ref(&wanted),
        World { leaving: true, ..world(&wanted, Some(RUNS), &[(0, 0, died(0))]) },
        0,
        &["stop POD"],
    );
    check(from_ref(&wanted), World { leaving: true, ..world(&wanted, None, &[]) }, 0, &[]);
}

/// Of each container what runs, or how it ended, and the one before: for `lastState` and `logs --previous`. However
/// often it restarted.
#[test]
fn dead_containers_are_bounded() {
    let wanted = one("Always");
    let dead = |attempts: std::ops::Range<u32>| attempts.map(|attempt| (attempt, 1, died(1)));
    for (restarts, removed) in [(0, 0), (1, 0), (2, 1), (40, 39)] {
        let runs: Vec<_> = dead(0..restarts).chain([(restarts, 1, RUNS)]).collect();
        check(from_ref(&wanted), world(&wanted, Some(RUNS), &runs), 0, &vec!["remove c"; removed]);
        // Its next start waits, or it has finished: what is kept is the same.
        let runs: Vec<_> = dead(0..restarts + 1).collect();
        let expected: Vec<_> = vec!["remove c"; removed].into_iter().chain(["waits: CrashLoopBackOff"]).collect();
        check(from_ref(&wanted), world(&wanted, Some(RUNS), &runs), 0, &expected);
        let never = one("Never");
        check(from_ref(&never), world(&never, None, &runs), 0, &vec!["remove c"; restarts as usize]);
    }
}

/// Volumes and sandbox go, and the last of each container stays: for its log and its exit code.
#[test]
fn what_has_ended_frees_what_it_had() {
    let never = one("Never");
    let holds = |world: World| World { held_volumes: ["u".to_owned()].into(), ..world };
    let ended = || holds(world(&never, Some(died(0)), &[(0, 0, died(0))]));
    check(from_ref(&never), holds(world(&never, Some(RUNS), &[(0, 0, RUNS)])), 0, &[]);
    check(from_ref(&never), holds(world(&never, Some(RUNS), &[(0, 0, died(0))])), 0, &["stop POD"]);
    check(from_ref(&never), ended(), 0, &["remove POD", "free volumes"]);
    check(from_ref(&never), world(&never, None, &[(0, 0, died(0))]), 0, &[]);
    let mut resting = ended();
    let setback = Setback { failures: 9, at_ms: 0, text: "it is mounted".to_owned(), kind: SetbackKind::Removal };
    resting.memory.setbacks.insert("u".to_owned(), setback);
    check(from_ref(&never), resting, 29_999, &[]);
    // One that starts again keeps its volumes while it waits.
    let always = one("Always");
    check(from_ref(&always), holds(world(&always, Some(RUNS), &[(0, 1, died(1))])), 0, &["waits: CrashLoopBackOff"]);
}

/// When its end is on record nothing of it is needed here any more.
#[test]
fn an_evicted_pod_keeps_nothing_and_a_disk_that_is_short_no_dead_container() {
    use crate::facts::strain::{Short, Strain};
    let recorded = |policy: &str, status: Value| {
        let spec = json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "i:1"}]});
        let document = json!({"metadata": {"namespace": "d", "name": "p", "uid": "u"}, "spec": spec, "status": status});
        Wanted::new(Source::Master, document).unwrap()
    };
    let short = |world: World| {
        let strain = Strain { short: [Short::Disk].into(), ..Strain::default() };
        World { strain: strain.into(), ..world }
    };
    let evicted = recorded("Always", json!({"phase": "Failed", "reason": "Evicted"}));
    let all = || world(&evicted, Some(died(0)), &[(0, 0, died(137))]);
    check(from_ref(&evicted), all(), 0, &["remove POD", "remove c"]);
    let mut left = World::default();
    left.volumes.insert("u".to_owned());
    check(from_ref(&evicted), left, 0, &["remove volumes"]);
    let done = recorded("Never", json!({"phase": "Succeeded"}));
    let ended = |wanted: &Wanted| world(wanted, None, &[(0, 0, died(0))]);
    check(from_ref(&done), ended(&done), 0, &[]);
    check(from_ref(&done), short(ended(&done)), 0, &["remove c"]);
    let unrecorded = recorded("Never", json!({"phase": "Running"}));
    check(from_ref(&unrecorded), short(ended(&unrecorded)), 0, &[]);
    // Of one that lives the newest stays: nobody else knows how often it failed.
    let lives = one("Always");
    let twice = || world(&lives, Some(RUNS), &[(0, 1, died(1)), (1, 2, RUNS)]);
    check(from_ref(&lives), twice(), 0, &[]);
    check(from_ref(&lives), short(twice()), 0, &["remove c"]);
    let waits = || world(&lives, Some(RUNS), &[(0, 1, died(1)), (1, 2, died(1))]);
    check(from_ref(&lives), short(waits()), 0, &["remove c", "waits: CrashLoopBackOff"]);
}

#[test]
fn from_nothing_to_running() {
    let wanted = one("Always");
    check(from_ref(&wanted), world(&wanted, None, &[]), 0, &["start POD 0 step 0", "start c 0 step 0"]);
    check(from_ref(&wanted), world(&wanted, Some(RUNS), &[]), 0, &["start c 0 step 0"]);
    check(from_ref(&wanted), world(&wanted, Some(RUNS), &[(0, 0, RUNS)]), 0, &[]);
    let made = State::Created { refused: None };
    check(from_ref(&wanted), world(&wanted, Some(made.clone()), &[]), 0, &["begin POD", "start c 0 step 0"]);
    check(from_ref(&wanted), world(&wanted, Some(RUNS), &[(0, 0, made)]), 0, &["begin c"]);
}

/// Its master has it so, whoever wrote it; or it was shown to have ended, and its master has yet to hear of that.
#[test]
fn a_pod_that_has_ended_does_not_run_again() {
    let of = |phase: &str| {
        let document = json!({
            "metadata": {"namespace": "d", "name": "p", "uid": "u"}, "status": {"phase": phase},
            "spec": {"restartPolicy": "Always", "activeDeadlineSeconds": 1,
                "containers": [{"name": "c", "image": "i:1"}]},
        });
        Wanted::new(Source::Master, document).unwrap()
    };
    for phase in ["Failed", "Succeeded"] {
        let wanted = of(phase);
        check(from_ref(&wanted), world(&wanted, Some(RUNS), &[(0, 0, RUNS)]), 0, &["stop c"]);
        check(from_ref(&wanted), world(&wanted, Some(RUNS), &[(0, 0, died(1))]), 0, &["stop POD"]);
        check(from_ref(&wanted), world(&wanted, None, &[(0, 0, died(1))]), 90_000, &[]);
        check(from_ref(&wanted), world(&wanted, None, &[]), 0, &[]);
    }
    let shown = |world: World| World { ended: ["u".to_owned()].into(), ..world };
    let wanted = of("Running");
    check(from_ref(&wanted), shown(world(&wanted, Some(RUNS), &[(0, 0, RUNS)])), 0, &["stop c"]);
    check(from_ref(&wanted), shown(world(&wanted, None, &[(0, 0, died(1))])), 90_000, &[]);
}

#[test]
fn restarts_by_policy_and_back_off() {
    for (policy, code, restarts) in [
        ("Always", 0, true),
        ("Always", 1, true),
        ("OnFailure", 0, false),
        ("OnFailure", 1, true),
        ("Never", 0, false),
        ("Never", 1, false),
    ] {
        let wanted = one(policy);
        let expected: &[&str] = if restarts { &["start c 1 step 1"] } else { &["stop POD"] };
        check(from_ref(&wanted), world(&wanted, Some(RUNS), &[(0, 0, died(code))]), 0, expected);
    }
    let wanted = one("Always");
    let crashed = || world(&wanted, Some(RUNS), &[(1, 1, died(1))]);
    check(from_ref(&wanted), crashed(), 9_999, &["waits: CrashLoopBackOff"]);
    check(from_ref(&wanted), crashed(), 10_000, &["start c 2 step 2"]);
    // Refused by the engine: a start that failed.
    let refused = State::Created { refused: Some("no such file".to_owned()) };
    check(from_ref(&wanted), world(&wanted, Some(RUNS), &[(1, 1, refused)]), 0, &["waits: CrashLoopBackOff"]);
    // Ten minutes of running fine: as if it had never failed.
    let mut fine = world(
        &wanted,
        Some(RUNS),
        &[(7, 6, State::Exited { exit_code: 1, out_of_memory: false, started_ms: 0, finished_ms: 600_000 })],
    );
    fine.memory = Memory::default();
    check(from_ref(&wanted), fine, 0, &["start c 8 step 1"]);
}

/// Nor does a container that ran when the host lost its power: that is no failure of its own.
#[test]
fn what_ended_with_its_host_does_not_wait() {
    let wanted = one("Always");
    let check = |started_ms: i64, up_ms: Option<i64>, expected: &str| {
        let dead = State::Exited { exit_code: 255, out_of_memory: false, started_ms, finished_ms: started_ms };
        let mut world = world(&wanted, Some(RUNS), &[(7, 6, dead)]);
        world.memory = Memory::default();
        world.memory.up_ms = up_ms;
        check(from_ref(&wanted), world, 0, &[expected]);
    };
    // It is 1000 by the wall clock.
    check(500, None, "waits: CrashLoopBackOff");
    check(500, Some(500), "waits: CrashLoopBackOff");
    check(500, Some(499), "start c 8 step 1");
    // The clock was set back, or is not set yet.
    check(1001, Some(900), "start c 8 step 1");
}

#[test]
fn edits_replace_what_changed() {
    let before = one("Always");
    let container =
        pod(json!({"restartPolicy": "Always", "containers": [{"name": "c", "image": "i:1", "args": ["x"]}]}));
    check(from_ref(&container), world(&before, Some(RUNS), &[(0, 0, RUNS)]), 0, &["stop c"]);
    check(&[container], world(&before, Some(RUNS), &[(0, 3, died(143))]), 0, &["start c 1 step 0"]);
    let shared =
        pod(json!({"restartPolicy": "Always", "hostNetwork": true, "containers": [{"name": "c", "image": "i:1"}]}));
    check(from_ref(&shared), world(&before, Some(RUNS), &[(0, 0, RUNS)]), 0, &["stop c"]);
    check(from_ref(&shared), world(&before, Some(RUNS), &[(0, 0, died(143))]), 0, &["stop POD"]);
    check(
        &[shared],
        world(&before, Some(died(0)), &[(0, 0, died(143))]),
        0,
        &["start POD 1 step 0", "remove POD", "start c 1 step 0"],
    );
    let renamed = pod(json!({"restartPolicy": "Always", "containers": [{"name": "new", "image": "i:1"}]}));
    check(&[renamed], world(&before, Some(RUNS), &[(0, 0, RUNS)]), 0, &["stop c", "start new 0 step 0"]);
    let grace = pod(json!({
        "restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 3,
        "containers": [{"name": "c", "image": "i:1"}],
    }));
    check(&[grace], world(&before, Some(RUNS), &[(0, 0, RUNS)]), 0, &[]);
}

#[test]
fn what_nobody_wants_goes_in_order() {
    let gone = one("Always");
    let with_volumes = |mut world: World| {
        world.volumes.insert("u".to_owned());
        world
    };
    check(&[], with_volumes(world(&gone, Some(RUNS), &[(0, 0, RUNS)])), 0, &["stop c"]);
    check(&[], with_volumes(world(&gone, Some(RUNS), &[(0, 0, died(0))])), 0, &["stop POD"]);
    check(
        &[],
        with_volumes(world(&gone, Some(died(0)), &[(0, 0, died(0))])),
        0,
        &["remove c", "remove volumes", "remove POD"],
    );
    // One that may have begun since the listing goes first: the engine removes none that runs.
    let made = State::Created { refused: None };
    check(&[], with_volumes(world(&gone, Some(made), &[])), 0, &["remove POD", "remove volumes"]);
    check(&[], with_volumes(World::default()), 0, &["remove volumes"]);
    let mut deleted = gone.clone();
    deleted.pod.metadata.deletion_timestamp = coracle_api::meta::Time::from_seconds(1);
    check(from_ref(&deleted), world(&gone, Some(RUNS), &[(0, 0, RUNS)]), 0, &["stop c"]);
    check(&[deleted], world(&gone, Some(died(0)), &[(0, 0, died(0))]), 0, &[]);
}

#[test]
fn stops_end_with_their_grace() {
    let gone = one("Always");
    let stopping = |since_ms: i64| {
        let mut world = world(&gone, Some(RUNS), &[(0, 0, RUNS)]);
        let stopping =
            memory::Stopping { since_ms, signalled_ms: Some(since_ms), killed_ms: None, sick: false, edited: false };
        world.memory.stops.insert("k8s_c_p_d_u_0".to_owned(), stopping);
        world
    };
    check(&[], stopping(0), 29_999, &[]);
    check(&[], stopping(0), 30_000, &["kill c"]);
}

#[test]
fn images_by_policy() {
    let with = |policy: &str| {
        pod(json!({
            "restartPolicy": "Always", "containers": [{"name": "c", "image": "i:1", "imagePullPolicy": policy}],
        }))
    };
    let absent = |wanted: &Wanted| {
        let mut world = world(wanted, Some(RUNS), &[]);
        world.images.insert("i:1".to_owned(), None);
        world
    };
    let pulled = |mut world: World, state: PullState, failures: u32| {
        let pull = Pull { image: "i:1".to_owned(), attempt: 0, failures, state };
        world.memory.pulls.insert(("u".to_owned(), "c".to_owned()), pull);
        world
    };
    let failed = || PullState::Failed { at_ms: 0, text: "no route".to_owned() };
    let never = with("Never");
    // An archive of this host is asked for it, once.
    check(from_ref(&never), absent(&never), 0, &["pull i:1 for c", "waits: ErrImageNeverPull"]);
    for state in [PullState::InFlight { failed: None }, failed()] {
        check(from_ref(&never), pulled(absent(&never), state, 0), 0, &["waits: ErrImageNeverPull"]);
    }
    let present = with("IfNotPresent");
    check(from_ref(&present), absent(&present), 0, &["pull i:1 for c", "waits: ContainerCreating"]);
    let in_flight = |failed: Option<&str>| PullState::InFlight { failed: failed.map(str::to_owned) };
    check(from_ref(&present), pulled(absent(&present), in_flight(None), 0), 0, &["waits: ContainerCreating"]);
    check(from_ref(&present), pulled(absent(&present), in_flight(Some("no route")), 1), 0, &["waits: ErrImagePull"]);
    check(from_ref(&present), pulled(absent(&present), failed(), 1), 1_000, &["waits: ErrImagePull"]);
    check(from_ref(&present), pulled(absent(&present), failed(), 1), 9_000, &["waits: ImagePullBackOff"]);
    check(
        from_ref(&present),
        pulled(absent(&present), failed(), 1),
        10_000,
        &["pull i:1 for c", "waits: ImagePullBackOff"],
    );
    let always = with("Always");
    check(from_ref(&always), world(&always, Some(RUNS), &[]), 0, &["pull i:1 for c", "waits: ContainerCreating"]);
    check(from_ref(&always), pulled(world(&always, Some(RUNS), &[]), PullState::Done, 0), 0, &["start c 0 step 0"]);
    check(from_ref(&always), pulled(world(&always, Some(RUNS), &[]), failed(), 1), 0, &["start c 0 step 0"]);
    // An image that was pulled with the login of another pod.
    let private = |wanted: &Wanted| {
        let mut world = world(wanted, Some(RUNS), &[]);
        let image = Image { id: "sha256:1".into(), access: Some(Default::default()), ..Image::default() };
        world.images.insert("i:1".to_owned(), Some(image));
        world
    };
    check(from_ref(&never), private(&never), 0, &["waits: ErrImageNeverPull"]);
    check(from_ref(&present), private(&present), 0, &["pull i:1 for c", "waits: ContainerCreating"]);
    check(from_ref(&present), pulled(private(&present), failed(), 1), 1_000, &["waits: ErrImagePull"]);
    check(from_ref(&present), pulled(private(&present), PullState::Done, 0), 0, &["start c 0 step 0"]);
    check(from_ref(&always), pulled(private(&always), failed(), 1), 1_000, &["waits: ErrImagePull"]);
    check(from_ref(&always), pulled(private(&always), PullState::Done, 0), 0, &["start c 0 step 0"]);
}

#[test]
fn what_can_be_no_image_is_not_asked_about() {
    let wanted = pod(json!({"containers": [{"name": "a", "image": "bad//name"}, {"name": "b", "image": "i:1"}]}));
    let mut desired = Desired::default();
    desired.pods.insert("u".to_owned(), Arc::new(wanted));
    let case = Case { desired: &desired, world: &World::default(), now: Now::default(), rules: Rules::default() };
    assert_eq!(images_needed(case), BTreeSet::from(["i:1".to_owned()]));
}

#[test]
fn of_two_with_one_port_the_later_waits() {
    let with_port = |uid: &str| {
        let spec = json!({
            "restartPolicy": "Always",
            "containers": [{"name": "c", "image": "i:1", "ports": [{"containerPort": 80, "hostPort": 80}]}],
        });
        Wanted::new(Source::File, json!({"metadata": {"namespace": "d", "name": uid, "uid": uid}, "spec": spec}))
            .unwrap()
    };
    let (first, second) = (with_port("a"), with_port("b"));
    let both = [first.clone(), second.clone()];
    check(&both, world(&first, None, &[]), 0, &["start POD 0 step 0", "start c 0 step 0", "waits: HostPortTaken"]);
    // Who has it keeps it.
    check(&both, world(&second, Some(RUNS), &[(0, 0, RUNS)]), 0, &["waits: HostPortTaken"]);
    // Also while its old containers end: who waited does not slip in between.
    check(&both, world(&first, Some(died(0)), &[(0, 0, RUNS)]), 0, &["stop c", "waits: HostPortTaken"]);
}

/// The host had another node name: the pods of its files have other uids now, and the same claims.
#[test]
fn a_pod_of_a_file_waits_for_the_one_before_it() {
    let of = |source, uid: &str, name: &str| {
        let spec = json!({"restartPolicy": "Always", "containers": [{"name": "c", "image": "i:1"}]});
        Wanted::new(source, json!({"metadata": {"namespace": "d", "name": name, "uid": uid}, "spec": spec})).unwrap()
    };
    let starts = ["start POD 0 step 0", "start c 0 step 0"];
    let now = of(Source::File, "now", "p");
    for (before, state, expected) in [
        (of(Source::File, "before", "p"), RUNS, &["waits: EarlierPodEnds"][..]),
        (of(Source::File, "before", "p"), died(0), &starts[..]),
        (of(Source::File, "before", "other"), RUNS, &starts[..]),
        (of(Source::Master, "before", "p"), RUNS, &starts[..]),
    ] {
        let left = world(&before, Some(state.clone()), &[(0, 0, state)]);
        let mut desired = Desired::default();
        desired.pods.insert("now".to_owned(), Arc::new(now.clone()));
        let case = Case { desired: &desired, world: &left, now: Now::default(), rules: Rules::default() };
        let round = plan(case);
        let mut found: Vec<String> =
            round.pods.get("now").into_iter().flatten().map(|action| short(&action.what)).collect();
        found.extend(round.waits.get("now").and_then(|waits| Some(format!("waits: {}", waits.pod.as_ref()?.reason))));
        assert_eq!(found, expected, "{before:?}");
    }
    // What runs goes on.
    let mut both = world(&now, Some(RUNS), &[(0, 0, RUNS)]);
    both.containers.extend(world(&of(Source::File, "before", "p"), Some(RUNS), &[]).containers);
    check(from_ref(&now), both, 0, &["stop POD"]);
}

#[test]
fn ephemeral_containers_start_once() {
    let with = |ephemeral: Value, status: Value| {
        let spec = json!({
            "restartPolicy": "Always", "containers": [{"name": "c", "image": "i:1"}],
            "ephemeralContainers": [ephemeral],
        });
        let document = json!({"metadata": {"namespace": "d", "name": "p", "uid": "u"}, "spec": spec, "status": status});
        Wanted::new(Source::Master, document).unwrap()
    };
    let plain = || with(json!({"name": "e", "image": "i:1"}), json!({}));
    // A world in which the pod runs, and this came of its ephemeral container.
    let world = |wanted: &Wanted, sandbox: Option<State>, member: State, ephemeral: Option<State>| {
        let mut world = world(wanted, sandbox, &[(0, 0, member)]);
        let instance = Instance {
            attempt: 0,
            sandbox: 0,
            step: 0,
            renewal: 0,
            hash: EPHEMERAL_HASH.to_owned(),
            processes_of: None,
            address: String::new(),
        };
        let spec = &wanted.pod.spec.ephemeral_containers[0];
        let config =
            member_config(&Node::default(), &Desired::default(), wanted, spec, &Image::default(), instance).unwrap();
        let mut seen = world.containers[0].clone();
        (seen.id, seen.name, seen.labels) = (config.name.clone(), config.name, config.labels);
        world.containers.extend(ephemeral.map(|state| SeenContainer { state, ..seen }));
        world
    };
    let wanted = plain();
    check(from_ref(&wanted), world(&wanted, Some(RUNS), RUNS, None), 0, &["start e 0 step 0"]);
    check(from_ref(&wanted), world(&wanted, Some(RUNS), RUNS, Some(State::Created { refused: None })), 0, &["begin e"]);
    for state in [RUNS, died(0), died(1), State::Created { refused: Some("no such file".to_owned()) }] {
        check(from_ref(&wanted), world(&wanted, Some(RUNS), RUNS, Some(state)), 0, &[]);
    }
    // The sandbox that it was in has gone: it is not put into the next one.
    check(from_ref(&wanted), world(&wanted, Some(died(0)), RUNS, Some(RUNS)), 0, &["stop c e"]);
    check(
        from_ref(&wanted),
        world(&wanted, Some(died(0)), died(1), Some(died(1))),
        0,
        &["start POD 1 step 1", "remove POD", "start c 1 step 1"],
    );
    let target = with(json!({"name": "e", "image": "i:1", "targetContainerName": "c"}), json!({}));
    check(from_ref(&target), world(&target, Some(RUNS), RUNS, None), 0, &["start e 0 step 0"]);
    check(
        from_ref(&target),
        world(&target, Some(RUNS), died(1), None),
        0,
        &["start c 1 step 1", "waits: ContainerCreating"],
    );
    // The pod does without what is not supported.
    let refused = with(json!({"name": "e", "image": "i:1", "volumeDevices": [{"name": "x"}]}), json!({}));
    check(
        from_ref(&refused),
        world(&refused, Some(RUNS), died(1), None),
        0,
        &["start c 1 step 1", "waits: UnsupportedField"],
    );
    // Removed while no agent looked: the master knows that it was started.
    let said = |state: Value| {
        json!({
            "ephemeralContainerStatuses": [{"name": "e", "containerID": "docker://1", "state": state}],
        })
    };
    let known = with(json!({"name": "e", "image": "i:1"}), said(json!({"running": {}})));
    check(from_ref(&known), world(&known, Some(RUNS), RUNS, None), 0, &[]);
    let waited = with(json!({"name": "e", "image": "i:1"}), said(json!({"waiting": {}})));
    check(from_ref(&waited), world(&waited, Some(RUNS), RUNS, None), 0, &["start e 0 step 0"]);
    // It goes with its pod.
    check(&[], world(&wanted, Some(RUNS), RUNS, Some(RUNS)), 0, &["stop c e"]);
}

/// A world of a pod whose containers are as told, by name: attempt, sandbox and state.
pub(crate) fn ordered(wanted: &Wanted, sandbox: Option<(u32, State)>, members: &[(&str, u32, u32, State)]) -> World {
    let mut all = world(wanted, None, &[]);
    let mut add = |config: ContainerConfig, state: State| {
        let (id, name, labels, image) = (config.name.clone(), config.name, config.labels, config.image);
        let seen = SeenContainer {
            id,
            name,
            labels,
            image,
            image_id: String::new(),
            created_ms: 0,
            state,
            ip: None,
            limits: None,
            message: None,
            beside: Default::default(),
        };
        all.containers.push(seen);
    };
    if let Some((attempt, state)) = sandbox {
        add(sandbox_config(&Node::default(), wanted, &[], attempt, 0, wanted.sandbox_hash.clone()), state);
    }
    for (name, attempt, sandbox, state) in members {
        let member = wanted.member(name).unwrap();
        let instance = Instance {
            attempt: *attempt,
            sandbox: *sandbox,
            step: 0,
            renewal: 0,
            hash: wanted.hash_of(&member),
            processes_of: None,
            address: String::new(),
        };
        add(
            member_config(&Node::default(), &Desired::default(), wanted, member.spec, &Image::default(), instance)
                .unwrap(),
            state.clone(),
        );
    }
    all
}

#[test]
fn init_containers_run_in_order() {
    let with = |policy: &str| {
        let init = json!([{"name": "a", "image": "i:1"}, {"name": "b", "image": "i:1"}]);
        pod(json!({
            "restartPolicy": policy, "initContainers": init,
            "containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "i:1"}],
        }))
    };
    let always = with("Always");
    let up = || Some((0, RUNS));
    let now = |wanted: &Wanted, world: World, expected: &[&str]| check(from_ref(wanted), world, 0, expected);
    now(&always, ordered(&always, None, &[]), &["start POD 0 step 0", "start a 0 step 0"]);
    now(&always, ordered(&always, up(), &[("a", 0, 0, RUNS)]), &[]);
    now(&always, ordered(&always, up(), &[("a", 0, 0, died(0))]), &["start b 0 step 0"]);
    now(&always, ordered(&always, up(), &[("a", 0, 0, died(1))]), &["start a 1 step 1"]);
    let done = [("a", 0, 0, died(0)), ("b", 0, 0, died(0))];
    now(&always, ordered(&always, up(), &done), &["start c 0 step 0", "start d 0 step 0"]);
    // Beside main containers none starts again, though nothing is left of it.
    now(&always, ordered(&always, up(), &[("c", 0, 0, RUNS)]), &["start d 0 step 0"]);
    // In a new sandbox all of them do.
    let before = [("a", 0, 0, died(0)), ("b", 0, 0, died(0)), ("c", 0, 0, died(143)), ("d", 0, 0, died(143))];
    now(&always, ordered(&always, Some((1, RUNS)), &before), &["start a 1 step 0"]);
    // One that fails for good ends its pod.
    let never = with("Never");
    now(&never, ordered(&never, up(), &[("a", 0, 0, died(1))]), &["stop POD"]);
    now(&never, ordered(&never, up(), &[("a", 0, 0, died(0))]), &["start b 0 step 0"]);
}

#[test]
fn sidecars_start_before_and_end_after_the_main_ones() {
    let with = |policy: &str, probe: Value| {
        let side = |name: &str| json!({"name": name, "image": "i:1", "restartPolicy": "Always", "startupProbe": probe});
        let init = json!([side("s"), side("t"), {"name": "a", "image": "i:1"}]);
        pod(json!({"restartPolicy": policy, "initContainers": init, "containers": [{"name": "c", "image": "i:1"}]}))
    };
    let up = || Some((0, RUNS));
    let now = |wanted: &Wanted, world: World, expected: &[&str]| check(from_ref(wanted), world, 0, expected);
    let plain = with("OnFailure", Value::Null);
    now(&plain, ordered(&plain, up(), &[]), &["start s 0 step 0"]);
    now(&plain, ordered(&plain, up(), &[("s", 0, 0, RUNS)]), &["start t 0 step 0"]);
    now(&plain, ordered(&plain, up(), &[("s", 0, 0, RUNS), ("t", 0, 0, RUNS)]), &["start a 0 step 0"]);
    // One that ended starts again, also where the main ones would not.
    let running = [("t", 0, 0, RUNS), ("a", 0, 0, died(0)), ("c", 0, 0, RUNS)];
    let mut all = running.to_vec();
    all.push(("s", 0, 0, died(0)));
    now(&plain, ordered(&plain, up(), &all), &["start s 1 step 1"]);
    // Its startup probe passes before the next one starts.
    let probed = with("Always", json!({"exec": {"command": ["true"]}}));
    let mut world = ordered(&probed, up(), &[("s", 0, 0, RUNS)]);
    now(&probed, world.clone(), &[]);
    let id = world.containers[1].id.clone();
    world.verdicts.insert(id, Verdict { started: true, ..Verdict::default() });
    now(&probed, world, &["start t 0 step 0"]);
    // The main ones have ended: the last sidecar first, one after the other.
    let ended = |s: State, t: State| {
        ordered(&plain, up(), &[("s", 0, 0, s), ("t", 0, 0, t), ("a", 0, 0, died(0)), ("c", 0, 0, died(0))])
    };
    now(&plain, ended(RUNS, RUNS), &["stop t"]);
    now(&plain, ended(RUNS, died(143)), &["stop s"]);
    now(&plain, ended(died(143), died(143)), &["stop POD"]);
    // Also where nobody knows the manifest any more.
    check(&[], ordered(&plain, up(), &[("s", 0, 0, RUNS), ("t", 0, 0, RUNS), ("c", 0, 0, RUNS)]), 0, &["stop c"]);
    check(&[], ordered(&plain, up(), &[("s", 0, 0, RUNS), ("t", 0, 0, RUNS), ("c", 0, 0, died(143))]), 0, &["stop t"]);
}

/// The pod has one grace: what its main containers took of it is gone for its sidecars.
#[test]
fn a_sidecar_gets_what_is_left_of_the_grace() {
    let init = json!([{"name": "s", "image": "i:1", "restartPolicy": "Always"}]);
    let spec = json!({
        "terminationGracePeriodSeconds": 10, "initContainers": init, "containers": [{"name": "c", "image": "i:1"}],
    });
    let gone = pod(spec);
    let ending = |main_took_ms: i64| {
        let mut world = ordered(&gone, Some((0, RUNS)), &[("s", 0, 0, RUNS), ("c", 0, 0, died(143))]);
        let stopping = memory::Stopping {
            since_ms: main_took_ms,
            signalled_ms: Some(main_took_ms),
            killed_ms: None,
            sick: false,
            edited: false,
        };
        world.memory.stops.insert("k8s_s_p_d_u_0".to_owned(), stopping);
        world.memory.ending.insert("u".to_owned(), 0);
        world
    };
    check(&[], ending(4_000), 9_999, &[]);
    check(&[], ending(4_000), 10_000, &["kill s"]);
    check(&[], ending(10_000), 11_999, &[]);
    check(&[], ending(10_000), 12_000, &["kill s"]);
}

/// Its signal was lost, so it is stopped anew; its hook has run.
#[test]
fn a_pre_stop_hook_runs_once() {
    let hook = json!({"preStop": {"exec": {"command": ["true"]}}});
    let wanted = pod(json!({"containers": [{"name": "c", "image": "i:1", "lifecycle": hook}]}));
    let mut world = ordered(&wanted, Some((0, RUNS)), &[("c", 0, 0, RUNS)]);
    let hooks = |world: &World| {
        let desired = Desired::default();
        let round = plan(Case { desired: &desired, world, now: Now::default(), rules: Rules::default() });
        let stops = round.pods["u"].iter().flat_map(|action| match &action.what {
            ActionKind::Stop { stops, .. } => stops.clone(),
            other => panic!("{other:?}"),
        });
        stops.filter(|stop| stop.pre_stop.is_some()).count()
    };
    assert_eq!(hooks(&world), 1);
    world.memory.pre_stopped.insert("k8s_c_p_d_u_0".to_owned());
    assert_eq!(hooks(&world), 0);
}

/// Beside a sandbox that has to go as at any other end.
#[test]
fn sidecars_of_an_edited_pod_end_last() {
    let with = |hostname: &str| {
        let init = json!([{"name": "s", "image": "i:1", "restartPolicy": "Always"}]);
        pod(json!({"hostname": hostname, "initContainers": init, "containers": [{"name": "c", "image": "i:1"}]}))
    };
    let (before, after) = (with("a"), with("b"));
    let check = |c: State, s: State, expected: &str| {
        check(from_ref(&after), ordered(&before, Some((0, RUNS)), &[("s", 0, 0, s), ("c", 0, 0, c)]), 0, &[expected]);
    };
    check(RUNS, RUNS, "stop c");
    check(died(143), RUNS, "stop s");
    check(died(143), died(143), "stop POD");
}

/// Where the master takes the word that it runs again. A new sandbox has nothing of what the one before was given.
#[test]
fn init_containers_that_are_on_record_run_again_in_a_new_sandbox() {
    let check = |policy: &str, expected: &str| {
        let recorded = json!({
            "initContainerStatuses": [{"name": "a", "restartCount": 0, "state": {"terminated": {"exitCode": 0}}}],
        });
        let spec = json!({
            "restartPolicy": policy, "initContainers": [{"name": "a", "image": "i:1"}],
            "containers": [{"name": "c", "image": "i:1"}]});
        let document =
            json!({"metadata": {"namespace": "d", "name": "p", "uid": "u"}, "spec": spec, "status": recorded});
        let wanted = Wanted::new(Source::Master, document).unwrap();
        let before = [("a", 0, 0, died(0)), ("c", 0, 0, died(143))];
        check(from_ref(&wanted), ordered(&wanted, Some((1, RUNS)), &before), 0, &[expected]);
    };
    check("Always", "start a 1 step 0");
    check("OnFailure", "start c 1 step 1");
}

/// Its master has yet to hear that it runs again: what it says is of the run before.
#[test]
fn a_record_of_an_earlier_run_says_nothing_of_the_next() {
    let recorded =
        json!({"initContainerStatuses": [{"name": "a", "restartCount": 0, "state": {"terminated": {"exitCode": 0}}}]});
    let init = json!([{"name": "a", "image": "i:1"}, {"name": "b", "image": "i:1"}]);
    let spec =
        json!({"restartPolicy": "OnFailure", "initContainers": init, "containers": [{"name": "c", "image": "i:1"}]});
    let document = json!({"metadata": {"namespace": "d", "name": "p", "uid": "u"}, "spec": spec, "status": recorded});
    let wanted = Wanted::new(Source::Master, document).unwrap();
    check(from_ref(&wanted), ordered(&wanted, Some((1, RUNS)), &[("a", 0, 0, died(0))]), 0, &["start b 0 step 0"]);
    let again = [("a", 0, 0, died(0)), ("a", 1, 1, died(143))];
    check(from_ref(&wanted), ordered(&wanted, Some((2, RUNS)), &again), 0, &["start a 2 step 0"]);
}

/// A listing that was on its way since before the container was made does not make its failed hook forgotten; that the
/// container is gone does.
#[test]
fn a_hook_may_fail_before_its_container_is_listed() {
    let wanted = one("Always");
    let now = Now { wall_ms: 1000, mono_ms: 0 };
    let mut after = ordered(&wanted, Some((0, RUNS)), &[("c", 0, 0, RUNS)]);
    let before = ordered(&wanted, Some((0, RUNS)), &[]);
    after.memory.hooks_failed.insert(after.containers[1].id.clone(), "it failed".to_owned());
    after.memory.look(&before.containers, now);
    check(from_ref(&wanted), after.clone(), 0, &["stop c"]);
    after.memory.look(&after.containers, now);
    after.memory.look(&before.containers, now);
    assert!(after.memory.hooks_failed.is_empty());
}

/// A resize that only a new start can do ends a container, and not for good, whatever its policy makes of the code.
#[test]
fn what_is_stopped_for_a_resize_starts_again() {
    let wanted = one("OnFailure");
    let check = |edited: bool, expected: &str| {
        let mut world = ordered(&wanted, Some((0, RUNS)), &[("c", 0, 0, RUNS)]);
        world.images.insert("i:1".to_owned(), Some(Image::default()));
        let id = world.containers[1].id.clone();
        let now = Now { wall_ms: 1000, mono_ms: 0 };
        world.memory.look(&world.containers, now);
        let stopping = memory::Stopping { since_ms: 0, signalled_ms: Some(0), killed_ms: None, sick: false, edited };
        world.memory.stops.insert(id, stopping);
        world.containers[1].state = died(0);
        check(from_ref(&wanted), world.clone(), 0, &[expected]);
        world.memory.look(&world.containers, now);
        let status = crate::status::status(&wanted, &world, &Waits::default(), &json!({}), now);
        assert_eq!(status["containerStatuses"][0]["state"]["waiting"].is_object(), edited, "{status}");
    };
    check(false, "stop POD");
    check(true, "start c 1 step 0");
}

/// Whatever the wall clock does after the pod was heard of.
#[test]
fn a_deadline_is_kept_by_the_clock_of_the_agent() {
    let check = |wall_ms: i64, mono_ms: i64, active_ms: i64, over: bool| {
        let wanted = pod(json!({"activeDeadlineSeconds": 10, "containers": [{"name": "c", "image": "i:1"}]}));
        let mut world = ordered(&wanted, Some((0, RUNS)), &[("c", 0, 0, RUNS)]);
        world.memory.heard.insert("u".to_owned(), memory::FirstWanted { at_ms: 0, active_ms });
        let desired = Desired { pods: [("u".to_owned(), Arc::new(wanted))].into(), ..Desired::default() };
        let round =
            plan(Case { desired: &desired, world: &world, now: Now { wall_ms, mono_ms }, rules: Rules::default() });
        let dismissed = round.waits.get("u").is_some_and(|waits| waits.dismissed.is_some());
        assert_eq!(dismissed, over, "{wall_ms} {mono_ms}");
    };
    check(9_999, 9_999, 0, false);
    check(10_000, 10_000, 0, true);
    check(-900_000_000, 10_000, 0, true);
    check(900_000_000, 9_999, 0, false);
    // An agent that began later.
    check(10_000, 3_000, 7_000, true);
}

#[test]
fn a_probe_has_a_grace_of_its_own() {
    let probe = json!({"exec": {"command": ["false"]}, "terminationGracePeriodSeconds": 3});
    let wanted = pod(json!({"containers": [{"name": "c", "image": "i:1", "startupProbe": probe}]}));
    let mut world = ordered(&wanted, Some((0, RUNS)), &[("c", 0, 0, RUNS)]);
    let id = world.containers[1].id.clone();
    let dead = Some(Dead { probe: crate::facts::checks::ProbeKind::Startup, output: String::new() });
    world.verdicts.insert(id.clone(), Verdict { dead, ..Verdict::default() });
    check(from_ref(&wanted), world.clone(), 0, &["stop c"]);
    world.memory.stops.insert(
        id,
        memory::Stopping { since_ms: 0, signalled_ms: Some(0), killed_ms: None, sick: false, edited: false },
    );
    check(from_ref(&wanted), world.clone(), 2_999, &[]);
    check(from_ref(&wanted), world, 3_000, &["kill c"]);
}

#[test]
fn refused_fields_are_told_and_nothing_starts() {
    let refused = pod(json!({"hostUsers": false, "containers": [{"name": "c", "image": "i:1"}]}));
    check(from_ref(&refused), world(&refused, None, &[]), 0, &["waits: UnsupportedField"]);
}

#[test]
fn clocks_that_jump_change_no_back_off() {
    // Dead before this agent started, says the wall clock, an hour in the future or a year ago.
    let wanted = one("Always");
    for (finished_ms, due_ms) in [(3_600_000, 10_000), (1000, 10_000), (-9_000_000, 0)] {
        let crashed = || {
            world(
                &wanted,
                Some(RUNS),
                &[(1, 1, State::Exited { exit_code: 1, out_of_memory: false, started_ms: finished_ms, finished_ms })],
            )
        };
        check(from_ref(&wanted), crashed(), due_ms, &["start c 2 step 2"]);
        if due_ms > 0 {
            check(from_ref(&wanted), crashed(), due_ms - 1, &["waits: CrashLoopBackOff"]);
        }
    }
}

/// The hooks of a pod, and its probes likewise: see `probe`.
#[test]
fn a_check_without_a_host_is_for_the_pod() {
    let check = |host_network: bool, sandbox: Option<&str>, expected: &str| {
        let post_start = json!({"postStart": {"httpGet": {"port": 80}}});
        let containers = json!([{"name": "c", "image": "i:1", "lifecycle": post_start}]);
        let wanted = pod(json!({"restartPolicy": "Always", "hostNetwork": host_network, "containers": containers}));
        let mut world = world(&wanted, sandbox.map(|_| RUNS), &[]);
        world.node.address = "192.0.2.1".to_owned();
        for seen in &mut world.containers {
            seen.ip = sandbox.filter(|ip| !ip.is_empty()).map(str::to_owned);
        }
        let desired = Desired { pods: [("u".to_owned(), Arc::new(wanted))].into(), ..Desired::default() };
        let round = plan(Case { desired: &desired, world: &world, now: Now::default(), rules: Rules::default() });
        let starts = round.pods["u"].iter().filter_map(|action| match &action.what {
            ActionKind::Start(start) => start.post_start.clone(),
            _ => None,
        });
        let hosts: Vec<String> = starts
            .map(|check| match check {
                Check::Http { host, .. } => host,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(hosts, [expected], "{host_network} {sandbox:?}");
    };
    check(false, Some("10.244.0.9"), "10.244.0.9");
    // It comes up in the same round: its address is asked for when the hook runs.
    check(false, None, "");
    check(true, Some(""), "192.0.2.1");
    check(true, None, "192.0.2.1");
}

/// A container that runs takes up what it may use; one that asks for it, or would lose a limit, is replaced.
#[test]
fn what_a_container_may_use_changes_while_it_runs() {
    let spec = |resources: Value, policy: &str| {
        let container = json!({"name": "c", "image": "i:1", "resources": resources, "resizePolicy": [
            {"resourceName": "cpu", "restartPolicy": "NotRequired"},
            {"resourceName": "memory", "restartPolicy": policy}]});
        pod(json!({"restartPolicy": "Always", "containers": [container]}))
    };
    let limits = |cpu: &str, memory: &str| {
        json!({
            "limits": {"cpu": cpu, "memory": memory}, "requests": {"cpu": cpu, "memory": memory},
        })
    };
    let check = |before: Value, now: Value, policy: &str, expected: &[&str]| {
        let was = spec(before, policy);
        let mut world = world(&was, Some(RUNS), &[(0, 0, RUNS)]);
        world.containers[1].limits = Some(crate::spec::container::limits(&was.pod.spec, &was.pod.spec.containers[0]));
        check(&[spec(now, policy)], world, 0, expected);
    };
    check(limits("1", "1Gi"), limits("1", "1Gi"), "NotRequired", &[]);
    check(limits("1", "1Gi"), limits("2", "1Gi"), "RestartContainer", &["resize c"]);
    check(limits("1", "1Gi"), limits("1", "2Gi"), "NotRequired", &["resize c"]);
    check(limits("1", "1Gi"), limits("1", "2Gi"), "RestartContainer", &["stop c"]);
    check(limits("1", "1Gi"), json!({"requests": {"cpu": "1"}}), "NotRequired", &["stop c"]);
    check(json!({"requests": {"cpu": "1"}}), json!({}), "NotRequired", &["resize c"]);
}

/// A limit of the whole pod is that of each container which has none.
#[test]
fn a_container_may_use_what_its_pod_may() {
    let check = |whole: Value, own: Value, expected: (i64, i64, i64)| {
        let wanted = pod(json!({"resources": whole, "containers": [{"name": "c", "image": "i:1", "resources": own}]}));
        assert_eq!(wanted.refused, None);
        let limits = crate::spec::container::limits(&wanted.pod.spec, &wanted.pod.spec.containers[0]);
        assert_eq!((limits.cpu_shares, limits.cpu_quota_us, limits.memory_bytes), expected);
    };
    let whole = || json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}});
    check(whole(), json!({}), (1024, 100_000, 1 << 30));
    check(whole(), json!({"requests": {"cpu": "250m"}, "limits": {"memory": "1Mi"}}), (256, 100_000, 1 << 20));
    check(json!({"requests": {"cpu": "1"}}), json!({}), (2, 0, 0));
}

/// One that asks for no cpu gets two shares; those of an agent of before, which told none, are left as they are.
#[test]
fn an_upgrade_resizes_nothing() {
    let container = json!({
        "name": "c", "image": "i:1", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
    });
    let wanted = pod(json!({"restartPolicy": "Always", "containers": [container]}));
    assert_eq!(crate::spec::container::limits(&wanted.pod.spec, &wanted.pod.spec.containers[0]).cpu_shares, 2);
    let mut world = world(&wanted, Some(RUNS), &[(0, 0, RUNS)]);
    world.containers[1].limits = Some(crate::facts::engine::Limits::default());
    check(&[wanted], world, 0, &[]);
}

/// A pod that runs goes on with what it has while there is no room for more. One that asks for less is given it.
#[test]
fn a_resize_waits_for_room() {
    let of = |cpu: &str| {
        let resources = json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
        pod(json!({"containers": [{"name": "c", "image": "i:1", "resources": resources,
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}]}))
    };
    let (small, large) = (of("1"), of("3"));
    let running = |has: &Wanted, cpu_milli: u64| {
        let mut world = world(has, Some(RUNS), &[(0, 0, RUNS)]);
        let limits = crate::spec::container::limits(&has.pod.spec, &has.pod.spec.containers[0]);
        world.containers.iter_mut().filter(|seen| seen.image == "i:1").for_each(|seen| seen.limits = Some(limits));
        world.node.cpu_milli = cpu_milli;
        world.memory.allocations.insert("u".to_owned(), Arc::new(allocation::of(has)));
        world
    };
    check(from_ref(&large), running(&small, 4000), 0, &["resize c"]);
    check(from_ref(&large), running(&small, 2000), 0, &[]);
    check(from_ref(&small), running(&large, 2000), 0, &["resize c"]);
    // An agent that starts anew hears from the engine what its pods have.
    for (cpu_milli, done) in [(4000, &["resize c"][..]), (2000, &[])] {
        let mut world = running(&small, cpu_milli);
        let runs = seen::group(&world.containers).remove("u").unwrap().runs;
        assert_eq!(allocation::observed(&large, &runs), allocation::of(&small));
        world.memory.allocations.clear();
        check(from_ref(&large), world, 0, done);
    }
    let (desired, mut world) = (
        Desired { pods: [("u".to_owned(), Arc::new(large.clone()))].into(), ..Desired::default() },
        running(&small, 2000),
    );
    let now = Now { wall_ms: 1000, mono_ms: 0 };
    let mut memory = std::mem::take(&mut world.memory);
    memory.look(&world.containers, now);
    world.memory = memory;
    let round = plan(Case { desired: &desired, world: &world, now, rules: Rules::default() });
    let waits = &round.waits["u"];
    let text = "Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000";
    assert_eq!(waits.held.as_ref().map(|held| held.message.as_str()), Some(text));
    let message = &waits.notes["resize"].message;
    assert!(
        message.starts_with("Pod resize Deferred: {")
            && message.ends_with(&format!("\"error\":\"{text}\",\"generation\":0}}")),
        "{message}"
    );
    let status = crate::status::status(&large, &world, waits, &json!({}), now);
    let pending =
        status["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "PodResizePending").unwrap();
    assert_eq!(
        (&pending["status"], &pending["reason"], &pending["message"]),
        (&json!("True"), &json!("Deferred"), &json!(text))
    );
    assert_eq!(status["allocatedResources"], json!({"cpu": "1"}));
    // One that has ended starts again with what it has.
    world.containers.iter_mut().filter(|seen| seen.image == "i:1").for_each(|seen| seen.state = died(1));
    let round = plan(Case { desired: &desired, world: &world, now, rules: Rules::default() });
    assert_eq!(round.waits["u"].held.as_ref().map(|held| held.message.as_str()), Some(text));
    world.containers.iter_mut().filter(|seen| seen.image == "i:1").for_each(|seen| seen.state = RUNS);
    // There is room: until the engine has done it, it is under way.
    let status = crate::status::status(&large, &world, &Waits::default(), &json!({}), now);
    let kinds: Vec<&Value> = status["conditions"].as_array().unwrap().iter().map(|one| &one["type"]).collect();
    assert!(
        kinds.contains(&&json!("PodResizeInProgress")) && !kinds.contains(&&json!("PodResizePending")),
        "{kinds:?}"
    );
}

#[test]
fn a_volume_that_cannot_be_mounted_is_an_event_and_a_lost_call_a_reason() {
    let wanted = one("Always");
    for (kind, pod, note) in [
        (SetbackKind::Mount, None, Some(WaitReason::FailedMount)),
        (SetbackKind::Other, Some(WaitReason::SetupFailed), None),
    ] {
        let mut world = world(&wanted, None, &[]);
        let setback = Setback { failures: 2, at_ms: 0, text: "no".to_owned(), kind };
        world.memory.setbacks.insert("u".to_owned(), setback);
        let desired = Desired { pods: [("u".to_owned(), Arc::new(wanted.clone()))].into(), ..Desired::default() };
        let now = Now { wall_ms: 1000, mono_ms: 0 };
        let round = plan(Case { desired: &desired, world: &world, now, rules: Rules::default() });
        let waits = &round.waits["u"];
        assert_eq!(waits.pod.as_ref().map(|waiting| waiting.reason), pod);
        assert_eq!(waits.notes.get("volumes").map(|waiting| waiting.reason), note);
    }
}

/// A hook is waited for in the lane of its pod, and not when its container is to end, its grace is over or it has
/// ended.
#[test]
fn hooks_give_way() {
    let check = |wanted: &Wanted, change: &dyn Fn(&mut World, &str), mono_ms: i64, given_up: bool| {
        let mut world = ordered(wanted, Some((0, RUNS)), &[("c", 0, 0, RUNS)]);
        let id = world.containers[1].id.clone();
        world.busy.insert("u".to_owned());
        world.memory.look(&world.containers, Now { wall_ms: 1000, mono_ms: 0 });
        change(&mut world, &id);
        let mut desired = Desired::default();
        desired.pods.insert("u".to_owned(), Arc::new(wanted.clone()));
        let now = Now { wall_ms: 1000 + mono_ms, mono_ms };
        let case = |rules: Rules| Case { desired: &desired, world: &world, now, rules };
        let round = plan(case(Rules::default()));
        assert!(round.pods.is_empty(), "it is busy: {round:?}");
        assert_eq!(round.hooks_given_up.contains(&id), given_up, "{round:?}");
        assert_eq!(plan(case(Rules { switched_off: Some(Rule::HooksGiveWay) })).hooks_given_up, [].into());
    };
    let starts = |world: &mut World, id: &str| assert!(world.memory.hooks_running.insert(id.to_owned()));
    let stops = |world: &mut World, id: &str, signalled_ms: Option<i64>| {
        let stopping = memory::Stopping { since_ms: 0, signalled_ms, killed_ms: None, sick: false, edited: false };
        drop(world.memory.stops.insert(id.to_owned(), stopping));
    };
    let deleted = |grace_s: i64| {
        let spec = json!({"containers": [{"name": "c", "image": "i:1"}]});
        let metadata = json!({
            "namespace": "d", "name": "p", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": grace_s,
        });
        Wanted::new(Source::File, json!({"metadata": metadata, "spec": spec})).unwrap()
    };
    check(&one("Always"), &starts, 0, false);
    check(&deleted(30), &starts, 0, true);
    check(&deleted(30), &|_, _| (), 0, false);
    // A preStop hook has the grace, also a shorter one that comes later.
    check(&deleted(30), &|world, id| stops(world, id, None), 5_000, false);
    check(&deleted(30), &|world, id| stops(world, id, None), 30_000, true);
    check(&deleted(2), &|world, id| stops(world, id, None), 5_000, true);
    check(&deleted(2), &|world, id| stops(world, id, Some(0)), 5_000, false);
    check(&one("Always"), &|world, _| world.containers[1].state = died(0), 0, true);
    let evict = |world: &mut World, id: &str| {
        starts(world, id);
        let dismissal = Dismissal::evicted(Dismissed::Evicted, "it is full".to_owned());
        let strain = Strain { evicted: [("u".to_owned(), dismissal)].into(), ..Strain::default() };
        world.strain = Arc::new(strain);
    };
    check(&one("Always"), &evict, 0, true);
    let edited = pod(json!({"containers": [{"name": "c", "image": "i:1", "command": ["x"]}]}));
    let mut world = ordered(&one("Always"), Some((0, RUNS)), &[("c", 0, 0, RUNS)]);
    world.busy.insert("u".to_owned());
    let id = world.containers[1].id.clone();
    starts(&mut world, &id);
    let mut desired = Desired::default();
    let round = |desired: &Desired| {
        let now = Now { wall_ms: 1000, mono_ms: 0 };
        plan(Case { desired, world: &world, now, rules: Rules::default() }).hooks_given_up
    };
    // Nobody wants it any more, and every source says so.
    assert_eq!(round(&desired), [id.clone()].into());
    desired.pods.insert("u".to_owned(), Arc::new(edited));
    assert_eq!(round(&desired), [id].into());
}

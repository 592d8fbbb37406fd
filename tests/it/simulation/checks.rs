//! What must be true when everything has settled.

use std::collections::BTreeMap;
use std::time::Duration;

use coracle_agent::facts::engine::{Limits, Network, State};
use coracle_agent::facts::hash::{self, EPHEMERAL_HASH};
use coracle_agent::facts::members::{Member, MemberKind};
use coracle_agent::facts::naming::Source;
use coracle_agent::facts::naming::{LABEL_CONTAINER, LABEL_POD_UID, SANDBOX, Tag};
use coracle_agent::facts::ports::host_ports;
use coracle_agent::facts::waiting::WaitReason;
use coracle_agent::facts::wanted::Wanted;
use coracle_agent::runtime::fake::FakeContainer;
use serde_json::Value;

use super::history::{self, CPU_MILLI, Pod, Story, Wish};
use super::pods::{FILLED, KEY, container, containers, has_restart_all, is_init, is_source, starts_again};

pub async fn all(story: &mut Story) -> Vec<String> {
    let mut wrongs = story.fake.with(|engine| std::mem::take(&mut engine.wrongs));
    wrongs.append(&mut story.witness.wrongs);
    if !wrongs.is_empty() {
        return wrongs;
    }
    let held: Vec<FakeContainer> = story.fake.with(|engine| engine.containers.values().cloned().collect());
    let volumes: Vec<String> = story.fake.with(|engine| engine.volumes.keys().cloned().collect());
    let mut say = |text: String| wrongs.push(text);
    if held.iter().any(|held| held.foreign && !held.seen.runs()) {
        say("a stranger was touched".to_owned());
    }
    let mut restless = false;
    let mut ports: BTreeMap<u16, usize> = BTreeMap::new();
    for pod in &story.pods {
        let own: Vec<&FakeContainer> =
            held.iter().filter(|held| !held.foreign && held.seen.labels[LABEL_POD_UID] == pod.uid).collect();
        let runs = own.iter().filter(|held| held.seen.runs()).count();
        match pod.wish {
            Wish::Gone if !own.is_empty() => {
                say(format!("{} is gone and {} containers are left of it", pod.uid, own.len()))
            }
            // An agent that died just then left volumes without a trace of their owner: they go when every source
            // answers.
            Wish::Gone if volumes.contains(&pod.uid) && story.settled => {
                say(format!("{} is gone and its volumes are not", pod.uid))
            }
            Wish::Deleting if runs > 0 => say(format!("{} is being deleted and runs", pod.uid)),
            Wish::Runs if pod.refused => {
                if runs > 0 {
                    say(format!("{} is not supported and runs", pod.uid));
                }
            }
            Wish::Runs => {
                let (wrong, loops) = wanted(story, pod, &own);
                restless |= loops;
                wrong.into_iter().for_each(&mut say);
                let sandbox = own.iter().find(|held| held.seen.runs() && held.seen.labels[LABEL_CONTAINER] == SANDBOX);
                for port in sandbox.iter().flat_map(|held| &held.config.ports) {
                    *ports.entry(port.host_port).or_default() += 1;
                }
            }
            Wish::Gone | Wish::Deleting | Wish::Unknown => {}
        }
    }
    if let Some(paused) = held.iter().find(|held| held.seen.beside.paused) {
        say(format!("{} is still paused", paused.seen.name));
    }
    let again = |held: &&FakeContainer| !held.foreign && held.seen.runs() && held.seen.beside.ended.is_some();
    let wished = |held: &&FakeContainer| {
        let uid = &held.seen.labels[LABEL_POD_UID];
        story.pods.iter().any(|pod| pod.uid == *uid && matches!(pod.wish, Wish::Runs | Wish::Deleting) && !pod.refused)
    };
    if let Some(undead) = held.iter().filter(again).find(wished) {
        say(format!("{} had ended, and runs", undead.seen.name));
    }
    let shares = |held: &FakeContainer| held.seen.limits.map_or(0, |limits| limits.cpu_shares);
    let given: i64 =
        held.iter().filter(|held| !held.foreign && held.seen.runs()).map(shares).filter(|shares| *shares > 2).sum();
    // Shares are rounded, by less than one each.
    if given * 1000 / 1024 > i64::try_from(CPU_MILLI).unwrap() {
        say(format!("pods are given {given} shares, which is more than there is"));
    }
    if let Some((port, count)) = ports.iter().find(|(_, count)| **count > 1) {
        say(format!("port {port} is published {count} times"));
    }
    if !restless {
        quiet(story, &mut wrongs).await;
    }
    wrongs
}

/// A converged system does nothing.
async fn quiet(story: &mut Story, wrongs: &mut Vec<String>) {
    let before = story.fake.with(|engine| engine.changes_total);
    story.pass(Duration::from_secs(120), Duration::from_millis(1000)).await;
    let after = story.fake.with(|engine| engine.changes_total);
    wrongs.append(&mut story.witness.wrongs);
    if after != before {
        wrongs.push(format!("{} changes although all had settled", after - before));
    }
}

/// What is wrong with a pod that should run, and whether it has reason to be restless.
fn wanted(story: &Story, pod: &Pod, own: &[&FakeContainer]) -> (Vec<String>, bool) {
    let wanted = history::wanted(pod.source, &pod.document);
    let mut wrongs = Vec::new();
    let waits = story.shown.borrow().waits.get(&pod.uid).cloned().unwrap_or_default();
    let runs = own.iter().any(|held| held.seen.runs());
    if let Some(dismissal) = &waits.dismissed {
        let reason = dismissal.reason.as_str();
        let just = match reason {
            // A pod of the master whose port another one had, or for which there was no room, has failed for good.
            "NodePorts" | "OutOfcpu" => pod.source == Source::Master,
            "DeadlineExceeded" => !wanted.document["spec"]["activeDeadlineSeconds"].is_null(),
            "Evicted" => pod.evicted.is_some() || pod.may_be_refused,
            _ => false,
        };
        if !just || runs {
            wrongs.push(format!("{} is dismissed: {dismissal:?}", pod.uid));
        }
        wrongs.extend(check_freed(story, pod, own));
        return (wrongs, false);
    }
    if pod.is_over() {
        if runs {
            wrongs.push(format!("{} is over by its master's record, and runs", pod.uid));
        }
        wrongs.extend(check_freed(story, pod, own));
        return (wrongs, false);
    }
    let sandboxes: Vec<&&FakeContainer> =
        own.iter().filter(|held| held.seen.labels[LABEL_CONTAINER] == SANDBOX && held.seen.runs()).collect();
    if let Some(waiting) = &waits.pod {
        // Another pod has its port, or the room for it: the only things that a pod may still wait for.
        if !matches!(waiting.reason, WaitReason::HostPortTaken | WaitReason::DoesNotFit) {
            wrongs.push(format!("{} still waits: {waiting:?}", pod.uid));
        }
        if runs {
            wrongs.push(format!("{} waits and runs", pod.uid));
        }
        return (wrongs, false);
    }
    let fate_of_pod = fate_of_pod(pod);
    let mut restless = fate_of_pod == Some(Fate::Any);
    let mut all_ended = true;
    for member in wanted.members().filter(|member| member.kind == MemberKind::Main) {
        let fate = fate_of_pod.unwrap_or_else(|| fate(pod, &member.spec.name));
        restless |= matches!(fate, Fate::Loops | Fate::Waits | Fate::Any);
        all_ended &= fate == Fate::Ends;
        let mine: Vec<&&FakeContainer> =
            own.iter().filter(|held| held.seen.labels[LABEL_CONTAINER] == member.spec.name).collect();
        check_main(story, pod, &wanted, &member, fate, &mine, &sandboxes, &mut wrongs);
    }
    check_sidecars(pod, &wanted, own, all_ended, restless, &mut wrongs);
    restless |= check_ephemeral(story, pod, &wanted, own, all_ended, &mut wrongs);
    for held in own.iter().filter(|held| held.seen.runs()) {
        let name = held.seen.labels[LABEL_CONTAINER].as_str();
        if name != SANDBOX && wanted.member(name).is_none() {
            wrongs.push(format!("{}/{name} runs and is not in the pod", pod.uid));
        }
        wrongs.extend(check_probes(story, pod, held, name, restless));
    }
    check_sandbox(&wanted, pod, &sandboxes, all_ended, restless, &mut wrongs);
    if all_ended && !restless && !runs {
        wrongs.extend(check_freed(story, pod, own));
    }
    if own
        .iter()
        .any(|held| held.seen.labels[LABEL_CONTAINER] == SANDBOX && matches!(held.seen.state, State::Exited { .. }))
        && !restless
    {
        wrongs.push(format!("{}: a dead sandbox is left", pod.uid));
    }
    wrongs.extend(story.witness.overdue(&pod.uid).map(|text| format!("{}: something {text}", pod.uid)));
    if !sandboxes.is_empty() && !restless {
        wrongs.extend(check_files(story, pod));
    }
    (wrongs, restless)
}

/// A pod that has ended keeps the last of each of its containers, and one that was evicted nothing.
fn check_freed(story: &Story, pod: &Pod, own: &[&FakeContainer]) -> Option<String> {
    let uid = &pod.uid;
    if story.fake.with(|engine| engine.volumes.contains_key(uid)) {
        return Some(format!("{uid} has ended, and its volumes have not gone"));
    }
    let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
    own.iter().for_each(|held| *kept.entry(held.seen.labels[LABEL_CONTAINER].as_str()).or_default() += 1);
    if kept.iter().any(|(name, count)| *name == SANDBOX || *count > 1) {
        return Some(format!("{uid} has ended, and of it is kept: {kept:?}"));
    }
    let evicted = pod.is_over() && pod.recorded["reason"] == "Evicted";
    (evicted && !own.is_empty()).then(|| format!("{uid} was evicted, and of it is kept: {kept:?}"))
}

#[allow(clippy::too_many_arguments)]
fn check_main(
    story: &Story,
    pod: &Pod,
    wanted: &Wanted,
    member: &Member<'_>,
    fate: Fate,
    mine: &[&&FakeContainer],
    sandboxes: &[&&FakeContainer],
    wrongs: &mut Vec<String>,
) {
    let (container, wanted_hash) = (member.spec, wanted.hash_of(member));
    let alive: Vec<&&&FakeContainer> = mine.iter().filter(|held| held.seen.runs()).collect();
    let name = format!("{}/{} ({})", pod.uid, container.name, container.image);
    if alive.len() > 1 {
        wrongs.push(format!("{name} runs {} times", alive.len()));
    }
    if mine.len() > 2 {
        wrongs.push(format!("{name}: {} containers are kept", mine.len()));
    }
    let held_back = story.shown.borrow().waits.get(&pod.uid).is_some_and(|waits| waits.held.is_some());
    for held in &alive {
        let tag = Tag::read(&held.seen.name, &held.seen.labels).unwrap();
        if !hash::same(&tag.hash, &wanted_hash) || held.config.image != container.image {
            wrongs.push(format!("{name} runs as it was before an edit"));
        }
        let joins = |sandbox: &&&FakeContainer| held.config.network == Network::Join(sandbox.seen.name.clone());
        if !sandboxes.iter().any(joins) {
            wrongs.push(format!("{name} runs without its sandbox"));
        }
        let has = held.seen.limits.unwrap_or_default();
        let asks = asked_limits(wanted.document_of(member));
        if has != asks && !held_back {
            wrongs.push(format!("{name} has {has:?} and asks for {asks:?}"));
        }
    }
    match fate {
        Fate::Runs if alive.is_empty() => wrongs.push(format!("{name} does not run")),
        Fate::Ends if !alive.is_empty() => wrongs.push(format!("{name} should have ended")),
        Fate::Ends if mine.is_empty() && !pod.touched && fate_of_pod(pod).is_none() => {
            wrongs.push(format!("{name} left no trace"))
        }
        Fate::Waits if !alive.is_empty() => wrongs.push(format!("{name} cannot run and does")),
        Fate::Loops if mine.is_empty() => wrongs.push(format!("{name} was never started")),
        _ => {}
    }
    let starts = story.fake.with(|engine| engine.starts_of(&pod.uid, &container.name, &wanted_hash));
    let again = story.fake.with(|engine| engine.begun_again.contains(&(pod.uid.clone(), container.name.clone())));
    if fate == Fate::Ends
        && !pod.touched
        && !again
        && starts > 1
        && !container.image.starts_with("heal")
        && !has_restart_all(&pod.document)
    {
        wrongs.push(format!("{name} was started again although that is not its policy"));
    }
}

/// What the engine is to give a container, of what its document says.
fn asked_limits(container: &Value) -> Limits {
    let amount = |list: &str, name: &str, unit: &str| {
        let text = container["resources"][list][name].as_str()?;
        text.strip_suffix(unit)?.parse::<i64>().ok()
    };
    let cpu = amount("limits", "cpu", "m");
    let shares = amount("requests", "cpu", "m").or(cpu).map_or(2, |milli| milli * 1024 / 1000);
    Limits {
        cpu_shares: shares,
        cpu_quota_us: cpu.map_or(0, |milli| milli * 100),
        cpu_period_us: cpu.map_or(0, |_| 100_000),
        memory_bytes: amount("limits", "memory", "Mi").map_or(0, |mega| mega << 20),
    }
}

/// What a running container's probes found is what became of it, and what its status says.
fn check_probes(story: &Story, pod: &Pod, held: &FakeContainer, name: &str, restless: bool) -> Option<String> {
    let spec = container(&pod.document, name).filter(|_| !is_init(name))?;
    let verdict = |check: &str| story.witness.verdict(&held.seen.id, check);
    if verdict("live") == Some(false) || verdict("startup") == Some(false) {
        return Some(format!("{}/{name} failed its probe and still runs", pod.uid));
    }
    if story.witness.hook_failed(&held.seen.id) {
        return Some(format!("{}/{name}: its postStart hook failed, and it still runs", pod.uid));
    }
    let passes = |field: &str, check: &str| spec[field].is_null() || verdict(check) == Some(true);
    let ready = passes("startupProbe", "startup") && passes("readinessProbe", "ready");
    let shown = story.shown.borrow().statuses.get(&pod.uid).cloned().unwrap_or_default();
    let lists = ["initContainerStatuses", "containerStatuses"];
    let told = lists
        .iter()
        .flat_map(|list| shown[list].as_array().into_iter().flatten())
        .find(|status| status["name"] == name)?;
    // Between two looks it may just have changed, as it does again and again where containers do not rest.
    let same = told["containerID"] == format!("docker://{}", held.seen.id);
    (same && !restless && told["ready"] != ready)
        .then(|| format!("{}/{name}: that it is ready is {ready}, and the status says {}", pod.uid, told["ready"]))
}

/// A volume holds what its object holds.
fn check_files(story: &Story, pod: &Pod) -> Option<String> {
    let volumes = pod.document["spec"]["volumes"].as_array().into_iter().flatten();
    let volume = volumes.into_iter().find(|volume| volume["name"] == FILLED)?;
    let text = &story.objects[usize::from(volume["configMap"].is_null())];
    let found = story.witness.files(&pod.uid).and_then(|files| files.get(KEY));
    let text = text.as_ref().map(|text| text.as_bytes().to_vec());
    (found != text.as_ref()).then(|| format!("{}: its volume holds {found:?}, not {text:?}", pod.uid))
}

/// They run as long as their pod does.
fn check_sidecars(
    pod: &Pod,
    wanted: &Wanted,
    own: &[&FakeContainer],
    all_ended: bool,
    restless: bool,
    wrongs: &mut Vec<String>,
) {
    for member in wanted.members().filter(|member| member.kind == MemberKind::Sidecar) {
        let mine = own.iter().filter(|held| held.seen.labels[LABEL_CONTAINER] == member.spec.name);
        let alive = mine.filter(|held| held.seen.runs()).count();
        let expected = usize::from(!all_ended);
        if alive != expected && !restless {
            wrongs.push(format!("{}/{}: {alive} run, not {expected}", pod.uid, member.spec.name));
        }
    }
}

/// Whether one of them still waits for its image.
fn check_ephemeral(
    story: &Story,
    pod: &Pod,
    wanted: &Wanted,
    own: &[&FakeContainer],
    all_ended: bool,
    wrongs: &mut Vec<String>,
) -> bool {
    let mut waits = false;
    for container in &wanted.pod.spec.ephemeral_containers {
        let mine: Vec<&&FakeContainer> =
            own.iter().filter(|held| held.seen.labels[LABEL_CONTAINER] == container.name).collect();
        let name = format!("{}/{} ({})", pod.uid, container.name, container.image);
        let starts = story.fake.with(|engine| engine.starts_of(&pod.uid, &container.name, EPHEMERAL_HASH));
        let again = story.fake.with(|engine| engine.begun_again.contains(&(pod.uid.clone(), container.name.clone())));
        if starts > 1 && !pod.touched && !again {
            wrongs.push(format!("{name} was started {starts} times"));
        }
        if all_ended && mine.iter().any(|held| held.seen.runs()) {
            wrongs.push(format!("{name} runs in a pod that has ended"));
        }
        let absent = container.image.starts_with("absent");
        let alone = container.target_container_name.is_empty();
        waits |= absent;
        if mine.is_empty() && alone && !absent && !all_ended && !pod.touched {
            wrongs.push(format!("{name} was never started"));
        }
    }
    waits
}

fn check_sandbox(
    wanted: &Wanted,
    pod: &Pod,
    sandboxes: &[&&FakeContainer],
    all_ended: bool,
    restless: bool,
    wrongs: &mut Vec<String>,
) {
    match sandboxes {
        [] if all_ended || restless => {}
        [] => wrongs.push(format!("{} has no sandbox", pod.uid)),
        [_] if all_ended && !restless => wrongs.push(format!("{} has ended and its sandbox has not", pod.uid)),
        [one] => {
            let tag = Tag::read(&one.seen.name, &one.seen.labels).unwrap();
            if one.config.ports != host_ports(&wanted.pod.spec) || tag.hash != wanted.sandbox_hash {
                wrongs.push(format!("the sandbox of {} is as it was before an edit", pod.uid));
            }
        }
        more => wrongs.push(format!("{} has {} sandboxes", pod.uid, more.len())),
    }
}

/// What becomes of a container in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Runs,
    Ends,
    /// Ends and starts again.
    Loops,
    /// Cannot start.
    Waits,
    /// It depends on what was done to it.
    Any,
}

/// What becomes of a pod by its init containers. None: they succeed.
fn fate_of_pod(pod: &Pod) -> Option<Fate> {
    if has_restart_all(&pod.document)
        && containers(&pod.document).any(|one| is_source(one) && one["image"] == "exit3:1")
    {
        return Some(Fate::Any);
    }
    let inits = pod.document["spec"]["initContainers"].as_array().into_iter().flatten();
    for init in inits {
        let name = init["name"].as_str().unwrap();
        let fails = init["image"].as_str().unwrap().starts_with("try3") && !starts_again(&pod.document, name, 3);
        match (is_init(name), pod.touched) {
            (true, _) if fails && has_restart_all(&pod.document) => return Some(Fate::Any),
            (true, false) if fails => return Some(Fate::Ends),
            (true, true) if fails || !starts_again(&pod.document, name, KILLED) => return Some(Fate::Any),
            _ => {}
        }
    }
    None
}

/// How processes end that are killed.
const KILLED: i32 = 137;

fn fate(pod: &Pod, name: &str) -> Fate {
    let image = container(&pod.document, name).unwrap()["image"].as_str().unwrap();
    let again = |code: i32| starts_again(&pod.document, name, code);
    let (kind, _) = image.split_once(':').unwrap();
    let ends = |code: i32, then: Fate| if again(code) { then } else { Fate::Ends };
    let lives = || match pod.touched {
        true if !again(KILLED) || !again(143) || (kind == "slow" && !again(0)) => Fate::Any,
        _ => Fate::Runs,
    };
    let renews = has_restart_all(&pod.document);
    // Whether it had its first start before all started anew, nobody can tell.
    if renews && kind == "heal3" && !is_source(container(&pod.document, name).unwrap()) {
        return Fate::Any;
    }
    if pod.ended_for_good(name) && !renews {
        return if pod.touched { Fate::Any } else { Fate::Ends };
    }
    match kind {
        "absent" => Fate::Waits,
        "bad" => ends(128, Fate::Waits),
        "crash" => ends(1, Fate::Loops),
        "exit3" => ends(3, Fate::Loops),
        "done" => ends(0, Fate::Loops),
        "heal3" if !pod.touched => ends(3, Fate::Runs),
        // It may have had its first start, and its end, before an edit.
        "heal3" => Fate::Any,
        _ => lives(),
    }
}

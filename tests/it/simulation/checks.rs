//! What must be true when everything has settled.

use std::collections::BTreeMap;
use std::time::Duration;

use coracle_agent::desired::Wanted;
use coracle_agent::hash::EPHEMERAL_HASH;
use coracle_agent::members::Kind;
use coracle_agent::naming::{LABEL_CONTAINER, LABEL_POD_UID, SANDBOX, Tag};
use coracle_agent::plan::WaitReason;
use coracle_agent::plan::ports::host_ports;
use coracle_agent::runtime::fake::Held;
use coracle_agent::runtime::{Network, State};

use super::history::{Pod, Story, Wish};

pub async fn all(story: &mut Story) -> Vec<String> {
    let mut wrongs = story.fake.with(|engine| std::mem::take(&mut engine.wrongs));
    let held: Vec<Held> = story.fake.with(|engine| engine.containers.values().cloned().collect());
    let volumes: Vec<String> = story.fake.with(|engine| engine.volumes.keys().cloned().collect());
    let mut say = |text: String| wrongs.push(text);
    if held.iter().any(|held| held.foreign && !held.seen.runs()) {
        say("a stranger was touched".to_owned());
    }
    let mut restless = false;
    let mut ports: BTreeMap<u16, usize> = BTreeMap::new();
    for pod in &story.pods {
        let own: Vec<&Held> = held.iter().filter(|held| !held.foreign && held.seen.labels[LABEL_POD_UID] == pod.uid).collect();
        let runs = own.iter().filter(|held| held.seen.runs()).count();
        match pod.wish {
            Wish::Gone if !own.is_empty() => say(format!("{} is gone and {} containers are left of it", pod.uid, own.len())),
            // An agent that died just then left volumes without a trace of their owner: they go when every source answers.
            Wish::Gone if volumes.contains(&pod.uid) && story.settled => say(format!("{} is gone and its volumes are not", pod.uid)),
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
    if after != before {
        wrongs.push(format!("{} changes although all had settled", after - before));
    }
}

/// What is wrong with a pod that should run, and whether it has reason to be restless.
fn wanted(story: &Story, pod: &Pod, own: &[&Held]) -> (Vec<String>, bool) {
    let wanted = Wanted::new(pod.source, pod.document.clone()).unwrap();
    let policy = wanted.pod.spec.restart_policy.as_str();
    let mut wrongs = Vec::new();
    let waits = story.shown.borrow().waits.get(&pod.uid).cloned().unwrap_or_default();
    if let Some(dismissal) = &waits.dismissed {
        // A pod of the master whose port another one had has failed for good.
        if dismissal.reason != "NodePorts" || own.iter().any(|held| held.seen.runs()) {
            wrongs.push(format!("{} is dismissed: {dismissal:?}", pod.uid));
        }
        return (wrongs, false);
    }
    let waits = waits.pod;
    let sandboxes: Vec<&&Held> = own.iter().filter(|held| held.seen.labels[LABEL_CONTAINER] == SANDBOX && held.seen.runs()).collect();
    if let Some(waiting) = &waits {
        // Another pod has its port: the only thing that a pod may still wait for.
        if waiting.reason != WaitReason::HostPortTaken {
            wrongs.push(format!("{} still waits: {waiting:?}", pod.uid));
        }
        if own.iter().any(|held| held.seen.runs()) {
            wrongs.push(format!("{} waits and runs", pod.uid));
        }
        return (wrongs, false);
    }
    let mut restless = false;
    let mut all_ended = true;
    for member in wanted.members().filter(|member| member.kind == Kind::Main) {
        let (container, hash) = (member.spec, wanted.hash_of(&member));
        let mine: Vec<&&Held> = own.iter().filter(|held| held.seen.labels[LABEL_CONTAINER] == container.name).collect();
        let fate = fate(&container.image, policy, pod.touched);
        restless |= fate == Fate::Loops || fate == Fate::Waits || fate == Fate::Any;
        all_ended &= fate == Fate::Ends;
        let alive: Vec<&&&Held> = mine.iter().filter(|held| held.seen.runs()).collect();
        let name = format!("{}/{} ({})", pod.uid, container.name, container.image);
        if alive.len() > 1 {
            wrongs.push(format!("{name} runs {} times", alive.len()));
        }
        if mine.len() > 2 {
            wrongs.push(format!("{name}: {} containers are kept", mine.len()));
        }
        for held in &alive {
            let tag = Tag::read(&held.seen.name, &held.seen.labels).unwrap();
            if tag.hash != hash || held.config.image != container.image {
                wrongs.push(format!("{name} runs as it was before an edit"));
            }
            let joins = |sandbox: &&&Held| held.config.network == Network::Join(sandbox.seen.name.clone());
            if !sandboxes.iter().any(joins) {
                wrongs.push(format!("{name} runs without its sandbox"));
            }
            if story.verdicts.contains_key(&held.seen.id) {
                wrongs.push(format!("{name} failed its probe and still runs"));
            }
        }
        match fate {
            Fate::Runs if alive.is_empty() => wrongs.push(format!("{name} does not run")),
            Fate::Ends if !alive.is_empty() => wrongs.push(format!("{name} should have ended")),
            Fate::Ends if mine.is_empty() && !pod.touched => wrongs.push(format!("{name} left no trace")),
            Fate::Waits if !alive.is_empty() => wrongs.push(format!("{name} cannot run and does")),
            Fate::Loops if mine.is_empty() => wrongs.push(format!("{name} was never started")),
            _ => {}
        }
        let starts = story.fake.with(|engine| engine.starts_of(&pod.uid, &container.name, &hash));
        let again = story.fake.with(|engine| engine.begun_again.contains(&(pod.uid.clone(), container.name.clone())));
        if fate == Fate::Ends && !pod.touched && !again && starts > 1 {
            wrongs.push(format!("{name} was started again although its policy is {policy}"));
        }
    }
    check_sidecars(pod, &wanted, own, all_ended, restless, &mut wrongs);
    restless |= check_ephemeral(story, pod, &wanted, own, all_ended, &mut wrongs);
    for held in own.iter().filter(|held| held.seen.runs()) {
        let name = held.seen.labels[LABEL_CONTAINER].as_str();
        if name != SANDBOX && wanted.member(name).is_none() {
            wrongs.push(format!("{}/{name} runs and is not in the pod", pod.uid));
        }
    }
    check_sandbox(&wanted, pod, &sandboxes, all_ended, restless, &mut wrongs);
    if own.iter().any(|held| held.seen.labels[LABEL_CONTAINER] == SANDBOX && matches!(held.seen.state, State::Exited { .. })) && !restless {
        wrongs.push(format!("{}: a dead sandbox is left", pod.uid));
    }
    (wrongs, restless)
}

/// They run as long as their pod does.
fn check_sidecars(pod: &Pod, wanted: &Wanted, own: &[&Held], all_ended: bool, restless: bool, wrongs: &mut Vec<String>) {
    for member in wanted.members().filter(|member| member.kind == Kind::Sidecar) {
        let mine = own.iter().filter(|held| held.seen.labels[LABEL_CONTAINER] == member.spec.name);
        let alive = mine.filter(|held| held.seen.runs()).count();
        let expected = usize::from(!all_ended);
        if alive != expected && !restless {
            wrongs.push(format!("{}/{}: {alive} run, not {expected}", pod.uid, member.spec.name));
        }
    }
}

/// Whether one of them still waits for its image.
fn check_ephemeral(story: &Story, pod: &Pod, wanted: &Wanted, own: &[&Held], all_ended: bool, wrongs: &mut Vec<String>) -> bool {
    let mut waits = false;
    for container in &wanted.pod.spec.ephemeral_containers {
        let mine: Vec<&&Held> = own.iter().filter(|held| held.seen.labels[LABEL_CONTAINER] == container.name).collect();
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

fn check_sandbox(wanted: &Wanted, pod: &Pod, sandboxes: &[&&Held], all_ended: bool, restless: bool, wrongs: &mut Vec<String>) {
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

fn fate(image: &str, policy: &str, touched: bool) -> Fate {
    let kind = image.split(':').next().unwrap();
    match (kind, policy) {
        ("absent", _) => Fate::Waits,
        ("bad", "Never") => Fate::Ends,
        ("bad", _) => Fate::Waits,
        ("crash", "Never") | ("done", "Never" | "OnFailure") => Fate::Ends,
        ("crash" | "done", _) => Fate::Loops,
        (_, "Always") => Fate::Runs,
        ("slow", "OnFailure") | (_, "Never") if touched => Fate::Any,
        _ => Fate::Runs,
    }
}

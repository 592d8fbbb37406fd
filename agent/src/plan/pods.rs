//! One pod: first the stops, then the sandbox, then the containers. PURE.

use std::sync::Arc;

use super::admission::{self, Answer, NodeCapacity};
use super::containers::{self, Story};
use super::rules::Rule;
use super::sandbox::{self, Sandbox};
use super::{allocation, anew, garbage, order, resize, stops};
use crate::facts::backoff::{Now, setback_wait_ms};
use crate::facts::desired::Desired;
use crate::facts::engine::SeenContainer;
use crate::facts::members::MemberKind;
use crate::facts::memory::{FirstWanted, Memory, SetbackKind};
use crate::facts::naming::{SANDBOX, Source};
use crate::facts::ports::TakenPorts;
use crate::facts::round::{PodPlan, StopReason};
use crate::facts::seen::{self, Run};
use crate::facts::waiting::{Dismissal, WaitReason, Waiting, WaitingResize};
use crate::facts::wanted::Wanted;
use crate::plan::case::{Case, PodCase};

/// The shortage is now, so there is little time.
const EVICTION_GRACE_S: u64 = 1;

pub fn decide<'a>(
    case: Case<'a>,
    wanted: &'a Wanted,
    runs: &'a [Run<'a>],
    ports: &mut TakenPorts,
    room: &mut NodeCapacity<'_>,
) -> PodPlan {
    let mut part = PodPlan::default();
    let pod = PodCase::new(case, wanted, runs);
    if rests_as_it_is(pod, &mut part) {
        return part;
    }
    let grace_s = Some(containers::grace_s(wanted));
    if wanted.pod.metadata.deletion_timestamp.is_some() && case.rules.hold(Rule::DeletedPodsEnd) {
        end(case, &mut part, runs, pod.address, grace_s, StopReason::PodDeleted);
        return part;
    }
    if case.world.leaving {
        end(case, &mut part, runs, pod.address, grace_s, StopReason::HostStops);
        return part;
    }
    if let Some(refused) = wanted.refused.clone()
        && case.rules.hold(Rule::RefusedPodsWait)
    {
        part.waits.pod = Some(Waiting::new(WaitReason::UnsupportedField, refused));
        return part;
    }
    if !is_taken(&mut part, wanted, runs, room) {
        return part;
    }
    let held = hold(case, &mut part, wanted, runs, room).filter(|_| case.rules.hold(Rule::ResizesWaitForRoom));
    let wanted = held.as_ref().unwrap_or(wanted);
    let pod = PodCase::new(case, wanted, runs);
    if let Some((dismissal, grace_s, why)) = ended_as_a_whole(pod, &mut part, grace_s) {
        part.waits.dismissed = Some(dismissal);
        if !end(case, &mut part, runs, pod.address, grace_s, why) {
            garbage::ended(pod, &mut part);
        }
        return part;
    }
    let (ephemeral, stories): (Vec<Story>, Vec<Story>) = wanted
        .members()
        .map(|member| containers::story(pod, member))
        .partition(|story| story.member.kind == MemberKind::Ephemeral);
    if finished(pod, &stories) && case.rules.hold(Rule::FinishedPodsRest) {
        if !end(case, &mut part, runs, pod.address, grace_s, StopReason::PodFinished) {
            garbage::ended(pod, &mut part);
        }
        return part;
    }
    let sandbox = sandbox::bring_up(pod, &mut part, ports);
    // While it waits, whatever runs belongs to another sandbox and is being stopped.
    let Sandbox::Up { attempt, .. } = &sandbox else { return part };
    end_strangers(pod, &mut part);
    if anew::end_earlier(pod, &mut part) || anew::waits(pod, &mut part, &stories) {
        // It may wait for minutes.
        garbage::dead(case, &mut part, runs, *attempt);
        return part;
    }
    let held_up: Vec<bool> = stories.iter().map(|story| containers::end_what_has_to(pod, &mut part, story)).collect();
    resize::resize(pod, &mut part, &stories);
    garbage::dead(case, &mut part, runs, *attempt);
    let turns = order::turns(pod, &stories, *attempt);
    for ((story, held_up), turn) in stories.iter().zip(held_up).zip(turns) {
        if turn && !held_up {
            containers::start_if_due(pod, &mut part, story, &sandbox, None);
        }
    }
    for story in &ephemeral {
        if !containers::end_what_has_to(pod, &mut part, story) {
            containers::start_once(pod, &mut part, story, &sandbox);
        }
    }
    part
}

/// Whether this node takes the pod. If not, notes the reason to wait or to fail.
fn is_taken(part: &mut PodPlan, wanted: &Wanted, runs: &[Run<'_>], room: &mut NodeCapacity<'_>) -> bool {
    match room.ask(part, wanted, runs) {
        Answer::Taken => return true,
        Answer::Later(_) => part.waits.undecided = true,
        Answer::Dismissed(dismissal) if wanted.name.source == Source::File => {
            part.waits.pod = Some(admission::waiting(&dismissal))
        }
        Answer::Dismissed(dismissal) => part.waits.dismissed = Some(dismissal),
    }
    false
}

/// Some: the pod with its allocated resources, while the node has no room for the requested resources.
fn hold(
    case: Case<'_>,
    part: &mut PodPlan,
    wanted: &Wanted,
    runs: &[Run<'_>],
    room: &mut NodeCapacity<'_>,
) -> Option<Wanted> {
    let known = case.world.memory.allocations.get(&wanted.name.uid).cloned();
    let here = seen::members(runs).any(|run| run.seen.runs());
    let before = known.clone().or_else(|| here.then(|| Arc::new(allocation::observed(wanted, runs))));
    let old = before.as_ref().and_then(|before| allocation::with(wanted, before));
    if let (Some(old), Some(allocation)) = (old, before)
        && let Some(message) = room.grow(wanted, &old)
    {
        let text = format!("Pod resize Deferred: {}", resize::summary(wanted, Some(&message)));
        part.waits.notes.insert("resize".to_owned(), Waiting::new(WaitReason::ResizeDeferred, text));
        part.waits.held = Some(WaitingResize { allocation: allocation.clone(), message });
        part.allocation = Some(allocation);
        return Some(old);
    }
    let now = allocation::of(wanted);
    if known.is_none_or(|known| *known != now) {
        part.allocation = Some(Arc::new(now));
    }
    None
}

/// Whatever its containers do: it was evicted, or was active for longer than it may.
fn ended_as_a_whole(
    pod: PodCase<'_>,
    part: &mut PodPlan,
    grace_s: Option<u64>,
) -> Option<(Dismissal, Option<u64>, StopReason)> {
    let world = pod.case.world;
    let evicted = world.strain.evicted.get(&pod.wanted.name.uid).filter(|_| !world.has_ended(pod.wanted));
    if let Some(dismissal) = evicted.filter(|_| pod.case.rules.hold(Rule::EvictedPodsEnd)) {
        return Some((dismissal.clone(), Some(EVICTION_GRACE_S), StopReason::Evicted));
    }
    out_of_time(pod, part).map(|dismissal| (dismissal, grace_s, StopReason::OutOfTime))
}

/// Dismisses a pod past its `activeDeadlineSeconds`. A pod that has ended keeps its earlier end.
fn out_of_time(pod: PodCase<'_>, part: &mut PodPlan) -> Option<Dismissal> {
    let PodCase { case, wanted, runs, .. } = pod;
    let limit_ms = wanted.pod.spec.active_deadline_seconds?.saturating_mul(1000);
    if case.world.has_ended(wanted) || !case.rules.hold(Rule::DeadlinesEnd) {
        return None;
    }
    let heard = case.world.memory.heard.get(&wanted.name.uid).copied();
    let heard =
        heard.unwrap_or_else(|| FirstWanted { at_ms: case.now.mono_ms, active_ms: active_ms(wanted, runs, case.now) });
    let due_ms = heard.at_ms.saturating_add(limit_ms.saturating_sub(heard.active_ms));
    if case.now.mono_ms >= due_ms {
        return Some(Dismissal::out_of_time());
    }
    part.wake_at(due_ms);
    None
}

/// Notes which pods are wanted now.
pub fn hear(memory: &mut Memory, desired: &Desired, containers: &[SeenContainer], now: Now) {
    // Containers of other programs do not count, even with the pod's labels.
    let own = |uid: &str| seen::group(containers).remove(uid).map(|pod| pod.runs).unwrap_or_default();
    let active_ms = |uid: &str| desired.pods.get(uid).map_or(0, |wanted| active_ms(wanted, &own(uid), now));
    memory.hear(desired.pods.keys(), now, active_ms);
}

/// How long a pod has been active: by the start time in its status, or else by its oldest container here.
fn active_ms(wanted: &Wanted, runs: &[Run<'_>], now: Now) -> i64 {
    let told_ms = wanted.pod.status.start_time.map(|time| time.seconds().saturating_mul(1000));
    let begun_ms = told_ms.or_else(|| runs.iter().map(|run| run.seen.created_ms).filter(|ms| *ms > 0).min());
    begun_ms.map_or(0, |begun_ms| now.wall_ms.saturating_sub(begun_ms).max(0))
}

/// After a failed action the pod rests for a moment.
pub fn rests(case: Case<'_>, part: &mut PodPlan, uid: &str) -> bool {
    let Some(setback) = case.world.memory.setbacks.get(uid).filter(|_| case.rules.hold(Rule::SetbacksRest)) else {
        return false;
    };
    let due_ms = setback.at_ms.saturating_add(setback_wait_ms(setback.failures));
    if case.now.mono_ms >= due_ms {
        return false;
    }
    part.wake_at(due_ms);
    // One failure may be chance; the next one is shown.
    if setback.failures > 1 {
        let text = setback.text.clone();
        match setback.kind {
            SetbackKind::Mount => {
                part.waits.notes.insert("volumes".to_owned(), Waiting::new(WaitReason::FailedMount, text));
            }
            // The pod itself is over. The node's status says it, and an event does.
            SetbackKind::Removal => {}
            SetbackKind::Other => part.waits.pod = Some(Waiting::new(WaitReason::SetupFailed, text)),
        }
    }
    true
}

/// What has ended as a whole stays so meanwhile.
fn rests_as_it_is(pod: PodCase<'_>, part: &mut PodPlan) -> bool {
    let rests = rests(pod.case, part, &pod.wanted.name.uid);
    if rests {
        part.waits.dismissed = ended_as_a_whole(pod, part, None).map(|(dismissal, ..)| dismissal);
    }
    rests
}

/// Whether the pod has run to completion, by its containers, or by an end that was recorded or shown before.
fn finished(pod: PodCase<'_>, stories: &[Story<'_>]) -> bool {
    let mut main = stories.iter().filter(|story| story.member.kind == MemberKind::Main).peekable();
    let init_failed =
        stories.iter().any(|story| story.member.kind == MemberKind::Init && story.failed_for_good(pod.case));
    pod.case.world.has_ended(pod.wanted) && pod.case.rules.hold(Rule::EndsAreFinal)
        || init_failed
        || (main.peek().is_some() && main.all(|story| story.finished(pod.case)))
}

/// Stops the containers together, then the sidecars one by one, then the sandbox. True while anything runs.
pub fn end(
    case: Case<'_>,
    part: &mut PodPlan,
    runs: &[Run<'_>],
    address: &str,
    grace_s: Option<u64>,
    why: StopReason,
) -> bool {
    let members: Vec<&Run> = seen::members(runs).collect();
    if stops::stop_in_turns(case, part, &members, grace_s, address, &why) {
        return true;
    }
    let sandboxes: Vec<&Run> = seen::of(runs, SANDBOX).collect();
    stops::stop(case, part, &sandboxes, None, address, why)
}

/// Containers that the pod no longer has.
fn end_strangers(pod: PodCase<'_>, part: &mut PodPlan) {
    let PodCase { case, wanted, runs, address, .. } = pod;
    let strangers: Vec<&Run> = seen::members(runs).filter(|run| wanted.member(&run.tag.container).is_none()).collect();
    if case.rules.hold(Rule::StrangersEnd) {
        stops::stop(case, part, &strangers, Some(containers::grace_s(wanted)), address, StopReason::Stranger);
        garbage::remove(case, part, &strangers, &StopReason::Stranger.to_string());
    }
}

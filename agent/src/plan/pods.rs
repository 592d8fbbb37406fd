//! One pod: what has to end, then its sandbox, then its containers. PURE.

use super::backoff::setback_wait_ms;
use super::containers::{self, Story};
use super::garbage;
use super::ports::Ports;
use super::round::{Part, StopReason};
use super::rules::Rule;
use super::sandbox::{self, Sandbox};
use super::seen::{self, Run};
use super::stops;
use super::waiting::{WaitReason, Waiting};
use super::world::{Case, PodCase};
use crate::desired::Wanted;
use crate::members::Kind;
use crate::naming::SANDBOX;

pub fn decide<'a>(case: Case<'a>, wanted: &'a Wanted, runs: &'a [Run<'a>], ports: &mut Ports) -> Part {
    let mut part = Part::default();
    if rests(case, &mut part, &wanted.name.uid) {
        return part;
    }
    let pod = PodCase::new(case, wanted, runs);
    let grace_s = Some(containers::grace_s(wanted));
    if wanted.pod.metadata.deletion_timestamp.is_some() && case.rules.hold(Rule::DeletedPodsEnd) {
        end(case, &mut part, runs, pod.address, grace_s, StopReason::PodDeleted);
        return part;
    }
    if let Some(refused) = wanted.refused.clone()
        && case.rules.hold(Rule::RefusedPodsWait)
    {
        part.waits.pod = Some(Waiting::new(WaitReason::UnsupportedField, refused));
        return part;
    }
    let (ephemeral, stories): (Vec<Story>, Vec<Story>) =
        wanted.members().map(|member| containers::story(pod, member)).partition(|story| story.member.kind == Kind::Ephemeral);
    if finished(pod, &stories) && case.rules.hold(Rule::FinishedPodsRest) {
        if !end(case, &mut part, runs, pod.address, grace_s, StopReason::PodFinished) {
            garbage::dead(case, &mut part, runs, None);
        }
        return part;
    }
    let sandbox = sandbox::bring_up(pod, &mut part, ports);
    // While it waits, whatever runs belongs to another sandbox and is being stopped.
    let Sandbox::Up { attempt, .. } = &sandbox else { return part };
    end_strangers(pod, &mut part);
    let held_up: Vec<bool> = stories.iter().map(|story| containers::end_what_has_to(pod, &mut part, story)).collect();
    garbage::dead(case, &mut part, runs, Some(*attempt));
    for (story, held_up) in stories.iter().zip(held_up) {
        if !held_up {
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

/// After a failed action the pod rests for a moment.
pub fn rests(case: Case<'_>, part: &mut Part, uid: &str) -> bool {
    let Some(setback) = case.world.memory.setbacks.get(uid).filter(|_| case.rules.hold(Rule::SetbacksRest)) else { return false };
    let due_ms = setback.at_ms.saturating_add(setback_wait_ms(setback.failures));
    if case.now.mono_ms >= due_ms {
        return false;
    }
    part.wake_at(due_ms);
    // One failure may be chance; the next one is shown.
    if setback.failures > 1 {
        part.waits.pod = Some(Waiting::new(WaitReason::SetupFailed, setback.text.clone()));
    }
    true
}

/// It has run to its end: by what its main containers did, or by what its master has on record.
fn finished(pod: PodCase<'_>, stories: &[Story<'_>]) -> bool {
    let mut main = stories.iter().filter(|story| story.member.kind == Kind::Main).peekable();
    pod.wanted.pod.status.terminal() || (main.peek().is_some() && main.all(|story| story.finished(pod.case)))
}

/// Stops the containers together, then the sandbox. True while anything runs.
pub fn end(case: Case<'_>, part: &mut Part, runs: &[Run<'_>], address: &str, grace_s: Option<u64>, why: StopReason) -> bool {
    let members: Vec<&Run> = seen::members(runs).collect();
    let sandboxes: Vec<&Run> = seen::of(runs, SANDBOX).collect();
    stops::stop(case, part, &members, grace_s, address, why.clone()) || stops::stop(case, part, &sandboxes, None, address, why)
}

/// Containers that the pod no longer has.
fn end_strangers(pod: PodCase<'_>, part: &mut Part) {
    let PodCase { case, wanted, runs, address } = pod;
    let strangers: Vec<&Run> = seen::members(runs).filter(|run| wanted.member(&run.tag.container).is_none()).collect();
    if case.rules.hold(Rule::StrangersEnd) {
        stops::stop(case, part, &strangers, Some(containers::grace_s(wanted)), address, StopReason::Stranger);
        garbage::remove(case, part, &strangers, &StopReason::Stranger.to_string());
    }
}

//! One pod: what has to end, then its sandbox, then its containers. PURE.

use super::backoff::setback_wait_ms;
use super::containers::{self, Story};
use super::ports::Ports;
use super::sandbox::{self, Sandbox};
use super::seen::{self, Run};
use super::{Case, Part, Rule, Waiting, garbage, stops};
use crate::desired::Wanted;
use crate::naming::SANDBOX;

pub fn decide<'a>(case: Case<'a>, wanted: &'a Wanted, runs: &'a [Run<'a>], ports: &mut Ports) -> Part {
    let mut part = Part::default();
    if rests(case, &mut part, &wanted.name.uid) {
        return part;
    }
    let meta = &wanted.pod.metadata;
    if meta.deletion_timestamp.is_some() && case.rules.hold(Rule::DeletedPodsEnd) {
        end(case, &mut part, runs, Some(containers::grace_s(wanted)), "the pod is being deleted");
        return part;
    }
    if let Some(refused) = wanted.refused.clone()
        && case.rules.hold(Rule::RefusedPodsWait)
    {
        part.waits.pod = Some(Waiting::new("UnsupportedField", refused));
        return part;
    }
    let stories: Vec<Story> = (0..wanted.pod.spec.containers.len()).map(|index| containers::story(case, wanted, index, runs)).collect();
    if finished(case, wanted, &stories) && case.rules.hold(Rule::FinishedPodsRest) {
        if !end(case, &mut part, runs, Some(containers::grace_s(wanted)), "the pod has finished") {
            garbage::dead(case, &mut part, runs, None);
        }
        return part;
    }
    let spec = &wanted.pod.spec;
    let ephemeral: Vec<Story> =
        (0..spec.ephemeral_containers.len()).map(|index| containers::ephemeral_story(case, wanted, index, runs)).collect();
    let sandbox = sandbox::bring_up(case, &mut part, wanted, runs, ports);
    // While it waits, whatever runs belongs to another sandbox and is being stopped.
    let Sandbox::Up { attempt, .. } = &sandbox else { return part };
    let ip = seen::of(runs, SANDBOX).find_map(|run| run.seen.ip.clone()).unwrap_or_default();
    end_strangers(case, &mut part, wanted, runs, &ip);
    let held_up: Vec<bool> = stories.iter().map(|story| containers::end_what_has_to(case, &mut part, wanted, story, runs, &ip)).collect();
    garbage::dead(case, &mut part, runs, Some(*attempt));
    for (story, held_up) in stories.iter().zip(held_up) {
        if !held_up {
            containers::start_if_due(case, &mut part, wanted, story, &sandbox, None);
        }
    }
    for story in &ephemeral {
        if !containers::end_what_has_to(case, &mut part, wanted, story, runs, &ip) {
            containers::start_once(case, &mut part, wanted, story, &sandbox, runs);
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
    // Once may be chance; what fails again is told.
    if setback.failures > 1 {
        part.waits.pod = Some(Waiting::new("SetupFailed", setback.text.clone()));
    }
    true
}

/// It has run to its end: by what its containers did, or by what its master has on record.
pub fn finished(case: Case<'_>, wanted: &Wanted, stories: &[Story<'_>]) -> bool {
    wanted.pod.status.terminal() || (!stories.is_empty() && stories.iter().all(|story| story.finished(case)))
}

/// Stops the containers together, then the sandbox. True while anything runs.
pub fn end(case: Case<'_>, part: &mut Part, runs: &[Run<'_>], grace_s: Option<u64>, reason: &str) -> bool {
    let ip = seen::of(runs, SANDBOX).find_map(|run| run.seen.ip.clone()).unwrap_or_default();
    let members: Vec<&Run> = seen::members(runs).collect();
    let sandboxes: Vec<&Run> = seen::of(runs, SANDBOX).collect();
    stops::stop(case, part, &members, grace_s, &ip, reason) || stops::stop(case, part, &sandboxes, None, &ip, reason)
}

/// Containers that the pod no longer has.
fn end_strangers(case: Case<'_>, part: &mut Part, wanted: &Wanted, runs: &[Run<'_>], ip: &str) {
    let spec = &wanted.pod.spec;
    let has = |name: &str| spec.containers.iter().chain(&spec.ephemeral_containers).any(|container| container.name == name);
    let strangers: Vec<&Run> = seen::members(runs).filter(|run| !has(&run.tag.container)).collect();
    if case.rules.hold(Rule::StrangersEnd) {
        stops::stop(case, part, &strangers, Some(containers::grace_s(wanted)), ip, "its pod no longer has it");
        garbage::remove(case, part, &strangers, "its pod no longer has it");
    }
}

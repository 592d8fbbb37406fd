//! One container of a pod: decides whether to keep, replace, restart or leave a container. PURE.

use coracle_api::fields;
use coracle_api::pod::Container;
use serde_json::Value;

use super::rules::Rule;
use super::sandbox::Sandbox;
pub use super::stops::grace_s;
use super::{anew, images, resize, stops};
use crate::facts::backoff::{restart_wait_ms, words};
use crate::facts::checks::hook_of;
use crate::facts::engine::{Check, State};
use crate::facts::hash;
use crate::facts::members::{Member, MemberKind};
use crate::facts::memory::{Death, KILLED_CODE, START_ERROR_CODE, UNKNOWN_CODE};
use crate::facts::round::{ActionKind, Begin, PodPlan, Start, StopReason};
use crate::facts::seen::{self, Run};
use crate::facts::waiting::{WaitReason, Waiting};
use crate::facts::wanted::Wanted;
use crate::facts::world::Dead;
use crate::plan::case::{Case, PodCase};
use crate::spec::container::{self, Instance};
use crate::spec::downward;

/// The newest start of a container, whether the engine still has it or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastRun<'a> {
    Never,
    /// Made and not started.
    HalfMade(&'a str),
    Runs,
    Ended {
        death: Death,
        step: u32,
        /// Whether the create itself failed: such a start does not count as one that ended.
        never_made: Option<Waiting>,
    },
}

/// A container as its pod wants it, together with its last start.
pub struct Story<'a> {
    pub member: Member<'a>,
    pub hash: String,
    pub last: LastRun<'a>,
    pub attempt: Option<u32>,
    /// The attempt of the sandbox that the last start was in.
    pub sandbox: Option<u32>,
    /// The last start was of what is wanted now.
    pub same: bool,
    /// The last start was before all containers of the pod were, or are to be, started anew.
    pub stale: bool,
    /// The master has a record of the end.
    pub recorded: bool,
    pub newest: Option<&'a Run<'a>>,
    /// Its pod.
    pub wanted: &'a Wanted,
}

pub fn story<'a>(pod: PodCase<'a>, member: Member<'a>) -> Story<'a> {
    let PodCase { case, wanted, .. } = pod;
    let mut story = seen_story(pod, member);
    // The restart count never falls below the count in the API, even after containers were removed.
    story.attempt = story.attempt.max(wanted.restarts_told(&member));
    let death = |exit_code: i32| Death::plain(case.now.mono_ms, exit_code);
    if member.kind == MemberKind::Ephemeral {
        // The master may know what the engine has forgotten: it was started, and never is again.
        if story.last == LastRun::Never && wanted.started_before(&member).is_some() {
            story.last = LastRun::Ended { death: death(UNKNOWN_CODE), step: 0, never_made: None };
        }
    } else if let Some(before) = on_record(&story, case) {
        // The recorded end is final, whatever edits the pod gets and whatever the engine shows: the master accepts no
        // other state.
        let code = before["state"]["terminated"]["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
        let death = death(code.unwrap_or(UNKNOWN_CODE));
        story.last = LastRun::Ended { death, step: 0, never_made: None };
        (story.same, story.recorded) = (true, true);
    }
    story
}

/// The recorded end of a container, if the record is still valid. A restart since then, in a new sandbox or with the
/// whole pod, makes the record stale: the master has yet to hear about the restart.
fn on_record<'a>(story: &Story<'a>, case: Case<'_>) -> Option<&'a Value> {
    // Of such a pod the master takes any word: in a new sandbox it is initialized again, as by a kubelet.
    if story.member.kind == MemberKind::Init && story.wanted.restarts_all() {
        return None;
    }
    let before =
        story.wanted.ended_before(&story.member).filter(|_| !story.stale && case.rules.hold(Rule::RecordedEndsStay))?;
    let outlived =
        story.newest.is_some_and(|run| before["restartCount"].as_u64().unwrap_or(0) < u64::from(run.tag.attempt));
    let may_start_anew = story.member.kind == MemberKind::Init || story.wanted.restarts_all();
    (!outlived || !may_start_anew).then_some(before)
}

/// As far as the engine and this agent's memory tell it.
fn seen_story<'a>(pod: PodCase<'a>, member: Member<'a>) -> Story<'a> {
    let PodCase { case, wanted, runs, .. } = pod;
    let name = &member.spec.name;
    let hash = wanted.hash_of(&member);
    let newest = seen::of(runs, name).next();
    let mut story = Story {
        member,
        hash,
        last: LastRun::Never,
        attempt: None,
        sandbox: None,
        same: true,
        stale: false,
        recorded: false,
        newest,
        wanted,
    };
    let lost = case.world.memory.lost.get(&(wanted.name.uid.clone(), name.clone()));
    let renewal = pod.renewal.number;
    // An ephemeral container starts once, whatever becomes of its pod.
    let sandbox_min = if member.kind == MemberKind::Ephemeral { 0 } else { pod.sandbox_min() };
    if let Some(lost) = lost.filter(|lost| newest.is_none_or(|run| lost.attempt > run.tag.attempt)) {
        let exit_code = lost.exit_code.unwrap_or(UNKNOWN_CODE);
        story.stale = lost.renewal < renewal && member.kind != MemberKind::Ephemeral;
        let death = Death::plain(lost.at_ms, exit_code);
        let reason =
            if lost.misconfigured { WaitReason::CreateContainerConfigError } else { WaitReason::CreateContainerError };
        let never_made = lost.exit_code.is_none().then(|| Waiting::new(reason, lost.text.clone()));
        // What was never tried is tried again after the first wait, and counts as no start.
        let step = if lost.misconfigured { 1 } else { lost.step };
        // And what was never made leaves its number to the next try.
        story.attempt = if never_made.is_some() { lost.attempt.checked_sub(1) } else { Some(lost.attempt) };
        story.last = LastRun::Ended { death, step, never_made };
        let is_newer = lost.sandbox.is_none_or(|sandbox| sandbox >= sandbox_min);
        (story.sandbox, story.same) = (lost.sandbox, hash::same(&lost.hash, &story.hash) && is_newer);
        return story;
    }
    let Some(run) = newest else { return story };
    story.stale = run.tag.renewal < renewal && member.kind != MemberKind::Ephemeral;
    story.last = match run.seen.state {
        State::Running { .. } => LastRun::Runs,
        State::Created { refused: None } => LastRun::HalfMade(&run.seen.id),
        State::Created { refused: Some(_) } | State::Exited { .. } => {
            let exit_code = match run.seen.state {
                State::Exited { exit_code, .. } => exit_code,
                _ => START_ERROR_CODE,
            };
            let death = case.world.memory.lives.get(&run.seen.id).and_then(|life| life.death);
            let death = death.unwrap_or(Death::plain(case.now.mono_ms, exit_code));
            LastRun::Ended { death, step: run.tag.step, never_made: None }
        }
    };
    (story.attempt, story.sandbox) = (Some(run.restarts()), Some(run.tag.sandbox));
    // A container that the engine cannot resize is replaced instead.
    let resizable = run.seen.limits.is_some() || run.tag.hash == story.hash;
    let is_newer = run.tag.sandbox >= sandbox_min;
    let same = hash::same(&run.tag.hash, &story.hash)
        && is_newer
        && resizable
        && !resize::restarts(pod.wanted, &story.member, run);
    let replaced = matches!(&story.last, LastRun::Ended { death, .. } if death.edited);
    story.same = same && !replaced || !case.rules.hold(Rule::EditsReplaceTheContainer);
    story
}

impl Story<'_> {
    fn starts_again(&self, case: Case<'_>, exit_code: i32) -> bool {
        let rule =
            if self.member.kind == MemberKind::Ephemeral { Rule::EphemeralsStartOnce } else { Rule::PolicyDecides };
        self.wanted.starts_again(&self.member, exit_code) || !case.rules.hold(rule)
    }

    /// The container has ended, and the restart policy does not start a new run.
    pub fn finished(&self, case: Case<'_>) -> bool {
        match &self.last {
            LastRun::Ended { death, never_made: None, .. } if self.same && !self.stale => {
                !self.starts_again(case, death.exit_code)
            }
            _ => false,
        }
    }

    /// An init container that has succeeded in this sandbox, or whose end is on record.
    pub fn done_in(&self, sandbox: u32) -> bool {
        let succeeded = matches!(&self.last, LastRun::Ended { death, never_made: None, .. } if death.exit_code == 0);
        succeeded && !self.stale && (self.recorded || (self.same && self.sandbox == Some(sandbox)))
    }

    /// The container has failed, and the restart policy does not start a new run.
    pub fn failed_for_good(&self, case: Case<'_>) -> bool {
        self.finished(case) && matches!(&self.last, LastRun::Ended { death, .. } if death.exit_code != 0)
    }
}

/// Stops instances of this container that must end. True: such an instance still runs, and no new instance may start.
pub fn end_what_has_to(pod: PodCase<'_>, part: &mut PodPlan, story: &Story<'_>) -> bool {
    let PodCase { case, wanted, runs, address, .. } = pod;
    let mut alive = false;
    for (index, run) in seen::of(runs, &story.member.spec.name).enumerate() {
        let why = if run.seen.beside.undead {
            Some(StopReason::StartedAgain)
        } else if index > 0 {
            Some(StopReason::Replaced)
        } else if !story.same {
            Some(StopReason::Edited)
        } else if let Some(sick) = sick(pod, story, run).filter(|_| case.rules.hold(Rule::SickIsStopped)) {
            Some(sick)
        } else if story.finished(case) {
            Some(StopReason::EndedForGood)
        } else {
            // A stop once begun is ended, whatever its reason was and whether it still holds.
            case.world.memory.stops.contains_key(&run.seen.id).then_some(StopReason::UnderWay)
        };
        if let Some(why) = why {
            let grace_s = probe_grace_s(story.member.spec, &why).unwrap_or_else(|| grace_s(wanted));
            alive |= stops::stop(case, part, &[run], Some(grace_s), address, why);
        }
    }
    alive && case.rules.hold(Rule::RemovalsFirst)
}

/// A probe may set its own grace period for the container that the probe ends.
fn probe_grace_s(spec: &Container, why: &StopReason) -> Option<u64> {
    let StopReason::Unhealthy { probe, .. } = why else { return None };
    u64::try_from(probe.of(spec)?.termination_grace_period_seconds?).ok()
}

/// The reason to stop a container whose postStart hook or probe has failed.
fn sick(pod: PodCase<'_>, story: &Story<'_>, run: &Run<'_>) -> Option<StopReason> {
    let world = pod.case.world;
    // A hook that was still waited for was given up for it.
    if let Some(Dead { probe, output }) = world.verdicts.get(&run.seen.id).and_then(|verdict| verdict.dead.clone()) {
        let restarts = pod.wanted.starts_again(&story.member, KILLED_CODE);
        return Some(StopReason::Unhealthy { probe, output, restarts });
    }
    world.memory.hooks_failed.contains_key(&run.seen.id).then_some(StopReason::PostStartFailed)
}

/// Starts it if it should run and does not.
pub fn start_if_due(pod: PodCase<'_>, part: &mut PodPlan, story: &Story<'_>, sandbox: &Sandbox, target: Option<&str>) {
    let Sandbox::Up { attempt: sandbox_attempt, address } = sandbox else { return };
    let PodCase { case, wanted, .. } = pod;
    let spec = story.member.spec;
    let mut step = 0;
    let mut reason = "it is wanted".to_owned();
    match &story.last {
        LastRun::Runs if case.rules.hold(Rule::RemovalsFirst) || story.same => return,
        LastRun::Runs | LastRun::Never => {}
        LastRun::HalfMade(_) if !case.rules.hold(Rule::HalfMadeIsBegun) => return,
        LastRun::HalfMade(id) => {
            let run = story.newest.expect("what was half made is there");
            if story.same && !story.stale && run.tag.sandbox == *sandbox_attempt {
                let begin =
                    Begin { id: (*id).to_owned(), container: spec.name.clone(), post_start: post_start(spec, address) };
                part.act(ActionKind::Begin(Box::new(begin)), "it was made and not started");
                return;
            }
            part.act(
                ActionKind::Remove { id: (*id).to_owned(), container: spec.name.clone() },
                "it was made for what is no longer wanted",
            );
            reason = "it was edited before it started".to_owned();
        }
        LastRun::Ended { .. } if story.stale => {
            step = anew::step(story);
            reason = "all containers of its pod start anew".to_owned();
        }
        LastRun::Ended { .. } if !story.same => reason = pod.why_anew(story.sandbox).to_string(),
        LastRun::Ended { .. }
            if story.member.kind == MemberKind::Init && story.sandbox.is_some_and(|of| of != *sandbox_attempt) =>
        {
            reason = "its pod has a new sandbox".to_owned();
        }
        LastRun::Ended { death, never_made: None, .. } if !story.starts_again(case, death.exit_code) => return,
        LastRun::Ended { death, step: last_step, never_made } => {
            let wait_ms = if death.ran_fine { 0 } else { restart_wait_ms(*last_step) };
            let (rested, counts) = rested(pod, story, death, wait_ms);
            let due_ms = if rested { death.at_ms } else { death.at_ms.saturating_add(wait_ms) };
            if case.now.mono_ms < due_ms && case.rules.hold(Rule::RestartsBackOff) {
                part.wake_at(due_ms);
                let waiting = match never_made {
                    Some(waiting) => waiting.clone(),
                    None => crash_loop(wanted, spec, wait_ms),
                };
                part.waits.containers.insert(spec.name.clone(), waiting);
                return;
            }
            (step, reason) = after_end(death, *last_step, never_made.as_ref(), counts);
        }
    }
    if address.is_empty() && downward::needs_address(spec) {
        // Its sandbox comes up in this round, and the next look shows where.
        part.waits.containers.insert(spec.name.clone(), Waiting::creating());
        return;
    }
    let attempt = story.attempt.map_or(0, |attempt| attempt.saturating_add(1));
    let processes_of = target.map(str::to_owned);
    let instance = Instance {
        attempt,
        sandbox: *sandbox_attempt,
        step,
        renewal: pod.renewal.number,
        hash: story.hash.clone(),
        processes_of,
        address: address.clone(),
    };
    match prepare(pod, part, story, instance, address) {
        Ok(start) => part.act(ActionKind::Start(Box::new(start)), reason),
        Err(waiting) => drop(part.waits.containers.insert(spec.name.clone(), waiting)),
    }
}

/// The step of the start after an end, and why there is one. `counts`: the end is one more in a row.
fn after_end(death: &Death, last_step: u32, never_made: Option<&Waiting>, counts: bool) -> (u32, String) {
    let never_tried = never_made.is_some_and(|waiting| waiting.reason == WaitReason::CreateContainerConfigError);
    let step = match (never_tried, death.ran_fine) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => last_step.saturating_add(u32::from(counts)),
    };
    let reason = match never_made {
        Some(_) => "it could not be made before".to_owned(),
        None => format!("it ended with code {}", death.exit_code),
    };
    (step, reason)
}

/// Whether one that a probe found dead need not wait, and whether its start counts as one more in a row. A kubelet
/// kills and starts it in one go and takes the end before for its last one: the first time there is none, and later it
/// may be long ago.
fn rested(pod: PodCase<'_>, story: &Story<'_>, death: &Death, wait_ms: i64) -> (bool, bool) {
    if !death.sick {
        return (false, true);
    }
    let previous = seen::of(pod.runs, &story.member.spec.name).nth(1);
    let ended = previous.and_then(|run| pod.case.world.memory.lives.get(&run.seen.id)).and_then(|life| life.death);
    (ended.is_none_or(|before| death.at_ms.saturating_sub(before.at_ms) >= wait_ms), ended.is_some())
}

/// An ephemeral container: once, as soon as the sandbox is up and the container runs whose processes it is to see.
pub fn start_once(pod: PodCase<'_>, part: &mut PodPlan, story: &Story<'_>, sandbox: &Sandbox) {
    let PodCase { case, wanted, runs, .. } = pod;
    let spec = story.member.spec;
    let begun = matches!(story.last, LastRun::Runs) || story.finished(case);
    let target = match spec.target_container_name.as_str() {
        "" => Ok(None),
        name => match seen::of(runs, name).find(|run| run.seen.lives()) {
            Some(run) => Ok(Some(run.seen.name.as_str())),
            None => {
                let text = format!("container {name}, whose processes it is to see, does not run");
                Err(Waiting::new(WaitReason::ContainerCreating, text))
            }
        },
    };
    match (target, fields::refused_ephemeral(&wanted.document, &spec.name)) {
        _ if begun => {}
        (_, Some(refused)) if case.rules.hold(Rule::RefusedPodsWait) => {
            part.waits.containers.insert(spec.name.clone(), Waiting::new(WaitReason::UnsupportedField, refused));
        }
        (Ok(target), _) => start_if_due(pod, part, story, sandbox, target),
        (Err(waiting), _) => drop(part.waits.containers.insert(spec.name.clone(), waiting)),
    }
}

fn prepare(
    pod: PodCase<'_>,
    part: &mut PodPlan,
    story: &Story<'_>,
    instance: Instance,
    address: &str,
) -> Result<Start, Waiting> {
    let PodCase { case, wanted, .. } = pod;
    let (attempt, step, spec) = (instance.attempt, instance.step, story.member.spec);
    let ready = images::ready(case, part, wanted, spec, attempt)?;
    let mut config = container::member_config(&case.world.node, case.desired, wanted, spec, &ready.image, instance)?;
    if ready.pinned {
        config.image.clone_from(&ready.image.id);
    }
    Ok(Start {
        pod: wanted.name.clone(),
        container: spec.name.clone(),
        attempt,
        step,
        config,
        post_start: post_start(spec, address),
        present: !ready.pulled,
    })
}

/// With an open host where the address is not known yet: the sandbox comes up in the same round.
fn post_start(spec: &Container, address: &str) -> Option<Check> {
    let action = spec.lifecycle.as_ref()?.post_start.as_ref()?;
    hook_of(action, spec).map(|check| check.at(address))
}

pub fn crash_loop(wanted: &Wanted, spec: &Container, wait_ms: i64) -> Waiting {
    let crate::facts::naming::PodName { namespace, name, uid, .. } = &wanted.name;
    let text =
        format!("back-off {} restarting failed container={} pod={name}_{namespace}({uid})", words(wait_ms), spec.name);
    Waiting::new(WaitReason::CrashLoopBackOff, text)
}

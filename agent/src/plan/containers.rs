//! One container of a pod: keep it, replace it, start it again, or let it rest. PURE.

use coracle_api::pod::Container;

use super::backoff::{restart_wait_ms, words};
use super::images;
use super::memory::{Death, START_ERROR_CODE, UNKNOWN_CODE};
use super::sandbox::Sandbox;
use super::seen::{self, Run};
use super::{Begin, Case, Part, Rule, Start, Waiting, What, checks, stops};
use crate::container;
use crate::desired::Wanted;
use crate::runtime::{Check, State};
use coracle_api::fields;

/// The newest start of a container, whether the engine still has it or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Last<'a> {
    Never,
    /// Made and not started.
    HalfMade(&'a str),
    Runs,
    Ended {
        death: Death,
        step: u32,
        /// Whether the create itself failed: such a start does not count as one that ended.
        never_made: Option<String>,
    },
}

/// What is known of one container: how it is wanted, and what came of it last.
pub struct Story<'a> {
    pub spec: &'a Container,
    pub hash: String,
    pub last: Last<'a>,
    pub attempt: Option<u32>,
    /// The last start was of what is wanted now.
    pub same: bool,
    pub newest: Option<&'a Run<'a>>,
    pub again: Again<'a>,
}

/// Whether a container that ended starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again<'a> {
    /// As its pod's restart policy has it.
    Policy(&'a str),
    /// Never: it is an ephemeral one.
    Once,
}

/// In the place of the hash: what is put into a running pod is never edited.
pub const EPHEMERAL_HASH: &str = "ephemeral";

pub fn story<'a>(case: Case<'a>, wanted: &'a Wanted, index: usize, runs: &'a [Run<'a>]) -> Story<'a> {
    let spec = &wanted.pod.spec.containers[index];
    // What its pod shares is part of it: an edit of that replaces a container, too.
    let hash = wanted.hash_of(index).unwrap_or_default();
    let mut story = told(case, wanted, spec, hash, Again::Policy(&wanted.pod.spec.restart_policy), runs);
    // It stays so, whatever is edited, or has become of it here: its master takes no other word of it.
    if let Some(before) = wanted.ended_before(&spec.name) {
        let code = before["state"]["terminated"]["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
        let death = Death { at_ms: case.now.mono_ms, ran_fine: false, exit_code: code.unwrap_or(UNKNOWN_CODE) };
        (story.last, story.same) = (Last::Ended { death, step: 0, never_made: None }, true);
    }
    story
}

/// Of an ephemeral container. What the engine has forgotten, the master may know: it was started, and never is again.
pub fn ephemeral_story<'a>(case: Case<'a>, wanted: &'a Wanted, index: usize, runs: &'a [Run<'a>]) -> Story<'a> {
    let spec = &wanted.pod.spec.ephemeral_containers[index];
    let mut story = told(case, wanted, spec, EPHEMERAL_HASH.to_owned(), Again::Once, runs);
    if story.last == Last::Never && wanted.started_before(&spec.name).is_some() {
        let death = Death { at_ms: case.now.mono_ms, ran_fine: false, exit_code: UNKNOWN_CODE };
        story.last = Last::Ended { death, step: 0, never_made: None };
    }
    story
}

fn told<'a>(case: Case<'a>, wanted: &Wanted, spec: &'a Container, hash: String, again: Again<'a>, runs: &'a [Run<'a>]) -> Story<'a> {
    let newest = seen::of(runs, &spec.name).next();
    let lost = case.world.memory.lost.get(&(wanted.name.uid.clone(), spec.name.clone()));
    if let Some(lost) = lost.filter(|lost| newest.is_none_or(|run| lost.attempt > run.tag.attempt)) {
        let death = Death { at_ms: lost.at_ms, ran_fine: false, exit_code: lost.exit_code.unwrap_or(UNKNOWN_CODE) };
        let never_made = lost.exit_code.is_none().then(|| lost.text.clone());
        let same = lost.hash == hash;
        return Story {
            spec,
            hash,
            last: Last::Ended { death, step: lost.step, never_made },
            attempt: Some(lost.attempt),
            same,
            newest,
            again,
        };
    }
    let Some(run) = newest else {
        return Story { spec, hash, last: Last::Never, attempt: None, same: true, newest, again };
    };
    let last = match run.seen.state {
        State::Running { .. } => Last::Runs,
        State::Created { refused: None } => Last::HalfMade(&run.seen.id),
        State::Created { refused: Some(_) } | State::Exited { .. } => {
            let exit_code = match run.seen.state {
                State::Exited { exit_code, .. } => exit_code,
                _ => START_ERROR_CODE,
            };
            let death = case.world.memory.lives.get(&run.seen.id).and_then(|life| life.death);
            let death = death.unwrap_or(Death { at_ms: case.now.mono_ms, ran_fine: false, exit_code });
            Last::Ended { death, step: run.tag.step, never_made: None }
        }
    };
    let same = run.tag.hash == hash || !case.rules.hold(Rule::EditsReplaceTheContainer);
    Story { spec, hash, last, attempt: Some(run.tag.attempt), same, newest, again }
}

impl Story<'_> {
    /// Ended, and its pod's policy leaves it so.
    pub fn finished(&self, case: Case<'_>) -> bool {
        match &self.last {
            Last::Ended { death, never_made: None, .. } if self.same => !self.again.holds(case, death.exit_code),
            _ => false,
        }
    }
}

impl Again<'_> {
    fn holds(self, case: Case<'_>, exit_code: i32) -> bool {
        let (rule, again) = match self {
            Again::Policy("Never") => (Rule::PolicyDecides, false),
            Again::Policy("OnFailure") => (Rule::PolicyDecides, exit_code != 0),
            Again::Policy(_) => (Rule::PolicyDecides, true),
            Again::Once => (Rule::EphemeralsStartOnce, false),
        };
        again || !case.rules.hold(rule)
    }
}

/// Ends what has to end of this container. True: an instance still runs that has to go, nothing new may start.
pub fn end_what_has_to(case: Case<'_>, part: &mut Part, wanted: &Wanted, story: &Story<'_>, runs: &[Run<'_>], ip: &str) -> bool {
    let grace_s = grace_s(wanted);
    let stays_dead = wanted.pod.spec.restart_policy == "Never";
    let mut alive = false;
    for (index, run) in seen::of(runs, &story.spec.name).enumerate() {
        let id = &run.seen.id;
        let verdict = case.world.verdicts.get(id);
        let sick = case.world.memory.hooks_failed.get(id).map(|_| stops::HOOK_FAILED.to_owned());
        let dead = verdict.and_then(|verdict| verdict.dead.as_ref());
        let sick = sick.or_else(|| dead.map(|text| format!("{}{text}", if stays_dead { stops::SICK_FOR_GOOD } else { stops::SICK })));
        let sick = sick.filter(|_| case.rules.hold(Rule::SickIsStopped));
        let reason = if index > 0 {
            Some("there is a newer one".to_owned())
        } else if !story.same {
            Some("it was edited".to_owned())
        } else if let Some(sick) = sick {
            Some(sick)
        } else if story.finished(case) {
            Some("it has ended for good before".to_owned())
        } else {
            // A stop once begun is ended, whatever its reason was and whether it still holds.
            case.world.memory.stops.contains_key(id).then(|| "it is being stopped".to_owned())
        };
        if let Some(reason) = reason {
            alive |= stops::stop(case, part, &[run], Some(grace_s), ip, &reason);
        }
    }
    alive && case.rules.hold(Rule::RemovalsFirst)
}

/// Starts it if it should run and does not.
pub fn start_if_due(case: Case<'_>, part: &mut Part, wanted: &Wanted, story: &Story<'_>, sandbox: &Sandbox, target: Option<&str>) {
    let Sandbox::Up { attempt: sandbox_attempt, ip } = sandbox else { return };
    let spec = story.spec;
    let mut step = 0;
    let mut reason = "it is wanted".to_owned();
    match &story.last {
        Last::Runs if case.rules.hold(Rule::RemovalsFirst) || story.same => return,
        Last::Runs | Last::Never => {}
        Last::HalfMade(_) if !case.rules.hold(Rule::HalfMadeIsBegun) => return,
        Last::HalfMade(id) => {
            let run = story.newest.expect("what was half made is there");
            if story.same && run.tag.sandbox == *sandbox_attempt {
                let begin = Begin { id: (*id).to_owned(), container: spec.name.clone(), post_start: post_start(spec, ip) };
                part.act(What::Begin(Box::new(begin)), "it was made and not started");
                return;
            }
            part.act(What::Remove { id: (*id).to_owned(), container: spec.name.clone() }, "it was made for what is no longer wanted");
            reason = "it was edited before it started".to_owned();
        }
        Last::Ended { .. } if !story.same => reason = "it was edited".to_owned(),
        Last::Ended { death, never_made, .. } if never_made.is_none() && !story.again.holds(case, death.exit_code) => return,
        Last::Ended { death, step: last_step, never_made } => {
            let wait_ms = if death.ran_fine { 0 } else { restart_wait_ms(*last_step) };
            let due_ms = death.at_ms.saturating_add(wait_ms);
            if case.now.mono_ms < due_ms && case.rules.hold(Rule::RestartsBackOff) {
                part.wake_at(due_ms);
                let waiting = match never_made {
                    Some(text) => Waiting::new("CreateContainerError", text.clone()),
                    None => crash_loop(wanted, spec, wait_ms),
                };
                part.waits.containers.insert(spec.name.clone(), waiting);
                return;
            }
            step = if death.ran_fine { 1 } else { last_step.saturating_add(1) };
            reason = match never_made {
                Some(_) => "it could not be made before".to_owned(),
                None => format!("it ended with code {}", death.exit_code),
            };
        }
    }
    let attempt = story.attempt.map_or(0, |attempt| attempt.saturating_add(1));
    let place =
        container::Place { attempt, sandbox: *sandbox_attempt, step, hash: story.hash.clone(), processes_of: target.map(str::to_owned) };
    match prepare(case, part, wanted, story, place) {
        Ok((config, pulled)) => {
            let post_start = post_start(spec, ip);
            let start = Start { pod: wanted.name.clone(), container: spec.name.clone(), attempt, step, config, post_start, pulled };
            part.act(What::Start(Box::new(start)), reason);
        }
        Err(waiting) => {
            part.waits.containers.insert(spec.name.clone(), waiting);
        }
    }
}

/// An ephemeral container: once, as soon as the sandbox is up and the container runs whose processes it is to see.
pub fn start_once(case: Case<'_>, part: &mut Part, wanted: &Wanted, story: &Story<'_>, sandbox: &Sandbox, runs: &[Run<'_>]) {
    let spec = story.spec;
    let begun = matches!(story.last, Last::Runs) || story.finished(case);
    let target = match spec.target_container_name.as_str() {
        "" => Ok(None),
        name => match seen::of(runs, name).find(|run| run.seen.runs()) {
            Some(run) => Ok(Some(run.seen.name.as_str())),
            None => Err(Waiting::new(&images::creating().reason, format!("container {name}, whose processes it is to see, does not run"))),
        },
    };
    match (target, fields::refused_ephemeral(&wanted.document, &spec.name)) {
        _ if begun => {}
        (_, Some(refused)) if case.rules.hold(Rule::RefusedPodsWait) => {
            part.waits.containers.insert(spec.name.clone(), Waiting::new("UnsupportedField", refused));
        }
        (Ok(target), _) => start_if_due(case, part, wanted, story, sandbox, target),
        (Err(waiting), _) => drop(part.waits.containers.insert(spec.name.clone(), waiting)),
    }
}

fn prepare(
    case: Case<'_>,
    part: &mut Part,
    wanted: &Wanted,
    story: &Story<'_>,
    place: container::Place,
) -> Result<(crate::runtime::ContainerConfig, bool), Waiting> {
    let ready = images::ready(case, part, wanted, story.spec, place.attempt)?;
    let config = container::member_config(case.world, &case.desired.services, wanted, story.spec, &ready.image, place)?;
    Ok((config, ready.pulled))
}

fn post_start(spec: &Container, ip: &str) -> Option<Check> {
    let action = spec.lifecycle.as_ref()?.post_start.as_ref()?;
    checks::check_of(action, spec).map(|check| stops::at_pod(check, ip))
}

fn crash_loop(wanted: &Wanted, spec: &Container, wait_ms: i64) -> Waiting {
    let crate::naming::PodName { namespace, name, uid, .. } = &wanted.name;
    let text = format!("back-off {} restarting failed container={} pod={name}_{namespace}({uid})", words(wait_ms), spec.name);
    Waiting::new("CrashLoopBackOff", text)
}

/// How long the containers of a pod have to end.
pub fn grace_s(wanted: &Wanted) -> u64 {
    let meta = &wanted.pod.metadata;
    let asked = meta.deletion_timestamp.and(meta.deletion_grace_period_seconds);
    let grace = asked.or(wanted.pod.spec.termination_grace_period_seconds).unwrap_or(container::GRACE_S_DEFAULT);
    u64::try_from(grace).unwrap_or(0)
}

//! The problems of one container: it fails, waits for its image, cannot be made, or its probes fail. PURE.

use coracle_keeper::ended;
use coracle_keeper::problem::Problem;
use serde_json::Value;

use super::PodCase;
use super::pod::{called, end_words};
use crate::facts::backoff::RAN_FINE_MS;
use crate::facts::engine::State;
use crate::facts::members::{Member, MemberKind};
use crate::facts::memory::PullState;
use crate::facts::recorded::status_of;
use crate::facts::seen::{self, Run};

/// A container that has failed so often in a row fails again and again, also while it runs.
const FAILURES_IN_A_ROW: u32 = 2;

/// The containers of a pod.
#[derive(Default)]
pub(super) struct Containers {
    pub problems: Vec<Problem>,
    /// What the first container that is about to start waits for.
    pub starting: Option<String>,
}

/// The end of a container that failed for good.
pub(super) struct Failure {
    pub name: String,
    pub words: String,
    pub since: Option<String>,
}

pub(super) fn problems(case: &PodCase<'_>) -> Containers {
    let mut all = Containers::default();
    for member in case.wanted.members().filter(|member| member.kind != MemberKind::Ephemeral) {
        let Some(status) = status_of(case.status, &member) else { continue };
        let one = OneContainer { case, member, status, newest: seen::of(case.runs, &member.spec.name).next() };
        match one.judge() {
            Judgement::Well => {}
            Judgement::Starting(what) => drop(all.starting.get_or_insert(what)),
            Judgement::Bad(problem) => all.problems.push(*problem),
        }
    }
    all
}

/// Of a pod that has failed: the first container that did.
pub(super) fn first_failure(case: &PodCase<'_>) -> Option<Failure> {
    let mut failed = case.wanted.members().filter_map(|member| {
        let terminated = &status_of(case.status, &member)?["state"]["terminated"];
        let words = format!("{}: {}", called(member.kind, &member.spec.name), end_words(case, terminated));
        let is_failed = terminated.is_object() && ended::failed(terminated);
        is_failed.then(|| Failure { name: member.spec.name.clone(), words, since: finished(terminated) })
    });
    failed.next()
}

/// When a container that failed before has run long enough to be well.
pub(super) fn well_ms(run: &Run<'_>) -> Option<i64> {
    match run.seen.state {
        State::Running { started_ms } if run.tag.step > 0 && !run.tag.is_sandbox() => {
            Some(started_ms.saturating_add(RAN_FINE_MS))
        }
        _ => None,
    }
}

fn finished(terminated: &Value) -> Option<String> {
    terminated["finishedAt"].as_str().map(str::to_owned)
}

enum Judgement {
    Well,
    Starting(String),
    Bad(Box<Problem>),
}

impl From<Problem> for Judgement {
    fn from(problem: Problem) -> Judgement {
        Judgement::Bad(Box::new(problem))
    }
}

struct OneContainer<'a> {
    case: &'a PodCase<'a>,
    member: Member<'a>,
    status: &'a Value,
    newest: Option<&'a Run<'a>>,
}

impl OneContainer<'_> {
    fn name(&self) -> String {
        called(self.member.kind, &self.member.spec.name)
    }

    fn judge(&self) -> Judgement {
        let state = &self.status["state"];
        if state["waiting"].is_object() {
            return self.waits(&state["waiting"]);
        }
        let terminated = &state["terminated"];
        if terminated.is_object() {
            return if ended::failed(terminated) { self.ended_for_good(terminated).into() } else { Judgement::Well };
        }
        self.runs()
    }

    fn waits(&self, waiting: &Value) -> Judgement {
        let text = |field: &str| waiting[field].as_str().unwrap_or_default();
        let (reason, message) = (text("reason"), text("message"));
        let problem = |reason: &str, what: String, why: &str, advice: String| -> Judgement {
            Problem { why: why.to_owned(), advice, ..self.case.problem(reason, what) }.into()
        };
        let (name, image) = (self.name(), &self.member.spec.image);
        match reason {
            "CrashLoopBackOff" => self.fails().into(),
            "ErrImagePull" | "ImagePullBackOff" => {
                let back_off = format!("Back-off pulling image \"{image}\": ErrImagePull: ");
                let why = message.strip_prefix(&back_off).unwrap_or(message);
                let what = format!("{name} waits for its image {image} from {}", registry(image));
                problem("ImageMissing", what, why, image_advice(image))
            }
            "ErrImageNeverPull" | "InvalidImageName" => {
                problem("ImageMissing", format!("{name} has no image {image}"), message, self.case.edit())
            }
            "ContainerCreating" | "PodInitializing" | "" => self.starts(),
            _ => {
                let why = if message.is_empty() { reason } else { message };
                problem("ContainerNotMade", format!("{name} cannot be started"), why, self.case.edit())
            }
        }
    }

    /// The container is about to start, for the first time or again.
    fn starts(&self) -> Judgement {
        let before = &self.status["lastState"]["terminated"];
        if before.is_object() && ended::failed(before) {
            return self.fails().into();
        }
        let place = (self.case.wanted.name.uid.clone(), self.member.spec.name.clone());
        let pull = self.case.shown.world.memory.pulls.get(&place);
        if pull.is_some_and(|pull| matches!(pull.state, PullState::InFlight { .. })) {
            let image = &self.member.spec.image;
            let what = format!("{} waits for its image {image}, which comes from {}", self.name(), registry(image));
            return self.case.problem("ImagePulling", what).into();
        }
        Judgement::Starting(format!("{} is about to start", self.name()))
    }

    /// The container ends again and again.
    fn fails(&self) -> Problem {
        let before = &self.status["lastState"]["terminated"];
        let again = match self.status["restartCount"].as_u64() {
            Some(0) | None => String::new(),
            Some(1) => ", 1 restart so far".to_owned(),
            Some(count) => format!(", {count} restarts so far"),
        };
        let runs = if self.status["state"]["running"].is_object() { " and runs once more" } else { "" };
        let verb = if ended::failed(before) { "fails" } else { "ends" };
        let what = format!("{} {verb} again and again{runs}{again}", self.name());
        let problem = self.case.problem("ContainerFailed", what);
        // The engine said all of a container that it did not start: its log is empty.
        let advice = match before["reason"].as_str() {
            Some("StartError") => self.case.edit(),
            _ => self.case.logs(&self.member.spec.name, true),
        };
        Problem {
            why: end_words(self.case, before),
            advice,
            since: finished(before).or(problem.since.clone()),
            ..problem
        }
    }

    fn ended_for_good(&self, terminated: &Value) -> Problem {
        let problem = self.case.problem("ContainerFailed", format!("{} has failed", self.name()));
        let (why, advice) = (end_words(self.case, terminated), self.case.logs(&self.member.spec.name, false));
        Problem { why, advice, since: finished(terminated).or(problem.since.clone()), ..problem }
    }

    fn runs(&self) -> Judgement {
        let (name, spec) = (self.name(), self.member.spec);
        if self.member.kind == MemberKind::Init {
            return Judgement::Starting(format!("{name} runs, and the containers start after it"));
        }
        let verdict = self.newest.and_then(|run| self.case.shown.world.verdicts.get(&run.seen.id));
        let logs = || self.case.logs(&spec.name, false);
        let step = self.newest.filter(|run| self.is_young(run)).map_or(0, |run| run.tag.step);
        if step >= FAILURES_IN_A_ROW {
            return self.fails().into();
        }
        if let Some(dead) = verdict.and_then(|verdict| verdict.dead.as_ref()) {
            let what = format!("the {} probe of {name} fails", dead.probe.name().to_lowercase());
            return Problem { why: dead.output.clone(), advice: logs(), ..self.case.problem("ProbeFails", what) }
                .into();
        }
        if self.status["started"] != true && spec.startup_probe.is_some() {
            let what = format!("the startup probe of {name} has not passed yet");
            return Problem { advice: logs(), ..self.case.problem("ProbeFails", what) }.into();
        }
        if self.status["ready"] != true && spec.readiness_probe.is_some() {
            let words = verdict.and_then(|verdict| verdict.unready.clone());
            let verb = if words.is_some() { "fails" } else { "has not passed yet" };
            let what = format!("the readiness probe of {name} {verb}");
            let why = words.unwrap_or_default();
            return Problem { why, advice: logs(), ..self.case.problem("ProbeFails", what) }.into();
        }
        if step > 0 { self.ended_once() } else { Judgement::Well }
    }

    /// A container that was killed for memory or by its probe, and runs again. A power cut ends containers, too, and is
    /// not told.
    fn ended_once(&self) -> Judgement {
        let before = &self.status["lastState"]["terminated"];
        let id = before["containerID"].as_str().and_then(|id| id.strip_prefix("docker://")).unwrap_or_default();
        if before["reason"] != "OOMKilled" && !self.case.shown.world.memory.found_dead.contains_key(id) {
            return Judgement::Well;
        }
        let what = format!("{} was ended, and runs again", self.name());
        let problem = self.case.problem("ContainerRestarted", what).warning();
        let advice = self.case.logs(&self.member.spec.name, true);
        Problem { why: end_words(self.case, before), advice, since: finished(before), ..problem }.into()
    }

    /// The container has not run long enough to be well.
    fn is_young(&self, run: &Run<'_>) -> bool {
        well_ms(run).is_some_and(|at_ms| self.case.beside.now_ms < at_ms)
    }
}

/// The host of an image's registry.
fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => "docker.io",
    }
}

fn image_advice(image: &str) -> String {
    format!(
        "docker pull {image} asks the same; a private registry wants imagePullSecrets or docker login; without a \
         network, put an archive of the image into images-dir"
    )
}

//! The problems of one pod: the end of the pod, its waits, its containers. PURE.

use coracle_keeper::ended;
use coracle_keeper::problem::Problem;
use serde_json::Value;

use super::{PodCase, container, time};
use crate::facts::members::MemberKind;
use crate::facts::naming::Source;
use crate::facts::waiting::WaitReason;
use crate::facts::wanted::Wanted;

/// A pod ends within its grace and some seconds: its containers are killed, its sandbox and volumes go.
const ENDS_WITHIN_MS: i64 = 15_000;

pub(super) fn problems(case: &PodCase<'_>) -> Vec<Problem> {
    if case.wanted.pod.metadata.deletion_timestamp.is_some() {
        return terminating(case).into_iter().collect();
    }
    match case.status["phase"].as_str() {
        Some("Succeeded") => Vec::new(),
        Some("Failed") => failed(case).into_iter().collect(),
        // Before the first look nothing is known of pods, which the engine's problem says.
        None if !case.shown.looked => Vec::new(),
        _ => wanting(case),
    }
}

/// When the deletion of a pod takes too long. The time of a deletion is its end: the grace is in it.
pub(super) fn overdue_ms(wanted: &Wanted) -> Option<i64> {
    let deletion = wanted.pod.metadata.deletion_timestamp.as_ref()?;
    Some(deletion.seconds().saturating_mul(1000).saturating_add(ENDS_WITHIN_MS))
}

fn terminating(case: &PodCase<'_>) -> Option<Problem> {
    let overdue_ms = overdue_ms(case.wanted).filter(|at_ms| case.beside.now_ms >= *at_ms)?;
    let alive = case.runs.iter().filter(|run| run.seen.runs() && !run.tag.is_sandbox());
    let alive: Vec<&str> = alive.map(|run| run.tag.container.as_str()).collect();
    let setback = case.shown.world.memory.setbacks.get(&case.wanted.name.uid).map(|setback| setback.text.clone());
    let finalizers = &case.wanted.document["metadata"]["finalizers"];
    let finalizers =
        finalizers.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    let why = match (setback, alive.is_empty()) {
        (Some(text), _) => text,
        (None, false) => format!("still running: {}", alive.join(", ")),
        (None, true) if !finalizers.is_empty() => format!("it waits for its finalizers: {finalizers}"),
        (None, true) => "its containers have ended".to_owned(),
    };
    let advice = "journalctl -u coracle-agent; docker ps --filter label=io.kubernetes.pod.name";
    Some(Problem {
        why,
        advice: advice.to_owned(),
        since: time(overdue_ms - ENDS_WITHIN_MS),
        ..case.problem("TerminatingTooLong", "it is Terminating for longer than its grace")
    })
}

/// A pod that has failed for good.
fn failed(case: &PodCase<'_>) -> Option<Problem> {
    let owner = Owner::of(case.wanted);
    if owner.as_ref().is_some_and(|owner| owner.has_successor(case)) {
        return None;
    }
    let reason = case.status["reason"].as_str().filter(|text| !text.is_empty());
    let message = case.status["message"].as_str().filter(|text| !text.is_empty());
    let what = reason.map_or_else(|| "it has failed".to_owned(), |reason| format!("it has failed: {reason}"));
    let end = container::first_failure(case);
    let (advice, since) = match &end {
        Some(end) => (case.logs(&end.name, false), end.since.clone()),
        None => (case.edit(), None),
    };
    let why = message.map(str::to_owned).or_else(|| Some(end?.words)).unwrap_or_default();
    let problem = case.problem("PodFailed", what);
    let problem = Problem { why, advice, since: since.or(problem.since.clone()), ..problem };
    match owner.filter(|_| case.wanted.name.source == Source::Master) {
        // The controller makes another pod. Whether that pod is there, on this host or on another, the master knows.
        Some(Owner { kind, name, .. }) => {
            let advice = format!("coracle-master status says whether {kind} {name} has another pod");
            Some(Problem { advice, ..problem.warning() })
        }
        None => Some(problem),
    }
}

/// The controller of a pod.
struct Owner<'a> {
    uid: &'a str,
    kind: &'a str,
    name: &'a str,
}

impl Owner<'_> {
    fn of(wanted: &Wanted) -> Option<Owner<'_>> {
        let mut owners = wanted.document["metadata"]["ownerReferences"].as_array()?.iter();
        let owner = owners.find(|owner| owner["controller"] == true)?;
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        Some(Owner { uid: text("uid"), kind: text("kind"), name: text("name") }).filter(|owner| !owner.uid.is_empty())
    }

    /// Whether a later pod of the same controller is here. That pod has problems of its own, or none.
    fn has_successor(&self, case: &PodCase<'_>) -> bool {
        let made = |wanted: &Wanted| wanted.document["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
        let own = (made(case.wanted), &case.wanted.name.uid);
        case.shown.desired.pods.values().any(|wanted| {
            let is_later = (made(wanted), &wanted.name.uid) > own;
            is_later && Owner::of(wanted).is_some_and(|owner| owner.uid == self.uid)
        })
    }
}

/// A pod that is to run, and does not as it should.
fn wanting(case: &PodCase<'_>) -> Vec<Problem> {
    if let Some(waiting) = case.waits.and_then(|waits| waits.pod.as_ref()) {
        let what = match waiting.reason {
            WaitReason::UnsupportedField => "it is not started: it asks for something that does not exist here",
            WaitReason::HostPortTaken => "it waits for a port of this host",
            WaitReason::EarlierPodEnds => "it waits for the end of the pod before it",
            WaitReason::DoesNotFit => "it waits for room on this host",
            _ => "it cannot be started",
        };
        let message = Some(waiting.message.clone()).filter(|text| !text.is_empty());
        let why = message.unwrap_or_else(|| waiting.reason.name().to_owned());
        return vec![Problem { why, advice: case.edit(), ..case.problem(waiting.reason.name(), what) }];
    }
    let mut all = notes(case);
    let shown = container::problems(case);
    all.extend(shown.problems);
    if all.iter().all(Problem::is_warning)
        && let Some(problem) = not_ready(case, shown.starting)
    {
        all.push(problem);
    }
    all
}

/// What the pod waits for beside its containers: volumes, login Secrets, a resize.
fn notes(case: &PodCase<'_>) -> Vec<Problem> {
    let Some(waits) = case.waits else { return Vec::new() };
    let notes = waits.notes.values().filter(|waiting| !waiting.message.is_empty()).map(|waiting| {
        let why = waiting.message.clone();
        let problem = |what: &str| Problem { why, advice: case.edit(), ..case.problem(waiting.reason.name(), what) };
        match waiting.reason {
            WaitReason::FailedMount => problem("it waits for a volume"),
            WaitReason::FailedToRetrieveImagePullSecret => {
                problem("a Secret with a login for its images is missing").warning()
            }
            WaitReason::ResizeDeferred => problem("its resize waits").warning(),
            _ => problem("it waits"),
        }
    });
    notes.collect()
}

/// A pod that is not ready, where no container says why. `starting`: what its containers are about to do.
fn not_ready(case: &PodCase<'_>, starting: Option<String>) -> Option<Problem> {
    if case.status["phase"] != "Running" {
        let why = starting.unwrap_or_default();
        return Some(Problem { why, ..case.problem("Starting", "it is starting") });
    }
    let mut conditions = case.status["conditions"].as_array()?.iter();
    let ready = conditions.find(|one| one["type"] == "Ready" && one["status"] != "True")?;
    let said = ready["message"].as_str().or(ready["reason"].as_str()).unwrap_or_default();
    let why = starting.unwrap_or_else(|| said.to_owned());
    Some(Problem { why, advice: case.edit(), ..case.problem("NotReady", "it is not ready") })
}

/// The words of the end of a container.
pub(super) fn end_words(case: &PodCase<'_>, terminated: &Value) -> String {
    let id = terminated["containerID"].as_str().and_then(|id| id.strip_prefix("docker://")).unwrap_or_default();
    let dead = case.shown.world.memory.found_dead.get(id);
    let probe = dead.map(|dead| ended::FailedProbe { probe: dead.probe.name(), output: &dead.output });
    let words = ended::words(terminated, probe);
    // The message may be that very line, taken from the log.
    match case.beside.last_lines.get(id).filter(|line| !line.is_empty() && !words.contains(line.as_str())) {
        Some(line) => format!("{words}; the last line of its log: {line}"),
        None => words,
    }
}

/// `container web`, `init container fill`.
pub(super) fn called(kind: MemberKind, name: &str) -> String {
    let kind = match kind {
        MemberKind::Init => "init container",
        MemberKind::Sidecar => "sidecar",
        MemberKind::Main => "container",
        MemberKind::Ephemeral => "ephemeral container",
    };
    format!("{kind} {name}")
}

//! The books of a job: what its status says, and which pods are let go because that is written. PURE.

use super::pods::Member;
use super::policy::Failure;
use super::tally::{Tally, Verdict};
use crate::control::controller::Now;
use crate::control::intent::{EventDraft, Intent};
use crate::control::replicas::TemplateView;
use crate::control::tracked::TRACKING;
use crate::control::view::document;
use coracle_api::job::{Job, UncountedTerminatedPods};
use coracle_api::meta::Key;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Pods that are noted before they are counted: their uids stand in the status.
const NOTED_MAX: usize = 500;
/// Why a job fails.
const REASONS: [&str; 5] =
    ["BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy", "MaxFailedIndexesExceeded", "FailedIndexes"];

pub struct Account<'a, 'c> {
    pub job: &'a Job,
    pub members: &'a [Member<'c>],
    pub tally: &'a Tally<'c>,
    /// Pods whose deletion begins with this look.
    pub going: &'a [Member<'c>],
    pub verdict: Option<&'a Verdict>,
    /// An unreadable pod may belong to the job.
    pub damaged: bool,
    /// Each pod is counted once; see `rules`.
    pub once: bool,
}

/// What comes next for a pod that is not counted yet.
enum Next {
    Stays,
    /// It is noted as failed or succeeded.
    Fails,
    Succeeds,
    SucceedsAt(i32),
    /// The status already contains everything about the pod.
    LetGo,
}

/// The counts as they will be.
struct Books<'c> {
    succeeded: i32,
    failed: i32,
    noted: UncountedTerminatedPods,
    indexes: BTreeSet<i32>,
    released: Vec<Member<'c>>,
    /// There is more than is noted at once.
    more: bool,
}

impl<'c> Account<'_, 'c> {
    pub fn intents(&self, key: &Key, of: &TemplateView, now: Now) -> Vec<Intent> {
        let books = self.books();
        let before = document(&of.document)["status"].take();
        let mut status = before.as_object().cloned().unwrap_or_default();
        let mut tales = Vec::new();
        self.count(&mut status, &books);
        self.begin(&mut status, now);
        match self.verdict {
            Some(verdict) => tales.extend(self.end(&mut status, verdict, &books, now)),
            None if self.job.metadata.deletion_timestamp.is_none() => tales.extend(self.suspend(&mut status, now)),
            None => {}
        }
        let mut intents = Vec::new();
        let status = Value::from(status);
        if status != before {
            intents.push(Intent::Status { key: key.clone(), seen: of.revision, status });
            intents.extend(tales.into_iter().map(|(severity, reason, message)| {
                let tale = EventDraft::normal(of.of.source, of.about(key), reason, message);
                Intent::Tell(EventDraft { severity, ..tale })
            }));
        }
        let release = |pod: &Member<'_>| Intent::Release {
            key: pod.key.clone(),
            seen: pod.pod.revision,
            finalizer: Some(TRACKING),
        };
        intents.extend(books.released.iter().map(release));
        intents
    }

    fn books(&self) -> Books<'c> {
        let status = &self.job.status;
        let stood = status.uncounted_terminated_pods.clone().unwrap_or_default();
        let held: BTreeSet<&str> =
            self.members.iter().filter(|pod| pod.uncounted).map(|pod| pod.pod.uid.as_str()).collect();
        // Noted, and let go: it is counted.
        let noted = |uids: &[String]| -> (Vec<String>, i32) {
            let (held, gone): (Vec<_>, Vec<_>) =
                uids.iter().cloned().partition(|uid| self.damaged || (self.once && held.contains(uid.as_str())));
            (held, i32::try_from(gone.len()).unwrap_or(i32::MAX))
        };
        let ((succeeded, more_succeeded), (failed, more_failed)) = (noted(&stood.succeeded), noted(&stood.failed));
        let mut books = Books {
            succeeded: status.succeeded.saturating_add(more_succeeded),
            failed: status.failed.saturating_add(more_failed),
            noted: UncountedTerminatedPods { succeeded, failed },
            indexes: BTreeSet::new(),
            released: Vec::new(),
            more: false,
        };
        let mut members: Vec<&Member<'c>> = self.members.iter().filter(|pod| pod.uncounted).collect();
        members.sort_by_key(|pod| pod.said.index);
        for pod in members {
            if books.indexes.len() + books.noted.succeeded.len() + books.noted.failed.len() >= NOTED_MAX {
                books.more = true;
                break;
            }
            match self.next(pod, &stood) {
                Next::Stays => {}
                Next::Fails => books.noted.failed.push(pod.pod.uid.clone()),
                Next::Succeeds => books.noted.succeeded.push(pod.pod.uid.clone()),
                Next::SucceedsAt(index) => _ = books.indexes.insert(index),
                Next::LetGo => books.released.push(*pod),
            }
        }
        books
    }

    fn next(&self, pod: &Member<'c>, stood: &UncountedTerminatedPods) -> Next {
        let spec = &self.job.spec;
        let noted = |uids: &[String]| self.once && uids.contains(&pod.pod.uid);
        let failed = pod.failed(spec.replaces_only_failed());
        let deleting = self.job.metadata.deletion_timestamp.is_some();
        let indexed = self.tally.indexed.as_ref();
        let index = indexed.and_then(|indexed| pod.index(indexed.completions));
        let awaited =
            index.and_then(|index| indexed?.awaited.get(&index)).is_some_and(|last| last.pod.uid == pod.pod.uid);
        if !deleting && self.verdict.is_none() && !pod.succeeded() && (!failed || awaited) {
            return Next::Stays;
        }
        if noted(&stood.failed) || noted(&stood.succeeded) || (indexed.is_some() && index.is_none()) {
            return Next::LetGo;
        }
        if pod.succeeded() {
            return match (indexed, index) {
                (Some(indexed), Some(index)) if !indexed.counted.has(index) => Next::SucceedsAt(index),
                (Some(_), _) => Next::LetGo,
                (None, _) => Next::Succeeds,
            };
        }
        // Of a job that has succeeded what still runs is taken away, and has not failed.
        let succeeds = self.verdict.is_some_and(|verdict| verdict.success);
        if pod.pod.phase == "Failed" || !succeeds && (failed || self.verdict.is_some()) {
            let ignored = pod.failure(spec.pod_failure_policy.as_ref()) == Failure::Ignored;
            return if ignored { Next::LetGo } else { Next::Fails };
        }
        // It is taken away because the others are enough, and that has to be written first.
        let written = deleting || self.job.status.says("SuccessCriteriaMet").is_some();
        if written { Next::LetGo } else { Next::Stays }
    }

    fn count(&self, status: &mut Map<String, Value>, books: &Books<'_>) {
        let mut succeeded = books.succeeded;
        if let Some(indexed) = &self.tally.indexed {
            let mut completed = indexed.counted.clone();
            books.indexes.iter().for_each(|index| completed.add(*index));
            succeeded = completed.count();
            put(status, "completedIndexes", (!completed.is_empty()).then(|| completed.to_string().into()));
            put(status, "failedIndexes", indexed.failed.as_ref().map(|failed| failed.to_string().into()));
        }
        let unless_zero = |count: i64| (count > 0).then(|| Value::from(count));
        put(status, "succeeded", unless_zero(succeeded.into()));
        put(status, "failed", unless_zero(books.failed.into()));
        let length = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let going_ready = self.going.iter().filter(|pod| pod.pod.ready == Some(true)).count();
        put(status, "active", unless_zero(length(self.tally.active.len().saturating_sub(self.going.len()))));
        put(status, "ready", Some(length(self.tally.ready.saturating_sub(going_ready)).into()));
        put(status, "terminating", Some(length(self.tally.terminating + self.going.len()).into()));
        let mut noted = Map::new();
        for (list, uids) in [("succeeded", &books.noted.succeeded), ("failed", &books.noted.failed)] {
            put(&mut noted, list, (!uids.is_empty()).then(|| json!(uids)));
        }
        status.insert("uncountedTerminatedPods".into(), noted.into());
    }

    fn begin(&self, status: &mut Map<String, Value>, now: Now) {
        if self.job.status.start_time.is_none() && !self.job.spec.is_suspended() {
            status.insert("startTime".into(), now.wall.to_string().into());
        }
    }

    /// Writes the next step of the job's end into the status, and returns the event about the end.
    fn end(
        &self,
        status: &mut Map<String, Value>,
        verdict: &Verdict,
        books: &Books<'_>,
        now: Now,
    ) -> Option<EventText> {
        let (reason, message) = (verdict.reason.as_str(), verdict.message.as_str());
        if self.job.status.says(verdict.interim()).is_none() {
            // In a write of its own: watchers see this condition before the last condition.
            set_condition(status, verdict.interim(), true, reason, message, now);
            return None;
        }
        let waits = self.members.iter().any(|pod| pod.uncounted) || self.tally.terminating + self.going.len() > 0;
        let noted = !books.noted.succeeded.is_empty() || !books.noted.failed.is_empty();
        if waits || noted || books.more || self.damaged {
            return None;
        }
        set_condition(status, verdict.last(), true, reason, message, now);
        if !verdict.success {
            let reason = REASONS.into_iter().find(|one| *one == reason).unwrap_or("Failed");
            return Some(("Warning", reason, message.to_owned()));
        }
        // A clock that was set back meanwhile: no job ends before it began.
        let ended = self.job.status.start_time.map_or(now.wall, |begun| begun.max(now.wall));
        status.insert("completionTime".into(), ended.to_string().into());
        Some(("Normal", "Completed", "Job completed".to_owned()))
    }

    fn suspend(&self, status: &mut Map<String, Value>, now: Now) -> Option<EventText> {
        let was = self.job.status.conditions.iter().find(|condition| condition.kind == "Suspended");
        let is = self.job.spec.is_suspended();
        // A job that was never suspended gets no condition about being resumed.
        if was.is_none_or(|was| was.status == "False") != is {
            return None;
        }
        let (reason, message) = if is { ("JobSuspended", "Job suspended") } else { ("JobResumed", "Job resumed") };
        set_condition(status, "Suspended", is, reason, message, now);
        put(status, "startTime", (!is).then(|| now.wall.to_string().into()));
        Some(("Normal", if is { "Suspended" } else { "Resumed" }, message.to_owned()))
    }
}

/// Severity, reason and message of an event.
type EventText = (&'static str, &'static str, String);

fn put(map: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match value {
        Some(value) => map.insert(field.to_owned(), value),
        None => map.remove(field),
    };
}

fn set_condition(status: &mut Map<String, Value>, kind: &str, is: bool, reason: &str, message: &str, now: Now) {
    let at = now.wall.to_string();
    let says = if is { "True" } else { "False" };
    let condition = json!({
        "type": kind, "status": says, "lastProbeTime": at, "lastTransitionTime": at, "reason": reason,
        "message": message,
    });
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|one| one["type"] == kind) {
        Some(standing) => *standing = condition,
        None => conditions.push(condition),
    }
}

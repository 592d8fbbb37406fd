//! Jobs: pods that are to end well, so many times. PURE.
//!
//!     a pod ends -> its uid stands in status.uncountedTerminatedPods -> its finalizer goes
//!         -> it is counted, and the uid goes
//!     the end:      SuccessCriteriaMet or FailureTarget -> what is active goes, all is counted -> Complete or Failed
//!
//! Each arrow is a single write, and every look does the writes that are due by the stored state. Therefore no pod is
//! counted twice and no pod is forgotten, even if the master stops in between.

mod account;
mod indexes;
pub mod orphans;
mod pods;
mod policy;
mod tally;
#[cfg(test)]
mod tests;

use self::account::Account;
use self::pods::{Failures, Member};
use self::tally::{Tally, Verdict};
use super::cluster::Cluster;
use super::controller::{Look, Now};
use super::intent::{Decision, EventDraft, Intent, Refusal};
use super::replicas::{self, Parent, ParentKind, TemplateView};
use super::rules::ControlRule;
use super::shelf::View;
use super::since::{Since, earlier};
use super::tracked::TRACKING;
use super::view::{Selector, of_group, read};
use crate::store::Stored;
use coracle_api::job::Job;
use coracle_api::meta::{Key, Resource, Time};
use std::time::Duration;

pub const JOBS: Resource = of_group("batch", "jobs");
const KIND: ParentKind =
    ParentKind { api_version: "batch/v1", kind: "Job", source: "job-controller", claims_finished: true };
/// The controller of a job that names no controller.
const OURSELVES: &str = "kubernetes.io/job-controller";
/// Pods made or deleted in one look.
const BURST_MAX: usize = 500;

#[derive(Clone, Debug)]
pub struct JobView {
    pub template: TemplateView,
    /// Whether it has succeeded, and when it ended.
    pub finished: Option<(bool, Option<Time>)>,
    /// Since when that is known.
    pub over: Option<Since>,
    pub ttl: Option<i32>,
    /// Name and uid of the CronJob that made the job.
    pub made_by: Option<Box<(String, String)>>,
    /// A foreign controller acts on the job.
    foreign: bool,
    /// What its status has counted, and when it was seen to count failures after its last success.
    counted: (i32, i32),
    failures: u32,
    failed_at: Duration,
    started: Option<(Time, Since)>,
}

impl View for JobView {
    const OF: &'static [Resource] = &[JOBS];

    fn read(stored: &Stored, was: Option<&JobView>, uptime: Duration) -> Option<JobView> {
        let Job { metadata, spec, status } = read(stored)?;
        // A new job with this name keeps nothing from the old job.
        let was = was.filter(|was| was.template.uid == metadata.uid);
        let waiting = status.uncounted_terminated_pods.clone().unwrap_or_default();
        let count =
            |counted: i32, waiting: &[String]| counted.saturating_add(i32::try_from(waiting.len()).unwrap_or(i32::MAX));
        let counted = (count(status.succeeded, &waiting.succeeded), count(status.failed, &waiting.failed));
        let (mut failures, mut failed_at) = was.map_or((0, uptime), |was| (was.failures, was.failed_at));
        let before = was.map_or(counted, |was| was.counted);
        if counted.0 > before.0 {
            failures = 0;
        } else if counted.1 > before.1 {
            (failures, failed_at) = (failures.saturating_add(counted.1.abs_diff(before.1)), uptime);
        }
        let owner = metadata.controller().filter(|owner| owner.kind == "CronJob");
        let made_by = owner.map(|owner| Box::new((owner.name.clone(), owner.uid.clone())));
        let finished =
            status.finished().map(|condition| (condition.kind == "Complete", condition.last_transition_time));
        let started = status.start_time.map(|at| {
            let same = was.and_then(|was| was.started).filter(|(was, _)| *was == at).map(|(_, since)| since);
            (at, Since::of(same, was.is_some(), uptime))
        });
        let template =
            TemplateView::of(&KIND, stored, &metadata, Selector::Rules(spec.selector), spec.template.metadata.labels);
        let over = finished.map(|_| Since::of(was.and_then(|was| was.over), was.is_some(), uptime));
        let foreign = spec.managed_by.is_some_and(|by| by != OURSELVES);
        let ttl = spec.ttl_seconds_after_finished;
        Some(JobView { template, finished, over, ttl, made_by, foreign, counted, failures, failed_at, started })
    }
}

impl Parent for JobView {
    fn template(&self) -> &TemplateView {
        &self.template
    }
}

impl JobView {
    pub fn begun(&self) -> Option<Time> {
        self.started.map(|(at, _)| at)
    }

    fn failures(&self, now: Now) -> Failures {
        Failures { count: self.failures, last: now.uptime.saturating_sub(self.failed_at) }
    }

    /// The time left until the job's active deadline.
    fn time_left(&self, job: &Job, now: Now) -> Option<Duration> {
        let allowed = Duration::from_secs(job.spec.active_deadline_seconds?.try_into().unwrap_or_default());
        if job.spec.is_suspended() {
            return None;
        }
        let passed = self.started.map_or(Duration::ZERO, |(at, since)| since.elapsed(Some(at), now));
        Some(allowed.saturating_sub(passed))
    }
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (key, now) = (look.key, look.now);
    let view = look.cluster.get::<JobView>(key).filter(|view| !view.foreign && view.finished.is_none());
    let Some(view) = view else { return Decision::default() };
    let Some(job) = read::<Job>(&view.template.document) else { return Decision::default() };
    let mut intents = Vec::new();
    let members = pods::claim(look.cluster, key, &view.template, &mut intents);
    let tally = Tally::of(&job, &members, now);
    let left = view.time_left(&job, now);
    let mut verdict = tally.verdict(&job, &members, left.is_some_and(|left| left.is_zero()));
    let damaged = pods::damaged(look.cluster, key);
    let work = match &verdict {
        Some(_) => Work { going: tally.active.clone(), ..Work::default() },
        None if job.metadata.deletion_timestamp.is_some() => Work::default(),
        None => work(view, &job, &members, &tally, damaged, now),
    };
    // What goes because there is too much of it is let go first, and not counted.
    let ends = verdict.is_some();
    let dismissed = |pod: &Member<'_>| !ends && pod.uncounted;
    let dismisses = work.going.iter().any(dismissed);
    if !ends && tally.complete(&job, work.going.len(), work.coming) {
        verdict = Some(Verdict::completions_reached());
    }
    for pod in &work.going {
        if dismissed(pod) {
            intents.push(Intent::Release { key: pod.key.clone(), seen: pod.pod.revision, finalizer: Some(TRACKING) });
        } else {
            intents.extend(replicas::delete(key, &view.template, (pod.key, pod.pod)));
        }
    }
    let makes = !work.made.is_empty();
    intents.extend(work.made);
    // What was made or let go is seen in a moment, and then the status says all of it in one write.
    if (!makes && !dismisses) || look.refusal.is_some() {
        let (going, verdict, once) = (&work.going, verdict.as_ref(), look.cluster.holds(ControlRule::JobsCountOnce));
        let account = Account { job: &job, members: &members, tally: &tally, going, verdict, damaged, once };
        intents.extend(account.intents(key, &view.template, now));
    }
    let deadline = left.filter(|left| verdict.is_none() && !left.is_zero()).map(|left| now.uptime + left);
    Decision { wake_at: earlier(deadline, work.wake_at), ..Decision::of(intents) }
}

pub fn refused(cluster: &Cluster, key: &Key, refusal: &Refusal) -> Option<EventDraft> {
    replicas::refused(key, &cluster.get::<JobView>(key)?.template, refusal)
}

/// What is to be done with the pods.
#[derive(Default)]
struct Work<'c> {
    going: Vec<Member<'c>>,
    made: Vec<Intent>,
    /// How many of them are made, or wait until they may be.
    coming: usize,
    wake_at: Option<Duration>,
}

/// Brings the active pods to the number that is wanted: away with some, or some more, never both in one look.
fn work<'c>(view: &JobView, job: &Job, members: &[Member<'c>], tally: &Tally<'c>, damaged: bool, now: Now) -> Work<'c> {
    if job.spec.is_suspended() {
        return Work { going: tally.active.clone(), ..Work::default() };
    }
    let wanted = tally.wanted(job);
    let mut going = pods::surplus(job, &tally.active, tally.active.len().saturating_sub(wanted));
    going.truncate(BURST_MAX);
    if !going.is_empty() {
        return Work { going, ..Work::default() };
    }
    let only_failed = job.spec.replaces_only_failed();
    let there = tally.active.len() + if only_failed { tally.terminating } else { 0 };
    let missing = wanted.saturating_sub(there);
    // What cannot be read may run.
    if missing == 0 || damaged {
        return Work { coming: missing, ..Work::default() };
    }
    let later = |wait: Duration| Work { coming: missing, wake_at: Some(now.uptime + wait), ..Work::default() };
    if job.spec.backoff_limit_per_index.is_none() {
        let wait = view.failures(now).worse(Failures::of(members, only_failed, now)).wait();
        if !wait.is_zero() {
            return later(wait);
        }
    }
    let missing = missing.min(BURST_MAX);
    let (key, parent) = (&*view.template.document.key, &view.template);
    let Some(indexed) = &tally.indexed else {
        let made = (0..missing).flat_map(|_| replicas::make(key, parent, pods::made(key, job, parent, None, None)));
        return Work { made: made.collect(), coming: missing, ..Work::default() };
    };
    let mut taken = indexed.succeeded.with(&pods::indexes(&tally.active));
    if only_failed {
        taken = taken.with(&pods::indexes(members.iter().filter(|member| member.terminating())));
    }
    if let Some(failed) = &indexed.failed {
        taken = taken.with(failed);
    }
    let free = taken.missing(indexed.completions, missing);
    let waits = free.iter().map(|index| (*index, pods::wait(indexed.awaited.get(index), now)));
    let (due, waiting): (Vec<_>, Vec<_>) = waits.partition(|(_, wait)| wait.is_zero());
    let wake_at = waiting.iter().map(|(_, wait)| now.uptime + *wait).min();
    let one = |(index, _): &(i32, Duration)| {
        replicas::make(key, parent, pods::made(key, job, parent, Some(*index), indexed.awaited.get(index)))
    };
    Work { made: due.iter().flat_map(one).collect(), coming: free.len(), wake_at, going: Vec::new() }
}

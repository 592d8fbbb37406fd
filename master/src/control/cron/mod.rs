//! Cron jobs: a job at each tick of a schedule. PURE.
//!
//!     tick -> a job, named by the minute -> it stands in status.active, and the tick is the last one
//!         -> it ends, and is kept for a while
//!
//! Of the ticks that were missed the latest is made up for. The clock on the wall decides, and may be wrong:
//!
//! - Before the year in which this was written it has not been set yet: no schedule is due until it is.
//! - Put forward: what was missed is one job, like after a master that was away.
//! - Put back a little: nothing runs twice, for no tick is due until the last one has passed again.
//! - Put back far: the last tick was the work of a wrong clock, and counts no more.

use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{About, Decision, EventDraft, Intent, Refusal};
use super::job::{JOBS, JobView};
use super::rules::ControlRule;
use super::shelf::View;
use super::view::{document, of_group, read};
use crate::store::Stored;
use coracle_api::job::{CronJob, CronJobSpec};
use coracle_api::meta::{Key, Resource, Revision, Time};
use coracle_api::strategy::cron::{Schedule, parse};
use coracle_keeper::ticks;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;

pub const CRON_JOBS: Resource = of_group("batch", "cronjobs");
const SOURCE: &str = "cronjob-controller";
const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// After a tick, for clocks that are not quite the same.
const PADDING: Duration = Duration::from_millis(100);
/// A clock that is corrected gradually is off by less than this part of a wait: a long wait ends early by this part,
/// and the rest is waited separately.
const DRIFT: u32 = 1000;
/// A wait that is off by its drift is off by no second.
const SHORT: Duration = Duration::from_secs(600);
/// A clock that is behind a tick by more than this was wrong at the tick.
const BEHIND_MAX: SignedDuration = SignedDuration::from_hours(1);
/// The year 2026: a clock that shows less has not been set.
const CLOCK_SET_S: i64 = 1_767_225_600;

#[derive(Clone, Debug)]
pub struct CronJobView {
    uid: String,
    revision: Revision,
    document: Stored,
}

impl View for CronJobView {
    const OF: &'static [Resource] = &[CRON_JOBS];

    fn read(stored: &Stored, _: Option<&CronJobView>, _: Duration) -> Option<CronJobView> {
        let CronJob { metadata, .. } = read(stored)?;
        Some(CronJobView { uid: metadata.uid, revision: stored.revision, document: stored.clone() })
    }
}

impl CronJobView {
    fn about(&self, key: &Key) -> About {
        About::new(("batch/v1", "CronJob"), key, &self.uid, self.revision)
    }

    fn tell(&self, key: &Key, reason: &'static str, message: String) -> Intent {
        Intent::Tell(EventDraft::normal(SOURCE, self.about(key), reason, message))
    }

    fn warn(&self, key: &Key, reason: &'static str, message: String) -> Intent {
        Intent::Tell(EventDraft::warning(SOURCE, self.about(key), reason, message))
    }
}

/// The cron job that made a job.
pub fn by_job(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let jobs = change.was::<JobView>().into_iter().chain(cluster.get::<JobView>(change.key));
    let owner = |job: &JobView| {
        let (name, uid) = job.made_by.as_deref()?;
        let key = Key { resource: CRON_JOBS, namespace: change.key.namespace.clone(), name: name.clone() };
        cluster.get::<CronJobView>(&key).filter(|cron_job| cron_job.uid == *uid).map(|_| key)
    };
    jobs.filter_map(owner).collect()
}

pub fn refused(cluster: &Cluster, key: &Key, refusal: &Refusal) -> Option<EventDraft> {
    let cron_job = cluster.get::<CronJobView>(key)?;
    Some(EventDraft::warning(
        SOURCE,
        cron_job.about(key),
        "FailedCreate",
        format!("Error creating job: {}", refusal.why),
    ))
}

/// A job of the cron job.
type Job<'c> = (&'c Key, &'c JobView);

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, key, now) = (look.cluster, look.key, look.now);
    let Some(view) = cluster.get::<CronJobView>(key) else { return Decision::default() };
    let Some(cron_job) = read::<CronJob>(&view.document) else { return Decision::default() };
    let ours = |job: &JobView| job.made_by.as_deref().is_some_and(|(_, uid)| *uid == view.uid);
    let jobs: Vec<Job<'_>> = cluster.dependents::<JobView>(key).filter(|(_, job)| ours(job)).collect();
    let mut books = Books::of(&cron_job);
    let mut intents = Vec::new();
    let over = if cluster.holds(ControlRule::HistoryIsLimited) { forgotten(&cron_job.spec, &jobs) } else { Vec::new() };
    for (job_key, job) in over {
        books.active.retain(|one| one["uid"] != job.template.uid);
        intents.extend(delete(view, key, (job_key, job)));
    }
    let tales = books.follow(cluster, view, key, &cron_job, &jobs);
    let (mut all, mut wake_at) = (Vec::new(), None);
    if cron_job.metadata.deletion_timestamp.is_none() && cron_job.spec.suspend != Some(true) {
        match Clock::of(cluster, &cron_job, now.wall.0) {
            Ok(Some(clock)) => {
                let (more, of_it) = clock.strike(cluster, (view, key), &jobs, &mut books);
                intents.extend(more);
                all.extend(of_it);
                wake_at = clock.wait().map(|wait| now.uptime + wait);
            }
            // A change of the clock wakes this controller.
            Ok(None) => {}
            Err((reason, message)) => all.push(view.warn(key, reason, message)),
        }
    }
    let known = |uid: &String| books.has(uid) || cron_job.status.active.iter().any(|one| one.uid == *uid);
    for (job_key, job) in jobs.iter().filter(|(_, job)| job.finished.is_none() && !job.template.deleting) {
        if !known(&job.template.uid) {
            let message = format!("Saw a job that the controller did not create or forgot: {}", job_key.name);
            all.push(view.warn(key, "UnexpectedJob", message));
        }
    }
    let standing = document(&view.document);
    let status = books.status(&standing["status"]);
    // The events of a look without writes stand first.
    all.extend(intents);
    if standing["status"] != status && !(standing["status"].is_null() && status == json!({})) {
        all.push(Intent::Status { key: key.clone(), seen: view.revision, status });
        all.extend(tales);
    }
    Decision { wake_at, ..Decision::of(all) }
}

/// What the status says.
struct Books {
    active: Vec<Value>,
    last: Option<Time>,
    last_success: Option<Time>,
}

impl Books {
    fn of(cron_job: &CronJob) -> Books {
        let active = cron_job.status.active.iter().map(|one| {
            let mut reference = json!({"kind": one.kind, "namespace": one.namespace, "name": one.name, "uid": one.uid});
            for (field, value) in [("apiVersion", &one.api_version), ("resourceVersion", &one.resource_version)] {
                if !value.is_empty() {
                    reference[field] = value.as_str().into();
                }
            }
            reference
        });
        Books {
            active: active.collect(),
            last: cron_job.status.last_schedule_time,
            last_success: cron_job.status.last_successful_time,
        }
    }

    fn has(&self, uid: &str) -> bool {
        self.active.iter().any(|one| one["uid"] == uid)
    }

    /// Takes in what has become of the jobs.
    fn follow(
        &mut self,
        cluster: &Cluster,
        view: &CronJobView,
        key: &Key,
        cron_job: &CronJob,
        jobs: &[Job<'_>],
    ) -> Vec<Intent> {
        let mut tales = Vec::new();
        for (job_key, job) in jobs {
            let Some((success, at)) = job.finished else { continue };
            if self.has(&job.template.uid) {
                self.active.retain(|one| one["uid"] != job.template.uid);
                let condition = if success { "Complete" } else { "Failed" };
                let message = format!("Saw completed job: {}, condition: {condition}", job_key.name);
                tales.push(view.tell(key, "SawCompletedJob", message));
            }
            if success {
                self.last_success = self.last_success.max(at);
            }
        }
        for one in &cron_job.status.active {
            let gone = Key { resource: JOBS, namespace: key.namespace.clone(), name: one.name.clone() };
            let there = jobs.iter().any(|(_, job)| job.template.uid == one.uid) || cluster.damaged.contains(&gone);
            if !there && self.has(&one.uid) {
                self.active.retain(|other| other["uid"] != one.uid);
                tales.push(view.tell(key, "MissingJob", format!("Active job went missing: {}", one.name)));
            }
        }
        tales
    }

    fn begin(&mut self, job_key: &Key, job: &JobView, tick: Timestamp) {
        self.last = Some(Time(tick));
        if job.finished.is_none() {
            self.active.push(json!({
                "kind": "Job", "namespace": job_key.namespace, "name": job_key.name, "uid": job.template.uid,
                "apiVersion": "batch/v1",
                "resourceVersion": job.template.revision.to_string(),
            }));
        }
    }

    fn status(self, standing: &Value) -> Value {
        let mut status = standing.as_object().cloned().unwrap_or_default();
        let time = |time: Option<Time>| time.map(|time| Value::from(time.to_string()));
        let active = (!self.active.is_empty()).then(|| self.active.into());
        for (field, value) in
            [("active", active), ("lastScheduleTime", time(self.last)), ("lastSuccessfulTime", time(self.last_success))]
        {
            match value {
                Some(value) => status.insert(field.to_owned(), value),
                None => status.remove(field),
            };
        }
        status.into()
    }
}

/// The oldest ended jobs beyond the history limits.
fn forgotten<'c>(spec: &CronJobSpec, jobs: &[Job<'c>]) -> Vec<Job<'c>> {
    let mut going = Vec::new();
    for (success, limit) in [(true, spec.successful_jobs_history_limit), (false, spec.failed_jobs_history_limit)] {
        let ended = |(_, job): &&Job<'c>| job.finished.is_some_and(|(how, _)| how == success) && !job.template.deleting;
        let mut ended: Vec<Job<'c>> = jobs.iter().filter(ended).copied().collect();
        ended.sort_by_key(|(key, job)| (job.begun().is_none(), job.begun(), key.name.clone()));
        let kept = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        ended.truncate(ended.len().saturating_sub(kept));
        going.extend(ended);
    }
    going
}

fn delete(view: &CronJobView, key: &Key, (job_key, job): Job<'_>) -> [Intent; 2] {
    let collect = Intent::Collect { key: job_key.clone(), seen: job.template.revision, foreground: false };
    [collect, view.tell(key, "SuccessfulDelete", format!("Deleted job {}", job_key.name))]
}

/// The schedule of a cron job at one moment.
struct Clock<'a> {
    cron_job: &'a CronJob,
    schedule: Schedule,
    zone: TimeZone,
    /// The zone that its jobs say their time in.
    shown: TimeZone,
    now: Timestamp,
    /// The last tick, or the beginning.
    since: Timestamp,
    due: ticks::Due,
}

impl<'a> Clock<'a> {
    /// `None`: the clock has not been set. What is wrong is an event: reason and message.
    fn of(
        cluster: &Cluster,
        cron_job: &'a CronJob,
        now: Timestamp,
    ) -> Result<Option<Clock<'a>>, (&'static str, String)> {
        if now.as_second() < CLOCK_SET_S {
            return Ok(None);
        }
        let spec = &cron_job.spec;
        let name = spec.time_zone.as_deref().unwrap_or_default();
        let zone = (cluster.settings.zones.0)(name)
            .map_err(|why| ("UnknownTimeZone", format!("invalid timeZone: {name:?}: {why}")))?;
        let text = &spec.schedule;
        let schedule =
            parse(text).map_err(|why| ("UnparseableSchedule", format!("unparseable schedule: {text:?} : {why}")))?;
        let said =
            cron_job.status.last_schedule_time.or(cron_job.metadata.creation_timestamp).map_or(now, |time| time.0);
        let since = if said.duration_since(now) > BEHIND_MAX { now } else { said };
        let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
        let earliest =
            deadline.and_then(|allowed| now.checked_sub(allowed).ok()).map_or(since, |earliest| earliest.max(since));
        let due = ticks::due(&schedule, &zone, earliest, now)
            .map_err(|why| ("InvalidSchedule", format!("invalid schedule: {text} : {why}")))?;
        let shown = if name.is_empty() { TimeZone::UTC } else { zone.clone() };
        Ok(Some(Clock { cron_job, schedule, zone, shown, now, since, due }))
    }

    /// The time until the next tick. A change of the clock wakes the controller besides. `None`: no further tick.
    fn wait(&self) -> Option<Duration> {
        let since = self.due.tick.unwrap_or(self.since).max(self.since);
        let next = [since, self.now]
            .into_iter()
            .filter_map(|since| ticks::next(&self.schedule, &self.zone, since))
            .find(|next| *next > self.now);
        let left = Duration::try_from(next?.duration_since(self.now)).ok()?;
        Some(if left > SHORT { left - left / DRIFT } else { left + PADDING })
    }

    /// The intents for the due tick, and the events for a tick that makes no job.
    fn strike(
        &self,
        cluster: &Cluster,
        (view, key): (&CronJobView, &Key),
        jobs: &[Job<'_>],
        books: &mut Books,
    ) -> (Vec<Intent>, Vec<Intent>) {
        let nothing = (Vec::new(), Vec::new());
        let Some(tick) = self.due.tick else { return nothing };
        let name = format!("{}-{}", key.name, tick.as_second() / 60);
        let done = self.cron_job.status.last_schedule_time.is_some_and(|last| last.seconds() == tick.as_second());
        if done || books.active.iter().any(|one| one["name"] == name) {
            return nothing;
        }
        // Made, and not written down yet.
        if let Some((job_key, job)) = jobs.iter().find(|(job, _)| job.name == name) {
            books.begin(job_key, job, tick);
            return nothing;
        }
        let policy = self.cron_job.spec.concurrency_policy.as_str();
        if policy == "Forbid" && cluster.holds(ControlRule::ForbidWaits) && !books.active.is_empty() {
            let words = "Not starting job because prior execution is running and concurrency policy is Forbid";
            return (Vec::new(), vec![view.tell(key, "JobAlreadyActive", words.to_owned())]);
        }
        let mut intents = Vec::new();
        if policy == "Replace" {
            for (job_key, job) in jobs.iter().filter(|(_, job)| books.has(&job.template.uid)) {
                intents.extend(delete(view, key, (job_key, job)));
            }
            books.active.clear();
        }
        intents.push(Intent::Create {
            resource: JOBS,
            namespace: key.namespace.clone(),
            object: self.job(view, key, &name, tick),
        });
        intents.push(view.tell(key, "SuccessfulCreate", format!("Created job {name}")));
        if self.due.missed_many {
            let words =
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            intents.push(view.warn(key, "TooManyMissedTimes", words.to_owned()));
        }
        (intents, Vec::new())
    }

    fn job(&self, view: &CronJobView, key: &Key, name: &str, tick: Timestamp) -> Value {
        let template = document(&view.document)["spec"]["jobTemplate"].take();
        let mut metadata = json!({
            "name": name,
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "CronJob", "name": key.name, "uid": view.uid, "controller": true,
                "blockOwnerDeletion": true,
            }],
        });
        for field in ["labels", "annotations"] {
            if template["metadata"][field].is_object() {
                metadata[field] = template["metadata"][field].clone();
            }
        }
        let wall = self.shown.to_datetime(tick);
        let offset = self.shown.to_offset(tick).seconds();
        let shown = if offset == 0 {
            format!("{wall}Z")
        } else {
            let minutes = offset.abs() / 60;
            format!("{wall}{}{:02}:{:02}", if offset < 0 { '-' } else { '+' }, minutes / 60, minutes % 60)
        };
        metadata["annotations"][SCHEDULED_AT] = shown.into();
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]})
    }
}

#[cfg(test)]
mod tests;

//! Jobs that failed without a later success, and cron jobs that miss their times. PURE.

use super::context::{Context, Found, Words, counted, later};
use coracle_api::job::{CronJob, Job};
use coracle_api::meta::Time;
use coracle_api::strategy::cron::{Schedule, parse};
use coracle_keeper::problem::Subject;
use coracle_keeper::ticks;
use std::collections::HashSet;

/// A run that begins so many seconds after its time is late, and not missed.
const LATE_S: i64 = 60;
/// The year 2026: a clock that shows less has not been set, and no schedule is due.
const CLOCK_SET_S: i64 = 1_767_225_600;
const FAILED: &str = "JobFailed";

pub fn tell(context: &Context<'_>, found: &mut Found) {
    let scheduled: HashSet<&str> = context.objects.cron_jobs.iter().map(|one| one.metadata.uid.as_str()).collect();
    for job in context.objects.jobs.iter().filter(|job| !context.goes(&job.metadata)) {
        let of_cron_job = job.metadata.controller().is_some_and(|owner| scheduled.contains(owner.uid.as_str()));
        of_job(context, job, of_cron_job, found);
    }
    for cron_job in context.objects.cron_jobs.iter().filter(|one| !context.goes(&one.metadata)) {
        last_run(context, cron_job, found);
        if cron_job.spec.suspend != Some(true) {
            times(context, cron_job, found);
        }
    }
}

fn of_job(context: &Context<'_>, job: &Job, of_cron_job: bool, found: &mut Found) {
    let (metadata, status) = (&job.metadata, &job.status);
    let subject = || Subject::new("job", &metadata.namespace, &metadata.name);
    if let Some(failed) = status.says("Failed") {
        if !of_cron_job {
            found.tell(FAILED, subject(), failure(job, "has failed".to_owned(), failed.last_transition_time));
        }
        return;
    }
    if status.finished().is_some() || job.spec.is_suspended() {
        return;
    }
    let advice = format!("kubectl -n {} describe job {}", metadata.namespace, metadata.name);
    let since = status.start_time.or(metadata.creation_timestamp);
    let has_pods = !context.pods_of(&metadata.uid).is_empty() || status.active + status.succeeded > 0;
    if let Some(warned) = context.warned("Job", metadata, &["FailedCreate"], since).filter(|_| !has_pods) {
        let why = warned.message.to_owned();
        found.tell("JobWaits", subject(), Words { what: "cannot make its pods".to_owned(), why, advice, since });
    } else if status.failed > 0 {
        let failed = usize::try_from(status.failed).unwrap_or_default();
        let limit = job.spec.backoff_limit.unwrap_or(6);
        let what = format!("tries again: {} failed, of {limit} that may", counted(failed, "pod"));
        let advice = format!("kubectl -n {} logs job/{}", metadata.namespace, metadata.name);
        found.warn("JobRetries", subject(), Words { what, advice, since, ..Words::default() });
    } else if !has_pods {
        let what = "is starting: it has no pod yet".to_owned();
        found.tell("Starting", subject(), Words { what, advice, since, ..Words::default() });
    }
}

fn failure(job: &Job, what: String, since: Option<Time>) -> Words {
    let said = job.status.says("Failed").map(|failed| [failed.reason.as_str(), failed.message.as_str()]);
    let said: Vec<&str> = said.into_iter().flatten().filter(|text| !text.is_empty()).collect();
    let advice = format!("kubectl -n {} logs job/{}", job.metadata.namespace, job.metadata.name);
    Words { what, why: said.join(": "), advice, since }
}

/// The last run that is over failed, and none has succeeded since.
fn last_run(context: &Context<'_>, cron_job: &CronJob, found: &mut Found) {
    let ours = |job: &&Job| job.metadata.controller().is_some_and(|owner| owner.uid == cron_job.metadata.uid);
    let over = context.objects.jobs.iter().filter(ours).filter_map(|job| {
        let finished = job.status.finished()?;
        Some((job.status.completion_time.or(finished.last_transition_time), finished.kind == "Failed", job))
    });
    let Some((ended, true, job)) = over.max_by_key(|(ended, ..)| *ended) else { return };
    if cron_job.status.last_successful_time.is_some() && cron_job.status.last_successful_time >= ended {
        return;
    }
    let subject = Subject::new("cronjob", &cron_job.metadata.namespace, &cron_job.metadata.name);
    found.tell(FAILED, subject, failure(job, format!("its last run {} has failed", job.metadata.name), ended));
}

fn times(context: &Context<'_>, cron_job: &CronJob, found: &mut Found) {
    let (metadata, spec, status) = (&cron_job.metadata, &cron_job.spec, &cron_job.status);
    let Some(since) = status.last_schedule_time.or(metadata.creation_timestamp) else { return };
    if context.now.seconds() < CLOCK_SET_S {
        return;
    }
    let advice = format!("kubectl -n {} describe cronjob {}", metadata.namespace, metadata.name);
    let subject = || Subject::new("cronjob", &metadata.namespace, &metadata.name);
    let zone = spec.time_zone.as_deref().unwrap_or_default();
    let (Ok(schedule), Some(zone)) = (parse(&spec.schedule), (context.zones)(zone)) else {
        let what = format!("its schedule {:?} cannot be read, or this host has no time zone {zone:?}", spec.schedule);
        return found.tell("CronJobMissed", subject(), Words { what, advice, since: Some(since), ..Words::default() });
    };
    let punctual = later(context.now, -LATE_S);
    let due = ticks::due(&schedule, &zone, since.0, punctual.0);
    if let Some(missed) = due.ok().and_then(|due| due.tick).map(Time) {
        let what = format!("has missed its time {missed}");
        let words = Words { what, why: why_missed(context, cron_job), advice, since: Some(missed) };
        found.tell("CronJobMissed", subject(), words);
    }
    wake(&schedule, &zone, since.max(punctual), found);
}

fn wake(schedule: &Schedule, zone: &jiff::tz::TimeZone, since: Time, found: &mut Found) {
    if let Some(next) = ticks::next(schedule, zone, since.0) {
        found.look_again(later(Time(next), LATE_S + 1));
    }
}

fn why_missed(context: &Context<'_>, cron_job: &CronJob) -> String {
    let running = cron_job.status.active.first().filter(|_| cron_job.spec.concurrency_policy == "Forbid");
    if let Some(running) = running {
        return format!("its run {} still runs, and its concurrencyPolicy is Forbid", running.name);
    }
    let since = cron_job.status.last_schedule_time;
    let warned = context.warned("CronJob", &cron_job.metadata, &[], since);
    warned.map(|one| format!("{}: {}", one.reason, one.message)).unwrap_or_default()
}

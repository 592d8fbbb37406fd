//! `kube_job_*`, `kube_cronjob_*`. PURE.

use super::text::{Label, Text, named, seconds, truth};
use crate::problems::objects::Objects;
use coracle_api::job::{CronJob, Job};
use coracle_api::meta::Time;

/// When a cron job is due after its last run, or after its creation.
pub type NextTick<'n> = dyn Fn(&CronJob) -> Option<Time> + 'n;

/// The reasons of a failure that kube-state-metrics tells apart.
const FAILURES: [&str; 3] = ["BackoffLimitExceeded", "DeadlineExceeded", "Evicted"];

pub fn write(objects: &Objects, next: &NextTick<'_>, text: &mut Text) {
    jobs(&objects.jobs, text);
    let all = &objects.cron_jobs;
    text.family("kube_cronjob_info", "gauge", "Info about cronjob.");
    for one in all {
        let [namespace, name] = named(&one.metadata, "cronjob");
        let (schedule, policy) = (one.spec.schedule.as_str(), one.spec.concurrency_policy.as_str());
        // As in kube-state-metrics: `local` is the zone of the controller.
        let zone = one.spec.time_zone.as_deref().unwrap_or("local");
        let labels = [namespace, name, ("schedule", schedule), ("concurrency_policy", policy), ("timezone", zone)];
        text.line(&labels, 1.0);
    }
    let mut family = |name: &'static str, help: &str, value: &dyn Fn(&CronJob) -> Option<f64>| {
        text.family(name, "gauge", help);
        all.iter().for_each(|one| text.known(&named(&one.metadata, "cronjob"), value(one)));
    };
    family("kube_cronjob_created", "Unix creation timestamp", &|one| seconds(one.metadata.creation_timestamp));
    let active = "Active holds pointers to currently running jobs.";
    family("kube_cronjob_status_active", active, &|one| Some(one.status.active.len() as f64));
    let last = "LastScheduleTime keeps information of when was the last time the job was successfully scheduled.";
    family("kube_cronjob_status_last_schedule_time", last, &|one| seconds(one.status.last_schedule_time));
    let last = "LastSuccessfulTime keeps information of when was the last time the job was completed successfully.";
    family("kube_cronjob_status_last_successful_time", last, &|one| seconds(one.status.last_successful_time));
    let suspend = "Suspend flag tells the controller to suspend subsequent executions.";
    family("kube_cronjob_spec_suspend", suspend, &|one| one.spec.suspend.map(truth));
    let deadline = "Deadline in seconds for starting the job if it misses scheduled time for any reason.";
    family("kube_cronjob_spec_starting_deadline_seconds", deadline, &|one| {
        one.spec.starting_deadline_seconds.map(|seconds| seconds as f64)
    });
    let help = "Next time the cronjob should be scheduled, after its last run or its creation.";
    family("kube_cronjob_next_schedule_time", help, &|one| {
        seconds(next(one).filter(|_| one.spec.suspend != Some(true)))
    });
}

fn jobs(all: &[Job], text: &mut Text) {
    text.family("kube_job_info", "gauge", "Information about job.");
    all.iter().for_each(|job| text.line(&labels(job), 1.0));
    text.family("kube_job_owner", "gauge", "Information about the Job's owner.");
    all.iter().for_each(|job| text.owners(&labels(job), &job.metadata));
    type Value = fn(&Job) -> Option<f64>;
    let mut family = |name: &'static str, help: &str, value: Value| {
        text.family(name, "gauge", help);
        all.iter().for_each(|job| text.known(&labels(job), value(job)));
    };
    family("kube_job_created", "Unix creation timestamp", |job| seconds(job.metadata.creation_timestamp));
    family("kube_job_spec_parallelism", "The maximum number of pods that run at once.", |job| {
        job.spec.parallelism.map(f64::from)
    });
    family("kube_job_spec_completions", "The number of pods that are to succeed.", |job| {
        job.spec.completions.map(f64::from)
    });
    family("kube_job_spec_active_deadline_seconds", "The time that the job may take.", |job| {
        job.spec.active_deadline_seconds.map(|seconds| seconds as f64)
    });
    family("kube_job_status_active", "The number of actively running pods.", |job| Some(f64::from(job.status.active)));
    let help = "The number of pods which reached Phase Succeeded.";
    family("kube_job_status_succeeded", help, |job| Some(f64::from(job.status.succeeded)));
    let help = "StartTime represents time when the job was acknowledged by the Job Manager.";
    family("kube_job_status_start_time", help, |job| seconds(job.status.start_time));
    let help = "CompletionTime represents time when the job was completed.";
    family("kube_job_status_completion_time", help, |job| seconds(job.status.completion_time));
    let help = "The number of pods which reached Phase Failed and the reason for failure.";
    text.family("kube_job_status_failed", "gauge", help);
    all.iter().for_each(|job| failed(job, text));
    for (name, help, kind) in [
        ("kube_job_complete", "The job has completed its execution.", "Complete"),
        ("kube_job_failed", "The job has failed its execution.", "Failed"),
    ] {
        text.family(name, "gauge", help);
        for job in all {
            let said = job.status.conditions.iter().filter(|condition| condition.kind == kind);
            said.for_each(|condition| text.condition(&labels(job), ("condition", &condition.status)));
        }
    }
}

fn labels(job: &Job) -> [Label<'_>; 2] {
    named(&job.metadata, "job_name")
}

fn failed(job: &Job, text: &mut Text) {
    let [namespace, name] = labels(job);
    if job.status.failed == 0 {
        return text.line(&[namespace, name], 0.0);
    }
    let said = job.status.conditions.iter().filter(|condition| condition.kind == "Failed");
    let mut is_known = false;
    for condition in said {
        for reason in FAILURES {
            let holds = condition.reason == reason;
            is_known |= holds;
            text.line(&[namespace, name, ("reason", reason)], truth(holds));
        }
    }
    if !is_known {
        text.line(&[namespace, name, ("reason", "")], f64::from(job.status.failed));
    }
}

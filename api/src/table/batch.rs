//! Jobs and cron jobs.

use super::age;
use super::cell::{self, Cells, NONE, UNSET, list, number, text, text_or};
use super::reading::Reading;
use crate::meta::Time;
use serde_json::Value;

/// Conditions of a job for the status column, most important first.
const STATES: [(&str, &str); 6] = [
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
];

pub fn cells_of(kind: &str) -> Option<Cells> {
    Some(match kind {
        "CronJob" => cron_job,
        "Job" => job,
        _ => return None,
    })
}

fn job(job: &Reading, now: Time) -> Vec<Value> {
    let (spec, status) = (&job["spec"], &job["status"]);
    let [names, images] = cell::containers(&spec["template"]["spec"]);
    let succeeded = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), number(&spec["parallelism"])) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, 0 | 1) => format!("{succeeded}/1"),
        (None, parallelism) => format!("{succeeded}/1 of {parallelism}"),
    };
    let ended = age::seconds(&status["completionTime"]).unwrap_or(now.seconds());
    let duration = age::seconds(&status["startTime"]).map(|started| age::span(ended - started)).unwrap_or_default();
    vec![
        cell::name(job),
        state(job).into(),
        completions.into(),
        duration.into(),
        cell::age(job, now),
        names,
        images,
        cell::selector(&spec["selector"]).into(),
    ]
}

fn state(job: &Reading) -> &'static str {
    let deleted = !job["metadata"]["deletionTimestamp"].is_null();
    let is = |condition: &str| {
        if condition.is_empty() { deleted } else { cell::holds(&job["status"]["conditions"], condition) }
    };
    STATES.iter().find(|(condition, _)| is(condition)).map_or("Running", |(_, state)| state)
}

fn cron_job(job: &Reading, now: Time) -> Vec<Value> {
    let (spec, status) = (&job["spec"], &job["status"]);
    let template = &spec["jobTemplate"]["spec"];
    let [names, images] = cell::containers(&template["template"]["spec"]);
    let last = &status["lastScheduleTime"];
    let suspended = match spec["suspend"].as_bool() {
        None => UNSET,
        Some(true) => "True",
        Some(false) => "False",
    };
    vec![
        cell::name(job),
        text(&spec["schedule"]).into(),
        text_or(&spec["timeZone"], NONE).into(),
        suspended.into(),
        list(&status["active"]).len().into(),
        if last.is_null() { NONE.into() } else { age::since(last, now).into() },
        cell::age(job, now),
        names,
        images,
        cell::selector(&template["selector"]).into(),
    ]
}

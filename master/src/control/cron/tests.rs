//! A cron job and its jobs as documents in, what is done with them out.

use super::CRON_JOBS;
use crate::control::controller::News;
use crate::control::intent::Intent;
use crate::control::job::JOBS;
use crate::control::settings::Settings;
use crate::control::{Cluster, Controllers, Look, Now};
use crate::store::{Event, Stored};
use coracle_api::kinds::Kinds;
use coracle_api::meta::{Key, Resource, Revision, Time};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn key(resource: &Resource, name: &str) -> Key {
    Key { resource: resource.clone(), namespace: "ns".into(), name: name.into() }
}

/// A cron job that runs every minute, and its jobs: name, status.
fn cluster(spec: Value, status: Value, jobs: &[(&str, Value)]) -> Cluster {
    let mut cluster = Controllers::builtin().cluster(&Kinds::builtin(), Settings::default());
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"parallelism": 2}});
    let mut of = json!({
        "metadata": {"name": "c", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-01T10:00:10Z"},
        "spec": {"schedule": "* * * * *", "concurrencyPolicy": "Allow", "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 1, "jobTemplate": template},
        "status": status,
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        of["spec"][field] = value.clone();
    }
    let owner = json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "u", "controller": true}]);
    let job = |(name, status): &(&str, Value)| {
        let meta = json!({"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "ownerReferences": owner});
        (key(&JOBS, name), json!({"metadata": meta, "spec": {}, "status": status}))
    };
    let objects = std::iter::once((key(&CRON_JOBS, "c"), of)).chain(jobs.iter().map(job));
    for (nth, (key, mut object)) in objects.enumerate() {
        let (key, revision) = (Arc::new(key), Revision(nth as u64 + 1));
        let new = Some(Stored::of(key.clone(), revision, &mut object));
        cluster.apply(&Event { revision, key, old: None, new, renewed: false }, Duration::ZERO);
    }
    cluster
}

fn look(cluster: &Cluster, wall: &str) -> (Vec<String>, Option<u128>) {
    let controllers = Controllers::builtin();
    let owner = controllers.owner("cron jobs", key(&CRON_JOBS, "c")).expect("a row of the table");
    let now = Now { wall: Time::parse(wall).expect("a time"), uptime: Duration::ZERO };
    let decision = (controllers.row(&owner).decide)(&Look {
        cluster,
        key: &owner.key,
        now,
        refusal: None,
        contents: None,
        memory: None,
        memo: None,
    });
    (decision.intents.iter().map(line).collect(), decision.wake_at.map(|at| at.as_millis()))
}

fn line(intent: &Intent) -> String {
    match intent {
        Intent::Create { object, .. } => {
            format!("make {} {}", object["metadata"]["name"], object["metadata"]["annotations"][super::SCHEDULED_AT])
        }
        Intent::Collect { key, foreground: false, .. } => format!("delete {}", key.name),
        Intent::Status { status, .. } => {
            let active: Vec<&str> =
                status["active"].as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect();
            format!("status {} {} {}", active.join(","), status["lastScheduleTime"], status["lastSuccessfulTime"])
        }
        Intent::Tell(tale) => format!("tell {}", tale.reason),
        other => format!("{other:?}"),
    }
}

/// A job that ended.
fn ended(kind: &str, start: &str, end: &str) -> Value {
    json!({"startTime": start, "conditions": [{"type": kind, "status": "True", "lastTransitionTime": end}]})
}

fn active(name: &str) -> Value {
    json!({"kind": "Job", "apiVersion": "batch/v1", "namespace": "ns", "name": name, "uid": format!("uid-{name}")})
}

/// 2026-01-01T10:01:00Z in minutes.
const FIRST: &str = "c-29454361";
const SECOND: &str = "c-29454362";

#[test]
fn a_tick_makes_a_job() {
    let cluster_of = |status: Value, jobs: &[(&str, Value)]| cluster(json!({}), status, jobs);
    assert_eq!(look(&cluster_of(json!({}), &[]), "2026-01-01T10:00:40Z"), (vec![], Some(20_100)));
    let made = [format!("make \"{FIRST}\" \"2026-01-01T10:01:00Z\""), "tell SuccessfulCreate".to_owned()];
    assert_eq!(look(&cluster_of(json!({}), &[]), "2026-01-01T10:01:00Z"), (made.to_vec(), Some(60_100)));
    // It is there, and not written down: also after a crash between the two.
    let status = [format!("status {FIRST} \"2026-01-01T10:01:00Z\" null")];
    assert_eq!(look(&cluster_of(json!({}), &[(FIRST, json!({}))]), "2026-01-01T10:01:01Z").0, status);
    let standing = json!({"active": [active(FIRST)], "lastScheduleTime": "2026-01-01T10:01:00Z"});
    assert_eq!(look(&cluster_of(standing.clone(), &[(FIRST, json!({}))]), "2026-01-01T10:01:01Z").0, [""; 0]);
    let over = ended("Complete", "2026-01-01T10:01:01Z", "2026-01-01T10:01:05Z");
    let seen = ["status  \"2026-01-01T10:01:00Z\" \"2026-01-01T10:01:05Z\"", "tell SawCompletedJob"];
    assert_eq!(look(&cluster_of(standing.clone(), &[(FIRST, over)]), "2026-01-01T10:01:06Z").0, seen);
    let missing = ["status  \"2026-01-01T10:01:00Z\" null", "tell MissingJob"];
    assert_eq!(look(&cluster_of(standing, &[]), "2026-01-01T10:01:06Z").0, missing);
    assert_eq!(
        look(&cluster_of(json!({}), &[("by-hand", json!({}))]), "2026-01-01T10:00:40Z").0,
        ["tell UnexpectedJob"]
    );
}

#[test]
fn one_that_still_runs() {
    let standing = || json!({"active": [active(FIRST)], "lastScheduleTime": "2026-01-01T10:01:00Z"});
    let check = |policy: &str, expected: &[String]| {
        let cluster = cluster(json!({"concurrencyPolicy": policy}), standing(), &[(FIRST, json!({}))]);
        assert_eq!(look(&cluster, "2026-01-01T10:02:00Z").0, expected, "{policy}");
    };
    let made = || [format!("make \"{SECOND}\" \"2026-01-01T10:02:00Z\""), "tell SuccessfulCreate".to_owned()];
    check("Allow", &made());
    check("Forbid", &["tell JobAlreadyActive".to_owned()]);
    let mut replaced = vec![format!("delete {FIRST}"), "tell SuccessfulDelete".to_owned()];
    replaced.extend(made());
    replaced.push("status  \"2026-01-01T10:01:00Z\" null".to_owned());
    check("Replace", &replaced);
}

#[test]
fn old_jobs_are_forgotten() {
    let at = |minute: u32| format!("2026-01-01T09:{minute:02}:00Z");
    let job = |kind: &str, minute: u32| ended(kind, &at(minute), &at(minute + 1));
    let jobs = [
        ("s2", job("Complete", 20)),
        ("s1", job("Complete", 10)),
        ("f1", job("Failed", 15)),
        ("f2", job("Failed", 25)),
    ];
    let cluster = cluster(json!({"suspend": true}), json!({"lastSuccessfulTime": at(21)}), &jobs);
    let expected = ["delete s1", "tell SuccessfulDelete", "delete f1", "tell SuccessfulDelete"];
    assert_eq!(look(&cluster, "2026-01-01T10:30:00Z"), (expected.map(str::to_owned).to_vec(), None));
}

#[test]
fn a_clock_that_is_wrong() {
    let ran = |last: &str| cluster(json!({}), json!({"lastScheduleTime": last}), &[]);
    // Not set: nothing is due, and nobody waits for anything but the one who sets it.
    assert_eq!(look(&ran("2026-01-01T10:01:00Z"), "1970-01-01T00:01:00Z"), (vec![], None));
    // Put forward: one job makes up for all.
    let (made, _) = look(&ran("2026-01-01T10:01:00Z"), "2026-03-01T10:00:30Z");
    assert_eq!(made[0], "make \"c-29539320\" \"2026-03-01T10:00:00Z\"");
    assert_eq!(made[1..], ["tell SuccessfulCreate", "tell TooManyMissedTimes"]);
    // Put back a little: what has run does not run again.
    assert_eq!(look(&ran("2026-01-01T10:31:00Z"), "2026-01-01T10:10:00Z"), (vec![], Some(1_318_680)));
    // Put back far: the schedule goes on from here.
    assert_eq!(look(&ran("2036-01-01T10:31:00Z"), "2026-01-01T10:10:30Z"), (vec![], Some(30_100)));
}

#[test]
fn a_clock_that_is_set_is_looked_at() {
    let cluster = cluster(json!({}), json!({}), &[]);
    let woken = Controllers::builtin().hearing(News::ClockSet, &cluster);
    assert_eq!(woken.iter().map(ToString::to_string).collect::<Vec<_>>(), [key(&CRON_JOBS, "c").to_string()]);
}

/// Nobody wakes but for what is due: a clock that is right may have drifted a little in a long wait.
#[test]
fn one_wait_and_what_drift_leaves_of_it() {
    let yearly = cluster(json!({"schedule": "0 0 1 1 *"}), json!({"lastScheduleTime": "2026-01-01T00:00:00Z"}), &[]);
    let year_ms: u128 = 365 * 24 * 3_600_000;
    assert_eq!(look(&yearly, "2026-01-01T00:00:00Z").1, Some(year_ms - year_ms / 1000));
    assert_eq!(look(&yearly, "2026-12-31T23:50:00Z").1, Some(600_100));
}

#[test]
fn what_no_clock_can_show() {
    let outcome = |spec: Value| look(&cluster(spec, json!({}), &[]), "2026-01-01T10:01:00Z");
    assert_eq!(outcome(json!({"timeZone": "Mars/Olympus"})), (vec!["tell UnknownTimeZone".to_owned()], None));
    assert_eq!(outcome(json!({"schedule": "0 0 31 2 *"})), (vec!["tell InvalidSchedule".to_owned()], None));
    assert_eq!(outcome(json!({"schedule": "x"})), (vec!["tell UnparseableSchedule".to_owned()], None));
}

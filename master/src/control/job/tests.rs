//! A job and its pods as documents in, what is done with them out.

use super::JOBS;
use crate::control::intent::Intent;
use crate::control::view::PODS;
use crate::control::{Cluster, Controllers, Look, Now};
use crate::store::{Event, Stored};
use coracle_api::kinds::Kinds;
use coracle_api::meta::{Key, Resource, Revision, Time};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const BEGIN_S: i64 = 1_800_000_000;

/// Objects by resource and name, played one after the other, a second apart.
struct World {
    cluster: Cluster,
    revision: u64,
    clock_s: u64,
}

fn key(resource: &Resource, name: &str) -> Key {
    Key { resource: resource.clone(), namespace: "ns".into(), name: name.into() }
}

/// Null takes away.
fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (name, value) in more {
                if value.is_null() {
                    into.remove(&name);
                } else {
                    merge(into.entry(name).or_insert(Value::Null), value);
                }
            }
        }
        (into, more) => *into = more,
    }
}

impl World {
    fn of(spec: Value, status: Value) -> World {
        let cluster = Controllers::builtin().cluster(&Kinds::builtin(), Default::default());
        let mut world = World { cluster, revision: 0, clock_s: 100 };
        world.job(spec, status);
        world
    }

    fn job(&mut self, spec: Value, status: Value) {
        let mut job = json!({
            "metadata": {"name": "j", "namespace": "ns", "uid": "u"},
            "spec": {
                "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
                "podReplacementPolicy": "TerminatingOrFailed",
                "selector": {"matchLabels": {"job": "j"}},
                "template": {"metadata": {"labels": {"job": "j"}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}},
            },
        });
        merge(&mut job["spec"], spec);
        job["status"] = status;
        self.put(&JOBS, "j", job);
    }

    fn put(&mut self, resource: &Resource, name: &str, mut object: Value) {
        self.revision += 1;
        self.clock_s += 1;
        let key = Arc::new(key(resource, name));
        let new = (!object.is_null()).then(|| Stored::of(key.clone(), Revision(self.revision), &mut object));
        let event = Event { revision: Revision(self.revision), key, old: None, new, renewed: false };
        self.cluster.apply(&event, Duration::from_secs(self.clock_s));
    }

    /// Of the job, and not counted yet.
    fn pod(&mut self, name: &str, more: Value) {
        let mut pod = json!({
            "metadata": {
                "name": name, "namespace": "ns", "uid": name, "labels": {"job": "j"},
                "finalizers": ["batch.kubernetes.io/job-tracking"],
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u",
                    "controller": true}],
            },
            "spec": {"containers": [{"name": "c"}], "nodeName": "n"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        merge(&mut pod, more);
        self.put(&PODS, name, pod);
    }

    fn look(&self, row: &str, of: Key, after_s: u64) -> (Vec<String>, Option<u64>) {
        let controllers = Controllers::builtin();
        let owner = controllers.owner(row, of).expect("a row of the table");
        let wall = Time::from_seconds(BEGIN_S).expect("a time");
        let now = Now { wall, uptime: Duration::from_secs(self.clock_s + after_s) };
        let look = Look {
            cluster: &self.cluster,
            key: &owner.key,
            now,
            refusal: None,
            contents: None,
            memory: None,
            memo: None,
        };
        let decision = (controllers.row(&owner).decide)(&look);
        (decision.intents.iter().map(line).collect(), decision.wake_at.map(|at| at.as_secs() - self.clock_s))
    }

    fn check(&self, expected: &[&str]) {
        assert_eq!(self.look("jobs", key(&JOBS, "j"), 0).0, expected);
    }
}

fn line(intent: &Intent) -> String {
    match intent {
        Intent::Create { object, .. } => {
            let (meta, annotations) = (&object["metadata"], &object["metadata"]["annotations"]);
            let more = if annotations.is_null() { String::new() } else { format!(" {annotations}") };
            format!("make {}{more}", meta["generateName"].as_str().unwrap_or_default())
        }
        Intent::Delete { key, .. } => format!("delete {}", key.name),
        Intent::Collect { key, foreground, .. } => format!("collect {} {foreground}", key.name),
        Intent::Release { key, .. } => format!("release {}", key.name),
        Intent::Update { key, object, .. } => {
            let meta = &object["metadata"];
            format!("change {}: {} {}", key.name, meta["ownerReferences"].is_array(), meta["finalizers"].is_array())
        }
        Intent::Status { status, .. } => {
            let mut status = status.clone();
            let conditions = status["conditions"].take();
            let conditions = conditions.as_array().map(Vec::as_slice).unwrap_or_default().iter();
            let named = conditions.map(|one| {
                format!("{}={}", one["type"].as_str().unwrap_or_default(), one["status"].as_str().unwrap_or_default())
            });
            let named: Vec<String> = named.collect();
            for field in ["conditions", "startTime"] {
                status.as_object_mut().map(|status| status.remove(field));
            }
            format!("status {status} {}", named.join(" ")).trim_end().to_owned()
        }
        Intent::Tell(tale) => format!("tell {}", tale.reason),
        other => format!("{other:?}"),
    }
}

fn succeeded() -> Value {
    json!({"status": {"phase": "Succeeded", "conditions": null}})
}

fn failed(code: i64) -> Value {
    let state = json!({"terminated": {"exitCode": code, "finishedAt": "2027-01-01T00:00:00Z"}});
    json!({"status": {"phase": "Failed", "conditions": null, "containerStatuses": [{"name": "c", "state": state}]}})
}

fn counts(more: Value) -> Value {
    merged(
        json!({"startTime": "2027-01-01T00:00:00Z", "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}),
        more,
    )
}

fn merged(mut status: Value, more: Value) -> Value {
    merge(&mut status, more);
    status
}

#[test]
fn a_pod_is_noted_and_let_go_and_counted() {
    let mut world = World::of(json!({}), json!({}));
    world.check(&["make j-", "tell SuccessfulCreate"]);
    world.pod("p", json!({}));
    world.check(&["status {\"active\":1,\"ready\":1,\"terminating\":0,\"uncountedTerminatedPods\":{}}"]);
    world.pod("p", succeeded());
    world.check(&["status {\"ready\":0,\"terminating\":0,\"uncountedTerminatedPods\":{\"succeeded\":[\"p\"]}} \
                   SuccessCriteriaMet=True"]);
    let met = json!([{"type": "SuccessCriteriaMet", "status": "True", "reason": "r", "message": "m"}]);
    let noted = counts(json!({"uncountedTerminatedPods": {"succeeded": ["p"]}, "conditions": met}));
    world.job(json!({}), noted.clone());
    world.check(&["release p"]);
    let mut released = succeeded();
    released["metadata"]["finalizers"] = Value::Null;
    world.pod("p", released);
    let end = |counts: &str| {
        format!(
            "status {{\"completionTime\":\"2027-01-15T08:00:00Z\",\"ready\":0,{counts}}} SuccessCriteriaMet=True \
             Complete=True"
        )
    };
    let last = end("\"succeeded\":1,\"terminating\":0,\"uncountedTerminatedPods\":{}");
    world.check(&[&last, "tell Completed"]);
    // It is counted just the same where it is gone by then.
    world.put(&PODS, "p", Value::Null);
    world.check(&[&last, "tell Completed"]);
    // It began by a clock that was set back since.
    world.job(json!({}), merged(noted, json!({"startTime": "2030-01-01T00:00:00Z"})));
    world.check(&[&last.replace("2027-01-15T08:00:00Z", "2030-01-01T00:00:00Z"), "tell Completed"]);
    // What cannot be read may be it.
    world.cluster.damaged.insert(key(&PODS, "j-abcde"));
    world.check(&[]);
}

#[test]
fn failures_hold_the_next_one_back() {
    let mut world = World::of(json!({}), json!({}));
    world.job(json!({}), counts(json!({})));
    world.pod("p", json!({}));
    world.pod("p", failed(1));
    let (intents, wake) = world.look("jobs", key(&JOBS, "j"), 4);
    assert_eq!(intents, ["status {\"ready\":0,\"terminating\":0,\"uncountedTerminatedPods\":{\"failed\":[\"p\"]}}"]);
    assert_eq!(wake, Some(10));
    assert_eq!(world.look("jobs", key(&JOBS, "j"), 10).0, ["make j-", "tell SuccessfulCreate"]);
    // The second has to wait for twice as long, though the first is gone.
    world.job(json!({}), counts(json!({"failed": 1})));
    world.put(&PODS, "p", Value::Null);
    world.pod("q", json!({}));
    world.pod("q", failed(1));
    world.job(json!({}), counts(json!({"failed": 1, "uncountedTerminatedPods": {"failed": ["q"]}})));
    assert_eq!(world.look("jobs", key(&JOBS, "j"), 0).1, Some(20));
    // A success makes all of it good.
    world.job(json!({"completions": 2}), counts(json!({"failed": 2, "succeeded": 1})));
    world.put(&PODS, "q", Value::Null);
    assert_eq!(world.look("jobs", key(&JOBS, "j"), 0).0, ["make j-", "tell SuccessfulCreate"]);
}

#[test]
fn the_end_of_a_job_that_fails() {
    let spec = json!({"parallelism": 2, "completions": 2, "backoffLimit": 0});
    let mut world = World::of(spec.clone(), counts(json!({})));
    world.pod("p", failed(1));
    world.pod("q", json!({}));
    let noted = "status {\"ready\":0,\"terminating\":1,\"uncountedTerminatedPods\":{\"failed\":[\"p\",\"q\"]}} \
                 FailureTarget=True";
    world.check(&["delete q", "tell SuccessfulDelete", noted]);
    let target = json!([{"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"}]);
    let waiting = json!({"failed": ["p", "q"]});
    world
        .job(spec.clone(), counts(json!({"terminating": 1, "uncountedTerminatedPods": waiting, "conditions": target})));
    let deleting = json!({"deletionTimestamp": "2027-01-01T00:00:00Z"});
    world.pod("q", json!({"metadata": deleting.clone()}));
    world.check(&["release p", "release q"]);
    let released = |mut pod: Value| {
        pod["metadata"]["finalizers"] = Value::Null;
        pod
    };
    world.pod("p", released(failed(1)));
    world.pod("q", released(json!({"metadata": deleting})));
    let all = "status {\"failed\":2,\"ready\":0,\"terminating\":1,\"uncountedTerminatedPods\":{}} FailureTarget=True";
    world.check(&[all]);
    // Only when the last one has ended.
    world.put(&PODS, "q", Value::Null);
    world.check(&[
        "status {\"failed\":2,\"ready\":0,\"terminating\":0,\"uncountedTerminatedPods\":{}} FailureTarget=True \
         Failed=True",
        "tell BackoffLimitExceeded",
    ]);
}

#[test]
fn what_is_too_much_is_let_go_first() {
    let mut world = World::of(json!({"parallelism": 1, "completions": 3}), counts(json!({"active": 2, "ready": 2})));
    world.pod("a", json!({}));
    world.pod("b", json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
    world.check(&["release b"]);
    world.pod("b", json!({"metadata": {"finalizers": null}}));
    world.check(&[
        "delete b",
        "tell SuccessfulDelete",
        "status {\"active\":1,\"ready\":1,\"terminating\":1,\"uncountedTerminatedPods\":{}}",
    ]);
}

#[test]
fn indexes_are_made_once() {
    let spec = json!({"completionMode": "Indexed", "parallelism": 3, "completions": 4, "backoffLimitPerIndex": 1});
    let mut world = World::of(spec.clone(), counts(json!({"completedIndexes": "0", "succeeded": 1})));
    let index = |index: &str| json!({"metadata": {"annotations": {"batch.kubernetes.io/job-completion-index": index}}});
    world.pod("one", index("1"));
    let made = |index: i32, failures: i32| {
        format!(
            "make j-{index}- \
             {{\"batch.kubernetes.io/job-completion-index\":\"{index}\",\"batch.kubernetes.io/\
             job-index-failure-count\":\"{failures}\"}}"
        )
    };
    world.check(&[&made(2, 0), "tell SuccessfulCreate", &made(3, 0), "tell SuccessfulCreate"]);
    let mut over = index("2");
    merge(&mut over, failed(1));
    world.pod("two", index("2"));
    world.pod("two", over);
    world.pod("three", index("3"));
    // It waits for its turn, and what it knows goes into the next; so it is not let go before.
    let (intents, wake) = world.look("jobs", key(&JOBS, "j"), 0);
    let active = "\"active\":2,\"completedIndexes\":\"0\",\"failedIndexes\":\"\"";
    assert_eq!(
        intents,
        [format!("status {{{active},\"ready\":2,\"succeeded\":1,\"terminating\":0,\"uncountedTerminatedPods\":{{}}}}")]
    );
    assert_eq!(wake, Some(9));
    let later = world.look("jobs", key(&JOBS, "j"), 12).0;
    assert_eq!(later, [made(2, 1), "tell SuccessfulCreate".to_owned()]);
    // The second of an index, and one that has none, are too many.
    world.put(&PODS, "two", Value::Null);
    world.pod("again", index("3"));
    world.pod("none", json!({}));
    let going = world.look("jobs", key(&JOBS, "j"), 0).0;
    assert_eq!(going.len(), 2, "{going:?}");
    assert!(going.contains(&"release none".to_owned()), "{going:?}");
}

#[test]
fn suspended_and_resumed() {
    let mut world = World::of(json!({"suspend": true}), json!({}));
    let counts_of = "\"ready\":0,\"terminating\":0,\"uncountedTerminatedPods\":{}";
    world.check(&[&format!("status {{{counts_of}}} Suspended=True"), "tell Suspended"]);
    let suspended = json!([{"type": "Suspended", "status": "True"}]);
    world.job(json!({"parallelism": 0}), counts(json!({"conditions": suspended})));
    world.check(&[&format!("status {{{counts_of}}} Suspended=False"), "tell Resumed"]);
    world.job(json!({"suspend": false, "parallelism": 0}), counts(json!({})));
    world.check(&[]);
}

#[test]
fn pods_come_and_leave() {
    let mut world = World::of(json!({"parallelism": 0}), counts(json!({})));
    world.pod("orphan", json!({"metadata": {"ownerReferences": null, "finalizers": null}}));
    world.pod("other", json!({"metadata": {"labels": null}}));
    let taken = world.look("jobs", key(&JOBS, "j"), 0).0;
    assert_eq!(taken[..2], ["change other: false false", "change orphan: true true"]);
}

#[test]
fn deadlines_pass_whatever_the_clock_says() {
    let mut world = World::of(json!({"activeDeadlineSeconds": 60}), json!({}));
    world.pod("p", json!({}));
    // The wall clock of these tests is years away from this.
    let running = json!({"startTime": "2020-01-01T00:00:00Z", "active": 1, "ready": 1});
    world.job(json!({"activeDeadlineSeconds": 60}), counts(running));
    let (intents, wake) = world.look("jobs", key(&JOBS, "j"), 59);
    assert_eq!((intents.len(), wake), (0, Some(60)));
    assert_eq!(world.look("jobs", key(&JOBS, "j"), 60).0[0], "delete p");
}

#[test]
fn ended_jobs_go_in_their_time() {
    let complete =
        json!({"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2027-01-15T07:59:30Z"}]});
    let spec = json!({"ttlSecondsAfterFinished": 40});
    let mut world = World::of(spec.clone(), json!({}));
    world.job(spec.clone(), complete.clone());
    let job = || key(&JOBS, "j");
    assert_eq!(world.look("ended jobs", job(), 0), (vec![], Some(40)));
    assert_eq!(world.look("ended jobs", job(), 40).0, ["collect j true"]);
    // Found by a master that starts: the wall clock says how long ago it was.
    assert_eq!(World::of(spec, complete).look("ended jobs", job(), 0), (vec![], Some(10)));
}

#[test]
fn nobody_waits_for_a_job_that_is_over() {
    let mut world = World::of(json!({}), counts(json!({})));
    world.pod("p", succeeded());
    let orphaned = |world: &World| world.look("job pods", key(&PODS, "p"), 0).0;
    assert_eq!(orphaned(&world), [""; 0]);
    world.job(json!({}), json!({"conditions": [{"type": "Failed", "status": "True"}]}));
    assert_eq!(orphaned(&world), ["release p"]);
    world.put(&JOBS, "j", Value::Null);
    assert_eq!(orphaned(&world), ["release p"]);
    world.cluster.damaged.insert(key(&JOBS, "j"));
    assert_eq!(orphaned(&world), [""; 0], "unknown is not absent");
}

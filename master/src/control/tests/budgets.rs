//! Disruption budgets over clusters made of documents.

use super::*;
use coracle_api::strategy::eviction::{EvictionVerdict as Verdict, judge};

fn budget(spec: Value, more: Value) -> (&'static str, Value) {
    let mut budget = json!({"metadata": {"name": "b", "namespace": "default", "uid": "uid-b", "generation": 2},
        "spec": {
        "selector": {"matchLabels": {"app": "web"}}}});
    merge(&mut budget["spec"], spec);
    merge(&mut budget, more);
    ("poddisruptionbudgets", budget)
}

/// A pod of this owner.
fn of(name: &str, (kind, owner): (&str, &str), ready: bool) -> (&'static str, Value) {
    let (plural, mut pod) = running(name, "n", "10.0.0.1", ready);
    let version = if kind == "ReplicationController" { "v1" } else { "apps/v1" };
    let version = if kind == "Widget" { "example.com/v1" } else { version };
    let owner =
        json!({"apiVersion": version, "kind": kind, "name": owner, "uid": format!("uid-{owner}"), "controller": true});
    pod["metadata"]["ownerReferences"] = json!([owner]);
    (plural, pod)
}

fn workload(plural: &'static str, name: &str, replicas: i64, owner: Option<&str>) -> (&'static str, Value) {
    let mut workload =
        json!({"metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": {"replicas": replicas}});
    if let Some(owner) = owner {
        workload["metadata"]["ownerReferences"] = json!([
            {
                "apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": format!("uid-{owner}"),
                "controller": true,
            },
        ]);
    }
    (plural, workload)
}

fn of_budget() -> Key {
    key("poddisruptionbudgets", "b")
}

/// The status that the budget is given, and what is told beside it.
fn counted(objects: &[(&'static str, Value)]) -> (Value, Vec<String>) {
    let decision = decide(&cluster(objects), "budgets", of_budget(), at(MINUTE));
    let mut intents = decision.intents.into_iter();
    let Some(Intent::Status { status, .. }) = intents.next() else { return (Value::Null, Vec::new()) };
    let tales = intents.map(|intent| match intent {
        Intent::Tell(tale) => format!("{} {}", tale.about.name, tale.reason),
        other => panic!("{other:?}"),
    });
    (status, tales.collect())
}

#[test]
fn budgets_are_counted() {
    /// Healthy, desired, expected, allowed.
    fn check(
        spec: Value,
        objects: &[(&'static str, Value)],
        expected: [i64; 4],
        reason: &str,
        words: &str,
        expected_tales: &[&str],
    ) {
        let mut all = objects.to_vec();
        all.push(budget(spec.clone(), json!({})));
        let (status, tales) = counted(&all);
        let fields = ["currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"];
        assert_eq!(fields.map(|field| status[field].as_i64().unwrap()), expected, "{spec} {status}");
        let condition = &status["conditions"][0];
        assert_eq!(
            (condition["reason"].as_str(), condition["message"].as_str()),
            (Some(reason), Some(words)),
            "{spec}"
        );
        assert_eq!(condition["status"], if expected[3] > 0 { "True" } else { "False" });
        assert_eq!(status["observedGeneration"].is_null(), reason == "SyncFailed", "{spec}");
        assert_eq!(tales, expected_tales, "{spec}");
    }
    let rc = ("ReplicationController", "rc");
    let three = |ready: [bool; 3]| {
        let names = ["p1", "p2", "p3"];
        let mut all: Vec<_> = names.into_iter().zip(ready).map(|(name, ready)| of(name, rc, ready)).collect();
        let (plural, mut controller) = controller(3);
        merge(&mut controller, json!({"metadata": {"name": "rc"}}));
        all.push((plural, controller));
        all
    };
    let (yes, no) = ("SufficientPods", "InsufficientPods");
    let all = three([true; 3]);
    check(json!({"minAvailable": 2}), &all, [3, 2, 3, 1], yes, "", &[]);
    check(json!({"minAvailable": 3}), &all, [3, 3, 3, 0], no, "", &[]);
    check(json!({"minAvailable": 9}), &all, [3, 9, 3, 0], no, "", &[]);
    check(json!({"minAvailable": "50%"}), &all, [3, 2, 3, 1], yes, "", &[]);
    check(json!({"minAvailable": "100%"}), &all, [3, 3, 3, 0], no, "", &[]);
    check(json!({"minAvailable": "0%"}), &all, [3, 0, 3, 3], yes, "", &[]);
    check(json!({"maxUnavailable": 1}), &all, [3, 2, 3, 1], yes, "", &[]);
    check(json!({"maxUnavailable": 7}), &all, [3, 0, 3, 3], yes, "", &[]);
    check(json!({"maxUnavailable": "34%"}), &all, [3, 1, 3, 2], yes, "", &[]);
    check(json!({"maxUnavailable": 0}), &all, [3, 3, 3, 0], no, "", &[]);
    check(json!({"maxUnavailable": 1}), &three([true, true, false]), [2, 2, 3, 0], no, "", &[]);
    check(json!({}), &all, [3, 0, 0, 0], no, "", &[]);
    // Nothing is guarded: nothing is allowed, whatever comes.
    check(json!({"minAvailable": 0, "selector": null}), &all, [0, 0, 0, 0], no, "", &["b NoPods"]);
    check(json!({"minAvailable": 0, "selector": {"matchLabels": null}}), &all, [3, 0, 3, 3], yes, "", &[]);
    check(
        json!({"minAvailable": "50%", "selector": {"matchLabels": {"app": "db"}}}),
        &all,
        [0, 0, 0, 0],
        no,
        "",
        &["b NoPods"],
    );
    // Pods that nobody keeps in number are pods, but no share of anything.
    let alone = [running("p1", "n", "10.0.0.1", true), running("p2", "n", "10.0.0.2", true)];
    check(json!({"minAvailable": 1}), &alone, [2, 1, 2, 1], yes, "", &[]);
    check(json!({"maxUnavailable": 1}), &alone, [2, 0, 0, 0], no, "", &["b UnmanagedPods"]);
    // Every owner once; a deployment decides for its replica sets.
    let sets = [
        of("a", ("ReplicaSet", "old"), true),
        of("b", ("ReplicaSet", "new"), true),
        of("c", ("ReplicaSet", "lone"), true),
        of("d", ("StatefulSet", "sts"), true),
        workload("replicasets", "old", 1, Some("web")),
        workload("replicasets", "new", 3, Some("web")),
        workload("replicasets", "lone", 2, Some("gone")),
        workload("deployments", "web", 4, None),
        workload("statefulsets", "sts", 1, None),
    ];
    check(json!({"maxUnavailable": "50%"}), &sets, [4, 3, 7, 1], yes, "", &[]);
    // Owners that nobody can ask.
    for (owner, words) in [
        (("ReplicaSet", "none"), "found no controllers for pod \"p\""),
        (("DaemonSet", "ds"), "daemonsets.apps does not implement the scale subresource"),
        (("Widget", "w"), "no matches for kind \"Widget\" in version \"example.com/v1\""),
    ] {
        let tales = &["b CalculateExpectedPodCountFailed"];
        check(json!({"maxUnavailable": 1}), &[of("p", owner, true)], [0, 0, 0, 0], "SyncFailed", words, tales);
        check(json!({"minAvailable": 1}), &[of("p", owner, true)], [1, 1, 1, 0], no, "", &[]);
    }
}

#[test]
fn what_cannot_be_read_may_be_guarded() {
    let mut cluster = cluster(&[running("p", "n", "10.0.0.1", true), budget(json!({"minAvailable": 0}), json!({}))]);
    cluster.damaged.insert(key("pods", "q"));
    let Intent::Status { status, .. } = &decide(&cluster, "budgets", of_budget(), at(MINUTE)).intents[0] else {
        panic!("it is written")
    };
    let words = "pods/default/q is damaged, and may be one of the pods that this budget guards";
    assert_eq!((&status["disruptionsAllowed"], &status["conditions"][0]["message"]), (&json!(0), &json!(words)));
}

#[test]
fn a_counted_budget_is_left_alone() {
    let objects = [running("p", "n", "10.0.0.1", true), budget(json!({"minAvailable": 0}), json!({}))];
    let (status, _) = counted(&objects);
    let [pod, mut known] = objects;
    known.1["status"] = status.clone();
    assert_eq!(
        decide(&cluster(&[pod.clone(), known.clone()]), "budgets", of_budget(), at(MINUTE)),
        Decision::default()
    );
    // The time stays where what it says does.
    known.1["status"]["conditions"][0]["lastTransitionTime"] = "2020-01-01T00:00:00Z".into();
    known.1["metadata"]["generation"] = 3.into();
    let (status, _) = counted(&[pod, known]);
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["observedGeneration"], &condition["lastTransitionTime"]),
        (&json!(3), &json!("2020-01-01T00:00:00Z"))
    );
}

#[test]
fn the_evicted_are_awaited() {
    fn check(disrupted: Value, more: Value, healthy: i64, left: Value, expected_tales: &[&str], wake_s: Option<u64>) {
        let (plural, mut pod) = running("p", "n", "10.0.0.1", true);
        merge(&mut pod, more);
        let other = running("q", "n", "10.0.0.2", true);
        let objects =
            [(plural, pod), other, budget(json!({"minAvailable": 1}), json!({"status": {"disruptedPods": disrupted}}))];
        let (status, tales) = counted(&objects);
        assert_eq!((&status["currentHealthy"], &status["disruptedPods"]), (&healthy.into(), &left), "{disrupted}");
        assert_eq!(tales, expected_tales, "{disrupted}");
        let wake_at = decide(&cluster(&objects), "budgets", of_budget(), at(MINUTE)).wake_at;
        assert_eq!(wake_at, wake_s.map(|s| MINUTE + Duration::from_secs(s)), "{disrupted}");
    }
    let ago = |s: i64| json!({"p": Time::from_seconds(1_800_000_000 - s).unwrap().to_string()});
    check(json!({}), json!({}), 2, Value::Null, &[], None);
    check(ago(0), json!({}), 1, ago(0), &[], Some(120));
    check(ago(119), json!({}), 1, ago(119), &[], Some(1));
    check(ago(120), json!({}), 2, Value::Null, &["p NotDeleted"], None);
    // It goes, or has gone: what is awaited has happened.
    check(ago(1), json!({"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}}), 1, Value::Null, &[], None);
    check(json!({"gone": "2027-01-15T08:00:00Z"}), json!({}), 2, Value::Null, &[], None);
}

/// Who evicts and who counts, in turn: never more are away than may be.
#[test]
fn evictions_use_up_what_was_counted() {
    let pods = ["p", "q", "r"].map(|name| running(name, "n", "10.0.0.1", true));
    let mut document = budget(json!({"minAvailable": 1}), json!({})).1;
    let count = |document: &mut Value| {
        let mut objects = pods.to_vec();
        objects.push(("poddisruptionbudgets", document.clone()));
        let (status, _) = counted(&objects);
        if !status.is_null() {
            document["status"] = status;
        }
    };
    let now = at(MINUTE).wall;
    let evict = |document: &Value, nth: usize| judge(&pods[nth].1, std::slice::from_ref(document), now);
    assert!(matches!(evict(&document, 0), Verdict::Refused { processing: true, .. }), "nobody has counted");
    for (nth, left) in [(0, 1), (1, 0)] {
        count(&mut document);
        let Verdict::Counted(less) = evict(&document, nth) else { panic!("one more may go") };
        document = less;
        count(&mut document);
        assert_eq!(document["status"]["disruptionsAllowed"], left);
    }
    assert!(matches!(evict(&document, 2), Verdict::Refused { processing: false, .. }));
}

#[test]
fn a_pod_that_stays_says_so() {
    let doomed = |more: Value| {
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "lastTransitionTime": Time::from_seconds(1_800_000_000 - 60).unwrap().to_string()});
        let (plural, mut pod) = running("p", "n", "10.0.0.1", true);
        pod["status"]["conditions"].as_array_mut().unwrap().push(condition);
        merge(&mut pod, more);
        cluster(&[(plural, pod)])
    };
    let p = || key("pods", "p");
    let minutes =
        |n: u32, wall: i64| Now { wall: Time::from_seconds(1_800_000_000 + wall).unwrap(), uptime: MINUTE * n };
    let waits = decide(&doomed(json!({})), "disruption", p(), minutes(1, 0));
    assert_eq!(waits, Decision::later(MINUTE * 2));
    let decision = decide(&doomed(json!({})), "disruption", p(), minutes(2, 60));
    let Intent::Status { status, .. } = &decision.intents[0] else { panic!("it is written") };
    let expected = json!({
        "type": "DisruptionTarget", "status": "False", "lastProbeTime": null,
        "lastTransitionTime": "2027-01-15T08:01:00Z",
    });
    assert_eq!((&status["conditions"][0]["type"], &status["conditions"][1]), (&json!("Ready"), &expected));
    for goes in
        [json!({"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}}), json!({"status": {"phase": "Failed"}})]
    {
        assert_eq!(decide(&doomed(goes), "disruption", p(), minutes(2, 60)), Decision::default());
    }
}

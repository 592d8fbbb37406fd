//! Node life: silence, taints, and the pods that leave for them.

use super::super::expulsion;
use super::super::intent::Memo;
use super::*;
use coracle_api::meta::Key;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A look at a key, given what the last one left to remember.
fn look(cluster: &Cluster, controller: &str, key: Key, uptime: Duration, memo: Option<&Memo>) -> Decision {
    let controllers = Controllers::builtin();
    let owner = controllers.owner(controller, key).expect("a row of the table");
    (controllers.row(&owner).decide)(&Look {
        cluster,
        key: &owner.key,
        now: at(uptime),
        refusal: None,
        contents: None,
        memory: None,
        memo,
    })
}

fn statuses(decision: &Decision) -> Vec<String> {
    let text = |intent: &Intent| match intent {
        Intent::Status { key, status, .. } => Some(format!("{} {}", key.name, status["conditions"][0]["status"])),
        _ => None,
    };
    decision.intents.iter().filter_map(text).collect()
}

fn put(cluster: &mut Cluster, (plural, object): (&'static str, Value), revision: u64, uptime: Duration) {
    let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
    cluster.apply(&event(plural, revision, Some(object), &name), uptime);
}

#[test]
fn silent_nodes() {
    let n1 = || node_key("n1");
    let mut cluster =
        cluster(&[node("n1", json!({})), running("a", "n1", "10.0.0.2", true), running("b", "n2", "10.0.0.3", true)]);
    let early = decide(&cluster, "nodes", n1(), at(seconds(49)));
    assert_eq!((early.intents.len(), early.wake_at), (0, Some(seconds(50))));
    // A beat moves the moment, whether by status or by lease, to the next round.
    assert!(!cluster.hear("n1", seconds(30)));
    assert_eq!(decide(&cluster, "nodes", n1(), at(seconds(50))).wake_at, Some(seconds(80)));
    let lease =
        Arc::new(Key { resource: super::super::view::LEASES, namespace: "kube-node-lease".into(), name: "n1".into() });
    let stored = Stored::of(lease.clone(), Revision(9), &mut json!({"metadata": {"name": "n1"}}));
    cluster
        .apply(&Event { revision: Revision(9), key: lease, old: None, new: Some(stored), renewed: false }, seconds(32));
    assert_eq!(decide(&cluster, "nodes", n1(), at(seconds(80))).wake_at, Some(seconds(85)));
    let late = decide(&cluster, "nodes", n1(), at(seconds(85)));
    assert_eq!(statuses(&late), ["n1 \"Unknown\""]);
    let Intent::Status { status, .. } = &late.intents[0] else { panic!("{late:?}") };
    let (_, mut silent) = node("n1", json!({}));
    silent["status"] = status.clone();
    assert_eq!(status["conditions"].as_array().map(Vec::len), Some(4));
    put(&mut cluster, ("nodes", silent), 20, seconds(85));
    let late = decide(&cluster, "nodes", n1(), at(seconds(85)));
    assert_eq!(statuses(&late), ["a \"False\""]);
    let tainted = |intent: &Intent| {
        matches!(intent,
        Intent::Update { object, .. } if object["spec"]["taints"][0]["key"] == UNREACHABLE)
    };
    assert!(late.intents.iter().any(tainted), "{late:?}");
}

#[test]
fn marks_follow_conditions() {
    let check = |more: Value, expected: Value| {
        let decision = decide(&cluster(&[node("n1", more)]), "nodes", node_key("n1"), at(seconds(1)));
        let written = decision.intents.iter().find_map(|intent| match intent {
            Intent::Update { object, .. } => Some(object.clone()),
            _ => None,
        });
        let keys = |object: Value| {
            let taints = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
            taints.iter().map(|taint| taint["key"].clone()).collect::<Value>()
        };
        assert_eq!(written.map(keys), Some(expected).filter(|expected| !expected.is_null()));
    };
    let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
    check(json!({}), Value::Null);
    check(json!({"spec": {"taints": [taint(NOT_READY)]}}), json!([]));
    check(json!({"spec": {"taints": [taint("mine"), taint(NOT_READY)]}}), json!(["mine"]));
    check(json!({"spec": {"unschedulable": true}}), json!(["node.kubernetes.io/unschedulable"]));
    let conditions = json!([{"type": "MemoryPressure", "status": "True"}, {"type": "PIDPressure", "status": "True"},
        {"type": "Ready", "status": "False"}]);
    let wanted = json!(["node.kubernetes.io/memory-pressure", "node.kubernetes.io/pid-pressure", NOT_READY]);
    check(json!({"status": {"conditions": conditions}}), wanted);
    // What is new comes first, what is over goes in the next write.
    let unready = json!({
        "status": {"conditions": [{"type": "Ready", "status": "False"}]}, "spec": {"taints": [taint(UNREACHABLE)]},
    });
    check(unready, json!([UNREACHABLE, NOT_READY]));
    check(json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}}}), json!([]));
}

/// Which nodes are given up, and which are spared.
#[test]
fn nodes_are_given_up_one_by_one() {
    let unready = |name: &str| node(name, json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}));
    let look =
        |cluster: &Cluster, uptime, memo: Option<&Memo>| look(cluster, "expulsion", expulsion::key(), uptime, memo);
    let named = |decision: &Decision| {
        let name = |intent: &Intent| match intent {
            Intent::Update { key, object, .. } => {
                Some(format!("{} {}", key.name, object["spec"]["taints"][0]["effect"]))
            }
            _ => None,
        };
        decision.intents.iter().filter_map(name).collect::<Vec<String>>()
    };
    let mut three = cluster(&[node("n1", json!({})), unready("n2"), unready("n3")]);
    let first = look(&three, seconds(2), None);
    assert_eq!((named(&first), first.wake_at), (vec![], Some(seconds(5))), "after the next round");
    let halfway = Duration::from_millis(7_500);
    let next = look(&three, seconds(5), first.memo.as_ref());
    assert_eq!((named(&next), next.wake_at), (vec![], Some(halfway)), "who fell silent with them is seen by then");
    let then = look(&three, halfway, next.memo.as_ref());
    assert_eq!((named(&then), then.wake_at), (vec!["n2 \"NoExecute\"".to_owned()], Some(halfway + seconds(10))));
    // All are down: nobody is given up, and who was is spared.
    let conditions = json!([{"type": "Ready", "status": "Unknown"}]);
    let taints = json!([{"key": UNREACHABLE, "effect": "NoExecute"}]);
    put(&mut three, node("n1", json!({"status": {"conditions": conditions}})), 11, seconds(6));
    put(
        &mut three,
        node("n2", json!({"status": {"conditions": conditions}, "spec": {"taints": taints}})),
        12,
        seconds(6),
    );
    let all = look(&three, seconds(20), then.memo.as_ref());
    assert_eq!(named(&all), ["n2 null"]);
    let tales =
        |decision: &Decision| decision.intents.iter().filter(|intent| matches!(intent, Intent::Announce(_))).count();
    assert_eq!((tales(&first), tales(&next), tales(&all)), (0, 3, 0), "each is told of once");
    // Most of a small zone: none.
    let most = cluster(&[node("n1", json!({})), node("n2", json!({})), unready("n3"), unready("n4"), unready("n5")]);
    assert_eq!(look(&most, seconds(30), None).wake_at, None);
}

#[test]
fn pods_leave_in_their_time() {
    let with = |name: &str, tolerations: Value| {
        let mut pod = running(name, "n1", "10.0.0.2", true);
        merge(&mut pod.1, json!({"spec": {"tolerations": tolerations}}));
        pod
    };
    let expel = json!([{"key": "k", "value": "v", "effect": "NoExecute"}, {"key": "s", "effect": "NoSchedule"}]);
    let objects = [
        node("n1", json!({"spec": {"taints": expel}})),
        with("at-once", json!([])),
        with("later", json!([{"key": "k", "operator": "Exists", "tolerationSeconds": 6}])),
        with("never", json!([{"operator": "Exists"}])),
    ];
    let mut cluster = cluster(&objects);
    let look =
        |cluster: &Cluster, uptime, memo: Option<&Memo>| look(cluster, "evictions", node_key("n1"), uptime, memo);
    let first = look(&cluster, seconds(1), None);
    let doomed = |decision: &Decision| {
        let of = |intent: &Intent| match intent {
            Intent::Disrupt { key, .. } => Some(key.name.clone()),
            Intent::Announce(tale) => Some(tale.message.clone()),
            _ => None,
        };
        decision.intents.iter().filter_map(of).collect::<Vec<String>>()
    };
    assert_eq!((doomed(&first), first.wake_at), (vec!["at-once".to_owned()], Some(seconds(7))));
    // A further taint that is borne for a shorter time changes no timer that runs.
    let more = json!([{"key": "k", "value": "v", "effect": "NoExecute"}, {"key": "l", "effect": "NoExecute"}]);
    put(&mut cluster, node("n1", json!({"spec": {"taints": more}})), 20, seconds(3));
    let pod = with(
        "later",
        json!([
            {"key": "k", "operator": "Exists", "tolerationSeconds": 6},
            {"key": "l", "operator": "Exists", "tolerationSeconds": 1},
        ]),
    );
    put(&mut cluster, pod, 21, seconds(3));
    cluster.apply(&event("pods", 22, None, "at-once"), seconds(3));
    let second = look(&cluster, seconds(3), first.memo.as_ref());
    assert_eq!((doomed(&second), second.wake_at), (vec![], Some(seconds(7))));
    assert_eq!(doomed(&look(&cluster, seconds(7), second.memo.as_ref())), ["later"]);
    // The taints go before that.
    put(&mut cluster, node("n1", json!({})), 23, seconds(4));
    let spared = look(&cluster, seconds(4), second.memo.as_ref());
    assert_eq!(doomed(&spared), ["Cancelling deletion of Pod default/later"]);
    assert!(spared.memo.is_none());
}

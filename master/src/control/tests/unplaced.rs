//! Pods that end and were never placed, and pods on nodes that are out of service.

use super::super::intent::Memo;
use super::*;

fn phases(decision: &Decision) -> Vec<String> {
    let line = |intent: &Intent| match intent {
        Intent::Status { status, .. } => format!("{} {}", status["phase"], status["observedGeneration"]),
        Intent::Delete { at_once: true, .. } => "goes".to_owned(),
        other => format!("{other:?}"),
    };
    decision.intents.iter().map(line).collect()
}

#[test]
fn who_was_never_placed_is_failed_in_the_end() {
    let held = json!({
        "generation": 2, "finalizers": ["a.io/b"], "deletionTimestamp": "2027-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
    });
    let of = |more: Value, s: u64, memo: Option<&Memo>| {
        let mut all = json!({"metadata": held});
        merge(&mut all, more);
        let (cluster, controllers) = (cluster(&[pod("a", all)]), Controllers::builtin());
        let owner = controllers.owner("unplaced", key("pods", "a")).expect("a row of the table");
        let now = at(Duration::from_secs(s));
        let look = Look { cluster: &cluster, key: &owner.key, now, refusal: None, contents: None, memory: None, memo };
        (controllers.row(&owner).decide)(&look)
    };
    let waits = of(json!({}), 5, None);
    assert_eq!((waits.intents.len(), waits.wake_at), (0, Some(Duration::from_secs(25))));
    let memo = waits.memo.as_ref();
    assert_eq!(of(json!({}), 24, memo).wake_at, Some(Duration::from_secs(25)), "its time does not begin anew");
    assert_eq!(phases(&of(json!({}), 25, memo)), ["\"Failed\" 2"]);
    for more in [
        json!({"spec": {"nodeName": "n"}}),
        json!({"status": {"phase": "Failed"}}),
        json!({"metadata": {"deletionTimestamp": null}}),
    ] {
        assert_eq!(of(more, 25, memo), Decision::default());
    }
}

#[test]
fn a_node_out_of_service_keeps_no_pod_that_ends() {
    let of = |ready: &str, taint: &str, phase: &str, deleted: Option<&str>| {
        let taints = json!([{"key": taint, "effect": "NoExecute", "value": "nodeshutdown"}]);
        let host = node(
            "n",
            json!({"spec": {"taints": taints}, "status": {"conditions": [
            {"type": "Ready", "status": ready}]}}),
        );
        let more = json!({"metadata": {"deletionTimestamp": deleted, "generation": 1},
            "spec": {"nodeName": "n"}, "status": {"phase": phase}});
        let cluster = cluster(&[host, pod("a", more)]);
        let decision = decide(&cluster, "nodes", node_key("n"), at(Duration::from_secs(1)));
        phases(&decision).into_iter().filter(|line| line.starts_with("\"Failed") || line == "goes").collect::<Vec<_>>()
    };
    let (out, time) = ("node.kubernetes.io/out-of-service", Some("2027-01-01T00:00:00Z"));
    assert_eq!(of("False", out, "Running", time), ["\"Failed\" 1"]);
    assert_eq!(of("Unknown", out, "Failed", time), ["goes"]);
    for (ready, taint, deleted) in [("True", out, time), ("False", "a.io/b", time), ("False", out, None)] {
        assert_eq!(of(ready, taint, "Running", deleted), [""; 0], "{ready} {taint} {deleted:?}");
    }
}

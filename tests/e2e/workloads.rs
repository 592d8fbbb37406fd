//! Workloads on a real engine, as people drive them: rollouts, a database with a claim, a drained node, a job on the
//! clock.

use crate::Test;
use crate::bed::{Bed, MASTER};
use crate::images::BUSYBOX;
use crate::kubectl::newest;
use serde_json::{Value, json};
use std::path::Path;

pub const TESTS: &[Test] = &[
    ("workloads_rollout_undo_scale", rollout_undo_scale),
    ("workloads_stateful_set_over_kills", stateful_set_over_kills),
    ("workloads_drain_with_a_budget", drain_with_a_budget),
    ("workloads_jobs", jobs),
    ("workloads_autoscale_under_load", autoscale_under_load),
];

const APPS: &str = "/apis/apps/v1/namespaces/default";
const CORE: &str = "/api/v1/namespaces/default";
const SLEEP: &str = "trap 'exit 0' TERM; while true; do sleep 0.2; done";
/// Where the class `local` makes its directories.
const VOLUMES: &str = "/var/lib/coracle/volumes";

fn container(line: &str) -> Value {
    json!({"name": "c", "image": BUSYBOX, "command": ["sh", "-c", line]})
}

fn template(container: Value) -> Value {
    json!({
        "metadata": {"labels": {"app": "a"}}, "spec": {"terminationGracePeriodSeconds": 5, "containers": [container]},
    })
}

fn deployment(replicas: u32, container: Value) -> String {
    let spec =
        json!({"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template(container)});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}).to_string()
}

fn items(bed: &Bed, path: &str) -> Vec<Value> {
    bed.get(path)["items"].as_array().cloned().unwrap_or_default()
}

fn rollout_undo_scale(bed: &mut Bed) {
    bed.start();
    let kubectl = newest();
    bed.post(&format!("{APPS}/deployments"), &deployment(3, container(SLEEP)));
    let rollout = kubectl.must(&["rollout", "status", "deployment/d"]);
    assert!(rollout.contains("successfully rolled out"), "{rollout}");
    let before = bed.running_of("c");
    assert_eq!(before.len(), 3);
    kubectl.must(&["set", "env", "deployment/d", "COLOR=blue"]);
    kubectl.must(&["rollout", "status", "deployment/d"]);
    bed.until("the old ones are gone", |bed| (bed.running_of("c").len() == 3).then_some(()));
    let colors = |bed: &Bed| -> Vec<String> {
        bed.running_of("c").iter().map(|id| bed.exec(id, "echo $COLOR").unwrap_or_default().trim().to_owned()).collect()
    };
    assert_eq!(colors(bed), ["blue", "blue", "blue"]);
    assert!(bed.running_of("c").iter().all(|id| !before.contains(id)));
    kubectl.must(&["rollout", "undo", "deployment/d"]);
    kubectl.must(&["rollout", "status", "deployment/d"]);
    bed.until("the ones before are back", |bed| (colors(bed) == ["", "", ""]).then_some(()));
    let history = kubectl.must(&["rollout", "history", "deployment/d"]);
    let revisions: Vec<&str> = history
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|one| one.parse::<u32>().is_ok())
        .collect();
    assert_eq!(revisions, ["2", "3"], "{history}");
    kubectl.must(&["scale", "deployment/d", "--replicas=1"]);
    bed.until("one is left", |bed| (bed.running_of("c").len() == 1).then_some(()));
    // An image that nobody has: what runs goes on, and the rollout says that it waits.
    kubectl.must(&["set", "image", "deployment/d", "c=coracle/absent:1"]);
    let rollout = kubectl.run(&["rollout", "status", "deployment/d", "--timeout=3s"], b"");
    assert_ne!(rollout.code, 0, "{rollout:?}");
    assert_eq!(bed.running_of("c").len(), 1);
    kubectl.must(&["rollout", "undo", "deployment/d"]);
    kubectl.must(&["rollout", "status", "deployment/d"]);
}

/// Of the volume of the claim with that name.
fn directory(bed: &Bed, claim: &str) -> String {
    let volume = bed.get(&format!("{CORE}/persistentvolumeclaims/{claim}"))["spec"]["volumeName"]
        .as_str()
        .expect("it is bound")
        .to_owned();
    bed.get(&format!("/api/v1/persistentvolumes/{volume}"))["spec"]["hostPath"]["path"]
        .as_str()
        .expect("a path")
        .to_owned()
}

fn stateful_set_over_kills(bed: &mut Bed) {
    bed.start();
    let mut writes = container(&format!("echo start >> /data/starts; {SLEEP}"));
    writes["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    });
    let spec = json!({
        "replicas": 2, "serviceName": "s", "selector": {"matchLabels": {"app": "a"}}, "template": template(writes),
        "volumeClaimTemplates": [claim],
    });
    bed.post(
        &format!("{APPS}/statefulsets"),
        &json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": spec}).to_string(),
    );
    bed.until("both are ready", |bed| {
        (bed.get(&format!("{APPS}/statefulsets/s"))["status"]["readyReplicas"] == 2).then_some(())
    });
    let (containers, folders) = (bed.running_of("c"), [directory(bed, "data-s-0"), directory(bed, "data-s-1")]);
    assert!(folders.iter().all(|folder| folder.starts_with(VOLUMES)), "{folders:?}");
    let starts = |folder: &str| std::fs::read_to_string(format!("{folder}/starts")).unwrap_or_default().lines().count();
    assert_eq!(folders.each_ref().map(|folder| starts(folder)), [1, 1]);
    bed.kill_agent();
    bed.kill_master();
    bed.start();
    bed.until("both are ready again", |bed| {
        (bed.ready("s-0") == Some(true) && bed.ready("s-1") == Some(true)).then_some(())
    });
    assert_eq!(bed.running_of("c").len(), 2);
    assert!(bed.running_of("c").iter().all(|id| containers.contains(id)), "nothing was started anew");
    // A pod that is deleted comes back with its name and its data.
    assert_eq!(bed.send("DELETE", &format!("{CORE}/pods/s-1"), "").0, 200);
    bed.until("it has started a second time", |_| (starts(&folders[1]) == 2).then_some(()));
    bed.until("it is ready", |bed| bed.ready("s-1").filter(|ready| *ready));
    assert_eq!(directory(bed, "data-s-1"), folders[1]);
    // Fewer replicas leave their claims; claims that are deleted take their directories along.
    assert_eq!(bed.send("DELETE", &format!("{APPS}/statefulsets/s"), "").0, 200);
    bed.until("all pods are gone", |bed| {
        (items(bed, &format!("{CORE}/pods")).is_empty() && bed.running_of("c").is_empty()).then_some(())
    });
    assert!(folders.iter().all(|folder| starts(folder) > 0), "the claims are there, and so is what they hold");
    for claim in ["data-s-0", "data-s-1"] {
        assert_eq!(bed.send("DELETE", &format!("{CORE}/persistentvolumeclaims/{claim}"), "").0, 200);
    }
    bed.until("the directories are gone", |_| (!folders.iter().any(|folder| Path::new(folder).exists())).then_some(()));
    bed.until("and the volumes", |bed| items(bed, "/api/v1/persistentvolumes").is_empty().then_some(()));
}

fn drain_with_a_budget(bed: &mut Bed) {
    bed.start();
    let kubectl = newest();
    bed.post(&format!("{APPS}/deployments"), &deployment(2, container(SLEEP)));
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    bed.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", &budget.to_string());
    kubectl.must(&["rollout", "status", "deployment/d"]);
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b";
    bed.until("one may go", |bed| (bed.get(path)["status"]["disruptionsAllowed"] == 1).then_some(()));
    // There is no other node: the second one has to stay.
    let drain = kubectl.run(&["drain", "n1", "--timeout=8s"], b"");
    assert_ne!(drain.code, 0, "{drain:?}");
    assert!(drain.err.contains("would violate the pod's disruption budget"), "{drain:?}");
    bed.until("one is left", |bed| (bed.running_of("c").len() == 1).then_some(()));
    let pending = bed.until("the other waits for a node", |bed| {
        let pods = items(bed, &format!("{CORE}/pods"));
        pods.iter().find(|pod| pod["status"]["phase"] == "Pending").map(|pod| pod["status"]["conditions"][0].clone())
    });
    assert_eq!(pending["reason"], "Unschedulable", "{pending}");
    kubectl.must(&["uncordon", "n1"]);
    kubectl.must(&["rollout", "status", "deployment/d"]);
    assert_eq!(bed.running_of("c").len(), 2);
}

fn jobs(bed: &mut Bed) {
    bed.start();
    let kubectl = newest();
    let spec = json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed",
        "template": {"spec": {"restartPolicy": "Never",
        "containers": [container("echo index $JOB_COMPLETION_INDEX")]}}});
    bed.post(
        "/apis/batch/v1/namespaces/default/jobs",
        &json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}).to_string(),
    );
    kubectl.must(&["wait", "--for=condition=complete", "job/j", "--timeout=60s"]);
    let mut logs: Vec<String> =
        kubectl.must(&["logs", "-l", "job-name=j", "--tail=-1"]).lines().map(str::to_owned).collect();
    logs.sort();
    assert_eq!(logs, ["index 0", "index 1", "index 2"]);
    let status = bed.get("/apis/batch/v1/namespaces/default/jobs/j")["status"].take();
    assert_eq!((&status["succeeded"], &status["completedIndexes"]), (&json!(3), &json!("0-2")), "{status}");
    let fails = json!({
        "backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [container("exit 3")]}},
    });
    bed.post(
        "/apis/batch/v1/namespaces/default/jobs",
        &json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "f"}, "spec": fails}).to_string(),
    );
    kubectl.must(&["wait", "--for=condition=failed", "job/f", "--timeout=60s"]);
    // One that is due each minute, run by hand.
    let each = json!({
        "schedule": "* * * * *",
        "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container("date")]}}}},
    });
    bed.post(
        "/apis/batch/v1/namespaces/default/cronjobs",
        &json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"}, "spec": each}).to_string(),
    );
    kubectl.must(&["create", "job", "by-hand", "--from=cronjob/tick"]);
    kubectl.must(&["wait", "--for=condition=complete", "job/by-hand", "--timeout=60s"]);
}

fn autoscale_under_load(bed: &mut Bed) {
    bed.start();
    let kubectl = newest();
    let mut busy = container("while true; do :; done");
    busy["resources"] = json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "100m"}});
    bed.post(&format!("{APPS}/deployments"), &deployment(1, busy));
    kubectl.must(&["autoscale", "deployment/d", "--cpu-percent=50", "--min=1", "--max=2"]);
    bed.until("there are two", |bed| (bed.running_of("c").len() == 2).then_some(()));
    let scaler = bed.get("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/d");
    assert_eq!(scaler["status"]["desiredReplicas"], 2, "at http://{MASTER}: {scaler}");
}

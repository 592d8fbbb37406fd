//! The problems of a cluster over HTTP: made true by objects, seen on the page, in the gauges and by `status`, and gone
//! again.

use crate::transcript::{Bed, ask};
use coracle_master::command;
use coracle_master::config::{Config, Deed};
use coracle_program::command_line::OutputFormat;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// For controllers on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const AT: &str = "2026-01-01T00:00:00Z";

fn send(bed: &Bed, method: &str, path: &str, body: &Value) -> Value {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let reply = ask(bed.local(), method, path, &[("Content-Type".to_owned(), kind.to_owned())], &body);
    let text = String::from_utf8_lossy(&reply.body);
    assert!(matches!(reply.code, 200 | 201), "{method} {path}: {} {text}", reply.code);
    serde_json::from_str(&text).unwrap_or_default()
}

/// `Reason subject` of each problem.
fn told(bed: &Bed) -> Vec<String> {
    let page = send(bed, "GET", "/coracle/problems", &Value::Null);
    let problems = page["problems"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    problems.map(|one| format!("{} {}", text(&one["reason"]), text(&one["subject"]["name"]))).collect()
}

/// Controllers take a moment.
fn awaited(bed: &Bed, expected: &[&str]) {
    let until = Instant::now() + PATIENCE;
    loop {
        let told = told(bed);
        if told == expected {
            return;
        }
        assert!(Instant::now() < until, "{told:?} are told, {expected:?} are expected");
        std::thread::sleep(PAUSE);
    }
}

fn gauges(bed: &Bed) -> String {
    let reply = ask(bed.network(), "GET", "/metrics/state", &[], "");
    assert_eq!(reply.code, 200);
    String::from_utf8_lossy(&reply.body).into_owned()
}

fn has(bed: &Bed, lines: &[&str]) {
    let gauges = gauges(bed);
    for line in lines {
        assert!(gauges.lines().any(|one| one == *line), "{line} is missing:\n{gauges}");
    }
}

fn status(bed: &Bed, form: OutputFormat) -> String {
    let config = Config {
        data_dir: bed.folder.join("data"),
        admin_socket: bed.folder.join("run/api.sock"),
        ..Config::default()
    };
    format!("{:?}", command::run(&Deed::Status(form), &config))
}

fn code(code: u8) -> String {
    format!("{:?}", std::process::ExitCode::from(code))
}

fn ready(status: &str) -> Value {
    json!([{"type": "Ready", "status": status, "reason": "R", "message": "m", "lastTransitionTime": AT,
        "lastHeartbeatTime": AT}])
}

fn node(bed: &Bed) {
    send(bed, "POST", "/api/v1/nodes", &json!({"metadata": {"name": "n1"}}));
    awaited(bed, &["NodeNotReady n1"]);
    let amounts = json!({"cpu": "2", "memory": "1Gi", "pods": "110"});
    let status = json!({"status": {"conditions": ready("True"), "capacity": amounts, "allocatable": amounts}});
    send(bed, "PATCH", "/api/v1/nodes/n1/status", &status);
}

#[test]
fn what_is_not_there_is_told_until_it_is() {
    let bed = Bed::new();
    awaited(&bed, &[]);
    assert_eq!(status(&bed, OutputFormat::Text), code(0));
    node(&bed);
    awaited(&bed, &[]);
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    send(&bed, "POST", DEPLOYMENTS, &json!({"metadata": {"name": "web"}, "spec": spec}));
    awaited(&bed, &["RollingOut web"]);
    assert_eq!((status(&bed, OutputFormat::Json), status(&bed, OutputFormat::Wide)), (code(1), code(1)));
    let labels = "{namespace=\"default\",deployment=\"web\"}";
    has(
        &bed,
        &[
            &format!("kube_deployment_spec_replicas{labels} 1"),
            &format!("kube_deployment_status_replicas_available{labels} 0"),
            "coracle_problems{severity=\"problem\",reason=\"RollingOut\"} 1",
            "coracle_problems{severity=\"warning\",reason=\"\"} 0",
            "kube_node_status_condition{node=\"n1\",condition=\"Ready\",status=\"true\"} 1",
            "kube_node_status_allocatable{node=\"n1\",resource=\"memory\",unit=\"byte\"} 1073741824",
        ],
    );
    let pod = send(&bed, "GET", PODS, &Value::Null)["items"][0].clone();
    let path = format!("{PODS}/{}/status", pod["metadata"]["name"].as_str().expect("a pod"));
    let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}});
    let container = |state: Value, ready: bool| {
        json!([{"name": "c", "image": "i:1", "imageID": "", "ready": ready,
        "restartCount": 0, "state": state}])
    };
    let shown =
        json!({"phase": "Pending", "conditions": ready("False"), "containerStatuses": container(waiting, false)});
    send(&bed, "PATCH", &path, &json!({"status": shown}));
    awaited(&bed, &["ReplicasMissing web"]);
    let problem = &send(&bed, "GET", "/coracle/problems", &Value::Null)["problems"][0];
    assert!(
        problem["why"].as_str().is_some_and(|why| why.ends_with("waits for the image i:1: no such host")),
        "{problem}"
    );
    let (name, uid) = (&pod["metadata"]["name"], &pod["metadata"]["uid"]);
    let of_pod = format!("namespace=\"default\",pod={name},uid={uid}");
    has(
        &bed,
        &[
            &format!(
                "kube_pod_container_status_waiting_reason{{{of_pod},container=\"c\",reason=\"ImagePullBackOff\"}} 1"
            ),
            &format!("kube_pod_status_phase{{{of_pod},phase=\"Pending\"}} 1"),
            &format!("kube_pod_status_phase{{{of_pod},phase=\"Running\"}} 0"),
            &format!("kube_pod_status_ready{{{of_pod},condition=\"false\"}} 1"),
        ],
    );
    let running = json!({"running": {"startedAt": AT}});
    let shown = json!({"phase": "Running", "conditions": ready("True"), "containerStatuses": container(running, true)});
    send(&bed, "PATCH", &path, &json!({"status": shown}));
    awaited(&bed, &[]);
    has(&bed, &[&format!("kube_deployment_status_replicas_available{labels} 1")]);
    assert_eq!(status(&bed, OutputFormat::Text), code(0));
}

#[test]
fn a_drained_node_is_not_well() {
    let bed = Bed::new();
    node(&bed);
    send(&bed, "PATCH", "/api/v1/nodes/n1", &json!({"spec": {"unschedulable": true}}));
    awaited(&bed, &["NodeCordoned n1"]);
    let spec = json!({"containers": [{"name": "c", "image": "i:1"}]});
    send(&bed, "POST", PODS, &json!({"metadata": {"name": "p"}, "spec": spec}));
    awaited(&bed, &["NodeCordoned n1", "Unschedulable p"]);
    let problems = send(&bed, "GET", "/coracle/problems", &Value::Null);
    let why = problems["problems"][1]["why"].as_str().unwrap_or_default();
    assert!(why.contains("unschedulable"), "{problems}");
    assert_eq!(problems["nodes"], json!([{"name": "n1", "ready": true, "cordoned": true}]));
    send(&bed, "PATCH", "/api/v1/nodes/n1", &json!({"spec": {"unschedulable": null}}));
    awaited(&bed, &["Starting p"]);
}

#[test]
fn a_quota_a_claim_a_job_and_a_service() {
    let bed = Bed::new();
    let in_default = |path: &str| format!("{path}/namespaces/default");
    let core = in_default("/api/v1");
    send(
        &bed,
        "POST",
        &format!("{core}/resourcequotas"),
        &json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}),
    );
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    let sets = format!("{}/statefulsets", in_default("/apis/apps/v1"));
    send(&bed, "POST", &sets, &json!({"metadata": {"name": "db"}, "spec": spec}));
    let until = Instant::now() + PATIENCE;
    let why = loop {
        let problem = send(&bed, "GET", "/coracle/problems", &Value::Null)["problems"][0].clone();
        let why = problem["why"].as_str().unwrap_or_default().to_owned();
        if why.contains("exceeded quota: q") || Instant::now() > until {
            break problem;
        }
        std::thread::sleep(PAUSE);
    };
    assert_eq!((&why["reason"], &why["subject"]["kind"]), (&json!("ReplicasMissing"), &json!("statefulset")), "{why}");
    send(&bed, "DELETE", &format!("{sets}/db"), &Value::Null);
    awaited(&bed, &[]);
    has(&bed, &["kube_resourcequota{namespace=\"default\",resourcequota=\"q\",resource=\"pods\",type=\"hard\"} 0"]);
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "none",
        "resources": {"requests": {"storage": "1Gi"}}});
    send(&bed, "POST", &format!("{core}/persistentvolumeclaims"), &json!({"metadata": {"name": "data"}, "spec": spec}));
    awaited(&bed, &["ClaimPending data"]);
    has(
        &bed,
        &["kube_persistentvolumeclaim_status_phase{namespace=\"default\",persistentvolumeclaim=\"data\",\
             phase=\"Pending\"} 1"],
    );
    send(&bed, "DELETE", &format!("{core}/persistentvolumeclaims/data"), &Value::Null);
    awaited(&bed, &[]);
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
    send(&bed, "POST", &format!("{core}/services"), &json!({"metadata": {"name": "web"}, "spec": spec}));
    awaited(&bed, &["ServiceWithoutEndpoints web"]);
    send(&bed, "DELETE", &format!("{core}/services/web"), &Value::Null);
    awaited(&bed, &[]);
}

#[test]
fn the_page_is_roots_and_status_says_that_no_master_answers() {
    let bed = Bed::new();
    assert_eq!(ask(bed.network(), "GET", "/coracle/problems", &[], "").code, 404, "the page is on root's socket alone");
    let other = ask(bed.local(), "GET", "/coracle/problems?directory=none&path=78", &[], "");
    assert_eq!(other.code, 409, "somebody means another master");
    let nowhere = Config { admin_socket: bed.folder.join("nowhere.sock"), ..Config::default() };
    assert_eq!(format!("{:?}", command::run(&Deed::Status(OutputFormat::Text), &nowhere)), code(3));
}

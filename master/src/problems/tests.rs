//! Tables of problems: each made true, and gone again.

use super::objects::Objects;
use super::own::Own;
use super::{Found, Summary, problems};
use crate::store::Health;
use coracle_api::meta::Time;
use coracle_keeper::problem::{Problem, Severity, Subject};
use jiff::tz::TimeZone;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NOW: &str = "2026-06-01T12:00:00Z";
const BEFORE: &str = "2026-06-01T11:50:00Z";

fn moment(text: &str) -> Time {
    Time::parse(text).expect("a time")
}

fn typed<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"))
}

/// Objects by kind, in one namespace each.
fn objects(all: &[Value]) -> Objects {
    let mut objects = Objects::default();
    for one in all {
        match one["kind"].as_str().expect("a kind") {
            "Node" => objects.nodes.push(typed(one)),
            "Namespace" => objects.namespaces.push(typed(one)),
            "Pod" => objects.pods.push(typed(one)),
            "ReplicationController" => objects.replication_controllers.push(typed(one)),
            "Service" => objects.services.push(typed(one)),
            "PersistentVolumeClaim" => objects.claims.push(typed(one)),
            "PersistentVolume" => objects.volumes.push(typed(one)),
            "Deployment" => objects.deployments.push(typed(one)),
            "ReplicaSet" => objects.replica_sets.push(typed(one)),
            "StatefulSet" => objects.stateful_sets.push(typed(one)),
            "DaemonSet" => objects.daemon_sets.push(typed(one)),
            "Job" => objects.jobs.push(typed(one)),
            "CronJob" => objects.cron_jobs.push(typed(one)),
            "EndpointSlice" => objects.slices.push(typed(one)),
            "StorageClass" => objects.classes.push(typed(one)),
            "HorizontalPodAutoscaler" => objects.autoscalers.push(typed(one)),
            "Event" => objects.events.push(typed(one)),
            other => panic!("{other}"),
        }
    }
    objects
}

fn found(all: &[Value], own: &Own) -> Found {
    problems(&objects(all), own, moment(NOW), &|name| (name != "Nowhere").then_some(TimeZone::UTC))
}

/// `Reason subject: what: why`, a line each.
fn told(all: &[Value]) -> Vec<String> {
    lines(&found(all, &Own::default()).problems)
}

fn lines(problems: &[Problem]) -> Vec<String> {
    let line = |one: &Problem| {
        let why = if one.why.is_empty() { String::new() } else { format!(": {}", one.why) };
        let warning = if one.severity == Severity::Warning { "(warning) " } else { "" };
        format!("{warning}{} {}: {}{why}", one.reason, one.subject.words(), one.what)
    };
    problems.iter().map(line).collect()
}

fn check(all: &[Value], expected: &[&str]) {
    assert_eq!(told(all), expected, "{}", json!(all));
}

fn meta(name: &str, more: Value) -> Value {
    let mut metadata = json!({"name": name, "namespace": "d", "uid": format!("u-{name}"), "creationTimestamp": BEFORE});
    for (field, value) in more.as_object().into_iter().flatten() {
        metadata[field] = value.clone();
    }
    metadata
}

fn owned_by(kind: &str, name: &str) -> Value {
    json!({"ownerReferences": [{"kind": kind, "name": name, "uid": format!("u-{name}"), "controller": true}]})
}

fn pod(name: &str, metadata: Value, spec: Value, status: Value) -> Value {
    json!({"kind": "Pod", "metadata": meta(name, metadata), "spec": spec, "status": status})
}

fn on_node() -> Value {
    json!({"nodeName": "n1", "restartPolicy": "Always", "containers": [{"name": "c", "image": "i:1"}]})
}

fn ready(status: &str) -> Value {
    json!({"type": "Ready", "status": status, "lastTransitionTime": "2026-06-01T11:55:00Z"})
}

fn running(is_ready: bool) -> Value {
    let container = json!({"name": "c", "ready": is_ready, "started": true,
        "state": {"running": {"startedAt": "2026-06-01T11:52:00Z"}}});
    json!({"phase": "Running", "conditions": [ready(if is_ready { "True" } else { "False" })],
        "containerStatuses": [container]})
}

fn waiting(reason: &str, message: &str) -> Value {
    let last = json!({"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-06-01T11:58:00Z"}});
    let container = json!({"name": "c", "ready": false, "image": "i:1", "lastState": last,
        "state": {"waiting": {"reason": reason, "message": message}}});
    json!({"phase": "Pending", "conditions": [ready("False")], "containerStatuses": [container]})
}

fn event((kind, name): (&str, &str), reason: &str, message: &str) -> Value {
    json!({"kind": "Event", "involvedObject": {"kind": kind, "namespace": "d", "name": name,
        "uid": format!("u-{name}")},
        "reason": reason, "message": message, "lastTimestamp": "2026-06-01T11:59:00Z"})
}

fn deployment(spec: Value, status: Value) -> Value {
    json!({"kind": "Deployment", "metadata": meta("web", json!({"generation": 1})), "spec": spec, "status": status})
}

fn set(status: Value) -> Value {
    json!({"kind": "ReplicaSet", "metadata": meta("web-1", owned_by("Deployment", "web")), "spec": {"replicas": 1},
        "status": status})
}

#[test]
fn a_whole_cluster_has_no_problem() {
    let node = json!({"kind": "Node", "metadata": {"name": "n1"}, "status": {"conditions": [ready("True")]}});
    let whole = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
        "availableReplicas": 1});
    check(
        &[
            node,
            deployment(json!({"replicas": 1}), whole),
            set(json!({"availableReplicas": 1})),
            pod("web-1-a", owned_by("ReplicaSet", "web-1"), on_node(), running(true)),
        ],
        &[],
    );
}

#[test]
fn nodes() {
    let node = |spec: Value, conditions: Value| {
        json!({"kind": "Node", "metadata": {"name": "n1"}, "spec": spec,
        "status": {"conditions": conditions}})
    };
    check(&[node(json!({}), json!([ready("True")]))], &[]);
    check(&[node(json!({}), json!([]))], &["NodeNotReady node n1: is not ready: its agent has said nothing yet"]);
    let mut silent = ready("Unknown");
    silent["message"] = "Kubelet stopped posting node status.".into();
    check(
        &[node(json!({}), json!([silent]))],
        &["NodeNotReady node n1: is not ready: Kubelet stopped posting node status."],
    );
    let taint = json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": BEFORE});
    let cordoned = node(json!({"unschedulable": true, "taints": [taint]}), json!([ready("True")]));
    let problems = found(&[cordoned], &Own::default()).problems;
    assert_eq!(lines(&problems), ["NodeCordoned node n1: is cordoned: it takes no new pods"]);
    assert_eq!((problems[0].since.as_deref(), problems[0].advice.as_str()), (Some(BEFORE), "kubectl uncordon n1"));
    let full = json!({"type": "DiskPressure", "status": "True", "message": "5 % are free"});
    check(
        &[node(json!({}), json!([ready("True"), full]))],
        &["DiskPressure node n1: is short of disk: it refuses or evicts pods: 5 % are free"],
    );
}

#[test]
fn pods() {
    let one = |status: Value| pod("p", json!({}), on_node(), status);
    check(&[one(running(true))], &[]);
    check(&[one(json!({"phase": "Succeeded"}))], &[]);
    check(
        &[pod("p", json!({}), json!({}), json!({"phase": "Pending"}))],
        &["Starting pod d/p: waits for a node: the scheduler has not looked at it yet"],
    );
    let unplaced = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient cpu.", "lastTransitionTime": "2026-06-01T11:51:00Z"});
    let unplaced = pod("p", json!({}), json!({}), json!({"phase": "Pending", "conditions": [unplaced]}));
    let problems = found(&[unplaced], &Own::default()).problems;
    let line = "Unschedulable pod d/p: waits for a node: 0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!((lines(&problems), problems[0].since.as_deref()), (vec![line.to_owned()], Some("2026-06-01T11:51:00Z")));
    let gated = pod("p", json!({}), json!({"schedulingGates": [{"name": "g"}]}), json!({}));
    check(&[gated], &["SchedulingGated pod d/p: waits for a node: its scheduling gates are there: g"]);
    check(&[one(json!({"phase": "Pending"}))], &["Starting pod d/p: is starting"]);
    check(
        &[one(json!({"phase": "Pending"})), event(("Pod", "p"), "FailedMount", "secret \"s\" not found")],
        &["Starting pod d/p: is starting: FailedMount: secret \"s\" not found"],
    );
    check(&[one(waiting("ContainerCreating", ""))], &["Starting pod d/p: its container c is starting"]);
    check(
        &[one(waiting("ImagePullBackOff", "no such host"))],
        &["ImageMissing pod d/p: its container c waits for the image i:1: no such host"],
    );
    check(
        &[one(waiting("CreateContainerConfigError", "secret \"s\" not found"))],
        &["ContainerNotMade pod d/p: its container c cannot start: CreateContainerConfigError: secret \"s\" not found"],
    );
    check(
        &[one(waiting("CrashLoopBackOff", "back-off 10s"))],
        &["ContainerFailed pod d/p: its container c fails again and again: exit code 1 (the program ended itself \
             with an \
         error)"],
    );
    check(
        &[one(running(false)), event(("Pod", "p"), "Unhealthy", "Readiness probe failed: 503")],
        &["NotReady pod d/p: its container c is not ready: Readiness probe failed: 503"],
    );
    let ended =
        json!({"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 3}}}]});
    check(
        &[one(ended.clone())],
        &["PodFailed pod d/p: has failed: container c: exit code 3 (the program ended itself with an error)"],
    );
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
    check(&[one(evicted.clone())], &["PodFailed pod d/p: has failed: Evicted: The node was low on resource: memory."]);
    check(&[pod("p", owned_by("ReplicaSet", "gone"), on_node(), evicted)], &[]);
    check(&[pod("p", owned_by("Job", "gone"), on_node(), ended)], &[]);
}

#[test]
fn pods_that_their_agents_tell_of() {
    let mirror = json!({"annotations": {"kubernetes.io/config.mirror": "h"}});
    check(&[pod("p", mirror, on_node(), waiting("ImagePullBackOff", "no"))], &[]);
}

#[test]
fn pods_that_end() {
    let ending = |at: &str| pod("p", json!({"deletionTimestamp": at}), on_node(), running(true));
    check(&[ending("2026-06-01T12:00:20Z")], &[]);
    let soon = found(&[ending("2026-06-01T11:59:30Z")], &Own::default());
    assert_eq!((soon.problems.len(), soon.wake_at), (0, Some(moment("2026-06-01T12:00:30Z"))));
    check(
        &[ending("2026-06-01T11:58:00Z")],
        &["TerminatingTooLong pod d/p: does not end: its node n1 has not said that its containers ended"],
    );
    let held = json!({"deletionTimestamp": BEFORE, "finalizers": ["example.com/f"]});
    check(
        &[pod("p", held, on_node(), running(true))],
        &["TerminatingTooLong pod d/p: does not end: its finalizers are there: example.com/f"],
    );
}

#[test]
fn deployments() {
    let short = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1});
    let all = |status: Value, of_pod: Value, of_set: Value| {
        vec![
            deployment(json!({"replicas": 1}), status),
            set(of_set),
            pod("web-1-a", owned_by("ReplicaSet", "web-1"), on_node(), of_pod),
        ]
    };
    check(
        &all(short.clone(), waiting("ImagePullBackOff", "no such host"), json!({})),
        &["ReplicasMissing deployment d/web: 0 of 1 replica is available: pod web-1-a its container c waits for \
             the image \
         i:1: no such host"],
    );
    let rolls = |reason: &str, status: &str| {
        let mut of = short.clone();
        of["conditions"] = json!([{"type": "Progressing", "status": status, "reason": reason,
            "lastUpdateTime": "2026-06-01T11:57:00Z", "lastTransitionTime": "2026-06-01T11:56:00Z"}]);
        of
    };
    let starting = || waiting("ContainerCreating", "");
    let problems = found(&all(rolls("ReplicaSetUpdated", "True"), starting(), json!({})), &Own::default()).problems;
    assert_eq!(
        lines(&problems),
        ["RollingOut deployment d/web: is rolling out: 0 of 1 replica is available: pod web-1-a its container c \
             is starting",]
    );
    assert_eq!(problems[0].since.as_deref(), Some("2026-06-01T11:57:00Z"));
    check(
        &all(rolls("ProgressDeadlineExceeded", "False"), starting(), json!({})),
        &["RolloutStuck deployment d/web: its rollout makes no progress: 0 of 1 replica is available: pod web-1-a \
             its \
         container c is starting"],
    );
    let refused = json!({"conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
        "message": "exceeded quota: q"}]});
    check(
        &[deployment(json!({"replicas": 1}), short.clone()), set(refused)],
        &["ReplicasMissing deployment d/web: 0 of 1 replica is available: exceeded quota: q"],
    );
    check(&[deployment(json!({"replicas": 0}), json!({"observedGeneration": 1}))], &[]);
    check(
        &[deployment(json!({"replicas": 1}), json!({}))],
        &["ReplicasMissing deployment d/web: 0 of 1 replica is available"],
    );
    let old = json!({"observedGeneration": 1, "updatedReplicas": 1, "availableReplicas": 2});
    check(
        &[deployment(json!({"replicas": 2}), old.clone())],
        &["RollingOut deployment d/web: is rolling out: 2 of 2 replicas are available, 1 of its new template"],
    );
    check(&[deployment(json!({"replicas": 2, "paused": true}), old)], &[]);
    // What ends asks for nothing.
    let ending = json!({"kind": "Namespace", "metadata": {"name": "d", "deletionTimestamp": "2026-06-01T11:59:00Z"}});
    let mut all = all(short, waiting("ImagePullBackOff", "no"), json!({}));
    all.push(ending);
    check(&all[..1], &["ReplicasMissing deployment d/web: 0 of 1 replica is available"]);
    check(&all, &[]);
}

#[test]
fn other_workloads() {
    let of = |kind: &str, spec: Value, status: Value| {
        json!({"kind": kind, "metadata": meta("w", json!({})),
        "spec": spec, "status": status})
    };
    let down = || pod("w-0", owned_by("StatefulSet", "w"), on_node(), waiting("CrashLoopBackOff", ""));
    let words = "pod w-0 its container c fails again and again: exit code 1 (the program ended itself with an error)";
    let short = json!({"availableReplicas": 1});
    check(
        &[of("StatefulSet", json!({"replicas": 2}), short), down()],
        &[&format!("ReplicasMissing statefulset d/w: 1 of 2 replicas are available: {words}")],
    );
    check(&[of("StatefulSet", json!({"replicas": 1}), json!({"availableReplicas": 1}))], &[]);
    let update = json!({"availableReplicas": 2, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"});
    check(
        &[of("StatefulSet", json!({"replicas": 2}), update.clone())],
        &["RollingOut statefulset d/w: is rolling out: 2 of 2 replicas are available, 1 of its new template"],
    );
    let partition =
        json!({"replicas": 2, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}});
    check(&[of("StatefulSet", partition, update.clone())], &[]);
    check(&[of("StatefulSet", json!({"replicas": 2, "updateStrategy": {"type": "OnDelete"}}), update)], &[]);
    let scheduled = json!({"desiredNumberScheduled": 1, "updatedNumberScheduled": 1});
    check(
        &[of("DaemonSet", json!({}), scheduled), event(("DaemonSet", "w"), "FailedCreate", "exceeded quota: q")],
        &["ReplicasMissing daemonset d/w: 0 of 1 replica is available: exceeded quota: q"],
    );
    check(&[of("DaemonSet", json!({}), json!({}))], &[]);
    check(
        &[of("ReplicationController", json!({"replicas": 1}), json!({}))],
        &["ReplicasMissing replicationcontroller d/w: 0 of 1 replica is available"],
    );
    check(&[of("ReplicaSet", json!({"replicas": 1}), json!({"availableReplicas": 1}))], &[]);
    check(
        &[of("ReplicaSet", json!({"replicas": 1}), json!({}))],
        &["ReplicasMissing replicaset d/w: 0 of 1 replica is available"],
    );
}

fn job(name: &str, metadata: Value, status: Value) -> Value {
    json!({"kind": "Job", "metadata": meta(name, metadata), "spec": {"backoffLimit": 2}, "status": status})
}

fn over(kind: &str, at: &str) -> Value {
    json!({"conditions": [{"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "message": "too often",
        "lastTransitionTime": at}]})
}

#[test]
fn jobs() {
    let one = |status: Value| job("j", json!({}), status);
    check(&[one(over("Complete", BEFORE))], &[]);
    check(&[one(over("Failed", BEFORE))], &["JobFailed job d/j: has failed: BackoffLimitExceeded: too often"]);
    check(&[one(json!({"active": 1}))], &[]);
    check(
        &[one(json!({"active": 1, "failed": 1}))],
        &["(warning) JobRetries job d/j: tries again: 1 pod failed, of 2 that may"],
    );
    check(&[one(json!({}))], &["Starting job d/j: is starting: it has no pod yet"]);
    check(
        &[one(json!({})), event(("Job", "j"), "FailedCreate", "exceeded quota: q")],
        &["JobWaits job d/j: cannot make its pods: exceeded quota: q"],
    );
}

#[test]
fn cron_jobs() {
    let cron = |spec: Value, status: Value| {
        json!({"kind": "CronJob", "metadata": meta("c", json!({"creationTimestamp": "2026-06-01T10:30:00Z"})),
            "spec": spec,
            "status": status})
    };
    let hourly = || json!({"schedule": "0 * * * *", "concurrencyPolicy": "Forbid"});
    let ran = json!({"lastScheduleTime": "2026-06-01T12:00:00Z"});
    let due = json!({"lastScheduleTime": "2026-06-01T11:00:00Z"});
    check(&[cron(hourly(), ran.clone())], &[]);
    // Its time is now: it may be late a little.
    let soon = found(&[cron(hourly(), due)], &Own::default());
    assert_eq!((soon.problems.len(), soon.wake_at), (0, Some(moment("2026-06-01T12:01:01Z"))));
    check(&[cron(hourly(), json!({}))], &["CronJobMissed cronjob d/c: has missed its time 2026-06-01T11:00:00Z"]);
    check(
        &[cron(hourly(), json!({"active": [{"name": "c-1"}]}))],
        &["CronJobMissed cronjob d/c: has missed its time 2026-06-01T11:00:00Z: its run c-1 still runs, and its \
         concurrencyPolicy is Forbid"],
    );
    check(&[cron(json!({"schedule": "0 * * * *", "suspend": true}), json!({}))], &[]);
    check(
        &[cron(json!({"schedule": "0 * * * *", "timeZone": "Nowhere"}), ran.clone())],
        &["CronJobMissed cronjob d/c: its schedule \"0 * * * *\" cannot be read, or this host has no time zone \
             \"Nowhere\""],
    );
    let run = |name: &str, kind: &str, at: &str| job(name, owned_by("CronJob", "c"), over(kind, at));
    let (first, second) = (run("c-1", "Failed", BEFORE), run("c-2", "Complete", "2026-06-01T11:59:00Z"));
    check(
        &[cron(hourly(), ran.clone()), first.clone()],
        &["JobFailed cronjob d/c: its last run c-1 has failed: BackoffLimitExceeded: too often"],
    );
    check(&[cron(hourly(), ran.clone()), first.clone(), second], &[]);
    let mut succeeded = ran;
    succeeded["lastSuccessfulTime"] = "2026-06-01T11:59:00Z".into();
    check(&[cron(hourly(), succeeded), first], &[]);
}

#[test]
fn services() {
    let service = |spec: Value| json!({"kind": "Service", "metadata": meta("s", json!({})), "spec": spec});
    let selecting = || service(json!({"selector": {"app": "web"}}));
    let nowhere = "ServiceWithoutEndpoints service d/s: leads nowhere: it has no endpoint that is ready";
    check(&[selecting()], &[&format!("{nowhere}: no pod has its labels app=web")]);
    let labelled = |is_ready: bool| pod("p", json!({"labels": {"app": "web"}}), on_node(), running(is_ready));
    let slice = |is_ready: bool| {
        let label = json!({"labels": {"kubernetes.io/service-name": "s"}});
        json!({"kind": "EndpointSlice", "metadata": meta("s-1", label),
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": is_ready}}]})
    };
    check(&[selecting(), labelled(true), slice(true)], &[]);
    check(
        &[selecting(), labelled(false), slice(false)],
        &["NotReady pod d/p: its container c is not ready", &format!("{nowhere}: its pod is not ready")],
    );
    check(&[service(json!({}))], &[]);
    check(&[service(json!({"type": "ExternalName", "selector": {"app": "web"}}))], &[]);
    let template = json!({"replicas": 0, "template": {"metadata": {"labels": {"app": "web"}}}});
    check(&[selecting(), deployment(template, json!({"observedGeneration": 1}))], &[]);
    check(
        &[service(json!({"type": "LoadBalancer"}))],
        &["LoadBalancerPending service d/s: waits for an address of a load balancer"],
    );
}

#[test]
fn claims() {
    let claim = |class: &str, phase: &str| {
        json!({"kind": "PersistentVolumeClaim", "metadata": meta("data", json!({})),
            "spec": {"storageClassName": class, "volumeName": "pv"}, "status": {"phase": phase}})
    };
    let class =
        || json!({"kind": "StorageClass", "metadata": {"name": "local"}, "volumeBindingMode": "WaitForFirstConsumer"});
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    let user = pod("p", json!({}), json!({"volumes": volumes}), json!({}));
    check(&[claim("local", "Bound")], &[]);
    check(&[claim("local", "Pending"), class()], &[]);
    check(
        &[claim("local", "Pending"), class(), user],
        &[
            "ClaimPending persistentvolumeclaim d/data: waits for a volume: its pod has no node yet",
            "Starting pod d/p: waits for a node: the scheduler has not looked at it yet",
        ],
    );
    let why = "storageclass.storage.k8s.io \"x\" not found";
    check(
        &[claim("x", "Pending"), event(("PersistentVolumeClaim", "data"), "ProvisioningFailed", why)],
        &[&format!("ClaimPending persistentvolumeclaim d/data: waits for a volume: {why}")],
    );
    check(
        &[claim("local", "Lost")],
        &["ClaimLost persistentvolumeclaim d/data: has lost its volume: its volume pv is gone"],
    );
    let failed = json!({"kind": "PersistentVolume", "metadata": {"name": "pv"},
        "status": {"phase": "Failed", "message": "cannot be removed"}});
    check(&[failed], &["VolumeFailed persistentvolume pv: has failed: cannot be removed"]);
}

#[test]
fn namespaces_and_autoscalers() {
    let ending = |at: &str| {
        let conditions =
            json!([{"type": "NamespaceFinalizersRemaining", "status": "True", "message": "Some content: f"}]);
        json!({"kind": "Namespace", "metadata": {"name": "n", "deletionTimestamp": at},
            "status": {"phase": "Terminating", "conditions": conditions}})
    };
    check(&[ending("2026-06-01T11:59:00Z")], &[]);
    check(&[ending(BEFORE)], &["NamespaceStuck namespace n: does not end: Some content: f"]);
    let scaler = |reason: &str| {
        let conditions =
            json!([{"type": "ScalingActive", "status": "False", "reason": reason, "message": "no figures"}]);
        json!({"kind": "HorizontalPodAutoscaler", "metadata": meta("h", json!({})),
            "status": {"conditions": conditions}})
    };
    check(
        &[scaler("FailedGetResourceMetric")],
        &["AutoscalerUnable horizontalpodautoscaler d/h: cannot scale: FailedGetResourceMetric: no figures"],
    );
    check(&[scaler("ScalingDisabled")], &[]);
}

#[test]
fn the_master_itself() {
    let told = |own: Own| lines(&found(&[], &Own { data_dir: "/d".to_owned(), ..own }).problems);
    let health = |health: Health| told(Own { health, ..Own::default() });
    assert!(told(Own::default()).is_empty());
    let full = Health { degraded: Some("no space left".to_owned()), ..Health::default() };
    assert_eq!(health(full), ["StoreReadOnly store /d: takes no writes, reads go on: no space left"]);
    let stuck = Health { behind: Some("/d/objects: no space left".to_owned()), ..Health::default() };
    assert_eq!(
        health(stuck),
        ["StoreFilesStuck store /d: its files cannot be brought up to the journal, which holds everything: \
             /d/objects: no \
         space left",]
    );
    let mut filled = Health::default();
    (filled.fill.bytes, filled.fill.bytes_max) = (95, 100);
    assert_eq!(health(filled), ["StoreFull store /d: is full to 95 %"]);
    let sealed = Health { keyless: Some("/k is gone".to_owned()), ..Health::default() };
    assert_eq!(health(sealed), ["EncryptionTrouble master encryption-key: Secrets are not written: /k is gone"]);
    let secure = Own { secure: Some("taken".to_owned()), ..Own::default() };
    assert_eq!(told(secure), ["SecurePortClosed master secure-listen: the secure port is not served: taken"]);
    let issuers = Own { issuers: vec!["no file".to_owned()], ..Own::default() };
    assert_eq!(
        told(issuers),
        ["IssuerTrouble master authentication-config: tokens of outside issuers are refused: no file",]
    );
    let unadopted = Own { unadopted: vec!["ClusterRole r".to_owned()], ..Own::default() };
    assert_eq!(
        told(unadopted),
        ["(warning) BindingsUnadopted master rbac: 1 binding or role from before access rules counted give nothing: \
         ClusterRole r",]
    );
    let keyless = Own { keyless: Some("bad".to_owned()), ..Own::default() };
    assert_eq!(told(keyless)[0].split(':').next(), Some("KeysUnusable master keys"));
    let other = Problem::new("Apply", Subject::new("file", "", "/a"), "is refused");
    assert_eq!(told(Own { more: vec![other], ..Own::default() }), ["Apply file /a: is refused"]);
}

#[test]
fn certificates() {
    let ends = |at: Result<&str, &str>| {
        let at = at.map(moment).map_err(str::to_owned);
        let found = found(&[], &Own { certificates: vec![("/c".to_owned(), at)], ..Own::default() });
        (lines(&found.problems), found.wake_at)
    };
    assert_eq!(ends(Ok("2027-06-01T12:00:00Z")), (vec![], Some(moment("2027-05-02T12:00:00Z"))));
    let near = "(warning) CertificateEnds file /c: its certificate ends at 2026-06-08T12:00:00Z".to_owned();
    assert_eq!(ends(Ok("2026-06-08T12:00:00Z")), (vec![near], Some(moment("2026-06-08T12:00:00Z"))));
    let over = "CertificateEnded file /c: its certificate ended at 2026-05-08T12:00:00Z".to_owned();
    assert_eq!(ends(Ok("2026-05-08T12:00:00Z")), (vec![over], None));
    let unread = "CertificateUnreadable file /c: holds no certificate: gone".to_owned();
    assert_eq!(ends(Err("gone")), (vec![unread], None));
}

#[test]
fn the_line_for_systemd() {
    let all = [
        json!({"kind": "Node", "metadata": {"name": "n1"}, "status": {"conditions": [ready("True")]}}),
        pod("p", json!({}), on_node(), running(true)),
    ];
    let line = |all: &[Value]| Summary::of(&objects(all), found(all, &Own::default())).line();
    assert_eq!(line(&all), "1 node, 1 pod runs, no problem");
    let mut more = all.to_vec();
    for name in ["a", "b", "c", "e"] {
        more.push(pod(name, json!({}), on_node(), waiting("ImagePullBackOff", "no")));
    }
    let said = |name: &str| format!("pod d/{name}: its container c waits for the image i:1");
    let named = [said("a"), said("b"), said("c")].join("; ");
    assert_eq!(line(&more), format!("1 node, 1 pod runs, 4 wait, 4 problems: {named}; and 1 more"));
}

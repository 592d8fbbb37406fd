//! The lines of objects, as kube-state-metrics has them.

use super::page;
use crate::problems::Found;
use crate::problems::objects::Objects;
use coracle_api::meta::Time;
use coracle_keeper::problem::{Problem, Subject};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const AT: &str = "2026-06-01T12:00:00Z";

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"))
}

fn meta(name: &str) -> Value {
    json!({"name": name, "namespace": "d", "uid": "u", "generation": 3, "creationTimestamp": AT})
}

/// All these lines, in this order; families that are not among them may be between.
fn check(objects: Objects, expected: &[&str]) {
    let found = Found::default();
    let text = page(&objects, &found, &|_| Time::parse("2026-06-01T13:00:00Z"));
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let kept: Vec<&str> = lines.iter().copied().filter(|line| expected.contains(line)).collect();
    assert_eq!(kept, expected, "{text}");
}

#[test]
fn deployments_and_their_sets() {
    let status = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1,
        "availableReplicas": 1, "unavailableReplicas": 1,
        "conditions": [{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"}]});
    let deployment = json!({"metadata": meta("web"), "spec": {"replicas": 2, "paused": true}, "status": status});
    let owner = json!([{"kind": "Deployment", "name": "web", "uid": "u", "controller": true}]);
    let mut metadata = meta("web-1");
    metadata["ownerReferences"] = owner;
    let set = json!({"metadata": metadata, "spec": {"replicas": 2}, "status": {"replicas": 2, "readyReplicas": 1}});
    let condition = "kube_deployment_status_condition{namespace=\"d\",deployment=\"web\",\
                     reason=\"MinimumReplicasUnavailable\",condition=\"Available\",status=";
    check(
        Objects { deployments: vec![typed(deployment)], replica_sets: vec![typed(set)], ..Objects::default() },
        &[
            "kube_deployment_created{namespace=\"d\",deployment=\"web\"} 1780315200",
            "kube_deployment_spec_replicas{namespace=\"d\",deployment=\"web\"} 2",
            "kube_deployment_spec_paused{namespace=\"d\",deployment=\"web\"} 1",
            "kube_deployment_metadata_generation{namespace=\"d\",deployment=\"web\"} 3",
            "kube_deployment_status_observed_generation{namespace=\"d\",deployment=\"web\"} 2",
            "kube_deployment_status_replicas{namespace=\"d\",deployment=\"web\"} 2",
            "kube_deployment_status_replicas_ready{namespace=\"d\",deployment=\"web\"} 1",
            "kube_deployment_status_replicas_available{namespace=\"d\",deployment=\"web\"} 1",
            "kube_deployment_status_replicas_unavailable{namespace=\"d\",deployment=\"web\"} 1",
            "kube_deployment_status_replicas_updated{namespace=\"d\",deployment=\"web\"} 2",
            &format!("{condition}\"true\"}} 0"),
            &format!("{condition}\"false\"}} 1"),
            &format!("{condition}\"unknown\"}} 0"),
            "kube_replicaset_spec_replicas{namespace=\"d\",replicaset=\"web-1\"} 2",
            "kube_replicaset_status_ready_replicas{namespace=\"d\",replicaset=\"web-1\"} 1",
            "kube_replicaset_owner{namespace=\"d\",replicaset=\"web-1\",owner_kind=\"Deployment\",owner_name=\"web\",\
             owner_is_controller=\"true\"} 1",
        ],
    );
}

#[test]
fn stateful_and_daemon_sets() {
    let status = json!({"replicas": 2, "readyReplicas": 1, "updatedReplicas": 1, "currentReplicas": 1,
        "availableReplicas": 1, "currentRevision": "a", "updateRevision": "b"});
    let stateful = json!({"metadata": meta("db"), "spec": {"replicas": 2}, "status": status});
    let status = json!({"desiredNumberScheduled": 1, "numberUnavailable": 1, "numberMisscheduled": 0});
    let daemon = json!({"metadata": meta("log"), "status": status});
    check(
        Objects { stateful_sets: vec![typed(stateful)], daemon_sets: vec![typed(daemon)], ..Objects::default() },
        &[
            "kube_statefulset_replicas{namespace=\"d\",statefulset=\"db\"} 2",
            "kube_statefulset_metadata_generation{namespace=\"d\",statefulset=\"db\"} 3",
            "kube_statefulset_status_observed_generation{namespace=\"d\",statefulset=\"db\"} 0",
            "kube_statefulset_status_replicas{namespace=\"d\",statefulset=\"db\"} 2",
            "kube_statefulset_status_replicas_ready{namespace=\"d\",statefulset=\"db\"} 1",
            "kube_statefulset_status_replicas_updated{namespace=\"d\",statefulset=\"db\"} 1",
            "kube_statefulset_status_current_revision{namespace=\"d\",statefulset=\"db\",revision=\"a\"} 1",
            "kube_statefulset_status_update_revision{namespace=\"d\",statefulset=\"db\",revision=\"b\"} 1",
            "kube_daemonset_status_desired_number_scheduled{namespace=\"d\",daemonset=\"log\"} 1",
            "kube_daemonset_status_number_unavailable{namespace=\"d\",daemonset=\"log\"} 1",
            "kube_daemonset_status_number_misscheduled{namespace=\"d\",daemonset=\"log\"} 0",
        ],
    );
}

#[test]
fn jobs_and_cron_jobs() {
    let failed = json!([{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]);
    let job = |name: &str, status: Value| typed(json!({"metadata": meta(name), "status": status}));
    let jobs = vec![
        job("a", json!({"active": 1, "startTime": AT})),
        job("b", json!({"failed": 2})),
        job("c", json!({"failed": 2, "conditions": failed})),
    ];
    let cron = json!({"metadata": meta("n"), "spec": {"schedule": "0 * * * *", "concurrencyPolicy": "Forbid",
        "suspend": false}, "status": {"lastScheduleTime": AT, "active": [{}]}});
    let mut asleep = cron.clone();
    (asleep["metadata"]["name"], asleep["spec"]["suspend"]) = ("s".into(), true.into());
    let failed = |rest: &str| format!("kube_job_status_failed{{namespace=\"d\",job_name={rest}");
    check(
        Objects { jobs, cron_jobs: vec![typed(cron), typed(asleep)], ..Objects::default() },
        &[
            "kube_job_owner{namespace=\"d\",job_name=\"a\",owner_kind=\"\",owner_name=\"\",owner_is_controller=\"\"} 1",
            "kube_job_status_active{namespace=\"d\",job_name=\"a\"} 1",
            "kube_job_status_start_time{namespace=\"d\",job_name=\"a\"} 1780315200",
            &failed("\"a\"} 0"),
            &failed("\"b\",reason=\"\"} 2"),
            &failed("\"c\",reason=\"BackoffLimitExceeded\"} 1"),
            &failed("\"c\",reason=\"DeadlineExceeded\"} 0"),
            &failed("\"c\",reason=\"Evicted\"} 0"),
            "kube_job_failed{namespace=\"d\",job_name=\"c\",condition=\"true\"} 1",
            "kube_job_failed{namespace=\"d\",job_name=\"c\",condition=\"false\"} 0",
            "kube_cronjob_info{namespace=\"d\",cronjob=\"n\",schedule=\"0 * * * *\",concurrency_policy=\"Forbid\",\
             timezone=\"local\"} 1",
            "kube_cronjob_status_active{namespace=\"d\",cronjob=\"n\"} 1",
            "kube_cronjob_status_last_schedule_time{namespace=\"d\",cronjob=\"n\"} 1780315200",
            "kube_cronjob_spec_suspend{namespace=\"d\",cronjob=\"n\"} 0",
            "kube_cronjob_spec_suspend{namespace=\"d\",cronjob=\"s\"} 1",
            "kube_cronjob_next_schedule_time{namespace=\"d\",cronjob=\"n\"} 1780318800",
        ],
    );
}

#[test]
fn pods() {
    let status = json!({
        "phase": "Running", "podIP": "10.0.0.2", "hostIP": "10.0.0.1", "reason": "Evicted",
        "conditions": [{"type": "Ready", "status": "False"},
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        "containerStatuses": [{"name": "c", "ready": false, "restartCount": 4, "image": "i:1", "imageID": "sha",
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}],
    });
    let resources = json!({"requests": {"cpu": "500m", "memory": "1Ki"}, "limits": {"a.b/c": "1", "odd": "1"}});
    let spec = json!({"nodeName": "n1", "containers": [{"name": "c", "image": "i:1", "resources": resources}]});
    let pod = json!({"metadata": meta("p"), "spec": spec, "status": status});
    let line = |name: &str, labels: &str, value: &str| {
        format!("{name}{{namespace=\"d\",pod=\"p\",uid=\"u\"{labels}}} {value}")
    };
    let of_container = |name: &str, labels: &str, value: &str| line(name, &format!(",container=\"c\"{labels}"), value);
    let expected = [
        line(
            "kube_pod_info",
            ",host_ip=\"10.0.0.1\",pod_ip=\"10.0.0.2\",node=\"n1\",created_by_kind=\"\",created_by_name=\"\",\
             priority_class=\"\",host_network=\"false\"",
            "1",
        ),
        line("kube_pod_owner", ",owner_kind=\"\",owner_name=\"\",owner_is_controller=\"\"", "1"),
        line("kube_pod_status_phase", ",phase=\"Pending\"", "0"),
        line("kube_pod_status_phase", ",phase=\"Succeeded\"", "0"),
        line("kube_pod_status_phase", ",phase=\"Failed\"", "0"),
        line("kube_pod_status_phase", ",phase=\"Unknown\"", "0"),
        line("kube_pod_status_phase", ",phase=\"Running\"", "1"),
        line("kube_pod_status_ready", ",condition=\"true\"", "0"),
        line("kube_pod_status_ready", ",condition=\"false\"", "1"),
        line("kube_pod_status_scheduled", ",condition=\"false\"", "1"),
        line("kube_pod_status_unschedulable", "", "1"),
        line("kube_pod_status_reason", ",reason=\"Evicted\"", "1"),
        of_container(
            "kube_pod_container_info",
            ",image_spec=\"i:1\",image=\"i:1\",image_id=\"sha\",container_id=\"\"",
            "1",
        ),
        of_container("kube_pod_container_status_restarts_total", "", "4"),
        of_container("kube_pod_container_status_ready", "", "0"),
        of_container("kube_pod_container_status_waiting", "", "1"),
        of_container("kube_pod_container_status_waiting_reason", ",reason=\"CrashLoopBackOff\"", "1"),
        of_container("kube_pod_container_status_terminated", "", "0"),
        of_container("kube_pod_container_status_last_terminated_reason", ",reason=\"OOMKilled\"", "1"),
        of_container("kube_pod_container_status_last_terminated_exitcode", "", "137"),
        of_container("kube_pod_container_resource_requests", ",node=\"n1\",resource=\"cpu\",unit=\"core\"", "0.5"),
        of_container("kube_pod_container_resource_requests", ",node=\"n1\",resource=\"memory\",unit=\"byte\"", "1024"),
        of_container("kube_pod_container_resource_limits", ",node=\"n1\",resource=\"a_b_c\",unit=\"integer\"", "1"),
    ];
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check(Objects { pods: vec![typed(pod)], ..Objects::default() }, &expected);
}

#[test]
fn claims_namespaces_and_autoscalers() {
    let claim = json!({"metadata": meta("data"), "spec": {"storageClassName": "local", "volumeName": "pv",
        "volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Bound"}});
    let namespace = json!({"metadata": {"name": "d"}, "status": {"phase": "Active"}});
    let scaler = json!({"metadata": meta("h"), "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1",
        "kind": "Deployment", "name": "web"}}, "status": {"currentReplicas": 1, "desiredReplicas": 2,
        "conditions": [{"type": "AbleToScale", "status": "True"}]}});
    let of_claim = "namespace=\"d\",persistentvolumeclaim=\"data\"";
    let of_scaler = "namespace=\"d\",horizontalpodautoscaler=\"h\"";
    let expected = [
        "kube_namespace_status_phase{namespace=\"d\",phase=\"Active\"} 1".to_owned(),
        "kube_namespace_status_phase{namespace=\"d\",phase=\"Terminating\"} 0".to_owned(),
        format!(
            "kube_persistentvolumeclaim_info{{{of_claim},storageclass=\"local\",volumename=\"pv\",\
             volumemode=\"Filesystem\"}} 1"
        ),
        format!("kube_persistentvolumeclaim_status_phase{{{of_claim},phase=\"Bound\"}} 1"),
        format!("kube_persistentvolumeclaim_status_phase{{{of_claim},phase=\"Pending\"}} 0"),
        format!("kube_persistentvolumeclaim_resource_requests_storage_bytes{{{of_claim}}} 1073741824"),
        format!("kube_horizontalpodautoscaler_spec_min_replicas{{{of_scaler}}} 1"),
        format!("kube_horizontalpodautoscaler_spec_max_replicas{{{of_scaler}}} 3"),
        format!("kube_horizontalpodautoscaler_status_desired_replicas{{{of_scaler}}} 2"),
        format!(
            "kube_horizontalpodautoscaler_status_condition{{{of_scaler},condition=\"AbleToScale\",status=\"true\"}} 1"
        ),
    ];
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    let objects = Objects {
        claims: vec![typed(claim)],
        namespaces: vec![typed(namespace)],
        autoscalers: vec![typed(scaler)],
        ..Objects::default()
    };
    check(objects, &expected);
}

#[test]
fn problems_are_counted() {
    let one = |reason: &str, name: &str| Problem::new(reason, Subject::new("pod", "d", name), "is away");
    let problems = vec![one("NotReady", "a"), one("NotReady", "b"), one("CertificateEnds", "c").warning()];
    let found = Found { problems, ..Found::default() };
    let text = page(&Objects::default(), &found, &|_| None);
    for line in [
        "coracle_problems{severity=\"problem\",reason=\"NotReady\"} 2",
        "coracle_problems{severity=\"warning\",reason=\"CertificateEnds\"} 1",
        "coracle_problems_left_out 0",
        "coracle_state_left_out 0",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
    let text = page(&Objects::default(), &Found::default(), &|_| None);
    assert!(text.contains("coracle_problems{severity=\"problem\",reason=\"\"} 0\n"), "{text}");
}

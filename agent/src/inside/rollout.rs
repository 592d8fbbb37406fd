//! PURE. A restart of a workload of the API: the change that begins it, and when it is over.

use serde_json::{Value, json};

use super::named::NamedKind;

/// The annotation on the pod template by which kubectl restarts a workload.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// How far it is.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    Over,
    /// How many pods are new and ready.
    Goes(String),
    /// It does not go on by itself.
    Stuck(String),
}

/// A strategic merge patch. `now`: RFC 3339.
pub fn patch(now: &str) -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: now}}}}})
}

/// Why a changed pod template would replace no pod of it.
pub fn refusal(kind: NamedKind, workload: &Value) -> Option<&'static str> {
    match kind {
        NamedKind::Deployment if workload["spec"]["paused"] == true => {
            Some("it is paused (spec.paused): `kubectl rollout resume` lets it go on")
        }
        NamedKind::StatefulSet | NamedKind::DaemonSet if workload["spec"]["updateStrategy"]["type"] == "OnDelete" => {
            Some("its updateStrategy is OnDelete: restart each of its pods by name")
        }
        NamedKind::Deployment | NamedKind::StatefulSet | NamedKind::DaemonSet => None,
        NamedKind::ReplicaSet => Some("a ReplicaSet replaces no pods: restart its Deployment, or each pod by name"),
        NamedKind::Job => Some("a Job runs once: delete it and make it anew"),
        NamedKind::Pod => Some("it is no workload"),
    }
}

/// `generation`: the workload's generation after the change that began the rollout.
pub fn progress(kind: NamedKind, workload: &Value, generation: i64) -> Progress {
    let (spec, status) = (&workload["spec"], &workload["status"]);
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    if count("observedGeneration") < generation {
        return Progress::Goes("no controller has seen it yet".to_owned());
    }
    let wanted = spec["replicas"].as_i64().unwrap_or(1);
    let goes =
        |new: i64, wanted: i64, ready: i64| Progress::Goes(format!("{new} of {wanted} pods are new, {ready} ready"));
    match kind {
        NamedKind::Deployment => {
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            if let Some(late) = conditions.find(|one| one["reason"] == "ProgressDeadlineExceeded") {
                return Progress::Stuck(
                    late["message"].as_str().unwrap_or("it exceeds its progress deadline").to_owned(),
                );
            }
            let (new, all, ready) = (count("updatedReplicas"), count("replicas"), count("availableReplicas"));
            if new >= wanted && all <= new && ready >= new { Progress::Over } else { goes(new, wanted, ready) }
        }
        NamedKind::StatefulSet => {
            let partition = spec["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or(0);
            let (new, ready) = (count("updatedReplicas"), count("readyReplicas"));
            let due = (wanted - partition).max(0);
            if new >= due && ready >= wanted { Progress::Over } else { goes(new, due, ready) }
        }
        _ => {
            let (new, wanted) = (count("updatedNumberScheduled"), count("desiredNumberScheduled"));
            let ready = count("numberAvailable");
            if new >= wanted && ready >= wanted { Progress::Over } else { goes(new, wanted, ready) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_is_over() {
        let check = |kind, spec: Value, mut status: Value, expected: &str| {
            status["observedGeneration"] = json!(3);
            let workload = json!({"spec": spec, "status": status});
            let told = match progress(kind, &workload, 3) {
                Progress::Over => "over".to_owned(),
                Progress::Goes(words) | Progress::Stuck(words) => words,
            };
            assert_eq!(told, expected, "{workload}");
            let unseen = progress(kind, &workload, 4);
            assert_eq!(unseen, Progress::Goes("no controller has seen it yet".to_owned()));
        };
        use NamedKind::{DaemonSet, Deployment, StatefulSet};
        let deployment = |new: i64, all: i64, ready: i64| {
            json!({"updatedReplicas": new, "replicas": all,
            "availableReplicas": ready})
        };
        let two = || json!({"replicas": 2});
        check(Deployment, two(), deployment(2, 2, 2), "over");
        check(Deployment, two(), deployment(1, 3, 2), "1 of 2 pods are new, 2 ready");
        check(Deployment, two(), deployment(2, 3, 3), "2 of 2 pods are new, 3 ready");
        check(Deployment, two(), deployment(2, 2, 1), "2 of 2 pods are new, 1 ready");
        check(Deployment, json!({"replicas": 0}), json!({}), "over");
        let late =
            json!({"updatedReplicas": 1, "conditions": [{"reason": "ProgressDeadlineExceeded", "message": "late"}]});
        check(Deployment, two(), late, "late");
        let set = |new: i64, ready: i64| json!({"updatedReplicas": new, "readyReplicas": ready});
        check(StatefulSet, two(), set(2, 2), "over");
        check(StatefulSet, two(), set(1, 2), "1 of 2 pods are new, 2 ready");
        let half = json!({"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": 1}}});
        check(StatefulSet, half, set(1, 2), "over");
        let daemon = |new: i64, ready: i64| {
            json!({"updatedNumberScheduled": new, "desiredNumberScheduled": 2,
            "numberAvailable": ready})
        };
        check(DaemonSet, json!({}), daemon(2, 2), "over");
        check(DaemonSet, json!({}), daemon(2, 1), "2 of 2 pods are new, 1 ready");
    }

    #[test]
    fn what_does_not_roll_is_refused() {
        let on_delete = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}});
        for (kind, workload, refused) in [
            (NamedKind::Deployment, json!({"spec": {"paused": true}}), true),
            (NamedKind::Deployment, json!({"spec": {}}), false),
            (NamedKind::StatefulSet, on_delete.clone(), true),
            (NamedKind::DaemonSet, on_delete, true),
            (NamedKind::DaemonSet, json!({"spec": {}}), false),
            (NamedKind::ReplicaSet, json!({"spec": {}}), true),
            (NamedKind::Job, json!({"spec": {}}), true),
        ] {
            assert_eq!(refusal(kind, &workload).is_some(), refused, "{kind:?} {workload}");
        }
    }
}

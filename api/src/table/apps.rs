//! The apps group.

use super::cell::{self, Cells, NONE, list, number, text, yes};
use super::reading::Reading;
use crate::meta::Time;
use serde_json::Value;

pub fn cells_of(kind: &str) -> Option<Cells> {
    Some(match kind {
        "ControllerRevision" => revision,
        "DaemonSet" => daemon_set,
        "Deployment" => deployment,
        "ReplicaSet" => replica_set,
        "StatefulSet" => stateful_set,
        _ => return None,
    })
}

fn deployment(deployment: &Reading, now: Time) -> Vec<Value> {
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    let [names, images] = cell::containers(&spec["template"]["spec"]);
    vec![
        cell::name(deployment),
        format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"])).into(),
        number(&status["updatedReplicas"]).into(),
        number(&status["availableReplicas"]).into(),
        cell::age(deployment, now),
        names,
        images,
        cell::selector(&spec["selector"]).into(),
    ]
}

fn replica_set(set: &Reading, now: Time) -> Vec<Value> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let [names, images] = cell::containers(&spec["template"]["spec"]);
    vec![
        cell::name(set),
        number(&spec["replicas"]).into(),
        number(&status["replicas"]).into(),
        number(&status["readyReplicas"]).into(),
        cell::age(set, now),
        names,
        images,
        cell::selector(&spec["selector"]).into(),
    ]
}

fn stateful_set(set: &Reading, now: Time) -> Vec<Value> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let [names, images] = cell::containers(&spec["template"]["spec"]);
    let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]));
    vec![cell::name(set), ready.into(), cell::age(set, now), names, images]
}

fn daemon_set(set: &Reading, now: Time) -> Vec<Value> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let [names, images] = cell::containers(&spec["template"]["spec"]);
    vec![
        cell::name(set),
        number(&status["desiredNumberScheduled"]).into(),
        number(&status["currentNumberScheduled"]).into(),
        number(&status["numberReady"]).into(),
        number(&status["updatedNumberScheduled"]).into(),
        number(&status["numberAvailable"]).into(),
        cell::labels(&spec["template"]["spec"]["nodeSelector"]).into(),
        cell::age(set, now),
        names,
        images,
        cell::selector(&spec["selector"]).into(),
    ]
}

fn revision(revision: &Reading, now: Time) -> Vec<Value> {
    let owner = list(&revision["metadata"]["ownerReferences"]).iter().find(|owner| yes(&owner["controller"]));
    let controller = owner.map_or_else(|| NONE.to_owned(), controller);
    vec![cell::name(revision), controller.into(), number(&revision["revision"]).into(), cell::age(revision, now)]
}

/// `daemonset.apps/web`
fn controller(owner: &Reading) -> String {
    let group = text(&owner["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    let point = if group.is_empty() { "" } else { "." };
    format!("{}{point}{group}/{}", text(&owner["kind"]).to_lowercase(), text(&owner["name"]))
}

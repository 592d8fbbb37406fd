//! The parts of a pod's status that the agent writes; others write the rest. PURE.
//!
//! As a kubelet does it: a strategic merge patch that names the pod's uid, the agent's own fields, and its own
//! conditions by their types. The patch needs no revision: concurrent changes of other writers stay, at any place in
//! the status.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::status::{CONDITIONS, is_own, least_restarts};

/// The status fields that the agent writes, also by leaving them out. Placement, claims and gates are written by
/// others.
const FIELDS: [&str; 15] = [
    "allocatedResources",
    "conditions",
    "containerStatuses",
    "ephemeralContainerStatuses",
    "hostIP",
    "hostIPs",
    "initContainerStatuses",
    "message",
    "observedGeneration",
    "phase",
    "podIP",
    "podIPs",
    "reason",
    "resources",
    "startTime",
];
/// A field of the server; the agent sets the class only while the field is empty.
const CLASS: &str = "qosClass";
const SINCE: &str = "lastTransitionTime";
/// Merged by `ip`: what goes has to be named.
const ADDRESSES: [&str; 2] = ["hostIPs", "podIPs"];

/// The patch that makes this the agent's part of a pod's status, which shows `shows` now. The master refuses the patch
/// for a pod with another uid.
pub fn pod_status(uid: &str, status: &Value, shows: &Value) -> Value {
    let mut patch: Map<String, Value> =
        FIELDS.iter().map(|field| ((*field).to_owned(), status[*field].clone())).collect();
    if status[CLASS].is_string() {
        patch.insert(CLASS.to_owned(), status[CLASS].clone());
    }
    let conditions = own(&status["conditions"]);
    let order: Vec<Value> = conditions.iter().map(|condition| json!({"type": condition["type"]})).collect();
    let kind = |kind: &str| conditions.iter().find(|condition| condition["type"] == kind);
    let gone = CONDITIONS
        .iter()
        .filter(|missing| kind(missing).is_none())
        .map(|kind| json!({"$patch": "delete", "type": kind}));
    let said = conditions.iter().map(|condition| {
        let mut condition = (*condition).clone();
        for left_out in ["reason", "message", "observedGeneration"] {
            condition[left_out] = condition[left_out].take();
        }
        condition
    });
    patch.insert("conditions".to_owned(), said.chain(gone).collect());
    patch.insert("$setElementOrder/conditions".to_owned(), order.into());
    for field in ADDRESSES {
        let entries = |status: &Value| status[field].as_array().cloned().unwrap_or_default();
        let now = entries(status);
        let gone = entries(shows).into_iter().filter(|entry| !now.contains(entry));
        let gone: Vec<Value> = gone.map(|entry| json!({"$patch": "delete", "ip": entry["ip"]})).collect();
        patch.insert(field.to_owned(), now.into_iter().chain(gone).collect());
    }
    json!({ "metadata": { "uid": uid }, "status": patch })
}

/// The status as it follows on the one that is shown, as an agent that starts anew, or another writer, may know other
/// times and fewer starts. The start of the pod and the times of conditions that did not change stay, and no count of
/// restarts falls.
pub(crate) fn follows(status: &Value, shows: &Value) -> Value {
    let mut status = status.clone();
    if status["startTime"].is_string() && shows["startTime"].is_string() {
        status["startTime"] = shows["startTime"].clone();
    }
    let list = |status: &'_ Value, field: &str| status[field].as_array().cloned().unwrap_or_default();
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let same = |one: &&Value| one["type"] == condition["type"] && one["status"] == condition["status"];
        let shown = list(shows, "conditions");
        if let Some(since) = shown.iter().find(same).map(|one| &one[SINCE]).filter(|since| since.is_string()) {
            condition[SINCE] = since.clone();
        }
    }
    for field in ["initContainerStatuses", "containerStatuses"] {
        let shown = list(shows, field);
        for one in status.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(before) = shown.iter().find(|before| before["name"] == one["name"]) {
                keep_count(one, before);
            }
        }
    }
    status
}

fn keep_count(status: &mut Value, shown: &Value) {
    let least = least_restarts(status["containerID"].as_str(), shown);
    if status["restartCount"].as_u64().unwrap_or(0) < least {
        status["restartCount"] = least.into();
    }
}

/// Whether of what is the agent's to say a shown status says the same.
pub(crate) fn agrees(status: &Value, shows: &Value) -> bool {
    FIELDS.iter().all(|field| match *field {
        "conditions" => {
            let (ours, theirs) = (own(&status["conditions"]), own(&shows["conditions"]));
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| equal(ours, theirs))
        }
        field => equal(&status[field], &shows[field]),
    }) && (status[CLASS].is_null() || status[CLASS] == shows[CLASS])
}

fn own(conditions: &Value) -> Vec<&Value> {
    conditions.as_array().into_iter().flatten().filter(|condition| is_own(condition)).collect()
}

/// A missing field, null, and an empty list or object are equal.
fn equal(ours: &Value, theirs: &Value) -> bool {
    let empty = |value: &Value| {
        value.is_null() || value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
    };
    match (ours, theirs) {
        (ours, theirs) if empty(ours) && empty(theirs) => true,
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            keys.into_iter().all(|key| equal(a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_are_shown_stay() {
        let of = |start: &str, ready: &str, since: &str| {
            let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": since});
            json!({"startTime": start, "conditions": [condition]})
        };
        let check = |shows: Value, expected: Value| assert_eq!(follows(&of("1", "True", "2"), &shows), expected);
        check(of("5", "True", "6"), of("5", "True", "6"));
        check(of("5", "False", "6"), of("5", "True", "2"));
        check(json!({"conditions": [{"type": "Ready", "status": "True"}]}), of("1", "True", "2"));
        check(Value::Null, of("1", "True", "2"));
    }

    #[test]
    fn restarts_that_are_shown_count_on() {
        let of = |id: Value, count: u64| json!([{"name": "c", "restartCount": count, "containerID": id}]);
        let check = |ours: (Value, u64), shows: (Value, u64), expected: u64| {
            for field in ["initContainerStatuses", "containerStatuses"] {
                let (status, shows) =
                    (json!({field: of(ours.0.clone(), ours.1)}), json!({field: of(shows.0.clone(), shows.1)}));
                assert_eq!(follows(&status, &shows)[field][0]["restartCount"], expected, "{ours:?} {shows:?}");
            }
        };
        let (one, other) = (json!("docker://1"), json!("docker://2"));
        check((one.clone(), 3), (one.clone(), 3), 3);
        check((one.clone(), 0), (one.clone(), 3), 3);
        // The shown container was removed while no agent ran.
        check((other.clone(), 0), (one.clone(), 3), 4);
        check((other.clone(), 4), (one.clone(), 3), 4);
        check((other.clone(), 7), (one.clone(), 3), 7);
        check((Value::Null, 0), (one.clone(), 3), 3);
        check((other, 0), (Value::Null, 3), 3);
        // The newest container was removed: the previous container does not count as a further start.
        let shown = json!({"containerStatuses": [{
            "name": "c", "restartCount": 3, "containerID": "docker://2",
            "lastState": {"terminated": {"containerID": "docker://1"}},
        }]});
        let status = json!({"containerStatuses": of(one, 2)});
        assert_eq!(follows(&status, &shown)["containerStatuses"][0]["restartCount"], 3);
    }

    #[test]
    fn only_its_own_is_compared() {
        let check =
            |status: Value, shows: Value, same: bool| assert_eq!(agrees(&status, &shows), same, "{status} {shows}");
        let running = json!({"phase": "Running", "podIP": null, "ephemeralContainerStatuses": []});
        check(running.clone(), json!({"phase": "Running", "qosClass": "BestEffort", "nominatedNodeName": "n"}), true);
        check(running.clone(), json!({"phase": "Pending"}), false);
        check(running.clone(), json!({"phase": "Running", "message": "left over"}), false);
        check(json!({"qosClass": "Burstable"}), json!({}), false);
        let (ready, gate) = (json!({"type": "Ready", "status": "True"}), json!({"type": "a.b/gate", "status": "True"}));
        check(json!({"conditions": [ready]}), json!({"conditions": [gate, ready]}), true);
        check(json!({"conditions": [ready]}), json!({"conditions": [gate]}), false);
        check(json!({"conditions": [ready, gate]}), json!({"conditions": [ready]}), true);
        check(json!({}), json!({"conditions": [ready]}), false);
    }
}

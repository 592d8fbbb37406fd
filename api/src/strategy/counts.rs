//! Checks the counts of a status: nothing below zero, no part more than the whole. PURE.

use super::checks::not_negative;
use super::doc::{list, number};
use crate::meta::Durable;
use coracle_schema::{Path, Problem};
use serde_json::Value;

/// The numbers in the status of a kind, in the order in which they are told.
pub struct Counts {
    pub counted: &'static [&'static str],
    /// No more of these than `replicas`.
    pub parts: &'static [&'static str],
    /// How `readyReplicas` is called where more are available than ready; empty: nobody compares.
    pub ready: &'static str,
}

pub static DEPLOYMENT: Counts = Counts {
    counted: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    parts: &["updatedReplicas", "readyReplicas", "availableReplicas"],
    ready: "readyReplicas",
};
/// The counts of replica sets and replication controllers.
pub static REPLICA_SET: Counts = Counts {
    counted: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "terminatingReplicas",
        "observedGeneration",
    ],
    parts: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    ready: "readyReplicas",
};
pub static DAEMON_SET: Counts = Counts {
    counted: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    parts: &[],
    ready: "",
};
pub static STATEFUL_SET: Counts = Counts {
    counted: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    parts: &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
    ready: "status.readyReplicas",
};

pub fn problems(object: &Value, counts: &Counts) -> Vec<Problem> {
    let (status, path) = (&object["status"], Path::new("status"));
    let mut found = not_negative(status, counts.counted, &path);
    let of = |field: &str| number(status, field).unwrap_or(0);
    for part in counts.parts.iter().filter(|part| of(part) > of("replicas")) {
        found.push(Problem::invalid(&path.field(part), of(part), "cannot be greater than status.replicas"));
    }
    if !counts.ready.is_empty() && of("availableReplicas") > of("readyReplicas") {
        let words = format!("cannot be greater than {}", counts.ready);
        found.push(Problem::invalid(&path.field("availableReplicas"), of("availableReplicas"), words));
    }
    found
}

/// How often a name was taken is never forgotten.
pub fn forgotten(new: &Value, old: &Value) -> Option<Problem> {
    let was = number(&old["status"], "collisionCount")?;
    let is = number(&new["status"], "collisionCount").unwrap_or(0);
    (is < was).then(|| Problem::invalid(&Path::new("status.collisionCount"), is, "cannot be decremented"))
}

/// Controllers can count again, except the collisions of a hash: later names depend on the number of collisions. A
/// restarted controller also cannot see that a rollout has exceeded its deadline.
pub fn durable(object: &Value) -> Durable {
    let collided = number(&object["status"], "collisionCount").is_some_and(|count| count > 0);
    let late = list(&object["status"], "conditions").iter().any(|one| one["reason"] == "ProgressDeadlineExceeded");
    if collided || late { Durable::Whole } else { Durable::WithoutStatus }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counted() {
        fn check(status: Value, counts: &Counts, expected: &[&str]) {
            let found = problems(&json!({"status": status}), counts);
            assert_eq!(found.iter().map(Problem::to_string).collect::<Vec<_>>(), expected, "{status}");
        }
        check(json!({"replicas": 3, "readyReplicas": 2, "availableReplicas": 2}), &DEPLOYMENT, &[]);
        check(Value::Null, &STATEFUL_SET, &[]);
        let more = "cannot be greater than status.replicas";
        check(
            json!({"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}),
            &STATEFUL_SET,
            &[
                &format!("status.readyReplicas: Invalid value: 2: {more}"),
                &format!("status.availableReplicas: Invalid value: 3: {more}"),
                "status.availableReplicas: Invalid value: 3: cannot be greater than status.readyReplicas",
            ],
        );
        check(
            json!({"numberReady": -1}),
            &DAEMON_SET,
            &["status.numberReady: Invalid value: -1: must be greater than or equal to 0"],
        );
        let (old, new) = (json!({"status": {"collisionCount": 2}}), json!({"status": {"collisionCount": 1}}));
        assert!(forgotten(&new, &old).is_some() && forgotten(&old, &new).is_none());
    }

    #[test]
    fn collisions_and_missed_deadlines_outlive_a_restart() {
        let check =
            |status: Value, expected: Durable| assert_eq!(durable(&json!({"status": status})), expected, "{status}");
        check(Value::Null, Durable::WithoutStatus);
        check(json!({"replicas": 3, "collisionCount": 0}), Durable::WithoutStatus);
        check(json!({"replicas": 3, "collisionCount": 1}), Durable::Whole);
        let progressing = |reason: &str| json!({"conditions": [{"type": "Progressing", "reason": reason}]});
        check(progressing("ReplicaSetUpdated"), Durable::WithoutStatus);
        check(progressing("ProgressDeadlineExceeded"), Durable::Whole);
    }
}

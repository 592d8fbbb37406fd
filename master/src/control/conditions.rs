//! Conditions of workloads: found, set and taken away by type, as Kubernetes orders them: one that changes goes to the
//! end. PURE.

use super::controller::Now;
use coracle_api::workload::Condition;

pub fn find<'c>(conditions: &'c [Condition], kind: &str) -> Option<&'c Condition> {
    conditions.iter().find(|one| one.kind == kind)
}

pub fn remove(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|one| one.kind != kind);
}

/// One that says the same, by status and reason, stays as it is.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    if let Some(was) = find(conditions, &condition.kind) {
        if was.status == condition.status && was.reason == condition.reason {
            return;
        }
        if was.status == condition.status {
            condition.last_transition_time = was.last_transition_time;
        }
    }
    remove(conditions, &condition.kind);
    conditions.push(condition);
}

pub fn new(kind: &str, status: &str, reason: &str, message: String, now: Now) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        last_update_time: Some(now.wall),
        last_transition_time: Some(now.wall),
        reason: reason.to_owned(),
        message,
    }
}

//! Decides whether a disruption budget, as last counted, allows an eviction. PURE.

use super::doc::{has, list, map_at, number, text};
use super::label_selector;
use crate::meta::Time;
use serde_json::{Value, json};

/// The maximum number of disruptions that a budget remembers; with more, the controller of budgets is far behind.
const DISRUPTED_MAX: usize = 2000;
/// The condition of a pod that will be deleted, with the reason.
pub const DISRUPTED: &str = "DisruptionTarget";

/// The decision on an eviction.
#[derive(Clone, Debug, PartialEq)]
pub enum EvictionVerdict {
    /// It goes. `at_this_state`: only as long as it is what was looked at.
    Goes { at_this_state: bool },
    /// It goes, and the budget has one disruption less: its document.
    Counted(Value),
    /// Not now. `processing`: nobody has counted this budget yet, so it is worth asking again soon.
    Refused { why: String, processing: bool },
    /// Never like this.
    Forbidden { budget: String, why: String },
    /// Two budgets over one pod are more than one can mind.
    TooManyBudgets,
}

/// A pod that is over, has not begun, or is going already disturbs nobody.
fn is_idle(pod: &Value) -> bool {
    matches!(text(&pod["status"], "phase"), "Succeeded" | "Failed" | "Pending")
        || has(&pod["metadata"], "deletionTimestamp")
}

fn is_ready(pod: &Value) -> bool {
    list(&pod["status"], "conditions")
        .iter()
        .any(|condition| text(condition, "type") == "Ready" && text(condition, "status") == "True")
}

/// `budgets`: all of the pod's namespace.
pub fn judge(pod: &Value, budgets: &[Value], now: Time) -> EvictionVerdict {
    if is_idle(pod) {
        return EvictionVerdict::Goes { at_this_state: true };
    }
    let labels = &pod["metadata"]["labels"];
    let mut over = budgets.iter().filter(|budget| label_selector::matches(&budget["spec"]["selector"], labels));
    let Some(budget) = over.next() else { return EvictionVerdict::Goes { at_this_state: false } };
    if over.next().is_some() {
        return EvictionVerdict::TooManyBudgets;
    }
    let (status, count) = (&budget["status"], |field: &str| number(&budget["status"], field).unwrap_or_default());
    if !is_ready(pod) {
        let always = text(&budget["spec"], "unhealthyPodEvictionPolicy") == "AlwaysAllow";
        let healthy = count("currentHealthy") >= count("desiredHealthy") && count("desiredHealthy") > 0;
        if always || healthy {
            return EvictionVerdict::Goes { at_this_state: true };
        }
    }
    let name = text(&budget["metadata"], "name").to_owned();
    if count("observedGeneration") < number(&budget["metadata"], "generation").unwrap_or_default() {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return EvictionVerdict::Refused { why, processing: true };
    }
    let allowed = count("disruptionsAllowed");
    if allowed < 0 {
        return EvictionVerdict::Forbidden { budget: name, why: "pdb disruptions allowed is negative".to_owned() };
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > DISRUPTED_MAX) {
        return EvictionVerdict::Forbidden {
            budget: name,
            why: "DisruptedPods map too big - too many evictions not confirmed by PDB controller".to_owned(),
        };
    }
    if allowed == 0 {
        let (wanted, healthy) = (count("desiredHealthy"), count("currentHealthy"));
        let why = format!("The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently");
        return EvictionVerdict::Refused { why, processing: false };
    }
    EvictionVerdict::Counted(counted(budget, allowed, text(&pod["metadata"], "name"), now))
}

/// The budget with one allowed disruption less, and with the pod's name in `disruptedPods`.
fn counted(budget: &Value, allowed: i64, pod: &str, now: Time) -> Value {
    let mut budget = budget.clone();
    let status = map_at(&mut budget, "status");
    status.insert("disruptionsAllowed".into(), (allowed - 1).into());
    if allowed == 1 {
        set_allowance(&mut budget["status"], Allowance::Insufficient, now);
    }
    map_at(&mut budget["status"], "disruptedPods").insert(pod.to_owned(), now.to_string().into());
    budget
}

/// Whether a budget allows a disruption.
#[derive(Clone, Copy, Debug)]
pub enum Allowance<'a> {
    Sufficient,
    Insufficient,
    /// Nobody can say, and why.
    Unknown(&'a str),
}

/// Sets the budget's `DisruptionAllowed` condition, with the observed generation of the status.
pub fn set_allowance(status: &mut Value, allowance: Allowance<'_>, now: Time) {
    let (allowed, reason, message) = match allowance {
        Allowance::Sufficient => ("True", "SufficientPods", ""),
        Allowance::Insufficient => ("False", "InsufficientPods", ""),
        Allowance::Unknown(why) => ("False", "SyncFailed", why),
    };
    let mut condition = json!({"type": "DisruptionAllowed", "status": allowed, "reason": reason, "message": message,
        "lastTransitionTime": now.to_string()});
    if has(status, "observedGeneration") {
        condition["observedGeneration"] = status["observedGeneration"].clone();
    }
    set_condition(status, condition);
}

/// The status of a pod that does not go after all.
pub fn spared(status: &Value, now: Time) -> Value {
    let mut status = status.clone();
    let condition =
        json!({"type": DISRUPTED, "status": "False", "lastProbeTime": null, "lastTransitionTime": now.to_string()});
    set_condition(&mut status, condition);
    status
}

/// The pod with a condition that names the eviction as the reason.
pub fn doomed(pod: &Value, now: Time) -> Value {
    let mut pod = pod.clone();
    map_at(&mut pod, "status");
    let condition = json!({"type": DISRUPTED, "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now.to_string()});
    set_condition(&mut pod["status"], condition);
    pod
}

/// Replaces the condition of the same type. The transition time stays if the condition's status stays.
fn set_condition(status: &mut Value, mut condition: Value) {
    let mut all = list(status, "conditions").to_vec();
    match all.iter_mut().find(|old| old["type"] == condition["type"]) {
        Some(old) => {
            if old["status"] == condition["status"] && has(old, "lastTransitionTime") {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => all.push(condition),
    }
    status["conditions"] = all.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Time {
        Time::from_seconds(1_600_000_000).unwrap()
    }

    fn pod(phase: &str, ready: &str) -> Value {
        json!({"metadata": {"name": "p", "labels": {"app": "web"}},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}})
    }

    fn budget(name: &str, selector: Value, status: Value) -> Value {
        json!({"metadata": {"name": name, "generation": 1}, "spec": {"selector": selector}, "status": status})
    }

    #[test]
    fn verdicts() {
        let web = || json!({"matchLabels": {"app": "web"}});
        let check = |pod: &Value, budgets: &[Value], expected: EvictionVerdict| {
            assert_eq!(judge(pod, budgets, now()), expected, "{budgets:?}")
        };
        let runs = pod("Running", "True");
        check(&runs, &[], EvictionVerdict::Goes { at_this_state: false });
        check(
            &runs,
            &[budget("b", json!({"matchLabels": {"app": "db"}}), json!({}))],
            EvictionVerdict::Goes { at_this_state: false },
        );
        check(
            &runs,
            &[budget("b", web(), json!({})), budget("c", json!({}), json!({}))],
            EvictionVerdict::TooManyBudgets,
        );
        let refused = |why: &str, processing| EvictionVerdict::Refused { why: why.into(), processing };
        let processing = refused("The disruption budget b is still being processed by the server.", true);
        check(&runs, &[budget("b", web(), json!({}))], processing);
        let spent = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1});
        let why = "The disruption budget b needs 1 healthy pods and has 1 currently";
        check(&runs, &[budget("b", web(), spent.clone())], refused(why, false));
        // An unhealthy pod needs no budget if enough further pods are healthy; a pending pod needs no budget.
        check(
            &pod("Running", "False"),
            &[budget("b", web(), spent.clone())],
            EvictionVerdict::Goes { at_this_state: true },
        );
        check(
            &pod("Pending", "False"),
            &[budget("b", web(), json!({}))],
            EvictionVerdict::Goes { at_this_state: true },
        );
        let mut always = budget("b", web(), json!({}));
        always["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow".into();
        check(&pod("Running", "False"), &[always], EvictionVerdict::Goes { at_this_state: true });
        let one = json!({"observedGeneration": 1, "disruptionsAllowed": 1});
        let EvictionVerdict::Counted(after) = judge(&runs, &[budget("b", web(), one)], now()) else {
            panic!("it is allowed")
        };
        assert_eq!(
            (&after["status"]["disruptionsAllowed"], &after["status"]["conditions"][0]["status"]),
            (&json!(0), &json!("False"))
        );
        assert_eq!(after["status"]["disruptedPods"], json!({"p": "2020-09-13T12:26:40Z"}));
    }

    #[test]
    fn the_reason_stays_with_the_pod() {
        let once = doomed(&pod("Running", "True"), now());
        assert_eq!(once["status"]["conditions"][1]["reason"], "EvictionByEvictionAPI");
        assert_eq!(doomed(&once, Time::from_seconds(1_700_000_000).unwrap()), once);
    }
}

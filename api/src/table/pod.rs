//! Pods: how many containers are ready, what the pod is at, and how often it was started anew.

use super::age;
use super::cell::{self, NONE, list, number, text, text_or, yes};
use super::reading::Reading;
use crate::meta::Time;
use serde_json::{Value, json};

pub fn cells(pod: &Reading, now: Time) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let seen = Seen::of(pod);
    let restarts = match seen.restarted {
        Some(last) if seen.restarts > 0 => format!("{} ({} ago)", seen.restarts, age::span(now.seconds() - last)),
        _ => seen.restarts.to_string(),
    };
    vec![
        cell::name(pod),
        format!("{}/{}", seen.ready, seen.containers).into(),
        seen.reason.into(),
        restarts.into(),
        cell::age(pod, now),
        text_or(&status["podIPs"][0]["ip"], NONE).into(),
        text_or(&spec["nodeName"], NONE).into(),
        text_or(&status["nominatedNodeName"], NONE).into(),
        gates(pod).into(),
    ]
}

/// The row conditions of a finished pod.
pub fn conditions(pod: &Reading) -> Option<Value> {
    let (reason, message) = match text(&pod["status"]["phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

/// Readiness gates that are open.
fn gates(pod: &Reading) -> String {
    let gates = list(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open =
        gates.iter().filter(|gate| cell::holds(&pod["status"]["conditions"], text(&gate["conditionType"]))).count();
    format!("{open}/{}", gates.len())
}

/// The summary of the containers' statuses.
#[derive(Default)]
struct Seen {
    reason: String,
    containers: usize,
    ready: usize,
    restarts: i64,
    /// When the last container that was started anew had ended, in seconds since 1970.
    restarted: Option<i64>,
}

impl Seen {
    fn of(pod: &Reading) -> Seen {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let sidecars = list(&spec["initContainers"]).iter().filter(|container| is_sidecar(container)).count();
        let mut seen = Seen {
            reason: text_or(&status["reason"], text(&status["phase"])).to_owned(),
            containers: list(&spec["containers"]).len() + sidecars,
            ..Seen::default()
        };
        let gated =
            |condition: &&Reading| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated";
        if list(&status["conditions"]).iter().any(|condition| gated(&condition)) {
            seen.reason = "SchedulingGated".to_owned();
        }
        let (initializing, of_sidecars) = seen.init_containers(pod);
        if !initializing || cell::holds(&status["conditions"], "Initialized") {
            (seen.restarts, seen.restarted) = of_sidecars;
            seen.main_containers(status);
        }
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            if status["reason"] == "NodeLost" {
                seen.reason = "Unknown".to_owned();
            } else if !matches!(text(&status["phase"]), "Succeeded" | "Failed") {
                seen.reason = "Terminating".to_owned();
            }
        }
        seen
    }

    /// Whether the pod is still at them, and what is to be counted of the sidecars alone.
    fn init_containers(&mut self, pod: &Reading) -> (bool, (i64, Option<i64>)) {
        let all = list(&pod["spec"]["initContainers"]);
        let mut of_sidecars = Seen::default();
        for (at, status) in list(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
            self.count_restarts(status);
            let sidecar = all.iter().any(|container| container["name"] == status["name"] && is_sidecar(container));
            if sidecar {
                of_sidecars.count_restarts(status);
            }
            let (ended, waiting) = (&status["state"]["terminated"], text(&status["state"]["waiting"]["reason"]));
            if !ended.is_null() && number(&ended["exitCode"]) == 0 {
                continue;
            }
            if sidecar && yes(&status["started"]) {
                self.ready += usize::from(yes(&status["ready"]));
                continue;
            }
            self.reason = if !ended.is_null() {
                format!("Init:{}", ending(ended))
            } else if !matches!(waiting, "" | "PodInitializing") {
                format!("Init:{waiting}")
            } else {
                format!("Init:{at}/{}", all.len())
            };
            return (true, (of_sidecars.restarts, of_sidecars.restarted));
        }
        (false, (of_sidecars.restarts, of_sidecars.restarted))
    }

    /// The first container with something to say has the last word.
    fn main_containers(&mut self, status: &Reading) {
        let mut running = false;
        for container in list(&status["containerStatuses"]).iter().rev() {
            self.count_restarts(container);
            let (state, waiting) = (&container["state"], text(&container["state"]["waiting"]["reason"]));
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if !state["terminated"].is_null() {
                self.reason = ending(&state["terminated"]);
            } else if yes(&container["ready"]) && !state["running"].is_null() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && running {
            let ready = cell::holds(&status["conditions"], "Ready");
            self.reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }

    fn count_restarts(&mut self, container: &Reading) {
        self.restarts += number(&container["restartCount"]);
        self.restarted = self.restarted.max(age::seconds(&container["lastState"]["terminated"]["finishedAt"]));
    }
}

fn is_sidecar(container: &Reading) -> bool {
    container["restartPolicy"] == "Always"
}

fn ending(ended: &Reading) -> String {
    match (text(&ended["reason"]), number(&ended["signal"])) {
        ("", 0) => format!("ExitCode:{}", number(&ended["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

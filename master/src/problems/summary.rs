//! Nodes and pods in numbers, and the line for `systemctl status`: "1 node, 12 pods run, 2 problems: ...". PURE.

use super::context::{Found, counted};
use super::objects::Objects;
use coracle_keeper::problem::{Problem, Severity, cut};
use serde::{Deserialize, Serialize};

/// Problems that the line names: it is to fit a terminal.
const NAMED_MAX: usize = 3;
const NAMED_CHARS_MAX: usize = 120;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow {
    pub name: String,
    pub ready: bool,
    pub cordoned: bool,
}

/// Pods by phase, those of files too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodCounts {
    pub running: usize,
    pub pending: usize,
    pub succeeded: usize,
    pub failed: usize,
}

/// One look at the cluster, as the page `/coracle/problems` tells it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Summary {
    pub problems: Vec<Problem>,
    /// Problems beyond `PROBLEMS_MAX`.
    pub left_out: usize,
    pub nodes: Vec<NodeRow>,
    pub pods: PodCounts,
}

impl Summary {
    pub fn of(objects: &Objects, found: Found) -> Summary {
        let mut nodes: Vec<NodeRow> = objects
            .nodes
            .iter()
            .map(|node| NodeRow {
                name: node.metadata.name.clone(),
                ready: node.status.ready(),
                cordoned: node.spec.unschedulable,
            })
            .collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let mut pods = PodCounts::default();
        for pod in &objects.pods {
            match pod.status.phase.as_str() {
                "Running" => pods.running += 1,
                "Succeeded" => pods.succeeded += 1,
                "Failed" => pods.failed += 1,
                _ => pods.pending += 1,
            }
        }
        Summary { problems: found.problems, left_out: found.left_out, nodes, pods }
    }

    pub fn count(&self, severity: Severity) -> usize {
        self.problems.iter().filter(|problem| problem.severity == severity).count()
    }

    pub fn is_well(&self) -> bool {
        self.count(Severity::Problem) == 0
    }

    pub fn line(&self) -> String {
        let mut parts = vec![counted(self.nodes.len(), "node")];
        let runs = if self.pods.running == 1 { "runs" } else { "run" };
        parts.push(format!("{} {runs}", counted(self.pods.running, "pod")));
        if self.pods.pending > 0 {
            let wait = if self.pods.pending == 1 { "waits" } else { "wait" };
            parts.push(format!("{} {wait}", self.pods.pending));
        }
        let bad = self.problems.iter().filter(|problem| problem.severity == Severity::Problem);
        let named: Vec<String> = bad.take(NAMED_MAX).map(|one| cut(&short(one), NAMED_CHARS_MAX)).collect();
        let count = self.count(Severity::Problem) + self.left_out;
        if count == 0 {
            return format!("{}, no problem", parts.join(", "));
        }
        let more = if count > named.len() { format!("; and {} more", count - named.len()) } else { String::new() };
        format!("{}, {}: {}{more}", parts.join(", "), counted(count, "problem"), named.join("; "))
    }
}

/// Its subject and what is missing.
fn short(problem: &Problem) -> String {
    let line = format!("{}: {}", problem.subject.words(), problem.what);
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

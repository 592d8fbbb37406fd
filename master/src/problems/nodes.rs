//! Nodes that are not ready, cordoned, or short of something. PURE.

use super::context::{Context, Found, Words};
use coracle_api::node::{Node, NodeCondition};
use coracle_keeper::problem::Subject;
use serde::Deserialize;

/// The taint of a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The conditions that are to be False, what they mean, and how to see more.
const SHORTAGES: [(&str, &str, &str); 4] = [
    ("MemoryPressure", "is short of memory: it refuses or evicts pods", "ps -eo rss,comm --sort=-rss | head"),
    ("DiskPressure", "is short of disk: it refuses or evicts pods", "docker system df"),
    ("PIDPressure", "is short of processes: it refuses or evicts pods", "ps -eo nlwp,comm --sort=-nlwp | head"),
    ("NetworkUnavailable", "has no network for pods", "coracle doctor"),
];

/// The part of a node that is read here.
#[derive(Default, PartialEq, Deserialize)]
#[serde(default)]
struct NodeRead {
    spec: SpecRead,
    status: StatusRead,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(default)]
struct SpecRead {
    unschedulable: bool,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(default)]
struct StatusRead {
    conditions: Vec<ConditionRead>,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(default)]
struct ConditionRead {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: String,
}

/// Whether a write of a node was a sign of life alone.
pub fn is_heartbeat(old: &[u8], new: &[u8]) -> bool {
    let read = |json: &[u8]| serde_json::from_slice::<NodeRead>(json).ok();
    read(old).is_some_and(|old| read(new) == Some(old))
}

pub fn tell(context: &Context<'_>, found: &mut Found) {
    for node in context.objects.nodes.iter().filter(|node| node.metadata.deletion_timestamp.is_none()) {
        let name = &node.metadata.name;
        let subject = || Subject::new("node", "", name);
        if !node.status.ready() {
            found.tell("NodeNotReady", subject(), not_ready(node));
        }
        if node.spec.unschedulable {
            let taint = node.spec.taints.iter().find(|taint| taint.key == UNSCHEDULABLE);
            let words = Words {
                what: "is cordoned: it takes no new pods".to_owned(),
                advice: format!("kubectl uncordon {name}"),
                since: taint.and_then(|taint| taint.time_added),
                ..Words::default()
            };
            found.tell("NodeCordoned", subject(), words);
        }
        for (kind, what, advice) in SHORTAGES {
            if let Some(condition) = node.status.condition(kind).filter(|condition| condition.status == "True") {
                found.tell(kind, subject(), said(condition, what, advice.to_owned()));
            }
        }
    }
}

fn not_ready(node: &Node) -> Words {
    let advice = "systemctl status coracle-agent, on this node".to_owned();
    match node.status.condition("Ready") {
        Some(condition) => said(condition, "is not ready", advice),
        None => Words {
            what: "is not ready".to_owned(),
            why: "its agent has said nothing yet".to_owned(),
            advice,
            since: node.metadata.creation_timestamp,
        },
    }
}

fn said(condition: &NodeCondition, what: &str, advice: String) -> Words {
    let why = if condition.message.is_empty() { condition.reason.clone() } else { condition.message.clone() };
    Words { what: what.to_owned(), why, advice, since: condition.last_transition_time }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn signs_of_life_change_nothing() {
        let node = |at: &str, ready: &str, cordoned: bool| {
            let condition = json!({"type": "Ready", "status": ready, "lastHeartbeatTime": at});
            json!({"spec": {"unschedulable": cordoned}, "status": {"conditions": [condition]}})
        };
        let check = |one: &Value, other: &Value, expected: bool| {
            assert_eq!(is_heartbeat(one.to_string().as_bytes(), other.to_string().as_bytes()), expected, "{other}");
        };
        let was = node("2026-01-01T00:00:00Z", "True", false);
        check(&was, &node("2026-01-01T00:05:00Z", "True", false), true);
        check(&was, &node("2026-01-01T00:05:00Z", "False", false), false);
        check(&was, &node("2026-01-01T00:00:00Z", "True", true), false);
        assert!(!is_heartbeat(b"?", b"?"), "unknown is a change");
    }
}

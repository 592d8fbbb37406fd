//! Warnings for ports of a pod that are accepted: the same one twice, or nearly. PURE.

use super::advice::SENTENCES_MAX;
use super::container;
use super::doc::{list, number, text};
use coracle_schema::Path;
use serde_json::Value;
use std::collections::HashMap;

/// The same port twice in a pod, or nearly, and the same name for two.
pub(super) fn ports(spec: &Value, path: &Path, said: &mut Vec<String>) {
    let mut numbers: HashMap<(i64, &str), Vec<(Path, &Value)>> = HashMap::new();
    let mut names: HashMap<&str, Path> = HashMap::new();
    for field in ["initContainers", "containers"] {
        for (at, container) in list(spec, field).iter().enumerate() {
            for (n, port) in list(container, "ports").iter().enumerate() {
                if said.len() >= SENTENCES_MAX {
                    return;
                }
                let (here, host) =
                    (path.field(field).index(at).field("ports").index(n), number(port, "hostPort").unwrap_or(0));
                let name = text(port, "name");
                said.extend(container::unused_address(port, &here));
                if let Some(first) = names.get(name).filter(|_| !name.is_empty()) {
                    let words = "services and probes that select ports by name will use";
                    said.push(format!("{here}: duplicate port name {name:?} with {first}, {words} {first}"));
                } else {
                    names.insert(name, here.clone());
                }
                let others =
                    numbers.entry((number(port, "containerPort").unwrap_or(0), text(port, "protocol"))).or_default();
                for (there, other) in others.iter().take(SENTENCES_MAX) {
                    said.extend(
                        clash(port, host, other).map(|words| format!("{here}: {words} port definition with {there}")),
                    );
                }
                others.push((here, port));
            }
        }
    }
}

/// How much two ports of one number and protocol are the same.
fn clash(port: &Value, host: i64, other: &Value) -> Option<&'static str> {
    let (ip, other_ip, other_host) =
        (text(port, "hostIP"), text(other, "hostIP"), number(other, "hostPort").unwrap_or(0));
    match host == other_host {
        true if ip == other_ip => Some("duplicate"),
        _ if host == 0 || other_host == 0 => Some("overlapping"),
        true if ip.is_empty() != other_ip.is_empty() => Some("dangerously ambiguous"),
        _ => None,
    }
}

//! The tables of `kubectl get`: columns for each kind, and a row for each object. Cells are texts and numbers as
//! kube-apiserver gives them, ages already counted: kubectl prints what it gets.
//!
//! Columns stand as text beside this file; what stands in the cells is one pure function a kind, one file a group.

mod age;
mod apps;
mod batch;
mod cell;
mod core;
mod network;
mod others;
mod plain;
mod pod;
mod reading;
mod storage;

use crate::meta::Time;
use cell::Cells;
pub use reading::{Document, Reading};
use serde_json::{Value, json};

/// Format: see its head.
const COLUMNS: &str = include_str!("columns.txt");
/// The columns of a kind without special columns.
const PLAIN: &str = "[]\nName: string name -- @name\nCreated At: date -- @age\n";

/// The columns of a kind, as v1 writes them.
pub fn columns(api_version: &str, kind: &str) -> Vec<Value> {
    let own =
        if cells_of(api_version, kind).is_some() { section(COLUMNS, &format!("[{api_version} {kind}]")) } else { None };
    let section = own.or_else(|| section(PLAIN, "[]")).unwrap_or_default();
    section.lines().filter_map(column).collect()
}

/// The cells of an object's row.
pub fn row(document: &Reading, now: Time) -> Vec<Value> {
    let text = |field: &str| cell::text(&document[field]);
    cells_of(text("apiVersion"), text("kind")).unwrap_or(plain)(document, now)
}

/// The annotation that rows leave out of the object's metadata: Kubernetes stores the value in a separate field.
pub fn unshown(object: &Reading) -> Option<&'static str> {
    (object["kind"] == "DaemonSet").then_some(crate::strategy::TEMPLATE_GENERATION)
}

/// The conditions of a row for an object that will not change any more.
pub fn conditions(document: &Reading) -> Option<Value> {
    if document["kind"] == "Pod" { pod::conditions(document) } else { None }
}

fn plain(document: &Reading, _now: Time) -> Vec<Value> {
    vec![cell::name(document), cell::text_or(&document["metadata"]["creationTimestamp"], "<unknown>").into()]
}

fn cells_of(api_version: &str, kind: &str) -> Option<Cells> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let cells: Cells = match (group, version, kind) {
        ("", "v1", "Pod") => pod::cells,
        ("", "v1", kind) => return core::cells_of(kind),
        ("apps", "v1", kind) => return apps::cells_of(kind),
        ("batch", "v1", kind) => return batch::cells_of(kind),
        ("discovery.k8s.io" | "networking.k8s.io", "v1", kind) => return network::cells_of(kind),
        ("storage.k8s.io", "v1", kind) => return storage::cells_of(kind),
        ("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            others::webhooks
        }
        ("admissionregistration.k8s.io" | "flowcontrol.apiserver.k8s.io" | "resource.k8s.io", "v1", kind) => {
            return plain::cells_of(kind);
        }
        ("autoscaling", "v2", "HorizontalPodAutoscaler") => others::autoscaler,
        ("autoscaling", "v1", "Scale") => others::scale,
        ("certificates.k8s.io", "v1", "CertificateSigningRequest") => others::signing_request,
        ("coordination.k8s.io", "v1", "Lease") => others::lease,
        ("node.k8s.io", "v1", "RuntimeClass") => others::runtime_class,
        ("policy", "v1", "PodDisruptionBudget") => others::disruption_budget,
        ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding" | "RoleBinding") => others::role_binding,
        ("scheduling.k8s.io", "v1", "PriorityClass") => others::priority_class,
        _ => return None,
    };
    Some(cells)
}

/// The lines behind a heading, up to the next.
fn section(text: &'static str, heading: &str) -> Option<&'static str> {
    let start =
        text.match_indices(heading).find(|(at, _)| *at == 0 || text.as_bytes()[at - 1] == b'\n')?.0 + heading.len();
    let rest = &text[start..];
    Some(rest.find("\n[").map_or(rest, |end| &rest[..end]))
}

/// `Name: string name -- @name`
fn column(line: &str) -> Option<Value> {
    let (name, rest) = line.split_once(": ")?;
    let (kind, description) = rest.split_once(" -- ").unwrap_or((rest, ""));
    let shared = || COLUMNS.lines().find_map(|line| line.strip_prefix(description)?.strip_prefix(" = "));
    let description = if description.starts_with('@') { shared().unwrap_or_default() } else { description };
    let mut words = kind.split(' ');
    let kind = words.next()?;
    let (mut format, mut priority) = ("", 0);
    for word in words {
        match word {
            "name" => format = "name",
            _ => priority = 1,
        }
    }
    let description = description.replace("\\n", "\n");
    Some(json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority}))
}

#[cfg(test)]
mod tests;

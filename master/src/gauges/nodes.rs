//! `kube_node_*`. PURE.

use super::text::{Label, Text, sanitized, seconds, truth, unit};
use crate::problems::objects::Objects;
use coracle_api::node::Node;
use coracle_api::pod::ResourceList;

const ROLE: &str = "node-role.kubernetes.io/";

pub fn write(objects: &Objects, text: &mut Text) {
    let nodes = &objects.nodes;
    text.family("kube_node_info", "gauge", "Information about a cluster node.");
    nodes.iter().for_each(|node| info(node, text));
    text.family("kube_node_created", "gauge", "Unix creation timestamp");
    for node in nodes {
        text.known(&[name(node)], seconds(node.metadata.creation_timestamp));
    }
    text.family("kube_node_role", "gauge", "The role of a cluster node.");
    for node in nodes {
        let roles = node.metadata.labels.keys().filter_map(|label| label.strip_prefix(ROLE));
        roles.for_each(|role| text.line(&[name(node), ("role", role)], 1.0));
    }
    text.family("kube_node_spec_unschedulable", "gauge", "Whether a node can schedule new pods.");
    nodes.iter().for_each(|node| text.line(&[name(node)], truth(node.spec.unschedulable)));
    text.family("kube_node_spec_taint", "gauge", "The taint of a cluster node.");
    for node in nodes {
        for taint in &node.spec.taints {
            let labels = [name(node), ("key", taint.key.as_str()), ("value", &taint.value), ("effect", &taint.effect)];
            text.line(&labels, 1.0);
        }
    }
    text.family("kube_node_status_condition", "gauge", "The condition of a cluster node.");
    for node in nodes {
        for condition in &node.status.conditions {
            text.condition(&[name(node), ("condition", &condition.kind)], ("status", &condition.status));
        }
    }
    text.family("kube_node_status_capacity", "gauge", "The total amount of resources available for a node.");
    nodes.iter().for_each(|node| amounts(node, &node.status.capacity, text));
    let help = "The allocatable for different resources of a node that are available for scheduling.";
    text.family("kube_node_status_allocatable", "gauge", help);
    nodes.iter().for_each(|node| amounts(node, &node.status.allocatable, text));
}

fn name(node: &Node) -> Label<'_> {
    ("node", node.metadata.name.as_str())
}

fn info(node: &Node, text: &mut Text) {
    let info = &node.status.node_info;
    let internal = node.status.addresses.iter().rfind(|address| address.kind == "InternalIP");
    text.line(
        &[
            name(node),
            ("kernel_version", info.kernel_version.as_str()),
            ("os_image", &info.os_image),
            ("container_runtime_version", &info.container_runtime_version),
            ("kubelet_version", &info.kubelet_version),
            ("kubeproxy_version", "deprecated"),
            ("provider_id", &node.spec.provider_id),
            ("pod_cidr", &node.spec.pod_cidr),
            ("system_uuid", &info.system_uuid),
            ("internal_ip", internal.map_or("", |address| address.address.as_str())),
        ],
        1.0,
    );
}

fn amounts(node: &Node, amounts: &ResourceList, text: &mut Text) {
    for (resource, amount) in amounts {
        if let Some(unit) = unit(resource) {
            let labels = [name(node), ("resource", &*sanitized(resource)), ("unit", unit)];
            text.line(&labels, super::pods::amount(*amount));
        }
    }
}

//! This node as the API shows it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::host::Host;
use crate::plan::admission::PODS_MAX;
use crate::plan::{Devices, Short};

/// The facts that a node's status is made of.
pub struct About {
    pub name: String,
    pub host: Host,
    pub pod_cidr: String,
    pub devices: Vec<Devices>,
    pub engine: watch::Receiver<String>,
}

/// The conditions of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: &'static str,
    pub holds: bool,
    reason: &'static str,
    message: String,
    /// When it changed last.
    pub since: String,
}

/// In the kubelet's words. `trouble`: why the engine does not answer. The times are not set yet.
pub fn conditions(trouble: Option<&str>, short: &BTreeSet<Short>) -> Vec<Condition> {
    let condition = |kind, holds, [yes, no]: [&'static str; 2], message: String| {
        let reason = if holds { yes } else { no };
        Condition { kind, holds, reason, message, since: String::new() }
    };
    let (memory, disk) = (short.contains(&Short::Memory), short.contains(&Short::Disk));
    let says = |text: &str| format!("kubelet has {text}");
    let memory_text = if memory { "insufficient memory available" } else { "sufficient memory available" };
    let disk_text = if disk { "disk pressure" } else { "no disk pressure" };
    let ready =
        trouble.map_or_else(|| "the agent runs and its engine answers".to_owned(), |text| format!("container runtime is down: {text}"));
    vec![
        condition("MemoryPressure", memory, ["KubeletHasInsufficientMemory", "KubeletHasSufficientMemory"], says(memory_text)),
        condition("DiskPressure", disk, ["KubeletHasDiskPressure", "KubeletHasNoDiskPressure"], says(disk_text)),
        condition("PIDPressure", false, ["KubeletHasInsufficientPID", "KubeletHasSufficientPID"], says("sufficient PID available")),
        condition("Ready", trouble.is_none(), ["KubeletReady", "KubeletNotReady"], ready),
    ]
}

pub fn node_document(about: &About, conditions: &[Condition]) -> Value {
    let host = &about.host;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let amounts = |disk: String| {
        let mut amounts = json!({
            "cpu": host.cpus.to_string(), "memory": format!("{}Ki", host.memory_bytes / 1024), "pods": PODS_MAX.to_string(),
            "ephemeral-storage": disk,
        });
        // What others count of this node stays as they wrote it.
        for Devices { resource, count, .. } in &about.devices {
            amounts[resource] = count.to_string().into();
        }
        amounts
    };
    // A tenth of the disk is not the pods' to fill.
    let (capacity, allocatable) = (amounts(format!("{}Ki", host.disk_bytes / 1024)), amounts((host.disk_bytes / 10 * 9).to_string()));
    // No time of the heartbeat in it: the same document again is no event and no write, and is heard all the same.
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|Condition { kind, holds, reason, message, since }| {
            let status = if *holds { "True" } else { "False" };
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": since, "lastTransitionTime": since,
            })
        })
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": about.name,
            "labels": {
                "kubernetes.io/hostname": about.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": architecture,
            },
        },
        "spec": { "podCIDR": about.pod_cidr },
        "status": {
            "capacity": capacity, "allocatable": allocatable,
            "addresses": [{ "type": "InternalIP", "address": host.address }, { "type": "Hostname", "address": host.name }],
            "conditions": conditions,
            "nodeInfo": {
                "machineID": host.machine_id, "systemUUID": host.machine_id, "bootID": host.boot_id, "kernelVersion": host.kernel,
                "osImage": host.os_image, "containerRuntimeVersion": *about.engine.borrow(),
                "kubeletVersion": concat!("v", env!("CARGO_PKG_VERSION"), "-coracle"), "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": architecture,
            },
        },
    })
}

/// The patch that says of a node what its agent knows.
pub fn node_status(document: &Value) -> Value {
    json!({ "status": document["status"] })
}

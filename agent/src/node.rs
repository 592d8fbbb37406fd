//! This node as the API shows it.

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::host::Host;

/// Pods that this node takes.
const PODS_MAX: u32 = 110;

/// What this node says of itself, beside its pods.
pub struct About {
    pub name: String,
    pub host: Host,
    pub pod_cidr: String,
    pub engine: watch::Receiver<String>,
}

/// `since`: the time of the last change of `trouble`.
pub fn node_document(about: &About, trouble: Option<&str>, since: &str) -> Value {
    let host = &about.host;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let amounts = json!({
        "cpu": host.cpus.to_string(), "memory": format!("{}Ki", host.memory_bytes / 1024), "pods": PODS_MAX.to_string(),
    });
    let (status, reason, message) = match trouble {
        None => ("True", "KubeletReady", "the agent runs and its engine answers".to_owned()),
        Some(text) => ("False", "KubeletNotReady", format!("container runtime is down: {text}")),
    };
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
            "capacity": amounts, "allocatable": amounts,
            "addresses": [{ "type": "InternalIP", "address": host.address }, { "type": "Hostname", "address": host.name }],
            // No time of the heartbeat in it: the same document again is no event and no write, and is heard all the same.
            "conditions": [{
                "type": "Ready", "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": since, "lastTransitionTime": since,
            }],
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

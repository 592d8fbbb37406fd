//! This node as the API shows it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::facts::pod_cidr::PodCidr;
use crate::facts::shown::Shown;
use crate::facts::strain::Short;
use crate::facts::world::Devices;
use crate::host::machine::Host;
use crate::plan::admission::PODS_MAX;

/// The facts that a node's status is made of.
pub struct NodeFacts {
    pub name: String,
    pub host: Host,
    pub pod_cidr: PodCidr,
    pub devices: Vec<Devices>,
    pub engine: watch::Receiver<String>,
    /// Where this host is known, which may change.
    pub address: watch::Receiver<String>,
}

/// The conditions of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: &'static str,
    pub holds: bool,
    reason: &'static str,
    pub message: String,
    /// When it changed last.
    pub since: String,
}

/// In the kubelet's words. `trouble`: why the engine does not answer. The times are not set yet.
pub fn conditions(trouble: Option<&str>, short: &BTreeSet<Short>) -> Vec<Condition> {
    let condition = |kind, holds, [yes, no]: [&'static str; 2], message: String| {
        let reason = if holds { yes } else { no };
        Condition { kind, holds, reason, message, since: String::new() }
    };
    let [memory, disk, pids] = [Short::Memory, Short::Disk, Short::Processes].map(|one| short.contains(&one));
    let says = |text: &str| format!("kubelet has {text}");
    let memory_text = if memory { "insufficient memory available" } else { "sufficient memory available" };
    let disk_text = if disk { "disk pressure" } else { "no disk pressure" };
    let pids_text = if pids { "insufficient PID available" } else { "sufficient PID available" };
    let ready = trouble.map_or_else(
        || "the agent runs and its engine answers".to_owned(),
        |text| format!("container runtime is down: {text}"),
    );
    vec![
        condition(
            "MemoryPressure",
            memory,
            ["KubeletHasInsufficientMemory", "KubeletHasSufficientMemory"],
            says(memory_text),
        ),
        condition("DiskPressure", disk, ["KubeletHasDiskPressure", "KubeletHasNoDiskPressure"], says(disk_text)),
        condition("PIDPressure", pids, ["KubeletHasInsufficientPID", "KubeletHasSufficientPID"], says(pids_text)),
        condition("Ready", trouble.is_none(), ["KubeletReady", "KubeletNotReady"], ready),
    ]
}

/// The conditions of this node as it is shown.
pub fn own_conditions(shown: &Shown) -> Vec<Condition> {
    let trouble = shown.engine_trouble.as_ref().map(|(text, _)| text.as_str());
    conditions(trouble, &shown.world.strain.short)
}

/// Whole pages are whole mebibytes, but for the smallest ones of some machines.
fn quantity(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        bytes if bytes.is_multiple_of(1 << 30) => format!("{}Gi", bytes >> 30),
        bytes if bytes.is_multiple_of(1 << 20) => format!("{}Mi", bytes >> 20),
        bytes => format!("{}Ki", bytes >> 10),
    }
}

pub fn node_document(about: &NodeFacts, conditions: &[Condition]) -> Value {
    let host = &about.host;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let amounts = |disk: String| {
        let mut amounts = json!({
            "cpu": host.cpus.to_string(), "memory": format!("{}Ki", host.memory_bytes / 1024),
            "pods": PODS_MAX.to_string(),
            "ephemeral-storage": disk,
        });
        for (resource, bytes) in &host.huge_pages {
            amounts[resource] = quantity(*bytes).into();
        }
        // Only the agent's own devices: the patch leaves extended resources of other writers unchanged.
        for Devices { resource, count, .. } in &about.devices {
            amounts[resource] = count.to_string().into();
        }
        amounts
    };
    // A tenth of the disk is not the pods' to fill.
    let (capacity, mut allocatable) =
        (amounts(format!("{}Ki", host.disk_bytes / 1024)), amounts((host.disk_bytes / 10 * 9).to_string()));
    // Large pages are set aside: nothing else gets their memory.
    let set_aside: u64 = host.huge_pages.values().sum();
    allocatable["memory"] = format!("{}Ki", host.memory_bytes.saturating_sub(set_aside) / 1024).into();
    // The document has no heartbeat time: an unchanged document causes no event and no write, and still counts as a
    // heartbeat.
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
        "spec": about.pod_cidr.borrow().map_or_else(|| json!({}), |pods| json!({ "podCIDR": pods.to_string() })),
        "status": {
            "capacity": capacity, "allocatable": allocatable,
            "addresses": [{ "type": "InternalIP", "address": *about.address.borrow() },
                { "type": "Hostname", "address": host.name }],
            "conditions": conditions,
            "nodeInfo": {
                "machineID": host.machine_id, "systemUUID": host.machine_id, "bootID": host.boot_id,
                "kernelVersion": host.kernel,
                "osImage": host.os_image, "containerRuntimeVersion": *about.engine.borrow(),
                "kubeletVersion": concat!("v", env!("CARGO_PKG_VERSION"), "-coracle"), "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": architecture,
            },
        },
    })
}

/// The patch of a node's status with all fields of the agent.
pub fn node_status(document: &Value) -> Value {
    json!({ "status": document["status"] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::pod_cidr;

    #[test]
    fn large_pages_are_no_memory_of_others() {
        let huge_pages = [("hugepages-2Mi".to_owned(), 6 << 20), ("hugepages-1Gi".to_owned(), 0)].into();
        let host = Host { memory_bytes: 1 << 30, huge_pages, ..Host::default() };
        let (_, engine) = watch::channel(String::new());
        let about = NodeFacts {
            name: "n1".into(),
            host,
            pod_cidr: pod_cidr::given(None),
            devices: Vec::new(),
            engine,
            address: watch::channel("192.0.2.1".to_owned()).1,
        };
        let status = &node_document(&about, &[])["status"];
        for amounts in [&status["capacity"], &status["allocatable"]] {
            assert_eq!((&amounts["hugepages-2Mi"], &amounts["hugepages-1Gi"]), (&json!("6Mi"), &json!("0")));
        }
        assert_eq!(
            (&status["capacity"]["memory"], &status["allocatable"]["memory"]),
            (&json!("1048576Ki"), &json!("1042432Ki"))
        );
    }

    #[test]
    fn what_a_node_says_of_how_it_is() {
        let held = |trouble, short: &[Short]| -> Vec<(&'static str, &'static str, String)> {
            let all = conditions(trouble, &short.iter().copied().collect());
            assert_eq!(
                all.iter().map(|one| one.kind).collect::<Vec<_>>(),
                ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
            );
            all.into_iter().filter(|one| one.holds).map(|one| (one.kind, one.reason, one.message)).collect()
        };
        let ready = ("Ready", "KubeletReady", "the agent runs and its engine answers".to_owned());
        assert_eq!(held(None, &[]), std::slice::from_ref(&ready));
        let short = ("PIDPressure", "KubeletHasInsufficientPID", "kubelet has insufficient PID available".to_owned());
        assert_eq!(held(None, &[Short::Processes]), [short, ready]);
        assert_eq!(held(Some("gone"), &[]), []);
    }
}

//! The node as logic reads it, and the namespace. Lenient and read-only, like `pod`.

use crate::meta::{ObjectMeta, Time};
use crate::pod::ResourceList;
use crate::strategy::names::subdomain;
use serde::Deserialize;
use serde_json::Value;

/// Bytes of a node's name that has a socket: a file's name has 255.
const SOCKET_NODE_BYTES_MAX: usize = 250;

/// The socket file of a node's agent, below the directory of all agents' sockets. None: the text is not a node name,
/// and must not become a path out of this directory.
pub fn agent_socket(node: &str) -> Option<String> {
    (subdomain(node).is_empty() && node.len() <= SOCKET_NODE_BYTES_MAX).then(|| format!("{node}.sock"))
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Node {
    pub metadata: ObjectMeta,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSpec {
    #[serde(rename = "podCIDR")]
    pub pod_cidr: String,
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// Nothing new is scheduled here.
    pub unschedulable: bool,
    pub taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Taint {
    pub key: String,
    pub value: String,
    /// NoSchedule, PreferNoSchedule or NoExecute.
    pub effect: String,
    pub time_added: Option<Time>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus {
    pub capacity: ResourceList,
    pub allocatable: ResourceList,
    pub phase: String,
    pub conditions: Vec<NodeCondition>,
    pub addresses: Vec<NodeAddress>,
    pub node_info: NodeSystemInfo,
    pub images: Vec<ContainerImage>,
}

/// An image that a node has, under all its names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerImage {
    pub names: Vec<String>,
    pub size_bytes: i64,
}

impl NodeStatus {
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// The Ready condition says True.
    pub fn ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub last_heartbeat_time: Option<Time>,
    pub last_transition_time: Option<Time>,
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeAddress {
    /// InternalIP, ExternalIP, Hostname, InternalDNS, ExternalDNS.
    #[serde(rename = "type")]
    pub kind: String,
    pub address: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSystemInfo {
    #[serde(rename = "machineID")]
    pub machine_id: String,
    #[serde(rename = "systemUUID")]
    pub system_uuid: String,
    #[serde(rename = "bootID")]
    pub boot_id: String,
    pub kernel_version: String,
    pub os_image: String,
    pub container_runtime_version: String,
    pub kubelet_version: String,
    pub operating_system: String,
    pub architecture: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Namespace {
    pub metadata: ObjectMeta,
    pub spec: NamespaceSpec,
    pub status: NamespaceStatus,
}

impl Namespace {
    pub fn read(document: &Value) -> Result<Namespace, serde_json::Error> {
        Namespace::deserialize(document)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NamespaceSpec {
    pub finalizers: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NamespaceStatus {
    /// Active or Terminating.
    pub phase: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_node_stays_in_its_directory() {
        assert_eq!(agent_socket("n1").as_deref(), Some("n1.sock"));
        assert_eq!(agent_socket("box.shop-4.example.com").as_deref(), Some("box.shop-4.example.com.sock"));
        for name in
            ["", ".", "..", "../docker", "/run/docker", "a/b", "a\0", ".a", "a..b", "-a", "a-", "A", "a b", "a\n"]
        {
            assert_eq!(agent_socket(name), None, "{name:?}");
        }
        let long = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(58)].join(".");
        assert_eq!((long.len(), agent_socket(&long).map(|name| name.len())), (250, Some(255)));
        assert_eq!(agent_socket(&format!("{long}e")), None);
    }
}

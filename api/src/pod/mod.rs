//! The pod as logic reads it. Lenient and read-only: what is missing is its default, what is unknown is not seen here;
//! the document itself stays the truth and carries everything.

mod container;
mod sources;

pub use container::*;
pub use sources::*;

use crate::meta::{ObjectMeta, Time};
use crate::quantity::Quantity;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Amounts by resource name: `cpu`, `memory`.
pub type ResourceList = BTreeMap<String, Quantity>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pod {
    pub metadata: ObjectMeta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

impl Pod {
    /// Reads a document that `schema::decode` has checked. An error means that the document was not checked.
    pub fn read(document: &Value) -> Result<Pod, serde_json::Error> {
        Pod::deserialize(document)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodTemplateSpec {
    pub metadata: ObjectMeta,
    pub spec: PodSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    pub volumes: Vec<Volume>,
    pub init_containers: Vec<Container>,
    pub containers: Vec<Container>,
    pub ephemeral_containers: Vec<Container>,
    /// Empty means Always: the default of a document that went through `schema::default`.
    pub restart_policy: String,
    pub termination_grace_period_seconds: Option<i64>,
    pub active_deadline_seconds: Option<i64>,
    pub dns_policy: String,
    pub dns_config: Option<PodDnsConfig>,
    pub node_selector: BTreeMap<String, String>,
    pub service_account_name: String,
    pub automount_service_account_token: Option<bool>,
    pub node_name: String,
    pub host_network: bool,
    #[serde(rename = "hostPID")]
    pub host_pid: bool,
    #[serde(rename = "hostIPC")]
    pub host_ipc: bool,
    pub share_process_namespace: Option<bool>,
    pub security_context: PodSecurityContext,
    pub image_pull_secrets: Vec<LocalObjectReference>,
    pub hostname: String,
    pub subdomain: String,
    pub hostname_override: Option<String>,
    pub runtime_class_name: Option<String>,
    #[serde(rename = "setHostnameAsFQDN")]
    pub set_hostname_as_fqdn: Option<bool>,
    pub scheduler_name: String,
    pub tolerations: Vec<Toleration>,
    pub host_aliases: Vec<HostAlias>,
    pub priority_class_name: String,
    pub priority: Option<i32>,
    pub enable_service_links: Option<bool>,
    pub overhead: ResourceList,
    /// The requests and limits of the whole pod.
    pub resources: ResourceRequirements,
    pub scheduling_gates: Vec<LocalObjectReference>,
    pub affinity: Option<PodAffinities>,
    pub readiness_gates: Vec<PodReadinessGate>,
}

/// Whether a pod has pod affinity or anti-affinity; a scheduler reads the terms from the document.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodAffinities {
    pub pod_affinity: Value,
    pub pod_anti_affinity: Value,
}

/// A condition that an external controller sets. The pod is not ready before the condition is true.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodReadinessGate {
    pub condition_type: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LocalObjectReference {
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodDnsConfig {
    pub nameservers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<PodDnsConfigOption>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodDnsConfigOption {
    pub name: String,
    pub value: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HostAlias {
    pub ip: String,
    pub hostnames: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Toleration {
    pub key: String,
    pub operator: String,
    pub value: String,
    pub effect: String,
    pub toleration_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSecurityContext {
    pub run_as_user: Option<i64>,
    pub run_as_group: Option<i64>,
    pub run_as_non_root: Option<bool>,
    pub supplemental_groups: Vec<i64>,
    /// Empty means Merge.
    pub supplemental_groups_policy: String,
    pub fs_group: Option<i64>,
    /// Empty means Always.
    pub fs_group_change_policy: String,
    pub sysctls: Vec<Sysctl>,
    pub se_linux_options: Option<SeLinuxOptions>,
    pub seccomp_profile: Option<Profile>,
    pub app_armor_profile: Option<Profile>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Sysctl {
    pub name: String,
    pub value: String,
}

/// A volume has exactly one source. The supported sources have types; the names of all further sources are read from
/// the document.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    pub name: String,
    pub config_map: Option<ConfigMapProjection>,
    #[serde(rename = "downwardAPI")]
    pub downward_api: Option<DownwardApiProjection>,
    pub empty_dir: Option<EmptyDirVolumeSource>,
    pub ephemeral: Option<Value>,
    pub host_path: Option<HostPathVolumeSource>,
    pub nfs: Option<NfsVolumeSource>,
    pub persistent_volume_claim: Option<PersistentVolumeClaimVolumeSource>,
    pub projected: Option<ProjectedVolumeSource>,
    pub secret: Option<SecretVolumeSource>,
    /// No document has these: of the volume that a claim is bound to.
    #[serde(skip)]
    pub local: Option<LocalVolumeSource>,
    /// Below the agent's own, or absolute.
    #[serde(skip)]
    pub kept_directory: Option<String>,
    #[serde(skip)]
    pub mount_options: Vec<String>,
    #[serde(skip)]
    pub read_only: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EmptyDirVolumeSource {
    /// Empty: the disk. `Memory`: tmpfs.
    pub medium: String,
    pub size_limit: Option<Quantity>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HostPathVolumeSource {
    pub path: String,
    /// Empty: nothing is checked. Else DirectoryOrCreate, Directory, FileOrCreate, File, Socket, CharDevice,
    /// BlockDevice.
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    pub observed_generation: i64,
    /// Empty before anybody has said; then Pending, Running, Succeeded, Failed, Unknown.
    pub phase: String,
    pub conditions: Vec<PodCondition>,
    pub message: String,
    pub reason: String,
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    #[serde(rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
    pub start_time: Option<Time>,
    pub nominated_node_name: String,
    pub init_container_statuses: Vec<ContainerStatus>,
    pub container_statuses: Vec<ContainerStatus>,
    pub qos_class: String,
}

impl PodStatus {
    pub fn condition(&self, kind: &str) -> Option<&PodCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// The Ready condition says True.
    pub fn ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }

    /// Succeeded or Failed: it will never run again.
    pub fn terminal(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodIp {
    pub ip: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub observed_generation: i64,
    pub last_probe_time: Option<Time>,
    pub last_transition_time: Option<Time>,
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    pub name: String,
    pub state: ContainerState,
    pub last_state: ContainerState,
    pub ready: bool,
    pub restart_count: i32,
    pub image: String,
    #[serde(rename = "imageID")]
    pub image_id: String,
    #[serde(rename = "containerID")]
    pub container_id: String,
    pub started: Option<bool>,
}

/// At most one is given; none counts as waiting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerState {
    pub waiting: Option<ContainerStateWaiting>,
    pub running: Option<ContainerStateRunning>,
    pub terminated: Option<ContainerStateTerminated>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStateWaiting {
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStateRunning {
    pub started_at: Option<Time>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStateTerminated {
    pub exit_code: i32,
    pub signal: i32,
    pub reason: String,
    pub message: String,
    pub started_at: Option<Time>,
    pub finished_at: Option<Time>,
    #[serde(rename = "containerID")]
    pub container_id: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::IntOrString;
    use serde_json::json;

    #[test]
    fn a_whole_pod_is_read() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/v1/cases/kinds/pod-rich.json");
        let case: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let pod = Pod::read(&case["steps"][0]["body"]).unwrap();
        let web = &pod.spec.containers[0];
        assert_eq!((pod.metadata.name.as_str(), web.args.len(), web.ports[1].host_port), ("p", 2, 5353));
        assert_eq!(web.resources.limits["cpu"].milli(), 500);
        assert_eq!(web.resources.limits["memory"].value(), 128 << 20);
        let liveness = web.liveness_probe.as_ref().unwrap();
        assert_eq!(liveness.action.http_get.as_ref().unwrap().port, IntOrString::String("http".to_owned()));
        assert_eq!(liveness.period_seconds, 7);
        let lifecycle = web.lifecycle.as_ref().unwrap();
        assert_eq!(lifecycle.pre_stop.as_ref().unwrap().exec.as_ref().unwrap().command, ["sleep", "1"]);
        assert_eq!(web.security_context.capabilities.as_ref().unwrap().drop, ["ALL"]);
        assert_eq!(pod.spec.volumes[3].host_path.as_ref().unwrap().path, "/tmp");
        assert_eq!(pod.spec.volumes[7].empty_dir.as_ref().unwrap().medium, "Memory");
        assert_eq!(
            (pod.spec.termination_grace_period_seconds, pod.spec.restart_policy.as_str()),
            (Some(5), "OnFailure")
        );
        assert_eq!(pod.spec.image_pull_secrets[0].name, "reg");
    }

    #[test]
    fn what_is_missing_is_its_default_and_what_is_unknown_is_not_seen() {
        let pod = Pod::read(&json!({
            "spec": {"future": 1, "containers": [{}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }));
        let pod = pod.unwrap();
        assert_eq!(pod.spec.containers, [Container::default()]);
        assert!(pod.status.ready() && !pod.status.terminal());
        assert!(Pod::read(&json!({"metadata": {"creationTimestamp": "yesterday"}})).is_err());
    }
}

//! The containers of a pod and their settings.

use super::{EnvFromSource, KeySelector, ResourceList};
use crate::quantity::{IntOrString, Quantity};
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    pub name: String,
    pub image: String,
    /// Docker's Entrypoint.
    pub command: Vec<String>,
    /// Docker's Cmd.
    pub args: Vec<String>,
    pub working_dir: String,
    pub ports: Vec<ContainerPort>,
    pub env_from: Vec<EnvFromSource>,
    pub env: Vec<EnvVar>,
    pub resources: ResourceRequirements,
    pub resize_policy: Vec<ContainerResizePolicy>,
    pub volume_mounts: Vec<VolumeMount>,
    pub volume_devices: Vec<Value>,
    pub liveness_probe: Option<Probe>,
    pub readiness_probe: Option<Probe>,
    pub startup_probe: Option<Probe>,
    pub lifecycle: Option<Lifecycle>,
    pub termination_message_path: String,
    pub termination_message_policy: String,
    pub image_pull_policy: String,
    pub security_context: SecurityContext,
    pub stdin: bool,
    pub stdin_once: bool,
    pub tty: bool,
    /// Its own, before its pod's. Of an init container: `Always` makes it a sidecar.
    pub restart_policy: String,
    /// Before either policy.
    pub restart_policy_rules: Vec<ContainerRestartRule>,
    /// For an ephemeral container: the container whose processes it sees.
    pub target_container_name: String,
}

/// Whether a change of the container's resources needs a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerResizePolicy {
    pub resource_name: String,
    /// NotRequired or RestartContainer.
    pub restart_policy: String,
}

/// A rule for the end of a container with certain exit codes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerRestartRule {
    /// Restart or RestartAllContainers.
    pub action: String,
    pub exit_codes: Option<ContainerRestartRuleOnExitCodes>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerRestartRuleOnExitCodes {
    /// In or NotIn.
    pub operator: String,
    pub values: Vec<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    pub name: String,
    pub host_port: i32,
    pub container_port: i32,
    /// Empty means TCP.
    pub protocol: String,
    #[serde(rename = "hostIP")]
    pub host_ip: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EnvVar {
    pub name: String,
    pub value: String,
    pub value_from: Option<EnvVarSource>,
}

/// The sources that are acted on; exactly one is given.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EnvVarSource {
    pub config_map_key_ref: Option<KeySelector>,
    pub secret_key_ref: Option<KeySelector>,
    pub field_ref: Option<ObjectFieldSelector>,
    pub resource_field_ref: Option<ResourceFieldSelector>,
    pub file_key_ref: Option<FileKeySelector>,
}

/// A line of a file in an emptyDir.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FileKeySelector {
    pub volume_name: String,
    pub path: String,
    pub key: String,
    pub optional: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectFieldSelector {
    pub field_path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceFieldSelector {
    /// Empty: the container that asks.
    pub container_name: String,
    pub resource: String,
    /// None or zero: whole units.
    pub divisor: Option<Quantity>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceRequirements {
    pub limits: ResourceList,
    pub requests: ResourceList,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeMount {
    pub name: String,
    pub read_only: bool,
    pub mount_path: String,
    pub sub_path: String,
    pub sub_path_expr: String,
    pub mount_propagation: String,
    pub recursive_read_only: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Probe {
    #[serde(flatten)]
    pub action: Action,
    pub initial_delay_seconds: i32,
    /// Zero means 1, the default; likewise below.
    pub timeout_seconds: i32,
    /// Zero means 10.
    pub period_seconds: i32,
    /// Zero means 1.
    pub success_threshold: i32,
    /// Zero means 3.
    pub failure_threshold: i32,
    pub termination_grace_period_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Lifecycle {
    pub post_start: Option<Action>,
    pub pre_stop: Option<Action>,
    pub stop_signal: Option<String>,
}

/// The action of a probe or a lifecycle hook; exactly one is given.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Action {
    pub exec: Option<ExecAction>,
    pub http_get: Option<HttpGetAction>,
    pub tcp_socket: Option<TcpSocketAction>,
    /// Probes only.
    pub grpc: Option<GrpcAction>,
    /// Lifecycle hooks only.
    pub sleep: Option<SleepAction>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExecAction {
    pub command: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpGetAction {
    pub path: String,
    pub port: IntOrString,
    pub host: String,
    /// Empty means HTTP.
    pub scheme: String,
    pub http_headers: Vec<HttpHeader>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpHeader {
    pub name: String,
    pub value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GrpcAction {
    pub port: i32,
    pub service: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TcpSocketAction {
    pub port: IntOrString,
    pub host: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SleepAction {
    pub seconds: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecurityContext {
    pub capabilities: Option<Capabilities>,
    pub privileged: Option<bool>,
    pub run_as_user: Option<i64>,
    pub run_as_group: Option<i64>,
    pub run_as_non_root: Option<bool>,
    pub read_only_root_filesystem: Option<bool>,
    pub allow_privilege_escalation: Option<bool>,
    pub proc_mount: Option<String>,
    pub se_linux_options: Option<SeLinuxOptions>,
    pub seccomp_profile: Option<Profile>,
    pub app_armor_profile: Option<Profile>,
    pub windows_options: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Capabilities {
    pub add: Vec<String>,
    pub drop: Vec<String>,
}

/// A profile of seccomp or AppArmor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Profile {
    /// RuntimeDefault, Unconfined or Localhost.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name of a Localhost profile.
    pub localhost_profile: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SeLinuxOptions {
    pub user: String,
    pub role: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub level: String,
}

impl Container {
    /// Whether the container restarts after an exit with this code, in a pod with this policy. The first matching rule
    /// decides, then the container's own policy, then the pod's policy.
    pub fn starts_again(&self, policy: &str, exit_code: i32) -> bool {
        if self.rule_for(exit_code).is_some() {
            return true;
        }
        match if self.restart_policy.is_empty() { policy } else { &self.restart_policy } {
            "Never" => false,
            "OnFailure" => exit_code != 0,
            _ => true,
        }
    }

    /// Whether all containers of its pod start again after it ended with this code.
    pub fn restarts_all(&self, exit_code: i32) -> bool {
        self.rule_for(exit_code).is_some_and(|rule| rule.action == RESTART_ALL)
    }

    /// Whether some exit code makes the container restart all containers of its pod.
    pub fn may_restart_all(&self) -> bool {
        self.restart_policy_rules.iter().any(|rule| rule.action == RESTART_ALL)
    }

    /// The first rule that applies. Rules count only in a container with its own restart policy.
    fn rule_for(&self, exit_code: i32) -> Option<&ContainerRestartRule> {
        let applies = |rule: &&ContainerRestartRule| {
            rule.exit_codes.as_ref().is_some_and(|codes| match codes.operator.as_str() {
                "In" => codes.values.contains(&exit_code),
                "NotIn" => !codes.values.contains(&exit_code),
                _ => false,
            })
        };
        self.restart_policy_rules.iter().filter(|_| !self.restart_policy.is_empty()).find(applies)
    }
}

/// The action of a rule that restarts all containers of a pod.
const RESTART_ALL: &str = "RestartAllContainers";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_starts_again() {
        let check = |own: Value, policy: &str, expected: [bool; 3]| {
            let container: Container = serde_json::from_value(own.clone()).unwrap();
            assert_eq!([0, 1, 42].map(|code| container.starts_again(policy, code)), expected, "{own} {policy}");
        };
        check(json!({}), "", [true; 3]);
        check(json!({}), "Always", [true; 3]);
        check(json!({}), "OnFailure", [false, true, true]);
        check(json!({}), "Never", [false; 3]);
        check(json!({"restartPolicy": "Always"}), "Never", [true; 3]);
        check(json!({"restartPolicy": "Never"}), "Always", [false; 3]);
        let rule = |operator: &str| json!([{"action": "Restart", "exitCodes": {"operator": operator, "values": [42]}}]);
        check(json!({"restartPolicy": "Never", "restartPolicyRules": rule("In")}), "Always", [false, false, true]);
        check(json!({"restartPolicy": "Never", "restartPolicyRules": rule("NotIn")}), "Always", [true, true, false]);
        check(json!({"restartPolicyRules": rule("In")}), "Never", [false; 3]);
        check(json!({"restartPolicy": "Never", "restartPolicyRules": [all("In", 42)]}), "Always", [false, false, true]);
    }

    fn all(operator: &str, code: i32) -> Value {
        json!({"action": "RestartAllContainers", "exitCodes": {"operator": operator, "values": [code]}})
    }

    #[test]
    fn who_restarts_all() {
        let check = |own: Value, expected: [bool; 3]| {
            let container: Container = serde_json::from_value(own.clone()).unwrap();
            assert_eq!([0, 1, 42].map(|code| container.restarts_all(code)), expected, "{own}");
        };
        let one = json!({"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}});
        check(json!({"restartPolicy": "Never", "restartPolicyRules": [all("In", 42)]}), [false, false, true]);
        check(json!({"restartPolicy": "Always", "restartPolicyRules": [all("NotIn", 0)]}), [false, true, true]);
        // The first that applies counts.
        check(json!({"restartPolicy": "Never", "restartPolicyRules": [one, all("NotIn", 0)]}), [false, false, true]);
        check(json!({"restartPolicyRules": [all("In", 42)]}), [false; 3]);
        check(json!({"restartPolicy": "Never"}), [false; 3]);
    }
}

//! (Pod, container, facts of the host) -> the complete configuration for the engine. PURE; golden files hold what comes
//! out.

use std::collections::BTreeMap;

use coracle_api::pod::{Container, PodSpec, ResourceList, Volume};

use crate::facts::checks::hook_of;
use crate::facts::desired::Desired;
use crate::facts::engine::{ContainerConfig, Image, Ipc, Limits, Log, Mount, MountSource, Network, Publish};
use crate::facts::members::{Member, MemberKind, members};
use crate::facts::naming::{
    HOSTS, RESOLV_CONF, SANDBOX, Tag, container_name, hosts_file, message_file, resolver_file, seccomp_dir,
};
use crate::facts::ports::host_ports;
use crate::facts::resolv::Dns;
use crate::facts::waiting::Waiting;
use crate::facts::wanted::Wanted;
use crate::facts::world::Node;
use crate::spec::environment::{TextBudget, TooLong, Variables, environment, expand, misconfigured, too_long};
use crate::spec::file_variables::of_files;
use crate::spec::hosts::HostNames;
use crate::spec::mounts::mounts;
use crate::spec::volumes::{Home, source};
use crate::spec::{oom_score, runtime_class, security};

/// Where the pod does not say.
pub const GRACE_S_DEFAULT: i64 = 30;
/// The kernel takes no fewer; and what asks for no cpu at all gets as few, as from a kubelet: what others leave.
pub const CPU_SHARES_MIN: i64 = 2;
const CPU_PERIOD_US: i64 = 100_000;
const CPU_QUOTA_US_MIN: i64 = 1_000;
/// The largest number of seconds that an engine accepts.
const STOP_TIMEOUT_S_MAX: u64 = i32::MAX as u64;
/// Each container's log on this host's disk, at most: three files of 10 MB.
const LOG_BYTES_MAX: u64 = 10_000_000;
const LOG_FILES_MAX: u32 = 3;
/// Nobody, on any system.
const PAUSE_USER: &str = "65535:65535";

/// One start of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    pub attempt: u32,
    pub sandbox: u32,
    pub step: u32,
    pub renewal: u32,
    pub hash: String,
    /// For an ephemeral container: the name of the container whose processes it sees.
    pub processes_of: Option<String>,
    /// The pod's; empty where it is not known and nobody asks.
    pub address: String,
}

/// `volumes`: the pod's, each claim with what it is bound to.
pub fn sandbox_config(
    node: &Node,
    wanted: &Wanted,
    volumes: &[Volume],
    attempt: u32,
    step: u32,
    hash: String,
) -> ContainerConfig {
    let spec = &wanted.pod.spec;
    let host_ports = host_ports(spec);
    let published = if spec.host_network { Vec::new() } else { host_ports.clone() };
    // The sandbox holds the engine's volumes too, so that they outlive the containers.
    let home = Home::of(node, wanted);
    let engine_mounts: Vec<Mount> = volumes
        .iter()
        .filter_map(|volume| match source(volume, &home).mount {
            MountSource::Volume(name) => {
                Some(Mount::new(MountSource::Volume(name.clone()), format!("/volumes/{name}"), true))
            }
            MountSource::Path(_) => None,
        })
        .collect();
    let tag = Tag {
        pod: wanted.name.clone(),
        container: SANDBOX.to_owned(),
        attempt,
        sandbox: attempt,
        hash,
        step,
        renewal: 0,
        grace_s: 2,
        stop_signal: "SIGTERM".to_owned(),
        pre_stop: None,
        restart_policy: spec.restart_policy.clone(),
        end_turn: 0,
        message_file: None,
        message_from_log: false,
        host_ports,
        holds_volumes: !engine_mounts.is_empty(),
    };
    ContainerConfig {
        name: tag.name(),
        image: node.pause_image.clone(),
        user: Some(PAUSE_USER.to_owned()),
        labels: tag.labels(),
        network: if spec.host_network { Network::Host } else { Network::Pods },
        ipc: if spec.host_ipc { Ipc::Host } else { Ipc::Shareable },
        host_processes: spec.host_pid,
        ports: published,
        // Elsewhere they stand in the pod's own file.
        extra_hosts: spec
            .host_aliases
            .iter()
            .filter(|_| spec.host_network)
            .flat_map(|alias| alias.hostnames.iter().map(|name| format!("{name}:{}", alias.ip)))
            .collect(),
        sysctls: security::sysctls_of(node, spec),
        oom_score_adj: oom_score::of_sandbox(node),
        mounts: engine_mounts,
        log: Log::None,
        ..ContainerConfig::default()
    }
}

/// A sandbox with its hostname and /etc/hosts, unless the pod uses the host's network. The pod's containers share both.
pub fn with_names(
    mut sandbox: ContainerConfig,
    node: &Node,
    wanted: &Wanted,
    dns: &Dns,
) -> Result<ContainerConfig, Waiting> {
    if wanted.pod.spec.host_network {
        return Ok(sandbox);
    }
    let (names, file) = (HostNames::of(wanted, dns), hosts_file(&node.data_dir, &wanted.name.uid));
    sandbox.hostname = Some(names.of_kernel()?);
    sandbox.mounts.push(Mount::new(MountSource::Path(file.clone()), HOSTS.to_owned(), false));
    sandbox.texts.push((file, names.text()));
    Ok(sandbox)
}

/// A sandbox with its resolv.conf. The pod's containers share that file.
pub fn with_resolver(mut sandbox: ContainerConfig, node: &Node, uid: &str, text: String) -> ContainerConfig {
    let file = resolver_file(&node.data_dir, uid);
    sandbox.mounts.push(Mount::new(MountSource::Path(file.clone()), RESOLV_CONF.to_owned(), false));
    sandbox.texts.push((file, text));
    sandbox
}

/// The error is the reason why the container waits: the agent cannot make the container.
pub fn member_config(
    node: &Node,
    desired: &Desired,
    wanted: &Wanted,
    container: &Container,
    image: &Image,
    instance: Instance,
) -> Result<ContainerConfig, Waiting> {
    let spec = &wanted.pod.spec;
    security::check_user(wanted, container, image)?;
    let uid = &wanted.name.uid;
    let message = message_file(&node.data_dir, uid, &container.name, instance.attempt);
    let mut texts = TextBudget::default();
    let environment = environment(node, desired, wanted, container, &instance.address, &mut texts)?;
    let entrypoint = words("command", &container.command, &environment, &mut texts)?;
    let command = words("args", &container.args, &environment, &mut texts)?;
    let join = container_name(&wanted.name, SANDBOX, instance.sandbox);
    let security = &container.security_context;
    let capabilities = security.capabilities.clone().unwrap_or_default();
    let (cpu_shares, cpu_quota_us) = cpu(spec, container);
    let processes_of = match instance.processes_of.clone() {
        None if spec.share_process_namespace == Some(true) => Some(join.clone()),
        other => other,
    };
    let ipc = if spec.host_ipc { Ipc::Host } else { Ipc::Join(join.clone()) };
    let tag = tag(wanted, container, image, instance, message.clone());
    let runtime = runtime_class::handler(desired, wanted)?;
    Ok(ContainerConfig {
        name: tag.name(),
        image: container.image.clone(),
        entrypoint,
        command,
        working_dir: (!container.working_dir.is_empty()).then(|| container.working_dir.clone()),
        user: security::user(wanted, container, image),
        extra_groups: security::groups(spec),
        hostname: None,
        runtime,
        // An engine that shuts down, as when the host stops, then grants the container the pod's grace period.
        stop_timeout_s: Some(tag.grace_s.clamp(1, STOP_TIMEOUT_S_MAX)),
        stop_signal: Some(tag.stop_signal.clone()),
        labels: tag.labels(),
        network: Network::Join(join),
        ipc,
        host_processes: spec.host_pid,
        processes_of,
        ports: Vec::new(),
        extra_hosts: Vec::new(),
        cpu_shares,
        cpu_quota_us,
        cpu_period_us: cpu_quota_us.map(|_| CPU_PERIOD_US),
        memory_bytes: memory(spec, container),
        pids_max: node.pids_max,
        oom_score_adj: oom_score::of_container(node, wanted, container),
        privileged: security.privileged == Some(true),
        read_only_root: security.read_only_root_filesystem == Some(true),
        no_new_privileges: security.allow_privilege_escalation == Some(false),
        capabilities_add: capabilities.add,
        capabilities_drop: security::capabilities_drop(node, container),
        seccomp: security::seccomp(spec, container, &seccomp_dir(&node.data_dir))?,
        app_armor: security::app_armor(wanted, container),
        se_linux: security::se_linux(spec, container),
        unmasked_proc: security.proc_mount.as_deref() == Some("Unmasked"),
        sysctls: BTreeMap::new(),
        stdin: container.stdin,
        stdin_once: container.stdin_once,
        tty: container.tty,
        mounts: mounts((node, desired), wanted, container, (&environment, &mut texts), &message)?,
        devices: devices(node, container),
        files: vec![message],
        texts: Vec::new(),
        file_variables: of_files(node, wanted, container)?,
        log: Log::JsonFile { bytes_max: LOG_BYTES_MAX, files_max: LOG_FILES_MAX },
        environment: environment.lines(),
    })
}

/// None: the image's own.
fn words(
    field: &str,
    words: &[String],
    environment: &Variables,
    texts: &mut TextBudget,
) -> Result<Option<Vec<String>>, Waiting> {
    let mut expanded = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let what = || format!("{field}[{index}]");
        let word = expand(word, environment).map_err(|TooLong| misconfigured(too_long(&what())))?;
        texts.take(word.len(), what)?;
        expanded.push(word);
    }
    Ok((!expanded.is_empty()).then_some(expanded))
}

fn tag(wanted: &Wanted, container: &Container, image: &Image, instance: Instance, message: String) -> Tag {
    let lifecycle = container.lifecycle.clone().unwrap_or_default();
    let grace = wanted.pod.spec.termination_grace_period_seconds.unwrap_or(GRACE_S_DEFAULT);
    Tag {
        pod: wanted.name.clone(),
        container: container.name.clone(),
        attempt: instance.attempt,
        sandbox: instance.sandbox,
        hash: instance.hash,
        step: instance.step,
        renewal: instance.renewal,
        grace_s: u64::try_from(grace).unwrap_or(0),
        stop_signal: lifecycle
            .stop_signal
            .or_else(|| image.stop_signal.clone())
            .unwrap_or_else(|| "SIGTERM".to_owned()),
        pre_stop: lifecycle.pre_stop.and_then(|action| hook_of(&action, container)),
        restart_policy: wanted.pod.spec.restart_policy.clone(),
        end_turn: end_turn(&wanted.pod.spec, container),
        message_file: Some(message),
        message_from_log: container.termination_message_policy == "FallbackToLogsOnError",
        host_ports: Vec::<Publish>::new(),
        holds_volumes: false,
    }
}

/// Sidecars end in the reverse order of their starts, after all others.
fn end_turn(spec: &PodSpec, container: &Container) -> u32 {
    let sidecars: Vec<Member> = members(spec).filter(|member| member.kind == MemberKind::Sidecar).collect();
    let started = sidecars.iter().position(|sidecar| sidecar.spec.name == container.name);
    started.map_or(0, |at| u32::try_from(sidecars.len() - at).unwrap_or(u32::MAX))
}

/// The limits of a container, in the engine's terms.
pub fn limits(spec: &PodSpec, container: &Container) -> Limits {
    let (shares, quota) = cpu(spec, container);
    Limits {
        cpu_shares: shares.unwrap_or(0),
        cpu_quota_us: quota.unwrap_or(0),
        cpu_period_us: quota.map_or(0, |_| CPU_PERIOD_US),
        memory_bytes: memory(spec, container).unwrap_or(0),
    }
}

/// A container that has no limit may use as much as its whole pod.
fn limit<T>(spec: &PodSpec, container: &Container, amount: impl Fn(&ResourceList) -> Option<T>) -> Option<T> {
    amount(&container.resources.limits).or_else(|| amount(&spec.resources.limits))
}

fn memory(spec: &PodSpec, container: &Container) -> Option<i64> {
    limit(spec, container, |amounts| amounts.get("memory").map(|amount| amount.value()).filter(|bytes| *bytes > 0))
}

/// Shares by the request (the limit where there is none), quota by the limit.
fn cpu(spec: &PodSpec, container: &Container) -> (Option<i64>, Option<i64>) {
    let milli = |amounts: &ResourceList| amounts.get("cpu").map(|amount| amount.milli()).filter(|milli| *milli > 0);
    let limit = limit(spec, container, milli);
    let shares = milli(&container.resources.requests).or(limit).unwrap_or(0);
    (
        Some((shares.saturating_mul(1024) / 1000).max(CPU_SHARES_MIN)),
        limit.map(|milli| milli.saturating_mul(CPU_PERIOD_US / 1000).max(CPU_QUOTA_US_MIN)),
    )
}

fn devices(node: &Node, container: &Container) -> Vec<String> {
    let asked = |resource: &str| container.resources.limits.get(resource).is_some_and(|amount| amount.value() > 0);
    node.devices.iter().filter(|devices| asked(&devices.resource)).flat_map(|devices| devices.paths.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::naming::Source;
    use crate::facts::world::Devices;
    use coracle_api::service::Service;
    use serde_json::{Value, json};

    /// The whole configuration of a pod's sandbox and containers is what stands in the golden file; `COR_GOLDEN=1`
    /// writes it.
    fn check(name: &str, spec: Value) {
        let document = json!({"metadata": {"namespace": "default", "name": name, "uid": "4711"}, "spec": spec});
        let wanted = Wanted::new(Source::File, document).unwrap();
        assert_eq!(wanted.refused, None);
        let serial = Devices { resource: "example.com/serial".into(), count: 1, paths: vec!["/dev/ttyUSB0".into()] };
        let node = Node {
            data_dir: "/data".into(),
            pause_image: "sha256:pause".into(),
            devices: vec![serial],
            ..Node::default()
        };
        let service = json!({
            "metadata": {"namespace": "default", "name": "db"},
            "spec": {"clusterIP": "10.96.0.7", "ports": [{"port": 5432}]},
        });
        let desired = Desired {
            services: std::sync::Arc::new(vec![std::sync::Arc::new(Service::read(&service).unwrap())]),
            ..Desired::default()
        };
        let image = Image { id: "sha256:1".into(), stop_signal: Some("SIGQUIT".into()), ..Image::default() };
        let mut configs =
            vec![sandbox_config(&node, &wanted, &wanted.pod.spec.volumes, 0, 0, wanted.sandbox_hash.clone())];
        for member in wanted.members() {
            // The golden files were written with the hash of the container alone.
            let hash = wanted.hash_of(&member).split('.').next().unwrap().to_owned();
            let target = &member.spec.target_container_name;
            let instance = match member.kind {
                MemberKind::Ephemeral => {
                    let processes_of = Some(container_name(&wanted.name, target, 2));
                    Instance { attempt: 0, sandbox: 0, step: 0, renewal: 0, hash, processes_of, address: String::new() }
                }
                _ => Instance {
                    attempt: 2,
                    sandbox: 0,
                    step: 1,
                    renewal: 0,
                    hash,
                    processes_of: None,
                    address: String::new(),
                },
            };
            configs.push(member_config(&node, &desired, &wanted, member.spec, &image, instance).unwrap());
        }
        let text = serde_json::to_string_pretty(&configs).unwrap() + "\n";
        let file = format!("{}/../tests/data/golden/container-{name}.json", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("COR_GOLDEN").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        assert_eq!(text, std::fs::read_to_string(&file).unwrap(), "{file}");
    }

    #[test]
    fn configurations_are_as_recorded() {
        check("plain", json!({"containers": [{"name": "c", "image": "busybox"}]}));
        check(
            "full",
            json!({
                "hostname": "web-1", "terminationGracePeriodSeconds": 7, "restartPolicy": "OnFailure",
                "hostAliases": [{"ip": "10.0.0.9", "hostnames": ["db.local", "db"]}],
                "securityContext": {"runAsUser": 1000, "runAsGroup": 2000, "supplementalGroups": [3000]},
                "volumes": [{"name": "data"}, {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
                    {"name": "host", "hostPath": {"path": "/srv"}}],
                "containers": [{
                    "name": "web", "image": "nginx:1", "command": ["/bin/sh", "-c"],
                    "args": ["exec $(BIN) $$(BIN) $(NOPE)"],
                    "workingDir": "/www", "env": [{"name": "BIN", "value": "nginx"},
                        {"name": "DB_SERVICE_HOST", "value": "mine"},
                        {"name": "URL", "value": "tcp://$(DB_SERVICE_HOST):$(DB_SERVICE_PORT)"}],
                    "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"},
                        {"containerPort": 53, "hostPort": 53, "protocol": "UDP"},
                        {"containerPort": 9}],
                    "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "1m"}},
                    "volumeMounts": [{"name": "data", "mountPath": "/d"}, {"name": "tmp", "mountPath": "/t"},
                        {"name": "host", "mountPath": "/h", "readOnly": true}],
                    "securityContext": {"privileged": true, "capabilities": {"add": ["NET_ADMIN"], "drop": ["MKNOD"]},
                        "readOnlyRootFilesystem": true,
                        "allowPrivilegeEscalation": false},
                    "lifecycle": {"preStop": {"httpGet": {"path": "bye", "port": 80}}},
                    "terminationMessagePolicy": "FallbackToLogsOnError", "tty": true, "stdin": true
                }]
            }),
        );
        check(
            "ephemeral",
            json!({"containers": [{"name": "c", "image": "i:1"}],
                "ephemeralContainers": [{"name": "dbg", "image": "busybox", "command": ["sh"],
                "targetContainerName": "c", "stdin": true, "tty": true,
                "securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}}}]}),
        );
        check(
            "shared",
            json!({"shareProcessNamespace": true, "hostIPC": true, "containers": [{"name": "c", "image": "i:1", "env": [
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "HELLO", "value": "$(NAME)"}]}]}),
        );
        check(
            "secured",
            json!({"securityContext": {"fsGroup": 2000, "supplementalGroups": [3000], "runAsGroup": 5,
                    "sysctls": [{"name": "net/ipv4/tcp_rmem", "value": "1"}],
                    "seccompProfile": {"type": "Localhost", "localhostProfile": "mine.json"},
                    "seLinuxOptions": {"level": "s0:c1,c2"}},
                "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
                "containers": [{"name": "c", "image": "i:1", "env": [{"name": "WHO", "value": "me"}],
                    "resources": {"limits": {"example.com/serial": "1"}},
                    "volumeMounts": [{"name": "shm", "mountPath": "s", "subPathExpr": "of/$(WHO)",
                        "mountPropagation": "HostToContainer"}], "securityContext": {"procMount": "Unmasked",
                    "appArmorProfile": {"type": "Localhost", "localhostProfile": "armor"},
                    "capabilities": {"drop": ["ALL"]}}}]}),
        );
        check("host-processes", json!({"hostPID": true, "containers": [{"name": "c", "image": "i:1"}]}));
        check(
            "host-network",
            json!({"hostNetwork": true, "containers": [{"name": "c", "image": "i:1", "ports": [{"containerPort": 80}],
                "volumeMounts": [], "terminationMessagePath": "/tmp/why"}]}),
        );
    }
}

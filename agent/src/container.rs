//! (Pod, container, facts of the host) -> the complete configuration for the engine. PURE; golden files hold what comes out.

use std::collections::BTreeMap;

use coracle_api::pod::{Container, PodSpec};
use coracle_api::service::Service;

use crate::desired::Wanted;
use crate::downward;
use crate::members::{Kind, Member, members};
use crate::naming::{PodName, SANDBOX, Tag, container_name, message_file};
use crate::plan::checks::check_of;
use crate::plan::ports::host_ports;
use crate::plan::waiting::{WaitReason, Waiting};
use crate::plan::world::Node;
use crate::runtime::{ContainerConfig, Image, Ipc, Log, Mount, MountSource, Network, Publish};
use crate::services;
use crate::volumes::{Home, source};

/// Where the pod does not say.
pub const GRACE_S_DEFAULT: i64 = 30;
const MESSAGE_PATH_DEFAULT: &str = "/dev/termination-log";
/// The kernel takes no fewer.
const CPU_SHARES_MIN: i64 = 2;
const CPU_PERIOD_US: i64 = 100_000;
const CPU_QUOTA_US_MIN: i64 = 1_000;
/// Each container's log on this host's disk, at most: three files of 10 MB.
const LOG_BYTES_MAX: u64 = 10_000_000;
const LOG_FILES_MAX: u32 = 3;
/// The kernel's limit.
const HOSTNAME_LENGTH_MAX: usize = 63;
/// Nobody, on any system.
const PAUSE_USER: &str = "65535:65535";

/// One start of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    pub attempt: u32,
    pub sandbox: u32,
    pub step: u32,
    pub hash: String,
    /// Of an ephemeral container: the name of the one whose processes it sees.
    pub processes_of: Option<String>,
    /// The pod's; empty where it is not known and nobody asks.
    pub address: String,
}

pub fn sandbox_config(node: &Node, wanted: &Wanted, attempt: u32, step: u32, hash: String) -> ContainerConfig {
    let spec = &wanted.pod.spec;
    let host_ports = host_ports(spec);
    let published = if spec.host_network { Vec::new() } else { host_ports.clone() };
    // The sandbox holds the engine's volumes too, so that they outlive the containers.
    let home = Home { data_dir: &node.data_dir, uid: &wanted.name.uid };
    let engine_mounts: Vec<Mount> = spec
        .volumes
        .iter()
        .filter_map(|volume| match source(volume, &home).mount {
            MountSource::Volume(name) => {
                Some(Mount { target: format!("/volumes/{name}"), source: MountSource::Volume(name), read_only: true })
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
        hostname: (!spec.host_network).then(|| hostname(wanted)),
        labels: tag.labels(),
        network: if spec.host_network { Network::Host } else { Network::Pods },
        ipc: if spec.host_ipc { Ipc::Host } else { Ipc::Shareable },
        host_processes: spec.host_pid,
        ports: published,
        extra_hosts: spec.host_aliases.iter().flat_map(|alias| alias.hostnames.iter().map(|name| format!("{name}:{}", alias.ip))).collect(),
        sysctls: spec.security_context.sysctls.iter().map(|sysctl| (sysctl.name.clone(), sysctl.value.clone())).collect(),
        mounts: engine_mounts,
        log: Log::None,
        ..ContainerConfig::default()
    }
}

/// The error is what the container waits for: nothing of it can be made.
pub fn member_config(
    node: &Node,
    services: &[Service],
    wanted: &Wanted,
    container: &Container,
    image: &Image,
    instance: Instance,
) -> Result<ContainerConfig, Waiting> {
    let spec = &wanted.pod.spec;
    check_user(wanted, container, image)?;
    let uid = &wanted.name.uid;
    let message = message_file(&node.data_dir, uid, &container.name, instance.attempt);
    let environment = environment(node, services, wanted, container, &instance.address)?;
    let expand = |words: &[String]| -> Option<Vec<String>> {
        (!words.is_empty()).then(|| words.iter().map(|word| expand(word, &environment)).collect())
    };
    let join = container_name(&wanted.name, SANDBOX, instance.sandbox);
    let security = &container.security_context;
    let capabilities = security.capabilities.clone().unwrap_or_default();
    let (cpu_shares, cpu_quota_us) = cpu(container);
    let processes_of = match instance.processes_of.clone() {
        None if spec.share_process_namespace == Some(true) => Some(join.clone()),
        other => other,
    };
    let ipc = if spec.host_ipc { Ipc::Host } else { Ipc::Join(join.clone()) };
    let tag = tag(wanted, container, image, instance, message.clone());
    Ok(ContainerConfig {
        name: tag.name(),
        image: container.image.clone(),
        entrypoint: expand(&container.command),
        command: expand(&container.args),
        working_dir: (!container.working_dir.is_empty()).then(|| container.working_dir.clone()),
        user: user(wanted, container),
        extra_groups: spec.security_context.supplemental_groups.iter().map(ToString::to_string).collect(),
        hostname: None,
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
        memory_bytes: container.resources.limits.get("memory").map(|amount| amount.value()).filter(|bytes| *bytes > 0),
        privileged: security.privileged == Some(true),
        read_only_root: security.read_only_root_filesystem == Some(true),
        no_new_privileges: security.allow_privilege_escalation == Some(false),
        capabilities_add: capabilities.add,
        capabilities_drop: capabilities.drop,
        sysctls: BTreeMap::new(),
        stdin: container.stdin,
        stdin_once: container.stdin_once,
        tty: container.tty,
        mounts: mounts(node, wanted, container, &message)?,
        files: vec![message],
        log: Log::JsonFile { bytes_max: LOG_BYTES_MAX, files_max: LOG_FILES_MAX },
        environment: environment.into_iter().map(|(name, value)| format!("{name}={value}")).collect(),
    })
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
        grace_s: u64::try_from(grace).unwrap_or(0),
        stop_signal: lifecycle.stop_signal.or_else(|| image.stop_signal.clone()).unwrap_or_else(|| "SIGTERM".to_owned()),
        pre_stop: lifecycle.pre_stop.and_then(|action| check_of(&action, container)),
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
    let sidecars: Vec<Member> = members(spec).filter(|member| member.kind == Kind::Sidecar).collect();
    let started = sidecars.iter().position(|sidecar| sidecar.spec.name == container.name);
    started.map_or(0, |at| u32::try_from(sidecars.len() - at).unwrap_or(u32::MAX))
}

fn mounts(node: &Node, wanted: &Wanted, container: &Container, message: &str) -> Result<Vec<Mount>, Waiting> {
    let spec = &wanted.pod.spec;
    let home = Home { data_dir: &node.data_dir, uid: &wanted.name.uid };
    let mut mounts = Vec::new();
    for mount in &container.volume_mounts {
        let Some(volume) = spec.volumes.iter().find(|volume| volume.name == mount.name) else {
            let text = format!("volumeMount {}: the pod has no volume of that name", mount.name);
            return Err(Waiting::new(WaitReason::CreateContainerConfigError, text));
        };
        mounts.push(Mount { source: source(volume, &home).mount, target: mount.mount_path.clone(), read_only: mount.read_only });
    }
    let target = if container.termination_message_path.is_empty() { MESSAGE_PATH_DEFAULT } else { &container.termination_message_path };
    // A volume that the pod mounts at the very path holds the message itself.
    if mounts.iter().all(|mount| mount.target != target) {
        mounts.push(Mount { source: MountSource::Path(message.to_owned()), target: target.to_owned(), read_only: false });
    }
    Ok(mounts)
}

/// What the pod asks for, in its own order and over the variables of services, which come first.
fn environment(
    node: &Node,
    services: &[Service],
    wanted: &Wanted,
    container: &Container,
    address: &str,
) -> Result<Vec<(String, String)>, Waiting> {
    let mut environment: Vec<(String, String)> = if wanted.pod.spec.enable_service_links == Some(false) {
        Vec::new()
    } else {
        services::variables(services, &wanted.name.namespace).into_iter().collect()
    };
    for variable in &container.env {
        let source = variable.value_from.clone().unwrap_or_default();
        let value = match (&source.field_ref, &source.resource_field_ref) {
            (Some(field), _) => downward::field(field, wanted, node, address),
            (None, Some(resource)) => downward::resource(resource, wanted, container, node),
            (None, None) => Ok(expand(&variable.value, &environment)),
        };
        let value = value.map_err(|text| Waiting::new(WaitReason::CreateContainerConfigError, text))?;
        match environment.iter_mut().find(|(name, _)| *name == variable.name) {
            Some(entry) => entry.1 = value,
            None => environment.push((variable.name.clone(), value)),
        }
    }
    Ok(environment)
}

/// `$(NAME)` is the variable's value, `$$(NAME)` is `$(NAME)`, and what names no variable stays as it is.
fn expand(text: &str, environment: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match environment.iter().find(|(known, _)| known == name) {
                Some((_, value)) => out.push_str(value),
                None => out.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

/// Shares by the request (the limit where there is none), quota by the limit.
fn cpu(container: &Container) -> (Option<i64>, Option<i64>) {
    let milli = |amounts: &coracle_api::pod::ResourceList| amounts.get("cpu").map(|amount| amount.milli()).filter(|milli| *milli > 0);
    let limit = milli(&container.resources.limits);
    let shares = milli(&container.resources.requests).or(limit);
    (
        shares.map(|milli| (milli.saturating_mul(1024) / 1000).max(CPU_SHARES_MIN)),
        limit.map(|milli| milli.saturating_mul(CPU_PERIOD_US / 1000).max(CPU_QUOTA_US_MIN)),
    )
}

fn user(wanted: &Wanted, container: &Container) -> Option<String> {
    let pod = &wanted.pod.spec.security_context;
    let own = &container.security_context;
    let user = own.run_as_user.or(pod.run_as_user);
    match (user, own.run_as_group.or(pod.run_as_group)) {
        (Some(user), Some(group)) => Some(format!("{user}:{group}")),
        (Some(user), None) => Some(user.to_string()),
        // A group alone goes with root, as the image's user cannot be told apart from it here.
        (None, Some(group)) => Some(format!("0:{group}")),
        (None, None) => None,
    }
}

fn check_user(wanted: &Wanted, container: &Container, image: &Image) -> Result<(), Waiting> {
    let pod = &wanted.pod.spec.security_context;
    let own = &container.security_context;
    if own.run_as_non_root.or(pod.run_as_non_root) != Some(true) {
        return Ok(());
    }
    let PodName { namespace, name, uid, .. } = &wanted.name;
    let place = format!("(pod: \"{name}_{namespace}({uid})\", container: {})", container.name);
    let image_user = image.user.split(':').next().unwrap_or("");
    let text = match own.run_as_user.or(pod.run_as_user) {
        Some(0) => format!("container's runAsUser breaks non-root policy {place}"),
        Some(_) => return Ok(()),
        None if image_user.is_empty() || image_user == "0" => format!("container has runAsNonRoot and image will run as root {place}"),
        None if image_user.parse::<u32>().is_ok() => return Ok(()),
        None => format!("container has runAsNonRoot and image has non-numeric user ({image_user}), cannot verify user is non-root {place}"),
    };
    Err(Waiting::new(WaitReason::CreateContainerConfigError, text))
}

fn hostname(wanted: &Wanted) -> String {
    let name = if wanted.pod.spec.hostname.is_empty() { &wanted.name.name } else { &wanted.pod.spec.hostname };
    let short: String = name.chars().take(HOSTNAME_LENGTH_MAX).collect();
    short.trim_end_matches(['-', '.', '_']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::Source;
    use serde_json::{Value, json};

    /// The whole configuration of a pod's sandbox and containers is what stands in the golden file; `COR_GOLDEN=1` writes it.
    fn check(name: &str, spec: Value) {
        let document = json!({"metadata": {"namespace": "default", "name": name, "uid": "4711"}, "spec": spec});
        let wanted = Wanted::new(Source::File, document).unwrap();
        assert_eq!(wanted.refused, None);
        let node = Node { data_dir: "/data".into(), pause_image: "sha256:pause".into(), ..Node::default() };
        let service =
            json!({"metadata": {"namespace": "default", "name": "db"}, "spec": {"clusterIP": "10.96.0.7", "ports": [{"port": 5432}]}});
        let services = [Service::read(&service).unwrap()];
        let image = Image { id: "sha256:1".into(), stop_signal: Some("SIGQUIT".into()), ..Image::default() };
        let mut configs = vec![sandbox_config(&node, &wanted, 0, 0, wanted.sandbox_hash.clone())];
        for member in wanted.members() {
            // The golden files were written with the hash of the container alone.
            let hash = wanted.hash_of(&member).split('.').next().unwrap().to_owned();
            let target = &member.spec.target_container_name;
            let instance = match member.kind {
                Kind::Ephemeral => {
                    let processes_of = Some(container_name(&wanted.name, target, 2));
                    Instance { attempt: 0, sandbox: 0, step: 0, hash, processes_of, address: String::new() }
                }
                _ => Instance { attempt: 2, sandbox: 0, step: 1, hash, processes_of: None, address: String::new() },
            };
            configs.push(member_config(&node, &services, &wanted, member.spec, &image, instance).unwrap());
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
                    "name": "web", "image": "nginx:1", "command": ["/bin/sh", "-c"], "args": ["exec $(BIN) $$(BIN) $(NOPE)"],
                    "workingDir": "/www", "env": [{"name": "BIN", "value": "nginx"}, {"name": "DB_SERVICE_HOST", "value": "mine"},
                        {"name": "URL", "value": "tcp://$(DB_SERVICE_HOST):$(DB_SERVICE_PORT)"}],
                    "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}, {"containerPort": 53, "hostPort": 53, "protocol": "UDP"},
                        {"containerPort": 9}],
                    "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "1m"}},
                    "volumeMounts": [{"name": "data", "mountPath": "/d"}, {"name": "tmp", "mountPath": "/t"},
                        {"name": "host", "mountPath": "/h", "readOnly": true}],
                    "securityContext": {"privileged": true, "capabilities": {"add": ["NET_ADMIN"], "drop": ["MKNOD"]}, "readOnlyRootFilesystem": true,
                        "allowPrivilegeEscalation": false},
                    "lifecycle": {"preStop": {"httpGet": {"path": "bye", "port": 80}}},
                    "terminationMessagePolicy": "FallbackToLogsOnError", "tty": true, "stdin": true
                }]
            }),
        );
        check(
            "ephemeral",
            json!({"containers": [{"name": "c", "image": "i:1"}], "ephemeralContainers": [{"name": "dbg", "image": "busybox", "command": ["sh"],
                "targetContainerName": "c", "stdin": true, "tty": true, "securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}}}]}),
        );
        check(
            "shared",
            json!({"shareProcessNamespace": true, "hostIPC": true, "containers": [{"name": "c", "image": "i:1", "env": [
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "HELLO", "value": "$(NAME)"}]}]}),
        );
        check("host-processes", json!({"hostPID": true, "containers": [{"name": "c", "image": "i:1"}]}));
        check(
            "host-network",
            json!({"hostNetwork": true, "containers": [{"name": "c", "image": "i:1", "ports": [{"containerPort": 80}],
                "volumeMounts": [], "terminationMessagePath": "/tmp/why"}]}),
        );
    }

    #[test]
    fn variables_expand_as_in_kubernetes() {
        let environment = [("A".to_owned(), "1".to_owned())];
        for (text, wanted) in
            [("$(A)", "1"), ("$$(A)", "$(A)"), ("$(B)", "$(B)"), ("$A $", "$A $"), ("$(A", "$(A"), ("$$$(A)", "$1"), ("x$(A)y$(A)", "x1y1")]
        {
            assert_eq!(expand(text, &environment), wanted, "{text}");
        }
    }

    #[test]
    fn nobody_runs_as_root_who_must_not() {
        let check = |context: Value, image_user: &str, fits: bool| {
            let document = json!({"metadata": {"namespace": "d", "name": "n", "uid": "u"},
                "spec": {"containers": [{"name": "c", "image": "i", "securityContext": context}]}});
            let wanted = Wanted::new(Source::File, document).unwrap();
            let image = Image { user: image_user.into(), ..Image::default() };
            let result = check_user(&wanted, &wanted.pod.spec.containers[0], &image);
            assert_eq!(result.is_ok(), fits, "{context} {image_user} {result:?}");
        };
        check(json!({}), "", true);
        check(json!({"runAsNonRoot": true}), "", false);
        check(json!({"runAsNonRoot": true}), "0:0", false);
        check(json!({"runAsNonRoot": true}), "1000", true);
        check(json!({"runAsNonRoot": true}), "app", false);
        check(json!({"runAsNonRoot": true, "runAsUser": 0}), "1000", false);
        check(json!({"runAsNonRoot": true, "runAsUser": 5}), "", true);
    }
}

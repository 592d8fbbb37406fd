//! `ContainerConfig` -> the JSON that Docker's create call takes. PURE.

use std::collections::HashMap;
use std::net::IpAddr;

use bollard::models::{
    ContainerCreateBody, DeviceMapping, HostConfig, HostConfigLogConfig, Mount as DockerMount, MountBindOptions,
    MountBindOptionsPropagationEnum, MountType, PortBinding, PortMap,
};

use super::dialect::Dialect;
use super::ready::NETWORK;
use crate::facts::engine::{
    ContainerConfig, Ipc, Log, Mount, MountSource, Network, Propagation, Publish, ReadOnlyBelow, Seccomp,
};
use crate::network::pod_network::LABEL_ADDRESS;

/// The facts that a container's JSON depends on beside its configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms<'a> {
    /// The content of the profile that is asked for.
    pub seccomp: Option<&'a str>,
    /// The engine makes mounts below a read-only one read-only, too, unless it is told otherwise.
    pub recursive: bool,
    /// The address of a sandbox that the agent plugs in itself.
    pub address: Option<IpAddr>,
    /// Docker and Podman need different forms for some fields, and each refuses the form for the second engine.
    pub dialect: Dialect,
}

/// The configuration with the engine's names for the containers that it joins.
pub fn joined(config: &ContainerConfig, called: impl Fn(&str) -> String) -> ContainerConfig {
    let mut config = config.clone();
    if let Network::Join(name) = &mut config.network {
        *name = called(name);
    }
    if let Ipc::Join(name) = &mut config.ipc {
        *name = called(name);
    }
    config.processes_of = config.processes_of.map(|name| called(&name));
    config
}

pub fn body(config: &ContainerConfig, terms: Terms<'_>) -> ContainerCreateBody {
    let some = |list: &Vec<String>| (!list.is_empty()).then(|| list.clone());
    let address = terms.address.map(|address| (LABEL_ADDRESS.to_owned(), address.to_string()));
    ContainerCreateBody {
        hostname: config.hostname.clone(),
        user: config.user.clone(),
        exposed_ports: (!config.ports.is_empty() && terms.address.is_none())
            .then(|| config.ports.iter().map(port_key).collect()),
        tty: Some(config.tty),
        open_stdin: Some(config.stdin),
        stdin_once: Some(config.stdin_once),
        env: some(&config.environment),
        cmd: config.command.clone(),
        image: Some(config.image.clone()),
        working_dir: config.working_dir.clone(),
        entrypoint: config.entrypoint.clone(),
        stop_timeout: config.stop_timeout_s.and_then(|seconds| i64::try_from(seconds).ok()),
        stop_signal: config.stop_signal.clone(),
        labels: Some(config.labels.clone().into_iter().chain(address).collect()),
        host_config: Some(host_config(config, terms)),
        ..Default::default()
    }
}

/// Docker makes the working directory with the container, and refuses one that is a file.
pub fn is_no_working_dir(refused: &str) -> bool {
    refused.contains("Cannot mkdir") && refused.contains("is not a directory")
}

/// The same container for the case that its working directory is a file: the start fails at the same path. None: no
/// working directory is set.
pub fn without_working_dir(body: &ContainerCreateBody) -> Option<ContainerCreateBody> {
    let path = body.working_dir.as_ref()?;
    let entrypoint = Some(vec![format!("{}/", path.trim_end_matches('/'))]);
    Some(ContainerCreateBody { working_dir: None, entrypoint, cmd: None, ..body.clone() })
}

fn host_config(config: &ContainerConfig, terms: Terms<'_>) -> HostConfig {
    let some = |list: &Vec<String>| (!list.is_empty()).then(|| list.clone());
    HostConfig {
        cpu_shares: config.cpu_shares,
        cpu_period: config.cpu_period_us,
        cpu_quota: config.cpu_quota_us,
        memory: config.memory_bytes,
        oom_score_adj: (config.oom_score_adj != 0).then_some(config.oom_score_adj),
        // Podman's own limit, where nothing is said, is 2048.
        pids_limit: config.pids_max.or((terms.dialect == Dialect::Podman).then_some(-1)),
        // A limit is a limit of memory: without this Docker lets as much again go to swap.
        memory_swap: config.memory_bytes,
        log_config: Some(log_config(&config.log)),
        runtime: config.runtime.clone(),
        network_mode: Some(match &config.network {
            Network::Pods if terms.address.is_some() => "none".to_owned(),
            Network::Pods => NETWORK.to_owned(),
            Network::Host => "host".to_owned(),
            Network::Join(name) => format!("container:{name}"),
        }),
        ipc_mode: Some(match &config.ipc {
            Ipc::Shareable => "shareable".to_owned(),
            Ipc::Host => "host".to_owned(),
            Ipc::Join(name) => format!("container:{name}"),
        }),
        // With Docker whoever joins a network has its host name; it refuses to be asked.
        uts_mode: match (&config.network, terms.dialect) {
            (Network::Join(name), Dialect::Podman) => Some(format!("container:{name}")),
            _ => None,
        },
        pid_mode: match &config.processes_of {
            Some(name) => Some(format!("container:{name}")),
            None => config.host_processes.then(|| "host".to_owned()),
        },
        port_bindings: port_bindings(&config.ports).filter(|_| terms.address.is_none()),
        // Mounts and not Binds: a source that is missing is an error, not a silent new directory.
        mounts: (!config.mounts.is_empty()).then(|| config.mounts.iter().map(|one| mount(one, terms)).collect()),
        devices: (!config.devices.is_empty()).then(|| config.devices.iter().map(|path| device(path)).collect()),
        cap_add: some(&config.capabilities_add),
        cap_drop: some(&config.capabilities_drop),
        extra_hosts: some(&config.extra_hosts),
        group_add: some(&config.extra_groups),
        privileged: Some(config.privileged),
        readonly_rootfs: Some(config.read_only_root),
        security_opt: some(&security_options(config, terms)),
        // An empty list is none of the engine's own.
        masked_paths: config.unmasked_proc.then(Vec::new),
        readonly_paths: config.unmasked_proc.then(Vec::new),
        sysctls: (!config.sysctls.is_empty()).then(|| config.sysctls.clone().into_iter().collect()),
        ..Default::default()
    }
}

fn security_options(config: &ContainerConfig, terms: Terms<'_>) -> Vec<String> {
    let mut options = Vec::new();
    options.extend(config.no_new_privileges.then(|| "no-new-privileges".to_owned()));
    options.extend(match (&config.seccomp, terms.seccomp, terms.dialect) {
        (Some(Seccomp::Unconfined), ..) => Some("seccomp=unconfined".to_owned()),
        (Some(Seccomp::File(path)), Some(_), Dialect::Podman) => Some(format!("seccomp={path}")),
        (Some(Seccomp::File(_)), Some(profile), Dialect::Docker) => Some(format!("seccomp={profile}")),
        _ => None,
    });
    // Docker takes lists of paths instead, which Podman ignores.
    options.extend((config.unmasked_proc && terms.dialect == Dialect::Podman).then(|| "unmask=ALL".to_owned()));
    options.extend(config.app_armor.iter().map(|profile| format!("apparmor={profile}")));
    options.extend(config.se_linux.iter().map(|label| format!("label={label}")));
    options
}

fn log_config(log: &Log) -> HostConfigLogConfig {
    let (typ, config) = match log {
        Log::None => ("none", None),
        Log::JsonFile { bytes_max, files_max } => {
            let options = [("max-size", bytes_max.to_string()), ("max-file", files_max.to_string())];
            ("json-file", Some(options.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()))
        }
    };
    HostConfigLogConfig { typ: Some(typ.to_owned()), config }
}

fn port_key(port: &Publish) -> String {
    format!("{}/{}", port.container_port, port.protocol)
}

/// One container port may be published on several host ports.
fn port_bindings(ports: &[Publish]) -> Option<PortMap> {
    let mut bindings: HashMap<String, Option<Vec<PortBinding>>> = HashMap::new();
    for port in ports {
        let binding = PortBinding { host_ip: Some(port.host_ip.clone()), host_port: Some(port.host_port.to_string()) };
        bindings.entry(port_key(port)).or_default().get_or_insert_default().push(binding);
    }
    (!bindings.is_empty()).then_some(bindings)
}

fn device(path: &str) -> DeviceMapping {
    let path = Some(path.to_owned());
    DeviceMapping { path_on_host: path.clone(), path_in_container: path, cgroup_permissions: Some("rwm".to_owned()) }
}

fn mount(mount: &Mount, terms: Terms<'_>) -> DockerMount {
    let (typ, source) = match &mount.source {
        MountSource::Path(path) => (MountType::BIND, path),
        MountSource::Volume(name) => (MountType::VOLUME, name),
    };
    DockerMount {
        target: Some(mount.target.clone()),
        source: Some(source.clone()),
        typ: Some(typ),
        read_only: Some(mount.read_only),
        bind_options: matches!(mount.source, MountSource::Path(_)).then(|| bind_options(mount, terms)).flatten(),
        ..Default::default()
    }
}

/// None: as the engine does it anyway.
fn bind_options(mount: &Mount, terms: Terms<'_>) -> Option<MountBindOptions> {
    let options = MountBindOptions {
        propagation: match mount.propagation {
            Propagation::None => None,
            Propagation::HostToContainer => Some(MountBindOptionsPropagationEnum::RSLAVE),
            Propagation::Bidirectional => Some(MountBindOptionsPropagationEnum::RSHARED),
        },
        read_only_non_recursive: (mount.read_only && terms.recursive && mount.below == ReadOnlyBelow::No)
            .then_some(true),
        read_only_force_recursive: matches!(mount.below, ReadOnlyBelow::Yes { .. }).then_some(true),
        ..Default::default()
    };
    (options != MountBindOptions::default()).then_some(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(config: ContainerConfig, pointer: &str, expected: Value) {
        let body = serde_json::to_value(body(
            &config,
            Terms { seccomp: Some("{}"), recursive: true, address: None, dialect: Dialect::Docker },
        ))
        .unwrap();
        assert_eq!(body.pointer(pointer), Some(&expected), "{pointer} in {body:#}");
    }

    #[test]
    fn a_working_directory_that_is_a_file_fails_at_the_start() {
        assert!(is_no_working_dir("Cannot mkdir: /etc/passwd is not a directory"));
        assert!(!is_no_working_dir("No such image: x"));
        let config = ContainerConfig {
            working_dir: Some("/etc/passwd".to_owned()),
            command: Some(vec!["sh".to_owned()]),
            ..ContainerConfig::default()
        };
        let spare = without_working_dir(&body(&config, Terms::default())).unwrap();
        let expected = (None, Some(vec!["/etc/passwd/".to_owned()]), None);
        assert_eq!((spare.working_dir, spare.entrypoint, spare.cmd), expected);
        assert_eq!(without_working_dir(&body(&ContainerConfig::default(), Terms::default())), None);
    }

    #[test]
    fn each_part_reaches_its_place() {
        let config = || ContainerConfig::default();
        check(config(), "/HostConfig/NetworkMode", json!("coracle"));
        check(config(), "/HostConfig/LogConfig/Type", json!("none"));
        check(
            ContainerConfig { network: Network::Join("p".into()), ..config() },
            "/HostConfig/NetworkMode",
            json!("container:p"),
        );
        check(ContainerConfig { ipc: Ipc::Join("p".into()), ..config() }, "/HostConfig/IpcMode", json!("container:p"));
        check(ContainerConfig { host_processes: true, ..config() }, "/HostConfig/PidMode", json!("host"));
        check(
            ContainerConfig { processes_of: Some("p".into()), ..config() },
            "/HostConfig/PidMode",
            json!("container:p"),
        );
        check(ContainerConfig { memory_bytes: Some(64), ..config() }, "/HostConfig/MemorySwap", json!(64));
        check(ContainerConfig { runtime: Some("runsc".into()), ..config() }, "/HostConfig/Runtime", json!("runsc"));
        check(ContainerConfig { stop_timeout_s: Some(70), ..config() }, "/StopTimeout", json!(70));
        check(
            ContainerConfig {
                no_new_privileges: true,
                seccomp: Some(Seccomp::File("/p".into())),
                app_armor: Some("mine".into()),
                se_linux: vec!["type:t".into()],
                ..config()
            },
            "/HostConfig/SecurityOpt",
            json!(["no-new-privileges", "seccomp={}", "apparmor=mine", "label=type:t"]),
        );
        check(
            ContainerConfig { seccomp: Some(Seccomp::Unconfined), ..config() },
            "/HostConfig/SecurityOpt/0",
            json!("seccomp=unconfined"),
        );
        check(ContainerConfig { unmasked_proc: true, ..config() }, "/HostConfig/MaskedPaths", json!([]));
        let log = Log::JsonFile { bytes_max: 10, files_max: 2 };
        check(
            ContainerConfig { log, ..config() },
            "/HostConfig/LogConfig/Config",
            json!({ "max-size": "10", "max-file": "2" }),
        );
        let port =
            |host_port| Publish { container_port: 80, protocol: "tcp".into(), host_ip: String::new(), host_port };
        let ports = vec![port(8080), port(8081)];
        check(
            ContainerConfig { ports, ..config() },
            "/HostConfig/PortBindings/80~1tcp",
            json!([{ "HostIp": "", "HostPort": "8080" }, { "HostIp": "", "HostPort": "8081" }]),
        );
        let plain = |read_only| Mount::new(MountSource::Path("/a".into()), "/b".into(), read_only);
        let mounts = vec![
            plain(false),
            Mount { propagation: Propagation::Bidirectional, ..plain(false) },
            plain(true),
            Mount { below: ReadOnlyBelow::Yes { volume: "v".into() }, ..plain(true) },
            Mount { below: ReadOnlyBelow::IfPossible, ..plain(true) },
        ];
        let options = [
            Value::Null,
            json!({ "Propagation": "rshared" }),
            json!({ "ReadOnlyNonRecursive": true }),
            json!({ "ReadOnlyForceRecursive": true }),
            Value::Null,
        ];
        for (mount, expected) in mounts.iter().zip(options) {
            let found =
                serde_json::to_value(super::mount(mount, Terms { recursive: true, ..Terms::default() })).unwrap();
            assert_eq!(found["BindOptions"], expected, "{mount:?}");
        }
        check(
            ContainerConfig { mounts, ..config() },
            "/HostConfig/Mounts/0",
            json!({ "Target": "/b", "Source": "/a", "Type": "bind", "ReadOnly": false }),
        );
    }

    #[test]
    fn what_is_joined_has_the_name_that_it_has_now() {
        let join = || "k8s_POD_0".to_owned();
        let (network, ipc, processes_of) = (Network::Join(join()), Ipc::Join(join()), Some("k8s_c_0".to_owned()));
        let config = ContainerConfig { network, ipc, processes_of, ..ContainerConfig::default() };
        let found = joined(&config, |name| if name == "k8s_POD_0" { "0123".to_owned() } else { name.to_owned() });
        let now = || "0123".to_owned();
        let expected = ContainerConfig { network: Network::Join(now()), ipc: Ipc::Join(now()), ..config };
        assert_eq!(found, expected);
    }

    #[test]
    fn what_podman_reads_otherwise() {
        let config = ContainerConfig {
            network: Network::Join("p".into()),
            seccomp: Some(Seccomp::File("/p".into())),
            unmasked_proc: true,
            ..ContainerConfig::default()
        };
        let of = |dialect: Dialect| {
            serde_json::to_value(body(&config, Terms { seccomp: Some("{}"), dialect, ..Terms::default() })).unwrap()
        };
        let (docker, podman) = (of(Dialect::Docker), of(Dialect::Podman));
        assert_eq!(podman["HostConfig"]["UTSMode"], "container:p");
        assert_eq!(podman["HostConfig"]["PidsLimit"], -1);
        assert_eq!(podman["HostConfig"]["SecurityOpt"], json!(["seccomp=/p", "unmask=ALL"]));
        assert_eq!(docker["HostConfig"]["SecurityOpt"], json!(["seccomp={}"]));
        assert!(["UTSMode", "PidsLimit"].iter().all(|name| docker["HostConfig"].get(name).is_none()), "{docker}");
    }
}

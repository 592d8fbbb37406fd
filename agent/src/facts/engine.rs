//! The words of a container engine, whichever it is: `SeenContainer` in, `ContainerConfig` out. PURE.

mod beside;
mod mount;
mod volume;

use std::collections::BTreeMap;
use std::fmt;

use crate::facts::image_access::ImageAccess;
pub use beside::{Beside, EndBefore};
pub use mount::{Mount, MountSource, Propagation, ReadOnlyBelow, SubPath};
pub use volume::{Belongings, HostFile, NamedVolume, Volume};

/// Why a call did not do what it should. The text is the engine's own, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No such container or image.
    NotFound(String),
    /// The name is taken by a container of ours (it has our label): it was made before, and the listing did not show it
    /// yet.
    Conflict(String),
    /// Another program's container has the name.
    Taken(String),
    /// The engine is absent, hung, or the answer was lost. Nothing can be concluded.
    Unavailable(String),
    /// The registry is out of reach or does not have it.
    Registry(String),
    /// The engine understood and will not: a bad command, a taken port, a missing mount source.
    Refused(String),
    /// The container's config cannot be satisfied now, for example a subPath that leads outside its volume. No start
    /// was tried.
    Config(String),
}

impl Failure {
    pub fn text(&self) -> &str {
        match self {
            Failure::NotFound(text)
            | Failure::Conflict(text)
            | Failure::Taken(text)
            | Failure::Unavailable(text)
            | Failure::Registry(text)
            | Failure::Refused(text)
            | Failure::Config(text) => text,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Failure {}

/// A container of ours as the engine reports it. The labels identify the container (see `naming`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenContainer {
    pub id: String,
    /// Without Docker's leading slash.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// The reference that the container was made from, as it was asked for.
    pub image: String,
    /// The engine's image id, `sha256:...`.
    pub image_id: String,
    pub created_ms: i64,
    pub state: State,
    /// The address of a sandbox that runs on the pod network.
    pub ip: Option<String>,
    /// Its limits. None: the engine does not say.
    pub limits: Option<Limits>,
    /// Of a dead container: the content of its termination message file, or the end of its log if the policy says
    /// `FallbackToLogsOnError`.
    pub message: Option<String>,
    /// Changes that another program made to the container with the engine.
    pub beside: Beside,
}

/// The limits of a container; 0: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub cpu_shares: i64,
    pub cpu_quota_us: i64,
    pub cpu_period_us: i64,
    pub memory_bytes: i64,
}

/// Times are of the wall clock, in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Made and not started; with the engine's text if a start was refused.
    Created {
        refused: Option<String>,
    },
    Running {
        started_ms: i64,
    },
    Exited {
        exit_code: i32,
        out_of_memory: bool,
        started_ms: i64,
        finished_ms: i64,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// `sha256:...`
    pub id: String,
    /// The image's user: a name or number, empty for root.
    pub user: String,
    pub stop_signal: Option<String>,
    /// On the disk.
    pub size_bytes: u64,
    /// None: each pod may use it.
    pub access: Option<ImageAccess>,
}

/// One hook or probe, with every name resolved. An empty host means the address of the pod.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Check {
    Exec {
        command: Vec<String>,
    },
    /// 200 to 399 passes.
    Http {
        scheme: String,
        host: String,
        port: u16,
        path: String,
        headers: Vec<(String, String)>,
    },
    Tcp {
        host: String,
        port: u16,
    },
    /// A call of gRPC's health protocol.
    Grpc {
        host: String,
        port: u16,
        service: String,
    },
    /// A hook that only waits.
    Sleep {
        seconds: u64,
    },
    /// It cannot be run: why, in a kubelet's words.
    Broken {
        why: String,
    },
}

impl Check {
    /// Whether the host is empty and so means the pod. No other code makes this decision.
    pub fn is_for_pod(&self) -> bool {
        match self {
            Check::Exec { .. } | Check::Sleep { .. } | Check::Broken { .. } => false,
            Check::Http { host, .. } | Check::Tcp { host, .. } | Check::Grpc { host, .. } => host.is_empty(),
        }
    }

    /// With the pod's address in the place of an empty host.
    pub fn at(mut self, address: &str) -> Check {
        match &mut self {
            Check::Http { host, .. } | Check::Tcp { host, .. } | Check::Grpc { host, .. } if host.is_empty() => {
                address.clone_into(host)
            }
            _ => {}
        }
        self
    }
}

/// What a check is for: of the answer to a hook's request the code counts for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Probe,
    Hook,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckOutcome {
    pub passed: bool,
    /// The exit code of an exec that ended.
    pub exit_code: Option<i64>,
    /// What the command wrote, or what was wrong, in the kubelet's words (`HTTP probe failed with statuscode: 404`).
    pub output: String,
    /// The check passed with a warning: the text of the event.
    pub note: Option<String>,
}

/// The complete configuration of one container, in no engine's words.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ContainerConfig {
    pub name: String,
    pub image: String,
    /// None: as the image has it.
    pub entrypoint: Option<Vec<String>>,
    pub command: Option<Vec<String>>,
    /// `NAME=value`, in order.
    pub environment: Vec<String>,
    pub working_dir: Option<String>,
    /// `uid[:gid]`
    pub user: Option<String>,
    pub extra_groups: Vec<String>,
    pub hostname: Option<String>,
    /// None: the engine's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// How the engine itself stops it, when it stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_timeout_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub network: Network,
    pub ipc: Ipc,
    /// The container shares the host's PID namespace.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub host_processes: bool,
    /// The container, by its name, whose processes this one sees. None: its own alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes_of: Option<String>,
    pub ports: Vec<Publish>,
    /// `NAME:IP`
    pub extra_hosts: Vec<String>,
    pub cpu_shares: Option<i64>,
    pub cpu_quota_us: Option<i64>,
    pub cpu_period_us: Option<i64>,
    pub memory_bytes: Option<i64>,
    /// Processes and threads at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids_max: Option<i64>,
    pub oom_score_adj: i64,
    pub privileged: bool,
    pub read_only_root: bool,
    pub no_new_privileges: bool,
    pub capabilities_add: Vec<String>,
    pub capabilities_drop: Vec<String>,
    /// None: the engine's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seccomp: Option<Seccomp>,
    /// A profile, or `unconfined`. None: the engine's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_armor: Option<String>,
    /// `key:value` each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub se_linux: Vec<String>,
    /// It sees all of `/proc`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unmasked_proc: bool,
    pub sysctls: BTreeMap<String, String>,
    pub stdin: bool,
    pub stdin_once: bool,
    pub tty: bool,
    pub mounts: Vec<Mount>,
    /// Paths of this host, which are the container's, too. A directory stands for all that is in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Files (never directories) that are made, empty and writable for all, before the container is: termination
    /// messages.
    pub files: Vec<String>,
    /// Files with what is to stand in them, readable for all, made before the container is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<(String, String)>,
    /// Variables whose values are still to be filled in at their marks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub file_variables: Vec<FileVariable>,
    pub log: Log,
}

/// A variable whose value stands in a file of a volume.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FileVariable {
    /// Stands for its value.
    pub mark: String,
    pub name: String,
    pub volume: MountSource,
    /// Relative to the volume, never outside the volume.
    pub path: String,
    pub key: String,
    /// It may be missing in the file.
    pub optional: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Seccomp {
    Unconfined,
    /// A profile of this host.
    File(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub enum Network {
    /// The labelled network of the pod CIDR: a sandbox.
    #[default]
    Pods,
    /// The host's own.
    Host,
    /// The network of the container with this name: a pod's container joins its sandbox.
    Join(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub enum Ipc {
    #[default]
    Shareable,
    Host,
    Join(String),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Publish {
    pub container_port: u16,
    /// `tcp`, `udp` or `sctp`
    pub protocol: String,
    /// Empty: every address of the host.
    pub host_ip: String,
    pub host_port: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub enum Log {
    #[default]
    None,
    JsonFile {
        bytes_max: u64,
        files_max: u32,
    },
}

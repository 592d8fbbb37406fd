//! The agent: the kubelet of a small host.
//!
//!     directory, master -> Desired --\                        /-> endpoints (a port: /healthz; a socket: pods, logs)
//!     engine events, probes ---------> the loop (`sync`) -> Shown -> probes
//!                                       plan, act             \-> report, events -> the master
//!     services and endpoints -> nft
//!
//! `parts` is the only place where the parts meet.

pub mod backup;
pub mod command;
pub mod config;
pub mod desired;
pub mod endpoints;
pub mod facts;
pub mod figures;
pub mod host;
pub mod images;
pub mod inside;
pub mod network;
mod parts;
pub mod plan;
pub mod pressure;
pub mod reclaim;
pub mod running;
pub mod runtime;
pub mod spec;
pub mod status;
pub mod streams;
pub mod telling;
pub mod updates;
pub mod usage;

use std::fmt;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use coracle_http::network::{self as carrier, UnixDoor};
use coracle_program::notify::notify;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use config::Config;
use facts::naming;
use facts::pod_cidr::{self, PodCidr};
use facts::shown::Shown;
use host::lock::LockError;
use host::{machine, peers, private};
use parts::Parts;
use running::leaving;
use runtime::docker::{Docker, Settings};
use runtime::pause;
use telling::notify;

/// How long the start waits for the engine before everything else begins.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// Why the agent ended by itself.
#[derive(Debug)]
pub enum RunError {
    DataDir { path: String, cause: std::io::Error },
    Listen { address: String, cause: std::io::Error },
    Engine(LockError),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::DataDir { path, cause } => write!(f, "the data directory {path} cannot be used: {cause}"),
            RunError::Listen { address, cause } => write!(f, "listen on {address}: {cause}"),
            RunError::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}

/// Runs until `shutdown`; containers and service rules stay as they are. Needs a `LocalSet`.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
    take_data_directory(&config.data_dir)?;
    let doors = listen(&config)?;
    tokio::task::spawn_local(runtime::docker::record_disks(config.data_dir.clone()));
    let pods = pod_cidr::given(Some(config.pod_cidr));
    let docker = Arc::new(Docker::new(engine(&config, pods.clone(), false)));
    // The agent does not start if another agent holds the engine; an absent engine is waited for later.
    if let Ok(Err(error)) = timeout(FIRST_LOOK, docker.first_contact()).await {
        return Err(RunError::Engine(error));
    }
    say_start(&config, &doors.0);
    let (leaving_in, leaving) = watch::channel(false);
    let parts = Parts::start(config, docker.clone(), pods, leaving);
    let (stop, stopping) = watch::channel(false);
    let listeners = parts.serve(doors, &stopping);
    notify("READY=1");
    let ended = tokio::select! {
        () = shutdown => Ok(()),
        error = docker.refused() => Err(RunError::Engine(error)),
        () = notify::tell(parts.problems.clone()) => Ok(()),
    };
    if ended.is_ok() {
        // First: pods that end for good need not be known, and the host may not wait.
        parts.keep_services();
        leave(&leaving_in, parts.shown.clone()).await;
    }
    stop.send_replace(true);
    end(listeners).await;
    ended
}

fn take_data_directory(path: &str) -> Result<(), RunError> {
    private::data_directory(path).map_err(|cause| RunError::DataDir { path: path.to_owned(), cause })?;
    if let Err(error) = runtime::docker::adopt_claims(path) {
        log::error!("note which directories of claims are there: {error}");
    }
    Ok(())
}

/// Waits for listeners that were told to stop.
async fn end(listeners: [JoinHandle<std::io::Result<()>>; 2]) {
    for listener in listeners {
        if let Ok(Err(error)) = listener.await {
            log::debug!("a listener's end: {error}");
        }
    }
}

fn say_start(config: &Config, port: &TcpListener) {
    log::info!(
        "coracle-agent {} runs node {}: manifests from {}, engine at {}, answers on {}, and how it is on \
         http://{}/healthz",
        env!("CARGO_PKG_VERSION"),
        config.node_name,
        config.manifest_dir,
        config.docker_host,
        config.socket.display(),
        port.local_addr().unwrap_or(config.listen)
    );
}

async fn leave(leaving: &watch::Sender<bool>, shown: watch::Receiver<Arc<Shown>>) {
    leaving::leave(leaving, shown).await;
    notify("STOPPING=1");
    log::info!("stops; containers and service rules stay as they are");
}

/// `only_looks`: nothing in the engine is changed.
pub(crate) fn engine(config: &Config, pod_cidr: PodCidr, only_looks: bool) -> Settings {
    Settings {
        host: config.docker_host.clone(),
        node_name: config.node_name.clone(),
        data_dir: config.data_dir.clone(),
        pod_cidr,
        pod_network: config.pod_network,
        run_dir: config.run_dir.clone(),
        only_looks,
        serial_pulls: config.serial_pulls,
    }
}

/// The port and the socket of the agent.
pub(crate) type Doors = (TcpListener, UnixDoor);

/// Both are taken before anything else is touched.
fn listen(config: &Config) -> Result<Doors, RunError> {
    let port = carrier::listen(config.listen)
        .map_err(|cause| RunError::Listen { address: config.listen.to_string(), cause })?;
    let socket = carrier::listen_unix(&config.socket, peers::admits());
    let at = || format!("{} (--socket-dir)", config.socket.display());
    Ok((port, socket.map_err(|cause| RunError::Listen { address: at(), cause })?))
}

pub(crate) fn node(config: &Config, host: &machine::Host) -> facts::world::Node {
    facts::world::Node {
        name: config.node_name.clone(),
        address: host.address.clone(),
        data_dir: config.data_dir.clone(),
        volatile_dir: naming::volatile_dir(&config.run_dir, &config.node_name),
        cpu_milli: host.cpus * 1000,
        memory_bytes: host.memory_bytes,
        spares_processes: host.spares_processes,
        disk_bytes: host.disk_bytes / 10 * 9,
        pause_image: pause::image(std::env::consts::ARCH).map(|image| image.id).unwrap_or_default(),
        app_armor: host.app_armor,
        unsafe_sysctls: config.unsafe_sysctls.clone(),
        drops_net_raw: !config.net_raw,
        devices: config.devices.clone(),
        pids_max: config.pids_max,
        huge_pages: host.huge_pages.clone(),
        up_ms: host.up_ms,
    }
}

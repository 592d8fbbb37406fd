//! The agent: the kubelet of a small host.
//!
//!     directory, master -> Desired --\                        /-> endpoints (a port: /healthz; a socket: pods, logs)
//!     engine events, probes ---------> the loop (`sync`) -> Shown -> probes
//!                                       plan, act             \-> report, events -> the master
//!     services and endpoints -> nft
//!
//! `run` is the only place where the parts meet. All of it lives on one thread; only log requests and the removal of large trees
//! use another.

pub mod act;
pub mod clock;
pub mod config;
pub mod container;
pub mod desired;
pub mod downward;
pub mod endpoints;
pub mod events;
pub mod giving;
pub mod happening;
pub mod hash;
pub mod host;
pub mod lanes;
pub mod lock;
pub mod members;
pub mod naming;
pub mod net;
pub mod node;
pub mod notify;
pub mod peers;
pub mod plan;
pub mod private;
pub mod probe;
pub mod report;
pub mod runtime;
pub mod services;
pub mod sieve;
pub mod status;
pub mod summary;
pub mod sync;
pub mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use coracle_http::client::Client;
use coracle_http::network::{self, Access, UnixDoor};
use coracle_http::{Limits, resident};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::spawn_local;
use tokio::time::timeout;

use clock::wall_ms;
use config::Config;
use desired::directory::Directory;
use desired::master::{self, Heard, Network, Outlets};
use desired::{Desired, SourceState, merge};
use happening::Happening;
use lock::LockError;
use naming::Source;
use runtime::docker::{Docker, Settings};
use runtime::pause;
use sync::{Ends, Shown};

/// Happenings that wait to become events while the master is slow.
const HAPPENINGS_MAX: usize = 256;

/// How long the start waits for the engine before everything else begins.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// The agent's port tells any program of this host whether the agent is well, and nothing else.
const PORT: Limits = Limits {
    connections_max: 64,
    connections_per_address_max: 48,
    requests_max: 32,
    requests_per_address_max: 24,
    handlers_max: 1,
    handlers_per_address_max: 1,
    writers_max: 1,
    writers_per_address_max: 1,
    streams_max: 1,
    ..Limits::EDGE
};

/// The socket: an address here is a user. A log that is followed has its connection as long as somebody reads it, however quiet it is; one
/// user has half of them, so the master's readers leave root its own.
const SOCKET: Limits = Limits {
    connections_max: 64,
    connections_per_address_max: 32,
    requests_max: 32,
    requests_per_address_max: 24,
    handlers_max: 3,
    handlers_per_address_max: 2,
    writers_max: 1,
    writers_per_address_max: 1,
    streams_max: 56,
    ..Limits::EDGE
};

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
    private::data_directory(&config.data_dir).map_err(|cause| RunError::DataDir { path: config.data_dir.clone(), cause })?;
    let (port, socket) = listen(&config)?;
    let host = host::look();
    let docker = Arc::new(Docker::new(Settings {
        host: config.docker_host.clone(),
        node_name: config.node_name.clone(),
        data_dir: config.data_dir.clone(),
        pod_cidr: config.pod_cidr.clone(),
        run_dir: config.run_dir.clone(),
    }));
    // An engine that another agent holds is a reason not to start at all; one that is absent is waited for later.
    if let Ok(Err(error)) = timeout(FIRST_LOOK, docker.first_contact()).await {
        return Err(RunError::Engine(error));
    }
    log::info!(
        "coracle-agent {} runs node {}: manifests from {}, engine at {}, answers on {}, and how it is on http://{}/healthz",
        env!("CARGO_PKG_VERSION"),
        config.node_name,
        config.manifest_dir,
        config.docker_host,
        config.socket.display(),
        port.local_addr().unwrap_or(config.listen)
    );
    let wake = Arc::new(Notify::new());
    let (shown_in, shown) = watch::channel(Arc::new(Shown::default()));
    let (happenings_in, happenings) = mpsc::channel(HAPPENINGS_MAX);
    let (verdicts_in, verdicts) = watch::channel(Arc::default());

    let (desired, heard) = spawn_sources(&config, &host, &docker, shown.clone(), (happenings_in.clone(), happenings));
    let ends = Ends {
        desired,
        verdicts,
        wake: wake.clone(),
        node: node(&config, &host),
        wall_ms: Rc::new(wall_ms),
        shown: shown_in,
        happenings: happenings_in.clone(),
    };
    let engine = docker.clone();
    spawn_local(async move { sync::run(&*engine, ends).await });
    let engine = docker.clone();
    spawn_local(async move { engine.watch(&wake).await });
    spawn_local(probe::run(docker.clone(), shown.clone(), heard, Arc::new(verdicts_in), happenings_in));
    let view = endpoints::View {
        shown: shown.clone(),
        docker: docker.clone(),
        runtime: tokio::runtime::Handle::current(),
        node_name: config.node_name.clone(),
        socket: config.socket.clone(),
    };
    let (stop, stopping) = watch::channel(false);
    let port = spawn_local(network::serve(port, endpoints::port(view.clone()), PORT, Access::LoopbackOnly, stopping.clone()));
    let socket = spawn_local(network::serve(socket, endpoints::socket(view), SOCKET, Access::LoopbackOnly, stopping));
    spawn_local(giving::run(shown.clone(), resident::give_back));
    let notify = notify::Notify::from_environment();
    notify.ready();
    let ended = tokio::select! {
        () = shutdown => Ok(()),
        error = docker.refused() => Err(RunError::Engine(error)),
        () = tell_systemd(notify, shown) => Ok(()),
    };
    notify::Notify::from_environment().stopping();
    if ended.is_ok() {
        log::info!("stops; containers and service rules stay as they are");
    }
    stop.send_replace(true);
    for served in [port, socket] {
        if let Ok(Err(error)) = served.await {
            log::debug!("a listener's end: {error}");
        }
    }
    ended
}

/// Both are taken before anything else is touched.
fn listen(config: &Config) -> Result<(TcpListener, UnixDoor), RunError> {
    let port = network::listen(config.listen).map_err(|cause| RunError::Listen { address: config.listen.to_string(), cause })?;
    let socket = network::listen_unix(&config.socket, peers::admits());
    let at = || format!("{} (--socket-dir)", config.socket.display());
    Ok((port, socket.map_err(|cause| RunError::Listen { address: at(), cause })?))
}

fn node(config: &Config, host: &host::Host) -> plan::Node {
    plan::Node {
        name: config.node_name.clone(),
        address: host.address.clone(),
        data_dir: config.data_dir.clone(),
        cpu_milli: host.cpus * 1000,
        memory_bytes: host.memory_bytes,
        pause_image: pause::image(std::env::consts::ARCH).map(|image| image.id).unwrap_or_default(),
    }
}

/// Everything that speaks of what should run: the directory, the master and what goes with it.
fn spawn_sources(
    config: &Config,
    host: &host::Host,
    docker: &Docker,
    shown: watch::Receiver<Arc<Shown>>,
    (happenings_in, happenings): (mpsc::Sender<Happening>, mpsc::Receiver<Happening>),
) -> (watch::Receiver<Arc<Desired>>, watch::Receiver<Arc<Heard>>) {
    let (files_in, files) = watch::channel(None);
    spawn_local(Directory::open(&config.manifest_dir, &config.data_dir, &config.node_name).follow(files_in));
    let (pods_in, pods) = watch::channel(None);
    let (network_in, network) = watch::channel(None);
    let (heard_in, heard) = watch::channel(Arc::new(Heard::default()));
    let (rules_in, rules) = watch::channel(None);
    spawn_local(net::run(rules, config.pod_cidr.clone(), shown.clone(), happenings_in.clone()));
    let (desired_in, desired) = watch::channel(Arc::new(Desired::default()));
    spawn_local(balance(network.clone(), rules_in, happenings_in));
    spawn_local(put_together(files, pods, network, desired_in));
    let Some(target) = config.master.clone() else {
        // Nobody takes events: the loop's queue must not fill up.
        drop(happenings);
        // The channels of a master that is not there stay open, and silent.
        spawn_local(async move {
            let _open = (pods_in, network_in, heard_in);
            std::future::pending::<()>().await;
        });
        return (desired, heard);
    };
    let client = Client::new(target, concat!("coracle-agent/", env!("CARGO_PKG_VERSION")));
    let about =
        node::About { name: config.node_name.clone(), host: host.clone(), pod_cidr: config.pod_cidr.clone(), engine: docker.version() };
    let outlets = Outlets { pods: pods_in, heard: heard_in, network: network_in };
    let (name, data_dir) = (config.node_name.clone(), config.data_dir.clone());
    let (follower, seen) = (client.clone(), shown.clone());
    spawn_local(async move { master::run(follower, &name, &data_dir, seen, outlets).await });
    spawn_local(report::run(client.clone(), about, shown.clone(), heard.clone()));
    let name = config.node_name.clone();
    spawn_local(async move { events::run(client, &name, happenings, shown).await });
    (desired, heard)
}

/// The sources as they speak -> `Desired`.
async fn put_together(
    mut files: watch::Receiver<Option<SourceState>>,
    mut pods: watch::Receiver<Option<SourceState>>,
    mut network: watch::Receiver<Network>,
    desired: watch::Sender<Arc<Desired>>,
) {
    let mut said = BTreeSet::new();
    loop {
        let sources: BTreeMap<Source, SourceState> = [(Source::File, &mut files), (Source::Master, &mut pods)]
            .into_iter()
            .filter_map(|(source, states)| Some((source, states.borrow_and_update().clone()?)))
            .collect();
        let (mut merged, dropped) = merge(&sources);
        if let Some((services, _)) = &*network.borrow_and_update() {
            merged.services.clone_from(services);
        }
        let dropped: BTreeSet<String> = dropped.into_iter().collect();
        for text in dropped.difference(&said) {
            log::warn!("{text}");
        }
        said = dropped;
        desired.send_if_modified(|was| {
            let differs = **was != merged;
            if differs {
                *was = Arc::new(merged);
            }
            differs
        });
        let alive = tokio::select! {
            changed = files.changed() => changed.is_ok(),
            changed = pods.changed() => changed.is_ok(),
            changed = network.changed() => changed.is_ok(),
        };
        if !alive {
            return;
        }
    }
}

/// Services and their endpoints -> the rules that nft should hold. A service that does not get all it asks for is told
/// once.
async fn balance(
    mut network: watch::Receiver<Network>,
    rules: watch::Sender<Option<services::Rules>>,
    happenings: mpsc::Sender<Happening>,
) {
    let mut said = BTreeSet::new();
    loop {
        if let Some((services, endpoints)) = &*network.borrow_and_update() {
            let wanted = services::rules(services, endpoints);
            for refused in wanted.refused.iter().filter(|refused| !said.contains(*refused)) {
                log::warn!("{refused}");
                // A queue that is full loses events, never more.
                let _ = happenings.try_send(Happening::unsupported(refused));
            }
            said = wanted.refused.iter().cloned().collect();
            rules.send_if_modified(|was| {
                let differs = was.as_ref() != Some(&wanted);
                if differs {
                    *was = Some(wanted);
                }
                differs
            });
        }
        if network.changed().await.is_err() {
            return;
        }
    }
}

/// Ends with the loop.
async fn tell_systemd(mut notify: notify::Notify, mut shown: watch::Receiver<Arc<Shown>>) {
    loop {
        let line = summary::line(&shown.borrow_and_update());
        notify.status(&line);
        if shown.changed().await.is_err() {
            return;
        }
    }
}

//! The agent: the kubelet of a small host.
//!
//!     directory, master -> Desired --\                        /-> endpoints (a port: /healthz; a socket: pods, logs)
//!     engine events, probes ---------> the loop (`sync`) -> Shown -> probes
//!                                       plan, act             \-> report, events -> the master
//!     services and endpoints -> nft
//!
//! `run` is the only place where the parts meet. All parts run on one thread; request handlers, blocking file work and
//! work inside network namespaces use further threads.

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
pub mod plan;
pub mod pressure;
pub mod reclaim;
pub mod running;
pub mod runtime;
pub mod spec;
pub mod status;
pub mod streams;
pub mod telling;
pub mod usage;

use std::collections::BTreeMap;
use std::fmt;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use coracle_api::strategy::Cidr;
use coracle_http::client::Client;
use coracle_http::network::{self as carrier, Port, UnixDoor};
use coracle_program::notify::notify;
use coracle_program::resident;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::timeout;

use config::Config;
use desired::directory::Directory;
use desired::ended::{self, EndedPods};
use desired::known::Known;
use desired::master::{self, Outlets};
use desired::unkept::Unkept;
use desired::{page, together};
use facts::clock::wall_ms;
use facts::desired::Desired;
use facts::happening::Happening;
use facts::heard::{ClusterServices, MasterPods};
use facts::naming;
use facts::resolv::ClusterNames;
use facts::shown::Shown;
use host::lock::LockError;
use host::{machine, peers, private};
use network::dns::serve::ServedZone;
use network::dns::zone::Zone;
use network::pod_network;
use network::{address, balance, dns, health_ports, heed, net, services};
use running::sync::{self, SyncChannels};
use running::{giving, leaving, probe};
use runtime::docker::{Docker, Settings};
use runtime::pause;
use telling::{events, notify, report};

/// Happenings that wait to become events while the master is slow.
const HAPPENINGS_MAX: usize = 256;

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
    let (port, socket) = listen(&config)?;
    let host = machine::look(&config.data_dir, config.node_ip, &config.pod_cidr);
    let docker = Arc::new(Docker::new(engine(&config)));
    // The agent does not start if another agent holds the engine; an absent engine is waited for later.
    if let Ok(Err(error)) = timeout(FIRST_LOOK, docker.first_contact()).await {
        return Err(RunError::Engine(error));
    }
    say_start(&config, &port);
    let wake = Arc::new(Notify::new());
    let (shown_in, shown) = watch::channel(Arc::new(Shown::default()));
    let (happenings_in, happenings) = mpsc::channel(HAPPENINGS_MAX);
    let (verdicts_in, verdicts) = watch::channel(Arc::default());
    let (leaving_in, leaving) = watch::channel(false);
    let (strain_in, strain) = watch::channel(Arc::default());
    let (address_in, address) = watch::channel(host.address.clone());
    // One that was given stays.
    if config.node_ip.is_none() {
        spawn_local(address::follow(address_in));
    }
    let (queue, unkept) = ((happenings_in.clone(), happenings), Unkept::default());
    let (desired, heard, network) =
        spawn_sources(&config, (&host, address.clone()), &docker, (shown.clone(), &unkept), queue);
    let ends = SyncChannels {
        desired,
        verdicts,
        strain,
        leaving,
        wake: wake.clone(),
        node: node(&config, &host),
        address,
        wall_ms: Rc::new(wall_ms),
        shown: shown_in,
        happenings: happenings_in.clone(),
    };
    let engine = docker.clone();
    spawn_local(async move { Box::pin(sync::run(&*engine, ends)).await });
    if let Some(pods) = Cidr::parse(&config.pod_cidr) {
        spawn_local(pod_network::keep::run(pods, shown.clone(), docker.clone(), wake.clone()));
    }
    let engine = docker.clone();
    spawn_local(async move { engine.watch(&wake).await });
    spawn_local(pressure::run(docker.clone(), pressure::EvictionSettings::of(&config), shown.clone(), strain_in));
    let view = endpoints::View::new(shown.clone(), docker.clone(), &config, host.clone(), unkept.clone());
    let listeners = probe::Listeners { happenings: happenings_in, tallies: view.tallies.clone() };
    spawn_local(probe::run(docker.clone(), shown.clone(), heard, Arc::new(verdicts_in), listeners));
    let (stop, stopping) = watch::channel(false);
    let port = spawn_local(carrier::serve(
        port,
        endpoints::port(view.clone()),
        Port::of_this_host(endpoints::PORT),
        stopping.clone(),
    ));
    let socket =
        spawn_local(carrier::serve(socket, endpoints::socket(view), Port::of_this_host(endpoints::SOCKET), stopping));
    spawn_local(images::run(docker.clone(), config.images.clone(), shown.clone()));
    spawn_local(giving::run(shown.clone(), network.clone(), resident::give_back));
    notify("READY=1");
    let ended = tokio::select! {
        () = shutdown => Ok(()),
        error = docker.refused() => Err(RunError::Engine(error)),
        () = notify::tell(shown.clone()) => Ok(()),
    };
    if ended.is_ok() {
        // First: pods that end for good need not be known, and the host may not wait.
        Known::new(&config.data_dir, unkept).keep_last(network.borrow().as_deref());
        leave(&leaving_in, shown).await;
    }
    stop.send_replace(true);
    end([port, socket]).await;
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

fn engine(config: &Config) -> Settings {
    Settings {
        host: config.docker_host.clone(),
        node_name: config.node_name.clone(),
        data_dir: config.data_dir.clone(),
        pod_cidr: config.pod_cidr.clone(),
        pod_network: config.pod_network,
        run_dir: config.run_dir.clone(),
        only_looks: false,
        serial_pulls: config.serial_pulls,
    }
}

/// Both are taken before anything else is touched.
fn listen(config: &Config) -> Result<(TcpListener, UnixDoor), RunError> {
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

/// The desired pods, the master's pods of this node, and the master's services.
type Followed =
    (watch::Receiver<Arc<Desired>>, watch::Receiver<Arc<MasterPods>>, watch::Receiver<Option<Arc<ClusterServices>>>);

/// Starts the sources of desired pods: the manifest directory, the manifest page, and the master with its objects.
fn spawn_sources(
    config: &Config,
    (host, address): (&machine::Host, watch::Receiver<String>),
    docker: &Arc<Docker>,
    (shown, unkept): (watch::Receiver<Arc<Shown>>, &Unkept),
    (happenings_in, happenings): (mpsc::Sender<Happening>, mpsc::Receiver<Happening>),
) -> Followed {
    let (files_in, files) = watch::channel(None);
    let (fetched_in, fetched) = watch::channel(());
    let directory = Directory::open(&config.manifest_dir, &config.data_dir, &config.node_name);
    spawn_local(directory.with_page(&config.data_dir, config.manifest_url.is_some()).follow(files_in, fetched));
    if let Some(page) = config.manifest_url.clone() {
        let data_dir = config.data_dir.clone();
        spawn_local(async move { page::follow(page, &data_dir, fetched_in).await });
    }
    let (pods_in, pods) = watch::channel(None);
    let known = Known::new(&config.data_dir, unkept.clone());
    let (network_in, network) = watch::channel(config.master.as_ref().and_then(|_| known.read()).map(Arc::new));
    spawn_local(known.follow(network.clone()));
    let (objects_in, objects) = watch::channel(Arc::default());
    let (heard_in, heard) = watch::channel(Arc::new(MasterPods::default()));
    let (node_in, node) = watch::channel(None);
    let (desired_in, desired) = watch::channel(Arc::new(Desired::default()));
    let dns = spawn_servers(config, (&network, &shown, &address), &happenings_in);
    let last = network.clone();
    let (ended_in, ended) = watch::channel(Arc::new(EndedPods::read(&config.data_dir, &config.node_name)));
    spawn_local(ended::follow(config.data_dir.clone(), shown.clone(), unkept.clone(), ended_in));
    spawn_local(together::follow((files, ended), pods, network, objects, node, dns, desired_in));
    let Some(target) = config.master.clone() else {
        // Nobody takes events: the loop's queue must not fill up.
        drop(happenings);
        // Without a master the channels stay open and silent.
        spawn_local(async move {
            let _open = (pods_in, network_in, node_in, heard_in, objects_in);
            std::future::pending::<()>().await;
        });
        return (desired, heard, last);
    };
    let client = Client::new(target, concat!("coracle-agent/", env!("CARGO_PKG_VERSION")));
    let about = telling::node::NodeFacts {
        name: config.node_name.clone(),
        host: host.clone(),
        pod_cidr: config.pod_cidr.clone(),
        devices: config.devices.clone(),
        engine: docker.version(),
        address,
    };
    let (given_up_in, given_up) = watch::channel(BTreeMap::new());
    spawn_local(reclaim::run(docker.clone(), client.clone(), given_up, node_in.subscribe()));
    let outlets = Outlets {
        objects: objects_in,
        pods: pods_in,
        heard: heard_in,
        network: network_in,
        node: node_in,
        given_up: given_up_in,
        unkept: unkept.clone(),
    };
    let (name, data_dir, secrets_on_disk) = (config.node_name.clone(), config.data_dir.clone(), config.secrets_on_disk);
    let (follower, seen, machine_id) = (client.clone(), shown.clone(), host.machine_id.clone());
    spawn_local(async move {
        let about =
            master::FollowFacts { node_name: &name, machine_id: &machine_id, data_dir: &data_dir, secrets_on_disk };
        master::run(follower, about, seen, outlets).await;
    });
    spawn_local(report::run(client.clone(), about, shown.clone(), heard.clone()));
    let name = config.node_name.clone();
    spawn_local(async move { events::run(client, &name, happenings, shown).await });
    (desired, heard, last)
}

/// Services, what runs here, and this host's address.
type ServedBy<'a> =
    (&'a watch::Receiver<Option<Arc<ClusterServices>>>, &'a watch::Receiver<Arc<Shown>>, &'a watch::Receiver<String>);

/// Whatever serves services on this host; how names are to be looked up.
fn spawn_servers(
    config: &Config,
    (network, shown, address): ServedBy<'_>,
    happenings: &mpsc::Sender<Happening>,
) -> ClusterNames {
    let (rules_in, rules) = watch::channel(None);
    spawn_local(net::run(rules, shown.clone(), happenings.clone()));
    let dns = ClusterNames::new(config.cluster_domain.clone(), config.cluster_dns, config.master.is_some());
    let served = dns.of_cluster(&[]).map(|dns| dns.address);
    let zone = Arc::new(Zone::new(&dns.domain, &[]));
    let (names_in, names) = watch::channel(Arc::new(ServedZone { zone, address: served }));
    spawn_local(dns::serve::run(names, config.pod_cidr.clone(), (config.node_name.clone(), happenings.clone())));
    let (ports_in, ports) = watch::channel(Arc::default());
    spawn_local(health_ports::run(ports, happenings.clone()));
    spawn_local(heed::run(network.clone(), config.node_name.clone(), happenings.clone()));
    let here = services::RuleHost {
        node: config.node_name.clone(),
        pod_cidr: config.pod_cidr.clone(),
        bridges_are_seen: net::bridges_are_seen(),
        outer: services::outer::Outer { allowed: config.external_ips.clone(), ..Default::default() },
        ..Default::default()
    };
    let servers = balance::Servers { rules: rules_in, names: names_in, ports: ports_in };
    let facts = (dns.clone(), here, address.clone());
    spawn_local(balance::run(network.clone(), shown.clone(), facts, servers, happenings.clone()));
    dns
}

//! The parts of a running agent, and the channels between them.
//!
//!     files, master -> sources -> Desired -> the loop -> Shown -> everything that looks at this node
//!     master -> ClusterView -> sources, networks, files on disk
//!
//! All parts run on one thread, and end with it; request handlers, blocking file work and work inside network
//! namespaces use further threads.

use std::rc::Rc;
use std::sync::Arc;

use coracle_http::client::Client;
use coracle_http::network::{self as carrier, Port};
use coracle_program::resident;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinHandle, spawn_local};

use crate::config::Config;
use crate::desired::directory::Directory;
use crate::desired::ended::{self, EndedPods};
use crate::desired::file_services::address_file::AddressFile;
use crate::desired::heard;
use crate::desired::known::Known;
use crate::desired::master::FollowFacts;
use crate::desired::page;
use crate::desired::refusals::Refusals;
use crate::desired::restarts::RestartList;
use crate::desired::together::{self, NameSettings};
use crate::desired::unkept::Unkept;
use crate::facts::clock::wall_ms;
use crate::facts::desired::Desired;
use crate::facts::happening::Happening;
use crate::facts::pod_cidr::PodCidr;
use crate::facts::resolv::ClusterNames;
use crate::facts::shown::Shown;
use crate::facts::update::Updates;
use crate::facts::view::{ClusterView, ViewWriter};
use crate::host::machine::{self, Host};
use crate::network::dns::serve::ServedZone;
use crate::network::dns::zone::Zone;
use crate::network::served::{self, ServiceSources};
use crate::network::services::{RuleHost, outer};
use crate::network::{address, balance, dns, health_ports, heed, net, pod_network};
use crate::plan::restart;
use crate::running::sync::{self, SyncChannels};
use crate::running::{giving, last_lines, probe};
use crate::runtime::docker::Docker;
use crate::telling::sources::ProblemSources;
use crate::telling::{events, node, report};
use crate::updates::board::{Board, Wish};
use crate::{endpoints, images, pressure, reclaim, updates};

/// Happenings that wait to become events while the master is slow.
const HAPPENINGS_MAX: usize = 256;

/// The values that the parts share.
pub struct Parts {
    config: Config,
    host: Host,
    docker: Arc<Docker>,
    pub shown: watch::Receiver<Arc<Shown>>,
    view: ViewWriter,
    /// Where this host is known.
    address: watch::Receiver<String>,
    pods: PodCidr,
    happenings: mpsc::Sender<Happening>,
    unkept: Unkept,
    refusals: Refusals,
    /// What is wrong with this node, for whoever tells it.
    pub problems: ProblemSources,
    endpoints: endpoints::View,
}

impl Parts {
    /// Starts all parts but the listeners. `leaving`: the host is about to stop.
    pub fn start(config: Config, docker: Arc<Docker>, pods: PodCidr, leaving: watch::Receiver<bool>) -> Parts {
        let host = machine::look(&config.data_dir, config.node_ip, *pods.borrow());
        let (shown_in, shown) = watch::channel(Arc::new(Shown::default()));
        let (happenings_in, happenings) = mpsc::channel(HAPPENINGS_MAX);
        let (address_in, address) = watch::channel(host.address.clone());
        // An address that was given stays.
        if config.node_ip.is_none() {
            spawn_local(address::follow(address_in));
        }
        let (unkept, refusals) = (Unkept::default(), Refusals::default());
        let known = Known::new(&config.data_dir, unkept.clone());
        let services = config.master.as_ref().and_then(|_| known.read()).map(Arc::new);
        let view = ViewWriter::new(ClusterView { services, ..ClusterView::default() });
        spawn_local(known.follow(view.part(|view| &view.services)));
        let place = (host.clone(), pods.clone());
        let (lines_in, last_lines) = watch::channel(Arc::default());
        spawn_local(last_lines::run(docker.clone(), shown.clone(), lines_in));
        let (board, asked) = Board::new();
        let restarts = RestartList::new(&config.data_dir, unkept.clone());
        let problems = ProblemSources {
            node_name: config.node_name.clone(),
            shown: shown.clone(),
            engine: docker.troubles(),
            last_lines,
            unkept: unkept.clone(),
            refusals: refusals.clone(),
            board: board.clone(),
        };
        let endpoints = endpoints::View::new(docker.clone(), &config, place, problems.clone(), restarts);
        let parts = Parts {
            config,
            host,
            docker,
            shown,
            view,
            address,
            pods,
            happenings: happenings_in,
            unkept,
            refusals,
            problems,
            endpoints,
        };
        let (desired_in, desired) = watch::channel(Arc::new(Desired::default()));
        let names = parts.start_networks(&desired);
        let updates = parts.start_sources(names, desired_in);
        parts.start_updates(updates, (board, asked));
        parts.start_talk_with_master(happenings);
        parts.start_loop(desired, shown_in, leaving);
        parts
    }

    /// Whatever serves services on this host. Returns how names are to be looked up.
    fn start_networks(&self, desired: &watch::Receiver<Arc<Desired>>) -> ClusterNames {
        let Parts { config, shown, view, happenings, .. } = self;
        let (rules_in, rules) = watch::channel(None);
        spawn_local(net::run(rules, shown.clone(), happenings.clone()));
        let names = ClusterNames::new(config.cluster_domain.clone(), config.cluster_dns, config.master.is_some());
        let address = names.of_cluster(&[], None).map(|dns| dns.address);
        let zone = Arc::new(Zone::new(&names.domain(&[]), &[]));
        let (former_names, former) = watch::channel(Arc::new(ServedZone { zone: zone.clone(), address: None }));
        let (names_in, zone) = watch::channel(Arc::new(ServedZone { zone, address }));
        let teller = (config.node_name.clone(), happenings.clone());
        spawn_local(dns::serve::run(former, self.pods.clone(), teller.clone()));
        spawn_local(dns::serve::run(zone, self.pods.clone(), teller));
        let (ports_in, ports) = watch::channel(Arc::default());
        spawn_local(health_ports::run(ports, happenings.clone()));
        let sources = ServiceSources {
            network: view.part(|view| &view.services),
            desired: desired.clone(),
            shown: shown.clone(),
            address: self.address.clone(),
            names: names.clone(),
            node: config.node_name.clone(),
            has_master: config.master.is_some(),
        };
        let (served_in, served) = watch::channel(None);
        spawn_local(served::run(sources, served_in));
        spawn_local(heed::run(served.clone(), config.node_name.clone(), happenings.clone()));
        let here = RuleHost {
            node: config.node_name.clone(),
            bridges_are_seen: net::bridges_are_seen(),
            outer: outer::Outer { allowed: config.external_ips.clone(), ..Default::default() },
            ..Default::default()
        };
        let servers = balance::Servers { rules: rules_in, names: names_in, former_names, ports: ports_in };
        let (address, pods) = (self.address.clone(), self.pods.clone());
        let host = balance::BalancedHost { names: names.clone(), here, address, pods };
        spawn_local(balance::run(served, host, servers, happenings.clone()));
        names
    }

    /// The manifest directory, the manifest page, and the master's part of the view.
    fn start_sources(&self, names: ClusterNames, desired: watch::Sender<Arc<Desired>>) -> watch::Sender<Arc<Updates>> {
        let Parts { config, shown, view, unkept, .. } = self;
        let (files_in, files) = watch::channel(None);
        let (fetched_in, fetched) = watch::channel(());
        let directory = Directory::open(&config.manifest_dir, &config.data_dir, &config.node_name)
            .allowing_unknown(config.allow_unknown_fields)
            .with_page(&config.data_dir, config.manifest_url.is_some());
        spawn_local(directory.follow(files_in, fetched, self.happenings.clone()));
        if let Some(page) = config.manifest_url.clone() {
            let data_dir = config.data_dir.clone();
            spawn_local(async move { page::follow(page, &data_dir, fetched_in).await });
        }
        let (ended_in, ended) = watch::channel(Arc::new(EndedPods::read(&config.data_dir, &config.node_name)));
        spawn_local(ended::follow(config.data_dir.clone(), shown.clone(), unkept.clone(), ended_in));
        let settings = NameSettings { names, range: config.file_service_cidr.clone() };
        let kept = AddressFile::new(&config.data_dir, unkept.clone());
        let (updates_in, updates) = watch::channel(Arc::new(updates::kept(&config.data_dir)));
        spawn_local(together::follow(files, ended, updates, view.clone(), (settings, kept), desired));
        updates_in
    }

    /// Updates of images, by command and by schedule.
    fn start_updates(&self, updates: watch::Sender<Arc<Updates>>, (board, asked): (Board, mpsc::Receiver<Wish>)) {
        let (docker, shown, data_dir) = (self.docker.clone(), self.shown.clone(), self.config.data_dir.clone());
        let happenings = self.happenings.clone();
        spawn_local(updates::run(updates::Ends { docker, shown, updates, happenings, data_dir, board, asked }));
    }

    /// Hears the master, and tells it about this node.
    fn start_talk_with_master(&self, happenings: mpsc::Receiver<Happening>) {
        let Parts { config, host, docker, shown, view, unkept, refusals, .. } = self;
        // Without a master nobody takes events: dropped, the loop's queue does not fill up.
        let Some(target) = config.master.clone() else { return };
        let client = Client::new(target, concat!("coracle-agent/", env!("CARGO_PKG_VERSION")));
        let client = client.speaking_for(&config.node_name);
        let about = FollowFacts {
            node_name: config.node_name.clone(),
            machine_id: host.machine_id.clone(),
            data_dir: config.data_dir.clone(),
            secrets_on_disk: config.secrets_on_disk,
        };
        let (given_up, node) = (view.part(|view| &view.given_up), view.part(|view| &view.node));
        spawn_local(reclaim::run(docker.clone(), client.clone(), given_up, node));
        spawn_local(heard::run(client.clone(), about, shown.clone(), view.clone(), (unkept.clone(), refusals.clone())));
        let about = node::NodeFacts {
            name: config.node_name.clone(),
            host: host.clone(),
            pod_cidr: self.pods.clone(),
            devices: config.devices.clone(),
            engine: docker.version(),
            address: self.address.clone(),
        };
        let heard = view.part(|view| &view.pods);
        spawn_local(report::run((client.clone(), refusals.clone()), about, shown.clone(), heard));
        let (name, shown, refusals) = (config.node_name.clone(), shown.clone(), refusals.clone());
        spawn_local(async move { events::run((client, refusals), &name, happenings, shown).await });
    }

    /// The loop, and the parts that wake the loop.
    fn start_loop(
        &self,
        desired: watch::Receiver<Arc<Desired>>,
        shown_in: watch::Sender<Arc<Shown>>,
        leaving: watch::Receiver<bool>,
    ) {
        let Parts { config, docker, shown, view, .. } = self;
        let wake = Arc::new(Notify::new());
        let (verdicts_in, verdicts) = watch::channel(Arc::default());
        let (strain_in, strain) = watch::channel(Arc::default());
        let restarts = self.endpoints.restarts.clone();
        let ends = SyncChannels {
            desired,
            verdicts,
            strain,
            restarts: restarts.subscribe(),
            leaving,
            wake: wake.clone(),
            node: crate::node(config, &self.host),
            address: self.address.clone(),
            wall_ms: Rc::new(wall_ms),
            shown: shown_in,
            happenings: self.happenings.clone(),
        };
        spawn_local(self.endpoints.restarts.clone().follow(shown.clone(), restart::is_done));
        let engine = docker.clone();
        spawn_local(async move { Box::pin(sync::run(&*engine, ends)).await });
        spawn_local(pod_network::keep::run(self.pods.clone(), shown.clone(), docker.clone(), wake.clone()));
        let (engine, of_images) = (docker.clone(), wake.clone());
        spawn_local(async move { engine.watch(&wake).await });
        let evictions = pressure::EvictionSettings::of(config);
        spawn_local(pressure::run(docker.clone(), evictions, shown.clone(), strain_in));
        let tallies = self.endpoints.tallies.clone();
        let listeners = probe::Listeners { happenings: self.happenings.clone(), tallies };
        let heard = view.part(|view| &view.pods);
        spawn_local(probe::run(docker.clone(), shown.clone(), heard, Arc::new(verdicts_in), listeners));
        spawn_local(images::run(docker.clone(), config.images.clone(), shown.clone(), of_images));
        spawn_local(giving::run(shown.clone(), view.part(|view| &view.services), resident::give_back));
    }

    /// Serves the agent's port and socket until `stopping`.
    pub fn serve(
        &self,
        (port, socket): crate::Doors,
        stopping: &watch::Receiver<bool>,
    ) -> [JoinHandle<std::io::Result<()>>; 2] {
        let (of_port, of_socket) = (endpoints::port(self.endpoints.clone()), endpoints::socket(self.endpoints.clone()));
        [
            spawn_local(carrier::serve(port, of_port, Port::of_this_host(endpoints::PORT), stopping.clone())),
            spawn_local(carrier::serve(socket, of_socket, Port::of_this_host(endpoints::SOCKET), stopping.clone())),
        ]
    }

    /// At a stop: what was heard of services since the file was written last.
    pub fn keep_services(&self) {
        let known = Known::new(&self.config.data_dir, self.unkept.clone());
        known.keep_last(self.view.now().services.as_deref());
    }
}

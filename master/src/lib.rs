//! The master: API server, scheduler and controllers over one store of JSON files.
//!
//!     carriers (network, local) -> serve -> commit (prepare, admit) -> store -> watchers, control
//!
//! `start` is the only place where the parts meet.

pub mod admit;
mod adoption;
pub mod agents;
pub mod applied;
pub mod audit;
pub mod authenticate;
pub mod authorize;
pub mod call;
pub mod cluster_keys;
pub mod command;
pub mod commit;
pub mod config;
pub mod control;
pub mod credentials;
mod desk;
mod doors;
pub mod encryption;
pub mod fault;
pub mod figures;
pub mod flow;
pub mod form;
mod gauges;
mod in_progress;
mod key_rules;
pub mod making;
pub mod memory;
mod neighbours;
mod own_peers;
pub mod owner;
pub mod page;
pub mod prepare;
pub mod problems;
pub mod query;
pub mod render;
pub mod secure_port;
pub mod serve;
pub mod state;
mod status_line;
pub mod store;
mod store_rules;
pub mod through;
pub mod upkeep;
pub mod usage;

use crate::admit::AdmissionOptions;
use crate::adoption::Adoption;
use crate::agents::Agents;
use crate::applied::{Applied, Prepared};
use crate::audit::Audit;
use crate::authenticate::Authenticator;
use crate::authenticate::outside::Outside;
use crate::authorize::{Authorizer, Chain, Masters, NodeAuthorizer, Rbac};
use crate::cluster_keys::{ClusterKeys, KeyOptions};
use crate::commit::Registry;
use crate::config::Config;
use crate::control::{Control, Gate, Own, Wakes};
use crate::desk::{Desk, DeskParts};
use crate::doors::{DoorParts, Doors};
use crate::key_rules::{end_departed, follow_keys, may_request};
pub use crate::key_rules::{keys_of, server_names};
use crate::making::Maker;
use crate::secure_port::SecureState;
use crate::serve::Serve;
use crate::status_line::StatusLine;
use crate::store::{FlatStore, SharedKeys, Store};
use crate::upkeep::Upkeep;
use coracle_api::kinds::{Kind, KindConflict, Kinds};
use coracle_api::meta::Resource;
use coracle_api::strategy::namespace::SYSTEM;
use coracle_http::Request;
use coracle_program::notify::notify;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A master that serves.
pub struct Master {
    store: FlatStore,
    registry: Arc<Registry>,
    control: Control,
    /// None: there is no `apply-dir`.
    applied: Option<Applied>,
    doors: Doors,
    keys: Option<Arc<ClusterKeys>>,
    audit: Arc<Audit>,
    /// None: no thread for it could be started.
    line: Option<StatusLine>,
}

/// Serves until `shutdown` returns.
pub fn run(config: &Config, shutdown: impl FnOnce()) -> ExitCode {
    let begun = Instant::now();
    let master = match start(config) {
        Ok(master) => master,
        Err(why) => {
            log::error!("{why}");
            return ExitCode::FAILURE;
        }
    };
    log::info!("ready after {} ms", begun.elapsed().as_millis());
    // The line of the state follows from the thread of `status_line`.
    notify("READY=1");
    shutdown();
    notify("STOPPING=1\nSTATUS=stopping");
    master.stop();
    ExitCode::SUCCESS
}

/// The store, and who writes to it.
struct Core {
    store: FlatStore,
    registry: Arc<Registry>,
    adoption: Arc<Adoption>,
    sealing: SharedKeys,
    /// None: the keys cannot be used.
    keys: Option<Arc<ClusterKeys>>,
    /// Why they cannot be used.
    keyless: String,
}

/// Everything that can fail is tried in an order that leaves nothing behind; the error is one line.
pub fn start(config: &Config) -> Result<Master, String> {
    // Before a directory is touched: a second master by mistake makes no second store.
    let listener = doors::take_places(config)?;
    let Core { store, registry, adoption, sealing, keys, keyless } = core(config)?;
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    // What keeps a store from being written to is said already.
    let is_writable = store.frozen().is_none();
    if is_writable {
        before_the_first(&registry, &adoption, keys.as_deref(), &*shared);
    }
    neighbours::tell_of_overlaps(config.service_cidr);
    let agents = Agents::of_this_host(config.agent_sockets.clone());
    let theirs = adoption.clone();
    let gate = gate(config, registry.clone(), agents.clone())
        .signing(keys.clone(), Some(may_request(registry.authorizer())))
        .leaving_out(Arc::new(move || theirs.unadopted_roles()));
    let outside = outside(config, keys.clone())?;
    let authenticator = Arc::new(Authenticator::new(shared.clone(), keys.clone()).with_outside(outside));
    tell_files(&gate, shared.health());
    let (wakes, inbox) = control::wakes();
    follow(&wakes, (&registry, &adoption, &authenticator), keys.as_ref());
    let prepared = prepare_apply(config, &registry, is_writable)?;
    let names = config.clone();
    let state = Arc::<SecureState>::default();
    let parts = DeskParts::of(&adoption, &authenticator, &state, keys.clone().ok_or(keyless));
    let desk = Arc::new(Desk::new(shared.clone(), &config.data_dir, parts));
    let told = prepared.as_ref().map(|prepared| prepared.told.clone());
    if let Some(told) = told.clone() {
        desk.hear(Box::new(move || told.problems()));
    }
    let upkeep = Upkeep::new(store.clone(), (adoption.clone(), desk.clone()), &config.data_dir)
        .holding(keys.clone(), Box::new(move || server_names(&names)))
        .sealing(config.encryption_key.clone(), sealing)
        .applying(told.clone());
    let audit = Audit::start(config.audit.clone());
    let audit = Arc::new(audit.map_err(|error| format!("start the thread of the audit log: {error}"))?);
    let hearing = wakes.clone();
    let serve = Serve::new(registry.clone(), keys.clone())
        .asked_by(authenticator.clone())
        .asking(agents.clone())
        .kept_by(upkeep)
        .telling(desk.clone())
        .secured_by(state.clone())
        .recorded_by(audit.clone())
        .heard_by(Box::new(move |key| hearing.hear(key)))
        .giving_back_what_a_start_took();
    let (theirs, serve) = (keys.clone(), Arc::new(serve));
    let (serving, gives_back) = (serve.clone(), status_line::giving_back(&serve));
    let doors = Doors::open(DoorParts { config, plain: listener, serve, authenticator, keys: theirs, agents, state })?;
    if is_writable && !adoption.is_first {
        furnish(&registry, &adoption);
    }
    // Last: they keep a processor busy for a while, and nobody who asks waits for them.
    let control = Control::start(shared.clone(), gate, (wakes, inbox));
    let control = control.map_err(|error| format!("start the controllers: {error}"));
    let begun = control.and_then(|control| Ok((control, apply(config, &registry, serving, prepared)?)));
    let (control, applied) = match begun {
        Ok(begun) => begun,
        Err(why) => {
            doors.stop();
            return Err(why);
        }
    };
    log::info!(
        "serving on {}{}",
        config.admin_socket.display(),
        doors.plain_address().map(|address| format!(" and http://{address}")).unwrap_or_default()
    );
    let line = StatusLine::start(&*shared, desk, vec![gives_back]);
    if let (Some(told), Some(line)) = (told, &line) {
        told.ring(line.bell());
    }
    Ok(Master { store, registry, control, applied, doors, keys, audit, line })
}

/// Events about the files of objects that are damaged or edited.
fn tell_files(gate: &Gate, health: store::Health) {
    gate.tell_files("DamagedFile", &health.damaged, control::now(Instant::now()));
    gate.tell_files("EditedFile", &health.edits, control::now(Instant::now()));
}

/// What is told of `apply-dir`, where there is one and the store takes writes.
fn prepare_apply(config: &Config, registry: &Registry, is_writable: bool) -> Result<Option<Prepared>, String> {
    let prepared = (config.apply_dir.is_some() && is_writable).then(|| applied::prepare(registry)).transpose();
    prepared.map_err(|error| format!("apply-dir: {error}"))
}

/// Starts the thread of `apply-dir`. The thread reads the directory: no client waits for that.
fn apply(
    config: &Config,
    registry: &Arc<Registry>,
    serve: Arc<Serve>,
    prepared: Option<Prepared>,
) -> Result<Option<Applied>, String> {
    let Some((prepared, directory)) = prepared.zip(config.apply_dir.as_deref()) else { return Ok(None) };
    let serving = Box::new(move |request: &Request| serve.answer(request));
    let started = Applied::start(directory, registry.clone(), serving, prepared);
    started.map(Some).map_err(|error| format!("start the thread of apply-dir: {error}"))
}

/// Opens the store, and what decides about its objects.
fn core(config: &Config) -> Result<Core, String> {
    let kinds = Arc::new(Kinds::builtin());
    let sealing = SharedKeys::new(encryption::load(config.encryption_key.as_deref()));
    // A file that cannot be used is said by `load`.
    if let Some(why) = sealing.get().trouble().filter(|_| sealing.get().why_lost().is_none()) {
        log::warn!("encryption-key: {why}");
    }
    let store = store_rules::open(config, &kinds, &sealing)?;
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let maker = Arc::new(
        Maker::new(shared.clone(), config.service_cidr, config.node_ports)
            .map_err(|error| format!("/dev/urandom: {error}"))?,
    );
    let rbac = Arc::new(Rbac::new(shared.clone()));
    let adoption = Arc::new(Adoption::open(shared.clone(), rbac.clone(), &config.data_dir));
    let options = AdmissionOptions { deny_service_external_ips: config.deny_service_external_ips };
    let registry =
        Registry::new(kinds, shared.clone(), maker).authorized_by(authorizer(&shared, rbac)).admitting(options);
    // What is damaged or has no room is no reason to serve nothing: tokens are refused, and the next start tries again.
    let opened = ClusterKeys::open(&registry, KeyOptions { sealing: sealing.clone(), ..keys_of(config) })
        .inspect_err(|why| log::error!("{why}"));
    let (keys, keyless) = match opened {
        Ok(keys) => (Some(Arc::new(keys)), String::new()),
        Err(why) => (None, why),
    };
    if let Some(keys) = &keys {
        registry.trust(keys.trust());
    }
    Ok(Core { store, registry: Arc::new(registry), adoption, sealing, keys, keyless })
}

/// The controllers hear of changed kinds, adopted roles and keys.
fn follow(
    wakes: &Wakes,
    (registry, adoption, authenticator): (&Arc<Registry>, &Adoption, &Arc<Authenticator>),
    keys: Option<&Arc<ClusterKeys>>,
) {
    let (kinds_changed, adopted) = (wakes.clone(), wakes.clone());
    registry.follow_kinds(Box::new(move |_| kinds_changed.kinds_changed()));
    // What controllers know of unadopted roles is read with everything else.
    adoption.follow(Box::new(move || adopted.kinds_changed()));
    keys.into_iter().for_each(|keys| follow_keys(keys, (registry, authenticator), wakes));
}

/// The outside issuers of a file. A file that is wrong is no reason to serve nothing: `status` tells of it.
fn outside(config: &Config, keys: Option<Arc<ClusterKeys>>) -> Result<Option<Arc<Outside>>, String> {
    let Some(path) = &config.authentication_config else { return Ok(None) };
    let clock = move || {
        let now = keys.as_ref().map_or_else(making::wall_clock, |keys| keys.now());
        Duration::from_secs(u64::try_from(now.seconds()).unwrap_or_default())
    };
    let started = Outside::start(path, Arc::new(clock));
    started.map(|outside| Some(Arc::new(outside))).map_err(|error| format!("start the thread of issuers: {error}"))
}

/// Who may do what: administrators, then nodes, then everybody by roles.
fn authorizer(store: &Arc<dyn Store>, rbac: Arc<Rbac>) -> Arc<dyn Authorizer> {
    let of_nodes = Arc::new(NodeAuthorizer::new(store.clone()));
    Arc::new(Chain(vec![Arc::new(Masters), of_nodes, rbac]))
}

/// What is done before anybody is served. A later start finds the objects there, and nobody waits for a look at each of
/// them.
fn before_the_first(registry: &Registry, adoption: &Adoption, keys: Option<&ClusterKeys>, store: &dyn Store) {
    if adoption.is_first {
        furnish(registry, adoption);
    }
    if let Some(keys) = keys {
        end_departed(keys, store);
    }
}

/// The objects of every cluster, made where they are missing. An object that cannot be made is no reason to serve
/// nothing.
fn furnish(registry: &Registry, adoption: &Adoption) {
    let say = |made: Result<(), String>| made.unwrap_or_else(|why| log::error!("{why}"));
    SYSTEM.iter().for_each(|name| say(registry.ensure_namespace(name)));
    say(registry.ensure_classes());
    match registry.ensure_access_rules(adoption.is_first) {
        Ok(()) => adoption.settle(),
        // The next start is a first start again: what it finds under the names of these roles does not count by itself.
        Err(why) => log::error!("{why}"),
    }
}

/// Where the intents of the controllers become writes.
fn gate(config: &Config, registry: Arc<Registry>, agents: Agents) -> Gate {
    let (host, domain) = (making::host_name(), config.cluster_domain.clone());
    let own = Own { range: config.service_cidr, host, balancer: config.balancer, domain };
    Gate::new(registry)
        .with_workloads(config.workloads)
        .awaiting_nodes_for(config.node_monitor_grace)
        .keeping(own)
        .measured_by(agents)
}

impl Master {
    /// Where the plain port is, when there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.doors.plain_address()
    }

    /// Where the secure port is, when there is one.
    pub fn secure_address(&self) -> Option<SocketAddr> {
        self.doors.secure_address()
    }

    /// Serves one more kind from the next request on, and the objects of it that the store has.
    pub fn define(&self, kind: Kind) -> Result<(), KindConflict> {
        self.registry.define(kind)
    }

    /// Serves the kinds of a resource no more: watches of them end, and their objects stay in the store. `false`: no
    /// such kind is served.
    pub fn withdraw(&self, resource: &Resource) -> bool {
        self.registry.withdraw(resource)
    }

    /// Requests in flight are answered, watches end, the audit log has its last lines, and the store is closed.
    pub fn stop(self) {
        drop(self.line);
        self.doors.stop();
        drop(self.applied);
        drop(self.control);
        self.audit.flush();
        self.keys.iter().for_each(|keys| keys.stopped());
        match self.store.close() {
            Ok(()) => log::info!("stopped"),
            Err(error) => log::error!("close the store: {error}"),
        }
    }
}

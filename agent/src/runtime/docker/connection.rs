//! The connection to one engine: made when it is first asked, forgotten when it does not answer. Every call has its own
//! time limit, because a hung dockerd accepts connections and says nothing.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bollard::ClientVersion;
use bollard::errors::Error;

use super::cache::InspectCache;
use super::dialect::{Dialect, common_version, refusal};
use super::stock;
use super::stock::ask::ArchiveAsk;
use super::stock::record::ImageRecord;
use crate::facts::engine::Failure;
use crate::facts::naming::LABEL_KIND;
use crate::facts::pod_cidr::PodCidr;
use crate::host::lock::{EngineLock, LockError};
use crate::host::trace::TracedCall;
use crate::network::dns::names::Names;
use crate::network::pod_network::Owner;
use crate::network::pod_network::guard::Wires;

/// A question that the engine answers from memory. Under load 220 containers were listed in 13 ms.
pub(super) const ASK: Duration = Duration::from_secs(10);
/// `/_ping` needs nothing that the engine could wait for.
const PONG: Duration = Duration::from_secs(5);
/// Create, start, kill, remove: 0.3 s when idle, seconds on a busy small board; a start waits for the network hook as
/// well.
pub(super) const CHANGE: Duration = Duration::from_secs(60);
/// bollard's own time limit. It is longer than every time limit in the agent, and so never applies.
const BACKSTOP_S: u64 = 24 * 3600;

/// How to reach an engine, and what this host calls its own there.
pub struct Docker {
    pub(super) settings: Settings,
    pub(super) connection: Mutex<Option<Connection>>,
    pub(super) cache: Mutex<InspectCache>,
    /// Dead containers whose removal has to wait. The listing leaves them out.
    pub(super) leftovers: Mutex<BTreeSet<String>>,
    /// Renamed containers of the agent: by the name that the agent gave, the id and the present name.
    pub(super) renamed: Mutex<HashMap<String, (String, String)>>,
    /// Network and pause image were seen; forgotten with the connection and when a create misses them.
    pub(super) ready: Mutex<Option<ReadyEngine>>,
    /// The lock to make the network and the pause image: several pods may start at once.
    pub(super) preparing: tokio::sync::Mutex<()>,
    /// The address given last. Sandboxes get their addresses in turn, under this lock.
    pub(super) addressing: tokio::sync::Mutex<Option<IpAddr>>,
    /// The wires of this host's pods. Sandboxes are plugged in by turns, under this lock.
    pub(super) wires: tokio::sync::Mutex<Wires>,
    pub(super) pulling: tokio::sync::Mutex<()>,
    /// The lock for the removal of directory trees: the trees of several pods are removed by turns.
    pub(super) removing: tokio::sync::Mutex<()>,
    /// Resolves host names for probes and hooks.
    pub(super) names: Names,
    /// Requests to the task that loads image archives. None: no such task runs.
    pub(super) archives: Mutex<Option<tokio::sync::mpsc::Sender<ArchiveAsk>>>,
    /// The file system of volumes in memory was looked at.
    pub(super) volatile: Mutex<bool>,
    /// Which images the agent has fetched itself.
    pub(super) record: Mutex<ImageRecord>,
    locks: Mutex<HashMap<String, EngineLock>>,
    /// `docker://20.10.24`, as nodes show it; empty before the first connection.
    version: tokio::sync::watch::Sender<String>,
    /// Why the engine does not answer, from the last call that got none until the next that did.
    trouble: tokio::sync::watch::Sender<Option<String>>,
    /// Another agent holds the engine: told once to who waits in `refused`.
    refusal: tokio::sync::watch::Sender<Option<LockError>>,
}

pub struct Settings {
    /// `unix:///var/run/docker.sock`, `tcp://host:port` or `http://host:port`
    pub host: String,
    pub node_name: String,
    pub data_dir: String,
    pub pod_cidr: PodCidr,
    pub pod_network: Owner,
    /// Where the engine locks are: common to all agents of the host.
    pub run_dir: String,
    /// Changes nothing in the engine, and so needs no lock.
    pub only_looks: bool,
    /// Whether pulls run one after another.
    pub serial_pulls: bool,
}

pub(super) struct Connection {
    client: bollard::Docker,
    pub(super) dialect: Dialect,
    /// Docker's word for it: `x86_64`.
    pub(super) architecture: String,
    /// Where it keeps images and containers.
    root: Option<String>,
}

/// The network of the pods and the pause image were seen on this connection.
pub(super) struct ReadyEngine {
    /// The image as sandboxes ask for it, and as this engine calls it.
    pub(super) asked: String,
    pub(super) pause: String,
}

impl Docker {
    pub fn new(settings: Settings) -> Docker {
        Docker {
            record: Mutex::new(stock::read_record(&settings.data_dir)),
            settings,
            connection: Mutex::default(),
            cache: Mutex::default(),
            leftovers: Mutex::default(),
            renamed: Mutex::default(),
            ready: Mutex::default(),
            preparing: tokio::sync::Mutex::default(),
            addressing: tokio::sync::Mutex::default(),
            wires: tokio::sync::Mutex::default(),
            pulling: tokio::sync::Mutex::default(),
            removing: tokio::sync::Mutex::default(),
            names: Names::default(),
            archives: Mutex::default(),
            volatile: Mutex::default(),
            locks: Mutex::default(),
            version: tokio::sync::watch::Sender::default(),
            trouble: tokio::sync::watch::Sender::new(None),
            refusal: tokio::sync::watch::Sender::new(None),
        }
    }

    /// Takes the lock of an engine that answers. Err: another agent holds the lock.
    pub async fn first_contact(&self) -> Result<(), LockError> {
        match self.ping().await {
            Ok(()) => Ok(()),
            Err(_) => self.refusal.borrow().clone().map_or(Ok(()), Err),
        }
    }

    /// Returns when another agent turns out to hold the engine, which is a reason to end.
    pub async fn refused(&self) -> LockError {
        let mut refusal = self.refusal.subscribe();
        loop {
            if let Some(error) = refusal.borrow_and_update().clone() {
                return error;
            }
            if refusal.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Why the engine does not answer; the heartbeat keeps it fresh.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.borrow().clone()
    }

    /// Tells each change of `trouble`.
    pub fn troubles(&self) -> tokio::sync::watch::Receiver<Option<String>> {
        self.trouble.subscribe()
    }

    /// Where the engine keeps images and containers; None while nobody knows.
    pub fn root(&self) -> Option<String> {
        held(&self.connection).as_ref()?.root.clone()
    }

    /// Docker, while nobody knows.
    pub(super) fn dialect(&self) -> Dialect {
        held(&self.connection).as_ref().map_or_else(Dialect::default, |connection| connection.dialect)
    }

    pub fn version(&self) -> tokio::sync::watch::Receiver<String> {
        self.version.subscribe()
    }

    /// Does the engine answer? Also makes the first connection and takes the lock.
    pub async fn ping(&self) -> Result<(), Failure> {
        let client = self.client().await?;
        self.limited("ping", PONG, client.ping()).await.map(|_| ())
    }

    pub(super) async fn client(&self) -> Result<bollard::Docker, Failure> {
        if let Some(connection) = &*held(&self.connection) {
            return Ok(connection.client.clone());
        }
        let fresh = self.connect().await?;
        let client = fresh.client.clone();
        *held(&self.connection) = Some(fresh);
        Ok(client)
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let host = &self.settings.host;
        let to = |version: &ClientVersion| {
            let client = match host.split_once("://") {
                Some(("unix", _)) => bollard::Docker::connect_with_unix(host, BACKSTOP_S, version),
                _ => bollard::Docker::connect_with_http(host, BACKSTOP_S, version),
            };
            client.map_err(|error| Failure::Unavailable(format!("connect to {host}: {error}")))
        };
        let client = to(bollard::API_DEFAULT_VERSION)?;
        let said = self.limited("negotiate the version", ASK, client.version()).await?;
        let version = common_version(&said, bollard::API_DEFAULT_VERSION);
        let client =
            to(&version.ok_or_else(|| Failure::Unavailable("the engine names no version of its API".to_owned()))?)?;
        let (dialect, info) = (Dialect::of(&said), self.limited("ask who it is", ASK, client.info()).await?);
        self.take_lock(&dialect.identity(&info))?;
        self.version.send_replace(format!("{}://{}", dialect.word(), info.server_version.unwrap_or_default()));
        Ok(Connection {
            client,
            dialect,
            architecture: info.architecture.unwrap_or_default(),
            root: info.docker_root_dir,
        })
    }

    /// A new engine behind the same socket has a new id, and so needs a new lock.
    fn take_lock(&self, engine_id: &str) -> Result<(), Failure> {
        let mut locks = held(&self.locks);
        if self.settings.only_looks || locks.contains_key(engine_id) {
            return Ok(());
        }
        let settings = &self.settings;
        match EngineLock::take(&settings.run_dir, engine_id, &settings.host, &settings.node_name, &settings.data_dir) {
            Ok(lock) => {
                locks.insert(engine_id.to_owned(), lock);
                Ok(())
            }
            Err(error) => {
                let text = error.to_string();
                self.refusal.send_replace(Some(error));
                Err(Failure::Unavailable(text))
            }
        }
    }

    pub(super) async fn ask<T>(&self, what: &str, call: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
        self.limited(what, ASK, call).await
    }

    pub(super) async fn change<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        self.limited(what, CHANGE, call).await
    }

    async fn limited<T>(
        &self,
        what: &str,
        limit: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        let traced = TracedCall::begins(what);
        let result = match tokio::time::timeout(limit, call).await {
            Ok(result) => result.map_err(|error| failure(what, error)),
            Err(_) => Err(Failure::Unavailable(format!("{what}: the engine did not answer in {} s", limit.as_secs()))),
        };
        traced.ends();
        match &result {
            Err(Failure::Unavailable(text)) => {
                self.trouble.send_replace(Some(text.clone()));
                self.forget();
            }
            _ => {
                self.trouble.send_if_modified(|trouble| trouble.take().is_some());
            }
        }
        result
    }

    /// A name that is taken: by a container of ours, or by somebody else's.
    pub(super) async fn whose_name(&self, client: &bollard::Docker, name: &str, text: String) -> Failure {
        match self.inspect(client, name).await {
            Ok(found) => {
                let labels = found.config.and_then(|config| config.labels).unwrap_or_default();
                if labels.contains_key(LABEL_KIND) { Failure::Conflict(text) } else { Failure::Taken(text) }
            }
            // It went away meanwhile; the next look decides.
            Err(_) => Failure::Conflict(text),
        }
    }

    /// Nothing is believed over a silence: the next call connects again, and all containers are inspected again.
    pub(super) fn forget(&self) {
        *held(&self.connection) = None;
        *held(&self.ready) = None;
        held(&self.cache).clear();
    }
}

/// The engine's own words where it has some; a broken connection is the engine's absence.
pub(super) fn failure(what: &str, error: Error) -> Failure {
    match error {
        Error::DockerResponseServerError { status_code, message } if message.is_empty() => {
            let message = format!("{what}: status {status_code}, without a word");
            failure(what, Error::DockerResponseServerError { status_code, message })
        }
        Error::DockerResponseServerError { status_code, message } => refusal(what, status_code, message),
        Error::DockerStreamError { error } => Failure::Refused(error),
        other => {
            Failure::Unavailable(format!("{what}: {}", chain(&other).replace("Error in the hyper legacy client: ", "")))
        }
    }
}

/// An error and its causes in one line, each said once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Nothing here panics while it holds a lock, and if it did, each value would still be whole.
pub(super) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

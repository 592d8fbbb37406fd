//! The clients of this host: programs of the host itself, and pods of its agents. A secure port that is closed to the
//! network takes connections of these clients alone.
//!
//! The pod ranges come from the agents' sockets and from no object, because clients write objects. They are asked for
//! at the start, when an agent writes its Node, and after a connection from an unknown address.

use crate::agents::Agents;
use crate::cluster_keys::host;
use coracle_api::strategy::Cidr;
use coracle_http::{PathAndQuery, Server, gather};
use serde_json::Value;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

/// How long an agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The size limit of an agent's answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The pause between two questions: connections of strangers cannot keep the agents busy.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the addresses of this host are believed.
const ADDRESSES_AGE: Duration = Duration::from_secs(1);
/// Ranges that are kept: one host has few agents.
const RANGES_MAX: usize = 16;

pub struct OwnPeers {
    ranges: Arc<RwLock<Vec<Cidr>>>,
    addresses: Mutex<HostAddresses>,
    /// Wakes the thread that asks the agents; the thread ends when this value is dropped.
    wake: SyncSender<()>,
}

/// The addresses of this host, read at most once in `ADDRESSES_AGE`: a stranger cannot make the master read all the
/// time.
#[derive(Default)]
struct HostAddresses {
    read: Option<Instant>,
    all: Vec<IpAddr>,
}

impl OwnPeers {
    pub fn start(agents: Agents) -> io::Result<OwnPeers> {
        let ranges = Arc::<RwLock<Vec<Cidr>>>::default();
        let (wake, woken) = sync_channel(1);
        let theirs = ranges.clone();
        thread::Builder::new().name("own-peers".to_owned()).spawn(move || follow(&agents, &woken, &theirs))?;
        let peers = OwnPeers { ranges, addresses: Mutex::default(), wake };
        peers.look();
        Ok(peers)
    }

    /// Asks the agents for their pod ranges soon.
    pub fn look(&self) {
        // A full channel holds a wake that is still to come.
        let _ = self.wake.try_send(());
    }

    pub fn admits(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        let ranges = self.ranges.read().unwrap_or_else(PoisonError::into_inner);
        let own = peer.is_loopback() || ranges.iter().any(|range| range.contains(peer)) || self.is_of_this_host(peer);
        if !own {
            self.look();
        }
        own
    }

    /// The kernel's own list says it. A socket that can be bound says less: some hosts let programs bind any address.
    fn is_of_this_host(&self, address: IpAddr) -> bool {
        let mut known = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if known.read.is_none_or(|read| read.elapsed() > ADDRESSES_AGE) {
            *known = HostAddresses { read: Some(Instant::now()), all: host::addresses() };
        }
        known.all.contains(&address)
    }
}

fn follow(agents: &Agents, woken: &Receiver<()>, ranges: &RwLock<Vec<Cidr>>) {
    while woken.recv().is_ok() {
        match ask(agents) {
            Ok(found) => *ranges.write().unwrap_or_else(PoisonError::into_inner) = found,
            Err(error) => log::warn!("the pod ranges of this host are not known: the agents cannot be asked: {error}"),
        }
        thread::sleep(PAUSE);
    }
}

fn ask(agents: &Agents) -> io::Result<Vec<Cidr>> {
    let target = PathAndQuery::from_static("/node");
    let asked: Vec<(Server, PathAndQuery)> =
        sockets(agents.directory())?.into_iter().take(RANGES_MAX).map(|agent| (agent, target.clone())).collect();
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let answers = gather(asked, PATIENCE, ANSWER_BYTES_MAX)?;
    Ok(answers.into_iter().filter_map(|answer| range(&answer.inspect_err(|why| log::debug!("{why}")).ok()?)).collect())
}

/// The agents whose sockets stand in the directory.
fn sockets(directory: &Path) -> io::Result<Vec<Server>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        // No agent was started on this host.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.extension().is_some_and(|name| name == "sock")).map(Server::Socket).collect())
}

/// The pod range in an agent's own words.
fn range(answer: &[u8]) -> Option<Cidr> {
    let node: Value = serde_json::from_slice(answer).ok()?;
    Cidr::parse(node["podCIDR"].as_str()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_an_agent() {
        for (answer, expected) in [
            (r#"{"name": "n", "podCIDR": "10.244.3.0/24"}"#, Some("10.244.3.0/24")),
            (r#"{"name": "n"}"#, None),
            (r#"{"podCIDR": "all"}"#, None),
            ("no JSON", None),
        ] {
            assert_eq!(range(answer.as_bytes()).map(|range| range.to_string()).as_deref(), expected, "{answer}");
        }
    }

    #[test]
    fn peers_of_this_host() {
        let (wake, _woken) = sync_channel(1);
        let ranges = vec![Cidr::parse("10.244.3.0/24").expect("a range")];
        let peers = OwnPeers { ranges: Arc::new(RwLock::new(ranges)), addresses: Mutex::default(), wake };
        let own = host::addresses().into_iter().map(|address| (address.to_string(), true));
        let others = [("127.9.9.9", true), ("::ffff:127.0.0.1", true), ("10.244.3.7", true), ("192.0.2.77", false)];
        for (address, expected) in own.chain(others.map(|(address, own)| (address.to_owned(), own))) {
            assert_eq!(peers.admits(address.parse().expect("an address")), expected, "{address}");
        }
    }
}

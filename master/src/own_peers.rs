//! The clients of this host: programs of the host itself, and pods of its agents. A secure port that is closed to the
//! network takes connections of these clients alone.
//!
//! The pod ranges come from the agents' sockets and from no object, because clients write objects. They are asked for
//! at the start, when an agent writes its Node, and after a connection from an unknown address.

use crate::agents::Agents;
use coracle_api::strategy::Cidr;
use coracle_http::{PathAndQuery, Server, gather};
use serde_json::Value;
use std::fs;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

/// How long an agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The size limit of an agent's answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The pause between two questions: connections of strangers cannot keep the agents busy.
const PAUSE: Duration = Duration::from_secs(1);
/// Ranges that are kept: one host has few agents.
const RANGES_MAX: usize = 16;

pub struct OwnPeers {
    ranges: Arc<RwLock<Vec<Cidr>>>,
    /// Wakes the thread that asks the agents; the thread ends when this value is dropped.
    wake: SyncSender<()>,
}

impl OwnPeers {
    pub fn start(agents: Agents) -> io::Result<OwnPeers> {
        let ranges = Arc::<RwLock<Vec<Cidr>>>::default();
        let (wake, woken) = sync_channel(1);
        let theirs = ranges.clone();
        thread::Builder::new().name("own-peers".to_owned()).spawn(move || follow(&agents, &woken, &theirs))?;
        let peers = OwnPeers { ranges, wake };
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
        let own = peer.is_loopback() || ranges.iter().any(|range| range.contains(peer)) || is_of_this_host(peer);
        if !own {
            self.look();
        }
        own
    }
}

/// The kernel binds a socket to the addresses of this host alone.
fn is_of_this_host(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
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
    fn addresses_of_this_host() {
        for (address, expected) in [("127.0.0.1", true), ("127.9.9.9", true), ("192.0.2.77", false)] {
            assert_eq!(is_of_this_host(address.parse().expect("an address")), expected, "{address}");
        }
    }
}

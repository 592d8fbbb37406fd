//! The secure port: TLS for programs and pods of this host and, where the configuration says so, for the network.
//!
//!     settings -> listen, again every `RETRY` while another program has the port -> coracle_http::network
//!     every `LOOK`, and when a command says so: changed files of the keys, requests in progress that have to end
//!     every `SLOW_LOOK`: the names of this host, and what has aged
//!
//! A port that cannot be opened is no reason to serve nothing: `SecureState` says why, for `status`.

use crate::cluster_keys::ClusterKeys;
use crate::cluster_keys::names::ServerNames;
use crate::in_progress::{InProgressLooks, LOOK};
use crate::store::locked;
use coracle_http::network::{self, NetworkPlane, Port};
use coracle_http::{Clock, Handler, KeySet, TlsKeys};
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The pause before the next attempt to open the port.
const RETRY: Duration = Duration::from_secs(10);
/// A changed address of this host is noticed after this many looks: ten minutes.
const SLOW_LOOKS: u32 = 120;

/// What the port is made of.
pub struct SecureParts {
    pub address: SocketAddr,
    pub handler: Handler,
    /// The port with these keys.
    pub port: Box<dyn Fn(Arc<TlsKeys>) -> Port + Send>,
    pub looks: InProgressLooks,
    /// Judges the dates of clients' certificates.
    pub clock: Clock,
    pub keys: Arc<ClusterKeys>,
    /// The names of this host at this moment.
    pub names: Box<dyn Fn() -> ServerNames + Send>,
    pub state: Arc<SecureState>,
}

/// Why the port is not open. `None`: the port is open, or no port is configured.
#[derive(Default)]
pub struct SecureState(Mutex<Option<String>>);

impl SecureState {
    pub fn trouble(&self) -> Option<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says a trouble once in the log.
    pub fn note(&self, found: Option<String>) {
        let mut known = self.lock();
        if *known == found {
            return;
        }
        // `open` says in the log that a port is open.
        if let Some(why) = &found {
            log::error!("{why}");
        }
        *known = found;
    }
}

/// A secure port and the thread that looks after it.
pub struct SecurePort {
    tell: SyncSender<Told>,
    thread: JoinHandle<()>,
    address: Option<SocketAddr>,
}

/// What the thread is told.
enum Told {
    /// The files of the keys have changed.
    Look,
    Stop,
}

impl SecurePort {
    /// Opens the port at once where that is possible; the thread tries again where it is not.
    pub fn start(mut parts: SecureParts) -> io::Result<SecurePort> {
        let (tell, told) = sync_channel(2);
        let shown = Shown::default();
        // First: a change while the port is being opened is known to `show`.
        follow_keys(&parts.keys, shown.clone(), tell.clone());
        let opened = show(&parts, &shown);
        let address = opened.as_ref().map(|plane| plane.address);
        let thread = thread::Builder::new().name("secure-port".to_owned()).spawn(move || {
            let plane = keep(&mut parts, opened, (&shown, &told));
            plane.into_iter().for_each(NetworkPlane::stop);
        })?;
        Ok(SecurePort { tell, thread, address })
    }

    /// The address that was opened at the start.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Requests in flight are answered, watches end.
    pub fn stop(self) {
        // The thread takes what is in the channel, so that there is room soon.
        let _ = self.tell.send(Told::Stop);
        if self.thread.join().is_err() {
            log::error!("the thread of the secure port had panicked");
        }
    }
}

/// What the next connections of an open port use.
struct ShownKeys {
    tls: Arc<TlsKeys>,
    pair: ServerPair,
}

/// The chain and the key of the server, as PEM.
type ServerPair = (String, String);

/// Opens the port, and takes up what has changed since its keys were read.
fn show(parts: &SecureParts, shown: &Shown) -> Option<NetworkPlane> {
    let (plane, keys) = open(parts)?;
    let mut shown = locked(shown);
    let keys = shown.insert(keys);
    if let Err(why) = take_up(&parts.keys, keys) {
        log::error!("{why}");
    }
    Some(plane)
}

fn open(parts: &SecureParts) -> Option<(NetworkPlane, ShownKeys)> {
    let made = parts.keys.server().and_then(|pair| {
        let new = |set: &KeySet<'_>| TlsKeys::new(set, parts.clock.clone()).map_err(|error| error.to_string());
        let tls = key_set(&pair, &client_roots(&parts.keys)?, new)?;
        Ok(ShownKeys { tls: Arc::new(tls), pair })
    });
    let opened = made.and_then(|keys| {
        let tls = keys.tls.clone();
        let listener = network::listen(parts.address);
        let plane = listener
            .and_then(|listener| network::start(listener, parts.handler.clone(), (parts.port)(tls.clone())))
            .map_err(|error| format!("{error}{}", remedy(&error, parts.address)))?;
        Ok((plane, keys))
    });
    match opened {
        Ok((plane, keys)) => {
            parts.state.note(None);
            log::info!("serving on https://{}", plane.address);
            Some((plane, keys))
        }
        Err(why) => {
            parts.state.note(Some(format!("--secure-listen {}: {why}", parts.address)));
            None
        }
    }
}

fn remedy(error: &io::Error, address: SocketAddr) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!("; `ss -lntp sport = :{}` names the program that has it", address.port()),
        _ => String::new(),
    }
}

/// The keys of an open port.
type Shown = Arc<Mutex<Option<ShownKeys>>>;

/// The next connections use changed keys before whoever changed them goes on; what they end is ended by the thread.
fn follow_keys(keys: &Arc<ClusterKeys>, shown: Shown, tell: SyncSender<Told>) {
    // The keys hold this: it must not hold the keys.
    let theirs = Arc::downgrade(keys);
    keys.follow(Box::new(move |change| {
        if (change.authorities || change.server)
            && let (Some(keys), Some(shown)) = (theirs.upgrade(), &mut *locked(&shown))
        {
            // A failure is tried again at the next look, which comes by itself: told here, it would come at once.
            take_up(&keys, shown)?;
        }
        // A full channel holds a look that is still to come.
        let _ = tell.try_send(Told::Look);
        Ok(())
    }));
}

/// Runs until it is told to stop.
fn keep(
    parts: &mut SecureParts,
    mut opened: Option<NetworkPlane>,
    (shown, told): (&Shown, &Receiver<Told>),
) -> Option<NetworkPlane> {
    let mut looks = 0;
    loop {
        let pause = if opened.is_some() { LOOK } else { RETRY };
        match told.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => looks += 1,
            Ok(Told::Look) => {}
            Ok(Told::Stop) | Err(RecvTimeoutError::Disconnected) => return opened,
        }
        if opened.is_none() {
            opened = show(parts, shown);
        }
        parts.keys.look();
        parts.looks.look();
        if looks >= SLOW_LOOKS {
            looks = 0;
            if let Err(why) = parts.keys.tend(&(parts.names)()) {
                log::warn!("the certificates of this host are not made anew: {why}");
            }
        }
    }
}

/// The next connections use the files as they are now. `Err`: a pair of the server that cannot be used. The next
/// connections use the pair of before then, with the authorities of now: an authority that was taken away counts no
/// more.
fn take_up(keys: &ClusterKeys, shown: &mut ShownKeys) -> Result<(), String> {
    let tls = shown.tls.clone();
    let roots = client_roots(keys).map_err(|why| format!("the secure port goes on with what it has: {why}"))?;
    let replace = |pair: &ServerPair| key_set(pair, &roots, |set| tls.replace(set).map_err(|error| error.to_string()));
    shown.pair = best_pair(keys.server(), &shown.pair, replace)?;
    log::info!("the secure port has taken the keys up");
    Ok(())
}

/// Uses the pair of now. Where that fails it uses the pair of before: the rest of the keys counts in any case.
fn best_pair(
    now: Result<ServerPair, String>,
    before: &ServerPair,
    replace: impl Fn(&ServerPair) -> Result<(), String>,
) -> Result<ServerPair, String> {
    now.and_then(|pair| replace(&pair).map(|()| pair)).map_err(|why| match replace(before) {
        Ok(()) => format!("the secure port goes on with the certificate that it has: {why}"),
        Err(why) => format!("the secure port goes on with what it has: {why}"),
    })
}

/// The authorities of clients, and of proxies that speak for users.
type ClientRoots = (String, Arc<str>);

fn client_roots(keys: &ClusterKeys) -> Result<ClientRoots, String> {
    Ok((keys.client_authorities_pem()?, keys.proxy_authority_pem()))
}

/// The files of the keys, as the port takes them.
fn key_set<T>(
    (chain, key): &ServerPair,
    (clients, proxies): &ClientRoots,
    with: impl FnOnce(&KeySet<'_>) -> Result<T, String>,
) -> Result<T, String> {
    with(&KeySet {
        chain_pem: chain.as_bytes(),
        key_pem: key.as_bytes(),
        client_ca_pem: clients.as_bytes(),
        proxy_ca_pem: proxies.as_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// The authorities of clients are taken up also where the server's own pair is bad.
    #[test]
    fn a_bad_pair_keeps_nothing_else_from_counting() {
        let pair = |name: &str| (name.to_owned(), String::new());
        let of = |now: Result<ServerPair, String>, unusable: &[&str]| {
            let used = RefCell::new(Vec::new());
            let outcome = best_pair(now, &pair("before"), |(chain, _)| {
                if unusable.contains(&chain.as_str()) {
                    return Err(format!("{chain} is bad"));
                }
                used.borrow_mut().push(chain.clone());
                Ok(())
            });
            (outcome.map(|(chain, _)| chain), used.into_inner().join(" "))
        };
        let goes_on = |with: &str| Err(format!("the secure port goes on with {with}"));
        for (now, unusable, expected, used) in [
            (Ok(pair("now")), &[][..], Ok("now".to_owned()), "now"),
            (Ok(pair("now")), &["now"], goes_on("the certificate that it has: now is bad"), "before"),
            (Err("no file".to_owned()), &[], goes_on("the certificate that it has: no file"), "before"),
            (Ok(pair("now")), &["now", "before"], goes_on("what it has: before is bad"), ""),
        ] {
            assert_eq!(of(now, unusable), (expected, used.to_owned()), "{unusable:?}");
        }
    }
}

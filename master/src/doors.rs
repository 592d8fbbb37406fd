//! The ports of a master: root's socket, the plain port of this host, and the secure port.
//!
//!     socket          root and the master's user; the administrator, unless credentials say otherwise
//!     plain port      programs of this host; the same
//!     secure port     TLS: whoever the credentials say, else anonymous
//!
//! One handler answers all ports.

use crate::agents::Agents;
use crate::authenticate::{Authenticator, WithoutCredentials};
use crate::cluster_keys::ClusterKeys;
use crate::config::{Config, SecureClients};
use crate::in_progress::{InProgressLooks, KnownRights, LookThread};
use crate::own_peers::OwnPeers;
use crate::secure_port::{SecureParts, SecurePort, SecureState};
use crate::serve::Serve;
use coracle_http::local::{LocalPlane, LocalPort};
use coracle_http::network::{
    self, AdmitsAddress, Identify, IsRevoked, NetworkPlane, OnRefusal, Port, RefusedRequest, TlsPort,
};
use coracle_http::{
    Caller, ClientCertificate, Handler, InProgress, Limits, LocalLimits, Method, Request, Sessions, local, system,
};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

/// The limits of each port of the network.
pub const LIMITS: Limits = Limits::EDGE;
/// An agent that writes its Node may serve pods of a range that is not known yet.
const NODES: &str = "/api/v1/nodes";

pub struct Doors {
    local: LocalPlane,
    plain: Option<NetworkPlane>,
    secure: Option<SecurePort>,
    looks: Option<LookThread>,
}

/// What the ports serve, and how they know clients.
pub struct DoorParts<'a> {
    pub config: &'a Config,
    pub plain: Option<TcpListener>,
    pub serve: Arc<Serve>,
    pub authenticator: Arc<Authenticator>,
    /// None: the keys cannot be used, so that there is no secure port.
    pub keys: Option<Arc<ClusterKeys>>,
    pub agents: Agents,
    pub state: Arc<SecureState>,
}

/// The plain port, where there is to be one, and the way to the socket.
pub fn take_places(config: &Config) -> Result<Option<TcpListener>, String> {
    let ports: Vec<&Limits> = [config.listen, config.secure_listen].iter().flatten().map(|_| &LIMITS).collect();
    system::enough(&ports, Some(&LocalLimits::HOST), system::granted()).map_err(|shortage| shortage.to_string())?;
    let listener = match config.listen {
        Some(address) => Some(network::listen(address).map_err(|error| format!("--listen {address}: {error}"))?),
        None => None,
    };
    let socket = config.admin_socket.display();
    local::prepare(&config.admin_socket).map_err(|error| format!("--admin-socket {socket}: {error}"))?;
    Ok(listener)
}

impl Doors {
    /// Opens all ports, or none. A secure port that cannot be opened is no error.
    pub fn open(mut parts: DoorParts<'_>) -> Result<Doors, String> {
        let peers = own_peers(&parts)?;
        let serve = parts.serve.clone();
        let handler = telling(Arc::new(move |request| serve.answer(&request)), peers.clone());
        let identify = parts.authenticator.identifying(WithoutCredentials::Administrator);
        let refused = on_refusal(&parts.serve);
        let root = LocalPort { identify: identify.clone(), refused, ..LocalPort::of_root(LocalLimits::HOST) };
        let local = local::start(&parts.config.admin_socket, handler.clone(), root)
            .map_err(|error| format!("--admin-socket {}: {error}", parts.config.admin_socket.display()))?;
        // One list: a credential that ends is ended on both ports.
        let sessions = Sessions::default();
        let of_plain = |listener| plain(&parts.serve, listener, handler.clone(), (identify, sessions.clone()));
        let opened = parts.plain.take().map(of_plain);
        let mut doors = Doors { local, plain: None, secure: None, looks: None };
        let secure = opened.transpose().and_then(|plain| {
            doors.plain = plain;
            peers.map(|peers| secure(&parts, handler, (peers, sessions.clone()))).transpose()
        });
        let looked = secure.and_then(|secure| {
            doors.secure = secure.flatten();
            // The thread of the secure port looks, too.
            let alone = doors.plain.is_some() && doors.secure.is_none();
            let looks = alone.then(|| LookThread::start(looks(&parts, sessions)));
            looks.transpose().map_err(|error| format!("start a thread for --listen: {error}"))
        });
        match looked {
            Ok(looks) => Ok(Doors { looks, ..doors }),
            Err(why) => {
                doors.stop();
                Err(why)
            }
        }
    }

    /// The address of the plain port.
    pub fn plain_address(&self) -> Option<SocketAddr> {
        self.plain.as_ref().map(|plane| plane.address)
    }

    /// The address of the secure port.
    pub fn secure_address(&self) -> Option<SocketAddr> {
        self.secure.as_ref().and_then(SecurePort::address)
    }

    pub fn stop(self) {
        self.looks.into_iter().for_each(LookThread::stop);
        self.secure.into_iter().for_each(SecurePort::stop);
        self.plain.into_iter().for_each(NetworkPlane::stop);
        self.local.stop();
    }
}

fn own_peers(parts: &DoorParts<'_>) -> Result<Option<Arc<OwnPeers>>, String> {
    if parts.config.secure_listen.is_none() {
        return Ok(None);
    }
    let started = OwnPeers::start(parts.agents.clone());
    started.map(|peers| Some(Arc::new(peers))).map_err(|error| format!("start a thread for --secure-listen: {error}"))
}

/// The handler, which also tells `peers` that an agent of this host has written its Node.
fn telling(handler: Handler, peers: Option<Arc<OwnPeers>>) -> Handler {
    let Some(peers) = peers else { return handler };
    Arc::new(move |request: Request| {
        if request.caller == Caller::Local && request.method != Method::GET && request.target.path().starts_with(NODES)
        {
            peers.look();
        }
        handler(request)
    })
}

/// The audit log hears of requests that no handler sees.
fn on_refusal(serve: &Arc<Serve>) -> OnRefusal {
    let serve = serve.clone();
    Arc::new(move |refused: &RefusedRequest<'_>| serve.refused(refused))
}

/// What looks at the requests in progress.
fn looks(parts: &DoorParts<'_>, sessions: Sessions) -> InProgressLooks {
    let authenticator = parts.authenticator.clone();
    let (changed, allowing) = (parts.serve.clone(), parts.serve.clone());
    InProgressLooks {
        sessions,
        is_over: Box::new(move |InProgress { identity, certificate, .. }| {
            let ended = |certificate: &Arc<ClientCertificate>| {
                !certificate.still_counts() || !authenticator.counts(certificate)
            };
            certificate.as_ref().is_some_and(ended) || !authenticator.still_valid(identity)
        }),
        is_allowed: Box::new(move |asked| allowing.still_allows(asked)),
        changed: Box::new(move || changed.rights_changed()),
        known: KnownRights::default(),
    }
}

fn plain(
    serve: &Arc<Serve>,
    listener: TcpListener,
    handler: Handler,
    (identify, sessions): (Identify, Sessions),
) -> Result<NetworkPlane, String> {
    let (refused, ration) = (on_refusal(serve), serve.ration());
    let port = Port { identify, sessions, refused, ration, ..Port::of_this_host(LIMITS) };
    let plane = network::start(listener, handler, port).map_err(|error| format!("serve on --listen: {error}"))?;
    log::warn!("http://{} takes every request without credentials for one of system:admin", plane.address);
    Ok(plane)
}

fn secure(
    parts: &DoorParts<'_>,
    handler: Handler,
    (peers, sessions): (Arc<OwnPeers>, Sessions),
) -> Result<Option<SecurePort>, String> {
    let Some(address) = parts.config.secure_listen else { return Ok(None) };
    let Some(keys) = parts.keys.clone() else {
        parts.state.note(Some(format!("--secure-listen {address}: the keys of the cluster cannot be used")));
        return Ok(None);
    };
    let theirs = keys.clone();
    let clock = Arc::new(move || Duration::from_secs(u64::try_from(theirs.now().seconds()).unwrap_or_default()));
    let judge = parts.authenticator.clone();
    let is_revoked: IsRevoked = Arc::new(move |certificate| !judge.counts(certificate));
    let identify = parts.authenticator.identifying(WithoutCredentials::Anonymous);
    let admits: AdmitsAddress = match parts.config.secure_clients {
        SecureClients::Host => Arc::new(move |peer| peers.admits(peer)),
        SecureClients::Network => Arc::new(|_| true),
    };
    let (theirs, refused, ration) = (sessions.clone(), on_refusal(&parts.serve), parts.serve.ration());
    let port = move |keys| {
        let tls = TlsPort { keys, is_revoked: is_revoked.clone() };
        let (admits, sessions) = (admits.clone(), theirs.clone());
        let (refused, ration) = (refused.clone(), ration.clone());
        Port { admits, sessions, refused, ration, ..Port::secure(LIMITS, identify.clone(), tls) }
    };
    let config = parts.config.clone();
    let secure = SecurePort::start(SecureParts {
        address,
        handler,
        port: Box::new(port),
        looks: looks(parts, sessions),
        clock,
        keys,
        names: Box::new(move || crate::server_names(&config)),
        state: parts.state.clone(),
    });
    secure.map(Some).map_err(|error| format!("start a thread for --secure-listen: {error}"))
}

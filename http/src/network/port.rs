//! A port as a value: access rules, client identities and limits. PURE.
//!
//! The identity belongs to a request and not to a connection: two requests of one connection may carry two tokens.

use super::access::Access;
use crate::{Caller, ClientCertificate, HeaderMap, Identity, Limits, Sessions, TlsKeys};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Clone)]
pub struct Port {
    pub access: Access,
    pub identify: Identify,
    pub limits: Limits,
    /// None: the port speaks plain HTTP/1.1.
    pub tls: Option<TlsPort>,
    /// Whether a client of this address may connect: asked before a byte of the connection is read.
    pub admits: AdmitsAddress,
    /// The requests in progress, for whoever has to end those of one user. Several ports may share it.
    pub sessions: Sessions,
}

/// Whether a client at this address may connect.
pub type AdmitsAddress = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// Whether a certificate that is valid by itself has been withdrawn: asked at each request that comes with one.
pub type IsRevoked = Arc<dyn Fn(&ClientCertificate) -> bool + Send + Sync>;

/// What makes a port speak TLS.
#[derive(Clone)]
pub struct TlsPort {
    pub keys: Arc<TlsKeys>,
    pub is_revoked: IsRevoked,
}

/// Answers who sends a request. It is asked once for each request, after `Access` and before the body is read: of a
/// request without credentials on the thread of all IO, where it waits for nothing; of a request with credentials on
/// one of few threads, where it may wait for some seconds.
pub type Identify = Arc<dyn Fn(&RequestSender<'_>) -> Result<Arc<Identity>, Unidentified> + Send + Sync>;

/// The facts that tell who sends a request.
pub struct RequestSender<'a> {
    pub caller: &'a Caller,
    /// The user of this host at the other end of a Unix socket.
    pub uid: Option<u32>,
    /// The path that is asked for, as it was sent.
    pub path: &'a str,
    pub headers: &'a HeaderMap,
    /// The certificate that the client has shown in the handshake.
    pub certificate: Option<&'a ClientCertificate>,
}

/// Nobody is known by what a request shows: the answer is 401 with these words, which name no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unidentified(pub String);

impl Port {
    /// The port for programs on this host: every client is the administrator.
    pub fn of_this_host(limits: Limits) -> Port {
        Port {
            access: Access::LoopbackOnly,
            identify: everybody_is(Identity::administrator()),
            limits,
            tls: None,
            admits: Arc::new(|_| true),
            sessions: Sessions::default(),
        }
    }

    /// A port for clients that say who they are, over TLS.
    pub fn secure(limits: Limits, identify: Identify, tls: TlsPort) -> Port {
        Port { access: Access::AnyHost, identify, tls: Some(tls), ..Port::of_this_host(limits) }
    }
}

/// For a port without authentication: every client that reaches the port has this identity.
pub fn everybody_is(identity: Identity) -> Identify {
    let identity = Arc::new(identity);
    Arc::new(move |_| Ok(identity.clone()))
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("access", &self.access).field("limits", &self.limits).finish_non_exhaustive()
    }
}

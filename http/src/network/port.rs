//! A port as a value: access rules, client identities and limits. PURE.
//!
//! The identity belongs to a request and not to a connection: two requests of one connection may carry two tokens.

use super::access::Access;
use crate::budget::Party;
use crate::{
    Caller, ClientCertificate, HeaderMap, HeaderName, HeaderValue, Identity, Limits, Method, PathAndQuery, Sessions,
    TlsKeys,
};
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
    /// Told of refusals.
    pub refused: OnRefusal,
    /// Shares places among requests; health checks need none.
    pub ration: Ration,
}

/// Told of each request that a port refuses with 401 or 403 before a handler is asked. On a port of the network it is
/// called by the thread of all IO.
pub type OnRefusal = Arc<dyn Fn(&RefusedRequest<'_>) + Send + Sync>;

/// A request without an answer of the handler.
pub struct RefusedRequest<'a> {
    pub caller: &'a Caller,
    pub method: &'a str,
    /// Without its query.
    pub path: &'a str,
    /// 401 or 403.
    pub code: u16,
    pub why: &'a str,
}

/// Asked for a place for a request, after its body has come. It is asked on the thread of all IO: it waits for nothing.
/// `Err`: the words for the client, which is answered 429.
pub type Ration = Arc<dyn Fn(&RationedRequest<'_>) -> Result<RationedPlace, String> + Send + Sync>;

/// The facts by which places are shared.
pub struct RationedRequest<'a> {
    pub party: Party,
    pub identity: &'a Identity,
    pub method: &'a Method,
    pub target: &'a PathAndQuery,
}

/// A place, given back when it is dropped: when the handler has answered.
pub struct RationedPlace {
    /// For the answer.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub held: Box<dyn Send>,
}

/// Whether a client at this address may connect.
pub type AdmitsAddress = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// Whether a certificate that counts by its end and its authority has been withdrawn: asked at each request that comes
/// with one.
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
            refused: Arc::new(|_| {}),
            ration: everybody_has_a_place(),
        }
    }

    /// A port for clients that say who they are, over TLS.
    pub fn secure(limits: Limits, identify: Identify, tls: TlsPort) -> Port {
        Port { access: Access::AnyHost, identify, tls: Some(tls), ..Port::of_this_host(limits) }
    }
}

/// For a port that shares places by the limits alone.
fn everybody_has_a_place() -> Ration {
    Arc::new(|_| Ok(RationedPlace { headers: Vec::new(), held: Box::new(()) }))
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

//! A port as a value: access rules, client identities and limits. PURE.
//!
//! The identity belongs to a request and not to a connection: two requests of one connection may carry two tokens.

use super::access::Access;
use crate::{Caller, HeaderMap, Identity, Limits};
use std::fmt;
use std::sync::Arc;

#[derive(Clone)]
pub struct Port {
    pub access: Access,
    pub identify: Identify,
    pub limits: Limits,
}

/// Answers who sends a request. It is asked once for each request, after `Access` and before the body is read, on the
/// thread of all IO: it waits for nothing.
pub type Identify = Arc<dyn Fn(&RequestSender<'_>) -> Result<Arc<Identity>, Unidentified> + Send + Sync>;

/// The facts that tell who sends a request.
pub struct RequestSender<'a> {
    pub caller: &'a Caller,
    /// The user of this host at the other end of a Unix socket.
    pub uid: Option<u32>,
    pub headers: &'a HeaderMap,
}

/// Nobody is known by what a request shows: the answer is 401 with these words, which name no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unidentified(pub String);

impl Port {
    /// The port for programs on this host: every client is the administrator.
    pub fn of_this_host(limits: Limits) -> Port {
        Port { access: Access::LoopbackOnly, identify: everybody_is(Identity::administrator()), limits }
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

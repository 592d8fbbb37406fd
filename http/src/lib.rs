//! Carrying requests, for both programs; the only crate with server sockets.
//!
//!     network  hyper on TCP, Unix \                               / Whole, Long: one document
//!                                  > Request -> Handler -> Answer <  Stream: a watch or a log, item by item
//!     local    tiny_http on Unix  /                               \ Forward: fetched by the carrier from another
//!                                                                 server
//!                                                                  Upgrade: takes over the connection (network alone)
//!     client   the other direction: the agent's calls and watches
//!     fetch    one document from a verified server, for a thread that may wait
//!
//! This file is the seam: all that a handler sees of HTTP. It names neither hyper nor tiny_http; the `http` crate is
//! vocabulary, not a server. The only words of Kubernetes are those of a Status, because a carrier refuses in the
//! language of its clients.

pub mod budget;
mod certificate;
pub mod channel;
pub mod client;
mod fetch;
mod gather;
mod identity;
mod limits;
mod links;
pub mod local;
pub mod network;
mod outbound;
mod passing;
mod pieces;
mod pull;
mod refusal;
mod sessions;
mod socket_file;
pub mod spdy;
pub mod system;
mod target;
pub mod tls;
mod upgrade;
pub mod websocket;

use budget::Party;
use bytes::Bytes;
pub use certificate::ClientCertificate;
pub use fetch::{Authorities, Fetch, HttpsUrl, fetch};
pub use gather::gather;
pub use http::uri::PathAndQuery;
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
pub use identity::{Identity, NODE_HEADER};
pub use limits::{Limits, LocalLimits};
pub use passing::end_to_end;
pub use refusal::{closed_connections, refused_by_code};
pub use sessions::{InProgress, Sessions};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
pub use tls::{BadKeys, Clock, KeySet, Standing, TlsKeys, TlsTarget, TlsTrust, check_authorities};
pub use upgrade::{Upgrade, Upgraded};

/// Bytes of a request body: what kube-apiserver takes as well.
pub const BODY_BYTES_MAX: usize = 3 << 20;

/// One client may hold at most this many times the bytes left for others: 3 means three quarters of an idle budget.
pub const BYTES_TIMES: usize = 3;

/// The same of streams, which cost little: eight of nine.
pub const STREAMS_TIMES: usize = 8;

/// Items that wait in the channel of a `Stream`. A watcher with so many unread is slow: its sender is dropped and it
/// resumes.
pub const STREAM_ITEMS_MAX: usize = 64;

/// A forwarded answer may pause for so long between two pieces: a file is read, nobody waits for anything.
pub const FORWARD_IDLE: Duration = Duration::from_secs(30);

/// `Retry-After` in seconds for a client that was refused because of many others: places come free as quickly as
/// answers are read.
const AGAIN_S: u32 = 1;

/// From a request that is forwarded to the head of its answer: an agent may have to ask an engine that is busy.
pub const FORWARD_HEAD: Duration = Duration::from_secs(30);

/// The same of a server that is anybody's own: it may think for a while, as the clients of kube-apiserver let it.
pub const FORWARD_PROXY_HEAD: Duration = Duration::from_secs(120);

/// The same as `FORWARD_IDLE` for a log that is followed and may be quiet for hours: what the kubelet allows an idle
/// stream.
pub const FORWARD_FOLLOW_IDLE: Duration = Duration::from_secs(4 * 3600);

/// On every answer: no browser takes it for a page because it looks like one.
pub(crate) const NO_SNIFFING: (HeaderName, HeaderValue) =
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));

/// A complete request: the body is in memory, and no longer than `BODY_BYTES_MAX`.
#[derive(Debug)]
pub struct Request {
    pub method: Method,
    /// Origin form; percent-encodings are as the client wrote them, possibly wrong.
    pub target: PathAndQuery,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub caller: Caller,
    /// The client's identity, as the port determined it.
    pub identity: Arc<Identity>,
}

impl Request {
    /// The party whose shares this request uses.
    pub fn party(&self) -> Party {
        self.caller.party_of(&self.identity)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Caller {
    Network {
        address: SocketAddr,
    },
    /// Came through a Unix socket that only root can open, or whose listener admits who has connected.
    Local,
}

impl Caller {
    /// The party of a client with this identity: a user of the network counts by name, wherever the user comes from.
    pub fn party_of(&self, identity: &Identity) -> Party {
        match self {
            Caller::Network { .. } if identity.is_personal() => Party::named(&identity.user),
            caller => caller.party(),
        }
    }

    /// The party of a client that has not said who it is.
    pub fn party(&self) -> Party {
        match self {
            Caller::Network { address } => Party::at(*address),
            Caller::Local => Party::Local,
        }
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Body,
}

#[derive(Debug)]
pub enum Body {
    Whole(Bytes),
    Long(Long),
    Stream(Stream),
    /// The carrier fetches the answer and passes its status, content type and body on as they come; `Answer::status`
    /// and `Answer::headers` are not used.
    Forward(Box<Forward>),
    /// The connection is taken over after the head; `Answer::upgrade` makes one. Refused on the local side, and to
    /// whoever has not asked.
    Upgrade(Upgrade),
}

/// A document that is assembled from shared pieces while it is sent, so that the whole document is never in memory.
pub struct Long {
    /// The length of all pieces together.
    pub bytes: usize,
    pub pieces: Box<dyn Iterator<Item = Bytes> + Send>,
}

/// One write and one flush an item, so an item is a watch event or a log line, or some of them.
///
/// The publisher uses `try_send`; full means a slow reader, and its sender is dropped. The body then ends cleanly.
pub struct Stream {
    pub events: channel::Receiver,
    /// Dropped as soon as nobody reads any more: put there what unsubscribes.
    pub lease: Box<dyn Send>,
}

/// Where another HTTP server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    Address(SocketAddr),
    /// The server speaks TLS; its certificate is not verified.
    Tls(SocketAddr),
    /// The Unix socket of a server on this host. A request is sent only if the file is a socket and no link, and if the
    /// file and the listening process belong to root or to this process' own user.
    Socket(PathBuf),
}

impl From<SocketAddr> for Server {
    fn from(address: SocketAddr) -> Server {
        Server::Address(address)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::Address(address) | Server::Tls(address) => address.fmt(f),
            Server::Socket(path) => path.display().fmt(f),
        }
    }
}

/// A request to another HTTP server.
#[derive(Clone, Debug)]
pub struct Forward {
    pub address: Server,
    pub method: Method,
    pub target: PathAndQuery,
    /// Sent along but for what belongs to one connection alone; Host is the address, over a Unix socket localhost. See
    /// `end_to_end`.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// From the request to the head of its answer: `FORWARD_HEAD` or `FORWARD_PROXY_HEAD`.
    pub head: Duration,
    /// The longest pause between two pieces of the body: `FORWARD_IDLE` or `FORWARD_FOLLOW_IDLE`.
    pub idle: Duration,
    pub passes: Passes,
    /// Where its connection is taken over, it leaves places to others: see `Limits::tunnels_max`.
    pub leaves_room: bool,
}

/// The headers of the answer that are passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passes {
    /// Whether it is JSON; else it is text.
    ContentType,
    /// Not even that: what a container says is text, and what it says looks like a page if it wants to. A refusal may
    /// be JSON.
    Log,
    /// The other server may take over the connection, by a protocol that the request names in `Upgrade`: then bytes go
    /// both ways as they come. Where it does not, the same as `ContentType`.
    Upgrade,
    /// All but what belongs to one connection alone and what speaks of this server's origin. A Location on that server
    /// is put behind `prefix`, under which that server is reached here.
    Everything { prefix: String },
}

impl Forward {
    /// A plain GET, of which nothing but the content counts, as text or JSON.
    pub fn get(address: impl Into<Server>, target: PathAndQuery, idle: Duration) -> Forward {
        let address = address.into();
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        Forward {
            address,
            method: Method::GET,
            target,
            headers,
            body,
            head: FORWARD_HEAD,
            idle,
            passes: Passes::ContentType,
            leaves_room: false,
        }
    }
}

/// May block: the carrier calls the handler on a thread in a bounded pool. A panic becomes a 500.
pub type Handler = Arc<dyn Fn(Request) -> Answer + Send + Sync>;

impl Answer {
    pub fn new(status: StatusCode, content_type: &'static str, body: Body) -> Answer {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        Answer { status, headers, body }
    }

    pub fn json(status: StatusCode, document: impl Into<Bytes>) -> Answer {
        Answer::new(status, "application/json", Body::Whole(document.into()))
    }

    pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
        Answer::new(status, "text/plain; charset=utf-8", Body::Whole(text.into()))
    }

    pub fn forward(forward: Forward) -> Answer {
        Answer { status: StatusCode::OK, headers: HeaderMap::new(), body: Body::Forward(Box::new(forward)) }
    }

    /// Goes on with this protocol.
    pub fn upgrade(protocol: HeaderValue, upgrade: Upgrade) -> Answer {
        let connection = HeaderValue::from_static("Upgrade");
        let headers = HeaderMap::from_iter([(header::UPGRADE, protocol), (header::CONNECTION, connection)]);
        Answer { status: StatusCode::SWITCHING_PROTOCOLS, headers, body: Body::Upgrade(upgrade) }
    }

    /// The answer of a carrier that does not ask the handler.
    pub fn refuse(code: StatusCode, reason: &str, message: &str) -> Answer {
        Answer::refuse_in("v1", code, reason, message)
    }

    /// A refusal in the version of the API that was asked.
    pub(crate) fn refuse_in(version: &str, code: StatusCode, reason: &str, message: &str) -> Answer {
        let mut status = serde_json::json!({
            "kind": "Status", "apiVersion": version, "status": "Failure",
            "message": message, "reason": reason, "code": code.as_u16(),
        });
        // The metadata of its time.
        match version {
            "v1beta1" | "v1beta2" => status["creationTimestamp"] = serde_json::Value::Null,
            _ => status["metadata"] = serde_json::json!({}),
        }
        let mut answer = Answer::json(code, status.to_string());
        if code == StatusCode::TOO_MANY_REQUESTS {
            answer.headers.insert(header::RETRY_AFTER, HeaderValue::from(AGAIN_S));
        }
        answer
    }
}

impl Long {
    /// All of it at once.
    pub fn whole(self) -> Bytes {
        let mut whole = Vec::with_capacity(self.bytes);
        self.pieces.for_each(|piece| whole.extend_from_slice(&piece));
        whole.into()
    }
}

impl fmt::Debug for Long {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Long").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_count_by_name_and_strangers_by_address() {
        let caller = |last: u8| Caller::Network { address: SocketAddr::from(([10, 0, 0, last], 1)) };
        let of = |last: u8, user: &str| caller(last).party_of(&Identity { user: user.to_owned(), ..Identity::none() });
        assert_eq!(of(1, "ann"), of(2, "ann"));
        assert_ne!(of(1, "ann"), of(1, "bob"));
        for shared in ["", "system:anonymous", "system:admin"] {
            assert_eq!(of(1, shared), caller(1).party());
            assert_ne!(of(1, shared), of(2, shared));
        }
        let ann = Identity { user: "ann".to_owned(), ..Identity::none() };
        assert_eq!(Caller::Local.party_of(&ann), Party::Local);
    }
}

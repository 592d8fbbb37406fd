//! The other direction: the agent's calls to the master, one connection each.
//!
//! A pool would be no gain: over the Unix socket a short request must close its connection (the other side has few
//! threads, and overlooks connections in a burst), and a heartbeat in ten seconds does not pay for a kept one over TCP.
use crate::outbound::{self, Driven, Fetched};
pub use crate::pieces::Pieces;
pub use crate::target::{BadTarget, Target};
use crate::upgrade::Upgraded;
use crate::{HeaderMap, HeaderValue, Method, NODE_HEADER, StatusCode, header, websocket};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Bytes of a line in a watch: an object as large as the largest request body, with its defaults and the event around
/// the object.
pub const LINE_BYTES_MAX: usize = crate::BODY_BYTES_MAX + (1 << 20);

/// Bytes of a whole reply: a list of some thousand pods.
pub const REPLY_BYTES_MAX: usize = 32 << 20;

/// From the first byte to the whole reply.
pub const CALL: Duration = Duration::from_secs(30);

/// Until the other side accepts; a Unix socket's backlog and a host that is down alike.
pub const CONNECT: Duration = Duration::from_secs(5);

/// From the request to the head of its answer; the local side picks up an overlooked connection within a second.
pub const HEAD: Duration = Duration::from_secs(10);

/// The key of a WebSocket handshake: a fresh key would detect a cached answer. This key is constant, because the
/// agent's socket has no cache.
const KEY: &str = "Y29yYWNsZS1hZ2VudC0xLg==";

#[derive(Clone)]
pub struct Client {
    target: Arc<Target>,
    /// The `User-Agent` of this client.
    name: &'static str,
    /// The node for which this client speaks.
    node: Option<HeaderValue>,
    /// Held while a watch is opened, so that watches are opened in sequence.
    opening: Arc<Mutex<()>>,
}

#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A watch that is open: documents, one a line, as they come.
pub struct Lines {
    target: Arc<Target>,
    body: Incoming,
    read: BytesMut,
    /// This much of `read` has been looked through for an end of line.
    searched: usize,
    _connection: Driven,
}

#[derive(Debug)]
pub enum CallError {
    /// Nobody listens, or nobody can be reached.
    Unreachable(Arc<Target>, io::Error),
    /// The step that did not happen in time.
    Slow(Arc<Target>, &'static str),
    /// The connection ended, or did not speak HTTP, before the reply was whole.
    Broken(Arc<Target>, String),
    /// The part that was longer than its limit in bytes.
    TooLarge(Arc<Target>, &'static str, usize),
    /// A watch was refused; the reply says why.
    Refused(Arc<Target>, Box<Reply>),
}

impl Client {
    pub fn new(target: Target, name: &'static str) -> Client {
        Client { target: Arc::new(target), name, node: None, opening: Arc::default() }
    }

    /// Names the node in each request: the server gives this client the rights of the agent of that node.
    pub fn speaking_for(self, node: &str) -> Client {
        Client { node: HeaderValue::from_str(node).ok(), ..self }
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Any status is a reply. `path_and_query` is as it goes out: what needs percent-encoding has it.
    pub async fn call(&self, method: Method, path_and_query: &str, body: Option<Bytes>) -> Result<Reply, CallError> {
        self.send(method, path_and_query, body.map(|body| ("application/json", body))).await
    }

    /// Fetches a document unless it is unchanged: `known` are the headers that name the known version. A document of
    /// more than `bytes_max` bytes is an error.
    pub async fn look(&self, path_and_query: &str, known: &HeaderMap, bytes_max: usize) -> Result<Reply, CallError> {
        let mut request = self.request(Method::GET, path_and_query).header(header::CONNECTION, "close");
        for (name, value) in known {
            request = request.header(name, value);
        }
        let whole = async { self.reply_of(self.fetch_as(request, None).await?, bytes_max).await };
        timeout(CALL, whole).await.map_err(|_| self.slow("the whole reply"))?
    }

    /// `language`: the content type that says how the patch is meant.
    pub async fn patch(&self, path_and_query: &str, language: &'static str, patch: Bytes) -> Result<Reply, CallError> {
        self.send(Method::PATCH, path_and_query, Some((language, patch))).await
    }

    async fn send(
        &self,
        method: Method,
        path_and_query: &str,
        body: Option<(&'static str, Bytes)>,
    ) -> Result<Reply, CallError> {
        let whole = async {
            let fetched = self.fetch(method, path_and_query, body).await?;
            self.reply(fetched).await
        };
        timeout(CALL, whole).await.map_err(|_| self.slow("the whole reply"))?
    }

    /// An answer of any length, to be read piece by piece; a status other than 200 is `CallError::Refused`. `head`: the
    /// longest time until the answer begins; some servers begin with the first piece.
    pub async fn pieces(&self, path_and_query: &str, head: Duration) -> Result<Pieces, CallError> {
        let request = self.request(Method::GET, path_and_query).header(header::CONNECTION, "close");
        let fetched = self.fetch_within(head, request, None).await?;
        if fetched.head.status != StatusCode::OK {
            let reply = timeout(CALL, self.reply(fetched)).await.map_err(|_| self.slow("the whole reply"))??;
            return Err(CallError::Refused(self.target.clone(), Box::new(reply)));
        }
        Ok(Pieces::new(self.target.clone(), fetched))
    }

    /// Opens a watch; an answer that is not 200 is `CallError::Refused`.
    pub async fn stream(&self, path_and_query: &str) -> Result<Lines, CallError> {
        let _turn = self.opening.lock().await;
        let fetched = self.fetch(Method::GET, path_and_query, None).await?;
        if fetched.head.status != StatusCode::OK {
            let reply = timeout(CALL, self.reply(fetched)).await.map_err(|_| self.slow("the whole reply"))??;
            return Err(CallError::Refused(self.target.clone(), Box::new(reply)));
        }
        Ok(Lines {
            target: self.target.clone(),
            body: fetched.body,
            read: BytesMut::new(),
            searched: 0,
            _connection: fetched.connection,
        })
    }

    /// Asks with a POST to go on with another protocol; an answer that does not is `CallError::Refused`.
    pub async fn take_over(
        &self,
        path_and_query: &str,
        protocol: &'static str,
        body: Bytes,
    ) -> Result<Upgraded, CallError> {
        self.go_on(
            self.request(Method::POST, path_and_query).header(header::UPGRADE, protocol),
            Some(("application/json", body)),
        )
        .await
    }

    /// Goes on as a WebSocket with this protocol in it; see `websocket::begin`. An answer that does not is
    /// `CallError::Refused`.
    pub async fn web_socket(&self, path_and_query: &str, protocol: &'static str) -> Result<Upgraded, CallError> {
        let request = self.request(Method::GET, path_and_query).header(header::UPGRADE, "websocket");
        let request =
            request.header(header::SEC_WEBSOCKET_VERSION, websocket::VERSION).header(header::SEC_WEBSOCKET_KEY, KEY);
        self.go_on(request.header(header::SEC_WEBSOCKET_PROTOCOL, protocol), None).await
    }

    async fn go_on(
        &self,
        request: http::request::Builder,
        body: Option<(&'static str, Bytes)>,
    ) -> Result<Upgraded, CallError> {
        let fetched = self.fetch_as(request.header(header::CONNECTION, "Upgrade"), body).await?;
        if fetched.head.status != StatusCode::SWITCHING_PROTOCOLS {
            let reply = timeout(CALL, self.reply(fetched)).await.map_err(|_| self.slow("the whole reply"))??;
            return Err(CallError::Refused(self.target.clone(), Box::new(reply)));
        }
        let taken_over = hyper::upgrade::on(http::Response::from_parts(fetched.head, ())).await;
        Ok(taken_over.map_err(|e| self.broken(&e))?.into())
    }

    async fn fetch(
        &self,
        method: Method,
        path_and_query: &str,
        body: Option<(&'static str, Bytes)>,
    ) -> Result<Fetched, CallError> {
        self.fetch_as(self.request(method, path_and_query).header(header::CONNECTION, "close"), body).await
    }

    fn request(&self, method: Method, path_and_query: &str) -> http::request::Builder {
        let request = http::Request::builder().method(method).uri(path_and_query);
        let request = request.header(header::HOST, self.target.host()).header(header::USER_AGENT, self.name);
        match &self.node {
            Some(node) => request.header(NODE_HEADER, node),
            None => request,
        }
    }

    async fn fetch_as(
        &self,
        request: http::request::Builder,
        body: Option<(&'static str, Bytes)>,
    ) -> Result<Fetched, CallError> {
        self.fetch_within(HEAD, request, body).await
    }

    async fn fetch_within(
        &self,
        head: Duration,
        mut request: http::request::Builder,
        body: Option<(&'static str, Bytes)>,
    ) -> Result<Fetched, CallError> {
        if let Some((form, _)) = &body {
            request = request.header(header::CONTENT_TYPE, *form);
        }
        let unreachable = |e| CallError::Unreachable(self.target.clone(), e);
        if let Some(token) = self.target.token().map_err(unreachable)? {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request =
            request.body(Full::new(body.map(|(_, body)| body).unwrap_or_default())).map_err(|e| self.broken(&e))?;
        let fetched = match &*self.target {
            Target::Unix(path) => {
                let wire = timeout(CONNECT, UnixStream::connect(path)).await;
                let wire = wire.map_err(|_| self.slow("a connection"))?.map_err(unreachable)?;
                timeout(head, outbound::fetch(wire, request)).await
            }
            Target::Tcp { host, port } => {
                let wire = timeout(CONNECT, TcpStream::connect((host.trim_matches(['[', ']']), *port))).await;
                let wire = wire.map_err(|_| self.slow("a connection"))?.map_err(unreachable)?;
                timeout(head, outbound::fetch(wire, request)).await
            }
            Target::Tls(target) => {
                let host = (target.host.trim_matches(['[', ']']), target.port);
                let opened = async { target.open(TcpStream::connect(host).await?).await };
                let wire = timeout(CONNECT, opened).await;
                let wire = wire.map_err(|_| self.slow("a connection"))?.map_err(unreachable)?;
                timeout(head, outbound::fetch(wire, request)).await
            }
        };
        fetched.map_err(|_| self.slow("an answer"))?.map_err(|e| self.broken(&e))
    }

    async fn reply(&self, fetched: Fetched) -> Result<Reply, CallError> {
        self.reply_of(fetched, REPLY_BYTES_MAX).await
    }

    async fn reply_of(&self, fetched: Fetched, bytes_max: usize) -> Result<Reply, CallError> {
        let body = outbound::whole(fetched.body, bytes_max).await.map_err(|e| self.broken(&e))?;
        let body = body.ok_or_else(|| CallError::TooLarge(self.target.clone(), "reply", bytes_max))?;
        Ok(Reply { status: fetched.head.status, headers: fetched.head.headers, body })
    }

    fn slow(&self, what: &'static str) -> CallError {
        CallError::Slow(self.target.clone(), what)
    }

    fn broken(&self, cause: &dyn std::error::Error) -> CallError {
        CallError::Broken(self.target.clone(), chain(cause))
    }
}

impl Lines {
    /// The next line without its end; blank ones, which a quiet watch sends, are skipped. `None` when the server has
    /// ended the watch. Safe to drop and call again: nothing that was read is lost.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            while let Some(end) = self.read[self.searched..].iter().position(|byte| *byte == b'\n') {
                let mut line = self.read.split_to(self.searched + end + 1);
                self.searched = 0;
                line.truncate(line.len() - 1);
                if !line.trim_ascii().is_empty() {
                    return Ok(Some(line.freeze()));
                }
            }
            self.searched = self.read.len();
            if self.searched > LINE_BYTES_MAX {
                return Err(CallError::TooLarge(self.target.clone(), "line of a watch", LINE_BYTES_MAX));
            }
            match self.body.frame().await {
                None if self.read.trim_ascii().is_empty() => return Ok(None),
                None => {
                    return Err(CallError::Broken(
                        self.target.clone(),
                        "the watch ended in the middle of a line".into(),
                    ));
                }
                Some(Err(e)) => return Err(CallError::Broken(self.target.clone(), chain(&e))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Unreachable(target, e) => write!(f, "{target}: {e}"),
            CallError::Slow(target, what) => write!(f, "{target}: {what} did not come in time"),
            CallError::Broken(target, cause) => write!(f, "{target}: the connection broke: {cause}"),
            CallError::TooLarge(target, what, bytes_max) => {
                write!(f, "{target}: a {what} is longer than {bytes_max} bytes")
            }
            CallError::Refused(target, reply) => write!(f, "{target}: answered {} to a watch", reply.status),
        }
    }
}

/// `Display` prints all causes already: a `source` would repeat the causes.
impl std::error::Error for CallError {}

/// hyper tells the step in its error and the reason in its source.
pub(crate) fn chain(e: &dyn std::error::Error) -> String {
    match e.source() {
        None => e.to_string(),
        Some(source) => format!("{e}: {}", chain(source)),
    }
}

//! Sends one request over a new connection, for forwarded answers and for the agent's client. hyper speaks HTTP,
//! callers set the limits.
use crate::links::Links;
use crate::passing::{asks_for_pages, end_to_end, is_page, passed, passed_on};
use crate::refusal::Refusal;
use crate::socket_file::{SocketFile, is_trusted};
use crate::tls;
use crate::upgrade::{Upgraded, asked, is_agreed};
use crate::{Forward, HeaderMap, HeaderValue, Passes, Server, StatusCode, header};
use bytes::Bytes;
use http::Version;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming, SizeHint};
use hyper_util::rt::TokioIo;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// A server on this host accepts at once, or its backlog is full.
const FORWARD_CONNECT: Duration = Duration::from_secs(5);

/// Bytes of an answer's head, and bytes that hyper reads ahead of the reader.
const READ_BYTES_MAX: usize = 64 * 1024;

pub(crate) struct Fetched {
    pub(crate) head: http::response::Parts,
    pub(crate) body: Incoming,
    pub(crate) connection: Driven,
}

/// The task that moves a connection's bytes; ends with its owner.
pub(crate) struct Driven(JoinHandle<()>);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) async fn fetch<S, B>(wire: S, request: http::Request<B>) -> hyper::Result<Fetched>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: std::error::Error + Send + Sync,
{
    let mut builder = hyper::client::conn::http1::Builder::new();
    let (mut sender, connection) = builder.max_buf_size(READ_BYTES_MAX).handshake(TokioIo::new(wire)).await?;
    let connection = Driven(tokio::spawn(async move {
        // Its errors reach the reader of the body as well.
        let _ = connection.with_upgrades().await;
    }));
    let (head, body) = sender.send_request(request).await?.into_parts();
    Ok(Fetched { head, body, connection })
}

/// An answer on its way through: the head has come, the body comes.
pub(crate) struct Forwarded {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    /// Rewrites the links in a page. None: the answer is no page.
    links: Option<Links>,
    ended: bool,
    idle: Duration,
    idle_until: Pin<Box<Sleep>>,
    _connection: Driven,
}

/// The outcome of a request to another server.
pub(crate) enum Reached {
    Answer(Forwarded),
    /// The server takes over the connection, and has answered with these headers.
    Upgraded(HeaderMap, Upgraded),
}

/// Must run on a tokio runtime with io and time.
pub(crate) async fn forward(forward: &Forward) -> Result<Reached, Refusal> {
    let address = &forward.address;
    let silent = |what| Refusal::Silent(format!("{address} {what}"));
    let broken = |why: &dyn std::fmt::Display| Refusal::Unreachable(format!("{address} cannot be asked: {why}"));
    let request = http::Request::builder().method(forward.method.clone()).uri(forward.target.as_str());
    let mut request = request.body(Full::new(forward.body.clone())).map_err(|e| broken(&e))?;
    let mut sent = end_to_end(&forward.headers);
    let authority = authority(address);
    sent.insert(header::HOST, HeaderValue::from_str(&authority).map_err(|e| broken(&e))?);
    if matches!(forward.passes, Passes::Everything { .. }) && asks_for_pages(&sent) {
        sent.remove(header::ACCEPT_ENCODING);
    }
    let asked = (forward.passes == Passes::Upgrade).then(|| asked(Version::HTTP_11, &forward.headers)).flatten();
    match forward.headers.get(header::UPGRADE).filter(|_| asked.is_some()) {
        Some(protocols) => {
            sent.insert(header::UPGRADE, protocols.clone());
            sent.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        }
        None => drop(sent.insert(header::CONNECTION, HeaderValue::from_static("close"))),
    }
    *request.headers_mut() = sent;
    let deaf = |_| silent("does not accept connections");
    let patience = forward.head.min(forward.idle);
    let fetched = match address {
        Server::Address(address) => {
            let wire =
                timeout(FORWARD_CONNECT, TcpStream::connect(address)).await.map_err(deaf)?.map_err(|e| broken(&e))?;
            timeout(patience, fetch(wire, request)).await
        }
        Server::Tls(address) => {
            let wire =
                timeout(FORWARD_CONNECT, TcpStream::connect(address)).await.map_err(deaf)?.map_err(|e| broken(&e))?;
            let host = address.ip().to_string();
            let wire = timeout(FORWARD_CONNECT, tls::open(wire, &host))
                .await
                .map_err(|_| silent("does not speak TLS"))?
                .map_err(|e| broken(&e))?;
            timeout(patience, fetch(wire, request)).await
        }
        Server::Socket(path) => {
            let wire = timeout(FORWARD_CONNECT, connect_own(path)).await.map_err(deaf)?.map_err(|e| broken(&e))?;
            timeout(patience, fetch(wire, request)).await
        }
    };
    let fetched = fetched.map_err(|_| silent("does not answer"))?.map_err(|e| broken(&e))?;
    if fetched.head.status == StatusCode::SWITCHING_PROTOCOLS {
        // What follows is no HTTP.
        if !asked.is_some_and(|asked| is_agreed(&asked, &fetched.head.headers)) {
            return Err(Refusal::Unreachable(format!("{address} changes to another protocol, which nobody asked for")));
        }
        let head = passed_on(&fetched.head.headers);
        let taken_over =
            hyper::upgrade::on(http::Response::from_parts(fetched.head, ())).await.map_err(|e| broken(&e))?;
        return Ok(Reached::Upgraded(head, taken_over.into()));
    }
    let links = match &forward.passes {
        Passes::Everything { prefix } if is_page(fetched.head.status, &fetched.head.headers) => {
            Links::new(&authority, prefix)
        }
        _ => None,
    };
    Ok(Reached::Answer(Forwarded {
        status: fetched.head.status,
        headers: passed(&forward.passes, &authority, fetched.head.status, &fetched.head.headers),
        body: fetched.body,
        links,
        ended: false,
        idle: forward.idle,
        idle_until: Box::pin(sleep(forward.idle)),
        _connection: fetched.connection,
    }))
}

/// The `Host` of a request. The path of a Unix socket is no host.
fn authority(server: &Server) -> String {
    match server {
        Server::Address(address) | Server::Tls(address) => address.to_string(),
        Server::Socket(_) => "localhost".to_owned(),
    }
}

/// To a program of root's or of one's own, whatever lies at the path.
async fn connect_own(path: &Path) -> io::Result<UnixStream> {
    let file = SocketFile::open(path)?;
    let wire = UnixStream::connect(file.address()).await?;
    let uid = wire.peer_cred()?.uid();
    if is_trusted(uid) {
        Ok(wire)
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("user {uid} listens there")))
    }
}

impl Forwarded {
    /// An error in the middle of a body must reach the client as an error: the client has only a part of the body.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                ready!(self.idle_until.as_mut().poll(cx));
                return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
            };
            self.idle_until.as_mut().reset(Instant::now() + self.idle);
            match frame {
                None => {
                    self.ended = true;
                    let rest = self.links.as_mut().map(Links::end).filter(|rest| !rest.is_empty());
                    return Poll::Ready(rest.map(|rest| Ok(rest.into())));
                }
                Some(Err(e)) => return Poll::Ready(Some(Err(io::Error::other(e)))),
                Some(Ok(frame)) => {
                    let Ok(mut piece) = frame.into_data() else { continue };
                    if let Some(links) = &mut self.links {
                        piece = links.push(&piece).into();
                        if piece.is_empty() {
                            continue;
                        }
                    }
                    return Poll::Ready(Some(Ok(piece)));
                }
            }
        }
    }

    pub(crate) async fn piece(&mut self) -> Option<io::Result<Bytes>> {
        std::future::poll_fn(|cx| self.poll_piece(cx)).await
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        // A page whose links change has another length.
        if self.links.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}

/// The rest of a body, or how it failed; `None` when it is longer than `bytes_max`.
pub(crate) async fn whole(mut body: Incoming, bytes_max: usize) -> hyper::Result<Option<Bytes>> {
    if body.size_hint().lower() > bytes_max as u64 {
        return Ok(None);
    }
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if whole.len() + data.len() > bytes_max {
            return Ok(None);
        }
        whole.extend_from_slice(&data);
    }
    Ok(Some(whole.into()))
}

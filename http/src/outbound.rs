//! One request over a connection of its own: what a forwarded answer and the agent's client share. hyper speaks, callers bound.
use crate::refusal::Refusal;
use crate::{Forward, HeaderMap, HeaderName, HeaderValue, Passes, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming, SizeHint};
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// A server on this host accepts at once, or its backlog is full.
const FORWARD_CONNECT: Duration = Duration::from_secs(5);

/// What belongs to one connection and is not passed on (RFC 9110, 7.6.1, and older names); `Connection` may name more.
const OF_ONE_CONNECTION: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Bytes of the head of an answer, and of what is read ahead of its reader.
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
        let _ = connection.await;
    }));
    let (head, body) = sender.send_request(request).await?.into_parts();
    Ok(Fetched { head, body, connection })
}

/// An answer on its way through: the head has come, the body comes.
pub(crate) struct Forwarded {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    idle: Duration,
    idle_until: Pin<Box<Sleep>>,
    _connection: Driven,
}

/// Must run on a tokio runtime with io and time.
pub(crate) async fn forward(forward: &Forward) -> Result<Forwarded, Refusal> {
    let address = forward.address;
    let silent = |what| Refusal::Silent(format!("{address} {what}"));
    let broken = |why: &dyn std::fmt::Display| Refusal::Unreachable(format!("{address} cannot be asked: {why}"));
    let connect = timeout(FORWARD_CONNECT, TcpStream::connect(address));
    let wire = connect.await.map_err(|_| silent("does not accept connections"))?.map_err(|e| broken(&e))?;
    let request = http::Request::builder().method(forward.method.clone()).uri(forward.target.as_str());
    let mut request = request.body(Full::new(forward.body.clone())).map_err(|e| broken(&e))?;
    let mut sent = passing(&forward.headers);
    sent.insert(header::HOST, HeaderValue::from_str(&address.to_string()).map_err(|e| broken(&e))?);
    sent.insert(header::CONNECTION, HeaderValue::from_static("close"));
    *request.headers_mut() = sent;
    let fetched = timeout(forward.head.min(forward.idle), fetch(wire, request)).await;
    let fetched = fetched.map_err(|_| silent("does not answer"))?.map_err(|e| broken(&e))?;
    Ok(Forwarded {
        status: fetched.head.status,
        headers: passed(forward, &fetched.head.headers),
        body: fetched.body,
        idle: forward.idle,
        idle_until: Box::pin(sleep(forward.idle)),
        _connection: fetched.connection,
    })
}

/// Of the answer's head.
fn passed(forward: &Forward, headers: &HeaderMap) -> HeaderMap {
    match &forward.passes {
        Passes::ContentType => headers.get(header::CONTENT_TYPE).map(|value| (header::CONTENT_TYPE, value.clone())).into_iter().collect(),
        Passes::Everything { prefix } => {
            let mut passed = passing(headers);
            let location = passed.get(header::LOCATION).and_then(|value| value.to_str().ok());
            let moved = location.and_then(|value| behind(value, forward.address, prefix));
            if let Some(moved) = moved.and_then(|moved| HeaderValue::from_str(&moved).ok()) {
                passed.insert(header::LOCATION, moved);
            }
            passed
        }
    }
}

/// Without what belongs to one connection alone, and without the length: each carrier says its own.
fn passing(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let stays = |name: &HeaderName| {
        !OF_ONE_CONNECTION.contains(&name.as_str()) && *name != header::CONTENT_LENGTH && !named.iter().any(|other| name.as_str() == other)
    };
    headers.iter().filter(|(name, _)| stays(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A link to the server at `address` as it is reached through here. None: it leads elsewhere, or on from where it stands.
fn behind(location: &str, address: SocketAddr, prefix: &str) -> Option<String> {
    let authority = address.to_string();
    let of_http = location.strip_prefix("http://").or_else(|| location.strip_prefix("//"));
    let path = match of_http {
        Some(rest) => {
            // Without a port it is that of HTTP.
            let bare = authority.strip_suffix(":80").unwrap_or(&authority);
            rest.strip_prefix(&*authority)
                .or_else(|| rest.strip_prefix(bare))
                .filter(|path| path.is_empty() || path.starts_with(['/', '?', '#']))?
        }
        None => Some(location).filter(|path| path.starts_with('/'))?,
    };
    let slash = if path.starts_with('/') { "" } else { "/" };
    Some(format!("{prefix}{slash}{path}"))
}

impl Forwarded {
    /// An error in the middle of a body must reach the client as one: what it has is not whole.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                ready!(self.idle_until.as_mut().poll(cx));
                return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
            };
            self.idle_until.as_mut().reset(Instant::now() + self.idle);
            match frame {
                None => return Poll::Ready(None),
                Some(Err(e)) => return Poll::Ready(Some(Err(io::Error::other(e)))),
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        return Poll::Ready(Some(Ok(piece)));
                    }
                }
            }
        }
    }

    pub(crate) async fn piece(&mut self) -> Option<io::Result<Bytes>> {
        std::future::poll_fn(|cx| self.poll_piece(cx)).await
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_one_connection_stays_there() {
        let table = [
            ("connection", "close, X-Mine"),
            ("x-mine", "1"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("content-length", "5"),
            ("proxy-authorization", "x"),
            ("set-cookie", "a=b"),
            ("set-cookie", "c=d"),
            ("x-other", "2"),
        ];
        let headers = table.into_iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect();
        let passed = passing(&headers);
        let mut names: Vec<&str> = passed.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["set-cookie", "set-cookie", "x-other"]);
    }

    #[test]
    fn links_to_that_server_lead_through_here() {
        let (web, other) = ("10.1.2.3:80".parse().expect("an address"), "[fd00::1]:8080".parse().expect("an address"));
        for (location, address, expected) in [
            ("/login?x=1", web, Some("/p/login?x=1")),
            ("http://10.1.2.3/login", web, Some("/p/login")),
            ("http://10.1.2.3:80", web, Some("/p/")),
            ("http://10.1.2.3:8080/", web, None),
            ("http://10.1.2.30/", web, None),
            ("//10.1.2.3/a", web, Some("/p/a")),
            ("//elsewhere/a", web, None),
            ("https://10.1.2.3/", web, None),
            ("http://elsewhere/", web, None),
            ("next", web, None),
            ("?page=2", web, None),
            ("http://[fd00::1]:8080/a", other, Some("/p/a")),
        ] {
            assert_eq!(behind(location, address, "/p").as_deref(), expected, "{location}");
        }
    }
}

//! An answer that takes over its connection: after a 101 both ends speak what they have agreed on, and no HTTP.
//!
//!     Upgrade     the handler's: a task of the network's runtime gets the connection, no thread
//!     tunnel      the carrier's own: bytes both ways between two such connections, each way ended for itself
//!
//! Only what hyper carries can be upgraded. A client must have asked for it, over HTTP/1.1, and by the name of the
//! protocol.
use crate::{HeaderMap, HeaderName, header};
use http::Version;
use hyper_util::rt::TokioIo;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, split};
use tokio::time::sleep;

/// Bytes of each way of a tunnel, in memory as long as it stands.
const TUNNEL_BYTES: usize = 8 * 1024;

/// A connection from its 101 on.
pub struct Upgraded(TokioIo<hyper::upgrade::Upgraded>);

/// The task that has the connection; the connection ends with it.
pub type Run = Box<dyn FnOnce(Upgraded) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Takes over a connection. The answer names the protocol in `Upgrade`: see `Answer::upgrade`.
pub struct Upgrade {
    pub(crate) run: Run,
    pub(crate) leaves_room: bool,
}

impl Upgrade {
    pub fn new<F: Future<Output = ()> + Send + 'static>(run: impl FnOnce(Upgraded) -> F + Send + 'static) -> Upgrade {
        Upgrade { run: Box::new(|upgraded| Box::pin(run(upgraded))), leaves_room: false }
    }

    /// It may stand for hours: it leaves places to others.
    pub fn leaving_room(self) -> Upgrade {
        Upgrade { leaves_room: true, ..self }
    }
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgrade").finish_non_exhaustive()
    }
}

impl From<hyper::upgrade::Upgraded> for Upgraded {
    fn from(upgraded: hyper::upgrade::Upgraded) -> Upgraded {
        Upgraded(TokioIo::new(upgraded))
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// The protocols that a client would go on with, best first. None: it has not asked to leave HTTP, or speaks one that
/// cannot.
pub(crate) fn asked(version: Version, headers: &HeaderMap) -> Option<Vec<String>> {
    let protocols: Vec<String> = words(headers, header::UPGRADE).map(str::to_owned).collect();
    (version == Version::HTTP_11 && is_named(headers) && !protocols.is_empty()).then_some(protocols)
}

/// Whether `Connection` names it.
pub(crate) fn is_named(headers: &HeaderMap) -> bool {
    words(headers, header::CONNECTION).any(|word| word.eq_ignore_ascii_case("upgrade"))
}

fn words(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// Whether an answer goes on with one of these.
pub(crate) fn is_agreed(asked: &[String], answer: &HeaderMap) -> bool {
    let said = answer.get(header::UPGRADE).and_then(|value| value.to_str().ok());
    said.is_some_and(|said| asked.iter().any(|protocol| protocol.eq_ignore_ascii_case(said)))
}

/// Bytes both ways, until both have ended, one fails, or nothing has come for `idle`. Who sends no more may still be
/// sent to.
pub(crate) async fn tunnel(near: Upgraded, far: Upgraded, idle: Duration) {
    let moved = AtomicU64::new(0);
    let ((near_reads, near_writes), (far_reads, far_writes)) = (split(near), split(far));
    let both = async { tokio::try_join!(pump(near_reads, far_writes, &moved), pump(far_reads, near_writes, &moved)) };
    tokio::select! {
        ended = both => drop(ended),
        () = quiet(&moved, idle) => {}
    }
}

async fn pump(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, moved: &AtomicU64) -> io::Result<()> {
    let mut bytes = vec![0; TUNNEL_BYTES];
    loop {
        match from.read(&mut bytes).await? {
            0 => return to.shutdown().await,
            read => {
                to.write_all(&bytes[..read]).await?;
                to.flush().await?;
                moved.fetch_add(1, Relaxed);
            }
        }
    }
}

/// Between one and two times `idle` after the last that has moved.
async fn quiet(moved: &AtomicU64, idle: Duration) {
    let mut before = moved.load(Relaxed);
    loop {
        sleep(idle).await;
        let now = moved.load(Relaxed);
        if now == before {
            return;
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeaderValue;

    #[test]
    fn who_asks_to_leave_http() {
        for (version, fields, expected) in [
            (Version::HTTP_11, &[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")][..], Some(vec!["SPDY/3.1"])),
            (Version::HTTP_11, &[("connection", "keep-alive, upgrade"), ("upgrade", "a, b")], Some(vec!["a", "b"])),
            (Version::HTTP_11, &[("connection", "upgrade")], None),
            (Version::HTTP_11, &[("upgrade", "a")], None),
            (Version::HTTP_11, &[("connection", "close"), ("upgrade", "a")], None),
            (Version::HTTP_11, &[("connection", "upgrade"), ("upgrade", " ,")], None),
            (Version::HTTP_10, &[("connection", "upgrade"), ("upgrade", "a")], None),
        ] {
            let field = |(name, value): &(&'static str, &'static str)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            };
            let headers: HeaderMap = fields.iter().map(field).collect();
            let asked = asked(version, &headers);
            assert_eq!(
                asked.as_deref(),
                expected.map(|all| all.into_iter().map(str::to_owned).collect::<Vec<_>>()).as_deref(),
                "{fields:?}"
            );
        }
    }
}

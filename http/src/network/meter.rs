//! Counts the bytes of an HTTP/2 connection, and ends one whose client sends frames that cost it nothing: PRIORITY,
//! WINDOW_UPDATE, PING, SETTINGS and unknown frames in masses make this side work and ask for nothing.
//!
//! What a client may send: so much for each request and for the time that passes, its bodies, and a part of what it is
//! sent, for which it opens its windows.
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Bytes that are free for a connection: its preface and settings.
const FREE: u64 = 64 * 1024;

/// Bytes of a request: its head, and frames around it.
const OF_REQUEST: u64 = 32 * 1024;

/// A client that reads a watch opens its windows twice, with 13 bytes, for each event; an acknowledgement of a PING is
/// as long as the PING.
const WRITTEN_PART: u64 = 4;

/// Bytes that a quiet connection may send in a second: clients ping.
const OF_SECOND: u64 = 1024;

/// The share that a body has of the bytes around it: frames of a few bytes are within this.
const BODY_TIMES: u64 = 2;

/// The counts of a connection.
pub(super) struct Meter {
    begun: Instant,
    read: AtomicU64,
    written: AtomicU64,
    earned: AtomicU64,
    flooded: AtomicBool,
}

impl Meter {
    pub(super) fn new() -> Arc<Meter> {
        let zero = || AtomicU64::new(0);
        Arc::new(Meter {
            begun: Instant::now(),
            read: zero(),
            written: zero(),
            earned: zero(),
            flooded: AtomicBool::new(false),
        })
    }

    /// A request has come.
    pub(super) fn requested(&self) {
        self.earned.fetch_add(OF_REQUEST, Relaxed);
    }

    /// Bytes of a body have come.
    pub(super) fn body(&self, bytes: usize) {
        self.earned.fetch_add(BODY_TIMES * bytes as u64, Relaxed);
    }

    /// Whether the connection was ended for its frames.
    pub(super) fn has_ended(&self) -> bool {
        self.flooded.load(Relaxed)
    }

    fn is_flooded(&self) -> bool {
        let read = self.read.load(Relaxed);
        let paid = FREE + self.earned.load(Relaxed) + self.written.load(Relaxed) / WRITTEN_PART;
        // The clock is read only where the rest does not do.
        read > paid && read > paid + OF_SECOND * self.begun.elapsed().as_secs()
    }
}

/// A connection whose bytes are counted.
pub(super) struct Metered<S> {
    pub(super) wire: S,
    pub(super) meter: Arc<Meter>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.wire).poll_read(cx, buffer))?;
        self.meter.read.fetch_add((buffer.filled().len() - before) as u64, Relaxed);
        if self.meter.is_flooded() {
            self.meter.flooded.store(true, Relaxed);
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.wire).poll_write(cx, bytes))?;
        self.meter.written.fetch_add(written as u64, Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.wire).poll_write_vectored(cx, parts))?;
        self.meter.written.fetch_add(written as u64, Relaxed);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_more_than_it_asks_for() {
        let after = |read: u64, written: u64, requests: usize, body: usize| {
            let meter = Meter::new();
            meter.read.store(read, Relaxed);
            meter.written.store(written, Relaxed);
            (0..requests).for_each(|_| meter.requested());
            meter.body(body);
            meter.is_flooded()
        };
        for (read, written, requests, body, flooded) in [
            (FREE, 0, 0, 0, false),
            (FREE + 2 * OF_SECOND, 0, 0, 0, true),
            (FREE + OF_REQUEST, 0, 1, 0, false),
            // A body of a few bytes a frame, and a large one.
            (FREE + OF_REQUEST + 1000, 0, 1, 500, false),
            (FREE + OF_REQUEST + (3 << 20) + 2000, 0, 1, 3 << 20, false),
            // A watch whose reader opens its windows after each event of 200 bytes.
            (26 * 100_000, 200 * 100_000, 1, 0, false),
            // PINGs, and what they are answered with.
            (17 * 100_000, 17 * 100_000, 1, 0, true),
        ] {
            assert_eq!(after(read, written, requests, body), flooded, "{read} {written} {requests} {body}");
        }
    }
}

//! A connection's socket, as hyper reads it: where a head is due, its request line is first put into what hyper's
//! parser takes.
//!
//! `curl '.../pods?labelSelector=a>5'` is taken by Go's server; hyper answers it by itself, with an empty 400.
use bytes::Bytes;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A socket, or the layer above it that deciphers its bytes; what is written goes through as it is.
pub(super) struct SocketReader<S> {
    pub(super) socket: S,
    /// The next bytes begin a request.
    pub(super) head_due: Arc<AtomicBool>,
    /// The bytes that no longer fit the buffer that hyper gave.
    pub(super) rest: Bytes,
}

impl<S: AsyncRead + Unpin> AsyncRead for SocketReader<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.socket).poll_read(cx, buffer))?;
            if self.head_due.load(Relaxed)
                && let Some(mended) = mended(&buffer.filled()[before..])
            {
                buffer.set_filled(before);
                self.rest = mended.into();
            }
        }
        let taken = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest.split_to(taken));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SocketReader<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// None: what was read does not begin with a request line, or there is nothing to mend in it.
fn mended(read: &[u8]) -> Option<Vec<u8>> {
    let end = read.iter().position(|byte| *byte == b'\n').unwrap_or(read.len());
    let method = read.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let mut mended = read[method..end].starts_with(b" /").then(|| encoded(&read[..end]))??;
    mended.extend_from_slice(&read[end..]);
    Some(mended)
}

/// The signs that no URI may have as they are and that clients send all the same. None: there are none of them.
pub(crate) fn encoded(target: &[u8]) -> Option<Vec<u8>> {
    target.iter().any(|byte| b"\"<>".contains(byte)).then(|| {
        let mut encoded = Vec::with_capacity(target.len() + 16);
        for byte in target {
            match byte {
                b'"' => encoded.extend_from_slice(b"%22"),
                b'<' => encoded.extend_from_slice(b"%3C"),
                b'>' => encoded.extend_from_slice(b"%3E"),
                byte => encoded.push(*byte),
            }
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines_are_mended_and_nothing_else() {
        for (read, expected) in [
            (
                "GET /pods?labelSelector=a>5 HTTP/1.1\r\nA: <b>\r\n\r\n",
                Some("GET /pods?labelSelector=a%3E5 HTTP/1.1\r\nA: <b>\r\n\r\n"),
            ),
            ("GET /a\"b?c<d", Some("GET /a%22b?c%3Cd")),
            ("GET /pods?a=%3E HTTP/1.1\r\nA: <b>\r\n\r\n", None),
            ("G<T /pods HTTP/1.1\r\n", None),
            ("A: GET /a>b\r\n", None),
            ("{\"a\": \" /\"}", None),
            ("", None),
        ] {
            assert_eq!(mended(read.as_bytes()).as_deref(), expected.map(str::as_bytes), "{read:?}");
        }
    }
}

//! A connection's socket with two writers: hyper, and, while hyper has nothing to write, the bell with a stream's
//! items.
//!
//!     an event -> a stream's channel -> the bell -> the socket took all before?
//!         yes: the chunk, to the socket
//!         no: the connection's task, at the client's pace
//!
//! A thousand watches get the same event: to wake a thousand tasks costs several times as much as the writing. The bell
//! writes plain chunks of HTTP/1.1. A connection whose socket carries no plain chunks (HTTP/1.0, or ciphers or frames
//! in between) has no wire or does not use its wire: hyper's body takes the items from the same channel
//! (`Content::Stream`).

use super::bell::Bell;
use super::socket::WriteHalf;
use crate::{STREAM_ITEMS_MAX, Stream};
use bytes::{Buf, Bytes};
use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};
use tokio::io::AsyncWrite;

/// The bytes around an item of a chunk: a length in hexadecimal and two line ends.
const FRAME_BYTES: usize = 20;

/// Carries the streams of a connection, one at a time.
pub(super) struct Wire {
    bell: Bell,
    line: Mutex<Line>,
}

struct Line {
    /// None: the connection has ended.
    socket: Option<WriteHalf>,
    /// The stream of the answer in flight.
    stream: Option<Stream>,
    /// hyper has written all it had, and had nothing of this stream since.
    quiet: bool,
    /// The rest of a chunk that the socket did not take whole: hyper may write nothing before it.
    rest: Bytes,
    /// The connection's task.
    task: Option<Waker>,
}

/// An item and its chunk, which all streams with the same item share.
#[derive(Default)]
pub(super) struct Chunk {
    item: Bytes,
    framed: Bytes,
}

impl Wire {
    pub(super) fn new(bell: Bell, socket: WriteHalf) -> Wire {
        let line = Line { socket: Some(socket), stream: None, quiet: false, rest: Bytes::new(), task: None };
        Wire { bell, line: Mutex::new(line) }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The head is hyper's to write.
    pub(super) fn begin(&self, stream: Stream) {
        let mut line = self.line();
        (line.stream, line.quiet) = (Some(stream), false);
    }

    pub(super) fn end(&self) {
        let mut line = self.line();
        line.rest = Bytes::new();
        let ended = (line.stream.take(), line.task.take());
        // Unlocked first: dropping a stream unsubscribes, and may take further locks.
        drop(line);
        drop(ended);
    }

    /// Whether a part of a chunk waits for the client.
    pub(super) fn is_behind(&self) -> bool {
        !self.line().rest.is_empty()
    }

    /// Writes what is left of a chunk.
    pub(super) fn poll_rest(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut line = self.line();
        let Line { socket: Some(socket), rest, .. } = &mut *line else { return gone() };
        while !rest.is_empty() {
            rest.advance(ready!(Pin::new(&mut *socket).poll_write(cx, rest))?);
        }
        // An empty rest would keep the memory of all.
        *rest = Bytes::new();
        Poll::Ready(Ok(()))
    }

    /// An item for hyper. Where there is none, the next one rings the bell.
    pub(super) fn poll_item(self: &Arc<Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut line = self.line();
        line.task.take_if(|task| !task.will_wake(cx.waker()));
        line.task.get_or_insert_with(|| cx.waker().clone());
        let Some(stream) = &mut line.stream else { return Poll::Ready(None) };
        let waker = Waker::from(self.clone());
        let item = ready!(stream.events.poll_recv(&mut Context::from_waker(&waker)));
        line.quiet = false;
        Poll::Ready(item)
    }

    /// Writes the stream's items to the socket, or wakes its task.
    pub(super) fn tell(self: &Arc<Self>, last: &mut Chunk) {
        let mut line = self.line();
        let Line { socket: Some(socket), stream: Some(stream), quiet: quiet @ true, rest, .. } = &mut *line else {
            drop(line);
            return self.wake_task();
        };
        let waker = Waker::from(self.clone());
        // A publisher without pauses is left to the task, which yields to other tasks.
        for _ in 0..STREAM_ITEMS_MAX {
            let Poll::Ready(item) = stream.events.poll_recv(&mut Context::from_waker(&waker)) else { return };
            // The end is hyper's to write.
            let Some(item) = item else { break };
            let chunk = last.of(item);
            // An error is ignored here: the task meets the same error.
            let taken = if chunk.is_empty() { 0 } else { socket.try_write(&chunk).unwrap_or(0) };
            *rest = chunk.slice(taken..);
            *quiet = rest.is_empty();
            if !*quiet {
                break;
            }
        }
        drop(line);
        self.wake_task();
    }

    /// From wherever the stream is told of something.
    pub(super) fn wake_task(&self) {
        let task = self.line().task.clone();
        task.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Wire {
    fn wake(self: Arc<Self>) {
        let bell = self.bell.clone();
        bell.ring(self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.bell.ring(self.clone());
    }
}

impl Chunk {
    /// Nothing is made of an empty item: its chunk would be the end.
    fn of(&mut self, item: Bytes) -> Bytes {
        let same = |last: &Bytes| (last.as_ptr(), last.len()) == (item.as_ptr(), item.len());
        if !same(&self.item) {
            let mut framed = Vec::with_capacity(item.len() + FRAME_BYTES);
            if !item.is_empty() {
                write!(framed, "{:X}\r\n", item.len()).expect("a Vec takes all");
                framed.extend_from_slice(&item);
                framed.extend_from_slice(b"\r\n");
            }
            *self = Chunk { item, framed: framed.into() };
        }
        self.framed.clone()
    }
}

/// The same socket as hyper writes to it. It is closed with this: a publisher may hold the waker of a stream that has
/// ended.
pub(super) struct Pen(pub(super) Arc<Wire>);

impl Pen {
    fn write<T>(&self, how: impl FnOnce(Pin<&mut WriteHalf>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.0.line().socket.as_mut().map_or_else(gone, |socket| how(Pin::new(socket)))
    }
}

impl AsyncWrite for Pen {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write(|socket| socket.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(|socket| socket.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Called where hyper has written all it had.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut line = self.0.line();
        line.quiet = line.rest.is_empty();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(|socket| socket.poll_shutdown(cx))
    }
}

impl Drop for Pen {
    fn drop(&mut self) {
        let socket = self.0.line().socket.take();
        // The other half closes it.
        socket.into_iter().for_each(WriteHalf::forget);
    }
}

fn gone<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_chunk_for_all_who_are_told_of_an_item() {
        let mut last = Chunk::default();
        let item = Bytes::from(vec![b'a'; 26]);
        let chunk = last.of(item.clone());
        assert_eq!(&chunk[..], b"1A\r\naaaaaaaaaaaaaaaaaaaaaaaaaa\r\n");
        assert_eq!(last.of(item.clone()).as_ptr(), chunk.as_ptr(), "the same");
        assert_eq!(&last.of(item.slice(..2))[..], b"2\r\naa\r\n", "as long as it is");
        assert_eq!(&last.of(Bytes::from_static(b"b"))[..], b"1\r\nb\r\n");
        assert_eq!(&last.of(Bytes::new())[..], b"", "its chunk would be the end");
    }
}

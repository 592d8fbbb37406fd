//! The body of an answer, as hyper takes it: at the client's speed.
use super::connection::ServedClient;
use super::wire::Wire;
use crate::budget::Held;
use crate::outbound::Forwarded;
use crate::sessions::Session;
use crate::{Long, Stream};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

/// Whole answers go out in slices of so many bytes, so no buffer of a connection grows to the size of a list.
const SLICE_BYTES: usize = 32 * 1024;

pub(super) struct Outgoing {
    pub(super) content: Content,
    pub(super) client: Arc<ServedClient>,
    /// The share of a budget that this answer holds until it is taken.
    pub(super) _held: Option<Held>,
    /// The request is in progress as long.
    pub(super) _session: Option<Session>,
}

pub(super) enum Content {
    Whole(Bytes),
    Long(Long),
    /// The items of the connection's wire.
    Wired(Arc<Wire>),
    /// The same, item by item through hyper.
    Stream(Stream),
    Forwarded(Box<Forwarded>),
}

impl hyper::body::Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Outgoing { content, client, .. } = self.get_mut();
        if let Content::Whole(bytes) = content {
            let slice = bytes.split_to(bytes.len().min(SLICE_BYTES));
            return Poll::Ready((!slice.is_empty()).then(|| Ok(Frame::data(slice))));
        }
        if let Content::Long(long) = content {
            let piece = long.pieces.next();
            long.bytes = long.bytes.saturating_sub(piece.as_ref().map_or(long.bytes, Bytes::len));
            return Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))));
        }
        if let Content::Wired(wire) = content
            && wire.is_behind()
        {
            client.pace.begin(&client.plane, client.plane.limits.stall);
            if let Err(broken) = ready!(wire.poll_rest(cx)) {
                return Poll::Ready(Some(Err(broken)));
            }
        }
        // hyper asks again when the client has taken what it has; nothing to give is no fault of the client.
        client.pace.due_ms.store(0, Relaxed);
        let piece = match content {
            Content::Wired(_) | Content::Stream(_) if client.ending.load(Relaxed) => None,
            Content::Wired(wire) => ready!(wire.poll_item(cx)).map(Ok),
            Content::Stream(stream) => ready!(stream.events.poll_recv(cx)).map(Ok),
            // A stop must not wait for a log that is followed, and cannot know that it is whole.
            Content::Forwarded(_) if client.ending.load(Relaxed) => Some(Err(io::ErrorKind::ConnectionAborted.into())),
            Content::Forwarded(forwarded) => ready!(forwarded.poll_piece(cx)),
            Content::Whole(_) | Content::Long(_) => None,
        };
        if piece.is_some() {
            client.pace.due_ms.store(client.plane.due_after(client.plane.limits.stall), Relaxed);
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Long(long) => long.bytes == 0,
            Content::Wired(_) | Content::Stream(_) | Content::Forwarded(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Long(long) => SizeHint::with_exact(long.bytes as u64),
            Content::Wired(_) | Content::Stream(_) => SizeHint::default(),
            Content::Forwarded(forwarded) => forwarded.size_hint(),
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.client.pace.due_ms.store(0, Relaxed);
        self.client.seat.awaits_request(&self.client.plane);
        if let Content::Wired(wire) = &self.content {
            wire.end();
        }
    }
}

//! Taking the items of a stream from a plain thread.
use crate::Stream;
use bytes::Bytes;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) enum Next {
    Event(Bytes),
    Nothing,
    End,
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The channel's `recv_timeout`, which tokio has only for tasks.
pub(crate) fn next(stream: &mut Stream, patience: Duration) -> Next {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let begun = Instant::now();
    loop {
        match stream.events.poll_recv(&mut Context::from_waker(&waker)) {
            Poll::Ready(Some(event)) => return Next::Event(event),
            Poll::Ready(None) => return Next::End,
            Poll::Pending => {}
        }
        let left = patience.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Next::Nothing;
        }
        thread::park_timeout(left);
    }
}

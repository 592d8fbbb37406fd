//! Waiting on a plain thread: for the items of a stream, for a place in its channel.
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

/// The next item, if it comes so soon.
pub(crate) fn next(stream: &mut Stream, patience: Duration) -> Next {
    match within(patience, |cx| stream.events.poll_recv(cx)) {
        Some(Some(event)) => Next::Event(event),
        Some(None) => Next::End,
        None => Next::Nothing,
    }
}

/// Waits for a future on a plain thread.
pub(crate) fn wait<T>(poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    within(Duration::MAX, poll).expect("it is waited for without end")
}

fn within<T>(patience: Duration, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let begun = Instant::now();
    loop {
        if let Poll::Ready(ready) = poll(&mut Context::from_waker(&waker)) {
            return Some(ready);
        }
        let left = patience.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

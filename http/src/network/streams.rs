//! One connection of HTTP/2: each request runs in a task of its own, so that one whose client takes nothing, or whose
//! user may no longer ask, is reset alone.
use super::connection::{HEAD_BYTES_MAX, ServedClient, Stalled};
use super::exchange::exchange;
use super::meter::{Meter, Metered};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Bytes that a client may send of one body, and of all bodies of a connection, before they are read.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;

/// Bytes of an answer that wait for the client's window.
const SEND_BYTES_MAX: usize = 32 * 1024;

/// Streams that a client may reset before they are looked at, and those that its mistakes make this side reset.
const RESETS_MAX: usize = 20;
const PROVOKED_RESETS_MAX: usize = 64;

tokio::task_local! {
    /// The client of the stream that a task carries.
    static STREAM: Arc<ServedClient>;
}

/// The streams of a connection that are open.
#[derive(Default)]
struct OpenStreams {
    count: AtomicUsize,
    /// There is one, or there is none any more.
    changed: Notify,
}

/// The place of a stream in that count.
struct Counted(Arc<OpenStreams>);

impl Counted {
    fn new(of: &Arc<OpenStreams>) -> Counted {
        if of.count.fetch_add(1, Relaxed) == 0 {
            of.changed.notify_one();
        }
        Counted(of.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Relaxed) == 1 {
            self.0.changed.notify_one();
        }
    }
}

impl OpenStreams {
    /// Until there has been none for so long.
    async fn idle(&self, patience: Duration) {
        loop {
            let none = self.count.load(Relaxed) == 0;
            let changed = self.changed.notified();
            match none {
                false => changed.await,
                true if timeout(patience, changed).await.is_err() => return,
                true => {}
            }
        }
    }
}

pub(super) async fn carry(wire: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, client: Arc<ServedClient>) {
    let limits = &client.plane.limits;
    let meter = Meter::new();
    let streams = Arc::new(OpenStreams::default());
    let executor = StreamExecutor { client: client.clone(), meter: meter.clone(), streams: streams.clone() };
    let service = service_fn(|request| Box::pin(async { exchange(STREAM.with(Arc::clone), request).await }));
    let connection = http2::Builder::new(executor)
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_per_connection_max)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BYTES_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(PROVOKED_RESETS_MAX)
        .serve_connection(TokioIo::new(Metered { wire, meter: meter.clone() }), service);
    let mut connection = pin!(connection);
    let mut idle = pin!(streams.idle(limits.idle));
    let mut drain = client.plane.drain.clone();
    // Told to go: the streams end as they do, no new stream comes, and a client that stays without any is left.
    let (mut told, mut draining) = (false, false);
    loop {
        tokio::select! {
            biased;
            _ = &mut connection => break,
            _ = drain.wait_for(|stop| *stop), if !draining => draining = true,
            () = client.leaves(), if !told => {}
            () = &mut idle => if told { break },
        }
        told = true;
        idle.set(streams.idle(limits.stall));
        connection.as_mut().graceful_shutdown();
    }
    if meter.has_ended() {
        client.plane.journal.closed(
            "frames for nothing",
            &format_args!("closed a connection of {}: it sends frames that ask for nothing", client.peer),
        );
    }
}

/// Runs each stream in a task with a deadline; what hyper runs beside streams runs the same way.
#[derive(Clone)]
struct StreamExecutor {
    client: Arc<ServedClient>,
    meter: Arc<Meter>,
    streams: Arc<OpenStreams>,
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        let client = Arc::new(self.client.of_stream(self.meter.clone()));
        let counted = Counted::new(&self.streams);
        let of = client.clone();
        let carried = async move {
            let _counted = counted;
            let mut stream = pin!(stream);
            let mut stalled = pin!(Stalled::of(&of));
            let mut drain = of.plane.drain.clone();
            let mut draining = false;
            loop {
                tokio::select! {
                    // The stream first: it says by when something has to be taken.
                    biased;
                    () = &mut stream => return,
                    () = &mut stalled => return,
                    _ = drain.wait_for(|stop| *stop), if !draining => {
                        draining = true;
                        of.ending.store(true, Relaxed);
                    }
                }
            }
        };
        let task = tokio::spawn(STREAM.scope(client.clone(), carried));
        client.is_carried_by(task.abort_handle());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn idle_is_who_has_no_stream() {
        let streams = Arc::new(OpenStreams::default());
        let (short, long) = (Duration::from_millis(5), Duration::from_secs(20));
        let first = Counted::new(&streams);
        let second = Counted::new(&streams);
        drop(first);
        assert!(timeout(short * 10, streams.idle(short)).await.is_err(), "one is open");
        drop(second);
        assert!(timeout(short * 10, streams.idle(long)).await.is_err(), "not for so long");
        assert!(timeout(long, streams.idle(short)).await.is_ok());
    }
}

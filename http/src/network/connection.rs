//! One connection: hyper's own limits, the drain, and the client that takes nothing.
use super::crowd::{Place, Seat};
use super::exchange::exchange;
use super::reader::Reader;
use super::socket::{Peer, Socket};
use super::wire::{Pen, Wire};
use super::{Pace, Plane};
use crate::budget::Party;
use bytes::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use tokio::io::join;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep_until};

/// Bytes of a request's head; also bounds what hyper buffers of what it writes.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Fields of a request's head; kubectl sends ten.
const HEAD_FIELDS_MAX: usize = 64;

/// What the exchanges of a connection share; HTTP/1.1 has one answer at a time, so one pace.
pub(super) struct Client {
    pub(super) plane: Arc<Plane>,
    pub(super) peer: Peer,
    pub(super) party: Party,
    pub(super) seat: Arc<Seat>,
    pub(super) pace: Pace,
    pub(super) wire: Arc<Wire>,
    /// The answer in flight ends as if its sender had been dropped.
    pub(super) ending: AtomicBool,
}

pub(super) async fn run(plane: Arc<Plane>, socket: Socket, peer: Peer, places: (OwnedSemaphorePermit, Place)) {
    let (reading, writing) = socket.into_split();
    let wire = Arc::new(Wire::new(plane.bell.clone(), writing));
    let reader = Reader { socket: reading, wire: wire.clone(), rest: Bytes::new() };
    let socket = join(reader, Pen(wire.clone()));
    let (party, seat, pace) = (peer.party(), places.1.seat.clone(), Pace::default());
    let client = Arc::new(Client { plane, peer, party, seat, pace, wire, ending: AtomicBool::new(false) });
    let limits = &client.plane.limits;
    let of = client.clone();
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_headers(HEAD_FIELDS_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .half_close(false)
        .serve_connection(TokioIo::new(socket), service_fn(move |request| Box::pin(exchange(of.clone(), request))));
    let mut connection = pin!(connection);
    let mut stalled = pin!(Stalled { client: &client, timer: None });
    let mut drain = client.plane.drain.clone();
    let mut draining = false;
    loop {
        tokio::select! {
            // The connection first: it says by when something has to be taken.
            biased;
            _ = &mut connection => return,
            _ = &mut stalled => return,
            _ = drain.wait_for(|stop| *stop), if !draining => {
                draining = true;
                client.ending.store(true, Relaxed);
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Ends when the client has let something wait for longer than it may. Where nothing waits, as of an idle watch, there is no timer.
struct Stalled<'c> {
    client: &'c Client,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Future for Stalled<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Client { pace, plane, .. } = self.client;
        match (&mut self.timer, pace.due(plane)) {
            (None, Some(due)) => self.timer = Some(Box::pin(sleep_until(due))),
            // What waits now may wait for less long than what waited before it.
            (Some(timer), Some(due)) if due < timer.deadline() => timer.as_mut().reset(due),
            _ => {}
        }
        while let Some(timer) = &mut self.timer {
            ready!(timer.as_mut().poll(cx));
            match pace.due(plane) {
                Some(due) if due <= timer.deadline() => return Poll::Ready(()),
                Some(due) => timer.as_mut().reset(due),
                None => self.timer = None,
            }
        }
        Poll::Pending
    }
}

//! One connection of HTTP/1.1: hyper's own limits, the drain, and the client that takes nothing.
use super::crowd::SeatUse;
use super::exchange::exchange;
use super::meter::Meter;
use super::plane::{Pace, Plane};
use super::socket::Peer;
use super::wire::Wire;
use crate::budget::{Held, Party};
use crate::sessions::{InProgress, Session};
use crate::{ClientCertificate, StatusCode, Upgrade, refusal};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Sleep, sleep_until};

/// Bytes of a request's head; also the limit for hyper's write buffer.
pub(super) const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Fields of a request's head; kubectl sends ten.
const HEAD_FIELDS_MAX: usize = 64;

/// The state of a stream of HTTP/2, or of a connection of HTTP/1.1, which has a single exchange at a time.
pub(super) struct ServedClient {
    pub(super) plane: Arc<Plane>,
    pub(super) peer: Peer,
    /// The party before the identity is known.
    pub(super) party: Party,
    pub(super) certificate: Option<Arc<ClientCertificate>>,
    pub(super) seat: SeatUse,
    pub(super) pace: Pace,
    /// Streams of HTTP/1.1 as they are, straight to the socket. None: hyper's body carries them, as it must where bytes
    /// are enciphered or in frames.
    pub(super) wire: Option<Arc<Wire>>,
    /// The next bytes begin a request.
    pub(super) head_due: Arc<AtomicBool>,
    /// The task that takes the connection over after the answer in flight.
    taken_over: Mutex<Option<Box<TakenOver>>>,
    /// The answer in flight ends as if its sender had been dropped.
    pub(super) ending: AtomicBool,
    /// The connection takes no more requests.
    leaving: Arc<Notify>,
    /// Of HTTP/2: what its client may send, and the task of this stream alone.
    meter: Option<Arc<Meter>>,
    task: OnceLock<AbortHandle>,
}

/// A connection after its 101.
pub(super) struct TakenOver {
    pub(super) connection: OnUpgrade,
    pub(super) upgrade: Upgrade,
    /// The connection's shares in the limits for streams, upgrades and tunnels.
    pub(super) _held: [Held; 3],
    pub(super) _session: Option<Session>,
}

impl TakenOver {
    async fn run(self) {
        if let Ok(upgraded) = self.connection.await {
            (self.upgrade.run)(upgraded.into()).await;
        }
    }
}

impl ServedClient {
    pub(super) fn new(
        plane: Arc<Plane>,
        peer: Peer,
        seat: SeatUse,
        certificate: Option<Arc<ClientCertificate>>,
        wire: Option<Arc<Wire>>,
    ) -> ServedClient {
        ServedClient {
            plane,
            peer,
            party: peer.party(),
            certificate,
            seat,
            pace: Pace::default(),
            wire,
            head_due: Arc::new(AtomicBool::new(true)),
            taken_over: Mutex::default(),
            ending: AtomicBool::new(false),
            leaving: Arc::default(),
            meter: None,
            task: OnceLock::new(),
        }
    }

    /// The same client in one stream of HTTP/2.
    pub(super) fn of_stream(&self, meter: Arc<Meter>) -> ServedClient {
        let (plane, certificate) = (self.plane.clone(), self.certificate.clone());
        let stream = ServedClient::new(plane, self.peer, self.seat.another(), certificate, None);
        ServedClient { leaving: self.leaving.clone(), meter: Some(meter), ..stream }
    }

    pub(super) fn is_carried_by(&self, task: AbortHandle) {
        let _ = self.task.set(task);
    }

    /// A request is in progress, until this is dropped.
    pub(super) fn session(&self, asked: InProgress) -> Option<Session> {
        let task = self.task.get().or_else(|| self.seat.task())?.clone();
        Some(self.plane.sessions.open(asked, task))
    }

    /// Not between a request's head and the end of its body, nor where no HTTP follows.
    pub(super) fn await_head(&self, due: bool) {
        self.head_due.store(due, Relaxed);
    }

    pub(super) fn give_to(&self, taken_over: TakenOver) {
        *self.taken_over.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(taken_over));
    }

    pub(super) fn requested(&self) {
        self.meter.iter().for_each(|meter| meter.requested());
    }

    pub(super) fn sent(&self, bytes: usize) {
        self.meter.iter().for_each(|meter| meter.body(bytes));
    }

    /// The answer in flight is the last of its connection.
    pub(super) fn leave(&self) {
        self.leaving.notify_one();
    }

    pub(super) async fn leaves(&self) {
        self.leaving.notified().await;
    }
}

/// Serves HTTP/1.1 over any byte stream: a socket, or a layer that deciphers a socket's bytes.
pub(super) async fn carry(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, client: Arc<ServedClient>) {
    let limits = &client.plane.limits;
    let of = client.clone();
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_headers(HEAD_FIELDS_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .half_close(false)
        .serve_connection(TokioIo::new(io), service_fn(move |request| Box::pin(exchange(of.clone(), request))))
        .with_upgrades();
    let mut connection = pin!(connection);
    let mut stalled = pin!(Stalled::of(&client));
    let mut drain = client.plane.drain.clone();
    let mut draining = false;
    loop {
        tokio::select! {
            // The connection first: it says by when something has to be taken.
            biased;
            served = &mut connection => {
                served.err().iter().for_each(refused_by_hyper);
                break;
            }
            _ = &mut stalled => return,
            _ = drain.wait_for(|stop| *stop), if !draining => {
                draining = true;
                client.ending.store(true, Relaxed);
                connection.as_mut().graceful_shutdown();
            }
            () = client.leaves() => connection.as_mut().graceful_shutdown(),
        }
    }
    let taken_over = client.taken_over.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(taken_over) = taken_over else { return };
    // Nobody takes its place, and nothing is due.
    client.seat.works();
    tokio::select! {
        () = Box::pin(taken_over.run()) => {}
        _ = drain.wait_for(|stop| *stop) => {}
    }
}

/// Counts what hyper has answered itself, because it is no HTTP.
fn refused_by_hyper(error: &hyper::Error) {
    match error {
        error if error.is_parse_too_large() => {
            refusal::count(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head too large");
        }
        error if error.is_parse() => refusal::count(StatusCode::BAD_REQUEST, "no HTTP"),
        _ => {}
    }
}

/// Ends when the client has let something wait for longer than it may. Where nothing waits, as of an idle watch, there
/// is no timer.
pub(super) struct Stalled<'c> {
    client: &'c ServedClient,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Stalled<'_> {
    pub(super) fn of(client: &ServedClient) -> Stalled<'_> {
        Stalled { client, timer: None }
    }
}

impl Future for Stalled<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let ServedClient { pace, plane, .. } = self.client;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::channel;
    use crate::network::Port;
    use crate::{Answer, Body, Handler, Limits, STREAM_ITEMS_MAX, StatusCode, Stream};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::sync::watch;

    async fn until(peer: &mut DuplexStream, text: &str) -> String {
        let mut all = Vec::new();
        while !String::from_utf8_lossy(&all).contains(text) {
            assert!(peer.read_buf(&mut all).await.expect("it is open") > 0, "{:?}", String::from_utf8_lossy(&all));
        }
        String::from_utf8(all).expect("text")
    }

    /// A layer between HTTP and the socket, such as TLS, takes its bytes from hyper alone.
    #[test]
    fn a_stream_needs_no_wire() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let (sender, events) = channel(STREAM_ITEMS_MAX);
            let events = Mutex::new(Some(events));
            let handler: Handler = Arc::new(move |_| {
                let events = events.lock().expect("no panic").take().expect("one request");
                Answer::new(StatusCode::OK, "application/json", Body::Stream(Stream { events, lease: Box::new(()) }))
            });
            let (_stop, drain) = watch::channel(false);
            let plane = Arc::new(Plane::new(handler, Port::of_this_host(Limits::EDGE), drain));
            let peer = Peer::User(0);
            let client = ServedClient::new(plane, peer, SeatUse::new(Arc::default()), None, None);
            let (mut far, near) = tokio::io::duplex(4096);
            let carried = tokio::spawn(carry(near, Arc::new(client)));
            far.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.expect("it is open");
            assert!(until(&mut far, "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
            for item in ["one\n", "two\n"] {
                sender.try_send(item.into()).expect("there is a place");
                assert_eq!(until(&mut far, &format!("{item}\r\n")).await, format!("4\r\n{item}\r\n"));
            }
            drop(sender);
            assert!(until(&mut far, "0\r\n\r\n").await.ends_with("0\r\n\r\n"));
            carried.await.expect("no panic");
        });
    }
}

//! The network side: every byte that comes from TCP, also from this host, and what comes over a Unix socket that others
//! than root may open. hyper parses, this directory bounds.
//!
//!     accept -> crowd -> connection -> exchange: check, identify, take the body, admit, run the handler
//!                  |         |          -> body: the answer at the client's speed
//!                  |         \- streams: the requests of HTTP/2, each in a task; meter: what its client may send
//!                  \- handshake: TLS, where the port speaks it
//!
//! One thread does all IO, handshakes too: a port on a thread of its own slows no other. Handlers run in the runtime's
//! blocking pool, `handlers_max` that read and `writers_max` that may write at a time, admitted by semaphores because
//! that pool's own queue has no bound; credentials in a head are checked there, too. Idle, there is no handler thread,
//! and a connection that has nothing to send does not wake up. `bell`: one wake-up for all streams that a
//! handler tells of something; `wire`: it writes to their sockets itself, where they took all before.

mod access;
mod bell;
mod body;
mod connection;
mod crowd;
mod door;
mod exchange;
mod handshake;
mod meter;
mod opening;
mod plane;
mod port;
mod reader;
mod room;
mod share;
mod socket;
mod streams;
mod wire;

pub use access::{Access, is_loopback};
pub use door::{Admits, Listener, UnixDoor, listen_unix};
pub(crate) use exchange::is_health;
pub(crate) use plane::threads;
pub use port::{
    AdmitsAddress, Identify, IsRevoked, OnRefusal, Port, Ration, RationedPlace, RationedRequest, RefusedRequest,
    RequestSender, TlsPort, Unidentified, everybody_is,
};
pub(crate) use reader::encoded;
pub(crate) use room::of_nodes;

use crate::{Handler, Limits};
use door::Door;
use opening::Slots;
use plane::Plane;
use socket::{Peer, Socket};
use socket2::{Domain, TcpKeepalive, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Connections that the kernel completes before we accept them: tokio's own 128 loses SYNs in a burst.
const BACKLOG: i32 = 1024;

/// Unsent bytes that the kernel takes for a socket before it says "not writable"; by default up to 2.9 MB.
const UNSENT_BYTES_MAX: u32 = 128 * 1024;

/// A peer that vanished while nothing was sent is noticed after quiet + 4 probes less one: 73 s with
/// `TCP_USER_TIMEOUT`.
const KEEPALIVE_QUIET: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;

/// No descriptors is the likely error of an accept: the connection waits in the backlog, and others end meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes: handlers parse and print documents of 3 MiB. A level of YAML costs 5 KiB of stack when it is read, and
/// unoptimised builds three times that; what is not touched costs nothing.
pub const HANDLER_STACK_BYTES: usize = 2 << 20;

/// A handler thread that has nothing to do ends after this.
pub const HANDLER_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Handlers that run when everything else has ended get this long before the process goes on without them.
const HANDLERS_LEAVE: Duration = Duration::from_secs(1);

/// A network side on a thread and runtime of its own, for a program that has none.
pub struct NetworkPlane {
    pub address: SocketAddr,
    drain: watch::Sender<bool>,
    thread: thread::JoinHandle<()>,
}

/// Binds only; whoever connects waits for `serve`. So a port in use is known before anything else starts.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Serves on a thread of its own until `stop`.
pub fn start(listener: TcpListener, handler: Handler, port: Port) -> io::Result<NetworkPlane> {
    let address = listener.local_addr()?;
    let runtime = runtime(&port.limits)?;
    let (drain, drained) = watch::channel(false);
    let run = move || {
        if let Err(e) = runtime.block_on(serve(listener, handler, port, drained)) {
            log::error!("serve {address}: {e}");
        }
        runtime.shutdown_timeout(HANDLERS_LEAVE);
    };
    let thread = thread::Builder::new().name("network".into()).stack_size(HANDLER_STACK_BYTES).spawn(run)?;
    Ok(NetworkPlane { address, drain, thread })
}

impl NetworkPlane {
    /// No new connections; what is in flight is answered, for `Limits::drain` at the most.
    pub fn stop(self) {
        self.drain.send_replace(true);
        if self.thread.join().is_err() {
            log::error!("the network thread of {} had panicked", self.address);
        }
    }
}

fn runtime(limits: &Limits) -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(threads(limits))
        .thread_keep_alive(HANDLER_KEEP_ALIVE)
        .thread_stack_size(HANDLER_STACK_BYTES)
        .thread_name("request")
        .build()
}

/// Serves until `drain` turns true or its sender is gone; then says goodbye to everybody and returns when all have
/// left, or after `Limits::drain`. Runs on any tokio runtime; its blocking pool should have a thread for each handler.
pub async fn serve(
    listener: impl Into<Listener>,
    handler: Handler,
    port: Port,
    mut drain: watch::Receiver<bool>,
) -> io::Result<()> {
    let door = Door::open(listener.into())?;
    if port.tls.is_some() && !matches!(door, Door::Tcp(_)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a Unix socket speaks no TLS"));
    }
    let plane = Arc::new(Plane::new(handler, port, drain.clone()));
    loop {
        let accepted = tokio::select! {
            accepted = door.accept() => accepted,
            _ = drain.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((_, peer)) if !door.admits(peer) || peer.address().is_some_and(|from| !(plane.admits)(from)) => {
                plane
                    .journal
                    .closed("not admitted", &format_args!("closed a connection of {peer} at once: it is not let in"));
            }
            Ok((socket, peer)) => admit(&plane, socket, peer).await,
            Err(e) => {
                plane.journal.say("accept", &format_args!("accept a connection: {e}"));
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(door);
    let all = u32::try_from(plane.limits.connections_max).unwrap_or(u32::MAX);
    if timeout(plane.limits.drain, plane.connections.acquire_many(all)).await.is_err() {
        log::warn!("connections still open after {} s are dropped", plane.limits.drain.as_secs());
    }
    Ok(())
}

async fn admit(plane: &Arc<Plane>, socket: Socket, peer: Peer) {
    let (connection, gone) = match plane.crowd.enter(peer.party(), plane) {
        Ok(entered) => entered,
        Err(what) => return plane.journal.closed(what, &format_args!("closed a connection of {peer} at once: {what}")),
    };
    if let Some(of) = gone {
        plane.journal.closed(
            "made room",
            &format_args!("closed a connection of {of}, which has most: {peer} comes and all are taken"),
        );
    }
    let handshake = match plane.tls {
        None => None,
        Some(_) => match plane.handshakes.enter(peer.party(), plane) {
            Ok((slot, _)) => Some(slot),
            Err(what) => return plane.journal.closed(what, &format_args!("closed a connection of {peer}: {what}")),
        },
    };
    // A connection that was closed to make room keeps its descriptor until its task has run.
    let Ok(permit) = plane.connections.clone().acquire_owned().await else { return };
    if let Err(e) = tune(&socket, &plane.limits) {
        // The peer may have gone already; a connection without these limits is not served.
        log::debug!("tune a connection of {peer}: {e}");
        return;
    }
    let seats = [Some(connection.seat.clone()), handshake.as_ref().map(|slot| slot.seat.clone())];
    let slots = Slots { _permit: permit, connection, handshake };
    let task = tokio::spawn(opening::run(plane.clone(), socket, peer, slots));
    seats.into_iter().flatten().for_each(|seat| seat.is_of(task.abort_handle()));
}

/// A client on this host does not vanish from the network.
fn tune(socket: &Socket, limits: &Limits) -> io::Result<()> {
    let Socket::Tcp(socket) = socket else { return Ok(()) };
    let raw = socket2::SockRef::from(socket);
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE_QUIET).with_interval(KEEPALIVE_INTERVAL).with_retries(KEEPALIVE_PROBES);
    socket.set_nodelay(true)?;
    raw.set_tcp_keepalive(&keepalive)?;
    // Ends both: the peer that vanished and the peer that does not read.
    raw.set_tcp_user_timeout(Some(limits.stall))?;
    raw.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)
}

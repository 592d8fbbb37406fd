//! A connection from its accept to its protocol: the handshake, where its port speaks TLS, and which HTTP follows.
use super::connection::{ServedClient, carry};
use super::crowd::{ConnectionSlot, SeatUse};
use super::handshake::{Secured, Unsecured, shake};
use super::plane::Plane;
use super::port::TlsPort;
use super::reader::SocketReader;
use super::socket::{Peer, Socket};
use super::streams;
use super::wire::{Pen, Wire};
use bytes::Bytes;
use std::sync::Arc;
use tokio::io::join;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// The places of a connection, given back at its end.
pub(super) struct Slots {
    pub(super) _permit: OwnedSemaphorePermit,
    pub(super) connection: ConnectionSlot,
    /// Given back when hands are shaken.
    pub(super) handshake: Option<ConnectionSlot>,
}

pub(super) async fn run(plane: Arc<Plane>, socket: Socket, peer: Peer, slots: Slots) {
    match (plane.tls.clone(), socket) {
        (Some(tls), Socket::Tcp(socket)) => Box::pin(secure(plane, tls, socket, peer, slots)).await,
        (_, socket) => Box::pin(plain(plane, socket, peer, slots)).await,
    }
}

async fn plain(plane: Arc<Plane>, socket: Socket, peer: Peer, slots: Slots) {
    let (reading, writing) = socket.into_split();
    let wire = Arc::new(Wire::new(plane.bell.clone(), writing));
    let seat = SeatUse::new(slots.connection.seat.clone());
    let client = ServedClient::new(plane, peer, seat, None, Some(wire.clone()));
    let reader = SocketReader { socket: reading, head_due: client.head_due.clone(), rest: Bytes::new() };
    carry(join(reader, Pen(wire)), Arc::new(client)).await;
}

async fn secure(plane: Arc<Plane>, tls: TlsPort, socket: TcpStream, peer: Peer, mut slots: Slots) {
    let shaken = timeout(plane.limits.handshake, Box::pin(shake(&tls.keys, socket))).await;
    drop(slots.handshake.take());
    let Ok(shaken) = shaken else {
        return plane.journal.closed("slow handshake", &format_args!("closed a connection of {peer}: no handshake"));
    };
    let Secured { wire, http2, certificate } = match shaken {
        Ok(secured) => secured,
        Err(why) => return note(&plane, peer, &why),
    };
    let client = ServedClient::new(plane, peer, SeatUse::new(slots.connection.seat.clone()), certificate, None);
    if http2 {
        return Box::pin(streams::carry(wire, Arc::new(client))).await;
    }
    let io = SocketReader { socket: wire, head_due: client.head_due.clone(), rest: Bytes::new() };
    Box::pin(carry(io, Arc::new(client))).await;
}

fn note(plane: &Plane, peer: Peer, why: &Unsecured) {
    if let Some(kind) = why.kind() {
        plane.journal.closed(kind, &format_args!("closed a connection of {peer}: {why}"));
    }
}

//! A connection's socket of either kind, in the halves that its task and the bell share, and who is at its other end.
use crate::budget::Party;
use crate::{Caller, Identity};
use std::fmt;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream, tcp, unix};

/// As far as the kernel knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Peer {
    Address(SocketAddr),
    /// The uid of a user on this host, whom the listener admits.
    User(u32),
}

impl Peer {
    /// The party whose share it takes.
    pub(super) fn party(&self) -> Party {
        match self {
            Peer::Address(address) => Party::at(*address),
            Peer::User(uid) => Party::User(*uid),
        }
    }

    /// The same where it has said who it is.
    pub(super) fn party_of(&self, identity: &Identity) -> Party {
        match self {
            Peer::Address(_) => self.caller().party_of(identity),
            Peer::User(_) => self.party(),
        }
    }

    pub(super) fn address(&self) -> Option<IpAddr> {
        match self {
            Peer::Address(address) => Some(address.ip().to_canonical()),
            Peer::User(_) => None,
        }
    }

    pub(super) fn uid(&self) -> Option<u32> {
        match self {
            Peer::Address(_) => None,
            Peer::User(uid) => Some(*uid),
        }
    }

    pub(super) fn caller(&self) -> Caller {
        match self {
            Peer::Address(address) => Caller::Network { address: *address },
            Peer::User(_) => Caller::Local,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Address(address) => address.fmt(f),
            Peer::User(uid) => write!(f, "user {uid}"),
        }
    }
}

pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

pub(super) enum ReadHalf {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
}

pub(super) enum WriteHalf {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
}

impl Socket {
    pub(super) fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Socket::Tcp(socket) => {
                let (reading, writing) = socket.into_split();
                (ReadHalf::Tcp(reading), WriteHalf::Tcp(writing))
            }
            Socket::Unix(socket) => {
                let (reading, writing) = socket.into_split();
                (ReadHalf::Unix(reading), WriteHalf::Unix(writing))
            }
        }
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ReadHalf::Tcp(half) => Pin::new(half).poll_read(cx, buffer),
            ReadHalf::Unix(half) => Pin::new(half).poll_read(cx, buffer),
        }
    }
}

impl WriteHalf {
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            WriteHalf::Tcp(half) => half.try_write(bytes),
            WriteHalf::Unix(half) => half.try_write(bytes),
        }
    }

    /// The other half closes the socket.
    pub(super) fn forget(self) {
        match self {
            WriteHalf::Tcp(half) => half.forget(),
            WriteHalf::Unix(half) => half.forget(),
        }
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            WriteHalf::Tcp(half) => Pin::new(half).poll_write(cx, bytes),
            WriteHalf::Unix(half) => Pin::new(half).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            WriteHalf::Tcp(half) => Pin::new(half).poll_write_vectored(cx, parts),
            WriteHalf::Unix(half) => Pin::new(half).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            WriteHalf::Tcp(half) => Pin::new(half).poll_shutdown(cx),
            WriteHalf::Unix(half) => Pin::new(half).poll_shutdown(cx),
        }
    }
}

//! WebSocket: the handshake of a server, and the connection after it in two halves.
//!
//!     Offer::of(request)   what a client asks for  -> accept -> the head of the 101
//!     open(upgraded)       Reader: pieces of messages      Writer: messages, answers to pings, the close
//!     begin(upgraded)      the same for a client, which `Client::web_socket` has made

pub mod frames;

use crate::upgrade::{Upgraded, asked};
use crate::{HeaderMap, HeaderName, HeaderValue, Method, header};
use bytes::{Bytes, BytesMut};
use frames::{CLOSE_PROTOCOL, Piece, Side, WebSocketFrames};
use http::Version;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc;

/// Bytes of one read.
const READ_BYTES: usize = 16 * 1024;

pub(crate) const VERSION: &str = "13";

/// A client's request for WebSocket.
#[derive(Debug, PartialEq)]
pub struct Offer {
    key: HeaderValue,
    /// Best first; none: the client names none, and may be answered none.
    pub protocols: Vec<String>,
}

impl Offer {
    /// None: it does not ask for WebSocket. `Err`: it asks wrongly.
    pub fn of(method: &Method, headers: &HeaderMap) -> Option<Result<Offer, &'static str>> {
        // What is no HTTP/1.1 is not upgraded, whatever it asks for.
        let asked = asked(Version::HTTP_11, headers)?;
        if !asked.iter().any(|protocol| protocol.eq_ignore_ascii_case("websocket")) {
            return None;
        }
        if *method != Method::GET {
            return Some(Err("WebSocket begins with a GET"));
        }
        if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != VERSION) {
            return Some(Err("WebSocket is spoken here in version 13"));
        }
        let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY).cloned() else {
            return Some(Err("WebSocket begins with a key"));
        };
        let named = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|value| value.to_str().ok());
        let protocols =
            named.flat_map(|value| value.split(',')).map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        Some(Ok(Offer { key, protocols: protocols.collect() }))
    }

    /// The header fields that WebSocket adds to the 101 answer. `protocol`: an entry of `protocols`.
    pub fn accept(&self, protocol: Option<&str>) -> Vec<(HeaderName, HeaderValue)> {
        let accept = tungstenite::handshake::derive_accept_key(self.key.as_bytes());
        let accept = HeaderValue::from_str(&accept).expect("base64 is text");
        let protocol = protocol.and_then(|name| HeaderValue::from_str(name).ok());
        let protocol = protocol.map(|name| (header::SEC_WEBSOCKET_PROTOCOL, name));
        [(header::SEC_WEBSOCKET_ACCEPT, accept)].into_iter().chain(protocol).collect()
    }
}

/// A message from the other side.
pub struct Reader {
    connection: ReadHalf<Upgraded>,
    read: BytesMut,
    frames: WebSocketFrames,
    pings: mpsc::Sender<Bytes>,
}

/// A message to the other side.
pub struct Writer {
    side: Side,
    connection: WriteHalf<Upgraded>,
    pings: mpsc::Receiver<Bytes>,
}

pub fn open(upgraded: Upgraded) -> (Reader, Writer) {
    halves(upgraded, Side::Server)
}

/// As a client.
pub fn begin(upgraded: Upgraded) -> (Reader, Writer) {
    halves(upgraded, Side::Client)
}

fn halves(upgraded: Upgraded, side: Side) -> (Reader, Writer) {
    let (reading, writing) = split(upgraded);
    // A client that is not answered one of many pings has the others answered.
    let (asked, pings) = mpsc::channel(1);
    let reader =
        Reader { connection: reading, read: BytesMut::new(), frames: WebSocketFrames::read_by(side), pings: asked };
    (reader, Writer { side, connection: writing, pings })
}

impl Reader {
    /// A part of a message. None: the client says that it sends nothing more, or has gone. Safe to drop and call again.
    pub async fn next(&mut self) -> io::Result<Option<Piece>> {
        loop {
            match self.frames.next(&mut self.read).map_err(|lie| io::Error::new(io::ErrorKind::InvalidData, lie.0))? {
                Some(Piece::Ping(bytes)) => drop(self.pings.try_send(bytes)),
                Some(Piece::Close) => return Ok(None),
                Some(piece) => return Ok(Some(piece)),
                None => {
                    self.read.reserve(READ_BYTES);
                    if self.connection.read_buf(&mut self.read).await? == 0 {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Reads on until the client has closed too: what it was sent last would be lost with a connection that is reset.
    pub async fn drain(mut self) {
        let mut bytes = BytesMut::new();
        loop {
            bytes.clear();
            bytes.reserve(READ_BYTES);
            match self.connection.read_buf(&mut bytes).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}

impl Writer {
    pub async fn message(&mut self, text: bool, parts: &[&[u8]]) -> io::Result<()> {
        self.send(&self.side.message(text, parts)).await
    }

    /// The next ping of the client; the answer to it is `pong`. None: the reader is gone. Safe to drop and call again.
    pub async fn ping(&mut self) -> Option<Bytes> {
        self.pings.recv().await
    }

    pub async fn pong(&mut self, ping: &[u8]) -> io::Result<()> {
        self.send(&self.side.pong(ping)).await
    }

    /// Says why, and sends nothing more.
    pub async fn close(mut self, code: u16) -> io::Result<()> {
        self.send(&self.side.close(code)).await?;
        self.connection.shutdown().await
    }

    /// To a client that has broken the protocol.
    pub async fn refuse(self) -> io::Result<()> {
        self.close(CLOSE_PROTOCOL).await
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.connection.write_all(bytes).await?;
        self.connection.flush().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(method: Method, fields: &[(&'static str, &'static str)]) -> Option<Result<Offer, &'static str>> {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in fields.iter().map(field) {
            headers.append(name, value);
        }
        Offer::of(&method, &headers)
    }

    const UPGRADE: [(&str, &str); 4] = [
        ("connection", "Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    #[test]
    fn what_a_client_offers() {
        let with = [&UPGRADE[..], &[("sec-websocket-protocol", "a, b"), ("sec-websocket-protocol", "c")]].concat();
        let offered = offer(Method::GET, &with).expect("it asks").expect("rightly");
        assert_eq!(offered.protocols, ["a", "b", "c"]);
        let accepted = offered.accept(Some("b"));
        assert_eq!(accepted[0].1, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(accepted[1], (header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("b")));
        assert_eq!(offered.accept(None).len(), 1);
        assert_eq!(offer(Method::GET, &[("connection", "upgrade"), ("upgrade", "SPDY/3.1")]), None);
        assert_eq!(offer(Method::GET, &UPGRADE[1..]), None);
        assert_eq!(offer(Method::POST, &UPGRADE), Some(Err("WebSocket begins with a GET")));
        assert_eq!(offer(Method::GET, &UPGRADE[..3]), Some(Err("WebSocket begins with a key")));
        assert_eq!(offer(Method::GET, &UPGRADE[..2]), Some(Err("WebSocket is spoken here in version 13")));
    }
}

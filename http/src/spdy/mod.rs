//! SPDY/3.1 for a server: many streams on one connection, or in the messages of a WebSocket (a tunnel).
//!
//!     open, tunnel    Reader: frames      Writer: replies, data, resets, answers to pings
//!     frames, headers PURE

pub mod frames;
pub mod headers;

use crate::upgrade::Upgraded;
use crate::websocket;
use crate::websocket::frames::{CLOSE_NORMAL, Piece};
use bytes::{Bytes, BytesMut};
use frames::{Frame, SpdyFrames};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};

/// Bytes of one read.
const READ_BYTES: usize = 16 * 1024;

enum Source {
    Plain(ReadHalf<Upgraded>),
    Tunnel(websocket::Reader),
}

enum Sink {
    Plain(WriteHalf<Upgraded>),
    Tunnel(websocket::Writer),
}

/// What a client sends.
pub struct SpdyReader {
    source: Source,
    read: BytesMut,
    frames: SpdyFrames,
}

/// What it is sent.
pub struct SpdyWriter {
    sink: Sink,
    /// A stream was accepted: the blocks of headers have begun.
    begun: bool,
}

pub fn open(upgraded: Upgraded) -> (SpdyReader, SpdyWriter) {
    let (reading, writing) = split(upgraded);
    halves(Source::Plain(reading), Sink::Plain(writing))
}

/// In the messages of a WebSocket.
pub fn tunnel(upgraded: Upgraded) -> (SpdyReader, SpdyWriter) {
    let (reader, writer) = websocket::open(upgraded);
    halves(Source::Tunnel(reader), Sink::Tunnel(writer))
}

fn halves(source: Source, sink: Sink) -> (SpdyReader, SpdyWriter) {
    (SpdyReader { source, read: BytesMut::new(), frames: SpdyFrames::default() }, SpdyWriter { sink, begun: false })
}

impl SpdyReader {
    /// None: the client has gone. Safe to drop and call again.
    pub async fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            let frame =
                self.frames.next(&mut self.read).map_err(|lie| io::Error::new(io::ErrorKind::InvalidData, lie.0))?;
            if frame.is_some() {
                return Ok(frame);
            }
            match &mut self.source {
                Source::Plain(connection) => {
                    self.read.reserve(READ_BYTES);
                    if connection.read_buf(&mut self.read).await? == 0 {
                        return Ok(None);
                    }
                }
                Source::Tunnel(reader) => match reader.next().await? {
                    Some(Piece::Message { bytes, .. }) => self.read.extend_from_slice(&bytes),
                    Some(_) => {}
                    None => return Ok(None),
                },
            }
        }
    }

    /// Reads on until the client has closed too.
    pub async fn drain(self) {
        match self.source {
            Source::Plain(mut connection) => {
                let mut bytes = BytesMut::new();
                loop {
                    bytes.clear();
                    bytes.reserve(READ_BYTES);
                    if !matches!(connection.read_buf(&mut bytes).await, Ok(1..)) {
                        return;
                    }
                }
            }
            Source::Tunnel(reader) => reader.drain().await,
        }
    }
}

impl SpdyWriter {
    pub async fn reply(&mut self, stream: u32) -> io::Result<()> {
        let begun = std::mem::replace(&mut self.begun, true);
        self.send(&frames::reply(stream, begun)).await
    }

    pub async fn data(&mut self, stream: u32, bytes: &[u8], ends: bool) -> io::Result<()> {
        self.send(&frames::data(stream, bytes, ends)).await
    }

    pub async fn reset(&mut self, stream: u32, why: u32) -> io::Result<()> {
        self.send(&frames::reset(stream, why)).await
    }

    /// The answer to a ping is the same.
    pub async fn ping(&mut self, number: u32) -> io::Result<()> {
        self.send(&frames::ping(number)).await
    }

    /// The next ping of the WebSocket around this; the answer is `pong`. Safe to drop and call again.
    pub async fn outer_ping(&mut self) -> Option<Bytes> {
        match &mut self.sink {
            Sink::Plain(_) => std::future::pending().await,
            Sink::Tunnel(writer) => writer.ping().await,
        }
    }

    pub async fn outer_pong(&mut self, ping: &[u8]) -> io::Result<()> {
        match &mut self.sink {
            Sink::Plain(_) => Ok(()),
            Sink::Tunnel(writer) => writer.pong(ping).await,
        }
    }

    /// Nothing more is sent.
    pub async fn close(self) -> io::Result<()> {
        match self.sink {
            Sink::Plain(mut connection) => connection.shutdown().await,
            Sink::Tunnel(writer) => writer.close(CLOSE_NORMAL).await,
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.sink {
            Sink::Plain(connection) => {
                connection.write_all(bytes).await?;
                connection.flush().await
            }
            Sink::Tunnel(writer) => writer.message(false, &[bytes]).await,
        }
    }
}

//! Connections to ports of a pod, for clients far away: each pair of a data stream and an error stream has a connection
//! inside the pod.
//!
//!     over SPDY        the client opens pairs as it needs them · over WebSocket: a pair for each port that its request
//!                      names
//!
//! If a pod takes no data, the data for the pod waits in the connection: neither carrier can hold back a single stream.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use coracle_http::Upgraded;
use coracle_http::spdy::frames::{CANCEL, Frame, REFUSED};
use coracle_http::websocket::frames::{CLOSE_NORMAL, Piece};
use coracle_http::{spdy, websocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::base64::Base64;
use super::channels::LINGER;
use super::pairs::{Pairs, StreamHeaders, Whole};

/// Ports that one request over WebSocket may name: each port takes two channel numbers, and the base64 form has 64
/// channel numbers.
pub const PORTS_MAX: usize = 32;
/// The most concurrent connections per client.
const PAIRS_MAX: usize = 256;
/// Waiting pieces of one stream for the pod. A piece has at most some 16 KiB.
const WAITING_MAX: usize = 16;
/// Pieces of all streams that wait for their client.
const OUTGOING_MAX: usize = 16;
/// A client that forwards nothing for so long, or twice as long, has been forgotten: a kubelet ends it as well.
const IDLE: Duration = Duration::from_secs(4 * 3600);
/// Bytes of one read.
const READ_BYTES: usize = 16 * 1024;

/// A message to the client; a stream is a number of the carrier.
#[derive(Debug, PartialEq)]
enum Outgoing {
    Accept(u32),
    Data { stream: u32, bytes: Bytes, ends: bool },
    Reset { stream: u32, why: u32 },
    Ping(u32),
}

/// The numbers of a connection's two streams.
#[derive(Clone, Copy, Debug)]
struct Pair {
    data: u32,
    error: u32,
    port: u16,
}

/// How a port inside a pod is reached: `NetworkNamespace::connect`, or a test's replacement.
pub trait Reach: Clone + Send + Sync + 'static {
    type Wire: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin;
    fn connect(&self, port: u16) -> impl Future<Output = Result<Self::Wire, String>> + Send;
    /// Called when both sides have finished, before the connection is dropped: the kernel still delivers sent data.
    /// Without this call the kernel discards the data.
    fn ended_well(wire: &Self::Wire);
    /// As errors call the pod.
    fn name(&self) -> &str;
}

/// Carries one connection to a port inside the pod until its end.
async fn run<R: Reach>(reach: R, pair: Pair, from_client: Receiver<Bytes>, outgoing: Sender<Outgoing>) {
    let Pair { data, error, port } = pair;
    let wire = match reach.connect(port).await {
        Ok(wire) => wire,
        Err(why) => {
            let words = format!("error forwarding port {port} to pod {}, uid : {why}", reach.name());
            log::debug!("{words}");
            let _ = outgoing.send(Outgoing::Data { stream: error, bytes: words.into(), ends: true }).await;
            let _ = outgoing.send(Outgoing::Reset { stream: data, why: CANCEL }).await;
            return;
        }
    };
    let (mut reading, mut writing) = tokio::io::split(wire);
    let (from_pod, to_pod) = (&mut reading, &mut writing);
    let outward = async {
        loop {
            let mut bytes = BytesMut::with_capacity(READ_BYTES);
            let ends = !matches!(from_pod.read_buf(&mut bytes).await, Ok(1..));
            if outgoing.send(Outgoing::Data { stream: data, bytes: bytes.freeze(), ends }).await.is_err() || ends {
                break;
            }
        }
        let _ = outgoing.send(Outgoing::Data { stream: error, bytes: Bytes::new(), ends: true }).await;
    };
    let inward = async {
        let mut from_client = from_client;
        while let Some(bytes) = from_client.recv().await {
            // What a pod does not take any more is lost, as it is where it closes its own connection.
            let _ = to_pod.write_all(&bytes).await;
        }
        let _ = to_pod.shutdown().await;
    };
    tokio::join!(outward, inward);
    R::ended_well(&reading.unsplit(writing));
}

/// Over SPDY, plain or in a tunnel, until the client has gone.
pub async fn over_spdy<R: Reach>(upgraded: Upgraded, tunnelled: bool, reach: R) {
    let (mut reader, mut writer) = if tunnelled { spdy::tunnel(upgraded) } else { spdy::open(upgraded) };
    let (outgoing, waiting) = mpsc::channel(OUTGOING_MAX);
    let moved = AtomicBool::new(false);
    tokio::select! {
        () = hear_spdy(&mut reader, reach, outgoing, &moved) => {}
        _ = tell_spdy(&mut writer, waiting, &moved) => {}
        () = idle(&moved) => {}
    }
    let _ = timeout(LINGER, writer.close()).await;
}

/// The streams of a client, and the tasks of their connections.
struct Streams<R> {
    reach: R,
    pairs: Pairs<Receiver<Bytes>>,
    /// By the number of the data stream: the channel for the client's bytes.
    takers: HashMap<u32, Sender<Bytes>>,
    /// By the number of the data stream: the handle that aborts the connection.
    connections: HashMap<u32, AbortHandle>,
    running: JoinSet<u32>,
    outgoing: Sender<Outgoing>,
}

/// Until no byte has moved for long.
async fn idle(moved: &AtomicBool) {
    loop {
        sleep(IDLE).await;
        if !moved.swap(false, Relaxed) {
            return;
        }
    }
}

async fn hear_spdy<R: Reach>(reader: &mut spdy::SpdyReader, reach: R, outgoing: Sender<Outgoing>, moved: &AtomicBool) {
    let (takers, connections, running) = (HashMap::new(), HashMap::new(), JoinSet::new());
    let mut streams = Streams { reach, pairs: Pairs::default(), takers, connections, running, outgoing };
    loop {
        let frame = tokio::select! {
            frame = reader.next() => frame,
            Some(ended) = streams.running.join_next(), if !streams.running.is_empty() => {
                if let Ok(data) = ended {
                    streams.forget(data);
                }
                continue;
            }
        };
        let Ok(Some(frame)) = frame else { return };
        let answer = match frame {
            Frame::Open { stream, headers, ends } => Some(streams.open(stream, &headers, ends)),
            Frame::Data { stream, bytes, ends } => {
                moved.store(true, Relaxed);
                if let Some(taker) = streams.takers.get(&stream).filter(|_| !bytes.is_empty()) {
                    let _ = taker.send(bytes).await;
                }
                if ends {
                    streams.takers.remove(&stream);
                }
                None
            }
            Frame::Reset { stream } => {
                streams.pairs.forget(stream);
                streams.forget(stream);
                None
            }
            Frame::Ping(number) => Some(Outgoing::Ping(number)),
        };
        if let Some(answer) = answer
            && streams.outgoing.send(answer).await.is_err()
        {
            return;
        }
    }
}

impl<R: Reach> Streams<R> {
    fn open(&mut self, stream: u32, headers: &[(String, String)], ends: bool) -> Outgoing {
        match self.begin(stream, headers, ends) {
            Ok(()) => Outgoing::Accept(stream),
            Err(why) => {
                log::debug!("port-forward: stream {stream} is rejected: {why}");
                Outgoing::Reset { stream, why: REFUSED }
            }
        }
    }

    fn begin(&mut self, stream: u32, headers: &[(String, String)], ends: bool) -> Result<(), String> {
        if self.connections.len() + self.pairs.len() >= PAIRS_MAX {
            return Err(format!("more than {PAIRS_MAX} connections of one client"));
        }
        let asked = StreamHeaders::read(stream, headers)?;
        let whole = if asked.is_data {
            let (taker, from_client) = mpsc::channel(WAITING_MAX);
            let whole = self.pairs.data(stream, asked, from_client)?;
            if !ends {
                self.takers.insert(stream, taker);
            }
            whole
        } else {
            self.pairs.error(stream, asked)?
        };
        if let Some(Whole { port, data, error, held }) = whole {
            let (reach, outgoing, pair) = (self.reach.clone(), self.outgoing.clone(), Pair { data, error, port });
            let connection = self.running.spawn(async move {
                run(reach, pair, held, outgoing).await;
                data
            });
            self.connections.insert(data, connection);
        }
        Ok(())
    }

    fn forget(&mut self, data: u32) {
        self.takers.remove(&data);
        if let Some(connection) = self.connections.remove(&data) {
            connection.abort();
        }
    }
}

async fn tell_spdy(
    writer: &mut spdy::SpdyWriter,
    mut waiting: Receiver<Outgoing>,
    moved: &AtomicBool,
) -> std::io::Result<()> {
    loop {
        tokio::select! {
            ping = writer.outer_ping() => if let Some(ping) = ping { writer.outer_pong(&ping).await? },
            next = waiting.recv() => match next {
                None => return Ok(()),
                Some(Outgoing::Accept(stream)) => writer.reply(stream).await?,
                Some(Outgoing::Data { stream, bytes, ends }) => {
                    moved.store(true, Relaxed);
                    writer.data(stream, &bytes, ends).await?;
                }
                Some(Outgoing::Reset { stream, why }) => writer.reset(stream, why).await?,
                Some(Outgoing::Ping(number)) => writer.ping(number).await?,
            },
        }
    }
}

/// Over WebSocket: of the port at `index`, channel `2 * index` is the data and the next one its error. Ends with the
/// last connection inside, or with the client.
pub async fn over_channels<R: Reach>(upgraded: Upgraded, base64: bool, ports: Vec<u16>, reach: R) {
    let (mut reader, mut writer) = websocket::open(upgraded);
    let (outgoing, waiting) = mpsc::channel(OUTGOING_MAX);
    let (mut takers, mut running) = (Vec::new(), JoinSet::new());
    for (index, port) in (0u32..).zip(&ports) {
        let (taker, from_client) = mpsc::channel(WAITING_MAX);
        takers.push(taker);
        let pair = Pair { data: 2 * index, error: 2 * index + 1, port: *port };
        running.spawn(run(reach.clone(), pair, from_client, outgoing.clone()));
    }
    drop(outgoing);
    let moved = AtomicBool::new(false);
    tokio::select! {
        () = hear_channels(&mut reader, base64, takers, &moved) => {}
        _ = tell_channels(&mut writer, base64, &ports, waiting, &moved) => {}
        () = idle(&moved) => {}
    }
    drop(running);
    let _ = timeout(LINGER, async {
        if writer.close(CLOSE_NORMAL).await.is_ok() {
            reader.drain().await;
        }
    })
    .await;
}

async fn hear_channels(reader: &mut websocket::Reader, base64: bool, takers: Vec<Sender<Bytes>>, moved: &AtomicBool) {
    let (mut channel, mut letters) = (None, Base64::default());
    while let Ok(Some(piece)) = reader.next().await {
        let Piece::Message { begins, mut bytes, .. } = piece else { continue };
        moved.store(true, Relaxed);
        if begins {
            (channel, letters) = (None, Base64::default());
        }
        if channel.is_none() && !bytes.is_empty() {
            let first = bytes.split_to(1)[0];
            channel = Some(if base64 { first.wrapping_sub(b'0') } else { first });
        }
        let taker = channel.filter(|channel| channel % 2 == 0).and_then(|channel| takers.get(usize::from(channel) / 2));
        let bytes = if base64 { letters.take(&bytes).into() } else { bytes };
        if let Some(taker) = taker.filter(|_| !bytes.is_empty()) {
            let _ = taker.send(bytes).await;
        }
    }
}

async fn tell_channels(
    writer: &mut websocket::Writer,
    base64: bool,
    ports: &[u16],
    mut waiting: Receiver<Outgoing>,
    moved: &AtomicBool,
) -> std::io::Result<()> {
    for (index, port) in (0u32..).zip(ports) {
        for channel in [2 * index, 2 * index + 1] {
            message(writer, base64, channel, &port.to_le_bytes()).await?;
        }
    }
    // A connection inside can have ended in one way and not in the other, which nobody can say here: the last end is
    // the end of all.
    let mut open = ports.len();
    while open > 0 {
        tokio::select! {
            ping = writer.ping() => if let Some(ping) = ping { writer.pong(&ping).await? },
            next = waiting.recv() => match next {
                None => return Ok(()),
                Some(Outgoing::Data { stream, bytes, ends }) => {
                    moved.store(true, Relaxed);
                    if !bytes.is_empty() {
                        message(writer, base64, stream, &bytes).await?;
                    }
                    open -= usize::from(ends && stream % 2 == 1);
                }
                Some(Outgoing::Accept(_) | Outgoing::Reset { .. } | Outgoing::Ping(_)) => {}
            },
        }
    }
    Ok(())
}

async fn message(writer: &mut websocket::Writer, base64: bool, channel: u32, bytes: &[u8]) -> std::io::Result<()> {
    // A request names at most PORTS_MAX ports.
    let channel = channel as u8;
    if base64 {
        writer.message(true, &[&[b'0' + channel], coracle_schema::base64::encode(bytes).as_bytes()]).await
    } else {
        writer.message(false, &[&[channel], bytes]).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_silent_for_hours_goes() {
        let (moved, begun) = (AtomicBool::new(true), Instant::now());
        idle(&moved).await;
        assert_eq!(begun.elapsed().as_secs(), 2 * IDLE.as_secs());
    }
}

//! How much the carriers take on at once, and how long they wait for anybody.

use std::time::Duration;

/// How much the network side takes on at once, and how long it waits for anybody. Counts are of the whole listener.
///
/// Of what is counted in all and not by address, one client may have `BYTES_TIMES` or `STREAMS_TIMES` what it leaves to
/// others. A client whose user is known counts by its user, and any other by its address. Nodes have a quarter of each
/// limit for requests for themselves, in addition.
#[derive(Clone, Debug)]
pub struct Limits {
    /// More than streams and requests together, so that some connection always waits for its client: this connection is
    /// closed when a new client finds no place. Each costs a descriptor and 14 KB.
    pub connections_max: usize,
    /// The same of one address; an IPv6 address counts by its /64. On loopback all clients share one.
    pub connections_per_address_max: usize,
    /// Requests between the end of their body and their answer; over it 429. Health checks are let through.
    pub requests_max: usize,
    /// The same from one address; over it 429.
    pub requests_per_address_max: usize,
    /// Handlers that run at once for requests that only read: each has a thread. More requests wait `slot`. Health
    /// checks have separate places.
    pub handlers_max: usize,
    /// So that one address with many slow requests leaves some threads to the others.
    pub handlers_per_address_max: usize,
    /// The same for requests that may write, in addition: writers wait for the disk together, and do not block readers.
    pub writers_max: usize,
    pub writers_per_address_max: usize,
    /// Watches, logs and forwarded answers at once; over it 429. A thousand that watch from one address have room.
    pub streams_max: usize,
    /// Connections that were upgraded, each of which is a stream as well; over it 429. One that leads on to another
    /// server costs two descriptors and 40 KB.
    pub upgrades_max: usize,
    /// Upgraded connections that may be silent for hours, as forwarded ports are: a client at this limit can still run
    /// a command.
    pub tunnels_max: usize,
    /// Request bodies in memory, the sum of their bytes beyond 8 KiB each; over it 429.
    pub bodies_bytes_max: usize,
    /// Whole answers that their clients have not yet taken, the sum of their bytes beyond 32 KiB each; over it 429.
    pub answers_bytes_max: usize,
    /// Connections of a TLS port that have not shaken hands: for one more, the one of the same address that has taken
    /// longest is closed.
    pub handshakes_max: usize,
    pub handshakes_per_address_max: usize,
    /// Requests at once on one connection of HTTP/2; over it the stream is refused.
    pub streams_per_connection_max: u32,
    /// A handshake must be complete in this time.
    pub handshake: Duration,
    /// A connection of HTTP/2 may be without a request for so long.
    pub idle: Duration,
    /// A head must be complete in this time; also how long a connection may idle between requests.
    pub head: Duration,
    /// A body must be complete in this time; else 408.
    pub body: Duration,
    /// The longest wait for a free handler; else 429.
    pub slot: Duration,
    /// No byte taken by the client for so long, and something to send: it is dropped.
    pub stall: Duration,
    /// A whole answer must have been taken in this time: ends readers that drip.
    pub answer: Duration,
    /// After the stop, requests in flight have so long to be answered.
    pub drain: Duration,
}

impl Limits {
    /// The values that were measured against hostile clients.
    pub const EDGE: Limits = Limits {
        connections_max: 1472,
        connections_per_address_max: 1280,
        requests_max: 256,
        requests_per_address_max: 128,
        handlers_max: 8,
        handlers_per_address_max: 6,
        writers_max: 64,
        writers_per_address_max: 56,
        streams_max: 1152,
        upgrades_max: 128,
        tunnels_max: 96,
        bodies_bytes_max: 16 << 20,
        answers_bytes_max: 32 << 20,
        handshakes_max: 256,
        handshakes_per_address_max: 192,
        streams_per_connection_max: 100,
        handshake: Duration::from_secs(10),
        idle: Duration::from_secs(90),
        head: Duration::from_secs(30),
        body: Duration::from_secs(60),
        slot: Duration::from_secs(5),
        stall: Duration::from_secs(30),
        answer: Duration::from_secs(120),
        drain: Duration::from_secs(10),
    };
}

/// The same for the local side. All its callers are root, so it bounds accidents, not attacks.
#[derive(Clone, Debug)]
pub struct LocalLimits {
    /// Threads for handlers of requests that only read. The clients are this host's agent and some commands: four
    /// threads are never all busy for long.
    pub handlers: usize,
    /// Requests that may write at once, each on an additional thread: writers wait for the disk, and do not block
    /// readers; over it 429.
    pub writers_max: usize,
    /// Watches, logs and forwarded answers at once, a thread each; over it 429.
    pub streams_max: usize,
    /// Forwarded answers among them: who leaves a quiet log is noticed only at its next line, and must not lock out the
    /// watches.
    pub forwards_max: usize,
    /// A blank line goes out between two events of a watch after this: only a write shows that the client has left.
    pub heartbeat: Duration,
    /// After a request, connections that tiny_http overlooked in the same burst are looked for this much later.
    pub probe_soon: Duration,
    /// Without requests nothing can be overlooked; this looks whether the socket's file is still there.
    pub probe_slow: Duration,
    /// Connections that a probe makes after a probe that helped; each makes tiny_http pick up an overlooked connection.
    pub probes: usize,
}

impl LocalLimits {
    pub const HOST: LocalLimits = LocalLimits {
        handlers: 4,
        writers_max: 32,
        streams_max: 224,
        forwards_max: 8,
        heartbeat: Duration::from_secs(10),
        probe_soon: Duration::from_secs(1),
        probe_slow: Duration::from_secs(30),
        probes: 8,
    };
}

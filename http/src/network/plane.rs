//! The state that all connections of a listener share, and the time that a client of one has.
use super::access::Access;
use super::bell::Bell;
use super::crowd::Crowd;
use super::port::{AdmitsAddress, Identify, OnRefusal, Port, Ration, TlsPort};
use super::room::{self, Room};
use super::share::Shares;
use crate::budget::Budget;
use crate::refusal::Journal;
use crate::{Handler, Identity, Limits, STREAMS_TIMES, Sessions};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// Threads for handlers and for what is checked before them.
pub(crate) fn threads(limits: &Limits) -> usize {
    let of = |limits: &Limits| limits.handlers_max + limits.writers_max;
    of(limits) + of(&room::of_nodes(limits)) + HEALTH_PLACES + CHECK_PLACES
}

/// Handlers at once of who asks for health. They take no time, and wait for none of the others.
pub(crate) const HEALTH_PLACES: usize = 2;

/// Credentials that are checked at once, each on a thread: a signature takes longer than all else that the thread of
/// all IO does with a request. Checks of a single address leave places free.
pub(crate) const CHECK_PLACES: usize = 4;
const CHECKS_OF_ONE: usize = 2;

/// The state that all connections of a listener share.
pub(super) struct Plane {
    pub(super) limits: Limits,
    pub(super) access: Access,
    pub(super) identify: Identify,
    pub(super) tls: Option<TlsPort>,
    pub(super) admits: AdmitsAddress,
    pub(super) sessions: Sessions,
    pub(super) refused: OnRefusal,
    pub(super) ration: Ration,
    pub(super) handler: Handler,
    pub(super) connections: Arc<Semaphore>,
    pub(super) health: Arc<Semaphore>,
    users: Room,
    nodes: Room,
    pub(super) upgrades: Budget,
    pub(super) tunnels: Budget,
    pub(super) crowd: Crowd,
    pub(super) handshakes: Crowd,
    /// Credentials that are checked, by address, and the places for it.
    pub(super) checking: Shares,
    pub(super) check_places: Arc<Semaphore>,
    pub(super) journal: Journal,
    pub(super) started: Instant,
    pub(super) drain: watch::Receiver<bool>,
    pub(super) bell: Bell,
}

impl Plane {
    pub(super) fn new(handler: Handler, port: Port, drain: watch::Receiver<bool>) -> Plane {
        let Port { access, identify, limits, tls, admits, sessions, refused, ration } = port;
        let semaphore = |n: usize| Arc::new(Semaphore::new(n));
        Plane {
            access,
            identify,
            tls,
            admits,
            sessions,
            refused,
            ration,
            handler,
            connections: semaphore(limits.connections_max),
            health: semaphore(HEALTH_PLACES),
            users: Room::new(&limits),
            nodes: Room::new(&room::of_nodes(&limits)),
            upgrades: Budget::new(limits.upgrades_max, STREAMS_TIMES),
            tunnels: Budget::new(limits.tunnels_max, STREAMS_TIMES),
            crowd: Crowd::of_connections(limits.connections_max, limits.connections_per_address_max),
            handshakes: Crowd::of_handshakes(limits.handshakes_max, limits.handshakes_per_address_max),
            checking: Shares::new(limits.requests_max, (CHECKS_OF_ONE, CHECKS_OF_ONE)),
            check_places: semaphore(CHECK_PLACES),
            journal: Journal::default(),
            started: Instant::now(),
            drain,
            bell: Bell::hang(),
            limits,
        }
    }

    /// The places and budgets for the requests of this identity.
    pub(super) fn room(&self, identity: &Identity) -> &Room {
        if identity.is_node() { &self.nodes } else { &self.users }
    }

    /// Milliseconds of monotonic time; never 0, which means "no deadline".
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    pub(super) fn due_after(&self, patience: Duration) -> u64 {
        self.now_ms() + u64::try_from(patience.as_millis()).unwrap_or(u64::MAX / 2)
    }
}

/// By when the client must have taken something: read by the connection, set by the answer on it.
#[derive(Default)]
pub(super) struct Pace {
    pub(super) due_ms: AtomicU64,
}

impl Pace {
    /// Something waits for the client, from now on or for a while already.
    pub(super) fn begin(&self, plane: &Plane, patience: Duration) {
        let _ = self.due_ms.compare_exchange(0, plane.due_after(patience), Relaxed, Relaxed);
    }

    /// None: nothing waits for the client.
    pub(super) fn due(&self, plane: &Plane) -> Option<Instant> {
        let due = self.due_ms.load(Relaxed);
        (due != 0).then(|| plane.started + Duration::from_millis(due))
    }
}

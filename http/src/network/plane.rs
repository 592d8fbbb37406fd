//! The state that all connections of a listener share, and the time that a client of one has.
use super::access::Access;
use super::bell::Bell;
use super::crowd::Crowd;
use super::port::{Identify, Port};
use super::share::{Places, Shares};
use crate::budget::Budget;
use crate::refusal::Journal;
use crate::{BYTES_TIMES, Handler, Limits, STREAMS_TIMES};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// Handlers at once of who asks for health. They take no time, and wait for none of the others.
pub(crate) const HEALTH_PLACES: usize = 2;

/// The state that all connections of a listener share.
pub(super) struct Plane {
    pub(super) limits: Limits,
    pub(super) access: Access,
    pub(super) identify: Identify,
    pub(super) handler: Handler,
    pub(super) connections: Arc<Semaphore>,
    pub(super) requests: Arc<Semaphore>,
    pub(super) places: Places,
    pub(super) health: Arc<Semaphore>,
    pub(super) streams: Budget,
    pub(super) upgrades: Budget,
    pub(super) tunnels: Budget,
    pub(super) bodies: Budget,
    pub(super) answers: Budget,
    pub(super) crowd: Crowd,
    pub(super) asking: Shares,
    pub(super) journal: Journal,
    pub(super) started: Instant,
    pub(super) drain: watch::Receiver<bool>,
    pub(super) bell: Bell,
}

impl Plane {
    pub(super) fn new(handler: Handler, port: Port, drain: watch::Receiver<bool>) -> Plane {
        let Port { access, identify, limits } = port;
        let semaphore = |n: usize| Arc::new(Semaphore::new(n));
        Plane {
            access,
            identify,
            handler,
            connections: semaphore(limits.connections_max),
            requests: semaphore(limits.requests_max),
            places: Places::new((limits.handlers_max, limits.writers_max)),
            health: semaphore(HEALTH_PLACES),
            streams: Budget::new(limits.streams_max, STREAMS_TIMES),
            upgrades: Budget::new(limits.upgrades_max, STREAMS_TIMES),
            tunnels: Budget::new(limits.tunnels_max, STREAMS_TIMES),
            bodies: Budget::new(limits.bodies_bytes_max, BYTES_TIMES),
            answers: Budget::new(limits.answers_bytes_max, BYTES_TIMES),
            crowd: Crowd::new(limits.connections_max, limits.connections_per_address_max),
            asking: Shares::new(
                limits.requests_per_address_max,
                (limits.handlers_per_address_max, limits.writers_per_address_max),
            ),
            journal: Journal::default(),
            started: Instant::now(),
            drain,
            bell: Bell::hang(),
            limits,
        }
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

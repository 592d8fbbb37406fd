//! The places and budgets of requests. Nodes have a room of their own: however many users ask at once, agents hear of
//! their pods, and say how they are.
use super::share::{Places, Shares};
use crate::budget::Budget;
use crate::{BYTES_TIMES, Limits, STREAMS_TIMES};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The part of each limit that nodes have in addition.
const NODES_PART: usize = 4;

/// What the requests of some clients share.
pub(super) struct Room {
    pub(super) requests: Arc<Semaphore>,
    pub(super) places: Places,
    pub(super) asking: Shares,
    pub(super) streams: Budget,
    pub(super) bodies: Budget,
    pub(super) answers: Budget,
}

impl Room {
    pub(super) fn new(limits: &Limits) -> Room {
        let of_one = (limits.handlers_per_address_max, limits.writers_per_address_max);
        Room {
            requests: Arc::new(Semaphore::new(limits.requests_max)),
            places: Places::new((limits.handlers_max, limits.writers_max)),
            asking: Shares::new(limits.requests_per_address_max, of_one),
            streams: Budget::new(limits.streams_max, STREAMS_TIMES),
            bodies: Budget::new(limits.bodies_bytes_max, BYTES_TIMES),
            answers: Budget::new(limits.answers_bytes_max, BYTES_TIMES),
        }
    }
}

/// The limits of the nodes' room, of which one node may have as much as one client of the others' room.
pub(crate) fn of_nodes(limits: &Limits) -> Limits {
    let part = |of: usize| (of / NODES_PART).max(1);
    Limits {
        requests_max: part(limits.requests_max),
        requests_per_address_max: part(limits.requests_per_address_max),
        handlers_max: part(limits.handlers_max),
        handlers_per_address_max: part(limits.handlers_per_address_max),
        writers_max: part(limits.writers_max),
        writers_per_address_max: part(limits.writers_per_address_max),
        streams_max: part(limits.streams_max),
        bodies_bytes_max: part(limits.bodies_bytes_max),
        answers_bytes_max: part(limits.answers_bytes_max),
        ..limits.clone()
    }
}

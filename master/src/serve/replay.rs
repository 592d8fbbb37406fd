//! The replay of a watch: what happened before it began, in pieces of whole events, within a budget of all clients.

use crate::fault::Fault;
use crate::store::locked;
use coracle_api::status::Status;
use coracle_http::BYTES_TIMES;
use coracle_http::budget::{Budget, Held, Party};
use std::sync::{Arc, Mutex};

/// One piece of a replay: large enough that few writes are made, small enough that little waits.
const PIECE_BYTES: usize = 32 * 1024;
/// Replays that their watchers have not yet taken, all together; one client may hold `BYTES_TIMES` the bytes left for
/// other clients. A single replay may be larger; otherwise a replay over the limit gets a 429.
const REPLAYS_BYTES_MAX: usize = 64 << 20;
/// `Retry-After` in seconds for a watcher that found no place for its replay: places are free as soon as replays are
/// read.
const SOON_S: u32 = 1;

/// Bytes of replays that are not taken yet.
pub struct Replays(Budget);

impl Default for Replays {
    fn default() -> Replays {
        Replays(Budget::new(REPLAYS_BYTES_MAX, BYTES_TIMES))
    }
}

impl Replays {
    /// One that is begun.
    pub fn of(&self, party: Party) -> Replay {
        Replay { pieces: Vec::new(), held: Arc::new(Mutex::new(self.0.take_any(party, 0))) }
    }
}

/// The replay of earlier events, in pieces of whole events.
pub struct Replay {
    pub pieces: Vec<Piece>,
    held: Arc<Mutex<Held>>,
}

impl Replay {
    pub fn push(&mut self, line: Vec<u8>) -> Result<(), Fault> {
        let added = line.len();
        if !locked(&self.held).grow_most(added) {
            return Err(Status::too_many_requests("others are still reading the start of their watches", SOON_S).into());
        }
        match self.pieces.last_mut().map(|piece| &mut piece.bytes).filter(|bytes| bytes.len() + added <= PIECE_BYTES) {
            Some(bytes) => bytes.extend_from_slice(&line),
            None => self.pieces.push(Piece { bytes: line, held: self.held.clone() }),
        }
        Ok(())
    }
}

/// A part of a replay counts from when it is made until it has been written, and is dropped.
pub struct Piece {
    bytes: Vec<u8>,
    held: Arc<Mutex<Held>>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        locked(&self.held).shrink(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replays_are_counted_until_they_are_read() {
        let replays = Replays::default();
        let other = Party::Address([10, 0, 0, 1].into());
        let mut large = replays.of(Party::Local);
        assert!((0..3).all(|_| large.push(vec![0; REPLAYS_BYTES_MAX / 2]).is_ok()), "a single one may be larger");
        let mut second = replays.of(Party::Local);
        let refused = second.push(vec![0; 1]).expect_err("it is too much");
        assert_eq!(
            (refused.status.code, refused.status.details.and_then(|details| details.retry_after_s)),
            (429, Some(SOON_S))
        );
        let mut others = replays.of(other);
        assert!(others.push(vec![0; 1 << 20]).is_ok(), "others find room");
        // What was not counted is given back first.
        large.pieces.pop();
        assert!(second.push(vec![0; 1]).is_err());
        large.pieces.clear();
        assert!(second.push(vec![0; 1]).is_ok());
        assert_eq!((second.pieces.len(), replays.0.taken()), (1, (1 << 20) + 1));
        drop((large, second, others));
        assert_eq!(replays.0.taken(), 0);
    }
}

//! The open connections. When a new one finds no room, one is closed: the longest idle of the address with most
//! connections. Strangers go first: a connection on which nobody has shown who he is, from another host. However many
//! strangers come, clients that are known keep their connections and get more.
//! A client that sends its head byte by byte shuts out nobody but itself.
use super::plane::Plane;
use crate::Identity;
use crate::budget::Party;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::task::AbortHandle;

/// Set in `Seat::waits` of a connection whose client takes an answer: those whose client owes a request go first.
const TAKES: u64 = 1 << 63;

/// Connections of strangers are at least this part of all before one of a known client is closed for a newcomer.
const STRANGERS_PART: usize = 4;

type Seats = HashMap<Party, Vec<Arc<Seat>>>;

pub(super) struct Crowd {
    connections_max: usize,
    of_one_max: usize,
    /// The words for a client without a place: too many connections of its address, too many in all.
    full: [&'static str; 2],
    seats: Arc<Mutex<Seats>>,
}

/// One connection.
#[derive(Default)]
pub(super) struct Seat {
    /// Since when it waits for its client, in milliseconds as the plane counts them.
    waits: AtomicU64,
    /// The requests on it that wait for no client: they work, or are streams.
    working: AtomicUsize,
    /// Its client has shown who it is, or is a program of this host.
    known: AtomicBool,
    task: OnceLock<AbortHandle>,
}

/// Given back when dropped.
pub(super) struct ConnectionSlot {
    seats: Arc<Mutex<Seats>>,
    party: Party,
    pub(super) seat: Arc<Seat>,
}

impl Seat {
    /// The task that ends where this connection has to go.
    pub(super) fn is_of(&self, task: AbortHandle) {
        let _ = self.task.set(task);
    }

    /// None: nobody takes its place.
    fn turn(&self) -> Option<u64> {
        let waits = self.working.load(Relaxed) == 0 && self.task.get().is_some();
        waits.then(|| self.waits.load(Relaxed)).filter(|since| *since > 0)
    }

    pub(super) fn task(&self) -> Option<&AbortHandle> {
        self.task.get()
    }
}

/// The use of a connection by a single request; HTTP/1.1 has a single request at a time.
pub(super) struct SeatUse {
    seat: Arc<Seat>,
    working: AtomicBool,
}

impl SeatUse {
    pub(super) fn new(seat: Arc<Seat>) -> SeatUse {
        SeatUse { seat, working: AtomicBool::new(false) }
    }

    /// Of another request on the same connection.
    pub(super) fn another(&self) -> SeatUse {
        SeatUse::new(self.seat.clone())
    }

    /// Waits for a request: for the head, or for the rest of the body.
    pub(super) fn awaits_request(&self, plane: &Plane) {
        self.seat.waits.store(plane.now_ms(), Relaxed);
        self.rests();
    }

    /// Waits for the client to take a whole answer.
    pub(super) fn awaits_taking(&self, plane: &Plane) {
        self.seat.waits.store(plane.now_ms() | TAKES, Relaxed);
        self.rests();
    }

    /// A request on it has come from this identity.
    pub(super) fn is_known(&self, identity: &Identity) {
        if !["", Identity::ANONYMOUS].contains(&identity.user.as_str()) {
            self.seat.known.store(true, Relaxed);
        }
    }

    pub(super) fn works(&self) {
        if !self.working.swap(true, Relaxed) {
            self.seat.working.fetch_add(1, Relaxed);
        }
    }

    fn rests(&self) {
        if self.working.swap(false, Relaxed) {
            self.seat.working.fetch_sub(1, Relaxed);
        }
    }

    pub(super) fn task(&self) -> Option<&AbortHandle> {
        self.seat.task()
    }
}

impl Drop for SeatUse {
    fn drop(&mut self) {
        self.rests();
    }
}

impl Crowd {
    pub(super) fn of_connections(connections_max: usize, of_one_max: usize) -> Crowd {
        let full = ["too many connections from one address", "too many connections"];
        Crowd { connections_max, of_one_max, full, seats: Arc::default() }
    }

    /// Connections before the end of the handshake: a stranger sends half a handshake in no time.
    pub(super) fn of_handshakes(handshakes_max: usize, of_one_max: usize) -> Crowd {
        let full = ["too many handshakes from one address", "too many handshakes"];
        Crowd { full, ..Crowd::of_connections(handshakes_max, of_one_max) }
    }

    /// A place for a connection that waits for its first request, and the party of the one that had to go for it. Else
    /// why there is none.
    pub(super) fn enter(&self, party: Party, plane: &Plane) -> Result<(ConnectionSlot, Option<Party>), &'static str> {
        let mut seats = lock(&self.seats);
        let gone = match self.goes(&seats, party)? {
            None => None,
            Some((of, at)) => {
                let gone = take(&mut seats, of, at);
                gone.task.get().into_iter().for_each(AbortHandle::abort);
                Some(of)
            }
        };
        let seat = Arc::new(Seat { known: is_of_this_host(party).into(), ..Seat::default() });
        seat.waits.store(plane.now_ms(), Relaxed);
        seats.entry(party).or_default().push(seat.clone());
        Ok((ConnectionSlot { seats: self.seats.clone(), party, seat }, gone))
    }

    /// The connection to close for a new one of this party; None: there is room.
    fn goes(&self, seats: &Seats, party: Party) -> Result<Option<(Party, usize)>, &'static str> {
        let own = seats.get(&party).map_or(0, Vec::len);
        let full = own >= self.of_one_max;
        if !full && seats.values().map(Vec::len).sum::<usize>() < self.connections_max {
            return Ok(None);
        }
        let is_known = |seat: &Arc<Seat>| seat.known.load(Relaxed);
        let known = is_of_this_host(party) || seats.get(&party).is_some_and(|of| of.iter().any(is_known));
        let strangers = seats.values().flatten().filter(|seat| !is_known(seat)).count();
        // An address never displaces one that has no more connections than it, unless it is known and the other is not.
        let of_others = |of: &[Arc<Seat>], of_known: bool| match of_known {
            false => of.len() > own || known,
            true => of.len() > own && strangers < self.connections_max / STRANGERS_PART,
        };
        let goes = [false, true].into_iter().find_map(|of_known| {
            let longest = |of: &[Arc<Seat>]| {
                let waiting = of.iter().enumerate().filter(|(_, seat)| is_known(seat) == of_known);
                waiting.filter_map(|(at, seat)| Some((seat.turn()?, at))).min().map(|(_, at)| at)
            };
            let theirs = seats.iter().filter(|(other, of)| **other == party || (!full && of_others(of, of_known)));
            let mut theirs: Vec<(&Party, &Vec<Arc<Seat>>)> = theirs.collect();
            theirs.sort_unstable_by_key(|(party, of)| (std::cmp::Reverse(of.len()), **party));
            theirs.into_iter().find_map(|(party, of)| Some((*party, longest(of)?)))
        });
        goes.map(Some).ok_or(self.full[usize::from(!full)])
    }
}

fn is_of_this_host(party: Party) -> bool {
    match party {
        Party::Local | Party::User(_) => true,
        Party::Address(address) => address.is_loopback(),
        Party::Named(_) => false,
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut seats = lock(&self.seats);
        // It may be another's already.
        let at = seats.get(&self.party).and_then(|of| of.iter().position(|seat| Arc::ptr_eq(seat, &self.seat)));
        at.into_iter().for_each(|at| drop(take(&mut seats, self.party, at)));
    }
}

fn lock(seats: &Mutex<Seats>) -> MutexGuard<'_, Seats> {
    seats.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take(seats: &mut Seats, party: Party, at: usize) -> Arc<Seat> {
    let of = seats.get_mut(&party).expect("its party has it");
    let seat = of.swap_remove(at);
    if of.is_empty() {
        seats.remove(&party);
    }
    seat
}

#[cfg(test)]
mod tests {
    use super::*;

    type Table<'t> = &'t [(u8, &'t [&'t str])];

    /// As they came to be, each by what it waits for: `0` nothing, `5` its request since then, `5t` its client to take
    /// an answer; `5k` the same of a client that is known.
    fn seats(table: Table) -> Seats {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let seat = |waits: &&str| {
            let since: u64 = waits.trim_end_matches(['t', 'k']).parse().expect("a number");
            let takes = if waits.ends_with('t') { TAKES } else { 0 };
            let known = waits.ends_with('k').into();
            let seat = Seat { waits: (since | takes).into(), known, ..Seat::default() };
            seat.is_of(runtime.spawn(async {}).abort_handle());
            Arc::new(seat)
        };
        table.iter().map(|(last, of)| (party(*last), of.iter().map(seat).collect())).collect()
    }

    fn party(last: u8) -> Party {
        Party::Address([10, 0, 0, last].into())
    }

    #[test]
    fn who_goes_for_one_more() {
        let crowd = Crowd::of_connections(5, 3);
        type Goes = Result<Option<(Party, usize)>, &'static str>;
        let table: [(&str, Table, u8, Goes); 16] = [
            ("there is room", &[(1, &["5", "6"]), (2, &["1"])], 1, Ok(None)),
            (
                "of the one that has most, the oldest",
                &[(1, &["5", "4", "6"]), (2, &["1", "1"])],
                3,
                Ok(Some((party(1), 1))),
            ),
            ("its own, where it has most", &[(1, &["5", "6"]), (2, &["1", "2", "3"])], 2, Ok(Some((party(2), 0)))),
            (
                "its own, however old others are",
                &[(1, &["5", "6"]), (2, &["1"]), (3, &["1", "1"])],
                1,
                Ok(Some((party(1), 0))),
            ),
            (
                "who owes a request before who takes an answer",
                &[(1, &["5t", "6", "0"]), (2, &["1", "1"])],
                3,
                Ok(Some((party(1), 1))),
            ),
            ("then who takes an answer", &[(1, &["7t", "6t", "0"]), (2, &["1", "1"])], 3, Ok(Some((party(1), 1)))),
            (
                "the next, where all of the first work",
                &[(1, &["0", "0", "0"]), (2, &["3", "2"])],
                3,
                Ok(Some((party(2), 1))),
            ),
            ("not for one who has as many", &[(1, &["0", "0", "0"]), (2, &["0", "0"])], 2, Err("too many connections")),
            ("its own share is full", &[(1, &["0", "5", "0"]), (2, &["1"])], 1, Ok(Some((party(1), 1)))),
            (
                "its own share is full and works",
                &[(1, &["0", "0", "0"])],
                1,
                Err("too many connections from one address"),
            ),
            ("all work", &[(1, &["0", "0", "0"]), (2, &["0", "0"])], 3, Err("too many connections")),
            ("a stranger before who is known", &[(1, &["1k", "2k", "3k"]), (2, &["9"]), (3, &["8"])], 4, {
                Ok(Some((party(2), 0)))
            }),
            (
                "for a known client a stranger, however few it has",
                &[(1, &["0k", "0k"]), (2, &["9"]), (3, &["8"]), (4, &["7"])],
                1,
                Ok(Some((party(2), 0))),
            ),
            ("its own stranger before its own known", &[(1, &["1k", "5", "2k"])], 1, Ok(Some((party(1), 1)))),
            (
                "who is known stays while strangers work",
                &[(1, &["1k", "2k", "3k"]), (2, &["0", "0"])],
                3,
                Err("too many connections"),
            ),
            (
                "who is known and has most goes where all are known",
                &[(1, &["5k", "4k", "6k"]), (2, &["1k", "1k"])],
                3,
                Ok(Some((party(1), 1))),
            ),
        ];
        for (what, connected, new, expected) in table {
            assert_eq!(crowd.goes(&seats(connected), party(new)), expected, "{what}");
        }
    }

    #[test]
    fn a_connection_with_a_stream_waits_for_nobody() {
        let seat = Arc::new(Seat { waits: 5.into(), ..Seat::default() });
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        seat.is_of(runtime.spawn(async {}).abort_handle());
        let (first, second) = (SeatUse::new(seat.clone()), SeatUse::new(seat.clone()).another());
        assert_eq!(seat.turn(), Some(5));
        first.works();
        second.works();
        second.works();
        drop(first);
        assert_eq!(seat.turn(), None);
        second.rests();
        assert_eq!(seat.turn(), Some(5));
    }
}

//! Writers in a row. The first becomes leader: it takes everybody who waits, makes their writes durable in one go,
//! tells them, and leaves the lead to whoever has come meanwhile. So no write waits for more than the one batch before
//! its own, a lone writer waits for nobody, and there is no thread between a writer and the disk.

use super::draft::PreparedWrite;
use super::setup::BATCH_WRITES_MAX;
use crate::store::{Refused, Stored, Write, locked};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

pub type Answer = Result<Stored, Refused>;

#[derive(Default)]
pub struct Queue {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    tickets: VecDeque<Ticket>,
    /// Somebody commits, or has been told to.
    led: bool,
}

/// A write on its way.
pub struct Ticket {
    pub draft: PreparedWrite,
    pub reply: Reply,
}

/// Where the writer waits. Whoever loses it has answered.
pub struct Reply(Option<Arc<Desk>>);

struct Desk {
    turn: Mutex<Turn>,
    turned: Condvar,
}

enum Turn {
    Waits,
    Leads,
    Answered(Box<Answer>),
    Gone,
}

/// The one who commits. The lead goes on when it is dropped.
pub struct Lead<'a> {
    queue: &'a Queue,
}

impl Queue {
    /// Waits until the write is answered. `commit` is called when this writer leads.
    pub fn pass(&self, write: Write, commit: impl Fn(Lead<'_>)) -> Answer {
        let desk = Arc::new(Desk { turn: Mutex::new(Turn::Waits), turned: Condvar::new() });
        let ticket = Ticket { draft: PreparedWrite::of(write), reply: Reply(Some(desk.clone())) };
        let leads = {
            let mut waiting = locked(&self.waiting);
            waiting.tickets.push_back(ticket);
            !std::mem::replace(&mut waiting.led, true)
        };
        if leads {
            commit(Lead { queue: self });
        }
        loop {
            match desk.wait() {
                Turn::Answered(answer) => return *answer,
                Turn::Leads => commit(Lead { queue: self }),
                Turn::Waits | Turn::Gone => {}
            }
        }
    }

    /// As many writers as come at the same time, one after the other.
    #[cfg(test)]
    pub fn pass_all(&self, writes: Vec<Write>, commit: impl Fn(Lead<'_>)) -> Vec<Answer> {
        let desks: Vec<_> =
            writes.iter().map(|_| Arc::new(Desk { turn: Mutex::new(Turn::Waits), turned: Condvar::new() })).collect();
        {
            let mut waiting = locked(&self.waiting);
            let tickets = writes.into_iter().zip(&desks);
            waiting.tickets.extend(
                tickets
                    .map(|(write, desk)| Ticket { draft: PreparedWrite::of(write), reply: Reply(Some(desk.clone())) }),
            );
            waiting.led = true;
        }
        commit(Lead { queue: self });
        let answer = |desk: Arc<Desk>| loop {
            match desk.wait() {
                Turn::Answered(answer) => return *answer,
                Turn::Leads => commit(Lead { queue: self }),
                Turn::Waits | Turn::Gone => {}
            }
        };
        desks.into_iter().map(answer).collect()
    }
}

impl Lead<'_> {
    /// Whoever waits, in order.
    pub fn take(&self) -> Vec<Ticket> {
        let mut waiting = locked(&self.queue.waiting);
        let count = waiting.tickets.len().min(BATCH_WRITES_MAX);
        waiting.tickets.drain(..count).collect()
    }

    /// They come before everybody else the next time.
    pub fn put_back(&self, tickets: Vec<Ticket>) {
        let mut waiting = locked(&self.queue.waiting);
        for ticket in tickets.into_iter().rev() {
            waiting.tickets.push_front(ticket);
        }
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut waiting = locked(&self.queue.waiting);
        match waiting.tickets.front().and_then(|ticket| ticket.reply.0.as_ref()) {
            Some(desk) => desk.turn(Turn::Leads),
            None => waiting.led = false,
        }
    }
}

impl Reply {
    pub fn give(mut self, answer: Answer) {
        if let Some(desk) = self.0.take() {
            desk.turn(Turn::Answered(Box::new(answer)));
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(desk) = self.0.take() {
            let why = "the master failed while it wrote; whether it is done is not known".to_owned();
            desk.turn(Turn::Answered(Box::new(Err(Refused::Disk { why, space: false }))));
        }
    }
}

impl Desk {
    fn turn(&self, turn: Turn) {
        *locked(&self.turn) = turn;
        self.turned.notify_one();
    }

    /// Takes what has been said; at once when something has.
    fn wait(&self) -> Turn {
        let mut turn = locked(&self.turn);
        while matches!(*turn, Turn::Waits) {
            turn = self.turned.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        match *turn {
            Turn::Leads => std::mem::replace(&mut *turn, Turn::Waits),
            _ => std::mem::replace(&mut *turn, Turn::Gone),
        }
    }
}

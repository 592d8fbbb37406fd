//! Few YAML bodies are read at a time: the reader keeps more than the text while it reads, and what aliases repeat is there as often as
//! they say. No count of the bytes of bodies knows of either.

use crate::fault::Fault;
use coracle_api::status::Status;
use coracle_http::Limits;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// As many as a small host has processors: more would take more memory, and none of them would be read sooner.
const READERS_MAX: usize = 2;
const AGAIN_S: u32 = 1;

pub struct Turns {
    taken: Mutex<usize>,
    free: Condvar,
    wait: Duration,
}

/// Given back when it is dropped: by who has read the body, or, of what may be larger than its body, by who has answered.
pub struct Turn(Arc<Turns>);

impl Default for Turns {
    /// The wait is that for a free handler.
    fn default() -> Turns {
        Turns { taken: Mutex::default(), free: Condvar::new(), wait: Limits::EDGE.slot }
    }
}

impl Turns {
    pub fn take(self: &Arc<Turns>) -> Result<Turn, Fault> {
        let free = self.free.wait_timeout_while(self.taken(), self.wait, |taken| *taken >= READERS_MAX);
        let (mut taken, waited) = free.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            let why = "the YAML of others is being read: send it again, or as JSON";
            return Err(Status::too_many_requests(why, AGAIN_S).into());
        }
        *taken += 1;
        Ok(Turn(self.clone()))
    }

    fn taken(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.taken() -= 1;
        self.0.free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_gets_the_turn_of_who_is_done_and_at_last_a_refusal() {
        let turns = Arc::new(Turns { wait: Duration::ZERO, ..Turns::default() });
        let mut taken: Vec<Turn> = (0..READERS_MAX).map(|_| turns.take().expect("there is room")).collect();
        let Err(refused) = turns.take() else { panic!("it is one too many") };
        assert_eq!((refused.status.code, refused.status.details.and_then(|details| details.retry_after_s)), (429, Some(AGAIN_S)));
        taken.pop();
        taken.push(turns.take().expect("one is done"));
        let patient = Arc::new(Turns { wait: Duration::MAX, taken: Mutex::new(READERS_MAX), ..Turns::default() });
        let waiting = patient.clone();
        let waits = std::thread::spawn(move || waiting.take().is_ok());
        drop(Turn(patient));
        assert!(waits.join().expect("no panic"));
    }
}

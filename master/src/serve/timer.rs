//! Ends of watches, bookmarks, memory that goes back: one thread for all that wait for a time. It starts with the first
//! and sleeps until the next is due.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest wait that is kept: a day. What asks for more ends then and resumes.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

type Due = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub struct Timer(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    running: bool,
    stopped: bool,
    next_id: u64,
    due: BTreeMap<(Instant, u64), Due>,
}

/// Forgets what was to be done when it is dropped.
pub struct Appointment {
    timer: Arc<Shared>,
    at: (Instant, u64),
}

impl Timer {
    /// `what` is called once after `wait`, on the timer's thread: it must not block.
    pub fn after(&self, wait: Duration, what: Due) -> Appointment {
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.next_id += 1;
        let at = (Instant::now() + wait.min(WAIT_MAX), waiting.next_id);
        waiting.due.insert(at, what);
        if !waiting.running {
            let shared = self.0.clone();
            let thread = std::thread::Builder::new().name("watch timer".to_owned()).stack_size(128 * 1024);
            match thread.spawn(move || shared.run()) {
                Ok(_) => waiting.running = true,
                Err(error) => log::error!("start the thread that ends watches: {error}; they go on, without bookmarks"),
            }
        }
        drop(waiting);
        self.0.changed.notify_one();
        Appointment { timer: self.0.clone(), at }
    }
}

#[cfg(test)]
impl Timer {
    /// Appointments that are kept.
    pub fn len(&self) -> usize {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).due.len()
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.stopped = true;
        let forgotten = std::mem::take(&mut waiting.due);
        drop(waiting);
        drop(forgotten);
        self.0.changed.notify_one();
    }
}

impl Drop for Appointment {
    fn drop(&mut self) {
        let forgotten = self.timer.waiting.lock().unwrap_or_else(PoisonError::into_inner).due.remove(&self.at);
        drop(forgotten);
    }
}

impl Shared {
    fn run(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while !waiting.stopped {
            let now = Instant::now();
            match waiting.due.first_key_value().map(|(at, _)| at.0) {
                Some(at) if at <= now => {
                    let due = waiting.due.pop_first();
                    drop(waiting);
                    if let Some((_, what)) = due {
                        what();
                    }
                    waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                }
                Some(at) => {
                    waiting = self.changed.wait_timeout(waiting, at - now).unwrap_or_else(PoisonError::into_inner).0
                }
                None => waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn in_order_and_not_when_forgotten() {
        let timer = Timer::default();
        let (late, soon) = (timer.after(2 * WAIT_MAX, Box::new(|| ())), timer.after(WAIT_MAX / 2, Box::new(|| ())));
        drop(timer.after(WAIT_MAX / 4, Box::new(|| ())));
        let due: Vec<u64> = timer.0.waiting.lock().expect("nobody panicked").due.keys().map(|(_, id)| *id).collect();
        assert_eq!(due, [soon.at.1, late.at.1]);
        let (done, called) = mpsc::channel();
        let _now = timer.after(Duration::ZERO, Box::new(move || done.send(()).expect("the test waits")));
        assert_eq!(called.recv(), Ok(()));
    }
}

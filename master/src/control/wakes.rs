//! The bounded queue of wakes for the controllers, with a flag for wakes that were left out.

use crate::figures::UsageReport;
use crate::store::Event;
use coracle_api::meta::Key;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

/// Wakes in the queue, of some hundred bytes each. A cluster that writes faster than its controllers take it in is read
/// anew from the store.
pub const QUEUE_MAX: usize = 20_000;

/// What wakes the controllers. Events of the store come with their content because the cluster is made of them; nothing
/// else does.
pub enum Wake {
    Event(Box<Event>),
    /// An object has gone of a kind that no controller follows.
    Left(Key),
    /// A node's sign of life.
    Heard(Key),
    /// The agents' answer: the usage of their pods.
    Measured(Vec<UsageReport>),
    /// The clock on the wall is another one.
    ClockSet,
    /// Other authorities are trusted.
    Trust,
    /// Other kinds are served.
    Kinds,
    Stop,
}

/// The way into the queue.
#[derive(Clone)]
pub struct Wakes {
    pub queue: mpsc::Sender<Wake>,
    pub fill: Arc<Fill>,
}

#[derive(Default)]
pub struct Fill {
    pub length: AtomicUsize,
    /// Something was left out.
    pub over: AtomicBool,
    /// Controllers wait for objects to go, of whatever kind.
    pub departures_awaited: AtomicBool,
    /// The agents are being asked.
    pub measuring: AtomicBool,
}

/// The way out of it.
pub struct Inbox {
    pub queue: mpsc::Receiver<Wake>,
    pub fill: Arc<Fill>,
}

pub fn wakes() -> (Wakes, Inbox) {
    let (sender, receiver) = mpsc::channel();
    let fill = Arc::new(Fill::default());
    (Wakes { queue: sender, fill: fill.clone() }, Inbox { queue: receiver, fill })
}

impl Wakes {
    /// A sign of life.
    pub fn hear(&self, key: &Key) {
        self.send(|| Wake::Heard(key.clone()));
    }

    pub fn clock_was_set(&self) {
        self.send(|| Wake::ClockSet);
    }

    pub fn trust_changed(&self) {
        self.send(|| Wake::Trust);
    }

    pub fn kinds_changed(&self) {
        self.send(|| Wake::Kinds);
    }

    pub fn stop(&self) {
        // A stopped thread hears nothing, which is what stopping means.
        let _ = self.queue.send(Wake::Stop);
    }

    pub fn send(&self, wake: impl FnOnce() -> Wake) -> bool {
        if self.fill.length.load(Ordering::Relaxed) >= QUEUE_MAX {
            self.fill.over.store(true, Ordering::Relaxed);
            return false;
        }
        self.fill.length.fetch_add(1, Ordering::Relaxed);
        self.queue.send(wake()).is_ok()
    }
}

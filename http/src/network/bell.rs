//! Many streams are told of the same thing at once, one after the other, by a thread that is not the network's. To wake
//! the network's thread for each would be a system call each, and often a change of threads. So it is woken for the
//! first, and itself tells the others.

use super::wire::{Chunk, Wire};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::Notify;
use tokio::task::yield_now;

/// Streams that wait for the network's thread. The task of one more is woken from where it is.
const WAITING_MAX: usize = 4096;

/// Streams that are told before others on the network's thread have their turn: as long as a list of pods takes.
const TURN: usize = 64;

/// Tells what hangs on it from the task that `hang` begins; that ends with its runtime.
#[derive(Clone)]
pub(super) struct Bell(Weak<Rung>);

#[derive(Default)]
struct Rung {
    /// In the order in which they rang.
    wires: Mutex<Vec<Arc<Wire>>>,
    first: Notify,
}

impl Bell {
    /// On the runtime whose connections these are.
    pub(super) fn hang() -> Bell {
        let rung = Arc::new(Rung::default());
        let bell = Bell(Arc::downgrade(&rung));
        tokio::spawn(async move {
            loop {
                rung.first.notified().await;
                let mut last = Chunk::default();
                // Takes the whole list: the memory for a burst is freed after the burst.
                let wires = std::mem::take(&mut *rung.wires());
                for (number, wire) in wires.into_iter().enumerate() {
                    wire.tell(&mut last);
                    if number % TURN == TURN - 1 {
                        yield_now().await;
                    }
                }
            }
        });
        bell
    }

    pub(super) fn ring(&self, wire: Arc<Wire>) {
        let Some(rung) = self.0.upgrade() else { return };
        let mut wires = rung.wires();
        if wires.len() == WAITING_MAX {
            drop(wires);
            return wire.wake_task();
        }
        wires.push(wire);
        // Who waits already has been told of, and is taken together with this one.
        if wires.len() == 1 {
            drop(wires);
            rung.first.notify_one();
        }
    }
}

impl Rung {
    fn wires(&self) -> MutexGuard<'_, Vec<Arc<Wire>>> {
        self.wires.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

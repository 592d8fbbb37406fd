//! Many streams are told of the same thing at once, one after the other, by a thread that is not the network's. To wake the network's thread
//! for each would be a system call each, and often a change of threads. So it is woken for the first, and itself tells the others.

use super::wire::{Chunk, Wire};
use std::sync::Arc;
use tokio::sync::mpsc::{self, Sender};
use tokio::task::yield_now;

/// Streams that wait for the network's thread. The task of one more is woken from where it is.
const WAITING_MAX: usize = 4096;

/// Streams that are told before others on the network's thread have their turn: as long as a list of pods takes.
const TURN: usize = 64;

/// Tells what hangs on it from the task that `hang` begins; that ends with the last of them.
#[derive(Clone)]
pub(super) struct Bell(Sender<Arc<Wire>>);

impl Bell {
    /// On the runtime whose connections these are.
    pub(super) fn hang() -> Bell {
        let (bell, mut rung) = mpsc::channel::<Arc<Wire>>(WAITING_MAX);
        tokio::spawn(async move {
            let mut wires = Vec::new();
            // One burst in memory: what it took is given back.
            while rung.recv_many(&mut wires, WAITING_MAX).await > 0 {
                let mut last = Chunk::default();
                for (told, wire) in std::mem::take(&mut wires).into_iter().enumerate() {
                    wire.tell(&mut last);
                    if told % TURN == TURN - 1 {
                        yield_now().await;
                    }
                }
            }
        });
        Bell(bell)
    }

    pub(super) fn ring(&self, wire: Arc<Wire>) {
        if let Err(unheard) = self.0.try_send(wire) {
            unheard.into_inner().wake_task();
        }
    }
}

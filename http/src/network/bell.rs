//! Many streams are told of the same thing at once, one after the other, by a thread that is not the network's. To wake the network's thread
//! for each would be a system call each, and often a change of threads. So it is woken for the first, and itself wakes the others.

use std::mem;
use std::sync::Arc;
use std::task::{Wake, Waker};
use tokio::sync::mpsc::{self, Sender};

/// Wakers that wait for the network's thread. One more is woken from where it is.
const WAITING_MAX: usize = 4096;

/// Wakes what hangs on it from the task that `hang` begins; that ends with the last of them.
#[derive(Clone)]
pub(super) struct Bell(Sender<Waker>);

impl Bell {
    /// On the runtime whose tasks are to be woken.
    pub(super) fn hang() -> Bell {
        let (bell, mut rung) = mpsc::channel::<Waker>(WAITING_MAX);
        tokio::spawn(async move {
            let mut wakers = Vec::new();
            while rung.recv_many(&mut wakers, WAITING_MAX).await > 0 {
                // What a burst took is given back.
                mem::take(&mut wakers).into_iter().for_each(Waker::wake);
            }
        });
        Bell(bell)
    }
}

/// What a stream has in hand for its task: the task's own waker, and the one that wakes it by the bell.
#[derive(Default)]
pub(super) struct Rope(Option<(Waker, Waker)>);

impl Rope {
    /// Wakes the same as `sleeper`, by the bell.
    pub(super) fn to(&mut self, bell: &Bell, sleeper: &Waker) -> &Waker {
        self.0.take_if(|(same, _)| !same.will_wake(sleeper));
        let pull = || Waker::from(Arc::new(Pull { bell: bell.clone(), sleeper: sleeper.clone() }));
        &self.0.get_or_insert_with(|| (sleeper.clone(), pull())).1
    }
}

struct Pull {
    bell: Bell,
    sleeper: Waker,
}

impl Wake for Pull {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Err(unheard) = self.bell.0.try_send(self.sleeper.clone()) {
            unheard.into_inner().wake();
        }
    }
}

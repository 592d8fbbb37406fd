//! How the keeper's thread is called, and told to stop.

use crate::store::guard::locked;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How the thread is called.
#[derive(Default)]
pub struct Keeper {
    pub bell: Arc<Bell>,
    pub thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
pub struct Bell {
    rung: Mutex<Rung>,
    heard: Condvar,
}

#[derive(Default)]
struct Rung {
    called: bool,
    ended: bool,
}

impl Keeper {
    pub fn call(&self) {
        let mut rung = locked(&self.bell.rung);
        if !std::mem::replace(&mut rung.called, true) {
            self.bell.heard.notify_one();
        }
    }

    /// Whether it was called, in place of the thread.
    #[cfg(test)]
    pub fn hear(&self) -> bool {
        std::mem::take(&mut locked(&self.bell.rung).called)
    }

    pub fn end(&self) {
        locked(&self.bell.rung).ended = true;
        self.bell.heard.notify_one();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

impl Bell {
    /// False: it is over.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        let (rung, quiet) = (locked(&self.rung), |rung: &mut Rung| !rung.called && !rung.ended);
        let mut rung = match timeout {
            None => self.heard.wait_while(rung, quiet).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                self.heard.wait_timeout_while(rung, timeout, quiet).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        rung.called = false;
        !rung.ended
    }
}

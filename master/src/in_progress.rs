//! Requests in progress that have to end: watches, logs and commands in pods, whose credentials count no more or whose
//! user may no longer do what they do.
//!
//!     every look          the credentials of each
//!     a changed role      the rights of each, at the next two looks: a request that was allowed before the change may
//!                         be entered after the first

use coracle_api::meta::Revision;
use coracle_http::{InProgress, Sessions};
use std::io;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What ended is noticed after this time, also on a connection that is silent.
pub const LOOK: Duration = Duration::from_secs(5);

/// A question about a request in progress.
pub type About = Box<dyn Fn(&InProgress) -> bool + Send>;

pub struct InProgressLooks {
    /// The requests in progress of all ports.
    pub sessions: Sessions,
    /// Whether the credential of a request has ended.
    pub is_over: About,
    /// Whether it would still be allowed.
    pub is_allowed: About,
    /// When the rights have changed last.
    pub changed: Box<dyn Fn() -> Revision + Send>,
    pub known: KnownRights,
}

/// The rights that requests in progress were asked about.
#[derive(Debug, Default)]
pub struct KnownRights {
    at: Revision,
    again: bool,
}

impl KnownRights {
    /// Whether to ask again now. `changed`: the last change.
    fn is_due(&mut self, changed: Revision) -> bool {
        let is_new = changed != self.at;
        self.at = changed;
        std::mem::replace(&mut self.again, is_new) || is_new
    }
}

impl InProgressLooks {
    /// Ends what has to end.
    pub fn look(&mut self) {
        let due = self.known.is_due((self.changed)());
        if self.sessions.is_empty() {
            return;
        }
        let over = self.sessions.end_where(&self.is_over);
        if over > 0 {
            log::info!("{over} requests in progress ended: the credentials of their users count no more");
        }
        let refused = if due { self.sessions.end_where(|asked| !(self.is_allowed)(asked)) } else { 0 };
        if refused > 0 {
            log::info!("{refused} requests in progress ended: their users may not do that any more");
        }
    }
}

/// Looks where no other thread does.
pub struct LookThread {
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl LookThread {
    pub fn start(mut looks: InProgressLooks) -> io::Result<LookThread> {
        let (stop, stopped) = sync_channel(1);
        let thread = thread::Builder::new().name("in-progress".to_owned()).spawn(move || {
            while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                looks.look();
            }
        })?;
        Ok(LookThread { stop, thread })
    }

    pub fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            log::error!("the thread that looks at requests in progress had panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_asked_twice_after_a_change() {
        let mut known = KnownRights::default();
        let asked: Vec<bool> = [0, 7, 7, 7, 8, 9, 9, 9].map(|at| known.is_due(Revision(at))).to_vec();
        assert_eq!(asked, [false, true, true, false, true, true, true, false]);
    }
}

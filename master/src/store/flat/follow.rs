//! Notifies watchers of changes, and keeps the history for those who come back.

use super::history::{HISTORY_BYTES_MAX, History};
use crate::store::{Event, Gone, Scope, Sink, Unwatched};
use coracle_api::meta::Revision;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::time::Duration;

/// Watches at once: several times what the carriers let in, and each commit looks at every one.
pub const WATCHERS_MAX: usize = 4096;

/// A watch that has begun.
pub struct Watch {
    /// The events before the sink's first one, in order.
    pub replay: Vec<Event>,
    /// The store's revision at that point.
    pub revision: Revision,
    pub handle: WatchHandle,
}

/// Ends the watch when dropped.
pub struct WatchHandle(#[allow(dead_code, reason = "it is there to be dropped")] Box<dyn Send + Sync>);

impl WatchHandle {
    /// `following`: what ends the watch when it is dropped.
    pub fn new(following: impl Send + Sync + 'static) -> WatchHandle {
        WatchHandle(Box::new(following))
    }
}

struct Following {
    followers: Weak<Mutex<Followers>>,
    ended: Arc<AtomicBool>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        let Some(followers) = self.followers.upgrade() else { return };
        // Whoever holds the lock may be telling this very watcher; then the next event sweeps.
        match followers.try_lock() {
            Ok(mut followers) => followers.sweep(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().sweep(),
            Err(TryLockError::WouldBlock) => {}
        };
    }
}

pub struct Followers {
    history: History,
    all: Vec<Follower>,
}

struct Follower {
    /// Shared by all followers of the same scope, so that an event is matched once.
    scope: Arc<Scope>,
    sink: Sink,
    ended: Arc<AtomicBool>,
}

impl Followers {
    pub fn new(floor: Revision, events_max: usize) -> Followers {
        Followers { history: History::with_limits(floor, events_max, HISTORY_BYTES_MAX), all: Vec::new() }
    }

    /// Everything after a revision, oldest first.
    pub fn after(&self, revision: Revision) -> Result<impl Iterator<Item = &Event>, Gone> {
        self.history.after(revision)
    }

    pub fn since(&self, scope: &Scope, after: Revision) -> Result<Vec<Event>, Gone> {
        Ok(self.history.after(after)?.filter(|event| scope.holds(&event.key)).cloned().collect())
    }

    pub fn add(
        &mut self,
        followers: &Arc<Mutex<Followers>>,
        scope: Scope,
        sink: Sink,
    ) -> Result<WatchHandle, Unwatched> {
        self.sweep();
        if self.all.len() >= WATCHERS_MAX {
            return Err(Unwatched::TooMany);
        }
        let known = self.all.iter().map(|follower| &follower.scope).find(|known| ***known == scope).cloned();
        let scope = known.unwrap_or_else(|| Arc::new(scope));
        let ended = Arc::new(AtomicBool::new(false));
        self.all.push(Follower { scope, sink, ended: ended.clone() });
        Ok(WatchHandle::new(Following { followers: Arc::downgrade(followers), ended }))
    }

    /// Whether nobody waits for anything to be forgotten.
    pub fn remembers_nothing(&self) -> bool {
        self.history.is_empty()
    }

    /// Forgets what nobody comes back to any more, and says when there will be more of it.
    pub fn age(&mut self, uptime: Duration) -> Option<Duration> {
        self.history.age(uptime)
    }

    pub fn tell(&mut self, event: Event, uptime: Duration) {
        let mut last: Option<(Arc<Scope>, bool)> = None;
        self.all.retain_mut(|follower| {
            let held = match &last {
                Some((scope, held)) if Arc::ptr_eq(scope, &follower.scope) => *held,
                _ => last.insert((follower.scope.clone(), follower.scope.holds(&event.key))).1,
            };
            if follower.ended.load(Ordering::Acquire) {
                return false;
            }
            if !held {
                return true;
            }
            catch_unwind(AssertUnwindSafe(|| (follower.sink)(&event))).unwrap_or_else(|_| {
                log::error!("a watcher of {} panicked and is told no more", follower.scope.resource);
                false
            })
        });
        self.history.push(event, uptime);
    }

    fn sweep(&mut self) {
        self.all.retain(|follower| !follower.ended.load(Ordering::Acquire));
    }
}

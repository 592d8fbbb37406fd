//! The line of `systemctl status`: "1 node, 12 pods run, 2 problems: ...". Written when it changes, and never at rest.
//!
//!     an event of a kind that is read -> the pause -> one look -> the followers, then systemd where the line is new
//!     `wake_at` of the last look      ->             one look -> ...
//!
//! A look reads all objects: some milliseconds for a hundred pods. It follows the first event of a burst after `PAUSE`,
//! and takes at most one part in `SHARE` of a processor: the next look waits so many times as long as the last took.

use crate::applied::Bell;
use crate::desk::Desk;
use crate::making::wall_clock;
use crate::problems::objects::KINDS;
use crate::problems::{Summary, is_heartbeat};
use crate::serve::Serve;
use crate::store::{Event, Scope, Store, WatchHandle, locked};
use coracle_api::meta::Time;
use coracle_program::notify::notify;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A burst, such as a rollout, is over or goes on for longer.
const PAUSE: Duration = Duration::from_secs(1);
/// One percent of a processor, on a store that never rests.
const SHARE: u32 = 100;
/// The wall clock may be set: a wait for a moment on it ends after so long.
const WAIT_MAX: Duration = Duration::from_secs(12 * 3600);

/// Told of each look.
pub type Follower = Box<dyn FnMut(&Summary) + Send>;

/// The memory of one look for each pod, with the objects around it.
const POD_BYTES: u64 = 8 << 10;

/// The thread of the line; it ends when this is dropped.
pub struct StatusLine {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
    _watches: Vec<WatchHandle>,
}

#[derive(Default)]
struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    changed: bool,
    stopped: bool,
}

impl StatusLine {
    /// Looks once at the start. None: without a line all is served, and `status` tells the same.
    pub fn start(store: &dyn Store, desk: Arc<Desk>, followers: Vec<Follower>) -> Option<StatusLine> {
        let started = StatusLine::begin(store, desk, followers);
        started.inspect_err(|error| log::error!("start the thread of the status line: {error}")).ok()
    }

    fn begin(store: &dyn Store, desk: Arc<Desk>, mut followers: Vec<Follower>) -> io::Result<StatusLine> {
        let signal = Arc::<Signal>::default();
        let watches = KINDS.into_iter().filter_map(|resource| {
            let signal = signal.clone();
            let scope = Scope { resource, namespace: None, name: None };
            let sink = Box::new(move |event: &Event| {
                if !is_quiet(event) {
                    signal.tell(|state| state.changed = true);
                }
                true
            });
            store.watch(scope, Some(store.revision()), sink).ok().map(|watch| watch.handle)
        });
        let watches = watches.collect();
        followers.push(Box::new(line_to_systemd()));
        let theirs = signal.clone();
        let thread =
            thread::Builder::new().name("status".to_owned()).spawn(move || follow(&theirs, &desk, &mut followers))?;
        Ok(StatusLine { signal, thread: Some(thread), _watches: watches })
    }

    /// For problems that change without an event of an object.
    pub fn bell(&self) -> Bell {
        let signal = self.signal.clone();
        Box::new(move || signal.tell(|state| state.changed = true))
    }
}

/// Nodes say again and again that they live.
fn is_quiet(event: &Event) -> bool {
    let (Some(old), Some(new)) = (&event.old, &event.new) else { return false };
    event.key.resource.plural == "nodes" && is_heartbeat(&old.json, &new.json)
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.signal.tell(|state| state.stopped = true);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread of the status line had panicked");
        }
    }
}

impl Signal {
    /// Wakes the thread once a burst: the committing thread stands here.
    fn tell(&self, change: impl FnOnce(&mut State)) {
        let mut state = locked(&self.state);
        let known = state.changed;
        change(&mut state);
        if !known || state.stopped {
            self.changed.notify_all();
        }
    }

    /// Until something changes or the time is over. `false`: it is to end.
    fn wait(&self, at_most: Option<Duration>) -> bool {
        let state = locked(&self.state);
        let rests = |state: &mut State| !state.changed && !state.stopped;
        let state = match at_most {
            Some(at_most) => {
                let waited = self.changed.wait_timeout_while(state, at_most, rests);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.changed.wait_while(state, rests).unwrap_or_else(PoisonError::into_inner),
        };
        !state.stopped
    }

    /// A pause that a change does not end. `false`: it is to end.
    fn pause(&self, time: Duration) -> bool {
        let state = locked(&self.state);
        let waited = self.changed.wait_timeout_while(state, time, |state| !state.stopped);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.changed = false;
        !state.stopped
    }
}

fn follow(signal: &Signal, desk: &Desk, followers: &mut [Follower]) {
    loop {
        let begun = Instant::now();
        let (summary, wake_at) = desk.look();
        let pause = PAUSE.max(begun.elapsed() * SHARE);
        followers.iter_mut().for_each(|follower| follower(&summary));
        drop(summary);
        if !signal.wait(wake_at.map(|at| until(at, wall_clock()))) || !signal.pause(pause) {
            return;
        }
    }
}

fn until(moment: Time, now: Time) -> Duration {
    let seconds = u64::try_from(moment.seconds().saturating_sub(now.seconds())).unwrap_or_default();
    Duration::from_secs(seconds).min(WAIT_MAX)
}

/// The memory of a look goes back to the host with that of requests.
pub fn giving_back(serve: &Arc<Serve>) -> Follower {
    let serve = Arc::downgrade(serve);
    Box::new(move |summary| {
        let pods = &summary.pods;
        let count = pods.running + pods.pending + pods.succeeded + pods.failed;
        if let Some(serve) = serve.upgrade() {
            serve.worked(count as u64 * POD_BYTES);
        }
    })
}

/// Tells systemd a line that differs from the last.
fn line_to_systemd() -> impl FnMut(&Summary) + Send {
    let mut told = String::new();
    move |summary| {
        let line = summary.line();
        if line != told {
            notify(&format!("STATUS={line}"));
            told = line;
        }
    }
}

//! The controllers: one thread that owns `Cluster` and brings it to what was asked.
//!
//!     event -> Cluster::apply -> keys (hints) -> decide(&Cluster, key, now) -> Intents -> prepare -> Store::write -> event ...
//!
//! Every controller is a pure function of the cluster and one key; what it wants done comes back as `Intent`s with the
//! revision that was seen. Losing the race is silent: the winner's write is an event, and the key is looked at again.

mod act;
mod cluster;
mod endpoints;
mod intent;
mod keys;
mod nodes;
mod replicate;
mod schedule;

pub use act::Gate;
pub use cluster::Cluster;
pub use intent::{Decision, Intent};
pub use keys::Owner;

use crate::store::{Event, Scope, Store, WatchHandle};
use coracle_api::meta::{Key, Resource, Time};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// What the controllers look at.
const FOLLOWED: [&str; 6] = ["pods", "replicationcontrollers", "services", "endpoints", "nodes", "events"];
/// Rounds over keys between two looks at the queue: more means controllers that answer each other for ever.
const ROUNDS_MAX: usize = 1000;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// What is shown.
    pub wall: Time,
    /// What silence and age are measured by, since this process started.
    pub uptime: Duration,
}

/// What wakes the thread. Events of the store come with their content because the cluster is made of them; nothing else does.
enum Wake {
    Event(Box<Event>),
    Heard(Key),
    Stop,
}

/// The running controllers. Dropping it stops them.
pub struct Control {
    wakes: mpsc::Sender<Wake>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Control {
    /// Starts the thread; it begins with all that is in the store.
    pub fn start(store: Store, gate: Gate) -> std::io::Result<Control> {
        let (wakes, woken) = mpsc::channel();
        let sender = wakes.clone();
        let run = move || Loop::new(store, gate, &sender).run(&woken);
        let thread = thread::Builder::new().name("control".into()).stack_size(1 << 20).spawn(run)?;
        Ok(Control { wakes, thread: Some(thread) })
    }

    /// A sign of life of an object whose kind has heartbeats.
    pub fn hearing(&self) -> impl Fn(&Key) + Send + Sync + 'static {
        let wakes = Mutex::new(self.wakes.clone());
        move |key| {
            let wakes = wakes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // A stopped thread hears nothing, which is what stopping means.
            let _ = wakes.send(Wake::Heard(key.clone()));
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = self.wakes.send(Wake::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Loop {
    store: Store,
    gate: Gate,
    started: Instant,
    cluster: Cluster,
    dirty: BTreeSet<Owner>,
    /// When to look at a key again though nothing happened, by uptime.
    timers: BTreeSet<(Duration, Owner)>,
    watches: Vec<WatchHandle>,
}

impl Loop {
    fn new(store: Store, gate: Gate, wakes: &mpsc::Sender<Wake>) -> Loop {
        let cluster = Cluster::default();
        let mut this =
            Loop { store, gate, started: Instant::now(), cluster, dirty: BTreeSet::new(), timers: BTreeSet::new(), watches: Vec::new() };
        for plural in FOLLOWED {
            this.follow(Resource::core(plural), wakes.clone());
        }
        this.dirty = keys::all(&this.cluster);
        this
    }

    fn follow(&mut self, resource: Resource, wakes: mpsc::Sender<Wake>) {
        self.cluster.damaged.extend(self.store.list(&resource, None).damaged);
        // The queue has no bound of its own: it holds what other threads write between two drains, and each of those writes waits for the
        // disk or for a handler. A watcher that is dropped for being slow would have to start anew.
        let sink = Box::new(move |event: &Event| wakes.send(Wake::Event(Box::new(event.clone()))).is_ok());
        let scope = Scope { resource, namespace: None, name: None };
        let Ok(watch) = self.store.watch(scope, None, sink) else { return };
        for event in &watch.replay {
            self.cluster.apply(event, self.started.elapsed());
        }
        self.watches.push(watch.handle);
    }

    fn now(&self) -> Now {
        Now { wall: crate::making::wall_clock(), uptime: self.started.elapsed() }
    }

    fn run(mut self, woken: &mpsc::Receiver<Wake>) {
        loop {
            let patience = self.timers.first().map(|(at, _)| at.saturating_sub(self.started.elapsed()));
            let wake = match patience {
                Some(patience) => woken.recv_timeout(patience),
                None => woken.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match wake {
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(wake) => self.take(wake),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if !self.drain(woken) {
                return;
            }
            self.due();
            for _ in 0..ROUNDS_MAX {
                let Some(owner) = self.dirty.pop_first() else { break };
                self.look(&owner);
                // Our own writes are events in the queue by now: the cluster is never older than they are.
                if !self.drain(woken) {
                    return;
                }
            }
        }
    }

    /// Everything that is in the queue; false: stop.
    fn drain(&mut self, woken: &mpsc::Receiver<Wake>) -> bool {
        while let Ok(wake) = woken.try_recv() {
            if matches!(wake, Wake::Stop) {
                return false;
            }
            self.take(wake);
        }
        true
    }

    fn take(&mut self, wake: Wake) {
        match wake {
            Wake::Event(event) => {
                self.dirty.extend(keys::of(&self.cluster, &event));
                let uptime = self.started.elapsed();
                self.cluster.apply(&event, uptime);
                self.dirty.extend(keys::of(&self.cluster, &event));
            }
            Wake::Heard(key) => {
                if self.cluster.hear(&key.name, self.started.elapsed()) {
                    self.dirty.insert(Owner::Node(key.name));
                }
            }
            Wake::Stop => {}
        }
    }

    fn due(&mut self) {
        let uptime = self.started.elapsed();
        while let Some((at, _)) = self.timers.first()
            && *at <= uptime
        {
            let (_, owner) = self.timers.pop_first().expect("it was just seen");
            self.dirty.insert(owner);
        }
    }

    fn look(&mut self, owner: &Owner) {
        let now = self.now();
        let decision = decide(&self.cluster, owner, now);
        self.timers.retain(|(_, other)| other != owner);
        if let Some(at) = decision.wake_at {
            self.timers.insert((at, owner.clone()));
        }
        for intent in decision.intents {
            if let Err(failed) = self.gate.pass(&self.store, intent, now) {
                self.timers.insert((now.uptime + act::AGAIN_AFTER, owner.clone()));
                if let Some(event) = self.cluster.complain(owner, failed, now) {
                    let _ = self.gate.pass(&self.store, event, now);
                }
                break;
            }
        }
    }
}

/// What a key's controller wants done.
pub fn decide(cluster: &Cluster, owner: &Owner, now: Now) -> Decision {
    match owner {
        Owner::Unbound => schedule::decide(cluster),
        Owner::Controller(key) => replicate::decide(cluster, key),
        Owner::Service(key) => endpoints::decide(cluster, key),
        Owner::Node(name) => nodes::decide(cluster, name, now),
        Owner::Events => nodes::expire_events(cluster, now),
    }
}

/// Every key there is: the full pass that must find nothing to do once the cluster is quiet.
pub fn all_keys(cluster: &Cluster) -> BTreeSet<Owner> {
    keys::all(cluster)
}

#[cfg(test)]
mod tests;

//! One step of the controllers: take in what happened, look at every key whose world changed. The thread is a thin loop around it, and a
//! test drives it with a time of its own.

use super::act::{self, Gate};
use super::cluster::{Cluster, is_followed};
use super::quota::Quota;
use super::{Decision, Intent, Now, Owner, decide, garbage, keys, namespaces, own, replicate};
use crate::store::{Event, Scope, Store, WatchHandle};
use coracle_api::meta::{Key, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Keys looked at in one step: then the clocks are read again.
const LOOKS_MAX: usize = 64;
/// Wakes in the queue, of some hundred bytes each. A cluster that writes faster than its controllers take it in is read anew from the store.
const QUEUE_MAX: usize = 20_000;

/// What wakes the controllers. Events of the store come with their content because the cluster is made of them; nothing else does.
enum Wake {
    Event(Box<Event>),
    /// Something has gone from a namespace.
    Left(String),
    Heard(Key),
    Stop,
}

/// The way into the queue.
#[derive(Clone)]
pub struct Wakes {
    queue: mpsc::Sender<Wake>,
    fill: Arc<Fill>,
}

#[derive(Default)]
struct Fill {
    length: AtomicUsize,
    /// Something was left out.
    over: AtomicBool,
    /// A namespace ends, or has quotas: whatever goes is a hint.
    ends: AtomicBool,
}

/// The way out of it.
pub struct Inbox {
    queue: mpsc::Receiver<Wake>,
    fill: Arc<Fill>,
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

    pub fn stop(&self) {
        // A stopped thread hears nothing, which is what stopping means.
        let _ = self.queue.send(Wake::Stop);
    }

    fn send(&self, wake: impl FnOnce() -> Wake) -> bool {
        if self.fill.length.load(Ordering::Relaxed) >= QUEUE_MAX {
            self.fill.over.store(true, Ordering::Relaxed);
            return false;
        }
        self.fill.length.fetch_add(1, Ordering::Relaxed);
        self.queue.send(wake()).is_ok()
    }
}

/// What comes after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// There is more to look at.
    More,
    /// Nothing, until something happens or this uptime.
    Until(Option<Duration>),
    Stop,
}

/// The controllers at work.
pub struct Step {
    store: Arc<dyn Store>,
    gate: Gate,
    cluster: Cluster,
    dirty: BTreeSet<Owner>,
    timers: Timers,
    quota: Quota,
    wakes: Wakes,
    inbox: Inbox,
    /// Taken out of the queue by a wait.
    waited: Option<Wake>,
    watches: Vec<WatchHandle>,
}

/// When to look at a key again though nothing happened, by uptime: once for each.
#[derive(Default)]
struct Timers {
    by_time: BTreeSet<(Duration, Owner)>,
    by_owner: BTreeMap<Owner, Duration>,
}

impl Timers {
    fn set(&mut self, owner: &Owner, at: Option<Duration>) {
        if let Some(old) = self.by_owner.remove(owner) {
            self.by_time.remove(&(old, owner.clone()));
        }
        if let Some(at) = at {
            self.by_owner.insert(owner.clone(), at);
            self.by_time.insert((at, owner.clone()));
        }
    }

    fn first(&self) -> Option<Duration> {
        self.by_time.first().map(|(at, _)| *at)
    }

    fn due(&mut self, uptime: Duration) -> Option<Owner> {
        let (_, owner) = self.by_time.first().filter(|(at, _)| *at <= uptime)?.clone();
        self.set(&owner, None);
        Some(owner)
    }
}

impl Step {
    /// Begins with all that is in the store.
    pub fn new(store: Arc<dyn Store>, gate: Gate, wakes: Wakes, inbox: Inbox, now: Now) -> Step {
        let (cluster, dirty) = (Cluster::of(gate.kinds()), BTreeSet::new());
        let (timers, quota) = (Timers::default(), Quota::default());
        let mut step = Step { store, gate, cluster, dirty, timers, quota, wakes, inbox, waited: None, watches: Vec::new() };
        step.follow(now);
        step.cluster.complete();
        step
    }

    /// What the controllers know.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn wakes(&self) -> &Wakes {
        &self.wakes
    }

    /// Until something is in the queue, or for so long.
    pub fn wait(&mut self, patience: Option<Duration>) {
        self.waited = match patience {
            Some(patience) => self.inbox.queue.recv_timeout(patience).ok(),
            None => self.inbox.queue.recv().ok(),
        };
    }

    pub fn step(&mut self, now: Now) -> Rest {
        if !self.drain(now) {
            return Rest::Stop;
        }
        while let Some(owner) = self.timers.due(now.uptime) {
            self.dirty.insert(owner);
        }
        for _ in 0..LOOKS_MAX {
            let Some(owner) = self.dirty.pop_first() else {
                let ends = self.cluster.namespaces.values().any(|ends| *ends) || !self.cluster.quotas.is_empty();
                self.inbox.fill.ends.store(ends, Ordering::Release);
                return Rest::Until(self.timers.first());
            };
            self.look(&owner, now);
            // Our own writes are events in the queue by now: the cluster is never older than they are.
            if !self.drain(now) {
                return Rest::Stop;
            }
        }
        Rest::More
    }

    /// Reads everything from the store, and what is written from then on.
    fn follow(&mut self, now: Now) {
        self.watches.clear();
        self.cluster.authority = self.gate.authority();
        self.cluster.own = self.gate.own();
        let resources: Vec<Resource> = self.gate.kinds().stored().map(|kind| kind.resource.clone()).collect();
        for resource in resources {
            let whole = is_followed(&resource);
            let looked_at = move |key: &Key| whole || namespaces::concerns(key) || own::concerns(key);
            self.cluster.damaged.extend(self.store.list(&resource, None).damaged.into_iter().filter(looked_at));
            let wakes = self.wakes.clone();
            // Of most kinds only owners and what they own matter, and what goes while a namespace waits for that.
            let sink = Box::new(move |event: &Event| match event {
                event if looked_at(&event.key) || garbage::concerns(event) => wakes.send(|| Wake::Event(Box::new(event.clone()))),
                event if event.new.is_none() && wakes.fill.ends.load(Ordering::Acquire) => {
                    wakes.send(|| Wake::Left(event.key.namespace.clone()))
                }
                _ => true,
            });
            let scope = Scope { resource, namespace: None, name: None };
            let Ok(watch) = self.store.watch(scope, None, sink) else { continue };
            for event in &watch.replay {
                self.cluster.apply(event, now.uptime);
            }
            self.watches.push(watch.handle);
        }
        self.look_for_owners();
        self.dirty = keys::all(&self.cluster);
    }

    /// Owners that objects name, as they stand in the store.
    fn look_for_owners(&mut self) {
        for key in self.cluster.garbage.unlooked() {
            let before = self.store.revision();
            let found = self.store.get(&key);
            self.cluster.garbage.saw(&key, before, &found);
        }
        self.dirty.extend(self.cluster.garbage.dirty().into_iter().map(Owner::Garbage));
    }

    /// Everything that is in the queue; false: stop.
    fn drain(&mut self, now: Now) -> bool {
        while let Some(wake) = self.waited.take().or_else(|| self.inbox.queue.try_recv().ok()) {
            if !matches!(wake, Wake::Stop) {
                self.inbox.fill.length.fetch_sub(1, Ordering::Relaxed);
            }
            match wake {
                Wake::Event(event) => self.dirty.extend(keys::apply(&mut self.cluster, &event, now.uptime)),
                Wake::Left(namespace) => self.dirty.extend(keys::left(&self.cluster, &namespace)),
                Wake::Heard(key) => {
                    if self.cluster.hear(&key.name, now.uptime) {
                        self.dirty.insert(Owner::Node(key.name));
                    }
                }
                Wake::Stop => return false,
            }
        }
        if self.inbox.fill.over.swap(false, Ordering::Relaxed) {
            self.begin_anew(now);
        }
        self.look_for_owners();
        true
    }

    /// Something was left out of the queue.
    fn begin_anew(&mut self, now: Now) {
        log::warn!("more than {QUEUE_MAX} changes at once: the controllers read the cluster anew");
        self.watches.clear();
        let old = std::mem::replace(&mut self.cluster, Cluster::of(self.gate.kinds()));
        // What is still in the queue is older than what is read now.
        while let Ok(wake) = self.inbox.queue.try_recv() {
            match wake {
                Wake::Stop => return self.wakes.stop(),
                Wake::Event(_) | Wake::Left(_) | Wake::Heard(_) => self.inbox.fill.length.fetch_sub(1, Ordering::Relaxed),
            };
        }
        self.follow(now);
        self.cluster.inherit(old, now.uptime);
        self.dirty = keys::all(&self.cluster);
    }

    fn look(&mut self, owner: &Owner, now: Now) {
        // One key that cannot be looked at must not end the others' controllers.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.act(owner, now)));
        let failed = outcome.unwrap_or_else(|_| Some("its controller panicked".to_owned()));
        let Some(why) = failed else {
            // Its status may still say so.
            if self.cluster.content(owner) && matches!(owner, Owner::Controller(_)) {
                self.dirty.insert(owner.clone());
            }
            return;
        };
        self.timers.set(owner, Some(now.uptime + act::AGAIN_AFTER));
        let first = self.cluster.complaint(owner).is_none();
        if !self.cluster.complain(owner, &why) {
            return;
        }
        log::warn!("{owner}: {why}");
        let Owner::Controller(key) = owner else { return };
        if let Some(tale) = replicate::complaint(&self.cluster, key, &why) {
            self.gate.tell(&*self.store, &tale, None, now);
        }
        // Its status is to say so.
        if first {
            self.dirty.insert(owner.clone());
        }
    }

    /// One step of the end of a namespace.
    fn end(&mut self, name: &str, now: Now) -> Decision {
        // Before the look at what is there: no deletion falls between.
        self.inbox.fill.ends.store(true, Ordering::Release);
        self.gate.end(&*self.store, name, now)
    }

    /// The first thing that failed.
    fn act(&mut self, owner: &Owner, now: Now) -> Option<String> {
        if self.gate.rests(owner) {
            return None;
        }
        let decision = match owner {
            Owner::Namespace(name) if self.cluster.namespaces.get(name) == Some(&true) => self.end(name, now),
            Owner::Quotas(namespace) => {
                self.inbox.fill.ends.store(true, Ordering::Release);
                self.gate.recount(&*self.store, namespace);
                return None;
            }
            _ => decide(&self.cluster, owner, now),
        };
        let mut wake_at = decision.wake_at;
        let mut done: Option<Key> = None;
        let (mut wrote, mut failed) = (false, None);
        for intent in decision.intents {
            if let Intent::Tell(tale) = &intent {
                if done.is_some() {
                    self.gate.tell(&*self.store, tale, done.as_ref(), now);
                }
                continue;
            }
            done = None;
            if failed.is_some() && matches!(intent, Intent::Create { .. }) {
                continue;
            }
            match self.gate.pass(&*self.store, intent, now) {
                Ok(written) => done = written,
                Err(why) => failed = failed.or(Some(why)),
            }
            wrote |= done.is_some();
        }
        // What was only marked to go is no event that ends wait for.
        if wrote && matches!(owner, Owner::Namespace(_)) {
            self.dirty.insert(owner.clone());
        }
        if wrote && let Some(at) = self.quota.wrote(owner, now.uptime) {
            // Its own writes have made it dirty; it is looked at all the same, a little later.
            if !self.drain(now) {
                self.wakes.stop();
            }
            self.dirty.remove(owner);
            wake_at = Some(wake_at.map_or(at, |wake| wake.min(at)));
        }
        self.timers.set(owner, wake_at);
        failed
    }
}

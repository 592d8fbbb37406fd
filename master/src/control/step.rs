//! One step of the controllers: take in what happened, look at every key whose world changed. The thread is a thin loop
//! around it, and a test drives it with a time of its own.

use super::act::Gate;
use super::cluster::{Before, Cluster};
use super::complaints::{Complaints, Novelty};
use super::controller::{Look, News, Now};
use super::intent::{Contents, Decision, Doing, Intent, Lookup, Memo, Refusal};
use super::readings::Readings;
use super::references;
use super::table::{Controllers, Owner};
use super::throttle::Throttle;
use super::timers::Timers;
use super::wakes::{Inbox, QUEUE_MAX, Wake, Wakes};
use crate::store::{Event, Scope, Store, WatchHandle};
use coracle_api::meta::{Key, Resource};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Keys looked at in one step: then the clocks are read again.
const LOOKS_MAX: usize = 64;

/// What comes after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// There is more to look at.
    More,
    /// Nothing, until something happens or this uptime.
    Until(Option<Duration>),
    Stop,
}

/// The work done so far. The work for a single change does not grow with the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Keys that were looked at.
    pub looks: u64,
    /// Writes that were decided.
    pub intents: u64,
    /// Writes that the role of a controller does not allow: a fault of the role or of the name.
    pub unrighted: u64,
}

/// The controllers at work.
pub struct Step {
    store: Arc<dyn Store>,
    gate: Gate,
    controllers: Controllers,
    cluster: Cluster,
    /// Keys to be looked at.
    dirty: BTreeSet<Owner>,
    timers: Timers,
    throttle: Throttle,
    complaints: Complaints,
    /// What decisions wanted to be remembered of their keys.
    memories: BTreeMap<Owner, Value>,
    /// The controllers' memos about their keys.
    memos: BTreeMap<Owner, Memo>,
    wakes: Wakes,
    inbox: Inbox,
    /// Taken out of the queue by a wait.
    waited: Option<Wake>,
    watches: Vec<WatchHandle>,
    effort: Effort,
}

impl Step {
    /// Begins with all that is in the store.
    pub fn new(
        store: Arc<dyn Store>,
        gate: Gate,
        controllers: Controllers,
        (wakes, inbox): (Wakes, Inbox),
        now: Now,
    ) -> Step {
        let mut step = Step {
            cluster: controllers.cluster(&gate.kinds(), gate.settings()),
            store,
            gate,
            controllers,
            dirty: BTreeSet::new(),
            timers: Timers::default(),
            throttle: Throttle::default(),
            complaints: Complaints::default(),
            memories: BTreeMap::new(),
            memos: BTreeMap::new(),
            wakes,
            inbox,
            waited: None,
            watches: Vec::new(),
            effort: Effort::default(),
        };
        step.follow(now);
        step.cluster.complete();
        step
    }

    /// What the controllers know.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Every key of every controller: the full pass over them finds nothing to do once the cluster is quiet.
    pub fn all(&self) -> BTreeSet<Owner> {
        self.controllers.all(&self.cluster)
    }

    pub fn decide(&self, owner: &Owner, now: Now) -> Decision {
        self.decide_with(owner, now, None)
    }

    fn decide_with(&self, owner: &Owner, now: Now, contents: Option<&Contents>) -> Decision {
        let (cluster, refusal) = (&self.cluster, self.complaints.get(owner));
        let (memory, memo) = (self.memories.get(owner), self.memos.get(owner));
        (self.controllers.row(owner).decide)(&Look { cluster, key: &owner.key, now, refusal, contents, memory, memo })
    }

    pub fn effort(&self) -> Effort {
        self.effort
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
                let awaited = self.controllers.departures_awaited(&self.cluster);
                self.inbox.fill.departures_awaited.store(awaited, Ordering::Release);
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
        let resources: Vec<Resource> = self.gate.kinds().stored().map(|kind| kind.resource.clone()).collect();
        for resource in resources {
            let followed = self.controllers.followed(&resource);
            let damaged = self.store.list(&resource, None).damaged;
            self.cluster.damaged.extend(damaged.into_iter().filter(&followed));
            let wakes = self.wakes.clone();
            // Of most kinds only references matter, and departures while a controller waits for them.
            let sink = Box::new(move |event: &Event| match event {
                event if followed(&event.key) || references::concerns(event) => {
                    wakes.send(|| Wake::Event(Box::new(event.clone())))
                }
                event if event.new.is_none() && wakes.fill.departures_awaited.load(Ordering::Acquire) => {
                    wakes.send(|| Wake::Left(Key::clone(&event.key)))
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
        self.dirty = self.all();
    }

    /// Looks up owners that objects name.
    fn look_for_owners(&mut self) {
        for key in self.cluster.references.unlooked() {
            let before = self.store.revision();
            let found = self.store.get(&key);
            self.cluster.references.saw(&key, before, &found);
        }
        let changed = self.cluster.references.changed();
        self.dirty.extend(self.controllers.referring(&changed));
    }

    /// Takes in everything that is in the queue; false: stop.
    fn drain(&mut self, now: Now) -> bool {
        let mut other_kinds = false;
        while let Some(wake) = self.waited.take().or_else(|| self.inbox.queue.try_recv().ok()) {
            if !matches!(wake, Wake::Stop) {
                self.inbox.fill.length.fetch_sub(1, Ordering::Relaxed);
            }
            match wake {
                Wake::Event(event) => {
                    let before = self.cluster.apply(&event, now.uptime);
                    let gone = event.new.is_none();
                    if gone {
                        self.complaints.forget(&event.key);
                        self.memories.retain(|owner, _| owner.key != *event.key);
                    }
                    self.hint(&event.key, gone, &before);
                }
                Wake::Left(key) => self.hint(&key, true, &Before::default()),
                Wake::Heard(key) => {
                    if self.cluster.hear(&key.name, now.uptime) {
                        self.hint(&key, false, &Before::default());
                    }
                }
                Wake::Measured(usages) => {
                    self.cluster.readings = Readings::of(&usages, now.uptime);
                    self.dirty.extend(self.controllers.hearing(News::Measured, &self.cluster));
                }
                Wake::Trust => {
                    self.cluster.settings = self.gate.settings();
                    self.dirty.extend(self.controllers.hearing(News::Trust, &self.cluster));
                }
                Wake::ClockSet => self.dirty.extend(self.controllers.hearing(News::ClockSet, &self.cluster)),
                // Whose objects own and are owned is another question then.
                Wake::Kinds => other_kinds = true,
                Wake::Stop => return false,
            }
        }
        if self.inbox.fill.over.swap(false, Ordering::Relaxed) {
            log::warn!("more than {QUEUE_MAX} changes at once: the controllers read the cluster anew");
            other_kinds = true;
        }
        if other_kinds {
            self.begin_anew(now);
        }
        self.look_for_owners();
        true
    }

    /// The keys that a change concerns are looked at.
    fn hint(&mut self, key: &Key, gone: bool, before: &Before) {
        self.dirty.extend(self.controllers.concerned(&self.cluster, key, gone, before));
    }

    /// Something was left out of the queue, or other kinds are served.
    fn begin_anew(&mut self, now: Now) {
        self.watches.clear();
        // What is still in the queue is older than what is read now.
        while let Ok(wake) = self.inbox.queue.try_recv() {
            match wake {
                Wake::Stop => return self.wakes.stop(),
                _ => self.inbox.fill.length.fetch_sub(1, Ordering::Relaxed),
            };
        }
        // After the queue is empty: a change of the kinds whose wake was in it is in the table.
        let empty = self.controllers.cluster(&self.gate.kinds(), self.gate.settings());
        let old = std::mem::replace(&mut self.cluster, empty);
        self.follow(now);
        self.cluster.inherit(old, now.uptime);
        self.dirty = self.all();
    }

    fn look(&mut self, owner: &Owner, now: Now) {
        // One key that cannot be looked at must not end the others' controllers.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.act(owner, now)));
        let failed = outcome.unwrap_or_else(|_| Some(Refusal::from("its controller panicked".to_owned())));
        let (refused, patience) = (self.controllers.row(owner).refused, self.controllers.row(owner).patience);
        let Some(refusal) = failed else {
            // The status may still show the old refusal.
            if self.complaints.remove(owner) && refused.is_some() {
                self.dirty.insert(owner.clone());
            }
            return;
        };
        let (novelty, again_at) = self.complaints.put(owner, refusal.clone(), patience, now.uptime);
        self.timers.set(owner, Some(again_at));
        if novelty != Novelty::TheSame {
            log::warn!("{owner}: {}", refusal.why);
        }
        let Some(refused) = refused else { return };
        if let Some(tale) = refused(&self.cluster, &owner.key, &refusal) {
            self.gate.tell(owner.actor(), &tale, None, now);
        }
        // The status must show the new refusal.
        if novelty == Novelty::First {
            self.dirty.insert(owner.clone());
        }
    }

    /// The decision about a key, after what it asks for has been done.
    fn decided(&self, owner: &Owner, now: Now) -> Decision {
        let decision = self.decide(owner, now);
        let Some(errand) = decision.errand.clone() else { return decision };
        // Before the store is read: no deletion falls between.
        self.inbox.fill.departures_awaited.store(true, Ordering::Release);
        match errand {
            Lookup::Contents(namespace) => match self.gate.contents(&namespace) {
                Some(contents) => Decision { errand: decision.errand, ..self.decide_with(owner, now, Some(&contents)) },
                None => Decision::default(),
            },
            Lookup::Recount(namespace) => {
                self.gate.recount(&namespace);
                decision
            }
            Lookup::Readings => {
                self.gate.measure(self.cluster.nodes.keys().cloned(), &self.wakes);
                decision
            }
        }
    }

    fn remember(&mut self, owner: &Owner, memory: Option<Value>, memo: Option<Memo>) {
        if let Some(memory) = memory {
            self.memories.insert(owner.clone(), memory);
        }
        match memo {
            Some(memo) => drop(self.memos.insert(owner.clone(), memo)),
            None => drop(self.memos.remove(owner)),
        }
    }

    /// Looks at a key, and carries out what is decided. The answer: the first thing that failed.
    fn act(&mut self, owner: &Owner, now: Now) -> Option<Refusal> {
        if self.controllers.row(owner).workload && !self.gate.has_workloads() {
            return None;
        }
        let decision = self.decided(owner, now);
        self.effort.looks += 1;
        self.effort.intents +=
            decision.intents.iter().filter(|intent| !matches!(intent, Intent::Tell(_) | Intent::Announce(_))).count()
                as u64;
        // A deletion that only begins is no event that an end waits for.
        let goes_on = matches!(decision.errand, Some(Lookup::Contents(_)));
        let mut wake_at = decision.wake_at;
        self.remember(owner, decision.memory, decision.memo);
        let (mut done, mut begun): (Option<Key>, _) = (None, false);
        let (mut wrote, mut failed) = (false, None);
        for intent in decision.intents {
            let intent = match intent {
                Intent::Tell(tale) => {
                    if done.is_some() || !begun {
                        self.gate.tell(owner.actor(), &tale, done.as_ref(), now);
                    }
                    continue;
                }
                Intent::Announce(tale) => {
                    self.gate.tell(owner.actor(), &tale, None, now);
                    continue;
                }
                Intent::Then(_) if done.is_none() => continue,
                Intent::Then(next) => *next,
                intent => intent,
            };
            begun = true;
            done = None;
            if failed.is_some() && matches!(intent, Intent::Create { .. }) {
                continue;
            }
            match self.gate.pass(owner.actor(), intent, now) {
                Ok(written) => done = written,
                Err(refusal) => {
                    self.effort.unrighted += u64::from(refusal.doing == Doing::Unrighted);
                    failed = failed.or(Some(refusal));
                }
            }
            wrote |= done.is_some();
        }
        if wrote && goes_on {
            self.dirty.insert(owner.clone());
        }
        if wrote && let Some(at) = self.throttle.wrote(owner, now.uptime) {
            // The key's own writes made the key dirty; the next look at the key comes a little later all the same.
            if !self.drain(now) {
                self.wakes.stop();
            }
            self.dirty.remove(owner);
            wake_at = Some(wake_at.map_or(at, |wake| wake.min(at)));
        }
        self.timers.set(owner, wake_at);
        failed.or(decision.trouble)
    }
}

//! The controllers: a single thread owns `Cluster` and brings the cluster to the state that was asked for.
//!
//!     event -> Cluster::apply -> keys (hints) -> decide(&Look { cluster, key, now }) -> intents -> Registry::commit
//!         -> event ...
//!
//! A controller is a row of `table`: a pure function of the cluster and one key, and the objects that it follows. It
//! returns `Intent`s with the revision that was seen. Losing the race is silent: the winner's write is an event, and
//! the key is looked at again.

mod act;
mod addresses;
mod autoscale;
mod backends;
mod balanced;
mod balancer;
mod budgets;
mod certify;
mod clock;
mod cluster;
mod complaints;
mod conditions;
mod contents;
mod controller;
mod correlate;
mod counts;
mod cron;
mod daemon;
mod deployment;
mod disruption;
mod endpoints;
mod event;
mod events;
mod evictions;
mod expulsion;
mod garbage;
mod hand;
mod happened;
mod intent;
mod job;
mod kept_events;
mod labelled;
mod measure;
mod names;
mod namespaces;
mod node_certificates;
mod nodes;
mod own;
mod pod_garbage;
mod quotas;
mod ranges;
mod readings;
mod references;
mod replicas;
mod replication;
mod revisions;
mod roles;
pub mod rules;
mod schedule;
mod settings;
mod shelf;
mod signing;
mod since;
mod slices;
mod stateful;
mod step;
mod storage;
mod table;
mod template;
mod throttle;
mod timers;
mod token_secrets;
mod tracked;
mod trigger;
mod ttl;
mod unplaced;
mod usage;
mod view;
mod wakes;

pub use act::Gate;
pub use certify::node_state;
pub use cluster::Cluster;
pub use controller::{Controller, Follow, Look, Now, ObservedChange, all, itself};
pub use intent::{Decision, Intent, Refusal};
pub use names::Actor;
pub use settings::Own;
pub use settings::Permission;
pub use shelf::View;
pub use step::{Effort, Rest, Step};
pub use table::{Controllers, Owner};
pub use wakes::{Inbox, Wakes, wakes};

use self::clock::ClockWatch;
use crate::store::Store;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// The running controllers. Dropping it stops them.
pub struct Control {
    wakes: Wakes,
    thread: Option<thread::JoinHandle<()>>,
    _clock: Option<ClockWatch>,
}

impl Control {
    /// Starts the thread; it begins with all that is in the store.
    pub fn start(store: Arc<dyn Store>, gate: Gate, (wakes, inbox): (Wakes, Inbox)) -> std::io::Result<Control> {
        let started = Instant::now();
        let theirs = wakes.clone();
        let step = move || Step::new(store, gate, Controllers::builtin(), (theirs, inbox), now(started));
        let run = move || run(step(), started);
        let thread = thread::Builder::new().name("control".into()).stack_size(1 << 20).spawn(run)?;
        // A host whose clock is never set does without.
        let clock =
            ClockWatch::start(wakes.clone()).inspect_err(|error| log::warn!("the clock is not watched: {error}")).ok();
        Ok(Control { wakes, thread: Some(thread), _clock: clock })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.wakes.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn now(started: Instant) -> Now {
    Now { wall: crate::making::wall_clock(), uptime: started.elapsed() }
}

fn run(mut step: Step, started: Instant) {
    loop {
        match step.step(now(started)) {
            Rest::More => {}
            Rest::Until(at) => step.wait(at.map(|at| at.saturating_sub(started.elapsed()))),
            Rest::Stop => return,
        }
    }
}

#[cfg(test)]
mod tests;

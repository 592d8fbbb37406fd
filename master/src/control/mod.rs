//! The controllers: one thread that owns `Cluster` and brings it to what was asked.
//!
//!     event -> Cluster::apply -> keys (hints) -> decide(&Cluster, key, now) -> Intents -> prepare -> Store::write -> event ...
//!
//! Every controller is a pure function of the cluster and one key; what it wants done comes back as `Intent`s with the
//! revision that was seen. Losing the race is silent: the winner's write is an event, and the key is looked at again.

mod act;
mod budgets;
mod cluster;
mod endpoints;
mod garbage;
mod intent;
mod keys;
mod namespaces;
mod nodes;
mod own;
mod quota;
mod replicate;
mod schedule;
mod slices;
mod step;
mod view;

pub use act::Gate;
pub use cluster::Cluster;
pub use intent::{Decision, Intent};
pub use keys::Owner;
pub use own::Own;
pub use step::{Inbox, Rest, Step, Wakes, wakes};

use crate::store::Store;
use coracle_api::meta::Time;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// What is shown.
    pub wall: Time,
    /// What silence and age are measured by, since this process started.
    pub uptime: Duration,
}

/// The running controllers. Dropping it stops them.
pub struct Control {
    wakes: Wakes,
    thread: Option<thread::JoinHandle<()>>,
}

impl Control {
    /// Starts the thread; it begins with all that is in the store.
    pub fn start(store: Arc<dyn Store>, gate: Gate, (wakes, inbox): (Wakes, Inbox)) -> std::io::Result<Control> {
        let started = Instant::now();
        let theirs = wakes.clone();
        let run = move || run(Step::new(store, gate, theirs, inbox, now(started)), started);
        let thread = thread::Builder::new().name("control".into()).stack_size(1 << 20).spawn(run)?;
        Ok(Control { wakes, thread: Some(thread) })
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

/// What a key's controller wants done.
pub fn decide(cluster: &Cluster, owner: &Owner, now: Now) -> Decision {
    match owner {
        Owner::Unbound => schedule::decide(cluster, now),
        Owner::Controller(key) => replicate::decide(cluster, key, now),
        Owner::Service(key) if *key == own::key() && cluster.own.is_some() => {
            let own = cluster.own.as_deref().and_then(|own| own::decide(cluster, own, now));
            own.unwrap_or_else(|| endpoints::decide(cluster, key))
        }
        Owner::Service(key) => endpoints::decide(cluster, key),
        Owner::Node(name) => nodes::decide(cluster, name, now),
        Owner::Garbage(key) => garbage::decide(&cluster.garbage, key, |claim| cluster.uses(claim)),
        Owner::Namespace(name) => namespaces::decide(cluster, name),
        // Counting them is no decision: see `Ledger`.
        Owner::Quotas(_) => Decision::default(),
        Owner::Events => nodes::expire_events(cluster, now),
        Owner::Budget(key) => budgets::decide(cluster, key, now),
        Owner::Doomed(key) => budgets::relent(cluster, key, now),
    }
}

/// Every key there is: the full pass that must find nothing to do once the cluster is quiet.
pub fn all_keys(cluster: &Cluster) -> BTreeSet<Owner> {
    keys::all(cluster)
}

#[cfg(test)]
mod tests;

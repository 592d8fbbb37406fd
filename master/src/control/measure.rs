//! Asks the agents what their pods take, beside the controllers' thread.

use super::act::Gate;
use super::wakes::{Wake, Wakes};
use crate::figures;
use std::sync::atomic::Ordering;
use std::thread;

impl Gate {
    /// Asks the agents of these nodes for the usage of their pods. A separate thread waits for the answers and passes
    /// them on as a wake.
    pub fn measure(&self, nodes: impl Iterator<Item = String>, wakes: &Wakes) {
        let Some(agents) = &self.agents else { return };
        if wakes.fill.measuring.swap(true, Ordering::AcqRel) {
            return;
        }
        let asked = nodes.filter_map(|node| agents.reach(&node)).collect();
        let theirs = wakes.clone();
        let ask = move || {
            let usages = figures::ask(asked).unwrap_or_else(|error| {
                log::warn!("what pods take is not known: the agents cannot be asked: {error}");
                Vec::new()
            });
            theirs.fill.measuring.store(false, Ordering::Release);
            theirs.send(|| Wake::Measured(usages));
        };
        if let Err(error) = thread::Builder::new().name("figures".into()).spawn(ask) {
            wakes.fill.measuring.store(false, Ordering::Release);
            log::warn!("what pods take is not known: no thread to ask the agents: {error}");
        }
    }
}

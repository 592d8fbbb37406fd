//! Waiting for the end of an object: the versions of 2014 answer an operation when it is finished.

use super::Serve;
use crate::store::{Event, Scope, Stored};
use std::sync::mpsc;
use std::time::Duration;

/// The longest wait: an object that is not gone by then waits for somebody else, and the answer does not.
const PATIENCE: Duration = Duration::from_secs(5);

/// Until an object that only the controllers hold is gone, and whether it is: one whose grace runs, or that another's
/// finalizer holds, stays for longer than an answer may wait.
pub fn settled(serve: &Serve, marked: &Stored) -> bool {
    let Ok(object) = super::write::parsed(marked) else { return false };
    let meta = &object["metadata"];
    let held = meta["finalizers"].as_array().is_some_and(|all| all.iter().any(|one| one != "orphan"));
    if held || meta["deletionGracePeriodSeconds"].as_i64() != Some(0) {
        return false;
    }
    let (key, (sender, events)) = (&marked.key, mpsc::sync_channel(1));
    let scope =
        Scope { resource: key.resource.clone(), namespace: Some(key.namespace.clone()), name: Some(key.name.clone()) };
    // The first that takes it away ends the watch.
    let sink = Box::new(move |event: &Event| event.new.is_some() || sender.try_send(()).is_err());
    let Ok(watch) = serve.registry.store.watch(scope, Some(marked.revision), sink) else { return false };
    let gone = watch.replay.iter().any(|event| event.new.is_none()) || events.recv_timeout(PATIENCE).is_ok();
    if !gone {
        log::warn!("{key} is not gone after {} s", PATIENCE.as_secs());
    }
    gone
}

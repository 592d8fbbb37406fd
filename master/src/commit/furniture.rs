//! Objects that the master makes by itself, unless they are there: what every namespace and every cluster holds.

use super::{Change, CommitError, Made, Registry, Terms, Writer};
use crate::authorize::bootstrap::{self, BootstrapObject, Reconciled};
use crate::prepare::{Ownership, Part, Standing};
use crate::store::Stored;
use coracle_api::kinds::Kind;
use coracle_api::meta::{Key, Resource};
use coracle_api::strategy::furniture::{furniture, local_class};
use coracle_api::strategy::system_classes;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::thread;

pub(super) const NAMESPACES: Resource = Resource::core("namespaces");

/// Threads that make the roles of a new cluster: their writes share the syncs of the journal.
const WRITERS: usize = 16;

/// A role or a binding that is to be made or changed.
struct Pending {
    key: Key,
    object: Value,
    becomes: Becomes,
}

enum Becomes {
    New,
    Changed,
    Replaced,
}

impl Registry {
    /// Makes a namespace, and what every namespace holds, unless it is there.
    pub fn ensure_namespace(&self, name: &str) -> Result<(), String> {
        self.ensure(&NAMESPACES, "", &json!({"metadata": {"name": name}}))?;
        self.furnish(name);
        Ok(())
    }

    /// The objects of every cluster beside its namespaces.
    pub fn ensure_classes(&self) -> Result<(), String> {
        let classes = Resource { group: "scheduling.k8s.io".into(), plural: "priorityclasses".into() };
        system_classes().iter().try_for_each(|class| self.ensure(&classes, "", class))?;
        self.ensure(&Resource { group: "storage.k8s.io".into(), plural: "storageclasses".into() }, "", &local_class())
    }

    /// The roles and bindings of every cluster. What people changed stays, unless it was there before roles counted
    /// (`is_first`): then nobody had to have the right to it.
    pub fn ensure_access_rules(&self, is_first: bool) -> Result<(), String> {
        let (mut failures, mut pending) = (Vec::new(), Vec::new());
        for one in bootstrap::objects() {
            match self.pending(one, is_first) {
                Ok(Some(one)) => pending.push(one),
                Ok(None) => {}
                Err(why) => failures.push(why),
            }
        }
        let share = pending.len().div_ceil(WRITERS).max(1);
        thread::scope(|scope| {
            let write = |share: &[Pending]| share.iter().filter_map(|one| self.bring(one).err()).collect::<Vec<_>>();
            let begin = |share| thread::Builder::new().spawn_scoped(scope, move || write(share));
            let writers: Vec<_> = pending.chunks(share).map(begin).collect();
            for writer in writers {
                match writer.map(|writer| writer.join()) {
                    Ok(Ok(failed)) => failures.extend(failed),
                    Ok(Err(_)) => failures.push("a thread that made roles ended".to_owned()),
                    Err(error) => failures.push(format!("a thread to make roles: {error}")),
                }
            }
        });
        match failures.last() {
            None => Ok(()),
            Some(last) => {
                let count = failures.len();
                Err(format!("{count} roles or bindings of every cluster cannot be made or changed: {last}"))
            }
        }
    }

    /// What is to be done about a role or a binding. None: nothing.
    fn pending(&self, expected: BootstrapObject, is_first: bool) -> Result<Option<Pending>, String> {
        let BootstrapObject { resource, namespace, name, object } = expected;
        let key = Key { resource, namespace, name };
        let Some(stored) = self.store.get(&key).map_err(|damaged| format!("{key}: {}", damaged.why))? else {
            return Ok(Some(Pending { key, object, becomes: Becomes::New }));
        };
        let standing: Value = serde_json::from_slice(&stored.json).map_err(|error| format!("{key}: {error}"))?;
        let meet = if is_first { bootstrap::reset } else { bootstrap::reconcile };
        Ok(match meet(&object, &standing) {
            Reconciled::Same => None,
            Reconciled::Changed(object) => Some(Pending { key, object, becomes: Becomes::Changed }),
            Reconciled::Replaced => Some(Pending { key, object, becomes: Becomes::Replaced }),
        })
    }

    fn bring(&self, pending: &Pending) -> Result<(), String> {
        let Pending { key, object, becomes } = pending;
        let kind = self.kind(&key.resource).ok_or_else(|| format!("no {} are served", key.resource))?;
        let failed = |barred: CommitError<Infallible>| format!("{key} cannot be changed: {barred}");
        let (terms, gone) = (Terms::of(Writer::Master), |_: Option<Standing<'_>>| Ok(Made::Gone));
        let make = |_: Option<Standing<'_>>| Ok(Made::document(Part::Main, object.clone(), Ownership::Untold));
        match becomes {
            Becomes::New => return self.ensure(&key.resource, &key.namespace, object),
            Becomes::Changed => {
                self.commit(&Change::update(&kind, &key.namespace, &key.name, &make), &terms).map_err(failed)?;
            }
            Becomes::Replaced => {
                self.commit(&Change::delete(&kind, &key.namespace, &key.name, &gone), &terms).map_err(failed)?;
                self.ensure(&key.resource, &key.namespace, object)?;
            }
        }
        log::info!("{key} has the rules and subjects of every cluster again");
        Ok(())
    }

    /// Makes the objects of every namespace. A failure is no reason to refuse the namespace, or a pod in it.
    pub(super) fn furnish(&self, namespace: &str) {
        let trust = self.trusted();
        for (resource, object) in furniture(trust.as_ref().map(|trust| trust.root.as_str())) {
            // An unreadable object counts as present.
            if matches!(self.store.get(&key(&resource, namespace, &object)), Ok(None))
                && let Err(why) = self.ensure(&resource, namespace, &object)
            {
                log::warn!("{why}");
            }
        }
    }

    fn ensure(&self, resource: &Resource, namespace: &str, object: &Value) -> Result<(), String> {
        let kind = self.kind(resource).ok_or_else(|| format!("no {resource} are served"))?;
        match self.make_own(&kind, namespace, object) {
            Ok(_) => Ok(()),
            Err(barred) if barred.is_taken() => Ok(()),
            Err(barred) => Err(format!("{} cannot be made: {barred}", key(resource, namespace, object))),
        }
    }

    /// Makes an object that the master needs itself: whatever quotas say, and before there is a namespace.
    pub fn make_own(&self, kind: &Kind, namespace: &str, object: &Value) -> Result<Stored, CommitError<Infallible>> {
        let make = |_: Option<Standing<'_>>| Ok(Made::document(Part::Main, object.clone(), Ownership::Untold));
        let change = Change::create(kind, namespace, &make);
        self.commit(&change, &Terms::of(Writer::Master)).map(|committed| committed.stored)
    }

    /// Deletes an object that the master needs no more. An object that is gone already is no error.
    pub fn remove_own(&self, key: &Key) -> Result<(), String> {
        let kind = self.kind(&key.resource).ok_or_else(|| format!("no {} are served", key.resource))?;
        let make = |old: Option<Standing<'_>>| match old {
            Some(_) => Ok(Made::Gone),
            None => Err(()),
        };
        let change = Change { deletes: true, ..Change::update(&kind, &key.namespace, &key.name, &make) };
        match self.commit(&change, &Terms::of(Writer::Master)) {
            Ok(_) | Err(CommitError::Writer(()) | CommitError::Missing) => Ok(()),
            Err(barred) => Err(barred.to_string()),
        }
    }
}

fn key(resource: &Resource, namespace: &str, object: &Value) -> Key {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Key { resource: resource.clone(), namespace: namespace.to_owned(), name }
}

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

pub(super) const NAMESPACES: Resource = Resource::core("namespaces");

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
        let meet = if is_first { bootstrap::reset } else { bootstrap::reconcile };
        let (mut failures, mut last) = (0, String::new());
        for BootstrapObject { resource, namespace, name, object } in bootstrap::objects() {
            let key = Key { resource, namespace, name };
            let met = match self.store.get(&key) {
                Ok(None) => self.ensure(&key.resource, &key.namespace, &object),
                Ok(Some(stored)) => match serde_json::from_slice(&stored.json) {
                    Ok(standing) => self.bring(&key, meet(&object, &standing), &object),
                    Err(error) => Err(format!("{key}: {error}")),
                },
                Err(damaged) => Err(format!("{key}: {}", damaged.why)),
            };
            if let Err(why) = met {
                (failures, last) = (failures + 1, why);
            }
        }
        match failures {
            0 => Ok(()),
            _ => Err(format!("{failures} roles or bindings of every cluster cannot be made or changed: {last}")),
        }
    }

    fn bring(&self, key: &Key, reconciled: Reconciled, expected: &Value) -> Result<(), String> {
        let kind = self.kind(&key.resource).ok_or_else(|| format!("no {} are served", key.resource))?;
        let failed = |barred: CommitError<Infallible>| format!("{key} cannot be changed: {barred}");
        let place = (&*key.namespace, &*key.name);
        match reconciled {
            Reconciled::Same => return Ok(()),
            Reconciled::Changed(object) => {
                let make = |_: Option<Standing<'_>>| Ok(Made::document(Part::Main, object.clone(), Ownership::Untold));
                let change = Change::update(&kind, place.0, place.1, &make);
                self.commit(&change, &Terms::of(Writer::Master)).map_err(failed)?;
            }
            Reconciled::Replaced => {
                let gone = |_: Option<Standing<'_>>| Ok(Made::Gone);
                self.commit(&Change::delete(&kind, place.0, place.1, &gone), &Terms::of(Writer::Master))
                    .map_err(failed)?;
                self.ensure(&key.resource, &key.namespace, expected)?;
            }
        }
        log::info!("{key} has the rules and subjects of every cluster again");
        Ok(())
    }

    /// Makes the objects of every namespace. A failure is no reason to refuse the namespace, or a pod in it.
    pub(super) fn furnish(&self, namespace: &str) {
        for (resource, object) in furniture(self.authority().as_deref()) {
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

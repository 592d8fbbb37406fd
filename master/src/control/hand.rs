//! Carries out what the controllers want: every intent becomes a change, which goes into the registry like a client's,
//! under the name of the controller.

use super::act::Gate;
use super::controller::Now;
use super::intent::{Doing, Intent, Refusal};
use crate::commit::{Change, CommitError, Made, NamespaceError, Outcome, Terms, Writer};
use crate::prepare::{self, InvalidDocument, Ownership, Part, Preconditions, Standing};
use coracle_api::kinds::Kind;
use coracle_api::meta::{Key, Resource, Revision};
use coracle_api::strategy::finalizer::{FOREGROUND, ORPHAN};
use coracle_api::strategy::meta::{without_finalizer, without_owners};
use coracle_api::strategy::{Deleting, DeletionPropagation, bind, namespace};
use coracle_http::Identity;
use serde_json::{Value, json};
use std::sync::Arc;

/// What writes under one identity.
pub struct Hand<'g> {
    pub(super) gate: &'g Gate,
    pub(super) identity: &'g Identity,
}

impl Hand<'_> {
    pub fn pass(&self, intent: Intent, now: Now) -> Result<Option<Key>, Refusal> {
        let deleting = match &intent {
            Intent::Create { resource, namespace, object } => return self.create(resource, namespace, object),
            Intent::Delete { key, .. } | Intent::Collect { key, .. } => Some(key.clone()),
            _ => None,
        };
        let refused = |why| Refusal { doing: deleting.map_or(Doing::Changing, Doing::Deleting), ..Refusal::from(why) };
        self.carry_out(intent, now).map_err(refused)
    }

    fn terms(&self) -> Terms<'_> {
        Terms { identity: self.identity, ..Terms::of(Writer::Controller) }
    }

    fn carry_out(&self, intent: Intent, now: Now) -> Result<Option<Key>, String> {
        match intent {
            // It is told with what it is about, and made by itself.
            Intent::Tell(_) | Intent::Announce(_) | Intent::Then(_) | Intent::Create { .. } => Ok(None),
            Intent::Update { key, seen, object } => {
                self.change(&key, seen, |_, _| Ok(whole(Part::Main, object.clone())))
            }
            Intent::Status { key, seen, status } => self.change(&key, seen, |_, old| {
                let mut object = old.object.clone();
                object["status"] = status.clone();
                Ok(whole(Part::Status, object))
            }),
            Intent::Note { key, seen, object } => {
                self.change(&key, seen, |_, _| Ok(whole(Part::Status, object.clone())))
            }
            Intent::Bind { key, seen, node } => {
                self.change(&key, seen, |_, old| self.bound(old.object, &node, now).map(Made::Own))
            }
            Intent::Emptied { key, seen } => {
                self.change(&key, seen, |kind, old| Ok(Made::relieved(kind, namespace::emptied(old.object))))
            }
            Intent::Delete { key, seen, at_once } => {
                self.delete(&key, seen, |kind, old| departed(kind, old, at_once.then_some(0), None, now))
            }
            Intent::Disrupt { key, seen, status } => self.disrupt(&key, seen, &status, now),
            Intent::Collect { key, seen, foreground } => self.delete(&key, seen, |kind, old| {
                // What it says itself, by a finalizer, comes first.
                let fate = if foreground { Some(DeletionPropagation::Foreground) } else { parting(old.object) };
                departed(kind, old, None, fate, now)
            }),
            Intent::Disown { key, seen, owners } => {
                self.change(&key, seen, |kind, old| Ok(Made::relieved(kind, without_owners(old.object, &owners))))
            }
            Intent::Approve { key, seen, condition } => self.approve(&key, seen, &condition),
            Intent::Sign { key, seen, request, usages, life } => self.sign(&key, seen, (&request, &usages, life), now),
            Intent::Revoke { node } => self.revoke(&node),
            Intent::Settle { node, uid } => self.settle(&node, &uid),
            Intent::Release { key, seen, finalizer } => self.change(&key, seen, |kind, old| {
                Ok(Made::relieved(kind, without_finalizer(old.object, finalizer.unwrap_or_default())))
            }),
        }
    }

    pub(super) fn create(&self, resource: &Resource, namespace: &str, object: &Value) -> Result<Option<Key>, Refusal> {
        let said =
            object["metadata"]["name"].as_str().or(object["metadata"]["generateName"].as_str()).unwrap_or_default();
        let doing = Doing::Making(resource.clone(), said.to_owned());
        let refused = |why: String| Refusal { doing: doing.clone(), ..Refusal::from(why) };
        let make = |_: Option<Standing<'_>>| Ok(whole(Part::Main, object.clone()));
        let kind = self.kind(resource).map_err(refused)?;
        let change = Change::create(&kind, namespace, &make);
        match self.gate.registry.commit::<String>(&change, &self.terms()) {
            Ok(committed) => Ok(Some(Key::clone(&committed.stored.key))),
            Err(barred) if barred.is_taken() && !object["metadata"]["name"].is_null() => Ok(None),
            // The namespace is being deleted, and with it the object that needs the new object: no event is told.
            Err(CommitError::NamespaceError(NamespaceError::Ending { .. })) => Ok(None),
            Err(CommitError::NamespaceError(NamespaceError::Missing)) => {
                Err(refused(format!("namespace {namespace} is not there: nothing is made in it")))
            }
            Err(CommitError::InvalidDocument(InvalidDocument::Forbidden { name, why })) => {
                let gist = format!("{resource} {said:?} is forbidden: {why}");
                Err(Refusal { why: format!("{resource} {name:?} is forbidden: {why}"), gist, doing })
            }
            Err(barred) => Err(refused(barred.to_string())),
        }
    }

    /// A change of the object that the controller saw; None: it has changed or gone since, or there is nothing to
    /// change.
    pub(super) fn change<'a>(
        &'a self,
        key: &'a Key,
        seen: Revision,
        make: impl Fn(&Kind, Standing<'_>) -> Result<Made<'a>, String>,
    ) -> Result<Option<Key>, String> {
        self.write(key, seen, false, make)
    }

    fn delete<'a>(
        &'a self,
        key: &'a Key,
        seen: Revision,
        make: impl Fn(&Kind, Standing<'_>) -> Result<Made<'a>, String>,
    ) -> Result<Option<Key>, String> {
        self.write(key, seen, true, make)
    }

    fn write<'a>(
        &'a self,
        key: &'a Key,
        seen: Revision,
        deletes: bool,
        make: impl Fn(&Kind, Standing<'_>) -> Result<Made<'a>, String>,
    ) -> Result<Option<Key>, String> {
        let kind = self.kind(&key.resource)?;
        let make = |old: Option<Standing<'_>>| match old {
            Some(old) if old.revision == seen => make(&kind, old).map_err(Some),
            _ => Err(None),
        };
        let change = Change { deletes, ..Change::update(&kind, &key.namespace, &key.name, &make) };
        match self.gate.registry.commit(&change, &self.terms()) {
            Ok(committed) => Ok((committed.outcome != Outcome::Unchanged).then(|| key.clone())),
            Err(CommitError::Writer(None) | CommitError::Missing | CommitError::Damaged { .. }) => Ok(None),
            Err(CommitError::Writer(Some(why))) => Err(why),
            Err(barred) => Err(barred.to_string()),
        }
    }

    fn disrupt(&self, key: &Key, seen: Revision, status: &Value, now: Now) -> Result<Option<Key>, String> {
        self.change(key, seen, |_, old| {
            let mut object = old.object.clone();
            object["status"] = status.clone();
            Ok(whole(Part::Status, object))
        })?;
        // A writer since then has seen the reason of the deletion, or was quicker and the key is looked at again.
        let stored = self.gate.registry.store.get(key).ok().flatten();
        let Some(stored) = stored.filter(|stored| says(&stored.json, status)) else { return Ok(None) };
        self.delete(key, stored.revision, |kind, old| departed(kind, old, None, None, now))
    }

    fn bound(&self, pod: &Value, node: &str, now: Now) -> Result<Value, String> {
        let key = Key { resource: Resource::core("nodes"), namespace: String::new(), name: node.to_owned() };
        let found = self
            .gate
            .registry
            .store
            .get(&key)
            .ok()
            .flatten()
            .and_then(|stored| serde_json::from_slice(&stored.json).ok());
        bind(pod, &json!({"target": {"kind": "Node", "name": node}}), &found.unwrap_or_default(), now.wall)
    }

    fn kind(&self, resource: &Resource) -> Result<Arc<Kind>, String> {
        self.gate.registry.kind(resource).ok_or_else(|| format!("{resource} is no kind of this server"))
    }
}

/// Whether an object has the conditions of this status.
fn says(json: &[u8], status: &Value) -> bool {
    let object: Value = serde_json::from_slice(json).unwrap_or_default();
    object["status"]["conditions"] == status["conditions"]
}

/// The controllers' writes record no owner of fields.
pub(super) fn whole<'a>(part: Part, object: Value) -> Made<'a> {
    Made::document(part, object, Ownership::Untold)
}

fn departed<'a>(
    kind: &Kind,
    old: Standing<'_>,
    grace_s: Option<i64>,
    fate: Option<DeletionPropagation>,
    now: Now,
) -> Result<Made<'a>, String> {
    let deleting = Deleting { grace_s, now: now.wall };
    let departure = prepare::depart(kind, old, &Preconditions::default(), deleting, fate);
    departure.map(Made::from).map_err(|unfit| unfit.to_string())
}

/// The fate of a collected object's dependents: they are deleted too, unless the object's finalizers say otherwise.
fn parting(object: &Value) -> Option<DeletionPropagation> {
    let finalizers = object["metadata"]["finalizers"].as_array();
    let says = finalizers.is_some_and(|all| all.iter().any(|one| one == ORPHAN || one == FOREGROUND));
    (!says).then_some(DeletionPropagation::Background)
}

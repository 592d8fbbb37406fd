//! The graph of owner references between all objects, as far as they are known. PURE.
//!
//! An owner may exist although its kind is unknown here, its file is unreadable, or the graph has not looked it up yet:
//! unknown is not absent. The graph keeps the revision of each owner, so that old news never undoes newer news.

use super::view::EVENTS;
use crate::store::{Damaged, Event, Stored};
use coracle_api::kinds::{Kind, Kinds};
use coracle_api::meta::{Key, ObjectMeta, OwnerReference, Resource, Revision};
use coracle_api::strategy::finalizer::{FOREGROUND, ORPHAN};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Finalizers that hold claims, volumes and VolumeAttributesClasses during a deletion while the object is in use.
pub const GUARDS: [&str; 3] =
    ["kubernetes.io/pvc-protection", "kubernetes.io/pv-protection", "kubernetes.io/vac-protection"];

/// The objects that own, are owned, or are being deleted.
#[derive(Default)]
pub struct References {
    kinds: BTreeMap<(String, String), StoredKind>,
    known: BTreeMap<Key, Vertex>,
    /// Named as owners, and not looked for yet.
    unlooked: BTreeSet<Key>,
    /// Objects that are being deleted and protected.
    guarded: BTreeSet<Key>,
    /// Objects with a changed reference, or with a change in an owner or dependent.
    changed: BTreeSet<Key>,
}

struct StoredKind {
    resource: Resource,
    namespaced: bool,
}

/// An object in the graph; `state` says whether the object exists.
#[derive(Default)]
pub struct Vertex {
    /// The revision at which it was last seen, or looked for.
    pub revision: Revision,
    pub state: State,
    /// The objects that name it as an owner.
    dependents: BTreeSet<Key>,
}

#[derive(Default)]
pub enum State {
    /// The object was not looked up, or the answer is unclear.
    #[default]
    Unknown,
    Absent,
    Here(Box<Object>),
}

/// As much of an object as matters to its owners and dependents.
pub struct Object {
    pub uid: String,
    pub owners: Vec<Reference>,
    pub deleting: bool,
    /// Nothing holds it any more.
    pub released: bool,
    /// It goes when its dependents are let go.
    pub lets_go: bool,
    /// The object goes after its dependents.
    pub waits: bool,
    /// The finalizer that protects the object during use.
    pub guard: Option<&'static str>,
    /// A claim holds it.
    pub bound: bool,
}

pub struct Reference {
    /// `None`: of a kind that is not known here.
    key: Option<Key>,
    pub uid: String,
    /// The owner waits for this dependent.
    blocking: bool,
}

/// How an owner stands to its dependent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stand {
    Stays,
    Gone,
    LetsGo,
    Waits,
}

#[derive(Deserialize)]
struct View {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    status: serde_json::Value,
}

/// Whether an event of a kind that no controller follows can matter: most objects own nothing and are owned by nobody.
pub fn concerns(event: &Event) -> bool {
    event.new.is_none() || event.renewed || is_marked(&event.new) || is_marked(&event.old)
}

fn is_marked(stored: &Option<Stored>) -> bool {
    // On the committing thread, for every object: not parsed.
    let holds = |text: &[u8]| stored.as_ref().is_some_and(|stored| memchr::memmem::find(&stored.json, text).is_some());
    holds(b"\"ownerReferences\"") || holds(b"\"deletionTimestamp\"")
}

impl References {
    pub fn of(kinds: &Kinds) -> References {
        let row = |kind: &Kind| {
            let stored = kinds.stored_as(kind);
            let stored = StoredKind { resource: stored.resource.clone(), namespaced: stored.namespaced };
            ((kind.api_version(), kind.kind.to_string()), stored)
        };
        let owning = kinds.iter().filter(|kind| kind.answer.is_none() && kind.fate.is_some());
        References { kinds: owning.map(row).collect(), ..References::default() }
    }

    /// Where the objects of a kind are stored.
    pub fn resource(&self, api_version: &str, kind: &str) -> Option<&Resource> {
        Some(&self.kinds.get(&(api_version.to_owned(), kind.to_owned()))?.resource)
    }

    /// Takes in what happened to an object.
    pub fn apply(&mut self, event: &Event) {
        let key: &Key = &event.key;
        if !self.known.contains_key(key) && !is_marked(&event.new) {
            return;
        }
        let object = event.new.as_ref().and_then(|stored| self.object(key, stored));
        let state = match (&event.new, object) {
            (None, _) => State::Absent,
            (Some(_), None) => State::Unknown,
            (Some(_), Some(object)) => State::Here(Box::new(object)),
        };
        self.put(key, event.revision, state);
    }

    /// The result of looking an owner up. `before`: the revision of the store when the look-up began.
    pub fn saw(&mut self, key: &Key, before: Revision, found: &Result<Option<Stored>, Damaged>) {
        self.unlooked.remove(key);
        let (revision, state) = match found {
            Ok(None) => (before, State::Absent),
            Err(_) => (before, State::Unknown),
            Ok(Some(stored)) => match self.object(key, stored) {
                Some(object) => (stored.revision, State::Here(Box::new(object))),
                None => (stored.revision, State::Unknown),
            },
        };
        self.put(key, revision, state);
    }

    /// Owners to look up: references name these owners, but their state is unknown.
    pub fn unlooked(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.unlooked)
    }

    /// Objects whose references have changed since this was asked the last time.
    pub fn changed(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.changed)
    }

    pub fn get(&self, key: &Key) -> Option<&Vertex> {
        self.known.get(key)
    }

    /// Objects that are protected for as long as pods of this namespace use them.
    pub fn guarded(&self, namespace: &str) -> impl Iterator<Item = &Key> {
        self.guarded.iter().filter(move |key| key.namespace == namespace)
    }

    /// The objects with an owner reference to this key. The caller must compare the uid.
    pub fn dependents(&self, key: &Key) -> impl Iterator<Item = &Key> {
        self.known.get(key).into_iter().flat_map(|known| &known.dependents)
    }

    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.known.keys()
    }

    /// None: it makes no sense.
    fn object(&self, key: &Key, stored: &Stored) -> Option<Object> {
        let View { metadata: meta, status } = serde_json::from_slice(&stored.json).ok()?;
        let holds = |finalizer: &str| meta.finalizers.iter().any(|one| one == finalizer);
        let deleting = meta.deletion_timestamp.is_some();
        Some(Object {
            deleting,
            released: deleting && meta.deletion_grace_period_seconds == Some(0) && meta.finalizers.is_empty(),
            lets_go: deleting && holds(ORPHAN),
            waits: deleting && holds(FOREGROUND),
            guard: GUARDS.into_iter().find(|guard| deleting && holds(guard)),
            bound: status["phase"] == "Bound",
            owners: meta.owner_references.iter().map(|owner| self.owner(key, owner)).collect(),
            uid: meta.uid,
        })
    }

    /// An owner is in the same namespace, or in none. What is in no namespace cannot say in which its owner would be:
    /// that one may be there.
    fn owner(&self, key: &Key, owner: &OwnerReference) -> Reference {
        let kind = self.kinds.get(&(owner.api_version.clone(), owner.kind.clone()));
        let kind = kind.filter(|kind| !(kind.namespaced && key.namespace.is_empty()));
        let of = |kind: &StoredKind| Key {
            resource: kind.resource.clone(),
            namespace: if kind.namespaced { key.namespace.clone() } else { String::new() },
            name: owner.name.clone(),
        };
        Reference { key: kind.map(of), uid: owner.uid.clone(), blocking: owner.block_owner_deletion }
    }

    fn put(&mut self, key: &Key, revision: Revision, state: State) {
        // Events own nothing, and no owner waits for an event.
        let matters = matches!(&state, State::Here(object) if object.deleting || !object.owners.is_empty());
        if (!matters || key.resource == EVENTS) && !self.known.contains_key(key) {
            return;
        }
        let known = self.known.entry(key.clone()).or_default();
        if revision < known.revision {
            return;
        }
        known.revision = revision;
        if matches!(&state, State::Here(object) if object.guard.is_some()) {
            self.guarded.insert(key.clone());
        } else {
            self.guarded.remove(key);
        }
        let was = std::mem::replace(&mut known.state, state);
        let now: BTreeSet<Key> = owners_of(&known.state);
        self.changed.insert(key.clone());
        self.changed.extend(known.dependents.iter().cloned());
        let before = owners_of(&was);
        for owner in before.difference(&now) {
            if let Some(known) = self.known.get_mut(owner) {
                known.dependents.remove(key);
            }
            self.forget(owner);
        }
        for owner in &now {
            let known = self.known.entry(owner.clone()).or_default();
            known.dependents.insert(key.clone());
            // Events of unmarked objects outside the graph are skipped: the owner may have been made again unseen.
            if !before.contains(owner) && !matches!(known.state, State::Here(_)) {
                self.unlooked.insert(owner.clone());
            }
        }
        self.changed.extend(before.into_iter().chain(now));
        self.forget(key);
    }

    /// Forgets an object that neither owns nor is owned.
    fn forget(&mut self, key: &Key) {
        let idle = |known: &Vertex| {
            let alone = !matches!(&known.state, State::Here(object) if object.deleting || !object.owners.is_empty());
            alone && known.dependents.is_empty()
        };
        if self.known.get(key).is_some_and(idle) {
            self.known.remove(key);
            self.unlooked.remove(key);
        }
    }

    pub fn stand(&self, owner: &Reference) -> Stand {
        let known = owner.key.as_ref().and_then(|key| self.known.get(key));
        match known.map(|known| &known.state) {
            None | Some(State::Unknown) => Stand::Stays,
            Some(State::Absent) => Stand::Gone,
            Some(State::Here(object)) if object.uid != owner.uid => Stand::Gone,
            Some(State::Here(object)) if object.lets_go => Stand::LetsGo,
            Some(State::Here(object)) if object.waits => Stand::Waits,
            Some(State::Here(_)) => Stand::Stays,
        }
    }

    /// Whether a waiting object has nothing to wait for: no dependent blocks the object, or all blocking dependents in
    /// turn wait for the object.
    pub fn waits_for_nothing(&self, key: &Key) -> bool {
        let (mut seen, mut left) = (BTreeSet::new(), vec![key]);
        let mut circle = false;
        while let Some(one) = left.pop() {
            let Some(Vertex { state: State::Here(object), dependents, .. }) = self.known.get(one) else { return false };
            let mut blocking = dependents.iter().filter(|dependent| self.blocks(dependent, &object.uid)).peekable();
            if blocking.peek().is_none() {
                // The object itself, or a dependent that goes next.
                return one == key;
            }
            if !object.waits {
                return false;
            }
            for dependent in blocking {
                circle |= dependent == key;
                if seen.insert(dependent) {
                    left.push(dependent);
                }
            }
        }
        circle
    }

    /// Whether the owner of this uid waits for an object.
    fn blocks(&self, key: &Key, uid: &str) -> bool {
        let owned = |object: &Object| object.owners.iter().any(|owner| owner.blocking && owner.uid == uid);
        matches!(self.known.get(key).map(|known| &known.state), Some(State::Here(object)) if owned(object))
    }

    /// Whether anything names this object as its owner; `blocking`: in a way that the owner has to wait for.
    pub fn owns(&self, vertex: &Vertex, uid: &str, blocking: bool) -> bool {
        let names = |dependent: &Key| match self.known.get(dependent).map(|known| &known.state) {
            Some(State::Here(object)) => {
                object.owners.iter().any(|owner| owner.uid == uid && (owner.blocking || !blocking))
            }
            _ => false,
        };
        vertex.dependents.iter().any(names)
    }
}

fn owners_of(state: &State) -> BTreeSet<Key> {
    match state {
        State::Here(object) => object.owners.iter().filter_map(|owner| owner.key.clone()).collect(),
        State::Unknown | State::Absent => BTreeSet::new(),
    }
}

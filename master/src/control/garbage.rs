//! Garbage: what becomes of objects when those that own them go. PURE.
//!
//!     all its owners are gone          -> it goes too
//!     an owner waits for it to go      -> it goes too (foregroundDeletion), and then the owner is let go
//!     owners wait for each other       -> they are let go: none of them ever would be
//!     an owner is to go without it     -> the owner is taken off it (orphan), and then the owner is let go
//!     it keeps an owner                -> the others are taken off it
//!
//!     a volume or a claim, in use      -> its protection is taken off it when nobody uses it any more
//!
//! An owner of a kind that nobody here knows, one whose file cannot be read, and one that nobody has looked for yet may be there: unknown is
//! not absent. What is known of an owner is its revision too, so that old news never undoes newer.

use super::intent::{Decision, Intent};
use crate::store::{Damaged, Event, Stored};
use coracle_api::kinds::{Kind, Kinds};
use coracle_api::meta::{Key, ObjectMeta, OwnerReference, Resource, Revision};
use coracle_api::strategy::finalizer::{FOREGROUND, ORPHAN};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Hold claims, volumes and classes of attributes that are being deleted while somebody uses them.
const GUARDS: [&str; 3] = ["kubernetes.io/pvc-protection", "kubernetes.io/pv-protection", "kubernetes.io/vac-protection"];
const EVENTS: Resource = Resource::core("events");
const NAMESPACES: Resource = Resource::core("namespaces");

/// The objects that own, are owned, or wait for what they own.
#[derive(Default)]
pub struct Garbage {
    kinds: BTreeMap<(String, String), Place>,
    known: BTreeMap<Key, Known>,
    /// Named as owners, and not looked for yet.
    unlooked: BTreeSet<Key>,
    /// What is being deleted and protected.
    guarded: BTreeSet<Key>,
    /// Whose world has changed.
    dirty: BTreeSet<Key>,
}

struct Place {
    resource: Resource,
    namespaced: bool,
}

#[derive(Default)]
struct Known {
    /// What it stood at when it was last seen, or was looked for.
    revision: Revision,
    state: State,
    /// Who names it as an owner.
    dependents: BTreeSet<Key>,
}

#[derive(Default)]
enum State {
    /// Nobody has looked, or nobody can say.
    #[default]
    Unknown,
    Absent,
    Here(Box<Object>),
}

/// What of an object matters here.
struct Object {
    uid: String,
    owners: Vec<Owner>,
    deleting: bool,
    /// Nothing holds it any more.
    released: bool,
    /// It is to go when what it owns is let go.
    lets_go: bool,
    /// It is to go when what it owns is gone.
    waits: bool,
    /// What protects it while it is used.
    guard: Option<&'static str>,
    /// A claim holds it.
    bound: bool,
}

struct Owner {
    /// None: of a kind that nobody here knows.
    key: Option<Key>,
    uid: String,
    /// It waits for this one.
    blocked: bool,
}

/// How an owner stands to what it owns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stand {
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

/// Whether an event of what nobody else follows can matter: most objects own nothing and are owned by nobody.
pub fn concerns(event: &Event) -> bool {
    event.new.is_none() || event.renewed || is_marked(&event.new) || is_marked(&event.old)
}

fn is_marked(stored: &Option<Stored>) -> bool {
    // On the committing thread, for every object: not parsed.
    let holds = |text: &[u8]| stored.as_ref().is_some_and(|stored| memchr::memmem::find(&stored.json, text).is_some());
    holds(b"\"ownerReferences\"") || holds(b"\"deletionTimestamp\"")
}

impl Garbage {
    pub fn of(kinds: &Kinds) -> Garbage {
        let place = |kind: &Kind| {
            let stored = kinds.stored_as(kind);
            let place = Place { resource: stored.resource.clone(), namespaced: stored.namespaced };
            ((kind.api_version(), kind.kind.to_string()), place)
        };
        let owning = kinds.iter().filter(|kind| kind.answer.is_none() && kind.fate.is_some());
        Garbage { kinds: owning.map(place).collect(), ..Garbage::default() }
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

    /// What a look for an owner found. `before`: a revision that everything seen has.
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

    /// Owners that are named and of which nothing is known.
    pub fn unlooked(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.unlooked)
    }

    /// Whose world has changed since this was asked the last time.
    pub fn dirty(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.dirty)
    }

    /// What is protected for as long as pods of this namespace use it.
    pub fn guarded(&self, namespace: &str) -> impl Iterator<Item = &Key> {
        self.guarded.iter().filter(move |key| key.namespace == namespace)
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

    /// An owner is in the same namespace, or in none.
    fn owner(&self, key: &Key, owner: &OwnerReference) -> Owner {
        let place = self.kinds.get(&(owner.api_version.clone(), owner.kind.clone()));
        let of = |place: &Place| Key {
            resource: place.resource.clone(),
            namespace: if place.namespaced { key.namespace.clone() } else { String::new() },
            name: owner.name.clone(),
        };
        Owner { key: place.map(of), uid: owner.uid.clone(), blocked: owner.block_owner_deletion }
    }

    fn put(&mut self, key: &Key, revision: Revision, state: State) {
        // Events own nothing, and nobody waits for them.
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
        self.dirty.insert(key.clone());
        self.dirty.extend(known.dependents.iter().cloned());
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
            // Nobody tells of what is made and names no owner: it may have come since its forerunner went.
            if !before.contains(owner) && !matches!(known.state, State::Here(_)) {
                self.unlooked.insert(owner.clone());
            }
        }
        self.dirty.extend(before.into_iter().chain(now));
        self.forget(key);
    }

    /// What neither owns nor is owned is of no interest.
    fn forget(&mut self, key: &Key) {
        let idle = |known: &Known| {
            let alone = !matches!(&known.state, State::Here(object) if object.deleting || !object.owners.is_empty());
            alone && known.dependents.is_empty()
        };
        if self.known.get(key).is_some_and(idle) {
            self.known.remove(key);
            self.unlooked.remove(key);
        }
    }

    fn stand(&self, owner: &Owner) -> Stand {
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

    /// Whether an object that waits has nothing to wait for: nothing that it owns blocks it, or all that does waits for it in its turn.
    fn waits_for_nothing(&self, key: &Key) -> bool {
        let (mut seen, mut left) = (BTreeSet::new(), vec![key]);
        let mut circle = false;
        while let Some(one) = left.pop() {
            let Some(Known { state: State::Here(object), dependents, .. }) = self.known.get(one) else { return false };
            let mut blocking = dependents.iter().filter(|dependent| self.blocks(dependent, &object.uid)).peekable();
            if blocking.peek().is_none() {
                // Itself, or one that goes next.
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
        let owned = |object: &Object| object.owners.iter().any(|owner| owner.blocked && owner.uid == uid);
        matches!(self.known.get(key).map(|known| &known.state), Some(State::Here(object)) if owned(object))
    }

    /// Whether anything names this object as its owner; `blocking`: in a way that the owner has to wait for.
    fn owns(&self, known: &Known, uid: &str, blocking: bool) -> bool {
        let names = |dependent: &Key| match self.known.get(dependent).map(|known| &known.state) {
            Some(State::Here(object)) => object.owners.iter().any(|owner| owner.uid == uid && (owner.blocked || !blocking)),
            _ => false,
        };
        known.dependents.iter().any(names)
    }
}

fn owners_of(state: &State) -> BTreeSet<Key> {
    match state {
        State::Here(object) => object.owners.iter().filter_map(|owner| owner.key.clone()).collect(),
        State::Unknown | State::Absent => BTreeSet::new(),
    }
}

/// `used`: whether a pod uses the claim.
pub fn decide(garbage: &Garbage, key: &Key, used: impl Fn(&Key) -> bool) -> Decision {
    let Some(known) = garbage.known.get(key) else { return Decision::default() };
    let State::Here(object) = &known.state else { return Decision::default() };
    let seen = known.revision;
    // They end in an order of their own, and what one holds is too much to go because of a line in it.
    let is_namespace = key.resource == NAMESPACES;
    let disown = |uids: Vec<String>| Decision::of(vec![Intent::Disown { key: key.clone(), seen, owners: uids }]);
    let release = |finalizer| Decision::of(vec![Intent::Release { key: key.clone(), seen, finalizer }]);
    let stands: Vec<(&Owner, Stand)> = object.owners.iter().map(|owner| (owner, garbage.stand(owner))).collect();
    let uids = |wanted: &[Stand]| -> Vec<String> {
        stands.iter().filter(|(_, stand)| wanted.contains(stand)).map(|(owner, _)| owner.uid.clone()).collect()
    };
    let let_go = uids(&[Stand::LetsGo]);
    if !let_go.is_empty() {
        return disown(let_go);
    }
    if object.deleting {
        // A volume is used by the claim that it is bound to.
        let in_use = if key.namespace.is_empty() { object.bound } else { object.guard.is_some() && used(key) };
        return match &**object {
            Object { guard: Some(guard), .. } if !in_use => release(Some(*guard)),
            Object { released: true, .. } if !is_namespace => release(None),
            Object { lets_go: true, uid, .. } if !garbage.owns(known, uid, false) => release(Some(ORPHAN)),
            Object { waits: true, .. } if garbage.waits_for_nothing(key) => release(Some(FOREGROUND)),
            _ => Decision::default(),
        };
    }
    let over = uids(&[Stand::Gone, Stand::Waits]);
    if over.is_empty() || is_namespace {
        return Decision::default();
    }
    if over.len() < stands.len() {
        return disown(over);
    }
    let foreground = !uids(&[Stand::Waits]).is_empty() && garbage.owns(known, &object.uid, false);
    Decision::of(vec![Intent::Collect { key: key.clone(), seen, foreground }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn key(plural: &'static str, name: &str) -> Key {
        Key { resource: Resource::core(plural), namespace: "default".to_owned(), name: name.to_owned() }
    }

    /// What is written, one after the other: null is a deletion.
    fn garbage(events: &[(&str, Value)]) -> Garbage {
        let mut garbage = Garbage::of(&Kinds::builtin());
        for (revision, (name, meta)) in (1..).map(Revision).zip(events) {
            let key = Arc::new(key("configmaps", name));
            let stored = || Stored::of(key.clone(), revision, &mut json!({"metadata": meta}));
            garbage.apply(&Event { revision, key: key.clone(), old: None, new: (!meta.is_null()).then(stored), renewed: false });
        }
        garbage
    }

    /// All looks for owners: those whose names begin so are there, but not as the one that is meant; the others are as the events left them.
    fn look(garbage: &mut Garbage) {
        for key in garbage.unlooked() {
            let found = match key.name.as_str() {
                "other" => Ok(Some(Stored::of(Arc::new(key.clone()), Revision(1), &mut json!({"metadata": {"uid": "another"}})))),
                "there" => Ok(Some(Stored::of(Arc::new(key.clone()), Revision(1), &mut json!({"metadata": {"uid": "there"}})))),
                "damaged" => Err(Damaged { why: "half a file".to_owned() }),
                _ => Ok(None),
            };
            garbage.saw(&key, Revision(1), &found);
        }
    }

    fn check(events: &[(&str, Value)], expected: &[&str]) {
        let mut garbage = garbage(events);
        look(&mut garbage);
        let line = |intent: Intent| match intent {
            Intent::Collect { key, foreground, .. } => format!("{} goes{}", key.name, if foreground { " after what it owns" } else { "" }),
            Intent::Disown { key, owners, .. } => format!("{} loses {}", key.name, owners.join(" ")),
            Intent::Release { key, finalizer, .. } => format!("{} is released: {}", key.name, finalizer.unwrap_or("nothing holds it")),
            other => panic!("{other:?}"),
        };
        let keys: Vec<Key> = garbage.keys().cloned().collect();
        let found: Vec<String> = keys.iter().flat_map(|key| decide(&garbage, key, |key| key.name == "used").intents).map(line).collect();
        assert_eq!(found, expected, "{events:?}");
    }

    /// Owned by objects of these names, each with its name as uid; `!`: in a way that it waits for.
    fn owned(owners: &[&str]) -> Value {
        let owner = |name: &&str| {
            let (name, blocks) = name.strip_prefix('!').map_or((*name, false), |name| (name, true));
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "blockOwnerDeletion": blocks})
        };
        json!({"uid": "x", "ownerReferences": owners.iter().map(owner).collect::<Vec<_>>()})
    }

    fn leaving(uid: &str, finalizers: &[&str]) -> Value {
        json!({"uid": uid, "deletionTimestamp": "2027-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0, "finalizers": finalizers})
    }

    #[test]
    fn what_its_owners_leave() {
        check(&[("a", owned(&["there"]))], &[]);
        check(&[("a", owned(&["gone"]))], &["a goes"]);
        check(&[("a", owned(&["other"]))], &["a goes"]);
        check(&[("a", owned(&["there", "gone"]))], &["a loses gone"]);
        // Unknown is not absent.
        check(&[("a", owned(&["damaged"]))], &[]);
        check(&[("a", owned(&["damaged", "gone"]))], &["a loses gone"]);
        let foreign = json!({"ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "t"}]});
        check(&[("a", foreign)], &[]);
        // It came, and went.
        check(&[("o", owned(&["there"])), ("a", owned(&["o"])), ("o", Value::Null)], &["a goes"]);
        // What is going anyway is left alone.
        let mut going = owned(&["gone"]);
        going["deletionTimestamp"] = "2027-01-01T00:00:00Z".into();
        going["deletionGracePeriodSeconds"] = 30.into();
        check(&[("a", going)], &[]);
    }

    #[test]
    fn foreground() {
        let waits = leaving("o", &[FOREGROUND]);
        check(&[("o", waits.clone()), ("a", owned(&["!o"]))], &["a goes"]);
        check(&[("o", waits.clone()), ("a", owned(&["o"]))], &["a goes", "o is released: foregroundDeletion"]);
        check(&[("o", waits.clone()), ("a", owned(&["!o", "there"]))], &["a loses o"]);
        check(&[("o", waits.clone())], &["o is released: foregroundDeletion"]);
        // What is owned goes the same way.
        let mut second = owned(&["x"]);
        second["ownerReferences"][0]["name"] = "a".into();
        second["uid"] = "y".into();
        check(&[("o", waits.clone()), ("a", owned(&["!o"])), ("b", second)], &["a goes after what it owns"]);
        let mut going = owned(&["!o"]);
        going["deletionTimestamp"] = "2027-01-01T00:00:00Z".into();
        going["deletionGracePeriodSeconds"] = 30.into();
        check(&[("o", waits.clone()), ("a", going)], &[]);
        check(&[("o", leaving("o", &[FOREGROUND, "example.com/mine"]))], &["o is released: foregroundDeletion"]);
        check(&[("o", leaving("o", &["example.com/mine"])), ("a", owned(&["o"]))], &[]);
    }

    #[test]
    fn circles_do_not_wait_for_themselves() {
        let of = |name: &str, owner: &str, waits: bool| {
            let mut meta = owned(&[owner]);
            meta["uid"] = name.into();
            if waits {
                meta["deletionTimestamp"] = "2027-01-01T00:00:00Z".into();
                meta["finalizers"] = json!([FOREGROUND]);
            }
            meta
        };
        // As long as one of them has still to go, they wait.
        check(&[("a", of("a", "!c", true)), ("b", of("b", "!a", true)), ("c", of("c", "!b", false))], &["c goes after what it owns"]);
        let released = ["a", "b", "c"].map(|name| format!("{name} is released: foregroundDeletion"));
        let released = released.each_ref().map(String::as_str);
        let circle = [("a", of("a", "!c", true)), ("b", of("b", "!a", true)), ("c", of("c", "!b", true))];
        check(&circle, &released);
        check(&[("a", of("a", "!a", true))], &["a is released: foregroundDeletion"]);
        // What one of them owns besides keeps all of them.
        let mut more = circle.to_vec();
        let mut going = owned(&["!b"]);
        going["deletionTimestamp"] = "2027-01-01T00:00:00Z".into();
        going["deletionGracePeriodSeconds"] = 30.into();
        more.push(("d", going));
        check(&more, &[]);
    }

    #[test]
    fn orphans() {
        let lets_go = leaving("o", &[ORPHAN]);
        check(&[("o", lets_go.clone()), ("a", owned(&["o"]))], &["a loses o"]);
        check(&[("o", lets_go.clone()), ("a", owned(&["o", "gone"]))], &["a loses o"]);
        check(&[("o", lets_go.clone()), ("a", owned(&["o"])), ("a", json!({"uid": "x"}))], &["o is released: orphan"]);
        check(&[("o", leaving("o", &[]))], &["o is released: nothing holds it"]);
    }

    #[test]
    fn what_is_used_stays() {
        check(&[("c", leaving("c", &[GUARDS[0]]))], &["c is released: kubernetes.io/pvc-protection"]);
        check(&[("used", leaving("c", &[GUARDS[0]]))], &[]);
        check(&[("c", leaving("c", &[GUARDS[0], "example.com/mine"]))], &["c is released: kubernetes.io/pvc-protection"]);
    }

    /// Old news comes after newer: what was looked up has seen more than the events that are on their way.
    #[test]
    fn revisions_decide() {
        let mut garbage = garbage(&[("a", owned(&["new"]))]);
        let owner = key("configmaps", "new");
        let stored = Stored::of(Arc::new(owner.clone()), Revision(9), &mut json!({"metadata": {"uid": "new"}}));
        assert_eq!(garbage.unlooked(), BTreeSet::from([owner.clone()]));
        garbage.saw(&owner, Revision(8), &Ok(Some(stored)));
        garbage.apply(&Event { revision: Revision(5), key: Arc::new(owner.clone()), old: None, new: None, renewed: false });
        assert_eq!(decide(&garbage, &key("configmaps", "a"), |_| false), Decision::default(), "its forerunner went at 5");
        garbage.apply(&Event { revision: Revision(10), key: Arc::new(owner), old: None, new: None, renewed: false });
        assert_eq!(decide(&garbage, &key("configmaps", "a"), |_| false).intents.len(), 1);
        garbage.apply(&Event { revision: Revision(11), key: Arc::new(key("configmaps", "a")), old: None, new: None, renewed: false });
        assert_eq!(garbage.keys().count(), 0, "what is over is forgotten");
    }
}

//! PURE. What is so, and what a write would make of it: `decide` says it, the disk makes it durable, `apply` lets it be seen.

use super::pages::Listing;
use super::{Claimed, Damage, Event, Refused, Stored, Write, document};
use bytes::Bytes;
use coracle_api::meta::{Claim, Durable, Key, Revision};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// One object as compact JSON: what etcd takes by default.
pub const OBJECT_BYTES_MAX: usize = 1536 << 10;
/// Claims remembered after their objects' death; the oldest makes room.
pub const GRAVES_MAX: usize = 10_000;

/// An object in memory.
#[derive(Clone)]
pub struct Entry {
    pub stored: Stored,
    /// Which part of it lies on disk.
    pub durable: Durable,
    /// The checksum of its durable part as compact JSON, if it has one. Its file says the same with more white space.
    pub file_crc: Option<u32>,
    pub claims: Box<[Claimed]>,
}

pub enum Verdict {
    /// It is so already.
    Unchanged(Stored),
    Change(Box<Change>),
}

/// A write that may be done: first `step`, then the rest.
pub struct Change {
    pub revision: Revision,
    pub key: Arc<Key>,
    pub step: Step,
    pub old: Option<Stored>,
    /// None: deleted.
    pub entry: Option<Entry>,
    /// What the writer is told.
    pub answer: Stored,
}

/// What has to be durable before anybody may see the change.
#[derive(Debug, PartialEq)]
pub enum Step {
    Keep,
    /// The durable part, compact.
    Put(Bytes),
    Remove,
    /// A person gave a damaged object up.
    Settle,
}

struct Owner {
    key: Key,
    /// The uptime until which a claim outlives its object; None while that lives.
    until: Option<Duration>,
}

/// What a create or an update wants to stand there.
struct Wanted {
    key: Arc<Key>,
    object: Value,
    durable: Durable,
    claims: Vec<Claimed>,
    revision: Revision,
}

#[derive(Default)]
pub struct State {
    objects: BTreeMap<Arc<Key>, Entry>,
    damaged: BTreeMap<Key, Damage>,
    claims: BTreeMap<Claim, Owner>,
    /// Claims whose objects are gone, in the order of their deaths.
    graves: VecDeque<(Duration, Claim)>,
    revision: Revision,
    /// Given to writes that failed, where it is higher.
    spent: Revision,
}

impl State {
    pub fn new(objects: BTreeMap<Arc<Key>, Entry>, damaged: BTreeMap<Key, Damage>, revision: Revision) -> State {
        let mut state =
            State { objects: BTreeMap::new(), damaged, claims: BTreeMap::new(), graves: VecDeque::new(), revision, spent: revision };
        for (key, entry) in &objects {
            state.claim(key, &entry.claims);
        }
        state.objects = objects;
        state
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The last one given, to whatever became of it.
    pub fn spent(&self) -> Revision {
        self.spent.max(self.revision)
    }

    /// A revision that a failed write may have left on disk is not used again. Nobody is shown it either: it need not be reserved.
    pub fn burn(&mut self, revision: Revision) {
        self.spent = self.spent.max(revision);
    }

    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.objects.get(key)
    }

    pub fn damage(&self, key: &Key) -> Option<&Damage> {
        self.damaged.get(key)
    }

    pub fn all_damage(&self) -> impl Iterator<Item = &Damage> {
        self.damaged.values()
    }

    pub fn all(&self) -> impl Iterator<Item = &Entry> {
        self.objects.values()
    }

    /// The objects that a listing means, in order.
    pub fn listed(&self, listing: &Listing) -> impl Iterator<Item = &Stored> {
        let range = (listing.from(), Bound::Unbounded);
        self.objects.range::<Key, _>(range).take_while(|(key, _)| listing.holds(key)).map(|(_, entry)| &entry.stored)
    }

    /// Damaged keys between the front of a listing and `last`, or its end.
    pub fn damaged_listed(&self, listing: &Listing, last: Option<&Key>) -> Vec<Key> {
        let inside = |key: &&Key| listing.holds(key) && last.is_none_or(|last| **key <= *last);
        self.damaged.range((listing.from(), Bound::Unbounded)).map(|(key, _)| key).take_while(inside).cloned().collect()
    }

    /// The owners of a space's claims, dead ones too as long as their claims hold.
    pub fn claimed(&self, space: &str, uptime: Duration) -> Vec<(String, Key)> {
        let from = Claim { space: space.to_owned().into(), value: String::new() };
        let holds = |owner: &Owner| owner.until.is_none_or(|until| uptime < until);
        let owners = self.claims.range(from..).take_while(|(claim, _)| claim.space == space).filter(|(_, owner)| holds(owner));
        owners.map(|(claim, owner)| (claim.value.clone(), owner.key.clone())).collect()
    }

    /// `revision` is what the change gets.
    pub fn decide(&self, write: Write, revision: Revision, uptime: Duration) -> Result<Verdict, Refused> {
        match write {
            Write::Create { key, object, durable, claims } => {
                if let Some(damage) = self.damaged.get(&key) {
                    return Err(Refused::Damaged { why: damage.why.clone() });
                }
                if let Some(entry) = self.objects.get(&key) {
                    return Err(Refused::Exists { revision: Some(entry.stored.revision) });
                }
                self.check_claims(&key, &claims, uptime, false)?;
                self.put(Wanted { key: Arc::new(key), object, durable, claims, revision }, None)
            }
            Write::Update { key, object, seen, durable, claims } => {
                let entry = self.seen(&key, seen)?;
                let key = entry.stored.key.clone();
                self.update(Wanted { key, object, durable, claims, revision }, entry, uptime)
            }
            Write::Delete { key, seen } => {
                if let Some(damage) = self.damaged.get(&key) {
                    let answer = damage.identity(&key, revision);
                    let key = answer.key.clone();
                    return Ok(change(Change { revision, key, step: Step::Settle, old: None, entry: None, answer }));
                }
                let entry = self.seen(&key, seen)?;
                let step = if entry.file_crc.is_some() { Step::Remove } else { Step::Keep };
                let answer = entry.stored.at(revision);
                let key = entry.stored.key.clone();
                Ok(change(Change { revision, key, step, old: Some(entry.stored.clone()), entry: None, answer }))
            }
        }
    }

    /// Lets a change be seen. What it had to make durable is durable.
    pub fn apply(&mut self, change: Change, uptime: Duration) -> Event {
        self.revision = self.revision.max(change.revision);
        let former = self.objects.remove(&*change.key).map(|entry| entry.claims).unwrap_or_default();
        if change.step == Step::Settle {
            self.damaged.remove(&*change.key);
        }
        let new = change.entry.as_ref().map(|entry| entry.stored.clone());
        match change.entry {
            Some(entry) => {
                for claimed in &former {
                    self.release(&change.key, &claimed.claim);
                }
                self.claim(&change.key, &entry.claims);
                self.objects.insert(change.key.clone(), entry);
            }
            None => {
                for claimed in &former {
                    self.bury(&change.key, claimed, uptime);
                }
            }
        }
        self.forget_graves(uptime);
        Event { revision: change.revision, key: change.key, old: change.old, new }
    }

    fn seen(&self, key: &Key, seen: Revision) -> Result<&Entry, Refused> {
        if let Some(damage) = self.damaged.get(key) {
            return Err(Refused::Damaged { why: damage.why.clone() });
        }
        let entry = self.objects.get(key).ok_or(Refused::Missing)?;
        if entry.stored.revision == seen { Ok(entry) } else { Err(Refused::Stale { now: entry.stored.clone() }) }
    }

    fn update(&self, mut wanted: Wanted, entry: &Entry, uptime: Duration) -> Result<Verdict, Refused> {
        let mut old: Value = serde_json::from_slice(&entry.stored.json).expect("the store wrote this JSON itself");
        document::stamp(&mut wanted.object, entry.stored.revision);
        if wanted.object == old {
            return Ok(Verdict::Unchanged(entry.stored.clone()));
        }
        self.check_claims(&wanted.key, &wanted.claims, uptime, true)?;
        let on_disk = document::keep_durable(&mut old, entry.durable).then_some(old);
        self.put(wanted, Some((entry, on_disk)))
    }

    /// `former`: the entry that stands, and its durable part at its revision.
    fn put(&self, wanted: Wanted, former: Option<(&Entry, Option<Value>)>) -> Result<Verdict, Refused> {
        let Wanted { key, mut object, durable, claims, revision } = wanted;
        let stored = Stored::of(key.clone(), revision, &mut object);
        if stored.json.len() > OBJECT_BYTES_MAX {
            return Err(Refused::TooLarge { bytes: stored.json.len() });
        }
        let old = former.as_ref().map(|(entry, _)| entry.stored.clone());
        let former_crc = former.as_ref().and_then(|(entry, _)| entry.file_crc);
        let has_status = object.get("status").is_some();
        let (step, file_crc) = if !document::keep_durable(&mut object, durable) {
            (if former_crc.is_some() { Step::Remove } else { Step::Keep }, None)
        } else if former_crc.is_some() && same_file(&mut object, former) {
            (Step::Keep, former_crc)
        } else {
            let durable_part = if durable == Durable::Whole || !has_status {
                stored.json.clone()
            } else {
                document::stamp(&mut object, revision);
                document::compact(&object)
            };
            let crc = document::crc32(&durable_part);
            (Step::Put(durable_part), Some(crc))
        };
        let entry = Entry { stored: stored.clone(), durable, file_crc, claims: claims.into() };
        Ok(change(Change { revision, key, step, old, entry: Some(entry), answer: stored }))
    }

    /// `own`: what the living object of this key owns already is free for it.
    fn check_claims(&self, key: &Key, claims: &[Claimed], uptime: Duration, own: bool) -> Result<(), Refused> {
        for Claimed { claim, .. } in claims {
            let Some(owner) = self.claims.get(claim) else { continue };
            let free = owner.until.is_some_and(|until| until <= uptime) || (own && owner.key == *key);
            if !free {
                return Err(Refused::Claimed { claim: claim.clone(), owner: owner.key.clone() });
            }
        }
        Ok(())
    }

    /// Whoever holds a claim keeps it: only files that a person copied can clash here.
    fn claim(&mut self, key: &Key, claims: &[Claimed]) {
        for Claimed { claim, .. } in claims {
            let held = self.claims.get(claim).is_some_and(|owner| owner.until.is_none() && owner.key != *key);
            if !held {
                self.claims.insert(claim.clone(), Owner { key: key.clone(), until: None });
            }
        }
    }

    fn release(&mut self, key: &Key, claim: &Claim) {
        if self.claims.get(claim).is_some_and(|owner| owner.key == *key && owner.until.is_none()) {
            self.claims.remove(claim);
        }
    }

    fn bury(&mut self, key: &Key, claimed: &Claimed, uptime: Duration) {
        let Some(owner) = self.claims.get_mut(&claimed.claim).filter(|owner| owner.key == *key && owner.until.is_none()) else { return };
        if claimed.after_death.is_zero() {
            self.claims.remove(&claimed.claim);
        } else {
            let until = uptime + claimed.after_death;
            owner.until = Some(until);
            self.graves.push_back((until, claimed.claim.clone()));
        }
    }

    /// Every claim's time after death is the same hour, so the first to die is the first to be forgotten.
    fn forget_graves(&mut self, uptime: Duration) {
        while let Some((until, _)) = self.graves.front()
            && (*until <= uptime || self.graves.len() > GRAVES_MAX)
        {
            let Some((until, claim)) = self.graves.pop_front() else { return };
            // It may have been claimed anew since.
            if self.claims.get(&claim).is_some_and(|owner| owner.until == Some(until)) {
                self.claims.remove(&claim);
            }
        }
    }
}

fn change(change: Change) -> Verdict {
    Verdict::Change(Box::new(change))
}

/// Whether the durable part is what lies on disk already, but for the revision.
fn same_file(object: &mut Value, former: Option<(&Entry, Option<Value>)>) -> bool {
    let Some((entry, Some(on_disk))) = former else { return false };
    document::stamp(object, entry.stored.revision);
    *object == on_disk
}

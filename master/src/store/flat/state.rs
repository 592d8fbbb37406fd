//! PURE. The objects in memory: `decide` says what a write would change, the disk makes it durable, `apply` makes it
//! visible.

use super::draft::{Operation, PreparedWrite};
use super::entry::{Durability, Entry, PlannedChange, WriteVerdict};
use super::foreign::{Counted, ForeignFiles};
use super::names;
use super::pages::Listing;
use super::planned::{change, put};
use super::room::{StoreRoom, StoreUsage};
use super::seal::Sealing;
use super::seal::keys::SealKeys;
use super::sums::Sums;
use crate::store::{Claimed, Damage, Event, Refused, Stored, UNSEEN};
use coracle_api::meta::{Claim, Key, Resource, Revision};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Claims remembered after their objects' death; the oldest makes room.
pub const GRAVES_MAX: usize = 10_000;

struct Owner {
    key: Key,
    /// The uptime until which a claim outlives its object; None while that lives.
    until: Option<Duration>,
}

#[derive(Default)]
pub struct StoreState {
    objects: BTreeMap<Arc<Key>, Entry>,
    damaged: BTreeMap<Key, Damage>,
    claims: BTreeMap<Claim, Owner>,
    /// Claims whose objects are gone, in the order of their deaths.
    graves: VecDeque<(Duration, Claim)>,
    revision: Revision,
    /// Given to writes that failed, where it is higher.
    spent: Revision,
    /// The last change of each resource that has changed.
    changed: BTreeMap<Resource, Revision>,
    /// The sum and the number of all files, according to the journal.
    files: Sums,
    files_count: u64,
    room: StoreRoom,
    /// Unreadable folders of objects, and the reason; the empty name means all folders. Unknown objects may lie in such
    /// a folder.
    unread: Vec<(String, Damage)>,
    /// Files that are not touched: nobody can say what these objects are.
    foreign: BTreeMap<Key, Damage>,
    /// The same of objects that are sealed by keys which are not at hand.
    shut: BTreeMap<Key, Damage>,
    sealing: Sealing,
}

impl StoreState {
    pub fn new(objects: BTreeMap<Arc<Key>, Entry>, damaged: BTreeMap<Key, Damage>, revision: Revision) -> StoreState {
        let files_count = objects.values().filter(|entry| entry.file_crc.is_some()).count() as u64;
        let (mut files, mut held) = (Sums::default(), StoreUsage::default());
        objects.iter().for_each(|(key, entry)| entry.file_crc.into_iter().for_each(|crc| files.add(key, crc)));
        let (claims, graves, unread) = (BTreeMap::new(), VecDeque::new(), Vec::new());
        objects.values().for_each(|entry| held.add(entry));
        let room = StoreRoom::new(held, u64::MAX);
        let mut state = StoreState {
            objects: BTreeMap::new(),
            damaged,
            claims,
            graves,
            revision,
            spent: revision,
            changed: BTreeMap::new(),
            files,
            files_count,
            room,
            unread,
            foreign: BTreeMap::new(),
            shut: BTreeMap::new(),
            sealing: Sealing::default(),
        };
        for (key, entry) in &objects {
            state.claim(key, &entry.claims);
        }
        state.objects = objects;
        state
    }

    /// Files that a person wrote for kinds that were not known at the start: nothing is written in their
    /// place.
    pub fn beside(self, foreign: ForeignFiles) -> StoreState {
        let (files, files_count) = (self.files.plus(foreign.sum), self.files_count + foreign.count);
        StoreState { files, files_count, foreign: foreign.files, ..self }
    }

    /// Objects that are sealed by keys which are not at hand, and all their files.
    pub fn shutting(self, shut: BTreeMap<Key, Damage>, counted: [Counted; 2]) -> StoreState {
        let files = counted.iter().fold(self.files, |sum, some| sum.plus(some.sum));
        let files_count = counted.iter().fold(self.files_count, |count, some| count + some.count);
        StoreState { files, files_count, shut, ..self }
    }

    pub fn sealing(self, sealing: Sealing) -> StoreState {
        StoreState { sealing, ..self }
    }

    pub fn sealer(&self) -> &Sealing {
        &self.sealing
    }

    /// By other keys from now on.
    pub fn seal_by(&mut self, keys: SealKeys) {
        self.sealing.keys = keys;
    }

    pub fn shut(&self) -> &BTreeMap<Key, Damage> {
        &self.shut
    }

    /// What is not written in the place of.
    fn untouched(&self, key: &Key) -> Option<&Damage> {
        self.foreign.get(key).or_else(|| self.shut.get(key))
    }

    /// So many bytes in all, from now on.
    pub fn within(self, limit: u64) -> StoreState {
        StoreState { room: StoreRoom::new(self.room.held().clone(), limit), ..self }
    }

    pub fn room(&self) -> &StoreRoom {
        &self.room
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    pub fn changed(&self, resource: &Resource) -> Revision {
        self.changed.get(resource).copied().unwrap_or_default()
    }

    /// The last given revision, even if the write failed.
    pub fn spent(&self) -> Revision {
        self.spent.max(self.revision)
    }

    /// The sum of the files when they are up to the journal.
    pub fn files_sum(&self) -> Sums {
        self.files
    }

    pub fn files_count(&self) -> u64 {
        self.files_count
    }

    /// A revision that a failed write may have left on disk is not used again. Nobody is shown it either: it need not
    /// be reserved.
    pub fn burn(&mut self, revision: Revision) {
        self.spent = self.spent.max(revision);
    }

    /// The same objects, at a later revision.
    pub fn move_to(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.objects.get(key)
    }

    /// Unknown is not absent.
    pub fn damage(&self, key: &Key) -> Option<&Damage> {
        let unread = || {
            if self.unread.is_empty() || self.objects.contains_key(key) {
                return None;
            }
            let path = names::path(key);
            self.unread.iter().find(|(folder, _)| path.starts_with(folder.as_str())).map(|(_, damage)| damage)
        };
        self.damaged.get(key).or_else(|| self.untouched(key)).or_else(unread)
    }

    /// Some objects may not be known. A folder ends with its slash.
    pub fn without(self, unread: Vec<(String, String)>) -> StoreState {
        let damage = |why| Damage { file: String::new(), key: None, kind: None, why, remedy: String::new() };
        StoreState { unread: unread.into_iter().map(|(folder, why)| (folder, damage(why))).collect(), ..self }
    }

    /// Folders with unknown content, and the reason; the empty name means all folders.
    pub fn unknown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.unread.iter().map(|(folder, damage)| (folder.as_str(), damage.why.as_str()))
    }

    pub fn all_damage(&self) -> impl Iterator<Item = &Damage> {
        self.damaged.values()
    }

    pub fn all(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.objects.values()
    }

    /// The next object behind a key, or the first.
    pub fn after(&self, key: Option<&Key>) -> Option<&Entry> {
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.objects.range::<Key, _>((from, Bound::Unbounded)).next().map(|(_, entry)| entry)
    }

    /// Its file is written anew, and says something else from then on.
    pub fn rewritten(&mut self, key: &Key, file_crc: u32) {
        if let Some(entry) = self.objects.get_mut(key) {
            entry.file_crc.into_iter().for_each(|former| self.files.take(key, former));
            entry.file_crc = Some(file_crc);
            self.files.add(key, file_crc);
        }
    }

    /// The objects that a listing means, in order.
    pub fn listed(&self, listing: &Listing) -> impl Iterator<Item = &Stored> {
        let range = (listing.from(), Bound::Unbounded);
        self.objects.range::<Key, _>(range).take_while(|(key, _)| listing.holds(key)).map(|(_, entry)| &entry.stored)
    }

    /// Damaged keys between the front of a listing and `last`, or its end.
    pub fn damaged_listed(&self, listing: &Listing, last: Option<&Key>) -> Vec<Key> {
        let inside = |key: &&Key| listing.holds(key) && last.is_none_or(|last| **key <= *last);
        let of = |damaged: &BTreeMap<Key, Damage>| -> Vec<Key> {
            damaged.range((listing.from(), Bound::Unbounded)).map(|(key, _)| key).take_while(inside).cloned().collect()
        };
        let mut keys = of(&self.damaged);
        if !self.foreign.is_empty() || !self.shut.is_empty() {
            keys.extend(of(&self.foreign));
            keys.extend(of(&self.shut));
            keys.sort_unstable();
        }
        keys
    }

    /// The owners of a space's claims, dead ones too as long as their claims hold.
    pub fn claimed(&self, space: &str, uptime: Duration) -> Vec<(String, Key)> {
        let from = Claim { space: space.to_owned().into(), value: String::new() };
        let holds = |owner: &Owner| owner.until.is_none_or(|until| uptime < until);
        let owners =
            self.claims.range(from..).take_while(|(claim, _)| claim.space == space).filter(|(_, owner)| holds(owner));
        owners.map(|(claim, owner)| (claim.value.clone(), owner.key.clone())).collect()
    }

    /// `revision` is what the change gets.
    pub fn decide(&self, draft: PreparedWrite, revision: Revision, uptime: Duration) -> Result<WriteVerdict, Refused> {
        let key = draft.key;
        match draft.wish {
            Operation::Put { seen: None, document } => {
                if let Some(damage) = self.damaged.get(&key).or_else(|| self.untouched(&key)) {
                    return Err(Refused::Damaged { why: damage.to_asker() });
                }
                if let Some(entry) = self.objects.get(&key) {
                    return Err(Refused::Exists { revision: Some(entry.stored.revision) });
                }
                self.check_claims(&key, &document.claims, uptime, false)?;
                put(&self.sealing, Arc::new(key), *document, revision, None)
            }
            Operation::Put { seen: Some(UNSEEN), document } if self.damaged.contains_key(&key) => {
                self.check_claims(&key, &document.claims, uptime, false)?;
                put(&self.sealing, Arc::new(key), *document, revision, None)
            }
            Operation::Put { seen: Some(seen), document } => {
                let entry = self.seen(&key, seen)?;
                if document.text.is(entry.stored.revision, &entry.stored.json) {
                    return Ok(WriteVerdict::Unchanged(entry.stored.clone()));
                }
                self.check_claims(&key, &document.claims, uptime, true)?;
                put(&self.sealing, entry.stored.key.clone(), *document, revision, Some(entry))
            }
            Operation::Delete { seen } => {
                if let Some(damage) = self.damaged.get(&key) {
                    let answer = damage.identity(&key, revision);
                    let key = answer.key.clone();
                    return Ok(change(PlannedChange {
                        revision,
                        key,
                        step: Durability::Settle,
                        old: None,
                        former: Box::default(),
                        former_crc: None,
                        entry: None,
                        answer,
                    }));
                }
                let entry = self.seen(&key, seen)?;
                let step = if entry.file_crc.is_some() { Durability::Remove } else { Durability::Keep };
                let answer = entry.stored.at(revision);
                let key = entry.stored.key.clone();
                let (old, former) = (Some(entry.stored.clone()), entry.claims.clone());
                let former_crc = entry.file_crc;
                Ok(change(PlannedChange { revision, key, step, old, former, former_crc, entry: None, answer }))
            }
        }
    }

    /// Lets a change be seen. What it had to make durable is durable.
    pub fn apply(&mut self, change: PlannedChange, uptime: Duration) -> Event {
        self.revision = self.revision.max(change.revision);
        match self.changed.get_mut(&change.key.resource) {
            Some(last) => *last = change.revision,
            None => drop(self.changed.insert(change.key.resource.clone(), change.revision)),
        }
        let crc = change.entry.as_ref().and_then(|entry| entry.file_crc);
        if change.former_crc != crc {
            crc.into_iter().for_each(|crc| self.files.add(&change.key, crc));
            change.former_crc.into_iter().for_each(|former| self.files.take(&change.key, former));
            self.files_count += u64::from(crc.is_some());
            self.files_count -= u64::from(change.former_crc.is_some());
        }
        let given_up = !self.damaged.is_empty() && self.damaged.remove(&*change.key).is_some();
        let new = change.entry.as_ref().map(|entry| entry.stored.clone());
        match change.entry {
            Some(entry) => {
                for claimed in &change.former {
                    self.release(&change.key, &claimed.claim);
                }
                self.claim(&change.key, &entry.claims);
                self.room.held_mut().add(&entry);
                let former = self.objects.insert(change.key.clone(), entry);
                former.iter().for_each(|former| self.room.held_mut().take(former));
            }
            None => {
                let former = self.objects.remove(&*change.key);
                former.iter().for_each(|former| self.room.held_mut().take(former));
                for claimed in &change.former {
                    self.bury(&change.key, claimed, uptime);
                }
            }
        }
        self.forget_graves(uptime);
        Event { revision: change.revision, key: change.key, old: change.old, renewed: given_up && new.is_some(), new }
    }

    fn seen(&self, key: &Key, seen: Revision) -> Result<&Entry, Refused> {
        if let Some(damage) = self.damaged.get(key).or_else(|| self.untouched(key)) {
            return Err(Refused::Damaged { why: damage.to_asker() });
        }
        let entry = self.objects.get(key).ok_or(Refused::Missing)?;
        if entry.stored.revision == seen { Ok(entry) } else { Err(Refused::Stale { now: entry.stored.clone() }) }
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

    /// The first holder of a claim keeps the claim: only files that a person copied can clash here.
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
        let Some(owner) =
            self.claims.get_mut(&claimed.claim).filter(|owner| owner.key == *key && owner.until.is_none())
        else {
            return;
        };
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

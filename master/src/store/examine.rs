//! What people or the medium did to the files while no master ran.
//!
//! ```text
//! stamp intact, checksum right: as it was left · intact, but wrong: the medium is failing · touched and wrong: a person wrote it
//! no stamp: an editor replaced the file, as long as others have theirs; a directory that was copied has none at all
//! ```
//!
//! What a person wrote is a write like any other: checked and completed, with a fresh revision, in the journal before anybody sees it.

use super::checkpoint::Dirty;
use super::copied::Left;
use super::covered::{Covered, Overridden};
use super::disk::{Disk, Stamp};
use super::files::{OBJECTS, TMP};
use super::journal::past::{Age, Past};
use super::journal::record::Was;
use super::judge::Wrong;
use super::protocol::Protocol;
use super::setup::LOST_REVISIONS;
use super::state::{Entry, OBJECT_BYTES_MAX};
use super::sums::Doubts;
use super::tree::{Edited, Tree};
use super::{Damage, Stored, document, names};
use coracle_api::meta::{Key, Revision};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Files that are looked at to tell whether a directory was copied.
const SAMPLE: usize = 8;

/// What the files' stamps say.
#[derive(Default)]
pub struct Looked {
    /// People wrote them.
    pub edited: Vec<Arc<Key>>,
    /// As a store has put them: this one, or one whose files were copied here.
    pub put: Vec<Arc<Key>>,
    /// They have none, nor has any other.
    pub bare: Vec<Arc<Key>>,
    /// What the stamps say that those were that people or the medium have changed.
    pub said: BTreeMap<Key, u32>,
}

impl Tree<'_> {
    /// Looks what people or the medium did to the files. `past`: what the journal says of files that have caught up with it tells an
    /// edit where no stamp does, and an older file where its stamp is as it was.
    pub fn examine(&mut self, left: &Left, past: &Past, protocol: &Protocol) {
        let mut looked = self.look_at_stamps();
        if protocol.heal && !left.clean {
            self.heal(left, past, &mut looked, protocol);
        }
        let mut older = Vec::new();
        if left.differs {
            self.ask_past(left, past, &mut looked, &mut older);
        }
        let wanted = left.sum.as_ref().filter(|_| left.differs && protocol.account);
        let (doubts, alone) = wanted.and_then(|wanted| self.account(wanted, past, &looked)).unzip();
        let any = doubts.as_ref().is_some_and(Doubts::any);
        if any {
            self.next += LOST_REVISIONS;
        }
        // Of what such a start brought, what is still absent may look like what a person took away.
        if (any || left.doubted) && protocol.heal {
            self.bring_absent(past, protocol);
        }
        if left.differs {
            self.miss_objects(self.gone(left, alone.as_deref().unwrap_or_default()));
        }
        if left.differs && !left.clean {
            self.bury_removed(past);
        }
        self.tell_put_back(&older);
        let mut uids = if looked.edited.is_empty() { HashMap::new() } else { self.uids(&looked.edited) };
        for key in std::mem::take(&mut looked.edited) {
            self.edit(key, &mut uids);
        }
        self.doubt(looked, left, doubts.as_ref());
    }

    fn look_at_stamps(&mut self) -> Looked {
        let mut looked = Looked::default();
        let from_files: Vec<(Arc<Key>, u32)> = self
            .objects
            .iter()
            .filter(|(key, _)| !self.covered.contains_key(*key))
            .filter_map(|(key, entry)| Some((key.clone(), entry.file_crc?)))
            .collect();
        for (key, crc) in from_files {
            if self.overridden.contains_key(&key) {
                looked.edited.push(key);
                continue;
            }
            let path = names::path(&key);
            // What cannot be read is unknown, not absent.
            let Ok(stamp) = self.disk.stamp(&format!("{OBJECTS}/{path}")) else { continue };
            self.any_stamp |= stamp != Stamp::None;
            match stamp {
                Stamp::None if self.unwritten.contains(&key) => looked.edited.push(key),
                Stamp::None => looked.bare.push(key),
                Stamp::Intact(said) | Stamp::Touched(said) if said == crc => looked.put.push(key),
                Stamp::Touched(said) => {
                    looked.said.insert(Key::clone(&key), said);
                    looked.edited.push(key);
                }
                Stamp::Intact(said) => {
                    self.objects.remove(&key);
                    looked.said.insert(Key::clone(&key), said);
                    let why = "nobody wrote to it, yet it is not what was written: the medium is failing".to_owned();
                    self.put_aside(&path, Some(Key::clone(&key)), Wrong { word: "rotten", why });
                }
            }
        }
        // Editors replace a file, and what stood beside the old one is gone. A directory that was copied has no stamps at all.
        let replaced = self.any_stamp && self.stamped;
        self.stamped = replaced || looked.bare.is_empty();
        if replaced {
            looked.edited.append(&mut looked.bare);
        }
        looked
    }

    /// Something is different: what the journal says of each file that nobody is known to have touched. Those of which it says nothing
    /// that would help stay where they are. `older`: edits that put back what was there before.
    fn ask_past(&mut self, left: &Left, past: &Past, looked: &mut Looked, older: &mut Vec<Arc<Key>>) {
        let crc = |key: &Arc<Key>| self.objects.get(key).and_then(|entry| entry.file_crc);
        let (mut edited, mut as_left) = (Vec::new(), Vec::new());
        let mut is_doubtful = |key: &Arc<Key>, may_be_edited: bool, as_left: &mut Vec<Arc<Key>>| {
            match past.age(key, crc(key)) {
                Age::Last if past.is_whole() => as_left.push(key.clone()),
                Age::Older if may_be_edited => {
                    older.push(key.clone());
                    edited.push(key.clone());
                }
                Age::Other if may_be_edited && past.is_whole() => {
                    // In a copy of a running store it may be older than all that the journal still says.
                    older.extend((!left.clean).then(|| key.clone()));
                    edited.push(key.clone());
                }
                Age::Unknown | Age::Last | Age::Older | Age::Other => return true,
            }
            false
        };
        looked.put.retain(|key| is_doubtful(key, left.clean, &mut Vec::new()));
        looked.bare.retain(|key| is_doubtful(key, true, &mut as_left));
        // As the store has left them, so nobody who saw them has to look again.
        self.unstamped.append(&mut as_left);
        looked.edited.append(&mut edited);
    }

    /// What is left are files of which nothing tells whether they are as they were, unless it is what all of a part sum up to.
    fn doubt(&mut self, Looked { put, bare, .. }: Looked, left: &Left, doubts: Option<&Doubts>) {
        let hold = |key: &Arc<Key>| doubts.map(|doubts| doubts.hold(key));
        let older: Vec<Arc<Key>> = put.into_iter().filter(|key| hold(key) == Some(true)).collect();
        let (as_left, bare): (Vec<Arc<Key>>, _) = bare.into_iter().partition(|key| hold(key) == Some(false));
        self.unstamped.extend(as_left);
        let by_hand = older.is_empty() && (left.clean || doubts.is_none());
        let mut renewed = older.len();
        older.iter().for_each(|key| self.renew(key));
        for key in bare {
            if self.check_types(&key) {
                if left.differs {
                    self.renew(&key);
                    renewed += 1;
                }
                self.unstamped.push(key);
            }
        }
        if renewed > 0 && by_hand {
            let lost = "no file has the stamp that tells it, as in a copy";
            self.notes.push(format!("files below {OBJECTS} were edited by hand, and {lost}: {renewed} objects have new revisions"));
        } else if renewed > 0 {
            self.tell_unexplained(renewed);
        }
    }

    /// Nobody edited anything, but the whole directory may have been copied here without its stamps.
    pub fn sample(&mut self) {
        let files = || self.objects.iter().filter(|(_, entry)| entry.file_crc.is_some()).map(|(key, _)| key);
        let path = |key: &Key| format!("{OBJECTS}/{}", names::path(key));
        if files().take(SAMPLE).any(|key| self.disk.stamp(&path(key)).is_ok_and(|stamp| stamp == Stamp::None)) {
            self.unstamped = files().cloned().collect();
            self.stamped = false;
        }
    }

    /// It may be what somebody wrote, or as it was: whoever saw it before has to look again.
    fn renew(&mut self, key: &Arc<Key>) {
        let revision = self.fresh();
        if let Some(entry) = self.objects.get_mut(key) {
            entry.stored = entry.stored.at(revision);
            let was = entry.file_crc;
            self.edited.push(Edited { key: key.clone(), was, before: Was::of(was) });
        }
    }

    /// Nothing is known of the revisions used: whoever saw an object before has to look again. What they are called from here on is
    /// journaled, or the next start would find what they were called before.
    pub fn restamp_all(&mut self, jump: u64) {
        let highest = self.objects.values().map(|entry| entry.stored.revision.0).max();
        let used = highest.is_some() || !self.damaged.is_empty() || !self.foreign.is_empty();
        let mut next = self.next.max(highest.unwrap_or_default()) + if used { jump } else { 0 };
        let edited: HashSet<Arc<Key>> = self.edited.iter().map(|edited| edited.key.clone()).collect();
        for (key, entry) in &mut self.objects {
            next += 1;
            entry.stored = entry.stored.at(Revision(next));
            if let (Some(crc), false) = (entry.file_crc, edited.contains(key)) {
                self.edited.push(Edited { key: key.clone(), was: Some(crc), before: Was::Sum(crc) });
            }
        }
        self.next = next;
    }

    /// Files of a copy may say revisions that nothing else of it knows of. What such an object is called instead it is called for good:
    /// else the next start would find another one's revision there. `behind`: the journal may not have the last word on any object.
    pub fn keep_fresh(&mut self, behind: bool) {
        let edited: HashSet<Arc<Key>> = self.edited.iter().map(|edited| edited.key.clone()).collect();
        let beyond = std::mem::take(&mut self.beyond);
        for key in beyond.into_iter().filter(|key| !self.covered.contains_key(key) && !edited.contains(key)) {
            if let Some(was @ Some(crc)) = self.objects.get(&key).map(|entry| entry.file_crc) {
                self.edited.push(Edited { key, was, before: Was::Sum(crc) });
            }
        }
        for (key, said) in if behind { std::mem::take(&mut self.covered) } else { Covered::new() } {
            if !self.objects.contains_key(&key) {
                self.covered.insert(key, said);
                continue;
            }
            let revision = self.fresh();
            self.objects.entry(key.clone()).and_modify(|entry| entry.stored = entry.stored.at(revision));
            let was = if let Was::Sum(crc) = said.found { Some(crc) } else { None };
            self.edited.push(Edited { key, was, before: said.was() });
        }
    }

    /// A person wrote this file: a write like any other, if it is one.
    fn edit(&mut self, key: Arc<Key>, uids: &mut HashMap<String, Arc<Key>>) {
        let Some(entry) = self.objects.remove(&key) else { return };
        let mut document: Value = serde_json::from_slice(&entry.stored.json).expect("it was read as JSON before");
        let uid = document["metadata"]["uid"].as_str().map(str::to_owned);
        if let Some(owner) = uid.map(|uid| uids.entry(uid).or_insert_with(|| key.clone()).clone()).filter(|owner| *owner != key) {
            self.part_from(&key, &owner, &mut document);
        }
        let row = self.row(&key);
        let was = self.overridden.get(&key).and_then(Overridden::object);
        let edited = (self.rules.fault)(&key, Value::clone(&document)).map_or_else(|| (self.rules.edited)(&key, document, was), Err);
        let fits = |document: Value| {
            let kind = row.map_or(("", ""), |row| (row.api_version.as_ref(), row.kind.as_ref()));
            document::belongs(&document, &key, kind).map(|()| document)
        };
        match edited.and_then(fits).and_then(|document| self.fits_beside_others(&key, document)) {
            Ok(document) => {
                let revision = self.take_written(key.clone(), document, entry.file_crc);
                self.notes.push(format!("{key} was edited by hand: it is at revision {revision} now"));
                if let Some(overridden) = self.overridden.remove(&key) {
                    self.keep_overridden(&key, overridden);
                }
            }
            Err(why) => {
                self.revisions.remove(&entry.stored.revision.0);
                let wrong = Wrong { word: "malformed", why };
                if !self.take_back(&key, &wrong) {
                    self.put_aside(&names::path(&key), Some(Key::clone(&key)), wrong);
                }
            }
        }
    }

    /// An object as somebody wrote it, at a fresh revision. `was`: the checksum of what its file holds.
    pub(super) fn take_written(&mut self, key: Arc<Key>, mut document: Value, was: Option<u32>) -> Revision {
        let revision = self.fresh();
        document::stamp(&mut document, revision);
        let crc = document::crc32(&document::compact(&document));
        let durable = (self.rules.durable)(&key, &document);
        let claims = (self.rules.claims)(&key, &document).into();
        let stored = Stored::of(key.clone(), revision, &mut document);
        self.objects.insert(key.clone(), Entry { stored, durable, file_crc: Some(crc), claims });
        let before = self.overridden.get(&key).map_or(Was::of(was), |overridden| overridden.said.was());
        self.edited.push(Edited { key, was, before });
        revision
    }

    /// Whose uid each of the objects has that nobody edited.
    fn uids(&self, edited: &[Arc<Key>]) -> HashMap<String, Arc<Key>> {
        let edited: HashSet<&Arc<Key>> = edited.iter().collect();
        let others = self.objects.iter().filter(|(key, _)| !edited.contains(key));
        others.filter_map(|(key, entry)| Some((uid(&entry.stored.json)?, key.clone()))).collect()
    }

    /// A file that was copied to another name is a new object: it does not stand for the one that it was made from.
    fn part_from(&mut self, key: &Key, owner: &Key, document: &mut Value) {
        if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
            for of_the_other in ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
                metadata.remove(of_the_other);
            }
        }
        let file = format!("{OBJECTS}/{}", names::path(key));
        let why = format!("{file}: it had the uid of {owner}: it is another object, with a uid of its own");
        let remedy = format!("nothing needs to be done, or delete the one of both that is not wanted: {key}, {owner}");
        self.told.push(Damage { file, key: Some(key.clone()), kind: self.kind_of(Some(key)), why, remedy });
    }

    /// What any write is held to beside its kind's rules: its size, and what others own.
    fn fits_beside_others(&self, key: &Key, document: Value) -> Result<Value, String> {
        let bytes = document::compact(&document).len();
        if bytes > OBJECT_BYTES_MAX {
            return Err(format!("it is {bytes} bytes as compact JSON, more than {OBJECT_BYTES_MAX}"));
        }
        if let Some(home) = (self.rules.home)(key)
            && !self.objects.contains_key(&home)
            && !self.damaged.contains_key(&home)
        {
            return Err(format!("there is no {home} that it could lie in: write that file as well"));
        }
        for wanted in (self.rules.claims)(key, &document) {
            let owns = |entry: &&Entry| entry.claims.iter().any(|owned| owned.claim == wanted.claim);
            if let Some(owner) = self.objects.values().find(owns) {
                return Err(format!("{} {} belongs to {}", wanted.claim.space, wanted.claim.value, owner.stored.key));
            }
        }
        Ok(document)
    }

    /// Nobody can say whether somebody edited it: wrong types would be trouble to everybody who reads the object.
    fn check_types(&mut self, key: &Key) -> bool {
        let Some(entry) = self.objects.get(key) else { return false };
        let document = serde_json::from_slice(&entry.stored.json).expect("it was read as JSON before");
        let fault = (self.rules.fault)(key, document);
        let fits = fault.is_none();
        if let Some(why) = fault {
            self.objects.remove(key);
            self.put_aside(&names::path(key), Some(key.clone()), Wrong { word: "malformed", why });
        }
        fits
    }
}

/// Files that were copied from elsewhere get their stamps with the next checkpoint, where this file system keeps any.
pub fn stamp_soon(disk: &dyn Disk, tree: &mut Tree, dirty: &mut Dirty) -> bool {
    let probe = format!("{TMP}/stamp");
    let kept = disk.put(&probe, b"", Some(0)).and_then(|()| disk.stamp(&probe)).is_ok_and(|stamp| stamp == Stamp::Intact(0));
    disk.unlink(&probe).ok();
    if !kept {
        return false;
    }
    for key in std::mem::take(&mut tree.unstamped) {
        if let Some(crc) = tree.objects.get(&key).and_then(|entry| entry.file_crc) {
            dirty.stamp(key, crc, Duration::ZERO);
        }
    }
    true
}

fn uid(json: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    struct Metadata {
        uid: Option<String>,
    }
    serde_json::from_slice::<Object>(json).ok()?.metadata.uid
}

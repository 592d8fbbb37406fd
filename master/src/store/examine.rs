//! What people or the medium did to the files while no master ran.
//!
//! ```text
//! stamp intact, checksum right: as it was left · intact, but wrong: the medium is failing · touched and wrong: a person wrote it
//! no stamp: an editor replaced the file, as long as others have theirs; a directory that was copied has none at all
//! ```
//!
//! What a person wrote is a write like any other: checked and completed, with a fresh revision, in the journal before anybody sees it.

use super::checkpoint::Dirty;
use super::covered::Overridden;
use super::disk::{Disk, Stamp};
use super::files::{OBJECTS, TMP};
use super::find::SEGMENT_BYTES_READ_MAX;
use super::journal;
use super::journal::record::Record;
use super::journal::scan::{Found, scan};
use super::judge::Wrong;
use super::protocol::Protocol;
use super::state::{Entry, OBJECT_BYTES_MAX};
use super::tree::{Edited, Tree};
use super::{Damage, Stored, document, names};
use coracle_api::meta::{Key, Revision};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Files that are looked at to tell whether a directory was copied.
const SAMPLE: usize = 8;

impl Tree<'_> {
    /// Looks what people or the medium did to the files. `changed`: something is known to be different. `segments`: of the journal, in
    /// order; what they say of files that have caught up with them tells an edit where no stamp does.
    pub fn examine(&mut self, changed: bool, segments: &[u64], protocol: &Protocol) {
        let (mut stamped, mut unstamped, mut edited) = (false, Vec::new(), Vec::new());
        let from_files: Vec<(Arc<Key>, u32)> = self
            .objects
            .iter()
            .filter(|(key, _)| !self.covered.contains_key(*key))
            .filter_map(|(key, entry)| Some((key.clone(), entry.file_crc?)))
            .collect();
        for (key, crc) in from_files {
            if self.overridden.contains_key(&key) {
                edited.push(key);
                continue;
            }
            let path = names::path(&key);
            // What cannot be read is unknown, not absent.
            let Ok(stamp) = self.disk.stamp(&format!("{OBJECTS}/{path}")) else { continue };
            match stamp {
                Stamp::None if self.unwritten.contains(&key) => edited.push(key),
                Stamp::None => unstamped.push(key),
                Stamp::Intact(said) | Stamp::Touched(said) if said == crc => stamped = true,
                Stamp::Touched(_) => {
                    stamped = true;
                    edited.push(key);
                }
                Stamp::Intact(_) => {
                    stamped = true;
                    self.objects.remove(&key);
                    let why = "nobody wrote to it, yet it is not what was written: the medium is failing".to_owned();
                    self.put_aside(&path, Some(Key::clone(&key)), Wrong { word: "rotten", why });
                }
            }
        }
        // Editors replace a file, and what stood beside the old one is gone. A directory that was copied has no stamps at all.
        let replaced = stamped && self.stamped;
        self.stamped = replaced || unstamped.is_empty();
        if replaced {
            edited.append(&mut unstamped);
        }
        if changed && !unstamped.is_empty() {
            let words = self.last_words(segments, protocol);
            let crc = |key: &Arc<Key>| self.objects.get(key).and_then(|entry| entry.file_crc);
            // As the store has left it, so nobody who saw it has to look again.
            let (left, others): (Vec<_>, Vec<_>) =
                unstamped.into_iter().partition(|key| words.get(key).is_some_and(|said| *said == crc(key)));
            self.unstamped.extend(left);
            let (different, unknown): (Vec<_>, Vec<_>) = others.into_iter().partition(|key| words.contains_key(key));
            edited.extend(different);
            unstamped = unknown;
        }
        let mut uids = if edited.is_empty() { HashMap::new() } else { self.uids(&edited) };
        for key in edited {
            self.edit(key, &mut uids);
        }
        let mut renewed = 0;
        for key in unstamped {
            if self.check_types(&key) {
                if changed {
                    self.renew(&key);
                    renewed += 1;
                }
                self.unstamped.push(key);
            }
        }
        if renewed > 0 {
            let lost = "no file has the stamp that tells it, as in a copy";
            self.notes.push(format!("files below {OBJECTS} were edited by hand, and {lost}: {renewed} objects have new revisions"));
        }
    }

    /// What each file was to hold, as far as the newest segments without a gap tell: the checksum, or that there is none.
    fn last_words(&self, segments: &[u64], protocol: &Protocol) -> BTreeMap<Arc<Key>, Option<u32>> {
        let gap = segments.windows(2).rposition(|pair| pair[0] + 1 != pair[1]).map_or(0, |at| at + 1);
        let mut words = BTreeMap::new();
        for segment in &segments[gap..] {
            let Ok(text) = self.disk.read(&journal::path(*segment), SEGMENT_BYTES_READ_MAX) else {
                words.clear();
                continue;
            };
            for found in scan(&text.into(), *segment, protocol) {
                match found {
                    Found::Line { line, .. } => match line.record {
                        Record::Put { key, object, .. } => _ = words.insert(key, Some(document::crc32(&object))),
                        Record::Remove { key, .. } => _ = words.insert(key, None),
                        Record::Open { .. } | Record::Reserve { .. } => {}
                    },
                    // It may have said something newer of anything.
                    Found::Bad { begun: true, .. } => words.clear(),
                    // Left by an earlier segment.
                    Found::Bad { .. } => {}
                }
            }
        }
        words
    }

    /// Somebody changed the files, and may have removed some. Old segments still tell of those, should HEAD.json be lost one day; so the
    /// journal says that they are gone.
    pub fn bury_removed(&mut self, old: &[(u64, u64)], protocol: &Protocol) {
        let mut there = BTreeMap::new();
        for (segment, _) in old {
            let Ok(text) = self.disk.read(&journal::path(*segment), SEGMENT_BYTES_READ_MAX) else { continue };
            for found in scan(&text.into(), *segment, protocol) {
                if let Found::Line { line, .. } = found
                    && let Some(key) = line.record.key()
                {
                    there.insert(key.clone(), matches!(line.record, Record::Put { .. }));
                }
            }
        }
        let known = |key: &Arc<Key>| self.objects.contains_key(key) || self.covered.contains_key(key) || self.damaged.contains_key(&**key);
        self.removed = there.into_iter().filter(|(key, put)| *put && !known(key)).map(|(key, _)| key).collect();
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
            self.edited.push(Edited { key: key.clone(), was: entry.file_crc });
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
        self.edited.push(Edited { key, was });
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

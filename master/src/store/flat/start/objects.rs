//! PURE. The objects of a start during assembly: the revision of each object, and the objects to be journaled again.

use super::journal_view::JournalView;
use crate::store::flat::content::{Wrong, check, leading};
use crate::store::flat::document;
use crate::store::flat::entry::Entry;
use crate::store::flat::journal::record::Was;
use crate::store::flat::outline::{Outline, Trust, outline};
use crate::store::flat::parallel_read::FileText;
use crate::store::flat::seal::Form;
use crate::store::flat::setup::REVISION_MAX;
use crate::store::flat::summary::Sketch;
use crate::store::flat::volatile::Kept;
use crate::store::{KindRow, StoreRules, Stored};
use bytes::Bytes;
use coracle_api::meta::{Durable, Key, Revision};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The cause of an object's difference from the journal and the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A person who wrote the object's file.
    Hand,
    /// This start, which gave it a fresh revision.
    Start,
}

/// An object that has to be journaled, and its file written, before anybody sees it.
pub struct Rewritten {
    pub key: Arc<Key>,
    pub by: By,
    /// The content of the file.
    pub was: Was,
    /// Its content when the journal got ahead of the files.
    pub before: Was,
}

/// An object's key, and the facts known about it.
pub type Taken = (Arc<Key>, Entry);

pub struct LoadedObjects<'a> {
    pub rules: &'a StoreRules<'a>,
    pub all: BTreeMap<Arc<Key>, Entry>,
    /// The last revision that may have been used before this start; None: HEAD.json is lost.
    pub base: Option<u64>,
    /// The last revision that this start has given or found used.
    pub last: u64,
    /// No status was lost since the last master closed.
    pub statuses_kept: bool,
    pub rewritten: Vec<Rewritten>,
    /// Objects that exist, with unknown content.
    pub damaged: HashSet<Key>,
    /// Revisions that objects have.
    pub(super) given: HashSet<u64>,
    /// Objects whose files have a revision that no other source confirms as used.
    beyond: Vec<Arc<Key>>,
    /// Some object lies sealed on the disk.
    pub any_sealed: bool,
    /// Some object is to be sealed, or by another key, or no more.
    pub any_due: bool,
}

impl<'a> LoadedObjects<'a> {
    pub fn new(rules: &'a StoreRules<'a>, base: Option<u64>, last: u64, statuses_kept: bool) -> LoadedObjects<'a> {
        LoadedObjects {
            rules,
            all: BTreeMap::new(),
            base,
            last,
            statuses_kept,
            rewritten: Vec::new(),
            damaged: HashSet::new(),
            given: HashSet::new(),
            beyond: Vec::new(),
            any_sealed: false,
            any_due: false,
        }
    }

    pub fn row(&self, key: &Key) -> Option<&'a KindRow> {
        row(&self.rules.kinds, key)
    }

    /// Adds the object as the journal has it.
    pub fn take_journaled(&mut self, key: &Key, text: FileText) -> Result<(), (Key, Wrong)> {
        let resource = self.row(key).map_or(&key.resource, |row| &row.resource);
        let key = Key { resource: resource.clone(), ..key.clone() };
        let object = &text.compact;
        let kind = kind(&self.rules.kinds, &key).or_else(|| leading(object, &key));
        let outline = kind.and_then(|kind| outline(object, &key, kind, self.rules.durable_by_sketch, Trust::Nothing));
        let (key, entry) = self.take(key, text, outline)?;
        self.all.insert(key, entry);
        Ok(())
    }

    /// Adds the object as its file has it.
    pub fn take(
        &mut self,
        key: Key,
        FileText { compact, crc, form }: FileText,
        outline: Option<Outline>,
    ) -> Result<Taken, (Key, Wrong)> {
        self.any_sealed |= form != Form::Plain;
        self.any_due |= self.rules.sealing.wants(&key, &form);
        if let Some(Outline { said, durable, labels }) = outline {
            let revision = self.revision_of(&key, said, durable);
            let other =
                || Sketch::of(&compact).and_then(|sketch| sketch.with_revision(&compact, revision)).map(Bytes::from);
            if let Some(json) = if said == Some(revision) { Some(compact.clone()) } else { other() } {
                let key = Arc::new(key);
                let stored = Stored::new(key.clone(), revision, json, labels);
                return Ok((key, Entry { stored, durable, file_crc: Some(crc), claims: Box::default() }));
            }
        }
        match check(&compact, &key, kind(&self.rules.kinds, &key)) {
            Ok(document) => Ok(self.take_document(key, document, crc)),
            Err(wrong) => Err((key, wrong)),
        }
    }

    fn take_document(&mut self, key: Key, mut document: Value, crc: u32) -> Taken {
        let durable = (self.rules.durable)(&key, &document);
        let revision = self.revision_of(&key, document::revision(&document), durable);
        let claims = (self.rules.claims)(&key, &document).into();
        let key = Arc::new(key);
        let stored = Stored::of(key.clone(), revision, &mut document);
        (key, Entry { stored, durable, file_crc: Some(crc), claims })
    }

    /// The file holds the revision of the last durable write. Later statuses are lost, and with them their revisions.
    fn revision_of(&mut self, key: &Key, said: Option<Revision>, durable: Durable) -> Revision {
        let bound = self.base.unwrap_or(REVISION_MAX).min(REVISION_MAX);
        let lost = durable != Durable::Whole && !self.statuses_kept;
        match said {
            Some(said) if !lost && (1..=bound).contains(&said.0) && self.given.insert(said.0) => return said,
            Some(said) if said.0 > bound => self.beyond.push(Arc::new(key.clone())),
            _ => {}
        }
        self.fresh()
    }

    pub fn fresh(&mut self) -> Revision {
        self.last += 1;
        Revision(self.last)
    }

    /// Adds an object that a person edited, at a new revision. `was`: the content of the file.
    pub fn take_edited(&mut self, key: Arc<Key>, mut document: Value, was: Was) -> Revision {
        let revision = self.fresh();
        document::stamp(&mut document, revision);
        let crc = document::crc32(&document::compact(&document));
        let durable = (self.rules.durable)(&key, &document);
        let claims = (self.rules.claims)(&key, &document).into();
        let stored = Stored::of(key.clone(), revision, &mut document);
        self.all.insert(key.clone(), Entry { stored, durable, file_crc: Some(crc), claims });
        self.rewritten.push(Rewritten { key, by: By::Hand, was, before: was });
        revision
    }

    /// None: the kept object does not count. `file_crc`: the checksum of the object's file, if the object has a file.
    pub fn of_kept(&self, mut key: Key, Kept { json, outline }: Kept, file_crc: Option<u32>) -> Option<Taken> {
        if let Some(row) = self.row(&key) {
            key.resource = row.resource.clone();
        }
        let quick =
            outline.and_then(|Outline { said, durable, labels }| Some((said?, durable, labels, Box::default())));
        let facts = quick.or_else(|| {
            let document: Value = serde_json::from_slice(&json).ok()?;
            let claims = (self.rules.claims)(&key, &document).into();
            Some((
                document::revision(&document)?,
                (self.rules.durable)(&key, &document),
                document::labels(&document),
                claims,
            ))
        });
        let (revision, durable, labels, claims) = facts?;
        // What a person removed is gone.
        (file_crc.is_some() || durable == Durable::Nothing).then(|| {
            let key = Arc::new(key);
            let stored = Stored::new(key.clone(), revision, json, labels);
            (key, Entry { stored, durable, file_crc, claims })
        })
    }

    /// The memory of the last master over what people may have edited: their files count.
    pub fn overlay(&mut self, kept: Vec<(Key, Kept)>) {
        let edited: HashSet<Arc<Key>> = self.rewritten.iter().map(|rewritten| rewritten.key.clone()).collect();
        for (key, kept) in kept {
            let file_crc = self.all.get(&key).and_then(|entry| entry.file_crc);
            let is_edited = edited.contains(&key);
            let taken = self.of_kept(key, kept, file_crc);
            self.all.extend(taken.filter(|(_, entry)| !is_edited || entry.durable == Durable::Nothing));
        }
    }

    /// Whoever saw the object before has to look again.
    pub fn renew(&mut self, key: &Arc<Key>) {
        let revision = self.fresh();
        if let Some(entry) = self.all.get_mut(key) {
            entry.stored = entry.stored.at(revision);
            let was = Was::of(entry.file_crc);
            self.rewritten.push(Rewritten { key: key.clone(), by: By::Start, was, before: was });
        }
    }

    /// Files with revisions that no other source confirms: such an object keeps its replacement revision for good,
    /// otherwise the next start would find another object's revision in the file.
    pub fn keep_fresh(&mut self, journal: &JournalView) {
        let edited: HashSet<Arc<Key>> = self.rewritten.iter().map(|rewritten| rewritten.key.clone()).collect();
        for key in std::mem::take(&mut self.beyond) {
            if let Some(crc) = self.all.get(&key).and_then(|entry| entry.file_crc)
                && !journal.contains_key(&key)
                && !edited.contains(&key)
            {
                self.rewritten.push(Rewritten { key, by: By::Start, was: Was::Sum(crc), before: Was::Sum(crc) });
            }
        }
    }

    /// Gives every object a fresh revision, far behind all that may have been used: whoever saw one before has to look
    /// again. The journal's last word on an object is its last no more.
    pub fn renew_all(&mut self, jump: u64, journal: &mut JournalView) {
        let highest = self.all.values().map(|entry| entry.stored.revision.0).max();
        let mut last = self.last.max(highest.unwrap_or_default()) + jump;
        let rewritten: HashSet<Arc<Key>> = self.rewritten.iter().map(|rewritten| rewritten.key.clone()).collect();
        for (key, entry) in &mut self.all {
            last += 1;
            entry.stored = entry.stored.at(Revision(last));
            let said = journal.remove(key);
            if let (Some(crc), false) = (entry.file_crc, rewritten.contains(key)) {
                let (was, before) = said.map_or((Was::Sum(crc), Was::Sum(crc)), |said| (said.found, said.was));
                self.rewritten.push(Rewritten { key: key.clone(), by: By::Start, was, before });
            }
        }
        self.last = last;
    }
}

/// apiVersion and kind of an object; None: this version does not know its kind.
pub fn kind<'a>(kinds: &'a [KindRow], key: &Key) -> Option<(&'a str, &'a str)> {
    row(kinds, key).map(|row| (row.api_version.as_ref(), row.kind.as_ref()))
}

pub fn row<'a>(kinds: &'a [KindRow], key: &Key) -> Option<&'a KindRow> {
    kinds.iter().find(|kind| kind.resource == key.resource)
}

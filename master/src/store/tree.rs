//! The files of a directory, read in one pass at a start. It is lenient: what cannot be an object of ours is set aside, said, and
//! remembered, and everything else is served.
//!
//! ```text
//! objects/** (but what the journal knows better) -> all as left? -> taken -> examine: what was edited, what rotted
//!   -> quarantine/** (damage nobody has dealt with)
//! ```

use super::covered::{Covered, Overridden, Said};
use super::disk::{Disk, What};
use super::files::OBJECTS;
use super::gather::{self, Text, gather, gather_files, sum, text};
use super::journal::record::Was;
use super::judge::{FILE_BYTES_MAX, Wrong, judge, too_large};
use super::outline::{Outline, Trust, outline};
use super::quarantine::Incidents;
use super::setup::REVISION_MAX;
use super::sketch::Sketch;
use super::state::Entry;
use super::sums::Sums;
use super::volatile::Kept;
use super::{Damage, KindRow, LeftOut, Rules, Stored, document, names};
use bytes::Bytes;
use coracle_api::meta::{Durable, Key, Revision};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;

/// What a person wrote into a file, as the write that it becomes.
pub struct Edited {
    pub key: Arc<Key>,
    /// The checksum of what the file holds.
    pub was: Option<u32>,
    /// The same, when the journal began to say more than the files.
    pub before: Was,
}

/// What the journal says, of a file that is behind it: to be brought before anybody is served.
pub struct Brought {
    pub key: Arc<Key>,
    /// None: that there is no such object.
    pub object: Option<Bytes>,
    pub found: Was,
}

pub struct Tree<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) rules: &'a Rules<'a>,
    pub covered: Covered,
    /// Objects whose files people wrote over what the journal says.
    pub(super) overridden: BTreeMap<Arc<Key>, Overridden>,
    /// Files that say no revision: no store has written them.
    pub(super) unwritten: HashSet<Arc<Key>>,
    /// Files that say a revision of which nothing else knows that it was used.
    pub(super) beyond: Vec<Arc<Key>>,
    /// Objects of the journal whose files are not where they belong, and are to be brought.
    pub brought: Vec<Arc<Key>>,
    /// The same, of files that HEAD.json says to have caught up.
    pub healed: Vec<Brought>,
    /// The last revision that may have been used before; None: HEAD.json is lost.
    pub base: Option<u64>,
    /// Nothing in the directory may be changed.
    pub frozen: bool,
    pub statuses_kept: bool,
    /// What was in memory alone when the last master closed, in the order of the keys.
    pub kept: Option<Vec<(Key, Kept)>>,
    /// What the files sum up to as they were left, where that is known.
    pub sum_left: Option<Sums>,
    /// The last revision that this start has given or found used.
    pub next: u64,
    pub(super) revisions: HashSet<u64>,
    pub objects: BTreeMap<Arc<Key>, Entry>,
    pub damaged: BTreeMap<Key, Damage>,
    pub incidents: Incidents,
    pub foreign: Vec<Damage>,
    /// Folders of objects that cannot be read, with their slash, and why; the empty one is all of them.
    pub unread: Vec<(String, String)>,
    /// What people did to files that did not come to what they may think.
    pub told: Vec<Damage>,
    pub notes: Vec<String>,
    /// Objects' files of kinds that nobody knows.
    pub left_alone: Vec<LeftOut>,
    pub degraded: Option<String>,
    /// Every file has its stamp: as HEAD.json says, then as it was found.
    pub stamped: bool,
    /// Some file has one.
    pub any_stamp: bool,
    /// Those that have none.
    pub unstamped: Vec<Arc<Key>>,
    /// Objects as people wrote them: to be made durable before anybody sees them.
    pub edited: Vec<Edited>,
    /// Objects whose files were taken away, and of which old segments still tell.
    pub removed: Vec<Arc<Key>>,
}

/// An object's file that is to be read.
pub struct Place {
    path: String,
    key: Key,
}

/// An object as a start finds it.
struct Seen {
    key: Key,
    file: Option<Text>,
    /// As it was in memory when the last master closed.
    kept: Option<Kept>,
}

/// What an object is called, and what is known of it.
type Taken = (Arc<Key>, Entry);

impl<'a> Tree<'a> {
    pub fn new(disk: &'a dyn Disk, rules: &'a Rules<'a>) -> Tree<'a> {
        Tree {
            disk,
            rules,
            covered: Covered::new(),
            overridden: BTreeMap::new(),
            unwritten: HashSet::new(),
            beyond: Vec::new(),
            brought: Vec::new(),
            healed: Vec::new(),
            base: None,
            frozen: false,
            statuses_kept: false,
            kept: None,
            sum_left: None,
            next: 0,
            revisions: HashSet::new(),
            objects: BTreeMap::new(),
            damaged: BTreeMap::new(),
            incidents: Incidents { next: 1, ..Incidents::default() },
            foreign: Vec::new(),
            unread: Vec::new(),
            told: Vec::new(),
            notes: Vec::new(),
            left_alone: Vec::new(),
            degraded: None,
            stamped: false,
            any_stamp: false,
            unstamped: Vec::new(),
            edited: Vec::new(),
            removed: Vec::new(),
        }
    }

    /// Where the objects' files are.
    pub fn walk(&mut self) -> Vec<Place> {
        let (mut folders, mut places) = (vec![String::new()], Vec::new());
        while let Some(folder) = folders.pop() {
            let at = if folder.is_empty() { OBJECTS.to_owned() } else { format!("{OBJECTS}/{folder}") };
            let found = match self.disk.list(&at) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // What lies in there is unknown, not absent.
                Err(error) => {
                    self.cannot_read(&folder, &error);
                    continue;
                }
            };
            // `.git` and the like are a person's own.
            for found in found.into_iter().filter(|found| !found.name.starts_with('.')) {
                let path = if folder.is_empty() { found.name } else { format!("{folder}/{}", found.name) };
                match found.what {
                    What::Folder if names::key(&path).is_some() => self.refuse(&path, "it is a folder where an object's file belongs"),
                    What::Folder => folders.push(path),
                    What::File => places.extend(self.place(path)),
                    What::Other => self.refuse(&path, "it is no regular file"),
                    What::Nameless => self.leave_alone(&path, "its name is not plain UTF-8, as every object's is".to_owned()),
                }
            }
        }
        places
    }

    /// Takes every file that is an object, and what the journal says.
    pub fn take_all(&mut self, places: Vec<Place>) {
        self.read(places);
        self.miss_files();
        let there = |(key, said): (&Arc<Key>, &Said)| Some((key.clone(), said.object.clone()?));
        let covered: Vec<(Arc<Key>, Bytes)> = self.covered.iter().filter_map(there).collect();
        for (key, object) in covered {
            self.take_covered(&key, &object);
        }
    }

    /// What it was to be nobody knows, unless the journal does.
    fn refuse(&mut self, path: &str, why: &str) {
        let key = names::key(path).filter(|key| self.row(key).is_some() && !self.covered.contains_key(key));
        self.put_aside(path, key, Wrong { word: "foreign", why: why.to_owned() });
    }

    /// The journal says it.
    pub(super) fn take_covered(&mut self, key: &Key, object: &Bytes) {
        let Some(row) = self.row(key) else { return };
        let key = Key { resource: row.resource.clone(), ..key.clone() };
        let outline = outline(object, &key, row, self.rules.told, Trust::Nothing);
        let taken = self.take(key, Text { compact: object.clone(), crc: document::crc32(object) }, outline, true);
        self.objects.extend(taken);
    }

    pub(super) fn row(&self, key: &Key) -> Option<&'a KindRow> {
        self.rules.kinds.iter().find(|kind| kind.resource == key.resource)
    }

    /// None: nothing is to be read there.
    fn place(&mut self, path: String) -> Option<Place> {
        let Some(mut key) = names::key(&path) else {
            let wrong = Wrong { word: "foreign", why: "no object's file is called so".to_owned() };
            self.put_aside(&path, None, wrong);
            return None;
        };
        // The file need not even be whole, unless somebody has written to it since.
        if self.covered.contains_key(&key) && !self.is_written_over(&key, &path) {
            return None;
        }
        let Some(row) = self.row(&key) else {
            self.leave_alone(&path, format!("this version knows no {}", key.resource));
            return None;
        };
        // The table's own words need no memory of their own.
        key.resource = row.resource.clone();
        Some(Place { path, key })
    }

    fn leave_alone(&mut self, path: &str, why: String) {
        let file = format!("{OBJECTS}/{path}");
        self.notes.push(format!("{file} is left alone: {why}"));
        self.left_alone.push(LeftOut { file, why });
    }

    fn read(&mut self, places: Vec<Place>) {
        let (texts, as_left) = self.read_texts(&places);
        let mut files = Vec::with_capacity(places.len());
        for (Place { path, key }, text) in places.into_iter().zip(texts) {
            match text {
                Ok(text) => files.push((key, text)),
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    self.put_aside(&path, Some(key), Wrong { word: "too-large", why: too_large() });
                }
                // It may be whole, and readable tomorrow: it stays where it is.
                Err(error) => self.leave_damaged(&path, key, "unreadable", cannot_be_read(&error)),
            }
        }
        files.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        // Where somebody may have written files, those count.
        let seen = joined(files, if as_left { self.kept.take() } else { None }.unwrap_or_default());
        let Rules { kinds, told, .. } = self.rules;
        let trust = if as_left { Trust::File } else { Trust::Nothing };
        let outlines = gather(&seen, |Seen { key, file, kept }, _| {
            let row = kinds.iter().find(|kind| kind.resource == key.resource)?;
            match (kept, file) {
                (None, Some(text)) => outline(&text.compact, key, row, told, trust),
                _ => None,
            }
        });
        let mut taken = Vec::with_capacity(seen.len());
        for (Seen { key, file, kept }, outline) in seen.into_iter().zip(outlines) {
            let crc = file.as_ref().map(|file| file.crc);
            let was_read = kept.is_none();
            let newer = kept.and_then(|kept| self.take_kept(key.clone(), kept, crc));
            taken.extend(newer.or_else(|| self.take(key, file?, outline, as_left && was_read)));
        }
        self.objects = taken.into_iter().collect();
    }

    /// What the files say, and whether they are as they were left: then what was kept of an object says all that its file does.
    fn read_texts(&self, places: &[Place]) -> (Vec<io::Result<Text>>, bool) {
        let (disk, kept) = (self.disk, self.kept.as_deref().unwrap_or_default());
        let is_kept = |key: &Key| kept.binary_search_by(|(kept, _)| kept.cmp(key)).is_ok();
        let read = |place: &Place| gather::read(disk, &place.path);
        let work = |place: &Place, bytes: &[u8], scratch: &mut Vec<u8>| {
            if is_kept(&place.key) { sum(bytes, scratch) } else { text(bytes, scratch) }
        };
        let texts = gather_files(places, read, work);
        let mut found = Sums::default();
        places.iter().zip(&texts).for_each(|(place, text)| text.iter().for_each(|text| found.add(&place.key, text.crc)));
        let alike = self.sum_left.as_ref().is_some_and(|left| left.are(&found));
        let as_left = alike && self.covered.is_empty() && self.overridden.is_empty();
        if as_left || kept.is_empty() {
            return (texts, as_left);
        }
        // Somebody may have written files: those count.
        (gather_files(places, read, |_, bytes, scratch| text(bytes, scratch)), false)
    }

    /// `known`: it is as the store has written it.
    fn take(&mut self, key: Key, Text { compact, crc }: Text, outline: Option<Outline>, known: bool) -> Option<Taken> {
        if let Some(Outline { said, durable, labels }) = outline {
            let revision = self.revision_of(&key, said, durable);
            let other = || Sketch::of(&compact).and_then(|sketch| sketch.with_revision(&compact, revision)).map(Bytes::from);
            if let Some(json) = if said == Some(revision) { Some(compact.clone()) } else { other() } {
                let key = Arc::new(key);
                let stored = Stored::new(key.clone(), revision, json, labels);
                return Some((key, Entry { stored, durable, file_crc: Some(crc), claims: Box::default() }));
            }
        }
        let row = self.row(&key)?;
        let (path, kind) = (names::path(&key), (row.api_version.as_ref(), row.kind.as_ref()));
        let judged = if known || self.covered.contains_key(&key) {
            judge(&compact, &key, kind)
        } else {
            // As it lies there: white space may be what is wrong.
            match self.disk.read(&format!("{OBJECTS}/{path}"), FILE_BYTES_MAX) {
                Ok(bytes) => judge(&bytes, &key, kind),
                Err(error) => {
                    self.leave_damaged(&path, key, "unreadable", cannot_be_read(&error));
                    return None;
                }
            }
        };
        match judged {
            Ok(document) => Some(self.take_document(key, document, crc)),
            Err(wrong) => {
                self.put_aside(&path, Some(key), wrong);
                None
            }
        }
    }

    fn take_document(&mut self, key: Key, mut document: Value, crc: u32) -> Taken {
        let durable = (self.rules.durable)(&key, &document);
        let said = document::revision(&document);
        let revision = self.revision_of(&key, said, durable);
        let claims = (self.rules.claims)(&key, &document).into();
        let key = Arc::new(key);
        if said.is_none() {
            self.unwritten.insert(key.clone());
        }
        let stored = Stored::of(key.clone(), revision, &mut document);
        (key, Entry { stored, durable, file_crc: Some(crc), claims })
    }

    /// The file holds the revision of the last durable write: what its status was later is lost, so is what it was called.
    fn revision_of(&mut self, key: &Key, said: Option<Revision>, durable: Durable) -> Revision {
        let bound = self.base.unwrap_or(REVISION_MAX).min(REVISION_MAX);
        let lost = durable != Durable::Whole && !self.statuses_kept;
        match said {
            Some(said) if !lost && (1..=bound).contains(&said.0) && self.revisions.insert(said.0) => return said,
            Some(said) if said.0 > bound => self.beyond.push(Arc::new(key.clone())),
            _ => {}
        }
        self.fresh()
    }

    pub(super) fn fresh(&mut self) -> Revision {
        self.next += 1;
        Revision(self.next)
    }

    /// What is still kept, over what people may have edited: their files count.
    pub fn overlay(&mut self) {
        for (key, kept) in self.kept.take().unwrap_or_default() {
            let file_crc = self.objects.get(&key).and_then(|entry| entry.file_crc);
            let edited = self.edited.iter().any(|edited| *edited.key == key);
            let taken = self.take_kept(key, kept, file_crc);
            self.objects.extend(taken.filter(|(_, entry)| !edited || entry.durable == Durable::Nothing));
        }
    }

    /// None: it does not count. `file_crc`: of its file, where it has one.
    fn take_kept(&self, mut key: Key, Kept { json, outline }: Kept, file_crc: Option<u32>) -> Option<Taken> {
        key.resource = self.row(&key)?.resource.clone();
        let quick = outline.and_then(|Outline { said, durable, labels }| Some((said?, durable, labels, Box::default())));
        let told = quick.or_else(|| {
            let document: Value = serde_json::from_slice(&json).ok()?;
            let claims = (self.rules.claims)(&key, &document).into();
            Some((document::revision(&document)?, (self.rules.durable)(&key, &document), document::labels(&document), claims))
        });
        let (revision, durable, labels, claims) = told?;
        // What a person removed is gone.
        (file_crc.is_some() || durable == Durable::Nothing).then(|| {
            let key = Arc::new(key);
            let stored = Stored::new(key.clone(), revision, json, labels);
            (key, Entry { stored, durable, file_crc, claims })
        })
    }
}

/// Both in the order of their keys.
fn joined(files: Vec<(Key, Text)>, kept: Vec<(Key, Kept)>) -> Vec<Seen> {
    let mut seen = Vec::with_capacity(files.len().max(kept.len()));
    let mut kept = kept.into_iter().peekable();
    for (key, text) in files {
        while let Some((key, kept)) = kept.next_if(|(kept, _)| *kept < key) {
            seen.push(Seen { key, file: None, kept: Some(kept) });
        }
        let kept = kept.next_if(|(kept, _)| *kept == key).map(|(_, kept)| kept);
        seen.push(Seen { key, file: Some(text), kept });
    }
    seen.extend(kept.map(|(key, kept)| Seen { key, file: None, kept: Some(kept) }));
    seen
}

fn cannot_be_read(error: &io::Error) -> String {
    format!("it cannot be read: {error}")
}

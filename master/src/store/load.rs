//! From the directory to what is so: one pass over the files at start. It is lenient: what cannot be an object of ours is set aside, said,
//! and remembered, and everything else is served.
//!
//! ```text
//! HEAD.json -> tmp emptied -> objects/** -> quarantine/** (damage that nobody has dealt with) -> the volatile file -> HEAD.json anew
//! ```

use super::disk::{Disk, What};
use super::files::{self, FORMAT, Files, HEAD, HEAD_BYTES_MAX, Head, OBJECTS, QUARANTINE, RESERVE, TMP, failed};
use super::judge::{FILE_BYTES_MAX, Wrong, judge, too_large};
use super::state::{Entry, State};
use super::{Damage, OpenError, Rules, Stored, document, names, quarantine, volatile};
use coracle_api::meta::{Durable, Key, Revision};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The highest revision that every JSON reader holds exactly. A file that says a higher one was edited by hand.
const REVISION_MAX: u64 = 1 << 53;
/// Where HEAD.json is lost, volatile writes may have used this many revisions beyond those that the files show.
const LOST_HEAD_JUMP: u64 = 10 * RESERVE;

pub struct Loaded {
    pub state: State,
    pub files: Files,
    /// What was found and done, worth a line in the log each.
    pub notes: Vec<String>,
    /// Files set aside that are no object's.
    pub foreign: Vec<Damage>,
    /// Why the store cannot be written to.
    pub degraded: Option<String>,
}

/// What the host says of itself.
pub struct Ids {
    /// For a store that has none yet.
    pub fresh_store: String,
    pub boot: String,
}

pub fn load(disk: Arc<dyn Disk>, volatile: Option<&dyn Disk>, ids: &Ids, rules: &Rules) -> Result<Loaded, OpenError> {
    let mut pass = Pass::new(&*disk, rules);
    let head = pass.head()?;
    pass.prepare_folders()?;
    let kept = match (&head, volatile) {
        (Some(head), Some(volatile)) if head.clean => volatile::read(volatile, &head.store, &ids.boot, Revision(head.reserved)),
        _ => None,
    };
    if let Some(volatile) = volatile {
        volatile::remove(volatile);
    }
    pass.files_clean = head.as_ref().is_some_and(|head| head.clean);
    pass.base = head.as_ref().map(|head| head.reserved);
    pass.statuses_kept = kept.is_some();
    pass.next = pass.base.unwrap_or_default();
    // Whether fresh revisions can be given is only known once they are reserved; until then they are as good as given.
    pass.walk()?;
    let edited = head.as_ref().is_none_or(|head| head.clean && head.files != pass.files_sum());
    if edited || !pass.files_clean {
        pass.set_malformed_aside();
    }
    pass.recall_incidents()?;
    if edited {
        pass.restamp_all();
    } else if let Some(kept) = kept {
        pass.overlay(kept);
    }
    let last = Revision(pass.next);
    let store = head.map_or_else(|| ids.fresh_store.clone(), |head| head.store);
    let head = Head { format: FORMAT, store, reserved: pass.base.unwrap_or_default(), clean: false, files: 0 };
    let mut files = Files::new(disk.clone(), head.clone(), std::mem::take(&mut pass.incidents));
    files.in_place = std::mem::take(&mut pass.in_place);
    files.incident_next = pass.incident_next;
    if let Err(error) = files.write_head(Head { reserved: last.0 + RESERVE, ..head }) {
        pass.degraded = Some(error.to_string());
    }
    let state = State::new(std::mem::take(&mut pass.objects), std::mem::take(&mut pass.damaged), last);
    Ok(Loaded { state, files, notes: pass.notes, foreign: pass.foreign, degraded: pass.degraded })
}

struct Pass<'a> {
    disk: &'a dyn Disk,
    rules: &'a Rules<'a>,
    /// The last revision that may have been used before; None: HEAD.json is lost.
    base: Option<u64>,
    files_clean: bool,
    statuses_kept: bool,
    next: u64,
    revisions: HashSet<u64>,
    objects: BTreeMap<Arc<Key>, Entry>,
    damaged: BTreeMap<Key, Damage>,
    incidents: BTreeMap<Key, BTreeSet<String>>,
    in_place: BTreeMap<Key, &'static str>,
    incident_next: u32,
    foreign: Vec<Damage>,
    notes: Vec<String>,
    degraded: Option<String>,
}

impl<'a> Pass<'a> {
    fn new(disk: &'a dyn Disk, rules: &'a Rules<'a>) -> Pass<'a> {
        Pass {
            disk,
            rules,
            base: None,
            files_clean: false,
            statuses_kept: false,
            next: 0,
            revisions: HashSet::new(),
            objects: BTreeMap::new(),
            damaged: BTreeMap::new(),
            incidents: BTreeMap::new(),
            in_place: BTreeMap::new(),
            incident_next: 1,
            foreign: Vec::new(),
            notes: Vec::new(),
            degraded: None,
        }
    }

    /// None: there is none, or it is damaged and was set aside.
    fn head(&mut self) -> Result<Option<Head>, OpenError> {
        let (text, why) = match self.disk.read(HEAD, HEAD_BYTES_MAX) {
            Ok(bytes) => (String::from_utf8_lossy(&bytes).into_owned(), "its checksum does not fit".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => (String::new(), format!("it cannot be read: {error}")),
        };
        let format = serde_json::from_str::<Value>(&text).ok().and_then(|head| head["format"].as_u64());
        if let Some(format) = format.filter(|format| *format > u64::from(FORMAT)) {
            return Err(OpenError::Newer { format });
        }
        let head = Head::from_text(&text);
        if head.is_none() {
            self.notes.push(format!("{HEAD} is damaged: the store gets a new identity, and revisions go on {LOST_HEAD_JUMP} further"));
            self.number_incidents()?;
            self.set_aside(HEAD, HEAD, None, Wrong { word: "damaged-head", why });
        }
        Ok(head)
    }

    fn prepare_folders(&mut self) -> Result<(), OpenError> {
        for folder in [OBJECTS, TMP, QUARANTINE] {
            if let Err(error) = files::make_folder(self.disk, folder, &mut HashSet::new()) {
                self.degraded = Some(error.to_string());
            }
        }
        // What was being written when the last master ended was never acknowledged.
        for found in self.disk.list(TMP).unwrap_or_default() {
            if let Err(error) = self.disk.unlink(&format!("{TMP}/{}", found.name)) {
                self.notes.push(format!("{TMP}/{} cannot be removed: {error}", found.name));
            }
        }
        self.number_incidents()
    }

    /// Without it a file could take the place of one set aside earlier.
    fn number_incidents(&mut self) -> Result<(), OpenError> {
        let number = quarantine::next_number(self.disk);
        self.incident_next = number.map_err(|error| OpenError::Io { path: PathBuf::from(QUARANTINE), error })?;
        Ok(())
    }

    fn walk(&mut self) -> Result<(), OpenError> {
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let at = if folder.is_empty() { OBJECTS.to_owned() } else { format!("{OBJECTS}/{folder}") };
            let found = match self.disk.list(&at) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // What lies in there is unknown, not absent.
                Err(error) => return Err(OpenError::Io { path: PathBuf::from(at), error }),
            };
            // A rename that a killed master did not come to fsync is seen now, so it has to last.
            if !self.files_clean
                && let Err(error) = self.disk.sync_dir(&at)
            {
                self.degraded = Some(failed("fsync", &at)(error).to_string());
            }
            // `.git` and the like are a person's own.
            for found in found.into_iter().filter(|found| !found.name.starts_with('.')) {
                let path = if folder.is_empty() { found.name } else { format!("{folder}/{}", found.name) };
                match found.what {
                    What::Folder => folders.push(path),
                    What::File => self.file(path),
                    What::Other => self.put_aside(&path, None, Wrong { word: "foreign", why: "it is no regular file".to_owned() }),
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, path: String) {
        let Some(mut key) = names::key(&path) else {
            let wrong = Wrong { word: "foreign", why: "no object's file is called so".to_owned() };
            return self.put_aside(&path, None, wrong);
        };
        let Some(kind) = self.rules.kinds.iter().find(|kind| kind.resource == key.resource) else {
            self.notes.push(format!("{OBJECTS}/{path} is left alone: this version knows no {}", key.resource));
            return;
        };
        // The table's own words need no memory of their own.
        key.resource = kind.resource.clone();
        let bytes = match self.disk.read(&format!("{OBJECTS}/{path}"), FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return self.put_aside(&path, Some(key), Wrong { word: "too-large", why: too_large() });
            }
            // It may be whole, and readable tomorrow: it stays where it is.
            Err(error) => return self.leave_damaged(&path, key, "unreadable", format!("it cannot be read: {error}")),
        };
        match judge(&bytes, &key, (&kind.api_version, &kind.kind)) {
            Ok(document) => self.take(key, document, document::crc32(&bytes)),
            Err(wrong) => self.put_aside(&path, Some(key), wrong),
        }
    }

    fn take(&mut self, key: Key, mut document: Value, crc: u32) {
        let durable = (self.rules.durable)(&key, &document);
        let said = document::revision(&document).filter(|said| {
            let bound = self.base.unwrap_or(REVISION_MAX).min(REVISION_MAX);
            said.0 > 0 && said.0 <= bound
        });
        // The file holds the revision of the last durable write: what its status was later is lost, so is what it was called.
        let lost = durable != Durable::Whole && !self.statuses_kept;
        let revision = match said {
            Some(said) if !lost && self.revisions.insert(said.0) => said,
            _ => self.fresh(),
        };
        let claims = (self.rules.claims)(&key, &document).into();
        let key = Arc::new(key);
        let stored = Stored::of(key.clone(), revision, &mut document);
        self.objects.insert(key, Entry { stored, durable, file_crc: Some(crc), claims });
    }

    /// Somebody may have edited the files: wrong types would be trouble to everybody who reads the object.
    fn set_malformed_aside(&mut self) {
        let fault = |key: &Key, entry: &Entry| (self.rules.fault)(key, serde_json::from_slice(&entry.stored.json).ok()?);
        let faults: Vec<(Key, String)> =
            self.objects.iter().filter_map(|(key, entry)| Some((Key::clone(key), fault(key, entry)?))).collect();
        for (key, why) in faults {
            self.objects.remove(&key);
            self.put_aside(&names::path(&key), Some(key), Wrong { word: "malformed", why });
        }
    }

    fn fresh(&mut self) -> Revision {
        self.next += 1;
        Revision(self.next)
    }

    fn files_sum(&self) -> u64 {
        files_sum(self.objects.values())
    }

    /// Files were edited while no master ran, or nothing is known of the revisions used: whoever saw an object before has to look again.
    fn restamp_all(&mut self) {
        if self.base.is_none() {
            let highest = self.objects.values().map(|entry| entry.stored.revision.0).max();
            let used = highest.is_some() || !self.damaged.is_empty() || !self.foreign.is_empty();
            self.next = self.next.max(highest.unwrap_or_default()) + if used { LOST_HEAD_JUMP } else { 0 };
        } else {
            self.next += 1;
        }
        let mut next = self.next;
        for entry in self.objects.values_mut() {
            next += 1;
            entry.stored = entry.stored.at(Revision(next));
        }
        self.next = next;
    }

    /// What was in memory alone when the last master closed.
    fn overlay(&mut self, kept: Vec<(Key, Value)>) {
        for (mut key, mut document) in kept {
            let Some(kind) = self.rules.kinds.iter().find(|kind| kind.resource == key.resource) else { continue };
            key.resource = kind.resource.clone();
            let durable = (self.rules.durable)(&key, &document);
            let file_crc = self.objects.get(&key).and_then(|entry| entry.file_crc);
            let Some(revision) = document::revision(&document).filter(|_| file_crc.is_some() || durable == Durable::Nothing) else {
                continue;
            };
            let claims = (self.rules.claims)(&key, &document).into();
            let key = Arc::new(key);
            let stored = Stored::of(key.clone(), revision, &mut document);
            self.objects.insert(key, Entry { stored, durable, file_crc, claims });
        }
    }

    fn put_aside(&mut self, path: &str, key: Option<Key>, wrong: Wrong) {
        self.set_aside(&format!("{OBJECTS}/{path}"), path, key, wrong);
    }

    fn set_aside(&mut self, from: &str, path: &str, key: Option<Key>, wrong: Wrong) {
        let folder = quarantine::folder(self.incident_next, wrong.word);
        match quarantine::set_aside(self.disk, from, path, &folder) {
            Ok(to) => {
                self.incident_next += 1;
                let remedy = match &key {
                    Some(_) => format!("put a good file at {OBJECTS}/{path} and restart the master, or delete the object"),
                    None => "look whether it is needed; it is not the store's".to_owned(),
                };
                let damage =
                    Damage { file: to, key: key.clone(), kind: self.kind_of(key.as_ref()), why: format!("{from}: {}", wrong.why), remedy };
                match key {
                    Some(key) => {
                        self.incidents.entry(key.clone()).or_default().insert(folder);
                        self.damaged.insert(key, damage);
                    }
                    None => self.foreign.push(damage),
                }
            }
            Err(error) => {
                self.degraded = Some(error.to_string());
                if let Some(key) = key {
                    self.leave_damaged(path, key, wrong.word, wrong.why);
                }
            }
        }
    }

    fn leave_damaged(&mut self, path: &str, key: Key, word: &'static str, why: String) {
        let file = format!("{OBJECTS}/{path}");
        let kind = self.kind_of(Some(&key));
        let remedy = "put it right and restart the master, or delete the object".to_owned();
        self.damaged.insert(key.clone(), Damage { why: format!("{file}: {why}"), file, key: Some(key.clone()), kind, remedy });
        self.in_place.insert(key, word);
    }

    fn kind_of(&self, key: Option<&Key>) -> Option<(String, String)> {
        let kind = self.rules.kinds.iter().find(|kind| Some(&kind.resource) == key.map(|key| &key.resource))?;
        Some((kind.api_version.to_string(), kind.kind.to_string()))
    }

    /// Damage that an earlier start found and nobody has dealt with.
    fn recall_incidents(&mut self) -> Result<(), OpenError> {
        if !self.files_clean
            && let Err(error) = self.disk.sync_dir(QUARANTINE)
        {
            self.degraded = Some(failed("fsync", QUARANTINE)(error).to_string());
        }
        let incidents = quarantine::open_incidents(self.disk);
        for incident in incidents.map_err(|error| OpenError::Io { path: PathBuf::from(error.what), error: error.error })? {
            self.recall(&incident.folder, &incident.path);
        }
        Ok(())
    }

    fn recall(&mut self, incident: &str, path: &str) {
        let Some(mut key) = names::key(path) else { return };
        let Some(kind) = self.rules.kinds.iter().find(|kind| kind.resource == key.resource) else { return };
        key.resource = kind.resource.clone();
        if self.objects.contains_key(&key) {
            self.notes.push(format!("{key} was put right: {QUARANTINE}/{incident} is settled"));
            if let Err(error) = quarantine::settle(self.disk, incident) {
                self.notes.push(error.to_string());
            }
            return;
        }
        self.incidents.entry(key.clone()).or_default().insert(incident.to_owned());
        if self.damaged.contains_key(&key) {
            return;
        }
        let file = format!("{QUARANTINE}/{incident}/{path}");
        let why = match self.disk.read(&file, FILE_BYTES_MAX) {
            Ok(bytes) => match judge(&bytes, &key, (&kind.api_version, &kind.kind)) {
                Ok(document) => (self.rules.fault)(&key, document),
                Err(wrong) => Some(wrong.why),
            },
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Some(too_large()),
            Err(error) => Some(format!("it cannot be read: {error}")),
        };
        let why = format!("{OBJECTS}/{path}: {}", why.unwrap_or_else(|| "it was set aside and has been mended there since".to_owned()));
        let remedy = format!("put a good file at {OBJECTS}/{path} and restart the master, or delete the object");
        let kind = self.kind_of(Some(&key));
        self.damaged.insert(key.clone(), Damage { file, key: Some(key), kind, why, remedy });
    }
}

pub fn files_sum<'a>(entries: impl Iterator<Item = &'a Entry>) -> u64 {
    // The key takes part, so that two files that changed places are seen.
    entries.fold(0, |sum, entry| match entry.file_crc {
        Some(crc) => sum.wrapping_add(u64::from(crc) << 32 | u64::from(document::crc32(names::path(&entry.stored.key).as_bytes()))),
        None => sum,
    })
}

//! What cannot be where it lies: set aside, remembered, or left and said. And what cannot be read, and is therefore unknown.

use super::disk::{self, What};
use super::files::{self, DiskError, OBJECTS, QUARANTINE, TMP, failed};
use super::head::HEAD;
use super::journal::recover::Recovered;
use super::journal::{SPARE, WAL};
use super::judge::{FILE_BYTES_MAX, Wrong, judge, too_large};
use super::quarantine::Incident;
use super::tree::Tree;
use super::{Damage, names, quarantine};
use coracle_api::meta::Key;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// What the API takes of an object of which nobody knows which one it is.
const GIVE_UP: &str = "delete or replace the object, with no uid and no resourceVersion";

/// What lies where a folder belongs is called so until it is in quarantine.
const NO_FOLDER: &str = ".no-folder";

impl Tree<'_> {
    /// Makes the folders where they are missing, and sets aside what stands in their place. `filled`: there were objects' files.
    pub fn prepare_folders(&mut self, filled: bool) {
        if filled {
            let is_seen = |found: &disk::Found| !found.name.starts_with('.');
            match self.disk.list(OBJECTS) {
                Ok(found) if found.iter().any(is_seen) => {}
                Ok(_) => self.lose_objects("is empty"),
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.lose_objects("is gone"),
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => self.lose_objects("is no folder"),
                // The walk meets it as well.
                Err(_) => {}
            }
        }
        if self.frozen {
            return self.number_incidents();
        }
        // Where things are set aside comes first.
        for folder in [QUARANTINE, TMP, WAL, SPARE, OBJECTS] {
            if let Err(error) = self.make_way_for(folder) {
                self.degraded = Some(error.to_string());
            }
            if folder == QUARANTINE {
                self.number_incidents();
            }
        }
        // The folders may be new; and HEAD.json may have been renamed by a master that was killed before its fsync, and what it says is
        // believed from here on.
        if let Err(error) = self.disk.sync_dir("") {
            self.degraded = Some(failed("fsync", "the data directory")(error).to_string());
        }
        // What was being written when the last master ended was never acknowledged.
        for folder in [TMP, SPARE] {
            for found in self.disk.list(folder).unwrap_or_default() {
                let path = format!("{folder}/{}", found.name);
                if found.what == What::Folder {
                    self.set_aside(&path, &path, None, Wrong { word: "foreign", why: "no folder belongs there".to_owned() });
                } else if let Err(error) = self.disk.unlink(&path) {
                    self.notes.push(format!("{path} cannot be removed: {error}"));
                }
            }
        }
    }

    fn make_way_for(&mut self, folder: &str) -> Result<(), DiskError> {
        files::make_one(self.disk, folder)?;
        match self.disk.list(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
            _ => return Ok(()),
        }
        let aside = format!("{folder}{NO_FOLDER}");
        self.disk.rename(folder, &aside).map_err(failed("rename", folder))?;
        files::make_one(self.disk, folder)?;
        self.set_aside(&aside, folder, None, Wrong { word: "foreign", why: format!("it lay where the folder {folder} belongs") });
        Ok(())
    }

    /// There were files, and all of them are gone, as a folder is that was not copied or not mounted. No agent shall hear of it.
    fn lose_objects(&mut self, how: &str) {
        self.unread.push((
            String::new(),
            format!(
                "{OBJECTS} {how}, and {HEAD} knows of objects in it; nothing is written before a person has looked: stop the master and \
                 bring the folder back, or remove {HEAD} to begin with what there is"
            ),
        ));
        self.frozen = true;
    }

    /// A file that is gone is an object that a person deleted, as long as the journal knows nothing of it. He may not have meant it, or the
    /// copy may not have been whole.
    pub fn miss_objects(&mut self, gone: u64) {
        if gone == 0 {
            return;
        }
        let files = if gone == 1 { "an object's file is".to_owned() } else { format!("{gone} objects' files are") };
        let why = format!("{OBJECTS}: {files} gone that {HEAD} knows of: taken away by hand, and so the objects are deleted");
        let remedy = "where that was not meant, stop the master and copy the files back, or restore a backup".to_owned();
        self.told.push(Damage { file: OBJECTS.to_owned(), key: None, kind: None, why, remedy });
    }

    /// Objects whose namespace's file a person took away are there still, so the namespace is, too: what it said else is lost.
    pub fn bring_homes(&mut self) {
        let mut missing = BTreeMap::<Key, usize>::new();
        for key in self.objects.keys() {
            let home = (self.rules.home)(key).filter(|home| !self.objects.contains_key(home) && !self.damaged.contains_key(home));
            if let Some(home) = home.filter(|home| !self.is_unread(&names::path(home))) {
                *missing.entry(home).or_default() += 1;
            }
        }
        for (home, objects) in missing {
            let Some(row) = self.row(&home) else { continue };
            let kind = (row.api_version.as_ref(), row.kind.as_ref());
            let document = serde_json::json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {"name": home.name}});
            match (self.rules.edited)(&home, document, None) {
                Ok(document) => {
                    let file = format!("{OBJECTS}/{}", names::path(&home));
                    let why = format!("{file}: it was taken away, but {objects} objects lie in {home}: it is made anew");
                    let remedy = "delete it where it is not wanted, and what lies in it goes as well".to_owned();
                    let key = Arc::new(Key { resource: row.resource.clone(), ..home });
                    self.told.push(Damage { file, key: Some(Key::clone(&key)), kind: self.kind_of(Some(&key)), why, remedy });
                    self.take_written(key, document, None);
                }
                Err(why) => self.notes.push(format!("{home} is gone, and cannot be made anew: {why}")),
            }
        }
    }

    /// What lies in a folder is unknown, so nobody may build on it.
    pub(super) fn cannot_read(&mut self, folder: &str, error: &io::Error) {
        let at = if folder.is_empty() { OBJECTS.to_owned() } else { format!("{OBJECTS}/{folder}") };
        let why = format!(
            "{at} cannot be read ({error}), so its objects are unknown; nothing is written before it can: see to the disk or to who may read \
             the folder, and restart the master"
        );
        log::error!("{why}");
        self.unread.push((if folder.is_empty() { String::new() } else { format!("{folder}/") }, why));
        self.frozen = true;
    }

    pub(super) fn is_unread(&self, path: &str) -> bool {
        self.unread.iter().any(|(folder, _)| path.starts_with(folder))
    }

    /// HEAD.json is not there: of no account where nothing else is. A first start that was cut has only written what people had laid there.
    pub fn miss_head(&mut self, recovered: &Recovered) {
        let mut journaled = recovered.records.iter().filter(|held| held.key().is_some()).peekable();
        let lived = match journaled.peek() {
            None => self.objects.keys().any(|key| !self.unwritten.contains(key)),
            Some(_) => journaled.any(|held| !held.by_hand()),
        };
        if lived {
            let lost = match recovered.start {
                Some(_) => String::new(),
                None => format!("; {WAL}/ holds no journal either: what was acknowledged and is not in the files may be missing"),
            };
            let why =
                format!("{HEAD}: it is gone, though there are objects: the store gets a new identity, and revisions go on further{lost}");
            let remedy = "bring it back where it is, or else go on: agents and watchers look again by themselves".to_owned();
            self.foreign.push(Damage { file: HEAD.to_owned(), key: None, kind: None, why, remedy });
        }
    }

    /// Without it a file could take the place of one set aside earlier.
    fn number_incidents(&mut self) {
        match quarantine::next_number(self.disk) {
            Ok(number) => self.incidents.next = number,
            Err(error) => self.cannot_list_quarantine(&error.to_string()),
        }
    }

    /// Some object may lie there that counts as existing.
    fn cannot_list_quarantine(&mut self, error: &str) {
        let why = format!(
            "{QUARANTINE} cannot be read ({error}), and what lies there counts as existing: see to the disk, and restart the master"
        );
        self.unread.push((String::new(), why));
        self.frozen = true;
    }

    pub(super) fn put_aside(&mut self, path: &str, key: Option<Key>, wrong: Wrong) {
        self.set_aside(&format!("{OBJECTS}/{path}"), path, key, wrong);
    }

    pub fn set_aside(&mut self, from: &str, path: &str, key: Option<Key>, wrong: Wrong) {
        let folder = quarantine::folder(self.incidents.next, wrong.word);
        let moved = if self.frozen { None } else { Some(quarantine::set_aside(self.disk, from, path, &folder, &wrong.why)) };
        match moved {
            Some(Ok(to)) => {
                self.incidents.next += 1;
                let remedy = match &key {
                    Some(_) => format!("put a good file at {OBJECTS}/{path} and restart the master, or {GIVE_UP}"),
                    None => stranger(path),
                };
                let damage =
                    Damage { file: to, key: key.clone(), kind: self.kind_of(key.as_ref()), why: format!("{from}: {}", wrong.why), remedy };
                match key {
                    Some(key) => {
                        self.incidents.aside.entry(key.clone()).or_default().insert(folder);
                        self.damaged.insert(key, damage);
                    }
                    None => self.foreign.push(damage),
                }
                return;
            }
            Some(Err(error)) => self.degraded = Some(error.to_string()),
            None => {}
        }
        match key {
            Some(key) => self.leave_damaged(path, key, wrong.word, wrong.why),
            None => {
                let remedy = stranger(path);
                self.foreign.push(Damage { file: from.to_owned(), key: None, kind: None, why: format!("{from}: {}", wrong.why), remedy });
            }
        }
    }

    pub(super) fn leave_damaged(&mut self, path: &str, key: Key, word: &'static str, why: String) {
        let file = format!("{OBJECTS}/{path}");
        let kind = self.kind_of(Some(&key));
        let remedy = format!("put it right and restart the master, or {GIVE_UP}");
        self.damaged.insert(key.clone(), Damage { why: format!("{file}: {why}"), file, key: Some(key.clone()), kind, remedy });
        self.incidents.in_place.insert(key, word);
    }

    pub(super) fn kind_of(&self, key: Option<&Key>) -> Option<(String, String)> {
        let row = self.row(key?)?;
        Some((row.api_version.to_string(), row.kind.to_string()))
    }

    /// Damage that an earlier start found and nobody has dealt with.
    pub fn recall_incidents(&mut self, clean: bool) {
        if !self.frozen
            && !clean
            && let Err(error) = self.disk.sync_dir(QUARANTINE)
        {
            self.degraded = Some(failed("fsync", QUARANTINE)(error).to_string());
        }
        match quarantine::open_incidents(self.disk) {
            Ok(incidents) => {
                for Incident { folder, path } in &incidents {
                    match path {
                        Some(path) => self.recall(folder, path),
                        None => {
                            let why = quarantine::reason(self.disk, folder).unwrap_or_else(|| "something may be missing".to_owned());
                            self.tell_doubt(format!("{QUARANTINE}/{folder}"), why);
                        }
                    }
                }
            }
            Err(error) => self.cannot_list_quarantine(&error.to_string()),
        }
    }

    /// Something may be missing, and nobody can say what: it is told at every start until a person has looked.
    pub(super) fn remember_doubt(&mut self, file: &str, why: &str) {
        let told = format!("{file}: {why}");
        if !self.frozen {
            match quarantine::doubt(self.disk, self.incidents.next, &told) {
                // It is recalled with all the others.
                Ok(()) => return self.incidents.next += 1,
                Err(error) => self.degraded = Some(error.to_string()),
            }
        }
        self.tell_doubt(file.to_owned(), why.to_owned());
    }

    fn tell_doubt(&mut self, file: String, why: String) {
        let remedy = format!(
            "look whether something is missed, then stop the master and run coracle-master store salvage, and it is told no more; a copy of \
             a running master is whole with {HEAD} first, as of tar --sort=name"
        );
        self.foreign.push(Damage { why: format!("{file}: {why}"), file, key: None, kind: None, remedy });
    }

    fn recall(&mut self, incident: &str, path: &str) {
        let Some(mut key) = names::key(path) else { return };
        let Some(row) = self.row(&key) else { return };
        key.resource = row.resource.clone();
        // Put right, or deleted after it was set aside: the journal knows of both.
        if self.objects.contains_key(&key) || self.covered.contains_key(&key) {
            if !self.frozen {
                self.notes.push(format!("{key} was put right: {QUARANTINE}/{incident} is settled"));
                if let Err(error) = quarantine::settle(self.disk, incident) {
                    self.notes.push(error.to_string());
                }
            }
            return;
        }
        self.incidents.aside.entry(key.clone()).or_default().insert(incident.to_owned());
        if self.damaged.contains_key(&key) {
            return;
        }
        let file = format!("{QUARANTINE}/{incident}/{path}");
        let why = match self.disk.read(&file, FILE_BYTES_MAX) {
            Ok(bytes) => match judge(&bytes, &key, (&row.api_version, &row.kind)) {
                Ok(document) => (self.rules.fault)(&key, document),
                Err(wrong) => Some(wrong.why),
            },
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Some(too_large()),
            Err(error) => Some(format!("it cannot be read: {error}")),
        };
        let why = why.or_else(|| quarantine::reason(self.disk, incident));
        let why = format!("{OBJECTS}/{path}: {}", why.unwrap_or_else(|| "it was set aside and has been mended there since".to_owned()));
        let remedy = format!("put a good file at {OBJECTS}/{path} and restart the master, or {GIVE_UP}");
        let kind = self.kind_of(Some(&key));
        self.damaged.insert(key.clone(), Damage { file, key: Some(key), kind, why, remedy });
    }
}

/// What to do about something that is no object's file.
fn stranger(path: &str) -> String {
    match path {
        HEAD => "nothing needs to be done; agents and watchers look again by themselves".to_owned(),
        _ => "look whether it is needed; it is not the store's".to_owned(),
    }
}

//! Carries out what a start does to files that cannot stay where they are, and reports damage, doubts and notes. The
//! only part of a start that changes the directory before the new segment of the journal is there.

mod recall;

use crate::store::flat::content::Wrong;
use crate::store::flat::disk::{self, Disk, What};
use crate::store::flat::disk_error::{DiskError, failed};
use crate::store::flat::folders::{self, OBJECTS, QUARANTINE, TMP};
use crate::store::flat::head::HEAD;
use crate::store::flat::journal::{SPARE, WAL};
use crate::store::flat::quarantine::Incidents;
use crate::store::flat::setup::LOST_REVISIONS;
use crate::store::flat::{names, quarantine};
use crate::store::{Damage, KindRow, LeftOut, StoreRules};
use coracle_api::meta::Key;
use std::collections::BTreeMap;
use std::io;

/// The remedy for a damaged object whose identity is unknown, through the API.
const GIVE_UP: &str = "delete or replace the object, with no uid and no resourceVersion";

/// The temporary name of a file that lies in the place of a directory, until it is in quarantine.
const NO_FOLDER: &str = ".no-folder";

/// So many files are named, of any number.
const NAMED_MAX: usize = 5;

pub struct Report<'a> {
    pub disk: &'a dyn Disk,
    rules: &'a StoreRules<'a>,
    /// Nothing in the directory may be changed.
    pub frozen: bool,
    pub incidents: Incidents,
    pub damaged: BTreeMap<Key, Damage>,
    /// Damage to what is no object's file, and what may be missing.
    pub foreign: Vec<Damage>,
    /// Edits of files that did not have the effect that their author may expect.
    pub edits: Vec<Damage>,
    pub notes: Vec<String>,
    /// Files of objects whose kind this version does not know.
    pub left_alone: Vec<LeftOut>,
    /// Unreadable folders of objects, with the trailing slash, and the reason; the empty name means all folders.
    pub unread: Vec<(String, String)>,
    /// Why something could not be changed.
    pub degraded: Option<String>,
}

impl<'a> Report<'a> {
    pub fn new(disk: &'a dyn Disk, rules: &'a StoreRules<'a>, frozen: bool) -> Report<'a> {
        Report {
            disk,
            rules,
            frozen,
            incidents: Incidents { next: 1, ..Incidents::default() },
            damaged: BTreeMap::new(),
            foreign: Vec::new(),
            edits: Vec::new(),
            notes: Vec::new(),
            left_alone: Vec::new(),
            unread: Vec::new(),
            degraded: None,
        }
    }

    /// Makes the folders where they are missing, and sets aside what stands in their place. `filled`: there were
    /// objects' files.
    pub fn prepare_folders(&mut self, filled: bool) {
        if filled {
            let is_seen = |found: &disk::FolderEntry| !found.name.starts_with('.');
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
        // The folders may be new; and HEAD.json may have been renamed by a master that was killed before its fsync, and
        // what it says is believed from here on.
        if let Err(error) = self.disk.sync_dir("") {
            self.degraded = Some(failed("fsync", "the data directory")(error).to_string());
        }
        // What was being written when the last master ended was never acknowledged.
        for folder in [TMP, SPARE] {
            for found in self.disk.list(folder).unwrap_or_default() {
                let path = format!("{folder}/{}", found.name);
                if found.what == What::Folder {
                    self.set_aside(
                        &path,
                        &path,
                        None,
                        Wrong { word: "foreign", why: "no folder belongs there".to_owned() },
                    );
                } else if let Err(error) = self.disk.unlink(&path) {
                    self.notes.push(format!("{path} cannot be removed: {error}"));
                }
            }
        }
    }

    fn make_way_for(&mut self, folder: &str) -> Result<(), DiskError> {
        folders::make_one(self.disk, folder)?;
        match self.disk.list(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
            _ => return Ok(()),
        }
        let aside = format!("{folder}{NO_FOLDER}");
        self.disk.rename(folder, &aside).map_err(failed("rename", folder))?;
        folders::make_one(self.disk, folder)?;
        self.set_aside(
            &aside,
            folder,
            None,
            Wrong { word: "foreign", why: format!("it lay where the folder {folder} belongs") },
        );
        Ok(())
    }

    /// All files are gone, as in a folder that was not copied or not mounted. No agent may see the loss.
    fn lose_objects(&mut self, how: &str) {
        self.cannot_know(format!(
            "{OBJECTS} {how}, and {HEAD} knows of objects in it; nothing is written before a person has looked: stop \
             the master and bring the folder back, or remove {HEAD} to begin with what there is"
        ));
    }

    /// The content of a directory is unknown, so no client may rely on the content.
    pub fn cannot_read(&mut self, folder: &str, error: &io::Error) {
        let at = if folder.is_empty() { OBJECTS.to_owned() } else { format!("{OBJECTS}/{folder}") };
        let why = format!(
            "{at} cannot be read ({error}), so its objects are unknown; nothing is written before it can: see to the \
             disk or to who may read the folder, and restart the master"
        );
        log::error!("{why}");
        self.unread.push((if folder.is_empty() { String::new() } else { format!("{folder}/") }, why));
        self.frozen = true;
    }

    pub fn is_unread(&self, path: &str) -> bool {
        self.unread.iter().any(|(folder, _)| path.starts_with(folder))
    }

    pub fn leave_alone(&mut self, path: &str, why: String) {
        let file = format!("{OBJECTS}/{path}");
        self.notes.push(format!("{file} is left alone: {why}"));
        self.left_alone.push(LeftOut { file, why });
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
        self.cannot_know(format!(
            "{QUARANTINE} cannot be read ({error}), and what lies there counts as existing: see to the disk, and \
             restart the master"
        ));
    }

    pub fn set_object_aside(&mut self, key: &Key, wrong: Wrong) {
        self.put_aside(&names::path(key), Some(key.clone()), wrong);
    }

    pub fn put_aside(&mut self, path: &str, key: Option<Key>, wrong: Wrong) {
        self.set_aside(&format!("{OBJECTS}/{path}"), path, key, wrong);
    }

    pub fn set_aside(&mut self, from: &str, path: &str, key: Option<Key>, wrong: Wrong) {
        let folder = quarantine::folder(self.incidents.next, wrong.word);
        let moved =
            if self.frozen { None } else { Some(quarantine::set_aside(self.disk, from, path, &folder, &wrong.why)) };
        match moved {
            Some(Ok(to)) => {
                self.incidents.next += 1;
                let remedy = match &key {
                    Some(_) => format!("put a good file at {OBJECTS}/{path} and restart the master, or {GIVE_UP}"),
                    None => stranger(path),
                };
                let damage = Damage {
                    file: to,
                    key: key.clone(),
                    kind: self.kind_of(key.as_ref()),
                    why: format!("{from}: {}", wrong.why),
                    remedy,
                };
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
            Some(key) => self.leave_damaged(key, wrong.word, wrong.why),
            None => {
                let remedy = stranger(path);
                self.foreign.push(Damage {
                    file: from.to_owned(),
                    key: None,
                    kind: None,
                    why: format!("{from}: {}", wrong.why),
                    remedy,
                });
            }
        }
    }

    pub fn leave_damaged(&mut self, key: Key, word: &'static str, why: String) {
        let file = format!("{OBJECTS}/{}", names::path(&key));
        let kind = self.kind_of(Some(&key));
        let remedy = format!("put it right and restart the master, or {GIVE_UP}");
        self.damaged
            .insert(key.clone(), Damage { why: format!("{file}: {why}"), file, key: Some(key.clone()), kind, remedy });
        self.incidents.in_place.insert(key, word);
    }

    /// The journal has the object: the file is kept, and nobody waits for it. Gives where it lies, unless it could not
    /// be moved.
    pub fn keep_aside(&mut self, key: &Key, wrong: &Wrong) -> Option<String> {
        if self.frozen {
            return None;
        }
        let path = names::path(key);
        let folder = quarantine::settled(&quarantine::folder(self.incidents.next, wrong.word));
        match quarantine::set_aside(self.disk, &format!("{OBJECTS}/{path}"), &path, &folder, &wrong.why) {
            Ok(to) => {
                self.incidents.next += 1;
                Some(to)
            }
            Err(error) => {
                self.notes.push(error.to_string());
                None
            }
        }
    }

    pub fn kind_of(&self, key: Option<&Key>) -> Option<(String, String)> {
        let row = self.row(key?)?;
        Some((row.api_version.to_string(), row.kind.to_string()))
    }

    fn row(&self, key: &Key) -> Option<&'a KindRow> {
        self.rules.kinds.iter().find(|kind| kind.resource == key.resource)
    }

    /// Reports the outcome of an edit of an object's file.
    pub fn tell(&mut self, key: &Key, file: String, why: String, remedy: String) {
        let kind = self.kind_of(Some(key));
        self.edits.push(Damage { file, key: Some(key.clone()), kind, why, remedy });
    }

    /// The same for several files, or for unknown files.
    pub fn tell_of_all(&mut self, why: String, remedy: &str) {
        self.edits.push(Damage { file: OBJECTS.to_owned(), key: None, kind: None, why, remedy: remedy.to_owned() });
    }

    pub fn tell_foreign(&mut self, file: &str, why: String, remedy: &str) {
        self.foreign.push(Damage { file: file.to_owned(), key: None, kind: None, why, remedy: remedy.to_owned() });
    }

    /// Some file is not what HEAD.json counted, and it is known which.
    pub fn knows_of_strange_files(&self) -> bool {
        !self.damaged.is_empty() || !self.left_alone.is_empty()
    }

    /// Volatile writes may have used as many revisions beyond those that the files show.
    pub fn set_head_aside(&mut self) {
        self.notes.push(format!(
            "{HEAD} is damaged: the store gets a new identity, and revisions go on {LOST_REVISIONS} further"
        ));
        let why = "its checksum does not fit, its revisions are beyond all that can be, or it is no file".to_owned();
        self.set_aside(HEAD, HEAD, None, Wrong { word: "damaged-head", why });
    }

    /// Objects may be there of which nothing can be known now.
    pub fn cannot_know(&mut self, why: String) {
        self.unread.push((String::new(), why));
        self.frozen = true;
    }

    /// Takes in what the walk met beside objects' files. Returns how many objects have a foreign thing in the place of
    /// their file; objects in the journal do not count, because the journal has the content.
    pub fn walked(
        &mut self,
        strangers: Vec<(String, Option<Key>, &'static str)>,
        left_alone: Vec<(String, String)>,
        unread: Vec<(String, io::Error)>,
        is_journaled: impl Fn(&Key) -> bool,
    ) -> usize {
        unread.iter().for_each(|(folder, error)| self.cannot_read(folder, error));
        left_alone.into_iter().for_each(|(path, why)| self.leave_alone(&path, why));
        let mut counted = 0;
        for (path, key, why) in strangers {
            let key = key.filter(|key| self.row(key).is_some() && !is_journaled(key));
            counted += usize::from(key.is_some());
            self.put_aside(&path, key, Wrong { word: "foreign", why: why.to_owned() });
        }
        counted
    }
}

/// The remedy for something that is not an object's file.
fn stranger(path: &str) -> String {
    match path {
        HEAD => "nothing needs to be done; agents and watchers look again by themselves".to_owned(),
        _ => "look whether it is needed; it is not the store's".to_owned(),
    }
}

/// Some of the keys, as people read them.
pub fn named<'k>(keys: impl Iterator<Item = &'k Key>) -> String {
    let mut keys = keys.peekable();
    let mut text: Vec<String> = keys.by_ref().take(NAMED_MAX).map(|key| key.to_string()).collect();
    text.extend(keys.next().is_some().then(|| "...".to_owned()));
    text.join(", ")
}

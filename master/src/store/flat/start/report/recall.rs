//! What an earlier start found is recalled: damage that nobody has dealt with, and what may be missing.

use super::{GIVE_UP, Report};
use crate::store::Damage;
use crate::store::flat::content::{FILE_BYTES_MAX, check, too_large};
use crate::store::flat::disk_error::failed;
use crate::store::flat::folders::{OBJECTS, QUARANTINE};
use crate::store::flat::head::HEAD;
use crate::store::flat::names;
use crate::store::flat::quarantine::{self, Incident};
use coracle_api::meta::Key;
use std::io;

impl Report<'_> {
    /// Damage that an earlier start found and nobody has dealt with. `known`: whether the object is there, or the
    /// journal knows of it.
    pub fn recall_incidents(&mut self, clean: bool, known: impl Fn(&Key) -> bool) {
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
                        Some(path) => self.recall(folder, path, &known),
                        None => {
                            let why = quarantine::reason(self.disk, folder)
                                .unwrap_or_else(|| "something may be missing".to_owned());
                            self.tell_doubt(format!("{QUARANTINE}/{folder}"), why);
                        }
                    }
                }
            }
            Err(error) => self.cannot_list_quarantine(&error.to_string()),
        }
    }

    /// Something may be missing, and nobody can say what: it is told at every start until a person has looked.
    pub fn remember_doubt(&mut self, file: &str, why: &str) {
        let text = format!("{file}: {why}");
        if !self.frozen {
            match quarantine::doubt(self.disk, self.incidents.next, &text) {
                // It is recalled with all the others.
                Ok(()) => return self.incidents.next += 1,
                Err(error) => self.degraded = Some(error.to_string()),
            }
        }
        self.tell_doubt(file.to_owned(), why.to_owned());
    }

    fn tell_doubt(&mut self, file: String, why: String) {
        let remedy = format!(
            "look whether something is missed, then stop the master and run coracle-master store salvage, and it is \
             told no more; a copy of a running master is whole with {HEAD} first, as of tar --sort=name"
        );
        self.foreign.push(Damage { why: format!("{file}: {why}"), file, key: None, kind: None, remedy });
    }

    fn recall(&mut self, incident: &str, path: &str, known: &impl Fn(&Key) -> bool) {
        let Some(mut key) = names::key(path) else { return };
        let Some(row) = self.row(&key) else { return };
        key.resource = row.resource.clone();
        // Put right, or deleted after it was set aside: the journal knows of both.
        if known(&key) {
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
            Ok(bytes) => match check(&bytes, &key, Some((&row.api_version, &row.kind))) {
                Ok(document) => (self.rules.fault)(&key, document),
                Err(wrong) => Some(wrong.why),
            },
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Some(too_large()),
            Err(error) => Some(format!("it cannot be read: {error}")),
        };
        let why = why.or_else(|| quarantine::reason(self.disk, incident));
        let why = format!(
            "{OBJECTS}/{path}: {}",
            why.unwrap_or_else(|| "it was set aside and has been mended there since".to_owned())
        );
        let remedy = format!("put a good file at {OBJECTS}/{path} and restart the master, or {GIVE_UP}");
        let kind = self.kind_of(Some(&key));
        self.damaged.insert(key.clone(), Damage { file, key: Some(key), kind, why, remedy });
    }
}

//! PURE. Edits of files by hand: each becomes a write like any other, checked and completed, at a new revision; or it
//! is refused.

use super::objects::LoadedObjects;
use crate::store::flat::content::OBJECT_BYTES_MAX;
use crate::store::flat::document;
use crate::store::flat::entry::Entry;
use crate::store::flat::journal::record::Was;
use coracle_api::meta::{Key, Revision};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The outcome of an edited file.
pub enum EditOutcome {
    Taken(Revision),
    Refused(String),
}

/// An edited file, what became of it, and the object whose uid it had.
pub struct EditedFile {
    pub key: Arc<Key>,
    pub outcome: EditOutcome,
    pub copied_from: Option<Arc<Key>>,
}

impl LoadedObjects<'_> {
    /// Takes each edited file as a write. All edited files were loaded unchecked before, so that each check sees the
    /// other edits.
    pub fn edit_all(&mut self, keys: Vec<Arc<Key>>) -> Vec<EditedFile> {
        let mut uids = if keys.is_empty() { HashMap::new() } else { self.uids(&keys) };
        keys.into_iter().filter_map(|key| self.edit(key, &mut uids)).collect()
    }

    fn edit(&mut self, key: Arc<Key>, uids: &mut HashMap<String, Arc<Key>>) -> Option<EditedFile> {
        let entry = self.all.remove(&key)?;
        let mut document: Value = serde_json::from_slice(&entry.stored.json).expect("it was read as JSON before");
        let uid = document["metadata"]["uid"].as_str().map(str::to_owned);
        let owner = uid.map(|uid| uids.entry(uid).or_insert_with(|| key.clone()).clone());
        let copied_from = owner.filter(|owner| *owner != key);
        if copied_from.is_some() {
            part_from(&mut document);
        }
        let kind = self.row(&key).map_or(("", ""), |row| (row.api_version.as_ref(), row.kind.as_ref()));
        let checked = match (self.rules.fault)(&key, Value::clone(&document)) {
            Some(fault) => Err(fault),
            None => (self.rules.edited)(&key, document),
        };
        let fits = |document: Value| document::belongs(&document, &key, kind).map(|()| document);
        let outcome = match checked.and_then(fits).and_then(|document| self.fits_beside_others(&key, document)) {
            Ok(document) => EditOutcome::Taken(self.take_edited(key.clone(), document, Was::of(entry.file_crc))),
            Err(why) => {
                self.given.remove(&entry.stored.revision.0);
                self.damaged.insert(Key::clone(&key));
                EditOutcome::Refused(why)
            }
        };
        Some(EditedFile { key, outcome, copied_from })
    }

    /// The uids of all unedited objects.
    fn uids(&self, edited: &[Arc<Key>]) -> HashMap<String, Arc<Key>> {
        let edited: HashSet<&Arc<Key>> = edited.iter().collect();
        let others = self.all.iter().filter(|(key, _)| !edited.contains(key));
        others.filter_map(|(key, entry)| Some((uid(&entry.stored.json)?, key.clone()))).collect()
    }

    /// The limits of any write beside the kind's rules: the size, the namespace, and the claims of other objects.
    fn fits_beside_others(&self, key: &Key, document: Value) -> Result<Value, String> {
        let bytes = document::compact(&document).len();
        if bytes > OBJECT_BYTES_MAX {
            return Err(format!("it is {bytes} bytes as compact JSON, more than {OBJECT_BYTES_MAX}"));
        }
        if let Some(home) = (self.rules.home)(key)
            && !self.all.contains_key(&home)
            && !self.damaged.contains(&home)
        {
            return Err(format!("there is no {home} that it could lie in: write that file as well"));
        }
        for wanted in (self.rules.claims)(key, &document) {
            let owns = |entry: &&Entry| entry.claims.iter().any(|owned| owned.claim == wanted.claim);
            if let Some(owner) = self.all.values().find(owns) {
                return Err(format!("{} {} belongs to {}", wanted.claim.space, wanted.claim.value, owner.stored.key));
            }
        }
        Ok(document)
    }

    /// An edit of the file cannot be excluded: wrong types would be trouble to every reader of the object. Returns the
    /// fault.
    pub fn check_types(&mut self, key: &Key) -> Option<String> {
        let entry = self.all.get(key)?;
        let document = serde_json::from_slice(&entry.stored.json).expect("it was read as JSON before");
        let fault = (self.rules.fault)(key, document);
        if fault.is_some() {
            self.all.remove(key);
        }
        fault
    }
}

/// A file that was copied to another name is a new object, separate from the original object.
fn part_from(document: &mut Value) {
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        for of_the_other in
            ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
        {
            metadata.remove(of_the_other);
        }
    }
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

//! Keeps the objects that pods use on this host's disk: after a reboot without a master the pods run as before.
//!
//! A file each, for root alone. `secrets-on-disk = no` leaves Secrets out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::desired::unkept::Unkept;
use crate::facts::hash::hash_text;
use crate::facts::objects::{Object, ObjectKind, Ref, TokenRef};
use crate::host::private;

const FOLDER: &str = "objects";
/// A ConfigMap has at most 1 MiB, and base64 makes it a third longer.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Far more files than the pods of one host use.
const FILES_MAX: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum UsedRef {
    Object(Ref),
    Token(TokenRef),
}

impl UsedRef {
    fn kind(&self) -> ObjectKind {
        match self {
            UsedRef::Object(object) => object.kind,
            UsedRef::Token(_) => ObjectKind::Secret,
        }
    }
}

/// A cluster, and an object or token of it.
pub type ObjectKey = (String, UsedRef);

#[derive(Serialize, Deserialize)]
struct Record {
    cluster: String,
    what: UsedRef,
    content: Value,
}

pub struct Kept {
    pub(super) folder: PathBuf,
    pub(super) unkept: Unkept,
    secrets: bool,
    /// The content of the disk.
    saved: BTreeMap<ObjectKey, Arc<Object>>,
}

impl Kept {
    /// Reads what the last agent knew, and touches nothing.
    pub fn look(data_dir: &str) -> BTreeMap<ObjectKey, Arc<Object>> {
        let files =
            fs::read_dir(Path::new(data_dir).join(FOLDER)).into_iter().flatten().filter_map(Result::ok).take(FILES_MAX);
        let records = files.filter_map(|entry| read(&entry.path()).ok());
        records
            .map(|Record { cluster, what, content }| {
                ((cluster, what.clone()), Arc::new(Object::read(what.kind(), &content)))
            })
            .collect()
    }

    /// Reads what the last agent knew. A file that cannot be read is known again when the master answers.
    pub fn open(data_dir: &str, secrets: bool, unkept: Unkept) -> Kept {
        let folder = Path::new(data_dir).join(FOLDER);
        let mut saved = BTreeMap::new();
        for entry in fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok).take(FILES_MAX) {
            let path = entry.path();
            match read(&path) {
                Ok(record) if record.what.kind() == ObjectKind::Secret && !secrets => remove(&path),
                Ok(Record { cluster, what, content }) => {
                    let object = Object::read(what.kind(), &content);
                    saved.insert((cluster, what), Arc::new(object));
                }
                Err(why) => {
                    log::warn!("{}: {why}; it is asked of the master again", path.display());
                    remove(&path);
                }
            }
        }
        Kept { folder, secrets, saved, unkept }
    }

    pub fn all(&self) -> &BTreeMap<ObjectKey, Arc<Object>> {
        &self.saved
    }

    /// Makes the disk hold these. What cannot be written now is written with the next call.
    pub fn keep(&mut self, objects: &BTreeMap<ObjectKey, Arc<Object>>) {
        let may = |place: &ObjectKey| self.secrets || place.1.kind() != ObjectKind::Secret;
        let new: Vec<(&ObjectKey, &Arc<Object>)> = objects
            .iter()
            .filter(|(place, object)| may(place) && self.saved.get(*place).is_none_or(|saved| saved != *object))
            .take(FILES_MAX)
            .collect();
        let gone: BTreeSet<ObjectKey> =
            self.saved.keys().filter(|place| !objects.contains_key(*place)).cloned().collect();
        if !new.is_empty() {
            let files = new.iter().map(|(place, object)| (file_name(place).into(), record(place, object)));
            let written = private::replace_files(&self.folder, files);
            if !self.unkept.note(&self.folder, "the ConfigMaps, Secrets and tokens of pods", written) {
                return;
            }
        }
        let new: Vec<(ObjectKey, Arc<Object>)> =
            new.into_iter().map(|(place, object)| (place.clone(), object.clone())).collect();
        self.saved.extend(new);
        for place in gone {
            remove(&self.folder.join(file_name(&place)));
            self.saved.remove(&place);
        }
    }
}

fn read(path: &Path) -> Result<Record, String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    if fs::metadata(path).map_err(|error| words(&error))?.len() > FILE_BYTES_MAX {
        return Err("it is too big".to_owned());
    }
    let bytes = fs::read(path).map_err(|error| words(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| words(&error))
}

fn record((cluster, what): &ObjectKey, object: &Object) -> Vec<u8> {
    let record = Record { cluster: cluster.clone(), what: what.clone(), content: object.document(what.kind()) };
    serde_json::to_vec(&record).expect("JSON is written as JSON")
}

/// A hash: the name of an object can be longer than a file name.
fn file_name((cluster, what): &ObjectKey) -> String {
    format!("{}.json", hash_text(&format!("{cluster} {what:?}")))
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        log::warn!("remove {}: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_is_kept_is_found_again() {
        let dir = std::env::temp_dir().join(format!("coracle-kept-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let data_dir = dir.to_str().unwrap();
        let place = |kind, name: &str| {
            ("c1".to_owned(), UsedRef::Object(Ref { kind, namespace: "n".into(), name: name.into() }))
        };
        let object = |kind, text: &str| Arc::new(Object::read(kind, &json!({"data": {"k": text}})));
        let mut objects = BTreeMap::from([
            (place(ObjectKind::ConfigMap, "a"), object(ObjectKind::ConfigMap, "text")),
            (place(ObjectKind::Secret, "a"), object(ObjectKind::Secret, "AP8=")),
        ]);
        let mut kept = Kept::open(data_dir, true, Unkept::default());
        kept.keep(&objects);
        let modes =
            fs::read_dir(dir.join(FOLDER)).unwrap().map(|entry| entry.unwrap().metadata().unwrap().mode() & 0o777);
        assert_eq!(modes.collect::<Vec<_>>(), [0o600, 0o600]);
        assert_eq!(fs::metadata(dir.join(FOLDER)).unwrap().mode() & 0o777, 0o700);
        assert_eq!(*Kept::open(data_dir, true, Unkept::default()).all(), objects);
        assert_eq!(Kept::open(data_dir, false, Unkept::default()).all().len(), 1, "Secrets leave the disk");
        objects.remove(&place(ObjectKind::ConfigMap, "a"));
        let mut without = Kept::open(data_dir, false, Unkept::default());
        without.keep(&objects);
        assert_eq!(fs::read_dir(dir.join(FOLDER)).unwrap().count(), 0, "nor are they written");
        fs::remove_dir_all(dir).unwrap();
    }
}

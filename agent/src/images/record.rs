//! The record of images that the agent fetched itself; no other image is ever removed. PURE: the engine's side keeps
//! the file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::plan::images::full_name;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImageRecord {
    /// By the engine's id: the full names under which it was fetched. What was there before is not among them.
    #[serde(default)]
    pub images: BTreeMap<String, BTreeSet<String>>,
    /// By the path of a file with images.
    #[serde(default)]
    pub files: BTreeMap<String, Loaded>,
}

/// A file as it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Length, time and inode: unchanged, it is not read again.
    pub stamp: String,
    /// The digest of its bytes: under another name it is not loaded again.
    pub digest: String,
    pub images: BTreeSet<String>,
}

impl ImageRecord {
    /// `before`: the ids that the engine had. Under a name that moved to another image the old one keeps its own.
    pub fn fetched(&mut self, id: &str, name: &str, before: &BTreeSet<String>) {
        if !before.contains(id) || self.images.contains_key(id) {
            self.images.entry(id.to_owned()).or_default().insert(full_name(name));
        }
    }

    /// Only what the engine still has.
    pub fn keep(&mut self, here: &BTreeSet<String>) {
        self.images.retain(|id, _| here.contains(id));
    }

    /// The images of files that are still there.
    pub fn preloaded(&self) -> BTreeSet<&str> {
        self.files.values().flat_map(|file| &file.images).map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_before_is_not_ours() {
        let before = BTreeSet::from(["built".to_owned()]);
        let mut record = ImageRecord::default();
        record.fetched("built", "x:1", &before);
        assert_eq!(record, ImageRecord::default());
        record.fetched("new", "busybox", &before);
        record.fetched("new", "y:1", &BTreeSet::from(["new".to_owned()]));
        let names = BTreeSet::from(["docker.io/library/busybox:latest".to_owned(), "docker.io/library/y:1".to_owned()]);
        assert_eq!(record.images, BTreeMap::from([("new".to_owned(), names)]));
        record.keep(&before);
        assert_eq!(record, ImageRecord::default());
    }
}

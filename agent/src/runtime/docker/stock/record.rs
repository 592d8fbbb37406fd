//! The record of images that the agent fetched itself; no other image is ever removed. PURE: the engine's side keeps
//! the file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::plan::images::full_name;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImageRecord {
    /// By the engine's id: the full names under which it was fetched. Names from before the agent's pull are not
    /// included.
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
    /// The digest of the file: the same file under a new name is not loaded again.
    pub digest: String,
    pub images: BTreeSet<String>,
    /// The full names of the images. Empty: an earlier release loaded the file and kept no names.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub names: BTreeSet<String>,
}

impl Loaded {
    /// Whether the file may contain the image.
    pub fn may_have(&self, reference: &str) -> bool {
        let named = self.names.is_empty() || self.names.contains(&full_name(reference));
        named || self.images.contains(reference)
    }
}

impl ImageRecord {
    /// `before`: the ids that the engine had. If a name moves to a new image, the record of the old image keeps the
    /// name.
    pub fn fetched(&mut self, id: &str, name: &str, before: &BTreeSet<String>) {
        if !before.contains(id) || self.images.contains_key(id) {
            self.images.entry(id.to_owned()).or_default().insert(full_name(name));
        }
    }

    /// Only what the engine still has.
    pub fn keep(&mut self, here: &BTreeSet<String>) {
        self.images.retain(|id, _| here.contains(id));
    }

    /// The images from archive files that still exist.
    pub fn preloaded(&self) -> BTreeSet<&str> {
        self.files.values().flat_map(|file| &file.images).map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_known_by_its_names() {
        let loaded = |names: &[&str]| Loaded {
            images: BTreeSet::from(["sha256:1".to_owned()]),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Loaded::default()
        };
        for (names, reference, expected) in [
            (&["docker.io/library/x:1"][..], "x:1", true),
            (&["docker.io/library/x:1"], "docker.io/library/x:1", true),
            (&["docker.io/library/x:1"], "x:2", false),
            (&["docker.io/library/x:1"], "sha256:1", true),
            (&[], "x:2", true),
        ] {
            assert_eq!(loaded(names).may_have(reference), expected, "{names:?} {reference}");
        }
        let before = r#"{"images":{},"files":{"/a.tar":{"stamp":"1","digest":"2","images":["sha256:1"]}}}"#;
        let read: ImageRecord = serde_json::from_str(before).unwrap();
        assert!(read.files["/a.tar"].names.is_empty());
        assert_eq!(serde_json::to_string(&read).unwrap(), before);
    }

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

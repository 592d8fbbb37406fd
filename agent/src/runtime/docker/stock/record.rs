//! The record of images that the agent fetched itself; no other image is ever removed. PURE: the engine's side keeps
//! the file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::facts::image_access::ImageAccess;
use crate::facts::logins::Login;
use crate::plan::images::full_name;

/// More pulls are not under way at once.
const PULLING_MAX: usize = 1000;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImageRecord {
    /// By the engine's id: the full names under which it was fetched. Names from before the agent's pull are not
    /// included.
    #[serde(default)]
    pub images: BTreeMap<String, BTreeSet<String>>,
    /// By the path of a file with images.
    #[serde(default)]
    pub files: BTreeMap<String, Loaded>,
    /// By the engine's id: the images that a pull with the login of a Secret fetched. Each pod may use the others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub private: BTreeMap<String, ImageAccess>,
    /// By full name: the id that the name had before a pull with the login of a Secret, empty if none. The agent may
    /// end before such a pull is recorded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pulling: BTreeMap<String, String>,
    /// The names of pulls that have failed. Not written: neither are the repetitions of a pull.
    #[serde(skip)]
    pub failed: BTreeSet<String>,
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

    /// A pull with the login of a Secret begins. `id`: what the name means now.
    pub fn begin(&mut self, name: &str, id: &str, before: &BTreeSet<String>) {
        self.private.retain(|id, _| before.contains(id));
        self.failed.remove(&full_name(name));
        if self.pulling.len() >= PULLING_MAX {
            self.pulling.pop_first();
        }
        self.pulling.insert(full_name(name), id.to_owned());
    }

    pub fn fail(&mut self, name: &str) {
        if self.pulling.contains_key(&full_name(name)) {
            self.failed.insert(full_name(name));
        }
    }

    /// A pull has ended well. Must precede `fetched`. Without a login of a Secret the image is for all pods. An image
    /// that was here without a login stays so.
    pub fn pulled(&mut self, id: &str, name: &str, before: &BTreeSet<String>, login: Option<&Login>) {
        let known = before.contains(id) || self.images.contains_key(id);
        match login {
            None => drop(self.private.remove(id)),
            Some(_) if known && !self.private.contains_key(id) => {}
            Some(login) => self.private.entry(id.to_owned()).or_default().add(id, login),
        }
        if login.is_some() {
            self.pulling.remove(&full_name(name));
            self.failed.remove(&full_name(name));
        }
    }

    /// Whether an image came by a pull with a login that was never recorded: nobody knows with which.
    pub fn is_cut(&self, name: &str, id: &str) -> bool {
        let name = full_name(name);
        let before = self.pulling.get(&name).filter(|_| !self.failed.contains(&name));
        let known = self.images.contains_key(id) || self.private.contains_key(id);
        before.is_some_and(|before| before != id) && !known
    }

    /// Only what the engine still has.
    pub fn keep(&mut self, here: &BTreeSet<String>) {
        self.images.retain(|id, _| here.contains(id));
        self.private.retain(|id, _| here.contains(id));
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

    #[test]
    fn an_image_of_a_login_is_private() {
        let login = |secret: &str| Login {
            place: "r.example".into(),
            username: "u".into(),
            password: secret.into(),
            secret: secret.into(),
        };
        let (one, other) = (login("shop/pull/1"), login("other/pull/2"));
        let before = BTreeSet::from(["built".to_owned()]);
        let pull = |record: &mut ImageRecord, id: &str, login: Option<&Login>, before: &BTreeSet<String>| {
            if login.is_some() {
                record.begin("x:1", "", before);
            }
            record.pulled(id, "x:1", before, login);
            record.fetched(id, "x:1", before);
        };
        let allows = |record: &ImageRecord, id: &str, login: &Login| {
            record.private.get(id).is_none_or(|access| access.allows(id, std::slice::from_ref(login), &[]))
        };
        let mut record = ImageRecord::default();
        pull(&mut record, "new", Some(&one), &before);
        assert!(allows(&record, "new", &one) && !allows(&record, "new", &other));
        assert!(record.pulling.is_empty());
        let read: ImageRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(read, record, "the next start knows it");
        let here = BTreeSet::from(["built".to_owned(), "new".to_owned()]);
        pull(&mut record, "new", Some(&other), &here);
        assert!(allows(&record, "new", &one) && allows(&record, "new", &other));
        pull(&mut record, "built", Some(&one), &here);
        assert!(allows(&record, "built", &other), "it was there without a login");
        pull(&mut record, "new", None, &here);
        assert!(record.private.is_empty(), "the registry gives it to everybody");
        pull(&mut record, "new", Some(&one), &before);
        assert!(record.private.is_empty(), "two pulls at once, one of them without a login");
    }

    #[test]
    fn a_pull_that_was_cut_leaves_no_open_image() {
        let before = BTreeSet::from(["old".to_owned()]);
        let mut record = ImageRecord::default();
        record.begin("x:1", "old", &before);
        let mut read: ImageRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert!(!read.is_cut("x:1", "old") && !read.is_cut("y:1", "new"));
        assert!(read.is_cut("docker.io/library/x:1", "new"));
        read.fail("x:1");
        assert!(!read.is_cut("x:1", "new"), "somebody loaded it after the pull had failed");
        let written = serde_json::to_string(&read).unwrap();
        read.begin("x:1", "old", &before);
        assert_eq!(serde_json::to_string(&read).unwrap(), written, "a repetition writes nothing");
    }
}

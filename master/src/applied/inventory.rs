//! The objects that were applied, and the file of each: ConfigMaps in namespace `kube-system`. They are as durable as
//! the objects themselves, and in each backup. PURE.
//!
//!     coracle-apply            the inventory itself: its uid stands in the mark of the directory
//!     coracle-apply-DIGEST     the objects of one file, a line each: `DIGEST UID RESOURCE NAMESPACE NAME`
//!
//! A line without a digest is an object that is being applied, or whose file has changed since.

use coracle_api::meta::{Key, Resource};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

pub const NAMESPACE: &str = "kube-system";
pub const NAME: &str = "coracle-apply";
/// On each ConfigMap of the inventory.
const LABEL: &str = "coracle.dev/apply-inventory";
/// Digits of a digest in a line and in a name: 64 bits tell all files of a host apart.
const DIGITS: usize = 16;
/// Nothing is known there.
const NONE: &str = "-";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// Empty: there is none yet.
    pub uid: String,
    pub entries: BTreeMap<Key, Entry>,
}

/// One object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    pub file: String,
    /// Empty: it is not known whether it was made.
    pub uid: String,
    /// The digest of the file from which the object was applied last. Empty: it is to be applied.
    pub digest: String,
}

/// The digest of a file, as lines have it.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

/// The name of the ConfigMap of a file.
pub fn name_of(file: &str) -> String {
    format!("{NAME}-{}", digest(file.as_bytes()))
}

/// The inventory's own ConfigMap.
pub fn root(directory: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {LABEL: "inventory"}},
        "data": {"directory": directory},
    })
}

impl Inventory {
    /// Reads the ConfigMaps of a namespace; those of others are passed over. An error: one of them is not as it was
    /// written, and what it named is unknown.
    pub fn read<'v>(objects: impl Iterator<Item = &'v Value>) -> Result<Inventory, String> {
        let mut inventory = Inventory::default();
        for object in objects {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let meta = &object["metadata"];
            match meta["labels"][LABEL].as_str() {
                Some("inventory") if meta["name"] == NAME => inventory.uid = text(&meta["uid"]),
                Some("file") => {
                    let (name, file) = (text(&meta["name"]), text(&object["data"]["file"]));
                    if name != name_of(&file) {
                        return Err(format!("ConfigMap {NAMESPACE}/{name} is not as it was written: delete it"));
                    }
                    for line in text(&object["data"]["objects"]).lines() {
                        let (key, entry) = entry(&file, line).ok_or_else(|| {
                            format!("ConfigMap {NAMESPACE}/{name} is not as it was written: delete it: {line:?}")
                        })?;
                        inventory.entries.insert(key, entry);
                    }
                }
                _ => {}
            }
        }
        Ok(inventory)
    }

    /// The files that have objects.
    pub fn files(&self) -> std::collections::BTreeSet<&str> {
        self.entries.values().map(|entry| entry.file.as_str()).collect()
    }

    fn lines(&self) -> BTreeMap<&str, String> {
        let mut files: BTreeMap<&str, String> = BTreeMap::new();
        for (key, entry) in &self.entries {
            let or_none = |text: &str| if text.is_empty() { NONE.to_owned() } else { text.to_owned() };
            let (digest, uid, namespace) = (or_none(&entry.digest), or_none(&entry.uid), or_none(&key.namespace));
            let line = format!("{digest} {uid} {} {namespace} {}\n", key.resource, key.name);
            files.entry(&entry.file).or_default().push_str(&line);
        }
        files
    }

    /// The ConfigMaps that differ from those of `before`: the name, and the object, or None where it goes. Those that
    /// grow come first: an object that moves between files is named by both for a moment, and never by none.
    pub fn changes(&self, before: &Inventory) -> Vec<(String, Option<Value>)> {
        let (old, new) = (before.lines(), self.lines());
        let mut changes = Vec::new();
        for (file, lines) in &new {
            let was = old.get(file).map(String::as_str).unwrap_or_default();
            if was != lines {
                changes.push((lines.len() < was.len(), name_of(file), Some(map(file, lines))));
            }
        }
        changes.extend(old.keys().filter(|file| !new.contains_key(*file)).map(|file| (true, name_of(file), None)));
        changes.sort_by_key(|(shrinks, ..)| *shrinks);
        changes.into_iter().map(|(_, name, object)| (name, object)).collect()
    }
}

fn map(file: &str, lines: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name_of(file), "namespace": NAMESPACE, "labels": {LABEL: "file"}},
        "data": {"file": file, "objects": lines},
    })
}

fn entry(file: &str, line: &str) -> Option<(Key, Entry)> {
    let mut words = line.splitn(5, ' ');
    let mut word = || words.next().map(|word| if word == NONE { String::new() } else { word.to_owned() });
    let (digest, uid, resource, namespace, name) = (word()?, word()?, word()?, word()?, word()?);
    let (plural, group) = resource.split_once('.').unwrap_or((&resource, ""));
    if plural.is_empty() || name.is_empty() {
        return None;
    }
    let resource = Resource { plural: plural.to_owned().into(), group: group.to_owned().into() };
    Some((Key { resource, namespace, name }, Entry { file: file.to_owned(), uid, digest }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(entries: &[(&str, &str, &str)]) -> Inventory {
        let entries = entries.iter().map(|(name, file, digest)| {
            let resource = Resource { plural: "roles".into(), group: "rbac.authorization.k8s.io".into() };
            let key = Key { resource, namespace: "n".to_owned(), name: (*name).to_owned() };
            (key, Entry { file: (*file).to_owned(), uid: String::new(), digest: (*digest).to_owned() })
        });
        Inventory { uid: "u".to_owned(), entries: entries.collect() }
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let written = inventory(&[("a b: c", "x.yaml", "12"), ("d", "sub/y.yaml", "")]);
        let mut objects: Vec<Value> =
            written.changes(&Inventory::default()).into_iter().filter_map(|(_, object)| object).collect();
        assert_eq!(objects.len(), 2);
        let mut root = root("/d");
        root["metadata"]["uid"] = "u".into();
        objects.push(root);
        objects.push(json!({"metadata": {"name": "kube-root-ca.crt"}}));
        assert_eq!(Inventory::read(objects.iter()), Ok(written.clone()));
        assert_eq!(written.changes(&written), []);
        objects[0]["data"]["objects"] = "12 - \n".into();
        assert!(Inventory::read(objects.iter()).is_err());
    }

    #[test]
    fn a_move_is_written_where_it_comes_to_before_where_it_was() {
        let before = inventory(&[("a", "x.yaml", "1"), ("b", "x.yaml", "1"), ("c", "y.yaml", "1")]);
        let after = inventory(&[("a", "x.yaml", "1"), ("b", "z.yaml", "1"), ("c", "z.yaml", "1")]);
        let changes: Vec<(String, bool)> =
            after.changes(&before).into_iter().map(|(name, object)| (name, object.is_some())).collect();
        let expected = [(name_of("z.yaml"), true), (name_of("x.yaml"), true), (name_of("y.yaml"), false)];
        assert_eq!(changes, expected);
    }
}

//! Where the objects' files lie. Nothing is read but names.

use super::objects::row;
use crate::store::StoreRules;
use crate::store::flat::disk::{Disk, What};
use crate::store::flat::folders::OBJECTS;
use crate::store::flat::names;
use coracle_api::meta::Key;
use std::io;

/// The content of the objects' directories, by name.
#[derive(Default)]
pub struct Walked {
    pub files: Vec<Key>,
    /// A file that is not an object's: its place and its problem. The key is that of the object whose place it takes.
    pub strangers: Vec<(String, Option<Key>, &'static str)>,
    pub left_alone: Vec<(String, String)>,
    pub unread: Vec<(String, io::Error)>,
}

/// Where the objects' files are.
pub fn walk(disk: &dyn Disk, rules: &StoreRules) -> Walked {
    let (mut folders, mut walked) = (vec![String::new()], Walked::default());
    while let Some(folder) = folders.pop() {
        let at = if folder.is_empty() { OBJECTS.to_owned() } else { format!("{OBJECTS}/{folder}") };
        let found = match disk.list(&at) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // What lies in there is unknown, not absent.
            Err(error) => {
                walked.unread.push((folder, error));
                continue;
            }
        };
        // `.git` and the like are a person's own.
        for found in found.into_iter().filter(|found| !found.name.starts_with('.')) {
            let path = if folder.is_empty() { found.name } else { format!("{folder}/{}", found.name) };
            let key = names::key(&path);
            match (found.what, key) {
                (What::Folder, None) => folders.push(path),
                (What::Folder, key) => {
                    walked.strangers.push((path, key, "it is a folder where an object's file belongs"))
                }
                (What::Other, key) => walked.strangers.push((path, key, "it is no regular file")),
                (What::Nameless, _) => {
                    walked.left_alone.push((path, "its name is not plain UTF-8, as every object's is".to_owned()))
                }
                (What::File, None) => walked.strangers.push((path, None, "no object's file is called so")),
                (What::File, Some(mut key)) => {
                    // The table's own words need no memory of their own.
                    if let Some(row) = row(&rules.kinds, &key) {
                        key.resource = row.resource.clone();
                    }
                    walked.files.push(key);
                }
            }
        }
    }
    walked
}

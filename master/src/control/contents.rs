//! Reads all that a namespace holds, for a namespace that ends.

use super::act::Gate;
use super::intent::{Contents, Item};
use super::view::namespace_key;
use crate::store::Stored;
use coracle_api::kinds::Verb;
use coracle_api::meta::{Key, ObjectMeta, Resource};
use serde::Deserialize;

impl Gate {
    /// The resources of all stored kinds that are namespaced and can be listed.
    pub fn contained(&self) -> Vec<Resource> {
        let kinds = self.registry.kinds();
        kinds
            .stored()
            .filter(|kind| kind.namespaced && kind.offers(Verb::List))
            .map(|kind| kind.resource.clone())
            .collect()
    }

    /// All that a namespace holds. `None`: it is gone, or cannot be read.
    pub fn contents(&self, name: &str) -> Option<Contents> {
        let store = &self.registry.store;
        let stored = store.get(&namespace_key(name)).ok()??;
        let namespace = serde_json::from_slice(&stored.json).ok()?;
        let mut contents = Contents { namespace, seen: stored.revision, ..Contents::default() };
        for resource in self.contained() {
            let page = store.list(&resource, Some(name));
            contents.items.extend(page.items.iter().map(item));
            contents.damaged.extend(page.damaged);
        }
        Some(contents)
    }
}

fn item(stored: &Stored) -> Item {
    let meta: Meta = serde_json::from_slice(&stored.json).unwrap_or_default();
    let ObjectMeta { deletion_timestamp, finalizers, .. } = meta.metadata;
    Item { key: Key::clone(&stored.key), revision: stored.revision, deleting: deletion_timestamp.is_some(), finalizers }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta {
    metadata: ObjectMeta,
}

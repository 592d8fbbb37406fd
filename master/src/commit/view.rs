//! The store as admission and quotas look at it: whole documents, or why one cannot be read. The kinds whose objects
//! are asked of at every write are read once, and again after one of them has changed.

use crate::admit::{self, ClusterView};
use crate::store::{Derived, Page, Store, Stored};
use coracle_api::meta::{Key, Resource};
use serde_json::Value;
use std::sync::Arc;

/// The documents of a list, or why one cannot be read: it may say anything.
pub(super) type Documents = Result<Arc<Vec<Value>>, String>;

/// The lists that are kept as documents.
pub(super) struct KeptLists(Vec<(Resource, Derived<Documents>)>);

impl KeptLists {
    pub(super) fn new() -> KeptLists {
        let documents = |pages: &[Page]| pages.first().map_or_else(|| Ok(Arc::default()), documents);
        KeptLists(
            admit::lists()
                .map(|resource| (resource.clone(), Derived::new([resource], documents)))
                .into_iter()
                .collect(),
        )
    }

    fn of(&self, resource: &Resource) -> Option<&Derived<Documents>> {
        self.0.iter().find(|(kept, _)| kept == resource).map(|(_, derived)| derived)
    }
}

pub(super) struct StoreView<'r> {
    pub(super) store: &'r dyn Store,
    pub(super) lists: &'r KeptLists,
}

impl ClusterView for StoreView<'_> {
    fn get(&self, key: &Key) -> Result<Option<Value>, String> {
        let stored = self.store.get(key).map_err(|damaged| damaged.why)?;
        stored.as_ref().map(parsed).transpose()
    }

    fn list(&self, resource: &Resource, namespace: Option<&str>) -> Documents {
        match self.lists.of(resource) {
            Some(kept) => Documents::clone(&kept.get(self.store, namespace)),
            None => documents(&self.store.list(resource, namespace)),
        }
    }
}

fn documents(page: &Page) -> Documents {
    whole(page)?.iter().map(parsed).collect::<Result<_, _>>().map(Arc::new)
}

/// All that is listed, if it can be read: what cannot may say anything.
pub(super) fn whole(page: &Page) -> Result<&[Stored], String> {
    match page.damaged.first() {
        Some(key) => Err(format!("the file of {key} is damaged, see /readyz?verbose")),
        None => Ok(&page.items),
    }
}

pub(super) fn parsed(stored: &Stored) -> Result<Value, String> {
    serde_json::from_slice(&stored.json).map_err(|error| format!("{}: {error}", stored.key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_read_is_not_absent() {
        let key = Key { resource: Resource::core("resourcequotas"), namespace: "a".to_owned(), name: "b".to_owned() };
        let listed = documents(&Page { damaged: vec![key], ..Page::default() });
        assert_eq!(listed.err().as_deref(), Some("the file of resourcequotas/a/b is damaged, see /readyz?verbose"));
    }
}

//! The store as admission and quotas look at it: whole documents, or why one cannot be read.

use crate::admit::ClusterView;
use crate::store::{Page, Store, Stored};
use coracle_api::meta::{Key, Resource};
use serde_json::Value;

impl ClusterView for &dyn Store {
    fn get(&self, key: &Key) -> Result<Option<Value>, String> {
        let stored = Store::get(*self, key).map_err(|damaged| damaged.why)?;
        stored.as_ref().map(parsed).transpose()
    }

    fn list(&self, resource: &Resource, namespace: Option<&str>) -> Result<Vec<Value>, String> {
        whole(Store::list(*self, resource, namespace))?.iter().map(parsed).collect()
    }
}

/// All that is listed, if it can be read: what cannot may say anything.
pub(super) fn whole(page: Page) -> Result<Vec<Stored>, String> {
    match page.damaged.first() {
        Some(key) => Err(format!("the file of {key} is damaged, see /readyz?verbose")),
        None => Ok(page.items),
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
        let listed = whole(Page { damaged: vec![key], ..Page::default() });
        assert_eq!(listed.err().as_deref(), Some("the file of resourcequotas/a/b is damaged, see /readyz?verbose"));
    }
}

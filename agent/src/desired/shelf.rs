//! The objects of one kind as a watch shows them, and the objects of earlier clusters of the same master. PURE.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::follow::News;

/// By namespace and name.
pub(super) type Items<T> = BTreeMap<(String, String), Arc<T>>;

/// One resource as it was heard last, each object read once. Unreadable objects are left out.
pub(super) struct WatchShelf<T> {
    read: fn(&Value) -> Option<T>,
    cluster: String,
    items: Option<Items<T>>,
    /// Objects of earlier clusters of this master: pods of these clusters go on here, and so do the connections to the
    /// pods.
    kept: Items<T>,
}

impl<T: PartialEq> WatchShelf<T> {
    pub(super) fn new(read: fn(&Value) -> Option<T>) -> WatchShelf<T> {
        WatchShelf { read, cluster: String::new(), items: None, kept: Items::new() }
    }

    /// Whether anything is another now.
    pub(super) fn take(&mut self, news: News, cluster: Option<String>) -> bool {
        let mut differs = self.items.is_none();
        if let Some(cluster) = cluster
            && self.cluster != cluster
        {
            self.kept.extend(self.items.take().unwrap_or_default());
            self.cluster = cluster;
            differs = true;
        }
        let key = |object: &Value| (text(object, "namespace"), text(object, "name"));
        match news {
            News::Listed(list) => {
                let old = self.items.take().unwrap_or_default();
                let read = |object: &Value| {
                    let (key, item) = (key(object), Arc::new((self.read)(object)?));
                    let item = old.get(&key).filter(|known| **known == item).cloned().unwrap_or(item);
                    Some((key, item))
                };
                let items: Items<T> = list.iter().filter_map(read).collect();
                differs |= items != old;
                self.items = Some(items);
            }
            News::Event { gone, object } => {
                let items = self.items.get_or_insert_default();
                match (self.read)(&object).filter(|_| !gone) {
                    Some(item) => {
                        let known = items.get(&key(&object)).is_some_and(|known| **known == item);
                        if !known {
                            items.insert(key(&object), Arc::new(item));
                        }
                        differs |= !known;
                    }
                    None => differs |= items.remove(&key(&object)).is_some(),
                }
            }
        }
        differs
    }

    /// None before the first listing. For equal names, the present cluster's object counts.
    pub(super) fn all(&self) -> Option<Vec<Arc<T>>> {
        let items = self.items.as_ref()?;
        let others = self.kept.iter().filter(|(key, _)| !items.contains_key(key));
        let all: BTreeMap<_, _> = others.chain(items).collect();
        Some(all.into_values().cloned().collect())
    }
}

pub(super) fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_exchanged_master_keeps_the_ways_to_the_pods_that_go_on() {
        let object =
            |name: &str, cluster: &str| json!({"metadata": {"namespace": "default", "name": name}, "of": cluster});
        let mut shelf = WatchShelf::new(|object| Some((text(object, "name"), object["of"].as_str()?.to_owned())));
        assert!(shelf.all().is_none());
        shelf.take(News::Listed(vec![object("a", "1"), object("b", "1")]), Some("c1".into()));
        shelf.take(News::Event { gone: true, object: object("b", "1") }, None);
        shelf.take(News::Listed(vec![object("c", "2")]), Some("c2".into()));
        let pair = |name: &str, of: &str| Arc::new((name.to_owned(), of.to_owned()));
        assert_eq!(shelf.all().unwrap(), [pair("a", "1"), pair("c", "2")]);
        shelf.take(News::Event { gone: false, object: object("a", "2") }, None);
        assert_eq!(shelf.all().unwrap(), [pair("a", "2"), pair("c", "2")]);
        // What says the same again is no news.
        assert!(!shelf.take(News::Event { gone: false, object: object("a", "2") }, None));
        assert!(!shelf.take(News::Listed(vec![object("a", "2"), object("c", "2")]), Some("c2".into())));
        assert!(shelf.take(News::Event { gone: true, object: object("a", "2") }, None));
    }
}

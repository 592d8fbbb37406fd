//! Pods by their labels: who a selector names is found without a look at all others of the namespace. PURE.

use coracle_api::labels::LabelSet;
use coracle_api::meta::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// By namespace and label. A label is a hash of eight bytes: two that share one only make a candidate more.
#[derive(Default)]
pub struct Labelled {
    by_pair: BTreeMap<u64, BTreeSet<Arc<Key>>>,
}

fn pair(namespace: &str, name: &str, value: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (namespace, name, value).hash(&mut hasher);
    hasher.finish()
}

impl Labelled {
    /// Takes in the labels of a pod as they were, and as they are.
    pub fn put(&mut self, key: &Arc<Key>, was: Option<&LabelSet>, is: Option<&LabelSet>) {
        if was == is {
            return;
        }
        for (name, value) in was.into_iter().flat_map(LabelSet::iter) {
            let pair = pair(&key.namespace, name, value);
            if let Some(keys) = self.by_pair.get_mut(&pair) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_pair.remove(&pair);
                }
            }
        }
        for (name, value) in is.into_iter().flat_map(LabelSet::iter) {
            self.by_pair.entry(pair(&key.namespace, name, value)).or_default().insert(key.clone());
        }
    }

    /// Candidates for those that have all of these labels: those with the rarest of them. None wanted: nobody is one.
    pub fn candidates<'a>(
        &'a self,
        namespace: &str,
        wanted: &[(&str, &str)],
    ) -> impl Iterator<Item = &'a Arc<Key>> + use<'a> {
        let sets = wanted.iter().map(|(name, value)| self.by_pair.get(&pair(namespace, name, value)));
        // A label that nobody has has no set.
        let rarest = sets.min_by_key(|set| set.map_or(0, BTreeSet::len)).flatten();
        rarest.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rarest_label_names_the_candidates() {
        let key = |namespace: &str, name: &str| {
            Arc::new(Key { resource: super::super::view::PODS, namespace: namespace.to_owned(), name: name.to_owned() })
        };
        let set = |labels: &[(&str, &str)]| labels.iter().copied().collect::<LabelSet>();
        let mut labelled = Labelled::default();
        labelled.put(&key("n", "a"), None, Some(&set(&[("app", "web"), ("tier", "front")])));
        labelled.put(&key("n", "b"), None, Some(&set(&[("app", "db"), ("tier", "front")])));
        labelled.put(&key("m", "c"), None, Some(&set(&[("app", "web")])));
        let check = |labelled: &Labelled, wanted: &[(&str, &str)], expected: &[&str]| {
            let found: Vec<&str> = labelled.candidates("n", wanted).map(|key| key.name.as_str()).collect();
            assert_eq!(found, expected, "{wanted:?}");
        };
        check(&labelled, &[("app", "web")], &["a"]);
        check(&labelled, &[("tier", "front")], &["a", "b"]);
        check(&labelled, &[("tier", "front"), ("app", "db")], &["b"]);
        check(&labelled, &[("tier", "front"), ("app", "none")], &[]);
        check(&labelled, &[], &[]);
        labelled.put(&key("n", "a"), Some(&set(&[("app", "web"), ("tier", "front")])), Some(&set(&[("app", "web")])));
        check(&labelled, &[("tier", "front")], &["b"]);
        check(&labelled, &[("app", "web")], &["a"]);
        labelled.put(&key("n", "a"), Some(&set(&[("app", "web")])), None);
        check(&labelled, &[("app", "web")], &[]);
    }
}

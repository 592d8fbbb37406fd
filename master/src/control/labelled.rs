//! Pods by their labels, and selecting objects by their selectors: the pods of a selector, and the selectors that match
//! a pod, are found without a look at all objects of the namespace. PURE.

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

    /// Candidates for objects with all these labels: the objects with the rarest label. No label wanted: no candidates.
    pub fn candidates<'a>(
        &'a self,
        namespace: &str,
        wanted: &[(&str, &str)],
    ) -> impl Iterator<Item = &'a Arc<Key>> + use<'a> {
        let sets = wanted.iter().map(|(name, value)| self.by_pair.get(&pair(namespace, name, value)));
        // A label without any object has no set.
        let rarest = sets.min_by_key(|set| set.map_or(0, BTreeSet::len)).flatten();
        rarest.into_iter().flatten()
    }
}

/// Objects that select by labels, each filed under the label in its selector that the fewest selectors ask for.
#[derive(Default)]
pub struct Selecting {
    by_pair: BTreeMap<u64, BTreeSet<Arc<Key>>>,
    under: BTreeMap<Arc<Key>, u64>,
}

/// For a selector that asks for no label value.
const ANY: (&str, &str) = ("", "");

impl Selecting {
    /// `wanted`: labels that every selected object has. `None`: the selecting object is gone.
    pub fn put(&mut self, key: &Arc<Key>, wanted: Option<&[(&str, &str)]>) {
        if let Some(pair) = self.under.remove(key)
            && let Some(keys) = self.by_pair.get_mut(&pair)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.by_pair.remove(&pair);
            }
        }
        let Some(wanted) = wanted else { return };
        let pairs = wanted.iter().map(|(name, value)| pair(&key.namespace, name, value));
        let rarest = pairs.min_by_key(|pair| self.by_pair.get(pair).map_or(0, BTreeSet::len));
        let pair = rarest.unwrap_or_else(|| pair(&key.namespace, ANY.0, ANY.1));
        self.by_pair.entry(pair).or_default().insert(key.clone());
        self.under.insert(key.clone(), pair);
    }

    /// Candidates for objects whose selectors match these labels: no object besides the candidates matches.
    pub fn candidates<'a, 'l>(
        &'a self,
        namespace: &'l str,
        labels: impl IntoIterator<Item = (&'l str, &'l str)>,
    ) -> impl Iterator<Item = &'a Arc<Key>> {
        let pairs: BTreeSet<u64> =
            labels.into_iter().chain([ANY]).map(|(name, value)| pair(namespace, name, value)).collect();
        pairs.into_iter().filter_map(|pair| self.by_pair.get(&pair)).flatten()
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

    #[test]
    fn who_may_select_is_found_by_the_labels_of_the_selected() {
        let key = |namespace: &str, name: &str| {
            Arc::new(Key { resource: super::super::view::PODS, namespace: namespace.to_owned(), name: name.to_owned() })
        };
        let mut selecting = Selecting::default();
        selecting.put(&key("n", "front"), Some(&[("tier", "front")]));
        // Filed under its rarer label.
        selecting.put(&key("n", "web"), Some(&[("tier", "front"), ("app", "web")]));
        selecting.put(&key("n", "all"), Some(&[]));
        selecting.put(&key("m", "web"), Some(&[("app", "web")]));
        let check = |selecting: &Selecting, labels: &[(&str, &str)], expected: &[&str]| {
            let mut found: Vec<&str> =
                selecting.candidates("n", labels.iter().copied()).map(|key| key.name.as_str()).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{labels:?}");
        };
        check(&selecting, &[("tier", "front"), ("app", "web")], &["all", "front", "web"]);
        check(&selecting, &[("tier", "front"), ("app", "db")], &["all", "front"]);
        check(&selecting, &[], &["all"]);
        selecting.put(&key("n", "web"), Some(&[("app", "db")]));
        check(&selecting, &[("app", "web")], &["all"]);
        check(&selecting, &[("app", "db")], &["all", "web"]);
        ["web", "front", "all"].iter().for_each(|name| selecting.put(&key("n", name), None));
        check(&selecting, &[("tier", "front"), ("app", "db")], &[]);
    }
}

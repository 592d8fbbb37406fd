//! Shelves: maps from key to view, one for each type of view. A controller brings the types that it reads; the cluster
//! need not know them. PURE.

use super::labelled::Selecting;
use crate::store::Stored;
use coracle_api::meta::{Key, Resource};
use std::any::{Any, TypeId, type_name};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The part of an object that controllers read.
pub trait View: Sized + Send + 'static {
    /// The kinds of object that are read as this view.
    const OF: &'static [Resource];

    /// Whether controllers care for this object of these kinds.
    fn concerns(_key: &Key) -> bool {
        true
    }

    /// Whether it selects others by their labels, and is to be found by those.
    const SELECTS: bool = false;

    /// Labels that every selected object has.
    fn wanted(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    /// Whether it may be adopted: no owner acts on it.
    fn is_orphan(&self) -> bool {
        false
    }

    /// `None` if the document makes no sense. `was` is the previous view of that key: what was learned by watching the
    /// object is carried over from it. `uptime` is the time of this change.
    fn read(stored: &Stored, was: Option<&Self>, uptime: Duration) -> Option<Self>;
}

/// The views of one type.
pub struct Shelf<V> {
    views: BTreeMap<Arc<Key>, V>,
    orphans: BTreeSet<Arc<Key>>,
    selecting: Selecting,
}

impl<V> Default for Shelf<V> {
    fn default() -> Shelf<V> {
        Shelf { views: BTreeMap::new(), orphans: BTreeSet::new(), selecting: Selecting::default() }
    }
}

impl<V: View> Shelf<V> {
    pub fn get(&self, key: &Key) -> Option<&V> {
        self.views.get(key)
    }

    pub fn entry(&self, key: &Key) -> Option<(&Key, &V)> {
        self.views.get_key_value(key).map(|(key, view)| (&**key, view))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Key, &V)> {
        self.views.iter().map(|(key, view)| (&**key, view))
    }

    /// The views in a namespace, for all kinds that are read as this view.
    pub fn within<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a V)> {
        V::OF.iter().flat_map(move |resource| {
            // The keys are in the order of their namespaces.
            let first = Key { resource: resource.clone(), namespace: namespace.to_owned(), name: String::new() };
            let after = self.views.range::<Key, _>(first..).map(|(key, view)| (Borrow::<Key>::borrow(key), view));
            after.take_while(move |(key, _)| key.namespace == namespace && key.resource == *resource)
        })
    }

    /// The views in a namespace without a controlling owner.
    pub fn orphans_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a V)> {
        V::OF.iter().flat_map(move |resource| {
            let first = Key { resource: resource.clone(), namespace: namespace.to_owned(), name: String::new() };
            let after = self.orphans.range::<Key, _>(first..).map(|key| &**key);
            let within = after.take_while(move |key| key.namespace == namespace && key.resource == *resource);
            within.filter_map(|key| Some((key, self.views.get(key)?)))
        })
    }

    /// Candidates in a namespace whose selectors may match these labels; no object besides the candidates matches.
    pub fn selecting<'a, 'l>(
        &'a self,
        namespace: &'l str,
        labels: impl IntoIterator<Item = (&'l str, &'l str)>,
    ) -> impl Iterator<Item = (&'a Key, &'a V)> {
        debug_assert!(V::SELECTS, "{} are not found by labels", type_name::<V>());
        let keys = self.selecting.candidates(namespace, labels);
        keys.filter(move |key| key.namespace == namespace).filter_map(|key| Some((&**key, self.views.get(key)?)))
    }

    /// Takes in the object as it stands now. The answer: the view before, and false if the document makes no sense. The
    /// old view is forgotten in that case too.
    pub fn put(&mut self, key: &Arc<Key>, new: Option<&Stored>, uptime: Duration) -> (Option<V>, bool) {
        let was = self.views.remove(key);
        self.orphans.remove(key);
        if V::SELECTS {
            self.selecting.put(key, None);
        }
        let Some(stored) = new else { return (was, true) };
        let Some(view) = V::read(stored, was.as_ref(), uptime) else { return (was, false) };
        if view.is_orphan() {
            self.orphans.insert(key.clone());
        }
        if V::SELECTS {
            self.selecting.put(key, Some(&view.wanted()));
        }
        self.views.insert(key.clone(), view);
        (was, true)
    }
}

/// A shelf without its type.
trait Untyped: Any + Send {
    fn put(&mut self, key: &Arc<Key>, new: Option<&Stored>, uptime: Duration) -> (Option<Box<dyn Any>>, bool);
}

impl<V: View> Untyped for Shelf<V> {
    fn put(&mut self, key: &Arc<Key>, new: Option<&Stored>, uptime: Duration) -> (Option<Box<dyn Any>>, bool) {
        let (was, read) = Shelf::put(self, key, new, uptime);
        (was.map(|was| Box::new(was) as Box<dyn Any>), read)
    }
}

/// All shelves, by the type of their views.
#[derive(Default)]
pub struct Shelves {
    shelves: BTreeMap<TypeId, Entry>,
}

struct Entry {
    of: &'static [Resource],
    concerns: fn(&Key) -> bool,
    shelf: Box<dyn Untyped>,
}

impl Shelves {
    /// Makes room for views of a type.
    pub fn add<V: View>(&mut self) {
        let entry = || Entry { of: V::OF, concerns: V::concerns, shelf: Box::new(Shelf::<V>::default()) };
        self.shelves.entry(TypeId::of::<V>()).or_insert_with(entry);
    }

    /// Panics if no controller follows the kinds of this view: an empty shelf would be taken for objects that are gone.
    pub fn shelf<V: View>(&self) -> &Shelf<V> {
        let shelf = self.shelves.get(&TypeId::of::<V>()).map(|entry| &*entry.shelf as &dyn Any);
        shelf.and_then(<dyn Any>::downcast_ref).unwrap_or_else(|| panic!("no controller follows {}", type_name::<V>()))
    }

    /// Takes in the object as it stands now. The answer: the views before, and false if one of them makes no sense of
    /// the document.
    pub fn put(&mut self, key: &Arc<Key>, new: Option<&Stored>, uptime: Duration) -> (Vec<Box<dyn Any>>, bool) {
        let (mut before, mut read) = (Vec::new(), true);
        for entry in self.shelves.values_mut().filter(|entry| entry.of.contains(&key.resource) && (entry.concerns)(key))
        {
            let (was, sense) = entry.shelf.put(key, new, uptime);
            before.extend(was);
            read &= sense;
        }
        (before, read)
    }
}

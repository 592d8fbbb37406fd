//! PURE. A page of a list, as the objects are now or as they were at a revision: what the history says happened since
//! is undone.
//!
//! No snapshot is kept for anybody. The objects at revision R are those of now, but for each key that was written after
//! R, what stood there before the first of these writes; so a list of many pages is consistent as long as the history
//! reaches back to its first page.

use crate::store::{Event, Stored};
use coracle_api::meta::{Key, Resource, Revision};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Bound;
use std::sync::Arc;

/// The selection of objects for a list.
#[derive(Clone, Copy)]
pub struct Listing<'a> {
    pub resource: &'a Resource,
    /// None: all namespaces.
    pub namespace: Option<&'a str>,
    /// As they were at this revision. None: as they are.
    pub at: Option<Revision>,
    /// Only objects behind this key, even if no object has this key.
    pub after: Option<&'a Key>,
    pub limit: Option<NonZeroUsize>,
    pub matches: Option<&'a dyn Fn(&Stored) -> bool>,
}

impl<'a> Listing<'a> {
    /// Everything there is now.
    pub fn all(resource: &'a Resource, namespace: Option<&'a str>) -> Listing<'a> {
        Listing { resource, namespace, at: None, after: None, limit: None, matches: None }
    }

    pub(super) fn holds(&self, key: &Key) -> bool {
        key.resource == *self.resource
            && self.namespace.is_none_or(|namespace| key.namespace == namespace)
            && self.after.is_none_or(|after| key > after)
    }

    /// Keys below this one are not meant.
    pub(super) fn from(&self) -> Bound<Key> {
        let namespace = self.namespace.unwrap_or_default().to_owned();
        let first = Key { resource: self.resource.clone(), namespace, name: String::new() };
        match self.after {
            Some(after) if *after >= first => Bound::Excluded(after.clone()),
            _ => Bound::Included(first),
        }
    }
}

/// A list at one revision, or a part of the list.
#[derive(Debug, Default)]
pub struct Page {
    pub revision: Revision,
    /// In the order of their keys.
    pub items: Vec<Stored>,
    /// Keys in between whose files are damaged: they exist, but cannot be shown.
    pub damaged: Vec<Key>,
    /// Those of them that are whole, and sealed by keys which are not at hand; and why.
    pub shut: Vec<(Key, String)>,
    /// None: this is the end.
    pub more: Option<More>,
}

/// The state behind a page.
#[derive(Debug)]
pub struct More {
    /// The last that is in the page.
    pub after: Arc<Key>,
    /// How many are left. None with `matches`: nobody has looked.
    pub remaining: Option<usize>,
}

/// Fills a page with the candidates that match, which come in order.
pub fn fill<'a>(listing: &Listing, revision: Revision, candidates: impl Iterator<Item = &'a Stored>) -> Page {
    let mut candidates = candidates.filter(|stored| listing.matches.is_none_or(|matches| matches(stored)));
    let limit = listing.limit.map_or(usize::MAX, NonZeroUsize::get);
    let items: Vec<Stored> = candidates.by_ref().take(limit).cloned().collect();
    let more = match (listing.limit.and(items.last()), listing.matches) {
        (None, _) => None,
        (Some(last), Some(_)) => candidates.next().map(|_| More { after: last.key.clone(), remaining: None }),
        (Some(last), None) => match candidates.count() {
            0 => None,
            remaining => Some(More { after: last.key.clone(), remaining: Some(remaining) }),
        },
    };
    Page { revision, items, damaged: Vec::new(), shut: Vec::new(), more }
}

/// The objects of a listing before `since`, which are all events after that moment, oldest first. `now` is what is so,
/// in order.
pub fn undone<'a>(
    listing: &Listing,
    now: impl Iterator<Item = &'a Stored>,
    since: impl Iterator<Item = &'a Event>,
) -> Vec<Stored> {
    let mut before: BTreeMap<&Key, Option<&Stored>> = BTreeMap::new();
    for event in since.filter(|event| listing.holds(&event.key)) {
        before.entry(&event.key).or_insert(event.old.as_ref());
    }
    let mut now = now.peekable();
    let mut then = Vec::new();
    for (key, old) in before {
        while let Some(untouched) = now.next_if(|stored| *stored.key < *key) {
            then.push(untouched.clone());
        }
        now.next_if(|stored| *stored.key == *key);
        then.extend(old.cloned());
    }
    then.extend(now.cloned());
    then
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::labels::LabelSet;

    static PODS: Resource = Resource::core("pods");

    fn key(namespace: &str, name: &str) -> Key {
        Key { resource: PODS.clone(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// `ns/name@revision`.
    fn stored(text: &str) -> Stored {
        let (path, revision) = text.split_once('@').expect("a revision");
        let (namespace, name) = path.split_once('/').expect("a namespace");
        Stored::new(
            Arc::new(key(namespace, name)),
            Revision(revision.parse().expect("a number")),
            text.to_owned().into(),
            LabelSet::default(),
        )
    }

    fn all(text: &str) -> Vec<Stored> {
        text.split_whitespace().map(stored).collect()
    }

    fn shown(items: &[Stored]) -> String {
        items
            .iter()
            .map(|stored| format!("{}/{}@{}", stored.key.namespace, stored.key.name, stored.revision))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// `old>new`, either of which may be missing.
    fn event(text: &str) -> Event {
        let (old, new) = text.split_once('>').expect("an arrow");
        let one = |text: &str| Some(text).filter(|text| !text.is_empty()).map(stored);
        let (old, new) = (one(old), one(new));
        let of = new.as_ref().or(old.as_ref()).expect("something happened");
        Event { revision: of.revision, key: of.key.clone(), old: old.clone(), new: new.clone(), renewed: false }
    }

    #[test]
    fn what_happened_is_undone() {
        for (now, since, namespace, after, then) in [
            ("", "", None, None, ""),
            ("a/x@1 b/y@2", "", None, None, "a/x@1 b/y@2"),
            ("a/x@1 a/y@5 b/y@2", ">a/y@5", None, None, "a/x@1 b/y@2"),
            ("a/x@5", "a/x@1>a/x@4 a/x@4>a/x@5", None, None, "a/x@1"),
            ("b/y@2", "a/x@1>", None, None, "a/x@1 b/y@2"),
            ("a/x@6", "a/x@1> >a/x@6", None, None, "a/x@1"),
            ("", ">a/x@4 a/x@4>", None, None, ""),
            ("a/x@1", "b/y@2> b/z@3>", Some("a"), None, "a/x@1"),
            ("a/z@1", "a/b@2> a/y@3>", Some("a"), Some(("a", "b")), "a/y@3 a/z@1"),
            ("", "a/x@1> b/b@2>", None, Some(("a", "y")), "b/b@2"),
            ("a/z@1", "a-b/x@2>", None, Some(("a-b", "w")), "a-b/x@2 a/z@1"),
            ("a/z@1", "a-b/x@2>", None, Some(("a", "a")), "a/z@1"),
        ] {
            let after = after.map(|(namespace, name)| key(namespace, name));
            let listing = Listing { after: after.as_ref(), ..Listing::all(&PODS, namespace) };
            let (now, since): (_, Vec<Event>) = (all(now), since.split_whitespace().map(event).collect());
            assert_eq!(shown(&undone(&listing, now.iter(), since.iter())), then);
        }
    }

    #[test]
    fn pages_are_filled_by_what_matches() {
        let everything = all("a/a@1 a/b@2 a/c@3 b/a@4 b/b@5");
        let odd = |stored: &Stored| stored.revision.0 % 2 == 1;
        for (limit, selecting, items, more) in [
            (0, false, "a/a@1 a/b@2 a/c@3 b/a@4 b/b@5", None),
            (2, false, "a/a@1 a/b@2", Some(("b", Some(3)))),
            (5, false, "a/a@1 a/b@2 a/c@3 b/a@4 b/b@5", None),
            (6, false, "a/a@1 a/b@2 a/c@3 b/a@4 b/b@5", None),
            (2, true, "a/a@1 a/c@3", Some(("c", None))),
            (3, true, "a/a@1 a/c@3 b/b@5", None),
            (0, true, "a/a@1 a/c@3 b/b@5", None),
        ] {
            let matches: Option<&dyn Fn(&Stored) -> bool> = if selecting { Some(&odd) } else { None };
            let listing = Listing { limit: NonZeroUsize::new(limit), matches, ..Listing::all(&PODS, None) };
            let page = fill(&listing, Revision(9), everything.iter());
            assert_eq!(shown(&page.items), items, "{limit}");
            assert_eq!(page.more.as_ref().map(|more| (more.after.name.as_str(), more.remaining)), more, "{limit}");
        }
    }
}

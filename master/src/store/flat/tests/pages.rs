//! Lists in pages against remembered snapshots: whoever turns pages while others write sees the objects of one moment.

use super::sim::Dice;
use super::*;
use std::num::NonZeroUsize;

type Line = (String, String, Revision);

/// Somebody who turns pages.
struct Reader {
    revision: Revision,
    namespace: Option<&'static str>,
    /// Only names that end in an even digit.
    even: bool,
    limit: usize,
    seen: Vec<Line>,
    after: Option<Arc<Key>>,
}

fn line(stored: &Stored) -> Line {
    (stored.key.namespace.clone(), stored.key.name.clone(), stored.revision)
}

fn is_even(name: &str) -> bool {
    name.ends_with(['0', '2', '4', '6', '8'])
}

impl Reader {
    /// One page. False: it was the last.
    fn turn(&mut self, store: &FlatStore, now: bool) -> bool {
        let matches = |stored: &Stored| is_even(&stored.key.name);
        let listing = Listing {
            resource: &PODS,
            namespace: self.namespace,
            at: (!now).then_some(self.revision),
            after: self.after.as_deref(),
            limit: NonZeroUsize::new(self.limit),
            matches: if self.even { Some(&matches) } else { None },
        };
        let page = store.page(&listing).expect("its history is held");
        assert_eq!(page.revision, self.revision);
        assert!(self.limit == 0 || page.items.len() <= self.limit);
        assert!(page.more.is_none() || page.items.len() == self.limit, "a page that is not the last is full");
        self.seen.extend(page.items.iter().map(line));
        self.after = page.more.as_ref().map(|more| more.after.clone());
        self.after.is_some()
    }

    fn of(&self, snapshot: &[Line]) -> Vec<Line> {
        let mine = |(namespace, name, _): &&Line| {
            self.namespace.is_none_or(|only| only == namespace) && (!self.even || is_even(name))
        };
        snapshot.iter().filter(mine).cloned().collect()
    }
}

#[test]
fn pages_show_one_moment() {
    for seed in 0..200 {
        one_history(seed);
    }
}

fn one_history(seed: u64) {
    let mut dice = Dice::new(seed);
    let store = FlatStore::in_memory(&rules());
    // The pods as they were at each revision, in order.
    let mut snapshots: Vec<(Revision, Vec<Line>)> = vec![(store.revision(), Vec::new())];
    let mut readers: Vec<Reader> = Vec::new();
    for step in 0..150 {
        write_one(&store, &mut dice, step);
        let all: Vec<Line> = store.list(&PODS, None).items.iter().map(line).collect();
        if snapshots.last().is_none_or(|(revision, _)| *revision != store.revision()) {
            snapshots.push((store.revision(), all));
        }
        if dice.one_in(4) {
            let (revision, _) = snapshots[dice.below(snapshots.len() as u64) as usize];
            let namespace = [None, Some("a"), Some("a-b")][dice.below(3) as usize];
            let now = dice.one_in(2);
            let revision = if now { store.revision() } else { revision };
            let limit = dice.below(6) as usize;
            let mut reader = Reader { revision, namespace, even: dice.one_in(2), limit, seen: Vec::new(), after: None };
            reader.turn(&store, now);
            readers.push(reader);
        }
        for reader in readers.iter_mut().filter(|reader| reader.after.is_some()) {
            if dice.one_in(3) {
                reader.turn(&store, false);
            }
        }
    }
    for mut reader in readers {
        while reader.after.is_some() {
            reader.turn(&store, false);
        }
        let (_, snapshot) = snapshots.iter().find(|(revision, _)| *revision == reader.revision).expect("it was then");
        assert_eq!(reader.seen, reader.of(snapshot), "seed {seed} at {}", reader.revision);
    }
}

/// A create, update or delete of a pod in one of two namespaces, or of something that is no pod.
fn write_one(store: &FlatStore, dice: &mut Dice, step: u64) {
    let plural = if dice.one_in(8) { "services" } else { "pods" };
    let namespace = if dice.one_in(2) { "a" } else { "a-b" };
    let key =
        Key { resource: Resource::core(plural), namespace: namespace.to_owned(), name: format!("n{}", dice.below(8)) };
    let kind = if plural == "pods" { "Pod" } else { "Service" };
    let object = json!({
        "apiVersion": "v1", "kind": kind, "metadata": {"name": key.name, "namespace": namespace},
        "spec": {"step": step},
    });
    let standing = store.get(&key).expect("nothing is damaged");
    let (durable, claims) = (Durable::Whole, Vec::new());
    let write = match standing {
        None => Write::Create { key, object, durable, claims },
        Some(old) if dice.one_in(3) => Write::Delete { key, seen: old.revision },
        Some(old) => Write::Update { key, object, seen: old.revision, durable, claims },
    };
    store.write(write).expect("nobody else writes");
}

#[test]
fn too_old_and_not_yet() {
    let store = FlatStore::in_memory(&rules());
    let first = store.write(create(pod("a", "0", None))).expect("new").revision;
    let mut seen = first;
    for round in 0..HISTORY_EVENTS_MAX {
        seen = store.write(update(pod("a", "0", Some(&round.to_string())), seen)).expect("seen").revision;
    }
    let at = |revision| {
        store.page(&Listing { at: Some(revision), ..Listing::all(&PODS, None) }).map(|page| page.items[0].revision)
    };
    assert_eq!(at(Revision(0)), Err(Unlisted::Gone(Gone { oldest: first })));
    assert_eq!(at(first), Ok(first), "the oldest moment that is held");
    assert_eq!(at(seen), Ok(seen));
    assert_eq!(at(Revision(seen.0 + 1)), Err(Unlisted::Future { now: seen }));
}

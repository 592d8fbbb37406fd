//! Values compiled from stored objects: never older than an answered write, and not compiled for nothing.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The names of all pods, and how often a value was compiled.
fn names(compiled: &Arc<AtomicUsize>) -> Derived<Vec<String>> {
    let compiled = compiled.clone();
    Derived::new([PODS], move |pages: &[Page]| {
        compiled.fetch_add(1, Ordering::Relaxed);
        pages.iter().flat_map(|page| &page.items).map(|stored| stored.key.name.clone()).collect()
    })
}

fn delete(stored: &Stored) -> Write {
    Write::Delete { key: Key::clone(&stored.key), seen: stored.revision }
}

#[test]
fn a_value_is_compiled_when_it_is_asked_for_and_an_object_changed() {
    let store = memory_on(&sim::SimDisk::new(3));
    let compiled = Arc::new(AtomicUsize::new(0));
    let derived = names(&compiled);
    let check = |namespace: Option<&str>, expected: &[&str], times: usize| {
        assert_eq!(*derived.get(&store, namespace), expected);
        assert_eq!(*derived.get(&store, namespace), expected);
        assert_eq!(compiled.load(Ordering::Relaxed), times, "{namespace:?}");
    };
    let a = store.write(create(pod("a", "a", None))).expect("it is new");
    assert_eq!(compiled.load(Ordering::Relaxed), 0, "nobody asked");
    check(None, &["a"], 1);
    check(Some("default"), &["a"], 2);
    check(Some("rented"), &[], 3);
    // Another resource, and another namespace.
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rented"}});
    let key = Key { resource: Resource::core("namespaces"), namespace: String::new(), name: "rented".to_owned() };
    store.write(Write::Create { key, object: other, durable: Durable::Whole, claims: Vec::new() }).expect("it is new");
    check(None, &["a"], 3);
    store.write(create(pod("b", "a", None))).expect("it is new");
    check(Some("rented"), &[], 3);
    check(Some("default"), &["a", "b"], 4);
    let gone = store.write(delete(&a)).expect("it was seen");
    check(Some("default"), &["b"], 5);
    assert!(gone.revision == store.changed(&PODS) && store.changed(&Resource::core("services")) == Revision(0));
    store.write(create(pod("a", "a", None))).expect("it is new");
    check(Some("default"), &["a", "b"], 6);
}

#[test]
fn what_is_kept_has_a_limit() {
    let store = memory_on(&sim::SimDisk::new(3));
    let compiled = Arc::new(AtomicUsize::new(0));
    let derived = names(&compiled);
    // Namespaces without objects: each value has its place, until they are too many.
    for round in 1..=2 {
        (0..100).for_each(|nth| drop(derived.get(&store, Some(&format!("n{nth}")))));
        assert_eq!(compiled.load(Ordering::Relaxed), 100, "{round}");
    }
    (0..10_000).for_each(|nth| drop(derived.get(&store, Some(&format!("n{nth}")))));
    assert!(derived.kept() < 3_000, "{}", derived.kept());
    // What is larger than all that may be kept is compiled for each caller.
    for nth in 0..40 {
        store.write(create(pod(&format!("p{nth}"), &"x".repeat(10_000), None))).expect("it is new");
    }
    let before = compiled.load(Ordering::Relaxed);
    (0..3).for_each(|_| assert_eq!(derived.get(&store, None).len(), 40));
    assert_eq!(compiled.load(Ordering::Relaxed), before + 3);
}

#[test]
fn a_damaged_object_that_is_given_up_is_a_change() {
    let disk = sim::SimDisk::new(3);
    let store = memory_on(&disk);
    store.write(create(pod("a", "a", None))).expect("it is new");
    store.close().expect("the disk is well");
    drop(store);
    disk.place(&format!("objects/{}", names::path(&key("a"))), b"{");
    let store = memory_on(&disk);
    let damaged = Derived::new([PODS], |pages: &[Page]| pages.iter().map(|page| page.damaged.len()).sum::<usize>());
    assert_eq!(*damaged.get(&store, None), 1);
    store.write(Write::Delete { key: key("a"), seen: UNSEEN }).expect("a person gives it up");
    assert_eq!(*damaged.get(&store, None), 0);
}

/// The writers of other objects make the value stale all the time.
#[test]
fn a_writer_finds_its_own_write_in_the_value() {
    let store = memory_on(&sim::SimDisk::new(3));
    let derived = names(&Arc::default());
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (store, derived) = (&store, &derived);
            scope.spawn(move || {
                for round in 0..100 {
                    let name = format!("w{writer}-{round}");
                    let stored = store.write(create(pod(&name, "a", None))).expect("it is new");
                    assert!(derived.get(store, None).contains(&name), "{name} was answered");
                    if round % 2 == 0 {
                        store.write(delete(&stored)).expect("it was seen");
                        assert!(!derived.get(store, None).contains(&name), "{name} is gone");
                    }
                }
            });
        }
    });
}

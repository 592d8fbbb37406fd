//! Tests that the store counts its memory to the byte, whatever happens to a change.

use super::sim::{EIO, SimDisk};
use super::*;
use crate::store::flat::room::OBJECT_BYTES;

fn open(disk: &SimDisk, bytes_max: u64) -> FlatStore {
    let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
    let setup = Setup { bytes_max, ..Setup::SMALL };
    FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), setup).expect("it opens").store
}

fn event(name: &str, namespace: &str, bytes: usize) -> Write {
    let key = Key { resource: Resource::core("events"), namespace: namespace.to_owned(), name: name.to_owned() };
    let object = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
        "message": "x".repeat(bytes),
    });
    Write::Create { key, object, durable: Durable::Nothing, claims: Vec::new() }
}

/// As counted, and as it is.
fn check(store: &FlatStore, what: &str) {
    let mut held = StoreUsage::default();
    let state = store.state();
    state.all().for_each(|entry| held.add(entry));
    assert_eq!(*state.room().held(), held, "{what}");
    let bytes: u64 = state.all().map(|entry| entry.stored.json.len() as u64 + OBJECT_BYTES).sum();
    assert_eq!(state.room().fill().bytes, bytes, "{what}");
}

#[test]
fn it_is_known_to_the_byte() {
    let disk = SimDisk::new(1);
    let store = open(&disk, u64::MAX);
    let seen = |store: &FlatStore, name: &str| store.get(&key(name)).expect("whole").expect("there").revision;
    check(&store, "empty");
    for name in ["A", "B", "c"] {
        store.write(create(pod(name, "some text", Some("up")))).expect("new");
    }
    store.write(event("e", "other", 100)).expect("new");
    check(&store, "made");
    store.write(update(pod("A", "some more text", None), seen(&store, "A"))).expect("seen");
    store.write(update(pod("c", "some text", Some("down and out")), seen(&store, "c"))).expect("seen");
    assert!(store.write(create(pod("A", "again", None))).is_err());
    store.rehearse(create(pod("D", "for show", None))).expect("it could be");
    check(&store, "changed");
    store.write(Write::Delete { key: key("B"), seen: seen(&store, "B") }).expect("seen");
    check(&store, "deleted");
    disk.fail(0..1_000, EIO);
    assert!(store.write(create(pod("E", "lost", None))).is_err());
    assert!(store.write(Write::Delete { key: key("A"), seen: seen(&store, "A") }).is_err());
    disk.heal();
    check(&store, "failed");
    drop(store);
    disk.power_loss();
    let store = open(&disk, u64::MAX);
    check(&store, "started again");
    store.write(Write::Delete { key: key("A"), seen: seen(&store, "A") }).expect("seen");
    check(&store, "and emptied");
}

#[test]
fn what_grows_beyond_the_limit_is_refused_and_what_goes_is_not() {
    let disk = SimDisk::new(1);
    let store = open(&disk, 38_000);
    let filler = "x".repeat(8_000);
    let made = |store: &FlatStore, name: &str| store.write(create(pod(name, &filler, None)));
    let first = made(&store, "A").expect("there is room");
    // Those of one batch count each other.
    let all = store.write_all(["B", "C", "D", "E", "F"].map(|name| create(pod(name, &filler, None))).into());
    let taken = all.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(taken, 3, "{all:?}");
    let Err(Refused::Full { why }) = made(&store, "G") else { panic!("it is full") };
    assert!(why.contains("delete what is not needed"), "{why}");
    assert!(matches!(store.rehearse(create(pod("G", &filler, None))), Err(Refused::Full { .. })));
    assert_eq!(store.health().fill.warnings.len(), 1, "nine tenths are told of");
    let small = store.write(update(pod("A", "less", None), first.revision)).expect("what shrinks has room");
    made(&store, "G").expect("what it gave up is free");
    store.write(Write::Delete { key: key("A"), seen: small.revision }).expect("what goes has room");
    drop(store);
    // One that is over its limit serves, and shrinks.
    let store = open(&disk, 10_000);
    assert!(matches!(store.write(create(pod("Z", "", None))), Err(Refused::Full { .. })));
    let names = store.list(&PODS, None).items;
    for stored in &names {
        store.write(Write::Delete { key: Key::clone(&stored.key), seen: stored.revision }).expect("what goes has room");
    }
    assert_eq!(store.health().fill.bytes, 0);
    made(&store, "Z").expect("there is room");
}

//! A start where something else has filled the disk, or an older master: it serves reads, gets out by itself where anything can be had,
//! and otherwise says what to do; nothing that was acknowledged is lost.

use super::sim::{EIO, ENOSPC, Nature, Promise, SimDisk};
use super::*;
use crate::store::disk::Disk;

fn now(store: &FlatStore, name: &str) -> Option<Stored> {
    store.get(&key(name)).expect("whole")
}

fn delete(store: &FlatStore, name: &str) -> Result<Stored, Refused> {
    store.write(Write::Delete { key: key(name), seen: now(store, name).expect("there").revision })
}

/// Objects A to E in their files, F in the journal alone.
fn filled() -> (SimDisk, FlatStore) {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    store.tend();
    for name in ["A", "B", "C", "D", "E"] {
        store.write(create(pod(name, &"x".repeat(2_000), None))).expect("it is new");
    }
    store.checkpoint().expect("the disk is well");
    store.write(create(pod("F", "x", None))).expect("it is new");
    (disk, store)
}

/// The segment that stands ready goes with whoever filled the disk.
fn take_next(disk: &SimDisk) {
    let newest = disk.tree().into_iter().rfind(|path| path.starts_with("wal/")).expect("a segment");
    assert!(disk.peek(&newest).expect("a file").iter().all(|byte| *byte == b'\n'), "it stands ready");
    disk.take(&newest);
}

/// What is left to be had, in the words of `Health::degraded`.
const DELETES: &str = "only deletes and what shrinks";
const NOTHING: &str = "make room on its file system";

/// `leave`: how the directory came to be. `gone`: what was deleted then. `says`: what can be had at 0 bytes.
fn check(case: &str, leave: impl Fn(&SimDisk, FlatStore), gone: &[&str], says: &str) {
    let takes = says != NOTHING;
    let (disk, store) = filled();
    leave(&disk, store);
    disk.power_loss();
    disk.fill(0);
    let store = memory_on(&disk);
    let all = ["A", "B", "C", "D", "E", "F"];
    for name in all {
        assert_eq!(now(&store, name).is_some(), !gone.contains(&name), "{case}: {name}");
    }
    // As the keeper does, some seconds apart.
    (0..4).for_each(|_| _ = store.tend());
    let degraded = store.health().degraded.unwrap_or_default();
    assert!(degraded.contains(says), "{case}: {degraded}");
    let written = store.write(create(pod("Long", &"x".repeat(150_000), None)));
    assert!(matches!(written, Err(Refused::Disk { space: true, .. })), "{case}: {written:?}");
    let deleted = delete(&store, "A");
    assert_eq!(deleted.is_ok(), takes, "{case}: {deleted:?}");
    if takes {
        // What a delete has freed is there for the next ones.
        (0..4).for_each(|_| _ = store.tend());
        delete(&store, "B").unwrap_or_else(|refused| panic!("{case}: {refused}"));
    }
    disk.heal();
    (0..4).for_each(|_| _ = store.tend());
    assert_eq!(store.health().degraded, None, "{case}");
    store.write(create(pod("Late", "x", None))).expect("there is room");
    drop(store);
    disk.power_loss();
    let store = memory_on(&disk);
    assert_eq!((store.health().degraded, store.health().damaged), (None, vec![]), "{case}");
    for name in all {
        let deleted = gone.contains(&name) || takes && ["A", "B"].contains(&name);
        assert_eq!(now(&store, name).is_none(), deleted, "{case}: {name}");
    }
    assert!(now(&store, "Late").is_some(), "{case}");
}

#[test]
fn a_start_on_a_full_disk_gets_out_by_itself_as_far_as_it_can() {
    check("closed in order", |_, store| store.close().expect("the disk is well"), &[], DELETES);
    check("killed", |_, _| {}, &[], DELETES);
    let superseded = |disk: &SimDisk, store: FlatStore| {
        for name in ["B", "C", "D"] {
            let seen = now(&store, name).expect("there").revision;
            store.write(update(pod(name, &"y".repeat(20_000), None), seen)).expect("it was seen");
            store.tend();
        }
        store.checkpoint().expect("the disk is well");
        take_next(disk);
    };
    check("killed, with old segments", superseded, &[], DELETES);
    let deleted = |disk: &SimDisk, store: FlatStore| {
        delete(&store, "D").expect("it was seen");
        delete(&store, "E").expect("it was seen");
        // On to another segment, so that the one before can go.
        for spec in ["y".repeat(30_000), "x".to_owned()] {
            let seen = now(&store, "F").expect("there").revision;
            store.write(update(pod("F", &spec, None), seen)).expect("it was seen");
        }
        store.tend();
        take_next(disk);
    };
    check("killed, and deletes have not come to the files", deleted, &["D", "E"], DELETES);
    check("killed, with nothing that can go", |disk, _| take_next(disk), &[], NOTHING);
}

/// The old segments went for the new one, and HEAD.json, which names them, could not be written: nobody misses them the next time.
#[test]
fn what_a_start_gave_up_for_room_is_not_missed_where_something_else_failed_too() {
    let mut written = 0;
    for step in 1.. {
        let (disk, store) = filled();
        store.close().expect("the disk is well");
        drop(store);
        disk.fill(0);
        let begun = disk.steps();
        disk.fail(step..step + 1, EIO);
        let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
        let opened = FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), Setup::SMALL);
        if disk.steps() < begun + step {
            break;
        }
        disk.heal();
        let Ok(Opened { store, .. }) = opened else { continue };
        if store.write(create(pod("Late", "x", None))).is_err() {
            continue;
        }
        written += 1;
        drop(store);
        disk.power_loss();
        let store = memory_on(&disk);
        assert_eq!(store.health().degraded, None, "{step}");
        assert!(now(&store, "Late").is_some(), "{step}");
    }
    assert!(written > 20, "{written}");
}

/// Writers are not the cause where there is no room for what they write.
#[test]
fn the_first_refusal_on_a_nearly_full_disk_names_the_disk() {
    for bytes in [200, 3_000, 20_000] {
        let disk = SimDisk::new(1);
        let store = memory_on(&disk);
        disk.fill(900 << 10);
        store.tend();
        let written = (0..10_000).map(|number| store.write(create(pod(&format!("N{number}"), &"x".repeat(bytes), None))));
        let refused = written.filter_map(Result::err).next().expect("the disk has an end");
        let Refused::Disk { why, space: true } = &refused else { panic!("{bytes}: {refused:?}") };
        assert!(why.contains("the disk is nearly full") || why.contains("the disk is full"), "{bytes}: {why}");
    }
}

/// Writes until nothing more is taken. Gives what was.
fn fill_up(store: &FlatStore, bytes: usize) -> Vec<String> {
    let (mut names, mut refused) = (Vec::new(), 0);
    while refused < 10 {
        let name = format!("N{}", names.len());
        match store.write(create(pod(&name, &"x".repeat(bytes), None))) {
            Ok(_) => names.push(name),
            Err(Refused::Disk { space: true, .. } | Refused::Busy { .. }) => refused += 1,
            Err(refused) => panic!("{refused}"),
        }
        store.tend();
        if refused > 0 {
            // As seconds later.
            store.checkpoint().ok();
        }
    }
    names
}

fn stop(disk: &SimDisk, store: FlatStore, how: u64) {
    match how % 3 {
        0 => _ = store.close().is_ok(),
        1 => _ = store.tend(),
        _ => {
            disk.cut_in(1 + how % 40);
            store.tend();
        }
    }
    drop(store);
    // A power cut might bring back names here whose room the simulated disk has given away.
    disk.kill();
}

/// What has come to its file stays there: the card is not worn by the same files every few seconds.
#[test]
fn a_checkpoint_that_does_not_fit_writes_no_file_twice() {
    const SMALL: usize = 16;
    const LARGE_BYTES: usize = 200_000;
    for syncs_all in [true, false] {
        let nature = Nature { promise: Promise::Loose, shears: false, reverts: false, syncs_all };
        let disk = SimDisk::new(1).of_nature(nature);
        let store = memory_on(&disk);
        let mut names: Vec<String> = (0..SMALL).map(|number| format!("N{number}")).collect();
        names.iter().for_each(|name| _ = store.write(create(pod(name, &"x".repeat(2_000), None))).expect("it is new"));
        // The last of all, by its key.
        store.write(create(pod("Z", &"x".repeat(LARGE_BYTES), None))).expect("it is new");
        names.push("Z".to_owned());
        store.tend();
        disk.fill(LARGE_BYTES);
        // A disk that cannot sync everything is known for it from the first on.
        (0..2).for_each(|_| assert!(store.checkpoint().is_err()));
        let brought = || disk.tree().into_iter().filter(|path| path.starts_with("objects/")).count();
        let written = disk.written();
        assert_eq!(brought(), SMALL);
        for _ in 0..9 {
            assert!(store.checkpoint().is_err());
            store.tend();
        }
        assert_eq!((brought(), disk.written()), (SMALL, written), "all that fits is there");
        let image = disk.fork(2);
        disk.heal();
        store.checkpoint().expect("it fits");
        assert!(disk.written() - written < LARGE_BYTES as u64 * 11 / 10, "the large one and HEAD.json: {}", disk.written() - written);
        for disk in [disk, image] {
            disk.heal();
            disk.power_loss();
            let store = memory_on(&disk);
            assert_eq!(store.health().damaged, []);
            assert!(names.iter().all(|name| now(&store, name).is_some_and(|stored| stored.json.len() > 2_000)));
        }
    }
}

/// However it is stopped, and however often: it takes deletes, gets out by itself, and nothing is lost.
#[test]
fn a_store_that_filled_its_disk_takes_deletes_after_a_restart() {
    let mut dice = super::sim::Dice::new(7);
    for round in 0..60 {
        let disk = SimDisk::new(round);
        let store = memory_on(&disk);
        let bytes = *dice.pick(&[200, 3_000, 12_000, 20_000]);
        disk.fill((600 << 10) + dice.below(600 << 10) as usize);
        let mut names = fill_up(&store, bytes);
        let case = format!("round {round}, {} of {bytes} bytes", names.len());
        stop(&disk, store, dice.below(600));
        for _ in 0..dice.below(6) {
            // As it begins, before its keeper does anything, and later.
            let store = memory_on(&disk);
            (0..dice.below(4)).for_each(|_| _ = store.tend());
            stop(&disk, store, dice.below(600));
        }
        let store = memory_on(&disk);
        store.tend();
        for name in &names {
            assert!(now(&store, name).is_some(), "{case}: {name}");
        }
        let gone = names.split_off(names.len() / 2);
        for name in &gone {
            delete(&store, name).unwrap_or_else(|refused| panic!("{case}: {refused}; room: {:?}", disk.room()));
            if dice.one_in(2) {
                store.checkpoint().ok();
                store.tend();
            }
        }
        store.checkpoint().unwrap_or_else(|error| panic!("{case}: {error}"));
        store.tend();
        assert_eq!(store.health().degraded, None, "{case}");
        store.write(create(pod("Late", &"x".repeat(bytes), None))).unwrap_or_else(|refused| panic!("{case}: {refused}"));
        drop(store);
        disk.power_loss();
        let store = memory_on(&disk);
        assert_eq!(store.health().damaged, [], "{case}");
        for name in names.iter().chain(&gone) {
            assert_eq!(now(&store, name).is_some(), names.contains(name), "{case}: {name}");
        }
    }
}

/// What a person wrote is no less durable where the start that met it could not write: later writes are built on it.
#[test]
fn an_edit_that_a_start_could_not_journal_is_journaled_before_anything_else() {
    let mut failures = 0;
    for (errno, steps) in [(EIO, 1), (ENOSPC, 1), (EIO, 200), (ENOSPC, 200)] {
        for step in 1.. {
            let (disk, store) = filled();
            store.close().expect("the disk is well");
            drop(store);
            let path = format!("objects/{}", names::path(&key("A")));
            let text = String::from_utf8(disk.peek(&path).expect("a file")).expect("JSON");
            disk.overwrite(&path, text.replace(&"x".repeat(2_000), "theirs").as_bytes());
            disk.fail(step..step + steps, errno);
            let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
            let opened = FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), Setup::SMALL);
            let failed = disk.failures() > 0;
            disk.heal();
            if !failed {
                break;
            }
            failures += 1;
            let Ok(Opened { store, .. }) = opened else { continue };
            if store.health().degraded.is_none_or(|why| !why.contains("journal")) {
                continue;
            }
            let seen = now(&store, "A").expect("there");
            assert_eq!(super::crash::spec_of(&seen), "theirs");
            // Its file may be the store's own by then.
            if step % 2 == 0 {
                store.checkpoint().expect("the disk is well");
            }
            let last = store.write(update(pod("A", "ours", None), seen.revision)).expect("it was seen");
            drop(store);
            disk.power_loss();
            let store = memory_on(&disk);
            let a = now(&store, "A").expect("there");
            assert_eq!((super::crash::spec_of(&a), a.revision), ("ours".to_owned(), last.revision), "{errno} at {step}");
            assert_eq!(store.health().damaged, [], "{errno} at {step}");
        }
    }
    assert!(failures > 100, "{failures}");
}

/// A segment is read whole: one that held them all might be longer than any start reads.
#[test]
fn edits_that_a_start_could_not_journal_are_journaled_batch_by_batch() {
    const EROFS: i32 = 30;
    let names = ["A", "B", "C", "D", "E", "F"];
    let theirs = "y".repeat(900 << 10);
    let mut failures = 0;
    // None; one that makes a segment, or writes to one.
    for fails in [0, 1, 2, 3, 4, 5, 6] {
        let disk = SimDisk::new(1);
        let store = memory_on(&disk);
        names.iter().for_each(|name| _ = store.write(create(pod(name, "x", None))).expect("it is new"));
        store.close().expect("the disk is well");
        drop(store);
        for name in names {
            let path = format!("objects/{}", names::path(&key(name)));
            let text = String::from_utf8(disk.peek(&path).expect("a file")).expect("JSON");
            disk.overwrite(&path, text.replace("\"x\"", &format!("\"{theirs}\"")).as_bytes());
        }
        disk.fail(0..u64::MAX, EROFS);
        let store = memory_on(&disk);
        assert!(store.health().degraded.is_some());
        disk.heal();
        disk.fail_sync_in(fails);
        let late = || store.write(create(pod("Late", "x", None)));
        let last = late().or_else(|_| late()).expect("the disk is well");
        failures += disk.failures();
        let revisions: Vec<Revision> = names.iter().map(|name| now(&store, name).expect("there").revision).collect();
        drop(store);
        disk.power_loss();
        let segments = disk.tree().into_iter().filter(|path| path.starts_with("wal/"));
        let longest = segments.map(|path| disk.peek(&path).expect("a segment").len()).max();
        assert!(longest < Some(3 << 20), "{longest:?}");
        let store = memory_on(&disk);
        assert_eq!((store.health().degraded, store.health().damaged), (None, vec![]), "{fails}");
        assert_eq!(now(&store, "Late").map(|late| late.revision), Some(last.revision), "{fails}");
        for (name, revision) in names.iter().zip(revisions) {
            let found = now(&store, name).expect("there");
            assert_eq!((super::crash::spec_of(&found).len(), found.revision), (theirs.len(), revision), "{fails}: {name}");
        }
    }
    assert!(failures > 6, "{failures}");
}

/// A start that makes room keeps what it has written itself, or the next one finds that something is missing.
#[test]
fn a_start_that_makes_room_keeps_what_it_wrote() {
    const EDIT_BYTES: usize = 1100 << 10;
    let names = ["A", "B", "C", "D", "E"];
    let edit = |disk: &SimDisk, with: &str| {
        for name in names {
            let object = pod(name, &with.repeat(EDIT_BYTES), None);
            disk.overwrite(&format!("objects/{}", names::path(&key(name))), &serde_json::to_vec(&object).expect("JSON"));
        }
    };
    let revisions = |store: &FlatStore| names.map(|name| now(store, name).expect("there").revision);
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    names.iter().for_each(|name| _ = store.write(create(pod(name, "x", None))).expect("it is new"));
    store.close().expect("the disk is well");
    drop(store);
    edit(&disk, "y");
    // Room for some of the batches in the start, and for one later.
    disk.fill(EDIT_BYTES * 3 / 2);
    let store = memory_on(&disk);
    let shown = revisions(&store);
    let owed = shown.iter().filter(|revision| revision.0 > 1 << 20).count();
    assert!((2..names.len()).contains(&owed), "{shown:?}");
    disk.fill(EDIT_BYTES * 3 / 2);
    assert!(store.write(create(pod("Late", "x", None))).is_err());
    drop(store);
    disk.heal();
    disk.power_loss();
    edit(&disk, "z");
    let store = memory_on(&disk);
    assert_eq!(store.health().degraded, None);
    let again = revisions(&store);
    assert!(again.iter().all(|revision| !shown.contains(revision)), "{shown:?}, {again:?}");
}

//! A start where something else has filled the disk, or an older master: it serves reads, gets out by itself where
//! anything can be had, and otherwise says what to do; nothing that was acknowledged is lost.

use super::sim::{EIO, ENOSPC, Nature, Promise, SimDisk};
use super::*;
use crate::store::flat::disk::Disk;

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

/// The old segments went for the new one, and HEAD.json, which names them, could not be written: nobody misses them the
/// next time.
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
        let written =
            (0..10_000).map(|number| store.write(create(pod(&format!("N{number}"), &"x".repeat(bytes), None))));
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
        assert!(
            disk.written() - written < LARGE_BYTES as u64 * 11 / 10,
            "the large one and HEAD.json: {}",
            disk.written() - written
        );
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
        store
            .write(create(pod("Late", &"x".repeat(bytes), None)))
            .unwrap_or_else(|refused| panic!("{case}: {refused}"));
        drop(store);
        disk.power_loss();
        let store = memory_on(&disk);
        assert_eq!(store.health().damaged, [], "{case}");
        for name in names.iter().chain(&gone) {
            assert_eq!(now(&store, name).is_some(), names.contains(name), "{case}: {name}");
        }
    }
}

/// Where the start that met it could not write, an edit is not there yet: nobody is shown it, or builds on it, before
/// it is durable.
#[test]
fn an_edit_that_a_start_could_not_journal_is_taken_in_by_the_next() {
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
            let why = store.get(&key("A")).expect_err("it is not durable").why;
            assert!(why.contains("the edit cannot be taken in") && why.contains("restarted"), "{why}");
            // Everything else goes on as soon as it can.
            store.tend();
            let late = store.write(create(pod("Late", "ours", None))).expect("the disk is well");
            if step % 2 == 0 {
                store.checkpoint().expect("the disk is well");
            }
            drop(store);
            disk.power_loss();
            let store = memory_on(&disk);
            assert_eq!(now(&store, "Late").expect("there").revision, late.revision, "{errno} at {step}");
            assert_eq!(super::crash::spec_of(&now(&store, "A").expect("there")), "theirs", "{errno} at {step}");
            assert_eq!((store.health().damaged, store.health().edits), (vec![], vec![]), "{errno} at {step}");
        }
    }
    assert!(failures > 100, "{failures}");
}

/// A segment is read whole: one that held all edits might be longer than any start reads. Those that fit are there for
/// good.
#[test]
fn edits_are_journaled_batch_by_batch() {
    const EDIT_BYTES: usize = 1100 << 10;
    let names = ["A", "B", "C", "D", "E"];
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    names.iter().for_each(|name| _ = store.write(create(pod(name, "x", None))).expect("it is new"));
    store.close().expect("the disk is well");
    drop(store);
    for name in names {
        let object = pod(name, &"y".repeat(EDIT_BYTES), None);
        disk.overwrite(&format!("objects/{}", names::path(&key(name))), &serde_json::to_vec(&object).expect("JSON"));
    }
    // Room for some of the batches.
    disk.fill(EDIT_BYTES * 3 / 2);
    let store = memory_on(&disk);
    let taken: Vec<(&str, Revision)> =
        names.iter().filter_map(|name| Some((*name, store.get(&key(name)).ok()??.revision))).collect();
    assert!((1..names.len()).contains(&taken.len()), "{taken:?}");
    drop(store);
    disk.heal();
    disk.power_loss();
    let store = memory_on(&disk);
    assert_eq!((store.health().degraded, store.health().damaged), (None, vec![]));
    for name in names {
        let found = now(&store, name).expect("there");
        assert_eq!(super::crash::spec_of(&found).len(), EDIT_BYTES);
        assert!(
            taken.iter().all(|(of, revision)| (*of == name) == (*revision == found.revision)),
            "{name}: {} {taken:?}",
            found.revision
        );
    }
    let segments = disk.tree().into_iter().filter(|path| path.starts_with("wal/"));
    let longest = segments.map(|path| disk.peek(&path).expect("a segment").len()).max();
    assert!(longest < Some(3 << 20), "{longest:?}");
}

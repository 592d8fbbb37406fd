//! Tests of the keeper while the master runs: it keeps edits that nobody heard of, mends files that rot, and manages on
//! a disk without a sync of everything.

use super::sim::{EIO, EROFS, Nature, Promise, SimDisk};
use super::*;

fn path(name: &str) -> String {
    format!("objects/{}", names::path(&key(name)))
}

fn spec(disk: &SimDisk, path: &str) -> String {
    let document: Value = serde_json::from_slice(&disk.peek(path).expect("a file")).expect("JSON");
    document["spec"]["is"].as_str().expect("a spec").to_owned()
}

fn now(store: &FlatStore, name: &str) -> Stored {
    store.get(&key(name)).expect("whole").expect("there")
}

/// Some objects in their files, under a master that was closed once: it knows what it left.
fn kept() -> (SimDisk, FlatStore) {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    for name in ["A", "B", "C"] {
        store.write(create(pod(name, "first", None))).expect("it is new");
    }
    store.close().expect("the disk is well");
    drop(store);
    let store = memory_on(&disk);
    (disk, store)
}

/// The same under a master whose forerunner was killed: the journal says more of A than its file.
fn killed() -> (SimDisk, FlatStore) {
    let (disk, store) = kept();
    let a = now(&store, "A");
    store.write(update(pod("A", "second", None), a.revision)).expect("it was seen");
    drop(store);
    disk.power_loss();
    let store = memory_on(&disk);
    (disk, store)
}

/// Somebody does `edit` to the file of A while the master runs; then A is written, or deleted, and the files follow.
fn check_edit(edit: impl Fn(&SimDisk, &[u8]), deletes: bool, kept_spec: Option<&str>) {
    for (disk, store) in [kept(), killed()] {
        check_edit_of(&disk, store, &edit, deletes, kept_spec);
    }
}

fn check_edit_of(
    disk: &SimDisk,
    store: FlatStore,
    edit: impl Fn(&SimDisk, &[u8]),
    deletes: bool,
    kept_spec: Option<&str>,
) {
    let text = disk.peek(&path("A")).expect("a file");
    edit(disk, &text);
    let a = now(&store, "A");
    match deletes {
        true => store.write(Write::Delete { key: key("A"), seen: a.revision }).map(drop),
        false => store.write(update(pod("A", "ours", None), a.revision)).map(drop),
    }
    .expect("it was seen");
    store.checkpoint().expect("the disk is well");
    let aside = "quarantine/0001-edited-settled/core/pods/default/%41.json";
    assert_eq!(disk.peek(aside).map(|_| spec(disk, aside)).as_deref(), kept_spec);
    let remarks = store.health().remarks;
    assert_eq!(remarks.len(), usize::from(kept_spec.is_some()), "{remarks:?}");
    assert!(
        remarks.iter().all(|remark| remark.contains(aside) && remark.contains("was edited while the master ran")),
        "{remarks:?}"
    );
    match deletes {
        true => assert!(disk.peek(&path("A")).is_none()),
        false => assert_eq!(spec(disk, &path("A")), "ours"),
    }
    // The next edit of another file has a place of its own, and nobody waits for any of them.
    store.close().expect("the disk is well");
    drop(store);
    let store = memory_on(disk);
    assert_eq!((store.health().damaged, store.health().remarks), (vec![], vec![]));
}

#[test]
fn what_a_person_writes_while_the_master_runs_is_kept_and_said() {
    let changed = |text: &[u8]| String::from_utf8_lossy(text).replace("first", "theirs").into_bytes();
    for deletes in [false, true] {
        check_edit(|disk, text| disk.overwrite(&path("A"), &changed(text)), deletes, Some("theirs"));
        check_edit(|disk, text| disk.place(&path("A"), &changed(text)), deletes, Some("theirs"));
        // Touched, but not changed.
        check_edit(|disk, text| disk.overwrite(&path("A"), text), deletes, None);
        check_edit(|disk, text| disk.place_stamped(&path("A"), &changed(text)), deletes, Some("theirs"));
        check_edit(|disk, text| disk.place_stamped(&path("A"), text), deletes, None);
        check_edit(|disk, text| disk.place(&path("A"), text), deletes, None);
        check_edit(|disk, _| disk.take(&path("A")), deletes, None);
        check_edit(|_, _| {}, deletes, None);
    }
}

/// People edited all files, and made one, while no master ran; the disk fails from some call of the start on, and is
/// well again.
#[test]
fn an_edit_that_a_start_could_not_take_in_waits_for_one_that_can() {
    let changed = |text: &[u8], to: &str| String::from_utf8_lossy(text).replace("first", to).into_bytes();
    let (mut failed, mut step) = (0, 0);
    loop {
        let (disk, store) = kept();
        store.close().expect("the disk is well");
        drop(store);
        let first = disk.peek(&path("A")).expect("a file");
        disk.overwrite(&path("A"), &changed(&first, "theirs"));
        for name in ["B", "C"] {
            disk.place(&path(name), &changed(&disk.peek(&path(name)).expect("a file"), "theirs"));
        }
        disk.place(&path("New"), pod("New", "theirs", None).to_string().as_bytes());
        disk.fail(step..u64::MAX, EROFS);
        step += 1;
        let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
        let opened = FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), Setup::SMALL);
        disk.heal();
        let Ok(Opened { store, .. }) = opened else { continue };
        let is_well = store.health().degraded.is_none();
        failed += u64::from(!is_well);
        // Each edit is taken in, or waits untouched for a start that can; meanwhile nobody knows what the object is.
        let takes = |name: &str| store.get(&key(name)).is_ok();
        for name in ["A", "B", "C", "New"].into_iter().filter(|name| !takes(name)) {
            assert_eq!(spec(&disk, &path(name)), "theirs", "step {step}: {name}");
        }
        let taken: Vec<&str> = ["A", "New"].into_iter().filter(|name| takes(name)).collect();
        for name in &taken {
            store.write(update(pod(name, "ours", None), now(&store, name).revision)).expect("seen");
        }
        store.checkpoint().expect("the disk is well");
        drop(store);
        let store = memory_on(&disk);
        assert_eq!((store.health().degraded, store.health().damaged), (None, vec![]), "step {step}");
        for name in ["A", "B", "C", "New"] {
            let is = super::crash::spec_of(&now(&store, name));
            assert_eq!(is, if taken.contains(&name) { "ours" } else { "theirs" }, "step {step}: {name}");
        }
        if is_well {
            break;
        }
    }
    assert!(failed > 10, "{failed} starts could not write");
}

#[test]
fn a_file_that_a_person_makes_where_the_master_makes_one_too_is_kept() {
    let (disk, store) = kept();
    disk.place(&path("New"), pod("New", "theirs", None).to_string().as_bytes());
    store.write(create(pod("New", "ours", None))).expect("it is new");
    store.checkpoint().expect("the disk is well");
    assert_eq!(spec(&disk, &path("New")), "ours");
    assert_eq!(spec(&disk, "quarantine/0001-edited-settled/core/pods/default/%4Eew.json"), "theirs");
}

#[test]
fn files_that_rot_are_written_anew_from_memory() {
    let round = |store: &FlatStore| while store.scrub_one() {};
    let (disk, store) = kept();
    round(&store);
    assert_eq!(store.health().remarks, [""; 0], "nothing is wrong");
    let steps = disk.steps();
    round(&store);
    assert!(disk.steps() - steps >= 4, "each file is read, HEAD.json too");
    let head = disk.peek("HEAD.json").expect("a file");
    disk.flip(&path("A"), 60, 2);
    disk.flip("HEAD.json", 20, 2);
    disk.take(&path("B"));
    let revisions = ["A", "B", "C"].map(|name| now(&store, name).revision);
    round(&store);
    let remarks = store.health().remarks;
    assert_eq!(remarks.len(), 2, "the checkpoint that mended the first wrote HEAD.json as well: {remarks:?}");
    assert!(
        remarks[0].contains("%41.json: it says something else") && remarks[1].contains("%42.json: it is gone"),
        "{remarks:?}"
    );
    assert_eq!(["A", "B", "C"].map(|name| now(&store, name).revision), revisions, "nobody sees anything of it");
    round(&store);
    assert_eq!(store.health().remarks.len(), 2, "all is well again");
    disk.flip("HEAD.json", 20, 2);
    round(&store);
    assert!(store.health().remarks[2].contains("HEAD.json"), "{:?}", store.health().remarks);
    assert_ne!(disk.peek("HEAD.json").expect("a file"), head, "it says more than before");
    disk.kill();
    drop(store);
    let again = memory_on(&disk);
    assert_eq!(again.health().damaged, []);
    assert_eq!(["A", "B", "C"].map(|name| spec(&disk, &path(name))), ["first"; 3]);
}

#[test]
fn a_change_on_its_way_to_its_file_is_no_damage() {
    let (disk, store) = kept();
    let a = now(&store, "A");
    store.write(update(pod("A", "ours", None), a.revision)).expect("it was seen");
    let b = now(&store, "B");
    store.write(Write::Delete { key: key("B"), seen: b.revision }).expect("it was seen");
    while store.scrub_one() {}
    assert_eq!(store.health().remarks, [""; 0]);
    assert_eq!(spec(&disk, &path("A")), "first", "it waits for its checkpoint");
    // What cannot be read is mended as well, as soon as it can be written.
    store.checkpoint().expect("the disk is well");
    store.scrub_one();
    assert_eq!(store.health().remarks, [""; 0]);
}

#[test]
fn a_round_is_due_once_a_week_and_no_file_twice_in_it() {
    let (_disk, store) = kept();
    let due = store.scrub();
    assert_eq!(due, round::SCRUB_EVERY, "nothing is read before");
    store.tend();
    assert!(store.tend().is_some_and(|rest| rest > Duration::from_secs(3600)), "nobody is woken for it");
    let mut files = 0;
    while store.scrub_one() {
        files += 1;
        assert!(store.scrub() < Duration::from_secs(60), "a round goes on soon");
    }
    assert_eq!(files, 3);
    assert!(store.scrub() >= round::SCRUB_EVERY);
}

/// A disk without a sync of everything, or one that fails: what a checkpoint has brought is durable all the same.
#[test]
fn each_file_is_synced_by_itself_where_all_cannot_be() {
    for fails in [false, true] {
        let nature = Nature { promise: Promise::Loose, shears: false, reverts: true, syncs_all: fails };
        let disk = SimDisk::new(3).of_nature(nature);
        let store = memory_on(&disk);
        for name in ["A", "B", "C"] {
            store.write(create(pod(name, "first", None))).expect("it is new");
        }
        store.checkpoint().expect("each file by itself");
        let b = now(&store, "B");
        store.write(Write::Delete { key: key("B"), seen: b.revision }).expect("it was seen");
        store.write(create(pod("D", "first", None))).expect("it is new");
        let mut checkpoint = store.begin_checkpoint().expect("the disk is well").expect("something is to be brought");
        while checkpoint.step().expect("the disk is well") {}
        if fails {
            // What comes next: a look at a stamp, and the sync.
            disk.fail(2..3, EIO);
        }
        store.finish_checkpoint(checkpoint).expect("each file by itself");
        assert_eq!(disk.failures(), u64::from(fails));
        // Without its journal nothing but the files speaks.
        disk.power_loss();
        let segments: Vec<_> = disk.tree().into_iter().filter(|path| path.starts_with("wal/")).collect();
        assert!(!segments.is_empty());
        let there: Vec<_> = disk.tree().into_iter().filter(|path| path.starts_with("objects/")).collect();
        assert_eq!(there, ["A", "C", "D"].map(path));
        assert_eq!(["A", "C", "D"].map(|name| spec(&disk, &path(name))), ["first"; 3]);
    }
}

#[test]
fn old_events_are_forgotten_and_the_keeper_knows_when() {
    let (_disk, store) = kept();
    let before = store.revision();
    let mut a = now(&store, "A");
    for status in ["up", "down"] {
        a = store.write(update(pod("A", "first", Some(status)), a.revision)).expect("it was seen");
    }
    assert!(store.inner.keeper.hear());
    assert!(store.tend().is_some_and(|rest| rest <= history::HISTORY_LIFE));
    let watch = || {
        store.watch(
            Scope { resource: a.key.resource.clone(), namespace: None, name: None },
            Some(before),
            Box::new(|_| true),
        )
    };
    assert_eq!(watch().map(|watch| watch.replay.len()).ok(), Some(2));
    assert_eq!(locked(&store.inner.followers).age(store.uptime() + history::HISTORY_LIFE), None);
    assert!(matches!(watch(), Err(Unwatched::Gone(gone)) if gone.oldest == a.revision));
    assert!(
        store
            .watch(
                Scope { resource: a.key.resource.clone(), namespace: None, name: None },
                Some(a.revision),
                Box::new(|_| true)
            )
            .is_ok()
    );
}

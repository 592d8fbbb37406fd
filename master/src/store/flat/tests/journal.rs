//! The journal in front of the files, as its callers see it: what a start finds, what a full or failing disk still
//! takes, and writers who share one fsync.

use super::crash::spec_of;
use super::sim::{EIO, ENOSPC, SimDisk};
use super::*;
use crate::store::flat::start::Ids;
use std::thread;

const WEB: &str = "objects/core/pods/default/%57eb.json";

fn open_with(disk: &SimDisk, setup: Setup) -> Opened {
    let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
    FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), setup).expect("it opens")
}

fn put(store: &FlatStore, name: &str, spec: &str) -> Result<Stored, Refused> {
    match store.get(&key(name)).expect("whole") {
        Some(now) => store.write(update(pod(name, spec, None), now.revision)),
        None => store.write(create(pod(name, spec, None))),
    }
}

fn specs(store: &FlatStore) -> Vec<(String, String)> {
    store.list(&PODS, None).items.iter().map(|stored| (stored.key.name.clone(), spec_of(stored))).collect()
}

fn segments(disk: &SimDisk) -> Vec<String> {
    disk.tree().into_iter().filter(|path| path.starts_with("wal/")).collect()
}

#[test]
fn the_files_follow_the_journal() {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    put(&store, "Web", "a").expect("new");
    put(&store, "Gone", "a").expect("new");
    assert_eq!(disk.peek(WEB), None, "it is in the journal");
    store.checkpoint().expect("the disk is well");
    let text = String::from_utf8(disk.peek(WEB).expect("its file")).expect("text");
    assert!(
        text.starts_with("{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"Pod\",\n") && text.ends_with("}\n"),
        "{text}"
    );
    // What is written while a checkpoint is under way is left to the next.
    put(&store, "Web", "b").expect("seen");
    let mut checkpoint = store.begin_checkpoint().expect("the disk is well").expect("something is behind");
    let gone = store.get(&key("Gone")).expect("whole").expect("there").revision;
    store.write(Write::Delete { key: key("Gone"), seen: gone }).expect("seen");
    put(&store, "Web", "c").expect("seen");
    assert!(store.begin_checkpoint().expect("the disk is well").is_none(), "one at a time");
    while checkpoint.step().expect("the disk is well") {}
    store.finish_checkpoint(checkpoint).expect("the disk is well");
    assert!(String::from_utf8_lossy(&disk.peek(WEB).expect("its file")).contains("\"b\""));
    drop(store);
    let store = memory_on(&disk);
    assert_eq!(specs(&store), [("Web".to_owned(), "c".to_owned())]);
    store.checkpoint().expect("the disk is well");
    assert!(store.begin_checkpoint().expect("the disk is well").is_none(), "nothing is behind");
    assert_eq!(disk.tree().iter().filter(|path| path.starts_with("objects/")).count(), 1);
}

#[test]
fn a_checkpoint_that_fails_anywhere_is_made_good_by_the_next() {
    for step in 1..30 {
        let disk = SimDisk::new(step);
        let store = memory_on(&disk);
        for name in ["Web", "B", "C"] {
            put(&store, name, "a").expect("new");
        }
        disk.fail(step..step + 1, if step % 2 == 0 { EIO } else { ENOSPC });
        let first = store.checkpoint();
        disk.heal();
        put(&store, "B", "b").expect("writes go on");
        store.checkpoint().expect("the disk is well");
        disk.power_loss();
        let store = memory_on(&disk);
        let texts: Vec<String> = specs(&store).into_iter().map(|(name, spec)| format!("{name}={spec}")).collect();
        assert_eq!(texts, ["B=b", "C=a", "Web=a"], "step {step}, {first:?}");
    }
}

/// A segment takes four batches.
fn short_segments(disk: &SimDisk, retained_bytes_max: u64) -> FlatStore {
    open_with(disk, Setup { segment_bytes: 20 << 10, checkpoint_bytes: 40 << 10, retained_bytes_max, ..Setup::SMALL })
        .store
}

#[test]
fn superseded_segments_are_kept_for_backups_and_then_to_be_written_over() {
    for (bytes_max, kept) in [(u64::MAX, 6), (40 << 10, 2 + 2), (0, 2)] {
        let disk = SimDisk::new(1);
        let store = short_segments(&disk, bytes_max);
        for round in 0..30 {
            put(&store, "Web", &round.to_string()).expect("seen");
        }
        let live = segments(&disk).len();
        assert_eq!(live, 7, "a block each, four to a segment");
        store.checkpoint().expect("the disk is well");
        assert_eq!(segments(&disk).len(), kept + 1);
        drop(store);
        assert_eq!(specs(&memory_on(&disk)), [("Web".to_owned(), "29".to_owned())]);
    }
}

/// A write that failed may lie in its segment all the same, and an empty one behind it: nobody has taken anything away.
#[test]
fn what_a_failed_write_has_left_is_no_sign_that_something_is_missing() {
    for (seed, steps) in (0..60).flat_map(|seed| (1..14).map(move |steps| (seed, steps))) {
        let disk = SimDisk::new(seed);
        let store = short_segments(&disk, 0);
        for round in ["a", "b", "c", "d"] {
            put(&store, "Web", round).expect("the disk is well");
            store.tend();
        }
        disk.fail_sync_in(1);
        disk.cut_in(steps);
        put(&store, "Web", "e").ok();
        drop(store);
        disk.power_loss();
        let store = short_segments(&disk, 0);
        assert_eq!((store.health().degraded, store.health().damaged), (None, vec![]), "seed {seed}, {steps} steps");
    }
}

/// The next segment comes to its place only after a batch had to go to a later one: whatever is written to it would not
/// count.
#[test]
fn a_segment_that_comes_too_late_is_left() {
    let disk = SimDisk::new(1);
    let store = short_segments(&disk, 0);
    put(&store, "Web", "a").expect("the disk is well");
    let placing = locked(&store.inner.writer).journal.place_next();
    disk.fail(1..1000, EIO);
    put(&store, "Web", "b").expect_err("the disk fails");
    disk.heal();
    let placed = placing.place().expect("the disk is well");
    let mut writer = locked(&store.inner.writer);
    writer.journal.take_next(placed);
    assert!(writer.journal.wants_next());
}

/// A burst changes segments seldom; a small disk has none of the longer ones.
#[test]
fn a_long_journal_is_in_longer_segments() {
    for (room, longest) in [(usize::MAX, 3), (1 << 20, 1)] {
        let disk = SimDisk::new(1);
        let store = open_with(&disk, Setup { segment_bytes: 20 << 10, ..Setup::SMALL }).store;
        if room < usize::MAX {
            disk.fill(room);
        }
        for round in 0..60 {
            put(&store, "Web", &round.to_string()).expect("seen");
            store.tend();
        }
        let lengths: Vec<usize> =
            segments(&disk).iter().map(|segment| disk.peek(segment).expect("a file").len() / (20 << 10)).collect();
        assert!(lengths[0] == 1 && lengths.iter().max() == Some(&longest) && lengths.is_sorted(), "{lengths:?}");
        drop(store);
        disk.power_loss();
        assert_eq!(specs(&memory_on(&disk)), [("Web".to_owned(), "59".to_owned())]);
    }
}

#[test]
fn in_the_long_run_segments_are_written_over() {
    let disk = SimDisk::new(1);
    let store = short_segments(&disk, 40 << 10);
    let mut rounds = (0..).map(|round: u32| round.to_string());
    let mut write = |store: &FlatStore, count| {
        for round in rounds.by_ref().take(count) {
            put(store, "Web", &round).expect("seen");
            store.tend();
        }
    };
    write(&store, 100);
    let before = segments(&disk);
    // Room for a file that is written and for HEAD.json, and for no segment.
    disk.fill(8 << 10);
    write(&store, 200);
    let after = segments(&disk);
    assert!(after.len() <= before.len() && after[0] > before[before.len() - 1], "{before:?}, {after:?}");
    assert!(disk.failures() == 0 && store.health().degraded.is_none());
    // The end of the one that is written holds lines of an earlier one, and the next, in its place already, nothing
    // else.
    let text = |segment: &String| String::from_utf8(disk.peek(segment).expect("it is there")).expect("lines");
    let mixed = |text: String| {
        text.lines().any(|line| !line.is_empty() && !line.starts_with(&text[..text.find(',').expect("a line")]))
    };
    assert!(after.iter().map(text).any(mixed));
    drop(store);
    let store = memory_on(&disk);
    assert_eq!(specs(&store), [("Web".to_owned(), "299".to_owned())]);
    drop(store);
    // A segment that another process made may have other names, and lines that name none.
    disk.heal();
    let store = short_segments(&disk, 0);
    let found: Vec<_> = segments(&disk);
    write(&store, 1);
    store.checkpoint().expect("the disk is well");
    assert!(segments(&disk).iter().all(|segment| !found.contains(segment) || *segment == found[found.len() - 1]));
}

/// A segment may hold nothing of the one that it was but the middle of a line, which says neither whose it is nor where
/// it begins.
#[test]
fn the_middle_of_an_older_line_is_no_torn_write() {
    let disk = SimDisk::new(1);
    let store = open_with(&disk, Setup { segment_bytes: 32 << 10, retained_bytes_max: 0, ..Setup::SMALL }).store;
    for round in 0..12 {
        put(&store, "Web", &format!("{round}{}", "x".repeat(29_000))).expect("seen");
        store.checkpoint().expect("the disk is well");
        store.tend();
    }
    put(&store, "Web", "last").expect("seen");
    let holds = |path: &String| disk.peek(path).is_some_and(|text| String::from_utf8_lossy(&text).contains("\"last\""));
    let newest = segments(&disk).into_iter().find(holds).expect("it is in the journal");
    let text = disk.peek(&newest).expect("it is there");
    let is_old = text[4_096..].starts_with(b"xxxx") && text.iter().filter(|byte| **byte == b'{').count() < 20;
    assert!(is_old, "{}", String::from_utf8_lossy(&text[..5_000]));
    drop(store);
    let opened = open_with(&disk, Setup::SMALL);
    assert_eq!(specs(&opened.store), [("Web".to_owned(), "last".to_owned())]);
    assert_eq!(opened.notes, [] as [&str; 0]);
}

#[test]
fn a_file_that_failed_is_not_written_over_later() {
    let disk = SimDisk::new(1);
    let store = short_segments(&disk, 0);
    for round in 0..10 {
        put(&store, "Web", &round.to_string()).expect("seen");
    }
    disk.fail_sync_in(1);
    put(&store, "Web", "moved").expect("there is another segment");
    let before = segments(&disk);
    store.checkpoint().expect("the disk is well");
    assert_eq!((before.len(), segments(&disk).len()), (4, 1));
}

#[test]
fn what_was_written_since_a_start_is_missed_with_its_segment() {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    put(&store, "Web", "a").expect("new");
    store.close().expect("the disk is well");
    let older = disk.peek(&segments(&disk)[0]).expect("its segment");
    let store = memory_on(&disk);
    put(&store, "Web", "since").expect("seen");
    drop(store);
    let holds = |path: &String| disk.peek(path).is_some_and(|text| String::from_utf8_lossy(&text).contains("since"));
    let newest = segments(&disk).into_iter().find(holds).expect("it is in the journal");
    let (gone, over) = (disk.fork(2), disk.fork(3));
    gone.take(&newest);
    over.place(&newest, &older);
    for (what, disk) in [("gone", gone), ("an older one over it", over)] {
        let why = memory_on(&disk).health().degraded;
        assert!(why.as_ref().is_some_and(|why| why.contains(&newest)), "{what}: {why:?}");
    }
}

#[test]
fn where_acknowledged_records_are_missing_reads_are_served_and_nothing_is_touched() {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    for name in ["Web", "B", "C"] {
        put(&store, name, "a").expect("new");
    }
    drop(store);
    let segment = segments(&disk).remove(0);
    let mut text = disk.peek(&segment).expect("it is there");
    let at = text.windows(4).position(|bytes| bytes == b"%42\"").expect("the record of B") - 30;
    text[at] ^= 1;
    disk.place(&segment, &text);
    let before = disk.tree();
    let steps = disk.steps();
    let store = memory_on(&disk);
    let why = store.health().degraded.expect("it says so");
    assert!(why.starts_with("wal/0000000001.jsonl, offset 8192: record 4 is missing: "), "{why}");
    assert_eq!(specs(&store), [("C".to_owned(), "a".to_owned()), ("Web".to_owned(), "a".to_owned())]);
    assert_eq!(store.get(&key("D")).expect_err("what is missing may be that").why, why);
    let Err(Refused::Disk { why: refused, space: false }) = store.write(create(pod("D", "a", None))) else {
        panic!("it is written")
    };
    assert_eq!(refused, why);
    let now = store.get(&key("Web")).expect("whole").expect("there");
    assert!(matches!(store.write(update(pod("Web", "a", Some("up")), now.revision)), Err(Refused::Disk { .. })));
    assert_eq!(store.tend(), None);
    store.close().expect("nothing is to be closed");
    assert_eq!(disk.tree(), before);
    assert_eq!(disk.peek(&segment).expect("it is there"), text);
    assert!(disk.steps() > steps);
}

#[test]
fn on_a_full_disk_deletes_go_on_until_there_is_room_again() {
    let disk = SimDisk::new(1);
    let store = open_with(&disk, Setup { segment_bytes: 128 << 10, ..Setup::SMALL }).store;
    for number in 0..10 {
        put(&store, &format!("P{number}"), &"x".repeat(5_000)).expect("new");
    }
    disk.fill(0);
    store.tend();
    let Err(Refused::Disk { space: true, why }) = put(&store, "New", "a") else { panic!("where to?") };
    assert!(why.contains("full"), "{why}");
    for number in 0..5 {
        let seen = store.get(&key(&format!("P{number}"))).expect("whole").expect("there").revision;
        store.write(Write::Delete { key: key(&format!("P{number}")), seen }).expect("it makes room");
    }
    put(&store, "P9", "short").expect("it shrinks");
    disk.fill(10 << 20);
    store.tend();
    put(&store, "New", "a").expect("there is room");
    assert_eq!(store.health().degraded, None);
    drop(store);
    assert_eq!(memory_on(&disk).list(&PODS, None).items.len(), 6);
}

#[test]
fn the_directory_of_before_the_journal_opens_as_it_is() {
    let disk = SimDisk::new(1);
    let text = |name: &str, revision: u64| {
        let mut object = pod(name, "a", None);
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        serde_json::to_string_pretty(&object).expect("JSON")
    };
    disk.place(WEB, text("Web", 7).as_bytes());
    let mut head = r#"{"format":1,"store":"id","reserved":9,"clean":true,"files":123"#.to_owned();
    let crc = document::crc32(head.as_bytes());
    head.push_str(&format!(",\"crc\":\"{crc:08x}\"}}\n"));
    disk.place("HEAD.json", head.as_bytes());
    let store = memory_on(&disk);
    assert_eq!((store.uuid(), store.revision()), ("id", Revision(9)));
    assert_eq!(store.get(&key("Web")).expect("whole").expect("there").revision, Revision(7));
    assert!(
        String::from_utf8_lossy(&disk.peek("HEAD.json").expect("it is there"))
            .starts_with(r#"{"format":4,"store":"id","wal":{"#)
    );
}

#[test]
fn a_file_that_the_journal_is_ahead_of_does_not_count() {
    for broken in [false, true] {
        let disk = SimDisk::new(1);
        let store = memory_on(&disk);
        put(&store, "Web", "a").expect("new");
        store.checkpoint().expect("the disk is well");
        let last = put(&store, "Web", "b").expect("seen").revision;
        drop(store);
        let text = String::from_utf8(disk.peek(WEB).expect("its file")).expect("text").replace("\"a\"", "\"by hand\"");
        disk.overwrite(WEB, if broken { b"{" } else { text.as_bytes() });
        let store = memory_on(&disk);
        assert_eq!(specs(&store)[0].1, "b");
        let now = store.get(&key("Web")).expect("whole").expect("there");
        assert_eq!(now.revision, last);
        drop(store);
        disk.power_loss();
        let store = memory_on(&disk);
        let again = store.get(&key("Web")).expect("whole").expect("there");
        assert_eq!((again.revision, spec_of(&again)), (now.revision, spec_of(&now)), "it was made durable");
        put(&store, "Web", "c").expect("seen");
        drop(store);
        assert_eq!(specs(&memory_on(&disk))[0].1, "c");
    }
}

/// Puts every object's file there again, as a copy without attributes does.
fn copy_without_stamps(disk: &SimDisk) {
    for path in disk.tree().iter().filter(|path| path.starts_with("objects/")) {
        disk.place(path, &disk.peek(path).expect("it is there"));
    }
}

#[test]
fn a_directory_that_was_copied_without_stamps_was_not_edited() {
    for closed in [true, false] {
        let disk = SimDisk::new(1);
        let store = memory_on(&disk);
        for name in ["Web", "B", "C"] {
            put(&store, name, "a").expect("new");
        }
        store.checkpoint().expect("the disk is well");
        if closed {
            store.close().expect("the disk is well");
        }
        let revisions =
            |store: &FlatStore| store.list(&PODS, None).items.iter().map(|stored| stored.revision).collect::<Vec<_>>();
        let before = revisions(&store);
        drop(store);
        copy_without_stamps(&disk);
        // Some have got their stamps when the power goes.
        for steps in 0..4 {
            let store = memory_on(&disk);
            assert_eq!(revisions(&store), before, "closed {closed}, {steps} steps");
            let mut checkpoint = store.begin_checkpoint().expect("the disk is well").expect("stamps are missing");
            for _ in 0..steps {
                checkpoint.step().expect("the disk is well");
            }
            drop((checkpoint, store));
        }
        let store = memory_on(&disk);
        store.checkpoint().expect("the disk is well");
        drop(store);
        // From here on a file without one was replaced.
        let text = String::from_utf8(disk.peek(WEB).expect("its file")).expect("text").replace("\"a\"", "\"by hand\"");
        disk.place(WEB, text.as_bytes());
        let store = memory_on(&disk);
        assert_eq!(
            specs(&store),
            [("B", "a"), ("C", "a"), ("Web", "by hand")].map(|(name, spec)| (name.to_owned(), spec.to_owned()))
        );
        assert_ne!(revisions(&store), before);
    }
}

#[test]
fn a_copy_that_gets_its_stamps_when_the_power_goes_is_whole() {
    for seed in 0..60 {
        let disk = SimDisk::new(seed);
        let store = memory_on(&disk);
        for name in ["Web", "B", "C"] {
            put(&store, name, "a").expect("new");
        }
        store.close().expect("the disk is well");
        drop(store);
        copy_without_stamps(&disk);
        let store = memory_on(&disk);
        let before = specs(&store);
        let mut checkpoint = store.begin_checkpoint().expect("the disk is well").expect("stamps are missing");
        while checkpoint.step().expect("the disk is well") {}
        drop((checkpoint, store));
        disk.power_loss();
        let store = memory_on(&disk);
        assert_eq!((specs(&store), store.health().damaged.len()), (before, 0), "seed {seed}");
    }
}

#[test]
fn writers_share_batches_and_each_gets_its_own_answer() {
    let dir = std::env::temp_dir().join(format!("coracle-store-{}-together", std::process::id()));
    std::fs::remove_dir_all(&dir).ok();
    let store = FlatStore::open(&dir, None, &rules()).expect("it opens").store;
    let (writers, rounds) = (8, 40);
    thread::scope(|scope| {
        for writer in 0..writers {
            let store = &store;
            scope.spawn(move || {
                let own = format!("W{writer}");
                for round in 0..rounds {
                    let stored = put(store, &own, &round.to_string()).expect("nobody else writes it");
                    assert_eq!((stored.key.name.as_str(), spec_of(&stored)), (own.as_str(), round.to_string()));
                    // Everybody wants this one; one at a time gets it.
                    put(store, "Shared", &format!("{writer} {round}")).ok();
                }
            });
        }
    });
    let revision = store.revision();
    let shared = store.get(&key("Shared")).expect("whole").expect("there");
    assert_eq!(store.list(&PODS, None).items.len(), writers + 1);
    // Killed: nothing is closed.
    drop(store);
    let store = loop {
        match FlatStore::open(&dir, None, &rules()) {
            Ok(opened) => break opened.store,
            // The keeper may be at work yet.
            Err(OpenError::InUse { .. }) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    assert!(store.revision() >= revision);
    assert_eq!(store.get(&key("Shared")).expect("whole").expect("there").json, shared.json);
    assert!(
        (0..writers)
            .all(|writer| spec_of(&store.get(&key(&format!("W{writer}"))).expect("whole").expect("there")) == "39")
    );
    store.close().expect("the disk is well");
    drop(store);
    let store = FlatStore::open(&dir, None, &rules()).expect("it opens").store;
    assert!(store.get(&key("Shared")).expect("whole").is_some());
    drop(store);
    std::fs::remove_dir_all(&dir).expect("it is ours");
}

/// What it held nobody can say, but that it was written to: the next one stood ready.
#[test]
fn the_newest_segment_is_missed_where_it_was_taken_away_or_another_put_over_it() {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    // Each on to a segment of its own.
    let put = |name: &str| {
        store.write(create(pod(name, &"x".repeat(20_000), None))).expect("it is new");
        store.tend();
    };
    ["A", "B", "C"].iter().for_each(|name| put(name));
    store.checkpoint().expect("the disk is well");
    ["D", "E", "F"].iter().for_each(|name| put(name));
    drop(store);
    let segments: Vec<String> = disk.tree().into_iter().filter(|path| path.starts_with("wal/")).collect();
    let (oldest, newest) = (&segments[0], &segments[segments.len() - 2]);
    let text = |path: &str| String::from_utf8(disk.peek(path).expect("a segment")).expect("text");
    assert!(text(newest).contains("\"F\"") && !text(&segments[segments.len() - 1]).contains('{'), "{segments:?}");
    let has_doubt = |disk: &SimDisk| {
        let health = memory_on(disk).health();
        assert_eq!(health.degraded, None);
        health
            .damaged
            .iter()
            .any(|damage| damage.file.ends_with("-may-be-missing") && damage.why.contains("wal/ ends before"))
    };
    assert!(!has_doubt(&disk.fork(2)));
    let (taken, moved) = (disk.fork(3), disk.fork(4));
    taken.take(newest);
    moved.place(newest, text(oldest).as_bytes());
    moved.take(oldest);
    assert!(has_doubt(&taken) && has_doubt(&moved));
    assert!(has_doubt(&taken) && has_doubt(&moved), "until a person has looked");
}

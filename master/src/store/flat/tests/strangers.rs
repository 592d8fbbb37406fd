//! Tests of foreign and unreadable files, on a real file system: each start serves everything else and says so.

use super::crash::spec_of;
use super::*;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// A data directory with the object `Web`, closed in order or killed.
struct Dir(PathBuf);

impl Dir {
    fn new(test: &str, closed: bool) -> Dir {
        let dir = std::env::temp_dir().join(format!("coracle-strangers-{}-{test}", std::process::id()));
        fs::remove_dir_all(&dir).ok();
        let dir = Dir(dir);
        let store = dir.open().expect("it is new");
        store.write(create(pod("Web", "a", None))).expect("new");
        store.checkpoint().expect("the disk is well");
        if closed {
            store.close().expect("the disk is well");
        }
        store.halt();
        dir
    }

    fn open(&self) -> Result<FlatStore, OpenError> {
        FlatStore::open_in(&self.0, None, &rules(), Setup::SMALL).map(|opened| opened.store)
    }

    fn segments(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let found = fs::read_dir(self.at("wal")).expect("a folder").map(|entry| entry.expect("an entry").path());
        found.map(|path| (path.clone(), fs::read(path).expect("ours"))).collect()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn web(store: &FlatStore) -> Option<String> {
    store.get(&key("Web")).expect("whole").map(|stored| spec_of(&stored))
}

/// What stands in the way is set aside and said, `Web` is there, it can be written and checkpointed, and the next start
/// finds all in order.
fn check(test: &str, lay: impl Fn(&Dir), aside: &str) {
    for closed in [true, false] {
        let dir = Dir::new(&format!("{test}-{closed}"), closed);
        lay(&dir);
        let store = dir.open().expect("it starts");
        let health = store.health();
        assert_eq!(health.degraded, None, "{test}");
        let files: Vec<&str> = health.damaged.iter().map(|damage| damage.file.as_str()).collect();
        assert_eq!(files, if aside.is_empty() { vec![] } else { vec![aside] }, "{test}: {health:?}");
        assert!(aside.is_empty() || fs::symlink_metadata(dir.at(aside)).is_ok(), "{test}");
        assert_eq!(web(&store).as_deref(), Some("a"), "{test}");
        let seen = store.get(&key("Web")).expect("whole").expect("there").revision;
        store.write(update(pod("Web", "b", None), seen)).expect("seen");
        store
            .write(create(pod("x", "a", None)))
            .map(drop)
            .unwrap_or_else(|refused| assert!(matches!(refused, Refused::Damaged { .. })));
        store.checkpoint().unwrap_or_else(|error| panic!("{test}: {error}"));
        store.close().expect("the disk is well");
        store.halt();
        drop(store);
        let store = dir.open().expect("it starts again");
        assert_eq!((web(&store).as_deref(), store.health().degraded), (Some("b"), None), "{test}");
        store.halt();
    }
}

#[test]
fn what_stands_in_the_way_is_set_aside() {
    let file = |path: &'static str| {
        move |dir: &Dir| {
            fs::remove_dir_all(dir.at(path)).ok();
            fs::write(dir.at(path), "mine").expect("ours");
        }
    };
    let folder = |path: &'static str| {
        move |dir: &Dir| {
            fs::remove_file(dir.at(path)).ok();
            fs::create_dir_all(dir.at(path).join("mine")).expect("ours");
        }
    };
    check("spare-file", file("spare"), "quarantine/0001-foreign/spare");
    check("tmp-file", file("tmp"), "quarantine/0001-foreign/tmp");
    check("quarantine-file", file("quarantine"), "quarantine/0001-foreign/quarantine");
    check("tmp-head", folder("tmp/HEAD.json"), "quarantine/0001-foreign/tmp/HEAD.json");
    check("tmp-one", folder("tmp/1"), "quarantine/0001-foreign/tmp/1");
    check("spare-next", folder("spare/next.jsonl"), "quarantine/0001-foreign/spare/next.jsonl");
    check(
        "object-folder",
        folder("objects/core/pods/default/x.json"),
        "quarantine/0001-foreign/core/pods/default/x.json",
    );
    let level = |dir: &Dir| fs::write(dir.at("objects/core/services"), "mine").expect("ours");
    check("level-file", level, "quarantine/0001-foreign/core/services");
    let link = |dir: &Dir| symlink("/etc/hostname", dir.at("objects/core/pods/default/x.json")).expect("ours");
    check("link", link, "quarantine/0001-foreign/core/pods/default/x.json");
    let tmp_link = |dir: &Dir| symlink("/nowhere/at/all", dir.at("tmp/1")).expect("ours");
    check("tmp-link", tmp_link, "");
    let raw = |dir: &Dir| fs::write(dir.at("objects").join(OsStr::from_bytes(b"caf\xe9.json")), "{}").expect("ours");
    for closed in [true, false] {
        let dir = Dir::new(&format!("raw-{closed}"), closed);
        raw(&dir);
        let store = dir.open().expect("it starts");
        assert_eq!(store.health().degraded, None);
        assert_eq!(store.health().damaged, []);
        let mut backup: Vec<u8> = store.backup(Vec::new()).flat_map(|piece| piece.to_vec()).collect();
        backup.truncate(backup.iter().position(|byte| *byte == b'\n').expect("its first line"));
        assert!(
            String::from_utf8_lossy(&backup).contains("objects/caf\u{fffd}.json"),
            "it is named, and left where it is"
        );
        assert!(dir.at("objects").join(OsStr::from_bytes(b"caf\xe9.json")).exists());
        store.halt();
    }
}

#[test]
fn a_folder_in_the_place_of_an_objects_file_deletes_nothing() {
    let dir = Dir::new("object-is-folder", true);
    let path = dir.at("objects").join(names::path(&key("Web")));
    fs::remove_file(&path).expect("its file");
    fs::create_dir_all(path.join("mine")).expect("ours");
    for _ in 0..2 {
        let store = dir.open().expect("it starts");
        store.get(&key("Web")).expect_err("nobody knows what it is");
        assert!(matches!(store.write(create(pod("Web", "b", None))), Err(Refused::Damaged { .. })));
        store.halt();
    }
}

/// Somebody puts something in the way while the master runs: it is set aside at the next checkpoint, said, and nothing
/// else is the worse.
fn check_running(test: &str, lay: impl Fn(&Dir), aside: &str) {
    let dir = Dir::new(&format!("running-{test}"), true);
    let store = dir.open().expect("it starts");
    let seen = store.get(&key("Web")).expect("whole").expect("there").revision;
    lay(&dir);
    store.write(update(pod("Web", "b", None), seen)).expect("seen");
    store.write(create(pod("x", "a", None))).expect("new");
    store.checkpoint().unwrap_or_else(|error| panic!("{test}: {error}"));
    let health = store.health();
    assert_eq!((&health.degraded, &health.behind), (&None, &None), "{test}");
    let said = health.remarks.iter().filter(|remark| remark.contains(aside)).count();
    assert_eq!(
        (said, health.remarks.len()),
        if aside.is_empty() { (0, 0) } else { (1, 1) },
        "{test}: {:?}",
        health.remarks
    );
    assert!(fs::symlink_metadata(dir.at(aside)).is_ok(), "{test}");
    assert!(
        fs::read_to_string(dir.at("objects/core/pods/default/x.json")).expect("its file").contains("\"a\""),
        "{test}"
    );
    store
        .write(Write::Delete { key: key("x"), seen: store.get(&key("x")).expect("whole").expect("there").revision })
        .expect("seen");
    store.close().expect("the disk is well");
    store.halt();
    drop(store);
    let store = dir.open().expect("it starts again");
    let health = store.health();
    assert_eq!(
        (web(&store).as_deref(), health.degraded, health.damaged, health.edits),
        (Some("b"), None, vec![], vec![]),
        "{test}"
    );
    assert!(store.get(&key("x")).expect("whole").is_none());
    store.halt();
}

#[test]
fn what_comes_in_the_way_of_a_running_master_is_set_aside_at_once() {
    let file = |path: &'static str| {
        move |dir: &Dir| {
            fs::remove_dir_all(dir.at(path)).ok();
            fs::write(dir.at(path), "mine").expect("ours");
        }
    };
    let folder = |path: &'static str| move |dir: &Dir| fs::create_dir_all(dir.at(path).join("mine")).expect("ours");
    let x = "objects/core/pods/default/x.json";
    check_running("object", folder(x), "quarantine/0001-foreign-settled/core/pods/default/x.json");
    check_running(
        "empty",
        |dir| fs::create_dir(dir.at(x)).expect("ours"),
        "quarantine/0001-foreign-settled/core/pods/default/x.json",
    );
    let link = |dir: &Dir| {
        fs::create_dir_all(dir.at("objects/core/pods/default")).expect("ours");
        symlink("/etc/hostname", dir.at(x)).expect("ours");
    };
    check_running("link", link, "quarantine/0001-edited-settled/core/pods/default/x.json");
    check_running("tmp", file("tmp"), "quarantine/0001-foreign-settled/tmp");
    check_running("tmp-one", folder("tmp/1"), "quarantine/0001-foreign-settled/tmp/1");
    check_running("tmp-head", folder("tmp/HEAD.json"), "quarantine/0001-foreign-settled/tmp/HEAD.json");
    let head = |dir: &Dir| {
        fs::remove_file(dir.at("HEAD.json")).expect("ours");
        fs::create_dir_all(dir.at("HEAD.json/mine")).expect("ours");
    };
    check_running("head", head, "quarantine/0001-foreign-settled/HEAD.json");
    check_running("tmp-gone", |dir| fs::remove_dir_all(dir.at("tmp")).expect("ours"), "");
}

#[test]
fn files_that_cannot_be_written_are_told_at_once_and_brought_as_soon_as_they_can() {
    let disk = super::sim::SimDisk::new(1);
    let store = memory_on(&disk);
    store.write(create(pod("Web", "a", None))).expect("new");
    disk.fail(0..1_000, super::sim::EIO);
    assert!(store.checkpoint().is_err());
    let behind = store.health().behind.expect("it is told");
    assert!(behind.contains("Input/output error"), "{behind}");
    disk.heal();
    store.checkpoint().expect("the disk is well");
    assert_eq!(store.health().behind, None);
}

#[test]
fn a_journal_that_is_no_folder_is_set_aside_where_it_was_closed_and_missed_otherwise() {
    let lay = |dir: &Dir| {
        fs::remove_dir_all(dir.at("wal")).expect("ours");
        fs::write(dir.at("wal"), "mine").expect("ours");
    };
    let dir = Dir::new("wal-closed", true);
    lay(&dir);
    let store = dir.open().expect("it starts");
    assert_eq!((web(&store).as_deref(), store.health().degraded), (Some("a"), None));
    assert_eq!(store.health().damaged[0].file, "quarantine/0001-foreign/wal");
    store.halt();
    let dir = Dir::new("wal-killed", false);
    lay(&dir);
    let store = dir.open().expect("it starts");
    assert_eq!(web(&store).as_deref(), Some("a"));
    assert!(store.health().degraded.is_some_and(|why| why.contains("salvage")));
    assert_eq!(fs::read(dir.at("wal")).expect("untouched"), b"mine");
    assert!(store.get(&key("other")).is_err(), "what is missing may be that");
    store.halt();
}

/// The journal of one store is none of another's, whichever part of it was copied in, and nothing is lost for it.
#[test]
fn what_belongs_to_another_store_is_no_journal_of_this_one() {
    let wal = |from: &Dir, to: &Dir| {
        fs::remove_dir_all(to.at("wal")).expect("ours");
        fs::create_dir(to.at("wal")).expect("ours");
        for entry in fs::read_dir(from.at("wal")).expect("a folder") {
            let entry = entry.expect("an entry");
            fs::copy(entry.path(), to.at("wal").join(entry.file_name())).expect("ours");
        }
    };
    let head = |from: &Dir, to: &Dir| _ = fs::copy(from.at("HEAD.json"), to.at("HEAD.json")).expect("ours");
    for (what, copy) in [("head", &head as &dyn Fn(&Dir, &Dir)), ("wal", &wal)] {
        for (closed, other_closed) in [(false, false), (false, true), (true, false), (true, true)] {
            let (dir, other) = (Dir::new("mixed", closed), Dir::new("mixed-other", other_closed));
            let own = (fs::read(dir.at("HEAD.json")).expect("ours"), dir.segments());
            copy(&other, &dir);
            let store = dir.open().expect("it starts");
            let why =
                store.health().degraded.unwrap_or_else(|| panic!("{what} {closed} {other_closed}: nobody says it"));
            assert!(why.contains("another store's journal") && why.contains("wal/0"), "{why}");
            assert!(store.write(create(pod("x", "a", None))).is_err());
            store.halt();
            drop(store);
            fs::write(dir.at("HEAD.json"), own.0).expect("ours");
            fs::remove_dir_all(dir.at("wal")).expect("ours");
            fs::create_dir(dir.at("wal")).expect("ours");
            own.1.iter().for_each(|(path, text)| fs::write(path, text).expect("ours"));
            let store = dir.open().expect("it starts");
            assert_eq!(
                (store.health().degraded, web(&store).as_deref()),
                (None, Some("a")),
                "{what} {closed} {other_closed}: all is as it was"
            );
            store.halt();
        }
    }
}

#[test]
fn objects_that_are_all_gone_are_missed() {
    for (how, says) in [("gone", "is gone"), ("empty", "is empty"), ("file", "is no folder")] {
        for closed in [true, false] {
            let dir = Dir::new(&format!("objects-{how}-{closed}"), closed);
            fs::remove_dir_all(dir.at("objects")).expect("ours");
            match how {
                "empty" => fs::create_dir(dir.at("objects")).expect("ours"),
                "file" => fs::write(dir.at("objects"), "mine").expect("ours"),
                _ => {}
            }
            let store = dir.open().expect("it starts");
            let why = store.health().degraded.expect("it says so");
            assert!(why.contains(&format!("objects {says}")) && why.contains("remove HEAD.json"), "{why}");
            assert!(store.get(&key("Web")).is_err(), "unknown is not absent");
            assert!(store.write(create(pod("x", "a", None))).is_err());
            store.halt();
            drop(store);
            // The way out that it names.
            fs::remove_file(dir.at("HEAD.json")).expect("ours");
            let store = dir.open().expect("it starts");
            store.write(create(pod("x", "a", None))).expect("a new beginning");
            store.checkpoint().expect("the disk is well");
            store.halt();
        }
    }
}

#[test]
fn a_lost_head_is_said() {
    let dir = Dir::new("head", true);
    fs::remove_file(dir.at("HEAD.json")).expect("ours");
    let store = dir.open().expect("it starts");
    assert!(
        store.health().damaged.iter().any(|damage| damage.file == "HEAD.json" && damage.why.contains("it is gone"))
    );
    store.close().expect("the disk is well");
    store.halt();
    drop(store);
    assert!(dir.open().expect("it starts").health().damaged.is_empty());
    // A new directory lacks nothing.
    let dir = std::env::temp_dir().join(format!("coracle-strangers-{}-new", std::process::id()));
    let store = FlatStore::open_in(&dir, None, &rules(), Setup::SMALL).expect("it is new").store;
    assert!(store.health().damaged.is_empty());
    store.halt();
    fs::remove_dir_all(dir).expect("ours");
}

#[test]
fn a_lock_that_is_none_is_named() {
    let dir = Dir::new("lock", true);
    fs::remove_file(dir.at("LOCK")).expect("ours");
    fs::create_dir(dir.at("LOCK")).expect("ours");
    let Err(error) = dir.open() else { panic!("nothing is locked") };
    assert!(error.to_string().contains("LOCK") && error.to_string().contains("move it away"), "{error}");
    fs::remove_dir(dir.at("LOCK")).expect("ours");
    fs::write(dir.at("precious"), "mine").expect("ours");
    symlink("precious", dir.at("LOCK")).expect("ours");
    assert!(dir.open().is_err());
    assert_eq!(fs::read(dir.at("precious")).expect("ours"), b"mine");
}

/// It may be anybody's file: the pid goes to a new one.
#[test]
fn a_lock_that_is_another_file_as_well_is_not_written_to() {
    let dir = Dir::new("lock-linked", true);
    let precious = dir.0.with_extension("precious");
    fs::write(&precious, "mine").expect("ours");
    fs::remove_file(dir.at("LOCK")).expect("ours");
    fs::hard_link(&precious, dir.at("LOCK")).expect("ours");
    let store = dir.open().expect("it starts");
    assert_eq!(fs::read(&precious).expect("ours"), b"mine");
    assert_eq!(fs::read_to_string(dir.at("LOCK")).expect("ours"), format!("{}\n", std::process::id()));
    let Err(error) = dir.open() else { panic!("two masters") };
    assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
    store.halt();
    fs::remove_file(precious).expect("ours");
}

#[test]
fn a_damaged_head_needs_nothing_to_be_done() {
    for text in ["", "{}"] {
        let dir = Dir::new("damaged-head", true);
        fs::write(dir.at("HEAD.json"), text).expect("ours");
        let store = dir.open().expect("it starts");
        let said: Vec<String> = store.health().damaged.iter().map(Damage::to_string).collect();
        assert!(said.len() == 1 && said[0].contains("nothing needs to be done"), "{said:?}");
        store.halt();
    }
}

//! A data directory that is taken away under a master, on a real file system: nothing is acknowledged into nowhere,
//! nothing is written to what lies in its place, and memory still holds everything.

use super::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let place = std::env::temp_dir().join(format!("coracle-gone-{}-{name}", std::process::id()));
        fs::remove_dir_all(&place).ok();
        fs::create_dir(&place).expect("ours");
        Folder(place)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn open(&self, name: &str) -> FlatStore {
        FlatStore::open(&self.at(name), None, &rules()).expect("it opens").store
    }

    fn sh(&self, script: &str) {
        let ended = Command::new("sh").args(["-ec", script]).current_dir(&self.0).status().expect("sh runs");
        assert!(ended.success(), "{script}");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn written(store: &FlatStore, name: &str) -> Result<Stored, Refused> {
    store.write(create(pod(name, "first", None)))
}

fn names(store: &FlatStore) -> String {
    let names: Vec<String> = store.list(&PODS, None).items.iter().map(|stored| stored.key.name.clone()).collect();
    names.join(" ")
}

/// Every path below, with what a file holds.
fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("ours").path()) {
        found.push((entry.clone(), fs::read(&entry).unwrap_or_default()));
        found.extend(tree(&entry));
    }
    found.sort();
    found
}

/// `take`: what somebody does beside the master. `back`: how he puts the directory back; without it is gone for good.
fn check(case: &str, take: &str, back: Option<&str>) {
    let place = Folder::new(case);
    // Another store, for what takes the other's place.
    let other = place.open("other");
    written(&other, "Other").expect("it is new");
    other.close().expect("the disk is well");
    let store = place.open("data");
    written(&store, "a").expect("it is new");
    place.sh(take);
    let instead = tree(&place.at("data"));
    for name in ["b", "c"] {
        let refused = written(&store, name).expect_err("nobody would find it");
        let Refused::Disk { why, space: false } = &refused else { panic!("{case}: {refused:?}") };
        assert!(why.contains("is not the directory any more"), "{case}: {why}");
    }
    let degraded = store.health().degraded.unwrap_or_default();
    assert!(
        degraded.contains(&place.at("data").display().to_string()) && degraded.contains("coracle-master backup"),
        "{case}: {degraded}"
    );
    store.flush().expect_err("there is no place for it");
    store.tend();
    store.scrub_one();
    assert_eq!(tree(&place.at("data")), instead, "{case}: what lies there is somebody else's");
    let saved: Vec<u8> = store.backup(Vec::new()).flat_map(|piece| piece.to_vec()).collect();
    restore(&place.at("saved"), || Ok(&*saved)).unwrap_or_else(|why| panic!("{case}: {why}"));
    assert_eq!(names(&place.open("saved")), "a", "{case}");
    if let Some(back) = back {
        place.sh(back);
        store.flush().expect("it is there again");
        written(&store, "d").unwrap_or_else(|refused| panic!("{case}: {refused}"));
        assert_eq!(store.health().degraded, None, "{case}");
        store.halt();
        drop(store);
        let store = place.open("data");
        assert_eq!((&*names(&store), store.health().degraded, store.health().damaged), ("a d", None, vec![]), "{case}");
    }
}

#[test]
fn a_directory_that_is_taken_away_takes_no_write() {
    check("removed", "rm -r data || rm -r data", None);
    check("removed and made anew", "rm -r data; mkdir data", None);
    check("moved", "mv data away", Some("mv away data"));
    check("another in its place", "mv data away; mkdir data", Some("rmdir data; mv away data"));
    check("another store in its place", "mv data away; cp -a other data", Some("rm -r data; mv away data"));
}

/// What is only missing in it is made anew from memory, once who wrote has been told.
#[test]
fn what_is_taken_out_of_a_directory_is_made_anew() {
    for (case, take) in [
        ("journal", "rm -r data/wal"),
        ("segments", "rm data/wal/*"),
        ("all", "rm -r data/*"),
        ("moved", "mv data/wal away"),
    ] {
        let place = Folder::new(&format!("inside-{case}"));
        let store = place.open("data");
        written(&store, "a").expect("it is new");
        written(&store, "Whole").expect("it is new");
        store.flush().expect("the disk is well");
        written(&store, "b").expect("it is new");
        place.sh(take);
        let refused = written(&store, "c").expect_err("it is not durable");
        assert!(refused.to_string().contains("somebody took away the segment"), "{case}: {refused}");
        store.flush().expect("the disk is well");
        assert_eq!(store.health().degraded, None, "{case}");
        let remarks = store.health().remarks;
        assert!(remarks.len() == 1 && remarks[0].contains("took away a segment"), "{case}: {remarks:?}");
        written(&store, "d").unwrap_or_else(|refused| panic!("{case}: {refused}"));
        store.halt();
        drop(store);
        let store = place.open("data");
        assert_eq!(
            (&*names(&store), store.health().degraded, store.health().damaged),
            ("Whole a b d", None, vec![]),
            "{case}"
        );
    }
}

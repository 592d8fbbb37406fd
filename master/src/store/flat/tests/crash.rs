//! Cuts and failures at every step of the disk. Whatever happens: what was acknowledged is there, what was refused or
//! in flight is there whole or not at all, nothing deleted comes back, and no revision goes back or means two things.
//!
//!     CORACLE_SEED=17         this history alone, told step by step
//!     CORACLE_HISTORIES=5000  so many

use super::lives::{Setting, Tally, history};
use super::sim::{Careless, EIO, ENOSPC, SimDisk};
use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// In CI.
const HISTORIES: u64 = 4_700;
const SEALED_HISTORIES: u64 = 700;
/// Fewer say little.
const CUTS_MIN: u64 = 100_000;

pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// A panic of the store is a broken promise, too.
pub fn broken(seed: u64, setting: Setting) -> Result<Tally, String> {
    catch_unwind(AssertUnwindSafe(|| history(seed, setting))).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panics: {}", said.unwrap_or_default()))
    })
}

#[test]
fn no_cut_and_no_failure_breaks_a_promise() {
    let whole = Setting::WHOLE;
    let seeds = match number("CORACLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CORACLE_HISTORIES").unwrap_or(HISTORIES),
    };
    let count = seeds.end - seeds.start;
    let mut all = Tally::default();
    for seed in seeds {
        match broken(seed, whole) {
            Ok(tally) => all += tally,
            Err(broken) => panic!("CORACLE_SEED={seed}: {broken}"),
        }
    }
    eprintln!("{count} histories: {all:?}");
    assert!(count < HISTORIES || all.cuts > CUTS_MIN, "{all:?}");
}

/// Objects are sealed, written anew by other keys, and purged, while the host is cut.
#[test]
fn no_cut_breaks_a_promise_where_objects_are_sealed() {
    let seeds = match number("CORACLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CORACLE_HISTORIES").unwrap_or(SEALED_HISTORIES),
    };
    for seed in seeds {
        if let Err(broken) = broken(seed, Setting { sealed: true, ..Setting::WHOLE }) {
            panic!("CORACLE_SEED={seed}: {broken}");
        }
    }
}

#[test]
fn a_disk_that_forgets_is_noticed() {
    for careless in [Careless::FileSync, Careless::FolderSync] {
        let noticed = (0..200).find(|seed| broken(*seed, Setting { careless, ..Setting::WHOLE }).is_err());
        assert!(noticed.is_some(), "{careless:?} is not noticed");
    }
}

pub fn spec_of(stored: &Stored) -> String {
    let document: Value = serde_json::from_slice(&stored.json).expect("JSON");
    document["spec"]["is"].as_str().expect("a spec").to_owned()
}

#[test]
fn a_close_settles_what_a_refused_write_left() {
    let mut refused = 0;
    for step in 1..12 {
        let disk = SimDisk::new(step);
        let store = memory_on(&disk);
        let web = store.write(create(pod("Web", "a", None))).expect("new");
        disk.fail(step..step + 30, EIO);
        let answer = store.write(update(pod("Web", "b", None), web.revision));
        disk.heal();
        store.close().expect("the disk is well");
        drop(store);
        let now = memory_on(&disk).get(&key("Web")).expect("whole").expect("there");
        assert_eq!(spec_of(&now), if answer.is_ok() { "b" } else { "a" }, "step {step}");
        refused += u32::from(answer.is_err());
    }
    assert_eq!(refused, 2, "write and fsync; then it is there");
}

#[test]
fn a_full_disk_says_so_and_statuses_go_on() {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    let web = store.write(create(pod("web", "a", None))).expect("it is new");
    disk.fail(0..u64::MAX, ENOSPC);
    let Err(Refused::Disk { why, space }) = store.write(create(pod("b", "b", None))) else { panic!("where to?") };
    assert!(space && why.contains("the next segment of the journal"), "{why}");
    // What fails may have come to the disk all the same.
    assert_eq!(
        store.health().degraded,
        why.strip_suffix("; it may be there after a restart of the master").map(str::to_owned)
    );
    assert!(store.get(&key("b")).expect("whole").is_none());
    let up = store.write(update(pod("web", "a", Some("up")), web.revision)).expect("a status needs no disk");
    assert!(store.health().degraded.is_some(), "nothing was written");
    disk.heal();
    store.write(Write::Delete { key: key("web"), seen: up.revision }).expect("the disk is well");
    assert_eq!(store.health().degraded, None);
}

/// For whoever broke something: which kinds of broken promises there are, and the first seed of each.
#[test]
#[ignore = "a tool, and no test"]
fn survey() {
    let mut classes: std::collections::BTreeMap<String, (u64, u64, String)> = Default::default();
    let mut all = Tally::default();
    for seed in 0..number("CORACLE_HISTORIES").unwrap_or(300) {
        match broken(seed, Setting::WHOLE) {
            Ok(tally) => all += tally,
            Err(broken) => {
                let said = broken
                    .split("life ")
                    .nth(1)
                    .unwrap_or(&broken)
                    .chars()
                    .skip(3)
                    .filter(|c| !c.is_ascii_digit())
                    .take(60)
                    .collect::<String>();
                let class = classes.entry(format!("faulty={} {said}", seed % 3 == 0)).or_insert((0, seed, broken));
                class.0 += 1;
            }
        }
    }
    for (class, (count, seed, example)) in classes {
        eprintln!("{count:4} seed {seed:4} {class}\n        {}", &example[..example.len().min(600)]);
    }
    eprintln!("{all:?}");
}

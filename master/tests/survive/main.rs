//! The real master under load, killed with SIGKILL again and again, and copied while it writes: what it had acknowledged is there.
//!
//! A kill leaves the page cache whole, so this is about the master's own order of things, threads and all; power cuts are the affair of
//! the simulation and of `make test-crash`.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod client;
mod ledger;
mod master;

use client::Client;
use ledger::Ledger;
use master::{Folder, Master};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const WRITERS: usize = 4;
const KILLS: u64 = 30;
/// How long it has written when it is killed.
const KILLED_AFTER_MS_MAX: u64 = 200;
/// Copies of each kind.
const COPIES: u64 = 3;
/// Ways to copy a directory, $1 to $2; what changes or goes while it is copied is no mistake of theirs.
const WAYS: [&str; 3] =
    ["tar -C $1 --sort=name -cf - . | tar -C $2 -xf -", "tar -C $1 --sort=none -cf - . | tar -C $2 -xf -", "cp -a $1/. $2"];

fn ledgers() -> Vec<Mutex<Ledger>> {
    let seed = std::env::var("CORACLE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("CORACLE_SEED={seed}");
    (0..WRITERS).map(|writer| Mutex::new(Ledger::new(writer, seed))).collect()
}

/// Several writers, until the master is gone or `then` is done.
fn under_load<T>(address: SocketAddr, ledgers: &[Mutex<Ledger>], then: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for ledger in ledgers {
            let stop = &stop;
            scope.spawn(move || {
                let mut client = Client::new(address);
                while !stop.load(Ordering::Relaxed) && ledger::write(ledger, &mut client).is_ok() {}
            });
        }
        let answer = then();
        stop.store(true, Ordering::Relaxed);
        answer
    })
}

/// Everything as the ledgers have it.
fn compare(master: &Master, ledgers: &[Mutex<Ledger>], when: &str) {
    let found = Client::new(master.address).configmaps();
    ledgers.iter().for_each(|ledger| ledger.lock().unwrap().compare(&found, when));
}

#[test]
fn a_master_that_is_killed_under_load_loses_nothing_that_it_acknowledged() {
    let folder = Folder::new("killed");
    let ledgers = ledgers();
    for round in 0..KILLS {
        let master = Master::start(&folder, "data");
        compare(&master, &ledgers, &format!("after kill {round}"));
        let pause_ms = (round * 7919 + 13) % KILLED_AFTER_MS_MAX;
        under_load(master.address, &ledgers, || {
            std::thread::sleep(Duration::from_millis(pause_ms));
            master.kill();
        });
    }
    compare(&Master::start(&folder, "data"), &ledgers, "after the last kill");
    assert_eq!(folder.quarantined("data"), [""; 0]);
    let written: usize = ledgers.iter().map(|ledger| ledger.lock().unwrap().acknowledged()).sum();
    assert!(written > KILLS as usize, "{written} writes in {KILLS} rounds are no load");
    println!("{KILLS} kills, {written} acknowledged writes");
}

#[test]
fn a_copy_that_was_made_while_it_writes_opens_with_all_that_was_acknowledged_before() {
    let folder = Folder::new("copied");
    let ledgers = ledgers();
    let master = Master::start(&folder, "data");
    for round in 0..COPIES {
        for (n, way) in WAYS.iter().enumerate() {
            let name = format!("copy-{round}-{n}");
            let copy = folder.make(&name);
            let before = under_load(master.address, &ledgers, || {
                // The writers are at it.
                std::thread::sleep(Duration::from_millis(100));
                let before: Vec<_> = ledgers.iter().map(|ledger| ledger.lock().unwrap().moment()).collect();
                let script = ["-c", way, "sh", &folder.path("data"), &copy];
                let ended = Command::new("sh").args(script).stderr(Stdio::null()).status().unwrap();
                assert!(ended.code().is_some_and(|code| code <= 1), "{way}: {ended}");
                before
            });
            ledgers.iter().for_each(|ledger| ledger.lock().unwrap().settle(&Client::new(master.address).configmaps()));
            let restored = Master::start(&folder, &name);
            let found = Client::new(restored.address).configmaps();
            for (ledger, before) in ledgers.iter().zip(before) {
                ledger.lock().unwrap().compare_copy(&found, &before, way);
            }
            assert_eq!(folder.quarantined(&name), [""; 0], "{way}");
        }
    }
    let written: usize = ledgers.iter().map(|ledger| ledger.lock().unwrap().acknowledged()).sum();
    println!("{} copies, {written} acknowledged writes", COPIES as usize * WAYS.len());
}

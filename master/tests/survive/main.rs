//! The real master under load, killed with SIGKILL again and again, and copied while it writes: what it had
//! acknowledged is there.
//!
//! A kill leaves the page cache whole, so this is about the master's own order of things, threads and all; power cuts
//! are the affair of the simulation and of `make test-crash`.

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
/// The documented order, HEAD.json first and the journal last, from $1 to $2, with extended attributes and without;
/// what changes or goes while it is copied is no mistake of theirs.
const WAYS: [&str; 2] = [
    "tar -C $1 --sort=name -cf - . | tar -C $2 -xf -",
    "tar -C $1 --xattrs --sort=name -cf - . | tar -C $2 --xattrs -xf -",
];

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

fn acknowledged(ledgers: &[Mutex<Ledger>]) -> usize {
    ledgers.iter().map(|ledger| ledger.lock().unwrap().acknowledged()).sum()
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
        let before = acknowledged(&ledgers);
        under_load(master.address, &ledgers, || {
            // However slow the machine is, there is a load.
            while acknowledged(&ledgers) == before {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(pause_ms));
            master.kill();
        });
    }
    compare(&Master::start(&folder, "data"), &ledgers, "after the last kill");
    assert_eq!(folder.quarantined("data"), [""; 0]);
    println!("{KILLS} kills, {} acknowledged writes", acknowledged(&ledgers));
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
    println!("{} copies, {} acknowledged writes", COPIES as usize * WAYS.len(), acknowledged(&ledgers));
}

/// What a command says, and its exit code.
fn command(folder: &Folder, words: &[&str], data: &str, socket: &str) -> (String, Option<i32>) {
    let (data, socket) = (folder.path(data), folder.path(&format!("run/{socket}.sock")));
    let flags = ["--data-dir", &data, "--admin-socket", &socket];
    let out = Command::new(env!("CARGO_BIN_EXE_coracle-master")).args(words).args(flags).output().unwrap();
    (String::from_utf8([out.stdout, out.stderr].concat()).unwrap(), out.status.code())
}

#[test]
fn a_command_does_nothing_to_a_master_of_another_directory() {
    let folder = Folder::new("commands");
    let master = Master::start(&folder, "data");
    folder.make("other");
    std::os::unix::fs::symlink(folder.path("data"), folder.path("link")).unwrap();
    let file = folder.path("backup.jsonl");
    for words in [&["store", "flush"][..], &["backup", &file]] {
        for other in ["other", "nowhere"] {
            let (said, code) = command(&folder, words, other, "data");
            assert_eq!(code, Some(1), "{said}");
            assert!(said.contains(&folder.path("data")) && said.contains(&folder.path(other)), "{said}");
        }
        assert!(!std::path::Path::new(&file).exists());
        let (said, code) = command(&folder, words, "link", "data");
        assert_eq!(code, Some(0), "the same directory by another name: {said}");
        std::fs::remove_file(&file).ok();
    }
    // Where another socket is named, the lock says that somebody is there.
    let (said, code) = command(&folder, &["store", "flush"], "data", "none");
    assert!(code == Some(1) && said.contains("a master is running on it"), "{said}");
    drop(master);
    std::fs::create_dir_all(folder.path("data/objects/acme.example/rockets/default")).unwrap();
    std::fs::write(folder.path("data/objects/acme.example/rockets/default/one.json"), "{}").unwrap();
    let (said, code) = command(&folder, &["backup", &file], "data", "data");
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("rockets/default/one.json: this version knows no"), "{said}");
    let (said, code) = command(&folder, &["restore", &file], "fresh", "data");
    assert!(code == Some(3) && said.contains("not in it: objects/acme.example"), "what the backup lacks: {said}");
    // A record in the middle of the journal is damaged: what is missing is said by whoever is asked.
    let broken = Master::start(&folder, "broken");
    broken.kill();
    drop(broken);
    let segment = folder.path("broken/wal/0000000001.jsonl");
    let mut text = std::fs::read(&segment).unwrap();
    let at = text.windows(11).position(|window| window == b"kube-system").unwrap();
    text[at] = b'K';
    std::fs::write(&segment, text).unwrap();
    let file = folder.path("broken.jsonl");
    for (words, expected) in [(&["store", "flush"][..], 1), (&["backup", &file], 3), (&["store", "verify"], 1)] {
        let (said, code) = command(&folder, words, "broken", "none");
        assert!(code == Some(expected) && said.contains("0000000001.jsonl, offset"), "{words:?} {code:?}: {said}");
    }
    let (said, code) = command(&folder, &["restore", &file], "restored", "none");
    assert!(code == Some(3) && said.contains("0000000001.jsonl, offset"), "{said}");
    let help = Command::new(env!("CARGO_BIN_EXE_coracle-master")).args(["store", "flush", "--help"]).output().unwrap();
    assert!(help.status.success() && String::from_utf8(help.stdout).unwrap().contains("exit code 0"));
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn a_directory_that_is_taken_away_takes_no_write_and_is_saved_from_memory() {
    let folder = Folder::new("gone");
    let master = Master::start(&folder, "data");
    let mut client = Client::new(master.address);
    let mut post =
        |name: &str| client.call("POST", CONFIG_MAPS, &format!(r#"{{"metadata": {{"name": "{name}"}}}}"#)).unwrap();
    assert_eq!(post("before").0, 201);
    // The keeper may put one more file into a folder that is being emptied.
    while let Err(error) = std::fs::remove_dir_all(folder.path("data")) {
        assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty, "{error}");
    }
    for _ in 0..3 {
        let (code, status) = post("after");
        assert!(
            code == 503 && status["message"].as_str().unwrap().contains("is not the directory any more"),
            "{code} {status}"
        );
    }
    assert_eq!(folder.log("data").matches("the store cannot be written to").count(), 1, "{}", folder.log("data"));
    let mut client = Client::new(master.address);
    assert_eq!(client.call("GET", "/readyz", "").unwrap().0, 500);
    let file = folder.path("saved.jsonl");
    let (said, code) = command(&folder, &["backup", &file], "data", "data");
    assert!(code == Some(0) && said.contains("its data directory is not the one any more"), "{code:?}: {said}");
    let (said, code) = command(&folder, &["backup", &file], "nowhere", "data");
    assert!(code == Some(1) && said.contains("is another"), "{code:?}: {said}");
    let (said, code) = command(&folder, &["store", "flush"], "data", "data");
    assert!(code == Some(1) && said.contains("is not the directory any more"), "{code:?}: {said}");
    let (said, code) = command(&folder, &["restore", &file], "saved", "none");
    assert_eq!(code, Some(0), "{said}");
    let restored = Master::start(&folder, "saved");
    let mut client = Client::new(restored.address);
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/before"), "").unwrap().0, 200);
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/after"), "").unwrap().0, 404);
}

#[test]
fn a_directory_that_others_may_enter_is_refused_with_the_line_that_mends_it() {
    let folder = Folder::new("open");
    let data = folder.make("data");
    std::fs::set_permissions(&data, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    folder.make("run");
    let (said, code) = command(&folder, &[], "data", "data");
    assert!(code == Some(1) && said.contains(&format!("run `chmod 0700 {data}`")), "{code:?}: {said}");
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0, "nothing is made in it");
    std::fs::set_permissions(&data, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    Master::start(&folder, "data");
}

/// Only root can become somebody.
#[test]
fn a_command_of_root_leaves_no_file_of_roots() {
    use std::os::unix::fs::{MetadataExt, chown};
    const NOBODY: u32 = 65_534;
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        println!("not root: nothing to see");
        return;
    }
    let folder = Folder::for_all("owned");
    drop(Master::start(&folder, "data"));
    let script = format!("chown -R {NOBODY}:{NOBODY} {}", folder.path("data"));
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    let (said, code) = command(&folder, &[], "data", "data");
    assert!(code == Some(1) && said.contains("run `chown -R root: "), "a master is nobody but the owner: {said}");
    // Root's alone, with its folder.
    folder.make("private");
    let file = folder.path("private/saved.jsonl");
    let stray = |name: &str| {
        let found = Command::new("find").args([&folder.path(name), "!", "-uid", &NOBODY.to_string()]).output().unwrap();
        String::from_utf8(found.stdout).unwrap()
    };
    for words in
        [&["backup", &file][..], &["store", "verify"], &["store", "fsck"], &["store", "flush"], &["store", "salvage"]]
    {
        let (said, code) = command(&folder, words, "data", "none");
        assert_eq!((code, &*stray("data")), (Some(0), ""), "{words:?}: {said}");
    }
    assert_eq!(std::fs::metadata(&file).unwrap().uid(), 0);
    chown(folder.make("empty"), Some(NOBODY), Some(NOBODY)).unwrap();
    for fresh in ["empty", "empty/new"] {
        let (said, code) = command(&folder, &["restore", &file], fresh, "none");
        assert_eq!((code, &*stray(fresh)), (Some(0), ""), "{fresh}: {said}");
        std::fs::remove_dir_all(folder.path(fresh)).unwrap();
        chown(folder.make("empty"), Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

//! Directories that nobody would write: segments and files changed at random. A start never panics, takes no more than
//! linear time, and loses no object but those whose files were changed.
//!
//!     CORACLE_HISTORIES=100000  for long

use super::crash::number;
use super::oracle::all;
use super::sim::{Dice, SimDisk};
use super::*;
use crate::store::flat::journal::scan::scan;
use crate::store::flat::protocol::{Protocol, ProtocolRule};
use crate::store::flat::trial::read_segments;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

const ROUNDS: u64 = 1_500;

/// A disk that a store has lived on: files, a journal that says more, and a volatile past.
fn lived(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    let mut dice = Dice::new(seed);
    let store = memory_on(&disk);
    for round in 0..12 {
        let name = format!("p{}", dice.below(6));
        let object = pod(&name, &format!("{round}{}", "x".repeat(dice.below(300) as usize)), None);
        match store.get(&key(&name)).expect("whole") {
            None => store.write(create(object)),
            Some(now) if dice.one_in(4) => store.write(Write::Delete { key: key(&name), seen: now.revision }),
            Some(now) => store.write(update(object, now.revision)),
        }
        .expect("the disk is well");
        if round == 7 {
            store.checkpoint().expect("the disk is well");
        }
    }
    disk
}

fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    // Newlines fill a segment: what is before them is worth more.
    let end = bytes.iter().rposition(|byte| *byte != b'\n').map_or(0, |last| last + 1);
    let at = dice.below(end as u64 + 1) as usize;
    let to = (at + dice.below(300) as usize).min(bytes.len());
    match dice.below(9) {
        0 => bytes.truncate(at),
        1 => bytes.clear(),
        2 => bytes[at..to].fill(0),
        3 => bytes[at..to].fill(b'\n'),
        4 => bytes[at..to].iter_mut().for_each(|byte| *byte = dice.below(256) as u8),
        5 => {
            let copy = bytes[at..to].to_vec();
            bytes.splice(at..at, copy);
        }
        6 => _ = bytes.drain(at..to),
        7 => {
            let other = dice.below(end as u64 + 1) as usize;
            let (from, to) = (at.min(other), at.max(other));
            bytes[from..to].reverse();
        }
        _ => {
            let digits: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
            if !digits.is_empty() {
                bytes[*dice.pick(&digits)] = b'0' + dice.below(10) as u8;
            }
        }
    }
}

fn texts(store: &FlatStore) -> BTreeMap<Key, String> {
    let text = |stored: &Stored| {
        let mut document: Value = serde_json::from_slice(&stored.json).expect("JSON");
        document["metadata"].as_object_mut().expect("an object").remove("resourceVersion");
        document.to_string()
    };
    all(store).iter().map(|stored| (Key::clone(&stored.key), text(stored))).collect()
}

fn one(seed: u64) {
    let disk = lived(seed % 40);
    let mut dice = Dice::new(seed);
    let before = texts(&memory_on(&disk.fork(seed)));
    let files_only = dice.one_in(3);
    let mut touched = Vec::new();
    for _ in 0..1 + dice.below(3) {
        let tree: Vec<_> = disk.tree().into_iter().filter(|path| !files_only || path.starts_with("objects/")).collect();
        if tree.is_empty() {
            return;
        }
        let path = dice.pick(&tree).clone();
        let mut bytes = disk.peek(&path).expect("it is in the tree");
        mutate(&mut bytes, &mut dice);
        match dice.below(8) {
            0 => disk.take(&path),
            1 => disk.place(&path, &bytes),
            2 if !files_only => {
                disk.take(&path);
                disk.place(&format!("wal/{:010}.jsonl", dice.below(6)), &bytes);
            }
            _ => disk.overwrite(&path, &bytes),
        }
        touched.push(path);
    }
    let steps = disk.steps();
    let ids = Ids { fresh_store: "another".to_owned(), boot: "boot".to_owned() };
    let opened = FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), Setup::SMALL);
    assert!(disk.steps() - steps < 1_000, "{} calls for some files", disk.steps() - steps);
    // A number turned into another may say that a newer master wrote it.
    let store = match opened {
        Ok(opened) => opened.store,
        Err(OpenError::Newer { .. }) => return,
        Err(error) => panic!("it does not start: {error}"),
    };
    let now = texts(&store);
    if files_only {
        for (key, text) in &before {
            let path = format!("objects/{}", names::path(key));
            assert!(
                touched.contains(&path) || now.get(key) == Some(text),
                "{key} is {:?} and was {text}; touched: {touched:?}",
                now.get(key)
            );
        }
    }
    // It can be lived with, and opened again.
    store.write(create(pod("new", "a", None))).map(drop).unwrap_or_else(|refused| {
        assert!(store.health().degraded.is_some(), "{refused}");
    });
    store.close().ok();
    memory_on(&disk);
}

#[test]
fn no_directory_makes_a_start_panic_or_lose_what_nobody_touched() {
    let rounds = number("CORACLE_SEED").map_or(0..number("CORACLE_HISTORIES").unwrap_or(ROUNDS), |seed| seed..seed + 1);
    for seed in rounds {
        catch_unwind(AssertUnwindSafe(|| one(seed))).unwrap_or_else(|_| panic!("CORACLE_SEED={seed}"));
    }
}

#[test]
fn a_segment_of_anything_is_read_in_one_pass() {
    let whole = lived(1).peek("wal/0000000001.jsonl").expect("the first segment");
    for seed in 0..number("CORACLE_HISTORIES").unwrap_or(4 * ROUNDS) {
        let mut dice = Dice::new(seed);
        let segments = (0..1 + dice.below(3)).map(|_| {
            let mut bytes = whole.clone();
            (0..dice.below(4)).for_each(|_| mutate(&mut bytes, &mut dice));
            Bytes::from(bytes)
        });
        let segments: Vec<Bytes> = segments.collect();
        let mut protocol = Protocol::WHOLE;
        for rule in [ProtocolRule::Checksums, ProtocolRule::OwnLines] {
            protocol = if dice.one_in(3) { protocol.without(rule) } else { protocol };
        }
        catch_unwind(AssertUnwindSafe(|| read_segments(&segments, &protocol)))
            .unwrap_or_else(|_| panic!("seed {seed}"));
    }
    // Damage everywhere costs no more than reading it.
    let dirt = Bytes::from(b"{\"n\":1,\"b\":1,".repeat(80_000));
    assert_eq!(scan(&dirt, 1, &Protocol::WHOLE).len(), 1);
}

//! Starting, memory, lists and watches.

use super::etcd::Etcd;
use super::layers::{Layer, Real, Which};
use super::objects::{self, with_rules};
use coracle_api::meta::Resource;
use coracle_master::store::{FlatStore, Scope, Store};
use coracle_tests::block::card::{Card, Pace};
use coracle_tests::block::host::{Host, Kind, Mounted, run};
use std::fs::{self, File};
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Rounds of a start; the median counts.
const ROUNDS: usize = 5;
const MANY: [u64; 2] = [10_000, 50_000];
const DISK_MB: u64 = 640;
const WRITERS: u64 = 8;
const WATCHERS: u64 = 1000;
const EVENTS: u64 = 300;
/// The first argument of a process that opens a store and says what that took.
const OPEN: &str = "open-store";

/// An ext4 with a store of so many objects, closed; in a file in memory.
fn prepared(host: &Host, objects: u64) -> Result<PathBuf, String> {
    let image = host.memory().join(format!("objects-{objects}.img"));
    if image.exists() {
        return Ok(image);
    }
    File::create(&image).and_then(|file| file.set_len(DISK_MB << 20)).map_err(|e| e.to_string())?;
    Kind::Ext4.make(&image)?;
    let mounted = Mounted::image(Kind::Ext4, &image, &host.memory().join("prepared"))?;
    let layer = Which::Store.open(&mounted.at)?;
    let outcomes: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let layer = &layer;
        let fill = move |first: u64| {
            (first..objects).step_by(WRITERS as usize).try_for_each(|n| layer.put(&|| objects::pod(n, 1)))
        };
        let threads: Vec<_> = (0..WRITERS).map(|first| scope.spawn(move || fill(first))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a writer panicked".to_owned())))
            .collect()
    });
    outcomes.into_iter().collect::<Result<(), String>>()?;
    layer.close()?;
    Ok(image)
}

/// What a process of its own says of a start.
struct Start {
    ms: f64,
    /// What its memory grew by.
    grown: u64,
    json: u64,
}

fn start(at: &Path, close: bool) -> Result<Start, String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let said = run(Command::new(me).arg(OPEN).arg(at).arg(if close { "close" } else { "kill" }))?;
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    match numbers[..] {
        [ms, grown, json] => Ok(Start { ms, grown: grown as u64, json: json as u64 }),
        _ => Err(format!("the process that opened the store said {said:?}")),
    }
}

/// True: this process was one.
pub fn child() -> bool {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, word, at, end] = &arguments[..] else { return false };
    if word != OPEN {
        return false;
    }
    let before = resident();
    let begun = Instant::now();
    let opened = with_rules(|rules| FlatStore::open(&Path::new(at).join("data"), None, rules)).expect("a store opens");
    let ms = begun.elapsed().as_secs_f64() * 1e3;
    let grown = resident().saturating_sub(before);
    let json: usize =
        opened.store.list(&Resource::core("pods"), None).items.iter().map(|stored| stored.json.len()).sum();
    println!("{ms} {grown} {json}");
    if end == "close" {
        opened.store.close().expect("a store closes");
    }
    true
}

fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() << 10
}

pub fn starts(host: &Host) -> Result<String, String> {
    let mut text = String::new();
    for objects in MANY {
        let image = prepared(host, objects)?;
        let mounted = Mounted::image(Kind::Ext4, &image, &host.memory().join("prepared"))?;
        let files = mounted.at.join("data/objects");
        read_all(&files)?;
        let (mut clean, mut killed, mut raw, mut grown, mut json) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), 0);
        start(&mounted.at, true)?;
        for _ in 0..ROUNDS {
            let started = start(&mounted.at, false)?;
            clean.push(started.ms);
            grown.push(started.grown as f64);
            json = started.json;
            killed.push(start(&mounted.at, true)?.ms);
            let begun = Instant::now();
            read_all(&files)?;
            raw.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        let [clean, killed, raw, grown] = [clean, killed, raw, grown].map(median);
        let over = (grown - 1.4 * json as f64) / objects as f64;
        text += &format!(
            "  {objects} objects, warm: {clean:.0} ms = {:.1} x a raw read of the files ({raw:.0} ms); after a kill \
             {killed:.0} ms = {:.1} x\n",
            clean / raw,
            killed / raw
        );
        text += &format!(
            "  memory: {:.1} MB for {:.1} MB of JSON = {:.2} x, {:.0} bytes an object beside its JSON; aim: at most \
             1.4 x and 300 bytes an object: {}\n",
            grown / 1e6,
            json as f64 / 1e6,
            grown / json as f64,
            (grown - json as f64) / objects as f64,
            if over <= 300.0 { "met" } else { "NOT MET" }
        );
    }
    Ok(text)
}

pub fn cold(host: &Host) -> Result<String, String> {
    let image = prepared(host, MANY[0])?;
    let mount = || {
        let card = Card::start(&host.memory().join("card"), DISK_MB, Pace::CARD, None, Some(&image))?;
        Mounted::made(Kind::Ext4, card, &host.memory().join("cold"))
    };
    let started = start(&mount()?.at, true)?.ms;
    let mounted = mount()?;
    let begun = Instant::now();
    read_all(&mounted.at.join("data/objects"))?;
    let raw = begun.elapsed().as_secs_f64() * 1e3;
    let met = if started <= 2.0 * raw { "met" } else { "NOT MET" };
    Ok(format!(
        "  {} objects: {started:.0} ms = {:.2} x a raw read of the files in the order of their inodes ({raw:.0} ms); \
         aim: at most 2 x: {met}\n",
        MANY[0],
        started / raw
    ))
}

/// Every file below, folder by folder in the order of inodes, which is how a card reads fastest.
fn read_all(folder: &Path) -> Result<usize, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut entries: Vec<(u64, PathBuf, bool)> = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        entries.push((entry.ino(), entry.path(), entry.file_type().map_err(failed)?.is_dir()));
    }
    entries.sort();
    let mut bytes = 0;
    for (_, path, is_folder) in entries {
        bytes += if is_folder { read_all(&path)? } else { fs::read(&path).map_err(failed)?.len() };
    }
    Ok(bytes)
}

pub fn list(host: &Host) -> Result<String, String> {
    let objects = MANY[0];
    let mounted = Mounted::image(Kind::Ext4, &prepared(host, objects)?, &host.memory().join("prepared"))?;
    let store =
        with_rules(|rules| FlatStore::open(&mounted.at.join("data"), None, rules)).map_err(|e| e.to_string())?.store;
    let etcd = Etcd::start(&host.memory().join("etcd"))?;
    for n in 0..objects {
        etcd.put(&|| objects::pod(n, 1))?;
    }
    let (mut ours, mut theirs, mut bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let items = store.list(&Resource::core("pods"), None).items;
        let mut text = Vec::new();
        items.iter().for_each(|stored| text.extend_from_slice(&stored.json));
        ours.push(begun.elapsed().as_secs_f64() * 1e3);
        bytes = text.len();
        let begun = Instant::now();
        etcd.range("pods/")?;
        theirs.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Box::new(etcd).close()?;
    store.close().map_err(|e| e.to_string())?;
    let (ours, theirs) = (median(ours), median(theirs));
    Ok(format!(
        "  {ours:.1} ms into one text of {:.1} MB; etcd's range over its socket {theirs:.1} ms = {:.0} x\n",
        bytes as f64 / 1e6,
        theirs / ours
    ))
}

pub fn fan_out(host: &Host) -> Result<String, String> {
    let mounted = Mounted::image(Kind::Ext4, &prepared(host, MANY[0])?, &host.memory().join("prepared"))?;
    let store =
        with_rules(|rules| FlatStore::open(&mounted.at.join("data"), None, rules)).map_err(|e| e.to_string())?.store;
    let layer = Real(store.clone());
    let write = |said: u64| -> Result<f64, String> {
        let begun = Instant::now();
        (0..EVENTS).try_for_each(|n| layer.put(&|| objects::pod(n, said)))?;
        Ok(begun.elapsed().as_secs_f64() * 1e6)
    };
    write(2)?;
    let alone = write(3)?;
    let heard_total = Arc::new(AtomicU64::new(0));
    let scope = Scope { resource: Resource::core("pods"), namespace: None, name: None };
    let watches: Result<Vec<_>, _> = (0..WATCHERS)
        .map(|_| {
            let heard_total = heard_total.clone();
            let sink = Box::new(move |event: &coracle_master::store::Event| {
                heard_total.fetch_add(
                    event.new.as_ref().map_or(0, |stored| u64::from(!stored.json.is_empty())),
                    Ordering::Relaxed,
                );
                true
            });
            store.watch(scope.clone(), Some(store.revision()), sink)
        })
        .collect();
    let watches = watches.map_err(|gone| format!("{gone:?}"))?;
    let watched = write(4)?;
    let heard = heard_total.load(Ordering::Relaxed);
    drop(watches);
    store.close().map_err(|e| e.to_string())?;
    if heard != WATCHERS * EVENTS {
        return Err(format!("{heard} events were told, and not {}", WATCHERS * EVENTS));
    }
    Ok(format!(
        "  a write with {WATCHERS} watchers {:.0} us = {:.1} x one without; {:.3} us an event and watcher\n",
        watched / EVENTS as f64,
        watched / alone,
        (watched - alone) / heard as f64
    ))
}

pub fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

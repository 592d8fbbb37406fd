//! What an object costs in memory, and a start: the promises of the store, kept by processes of their own that do nothing else.

use coracle_api::meta::{Durable, Key, Resource};
use coracle_master::store::{FlatStore, KindRow, Rules, Store, Write};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

const OBJECTS: usize = 10_000;
/// For an object of compact JSON of this length ..
const JSON_BYTES: usize = 2_000;
/// .. this much of its length, and this much more.
const OF_JSON: f64 = 1.4;
const MORE_BYTES: f64 = 300.0;

/// Objects that are written over and over, so often, until the master is killed; all of it is in the journal.
const WRITTEN: usize = 8;
const WRITES: usize = 400;
const WRITTEN_BYTES: usize = 100 << 10;
/// A start reads a segment at a time, and keeps what is said last.
const START_BYTES_MAX: usize = 32 << 20;

/// Says to this program, run once more by itself, where it shall leave a data directory, a journal, or open one.
const FILL: &str = "CORACLE_MEMORY_FILL";
const BURST: &str = "CORACLE_MEMORY_BURST";
const START: &str = "CORACLE_MEMORY_START";

/// One is measured at a time.
static MEASURED: Mutex<()> = Mutex::new(());

#[test]
fn an_object_costs_little_more_than_its_text() {
    let rules = rules();
    if let Ok(folder) = std::env::var(FILL) {
        fill(Path::new(&folder));
        let store = FlatStore::open(&Path::new(&folder).join("data"), None, &rules).expect("it opens").store;
        return store.close().expect("the disk is well");
    }
    let _alone = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = folder("object");
    // Not by this process: what it had left free would count as nothing.
    again("an_object_costs_little_more_than_its_text", FILL, &folder);
    // What the process and a store of nothing take.
    drop(FlatStore::open(&folder.join("empty"), None, &rules).expect("an empty store opens"));
    let before = resident();
    let opened = FlatStore::open(&folder.join("data"), None, &rules).expect("it opens");
    let after = resident();
    assert_eq!(opened.objects, OBJECTS, "{:?}", opened.notes);
    let each = (after - before) as f64 / OBJECTS as f64;
    let json_bytes = opened.store.list(&Resource::core("configmaps"), None).items[0].json.len();
    let promised = OF_JSON * json_bytes as f64 + MORE_BYTES;
    eprintln!("{each:.0} bytes for an object of {json_bytes}, promised are {promised:.0}");
    drop(opened);
    fs::remove_dir_all(&folder).ok();
    assert!(each <= promised, "{each:.0} bytes for an object of {json_bytes}, promised are {promised:.0}");
}

#[test]
fn a_start_after_a_kill_holds_no_journal() {
    let (burst, start) = (std::env::var(BURST), std::env::var(START));
    if let Ok(folder) = burst {
        return write_over_and_over(Path::new(&folder));
    }
    if let Ok(folder) = start {
        let before = peak();
        let opened = FlatStore::open(&Path::new(&folder).join("data"), None, &rules()).expect("it opens");
        let took = peak() - before;
        assert_eq!(opened.objects, WRITTEN, "{:?}", opened.notes);
        return fs::write(Path::new(&folder).join("took"), took.to_string()).expect("room for a number");
    }
    let _alone = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = folder("start");
    again("a_start_after_a_kill_holds_no_journal", BURST, &folder);
    let is_brought = folder.join("data/objects/core/configmaps/default/config-0.json").exists();
    again("a_start_after_a_kill_holds_no_journal", START, &folder);
    let took: usize = fs::read_to_string(folder.join("took")).expect("it was said").parse().expect("a number");
    fs::remove_dir_all(&folder).ok();
    let journal = WRITES * WRITTEN_BYTES;
    eprintln!("{took} bytes for a start that reads {journal} of a journal");
    assert!(!is_brought, "the files say it: is there too little room for a journal?");
    assert!(took <= START_BYTES_MAX, "{took} bytes for a start that reads {journal} of a journal");
}

fn folder(word: &str) -> PathBuf {
    std::env::temp_dir().join(format!("coracle-memory-{}-{word}", std::process::id()))
}

/// Runs one test of this program once more, by itself.
fn again(test: &str, word: &str, folder: &Path) {
    let program = std::env::current_exe().expect("this program");
    let ended = Command::new(program).args(["--exact", test]).env(word, folder).stdout(Stdio::null()).status().expect("it runs");
    assert!(ended.success());
}

/// As a master does that is killed before any file says it.
fn write_over_and_over(folder: &Path) {
    let store = FlatStore::open(&folder.join("data"), None, &rules()).expect("it opens").store;
    let mut seen = Vec::new();
    for write in 0..WRITES {
        let (at, text) = (write % WRITTEN, "x".repeat(WRITTEN_BYTES));
        let key = Key { resource: Resource::core("configmaps"), namespace: "default".to_owned(), name: format!("config-{at}") };
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": key.name, "namespace": "default"},
            "data": {"write": write.to_string(), "text": text},
        });
        let (durable, claims) = (Durable::Whole, Vec::new());
        let write = match seen.get(at) {
            None => Write::Create { key, object, durable, claims },
            Some(seen) => Write::Update { key, object, seen: *seen, durable, claims },
        };
        let revision = store.write(write).expect("the disk is well").revision;
        if at < seen.len() { seen[at] = revision } else { seen.push(revision) }
    }
    store.halt();
}

fn rules() -> Rules<'static> {
    Rules {
        edited: &|_, object, _| Ok(object),
        home: &|_| None,
        told: &|_, _| Some(Durable::Whole),
        kinds: vec![KindRow { resource: Resource::core("configmaps"), api_version: "v1".into(), kind: "ConfigMap".into() }],
        claims: &|_, _| Vec::new(),
        fault: &|_, _| None,
        durable: &|_, _| Durable::Whole,
    }
}

/// Objects' files, as people may have written them.
fn fill(folder: &Path) {
    let at: PathBuf = folder.join("data/objects/core/configmaps/default");
    fs::create_dir_all(&at).expect("a new folder");
    for number in 0..OBJECTS {
        let name = format!("a-config-of-some-name-{number:05}");
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": name, "namespace": "default", "resourceVersion": (number + 1).to_string(),
                "labels": {"app": "web", "app.kubernetes.io/part-of": "shop", "tier": "frontend"},
            },
            "data": {},
        });
        let short = object.to_string().len();
        for line in 0..10 {
            object["data"][format!("line-{line}")] = Value::String("x".repeat((JSON_BYTES - short) / 10 - 12));
        }
        let text = serde_json::to_vec_pretty(&object).expect("a document");
        fs::write(at.join(format!("{name}.json")), text).expect("room for a file");
    }
}

fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").expect("the kernel says it");
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

/// The most that this process has ever had in memory.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("the kernel says it");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("it says that");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<usize>().ok()).expect("a number") << 10
}

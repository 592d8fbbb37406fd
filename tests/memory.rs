//! What an object costs in memory: the promise of the store, kept by a process of its own that does nothing else.

use coracle_api::meta::{Durable, Resource};
use coracle_master::store::{FlatStore, KindRow, Rules, Store};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const OBJECTS: usize = 10_000;
/// For an object of compact JSON of this length ..
const JSON_BYTES: usize = 2_000;
/// .. this much of its length, and this much more.
const OF_JSON: f64 = 1.4;
const MORE_BYTES: f64 = 300.0;

/// Says to this program, run once more by itself, where it shall leave a data directory.
const FILL: &str = "CORACLE_MEMORY_FILL";

#[test]
fn an_object_costs_little_more_than_its_text() {
    let rules = rules();
    if let Ok(folder) = std::env::var(FILL) {
        fill(Path::new(&folder));
        let store = FlatStore::open(&Path::new(&folder).join("data"), None, &rules).expect("it opens").store;
        return store.close().expect("the disk is well");
    }
    let folder = std::env::temp_dir().join(format!("coracle-memory-{}", std::process::id()));
    // Not by this process: what it had left free would count as nothing.
    let program = std::env::current_exe().expect("this program");
    let left = Command::new(program).env(FILL, &folder).stdout(Stdio::null()).status().expect("it runs");
    assert!(left.success());
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

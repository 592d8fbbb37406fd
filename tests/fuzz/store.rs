//! A directory that nobody would write, opened. The simulated disks of the master's own tests see more; this one is
//! real.

use super::{Dice, spoil_bytes};
use coracle_api::meta::{Durable, Resource};
use coracle_master::store::{FlatStore, KindRow, OpenError, Store, StoreRules};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// What is in it.
const OBJECTS: usize = 3;

/// The files of a store with some objects and a journal that says more: path and content.
static LIVED: LazyLock<Vec<(PathBuf, Vec<u8>)>> = LazyLock::new(|| {
    let ground = Ground::new("lived");
    for (name, value) in [("a", "1"), ("b", "2"), ("a-b", "\u{e4}")] {
        let path = ground.0.join(format!("objects/core/configmaps/default/{name}.json"));
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", "uid": name},
            "data": {"v": value},
        });
        fs::write(path, object.to_string()).expect("a file");
    }
    let opened = FlatStore::open(&ground.0, None, &rules()).expect("it opens");
    // As a kill leaves it.
    opened.store.halt();
    let mut files = Vec::new();
    collect(&ground.0, &ground.0, &mut files);
    files
});

/// A folder that goes when this does.
struct Ground(PathBuf);

impl Ground {
    /// In memory where that can be: what is tested is what is read, not the disk.
    fn new(name: &str) -> Ground {
        let above = [Path::new("/dev/shm"), &std::env::temp_dir()]
            .into_iter()
            .find(|path| path.is_dir())
            .expect("a folder")
            .to_owned();
        let folder =
            above.join(format!("coracle-fuzz-{}-{:?}-{name}", std::process::id(), std::thread::current().id()));
        fs::create_dir_all(&folder).expect("a folder");
        Ground(folder)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn collect(top: &Path, folder: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(top, &path, files);
        } else if path.file_name().is_some_and(|name| name != "LOCK") {
            let mut bytes = fs::read(&path).expect("a file");
            // What fills a segment says nothing.
            bytes.truncate(bytes.iter().rposition(|byte| *byte != b'\n').map_or(0, |last| last + 2).min(bytes.len()));
            files.push((path.strip_prefix(top).expect("below the top").to_owned(), bytes));
        }
    }
}

pub fn load(dice: &mut Dice) {
    let (path, bytes) = dice.pick(&LIVED);
    let mut bytes = bytes.clone();
    spoil_bytes(&mut bytes, dice);
    opened_with(path, &bytes);
}

/// The first byte says which file is replaced by the others.
pub fn load_bytes(bytes: &[u8]) {
    if let [which, content @ ..] = bytes {
        opened_with(&LIVED[usize::from(*which) % LIVED.len()].0, content);
    }
}

/// A start never panics and never refuses, loses no object whose file and journal nobody touched, and what it made of
/// it opens again.
fn opened_with(replaced: &Path, content: &[u8]) {
    let ground = Ground::new("load");
    for (path, bytes) in LIVED.iter() {
        let bytes = if path == replaced { content } else { bytes };
        let path = ground.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }
    for _ in 0..2 {
        let opened = match FlatStore::open(&ground.0, None, &rules()) {
            Ok(opened) => opened,
            // A number turned into another may say that a newer master wrote it.
            Err(OpenError::Newer { .. }) => return,
            Err(error) => {
                panic!("{} as {:?}: it does not start: {error}", replaced.display(), String::from_utf8_lossy(content))
            }
        };
        if replaced.starts_with("objects") {
            let left = opened.store.list(&Resource::core("configmaps"), None).items.len();
            assert!(
                left >= OBJECTS - 1,
                "{} as {:?}: {left} are left",
                replaced.display(),
                String::from_utf8_lossy(content)
            );
        }
        opened.store.close().ok();
    }
}

fn rules() -> StoreRules<'static> {
    StoreRules {
        sealing: Default::default(),
        edited: &|_, object| Ok(object),
        home: &|_| None,
        durable_by_sketch: &|_, _| None,
        kinds: vec![KindRow {
            resource: Resource::core("configmaps"),
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
        }],
        claims: &|_, _| Vec::new(),
        fault: &|_, _| None,
        durable: &|_, _| Durable::Whole,
    }
}

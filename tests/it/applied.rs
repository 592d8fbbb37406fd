//! `apply-dir` of a running master: edits, restarts, removals, and the faults of other programs of its kind.

use crate::transcript::{Bed, Reply, ask};
use coracle_master::command;
use coracle_master::config::{ApplyDeed, Config, Deed};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A removal waits five seconds until the directory is quiet, and processors are shared.
const PATIENCE: Duration = Duration::from_secs(60);
/// Within so long a removal that is not to be would have been done.
const QUIET: Duration = Duration::from_secs(7);
const PAUSE: Duration = Duration::from_millis(10);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

struct Place {
    folder: PathBuf,
    bed: Option<Bed>,
}

impl Place {
    fn new() -> Place {
        let folder = Bed::empty_folder();
        fs::create_dir(folder.join("apply")).expect("ours");
        fs::set_permissions(folder.join("apply"), fs::Permissions::from_mode(0o755)).expect("ours");
        let mut place = Place { folder, bed: None };
        place.start();
        place
    }

    fn start(&mut self) {
        // A thread of the master before may still hold the directory.
        if let Ok(lock) = fs::File::open(self.folder.join("data/LOCK")) {
            lock.lock().expect("it is free once that thread has ended");
        }
        let directory = self.directory();
        self.bed = Some(Bed::living_so(&self.folder, |config| {
            config.apply_dir = Some(directory);
            config.workloads = false;
        }));
    }

    fn restart(&mut self) {
        self.bed = None;
        self.start();
    }

    fn directory(&self) -> PathBuf {
        self.folder.join("apply")
    }

    /// As tools write files: whole, under another name first.
    fn put(&self, file: &str, text: &str) {
        let (path, new) = (self.directory().join(file), self.directory().join(".new"));
        fs::create_dir_all(path.parent().expect("below the directory")).expect("ours");
        fs::write(&new, text).expect("ours");
        fs::set_permissions(&new, fs::Permissions::from_mode(0o640)).expect("ours");
        fs::rename(&new, &path).expect("ours");
    }

    fn take(&self, file: &str) {
        fs::remove_file(self.directory().join(file)).expect("it is there");
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let bed = self.bed.as_ref().expect("it runs");
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let headers = [("Content-Type".to_owned(), kind.to_owned())];
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let Reply { code, body, .. } = ask(bed.network(), method, path, &headers, &text);
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, &Value::Null)
    }

    fn map(&self, name: &str) -> Option<Value> {
        match self.get(&format!("{MAPS}/{name}")) {
            (200, map) => Some(map),
            (404, _) => None,
            other => panic!("{other:?}"),
        }
    }

    fn await_that(&self, what: &str, holds: impl Fn(&Place) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < PATIENCE, "{what}: {:#}", self.told());
            std::thread::sleep(PAUSE);
        }
    }

    fn await_value(&self, name: &str, value: &str) {
        self.await_that(&format!("{name} = {value}"), |place| {
            place.map(name).is_some_and(|map| map["data"]["v"] == value)
        });
    }

    fn line(&self) -> Config {
        Config {
            data_dir: self.folder.join("data"),
            admin_socket: self.folder.join("run/api.sock"),
            ..Config::default()
        }
    }

    /// The page of the command line.
    fn told(&self) -> Value {
        let bed = self.bed.as_ref().expect("it runs");
        let query = coracle_master::upkeep::query(&self.folder.join("data"));
        let reply = ask(bed.local(), "GET", &format!("/coracle/apply?{query}"), &[], "");
        serde_json::from_slice(&reply.body).unwrap_or_default()
    }

    fn has_problem(&self, reason: &str, about: &str) -> bool {
        let told = self.told();
        let mut problems = told["problems"].as_array().into_iter().flatten();
        problems.any(|problem| {
            let name = problem["subject"]["name"].as_str().unwrap_or_default();
            problem["reason"] == reason && name.ends_with(about)
        })
    }

    fn run(&self, deed: ApplyDeed) -> bool {
        let code = command::run(&Deed::Apply(deed), &self.line());
        format!("{code:?}") == format!("{:?}", ExitCode::SUCCESS)
    }

    fn revision(&self) -> String {
        let (_, list) = self.get("/api/v1/namespaces");
        list["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.bed = None;
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{v: \"{value}\"}}\n")
}

fn maps(names: &[&str], value: &str) -> String {
    names.iter().map(|name| format!("---\n# Source: {name}\n{}", map(name, value))).collect()
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
}

#[test]
fn edits_are_applied_and_files_that_did_not_change_write_nothing() {
    let mut place = Place::new();
    place.put(
        "shop/all.yaml",
        &format!("{}---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: shop}}\n", {
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\n"
        }),
    );
    place.put("a.yaml", &maps(&["a", "b"], "1"));
    place.await_value("a", "1");
    place.await_that("a namespace comes before what is in it", |place| {
        place.get("/api/v1/namespaces/shop/secrets/s").0 == 200
    });
    let begun = Instant::now();
    place.put("a.yaml", &maps(&["a", "b"], "2"));
    place.await_value("b", "2");
    println!("an edit was applied after {} ms", begun.elapsed().as_millis());
    let fields = place.map("a").expect("it is there")["metadata"]["managedFields"].clone();
    assert!(fields.to_string().contains("\"coracle-apply\""), "{fields}");
    place.await_that("it is told as an event", |place| {
        let (_, events) = place.get("/api/v1/namespaces/default/events");
        events.to_string().contains("\"reason\":\"Applied\"")
    });
    assert!(place.run(ApplyDeed::Show));
    // A hand's edit and a hand's deletion stay, over a restart too.
    let patch = json!({"data": {"w": "hand"}});
    assert_eq!(place.ask("PATCH", &format!("{MAPS}/a"), &patch).0, 200);
    assert_eq!(place.ask("DELETE", &format!("{MAPS}/b"), &Value::Null).0, 200);
    place.put("a.yaml", &maps(&["a", "b"], "2"));
    place.restart();
    place.await_that("the deletion is told", |place| place.has_problem("DeletedByHand", "b"));
    let revision = place.revision();
    place.put("a.yaml", &maps(&["a", "b"], "2"));
    fs::write(place.directory().join("README.md"), "no manifest").expect("ours");
    std::thread::sleep(Duration::from_millis(300));
    assert!(place.map("b").is_none());
    assert_eq!(place.revision(), revision, "what did not change writes nothing");
    assert!(place.run(ApplyDeed::Again));
    place.await_value("b", "2");
    assert_eq!(place.map("a").expect("it is there")["data"]["w"], "hand", "nobody but the hand says it");
    // Of a field that the hand has taken, the file says it again only by force.
    assert_eq!(place.ask("PATCH", &format!("{MAPS}/a"), &json!({"data": {"v": "hand"}})).0, 200);
    place.put("a.yaml", &maps(&["a", "b"], "3"));
    place.await_value("b", "3");
    place.await_that("the conflict is named", |place| place.has_problem("FieldConflict", "a"));
    assert_eq!(place.map("a").expect("it is there")["data"]["v"], "hand");
}

#[test]
fn objects_go_with_care() {
    let mut place = Place::new();
    place.put("a.yaml", &maps(&["a", "b", "c", "d"], "1"));
    place.put("s/b.yaml", &maps(&["e"], "1"));
    place.put("s/c.yaml", &maps(&["f"], "1"));
    place.await_value("d", "1");
    place.await_value("f", "1");
    // Without a mark no file that is gone removes anything.
    place.take("s/b.yaml");
    place.await_that("it is held", |place| place.has_problem("RemovalHeld", "apply"));
    assert!(!place.run(ApplyDeed::Mark { anyway: false }), "a file is missing");
    assert!(place.run(ApplyDeed::Mark { anyway: true }) && place.run(ApplyDeed::Mark { anyway: false }));
    place.await_that("e is gone", |place| place.map("e").is_none());
    // An object that moves while a file is half written, as a checkout does it, is not made anew.
    let uid = place.map("d").expect("it is there")["metadata"]["uid"].clone();
    place.put("a.yaml", &maps(&["a", "b", "c"], "1"));
    std::thread::sleep(Duration::from_millis(300));
    place.put("s/c.yaml", &maps(&["f", "d"], "1"));
    std::thread::sleep(QUIET);
    assert_eq!(place.map("d").expect("it is there")["metadata"]["uid"], uid);
    // Broken, empty and lost files.
    for text in ["", "# nothing\n", "a: [\n", "kind: ConfigMap\n", "apiVersion: v1\nkind: {{ .x }}\n"] {
        place.put("a.yaml", text);
        place.put("s/c.yaml", &maps(&["d"], "1"));
        place.await_that(text, |place| place.has_problem("FileUnreadable", "a.yaml"));
    }
    std::thread::sleep(QUIET);
    for name in ["a", "b", "c", "d", "f"] {
        assert!(place.map(name).is_some(), "{name}: {:#}", place.told());
    }
    // Whole again, and naming less: that goes, and what another has made anew stays.
    let anew = json!({"metadata": {"name": "c"}});
    assert_eq!(place.ask("DELETE", &format!("{MAPS}/c"), &Value::Null).0, 200);
    assert_eq!(place.ask("POST", MAPS, &anew).0, 201);
    place.put("a.yaml", &maps(&["a", "b"], "1"));
    place.await_that("f is gone", |place| place.map("f").is_none());
    assert!(place.map("c").is_some() && place.map("b").is_some());
    // More than half waits for a word; a restart asks again.
    place.put("a.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
    place.await_that("it waits", |place| place.has_problem("RemovalAwaited", "apply"));
    place.restart();
    place.await_that("it waits again", |place| place.has_problem("RemovalAwaited", "apply"));
    assert!(place.map("a").is_some() && place.run(ApplyDeed::Confirm));
    place.await_that("a and b are gone", |place| place.map("a").is_none() && place.map("b").is_none());
    assert!(place.map("d").is_some());
    // A directory that goes as a whole takes nothing along.
    let away = place.folder.join("away");
    fs::rename(place.directory(), &away).expect("ours");
    place.await_that("it is missed", |place| place.has_problem("FolderUnreadable", "apply"));
    fs::create_dir(place.directory()).expect("ours");
    std::thread::sleep(QUIET);
    assert!(place.map("d").is_some());
    fs::remove_dir(place.directory()).expect("ours");
    fs::rename(&away, place.directory()).expect("ours");
    place.put("s/c.yaml", &maps(&["d"], "4"));
    place.await_value("d", "4");
}

#[test]
fn files_that_others_may_write_and_links_are_refused() {
    let place = Place::new();
    place.put("a.yaml", &map("a", "1"));
    place.await_value("a", "1");
    let file = place.directory().join("a.yaml");
    mode(&file, 0o666);
    place.await_that("it is refused", |place| place.has_problem("WritableByOthers", "a.yaml"));
    mode(&file, 0o640);
    place.await_that("it is taken again", |place| !place.has_problem("WritableByOthers", "a.yaml"));
    fs::create_dir(place.directory().join("s")).expect("ours");
    mode(&place.directory().join("s"), 0o777);
    place.put("s/b.yaml", &map("b", "1"));
    place.await_that("the folder is refused", |place| place.has_problem("WritableByOthers", "apply/s"));
    assert!(place.map("b").is_none());
    mode(&place.directory().join("s"), 0o755);
    place.await_value("b", "1");
    symlink(&file, place.directory().join("c.yaml")).expect("ours");
    place.await_that("the link is refused", |place| place.has_problem("SymbolicLink", "c.yaml"));
    // A file that is being written is read when it is closed.
    let mut writer = fs::File::create(place.directory().join("d.yaml")).expect("ours");
    let text = maps(&["d", "e"], "1");
    let (first, second) = text.split_at(text.len() / 2);
    std::io::Write::write_all(&mut writer, first.as_bytes()).expect("ours");
    std::thread::sleep(Duration::from_secs(3));
    assert!(place.map("d").is_none(), "half of it was read");
    std::io::Write::write_all(&mut writer, second.as_bytes()).expect("ours");
    drop(writer);
    place.await_value("e", "1");
}

#[test]
fn what_waits_for_another_is_applied_when_it_comes() {
    let place = Place::new();
    let later = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: later}\n";
    place.put("a.yaml", later);
    place.put("b.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containres: []}\n");
    place.put("c.yaml", "apiVersion: nope.io/v1\nkind: Widget\nmetadata: {name: w}\n");
    place.await_that("each is told", |place| {
        place.has_problem("NamespaceMissing", "a")
            && place.has_problem("ObjectRefused", "p")
            && place.has_problem("KindUnknown", "w")
    });
    assert!(!place.run(ApplyDeed::Show));
    assert_eq!(place.ask("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "later"}})).0, 201);
    place.await_that("it is applied", |place| place.get("/api/v1/namespaces/later/configmaps/a").0 == 200);
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "0"}}});
    assert_eq!(place.ask("POST", "/api/v1/namespaces/default/resourcequotas", &quota).0, 201);
    place.put("d.yaml", &map("d", "1"));
    place.await_that("the quota is told", |place| place.has_problem("QuotaExceeded", "d"));
    assert_eq!(place.ask("DELETE", "/api/v1/namespaces/default/resourcequotas/q", &Value::Null).0, 200);
    place.await_value("d", "1");
}

//! Tests of damage that a person, a crash or a bad card can leave in the directory.

use super::crash::spec_of;
use super::sim::{EIO, SimDisk};
use super::*;

const WEB: &str = "objects/core/pods/default/web.json";

/// A disk that a store with one good pod was closed on.
fn closed() -> SimDisk {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    store.write(create(pod("good", "a", None))).expect("new");
    store.close().expect("the disk is well");
    disk
}

fn damaged(store: &FlatStore) -> Vec<String> {
    store.list(&PODS, None).damaged.into_iter().map(|key| key.name).collect()
}

#[test]
fn damage_is_set_aside_and_remembered_until_somebody_acts() {
    let whole = serde_json::to_string(&pod("web", "a", None)).expect("JSON");
    let other = serde_json::to_string(&pod("other", "a", None)).expect("JSON");
    let service = whole.replace("Pod", "Service");
    let malformed = whole.replace(r#"{"is":"a"}"#, r#""text""#);
    let table: [(&str, &[u8], &str); 9] = [
        ("empty", b"", "it is empty"),
        ("empty", &[0; 512], "it holds nothing but zeros"),
        ("not-json", &whole.as_bytes()[..40], "it is not JSON: EOF while parsing"),
        ("not-json", b"\xff\xfe{}", "it is not JSON: expected value"),
        ("misplaced", b"[]", "apiVersion is null, but the file's place says \"v1\""),
        ("misplaced", other.as_bytes(), "metadata.name is \"other\", but the file's place says \"web\""),
        ("misplaced", service.as_bytes(), "kind is \"Service\", but the file's place says \"Pod\""),
        ("malformed", malformed.as_bytes(), "spec must be no text"),
        ("too-large", &vec![b' '; 13 << 20], "it is larger than 12582912 bytes"),
    ];
    for (word, text, why) in table {
        let disk = closed();
        disk.place(WEB, text);
        let set_aside = format!("quarantine/0001-{word}/core/pods/default/web.json");
        // The second start knows it from quarantine.
        for start in 1..=2 {
            let store = memory_on(&disk);
            assert!(store.get(&key("good")).expect("whole").is_some());
            let said = store.get(&key("web")).expect_err("damaged").why;
            assert!(said.starts_with(&format!("{WEB}: {why}")), "start {start}: {said}");
            let health = store.health();
            assert_eq!((health.damaged.len(), health.degraded), (1, None));
            assert_eq!(health.damaged[0].file, set_aside);
            assert_eq!(damaged(&store), ["web"]);
            assert!(matches!(store.write(create(pod("web", "a", None))), Err(Refused::Damaged { .. })));
            assert_eq!(disk.peek(&set_aside).as_deref(), Some(text));
            if start == 1 {
                store.close().expect("the disk is well");
            }
        }
    }
}

/// A start with a file that is not JSON.
fn with_damage() -> (SimDisk, FlatStore) {
    let disk = closed();
    disk.place(WEB, b"{");
    let store = memory_on(&disk);
    (disk, store)
}

#[test]
fn a_delete_gives_a_damaged_object_up() {
    let (disk, store) = with_damage();
    let events = Arc::new(Mutex::new(Vec::new()));
    let heard = events.clone();
    let scope = Scope { resource: PODS, namespace: None, name: None };
    let sink = Box::new(move |event: &Event| {
        locked(&heard).push((event.key.name.clone(), event.old.is_some(), event.new.is_some()));
        true
    });
    let _watch = store.watch(scope, None, sink).expect("young");
    let gone = store.write(Write::Delete { key: key("web"), seen: Revision(0) }).expect("a person decided");
    assert!(
        gone.json.starts_with(br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default","#),
        "{gone:?}"
    );
    assert_eq!(*locked(&events), [("web".to_owned(), false, false)]);
    assert_eq!(disk.peek("quarantine/0001-not-json-settled/core/pods/default/web.json").as_deref(), Some(&b"{"[..]));
    assert_eq!(damaged(&store), [] as [&str; 0]);
    store.write(create(pod("web", "b", None))).expect("the name is free");
    drop(store);
    let store = memory_on(&disk);
    assert!(store.get(&key("web")).expect("whole").is_some());
    assert!(store.health().damaged.is_empty());
}

#[test]
fn a_new_object_takes_the_place_of_a_damaged_one_in_one_step() {
    for stays in [false, true] {
        let whole = || {
            let disk = closed();
            disk.place(WEB, b"{");
            disk
        };
        // One of the calls of a start is the one that moves the file.
        let (disk, store) = (0..100)
            .find_map(|step| {
                let disk = whole();
                if stays {
                    disk.fail(step..step + 1, super::sim::EIO);
                }
                let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
                let opened =
                    FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), Setup::SMALL).ok()?;
                disk.heal();
                let found = opened.store.health().damaged;
                let found =
                    found.first().filter(|found| found.key == Some(key("web")) && opened.store.frozen().is_none())?;
                (found.file.starts_with("objects/") == stays).then_some((disk, opened.store))
            })
            .expect("there is such a start");
        assert!(store.get(&key("web")).is_err());
        let events = Arc::new(Mutex::new(Vec::new()));
        let heard = events.clone();
        let sink = Box::new(move |event: &Event| {
            locked(&heard).push((event.key.name.clone(), event.old.is_some(), event.new.is_some()));
            true
        });
        let _watch = store.watch(Scope { resource: PODS, namespace: None, name: None }, None, sink).expect("young");
        assert!(
            matches!(store.write(update(pod("web", "b", None), Revision(7))), Err(Refused::Damaged { .. })),
            "another was meant"
        );
        disk.fail(0..1_000, super::sim::EIO);
        assert!(matches!(store.write(update(pod("web", "b", None), UNSEEN)), Err(Refused::Disk { .. })));
        disk.heal();
        assert!(store.get(&key("web")).is_err(), "it is as damaged as before");
        assert!(store.rehearse(update(pod("web", "b", None), UNSEEN)).is_ok());
        let made = store.write(update(pod("web", "b", None), UNSEEN)).expect("a person decided");
        assert_eq!(*locked(&events), [("web".to_owned(), false, true)]);
        assert_eq!(
            (damaged(&store), store.get(&key("web")).expect("whole").expect("there").revision),
            (vec![], made.revision)
        );
        assert!(
            matches!(store.write(update(pod("web", "c", None), UNSEEN)), Err(Refused::Stale { .. })),
            "it is no damaged one any more"
        );
        drop(store);
        disk.power_loss();
        let store = memory_on(&disk);
        assert_eq!(spec_of(&store.get(&key("web")).expect("whole").expect("there")), "b");
        assert_eq!((store.health().damaged, store.health().edits), (vec![], vec![]));
        let kept = disk
            .tree()
            .into_iter()
            .find(|path| path.starts_with("quarantine/") && path.ends_with("-settled/core/pods/default/web.json"));
        assert_eq!(kept.and_then(|path| disk.peek(&path)).as_deref(), Some(&b"{"[..]));
    }
}

#[test]
fn a_file_put_right_counts_from_the_next_start() {
    let (disk, store) = with_damage();
    let before = store.revision();
    drop(store);
    disk.place(WEB, &serde_json::to_vec(&pod("web", "by hand", None)).expect("JSON"));
    let store = memory_on(&disk);
    let web = store.get(&key("web")).expect("whole").expect("there");
    assert!(web.revision > before);
    assert!(store.health().damaged.is_empty());
    assert_eq!(disk.tree().iter().filter(|path| path.starts_with("quarantine/0001-not-json-settled/")).count(), 2);
}

#[test]
fn strangers_are_set_aside_and_unknown_kinds_and_dot_files_left_alone() {
    let disk = closed();
    let strangers = [
        "objects/README",
        "objects/core/pods/default/Web.json",
        "objects/core/pods/default/a.json~",
        "objects/core/pods/a.json",
    ];
    let own = ["objects/.git/HEAD", "objects/core/pods/.gitignore", "objects/apps/deployments/default/web.json"];
    for path in strangers.iter().chain(&own) {
        disk.place(path, b"mine");
    }
    let store = memory_on(&disk);
    assert_eq!(store.health().damaged.len(), strangers.len());
    assert!(store.health().damaged.iter().all(|damage| damage.key.is_none() && damage.file.contains("-foreign/")));
    assert!(strangers.iter().all(|path| disk.peek(path).is_none()));
    assert!(own.iter().all(|path| disk.peek(path).is_some()));
    assert_eq!(damaged(&store), [] as [&str; 0]);
    assert_eq!(store.list(&PODS, None).items.len(), 1);
}

#[test]
fn a_disk_that_cannot_move_the_file_still_starts() {
    let disk = closed();
    disk.place(WEB, b"{");
    // Read-only: every change fails, reads do not.
    let store = {
        let only = ReadOnly(disk.clone());
        let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
        FlatStore::open_on(Arc::new(only), None, None, ids, &rules(), Setup::SMALL).expect("it starts").store
    };
    assert!(store.health().degraded.is_some());
    assert!(store.get(&key("good")).expect("whole").is_some());
    assert!(store.get(&key("web")).is_err());
    assert!(matches!(store.write(create(pod("b", "b", None))), Err(Refused::Disk { space: false, .. })));
    assert!(matches!(store.write(Write::Delete { key: key("web"), seen: Revision(0) }), Err(Refused::Disk { .. })));
    assert!(disk.peek(WEB).is_some());
}

struct ReadOnly(SimDisk);

const EROFS: i32 = 30;

impl Disk for ReadOnly {
    fn create(&self, _: &str, _: &[u8]) -> std::io::Result<()> {
        Err(std::io::Error::from_raw_os_error(EROFS))
    }
    fn put(&self, _: &str, _: &[u8], _: Option<u32>) -> std::io::Result<()> {
        Err(std::io::Error::from_raw_os_error(EROFS))
    }
    fn mark(&self, _: &str, _: u32) -> std::io::Result<()> {
        Err(std::io::Error::from_raw_os_error(EROFS))
    }
    fn stamp(&self, path: &str) -> std::io::Result<disk::Stamp> {
        self.0.stamp(path)
    }
    fn sync_all(&self) -> std::io::Result<()> {
        Err(std::io::Error::from_raw_os_error(EROFS))
    }
    fn open(&self, _: &str) -> std::io::Result<Box<dyn disk::DiskFile>> {
        Err(std::io::Error::from_raw_os_error(EROFS))
    }
    fn rename(&self, _: &str, _: &str) -> std::io::Result<()> {
        Err(std::io::Error::from_raw_os_error(EROFS))
    }
    fn unlink(&self, _: &str) -> std::io::Result<()> {
        Err(std::io::Error::from_raw_os_error(EROFS))
    }
    fn make_dir(&self, _: &str) -> std::io::Result<()> {
        Err(std::io::Error::from_raw_os_error(EROFS))
    }
    fn sync_dir(&self, path: &str) -> std::io::Result<()> {
        self.0.sync_dir(path)
    }
    fn read(&self, path: &str, bytes_max: usize) -> std::io::Result<Vec<u8>> {
        self.0.read(path, bytes_max)
    }
    fn reader(&self, path: &str) -> std::io::Result<Box<dyn std::io::Read>> {
        self.0.reader(path)
    }
    fn list(&self, path: &str) -> std::io::Result<Vec<disk::FolderEntry>> {
        self.0.list(path)
    }
}

#[test]
fn a_lost_head_never_takes_revisions_back() {
    for how in ["removed", "damaged"] {
        let disk = closed();
        let before = document::revision(
            &serde_json::from_slice(&disk.peek("objects/core/pods/default/good.json").expect("it is there"))
                .expect("JSON"),
        );
        match how {
            "removed" => disk.take("HEAD.json"),
            _ => disk.place("HEAD.json", b"{\"format\":1,\"reserved\":0,\"crc\":\"00000000\"}"),
        }
        let ids = Ids { fresh_store: "another".to_owned(), boot: "boot".to_owned() };
        let store = FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), Setup::SMALL)
            .expect("it starts")
            .store;
        assert!(store.revision().0 > before.expect("a revision").0 + 100_000, "{how}");
        assert_eq!(store.uuid(), "another");
        assert_eq!(disk.tree().contains(&"quarantine/0001-damaged-head/HEAD.json".to_owned()), how == "damaged");
    }
}

#[test]
fn a_newer_format_is_refused_untouched() {
    let long = format!("{{\"format\":6,\"files\":\"{}\"}}", "x".repeat(100_000));
    let texts = [
        r#"{"format":6,"anything":[]}"#,
        &long,
        &long[..3_000],
        "{\n  \"store\": \"s\",\n  \"format\" : 6\n}\n",
        r#"{"format":6.0}"#,
        r#"{"format":"6"}"#,
        r#"{"format":5.5}"#,
        r#"{"format":6e0,"#,
        r#"{"format":6"#,
    ];
    for text in texts {
        let disk = closed();
        disk.place("HEAD.json", text.as_bytes());
        disk.place("tmp/1", b"half");
        let tree = disk.tree();
        let ids = Ids { fresh_store: "another".to_owned(), boot: "boot".to_owned() };
        let refused = FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), Setup::SMALL);
        let Err(error @ OpenError::Newer { format: 6, .. }) = refused else { panic!("{text}: it starts") };
        assert!(error.to_string().contains("format 6"));
        assert_eq!(disk.tree(), tree);
    }
    assert_eq!(head::Head::format_of(r#"{"format":99999999999999999999}"#), Some(u64::MAX));
    assert_eq!(head::Head::format_of(r#"{"format":[5]}"#), None, "that is damaged");
}

/// What HEAD.json says is unknown then, and not lost: what can be read is shown, and nothing is written.
#[test]
fn a_head_that_cannot_be_read_is_left_as_it_is() {
    let ids = || Ids { fresh_store: "another".to_owned(), boot: "boot".to_owned() };
    let open = |disk: &SimDisk| FlatStore::open_on(Arc::new(disk.clone()), None, None, ids(), &rules(), Setup::SMALL);
    let opened = |disk: &SimDisk| open(disk).unwrap_or_else(|error| panic!("{error}")).store;
    let killed = closed();
    memory_on(&killed).write(create(pod("later", "a", None))).expect("new");
    for original in [closed(), killed] {
        let was = memory_on(&original.fork(1));
        let all = |store: &FlatStore| -> Vec<_> {
            store.list(&PODS, None).items.into_iter().map(|stored| stored.key.to_string()).collect()
        };
        // It is the first that is read, and read twice.
        let disk = original.fork(1);
        let tree = disk.tree();
        disk.fail(1..3, EIO);
        let store = opened(&disk);
        let why = store.frozen().expect("nobody knows what it says");
        assert!(why.starts_with("HEAD.json cannot be read") && why.contains("a disk that is well"), "{why}");
        assert_eq!((all(&store), store.health().degraded.as_ref()), (all(&was), Some(&why)));
        assert!(store.get(&key("nobody-knows")).is_err(), "an object that is not known may be there");
        assert!(matches!(store.write(create(pod("new", "a", None))), Err(Refused::Disk { .. })));
        assert_ne!(store.uuid(), was.uuid());
        let shown = store.revision();
        store.tend();
        store.close().expect("there is nothing to write");
        assert_eq!(disk.tree(), tree);
        let store = opened(&disk);
        assert_eq!(
            (store.uuid(), all(&store), store.frozen(), store.health().damaged),
            (was.uuid(), all(&was), None, vec![])
        );
        assert!(store.revision() < shown, "who saw it has to look again");
        // Nothing can be read.
        let disk = original.fork(1);
        disk.fail(1..50, EIO);
        assert!(opened(&disk).frozen().is_some());
        disk.heal();
        assert_eq!(disk.tree(), tree);
        // Once is no reason.
        disk.fail(1..2, EIO);
        let store = opened(&disk);
        assert_eq!((disk.failures() > 0, store.uuid(), store.health().damaged), (true, was.uuid(), vec![]));
    }
}

/// Every file and folder below one, with what is in it and when it was written.
fn everything(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>, std::time::SystemTime)> {
    let (mut folders, mut found) = (vec![dir.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        found.push((folder.clone(), Vec::new(), folder.metadata().expect("a folder").modified().expect("a time")));
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push((
                    path.clone(),
                    std::fs::read(&path).expect("ours"),
                    path.metadata().expect("a file").modified().expect("a time"),
                )),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_directory_of_a_newer_format_stays_byte_for_byte_as_it_is_and_is_named() {
    let dir = std::env::temp_dir().join(format!("coracle-store-{}-newer", std::process::id()));
    std::fs::remove_dir_all(&dir).ok();
    std::fs::create_dir_all(dir.join("tmp")).expect("ours");
    std::fs::write(dir.join("HEAD.json"), "{\"format\":6,\"anything\":[]}").expect("ours");
    std::fs::write(dir.join("tmp/1"), "half").expect("ours");
    let before = everything(&dir);
    let backup = b"{\"backup\":1,\"store\":\"s\",\"revision\":1,\"objects\":0,\"left_out\":[]}\n";
    let whole =
        [backup.as_slice(), format!("{{\"end\":0,\"crc\":\"{:08x}\"}}\n", document::crc32(backup)).as_bytes()].concat();
    let refusals = [
        FlatStore::open(&dir, None, &rules()).map(drop).map_err(|error| error.to_string()),
        inspect(&dir, &rules(), false).map(drop).map_err(|error| error.to_string()),
        salvage(&dir, &rules()).map(drop).map_err(|error| error.to_string()),
        restore(&dir, || Ok(whole.as_slice())).map(drop),
    ];
    for refusal in refusals {
        let why = refusal.expect_err("it is newer");
        assert!(why.contains(&*dir.to_string_lossy()) && why.contains("format 6"), "{why}");
    }
    assert_eq!(everything(&dir), before);
    std::fs::remove_dir_all(&dir).expect("ours");
}

#[test]
fn an_edit_that_names_a_namespace_that_is_not_there_is_set_aside() {
    let disk = closed();
    let text = |name: &str| pod(name, "x", None).to_string().replace("default", "rented");
    disk.place("objects/core/pods/rented/web.json", text("web").as_bytes());
    let store = memory_on(&disk);
    let damaged = store.health().damaged;
    assert!(damaged.len() == 1 && damaged[0].why.contains("there is no"), "{damaged:?}");
    assert_eq!(damaged[0].file, "quarantine/0001-malformed/core/pods/rented/web.json");
    store.close().expect("the disk is well");
    drop(store);
    // With its namespace it counts.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rented"}});
    disk.place("objects/core/namespaces/_cluster/rented.json", namespace.to_string().as_bytes());
    disk.place("objects/core/pods/rented/web.json", text("web").as_bytes());
    let store = memory_on(&disk);
    assert_eq!(store.health().damaged, []);
    assert_eq!(store.list(&PODS, Some("rented")).items.len(), 1);
}

#[test]
fn a_folder_that_cannot_be_read_hides_its_objects_and_stops_writes_until_it_can() {
    for folder in ["objects/core/services", "objects/core", "quarantine"] {
        let disk = closed();
        let store = memory_on(&disk);
        let service = Key { resource: Resource::core("services"), ..key("web") };
        let object =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}});
        store
            .write(Write::Create { key: service.clone(), object, durable: Durable::Whole, claims: Vec::new() })
            .expect("new");
        store.close().expect("the disk is well");
        let tree = disk.tree();
        disk.fail_list(Some(folder));
        let store = memory_on(&disk);
        let why = store.health().degraded.expect("it says so");
        assert!(why.contains(folder) && why.contains("restart the master"), "{why}");
        if folder == "objects/core/services" {
            assert!(store.get(&key("good")).expect("whole").is_some());
            assert!(store.get(&key("none")).expect("its folder was read").is_none());
        }
        assert!(store.get(&Key { name: "none".to_owned(), ..service.clone() }).is_err(), "unknown is not absent");
        assert!(matches!(store.write(create(pod("b", "b", None))), Err(Refused::Disk { .. })));
        store.close().expect("nothing is to be closed");
        drop(store);
        assert_eq!(disk.tree().iter().filter(|path| path.starts_with("objects/")).count(), 2, "{tree:?}");
        disk.fail_list(None);
        let store = memory_on(&disk);
        assert_eq!(store.health().degraded, None);
        assert!(store.get(&service).expect("whole").is_some());
    }
}

#[test]
fn a_closed_store_whose_journal_cannot_be_listed_is_read_and_not_written() {
    let disk = closed();
    let before = disk.tree();
    disk.fail_list(Some("wal"));
    let store = memory_on(&disk);
    let why = store.health().degraded.expect("it says so");
    assert!(why.contains("wal cannot be read") && why.contains("restart the master"), "{why}");
    assert!(!why.contains("salvage"), "nothing is lost: {why}");
    assert_eq!(store.frozen(), Some(why));
    // It was closed in order: all objects are known.
    let good = |store: &FlatStore| spec_of(&store.get(&key("good")).expect("whole").expect("there"));
    assert_eq!(good(&store), "a");
    assert!(store.get(&key("none")).expect("it is known that there is none").is_none());
    assert!(matches!(store.write(create(pod("b", "b", None))), Err(Refused::Disk { .. })));
    store.close().expect("nothing is to be closed");
    drop(store);
    assert_eq!(disk.tree(), before);
    disk.fail_list(None);
    let store = memory_on(&disk);
    assert_eq!(store.health().degraded, None);
    assert_eq!(good(&store), "a");
    store.write(create(pod("b", "b", None))).expect("new");
}

#[test]
fn why_a_file_was_set_aside_is_known_to_later_starts() {
    let disk = closed();
    let path = "objects/core/pods/default/good.json";
    let at = disk.peek(path).expect("its file").windows(3).position(|bytes| bytes == b"\"a\"").expect("its spec");
    disk.flip(path, at + 1, 1);
    let first = memory_on(&disk);
    let said = first.get(&key("good")).expect_err("rotten").why;
    assert!(said.contains("the medium is failing"), "{said}");
    drop(first);
    assert_eq!(memory_on(&disk).get(&key("good")).expect_err("rotten").why, said);
}

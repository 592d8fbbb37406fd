//! Tests of the commands on a directory: look, copy, restore, salvage.

use super::*;
use std::fs;
use std::path::PathBuf;

struct DataDir(PathBuf);

impl DataDir {
    fn new(name: &str) -> DataDir {
        let dir = std::env::temp_dir().join(format!("coracle-store-{}-{name}", std::process::id()));
        fs::remove_dir_all(&dir).ok();
        DataDir(dir)
    }

    fn open(&self) -> FlatStore {
        FlatStore::open(&self.0, None, &rules()).expect("it opens").store
    }

    /// Some objects, as a killed master leaves them: in the journal alone.
    fn killed(name: &str) -> DataDir {
        let place = DataDir::new(name);
        let store = place.open();
        for name in ["a", "b", "Whole", "c"] {
            store.write(create(pod(name, "first", Some("up")))).expect("it is new");
        }
        let b = store.get(&key("b")).expect("whole").expect("there");
        store.write(Write::Delete { key: key("b"), seen: b.revision }).expect("it was seen");
        store.halt();
        place
    }

    fn segments(&self) -> Vec<PathBuf> {
        let mut segments: Vec<PathBuf> =
            fs::read_dir(self.0.join("wal")).expect("a journal").map(|entry| entry.expect("a file").path()).collect();
        segments.sort();
        segments
    }

    fn segment(&self) -> PathBuf {
        self.segments().remove(0)
    }

    /// A byte of a record is another one.
    fn rot(&self, record_of: &str) {
        let record = format!("\"name\":\"{record_of}\"");
        let found = self.segments().into_iter().find_map(|path| {
            let text = fs::read(&path).expect("a segment");
            let at = text.windows(record.len()).position(|window| window == record.as_bytes())?;
            Some((path, text, at))
        });
        let (path, mut text, at) = found.expect("its record");
        text[at + 10] ^= 4;
        fs::write(&path, text).expect("ours");
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn names_in(store: &FlatStore) -> Vec<String> {
    store.list(&PODS, None).items.iter().map(|stored| stored.key.name.clone()).collect()
}

fn whole(store: &FlatStore) -> Vec<u8> {
    store.backup(Vec::new()).flat_map(|piece| piece.to_vec()).collect()
}

#[test]
fn an_empty_directory_is_no_store_and_becomes_none() {
    let place = DataDir::new("none");
    fs::create_dir_all(place.0.join("lost+found")).expect("ours");
    let looks = [inspect(&place.0, &rules(), false).map(drop), salvage(&place.0, &rules()).map(drop)];
    for look in looks {
        let why = look.expect_err("the disk is not mounted").to_string();
        assert!(why.contains(NO_STORE), "{why}");
    }
    assert_eq!(fs::read_dir(&place.0).expect("ours").count(), 1);
}

#[test]
fn a_look_changes_nothing_and_says_what_is_there() {
    let place = DataDir::killed("look");
    let before = fs::read(place.segment()).expect("a segment");
    let found = inspect(&place.0, &rules(), true).expect("a store");
    assert!(found.whole() && found.objects == 3 && found.records > 4, "{found:?}");
    assert_eq!(fs::read(place.segment()).expect("a segment"), before);
    assert!(!place.0.join("objects/core/pods").exists(), "no file was brought");

    let store = place.open();
    assert!(matches!(inspect(&place.0, &rules(), false), Err(OpenError::InUse { .. })));
    store.close().expect("the disk is well");
    drop(store);
    let file = place.0.join("objects/core/pods/default/a.json");
    fs::write(&file, "{").expect("ours");
    let found = inspect(&place.0, &rules(), false).expect("a store");
    assert_eq!((found.damage.len(), found.whole(), found.missing), (1, false, None));
    assert!(file.exists(), "it stays where it is");
    let nowhere = inspect(&place.0.join("none"), &rules(), false).expect_err("nothing").to_string();
    assert!(nowhere.contains("there is no store"), "{nowhere}");
}

#[test]
fn a_look_says_that_more_than_one_write_is_wiped() {
    for (bytes, whole) in [(8 << 10, true), (64 << 10, false)] {
        let place = DataDir::killed("wiped");
        let segment = place.segment();
        let mut text = fs::read(&segment).expect("a segment");
        text[12_288..].fill(b'\n');
        text[12_288..][..bytes].fill(0);
        fs::write(&segment, text).expect("ours");
        let found = inspect(&place.0, &rules(), false).expect("a store");
        assert_eq!((found.whole(), found.missing), (whole, None), "{bytes}: {:?}", found.damage);
        place.open().halt();
        // Until a person has looked.
        assert_eq!(inspect(&place.0, &rules(), false).expect("a store").whole(), whole, "{bytes}");
        salvage(&place.0, &rules()).expect("the disk is well");
        assert!(inspect(&place.0, &rules(), false).expect("a store").whole(), "{bytes}");
    }
}

#[test]
fn what_is_missing_is_named_and_given_up_on_demand_alone() {
    let place = DataDir::killed("salvage");
    place.rot("Whole");
    let store = place.open();
    assert_eq!(names_in(&store), ["a", "c"], "what can be read is served");
    let refused = store.write(create(pod("d", "x", None))).expect_err("nothing is written").to_string();
    assert!(refused.contains("wal/0000000001.jsonl, offset") && refused.contains("salvage"), "{refused}");
    assert!(store.flush().is_err());
    assert!(store.frozen().expect("it says why").contains("wal/0000000001.jsonl, offset"));
    let contents = read_backup(whole(&store).as_slice(), |_, _| Ok(()), |_, _| Ok(())).expect("what there is");
    assert!(
        contents.left_out.iter().any(|left| left.why.contains("wal/0000000001.jsonl, offset")),
        "{:?}",
        contents.left_out
    );
    store.halt();
    drop(store);

    let found = inspect(&place.0, &rules(), false).expect("a store");
    let missing = found.missing.expect("a record is missing");
    let before = fs::read(place.segment()).expect("a segment");
    let salvaged = salvage(&place.0, &rules()).expect("the disk is well");
    let (lost, evidence) = salvaged.lost.expect("something is missing");
    assert_eq!((lost, salvaged.objects), (missing, 2));
    assert_eq!(fs::read(place.0.join(&evidence).join("wal/0000000001.jsonl")).expect("evidence"), before);

    assert!(inspect(&place.0, &rules(), true).expect("a store").whole());
    assert!(salvage(&place.0, &rules()).expect("the disk is well").lost.is_none(), "nothing is missing any more");
    let store = place.open();
    assert_eq!((names_in(&store), store.health().degraded), (vec!["a".to_owned(), "c".to_owned()], None));
    let d = store.write(create(pod("d", "x", None))).expect("writes are taken");
    assert!(d.revision.0 > found.revision.0 + 100_000, "whoever saw what is lost has to look again");
}

#[test]
fn what_may_be_missing_with_head_and_journal_is_said() {
    let place = DataDir::killed("headless");
    let store = place.open();
    store.flush().expect("the disk is well");
    store.write(create(pod("d", "first", None))).expect("it is new");
    store.halt();
    drop(store);
    fs::remove_file(place.0.join("HEAD.json")).expect("ours");
    let why = |place: &DataDir| inspect(&place.0, &rules(), false).expect("a store").damage[0].why.clone();
    assert!(!why(&place).contains("may be missing"), "the journal has all: {}", why(&place));
    fs::remove_dir_all(place.0.join("wal")).expect("ours");
    assert!(why(&place).contains("may be missing"), "{}", why(&place));
}

/// A start sets aside what is no folder, so a look need not fear for what lies in it.
#[test]
fn a_file_in_the_place_of_quarantine_hides_nothing() {
    let place = DataDir::killed("no-quarantine");
    fs::remove_dir_all(place.0.join("quarantine")).expect("ours");
    fs::write(place.0.join("quarantine"), "mine").expect("ours");
    let found = inspect(&place.0, &rules(), false).expect("a store");
    assert!(found.whole(), "{found:?}");
    assert_eq!((place.open().health().degraded, place.0.join("quarantine").is_dir()), (None, true));
}

/// A doubt is no file that was set aside.
#[test]
fn a_file_that_is_gone_is_told_beside_a_doubt() {
    let place = DataDir::new("gone-and-doubt");
    let store = place.open();
    for name in ["a", "b"] {
        store.write(create(pod(name, "first", None))).expect("it is new");
    }
    store.flush().expect("the disk is well");
    store.halt();
    drop(store);
    fs::create_dir_all(place.0.join("quarantine/0001-may-be-missing")).expect("ours");
    fs::remove_file(place.0.join("objects/core/pods/default/a.json")).expect("ours");
    let edits = place.open().health().edits;
    assert!(edits.iter().any(|edit| edit.why.contains("an object's file is gone")), "{edits:?}");
}

/// What is no file is not waited for: nobody may ever write into a pipe.
#[test]
fn a_pipe_under_the_name_of_a_segment_is_told() {
    let place = DataDir::killed("pipe");
    let pipe = place.0.join("wal/0000000099.jsonl");
    // By no process of its own: between fork and exec that would hold the locks of all directories.
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).expect("ours");
    let why = place.open().health().degraded.expect("nobody knows what it stands for");
    assert!(why.contains("wal/0000000099.jsonl"), "{why}");
    fs::remove_file(pipe).expect("ours");
    assert_eq!(place.open().health().degraded, None);
}

#[test]
fn what_may_be_missing_is_told_until_a_person_has_looked() {
    let place = DataDir::new("doubt");
    let store = place.open();
    store.write(create(pod("a", "first", None))).expect("it is new");
    let older = fs::read(place.segment()).expect("a segment");
    store.write(create(pod("d", "first", None))).expect("it is new");
    store.flush().expect("the disk is well");
    store.halt();
    drop(store);
    fs::write(place.segment(), older).expect("ours");
    let doubt = "quarantine/0001-may-be-missing";
    for start in 0..3 {
        let store = place.open();
        let damaged = store.health().damaged;
        assert!(
            damaged.len() == 1 && damaged[0].file == doubt && damaged[0].why.contains("wal/ ends before"),
            "{start}: {damaged:?}"
        );
        assert!(damaged[0].remedy.contains("salvage") && names_in(&store).contains(&"d".to_owned()), "{damaged:?}");
        assert_eq!(store.health().degraded, None);
        if start == 1 {
            store.close().expect("the disk is well");
        }
        store.halt();
        drop(store);
        let found = inspect(&place.0, &rules(), false).expect("a store");
        assert!(!found.whole() && found.damage.len() == 1, "{start}: {found:?}");
    }
    let salvaged = salvage(&place.0, &rules()).expect("the disk is well");
    assert_eq!((salvaged.settled, salvaged.lost), (vec!["0001-may-be-missing".to_owned()], None));
    assert!(place.0.join(format!("{doubt}-settled/REASON")).exists());
    assert!(inspect(&place.0, &rules(), false).expect("a store").whole());
    assert!(place.open().health().damaged.is_empty());
}

/// As tar and `cp -r` do: nothing that stands beside a file comes with it.
fn copy(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).expect("ours");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::write(to, fs::read(entry.path()).expect("a file")).expect("ours");
        }
    }
}

#[test]
fn what_is_salvaged_of_a_copy_was_not_edited() {
    let place = DataDir::new("salvage-copy");
    let store = place.open();
    for name in ["Alpha", "Beta"] {
        store.write(create(pod(name, "first", None))).expect("it is new");
    }
    store.flush().expect("the disk is well");
    let alpha = store.get(&key("Alpha")).expect("whole").expect("there");
    for name in ["Gamma", "Whole", "Delta"] {
        store.write(create(pod(name, "first", None))).expect("it is new");
    }
    store.halt();
    drop(store);
    place.rot("Whole");
    let copied = DataDir::new("salvage-copied");
    copy(&place.0, &copied.0);
    salvage(&copied.0, &rules()).expect("the disk is well").lost.expect("something is missing");
    for _ in 0..2 {
        let opened = FlatStore::open(&copied.0, None, &rules()).expect("it opens");
        assert!(!opened.notes.iter().any(|note| note.contains("edited")), "{:?}", opened.notes);
        assert_eq!(opened.store.get(&key("Alpha")).expect("whole").expect("there").json, alpha.json);
        assert!(opened.store.get(&key("Gamma")).expect("whole").is_some());
        assert!(opened.store.health().edits.is_empty() && opened.store.health().damaged.is_empty());
        opened.store.halt();
    }
    // Where the stamps are, an edit is one still.
    let file = place.0.join("objects/core/pods/default/%41lpha.json");
    let text = fs::read_to_string(&file).expect("its file").replace("first", "hand");
    fs::remove_file(&file).expect("ours");
    fs::write(&file, text).expect("ours");
    salvage(&place.0, &rules()).expect("the disk is well").lost.expect("something is missing");
    let store = place.open();
    let now = store.get(&key("Alpha")).expect("whole").expect("there");
    assert!(String::from_utf8_lossy(&now.json).contains("hand") && now.revision > alpha.revision);
}

#[test]
fn the_keys_come_back_with_a_backup() {
    let place = DataDir::killed("keys-backup");
    let keys = vec![("ca.crt".to_owned(), "one\n\"two\"".to_owned()), ("ca.key".to_owned(), "three".to_owned())];
    let text: Vec<u8> = place.open().backup(keys.clone()).flat_map(|piece| piece.to_vec()).collect();
    let other = DataDir::new("keys-restored");
    // Keys of another cluster are not written over.
    fs::create_dir_all(other.0.join("keys")).expect("ours");
    fs::write(other.0.join("keys/ca.key"), "another's").expect("ours");
    let why = restore(&other.0, || Ok(text.as_slice())).expect_err("keys are there");
    assert!(why.contains("(keys)"), "{why}");
    assert_eq!(fs::read_to_string(other.0.join("keys/ca.key")).expect("it stays"), "another's");
    fs::remove_dir_all(other.0.join("keys")).expect("ours");
    assert_eq!(restore(&other.0, || Ok(text.as_slice())).map(|restored| restored.keys), Ok(2));
    for (name, content) in &keys {
        let path = other.0.join("keys").join(name);
        assert_eq!(&fs::read_to_string(&path).expect("restored"), content);
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).expect("there")) & 0o777, 0o600);
    }
    assert_eq!(names_in(&other.open()).len(), 3, "the store takes the folder for no damage");
    // A name that leads out of the folder is no name.
    let shown = String::from_utf8(text).expect("text");
    for bad in ["../HEAD.json", ".x", "a/b", ""] {
        let changed = shown.replace("\"key\":\"ca.crt\"", &format!("\"key\":\"{bad}\""));
        let why = read_backup(changed.as_bytes(), |_, _| Ok(()), |_, _| Ok(())).expect_err("no name");
        assert!(why.contains("no name of a file of keys"), "{why}");
    }
}

#[test]
fn a_backup_comes_back() {
    let place = DataDir::killed("backup");
    let store = place.open();
    let text = whole(&store);
    let (revision, uuid) = (store.revision(), store.uuid().to_owned());
    let mut places = Vec::new();
    let object = |key: Key, _: &[u8]| {
        places.push(key.name);
        Ok(())
    };
    let contents = read_backup(text.as_slice(), object, |_, _| Ok(()));
    assert_eq!(contents, Ok(Restored { objects: 3, revision: revision.0, left_out: Vec::new(), keys: 0 }));
    assert_eq!(places, names_in(&store));
    assert!(restore(&place.0, || Ok(text.as_slice())).expect_err("it is open").contains("a master is running"));

    let other = DataDir::new("restored");
    restore(&other.0, || Ok(text.as_slice())).expect("an empty directory");
    let again = restore(&other.0, || Ok(text.as_slice())).expect_err("it is full");
    assert!(again.contains("holds a store already"), "{again}");
    let restored = other.open();
    assert_eq!(names_in(&restored), names_in(&store));
    assert!(restored.revision() > revision && restored.uuid() != uuid);
    let a = restored.get(&key("a")).expect("whole").expect("there");
    assert!(String::from_utf8_lossy(&a.json).contains("\"is\":\"first\""));
    let volatile = String::from_utf8_lossy(&a.json).contains("up");
    assert!(!volatile, "statuses are seen anew");
}

#[test]
fn a_deep_object_has_a_file_that_the_next_start_reads() {
    let numbers = format!("[{}1]", "1,".repeat(70_000));
    let deep: Value = serde_json::from_str(&format!("{}{numbers}{}", "[".repeat(100), "]".repeat(100))).expect("JSON");
    let mut object = pod("Deep", "", None);
    object["spec"] = deep.clone();
    let place = DataDir::new("deep");
    let store = place.open();
    store.write(create(object)).expect("it is new");
    let text = whole(&store);
    store.close().expect("the disk is well");
    drop(store);
    let other = DataDir::new("deep-restored");
    restore(&other.0, || Ok(text.as_slice())).expect("an empty directory");
    for place in [place, other] {
        let found = place.open().get(&key("Deep")).expect("whole").expect("there");
        assert!(serde_json::from_slice::<Value>(&found.json).expect("JSON")["spec"] == deep);
    }
}

#[test]
fn a_backup_that_is_not_whole_is_refused() {
    let place = DataDir::killed("torn");
    let text = whole(&place.open());
    let check = |text: &[u8], expected: &str| {
        let why = read_backup(text, |_, _| Ok(()), |_, _| Ok(())).expect_err("it is not whole");
        assert!(why.contains(expected), "{why}");
    };
    check(b"", "it is empty");
    check(b"{}\n", "does not begin as a backup");
    check(b"{\"backup\":9,\"store\":\"s\",\"revision\":1,\"objects\":0,\"damaged\":[]}\n", "a newer coracle-master");
    for cut in 1..text.len() {
        assert!(read_backup(&text[..cut], |_, _| Ok(()), |_, _| Ok(())).is_err(), "cut at {cut}");
    }
    let twice = [text.as_slice(), text.as_slice()].concat();
    check(&twice, "something follows behind its end");
    check(&[text.as_slice(), b"\n"].concat(), "something follows behind its end");
    let at = text.windows(5).position(|window| window == b"first").expect("a spec");
    let mut flipped = text.clone();
    flipped[at] = b'w';
    check(&flipped, "its checksum does not fit");
    let empty = DataDir::new("torn-restored");
    assert!(restore(&empty.0, || Ok(&text[..text.len() - 2])).is_err());
    assert!(!empty.0.exists(), "nothing was begun");
}

#[test]
fn a_backup_that_no_master_made_is_refused() {
    let backup = |revision: u64, places: &[&str], spec: &str| {
        let mut text =
            format!("{{\"backup\":1,\"store\":\"s\",\"revision\":{revision},\"objects\":{}}}\n", places.len());
        for place in places {
            let meta = format!("{{\"name\":\"{place}\",\"namespace\":\"default\"}}");
            let object = format!("{{\"apiVersion\":\"v1\",\"kind\":\"Pod\", \"metadata\":{meta},\"spec\":\"{spec}\"}}");
            text += &format!("{{\"path\":\"core/pods/default/{place}.json\",\"object\":{object}}}\n");
        }
        let crc = document::crc32(text.as_bytes());
        text + &format!("{{\"end\":{},\"crc\":\"{crc:08x}\"}}\n", places.len())
    };
    let check = |text: String, expected: &str| {
        let why = read_backup(text.as_bytes(), |_, _| Ok(()), |_, _| Ok(())).expect_err("nobody made it");
        assert!(why.contains(expected), "{why}");
    };
    check(backup(u64::MAX, &["a"], ""), "beyond all that a master comes to");
    check(backup(u64::MAX - 4, &["a"], ""), "beyond all that a master comes to");
    check(backup(7, &["a", "b", "a"], ""), "line 4: \"core/pods/default/a.json\" stands there twice");
    check(backup(7, &["a"], &"x".repeat(2 * OBJECT_BYTES_MAX)), "more than any object");
    // A person may have written it.
    let place = DataDir::new("by-hand");
    let text = backup(7, &["a", "b"], "");
    restore(&place.0, || Ok(text.as_bytes())).expect("it is whole");
    let store = place.open();
    assert_eq!((names_in(&store), store.health().damaged), (vec!["a".to_owned(), "b".to_owned()], vec![]));
}

#[test]
fn a_file_that_is_gone_is_missed_after_a_restore_and_a_salvage() {
    let text = whole(&DataDir::killed("lacks-from").open());
    let restored = DataDir::new("lacks-restored");
    restore(&restored.0, || Ok(text.as_slice())).expect("an empty directory");
    let salvaged = DataDir::killed("lacks-salvaged");
    salvaged.open().close().expect("the disk is well");
    let store = salvaged.open();
    store.write(create(pod("lost", "first", None))).expect("it is new");
    store.write(create(pod("later", "first", None))).expect("it is new");
    store.halt();
    drop(store);
    salvaged.rot("lost");
    assert!(salvage(&salvaged.0, &rules()).expect("the disk is well").lost.is_some());
    for place in [restored, salvaged] {
        let store = place.open();
        assert_eq!((store.health().edits, store.health().damaged), (vec![], vec![]));
        store.write(create(pod("new", "first", None))).expect("it is new");
        store.halt();
        drop(store);
        fs::remove_file(place.0.join("objects/core/pods/default/a.json")).expect("its file");
        let edits = place.open().health().edits;
        assert!(edits.len() == 1 && edits[0].why.contains("an object's file is gone"), "{edits:?}");
    }
}

#[test]
fn what_says_numbers_beyond_all_is_not_believed() {
    let place = DataDir::killed("beyond");
    let path = place.0.join("HEAD.json");
    let text = fs::read_to_string(&path).expect("it opened once");
    let head = head::Head::from_text(&text).expect("whole");
    for reserved in [u64::MAX, setup::REVISION_MAX + 1] {
        assert_eq!(head::Head::from_text(&head::Head { reserved, ..head.clone() }.to_text()), None);
    }
    fs::write(&path, head::Head { reserved: u64::MAX, ..head }.to_text()).expect("ours");
    fs::write(place.0.join(format!("wal/{}.jsonl", u64::MAX)), "").expect("ours");
    let store = place.open();
    let revision = store.revision().0;
    assert!(revision < setup::REVISION_MAX && names_in(&store) == ["Whole", "a", "c"], "{revision}");
    assert!(store.write(create(pod("new", "first", None))).expect("it is new").revision.0 > revision);
}

/// What lies in a folder, below it too.
fn tree(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(tree(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

#[test]
fn a_restore_that_fails_leaves_nothing_behind() {
    let place = DataDir::killed("restore-fails");
    let text = whole(&place.open());
    // It is whole when it is read the first time, and cut when it is read the second.
    let check = |dir: &std::path::Path| {
        let asked = std::cell::Cell::new(0);
        restore(dir, || {
            asked.set(asked.get() + 1);
            Ok(if asked.get() == 1 { &text[..] } else { &text[..text.len() - 200] })
        })
        .expect_err("it is cut")
    };
    let outer = DataDir::new("restore-fails-into");
    check(&outer.0.join("a/b"));
    assert!(!outer.0.exists(), "nor the folders above");
    // What was there stays as it was.
    fs::create_dir_all(outer.0.join("objects")).expect("ours");
    fs::write(outer.0.join("notes"), "mine").expect("ours");
    let before = tree(&outer.0);
    check(&outer.0);
    assert_eq!(tree(&outer.0), before);
    fs::write(outer.0.join("tmp"), "in the way").expect("ours");
    let before = tree(&outer.0);
    assert!(restore(&outer.0, || Ok(&text[..])).is_err());
    assert_eq!(tree(&outer.0), before);
    fs::remove_file(outer.0.join("tmp")).expect("ours");
    restore(&outer.0, || Ok(&text[..])).expect("nothing is in the way");
    assert_eq!(fs::read_dir(outer.0.join("tmp")).expect("a folder").count(), 0, "no secret lies about");
}

#[test]
fn what_a_restore_that_was_killed_leaves_is_no_store_and_no_secret() {
    let from = DataDir::killed("restore-killed-from");
    let text = whole(&from.open());
    // Killed while it wrote the files.
    let place = DataDir::new("restore-killed");
    let staged = place.0.join("tmp/restored/objects/core/secrets/default");
    fs::create_dir_all(&staged).expect("ours");
    fs::write(staged.join("s.json"), "secret").expect("ours");
    let store = place.open();
    let why = store.health().degraded.expect("it says so");
    assert!(why.contains("did not come to its end") && why.contains("coracle-master restore FILE"), "{why}");
    assert!(store.write(create(pod("x", "a", None))).is_err());
    store.halt();
    drop(store);
    let found = inspect(&place.0, &rules(), false).expect("it is there");
    assert!(
        !found.whole() && found.unknown[0].contains("did not come to its end") && found.store == "none yet",
        "{found:?}"
    );
    restore(&place.0, || Ok(&text[..])).expect("it can be done again");
    let store = place.open();
    assert!(store.health().degraded.is_none() && !place.0.join("tmp/restored").exists());
    assert_eq!(
        (names_in(&store), fs::read_dir(place.0.join("quarantine")).expect("a folder").count()),
        (vec!["Whole".to_owned(), "a".to_owned(), "c".to_owned()], 0)
    );
    store.halt();
    drop(store);
    // Killed before they came into their place: HEAD.json knows that they ought to be there.
    let place = DataDir::new("restore-killed-late");
    restore(&place.0, || Ok(&text[..])).expect("the disk is well");
    fs::remove_dir_all(place.0.join("objects")).expect("ours");
    let store = place.open();
    assert!(store.health().degraded.is_some_and(|why| why.contains("objects is gone")));
    store.halt();
    drop(store);
    restore(&place.0, || Ok(&text[..])).expect("it can be done again");
    assert_eq!(names_in(&place.open()), ["Whole", "a", "c"]);
}

#[test]
fn a_backup_names_what_it_leaves_out() {
    let place = DataDir::killed("left-out");
    let store = place.open();
    store.close().expect("the disk is well");
    drop(store);
    fs::create_dir_all(place.0.join("objects/acme.example/rockets/default")).expect("ours");
    fs::write(place.0.join("objects/acme.example/rockets/default/one.json"), "{}").expect("ours");
    fs::write(place.0.join("objects/core/pods/default/a.json"), "{").expect("ours");
    fs::write(place.0.join("objects/core/notes.txt"), "mine").expect("ours");
    let contents = read_backup(whole(&place.open()).as_slice(), |_, _| Ok(()), |_, _| Ok(())).expect("it is whole");
    let mut left: Vec<&str> = contents.left_out.iter().map(|left| left.file.as_str()).collect();
    left.sort_unstable();
    let rocket = "objects/acme.example/rockets/default/one.json";
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(left[0] == rocket && left[1].starts_with("quarantine/") && left[2].starts_with("quarantine/"), "{left:?}");
    let why = &contents.left_out.iter().find(|left| left.file == rocket).expect("it is named").why;
    assert!(why.contains("knows no rockets"), "{why}");
    assert_eq!(contents.objects, 2);
}

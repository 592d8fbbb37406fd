//! Tests of edits to the files of a killed store: of objects that the journal knows more of, and of others.

use super::crash::spec_of;
use super::sim::SimDisk;
use super::*;

const WEB: &str = "objects/core/pods/default/%57eb.json";

/// A store that was killed: the file of Web says `a`, the journal `b`; B and C are as their files say, unless there is
/// no other object.
fn killed(alone: bool) -> SimDisk {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    store.write(create(pod("Web", "a", None))).expect("new");
    for name in ["B", "C"] {
        let (key, object, claims) = (key(name), pod(name, "a", None), Vec::new());
        let durable = if alone { Durable::Nothing } else { Durable::Whole };
        store.write(Write::Create { key, object, durable, claims }).expect("new");
    }
    store.checkpoint().expect("the disk is well");
    let web = store.get(&key("Web")).expect("whole").expect("there").revision;
    store.write(update(pod("Web", "b", None), web)).expect("seen");
    disk
}

fn web(store: &FlatStore) -> String {
    spec_of(&store.get(&key("Web")).expect("whole").expect("there"))
}

fn edited(disk: &SimDisk, file: &str, from: &str, to: &str) -> Vec<u8> {
    String::from_utf8(disk.peek(file).expect("its file"))
        .expect("text")
        .replace(&format!("\"{from}\""), &format!("\"{to}\""))
        .into_bytes()
}

fn edits_of(store: &FlatStore) -> Vec<String> {
    store
        .health()
        .edits
        .iter()
        .map(|edit| format!("{} {}", edit.key.as_ref().expect("an object's").name, edit.file))
        .collect()
}

enum By {
    /// `sed -i`, editors, `git checkout`.
    Replacing,
    Writing,
    /// `cp -a`, from elsewhere.
    CopyingStamped,
    Removing,
}

/// What Web is then, and what people are told.
fn check(by: By, text: &str, is: &str, says: &[&str]) {
    for alone in [false, true] {
        let disk = killed(alone);
        let now = memory_on(&disk.fork(2)).get(&key("Web")).expect("whole").expect("there").revision;

        match by {
            By::Replacing => disk.place(WEB, text.as_bytes()),
            By::Writing => disk.overwrite(WEB, text.as_bytes()),
            By::CopyingStamped => disk.place_stamped(WEB, text.as_bytes()),
            By::Removing => disk.take(WEB),
        }
        let store = memory_on(&disk);
        assert_eq!(web(&store), is);
        let revision = store.get(&key("Web")).expect("whole").expect("there").revision;
        assert_eq!(revision == now, is == "b", "{revision} after {now}, alone {alone}: {text:?}");
        assert_eq!(edits_of(&store), says);
        assert!(store.health().damaged.is_empty() && store.health().degraded.is_none(), "{:?}", store.health());
        for said in says.iter().filter_map(|said| said.strip_prefix("Web quarantine/")) {
            assert!(disk.peek(&format!("quarantine/{said}")).is_some(), "{said}");
        }
        // Killed, and the power goes: it was made durable, and is said once.
        drop(store);
        disk.power_loss();
        let store = memory_on(&disk);
        let again = store.get(&key("Web")).expect("whole").expect("there");
        assert_eq!((spec_of(&again).as_str(), again.revision), (is, revision));
        assert_eq!(edits_of(&store), [""; 0]);
        // What is written from here on counts.
        store.write(update(pod("Web", "c", None), revision)).expect("seen");
        drop(store);
        let store = memory_on(&disk);
        assert_eq!((web(&store), edits_of(&store)), ("c".to_owned(), vec![]));
    }
}

const ASIDE: &str = "Web quarantine/0001-edited-settled/core/pods/default/%57eb.json";

#[test]
fn an_edit_of_what_the_journal_is_ahead_of_is_set_aside_and_named() {
    let disk = killed(false);
    let text = |to: &str| String::from_utf8(edited(&disk, WEB, "a", to)).expect("text");
    check(By::Replacing, &text("hand"), "b", &[ASIDE]);
    check(By::Writing, &text("hand"), "b", &[ASIDE]);
    check(By::CopyingStamped, &text("older"), "b", &[ASIDE]);
    check(By::Replacing, &pod("Web", "hand", None).to_string(), "b", &[ASIDE]);
}

#[test]
fn what_is_as_it_was_is_no_edit() {
    let disk = killed(false);
    let same = String::from_utf8(disk.peek(WEB).expect("its file")).expect("text");
    let store = memory_on(&disk.fork(3));
    let last = store.get(&key("Web")).expect("whole").expect("there");
    for text in [&same, &same.replace(' ', ""), &String::from_utf8_lossy(&last.json).into_owned()] {
        check(By::Replacing, text, "b", &[]);
        check(By::CopyingStamped, text, "b", &[]);
    }
    check(By::Writing, &same, "b", &[]);
}

#[test]
fn a_removed_file_of_which_the_journal_says_more_is_brought_again_and_told() {
    check(By::Removing, "", "b", &["Web objects/core/pods/default/%57eb.json"]);
}

#[test]
fn a_broken_edit_over_the_journal_is_set_aside_and_told() {
    let aside = |word: &str| format!("Web quarantine/0001-{word}-settled/core/pods/default/%57eb.json");
    let other = pod("other", "a", None).to_string();
    let malformed = pod("Web", "a", None).to_string().replace(r#"{"is":"a"}"#, r#""text""#);
    let large = " ".repeat(13 << 20);
    for (word, text) in [("misplaced", &other), ("edited", &malformed), ("too-large", &large)] {
        check(By::Replacing, text, "b", &[&aside(word)]);
        check(By::Writing, text, "b", &[&aside(word)]);
    }
    // A cut in the middle of a checkpoint leaves such things.
    check(By::Replacing, "{ \"mine\"", "b", &[]);
    let disk = killed(false);
    let store = memory_on(&disk.fork(3));
    let last = document::indented(&store.get(&key("Web")).expect("whole").expect("there").json);
    let part = String::from_utf8_lossy(&last[..last.len() / 2]).into_owned();
    for text in ["", "\0\0\0", &part] {
        check(By::Replacing, text, "b", &[]);
    }
}

#[test]
fn what_a_cut_has_left_of_any_version_is_no_edit() {
    let disk = killed(false);
    let store = memory_on(&disk);
    let mut parts = Vec::new();
    for spec in ["one", "two", "last"] {
        let seen = store.get(&key("Web")).expect("whole").expect("there");
        let now = store.write(update(pod("Web", spec, None), seen.revision)).expect("seen");
        let object = store.get(&key("Web")).expect("whole").expect("there");
        assert_eq!(object.revision, now.revision);
        let text = document::indented(&object.json);
        parts.push(String::from_utf8_lossy(&text[..text.len() - 4]).into_owned());
    }
    drop(store);
    let check = |part: &str| {
        let disk = disk.fork(4);
        disk.place(WEB, part.as_bytes());
        let store = memory_on(&disk);
        assert_eq!((web(&store).as_str(), edits_of(&store)), ("last", vec![]), "{part}");
        let kept = disk.peek("quarantine/0001-not-json-settled/core/pods/default/%57eb.json");
        assert_eq!(kept.as_deref(), Some(part.as_bytes()), "nothing that may be a person's is thrown away");
    };
    parts.iter().for_each(|part| check(part));
    check(&parts[1].replace("two", "hand"));
}

#[test]
fn an_edit_of_the_only_file_is_an_edit() {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    let made = store.write(create(pod("Web", "a", None))).expect("new");
    store.checkpoint().expect("the disk is well");
    drop(store);
    disk.place(WEB, &edited(&disk, WEB, "a", "hand"));
    let store = memory_on(&disk);
    let now = store.get(&key("Web")).expect("whole").expect("there");
    assert_eq!(spec_of(&now), "hand");
    assert!(now.revision > made.revision, "a revision serves one content");
}

#[test]
fn an_object_that_was_deleted_may_be_put_back() {
    let disk = killed(false);
    let store = memory_on(&disk);
    let text = edited(&disk, WEB, "a", "back");
    let seen = store.get(&key("Web")).expect("whole").expect("there").revision;
    store.write(Write::Delete { key: key("Web"), seen }).expect("seen");
    drop(store);
    assert!(memory_on(&disk.fork(2)).get(&key("Web")).expect("whole").is_none(), "its file is as it was");
    memory_on(&disk).close().expect("the disk is well");
    disk.place(WEB, &text);
    assert_eq!(web(&memory_on(&disk)), "back");
}

#[test]
fn a_kill_after_a_kill_tears_nothing() {
    let disk = SimDisk::new(1);
    let open = || {
        let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
        FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), Setup::SMALL).expect("it opens")
    };
    let store = open().store;
    let web = store.write(create(pod("Web", "a", None))).expect("new");
    drop(store);
    for kills in 1..=4 {
        let opened = open();
        assert_eq!(opened.notes, [""; 0], "kill {kills}");
        let store = opened.store;
        assert_eq!(store.get(&key("Web")).expect("whole").expect("there").json, web.json);
        // What each life reserves may have been used.
        assert_eq!(store.revision().0, kills * setup::RESERVE);
    }
}

fn lose_journal(disk: &SimDisk) {
    for path in disk.tree().iter().filter(|path| path.starts_with("wal/")) {
        disk.take(path);
    }
}

#[test]
fn a_journal_lost_after_a_clean_close_is_not_missed_and_later_it_is() {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    let web = store.write(create(pod("Web", "a", None))).expect("new");
    store.close().expect("the disk is well");
    drop(store);
    lose_journal(&disk);
    let store = memory_on(&disk);
    assert_eq!(store.health().degraded, None);
    assert_eq!(store.get(&key("Web")).expect("whole").expect("there").json, web.json);
    let second = store.write(update(pod("Web", "b", None), web.revision)).expect("seen");
    drop(store);
    // It opens again, as far as the journal is there.
    let fork = disk.fork(2);
    assert_eq!(memory_on(&fork).get(&key("Web")).expect("whole").expect("there").json, second.json);
    lose_journal(&disk);
    let store = memory_on(&disk);
    assert!(store.health().degraded.is_some_and(|why| why.contains("is gone or damaged")));
}

#[test]
fn a_start_that_cannot_say_that_it_began_makes_good_for_it_before_it_answers() {
    for step in 0..80 {
        let disk = SimDisk::new(1);
        let store = memory_on(&disk);
        let web = store.write(create(pod("Web", "a", None))).expect("new");
        store.close().expect("the disk is well");
        drop(store);
        disk.fail(step..step + 1, super::sim::EIO);
        let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
        let Ok(opened) = FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), Setup::SMALL) else {
            continue;
        };
        disk.heal();
        if opened.store.write(update(pod("Web", "b", None), web.revision)).is_err() {
            continue;
        }
        drop(opened);
        lose_journal(&disk);
        assert!(
            memory_on(&disk).health().degraded.is_some(),
            "step {step}: an acknowledged write is gone without a word"
        );
    }
}

fn says(store: &FlatStore) -> Vec<String> {
    store.health().edits.iter().map(Damage::to_string).collect()
}

#[test]
fn removed_files_are_told_once_whether_the_store_was_closed_or_killed() {
    for closed in [true, false] {
        let disk = killed(false);
        let store = memory_on(&disk);
        store.checkpoint().expect("the disk is well");
        if closed {
            store.close().expect("the disk is well");
        } else {
            // Of this one the journal says more.
            let web = store.get(&key("Web")).expect("whole").expect("there").revision;
            store.write(update(pod("Web", "c", None), web)).expect("seen");
        }
        drop(store);
        for name in ["%42", "%43"] {
            disk.take(&format!("objects/core/pods/default/{name}.json"));
        }
        let store = memory_on(&disk);
        assert!(store.get(&key("B")).expect("whole").is_none(), "it is a deletion");
        let texts = says(&store);
        assert!(
            texts.len() == 1 && texts[0].starts_with("objects: 2 objects' files are gone"),
            "closed {closed}: {texts:?}"
        );
        assert!(texts[0].contains("copy the files back") && store.health().degraded.is_none(), "{texts:?}");
        drop(store);
        disk.power_loss();
        let store = memory_on(&disk);
        assert_eq!((says(&store), web(&store).as_str()), (vec![], if closed { "b" } else { "c" }));
        // What the API deletes is not gone by hand.
        let seen = store.get(&key("Web")).expect("whole").expect("there").revision;
        store.write(Write::Delete { key: key("Web"), seen }).expect("seen");
        drop(store);
        assert_eq!(says(&memory_on(&disk)), [""; 0]);
    }
}

#[test]
fn a_copy_under_a_new_name_has_a_uid_of_its_own() {
    for closed in [true, false] {
        let disk = SimDisk::new(1);
        let store = memory_on(&disk);
        let mut one = pod("One", "a", None);
        one["metadata"]["uid"] = json!("u-1");
        let one = store.write(create(one)).expect("new");
        store.write(create(pod("Other", "a", None))).expect("new");
        store.checkpoint().expect("the disk is well");
        if closed {
            store.close().expect("the disk is well");
        }
        drop(store);
        let file = |name: &str| format!("objects/core/pods/default/{name}.json");
        disk.place(&file("%41nother"), &edited(&disk, &file("%4Fne"), "One", "Another"));
        let store = memory_on(&disk);
        let another = store.get(&key("Another")).expect("whole").expect("there");
        assert!(!String::from_utf8_lossy(&another.json).contains("u-1") && another.revision > one.revision);
        let original = store.get(&key("One")).expect("whole").expect("there");
        assert!(String::from_utf8_lossy(&original.json).contains("u-1"));
        assert!(says(&store).len() == 1 && says(&store)[0].contains("had the uid of"), "{:?}", says(&store));
        drop(store);
        // Under its new name alone it is who it was.
        let text = edited(&disk, &file("%4Fne"), "One", "Moved");
        disk.take(&file("%4Fne"));
        disk.place(&file("%4Doved"), &text);
        let moved = memory_on(&disk).get(&key("Moved")).expect("whole").expect("there");
        assert!(String::from_utf8_lossy(&moved.json).contains("u-1"));
    }
}

#[test]
fn a_namespace_whose_file_is_gone_is_there_as_long_as_something_lies_in_it() {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    let home = Key { resource: Resource::core("namespaces"), namespace: String::new(), name: "rented".to_owned() };
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rented"}});
    store.write(Write::Create { key: home.clone(), object, durable: Durable::Whole, claims: Vec::new() }).expect("new");
    let mut lodger = pod("Web", "a", None);
    lodger["metadata"]["namespace"] = json!("rented");
    let key = Key { namespace: "rented".to_owned(), ..key("Web") };
    store.write(Write::Create { key, object: lodger, durable: Durable::Whole, claims: Vec::new() }).expect("new");
    store.close().expect("the disk is well");
    drop(store);
    disk.take("objects/core/namespaces/_cluster/rented.json");
    let store = memory_on(&disk);
    assert!(says(&store).iter().any(|text| text.contains("it is made anew")), "{:?}", says(&store));
    let made = store.get(&home).expect("whole").expect("there");
    drop(store);
    disk.power_loss();
    let store = memory_on(&disk);
    assert_eq!(store.get(&home).expect("whole").expect("there").json, made.json);
    assert_eq!(says(&store), [""; 0]);
}

#[test]
fn a_file_need_not_say_the_namespace_that_its_place_says() {
    let disk = killed(false);
    memory_on(&disk).close().expect("the disk is well");
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "New"}, "spec": {"is": "a"}});
    disk.place("objects/core/pods/default/%4Eew.json", object.to_string().as_bytes());
    // Nothing of this is an object, and none of it ends a start.
    for (name, text) in [("x", "[]"), ("y", "\"text\""), ("z", "{\"metadata\": []}")] {
        disk.place(&format!("objects/core/pods/default/{name}.json"), text.as_bytes());
    }
    let store = memory_on(&disk);
    let new = store.get(&key("New")).expect("whole").expect("there");
    assert!(String::from_utf8_lossy(&new.json).contains(r#""namespace":"default""#));
    let damaged = store.health().damaged;
    assert_eq!(damaged.len(), 3);
    let refused = store.get(&key("x")).expect_err("it is damaged").why;
    assert!(refused.contains("or delete or replace the object"), "{refused}");
}

#[test]
fn edits_that_nothing_tells_apart_are_told_at_once() {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    let first = store.write(create(pod("A", "a", None))).expect("new").revision;
    let last = store.write(create(pod("B", "a", None))).expect("new").revision;
    store.close().expect("the disk is well");
    drop(store);
    for name in ["%41", "%42"] {
        let file = format!("objects/core/pods/default/{name}.json");
        disk.place(&file, &edited(&disk, &file, "a", if name == "%41" { "a" } else { "hand" }));
    }
    let open = |disk: &SimDisk| {
        let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
        FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), Setup::SMALL).expect("it opens")
    };
    let opened = open(&disk);
    assert!(opened.notes.iter().any(|note| note.contains("2 objects have new revisions")), "{:?}", opened.notes);
    let revision = |name: &str| opened.store.get(&key(name)).expect("whole").expect("there").revision;
    assert!(revision("A") > first && revision("B") > last, "any of them may be the one");
    assert_eq!(opened.store.health().edits, []);
}

/// Without HEAD.json nobody knows that the files had caught up with the journal.
#[test]
fn what_somebody_took_away_together_with_the_head_is_named_where_it_is_back() {
    for head in [None, Some("{}")] {
        let disk = SimDisk::new(1);
        let store = memory_on(&disk);
        for name in ["a", "b", "c"] {
            store.write(create(pod(name, "x", None))).expect("it is new");
        }
        store.close().expect("the disk is well");
        drop(store);
        disk.take("objects/core/pods/default/b.json");
        match head {
            None => disk.take("HEAD.json"),
            Some(text) => disk.place("HEAD.json", text.as_bytes()),
        }
        let store = memory_on(&disk);
        assert!(store.get(&key("b")).expect("whole").is_some(), "the journal has it");
        let edits = store.health().edits;
        assert!(
            edits.iter().any(|edits| edits.why.contains("pods/default/b") && !edits.why.contains("default/a")),
            "{head:?}: {edits:?}"
        );
        drop(store);
        assert_eq!(memory_on(&disk).health().edits, [], "once");
    }
}

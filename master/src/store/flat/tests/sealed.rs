//! Secrets that are sealed on the disk: turning it on and off, changing the key, and starts without the key.

use super::sim::SimDisk;
use super::*;
use std::collections::BTreeMap;

const SECRETS: Resource = Resource::core("secrets");
/// What must not lie on the disk once everything is sealed.
const WORD: &str = "hunter2";

fn secret(name: &str, word: &str) -> Write {
    let applied = json!({"data": {"word": word}}).to_string();
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "data": {"word": word},
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-of-{name}"), "labels": {"app": "shop"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied},
        },
    });
    Write::Create { key: secret_key(name), object, durable: Durable::Whole, claims: Vec::new() }
}

fn secret_key(name: &str) -> Key {
    Key { resource: SECRETS, namespace: "default".to_owned(), name: name.to_owned() }
}

fn ring(ids: &str) -> SealKeys {
    let line = |id: &str| match id {
        "plain" => "plain\n".to_owned(),
        id => key_line(id, &[id.as_bytes()[0]; KEY_BYTES]),
    };
    SealKeys::Ring(Arc::new(KeyRing::parse(&ids.split(' ').map(line).collect::<String>()).expect("keys")))
}

fn sealed_rules(keys: SealKeys) -> StoreRules<'static> {
    let mut rules = StoreRules { sealing: Sealing { resources: Arc::new([SECRETS]), keys }, ..rules() };
    rules.kinds.push(KindRow { resource: SECRETS, api_version: Cow::Borrowed("v1"), kind: Cow::Borrowed("Secret") });
    rules
}

fn open(disk: &SimDisk, keys: SealKeys) -> FlatStore {
    let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
    let opened = FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &sealed_rules(keys), Setup::SMALL);
    opened.expect("it opens").store
}

/// What every reader sees: name, revision, text.
fn shown(store: &FlatStore) -> BTreeMap<String, (Revision, Vec<u8>)> {
    let page = store.list(&SECRETS, None);
    assert!(page.damaged.is_empty(), "{:?}", page.damaged);
    page.items.iter().map(|stored| (stored.key.name.clone(), (stored.revision, stored.json.to_vec()))).collect()
}

/// The files that have a word in clear text.
fn clear(disk: &SimDisk, word: &str) -> Vec<String> {
    let has =
        |path: &String| disk.peek(path).is_some_and(|text| memchr::memmem::find(&text, word.as_bytes()).is_some());
    disk.tree().into_iter().filter(has).collect()
}

/// Some Secrets in clear text: in files, in the journal alone, and in old segments.
fn plain_disk(seed: u64, closes: bool) -> (SimDisk, BTreeMap<String, (Revision, Vec<u8>)>) {
    let disk = SimDisk::new(seed);
    let store = open(&disk, SealKeys::Off);
    for name in ["a", "b", "c"] {
        store.write(secret(name, WORD)).expect("it is new");
    }
    store.checkpoint().expect("the disk is well");
    store.write(secret("d", WORD)).expect("it is new");
    let gone = store.get(&secret_key("b")).expect("whole").expect("there");
    store.write(Write::Delete { key: secret_key("b"), seen: gone.revision }).expect("it was seen");
    let before = shown(&store);
    match closes {
        true => store.close().expect("the disk is well"),
        false => store.halt(),
    }
    assert!(!clear(&disk, WORD).is_empty());
    (disk, before)
}

#[test]
fn turned_on_nothing_stays_in_clear_text_and_nobody_hears_of_it() {
    for closes in [true, false] {
        let (disk, before) = plain_disk(1, closes);
        let store = open(&disk, ring("a"));
        assert_eq!(shown(&store), before);
        store.tend();
        assert_eq!(clear(&disk, WORD), Vec::<String>::new(), "{closes}");
        assert_eq!(shown(&store), before);
        let file = String::from_utf8(disk.peek("objects/core/secrets/default/a.json").expect("there")).expect("JSON");
        assert!(file.contains("\"name\": \"a\"") && file.contains("\"key\": \"a\""), "{file}");
        // Then it is at rest: nothing is due, and a start changes no file of an object.
        let written = disk.written();
        store.tend();
        store.write(secret("e", WORD)).expect("it is new");
        store.checkpoint().expect("the disk is well");
        assert_eq!(clear(&disk, WORD), Vec::<String>::new());
        assert!(disk.written() > written);
        let before = shown(&store);
        store.close().expect("the disk is well");
        drop(store);
        let again = open(&disk, ring("a"));
        again.tend();
        assert_eq!(shown(&again), before);
        assert_eq!(again.health().remarks, Vec::<String>::new());
    }
}

#[test]
fn at_rest_nothing_is_written() {
    let (disk, _) = plain_disk(1, true);
    let store = open(&disk, ring("a"));
    store.tend();
    store.tend();
    let written = disk.written();
    for _ in 0..5 {
        store.tend();
    }
    assert_eq!(disk.written(), written);
}

/// Cuts at each step of a change, and judges the start after it.
fn cut_everywhere(closes: bool, from: &str, to: &str, change: impl Fn(&SimDisk)) {
    let mut steps = 0;
    loop {
        steps += 1;
        let (disk, before) = plain_disk(steps, closes);
        if from != "plain a" {
            let store = open(&disk, ring(from));
            store.tend();
            store.close().expect("the disk is well");
        }
        disk.cut_in(steps);
        change(&disk);
        let cut = disk.is_cut();
        disk.power_loss();
        let store = open(&disk, ring(to));
        assert_eq!(shown(&store), before, "cut at step {steps}");
        store.tend();
        assert_eq!(shown(&store), before, "cut at step {steps}");
        let clear_now = clear(&disk, WORD);
        assert_eq!(clear_now.is_empty(), !to.starts_with("plain"), "cut at step {steps}: {clear_now:?}");
        if !to.starts_with("plain") {
            let old = format!("\"key\":\"{}\"", from.split(' ').next_back().expect("one"));
            let lies = clear(&disk, &old);
            assert!(lies.is_empty() || from == to || from == "plain a", "cut at step {steps}: {lies:?}");
        }
        store.close().expect("the disk is well");
        if !cut {
            break;
        }
    }
    assert!(steps > 10, "it was never cut");
}

/// A start that is cut does not come to its end.
fn opened(disk: &SimDisk, keys: SealKeys) -> Option<FlatStore> {
    let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
    let opened = FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &sealed_rules(keys), Setup::SMALL);
    opened.ok().map(|opened| opened.store)
}

#[test]
fn no_cut_while_it_is_turned_on_loses_a_secret() {
    for closes in [true, false] {
        cut_everywhere(closes, "plain a", "a", |disk| {
            if let Some(store) = opened(disk, ring("a")) {
                store.tend();
                store.tend();
            }
        });
    }
}

#[test]
fn no_cut_in_a_rotation_loses_a_secret() {
    cut_everywhere(true, "a", "b a", |disk| {
        if let Some(store) = opened(disk, ring("a")) {
            drop(store.reseal(ring("b a")));
        }
    });
}

#[test]
fn no_cut_while_it_is_turned_off_loses_a_secret() {
    cut_everywhere(true, "a", "plain a", |disk| {
        if let Some(store) = opened(disk, ring("a")) {
            drop(store.reseal(ring("plain a")));
        }
    });
}

#[test]
fn a_rotation_leaves_nothing_by_the_old_key() {
    let (disk, before) = plain_disk(1, true);
    let store = open(&disk, ring("a"));
    store.tend();
    store.reseal(ring("b a")).expect("the disk is well");
    assert_eq!(shown(&store), before);
    assert_eq!(clear(&disk, "\"key\":\"a\""), Vec::<String>::new());
    assert_eq!(clear(&disk, "\"key\": \"a\""), Vec::<String>::new());
    // The old key is not needed any more.
    store.close().expect("the disk is well");
    drop(store);
    assert_eq!(shown(&open(&disk, ring("b"))), before);
}

#[test]
fn without_the_key_secrets_are_there_and_closed() {
    let (disk, before) = plain_disk(1, true);
    let store = open(&disk, ring("a"));
    store.tend();
    // One is in the journal alone.
    store.write(secret("late", WORD)).expect("it is new");
    store.write(create(pod("web", "x", None))).expect("it is new");
    let late = store.get(&secret_key("late")).expect("whole").expect("there");
    store.halt();
    drop(store);
    let lost = || SealKeys::Lost("/k: gone".to_owned());
    for keys in [SealKeys::Off, lost(), ring("b")] {
        let store = open(&disk, keys.clone());
        store.tend();
        assert!(store.get(&key("web")).expect("whole").is_some());
        for name in ["a", "late"] {
            let why = store.get(&secret_key(name)).expect_err("it is closed").why;
            assert!(why.starts_with(SEALED) && why.contains("sealed by key a"), "{why}");
        }
        let page = store.list(&SECRETS, None);
        assert_eq!((page.items.len(), page.damaged.len(), page.shut.len()), (0, 4, 4));
        assert_eq!((store.health().shut.len(), store.health().damaged.len()), (4, 0));
        store.checkpoint().expect("the disk is well");
        let objects = |disk: &SimDisk| {
            let files = disk.tree().into_iter().filter(|path| path.starts_with("objects/core/secrets/"));
            files.map(|path| disk.peek(&path)).collect::<Vec<_>>()
        };
        let lies = objects(&disk);
        let Write::Create { key, object, durable, claims } = secret("a", "other") else { unreachable!() };
        for write in [
            Write::Create { key: key.clone(), object: object.clone(), durable, claims: Vec::new() },
            Write::Update {
                key: key.clone(),
                object: object.clone(),
                seen: before["a"].0,
                durable,
                claims: Vec::new(),
            },
            Write::Update { key: key.clone(), object, seen: UNSEEN, durable, claims },
            Write::Delete { key: key.clone(), seen: UNSEEN },
            Write::Delete { key, seen: before["a"].0 },
        ] {
            assert!(matches!(store.write(write), Err(Refused::Damaged { .. })));
        }
        let new = store.write(secret("new", WORD));
        match &keys {
            SealKeys::Lost(_) => assert!(matches!(new, Err(Refused::Sealed { .. })), "{new:?}"),
            _ => {
                let new = new.expect("it is new");
                store.write(Write::Delete { key: secret_key("new"), seen: new.revision }).expect("it was seen");
            }
        }
        store.checkpoint().expect("the disk is well");
        assert_eq!(objects(&disk), lies);
        store.close().expect("the disk is well");
        assert!(store.health().edits.is_empty(), "{:?}", store.health().edits);
    }
    let store = open(&disk, ring("b a"));
    let mut expected = before;
    expected.insert("late".to_owned(), (late.revision, late.json.to_vec()));
    assert_eq!(shown(&store), expected);
    assert!(store.health().edits.is_empty() && store.health().remarks.is_empty());
}

#[test]
fn a_secret_that_was_put_in_the_place_of_another_does_not_open() {
    let (disk, before) = plain_disk(1, true);
    let store = open(&disk, ring("a"));
    store.tend();
    store.close().expect("the disk is well");
    drop(store);
    let file = |name: &str| format!("objects/core/secrets/default/{name}.json");
    let text = String::from_utf8(disk.peek(&file("a")).expect("there")).expect("JSON");
    disk.place(&file("c"), text.replace("\"name\": \"a\"", "\"name\": \"c\"").as_bytes());
    let store = open(&disk, ring("a"));
    let why = store.get(&secret_key("c")).expect_err("it is another's").why;
    assert!(why.contains("key a does not open it"), "{why}");
    let a = store.get(&secret_key("a")).expect("whole").expect("there");
    // The files are others than they were, so revisions are.
    assert_eq!((a.json.len(), a.json[..60] == before["a"].1[..60]), (before["a"].1.len() + 6, true));
}

#[test]
fn a_file_that_a_person_wrote_is_taken_and_sealed() {
    let (disk, _) = plain_disk(1, true);
    let store = open(&disk, ring("a"));
    store.tend();
    store.close().expect("the disk is well");
    drop(store);
    let Write::Create { object, .. } = secret("hand", "by hand") else { unreachable!() };
    disk.place("objects/core/secrets/default/hand.json", object.to_string().as_bytes());
    // A label of a sealed file.
    let file = "objects/core/secrets/default/a.json";
    let text = String::from_utf8(disk.peek(file).expect("there")).expect("JSON");
    disk.overwrite(file, text.replace("shop", "kiosk").as_bytes());
    let store = open(&disk, ring("a"));
    store.tend();
    let hand = store.get(&secret_key("hand")).expect("whole").expect("there");
    assert!(memchr::memmem::find(&hand.json, b"by hand").is_some());
    let a = store.get(&secret_key("a")).expect("whole").expect("there");
    assert!([&b"kiosk"[..], WORD.as_bytes()].iter().all(|word| memchr::memmem::find(&a.json, word).is_some()));
    assert_eq!(clear(&disk, "by hand"), Vec::<String>::new());
}

#[test]
fn a_backup_is_sealed_and_does_not_open_without_the_key() {
    let (disk, before) = plain_disk(1, true);
    let store = open(&disk, ring("a"));
    let keys = vec![("ca.crt".to_owned(), "public".to_owned()), ("tokens.json".to_owned(), "a hash".to_owned())];
    let text: Vec<u8> = store.backup(keys).flat_map(|piece| piece.to_vec()).collect();
    for word in [WORD, "public", "a hash"] {
        assert!(memchr::memmem::find(&text, word.as_bytes()).is_none(), "{word}");
    }
    let dir = std::env::temp_dir().join(format!("coracle-store-{}-sealed-backup", std::process::id()));
    std::fs::remove_dir_all(&dir).ok();
    let restore = |keys: SealKeys| super::restore::restore(&dir, || Ok(text.as_slice()), &sealed_rules(keys).sealing);
    for keys in [SealKeys::Off, SealKeys::Lost("/k: gone".to_owned()), ring("b")] {
        let why = restore(keys).expect_err("no key");
        assert!(why.contains("sealed by key a") && why.ends_with("nothing was written"), "{why}");
        assert!(!dir.exists());
    }
    let restored = restore(ring("b a")).expect("the key is there");
    assert_eq!((restored.objects, restored.keys), (3, 2));
    assert_eq!(std::fs::read_to_string(dir.join("keys/tokens.json")).expect("there"), "a hash");
    let file = std::fs::read_to_string(dir.join("objects/core/secrets/default/a.json")).expect("there");
    assert!(!file.contains(WORD), "{file}");
    let store = FlatStore::open(&dir, None, &sealed_rules(ring("a"))).expect("it opens").store;
    let names: Vec<String> = shown(&store).into_keys().collect();
    assert_eq!(names, before.keys().cloned().collect::<Vec<_>>());
    store.close().expect("the disk is well");
    drop(store);
    std::fs::remove_dir_all(&dir).expect("ours");
}

/// An older master would take what is sealed for Secrets without data.
#[test]
fn an_older_master_refuses_what_may_be_sealed() {
    let (disk, _) = plain_disk(1, true);
    let format = |disk: &SimDisk| {
        let head = String::from_utf8(disk.peek("HEAD.json").expect("there")).expect("JSON");
        head.split(',').next().expect("a field").to_owned()
    };
    assert_eq!(format(&disk), "{\"format\":4");
    let store = open(&disk, ring("a"));
    assert_eq!(format(&disk), "{\"format\":5");
    store.tend();
    store.reseal(ring("plain a")).expect("the disk is well");
    store.close().expect("the disk is well");
    drop(store);
    drop(open(&disk, SealKeys::Off));
    assert_eq!(format(&disk), "{\"format\":4");
}

/// Everything that may hold a Secret is for its owner alone.
#[test]
fn all_files_are_for_their_owner_alone() {
    use std::os::unix::fs::MetadataExt;
    let dir = std::env::temp_dir().join(format!("coracle-store-{}-modes", std::process::id()));
    std::fs::remove_dir_all(&dir).ok();
    for keys in [SealKeys::Off, ring("a")] {
        let store = FlatStore::open(&dir, None, &sealed_rules(keys)).expect("it opens").store;
        store.write(secret(&format!("s-{}", store.revision()), WORD)).expect("it is new");
        store.checkpoint().expect("the disk is well");
        store.write(secret(&format!("t-{}", store.revision()), WORD)).expect("it is new");
        store.close().expect("the disk is well");
        drop(store);
        // It goes to quarantine.
        std::fs::write(dir.join("objects/core/secrets/default/broken.json"), "{").expect("ours");
    }
    let (mut folders, mut files, mut open) = (vec![dir.clone()], 0, Vec::new());
    while let Some(folder) = folders.pop() {
        open.extend((std::fs::metadata(&folder).expect("there").mode() & 0o777 != 0o700).then(|| folder.clone()));
        for entry in std::fs::read_dir(&folder).expect("ours") {
            let path = entry.expect("there").path();
            match path.is_dir() {
                true => folders.push(path),
                // A person's own.
                false if path.ends_with("broken.json") => {}
                false => {
                    files += 1;
                    open.extend((std::fs::metadata(&path).expect("there").mode() & 0o777 != 0o600).then_some(path));
                }
            }
        }
    }
    assert!(open.is_empty() && files > 5, "{files} files, open: {open:?}");
    std::fs::remove_dir_all(&dir).expect("ours");
}

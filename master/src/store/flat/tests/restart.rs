//! Tests of restarts: revisions, statuses in memory, edits by hand, and the places of files.

use super::sim::SimDisk;
use super::*;
use std::collections::BTreeMap;

fn open(disk: &SimDisk, tmpfs: &SimDisk, boot: &str) -> FlatStore {
    let ids = Ids { fresh_store: "store".to_owned(), boot: boot.to_owned() };
    FlatStore::open_on(Arc::new(disk.clone()), Some(Box::new(tmpfs.clone())), None, ids, &rules(), Setup::SMALL)
        .expect("it opens")
        .store
}

fn event(name: &str) -> Write {
    let key = Key { resource: Resource::core("events"), namespace: "default".to_owned(), name: name.to_owned() };
    let object =
        json!({"apiVersion": "v1", "count": 1, "kind": "Event", "metadata": {"name": name, "namespace": "default"}});
    Write::Create { key, object, durable: Durable::Nothing, claims: Vec::new() }
}

#[test]
fn a_clean_restart_of_the_process_keeps_everything_and_its_watchers_go_on() {
    let (disk, tmpfs) = (SimDisk::new(1), SimDisk::new(2));
    let store = open(&disk, &tmpfs, "boot");
    let web = store.write(create(pod("web", "a", None))).expect("new");
    let up = store.write(update(pod("web", "a", Some("up")), web.revision)).expect("seen");
    let said = store.write(event("e")).expect("new");
    assert!(said.json.starts_with(br#"{"apiVersion":"v1","kind":"Event","count":1,"#), "{said:?}");
    store.close().expect("the disk is well");
    assert!(matches!(store.write(event("late")), Err(Refused::Disk { .. })));
    drop(store);
    let store = open(&disk, &tmpfs, "boot");
    assert_eq!(store.get(&key("web")).expect("whole").expect("there").json, up.json);
    assert_eq!(store.get(&said.key).expect("whole").expect("there").json, said.json);
    assert_eq!(store.revision(), said.revision);
    let scope = Scope { resource: PODS, namespace: None, name: None };
    assert_eq!(
        store.watch(scope, Some(said.revision), Box::new(|_| true)).expect("nothing was missed").replay.len(),
        0
    );
    assert_eq!(tmpfs.tree(), [] as [&str; 0], "it is read once");
}

fn lease(holder: &str, taken: &str, renewed: &str) -> (Key, Value) {
    let key = Key { resource: Resource::core("leases"), ..key("led") };
    let spec = json!({"holderIdentity": holder, "acquireTime": taken, "renewTime": renewed});
    let meta = json!({"name": "led", "namespace": "default"});
    (key, json!({"apiVersion": "v1", "kind": "Lease", "metadata": meta, "spec": spec}))
}

#[test]
fn a_lease_keeps_its_holder_when_the_master_is_killed_and_its_renewals_write_nothing() {
    for closed in [false, true] {
        let (disk, tmpfs) = (SimDisk::new(1), SimDisk::new(2));
        let store = open(&disk, &tmpfs, "boot");
        let (key, object) = lease("a", "t0", "t0");
        let (durable, claims) = (Durable::WithoutRenewal, Vec::new());
        let taken = store
            .write(Write::Create { key: key.clone(), object, durable, claims: claims.clone() })
            .expect("nobody leads");
        let appends = store.health().figures.records;
        let mut led = taken;
        for at in ["t1", "t2"] {
            let (key, object) = lease("a", "t0", at);
            let seen = led.revision;
            led = store.write(Write::Update { key, object, seen, durable, claims: claims.clone() }).expect("seen");
        }
        assert_eq!(store.health().figures.records, appends, "a renewal is no append");
        if closed {
            store.close().expect("the disk is well");
        }
        drop(store);
        let store = open(&disk, &tmpfs, "boot");
        let found = store.get(&key).expect("whole").expect("the lease is there");
        let spec = |json: &[u8]| serde_json::from_slice::<Value>(json).expect("it is JSON")["spec"].clone();
        let renewed = if closed { "t2" } else { "t0" };
        assert_eq!(spec(&found.json), lease("a", "t0", renewed).1["spec"], "closed: {closed}");
        // The next renewal writes nothing either, and the next holder is written.
        let (appends, seen) = (store.health().figures.records, found.revision);
        let (_, object) = lease("a", "t0", "t3");
        let led = store
            .write(Write::Update { key: key.clone(), object, seen, durable, claims: claims.clone() })
            .expect("seen");
        assert_eq!(store.health().figures.records, appends, "closed: {closed}");
        let (_, object) = lease("b", "t4", "t4");
        store.write(Write::Update { key: key.clone(), object, seen: led.revision, durable, claims }).expect("seen");
        assert_eq!(store.health().figures.records, appends + 1, "closed: {closed}");
    }
}

#[test]
fn an_empty_segment_that_a_close_could_not_remove_costs_no_status() {
    let mut left = 0;
    for step in 1..40 {
        let (disk, tmpfs) = (SimDisk::new(step), SimDisk::new(2));
        let store = open(&disk, &tmpfs, "boot");
        let web = store.write(create(pod("web", "a", None))).expect("new");
        store.tend();
        let up = store.write(update(pod("web", "a", Some("up")), web.revision)).expect("seen");
        disk.fail(step..step + 1, super::sim::ENOSPC);
        let closed = store.close();
        disk.heal();
        drop(store);
        if closed.is_err() {
            continue;
        }
        left += usize::from(disk.peek("wal/0000000002.jsonl").is_some());
        let store = open(&disk, &tmpfs, "boot");
        assert_eq!(store.get(&key("web")).expect("whole").expect("there").json, up.json, "step {step}");
    }
    assert_eq!(left, 1);
}

#[test]
fn what_was_in_memory_alone_is_gone_otherwise_and_its_objects_have_fresh_revisions() {
    for (how, closed, boot) in [("killed", false, "boot"), ("host restarted", true, "another boot")] {
        let (disk, tmpfs) = (SimDisk::new(1), SimDisk::new(2));
        let store = open(&disk, &tmpfs, "boot");
        let web = store.write(create(pod("web", "a", None))).expect("new");
        let service = Key { resource: Resource::core("services"), ..key("web") };
        let object =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}});
        let made = store
            .write(Write::Create { key: service.clone(), object, durable: Durable::Whole, claims: Vec::new() })
            .expect("new");
        store.write(update(pod("web", "a", Some("up")), web.revision)).expect("seen");
        let said = store.write(event("e")).expect("new");
        if closed {
            store.close().expect("the disk is well");
        }
        drop(store);
        let store = open(&disk, &tmpfs, boot);
        let web = store.get(&key("web")).expect("whole").expect("there");
        assert!(web.revision > said.revision, "{how}");
        assert!(!String::from_utf8_lossy(&web.json).contains("status"), "{how}");
        assert!(store.get(&said.key).expect("whole").is_none(), "{how}");
        // All of it was on disk, so nothing of it was lost.
        assert_eq!(store.get(&service).expect("whole").expect("there").json, made.json, "{how}");
        let scope = Scope { resource: PODS, namespace: None, name: None };
        assert!(
            store.watch(scope, Some(said.revision), Box::new(|_| true)).is_err(),
            "{how}: a watcher has to look again"
        );
    }
}

#[test]
fn edits_by_hand_count_with_a_fresh_revision() {
    let (disk, tmpfs) = (SimDisk::new(1), SimDisk::new(2));
    let store = open(&disk, &tmpfs, "boot");
    store.write(create(pod("web", "a", None))).expect("new");
    store.write(create(pod("gone", "a", None))).expect("new");
    let last = store.write(create(pod("same", "a", None))).expect("new").revision;
    store.close().expect("the disk is well");
    drop(store);
    let path = |name: &str| format!("objects/core/pods/default/{name}.json");
    let edited = String::from_utf8(disk.peek(&path("web")).expect("its file"))
        .expect("text")
        .replace("\"is\": \"a\"", "\"is\": \"edited\"");
    disk.place(&path("web"), edited.as_bytes());
    disk.place(&path("copy"), edited.replace("\"web\"", "\"copy\"").as_bytes());
    disk.take(&path("gone"));
    let store = open(&disk, &tmpfs, "boot");
    let listed = store.list(&PODS, None);
    let names: Vec<_> = listed.items.iter().map(|stored| stored.key.name.as_str()).collect();
    assert_eq!(names, ["copy", "same", "web"]);
    assert!(listed.items.iter().all(|stored| (stored.revision > last) == (stored.key.name != "same")), "{listed:?}");
    assert!(String::from_utf8_lossy(&listed.items[2].json).contains("edited"));
    let scope = Scope { resource: PODS, namespace: None, name: None };
    assert!(store.watch(scope, Some(last), Box::new(|_| true)).is_err(), "who followed has to look again");
}

#[test]
fn revisions_that_no_store_gave_are_replaced() {
    for revision in ["", "0", "-1", "99999999999999999999", "9007199254740993", "1000000", "text"] {
        let disk = SimDisk::new(1);
        memory_on(&disk).close().expect("the disk is well");
        let mut object = pod("web", "a", None);
        object["metadata"]["resourceVersion"] = Value::String(revision.to_owned());
        disk.place("objects/core/pods/default/web.json", &serde_json::to_vec(&object).expect("JSON"));
        let store = memory_on(&disk);
        let web = store.get(&key("web")).expect("whole").expect("there");
        assert!(web.revision > Revision(0) && web.revision <= store.revision(), "{revision}: {}", web.revision);
    }
}

#[test]
fn revisions_are_reserved_ahead_and_volatile_writes_touch_no_disk() {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    let mut seen = store.write(create(pod("web", "a", None))).expect("new").revision;
    let steps = disk.steps();
    for round in 0..1_000 {
        seen = store.write(update(pod("web", "a", Some(&round.to_string())), seen)).expect("seen").revision;
    }
    assert_eq!(store.write(update(pod("web", "a", Some("999")), seen)).expect("the same").revision, seen);
    assert_eq!(disk.steps(), steps);
    drop(store);
    assert!(memory_on(&disk).revision() >= Revision(seen.0 + 50_000), "they were reserved");
}

#[test]
fn every_key_has_one_path_and_every_path_at_most_one_key() {
    let long = "x".repeat(253);
    let table = [
        ("", "pods", "default", "web", "core/pods/default/web.json"),
        ("apps", "deployments", "default", "web.v1", "apps/deployments/default/web.v1.json"),
        ("core", "pods", "default", "web", "%63ore/pods/default/web.json"),
        ("", "nodes", "", "Host.A", "core/nodes/_cluster/%48ost.%41.json"),
        ("", "pods", "_cluster", "system:node", "core/pods/%5Fcluster/system%3Anode.json"),
        ("", "pods", "default", "../../etc", "core/pods/default/%2E.%2F..%2Fetc.json"),
        ("", "pods", "default", ".", "core/pods/default/%2E.json"),
        ("", "pods", "default", "ü~%", "core/pods/default/%C3%BC%7E%25.json"),
    ];
    for (group, plural, namespace, name, path) in table {
        let resource = Resource { group: Cow::Owned(group.to_owned()), plural: Cow::Owned(plural.to_owned()) };
        let key = Key { resource, namespace: namespace.to_owned(), name: name.to_owned() };
        assert_eq!(names::path(&key), path);
        assert_eq!(names::key(path), Some(key));
    }
    for name in [long.clone(), long.to_uppercase(), format!("{}.{}", &long[..199], &long[..50]), ".".repeat(253)] {
        let key = key(&name);
        let path = names::path(&key);
        assert!(path.split('/').all(|part| part.len() <= 255 && !part.starts_with('.')), "{path}");
        assert_eq!(names::key(&path), Some(key));
    }
    // Where a file system takes upper case for lower, they lie apart as well.
    let alike = ["web", "Web", "WEB", "wEb", "%57eb", "%77eb", "a.b", "A.b", "a.B"];
    let places: std::collections::BTreeSet<String> =
        alike.iter().map(|name| names::path(&key(name)).to_lowercase()).collect();
    assert_eq!(places.len(), alike.len(), "{places:?}");
    for path in [
        "core/pods/default/Web.json",
        "core/pods/default/%77eb.json",
        "core/pods/default/web",
        "core/pods/web.json",
        "x",
        "a/b/c/d~/~e.json",
    ] {
        assert_eq!(names::key(path), None, "{path}");
    }
}

/// Two starts that cannot write, each after an edit of an object before the others, and one that can.
#[test]
fn what_a_start_shows_that_cannot_write_no_other_start_gives_to_anything_else() {
    for (closes, freezes) in [(true, false), (false, false), (false, true)] {
        let disk = SimDisk::new(1);
        let store = memory_on(&disk);
        for name in ["A", "B", "D", "c"] {
            store.write(create(pod(name, "a", Some("up")))).expect("new");
        }
        store.checkpoint().expect("the disk is well");
        if closes {
            store.close().expect("the disk is well");
        }
        drop(store);
        let (mut shown, mut revisions) = (BTreeMap::new(), Vec::new());
        for (start, edited) in [("first", "D"), ("second", "B"), ("third", "A")] {
            let path = format!("objects/{}", names::path(&key(edited)));
            let text = String::from_utf8(disk.peek(&path).expect("a file")).expect("text");
            disk.place(&path, text.replace("\"a\"", &format!("\"{start}\"")).as_bytes());
            let writes = start == "third";
            match (writes, freezes) {
                (true, _) => {}
                (false, true) => disk.fail_list(Some("wal")),
                (false, false) => disk.fail(0..u64::MAX, super::sim::EROFS),
            }
            let ids = Ids { fresh_store: start.to_owned(), boot: "boot".to_owned() };
            let store = FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), Setup::SMALL)
                .expect("it opens")
                .store;
            disk.heal();
            disk.fail_list(None);
            assert_eq!((store.health().degraded.is_none(), store.frozen().is_some()), (writes, freezes && !writes));
            let items = store.list(&PODS, None).items;
            assert!(items.iter().all(|stored| stored.revision <= store.revision()));
            for stored in items {
                let seen = (stored.key.name.clone(), stored.json.clone());
                let former = shown.insert(stored.revision, seen.clone()).filter(|former| *former != seen);
                assert_eq!(former, None, "{start} start, closed: {closes}, frozen: {freezes}: {seen:?}");
            }
            let scope = || Scope { resource: PODS, namespace: None, name: None };
            let goes_on = |seen: &Revision| store.watch(scope(), Some(*seen), Box::new(|_| true)).is_ok();
            assert!(
                !revisions.iter().any(goes_on),
                "{start} start, closed: {closes}, frozen: {freezes}: {revisions:?} {}",
                store.revision()
            );
            revisions.push(store.revision());
        }
    }
}

#[test]
fn a_checkpoint_after_a_start_that_could_not_write_knows_where_the_journal_stands() {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    let web = store.write(create(pod("Web", "a", None))).expect("new");
    drop(store);
    disk.fail(0..u64::MAX, super::sim::EROFS);
    let store = memory_on(&disk);
    disk.heal();
    assert!(store.health().degraded.is_some());
    store.checkpoint().expect("the disk is well");
    drop(store);
    let store = memory_on(&disk);
    assert_eq!(store.get(&key("Web")).expect("whole").expect("there").json, web.json);
    assert!(store.revision().0 < setup::LOST_REVISIONS, "nothing is in doubt: {}", store.revision());
}

#[test]
fn revisions_that_were_given_without_a_head_hold() {
    for closes in [false, true] {
        let disk = SimDisk::new(1);
        let store = memory_on(&disk);
        store.write(create(pod("Filed", "a", None))).expect("new");
        store.checkpoint().expect("the disk is well");
        store.write(create(pod("Journaled", "a", None))).expect("new");
        drop(store);
        disk.take("HEAD.json");
        let shown = |store: &FlatStore| {
            store.list(&PODS, None).items.iter().map(|stored| stored.json.clone()).collect::<Vec<_>>()
        };
        let store = memory_on(&disk);
        let given = shown(&store);
        assert_eq!(given.len(), 2);
        assert!(store.list(&PODS, None).items.iter().all(|stored| stored.revision.0 > setup::LOST_REVISIONS));
        if closes {
            store.close().expect("the disk is well");
        }
        drop(store);
        assert_eq!(shown(&memory_on(&disk)), given, "closed: {closes}");
    }
}

/// Where the one write that a power cut met is not all that is spoilt, acknowledged ones may have been there.
#[test]
fn an_end_that_is_wiped_of_more_than_one_write_is_told_and_written_behind() {
    let mut dice = sim::Dice::new(3);
    let mut wipes: Vec<(&str, Vec<u8>)> =
        vec![("a page", vec![0; 16 << 10]), ("zeros", vec![0; 64 << 10]), ("erased", vec![0xff; 64 << 10])];
    wipes.push(("noise", (0..64 << 10).map(|_| dice.below(256) as u8).collect()));
    for (what, wipe) in wipes {
        let complains = wipe.len() == 64 << 10;
        let disk = SimDisk::new(1);
        let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
        let long = Setup { segment_bytes: 256 << 10, ..Setup::SMALL };
        let store =
            FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), long).expect("it opens").store;
        let new = |name: &str| create(pod(name, "a", None));
        let given: Vec<Revision> =
            (0..20).map(|number| store.write(new(&format!("P{number}"))).expect("it is new").revision).collect();
        drop(store);
        let find = |text: &[u8]| text.windows(5).position(|bytes| bytes == b"\"P10\"");
        let (segment, mut text, at) = disk
            .tree()
            .into_iter()
            .find_map(|path| {
                let text = disk.peek(&path).filter(|_| path.starts_with("wal/"))?;
                let at = find(&text)?;
                Some((path, text, at))
            })
            .expect("it is in the journal");
        let from = at / 4_096 * 4_096;
        // A whole line behind it would prove that something is missing.
        text[from..].fill(b'\n');
        text[from..from + wipe.len()].copy_from_slice(&wipe);
        disk.place(&segment, &text);
        for start in 1..=2 {
            let store = memory_on(&disk);
            let health = store.health();
            assert_eq!(health.degraded, None, "{what}");
            let reasons: Vec<&str> = health.damaged.iter().map(|damage| damage.why.as_str()).collect();
            assert_eq!(reasons.len(), usize::from(complains), "{what}, start {start}: {reasons:?}");
            assert!(
                reasons
                    .iter()
                    .all(|why| why.contains(&segment) && why.contains("was acknowledged last may be missing")),
                "{reasons:?}"
            );
            assert_eq!(store.list(&PODS, None).items.len(), 9 + start, "{what}");
            let late = store.write(new(&format!("Late{start}"))).expect("writes are taken");
            assert!(late.revision > given[19], "{what}: {:?}", late.revision);
        }
    }
}

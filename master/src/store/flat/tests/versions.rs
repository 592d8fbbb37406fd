//! An older version and a newer one serve a directory in turn: the older one knows fewer kinds.

use super::sim::SimDisk;
use super::{PODS, claims_of, durable_of, names, pod, rules};
use crate::store::flat::setup::Setup;
use crate::store::flat::start::Ids;
use crate::store::{FlatStore, KindRow, Refused, Store, StoreRules, Stored, UNSEEN, Write};
use coracle_api::meta::{Durable, Key, Resource, Revision};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

const SERVICES: Resource = Resource::core("services");

/// All kinds but services.
fn older() -> StoreRules<'static> {
    let mut rules = rules();
    rules.kinds.retain(|row| row.resource != SERVICES);
    rules
}

fn open(disk: &SimDisk, rules: &StoreRules) -> FlatStore {
    let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
    FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, rules, Setup::SMALL).expect("it opens").store
}

/// A stop in order, or a kill.
fn end(store: FlatStore, in_order: bool) {
    if in_order {
        store.close().expect("the disk is well");
    }
}

fn service_key(name: &str) -> Key {
    Key { resource: SERVICES, namespace: "default".to_owned(), name: name.to_owned() }
}

fn service(name: &str, is: &str) -> Value {
    let metadata = json!({"name": name, "namespace": "default"});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"is": is}})
}

fn make(store: &FlatStore, name: &str) -> Revision {
    let (key, object) = (service_key(name), service(name, "new"));
    store.write(Write::Create { key, object, durable: Durable::Whole, claims: Vec::new() }).expect("it is new").revision
}

fn change(store: &FlatStore, name: &str, seen: Revision) {
    let (key, object) = (service_key(name), service(name, "changed"));
    store.write(Write::Update { key, object, seen, durable: Durable::Whole, claims: Vec::new() }).expect("it was seen");
}

fn make_pod(store: &FlatStore, name: &str) {
    let key = Key { resource: PODS, namespace: "default".to_owned(), name: name.to_owned() };
    let object = pod(name, "a", None);
    let (durable, claims) = (durable_of(&key, &object), claims_of(&key, &object));
    store.write(Write::Create { key, object, durable, claims }).expect("it is new");
}

type Contents = BTreeMap<Key, (Revision, String)>;

fn contents(store: &FlatStore) -> Contents {
    let items = [PODS, SERVICES].into_iter().flat_map(|resource| store.list(&resource, None).items);
    items
        .map(|stored| ((*stored.key).clone(), (stored.revision, String::from_utf8_lossy(&stored.json).into_owned())))
        .collect()
}

fn is_well(store: &FlatStore, case: &str) {
    let health = store.health();
    let told: Vec<String> = health.edits.iter().map(|edit| edit.why.clone()).collect();
    assert_eq!((health.degraded, health.damaged, told), (None, vec![], vec![]), "{case}");
}

/// Pods are wholly durable here: a kill gives a pod without its status another revision.
#[test]
fn objects_of_a_kind_that_the_older_version_does_not_know_keep_their_content_and_revisions() {
    for ends in 0..16 {
        let in_order = |nth: u32| ends & (1 << nth) != 0;
        let case = format!("stops in order: {:?}", [0, 1, 2, 3].map(in_order));
        let disk = SimDisk::new(1);
        let store = open(&disk, &rules());
        make_pod(&store, "Web");
        let [_, changed, _] = ["kept", "changed", "deleted"].map(|name| make(&store, name));
        if in_order(3) {
            store.checkpoint().expect("the disk is well");
        }
        change(&store, "changed", changed);
        let seen = store.get(&service_key("deleted")).expect("whole").expect("there").revision;
        store.write(Write::Delete { key: service_key("deleted"), seen }).expect("it was seen");
        let before = contents(&store);
        end(store, in_order(0));

        let store = open(&disk, &older());
        is_well(&store, &case);
        make_pod(&store, "Later");
        end(store, in_order(1));
        // The older version finds its own files as it left them.
        let store = open(&disk, &older());
        is_well(&store, &case);
        end(store, in_order(2));

        let store = open(&disk, &rules());
        is_well(&store, &case);
        let mut after = contents(&store);
        after.retain(|key, _| key.name != "Later");
        assert_eq!(after, before, "{case}");
    }
}

const ROCKETS: Resource = Resource { plural: Cow::Borrowed("rockets"), group: Cow::Borrowed("acme.example") };

fn rocket_key(name: &str) -> Key {
    Key { resource: ROCKETS, namespace: "default".to_owned(), name: name.to_owned() }
}

fn rocket(name: &str, is: &str) -> Value {
    let metadata = json!({"name": name, "namespace": "default", "labels": {"l": is}});
    json!({"apiVersion": "acme.example/v1", "kind": "Rocket", "metadata": metadata, "spec": {"is": is}})
}

fn launch(store: &FlatStore, name: &str) -> Stored {
    let (key, object) = (rocket_key(name), rocket(name, "new"));
    let claims = claims_of(&key, &object);
    store.write(Write::Create { key, object, durable: Durable::Whole, claims }).expect("it is new")
}

/// The store that was opened without a kind has the objects of this kind all the same, as they were written.
#[test]
fn the_store_knows_keys_and_no_kinds() {
    for (in_order, checkpoint) in [(true, true), (true, false), (false, true), (false, false)] {
        let case = format!("in order: {in_order}, checkpoint: {checkpoint}");
        let disk = SimDisk::new(1);
        let store = open(&disk, &rules());
        let (kept, gone) = (launch(&store, "kept"), launch(&store, "gone"));
        if checkpoint {
            store.checkpoint().expect("the disk is well");
        }
        store.write(Write::Delete { key: rocket_key("gone"), seen: gone.revision }).expect("it was seen");
        end(store, in_order);
        for life in 0..3 {
            let store = open(&disk, &rules());
            is_well(&store, &case);
            let found = store.get(&rocket_key("kept")).expect("whole").expect("there");
            let is = |stored: &Stored| (stored.revision, stored.json.clone(), stored.labels.clone());
            assert_eq!(is(&found), is(&kept), "{case}, life {life}");
            assert_eq!(store.list(&ROCKETS, None).items.len(), 1, "{case}, life {life}");
            end(store, in_order);
        }
        let store = open(&disk, &rules());
        let (key, object) = (rocket_key("kept"), rocket("kept", "changed"));
        let update = Write::Update { key, object, seen: kept.revision, durable: Durable::Whole, claims: Vec::new() };
        let changed = store.write(update).expect("it was seen");
        end(store, in_order);
        let store = open(&disk, &rules());
        assert_eq!(store.get(&rocket_key("kept")).expect("whole").expect("there").revision, changed.revision, "{case}");
    }
}

/// A file that a person wrote is not judged by a version that does not know its kind, and nothing takes its place.
#[test]
fn a_file_that_a_person_wrote_waits_for_the_version_that_knows_its_kind() {
    let path = |name: &str| format!("objects/{}", names::path(&rocket_key(name)));
    let written = |text: &str| text.replace("\"is\": \"new\"", "\"is\": \"mine\"");
    for name in ["edited", "made", "torn", "foreign"] {
        let disk = SimDisk::new(1);
        let store = open(&disk, &rules());
        ["edited", "kept"].iter().for_each(|name| drop(launch(&store, name)));
        end(store, true);
        let text = match name {
            "edited" => written(&String::from_utf8(disk.peek(&path("edited")).expect("its file")).expect("text")),
            "made" => rocket("made", "mine").to_string(),
            "torn" => "{".to_owned(),
            _ => pod("foreign", "mine", None).to_string(),
        };
        disk.place(&path(name), text.as_bytes());
        for life in 0..2 {
            let store = open(&disk, &rules());
            let case = format!("{name}, life {life}");
            assert_eq!((store.health().damaged, store.health().degraded), (vec![], None), "{case}");
            assert!(store.get(&rocket_key(name)).is_err(), "{case}: nobody can say what it is");
            assert_eq!(store.list(&ROCKETS, None).damaged, [rocket_key(name)], "{case}");
            assert!(store.get(&rocket_key("kept")).expect("whole").is_some(), "{case}");
            let (key, object) = (rocket_key(name), rocket(name, "other"));
            let create = Write::Create { key: key.clone(), object, durable: Durable::Whole, claims: Vec::new() };
            for write in [create, Write::Delete { key, seen: UNSEEN }] {
                assert!(matches!(store.write(write), Err(Refused::Damaged { .. })), "{case}: it is not touched");
            }
            end(store, life == 0);
            assert_eq!(disk.peek(&path(name)).expect("its file"), text.as_bytes(), "{case}");
        }
        // The version that knows the kind takes it for what it is.
        let mut newer = rules();
        newer.kinds.push(KindRow { resource: ROCKETS, api_version: "acme.example/v1".into(), kind: "Rocket".into() });
        let store = open(&disk, &newer);
        let is = store.get(&rocket_key(name)).map(|found| found.map(|found| found.json.clone()));
        match is {
            Ok(found) => assert!(String::from_utf8_lossy(&found.expect("there")).contains("mine"), "{name}"),
            Err(_) => assert!(["torn", "foreign"].contains(&name), "{name}"),
        }
    }
}

/// A claim holds though the kind of its owner is not known.
#[test]
fn a_token_of_an_object_of_an_unknown_kind_stays_taken() {
    let disk = SimDisk::new(1);
    let store = open(&disk, &rules());
    let (key, mut object) = (rocket_key("a"), rocket("a", "new"));
    object["metadata"]["annotations"] = json!({"claim/x": ""});
    let claims = claims_of(&key, &object);
    store.write(Write::Create { key, object, durable: Durable::Whole, claims }).expect("it is new");
    end(store, true);
    let store = open(&disk, &rules());
    assert_eq!(store.claimed("token"), [("x".to_owned(), rocket_key("a"))]);
}

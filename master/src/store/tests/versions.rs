//! An older version and a newer one serve a directory in turn: the older one knows fewer kinds.

use super::sim::SimDisk;
use super::{PODS, claims_of, durable_of, pod, rules};
use crate::store::setup::Setup;
use crate::store::start::Ids;
use crate::store::{FlatStore, Store, StoreRules, Write};
use coracle_api::meta::{Durable, Key, Resource, Revision};
use serde_json::{Value, json};
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

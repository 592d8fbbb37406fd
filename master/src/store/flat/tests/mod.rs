//! The door as its callers see it.

mod copies;
mod crash;
mod damage;
mod derived;
mod edits;
mod faults;
mod full;
mod fuzz;
mod gone;
mod journal;
mod keeping;
mod limits;
mod lives;
mod model;
mod mutants;
mod oracle;
mod pages;
mod planted;
mod restart;
mod room;
mod sealed;
pub(crate) mod sim;
mod strangers;
mod threads;
mod upkeep;
mod versions;

use super::disk::Disk;
use super::room::StoreUsage;
use super::setup::Setup;
use super::start::Ids;
use super::state::StoreState;
use super::*;
use crate::store::*;
use coracle_api::meta::{Claim, Durable, Key, Resource, Revision};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

pub const PODS: Resource = Resource::core("pods");

pub fn key(name: &str) -> Key {
    Key { resource: PODS, namespace: "default".to_owned(), name: name.to_owned() }
}

pub fn pod(name: &str, spec: &str, status: Option<&str>) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {"is": spec},
    });
    if let Some(status) = status {
        pod["status"] = json!({"is": status});
    }
    pod
}

/// Annotations `claim/x: ""` claim x; `keep/x: ""` claims it for an hour after death.
pub fn claims_of(_: &Key, object: &Value) -> Vec<Claimed> {
    let annotations = object["metadata"]["annotations"].as_object().into_iter().flatten();
    let claim = |value: &str, hours: u64| Claimed {
        claim: Claim { space: Cow::Borrowed("token"), value: value.to_owned() },
        after_death: Duration::from_secs(hours * 3600),
    };
    annotations
        .filter_map(|(name, _)| match name.split_once('/') {
            Some(("claim", value)) => Some(claim(value, 0)),
            Some(("keep", value)) => Some(claim(value, 1)),
            _ => None,
        })
        .collect()
}

/// Pods with a capital are wholly durable.
pub fn durable_of(key: &Key, _: &Value) -> Durable {
    match key.resource.plural.as_ref() {
        "pods" if key.name.starts_with(char::is_uppercase) => Durable::Whole,
        "pods" => Durable::WithoutStatus,
        "events" => Durable::Nothing,
        "leases" => Durable::WithoutRenewal,
        _ => Durable::Whole,
    }
}

/// What lies in `rented` needs that namespace.
pub fn home_of(key: &Key) -> Option<Key> {
    let namespace =
        || Key { resource: Resource::core("namespaces"), namespace: String::new(), name: key.namespace.clone() };
    (key.namespace == "rented").then(namespace)
}

/// Without annotations nothing is claimed.
pub fn durable_by_sketch(key: &Key, sketch: &Sketch) -> Option<Durable> {
    sketch.metadata.annotations.iter().next().is_none().then(|| durable_of(key, &Value::Null))
}

pub fn rules() -> StoreRules<'static> {
    let row = |plural: &'static str, kind: &'static str| KindRow {
        resource: Resource::core(plural),
        api_version: Cow::Borrowed("v1"),
        kind: Cow::Borrowed(kind),
    };
    StoreRules {
        sealing: Default::default(),
        kinds: vec![
            row("pods", "Pod"),
            row("services", "Service"),
            row("namespaces", "Namespace"),
            row("events", "Event"),
            row("leases", "Lease"),
        ],
        claims: &claims_of,
        durable: &durable_of,
        home: &home_of,
        edited: &|_, object| Ok(object),
        durable_by_sketch: &durable_by_sketch,
        fault: &|_, object| object["spec"].is_string().then(|| "spec must be no text".to_owned()),
    }
}

pub fn create(object: Value) -> Write {
    let key = key(object["metadata"]["name"].as_str().expect("a name"));
    let (durable, claims) = (durable_of(&key, &object), claims_of(&key, &object));
    Write::Create { key, object, durable, claims }
}

pub fn update(object: Value, seen: Revision) -> Write {
    let key = key(object["metadata"]["name"].as_str().expect("a name"));
    let (durable, claims) = (durable_of(&key, &object), claims_of(&key, &object));
    Write::Update { key, object, seen, durable, claims }
}

/// Of a backup in which nothing is sealed.
pub fn restore<R: std::io::BufRead>(dir: &Path, file: impl Fn() -> std::io::Result<R>) -> Result<Restored, String> {
    super::restore::restore(dir, file, &Sealing::default())
}

/// A store on a disk that the test holds as well.
pub fn memory_on(disk: &sim::SimDisk) -> FlatStore {
    let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
    FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), Setup::SMALL).expect("it opens").store
}

#[test]
fn a_directory_remembers() {
    let dir = std::env::temp_dir().join(format!("coracle-store-{}-remembers", std::process::id()));
    std::fs::remove_dir_all(&dir).ok();
    let store = FlatStore::open(&dir.join("data"), None, &rules()).expect("it opens").store;
    let first = store.write(create(pod("web", "a", None))).expect("it is new");
    let second = store.write(update(pod("web", "b", Some("up")), first.revision)).expect("it was seen");
    assert!(second.revision > first.revision);
    store.checkpoint().expect("the disk is well");
    let text = std::fs::read_to_string(dir.join("data/objects/core/pods/default/web.json")).expect("its file");
    assert!(text.starts_with("{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"Pod\",\n"), "{text}");
    assert!(!text.contains("up"), "{text}");
    let Err(error) = FlatStore::open(&dir.join("data"), None, &rules()) else { panic!("two masters") };
    assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
    store.close().expect("the disk is well");
    drop(store);
    let again = FlatStore::open(&dir.join("data"), None, &rules()).expect("it opens again").store;
    let web = again.get(&key("web")).expect("it is whole").expect("it is there");
    assert!(web.revision > second.revision);
    let expected = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web","namespace":"default","resourceVersion":"{}"}},"spec":{{"is":"b"}}}}"#,
        web.revision
    );
    assert_eq!(web.json, expected);
    drop(again);
    std::fs::remove_dir_all(&dir).expect("it is ours");
}

//! Every way to write, over a store in memory.

use super::furniture::NAMESPACES;
use super::*;
use crate::control::{Gate, Intent};
use crate::making::Maker;
use crate::serve::Serve;
use crate::store::{FlatStore, KindRow, Store, StoreRules};
use coracle_api::kinds::Kinds;
use coracle_api::meta::{Durable, Resource, Time};
use coracle_api::strategy::Cidr;
use coracle_http::{Caller, HeaderValue, Method, Request, header};
use serde_json::json;
use std::sync::Arc;

/// Of a store in memory.
pub fn in_memory() -> Arc<Registry> {
    let kinds = Arc::new(Kinds::builtin());
    let row = |kind: &Kind| KindRow {
        resource: kind.resource.clone(),
        api_version: kind.api_version().into(),
        kind: kind.kind.clone(),
    };
    let rules = StoreRules {
        edited: &|_, object| Ok(object),
        home: &|_| None,
        durable_by_sketch: &|_, _| None,
        kinds: kinds.iter().map(row).collect(),
        claims: &|_, _| Vec::new(),
        fault: &|_, _| None,
        durable: &|_, _| Durable::Nothing,
    };
    let store: Arc<dyn Store> = Arc::new(FlatStore::in_memory(&rules));
    let cidr = Cidr::parse("10.0.0.0/8").expect("a network");
    let maker = Maker::simulated(store.clone(), cidr, |_| {}, || Time::from_seconds(0).expect("a time"));
    Arc::new(Registry::new(kinds, store, Arc::new(maker)))
}

const SERVICES: Resource = Resource::core("services");

fn service(name: &str, node_port: Option<u16>) -> Value {
    let port = json!({"port": 80, "nodePort": node_port});
    let spec = if node_port.is_some() {
        json!({"type": "NodePort", "ports": [port]})
    } else {
        json!({"ports": [{"port": 80}]})
    };
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "a"}, "spec": spec})
}

fn made(registry: &Registry, resource: &Resource, object: &Value) {
    let kind = &*registry.kind(resource).expect("a row");
    registry.make_own(kind, "a", object).map(drop).expect("it is new");
}

/// A namespace in which one of two services has port 30001, and a quota that leaves so many more ports.
fn bed(ports_left: u32) -> Arc<Registry> {
    let registry = in_memory();
    registry.ensure_namespace("a").expect("it is new");
    made(&registry, &SERVICES, &service("first", Some(30001)));
    made(&registry, &SERVICES, &service("plain", None));
    let hard = json!({"services.nodeports": (1 + ports_left).to_string()});
    made(&registry, &Resource::core("resourcequotas"), &json!({"metadata": {"name": "q"}, "spec": {"hard": hard}}));
    registry
}

fn used(registry: &Registry) -> Value {
    let key = Key { resource: Resource::core("resourcequotas"), namespace: "a".into(), name: "q".into() };
    let stored = registry.store.get(&key).expect("whole").expect("it is there");
    serde_json::from_slice::<Value>(&stored.json).expect("JSON")["status"]["used"]["services.nodeports"].take()
}

/// Every way in which a client or a controller makes or changes an object, each writing a service with that port: what
/// the answer is.
fn written(registry: &Arc<Registry>, way: &str, port: u16) -> String {
    let ask = |method: Method, path: &str, language: &'static str, body: Value| {
        let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(language))].into_iter().collect();
        let target = format!("/api/v1/namespaces/a/services{path}").parse().expect("a path");
        let request = Request {
            method,
            target,
            headers,
            body: body.to_string().into(),
            caller: Caller::Local,
            identity: Arc::default(),
        };
        Serve::new(registry.clone(), None).answer(&request).status.as_u16().to_string()
    };
    let spec = json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}});
    let operations = json!([
        {"op": "add", "path": "/spec/type", "value": "NodePort"},
        {"op": "add", "path": "/spec/ports/0/nodePort", "value": port},
    ]);
    let intent = |intent: Intent| {
        let now = crate::control::now(std::time::Instant::now());
        match Gate::new(registry.clone()).pass(intent, now) {
            Ok(done) => if done.is_some() { "done" } else { "lost" }.to_owned(),
            Err(why) if why.why.contains("exceeded quota") => "403".to_owned(),
            Err(why) if why.why.contains("belongs to") => "422".to_owned(),
            Err(why) => why.why,
        }
    };
    let stands = || {
        let key = Key { resource: SERVICES, namespace: "a".into(), name: "plain".into() };
        let stored = registry.store.get(&key).expect("whole").expect("it is there");
        (key, stored.revision, serde_json::from_slice::<Value>(&stored.json).expect("JSON"))
    };
    let json = "application/json";
    match way {
        "create" => ask(Method::POST, "", json, service("new", Some(port))),
        "create by a rehearsal" => ask(Method::POST, "?dryRun=All", json, service("new", Some(port))),
        "create by apply" => {
            ask(Method::PATCH, "/new?fieldManager=m", "application/apply-patch+yaml", service("new", Some(port)))
        }
        "update" => ask(Method::PUT, "/plain", json, service("plain", Some(port))),
        "JSON patch" => ask(Method::PATCH, "/plain", "application/json-patch+json", operations),
        "merge patch" => ask(Method::PATCH, "/plain", "application/merge-patch+json", spec),
        "strategic patch" => ask(Method::PATCH, "/plain", "application/strategic-merge-patch+json", spec),
        "apply" => ask(
            Method::PATCH,
            "/plain?fieldManager=m&force=true",
            "application/apply-patch+yaml",
            service("plain", Some(port)),
        ),
        "intent to create" => {
            let object = service("new", Some(port));
            intent(Intent::Create { resource: SERVICES, namespace: "a".into(), object })
        }
        "intent to update" => {
            let (key, seen, mut object) = stands();
            object["spec"]["type"] = "NodePort".into();
            object["spec"]["ports"][0]["nodePort"] = port.into();
            intent(Intent::Update { key, seen, object })
        }
        "the master's own" => {
            let kind = &*registry.kind(&SERVICES).expect("a row");
            match registry.make_own(kind, "a", &service("new", Some(port))) {
                Ok(_) => "done".to_owned(),
                Err(Barred::Refused(why)) if matches!(why.refused, Refused::Claimed { .. }) => "422".to_owned(),
                Err(barred) => barred.to_string(),
            }
        }
        way => panic!("{way}"),
    }
}

/// Status, scale, bindings, evictions and deletions cannot take a port; that they go the same way is held by
/// `tests/it/tidy.rs`.
#[test]
fn every_way_to_write_passes_the_quota_and_the_claims() {
    for (way, over_quota, taken, done) in [
        ("create", "403", "422", "201"),
        ("create by a rehearsal", "403", "422", "201"),
        ("create by apply", "403", "422", "201"),
        ("update", "403", "422", "200"),
        ("JSON patch", "403", "422", "200"),
        ("merge patch", "403", "422", "200"),
        ("strategic patch", "403", "422", "200"),
        ("apply", "403", "422", "200"),
        ("intent to create", "403", "422", "done"),
        ("intent to update", "403", "422", "done"),
        // Counted, and not refused.
        ("the master's own", "done", "422", "done"),
    ] {
        assert_eq!(written(&bed(0), way, 30002), over_quota, "{way}, over the quota");
        assert_eq!(written(&bed(1), way, 30001), taken, "{way}, with a port that is taken");
        let registry = bed(1);
        let counted = if way.contains("rehearsal") { Value::Null } else { "2".into() };
        assert_eq!((written(&registry, way, 30002).as_str(), used(&registry)), (done, counted), "{way}");
    }
}

#[test]
fn a_quota_is_counted_and_held() {
    let registry = in_memory();
    registry.ensure_namespace("a").expect("it is new");
    let (quotas, secrets) = (Resource::core("resourcequotas"), Resource::core("secrets"));
    for (name, hard) in [("q", json!({"secrets": "2", "pods": "1"})), ("others", json!({"pods": "1"}))] {
        made(&registry, &quotas, &json!({"metadata": {"name": name}, "spec": {"hard": hard}}));
    }
    let kind = &*registry.kind(&secrets).expect("a row");
    let check = |name: &str, rehearsal: bool, expected: Result<&str, &str>| {
        let make = |_: Option<Standing<'_>>| {
            Ok(Made::document(Part::Main, json!({"metadata": {"name": name}}), Ownership::Untold))
        };
        let terms = Terms { rehearsal, ..Terms::of(Writer::Client) };
        let done = registry.commit::<String>(&Change::create(kind, "a", &make), &terms);
        let key = Key { resource: quotas.clone(), namespace: "a".to_owned(), name: "q".to_owned() };
        let stored = registry.store.get(&key).expect("whole").expect("there");
        let quota: Value = serde_json::from_slice(&stored.json).expect("JSON");
        let used = quota["status"]["used"]["secrets"].as_str().unwrap_or_default().to_owned();
        assert_eq!(
            done.map(|_| used).map_err(|barred| barred.to_string()),
            expected.map(str::to_owned).map_err(str::to_owned)
        );
    };
    check("x", true, Ok(""));
    check("x", false, Ok("1"));
    check("y", false, Ok("2"));
    check(
        "z",
        false,
        Err("\"z\" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=2, limited: secrets=2"),
    );
}

#[test]
fn a_rehearsal_through_an_older_version_makes_no_namespace() {
    let registry = in_memory();
    let kind = &*registry.kind(&Resource::core("configmaps")).expect("a row");
    let make =
        |_: Option<Standing<'_>>| Ok(Made::document(Part::Main, json!({"metadata": {"name": "m"}}), Ownership::Untold));
    let stands = || {
        let key = Key { resource: NAMESPACES, namespace: String::new(), name: "new".to_owned() };
        registry.store.get(&key).expect("whole").is_some()
    };
    for rehearsal in [true, false] {
        let terms = Terms { rehearsal, ..Terms::of(Writer::ClientOf2014) };
        registry.commit::<String>(&Change::create(kind, "new", &make), &terms).expect("nothing forbids it");
        assert_eq!(stands(), !rehearsal);
    }
}

#[test]
fn a_race_is_run_again_and_not_for_ever() {
    let registry = in_memory();
    registry.ensure_namespace("a").expect("it is new");
    let maps = Resource::core("configmaps");
    made(&registry, &maps, &json!({"metadata": {"name": "m"}}));
    let kind = &*registry.kind(&maps).expect("a row");
    let check = |races: usize, expected: Result<Outcome, &str>| {
        let attempts = std::cell::Cell::new(0);
        let make = |old: Option<Standing<'_>>| {
            let (nth, mut object) = (attempts.replace(attempts.get() + 1), old.expect("it stands").object.clone());
            if nth < races {
                // Somebody else is quicker.
                let mut other = object.clone();
                other["data"] = json!({"at": format!("{races} {nth}")});
                let other = |_: Option<Standing<'_>>| Ok(Made::Own(other.clone()));
                let changed =
                    registry.commit::<String>(&Change::update(kind, "a", "m", &other), &Terms::of(Writer::Client));
                assert!(changed.is_ok());
            }
            object["data"] = json!({"races": races.to_string()});
            Ok(Made::Own(object))
        };
        let done = registry.commit::<String>(&Change::update(kind, "a", "m", &make), &Terms::of(Writer::Client));
        let done = done.map(|committed| committed.outcome).map_err(|barred| barred.to_string());
        assert_eq!(done.as_ref().map_err(|why| &why[..24]), expected.as_ref().map_err(|why| *why), "{races}");
    };
    check(0, Ok(Outcome::Changed));
    check(RACES_LOST_MAX, Ok(Outcome::Changed));
    check(RACES_LOST_MAX + 1, Err("somebody else wrote firs"));
}

/// A port that the writer chose is refused at once: the writer is asked for its document once an attempt.
#[test]
fn a_writer_is_asked_once_an_attempt() {
    let registry = bed(1);
    let kind = &*registry.kind(&SERVICES).expect("a row");
    let asked = std::cell::Cell::new(0);
    let make = |_: Option<Standing<'_>>| {
        asked.set(asked.get() + 1);
        Ok(Made::document(Part::Main, service("new", Some(30001)), Ownership::Untold))
    };
    let done = registry.commit::<String>(&Change::create(kind, "a", &make), &Terms::of(Writer::Client));
    assert!(matches!(done, Err(Barred::Refused(why)) if matches!(why.refused, Refused::Claimed { .. })));
    assert_eq!(asked.get(), 1);
}

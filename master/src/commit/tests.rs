//! Every way to write, over a store in memory.

use super::consult::Adviser;
use super::furniture::NAMESPACES;
use super::*;
use crate::control::{Actor, Gate, Intent};
use crate::making::{Maker, SUFFIX_BYTES};
use crate::prepare::{Ownership, Standing};
use crate::serve::Serve;
use crate::store::{FlatStore, KindRow, Store, StoreRules, locked};
use coracle_api::kinds::Kinds;
use coracle_api::meta::{Durable, Resource, Time};
use coracle_api::strategy::Cidr;
use coracle_http::{Caller, HeaderValue, Method, Request, header};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// Of a store in memory.
pub fn in_memory() -> Arc<Registry> {
    Arc::new(registry(|_| {}))
}

/// Of a store in memory, with this chance.
fn registry(random: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Registry {
    let kinds = Arc::new(Kinds::builtin());
    let row = |kind: &Kind| KindRow {
        resource: kind.resource.clone(),
        api_version: kind.api_version().into(),
        kind: kind.kind.clone(),
    };
    let rules = StoreRules {
        sealing: Default::default(),
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
    let maker = Maker::simulated(store.clone(), cidr, random, || Time::from_seconds(0).expect("a time"));
    Registry::new(kinds, store, Arc::new(maker))
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
        let actor = Actor { controller: "of this test", of: &SERVICES };
        match Gate::new(registry.clone()).pass(actor, intent, now) {
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
                Err(CommitError::Refused(why)) if matches!(why.refused, Refused::Claimed { .. }) => "422".to_owned(),
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
fn a_user_that_may_add_nothing_may_write_what_adds_nothing() {
    let registry = in_memory();
    ["a", "kube-node-lease"].iter().for_each(|name| registry.ensure_namespace(name).expect("it is new"));
    let (maps, leases, nodes) = (
        Resource::core("configmaps"),
        Resource { group: "coordination.k8s.io".into(), plural: "leases".into() },
        Resource::core("nodes"),
    );
    made(&registry, &maps, &json!({"metadata": {"name": "m", "namespace": "a"}, "data": {"key": "12"}}));
    let node = coracle_http::Identity::agent("n");
    registry.make_own(&registry.kind(&nodes).expect("a row"), "", &json!({"metadata": {"name": "n"}})).expect("new");
    let ann = coracle_http::Identity { user: "ann".to_owned(), ..coracle_http::Identity::none() };
    [&ann, &node].iter().for_each(|identity| registry.growth.has_written(identity, (32 << 20, 0)));
    let check = |identity, resource: &Resource, way: &str, new: Value, expected: bool| {
        let kind = &*registry.kind(resource).expect("a row");
        let make = |old: Option<Standing<'_>>| {
            if way == "delete" {
                return Ok(Made::Gone);
            }
            let mut object = old.map_or_else(|| json!({}), |old| old.object.clone());
            coracle_schema::patch::merge(&mut object, new.clone());
            Ok(Made::document(if resource == &nodes { Part::Status } else { Part::Main }, object, Ownership::Untold))
        };
        let home = if kind.namespaced { if resource == &leases { "kube-node-lease" } else { "a" } } else { "" };
        let name = if resource == &maps { "m" } else { "n" };
        let change = match way {
            "create" => Change::create(kind, home, &make),
            "update" => Change::update(kind, home, name, &make),
            _ => Change::delete(kind, home, name, &make),
        };
        let done = registry.commit::<String>(&change, &Terms { identity, ..Terms::of(Writer::Client) });
        let done = done.map(drop).map_err(|barred| barred.to_string());
        assert_eq!(done.is_ok(), expected, "{way} {} {new}: {done:?}", resource.plural);
    };
    check(&ann, &maps, "update", json!({"data": {"key": "123"}}), false);
    check(&ann, &maps, "update", json!({"data": {"key": "34"}}), true);
    check(&ann, &maps, "update", json!({"data": {"key": "3"}}), true);
    check(&ann, &maps, "create", json!({"metadata": {"name": "other"}}), false);
    check(&ann, &maps, "delete", Value::Null, true);
    let lease = json!({"metadata": {"name": "n"}, "spec": {"holderIdentity": "n"}});
    check(&ann, &leases, "create", lease.clone(), false);
    check(&node, &leases, "create", lease, true);
    check(&node, &nodes, "update", json!({"status": {"nodeInfo": {"kernelVersion": "6.1"}}}), true);
    check(&node, &maps, "create", json!({"metadata": {"name": "other"}}), false);
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
    assert!(matches!(done, Err(CommitError::Refused(why)) if matches!(why.refused, Refused::Claimed { .. })));
    assert_eq!(asked.get(), 1);
}

/// The registry of `registry(random)` with namespace `a` and one adviser about secrets. The adviser is given the
/// registry, so it can write.
fn advised(
    random: impl Fn(&mut [u8]) + Send + Sync + 'static,
    advise: impl Fn(&Arc<Registry>, &AdmissionRequest<'_>, &mut Value) -> Result<(), String> + Send + Sync + 'static,
) -> Arc<Registry> {
    let made = Arc::new_cyclic(|itself: &Weak<Registry>| {
        let itself = itself.clone();
        let adviser: Adviser = Box::new(move |request, object| {
            let itself = itself.upgrade().expect("it is asked by its registry");
            if request.kind.resource == SECRETS { advise(&itself, request, object) } else { Ok(()) }
        });
        let mut registry = registry(random);
        registry.advisers.push(adviser);
        registry
    });
    made.ensure_namespace("a").expect("it is new");
    made
}

const SECRETS: Resource = Resource::core("secrets");

/// A client creates an object in namespace `a`: the object's name.
fn create(registry: &Registry, resource: &Resource, metadata: &Value) -> Result<String, CommitError<String>> {
    let kind = &*registry.kind(resource).expect("a row");
    let make =
        |_: Option<Standing<'_>>| Ok(Made::document(Part::Main, json!({ "metadata": metadata }), Ownership::Untold));
    let done = registry.commit(&Change::create(kind, "a", &make), &Terms::of(Writer::Client));
    done.map(|committed| committed.stored.key.name.clone())
}

fn stored(registry: &Registry, resource: &Resource, namespace: &str, name: &str) -> Option<Value> {
    let key = Key { resource: resource.clone(), namespace: namespace.to_owned(), name: name.to_owned() };
    let stored = registry.store.get(&key).expect("whole")?;
    Some(serde_json::from_slice(&stored.json).expect("JSON"))
}

/// Another object in the same namespace, with the same quota, is written while an adviser is asked. The field that the
/// adviser sets is stored.
#[test]
fn no_lock_is_held_while_an_adviser_is_asked() {
    let registry = advised(
        |_| {},
        |registry, request, secret| {
            assert_eq!(request.operation, AdmissionOperation::Create);
            assert!(registry.homes.try_write().is_ok(), "a lock of namespaces is held");
            assert!(registry.counting.try_lock().is_ok(), "the lock of quotas is held");
            create(registry, &Resource::core("configmaps"), &json!({"name": "written-meanwhile"}))
                .map_err(|why| why.to_string())?;
            secret["metadata"]["labels"] = json!({"advised": "yes"});
            Ok(())
        },
    );
    let hard = json!({"secrets": "1", "configmaps": "9"});
    made(&registry, &Resource::core("resourcequotas"), &json!({"metadata": {"name": "q"}, "spec": {"hard": hard}}));
    assert_eq!(create(&registry, &SECRETS, &json!({"name": "s"})).expect("nothing forbids it"), "s");
    let secret = stored(&registry, &SECRETS, "a", "s").expect("it is stored");
    assert_eq!(secret["metadata"]["labels"], json!({"advised": "yes"}));
    assert!(stored(&registry, &Resource::core("configmaps"), "a", "written-meanwhile").is_some());
}

/// The namespace is looked at again, under the lock, before the object is stored.
#[test]
fn a_namespace_that_ends_while_an_adviser_is_asked_takes_no_object() {
    let registry = advised(
        |_| {},
        |registry, _, _| {
            let kind = &*registry.kind(&NAMESPACES).expect("a row");
            let make = |old: Option<Standing<'_>>| {
                let mut object = old.expect("it stands").object.clone();
                object["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
                object["status"]["phase"] = "Terminating".into();
                Ok(Made::Own(object))
            };
            let done = registry.commit::<String>(&Change::delete(kind, "", "a", &make), &Terms::of(Writer::Client));
            done.map(drop).map_err(|why| why.to_string())
        },
    );
    let refused = create(&registry, &SECRETS, &json!({"generateName": "s-"}));
    assert!(
        matches!(&refused, Err(CommitError::NamespaceError(NamespaceError::Ending { name })) if name == "s-"),
        "{refused:?}"
    );
}

/// The writer and the advisers have made and seen a document without the name that is generated.
#[test]
fn a_generated_name_that_is_taken_repeats_only_the_last_moment() {
    // The names of two attempts in a row are the same.
    let (attempts, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (suffixes, counted) = (attempts.clone(), asked.clone());
    let random = move |bytes: &mut [u8]| {
        if bytes.len() == SUFFIX_BYTES {
            let before = suffixes.fetch_add(1, Ordering::Relaxed);
            bytes.fill(u8::try_from(before / 2).expect("few attempts"));
        }
    };
    let registry = advised(random, move |_, _, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let kind = &*registry.kind(&SECRETS).expect("a row");
    let made = std::cell::Cell::new(0);
    let make = |_: Option<Standing<'_>>| {
        made.set(made.get() + 1);
        Ok(Made::document(Part::Main, json!({"metadata": {"generateName": "s-"}}), Ownership::Untold))
    };
    for (nth, name, attempts_until_then) in [(1, "s-bbbbb", 1), (2, "s-ccccc", 3)] {
        let done = registry.commit::<String>(&Change::create(kind, "a", &make), &Terms::of(Writer::Client));
        assert_eq!(done.expect("another name is free").stored.key.name, name);
        assert_eq!(attempts.load(Ordering::Relaxed), attempts_until_then);
        assert_eq!((made.get(), asked.load(Ordering::Relaxed)), (nth, nth));
    }
}

/// The advisers have seen another change: they are asked about the change of the object that stands now.
#[test]
fn an_object_that_changes_meanwhile_repeats_all_moments() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    let registry = advised(
        |_| {},
        move |registry, request, secret| {
            let old = request.old.map(|old| old["data"].clone());
            locked(&told).push((old.clone(), secret["data"].clone()));
            if old == Some(json!({"a": "MQ=="})) {
                // Somebody else is quicker.
                let make = |old: Option<Standing<'_>>| {
                    let mut object = old.expect("it stands").object.clone();
                    object["data"]["a"] = "Mg==".into();
                    Ok(Made::Own(object))
                };
                let other = Change::<'_, String>::update(request.kind, "a", "s", &make);
                registry.commit(&other, &Terms::of(Writer::Client)).map_err(|why| why.to_string())?;
            }
            Ok(())
        },
    );
    made(&registry, &SECRETS, &json!({"metadata": {"name": "s"}, "data": {"a": "MQ=="}}));
    let kind = &*registry.kind(&SECRETS).expect("a row");
    let make = |old: Option<Standing<'_>>| {
        let mut object = old.expect("it stands").object.clone();
        object["data"]["b"] = "Mw==".into();
        Ok(Made::document(Part::Main, object, Ownership::Untold))
    };
    let done = registry.commit::<String>(&Change::update(kind, "a", "s", &make), &Terms::of(Writer::Client));
    assert_eq!(done.map(|committed| committed.outcome).map_err(|why| why.to_string()), Ok(Outcome::Changed));
    let now = json!({"a": "Mg==", "b": "Mw=="});
    assert_eq!(stored(&registry, &SECRETS, "a", "s").expect("it is stored")["data"], now);
    let first = (Some(json!({"a": "MQ=="})), json!({"a": "MQ==", "b": "Mw=="}));
    assert_eq!(*locked(&seen), [first, (Some(json!({"a": "Mg=="})), now)]);
}

/// Controllers make pods for whoever wrote a Deployment, and nodes show pods of their files.
#[test]
fn pods_meet_the_level_of_their_namespace_whoever_makes_them() {
    let registry = in_memory();
    let level = json!({"metadata": {"name": "a", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
    let kind = &*registry.kind(&NAMESPACES).expect("a row");
    let make = |_: Option<Standing<'_>>| Ok(Made::document(Part::Main, level.clone(), Ownership::Untold));
    let done = registry.commit::<String>(&Change::create(kind, "", &make), &Terms::of(Writer::Client));
    assert!(done.is_ok());
    let pods = Resource::core("pods");
    let kind = &*registry.kind(&pods).expect("a row");
    let pod = json!({"metadata": {"generateName": "p-"}, "spec": {"automountServiceAccountToken": false, "containers": [
        {"name": "c", "image": "i", "securityContext": {"privileged": true}}]}});
    let controller = crate::authorize::identity_of("replicaset-controller");
    for (writer, identity) in [
        (Writer::Client, &coracle_http::Identity::administrator()),
        (Writer::Controller, &controller),
        (Writer::Master, Terms::of(Writer::Master).identity),
    ] {
        let make = |_: Option<Standing<'_>>| Ok(Made::document(Part::Main, pod.clone(), Ownership::Untold));
        let terms = Terms { identity, ..Terms::of(writer) };
        let done = registry.commit::<String>(&Change::create(kind, "a", &make), &terms);
        let why = done.err().map(|barred| barred.to_string()).unwrap_or_default();
        assert!(why.contains("violates PodSecurity \"baseline:latest\": privileged"), "{writer:?}: {why}");
    }
}

#[test]
fn an_adviser_may_refuse_a_change() {
    let registry = advised(
        |_| {},
        |_, request, object| match request.operation {
            AdmissionOperation::Delete => Err(format!("{} stays: {object}", request.name)),
            AdmissionOperation::Create | AdmissionOperation::Update => Err(format!("no {}", request.namespace)),
        },
    );
    let told = |barred: CommitError<String>| barred.to_string();
    let refused = create(&registry, &SECRETS, &json!({"generateName": "s-"})).map_err(told);
    assert_eq!(refused, Err("\"s-\" is forbidden: no a".to_owned()));
    // Nobody is asked about the master's own objects: they are written while locks are held.
    made(&registry, &SECRETS, &json!({"metadata": {"name": "own"}}));
    let kind = &*registry.kind(&SECRETS).expect("a row");
    let gone = |_: Option<Standing<'_>>| Ok(Made::Gone);
    let deleted = registry.commit(&Change::delete(kind, "a", "own", &gone), &Terms::of(Writer::Client));
    assert_eq!(deleted.map(drop).map_err(told), Err("\"own\" is forbidden: own stays: null".to_owned()));
    assert!(stored(&registry, &SECRETS, "a", "own").is_some());
}

/// Admission is asked about a deletion before the writer: its preconditions and its finalizers come second.
#[test]
fn a_forbidden_deletion_asks_no_writer() {
    let registry = in_memory();
    registry.ensure_namespace("kube-system").expect("it is new");
    let kind = &*registry.kind(&NAMESPACES).expect("a row");
    let make = |_: Option<Standing<'_>>| Err("the writer was asked".to_owned());
    for (name, expected) in [
        ("kube-system", "\"kube-system\" is forbidden: this namespace may not be deleted"),
        // It was never made.
        ("default", "it does not exist"),
    ] {
        let done = registry.commit(&Change::delete(kind, "", name, &make), &Terms::of(Writer::Client));
        assert_eq!(done.map(drop).map_err(|barred| barred.to_string()), Err(expected.to_owned()), "{name}");
    }
}

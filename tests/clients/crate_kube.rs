//! The crate `kube`, as controllers in Rust use it: calls, apply, watcher, reflector, a controller, over plain HTTP.

use crate::Verdict;
use crate::bed::{Bed, PATIENCE};
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::controller::Action;
use kube::runtime::reflector::{ObjectRef, store};
use kube::runtime::watcher::{Config as Watching, Event};
use kube::runtime::{Controller, WatchStreamExt, reflector, watcher};
use kube::{Api, Client, Config, Error, ResourceExt, discovery};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};

type Outcome = Result<(), Box<dyn std::error::Error>>;
type Test = fn(Client) -> Pin<Box<dyn Future<Output = Outcome>>>;

const TESTS: &[(&str, Test)] = &[
    ("calls", |client| Box::pin(calls(client))),
    ("typed-kinds", |client| Box::pin(typed_kinds(client))),
    ("apply", |client| Box::pin(apply(client))),
    ("dynamic", |client| Box::pin(dynamic(client))),
    ("raw-watch", |client| Box::pin(raw_watch(client))),
    ("watcher-list", |client| Box::pin(follow(client, Watching::default(), "list"))),
    ("watcher-stream", |client| Box::pin(follow(client, Watching::default().streaming_lists(), "stream"))),
    ("watcher-pages", |client| Box::pin(follow(client, Watching::default().page_size(2), "pages"))),
    ("reflector", |client| Box::pin(reflect(client))),
    ("controller", |client| Box::pin(control(client))),
];

pub fn run(wanted: &dyn Fn(&str) -> bool) -> Vec<Verdict> {
    TESTS
        .iter()
        .map(|(name, test)| (format!("kube/{name}"), test))
        .filter(|(name, _)| wanted(name))
        .map(|(name, test)| one(name, *test))
        .collect()
}

fn one(name: String, test: Test) -> Verdict {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime of one thread");
    let wrong = match Bed::start(&name) {
        Err(why) => vec![why],
        Ok(bed) => {
            let outcome = runtime.block_on(async {
                let client = Client::try_from(Config::new(bed.url().parse()?))?;
                tokio::time::timeout(PATIENCE, test(client)).await?
            });
            match outcome {
                Ok(()) => Vec::new(),
                Err(why) => vec![why.to_string(), format!("the master's log:\n{}", bed.log())],
            }
        }
    };
    println!("test {name} ... {}", if wrong.is_empty() { "ok" } else { "FAILED" });
    Verdict { name, wrong, notes: Vec::new() }
}

/// What must hold, as an error that names it: a panic would hide the master's log.
macro_rules! hold {
    ($what:expr, $($about:tt)*) => {
        if !$what {
            return Err(format!("{} does not hold: {}", stringify!($what), format!($($about)*)).into());
        }
    };
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    let text = json!({"metadata": {"name": name, "labels": {"made": "here"}}, "data": {"value": value}});
    serde_json::from_value(text).expect("a config map as the crate knows it")
}

fn value(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("value")).map_or("", String::as_str)
}

fn reason<T>(answer: Result<T, Error>) -> String {
    match answer {
        Err(Error::Api(status)) => format!("{} {}", status.code, status.reason),
        Err(other) => other.to_string(),
        Ok(_) => "no error".to_owned(),
    }
}

async fn calls(client: Client) -> Outcome {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let made = maps.create(&PostParams::default(), &config_map("a", "1")).await?;
    hold!(made.uid().is_some() && made.creation_timestamp().is_some(), "{made:?}");
    let again = reason(maps.create(&PostParams::default(), &config_map("a", "1")).await);
    hold!(again == "409 AlreadyExists", "{again}");
    let mut changed = maps.get("a").await?;
    changed.data = Some(BTreeMap::from([("value".to_owned(), "2".to_owned())]));
    let replaced = maps.replace("a", &PostParams::default(), &changed).await?;
    hold!(value(&replaced) == "2", "{replaced:?}");
    // `changed` is of before the replacement.
    changed.data = None;
    let stale = reason(maps.replace("a", &PostParams::default(), &changed).await);
    hold!(stale == "409 Conflict", "{stale}");
    let merged = maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"value": "3"}}))).await?;
    hold!(value(&merged) == "3", "{merged:?}");
    let strategic =
        maps.patch("a", &PatchParams::default(), &Patch::Strategic(json!({"data": {"value": "4"}}))).await?;
    hold!(value(&strategic) == "4", "{strategic:?}");
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    maps.patch("a", &dry, &Patch::Merge(json!({"data": {"value": "5"}}))).await?;
    hold!(value(&maps.get("a").await?) == "4", "a dry run is stored");
    for n in 0..5 {
        maps.create(&PostParams::default(), &config_map(&format!("page-{n}"), "x")).await?;
    }
    let mut names = Vec::new();
    let mut params = ListParams::default().labels("made=here").limit(2);
    loop {
        let page = maps.list(&params).await?;
        names.extend(page.items.iter().map(ResourceExt::name_any));
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params.continue_token = Some(token),
            _ => break,
        }
    }
    hold!(names == ["a", "page-0", "page-1", "page-2", "page-3", "page-4"], "{names:?}");
    let metadata = maps.list_metadata(&ListParams::default().labels("made=here")).await?;
    hold!(metadata.items.len() == 6, "{} items", metadata.items.len());
    maps.delete("a", &DeleteParams::default()).await?;
    hold!(maps.get_opt("a").await?.is_none(), "it is still there");
    let version = client.apiserver_version().await?;
    hold!(version.major == "1", "{version:?}");
    Ok(())
}

/// The crate refuses an answer in which something is missing that its types demand.
async fn typed_kinds(client: Client) -> Outcome {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let made = pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    hold!(made.spec.is_some_and(|spec| spec.restart_policy.as_deref() == Some("Always")), "defaults are missing");
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let patched = pods.patch_status("p", &PatchParams::default(), &Patch::Merge(status)).await?;
    hold!(patched.status.and_then(|status| status.phase).as_deref() == Some("Running"), "the status is not taken");
    let gone = pods.delete("p", &DeleteParams::default().grace_period(0)).await?;
    hold!(gone.is_left(), "a pod's deletion answers the pod");
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}});
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let made = deployments.create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
    hold!(made.spec.replicas == Some(1), "defaults are missing");
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "targetPort": "http"}]}});
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let made = services.create(&PostParams::default(), &serde_json::from_value(service)?).await?;
    hold!(made.spec.and_then(|spec| spec.cluster_ip).is_some(), "no address");
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let secret = json!({"metadata": {"name": "s"}, "data": {"a": "AAEC"}});
    let made = secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    hold!(made.data.is_some_and(|data| data["a"].0 == [0, 1, 2]), "bytes are not as sent");
    let wrong = json!({"metadata": {"name": "w"}, "spec": {"containers": [{"name": "Not A Name", "image": "x"}]}});
    match pods.create(&PostParams::default(), &serde_json::from_value(wrong)?).await {
        Err(Error::Api(status)) if status.code == 422 => {
            let field =
                status.details.as_ref().and_then(|d| d.causes.first()).map(|c| c.field.clone()).unwrap_or_default();
            hold!(field == "spec.containers[0].name", "{status:?}");
        }
        other => return Err(format!("an invalid pod: {other:?}").into()),
    }
    let spaces: Api<Namespace> = Api::all(client);
    let names: Vec<String> = spaces.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
    hold!(names.contains(&"default".to_owned()), "{names:?}");
    Ok(())
}

async fn apply(client: Client) -> Outcome {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let config = |data: Value| {
        Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}))
    };
    let one = PatchParams::apply("one");
    let made = maps.patch("a", &one, &config(json!({"x": "1", "y": "1"}))).await?;
    let same = maps.patch("a", &one, &config(json!({"x": "1", "y": "1"}))).await?;
    hold!(made.resource_version() == same.resource_version(), "applying the same again changed something");
    let two = PatchParams::apply("two");
    let conflict = reason(maps.patch("a", &two, &config(json!({"y": "2"}))).await);
    hold!(conflict == "409 Conflict", "{conflict}");
    let forced = maps.patch("a", &two.force(), &config(json!({"y": "2"}))).await?;
    let managers: Vec<&str> = forced.managed_fields().iter().filter_map(|entry| entry.manager.as_deref()).collect();
    hold!(managers.contains(&"one") && managers.contains(&"two"), "{managers:?}");
    let left = maps.patch("a", &one, &config(json!({}))).await?;
    let data = left.data.unwrap_or_default();
    hold!(data == BTreeMap::from([("y".to_owned(), "2".to_owned())]), "{data:?}");
    Ok(())
}

async fn dynamic(client: Client) -> Outcome {
    let known = discovery::Discovery::new(client.clone()).run_aggregated().await?;
    let groups: Vec<&str> = known.groups().map(|group| group.name()).collect();
    hold!(groups.contains(&"apps") && groups.contains(&"batch"), "{groups:?}");
    let older = discovery::Discovery::new(client.clone()).run().await?;
    hold!(older.groups().count() == known.groups().count(), "the two forms of discovery disagree");
    for group in known.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if capabilities.supports_operation(discovery::verbs::LIST) {
                let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
                api.list(&ListParams::default()).await.map_err(|e| format!("list of {}: {e}", resource.kind))?;
            }
        }
    }
    Ok(())
}

async fn raw_watch(client: Client) -> Outcome {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let version = maps.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    maps.create(&PostParams::default(), &config_map("w", "1")).await?;
    maps.patch("w", &PatchParams::default(), &Patch::Merge(json!({"data": {"value": "2"}}))).await?;
    maps.delete("w", &DeleteParams::default()).await?;
    let mut stream = pin!(maps.watch(&WatchParams::default().timeout(20), &version).await?);
    let mut seen = Vec::new();
    while let Some(event) = stream.try_next().await? {
        match event {
            WatchEvent::Added(map) => seen.push(format!("added {}", value(&map))),
            WatchEvent::Modified(map) => seen.push(format!("modified {}", value(&map))),
            WatchEvent::Deleted(map) => {
                seen.push(format!("deleted {}", value(&map)));
                break;
            }
            other => seen.push(format!("{other:?}")),
        }
    }
    hold!(seen == ["added 1", "modified 2", "deleted 2"], "{seen:?}");
    Ok(())
}

/// A cache that follows the watcher ends as a list says, with a writer beside it.
async fn follow(client: Client, config: Watching, name: &str) -> Outcome {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    for n in 0..5 {
        maps.create(&PostParams::default(), &config_map(&format!("{name}-{n}"), "0")).await?;
    }
    let mut stream = pin!(watcher(maps.clone(), config.labels("made=here")));
    let (mut cache, mut before, mut restarts) = (BTreeMap::new(), None, 0);
    let last = format!("{name}-last");
    while let Some(event) = stream.try_next().await? {
        match event {
            Event::Init => {
                restarts += 1;
                cache.clear();
            }
            Event::InitApply(map) => {
                cache.insert(map.name_any(), value(&map).to_owned());
            }
            Event::InitDone => {
                before = Some(cache.len());
                for n in 0..5 {
                    let change = Patch::Merge(json!({"data": {"value": "1"}}));
                    maps.patch(&format!("{name}-{n}"), &PatchParams::default(), &change).await?;
                }
                maps.delete(&format!("{name}-2"), &DeleteParams::default()).await?;
                maps.create(&PostParams::default(), &config_map(&last, "0")).await?;
            }
            Event::Apply(map) => {
                cache.insert(map.name_any(), value(&map).to_owned());
                if map.name_any() == last {
                    break;
                }
            }
            Event::Delete(map) => {
                cache.remove(&map.name_any());
            }
        }
    }
    hold!(before == Some(5) && restarts == 1, "{before:?} objects at first, {restarts} starts");
    let listed = maps.list(&ListParams::default().labels("made=here")).await?;
    let listed: BTreeMap<String, String> = listed.iter().map(|map| (map.name_any(), value(map).to_owned())).collect();
    hold!(cache == listed, "{cache:?} is not {listed:?}");
    Ok(())
}

async fn reflect(client: Client) -> Outcome {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    maps.create(&PostParams::default(), &config_map("first", "1")).await?;
    let (reader, writer) = store();
    let stream = watcher(maps.clone(), Watching::default().streaming_lists()).default_backoff();
    let mut stream = pin!(reflector(writer, stream).applied_objects());
    // The store is ready when the first list is whole, which this very loop brings about.
    let mut created = false;
    while let Some(map) = stream.try_next().await? {
        if map.name_any() == "first" && !created {
            created = true;
            maps.create(&PostParams::default(), &config_map("second", "2")).await?;
        }
        if map.name_any() == "second" {
            break;
        }
    }
    for (name, expected) in [("first", "1"), ("second", "2")] {
        let found = reader.get(&ObjectRef::new(name).within("default"));
        hold!(found.as_deref().map(value) == Some(expected), "{name}: {found:?}");
    }
    Ok(())
}

/// A controller that owns a secret for each map: the secret comes, comes back when it is deleted, and nothing runs in
/// circles.
async fn control(client: Client) -> Outcome {
    #[derive(Clone)]
    struct Context {
        client: Client,
        runs: Arc<Mutex<BTreeMap<String, u32>>>,
    }
    async fn reconcile(map: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, Error> {
        *context.runs.lock().expect("no run panics").entry(map.name_any()).or_default() += 1;
        let secrets: Api<Secret> = Api::default_namespaced(context.client.clone());
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"copy": value(&map)}, "metadata": {
            "name": map.name_any(),
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": map.name_any(), "uid": map.uid(),
                "controller": true}],
        }});
        secrets.patch(&map.name_any(), &PatchParams::apply("copier").force(), &Patch::Apply(secret)).await?;
        Ok(Action::await_change())
    }
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let context = Arc::new(Context { client: client.clone(), runs: Arc::default() });
    let mine = Watching::default().labels("made=here");
    let controller = Controller::new(maps.clone(), mine.clone()).owns(secrets.clone(), Watching::default());
    let mut runs = pin!(controller.run(reconcile, |_, error, _| panic!("reconcile: {error}"), context.clone()));
    maps.create(&PostParams::default(), &config_map("one", "1")).await?;
    let mut deleted = false;
    while let Some(run) = runs.next().await {
        run?;
        match secrets.get_opt("one").await? {
            Some(secret) if !deleted => {
                hold!(secret.data.as_ref().is_some_and(|data| data["copy"].0 == b"1"), "{secret:?}");
                secrets.delete("one", &DeleteParams::default()).await?;
                deleted = true;
            }
            Some(_) => break,
            None => {}
        }
    }
    hold!(deleted, "the controller ended early");
    let count = context.runs.lock().expect("no run panics").get("one").copied().unwrap_or_default();
    hold!((2..10).contains(&count), "{count} runs for one object that was deleted once");
    Ok(())
}

//! The controllers over a cluster made of documents: objects in, intents out.

mod addresses;
mod budgets;
mod deployments;
mod garbage;
mod nodes;
mod rows;
mod scheduler;
mod signing;
mod slices;
mod storage;
mod unplaced;

use super::budgets::BUDGETS;
use super::cluster::Cluster;
use super::intent::{Decision, Intent};
use super::settings::Settings;
use super::signing::REQUESTS;
use super::storage::view::CLASSES;
use super::view::{SLICES, node_key};
use super::{Controllers, Look, Now, events, schedule};
use crate::store::{Event, Stored};
use coracle_api::kinds::Kinds;
use coracle_api::meta::{Key, Resource, Revision, Time};
use coracle_api::strategy::addresses::{ADDRESSES, RANGES};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn key(plural: &'static str, name: &str) -> Key {
    let of_cluster =
        ["nodes", "ipaddresses", "servicecidrs", "persistentvolumes", "storageclasses", "certificatesigningrequests"];
    let namespace = if of_cluster.contains(&plural) { "" } else { "default" };
    let resource = match plural {
        "endpointslices" => SLICES,
        "poddisruptionbudgets" => BUDGETS,
        "ipaddresses" => ADDRESSES,
        "servicecidrs" => RANGES,
        "storageclasses" => CLASSES,
        "certificatesigningrequests" => REQUESTS,
        "deployments" | "replicasets" | "statefulsets" => Resource { group: "apps".into(), plural: plural.into() },
        core => Resource::core(core),
    };
    Key { resource, namespace: namespace.to_owned(), name: name.to_owned() }
}

fn event(plural: &'static str, revision: u64, document: Option<Value>, name: &str) -> Event {
    let mut key = key(plural, name);
    let namespace = document.as_ref().and_then(|document| document["metadata"]["namespace"].as_str());
    key.namespace = namespace.map_or(key.namespace, str::to_owned);
    let key = Arc::new(key);
    let stored = document.map(|document| {
        let labels = document["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())).collect();
        Stored::new(key.clone(), Revision(revision), document.to_string().into(), labels)
    });
    Event { revision: Revision(revision), key, old: None, new: stored, renewed: false }
}

fn empty() -> Cluster {
    Controllers::builtin().cluster(&Kinds::builtin(), Settings::default())
}

/// What a controller decides about one of its keys.
fn decide(cluster: &Cluster, controller: &str, key: Key, now: Now) -> Decision {
    let controllers = Controllers::builtin();
    let owner = controllers.owner(controller, key).expect("a row of the table");
    (controllers.row(&owner).decide)(&Look {
        cluster,
        key: &owner.key,
        now,
        refusal: None,
        contents: None,
        memory: None,
        memo: None,
    })
}

/// A cluster of these objects, each by its plural.
fn cluster(objects: &[(&'static str, Value)]) -> Cluster {
    let mut cluster = empty();
    for (nth, (plural, object)) in objects.iter().enumerate() {
        let name = object["metadata"]["name"].as_str().expect("a name");
        cluster.apply(&event(plural, nth as u64 + 1, Some(object.clone()), name), Duration::ZERO);
    }
    cluster
}

fn at(uptime: Duration) -> Now {
    Now { wall: Time::from_seconds(1_800_000_000).expect("a time"), uptime }
}

fn node(name: &str, more: Value) -> (&'static str, Value) {
    let mut node = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"zone": name},
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"}},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "2", "memory": "1Gi", "pods": "10"}},
    });
    merge(&mut node, more);
    ("nodes", node)
}

fn pod(name: &str, more: Value) -> (&'static str, Value) {
    let mut pod = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"app": "web"},
            "creationTimestamp": "2027-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending"},
    });
    merge(&mut pod, more);
    ("pods", pod)
}

fn running(name: &str, node: &str, ip: &str, ready: bool) -> (&'static str, Value) {
    let conditions = json!([{"type": "Ready", "status": if ready { "True" } else { "False" }}]);
    pod(
        name,
        json!({"spec": {"nodeName": node}, "status": {"phase": "Running", "podIP": ip, "conditions": conditions}}),
    )
}

fn controller(replicas: i64) -> (&'static str, Value) {
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": replicas, "selector": {"app": "web"}, "template": template});
    (
        "replicationcontrollers",
        json!({"metadata": {"name": "Web", "uid": "uid-rc", "generation": 1}, "spec": spec, "status": {"replicas": 0}}),
    )
}

fn owned(name: &str, more: Value) -> (&'static str, Value) {
    let (plural, mut pod) = pod(
        name,
        json!({
            "metadata": {
                "ownerReferences": [
                    {
                        "apiVersion": "v1", "kind": "ReplicationController", "name": "Web", "uid": "uid-rc",
                        "controller": true,
                    },
                ],
            },
        }),
    );
    merge(&mut pod, more);
    (plural, pod)
}

fn service(more: Value) -> (&'static str, Value) {
    let mut service = json!({
        "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    merge(&mut service, more);
    ("services", service)
}

/// Maps are merged, all else is replaced.
fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            more.into_iter().for_each(|(name, value)| merge(into.entry(name).or_insert(Value::Null), value))
        }
        (into, more) => *into = more,
    }
}

/// Where the scheduler puts pods, or why it does not: `a -> n1`, `b: 0/1 nodes ...`.
fn scheduled(objects: &[(&'static str, Value)]) -> Vec<String> {
    let decision = decide(&cluster(objects), "scheduler", schedule::key(), at(MINUTE));
    let line = |intent: &Intent| match intent {
        Intent::Bind { key, node, .. } => Some(format!("{} -> {node}", key.name)),
        Intent::Status { key, status, .. } => {
            Some(format!("{}: {}", key.name, status["conditions"][0]["message"].as_str().unwrap_or_default()))
        }
        _ => None,
    };
    decision.intents.iter().filter_map(line).collect()
}

fn host_port(port: i64) -> Value {
    json!({"spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": port}]}]}})
}

fn asking(cpu: &str, memory: &str) -> Value {
    json!({
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
        },
    })
}

#[test]
fn a_reason_is_said_once() {
    let why = "no nodes available to schedule pods";
    let said = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": why}]}});
    assert_eq!(scheduled(&[pod("a", said)]), Vec::<String>::new());
}

/// What replication does: `+` makes, `-x` deletes, `<x` adopts, `>x` releases, `=n` counts.
fn replicated(objects: &[(&'static str, Value)]) -> Vec<String> {
    let line = |intent: Intent| match intent {
        Intent::Create { object, .. } => {
            assert_eq!(
                (&object["metadata"]["generateName"], &object["metadata"]["labels"]["app"]),
                (&json!("web-"), &json!("web"))
            );
            Some("+".to_owned())
        }
        Intent::Delete { key, .. } => Some(format!("-{}", key.name)),
        Intent::Update { key, object, .. } => {
            Some(format!("{}{}", if object["metadata"]["ownerReferences"].is_null() { ">" } else { "<" }, key.name))
        }
        Intent::Status { status, .. } => {
            Some(format!("={}/{}", status["replicas"], status["readyReplicas"].as_i64().unwrap_or_default()))
        }
        Intent::Bind { .. } | Intent::Emptied { .. } | Intent::Note { .. } | Intent::Then(_) | Intent::Tell(_) => None,
        Intent::Announce(tale) => Some(format!("announce {}", tale.message)),
        Intent::Collect { .. } | Intent::Disown { .. } | Intent::Release { .. } | Intent::Disrupt { .. } => {
            panic!("not its own matter")
        }
        Intent::Approve { .. } | Intent::Sign { .. } | Intent::Revoke { .. } | Intent::Settle { .. } => {
            panic!("not its own matter")
        }
    };
    decide(&cluster(objects), "replication", key("replicationcontrollers", "Web"), at(MINUTE))
        .intents
        .into_iter()
        .filter_map(line)
        .collect()
}

#[test]
fn replication() {
    let check =
        |objects: &[(&'static str, Value)], expected: &[&str]| assert_eq!(replicated(objects), expected, "{objects:?}");
    let none = json!({});
    check(&[controller(2)], &["=0/0", "+", "+"]);
    check(&[controller(1), owned("a", none.clone())], &["=1/0"]);
    check(&[controller(2), pod("a", none.clone())], &["<a", "=1/0", "+"]);
    check(&[controller(1), owned("a", json!({"metadata": {"labels": {"app": "else"}}}))], &[">a", "=0/0", "+"]);
    check(
        &[controller(1), pod("a", json!({"metadata": {"ownerReferences": [{"uid": "another", "controller": true}]}}))],
        &["=0/0", "+"],
    );
    // Finished pods and those that are being deleted are no replicas.
    check(&[controller(1), owned("a", json!({"status": {"phase": "Failed"}}))], &["=0/0", "+"]);
    check(
        &[controller(1), owned("a", json!({"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z"}}))],
        &["=0/0", "+"],
    );
    // The cheapest goes first: on no node, then waiting, then not ready, then the youngest.
    let on = |ready: &str| {
        json!({
            "spec": {"nodeName": "n"}, "status": {"phase": "Running",
                "conditions": [{"type": "Ready", "status": ready}]},
        })
    };
    let young = json!({"metadata": {"creationTimestamp": "2027-01-14T00:00:00Z"}});
    let mut younger = on("True");
    merge(&mut younger, young);
    let all = |replicas| {
        [
            controller(replicas),
            owned("a", on("True")),
            owned("b", on("False")),
            owned("c", none.clone()),
            owned("d", younger.clone()),
        ]
    };
    check(&all(3), &["=4/2", "-c"]);
    check(&all(2), &["=4/2", "-c", "-b"]);
    check(&all(1), &["=4/2", "-c", "-b", "-d"]);
    check(&all(0), &["=4/2", "-c", "-b", "-d", "-a"]);
}

#[test]
fn a_damaged_pod_is_not_replaced() {
    let mut damaged = cluster(&[controller(1)]);
    damaged.damaged.insert(key("pods", "web-x7k2p"));
    let decision = decide(&damaged, "replication", key("replicationcontrollers", "Web"), at(MINUTE));
    assert!(!decision.intents.iter().any(|intent| matches!(intent, Intent::Create { .. })), "{decision:?}");
}

/// Subsets as `ready|notReady:ports`.
fn endpoints_of(decision: &Decision) -> Option<Vec<String>> {
    let written = decision.intents.iter().filter_map(|intent| match intent {
        Intent::Create { object, .. } | Intent::Update { object, .. } => Some(object),
        _ => None,
    });
    let object = written.into_iter().find(|object| object["addressType"].is_null())?;
    assert!(!object.to_string().contains(r#""nodeName":"""#), "no endpoints could be written so: {object}");
    let ips = |list: &Value| {
        list.as_array().into_iter().flatten().filter_map(|a| a["ip"].as_str()).collect::<Vec<_>>().join(",")
    };
    let port = |p: &Value| format!("{}{}", p["name"].as_str().map(|n| format!("{n}=")).unwrap_or_default(), p["port"]);
    let ports = |list: &Value| list.as_array().into_iter().flatten().map(port).collect::<Vec<_>>().join(",");
    let subset =
        |s: &Value| format!("{}|{}:{}", ips(&s["addresses"]), ips(&s["notReadyAddresses"]), ports(&s["ports"]));
    Some(object["subsets"].as_array().into_iter().flatten().map(subset).collect())
}

#[test]
fn endpoints() {
    let check = |objects: &[(&'static str, Value)], expected: &[&str]| {
        let decision = decide(&cluster(objects), "endpoints", key("services", "web"), at(MINUTE));
        assert_eq!(endpoints_of(&decision).expect("endpoints"), expected, "{objects:?}");
    };
    let none = json!({});
    check(&[service(none.clone())], &[]);
    check(
        &[service(none.clone()), running("a", "n1", "10.0.0.2", true), running("b", "n1", "10.0.0.3", false)],
        &["10.0.0.2|10.0.0.3:8080"],
    );
    // Never placed, and said to run: reached without a node's name.
    check(&[service(none.clone()), running("a", "", "10.0.0.2", true)], &["10.0.0.2|:8080"]);
    // No address, or over: no place.
    let done = json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Failed", "podIP": "10.0.0.9"}});
    check(&[service(none.clone()), pod("a", none.clone()), pod("b", done)], &[]);
    // Nor where nobody can be sent: the others have theirs all the same.
    check(
        &[service(none.clone()), running("a", "n1", "127.0.0.1", true), running("b", "n1", "10.0.0.3", true)],
        &["10.0.0.3|:8080"],
    );
    let mut leaving = running("a", "n1", "10.0.0.2", true);
    merge(&mut leaving.1, json!({"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z"}}));
    check(&[service(none.clone()), leaving.clone()], &[]);
    check(&[service(json!({"spec": {"publishNotReadyAddresses": true}})), leaving], &["10.0.0.2|:8080"]);
    // A name is another number in each pod; a pod without it is not served.
    let named = |name: &str, ip: &str, port: i64| {
        let mut pod = running(name, "n1", ip, true);
        merge(
            &mut pod.1,
            json!({
                "spec": {
                    "containers": [{"name": "c", "image": "i", "ports": [{"name": "www", "containerPort": port}]}],
                },
            }),
        );
        pod
    };
    let by_name = service(json!({"spec": {"ports": [{"name": "http", "port": 80, "targetPort": "www"}]}}));
    check(
        &[by_name, named("a", "10.0.0.2", 80), named("b", "10.0.0.3", 81), running("c", "n1", "10.0.0.4", true)],
        &["10.0.0.2|:http=80", "10.0.0.3|:http=81"],
    );
    check(
        &[service(json!({"spec": {"ports": [{"port": 80}]}})), running("a", "n1", "10.0.0.2", true)],
        &["10.0.0.2|:80"],
    );
    let silent = node("n1", json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}));
    check(&[silent, service(none), running("a", "n1", "10.0.0.2", true)], &["|10.0.0.2:8080"]);
}

#[test]
fn endpoints_of_a_lost_status_stay() {
    let place = json!({
        "ip": "10.0.0.2", "nodeName": "n1",
        "targetRef": {"kind": "Pod", "namespace": "default", "name": "a", "uid": "uid-a"},
    });
    let labels = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    let subsets = json!([{"addresses": [place], "ports": [{"port": 8080, "protocol": "TCP"}]}]);
    let standing = ("endpoints", json!({"metadata": {"name": "web", "labels": labels}, "subsets": subsets}));
    let lost = pod("a", json!({"spec": {"nodeName": "n1"}}));
    let decision = decide(
        &cluster(&[service(json!({})), standing.clone(), lost]),
        "endpoints",
        key("services", "web"),
        at(MINUTE),
    );
    assert_eq!(endpoints_of(&decision), None);
    // Without the pod it goes, without the service all of it goes, and a person's endpoints stay.
    let decision =
        decide(&cluster(&[service(json!({})), standing.clone()]), "endpoints", key("services", "web"), at(MINUTE));
    assert_eq!(endpoints_of(&decision), Some(vec![]));
    let decision = decide(&cluster(std::slice::from_ref(&standing)), "endpoints", key("services", "web"), at(MINUTE));
    assert!(matches!(decision.intents[..], [Intent::Delete { at_once: true, .. }]), "{decision:?}");
    let by_hand = ("endpoints", json!({"metadata": {"name": "web"}, "subsets": standing.1["subsets"]}));
    assert_eq!(decide(&cluster(&[by_hand]), "endpoints", key("services", "web"), at(MINUTE)), Decision::default());
}

#[test]
fn pods_of_a_node_that_is_not_there_are_given_up() {
    let n1 = || node_key("n1");
    let mut cluster = cluster(&[running("a", "n1", "10.0.0.2", true)]);
    let given_up = |cluster: &Cluster, s: u64| {
        let decision = decide(cluster, "nodes", n1(), at(Duration::from_secs(s)));
        let line = |intent: &Intent| match intent {
            Intent::Status { status, .. } => format!("{} {}", status["phase"], status["conditions"][1]["reason"]),
            Intent::Delete { at_once: true, .. } => "goes".to_owned(),
            other => format!("{other:?}"),
        };
        (decision.intents.iter().map(line).collect::<Vec<String>>(), decision.wake_at.map(|wake| wake.as_secs()))
    };
    assert_eq!(given_up(&cluster, 39), (vec![], Some(40)), "it may register yet");
    let failed = vec!["\"Failed\" \"DeletionByPodGC\"".to_owned()];
    assert_eq!(given_up(&cluster, 40), (failed.clone(), None));
    let (_, document) = node("n1", json!({}));
    cluster.apply(&event("nodes", 5, Some(document), "n1"), Duration::ZERO);
    assert_eq!(given_up(&cluster, 41).0, [""; 0]);
    cluster.apply(&event("nodes", 6, None, "n1"), Duration::from_secs(41));
    assert_eq!(given_up(&cluster, 80), (vec![], Some(81)), "it may register again");
    assert_eq!(given_up(&cluster, 81), (failed, None));
    let (_, mut over) = running("a", "n1", "10.0.0.2", true);
    over["status"]["phase"] = "Failed".into();
    cluster.apply(&event("pods", 7, Some(over), "a"), Duration::from_secs(82));
    assert_eq!(given_up(&cluster, 82).0, ["goes"]);
    cluster.apply(&event("pods", 8, None, "a"), Duration::ZERO);
    assert!(cluster.removed_nodes.is_empty(), "nothing is remembered longer than it matters");
}

#[test]
fn events_live_an_hour() {
    let mut cluster = empty();
    for (name, minute) in [("a", 0), ("b", 30)] {
        cluster.apply(
            &event("events", minute + 1, Some(json!({"metadata": {"name": name}})), name),
            MINUTE * minute as u32,
        );
    }
    let decision = decide(&cluster, "events", events::key(), at(MINUTE * 59));
    assert_eq!((decision.intents.len(), decision.wake_at), (0, Some(MINUTE * 60)));
    let decision = decide(&cluster, "events", events::key(), at(MINUTE * 60));
    assert!(matches!(&decision.intents[..], [Intent::Delete { key, .. }] if key.name == "a"), "{decision:?}");
    assert_eq!(decision.wake_at, Some(MINUTE * 90));
}

#[test]
fn the_oldest_events_make_room() {
    let long = "x".repeat(events::BYTES_MAX / 4);
    let mut cluster = empty();
    for (name, minute) in [("a", 0), ("b", 1), ("c", 2), ("d", 3), ("e", 4)] {
        let body = json!({"metadata": {"name": name}, "message": long});
        cluster.apply(&event("events", minute + 1, Some(body), name), MINUTE * minute as u32);
    }
    let decision = decide(&cluster, "events", events::key(), at(MINUTE * 5));
    let gone: Vec<&str> = decision
        .intents
        .iter()
        .map(|intent| if let Intent::Delete { key, .. } = intent { &*key.name } else { "" })
        .collect();
    assert_eq!((&gone[..], decision.wake_at), (&["a", "b"][..], Some(MINUTE * 62)));
    for name in gone {
        cluster.apply(&event("events", 9, None, name), MINUTE * 6);
    }
    assert_eq!(decide(&cluster, "events", events::key(), at(MINUTE * 7)).intents.len(), 0);
}

/// The hints of an event cover all that the full pass finds.
#[test]
fn keys_cover_what_changes() {
    let objects =
        [node("n1", json!({})), controller(1), service(json!({})), owned("a", json!({"spec": {"nodeName": "n1"}}))];
    let (controllers, mut cluster) = (Controllers::builtin(), cluster(&objects));
    let mut expected = controllers.all(&cluster);
    let event = event("pods", 9, None, "a");
    let before = cluster.apply(&event, Duration::ZERO);
    expected.retain(|owner| !["events", "own", "scheduler", "expulsion", "pod garbage"].contains(&owner.controller));
    assert_eq!(controllers.concerned(&cluster, &event.key, true, &before), expected);
}

#[test]
fn pods_that_fail_are_made_anew_ever_later() {
    let failed = |name: &'static str, s: i64| {
        let at = Time::from_seconds(1_800_000_000 + s).expect("a time").to_string();
        owned(name, json!({"metadata": {"creationTimestamp": at}, "status": {"phase": "Failed"}}))
    };
    // How many have failed; when another is made, since the last one; which go.
    let check = |count: usize, after_s: u64, gone: &[&str]| {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let mut objects = vec![controller(1)];
        objects.extend(names.iter().take(count).zip(0..).map(|(name, s)| failed(name, s)));
        let cluster = cluster(&objects);
        let web = || key("replicationcontrollers", "Web");
        let made = |decision: &Decision| decision.intents.iter().any(|intent| matches!(intent, Intent::Create { .. }));
        if after_s > 0 {
            let early = decide(&cluster, "replication", web(), at(Duration::from_secs(after_s - 1)));
            assert_eq!((made(&early), early.wake_at), (false, Some(Duration::from_secs(after_s))), "{count}");
        }
        let due = decide(&cluster, "replication", web(), at(Duration::from_secs(after_s)));
        assert!(made(&due), "{count}");
        let deleted =
            |intent: &Intent| if let Intent::Delete { key, .. } = intent { Some(key.name.clone()) } else { None };
        assert_eq!(due.intents.iter().filter_map(deleted).collect::<Vec<_>>(), gone, "{count}");
    };
    check(0, 0, &[]);
    check(1, 0, &[]);
    check(2, 10, &[]);
    check(3, 20, &[]);
    check(5, 80, &[]);
    check(7, 80, &["a", "b"]);
}

#[test]
fn a_controller_that_is_being_deleted_only_counts() {
    let mut leaving = controller(2);
    merge(&mut leaving.1, json!({"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z", "finalizers": ["orphan"]}}));
    assert_eq!(replicated(&[leaving, owned("a", json!({})), pod("b", json!({}))]), ["=1/0"]);
}

#[test]
fn available_is_ready_for_long_enough() {
    let mut patient = controller(1);
    merge(&mut patient.1, json!({"spec": {"minReadySeconds": 30}}));
    let ready =
        owned("a", json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}));
    let cluster = cluster(&[patient, ready]);
    let available = |s: u64| {
        let decision =
            decide(&cluster, "replication", key("replicationcontrollers", "Web"), at(Duration::from_secs(s)));
        let Some(Intent::Status { status, .. }) = decision.intents.first() else { panic!("{decision:?}") };
        (status["readyReplicas"].clone(), status["availableReplicas"].clone(), decision.wake_at)
    };
    assert_eq!(available(29), (json!(1), Value::Null, Some(Duration::from_secs(30))));
    assert_eq!(available(30), (json!(1), json!(1), None));
}

//! What is stored in the bench: pods of 2 KB, and what an idle cluster writes.

use coracle_api::meta::{Durable, Key, Resource};
use coracle_master::store::{KindRow, StoreRules};
use coracle_tests::block::random::Random;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Objects that are written, over and over.
pub const KEYS: u64 = 10_000;
/// Of one object as compact JSON.
pub const OBJECT_BYTES: usize = 2048;
const NAMESPACES: u64 = 20;
const FILLER_BYTES: usize = 64 << 10;

/// The bench's own table: what counts is how much of an object is worth flash, as the product's kinds say it.
const KINDS: [(&str, &str, Durable); 4] = [
    ("pods", "Pod", Durable::Whole),
    ("nodes", "Node", Durable::WithoutStatus),
    ("leases", "Lease", Durable::Nothing),
    ("events", "Event", Durable::Nothing),
];

/// One write.
#[derive(Clone)]
pub struct Item {
    pub key: Key,
    pub object: Value,
    pub durable: Durable,
}

pub fn with_rules<T>(then: impl FnOnce(&StoreRules) -> T) -> T {
    let row = |(plural, kind, _): (&'static str, &'static str, Durable)| KindRow {
        resource: Resource::core(plural),
        api_version: "v1".into(),
        kind: kind.into(),
    };
    then(&StoreRules {
        sealing: Default::default(),
        kinds: KINDS.map(row).into(),
        claims: &|_, _| Vec::new(),
        fault: &|_, _| None,
        edited: &|_, object| Ok(object),
        home: &|_| None,
        durable_by_sketch: &|key, _| Some(durable(&key.resource.plural)),
        durable: &|key, _| durable(&key.resource.plural),
    })
}

fn durable(plural: &str) -> Durable {
    KINDS.iter().find(|row| row.0 == plural).map_or(Durable::Whole, |row| row.2)
}

fn item(plural: &'static str, namespace: &str, name: String, mut object: Value, bytes: usize) -> Item {
    let kind = KINDS.iter().find(|row| row.0 == plural).map_or("", |row| row.1);
    object["apiVersion"] = "v1".into();
    object["kind"] = kind.into();
    object["metadata"]["name"] = name.as_str().into();
    object["metadata"]["namespace"] = namespace.into();
    object["metadata"]["uid"] = "6f1c9c3e-0000-4000-8000-000000000000".into();
    object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    object["metadata"]["resourceVersion"] = "1000000".into();
    let missing = bytes.saturating_sub(object.to_string().len());
    if missing > 40 {
        object["metadata"]["annotations"] = json!({"filler": filler(missing - 32, missing)});
    }
    Item {
        key: Key { resource: Resource::core(plural), namespace: namespace.to_owned(), name },
        object,
        durable: durable(plural),
    }
}

/// Text that no disk can make smaller, at the cost of a copy.
fn filler(bytes: usize, from: usize) -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let mut random = Random::new(1);
        (0..FILLER_BYTES).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
    });
    let from = from % (FILLER_BYTES - bytes);
    &TEXT[from..from + bytes]
}

/// The n-th pod as it is said for the so-manieth time. Made of one that stands ready: what is measured is the store.
pub fn pod(n: u64, said: u64) -> Item {
    static READY: LazyLock<Item> = LazyLock::new(|| first_pod(10_000, 100));
    let (namespace, name) = (format!("ns-{:02}", n % NAMESPACES), format!("pod-{n:06}"));
    let mut object = READY.object.clone();
    object["metadata"]["name"] = name.as_str().into();
    object["metadata"]["namespace"] = namespace.as_str().into();
    object["metadata"]["generation"] = said.into();
    let length = object["metadata"]["annotations"]["filler"].as_str().map_or(0, str::len);
    object["metadata"]["annotations"]["filler"] = filler(length, (n * 31 + said) as usize).into();
    Item { key: Key { resource: READY.key.resource.clone(), namespace, name }, object, durable: READY.durable }
}

fn first_pod(n: u64, said: u64) -> Item {
    let container = json!({
        "name": "web", "image": "registry.local/web:1.2", "command": ["/bin/web", "--listen=:8080", "--data=/data"],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": "MODE", "value": "edge"}],
        "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "50m", "memory": "64Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}], "imagePullPolicy": "IfNotPresent",
    });
    let object = json!({
        "metadata": {"labels": {"app": "web", "tier": "edge", "pod-template-hash": "5d4f7c7b9c"}, "generation": said},
        "spec": {
            "volumes": [{"name": "data", "hostPath": {"path": "/srv/data", "type": ""}}], "containers": [container],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default", "nodeName": "edge-003",
        },
        "status": {"phase": "Running", "podIP": "10.42.1.2"},
    });
    item("pods", "ns-00", format!("pod-{n:06}"), object, OBJECT_BYTES)
}

/// What a cluster of five nodes writes in an hour in which nobody wants anything, and some pods are updated; and in
/// which second.
pub fn idle_hour() -> Vec<(u64, Item)> {
    let mut due: Vec<(u64, Item)> = Vec::new();
    for second in 0..3600 {
        for node in (0..5).filter(|_| second % 10 == 0) {
            let spec = json!({"spec": {"holderIdentity": format!("edge-{node}"), "renewTime": second}});
            due.push((second, item("leases", "kube-node-lease", format!("edge-{node}"), spec, 400)));
        }
        for leader in ["scheduler", "controllers", "cloud"].iter().filter(|_| second % 2 == 0) {
            let spec = json!({"spec": {"holderIdentity": "master-0", "renewTime": second}});
            due.push((second, item("leases", "kube-system", (*leader).to_owned(), spec, 400)));
        }
        if second % 180 == 7 {
            due.push((
                second,
                item("events", "default", format!("event-{second}"), json!({"reason": "Pulled", "count": 1}), 700),
            ));
        }
        // Every node says something new of itself every five minutes: 60 in an hour.
        for node in (0..5).filter(|node| second % 300 == 11 + node) {
            let status = json!({
                "status": {"heartbeat": second, "images": "x".repeat(3000)}, "spec": {"podCIDR": "10.42.0.0/24"},
            });
            due.push((second, item("nodes", "", format!("edge-{node}"), status, 5000)));
        }
        if second % 120 == 61 {
            due.push((second, pod(second / 120 % 10, second)));
        }
    }
    due
}

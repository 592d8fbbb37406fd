//! What is stored in the bench: pods of 2 KB, and what an idle cluster writes.

use coracle_api::meta::{Durable, Key, Resource};
use coracle_master::store::{KindRow, Rules};
use coracle_tests::block::random::Random;
use serde_json::{Value, json};

/// Of one object as compact JSON.
pub const OBJECT_BYTES: usize = 2048;
const NAMESPACES: u64 = 20;

/// The bench's own table: what counts is how much of an object is worth flash, as the product's kinds say it.
const KINDS: [(&str, &str, Durable); 4] = [
    ("pods", "Pod", Durable::Whole),
    ("nodes", "Node", Durable::WithoutStatus),
    ("leases", "Lease", Durable::Nothing),
    ("events", "Event", Durable::Nothing),
];

/// One write.
pub struct Item {
    pub key: Key,
    pub object: Value,
    pub durable: Durable,
}

pub fn with_rules<T>(then: impl FnOnce(&Rules) -> T) -> T {
    let row = |(plural, kind, _): (&'static str, &'static str, Durable)| KindRow {
        resource: Resource::core(plural),
        api_version: "v1".into(),
        kind: kind.into(),
    };
    then(&Rules {
        kinds: KINDS.map(row).into(),
        claims: &|_, _| Vec::new(),
        fault: &|_, _| None,
        edited: &|_, object| Ok(object),
        told: &|key, _| Some(durable(&key.resource.plural)),
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
        let mut random = Random::new(missing as u64 ^ name.len() as u64);
        let filler: String = (0..missing - 32).map(|_| char::from(b'a' + random.below(26) as u8)).collect();
        object["metadata"]["annotations"] = json!({"filler": filler});
    }
    Item { key: Key { resource: Resource::core(plural), namespace: namespace.to_owned(), name }, object, durable: durable(plural) }
}

/// The n-th pod as it is said for the so-manieth time.
pub fn pod(n: u64, said: u64) -> Item {
    let container = json!({
        "name": "web", "image": format!("registry.local/web:1.{said}"), "command": ["/bin/web", "--listen=:8080", "--data=/data"],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": "MODE", "value": "edge"}, {"name": "SAID", "value": said.to_string()}],
        "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "50m", "memory": "64Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}], "imagePullPolicy": "IfNotPresent",
    });
    let object = json!({
        "metadata": {"labels": {"app": "web", "tier": "edge", "pod-template-hash": format!("{:08x}", n * 7919)}, "generation": said},
        "spec": {
            "volumes": [{"name": "data", "hostPath": {"path": format!("/srv/data/{n}"), "type": ""}}], "containers": [container],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default", "nodeName": format!("edge-{:03}", n % 50),
        },
        "status": {"phase": "Running", "podIP": format!("10.42.{}.{}", n / 250 % 250, n % 250)},
    });
    item("pods", &format!("ns-{:02}", n % NAMESPACES), format!("pod-{n:06}"), object, OBJECT_BYTES)
}

/// What a cluster of five nodes writes in an hour in which nobody wants anything, and some pods are updated; and in which second.
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
            due.push((second, item("events", "default", format!("event-{second}"), json!({"reason": "Pulled", "count": 1}), 700)));
        }
        // Every node says something new of itself every five minutes: 60 in an hour.
        for node in (0..5).filter(|node| second % 300 == 11 + node) {
            let status = json!({"status": {"heartbeat": second, "images": "x".repeat(3000)}, "spec": {"podCIDR": "10.42.0.0/24"}});
            due.push((second, item("nodes", "", format!("edge-{node}"), status, 5000)));
        }
        if second % 120 == 61 {
            due.push((second, pod(second / 120 % 10, second)));
        }
    }
    due
}

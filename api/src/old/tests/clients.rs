//! Tests with clients of 2014 and 2015 that read an object and put it back: they drop the fields that they do not know
//! and make a cpu limit of `cpu`. None of that may count as a change, or a pod could no longer be labelled.

use super::*;
use crate::meta::Time;
use crate::strategy::{BuiltinStrategy, Making, POD, REPLICATION_CONTROLLER, Rules, SERVICE};

/// Fields of the metadata and of pods that came after v0.4, wherever they stand.
const AFTER_0_4: &[&str] = &[
    "creationToken",
    "resources",
    "capabilities",
    "readinessProbe",
    "entrypoint",
    "securityContext",
    "dnsPolicy",
    "hostNetwork",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "imagePullSecrets",
    "nodeSelector",
    "serviceAccount",
    "generateName",
    "terminationMessagePath",
    "timeoutSeconds",
    "message",
    "Condition",
    "ready",
    "imageID",
    "lastState",
    "containerID",
    "medium",
    "valueFrom",
];
const AFTER_0_10: &[&str] = &[
    "creationToken",
    "requests",
    "readinessProbe",
    "entrypoint",
    "securityContext",
    "hostNetwork",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "imagePullSecrets",
    "serviceAccount",
    "Condition",
    "ready",
    "imageID",
    "lastState",
    "medium",
    "valueFrom",
];
const AFTER_0_16: &[&str] = &[
    "creationToken",
    "securityContext",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "imagePullSecrets",
    "serviceAccount",
];
/// The same of services, at their top alone.
const SERVICE_AFTER_0_4: &[&str] =
    &["publicIPs", "portalIP", "sessionAffinity", "portName", "ports", "type", "loadBalancerStatus"];
const SERVICE_AFTER_0_10: &[&str] = &["portName", "ports", "type", "loadBalancerStatus"];
const SERVICE_AFTER_0_16: &[&str] = &["type", "loadBalancerStatus"];

struct Client {
    name: &'static str,
    unknown: &'static [&'static str],
    unknown_of_services: &'static [&'static str],
    /// Takes `cpu` for a limit and shows both.
    mirrors_cpu: bool,
}

const CLIENTS: &[Client] = &[
    Client { name: "kubecfg 0.4", unknown: AFTER_0_4, unknown_of_services: SERVICE_AFTER_0_4, mirrors_cpu: false },
    Client { name: "kubectl 0.10", unknown: AFTER_0_10, unknown_of_services: SERVICE_AFTER_0_10, mirrors_cpu: true },
    Client { name: "kubectl 0.16", unknown: AFTER_0_16, unknown_of_services: SERVICE_AFTER_0_16, mirrors_cpu: true },
];

impl Client {
    fn sends_back(&self, shown: &Value) -> Value {
        let mut sent = shown.clone();
        self.decode_and_encode(&mut sent);
        if sent["kind"] == "Service" {
            for name in self.unknown_of_services {
                sent.as_object_mut().expect("an object").remove(*name);
            }
        }
        sent
    }

    fn decode_and_encode(&self, value: &mut Value) {
        if let Value::Array(list) = value {
            list.iter_mut().for_each(|entry| self.decode_and_encode(entry));
        }
        let Value::Object(map) = value else { return };
        map.retain(|name, _| !self.unknown.contains(&name.as_str()));
        map.values_mut().for_each(|value| self.decode_and_encode(value));
        let is_container = map.contains_key("image") && map.contains_key("imagePullPolicy");
        for (name, shown) in
            [("cpu", |cpu: i64| json!(format!("{}", cpu as f64 / 1000.0))), ("memory", |bytes: i64| json!(bytes))]
                as [(&str, fn(i64) -> Value); 2]
        {
            if let Some(amount) = map.get(name).and_then(Value::as_i64).filter(|_| is_container && self.mirrors_cpu) {
                map["resources"]["limits"][name] = shown(amount);
            }
        }
    }
}

fn made(strategy: &BuiltinStrategy, mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!("default");
    with_making(|making| (strategy.create)(&mut object, making));
    let problems = (strategy.validate)(&object, Rules { old_names: true, ..Rules::default() });
    assert!(problems.is_empty(), "{problems:?}");
    object
}

fn with_making(run: impl FnOnce(&mut Making<'_>)) {
    run(&mut Making {
        now: Time::from_seconds(1_600_000_000).expect("a time"),
        uid: "u".into(),
        suffix: &mut || "abcde".into(),
        service_address: &mut || Some([10, 96, 0, 7].into()),
        node_port: &mut || Some(30_007),
    });
}

/// As the master does with a PUT through v1beta1.
fn put_back(strategy: &BuiltinStrategy, stored: &Value, sent: &Value) -> Value {
    let decoded = decode(stored["kind"].as_str().unwrap_or_default(), sent).unwrap_or_else(|e| panic!("{e}\n{sent}"));
    let mut new = merge_put(stored, &decoded);
    with_making(|making| (strategy.update)(&mut new, stored, making));
    let problems = (strategy.validate_update)(&new, stored, Rules { old_names: true, ..Rules::default() });
    assert!(problems.is_empty(), "{problems:?}\n{sent}");
    new
}

fn strategy(kind: &str) -> Option<&'static BuiltinStrategy> {
    match kind {
        "Pod" => Some(&POD),
        "ReplicationController" => Some(&REPLICATION_CONTROLLER),
        "Service" => Some(&SERVICE),
        _ => None,
    }
}

/// What was posted in v1beta1 and was given its defaults comes back from each client unchanged.
#[test]
fn old_clients_put_back_what_they_read() {
    let mut posted: Vec<(String, Value)> =
        documents("examples").into_iter().filter(|(file, _)| !file.ends_with("-list.json")).collect();
    let pod =
        |container: Value| json!({"kind": "Pod", "id": "p", "desiredState": {"manifest": {"containers": [container]}}});
    posted.push(("cpu and memory".into(), pod(json!({"name": "c", "image": "x", "cpu": 250, "memory": 1000}))));
    posted.push((
        "a limit".into(),
        pod(json!({"name": "c", "image": "x", "resources": {"limits": {"cpu": "250m", "memory": "1Ki"}}})),
    ));
    posted.push((
        "two ports".into(),
        json!({
            "kind": "Service", "id": "s", "selector": {"a": "b"},
            "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2, "protocol": "tcp"}],
        }),
    ));
    posted.push((
        "balanced".into(),
        json!({"kind": "Service", "id": "s", "port": 80, "createExternalLoadBalancer": true}),
    ));
    let mut tried = 0;
    for (file, mut document) in posted {
        let kind = document["kind"].as_str().unwrap_or("Pod").to_owned();
        document["kind"] = json!(kind);
        let Some(strategy) = strategy(&kind) else { continue };
        let stored = made(strategy, decoded(&document).object);
        for client in CLIENTS {
            // kubecfg 0.4 knows neither limits nor a second way to say them.
            if file == "a limit" && client.name == "kubecfg 0.4" {
                continue;
            }
            let back = put_back(strategy, &stored, &client.sends_back(&encode(&stored)));
            let (was, is) = (leaves("", &stored), leaves("", &back));
            let changed: Vec<_> = was.symmetric_difference(&is).collect();
            assert!(changed.is_empty(), "{} changes {file}: {changed:?}", client.name);
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried}");
}

/// `kubecfg resize` and `kubectl resize`: the count changes and nothing else.
#[test]
fn old_clients_resize() {
    let frontend = &documents("examples/guestbook")[0].1;
    let stored = made(&REPLICATION_CONTROLLER, decoded(frontend).object);
    for client in CLIENTS {
        let mut sent = client.sends_back(&encode(&stored));
        sent["desiredState"]["replicas"] = json!(0);
        let back = put_back(&REPLICATION_CONTROLLER, &stored, &sent);
        let (was, is) = (leaves("", &stored), leaves("", &back));
        let changed: Vec<_> = was.symmetric_difference(&is).map(String::as_str).collect();
        assert_eq!(
            changed,
            [".metadata.generation = 1", ".metadata.generation = 2", ".spec.replicas = 0", ".spec.replicas = 3"],
            "{}",
            client.name
        );
    }
}

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use super::*;

mod clients;
mod versions;

/// Most of what is told here is told of v1beta1.
fn decode(kind: &str, body: &Value) -> Result<Decoded, DecodeError> {
    super::decode(Version::V1beta1, kind, body)
}

fn encode(v1: &Value) -> Value {
    super::encode(Version::V1beta1, v1)
}

fn merge_put(stored: &Value, new: &Decoded) -> Value {
    super::merge_put(stored, new, Half::Asked)
}

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/v1beta1/");

/// All documents below a folder of the data, by their file's name.
fn documents(folder: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(format!("{DATA}{folder}"))];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the data") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).expect("a file of the data");
                let document: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                found.push((path.strip_prefix(DATA).expect("below the data").display().to_string(), document));
            }
        }
    }
    // Of what was observed, the answers that hold an object or a list.
    found.retain(|(_, document)| document.get("title").is_none() || holds_objects(&document["response"]));
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert!(!found.is_empty(), "{folder} holds documents");
    found
}

fn holds_objects(answer: &Value) -> bool {
    answer["kind"].as_str().is_some_and(|kind| row(kind.strip_suffix("List").unwrap_or(kind)).is_some())
}

/// The objects that an observed answer holds; a list's items get the kind that they lack.
fn objects(answer: &Value) -> Vec<Value> {
    let kind = answer["kind"].as_str().unwrap_or_default();
    match kind.strip_suffix("List") {
        None => vec![answer.clone()],
        Some(kind) => answer["items"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|item| {
                let mut item = item.clone();
                item["kind"] = json!(kind);
                item
            })
            .collect(),
    }
}

fn decoded(document: &Value) -> Decoded {
    let kind = document["kind"].as_str().unwrap_or("Pod");
    decode(kind, document).unwrap_or_else(|e| panic!("{e}\n{document:#}"))
}

/// What Go shows when nothing is set is nothing.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.values().all(is_nothing),
        other => place::is_empty(other) || *other == json!(0) || *other == json!(false),
    }
}

/// Every value of `was` that is absent or another in `is`, as (path, what).
fn lost(path: &str, was: &Value, is: Option<&Value>, found: &mut Vec<(String, String)>) {
    match (was, is) {
        (was, None) if is_nothing(was) => {}
        (was, Some(is)) if was == is || (is_nothing(was) && is_nothing(is)) => {}
        (Value::Object(was), Some(Value::Object(is))) => {
            for (name, value) in was {
                lost(&format!("{path}.{name}"), value, is.get(name), found);
            }
        }
        (Value::Array(was), Some(Value::Array(is))) => {
            for (at, value) in was.iter().enumerate() {
                lost(&format!("{path}[]"), value, is.get(at), found);
            }
        }
        (was, is) => found.push((path.trim_start_matches('.').to_owned(), format!("{was} -> {}", is.unwrap_or(&json!("absent"))))),
    }
}

/// Where what we show differs from what the servers of those years showed, and why.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("Pod", "currentState.info.net", "the pause container of 2014 is no container of the pod; its address stands in podIP"),
    (
        "Pod",
        "desiredState.manifest.containers[].imagePullPolicy",
        "the policy that the image implies is written out, in v1beta1's spelling",
    ),
    ("Pod", "desiredState.manifest.containers[].ports[].protocol", "v1 knows protocols in upper case only"),
    ("Pod", "desiredState.manifest.id", "shown as in 2014, the pod's own name; 2015 left it empty and read it no more"),
    ("Pod", "desiredState.manifest.uuid", "it is the pod's uid, which the answers of v0.4 do not hold"),
    ("Pod", "desiredState.manifest.version", "always v1beta2, as from v0.6 on"),
    ("ReplicationController", "desiredState.podTemplate.desiredState.manifest.version", "always v1beta2, as from v0.6 on"),
    ("Service", "containerPort", "unset it is the port, as from v0.14 on, and is shown"),
    ("Pod", "selfLink", "with the namespace, as from v0.7 on"),
    ("ReplicationController", "selfLink", "with the namespace, as from v0.7 on"),
    ("Service", "selfLink", "with the namespace, as from v0.7 on"),
    ("Event", "selfLink", "with the namespace, as from v0.7 on"),
    ("Minion", "selfLink", "/minions even when read under /nodes: one object, one link"),
];

#[test]
fn what_old_servers_answered_is_kept() {
    let mut met: BTreeMap<(String, String), String> = BTreeMap::new();
    for (file, exchange) in documents("observed") {
        let answer = exchange.get("response").unwrap_or(&exchange);
        for object in objects(answer) {
            let shown = encode(&decoded(&object).object);
            let mut found = Vec::new();
            lost("", &object, Some(&shown), &mut found);
            let kind = object["kind"].as_str().unwrap_or_default();
            met.extend(found.into_iter().map(|(path, what)| ((kind.to_owned(), path), format!("{what} in {file}"))));
        }
    }
    for ((kind, path), what) in &met {
        assert!(DIFFERENCES.iter().any(|(k, p, _)| k == kind && p == path), "{kind} {path}: {what}");
    }
    for (kind, path, _) in DIFFERENCES {
        assert!(met.contains_key(&((*kind).to_owned(), (*path).to_owned())), "{kind} {path} differs no more");
    }
}

#[test]
fn lists_are_shown_as_old_servers_did() {
    for (file, exchange) in documents("observed") {
        let answer = exchange.get("response").unwrap_or(&exchange);
        let Some(kind) = answer["kind"].as_str().and_then(|kind| kind.strip_suffix("List")) else { continue };
        let Some(row) = row(kind).filter(|row| row.flat.is_some()) else { continue };
        let items: Vec<Value> = objects(answer).iter().map(|item| decoded(item).object).collect();
        let revision = answer["resourceVersion"].to_string();
        let list =
            json!({"kind": format!("{}List", row.v1), "apiVersion": "v1", "metadata": {"resourceVersion": revision}, "items": items});
        let shown = encode(&list);
        for name in ["kind", "apiVersion", "creationTimestamp"] {
            assert_eq!(shown[name], answer[name], "{file}: {name}");
        }
        if let Some(revision) = answer.get("resourceVersion") {
            assert_eq!(shown["resourceVersion"], *revision, "{file}");
        }
        assert_eq!(shown["items"].as_array().map(Vec::len), answer["items"].as_array().map(Vec::len).or(Some(0)), "{file}");
        assert_eq!(shown.get("minions"), if row.v1 == "Node" { shown.get("items") } else { None }, "{file}");
        for item in shown["items"].as_array().into_iter().flatten() {
            assert!(item.get("kind").is_none() && item.get("apiVersion").is_none(), "{file}");
            assert!(item["id"].is_string() && item["selfLink"].is_string(), "{file}");
        }
    }
}

/// Every scalar and every empty container, as `path = value`.
fn leaves(path: &str, value: &Value) -> BTreeSet<String> {
    match value {
        Value::Object(map) if !map.is_empty() => map.iter().flat_map(|(name, value)| leaves(&format!("{path}.{name}"), value)).collect(),
        Value::Array(list) if !list.is_empty() => {
            list.iter().enumerate().flat_map(|(at, value)| leaves(&format!("{path}[{at}]"), value)).collect()
        }
        leaf => BTreeSet::from([format!("{path} = {leaf}")]),
    }
}

/// Read and put back as it was shown, in any version, a document stays what it was.
fn check_put_back(what: &str, v1: &Value) {
    let known = |version: &Version| row(v1["kind"].as_str().unwrap_or_default()).is_none_or(|row| row.shape(*version).is_some());
    for version in Version::ALL.into_iter().filter(known) {
        check_put_back_in(version, &format!("{what} in {}", version.name()), v1);
    }
}

fn check_put_back_in(version: Version, what: &str, v1: &Value) {
    let shown = super::encode(version, v1);
    let kind = v1["kind"].as_str().unwrap_or_default();
    let again = super::decode(version, kind, &shown).unwrap_or_else(|e| panic!("{what}: {e}\n{shown:#}"));
    let mut expected = v1.clone();
    // A PUT of a document without a revision is unconditional; all else is as stored.
    if again.object["metadata"].get("resourceVersion").is_none()
        && let Some(meta) = expected["metadata"].as_object_mut()
    {
        meta.remove("resourceVersion");
    }
    let merged = leaves("", &merge_put(v1, &again));
    let expected = leaves("", &expected);
    let differ = |one: &BTreeSet<String>, other: &BTreeSet<String>| one.difference(other).cloned().collect::<Vec<_>>();
    assert_eq!((differ(&merged, &expected), differ(&expected, &merged)), (vec![], vec![]), "{what}: (new, gone)\n{shown}");
    assert!(again.unknown.is_empty(), "{what}: {:?} is shown and not read", again.unknown);
}

#[test]
fn examples_are_read_and_put_back() {
    for (file, example) in documents("examples") {
        let kind = example["kind"].as_str().unwrap_or("Pod").to_owned();
        let mut example = example;
        example["kind"] = json!(kind);
        for object in objects(&example) {
            let v1 = decoded(&object);
            check_put_back(&file, &v1.object);
            let mut found = Vec::new();
            lost("", &object, Some(&encode(&v1.object)), &mut found);
            found.retain(|(path, _)| {
                let may_differ = [
                    "desiredState.manifest.version",
                    "desiredState.podTemplate.desiredState.manifest.version",
                    // One container without a name: from before v0.2.
                    "desiredState.podTemplate.desiredState.manifest.image",
                    "desiredState.podTemplate.desiredState.manifest.networkPorts",
                    // No room for a template's id, nor for a host that is not the pod's own.
                    "desiredState.podTemplate.desiredState.manifest.id",
                    "currentState.host",
                    // v0.2's; the port in quotes is a number.
                    "desiredState.manifest.containers[].livenessProbe.enabled",
                    "desiredState.manifest.containers[].livenessProbe.type",
                    "desiredState.manifest.containers[].livenessProbe.httpGet.port",
                ];
                !may_differ.contains(&path.as_str())
            });
            assert!(found.is_empty(), "{file}: {found:?}");
        }
    }
    let frontend = decoded(&documents("examples/guestbook")[0].1).object;
    assert_eq!(
        frontend["spec"]["template"]["spec"]["containers"][0],
        json!({
            "name": "php-redis", "image": "brendanburns/php-redis", "imagePullPolicy": "IfNotPresent",
            "ports": [{"containerPort": 80, "hostPort": 8000}],
            "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "10000000"}},
        })
    );
    assert_eq!(frontend["metadata"], json!({"name": "frontendController", "labels": {"name": "frontend"}}));
}

#[test]
fn observed_objects_are_put_back_unchanged() {
    for (file, exchange) in documents("observed") {
        for object in objects(exchange.get("response").unwrap_or(&exchange)) {
            check_put_back(&file, &decoded(&object).object);
        }
    }
}

/// v1 documents of which v1beta1 can say only a part.
#[test]
fn what_v1beta1_cannot_say_survives_a_put() {
    for (file, document) in documents("rich") {
        check_put_back(&file, &document);
    }
}

/// Documents with every field of v1beta1 that v1 has room for.
#[test]
fn every_field_is_shown_again() {
    for (file, document) in documents("full") {
        let v1 = decoded(&document);
        assert!(v1.unknown.is_empty(), "{file}: {:?}", v1.unknown);
        let mut found = Vec::new();
        lost("", &document, Some(&encode(&v1.object)), &mut found);
        assert!(found.is_empty(), "{file}: {found:#?}");
        check_put_back(&file, &v1.object);
    }
}

/// The part of a container that a v1beta1 container becomes.
fn container(v1beta1: Value) -> Value {
    let pod = json!({"id": "p", "desiredState": {"manifest": {"containers": [v1beta1]}}});
    decoded(&pod).object["spec"]["containers"][0].clone()
}

#[test]
fn containers_are_read_liberally() {
    let table = [
        (json!({"command": "sleep 1"}), json!({"args": ["sleep 1"]})),
        (json!({"command": ["sleep", 1, true]}), json!({"args": ["sleep", "1", "true"]})),
        (json!({"entrypoint": ["a"], "command": []}), json!({"command": ["a"]})),
        (
            json!({"env": [{"name": "A", "value": 1}, {"key": "B", "value": true}, {"name": "", "key": "C", "value": 1.5}]}),
            json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "true"}, {"name": "C", "value": "1.5"}]}),
        ),
        (
            json!({"volumeMounts": [{"name": "v", "path": "/a", "mountType": "HOST"}]}),
            json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}),
        ),
        (
            json!({"ports": [{"containerPort": 80, "hostPort": 0, "protocol": "tcp", "hostIP": ""}]}),
            json!({"ports": [{"containerPort": 80, "protocol": "TCP"}]}),
        ),
        (json!({"image": "x"}), json!({"image": "x", "imagePullPolicy": "IfNotPresent"})),
        (json!({"image": "x:latest"}), json!({"image": "x:latest", "imagePullPolicy": "Always"})),
        (json!({"image": "h:5000/latest", "imagePullPolicy": ""}), json!({"image": "h:5000/latest", "imagePullPolicy": "IfNotPresent"})),
        (json!({"imagePullPolicy": "PullNever"}), json!({"imagePullPolicy": "Never"})),
        (json!({"imagePullPolicy": "Always"}), json!({"imagePullPolicy": "Always"})),
        (json!({"imagePullPolicy": "pullAlways"}), json!({"imagePullPolicy": "Always"})),
        (json!({"imagePullPolicy": "Bogus"}), json!({"imagePullPolicy": "Bogus"})),
        (json!({"cpu": 100}), json!({"resources": {"requests": {"cpu": "100m"}}})),
        (json!({"cpu": 2000, "memory": 64}), json!({"resources": {"requests": {"cpu": "2"}, "limits": {"memory": "64"}}})),
        (json!({"cpu": 0, "memory": 0, "resources": {}}), json!({})),
        (
            json!({"resources": {"limits": {"cpu": 0.5, "memory": "64Mi"}}}),
            json!({"resources": {"limits": {"cpu": "500m", "memory": "64Mi"}}}),
        ),
        (
            json!({"cpu": 500, "resources": {"limits": {"cpu": "500m"}}}),
            json!({"resources": {"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}}}),
        ),
        (
            json!({"cpu": 500, "resources": {"limits": {"cpu": "0.5"}, "requests": {"cpu": "0.1"}}}),
            json!({"resources": {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}}),
        ),
        (json!({"privileged": true}), json!({"securityContext": {"privileged": true}})),
        (json!({"capabilities": {}, "livenessProbe": null}), json!({})),
        (json!({"livenessProbe": {"type": "http", "httpGet": {"port": "8080"}}}), json!({"livenessProbe": {"httpGet": {"port": 8080}}})),
        (json!({"livenessProbe": {"tcpSocket": {"port": "web"}}}), json!({"livenessProbe": {"tcpSocket": {"port": "web"}}})),
    ];
    for (sent, expected) in table {
        assert_eq!(container(sent.clone()), expected, "{sent}");
    }
}

#[test]
fn documents_are_read_liberally() {
    let table = [
        ("Pod", json!({}), json!({})),
        ("Pod", json!({"id": 7, "labels": {"a": 1, "b": null}}), json!({"metadata": {"name": "7", "labels": {"a": "1", "b": ""}}})),
        (
            "Pod",
            json!({"resourceVersion": "12", "uid": "", "selfLink": "x", "creationTimestamp": null}),
            json!({"metadata": {"resourceVersion": "12"}}),
        ),
        ("Pod", json!({"resourceVersion": 0}), json!({})),
        ("Pod", json!({"creationToken": "t"}), json!({"metadata": {"annotations": {CREATION_TOKEN: "t"}}})),
        ("Pod", json!({"desiredState": {"restartpolicy": {"type": "RestartNever"}}}), json!({"spec": {"restartPolicy": "Never"}})),
        (
            "Pod",
            json!({"desiredState": {"manifest": {"restartPolicy": {}, "volumes": [{"name": "v"}, {"name": "w", "source": {}}]}}}),
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]}}),
        ),
        // What a client observed is never a reason to refuse.
        (
            "Pod",
            json!({"currentState": {"info": {"c": "docker"}, "status": ["x"], "podIP": "1.1.1.1", "host": "n"}}),
            json!({"status": {"podIP": "1.1.1.1"}}),
        ),
        ("ReplicationController", json!({}), json!({"spec": {"replicas": 0}})),
        ("Service", json!({"port": 80}), json!({"spec": {"ports": [{"port": 80}]}})),
        (
            "Service",
            json!({"port": 80, "protocol": "udp", "containerPort": "53"}),
            json!({"spec": {"ports": [{"port": 80, "protocol": "UDP", "targetPort": 53}]}}),
        ),
        (
            "Service",
            json!({"port": 80, "containerPort": 0, "createExternalLoadBalancer": true}),
            json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}),
        ),
        (
            "Service",
            json!({"createExternalLoadBalancer": false, "publicIPs": "1.2.3.4", "proxyPort": 5}),
            json!({"spec": {"externalIPs": ["1.2.3.4"]}}),
        ),
        (
            "Endpoints",
            json!({"endpoints": ["1.1.1.1:80", "1.1.1.2:81", "1.1.1.3:80"]}),
            json!({"subsets": [
            {"addresses": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.3"}], "ports": [{"port": 80, "protocol": "TCP"}]},
            {"addresses": [{"ip": "1.1.1.2"}], "ports": [{"port": 81, "protocol": "TCP"}]}]}),
        ),
        (
            "Node",
            json!({"kind": "Node", "id": "n", "hostIP": "1.1.1.1", "externalID": "n", "resources": {"capacity": {"cpu": 2, "memory": 1048576}}}),
            json!({"metadata": {"name": "n"}, "status": {"addresses": [{"type": "InternalIP", "address": "1.1.1.1"}], "capacity": {"cpu": "2", "memory": "1048576"}}}),
        ),
        (
            "Event",
            json!({"timestamp": "2015-01-01T00:00:00Z", "source": "me", "host": "h"}),
            json!({"source": {"component": "me", "host": "h"}, "firstTimestamp": "2015-01-01T00:00:00Z", "lastTimestamp": "2015-01-01T00:00:00Z", "count": 1}),
        ),
        ("Binding", json!({"podID": "p", "host": "n"}), json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}})),
    ];
    for (kind, sent, mut expected) in table {
        let row = row(kind).expect("a kind of ours");
        for (name, value) in [("apiVersion", json!("v1")), ("kind", json!(row.v1))] {
            expected[name] = value;
        }
        if expected.get("metadata").is_none() {
            expected["metadata"] = json!({});
        }
        assert_eq!(decode(kind, &sent).expect(kind).object, expected, "{sent}");
    }
}

/// All that is wrong with a document, or what was dropped from it.
fn check_read(kind: &str, document: Value, expected: &[&str]) {
    let found: Vec<String> = match decode(kind, &document) {
        Ok(decoded) => decoded.unknown.iter().map(|path| format!("{path} is dropped")).collect(),
        Err(DecodeError::Malformed(problems)) => problems.iter().map(Problem::to_string).collect(),
        Err(other) => vec![other.to_string()],
    };
    assert_eq!(found, expected, "{document}");
}

#[test]
fn what_is_malformed_is_named_all_at_once() {
    let in_container = |container: Value| json!({"desiredState": {"manifest": {"containers": [container]}}});
    check_read("Pod", json!([]), &["the body must be a JSON object"]);
    check_read("Pod", json!({"kind": "Service"}), &["Service in version v1beta1 cannot be handled as a Pod"]);
    check_read("Node", json!({"kind": "Pod"}), &["Pod in version v1beta1 cannot be handled as a Minion"]);
    check_read("Pod", json!({"apiVersion": "v1"}), &["apiVersion \"v1\" is not known here: write v1beta1"]);
    check_read("Pod", json!({"apiVersion": "v1beta2", "currentState": {"bogus": 1}}), &[]);
    check_read(
        "Pod",
        json!({"spec": {}, "desiredState": {"manifest": {"x": 1}}}),
        &["desiredState.manifest.x is dropped", "spec is dropped"],
    );
    check_read(
        "Pod",
        json!({"id": ["a"], "labels": {"a": {}}, "desiredState": {"manifest": {"containers": {"name": "x"}, "volumes": ["v"], "hostNetwork": "yes"}}}),
        &[
            "id: Invalid value: \"a list\": must be a string",
            "labels[a]: Invalid value: \"a map\": must be a string",
            "desiredState.manifest.volumes[0]: Invalid value: \"v\": must be a map",
            "desiredState.manifest.containers: Invalid value: \"a map\": must be a list",
            "desiredState.manifest.hostNetwork: Invalid value: \"yes\": must be true or false",
        ],
    );
    check_read(
        "Pod",
        json!({"desiredState": [], "resourceVersion": "x"}),
        &[
            "resourceVersion: Invalid value: \"x\": must be a whole number as a read showed it",
            "desiredState: Invalid value: \"a list\": must be a map",
        ],
    );
    check_read(
        "Pod",
        in_container(
            json!({"name": {}, "ports": [{"containerPort": "80"}], "cpu": 0.5, "livenessProbe": {"httpGet": {"port": []}}, "imagePullPolicy": []}),
        ),
        &[
            "desiredState.manifest.containers[0].name: Invalid value: \"a map\": must be a string",
            "desiredState.manifest.containers[0].ports[0].containerPort: Invalid value: \"80\": must be a whole number",
            "desiredState.manifest.containers[0].cpu: Invalid value: 0.5: must be a whole number",
            "desiredState.manifest.containers[0].livenessProbe.httpGet.port: Invalid value: \"a list\": must be a port number or the name of a port",
            "desiredState.manifest.containers[0].imagePullPolicy: Invalid value: \"a list\": must be a string",
        ],
    );
    check_read(
        "Pod",
        in_container(
            json!({"memory": 5, "cpu": 5, "resources": {"limits": {"memory": 6, "cpu": 6}}, "privileged": true, "securityContext": {"privileged": false}, "env": [{"name": "A", "key": "B"}]}),
        ),
        &[
            "desiredState.manifest.containers[0].env[0].key: Invalid value: \"B\": differs from name: both are the same field, give one",
            "desiredState.manifest.containers[0].cpu: Invalid value: 5: differs from cpu in resources: give one, or the same",
            "desiredState.manifest.containers[0].memory: Invalid value: 5: differs from resources.limits.memory: give one, or the same",
            "desiredState.manifest.containers[0].privileged: Invalid value: true: differs from securityContext.privileged: give one, or the same",
        ],
    );
    let manifest = |manifest: Value| json!({"desiredState": {"manifest": manifest}});
    check_read(
        "Pod",
        manifest(json!({"restartPolicy": "always"})),
        &["desiredState.manifest.restartPolicy: Invalid value: \"always\": must be a map: write {always: {}}"],
    );
    check_read(
        "Pod",
        manifest(json!({"restartPolicy": {"always": {}, "never": {}}})),
        &["desiredState.manifest.restartPolicy: Invalid value: \"a map\": must have exactly one of always, onFailure, never"],
    );
    check_read(
        "Pod",
        manifest(json!({"restartPolicy": {"sometimes": {}}})),
        &["desiredState.manifest.restartPolicy.sometimes: Unsupported value: must be one of always, onFailure, never"],
    );
    check_read(
        "Pod",
        manifest(
            json!({"volumes": [{"name": "a", "source": {"emptyDir": {}, "hostDir": {"path": "/x"}}}, {"name": "b", "hostPath": {"path": "/x"}}, {"name": "c", "source": {"configMap": {}}}]}),
        ),
        &[
            "desiredState.manifest.volumes[0].source: Invalid value: [\"emptyDir\",\"hostPath\"]: must have exactly one source",
            "desiredState.manifest.volumes[1].hostPath: Forbidden: a volume of v1beta1 has it one level deeper: write source: {hostPath: ...}",
            "desiredState.manifest.volumes[2].source: Unsupported value: must have one of emptyDir, hostDir, persistentDisk, awsElasticBlockStore, gitRepo, secret, nfs, iscsi, glusterfs, persistentVolumeClaim, rbd",
        ],
    );
    check_read(
        "Service",
        json!({"port": 81, "ports": [{"port": 80}], "createExternalLoadBalancer": true, "type": "NodePort"}),
        &[
            "port: Invalid value: 81: differs from ports[0]: change both, or leave port out",
            "createExternalLoadBalancer: Invalid value: true: differs from type: createExternalLoadBalancer means type LoadBalancer, give one",
        ],
    );
    check_read(
        "Endpoints",
        json!({"endpoints": ["1.1.1.1"]}),
        &["endpoints[0]: Invalid value: \"1.1.1.1\": must be ADDRESS:PORT, such as 10.0.0.1:80"],
    );
    check_read(
        "Endpoints",
        json!({"endpoints": ["1.1.1.1:80"], "subsets": [{"addresses": [{"IP": "1.1.1.2"}], "ports": [{"port": 80}]}]}),
        &["endpoints: Invalid value: \"a list\": differs from subsets: change both, or leave one out"],
    );
    check_read(
        "Pod",
        json!({"creationToken": "a", "annotations": {CREATION_TOKEN: "b"}}),
        &["creationToken: Invalid value: \"a\": differs from annotations[coracle.dev/creation-token]: give one"],
    );
    check_read(
        "Minion",
        json!({"resources": {"capacity": {"cpu": "many"}}}),
        &["resources.capacity[cpu]: Invalid value: \"many\": must be a number of cores, or a quantity such as 250m"],
    );
}

/// What a PUT of `sent` over `stored` changes, as (new, gone).
fn check_put(stored: &Value, sent: Value, new: &[&str], gone: &[&str]) {
    let kind = stored["kind"].as_str().unwrap_or_default();
    let decoded = decode(kind, &sent).unwrap_or_else(|e| panic!("{e}"));
    let (was, is) = (leaves("", stored), leaves("", &merge_put(stored, &decoded)));
    let differ = |one: &BTreeSet<String>, other: &BTreeSet<String>| one.difference(other).cloned().collect::<Vec<_>>();
    assert_eq!(
        (differ(&is, &was), differ(&was, &is)),
        (new.iter().map(|s| s.to_string()).collect(), gone.iter().map(|s| s.to_string()).collect()),
        "{sent}"
    );
}

/// A document of `rich` and what v1beta1 shows of it.
fn rich(file: &str) -> (Value, Value) {
    let stored = documents("rich").into_iter().find(|(name, _)| name.ends_with(file)).expect("a document of rich").1;
    let shown = encode(&stored);
    (stored, shown)
}

#[test]
fn a_put_replaces_what_v1beta1_can_say() {
    let (stored, shown) = rich("/pod.json");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut sent = shown.clone();
        change(&mut sent);
        sent
    };
    let container = "/desiredState/manifest/containers/0";
    let at = |sent: &mut Value, pointer: &str, value: Value| *sent.pointer_mut(pointer).expect("a field that is shown") = value;
    check_put(
        &stored,
        changed(&|sent| at(sent, &format!("{container}/image"), json!("nginx:2"))),
        &[".spec.containers[0].image = \"nginx:2\""],
        &[".spec.containers[0].image = \"nginx:1\""],
    );
    check_put(&stored, changed(&|sent| at(sent, "/labels", json!({}))), &[], &[".metadata.labels.app = \"web\""]);
    check_put(&stored, changed(&|sent| at(sent, "/resourceVersion", json!(0))), &[], &[".metadata.resourceVersion = \"42\""]);
    // The token, the uid and the address stay; so does all that was observed.
    check_put(
        &stored,
        changed(&|sent| {
            for name in ["uid", "creationTimestamp", "currentState", "creationToken", "namespace", "id", "generateName"] {
                sent[name] = Value::Null;
            }
            sent["annotations"] = json!({"a": "b"});
            sent["desiredState"]["host"] = json!("");
        }),
        &[],
        &[],
    );
    check_put(
        &stored,
        changed(&|sent| at(sent, &format!("{container}/env"), json!([{"name": "D"}, {"key": "N", "value": "n"}]))),
        &[
            ".spec.containers[0].env[0].name = \"D\"",
            ".spec.containers[0].env[0].valueFrom.secretKeyRef.key = \"k\"",
            ".spec.containers[0].env[0].valueFrom.secretKeyRef.name = \"s\"",
            ".spec.containers[0].env[1].name = \"N\"",
            ".spec.containers[0].env[1].value = \"n\"",
        ],
        &[
            ".spec.containers[0].env[0].name = \"A\"",
            ".spec.containers[0].env[0].value = \"1\"",
            ".spec.containers[0].env[1].name = \"B\"",
            ".spec.containers[0].env[2].name = \"C\"",
            ".spec.containers[0].env[2].value = \"\"",
            ".spec.containers[0].env[3].name = \"D\"",
            ".spec.containers[0].env[3].valueFrom.secretKeyRef.key = \"k\"",
            ".spec.containers[0].env[3].valueFrom.secretKeyRef.name = \"s\"",
            ".spec.containers[0].env[4].name = \"E\"",
            ".spec.containers[0].env[4].valueFrom.fieldRef.apiVersion = \"v1\"",
            ".spec.containers[0].env[4].valueFrom.fieldRef.fieldPath = \"metadata.name\"",
        ],
    );
    // A volume of a kind that v1beta1 cannot say is replaced by one that it can, and not by the empty directory that clients see in it.
    check_put(
        &stored,
        changed(&|sent| {
            at(sent, "/desiredState/manifest/volumes/3/source", json!({"emptyDir": {"medium": ""}}));
            at(sent, "/desiredState/manifest/volumes/5/source", json!({"hostDir": {"path": "/y"}}));
            at(sent, "/desiredState/manifest/volumes/2/source/hostDir/path", json!("/z"));
        }),
        &[".spec.volumes[2].hostPath.path = \"/z\"", ".spec.volumes[5].hostPath.path = \"/y\""],
        &[".spec.volumes[2].hostPath.path = \"/x\"", ".spec.volumes[5].projected.sources = []"],
    );
    check_put(
        &stored,
        changed(&|sent| at(sent, &format!("{container}/livenessProbe"), Value::Null)),
        &[],
        &[
            ".spec.containers[0].livenessProbe.failureThreshold = 5",
            ".spec.containers[0].livenessProbe.httpGet.httpHeaders[0].name = \"X\"",
            ".spec.containers[0].livenessProbe.httpGet.httpHeaders[0].value = \"y\"",
            ".spec.containers[0].livenessProbe.httpGet.path = \"/\"",
            ".spec.containers[0].livenessProbe.httpGet.port = \"http\"",
            ".spec.containers[0].livenessProbe.httpGet.scheme = \"HTTPS\"",
            ".spec.containers[0].livenessProbe.periodSeconds = 3",
        ],
    );
    // A client of 2015 makes a limit of `cpu` and sends both back: no change. Another amount is one.
    check_put(
        &stored,
        changed(&|sent| {
            at(sent, "/desiredState/manifest/containers/1/resources", json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}))
        }),
        &[],
        &[],
    );
    check_put(
        &stored,
        changed(&|sent| at(sent, "/desiredState/manifest/containers/1/resources", json!({"limits": {"cpu": "1"}}))),
        &[],
        &[],
    );
    check_put(
        &stored,
        changed(&|sent| {
            at(sent, "/desiredState/manifest/containers/1/cpu", json!(2000));
            at(sent, "/desiredState/manifest/containers/1/resources", json!({}));
        }),
        &[".spec.containers[1].resources.requests.cpu = \"2\""],
        &[".spec.containers[1].resources.requests.cpu = \"1\""],
    );
}

#[test]
fn a_put_of_a_service_leaves_the_ports_that_old_clients_do_not_know() {
    let (stored, shown) = rich("/service.json");
    // What kubectl 0.10 reads and sends back.
    let mut old = shown.clone();
    for name in ["ports", "portName", "type"] {
        old.as_object_mut().expect("an object").remove(name);
    }
    check_put(&stored, old.clone(), &[], &[]);
    old["port"] = json!(8080);
    check_put(&stored, old.clone(), &[".spec.ports[0].port = 8080"], &[".spec.ports[0].port = 80"]);
    // And kubecfg 0.4, which knows of no address either.
    for name in ["portalIP", "sessionAffinity", "publicIPs"] {
        old.as_object_mut().expect("an object").remove(name);
    }
    check_put(
        &stored,
        old,
        &[".spec.ports[0].port = 8080"],
        &[".spec.externalIPs[0] = \"1.2.3.4\"", ".spec.ports[0].port = 80", ".spec.sessionAffinity = \"ClientIP\""],
    );
    let mut fewer = shown;
    fewer["ports"].as_array_mut().expect("a list").remove(1);
    fewer["createExternalLoadBalancer"] = json!(true);
    fewer["type"] = Value::Null;
    check_put(
        &stored,
        fewer,
        &[".spec.type = \"LoadBalancer\""],
        &[".spec.ports[1].name = \"s\"", ".spec.ports[1].port = 443", ".spec.ports[1].protocol = \"TCP\"", ".spec.type = \"NodePort\""],
    );
}

#[test]
fn fields_are_told_in_v1beta1s_words() {
    let table = [
        ("Pod", "metadata.name", "id"),
        ("Pod", "metadata.labels[a.b/c]", "labels[a.b/c]"),
        ("Pod", "spec.containers[0].name", "desiredState.manifest.containers[0].name"),
        ("Pod", "spec.containers[0].args[1]", "desiredState.manifest.containers[0].command[1]"),
        ("Pod", "spec.containers[2].resources.limits[cpu]", "desiredState.manifest.containers[2].resources.limits[cpu]"),
        ("Pod", "spec.containers[0].imagePullPolicy", "desiredState.manifest.containers[0].imagePullPolicy"),
        ("Pod", "spec.containers[0].livenessProbe.httpGet.port", "desiredState.manifest.containers[0].livenessProbe.httpGet.port"),
        ("Pod", "spec.containers[0].livenessProbe.grpc.port", "desiredState.manifest.containers[0].livenessProbe.grpc.port"),
        ("Pod", "spec.containers[0].securityContext.privileged", "desiredState.manifest.containers[0].privileged"),
        ("Pod", "spec.containers", "desiredState.manifest.containers"),
        ("Pod", "spec.volumes[1].hostPath.path", "desiredState.manifest.volumes[1].source.hostDir.path"),
        ("Pod", "spec.restartPolicy", "desiredState.manifest.restartPolicy"),
        ("Pod", "spec.nodeName", "desiredState.host"),
        ("Pod", "spec.nodeSelector", "nodeSelector"),
        ("Pod", "spec.tolerations[0].key", "spec.tolerations[0].key"),
        ("ReplicationController", "spec.selector", "desiredState.replicaSelector"),
        ("ReplicationController", "spec.template.metadata.labels", "desiredState.podTemplate.labels"),
        (
            "ReplicationController",
            "spec.template.spec.containers[0].image",
            "desiredState.podTemplate.desiredState.manifest.containers[0].image",
        ),
        ("Service", "spec.ports[0].targetPort", "ports[0].containerPort"),
        ("Service", "spec.clusterIP", "portalIP"),
        ("Endpoints", "subsets[0].addresses[1].ip", "subsets[0].addresses[1].IP"),
        ("Binding", "target.name", "host"),
        ("Deployment", "spec.x", "spec.x"),
        ("Pod", "", ""),
        ("Pod", "spec[", "spec["),
    ];
    for (kind, v1, expected) in table {
        assert_eq!(field_path(Version::V1beta1, kind, v1), expected, "{kind} {v1}");
    }
    let problem = told(Version::V1beta1, "Pod", vec![Problem::required(&Path::new("spec.containers[0].args"), "x")]);
    assert_eq!(problem[0].to_string(), "desiredState.manifest.containers[0].command: Required value: x");
    assert_eq!(Format::ContainerManifest.field_path("spec.volumes[0].hostPath.path"), "volumes[0].source.hostDir.path");
    assert_eq!(Format::ContainerManifest.field_path("metadata.name"), "id");
    assert_eq!(Format::PodV1.field_path("spec.containers[0].name"), "spec.containers[0].name");
}

#[test]
fn statuses_are_flat() {
    let v1 = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "pods \"nope\" not found", "reason": "NotFound",
        "details": {"name": "nope", "kind": "pods", "uid": "u", "causes": [{"reason": "r", "message": "m", "field": "f"}]}, "code": 404,
    });
    let expected = json!({
        "kind": "Status", "apiVersion": "v1beta1", "creationTimestamp": null, "status": "Failure", "message": "pods \"nope\" not found", "reason": "NotFound",
        "details": {"id": "nope", "kind": "pods", "causes": [{"reason": "r", "message": "m", "field": "f"}]}, "code": 404,
    });
    assert_eq!(encode(&v1), expected);
    let success = encode_deleted(
        Version::V1beta1,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": {}, "code": 200}),
    );
    assert_eq!(
        success,
        json!({"kind": "Status", "apiVersion": "v1beta1", "creationTimestamp": null, "status": "Success", "code": 200, "success": true})
    );
}

/// xorshift64*: the seed alone gives the same documents again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % sides
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.roll(list.len())]
    }
}

/// Everything that stands in a document, to be put elsewhere.
fn parts(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Object(map) => map.values().for_each(|value| parts(value, found)),
        Value::Array(list) => list.iter().for_each(|value| parts(value, found)),
        _ => {}
    }
    found.push(value.clone());
}

/// Changes a document here and there: values go, come from elsewhere, are doubled, or change their names.
fn spoil(value: &mut Value, others: &[Value], names: &[String], dice: &mut Dice) {
    if dice.roll(25) == 0 {
        *value = dice.pick(others).clone();
        return;
    }
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(|value| spoil(value, others, names, dice));
            if dice.roll(12) == 0 {
                map.insert(dice.pick(names).clone(), dice.pick(others).clone());
            }
            if let Some(name) = map.keys().next().cloned().filter(|_| dice.roll(25) == 0) {
                map.remove(&name);
            }
        }
        Value::Array(list) => {
            list.iter_mut().for_each(|value| spoil(value, others, names, dice));
            if let Some(entry) = list.last().cloned().filter(|_| dice.roll(10) == 0) {
                list.push(entry);
            }
        }
        _ => {}
    }
}

fn field_names(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            found.insert(name.clone());
            field_names(value, found);
        }),
        Value::Array(list) => list.iter().for_each(|value| field_names(value, found)),
        _ => {}
    }
}

/// Whatever is sent, it is read or refused; what is read can be shown, read again and put back without a change.
#[test]
fn random_documents_are_read_or_refused() {
    const DOCUMENTS: usize = 6_000;
    let mut seeds: Vec<Value> = documents("full").into_iter().chain(documents("examples")).map(|(_, document)| document).collect();
    seeds.extend(documents("rich").iter().map(|(_, document)| encode(document)));
    let (mut others, mut names) = (Vec::new(), BTreeSet::new());
    for seed in &seeds {
        parts(seed, &mut others);
        field_names(seed, &mut names);
    }
    others.extend([
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!("9".repeat(200)),
        json!("\u{0}\u{fffd}"),
        json!({"": {"": []}}),
        json!(i64::MIN),
    ]);
    let names: Vec<String> = names.into_iter().collect();
    let mut read = 0;
    for seed in 1..=DOCUMENTS {
        let mut dice = Dice((seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut document = dice.pick(&seeds).clone();
        spoil(&mut document, &others, &names, &mut dice);
        let kind = ROWS[dice.roll(ROWS.len())].flat_kind;
        let kind = document.get("kind").and_then(Value::as_str).filter(|kind| row(kind).is_some()).unwrap_or(kind).to_owned();
        let _ = decode_any(&document);
        let Ok(v1) = decode(&kind, &document) else { continue };
        read += 1;
        check_put_back(&format!("seed {seed}: {document}"), &v1.object);
    }
    assert!(read > DOCUMENTS / 20, "only {read} documents were read: too much is spoiled to test anything");
}

/// Quadratic work would not end.
#[test]
fn a_large_document_is_read_in_linear_time() {
    const ENTRIES: usize = 30_000;
    let env: Vec<Value> = (0..ENTRIES).map(|at| json!({"name": format!("N{at}"), "value": at, format!("x{at}"): []})).collect();
    let labels: Object = (0..ENTRIES).map(|at| (format!("l{at}"), json!(at))).collect();
    let document = json!({"id": "p", "labels": labels, "desiredState": {"manifest": {"containers": [{"name": "c", "env": env, "command": vec!["x"; ENTRIES]}]}}});
    let v1 = decode("Pod", &document).expect("a pod");
    assert_eq!(v1.unknown.len(), shape::REPORTS_MAX);
    assert_eq!(merge_put(&v1.object, &decode("Pod", &encode(&v1.object)).expect("a pod")), v1.object);
    let services: Vec<String> = (0..ENTRIES).map(|at| format!("10.0.0.1:{at}")).collect();
    let endpoints = decode("Endpoints", &json!({"id": "e", "endpoints": services})).expect("endpoints");
    assert_eq!(endpoints.object["subsets"].as_array().map(Vec::len), Some(ENTRIES));
    let DecodeError::Malformed(problems) =
        decode("Pod", &json!({"labels": {"a": []}, "desiredState": {"manifest": {"containers": vec![json!(1); ENTRIES]}}}))
            .expect_err("no pod")
    else {
        panic!("malformed");
    };
    assert_eq!(problems.len(), shape::REPORTS_MAX);
}

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use super::*;

mod clients;
mod putting;
mod reading;
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
        (was, is) => found
            .push((path.trim_start_matches('.').to_owned(), format!("{was} -> {}", is.unwrap_or(&json!("absent"))))),
    }
}

/// Where what we show differs from what the servers of those years showed, and why.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "Pod",
        "currentState.info.net",
        "the pause container of 2014 is no container of the pod; its address stands in podIP",
    ),
    (
        "Pod",
        "desiredState.manifest.containers[].imagePullPolicy",
        "the policy that the image implies is written out, in v1beta1's spelling",
    ),
    ("Pod", "desiredState.manifest.containers[].ports[].protocol", "v1 knows protocols in upper case only"),
    ("Pod", "desiredState.manifest.id", "shown as in 2014, the pod's own name; 2015 left it empty and read it no more"),
    ("Pod", "desiredState.manifest.uuid", "it is the pod's uid, which the answers of v0.4 do not hold"),
    ("Pod", "desiredState.manifest.version", "always v1beta2, as from v0.6 on"),
    (
        "ReplicationController",
        "desiredState.podTemplate.desiredState.manifest.version",
        "always v1beta2, as from v0.6 on",
    ),
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
        let list = json!({
            "kind": format!("{}List", row.v1), "apiVersion": "v1", "metadata": {"resourceVersion": revision},
            "items": items,
        });
        let shown = encode(&list);
        for name in ["kind", "apiVersion", "creationTimestamp"] {
            assert_eq!(shown[name], answer[name], "{file}: {name}");
        }
        if let Some(revision) = answer.get("resourceVersion") {
            assert_eq!(shown["resourceVersion"], *revision, "{file}");
        }
        assert_eq!(
            shown["items"].as_array().map(Vec::len),
            answer["items"].as_array().map(Vec::len).or(Some(0)),
            "{file}"
        );
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
        Value::Object(map) if !map.is_empty() => {
            map.iter().flat_map(|(name, value)| leaves(&format!("{path}.{name}"), value)).collect()
        }
        Value::Array(list) if !list.is_empty() => {
            list.iter().enumerate().flat_map(|(at, value)| leaves(&format!("{path}[{at}]"), value)).collect()
        }
        leaf => BTreeSet::from([format!("{path} = {leaf}")]),
    }
}

/// Read and put back as it was shown, in any version, a document stays what it was.
fn check_put_back(what: &str, v1: &Value) {
    let known = |version: &Version| {
        row(v1["kind"].as_str().unwrap_or_default()).is_none_or(|row| row.shape(*version).is_some())
    };
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
    assert_eq!(
        (differ(&merged, &expected), differ(&expected, &merged)),
        (vec![], vec![]),
        "{what}: (new, gone)\n{shown}"
    );
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

#[test]
fn fields_are_told_in_v1beta1s_words() {
    let table = [
        ("Pod", "metadata.name", "id"),
        ("Pod", "metadata.labels[a.b/c]", "labels[a.b/c]"),
        ("Pod", "spec.containers[0].name", "desiredState.manifest.containers[0].name"),
        ("Pod", "spec.containers[0].args[1]", "desiredState.manifest.containers[0].command[1]"),
        (
            "Pod",
            "spec.containers[2].resources.limits[cpu]",
            "desiredState.manifest.containers[2].resources.limits[cpu]",
        ),
        ("Pod", "spec.containers[0].imagePullPolicy", "desiredState.manifest.containers[0].imagePullPolicy"),
        (
            "Pod",
            "spec.containers[0].livenessProbe.httpGet.port",
            "desiredState.manifest.containers[0].livenessProbe.httpGet.port",
        ),
        (
            "Pod",
            "spec.containers[0].livenessProbe.grpc.port",
            "desiredState.manifest.containers[0].livenessProbe.grpc.port",
        ),
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
    let problem =
        reworded(Version::V1beta1, "Pod", vec![Problem::required(&Path::new("spec.containers[0].args"), "x")]);
    assert_eq!(problem[0].to_string(), "desiredState.manifest.containers[0].command: Required value: x");
    assert_eq!(Format::ContainerManifest.field_path("spec.volumes[0].hostPath.path"), "volumes[0].source.hostDir.path");
    assert_eq!(Format::ContainerManifest.field_path("metadata.name"), "id");
    assert_eq!(Format::PodV1.field_path("spec.containers[0].name"), "spec.containers[0].name");
}

#[test]
fn statuses_are_flat() {
    let v1 = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "pods \"nope\" not found",
        "reason": "NotFound",
        "details": {"name": "nope", "kind": "pods", "uid": "u",
            "causes": [{"reason": "r", "message": "m", "field": "f"}]}, "code": 404,
    });
    let expected = json!({
        "kind": "Status", "apiVersion": "v1beta1", "creationTimestamp": null, "status": "Failure",
        "message": "pods \"nope\" not found", "reason": "NotFound",
        "details": {"id": "nope", "kind": "pods", "causes": [{"reason": "r", "message": "m", "field": "f"}]},
        "code": 404,
    });
    assert_eq!(encode(&v1), expected);
    let success = encode_deleted(
        Version::V1beta1,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": {}, "code": 200}),
    );
    assert_eq!(
        success,
        json!({
            "kind": "Status", "apiVersion": "v1beta1", "creationTimestamp": null, "status": "Success", "code": 200,
            "success": true,
        })
    );
}

/// Quadratic work would not end.
#[test]
fn a_large_document_is_read_in_linear_time() {
    const ENTRIES: usize = 30_000;
    let env: Vec<Value> =
        (0..ENTRIES).map(|at| json!({"name": format!("N{at}"), "value": at, format!("x{at}"): []})).collect();
    let labels: Object = (0..ENTRIES).map(|at| (format!("l{at}"), json!(at))).collect();
    let document = json!({
        "id": "p", "labels": labels,
        "desiredState": {"manifest": {"containers": [{"name": "c", "env": env, "command": vec!["x"; ENTRIES]}]}},
    });
    let v1 = decode("Pod", &document).expect("a pod");
    assert_eq!(v1.unknown.len(), super::reading::REPORTS_MAX);
    assert_eq!(merge_put(&v1.object, &decode("Pod", &encode(&v1.object)).expect("a pod")), v1.object);
    let services: Vec<String> = (0..ENTRIES).map(|at| format!("10.0.0.1:{at}")).collect();
    let endpoints = decode("Endpoints", &json!({"id": "e", "endpoints": services})).expect("endpoints");
    assert_eq!(endpoints.object["subsets"].as_array().map(Vec::len), Some(ENTRIES));
    let DecodeError::Malformed(problems) = decode(
        "Pod",
        &json!({"labels": {"a": []}, "desiredState": {"manifest": {"containers": vec![json!(1); ENTRIES]}}}),
    )
    .expect_err("no pod") else {
        panic!("malformed");
    };
    assert_eq!(problems.len(), super::reading::REPORTS_MAX);
}

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::*;

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
                let document = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                found.push((path.strip_prefix(DATA).expect("below the data").display().to_string(), document));
            }
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert!(!found.is_empty(), "{folder} holds documents");
    found
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
        let Some(row) = row(kind) else { continue };
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

/// Read and put back as it was shown, a document stays what it was.
fn check_put_back(what: &str, v1: &Value) {
    let shown = encode(v1);
    let again = decode(v1["kind"].as_str().unwrap_or_default(), &shown).unwrap_or_else(|e| panic!("{what}: {e}\n{shown:#}"));
    let mut expected = v1.clone();
    // A PUT of a document without a revision is unconditional; all else is as stored.
    if again.object["metadata"].get("resourceVersion").is_none()
        && let Some(meta) = expected["metadata"].as_object_mut()
    {
        meta.remove("resourceVersion");
    }
    assert_eq!(merge_put(v1, &again), expected, "{what}\n{shown:#}");
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

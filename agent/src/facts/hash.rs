//! The spec hash: did what was asked for change? PURE.
//!
//! It covers a container's JSON as written: without nulls and empty values, without what the API's defaults say anyway,
//! and without what needs no new container. So neither a newer agent (with more defaults) nor another version of the
//! API makes a difference where nobody changed anything. `tests/data/golden/hashes.txt` holds the hashes of the first
//! release for ever.

use serde_json::{Map, Value};

use crate::facts::members::MemberKind;

/// FNV-1a, 128 bits: equality of honest data is all that is asked (who writes a manifest can change it openly), it
/// takes ten lines, and it will never change. Hexadecimal.
pub fn hash_text(text: &str) -> String {
    const OFFSET: u128 = 0x6c62272e07bb014262b821756295c58d;
    const PRIME: u128 = 0x0000000001000000000000000000013b;
    let mut hash = OFFSET;
    for byte in text.bytes() {
        hash ^= u128::from(byte);
        hash = hash.wrapping_mul(PRIME);
    }
    format!("{hash:032x}")
}

/// The hash of a container in a v1 pod document.
pub fn container_hash(container: &Value) -> String {
    // When the image is pulled, and how the container is probed, changes nothing about the container that runs.
    hash_text(&canonical(container, &["imagePullPolicy", "livenessProbe", "readinessProbe", "startupProbe"]))
}

/// The container hash without cpu and memory, because a resize changes these while the container runs.
pub fn plain_hash(container: &Value) -> String {
    let mut container = container.clone();
    if let Some(fields) = container.as_object_mut() {
        fields.remove("resizePolicy");
        if let Some(Value::Object(resources)) = fields.get_mut("resources") {
            for amounts in resources.values_mut().filter_map(Value::as_object_mut) {
                amounts.retain(|name, _| !matches!(name.as_str(), "cpu" | "memory"));
            }
        }
    }
    container_hash(&container)
}

/// Whether a container made with the hash `made` matches the wanted container, apart from cpu and memory. A hash has
/// the parts container, shared fields of the pod, and, since containers are resized, plain.
pub fn same(made: &str, wanted: &str) -> bool {
    let parts = |hash: &'_ str| -> Vec<String> { hash.split('.').map(str::to_owned).collect() };
    let (made, wanted) = (parts(made), parts(wanted));
    let both = made.len().min(wanted.len()).min(2);
    made[..both] == wanted[..both] && (made.len() == wanted.len() || both == 2)
        || made.len() == 3 && wanted.len() == 3 && made[1..] == wanted[1..]
}

/// The hash of all fields that the containers of a pod share: a change replaces the whole pod.
pub fn sandbox_hash(document: &Value) -> String {
    const SHARED: [&str; 10] = [
        "hostNetwork",
        "hostIPC",
        "hostPID",
        "hostname",
        "subdomain",
        "hostAliases",
        "dnsConfig",
        "securityContext",
        "volumes",
        "shareProcessNamespace",
    ];
    let spec = &document["spec"];
    let mut shared = Map::new();
    for field in SHARED {
        if let Some(value) = spec.get(field) {
            shared.insert(field.to_owned(), value.clone());
        }
    }
    // `false` is the default.
    for field in ["hostnameOverride", "runtimeClassName", "setHostnameAsFQDN"] {
        if let Some(value) = spec.get(field).filter(|value| **value != Value::Bool(false)) {
            shared.insert(field.to_owned(), value.clone());
        }
    }
    // Only what is published on the host belongs to the sandbox; the other ports are documentation.
    let listed = |list: &str| spec[list].as_array().into_iter().flatten();
    // Init containers have run by the time they are edited: their pod starts anew.
    let init = listed(MemberKind::Init.list()).filter(|container| container["restartPolicy"] != "Always");
    let init: Vec<Value> = init.map(|container| Value::String(container_hash(container))).collect();
    shared.insert("initContainers".to_owned(), Value::Array(init));
    let sidecars = listed(MemberKind::Sidecar.list()).filter(|container| container["restartPolicy"] == "Always");
    let published: Vec<Value> = listed(MemberKind::Main.list())
        .chain(sidecars)
        .flat_map(|container| container["ports"].as_array().into_iter().flatten())
        .filter(|port| port["hostPort"].as_i64().unwrap_or(0) != 0)
        .cloned()
        .collect();
    shared.insert("ports".to_owned(), Value::Array(published));
    hash_text(&canonical(&Value::Object(shared), &[]))
}

/// In the place of an ephemeral container's hash: it is put into a running pod and never edited.
pub const EPHEMERAL_HASH: &str = "ephemeral";

/// Of a manifest: a file that was only touched asks for the same.
pub fn manifest_hash(document: &Value) -> String {
    let mut document = document.clone();
    document["metadata"]["creationTimestamp"] = Value::Null;
    hash_text(&document.to_string())
}

/// The manifest hash without uid and recorded status.
pub fn manifest_hash_without_uid(document: &Value) -> String {
    let mut document = document.clone();
    document["metadata"]["uid"] = Value::Null;
    document["status"] = Value::Null;
    manifest_hash(&document)
}

fn canonical(value: &Value, without: &[&str]) -> String {
    let mut value = value.clone();
    if let Value::Object(object) = &mut value {
        object.retain(|name, _| !without.contains(&name.as_str()));
    }
    let value = trim(value).unwrap_or(Value::Null);
    serde_json::to_string(&value).expect("JSON is written as JSON")
}

/// Without nulls, empty values and defaults; None if nothing is left. An empty text in a list stays: it is an argument.
fn trim(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(mut object) => {
            // A limit implies the request of the same amount, and the API writes that out.
            if let Some(limits) = object.get("limits").cloned()
                && let Some(Value::Object(requests)) = object.get_mut("requests")
            {
                requests.retain(|name, amount| limits.get(name) != Some(amount));
            }
            let object: Map<String, Value> = object
                .into_iter()
                .filter(|(name, value)| !is_default(name, value))
                .filter_map(|(name, value)| {
                    // An empty `emptyDir` must stay: the field itself names the kind of volume.
                    let kept = if name == "emptyDir" {
                        Some(trim(value).unwrap_or(Value::Object(Map::new())))
                    } else {
                        trim(value)
                    };
                    Some((name, kept?))
                })
                .collect();
            (!object.is_empty()).then_some(Value::Object(object))
        }
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => Some(Value::Array(
            items
                .into_iter()
                .map(|item| if item.is_string() { item } else { trim(item).unwrap_or(Value::Null) })
                .collect(),
        )),
        Value::String(text) if text.is_empty() => None,
        other => Some(other),
    }
}

/// What the API writes where nothing was written. A new default of the API goes here, or every container would restart.
fn is_default(name: &str, value: &Value) -> bool {
    match name {
        "terminationMessagePath" => value == "/dev/termination-log",
        "terminationMessagePolicy" => value == "File",
        "protocol" => value == "TCP",
        "scheme" => value == "HTTP",
        "hostPort" => value == 0,
        "mountPropagation" => value == "None",
        "recursiveReadOnly" => value == "Disabled",
        "type" => value == "",
        "allowPrivilegeEscalation" => value == true,
        _ => value == false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fnv_as_published() {
        assert_eq!(hash_text(""), "6c62272e07bb014262b821756295c58d");
        assert_eq!(hash_text("a"), "d228cb696f1a8caf78912b704e4a8964");
    }

    #[test]
    fn hashes_of_the_first_release_stay() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/golden/hashes.txt");
        let text = std::fs::read_to_string(file).unwrap();
        let mut lines = 0;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (wanted, document) = line.split_once(' ').unwrap();
            let document: Value = serde_json::from_str(document).unwrap();
            let hash = if document.get("spec").is_some() { sandbox_hash(&document) } else { container_hash(&document) };
            assert_eq!(hash, wanted, "{document}");
            lines += 1;
        }
        assert!(lines >= 8);
    }

    #[test]
    fn defaults_make_no_difference() {
        let short = json!({"name": "c", "image": "i", "ports": [{"containerPort": 80}]});
        let long = json!({"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP", "hostPort": 0}],
            "resources": {}, "env": null,
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always",
            "securityContext": {"privileged": false}});
        assert_eq!(container_hash(&short), container_hash(&long));
        for changed in [
            json!({"name": "c", "image": "j", "ports": [{"containerPort": 80}]}),
            json!({"name": "c", "image": "i", "ports": [{"containerPort": 80}], "args": [""]}),
            json!({"name": "c", "image": "i", "ports": [{"containerPort": 80}], "args": ["", ""]}),
        ] {
            assert_ne!(container_hash(&short), container_hash(&changed));
        }
    }

    #[test]
    fn the_sandbox_knows_what_is_shared() {
        let pod = |extra: Value| {
            let mut spec = json!({
                "containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 80}]}],
                "volumes": [{"name": "v", "emptyDir": {}}],
            });
            for (name, value) in extra.as_object().unwrap() {
                spec[name] = value.clone();
            }
            sandbox_hash(&json!({"spec": spec}))
        };
        let plain = pod(json!({}));
        assert_eq!(
            plain,
            pod(json!({
                "containers": [{"name": "b", "image": "j"}], "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 3,
            }))
        );
        assert_eq!(plain, pod(json!({"hostNetwork": false, "securityContext": {}})));
        assert_ne!(plain, pod(json!({"hostNetwork": true})));
        assert_ne!(
            plain,
            pod(json!({"containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]}))
        );
        assert_ne!(plain, pod(json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]})));
        assert_ne!(plain, pod(json!({"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]})));
    }
}

//! The volume by which a pod reaches the API: a token of its service account, the authority's certificate, and its
//! namespace. PURE.

use coracle_api::strategy::doc::text;
use coracle_api::strategy::furniture::ROOT;
use serde_json::{Value, json};

const NAME: &str = "kube-api-access-";
const PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// One hour; the odd 3607 of Kubernetes marks a token whose lifetime the API server may extend.
const EXPIRATION_S: i64 = 3607;
const MODE: i64 = 0o644;

/// The field of the pod wins over the field of the service account.
pub fn is_wanted(account: &Value, spec: &Value) -> bool {
    const FIELD: &str = "automountServiceAccountToken";
    spec[FIELD].as_bool().or(account[FIELD].as_bool()).unwrap_or(true)
}

/// Into every container that mounts nothing there itself.
pub fn mount(spec: &mut Value, suffix: &dyn Fn() -> String) {
    let names = spec["volumes"].as_array().into_iter().flatten().map(|volume| text(volume, "name"));
    let given = names.into_iter().find(|name| name.starts_with(NAME)).map(str::to_owned);
    let name = given.clone().unwrap_or_else(|| format!("{NAME}{}", suffix()));
    let mut needed = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            needed |= mount_in(container, &name);
        }
    }
    if needed && given.is_none() {
        push(&mut spec["volumes"], json!({"name": name, "projected": source()}));
    }
}

fn mount_in(container: &mut Value, name: &str) -> bool {
    let has = container["volumeMounts"].as_array().into_iter().flatten().any(|mount| mount["mountPath"] == PLACE);
    if !has {
        push(&mut container["volumeMounts"], json!({"name": name, "readOnly": true, "mountPath": PLACE}));
    }
    !has
}

fn push(list: &mut Value, entry: Value) {
    match list.as_array_mut() {
        Some(entries) => entries.push(entry),
        None => *list = json!([entry]),
    }
}

/// With its defaults: they were written out before.
fn source() -> Value {
    json!({
        "defaultMode": MODE,
        "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": EXPIRATION_S}},
            {"configMap": {"name": ROOT, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace",
                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_one() {
        for (account, pod, wanted) in [
            (None, None, true),
            (Some(false), None, false),
            (Some(false), Some(true), true),
            (Some(true), Some(false), false),
        ] {
            let said = |value: Option<bool>| json!({"automountServiceAccountToken": value});
            assert_eq!(is_wanted(&said(account), &said(pod)), wanted, "{account:?} {pod:?}");
        }
    }

    #[test]
    fn every_container_that_has_none_gets_it() {
        let own = json!({"name": "t", "mountPath": PLACE});
        let check = |mut spec: Value, expected: Value| {
            mount(&mut spec, &|| "abcde".to_owned());
            assert_eq!(spec, expected);
        };
        let given = |name: &str| json!({"name": name, "readOnly": true, "mountPath": PLACE});
        let volume = json!({"name": "kube-api-access-abcde", "projected": source()});
        check(
            json!({
                "initContainers": [{"name": "i"}], "containers": [{"name": "a"}, {"name": "b", "volumeMounts": [own]}],
            }),
            json!({"initContainers": [{"name": "i", "volumeMounts": [given("kube-api-access-abcde")]}],
                "volumes": [volume],
                "containers": [{"name": "a", "volumeMounts": [given("kube-api-access-abcde")]},
                    {"name": "b", "volumeMounts": [own]}]}),
        );
        let whole = json!({"containers": [{"name": "b", "volumeMounts": [own]}], "volumes": [{"name": "t"}]});
        check(whole.clone(), whole);
        let named = json!([{"name": "kube-api-access-mine", "emptyDir": {}}]);
        check(
            json!({"containers": [{"name": "a"}], "volumes": named}),
            json!({"containers": [{"name": "a", "volumeMounts": [given("kube-api-access-mine")]}], "volumes": named}),
        );
    }
}

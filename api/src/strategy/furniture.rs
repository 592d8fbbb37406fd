//! The objects of every namespace: the default service account and the cluster's certificates; and in kube-system the
//! authorities by which servers that extend the API know clients. PURE.

use super::claim::LOCAL_PROVISIONER;
use crate::meta::Resource;
use serde_json::{Value, json};

pub const ACCOUNTS: Resource = Resource::core("serviceaccounts");
pub const CONFIG_MAPS: Resource = Resource::core("configmaps");
/// The service account of pods without `serviceAccountName`.
pub const ACCOUNT: &str = "default";
/// The config map with the certificate that pods must trust.
pub const ROOT: &str = "kube-root-ca.crt";
const ROOT_KEY: &str = "ca.crt";
const ROOT_WORDS: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                          endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                          guaranteed across distributions of Kubernetes clusters.";

/// The config map in kube-system by which servers that extend the API know clients.
pub const EXTENSION: &str = "extension-apiserver-authentication";
/// The headers by which a proxy tells for whom it speaks.
pub const REMOTE_USER: &str = "X-Remote-User";
pub const REMOTE_GROUP: &str = "X-Remote-Group";
pub const REMOTE_UID: &str = "X-Remote-Uid";
pub const REMOTE_EXTRA: &str = "X-Remote-Extra-";
/// The common name of the certificate of a proxy that is believed.
pub const FRONT_PROXY: &str = "front-proxy-client";

/// The authorities of a cluster, as PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Those that sign servers, for everybody.
    pub root: String,
    /// Those whose clients are users.
    pub clients: String,
    /// Those whose clients speak for users.
    pub proxies: String,
}

/// What the config map for servers that extend the API says.
fn extension_data(trust: &Trust) -> [(&'static str, String); 7] {
    let list = |word: &str| json!([word]).to_string();
    [
        ("client-ca-file", trust.clients.clone()),
        ("requestheader-allowed-names", list(FRONT_PROXY)),
        ("requestheader-client-ca-file", trust.proxies.clone()),
        ("requestheader-extra-headers-prefix", list(REMOTE_EXTRA)),
        ("requestheader-group-headers", list(REMOTE_GROUP)),
        ("requestheader-uid-headers", list(REMOTE_UID)),
        ("requestheader-username-headers", list(REMOTE_USER)),
    ]
}

/// The config map for servers that extend the API, made or put right. Other keys of it stay. `None`: it is right.
pub fn extension(standing: Option<&Value>, trust: &Trust) -> Option<Value> {
    let mut map = standing.cloned().unwrap_or_else(|| json!({"metadata": {"name": EXTENSION}}));
    if !map["data"].is_object() {
        map["data"] = json!({});
    }
    for (key, text) in extension_data(trust) {
        map["data"][key] = text.into();
    }
    (standing != Some(&map)).then_some(map)
}

/// `authority`: the certificate of the cluster; None: the cluster has no certificate.
pub fn furniture(authority: Option<&str>) -> Vec<(Resource, Value)> {
    let account = (ACCOUNTS, json!({"metadata": {"name": ACCOUNT}}));
    [account].into_iter().chain(authority.map(|pem| (CONFIG_MAPS, root(pem)))).collect()
}

fn root(authority: &str) -> Value {
    json!({
        "metadata": {"name": ROOT, "annotations": {"kubernetes.io/description": ROOT_WORDS}},
        "data": {ROOT_KEY: authority},
    })
}

/// Whether a config map holds exactly the cluster's certificate.
pub fn is_root(map: &Value, authority: &str) -> bool {
    map["data"][ROOT_KEY] == authority && map["data"].as_object().is_some_and(|data| data.len() == 1)
}

/// The default storage class, for claims without a class: a directory on the node of the pod. A user who wants a
/// different default removes the annotation from this class.
pub fn local_class() -> Value {
    json!({
        "metadata": {"name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": LOCAL_PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_extend_the_api_know_clients() {
        let trust = Trust { root: "R".into(), clients: "C".into(), proxies: "P".into() };
        let made = extension(None, &trust).expect("it is missing");
        let expected = json!({
            "client-ca-file": "C",
            "requestheader-allowed-names": "[\"front-proxy-client\"]",
            "requestheader-client-ca-file": "P",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
        });
        assert_eq!((&made["metadata"]["name"], &made["data"]), (&json!(EXTENSION), &expected));
        assert_eq!(extension(Some(&made), &trust), None);
        let mut changed = made.clone();
        changed["data"]["client-ca-file"] = "another".into();
        changed["data"]["mine"] = "stays".into();
        let right = extension(Some(&changed), &trust).expect("it is wrong");
        assert_eq!((&right["data"]["client-ca-file"], &right["data"]["mine"]), (&json!("C"), &json!("stays")));
        assert!(extension(Some(&json!({"metadata": {"name": EXTENSION}})), &trust).is_some());
    }
}

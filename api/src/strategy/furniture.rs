//! The objects of every namespace: the default service account and the cluster's certificate. PURE.

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

//! Admission: the fields that other objects give to a new one, and the limits that they put on it. Priority classes,
//! runtime classes, storage and ingress classes, service accounts and their secrets, limit ranges, quotas. PURE. Only
//! `ClusterView` reads stored objects.
//!
//! `commit` asks: `complete` after the defaults of a new object's type, `judge` after its kind's own rules.
//!
//! Everything is looked up in one moment and written in another: what may not be passed in between (quotas) is held by
//! a lock, the rest is as true as it was when it was looked at, as in Kubernetes.

mod classes;
mod limits;
mod pod;
pub mod quota;
mod secrets;
mod token_volume;

use coracle_api::kinds::Kind;
use coracle_api::meta::{Key, Resource};
use coracle_api::strategy::{CLIENT_SIGNER, wants_masters};
use coracle_http::Identity;
use serde_json::{Value, json};
use std::sync::Arc;

const RANGES: Resource = Resource::core("limitranges");
pub const QUOTAS: Resource = Resource::core("resourcequotas");
const PRIORITY_CLASSES: (&str, &str) = ("scheduling.k8s.io", "priorityclasses");
const RUNTIME_CLASSES: (&str, &str) = ("node.k8s.io", "runtimeclasses");
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// What admission looks at. `Err`: it is there, and nobody can read it.
pub trait ClusterView {
    fn get(&self, key: &Key) -> Result<Option<Value>, String>;
    fn list(&self, resource: &Resource, namespace: Option<&str>) -> Result<Arc<Vec<Value>>, String>;
}

/// What is listed at every write of some kind: to be kept as documents between two changes.
pub fn lists() -> [Resource; 5] {
    [RANGES, QUOTAS, resource(PRIORITY_CLASSES), resource(classes::STORAGE_CLASSES), resource(classes::INGRESS_CLASSES)]
}

/// What other objects, and who asks, make of a new one. `Err`: why it is forbidden.
/// `suffix`: letters for the name of a pod's token volume; None where it gets none.
pub fn complete(
    view: &dyn ClusterView,
    kind: &Kind,
    namespace: &str,
    identity: &Identity,
    suffix: Option<&dyn Fn() -> String>,
    object: &mut Value,
) -> Result<(), String> {
    match (&*kind.resource.group, &*kind.resource.plural) {
        ("", "pods") => {
            limits::complete(&ranges(view, namespace)?, object);
            pod::account(view, namespace, suffix, object)?;
            pod::priority(view, object)?;
            pod::place(view, object);
            pod::runtime(view, object)
        }
        ("", "persistentvolumeclaims") => classes::storage(view, object),
        ("certificates.k8s.io", "certificatesigningrequests") => {
            sign(identity, object);
            Ok(())
        }
        ("networking.k8s.io", "ingresses") => classes::ingress(view, object),
        ("", "nodes") => {
            taint(object);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// What other objects forbid. `old`: what is replaced, if it is no new object.
pub fn judge(
    view: &dyn ClusterView,
    kind: &Kind,
    namespace: &str,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), String> {
    match (&*kind.resource.group, &*kind.resource.plural, old) {
        ("", "pods", None) => {
            limits::judge_pod(&ranges(view, namespace)?, object)?;
            pod::overhead(view, object)
        }
        ("", "pods", Some(old)) if pod::is_resized(object, old) => {
            limits::judge_pod(&ranges(view, namespace)?, object)?;
            pod::fits_its_node(view, object)
        }
        ("certificates.k8s.io", "certificatesigningrequests", None) if wants_masters(object) => {
            Err(format!("use of {CLIENT_SIGNER} signer with system:masters group is not allowed"))
        }
        ("", "persistentvolumeclaims", None) => limits::judge_claim(&ranges(view, namespace)?, object),
        ("", "persistentvolumeclaims", Some(old)) => {
            limits::judge_claim(&ranges(view, namespace)?, object)?;
            classes::growth(view, object, old)
        }
        (group, plural, _) if (group, plural) == PRIORITY_CLASSES => pod::one_default(view, object),
        _ => Ok(()),
    }
}

fn ranges(view: &dyn ClusterView, namespace: &str) -> Result<Arc<Vec<Value>>, String> {
    view.list(&RANGES, Some(namespace))
}

fn resource((group, plural): (&'static str, &'static str)) -> Resource {
    Resource { group: group.into(), plural: plural.into() }
}

/// Whatever the request says of who asks.
fn sign(identity: &Identity, request: &mut Value) {
    request["spec"]["username"] = identity.user.as_str().into();
    for (field, said) in [
        ("uid", (!identity.uid.is_empty()).then(|| json!(identity.uid))),
        ("groups", (!identity.groups.is_empty()).then(|| json!(identity.groups))),
        ("extra", (!identity.extra.is_empty()).then(|| json!(identity.extra))),
    ] {
        match (said, request["spec"].as_object_mut()) {
            (Some(said), _) => request["spec"][field] = said,
            (None, Some(spec)) => drop(spec.remove(field)),
            (None, None) => {}
        }
    }
}

/// Nobody has said yet that a new node is ready: the node controller takes this away when somebody does.
fn taint(node: &mut Value) {
    let spec = &mut node["spec"];
    let ours = |taint: &Value| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule";
    let taint = json!({"key": NOT_READY, "effect": "NoSchedule"});
    match spec["taints"].as_array_mut() {
        Some(taints) if taints.iter().any(ours) => {}
        Some(taints) => taints.push(taint),
        None => spec["taints"] = json!([taint]),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Objects as they are given.
    #[derive(Default)]
    pub struct Objects(pub BTreeMap<Key, Value>);

    impl Objects {
        pub fn with(mut self, resource: Resource, object: Value) -> Objects {
            let said = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            self.0.insert(Key { resource, namespace: said("namespace"), name: said("name") }, object);
            self
        }
    }

    impl ClusterView for Objects {
        fn get(&self, key: &Key) -> Result<Option<Value>, String> {
            Ok(self.0.get(key).cloned())
        }

        fn list(&self, resource: &Resource, namespace: Option<&str>) -> Result<Arc<Vec<Value>>, String> {
            let held =
                |key: &&Key| key.resource == *resource && namespace.is_none_or(|namespace| key.namespace == namespace);
            let objects = self.0.iter().filter(|(key, _)| held(key)).map(|(_, object)| object.clone());
            Ok(Arc::new(objects.collect()))
        }
    }

    #[test]
    fn a_new_node_is_not_ready() {
        for (spec, expected) in [
            (json!({}), json!([{"key": NOT_READY, "effect": "NoSchedule"}])),
            (json!({"taints": [{"key": "k"}]}), json!([{"key": "k"}, {"key": NOT_READY, "effect": "NoSchedule"}])),
            (
                json!({"taints": [{"key": NOT_READY, "effect": "NoSchedule"}]}),
                json!([{"key": NOT_READY, "effect": "NoSchedule"}]),
            ),
        ] {
            let mut node = json!({"spec": spec});
            taint(&mut node);
            assert_eq!(node["spec"]["taints"], expected);
        }
    }
}

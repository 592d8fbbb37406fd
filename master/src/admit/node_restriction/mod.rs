//! NodeRestriction: a node changes its own objects only, and of those only what a node has to say. PURE.
//!
//! The node authorizer lets a node ask for these changes. Here the document and the stored object say whose they are.

mod tokens;

use super::AdmissionOperation::{Create, Delete, Update};
use super::{AdmissionRequest, Refusal};
use crate::authorize::{MASTERS, node_of};
use coracle_api::annotations::MIRROR;
use coracle_api::meta::{Key, Resource};
use coracle_api::references;
use coracle_api::strategy::doc::{is_empty, list, text, texts};
use coracle_api::strategy::{KUBELET_SIGNERS, common_name};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RESOURCES: &[&str] = &[
    "pods",
    "pods/status",
    "pods/resize",
    "pods/ephemeralcontainers",
    "pods/eviction",
    "nodes",
    "nodes/status",
    "persistentvolumeclaims",
    "persistentvolumeclaims/status",
    "persistentvolumes",
    "serviceaccounts/token",
    "leases.coordination.k8s.io",
    "csinodes.storage.k8s.io",
    "resourceslices.resource.k8s.io",
    "certificatesigningrequests.certificates.k8s.io",
];
const LEASES: &str = "kube-node-lease";
/// Labels of Kubernetes that a node may give itself.
const LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
const LABEL_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// Whether the writer, if it is a node, may make this change.
pub(super) fn restrict(request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Refusal> {
    let Some(node) = node_of(request.identity) else { return Ok(no_mirror(request, object)?) };
    if node.is_empty() {
        let user = &request.identity.user;
        return Err(format!("could not determine node from user {user:?}").into());
    }
    match (&*request.kind.resource.plural, request.subresource) {
        ("pods", "") => pod(request, node, object),
        ("pods", "status") => Ok(pod_status(request, node, object)?),
        ("pods", "eviction") => eviction(request, node),
        ("pods", other) => {
            let words = "only 'status' and 'eviction' are allowed";
            Err(format!("unexpected pod subresource {other:?}, {words}").into())
        }
        ("nodes", _) => Ok(own_node(request, node, object)?),
        ("persistentvolumeclaims", "status") => Ok(claim_status(request, node, object)?),
        ("persistentvolumeclaims", _) => Err("may only update PVC status".to_owned().into()),
        ("persistentvolumes", _) => Ok(volume(request, node, object)?),
        ("serviceaccounts", "token") => tokens::requested(request, node, object),
        ("leases", _) => Ok(lease(request, node, object)?),
        ("csinodes", _) if name(request, object) != node => {
            Err("can only access CSINode with the same name as the requesting node".to_owned().into())
        }
        ("resourceslices", _) => Ok(slice(request, node, object)?),
        ("certificatesigningrequests", "") if request.operation == Create => Ok(signing(node, object)?),
        _ => Ok(()),
    }
}

/// The name of the object that a request is about. A new object has its name in the document.
fn name<'a>(request: &AdmissionRequest<'a>, object: &'a Value) -> &'a str {
    if request.name.is_empty() { text(&object["metadata"], "name") } else { request.name }
}

fn pod(request: &AdmissionRequest<'_>, node: &str, object: &Value) -> Result<(), Refusal> {
    match request.operation {
        Create => mirror(request, node, object),
        Delete if request.old.is_some_and(|old| old["spec"]["nodeName"] != *node) => {
            Err(format!("node {node:?} can only delete pods with spec.nodeName set to itself").into())
        }
        // A pod that nobody can read may be another node's.
        Delete if request.old.is_none() => Err(format!("node {node:?} can only delete pods that can be read").into()),
        Delete => Ok(()),
        Update => {
            let words = "can only create and delete mirror pods";
            Err(format!("unexpected operation \"UPDATE\", node {node:?} {words}").into())
        }
    }
}

/// A mirror pod shows a pod that a node runs anyway, so that it has no service account and counts for no rule of pods.
/// An agent from before the node authorizer speaks as the administrator.
fn no_mirror(request: &AdmissionRequest<'_>, object: &Value) -> Result<(), String> {
    let is_pod = &*request.kind.resource.plural == "pods" && request.subresource.is_empty();
    let is_mirror = is_pod && object["metadata"]["annotations"][MIRROR].is_string();
    match request.operation == Create && is_mirror && !request.identity.groups.iter().any(|group| group == MASTERS) {
        true => Err("only a node can create mirror pods, of the pods that it runs from its own files".to_owned()),
        false => Ok(()),
    }
}

/// A node makes no pods but the copies of those that it runs anyway. They give it no right to any object.
fn mirror(request: &AdmissionRequest<'_>, node: &str, pod: &Value) -> Result<(), Refusal> {
    let metadata = &pod["metadata"];
    let only = |words: &str| Err(Refusal::from(format!("node {node:?} can only create pods with {words}")));
    if !metadata["annotations"][MIRROR].is_string() {
        let words = format!("pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods");
        return Err(words.into());
    }
    if pod["spec"]["nodeName"] != *node {
        return only("spec.nodeName set to itself");
    }
    let owner = match list(metadata, "ownerReferences") {
        [] => return only("an owner reference set to itself"),
        [owner] => owner,
        _ => return only("a single owner reference set to itself"),
    };
    if owner["apiVersion"] != "v1" || owner["kind"] != "Node" || owner["name"] != *node {
        return only("an owner reference set to itself");
    }
    if owner["controller"] != true {
        return only("a controller owner reference set to itself");
    }
    if owner["blockOwnerDeletion"] == true {
        return Err(format!("node {node:?} must not set blockOwnerDeletion on an owner reference").into());
    }
    let key = Key { resource: Resource::core("nodes"), namespace: String::new(), name: node.to_owned() };
    let found = request.view.get(&key);
    let found = found.map_err(|why| format!("error looking up node {node} to verify uid: {why}"))?;
    let uid = found.ok_or(Refusal::Missing(key))?["metadata"]["uid"].clone();
    if owner["uid"] != uid {
        let (said, stands) = (text(owner, "uid"), uid.as_str().unwrap_or_default());
        return Err(format!("node {node} UID mismatch: expected {said} got {stands}").into());
    }
    match references::needed(pod) {
        Some(needed) => Err(format!("node {node:?} can not create pods that reference {needed}").into()),
        None => Ok(()),
    }
}

fn pod_status(request: &AdmissionRequest<'_>, node: &str, pod: &Value) -> Result<(), String> {
    let Some(old) = request.old.filter(|_| request.operation == Update) else {
        return Err(format!("unexpected operation {:?}", request.operation.wire()));
    };
    if old["spec"]["nodeName"] != *node {
        return Err(format!("node {node:?} can only update pod status for pods with spec.nodeName set to itself"));
    }
    if !same(&pod["metadata"]["labels"], &old["metadata"]["labels"]) {
        return Err(format!("node {node:?} cannot update labels through pod status"));
    }
    let differs = |field: &str| !same(&pod["status"][field], &old["status"][field]);
    if differs("resourceClaimStatuses") {
        return Err(format!("node {node:?} cannot update resource claim statues"));
    }
    if differs("extendedResourceClaimStatus") {
        return Err(format!("node {node:?} cannot update extended resource claim status"));
    }
    Ok(())
}

fn eviction(request: &AdmissionRequest<'_>, node: &str) -> Result<(), Refusal> {
    let key = Key {
        resource: Resource::core("pods"),
        namespace: request.namespace.to_owned(),
        name: request.name.to_owned(),
    };
    let pod = request.view.get(&key)?.ok_or(Refusal::Missing(key))?;
    match pod["spec"]["nodeName"] == *node {
        true => Ok(()),
        false => Err(format!("node {node} can only evict pods with spec.nodeName set to itself").into()),
    }
}

fn own_node(request: &AdmissionRequest<'_>, node: &str, object: &Value) -> Result<(), String> {
    let name = name(request, object);
    if name != node {
        return Err(format!("node {node:?} is not allowed to modify node {name:?}"));
    }
    let (spec, metadata) = (&object["spec"], &object["metadata"]);
    match (request.operation, request.old) {
        (Create, _) => {
            if !is_empty(&spec["configSource"]) {
                return Err(format!("node {node:?} is not allowed to create pods with a non-nil configSource"));
            }
            let forbidden = forbidden(&metadata["labels"], &Value::Null);
            match forbidden.is_empty() {
                true => Ok(()),
                false => Err(format!("node {node:?} is not allowed to set the following labels: {forbidden}")),
            }
        }
        (Update, Some(old)) => {
            if !is_empty(&spec["configSource"]) && !same(&spec["configSource"], &old["spec"]["configSource"]) {
                return Err(format!(
                    "node {node:?} is not allowed to update configSource to a new non-nil configSource"
                ));
            }
            if !same(&spec["taints"], &old["spec"]["taints"]) {
                return Err(format!("node {node:?} is not allowed to modify taints"));
            }
            if !same(&metadata["ownerReferences"], &old["metadata"]["ownerReferences"]) {
                return Err(format!("node {node:?} is not allowed to modify ownerReferences"));
            }
            let forbidden = forbidden(&metadata["labels"], &old["metadata"]["labels"]);
            match forbidden.is_empty() {
                true => Ok(()),
                false => Err(format!("is not allowed to modify labels: {forbidden}")),
            }
        }
        (Update | Delete, _) => Ok(()),
    }
}

/// The changed labels that a node may not set, as one text.
fn forbidden(labels: &Value, before: &Value) -> String {
    let of = |labels: &Value| -> BTreeMap<String, String> {
        let holder = serde_json::json!({ "labels": labels });
        texts(&holder, "labels").map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    let (labels, before) = (of(labels), of(before));
    let changed: BTreeSet<&String> =
        labels.keys().chain(before.keys()).filter(|key| labels.get(*key) != before.get(*key)).collect();
    let forbidden: Vec<&str> = changed.into_iter().map(String::as_str).filter(|key| is_forbidden(key)).collect();
    forbidden.join(", ")
}

fn is_forbidden(label: &str) -> bool {
    let Some((prefix, _)) = label.split_once('/') else { return false };
    let within = |domain: &str| prefix.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let own = LABELS.contains(&label) || LABEL_PREFIXES.iter().any(|domain| within(domain));
    within("node-restriction.kubernetes.io") || (within("kubernetes.io") || within("k8s.io")) && !own
}

/// A node tells how large the volume of a claim has become, and nothing else.
fn claim_status(request: &AdmissionRequest<'_>, node: &str, claim: &Value) -> Result<(), String> {
    let Some(old) = request.old.filter(|_| request.operation == Update) else {
        return Err(format!("unexpected operation {:?}", request.operation.wire()));
    };
    let rest = |of: &Value| {
        let mut of = of.clone();
        for (part, fields) in [
            ("metadata", ["resourceVersion", "managedFields", "", ""]),
            ("status", ["capacity", "conditions", "allocatedResources", "allocatedResourceStatuses"]),
        ] {
            let part = of[part].as_object_mut();
            part.into_iter().for_each(|part| part.retain(|field, _| !fields.contains(&field.as_str())));
        }
        of
    };
    let (new, old) = (rest(claim), rest(old));
    let differing: Vec<&str> =
        ["metadata", "spec", "status"].into_iter().filter(|part| !same(&new[part], &old[part])).collect();
    match differing.as_slice() {
        [] => Ok(()),
        parts => Err(format!(
            "node {node:?} is not allowed to update fields other than status.quantity and status.conditions: {}",
            parts.join(", ")
        )),
    }
}

/// A node takes its finalizers off a volume that lies on this node alone. In Kubernetes no node changes a volume. A
/// node of coracle does the work of the provisioner of local volumes.
fn volume(request: &AdmissionRequest<'_>, node: &str, volume: &Value) -> Result<(), String> {
    let Some(old) = request.old.filter(|_| request.operation == Update) else {
        return Err(format!("node {node:?} can only update volumes"));
    };
    if !lies_on(old, node) {
        return Err(format!("node {node:?} can only update volumes whose node affinity is for itself alone"));
    }
    let finalizers = |of: &Value| list(&of["metadata"], "finalizers").to_vec();
    let had = finalizers(old);
    let rest = |of: &Value| {
        let mut of = of.clone();
        let metadata = of["metadata"].as_object_mut();
        metadata.into_iter().for_each(|metadata| {
            metadata.retain(|field, _| !matches!(field.as_str(), "finalizers" | "managedFields" | "resourceVersion"));
        });
        of
    };
    match finalizers(volume).iter().all(|left| had.contains(left)) && same(&rest(volume), &rest(old)) {
        true => Ok(()),
        false => Err(format!("node {node:?} can only remove finalizers of volumes")),
    }
}

/// By the label that the provisioner of local volumes writes.
fn lies_on(volume: &Value, node: &str) -> bool {
    let terms = list(&volume["spec"]["nodeAffinity"]["required"], "nodeSelectorTerms");
    let names_node = |term: &Value| {
        list(term, "matchExpressions").iter().any(|rule| {
            let values = list(rule, "values");
            rule["key"] == "kubernetes.io/hostname"
                && rule["operator"] == "In"
                && values.len() == 1
                && values[0] == *node
        })
    };
    !terms.is_empty() && terms.iter().all(names_node)
}

fn lease(request: &AdmissionRequest<'_>, node: &str, lease: &Value) -> Result<(), String> {
    if request.namespace != LEASES {
        return Err(format!("can only access leases in the {LEASES:?} system namespace"));
    }
    match name(request, lease) == node {
        true => Ok(()),
        false => Err("can only access node lease with the same name as the requesting node".to_owned()),
    }
}

fn slice(request: &AdmissionRequest<'_>, node: &str, slice: &Value) -> Result<(), String> {
    let own = |slice: &Value| slice["spec"]["nodeName"] == *node;
    let only = |word: &str| Err(format!("can only {word} ResourceSlice with the same NodeName as the requesting node"));
    match request.operation {
        Create if !own(slice) => only("create"),
        Delete if !request.old.is_some_and(own) => only("delete"),
        Create | Update | Delete => Ok(()),
    }
}

fn signing(node: &str, request: &Value) -> Result<(), String> {
    if !KUBELET_SIGNERS.contains(&text(&request["spec"], "signerName")) {
        return Ok(());
    }
    let expected = format!("system:node:{node}");
    match common_name(request) {
        Err(why) => Err(format!("unable to parse csr: {why}")),
        Ok(name) if name == expected => Ok(()),
        Ok(_) => Err(format!("can only create a node CSR with CN={expected}")),
    }
}

/// Whether both say the same: nothing, null and an empty list are one.
fn same(one: &Value, other: &Value) -> bool {
    one == other || is_empty(one) && is_empty(other)
}

#[cfg(test)]
mod tests;

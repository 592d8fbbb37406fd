//! Mirrors: pods of the API that show what a file asks for. PURE.

use crate::desired::{Wanted, ended_for_good};
use crate::hash::manifest_hash;
use crate::members::{Member, MemberKind};
use crate::naming::CONFIG_SOURCE;
use coracle_api::annotations::MIRROR;
use serde_json::{Value, json};

const HASH: &str = "kubernetes.io/config.hash";

/// A pod of the API that shows what a file asks for: bound to this node, and never started from there.
pub(super) fn mirror(document: &Value, name: &str, node_name: &str) -> Value {
    let mut pod = document.clone();
    let hash = manifest_hash(document);
    let mut annotations = pod["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    for (key, value) in [(MIRROR, hash.as_str()), (HASH, hash.as_str()), (CONFIG_SOURCE, "file")] {
        annotations.insert(key.to_owned(), value.into());
    }
    pod["metadata"] = json!({
        "name": name, "namespace": pod["metadata"]["namespace"], "labels": pod["metadata"]["labels"],
        "annotations": annotations,
    });
    pod["spec"]["nodeName"] = node_name.into();
    pod
}

/// Whether a container that has ended for good runs again, or is about to.
pub(super) fn is_contradicted(wanted: &Wanted, shows: &Value, status: &Value) -> bool {
    let policy = &wanted.pod.spec.restart_policy;
    // Where all may start anew, no end is one for good.
    let ended =
        |status: &Value, member: &Member| !wanted.restarts_all() && ended_for_good(status, policy, member).is_some();
    let mut main = wanted.members().filter(|member| member.kind == MemberKind::Main);
    main.any(|member| ended(shows, &member) && !ended(status, &member))
}

//! The checks of level `restricted`, beside those of `baseline`. PURE.

use super::baseline::{added_capabilities, bad_seccomp};
use super::view::{PodView, Violation, containers, plural, quoted, setters, violation};
use coracle_api::strategy::doc::{list, text};
use serde_json::Value;
use std::collections::BTreeSet;

const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
const OTHER_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

pub(super) fn privilege_escalation(pod: PodView<'_>) -> Option<Violation> {
    let names = pod.bad(|container| container["securityContext"]["allowPrivilegeEscalation"] != false);
    if names.is_empty() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names));
    violation("allowPrivilegeEscalation != false", detail)
}

pub(super) fn privilege_escalation_25(pod: PodView<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { privilege_escalation(pod) }
}

pub(super) fn capabilities(pod: PodView<'_>) -> Option<Violation> {
    let keeping = pod.bad(|container| {
        !list(&container["securityContext"]["capabilities"], "drop").iter().any(|capability| capability == "ALL")
    });
    let (adding, added) = added_capabilities(pod, &["NET_BIND_SERVICE"]);
    let mut said = Vec::new();
    if !keeping.is_empty() {
        said.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    }
    if !adding.is_empty() {
        let words = "in securityContext.capabilities.add";
        said.push(format!("{} must not include {} {words}", containers(&adding), quoted(added)));
    }
    if said.is_empty() { None } else { violation("unrestricted capabilities", said.join("; ")) }
}

pub(super) fn capabilities_25(pod: PodView<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { capabilities(pod) }
}

pub(super) fn volume_types(pod: PodView<'_>) -> Option<Violation> {
    let has = |volume: &Value, kinds: &[&'static str]| kinds.iter().copied().find(|kind| volume[kind].is_object());
    let bad: Vec<&Value> = list(pod.spec, "volumes").iter().filter(|volume| has(volume, &VOLUMES).is_none()).collect();
    if bad.is_empty() {
        return None;
    }
    let kinds: BTreeSet<&str> = bad.iter().map(|volume| has(volume, &OTHER_VOLUMES).unwrap_or("unknown")).collect();
    let (volumes, uses) = (plural(bad.len(), "volume", "volumes"), plural(bad.len(), "uses", "use"));
    let names = quoted(bad.iter().map(|volume| text(volume, "name")));
    let words = plural(kinds.len(), "restricted volume type", "restricted volume types");
    violation("restricted volume types", format!("{volumes} {names} {uses} {words} {}", quoted(kinds)))
}

pub(super) fn run_as_non_root(pod: PodView<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let said = |holder: &Value| holder["securityContext"]["runAsNonRoot"].as_bool();
    let names = pod.bad(|container| said(container) == Some(false));
    if let Some(setters) = setters(said(pod.spec) == Some(false), &names) {
        return violation(REASON, format!("{setters} must not set securityContext.runAsNonRoot=false"));
    }
    let names = pod.bad(|container| said(container).or(said(pod.spec)).is_none());
    if names.is_empty() {
        return None;
    }
    violation(REASON, format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&names)))
}

pub(super) fn run_as_non_root_35(pod: PodView<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { run_as_non_root(pod) }
}

pub(super) fn run_as_user(pod: PodView<'_>) -> Option<Violation> {
    let is_root = |holder: &Value| holder["securityContext"]["runAsUser"] == 0;
    let names = pod.bad(|container| is_root(container));
    let setters = setters(is_root(pod.spec), &names)?;
    violation("runAsUser=0", format!("{setters} must not set runAsUser=0"))
}

pub(super) fn run_as_user_35(pod: PodView<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { run_as_user(pod) }
}

pub(super) fn seccomp(pod: PodView<'_>) -> Option<Violation> {
    const REASON: &str = "seccompProfile";
    let (own, names, values) = bad_seccomp(pod);
    if let Some(setters) = setters(own, &names) {
        let values = quoted(values);
        return violation(REASON, format!("{setters} must not set securityContext.seccompProfile.type to {values}"));
    }
    let says = |holder: &Value| holder["securityContext"]["seccompProfile"].is_object();
    let names = pod.bad(|container| !says(container) && !says(pod.spec));
    if names.is_empty() {
        return None;
    }
    let words = "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"";
    violation(REASON, format!("pod or {} {words}", containers(&names)))
}

pub(super) fn seccomp_25(pod: PodView<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { seccomp(pod) }
}

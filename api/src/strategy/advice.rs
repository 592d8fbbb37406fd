//! What whoever writes an object is told though it is taken: fields that do not do what they seem to. PURE.

use super::doc::{has, is_empty, list, number, text, texts};
use super::qos::quantity;
use coracle_schema::Path;
use serde_json::Value;
use std::collections::HashSet;

/// Sentences about an object as it is stored.
pub type Advice = fn(&Value) -> Vec<String>;

/// Labels of nodes by their first names.
const LABELS: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    ("failure-domain.beta.kubernetes.io/region", "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
];
/// What pods said in annotations before there were fields; a slash at the end: all that begin so.
const ANNOTATIONS: [(&str, &str); 5] = [
    ("container.apparmor.security.beta.kubernetes.io/", "deprecated since v1.30; use the \"appArmorProfile\" field instead"),
    ("container.seccomp.security.alpha.kubernetes.io/", "non-functional in v1.27+; use the \"seccompProfile\" field instead"),
    ("scheduler.alpha.kubernetes.io/critical-pod", "non-functional in v1.16+; use the \"priorityClassName\" field instead"),
    ("seccomp.security.alpha.kubernetes.io/pod", "non-functional in v1.27+; use the \"seccompProfile\" field instead"),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];
/// Kinds of volumes that are gone, or nearly.
const VOLUMES: [(&str, &str); 7] = [
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
];
/// Sentences of one answer; who needs more has other worries.
const SENTENCES_MAX: usize = 50;

pub fn service(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let mut said = Vec::new();
    if !is_empty(&spec["externalIPs"]) {
        said.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if !is_empty(&spec["externalName"]) && text(spec, "type") != "ExternalName" {
        said.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text(spec, "trafficDistribution") == "PreferClose" {
        said.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    said
}

pub fn ingress(ingress: &Value) -> Vec<String> {
    let annotation = "kubernetes.io/ingress.class";
    let words = format!("annotation {annotation:?} is deprecated, please use 'spec.ingressClassName' instead");
    let old = has(&ingress["metadata"]["annotations"], annotation) && !has(&ingress["spec"], "ingressClassName");
    old.then_some(words).into_iter().collect()
}

pub fn claim(claim: &Value) -> Vec<String> {
    let annotation = "volume.beta.kubernetes.io/storage-class";
    let words = format!("metadata.annotations[{annotation}]: deprecated since v1.8; use \"storageClassName\" attribute instead");
    has(&claim["metadata"]["annotations"], annotation).then_some(words).into_iter().collect()
}

pub fn pod(pod: &Value) -> Vec<String> {
    let mut said = Vec::new();
    if text(&pod["metadata"], "name").contains('.') {
        let words = "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended";
        said.push(format!("metadata.name: {words}: [must not contain dots]"));
    }
    said.extend(pod_like(pod, &Path::root()));
    said
}

/// Of whatever holds a template at `spec.template`.
pub fn workload(workload: &Value) -> Vec<String> {
    pod_like(&workload["spec"]["template"], &Path::new("spec.template"))
}

pub fn cron_job(cron_job: &Value) -> Vec<String> {
    pod_like(&cron_job["spec"]["jobTemplate"]["spec"]["template"], &Path::new("spec.jobTemplate.spec.template"))
}

/// Of a pod or a template of pods.
fn pod_like(pod: &Value, path: &Path) -> Vec<String> {
    let (spec, of_meta, path) = (&pod["spec"], path.field("metadata"), path.field("spec"));
    let mut said = Vec::new();
    for (key, words) in LABELS.iter().filter(|(key, _)| has(&spec["nodeSelector"], key)) {
        said.push(format!("{}: {words}", path.field("nodeSelector").key(key)));
    }
    for (key, _) in texts(&pod["metadata"], "annotations").take(SENTENCES_MAX) {
        let words = ANNOTATIONS.iter().find(|(known, _)| if known.ends_with('/') { key.starts_with(known) } else { key == *known });
        said.extend(words.map(|(_, words)| format!("{}: {words}", of_meta.field("annotations").key(key))));
    }
    for (at, volume) in list(spec, "volumes").iter().enumerate().take(SENTENCES_MAX) {
        let old = VOLUMES.iter().find(|(source, _)| has(volume, source));
        said.extend(old.map(|(source, words)| format!("{}: {words}", path.field("volumes").index(at).field(source))));
    }
    for (at, secret) in list(spec, "imagePullSecrets").iter().enumerate().take(SENTENCES_MAX) {
        if text(secret, "name").is_empty() {
            said.push(format!("{}: invalid empty name \"\"", path.field("imagePullSecrets").index(at).field("name")));
        }
    }
    if number(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let words = "must be >= 0; negative values are invalid and will be treated as 1";
        said.push(format!("{}: {words}", path.field("terminationGracePeriodSeconds")));
    }
    for field in ["initContainers", "containers"] {
        for (at, container) in list(spec, field).iter().enumerate() {
            let path = path.field(field).index(at);
            ports(container, &path, &mut said);
            variables(container, &path, &mut said);
            amounts(container, &path, &mut said);
            if said.len() >= SENTENCES_MAX {
                return said;
            }
        }
    }
    said
}

/// A variable twice: the later one holds.
fn variables(container: &Value, path: &Path, said: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for (at, variable) in list(container, "env").iter().enumerate() {
        let name = text(variable, "name");
        // One that is made of the one before keeps it.
        let extends = text(variable, "value").contains(&format!("$({name})"));
        if !seen.insert(name) && !extends && said.len() < SENTENCES_MAX {
            let words = "hides previous definition of";
            said.push(format!("{}: {words} {name:?}, which may be dropped when using apply", path.field("env").index(at)));
        }
    }
}

/// The same port twice.
fn ports(container: &Value, path: &Path, said: &mut Vec<String>) {
    let ports = list(container, "ports");
    let same = |a: &Value, b: &Value| ["containerPort", "protocol", "hostPort", "hostIP"].iter().all(|field| a[field] == b[field]);
    for (at, port) in ports.iter().enumerate().take(SENTENCES_MAX) {
        if let Some(first) = ports[..at].iter().position(|other| same(other, port)) {
            let path = path.field("ports");
            said.push(format!("{}: duplicate port definition with {}", path.index(at), path.index(first)));
        }
    }
}

/// Parts of a byte.
fn amounts(container: &Value, path: &Path, said: &mut Vec<String>) {
    for field in ["limits", "requests"] {
        for resource in ["memory", "ephemeral-storage"] {
            let amount = &container["resources"][field][resource];
            if !amount.is_null() && !quantity(amount).is_whole() {
                let path = path.field("resources").field(field).key(resource);
                let amount = amount.as_str().unwrap_or_default();
                said.push(format!("{path}: fractional byte value {amount:?} is invalid, must be an integer"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_said() {
        fn check(advice: Advice, object: Value, expected: &[&str]) {
            assert_eq!(advice(&object), expected, "{object}");
        }
        check(service, json!({"spec": {"type": "ClusterIP", "ports": []}}), &[]);
        let ignored = "spec.externalName is ignored when spec.type is not \"ExternalName\"";
        check(service, json!({"spec": {"type": "ClusterIP", "externalName": "a.b"}}), &[ignored]);
        check(service, json!({"spec": {"type": "ExternalName", "externalName": "a.b"}}), &[]);
        let port = json!({"containerPort": 80, "protocol": "TCP"});
        let container = json!({"ports": [port, port], "resources": {"limits": {"memory": "1500m", "cpu": "1500m"}}});
        let twice = "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]";
        let part = "spec.containers[0].resources.limits[memory]: fractional byte value \"1500m\" is invalid, must be an integer";
        check(pod, json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}}), &[twice, part]);
        let udp = json!({"containerPort": 80, "protocol": "UDP"});
        check(pod, json!({"metadata": {"name": "p"}, "spec": {"containers": [{"ports": [port, udp]}]}}), &[]);
        let old = json!({"metadata": {"name": "p", "annotations": {"container.seccomp.security.alpha.kubernetes.io/c": "unconfined"}}, "spec": {
            "nodeSelector": {"beta.kubernetes.io/os": "linux"}, "volumes": [{"name": "v", "rbd": {}}], "terminationGracePeriodSeconds": -1,
            "containers": [{"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A"}]}]}});
        let expected = [
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use the \"seccompProfile\" field \
             instead",
            "spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+",
            "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
            "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply",
        ];
        check(pod, old.clone(), &expected);
        let template = workload(&json!({"spec": {"template": old}}));
        assert!(template[0].starts_with("spec.template.spec.nodeSelector["), "{template:?}");
        let dots = pod(&json!({"metadata": {"name": "a.b"}}));
        assert!(dots.len() == 1 && dots[0].starts_with("metadata.name: this is used"));
    }
}

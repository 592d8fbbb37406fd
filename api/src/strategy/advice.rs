//! What whoever writes an object is told though it is taken: fields that do not do what they seem to. PURE.

use super::doc::{has, is_empty, list, text};
use super::qos::quantity;
use coracle_schema::Path;
use serde_json::Value;

/// Sentences about an object as it is stored.
pub type Advice = fn(&Value) -> Vec<String>;

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
    said.extend(pod_spec(&pod["spec"], &Path::new("spec")));
    said
}

/// Of whatever holds a template at `spec.template`.
pub fn workload(workload: &Value) -> Vec<String> {
    pod_spec(&workload["spec"]["template"]["spec"], &Path::new("spec.template.spec"))
}

pub fn cron_job(cron_job: &Value) -> Vec<String> {
    let spec = &cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    pod_spec(spec, &Path::new("spec.jobTemplate.spec.template.spec"))
}

fn pod_spec(spec: &Value, path: &Path) -> Vec<String> {
    let mut said = Vec::new();
    for field in ["initContainers", "containers"] {
        for (at, container) in list(spec, field).iter().enumerate() {
            let path = path.field(field).index(at);
            ports(container, &path, &mut said);
            amounts(container, &path, &mut said);
            if said.len() >= SENTENCES_MAX {
                return said;
            }
        }
    }
    said
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
        let dots = pod(&json!({"metadata": {"name": "a.b"}}));
        assert!(dots.len() == 1 && dots[0].starts_with("metadata.name: this is used"));
    }
}

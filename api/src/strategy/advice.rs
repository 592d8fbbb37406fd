//! Warnings for documents that are accepted: fields with an effect that a user may not expect. PURE.

use super::doc::{has, is_empty, list, number, text, texts};
use super::network::unusual;
pub use super::pem::advice as secret;
use super::qos::quantity;
use super::{names, port_advice, volume};
use crate::annotations::STORAGE_CLASS;
use crate::fields;
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
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
];
/// Annotations of pods that fields have replaced. A slash at the end: all annotations with this prefix.
const ANNOTATIONS: [(&str, &str); 5] = [
    (
        "container.apparmor.security.beta.kubernetes.io/",
        "deprecated since v1.30; use the \"appArmorProfile\" field instead",
    ),
    (
        "container.seccomp.security.alpha.kubernetes.io/",
        "non-functional in v1.27+; use the \"seccompProfile\" field instead",
    ),
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("seccomp.security.alpha.kubernetes.io/pod", "non-functional in v1.27+; use the \"seccompProfile\" field instead"),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];
/// Kinds of volumes that no longer work or are deprecated.
const VOLUMES: [(&str, &str); 7] = [
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
];
/// The maximum number of warnings in one answer; a longer list would help no reader.
pub(super) const SENTENCES_MAX: usize = 50;

fn unusual_of(of: &Value, field: &str, path: &Path) -> Vec<String> {
    let path = path.field(field);
    list(of, field)
        .iter()
        .enumerate()
        .filter_map(|(at, said)| unusual(said, &path.index(at)))
        .take(SENTENCES_MAX)
        .collect()
}

pub fn network_policy(policy: &Value) -> Vec<String> {
    let mut said = Vec::new();
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (n, rule) in list(&policy["spec"], direction).iter().enumerate() {
            for (m, peer) in list(rule, peers).iter().enumerate() {
                let path = Path::new("spec").field(direction).index(n).field(peers).index(m).field("ipBlock");
                said.extend(unusual(&peer["ipBlock"]["cidr"], &path.field("cidr")));
                said.extend(unusual_of(&peer["ipBlock"], "except", &path));
            }
        }
    }
    said.truncate(SENTENCES_MAX);
    said
}

pub fn service(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let mut said = Vec::new();
    for field in ["externalIPs", "loadBalancerSourceRanges"] {
        said.extend(unusual_of(spec, field, &Path::new("spec")));
    }
    if !is_empty(&spec["externalIPs"]) {
        said.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if !is_empty(&spec["externalName"]) && text(spec, "type") != "ExternalName" {
        said.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text(spec, "clusterIP") == "None" {
        let ignored = [
            ("loadBalancerIP", !is_empty(&spec["loadBalancerIP"])),
            ("externalIPs", !is_empty(&spec["externalIPs"])),
            ("SessionAffinity", !matches!(text(spec, "sessionAffinity"), "" | "None")),
        ];
        let ignored = ignored.iter().filter(|(_, said)| *said);
        said.extend(ignored.map(|(field, _)| format!("spec.{field} is ignored for headless services")));
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
    let words = format!(
        "metadata.annotations[{STORAGE_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
    );
    let mut said: Vec<String> =
        has(&claim["metadata"]["annotations"], STORAGE_CLASS).then_some(words).into_iter().collect();
    let path = Path::new("spec.resources");
    for field in ["requests", "limits"] {
        fraction(&claim["spec"]["resources"][field], "storage", &path.field(field), &mut said);
    }
    said
}

/// A volume's kind may be gone, and so may how it is taken back.
pub fn volume(volume: &Value) -> Vec<String> {
    let (spec, path) = (&volume["spec"], Path::new("spec"));
    let mut said = Vec::new();
    for (key, words) in [
        (STORAGE_CLASS, "deprecated since v1.8; use \"storageClassName\" attribute instead"),
        ("volume.beta.kubernetes.io/mount-options", "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ] {
        if has(&volume["metadata"]["annotations"], key) {
            said.push(format!("metadata.annotations[{key}]: {words}"));
        }
    }
    if text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        let words = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic \
                     provisioning.";
        said.push(format!("spec.persistentVolumeReclaimPolicy: {words}"));
    }
    let gone = VOLUMES.iter().filter(|(source, _)| has(spec, source));
    said.extend(gone.map(|(source, words)| format!("{}: {words}", path.field(source))));
    node_terms(&spec["nodeAffinity"]["required"], &path.field("nodeAffinity").field("required"), &mut said);
    fraction(&spec["capacity"], "storage", &path.field("capacity"), &mut said);
    said
}

pub fn storage_class(class: &Value) -> Vec<String> {
    let mut said = Vec::new();
    for (at, term) in list(class, "allowedTopologies").iter().enumerate() {
        for (n, label) in list(term, "matchLabelExpressions").iter().enumerate() {
            if said.len() >= SENTENCES_MAX {
                return said;
            }
            let path = Path::new("allowedTopologies").index(at).field("matchLabelExpressions").index(n);
            said.extend(old_label(text(label, "key")).map(|words| format!("{}: {words}", path.field("key"))));
        }
    }
    said
}

pub fn runtime_class(class: &Value) -> Vec<String> {
    let path = Path::new("scheduling").field("nodeSelector");
    let old = LABELS.iter().filter(|(key, _)| has(&class["scheduling"]["nodeSelector"], key));
    old.map(|(key, words)| format!("{}: {words}", path.key(key))).collect()
}

pub fn account(account: &Value) -> Vec<String> {
    let annotation = "kubernetes.io/enforce-mountable-secrets";
    let words = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
    has(&account["metadata"]["annotations"], annotation)
        .then(|| format!("metadata.annotations[{annotation}]: {words}"))
        .into_iter()
        .collect()
}

pub fn node(node: &Value) -> Vec<String> {
    let gone = [
        ("configSource", "the feature is removed in 1.24, and this field is ignored"),
        ("externalID", "this field is deprecated, and is unused by Kubernetes"),
    ];
    let said = gone.iter().filter(|(field, _)| !is_empty(&node["spec"][field]));
    said.map(|(field, words)| format!("spec.{field}: {words}")).collect()
}

pub fn slice(slice: &Value) -> Vec<String> {
    let old = text(slice, "addressType") == "FQDN";
    let old = old.then(|| "spec.addressType: FQDN endpoints are deprecated".to_owned());
    let endpoints = list(slice, "endpoints").iter().enumerate();
    let spelled =
        endpoints.flat_map(|(at, endpoint)| unusual_of(endpoint, "addresses", &Path::new("endpoints").index(at)));
    old.into_iter().chain(spelled).take(SENTENCES_MAX).collect()
}

pub fn pod(pod: &Value) -> Vec<String> {
    let mut said = Vec::new();
    said.extend(name(pod, "the Pod's hostname"));
    said.extend(pod_like(pod, &Path::root()));
    said
}

/// The warning for a name that also becomes part of the names in `of`, where only a DNS label is safe.
fn name(object: &Value, of: &str) -> Option<String> {
    let faults = names::label(text(&object["metadata"], "name"));
    let words = format!("this is used in {of}, which can result in surprising behavior; a DNS label is recommended");
    (!faults.is_empty()).then(|| format!("metadata.name: {words}: [{}]", faults.join(" ")))
}

const OF_PODS: &str = "Pod names and hostnames";

/// Warnings for a kind with a template at `spec.template` that names its pods after itself.
pub fn workload(workload: &Value) -> Vec<String> {
    name(workload, OF_PODS).into_iter().chain(pods_of(workload)).collect()
}

/// Warnings for a kind with a template at `spec.template`.
pub fn pods_of(workload: &Value) -> Vec<String> {
    pod_like(&workload["spec"]["template"], &Path::new("spec.template"))
}

pub fn stateful_set(set: &Value) -> Vec<String> {
    let mut said = workload(set);
    if number(&set["spec"], "revisionHistoryLimit").is_some_and(|limit| limit < 0) {
        let words = "a negative value retains all historical revisions; a value >= 0 is recommended";
        said.push(format!("spec.revisionHistoryLimit: {words}"));
    }
    said
}

pub fn pod_template(template: &Value) -> Vec<String> {
    pod_like(&template["template"], &Path::new("template"))
}

pub fn cron_job(cron_job: &Value) -> Vec<String> {
    let template = &cron_job["spec"]["jobTemplate"]["spec"]["template"];
    let of_pods = pod_like(template, &Path::new("spec.jobTemplate.spec.template"));
    name(cron_job, OF_PODS).into_iter().chain(of_pods).collect()
}

fn old_label(key: &str) -> Option<String> {
    LABELS.iter().find(|(known, _)| *known == key).map(|(key, words)| format!("{key} is {words}"))
}

/// Terms of a node selector that name labels by their first names.
fn node_terms(selector: &Value, path: &Path, said: &mut Vec<String>) {
    for (at, term) in list(selector, "nodeSelectorTerms").iter().enumerate() {
        node_term(term, &path.field("nodeSelectorTerms").index(at), said);
    }
}

fn node_term(term: &Value, path: &Path, said: &mut Vec<String>) {
    for (at, rule) in list(term, "matchExpressions").iter().enumerate() {
        if said.len() >= SENTENCES_MAX {
            return;
        }
        let path = path.field("matchExpressions").index(at).field("key");
        said.extend(old_label(text(rule, "key")).map(|words| format!("{path}: {words}")));
    }
}

/// Where a pod wants to run: labels by their first names, and selectors that select nothing.
fn places(spec: &Value, path: &Path, said: &mut Vec<String>) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    const NOTHING: &str = "a null labelSelector results in matching no pod";
    let (affinity, at) = (&spec["affinity"], path.field("affinity"));
    let (nodes, of_nodes) = (&affinity["nodeAffinity"], at.field("nodeAffinity"));
    node_terms(&nodes[REQUIRED], &of_nodes.field(REQUIRED), said);
    for (n, wish) in list(nodes, PREFERRED).iter().enumerate().take(SENTENCES_MAX) {
        node_term(&wish["preference"], &of_nodes.field(PREFERRED).index(n).field("preference"), said);
    }
    for (n, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate().take(SENTENCES_MAX) {
        let path = path.field("topologySpreadConstraints").index(n);
        said.extend(
            old_label(text(constraint, "topologyKey")).map(|words| format!("{}: {words}", path.field("topologyKey"))),
        );
        if !has(constraint, "labelSelector") {
            said.push(format!("{}: {NOTHING}", path.field("labelSelector")));
        }
    }
    for which in ["podAffinity", "podAntiAffinity"] {
        let (pods, at) = (&affinity[which], at.field(which));
        let required = list(pods, REQUIRED).iter().enumerate().map(|(n, term)| (term, at.field(REQUIRED).index(n)));
        let wished = list(pods, PREFERRED).iter().enumerate();
        let wished =
            wished.map(|(n, wish)| (&wish["podAffinityTerm"], at.field(PREFERRED).index(n).field("podAffinityTerm")));
        let empty = required.chain(wished).filter(|(term, _)| !has(term, "labelSelector")).take(SENTENCES_MAX);
        said.extend(empty.map(|(_, path)| format!("{}: {NOTHING}", path.field("labelSelector"))));
    }
}

/// Warns of entries that are in a list twice: the later one holds, or either.
fn doubled(of: &Value, field: &str, key: &str, words: &str, path: &Path, said: &mut Vec<String>) {
    let mut seen = HashSet::new();
    let all = list(of, field).iter().map(|one| text(one, key)).enumerate();
    for (at, one) in all.filter(|(_, one)| !one.is_empty() && !seen.insert(*one)).take(SENTENCES_MAX) {
        said.push(format!("{}: duplicate {words} {one:?}", path.field(field).index(at).field(key)));
    }
}

/// Warnings for a pod or a template of pods.
fn pod_like(pod: &Value, path: &Path) -> Vec<String> {
    let (spec, of_meta, path) = (&pod["spec"], path.field("metadata"), path.field("spec"));
    let mut said = fields::warnings(spec, path.as_str());
    for (key, words) in LABELS.iter().filter(|(key, _)| has(&spec["nodeSelector"], key)) {
        said.push(format!("{}: {words}", path.field("nodeSelector").key(key)));
    }
    for (key, _) in texts(&pod["metadata"], "annotations").take(SENTENCES_MAX) {
        let words = ANNOTATIONS
            .iter()
            .find(|(known, _)| if known.ends_with('/') { key.starts_with(known) } else { key == *known });
        said.extend(words.map(|(_, words)| format!("{}: {words}", of_meta.field("annotations").key(key))));
    }
    for (at, volume) in list(spec, "volumes").iter().enumerate().take(SENTENCES_MAX) {
        let old = VOLUMES.iter().find(|(source, _)| has(volume, source));
        said.extend(old.map(|(source, words)| format!("{}: {words}", path.field("volumes").index(at).field(source))));
        said.extend(volume::unfilled(volume));
    }
    for (at, secret) in list(spec, "imagePullSecrets").iter().enumerate().take(SENTENCES_MAX) {
        if text(secret, "name").is_empty() {
            said.push(format!("{}: invalid empty name \"\"", path.field("imagePullSecrets").index(at).field("name")));
        }
    }
    doubled(spec, "hostAliases", "ip", "ip", &path, &mut said);
    doubled(spec, "imagePullSecrets", "name", "name", &path, &mut said);
    places(spec, &path, &mut said);
    if number(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let words = "must be >= 0; negative values are invalid and will be treated as 1";
        said.push(format!("{}: {words}", path.field("terminationGracePeriodSeconds")));
    }
    port_advice::ports(spec, &path, &mut said);
    for resource in BYTES {
        fraction(&spec["overhead"], resource, &path.field("overhead"), &mut said);
    }
    for field in ["initContainers", "containers"] {
        for (at, container) in list(spec, field).iter().enumerate() {
            let path = path.field(field).index(at);
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
        // A value that refers to the earlier definition keeps the earlier definition in use.
        let extends = text(variable, "value").contains(&format!("$({name})"));
        if !seen.insert(name) && !extends && said.len() < SENTENCES_MAX {
            let words = "hides previous definition of";
            said.push(format!(
                "{}: {words} {name:?}, which may be dropped when using apply",
                path.field("env").index(at)
            ));
        }
    }
}

const BYTES: [&str; 2] = ["memory", "ephemeral-storage"];

/// Parts of a byte.
fn amounts(container: &Value, path: &Path, said: &mut Vec<String>) {
    for field in ["limits", "requests"] {
        for resource in BYTES {
            fraction(&container["resources"][field], resource, &path.field("resources").field(field), said);
        }
    }
}

fn fraction(amounts: &Value, resource: &str, path: &Path, said: &mut Vec<String>) {
    let amount = &amounts[resource];
    if !amount.is_null() && !quantity(amount).is_whole() {
        let amount = amount.as_str().unwrap_or_default();
        said.push(format!("{}: fractional byte value {amount:?} is invalid, must be an integer", path.key(resource)));
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
        let part = "spec.containers[0].resources.limits[memory]: fractional byte value \"1500m\" is invalid, must be \
                    an integer";
        check(pod, json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}}), &[twice, part]);
        let udp = json!({"containerPort": 80, "protocol": "UDP"});
        check(pod, json!({"metadata": {"name": "p"}, "spec": {"containers": [{"ports": [port, udp]}]}}), &[]);
        let old = json!({"metadata": {"name": "p",
            "annotations": {"container.seccomp.security.alpha.kubernetes.io/c": "unconfined"}}, "spec": {
            "nodeSelector": {"beta.kubernetes.io/os": "linux"}, "volumes": [{"name": "v", "rbd": {}}],
            "terminationGracePeriodSeconds": -1,
            "containers": [{"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A"}]}]}});
        let expected = [
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use the \
             \"seccompProfile\" field instead",
            "spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+",
            "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
            "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply",
        ];
        check(pod, old.clone(), &expected);
        let template = workload(&json!({"metadata": {"name": "w"}, "spec": {"template": old}}));
        assert!(template[0].starts_with("spec.template.spec.nodeSelector["), "{template:?}");
        let dots = "which can result in surprising behavior; a DNS label is recommended: [must not contain dots]";
        let named = json!({"metadata": {"name": "a.b"}});
        check(pod, named.clone(), &[&format!("metadata.name: this is used in the Pod's hostname, {dots}")]);
        check(workload, named.clone(), &[&format!("metadata.name: this is used in Pod names and hostnames, {dots}")]);
        check(pods_of, named, &[]);
    }

    #[test]
    fn what_no_agent_starts() {
        let template = json!({"spec": {"hostUsers": false}});
        let words = |what: &str, path: &str| {
            vec![format!(
                "no agent will start {what}: {path}.hostUsers (false) is not supported by this version of the agent"
            )]
        };
        assert_eq!(pod(&json!({"metadata": {"name": "p"}, "spec": template["spec"]})), words("this pod", "spec"));
        let of = "a pod of this template";
        assert_eq!(
            workload(&json!({"metadata": {"name": "w"}, "spec": {"template": template}})),
            words(of, "spec.template.spec")
        );
        assert_eq!(pod_template(&json!({"template": template})), words(of, "template.spec"));
        let job = json!({"spec": {"template": template}});
        let cron = json!({"metadata": {"name": "j"}, "spec": {"jobTemplate": job}});
        assert_eq!(cron_job(&cron), words(of, "spec.jobTemplate.spec.template.spec"));
    }

    #[test]
    fn ports_and_places() {
        fn check(spec: Value, expected: &[&str]) {
            let mut said = pod(&json!({"metadata": {"name": "p"}, "spec": spec}));
            said.retain(|sentence| !sentence.starts_with("no agent will start "));
            assert_eq!(said, expected, "{spec}");
        }
        let port = |more: Value| {
            let mut port = json!({"containerPort": 80, "protocol": "TCP"});
            port.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"ports": [port]})
        };
        let two = |a: Value, b: Value| json!({"containers": [port(a), port(b)]});
        let (here, there) = ("spec.containers[1].ports[0]", "spec.containers[0].ports[0]");
        check(two(json!({}), json!({})), &[&format!("{here}: duplicate port definition with {there}")]);
        check(two(json!({}), json!({"hostPort": 1})), &[&format!("{here}: overlapping port definition with {there}")]);
        check(two(json!({"hostPort": 2}), json!({"hostPort": 1})), &[]);
        check(
            two(json!({"hostPort": 1, "hostIP": "1.1.1.1"}), json!({"hostPort": 1})),
            &[&format!("{here}: dangerously ambiguous port definition with {there}")],
        );
        check(
            json!({"containers": [port(json!({"name": "a"})), {"ports": [{"name": "a", "containerPort": 1}]}]}),
            &[&format!(
                "{here}: duplicate port name \"a\" with {there}, services and probes that select ports by name will \
                 use {there}"
            )],
        );
        check(
            json!({
                "hostAliases": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}],
                "imagePullSecrets": [{"name": "a"}, {"name": "a"}],
            }),
            &[
                "spec.hostAliases[1].ip: duplicate ip \"1.1.1.1\"",
                "spec.imagePullSecrets[1].name: duplicate name \"a\"",
            ],
        );
        let rule = json!({"key": "beta.kubernetes.io/os", "operator": "Exists"});
        check(
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}},
                "topologySpreadConstraints": [{"topologyKey": "zone"}]}),
            &[
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].\
                 matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use \"kubernetes.io/os\" \
                 instead",
                "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
            ],
        );
    }

    #[test]
    fn what_else_is_said() {
        fn check(advice: Advice, object: Value, expected: &[&str]) {
            assert_eq!(advice(&object), expected, "{object}");
        }
        check(
            volume,
            json!({"spec": {"persistentVolumeReclaimPolicy": "Recycle", "rbd": {}, "capacity": {"storage": "1500m"}}}),
            &[
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the \
                 recommended approach is to use dynamic provisioning.",
                "spec.rbd: deprecated in v1.28, non-functional in v1.31+",
                "spec.capacity[storage]: fractional byte value \"1500m\" is invalid, must be an integer",
            ],
        );
        check(slice, json!({"addressType": "FQDN"}), &["spec.addressType: FQDN endpoints are deprecated"]);
        let spelled = "endpoints[0].addresses[1]: IPv6 address \"FD00:0::1\" should be in RFC 5952 canonical format \
                       (\"fd00::1\")";
        check(
            slice,
            json!({"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1", "FD00:0::1"]}]}),
            &[spelled],
        );
        let deprecated = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        let spelled =
            "spec.externalIPs[1]: IPv6 address \"fd00::0:1\" should be in RFC 5952 canonical format (\"fd00::1\")";
        check(service, json!({"spec": {"externalIPs": ["10.0.0.1", "fd00::0:1"]}}), &[spelled, deprecated]);
        let at = "spec.egress[0].to[1].ipBlock";
        let expected = [
            format!("{at}.cidr: IPv6 CIDR value \"FD00::/16\" should be in RFC 5952 canonical format (\"fd00::/16\")"),
            format!(
                "{at}.except[0]: IPv6 CIDR value \"fd00:0::/32\" should be in RFC 5952 canonical format (\"fd00::/32\")"
            ),
        ];
        let block = json!({"cidr": "FD00::/16", "except": ["fd00:0::/32", "fd00:1::/32"]});
        let peers = json!([{"ipBlock": {"cidr": "10.0.0.0/8"}}, {"ipBlock": block}, {"podSelector": {}}]);
        check(network_policy, json!({"spec": {"egress": [{"to": peers}]}}), &[&expected[0], &expected[1]]);
        check(
            node,
            json!({"spec": {"externalID": "x"}}),
            &["spec.externalID: this field is deprecated, and is unused by Kubernetes"],
        );
        check(
            service,
            json!({"spec": {"type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "ClientIP"}}),
            &["spec.SessionAffinity is ignored for headless services"],
        );
        let term = json!({"matchLabelExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone"}]});
        let words = "failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use \
                     \"topology.kubernetes.io/zone\" instead";
        check(
            storage_class,
            json!({"allowedTopologies": [term]}),
            &[&format!("allowedTopologies[0].matchLabelExpressions[0].key: {words}")],
        );
    }
}

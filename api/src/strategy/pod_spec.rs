//! Every problem of the spec of a pod or of a template.

use super::container::{self, host_port_clashes, user_numbers};
use super::doc::{default_to, has, is_empty, list, number, shown, text, texts, yes};
use super::meta::{NameRule, annotations, labels};
use super::names::{self, problems};
use super::qos::quantity;
use super::{Rules, affinity, claim, full, supported};
use coracle_schema::{Path, Problem, Quantity, Reason};
use serde_json::Value;
use std::collections::HashSet;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
pub const NO_BACK_STEPS: &str = "must not contain '..'";

/// Every problem of a pod's spec, in the order in which Kubernetes tells them.
pub fn validate(spec: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let volumes = volumes(spec, path, &mut found);
    found.extend(containers(spec, &volumes, path));
    found.extend(supported(spec, "restartPolicy", &["Always", "OnFailure", "Never"], path));
    found.extend(supported(spec, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], path));
    for (key, value) in texts(spec, "nodeSelector") {
        if full(&found) {
            break;
        }
        let (of_key, of_value) = match rules.old_names {
            true => (names::old_label_key(key), names::old_label_value(value)),
            false => (names::qualified(key), names::label_value(value)),
        };
        found.extend(problems(&path.field("nodeSelector"), key, of_key));
        found.extend(problems(&path.field("nodeSelector"), value, of_value));
    }
    found.extend(security(spec, path));
    for (at, secret) in list(spec, "imagePullSecrets").iter().enumerate() {
        if full(&found) {
            break;
        }
        if text(secret, "name").is_empty() {
            found.push(Problem::required(&path.field("imagePullSecrets").index(at).field("name"), ""));
        }
    }
    if text(spec, "dnsPolicy") == "None" && is_empty(&spec["dnsConfig"]["nameservers"]) {
        let words = "must provide `dnsConfig` when `dnsPolicy` is None";
        found.push(Problem::required(&path.field("dnsConfig"), words));
    }
    let node = if rules.old_names { names::old_id } else { names::subdomain };
    let forms: [(&str, NameRule); 5] = [
        ("serviceAccountName", names::subdomain),
        ("nodeName", node),
        ("hostname", names::label),
        ("subdomain", names::label),
        ("priorityClassName", names::subdomain),
    ];
    for (field, form) in forms {
        let name = text(spec, field);
        if !name.is_empty() {
            found.extend(problems(&path.field(field), name, form(name)));
        }
    }
    found.extend(affinity::validate(&spec["affinity"], rules, &path.field("affinity")));
    for (at, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(affinity::spread(constraint, rules, &path.field("topologySpreadConstraints").index(at)));
    }
    if let Some(deadline) = number(spec, "activeDeadlineSeconds") {
        let faults = names::between(deadline, 1, i32::MAX.into());
        found.extend(problems(&path.field("activeDeadlineSeconds"), deadline, faults));
    }
    for (at, toleration) in list(spec, "tolerations").iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(tolerates(toleration, &path.field("tolerations").index(at)));
    }
    for (at, alias) in list(spec, "hostAliases").iter().enumerate() {
        if full(&found) {
            break;
        }
        let path = path.field("hostAliases").index(at);
        found.extend(problems(&path.field("ip"), text(alias, "ip"), names::ip(text(alias, "ip"))));
        for (at, host) in list(alias, "hostnames").iter().enumerate() {
            if full(&found) {
                break;
            }
            let host = host.as_str().unwrap_or_default();
            found.extend(problems(&path.field("hostnames").index(at), host, names::subdomain(host)));
        }
    }
    found
}

/// A template for pods: its labels and annotations, and the spec. `path` is the template's.
pub fn validate_template(template: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = labels(&template["metadata"], "labels", path, rules);
    found.extend(annotations(&template["metadata"], path));
    found.extend(validate(&template["spec"], rules, &path.field("spec")));
    if !list(&template["spec"], "ephemeralContainers").is_empty() {
        let words = "ephemeral containers not allowed in pod template";
        found.push(Problem::forbidden(&path.field("spec").field("ephemeralContainers"), words));
    }
    found
}

fn containers(spec: &Value, volumes: &HashSet<&str>, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let grace_s = number(spec, "terminationGracePeriodSeconds").unwrap_or(30);
    if list(spec, "containers").is_empty() {
        found.push(Problem::required(&path.field("containers"), ""));
    }
    let mut seen = HashSet::new();
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for (at, container) in list(spec, field).iter().enumerate() {
            if full(&found) {
                break;
            }
            let path = path.field(field).index(at);
            found.extend(container::validate(container, volumes, grace_s, &path));
            let name = text(container, "name");
            if !name.is_empty() && !seen.insert(name) {
                found.push(Problem::new(&path.field("name"), Reason::Duplicate, Some(name.into()), ""));
            }
        }
        if field == "containers" {
            found.extend(host_port_clashes(spec, &path.field(field)));
        }
    }
    found
}

/// The names of the volumes; their problems are added to those found.
fn volumes<'a>(spec: &'a Value, path: &Path, found: &mut Vec<Problem>) -> HashSet<&'a str> {
    let mut seen = HashSet::new();
    for (at, volume) in list(spec, "volumes").iter().enumerate() {
        if full(found) {
            break;
        }
        let path = path.field("volumes").index(at);
        let name = text(volume, "name");
        if name.is_empty() {
            found.push(Problem::required(&path.field("name"), ""));
        } else {
            found.extend(problems(&path.field("name"), name, names::label(name)));
            if !seen.insert(name) {
                found.push(Problem::new(&path.field("name"), Reason::Duplicate, Some(name.into()), ""));
            }
        }
        found.extend(source(volume, &path));
    }
    seen
}

/// In the order in which Kubernetes looks: what comes second is what is too much.
const VOLUME_SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "azureFile",
    "configMap",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Exactly one source, and the sources that are used today whole.
fn source(volume: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let kinds: Vec<&str> = VOLUME_SOURCES.iter().copied().filter(|source| has(volume, source)).collect();
    if kinds.is_empty() {
        found.push(Problem::required(path, "must specify a volume type"));
    }
    for kind in kinds.iter().skip(1) {
        found.push(Problem::forbidden(&path.field(kind), "may not specify more than 1 volume type"));
    }
    let Some(kind) = kinds.first() else { return found };
    let (source, path) = (&volume[kind], path.field(kind));
    let required: &[&str] = match *kind {
        "secret" => &["secretName"],
        "configMap" => &["name"],
        "persistentVolumeClaim" => &["claimName"],
        kind => claim::needs(kind),
    };
    for field in required.iter().filter(|field| is_empty(&source[**field])) {
        found.push(Problem::required(&path.field(field), ""));
    }
    if *kind == "hostPath" {
        let target = text(source, "path");
        if target.split('/').any(|part| part == "..") {
            found.push(Problem::invalid(&path.field("path"), target, NO_BACK_STEPS));
        }
        let known = ["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];
        found.extend(container::one_of(text(source, "type"), &known, &path.field("type")));
    }
    if *kind == "emptyDir" && quantity(&source["sizeLimit"]) < Quantity::ZERO {
        let words = "SizeLimit field must be a valid resource quantity";
        found.push(Problem::forbidden(&path.field("sizeLimit"), words));
    }
    found
}

fn security(spec: &Value, path: &Path) -> Vec<Problem> {
    let at = path.field("securityContext");
    let mut found = user_numbers(&spec["securityContext"], &at);
    if yes(spec, "shareProcessNamespace") && yes(spec, "hostPID") {
        let words = "ShareProcessNamespace and HostPID cannot both be enabled";
        found.push(Problem::invalid(&at.field("shareProcessNamespace"), true, words));
    }
    if yes(spec, "hostNetwork") {
        for field in ["containers", "initContainers"] {
            for (at, container) in list(spec, field).iter().enumerate() {
                if full(&found) {
                    break;
                }
                for (at_port, port) in list(container, "ports").iter().enumerate() {
                    if full(&found) {
                        break;
                    }
                    if has(port, "hostPort") && port["hostPort"] != port["containerPort"] {
                        let path = path.field(field).index(at).field("ports").index(at_port).field("containerPort");
                        found.push(Problem::invalid(&path, port["containerPort"].clone(), "must match `hostPort`"));
                    }
                }
            }
        }
    }
    found
}

fn tolerates(toleration: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let (key, operator, value) = (text(toleration, "key"), text(toleration, "operator"), text(toleration, "value"));
    let effect = text(toleration, "effect");
    if !key.is_empty() {
        found.extend(problems(&path.field("key"), key, names::qualified(key)));
    } else if operator != "Exists" {
        let words = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        found.push(Problem::invalid(&path.field("operator"), operator, words));
    }
    if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
        let words = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        found.push(Problem::invalid(&path.field("effect"), effect, words));
    }
    match operator {
        "" | "Equal" => found.extend(problems(&path.field("operator"), value, names::label_value(value))),
        "Exists" if !value.is_empty() => {
            let words = "value must be empty when `operator` is 'Exists'";
            found.push(Problem::invalid(&path.field("operator"), value, words));
        }
        "Exists" => {}
        _ => found.extend(container::one_of(operator, &["Equal", "Exists"], &path.field("operator"))),
    }
    if !effect.is_empty() {
        found.extend(container::one_of(effect, &EFFECTS, &path.field("effect")));
    }
    found
}

/// Taints of a node, which tolerations answer to. Kubernetes says that they stand in the metadata.
pub fn taints(spec: &Value) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for (at, taint) in list(spec, "taints").iter().enumerate() {
        if full(&found) {
            break;
        }
        let path = Path::new("metadata.taints").index(at);
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        found.extend(problems(&path.field("key"), key, names::qualified(key)));
        found.extend(problems(&path.field("value"), value, names::label_value(value)));
        found.extend(supported(taint, "effect", &EFFECTS, &path));
        if !seen.insert((key, effect)) {
            let mut taint = taint.clone();
            default_to(&mut taint, "value", "");
            let words = "taints must be unique by key and effect pair";
            let words = format!("{}: {words}", shown(&taint, &["Key", "Value", "Effect", "TimeAdded"]));
            found.push(Problem::new(&path, Reason::Duplicate, None, words));
        }
    }
    found
}

/// Fields of a spec that differ, by name; of containers, by their fields.
pub fn differing(new: &Value, old: &Value) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> =
        [new, old].iter().filter_map(|spec| spec.as_object()).flat_map(|spec| spec.keys()).collect();
    let mut differing = Vec::new();
    for name in names {
        let (now, was) = (&new[name], &old[name]);
        if now == was || is_empty(now) && is_empty(was) {
            continue;
        }
        if let (Value::Array(now), Value::Array(was)) = (now, was)
            && name.ends_with("ontainers")
            && now.len() == was.len()
        {
            for (at, (now, was)) in now.iter().zip(was).enumerate() {
                let both = [now, was];
                let fields: std::collections::BTreeSet<&String> =
                    both.iter().filter_map(|one| one.as_object()).flat_map(|one| one.keys()).collect();
                let fields = fields.into_iter().filter(|field| now[*field] != was[*field]);
                differing.extend(fields.map(|field| format!("{name}[{at}].{field}")));
            }
        } else {
            differing.push(name.clone());
        }
    }
    differing
}

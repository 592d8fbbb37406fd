//! Priority, runtime, storage and volume attributes classes, and volume attachments. Most fields cannot change once
//! created.

use super::amounts::Whose;
use super::checks::{PROBLEMS_MAX, full, immutable, immutable_as, supported_text};
use super::doc::{has, is_empty, list, number, text, texts};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Rules, without_status};
use super::{claim, container, csi, general, inner, names, pod_parts};
use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Above are the system's own.
const USER_PRIORITY_MAX: i64 = 1_000_000_000;
/// The limits of the parameters of a class: their number, and their bytes together.
const PARAMETERS_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 256 << 10;
/// The limits of a driver's metadata for an attached volume, and of an error message.
const ATTACHED_BYTES_MAX: usize = 256 << 10;
const ERROR_BYTES_MAX: usize = 1024;

/// The classes that every cluster has.
pub fn system_classes() -> [Value; 2] {
    let one =
        |name: &str, value: i64, words: &str| json!({"metadata": {"name": name}, "value": value, "description": words});
    let moved =
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.";
    let stays = "Used for system critical pods that must not be moved from their current node.";
    [one("system-cluster-critical", 2_000_000_000, moved), one("system-node-critical", 2_000_001_000, stays)]
}

pub static PRIORITY_CLASS: BuiltinStrategy = BuiltinStrategy {
    // Kubernetes counts its generations and never goes on.
    update: |new, old, _| meta::update(new, old, false),
    validate: priority,
    validate_update: |new, old, rules| {
        // Nothing but what may not change is looked at again.
        let mut found = general::changed(new, old, rules, general::validate::<true>);
        if number(new, "value") != number(old, "value") {
            found.push(Problem::forbidden(&Path::new("value"), "may not be changed in an update."));
        }
        found.extend(immutable(new, old, "preemptionPolicy", &Path::root()));
        found
    },
    ..general::strategy::<true, true>()
};

pub static RUNTIME_CLASS: BuiltinStrategy = BuiltinStrategy {
    validate: runtime,
    validate_update: |new, old, rules| {
        let mut found = general::changed(new, old, rules, runtime);
        found.extend(immutable(new, old, "handler", &Path::root()));
        found
    },
    ..general::strategy::<true, false>()
};

pub static STORAGE_CLASS: BuiltinStrategy = BuiltinStrategy {
    validate: storage,
    validate_update: |new, old, rules| {
        let mut found = general::changed(new, old, rules, storage);
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            found.extend(immutable(new, old, field, &Path::root()));
        }
        found
    },
    ..general::strategy::<true, false>()
};

pub static ATTRIBUTES_CLASS: BuiltinStrategy = BuiltinStrategy {
    create: |class, making| {
        general::create::<false>(class, making);
        claim::protect(class, "kubernetes.io/vac-protection");
    },
    validate: attributes,
    validate_update: |new, old, rules| {
        let mut found = meta::validate_update(new, old);
        for field in ["driverName", "parameters"] {
            let words = format!("updates to {field} are forbidden.");
            found.extend(
                immutable(new, old, field, &Path::root()).map(|problem| Problem::forbidden(&problem.path, words)),
            );
        }
        found.extend(meta::new_problems(attributes(new, rules), &attributes(old, rules)));
        found
    },
    ..general::strategy::<true, false>()
};

pub static VOLUME_ATTACHMENT: BuiltinStrategy = BuiltinStrategy {
    validate: attachment,
    validate_update: |new, old, rules| {
        let mut found = general::changed(new, old, rules, attachment);
        found.extend(immutable_as("storage.v1.VolumeAttachmentSpec", new, old, "spec", &Path::root()));
        found
    },
    durable: without_status,
    ..general::strategy::<true, false>()
};

fn priority(class: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(class, Scope::Cluster, names::subdomain, rules);
    let name = text(&class["metadata"], "name");
    if name.starts_with("system-") {
        let known = system_classes().into_iter().find(|class| text(&class["metadata"], "name") == name);
        let why = match known {
            None => Some(format!("{name} is not a known system priority class")),
            Some(known) if class["value"] != known["value"] => {
                Some(format!("value of {name} PriorityClass must be {}", known["value"]))
            }
            Some(_) if class["globalDefault"] == true => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        let words = "priority class names with 'system-' prefix are reserved for system use only. error";
        found.extend(why.map(|why| Problem::forbidden(&Path::new("metadata.name"), format!("{words}: {why}"))));
    } else if number(class, "value").is_some_and(|value| value > USER_PRIORITY_MAX) {
        let words = format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
        found.push(Problem::forbidden(&Path::new("value"), words));
    }
    if has(class, "preemptionPolicy") {
        let path = Path::new("preemptionPolicy");
        found.extend(match text(class, "preemptionPolicy") {
            "" => Some(Problem::required(&path, "")),
            policy => one_of(policy, &["PreemptLowerPriority", "Never"], &path),
        });
    }
    found
}

/// Checks a value against a list; the message keeps the order of the list.
fn one_of(word: &str, known: &[&str], path: &Path) -> Option<Problem> {
    (!known.contains(&word)).then(|| Problem::new(path, Reason::NotSupported, Some(word.into()), supported_text(known)))
}

fn runtime(class: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate_any(class, Scope::Cluster, names::subdomain, rules);
    let (handler, path) = (text(class, "handler"), Path::new("handler"));
    if handler.is_empty() {
        found.push(Problem::required(&path, ""));
    } else {
        found.extend(names::problems(&path, handler, names::label(handler)));
    }
    let (scheduling, path) = (&class["scheduling"], Path::new("scheduling"));
    let fixed = serde_json::json!({"limits": class["overhead"]["podFixed"]});
    found.extend(container::resources(&fixed, Whose::Container, &Path::new("overhead")));
    found.extend(meta::labels(scheduling, "nodeSelector", &path, rules));
    found.extend(pod_parts::tolerations(scheduling, &path));
    let mut seen = HashSet::new();
    for (at, one) in
        list(scheduling, "tolerations").iter().enumerate().filter(|(_, one)| !seen.insert(one.to_string())).take(8)
    {
        found.push(
            Problem::new(&path.field("tolerations").index(at), Reason::Duplicate, Some(one.clone()), "")
                .showing(inner::shown("Toleration", one)),
        );
    }
    found
}

fn storage(class: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = driven(class, rules, "provisioner");
    found.extend(parameters(class));
    // Nothing is as good as a policy.
    let policy = text(class, "reclaimPolicy");
    found.extend(one_of(policy, &["Delete", "Retain"], &Path::new("reclaimPolicy")).filter(|_| !policy.is_empty()));
    let mode = text(class, "volumeBindingMode");
    found.extend(one_of(mode, &["Immediate", "WaitForFirstConsumer"], &Path::new("volumeBindingMode")));
    found.extend(topologies(class));
    found
}

/// A class that leaves the work to whoever is named.
fn driven(class: &Value, rules: Rules, field: &str) -> Vec<Problem> {
    let mut found = needs(class, rules, field);
    let driver = text(class, field);
    if !driver.is_empty() {
        let driver = driver.to_ascii_lowercase();
        found.extend(names::problems(&Path::new(field), driver.as_str(), names::qualified(&driver)));
    }
    found
}

/// Checks the parameters for a driver against their limits.
fn parameters(class: &Value) -> Vec<Problem> {
    let path = Path::new("parameters");
    let too_long = |max: usize| Problem::new(&path, Reason::TooLong, None, format!("may not be more than {max} bytes"));
    if class["parameters"].as_object().is_some_and(|all| all.len() > PARAMETERS_MAX) {
        return vec![too_long(PARAMETERS_MAX)];
    }
    let (mut found, mut bytes) = (Vec::new(), 0);
    for (key, value) in texts(class, "parameters") {
        if key.is_empty() {
            found.push(Problem::invalid(&path, key, "field can not be empty."));
        }
        bytes += key.len() + value.len();
    }
    if bytes > PARAMETERS_BYTES_MAX {
        found.push(too_long(PARAMETERS_BYTES_MAX));
    }
    found
}

/// Where volumes of the class may be: terms of labels with values.
fn topologies(class: &Value) -> Vec<Problem> {
    let mut found = Vec::new();
    let terms = list(class, "allowedTopologies");
    // Kubernetes starts the list of earlier terms with an empty term for each term: an empty term is then a duplicate.
    let mut before = HashMap::from([(BTreeMap::new(), terms.len().min(PROBLEMS_MAX))]);
    for (at, term) in terms.iter().enumerate() {
        let path = Path::new("allowedTopologies").index(at).field("matchLabelExpressions");
        let mut keys = HashSet::new();
        for (n, label) in list(term, "matchLabelExpressions").iter().enumerate() {
            if full(&found) {
                return found;
            }
            let (key, path) = (text(label, "key"), path.index(n));
            let values = list(label, "values");
            if values.is_empty() {
                found.push(Problem::required(&path.field("values"), ""));
            }
            let mut seen = HashSet::new();
            for (n, value) in values.iter().enumerate().filter(|(_, value)| !seen.insert(value.as_str())).take(8) {
                found.push(Problem::new(&path.field("values").index(n), Reason::Duplicate, Some(value.clone()), ""));
            }
            found.extend(names::problems(&path.field("key"), key, names::qualified(key)));
            if !keys.insert(key) {
                found.push(Problem::new(&path.field("key"), Reason::Duplicate, Some(key.into()), ""));
            }
        }
        let alike = before.entry(meaning(term)).or_insert(0);
        found.extend((0..*alike).map(|_| Problem::new(&path, Reason::Duplicate, Some("".into()), "")));
        *alike += 1;
        if full(&found) {
            return found;
        }
    }
    found
}

/// The requirements of a term, independent of their order.
fn meaning(term: &Value) -> BTreeMap<&str, BTreeSet<&str>> {
    let values = |label| list(label, "values").iter().filter_map(Value::as_str).collect();
    list(term, "matchLabelExpressions").iter().map(|label| (text(label, "key"), values(label))).collect()
}

/// A class says something, or it would be none.
fn attributes(class: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = driven(class, rules, "driverName");
    found.extend(parameters(class));
    if is_empty(&class["parameters"]) {
        found.push(Problem::required(&Path::new("parameters"), "must contain at least one key/value pair"));
    }
    found
}

/// Checks an object of a cluster-scoped kind with one required field.
fn needs(object: &Value, rules: Rules, field: &str) -> Vec<Problem> {
    let mut found = meta::validate(object, Scope::Cluster, names::subdomain, rules);
    if is_empty(&object[field]) {
        found.push(Problem::required(&Path::new(field), ""));
    }
    found
}

fn attachment(attachment: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(attachment, Scope::Cluster, names::subdomain, rules);
    let (spec, path) = (&attachment["spec"], Path::new("spec"));
    let (attacher, node, source) = (text(spec, "attacher"), text(spec, "nodeName"), &spec["source"]);
    found.extend(csi::driver_name(attacher, &path.field("attacher")));
    let volume = path.field("source").field("persistentVolumeName");
    match (has(source, "persistentVolumeName"), has(source, "inlineVolumeSpec")) {
        (false, false) => {
            let words = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
            found.push(Problem::required(&path.field("source"), words));
        }
        (true, true) => {
            let words = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
            found.push(Problem::new(&path.field("source"), Reason::Forbidden, None, words));
        }
        (true, false) if is_empty(&source["persistentVolumeName"]) => {
            found.push(Problem::required(&volume, "must specify non empty persistentVolumeName"));
        }
        _ => {}
    }
    found.extend(names::problems(&path.field("nodeName"), node, names::subdomain(node)));
    found.extend(attachment_status(&attachment["status"], &Path::new("status")));
    if has(source, "persistentVolumeName") {
        let name = text(source, "persistentVolumeName");
        found.extend(names::problems(&volume, name, names::subdomain(name)));
    }
    found
}

fn attachment_status(status: &Value, path: &Path) -> Vec<Problem> {
    let words = || format!("may not be more than {ATTACHED_BYTES_MAX} bytes");
    let mut found = Vec::new();
    let bytes: usize = texts(status, "attachmentMetadata").map(|(key, value)| key.len() + value.len()).sum();
    if bytes > ATTACHED_BYTES_MAX {
        found.push(Problem::new(&path.field("attachmentMetadata"), Reason::TooLong, None, words()));
    }
    for field in ["attachError", "detachError"] {
        let (error, path) = (&status[field], path.field(field));
        if text(error, "message").len() > ERROR_BYTES_MAX {
            // The message names the limit of the metadata, as in Kubernetes.
            found.push(Problem::new(&path.field("message"), Reason::TooLong, None, words()));
        }
        if let Some(code) = number(error, "errorCode").filter(|code| *code < 0) {
            found.extend(names::problems(&path.field("errorCode"), code, names::between(code, 0, i32::MAX.into())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_have_names() {
        let check = |driver: &str, expected: &[&str]| {
            let class = json!({"metadata": {"name": "c"}, "driverName": driver, "parameters": {"a": "b"}});
            crate::strategy::tests::assert_problems(attributes(&class, Rules::default()), expected);
        };
        check("example.com/D", &[]);
        check("D_", &["driverName: Invalid value: \"d_\": name part must consist"]);
        check("", &["driverName: Required value"]);
    }
}

//! Names and amounts of resources: the resources that a container, a quota or a limit range may name.

use super::checks::{NOT_NEGATIVE, full, supported_text};
use super::doc::entries;
use super::names::{self, problems};
use super::qos::quantity;
use coracle_schema::{Path, Problem, Quantity, Reason};
use serde_json::Value;

const OF_CONTAINERS: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
/// Counted one by one.
const OBJECTS: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
const OF_QUOTAS: [&str; 7] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];

/// Fields that map resource names to amounts, and fields with a single amount.
const AMOUNTS: [&str; 4] = ["limits", "requests", "overhead", "allocatedResources"];
const AMOUNT: [&str; 2] = ["sizeLimit", "divisor"];
/// Fields with names and texts of users, in which no amount is looked for.
const OWN_WORDS: [&str; 4] = ["labels", "annotations", "nodeSelector", "matchLabels"];

/// The object in which a resource is named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Container,
    /// A pod as a whole.
    Pod,
    Quota,
    /// Anybody else.
    Any,
}

/// The problems of a resource's name.
pub fn name(name: &str, whose: Whose, path: &Path) -> Vec<Problem> {
    if whose == Whose::Pod {
        let mut found = self::name(name, Whose::Any, path);
        if found.is_empty() && !matches!(name, "cpu" | "memory") && !name.starts_with("hugepages-") {
            let words = supported_text(&["cpu", "hugepages-", "memory"]);
            found.push(Problem::new(path, Reason::NotSupported, Some(name.into()), words));
        }
        return found;
    }
    let mut found = problems(path, name, names::qualified(name));
    let huge = name.starts_with("hugepages-");
    if name.contains('/') {
        let native = name.contains("kubernetes.io/");
        if whose == Whose::Container && !native && !is_extended(name) {
            found.push(Problem::invalid(path, name, "doesn't follow extended resource name standard"));
        }
        return found;
    }
    let container = OF_CONTAINERS.contains(&name) || huge;
    let quota =
        container || OBJECTS.contains(&name) || OF_QUOTAS.contains(&name) || name.starts_with("requests.hugepages-");
    if found.is_empty() && !quota && name != "storage" {
        found.push(Problem::invalid(path, name, "must be a standard resource type or fully qualified"));
    }
    match whose {
        Whose::Container if !container => {
            found.push(Problem::invalid(path, name, "must be a standard resource for containers"))
        }
        Whose::Quota if !quota => found.push(Problem::invalid(path, name, "must be a standard resource for quota")),
        _ => {}
    }
    found
}

/// The problems of a resource's amount.
pub fn amount(name: &str, amount: &Value, path: &Path) -> Vec<Problem> {
    let value = quantity(amount);
    let mut found = Vec::new();
    if value < Quantity::ZERO {
        found.push(Problem::invalid(path, shown(amount), NOT_NEGATIVE));
    }
    if (OBJECTS.contains(&name) || is_extended(name)) && !value.is_whole() {
        found.push(Problem::invalid(path, shown(amount), "must be an integer"));
    }
    found
}

/// The problems of a list of amounts.
pub fn list(of: &Value, field: &str, whose: Whose, path: &Path) -> Vec<Problem> {
    let (mut found, path) = (Vec::new(), path.field(field));
    for (resource, of) in entries(of, field) {
        if full(&found) {
            break;
        }
        let path = path.key(resource);
        found.extend(name(resource, whose, &path));
        found.extend(amount(resource, of, &path));
    }
    found
}

/// Resources of others than Kubernetes.
pub fn is_extended(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && names::qualified(name).is_empty()
}

/// Resources of others, and large pages, come in whole pieces and are not shared.
pub fn is_not_shared(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") || name.starts_with("hugepages-")
}

/// How many bytes a large page of this name has.
pub fn page_bytes(name: &str) -> Option<Quantity> {
    let size = Quantity::parse(name.strip_prefix("hugepages-")?).ok()?;
    (size > Quantity::ZERO).then_some(size)
}

/// An amount as Kubernetes writes it back.
pub fn shown(amount: &Value) -> String {
    let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
    coracle_schema::canonical_quantity(&text).map(std::borrow::Cow::into_owned).unwrap_or_default()
}

/// Writes each amount in one way: two documents that mean the same are the same then.
pub fn same_amounts(value: &mut Value) {
    match value {
        Value::Array(entries) => entries.iter_mut().for_each(same_amounts),
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut().filter(|(name, _)| !OWN_WORDS.contains(&name.as_str())) {
                match value {
                    Value::Object(amounts) if AMOUNTS.contains(&name.as_str()) => {
                        amounts.values_mut().for_each(same_amount);
                    }
                    Value::String(_) if AMOUNT.contains(&name.as_str()) => same_amount(value),
                    value => same_amounts(value),
                }
            }
        }
        _ => {}
    }
}

fn same_amount(value: &mut Value) {
    if let Some(amount) = value.as_str().and_then(|text| Quantity::parse(text).ok()) {
        *value = amount.to_string().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_resources() {
        fn check(resource: &str, whose: Whose, expected: &[&str]) {
            let found: Vec<String> =
                name(resource, whose, &Path::new("r")).into_iter().map(|problem| problem.detail).collect();
            assert_eq!(found.len(), expected.len(), "{resource}: {found:?}");
            assert!(found.iter().zip(expected).all(|(found, start)| found.starts_with(start)), "{resource}: {found:?}");
        }
        for good in [
            "cpu",
            "pods",
            "services.nodeports",
            "requests.storage",
            "requests.hugepages-2Mi",
            "hugepages-2Mi",
            "count/jobs.batch",
            "gold.storageclass.storage.k8s.io/requests.storage",
            "requests.example.com/gpu",
        ] {
            check(good, Whose::Quota, &[]);
        }
        for bad in ["foo", "pod", "limits.gpu"] {
            check(
                bad,
                Whose::Quota,
                &["must be a standard resource type or fully qualified", "must be a standard resource for quota"],
            );
        }
        check("storage", Whose::Quota, &["must be a standard resource for quota"]);
        check("a b", Whose::Quota, &["name part must consist", "must be a standard resource for quota"]);
        check("example.com/gpu", Whose::Container, &[]);
        check("pods", Whose::Container, &["must be a standard resource for containers"]);
        check("requests.example.com/gpu", Whose::Container, &["doesn't follow extended resource name standard"]);
        check("storage", Whose::Any, &[]);
        check("hugepages-2Mi", Whose::Pod, &[]);
        for bad in ["ephemeral-storage", "example.com/gpu"] {
            check(bad, Whose::Pod, &["supported values: \"cpu\", \"hugepages-\", \"memory\""]);
        }
        check("foo", Whose::Pod, &["must be a standard resource type or fully qualified"]);
    }
}

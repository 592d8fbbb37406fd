//! Namespaces: what every one holds, and how one ends. PURE.
//!
//!     lives:  service account `default`, configmap `kube-root-ca.crt`: made, made again, put back
//!     ends:   pods -> everything else -> finalizer `kubernetes` -> gone        (what finalizers hold is waited for)
//!
//! The end has no memory but the namespace and what is in it: a master that starts in the middle goes on.

use super::cluster::Cluster;
use super::intent::{Decision, Intent};
use coracle_api::meta::{Key, Resource, Revision, Time};
use coracle_api::strategy::furniture::{ACCOUNT, ACCOUNTS, CONFIG_MAPS, ROOT, furniture};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub const QUOTAS: Resource = Resource::core("resourcequotas");
pub const NAMESPACES: Resource = Resource::core("namespaces");
/// Objects that one look takes away: then the other controllers have their turn.
const DELETIONS_MAX: usize = 64;

/// Whether an object is a namespace, what every one holds, or says what one may use.
pub fn concerns(key: &Key) -> bool {
    match &*key.resource.plural {
        "resourcequotas" => key.resource == QUOTAS,
        "namespaces" => key.resource == NAMESPACES,
        "serviceaccounts" => key.resource == ACCOUNTS && key.name == ACCOUNT,
        "configmaps" => key.resource == CONFIG_MAPS && key.name == ROOT,
        _ => false,
    }
}

/// What a namespace that lives lacks.
pub fn decide(cluster: &Cluster, name: &str) -> Decision {
    let Some(false) = cluster.namespaces.get(name) else { return Decision::default() };
    let inside = |resource: Resource, inside: &str| Key { resource, namespace: name.to_owned(), name: inside.to_owned() };
    let mut intents = Vec::new();
    for (resource, object) in furniture(cluster.authority.as_deref()) {
        let key = inside(resource.clone(), object["metadata"]["name"].as_str().unwrap_or_default());
        match cluster.furniture.get(&key) {
            None if cluster.damaged.contains(&key) => {}
            None => intents.push(Intent::Create { resource, namespace: name.to_owned(), object }),
            Some((_, true)) => {}
            Some((seen, false)) => intents.push(Intent::Update { key, seen: *seen, object }),
        }
    }
    Decision::of(intents)
}

/// Something in a namespace that ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub key: Key,
    pub revision: Revision,
    /// Its own deletion has begun.
    pub deleting: bool,
    pub finalizers: Vec<String>,
}

/// All that a namespace holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    pub items: Vec<Item>,
    /// What nobody can read is there all the same, and a plain deletion gives it up. A namespace is not ended over somebody's head: it
    /// waits until that is done.
    pub damaged: Vec<Key>,
}

/// What ends a namespace, one step further. `namespace`: as it stands.
pub fn end(key: &Key, seen: Revision, namespace: &Value, content: &Content, wall: Time) -> Decision {
    let is_pod = |item: &&Item| &*item.key.resource.plural == "pods";
    // Pods first: they may need what is beside them until they have stopped.
    let pods: Vec<&Item> = content.items.iter().filter(is_pod).collect();
    let left = if pods.is_empty() { content.items.iter().collect() } else { pods };
    let due: Vec<&&Item> = left.iter().filter(|item| !item.deleting).take(DELETIONS_MAX).collect();
    if !due.is_empty() {
        let delete = |item: &&&Item| Intent::Delete { key: item.key.clone(), seen: item.revision, at_once: false };
        return Decision::of(due.iter().map(delete).collect());
    }
    if left.is_empty() && content.damaged.is_empty() && holds(namespace) {
        return Decision::of(vec![Intent::Emptied { key: key.clone(), seen }]);
    }
    let conditions = conditions(&namespace["status"], &left, &content.damaged, wall);
    if namespace["status"]["conditions"] == conditions {
        return Decision::default();
    }
    let mut status = namespace["status"].clone();
    status["conditions"] = conditions;
    Decision::of(vec![Intent::Status { key: key.clone(), seen, status }])
}

/// Whether the namespace still waits for what it holds, or for nothing at all.
fn holds(namespace: &Value) -> bool {
    let holders = namespace["spec"]["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let others = namespace["metadata"]["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
    holders.iter().any(|one| one == coracle_api::strategy::namespace::FINALIZER) || (holders.is_empty() && others.is_empty())
}

/// The five conditions of an ending namespace, in the words of Kubernetes.
fn conditions(status: &Value, left: &[&Item], damaged: &[Key], wall: Time) -> Value {
    let count = |names: Vec<String>| {
        let mut counts = BTreeMap::new();
        names.into_iter().for_each(|name| *counts.entry(name).or_insert(0) += 1);
        counts
    };
    let resource = |key: &Key| format!("{}.{}", key.resource.plural, key.resource.group);
    let remaining = count(left.iter().map(|item| resource(&item.key)).chain(damaged.iter().map(resource)).collect());
    let held = count(left.iter().flat_map(|item| item.finalizers.iter().cloned()).collect());
    let told = |counts: BTreeMap<String, i32>, words: &str| {
        counts.into_iter().map(|(name, count)| format!("{name} {words} {count} resource instances")).collect::<Vec<_>>().join(", ")
    };
    let unreadable: Vec<String> = damaged.iter().map(|key| format!("{key} is damaged: delete it")).collect();
    let remaining = (!remaining.is_empty()).then(|| ("SomeResourcesRemain", told(remaining, "has"), "Some resources are remaining: "));
    let held =
        (!held.is_empty()).then(|| ("SomeFinalizersRemain", told(held, "in"), "Some content in the namespace has finalizers remaining: "));
    let failed =
        (!unreadable.is_empty()).then(|| ("ContentDeletionFailed", unreadable.join(", "), "Failed to delete all resource types: "));
    let rows = [
        ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered", None),
        ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed", None),
        ("NamespaceDeletionContentFailure", "ContentDeleted", "All content successfully deleted, may be waiting on finalization", failed),
        ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed", remaining),
        ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished", held),
    ];
    let before = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let one = |(kind, good, words, bad): (&str, &str, &str, Option<(&str, String, &str)>)| {
        let (status, reason, message) = match bad {
            Some((reason, list, words)) => ("True", reason, format!("{words}{list}")),
            None => ("False", good, words.to_owned()),
        };
        let was = before.iter().find(|condition| condition["type"] == kind && condition["status"] == status);
        let since = was.map_or_else(|| wall.to_string().into(), |was| was["lastTransitionTime"].clone());
        json!({"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message})
    };
    rows.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(plural: &'static str, name: &str) -> Key {
        Key { resource: Resource::core(plural), namespace: "ns".into(), name: name.into() }
    }

    fn item(plural: &'static str, name: &str, deleting: bool, finalizers: &[&str]) -> Item {
        let finalizers = finalizers.iter().map(|one| (*one).to_owned()).collect();
        Item { key: key(plural, name), revision: Revision(7), deleting, finalizers }
    }

    fn ended(spec: Value, items: Vec<Item>, damaged: Vec<Key>) -> Vec<Intent> {
        let namespace = json!({"metadata": {"deletionTimestamp": "x"}, "spec": spec, "status": {"phase": "Terminating"}});
        let of = Key { namespace: String::new(), ..key("namespaces", "ns") };
        end(&of, Revision(9), &namespace, &Content { items, damaged }, Time::from_seconds(1_600_000_000).unwrap()).intents
    }

    fn told(intents: &[Intent]) -> Vec<String> {
        let one = |intent: &Intent| match intent {
            Intent::Delete { key, .. } => format!("delete {key}"),
            Intent::Emptied { key, .. } => format!("emptied {key}"),
            Intent::Status { status, .. } => {
                let bad = status["conditions"].as_array().unwrap().iter().filter(|condition| condition["status"] == "True");
                bad.map(|condition| condition["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join("; ")
            }
            other => format!("{other:?}"),
        };
        intents.iter().map(one).collect()
    }

    #[test]
    fn the_order_of_the_end() {
        let held = || json!({"finalizers": ["kubernetes"]});
        let check = |spec: Value, items: Vec<Item>, damaged: Vec<Key>, expected: &[&str]| {
            assert_eq!(told(&ended(spec, items.clone(), damaged)), expected, "{items:?}");
        };
        let (map, pod, going) = (item("configmaps", "m", false, &[]), item("pods", "p", false, &[]), item("pods", "q", true, &[]));
        check(held(), vec![map.clone(), pod, going.clone()], vec![], &["delete pods/ns/p"]);
        check(held(), vec![map.clone(), going], vec![], &["Some resources are remaining: pods. has 1 resource instances"]);
        check(held(), vec![map.clone()], vec![], &["delete configmaps/ns/m"]);
        let stuck = item("configmaps", "n", true, &["a.b/c"]);
        let words = "Some resources are remaining: configmaps. has 1 resource instances; \
                     Some content in the namespace has finalizers remaining: a.b/c in 1 resource instances";
        check(held(), vec![stuck], vec![], &[words]);
        check(held(), vec![], vec![], &["emptied namespaces/ns"]);
        // Nobody holds it any more, and yet it is there: a start in the middle.
        check(json!({}), vec![], vec![], &["emptied namespaces/ns"]);
        // Somebody else holds it: that is all there is to say.
        check(json!({"finalizers": ["x.io/hold"]}), vec![], vec![], &[""]);
        let words = "Failed to delete all resource types: secrets/ns/s is damaged: delete it; \
                     Some resources are remaining: secrets. has 1 resource instances";
        check(held(), vec![], vec![key("secrets", "s")], &[words]);
    }

    #[test]
    fn a_look_takes_away_so_many() {
        let many = (0..DELETIONS_MAX + 9).map(|n| item("configmaps", &format!("m{n}"), false, &[])).collect();
        assert_eq!(ended(json!({"finalizers": ["kubernetes"]}), many, vec![]).len(), DELETIONS_MAX);
    }

    #[test]
    fn what_a_namespace_lacks() {
        let mut cluster = Cluster::default();
        cluster.authority = Some("PEM".into());
        let check = |cluster: &Cluster, expected: &[&str]| {
            let one = |intent: &Intent| match intent {
                Intent::Create { resource, object, .. } => format!("create {resource}/{}", object["metadata"]["name"].as_str().unwrap()),
                Intent::Update { key, .. } => format!("update {key}"),
                other => format!("{other:?}"),
            };
            assert_eq!(decide(cluster, "ns").intents.iter().map(one).collect::<Vec<_>>(), expected);
        };
        check(&cluster, &[]);
        cluster.namespaces.insert("ns".into(), false);
        check(&cluster, &["create serviceaccounts/default", "create configmaps/kube-root-ca.crt"]);
        cluster.furniture.insert(key("serviceaccounts", "default"), (Revision(1), true));
        cluster.furniture.insert(key("configmaps", "kube-root-ca.crt"), (Revision(2), false));
        check(&cluster, &["update configmaps/ns/kube-root-ca.crt"]);
        cluster.furniture.remove(&key("configmaps", "kube-root-ca.crt"));
        cluster.damaged.insert(key("configmaps", "kube-root-ca.crt"));
        check(&cluster, &[]);
        cluster.namespaces.insert("ns".into(), true);
        check(&cluster, &[]);
    }
}

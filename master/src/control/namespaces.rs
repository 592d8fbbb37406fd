//! Namespaces: the objects that every namespace holds, and the end of a namespace. PURE.
//!
//!     lives:  service account `default`, configmap `kube-root-ca.crt`: made, made again, put back
//!             in kube-system also `extension-apiserver-authentication`
//!     ends:   pods -> everything else -> finalizer `kubernetes` -> gone        (what finalizers hold is waited for)
//!
//! The end has no memory but the namespace and what is in it: a master that starts in the middle goes on.

use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{Contents, Decision, Intent, Item, Lookup};
use super::rules::ControlRule;
use super::shelf::View;
use super::view::{NamespaceView, PODS, document, namespace_key};
use crate::store::Stored;
use coracle_api::meta::{Key, Resource, Revision, Time};
use coracle_api::strategy::furniture::{
    ACCOUNT, ACCOUNTS, CONFIG_MAPS, EXTENSION, ROOT, Trust, extension, furniture, is_root,
};
use coracle_api::strategy::namespace::CLUSTER;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Objects that one look deletes: then the other controllers have their turn.
const DELETIONS_MAX: usize = 64;

/// An object that every namespace holds.
#[derive(Clone, Debug)]
pub struct FurnitureView {
    revision: Revision,
    document: Stored,
}

impl View for FurnitureView {
    const OF: &'static [Resource] = &[ACCOUNTS, CONFIG_MAPS];

    fn concerns(key: &Key) -> bool {
        match key.resource == ACCOUNTS {
            true => key.name == ACCOUNT,
            false => key.name == ROOT || key.name == EXTENSION && key.namespace == CLUSTER,
        }
    }

    fn read(stored: &Stored, _: Option<&FurnitureView>, _: Duration) -> Option<FurnitureView> {
        Some(FurnitureView { revision: stored.revision, document: stored.clone() })
    }
}

/// The namespace of an object.
pub fn by_namespace(_: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    vec![namespace_key(&change.key.namespace)]
}

/// The namespace that an object has left, if it waits for that.
pub fn by_departure(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    Some(namespace_key(&change.key.namespace))
        .filter(|key| cluster.get::<NamespaceView>(key).is_some_and(|namespace| namespace.ends))
        .into_iter()
        .collect()
}

/// Whether any namespace ends.
pub fn ending(cluster: &Cluster) -> bool {
    cluster.all::<NamespaceView>().any(|(_, namespace)| namespace.ends)
}

pub fn decide(look: &Look<'_>) -> Decision {
    match (look.cluster.get::<NamespaceView>(look.key), look.contents) {
        (None, _) => Decision::default(),
        (Some(NamespaceView { ends: false, .. }), _) => Decision::of(lacking(look.cluster, &look.key.name)),
        (Some(_), _) if !look.cluster.holds(ControlRule::EndingNamespacesAreEmptied) => Decision::default(),
        (Some(NamespaceView { ends: true, .. }), None) => Decision::errand(Lookup::Contents(look.key.name.clone())),
        (Some(NamespaceView { ends: true, .. }), Some(contents)) => {
            Decision::of(end(look.key, contents, look.now.wall))
        }
    }
}

/// Makes what a namespace lacks.
fn lacking(cluster: &Cluster, name: &str) -> Vec<Intent> {
    let mut intents = Vec::new();
    let trust = cluster.settings.trust.as_deref();
    let authority = trust.map(|trust| trust.root.as_str());
    for (resource, object) in furniture(authority) {
        let inside = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let key = Key { resource: resource.clone(), namespace: name.to_owned(), name: inside };
        let right = |map: &Stored| {
            resource != CONFIG_MAPS || authority.is_none_or(|authority| is_root(&document(map), authority))
        };
        match cluster.get::<FurnitureView>(&key) {
            None if cluster.damaged.contains(&key) => {}
            None => intents.push(Intent::Create { resource, namespace: name.to_owned(), object }),
            Some(standing) if right(&standing.document) => {}
            Some(standing) => intents.push(Intent::Update { key, seen: standing.revision, object }),
        }
    }
    intents.extend(trust.filter(|_| name == CLUSTER).and_then(|trust| lacking_extension(cluster, trust)));
    intents
}

/// The config map for servers that extend the API.
fn lacking_extension(cluster: &Cluster, trust: &Trust) -> Option<Intent> {
    let key = Key { resource: CONFIG_MAPS, namespace: CLUSTER.to_owned(), name: EXTENSION.to_owned() };
    match cluster.get::<FurnitureView>(&key) {
        None if cluster.damaged.contains(&key) => None,
        None => {
            let (resource, namespace) = (CONFIG_MAPS, CLUSTER.to_owned());
            extension(None, trust).map(|object| Intent::Create { resource, namespace, object })
        }
        Some(standing) => {
            let object = extension(Some(&document(&standing.document)), trust)?;
            Some(Intent::Update { key, seen: standing.revision, object })
        }
    }
}

/// Ends a namespace, one step further.
fn end(key: &Key, Contents { namespace, seen, items, damaged }: &Contents, wall: Time) -> Vec<Intent> {
    // Pods first: a running pod may need the namespace's other objects until the pod has stopped.
    let pods: Vec<&Item> = items.iter().filter(|item| item.key.resource == PODS).collect();
    let left = if pods.is_empty() { items.iter().collect() } else { pods };
    let due: Vec<&&Item> = left.iter().filter(|item| !item.deleting).take(DELETIONS_MAX).collect();
    if !due.is_empty() {
        let delete = |item: &&&Item| Intent::Delete { key: item.key.clone(), seen: item.revision, at_once: false };
        return due.iter().map(delete).collect();
    }
    // An unreadable object is not deleted without a person's decision: the namespace waits until a person gives the
    // object up.
    let (empty, waits_for) = (left.is_empty() && damaged.is_empty(), waits_for(namespace));
    let emptied = || vec![Intent::Emptied { key: key.clone(), seen: *seen }];
    if empty && waits_for == WaitsFor::Nothing {
        return emptied();
    }
    let conditions = conditions(&namespace["status"], &left, damaged, wall);
    if namespace["status"]["conditions"] == conditions {
        return if empty && waits_for == WaitsFor::Contents { emptied() } else { Vec::new() };
    }
    // An empty namespace shows its conditions too before the namespace goes: watchers see the reason.
    let mut status = namespace["status"].clone();
    status["conditions"] = conditions;
    vec![Intent::Status { key: key.clone(), seen: *seen, status }]
}

/// What an ending namespace waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitsFor {
    Contents,
    /// A foreign finalizer.
    Others,
    /// A start in the middle.
    Nothing,
}

fn waits_for(namespace: &Value) -> WaitsFor {
    let holders = namespace["spec"]["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let others = namespace["metadata"]["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
    match holders.iter().any(|one| one == coracle_api::strategy::namespace::FINALIZER) {
        true => WaitsFor::Contents,
        false if holders.is_empty() && others.is_empty() => WaitsFor::Nothing,
        false => WaitsFor::Others,
    }
}

/// The five conditions of an ending namespace, in the words of Kubernetes.
fn conditions(status: &Value, left: &[&Item], damaged: &[Key], wall: Time) -> Value {
    let count = |names: Vec<String>| {
        let mut counts = BTreeMap::new();
        names.into_iter().for_each(|name| *counts.entry(name).or_insert(0) += 1);
        counts
    };
    let resource = |key: &Key| format!("{}.{}", key.resource.plural, key.resource.group);
    // While there are pods, Kubernetes does not look at anything, and says so of nothing.
    let left = if left.iter().any(|item| item.key.resource == PODS) { &[] } else { left };
    let remaining = count(left.iter().map(|item| resource(&item.key)).chain(damaged.iter().map(resource)).collect());
    let held = count(left.iter().flat_map(|item| item.finalizers.iter().cloned()).collect());
    let listing = |counts: BTreeMap<String, i32>, words: &str| {
        counts
            .into_iter()
            .map(|(name, count)| format!("{name} {words} {count} resource instances"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let unreadable: Vec<String> = damaged.iter().map(|key| format!("{key} is damaged: delete it")).collect();
    let remaining = (!remaining.is_empty())
        .then(|| ("SomeResourcesRemain", listing(remaining, "has"), "Some resources are remaining: "));
    let held = (!held.is_empty()).then(|| {
        ("SomeFinalizersRemain", listing(held, "in"), "Some content in the namespace has finalizers remaining: ")
    });
    let failed = (!unreadable.is_empty())
        .then(|| ("ContentDeletionFailed", unreadable.join(", "), "Failed to delete all resource types: "));
    let rows = [
        ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered", None),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
            None,
        ),
        (
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
            failed,
        ),
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
    use super::super::controller::Now;
    use super::super::settings::Settings;
    use super::super::table::Controllers;
    use super::*;
    use crate::store::Event;
    use coracle_api::kinds::Kinds;
    use std::sync::Arc;

    fn key(plural: &'static str, name: &str) -> Key {
        Key { resource: Resource::core(plural), namespace: "ns".into(), name: name.into() }
    }

    fn item(plural: &'static str, name: &str, deleting: bool, finalizers: &[&str]) -> Item {
        let finalizers = finalizers.iter().map(|one| (*one).to_owned()).collect();
        Item { key: key(plural, name), revision: Revision(7), deleting, finalizers }
    }

    fn ended(spec: Value, items: Vec<Item>, damaged: Vec<Key>) -> Vec<Intent> {
        let namespace =
            json!({"metadata": {"deletionTimestamp": "x"}, "spec": spec, "status": {"phase": "Terminating"}});
        let of = Key { namespace: String::new(), ..key("namespaces", "ns") };
        let contents = Contents { namespace, seen: Revision(9), items, damaged };
        end(&of, &contents, Time::from_seconds(1_600_000_000).unwrap())
    }

    fn texts(intents: &[Intent]) -> Vec<String> {
        let one = |intent: &Intent| match intent {
            Intent::Delete { key, .. } => format!("delete {key}"),
            Intent::Emptied { key, .. } => format!("emptied {key}"),
            Intent::Status { status, .. } => {
                let bad =
                    status["conditions"].as_array().unwrap().iter().filter(|condition| condition["status"] == "True");
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
            assert_eq!(texts(&ended(spec, items.clone(), damaged)), expected, "{items:?}");
        };
        let (map, pod, going) =
            (item("configmaps", "m", false, &[]), item("pods", "p", false, &[]), item("pods", "q", true, &[]));
        check(held(), vec![map.clone(), pod, going.clone()], vec![], &["delete pods/ns/p"]);
        check(held(), vec![map.clone(), going], vec![], &[""]);
        check(held(), vec![map.clone()], vec![], &["delete configmaps/ns/m"]);
        let stuck = item("configmaps", "n", true, &["a.b/c"]);
        let words = "Some resources are remaining: configmaps. has 1 resource instances; \
                     Some content in the namespace has finalizers remaining: a.b/c in 1 resource instances";
        check(held(), vec![stuck], vec![], &[words]);
        check(held(), vec![], vec![], &[""]);
        // The namespace exists without a finalizer: the master started in the middle of its end.
        check(json!({}), vec![], vec![], &["emptied namespaces/ns"]);
        // A foreign finalizer holds the namespace: the conditions have nothing else to report.
        check(json!({"finalizers": ["x.io/hold"]}), vec![], vec![], &[""]);
        let words = "Failed to delete all resource types: secrets/ns/s is damaged: delete it; \
                     Some resources are remaining: secrets. has 1 resource instances";
        check(held(), vec![], vec![key("secrets", "s")], &[words]);
    }

    #[test]
    fn an_empty_namespace_says_so_before_it_goes() {
        let of = Key { namespace: String::new(), ..key("namespaces", "ns") };
        let mut namespace =
            json!({"metadata": {"deletionTimestamp": "x"}, "spec": {"finalizers": ["kubernetes"]}, "status": {}});
        let wall = Time::from_seconds(1_600_000_000).unwrap();
        let look = |namespace: &Value| {
            end(
                &of,
                &Contents { namespace: namespace.clone(), seen: Revision(9), items: vec![], damaged: vec![] },
                wall,
            )
        };
        let first = look(&namespace);
        let [Intent::Status { status, .. }] = first.as_slice() else { panic!("{first:?}") };
        assert_eq!(status["conditions"].as_array().map(Vec::len), Some(5));
        namespace["status"] = status.clone();
        assert_eq!(texts(&look(&namespace)), ["emptied namespaces/ns"]);
    }

    #[test]
    fn a_look_takes_away_so_many() {
        let many = (0..DELETIONS_MAX + 9).map(|n| item("configmaps", &format!("m{n}"), false, &[])).collect();
        assert_eq!(ended(json!({"finalizers": ["kubernetes"]}), many, vec![]).len(), DELETIONS_MAX);
    }

    /// In kube-system alone, and whatever people put into it.
    #[test]
    fn servers_that_extend_the_api_are_told_of_authorities() {
        let trust = Trust { root: "R".into(), clients: "C".into(), proxies: "P".into() };
        let settings = Settings { trust: Some(Arc::new(trust.clone())), ..Settings::default() };
        let mut cluster = Controllers::builtin().cluster(&Kinds::builtin(), settings);
        let of = |namespace: &str| Key { namespace: namespace.into(), ..key("configmaps", EXTENSION) };
        let told = |cluster: &Cluster, namespace: &str| -> Vec<&'static str> {
            let intents = lacking(cluster, namespace);
            let one = |intent: &Intent| match intent {
                Intent::Create { object, .. } if object["metadata"]["name"] == EXTENSION => Some("create"),
                Intent::Update { key, object, .. } if key.name == EXTENSION => {
                    Some(if object["data"]["mine"] == "x" { "update" } else { "spoil" })
                }
                _ => None,
            };
            intents.iter().filter_map(one).collect()
        };
        let put = |cluster: &mut Cluster, key: Key, object: Value| {
            let (revision, key) = (Revision(1), Arc::new(key));
            let new = Some(Stored::of(key.clone(), revision, &mut object.clone()));
            cluster.apply(&Event { revision, key, old: None, new, renewed: false }, Duration::ZERO);
        };
        assert_eq!((told(&cluster, CLUSTER), told(&cluster, "ns")), (vec!["create"], vec![]));
        put(&mut cluster, of("ns"), json!({"data": {"mine": "x"}}));
        assert_eq!((told(&cluster, CLUSTER), told(&cluster, "ns")), (vec!["create"], vec![]));
        put(&mut cluster, of(CLUSTER), json!({"data": {"mine": "x"}}));
        assert_eq!(told(&cluster, CLUSTER), ["update"]);
        let right = extension(Some(&json!({"data": {"mine": "x"}})), &trust).expect("it is wrong");
        put(&mut cluster, of(CLUSTER), right);
        assert_eq!(told(&cluster, CLUSTER), Vec::<&str>::new());
    }

    #[test]
    fn what_a_namespace_lacks() {
        let trust = Some(Arc::new(Trust { root: "PEM".into(), ..Trust::default() }));
        let settings = Settings { trust, ..Settings::default() };
        let mut cluster = Controllers::builtin().cluster(&Kinds::builtin(), settings);
        let check = |cluster: &Cluster, expected: &[&str]| {
            let one = |intent: &Intent| match intent {
                Intent::Create { resource, object, .. } => {
                    format!("create {resource}/{}", object["metadata"]["name"].as_str().unwrap())
                }
                Intent::Update { key, .. } => format!("update {key}"),
                other => format!("{other:?}"),
            };
            let now = Now { wall: Time::from_seconds(1_600_000_000).unwrap(), uptime: Duration::ZERO };
            let decision = decide(&Look {
                cluster,
                key: &namespace_key("ns"),
                now,
                refusal: None,
                contents: None,
                memory: None,
                memo: None,
            });
            assert_eq!(decision.intents.iter().map(one).collect::<Vec<_>>(), expected);
            decision.errand
        };
        let mut revision = 0;
        let mut put = |cluster: &mut Cluster, key: Key, object: Value| {
            revision += 1;
            let (revision, key) = (Revision(revision), Arc::new(key));
            let new = (!object.is_null()).then(|| Stored::of(key.clone(), revision, &mut object.clone()));
            cluster.apply(&Event { revision, key, old: None, new, renewed: false }, Duration::ZERO);
        };
        check(&cluster, &[]);
        put(&mut cluster, namespace_key("ns"), json!({"metadata": {"name": "ns"}}));
        check(&cluster, &["create serviceaccounts/default", "create configmaps/kube-root-ca.crt"]);
        put(&mut cluster, key("serviceaccounts", "default"), json!({}));
        put(&mut cluster, key("configmaps", "kube-root-ca.crt"), json!({"data": {"ca.crt": "another"}}));
        check(&cluster, &["update configmaps/ns/kube-root-ca.crt"]);
        put(&mut cluster, key("configmaps", "kube-root-ca.crt"), json!({"data": {"ca.crt": "PEM"}}));
        check(&cluster, &[]);
        // Another authority is trusted.
        cluster.settings.trust = Some(Arc::new(Trust { root: "PEM PEM".into(), ..Trust::default() }));
        check(&cluster, &["update configmaps/ns/kube-root-ca.crt"]);
        cluster.settings.trust = Some(Arc::new(Trust { root: "PEM".into(), ..Trust::default() }));
        put(&mut cluster, key("configmaps", "kube-root-ca.crt"), Value::Null);
        cluster.damaged.insert(key("configmaps", "kube-root-ca.crt"));
        check(&cluster, &[]);
        put(
            &mut cluster,
            namespace_key("ns"),
            json!({"metadata": {"name": "ns", "deletionTimestamp": "2027-01-01T00:00:00Z"}}),
        );
        assert_eq!(check(&cluster, &[]), Some(Lookup::Contents("ns".to_owned())));
    }
}

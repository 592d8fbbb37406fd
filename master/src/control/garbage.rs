//! Garbage collection: the fate of objects whose owners go. PURE.
//!
//!     all its owners are gone          -> it goes too
//!     an owner waits for it to go      -> it goes too (foregroundDeletion), and then the owner is let go
//!     owners wait for each other       -> they are let go: none of them ever would be
//!     an owner is to go without it     -> the owner is taken off it (orphan), and then the owner is let go
//!     it keeps an owner                -> the others are taken off it
//!
//!     a volume or a claim, in use      -> its protection is taken off it when nobody uses it any more

use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{Decision, Intent};
use super::references::{Object, Reference, References, Stand, State};
use super::rules::ControlRule;
use super::view::NAMESPACES;
use coracle_api::meta::Key;
use coracle_api::strategy::finalizer::{FOREGROUND, ORPHAN};

pub fn all(cluster: &Cluster) -> Vec<Key> {
    cluster.references.keys().cloned().collect()
}

/// A pod may have been the last user of an object that is being deleted.
pub fn by_pod(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    cluster.references.guarded(&change.key.namespace).cloned().collect()
}

pub fn decide(look: &Look<'_>) -> Decision {
    let decision = collect(&look.cluster.references, look.key, |claim| look.cluster.uses(claim));
    let collects = decision.intents.iter().any(|intent| matches!(intent, Intent::Collect { .. }));
    if collects && !look.cluster.holds(ControlRule::OwnedObjectsAreCollected) { Decision::default() } else { decision }
}

/// `used`: whether a pod uses the claim.
fn collect(graph: &References, key: &Key, used: impl Fn(&Key) -> bool) -> Decision {
    let Some(vertex) = graph.get(key) else { return Decision::default() };
    let State::Here(object) = &vertex.state else { return Decision::default() };
    let seen = vertex.revision;
    // They end in an order of their own, and what one holds is too much to go because of a line in it.
    let is_namespace = key.resource == NAMESPACES;
    let disown = |uids: Vec<String>| Decision::of(vec![Intent::Disown { key: key.clone(), seen, owners: uids }]);
    let release = |finalizer| Decision::of(vec![Intent::Release { key: key.clone(), seen, finalizer }]);
    let stands: Vec<(&Reference, Stand)> = object.owners.iter().map(|owner| (owner, graph.stand(owner))).collect();
    let uids = |wanted: &[Stand]| -> Vec<String> {
        stands.iter().filter(|(_, stand)| wanted.contains(stand)).map(|(owner, _)| owner.uid.clone()).collect()
    };
    let let_go = uids(&[Stand::LetsGo]);
    if !let_go.is_empty() {
        return disown(let_go);
    }
    if object.deleting {
        // A volume is used by the claim that it is bound to.
        let in_use = if key.namespace.is_empty() { object.bound } else { object.guard.is_some() && used(key) };
        return match &**object {
            Object { guard: Some(guard), .. } if !in_use => release(Some(*guard)),
            Object { released: true, .. } if !is_namespace => release(None),
            Object { lets_go: true, uid, .. } if !graph.owns(vertex, uid, false) => release(Some(ORPHAN)),
            Object { waits: true, .. } if graph.waits_for_nothing(key) => release(Some(FOREGROUND)),
            _ => Decision::default(),
        };
    }
    let over = uids(&[Stand::Gone, Stand::Waits]);
    if over.is_empty() || is_namespace {
        return Decision::default();
    }
    if over.len() < stands.len() {
        return disown(over);
    }
    let foreground = !uids(&[Stand::Waits]).is_empty() && graph.owns(vertex, &object.uid, false);
    Decision::of(vec![Intent::Collect { key: key.clone(), seen, foreground }])
}

#[cfg(test)]
mod tests {
    use super::super::references::GUARDS;
    use super::*;
    use crate::store::{Damaged, Event, Stored};
    use coracle_api::kinds::Kinds;
    use coracle_api::meta::{Resource, Revision};
    use serde_json::{Value, json};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn key(plural: &'static str, name: &str) -> Key {
        Key { resource: Resource::core(plural), namespace: "default".to_owned(), name: name.to_owned() }
    }

    /// Applies these writes in order; null is a deletion.
    fn graph(events: &[(&str, Value)]) -> References {
        let mut graph = References::of(&Kinds::builtin());
        for (revision, (name, meta)) in (1..).map(Revision).zip(events) {
            let key = Arc::new(key("configmaps", name));
            let stored = || Stored::of(key.clone(), revision, &mut json!({"metadata": meta}));
            graph.apply(&Event {
                revision,
                key: key.clone(),
                old: None,
                new: (!meta.is_null()).then(stored),
                renewed: false,
            });
        }
        graph
    }

    /// Looks up all unresolved owners. `other` has another uid than the references say.
    fn look(graph: &mut References) {
        for key in graph.unlooked() {
            let found = match key.name.as_str() {
                "other" => Ok(Some(Stored::of(
                    Arc::new(key.clone()),
                    Revision(1),
                    &mut json!({"metadata": {"uid": "another"}}),
                ))),
                "there" => {
                    Ok(Some(Stored::of(Arc::new(key.clone()), Revision(1), &mut json!({"metadata": {"uid": "there"}}))))
                }
                "damaged" => Err(Damaged { why: "half a file".to_owned() }),
                _ => Ok(None),
            };
            graph.saw(&key, Revision(1), &found);
        }
    }

    fn check(events: &[(&str, Value)], expected: &[&str]) {
        let mut graph = graph(events);
        look(&mut graph);
        let line = |intent: Intent| match intent {
            Intent::Collect { key, foreground, .. } => {
                format!("{} goes{}", key.name, if foreground { " after what it owns" } else { "" })
            }
            Intent::Disown { key, owners, .. } => format!("{} loses {}", key.name, owners.join(" ")),
            Intent::Release { key, finalizer, .. } => {
                format!("{} is released: {}", key.name, finalizer.unwrap_or("nothing holds it"))
            }
            other => panic!("{other:?}"),
        };
        let keys: Vec<Key> = graph.keys().cloned().collect();
        let found: Vec<String> =
            keys.iter().flat_map(|key| collect(&graph, key, |key| key.name == "used").intents).map(line).collect();
        assert_eq!(found, expected, "{events:?}");
    }

    /// Owned by objects of these names, each with its name as uid; `!`: in a way that it waits for.
    fn owned(owners: &[&str]) -> Value {
        let owner = |name: &&str| {
            let (name, blocks) = name.strip_prefix('!').map_or((*name, false), |name| (name, true));
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "blockOwnerDeletion": blocks})
        };
        json!({"uid": "x", "ownerReferences": owners.iter().map(owner).collect::<Vec<_>>()})
    }

    fn leaving(uid: &str, finalizers: &[&str]) -> Value {
        json!({
            "uid": uid, "deletionTimestamp": "2027-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0,
            "finalizers": finalizers,
        })
    }

    #[test]
    fn what_its_owners_leave() {
        check(&[("a", owned(&["there"]))], &[]);
        check(&[("a", owned(&["gone"]))], &["a goes"]);
        check(&[("a", owned(&["other"]))], &["a goes"]);
        check(&[("a", owned(&["there", "gone"]))], &["a loses gone"]);
        // Unknown is not absent.
        check(&[("a", owned(&["damaged"]))], &[]);
        check(&[("a", owned(&["damaged", "gone"]))], &["a loses gone"]);
        let foreign =
            json!({"ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "t"}]});
        check(&[("a", foreign)], &[]);
        // It came, and went.
        check(&[("o", owned(&["there"])), ("a", owned(&["o"])), ("o", Value::Null)], &["a goes"]);
        // What is going anyway is left alone.
        let mut going = owned(&["gone"]);
        going["deletionTimestamp"] = "2027-01-01T00:00:00Z".into();
        going["deletionGracePeriodSeconds"] = 30.into();
        check(&[("a", going)], &[]);
    }

    /// It would be looked for in no namespace, and not be found there.
    #[test]
    fn what_is_in_no_namespace_stays_whatever_owns_it() {
        let mut graph = References::of(&Kinds::builtin());
        let role = Resource { group: "rbac.authorization.k8s.io".into(), plural: "clusterroles".into() };
        let key = Arc::new(Key { resource: role, namespace: String::new(), name: "r".to_owned() });
        let new = Some(Stored::of(key.clone(), Revision(1), &mut json!({"metadata": owned(&["gone"])})));
        graph.apply(&Event { revision: Revision(1), key: key.clone(), old: None, new, renewed: false });
        look(&mut graph);
        assert_eq!(collect(&graph, &key, |_| false), Decision::default());
    }

    #[test]
    fn foreground() {
        let waits = leaving("o", &[FOREGROUND]);
        check(&[("o", waits.clone()), ("a", owned(&["!o"]))], &["a goes"]);
        check(&[("o", waits.clone()), ("a", owned(&["o"]))], &["a goes", "o is released: foregroundDeletion"]);
        check(&[("o", waits.clone()), ("a", owned(&["!o", "there"]))], &["a loses o"]);
        check(&[("o", waits.clone())], &["o is released: foregroundDeletion"]);
        // What is owned goes the same way.
        let mut second = owned(&["x"]);
        second["ownerReferences"][0]["name"] = "a".into();
        second["uid"] = "y".into();
        check(&[("o", waits.clone()), ("a", owned(&["!o"])), ("b", second)], &["a goes after what it owns"]);
        let mut going = owned(&["!o"]);
        going["deletionTimestamp"] = "2027-01-01T00:00:00Z".into();
        going["deletionGracePeriodSeconds"] = 30.into();
        check(&[("o", waits.clone()), ("a", going)], &[]);
        check(&[("o", leaving("o", &[FOREGROUND, "example.com/mine"]))], &["o is released: foregroundDeletion"]);
        check(&[("o", leaving("o", &["example.com/mine"])), ("a", owned(&["o"]))], &[]);
    }

    #[test]
    fn circles_do_not_wait_for_themselves() {
        let of = |name: &str, owner: &str, waits: bool| {
            let mut meta = owned(&[owner]);
            meta["uid"] = name.into();
            if waits {
                meta["deletionTimestamp"] = "2027-01-01T00:00:00Z".into();
                meta["finalizers"] = json!([FOREGROUND]);
            }
            meta
        };
        // An object of the circle is not being deleted yet: the other objects wait.
        check(
            &[("a", of("a", "!c", true)), ("b", of("b", "!a", true)), ("c", of("c", "!b", false))],
            &["c goes after what it owns"],
        );
        let released = ["a", "b", "c"].map(|name| format!("{name} is released: foregroundDeletion"));
        let released = released.each_ref().map(String::as_str);
        let circle = [("a", of("a", "!c", true)), ("b", of("b", "!a", true)), ("c", of("c", "!b", true))];
        check(&circle, &released);
        check(&[("a", of("a", "!a", true))], &["a is released: foregroundDeletion"]);
        // A further dependent outside the circle keeps the whole circle.
        let mut more = circle.to_vec();
        let mut going = owned(&["!b"]);
        going["deletionTimestamp"] = "2027-01-01T00:00:00Z".into();
        going["deletionGracePeriodSeconds"] = 30.into();
        more.push(("d", going));
        check(&more, &[]);
    }

    #[test]
    fn orphans() {
        let lets_go = leaving("o", &[ORPHAN]);
        check(&[("o", lets_go.clone()), ("a", owned(&["o"]))], &["a loses o"]);
        check(&[("o", lets_go.clone()), ("a", owned(&["o", "gone"]))], &["a loses o"]);
        check(&[("o", lets_go.clone()), ("a", owned(&["o"])), ("a", json!({"uid": "x"}))], &["o is released: orphan"]);
        check(&[("o", leaving("o", &[]))], &["o is released: nothing holds it"]);
    }

    #[test]
    fn what_is_used_stays() {
        check(&[("c", leaving("c", &[GUARDS[0]]))], &["c is released: kubernetes.io/pvc-protection"]);
        check(&[("used", leaving("c", &[GUARDS[0]]))], &[]);
        check(
            &[("c", leaving("c", &[GUARDS[0], "example.com/mine"]))],
            &["c is released: kubernetes.io/pvc-protection"],
        );
    }

    /// Old news comes after newer: what was looked up has seen more than the events that are on their way.
    #[test]
    fn revisions_decide() {
        let mut graph = graph(&[("a", owned(&["new"]))]);
        let owner = key("configmaps", "new");
        let stored = Stored::of(Arc::new(owner.clone()), Revision(9), &mut json!({"metadata": {"uid": "new"}}));
        assert_eq!(graph.unlooked(), BTreeSet::from([owner.clone()]));
        graph.saw(&owner, Revision(8), &Ok(Some(stored)));
        graph.apply(&Event {
            revision: Revision(5),
            key: Arc::new(owner.clone()),
            old: None,
            new: None,
            renewed: false,
        });
        assert_eq!(
            collect(&graph, &key("configmaps", "a"), |_| false),
            Decision::default(),
            "its forerunner went at 5"
        );
        graph.apply(&Event { revision: Revision(10), key: Arc::new(owner), old: None, new: None, renewed: false });
        assert_eq!(collect(&graph, &key("configmaps", "a"), |_| false).intents.len(), 1);
        graph.apply(&Event {
            revision: Revision(11),
            key: Arc::new(key("configmaps", "a")),
            old: None,
            new: None,
            renewed: false,
        });
        assert_eq!(graph.keys().count(), 0, "what is over is forgotten");
    }
}

//! Namespaces.

use super::checks::PROBLEMS_MAX;
use super::doc::{copy, has, list, map_at, text};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Deleting, Deletion, Making, Rules, Share};
use super::{finalizer, general, names};
use coracle_schema::{Path, Problem};
use serde_json::{Value, json};

/// The label with the name of each namespace, for selectors.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
pub const FINALIZER: &str = finalizer::NAMESPACE;
/// The namespace that is the cluster: its uid is the cluster's identity, and its secrets are the cluster's keys.
pub const CLUSTER: &str = "kube-system";
/// Every cluster has these.
pub const SYSTEM: [&str; 4] = ["default", "kube-node-lease", "kube-public", CLUSTER];
/// System namespaces that cannot be deleted.
pub const PROTECTED: [&str; 3] = ["default", "kube-public", CLUSTER];

pub static NAMESPACE: BuiltinStrategy = BuiltinStrategy {
    create,
    update,
    status_update,
    validate,
    validate_update,
    delete,
    released,
    ..general::strategy::<true, false>()
};

fn create(namespace: &mut Value, making: &mut Making<'_>) {
    meta::create(namespace, making, false);
    let mut finalizers = list(&namespace["spec"], "finalizers").to_vec();
    if !finalizers.iter().any(|one| one == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    namespace["spec"] = json!({"finalizers": finalizers});
    namespace["status"] = json!({"phase": "Active"});
    label(namespace);
}

/// Finalizers are taken away through `finalize` alone.
fn update(new: &mut Value, old: &Value, _making: &mut Making<'_>) {
    copy(new, old, "spec");
    copy(new, old, "status");
    label(new);
    meta::update(new, old, false);
}

fn status_update(new: &mut Value, old: &Value) {
    label(new);
    meta::status_update(new, old);
}

fn label(namespace: &mut Value) {
    let name = namespace["metadata"]["name"].clone();
    let meta = map_at(namespace, "metadata");
    if !meta.get("labels").is_some_and(Value::is_object) {
        meta.insert("labels".into(), json!({}));
    }
    meta["labels"][NAME_LABEL] = name;
}

/// Deletion starts: no object can be created in the namespace any more, and the controllers delete the existing
/// objects. The namespace is removed when the last finalizer is gone.
fn delete(namespace: &Value, deleting: Deleting) -> Deletion {
    if !is_ending(namespace) {
        let mut ending = namespace.clone();
        ending["metadata"]["deletionTimestamp"] = deleting.now.to_string().into();
        map_at(&mut ending, "status").insert("phase".into(), "Terminating".into());
        // A namespace older than finalizers gets the finalizer now: the controllers must delete the objects here too.
        if list(&ending["spec"], "finalizers").is_empty() {
            ending["spec"] = json!({"finalizers": [FINALIZER]});
        }
        return Deletion::Mark(ending);
    }
    if released(namespace) { Deletion::Remove } else { Deletion::Mark(namespace.clone()) }
}

/// A namespace has no grace period; the objects in the namespace have. The finalizers in the spec name the controllers
/// that still have work.
fn released(namespace: &Value) -> bool {
    is_ending(namespace)
        && list(&namespace["spec"], "finalizers").is_empty()
        && list(&namespace["metadata"], "finalizers").is_empty()
}

pub fn is_ending(namespace: &Value) -> bool {
    has(&namespace["metadata"], "deletionTimestamp")
}

/// The namespace held by these finalizers alone.
pub fn held_by(namespace: &Value, finalizers: &[Value]) -> Value {
    let mut held = namespace.clone();
    held["spec"] = if finalizers.is_empty() { json!({}) } else { json!({"finalizers": finalizers}) };
    held
}

/// The namespace whose content has gone.
pub fn emptied(namespace: &Value) -> Value {
    let others: Vec<Value> =
        list(&namespace["spec"], "finalizers").iter().filter(|one| *one != FINALIZER).cloned().collect();
    held_by(namespace, &others)
}

/// Names of namespaces were labels in 2014 too.
fn validate(namespace: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(namespace, Scope::Cluster, names::label, Rules { old_names: false, ..rules });
    for one in list(&namespace["spec"], "finalizers").iter().take(PROBLEMS_MAX) {
        found.extend(finalizer::of_spec(one.as_str().unwrap_or_default(), &Path::new("spec.finalizers")));
    }
    found
}

fn validate_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = general::changed(new, old, rules, validate);
    found.extend(phase(new, old));
    found
}

/// A namespace ends when it is deleted, and then it does.
fn phase(new: &Value, old: &Value) -> Option<Problem> {
    let phase = text(&new["status"], "phase");
    let (only, words) = match has(&new["metadata"], "deletionTimestamp") {
        false => ("Active", "may only be 'Active' if `deletionTimestamp` is empty"),
        true => ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"),
    };
    let wrong = phase != only && phase != text(&old["status"], "phase");
    wrong.then(|| Problem::invalid(&Path::new("status.Phase"), phase, words))
}

/// The finalizers of a namespace: each controller removes its finalizer here when its work is done.
pub static FINALIZE: Share = Share {
    name: "finalize",
    take: |new, old, _| {
        let finalizers = new["spec"]["finalizers"].take();
        label(new);
        meta::part(new, old);
        map_at(new, "spec").insert("finalizers".into(), finalizers);
    },
    validate_update: |new, old, rules| {
        let path = Path::new("spec.finalizers");
        let mut found = validate_update(new, old, rules);
        found.retain(|problem| problem.path != path);
        // Here alone Kubernetes says which.
        let all = list(&new["spec"], "finalizers").iter().enumerate().take(PROBLEMS_MAX);
        found.extend(all.flat_map(|(at, one)| finalizer::of_spec(one.as_str().unwrap_or_default(), &path.index(at))));
        found
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::Time;

    #[test]
    fn deletions() {
        fn check(namespace: Value, expected: Option<Value>) {
            let deleting = Deleting { grace_s: None, now: Time::from_seconds(1_600_000_000).unwrap() };
            let found = match delete(&namespace, deleting) {
                Deletion::Remove => None,
                Deletion::Mark(marked) => Some(marked),
                other => panic!("{other:?}"),
            };
            assert_eq!(found, expected, "{namespace}");
        }
        let at = "2020-09-13T12:26:40Z";
        let active = json!({"metadata": {}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        let ending = json!({
            "metadata": {"deletionTimestamp": at}, "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Terminating"},
        });
        check(active.clone(), Some(ending.clone()));
        check(held_by(&active, &[]), Some(ending.clone()));
        check(ending.clone(), Some(ending.clone()));
        check(held_by(&ending, &[]), None);
        let mut held = held_by(&ending, &[]);
        held["metadata"]["finalizers"] = json!(["a.b/c"]);
        check(held.clone(), Some(held));
    }

    #[test]
    fn what_holds_it_and_how_it_ends() {
        let of = |finalizers: Value| {
            json!({
                "metadata": {"name": "a"}, "spec": {"finalizers": finalizers}, "status": {"phase": "Active"},
            })
        };
        let texts = |found: Vec<Problem>| found.iter().map(Problem::to_string).collect::<Vec<_>>();
        assert_eq!(texts(validate(&of(json!(["kubernetes", "a.b/c"])), Rules::default())), Vec::<String>::new());
        let words = "spec.finalizers: Invalid value: \"x\": name is neither a standard finalizer name nor is it fully \
                     qualified";
        assert_eq!(texts(validate(&of(json!(["x"])), Rules::default())), [words]);
        let (old, mut new) = (of(json!([])), of(json!([])));
        new["status"]["phase"] = "Terminating".into();
        let words =
            "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty";
        assert_eq!(texts(validate_update(&new, &old, Rules::default())), [words]);
    }

    #[test]
    fn the_content_has_gone() {
        let of =
            |finalizers: Value| json!({"metadata": {"deletionTimestamp": "x"}, "spec": {"finalizers": finalizers}});
        assert!(released(&emptied(&of(json!(["kubernetes"])))));
        let held = emptied(&of(json!(["kubernetes", "x.io/hold"])));
        assert_eq!(held["spec"], json!({"finalizers": ["x.io/hold"]}));
        assert!(!released(&held));
    }
}

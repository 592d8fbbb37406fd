//! Namespaces.

use super::doc::{copy, map_at, text};
use super::meta::{self, Scope};
use super::{Making, Rules, Strategy, names, no_claims, whole};
use coracle_schema::Problem;
use serde_json::{Value, json};

/// The label that every namespace has, so that selectors can name one.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// These hold the cluster's own objects and its identity.
pub const PROTECTED: [&str; 2] = ["default", "kube-system"];

pub static NAMESPACE: Strategy = Strategy {
    create,
    update,
    status_update: meta::status_update,
    validate,
    validate_update,
    claims: no_claims,
    durable: whole,
    delete: meta::delete,
    released: meta::is_released,
};

/// No finalizer `kubernetes`, which would promise that a deletion empties the namespace: see `refuse_delete`.
fn create(namespace: &mut Value, making: &mut Making<'_>) {
    meta::create(namespace, making, false);
    namespace["spec"] = json!({});
    namespace["status"] = json!({"phase": "Active"});
    label(namespace);
}

fn update(new: &mut Value, old: &Value, _making: &mut Making<'_>) {
    new["spec"] = json!({});
    copy(new, old, "status");
    label(new);
    meta::update(new, old, false);
}

fn label(namespace: &mut Value) {
    let name = namespace["metadata"]["name"].clone();
    let meta = map_at(namespace, "metadata");
    if !meta.get("labels").is_some_and(Value::is_object) {
        meta.insert("labels".into(), json!({}));
    }
    meta["labels"][NAME_LABEL] = name;
}

/// Names of namespaces were labels in 2014 too.
fn validate(namespace: &Value, rules: Rules) -> Vec<Problem> {
    meta::validate(namespace, Scope::Cluster, names::label, Rules { old_names: false, ..rules })
}

fn validate_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate_update(new, old);
    found.extend(meta::new_problems(validate(new, rules), &validate(old, rules)));
    found
}

/// Why a namespace cannot be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// 403.
    Protected(String),
    /// 409.
    NotEmpty(String),
}

/// Whether a namespace may go: not the cluster's own, and none that holds anything. Nothing is deleted behind the
/// back of whoever asked: what remains is named. `remaining`: plural and count, without events, which fade by themselves.
pub fn refuse_delete(namespace: &Value, remaining: &[(&str, usize)]) -> Option<Held> {
    let name = text(&namespace["metadata"], "name");
    if PROTECTED.contains(&name) {
        return Some(Held::Protected(format!("namespaces {name:?} is forbidden: this namespace may not be deleted")));
    }
    let counts: Vec<String> = remaining.iter().filter(|(_, count)| *count > 0).map(|(plural, count)| format!("{count} {plural}")).collect();
    if counts.is_empty() {
        return None;
    }
    let counts = counts.join(", ");
    Some(Held::NotEmpty(format!("namespaces {name:?} is not empty: delete what it still holds first ({counts})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions() {
        fn check(name: &str, remaining: &[(&str, usize)], expected: Option<Held>) {
            assert_eq!(refuse_delete(&json!({"metadata": {"name": name}}), remaining), expected);
        }
        let protected =
            |name: &str| Some(Held::Protected(format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted")));
        check("default", &[], protected("default"));
        check("kube-system", &[("pods", 1)], protected("kube-system"));
        check("a", &[("pods", 0)], None);
        let words = "namespaces \"a\" is not empty: delete what it still holds first (2 pods, 1 services)";
        check("a", &[("pods", 2), ("endpoints", 0), ("services", 1)], Some(Held::NotEmpty(words.into())));
    }
}

//! Finalizers: what holds an object that is being deleted, by name.

use super::checks::{PROBLEMS_MAX, full};
use super::doc::list;
use super::names;
use coracle_schema::{Path, Problem};
use serde_json::Value;

/// Holds an object that is being deleted until what it owns is gone.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Holds an object that is being deleted until what it owned is let go.
pub const ORPHAN: &str = "orphan";

/// Holds a namespace until all that is in it has gone.
pub const NAMESPACE: &str = "kubernetes";

/// Names that no finalizer may have.
pub fn forms(meta: &Value) -> Vec<Problem> {
    let path = Path::new("metadata.finalizers");
    let all = list(meta, "finalizers");
    let mut problems = Vec::new();
    for finalizer in all {
        if full(&problems) {
            break;
        }
        let name = finalizer.as_str().unwrap_or_default();
        problems.extend(names::problems(&path, name, names::qualified(name)));
    }
    if all.iter().any(|one| one == ORPHAN) && all.iter().any(|one| one == FOREGROUND) {
        problems.push(Problem::invalid(
            &path,
            all.to_vec(),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
    problems
}

/// Those that are neither Kubernetes' own nor somebody's by a domain.
pub fn unknown(meta: &Value) -> Vec<Problem> {
    let path = Path::new("metadata.finalizers");
    let all = list(meta, "finalizers").iter().enumerate();
    let unknown = all.filter_map(|(at, one)| unknown_name(one.as_str().unwrap_or_default(), &path.index(at)));
    unknown.take(PROBLEMS_MAX).collect()
}

/// The problems of a finalizer in a namespace's spec.
pub fn of_spec(name: &str, path: &Path) -> Vec<Problem> {
    let mut problems = names::problems(path, name, names::qualified(name));
    problems.extend(unknown_name(name, path));
    problems
}

fn unknown_name(name: &str, path: &Path) -> Option<Problem> {
    let known = name.contains('/') || [NAMESPACE, ORPHAN, FOREGROUND].contains(&name);
    let words = "name is neither a standard finalizer name nor is it fully qualified";
    (!known).then(|| Problem::invalid(path, name, words))
}

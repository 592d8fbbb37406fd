//! Finalizers: what holds an object that is being deleted, by name.

use super::checks::{PROBLEMS_MAX, full, too_many};
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

/// Finalizers of one object. Kubernetes bounds them by the size of the object alone, which is some 20,000. The deletion
/// of a finalizer searches the whole list, and real objects have less than a dozen finalizers.
const FINALIZERS_MAX: usize = 1000;

/// Names that no finalizer may have.
pub fn forms(meta: &Value) -> Vec<Problem> {
    let path = Path::new("metadata.finalizers");
    let all = list(meta, "finalizers");
    let mut problems: Vec<Problem> = too_many(all.len(), FINALIZERS_MAX, &path).into_iter().collect();
    for finalizer in all.iter().take(FINALIZERS_MAX) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn how_many() {
        let of = |count: usize| {
            let all: Vec<String> = (0..count).map(|at| format!("a.io/{at}")).collect();
            forms(&json!({"finalizers": all})).iter().map(Problem::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of(FINALIZERS_MAX), [""; 0]);
        assert_eq!(of(20_000), ["metadata.finalizers: Too many: 20000: must have at most 1000 items"]);
    }
}

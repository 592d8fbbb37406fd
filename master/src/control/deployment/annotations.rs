//! The annotations of a ReplicaSet: copies from the Deployment, the revision, and the size at the last scaling. PURE.

use super::view::DeploymentView;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

pub const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISIONS_BEFORE: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations that a ReplicaSet does not get from its Deployment.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISIONS_BEFORE,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];
/// The maximal length of the list of a set's earlier revisions.
const REVISIONS_BEFORE_BYTES_MAX: usize = 2000;

/// Gives a set the annotations of its Deployment.
pub fn copy(deployment: &DeploymentView, annotations: &mut Map<String, Value>) {
    for (name, value) in deployment.annotations.iter().filter(|(name, _)| !NOT_COPIED.contains(&name.as_str())) {
        annotations.insert(name.clone(), value.as_str().into());
    }
}

/// Gives a set a revision number unless its number is as high already; the set's history keeps the old number.
pub fn number(annotations: &mut Map<String, Value>, revision: i64) {
    let had = annotations.get(REVISION).and_then(Value::as_str).unwrap_or_default().to_owned();
    // An unparsable number is from a foreign writer and stays.
    let Ok(number) = (if had.is_empty() { Ok(0) } else { had.parse::<i64>() }) else { return };
    if number >= revision {
        return;
    }
    if annotations.contains_key(REVISION) {
        let before = annotations.get(REVISIONS_BEFORE).and_then(Value::as_str).unwrap_or_default();
        let mut all: Vec<&str> = before.split(',').filter(|one| !one.is_empty()).collect();
        all.push(&had);
        let length = |all: &[&str]| all.iter().map(|one| one.len() + 1).sum::<usize>().saturating_sub(1);
        while length(&all) > REVISIONS_BEFORE_BYTES_MAX {
            all.remove(0);
        }
        let all = all.join(",");
        annotations.insert(REVISIONS_BEFORE.to_owned(), all.into());
    }
    annotations.insert(REVISION.to_owned(), revision.to_string().into());
}

/// Says in a set for which size of the Deployment it was scaled.
pub fn note_size(annotations: &mut Map<String, Value>, deployment: &DeploymentView) {
    annotations.insert(DESIRED.to_owned(), deployment.replicas.to_string().into());
    annotations.insert(MAX.to_owned(), (deployment.replicas.saturating_add(deployment.surge)).to_string().into());
}

/// The desired and the maximum number of the Deployment's pods when the set was scaled, from the set's annotations.
pub fn sizes(annotations: &BTreeMap<String, String>) -> (Option<i32>, Option<i32>) {
    let number = |name: &str| annotations.get(name)?.parse::<i32>().ok().filter(|number| *number >= 0);
    (number(DESIRED), number(MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers() {
        let check = |was: Value, revision: i64, expected: Value| {
            let mut annotations = was.as_object().expect("a map").clone();
            number(&mut annotations, revision);
            assert_eq!(Value::from(annotations), expected);
        };
        check(json!({}), 1, json!({REVISION: "1"}));
        check(json!({REVISION: "3"}), 2, json!({REVISION: "3"}));
        check(json!({REVISION: "1"}), 3, json!({REVISION: "3", REVISIONS_BEFORE: "1"}));
        check(json!({REVISION: "3", REVISIONS_BEFORE: "1"}), 5, json!({REVISION: "5", REVISIONS_BEFORE: "1,3"}));
        check(json!({REVISION: "x"}), 5, json!({REVISION: "x"}));
        let long = vec!["1000000000"; 182].join(",");
        let mut annotations = json!({REVISION: "9", REVISIONS_BEFORE: long}).as_object().expect("a map").clone();
        number(&mut annotations, 10);
        let before = annotations[REVISIONS_BEFORE].as_str().expect("text");
        assert!(before.len() <= REVISIONS_BEFORE_BYTES_MAX && before.ends_with(",9"));
    }
}

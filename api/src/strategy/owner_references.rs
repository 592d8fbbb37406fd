//! The owner references of an object.

use super::checks::full;
use super::doc::{list, shown, text, yes};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::HashSet;

/// The maximum number of duplicate owners that are reported.
const DOUBLED_MAX: usize = 16;

pub(super) fn validate(meta: &Value, path: &Path) -> Vec<Problem> {
    let path = path.field("ownerReferences");
    let mut problems = Vec::new();
    let mut controller: Option<String> = None;
    let mut several = false;
    for owner in list(meta, "ownerReferences") {
        if full(&problems) {
            break;
        }
        let version = text(owner, "apiVersion");
        if version.is_empty() || version.split('/').count() > 2 || version.ends_with('/') {
            problems.push(Problem::invalid(&path.field("apiVersion"), version, "version must not be empty"));
        }
        for needed in ["kind", "name", "uid"] {
            if text(owner, needed).is_empty() {
                problems.push(Problem::invalid(&path.field(needed), "", "must not be empty"));
            }
        }
        if version == "v1" && text(owner, "kind") == "Event" {
            problems.push(Problem::invalid(&path, owner.clone(), "/v1, Kind=Event is disallowed from being an owner"));
        }
        if yes(owner, "controller") {
            let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            // Once is enough: each further one would show the whole list again.
            if let Some(first) = controller.as_ref().filter(|_| !several) {
                several = true;
                let words = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and \
                     {this}"
                );
                let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
                let all: Vec<String> =
                    list(meta, "ownerReferences").iter().map(|owner| shown(owner, &fields)).collect();
                problems.push(Problem::new(&path, Reason::Invalid, None, format!("[{}]: {words}", all.join(","))));
            }
            controller.get_or_insert(this);
        }
    }
    problems
}

/// The warning about an owner that is named twice, in the document as it was sent.
pub fn doubled(object: &Value) -> Option<String> {
    let (mut seen, mut twice) = (HashSet::new(), Vec::new());
    for owner in list(&object["metadata"], "ownerReferences") {
        let uid = text(owner, "uid");
        if !seen.insert(uid) && !twice.contains(&uid) && twice.len() < DOUBLED_MAX {
            twice.push(uid);
        }
    }
    let words = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, \
                 and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed";
    (!twice.is_empty()).then(|| format!("{words}: {}", twice.join(", ")))
}

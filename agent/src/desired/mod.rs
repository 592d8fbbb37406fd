//! The pods that all sources want to run here, merged into one value. PURE: the sources themselves are beside this
//! file.
//!
//! directory (with a page of another host), master -> `SourceState` each -> `merge` -> `Desired` -> the loop

pub mod assigned;
mod complaints;
pub mod directory;
pub mod ended;
pub mod file;
mod file_problems;
pub mod file_services;
pub mod follow;
mod former;
pub mod given_up;
mod good;
pub mod heard;
mod inotify;
pub mod known;
pub mod last;
pub mod manifest;
pub mod master;
pub mod objects;
pub mod page;
pub mod refusals;
pub mod restarts;
mod shelf;
pub mod together;
pub mod unkept;
mod watched;
mod workload;

use std::collections::{BTreeMap, BTreeSet};

use coracle_keeper::problem::{Problem, Subject};

pub use crate::facts::desired::Desired;
use crate::facts::naming::{PodName, Source};
use crate::facts::source_state::SourceState;
use crate::facts::wanted::Wanted;

/// Merges the sources. Only one pod of a uid can run, and only one pod of a namespace and name from one source: the
/// earlier source, or the earlier pod of a source, wins. The answer names the dropped pods, for the log.
pub fn merge(sources: &BTreeMap<Source, SourceState>) -> (Desired, Vec<String>) {
    let mut desired = Desired::default();
    let mut dropped = Vec::new();
    let mut names = BTreeSet::new();
    for (&source, state) in sources {
        for wanted in &state.pods {
            let PodName { namespace, name, uid, .. } = &wanted.name;
            let mut drop = |why: String| {
                desired.problems.push(left_out(wanted, why.clone()));
                dropped.push(format!("pod {namespace}/{name} from {source}: {why}"));
            };
            if let Some(first) = desired.pods.get(uid) {
                let first = &first.name;
                drop(format!(
                    "its uid {uid} is that of {}/{} from {}; give it another one",
                    first.namespace, first.name, first.source
                ));
            } else if !names.insert((source, namespace.clone(), name.clone())) {
                drop("there is another of that name; give it another one".to_owned());
            } else {
                desired.pods.insert(uid.clone(), wanted.clone());
            }
        }
        if !state.complete {
            desired.unknown.insert(source);
        }
        desired.gone.extend(state.gone.iter());
        desired.former.extend(state.former.iter().cloned());
        desired.problems.extend(state.problems.iter().cloned());
        if source == Source::File {
            desired.files = state.files.clone();
        }
    }
    // A source that has not spoken yet is unknown, not empty.
    desired.unknown.extend(Source::ALL.into_iter().filter(|source| !sources.contains_key(source)));
    desired.gone.retain(|uid| !desired.pods.contains_key(uid));
    (desired, dropped)
}

fn left_out(wanted: &Wanted, why: String) -> Problem {
    let PodName { source, namespace, name, .. } = &wanted.name;
    let what = format!("it is left out, from {source}");
    Problem { why, ..Problem::new("PodLeftOut", Subject::new("pod", namespace, name), what) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    fn wanted(source: Source, namespace: &str, name: &str, uid: &str) -> Arc<Wanted> {
        Arc::new(Wanted::new(source, json!({"metadata": {"namespace": namespace, "name": name, "uid": uid}})).unwrap())
    }

    fn state(pods: Vec<Arc<Wanted>>, complete: bool) -> SourceState {
        SourceState { pods, complete, ..SourceState::default() }
    }

    #[test]
    fn one_name_in_two_namespaces_is_two_pods() {
        let file = state(vec![wanted(Source::File, "a", "web", "1"), wanted(Source::File, "b", "web", "2")], true);
        let master = state(vec![wanted(Source::Master, "a", "web", "3")], true);
        let (desired, dropped) = merge(&BTreeMap::from([(Source::File, file), (Source::Master, master)]));
        assert_eq!(desired.pods.keys().collect::<Vec<_>>(), ["1", "2", "3"]);
        assert_eq!(dropped, Vec::<String>::new());
        assert!(desired.unknown.is_empty());
    }

    #[test]
    fn of_two_only_the_first() {
        let file = state(vec![wanted(Source::File, "a", "web", "1"), wanted(Source::File, "a", "web", "2")], true);
        let master = state(vec![wanted(Source::Master, "c", "x", "1")], true);
        let (desired, dropped) = merge(&BTreeMap::from([(Source::File, file), (Source::Master, master)]));
        assert_eq!(desired.pods.len(), 1);
        assert_eq!(dropped.len(), 2);
        let lines: Vec<String> = desired.problems.iter().map(Problem::line).collect();
        assert!(
            lines.len() == 2 && lines[0].starts_with("pod a/web: it is left out, from file: there is"),
            "{lines:?}"
        );
        assert!(dropped[1].contains("a/web from file"), "{dropped:?}");
    }

    #[test]
    fn unknown_is_not_absent() {
        let name = |source, uid: &str| PodName { source, namespace: "a".into(), name: "x".into(), uid: uid.into() };
        let incomplete = SourceState { gone: ["heard"].into_iter().collect(), ..SourceState::default() };
        let (desired, _) = merge(&BTreeMap::from([(Source::Master, incomplete)]));
        assert!(!desired.is_gone(&name(Source::Master, "quiet")));
        assert!(desired.is_gone(&name(Source::Master, "heard")));
        assert!(!desired.is_gone(&name(Source::File, "f")), "a source that has not spoken");
        let (desired, _) =
            merge(&BTreeMap::from([(Source::File, state(vec![wanted(Source::File, "a", "x", "1")], true))]));
        assert!(!desired.is_gone(&name(Source::File, "1")));
        assert!(desired.is_gone(&name(Source::File, "2")));
    }
}

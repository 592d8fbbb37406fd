//! What the sources want to run here, merged into one value. PURE: the sources themselves are beside this file.
//!
//! directory, master -> `SourceState` each -> `merge` -> `Desired` -> the loop

pub mod directory;
pub mod follow;
pub mod last;
pub mod manifest;
pub mod master;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use coracle_api::pod::Pod;
use coracle_api::service::{Endpoints, Service};
use serde_json::Value;

use crate::hash::{container_hash, sandbox_hash};
use crate::naming::{PodName, fit_uid};
use coracle_api::fields;

/// Where a pod comes from. The name stands in a label of its containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    File,
    Master,
}

impl Source {
    pub const ALL: [Source; 2] = [Source::File, Source::Master];

    pub fn name(self) -> &'static str {
        match self {
            Source::File => "file",
            Source::Master => "api",
        }
    }

    pub fn parse(name: &str) -> Option<Source> {
        Source::ALL.into_iter().find(|source| source.name() == name)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One pod as its source has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Who it is on this host. The uid is one that names can hold, see `naming::fit_uid`.
    pub name: PodName,
    /// The v1 document as the source has it, with namespace, name and uid.
    pub document: Value,
    /// What logic reads of it.
    pub pod: Pod,
    /// What follows from the document alone, worked out once: its hashes and what of it is not supported.
    pub sandbox_hash: String,
    pub container_hashes: Vec<String>,
    pub refused: Option<String>,
}

impl Wanted {
    /// From a v1 document with namespace, name and uid. The error says what cannot be read.
    pub fn new(source: Source, document: Value) -> Result<Wanted, String> {
        let pod = Pod::read(&document).map_err(|error| error.to_string())?;
        let meta = &pod.metadata;
        for (field, value) in [("metadata.namespace", &meta.namespace), ("metadata.name", &meta.name), ("metadata.uid", &meta.uid)] {
            if value.is_empty() {
                return Err(format!("{field}: missing"));
            }
        }
        let name = PodName { source, namespace: meta.namespace.clone(), name: meta.name.clone(), uid: fit_uid(&meta.uid) };
        let containers = document["spec"]["containers"].as_array();
        let container_hashes = containers.into_iter().flatten().map(container_hash).collect();
        let (sandbox_hash, refused) = (sandbox_hash(&document), fields::refused(&document));
        Ok(Wanted { name, document, pod, sandbox_hash, container_hashes, refused })
    }

    /// What the master has on record of a container that has ended for good: it is not started again, even if nothing of it is left here.
    pub fn ended_before(&self, container: &str) -> Option<&Value> {
        let recorded = Some(&self.document["status"]).filter(|_| self.name.source == Source::Master)?;
        ended_for_good(recorded, &self.pod.spec.restart_policy, container)
    }

    /// What a container was started of stands on it, as this.
    pub fn hash_of(&self, index: usize) -> Option<String> {
        Some(format!("{}.{}", self.container_hashes.get(index)?, self.sandbox_hash))
    }

    /// What the master has on record of an ephemeral container that was started.
    pub fn started_before(&self, ephemeral: &str) -> Option<&Value> {
        let statuses = self.document["status"]["ephemeralContainerStatuses"].as_array();
        let status = statuses.into_iter().flatten().find(|status| status["name"] == ephemeral)?;
        was_started(status).then_some(status)
    }
}

/// A container's part of a status that says that it has ended, and will not be started again.
pub fn ended_for_good<'a>(status: &'a Value, policy: &str, container: &str) -> Option<&'a Value> {
    let statuses = status["containerStatuses"].as_array().into_iter().flatten();
    let status = statuses.into_iter().find(|status| status["name"] == container)?;
    is_for_good(status, policy).then_some(status)
}

fn is_for_good(status: &Value, policy: &str) -> bool {
    let state = &status["state"]["terminated"];
    state.is_object()
        && match policy {
            "Never" => true,
            "OnFailure" => state["exitCode"].as_i64().unwrap_or(0) == 0,
            _ => false,
        }
}

fn was_started(status: &Value) -> bool {
    !status["state"]["waiting"].is_object() && status["containerID"].is_string()
}

/// What one source said last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceState {
    /// In the source's own order; of two with one uid or one name the first counts.
    pub pods: Vec<Wanted>,
    /// False: pods may be missing here that the source still wants (a listing that failed, a file without a last good version).
    /// What runs of it stays.
    pub complete: bool,
    /// Uids of pods whose deletion was heard from the source itself, or that it answered 404 for: these are stopped also when the
    /// listing is not complete.
    pub gone: BTreeSet<String>,
}

/// All that this host should run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// By uid.
    pub pods: BTreeMap<String, Wanted>,
    /// Sources whose missing pods are unknown, not absent.
    pub unknown: BTreeSet<Source>,
    pub gone: BTreeSet<String>,
    /// v1 Services and Endpoints of all namespaces, as last heard: for service variables and for nft.
    pub services: Vec<Service>,
    pub endpoints: Vec<Endpoints>,
}

/// Puts the sources together. What two sources both claim goes to the earlier of the list, and the answer names the losers, for
/// the log: of one uid, or of one namespace and name from one source, only one can run.
pub fn merge(sources: &BTreeMap<Source, SourceState>) -> (Desired, Vec<String>) {
    let mut desired = Desired::default();
    let mut dropped = Vec::new();
    let mut names = BTreeSet::new();
    for (&source, state) in sources {
        for wanted in &state.pods {
            let PodName { namespace, name, uid, .. } = &wanted.name;
            if let Some(first) = desired.pods.get(uid) {
                let first = &first.name;
                dropped.push(format!(
                    "pod {namespace}/{name} from {source}: its uid {uid} is that of {}/{} from {}; give it another one",
                    first.namespace, first.name, first.source
                ));
            } else if !names.insert((source, namespace.clone(), name.clone())) {
                dropped.push(format!("pod {namespace}/{name} from {source}: there is another of that name; give it another one"));
            } else {
                desired.pods.insert(uid.clone(), wanted.clone());
            }
        }
        if !state.complete {
            desired.unknown.insert(source);
        }
        desired.gone.extend(state.gone.iter().map(|uid| fit_uid(uid)));
    }
    // A source that has not spoken yet is unknown, not empty.
    desired.unknown.extend(Source::ALL.into_iter().filter(|source| !sources.contains_key(source)));
    desired.gone.retain(|uid| !desired.pods.contains_key(uid));
    (desired, dropped)
}

impl Desired {
    /// Whether the containers of a pod that no source lists have to go. Unknown is not absent.
    pub fn is_gone(&self, pod: &PodName) -> bool {
        !self.pods.contains_key(&pod.uid) && (self.gone.contains(&pod.uid) || !self.unknown.contains(&pod.source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wanted(source: Source, namespace: &str, name: &str, uid: &str) -> Wanted {
        Wanted::new(source, json!({"metadata": {"namespace": namespace, "name": name, "uid": uid}})).unwrap()
    }

    fn state(pods: Vec<Wanted>, complete: bool) -> SourceState {
        SourceState { pods, complete, gone: BTreeSet::new() }
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
        assert!(dropped[1].contains("a/web from file"), "{dropped:?}");
    }

    #[test]
    fn unknown_is_not_absent() {
        let name = |source, uid: &str| PodName { source, namespace: "a".into(), name: "x".into(), uid: uid.into() };
        let incomplete = SourceState { pods: Vec::new(), complete: false, gone: BTreeSet::from(["heard".to_owned()]) };
        let (desired, _) = merge(&BTreeMap::from([(Source::Master, incomplete)]));
        assert!(!desired.is_gone(&name(Source::Master, "quiet")));
        assert!(desired.is_gone(&name(Source::Master, "heard")));
        assert!(!desired.is_gone(&name(Source::File, "f")), "a source that has not spoken");
        let (desired, _) = merge(&BTreeMap::from([(Source::File, state(vec![wanted(Source::File, "a", "x", "1")], true))]));
        assert!(!desired.is_gone(&name(Source::File, "1")));
        assert!(desired.is_gone(&name(Source::File, "2")));
    }
}

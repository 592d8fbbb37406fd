//! The pods that all sources want to run here, merged into one value. PURE: the sources themselves are beside this file.
//!
//! directory (with a page of another host), master -> `SourceState` each -> `merge` -> `Desired` -> the loop

pub mod assigned;
pub mod directory;
pub mod file;
pub mod follow;
mod inotify;
pub mod known;
pub mod last;
pub mod manifest;
pub mod master;
pub mod node_said;
pub mod objects;
pub mod page;
pub mod together;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coracle_api::pod::Pod;
use coracle_api::service::Service;
use serde_json::Value;

use crate::desired::node_said::NodeSaid;
use crate::dns::resolv::Dns;
use crate::hash::{EPHEMERAL_HASH, container_hash, manifest_hash, plain_hash, sandbox_hash};
use crate::members::{Kind, Member, members};
pub use crate::naming::Source;
use crate::naming::{PodName, fit_uid};
use coracle_api::fields;
use objects::Objects;

/// One pod as its source has it. All but the name follows from the document, and is worked out once.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Which pod it is on this host. The uid is one that names can hold, see `naming::fit_uid`.
    pub name: PodName,
    /// The v1 document as the source has it, with namespace, name and uid.
    pub document: Value,
    /// The typed view of it.
    pub pod: Pod,
    pub sandbox_hash: String,
    /// By the container's name: the hash that its instances carry.
    hashes: BTreeMap<String, String>,
    /// For a pod of a file: the hash that its mirror shows.
    pub manifest_hash: String,
    /// Its fields that are not supported, in words.
    pub refused: Option<String>,
    /// The ConfigMaps and Secrets that it names, and the tokens that it mounts.
    pub objects: BTreeSet<objects::Ref>,
    pub tokens: BTreeSet<objects::TokenRef>,
}

impl PartialEq for Wanted {
    fn eq(&self, other: &Wanted) -> bool {
        self.name == other.name && self.document == other.document
    }
}

/// Two `Arc`s of one `Wanted` are equal without a look inside.
impl Eq for Wanted {}

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
        let (sandbox_hash, refused) = (sandbox_hash(&document), fields::refused(&document));
        let hash = |member: &Member| match member.kind {
            Kind::Ephemeral => EPHEMERAL_HASH.to_owned(),
            // What its pod shares is part of it: an edit of that replaces a container, too.
            _ => {
                let container = &document["spec"][member.kind.list()][member.index];
                format!("{}.{sandbox_hash}.{}", container_hash(container), plain_hash(container))
            }
        };
        let hashes = members(&pod.spec).map(|member| (member.spec.name.clone(), hash(&member))).collect();
        let manifest_hash = if source == Source::File { manifest_hash(&document) } else { String::new() };
        let (objects, tokens) = (objects::uses::objects(&name.namespace, &name.name, &pod.spec), objects::tokens::of(&pod));
        Ok(Wanted { name, document, pod, sandbox_hash, hashes, manifest_hash, refused, objects, tokens })
    }

    /// Its containers of every kind.
    pub fn members(&self) -> impl Iterator<Item = Member<'_>> {
        members(&self.pod.spec)
    }

    pub fn member(&self, name: &str) -> Option<Member<'_>> {
        self.members().find(|member| member.spec.name == name)
    }

    /// The hash that stands on every instance of it.
    pub fn hash_of(&self, member: &Member<'_>) -> String {
        self.hashes.get(&member.spec.name).cloned().unwrap_or_default()
    }

    /// The container's own part of the document.
    pub fn document_of(&self, member: &Member<'_>) -> &Value {
        &self.document["spec"][member.kind.list()][member.index]
    }

    /// The record that the master has of a container that has ended for good: it is not started again, even if nothing
    /// of it is left here.
    pub fn ended_before(&self, member: &Member<'_>) -> Option<&Value> {
        let recorded = Some(&self.document["status"]).filter(|_| self.name.source == Source::Master)?;
        ended_for_good(recorded, &self.pod.spec.restart_policy, member)
    }

    /// Whether a container that ended with this code starts again. An init container that has succeeded is done.
    pub fn starts_again(&self, member: &Member<'_>, exit_code: i32) -> bool {
        starts_again(member, &self.pod.spec.restart_policy, exit_code)
    }

    /// The record that the master has of an ephemeral container that was started.
    pub fn started_before(&self, member: &Member<'_>) -> Option<&Value> {
        status_of(&self.document["status"], member).filter(|status| was_started(status))
    }
}

/// A container's part of a pod's status.
pub fn status_of<'a>(status: &'a Value, member: &Member<'_>) -> Option<&'a Value> {
    let statuses = status[member.kind.statuses()].as_array().into_iter().flatten();
    statuses.into_iter().find(|status| status["name"] == member.spec.name.as_str())
}

/// A container's part of a status that says that it has ended, and will not be started again.
pub fn ended_for_good<'a>(status: &'a Value, policy: &str, member: &Member<'_>) -> Option<&'a Value> {
    status_of(status, member).filter(|status| exit_code(status).is_some_and(|code| !starts_again(member, policy, code)))
}

fn starts_again(member: &Member<'_>, policy: &str, exit_code: i32) -> bool {
    match member.kind {
        Kind::Ephemeral => false,
        Kind::Sidecar => true,
        Kind::Init => exit_code != 0 && member.spec.starts_again(policy, exit_code),
        Kind::Main => member.spec.starts_again(policy, exit_code),
    }
}

/// The exit code of a container that has ended.
fn exit_code(status: &Value) -> Option<i32> {
    let ended = status["state"]["terminated"].as_object()?;
    Some(ended.get("exitCode").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok()).unwrap_or(0))
}

fn was_started(status: &Value) -> bool {
    !status["state"]["waiting"].is_object() && status["containerID"].is_string()
}

/// The latest state of one source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceState {
    /// In the source's own order; of two with one uid or one name the first counts.
    pub pods: Vec<Arc<Wanted>>,
    /// False: pods may be missing here that the source still wants (a listing that failed, a file without a last good version).
    /// What runs of it stays.
    pub complete: bool,
    /// Uids of pods whose deletion was heard from the source itself, or that it answered 404 for: these are stopped also when the
    /// listing is not complete.
    pub gone: BTreeSet<String>,
    /// Of the master: which cluster it is, and the uids of pods of those that it was before.
    pub cluster: String,
    pub foreign: BTreeSet<String>,
    /// Of files: the ConfigMaps, Secrets and claims that their pods may use.
    pub objects: BTreeMap<objects::Ref, Arc<objects::Object>>,
}

/// All that this host should run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// By uid.
    pub pods: BTreeMap<String, Arc<Wanted>>,
    /// Sources whose missing pods are unknown, not absent.
    pub unknown: BTreeSet<Source>,
    pub gone: BTreeSet<String>,
    /// v1 Services of all namespaces, as last heard: for service variables.
    pub services: Arc<Vec<Arc<Service>>>,
    /// How the names of new pods resolve.
    pub dns: Dns,
    /// The master's part of this node. None: unknown.
    pub node: Option<Arc<NodeSaid>>,
    /// The data of ConfigMaps and Secrets for pods.
    pub objects: Arc<Objects>,
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
        assert!(dropped[1].contains("a/web from file"), "{dropped:?}");
    }

    #[test]
    fn unknown_is_not_absent() {
        let name = |source, uid: &str| PodName { source, namespace: "a".into(), name: "x".into(), uid: uid.into() };
        let incomplete = SourceState { gone: BTreeSet::from(["heard".to_owned()]), ..SourceState::default() };
        let (desired, _) = merge(&BTreeMap::from([(Source::Master, incomplete)]));
        assert!(!desired.is_gone(&name(Source::Master, "quiet")));
        assert!(desired.is_gone(&name(Source::Master, "heard")));
        assert!(!desired.is_gone(&name(Source::File, "f")), "a source that has not spoken");
        let (desired, _) = merge(&BTreeMap::from([(Source::File, state(vec![wanted(Source::File, "a", "x", "1")], true))]));
        assert!(!desired.is_gone(&name(Source::File, "1")));
        assert!(desired.is_gone(&name(Source::File, "2")));
    }
}

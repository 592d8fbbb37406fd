//! A pod from its source, with the values derived from its document. PURE.

use std::collections::{BTreeMap, BTreeSet};

use coracle_api::fields;
use coracle_api::pod::Pod;
use serde_json::Value;

use crate::facts::hash::{EPHEMERAL_HASH, container_hash, manifest_hash, plain_hash, sandbox_hash};
use crate::facts::members::{Member, MemberKind, members};
use crate::facts::naming::{PodName, Source, fit_uid};
use crate::facts::objects::{Ref, TokenRef, tokens, uses};
use crate::facts::recorded::{ended_for_good, exit_code, starts_again, status_of, was_started};

/// A pod from its source. All fields but the name are derived from the document, once.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The pod's identity on this host. The uid is one that names can hold, see `naming::fit_uid`.
    pub name: PodName,
    /// The v1 document as the source has it, with namespace, name and uid.
    pub document: Value,
    /// The typed view of it.
    pub pod: Pod,
    pub sandbox_hash: String,
    /// By the container's name: the hash in its instances' labels.
    hashes: BTreeMap<String, String>,
    /// For a pod of a file: the hash on its mirror.
    pub manifest_hash: String,
    /// Whether a container has a restart rule that restarts all containers.
    restarts_all: bool,
    /// The message about unsupported fields.
    pub refused: Option<String>,
    /// The ConfigMaps and Secrets that the pod names, and the tokens that the pod mounts.
    pub objects: BTreeSet<Ref>,
    pub tokens: BTreeSet<TokenRef>,
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
        for (field, value) in
            [("metadata.namespace", &meta.namespace), ("metadata.name", &meta.name), ("metadata.uid", &meta.uid)]
        {
            if value.is_empty() {
                return Err(format!("{field}: missing"));
            }
        }
        let name =
            PodName { source, namespace: meta.namespace.clone(), name: meta.name.clone(), uid: fit_uid(&meta.uid) };
        let sandbox_hash = sandbox_hash(&document);
        let refused = fields::refused(&document)
            .or_else(|| Some(source).filter(|source| *source == Source::File).and_then(|_| tokens::of_no_file(&pod)));
        let hash = |member: &Member| match member.kind {
            MemberKind::Ephemeral => EPHEMERAL_HASH.to_owned(),
            // The hash covers the fields that the whole pod shares: an edit of such a field replaces the container,
            // too.
            _ => {
                let container = &document["spec"][member.kind.list()][member.index];
                format!("{}.{sandbox_hash}.{}", container_hash(container), plain_hash(container))
            }
        };
        let hashes = members(&pod.spec).map(|member| (member.spec.name.clone(), hash(&member))).collect();
        let manifest_hash = if source == Source::File { manifest_hash(&document) } else { String::new() };
        let (objects, tokens) = (uses::objects(&name.namespace, &name.name, &pod.spec), tokens::of(&pod));
        let restarts_all =
            members(&pod.spec).any(|member| member.kind != MemberKind::Ephemeral && member.spec.may_restart_all());
        Ok(Wanted { name, document, pod, sandbox_hash, hashes, manifest_hash, restarts_all, refused, objects, tokens })
    }

    /// The same with a status that is on record.
    pub fn with_status(&self, status: &Value) -> Wanted {
        let mut wanted = self.clone();
        wanted.document["status"] = status.clone();
        wanted.pod = Pod::read(&wanted.document).unwrap_or(wanted.pod);
        wanted
    }

    /// Its containers of every kind.
    pub fn members(&self) -> impl Iterator<Item = Member<'_>> {
        members(&self.pod.spec)
    }

    pub fn member(&self, name: &str) -> Option<Member<'_>> {
        self.members().find(|member| member.spec.name == name)
    }

    /// The hash in the labels of every instance of the container.
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

    /// The record that the master has of an init container that has succeeded.
    pub fn succeeded_before(&self, member: &Member<'_>) -> Option<&Value> {
        let recorded = Some(&self.document["status"])
            .filter(|_| self.name.source == Source::Master && member.kind == MemberKind::Init)?;
        status_of(recorded, member).filter(|status| exit_code(status) == Some(0))
    }

    /// Whether a container has a restart rule with the action `RestartAllContainers`.
    pub fn restarts_all(&self) -> bool {
        self.restarts_all
    }

    /// Whether a container that ended with this code starts again. An init container that has succeeded is done.
    pub fn starts_again(&self, member: &Member<'_>, exit_code: i32) -> bool {
        starts_again(member, &self.pod.spec.restart_policy, exit_code)
    }

    /// The record that the master has of an ephemeral container that was started.
    pub fn started_before(&self, member: &Member<'_>) -> Option<&Value> {
        status_of(&self.document["status"], member).filter(|status| was_started(status))
    }

    /// The number of restarts in the master's record of a container. None: the record shows no start.
    pub fn restarts_told(&self, member: &Member<'_>) -> Option<u32> {
        let status = status_of(&self.document["status"], member).filter(|_| member.kind != MemberKind::Ephemeral)?;
        let count = u32::try_from(status["restartCount"].as_u64()?).ok()?;
        let has_one = status["containerID"].as_str().is_some_and(|id| !id.is_empty());
        match status["lastState"]["terminated"]["reason"].as_str() {
            _ if has_one || status["state"]["terminated"].is_object() => Some(count),
            // It is about to begin, and counted as if it had.
            Some("RestartingAllContainers") => count.checked_sub(1),
            reason => reason.map(|_| count),
        }
    }
}

//! ControllerRevisions: the templates that a StatefulSet or DaemonSet has had, numbered in the order in which they were
//! used last. PURE.

use super::cluster::Cluster;
use super::controller::ObservedChange;
use super::intent::Intent;
use super::replicas::{Parent, TemplateView, owner, with_owners};
use super::shelf::View;
use super::template::{self, PATCH};
use super::view::{document, of_group, read};
use crate::store::Stored;
use coracle_api::meta::{Key, OwnerReference, Resource, Revision as StoreRevision, Time};
use coracle_api::workload::ControllerRevision;
use serde_json::{Value, json};
use std::time::Duration;

pub const REVISIONS: Resource = of_group("apps", "controllerrevisions");
/// At most this much of the owner's name goes into a revision's name.
const BASE_BYTES_MAX: usize = 223;

#[derive(Clone, Debug)]
pub struct RevisionView {
    pub seen: StoreRevision,
    pub owner: Option<OwnerReference>,
    pub deleting: bool,
    pub number: i64,
    pub created: Option<Time>,
    /// Stands for its data.
    pub identity: u64,
    pub document: Stored,
}

impl View for RevisionView {
    const OF: &'static [Resource] = &[REVISIONS];

    fn is_orphan(&self) -> bool {
        self.owner.is_none()
    }

    fn read(stored: &Stored, _: Option<&RevisionView>, _: Duration) -> Option<RevisionView> {
        let ControllerRevision { metadata, revision } = read(stored)?;
        Some(RevisionView {
            seen: stored.revision,
            owner: metadata.controller().cloned(),
            deleting: metadata.deletion_timestamp.is_some(),
            number: revision,
            created: metadata.creation_timestamp,
            identity: template::identity(&document(stored)["data"]["spec"]["template"]),
            document: stored.clone(),
        })
    }
}

pub type Revision<'c> = (&'c Key, &'c RevisionView);

/// The owners that a revision concerns.
pub fn by_revision<V: Parent>(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let namespace = &change.key.namespace;
    if change.is_unreadable() {
        return cluster.within::<V>(namespace).map(|(key, _)| key.clone()).collect();
    }
    let mut keys = Vec::new();
    for revision in change.was::<RevisionView>().into_iter().chain(cluster.get(change.key)) {
        match &revision.owner {
            Some(one) => keys.extend(owner::<V>(cluster, namespace, &one.name, &one.uid)),
            None => {
                let takers = cluster.within::<V>(namespace);
                let takers = takers.filter(|(_, one)| one.template().selector.selects(&revision.document.labels));
                keys.extend(takers.map(|(key, _)| key.clone()));
            }
        }
    }
    keys
}

/// The revisions of an object, the newest last; adopts orphans with matching labels.
pub fn claim<'c>(
    cluster: &'c Cluster,
    key: &'c Key,
    parent: &'c TemplateView,
    intents: &mut Vec<Intent>,
) -> Vec<Revision<'c>> {
    let mine = |revision: &RevisionView| revision.owner.as_ref().is_some_and(|owner| owner.uid == parent.uid);
    let mut all: Vec<Revision<'c>> =
        cluster.dependents::<RevisionView>(key).filter(|(_, revision)| mine(revision)).collect();
    for (revision_key, revision) in cluster.orphans_in::<RevisionView>(&key.namespace) {
        if !parent.deleting && !revision.deleting && parent.selector.selects(&revision.document.labels) {
            let object = with_owners(document(&revision.document), |owners| owners.insert(0, parent.reference(key)));
            intents.push(Intent::Update { key: revision_key.clone(), seen: revision.seen, object });
            all.push((revision_key, revision));
        }
    }
    all.sort_by_key(|revision| age(*revision));
    all
}

fn age<'c>((key, revision): Revision<'c>) -> (i64, Option<i64>, &'c str) {
    (revision.number, revision.created.map(|time| time.seconds()), &key.name)
}

/// The number after the newest revision's number.
pub fn next_number(all: &[Revision<'_>]) -> i64 {
    all.last().map_or(1, |(_, newest)| newest.number.saturating_add(1))
}

/// The revision of the present template, or the step that is still needed to get this revision.
pub enum Present<'c> {
    Stands(Revision<'c>),
    Needs(Box<Intent>),
    /// To be made: under this name, of this hash, after as many collisions.
    Missing {
        name: String,
        hash: String,
        collisions: i32,
    },
}

/// `hash`: of so many collisions. One that was used before is used again, with a new number.
pub fn present<'c>(
    cluster: &'c Cluster,
    key: &Key,
    all: &[Revision<'c>],
    identity: u64,
    mut collisions: i32,
    hash: impl Fn(i32) -> String,
) -> Present<'c> {
    if let Some((revision_key, revision)) = all.iter().rev().find(|(_, revision)| revision.identity == identity) {
        if all.last().is_some_and(|(_, newest)| newest.identity == identity) {
            return Present::Stands((revision_key, revision));
        }
        let mut object = document(&revision.document);
        object["revision"] = next_number(all).into();
        let update = Intent::Update { key: Key::clone(revision_key), seen: revision.seen, object };
        return Present::Needs(Box::new(update));
    }
    loop {
        let hash = hash(collisions);
        let base = key.name.get(..BASE_BYTES_MAX).unwrap_or(&key.name);
        let name = format!("{base}-{hash}");
        let taken = Key { resource: REVISIONS, namespace: key.namespace.clone(), name: name.clone() };
        match cluster.entry::<RevisionView>(&taken) {
            None => return Present::Missing { name, hash, collisions },
            // A foreign revision with the same content: Kubernetes uses such a revision unchanged.
            Some((taken, revision)) if revision.identity == identity => return Present::Stands((taken, revision)),
            Some(_) => collisions = collisions.saturating_add(1),
        }
    }
}

/// A template as a revision holds it.
pub fn data(template: &Value) -> Value {
    let mut replaced = template.clone();
    replaced[PATCH] = "replace".into();
    json!({"spec": {"template": replaced}})
}

/// The template that a revision holds.
pub fn template_of(revision: &RevisionView) -> Value {
    let mut template = document(&revision.document)["data"]["spec"]["template"].take();
    template.as_object_mut().map(|template| template.remove(PATCH));
    template
}

/// Deletes the oldest unused revisions beyond the number that is kept.
pub fn clean_up(all: &[Revision<'_>], kept: Option<i32>, used: impl Fn(Revision<'_>) -> bool) -> Vec<Intent> {
    let Some(kept) = kept.and_then(|kept| usize::try_from(kept).ok()) else { return Vec::new() };
    let unused: Vec<Revision<'_>> = all.iter().copied().filter(|revision| !used(*revision)).collect();
    let surplus = unused.len().saturating_sub(kept);
    let delete =
        |(key, revision): &Revision<'_>| Intent::Delete { key: Key::clone(key), seen: revision.seen, at_once: false };
    unused[..surplus].iter().filter(|(_, revision)| !revision.deleting).map(delete).collect()
}

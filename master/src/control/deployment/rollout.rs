//! What a look at a Deployment sees, and what it does for the rollout. PURE.

use super::super::cluster::Cluster;
use super::super::controller::Now;
use super::super::intent::{Doing, Intent, Refusal};
use super::super::replication::{REPLICA_SETS, ReplicationView};
use super::super::rules::ControlRule;
use super::super::view::document;
use super::view::DeploymentView;
use coracle_api::meta::Key;
use serde_json::Value;

/// The reason of a ReplicaSet that could not be made.
pub const FAILED: &str = "ReplicaSetCreateError";

/// A ReplicaSet of the Deployment.
pub type Set<'c> = (&'c Key, &'c ReplicationView);

/// What a look at a Deployment sees.
pub struct Rollout<'c> {
    pub cluster: &'c Cluster,
    pub now: Now,
    pub key: &'c Key,
    pub deployment: &'c DeploymentView,
    pub refusal: Option<&'c Refusal>,
    /// The ReplicaSet with the present template.
    pub new: Option<Set<'c>>,
    /// All others, the oldest first.
    pub old: Vec<Set<'c>>,
}

impl<'c> Rollout<'c> {
    pub fn all(&self) -> impl Iterator<Item = Set<'c>> {
        self.old.iter().copied().chain(self.new)
    }

    /// The ReplicaSets that have pods or want pods.
    pub fn active(&self) -> Vec<Set<'c>> {
        self.all().filter(|(_, set)| set.replicas > 0).collect()
    }

    pub fn size(&self) -> i32 {
        self.all().map(|(_, set)| set.replicas).sum()
    }

    /// Whether the state of a pod is lost: it may be in any, so none is taken for a bad one.
    pub fn is_untold(&self) -> bool {
        let cluster = self.cluster;
        let mut pods = self.all().flat_map(|(key, set)| cluster.pods_of(key, &set.template.uid));
        cluster.holds(ControlRule::UntoldIsNotMissing) && pods.any(|(_, pod)| pod.untold())
    }

    /// A write of the Deployment's annotations and status.
    pub fn note(&self, change: impl FnOnce(&mut Value)) -> Intent {
        let template = &self.deployment.template;
        let mut object = document(&template.document);
        change(&mut object);
        Intent::Note { key: self.key.clone(), seen: template.revision, object }
    }
}

/// What a look does for a rollout.
pub enum Stage {
    Scaled(Vec<Intent>),
    /// Something has to happen first.
    Waits,
    /// A new ReplicaSet.
    Made(Vec<Intent>),
    /// Nothing is left to be scaled.
    Done,
}

impl Stage {
    pub fn of(intents: Vec<Intent>) -> Option<Stage> {
        (!intents.is_empty()).then_some(Stage::Scaled(intents))
    }
}

/// The oldest come first.
pub fn age<'c>((key, set): Set<'c>) -> (Option<i64>, &'c str) {
    (set.rollout.created.map(|time| time.seconds()), &key.name)
}

/// Why a ReplicaSet could not be made; None where something else was refused.
pub fn not_made(refusal: &Refusal) -> Option<String> {
    match &refusal.doing {
        Doing::Making(resource, name) if *resource == REPLICA_SETS => {
            Some(format!("Failed to create new replica set {name:?}: {}", refusal.why))
        }
        _ => None,
    }
}

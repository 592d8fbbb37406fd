//! Deployments: one ReplicaSet for each template that a Deployment has had, and the move from the old ones to the new. PURE.
//!
//!     adopt, release       the ReplicaSets that changed sides
//!     paused, resumed      a condition says so
//!     new set              its annotations follow the Deployment's; it is made where there is none
//!     scale                the Deployment was scaled, or is paused: its sets keep their proportions
//!     roll, recreate       the new set grows, the old ones shrink
//!     history, status
//!
//! A look does one of these; its writes bring the key back for the next.

mod history;
mod recreate;
mod rolling;
mod scale;
mod sets;
mod status;
mod view;

pub use sets::{REVISION, by_pod, by_set, sizes};
pub use view::{DeploymentView, share};

use super::cluster::Cluster;
use super::controller::{Look, Now};
use super::intent::{Decision, Doing, Intent, Refusal, Tale};
use super::replication::{REPLICA_SETS, ReplicationView};
use super::rules::Rule;
use super::view::document;
use coracle_api::meta::Key;
use std::time::Duration;

/// A ReplicaSet of the Deployment.
pub type Set<'c> = (&'c Key, &'c ReplicationView);

/// The reason of a ReplicaSet that could not be made.
const FAILED: &str = "ReplicaSetCreateError";

/// What a look at a Deployment sees.
pub struct Rollout<'c> {
    cluster: &'c Cluster,
    now: Now,
    key: &'c Key,
    deployment: &'c DeploymentView,
    refusal: Option<&'c Refusal>,
    /// The one of the present template.
    new: Option<Set<'c>>,
    /// All others, the oldest first.
    old: Vec<Set<'c>>,
}

impl<'c> Rollout<'c> {
    fn all(&self) -> impl Iterator<Item = Set<'c>> {
        self.old.iter().copied().chain(self.new)
    }

    /// Those that have pods, or ought to.
    fn active(&self) -> Vec<Set<'c>> {
        self.all().filter(|(_, set)| set.replicas > 0).collect()
    }

    fn size(&self) -> i32 {
        self.all().map(|(_, set)| set.replicas).sum()
    }

    /// Whether the state of a pod is lost: it may be in any, so none is taken for a bad one.
    fn is_untold(&self) -> bool {
        let cluster = self.cluster;
        let mut pods = self.all().flat_map(|(key, set)| cluster.pods_of(key, &set.template.uid));
        cluster.holds(Rule::UntoldIsNotMissing) && pods.any(|(_, pod)| pod.untold())
    }

    /// A write of the Deployment's annotations and status.
    fn note(&self, change: impl FnOnce(&mut serde_json::Value)) -> Intent {
        let template = &self.deployment.template;
        let mut object = document(&template.document);
        change(&mut object);
        Intent::Note { key: self.key.clone(), seen: template.revision, object }
    }
}

pub fn decide(look: &Look<'_>) -> Decision {
    let Some(deployment) = look.cluster.get::<DeploymentView>(look.key) else { return Decision::default() };
    let mut claims = Vec::new();
    let mut all = sets::claim(look.cluster, look.key, deployment, &mut claims);
    if !claims.is_empty() {
        return Decision::of(claims);
    }
    // Of several with the same template the oldest is taken.
    all.sort_by_key(|set| age(*set));
    let new = all.iter().find(|(_, set)| set.rollout.template == deployment.identity).copied();
    let old = all.into_iter().filter(|set| new.is_none_or(|new| new.0 != set.0)).collect();
    let (cluster, now, key, refusal) = (look.cluster, look.now, look.key, look.refusal);
    let rollout = Rollout { cluster, now, key, deployment, refusal, new, old };
    sync(&rollout)
}

fn sync(rollout: &Rollout<'_>) -> Decision {
    let deployment = rollout.deployment;
    if deployment.template.deleting {
        return status::counted(rollout, Vec::new());
    }
    if let Some(note) = status::paused(rollout).or_else(|| sets::follow(rollout)) {
        return Decision::of(vec![note]);
    }
    if deployment.paused || scale::is_asked(rollout) {
        let mut intents = scale::proportionally(rollout);
        if deployment.paused {
            intents.extend(history::clean_up(rollout));
        }
        return status::counted(rollout, intents);
    }
    let made = if deployment.recreate { recreate::next(rollout) } else { rolling::next(rollout) };
    match made {
        Stage::Scaled(intents) => status::rolled(rollout, intents),
        Stage::Waits => status::rolled(rollout, Vec::new()),
        Stage::Made(intents) => Decision::of(intents),
        Stage::Done => {
            let over = status::complete(deployment, &deployment.status);
            let intents = if over { history::clean_up(rollout) } else { Vec::new() };
            status::rolled(rollout, intents)
        }
    }
}

/// What a look does for a rollout.
enum Stage {
    Scaled(Vec<Intent>),
    /// Something has to happen first.
    Waits,
    /// A new ReplicaSet.
    Made(Vec<Intent>),
    /// Nothing is left to be scaled.
    Done,
}

impl Stage {
    fn of(intents: Vec<Intent>) -> Option<Stage> {
        (!intents.is_empty()).then_some(Stage::Scaled(intents))
    }
}

/// A ReplicaSet that could not be made.
pub fn refused(cluster: &Cluster, key: &Key, refusal: &Refusal) -> Option<Tale> {
    let deployment = cluster.get::<DeploymentView>(key)?;
    Some(deployment.template.warn(key, FAILED, not_made(refusal)?))
}

fn not_made(refusal: &Refusal) -> Option<String> {
    match &refusal.doing {
        Doing::Making(resource, name) if *resource == REPLICA_SETS => {
            Some(format!("Failed to create new replica set {name:?}: {}", refusal.why))
        }
        _ => None,
    }
}

/// The oldest come first.
fn age<'c>((key, set): Set<'c>) -> (Option<i64>, &'c str) {
    (set.rollout.created.map(|time| time.seconds()), &key.name)
}

/// Seconds that a document says, as a time.
fn seconds(count: i32) -> Duration {
    Duration::from_secs(count.try_into().unwrap_or_default())
}

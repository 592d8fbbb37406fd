//! Deployments: one ReplicaSet for each template that a Deployment has had, and the move from the old ones to the new.
//! PURE.
//!
//!     adopt, release       the ReplicaSets that changed sides
//!     paused, resumed      a condition says so
//!     new set              its annotations follow the Deployment's; it is made where there is none
//!     scale                the Deployment was scaled, or is paused: its sets keep their proportions
//!     roll, recreate       the new set grows, the old ones shrink
//!     history, status
//!
//! A look takes a single step from this list; the step's writes bring the key back for the next step.

mod annotations;
mod history;
mod recreate;
mod rolling;
mod rollout;
mod scale;
mod sets;
mod status;
mod view;

pub use annotations::{REVISION, sizes};
pub use sets::{by_pod, by_set};
pub use view::{DeploymentView, share};

use super::cluster::Cluster;
use super::controller::Look;
use super::intent::{Decision, EventDraft, Refusal};
use coracle_api::meta::Key;
use rollout::{FAILED, Rollout, Stage, age, not_made};

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
        // Where nothing is to be scaled Kubernetes waits for ever (its issue 125568); the rollout goes on here.
        if deployment.paused || !intents.is_empty() {
            return status::counted(rollout, intents);
        }
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

/// A ReplicaSet that could not be made.
pub fn refused(cluster: &Cluster, key: &Key, refusal: &Refusal) -> Option<EventDraft> {
    let deployment = cluster.get::<DeploymentView>(key)?;
    Some(deployment.template.warn(key, FAILED, not_made(refusal)?))
}

//! Deletes a job `ttlSecondsAfterFinished` after its end, if the job sets this field. PURE.

use super::controller::Look;
use super::intent::{Decision, Intent};
use super::job::JobView;
use super::rules::ControlRule;
use std::time::Duration;

pub fn decide(look: &Look<'_>) -> Decision {
    let (key, now) = (look.key, look.now);
    let job = look.cluster.get::<JobView>(key).filter(|job| !job.template.deleting);
    let ended = job.and_then(|job| Some((job, job.finished?.1, job.over?, u64::try_from(job.ttl?).ok()?)));
    let Some((job, at, over, ttl)) = ended else { return Decision::default() };
    let left = Duration::from_secs(ttl).saturating_sub(over.elapsed(at, now));
    if !look.cluster.holds(ControlRule::EndedJobsGo) {
        return Decision::default();
    }
    if !left.is_zero() {
        return Decision::later(now.uptime + left);
    }
    Decision::of(vec![Intent::Collect { key: key.clone(), seen: job.template.revision, foreground: true }])
}

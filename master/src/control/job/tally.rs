//! What a job's pods come to: how many have succeeded and failed, and what that means for the job. PURE.

use super::indexes::Indexes;
use super::pods::{self, Awaited, Member};
use super::policy::{self, Failure};
use crate::control::controller::Now;
use coracle_api::job::Job;
use std::collections::BTreeSet;

pub struct Tally<'c> {
    pub active: Vec<Member<'c>>,
    pub terminating: usize,
    pub ready: usize,
    /// Counted, on the way to it, and new ones.
    pub succeeded: i32,
    pub failed: i32,
    /// Of an indexed job.
    pub indexed: Option<Indexed<'c>>,
    /// Failed pods by which the whole job fails.
    pub fails_job: Option<String>,
}

pub struct Indexed<'c> {
    pub completions: i32,
    /// As the status says, and with those that are not counted yet.
    pub counted: Indexes,
    pub succeeded: Indexes,
    /// Of a job with a limit for each index.
    pub failed: Option<Indexes>,
    pub awaited: Awaited<'c>,
}

/// How a job ends. The words are Kubernetes'.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub success: bool,
    pub reason: String,
    pub message: String,
}

impl Verdict {
    fn failure(reason: &str, message: &str) -> Verdict {
        Verdict { success: false, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn success(reason: &str, message: String) -> Verdict {
        Verdict { success: true, reason: reason.to_owned(), message }
    }

    pub fn completions_reached() -> Verdict {
        Verdict::success("CompletionsReached", "Reached expected number of succeeded pods".to_owned())
    }

    /// The condition that says it before all pods are counted.
    pub fn interim(&self) -> &'static str {
        if self.success { "SuccessCriteriaMet" } else { "FailureTarget" }
    }

    pub fn last(&self) -> &'static str {
        if self.success { "Complete" } else { "Failed" }
    }
}

impl<'c> Tally<'c> {
    pub fn of(job: &Job, members: &[Member<'c>], now: Now) -> Tally<'c> {
        let only_failed = job.spec.replaces_only_failed();
        let policy = job.spec.pod_failure_policy.as_ref();
        let active: Vec<Member<'c>> = members.iter().filter(|member| member.pod.active()).copied().collect();
        let waiting = job.status.uncounted_terminated_pods.clone().unwrap_or_default();
        let completions = job.spec.completions.filter(|_| job.spec.is_indexed());
        let valid = |member: &&Member<'c>| completions.is_none_or(|completions| member.index(completions).is_some());
        let new = |uids: &[String], member: &&Member<'c>| member.uncounted && !uids.contains(&member.pod.uid);
        let succeeded =
            members.iter().filter(|member| member.succeeded() && new(&waiting.succeeded, member)).filter(valid).count();
        let failed =
            members.iter().filter(|member| member.failed(only_failed) && new(&waiting.failed, member)).filter(valid);
        let failed = failed.filter(|member| member.failure(policy) != Failure::Ignored).count();
        let fails_job = policy.and_then(|_| {
            let failed = members.iter().filter(|member| member.failed(only_failed));
            failed.into_iter().find_map(|member| match member.failure(policy) {
                Failure::FailsJob(why) => Some(why),
                _ => None,
            })
        });
        let indexed = completions.map(|completions| Indexed::of(job, members, completions, now));
        Tally {
            terminating: members.iter().filter(|member| member.terminating()).count(),
            ready: active.iter().filter(|member| member.pod.ready == Some(true)).count(),
            active,
            succeeded: match &indexed {
                Some(indexed) => indexed.succeeded.count(),
                None => sum(job.status.succeeded, succeeded + waiting.succeeded.len()),
            },
            failed: sum(job.status.failed, failed + waiting.failed.len()),
            indexed,
            fails_job,
        }
    }

    /// How the job ends, if it does. `past_deadline`: it has been active for longer than it may.
    pub fn verdict(&self, job: &Job, members: &[Member<'_>], past_deadline: bool) -> Option<Verdict> {
        let said = |kind: &str, success: bool| {
            let condition = job.status.says(kind)?;
            Some(Verdict { success, reason: condition.reason.clone(), message: condition.message.clone() })
        };
        let by_policy =
            || Some(Verdict { message: self.fails_job.clone()?, ..Verdict::failure("PodFailurePolicy", "") });
        said("SuccessCriteriaMet", true)
            .or_else(|| said("FailureTarget", false))
            .or_else(by_policy)
            .or_else(|| {
                let exceeded = self.failed > job.spec.backoff_limit.unwrap_or(6) || restarted_too_often(job, members);
                exceeded
                    .then(|| Verdict::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"))
            })
            .or_else(|| {
                past_deadline
                    .then(|| Verdict::failure("DeadlineExceeded", "Job was active longer than specified deadline"))
            })
            .or_else(|| self.indexed.as_ref()?.verdict(job))
    }

    /// All that was asked for has succeeded, and nothing is active but what this look takes away.
    pub fn complete(&self, job: &Job, going: usize, coming: usize) -> bool {
        let enough = job.spec.completions.map_or(self.succeeded > 0, |completions| self.succeeded >= completions);
        enough && self.active.len() == going && coming == 0
    }

    /// How many pods are to be active.
    pub fn wanted(&self, job: &Job) -> usize {
        let parallelism = job.spec.parallelism.unwrap_or(1);
        let wanted = match job.spec.completions {
            None if self.succeeded > 0 => return self.active.len(),
            None => parallelism,
            Some(completions) => completions.saturating_sub(self.succeeded).min(parallelism),
        };
        usize::try_from(wanted).unwrap_or_default()
    }
}

impl<'c> Indexed<'c> {
    fn of(job: &Job, members: &[Member<'c>], completions: i32, now: Now) -> Indexed<'c> {
        let only_failed = job.spec.replaces_only_failed();
        let policy = job.spec.pod_failure_policy.as_ref();
        let counted = Indexes::parse(&job.status.completed_indexes, completions);
        let uncounted = || {
            members
                .iter()
                .filter(|member| member.uncounted)
                .filter_map(|member| Some((member.index(completions)?, *member)))
        };
        let new = uncounted().filter(|(_, member)| member.succeeded()).map(|(index, _)| index);
        let succeeded = counted.with(&Indexes::of(new));
        let failed = job.spec.backoff_limit_per_index.map(|limit| {
            let before = Indexes::parse(job.status.failed_indexes.as_deref().unwrap_or_default(), completions);
            let fails = |member: &Member<'_>| {
                member.failed(only_failed)
                    && match member.failure(policy) {
                        Failure::FailsIndex => true,
                        Failure::Ignored => false,
                        Failure::Counts | Failure::FailsJob(_) => member.said.failures >= limit,
                    }
            };
            let new = uncounted().filter(|(_, member)| fails(member)).map(|(index, _)| index);
            before.with(&Indexes::of(new))
        });
        let mut awaited = Awaited::new();
        if let Some(over) = &failed {
            let active: BTreeSet<i32> =
                members.iter().filter(|member| member.pod.active()).filter_map(|member| member.said.index).collect();
            let again = |index: i32| !succeeded.has(index) && !over.has(index) && !active.contains(&index);
            awaited =
                pods::awaited(uncounted().filter(|(index, member)| member.failed(only_failed) && again(*index)), now);
        }
        Indexed { completions, counted, succeeded, failed, awaited }
    }

    fn verdict(&self, job: &Job) -> Option<Verdict> {
        let failed = self.failed.as_ref().map_or(0, Indexes::count);
        if job.spec.max_failed_indexes.is_some_and(|most| failed > most) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(Verdict::failure("MaxFailedIndexesExceeded", message));
        }
        if failed > 0 && failed + self.succeeded.count() >= self.completions {
            return Some(Verdict::failure("FailedIndexes", "Job has failed indexes"));
        }
        let met = policy::success(job.spec.success_policy.as_ref(), self.completions, &self.succeeded)?;
        Some(Verdict::success("SuccessPolicy", met))
    }
}

/// Of a job whose containers are started again in their pods.
fn restarted_too_often(job: &Job, members: &[Member<'_>]) -> bool {
    if job.spec.template.spec.restart_policy != "OnFailure" {
        return false;
    }
    let running = members.iter().filter(|member| matches!(member.pod.phase, "Running" | "Pending"));
    let restarts: i64 = running.map(|member| member.said.restarts).sum();
    restarts > 0 && restarts >= i64::from(job.spec.backoff_limit.unwrap_or(6))
}

fn sum(counted: i32, more: usize) -> i32 {
    counted.saturating_add(i32::try_from(more).unwrap_or(i32::MAX))
}

//! Workloads with fewer replicas than asked: how many are there, since when, and the first cause. PURE.

use super::context::{Context, Found, Words, counted};
use super::objects::PodLook;
use super::pods::{self, STARTING};
use coracle_api::meta::{ObjectMeta, Time};
use coracle_api::workload::{Condition, Deployment, ReplicaSet};
use coracle_keeper::problem::Subject;
use std::collections::HashSet;

const MISSING: &str = "ReplicasMissing";
const ROLLING: &str = "RollingOut";
const STUCK: &str = "RolloutStuck";
/// Reasons of events by which a controller says that it cannot make a pod.
const REFUSALS: [&str; 2] = ["FailedCreate", "FailedPlacement"];

/// The uids of controllers whose pods are told by these problems.
pub fn tell<'o>(context: &Context<'o>, found: &mut Found) -> HashSet<&'o str> {
    let mut short = HashSet::new();
    for deployment in &context.objects.deployments {
        of_deployment(context, deployment, &mut short, found);
    }
    let deployed: HashSet<&str> = context.objects.deployments.iter().map(|one| one.metadata.uid.as_str()).collect();
    let sets = context.objects.replica_sets.iter().map(|set| ("ReplicaSet", set));
    let controllers = context.objects.replication_controllers.iter().map(|set| ("ReplicationController", set));
    for (kind, set) in sets.chain(controllers) {
        if set.metadata.controller().is_none_or(|owner| !deployed.contains(owner.uid.as_str())) {
            let wanted = set.spec.replicas.unwrap_or(1);
            let refusal = condition(&set.status.conditions, "ReplicaFailure", "True");
            let counts = Counts {
                wanted,
                available: set.status.available_replicas,
                updated: wanted,
                is_read: set.status.observed_generation >= set.metadata.generation,
            };
            let set = Workload { kind, metadata: &set.metadata, makers: vec![&set.metadata], counts, refusal };
            of_set(context, &set, &mut short, found);
        }
    }
    for set in &context.objects.stateful_sets {
        let (wanted, status) = (set.spec.replicas.unwrap_or(1), &set.status);
        let partition = set.spec.update_strategy.rolling_update.as_ref().map_or(0, |rolling| rolling.partition);
        let rolls = set.spec.update_strategy.kind != "OnDelete" && status.current_revision != status.update_revision;
        let counts = Counts {
            wanted,
            available: status.available_replicas,
            updated: if rolls { status.updated_replicas + partition } else { wanted },
            is_read: status.observed_generation >= set.metadata.generation,
        };
        let makers = vec![&set.metadata];
        let set = Workload { kind: "StatefulSet", metadata: &set.metadata, makers, counts, refusal: None };
        of_set(context, &set, &mut short, found);
    }
    for set in &context.objects.daemon_sets {
        let status = &set.status;
        let rolls = set.spec.update_strategy.kind != "OnDelete";
        let counts = Counts {
            wanted: status.desired_number_scheduled,
            available: status.number_available,
            updated: if rolls { status.updated_number_scheduled } else { status.desired_number_scheduled },
            is_read: status.observed_generation >= set.metadata.generation,
        };
        let makers = vec![&set.metadata];
        let set = Workload { kind: "DaemonSet", metadata: &set.metadata, makers, counts, refusal: None };
        of_set(context, &set, &mut short, found);
    }
    short
}

struct Counts {
    wanted: i32,
    available: i32,
    updated: i32,
    /// Its controller has seen its last change.
    is_read: bool,
}

struct Workload<'o> {
    kind: &'static str,
    metadata: &'o ObjectMeta,
    /// The objects that make its pods.
    makers: Vec<&'o ObjectMeta>,
    counts: Counts,
    /// The condition of a maker that cannot make pods.
    refusal: Option<&'o Condition>,
}

/// The first cause, and since when it holds.
#[derive(Default)]
struct Cause {
    why: String,
    advice: String,
    since: Option<Time>,
    /// Nothing is known to be wrong but that something is starting.
    is_start: bool,
}

fn of_deployment<'o>(
    context: &Context<'o>,
    deployment: &'o Deployment,
    short: &mut HashSet<&'o str>,
    found: &mut Found,
) {
    let (spec, status) = (&deployment.spec, &deployment.status);
    let wanted = spec.replicas.unwrap_or(1);
    let owns = |set: &&ReplicaSet| set.metadata.controller().is_some_and(|one| one.uid == deployment.metadata.uid);
    let sets: Vec<&ReplicaSet> = context.objects.replica_sets.iter().filter(owns).collect();
    let refused = sets.iter().find_map(|set| condition(&set.status.conditions, "ReplicaFailure", "True"));
    let counts = Counts {
        wanted,
        available: status.available_replicas,
        updated: if spec.paused { wanted } else { status.updated_replicas },
        is_read: status.observed_generation >= deployment.metadata.generation,
    };
    let workload = Workload {
        kind: "Deployment",
        metadata: &deployment.metadata,
        makers: sets.iter().map(|set| &set.metadata).collect(),
        counts,
        refusal: condition(&status.conditions, "ReplicaFailure", "True").or(refused),
    };
    if context.goes(workload.metadata) || !workload.counts.are_short() {
        return;
    }
    let progress = status.conditions.iter().find(|one| one.kind == "Progressing");
    let Some(late) = progress.filter(|one| one.status == "False" && one.reason == "ProgressDeadlineExceeded") else {
        let is_rolling = progress.is_some_and(|one| one.status == "True" && one.reason != "NewReplicaSetAvailable");
        let began = progress.filter(|_| is_rolling).and_then(|one| one.last_update_time.or(one.last_transition_time));
        let down = condition(&status.conditions, "Available", "False").and_then(|one| one.last_transition_time);
        return workload.tell(context, (is_rolling, began.or(down)), short, found);
    };
    let cause = workload.cause(context);
    let what = format!("its rollout makes no progress: {}", workload.counts.words());
    let since = late.last_transition_time;
    let words = Words { what, why: cause.why, advice: cause.advice, since };
    workload.note(short);
    found.tell(STUCK, workload.subject(), words);
}

fn of_set<'o>(context: &Context<'o>, set: &Workload<'o>, short: &mut HashSet<&'o str>, found: &mut Found) {
    if !context.goes(set.metadata) && set.counts.are_short() {
        set.tell(context, (false, None), short, found);
    }
}

impl Counts {
    fn are_short(&self) -> bool {
        self.available < self.wanted || self.updated < self.wanted || !self.is_read
    }

    fn words(&self) -> String {
        let of = if self.wanted == 1 { "replica is" } else { "replicas are" };
        let available = format!("{} of {} {of} available", self.available, self.wanted);
        if self.updated < self.wanted && self.is_read {
            return format!("{available}, {} of its new template", self.updated);
        }
        available
    }
}

impl<'o> Workload<'o> {
    fn subject(&self) -> Subject {
        Subject::new(&self.kind.to_lowercase(), &self.metadata.namespace, &self.metadata.name)
    }

    fn note(&self, short: &mut HashSet<&'o str>) {
        short.extend(self.makers.iter().map(|maker| maker.uid.as_str()));
    }

    /// `rolling`: whether its controller says that it is at work, and since when what is told holds.
    fn tell(
        &self,
        context: &Context<'o>,
        rolling: (bool, Option<Time>),
        short: &mut HashSet<&'o str>,
        found: &mut Found,
    ) {
        let cause = self.cause(context);
        let (is_rolling, since) = rolling;
        let counts = &self.counts;
        self.note(short);
        let is_whole = counts.available >= counts.wanted;
        let (reason, what) = match () {
            () if !counts.is_read && is_whole => (ROLLING, "its last change is not acted on yet".to_owned()),
            () if is_whole && counts.updated < counts.wanted => {
                (ROLLING, format!("is rolling out: {}", counts.words()))
            }
            () if is_rolling && cause.is_start => (ROLLING, format!("is rolling out: {}", counts.words())),
            () => (MISSING, counts.words()),
        };
        let since = since.or(cause.since).or(self.metadata.creation_timestamp);
        let advice = if cause.advice.is_empty() { self.described() } else { cause.advice };
        found.tell(reason, self.subject(), Words { what, why: cause.why, advice, since });
    }

    fn described(&self) -> String {
        let kind = self.kind.to_lowercase();
        format!("kubectl -n {} describe {kind} {}", self.metadata.namespace, self.metadata.name)
    }

    /// A refusal, then the first pod that is bad, then a pod that is starting.
    fn cause(&self, context: &Context<'o>) -> Cause {
        let of = self.makers.iter().flat_map(|maker| context.pods_of(&maker.uid));
        let mut bad: Vec<(bool, &PodLook, Words)> = of
            .filter_map(|pod| pods::trouble(context, pod).map(|(reason, words)| (reason == STARTING, *pod, words)))
            .collect();
        bad.sort_by(|a, b| (a.0, &a.1.metadata.name).cmp(&(b.0, &b.1.metadata.name)));
        let missing = usize::try_from(self.counts.wanted - self.counts.available).unwrap_or_default();
        let is_failed = bad.first().is_some_and(|(is_start, ..)| !is_start);
        if !is_failed
            && bad.len() < missing
            && let Some(refused) = self.refused(context)
        {
            return refused;
        }
        let several = bad.iter().filter(|(is_start, ..)| !is_start).count();
        let Some((is_start, pod, words)) = bad.into_iter().next() else {
            return Cause { is_start: true, ..Cause::default() };
        };
        let said = [format!("pod {} {}", pod.metadata.name, words.what), words.why];
        let said: Vec<String> = said.into_iter().filter(|text| !text.is_empty()).collect();
        let more = if several > 1 { format!(" (and {} more)", counted(several - 1, "pod")) } else { String::new() };
        Cause { why: format!("{}{more}", said.join(": ")), advice: words.advice, since: words.since, is_start }
    }

    /// Why its controller makes no pods: a quota, a policy, a webhook.
    fn refused(&self, context: &Context<'o>) -> Option<Cause> {
        let said = |why: &str, since| Cause { why: why.to_owned(), since, ..Cause::default() };
        if let Some(refusal) = self.refusal {
            return Some(said(&refusal.message, refusal.last_transition_time));
        }
        let since = self.metadata.creation_timestamp;
        let events = self.makers.iter().filter_map(|maker| {
            let kind = if self.kind == "Deployment" { "ReplicaSet" } else { self.kind };
            context.warned(kind, maker, &REFUSALS, since)
        });
        events.max_by_key(|warned| warned.at).map(|warned| said(warned.message, warned.at))
    }
}

fn condition<'c>(conditions: &'c [Condition], kind: &str, status: &str) -> Option<&'c Condition> {
    conditions.iter().find(|one| one.kind == kind && one.status == status)
}

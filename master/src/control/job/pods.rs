//! The pods of a job: which they are, which go first, how one is made, and how long the next has to wait. PURE.

use super::indexes::Indexes;
use super::policy::{self, Failure};
use crate::control::cluster::Cluster;
use crate::control::controller::Now;
use crate::control::intent::Intent;
use crate::control::replicas::{self, TemplateView};
use crate::control::tracked::{FAILURES, IGNORED, INDEX, TRACKING, Tracked};
use crate::control::view::{PodView, document, read};
use coracle_api::job::{Job, PodFailurePolicy};
use coracle_api::meta::{Key, Time};
use coracle_api::pod::Pod;
use coracle_api::strategy::meta::GENERATED_BASE_BYTES_MAX;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Where a container reads its index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// After the first failure, doubling with each.
const BACK_OFF: Duration = Duration::from_secs(10);
const BACK_OFF_MAX: Duration = Duration::from_secs(600);

/// A pod that no job has made says nothing.
static UNTOLD: Tracked =
    Tracked { uncounted: false, index: None, failures: 0, ignored: 0, restarts: 0, finished: None, over: None };

#[derive(Clone, Copy)]
pub struct Member<'c> {
    pub key: &'c Key,
    pub pod: &'c PodView,
    pub said: &'c Tracked,
    /// It is not counted yet: it has the finalizer, or is given it now.
    pub uncounted: bool,
}

impl Member<'_> {
    pub fn succeeded(&self) -> bool {
        self.pod.phase == "Succeeded"
    }

    /// `only_failed`: one that is being deleted has not failed yet.
    pub fn failed(&self, only_failed: bool) -> bool {
        self.pod.phase == "Failed" || (!only_failed && self.pod.deleting && !self.succeeded())
    }

    pub fn terminating(&self) -> bool {
        self.pod.deleting && !self.pod.terminal()
    }

    /// Its index, if the job has such a one.
    pub fn index(&self, completions: i32) -> Option<i32> {
        self.said.index.filter(|index| *index < completions)
    }

    pub fn failure(&self, policy: Option<&PodFailurePolicy>) -> Failure {
        if policy.is_none() {
            return Failure::Counts;
        }
        let pod: Option<Pod> = read(&self.pod.document);
        pod.map_or(Failure::Counts, |pod| policy::failure(policy, self.key, &pod.status))
    }

    /// How long it is over.
    fn over_for(&self, now: Now) -> Duration {
        self.said.over.map(|over| over.elapsed(self.said.finished, now)).unwrap_or_default()
    }

    /// Failed pods of this pod's index so far: counted and ignored failures together.
    fn failures(&self) -> i32 {
        self.said.failures.saturating_add(self.said.ignored)
    }
}

/// The pods of a job, with adopted pods; pods that no longer match are released.
pub fn claim<'c>(
    cluster: &'c Cluster,
    key: &'c Key,
    job: &'c TemplateView,
    intents: &mut Vec<Intent>,
) -> Vec<Member<'c>> {
    let mut members = Vec::new();
    let member = |key, pod: &'c PodView| {
        let said = pod.job.as_deref().unwrap_or(&UNTOLD);
        Member { key, pod, said, uncounted: said.uncounted }
    };
    for (pod_key, pod) in cluster.pods_of(key, &job.uid) {
        if job.selector.selects(pod.labels()) {
            members.push(member(pod_key, pod));
        } else if !job.deleting {
            intents.push(changed(pod_key, pod, |owners, finalizers| {
                owners.retain(|owner| owner["uid"] != job.uid);
                finalizers.retain(|one| one != TRACKING);
            }));
        }
    }
    let free = cluster.orphaned_pods_in(&key.namespace).filter(|(_, pod)| !job.deleting && !pod.deleting);
    for (pod_key, pod) in free.filter(|(_, pod)| job.selector.selects(pod.labels())) {
        intents.push(changed(pod_key, pod, |owners, finalizers| {
            owners.push(job.reference(key));
            finalizers.retain(|one| one != TRACKING);
            finalizers.push(TRACKING.into());
        }));
        members.push(Member { uncounted: true, ..member(pod_key, pod) });
    }
    members
}

fn changed(key: &Key, pod: &PodView, change: impl FnOnce(&mut Vec<Value>, &mut Vec<Value>)) -> Intent {
    let mut object = document(&pod.document);
    let list = |field: &str| object["metadata"][field].as_array().cloned().unwrap_or_default();
    let (mut owners, mut finalizers) = (list("ownerReferences"), list("finalizers"));
    change(&mut owners, &mut finalizers);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for (field, list) in [("ownerReferences", owners), ("finalizers", finalizers)] {
            if list.is_empty() {
                metadata.remove(field)
            } else {
                metadata.insert(field.into(), list.into())
            };
        }
    }
    Intent::Update { key: key.clone(), seen: pod.revision, object }
}

/// Pods whose files cannot be read, and which may be the job's by their names.
pub fn damaged(cluster: &Cluster, key: &Key) -> bool {
    let ours = |pod: &Key| pod.name.strip_prefix(key.name.as_str()).is_some_and(|rest| rest.starts_with('-'));
    cluster.damaged_pods(&key.namespace).any(ours)
}

/// The active pods that go, `at_least` this many. An indexed job also loses pods without an index, with an index beyond
/// the completions, or with the index of a pod that stays.
pub fn surplus<'c>(job: &Job, active: &[Member<'c>], at_least: usize) -> Vec<Member<'c>> {
    let (mut going, mut staying) = (Vec::new(), Vec::new());
    let mut ordered = active.to_vec();
    ordered.sort_by_key(cheapness);
    if let Some(completions) = job.spec.completions.filter(|_| job.spec.is_indexed()) {
        let mut taken = BTreeSet::new();
        // The dearest of an index stays.
        for pod in ordered.into_iter().rev() {
            let stays = pod.index(completions).is_some_and(|index| taken.insert(index));
            if stays { &mut staying } else { &mut going }.push(pod);
        }
        staying.reverse();
    } else {
        staying = ordered;
    }
    let more = at_least.saturating_sub(going.len()).min(staying.len());
    going.extend_from_slice(&staying[..more]);
    going
}

/// Those that are on their way out first; then by what has been done for them.
fn cheapness(member: &Member<'_>) -> impl Ord + use<> {
    let pod = member.pod;
    let phase = match pod.phase {
        "Pending" => 0,
        "" | "Unknown" => 1,
        _ => 2,
    };
    let youngest_first = |time: Option<Time>| Reverse(time.map(|time| time.seconds()));
    let ready = pod.ready == Some(true);
    let state = (member.uncounted, !pod.node.is_empty(), phase, ready);
    let times =
        (youngest_first(pod.ready_since.filter(|_| ready)), Reverse(member.said.restarts), youngest_first(pod.created));
    (state, times, Reverse(member.said.index))
}

/// Failed pods that wait, by index, because the index is to be tried again: the index's next pod takes over the failure
/// counts.
pub type Awaited<'c> = BTreeMap<i32, Member<'c>>;

/// Of failed pods with the same index the one that knows of most failures, and was over last.
pub fn awaited<'c>(failed: impl Iterator<Item = (i32, Member<'c>)>, now: Now) -> Awaited<'c> {
    let mut awaited: Awaited<'c> = BTreeMap::new();
    for (index, pod) in failed {
        let later = |was: &Member<'c>| was.failures() <= pod.failures() && pod.over_for(now) <= was.over_for(now);
        if awaited.get(&index).is_none_or(later) {
            awaited.insert(index, pod);
        }
    }
    awaited
}

/// A new pod of the job; for an index with the failure counts of the index's last pod.
pub fn made(key: &Key, job: &Job, parent: &TemplateView, index: Option<i32>, last: Option<&Member<'_>>) -> Value {
    let mut pod = replicas::pod(key, parent);
    let metadata = &mut pod["metadata"];
    let mut finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|one| one == TRACKING) {
        finalizers.push(TRACKING.into());
    }
    metadata["finalizers"] = finalizers.into();
    let Some(index) = index else { return pod };
    let tail = format!("-{index}-");
    let room = GENERATED_BASE_BYTES_MAX.saturating_sub(tail.len()).min(key.name.len());
    metadata["generateName"] = format!("{}{tail}", &key.name[..room]).into();
    metadata["labels"][INDEX] = index.to_string().into();
    metadata["annotations"][INDEX] = index.to_string().into();
    if job.spec.backoff_limit_per_index.is_some() {
        let policy = job.spec.pod_failure_policy.as_ref();
        let counts = last.map(|last| last.failure(policy) != Failure::Ignored);
        let of = |count: fn(&Tracked) -> i32| last.map_or(0, |last| count(last.said));
        let failures = of(|said| said.failures).saturating_add(i32::from(counts == Some(true)));
        let ignored = of(|said| said.ignored).saturating_add(i32::from(counts == Some(false)));
        metadata["annotations"][FAILURES] = failures.to_string().into();
        if ignored > 0 {
            metadata["annotations"][IGNORED] = ignored.to_string().into();
        }
    }
    pod["spec"]["hostname"] = format!("{}-{index}", key.name).into();
    for field in ["initContainers", "containers"] {
        let containers = pod["spec"].get_mut(field).and_then(Value::as_array_mut);
        containers.into_iter().flatten().for_each(tell_index);
    }
    pod
}

fn tell_index(container: &mut Value) {
    let mut variables = container["env"].as_array().cloned().unwrap_or_default();
    if variables.iter().any(|one| one["name"] == INDEX_VARIABLE) {
        return;
    }
    let from = json!({"fieldRef": {"fieldPath": format!("metadata.labels['{INDEX}']")}});
    variables.push(json!({"name": INDEX_VARIABLE, "valueFrom": from}));
    container["env"] = variables.into();
}

/// Failures since the last success, and how long ago the last one was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Failures {
    pub count: u32,
    pub last: Duration,
}

impl Failures {
    /// Counted from the pods that still exist.
    pub fn of(members: &[Member<'_>], only_failed: bool, now: Now) -> Failures {
        let last_success = members.iter().filter(|pod| pod.succeeded()).filter_map(|pod| pod.said.finished).max();
        // What was let go has not failed.
        let failed = |pod: &&Member<'_>| pod.failed(only_failed) && (pod.uncounted || !pod.pod.deleting);
        let after = |pod: &&Member<'_>| {
            last_success.is_none_or(|success| pod.said.finished.is_some_and(|failure| failure > success))
        };
        let failed: Vec<&Member<'_>> = members.iter().filter(failed).filter(after).collect();
        let last = failed.iter().map(|pod| pod.over_for(now)).min().unwrap_or_default();
        Failures { count: u32::try_from(failed.len()).unwrap_or(u32::MAX), last }
    }

    pub fn worse(self, other: Failures) -> Failures {
        match (self.count, other.count) {
            (_, 0) => self,
            (0, _) => other,
            (one, two) => Failures { count: one.max(two), last: self.last.min(other.last) },
        }
    }

    /// Until the next pod is made.
    pub fn wait(self) -> Duration {
        if self.count == 0 {
            return Duration::ZERO;
        }
        let doublings = (self.count - 1).min(BACK_OFF_MAX.as_secs().ilog2());
        (BACK_OFF * 2u32.pow(doublings)).min(BACK_OFF_MAX).saturating_sub(self.last)
    }
}

/// Until the next pod of an index is made.
pub fn wait(last: Option<&Member<'_>>, now: Now) -> Duration {
    let Some(last) = last else { return Duration::ZERO };
    Failures { count: last.failures().unsigned_abs().saturating_add(1), last: last.over_for(now) }.wait()
}

/// The indexes of pods.
pub fn indexes<'a>(members: impl IntoIterator<Item = &'a Member<'a>>) -> Indexes {
    Indexes::of(members.into_iter().filter_map(|pod| pod.said.index))
}

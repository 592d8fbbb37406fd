//! Disruption budgets: how many of the pods that one guards are healthy, how many must be, and so how many may be taken away. PURE.
//!
//!     minAvailable: 3             expected: the pods themselves            desired: 3
//!     minAvailable: 50%           expected: what their owners are to have  desired: half of it, rounded up
//!     maxUnavailable: 1 or 20%    expected: what their owners are to have  desired: the rest
//!
//! Who evicts counts down what is allowed, and names the pod in `disruptedPods` until its deletion is seen: see
//! `coracle_api::strategy::eviction`. What cannot be counted allows nothing.

use super::Now;
use super::cluster::Cluster;
use super::intent::{About, Decision, Intent, Tale};
use super::view::PodView;
use coracle_api::meta::{Key, ObjectMeta, OwnerReference, Time};
use coracle_api::strategy::eviction::{self, Allowance};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Who says so in events, as in Kubernetes.
const SOURCE: &str = "controllermanager";
/// A pod that was to be evicted, and is not being deleted after this, stays.
const DELETION_MAX: Duration = Duration::from_secs(120);

pub fn decide(cluster: &Cluster, key: &Key, now: Now) -> Decision {
    let Some(budget) = cluster.budgets.get(key) else { return Decision::default() };
    let document: Value = serde_json::from_slice(&budget.document.json).unwrap_or_default();
    let guarded: Guarded = cluster.pods_in(&key.namespace).filter(|(_, pod)| budget.selects(pod.labels())).collect();
    let disrupted = Disrupted::of(&document["status"], &guarded, now.wall);
    let (mut tales, status) = match expect(cluster, key, &document["spec"], &guarded) {
        Ok(expected) => {
            let status = counted(&document, &guarded, &expected, &disrupted, now.wall);
            (expected.tales(&document["spec"]["selector"], &guarded), status)
        }
        Err(why) => {
            let words = format!("Failed to calculate the number of expected pods: {why}");
            (vec![("Warning", "CalculateExpectedPodCountFailed", words)], failed(&document["status"], &why, now.wall))
        }
    };
    let wake_at = disrupted.until.map(|until| now.uptime + left(now.wall, until));
    if document["status"] == status {
        return Decision { intents: Vec::new(), wake_at };
    }
    let mut intents = vec![Intent::Status { key: key.clone(), seen: budget.revision, status }];
    let about = |kind: &'static str, key: &Key, uid: &str, revision| {
        let (namespace, name, uid) = (key.namespace.clone(), key.name.clone(), uid.to_owned());
        About {
            api_version: if kind == "Pod" { "v1".into() } else { "policy/v1".into() },
            kind: kind.into(),
            namespace,
            name,
            uid,
            revision,
        }
    };
    let tell =
        |about, severity, reason, message| Intent::Tell(Tale { about, severity, reason, message, names_made: false, source: SOURCE });
    let own = || about("PodDisruptionBudget", key, &budget.uid, budget.revision);
    intents.extend(tales.drain(..).map(|(severity, reason, words)| tell(own(), severity, reason, words)));
    let words = format!("Pod was expected by PDB {}/{} to be deleted but it wasn't", key.namespace, key.name);
    let stayed = disrupted.stayed.iter().map(|(key, pod)| about("Pod", key, &pod.uid, pod.revision));
    intents.extend(stayed.map(|about| tell(about, "Warning", "NotDeleted", words.clone())));
    Decision { intents, wake_at }
}

/// A pod that says it is to be disrupted, and is not being deleted, stays: then it says so no more.
pub fn relent(cluster: &Cluster, key: &Key, now: Now) -> Decision {
    let Some((pod, doomed)) = cluster.pods.get(key).and_then(|pod| Some((pod, pod.doomed()?))) else { return Decision::default() };
    let left = left(now.wall, doomed);
    if !left.is_zero() {
        return Decision { intents: Vec::new(), wake_at: Some(now.uptime + left) };
    }
    let document: Value = serde_json::from_slice(&pod.document.json).unwrap_or_default();
    let status = eviction::spared(&document["status"], now.wall);
    Decision::of(vec![Intent::Status { key: key.clone(), seen: pod.revision, status }])
}

type Guarded<'c> = Vec<(&'c Key, &'c PodView)>;
/// Severity, reason, words.
type Told = (&'static str, &'static str, String);

/// What a budget asks for.
struct Expected {
    pods: i64,
    healthy: i64,
    /// Pods that nobody keeps in number.
    unmanaged: bool,
}

impl Expected {
    fn tales(&self, selector: &Value, guarded: &Guarded) -> Vec<Told> {
        let mut told = Vec::new();
        if guarded.is_empty() {
            told.push(("Normal", "NoPods", "No matching pods found".to_owned()));
        }
        if self.unmanaged {
            let words = format!(
                "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the status of the \
                 PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \
                 \".spec.minAvailable\" field of the PDB to an integer value."
            );
            told.push(("Warning", "UnmanagedPods", words));
        }
        told
    }
}

fn expect(cluster: &Cluster, key: &Key, spec: &Value, guarded: &Guarded) -> Result<Expected, String> {
    let unreadable = cluster.damaged.iter().find(|pod| &*pod.resource.plural == "pods" && pod.namespace == key.namespace);
    if let Some(pod) = unreadable {
        return Err(format!("{pod} is damaged, and may be one of the pods that this budget guards"));
    }
    let (most, least) = (&spec["maxUnavailable"], &spec["minAvailable"]);
    if most.is_null()
        && let Some(healthy) = least.as_i64()
    {
        return Ok(Expected { pods: count(guarded.len()), healthy, unmanaged: false });
    }
    if most.is_null() && least.is_null() {
        return Ok(Expected { pods: 0, healthy: 0, unmanaged: false });
    }
    let (pods, unmanaged) = scale(cluster, &key.namespace, guarded)?;
    let healthy = if most.is_null() { resolved(least, pods) } else { (pods - resolved(most, pods)).max(0) };
    Ok(Expected { pods, healthy, unmanaged })
}

/// A number, or a share of the pods, rounded up.
fn resolved(value: &Value, pods: i64) -> i64 {
    let share = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    share.map_or_else(|| value.as_i64().unwrap_or_default(), |share| share.saturating_mul(pods).saturating_add(99) / 100)
}

/// How many pods the owners of these are to have, each owner counted once; and whether some have no owner.
fn scale(cluster: &Cluster, namespace: &str, guarded: &Guarded) -> Result<(i64, bool), String> {
    let scales: BTreeMap<&str, (i64, Option<&str>)> = cluster.scales_in(namespace).collect();
    let (mut owners, mut unmanaged) = (BTreeMap::new(), false);
    for (key, pod) in guarded {
        let Some(owner) = &pod.owner else {
            unmanaged = true;
            continue;
        };
        let Some((replicas, above)) = scales.get(owner.uid.as_str()) else { return Err(unscaled(cluster, key, pod)) };
        // What a replica set is to have is its deployment's business.
        match above.and_then(|above| Some((above, scales.get(above)?))) {
            Some((above, (replicas, _))) => owners.insert(above, *replicas),
            None => owners.insert(owner.uid.as_str(), *replicas),
        };
    }
    Ok((owners.values().sum(), unmanaged))
}

/// Why nobody can say how many pods the owner of one is to have.
fn unscaled(cluster: &Cluster, key: &Key, pod: &PodView) -> String {
    #[derive(Deserialize)]
    struct Owned {
        metadata: ObjectMeta,
    }
    let owned: Option<Owned> = serde_json::from_slice(&pod.document.json).ok();
    let owner = owned.as_ref().and_then(|owned| owned.metadata.controller());
    let Some(OwnerReference { api_version, kind, name, .. }) = owner else { return format!("found no controllers for pod {:?}", key.name) };
    let Some(resource) = cluster.garbage.resource(api_version, kind) else {
        return format!("no matches for kind {kind:?} in version {api_version:?}");
    };
    let owner = Key { resource: resource.clone(), namespace: key.namespace.clone(), name: name.clone() };
    if !Cluster::is_scaled(resource) {
        let Key { resource, .. } = owner;
        let group = if resource.group.is_empty() { String::new() } else { format!(".{}", resource.group) };
        return format!("{}{group} does not implement the scale subresource", resource.plural);
    }
    if cluster.damaged.contains(&owner) {
        return format!("{owner}, which keeps pod {:?}, is damaged", key.name);
    }
    format!("found no controllers for pod {:?}", key.name)
}

/// Pods that were to be evicted.
struct Disrupted<'c> {
    /// Not seen to be deleted yet: since when.
    awaited: Map<String, Value>,
    /// They should have been by now.
    stayed: Guarded<'c>,
    /// The first one is awaited until then.
    until: Option<Time>,
}

impl<'c> Disrupted<'c> {
    fn of(status: &Value, guarded: &Guarded<'c>, now: Time) -> Disrupted<'c> {
        let mut all = Disrupted { awaited: Map::new(), stayed: Vec::new(), until: None };
        for (key, pod) in guarded.iter().filter(|(_, pod)| !pod.deleting) {
            let Some(since) = status["disruptedPods"].get(&key.name) else { continue };
            match since.as_str().and_then(Time::parse) {
                Some(at) if !left(now, at).is_zero() => {
                    all.awaited.insert(key.name.clone(), since.clone());
                    all.until = Some(all.until.map_or(at, |first| first.min(at)));
                }
                _ => all.stayed.push((key, pod)),
            }
        }
        all
    }
}

/// How much of the patience is left that began then.
fn left(now: Time, since: Time) -> Duration {
    let waited = u64::try_from(now.seconds() - since.seconds()).unwrap_or_default();
    DELETION_MAX.saturating_sub(Duration::from_secs(waited))
}

fn counted(budget: &Value, guarded: &Guarded, expected: &Expected, disrupted: &Disrupted, now: Time) -> Value {
    let healthy = |(key, pod): &&(&Key, &PodView)| pod.ready == Some(true) && !pod.deleting && !disrupted.awaited.contains_key(&key.name);
    let healthy = count(guarded.iter().filter(healthy).count());
    let allowed = if expected.pods > 0 { (healthy - expected.healthy).max(0) } else { 0 };
    let mut status = json!({
        "observedGeneration": budget["metadata"]["generation"],
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": expected.healthy,
        "expectedPods": expected.pods,
        "conditions": budget["status"]["conditions"],
    });
    if !disrupted.awaited.is_empty() {
        status["disruptedPods"] = disrupted.awaited.clone().into();
    }
    eviction::set_allowance(&mut status, if allowed > 0 { Allowance::Sufficient } else { Allowance::Insufficient }, now);
    status
}

/// Nothing is allowed until it can be counted; what was counted before stays.
fn failed(status: &Value, why: &str, now: Time) -> Value {
    let mut status = if status.is_object() { status.clone() } else { json!({}) };
    for field in ["currentHealthy", "desiredHealthy", "expectedPods"] {
        if status[field].is_null() {
            status[field] = 0.into();
        }
    }
    status["disruptionsAllowed"] = 0.into();
    eviction::set_allowance(&mut status, Allowance::Unknown(why), now);
    status
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

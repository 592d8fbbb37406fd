//! Disruption budgets: how many of the pods that one guards are healthy, how many must be, and so how many may be taken
//! away. PURE.
//!
//!     minAvailable: 3             expected: the pods themselves            desired: 3
//!     minAvailable: 50%           expected: what their owners are to have  desired: half of it, rounded up
//!     maxUnavailable: 1 or 20%    expected: what their owners are to have  desired: the rest
//!
//! An eviction lowers the allowed disruptions, and names the pod in `disruptedPods` until the pod's deletion is seen:
//! see `coracle_api::strategy::eviction`. A budget that cannot be counted allows no disruption.

use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::disruption::left;
use super::intent::{About, Decision, EventDraft, Intent};
use super::rules::ControlRule;
use super::shelf::View;
use super::view::{PodView, Selector, document, of_group, read};
use crate::store::Stored;
use coracle_api::meta::{Key, ObjectMeta, OwnerReference, Resource, Revision, Time};
use coracle_api::strategy::eviction::{self, Allowance};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

pub const BUDGETS: Resource = of_group("policy", "poddisruptionbudgets");
/// The source of the events, as in Kubernetes.
const SOURCE: &str = "controllermanager";

#[derive(Clone, Debug)]
pub struct BudgetView {
    pub revision: Revision,
    pub uid: String,
    selector: Selector,
    pub document: Stored,
}

impl View for BudgetView {
    const OF: &'static [Resource] = &[BUDGETS];
    const SELECTS: bool = true;

    fn wanted(&self) -> Vec<(&str, &str)> {
        self.selector.pairs()
    }

    fn read(stored: &Stored, _: Option<&BudgetView>, _: Duration) -> Option<BudgetView> {
        #[derive(Deserialize)]
        struct Budget {
            metadata: ObjectMeta,
            #[serde(default)]
            spec: Spec,
        }
        #[derive(Default, Deserialize)]
        struct Spec {
            #[serde(default)]
            selector: Value,
        }
        let Budget { metadata, spec } = read(stored)?;
        let selector = Selector::Rules(spec.selector);
        Some(BudgetView { revision: stored.revision, uid: metadata.uid, selector, document: stored.clone() })
    }
}

/// An object that says how many pods there are to be: budgets are shares of that.
#[derive(Clone, Debug)]
pub struct ScaleView {
    uid: String,
    pub replicas: i64,
    /// The uid and the name of the object that decides on the number.
    owner: Option<(String, String)>,
    pub document: Stored,
}

impl View for ScaleView {
    const OF: &'static [Resource] = &[
        of_group("apps", "deployments"),
        of_group("apps", "replicasets"),
        of_group("apps", "statefulsets"),
        Resource::core("replicationcontrollers"),
    ];

    fn read(stored: &Stored, _: Option<&ScaleView>, _: Duration) -> Option<ScaleView> {
        #[derive(Deserialize)]
        struct Scaled {
            metadata: ObjectMeta,
            #[serde(default)]
            spec: Spec,
        }
        #[derive(Default, Deserialize)]
        struct Spec {
            replicas: Option<i32>,
        }
        let Scaled { metadata, spec } = read(stored)?;
        let owner = metadata.controller().map(|owner| (owner.uid.clone(), owner.name.clone()));
        Some(ScaleView {
            uid: metadata.uid,
            replicas: spec.replicas.unwrap_or(1).into(),
            owner,
            document: stored.clone(),
        })
    }
}

/// The budgets of the namespace: they may count by an object in it.
pub fn by_namespace(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    cluster.within::<BudgetView>(&change.key.namespace).map(|(key, _)| key.clone()).collect()
}

/// Budgets for pods of this object or of the object's dependents: the number of expected pods depends on the sizes.
pub fn by_scale(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    if change.is_unreadable() {
        return by_namespace(cluster, change);
    }
    let uids = change.was().into_iter().chain(cluster.get::<ScaleView>(change.key)).map(|scale| scale.uid.as_str());
    let below = cluster.dependents::<ScaleView>(change.key).map(|(key, scale)| (key, scale.uid.as_str()));
    let scales = uids.map(|uid| (change.key, uid)).chain(below);
    let pods: Vec<&PodView> = scales.flat_map(|(key, uid)| cluster.pods_of(key, uid)).map(|(_, pod)| pod).collect();
    guarding(cluster, &change.key.namespace, &pods)
}

/// The budgets that guard a pod, or did.
pub fn by_pod(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    if change.is_unreadable() {
        return by_namespace(cluster, change);
    }
    guarding(cluster, &change.key.namespace, &change.pods(cluster).collect::<Vec<_>>())
}

/// All budgets whose selector matches any of these pods.
fn guarding(cluster: &Cluster, namespace: &str, pods: &[&PodView]) -> Vec<Key> {
    let of = |pod: &&PodView| {
        let labels = pod.labels();
        let budgets = cluster.selecting::<BudgetView>(namespace, labels.iter());
        budgets.filter(|(_, budget)| budget.selector.selects(labels)).map(|(key, _)| key.clone()).collect::<Vec<Key>>()
    };
    pods.iter().flat_map(of).collect()
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, key, now) = (look.cluster, look.key, look.now);
    let Some(budget) = cluster.get::<BudgetView>(key) else { return Decision::default() };
    let document = document(&budget.document);
    let guarded: Guarded = cluster.pods_selected(&key.namespace, &budget.selector);
    let disrupted = Disrupted::of(&document["status"], &guarded, now.wall);
    let own = || About::new(("policy/v1", "PodDisruptionBudget"), key, &budget.uid, budget.revision);
    let (mut tales, status) = match expect(cluster, key, &document["spec"], &guarded) {
        Ok(expected) => {
            let mut status = counted(&document, &guarded, &expected, &disrupted, now.wall);
            if !cluster.holds(ControlRule::BudgetsCountTheHealthy) {
                status["disruptionsAllowed"] = expected.pods.into();
            }
            (expected.tales(own, &document["spec"]["selector"], &guarded), status)
        }
        Err(why) => {
            let words = format!("Failed to calculate the number of expected pods: {why}");
            let tale = EventDraft::warning(SOURCE, own(), "CalculateExpectedPodCountFailed", words);
            (vec![tale], failed(&document["status"], &why, now.wall))
        }
    };
    let wake_at = disrupted.until.map(|until| now.uptime + left(now.wall, until));
    if document["status"] == status {
        return Decision { wake_at, ..Decision::default() };
    }
    let words = format!("Pod was expected by PDB {}/{} to be deleted but it wasn't", key.namespace, key.name);
    let stayed = disrupted.stayed.iter();
    tales.extend(
        stayed.map(|(key, pod)| EventDraft::warning(SOURCE, About::pod(key, pod), "NotDeleted", words.clone())),
    );
    let mut intents = vec![Intent::Status { key: key.clone(), seen: budget.revision, status }];
    intents.extend(tales.into_iter().map(Intent::Tell));
    Decision { wake_at, ..Decision::of(intents) }
}

type Guarded<'c> = Vec<(&'c Key, &'c PodView)>;

/// The numbers that a budget asks for.
struct Expected {
    pods: i64,
    healthy: i64,
    /// Some guarded pods have no controller that keeps their number.
    unmanaged: bool,
}

impl Expected {
    fn tales(&self, about: impl Fn() -> About, selector: &Value, guarded: &Guarded) -> Vec<EventDraft> {
        let mut tales = Vec::new();
        if guarded.is_empty() {
            tales.push(EventDraft::normal(SOURCE, about(), "NoPods", "No matching pods found".to_owned()));
        }
        if self.unmanaged {
            let words = format!(
                "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the \
                 status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account \
                 for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
                go_text(selector)
            );
            tales.push(EventDraft::warning(SOURCE, about(), "UnmanagedPods", words));
        }
        tales
    }
}

/// A selector as programs in Go print theirs.
fn go_text(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels: String = labels.map(|(name, value)| format!("{name}: {},", text(value))).collect();
    let rules = selector["matchExpressions"].as_array().into_iter().flatten().map(|rule| {
        let values: Vec<String> = rule["values"].as_array().into_iter().flatten().map(text).collect();
        let (key, operator, values) = (text(&rule["key"]), text(&rule["operator"]), values.join(" "));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    let rules: String = rules.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{rules}}},}}"
    )
}

fn expect(cluster: &Cluster, key: &Key, spec: &Value, guarded: &Guarded) -> Result<Expected, String> {
    if let Some(pod) = cluster.damaged_pods(&key.namespace).next() {
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
    share
        .map_or_else(|| value.as_i64().unwrap_or_default(), |share| share.saturating_mul(pods).saturating_add(99) / 100)
}

/// How many pods the owners of these are to have, each owner counted once; and whether some have no owner.
fn scale(cluster: &Cluster, namespace: &str, guarded: &Guarded) -> Result<(i64, bool), String> {
    let named = |uid: &str, name: &str| {
        let mut resources = ScaleView::OF.iter();
        resources.find_map(|resource| {
            let key = Key { resource: resource.clone(), namespace: namespace.to_owned(), name: name.to_owned() };
            cluster.get::<ScaleView>(&key).filter(|scale| scale.uid == uid)
        })
    };
    let (mut owners, mut unmanaged) = (BTreeMap::new(), false);
    for (key, pod) in guarded {
        let Some(owner) = &pod.owner else {
            unmanaged = true;
            continue;
        };
        let Some(scale) = named(owner, &pod.owner_name) else { return Err(unscaled(cluster, key, pod)) };
        // The size of a replica set is its deployment's business.
        let above = scale.owner.as_ref().and_then(|(uid, name)| named(uid, name));
        let scale = above.unwrap_or(scale);
        owners.insert(scale.uid.as_str(), scale.replicas);
    }
    Ok((owners.values().sum(), unmanaged))
}

/// The reason why the number of pods that a pod's owner should have is unknown.
fn unscaled(cluster: &Cluster, key: &Key, pod: &PodView) -> String {
    #[derive(Deserialize)]
    struct Owned {
        metadata: ObjectMeta,
    }
    let owned: Option<Owned> = serde_json::from_slice(&pod.document.json).ok();
    let owner = owned.as_ref().and_then(|owned| owned.metadata.controller());
    let Some(OwnerReference { api_version, kind, name, .. }) = owner else {
        return format!("found no controllers for pod {:?}", key.name);
    };
    let Some(resource) = cluster.references.resource(api_version, kind) else {
        return format!("no matches for kind {kind:?} in version {api_version:?}");
    };
    let owner = Key { resource: resource.clone(), namespace: key.namespace.clone(), name: name.clone() };
    if !ScaleView::OF.contains(resource) {
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

fn counted(budget: &Value, guarded: &Guarded, expected: &Expected, disrupted: &Disrupted, now: Time) -> Value {
    let healthy = |(key, pod): &&(&Key, &PodView)| {
        pod.ready == Some(true) && !pod.deleting && !disrupted.awaited.contains_key(&key.name)
    };
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
    eviction::set_allowance(
        &mut status,
        if allowed > 0 { Allowance::Sufficient } else { Allowance::Insufficient },
        now,
    );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_as_programs_in_go_print_them() {
        let rules = json!({"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": [
            {"key": "k", "operator": "In", "values": ["x", "y"]}, {"key": "l", "operator": "Exists"}]});
        let rule = |text: &str| format!("LabelSelectorRequirement{{{text},}},");
        let expected = rule("Key:k,Operator:In,Values:[x y]") + &rule("Key:l,Operator:Exists,Values:[]");
        let expected = format!(
            "&LabelSelector{{MatchLabels:map[string]string{{a: 1,b: \
             2,}},MatchExpressions:[]LabelSelectorRequirement{{{expected}}},}}"
        );
        assert_eq!(go_text(&rules), expected);
    }
}

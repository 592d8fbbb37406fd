//! Horizontal autoscalers: how many replicas a workload is to have. PURE.
//!
//!     none at all          -> scaling is off
//!     outside min..max     -> the nearest of them
//!     else                 -> what the metrics say (`measure`), as fast as it may follow (`pace`)
//!
//! One look in fifteen seconds writes, as in Kubernetes: between two sizes the workload has time to follow. Before it
//! the agents are asked what pods take. In a master without agents there is nothing to measure, and with nothing to
//! write no look at all.

mod measure;
mod metrics;
mod pace;
mod team;

use self::measure::{Crew, Tolerance};
use self::metrics::{Proposal, propose};
use self::pace::{Behavior, Bounds, Past};
use self::team::{Scale, Team, scale};
use super::budgets::ScaleView;
use super::cluster::Cluster;
use super::controller::{Look, Now, ObservedChange};
use super::intent::{About, Decision, EventDraft, Intent, Lookup, Memo};
use super::shelf::View;
use super::view::{document, of_group, read};
use crate::store::Stored;
use coracle_api::meta::{Key, ObjectMeta, Resource, Revision};
use coracle_api::quantity::Quantity;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::time::Duration;

const SOURCE: &str = "horizontal-pod-autoscaler";
const PERIOD: Duration = Duration::from_secs(15);
/// How far from its aim a metric is left alone, as a share of it.
const TOLERANCE: f64 = 0.1;

#[derive(Clone, Debug)]
pub struct AutoscalerView {
    uid: String,
    revision: Revision,
    target: Target,
    /// Its status, and when it was seen to change.
    status: Value,
    written: Option<Duration>,
    document: Stored,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Target {
    api_version: String,
    kind: String,
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    scale_target_ref: Target,
    min_replicas: Option<i64>,
    max_replicas: i64,
    metrics: Vec<Value>,
    behavior: Option<Behavior>,
}

#[derive(Deserialize)]
struct Autoscaler {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Value,
}

impl View for AutoscalerView {
    const OF: &'static [Resource] = &[of_group("autoscaling", "horizontalpodautoscalers")];

    fn read(stored: &Stored, was: Option<&AutoscalerView>, uptime: Duration) -> Option<AutoscalerView> {
        let Autoscaler { metadata, spec, status } = read(stored)?;
        let was = was.filter(|was| was.uid == metadata.uid);
        let written = was.and_then(|was| if was.status == status { was.written } else { Some(uptime) });
        let (revision, target) = (stored.revision, spec.scale_target_ref);
        Some(AutoscalerView { uid: metadata.uid, revision, target, status, written, document: stored.clone() })
    }
}

/// The autoscalers of a workload.
pub fn by_target(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let of = |target: &Target| {
        let resource = cluster.references.resource(&target.api_version, &target.kind);
        target.name == change.key.name && resource.is_none_or(|resource| *resource == change.key.resource)
    };
    let all = cluster.within::<AutoscalerView>(&change.key.namespace);
    all.filter(|(_, autoscaler)| of(&autoscaler.target)).map(|(key, _)| key.clone()).collect()
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, key, now) = (look.cluster, look.key, look.now);
    let Some(view) = cluster.get::<AutoscalerView>(key) else { return Decision::default() };
    let Some(Autoscaler { spec, .. }) = read::<Autoscaler>(&view.document) else { return Decision::default() };
    let found = match scale(cluster, key, &view.target) {
        Scale::Unknown => return Decision::default(),
        Scale::Missing(why) => Err(why),
        Scale::Found(target, scale) => Ok((target, scale)),
    };
    let mut past: Past = look.remembered();
    let measured = found.as_ref().ok().filter(|(_, scale)| spec.in_bounds(scale.replicas));
    if measured.is_some() && cluster.settings.measured {
        let due =
            [past.looked, view.written].into_iter().flatten().max().map(|at| at + PERIOD).filter(|at| *at > now.uptime);
        let decision = match due {
            Some(_) => Decision { wake_at: due, ..Decision::default() },
            None if cluster.readings.fresh(PERIOD, now.uptime) => Decision::default(),
            // What is told wakes it, and the time does if nothing is.
            None => {
                Decision { errand: Some(Lookup::Readings), wake_at: Some(now.uptime + PERIOD), ..Decision::default() }
            }
        };
        if decision.wake_at.is_some() {
            return Decision { memo: Some(Memo::of(past)), ..decision };
        }
    }
    let mut next =
        Next { status: view.status.as_object().cloned().unwrap_or_default(), tales: Vec::new(), now, past: &mut past };
    let size = match &found {
        Err(why) => {
            next.tell("Warning", "FailedGetScale", why.clone());
            let message = format!("the HPA controller was unable to get the target's current scale: {why}");
            next.condition("AbleToScale", false, "FailedGetScale", message);
            None
        }
        Ok((target, scale)) if measured.is_some() => next.follow(&spec, scale, &Team::of(cluster, key, target, scale)),
        Ok((_, scale)) => next.bound(&spec, scale.replicas),
    };
    let (status, tales) = (Value::from(next.status), next.tales);
    let again = measured.filter(|_| cluster.settings.measured).map(|_| now.uptime + PERIOD);
    past.looked = again.map(|_| now.uptime).or(past.looked);
    let memo = Some(Memo::of(past));
    if status == view.status && size.is_none() {
        return Decision { wake_at: again, memo, ..Decision::default() };
    }
    // The workload has time to follow the last size.
    if let Some(at) = view.written.map(|at| at + PERIOD).filter(|at| *at > now.uptime) {
        return Decision { memo, ..Decision::later(at) };
    }
    let mut intents = Vec::new();
    if let (Some(size), Ok((target, scale))) = (size, found) {
        let mut object = document(&scale.document);
        object["spec"]["replicas"] = size.into();
        intents.push(Intent::Update { key: target, seen: scale.document.revision, object });
    }
    intents.push(Intent::Status { key: key.clone(), seen: view.revision, status });
    let about = About::new(("autoscaling/v2", "HorizontalPodAutoscaler"), key, &view.uid, view.revision);
    let events = tales.into_iter().map(|(severity, reason, message)| {
        Intent::Tell(EventDraft { severity, ..EventDraft::normal(SOURCE, about.clone(), reason, message) })
    });
    intents.extend(events);
    Decision { wake_at: again, memo, ..Decision::of(intents) }
}

impl Spec {
    /// Metrics decide.
    fn in_bounds(&self, replicas: i64) -> bool {
        replicas > 0 && (self.least()..=self.max_replicas).contains(&replicas)
    }

    fn least(&self) -> i64 {
        self.min_replicas.unwrap_or(1)
    }

    fn tolerance(&self) -> Tolerance {
        let of = |said: Option<Quantity>| said.map_or(TOLERANCE, |said| said.milli() as f64 / 1000.0);
        let behavior = self.behavior.as_ref();
        let one = |rules: fn(&Behavior) -> Option<Quantity>| of(behavior.and_then(rules));
        Tolerance {
            up: one(|behavior| behavior.scale_up.tolerance),
            down: one(|behavior| behavior.scale_down.tolerance),
        }
    }
}

/// The status as it will be, and what is told with it.
struct Next<'p> {
    status: Map<String, Value>,
    tales: Vec<(&'static str, &'static str, String)>,
    now: Now,
    past: &'p mut Past,
}

impl Next<'_> {
    fn able(&mut self) {
        let message = "the HPA controller was able to get the target's current scale".to_owned();
        self.condition("AbleToScale", true, "SucceededGetScale", message);
    }

    /// The new size of a workload outside its bounds. `None`: the workload has no replicas, and scaling is disabled.
    fn bound(&mut self, spec: &Spec, replicas: i64) -> Option<i64> {
        if replicas == 0 {
            self.able();
            let message = "scaling is disabled since the replica count of the target is zero";
            self.condition("ScalingActive", false, "ScalingDisabled", message.to_owned());
            self.count(replicas, replicas, Value::Null);
            return None;
        }
        let above = replicas > spec.max_replicas;
        let (size, which) = if above {
            (spec.max_replicas, "above Spec.MaxReplicas")
        } else {
            (spec.least(), "below Spec.MinReplicas")
        };
        self.rescale(spec, size, replicas, &format!("Current number of replicas {which}"));
        self.count(replicas, size, Value::Null);
        Some(size)
    }

    fn rescale(&mut self, spec: &Spec, size: i64, replicas: i64, why: &str) {
        self.tell("Normal", "SuccessfulRescale", format!("New size: {size}; reason: {why}"));
        let message = format!("the HPA controller was able to update the target scale to {size}");
        self.condition("AbleToScale", true, "SucceededRescale", message);
        self.status.insert("lastScaleTime".into(), self.now.wall.to_string().into());
        let uptime = self.now.uptime;
        self.past.scaled(
            spec.behavior.as_ref(),
            size,
            Bounds { least: spec.least(), most: spec.max_replicas, replicas, uptime },
        );
    }

    /// The size that the metrics ask for. `None`: the present size stays.
    fn follow(&mut self, spec: &Spec, scale: &ScaleView, team: &Team<'_>) -> Option<i64> {
        let replicas = scale.replicas;
        self.able();
        let (asked, name, statuses) = self.asked(spec, replicas, team)?;
        let uptime = self.now.uptime;
        let bounds = Bounds { least: spec.least(), most: spec.max_replicas, replicas, uptime };
        let pace = self.past.pace(asked, spec.behavior.as_ref(), bounds);
        self.condition("AbleToScale", true, pace.able.0, pace.able.1.to_owned());
        self.condition("ScalingLimited", pace.limited, pace.limit.0, pace.limit.1.to_owned());
        if pace.size != replicas {
            let why = match asked {
                _ if asked > replicas => format!("{name} above target"),
                _ if asked < replicas => "All metrics below target".to_owned(),
                _ => String::new(),
            };
            self.rescale(spec, pace.size, replicas, &why);
        }
        self.count(replicas, pace.size, statuses);
        (pace.size != replicas).then_some(pace.size)
    }

    /// The most that a metric asks for, the metric's name, and the statuses of all metrics. `None`: the size is
    /// unknown, and the conditions say why.
    fn asked(&mut self, spec: &Spec, replicas: i64, team: &Team<'_>) -> Option<Proposal> {
        let desired = self.status.get("desiredReplicas").and_then(Value::as_i64).unwrap_or_default();
        if team.scaled_by.len() > 1 {
            let why = format!(
                "pods by selector {} are controlled by multiple HPAs: [{}]",
                team.selector,
                team.scaled_by.join(" ")
            );
            self.tell("Warning", "AmbiguousSelector", why.clone());
            self.tell("Warning", "FailedComputeMetricsReplicas", why.clone());
            self.condition("ScalingActive", false, "AmbiguousSelector", why);
            self.count(replicas, desired, Value::Null);
            return None;
        }
        let crew = Crew {
            pods: team.pods.clone(),
            readings: &team.cluster.readings,
            replicas,
            tolerance: spec.tolerance(),
            now: self.now,
        };
        let (mut most, mut statuses, mut failed) = (None::<(i64, String)>, Vec::new(), Vec::new());
        for metric in &spec.metrics {
            match propose(metric, &crew, team.namespace) {
                Ok((asked, name, status)) => {
                    if most.as_ref().is_none_or(|(most, _)| *most == 0 || asked > *most) {
                        most = Some((asked, name));
                    }
                    statuses.push(status);
                }
                Err(unmeasured) => {
                    self.tell("Warning", unmeasured.reason, unmeasured.why.clone());
                    failed.push(unmeasured);
                    statuses.push(json!({"type": ""}));
                }
            }
        }
        let statuses = Value::from(statuses);
        if let Some((asked, name)) = most.filter(|(asked, _)| failed.is_empty() || *asked >= replicas) {
            let message = format!("the HPA was able to successfully calculate a replica count from {name}");
            self.condition("ScalingActive", true, "ValidMetricFound", message);
            return Some((asked, name, statuses));
        }
        if let Some(first) = failed.first() {
            let (of, count) = (spec.metrics.len(), failed.len());
            let words = format!(
                "invalid metrics ({count} invalid out of {of}), first error is: failed to get {}: {}",
                first.what, first.why
            );
            self.tell("Warning", "FailedComputeMetricsReplicas", words);
            let message = format!("the HPA was unable to compute the replica count: {}", first.why);
            self.condition("ScalingActive", false, first.reason, message);
        }
        self.count(replicas, desired, statuses);
        None
    }

    fn count(&mut self, current: i64, desired: i64, metrics: Value) {
        for field in ["observedGeneration", "currentReplicas"] {
            self.status.remove(field);
        }
        // Without any it is null, once it is written.
        if metrics.is_null() && self.status.get("currentMetrics").is_some_and(|standing| !standing.is_null()) {
            self.status.remove("currentMetrics");
        }
        if current > 0 {
            self.status.insert("currentReplicas".into(), current.into());
        }
        self.status.insert("desiredReplicas".into(), desired.into());
        if !metrics.is_null() {
            self.status.insert("currentMetrics".into(), metrics);
        }
    }

    fn tell(&mut self, severity: &'static str, reason: &'static str, message: String) {
        self.tales.push((severity, reason, message));
    }

    fn condition(&mut self, kind: &str, is: bool, reason: &str, message: String) {
        let says = if is { "True" } else { "False" };
        let conditions = self.status.entry("conditions").or_insert_with(|| json!([]));
        let Some(conditions) = conditions.as_array_mut() else { return };
        let was = conditions.iter().position(|one| one["type"] == kind);
        let since = was
            .map(|at| &conditions[at])
            .filter(|one| one["status"] == says)
            .map(|one| one["lastTransitionTime"].clone());
        let since = since.unwrap_or_else(|| self.now.wall.to_string().into());
        let condition =
            json!({"type": kind, "status": says, "lastTransitionTime": since, "reason": reason, "message": message});
        match was {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::readings::Readings;
    use super::super::settings::Settings;
    use super::super::view::PODS;
    use super::super::{Controllers, Look};
    use super::*;
    use crate::store::Event;
    use coracle_api::kinds::Kinds;
    use coracle_api::meta::Time;
    use std::sync::Arc;

    fn key(resource: Resource, name: &str) -> Key {
        Key { resource, namespace: "ns".into(), name: name.into() }
    }

    fn line(intent: &Intent) -> String {
        match intent {
            Intent::Update { key, object, .. } => format!("{} {}", key.name, object["spec"]["replicas"]),
            Intent::Status { status, .. } => {
                let conditions = status["conditions"].as_array().unwrap().iter();
                let said: Vec<String> = conditions
                    .map(|one| format!("{}={}", one["type"].as_str().unwrap(), one["reason"].as_str().unwrap()))
                    .collect();
                format!("{} of {} {}", status["currentReplicas"], status["desiredReplicas"], said.join(" "))
            }
            Intent::Tell(tale) => format!("{} {}", tale.reason, tale.message.chars().take(60).collect::<String>()),
            other => format!("{other:?}"),
        }
    }

    /// An autoscaler from 2 to 4 of a deployment of this size: what is done.
    fn check(replicas: Option<i64>, status: &Value, expected: &[&str]) {
        let mut cluster = Controllers::builtin().cluster(&Kinds::builtin(), Default::default());
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}});
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let spec = json!({"minReplicas": 2, "maxReplicas": 4, "metrics": [metric], "scaleTargetRef": target});
        let autoscaler = json!({"metadata": {"name": "h", "uid": "h"}, "spec": spec, "status": status});
        let mut objects = vec![(AutoscalerView::OF[0].clone(), "h", autoscaler)];
        if let Some(replicas) = replicas {
            let web = json!({"metadata": {"name": "web", "uid": "web"}, "spec": {"replicas": replicas}});
            objects.push((of_group("apps", "deployments"), "web", web));
        }
        for (nth, (resource, name, mut object)) in objects.into_iter().enumerate() {
            let (key, revision) = (Arc::new(key(resource, name)), Revision(nth as u64 + 1));
            let new = Some(Stored::of(key.clone(), revision, &mut object));
            cluster.apply(&Event { revision, key, old: None, new, renewed: false }, Duration::ZERO);
        }
        let now = Now { wall: Time::from_seconds(1_800_000_000).unwrap(), uptime: Duration::ZERO };
        let of = key(AutoscalerView::OF[0].clone(), "h");
        let decision =
            decide(&Look { cluster: &cluster, key: &of, now, refusal: None, contents: None, memory: None, memo: None });
        assert_eq!(decision.intents.iter().map(line).collect::<Vec<_>>(), expected, "{replicas:?} {status}");
    }

    #[test]
    fn sizes() {
        let gone = "FailedGetScale deployments.apps \"web\" not found";
        check(None, &json!({}), &["null of null AbleToScale=FailedGetScale", gone]);
        check(Some(0), &json!({}), &["null of 0 AbleToScale=SucceededGetScale ScalingActive=ScalingDisabled"]);
        let above = "SuccessfulRescale New size: 4; reason: Current number of replicas above Spec.M";
        check(Some(5), &json!({}), &["web 4", "5 of 4 AbleToScale=SucceededRescale", above]);
        let below = "SuccessfulRescale New size: 2; reason: Current number of replicas below Spec.M";
        check(Some(1), &json!({}), &["web 2", "1 of 2 AbleToScale=SucceededRescale", below]);
        let unmeasured = [
            "3 of 0 AbleToScale=SucceededGetScale ScalingActive=FailedGetResourceMetric",
            "FailedGetResourceMetric failed to get cpu utilization: unable to get metrics for res",
            "FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error is: failed",
        ];
        check(Some(3), &json!({}), &unmeasured);
    }

    /// Checks a Deployment whose pods request 100m of cpu each, with a target utilization of 50 %. `takes`: the usage
    /// of each pod, `None` if unknown.
    fn measured(takes: &[Option<i64>], behavior: &Value, expected: &[&str]) {
        let settings = Settings { measured: true, ..Settings::default() };
        let mut cluster = Controllers::builtin().cluster(&Kinds::builtin(), settings);
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50}}});
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let spec = json!({"maxReplicas": 10, "metrics": [metric], "scaleTargetRef": target, "behavior": behavior});
        let autoscaler = json!({"metadata": {"name": "h", "uid": "h"}, "spec": spec});
        let selector = json!({"matchLabels": {"app": "web"}});
        let web =
            json!({"metadata": {"name": "web", "uid": "web"}, "spec": {"replicas": takes.len(), "selector": selector}});
        let mut objects = vec![
            (AutoscalerView::OF[0].clone(), "h".to_owned(), autoscaler),
            (of_group("apps", "deployments"), "web".to_owned(), web),
        ];
        let mut pods = Vec::new();
        for (nth, takes) in takes.iter().enumerate() {
            let name = format!("web-{nth}");
            let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-14T00:00:00Z"});
            let container = json!({"name": "c", "resources": {"requests": {"cpu": "100m"}}});
            let pod = json!({
                "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"app": "web"}},
                "spec": {"nodeName": "n", "containers": [container]},
                "status": {"phase": "Running", "startTime": "2027-01-14T00:00:00Z", "conditions": [ready]},
            });
            if let Some(milli) = takes {
                let containers = json!([{"name": "c", "usage": {"cpu": format!("{milli}m")}}]);
                pods.push(json!({"namespace": "ns", "name": name, "containers": containers}));
            }
            objects.push((PODS, name, pod));
        }
        for (nth, (resource, name, mut object)) in objects.into_iter().enumerate() {
            let (key, revision) = (Arc::new(key(resource, &name)), Revision(nth as u64 + 1));
            let new = Some(Stored::of(key.clone(), revision, &mut object));
            cluster.apply(&Event { revision, key, old: None, new, renewed: false }, Duration::ZERO);
        }
        let now = Now { wall: Time::from_seconds(1_800_000_000).unwrap(), uptime: Duration::ZERO };
        let of = key(AutoscalerView::OF[0].clone(), "h");
        let look = |cluster: &Cluster| {
            decide(&Look { cluster, key: &of, now, refusal: None, contents: None, memory: None, memo: None })
        };
        let asks = look(&cluster);
        assert_eq!((asks.errand, asks.intents), (Some(Lookup::Readings), Vec::new()), "first the agents are asked");
        let usage = json!({"timestamp": "2027-01-15T07:59:55Z", "window": "15s", "pods": pods});
        cluster.readings = Readings::of(&[serde_json::from_value(usage).unwrap()], Duration::ZERO);
        let decision = look(&cluster);
        assert_eq!(decision.wake_at, Some(PERIOD));
        let found: Vec<String> = decision.intents.iter().map(line).collect();
        assert_eq!(found, expected, "{takes:?}");
    }

    #[test]
    fn what_pods_take_decides() {
        let all = |able: &str, limit: &str| {
            format!("AbleToScale={able} ScalingActive=ValidMetricFound ScalingLimited={limit}")
        };
        let null = Value::Null;
        let rests = format!("2 of 2 {}", all("ReadyForNewScale", "DesiredWithinRange"));
        measured(&[Some(50), Some(54)], &null, &[&rests]);
        let above = "SuccessfulRescale New size: 4; reason: cpu resource utilization (percentage of";
        let grows = format!("2 of 4 {}", all("SucceededRescale", "DesiredWithinRange"));
        measured(&[Some(100), Some(100)], &null, &["web 4", &grows, above]);
        let limited = format!("2 of 4 {}", all("SucceededRescale", "ScaleUpLimit"));
        measured(&[Some(400), Some(400)], &null, &["web 4", &limited, above]);
        // A pod without a reading counts with no usage: the two pods are enough.
        measured(&[Some(100), None], &null, &[&rests]);
        // A while ago there were to be two.
        let waits = format!("2 of 2 {}", all("ScaleDownStabilized", "DesiredWithinRange"));
        measured(&[Some(10), Some(10)], &null, &[&waits]);
        let below = "SuccessfulRescale New size: 1; reason: All metrics below target";
        let shrinks = format!("2 of 1 {}", all("SucceededRescale", "DesiredWithinRange"));
        let policies = json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]);
        let at_once =
            json!({"scaleDown": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": policies}});
        measured(&[Some(10), Some(10)], &at_once, &["web 1", &shrinks, below]);
        let unready = [
            "1 of 0 AbleToScale=SucceededGetScale ScalingActive=FailedGetResourceMetric",
            "FailedGetResourceMetric failed to get cpu utilization: unable to get metrics for res",
            "FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error is: failed",
        ];
        measured(&[None], &null, &unready);
    }
}

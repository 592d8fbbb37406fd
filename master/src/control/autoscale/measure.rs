//! How many replicas a resource metric asks for: compares the usage of pods with their requests or with a target
//! average. PURE.
//!
//! Pods without a reading count with no usage when the workload grows, and with their full target when the workload
//! shrinks. Pods that are still starting count with no usage when the workload grows, else not at all. If these pods
//! turn growing into shrinking or the reverse, the size stays.

use super::super::controller::Now;
use super::super::readings::{Reading, Readings};
use super::super::view::{PodView, read};
use coracle_api::meta::{Key, Time};
use coracle_api::pod::{Container, Pod};
use serde_json::{Value, json};
use std::time::Duration;

/// So long after its start a pod may take more processor than it ever will again.
const BEGINNING: Duration = Duration::from_secs(300);
/// A pod that is not ready so soon after its start was never ready.
const FIRST_READINESS: Duration = Duration::from_secs(30);
const FULL_PERCENT: i64 = 100;
const CPU: &str = "cpu";

/// What is to be measured.
pub struct Metric<'m> {
    pub resource: &'m str,
    /// `None`: all containers together.
    pub container: Option<&'m str>,
    pub aim: Aim,
}

#[derive(Clone, Copy)]
pub enum Aim {
    /// In percent of the requests.
    Utilization(i64),
    /// Of each pod, in thousandths.
    Average(i64),
}

/// How far from the aim, as a share of it, nothing is done.
#[derive(Clone, Copy)]
pub struct Tolerance {
    pub up: f64,
    pub down: f64,
}

impl Tolerance {
    fn holds(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

/// The pods of a workload and their readings.
pub struct Crew<'c> {
    pub pods: Vec<(&'c Key, &'c PodView)>,
    pub readings: &'c Readings,
    pub replicas: i64,
    pub tolerance: Tolerance,
    pub now: Now,
}

#[derive(Debug, PartialEq)]
pub struct Found {
    pub replicas: i64,
    pub utilization: Option<i64>,
    /// Of each pod, in thousandths.
    pub average: i64,
}

/// The usage and the request of a pod that counts.
#[derive(Clone, Copy)]
struct Counted {
    takes: i64,
    asks: i64,
}

#[derive(Default)]
struct Groups {
    ready: Vec<Counted>,
    /// What the others ask for.
    unready: Vec<i64>,
    missing: Vec<i64>,
}

impl Metric<'_> {
    pub fn found(&self, crew: &Crew<'_>) -> Result<Found, String> {
        let resource = self.resource;
        let unable = |why: &str| Err(format!("unable to get metrics for resource {resource}: {why}"));
        if !crew.readings.answered {
            let words = "the server could not find the requested resource (get pods.metrics.k8s.io)";
            return unable(&format!("unable to fetch metrics from resource metrics API: {words}"));
        }
        if !crew.pods.iter().any(|(key, _)| crew.readings.pod(&key.namespace, &key.name).is_some()) {
            return unable("no metrics returned from resource metrics API");
        }
        let groups = self.groups(crew)?;
        if groups.ready.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
        }
        let (ratio, utilization, average) = self.ratio(&groups.ready)?;
        let found = |replicas| Found { replicas, utilization, average };
        let grows = !groups.unready.is_empty() && ratio > 1.0;
        if !grows && groups.missing.is_empty() {
            let replicas = if crew.tolerance.holds(ratio) { crew.replicas } else { times(ratio, groups.ready.len()) };
            return Ok(found(replicas));
        }
        let mut counted = groups.ready;
        if ratio != 1.0 {
            let takes = |asks: i64| if ratio > 1.0 { 0 } else { self.full(asks) };
            counted.extend(groups.missing.iter().map(|asks| Counted { takes: takes(*asks), asks: *asks }));
        }
        if grows {
            counted.extend(groups.unready.iter().map(|asks| Counted { takes: 0, asks: *asks }));
        }
        let (careful, ..) = self.ratio(&counted)?;
        let turned = (ratio < 1.0 && careful > 1.0) || (ratio > 1.0 && careful < 1.0);
        let replicas = times(careful, counted.len());
        let back = (careful < 1.0 && replicas > crew.replicas) || (careful > 1.0 && replicas < crew.replicas);
        Ok(found(if crew.tolerance.holds(careful) || turned || back { crew.replicas } else { replicas }))
    }

    /// The usage of a pod that meets the target; for a utilization at least the request.
    fn full(&self, asks: i64) -> i64 {
        match self.aim {
            Aim::Utilization(percent) => asks.saturating_mul(percent.max(FULL_PERCENT)) / FULL_PERCENT,
            Aim::Average(aim) => aim,
        }
    }

    /// The usage as a ratio to the target, the usage in percent of the requests, and the average usage per pod.
    fn ratio(&self, counted: &[Counted]) -> Result<(f64, Option<i64>, i64), String> {
        let sum = |of: fn(&Counted) -> i64| counted.iter().map(of).fold(0, i64::saturating_add);
        let (takes, asks) = (sum(|one| one.takes), sum(|one| one.asks));
        let average = takes / i64::try_from(counted.len()).unwrap_or(i64::MAX).max(1);
        match self.aim {
            Aim::Average(aim) => Ok((average as f64 / aim as f64, None, average)),
            Aim::Utilization(_) if asks == 0 => Err("no metrics returned matched known pods".to_owned()),
            Aim::Utilization(aim) => {
                let percent = takes.saturating_mul(FULL_PERCENT) / asks;
                Ok((percent as f64 / aim as f64, Some(percent), average))
            }
        }
    }

    fn groups(&self, crew: &Crew<'_>) -> Result<Groups, String> {
        let mut groups = Groups::default();
        for (key, pod) in &crew.pods {
            let asks = if matches!(self.aim, Aim::Utilization(_)) { asked(key, pod, self)? } else { 0 };
            if pod.deleting || pod.phase == "Failed" {
                continue;
            }
            if pod.phase == "Pending" {
                groups.unready.push(asks);
                continue;
            }
            let reading = crew.readings.pod(&key.namespace, &key.name);
            let amount = reading.and_then(|reading| Some((reading, reading.amount(self.resource, self.container)?)));
            match amount {
                None => groups.missing.push(asks),
                Some((reading, _)) if self.resource == CPU && begins(pod, reading, crew.now) => {
                    groups.unready.push(asks)
                }
                Some((_, takes)) => groups.ready.push(Counted { takes, asks }),
            }
        }
        Ok(groups)
    }

    /// As a status says it.
    pub fn current(&self, found: &Found) -> Value {
        let mut current = json!({});
        if let Some(percent) = found.utilization {
            current["averageUtilization"] = percent.into();
        }
        current["averageValue"] = amount(self.resource, found.average).into();
        current
    }
}

fn times(ratio: f64, pods: usize) -> i64 {
    (ratio * pods as f64).ceil().min(f64::from(i32::MAX)) as i64
}

/// Whether a pod is still starting: its present usage does not predict its later usage.
fn begins(pod: &PodView, reading: &Reading, now: Now) -> bool {
    let (Some(ready), Some(started)) = (pod.ready, pod.started) else { return true };
    let since = pod.ready_since.unwrap_or(started);
    let after = |time: Time, wait: Duration| time.0.saturating_add(wait).unwrap_or(time.0);
    if after(started, BEGINNING) > now.wall.0 {
        return !ready || reading.at.is_none_or(|at| at.0 < after(since, reading.window));
    }
    !ready && after(started, FIRST_READINESS) > since.0
}

/// What a pod asks for, in thousandths.
fn asked(key: &Key, pod: &PodView, metric: &Metric<'_>) -> Result<i64, String> {
    let Some(Pod { spec, .. }) = read(&pod.document) else { return Ok(0) };
    let (resource, name) = (metric.resource, &key.name);
    if metric.container.is_none() && !spec.resources.requests.is_empty() {
        let whole = spec.resources.requests.get(resource).map(|amount| amount.milli());
        return whole.ok_or_else(|| format!("missing pod-level request for {resource} in Pod {name}"));
    }
    let sidecars = spec.init_containers.iter().filter(|container| container.restart_policy == "Always");
    let wanted = |container: &&Container| metric.container.is_none_or(|wanted| wanted == container.name);
    let mut all = spec.containers.iter().chain(sidecars).filter(wanted).peekable();
    if let Some(container) = metric.container.filter(|_| all.peek().is_none()) {
        return Err(format!("container {container} not found in Pod {name}"));
    }
    let asks = |container: &Container| {
        let amount = container.resources.requests.get(resource).map(|amount| amount.milli());
        amount.ok_or_else(|| format!("missing request for {resource} in container {} of Pod {name}", container.name))
    };
    all.map(asks).sum()
}

/// An amount of thousandths, as people write it: memory in powers of 1024.
fn amount(resource: &str, milli: i64) -> String {
    const UNITS: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if resource == "memory" && milli >= 1024 * 1000 {
        let mut whole = milli / 1000 + i64::from(milli % 1000 != 0);
        let mut unit = 0;
        while whole % 1024 == 0 && unit + 1 < UNITS.len() {
            whole /= 1024;
            unit += 1;
        }
        return format!("{whole}{}", UNITS[unit]);
    }
    coracle_api::quantity::Quantity::from_milli(milli).to_string()
}

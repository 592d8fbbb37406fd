//! The fields of a status that concern the pod as a whole. PURE.

use coracle_api::strategy::qos;
use serde_json::{Map, Value, json};

use super::end::Told;
use super::member::time;
use crate::facts::backoff::Now;
use crate::facts::seen::Run;
use crate::facts::waiting::Dismissal;
use crate::facts::wanted::Wanted;

/// The status of a pod that this node refused: no container was ever started.
pub(super) fn rejected(wanted: &Wanted, dismissal: &Dismissal, was: &Value, now: Now) -> Value {
    let start = was["startTime"].as_str().map_or_else(|| time(now.wall_ms), str::to_owned);
    let mut status = json!({
        "phase": "Failed", "reason": dismissal.reason, "message": dismissal.message, "startTime": start,
        "qosClass": qos::class(&wanted.document),
    });
    if wanted.pod.metadata.generation > 0 {
        status["observedGeneration"] = json!(wanted.pod.metadata.generation);
    }
    status
}

/// The status of a pod that is being deleted: as before, as long as any of it runs. `told`: its end is on record.
pub(super) fn ending(wanted: &Wanted, was: &Value, told: Option<&Told<'_>>) -> Value {
    let mut status = was.clone();
    if let Some(told) = told {
        status["phase"] = told.end.phase().into();
        told.words().for_each(|(field, text)| status[field] = text.clone());
    }
    let generation = wanted.pod.metadata.generation;
    if generation > 0 {
        status["observedGeneration"] = json!(generation);
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            condition["observedGeneration"] = json!(generation);
        }
    }
    status
}

/// Since when something of the pod is here: an agent that starts anew finds it on the engine.
pub(super) fn begun_ms(runs: &[Run<'_>], now: Now) -> i64 {
    runs.iter().map(|run| run.seen.created_ms).filter(|ms| *ms > 0).min().map_or(now.wall_ms, |ms| ms.min(now.wall_ms))
}

/// Adds the requests and limits of the whole pod.
pub(super) fn add_resources(status: &mut Map<String, Value>, wanted: &Wanted) {
    let (requests, limits) = amounts(wanted);
    let mut resources = Map::new();
    for (which, amounts) in [("requests", &requests), ("limits", &limits)] {
        if !amounts.is_empty() {
            resources.insert(which.to_owned(), shown(amounts));
        }
    }
    status.insert("resources".to_owned(), Value::Object(resources));
    if !requests.is_empty() {
        status.insert("allocatedResources".to_owned(), shown(&requests));
    }
}

/// The requests and limits of the whole pod, with its overhead.
fn amounts(wanted: &Wanted) -> (qos::Amounts, qos::Amounts) {
    let spec = &wanted.document["spec"];
    let overhead = qos::amounts(&spec["overhead"]);
    let (mut requests, mut limits) = (qos::of_pod(spec, "requests"), qos::of_pod(spec, "limits"));
    qos::add_all(&mut requests, &overhead);
    let limited = overhead.into_iter().filter(|(name, _)| limits.contains_key(name)).collect();
    qos::add_all(&mut limits, &limited);
    (requests, limits)
}

fn shown(amounts: &qos::Amounts) -> Value {
    amounts.iter().map(|(name, amount)| (name.clone(), Value::from(amount.to_string()))).collect()
}

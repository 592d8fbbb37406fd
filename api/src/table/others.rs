//! Kinds that are alone in their groups.

use super::age;
use super::cell::{self, NONE, UNSET, list, number, number_or_text, text, text_or, yes};
use super::reading::Reading;
use super::storage::amount;
use crate::meta::Time;
use serde_json::Value;

/// The maximum number of metrics shown for an autoscaler.
const METRICS_MAX: usize = 2;

pub fn autoscaler(autoscaler: &Reading, now: Time) -> Vec<Value> {
    let (spec, status) = (&autoscaler["spec"], &autoscaler["status"]);
    let target = &spec["scaleTargetRef"];
    vec![
        cell::name(autoscaler),
        format!("{}/{}", text(&target["kind"]), text(&target["name"])).into(),
        metrics(list(&spec["metrics"]), list(&status["currentMetrics"])).into(),
        spec["minReplicas"].as_i64().map_or_else(|| UNSET.to_owned(), |least| least.to_string()).into(),
        number(&spec["maxReplicas"]).into(),
        number(&status["currentReplicas"]).into(),
        cell::age(autoscaler, now),
    ]
}

/// `cpu: 70%/50%, memory: <unknown>/100Mi`: the current value and the target of each metric.
fn metrics(wanted: &[Reading], current: &[Reading]) -> String {
    if wanted.is_empty() {
        return NONE.to_owned();
    }
    let missing = Reading::Null;
    let all = wanted.iter().enumerate().map(|(at, metric)| metric_text(metric, current.get(at).unwrap_or(&missing)));
    cell::first_of(&all.take(METRICS_MAX).collect::<Vec<_>>(), wanted.len(), ", ")
}

fn metric_text(metric: &Reading, current: &Reading) -> String {
    let source = match text(&metric["type"]) {
        "ContainerResource" => "containerResource",
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        _ => return "<unknown type>".to_owned(),
    };
    let (name, target, is) = (text(&metric[source]["name"]), &metric[source]["target"], &current[source]["current"]);
    let amount_of = |value: &Reading| if value.is_null() { "<unknown>".to_owned() } else { amount(value).to_owned() };
    let average = || format!("{}/{}", amount_of(&is["averageValue"]), amount(&target["averageValue"]));
    let share =
        |value: &Reading, missing: &str| value.as_i64().map_or_else(|| missing.to_owned(), |share| format!("{share}%"));
    match source {
        "pods" => average(),
        "external" | "object" if !target["averageValue"].is_null() => format!("{} (avg)", average()),
        "external" | "object" => format!("{}/{}", amount_of(&is["value"]), amount(&target["value"])),
        _ if !target["averageValue"].is_null() => format!("{name}: {}", average()),
        _ => {
            format!(
                "{name}: {}/{}",
                share(&is["averageUtilization"], "<unknown>"),
                share(&target["averageUtilization"], "<auto>")
            )
        }
    }
}

pub fn scale(scale: &Reading, now: Time) -> Vec<Value> {
    let (spec, status) = (&scale["spec"], &scale["status"]);
    vec![cell::name(scale), number(&spec["replicas"]).into(), number(&status["replicas"]).into(), cell::age(scale, now)]
}

pub fn signing_request(request: &Reading, now: Time) -> Vec<Value> {
    let (spec, status) = (&request["spec"], &request["status"]);
    let has = |kind: &str| list(&status["conditions"]).iter().any(|condition| condition["type"] == kind);
    let mut state = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !text(&status["certificate"]).is_empty() {
        state.push_str(",Issued");
    }
    vec![
        cell::name(request),
        cell::age(request, now),
        text_or(&spec["signerName"], NONE).into(),
        text(&spec["username"]).into(),
        spec["expirationSeconds"].as_i64().map_or_else(|| NONE.to_owned(), age::span).into(),
        state.into(),
    ]
}

pub fn lease(lease: &Reading, now: Time) -> Vec<Value> {
    vec![cell::name(lease), text(&lease["spec"]["holderIdentity"]).into(), cell::age(lease, now)]
}

pub fn runtime_class(class: &Reading, now: Time) -> Vec<Value> {
    vec![cell::name(class), text(&class["handler"]).into(), cell::age(class, now)]
}

pub fn disruption_budget(budget: &Reading, now: Time) -> Vec<Value> {
    let spec = &budget["spec"];
    let limit = |field: &str| if spec[field].is_null() { "N/A".into() } else { number_or_text(&spec[field]).into() };
    let allowed = number(&budget["status"]["disruptionsAllowed"]).into();
    vec![cell::name(budget), limit("minAvailable"), limit("maxUnavailable"), allowed, cell::age(budget, now)]
}

pub fn role_binding(binding: &Reading, now: Time) -> Vec<Value> {
    let subjects = |kind: &str| {
        let of_kind = list(&binding["subjects"]).iter().filter(|subject| subject["kind"] == kind);
        let names: Vec<String> = of_kind
            .map(|subject| match text(&subject["namespace"]) {
                "" => text(&subject["name"]).to_owned(),
                namespace => format!("{namespace}/{}", text(&subject["name"])),
            })
            .collect();
        names.join(", ").into()
    };
    let role = &binding["roleRef"];
    vec![
        cell::name(binding),
        format!("{}/{}", text(&role["kind"]), text(&role["name"])).into(),
        cell::age(binding, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

pub fn webhooks(configuration: &Reading, now: Time) -> Vec<Value> {
    let count = list(&configuration["webhooks"]).len();
    vec![cell::name(configuration), count.into(), cell::age(configuration, now)]
}

pub fn priority_class(class: &Reading, now: Time) -> Vec<Value> {
    vec![
        cell::name(class),
        number(&class["value"]).into(),
        yes(&class["globalDefault"]).into(),
        cell::age(class, now),
        text_or(&class["preemptionPolicy"], "PreemptLowerPriority").into(),
    ]
}

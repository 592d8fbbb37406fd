//! What scales workloads and what guards them: autoscalers, disruption budgets.

use super::apps::{NOT_NEGATIVE, number_or_share};
use super::doc::{default_to, has, list, map_at, number, text};
use super::meta::{self, Scope};
use super::{Making, Rules, Strategy, full, general, label_selector, names, without_status};
use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};

pub static AUTOSCALER: Strategy = Strategy {
    create: |scaler, making| {
        autoscaler_defaults(scaler);
        general::create::<false>(scaler, making);
    },
    update: |new, old, making: &mut Making<'_>| {
        autoscaler_defaults(new);
        general::update::<false>(new, old, making);
    },
    validate: autoscaler,
    validate_update: |new, old, rules| general::changed(new, old, rules, autoscaler),
    durable: without_status,
    ..general::strategy::<false, false>()
};

pub static DISRUPTION_BUDGET: Strategy = Strategy {
    validate: budget,
    validate_update: |new, old, rules| general::changed(new, old, rules, budget),
    durable: without_status,
    ..general::strategy::<false, true>()
};

/// Without a word on what is measured: four fifths of the processors asked for.
fn autoscaler_defaults(scaler: &mut Value) {
    map_at(scaler, "spec");
    let spec = &mut scaler["spec"];
    if list(spec, "metrics").is_empty() {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
    }
    if has(spec, "behavior") {
        for (way, rules) in [
            (
                "scaleUp",
                json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
                    {"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]}),
            ),
            ("scaleDown", json!({"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]})),
        ] {
            map_at(&mut spec["behavior"], way);
            for (field, value) in rules.as_object().into_iter().flatten() {
                default_to(&mut spec["behavior"][way], field, value.clone());
            }
        }
    }
}

fn autoscaler(scaler: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(scaler, Scope::Namespaced, names::subdomain, rules);
    let (spec, path) = (&scaler["spec"], Path::new("spec"));
    let (least, most) = (number(spec, "minReplicas"), number(spec, "maxReplicas").unwrap_or(0));
    if let Some(least) = least.filter(|least| *least < 1) {
        found.push(Problem::invalid(&path.field("minReplicas"), least, "must be greater than or equal to 1"));
    }
    if most < 1 {
        found.push(Problem::invalid(&path.field("maxReplicas"), most, "must be greater than 0"));
    }
    if least.is_some_and(|least| most < least) {
        found.push(Problem::invalid(&path.field("maxReplicas"), most, "must be greater than or equal to `minReplicas`"));
    }
    for field in ["kind", "name"] {
        let (value, at) = (text(&spec["scaleTargetRef"], field), path.field("scaleTargetRef").field(field));
        if value.is_empty() {
            found.push(Problem::required(&at, ""));
        } else {
            found.extend(names::problems(&at, value, super::rbac::segment(value)));
        }
    }
    for (at, metric) in list(spec, "metrics").iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(metric_problems(metric, &path.field("metrics").index(at)));
    }
    found
}

/// What is measured stands in the field that the type names.
fn metric_problems(metric: &Value, path: &Path) -> Vec<Problem> {
    const TYPES: [(&str, &str); 5] = [
        ("ContainerResource", "containerResource"),
        ("External", "external"),
        ("Object", "object"),
        ("Pods", "pods"),
        ("Resource", "resource"),
    ];
    let kind = text(metric, "type");
    if kind.is_empty() {
        return vec![Problem::required(&path.field("type"), "must specify a metric source type")];
    }
    let Some((_, field)) = TYPES.iter().find(|(name, _)| *name == kind) else {
        let words = super::supported_text(&TYPES.map(|(name, _)| name));
        return vec![Problem::new(&path.field("type"), Reason::NotSupported, Some(kind.into()), words)];
    };
    if !has(metric, field) {
        let words = "must populate information for the given metric source";
        return vec![Problem::required(&path.field(field), words)];
    }
    Vec::new()
}

fn budget(budget: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(budget, Scope::Namespaced, names::subdomain, rules);
    let (spec, path) = (&budget["spec"], Path::new("spec"));
    if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
        found.push(Problem::invalid(&path, spec.clone(), "minAvailable and maxUnavailable cannot be both set"));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        found.extend(number_or_share(&spec[field], &path.field(field)));
    }
    found.extend(label_selector::validate(&spec["selector"], rules, &path.field("selector")));
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        if let Some(number) = number(&budget["status"], field).filter(|number| *number < 0) {
            found.push(Problem::invalid(&Path::new("status").field(field), number, NOT_NEGATIVE));
        }
    }
    found
}

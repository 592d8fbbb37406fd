//! Rules of autoscalers and disruption budgets.

use super::amounts::{self, Whose};
use super::checks::{NOT_NEGATIVE, full, not_negative, number_or_share, one_of, supported_text};
use super::doc::{has, list, map_at, number, text};
use super::meta::{self, Scope};
use super::qos::quantity;
use super::rules::{BuiltinStrategy, Making, Rules, without_status};
use super::{conditions, general, inner, label_selector, names};
use coracle_schema::{Path, Problem, Quantity, Reason};
use serde_json::{Value, json};

/// Longest look back before it scales, and longest period of a policy.
const WINDOW_S_MAX: i64 = 3600;
const PERIOD_S_MAX: i64 = 1800;

pub static AUTOSCALER: BuiltinStrategy = BuiltinStrategy {
    create: |scaler, making| {
        autoscaler_defaults(scaler);
        general::create::<false>(scaler, making);
    },
    update: |new, old, making: &mut Making<'_>| {
        autoscaler_defaults(new);
        general::update::<false>(new, old, making);
    },
    validate: new_autoscaler,
    validate_update: autoscaler_update,
    durable: without_status,
    ..general::strategy::<false, false>()
};

pub static DISRUPTION_BUDGET: BuiltinStrategy = BuiltinStrategy {
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
                    {"type": "Pods", "value": 4, "periodSeconds": 15},
                    {"type": "Percent", "value": 100, "periodSeconds": 15}]}),
            ),
            (
                "scaleDown",
                json!({"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}),
            ),
        ] {
            map_at(&mut spec["behavior"], way);
            let said = &mut spec["behavior"][way];
            for (field, value) in rules.as_object().into_iter().flatten() {
                // A word that is said, though it says nothing, is not replaced.
                if !has(said, field) {
                    said[field] = value.clone();
                }
            }
        }
    }
}

fn new_autoscaler(scaler: &Value, rules: Rules) -> Vec<Problem> {
    autoscaler(scaler, true, rules)
}

/// The version of the scale target is checked only if it or the kind changes.
fn autoscaler_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let target =
        |scaler: &Value| ["apiVersion", "kind"].map(|field| text(&scaler["spec"]["scaleTargetRef"], field).to_owned());
    let mut found = meta::validate_update(new, old);
    let grouped = target(new) != target(old);
    found.extend(meta::new_problems(autoscaler(new, grouped, rules), &autoscaler(old, grouped, rules)));
    found
}

/// `grouped`: the `apiVersion` of the scaled object must name a group; only replication controllers have none.
fn autoscaler(scaler: &Value, grouped: bool, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(scaler, Scope::Namespaced, names::subdomain, rules);
    let (spec, path) = (&scaler["spec"], Path::new("spec"));
    let (least, most) = (number(spec, "minReplicas"), number(spec, "maxReplicas").unwrap_or(0));
    if let Some(least) = least.filter(|least| *least < 1) {
        found.push(Problem::invalid(&path.field("minReplicas"), least, "must be greater than or equal to 1"));
    }
    match most {
        0 => found.push(Problem::required(&path.field("maxReplicas"), "must be set and greater than 0")),
        1.. => {}
        _ => found.push(Problem::invalid(&path.field("maxReplicas"), most, "must be greater than or equal to 1")),
    }
    if least.is_some_and(|least| most < least) {
        found.push(Problem::invalid(
            &path.field("maxReplicas"),
            most,
            "must be greater than or equal to `minReplicas`",
        ));
    }
    let (target, at) = (&spec["scaleTargetRef"], path.field("scaleTargetRef"));
    found.extend(reference(target, &at));
    if grouped {
        found.extend(version(target, text(target, "kind") != "ReplicationController", &at));
    }
    for (at, metric) in list(spec, "metrics").iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(metric_problems(metric, &path.field("metrics").index(at)));
    }
    // Metrics of pods have no value at zero pods.
    let of_pods = !list(spec, "metrics").iter().any(|metric| matches!(text(metric, "type"), "Object" | "External"));
    if least == Some(0) && of_pods {
        let words = "must specify at least one Object or External metric to support scaling to zero replicas";
        found.push(Problem::forbidden(&path.field("metrics"), words));
    }
    for way in ["scaleUp", "scaleDown"] {
        if has(&spec["behavior"], way) {
            found.extend(behavior(&spec["behavior"][way], &path.field("behavior").field(way)));
        }
    }
    found.extend(not_negative(&scaler["status"], &["currentReplicas", "desiredReplicas"], &Path::new("status")));
    found
}

/// Checks the rules for scaling in a single direction.
fn behavior(rules: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let (window, at) = (number(rules, "stabilizationWindowSeconds"), path.field("stabilizationWindowSeconds"));
    if let Some(window) = window.filter(|window| *window < 0) {
        found.push(Problem::invalid(&at, window, "must be greater than or equal to zero"));
    }
    if let Some(window) = window.filter(|window| *window > WINDOW_S_MAX) {
        found.push(Problem::invalid(&at, window, format!("must be less than or equal to {WINDOW_S_MAX}")));
    }
    if has(rules, "selectPolicy") {
        found.extend(one_of(text(rules, "selectPolicy"), &["Disabled", "Max", "Min"], &path.field("selectPolicy")));
    }
    let (policies, at) = (list(rules, "policies"), path.field("policies"));
    if policies.is_empty() {
        found.push(Problem::required(&at, "must specify at least one Policy"));
    }
    for (n, policy) in policies.iter().enumerate() {
        if full(&found) {
            break;
        }
        let path = at.index(n);
        found.extend(one_of(text(policy, "type"), &["Percent", "Pods"], &path.field("type")));
        for field in ["value", "periodSeconds"] {
            if let Some(number) = Some(number(policy, field).unwrap_or(0)).filter(|number| *number <= 0) {
                found.push(Problem::invalid(&path.field(field), number, "must be greater than zero"));
            }
        }
        if let Some(period) = number(policy, "periodSeconds").filter(|period| *period > PERIOD_S_MAX) {
            found.push(Problem::invalid(
                &path.field("periodSeconds"),
                period,
                format!("must be less than or equal to {PERIOD_S_MAX}"),
            ));
        }
    }
    if has(rules, "tolerance") && quantity(&rules["tolerance"]) < Quantity::ZERO {
        found.push(Problem::invalid(&path.field("tolerance"), rules["tolerance"].clone(), NOT_NEGATIVE));
    }
    found
}

/// A metric's source stands in the field that its type names.
fn metric_problems(metric: &Value, path: &Path) -> Vec<Problem> {
    const TYPES: [(&str, &str); 5] = [
        ("ContainerResource", "containerResource"),
        ("External", "external"),
        ("Object", "object"),
        ("Pods", "pods"),
        ("Resource", "resource"),
    ];
    let kind = text(metric, "type");
    let mut found = Vec::new();
    if kind.is_empty() {
        found.push(Problem::required(&path.field("type"), "must specify a metric source type"));
    }
    let field = TYPES.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field);
    let unknown = || {
        let words = supported_text(&TYPES.map(|(name, _)| name));
        Problem::new(&path.field("type"), Reason::NotSupported, Some(kind.into()), words)
    };
    found.extend(field.is_none().then(unknown));
    // The order of Kubernetes: only the first source found is checked.
    let order = ["object", "external", "pods", "resource", "containerResource"];
    let there: Vec<&str> = order.into_iter().filter(|source| has(metric, source)).collect();
    found.extend(there.first().into_iter().flat_map(|source| measured(source, &metric[*source], &path.field(source))));
    match field {
        Some(field) if !has(metric, field) => {
            found.push(Problem::required(&path.field(field), "must populate information for the given metric source"));
        }
        // Told twice, as Kubernetes does.
        None => found.push(unknown()),
        Some(_) => {}
    }
    for other in there.iter().filter(|other| there.len() > 1 && Some(**other) != field) {
        found.push(Problem::forbidden(&path.field(other), "must populate the given metric source only"));
    }
    found
}

/// Checks the source of a metric, and the target.
fn measured(source: &str, of: &Value, path: &Path) -> Vec<Problem> {
    let (target, at) = (&of["target"], path.field("target"));
    let (mut found, said) = (Vec::new(), |field: &str| has(target, field));
    match source {
        "resource" | "containerResource" => {
            let (name, at, of_container) = (text(of, "name"), path.field("name"), source == "containerResource");
            if name.is_empty() {
                found.push(Problem::required(&at, "must specify a resource name"));
            } else if of_container {
                found.extend(amounts::name(name, Whose::Container, &at));
            }
            let (container, at) = (text(of, "container"), path.field("container"));
            match container {
                _ if !of_container => {}
                "" => found.push(Problem::required(&at, "must specify a container")),
                container => found.extend(names::problems(&at, container, names::label(container))),
            }
        }
        _ => {
            if source == "object" {
                let (described, at) = (&of["describedObject"], path.field("describedObject"));
                found.extend(reference(described, &at));
                found.extend(version(described, false, &at));
            }
            let (name, at) = (text(&of["metric"], "name"), path.field("metric").field("name"));
            if name.is_empty() {
                found.push(Problem::required(&at, "must specify a metric name"));
            } else {
                found.extend(names::problems(&at, name, super::rbac::segment(name)));
            }
        }
    }
    found.extend(metric_target(target, &at));
    match source {
        "object" if !said("value") && !said("averageValue") => {
            found.push(Problem::required(&at.field("averageValue"), "must set either a target value or averageValue"));
        }
        "external" if !said("value") && !said("averageValue") => {
            let words = "must set either a target value for metric or a per-pod target";
            found.push(Problem::required(&at.field("averageValue"), words));
        }
        "external" if said("value") && said("averageValue") => {
            let words = "may not set both a target value for metric and a per-pod target";
            found.push(Problem::forbidden(&at.field("value"), words));
        }
        "pods" if !said("averageValue") => {
            found.push(Problem::required(&at.field("averageValue"), "must specify a positive target averageValue"));
        }
        "resource" | "containerResource" if !said("averageUtilization") && !said("averageValue") => {
            let words = "must set either a target raw value or a target utilization";
            found.push(Problem::required(&at.field("averageUtilization"), words));
        }
        "resource" | "containerResource" if said("averageUtilization") && said("averageValue") => {
            let words = "may not set both a target raw value and a target utilization";
            found.push(Problem::forbidden(&at.field("averageValue"), words));
        }
        _ => {}
    }
    found
}

fn metric_target(target: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let kind = text(target, "type");
    if kind.is_empty() {
        found.push(Problem::required(&path.field("type"), "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        found.push(Problem::invalid(&path.field("type"), kind, "must be either Utilization, Value, or AverageValue"));
    }
    for field in ["value", "averageValue"] {
        if has(target, field) && quantity(&target[field]) <= Quantity::ZERO {
            found.push(Problem::invalid(&path.field(field), target[field].clone(), "must be positive"));
        }
    }
    if let Some(share) = number(target, "averageUtilization").filter(|share| *share < 1) {
        found.push(Problem::invalid(&path.field("averageUtilization"), share, "must be greater than 0"));
    }
    found
}

/// Another object, by kind and name.
fn reference(to: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for field in ["kind", "name"] {
        let (value, at) = (text(to, field), path.field(field));
        if value.is_empty() {
            found.push(Problem::required(&at, ""));
        } else {
            found.extend(names::problems(&at, value, super::rbac::segment(value)));
        }
    }
    found
}

/// A version with at most one `/`; `grouped`: and a group before it.
fn version(of: &Value, grouped: bool, path: &Path) -> Option<Problem> {
    let version = text(of, "apiVersion");
    let words = match version.split('/').collect::<Vec<_>>()[..] {
        [_] | ["", _] if grouped => "apiVersion must specify API group".to_owned(),
        [_] | [_, _] => return None,
        _ => format!("unexpected GroupVersion string: {version}"),
    };
    Some(Problem::invalid(&path.field("apiVersion"), version, words))
}

fn budget(budget: &Value, rules: Rules) -> Vec<Problem> {
    // Kubernetes has no rule of its own for their names.
    let mut found = meta::validate_any(budget, Scope::Namespaced, super::rbac::segment, rules);
    let (spec, path) = (&budget["spec"], Path::new("spec"));
    if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
        let problem = Problem::invalid(&path, spec.clone(), "minAvailable and maxUnavailable cannot be both set");
        found.push(problem.showing(inner::shown("policy.v1.PodDisruptionBudgetSpec", spec)));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        found.extend(number_or_share(&spec[field], &path.field(field)));
    }
    found.extend(label_selector::validate(&spec["selector"], rules, &path.field("selector")));
    found.extend(conditions::problems(&budget["status"], &Path::new("status.conditions")));
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        if let Some(number) = number(&budget["status"], field).filter(|number| *number < 0) {
            found.push(Problem::invalid(&Path::new("status").field(field), number, NOT_NEGATIVE));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn autoscalers() {
        fn check(spec: Value, expected: &[&str]) {
            let mut of = json!({
                "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            });
            of.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            let scaler = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": of});
            let found: Vec<String> = new_autoscaler(&scaler, Rules::default()).iter().map(Problem::to_string).collect();
            assert_eq!(found, expected, "{spec}");
        }
        let resource =
            |target: Value| json!({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]});
        check(resource(json!({"type": "Utilization", "averageUtilization": 80})), &[]);
        check(
            resource(json!({"type": "Much", "averageUtilization": 0, "averageValue": "1"})),
            &[
                "spec.metrics[0].resource.target.type: Invalid value: \"Much\": must be either Utilization, Value, or \
                 AverageValue",
                "spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
                "spec.metrics[0].resource.target.averageValue: Forbidden: may not set both a target raw value and a \
                 target utilization",
            ],
        );
        check(
            json!({"metrics": [{"type": "Pods", "external": {"metric": {"name": "m"}, "target": {"type": "Value"}}}]}),
            &[
                "spec.metrics[0].external.target.averageValue: Required value: must set either a target value for \
                 metric or a per-pod target",
                "spec.metrics[0].pods: Required value: must populate information for the given metric source",
            ],
        );
        check(
            json!({"behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601, "selectPolicy": "Most",
                "policies": [{"type": "Pods", "value": 0, "periodSeconds": 1801}]}}}),
            &[
                "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to \
                 3600",
                "spec.behavior.scaleUp.selectPolicy: Unsupported value: \"Most\": supported values: \"Disabled\", \
                 \"Max\", \"Min\"",
                "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to \
                 1800",
            ],
        );
        check(
            json!({"behavior": {"scaleDown": {}}}),
            &["spec.behavior.scaleDown.policies: Required value: must specify at least one Policy"],
        );
    }
}

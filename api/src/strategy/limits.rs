//! Rules of limit ranges and resource quotas.

use super::amounts::{self, Whose};
use super::checks::{PROBLEMS_MAX, full, immutable};
use super::doc::{default_to, entries, has, is_empty, list, list_at, map_at, text};
use super::meta::{self, Scope};
use super::qos::quantity;
use super::rules::{BuiltinStrategy, Making, Rules, without_status};
use super::{general, inner, names};
use coracle_schema::{Path, Problem, Quantity, Reason};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};

/// Below it an amount is looked at in thousandths.
const MILLI_VALUE_MAX: i64 = i64::MAX / 1000;

pub static LIMIT_RANGE: BuiltinStrategy = BuiltinStrategy {
    create: |range, making| {
        defaults(range);
        general::create::<false>(range, making);
        // Of all kinds this one alone may come without a name.
        let name = making.uid.clone();
        default_to(&mut range["metadata"], "name", name);
    },
    update: |new, old, making: &mut Making<'_>| {
        defaults(new);
        general::update::<false>(new, old, making);
    },
    validate: limit_range,
    validate_update: |new, old, rules| general::changed(new, old, rules, limit_range),
    ..general::strategy::<false, false>()
};

pub static RESOURCE_QUOTA: BuiltinStrategy = BuiltinStrategy {
    validate: quota,
    validate_update: quota_update,
    durable: without_status,
    ..general::strategy::<false, false>()
};

/// Containers get what is the most as their limit, and their limit, or the least, as their request.
fn defaults(range: &mut Value) {
    map_at(range, "spec");
    for item in list_at(&mut range["spec"], "limits").filter(|item| text(item, "type") == "Container") {
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let amounts: Vec<(String, Value)> =
                entries(item, from).map(|(name, amount)| (name.clone(), amount.clone())).collect();
            for (name, amount) in amounts {
                map_at(item, to).entry(name).or_insert(amount);
            }
        }
    }
}

fn limit_range(range: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(range, Scope::Namespaced, names::subdomain, rules);
    let path = Path::new("spec.limits");
    let mut types = HashSet::new();
    for (at, item) in list(&range["spec"], "limits").iter().enumerate() {
        if full(&found) {
            break;
        }
        let (path, kind) = (path.index(at), text(item, "type"));
        let mut of_kind = names::problems(&path.field("type"), kind, names::qualified(kind));
        if of_kind.is_empty() && !kind.contains('/') && !["Pod", "Container", "PersistentVolumeClaim"].contains(&kind) {
            of_kind.push(Problem::invalid(
                &path.field("type"),
                kind,
                "must be a standard limit type or fully qualified",
            ));
        }
        found.extend(of_kind);
        if !types.insert(kind) {
            found.push(Problem::new(&path.field("type"), Reason::Duplicate, Some(kind.into()), ""));
        }
        found.extend(of_item(item, kind, &path));
    }
    found
}

fn of_item(item: &Value, kind: &str, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    if kind == "Pod" {
        for field in ["default", "defaultRequest"] {
            if !is_empty(&item[field]) {
                found.push(Problem::forbidden(&path.field(field), "may not be specified when `type` is 'Pod'"));
            }
        }
    }
    if kind == "PersistentVolumeClaim" && !has(&item["min"], "storage") && !has(&item["max"], "storage") {
        let words = "either minimum or maximum storage value is required, but neither was provided";
        found.push(Problem::required(&path.field("limits"), words));
    }
    // What is given to a pod as a whole is refused already.
    let fields: &[&str] = match kind {
        "Pod" => &["max", "min", "maxLimitRequestRatio"],
        _ => &["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"],
    };
    let item: Value = fields.iter().map(|field| ((*field).to_owned(), item[*field].clone())).collect();
    let names: BTreeSet<&String> =
        fields.iter().flat_map(|field| entries(&item, field).map(|(name, _)| name)).collect();
    let whose = if matches!(kind, "Pod" | "Container") { Whose::Container } else { Whose::Any };
    for name in names {
        if full(&found) {
            break;
        }
        for field in fields.iter().filter(|field| has(&item[**field], name)) {
            found.extend(amounts::name(name, whose, &path.field(field).key(name)));
        }
        found.extend(of_resource(&item, name, path));
    }
    found
}

/// Checks that the minimum is at most the default, and the default at most the maximum.
fn of_resource(item: &Value, name: &str, path: &Path) -> Vec<Problem> {
    // Each row: the lower field, the upper field, the message, the field in the path, and the field whose value is
    // shown.
    const ORDERS: [(&str, &str, &str, &str, &str); 6] = [
        ("min", "max", "min value {} is greater than max value {}", "min", "min"),
        (
            "min",
            "defaultRequest",
            "min value {} is greater than default request value {}",
            "defaultRequest",
            "defaultRequest",
        ),
        (
            "defaultRequest",
            "max",
            "default request value {} is greater than max value {}",
            "defaultRequest",
            "defaultRequest",
        ),
        (
            "defaultRequest",
            "default",
            "default request value {} is greater than default limit value {}",
            "defaultRequest",
            "defaultRequest",
        ),
        ("min", "default", "min value {} is greater than default value {}", "default", "min"),
        ("default", "max", "default value {} is greater than max value {}", "default", "max"),
    ];
    let mut found = Vec::new();
    for (less, more, words, at, shown) in ORDERS {
        let (a, b) = (&item[less][name], &item[more][name]);
        if a.is_null() || b.is_null() || quantity(a) <= quantity(b) {
            continue;
        }
        let said =
            words.replacen("{}", a.as_str().unwrap_or_default(), 1).replacen("{}", b.as_str().unwrap_or_default(), 1);
        found.push(Problem::invalid(&path.field(at).key(name), item[shown][name].clone(), said));
    }
    let ratio = &item["maxLimitRequestRatio"][name];
    if !ratio.is_null() && quantity(ratio).milli() < 1000 {
        let words = format!("ratio {} is less than 1", ratio.as_str().unwrap_or_default());
        found.push(Problem::invalid(&path.field("maxLimitRequestRatio").key(name), ratio.clone(), words));
    }
    found.extend(over_ratio(item, name, path));
    let (limit, request) = (&item["default"][name], &item["defaultRequest"][name]);
    if amounts::is_not_shared(name) && !limit.is_null() && !request.is_null() && quantity(limit) != quantity(request) {
        let text = |amount: &Value| amount.as_str().unwrap_or_default().to_owned();
        let words =
            format!("default value {} must equal to defaultRequest value {} in {name}", text(limit), text(request));
        found.push(Problem::invalid(&path.field("defaultRequest").key(name), request.clone(), words));
    }
    found
}

/// The ratio of maximum and minimum is no less than the ratio of limit and request.
fn over_ratio(item: &Value, name: &str, path: &Path) -> Option<Problem> {
    let [ratio, least, most] = ["maxLimitRequestRatio", "min", "max"].map(|field| &item[field][name]);
    if ratio.is_null() || least.is_null() || most.is_null() {
        return None;
    }
    let [wanted, least, most] = [ratio, least, most].map(quantity);
    let fine = [wanted, least, most].iter().all(|amount| amount.value() < MILLI_VALUE_MAX);
    let number = |amount: Quantity| if fine { amount.milli() as f64 / 1000.0 } else { amount.value() as f64 };
    let between = number(most) / number(least);
    (number(wanted) > between).then(|| {
        let words = format!("ratio {} is greater than max/min = {between:.6}", ratio.as_str().unwrap_or_default());
        Problem::invalid(&path.field("maxLimitRequestRatio").key(name), ratio.clone(), words)
    })
}

fn quota(quota: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(quota, Scope::Namespaced, names::subdomain, rules);
    let path = Path::new("spec");
    found.extend(amounts::list(&quota["spec"], "hard", Whose::Quota, &path));
    found.extend(scopes(&quota["spec"], &path));
    for field in ["hard", "used"] {
        found.extend(amounts::list(&quota["status"], field, Whose::Quota, &Path::new("status")));
    }
    found
}

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];
/// Resources that Kubernetes defines. Most scopes of a quota fit the resources in `OF_PODS`, but no resource in
/// `OTHERS`.
const OF_PODS: [&str; 6] = ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
const OTHERS: [&str; 13] = [
    "configmaps",
    "ephemeral-storage",
    "limits.ephemeral-storage",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "requests.ephemeral-storage",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];

/// Which objects a quota is about: every scope must be known, and must fit the further scopes and the limited
/// resources.
fn scopes(spec: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let shown = &spec["scopes"];
    let listed: Vec<&str> = list(spec, "scopes").iter().filter_map(Value::as_str).collect();
    let at = path.field("scopes");
    for scope in listed.iter().take(PROBLEMS_MAX) {
        // Each problem shows the whole list: a problem for each known scope is enough.
        if found.len() < SCOPES.len() {
            found.extend(scope_fits(spec, scope, || Problem::invalid(&at, shown.clone(), ""), &at, shown));
        }
    }
    if conflict(&listed) {
        found.push(Problem::invalid(&at, shown.clone(), "conflicting scopes"));
    }
    let (requirements, at) =
        (list(&spec["scopeSelector"], "matchExpressions"), path.field("scopeSelector").field("matchExpressions"));
    for one in requirements.iter().take(PROBLEMS_MAX) {
        let scope = text(one, "scopeName");
        let selector = &spec["scopeSelector"];
        let fits = scope_fits(spec, scope, || Problem::invalid(&at.field("scopeName"), scope, ""), &at, selector);
        let whole = |problem: Problem| match problem.path == at {
            true => problem.showing(inner::shown("ScopeSelector", selector)),
            false => problem,
        };
        found.extend(fits.into_iter().map(whole));
        found.extend(scope_operator(one, scope, &at));
    }
    let named: Vec<&str> = requirements.iter().map(|one| text(one, "scopeName")).collect();
    if conflict(&named) {
        found.push(Problem::invalid(&at, shown.clone(), "conflicting scopes"));
    }
    found
}

fn scope_fits(spec: &Value, scope: &str, unknown: impl Fn() -> Problem, path: &Path, shown: &Value) -> Vec<Problem> {
    let mut found = Vec::new();
    if !SCOPES.contains(&scope) {
        found.push(Problem { detail: "unsupported scope".into(), ..unknown() });
    }
    for (resource, _) in entries(spec, "hard") {
        let resource = resource.as_str();
        let known = resource == "pods" || OF_PODS.contains(&resource) || OTHERS.contains(&resource);
        let fits = match scope {
            "BestEffort" => resource == "pods",
            "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
            _ => resource == "pods" || OF_PODS.contains(&resource),
        };
        if known && !fits && SCOPES.contains(&scope) && !full(&found) {
            found.push(Problem::invalid(path, shown.clone(), "unsupported scope applied to resource"));
        }
    }
    found
}

fn scope_operator(one: &Value, scope: &str, path: &Path) -> Vec<Problem> {
    let (operator, values) = (text(one, "operator"), list(one, "values"));
    let mut found = Vec::new();
    if !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && SCOPES.contains(&scope) && operator != "Exists" {
        let words = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                     ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort \
                     or ResourceQuotaScopeCrossNamespacePodAffinity";
        found.push(Problem::invalid(&path.field("operator"), operator, words));
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let words = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            found.push(Problem::required(&path.field("values"), words));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let words = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            found.push(Problem::invalid(&path.field("values"), values.to_vec(), words));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => found.push(Problem::invalid(&path.field("operator"), operator, "not a valid selector operator")),
    }
    found
}

fn conflict(scopes: &[&str]) -> bool {
    [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")]
        .iter()
        .any(|(a, b)| scopes.contains(a) && scopes.contains(b))
}

/// The scopes of a quota may not change.
fn quota_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = general::changed(new, old, rules, quota);
    let set = |quota: &Value| list(&quota["spec"], "scopes").iter().map(Value::to_string).collect::<BTreeSet<_>>();
    if set(new) != set(old) {
        found.extend(immutable(&new["spec"], &old["spec"], "scopes", &Path::new("spec")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quotas_stay_about_the_same() {
        let quota = |scopes: Value| json!({"metadata": {"name": "q", "namespace": "n"}, "spec": {"scopes": scopes}});
        let old = quota(json!(["BestEffort", "NotTerminating"]));
        let check = |scopes: Value, expected: &[&str]| {
            crate::strategy::tests::assert_problems(quota_update(&quota(scopes), &old, Rules::default()), expected);
        };
        check(json!(["NotTerminating", "BestEffort"]), &[]);
        check(json!(["NotTerminating", "BestEffort", "BestEffort"]), &[]);
        check(json!(["BestEffort"]), &["spec.scopes: Invalid value: [\"BestEffort\"]: field is immutable"]);
    }

    #[test]
    fn scopes_of_quotas() {
        fn check(spec: Value, expected: &[&str]) {
            let found: Vec<String> = scopes(&spec, &Path::new("spec")).iter().map(Problem::to_string).collect();
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(found.iter().zip(expected).all(|(found, start)| found.starts_with(start)), "{found:?}");
        }
        check(json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]}), &[]);
        check(json!({"hard": {"count/jobs.batch": "1"}, "scopes": ["Terminating"]}), &[]);
        check(
            json!({"hard": {"cpu": "1"}, "scopes": ["BestEffort", "NotBestEffort", "x"]}),
            &[
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"x\"]: unsupported scope applied to \
                 resource",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"x\"]: unsupported scope",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"x\"]: conflicting scopes",
            ],
        );
        let one = |scope: &str, operator: &str, values: &[&str]| {
            json!({
                "scopeSelector": {"matchExpressions": [{"scopeName": scope, "operator": operator, "values": values}]},
            })
        };
        check(one("PriorityClass", "In", &["high"]), &[]);
        let place = "spec.scopeSelector.matchExpressions";
        check(
            one("PriorityClass", "In", &[]),
            &[&format!("{place}.values: Required value: must be at least one value")],
        );
        check(
            one("Terminating", "In", &["a"]),
            &[&format!("{place}.operator: Invalid value: \"In\": must be 'Exists'")],
        );
        check(
            one("x", "About", &[]),
            &[
                &format!("{place}.scopeName: Invalid value: \"x\": unsupported scope"),
                &format!("{place}.operator: Invalid value: \"About\": not a valid selector operator"),
            ],
        );
    }
}

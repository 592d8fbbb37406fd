//! What a namespace may use: limit ranges and resource quotas.

use super::doc::{entries, has, is_empty, list, list_at, map_at, text};
use super::meta::{self, Scope};
use super::qos::quantity;
use super::{Making, Rules, Strategy, full, general, names, without_status};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};

pub static LIMIT_RANGE: Strategy = Strategy {
    create: |range, making| {
        defaults(range);
        general::create::<false>(range, making);
    },
    update: |new, old, making: &mut Making<'_>| {
        defaults(new);
        general::update::<false>(new, old, making);
    },
    validate: limit_range,
    validate_update: |new, old, rules| general::changed(new, old, rules, limit_range),
    ..general::strategy::<false, false>()
};

pub static RESOURCE_QUOTA: Strategy =
    Strategy { validate: quota, validate_update: quota_update, durable: without_status, ..general::strategy::<false, false>() };

/// Containers get what is the most as their limit, and their limit, or the least, as their request.
fn defaults(range: &mut Value) {
    map_at(range, "spec");
    for item in list_at(&mut range["spec"], "limits").filter(|item| text(item, "type") == "Container") {
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let amounts: Vec<(String, Value)> = entries(item, from).map(|(name, amount)| (name.clone(), amount.clone())).collect();
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
        found.extend(names::problems(&path.field("type"), kind, names::qualified(kind)));
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
    let fields = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    let names: BTreeSet<&String> = fields.iter().flat_map(|field| entries(item, field).map(|(name, _)| name)).collect();
    for name in names {
        if full(&found) {
            break;
        }
        found.extend(of_resource(item, name, path));
    }
    found
}

/// The least is no more than the default, and that no more than the most.
fn of_resource(item: &Value, name: &str, path: &Path) -> Vec<Problem> {
    // What must not be more than what, how that is said, where, and which of the two is shown.
    const ORDERS: [(&str, &str, &str, &str, &str); 6] = [
        ("min", "max", "min value {} is greater than max value {}", "min", "min"),
        ("min", "defaultRequest", "min value {} is greater than default request value {}", "defaultRequest", "defaultRequest"),
        ("defaultRequest", "max", "default request value {} is greater than max value {}", "defaultRequest", "defaultRequest"),
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
        let said = words.replacen("{}", a.as_str().unwrap_or_default(), 1).replacen("{}", b.as_str().unwrap_or_default(), 1);
        found.push(Problem::invalid(&path.field(at).key(name), item[shown][name].clone(), said));
    }
    let ratio = &item["maxLimitRequestRatio"][name];
    if !ratio.is_null() && quantity(ratio).milli() < 1000 {
        let words = format!("ratio {} is less than 1", ratio.as_str().unwrap_or_default());
        found.push(Problem::invalid(&path.field("maxLimitRequestRatio").key(name), ratio.clone(), words));
    }
    found
}

fn quota(quota: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(quota, Scope::Namespaced, names::subdomain, rules);
    let path = Path::new("spec.hard");
    for (name, amount) in entries(&quota["spec"], "hard") {
        if full(&found) {
            break;
        }
        found.extend(names::problems(&path.key(name), name.as_str(), names::qualified(name)));
        let amount_of = quantity(amount);
        if amount_of.milli() < 0 {
            found.push(Problem::invalid(&path.key(name), amount.clone(), "must be greater than or equal to 0"));
        }
        let counts =
            name.starts_with("count/") || matches!(name.as_str(), "pods" | "services" | "secrets" | "configmaps" | "resourcequotas");
        if counts && !amount_of.is_whole() {
            found.push(Problem::invalid(&path.key(name), amount.clone(), "must be an integer"));
        }
    }
    found
}

/// What a quota is about stays as it was made.
fn quota_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = general::changed(new, old, rules, quota);
    found.extend(super::apps::immutable(&new["spec"], &old["spec"], "scopes", &Path::new("spec")));
    found
}

//! Replication controllers: so many pods of a template.

use super::doc::{default_to, entries, has, is_empty, map_at, number, text};
use super::meta::{self, Scope};
use super::{Making, Rules, Strategy, names, no_claims, pod_defaults, pod_spec, without_status};
use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};

pub static REPLICATION_CONTROLLER: Strategy = Strategy {
    create,
    update,
    status_update: meta::status_update,
    validate,
    validate_update,
    claims: no_claims,
    durable: without_status,
    delete: meta::delete,
};

const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

fn create(controller: &mut Value, making: &mut Making<'_>) {
    defaults(controller);
    meta::create(controller, making, true);
    controller["status"] = json!({"replicas": 0});
}

fn update(new: &mut Value, old: &Value, _making: &mut Making<'_>) {
    defaults(new);
    new["status"] = old["status"].clone();
    meta::update(new, old, !pod_spec::differing(&new["spec"], &old["spec"]).is_empty());
}

/// The selector, and the controller's own labels, are the template's where they are left out.
fn defaults(controller: &mut Value) {
    map_at(controller, "spec");
    let spec = &mut controller["spec"];
    default_to(spec, "replicas", 1);
    if !spec["template"].is_object() {
        return;
    }
    map_at(&mut spec["template"], "spec");
    pod_defaults::template(&mut spec["template"]["spec"]);
    let labels = spec["template"]["metadata"]["labels"].clone();
    if is_empty(&labels) {
        return;
    }
    if is_empty(&spec["selector"]) {
        spec["selector"] = labels.clone();
    }
    let meta = map_at(controller, "metadata");
    if meta.get("labels").is_none_or(is_empty) {
        meta.insert("labels".into(), labels);
    }
}

fn validate(controller: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(controller, Scope::Namespaced, names::subdomain, rules);
    let (spec, path) = (&controller["spec"], Path::new("spec"));
    for field in ["minReadySeconds", "replicas"] {
        if let Some(number) = number(spec, field).filter(|number| *number < 0) {
            found.push(Problem::invalid(&path.field(field), number, NOT_NEGATIVE));
        }
    }
    if is_empty(&spec["selector"]) {
        found.push(Problem::required(&path.field("selector"), ""));
    }
    let (template, path) = (&spec["template"], path.field("template"));
    if !template.is_object() {
        found.push(Problem::required(&path, ""));
        return found;
    }
    let labels = &template["metadata"]["labels"];
    if !is_empty(&spec["selector"]) && !entries(spec, "selector").all(|(key, value)| labels.get(key) == Some(value)) {
        let shown = if labels.is_null() { json!({}) } else { labels.clone() };
        let words = "`selector` does not match template `labels`";
        found.push(Problem::invalid(&path.field("metadata").field("labels"), shown, words));
    }
    found.extend(pod_spec::validate_template(template, rules, &path));
    let (spec, path) = (&template["spec"], path.field("spec"));
    if matches!(text(spec, "restartPolicy"), "OnFailure" | "Never") {
        let value = Some(spec["restartPolicy"].clone());
        found.push(Problem::new(&path.field("restartPolicy"), Reason::NotSupported, value, super::supported_text(&["Always"])));
    }
    if has(spec, "activeDeadlineSeconds") {
        let words = "activeDeadlineSeconds in ReplicationController is not Supported";
        found.push(Problem::forbidden(&path.field("activeDeadlineSeconds"), words));
    }
    found
}

fn validate_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate_update(new, old);
    found.extend(meta::new_problems(validate(new, rules), &validate(old, rules)));
    let path = Path::new("status");
    for field in ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        if let Some(number) = number(&new["status"], field).filter(|number| *number < 0) {
            found.push(Problem::invalid(&path.field(field), number, NOT_NEGATIVE));
        }
    }
    found
}

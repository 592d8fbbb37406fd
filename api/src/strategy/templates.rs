//! Pod templates as objects, and controller revisions: the history of templates inside workloads.

use super::checks::{NOT_NEGATIVE, immutable};
use super::doc::{map_at, number};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Making, Rules};
use super::{general, names, pod_defaults, pod_spec};
use coracle_schema::{Path, Problem};
use serde_json::Value;

pub static POD_TEMPLATE: BuiltinStrategy = BuiltinStrategy {
    create: |template, making| {
        defaults(template);
        general::create::<true>(template, making);
    },
    update: |new, old, making: &mut Making<'_>| {
        defaults(new);
        general::update::<true>(new, old, making);
    },
    validate: pod_template,
    validate_update: |new, old, rules| general::changed(new, old, rules, pod_template),
    ..general::strategy::<false, true>()
};

pub static CONTROLLER_REVISION: BuiltinStrategy = BuiltinStrategy {
    validate: |revision, rules| {
        let mut found = self::revision(revision, rules);
        found.extend(data(revision));
        found
    },
    validate_update: |new, old, rules| {
        let mut found = general::changed(new, old, rules, revision);
        found.extend(immutable(new, old, "data", &Path::root()));
        found
    },
    ..general::strategy::<false, false>()
};

fn defaults(template: &mut Value) {
    map_at(template, "template");
    map_at(&mut template["template"], "spec");
    pod_defaults::template(&mut template["template"]["spec"]);
}

fn pod_template(template: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(template, Scope::Namespaced, names::subdomain, rules);
    found.extend(pod_spec::validate_template(&template["template"], rules, &Path::new("template")));
    found
}

fn revision(revision: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(revision, Scope::Namespaced, names::subdomain, rules);
    if let Some(number) = number(revision, "revision").filter(|number| *number < 0) {
        found.push(Problem::invalid(&Path::new("revision"), number, NOT_NEGATIVE));
    }
    found
}

/// The data of a revision must be an object.
fn data(revision: &Value) -> Option<Problem> {
    let words = match &revision["data"] {
        Value::Null => "data is mandatory",
        Value::Object(_) => return None,
        _ => "data must be a valid JSON object",
    };
    Some(Problem::required(&Path::new("data"), words))
}

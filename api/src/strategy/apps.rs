//! Workloads of `apps/v1`: a selector that never changes, a template for pods that it selects, and how one template
//! takes another's place.

use super::checks::{a_number_or_share, immutable_as, is_none, not_more_than_all, not_negative, supported_text};
use super::doc::{has, is_empty, map_at, number, text};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Making, Rules};
use super::{counts, general, inner, label_selector, names, pod_defaults, pod_spec};
use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};

pub const COUNTED: BuiltinStrategy = BuiltinStrategy { durable: counts::durable, ..general::strategy::<false, true>() };

pub static DEPLOYMENT: BuiltinStrategy = BuiltinStrategy {
    create: |new, making| create(new, making, deployment_defaults),
    update: update_deployment,
    validate: deployment,
    validate_update: |new, old, rules| same_selector(new, old, rules, deployment),
    ..COUNTED
};
pub static REPLICA_SET: BuiltinStrategy = BuiltinStrategy {
    create: |new, making| create(new, making, template_defaults),
    update: |new, old, making| update(new, old, making, template_defaults),
    validate: replica_set,
    validate_update: |new, old, rules| same_selector(new, old, rules, replica_set),
    ..COUNTED
};
pub static DAEMON_SET: BuiltinStrategy = BuiltinStrategy {
    create: |new, making| {
        create(new, making, daemon_set_defaults);
        note_template(new, template_generation(new).max(1));
    },
    update: |new, old, making| {
        update(new, old, making, daemon_set_defaults);
        count_templates(new, old);
    },
    status_update: |new, old| {
        meta::status_update(new, old);
        count_templates(new, old);
    },
    validate: daemon_set,
    validate_update: daemon_set_update,
    ..COUNTED
};

const UNMATCHED: &str = "`selector` does not match template `labels`";
pub const NO_SELECTOR: &str = "invalid label selector";
/// Written into every daemon set since its first version.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub fn create(new: &mut Value, making: &mut Making<'_>, defaults: fn(&mut Value)) {
    defaults(new);
    general::create::<true>(new, making);
}

pub fn update(new: &mut Value, old: &Value, making: &mut Making<'_>, defaults: fn(&mut Value)) {
    defaults(new);
    general::update::<true>(new, old, making);
}

/// The annotations of a deployment are copied to the replica sets: a changed annotation is a new generation.
fn update_deployment(new: &mut Value, old: &Value, _making: &mut Making<'_>) {
    deployment_defaults(new);
    let annotations =
        |deployment: &Value| deployment["metadata"].get("annotations").filter(|all| !is_empty(all)).cloned();
    let noted = annotations(new) != annotations(old);
    meta::update(new, old, noted || general::differs(new, old));
}

/// The defaults of the template, which all workloads have.
pub fn template_defaults(workload: &mut Value) {
    map_at(workload, "spec");
    let template = &mut workload["spec"]["template"];
    if template.is_object() {
        map_at(template, "spec");
        pod_defaults::template(&mut template["spec"]);
    }
}

fn deployment_defaults(deployment: &mut Value) {
    template_defaults(deployment);
    rolling(&mut deployment["spec"], "strategy", json!({"maxUnavailable": "25%", "maxSurge": "25%"}));
}

fn daemon_set_defaults(set: &mut Value) {
    template_defaults(set);
    rolling(&mut set["spec"], "updateStrategy", json!({"maxUnavailable": 1, "maxSurge": 0}));
}

/// The number of its template is the server's to say: one more with another template.
fn count_templates(new: &mut Value, old: &Value) {
    let another = new["spec"]["template"] != old["spec"]["template"];
    note_template(new, template_generation(old) + i64::from(another));
}

fn template_generation(set: &Value) -> i64 {
    text(&set["metadata"]["annotations"], TEMPLATE_GENERATION).parse().unwrap_or(0)
}

fn note_template(set: &mut Value, generation: i64) {
    map_at(set, "metadata");
    map_at(&mut set["metadata"], "annotations").insert(TEMPLATE_GENERATION.into(), generation.to_string().into());
}

/// The numbers of a rolling update, where one is asked for.
fn rolling(spec: &mut Value, field: &str, numbers: Value) {
    let strategy = &mut spec[field];
    if text(strategy, "type") == "RollingUpdate" && !has(strategy, "rollingUpdate") {
        strategy["rollingUpdate"] = numbers;
    }
}

fn deployment(deployment: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(deployment, Scope::Namespaced, names::subdomain, rules);
    let (spec, path) = (&deployment["spec"], Path::new("spec"));
    found.extend(not_negative(spec, &["replicas"], &path));
    found.extend(of_replicas(spec, rules, &path));
    let (strategy, at) = (&spec["strategy"], path.field("strategy"));
    match text(strategy, "type") {
        "Recreate" if has(strategy, "rollingUpdate") => {
            let words = "may not be specified when strategy `type` is 'Recreate'";
            found.push(Problem::forbidden(&at.field("rollingUpdate"), words));
        }
        "Recreate" => {}
        "RollingUpdate" => found.extend(moves(&strategy["rollingUpdate"], &at.field("rollingUpdate"))),
        _ => found.push(unknown_strategy("apps.v1.DeploymentStrategy", strategy, &["Recreate", "RollingUpdate"], &at)),
    }
    found.extend(not_negative(spec, &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"], &path));
    if let Some(deadline) = number(spec, "progressDeadlineSeconds")
        && deadline <= number(spec, "minReadySeconds").unwrap_or(0)
    {
        found.push(Problem::invalid(
            &path.field("progressDeadlineSeconds"),
            deadline,
            "must be greater than minReadySeconds",
        ));
    }
    found.extend(counts::problems(deployment, &counts::DEPLOYMENT));
    found
}

fn replica_set(set: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(set, Scope::Namespaced, names::subdomain, rules);
    let (spec, path) = (&set["spec"], Path::new("spec"));
    found.extend(not_negative(spec, &["replicas", "minReadySeconds"], &path));
    found.extend(of_replicas(spec, rules, &path));
    found.extend(counts::problems(set, &counts::REPLICA_SET));
    found
}

/// Checks the selector and the template of a deployment or a replica set.
fn of_replicas(spec: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = selector(spec, "deployment", NO_SELECTOR, rules, path);
    if found.iter().any(|problem| problem.detail == NO_SELECTOR) {
        return found;
    }
    found.extend(selected(spec, path));
    found.extend(pod_template(&spec["template"], "ReplicaSet", rules, &path.field("template")));
    found
}

fn daemon_set(set: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(set, Scope::Namespaced, names::subdomain, rules);
    let (spec, path) = (&set["spec"], Path::new("spec"));
    let of_selector = label_selector::validate(&spec["selector"], rules, &path.field("selector"));
    let good = of_selector.is_empty();
    found.extend(of_selector);
    if good {
        found.extend(selected(spec, &path));
    }
    if label_selector::selects_all(&spec["selector"]) {
        found.push(label_selector::problem(
            &spec["selector"],
            &path.field("selector"),
            "empty selector is invalid for daemonset",
        ));
    }
    found.extend(pod_template(&spec["template"], "DaemonSet", rules, &path.field("template")));
    found.extend(not_negative(spec, &["minReadySeconds"], &path));
    let (strategy, at) = (&spec["updateStrategy"], path.field("updateStrategy"));
    match text(strategy, "type") {
        "RollingUpdate" => found.extend(moves_one(&strategy["rollingUpdate"], &at.field("rollingUpdate"))),
        "OnDelete" => {}
        _ => found.push(unknown_strategy(
            "apps.v1.DaemonSetUpdateStrategy",
            strategy,
            &["RollingUpdate", "OnDelete"],
            &at,
        )),
    }
    found.extend(not_negative(spec, &["revisionHistoryLimit"], &path));
    found.extend(counts::problems(set, &counts::DAEMON_SET));
    found
}

/// `kind`: the name of the kind in the problem of an empty selector; `unread`: the message for an invalid selector.
pub fn selector(spec: &Value, kind: &str, unread: &str, rules: Rules, path: &Path) -> Vec<Problem> {
    let (selector, path) = (&spec["selector"], path.field("selector"));
    if !has(spec, "selector") {
        return vec![Problem::required(&path, "")];
    }
    let mut found = label_selector::validate(selector, rules, &path);
    if label_selector::selects_all(selector) {
        found.push(label_selector::problem(selector, &path, format!("empty selector is invalid for {kind}")));
    } else if !found.is_empty() {
        found.push(label_selector::problem(selector, &path, unread));
    }
    found
}

/// The template's labels are what the selector selects.
pub fn selected(spec: &Value, path: &Path) -> Option<Problem> {
    let labels = &spec["template"]["metadata"]["labels"];
    let path = path.field("template").field("metadata").field("labels");
    (!label_selector::matches(&spec["selector"], labels)).then(|| Problem::invalid(&path, labels.clone(), UNMATCHED))
}

/// Checks a template of pods that run for ever. `kind`: as the problem with a deadline names it.
fn pod_template(template: &Value, kind: &str, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = pod_spec::validate_template(template, rules, path);
    found.extend(for_ever(template, kind, path));
    found
}

/// Checks that the template's pods run for ever: always restarted, and without a deadline.
pub fn for_ever(template: &Value, kind: &str, path: &Path) -> Vec<Problem> {
    let (spec, path, mut found) = (&template["spec"], path.field("spec"), Vec::new());
    if matches!(text(spec, "restartPolicy"), "OnFailure" | "Never") {
        let value = Some(spec["restartPolicy"].clone());
        found.push(Problem::new(
            &path.field("restartPolicy"),
            Reason::NotSupported,
            value,
            supported_text(&["Always"]),
        ));
    }
    if has(spec, "activeDeadlineSeconds") {
        let words = format!("activeDeadlineSeconds in {kind} is not Supported");
        found.push(Problem::forbidden(&path.field("activeDeadlineSeconds"), words));
    }
    found
}

/// During a rolling update of a daemon set either some pods may be missing or some too many, not both.
fn moves_one(rolling: &Value, path: &Path) -> Vec<Problem> {
    const BOTH: [&str; 2] = ["maxUnavailable", "maxSurge"];
    let mut found: Vec<Problem> =
        BOTH.iter().filter_map(|field| a_number_or_share(&rolling[*field], &path.field(field))).collect();
    found.extend(BOTH.iter().filter_map(|field| not_more_than_all(&rolling[*field], &path.field(field))));
    match (is_none(&rolling["maxUnavailable"]), is_none(&rolling["maxSurge"])) {
        (false, false) => {
            let words = "may not be set when maxUnavailable is non-zero";
            found.push(Problem::invalid(&path.field("maxSurge"), rolling["maxSurge"].clone(), words));
        }
        (true, true) => found.push(Problem::required(&path.field("maxUnavailable"), "cannot be 0 when maxSurge is 0")),
        _ => {}
    }
    found
}

/// How many may be missing and how many too many during a rolling update: not both none. More than as many again may be
/// too many.
fn moves(rolling: &Value, path: &Path) -> Vec<Problem> {
    let (missing, at) = (&rolling["maxUnavailable"], path.field("maxUnavailable"));
    let mut found: Vec<Problem> = a_number_or_share(missing, &at).into_iter().collect();
    found.extend(a_number_or_share(&rolling["maxSurge"], &path.field("maxSurge")));
    if is_none(missing) && is_none(&rolling["maxSurge"]) {
        found.push(Problem::invalid(&at, missing.clone(), "may not be 0 when `maxSurge` is 0"));
    }
    found.extend(not_more_than_all(missing, &at));
    found
}

/// The problem of an unknown update strategy: Kubernetes shows the whole strategy, not only the type.
fn unknown_strategy(type_name: &str, strategy: &Value, known: &[&str], path: &Path) -> Problem {
    let problem = Problem::new(path, Reason::NotSupported, Some(strategy.clone()), supported_text(known));
    problem.showing(inner::shown(type_name, strategy))
}

fn same_selector(new: &Value, old: &Value, rules: Rules, validate: fn(&Value, Rules) -> Vec<Problem>) -> Vec<Problem> {
    let mut found = general::changed(new, old, rules, validate);
    found.extend(immutable_selector(new, old));
    found.extend(counts::forgotten(new, old));
    found
}

pub fn immutable_selector(new: &Value, old: &Value) -> Option<Problem> {
    immutable_as("LabelSelector", &new["spec"], &old["spec"], "selector", &Path::new("spec"))
}

/// Its selector is looked at before the rest.
fn daemon_set_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate_update(new, old);
    found.extend(immutable_selector(new, old));
    found.extend(meta::new_problems(daemon_set(new, rules), &daemon_set(old, rules)));
    found.extend(counts::forgotten(new, old));
    found
}

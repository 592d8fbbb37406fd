//! Workloads of `apps/v1`: a selector that never changes, a template for pods that it selects, and how one template takes
//! another's place.

use super::doc::{default_to, has, is_empty, list, list_at, map_at, number, remove, text};
use super::meta::{self, Scope};
use super::{
    Making, Rules, Strategy, claim, container, counts, full, general, label_selector, names, pod_defaults, pod_spec, without_status,
};
use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};

const COUNTED: Strategy = Strategy { durable: without_status, ..general::strategy::<false, true>() };

pub static DEPLOYMENT: Strategy = Strategy {
    create: |new, making| create(new, making, deployment_defaults),
    update: update_deployment,
    validate: deployment,
    validate_update: |new, old, rules| same_selector(new, old, rules, deployment),
    ..COUNTED
};
pub static REPLICA_SET: Strategy = Strategy {
    create: |new, making| create(new, making, template_defaults),
    update: |new, old, making| update(new, old, making, template_defaults),
    validate: replica_set,
    validate_update: |new, old, rules| same_selector(new, old, rules, replica_set),
    ..COUNTED
};
pub static DAEMON_SET: Strategy = Strategy {
    create: |new, making| create(new, making, daemon_set_defaults),
    update: |new, old, making| update(new, old, making, daemon_set_defaults),
    validate: daemon_set,
    validate_update: |new, old, rules| same_selector(new, old, rules, daemon_set),
    ..COUNTED
};
pub static STATEFUL_SET: Strategy = Strategy {
    create: |new, making| create(new, making, stateful_set_defaults),
    update: |new, old, making| update(new, old, making, stateful_set_defaults),
    validate: new_stateful_set,
    validate_update: stateful_set_update,
    ..COUNTED
};

pub const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
const MORE_THAN_ALL: &str = "must not be greater than 100%";
const UNMATCHED: &str = "`selector` does not match template `labels`";
const NO_SELECTOR: &str = "invalid label selector";
/// Written into every daemon set since its first version.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
/// What of a stateful set may change.
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

fn create(new: &mut Value, making: &mut Making<'_>, defaults: fn(&mut Value)) {
    defaults(new);
    general::create::<true>(new, making);
}

fn update(new: &mut Value, old: &Value, making: &mut Making<'_>, defaults: fn(&mut Value)) {
    defaults(new);
    general::update::<true>(new, old, making);
}

/// Its annotations are copied to its replica sets: another one is something new to be done.
fn update_deployment(new: &mut Value, old: &Value, _making: &mut Making<'_>) {
    deployment_defaults(new);
    let annotations = |deployment: &Value| deployment["metadata"].get("annotations").filter(|all| !is_empty(all)).cloned();
    let noted = annotations(new) != annotations(old);
    meta::update(new, old, noted || general::differs(new, old));
}

/// What all have: a template.
fn template_defaults(workload: &mut Value) {
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
    let meta = map_at(set, "metadata");
    let noted = meta.get("annotations").is_some_and(|all| has(all, TEMPLATE_GENERATION));
    if !noted {
        map_at(&mut set["metadata"], "annotations").insert(TEMPLATE_GENERATION.into(), "1".into());
    }
}

fn stateful_set_defaults(set: &mut Value) {
    template_defaults(set);
    rolling(&mut set["spec"], "updateStrategy", json!({"partition": 0}));
    for claim in list_at(&mut set["spec"], "volumeClaimTemplates") {
        default_to(claim, "apiVersion", "v1");
        default_to(claim, "kind", "PersistentVolumeClaim");
    }
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
    found.extend(not_negative(spec, &["replicas", "minReadySeconds"], &path));
    found.extend(of_replicas(spec, rules, &path));
    let (strategy, at) = (&spec["strategy"], path.field("strategy"));
    match text(strategy, "type") {
        "Recreate" if has(strategy, "rollingUpdate") => {
            let words = "may not be specified when strategy `type` is 'Recreate'";
            found.push(Problem::forbidden(&at.field("rollingUpdate"), words));
        }
        "RollingUpdate" => found.extend(moves(&strategy["rollingUpdate"], &at.field("rollingUpdate"))),
        _ => {}
    }
    found.extend(not_negative(spec, &["revisionHistoryLimit", "progressDeadlineSeconds"], &path));
    if let Some(deadline) = number(spec, "progressDeadlineSeconds")
        && deadline <= number(spec, "minReadySeconds").unwrap_or(0)
    {
        found.push(Problem::invalid(&path.field("progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds"));
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

/// Selector and template of what makes replicas.
fn of_replicas(spec: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = selector(spec, "deployment", rules, path);
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
        let words = "empty selector is invalid for daemonset";
        found.push(Problem::invalid(&path.field("selector"), spec["selector"].clone(), words));
    }
    found.extend(pod_template(&spec["template"], "DaemonSet", rules, &path.field("template")));
    found.extend(not_negative(spec, &["minReadySeconds"], &path));
    if text(&spec["updateStrategy"], "type") == "RollingUpdate" {
        found.extend(moves_one(&spec["updateStrategy"]["rollingUpdate"], &path.field("updateStrategy").field("rollingUpdate")));
    }
    found.extend(not_negative(spec, &["revisionHistoryLimit"], &path));
    found.extend(counts::problems(set, &counts::DAEMON_SET));
    found
}

/// Its templates of claims never change: one that was made with others before they were held to rules is changed all the same.
fn new_stateful_set(set: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = stateful_set(set, rules);
    let path = Path::new("spec").field("volumeClaimTemplates");
    for (at, template) in list(&set["spec"], "volumeClaimTemplates").iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(claim::of_spec(&template["spec"], rules, &path.index(at).field("spec")));
    }
    found
}

fn stateful_set(set: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(set, Scope::Namespaced, names::subdomain, rules);
    let (spec, path) = (&set["spec"], Path::new("spec"));
    let (strategy, at) = (&spec["updateStrategy"], path.field("updateStrategy"));
    match text(strategy, "type") {
        "RollingUpdate" => {
            let (rolling, at) = (&strategy["rollingUpdate"], at.field("rollingUpdate"));
            found.extend(not_negative(rolling, &["partition"], &at));
            found.extend(number_or_share(&rolling["maxUnavailable"], &at.field("maxUnavailable")));
            if has(rolling, "maxUnavailable") && is_none(&rolling["maxUnavailable"]) {
                found.push(Problem::invalid(&at.field("maxUnavailable"), rolling["maxUnavailable"].clone(), "cannot be 0"));
            }
        }
        "OnDelete" if has(strategy, "rollingUpdate") => {
            let words = "only allowed for updateStrategy 'RollingUpdate'";
            found.push(Problem::invalid(&at.field("rollingUpdate"), strategy["rollingUpdate"].clone(), words));
        }
        _ => {}
    }
    found.extend(not_negative(spec, &["replicas", "minReadySeconds"], &path));
    found.extend(not_negative(&spec["ordinals"], &["start"], &path.field("ordinals")));
    let kept = &spec["persistentVolumeClaimRetentionPolicy"];
    for field in ["whenDeleted", "whenScaled"].into_iter().filter(|field| !is_empty(&kept[*field])) {
        let at = path.field("persistentVolumeClaimRetentionPolicy").field(field);
        found.extend(container::one_of(text(kept, field), &["Delete", "Retain"], &at));
    }
    let service = text(spec, "serviceName");
    if !service.is_empty() {
        found.extend(names::problems(&path.field("serviceName"), service, names::subdomain(service)));
    }
    let of_selector = selector(spec, "statefulset", rules, &path);
    let good = !of_selector.iter().any(|problem| problem.detail == NO_SELECTOR);
    found.extend(of_selector);
    if good {
        found.extend(selected(spec, &path));
        found.extend(pod_template(&with_claims(spec), "StatefulSet", rules, &path.field("template")));
    }
    found.extend(not_negative(spec, &["revisionHistoryLimit"], &path));
    found.extend(counts::problems(set, &counts::STATEFUL_SET));
    found
}

/// The template with a volume for each template of a claim, which its containers may mount.
fn with_claims(spec: &Value) -> Value {
    let mut template = spec["template"].clone();
    let claims = list(spec, "volumeClaimTemplates");
    if claims.is_empty() || !template["spec"].is_object() {
        return template;
    }
    let mut volumes: Vec<Value> = claims
        .iter()
        .map(|claim| json!({"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}))
        .collect();
    let claimed = |name: &Value| claims.iter().any(|claim| claim["metadata"]["name"] == *name);
    let others = list(&template["spec"], "volumes").iter().filter(|volume| !claimed(&volume["name"])).cloned();
    // Those of the template come first, so that their problems are told at their places.
    let mut all: Vec<Value> = others.collect();
    all.append(&mut volumes);
    template["spec"]["volumes"] = all.into();
    template
}

fn selector(spec: &Value, kind: &str, rules: Rules, path: &Path) -> Vec<Problem> {
    let (selector, path) = (&spec["selector"], path.field("selector"));
    if !has(spec, "selector") {
        return vec![Problem::required(&path, "")];
    }
    let mut found = label_selector::validate(selector, rules, &path);
    if label_selector::selects_all(selector) {
        found.push(Problem::invalid(&path, selector.clone(), format!("empty selector is invalid for {kind}")));
    } else if !found.is_empty() {
        found.push(Problem::invalid(&path, selector.clone(), NO_SELECTOR));
    }
    found
}

/// The template's labels are what the selector selects.
pub fn selected(spec: &Value, path: &Path) -> Option<Problem> {
    let labels = &spec["template"]["metadata"]["labels"];
    let path = path.field("template").field("metadata").field("labels");
    (!label_selector::matches(&spec["selector"], labels)).then(|| Problem::invalid(&path, labels.clone(), UNMATCHED))
}

/// A template of pods that run for ever. `kind`: as the problem with a deadline names it.
fn pod_template(template: &Value, kind: &str, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = pod_spec::validate_template(template, rules, path);
    let (spec, path) = (&template["spec"], path.field("spec"));
    if matches!(text(spec, "restartPolicy"), "OnFailure" | "Never") {
        let value = Some(spec["restartPolicy"].clone());
        found.push(Problem::new(&path.field("restartPolicy"), Reason::NotSupported, value, super::supported_text(&["Always"])));
    }
    if has(spec, "activeDeadlineSeconds") {
        let words = format!("activeDeadlineSeconds in {kind} is not Supported");
        found.push(Problem::forbidden(&path.field("activeDeadlineSeconds"), words));
    }
    found
}

/// Whether a number or a share is none.
fn is_none(value: &Value) -> bool {
    match value {
        Value::String(share) => share.strip_suffix('%').is_some_and(|number| number.bytes().all(|byte| byte == b'0')),
        other => other.as_i64().unwrap_or(0) == 0,
    }
}

/// Of the pods of a daemon set either some may be missing or some too many during a rolling update.
fn moves_one(rolling: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for field in ["maxUnavailable", "maxSurge"] {
        found.extend(number_or_share(&rolling[field], &path.field(field)));
    }
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

/// How many may be missing and how many too many during a rolling update: not both none. More than as many again may be too many.
fn moves(rolling: &Value, path: &Path) -> Vec<Problem> {
    let mut found = number_or_share(&rolling["maxUnavailable"], &path.field("maxUnavailable"));
    let surge = number_or_share(&rolling["maxSurge"], &path.field("maxSurge"));
    found.extend(surge.into_iter().filter(|problem| problem.detail != MORE_THAN_ALL));
    if found.is_empty() && is_none(&rolling["maxUnavailable"]) && is_none(&rolling["maxSurge"]) {
        let words = "may not be 0 when `maxSurge` is 0";
        found.push(Problem::invalid(&path.field("maxUnavailable"), rolling["maxUnavailable"].clone(), words));
    }
    found
}

/// A number that is not negative, or a share: `25%`.
pub fn number_or_share(value: &Value, path: &Path) -> Vec<Problem> {
    match value {
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            vec![Problem::invalid(path, value.clone(), NOT_NEGATIVE)]
        }
        Value::String(text) => {
            let share = text.strip_suffix('%').filter(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
            match share.map(|number| number.parse::<u32>()) {
                None => {
                    let words = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex \
                        used for validation is '[0-9]+%')";
                    vec![Problem::invalid(path, text.as_str(), words)]
                }
                Some(Ok(0..=100)) => Vec::new(),
                Some(_) => vec![Problem::invalid(path, text.as_str(), MORE_THAN_ALL)],
            }
        }
        _ => Vec::new(),
    }
}

/// Numbers that may not be below zero, in the order told.
pub fn not_negative(of: &Value, fields: &[&str], path: &Path) -> Vec<Problem> {
    let negative = fields.iter().filter_map(|field| Some((field, number(of, field).filter(|number| *number < 0)?)));
    negative.map(|(field, number)| Problem::invalid(&path.field(field), number, NOT_NEGATIVE)).collect()
}

fn same_selector(new: &Value, old: &Value, rules: Rules, validate: fn(&Value, Rules) -> Vec<Problem>) -> Vec<Problem> {
    let mut found = general::changed(new, old, rules, validate);
    found.extend(immutable(&new["spec"], &old["spec"], "selector", &Path::new("spec")));
    found.extend(counts::forgotten(new, old));
    found
}

/// A field that stays as it was made.
pub fn immutable(new: &Value, old: &Value, field: &str, path: &Path) -> Option<Problem> {
    (new[field] != old[field]).then(|| Problem::invalid(&path.field(field), new[field].clone(), "field is immutable"))
}

fn stateful_set_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let kept = |set: &Value| {
        let mut spec = set["spec"].clone();
        CHANGEABLE.iter().for_each(|field| remove(&mut spec, field));
        spec
    };
    let mut found = general::changed(new, old, rules, stateful_set);
    if kept(new) != kept(old) && !full(&found) {
        let words = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
            'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        found.push(Problem::forbidden(&Path::new("spec"), words));
    }
    found.extend(counts::forgotten(new, old));
    found
}

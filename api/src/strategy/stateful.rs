//! Stateful sets: pods with names and volumes of their own, of which little may change. PURE.

use super::apps::{self, COUNTED, selected};
use super::checks::{a_number_or_share, full, is_none, not_more_than_all, not_negative, supported_text};
use super::doc::{default_to, has, is_empty, list, list_at, map_at, remove, text};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Rules};
use super::{claim, counts, general, inner, names, pod_spec};
use crate::meta::Durable;
use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};
use std::collections::HashSet;

pub static STATEFUL_SET: BuiltinStrategy = BuiltinStrategy {
    create: |new, making| {
        without_bounds(new);
        apps::create(new, making, defaults)
    },
    update: |new, old, making| {
        if old["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"].is_null() {
            without_bounds(new);
        }
        apps::update(new, old, making, defaults)
    },
    validate: |set, rules| stateful_set(set, true, rules),
    validate_update: update,
    durable,
    ..COUNTED
};

/// In the middle of an update nothing else says which template the pods below the partition are of.
fn durable(set: &Value) -> Durable {
    let revision = |field: &str| text(&set["status"], field);
    if revision("currentRevision") == revision("updateRevision") { counts::durable(set) } else { Durable::Whole }
}

/// The fields of a stateful set that may change.
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// How many pods may be missing is behind a gate that Kubernetes leaves shut: the field is dropped.
fn without_bounds(set: &mut Value) {
    if let Some(rolling) = set.pointer_mut("/spec/updateStrategy/rollingUpdate") {
        remove(rolling, "maxUnavailable");
    }
}

fn defaults(set: &mut Value) {
    apps::template_defaults(set);
    map_at(&mut set["spec"], "updateStrategy");
    let strategy = &mut set["spec"]["updateStrategy"];
    // Whoever names the strategy gets no numbers that he did not write.
    if is_empty(&strategy["type"]) {
        strategy["type"] = "RollingUpdate".into();
        default_to(strategy, "rollingUpdate", json!({}));
    }
    if text(strategy, "type") == "RollingUpdate" && has(strategy, "rollingUpdate") {
        default_to(&mut strategy["rollingUpdate"], "partition", 0);
    }
    for claim in list_at(&mut set["spec"], "volumeClaimTemplates") {
        claim["apiVersion"] = "v1".into();
        claim["kind"] = "PersistentVolumeClaim".into();
    }
}

/// `new`: what never changes is looked at too; one that was made before that was held to rules is changed all the same.
fn stateful_set(set: &Value, new: bool, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(set, Scope::Namespaced, names::label, rules);
    let (spec, path) = (&set["spec"], Path::new("spec"));
    let policy = text(spec, "podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        found.push(Problem::invalid(
            &path.field("podManagementPolicy"),
            policy,
            "must be 'OrderedReady' or 'Parallel'",
        ));
    }
    found.extend(update_strategy(&spec["updateStrategy"], &path.field("updateStrategy")));
    let (kept, at) =
        (&spec["persistentVolumeClaimRetentionPolicy"], path.field("persistentVolumeClaimRetentionPolicy"));
    for field in ["whenDeleted", "whenScaled"].into_iter().filter(|field| !is_empty(&kept[*field])) {
        found.extend(one_of(text(kept, field), &["Retain", "Delete"], &at.field(field)));
    }
    if new {
        found.extend(claims(spec, rules, &path.field("volumeClaimTemplates")));
    }
    found.extend(not_negative(spec, &["replicas", "minReadySeconds"], &path));
    found.extend(not_negative(&spec["ordinals"], &["start"], &path.field("ordinals")));
    let service = text(spec, "serviceName");
    if new && !service.is_empty() {
        found.extend(names::problems(&path.field("serviceName"), service, names::label(service)));
    }
    let of_selector = apps::selector(spec, "statefulset", "", rules, &path);
    let good = of_selector
        .iter()
        .all(|problem| problem.reason == Reason::Required || problem.detail.starts_with("empty selector"));
    found.extend(of_selector);
    if good {
        found.extend(selected(spec, &path));
        let (template, at) = (with_claims(spec), path.field("template"));
        found.extend(pod_spec::validate_template(&template, rules, &at));
        // Kubernetes looks at its labels and annotations twice.
        found.extend(pod_spec::template_metadata(&template, rules, &at));
    }
    found.extend(apps::for_ever(&spec["template"], "StatefulSet", &path.field("template")));
    found.extend(counts::problems(set, &counts::STATEFUL_SET));
    found
}

fn one_of(value: &str, known: &[&str], path: &Path) -> Option<Problem> {
    (!known.contains(&value))
        .then(|| Problem::new(path, Reason::NotSupported, Some(value.into()), supported_text(known)))
}

fn update_strategy(strategy: &Value, path: &Path) -> Vec<Problem> {
    let (rolling, at) = (&strategy["rollingUpdate"], path.field("rollingUpdate"));
    match text(strategy, "type") {
        "RollingUpdate" => {
            let mut found = not_negative(rolling, &["partition"], &at);
            let (missing, at) = (&rolling["maxUnavailable"], at.field("maxUnavailable"));
            found.extend(a_number_or_share(missing, &at));
            if has(rolling, "maxUnavailable") && is_none(missing) {
                found.push(Problem::invalid(&at, missing.clone(), "cannot be 0"));
            }
            found.extend(not_more_than_all(missing, &at));
            found
        }
        "OnDelete" if has(strategy, "rollingUpdate") => {
            let problem = Problem::invalid(&at, rolling.clone(), "only allowed for updateStrategy 'RollingUpdate'");
            vec![problem.showing(inner::shown("apps.v1.RollingUpdateStatefulSetStrategy", rolling))]
        }
        "OnDelete" => Vec::new(),
        _ => {
            let problem = Problem::invalid(path, strategy.clone(), "must be 'RollingUpdate' or 'OnDelete'");
            vec![problem.showing(inner::shown("apps.v1.StatefulSetUpdateStrategy", strategy))]
        }
    }
}

fn claims(spec: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for (at, template) in list(spec, "volumeClaimTemplates").iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(claim::of_spec(&template["spec"], rules, &path.index(at).field("spec")));
    }
    found
}

/// The template with a volume for each template of a claim, which its containers may mount, and without the names that
/// each pod gets from the set.
fn with_claims(spec: &Value) -> Value {
    let mut template = spec["template"].clone();
    if !template["spec"].is_object() {
        return template;
    }
    ["subdomain", "hostname"].iter().for_each(|field| remove(&mut template["spec"], field));
    let mut named = HashSet::new();
    let names = list(spec, "volumeClaimTemplates").iter().map(|claim| &claim["metadata"]["name"]);
    let names: Vec<&Value> = names.filter(|name| named.insert(name.as_str())).collect();
    if names.is_empty() {
        return template;
    }
    let mut volumes: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}})).collect();
    let others = list(&template["spec"], "volumes").iter().filter(|volume| !names.contains(&&volume["name"])).cloned();
    volumes.extend(others);
    template["spec"]["volumes"] = volumes.into();
    template
}

fn update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let kept = |set: &Value| {
        let mut spec = set["spec"].clone();
        CHANGEABLE.iter().for_each(|field| remove(&mut spec, field));
        spec
    };
    let mut found = general::changed(new, old, rules, |set, rules| stateful_set(set, false, rules));
    if kept(new) != kept(old) && !full(&found) {
        let words = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                     'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                     'minReadySeconds' are forbidden";
        found.push(Problem::forbidden(&Path::new("spec"), words));
    }
    found.extend(counts::forgotten(new, old));
    found
}

//! Jobs, which run to completion, and cron jobs, which create jobs. A job's selector and labels are its uid, unless the
//! job sets `manualSelector`.

use super::apps::{immutable_selector, selected};
use super::checks::{immutable, immutable_as, not_negative, supported_text};
use super::doc::{copy, default_to, entries, has, is_empty, list, list_at, map_at, number, remove, text, yes};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Making, Rules};
use super::time_zone::zone;
use super::{cron, general, inner, job_rules, label_selector, names, pod_defaults, pod_spec};
use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};

/// A cron job's jobs are called after it, with the time behind.
const CRON_JOB_NAME_BYTES_MAX: usize = 52;
/// Labels of a job's pods.
const UID: &str = "batch.kubernetes.io/controller-uid";
const NAME: &str = "batch.kubernetes.io/job-name";
/// The same, from before labels had prefixes.
const OLD_UID: &str = "controller-uid";
const OLD_NAME: &str = "job-name";
const OWN: [&str; 4] = [UID, NAME, OLD_UID, OLD_NAME];
pub static JOB: BuiltinStrategy = BuiltinStrategy {
    create: |job, making| {
        job_defaults(job);
        general::create::<true>(job, making);
        select_own(job);
        labels(job);
    },
    update: |new, old, making: &mut Making<'_>| {
        job_defaults(new);
        labels(new);
        general::update::<true>(new, old, making);
    },
    status_update: |new, old| {
        labels(new);
        meta::status_update(new, old);
    },
    validate: job,
    validate_update: job_update,
    ..general::strategy::<false, true>()
};

pub static CRON_JOB: BuiltinStrategy = BuiltinStrategy {
    create: |cron_job, making| {
        cron_job_defaults(cron_job);
        general::create::<true>(cron_job, making);
    },
    update: |new, old, making: &mut Making<'_>| {
        cron_job_defaults(new);
        general::update::<true>(new, old, making);
    },
    validate: cron_job,
    validate_update: |new, old, rules| general::changed(new, old, rules, cron_job),
    ..general::strategy::<false, true>()
};

fn job_defaults(job: &mut Value) {
    map_at(job, "spec");
    let spec = &mut job["spec"];
    template_defaults(spec);
    if !has(spec, "completions") && !has(spec, "parallelism") {
        spec["completions"] = 1.into();
    }
    default_to(spec, "parallelism", 1);
    default_to(spec, "backoffLimit", if has(spec, "backoffLimitPerIndex") { i32::MAX } else { 6 });
    unless_said(spec, "completionMode", "NonIndexed");
    default_to(spec, "suspend", false);
    default_to(spec, "manualSelector", false);
    let replaced = if has(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    unless_said(spec, "podReplacementPolicy", replaced);
}

/// A word that is said, though it says nothing, is not replaced.
fn unless_said(of: &mut Value, field: &str, word: &str) {
    if !has(of, field) {
        of[field] = word.into();
    }
}

fn template_defaults(spec: &mut Value) {
    let template = map_at(spec, "template");
    // A job's pods never run for ever, so there is no default that Kubernetes would take.
    let policy = template.get("spec").is_some_and(|spec| has(spec, "restartPolicy"));
    map_at(&mut spec["template"], "spec");
    let template = &mut spec["template"]["spec"];
    pod_defaults::template(template);
    if !policy {
        template["restartPolicy"] = "Always".into();
    }
}

/// The uid makes the selector, and the labels that it selects.
fn select_own(job: &mut Value) {
    if yes(&job["spec"], "manualSelector") {
        return;
    }
    let (uid, name) = (job["metadata"]["uid"].clone(), job["metadata"]["name"].clone());
    map_at(&mut job["spec"], "selector");
    map_at(&mut job["spec"]["selector"], "matchLabels").entry(UID).or_insert_with(|| uid.clone());
    map_at(&mut job["spec"]["template"], "metadata");
    let labels = map_at(&mut job["spec"]["template"]["metadata"], "labels");
    for (label, value) in [(UID, &uid), (OLD_UID, &uid), (NAME, &name), (OLD_NAME, &name)] {
        labels.entry(label).or_insert_with(|| value.clone());
    }
}

/// The job's own labels are the template's where it has none.
fn labels(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if is_empty(&job["metadata"]["labels"]) && !is_empty(&labels) {
        map_at(job, "metadata").insert("labels".into(), labels);
    }
}

fn cron_job_defaults(cron_job: &mut Value) {
    map_at(cron_job, "spec");
    map_at(&mut cron_job["spec"], "jobTemplate");
    map_at(&mut cron_job["spec"]["jobTemplate"], "spec");
    template_defaults(&mut cron_job["spec"]["jobTemplate"]["spec"]);
}

fn job(job: &Value, rules: Rules) -> Vec<Problem> {
    let (labels, of_pods) = (&job["metadata"]["labels"], &job["spec"]["template"]["metadata"]["labels"]);
    // Labels that nobody wrote come from the template, where they are looked at.
    let invented = labels == of_pods
        && entries(&job["spec"]["template"]["metadata"], "labels").all(|(key, _)| OWN.contains(&key.as_str()));
    let mut bare = json!({"metadata": job["metadata"]});
    if invented {
        remove(&mut bare["metadata"], "labels");
    }
    let mut found = meta::validate(&bare, Scope::Namespaced, names::subdomain, rules);
    found.extend(own_selector(job));
    let (spec, path) = (&job["spec"], Path::new("spec"));
    found.extend(selecting_spec(spec, rules, &path));
    let completions = number(spec, "completions").filter(|completions| *completions > 0 && job_rules::is_indexed(spec));
    if let Some(completions) = completions {
        let name = text(&job["metadata"], "name");
        let last = format!("{name}-{}", completions - 1);
        if !names::label(&last).is_empty() {
            let words = format!("will not able to create pod with invalid DNS label: {last}");
            found.push(Problem::invalid(&Path::new("metadata.name"), name, words));
        }
    }
    found.extend(job_rules::status(job));
    found
}

/// A selector that nobody wrote selects what the job's uid and name say.
fn own_selector(job: &Value) -> Vec<Problem> {
    let (spec, path) = (&job["spec"], Path::new("spec"));
    if yes(spec, "manualSelector") || !has(spec, "selector") {
        return Vec::new();
    }
    let (uid, name) = (text(&job["metadata"], "uid"), text(&job["metadata"], "name"));
    let at = path.field("template").field("metadata").field("labels");
    let (mut found, labels) = (Vec::new(), &spec["template"]["metadata"]["labels"]);
    let expected = [(OLD_UID, uid), (OLD_NAME, name), (UID, uid), (NAME, name)];
    for (label, value) in expected {
        let words = format!("must be '{value}'");
        match labels[label].as_str() {
            Some(said) if said == value => {}
            Some(_) => found.push(Problem::invalid(&at.key(label), labels.clone(), words)),
            None => found.push(Problem::required(&at.key(label), words)),
        }
    }
    let selector = &spec["selector"];
    let readable = label_selector::validate(selector, Rules::default(), &path).is_empty();
    if readable && !label_selector::matches(selector, &Value::from_iter(expected)) {
        found.push(label_selector::problem(selector, &path.field("selector"), "`selector` not auto-generated"));
    }
    found
}

/// A job's spec with its selector.
fn selecting_spec(spec: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = job_spec(spec, rules, path);
    if !has(spec, "selector") {
        found.push(Problem::required(&path.field("selector"), ""));
    }
    let of_selector = label_selector::validate(&spec["selector"], rules, &path.field("selector"));
    let good = of_selector.is_empty();
    found.extend(of_selector);
    if good {
        found.extend(selected(spec, path));
    }
    found
}

/// A job's spec, a cron job's template too.
fn job_spec(spec: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let fields = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    let mut found = not_negative(spec, &fields, path);
    found.extend(job_rules::spec(spec, path));
    let template = path.field("template");
    found.extend(pod_spec::validate_template(&spec["template"], rules, &template));
    if !matches!(text(&spec["template"]["spec"], "restartPolicy"), "OnFailure" | "Never") {
        let words = "valid values: \"OnFailure\", \"Never\"";
        found.push(Problem::required(&template.field("spec").field("restartPolicy"), words));
    } else if has(spec, "podFailurePolicy") && text(&spec["template"]["spec"], "restartPolicy") != "Never" {
        let words = "only \"Never\" is supported when podFailurePolicy is specified";
        found.push(Problem::invalid(&template.field("spec").field("restartPolicy"), "OnFailure", words));
    }
    found
}

/// Kubernetes looks at the new job, and then at what became of the old one, in which it looks at the new spec again.
fn job_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let (now, was, path) = (&new["spec"], &old["spec"], Path::new("spec"));
    let mut found = meta::new_problems(job(new, rules), &job(old, rules));
    found.extend(meta::validate_update(new, old));
    found.extend(meta::new_problems(selecting_spec(now, rules, &path), &selecting_spec(was, rules, &path)));
    // An indexed job may change both numbers together.
    if now["completions"] != was["completions"] && !job_rules::is_indexed(now) {
        found.extend(immutable(now, was, "completions", &path));
    } else if now["completions"] != was["completions"]
        && has(now, "completions")
        && now["completions"] != now["parallelism"]
    {
        let words = "can only be modified in tandem with spec.parallelism";
        found.push(Problem::invalid(&path.field("completions"), now["completions"].clone(), words));
    }
    found.extend(immutable_selector(new, old));
    found.extend(same_template(now, was, &old["status"]));
    found.extend(immutable(now, was, "completionMode", &path));
    found.extend(immutable_as("batch.v1.PodFailurePolicy", now, was, "podFailurePolicy", &path));
    found.extend(["backoffLimitPerIndex", "managedBy"].iter().filter_map(|field| immutable(now, was, field, &path)));
    found.extend(immutable_as("batch.v1.SuccessPolicy", now, was, "successPolicy", &path));
    found.extend(job_rules::status_update(new, old));
    found
}

/// The template may not change, except for the fields that a resting job may change (`as_directed`).
fn same_template(now: &Value, was: &Value, status: &Value) -> Option<Problem> {
    let (directed, path) = (as_directed(now, was, status), Path::new("spec.template"));
    if !rests(was, status) {
        let problem = immutable(now, &directed, "template", &Path::new("spec"))?;
        return Some(problem.showing(inner::shown("PodTemplateSpec", &now["template"])));
    }
    let problem = immutable(&now["template"], &directed["template"], "spec", &path)?;
    Some(problem.showing(inner::shown_pod(&now["template"]["spec"])))
}

/// Whether a job is suspended and nothing of it runs.
fn rests(was: &Value, status: &Value) -> bool {
    let stands = |condition: &Value| text(condition, "type") == "Suspended" && text(condition, "status") == "True";
    let rests = !has(status, "startTime") || list(status, "conditions").iter().any(stands);
    yes(was, "suspend") && rests && number(status, "active").unwrap_or(0) <= 0
}

/// While nothing of a suspended job runs, an update may change the placement of the job's pods and the resources of
/// their containers. The result is the old spec with these fields of the new spec.
fn as_directed(now: &Value, was: &Value, status: &Value) -> Value {
    let mut directed = was.clone();
    if !rests(was, status) {
        return directed;
    }
    let template = &now["template"];
    for field in ["containers", "initContainers"] {
        for (container, now) in list_at(&mut directed["template"]["spec"], field).zip(list(&template["spec"], field)) {
            copy(container, now, "resources");
        }
    }
    for field in ["annotations", "labels"] {
        map_at(&mut directed["template"], "metadata");
        copy(&mut directed["template"]["metadata"], &template["metadata"], field);
    }
    if is_empty(&directed["template"]["metadata"]) && !has(template, "metadata") {
        remove(&mut directed["template"], "metadata");
    }
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        copy(&mut directed["template"]["spec"], &template["spec"], field);
    }
    let affinity = &template["spec"]["affinity"];
    map_at(&mut directed["template"]["spec"], "affinity");
    copy(&mut directed["template"]["spec"]["affinity"], affinity, "nodeAffinity");
    if is_empty(&directed["template"]["spec"]["affinity"]) && is_empty(affinity) {
        copy(&mut directed["template"]["spec"], &template["spec"], "affinity");
    }
    directed
}

fn cron_job(cron_job: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(cron_job, Scope::Namespaced, names::subdomain, rules);
    let (spec, path) = (&cron_job["spec"], Path::new("spec"));
    let name = text(&cron_job["metadata"], "name");
    if name.len() > CRON_JOB_NAME_BYTES_MAX {
        let words = format!("must be no more than {CRON_JOB_NAME_BYTES_MAX} characters");
        found.push(Problem::invalid(&Path::new("metadata.name"), name, words));
    }
    found.extend(schedule(spec, &path));
    found.extend(not_negative(spec, &["startingDeadlineSeconds"], &path));
    found.extend(zone(spec, rules, &path));
    let (template, at) = (&spec["jobTemplate"]["spec"], path.field("jobTemplate").field("spec"));
    found.extend(job_spec(template, rules, &at));
    if has(template, "selector") {
        found.push(Problem::invalid(
            &at.field("selector"),
            template["selector"].clone(),
            "`selector` will be auto-generated",
        ));
    }
    if yes(template, "manualSelector") {
        let words = supported_text(&["nil", "false"]);
        found.push(Problem::new(&at.field("manualSelector"), Reason::NotSupported, Some(true.into()), words));
    }
    found.extend(not_negative(spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], &path));
    found
}

fn schedule(spec: &Value, path: &Path) -> Option<Problem> {
    let (schedule, path) = (text(spec, "schedule"), path.field("schedule"));
    if schedule.is_empty() {
        return Some(Problem::required(&path, ""));
    }
    if schedule.contains("TZ") {
        return Some(Problem::invalid(
            &path,
            schedule,
            "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        ));
    }
    cron::fault(schedule).map(|why| Problem::invalid(&path, schedule, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_suspended_job_may_change() {
        fn check(suspended: bool, status: Value, at: &str, value: Value, taken: bool) {
            let container = json!({"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}});
            let template =
                json!({"spec": {"restartPolicy": "Never", "nodeSelector": {"a": "b"}, "containers": [container]}});
            let old = json!({"metadata": {"name": "j", "namespace": "n"}, "status": status,
                "spec": {"suspend": suspended, "template": template}});
            let mut new = old.clone();
            *new.pointer_mut(&format!("/spec/template/spec{at}")).unwrap() = value;
            let found: Vec<String> = job_update(&new, &old, Rules::default()).iter().map(Problem::to_string).collect();
            assert_eq!(
                !found.iter().any(|one| one.starts_with("spec.template: Invalid value")
                    || one.starts_with("spec.template.spec: Invalid value")),
                taken,
                "{new}: {found:?}"
            );
        }
        let (more, cpu) = ("/containers/0/resources", json!({"limits": {"cpu": "2"}}));
        check(true, json!({}), more, cpu.clone(), true);
        check(true, json!({}), more, json!({}), true);
        check(true, json!({}), "/nodeSelector", json!({"c": "d"}), true);
        check(true, json!({}), "/containers/0/image", json!("i:2"), false);
        check(true, json!({"active": 1}), more, cpu.clone(), false);
        check(false, json!({}), more, cpu.clone(), false);
        let mut began = json!({"startTime": "2020-01-01T00:00:00Z"});
        check(true, began.clone(), more, cpu.clone(), false);
        began["conditions"] = json!([{"type": "Suspended", "status": "True"}]);
        check(true, began, more, cpu, true);
    }
}

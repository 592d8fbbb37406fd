//! Pod Security: pods have to meet the level that the labels of their namespace ask for, whoever makes them. PURE.
//!
//! `enforce` refuses a pod. `warn` tells the client, also of a workload whose pods would be refused, and `audit` tells
//! the audit log.

mod baseline;
mod checks;
mod level;
mod restricted;
mod view;

use self::checks::violations;
use self::level::{Level, Policy};
use self::view::{PodView, told};
use super::{AdmissionOperation, AdmissionRequest, Refusal};
use coracle_api::meta::{Key, Resource};
use coracle_api::strategy::doc::{list, text};
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) const PODS: &[&str] = &["pods", "pods/ephemeralcontainers", "pods/resize"];
/// The kinds that hold a template of pods.
pub(super) const WORKLOADS: &[&str] = &[
    "replicationcontrollers",
    "podtemplates",
    "replicasets.apps",
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "cronjobs.batch",
];
/// Pods of a namespace that are looked at when its level is raised.
const PODS_MAX: usize = 3000;

/// Refuses labels that mean nothing, and tells which pods of the namespace do not meet a new level.
pub(super) fn namespace(request: &AdmissionRequest<'_>, namespace: &Value) -> Result<(), Refusal> {
    let (policy, problems) = Policy::of(&namespace["metadata"]["labels"]);
    let old = request.old.map(|old| Policy::of(&old["metadata"]["labels"]));
    let known = old.as_ref().is_some_and(|(_, known)| *known == problems);
    if !problems.is_empty() && !known {
        return Err(Refusal::Invalid(problems));
    }
    let Some((old, _)) = old else { return Ok(()) };
    let (asked, before) = (policy.enforce, old.enforce);
    let is_easier = asked.version == before.version && asked.level <= before.level;
    if asked == before || asked.level == Level::Privileged || is_easier {
        return Ok(());
    }
    let name = text(&namespace["metadata"], "name");
    match request.view.list(&Resource::core("pods"), Some(name)) {
        Ok(pods) => not_met(&pods, name, &policy).into_iter().for_each(|warning| request.remarks.warn(warning)),
        Err(_) => request.remarks.warn("failed to list pods while checking new PodSecurity enforce level".to_owned()),
    }
    Ok(())
}

/// Warnings about the pods of a namespace that do not meet its new level: pods with the same violations share a line.
fn not_met(pods: &[Value], namespace: &str, policy: &Policy) -> Vec<String> {
    let mut lines: BTreeMap<String, (usize, &str)> = BTreeMap::new();
    for pod in pods.iter().take(PODS_MAX) {
        let violations = violations(policy.enforce, view(pod));
        if violations.is_empty() {
            continue;
        }
        let reasons: Vec<String> = violations.into_iter().map(|violation| violation.reason).collect();
        let name = text(&pod["metadata"], "name");
        let (count, first) = lines.entry(reasons.join(", ")).or_insert((0, name));
        *count += 1;
        *first = name.min(*first);
    }
    let mut lines: Vec<String> = lines
        .into_iter()
        .map(|(reasons, (count, first))| match count {
            1 => format!("{first}: {reasons}"),
            2 => format!("{first} (and 1 other pod): {reasons}"),
            count => format!("{first} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    lines.sort();
    let mut warnings = Vec::new();
    if pods.len() > PODS_MAX {
        let count = pods.len();
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {PODS_MAX} of {count} existing pods"
        ));
    }
    if !lines.is_empty() {
        let asked = policy.enforce.to_string();
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level {asked:?}"
        ));
    }
    warnings.extend(lines);
    warnings
}

/// Refuses a pod that does not meet the level of its namespace.
pub(super) fn pod(request: &AdmissionRequest<'_>, pod: &Value) -> Result<(), Refusal> {
    let (policy, problems) = policy(request)?;
    if problems == 0 && policy.is_privileged() {
        return Ok(());
    }
    if request.operation == AdmissionOperation::Update && !request.old.is_none_or(|old| is_significant(pod, old)) {
        return Ok(());
    }
    let enforced = violations(policy.enforce, view(pod));
    request.remarks.note("pod-security.kubernetes.io/enforce-policy", policy.enforce.to_string());
    audit(request, &policy, view(pod));
    if !enforced.is_empty() {
        let asked = policy.enforce.to_string();
        return Err(format!("violates PodSecurity {asked:?}: {}", told(&enforced)).into());
    }
    warn(request, &policy, view(pod));
    Ok(())
}

/// Warns of a workload whose pods would not meet the level of its namespace.
pub(super) fn workload(request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Refusal> {
    // Only pods are refused. Where nobody knows the level of the namespace, nobody is warned.
    let Ok((policy, problems)) = policy(request) else { return Ok(()) };
    if problems == 0 && policy.asks_controllers_nothing() {
        return Ok(());
    }
    let template = match &*request.kind.resource.plural {
        "podtemplates" => &object["template"],
        "cronjobs" => &object["spec"]["jobTemplate"]["spec"]["template"],
        _ => &object["spec"]["template"],
    };
    if template.is_object() {
        audit(request, &policy, view(template));
        warn(request, &policy, view(template));
    }
    Ok(())
}

fn warn(request: &AdmissionRequest<'_>, policy: &Policy, pod: PodView<'_>) {
    if let Some(words) = would_violate(policy.warn, pod) {
        request.remarks.warn(words);
    }
}

fn audit(request: &AdmissionRequest<'_>, policy: &Policy, pod: PodView<'_>) {
    if let Some(words) = would_violate(policy.audit, pod) {
        request.remarks.note("pod-security.kubernetes.io/audit-violations", words);
    }
}

fn would_violate(asked: level::LevelVersion, pod: PodView<'_>) -> Option<String> {
    let violations = violations(asked, pod);
    let asked = asked.to_string();
    (!violations.is_empty()).then(|| format!("would violate PodSecurity {asked:?}: {}", told(&violations)))
}

/// The policy of the namespace of a request, and how many of its labels mean nothing. A namespace that is not there has
/// no policy: nothing is made in it.
fn policy(request: &AdmissionRequest<'_>) -> Result<(Policy, usize), String> {
    let name = request.namespace;
    let key = Key { resource: Resource::core("namespaces"), namespace: String::new(), name: name.to_owned() };
    let namespace = request.view.get(&key).map_err(|why| {
        format!("nobody knows the Pod Security level of namespace {name:?}, whose file is damaged: {why}")
    })?;
    let (policy, problems) = Policy::of(&namespace.unwrap_or_default()["metadata"]["labels"]);
    Ok((policy, problems.len()))
}

fn view(of: &Value) -> PodView<'_> {
    PodView { annotations: &of["metadata"]["annotations"], spec: &of["spec"] }
}

/// Whether an update may change how a pod meets a level: another image, or one more container. Nothing else that a
/// level asks about can change in a pod.
fn is_significant(pod: &Value, old: &Value) -> bool {
    let containers = |of: &'_ Value, field: &str| -> Vec<(String, String)> {
        let each = list(&of["spec"], field).iter();
        each.map(|container| (text(container, "name").to_owned(), text(container, "image").to_owned())).collect()
    };
    let images =
        |of: &Value, field: &str| containers(of, field).into_iter().map(|(_, image)| image).collect::<Vec<_>>();
    let known = containers(old, "ephemeralContainers");
    ["containers", "initContainers"].into_iter().any(|field| images(pod, field) != images(old, field))
        || containers(pod, "ephemeralContainers").iter().any(|container| !known.contains(container))
}

#[cfg(test)]
mod tests;

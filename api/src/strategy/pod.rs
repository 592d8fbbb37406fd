//! Pods: what is set, kept and refused over a pod's life.

use super::doc::{copy, has, is_empty, list, map_at, number, text, texts};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Deleting, Deletion, Making, Rules, no_claims};
use super::{affinity, annotated, inner, names, pod_defaults, pod_spec, pod_status, qos};
use crate::meta::{Durable, Time};
use coracle_schema::{Path, Problem};
use serde_json::{Value, json};
use std::collections::HashSet;

/// The grace period of a pod without a grace period in the spec.
pub const GRACE_S_DEFAULT: i64 = 30;

pub static POD: BuiltinStrategy = BuiltinStrategy {
    create,
    update,
    status_update,
    validate,
    validate_update,
    claims: no_claims,
    durable,
    delete,
    released: meta::is_released,
};

fn create(pod: &mut Value, making: &mut Making<'_>) {
    meta::create(pod, making, true);
    map_at(pod, "spec");
    pod_defaults::pod(&mut pod["spec"]);
    pod_defaults::admitted(&mut pod["spec"]);
    pod_defaults::patience(&mut pod["spec"]);
    annotated::into_fields(pod);
    affinity::merge_keys(pod);
    pod["status"] = json!({"phase": "Pending", "qosClass": qos::class(pod)});
    if !is_empty(&pod["spec"]["schedulingGates"]) {
        pod["status"]["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "lastProbeTime": null,
            "lastTransitionTime": making.now.to_string(),
            "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
}

fn update(new: &mut Value, old: &Value, _making: &mut Making<'_>) {
    map_at(new, "spec");
    let asked = old["spec"].get("resources").filter(|asked| new["spec"]["resources"] == **asked);
    pod_defaults::pod(&mut new["spec"]);
    if let Some(asked) = asked {
        // It may have been stored when nobody defaulted it, and cannot be changed.
        new["spec"]["resources"] = asked.clone();
    }
    pod_defaults::patience(&mut new["spec"]);
    // A PUT need not carry the priority that admission gave the pod.
    for given in ["priority", "preemptionPolicy"] {
        if !has(&new["spec"], given) {
            copy(&mut new["spec"], &old["spec"], given);
        }
    }
    copy(new, old, "status");
    meta::update(new, old, !pod_spec::differing(&new["spec"], &old["spec"]).is_empty());
}

/// The server sets the QoS class; a reported status may leave the class out. A pod's address stands in two fields, of
/// which the older decides.
fn status_update(new: &mut Value, old: &Value) {
    meta::status_update(new, old);
    let class = &old["status"]["qosClass"];
    if !class.is_null() && text(&new["status"], "qosClass").is_empty() {
        map_at(new, "status").insert("qosClass".into(), class.clone());
    }
    let (one, all) = (&new["status"]["podIP"], &new["status"]["podIPs"]);
    if !is_empty(one) && all[0]["ip"] != *one {
        new["status"]["podIPs"] = json!([{"ip": one}]);
    } else if is_empty(one) && !is_empty(all) {
        new["status"]["podIP"] = all[0]["ip"].clone();
    }
}

/// A pod that is made now: what only comes later is not said yet.
fn validate(pod: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = standing(pod, rules);
    if rules.standing {
        return found;
    }
    let (spec, path) = (&pod["spec"], Path::new("spec"));
    if !list(spec, "ephemeralContainers").is_empty() {
        found.push(Problem::forbidden(&path.field("ephemeralContainers"), "cannot be set on create"));
    }
    if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
        found.push(Problem::forbidden(
            &path.field("nodeName"),
            "cannot be set until all schedulingGates have been cleared",
        ));
    }
    found.extend(annotated::clashes(&pod["metadata"], spec, &path));
    found
}

/// Every problem of a pod at any time.
pub fn standing(pod: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(pod, Scope::Namespaced, names::subdomain, rules);
    found.extend(annotated::problems(&pod["metadata"], &pod["spec"], &Path::new("metadata.annotations")));
    found.extend(pod_spec::validate(&pod["spec"], text(&pod["metadata"], "name"), rules, &Path::new("spec")));
    found
}

fn validate_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate_update(new, old);
    found.extend(meta::new_problems(standing(new, rules), &standing(old, rules)));
    found.extend(annotated::changes(&new["metadata"], &old["metadata"]));
    let path = Path::new("spec");
    let (spec, was) = (&new["spec"], &old["spec"]);
    for field in ["containers", "initContainers"] {
        if list(spec, field).len() != list(was, field).len() {
            found.push(Problem::forbidden(&path.field(field), "pod updates may not add or remove containers"));
            return found;
        }
    }
    if let Some(new) = number(spec, "activeDeadlineSeconds").filter(|new| *new < 0) {
        found.push(Problem::invalid(
            &path.field("activeDeadlineSeconds"),
            new,
            "must be between 0 and 2147483647, inclusive",
        ));
        return found;
    }
    found.extend(deadline(spec, was, &path.field("activeDeadlineSeconds")));
    let now: HashSet<_> = list(spec, "tolerations").iter().map(identity).collect();
    if list(was, "tolerations").iter().any(|kept| !now.contains(&identity(kept))) {
        let words = "existing toleration can not be modified except its tolerationSeconds";
        found.push(Problem::forbidden(&path.field("tolerations"), words));
    }
    found.extend(waits_less(spec, was, &path));
    found.extend(fixed(spec, was, &path));
    found.extend(pod_status::changes(new, old));
    found
}

/// The deadline may come, and come earlier.
fn deadline(spec: &Value, was: &Value, path: &Path) -> Option<Problem> {
    let old = number(was, "activeDeadlineSeconds")?;
    match number(spec, "activeDeadlineSeconds") {
        Some(new) if new > old => Some(Problem::invalid(path, new, "must be less than or equal to previous value")),
        Some(_) => None,
        None => Some(Problem::invalid(path, Value::Null, "must not update from a positive integer to nil value")),
    }
}

/// The key of a toleration: all but its duration.
fn identity(toleration: &Value) -> [&str; 4] {
    ["key", "operator", "value", "effect"].map(|field| text(toleration, field))
}

/// Scheduling gates may be removed, and none added. Until then it may be said more closely which nodes it is for.
fn waits_less(spec: &Value, was: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let gates: Vec<&str> = list(was, "schedulingGates").iter().map(|gate| text(gate, "name")).collect();
    let now = list(spec, "schedulingGates").iter().map(|gate| text(gate, "name")).enumerate();
    for (at, gate) in now.filter(|(_, gate)| !gates.contains(gate)).take(8) {
        let words = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
        found.push(Problem::forbidden(&path.field("schedulingGates").index(at).field("name"), words));
    }
    if is_gated(was) && texts(was, "nodeSelector").any(|(key, value)| spec["nodeSelector"][key] != *value) {
        let words = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        found.push(Problem::invalid(&path.field("nodeSelector"), spec["nodeSelector"].clone(), words));
    }
    if is_gated(was) {
        let required =
            |spec: &Value| spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"].clone();
        let path = path.field("affinity").field("nodeAffinity").field("requiredDuringSchedulingIgnoredDuringExecution");
        found.extend(nodes_closer(&required(spec), &required(was), &path.field("nodeSelectorTerms")));
    }
    found
}

/// Each term of what nodes must have asks for at least as much as before.
fn nodes_closer(now: &Value, was: &Value, path: &Path) -> Option<Problem> {
    let (now, was) = (list(now, "nodeSelectorTerms"), list(was, "nodeSelectorTerms"));
    if !was.is_empty() && now.len() != was.len() {
        let words = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return Some(Problem::invalid(path, now.to_vec(), words));
    }
    let keeps = |now: &Value, was: &Value, field: &str| list(now, field).starts_with(list(was, field));
    let lost = was
        .iter()
        .zip(now)
        .position(|(was, now)| !["matchExpressions", "matchFields"].iter().all(|field| keeps(now, was, field)))?;
    Some(Problem::invalid(
        &path.index(lost),
        now[lost].clone(),
        "only additions are allowed (no mutations or deletions)",
    ))
}

fn is_gated(spec: &Value) -> bool {
    !list(spec, "schedulingGates").is_empty()
}

/// All the rest of a spec stays as it is.
fn fixed(spec: &Value, was: &Value, path: &Path) -> Option<Problem> {
    let mut same = spec.clone();
    for field in ["containers", "initContainers"] {
        for (at, was) in list(was, field).iter().enumerate() {
            same[field][at]["image"] = was["image"].clone();
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        same[field] = was[field].clone();
    }
    if is_gated(was) {
        same["nodeSelector"] = was["nodeSelector"].clone();
        map_at(&mut same, "affinity");
        copy(&mut same["affinity"], &was["affinity"], "nodeAffinity");
        if is_empty(&same["affinity"]) {
            copy(&mut same, was, "affinity");
        }
    }
    if number(was, "terminationGracePeriodSeconds").is_some_and(|grace| grace < 0)
        && same["terminationGracePeriodSeconds"] == 1
    {
        same["terminationGracePeriodSeconds"] = was["terminationGracePeriodSeconds"].clone();
    }
    let differing = pod_spec::differing(&same, was);
    if differing.is_empty() {
        return None;
    }
    let words = "pod updates may not change fields other than \
                 `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.\
                 tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it \
                 to be set to 1 if it was previously negative)";
    let change = inner::change_of_pod(was, &same).unwrap_or_else(|| {
        let changed: Vec<String> = differing.iter().map(|field| format!("spec.{field}")).collect();
        format!("changed: {}", changed.join(", "))
    });
    Some(Problem::forbidden(path, format!("{words}\n{change}")))
}

/// Statuses of living pods can be seen again; how one ended cannot.
fn durable(pod: &Value) -> Durable {
    if is_finished(pod) { Durable::Whole } else { Durable::WithoutStatus }
}

/// Whether a pod has ended for good.
pub fn is_finished(pod: &Value) -> bool {
    matches!(text(&pod["status"], "phase"), "Succeeded" | "Failed")
}

/// A pod that may still run on a node gets its grace, and the node's agent takes it away at the end (grace 0). A grace
/// that runs may only be shortened.
fn delete(pod: &Value, deleting: Deleting) -> Deletion {
    let meta = &pod["metadata"];
    let asked = deleting.grace_s.map(|grace| if grace < 0 { 1 } else { grace });
    if has(meta, "deletionTimestamp") {
        let running = number(meta, "deletionGracePeriodSeconds").unwrap_or(0);
        return match asked {
            Some(grace) if grace < running => ended(shortened(pod, running, grace), grace),
            _ => Deletion::Pending,
        };
    }
    let own = || number(&pod["spec"], "terminationGracePeriodSeconds").unwrap_or(GRACE_S_DEFAULT).max(0);
    let unbound = text(&pod["spec"], "nodeName").is_empty();
    let grace = if unbound || is_finished(pod) { 0 } else { asked.unwrap_or_else(own) };
    ended(meta::marked(pod, deleting.now, grace), grace)
}

fn ended(marked: Value, grace_s: i64) -> Deletion {
    let free = list(&marked["metadata"], "finalizers").is_empty();
    if grace_s == 0 && free { Deletion::Last(marked) } else { Deletion::Mark(marked) }
}

/// The deletion was asked for when it was; its end comes earlier.
fn shortened(pod: &Value, running_s: i64, grace_s: i64) -> Value {
    let mut pod = pod.clone();
    let meta = &mut pod["metadata"];
    let end = Time::parse(text(meta, "deletionTimestamp"))
        .and_then(|end| Time::from_seconds(end.seconds() - running_s + grace_s));
    if let Some(end) = end {
        meta["deletionTimestamp"] = end.to_string().into();
    }
    meta["deletionGracePeriodSeconds"] = grace_s.into();
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Time {
        Time::from_seconds(1_600_000_000).unwrap()
    }

    fn made(pod: Value) -> Value {
        let mut pod = pod;
        pod["metadata"]["namespace"] = "default".into();
        let mut making = Making {
            now: now(),
            uid: "u".into(),
            suffix: &mut || "abcde".into(),
            service_address: &mut || None,
            node_port: &mut || None,
        };
        create(&mut pod, &mut making);
        pod
    }

    #[test]
    fn creates() {
        let pod = made(
            json!({"metadata": {"generateName": "web-", "generation": 7, "deletionTimestamp": "2020-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "a", "image": "x:1", "resources": {"limits": {"cpu": "1"}}}]},
            "status": {"phase": "Running"}}),
        );
        let meta = json!({"creationTimestamp": "2020-09-13T12:26:40Z", "generateName": "web-", "generation": 1,
            "name": "web-abcde",
            "namespace": "default", "uid": "u"});
        assert_eq!(pod["metadata"], meta);
        assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "Burstable"}));
        assert_eq!(validate(&pod, Rules::default()), []);
    }

    #[test]
    fn what_was_stored_before_it_was_defaulted_is_not_changed() {
        let mut old = made(json!({"metadata": {"name": "p"}, "spec": {"resources": {"limits": {"cpu": "1"}},
            "containers": [{"name": "a", "image": "x:1"}]}}));
        map_at(&mut old["spec"], "resources").remove("requests").expect("it is defaulted now");
        let mut new = old.clone();
        let mut making = Making {
            now: now(),
            uid: "u".into(),
            suffix: &mut || "abcde".into(),
            service_address: &mut || None,
            node_port: &mut || None,
        };
        update(&mut new, &old, &mut making);
        assert_eq!((validate_update(&new, &old, Rules::default()), &new["spec"]), (vec![], &old["spec"]));
    }

    #[test]
    fn updates() {
        fn check(change: impl Fn(&mut Value), generation: i64, expected: &[&str]) {
            let old = made(json!({"metadata": {"name": "p"}, "spec":
                    {"nodeName": "n", "containers": [{"name": "a", "image": "x:1"}],
                "tolerations": [{"key": "k", "operator": "Exists"}]}}));
            let mut new = old.clone();
            change(&mut new);
            let mut making = Making {
                now: now(),
                uid: "other".into(),
                suffix: &mut || "fghij".into(),
                service_address: &mut || None,
                node_port: &mut || None,
            };
            update(&mut new, &old, &mut making);
            let found: Vec<String> =
                validate_update(&new, &old, Rules::default()).iter().map(Problem::to_string).collect();
            let short: Vec<&str> = found
                .iter()
                .map(|problem| problem.lines().find(|line| line.starts_with('+')).unwrap_or(problem).trim())
                .collect();
            assert_eq!(short, expected, "{new}");
            assert_eq!(new["metadata"]["generation"], generation);
            assert_eq!(
                (&new["metadata"]["creationTimestamp"], &new["status"]),
                (&old["metadata"]["creationTimestamp"], &old["status"])
            );
        }
        check(|_| {}, 1, &[]);
        check(|pod| pod["status"] = json!({"phase": "Failed"}), 1, &[]);
        check(
            |pod| pod["metadata"] = json!({"name": "p", "namespace": "default", "labels": {"a": "b"}, "generation": 9}),
            1,
            &[],
        );
        check(|pod| pod["spec"]["containers"][0]["image"] = "x:2".into(), 2, &[]);
        check(|pod| pod["spec"]["activeDeadlineSeconds"] = 5.into(), 2, &[]);
        let more = json!([{"key": "k", "operator": "Exists"}, {"key": "l", "operator": "Exists"}]);
        check(|pod| pod["spec"]["tolerations"] = more.clone(), 2, &[]);
        check(|pod| pod["spec"]["nodeName"] = "m".into(), 2, &["+ \"NodeName\": \"m\","]);
        check(|pod| pod["spec"]["containers"][0]["tty"] = true.into(), 2, &["+   \"TTY\": true"]);
        let words = "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds";
        check(|pod| pod["spec"]["tolerations"] = json!([]), 2, &[words]);
        let words = "spec.containers: Forbidden: pod updates may not add or remove containers";
        check(
            |pod| pod["spec"]["containers"] = json!([{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]),
            2,
            &[words],
        );
        check(
            |pod| pod["spec"]["containers"][0]["image"] = "".into(),
            2,
            &["spec.containers[0].image: Required value"],
        );
        check(
            |pod| pod["metadata"]["uid"] = "v".into(),
            1,
            &["metadata.uid: Invalid value: \"v\": field is immutable"],
        );
    }

    #[test]
    fn gates_fall() {
        fn check(change: impl Fn(&mut Value), expected: &[&str]) {
            let term = json!({"matchExpressions": [{"key": "k", "operator": "Exists"}]});
            let affinity = json!({
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}},
            });
            let old =
                made(json!({"metadata": {"name": "p"}, "spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}],
                "nodeSelector": {"k": "v"}, "affinity": affinity, "containers": [{"name": "a", "image": "x:1"}]}}));
            let mut new = old.clone();
            change(&mut new);
            let found: Vec<String> =
                validate_update(&new, &old, Rules::default()).iter().map(Problem::to_string).collect();
            assert_eq!(found.len(), expected.len(), "{found:#?}");
            assert!(found.iter().zip(expected).all(|(found, start)| found.starts_with(start)), "{found:#?}");
        }
        check(|pod| pod["spec"]["schedulingGates"] = json!([{"name": "b"}]), &[]);
        check(|pod| pod["spec"]["schedulingGates"] = json!([]), &[]);
        let words =
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'c'";
        check(|pod| pod["spec"]["schedulingGates"] = json!([{"name": "c"}]), &[words]);
        check(|pod| pod["spec"]["nodeSelector"]["l"] = "w".into(), &[]);
        let words = "spec.nodeSelector: Invalid value: {\"l\":\"w\"}: only additions to spec.nodeSelector are allowed";
        check(|pod| pod["spec"]["nodeSelector"] = json!({"l": "w"}), &[words]);
        let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let more = json!({"key": "l", "operator": "Exists"});
        check(
            |pod| {
                pod.pointer_mut(&format!("{terms}/0/matchExpressions"))
                    .unwrap()
                    .as_array_mut()
                    .unwrap()
                    .push(more.clone())
            },
            &[],
        );
        let words = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]: \
                     Invalid value";
        check(
            |pod| *pod.pointer_mut(&format!("{terms}/0/matchExpressions")).unwrap() = json!([more.clone()]),
            &[words],
        );
    }

    #[test]
    fn what_comes_later() {
        let of = |more: Value| {
            let mut pod =
                made(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "x:1"}]}}));
            pod["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            validate(&pod, Rules::default()).iter().map(Problem::to_string).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(of(json!({})), "");
        let debugger =
            json!({"name": "e", "image": "x", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"});
        assert_eq!(
            of(json!({"ephemeralContainers": [debugger]})),
            "spec.ephemeralContainers: Forbidden: cannot be set on create"
        );
        assert_eq!(
            of(json!({"nodeName": "n", "schedulingGates": [{"name": "a"}]})),
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"
        );
    }

    #[test]
    fn statuses() {
        let old = made(json!({
            "metadata": {"name": "p", "labels": {"a": "b"}},
            "spec": {"containers": [{"name": "a", "image": "x:1"}]},
        }));
        let mut new = json!({"metadata": old["metadata"], "spec": {}, "status": {"phase": "Running"}});
        status_update(&mut new, &old);
        let mut expected = old.clone();
        expected["status"] = json!({"phase": "Running", "qosClass": "BestEffort"});
        assert_eq!(new, expected);
        assert_eq!(validate_update(&new, &old, Rules::default()), []);
        assert_eq!(durable(&new), Durable::WithoutStatus);
        new["status"]["phase"] = "Failed".into();
        assert_eq!(durable(&new), Durable::Whole);
        new["status"]["qosClass"] = "Guaranteed".into();
        assert_eq!(
            validate_update(&new, &old, Rules::default())[0].to_string(),
            "status.qosClass: Invalid value: \"Guaranteed\": field is immutable"
        );
    }

    #[test]
    fn deletions() {
        // Finalizers, the node, what the pod's spec says, and what runs already; what is asked; what stands after
        // (grace, generation, end).
        fn check(pod: Value, grace_s: Option<i64>, expected: Option<(i64, i64, &str)>) {
            let deletion = delete(&pod, Deleting { grace_s, now: now() });
            let stands = match &deletion {
                Deletion::Remove | Deletion::Last(_) => None,
                Deletion::Pending => Some(&pod),
                Deletion::Mark(pod) => Some(pod),
            };
            let found = match stands {
                None => None,
                Some(pod) => {
                    let meta = &pod["metadata"];
                    Some((
                        meta["deletionGracePeriodSeconds"].as_i64().unwrap(),
                        meta["generation"].as_i64().unwrap(),
                        text(meta, "deletionTimestamp"),
                    ))
                }
            };
            assert_eq!(found, expected, "{pod} {grace_s:?}");
        }
        let pod = |node: &str, phase: &str, grace: i64| {
            json!({
                "metadata": {"generation": 1}, "spec": {"nodeName": node, "terminationGracePeriodSeconds": grace},
                "status": {"phase": phase},
            })
        };
        check(pod("", "Pending", 30), None, None);
        check(pod("", "Pending", 30), Some(60), None);
        check(pod("n", "Succeeded", 30), None, None);
        check(pod("n", "Failed", 30), Some(10), None);
        check(pod("n", "Running", 30), Some(0), None);
        check(pod("n", "Running", 0), None, None);
        check(pod("n", "Running", 30), None, Some((30, 2, "2020-09-13T12:27:10Z")));
        check(pod("n", "Running", 30), Some(5), Some((5, 2, "2020-09-13T12:26:45Z")));
        check(pod("n", "Running", 30), Some(-1), Some((1, 2, "2020-09-13T12:26:41Z")));
        check(
            json!({"metadata": {"generation": 1}, "spec": {"nodeName": "n"}}),
            None,
            Some((30, 2, "2020-09-13T12:27:10Z")),
        );
        let ending = json!({"metadata": {"generation": 2, "deletionTimestamp": "2020-09-13T12:27:00Z",
            "deletionGracePeriodSeconds": 30},
            "spec": {"nodeName": "n"}});
        check(ending.clone(), None, Some((30, 2, "2020-09-13T12:27:00Z")));
        check(ending.clone(), Some(60), Some((30, 2, "2020-09-13T12:27:00Z")));
        check(ending.clone(), Some(10), Some((10, 2, "2020-09-13T12:26:40Z")));
        check(ending.clone(), Some(0), None);
        let mut held = ending;
        held["metadata"]["finalizers"] = json!(["a.b/c"]);
        check(held, Some(0), Some((0, 2, "2020-09-13T12:26:30Z")));
        let mut held = pod("", "Pending", 30);
        held["metadata"]["finalizers"] = json!(["a.b/c"]);
        check(held, None, Some((0, 2, "2020-09-13T12:26:40Z")));
    }
}

//! Replication controllers: a number of pods from a template.

use super::checks::{NOT_NEGATIVE, supported_text};
use super::doc::{copy, default_to, entries, has, is_empty, map_at, number, text};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Making, Rules, without_status};
use super::{general, names, pod_defaults, pod_spec};
use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};

pub static REPLICATION_CONTROLLER: BuiltinStrategy = BuiltinStrategy {
    create,
    update,
    validate,
    validate_update,
    durable: without_status,
    ..general::strategy::<false, true>()
};

fn create(controller: &mut Value, making: &mut Making<'_>) {
    defaults(controller);
    meta::create(controller, making, true);
    controller["status"] = json!({"replicas": 0});
}

fn update(new: &mut Value, old: &Value, _making: &mut Making<'_>) {
    defaults(new);
    copy(new, old, "status");
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
    let mut found = meta::validate(controller, Scope::Namespaced, names::long_name, rules);
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
        found.push(Problem::new(
            &path.field("restartPolicy"),
            Reason::NotSupported,
            value,
            supported_text(&["Always"]),
        ));
    }
    if has(spec, "activeDeadlineSeconds") {
        let words = "activeDeadlineSeconds in ReplicationController is not Supported";
        found.push(Problem::forbidden(&path.field("activeDeadlineSeconds"), words));
    }
    found.extend(super::counts::problems(controller, &super::counts::REPLICA_SET));
    found
}

fn validate_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = general::changed(new, old, rules, validate);
    let path = Path::new("status");
    for field in ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        if let Some(number) = number(&new["status"], field).filter(|number| *number < 0) {
            found.push(Problem::invalid(&path.field(field), number, NOT_NEGATIVE));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::Time;

    fn making<T>(run: impl FnOnce(&mut Making<'_>) -> T) -> T {
        run(&mut Making {
            now: Time::from_seconds(1_600_000_000).unwrap(),
            uid: "u".into(),
            suffix: &mut || "abcde".into(),
            service_address: &mut || None,
            node_port: &mut || None,
        })
    }

    fn made(name: &str, spec: Value) -> Value {
        let mut controller = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
        making(|making| create(&mut controller, making));
        controller
    }

    fn template(labels: Value) -> Value {
        json!({
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "a", "image": "x:1", "resources": {"limits": {"cpu": "1"}}}]},
        })
    }

    #[test]
    fn creates() {
        let controller = made("c", json!({"template": template(json!({"a": "b"}))}));
        assert_eq!(controller["metadata"]["labels"], json!({"a": "b"}));
        let spec = &controller["spec"];
        assert_eq!((&spec["selector"], &spec["replicas"]), (&json!({"a": "b"}), &json!(1)));
        let pod = json!({"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30, "securityContext": {}, "containers": [{"name": "a", "image": "x:1",
            "imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "resources": {"limits": {"cpu": "1"}}}]});
        assert_eq!(spec["template"]["spec"], pod);
        assert_eq!(
            (&controller["status"], &controller["metadata"]["generation"]),
            (&json!({"replicas": 0}), &json!(1))
        );
        assert_eq!(made("c", json!({"replicas": 0, "template": template(json!({"a": "b"}))}))["spec"]["replicas"], 0);
    }

    #[test]
    fn problems() {
        fn check(change: impl FnOnce(&mut Value), expected: &[&str]) {
            let mut spec = json!({"selector": {"a": "b"}, "template": template(json!({"a": "b", "c": "d"}))});
            change(&mut spec);
            let found = validate(&made("c", spec), Rules::default());
            let found: Vec<String> = found.iter().map(Problem::to_string).collect();
            assert_eq!(found, expected);
        }
        check(|_| {}, &[]);
        check(
            |spec| spec["replicas"] = (-1).into(),
            &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        );
        let words = "`selector` does not match template `labels`";
        let problem = format!("spec.template.metadata.labels: Invalid value: {{\"a\":\"b\",\"c\":\"d\"}}: {words}");
        check(|spec| spec["selector"] = json!({"a": "x"}), &[&problem]);
        let words = "Unsupported value: \"Never\": supported values: \"Always\"";
        let policy = |spec: &mut Value| spec["template"]["spec"]["restartPolicy"] = "Never".into();
        check(policy, &[&format!("spec.template.spec.restartPolicy: {words}")]);
        let nameless = |spec: &mut Value| spec["template"]["spec"]["containers"] = json!([{"name": "a"}]);
        check(nameless, &["spec.template.spec.containers[0].image: Required value"]);
    }

    #[test]
    fn names_of_2014_are_taken_once_and_stay() {
        let old =
            made("frontendController", json!({"replicas": 3, "template": template(json!({"name": "my frontend"}))}));
        assert_eq!(validate(&old, Rules { old_names: true, ..Rules::default() }), []);
        assert!(!validate(&old, Rules::default()).is_empty());
        let mut new = old.clone();
        new["spec"]["replicas"] = 1.into();
        new["status"] = json!({"replicas": 9});
        making(|making| update(&mut new, &old, making));
        assert_eq!(validate_update(&new, &old, Rules::default()), []);
        assert_eq!((&new["metadata"]["generation"], &new["status"]), (&json!(2), &json!({"replicas": 0})));
    }
}

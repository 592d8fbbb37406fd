//! Rules of a pod's annotations: its creator, the cost of its deletion, and security profiles from before the security
//! fields. AppArmor profiles still hold; a field with a different profile is a contradiction.

use super::checks::{PROBLEMS_MAX, full};
use super::doc::{has, list, map_at, text, texts};
use super::names;
use crate::annotations::MIRROR;
use coracle_schema::{Path, Problem};
use serde_json::{Value, json};

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// Before the name of a profile that the host has.
const LOCAL: &str = "localhost/";

/// Containers of every sort with their places, in the order in which Kubernetes looks at them.
pub fn containers<'s>(spec: &'s Value, path: &Path) -> impl Iterator<Item = (Path, &'s Value)> {
    let path = path.clone();
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |field| {
        let path = path.field(field);
        list(spec, field).iter().enumerate().map(move |(at, container)| (path.index(at), container))
    })
}

/// Every problem of the annotations of a pod or a template. `path`: that of the annotations.
pub fn problems(meta: &Value, spec: &Value, path: &Path) -> Vec<Problem> {
    let annotations = &meta["annotations"];
    let mut found = Vec::new();
    if has(annotations, MIRROR) && text(spec, "nodeName").is_empty() {
        let words = "must set spec.nodeName if mirror pod annotation is set";
        found.push(Problem::invalid(&path.key(MIRROR), text(annotations, MIRROR), words));
    }
    if let Some(cost) = annotations[COST].as_str().filter(|cost| cost.parse::<i32>().is_err() || cost.starts_with('+'))
    {
        found.push(Problem::invalid(&path.key(COST), cost, "must be a 32bit integer"));
    }
    for (key, profile) in texts(meta, "annotations") {
        if full(&found) {
            break;
        }
        if key == SECCOMP_OF_POD || key.starts_with(SECCOMP) {
            found.extend(seccomp(profile, &path.field(key)));
        } else if let Some(name) = key.strip_prefix(APP_ARMOR) {
            if !containers(spec, path).any(|(_, container)| text(container, "name") == name) {
                found.push(Problem::invalid(&path.key(key), name, "container not found"));
            }
            if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with(LOCAL) {
                found.push(Problem::invalid(
                    &path.key(key),
                    profile,
                    format!("invalid AppArmor profile name: {profile:?}"),
                ));
            }
        }
    }
    found
}

/// Nothing reads it, and it is held to its form all the same.
fn seccomp(profile: &str, path: &Path) -> Option<Problem> {
    match profile.strip_prefix(LOCAL) {
        None if matches!(profile, "runtime/default" | "docker/default" | "unconfined") => None,
        None => Some(Problem::invalid(path, profile, "must be a valid seccomp profile")),
        Some(file) => names::problems(path, file, names::descending(file)).into_iter().next(),
    }
}

/// Where annotation and field both name a profile, they name the same. `path`: that of the spec.
pub fn clashes(meta: &Value, spec: &Value, path: &Path) -> Vec<Problem> {
    let (annotations, at) = (&meta["annotations"], path.field("securityContext").field("seccompProfile"));
    let mut found: Vec<Problem> = Vec::new();
    if let Some(said) = annotations[SECCOMP_OF_POD].as_str() {
        found.extend(clash(said, &spec["securityContext"]["seccompProfile"], "seccomp", &at));
    }
    for (path, container) in containers(spec, path) {
        if full(&found) {
            break;
        }
        let (context, path) = (&container["securityContext"], path.field("securityContext"));
        let said = |prefix: &str| annotations[format!("{prefix}{}", text(container, "name"))].as_str();
        if let Some(said) = said(SECCOMP) {
            found.extend(clash(said, &context["seccompProfile"], "seccomp", &path.field("seccompProfile")));
        }
        if let Some(said) = said(APP_ARMOR).filter(|_| text(&spec["os"], "name") != "windows") {
            let own = if has(context, "appArmorProfile") { context } else { &spec["securityContext"] };
            found.extend(clash(said, &own["appArmorProfile"], "apparmor", &path.field("appArmorProfile")));
        }
    }
    found
}

fn clash(said: &str, field: &Value, which: &str, path: &Path) -> Option<Problem> {
    let (same, local) = match text(field, "type") {
        "Unconfined" => (said == "unconfined", None),
        "RuntimeDefault" => (said == "runtime/default" || which == "seccomp" && said == "docker/default", None),
        "Localhost" => (said.starts_with(LOCAL), said.strip_prefix(LOCAL)),
        _ => return None,
    };
    if !same {
        return Some(Problem::forbidden(
            &path.field("type"),
            format!("{which} type in annotation and field must match"),
        ));
    }
    let other = local.is_some_and(|local| field["localhostProfile"].as_str() != Some(local));
    other.then(|| {
        Problem::forbidden(
            &path.field("localhostProfile"),
            format!("{which} profile in annotation and field must match"),
        )
    })
}

/// Refuses changes of annotations that are fixed when a pod is made.
pub fn changes(new: &Value, old: &Value) -> Vec<Problem> {
    let path = Path::new("metadata.annotations");
    let of = |key: &str| match key {
        MIRROR => Some("mirror pod annotation"),
        _ if key.starts_with(APP_ARMOR) => Some("AppArmor annotations"),
        _ => None,
    };
    let (now, was) = (&new["annotations"], &old["annotations"]);
    let gone = texts(old, "annotations")
        .filter(|(key, value)| now[*key] != *value)
        .map(|(key, _)| (key, "may not remove or update"));
    let come = texts(new, "annotations").filter(|(key, _)| !has(was, key)).map(|(key, _)| (key, "may not add"));
    let said = gone
        .chain(come)
        .filter_map(|(key, words)| Some(Problem::forbidden(&path.key(key), format!("{words} {}", of(key)?))));
    said.take(PROBLEMS_MAX).collect()
}

/// An AppArmor profile that an annotation alone names becomes the container's, unless it is the pod's anyway.
pub fn into_fields(pod: &mut Value) {
    if text(&pod["spec"]["os"], "name") == "windows" {
        return;
    }
    let annotations = pod["metadata"]["annotations"].clone();
    let of_pod = pod["spec"]["securityContext"]["appArmorProfile"].clone();
    for field in ["initContainers", "containers"] {
        for container in super::doc::list_at(&mut pod["spec"], field) {
            let said = &annotations[format!("{APP_ARMOR}{}", text(container, "name"))];
            let profile = match said.as_str() {
                Some("unconfined") => json!({"type": "Unconfined"}),
                Some("runtime/default") => json!({"type": "RuntimeDefault"}),
                Some(said) if said.len() > LOCAL.len() && said.starts_with(LOCAL) => {
                    json!({"type": "Localhost", "localhostProfile": said[LOCAL.len()..]})
                }
                _ => continue,
            };
            if profile != of_pod && !has(&container["securityContext"], "appArmorProfile") {
                map_at(container, "securityContext").insert("appArmorProfile".into(), profile);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::tests::assert_problems;

    fn key(name: &str) -> String {
        format!("{APP_ARMOR}{name}")
    }

    #[test]
    fn are_held_to_their_form() {
        let of = |annotations: Value, expected: &[&str]| {
            let spec = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]});
            assert_problems(
                problems(&json!({"annotations": annotations}), &spec, &Path::new("metadata.annotations")),
                expected,
            );
        };
        of(
            json!({
                COST: "-5", SECCOMP_OF_POD: "localhost/a.json", key("a"): "localhost/x", key("i"): "runtime/default",
            }),
            &[],
        );
        of(
            json!({COST: "much"}),
            &["metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"much\": must be"],
        );
        of(
            json!({MIRROR: "x"}),
            &["metadata.annotations[kubernetes.io/config.mirror]: Invalid value: \"x\": must set spec.nodeName"],
        );
        of(
            json!({SECCOMP_OF_POD: "x"}),
            &["metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: \"x\": must be"],
        );
        of(
            json!({key("b"): "foo"}),
            &[
                "metadata.annotations[container.apparmor.security.beta.kubernetes.io/b]: Invalid value: \"b\": \
                 container not found",
                "metadata.annotations[container.apparmor.security.beta.kubernetes.io/b]: Invalid value: \"foo\": \
                 invalid AppArmor profile name: \"foo\"",
            ],
        );
    }

    #[test]
    fn agree_with_fields() {
        let of = |said: &str, profile: Value, expected: &[&str]| {
            let meta = json!({"annotations": {key("a"): said}});
            let spec = json!({"containers": [{"name": "a", "securityContext": {"appArmorProfile": profile}}]});
            assert_problems(clashes(&meta, &spec, &Path::new("spec")), expected);
        };
        let place = "spec.containers[0].securityContext.appArmorProfile";
        of("runtime/default", json!({"type": "RuntimeDefault"}), &[]);
        of("unconfined", Value::Null, &[]);
        of("localhost/x", json!({"type": "Localhost", "localhostProfile": "x"}), &[]);
        let words = format!("{place}.type: Forbidden: apparmor type in annotation and field must match");
        of("localhost/x", json!({"type": "Unconfined"}), &[&words]);
        of("runtime/default", json!({"type": "Localhost", "localhostProfile": "x"}), &[&words]);
        let words = format!("{place}.localhostProfile: Forbidden: apparmor profile in annotation and field must match");
        of("localhost/y", json!({"type": "Localhost", "localhostProfile": "x"}), &[&words]);
        let spec = json!({
            "os": {"name": "windows"}, "securityContext": {"appArmorProfile": {"type": "Unconfined"}},
            "containers": [{"name": "a"}],
        });
        assert_eq!(clashes(&json!({"annotations": {key("a"): "x"}}), &spec, &Path::new("spec")), []);
        let spec = json!({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}});
        let of_pod =
            |said: &str| clashes(&json!({"annotations": {SECCOMP_OF_POD: said}}), &spec, &Path::new("spec")).len();
        assert_eq!((of_pod("docker/default"), of_pod("unconfined")), (0, 1));
    }

    #[test]
    fn stay() {
        let of = |new: Value, old: Value, expected: &[&str]| {
            assert_problems(changes(&json!({"annotations": new}), &json!({"annotations": old})), expected)
        };
        of(json!({key("a"): "unconfined", "b": "c"}), json!({key("a"): "unconfined", "d": "e"}), &[]);
        let place = "metadata.annotations[container.apparmor.security.beta.kubernetes.io/a]: Forbidden";
        of(
            json!({}),
            json!({key("a"): "unconfined"}),
            &[&format!("{place}: may not remove or update AppArmor annotations")],
        );
        of(
            json!({key("a"): "x"}),
            json!({key("a"): "y"}),
            &[&format!("{place}: may not remove or update AppArmor annotations")],
        );
        of(json!({key("a"): "x"}), json!({}), &[&format!("{place}: may not add AppArmor annotations")]);
        of(
            json!({MIRROR: "x"}),
            json!({}),
            &["metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation"],
        );
    }

    #[test]
    fn become_fields() {
        let of = |said: &str, of_pod: Value| {
            let spec = json!({"securityContext": {"appArmorProfile": of_pod}, "containers": [{"name": "a"}]});
            let mut pod = json!({"metadata": {"annotations": {key("a"): said}}, "spec": spec});
            into_fields(&mut pod);
            pod["spec"]["containers"][0]["securityContext"]["appArmorProfile"].clone()
        };
        assert_eq!(of("localhost/x", Value::Null), json!({"type": "Localhost", "localhostProfile": "x"}));
        assert_eq!(of("unconfined", json!({"type": "RuntimeDefault"})), json!({"type": "Unconfined"}));
        assert_eq!(of("runtime/default", json!({"type": "RuntimeDefault"})), Value::Null);
        assert_eq!(of("localhost/", Value::Null), Value::Null);
    }
}

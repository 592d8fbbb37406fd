//! Ephemeral containers: put into a pod that runs, to look around in it. Clients add ephemeral containers through a
//! subresource. An existing ephemeral container can be neither changed nor removed. PURE.

use super::checks::{PROBLEMS_MAX, full};
use super::container::{self, ContainerKind, Surroundings};
use super::doc::{copy, has, is_empty, list, map_at, text};
use super::rules::{Rules, Share};
use super::{inner, meta, pod, pod_defaults, pod_spec};
use crate::annotations::MIRROR;
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::HashSet;

const NOT_THEIRS: &str = "cannot be set for an Ephemeral Container";
/// The fields that an ephemeral container may not have, in the order of Kubernetes' own type.
const FORBIDDEN: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Takes only the ephemeral containers from the document.
pub static EPHEMERAL: Share = Share {
    name: "ephemeralcontainers",
    take: |new, old, _| {
        let mut sent = new["spec"].take();
        meta::keep(new, old);
        pod_defaults::ephemeral(&mut sent);
        copy(map_value(new), &sent, "ephemeralContainers");
        if !pod_spec::differing(&new["spec"], &old["spec"]).is_empty()
            && let Some(generation) = old["metadata"]["generation"].as_i64()
        {
            new["metadata"]["generation"] = (generation + 1).into();
        }
    },
    validate_update,
};

fn map_value(pod: &mut Value) -> &mut Value {
    map_at(pod, "spec");
    &mut pod["spec"]
}

fn validate_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    if has(&old["metadata"]["annotations"], MIRROR) {
        // The file says what runs. Kubernetes names no field here.
        return vec![Problem::forbidden(&Path::new("[]"), "static pods do not support ephemeral containers")];
    }
    let mut found = meta::validate_update(new, old);
    found.extend(meta::new_problems(pod::standing(new, rules), &pod::standing(old, rules)));
    let path = Path::new("spec.ephemeralContainers");
    let now = list(&new["spec"], "ephemeralContainers");
    for was in list(&old["spec"], "ephemeralContainers").iter().take(PROBLEMS_MAX) {
        let name = text(was, "name");
        let words = match now.iter().find(|one| text(one, "name") == name) {
            None => format!("existing ephemeral containers {name:?} may not be removed\n"),
            Some(one) if one == was => continue,
            Some(one) => {
                let change = inner::change("EphemeralContainer", was, one).unwrap_or_default();
                format!("existing ephemeral containers {name:?} may not be changed\n{change}")
            }
        };
        found.push(Problem::forbidden(&path, words));
    }
    found
}

/// Every problem of a pod's ephemeral containers. `names`: the names of all further containers of the pod.
pub fn validate(spec: &Value, pod: &Surroundings<'_>, names: &HashSet<&str>, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for (at, one) in list(spec, "ephemeralContainers").iter().enumerate() {
        if full(&found) {
            break;
        }
        let path = path.field("ephemeralContainers").index(at);
        found.extend(container::validate(one, ContainerKind::Ephemeral, pod, &path));
        let name = text(one, "name");
        if !name.is_empty() && (names.contains(name) || !seen.insert(name)) {
            found.push(Problem::new(&path.field("name"), Reason::Duplicate, Some(name.into()), ""));
        }
        let target = text(one, "targetContainerName");
        if !target.is_empty() && !names.contains(target) {
            found.push(Problem::new(&path.field("targetContainerName"), Reason::NotFound, Some(target.into()), ""));
        }
        let forbidden = FORBIDDEN.iter().filter(|field| {
            if field.ends_with("robe") || **field == "lifecycle" { has(one, field) } else { !is_empty(&one[**field]) }
        });
        found.extend(forbidden.map(|field| Problem::forbidden(&path.field(field), NOT_THEIRS)));
        for (at, mount) in list(one, "volumeMounts").iter().enumerate() {
            let path = path.field("volumeMounts").index(at);
            let forbidden = ["subPath", "subPathExpr"].into_iter().filter(|field| !text(mount, field).is_empty());
            found.extend(forbidden.map(|field| Problem::forbidden(&path.field(field), NOT_THEIRS)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::Time;
    use serde_json::json;

    /// The outcome of writing `sent` over `standing`: the generation, and the problems.
    fn written(standing: &Value, sent: Value, annotation: &str) -> (i64, Vec<String>) {
        let pod = |ephemeral: &Value| {
            let mut spec = json!({"containers": [{"name": "c", "image": "i:1"}],
                "initContainers": [{"name": "first", "image": "i:1"}],
                "volumes": [{"name": "v"}], "ephemeralContainers": ephemeral});
            pod_defaults::pod(&mut spec);
            json!({
                "metadata": {
                    "name": "p", "namespace": "d", "uid": "u", "generation": 4, "annotations": {annotation: "x"},
                }, "spec": spec,
            })
        };
        let (old, mut new) = (pod(standing), pod(&sent));
        new["spec"]["ephemeralContainers"] = sent;
        // Neither of these is what this path is for.
        new["spec"]["nodeName"] = "elsewhere".into();
        new["metadata"]["labels"] = json!({"a": "b"});
        (EPHEMERAL.take)(&mut new, &old, Time::from_seconds(0).unwrap());
        assert_eq!((&new["spec"]["nodeName"], &new["metadata"]["labels"]), (&Value::Null, &Value::Null));
        let found = validate_update(&new, &old, Rules::default());
        (new["metadata"]["generation"].as_i64().unwrap(), found.iter().map(Problem::to_string).collect())
    }

    #[test]
    fn what_has_come_stays() {
        let check = |standing: Value, sent: Value, generation: i64, expected: &[&str]| {
            assert_eq!(
                written(&standing, sent, "note"),
                (generation, expected.iter().map(|text| (*text).to_owned()).collect())
            );
        };
        let one = json!({"name": "dbg", "image": "busybox"});
        let other = json!({"name": "two", "image": "busybox", "targetContainerName": "c", "stdin": true, "tty": true});
        check(json!([]), json!([]), 4, &[]);
        check(json!([]), json!([one]), 5, &[]);
        check(json!([one]), json!([one]), 4, &[]);
        // The order is nothing.
        check(json!([one]), json!([other, one]), 5, &[]);
        let gone = "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"dbg\" may not be removed\n";
        check(json!([one]), json!([]), 5, &[gone]);
        check(json!([one]), json!([other]), 5, &[gone]);
        let (generation, found) = written(&json!([one]), json!([{"name": "dbg", "image": "alpine"}]), "note");
        assert_eq!((generation, found.len()), (5, 1));
        let start =
            "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"dbg\" may not be changed\n@@ ";
        assert!(found[0].starts_with(start), "{}", found[0]);
        assert!(
            found[0].contains("\n- \"Image\": \"busybox\"") && found[0].contains("\n+ \"Image\": \"alpine\""),
            "{}",
            found[0]
        );
    }

    #[test]
    fn what_may_come() {
        let check = |sent: Value, expected: &[&str]| {
            let (_, found) = written(&json!([]), json!([sent]), "note");
            let found: Vec<&str> =
                found.iter().map(|text| text.strip_prefix("spec.ephemeralContainers[0].").unwrap()).collect();
            assert_eq!(found, expected);
        };
        check(json!({"name": "dbg"}), &["image: Required value"]);
        check(json!({"name": "c", "image": "i"}), &["name: Duplicate value: \"c\""]);
        check(json!({"name": "first", "image": "i"}), &["name: Duplicate value: \"first\""]);
        check(json!({"name": "x", "image": "i", "targetContainerName": "first"}), &[]);
        check(
            json!({"name": "x", "image": "i", "targetContainerName": "x"}),
            &["targetContainerName: Not found: \"x\""],
        );
        let much = json!({"name": "x", "image": "i", "ports": [{"containerPort": 1}],
            "resources": {"limits": {"cpu": "1"}},
            "restartPolicy": "Always", "livenessProbe": {}, "lifecycle": {"preStop": {"exec": {}}},
            "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "s"}]});
        let fields = ["ports", "resources", "restartPolicy", "livenessProbe", "lifecycle", "volumeMounts[0].subPath"];
        let expected: Vec<String> = fields
            .iter()
            .map(|field| format!("{field}: Forbidden: cannot be set for an Ephemeral Container"))
            .collect();
        check(much, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn files_say_what_runs() {
        let (_, found) = written(&json!([]), json!([{"name": "dbg", "image": "busybox"}]), MIRROR);
        assert_eq!(found, ["[]: Forbidden: static pods do not support ephemeral containers"]);
    }
}

//! A resize changes the resources of a running pod and its containers. The subresource `resize` changes no other field.
//! PURE.

use super::doc::{copy, has, list, text};
use super::rules::{Rules, Share};
use super::{meta, pod, pod_defaults, pod_spec, qos};
use crate::annotations::MIRROR;
use coracle_schema::{Path, Problem};
use serde_json::Value;

const LISTS: [&str; 2] = ["initContainers", "containers"];
const FIELDS: [&str; 2] = ["resources", "resizePolicy"];

/// Takes only the resources of the containers and of the whole pod from the document.
pub static RESIZE: Share = Share {
    name: "resize",
    take: |new, old, _| {
        let mut sent = new["spec"].take();
        meta::keep(new, old);
        let same = |field: &str| {
            let names =
                |spec: &Value| list(spec, field).iter().map(|one| text(one, "name").to_owned()).collect::<Vec<_>>();
            names(&sent) == names(&old["spec"])
        };
        if !LISTS.iter().all(|field| same(field)) {
            // The lists of containers differ: validation must refuse the sent spec.
            new["spec"] = sent;
            return;
        }
        pod_defaults::requests(&mut sent);
        for field in LISTS {
            for (at, one) in list(&sent, field).iter().enumerate() {
                FIELDS.iter().for_each(|name| copy(&mut new["spec"][field][at], one, name));
            }
        }
        copy(&mut new["spec"], &sent, "resources");
        if !pod_spec::differing(&new["spec"], &old["spec"]).is_empty()
            && let Some(generation) = old["metadata"]["generation"].as_i64()
        {
            new["metadata"]["generation"] = (generation + 1).into();
        }
    },
    validate_update,
};

fn validate_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    if has(&old["metadata"]["annotations"], MIRROR) {
        return vec![Problem::forbidden(&Path::new(""), "static pods cannot be resized")];
    }
    let mut found = meta::validate_update(new, old);
    found.extend(meta::new_problems(pod::standing(new, rules), &pod::standing(old, rules)));
    let (path, spec, was) = (Path::new("spec"), &new["spec"], &old["spec"]);
    let class = qos::class(old);
    if qos::class(new) != class {
        found.push(Problem::invalid(&path, class, "Pod QOS Class may not change as a result of resizing"));
    }
    let running = list(&old["status"], "containerStatuses").iter().find(|one| has(&one["state"], "running"));
    if running.is_some_and(|one| !has(one, "resources")) {
        found.push(Problem::forbidden(&path, "Pod running on node without support for resize"));
    }
    if has(was, "resources") && !has(spec, "resources") {
        found.push(Problem::forbidden(&path.field("resources"), "pod-level resources cannot be removed"));
    }
    let moved: Vec<Problem> = LISTS.iter().filter_map(|field| moved(spec, was, field, &path)).collect();
    if !moved.is_empty() {
        found.extend(moved);
        return found;
    }
    for field in LISTS {
        for (at, (now, was)) in list(spec, field).iter().zip(list(was, field)).enumerate() {
            found.extend(changes(
                &now["resources"],
                &was["resources"],
                &path.field(field).index(at).field("resources"),
            ));
            if others(&now["resources"]) != others(&was["resources"]) {
                let of = if field == "containers" { path.clone() } else { path.field(field).index(at) };
                let whose = if field == "containers" { "" } else { " for init or sidecar containers" };
                found.push(Problem::forbidden(&of, format!("only cpu and memory resources{whose} are mutable")));
            }
        }
    }
    found
}

/// Containers come and go by no resize.
fn moved(spec: &Value, was: &Value, field: &str, path: &Path) -> Option<Problem> {
    let (now, was) = (list(spec, field), list(was, field));
    if now.len() != was.len() {
        return Some(Problem::forbidden(&path.field(field), format!("{field} may not be added or removed on resize")));
    }
    let at = now.iter().zip(was).position(|(now, was)| text(now, "name") != text(was, "name"))?;
    let words = format!("{field} may not be renamed or reordered on resize");
    Some(Problem::forbidden(&path.field(field).index(at).field("name"), words))
}

/// A request or limit may change its amount, and may not be removed.
fn changes(now: &Value, was: &Value, path: &Path) -> Vec<Problem> {
    let gone = |which: &str| was[which].as_object().is_some_and(|was| was.keys().any(|name| !has(&now[which], name)));
    let removed = ["requests", "limits"].into_iter().filter(|which| gone(which));
    removed.map(|which| Problem::forbidden(&path.field(which), format!("resource {which} cannot be removed"))).collect()
}

/// All that is not cpu and memory.
fn others(resources: &Value) -> Vec<(String, String, Value)> {
    let of = |which: &'static str| resources[which].as_object().into_iter().flatten().map(move |entry| (which, entry));
    let all = of("requests").chain(of("limits")).filter(|(_, (name, _))| !matches!(name.as_str(), "cpu" | "memory"));
    all.map(|(which, (name, amount))| (which.to_owned(), name.clone(), amount.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::Time;
    use serde_json::json;

    fn pod(resources: Value) -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "d", "generation": 1},
            "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i", "resources": resources}]},
        })
    }

    fn both(cpu: &str, memory: &str) -> Value {
        json!({"requests": {"cpu": cpu, "memory": memory}})
    }

    #[test]
    fn resources_alone_are_taken() {
        let old = pod(both("1", "1Gi"));
        let mut new = pod(both("2", "1Gi"));
        new["spec"]["containers"][0]["image"] = json!("other");
        (RESIZE.take)(&mut new, &old, Time::from_seconds(0).unwrap());
        let expected = json!([{"name": "c", "image": "i", "resources": both("2", "1Gi")}]);
        assert_eq!((&new["spec"]["containers"], &new["metadata"]["generation"]), (&expected, &json!(2)));
    }

    #[test]
    fn what_may_become_of_them() {
        let check = |now: Value, expected: &[&str]| {
            let found = validate_update(&pod(now), &pod(both("1", "1Gi")), Rules::default());
            let words: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert!(
                words.len() == expected.len() && words.iter().zip(expected).all(|(found, part)| found.contains(part)),
                "{words:#?}"
            );
        };
        check(both("2", "2Gi"), &[]);
        check(
            json!({"requests": {"cpu": "1"}}),
            &["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"],
        );
        check(json!({}), &["Pod QOS Class may not change", "resource requests cannot be removed"]);
        let mut more = both("1", "1Gi");
        more["requests"]["ephemeral-storage"] = json!("1Gi");
        check(more, &["spec: Forbidden: only cpu and memory resources are mutable"]);
    }
}

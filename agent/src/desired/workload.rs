//! A workload of a manifest file -> its pods on this host, and the claims of the pods. PURE.
//!
//! Nobody here scales, rolls out or counts retries: these are plain pods, and an edit of the file is an edit of each.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// As many as one host runs.
const PODS_MAX: i64 = 110;

/// The kinds that files may ask for, beside pods and what these use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
}

impl Workload {
    pub fn of(api_version: &str, kind: &str) -> Option<Workload> {
        Some(match (api_version, kind) {
            ("apps/v1", "Deployment") => Workload::Deployment,
            ("apps/v1", "ReplicaSet") => Workload::ReplicaSet,
            ("apps/v1", "StatefulSet") => Workload::StatefulSet,
            ("apps/v1", "DaemonSet") => Workload::DaemonSet,
            ("batch/v1", "Job") => Workload::Job,
            _ => return None,
        })
    }
}

/// How many pods a document asks for.
pub fn count(workload: Workload, document: &Value) -> Result<usize, String> {
    let (_, count) = numbers(workload, &document["spec"])?;
    if count > PODS_MAX {
        return Err(format!("spec: {count} pods, and one host runs at most {PODS_MAX}"));
    }
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The pods of a document with defaults, each as a manifest of its own, and the names of the claims from the document's
/// claim templates.
pub fn pods(workload: Workload, document: &Value) -> Result<(Vec<Value>, Vec<String>), String> {
    let spec = &document["spec"];
    let name = document["metadata"]["name"].as_str().unwrap_or_default();
    self::count(workload, document)?;
    let (first, count) = numbers(workload, spec)?;
    let (mut pods, mut claims) = (Vec::new(), Vec::new());
    for number in first..first.saturating_add(count) {
        // A DaemonSet has one pod on each host.
        let pod_name = if workload == Workload::DaemonSet { name.to_owned() } else { format!("{name}-{number}") };
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": spec["template"]["metadata"],
            "spec": spec["template"]["spec"],
        });
        if !pod["metadata"].is_object() {
            pod["metadata"] = json!({});
        }
        pod["metadata"]["name"] = pod_name.clone().into();
        pod["metadata"]["namespace"] = document["metadata"]["namespace"].clone();
        match workload {
            Workload::StatefulSet => claims.extend(set_identity(&mut pod, spec, &pod_name, number)),
            Workload::Job => set_index(&mut pod, spec, number),
            Workload::Deployment | Workload::ReplicaSet | Workload::DaemonSet => {}
        }
        pods.push(pod);
    }
    Ok((pods, claims))
}

/// The number of the first pod, and how many there are.
fn numbers(workload: Workload, spec: &Value) -> Result<(i64, i64), String> {
    let replicas = || spec["replicas"].as_i64().unwrap_or(1);
    match workload {
        Workload::Deployment | Workload::ReplicaSet => Ok((0, replicas())),
        Workload::StatefulSet => Ok((spec["ordinals"]["start"].as_i64().unwrap_or(0), replicas())),
        Workload::DaemonSet => Ok((0, 1)),
        Workload::Job if spec["suspend"] == true => Ok((0, 0)),
        Workload::Job => {
            let parallelism = spec["parallelism"].as_i64().unwrap_or(1);
            let completions = spec["completions"].as_i64().unwrap_or(parallelism);
            if parallelism < completions {
                return Err(format!(
                    "spec.parallelism: the {completions} pods of a file's Job run at once: write {completions}, or \
                     post it to a master"
                ));
            }
            Ok((0, completions))
        }
    }
}

/// A directory of this host, which stays when the file goes.
pub fn claim(namespace: &Value, name: &Value, annotations: &Value) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let directory = format!("claims/{}/{}", text(namespace), text(name));
    let mut metadata = json!({"namespace": namespace, "name": name});
    if !annotations.is_null() {
        metadata["annotations"] = annotations.clone();
    }
    json!({"kind": "PersistentVolumeClaim", "metadata": metadata, "directory": directory})
}

/// The annotations of the template that a claim of a StatefulSet is made from; null where there are none.
pub fn notes_of<'a>(set: &'a Value, claim: &str) -> &'a Value {
    let own = set["metadata"]["name"].as_str().unwrap_or_default();
    let mut templates = set["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten();
    let made = |template: &&Value| {
        template["metadata"]["name"].as_str().is_some_and(|of| {
            let number = claim.strip_prefix(&format!("{of}-{own}-"));
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        })
    };
    templates.find(made).map_or(&Value::Null, |template| &template["metadata"]["annotations"])
}

/// Sets the stable name and the claims of a StatefulSet's pod.
fn set_identity(pod: &mut Value, spec: &Value, name: &str, number: i64) -> Vec<String> {
    if !pod["metadata"]["labels"].is_object() {
        pod["metadata"]["labels"] = json!({});
    }
    pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] = number.to_string().into();
    pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = name.into();
    // No subdomain: manifest files have no services, so the pod has no DNS name below a service.
    pod["spec"]["hostname"] = name.into();
    let templates = spec["volumeClaimTemplates"].as_array().into_iter().flatten();
    let mut of_template = BTreeSet::new();
    let templates: Vec<&str> = templates
        .filter_map(|template| template["metadata"]["name"].as_str())
        .filter(|name| of_template.insert(*name))
        .collect();
    let claim = |template: &str| format!("{template}-{name}");
    let mut volumes = pod["spec"]["volumes"].as_array_mut().map(std::mem::take).unwrap_or_default();
    volumes.retain(|volume| !volume["name"].as_str().is_some_and(|name| of_template.contains(name)));
    volumes.extend(
        templates
            .iter()
            .map(|template| json!({"name": template, "persistentVolumeClaim": {"claimName": claim(template)}})),
    );
    if !volumes.is_empty() {
        pod["spec"]["volumes"] = volumes.into();
    }
    templates.into_iter().map(claim).collect()
}

/// Gives a pod of an indexed Job its index.
fn set_index(pod: &mut Value, spec: &Value, number: i64) {
    if spec["completionMode"] != "Indexed" {
        return;
    }
    const ANNOTATION: &str = "batch.kubernetes.io/job-completion-index";
    if !pod["metadata"]["annotations"].is_object() {
        pod["metadata"]["annotations"] = Value::Object(Map::new());
    }
    pod["metadata"]["annotations"][ANNOTATION] = number.to_string().into();
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let mut environment = container["env"].as_array().cloned().unwrap_or_default();
            environment.push(json!({"name": "JOB_COMPLETION_INDEX", "value": number.to_string()}));
            container["env"] = environment.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pods: &[Value]) -> Vec<&str> {
        pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).collect()
    }

    fn made(kind: &str, spec: Value) -> Result<(Vec<Value>, Vec<String>), String> {
        let api_version = if kind == "Job" { "batch/v1" } else { "apps/v1" };
        let mut document = json!({"metadata": {"name": "w", "namespace": "n"}, "spec": spec});
        document["spec"]["template"] =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}});
        pods(Workload::of(api_version, kind).unwrap(), &document)
    }

    #[test]
    fn so_many_pods_of_a_template() {
        let check = |kind: &str, spec: Value, expected: &[&str]| {
            let (pods, claims) = made(kind, spec).unwrap();
            assert_eq!((names(&pods), claims.len()), (expected.to_vec(), 0), "{kind}");
            assert!(
                pods.iter().all(|pod| pod["metadata"]["namespace"] == "n" && pod["metadata"]["labels"]["a"] == "b"),
                "{kind}"
            );
        };
        check("Deployment", json!({"replicas": 2}), &["w-0", "w-1"]);
        check("Deployment", json!({"replicas": 0}), &[]);
        check("ReplicaSet", json!({}), &["w-0"]);
        check("DaemonSet", json!({}), &["w"]);
        check("Job", json!({}), &["w-0"]);
        check("Job", json!({"completions": 2, "parallelism": 2}), &["w-0", "w-1"]);
        check("Job", json!({"suspend": true}), &[]);
        assert!(made("Job", json!({"completions": 3, "parallelism": 1})).unwrap_err().contains("write 3"));
        assert!(made("Deployment", json!({"replicas": 1000})).unwrap_err().contains("1000 pods"));
        assert_eq!(Workload::of("apps/v1", "CronJob"), None);
    }

    #[test]
    fn a_claim_of_a_set_has_the_annotations_of_its_template() {
        let template =
            |name: &str, note: &str| json!({"metadata": {"name": name, "annotations": {"coracle.dev/backup": note}}});
        let set = json!({"metadata": {"name": "w"},
            "spec": {"volumeClaimTemplates": [template("data", "true"), template("data-w", "false")]}});
        for (name, expected) in [("data-w-0", "true"), ("data-w-w-0", "false"), ("x-w-0", "")] {
            let found = claim(&json!("n"), &json!(name), notes_of(&set, name));
            let note = found["metadata"]["annotations"]["coracle.dev/backup"].as_str().unwrap_or_default();
            assert_eq!(note, expected, "{name}");
        }
    }

    #[test]
    fn members_of_a_set_keep_names_and_claims() {
        let spec = json!({
            "replicas": 2, "ordinals": {"start": 3}, "serviceName": "db",
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        });
        let (pods, claims) = made("StatefulSet", spec).unwrap();
        assert_eq!((names(&pods), claims), (vec!["w-3", "w-4"], vec!["data-w-3".to_owned(), "data-w-4".to_owned()]));
        let first = &pods[0];
        assert_eq!(first["spec"]["hostname"], "w-3");
        assert_eq!(
            first["spec"]["volumes"],
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-w-3"}}])
        );
        assert_eq!(first["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "3");
    }

    #[test]
    fn pods_of_an_indexed_job_know_their_number() {
        let (pods, _) = made("Job", json!({"completionMode": "Indexed", "completions": 1})).unwrap();
        assert_eq!(pods[0]["spec"]["containers"][0]["env"], json!([{"name": "JOB_COMPLETION_INDEX", "value": "0"}]));
    }
}

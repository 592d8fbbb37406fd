//! PURE. The names of pods and workloads as a person writes them: `web`, `shop/web`, `pod/web`, `deploy/web`,
//! `shop/deploy/web`.

use std::fmt;

use serde_json::Value;

/// The annotation of a pod as the agent shows it: `file` or `api`.
const CONFIG_SOURCE: &str = "kubernetes.io/config.source";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedKind {
    Pod,
    Deployment,
    StatefulSet,
    DaemonSet,
    ReplicaSet,
    Job,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub kind: NamedKind,
    pub namespace: String,
    pub name: String,
}

impl NamedKind {
    /// A kind in one of the words of kubectl.
    fn of(word: &str) -> Option<NamedKind> {
        Some(match word.to_lowercase().as_str() {
            "pod" | "pods" | "po" => NamedKind::Pod,
            "deployment" | "deployments" | "deploy" | "deployment.apps" | "deployments.apps" => NamedKind::Deployment,
            "statefulset" | "statefulsets" | "sts" | "statefulset.apps" | "statefulsets.apps" => NamedKind::StatefulSet,
            "daemonset" | "daemonsets" | "ds" | "daemonset.apps" | "daemonsets.apps" => NamedKind::DaemonSet,
            "replicaset" | "replicasets" | "rs" | "replicaset.apps" | "replicasets.apps" => NamedKind::ReplicaSet,
            "job" | "jobs" | "job.batch" | "jobs.batch" => NamedKind::Job,
            _ => return None,
        })
    }

    pub fn word(self) -> &'static str {
        match self {
            NamedKind::Pod => "pod",
            NamedKind::Deployment => "deployment",
            NamedKind::StatefulSet => "statefulset",
            NamedKind::DaemonSet => "daemonset",
            NamedKind::ReplicaSet => "replicaset",
            NamedKind::Job => "job",
        }
    }

    /// Where the API has objects of this kind, up to the namespace, and its list.
    fn place(self) -> (&'static str, &'static str) {
        match self {
            NamedKind::Pod => ("/api/v1", "pods"),
            NamedKind::Deployment => ("/apis/apps/v1", "deployments"),
            NamedKind::StatefulSet => ("/apis/apps/v1", "statefulsets"),
            NamedKind::DaemonSet => ("/apis/apps/v1", "daemonsets"),
            NamedKind::ReplicaSet => ("/apis/apps/v1", "replicasets"),
            NamedKind::Job => ("/apis/batch/v1", "jobs"),
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.word(), self.namespace, self.name)
    }
}

impl Named {
    /// `namespace`: the value of `-n`.
    pub fn parse(text: &str, namespace: Option<&str>) -> Result<Named, String> {
        let parts: Vec<&str> = text.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(format!("{text:?} is no name such as web, shop/web or deploy/web"));
        }
        let (written, kind, name) = match parts.as_slice() {
            [name] => (None, NamedKind::Pod, name),
            [first, name] => match NamedKind::of(first) {
                Some(kind) => (None, kind, name),
                None => (Some(*first), NamedKind::Pod, name),
            },
            [space, kind, name] => {
                let known = NamedKind::of(kind).ok_or_else(|| {
                    format!("{text:?}: {kind} is none of pod, deployment, statefulset, daemonset, replicaset and job")
                })?;
                (Some(*space), known, name)
            }
            _ => return Err(format!("{text:?} is no name such as web, shop/web or deploy/web")),
        };
        if let (Some(written), Some(given)) = (written, namespace)
            && written != given
        {
            return Err(format!("{text:?} names the namespace {written}, and -n the namespace {given}"));
        }
        let namespace = written.or(namespace).unwrap_or("default").to_owned();
        Ok(Named { kind, namespace, name: (*name).to_owned() })
    }

    /// The path of the object in the API.
    pub fn path(&self) -> String {
        let (group, list) = self.kind.place();
        format!("{group}/namespaces/{}/{list}/{}", encoded(&self.namespace), encoded(&self.name))
    }

    /// The query that selects this object alone from its list.
    pub fn watch_path(&self) -> String {
        let (group, list) = self.kind.place();
        let field = encoded(&format!("metadata.name={}", self.name));
        format!("{group}/namespaces/{}/{list}?watch=1&fieldSelector={field}", encoded(&self.namespace))
    }

    /// The pods of this name, or of this workload's manifest file, among those that the agent shows. A pod has the name
    /// of the API first: there a pod of a file is called after its node, too.
    pub fn on_host<'v>(&self, pods: &'v Value) -> Vec<&'v Value> {
        let here: Vec<&Value> = pods["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|pod| pod["metadata"]["namespace"] == self.namespace.as_str())
            .collect();
        let name = |pod: &&&'v Value| text(&pod["metadata"]["name"]) == self.name;
        if self.kind == NamedKind::Pod {
            let of_api = here.iter().filter(|pod| !is_of_file(pod)).find(name);
            let mirror = |pod: &&&'v Value| {
                let (name, node) = (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]));
                format!("{name}-{node}") == self.name
            };
            let of_file = || here.iter().filter(|pod| is_of_file(pod));
            return of_api
                .or_else(|| of_file().find(mirror))
                .or_else(|| of_file().find(name))
                .copied()
                .into_iter()
                .collect();
        }
        let mut own: Vec<&Value> =
            here.into_iter().filter(|pod| is_of_file(pod) && self.has_pod(text(&pod["metadata"]["name"]))).collect();
        own.sort_by_key(|pod| ordinal(text(&pod["metadata"]["name"])));
        own
    }

    /// Whether the workload's manifest file makes a pod of this name.
    fn has_pod(&self, pod: &str) -> bool {
        if self.kind == NamedKind::DaemonSet {
            return pod == self.name;
        }
        let number = pod.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('-'));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn ordinal(pod: &str) -> u64 {
    pod.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

pub fn is_of_file(pod: &Value) -> bool {
    pod["metadata"]["annotations"][CONFIG_SOURCE] == "file"
}

/// The name by which the agent knows this pod: its own, unless it is of a file and one of the API has that name.
pub fn name_for_agent(pod: &Value, pods: &Value) -> String {
    let meta = &pod["metadata"];
    let name = meta["name"].as_str().unwrap_or_default();
    let mut others = pods["items"].as_array().into_iter().flatten().map(|other| (other, &other["metadata"]));
    let clashes = |(other, its): (&Value, &Value)| {
        !is_of_file(other) && (&its["namespace"], &its["name"]) == (&meta["namespace"], &meta["name"])
    };
    match pod["spec"]["nodeName"].as_str() {
        Some(node) if is_of_file(pod) && others.any(clashes) => format!("{name}-{node}"),
        _ => name.to_owned(),
    }
}

/// `default/web`
pub fn words(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}

/// The `labelSelector` of a query, from a workload of the API.
pub fn selector(workload: &Value) -> Option<String> {
    let selector = &workload["spec"]["selector"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut all: Vec<String> = labels.map(|(key, value)| format!("{key}={}", text(value))).collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = text(&expression["key"]);
        let values = expression["values"].as_array().into_iter().flatten().map(&text).collect::<Vec<_>>().join(",");
        all.push(match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("Exists") => key,
            Some("DoesNotExist") => format!("!{key}"),
            _ => return None,
        });
    }
    (!all.is_empty()).then(|| encoded(&all.join(",")))
}

/// Of the pods of a workload the pod that kubectl would take: a pod that runs before a pod that does not, a ready pod
/// first, and the oldest of these.
pub fn pick(pods: &Value) -> Option<&Value> {
    let rank = |pod: &&Value| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
        let created = pod["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned();
        (pod["spec"]["nodeName"].is_null(), pod["status"]["phase"] != "Running", !ready, created)
    };
    pods["items"].as_array()?.iter().min_by_key(rank)
}

pub fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names() {
        for (text, namespace, expected) in [
            ("web", None, Ok("pod default/web")),
            ("web", Some("shop"), Ok("pod shop/web")),
            ("shop/web", None, Ok("pod shop/web")),
            ("shop/web", Some("shop"), Ok("pod shop/web")),
            ("pod/web", Some("shop"), Ok("pod shop/web")),
            ("deploy/web", None, Ok("deployment default/web")),
            ("Deployment/web", None, Ok("deployment default/web")),
            ("deployments.apps/web", None, Ok("deployment default/web")),
            ("sts/db", None, Ok("statefulset default/db")),
            ("ds/probe", None, Ok("daemonset default/probe")),
            ("rs/web-1", None, Ok("replicaset default/web-1")),
            ("job/dump", None, Ok("job default/dump")),
            ("shop/deploy/web", None, Ok("deployment shop/web")),
            ("shop/web", Some("lab"), Err("names the namespace shop, and -n the namespace lab")),
            ("a/b/c", None, Err("b is none of pod")),
            ("a/b/c/d", None, Err("is no name")),
            ("deploy/", None, Err("is no name")),
            ("", None, Err("is no name")),
        ] {
            match (Named::parse(text, namespace), expected) {
                (Ok(named), Ok(expected)) => assert_eq!(named.to_string(), expected, "{text}"),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{text}: {why}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
        let path = Named::parse("shop/sts/db", None).unwrap();
        assert_eq!(path.path(), "/apis/apps/v1/namespaces/shop/statefulsets/db");
        assert_eq!(
            path.watch_path(),
            "/apis/apps/v1/namespaces/shop/statefulsets?watch=1&fieldSelector=metadata.name%3Ddb"
        );
    }

    #[test]
    fn pods_of_this_host() {
        let pod = |source: &str, namespace: &str, name: &str| {
            json!({"metadata": {"namespace": namespace, "name": name, "annotations": {CONFIG_SOURCE: source}},
                "spec": {"nodeName": "n1"}})
        };
        let pods = json!({"items": [
            pod("file", "default", "web-1"), pod("file", "default", "web-10"), pod("file", "default", "web-2"),
            pod("file", "default", "web-n1"), pod("api", "default", "web-3"), pod("file", "shop", "web-0"),
            pod("file", "default", "db"), pod("api", "default", "db"), pod("file", "default", "lamp"),
        ]});
        for (text, expected) in [
            ("db", "api db"),
            ("db-n1", "file db"),
            ("lamp", "file lamp"),
            ("lamp-n1", "file lamp"),
            ("shop/web-0", "file web-0"),
            ("nobody", ""),
            ("deploy/web", "file web-1, file web-2, file web-10"),
            ("ds/lamp", "file lamp"),
            ("ds/web", ""),
            ("deploy/we", ""),
        ] {
            let found = Named::parse(text, None).unwrap();
            let told = |pod: &&Value| {
                format!(
                    "{} {}",
                    if is_of_file(pod) { "file" } else { "api" },
                    pod["metadata"]["name"].as_str().unwrap()
                )
            };
            let found: Vec<String> = found.on_host(&pods).iter().map(told).collect();
            assert_eq!(found.join(", "), expected, "{text}");
        }
        let asked = |text: &str| name_for_agent(Named::parse(text, None).unwrap().on_host(&pods)[0], &pods);
        assert_eq!([asked("db"), asked("db-n1"), asked("lamp-n1")], ["db", "db-n1", "lamp"]);
    }

    #[test]
    fn a_workload_selects_its_pods() {
        let expression = json!({"key": "tier", "operator": "In", "values": ["a", "b"]});
        let workload = json!({"spec": {"selector": {"matchLabels": {"app": "web"}, "matchExpressions": [expression]}}});
        assert_eq!(selector(&workload).as_deref(), Some("app%3Dweb%2Ctier%20in%20%28a%2Cb%29"));
        assert_eq!(selector(&json!({"spec": {}})), None, "all pods would be taken for its own");
        let pod = |name: &str, phase: &str, ready: &str, created: &str| {
            json!({"metadata": {"name": name, "creationTimestamp": created}, "spec": {"nodeName": "n"},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}})
        };
        let pods = json!({"items": [
            pod("waits", "Pending", "False", "2026-01-01T00:00:00Z"),
            pod("sick", "Running", "False", "2026-01-01T00:00:00Z"),
            pod("new", "Running", "True", "2026-01-03T00:00:00Z"),
            pod("old", "Running", "True", "2026-01-02T00:00:00Z"),
        ]});
        assert_eq!(pick(&pods).unwrap()["metadata"]["name"], "old");
        assert_eq!(pick(&json!({"items": []})), None);
    }
}

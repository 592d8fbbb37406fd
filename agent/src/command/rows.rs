//! The pods of both programs as rows of a table, each pod once. PURE.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::inside::named::is_of_file;

/// The annotation of the API's pods that show pods of files.
const MIRROR: &str = "kubernetes.io/config.mirror";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRow {
    pub of_file: bool,
    pub node: String,
    /// The phase, or what says more: `Terminating`, `CrashLoopBackOff`.
    pub state: String,
    pub ready: usize,
    pub containers: usize,
    pub restarts: u64,
    pub address: String,
    pub images: Vec<String>,
}

/// By namespace, name and whether it is a file's, so that two looks list alike.
pub type Rows = BTreeMap<(String, String, bool), PodRow>;

/// `of_agent`: the pods of node `node_name` as its agent shows them; `of_master`: all pods of the API.
pub fn rows(node_name: &str, of_agent: Option<&Value>, of_master: Option<&Value>) -> Rows {
    let mut rows = Rows::new();
    let items = |list: Option<&Value>| list.and_then(|list| list["items"].as_array().cloned()).unwrap_or_default();
    for pod in items(of_master) {
        let is_mirror = pod["metadata"]["annotations"][MIRROR].is_string();
        // The agent shows the pods of this host's files itself.
        if is_mirror && of_agent.is_some() && pod["spec"]["nodeName"] == node_name {
            continue;
        }
        rows.insert(key(&pod, is_mirror), row(&pod, is_mirror));
    }
    for pod in items(of_agent) {
        let of_file = is_of_file(&pod);
        // The API's status is the one that everybody sees.
        rows.entry(key(&pod, of_file)).or_insert_with(|| row(&pod, of_file));
    }
    rows
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Pods of files on other nodes go by the names of their mirrors: each node has names of its own.
fn key(pod: &Value, of_file: bool) -> (String, String, bool) {
    (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]), of_file)
}

fn row(pod: &Value, of_file: bool) -> PodRow {
    let status = &pod["status"];
    let containers: Vec<&Value> = status["containerStatuses"].as_array().into_iter().flatten().collect();
    let spec: Vec<&Value> = pod["spec"]["containers"].as_array().into_iter().flatten().collect();
    PodRow {
        of_file,
        node: text(&pod["spec"]["nodeName"]),
        state: state(pod),
        ready: containers.iter().filter(|one| one["ready"] == true).count(),
        containers: spec.len(),
        restarts: containers.iter().filter_map(|one| one["restartCount"].as_u64()).sum(),
        address: text(&status["podIP"]),
        images: spec.iter().map(|one| text(&one["image"])).collect(),
    }
}

/// As kubectl's column STATUS has it.
fn state(pod: &Value) -> String {
    let status = &pod["status"];
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return "Terminating".to_owned();
    }
    let lists = ["initContainerStatuses", "containerStatuses"].into_iter();
    let mut containers = lists.flat_map(|list| status[list].as_array().into_iter().flatten());
    const USUAL: [&str; 2] = ["ContainerCreating", "PodInitializing"];
    let waits = containers.find_map(|one| {
        one["state"]["waiting"]["reason"].as_str().filter(|reason| !USUAL.contains(reason)).map(str::to_owned)
    });
    let ended = status["reason"].as_str().filter(|reason| !reason.is_empty()).map(str::to_owned);
    ended.or(waits).unwrap_or_else(|| status["phase"].as_str().unwrap_or("Pending").to_owned())
}

/// `default/web (file)`
pub fn name((namespace, name, of_file): &(String, String, bool)) -> String {
    format!("{namespace}/{name}{}", if *of_file { " (file)" } else { "" })
}

/// One line for each pod, in columns.
pub fn lines(rows: &Rows, wide: bool) -> Vec<String> {
    let cells = rows.iter().map(|(key, row)| {
        let again = match row.restarts {
            0 => String::new(),
            1 => ", 1 restart".to_owned(),
            several => format!(", {several} restarts"),
        };
        let mut cells = vec![name(key), row.state.clone(), format!("{} of {} ready{again}", row.ready, row.containers)];
        if wide {
            let or_none = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
            cells.extend([or_none(&row.node), or_none(&row.address), or_none(&row.images.join(","))]);
        }
        cells
    });
    columns(&cells.collect::<Vec<_>>())
}

/// Cells below each other, two spaces apart.
pub fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// For programs.
pub fn document(rows: &Rows) -> Value {
    let row = |((namespace, name, of_file), row): (&(String, String, bool), &PodRow)| {
        json!({
            "namespace": namespace, "name": name, "source": if *of_file { "file" } else { "api" }, "node": row.node,
            "state": row.state, "ready": row.ready, "containers": row.containers, "restarts": row.restarts,
            "address": row.address, "images": row.images,
        })
    };
    rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::naming::CONFIG_SOURCE;

    fn pod(name: &str, node: &str, annotations: &Value, status: &Value) -> Value {
        json!({"metadata": {"namespace": "default", "name": name, "annotations": annotations},
            "spec": {"nodeName": node, "containers": [{"image": "i:1"}]}, "status": status})
    }

    #[test]
    fn each_pod_stands_there_once() {
        let runs = json!({"phase": "Running", "podIP": "10.0.0.2",
            "containerStatuses": [{"ready": true, "restartCount": 2, "state": {"running": {}}}]});
        let (file, api, mirror) = (json!({CONFIG_SOURCE: "file"}), json!({CONFIG_SOURCE: "api"}), json!({MIRROR: "x"}));
        let agent = json!({"items": [
            pod("b", "n1", &file, &runs), pod("a", "n1", &api, &json!({"phase": "Pending"})),
            pod("web", "n1", &file, &runs),
        ]});
        let master = json!({"items": [
            pod("b-n1", "n1", &mirror, &runs), pod("web-n2", "n2", &mirror, &runs), pod("a", "n1", &json!({}), &runs),
            pod("web", "n1", &json!({}), &json!({})),
        ]});
        let told = |agent: Option<&Value>, master: Option<&Value>| lines(&rows("n1", agent, master), false);
        assert_eq!(
            told(Some(&agent), Some(&master)),
            [
                "default/a              Running  1 of 1 ready, 2 restarts",
                "default/b (file)       Running  1 of 1 ready, 2 restarts",
                "default/web            Pending  0 of 1 ready",
                "default/web (file)     Running  1 of 1 ready, 2 restarts",
                "default/web-n2 (file)  Running  1 of 1 ready, 2 restarts",
            ]
        );
        assert_eq!(told(Some(&agent), None).len(), 3);
        assert_eq!(told(None, Some(&master)).len(), 4, "where there is no agent the master shows its pods");
        let wide = lines(&rows("n1", None, Some(&master)), true);
        assert_eq!(wide[2], "default/web            Pending  0 of 1 ready              n1  -         i:1");
        assert_eq!(document(&rows("n1", Some(&agent), None))[1]["source"], "file");
    }

    #[test]
    fn states() {
        let check = |pod: Value, expected: &str| assert_eq!(state(&pod), expected, "{pod}");
        check(json!({"metadata": {}, "status": {}}), "Pending");
        check(
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Running"}}),
            "Terminating",
        );
        let waits = |reason: &str| {
            json!({"status": {"phase": "Pending",
            "containerStatuses": [{"state": {"waiting": {"reason": reason}}}]}})
        };
        check(waits("ImagePullBackOff"), "ImagePullBackOff");
        check(waits("ContainerCreating"), "Pending");
        check(json!({"status": {"phase": "Failed", "reason": "Evicted"}}), "Evicted");
    }
}

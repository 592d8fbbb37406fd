//! PURE. The state of a running master in plain words, from its metrics, checks and nodes.

use serde_json::{Value, json};

pub struct StateReport {
    pub lines: Vec<String>,
    pub document: Value,
    pub well: bool,
}

/// The share of the store's limit above which the next thousand objects may not fit.
const FULL_PERCENT: u64 = 90;

/// `ready`: the checks, or why they do not hold. `nodes`: a NodeList.
pub fn report(
    data_dir: &str,
    metrics: &str,
    ready: Result<String, String>,
    nodes: Result<Value, String>,
) -> StateReport {
    let mut problems = Vec::new();
    if let Err(why) = ready {
        problems.push(why.replace('\n', ", "));
    }
    let figure = |name: &str| figures(metrics, name).next().map(|(_, value)| value).unwrap_or_default();
    if figures(metrics, "coracle_store_writable").any(|(_, value)| value == 0) {
        problems.push(format!("the disk below {data_dir} takes no writes: reads go on; make room on it"));
    }
    if figure("coracle_store_files_stuck") > 0 {
        problems.push(format!("the files below {data_dir} cannot be brought up to the journal"));
    }
    let secure = figures(metrics, "coracle_secure_port_trouble").map(|(labels, _)| why(labels));
    problems.extend(secure.map(|why| format!("the secure port is not served: {why}")));
    problems.extend(figures(metrics, "coracle_issuer_trouble").map(|(labels, _)| why(labels)));
    let damaged = figure("coracle_store_damaged_objects");
    if damaged > 0 {
        problems.push(format!("{damaged} objects are damaged: coracle-master store verify names them"));
    }
    problems.extend(sealing_problems(metrics));
    let (bytes, bytes_max) = (figure("coracle_store_bytes"), figure("coracle_store_bytes_max"));
    let percent = (bytes * 100).checked_div(bytes_max).unwrap_or_default();
    if percent >= FULL_PERCENT {
        problems.push(format!("the store is full to {percent} %: delete what is not needed, or raise store-limit"));
    }
    let objects: u64 = figures(metrics, "apiserver_resource_objects").map(|(_, value)| value).sum();
    let requests: u64 = figures(metrics, "apiserver_request_total").map(|(_, value)| value).sum();
    let streams = figure("coracle_open_streams");
    let mut rows = Vec::new();
    match &nodes {
        Ok(list) => rows = list["items"].as_array().into_iter().flatten().map(node).collect(),
        Err(why) => problems.push(format!("nodes: {why}")),
    }
    problems.extend(rows.iter().filter_map(|(name, why)| Some(format!("node {name} is not ready: {}", why.as_ref()?))));
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let mut lines = vec![
        format!("store {data_dir}: {objects} objects at revision {}", figure("coracle_store_revision")),
        format!(
            "    {} of {} in memory ({percent} %), {} of journal",
            mib(bytes),
            mib(bytes_max),
            mib(figure("coracle_store_journal_bytes"))
        ),
        format!("clients: {streams} watches and other streams are open, {requests} requests since the start"),
        format!("memory: {}", mib(figure("process_resident_memory_bytes"))),
        counted(rows.len(), "node"),
    ];
    lines.extend(
        rows.iter().map(|(name, why)| format!("    {name}  {}", if why.is_none() { "ready" } else { "not ready" })),
    );
    lines.push(if problems.is_empty() { "all is well".to_owned() } else { counted(problems.len(), "problem") });
    lines.extend(problems.iter().map(|problem| format!("    {problem}")));
    let rows: Vec<Value> = rows.iter().map(|(name, why)| json!({"name": name, "ready": why.is_none()})).collect();
    let document = json!({
        "store": {"dataDir": data_dir, "objects": objects, "revision": figure("coracle_store_revision"), "bytes": bytes,
            "bytesMax": bytes_max,
            "journalBytes": figure("coracle_store_journal_bytes"), "damaged": damaged},
        "clients": {"streams": streams, "requests": requests},
        "memoryBytes": figure("process_resident_memory_bytes"),
        "nodes": rows,
        "problems": problems,
    });
    StateReport { lines, document, well: problems.is_empty() }
}

/// Why Secrets are not served, or not written.
fn sealing_problems(metrics: &str) -> Vec<String> {
    let closed = figures(metrics, "coracle_store_closed_objects").next().map_or(0, |(_, value)| value);
    let keyless = figures(metrics, "coracle_encryption_trouble").map(|(labels, _)| {
        let why = labels.trim_start_matches("{why=\"").trim_end_matches("\"}");
        format!("encryption-key: {why}")
    });
    let closed = (closed > 0).then(|| {
        format!("{closed} Secrets are sealed, and the key is not here: bring the key file back, see /readyz?verbose")
    });
    keyless.chain(closed).collect()
}

impl StateReport {
    /// With the bindings that do not count, a line each.
    pub fn with(mut self, unadopted: Result<Vec<String>, String>) -> StateReport {
        let bindings = match unadopted {
            Ok(lines) if lines.is_empty() => return self,
            Ok(lines) => lines,
            Err(why) => vec![format!("which bindings do not count is unknown: {why}")],
        };
        self.lines.push(
            "bindings and roles from before access rules counted give nothing: coracle-master rbac adopt".to_owned(),
        );
        self.lines.extend(bindings.iter().map(|line| format!("    {line}")));
        self.document["unadoptedBindings"] = json!(bindings);
        self
    }
}

/// The bindings and roles of a list as the master gives it, a line each.
pub fn unadopted(list: &str) -> Vec<String> {
    let list: Value = serde_json::from_str(list).unwrap_or_default();
    let said = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
    let line = |binding: &Value| {
        let namespace = said(binding, "namespace");
        let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        let subjects: Vec<String> =
            subjects.map(|subject| format!("{} {}", said(subject, "kind"), said(subject, "name"))).collect();
        let role = &binding["role"];
        if let Some(joins) = binding["joins"].as_array() {
            let joins: Vec<&str> = joins.iter().filter_map(Value::as_str).collect();
            return format!("ClusterRole {} gives its rules to {}", said(binding, "name"), joins.join(", "));
        }
        format!(
            "{} {place}{} gives {} {} to {}",
            said(binding, "kind"),
            said(binding, "name"),
            said(role, "kind"),
            said(role, "name"),
            subjects.join(", ")
        )
    };
    list.as_array().into_iter().flatten().map(line).collect()
}

/// `1 node`, `2 nodes`.
fn counted(count: usize, of: &str) -> String {
    format!("{count} {of}{}", if count == 1 { "" } else { "s" })
}

/// Its name, and why it is not ready.
fn node(node: &Value) -> (String, Option<String>) {
    let ready =
        node["status"]["conditions"].as_array().into_iter().flatten().find(|condition| condition["type"] == "Ready");
    let why = match ready {
        Some(condition) if condition["status"] == "True" => None,
        Some(condition) => Some(condition["message"].as_str().unwrap_or_default().to_owned()),
        None => Some("its agent has said nothing yet".to_owned()),
    };
    (node["metadata"]["name"].as_str().unwrap_or_default().to_owned(), why)
}

/// Every line of that name in Prometheus' text, whole: labels and value.
fn figures<'a>(metrics: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
    metrics.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '{']))?;
        let (labels, value) = rest.rsplit_once(' ')?;
        Some((labels, value.parse::<f64>().ok()? as u64))
    })
}

/// The value of the one label `why`.
fn why(labels: &str) -> String {
    let value = labels.trim_start_matches("{why=\"").trim_end_matches("\"}");
    value.replace("\\n", " ").replace("\\\"", "\"").replace("\\\\", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "# HELP coracle_store_bytes x\ncoracle_store_bytes 1048576\n\
                           coracle_store_bytes_max 10485760\ncoracle_store_writable 1\ncoracle_store_revision 7\n\
                           apiserver_resource_objects{resource=\"pods\"} 2\n\
                           apiserver_resource_objects{resource=\"nodes\"} 1\ncoracle_open_streams 4\n\
                           apiserver_request_total{verb=\"GET\"} 5\n";

    fn report_of(metrics: &str, ready: Result<String, String>, condition: Value) -> StateReport {
        let nodes = json!({"items": [{"metadata": {"name": "n1"}, "status": {"conditions": [condition]}}]});
        report("/d", metrics, ready, Ok(nodes))
    }

    #[test]
    fn bindings_that_do_not_count() {
        let list = json!([{
            "kind": "RoleBinding", "namespace": "a", "name": "b", "role": {"kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "User", "name": "alice"}, {"kind": "Group", "name": "people"}],
        }]);
        let roles = json!([{"kind": "ClusterRole", "namespace": "", "name": "r", "joins": ["edit", "view"]}]);
        assert_eq!(unadopted(&roles.to_string()), ["ClusterRole r gives its rules to edit, view"]);
        let lines = unadopted(&list.to_string());
        assert_eq!(lines, ["RoleBinding a/b gives ClusterRole edit to User alice, Group people"]);
        let ready = json!({"type": "Ready", "status": "True"});
        let report = report_of(METRICS, Ok("ok".to_owned()), ready.clone()).with(Ok(lines.clone()));
        assert_eq!(report.lines.last(), Some(&format!("    {}", lines[0])));
        assert!(report.well);
        let none = report_of(METRICS, Ok("ok".to_owned()), ready).with(Ok(Vec::new()));
        assert_eq!(none.lines.last().map(String::as_str), Some("all is well"));
    }

    #[test]
    fn in_plain_words() {
        let ready = || json!({"type": "Ready", "status": "True"});
        let well = report_of(METRICS, Ok("ok".to_owned()), ready());
        assert_eq!(well.lines[0], "store /d: 3 objects at revision 7");
        assert_eq!(well.lines[1], "    1.0 MiB of 10.0 MiB in memory (10 %), 0.0 MiB of journal");
        assert_eq!((well.lines.last().unwrap().as_str(), well.well), ("all is well", true));
        assert_eq!(
            (&well.document["clients"]["streams"], &well.document["nodes"][0]["ready"]),
            (&json!(4), &json!(true))
        );
        let check = |report: StateReport, problem: &str| {
            assert!(!report.well && report.lines.last().unwrap().contains(problem), "{:?}", report.lines);
        };
        check(report_of(METRICS, Err("readyz: store failed".to_owned()), ready()), "store failed");
        check(report_of(&METRICS.replace("writable 1", "writable 0"), Ok(String::new()), ready()), "takes no writes");
        check(
            report_of(&METRICS.replace("bytes 1048576", "bytes 10000000"), Ok(String::new()), ready()),
            "full to 95 %",
        );
        check(
            report_of(&format!("{METRICS}coracle_store_damaged_objects 2\n"), Ok(String::new()), ready()),
            "2 objects are damaged",
        );
        check(
            report_of(&format!("{METRICS}coracle_store_closed_objects 2\n"), Ok(String::new()), ready()),
            "2 Secrets are sealed",
        );
        let trouble = format!("{METRICS}coracle_encryption_trouble{{why=\"sealed ones not read: /k is gone\"}} 1\n");
        check(report_of(&trouble, Ok(String::new()), ready()), "sealed ones not read: /k is gone");
        check(
            report_of(&format!("{METRICS}coracle_store_files_stuck 1\n"), Ok(String::new()), ready()),
            "cannot be brought up",
        );
        let gone = json!({"type": "Ready", "status": "Unknown", "message": "silent"});
        check(report_of(METRICS, Ok(String::new()), gone), "node n1 is not ready: silent");
        check(report("/d", METRICS, Ok(String::new()), Err("no".to_owned())), "nodes: no");
    }
}

//! PURE. The state of a running master in plain words, from its figures and its problems.

use crate::problems::{NodeRow, PodCounts, Summary};
use coracle_keeper::problem::{Problem, Severity, cut};
use coracle_program::command_line::OutputFormat;
use serde_json::{Value, json};

/// Characters of a line of the text: two lines of a terminal. `-o wide` has whole lines.
const LINE_CHARS_MAX: usize = 160;

pub struct StateReport {
    pub lines: Vec<String>,
    pub document: Value,
    pub well: bool,
}

/// `metrics`: the page `/metrics`. `summary`: the page of the problems.
pub fn report(data_dir: &str, metrics: &str, summary: &Summary, form: OutputFormat) -> StateReport {
    let figure = |name: &str| figures(metrics, name).next().map(|(_, value)| value).unwrap_or_default();
    let (bytes, bytes_max) = (figure("coracle_store_bytes"), figure("coracle_store_bytes_max"));
    let percent = (bytes * 100).checked_div(bytes_max).unwrap_or_default();
    let objects: u64 = figures(metrics, "apiserver_resource_objects").map(|(_, value)| value).sum();
    let requests: u64 = figures(metrics, "apiserver_request_total").map(|(_, value)| value).sum();
    let streams = figure("coracle_open_streams");
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
        counted(summary.nodes.len(), "node"),
    ];
    lines.extend(summary.nodes.iter().map(|node| format!("    {}  {}", node.name, node_words(node))));
    lines.push(pods(&summary.pods));
    lines.extend(told(summary));
    if form == OutputFormat::Text {
        lines.iter_mut().for_each(|line| *line = cut(line, LINE_CHARS_MAX));
    }
    let document = json!({
        "store": {"dataDir": data_dir, "objects": objects, "revision": figure("coracle_store_revision"), "bytes": bytes,
            "bytesMax": bytes_max, "journalBytes": figure("coracle_store_journal_bytes"),
            "damaged": figure("coracle_store_damaged_objects")},
        "clients": {"streams": streams, "requests": requests},
        "memoryBytes": figure("process_resident_memory_bytes"),
        "nodes": summary.nodes,
        "pods": summary.pods,
        "problems": summary.problems,
        "leftOut": summary.left_out,
    });
    StateReport { lines, document, well: summary.is_well() }
}

fn node_words(node: &NodeRow) -> String {
    let ready = if node.ready { "ready" } else { "not ready" };
    let cordoned = if node.cordoned { ", cordoned: it takes no new pods" } else { "" };
    format!("{ready}{cordoned}")
}

fn pods(pods: &PodCounts) -> String {
    let PodCounts { running, pending, succeeded, failed } = *pods;
    let all = counted(running + pending + succeeded + failed, "pod");
    let of = [(running, "running"), (pending, "waiting"), (succeeded, "succeeded"), (failed, "failed")];
    let of: Vec<String> =
        of.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    if of.is_empty() { all } else { format!("{all}: {}", of.join(", ")) }
}

fn told(summary: &Summary) -> Vec<String> {
    let (problems, warnings) = (summary.count(Severity::Problem), summary.count(Severity::Warning));
    let of = |severity: Severity| summary.problems.iter().filter(move |one| one.severity == severity).flat_map(lines);
    let mut lines = vec![if problems == 0 { "all is well".to_owned() } else { counted(problems, "problem") }];
    lines.extend(of(Severity::Problem));
    if summary.left_out > 0 {
        lines.push(format!("    and {} more that are not listed", summary.left_out));
    }
    if warnings > 0 {
        lines.push(counted(warnings, "warning"));
        lines.extend(of(Severity::Warning));
    }
    lines
}

/// A problem in up to three lines: what, why, what to do.
fn lines(problem: &Problem) -> Vec<String> {
    let since = problem.since.as_ref().map(|since| format!(", since {since}")).unwrap_or_default();
    let mut lines = vec![format!("    {}: {}{since}", problem.subject.words(), problem.what)];
    let why = problem.why.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.extend(why.map(|line| format!("        {line}")));
    if !problem.advice.is_empty() {
        lines.push(format!("        -> {}", problem.advice));
    }
    lines
}

/// The bindings and roles of a list as the master gives it, a line each.
pub fn unadopted(list: &Value) -> Vec<String> {
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

/// Every line of that name in Prometheus' text, whole: labels and value.
fn figures<'a>(metrics: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
    metrics.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '{']))?;
        let (labels, value) = rest.rsplit_once(' ')?;
        Some((labels, value.parse::<f64>().ok()? as u64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_keeper::problem::Subject;

    const METRICS: &str = "# HELP coracle_store_bytes x\ncoracle_store_bytes 1048576\n\
                           coracle_store_bytes_max 10485760\ncoracle_store_writable 1\ncoracle_store_revision 7\n\
                           apiserver_resource_objects{resource=\"pods\"} 2\n\
                           apiserver_resource_objects{resource=\"nodes\"} 1\ncoracle_open_streams 4\n\
                           apiserver_request_total{verb=\"GET\"} 5\n";

    #[test]
    fn bindings_that_do_not_count() {
        let list = json!([{
            "kind": "RoleBinding", "namespace": "a", "name": "b", "role": {"kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "User", "name": "alice"}, {"kind": "Group", "name": "people"}],
        }]);
        let roles = json!([{"kind": "ClusterRole", "namespace": "", "name": "r", "joins": ["edit", "view"]}]);
        assert_eq!(unadopted(&roles), ["ClusterRole r gives its rules to edit, view"]);
        assert_eq!(unadopted(&list), ["RoleBinding a/b gives ClusterRole edit to User alice, Group people"]);
    }

    #[test]
    fn in_plain_words() {
        let mut summary = Summary {
            nodes: vec![NodeRow { name: "n1".to_owned(), ready: true, cordoned: false }],
            pods: PodCounts { running: 2, ..PodCounts::default() },
            ..Summary::default()
        };
        let well = report("/d", METRICS, &summary, OutputFormat::Text);
        assert_eq!(
            well.lines,
            [
                "store /d: 3 objects at revision 7",
                "    1.0 MiB of 10.0 MiB in memory (10 %), 0.0 MiB of journal",
                "clients: 4 watches and other streams are open, 5 requests since the start",
                "memory: 0.0 MiB",
                "1 node",
                "    n1  ready",
                "2 pods: 2 running",
                "all is well",
            ]
        );
        assert!(well.well);
        assert_eq!(
            (&well.document["clients"]["streams"], &well.document["nodes"][0]["ready"]),
            (&json!(4), &json!(true))
        );
        let problem = Problem {
            why: "w".repeat(200),
            advice: "do".to_owned(),
            since: Some("2026-01-01T00:00:00Z".to_owned()),
            ..Problem::new("NodeCordoned", Subject::new("node", "", "n1"), "is cordoned")
        };
        summary.nodes[0].cordoned = true;
        summary.problems = vec![problem.clone(), problem.warning()];
        let bad = report("/d", METRICS, &summary, OutputFormat::Text);
        assert_eq!(bad.lines[5], "    n1  ready, cordoned: it takes no new pods");
        let why = format!("        {}...", "w".repeat(149));
        let told = ["    node n1: is cordoned, since 2026-01-01T00:00:00Z", &why, "        -> do"];
        assert_eq!(bad.lines[7..], [&["1 problem"][..], &told, &["1 warning"], &told].concat());
        assert!(!bad.well && bad.document["problems"][0]["why"] == "w".repeat(200));
        let wide = report("/d", METRICS, &summary, OutputFormat::Wide);
        assert_eq!(wide.lines[9].trim(), "w".repeat(200));
        summary.problems.remove(0);
        assert!(report("/d", METRICS, &summary, OutputFormat::Text).well, "a warning turns nothing");
    }
}

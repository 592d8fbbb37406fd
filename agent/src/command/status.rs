//! The state of this node in plain words, from the answers of its agent. PURE.

use coracle_keeper::problem::{Problem, cut};
use coracle_program::command_line::OutputFormat;
use serde_json::{Value, json};

use super::report::Report;
use crate::facts::naming::CONFIG_SOURCE;

/// Characters of a line of the text: two lines of a terminal. `-o wide` has whole lines.
const LINE_CHARS_MAX: usize = 160;

/// `node`, `pods`: the answers of `/node` and `/pods`.
pub fn report(node: &Value, pods: &Value, problems: Vec<Problem>, form: OutputFormat) -> Report {
    let items = pods["items"].as_array().into_iter().flatten();
    let mut rows: Vec<Row> = items.map(row).collect();
    rows.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    let (warnings, bad): (Vec<&Problem>, Vec<&Problem>) = problems.iter().partition(|problem| problem.is_warning());
    let mut lines = about(node);
    lines.push(counted(rows.len(), "pod"));
    let width = rows.iter().map(|row| row.called().len()).max().unwrap_or_default();
    lines.extend(rows.iter().map(|row| row.line(width)));
    lines.extend(told(&bad, &warnings));
    let lines = as_asked(lines, form);
    let well = bad.is_empty();
    let rows: Vec<Value> = rows.iter().map(|row| row.document(&bad)).collect();
    Report { lines, document: json!({"node": node, "pods": rows, "problems": problems}), well }
}

/// The lines of all problems and warnings.
pub(super) fn told(bad: &[&Problem], warnings: &[&Problem]) -> Vec<String> {
    let mut lines = vec![if bad.is_empty() { "all is well".to_owned() } else { counted(bad.len(), "problem") }];
    lines.extend(bad.iter().flat_map(|problem| of_one(problem)));
    if !warnings.is_empty() {
        lines.push(counted(warnings.len(), "warning"));
        lines.extend(warnings.iter().flat_map(|problem| of_one(problem)));
    }
    lines
}

/// Text has short lines.
pub(super) fn as_asked(mut lines: Vec<String>, form: OutputFormat) -> Vec<String> {
    if form == OutputFormat::Text {
        lines.iter_mut().for_each(|line| *line = cut(line, LINE_CHARS_MAX));
    }
    lines
}

/// The node itself.
fn about(node: &Value) -> Vec<String> {
    let gib = |field: &str| format!("{:.1} GiB", node[field].as_u64().unwrap_or_default() as f64 / f64::from(1 << 30));
    let engine = Some(text(&node["engine"])).filter(|engine| !engine.is_empty());
    let engine = engine.unwrap_or_else(|| "no engine yet".to_owned());
    vec![
        format!("node {} at {}: agent {}, {engine}", text(&node["name"]), text(&node["address"]), text(&node["agent"])),
        format!(
            "{}, kernel {}, {} CPUs, {} of memory, {} of disk",
            text(&node["os"]),
            text(&node["kernel"]),
            node["cpus"],
            gib("memoryBytes"),
            gib("diskBytes")
        ),
    ]
}

/// One pod.
struct Row {
    namespace: String,
    name: String,
    of_file: bool,
    phase: String,
    ready: usize,
    containers: usize,
    restarts: u64,
}

fn row(pod: &Value) -> Row {
    let (metadata, status) = (&pod["metadata"], &pod["status"]);
    let statuses: Vec<&Value> = status["containerStatuses"].as_array().into_iter().flatten().collect();
    let phase = if metadata["deletionTimestamp"].is_string() {
        "Terminating"
    } else {
        status["phase"].as_str().unwrap_or("Pending")
    };
    Row {
        namespace: text(&metadata["namespace"]),
        name: text(&metadata["name"]),
        of_file: metadata["annotations"][CONFIG_SOURCE] == "file",
        phase: phase.to_owned(),
        ready: statuses.iter().filter(|one| one["ready"] == true).count(),
        containers: pod["spec"]["containers"].as_array().map_or(0, Vec::len),
        restarts: statuses.iter().filter_map(|one| one["restartCount"].as_u64()).sum(),
    }
}

impl Row {
    fn called(&self) -> String {
        let of_file = if self.of_file { " (file)" } else { "" };
        format!("{}/{}{of_file}", self.namespace, self.name)
    }

    fn line(&self, width: usize) -> String {
        let Row { phase, ready, containers, restarts, .. } = self;
        let again = match restarts {
            0 => String::new(),
            1 => ", 1 restart".to_owned(),
            many => format!(", {many} restarts"),
        };
        format!("    {:width$}  {phase:11}  {ready} of {containers} ready{again}", self.called())
    }

    fn document(&self, problems: &[&Problem]) -> Value {
        let own = |problem: &&&Problem| {
            let subject = &problem.subject;
            subject.kind == "pod" && subject.namespace == self.namespace && subject.name == self.name
        };
        json!({
            "pod": self.called(), "namespace": self.namespace, "name": self.name, "file": self.of_file,
            "phase": self.phase, "ready": self.ready, "containers": self.containers, "restarts": self.restarts,
            "problem": problems.iter().find(own).map(|problem| problem.line()),
        })
    }
}

/// A problem in up to three lines: what, why, what to do.
fn of_one(problem: &Problem) -> Vec<String> {
    let since = problem.since.as_ref().map(|since| format!(", since {since}")).unwrap_or_default();
    let mut lines = vec![format!("    {}: {}{since}", problem.subject.words(), problem.what)];
    let why = problem.why.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.extend(why.map(|line| format!("        {line}")));
    if !problem.advice.is_empty() {
        lines.push(format!("        -> {}", problem.advice));
    }
    lines
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// `1 pod`, `2 pods`.
fn counted(count: usize, of: &str) -> String {
    format!("{count} {of}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_keeper::problem::Subject;

    fn node() -> Value {
        json!({"name": "n1", "address": "192.168.1.7", "agent": "0.1.0", "engine": "docker://20.10",
            "os": "Debian", "kernel": "6.1", "cpus": 2, "memoryBytes": 1_u64 << 30, "diskBytes": 3_u64 << 30})
    }

    fn pod(namespace: &str, name: &str, more: Value) -> Value {
        let mut pod = json!({
            "metadata": {"namespace": namespace, "name": name, "annotations": {CONFIG_SOURCE: "file"}},
            "spec": {"containers": [{}]},
            "status": {"phase": "Running", "containerStatuses": [{"ready": true, "restartCount": 2}]},
        });
        pod["metadata"].as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        pod
    }

    fn problem(why: &str) -> Problem {
        let subject = Subject::new("pod", "default", "web");
        Problem { why: why.to_owned(), advice: "coracle logs web".to_owned(), ..Problem::new("R", subject, "it fails") }
    }

    fn report_of(pods: &[Value], problems: &[Problem], form: OutputFormat) -> Report {
        report(&node(), &json!({"items": pods}), problems.to_vec(), form)
    }

    #[test]
    fn one_and_many() {
        for (count, expected) in [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")] {
            assert_eq!(counted(count, "pod"), expected);
        }
    }

    #[test]
    fn a_node_that_is_well() {
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let pods = [pod("kube", "dns", json!({})), pod("default", "web", json!({})), pod("default", "old", deleted)];
        let report = report_of(&pods, &[], OutputFormat::Text);
        let expected = [
            "node n1 at 192.168.1.7: agent 0.1.0, docker://20.10",
            "Debian, kernel 6.1, 2 CPUs, 1.0 GiB of memory, 3.0 GiB of disk",
            "3 pods",
            "    default/old (file)  Terminating  1 of 1 ready, 2 restarts",
            "    default/web (file)  Running      1 of 1 ready, 2 restarts",
            "    kube/dns (file)     Running      1 of 1 ready, 2 restarts",
            "all is well",
        ];
        assert_eq!(report.lines, expected);
        assert!(report.well);
    }

    #[test]
    fn a_problem_stands_in_lines_and_only_text_is_cut() {
        let long = format!("exit code 1: {}", "x".repeat(300));
        let pods = [pod("default", "web", json!({}))];
        let text = report_of(&pods, &[problem(&long)], OutputFormat::Text);
        assert!(!text.well);
        let told: Vec<&str> = text.lines.iter().rev().take(4).rev().map(String::as_str).collect();
        assert_eq!(told[..2], ["1 problem", "    pod default/web: it fails"]);
        assert!(told[2].len() == LINE_CHARS_MAX && told[2].ends_with("xxx..."), "{}", told[2]);
        assert_eq!(told[3], "        -> coracle logs web");
        let wide = report_of(&pods, &[problem(&long)], OutputFormat::Wide);
        assert!(wide.lines.iter().any(|line| line.trim() == long), "{:?}", wide.lines);
        let document = &wide.document;
        assert_eq!(document["problems"][0]["why"], long);
        assert_eq!(document["problems"][0]["subject"]["name"], "web");
        assert!(document["pods"][0]["problem"].as_str().unwrap().contains("it fails"));
    }

    #[test]
    fn a_warning_is_told_and_all_is_well() {
        let report = report_of(&[], &[problem("no").warning()], OutputFormat::Text);
        assert!(report.well && report.lines.contains(&"all is well".to_owned()), "{:?}", report.lines);
        assert!(report.lines.contains(&"1 warning".to_owned()), "{:?}", report.lines);
        assert_eq!(report.document["problems"][0]["severity"], "warning");
    }

    #[test]
    fn a_time_is_told_where_it_is_known() {
        let problem = Problem { since: Some("2026-01-01T00:00:00Z".to_owned()), ..problem("no") };
        assert_eq!(of_one(&problem)[0], "    pod default/web: it fails, since 2026-01-01T00:00:00Z");
    }
}

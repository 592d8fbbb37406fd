//! The state of this node in plain words, from the answers of its agent. PURE.

use serde_json::{Value, json};

use super::check::Remark;
use super::report::Report;
use crate::facts::naming::{CONFIG_SOURCE, WAITS_FOR};
use crate::telling::summary;

/// `node`, `pods`: the answers of `/node` and `/pods`. `trouble`: the message of an unhealthy `/healthz`.
pub fn report(node: &Value, trouble: Option<&str>, pods: &Value, remarks: &[Remark]) -> Report {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items: Vec<&Value> = pods["items"].as_array().into_iter().flatten().collect();
    let mut problems: Vec<String> = trouble.map(str::to_owned).into_iter().collect();
    problems.extend(
        node["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| pressure(&text(&one["type"]), &text(&one["message"]))),
    );
    let lists = ["left", "unkept", "refused"].into_iter();
    let sentences = lists.flat_map(|list| node[list].as_array().into_iter().flatten());
    problems.extend(sentences.map(&text));
    let former = node["formerNames"].as_array().into_iter().flatten();
    problems.extend(former.map(|name| former_name(&text(&node["name"]), &text(name))));
    let mut rows = Vec::new();
    for pod in &items {
        let of_file = if pod["metadata"]["annotations"][CONFIG_SOURCE] == "file" { " (file)" } else { "" };
        let name = format!("{}/{}{of_file}", text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
        let status = &pod["status"];
        let containers: Vec<&Value> = status["containerStatuses"].as_array().into_iter().flatten().collect();
        let ready = containers.iter().filter(|one| one["ready"] == true).count();
        let restarts: u64 = containers.iter().filter_map(|one| one["restartCount"].as_u64()).sum();
        let phase = status["phase"].as_str().unwrap_or("Pending");
        let of = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
        let problem = problem(phase, ready, of, status, pod["metadata"]["annotations"][WAITS_FOR].as_str());
        if let Some(why) = &problem {
            problems.push(format!("pod {name}: {why}"));
        }
        rows.push((name, phase.to_owned(), ready, of, restarts, problem));
    }
    problems.extend(remarks.iter().filter(|remark| !remark.warning).map(Remark::line));
    let width = rows.iter().map(|row| row.0.len()).max().unwrap_or_default();
    let gib = |field: &str| format!("{:.1} GiB", node[field].as_u64().unwrap_or_default() as f64 / f64::from(1 << 30));
    let engine =
        Some(text(&node["engine"])).filter(|engine| !engine.is_empty()).unwrap_or_else(|| "no engine yet".to_owned());
    let mut lines = vec![
        format!("node {} at {}: agent {}, {engine}", text(&node["name"]), text(&node["address"]), text(&node["agent"])),
        format!(
            "{}, kernel {}, {} CPUs, {} of memory, {} of disk",
            text(&node["os"]),
            text(&node["kernel"]),
            node["cpus"],
            gib("memoryBytes"),
            gib("diskBytes")
        ),
        counted(rows.len() as u64, "pod"),
    ];
    lines.extend(rows.iter().map(|(name, phase, ready, of, restarts, _)| {
        let again = if *restarts > 0 { format!(", {}", counted(*restarts, "restart")) } else { String::new() };
        format!("    {name:width$}  {phase:9}  {ready} of {of} ready{again}")
    }));
    lines.push(if problems.is_empty() { "all is well".to_owned() } else { counted(problems.len() as u64, "problem") });
    lines.extend(problems.iter().map(|problem| format!("    {problem}")));
    let rows = rows.iter().map(|(name, phase, ready, of, restarts, problem)| {
        json!({"pod": name, "phase": phase, "ready": ready, "containers": of, "restarts": restarts, "problem": problem})
    });
    let document = json!({"node": node, "pods": rows.collect::<Vec<_>>(), "problems": problems});
    Report { lines, document, well: problems.is_empty() }
}

/// The effect on pods, with advice.
fn pressure(kind: &str, message: &str) -> String {
    let advice = match kind {
        "DiskPressure" => {
            "the master's new pods are refused, and some that run may be evicted; \
             docker system df and du -xh / | sort -h | tail show what takes the disk"
        }
        "MemoryPressure" => {
            "the master's new pods that ask for no memory are refused, and some that run may be evicted; \
             ps -eo rss,comm --sort=-rss | head shows who takes it"
        }
        "PIDPressure" => {
            "the master's new pods are refused, and some that run may be evicted; \
             ps -eo nlwp,comm --sort=-nlwp | head shows who has the most threads"
        }
        _ => "the master's new pods may be refused",
    };
    format!("{kind}: {message}: {advice}; it holds for a minute after the host has enough again")
}

/// Of a host whose node had another name before.
pub(super) fn former_name(name: &str, former: &str) -> String {
    format!(
        "this host was node {former} before, and is {name} now: the pods of node {former} end here, and stay in \
         the API until: kubectl delete node {former}; node-name = {former} in agent.conf is the way back"
    )
}

/// `1 pod`, `2 pods`.
fn counted(count: u64, of: &str) -> String {
    format!("{count} {of}{}", if count == 1 { "" } else { "s" })
}

fn problem(phase: &str, ready: usize, of: usize, status: &Value, note: Option<&str>) -> Option<String> {
    let why = summary::trouble(status);
    match phase {
        "Succeeded" => None,
        "Running" if ready >= of => why,
        "Running" => Some(why.unwrap_or_else(|| match of - ready {
            1 => "one of its containers is not ready".to_owned(),
            several => format!("{several} of its containers are not ready"),
        })),
        "Pending" => Some(why.unwrap_or_else(|| note.unwrap_or("it is starting").to_owned())),
        other => Some(format!("{other}: {}", why.unwrap_or_else(|| "its containers ended".to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report_of(trouble: Option<&str>, status: Value, remarks: &[Remark]) -> Report {
        let node = json!({"name": "n1", "address": "192.168.1.7", "agent": "0.1.0", "engine": "docker://20.10",
            "os": "Debian", "kernel": "6.1",
            "cpus": 2, "memoryBytes": 1_u64 << 30, "diskBytes": 3_u64 << 30});
        let pod = json!({
            "metadata": {"namespace": "default", "name": "web", "annotations": {WAITS_FOR: "no secret"}},
            "spec": {"containers": [{}]}, "status": status,
        });
        report(&node, trouble, &json!({"items": [pod]}), remarks)
    }

    #[test]
    fn one_and_many() {
        for (count, expected) in [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")] {
            assert_eq!(counted(count, "pod"), expected);
        }
    }

    #[test]
    fn what_the_host_is_short_of() {
        let message = |kind: &str| format!("kubelet says so of {kind}");
        for (kind, advice) in [
            ("DiskPressure", "docker system df"),
            ("MemoryPressure", "ps -eo rss"),
            ("PIDPressure", "nlwp"),
            ("Other", "new pods may be refused"),
        ] {
            let node = json!({"name": "n1", "conditions": [{"type": kind, "message": message(kind)}]});
            let report = report(&node, None, &json!({"items": []}), &[]);
            assert!(!report.well && report.lines.contains(&"1 problem".to_owned()), "{:?}", report.lines);
            let line = report.lines.last().unwrap();
            assert!(line.contains(&message(kind)) && line.contains(advice), "{line}");
            assert_eq!(report.document["node"]["conditions"][0]["type"], kind);
        }
    }

    #[test]
    fn what_cannot_be_removed() {
        let left = "the volumes of pod d/p: remove /x: /x/in is mounted, and stays: unmount it (umount)";
        let node = json!({"name": "n1", "left": [left], "unkept": ["/d/ended.json: cannot write x: no space"],
            "refused": ["the master refuses to watch x: no"]});
        let report = report(&node, None, &json!({"items": []}), &[]);
        assert!(report.lines.iter().any(|line| line.contains("cannot write x: no space")), "{:?}", report.lines);
        assert!(report.lines.iter().any(|line| line.contains("refuses to watch x")), "{:?}", report.lines);
        assert!(!report.well && report.lines.iter().any(|line| line.contains(left)), "{:?}", report.lines);
    }

    #[test]
    fn a_name_of_before_is_told() {
        let node = json!({"name": "shop-pc", "formerNames": ["vm"]});
        let report = report(&node, None, &json!({"items": []}), &[]);
        let line = report.lines.last().unwrap();
        assert!(
            !report.well && line.contains("was node vm before") && line.contains("kubectl delete node vm"),
            "{line}"
        );
    }

    #[test]
    fn in_plain_words() {
        let runs = || json!({"phase": "Running", "containerStatuses": [{"ready": true, "restartCount": 2}]});
        let well = report_of(None, runs(), &[]);
        let expected = [
            "node n1 at 192.168.1.7: agent 0.1.0, docker://20.10",
            "Debian, kernel 6.1, 2 CPUs, 1.0 GiB of memory, 3.0 GiB of disk",
            "1 pod",
            "    default/web  Running    1 of 1 ready, 2 restarts",
            "all is well",
        ];
        assert_eq!((well.lines.iter().map(String::as_str).collect::<Vec<_>>(), well.well), (expected.to_vec(), true));
        let check = |report: Report, problem: &str| {
            assert!(!report.well && report.lines.last().unwrap().contains(problem), "{:?}", report.lines);
            assert!(report.document["problems"][0].as_str().unwrap().contains(problem), "{}", report.document);
        };
        check(report_of(Some("the engine does not answer"), runs(), &[]), "the engine does not answer");
        let waits = json!({
            "phase": "Pending",
            "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}],
        });
        check(report_of(None, waits, &[]), "pod default/web: not found");
        check(report_of(None, json!({"phase": "Pending"}), &[]), "pod default/web: no secret");
        check(report_of(None, json!({"phase": "Running", "containerStatuses": [{"ready": false}]}), &[]), "not ready");
        check(report_of(None, json!({"phase": "Failed", "reason": "Evicted"}), &[]), "Failed: Evicted");
        let remark = |warning| [Remark { path: "a.yaml".to_owned(), warning, text: "line 1".to_owned() }];
        check(report_of(None, runs(), &remark(false)), "a.yaml: line 1");
        assert!(report_of(None, runs(), &remark(true)).well);
    }
}

//! The status of both programs of this host in one list. PURE.

use coracle_keeper::problem::{Problem, Severity, Subject, sort};
use coracle_program::command_line::OutputFormat;
use serde_json::{Value, json};

use super::report::Report;
use super::rows::{self, rows};
use super::status;

/// What an agent answers.
pub struct OfAgent {
    pub node: Value,
    pub pods: Value,
    pub problems: Result<Value, String>,
}

/// What a master answers.
pub struct OfMaster {
    pub nodes: Value,
    pub pods: Result<Value, String>,
    /// None: an older master, which does not know.
    pub problems: Result<Option<Value>, String>,
}

/// What was found of both programs. The error says why one does not answer.
pub struct Seen {
    pub node_name: String,
    pub agent: Result<OfAgent, String>,
    pub master: Result<OfMaster, String>,
    /// Its unit is enabled, or its socket is there.
    pub agent_expected: bool,
    pub master_expected: bool,
}

impl Seen {
    pub fn answers(&self) -> bool {
        self.agent.is_ok() || self.master.is_ok()
    }

    /// Why nothing is known.
    pub fn silence(&self) -> String {
        let of = |program: &str, expected: bool, why: Option<&String>| {
            why.filter(|_| expected).map(|why| format!("{program} does not answer: {why}"))
        };
        let agent = of("coracle-agent", self.agent_expected, self.agent.as_ref().err());
        let master = of("coracle-master", self.master_expected, self.master.as_ref().err());
        match agent.into_iter().chain(master).collect::<Vec<_>>() {
            lines if lines.is_empty() => {
                "neither coracle-agent nor coracle-master runs on this host, or you are not root \
                                          (systemctl status coracle-agent coracle-master)"
                    .to_owned()
            }
            lines => lines.join("\n"),
        }
    }
}

pub fn report(seen: &Seen, form: OutputFormat) -> Report {
    let problems = problems(seen);
    let agent = seen.agent.as_ref().ok();
    let master = seen.master.as_ref().ok();
    let of_master = master.and_then(|master| master.pods.as_ref().ok());
    let rows = rows(&seen.node_name, agent.map(|agent| &agent.pods), of_master);
    let mut lines: Vec<String> = agent.map(|agent| node_line(&agent.node)).into_iter().collect();
    lines.extend(master.map(|master| master_line(&master.nodes)));
    lines.push(counted(rows.len(), "pod"));
    lines.extend(rows::lines(&rows, form == OutputFormat::Wide).iter().map(|line| format!("    {line}")));
    let (warnings, bad): (Vec<&Problem>, Vec<&Problem>) = problems.iter().partition(|problem| problem.is_warning());
    lines.extend(status::told(&bad, &warnings));
    let lines = status::as_asked(lines, form);
    let document = json!({
        "agent": agent.map(|agent| &agent.node), "master": master.map(|master| json!({"nodes": names(&master.nodes)})),
        "pods": rows::document(&rows), "problems": problems,
    });
    Report { lines, document, well: bad.is_empty() }
}

/// Of both programs, each once.
fn problems(seen: &Seen) -> Vec<Problem> {
    let mut all = Vec::new();
    match &seen.agent {
        Ok(agent) => all.extend(of_agent(agent)),
        Err(why) if seen.agent_expected => all.push(silent("agent", "coracle-agent", why)),
        Err(_) => {}
    }
    // The agent is asked first: it is nearer to the pods of its host.
    let known: Vec<(Subject, String)> =
        all.iter().map(|problem| (problem.subject.clone(), problem.reason.clone())).collect();
    let is_new = |problem: &Problem| !known.iter().any(|(subject, reason)| problem.key() == (subject, reason.as_str()));
    match &seen.master {
        Ok(master) => all.extend(of_master(master).into_iter().filter(is_new)),
        Err(why) if seen.master_expected => all.push(silent("master", "coracle-master", why)),
        Err(_) => {}
    }
    sort(&mut all);
    all
}

fn silent(kind: &str, program: &str, why: &str) -> Problem {
    Problem {
        severity: Severity::Problem,
        reason: "Silent".to_owned(),
        subject: Subject::new(kind, "", program),
        what: "it does not answer".to_owned(),
        why: why.to_owned(),
        advice: format!("systemctl status {program}"),
        since: None,
    }
}

fn unclear(kind: &str, name: &str, what: &str, why: &str, advice: &str) -> Problem {
    Problem {
        severity: Severity::Problem,
        reason: "Unclear".to_owned(),
        subject: Subject::new(kind, "", name),
        what: what.to_owned(),
        why: why.to_owned(),
        advice: advice.to_owned(),
        since: None,
    }
}

/// The problems of an answer. What cannot be read is one itself.
fn read(kind: &str, program: &str, answer: &Value) -> Vec<Problem> {
    let list = answer["problems"].as_array().into_iter().flatten();
    let read = |one: &Value| {
        serde_json::from_value(one.clone())
            .unwrap_or_else(|error| unclear(kind, program, &one.to_string(), &error.to_string(), ""))
    };
    list.map(read).collect()
}

fn of_agent(agent: &OfAgent) -> Vec<Problem> {
    let advice = "coracle-agent status";
    match &agent.problems {
        Ok(answer) => read("agent", "coracle-agent", answer),
        Err(why) => vec![unclear("agent", "coracle-agent", "it does not tell its problems", why, advice)],
    }
}

fn of_master(master: &OfMaster) -> Vec<Problem> {
    let advice = "coracle-master status";
    let mut all = match &master.problems {
        Ok(Some(answer)) => read("master", "coracle-master", answer),
        Ok(None) => vec![Problem {
            severity: Severity::Warning,
            ..unclear(
                "master",
                "coracle-master",
                "it is an older one, and its problems are not in this list",
                "",
                advice,
            )
        }],
        Err(why) => vec![unclear("master", "coracle-master", "it does not tell its problems", why, advice)],
    };
    if let Err(why) = &master.pods {
        all.push(Problem {
            reason: "NoPods".to_owned(),
            ..unclear("master", "coracle-master", "it does not show its pods", why, advice)
        });
    }
    all
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn node_line(node: &Value) -> String {
    let engine = Some(text(&node["engine"])).filter(|engine| !engine.is_empty()).unwrap_or("no engine yet");
    format!("node {} at {}: agent {}, {engine}", text(&node["name"]), text(&node["address"]), text(&node["agent"]))
}

fn names(nodes: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        nodes["items"].as_array().into_iter().flatten().map(|node| text(&node["metadata"]["name"])).collect();
    names.sort_unstable();
    names
}

fn master_line(nodes: &Value) -> String {
    match names(nodes).as_slice() {
        [] => "master: it answers, and has no node yet".to_owned(),
        [one] => format!("master: it answers, with node {one}"),
        several => format!("master: it answers, with the nodes {}", several.join(", ")),
    }
}

/// `1 pod`, `2 pods`.
fn counted(count: usize, of: &str) -> String {
    format!("{count} {of}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: &str, name: &str, what: &str) -> Value {
        json!({"severity": "problem", "reason": "R", "subject": {"kind": kind, "name": name}, "what": what})
    }

    fn agent(problems: Value) -> OfAgent {
        let node = json!({"name": "n1", "address": "10.0.0.1", "agent": "0.1.0", "engine": "docker://20.10"});
        OfAgent { node, pods: json!({"items": []}), problems: Ok(problems) }
    }

    fn master(problems: Option<Value>) -> OfMaster {
        let nodes = json!({"items": [{"metadata": {"name": "n1"}}]});
        OfMaster { nodes, pods: Ok(json!({"items": []})), problems: Ok(problems) }
    }

    fn seen(agent: Result<OfAgent, String>, master: Result<OfMaster, String>) -> Seen {
        Seen { node_name: "n1".to_owned(), agent, master, agent_expected: true, master_expected: true }
    }

    /// `lines`: those of the problems and warnings, without their indent.
    fn check(seen: &Seen, well: bool, count: usize, lines: &[&str]) {
        let report = report(seen, OutputFormat::Text);
        let at = report.lines.iter().position(|line| line == "all is well" || line.contains(" problem")).unwrap();
        let told: Vec<&str> = report.lines[at + 1..].iter().map(|line| line.trim()).collect();
        assert_eq!((told.as_slice(), report.well), (lines, well), "{:?}", report.lines);
        assert_eq!(report.document["problems"].as_array().unwrap().len(), count);
    }

    #[test]
    fn one_list_of_both() {
        let none = || json!({"problems": []});
        check(&seen(Ok(agent(none())), Ok(master(Some(none())))), true, 0, &[]);
        // A problem that both know stands there once, in the agent's words.
        let of_agent = json!({"problems": [problem("pod", "web", "near")]});
        let of_master = Some(json!({"problems": [problem("pod", "web", "far"), problem("node", "n2", "silent")]}));
        let both = seen(Ok(agent(of_agent)), Ok(master(of_master)));
        check(&both, false, 2, &["node n2: silent", "pod web: near"]);
        // A master of before.
        let lines = [
            "1 warning",
            "master coracle-master: it is an older one, and its problems are not in this list",
            "-> coracle-master status",
        ];
        check(&seen(Ok(agent(none())), Ok(master(None))), true, 1, &lines);
        let odd = json!({"problems": [{"what": 1}]});
        assert!(
            !report(&seen(Ok(agent(odd)), Ok(master(Some(none())))), OutputFormat::Text).well,
            "unknown is not absent"
        );
    }

    #[test]
    fn a_program_that_should_be_there() {
        let none = || json!({"problems": []});
        let lines = ["master coracle-master: it does not answer", "no such file", "-> systemctl status coracle-master"];
        let silent = || Err("no such file".to_owned());
        check(&seen(Ok(agent(none())), silent()), false, 1, &lines);
        let alone = Seen { master_expected: false, ..seen(Ok(agent(none())), silent()) };
        check(&alone, true, 0, &[]);
        assert!(alone.answers() && report(&alone, OutputFormat::Text).document["master"].is_null());
        let nobody = Seen { agent_expected: false, ..seen(silent_agent(), silent()) };
        assert!(!nobody.answers());
        assert_eq!(nobody.silence(), "coracle-master does not answer: no such file");
        let neither = Seen { agent_expected: false, master_expected: false, ..seen(silent_agent(), silent()) };
        assert!(neither.silence().starts_with("neither coracle-agent nor coracle-master runs"));
    }

    fn silent_agent() -> Result<OfAgent, String> {
        Err("no such file".to_owned())
    }
}

//! One line on the state of the agent for `systemctl status`: "3 pods run, 1 problem: pod default/web: ...". PURE.

use coracle_keeper::problem::{Problem, cut};
use serde_json::Value;

use crate::facts::shown::Shown;

/// Problems in the line: they must fit a terminal.
const PROBLEMS_MAX: usize = 3;
/// Characters of one problem. `coracle-agent status` has the whole text.
const PROBLEM_CHARS_MAX: usize = 160;

/// `problems`: all problems and warnings of this node.
pub fn line(shown: &Shown, problems: &[Problem]) -> String {
    let (mut run, mut ended) = (0, 0);
    for uid in shown.desired.pods.keys() {
        let status = shown.statuses.get(uid).unwrap_or(&Value::Null);
        match status["phase"].as_str() {
            Some("Succeeded") => ended += 1,
            Some("Running") => run += 1,
            _ => {}
        }
    }
    let mut parts = Vec::new();
    if shown.looked {
        parts.push(if run == 1 { "1 pod runs".to_owned() } else { format!("{run} pods run") });
    }
    if ended > 0 {
        parts.push(format!("{ended} ended"));
    }
    let counted = |count: usize, of: &str| format!("{count} {of}{}", if count == 1 { "" } else { "s" });
    let (warnings, bad): (Vec<&Problem>, Vec<&Problem>) = problems.iter().partition(|problem| problem.is_warning());
    if !bad.is_empty() {
        let told = bad.iter().take(PROBLEMS_MAX).map(|problem| cut(&problem.line(), PROBLEM_CHARS_MAX));
        let more = if bad.len() > PROBLEMS_MAX { "; ..." } else { "" };
        parts.push(format!("{}: {}{more}", counted(bad.len(), "problem"), told.collect::<Vec<_>>().join("; ")));
    }
    if !warnings.is_empty() {
        parts.push(counted(warnings.len(), "warning"));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::desired::Desired;
    use crate::facts::naming::Source;
    use crate::facts::wanted::Wanted;
    use coracle_keeper::problem::Subject;
    use serde_json::json;
    use std::sync::Arc;

    fn check(phases: &[&str], problems: &[Problem], expected: &str) {
        let mut shown = Shown { looked: true, ..Shown::default() };
        let mut desired = Desired::default();
        for (number, phase) in phases.iter().enumerate() {
            let uid = format!("u{number}");
            let document = json!({"metadata": {"namespace": "default", "name": uid, "uid": uid}});
            desired.pods.insert(uid.clone(), Arc::new(Wanted::new(Source::File, document).unwrap()));
            shown.statuses.insert(uid, json!({"phase": phase}));
        }
        shown.desired = Arc::new(desired);
        assert_eq!(line(&shown, problems), expected);
    }

    fn problem(name: &str, why: &str) -> Problem {
        Problem { why: why.to_owned(), ..Problem::new("R", Subject::new("pod", "default", name), "it waits") }
    }

    #[test]
    fn in_words() {
        check(&[], &[], "0 pods run");
        check(&["Running"], &[], "1 pod runs");
        check(&["Running", "Running", "Succeeded", "Pending"], &[], "2 pods run, 1 ended");
        check(
            &["Running"],
            &[problem("web", "no image"), problem("db", "").warning()],
            "1 pod runs, 1 problem: pod default/web: it waits: no image, 1 warning",
        );
        let file = Problem::new("FileRefused", Subject::new("file", "", "/m/a.yaml"), "it is not used");
        check(&["Running"], &[file], "1 pod runs, 1 problem: file /m/a.yaml: it is not used");
        let many: Vec<Problem> = (0..4).map(|number| problem(&number.to_string(), "")).collect();
        let told = "pod default/0: it waits; pod default/1: it waits; pod default/2: it waits";
        check(&[], &many, &format!("0 pods run, 4 problems: {told}; ..."));
        let (long, start) = ("x".repeat(500), "pod default/web: it waits: ");
        let cut = "x".repeat(PROBLEM_CHARS_MAX - 3 - start.len());
        check(&[], &[problem("web", &long)], &format!("0 pods run, 1 problem: {start}{cut}..."));
    }
}

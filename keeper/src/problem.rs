//! One problem: what was asked for and is not there, since when, why, and what to do. `status` of both programs, the
//! line of `systemctl status`, the metrics and `notify` show problems and nothing else. PURE.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Whether a problem turns the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something that was asked for is not there.
    Problem,
    /// All that was asked for is there, and something comes near its end, such as a certificate.
    Warning,
}

impl Severity {
    /// As JSON and the metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Problem => "problem",
            Severity::Warning => "warning",
        }
    }
}

/// The thing that has the problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// A kind in lower case, such as `pod` or `deployment`; or `file`, `host`, `engine`, `master`, `agent`, `store`.
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub severity: Severity,
    /// A stable word for programs, such as `ContainerFailed` or `ReplicasMissing`.
    pub reason: String,
    pub subject: Subject,
    /// What is missing: "0 of 1 replicas are available".
    pub what: String,
    /// The cause, whole and as far as it is known: "the image nodered:4 is not at docker.io: ...".
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub why: String,
    /// What to do, mostly a command: "coracle logs -p default/web".
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub advice: String,
    /// RFC 3339. None: it is not known since when.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub since: Option<String>,
}

impl Subject {
    pub fn new(kind: &str, namespace: &str, name: &str) -> Subject {
        Subject { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// `pod default/web`, `node n1`, `file /etc/coracle/manifests/a.yaml`.
    pub fn words(&self) -> String {
        match self.namespace.as_str() {
            "" if self.name.is_empty() => self.kind.clone(),
            "" => format!("{} {}", self.kind, self.name),
            namespace => format!("{} {namespace}/{}", self.kind, self.name),
        }
    }
}

impl Problem {
    /// A problem; why it is there, what to do and since when are set by whoever knows.
    pub fn new(reason: &str, subject: Subject, what: impl Into<String>) -> Problem {
        let (why, advice) = (String::new(), String::new());
        let (severity, reason, what) = (Severity::Problem, reason.to_owned(), what.into());
        Problem { severity, reason, subject, what, why, advice, since: None }
    }

    pub fn warning(self) -> Problem {
        Problem { severity: Severity::Warning, ..self }
    }

    pub fn is_warning(&self) -> bool {
        self.severity == Severity::Warning
    }

    /// Two looks at one problem have one key: `notify` and the metrics count by it.
    pub fn key(&self) -> (&Subject, &str) {
        (&self.subject, &self.reason)
    }

    /// One line, whole: "pod default/web: container web fails again and again: exit code 1 (...): coracle logs -p web".
    pub fn line(&self) -> String {
        let parts = [self.what.as_str(), &self.why, &self.advice];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!("{}: {}", self.subject.words(), parts.join(": "))
    }
}

/// A text of at most so many characters; a text that is cut says so by "...".
pub fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some(_) => {
            let kept: String = text.chars().take(chars_max.saturating_sub(3)).collect();
            format!("{}...", kept.trim_end())
        }
    }
}

/// How many problems there are of each severity and reason, for metrics.
pub fn counts(problems: &[Problem]) -> BTreeMap<(Severity, &str), usize> {
    let mut counts = BTreeMap::new();
    for problem in problems {
        *counts.entry((problem.severity, problem.reason.as_str())).or_default() += 1;
    }
    counts
}

/// Problems before warnings, then by kind and name, so that two looks list alike.
pub fn sort(problems: &mut [Problem]) {
    problems.sort_by(|a, b| (a.severity, &a.subject, &a.reason).cmp(&(b.severity, &b.subject, &b.reason)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(severity: Severity, kind: &str, name: &str) -> Problem {
        Problem {
            severity,
            reason: "R".to_owned(),
            subject: Subject::new(kind, if kind == "node" { "" } else { "d" }, name),
            what: "what".to_owned(),
            why: String::new(),
            advice: "do".to_owned(),
            since: None,
        }
    }

    #[test]
    fn a_line_leaves_out_the_unknown() {
        assert_eq!(problem(Severity::Problem, "pod", "web").line(), "pod d/web: what: do");
        assert_eq!(problem(Severity::Problem, "node", "n1").line(), "node n1: what: do");
    }

    #[test]
    fn a_text_that_is_cut_says_so() {
        let check = |text: &str, chars_max: usize, expected: &str| assert_eq!(cut(text, chars_max), expected);
        check("dial tcp: lookup", 16, "dial tcp: lookup");
        check("dial tcp: lookup", 13, "dial tcp:...");
        check("äöüäöüäöü", 6, "äöü...");
        check("", 6, "");
    }

    #[test]
    fn problems_are_counted_by_severity_and_reason() {
        let all = [problem(Severity::Problem, "pod", "a"), problem(Severity::Problem, "pod", "b")];
        let all: Vec<Problem> = all.into_iter().chain([problem(Severity::Warning, "pod", "c")]).collect();
        let counts: Vec<_> =
            counts(&all).into_iter().map(|((severity, reason), n)| (severity.name(), reason, n)).collect();
        assert_eq!(counts, [("problem", "R", 2), ("warning", "R", 1)]);
        let text = serde_json::to_value(&all[2]).unwrap();
        assert_eq!(text["severity"], "warning");
    }

    #[test]
    fn problems_come_before_warnings() {
        let mut all = [
            problem(Severity::Warning, "node", "a"),
            problem(Severity::Problem, "pod", "b"),
            problem(Severity::Problem, "node", "c"),
        ];
        sort(&mut all);
        let names: Vec<&str> = all.iter().map(|problem| problem.subject.name.as_str()).collect();
        assert_eq!(names, ["c", "b", "a"]);
    }
}

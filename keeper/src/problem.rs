//! One problem: what was asked for and is not there, since when, why, and what to do. `status` of both programs, the line of
//! `systemctl status`, the metrics and `notify` show problems and nothing else. PURE.

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
            "" => format!("{} {}", self.kind, self.name),
            namespace => format!("{} {namespace}/{}", self.kind, self.name),
        }
    }
}

impl Problem {
    /// Two looks at one problem have one key: `notify` and the metrics count by it.
    pub fn key(&self) -> (&Subject, &str) {
        (&self.subject, &self.reason)
    }

    /// One line, whole: "pod default/web: its container web fails again and again: exit code 1 (...): coracle logs -p ...".
    pub fn line(&self) -> String {
        let parts = [self.what.as_str(), &self.why, &self.advice];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!("{}: {}", self.subject.words(), parts.join(": "))
    }
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

//! The problems of the manifest directory and of its files. PURE.

use std::path::Path;

use coracle_keeper::problem::{Problem, Subject};

use crate::facts::source_state::FileProblem;

/// Of the directory as a whole. `trouble`: why it cannot be read. `too_many`: the number of files that are read, where
/// there are more. `page_unknown`: the page of another host was never fetched.
pub(super) fn of_directory(
    path: &Path,
    trouble: Option<&str>,
    too_many: Option<usize>,
    page_unknown: bool,
) -> Vec<Problem> {
    let problem = |reason: &str, what: &str, why: String| Problem { why, ..Problem::new(reason, file(path), what) };
    let mut problems = Vec::new();
    match (trouble, too_many) {
        (Some(why), _) => {
            problems.push(problem("DirectoryUnreadable", "the manifest directory cannot be read", why.to_owned()));
        }
        (None, Some(limit)) => {
            let why = format!("there are more than {limit}");
            problems.push(problem("DirectoryTooLarge", "not all of its files are read", why));
        }
        (None, None) => {}
    }
    if page_unknown {
        let why = "the page was never fetched: journalctl -u coracle-agent says why".to_owned();
        problems.push(problem("PageUnread", "nothing is known of the pods of manifest-url", why));
    }
    problems
}

/// A file, or an object of a file, that is not taken as it stands there. `since`: the time of the file on the disk.
pub(super) fn of_file(found: &FileProblem, since: Option<String>) -> Problem {
    let path = Path::new(&found.path);
    let why = found.fault.words();
    if found.warning {
        let problem = Problem::new("FileWarning", file(path), "it is used, but not as it stands there").warning();
        return Problem { why, since, ..problem };
    }
    let part = if found.fault.object.is_some() { "an object of it" } else { "it" };
    Problem {
        why,
        advice: format!("mend it; coracle check {} says when it is good", found.path),
        since,
        ..Problem::new("FileRefused", file(path), format!("{part} is not used, {}", goes_on(found.goes_on)))
    }
}

/// Two files ask for one thing.
pub(super) fn double(path: &Path, why: String) -> Problem {
    Problem { why, ..Problem::new("FileDouble", file(path), "a part of it is not used") }
}

fn goes_on(good: bool) -> &'static str {
    if good { "its last good version goes on" } else { "nothing is started from it" }
}

fn file(path: &Path) -> Subject {
    Subject::new("file", "", &path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::source_state::Fault;

    #[test]
    fn a_directory_says_what_of_it_is_unknown() {
        let check = |trouble, too_many, page_unknown, expected: &[&str]| {
            let found = of_directory(Path::new("/m"), trouble, too_many, page_unknown);
            let found: Vec<&str> = found.iter().map(|problem| problem.reason.as_str()).collect();
            assert_eq!(found, expected);
        };
        check(None, None, false, &[]);
        check(Some("no such directory"), Some(1000), false, &["DirectoryUnreadable"]);
        check(None, Some(1000), true, &["DirectoryTooLarge", "PageUnread"]);
    }

    #[test]
    fn a_broken_file_says_what_runs_of_it() {
        let found = |object: Option<&str>, goes_on, warning| FileProblem {
            path: "/m/web.yaml".to_owned(),
            fault: Fault { line: None, object: object.map(str::to_owned), text: "line 3: no".to_owned() },
            goes_on,
            warning,
        };
        let line = |object, goes_on, warning| of_file(&found(object, goes_on, warning), None).line();
        let advice = "mend it; coracle check /m/web.yaml says when it is good";
        assert_eq!(
            line(None, true, false),
            format!("file /m/web.yaml: it is not used, its last good version goes on: line 3: no: {advice}")
        );
        assert_eq!(
            line(Some("Pod default/web"), false, false),
            format!(
                "file /m/web.yaml: an object of it is not used, nothing is started from it: \
                 Pod default/web: line 3: no: {advice}"
            )
        );
        assert_eq!(line(None, false, true), "file /m/web.yaml: it is used, but not as it stands there: line 3: no");
        assert!(of_file(&found(None, false, true), None).is_warning());
        let problem = of_file(&found(None, true, false), Some("1970-01-01T00:00:00Z".to_owned()));
        assert_eq!(problem.since.as_deref(), Some("1970-01-01T00:00:00Z"));
    }
}

//! The problems of the manifest directory and of its files. PURE.

use std::path::Path;
use std::time::SystemTime;

use coracle_api::meta::Time;
use coracle_keeper::problem::{Problem, Subject};

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

/// `good`: the file has a last good version. `modified`: the time of the file on the disk.
pub(super) fn refused(path: &Path, why: &str, good: bool, modified: Option<SystemTime>) -> Problem {
    let since = modified.and_then(|at| jiff::Timestamp::try_from(at).ok());
    Problem {
        why: why.to_owned(),
        advice: format!("mend it; coracle check {} says when it is good", path.display()),
        since: since.map(|at| Time(at).to_string()),
        ..Problem::new("FileRefused", file(path), format!("it is not used, {}", goes_on(good)))
    }
}

/// Two files ask for one thing.
pub(super) fn double(path: &Path, why: String) -> Problem {
    Problem { why, ..Problem::new("FileDouble", file(path), "a part of it is not used") }
}

pub(super) fn goes_on(good: bool) -> &'static str {
    if good { "its last good version goes on" } else { "nothing is started from it" }
}

fn file(path: &Path) -> Subject {
    Subject::new("file", "", &path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let line = |good| refused(Path::new("/m/web.yaml"), "line 3: no", good, None).line();
        let advice = "line 3: no: mend it; coracle check /m/web.yaml says when it is good";
        assert_eq!(line(true), format!("file /m/web.yaml: it is not used, its last good version goes on: {advice}"));
        assert_eq!(line(false), format!("file /m/web.yaml: it is not used, nothing is started from it: {advice}"));
        let problem = refused(Path::new("/m/web.yaml"), "no", true, Some(std::time::UNIX_EPOCH));
        assert_eq!(problem.since.as_deref(), Some("1970-01-01T00:00:00Z"));
    }
}

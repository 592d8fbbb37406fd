//! When somebody is told of problems: a pure state machine between the looks of a program and its `notify`. PURE.
//!
//!     problems of a look, now -> Step: a notice that is due, or the time of the next step
//!
//! A problem has to last before it is told, and has to be gone for as long before its end is told: a restart of a
//! container tells nobody. A notice that could not be delivered is made again from the problems of then, and waits
//! longer each time.

use crate::problem::{Problem, Severity};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A problem lasts, or is gone, for so long before it is told.
pub const SETTLE: Duration = Duration::from_secs(60);
/// Between two notices.
pub const BETWEEN: Duration = Duration::from_secs(60);
/// The wait after a notice that could not be delivered; doubled each time.
const AGAIN: Duration = Duration::from_secs(60);
const AGAIN_MAX: Duration = Duration::from_secs(3600);
/// Problems in one notice; the number of all stands beside them.
const PROBLEMS_MAX: usize = 100;

/// A problem's identity: kind, namespace and name of its subject, and its reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProblemKey(String);

impl ProblemKey {
    pub fn of(problem: &Problem) -> ProblemKey {
        let (subject, reason) = problem.key();
        ProblemKey(format!("{}: {reason}", subject.words()))
    }
}

/// The problems that were told, which a program keeps over its restarts, and those that settle.
#[derive(Debug, Default)]
pub struct Notices {
    told: BTreeSet<ProblemKey>,
    /// Seen and not told, or told and not seen; since when.
    settling: BTreeMap<ProblemKey, Duration>,
    not_before: Option<Duration>,
    failures: u32,
}

/// What is to be done now.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// Everybody knows.
    Nothing,
    /// Nothing before this time, unless the problems change.
    At(Duration),
    /// Tell this, and say how it went: `delivered` or `failed`.
    Tell(Notice),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    pub well: bool,
    /// Told for the first time.
    pub new: BTreeSet<ProblemKey>,
    pub gone: BTreeSet<ProblemKey>,
}

impl Notices {
    /// `told`: as `told` gave it to be kept.
    pub fn new(told: BTreeSet<ProblemKey>) -> Notices {
        Notices { told, ..Notices::default() }
    }

    pub fn told(&self) -> &BTreeSet<ProblemKey> {
        &self.told
    }

    /// `now`: of a clock that only goes forward.
    pub fn step(&mut self, problems: &[Problem], now: Duration) -> Step {
        let seen = problems.iter().filter(|problem| problem.severity == Severity::Problem);
        let seen: BTreeSet<ProblemKey> = seen.map(ProblemKey::of).collect();
        let differs: BTreeSet<ProblemKey> = seen.symmetric_difference(&self.told).cloned().collect();
        self.settling.retain(|key, _| differs.contains(key));
        for key in &differs {
            self.settling.entry(key.clone()).or_insert(now);
        }
        let Some(first) = self.settling.values().min() else { return Step::Nothing };
        let due = (*first + SETTLE).max(self.not_before.unwrap_or_default());
        if now < due {
            return Step::At(due);
        }
        let settled = |key: &&ProblemKey| self.settling.get(*key).is_some_and(|since| now >= *since + SETTLE);
        let new: BTreeSet<ProblemKey> = differs.intersection(&seen).filter(settled).cloned().collect();
        let gone: BTreeSet<ProblemKey> = differs.intersection(&self.told).filter(settled).cloned().collect();
        let well = self.told.difference(&gone).next().is_none() && new.is_empty();
        Step::Tell(Notice { well, new, gone })
    }

    /// Somebody has been told.
    pub fn delivered(&mut self, notice: &Notice, now: Duration) {
        self.told.extend(notice.new.iter().cloned());
        self.told.retain(|key| !notice.gone.contains(key));
        self.settling.retain(|key, _| !notice.new.contains(key) && !notice.gone.contains(key));
        self.failures = 0;
        self.not_before = Some(now + BETWEEN);
    }

    /// Nobody could be told.
    pub fn failed(&mut self, now: Duration) {
        let wait = AGAIN.saturating_mul(1 << self.failures.min(10)).min(AGAIN_MAX);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + wait);
    }
}

impl Notice {
    /// The document that a command or a server gets. `from`: the program, such as coracle-agent. `at`: RFC 3339.
    pub fn document(&self, problems: &[Problem], (host, from, at): (&str, &str, &str)) -> Value {
        let all = || problems.iter().filter(|problem| problem.severity == Severity::Problem);
        let shown: Vec<Value> = all()
            .take(PROBLEMS_MAX)
            .map(|problem| {
                let mut document = serde_json::to_value(problem).unwrap_or_default();
                document["text"] = json!(problem.line());
                document["new"] = json!(self.new.contains(&ProblemKey::of(problem)));
                document
            })
            .collect();
        json!({
            "version": 1,
            "state": if self.well { "well" } else { "problem" },
            "host": host,
            "from": from,
            "at": at,
            "count": all().count(),
            "problems": shown,
            "gone": self.gone.iter().take(PROBLEMS_MAX).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Subject;

    fn problems(names: &[&str]) -> Vec<Problem> {
        let problem = |name: &&str| Problem {
            severity: if name.starts_with("warn") { Severity::Warning } else { Severity::Problem },
            reason: "R".to_owned(),
            subject: Subject::new("pod", "d", name),
            what: "what".to_owned(),
            why: String::new(),
            advice: String::new(),
            since: None,
        };
        names.iter().map(problem).collect()
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn told(step: Step) -> Notice {
        match step {
            Step::Tell(notice) => notice,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_problem_that_lasts_is_told_once_and_so_is_its_end() {
        let mut notices = Notices::default();
        let bad = problems(&["web"]);
        assert_eq!(notices.step(&[], at(0)), Step::Nothing);
        assert_eq!(notices.step(&bad, at(10)), Step::At(at(70)));
        let notice = told(notices.step(&bad, at(70)));
        assert!(!notice.well && notice.new.len() == 1 && notice.gone.is_empty(), "{notice:?}");
        notices.delivered(&notice, at(71));
        assert_eq!(notices.step(&bad, at(500)), Step::Nothing);
        assert_eq!(notices.step(&[], at(510)), Step::At(at(570)));
        let notice = told(notices.step(&[], at(570)));
        assert!(notice.well && notice.gone.len() == 1, "{notice:?}");
        notices.delivered(&notice, at(570));
        assert_eq!(notices.step(&[], at(600)), Step::Nothing);
    }

    #[test]
    fn a_problem_that_passes_and_a_warning_are_not_told() {
        let mut notices = Notices::default();
        assert_eq!(notices.step(&problems(&["web", "warn"]), at(0)), Step::At(at(60)));
        assert_eq!(notices.step(&problems(&["warn"]), at(50)), Step::Nothing);
        assert_eq!(notices.step(&problems(&["web"]), at(55)), Step::At(at(115)));
    }

    #[test]
    fn a_second_problem_waits_its_own_time() {
        let mut notices = Notices::default();
        notices.step(&problems(&["a"]), at(0));
        notices.step(&problems(&["a", "b"]), at(59));
        let notice = told(notices.step(&problems(&["a", "b"]), at(60)));
        assert_eq!(notice.new.len(), 1);
        notices.delivered(&notice, at(61));
        assert_eq!(notices.step(&problems(&["a", "b"]), at(62)), Step::At(at(121)));
        let notice = told(notices.step(&problems(&["b"]), at(200)));
        assert!(!notice.well && notice.new.len() == 1, "the end of a has to settle: {notice:?}");
    }

    #[test]
    fn a_failed_notice_comes_again_later_each_time() {
        let mut notices = Notices::default();
        let bad = problems(&["web"]);
        notices.step(&bad, at(0));
        told(notices.step(&bad, at(60)));
        notices.failed(at(60));
        assert_eq!(notices.step(&bad, at(61)), Step::At(at(120)));
        told(notices.step(&bad, at(120)));
        notices.failed(at(120));
        assert_eq!(notices.step(&bad, at(121)), Step::At(at(240)));
        (0..20).for_each(|_| notices.failed(at(1000)));
        assert_eq!(notices.step(&bad, at(1001)), Step::At(at(4600)), "an hour at most");
    }

    #[test]
    fn a_restart_tells_nothing_again() {
        let bad = problems(&["web"]);
        let keys: BTreeSet<ProblemKey> = bad.iter().map(ProblemKey::of).collect();
        let kept = serde_json::to_string(&keys).unwrap();
        let mut notices = Notices::new(serde_json::from_str(&kept).unwrap());
        assert_eq!(notices.step(&bad, at(0)), Step::Nothing);
    }

    #[test]
    fn the_document_has_all_in_words() {
        let bad = problems(&["web", "warn"]);
        let mut notices = Notices::default();
        notices.step(&bad, at(0));
        let notice = told(notices.step(&bad, at(60)));
        let document = notice.document(&bad, ("shop", "coracle-agent", "2026-01-01T00:00:00Z"));
        assert_eq!(document["state"], "problem");
        assert_eq!((&document["count"], &document["problems"][0]["text"]), (&json!(1), &json!("pod d/web: what")));
        assert_eq!(document["problems"][0]["new"], true);
    }
}

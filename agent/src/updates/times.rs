//! Updates by annotation: which pods are due, when the next one is, and what is wrong with an annotation. PURE.

use std::collections::BTreeMap;

use coracle_keeper::problem::{Problem, Severity, Subject};
use coracle_keeper::update_times::{self, UPDATE, UpdateTimes};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::record::{Record, Records, Stage};
use crate::facts::desired::Desired;
use crate::facts::naming::Source;
use crate::facts::wanted::Wanted;

/// A time that is over for longer was missed: the pods before took too long, or the clock was put on. It waits for the
/// next.
const LATE_SECONDS: i64 = 3600;

/// The annotations of all pods, read once for each change of what is wanted.
#[derive(Default)]
pub struct Times {
    /// By uid, in the order of the pods' names.
    pods: Vec<(String, UpdateTimes)>,
    wrong: Vec<Problem>,
    /// By uid: up to here all times are over.
    since: BTreeMap<String, Timestamp>,
}

/// What is due at a moment.
#[derive(Debug, Default, PartialEq)]
pub struct Due {
    pub uid: Option<String>,
    /// None: no pod has times.
    pub next: Option<Timestamp>,
}

impl Times {
    pub fn read(&mut self, desired: &Desired) {
        let mut pods: Vec<&Wanted> = desired.pods.values().map(AsRef::as_ref).collect();
        pods.sort_by(|one, other| one.name.cmp(&other.name));
        (self.pods, self.wrong) = (Vec::new(), Vec::new());
        for wanted in pods {
            let Some(text) = wanted.document["metadata"]["annotations"][UPDATE].as_str() else { continue };
            match update_times::parse(text) {
                Ok(times) => self.pods.push((wanted.name.uid.clone(), times)),
                Err(why) => self.wrong.push(wrong(wanted, why)),
            }
        }
        self.since.retain(|uid, _| desired.pods.contains_key(uid));
    }

    pub fn any(&self) -> bool {
        !self.pods.is_empty()
    }

    /// One pod that is due now, which counts as done. A pod that was not here before has its first time in the future.
    pub fn due(&mut self, zone: &TimeZone, now: Timestamp) -> Due {
        let mut due = Due::default();
        for (uid, times) in &self.pods {
            let since = self.since.entry(uid.clone()).or_insert(now);
            // The clock was put back.
            *since = (*since).min(now);
            while let Some(moment) = times.next(zone, *since) {
                if moment > now {
                    due.next = Some(due.next.map_or(moment, |earlier: Timestamp| earlier.min(moment)));
                    break;
                }
                let late = now.as_second() - moment.as_second();
                if late > LATE_SECONDS {
                    // All that was missed is over at once.
                    *since = (moment + jiff::SignedDuration::from_secs(late - LATE_SECONDS)).max(moment);
                    continue;
                }
                *since = now;
                due.uid = Some(uid.clone());
                return due;
            }
        }
        due
    }

    /// What is wrong with annotations, and the updates that were given up.
    pub fn problems(&self, records: &Records) -> Vec<Problem> {
        let held = records.values().filter(|record| record.stage != Stage::Trying).map(given_up);
        self.wrong.iter().cloned().chain(held).collect()
    }
}

fn wrong(wanted: &Wanted, why: String) -> Problem {
    let from = if wanted.name.source == Source::File { "manifest file" } else { "pod template" };
    Problem {
        severity: Severity::Problem,
        reason: "UpdateTimeInvalid".to_owned(),
        subject: Subject::new("pod", &wanted.name.namespace, &wanted.name.name),
        what: "it is not updated by schedule".to_owned(),
        why,
        advice: format!("mend the annotation in its {from}"),
        since: None,
    }
}

fn given_up(record: &Record) -> Problem {
    let images: Vec<&str> = record.containers.values().map(|exchange| exchange.reference.as_str()).collect();
    Problem {
        severity: Severity::Warning,
        reason: "UpdateGivenUp".to_owned(),
        subject: Subject::new("pod", &record.namespace, &record.name),
        what: format!("it runs from the image before: the newer one of {} did not become ready", images.join(", ")),
        why: record.why.clone(),
        advice: format!("coracle update -n {} {} tries again", record.namespace, record.name),
        since: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    fn desired(pods: &[(&str, &str)]) -> Desired {
        let pod = |(name, times): &(&str, &str)| {
            let document = json!({"metadata": {"namespace": "default", "name": name, "uid": name,
                "annotations": {UPDATE: times}}, "spec": {"containers": []}});
            ((*name).to_owned(), Arc::new(Wanted::new(Source::File, document).unwrap()))
        };
        Desired { pods: pods.iter().map(pod).collect(), ..Desired::default() }
    }

    fn moment(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn one_pod_after_the_other_and_each_once() {
        let mut times = Times::default();
        times.read(&desired(&[("b", "Sun 03:00"), ("a", "Sun 03:00"), ("c", "daily 04:00")]));
        let mut check = |now: &str, uid: Option<&str>, next: Option<&str>| {
            let due = times.due(&TimeZone::UTC, moment(now));
            assert_eq!(due.uid.as_deref(), uid, "{now}");
            if uid.is_none() {
                assert_eq!(due.next, next.map(moment), "{now}");
            }
        };
        check("2026-11-28T12:00:00Z", None, Some("2026-11-29T03:00:00Z"));
        check("2026-11-29T02:59:59Z", None, Some("2026-11-29T03:00:00Z"));
        check("2026-11-29T03:00:00Z", Some("a"), None);
        check("2026-11-29T03:04:00Z", Some("b"), None);
        check("2026-11-29T03:09:00Z", None, Some("2026-11-29T04:00:00Z"));
        check("2026-11-29T04:00:00Z", Some("c"), None);
        check("2026-11-29T04:00:01Z", None, Some("2026-11-30T04:00:00Z"));
    }

    #[test]
    fn a_missed_time_waits_for_the_next() {
        let mut times = Times::default();
        times.read(&desired(&[("a", "Sun 03:00")]));
        let mut due = |now: &str| times.due(&TimeZone::UTC, moment(now));
        let next = |text: &str| Due { uid: None, next: Some(moment(text)) };
        assert_eq!(due("2026-11-28T12:00:00Z"), next("2026-11-29T03:00:00Z"));
        // The host slept, or the clock was put on.
        assert_eq!(due("2026-11-29T05:00:00Z"), next("2026-12-06T03:00:00Z"));
        assert_eq!(due("2027-11-29T05:00:00Z"), next("2027-12-05T03:00:00Z"));
        // Put back: the time comes again.
        assert_eq!(due("2026-11-28T12:00:00Z"), next("2026-11-29T03:00:00Z"));
        assert_eq!(due("2026-11-29T03:59:00Z").uid.as_deref(), Some("a"));
    }

    #[test]
    fn a_wrong_annotation_is_a_problem_that_names_the_pod() {
        let mut times = Times::default();
        times.read(&desired(&[("a", "Sunday at three"), ("b", "daily 03:00")]));
        let problems = times.problems(&Records::default());
        let line = problems[0].line();
        assert!(
            problems.len() == 1 && line.starts_with("pod default/a: it is not updated by schedule: coracle.dev/update"),
            "{line}"
        );
        assert!(times.any() && line.contains("Sunday at three") && line.contains("Sun 03:00"), "{line}");
    }
}

//! What all families of problems read: objects by owner, the last warning about an object, the time. PURE.

use super::objects::{EventLook, Objects, PodLook};
use coracle_api::meta::{ObjectMeta, Time};
use coracle_keeper::problem::{Problem, Severity, Subject};
use jiff::tz::TimeZone;
use std::collections::{HashMap, HashSet};

/// The time zone of a name; the empty name is the host's. None: there is no such zone.
pub type Zones<'z> = &'z dyn Fn(&str) -> Option<TimeZone>;

/// The annotation of mirror pods.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The problems of one look.
#[derive(Debug, Default)]
pub struct Found {
    pub problems: Vec<Problem>,
    /// Problems beyond the limit.
    pub left_out: usize,
    /// When the passing of time alone makes or ends a problem.
    pub wake_at: Option<Time>,
}

impl Found {
    pub(super) fn look_again(&mut self, at: Time) {
        self.wake_at = Some(self.wake_at.map_or(at, |known| known.min(at)));
    }

    pub(super) fn tell(&mut self, reason: &str, subject: Subject, words: Words) {
        self.problems.push(words.problem(Severity::Problem, reason, subject));
    }

    pub(super) fn warn(&mut self, reason: &str, subject: Subject, words: Words) {
        self.problems.push(words.problem(Severity::Warning, reason, subject));
    }
}

/// The sentences of a problem.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Words {
    pub what: String,
    pub why: String,
    pub advice: String,
    pub since: Option<Time>,
}

impl Words {
    fn problem(self, severity: Severity, reason: &str, subject: Subject) -> Problem {
        let since = self.since.map(|since| since.to_string());
        Problem {
            severity,
            reason: reason.to_owned(),
            subject,
            what: self.what,
            why: self.why,
            advice: self.advice,
            since,
        }
    }
}

/// The last warning about an object.
#[derive(Clone, Copy)]
pub struct Warned<'o> {
    pub reason: &'o str,
    pub message: &'o str,
    pub at: Option<Time>,
}

type ObjectName<'o> = (&'o str, &'o str, &'o str);

pub struct Context<'o> {
    pub objects: &'o Objects,
    pub now: Time,
    pub zones: Zones<'o>,
    /// Pods by the uid of their controller.
    owned: HashMap<&'o str, Vec<&'o PodLook>>,
    /// By kind, namespace and name.
    warned: HashMap<ObjectName<'o>, Vec<&'o EventLook>>,
    /// Namespaces that are being deleted.
    ending: HashSet<&'o str>,
}

impl<'o> Context<'o> {
    pub fn of(objects: &'o Objects, now: Time, zones: Zones<'o>) -> Context<'o> {
        let mut owned: HashMap<&str, Vec<&PodLook>> = HashMap::new();
        for pod in &objects.pods {
            if let Some(owner) = pod.metadata.controller() {
                owned.entry(&owner.uid).or_default().push(pod);
            }
        }
        let mut warned: HashMap<ObjectName<'_>, Vec<&EventLook>> = HashMap::new();
        for event in &objects.events {
            let about = &event.involved_object;
            warned.entry((&about.kind, &about.namespace, &about.name)).or_default().push(event);
        }
        let ending = objects.namespaces.iter().filter(|one| one.metadata.deletion_timestamp.is_some());
        let ending = ending.map(|one| one.metadata.name.as_str()).collect();
        Context { objects, now, zones, owned, warned, ending }
    }

    /// The pods that a controller has made.
    pub fn pods_of(&self, uid: &str) -> &[&'o PodLook] {
        self.owned.get(uid).map_or(&[], Vec::as_slice)
    }

    /// The last warning about an object since a moment, of these reasons where some are named.
    pub fn warned(&self, kind: &str, of: &ObjectMeta, reasons: &[&str], since: Option<Time>) -> Option<Warned<'o>> {
        let events = self.warned.get(&(kind, of.namespace.as_str(), of.name.as_str()))?;
        let same = |event: &&&EventLook| {
            let uid = &event.involved_object.uid;
            (uid.is_empty() || of.uid.is_empty() || *uid == of.uid)
                && (reasons.is_empty() || reasons.contains(&event.reason.as_str()))
                && (since.is_none() || at(event) >= since)
        };
        let last = events.iter().filter(same).max_by_key(|event| at(event))?;
        Some(Warned { reason: &last.reason, message: &last.message, at: at(last) })
    }

    /// Whether the object, or all of its namespace, is being deleted.
    pub fn goes(&self, of: &ObjectMeta) -> bool {
        of.deletion_timestamp.is_some() || self.ending.contains(of.namespace.as_str())
    }
}

fn at(event: &EventLook) -> Option<Time> {
    event.last_timestamp.max(event.event_time)
}

/// Whether a pod stands for a pod of a file.
pub fn is_mirror(pod: &PodLook) -> bool {
    pod.metadata.annotations.contains_key(MIRROR)
}

/// A moment so many seconds after another.
pub fn later(moment: Time, seconds: i64) -> Time {
    Time::from_seconds(moment.seconds().saturating_add(seconds)).unwrap_or(moment)
}

/// `1 pod`, `2 pods`.
pub fn counted(count: usize, of: &str) -> String {
    format!("{count} {of}{}", if count == 1 { "" } else { "s" })
}

//! The reasons for which a carrier refuses a request or drops an answer, and their log lines.
use crate::{Answer, BODY_BYTES_MAX, StatusCode};
use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// One line a kind in this time: a flood of refusals must not become a flood of lines.
const LINE_EVERY: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Refusal {
    Malformed(&'static str),
    /// Sent by a web page or through a foreign name.
    Foreign(&'static str, String),
    /// The credentials in the request belong to no known user.
    Unidentified(String),
    /// The client's certificate has been withdrawn.
    Revoked,
    /// A request that is refused to everybody.
    Barred(&'static str),
    /// A protocol that this server does not speak.
    Unspoken(&'static str),
    TooLarge,
    Slow,
    /// Which limit was reached.
    Busy(&'static str),
    Failed,
    /// The server that the answer was to come from: who and why.
    Unreachable(String),
    Silent(String),
}

impl Refusal {
    /// `path`: the requested path, which names the API version for the answer.
    pub(crate) fn answer(&self, path: &str) -> Answer {
        let (code, reason) = self.code();
        Answer::refuse_in(version(path), code, reason, &self.to_string())
    }

    fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Refusal::Malformed(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
            Refusal::Unidentified(_) | Refusal::Revoked => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Refusal::Foreign(..) | Refusal::Barred(_) => (StatusCode::FORBIDDEN, "Forbidden"),
            Refusal::Unspoken(_) => (StatusCode::NOT_IMPLEMENTED, "NotImplemented"),
            Refusal::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            Refusal::Slow => (StatusCode::REQUEST_TIMEOUT, "Timeout"),
            Refusal::Busy(_) => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
            Refusal::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
            Refusal::Unreachable(_) => (StatusCode::BAD_GATEWAY, "ServiceUnavailable"),
            Refusal::Silent(_) => (StatusCode::GATEWAY_TIMEOUT, "Timeout"),
        }
    }

    /// The key by which the log counts: free of anything that a client chose.
    fn kind(&self) -> &'static str {
        match self {
            Refusal::Malformed(why)
            | Refusal::Busy(why)
            | Refusal::Foreign(why, _)
            | Refusal::Barred(why)
            | Refusal::Unspoken(why) => why,
            Refusal::TooLarge => "too large",
            Refusal::Slow => "slow body",
            Refusal::Unidentified(_) => "unidentified",
            Refusal::Revoked => "revoked certificate",
            Refusal::Failed => "failed",
            Refusal::Unreachable(_) => "unreachable",
            Refusal::Silent(_) => "silent",
        }
    }
}

const OLDER: [&str; 3] = ["v1beta1", "v1beta2", "v1beta3"];

/// The version of the API that a path belongs to.
pub(crate) fn version(path: &str) -> &'static str {
    let named = path.strip_prefix("/api/").and_then(|rest| rest.split(['/', '?']).next());
    OLDER.into_iter().find(|version| Some(*version) == named).unwrap_or("v1")
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Malformed(why) | Refusal::Busy(why) | Refusal::Barred(why) | Refusal::Unspoken(why) => {
                f.write_str(why)
            }
            Refusal::Foreign(what, value) => {
                write!(
                    f,
                    "{what} {value:?} is not this port's: served are programs, this port's own pages, and on a port \
                     without TLS requests to localhost alone"
                )
            }
            Refusal::TooLarge => write!(f, "Request entity too large: limit is {BODY_BYTES_MAX}"),
            Refusal::Revoked => f.write_str("the client certificate has been revoked"),
            Refusal::Slow => f.write_str("request body did not arrive in time"),
            Refusal::Failed => f.write_str("the request failed inside the server: its log says why"),
            Refusal::Unidentified(why) | Refusal::Unreachable(why) | Refusal::Silent(why) => f.write_str(why),
        }
    }
}

/// The refusals of all carriers of this process, by the codes that they have.
static REFUSED: [(StatusCode, AtomicU64); 11] = [
    (StatusCode::BAD_REQUEST, AtomicU64::new(0)),
    (StatusCode::UNAUTHORIZED, AtomicU64::new(0)),
    (StatusCode::FORBIDDEN, AtomicU64::new(0)),
    (StatusCode::REQUEST_TIMEOUT, AtomicU64::new(0)),
    (StatusCode::PAYLOAD_TOO_LARGE, AtomicU64::new(0)),
    (StatusCode::TOO_MANY_REQUESTS, AtomicU64::new(0)),
    (StatusCode::INTERNAL_SERVER_ERROR, AtomicU64::new(0)),
    (StatusCode::NOT_IMPLEMENTED, AtomicU64::new(0)),
    (StatusCode::BAD_GATEWAY, AtomicU64::new(0)),
    (StatusCode::SERVICE_UNAVAILABLE, AtomicU64::new(0)),
    (StatusCode::GATEWAY_TIMEOUT, AtomicU64::new(0)),
];

fn count(code: StatusCode) {
    REFUSED.iter().filter(|(of, _)| *of == code).for_each(|(_, count)| {
        count.fetch_add(1, Relaxed);
    });
}

/// How many requests the carriers of this process have refused without asking a handler, by code. hyper's own refusals
/// of what is no HTTP, 400 and 431, are not among them.
pub fn refused_by_code() -> Vec<(u16, u64)> {
    REFUSED.iter().map(|(code, count)| (code.as_u16(), count.load(Relaxed))).collect()
}

/// Which kinds were logged when, and how many were not logged since.
#[derive(Default)]
pub(crate) struct Journal(Mutex<HashMap<&'static str, Counted>>);

struct Counted {
    logged: Instant,
    since: u64,
}

impl Journal {
    pub(crate) fn refused(&self, refusal: &Refusal, caller: &dyn fmt::Display) {
        count(refusal.code().0);
        self.note(refusal.kind(), &format_args!("refused a request from {caller}: {refusal}"));
    }

    /// `kind` is one of the words in this crate's source, so the map has a bound.
    pub(crate) fn note(&self, kind: &'static str, line: &dyn fmt::Display) {
        match self.due(kind, Instant::now()) {
            None => {}
            Some(0) => log::warn!("{line}"),
            Some(more) => log::warn!("{line} ({more} more of these since the last line)"),
        }
    }

    /// How many went by in silence since the last line of this kind, if it is time for another line.
    fn due(&self, kind: &'static str, now: Instant) -> Option<u64> {
        let mut kinds = self.0.lock().expect("no panic under this lock");
        match kinds.get_mut(kind) {
            Some(counted) if now.duration_since(counted.logged) < LINE_EVERY => {
                counted.since += 1;
                None
            }
            known => {
                let since = known.map_or(0, |counted| counted.since);
                kinds.insert(kind, Counted { logged: now, since: 0 });
                Some(since)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_of_a_kind_a_minute() {
        let journal = Journal::default();
        let start = Instant::now();
        let due = |kind, after_s| journal.due(kind, start + Duration::from_secs(after_s));
        assert_eq!(due("busy", 0), Some(0));
        assert_eq!(due("busy", 1), None);
        assert_eq!(due("slow", 1), Some(0));
        assert_eq!(due("busy", 59), None);
        assert_eq!(due("busy", 60), Some(2));
        assert_eq!(due("busy", 61), None);
    }

    #[test]
    fn each_code_of_a_refusal_is_counted() {
        for refusal in [
            Refusal::Malformed(""),
            Refusal::Foreign("", String::new()),
            Refusal::Unidentified(String::new()),
            Refusal::Revoked,
            Refusal::Barred(""),
            Refusal::Unspoken(""),
            Refusal::TooLarge,
            Refusal::Slow,
            Refusal::Busy(""),
            Refusal::Failed,
            Refusal::Unreachable(String::new()),
            Refusal::Silent(String::new()),
        ] {
            let code = refusal.code().0.as_u16();
            let counted = || refused_by_code().into_iter().find(|(of, _)| *of == code).map(|(_, count)| count);
            let before = counted().unwrap_or_else(|| panic!("{code} is not counted"));
            Journal::default().refused(&refusal, &"a test");
            assert!(counted() > Some(before), "{code}");
        }
    }

    #[test]
    fn the_version_of_a_path() {
        for (path, expected) in [
            ("/api/v1beta1/pods?labels=a", "v1beta1"),
            ("/api/v1beta1", "v1beta1"),
            ("/api/v1beta1?x", "v1beta1"),
            ("/api/v1beta2/pods", "v1beta2"),
            ("/api/v1beta3/namespaces/a/pods?x", "v1beta3"),
            ("/api/v1beta10/pods", "v1"),
            ("/api/v1/pods", "v1"),
            ("/", "v1"),
        ] {
            assert_eq!(version(path), expected, "{path}");
        }
    }

    #[test]
    fn a_refusal_is_a_status_document() {
        let refusal = Refusal::Foreign("host", "a\"b\n".into());
        let answer = refusal.answer("/api/v1/pods");
        let crate::Body::Whole(text) = answer.body else { panic!("a refusal is whole") };
        let status: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(status["code"], 403);
        assert_eq!(status["kind"], "Status");
        assert_eq!(status["message"], refusal.to_string());
    }
}

//! The reasons for which a carrier refuses a request or drops an answer, and their log lines.
use crate::network::{OnRefusal, RefusedRequest};
use crate::{Answer, BODY_BYTES_MAX, Caller, StatusCode};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, PoisonError};
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
    /// More than the share of such requests.
    OverShare(String),
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

    /// Tells whoever keeps a record of requests that are refused because of who sends them or how.
    pub(crate) fn tell(&self, heard: &OnRefusal, (caller, method, url): (&Caller, &str, &str)) {
        let (code, _) = self.code();
        if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&code) {
            let (path, why) = (url.split('?').next().unwrap_or_default(), &*self.to_string());
            heard(&RefusedRequest { caller, method, path, code: code.as_u16(), why });
        }
    }

    fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Refusal::Malformed(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
            Refusal::Unidentified(_) | Refusal::Revoked => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Refusal::Foreign(..) | Refusal::Barred(_) => (StatusCode::FORBIDDEN, "Forbidden"),
            Refusal::Unspoken(_) => (StatusCode::NOT_IMPLEMENTED, "NotImplemented"),
            Refusal::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            Refusal::Slow => (StatusCode::REQUEST_TIMEOUT, "Timeout"),
            Refusal::Busy(_) | Refusal::OverShare(_) => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
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
            Refusal::OverShare(_) => "over the share of its priority level",
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
            Refusal::Revoked => f.write_str(
                "the client certificate has been revoked, has ended, or is of an authority that was dropped",
            ),
            Refusal::Slow => f.write_str("request body did not arrive in time"),
            Refusal::Failed => f.write_str("the request failed inside the server: its log says why"),
            Refusal::OverShare(why) | Refusal::Unidentified(why) | Refusal::Unreachable(why) | Refusal::Silent(why) => {
                f.write_str(why)
            }
        }
    }
}

/// The refusals of all carriers of this process, by code and reason; and the connections that were closed without an
/// answer, by reason. Codes and reasons are words of this crate's source, so the maps have a bound.
static REFUSED: Mutex<BTreeMap<(u16, &'static str), u64>> = Mutex::new(BTreeMap::new());
static CLOSED: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// How many requests the carriers of this process have refused without asking a handler, by code and reason.
pub fn refused_by_code() -> Vec<(u16, &'static str, u64)> {
    let counted = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
    counted.iter().map(|((code, reason), count)| (*code, *reason, *count)).collect()
}

/// How many connections the carriers of this process have closed before a request was answered, by reason.
pub fn closed_connections() -> Vec<(&'static str, u64)> {
    CLOSED.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(reason, count)| (*reason, *count)).collect()
}

/// Counts a refusal that the HTTP library has sent itself.
pub(crate) fn count(code: StatusCode, reason: &'static str) {
    *REFUSED.lock().unwrap_or_else(PoisonError::into_inner).entry((code.as_u16(), reason)).or_default() += 1;
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
        count(refusal.code().0, refusal.kind());
        self.say(refusal.kind(), &format_args!("refused a request from {caller}: {refusal}"));
    }

    /// A connection was closed without an answer.
    pub(crate) fn closed(&self, kind: &'static str, line: &dyn fmt::Display) {
        *CLOSED.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
        self.say(kind, line);
    }

    /// `kind` is one of the words in this crate's source, so the map has a bound.
    pub(crate) fn say(&self, kind: &'static str, line: &dyn fmt::Display) {
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
            Refusal::OverShare(String::new()),
            Refusal::Failed,
            Refusal::Unreachable(String::new()),
            Refusal::Silent(String::new()),
        ] {
            let code = refusal.code().0.as_u16();
            let kind = refusal.kind();
            let counted = || {
                let found = refused_by_code().into_iter().find(|(of, reason, _)| (*of, *reason) == (code, kind));
                found.map_or(0, |(.., count)| count)
            };
            let before = counted();
            Journal::default().refused(&refusal, &"a test");
            assert!(counted() > before, "{code} {kind}");
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

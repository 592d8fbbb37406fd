//! Revisions, limits and continue tokens of lists and watches, checked as Kubernetes checks them. PURE.
//!
//! A token is the revision of the first page, when that was made in seconds since 1970, and the last object of the page
//! before: `1042@1764000000/default/web-7`. Nothing is kept for it. After `TOKEN_LIFE`, or once the history no longer
//! reaches back to its revision, the client gets `now/default/web-7`, which goes on with the present.

use crate::call::{Call, Options};
use crate::fault::Fault;
use crate::store::HISTORY_LIFE;
use coracle_api::meta::{Key, Revision, Time};
use coracle_api::status::Status;
use coracle_schema::{Path, Problem, Reason};
use std::num::NonZeroUsize;
use std::time::Duration;

/// A token holds as long as the history does, even where nothing was written since: Kubernetes compacts its store by
/// time alone, and clients that are tested against it wait for that.
pub const TOKEN_LIFE: Duration = HISTORY_LIFE;

/// The parameters of a list.
#[derive(Debug, Default, PartialEq)]
pub struct ListRange {
    /// The objects as they were then. None: as they are.
    pub at: Option<Revision>,
    /// When the first page was made. None: this is the first, or it goes on with the present.
    pub since: Option<Time>,
    /// A revision that must have been.
    pub not_before: Option<Revision>,
    /// Only what is behind this object.
    pub after: Option<Key>,
    pub limit: Option<NonZeroUsize>,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Begin {
    /// With the objects that there are, at a revision that must have been. `marked`: a bookmark says where they end.
    State {
        not_before: Revision,
        marked: bool,
    },
    /// With what happens next.
    Now,
    After(Revision),
}

pub fn of_list(call: &Call) -> Result<ListRange, Fault> {
    let options = &call.options;
    refuse(list_problems(options))?;
    if !options.continues.is_empty() {
        let (snapshot, after) = continued(call, &options.continues)?;
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(Fault::bad_request("specifying resource version is not allowed when using continue"));
        }
        let (at, since) = snapshot.unzip();
        return Ok(ListRange { at, since, after: Some(after), limit: options.limit, ..ListRange::default() });
    }
    let revision = match options.resource_version.as_str() {
        "" => return Ok(ListRange { limit: options.limit, ..ListRange::default() }),
        text => number(text).map_err(|why| Fault::bad_request(format!("invalid resource version: {why}")))?,
    };
    // Any state would do, and the present state is as cheap: the whole list, as Kubernetes answers from the cache.
    if revision == Revision(0) {
        return Ok(ListRange::default());
    }
    let exact = match options.resource_version_match.as_str() {
        "Exact" => true,
        // A page at a revision means exactly this revision.
        "" => options.limit.is_some(),
        _ => false,
    };
    Ok(ListRange {
        at: exact.then_some(revision),
        not_before: Some(revision),
        limit: options.limit,
        ..ListRange::default()
    })
}

impl ListRange {
    /// The revision of an expired token.
    pub fn over(&self, now: Time) -> Option<Revision> {
        let age = now.seconds().saturating_sub(self.since?.seconds());
        self.at.filter(|_| u64::try_from(age).is_ok_and(|age| age >= TOKEN_LIFE.as_secs()))
    }

    /// The token for what is behind a page of this list.
    pub fn token(&self, revision: Revision, after: &Key, now: Time) -> String {
        token(Some((revision, self.since.unwrap_or(now))), after)
    }
}

pub fn of_watch(call: &Call) -> Result<Begin, Fault> {
    let options = &call.options;
    refuse(watch_problems(options))?;
    let revision = match options.resource_version.as_str() {
        "" => Revision(0),
        text => number(text).map_err(|why| Fault::misread(call, why))?,
    };
    let said = revision > Revision(0);
    Ok(match options.initial_events {
        Some(true) => Begin::State { not_before: revision, marked: true },
        None if !said => Begin::State { not_before: revision, marked: false },
        Some(false) if !said => Begin::Now,
        Some(false) | None => Begin::After(revision),
    })
}

/// `resourceVersion` of a GET.
pub fn of_get(call: &Call) -> Result<Option<Revision>, Fault> {
    match call.options.resource_version.as_str() {
        "" => Ok(None),
        text => number(text).map(Some).map_err(|why| Fault::misread(call, why)),
    }
}

/// The token for what is behind an object. None: from the present on.
fn token(snapshot: Option<(Revision, Time)>, after: &Key) -> String {
    let snapshot =
        snapshot.map_or_else(|| "now".to_owned(), |(revision, since)| format!("{revision}@{}", since.seconds()));
    format!("{snapshot}/{}/{}", after.namespace, after.name)
}

/// The history no longer holds what was asked for.
pub fn expired(wanted: &ListRange) -> Fault {
    match &wanted.after {
        Some(after) => Status::expired_page(token(None, after)),
        None => Status::expired_list(),
    }
    .into()
}

fn continued(call: &Call, token: &str) -> Result<(Option<(Revision, Time)>, Key), Fault> {
    let bad = || Fault::bad_request(format!("invalid continue token: continue key is not valid{}", no_base64(token)));
    let mut parts = token.splitn(3, '/');
    let (Some(snapshot), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(bad());
    };
    let snapshot = match snapshot {
        "now" => None,
        text => Some(revision_and_time(text).ok_or_else(bad)?),
    };
    // A token of a different namespace would begin somewhere in this list. A token of a different resource means the
    // same name here, as in kube-apiserver, where a token's key begins behind the resource.
    let inside = if call.kind.namespaced {
        call.namespace.is_empty() || namespace == call.namespace
    } else {
        namespace.is_empty()
    };
    if !inside || name.is_empty() || name.contains('/') {
        return Err(bad());
    }
    Ok((snapshot, Key { resource: call.kind.resource.clone(), namespace: namespace.to_owned(), name: name.to_owned() }))
}

/// One without a time was made by the first release, which is longer ago than any token lives.
fn revision_and_time(text: &str) -> Option<(Revision, Time)> {
    let (revision, seconds) = text.split_once('@').unwrap_or((text, "0"));
    let revision = number(revision).ok().filter(|revision| *revision > Revision(0))?;
    Some((revision, seconds.parse().ok().and_then(Time::from_seconds)?))
}

/// Tokens of Kubernetes are base64: the words of Kubernetes about any other token.
fn no_base64(token: &str) -> String {
    if token.splitn(3, '/').count() == 3 {
        // A token of this server, but from another list.
        return String::new();
    }
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let odd = token.bytes().position(|byte| !letter(byte)).or((token.len() % 4 == 1).then(|| token.len() - 1));
    odd.map(|at| format!(": illegal base64 data at input byte {at}")).unwrap_or_default()
}

/// Parses a client's revision. `Err`: the words of Kubernetes.
fn number(text: &str) -> Result<Revision, String> {
    Revision::parse(text).map_err(|why| format!("resourceVersion: Invalid value: {text:?}: {why}"))
}

fn list_problems(options: &Options) -> Vec<Problem> {
    let mut problems = Vec::new();
    let asked = options.resource_version_match.as_str();
    if !asked.is_empty() {
        if options.resource_version.is_empty() {
            problems.push(forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if !options.continues.is_empty() {
            problems
                .push(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(asked, "Exact" | "NotOlderThan") {
            problems.push(unsupported(asked, "supported values: \"Exact\", \"NotOlderThan\", \"\""));
        }
        if asked == "Exact" && options.resource_version == "0" {
            problems.push(forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
    }
    if options.initial_events.is_some() {
        problems.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    problems
}

fn watch_problems(options: &Options) -> Vec<Problem> {
    let mut problems = Vec::new();
    let asked = options.resource_version_match.as_str();
    if options.initial_events.is_some() && asked != "NotOlderThan" {
        problems.push(forbidden(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if !asked.is_empty() {
        if options.initial_events.is_none() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            problems.push(forbidden("resourceVersionMatch", why));
        }
        if asked != "NotOlderThan" {
            problems.push(unsupported(asked, "supported values: \"NotOlderThan\""));
        }
    }
    // A watch that begins anywhere has the match that goes with its first state, without saying so.
    let unsaid = options.initial_events.is_none() && matches!(options.resource_version.as_str(), "" | "0");
    if !options.continues.is_empty() && (!asked.is_empty() || unsaid) {
        problems.push(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"));
    }
    problems
}

fn forbidden(field: &str, why: &str) -> Problem {
    Problem::forbidden(&Path::new(field), why)
}

fn unsupported(asked: &str, supported: &str) -> Problem {
    Problem::new(&Path::new("resourceVersionMatch"), Reason::NotSupported, Some(asked.into()), supported)
}

fn refuse(problems: Vec<Problem>) -> Result<(), Fault> {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid_of("meta.k8s.io", "ListOptions", "", &problems).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{self, Route};
    use coracle_api::kinds::Kinds;

    #[test]
    fn a_token_ends_by_time() {
        const MADE: i64 = 1_764_000_000;
        let life = TOKEN_LIFE.as_secs() as i64;
        let at = |seconds: i64| Time::from_seconds(seconds).expect("a time");
        let kinds = Kinds::builtin();
        let read = |token: &str| {
            let route = call::parse(&kinds, "GET", "/api/v1/namespaces/a/pods", &format!("limit=1&continue={token}"));
            let Ok(Route::Object(call)) = route else { panic!("{token}: a list") };
            of_list(&call)
        };
        for (token, after_s, over) in [
            ("7@1764000000/a/b", 0, None),
            ("7@1764000000/a/b", life - 1, None),
            ("7@1764000000/a/b", life, Some(7)),
            ("7@1764000000/a/b", 9 * life, Some(7)),
            // The clock was set back.
            ("7@1764000000/a/b", -1, None),
            ("7@1764000000/a/b", -life, None),
            // Of the first release.
            ("7/a/b", 0, Some(7)),
            ("now/a/b", 9 * life, None),
        ] {
            let wanted = read(token).unwrap_or_else(|_| panic!("{token} is one of ours"));
            assert_eq!(wanted.over(at(MADE + after_s)), over.map(Revision), "{token} after {after_s} s");
            assert_eq!(expired(&wanted).status.continues.as_deref(), Some("now/a/b"));
        }
        for token in ["7@/a/b", "7@x/a/b", "7@99999999999999/a/b", "@1/a/b", "0@1/a/b", "7@1@1/a/b", "then/a/b"] {
            assert_eq!(read(token).err().map(|fault| fault.status.code), Some(400), "{token}");
        }
    }

    #[test]
    fn all_pages_of_a_list_end_at_once() {
        let key = Key {
            resource: coracle_api::meta::Resource::core("pods"),
            namespace: "a".to_owned(),
            name: "b".to_owned(),
        };
        let (then, now) = (Time::from_seconds(100), Time::from_seconds(200).expect("a time"));
        for (since, token) in [(None, "7@200/a/b"), (then, "7@100/a/b")] {
            assert_eq!(ListRange { since, ..ListRange::default() }.token(Revision(7), &key, now), token);
        }
    }
}

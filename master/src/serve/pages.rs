//! Revisions, limits and continue tokens of lists and watches, checked as Kubernetes checks them. PURE.
//!
//! A token is the revision of the first page and the last object of the page before: `1042/default/web-7`. Nothing is kept for it. Once
//! the history no longer reaches back to its revision the client gets `now/default/web-7`, which goes on with the present.

use crate::call::{Call, Options};
use crate::fault::Fault;
use coracle_api::meta::{Key, Revision};
use coracle_api::status::Status;
use coracle_schema::{Path, Problem, Reason};
use std::num::NonZeroUsize;

/// The parameters of a list.
#[derive(Debug, Default, PartialEq)]
pub struct ListRange {
    /// The objects as they were then. None: as they are.
    pub at: Option<Revision>,
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
        let (at, after) = continued(call, &options.continues)?;
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(Fault::bad_request("specifying resource version is not allowed when using continue"));
        }
        return Ok(ListRange { at, after: Some(after), limit: options.limit, ..ListRange::default() });
    }
    let revision = match options.resource_version.as_str() {
        "" => return Ok(ListRange { limit: options.limit, ..ListRange::default() }),
        text => number(text).map_err(|why| Fault::bad_request(format!("invalid resource version: {why}")))?,
    };
    // Any state would do, and the present one is as cheap: all of it, as Kubernetes answers from its cache.
    if revision == Revision(0) {
        return Ok(ListRange::default());
    }
    let exact = match options.resource_version_match.as_str() {
        "Exact" => true,
        // Pages of a revision mean that very one.
        "" => options.limit.is_some(),
        _ => false,
    };
    Ok(ListRange { at: exact.then_some(revision), not_before: Some(revision), limit: options.limit, after: None })
}

pub fn of_watch(options: &Options) -> Result<Begin, Fault> {
    refuse(watch_problems(options))?;
    let revision = match options.resource_version.as_str() {
        "" => Revision(0),
        text => number(text).map_err(Fault::bad_request)?,
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
pub fn of_get(options: &Options) -> Result<Option<Revision>, Fault> {
    match options.resource_version.as_str() {
        "" => Ok(None),
        text => number(text).map(Some).map_err(Fault::bad_request),
    }
}

/// The token for what is behind an object. None: from the present on.
pub fn token(revision: Option<Revision>, after: &Key) -> String {
    let revision = revision.map_or_else(|| "now".to_owned(), |revision| revision.to_string());
    format!("{revision}/{}/{}", after.namespace, after.name)
}

/// The history no longer holds what was asked for.
pub fn expired(wanted: &ListRange) -> Fault {
    match &wanted.after {
        Some(after) => Status::expired_page(token(None, after)),
        None => Status::expired_list(),
    }
    .into()
}

fn continued(call: &Call, token: &str) -> Result<(Option<Revision>, Key), Fault> {
    let bad = || Fault::bad_request(format!("invalid continue token: continue key is not valid{}", no_base64(token)));
    let mut parts = token.splitn(3, '/');
    let (Some(revision), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next()) else { return Err(bad()) };
    let at = match revision {
        "now" => None,
        text => Some(number(text).ok().filter(|revision| *revision > Revision(0)).ok_or_else(bad)?),
    };
    // One of another namespace would begin somewhere in this list. Of another resource it means the same name here, as in kube-apiserver,
    // whose keys begin behind the resource.
    let inside = if call.kind.namespaced { call.namespace.is_empty() || namespace == call.namespace } else { namespace.is_empty() };
    if !inside || name.is_empty() || name.contains('/') {
        return Err(bad());
    }
    Ok((at, Key { resource: call.kind.resource.clone(), namespace: namespace.to_owned(), name: name.to_owned() }))
}

/// Tokens of Kubernetes are base64: what it says of one that is not.
fn no_base64(token: &str) -> String {
    if token.splitn(3, '/').count() == 3 {
        // One of ours, for another place.
        return String::new();
    }
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let odd = token.bytes().position(|byte| !letter(byte)).or((token.len() % 4 == 1).then(|| token.len() - 1));
    odd.map(|at| format!(": illegal base64 data at input byte {at}")).unwrap_or_default()
}

/// A revision as clients write it, or what Kubernetes says of it.
fn number(text: &str) -> Result<Revision, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).map(Revision).ok_or_else(|| {
        let why = if digits { "value out of range" } else { "invalid syntax" };
        format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}")
    })
}

fn list_problems(options: &Options) -> Vec<Problem> {
    let mut problems = Vec::new();
    let asked = options.resource_version_match.as_str();
    if !asked.is_empty() {
        if options.resource_version.is_empty() {
            problems.push(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if !options.continues.is_empty() {
            problems.push(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(asked, "Exact" | "NotOlderThan") {
            problems.push(unsupported(asked, "supported values: \"Exact\", \"NotOlderThan\", \"\""));
        }
        if asked == "Exact" && options.resource_version == "0" {
            problems.push(forbidden("resourceVersionMatch", "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
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
        problems.push(forbidden("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
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
    if problems.is_empty() { Ok(()) } else { Err(Status::invalid_of("meta.k8s.io", "ListOptions", "", &problems).into()) }
}

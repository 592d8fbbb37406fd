//! The Status reply: how a request went wrong, or what a delete did. A value; each version of the API writes it in its
//! own way (`to_v1` here, v1beta1 in its own room). Messages are Kubernetes' own, because clients show and match
//! messages.

mod reason;

pub use self::reason::Reason;
use crate::kinds::Kind;
use crate::meta::{Resource, Revision};
use coracle_schema::Problem;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// None: a success, or a failure that Kubernetes gives no name.
    pub reason: Option<Reason>,
    pub message: String,
    pub details: Option<Details>,
    /// The token with which a list that cannot go on as it began may go on with the present.
    pub continues: Option<Box<str>>,
}

/// The object of the reply, and every problem of the object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    pub name: String,
    pub group: String,
    /// The plural for most reasons, the kind for Invalid.
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_s: Option<u32>,
}

impl Details {
    pub fn of(resource: &Resource, name: &str) -> Details {
        Details {
            name: name.to_owned(),
            group: resource.group.to_string(),
            kind: resource.plural.to_string(),
            ..Details::default()
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cause {
    pub reason: Cow<'static, str>,
    pub message: String,
    pub field: String,
}

impl Status {
    /// Done, and nothing to say about it but this code: 201 for a binding.
    pub fn success(code: u16) -> Status {
        Status { code, reason: None, message: String::new(), details: None, continues: None }
    }

    /// An object is gone.
    pub fn deleted(resource: &Resource, name: &str, uid: &str) -> Status {
        Status { details: Some(Details { uid: uid.to_owned(), ..Details::of(resource, name) }), ..Status::success(200) }
    }

    pub fn not_found(resource: &Resource, name: &str) -> Status {
        failure(Reason::NotFound, format!("{resource} {name:?} not found"), Details::of(resource, name))
    }

    /// No such path.
    pub fn unknown_path() -> Status {
        failure(Reason::NotFound, "the server could not find the requested resource", Details::default())
    }

    pub fn method_not_allowed() -> Status {
        failure(
            Reason::MethodNotAllowed,
            "the server does not allow this method on the requested resource",
            Details::default(),
        )
    }

    pub fn already_exists(resource: &Resource, name: &str) -> Status {
        failure(Reason::AlreadyExists, format!("{resource} {name:?} already exists"), Details::of(resource, name))
    }

    /// A creation token was used before; `name` is the object created with the token.
    pub fn token_used(resource: &Resource, name: &str) -> Status {
        let message = format!("{resource} {name:?} already exists: it was created with this creation token");
        failure(Reason::AlreadyExists, message, Details::of(resource, name))
    }

    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Status {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        failure(Reason::Conflict, message, Details::of(resource, name))
    }

    /// The object has changed since the client's read.
    pub fn stale(resource: &Resource, name: &str) -> Status {
        Status::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// The uid that the client asked for is another object's.
    pub fn other_uid(resource: &Resource, name: &str, wanted: &str, found: &str) -> Status {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({found}). \
             The object might have been deleted and then recreated"
        );
        Status::conflict(resource, name, &why)
    }

    /// The revision that the client asked for is over.
    pub fn other_revision(resource: &Resource, name: &str, wanted: &str, found: Revision) -> Status {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({found}). The object might have been modified"
        );
        Status::conflict(resource, name, &why)
    }

    /// All that is wrong with an object at once.
    pub fn invalid(kind: &Kind, name: &str, problems: &[Problem]) -> Status {
        // Kubernetes names a review of access by a field that its decoder has emptied.
        let is_access = kind.answer.is_some() && kind.resource.group == "authorization.k8s.io";
        Status::invalid_of(&kind.resource.group, if is_access { "" } else { &kind.kind }, name, problems)
    }

    /// For what is no row of the kind table: `("meta.k8s.io", "DeleteOptions")`.
    pub fn invalid_of(group: &str, kind: &str, name: &str, problems: &[Problem]) -> Status {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message =
            format!("{qualified} {} is invalid: {}", coracle_schema::go_quoted(name), all_of(&once(problems)));
        let causes = problems.iter().map(cause_of).collect();
        let details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        };
        failure(Reason::Invalid, message, details)
    }

    pub fn bad_request(message: impl Into<String>) -> Status {
        plain(Reason::BadRequest, message)
    }

    pub fn unauthorized() -> Status {
        plain(Reason::Unauthorized, "Unauthorized")
    }

    /// `name` is empty where it is about the resource as a whole.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Status {
        let object = if name.is_empty() { resource.to_string() } else { format!("{resource} {name:?}") };
        failure(Reason::Forbidden, format!("{object} is forbidden: {why}"), Details::of(resource, name))
    }

    pub fn too_large(limit_bytes: usize) -> Status {
        plain(Reason::RequestEntityTooLarge, format!("Request entity too large: limit is {limit_bytes}"))
    }

    pub fn unsupported_media_type(accepted: &str) -> Status {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        plain(Reason::UnsupportedMediaType, message)
    }

    pub fn not_acceptable(offered: &str) -> Status {
        plain(Reason::NotAcceptable, format!("only the following media types are accepted: {offered}"))
    }

    /// None of the media types that the client takes is known at all.
    pub fn not_representable(offered: &str) -> Status {
        failure(
            Reason::NotAcceptable,
            format!("406: Not Acceptable\n\nAvailable representations: {offered}"),
            Details::default(),
        )
    }

    /// A list was asked for in the form of one object, or the other way round.
    pub fn other_number(message: &str) -> Status {
        plain(Reason::NotAcceptable, message)
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_s: u32) -> Status {
        failure(Reason::TooManyRequests, message, retry(retry_after_s))
    }

    /// Our own fault, or the disk's.
    pub fn internal_error(why: impl std::fmt::Display) -> Status {
        let causes = vec![Cause { message: why.to_string(), ..Cause::default() }];
        failure(
            Reason::InternalError,
            format!("Internal error occurred: {why}"),
            Details { causes, ..Details::default() },
        )
    }

    /// The history no longer reaches back to `asked`.
    pub fn expired(asked: Revision, oldest: Revision) -> Status {
        plain(Reason::Expired, format!("too old resource version: {asked} ({oldest})"))
    }

    /// The store has been set back behind `asked`. What has been since under revisions that were told before nobody can
    /// say: a client that hears Expired lists again at once.
    pub fn expired_future(asked: Revision, current: Revision) -> Status {
        plain(
            Reason::Expired,
            format!(
                "too large resource version: {asked}, current: {current}: the store was set back since, list again"
            ),
        )
    }

    /// The same of a list, which cannot be shown as it was then.
    pub fn expired_list() -> Status {
        plain(Reason::Expired, "The resourceVersion for the provided list is too old.")
    }

    /// The same of a page: with `fresh` the list goes on, but shows the present.
    pub fn expired_page(fresh: String) -> Status {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a \
                       new list without the continue parameter, or use the continue token in this response to retrieve \
                       the remainder of the results. Continuing with the provided token results in an inconsistent \
                       list - objects that were created, modified, or deleted between the time the first chunk was \
                       returned and now may show up in the list.";
        Status { continues: Some(fresh.into()), ..plain(Reason::Expired, message) }
    }

    pub fn timeout(message: impl std::fmt::Display, retry_after_s: u32) -> Status {
        failure(Reason::Timeout, format!("Timeout: {message}"), retry(retry_after_s))
    }

    /// A revision that has not been yet.
    pub fn future(asked: Revision, current: Revision) -> Status {
        let mut status = Status::timeout(format!("Too large resource version: {asked}, current: {current}"), 1);
        let cause = Cause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            field: String::new(),
        };
        status.details.get_or_insert_default().causes.push(cause);
        status
    }

    pub fn unavailable(message: impl Into<String>) -> Status {
        plain(Reason::ServiceUnavailable, message)
    }

    /// The disk is full.
    pub fn insufficient_storage(message: impl Into<String>) -> Status {
        plain(Reason::InsufficientStorage, message)
    }

    pub fn is_failure(&self) -> bool {
        self.code >= 400
    }

    /// As v1 writes it.
    pub fn to_v1(&self) -> Value {
        let mut status = Map::new();
        status.insert("kind".to_owned(), json!("Status"));
        status.insert("apiVersion".to_owned(), json!("v1"));
        let mut metadata = Map::new();
        put(&mut metadata, "continue", self.continues.as_deref().unwrap_or_default());
        status.insert("metadata".to_owned(), Value::Object(metadata));
        status.insert("status".to_owned(), json!(if self.is_failure() { "Failure" } else { "Success" }));
        put(&mut status, "message", &self.message);
        put(&mut status, "reason", self.reason.map(Reason::wire).unwrap_or_default());
        if let Some(details) = &self.details {
            status.insert("details".to_owned(), details.to_v1());
        }
        if self.code != 200 {
            status.insert("code".to_owned(), json!(self.code));
        }
        Value::Object(status)
    }
}

impl Details {
    fn to_v1(&self) -> Value {
        let mut details = Map::new();
        put(&mut details, "name", &self.name);
        put(&mut details, "group", &self.group);
        put(&mut details, "kind", &self.kind);
        put(&mut details, "uid", &self.uid);
        if !self.causes.is_empty() {
            details.insert("causes".to_owned(), self.causes.iter().map(Cause::to_v1).collect());
        }
        if let Some(seconds) = self.retry_after_s {
            details.insert("retryAfterSeconds".to_owned(), json!(seconds));
        }
        Value::Object(details)
    }
}

impl Cause {
    pub fn to_v1(&self) -> Value {
        let mut cause = Map::new();
        put(&mut cause, "reason", &self.reason);
        put(&mut cause, "message", &self.message);
        put(&mut cause, "field", &self.field);
        Value::Object(cause)
    }
}

fn put(into: &mut Map<String, Value>, field: &str, text: &str) {
    if !text.is_empty() {
        into.insert(field.to_owned(), json!(text));
    }
}

fn failure(reason: Reason, message: impl Into<String>, details: Details) -> Status {
    Status {
        code: reason.code(),
        reason: Some(reason),
        message: message.into(),
        details: Some(details),
        continues: None,
    }
}

fn plain(reason: Reason, message: impl Into<String>) -> Status {
    Status { code: reason.code(), reason: Some(reason), message: message.into(), details: None, continues: None }
}

fn retry(after_s: u32) -> Details {
    Details { retry_after_s: Some(after_s), ..Details::default() }
}

fn cause_of(problem: &Problem) -> Cause {
    Cause { reason: problem.reason.wire().into(), message: problem.message(), field: problem.path.to_string() }
}

/// Two values at one place may have the same problem: people are told it once.
fn once(problems: &[Problem]) -> Vec<&Problem> {
    let mut seen: Vec<&Problem> = Vec::new();
    for problem in problems {
        if !seen.contains(&problem) {
            seen.push(problem);
        }
    }
    seen
}

/// `a` for one, `[a, b]` for several.
fn all_of(problems: &[&Problem]) -> String {
    match problems {
        [one] => one.to_string(),
        several => format!("[{}]", several.iter().map(|problem| problem.to_string()).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kinds;
    use coracle_schema::Path;

    fn check(status: Status, expected: Value) {
        assert_eq!(status.to_v1(), expected);
    }

    #[test]
    fn as_kubernetes_says_it() {
        let pods = Resource::core("pods");
        let deployments = Resource { group: "apps".into(), plural: "deployments".into() };
        check(
            Status::not_found(&pods, "x"),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "pods \"x\" not found",
                "reason": "NotFound", "details": {"name": "x", "kind": "pods"}, "code": 404}),
        );
        check(
            Status::not_found(&deployments, "nope"),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "deployments.apps \"nope\" not found",
                "reason": "NotFound", "details": {"name": "nope", "group": "apps", "kind": "deployments"},
                "code": 404}),
        );
        check(
            Status::deleted(&pods, "x", "u1"),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {"name": "x", "kind": "pods", "uid": "u1"}}),
        );
        check(
            Status::success(201),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
        );
        check(
            Status::method_not_allowed(),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "reason": "MethodNotAllowed",
                "message": "the server does not allow this method on the requested resource", "details": {},
                "code": 405}),
        );
        check(
            Status::future(Revision(99999999999), Revision(7)),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Timeout",
                "code": 504,
                "message": "Timeout: Too large resource version: 99999999999, current: 7",
                "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                    "retryAfterSeconds": 1}}),
        );
    }

    #[test]
    fn all_problems_at_once() {
        let kinds = Kinds::builtin();
        let row = kinds.by_kind("v1", "ReplicationController").unwrap();
        let selector = Problem::required(&Path::new("spec.selector"), "");
        let template = Problem::required(&Path::new("spec.template"), "");
        check(
            Status::invalid(row, "r", &[selector.clone(), template]),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Invalid",
                "code": 422,
                "message":
                "ReplicationController \"r\" is invalid: [spec.selector: Required value, spec.template: Required \
                 value]",
                "details": {"name": "r", "kind": "ReplicationController", "causes": [
                    {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.selector"},
                    {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.template"}]}}),
        );
        let twice = Status::invalid(row, "r", &[selector.clone(), selector]);
        assert_eq!(twice.details.unwrap().causes.len(), 2);
        assert_eq!(twice.message, "ReplicationController \"r\" is invalid: spec.selector: Required value");
    }
}

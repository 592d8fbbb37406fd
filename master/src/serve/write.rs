//! Create, update, update of status; and how a client's change goes into the registry.

use super::server::key;
use super::{Serve, body, document, ends, options, warn};
use crate::call::{Call, Version};
use crate::commit::{Change, CommitError, Committed, Expects, Made, Make, NamespaceError, NotStored, Outcome, Terms};
use crate::fault::Fault;
use crate::prepare::{InvalidDocument, Part, Standing};
use crate::store::Stored;
use coracle_api::meta::{Key, Resource, Revision};
use coracle_api::status::{Cause, Status};
use coracle_api::strategy;
use coracle_http::{Answer, Request, StatusCode};
use serde_json::Value;
use std::cell::Cell;

const REVISION_SET: &str = "resourceVersion should not be set on objects to be created";
const RENEWED: &str = "the file of the object that stood here is damaged, and is kept: this is a new object with a uid \
                       of its own; what the old one owned goes with it";

pub fn create(serve: &Serve, call: &Call, request: &Request) -> Result<Answer, Fault> {
    let wish = options::wish(call, &request.headers, "CreateOptions")?;
    let mut sent = body::object(serve, call, request)?;
    right_namespace(call, sent.object())?;
    name_old(serve, call, sent.object_mut());
    let make = |_: Option<Standing<'_>>| Ok(Made::document(Part::Main, sent.object().clone(), wish.ownership()));
    let change = Change::create(call.kind, &call.namespace, &make);
    let told_by_store = !wish.rehearsal && names_revision(sent.object());
    let committed = serve.registry.commit(&change, &serve.terms(call, wish.rehearsal || told_by_store));
    if told_by_store && committed.as_ref().err().is_none_or(CommitError::is_taken) {
        return Err(sent.refused(call, Fault::misread(call, REVISION_SET.to_owned())));
    }
    let committed = committed.map_err(|barred| {
        let leaving = leaving(serve, &barred);
        let mut fault = fault(call, barred);
        if leaving {
            fault.status.message.insert_str(0, "object is being deleted: ");
        }
        sent.refused(call, fault)
    })?;
    told(call, &committed);
    let mut answer = document(call, StatusCode::CREATED, &committed.stored);
    warn(&mut answer, &sent.warnings);
    warn_of_owners(&mut answer, sent.object());
    warn(&mut answer, &committed.advice);
    Ok(answer)
}

pub fn update(serve: &Serve, call: &Call, request: &Request) -> Result<Answer, Fault> {
    let wish = options::wish(call, &request.headers, "UpdateOptions")?;
    let mut sent = body::object(serve, call, request)?;
    right_namespace(call, sent.object())?;
    right_name(call, sent.object_mut())?;
    let creates = call.kind.put_creates && call.version == Version::V1;
    let renews = is_whole(call, sent.object());
    let make = |old: Option<Standing<'_>>| {
        let object = match old {
            Some(old) => sent.over(old.object, Part::Main),
            None => {
                refuse_uid(call, sent.object())?;
                refuse_no_revision(call, sent.object())?;
                sent.object().clone()
            }
        };
        Ok(Made::document(Part::Main, object, wish.ownership()))
    };
    let expects = if creates { Expects::Either } else { Expects::Object };
    let change = Change { expects, over_damaged: renews, ..change(call, &make) };
    let committed = commit(serve, call, &change, &serve.terms(call, wish.rehearsal));
    let Committed { stored, outcome, advice, .. } = committed.map_err(|fault| sent.refused(call, fault))?;
    let mut answer = document(call, code(outcome), &stored);
    warn(&mut answer, &sent.warnings);
    if outcome == Outcome::Renewed {
        warn(&mut answer, &[RENEWED.to_owned()]);
    }
    warn_of_owners(&mut answer, sent.object());
    warn(&mut answer, &advice);
    Ok(answer)
}

/// Whether a document says all of an object, whichever it is that stands there. What an older version cannot say would
/// have to stay.
fn is_whole(call: &Call, object: &Value) -> bool {
    let unnamed = |field: &str| object["metadata"][field].as_str().is_none_or(str::is_empty);
    call.version == Version::V1 && unnamed("uid") && unnamed("resourceVersion")
}

/// Warnings about duplicate owners in the document as it was sent: the stored one names each owner once.
pub fn warn_of_owners(answer: &mut Answer, object: &Value) {
    if let Some(words) = strategy::owner_references::doubled(object) {
        warn(answer, &[words]);
    }
}

/// An update of the status, or of a different part with a separate path.
pub fn update_part(serve: &Serve, call: &Call, part: Part, request: &Request) -> Result<Answer, Fault> {
    let wish = options::wish(call, &request.headers, "UpdateOptions")?;
    let mut sent = body::object(serve, call, request)?;
    right_namespace(call, sent.object())?;
    right_name(call, sent.object_mut())?;
    let kept = Cell::new(None);
    let make = |old: Option<Standing<'_>>| {
        let mut object = old.map(|old| sent.over(old.object, part)).unwrap_or_default();
        kept.set(ends::keep(call, part, &wish, old, &mut object));
        Ok(Made::document(part, object, wish.ownership()))
    };
    let terms = Terms { advised: false, ..serve.terms(call, wish.rehearsal) };
    let committed = commit(serve, call, &change(call, &make), &terms)?;
    serve.hear(call, part, &committed.stored, wish.rehearsal);
    let mut answer = document(call, StatusCode::OK, &committed.stored);
    warn(&mut answer, &sent.warnings);
    warn(&mut answer, &committed.advice);
    serve.ends.answered(&mut answer, &committed.stored, kept.take());
    Ok(answer)
}

/// A change of the object that a call names.
pub fn change<'a>(call: &'a Call<'_>, make: Make<'a, Fault>) -> Change<'a, Fault> {
    Change::update(call.kind, &call.namespace, &call.name, make)
}

/// Writes it, or says what writing would come to.
pub fn commit(serve: &Serve, call: &Call, change: &Change<'_, Fault>, terms: &Terms) -> Result<Committed, Fault> {
    let committed = serve.registry.commit(change, terms).map_err(|barred| fault(call, barred))?;
    told(call, &committed);
    Ok(committed)
}

/// Tells the audit log the name of the object and the notes of the admission.
fn told(call: &Call, committed: &Committed) {
    let mut told = call.told.borrow_mut();
    (told.name, told.notes) = (committed.stored.key.name.clone(), committed.notes.clone());
}

/// The status code of the answer to a successful write.
pub fn code(outcome: Outcome) -> StatusCode {
    if matches!(outcome, Outcome::Created | Outcome::Renewed) { StatusCode::CREATED } else { StatusCode::OK }
}

/// Why a change was not written, as its client is told.
pub fn fault(call: &Call, barred: CommitError<Fault>) -> Fault {
    match barred {
        CommitError::Writer(fault) => fault,
        CommitError::Missing => Fault::not_found(call),
        // Kubernetes names it as an object of the kind that was written.
        CommitError::NoRole(name) => Status::not_found(&call.shown.resource, &name).into(),
        CommitError::Damaged { why } => Fault::damaged(&key(call), &why),
        CommitError::NamespaceError(homeless) => homeless_fault(call, homeless),
        CommitError::InvalidDocument(unfit) => Fault::unfit(call, &call.name, unfit),
        CommitError::NoneFree { key, space } => {
            Status::conflict(&key.resource, &key.name, &format!("no free {space} was found")).into()
        }
        CommitError::Refused(not_stored) => {
            let NotStored { key, written, refused } = *not_stored;
            Fault::refused(call, &key, written.as_ref(), refused)
        }
    }
}

fn homeless_fault(call: &Call, homeless: NamespaceError) -> Fault {
    let namespace = &call.namespace;
    let key = Key { resource: Resource::core("namespaces"), namespace: String::new(), name: namespace.clone() };
    match homeless {
        NamespaceError::Missing => Status::not_found(&key.resource, namespace).into(),
        NamespaceError::Damaged { why } => Fault::damaged(&key, &why),
        NamespaceError::Forbidden { name, why } => Status::forbidden(&call.shown.resource, &name, &why).into(),
        NamespaceError::Unmade { why } => Status::internal_error(why).into(),
        NamespaceError::Ending { name } => {
            let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let mut status = Status::forbidden(&call.shown.resource, &name, &why);
            let message = format!("namespace {namespace} is being terminated");
            let cause = Cause { reason: "NamespaceTerminating".into(), message, field: "metadata.namespace".into() };
            status.details.get_or_insert_default().causes.push(cause);
            status.into()
        }
    }
}

/// Whether the object whose name is taken only waits to go.
fn leaving(serve: &Serve, barred: &CommitError<Fault>) -> bool {
    let CommitError::Refused(not_stored) = barred else { return false };
    let stands = || serve.registry.store.get(&not_stored.key).ok().flatten().and_then(|stored| parsed(&stored).ok());
    barred.is_taken() && stands().is_some_and(|object| !object["metadata"]["deletionTimestamp"].is_null())
}

pub fn parsed(stored: &Stored) -> Result<Value, Fault> {
    serde_json::from_slice(&stored.json).map_err(|error| Fault::damaged(&stored.key, &error.to_string()))
}

pub fn right_namespace(call: &Call, object: &Value) -> Result<(), Fault> {
    match object["metadata"]["namespace"].as_str() {
        Some(given) if call.kind.namespaced && !given.is_empty() && given != call.namespace => {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            Err(Fault::bad_request(message))
        }
        _ => Ok(()),
    }
}

/// The name of the path; in an older version a document may leave it out.
pub fn right_name(call: &Call, object: &mut Value) -> Result<(), Fault> {
    match object["metadata"]["name"].as_str() {
        Some(given) if !given.is_empty() && given != call.name => {
            let message =
                format!("the name of the object ({given}) does not match the name on the URL ({})", call.name);
            Err(Fault::bad_request(message))
        }
        Some(given) if !given.is_empty() => Ok(()),
        _ if call.version == Version::V1 => {
            let message = format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                call.name
            );
            Err(Fault::bad_request(message))
        }
        _ => {
            object["metadata"]["name"] = call.name.clone().into();
            Ok(())
        }
    }
}

/// A document with a uid means an object that is there.
fn refuse_uid(call: &Call, object: &Value) -> Result<(), Fault> {
    match object["metadata"]["uid"].as_str() {
        None | Some("") => Ok(()),
        Some(given) => Err(Fault::unfit(
            call,
            &call.name,
            InvalidDocument::OtherUid { given: given.to_owned(), stands: String::new() },
        )),
    }
}

/// An update that makes an object may name any revision, but it has to be one.
fn refuse_no_revision(call: &Call, object: &Value) -> Result<(), Fault> {
    match object["metadata"]["resourceVersion"].as_str().map(Revision::parse) {
        Some(Err(why)) if object["metadata"]["resourceVersion"] != "" => {
            Err(Fault::unfit(call, &call.name, InvalidDocument::NoRevision { why }))
        }
        _ => Ok(()),
    }
}

/// Whether a new object names a revision. Kubernetes' store says so, when all else is well and before it looks at the
/// name: a rehearsal never hears of it, and what is no number counts as none.
fn names_revision(object: &Value) -> bool {
    let given = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    Revision::parse(given).is_ok_and(|revision| revision != Revision(0))
}

/// Through the flat versions an object needs no name: it gets a UUID.
fn name_old(serve: &Serve, call: &Call, object: &mut Value) {
    let empty = |field: &str| object["metadata"][field].as_str().is_none_or(str::is_empty);
    if call.version.is_flat() && empty("name") && empty("generateName") {
        object["metadata"]["name"] = serve.registry.maker.uuid().into();
    }
}

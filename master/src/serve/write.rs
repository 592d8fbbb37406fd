//! Create, update, update of status.

use super::body::Document;
use super::options::Wish;
use super::{RACES_MAX, Serve, advice, body, document, namespace, options, patch, warn};
use crate::admit::{self, ledger::Barred};
use crate::call::{Call, Version};
use crate::fault::Fault;
use crate::prepare::{self, Admit, Ownership, Part, Standing, Unfit, Updated};
use crate::store::{Refused, Stored, UNSEEN, Write};
use coracle_api::meta::Key;
use coracle_api::status::Status;
use coracle_api::strategy::{self, Making};
use coracle_http::{Answer, Request, StatusCode};
use serde_json::Value;
use std::sync::PoisonError;

const RENEWED: &str = "the file of the object that stood here is damaged, and is kept: this is a new object with a uid of its own; what the \
                       old one owned goes with it";

pub fn create(serve: &Serve, call: &Call, request: &Request) -> Result<Answer, Fault> {
    let wish = options::wish(call, &request.headers, "CreateOptions")?;
    let mut sent = body::object(serve, call, request)?;
    right_namespace(call, sent.object())?;
    refuse_revision(sent.object())?;
    name_old(serve, call, sent.object_mut());
    if call.version.is_flat() {
        // A document that is refused must not leave a namespace behind.
        fit(serve, call, sent.object(), wish.ownership(), &|_, _| Ok(()))?;
    }
    let place = serve.places.read().unwrap_or_else(PoisonError::into_inner);
    namespace::ready(serve, call, sent.object())?;
    let written = make(serve, call, New::of(sent.object(), &wish), || wish.ownership());
    let written = written.map_err(|unmade| {
        let leaving = unmade.leaving(serve);
        let mut fault = unmade.fault(call);
        if leaving {
            fault.status.message.insert_str(0, "object is being deleted: ");
        }
        sent.refused(call, fault)
    })?;
    drop(place);
    let mut answer = document(call, StatusCode::CREATED, &written.stored);
    warn(&mut answer, &sent.warnings);
    warn_of_owners(&mut answer, sent.object());
    warn(&mut answer, &written.advice);
    Ok(answer)
}

pub fn update(serve: &Serve, call: &Call, request: &Request) -> Result<Answer, Fault> {
    let wish = options::wish(call, &request.headers, "UpdateOptions")?;
    let mut sent = body::object(serve, call, request)?;
    right_namespace(call, sent.object())?;
    right_name(call, sent.object_mut())?;
    let renewed = is_whole(call, sent.object()) && serve.store.get(&super::key(call)).is_err();
    let (status, written) = match replace(serve, call, Part::Main, &sent, &wish) {
        Ok(written) => (StatusCode::OK, written),
        Err(_) if renewed => {
            let _place = serve.places.read().unwrap_or_else(PoisonError::into_inner);
            namespace::ready(serve, call, sent.object())?;
            let new = New { over_damaged: true, ..New::of(sent.object(), &wish) };
            let written = make(serve, call, new, || wish.ownership());
            (StatusCode::CREATED, written.map_err(|unmade| unmade.fault(call))?)
        }
        Err(fault) if fault.status.code == 404 && call.kind.put_creates && call.version == Version::V1 => {
            refuse_uid(call, sent.object())?;
            let _place = serve.places.read().unwrap_or_else(PoisonError::into_inner);
            namespace::ready(serve, call, sent.object())?;
            let written = make(serve, call, New::of(sent.object(), &wish), || wish.ownership());
            (StatusCode::CREATED, written.map_err(|unmade| unmade.fault(call))?)
        }
        Err(fault) => return Err(sent.refused(call, fault)),
    };
    let mut answer = document(call, status, &written.stored);
    warn(&mut answer, &sent.warnings);
    if renewed && status == StatusCode::CREATED {
        warn(&mut answer, &[RENEWED.to_owned()]);
    }
    warn_of_owners(&mut answer, sent.object());
    warn(&mut answer, &written.advice);
    Ok(answer)
}

/// Whether a document says all of an object, whichever it is that stands there. What an older version cannot say would have to stay.
fn is_whole(call: &Call, object: &Value) -> bool {
    let unnamed = |field: &str| object["metadata"][field].as_str().is_none_or(str::is_empty);
    call.version == Version::V1 && unnamed("uid") && unnamed("resourceVersion")
}

/// The new object takes the place of one whose file is damaged.
fn in_place(write: Write) -> Write {
    match write {
        Write::Create { key, object, durable, claims } => Write::Update { key, object, seen: UNSEEN, durable, claims },
        write => write,
    }
}

/// Of the document as it was sent: what is stored names each owner once.
pub fn warn_of_owners(answer: &mut Answer, object: &Value) {
    if let Some(words) = strategy::meta::doubled_owners(object) {
        warn(answer, &[words]);
    }
}

/// Of the status, or of another part with a path of its own.
pub fn update_part(serve: &Serve, call: &Call, part: Part, request: &Request) -> Result<Answer, Fault> {
    let wish = options::wish(call, &request.headers, "UpdateOptions")?;
    let mut sent = body::object(serve, call, request)?;
    right_namespace(call, sent.object())?;
    right_name(call, sent.object_mut())?;
    let Written { stored, .. } = replace(serve, call, part, &sent, &wish)?;
    patch::heard(serve, call, part, &stored, wish.rehearsal);
    let mut answer = document(call, StatusCode::OK, &stored);
    warn(&mut answer, &sent.warnings);
    Ok(answer)
}

/// What a create or an update came to.
pub struct Written {
    pub stored: Stored,
    /// What its writer is told of it.
    pub advice: Vec<String>,
}

/// Why nothing was made.
pub enum Unmade {
    /// The store refused it: its key, what of what was to be written has to be shown, why.
    Refused(Key, Option<Value>, Box<Refused>),
    Fault(Fault),
}

impl Unmade {
    /// Whether the object whose name is taken only waits to go.
    fn leaving(&self, serve: &Serve) -> bool {
        let Unmade::Refused(key, _, refused) = self else { return false };
        let stands = || serve.store.get(key).ok().flatten().and_then(|stored| parsed(&stored).ok());
        matches!(**refused, Refused::Exists { .. }) && stands().is_some_and(|object| !object["metadata"]["deletionTimestamp"].is_null())
    }

    fn fault(self, call: &Call) -> Fault {
        match self {
            Unmade::Refused(key, written, refused) => Fault::refused(call, &key, written.as_ref(), *refused),
            Unmade::Fault(fault) => fault,
        }
    }
}

/// What is to be made.
pub struct New<'a> {
    pub object: &'a Value,
    /// Everything is to be done but the writing.
    pub rehearsal: bool,
    /// It takes the place of one whose file is damaged.
    pub over_damaged: bool,
}

impl<'a> New<'a> {
    pub fn of(object: &'a Value, wish: &Wish) -> New<'a> {
        New { object, rehearsal: wish.rehearsal, over_damaged: false }
    }
}

/// Stores a new object. A name, address or port that the server chose and somebody else took meanwhile is chosen anew.
pub fn make<'o>(serve: &Serve, call: &Call, new: New<'_>, ownership: impl Fn() -> Ownership<'o>) -> Result<Written, Unmade> {
    let New { object, rehearsal, over_damaged } = new;
    let named = object["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty());
    let mut last = None;
    for _ in 0..RACES_MAX {
        let view = &*serve.store;
        let admit = |stage, object: &mut Value| admit::create(&view, call.kind, &call.namespace, stage, object);
        let mut write = fit(serve, call, object, ownership(), &admit).map_err(Unmade::Fault)?;
        if over_damaged {
            write = in_place(write);
        }
        let (key, advice, written) = (key_of(&write), advised(call, object_of(&write)), to_show(&write));
        let outcome = match serve.charge(call.kind, write, None, rehearsal) {
            Err(Barred::Forbidden(why)) => return Err(Unmade::Fault(Status::forbidden(&key.resource, &key.name, &why).into())),
            Err(Barred::Refused(refused)) => Err(refused),
            Ok(stored) => Ok(stored),
        };
        // Where both its name and its token are taken, the token tells more.
        if matches!(outcome, Err(Refused::Exists { .. }))
            && let Some(first) = written.as_ref().and_then(|object| first_with_token(serve, call, object))
        {
            return Err(Unmade::Fault(Fault::token_used(call, &first)));
        }
        match outcome {
            Ok(stored) => {
                if !rehearsal {
                    namespace::furnish_new(serve, call, &stored);
                }
                return Ok(Written { stored, advice });
            }
            Err(Refused::Exists { .. }) if !named => last = Some(Status::already_exists(&key.resource, &key.name)),
            Err(Refused::Claimed { claim, .. }) if !claim.space.starts_with("creationToken/") && !holds(object, &claim.value) => {
                last = Some(Status::conflict(&key.resource, &key.name, &format!("no free {} was found", claim.space)));
            }
            Err(refused) => return Err(Unmade::Refused(key, written, Box::new(refused))),
        }
    }
    Err(Unmade::Fault(last.unwrap_or_else(|| Status::internal_error("nothing was written")).into()))
}

/// The object that came of the first create with this one's token.
fn first_with_token(serve: &Serve, call: &Call, object: &Value) -> Option<Key> {
    let token = strategy::creation_token(&call.kind.resource.plural, object)?;
    serve.store.claimed(&token.space).into_iter().find(|(value, _)| *value == token.value).map(|(_, owner)| owner)
}

/// What a create would write.
fn fit(serve: &Serve, call: &Call, object: &Value, ownership: Ownership<'_>, admit: Admit<'_>) -> Result<Write, Fault> {
    let (rules, namespace) = (serve.rules(call), &call.namespace);
    let made = |making: &mut Making<'_>| prepare::create_admitted(call.kind, namespace, object.clone(), rules, making, ownership, admit);
    let write = serve.maker.making(made);
    write.map_err(|unfit| Fault::unfit(call, object["metadata"]["name"].as_str().unwrap_or_default(), unfit))
}

fn key_of(write: &Write) -> Key {
    match write {
        Write::Create { key, .. } | Write::Update { key, .. } | Write::Delete { key, .. } => key.clone(),
    }
}

fn advised(call: &Call, object: Option<&Value>) -> Vec<String> {
    object.map(|object| advice(call, object)).unwrap_or_default()
}

fn object_of(write: &Write) -> Option<&Value> {
    match write {
        Write::Create { object, .. } | Write::Update { object, .. } => Some(object),
        Write::Delete { .. } => None,
    }
}

/// What a refusal would show of what was to be written: where a claim stands in it, if it makes any.
fn to_show(write: &Write) -> Option<Value> {
    match write {
        Write::Create { object, claims, .. } | Write::Update { object, claims, .. } if !claims.is_empty() => Some(object.clone()),
        Write::Create { .. } | Write::Update { .. } => Some(Value::Null),
        Write::Delete { .. } => None,
    }
}

/// Whether a document names the value of a claim itself: `10.96.0.7`, `TCP/30080`.
fn holds(document: &Value, value: &str) -> bool {
    let value = value.rsplit('/').next().unwrap_or(value);
    match document {
        Value::Object(fields) => fields.values().any(|field| holds(field, value)),
        Value::Array(items) => items.iter().any(|item| holds(item, value)),
        Value::String(text) => text == value,
        Value::Number(number) => number.to_string() == value,
        Value::Null | Value::Bool(_) => false,
    }
}

/// Replaces what stands, or its status. A client that named no revision means whatever stands: for it a lost race is run again.
fn replace(serve: &Serve, call: &Call, part: Part, sent: &Document, wish: &Wish) -> Result<Written, Fault> {
    for _ in 0..RACES_MAX {
        let old = serve.standing(call)?;
        let standing = parsed(&old)?;
        let new = sent.over(&standing, part);
        match put(serve, call, Place { old: &old, standing: &standing, part }, new, wish.ownership(), wish.rehearsal) {
            Ok(written) => return Ok(written),
            Err(Lost::Race) if !names_revision(sent.object()) => {}
            Err(Lost::Race) => return Err(Fault::stale(call)),
            Err(Lost::Fault(fault)) => return Err(*fault),
        }
    }
    Err(Fault::stale(call))
}

fn names_revision(object: &Value) -> bool {
    object["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty() && version != "0")
}

pub enum Lost {
    /// Somebody wrote between the reading and the writing.
    Race,
    Fault(Box<Fault>),
}

impl From<Fault> for Lost {
    fn from(fault: Fault) -> Lost {
        Lost::Fault(Box::new(fault))
    }
}

/// What is written over, parsed, and which part of it.
pub struct Place<'a> {
    pub old: &'a Stored,
    pub standing: &'a Value,
    pub part: Part,
}

pub fn put(serve: &Serve, call: &Call, place: Place<'_>, new: Value, ownership: Ownership<'_>, rehearsal: bool) -> Result<Written, Lost> {
    let Place { old, standing, part } = place;
    let old = Standing { key: &old.key, revision: old.revision, object: standing };
    let write = serve.maker.making(|making| prepare::update_owned(call.kind, old, part, new, serve.rules(call), making, ownership));
    let Updated { write, last } = write.map_err(|unfit| Lost::from(Fault::unfit(call, &call.name, unfit)))?;
    let forbidden = |why: String| Lost::from(Fault::from(Status::forbidden(&old.key.resource, &old.key.name, &why)));
    if let Some(object) = object_of(&write).filter(|_| part == Part::Main) {
        admit::update(&&*serve.store, call.kind, &old.key.namespace, object, standing).map_err(forbidden)?;
    }
    let (advice, written) = (advised(call, last.as_ref().or(object_of(&write))), to_show(&write));
    let stored = serve.charge(call.kind, write, Some(standing), rehearsal).map_err(|barred| match barred {
        Barred::Forbidden(why) => forbidden(why),
        Barred::Refused(Refused::Stale { .. }) => Lost::Race,
        Barred::Refused(refused) => Lost::from(Fault::refused(call, old.key, written.as_ref(), refused)),
    })?;
    // It went, and the client is shown how.
    Ok(match last {
        Some(mut last) => Written { stored: Stored::of(stored.key.clone(), stored.revision, &mut last), advice },
        None => Written { stored, advice },
    })
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
            let message = format!("the name of the object ({given}) does not match the name on the URL ({})", call.name);
            Err(Fault::bad_request(message))
        }
        Some(given) if !given.is_empty() => Ok(()),
        _ if call.version == Version::V1 => {
            let message = format!("the name of the object ({} based on URL) was undeterminable: name must be provided", call.name);
            Err(Fault::bad_request(message))
        }
        _ => {
            object["metadata"]["name"] = call.name.clone().into();
            Ok(())
        }
    }
}

/// Who names a uid means an object that is there.
fn refuse_uid(call: &Call, object: &Value) -> Result<(), Fault> {
    match object["metadata"]["uid"].as_str() {
        None | Some("") => Ok(()),
        Some(given) => Err(Fault::unfit(call, &call.name, Unfit::OtherUid { given: given.to_owned(), stands: String::new() })),
    }
}

fn refuse_revision(object: &Value) -> Result<(), Fault> {
    match object["metadata"]["resourceVersion"].as_str() {
        None | Some("" | "0") => Ok(()),
        Some(_) => Err(Fault::bad_request("resourceVersion should not be set on objects to be created")),
    }
}

/// Through the flat versions an object needs no name: it gets a UUID.
fn name_old(serve: &Serve, call: &Call, object: &mut Value) {
    let empty = |field: &str| object["metadata"][field].as_str().is_none_or(str::is_empty);
    if call.version.is_flat() && empty("name") && empty("generateName") {
        object["metadata"]["name"] = serve.maker.uuid().into();
    }
}

//! Delete: at once, or marked to go when its grace is over or its finalizers are gone. One object, or all that a
//! selector names.

use super::{Serve, body, document, finish, options, read, selector, warn, write};
use crate::call::{Call, Version};
use crate::commit::{Change, CommitError, Committed, Made, Outcome};
use crate::fault::Fault;
use crate::making::wall_clock;
use crate::prepare::{self, InvalidDocument, Preconditions, Standing};
use crate::render;
use coracle_api::meta::Resource;
use coracle_api::status::Status;
use coracle_api::strategy::{Deleting, DeletionPropagation};
use coracle_api::types::MACHINERY;
use coracle_http::{Answer, Request, StatusCode};
use coracle_schema::{Path, Problem, Reason};
use serde::Deserialize;
use serde_json::{Value, json};

/// The DeleteOptions of any group and version.
const OPTIONS: body::Expected<'static> =
    body::Expected { group: "", version: "", kind: "DeleteOptions", type_name: "DeleteOptions", types: &MACHINERY };
/// The source line that Kubernetes names in refusals of unknown option kinds.
const SCHEME: &str = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27";

/// The options of a deletion, from the body or the query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wishes {
    pub grace_s: Option<i64>,
    pub preconditions: Preconditions,
    /// None: the request names no propagation policy.
    pub fate: Option<DeletionPropagation>,
    pub rehearsal: bool,
    /// It was said in the word of before 2017, which asks for a 202 where the object stays for a while.
    accepted: bool,
}

pub fn delete(serve: &Serve, call: &Call, request: &Request) -> Result<Answer, Fault> {
    let wishes = wishes(serve, call, request)?;
    let Committed { stored, mut outcome, .. } = one(serve, call, &call.name, &wishes)?;
    if outcome == Outcome::GivenUp {
        if !wishes.rehearsal {
            log::warn!("{} was damaged; a DELETE has given it up", stored.key);
        }
        return Ok(answer(call, &unknown(&call.name)));
    }
    if outcome != Outcome::Gone && call.version != Version::V1 && !wishes.rehearsal && finish::settled(serve, &stored) {
        outcome = Outcome::Gone;
    }
    let mut answer = match outcome {
        _ if call.version.is_flat() => answer(call, &write::parsed(&stored)?),
        Outcome::Gone if !call.kind.delete_shows => answer(call, &write::parsed(&stored)?),
        Outcome::Gone => document(call, StatusCode::OK, &stored),
        _ if wishes.accepted => document(call, StatusCode::ACCEPTED, &stored),
        _ => document(call, StatusCode::OK, &stored),
    };
    warn_of_dependents(&mut answer, call, &wishes);
    Ok(answer)
}

/// Deletes all selected objects, one by one: an object that is already gone at its turn is no error. The answer is the
/// list from before the deletions.
pub fn collection(serve: &Serve, call: &Call, request: &Request) -> Result<Answer, Fault> {
    let wishes = wishes(serve, call, request)?;
    let selector = selector::of(call)?;
    let page = read::page(serve, call, &selector)?;
    // Each deletion waits for a disk; the others' lists do not wait for them.
    let read::ListPage { meta, items, room, .. } = page;
    drop(room);
    for stored in &items {
        match one(serve, call, &stored.key.name, &wishes) {
            Err(fault) if fault.status.code != 404 => return Err(fault),
            Ok(_) | Err(_) => {}
        }
    }
    let _room = serve.lists.room_at_last(call.party, &items);
    let mut answer =
        super::shown_as(call, StatusCode::OK, render::list(call.form, call.shown, &meta, items, wall_clock()));
    warn_of_dependents(&mut answer, call, &wishes);
    Ok(answer)
}

fn warn_of_dependents(answer: &mut Answer, call: &Call, wishes: &Wishes) {
    if let Some(words) = call.kind.parting.filter(|_| wishes.fate.is_none() && call.version == Version::V1) {
        warn(answer, &[words.to_owned()]);
    }
}

/// Deletes the object of this name in the call's namespace. A damaged object, of which nobody can say more than its
/// name, is given up by a plain DELETE, as `/readyz?verbose` advises. One with preconditions meant a certain object,
/// and nobody can say whether it is that.
pub fn one(serve: &Serve, call: &Call, name: &str, wishes: &Wishes) -> Result<Committed, Fault> {
    let deleting = Deleting { grace_s: wishes.grace_s, now: wall_clock() };
    let make = |old: Option<Standing<'_>>| {
        let Some(old) = old else { return Ok(Made::Gone) };
        let departure = prepare::depart(call.kind, old, &wishes.preconditions, deleting, wishes.fate);
        departure.map(Made::from).map_err(|unfit| unfit_to_go(call, name, unfit))
    };
    let over_damaged = !call.name.is_empty() && wishes.preconditions == Preconditions::default();
    let change = Change { over_damaged, ..Change::delete(call.kind, &call.namespace, name, &make) };
    let committed = serve.registry.commit(&change, &serve.terms(call, wishes.rehearsal));
    committed.map_err(|barred| match barred {
        CommitError::Missing => Status::not_found(&call.shown.resource, name).into(),
        barred => write::fault(call, barred),
    })
}

/// All that is known of a damaged object.
fn unknown(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// Whether this is the object that the preconditions mean.
pub fn meant(call: &Call, old: Standing<'_>, preconditions: &Preconditions) -> Result<(), Fault> {
    prepare::meant(old, preconditions).map_err(|unfit| unfit_to_go(call, &old.key.name, unfit))
}

/// Preconditions that do not hold: Kubernetes tells of them by the kind.
fn unfit_to_go(call: &Call, name: &str, unfit: InvalidDocument) -> Fault {
    let kind = Resource { plural: call.shown.kind.clone(), group: call.shown.resource.group.clone() };
    match unfit {
        InvalidDocument::OtherUid { given, stands } => Status::other_uid(&kind, name, &given, &stands).into(),
        InvalidDocument::OtherRevision { given, stands } => Status::other_revision(&kind, name, &given, stands).into(),
        unfit => Fault::unfit(call, name, unfit),
    }
}

fn answer(call: &Call, object: &Value) -> Answer {
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    let status = Status::deleted(&call.shown.resource, &call.name, uid);
    super::shown(call, StatusCode::OK, render::deleted(call.form, &status))
}

/// The options of a deletion, from the body or else from the query; `dryRun` is heeded wherever it stands. (Kubernetes
/// hears nothing of the query where there is a body.)
fn wishes(serve: &Serve, call: &Call, request: &Request) -> Result<Wishes, Fault> {
    let options = &call.options;
    let empty = request.body.iter().all(u8::is_ascii_whitespace);
    let mut sent = if empty { json!({}) } else { sent_options(serve, call, request)? };
    if empty && !call.name.is_empty() && call.version == Version::V1 {
        let version = Some(&options.resource_version).filter(|version| !version.is_empty());
        sent["preconditions"] = json!({"uid": options.uid, "resourceVersion": version});
    }
    if sent["gracePeriodSeconds"].is_null() {
        sent["gracePeriodSeconds"] = json!(options.grace_s);
    }
    if sent["propagationPolicy"].is_null() && sent["orphanDependents"].is_null() {
        sent["propagationPolicy"] = json!(options.propagation);
        sent["orphanDependents"] = json!(options.orphan);
    }
    asked(&sent, &options.dry_run)
}

fn sent_options(serve: &Serve, call: &Call, request: &Request) -> Result<Value, Fault> {
    let body::BodyText { document: mut sent, twice, turn: _turn, .. } = body::read(serve, call, request, OPTIONS)
        .map_err(|mut fault| {
            // Kubernetes reads options another way than objects, and says less.
            let plain = fault
                .status
                .message
                .split_once("): ")
                .map(|(_, why)| why.rsplit_once(" (").map_or(why, |(why, _)| why).to_owned());
            if let Some(why) = plain.filter(|_| fault.status.message.starts_with("the object provided is unrecognized"))
            {
                fault.status.message = why;
            }
            fault
        })?;
    // A word said twice could be the wrong one, and what is deleted stays so.
    if let Some(field) = twice.first() {
        return Err(Fault::bad_request(format!("DeleteOptions: duplicate field {:?}", field.as_str())));
    }
    // The schema is that of every version: those of before said the same in the same words. `dryRun: All`, as the query
    // has it, is no list.
    let decoded = coracle_schema::decode(OPTIONS.types, OPTIONS.type_name, &mut sent);
    if let Some(why) = decoded.message() {
        return Err(Fault::bad_request(why));
    }
    let version = sent["apiVersion"].as_str().unwrap_or_default();
    if let Some(kind) = sent["kind"].as_str().filter(|kind| !kind.is_empty() && *kind != "DeleteOptions") {
        return Err(Fault::bad_request(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme {SCHEME:?}"
        )));
    }
    // Every version of objects has options of its own, which all say the same. Kubernetes minds it for collections
    // alone.
    let known =
        || matches!(version, "" | "v1" | "meta.k8s.io/v1") || call.kinds.iter().any(|row| row.api_version() == version);
    if call.version == Version::V1 && call.name.is_empty() && !known() {
        let why =
            format!("no kind \"DeleteOptions\" is registered for version {version:?} in scheme {:?}", body::SCHEME);
        return Err(Fault::bad_request(why));
    }
    Ok(sent)
}

/// DeleteOptions as `Wishes` reads them, of the right types since they went through their schema.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Sent {
    grace_period_seconds: Option<i64>,
    preconditions: Preconditions,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
    dry_run: Vec<String>,
}

/// DeleteOptions, from wherever they come. What cannot be read is refused and never passed over: what is deleted stays
/// so.
pub fn asked(sent: &Value, dry_run: &[String]) -> Result<Wishes, Fault> {
    let sent = Option::<Sent>::deserialize(sent)
        .map_err(|why| Fault::bad_request(format!("DeleteOptions: {why}")))?
        .unwrap_or_default();
    let (policy, orphan) = (sent.propagation_policy, sent.orphan_dependents);
    let fate = policy.as_deref().and_then(DeletionPropagation::parse);
    let mut problems = Vec::new();
    if let Some(policy) = &policy {
        let path = Path::new("propagationPolicy");
        if orphan.is_some() {
            problems.push(Problem::invalid(
                &path,
                policy.as_str(),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        if fate.is_none() {
            let known: Vec<String> = DeletionPropagation::WIRE.iter().map(|(name, _)| format!("{name:?}")).collect();
            let words = format!("supported values: {}, \"nil\"", known.join(", "));
            problems.push(Problem::new(&path, Reason::NotSupported, Some(policy.as_str().into()), words));
        }
    }
    if !problems.is_empty() {
        return Err(options::wrong("DeleteOptions", &problems));
    }
    Ok(Wishes {
        grace_s: sent.grace_period_seconds,
        preconditions: sent.preconditions,
        fate:
            fate.or(
                orphan.map(|orphan| if orphan { DeletionPropagation::Orphan } else { DeletionPropagation::Background })
            ),
        rehearsal: options::is_rehearsal(&[dry_run, &sent.dry_run].concat(), "DeleteOptions")?,
        accepted: orphan == Some(false),
    })
}

//! Delete: at once, or marked to go when its grace is over or its finalizers are gone.

use super::dependents::{self, Fate};
use super::{RACES_MAX, Serve, body, document, namespace, options, write};
use crate::call::Call;
use crate::fault::Fault;
use crate::prepare::{self, Preconditions, Standing};
use crate::render;
use crate::store::{Refused, Write};
use coracle_api::meta::Revision;
use coracle_api::status::Status;
use coracle_api::strategy::Deleting;
use coracle_http::{Answer, Request, StatusCode};
use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};
use std::sync::PoisonError;

/// Of any group and version.
const OPTIONS: body::Wanted<'static> = body::Wanted { group: "", version: "", kind: "DeleteOptions", type_name: "DeleteOptions" };

/// What a client says of a deletion, in a body or in the query.
struct Wishes {
    grace_s: Option<i64>,
    preconditions: Preconditions,
    fate: Fate,
    rehearsal: bool,
}

pub fn delete(serve: &Serve, call: &Call, request: &Request) -> Result<Answer, Fault> {
    let options = wishes(call, request)?;
    let _places = namespace::is_one(call.kind).then(|| serve.places.write().unwrap_or_else(PoisonError::into_inner));
    if serve.store.get(&super::key(call)).is_err() && options.preconditions == Preconditions::default() {
        return give_up(serve, call, options.rehearsal);
    }
    for _ in 0..RACES_MAX {
        let old = serve.standing(call)?;
        let object = write::parsed(&old)?;
        let standing = Standing { key: &old.key, revision: old.revision, object: &object };
        let deleting = Deleting { grace_s: options.grace_s, now: crate::making::wall_clock() };
        if namespace::is_one(call.kind) {
            namespace::may_go(serve, &object)?;
        }
        let write = prepare::delete(call.kind, standing, &options.preconditions, deleting);
        let write = write.map_err(|unfit| Fault::unfit(call, &call.name, unfit))?;
        let gone = matches!(write, Write::Delete { .. });
        let written = serve.commit(write, options.rehearsal);
        if gone && written.is_ok() && !options.rehearsal && call.kind.owns {
            dependents::settle(serve, &old.key, object["metadata"]["uid"].as_str().unwrap_or_default(), options.fate);
        }
        match written {
            Ok(_) if call.version.is_flat() || (gone && !call.kind.delete_shows) => return Ok(answer(call, &object)),
            Ok(stored) => return Ok(document(call, StatusCode::OK, &stored)),
            Err(Refused::Stale { .. }) => {}
            Err(refused) => return Err(Fault::refused(call, &old.key, None, refused)),
        }
    }
    Err(Fault::stale(call))
}

/// A damaged object, of which nobody can say more than its name: a plain DELETE settles it, as `/healthz?verbose` advises. One with
/// preconditions meant a certain object, and nobody can say whether this is the one.
fn give_up(serve: &Serve, call: &Call, rehearsal: bool) -> Result<Answer, Fault> {
    let (key, unknown) = (super::key(call), json!({"metadata": {"name": call.name}}));
    if namespace::is_one(call.kind) {
        namespace::may_go(serve, &unknown)?;
    }
    match serve.commit(Write::Delete { key: key.clone(), seen: Revision(0) }, rehearsal) {
        Ok(_) if rehearsal => Ok(answer(call, &unknown)),
        Ok(_) => {
            log::warn!("{key} was damaged; a DELETE has given it up");
            Ok(answer(call, &unknown))
        }
        Err(refused) => Err(Fault::refused(call, &key, None, refused)),
    }
}

fn answer(call: &Call, object: &Value) -> Answer {
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    let status = Status::deleted(&call.shown.resource, &call.name, uid);
    super::shown(call, StatusCode::OK, render::deleted(call.form, &status))
}

/// Options in the body win over those in the query.
fn wishes(call: &Call, request: &Request) -> Result<Wishes, Fault> {
    let mut dry_run = call.options.dry_run.clone();
    let mut options =
        Wishes { grace_s: call.options.grace_s, preconditions: Preconditions::default(), fate: Fate::Orphan, rehearsal: false };
    let mut policy = call.options.propagation.clone();
    if !request.body.iter().all(u8::is_ascii_whitespace) {
        let (sent, twice) = body::read(call, request, OPTIONS)?;
        // A word said twice could be the wrong one, and what is deleted stays so.
        if let Some(field) = twice.first() {
            return Err(Fault::bad_request(format!("DeleteOptions: duplicate field {:?}", field.as_str())));
        }
        if let Some(kind) = sent["kind"].as_str().filter(|kind| !kind.is_empty() && *kind != "DeleteOptions") {
            return Err(Fault::bad_request(format!("{kind} cannot be handled as DeleteOptions")));
        }
        for run in sent["dryRun"].as_array().into_iter().flatten() {
            let run = run.as_str().ok_or_else(|| Fault::bad_request("DeleteOptions: dryRun must be a list of strings"))?;
            dry_run.push(run.to_owned());
        }
        options.grace_s = number(&sent, "gracePeriodSeconds")?.or(options.grace_s);
        let preconditions = &sent["preconditions"];
        options.preconditions.uid = text(preconditions, "uid")?;
        options.preconditions.resource_version = text(preconditions, "resourceVersion")?;
        let older = sent["orphanDependents"].as_bool().map(|orphan| if orphan { "Orphan" } else { "Background" }.to_owned());
        policy = text(&sent, "propagationPolicy")?.or(older).or(policy);
    }
    options.rehearsal = options::is_rehearsal(&dry_run, "DeleteOptions")?;
    options.fate = policy.map_or(Ok(Fate::Orphan), |policy| fate(&policy))?;
    Ok(options)
}

/// Foreground would keep the owner until all that it owns is gone; that is not served, and not passed over.
fn fate(policy: &str) -> Result<Fate, Fault> {
    match policy {
        "Orphan" => Ok(Fate::Orphan),
        "Background" => Ok(Fate::Delete),
        other => {
            let path = Path::new("propagationPolicy");
            let problem = Problem::new(&path, Reason::NotSupported, Some(other.into()), "supported values: \"Background\", \"Orphan\"");
            Err(Status::invalid_of("meta.k8s.io", "DeleteOptions", "", &[problem]).into())
        }
    }
}

fn number(of: &Value, field: &str) -> Result<Option<i64>, Fault> {
    match &of[field] {
        Value::Null => Ok(None),
        value => value.as_i64().map(Some).ok_or_else(|| Fault::bad_request(format!("DeleteOptions: {field} must be a whole number"))),
    }
}

fn text(of: &Value, field: &str) -> Result<Option<String>, Fault> {
    match &of[field] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        _ => Err(Fault::bad_request(format!("DeleteOptions: {field} must be a string"))),
    }
}

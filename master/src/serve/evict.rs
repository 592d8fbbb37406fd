//! Eviction: a deletion that asks what guards the object first.

use super::delete::{self, Wishes};
use super::{RACES_MAX, Serve, body, options, patch, shown, write};
use crate::call::Call;
use crate::fault::Fault;
use crate::making::wall_clock;
use crate::prepare::{self, Part, Standing};
use crate::render;
use crate::store::{Refused, Stored};
use coracle_api::kinds::Kind;
use coracle_api::meta::Key;
use coracle_api::status::{Cause, Details, Reason, Status};
use coracle_api::strategy::eviction::{self, Verdict};
use coracle_http::{Answer, Request, StatusCode};
use serde_json::Value;

const EVICTION: body::Wanted<'static> = body::Wanted { group: "policy", version: "v1", kind: "Eviction", type_name: "policy.v1.Eviction" };
/// Whoever counts budgets should have counted a new one by then.
const AGAIN_S: u32 = 10;

pub fn evict(serve: &Serve, call: &Call, request: &Request) -> Result<Answer, Fault> {
    let mut rehearsal = options::rehearsal(call, "CreateOptions")?;
    let sent = body::document(serve, call, request, EVICTION)?;
    write::right_namespace(call, sent.object())?;
    if sent.object()["metadata"]["name"] != *call.name {
        return Err(Fault::bad_request("name in URL does not match name in Eviction object"));
    }
    serve.standing(call)?;
    let mut wishes = delete::asked(&sent.object()["deleteOptions"], &[])?;
    rehearsal |= wishes.rehearsal;
    wishes.rehearsal = rehearsal;
    for _ in 0..RACES_MAX {
        let old = serve.standing(call)?;
        let object = write::parsed(&old)?;
        match eviction::judge(&object, &budgets(serve, call)?, wall_clock()) {
            Verdict::Goes { at_this_state } => {
                if go(serve, call, &old, &object, &wishes, at_this_state)? {
                    return Ok(done(call));
                }
            }
            Verdict::Counted(budget) => {
                if count(serve, call, budget, rehearsal)? {
                    return finish(serve, call, &wishes);
                }
            }
            Verdict::Refused { why, processing } => return Err(refused(why, processing)),
            Verdict::Forbidden { budget, why } => {
                return Err(Status::forbidden(&guard(serve, call)?.resource, &budget, &why).into());
            }
            Verdict::TooManyBudgets => {
                let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(patch::nameless(why.to_owned()));
            }
        }
    }
    Err(Fault::stale(call))
}

/// The disruption is counted: now the object goes, whatever becomes of it meanwhile.
fn finish(serve: &Serve, call: &Call, wishes: &Wishes) -> Result<Answer, Fault> {
    for _ in 0..RACES_MAX {
        let old = serve.standing(call)?;
        let object = write::parsed(&old)?;
        if go(serve, call, &old, &object, wishes, false)? {
            return Ok(done(call));
        }
    }
    Err(Fault::stale(call))
}

fn done(call: &Call) -> Answer {
    shown(call, StatusCode::CREATED, render::status(call.form, &Status::success(201)))
}

/// False: somebody else wrote it meanwhile.
fn go(serve: &Serve, call: &Call, old: &Stored, object: &Value, wishes: &Wishes, at_this_state: bool) -> Result<bool, Fault> {
    let mut wishes = wishes.clone();
    delete::meant(call, old, object, &wishes)?;
    if !wishes.rehearsal {
        let standing = Standing { key: &old.key, revision: old.revision, object };
        let doomed = eviction::doomed(object, wall_clock());
        let write = serve.maker.making(|making| prepare::update(call.kind, standing, Part::Status, doomed, serve.rules(call), making));
        let write = write.map_err(|unfit| Fault::unfit(call, &call.name, unfit))?;
        let marked = match serve.store.write(write) {
            Ok(marked) => marked,
            Err(Refused::Stale { .. }) => return Ok(false),
            Err(refused) => return Err(Fault::refused(call, &old.key, None, refused)),
        };
        // The preconditions held for what stood there before it was told why it goes.
        wishes.preconditions.resource_version = at_this_state.then(|| marked.revision.to_string());
    }
    match delete::one(serve, call, &call.name, &wishes) {
        Ok(_) => Ok(true),
        Err(fault) if at_this_state && fault.status.reason == Some(Reason::Conflict) => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// The budget with one disruption less. False: somebody else counted meanwhile.
fn count(serve: &Serve, call: &Call, budget: Value, rehearsal: bool) -> Result<bool, Fault> {
    if rehearsal {
        return Ok(true);
    }
    let kind = guard(serve, call)?;
    let name = budget["metadata"]["name"].as_str().unwrap_or_default();
    let key = super::key_of(kind, &call.namespace, name);
    let Some(old) = serve.store.get(&key).map_err(|damaged| Fault::damaged(&key, &damaged.why))? else { return Ok(false) };
    let object = write::parsed(&old)?;
    let standing = Standing { key: &key, revision: old.revision, object: &object };
    // It names the revision that was judged.
    let write = serve.maker.making(|making| prepare::update(kind, standing, Part::Status, budget, serve.rules(call), making));
    let write = match write {
        Err(prepare::Unfit::Stale) => return Ok(false),
        write => write.map_err(|unfit| Fault::unfit(call, &call.name, unfit))?,
    };
    match serve.store.write(write) {
        Ok(_) => Ok(true),
        Err(Refused::Stale { .. } | Refused::Missing) => Ok(false),
        Err(refused) => Err(Fault::refused(call, &key, None, refused)),
    }
}

/// All budgets of the namespace. One that nobody can read may guard the object.
fn budgets(serve: &Serve, call: &Call) -> Result<Vec<Value>, Fault> {
    let listed = serve.store.list(&guard(serve, call)?.resource, Some(&call.namespace));
    if let Some(key) = listed.damaged.first() {
        return Err(Fault::damaged(&Key::clone(key), "it may guard what is to be evicted"));
    }
    listed.items.iter().map(write::parsed).collect()
}

fn guard<'s>(serve: &'s Serve, call: &Call) -> Result<&'s Kind, Fault> {
    let row = call.kind.guards.and_then(|(version, kind)| serve.kinds.by_kind(version, kind));
    row.ok_or_else(|| Status::internal_error("nothing is known that guards it").into())
}

fn refused(why: String, processing: bool) -> Fault {
    let mut status = Status::bad_request("Cannot evict pod as it would violate the pod's disruption budget.");
    let cause = Cause { reason: "DisruptionBudget".into(), message: why, ..Cause::default() };
    let details = Details { causes: vec![cause], retry_after_s: processing.then_some(AGAIN_S), ..Details::default() };
    (status.code, status.reason, status.details) = (Reason::TooManyRequests.code(), Some(Reason::TooManyRequests), Some(details));
    status.into()
}

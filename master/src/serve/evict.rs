//! Eviction: a deletion that asks what guards the object first.

use super::delete::{self, Wishes};
use super::{Serve, body, options, shown, write};
use crate::call::Call;
use crate::commit::{Change, CommitError, Failed, Made, Terms, attempted};
use crate::fault::Fault;
use crate::making::wall_clock;
use crate::prepare::{InvalidDocument, Ownership, Part, Standing};
use crate::render;
use coracle_api::kinds::Kind;
use coracle_api::meta::{Key, Revision};
use coracle_api::status::{Cause, Details, Reason, Status};
use coracle_api::strategy::eviction::{self, EvictionVerdict};
use coracle_api::types::MACHINERY;
use coracle_http::{Answer, Request, StatusCode};
use serde_json::Value;

const EVICTION: body::Expected<'static> = body::Expected {
    group: "policy",
    version: "v1",
    kind: "Eviction",
    type_name: "policy.v1.Eviction",
    types: &MACHINERY,
};
/// Whoever counts budgets should have counted a new one by then.
const AGAIN_S: u32 = 10;

pub fn evict(serve: &Serve, call: &Call, request: &Request) -> Result<Answer, Fault> {
    let mut rehearsal = options::rehearsal(call, "CreateOptions")?;
    let mut sent = body::document(serve, call, request, EVICTION)?;
    write::right_namespace(call, sent.object())?;
    let about = ("eviction", call.namespace.as_str(), call.name.as_str());
    let admitted = serve.registry.admits(call.kind, about, sent.object_mut(), &request.identity);
    admitted.map_err(|refusal| Fault::unfit(call, &call.name, refusal))?;
    if sent.object()["metadata"]["name"] != *call.name {
        return Err(Fault::bad_request("name in URL does not match name in Eviction object"));
    }
    serve.standing(call)?;
    let mut wishes = delete::asked(&sent.object()["deleteOptions"], &[])?;
    rehearsal |= wishes.rehearsal;
    wishes.rehearsal = rehearsal;
    attempted(|| {
        let old = serve.standing(call)?;
        let object = write::parsed(&old)?;
        match eviction::judge(&object, &budgets(serve, call)?, wall_clock()) {
            EvictionVerdict::Goes { at_this_state } => {
                delete::meant(
                    call,
                    Standing { key: &old.key, revision: old.revision, object: &object },
                    &wishes.preconditions,
                )?;
                go(serve, call, &wishes, Some(Judged { revision: old.revision, at_this_state }))
            }
            EvictionVerdict::Counted(budget) => {
                if !rehearsal {
                    count(serve, call, &budget)?;
                }
                // The disruption is counted: now the object is deleted, even if a client has changed the object
                // meanwhile.
                go(serve, call, &wishes, None)
            }
            EvictionVerdict::Refused { why, processing } => Err(refused(why, processing).into()),
            EvictionVerdict::Forbidden { budget, why } => {
                Err(Fault::from(Status::forbidden(&guard(call)?.resource, &budget, &why)).into())
            }
            EvictionVerdict::TooManyBudgets => {
                let why =
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                Err(Fault::nameless(why.to_owned()).into())
            }
        }
    })
}

/// The decision about an object.
struct Judged {
    /// Of the object that was looked at.
    revision: Revision,
    /// It may go at this revision alone.
    at_this_state: bool,
}

/// Marks the object and deletes it. `judged`: one that is another by now has to be judged again.
fn go(serve: &Serve, call: &Call, wishes: &Wishes, judged: Option<Judged>) -> Result<Answer, Failed<Fault>> {
    let lost = |fault: Fault, again: bool| match fault.status.reason {
        Some(Reason::Conflict) if again => Failed::Race(fault),
        _ => Failed::Finally(fault),
    };
    let (mut wishes, mut at_this_state) = (wishes.clone(), false);
    let make = |old: Option<Standing<'_>>| {
        let Some(old) = old.filter(|old| judged.as_ref().is_none_or(|judged| judged.revision == old.revision)) else {
            return Err(Fault::stale(call));
        };
        delete::meant(call, old, &wishes.preconditions)?;
        Ok(Made::document(Part::Status, eviction::doomed(old.object, wall_clock()), Ownership::Untold))
    };
    if !wishes.rehearsal {
        let terms = Terms { advised: false, ..serve.terms(call, false) };
        let marked = write::commit(serve, call, &write::change(call, &make), &terms)
            .map_err(|fault| lost(fault, judged.is_some()))?;
        at_this_state = judged.is_some_and(|judged| judged.at_this_state);
        // The preconditions held for what stood there before it was told why it goes.
        wishes.preconditions.resource_version = at_this_state.then(|| marked.stored.revision.to_string());
    }
    delete::one(serve, call, &call.name, &wishes).map_err(|fault| lost(fault, at_this_state))?;
    Ok(shown(call, StatusCode::CREATED, render::status(call.form, &Status::success(201))))
}

/// Writes the budget with one disruption less. It names the revision that was judged: where somebody else counted
/// meanwhile, all is judged again.
fn count(serve: &Serve, call: &Call, budget: &Value) -> Result<(), Failed<Fault>> {
    let name = budget["metadata"]["name"].as_str().unwrap_or_default();
    let make = |_: Option<Standing<'_>>| Ok(Made::document(Part::Status, budget.clone(), Ownership::Untold));
    let change = Change::update(guard(call)?, &call.namespace, name, &make);
    match serve.registry.commit(&change, &Terms { advised: false, ..serve.terms(call, false) }) {
        Ok(_) => Ok(()),
        Err(CommitError::Missing | CommitError::InvalidDocument(InvalidDocument::Stale)) => {
            Err(Failed::Race(Fault::stale(call)))
        }
        Err(CommitError::Damaged { why }) => Err(Fault::damaged(&change.key(), &why).into()),
        Err(barred) => Err(write::fault(call, barred).into()),
    }
}

/// All budgets of the namespace. An unreadable budget is an error, because the budget may guard the object.
fn budgets(serve: &Serve, call: &Call) -> Result<Vec<Value>, Fault> {
    let listed = serve.registry.store.list(&guard(call)?.resource, Some(&call.namespace));
    if let Some(key) = listed.damaged.first() {
        return Err(Fault::damaged(&Key::clone(key), "it may guard what is to be evicted"));
    }
    listed.items.iter().map(write::parsed).collect()
}

fn guard<'k>(call: &Call<'k>) -> Result<&'k Kind, Fault> {
    let row = call.kind.guards.and_then(|(version, kind)| call.kinds.by_kind(version, kind));
    row.ok_or_else(|| Status::internal_error("nothing is known that guards it").into())
}

fn refused(why: String, processing: bool) -> Fault {
    let mut status = Status::bad_request("Cannot evict pod as it would violate the pod's disruption budget.");
    let cause = Cause { reason: "DisruptionBudget".into(), message: why, ..Cause::default() };
    let details = Details { causes: vec![cause], retry_after_s: processing.then_some(AGAIN_S), ..Details::default() };
    (status.code, status.reason, status.details) =
        (Reason::TooManyRequests.code(), Some(Reason::TooManyRequests), Some(details));
    status.into()
}

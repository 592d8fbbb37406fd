//! The scale of an object: how many replicas are wanted and seen, in a document of its own. A write of it is a write of that one number.

use super::apply;
use super::options::{self, Wish};
use super::patch;
use super::write::{self, Lost, Place};
use super::{RACES_MAX, Serve, bind, body, shown, warn};
use crate::call::Call;
use crate::fault::Fault;
use crate::making::wall_clock;
use crate::prepare::{Ownership, Part};
use crate::render;
use crate::store::Stored;
use coracle_api::kinds::{Kind, Kinds, Scale};
use coracle_api::meta::Resource;
use coracle_api::status::Status;
use coracle_api::strategy::scale;
use coracle_http::{Answer, Request, StatusCode};
use coracle_schema::apply::{Fields, Managed};
use serde_json::Value;

pub fn get(serve: &Serve, call: &Call) -> Result<Answer, Fault> {
    let stored = serve.standing(call).map_err(|fault| match places(call).map(|scale| scale.unread) {
        Ok(Some(group)) if fault.status.code == 404 => {
            let plural = format!("{}/scale", call.kind.resource.plural);
            Status::not_found(&Resource { group: group.into(), plural: plural.into() }, &call.name).into()
        }
        _ => fault,
    })?;
    answer(call, &Kinds::scale(), &stored)
}

pub fn update(serve: &Serve, call: &Call, request: &Request) -> Result<Answer, Fault> {
    let row = Kinds::scale();
    let as_scale = bind::of(call, &row, &call.name);
    let wish = options::wish(&as_scale, &request.headers, "UpdateOptions")?;
    let mut sent = body::object(serve, &as_scale, request)?;
    write::right_namespace(call, sent.object())?;
    write::right_name(call, sent.object_mut())?;
    let named = sent.object()["metadata"]["resourceVersion"].as_str().is_some_and(|version| !matches!(version, "" | "0"));
    for _ in 0..RACES_MAX {
        let old = serve.standing(call)?;
        let standing = write::parsed(&old)?;
        match put(serve, call, &as_scale, (&old, &standing), sent.object(), wish.ownership(), wish.rehearsal) {
            Ok(stored) => return told(call, &row, &stored, &sent.warnings),
            Err(Lost::Race) if !named => {}
            Err(Lost::Race) => break,
            Err(Lost::Fault(fault)) => return Err(*fault),
        }
    }
    Err(Fault::stale(call))
}

pub fn patch(serve: &Serve, call: &Call, request: &Request) -> Result<Answer, Fault> {
    let row = Kinds::scale();
    let as_scale = bind::of(call, &row, &call.name);
    let language = patch::language(request)?;
    let wish = match language {
        None => apply::wish(&as_scale, request)?,
        Some(_) => options::wish(&as_scale, &request.headers, "PatchOptions")?,
    };
    let said = match language {
        None => Said::Applied(apply::read(serve, &request.body)?),
        Some(language) => {
            patch::refuse_force(call)?;
            Said::Patch(patch::read(language, &request.body)?)
        }
    };
    for _ in 0..=patch::RACES_LOST_MAX {
        let old = serve.standing(call)?;
        let standing = write::parsed(&old)?;
        let live = scale::shown(places(call)?, &standing);
        let (new, warnings, ownership) = match &said {
            Said::Patch((patch, twice)) => {
                let (new, warnings) = patch::patched(&as_scale, patch, &live, twice)?;
                (new, warnings, wish.ownership())
            }
            Said::Applied(config) => applied(call, &as_scale, (&standing, live), &config.value, &config.twice, &wish)?,
        };
        match put(serve, call, &as_scale, (&old, &standing), &new, ownership, wish.rehearsal) {
            Ok(stored) => return told(call, &row, &stored, &warnings),
            Err(Lost::Race) => {}
            Err(Lost::Fault(fault)) => return Err(*fault),
        }
    }
    Err(Fault::stale(call))
}

/// What a client says of a change, and what of it it says twice.
enum Said {
    Patch((patch::Patch, Vec<String>)),
    Applied(apply::Config),
}

/// Who owns the number of replicas owns it in both documents.
fn applied<'w>(
    call: &Call,
    as_scale: &Call,
    (standing, mut live): (&Value, Value),
    config: &Value,
    twice: &[String],
    wish: &'w Wish,
) -> Result<(Value, Vec<String>, Ownership<'w>), Fault> {
    let (here, there) = (Fields::named(&[places(call)?.wanted]), Fields::named(&["spec.replicas"]));
    let managed = Managed::of(standing);
    managed.through(&here, &there, &as_scale.kind.api_version()).put(&mut live);
    let laid = apply::laid_over(as_scale, Part::Scale, &live, config, wish)?;
    let (new, warnings) = apply::typed(as_scale, config, laid.object, twice)?;
    let managed = managed.back(&laid.managed, &here, &call.kind.api_version());
    Ok((new, warnings, Ownership::Applied(managed)))
}

fn put(
    serve: &Serve,
    call: &Call,
    as_scale: &Call,
    (old, standing): (&Stored, &Value),
    scale: &Value,
    ownership: Ownership<'_>,
    rehearsal: bool,
) -> Result<Stored, Lost> {
    let mut placed = scale.clone();
    placed["metadata"]["namespace"] = call.namespace.clone().into();
    let problems = (as_scale.kind.strategy.validate)(&placed, serve.rules(call));
    if !problems.is_empty() {
        return Err(Lost::from(Fault::invalid(as_scale, as_scale.kind, &call.name, problems)));
    }
    let new = scale::over(places(call).map_err(Lost::from)?, standing, scale);
    write::put(serve, call, Place { old, standing, part: Part::Scale }, new, ownership, rehearsal).map(|written| written.stored)
}

fn places<'k>(call: &Call<'k>) -> Result<&'k Scale, Fault> {
    call.kind.scale.as_ref().ok_or_else(|| Status::unknown_path().into())
}

fn told(call: &Call, row: &Kind, stored: &Stored, warnings: &[String]) -> Result<Answer, Fault> {
    let mut answer = answer(call, row, stored)?;
    warn(&mut answer, warnings);
    Ok(answer)
}

fn answer(call: &Call, row: &Kind, stored: &Stored) -> Result<Answer, Fault> {
    let scale = scale::shown(places(call)?, &write::parsed(stored)?);
    Ok(shown(call, StatusCode::OK, render::document(call.form, &row.type_name, &scale, wall_clock())))
}

//! The scale of an object: the wanted and the observed number of replicas, in a separate document. A write of the scale
//! writes only the wanted number.

use super::apply;
use super::options::{self, WriteOptions};
use super::patch;
use super::write;
use super::{Serve, bind, body, shown, warn};
use crate::call::Call;
use crate::commit::{Committed, Made, Make, Terms};
use crate::fault::Fault;
use crate::making::wall_clock;
use crate::prepare::{Ownership, Part, Standing};
use crate::render::{self, Message};
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
    let make = |old: Option<Standing<'_>>| {
        let standing = old.map_or(&Value::Null, |old| old.object);
        Ok(Made::document(Part::Scale, over(serve, call, &as_scale, standing, sent.object())?, wish.ownership()))
    };
    let stored = put(serve, call, &make, wish.rehearsal)?.stored;
    warned_answer(call, &row, &stored, &sent.warnings)
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
    let make = |old: Option<Standing<'_>>| {
        let standing = old.map_or(&Value::Null, |old| old.object);
        let live = scale::shown(places(call)?, standing);
        let (scale, warnings, ownership) = match &said {
            Said::Patch((patch, twice)) => {
                let (new, warnings) = patch::patched(&as_scale, patch, &live, twice)?;
                (new, warnings, wish.ownership())
            }
            Said::Applied(config) => applied(call, &as_scale, (standing, live), &config.value, &config.twice, &wish)?,
        };
        Ok(Made::Document {
            part: Part::Scale,
            object: over(serve, call, &as_scale, standing, &scale)?,
            ownership,
            warnings,
        })
    };
    let Committed { stored, warnings, .. } = put(serve, call, &make, wish.rehearsal)?;
    warned_answer(call, &row, &stored, &warnings)
}

/// A client's change, and its duplicate fields.
enum Said {
    Patch((patch::Patch, Vec<String>)),
    Applied(apply::AppliedConfig),
}

/// The owner of the number of replicas owns it in both documents.
fn applied<'w>(
    call: &Call,
    as_scale: &Call,
    (standing, mut live): (&Value, Value),
    config: &Value,
    twice: &[String],
    wish: &'w WriteOptions,
) -> Result<(Value, Vec<String>, Ownership<'w>), Fault> {
    let (here, there) = (Fields::named(&[places(call)?.wanted]), Fields::named(&["spec.replicas"]));
    let managed = Managed::of(standing);
    managed.through(&here, &there, &as_scale.kind.api_version()).put(&mut live);
    let laid = apply::laid_over(as_scale, Part::Scale, &live, config, wish)?;
    let (new, warnings) = apply::typed(as_scale, config, laid.object, twice)?;
    let managed = managed.back(&laid.managed, &here, &call.kind.api_version());
    Ok((new, warnings, Ownership::Applied(managed)))
}

/// The object with the number that a scale says, if that can be one.
fn over(serve: &Serve, call: &Call, as_scale: &Call, standing: &Value, scale: &Value) -> Result<Value, Fault> {
    let mut placed = scale.clone();
    placed["metadata"]["namespace"] = call.namespace.clone().into();
    let problems = as_scale.kind.strategy.validate(&placed, serve.rules(call));
    if !problems.is_empty() {
        return Err(Fault::invalid(as_scale, as_scale.kind, &call.name, problems));
    }
    Ok(scale::over(places(call)?, standing, scale))
}

fn put<'a>(serve: &Serve, call: &'a Call<'_>, make: Make<'a, Fault>, rehearsal: bool) -> Result<Committed, Fault> {
    let terms = Terms { advised: false, ..serve.terms(call, rehearsal) };
    write::commit(serve, call, &write::change(call, make), &terms)
}

fn places<'k>(call: &Call<'k>) -> Result<&'k Scale, Fault> {
    call.kind.scale.as_ref().ok_or_else(|| Status::unknown_path().into())
}

fn warned_answer(call: &Call, row: &Kind, stored: &Stored, warnings: &[String]) -> Result<Answer, Fault> {
    let mut answer = answer(call, row, stored)?;
    warn(&mut answer, warnings);
    Ok(answer)
}

fn answer(call: &Call, row: &Kind, stored: &Stored) -> Result<Answer, Fault> {
    let scale = scale::shown(places(call)?, &write::parsed(stored)?);
    Ok(shown(call, StatusCode::OK, render::document(call.form, Message::of(row), &scale, wall_clock())))
}

//! Patch: what a client says of a change is done to what stands, and the outcome goes the way of a PUT.

use super::{Serve, apply, body, document, ends, options, warn, write};
use crate::call::{Call, Version};
use crate::commit::Made;
use crate::fault::Fault;
use crate::prepare::{Part, Standing};
use coracle_api::old;
use coracle_api::status::{Reason, Status};
use coracle_api::strategy;
use coracle_api::types;
use coracle_http::{Answer, Request, StatusCode, header};
use coracle_schema::patch::{self, Unpatched};
use coracle_schema::{Path, Problem};
use serde_json::{Map, Value};
use std::cell::Cell;

/// The limit for an invalid outcome that is shown to the client.
const SHOWN_BYTES_MAX: usize = 64 << 10;

/// The languages that a patch may be written in, by their content types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Json,
    Merge,
    Strategic,
}

/// None: a configuration that is applied. The last one is what kubectl of 2015 called the merge patch.
const LANGUAGES: [(&str, Option<Language>); 5] = [
    ("application/json-patch+json", Some(Language::Json)),
    ("application/merge-patch+json", Some(Language::Merge)),
    ("application/strategic-merge-patch+json", Some(Language::Strategic)),
    ("application/apply-patch+yaml", None),
    ("application/merge-json-patch+json", Some(Language::Merge)),
];

/// A patch, read.
pub enum Patch {
    Json(Vec<patch::json::Operation>),
    Merge(Value),
    Strategic(Map<String, Value>),
}

pub fn patch(serve: &Serve, call: &Call, part: Part, request: &Request) -> Result<Answer, Fault> {
    let language = match language(request)? {
        Some(language) => language,
        None if call.version != Version::V1 => return Err(unknown_language()),
        None => return apply::apply(serve, call, part, request),
    };
    let wish = options::wish(call, &request.headers, "PatchOptions")?;
    refuse_force(call)?;
    // That nothing is there is told before what is wrong with the patch.
    serve.standing(call)?;
    let (patch, twice) = read(language, &request.body)?;
    let kept = Cell::new(None);
    let make = |old: Option<Standing<'_>>| {
        let standing = old.map_or(&Value::Null, |old| old.object);
        let (mut object, mut warnings) = match call.version {
            Version::V1 => patched(call, &patch, standing, &twice)?,
            Version::Old(version) => patched_old(call, version, part, &patch, standing)?,
        };
        kept.set(ends::keep(call, part, &wish, old, &mut object));
        warnings.extend(strategy::owner_references::doubled(&object));
        Ok(Made::Document { part, object, ownership: wish.ownership(), warnings })
    };
    let committed = write::commit(serve, call, &write::change(call, &make), &serve.terms(call, wish.rehearsal))?;
    serve.hear(call, part, &committed.stored, wish.rehearsal);
    let mut answer = document(call, StatusCode::OK, &committed.stored);
    warn(&mut answer, &committed.warnings);
    warn(&mut answer, &committed.advice);
    serve.ends.answered(&mut answer, &committed.stored, kept.take());
    Ok(answer)
}

/// None: apply.
pub fn language(request: &Request) -> Result<Option<Language>, Fault> {
    let named = request.headers.get(header::CONTENT_TYPE).and_then(|named| named.to_str().ok()).unwrap_or_default();
    let named = named.split(';').next().unwrap_or_default().trim();
    let known = LANGUAGES.iter().find(|(name, _)| name.eq_ignore_ascii_case(named));
    known.map(|(_, language)| *language).ok_or_else(unknown_language)
}

fn unknown_language() -> Fault {
    let mut status = Status::unsupported_media_type("");
    status.message = "415: Unsupported Media Type".to_owned();
    status.details = Some(Default::default());
    status.into()
}

pub fn refuse_force(call: &Call) -> Result<(), Fault> {
    if call.options.force.is_none() {
        return Ok(());
    }
    Err(options::wrong(
        "PatchOptions",
        &[Problem::forbidden(&Path::new("force"), "may not be specified for non-apply patch")],
    ))
}

/// Returns the patch, and the warnings about duplicate and meaningless fields.
pub fn read(language: Language, bytes: &[u8]) -> Result<(Patch, Vec<String>), Fault> {
    let malformed = |why: String| match language {
        Language::Strategic => Fault::bad_request(why),
        Language::Json | Language::Merge => Fault::bad_request(format!("error decoding patch: {why}")),
    };
    let (value, twice) = coracle_schema::read(bytes).map_err(|error| malformed(body::json_error(bytes, &error)))?;
    let twice = twice.iter().map(|path| format!("duplicate field {:?}", path.as_str()));
    match language {
        Language::Json if value.is_null() => Ok((Patch::Json(Vec::new()), Vec::new())),
        Language::Json => {
            let twice = twice.map(|field| format!("json patch {field}"));
            let (operations, unknown) = patch::json::parse(value).map_err(|why| match why {
                Unpatched::Malformed(why) => malformed(why),
                other => unpatched(other),
            })?;
            let unknown = unknown.iter().map(|path| format!("json patch unknown field {:?}", path.as_str()));
            Ok((Patch::Json(operations), twice.chain(unknown).collect()))
        }
        Language::Merge | Language::Strategic => match value {
            Value::Object(map) if language == Language::Strategic => Ok((Patch::Strategic(map), twice.collect())),
            Value::Object(_) => Ok((Patch::Merge(value), twice.collect())),
            Value::Null if language == Language::Strategic => Ok((Patch::Strategic(Map::new()), twice.collect())),
            Value::Null => Err(Fault::bad_request("Invalid JSON Patch")),
            other => {
                let kind = coracle_schema::json_kind(&other);
                Err(malformed(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")))
            }
        },
    }
}

/// The document that a patch makes, of the right types, and what the client is warned of.
pub fn patched(call: &Call, patch: &Patch, standing: &Value, twice: &[String]) -> Result<(Value, Vec<String>), Fault> {
    let mut made = made(call, patch, standing.clone())?;
    if let Some(why) = body::other_kind(call.kinds, body::Expected::of(call.shown), &made) {
        return Err(refused(call, patch, standing, &body::BodyError::of(why)));
    }
    // A patch may name another version of the kind: the document counts as converted from that version.
    if made["apiVersion"].is_string() {
        made["apiVersion"] = call.shown.api_version().into();
    }
    let (mut object, warnings) =
        body::typed(call, call.shown, made, twice).map_err(|why| refused(call, patch, standing, &why))?;
    body::right_kind(call.kinds, body::Expected::of(call.shown), &object)?;
    if let Some(alias) = call.shown.alias {
        (alias.read)(&mut object);
    }
    write::right_namespace(call, &object)?;
    write::right_name(call, &mut object)?;
    Ok((object, warnings))
}

/// A patch in an older version is done to what that version shows; the outcome is a PUT in that version.
fn patched_old(
    call: &Call,
    version: old::Version,
    part: Part,
    patch: &Patch,
    standing: &Value,
) -> Result<(Value, Vec<String>), Fault> {
    let mut shown = old::encode(version, standing);
    let changed = match (patch, &mut shown) {
        (Patch::Json(operations), _) => patch::json::apply(shown, operations).map_err(unpatched)?,
        (Patch::Merge(over), _) => {
            patch::merge(&mut shown, over.clone());
            shown
        }
        (Patch::Strategic(over), Value::Object(shown)) => {
            let patched = old::patched(version, &call.kind.kind, std::mem::take(shown), over.clone());
            Value::Object(patched.map_err(Fault::bad_request)?)
        }
        (Patch::Strategic(_), _) => return Err(Status::internal_error("an object is no map").into()),
    };
    let mut sent = body::older(call, version, &changed)?;
    write::right_namespace(call, sent.object())?;
    write::right_name(call, sent.object_mut())?;
    Ok((sent.over(standing, part), sent.warnings))
}

fn made(call: &Call, patch: &Patch, mut object: Value) -> Result<Value, Fault> {
    if let Some(alias) = call.shown.alias {
        (alias.show)(&mut object);
    }
    match patch {
        Patch::Json(operations) => patch::json::apply(object, operations).map_err(unpatched),
        Patch::Merge(over) => {
            patch::merge(&mut object, over.clone());
            Ok(object)
        }
        // The patch applies to the fields of this kind and cannot change the kind.
        Patch::Strategic(over) => {
            let own = ["apiVersion", "kind"].map(|field| (field, object[field].clone()));
            let applied = patch::strategic::apply(&call.shown.types, &call.shown.type_name, object, over.clone());
            let mut made = applied.map_err(unpatched)?;
            own.into_iter().for_each(|(field, value)| made[field] = value);
            Ok(made)
        }
    }
}

/// What came out is no document of the kind: it is made once more, to be shown.
fn refused(call: &Call, patch: &Patch, standing: &Value, why: &body::BodyError) -> Fault {
    let touched = match patch {
        Patch::Strategic(over) => return misshapen(&patch::shown(&Value::Object(over.clone())), &why.restored()),
        Patch::Json(operations) => patch::touched(operations),
        Patch::Merge(over) => over.clone(),
    };
    match made(call, patch, standing.clone()) {
        Ok(object) => misshapen(&in_order(call, &object, &touched), &why.message),
        Err(fault) => fault,
    }
}

/// A document as Kubernetes shows one that did not come out right.
fn in_order(call: &Call, object: &Value, touched: &Value) -> String {
    coracle_schema::order::in_type_order(&call.shown.types, &call.shown.type_name, object, Some(touched), &types::MOVED)
}

fn unpatched(why: Unpatched) -> Fault {
    match why {
        Unpatched::Malformed(why) => Fault::bad_request(why),
        Unpatched::TooLarge(why) => {
            let mut status = Status::too_large(0);
            status.message = format!("Request entity too large: {why}");
            status.into()
        }
        // Kubernetes keeps the reason to itself, and so do its clients' expectations.
        Unpatched::Failed(why) => {
            log::debug!("a patch was refused: {why}");
            let mut status = Status::bad_request("the server rejected our request due to an error in our request");
            (status.code, status.reason, status.details) =
                (Reason::Invalid.code(), Some(Reason::Invalid), Some(Default::default()));
            status.into()
        }
        Unpatched::Unmergeable(why) => Fault::nameless(why),
    }
}

/// What came out is no document of the kind. `shown`: what came out, or what was to be done.
pub fn misshapen(shown: &str, why: &str) -> Fault {
    let end = (0..=SHOWN_BYTES_MAX.min(shown.len())).rev().find(|at| shown.is_char_boundary(*at)).unwrap_or_default();
    let problem = Problem::invalid(&Path::new("patch"), &shown[..end], why);
    Status::invalid_of("", "", "", &[problem]).into()
}

//! Server-side apply: a client says the fields that it cares for. What that comes to is decided by the types
//! (`coracle_schema::apply`); it then goes the way of a create or a PUT, with its owners.

use super::options::{self, WriteOptions};
use super::turns::Turn;
use super::{Serve, body, document, patch, warn, write};
use crate::call::Call;
use crate::commit::{Change, Expects, Made, Outcome};
use crate::fault::Fault;
use crate::prepare::{self, Ownership, Part, Standing};
use coracle_api::status::{Cause, Details, Reason, Status};
use coracle_http::{Answer, Request};
use coracle_schema::apply::{self, Applied, Conflict, Refusal};
use coracle_schema::{Path, Problem, yaml};
use serde_json::Value;
use std::borrow::Cow;

pub fn apply(serve: &Serve, call: &Call, part: Part, request: &Request) -> Result<Answer, Fault> {
    let wish = wish(call, request)?;
    let AppliedConfig { value: config, twice, _turn } = read(serve, &request.body)?;
    let make = |old: Option<Standing<'_>>| {
        let live = match old {
            Some(old) => in_form(call, old.object),
            None => {
                refuse_uid(call, &config)?;
                Cow::Owned(apply::zero(&call.shown.types, &call.shown.type_name))
            }
        };
        let applied = laid_over(call, part, &live, &config, &wish)?;
        let (object, warnings) = typed(call, &config, applied.object, &twice)?;
        Ok(Made::Document { part, object, ownership: Ownership::Applied(applied.managed), warnings })
    };
    let expects = if part == Part::Main { Expects::Either } else { Expects::Object };
    let change = Change { expects, ..write::change(call, &make) };
    let committed = write::commit(serve, call, &change, &serve.terms(call, wish.rehearsal))?;
    if committed.outcome != Outcome::Created {
        serve.hear(call, part, &committed.stored, wish.rehearsal);
    }
    let mut answer = document(call, write::code(committed.outcome), &committed.stored);
    warn(&mut answer, &committed.warnings);
    warn(&mut answer, &committed.advice);
    Ok(answer)
}

/// The stored object, in the client's version.
fn in_form<'o>(call: &Call, object: &'o Value) -> Cow<'o, Value> {
    let mut live = Cow::Borrowed(object);
    if let Some(alias) = call.shown.alias {
        (alias.show)(live.to_mut());
    }
    live
}

/// An apply creates a missing object, unless the document has a uid, which means an earlier object.
fn refuse_uid(call: &Call, config: &Value) -> Result<(), Fault> {
    let uid = config["metadata"]["uid"].as_str().unwrap_or_default();
    if uid.is_empty() {
        return Ok(());
    }
    let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
    Err(Status::conflict(&call.kind.resource, &call.name, &why).into())
}

/// An apply must name its field manager.
pub fn wish<'k>(call: &Call<'k>, request: &Request) -> Result<WriteOptions<'k>, Fault> {
    if call.options.field_manager.as_deref().unwrap_or_default().is_empty() {
        return Err(options::wrong(
            "PatchOptions",
            &[Problem::required(&Path::new("fieldManager"), "is required for apply patch")],
        ));
    }
    options::wish(call, &request.headers, "PatchOptions")
}

pub fn laid_over(call: &Call, part: Part, live: &Value, config: &Value, wish: &WriteOptions) -> Result<Applied, Fault> {
    let now = crate::making::wall_clock();
    let force = call.options.force.unwrap_or_default();
    prepare::with_writer(call.shown, part, &wish.manager, now, |writer| {
        apply::apply(&call.shown.types, live, config, writer, force)
    })
    .map_err(|refusal| refused(call, config, refusal))
}

pub fn typed(call: &Call, config: &Value, object: Value, twice: &[String]) -> Result<(Value, Vec<String>), Fault> {
    let sent = object.to_string();
    let (mut object, warnings) = body::typed(call, call.shown, object, twice).map_err(|why| match why.strict {
        true => patch::misshapen(&sent, &why.message),
        false => unconverted(call, config, &why),
    })?;
    if let Some(alias) = call.shown.alias {
        (alias.read)(&mut object);
    }
    write::right_namespace(call, &object)?;
    write::right_name(call, &mut object)?;
    Ok((object, warnings))
}

/// The applied configuration of a client.
pub struct AppliedConfig {
    pub value: Value,
    pub twice: Vec<String>,
    /// The share of memory for a document that may be larger than its body.
    pub _turn: Option<Turn>,
}

/// JSON is YAML, but for its speed.
pub fn read(serve: &Serve, bytes: &[u8]) -> Result<AppliedConfig, Fault> {
    let text = String::from_utf8_lossy(bytes);
    let (mut of_yaml, mut _turn) = (Vec::new(), None);
    let json = text.trim_start().starts_with('{').then(|| coracle_schema::read(text.as_bytes()).ok()).flatten();
    let (value, twice) = match json {
        Some(read) => read,
        None => {
            let reading = serve.turns.take()?;
            let read = yaml::read(&text).map_err(|why| Fault::bad_request(format!("error decoding YAML: {why}")))?;
            of_yaml = if read.1.is_empty() { Vec::new() } else { yaml::twice(&text, 0) };
            _turn = yaml::may_repeat(&text).then_some(reading);
            read
        }
    };
    let twice = match of_yaml.is_empty() {
        false => of_yaml,
        true => twice.iter().map(|path| format!("duplicate field {:?}", path.as_str())).collect(),
    };
    match value {
        Value::Object(_) => Ok(AppliedConfig { value, twice, _turn }),
        Value::Null => Ok(AppliedConfig { value: Value::Object(Default::default()), twice, _turn }),
        other => {
            let kind = coracle_schema::json_kind(&other);
            let why = format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into Go value of type \
                 map[string]interface {{}}"
            );
            Err(Fault::bad_request(format!("error decoding YAML: {why}")))
        }
    }
}

/// The refusal of an apply whose outcome has values that the kind cannot hold.
fn unconverted(call: &Call, config: &Value, why: &body::BodyError) -> Fault {
    let (version, kind, why) = (grouped(call), &call.kind.kind, why.restored());
    Fault::nameless(format!(
        "failed to convert new object ({}) to proper version: unable to convert unstructured object to {version}, \
         Kind={kind}: {why}",
        identity(call, config)
    ))
}

fn grouped(call: &Call) -> String {
    let version = call.shown.api_version();
    if version.contains('/') { version } else { format!("/{version}") }
}

/// The name of the applied document in messages.
fn identity(call: &Call, config: &Value) -> String {
    let text = |field: &str| config["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}; {}, Kind={}", text("namespace"), text("name"), grouped(call), call.kind.kind)
}

fn refused(call: &Call, config: &Value, refusal: Refusal) -> Fault {
    match refusal {
        Refusal::Malformed(why) => Fault::bad_request(why),
        Refusal::Mistyped(why) => {
            Fault::nameless(format!("failed to create typed patch object ({}): {why}", identity(call, config)))
        }
        Refusal::Conflicts(conflicts) => {
            let cause = |conflict: &Conflict| Cause {
                reason: "FieldManagerConflict".into(),
                message: format!("conflict with {}", conflict.owner.shown()),
                field: conflict.path.clone(),
            };
            let details = Details { causes: conflicts.iter().map(cause).collect(), ..Details::default() };
            let message = conflict_message(&conflicts);
            let mut status = Status::bad_request(message);
            (status.code, status.reason, status.details) =
                (Reason::Conflict.code(), Some(Reason::Conflict), Some(details));
            status.into()
        }
    }
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.owner.shown(), only.path);
    }
    let mut owners: Vec<String> = conflicts.iter().map(|conflict| conflict.owner.shown()).collect();
    owners.sort();
    owners.dedup();
    let mut lines = Vec::new();
    for owner in owners {
        let paths = conflicts
            .iter()
            .filter(|conflict| conflict.owner.shown() == owner)
            .map(|conflict| format!("- {}", conflict.path));
        lines.push(format!("conflicts with {owner}:"));
        lines.extend(paths);
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

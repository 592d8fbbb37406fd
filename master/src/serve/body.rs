//! The document in a request's body, decoded to v1 and of the right types.

use crate::call::{Call, FieldValidation, Version};
use crate::fault::Fault;
use coracle_api::status::Status;
use coracle_api::types;
use coracle_api::v1beta1::{self, DecodeError, Decoded};
use coracle_http::{HeaderMap, Request, header};
use coracle_schema::Path;
use serde_json::Value;

/// Unknown and double fields that one answer tells of; the rest is counted.
const WARNINGS_MAX: usize = 32;

/// The object that a create or an update sends.
pub struct Document {
    sent: Sent,
    /// What its schema does not know, and was dropped.
    pub warnings: Vec<String>,
}

enum Sent {
    V1(Value),
    V1beta1(Decoded),
}

impl Document {
    /// As v1.
    pub fn object(&self) -> &Value {
        match &self.sent {
            Sent::V1(object) => object,
            Sent::V1beta1(decoded) => &decoded.object,
        }
    }

    pub fn object_mut(&mut self) -> &mut Value {
        match &mut self.sent {
            Sent::V1(object) => object,
            Sent::V1beta1(decoded) => &mut decoded.object,
        }
    }

    /// What a PUT of it leaves of what stands: the version that said it says only what it can.
    pub fn over(&self, standing: &Value) -> Value {
        match &self.sent {
            Sent::V1(object) => object.clone(),
            Sent::V1beta1(decoded) => v1beta1::merge_put(standing, decoded),
        }
    }
}

/// What the schema of the kind does not know, or stands there twice, is refused, warned of or dropped, as asked.
pub fn object(call: &Call, request: &Request) -> Result<Document, Fault> {
    let (document, twice) = json(call, request)?;
    let (sent, unknown) = match call.version {
        Version::V1 => {
            right_kind(call, &document)?;
            let (mut object, unknown) = shape(call, document)?;
            if let Some(alias) = call.shown.alias {
                (alias.read)(&mut object);
            }
            (Sent::V1(object), unknown)
        }
        Version::V1beta1 => {
            let mut decoded = decode(call, &document)?;
            let unknown = decoded.unknown.iter().map(unknown).collect();
            // Amounts and times come into the one form in which they are stored.
            decoded.object = shape(call, decoded.object)?.0;
            (Sent::V1beta1(decoded), unknown)
        }
    };
    let twice = twice.iter().map(|path| format!("duplicate field {:?}", path.as_str()));
    let unknown: Vec<String> = twice.chain(unknown).collect();
    match call.options.field_validation {
        FieldValidation::Strict if !unknown.is_empty() => {
            let kind = &call.shown.kind;
            let version = if call.version == Version::V1 { "v1" } else { "v1beta1" };
            let unknown = shortened(unknown).join(", ");
            let message = format!("{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {unknown}");
            Err(Fault::bad_request(message))
        }
        FieldValidation::Warn | FieldValidation::Strict => Ok(Document { sent, warnings: told(call, shortened(unknown)) }),
        FieldValidation::Ignore => Ok(Document { sent, warnings: told(call, Vec::new()) }),
    }
}

/// And what is to be said of the kind.
fn told(call: &Call, mut warnings: Vec<String>) -> Vec<String> {
    warnings.extend(call.kind.warning());
    warnings
}

/// Any JSON object in a body, and its fields that stand there twice.
pub fn json(call: &Call, request: &Request) -> Result<(Value, Vec<Path>), Fault> {
    readable(call, &request.headers)?;
    if request.body.iter().all(u8::is_ascii_whitespace) {
        return Err(Fault::bad_request("the body is empty: expected a JSON object"));
    }
    let (document, twice) =
        coracle_schema::read(&request.body).map_err(|error| Fault::bad_request(format!("the body is not JSON: {error}")))?;
    if document.is_object() { Ok((document, twice)) } else { Err(Fault::bad_request("the body is not a JSON object")) }
}

/// JSON, by name or without one. `curl -d` of 2014 said that it sent a form; it sent JSON.
fn readable(call: &Call, headers: &HeaderMap) -> Result<(), Fault> {
    let Some(named) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let kind = named.to_str().unwrap_or("?").split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let form = call.version == Version::V1beta1 && kind == "application/x-www-form-urlencoded";
    if kind.is_empty() || kind == "application/json" || form {
        return Ok(());
    }
    Err(Status::unsupported_media_type("application/json").into())
}

fn right_kind(call: &Call, document: &Value) -> Result<(), Fault> {
    let (version, kind) = (call.shown.api_version(), &call.shown.kind);
    for (field, expected) in [("apiVersion", version.as_str()), ("kind", kind)] {
        match &document[field] {
            Value::Null => {}
            Value::String(given) if given.is_empty() || given == expected => {}
            Value::String(given) if field == "apiVersion" => {
                let message = format!("the API version in the data ({given}) does not match the expected API version ({expected})");
                return Err(Fault::bad_request(message));
            }
            Value::String(given) => {
                return Err(Fault::bad_request(format!("{given} in version {version:?} cannot be handled as a {expected}")));
            }
            _ => return Err(Fault::bad_request(format!("{field} must be a string"))),
        }
    }
    Ok(())
}

fn decode(call: &Call, document: &Value) -> Result<Decoded, Fault> {
    v1beta1::decode(&call.kind.kind, document).map_err(|error| match error {
        DecodeError::Malformed(problems) => {
            let name = document["id"].as_str().unwrap_or_default();
            Status::invalid(call.kind, name, &problems).into()
        }
        DecodeError::NotAnObject | DecodeError::WrongKind { .. } | DecodeError::WrongVersion { .. } => {
            Fault::bad_request(error.to_string())
        }
    })
}

/// Brings a v1 document into the form of its type; what the type does not know is taken out and named.
fn shape(call: &Call, mut object: Value) -> Result<(Value, Vec<String>), Fault> {
    let decoded = coracle_schema::decode(&types::builtin(), &call.shown.type_name, &mut object);
    if let Some(message) = decoded.message() {
        let kind = &call.shown.kind;
        return Err(Fault::bad_request(format!("{kind} in version {:?} cannot be handled as a {kind}: {message}", call.shown.version)));
    }
    Ok((object, decoded.unknown.iter().map(unknown).collect()))
}

/// A v1 document that the server made itself, of what stands and a client's words: brought into the form of its type. The
/// error says why it has none, or what strictness finds in it; `twice`: what the client said twice.
pub fn typed(call: &Call, mut object: Value, twice: &[String]) -> Result<(Value, Vec<String>), String> {
    let decoded = coracle_schema::decode(&types::builtin(), &call.kind.type_name, &mut object);
    if let Some(message) = decoded.message() {
        return Err(message);
    }
    let found: Vec<String> = twice.iter().cloned().chain(decoded.unknown.iter().map(unknown)).collect();
    match call.options.field_validation {
        FieldValidation::Strict if !found.is_empty() => Err(format!("strict decoding error: {}", found.join(", "))),
        FieldValidation::Strict | FieldValidation::Warn => Ok((object, found)),
        FieldValidation::Ignore => Ok((object, Vec::new())),
    }
}

fn unknown(path: &Path) -> String {
    format!("unknown field {:?}", path.as_str())
}

pub fn shortened(mut unknown: Vec<String>) -> Vec<String> {
    if unknown.len() > WARNINGS_MAX {
        let more = unknown.len() - WARNINGS_MAX;
        unknown.truncate(WARNINGS_MAX);
        unknown.push(format!("and {more} more fields"));
    }
    unknown
}

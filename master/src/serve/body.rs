//! The document in a request's body, decoded to v1 and of the right types.

mod kind;
mod registered;

use kind::summary;
pub use kind::{Expected, SCHEME, other_kind, right_kind};

use crate::call::{Call, FieldValidation, Version};
use crate::fault::Fault;
use crate::form::Media;
use crate::prepare::Part;
use crate::serve::turns::Turn;
use crate::serve::{Serve, go_json};
use coracle_api::kinds::Kind;
use coracle_api::old::{self, DecodeError, Decoded, Half};
use coracle_api::status::Status;
use coracle_http::{Request, header};
use coracle_schema::{Path, protobuf, yaml};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// The most unknown and duplicate fields that an answer lists; further fields are counted.
const WARNINGS_MAX: usize = 32;

/// The object that a create or an update sends.
pub struct SentObject {
    sent: Sent,
    /// The fields that its schema does not know and that were dropped.
    pub warnings: Vec<String>,
    /// The share of memory for a document that may be larger than its body.
    _turn: Option<Turn>,
}

/// The content of a body.
pub struct BodyText {
    pub document: Value,
    /// Fields that stand there twice.
    pub twice: Vec<Path>,
    /// Duplicate fields of a YAML body, in the words of the YAML reader.
    of_yaml: Vec<String>,
    pub turn: Option<Turn>,
}

enum Sent {
    V1(Value),
    Old(Decoded),
}

impl SentObject {
    /// As v1.
    pub fn object(&self) -> &Value {
        match &self.sent {
            Sent::V1(object) => object,
            Sent::Old(decoded) => &decoded.object,
        }
    }

    pub fn object_mut(&mut self) -> &mut Value {
        match &mut self.sent {
            Sent::V1(object) => object,
            Sent::Old(decoded) => &mut decoded.object,
        }
    }

    /// The object after a PUT of this document: an older API version replaces only the fields that the version can
    /// express.
    pub fn over(&self, standing: &Value, part: Part) -> Value {
        match &self.sent {
            Sent::V1(object) => object.clone(),
            Sent::Old(decoded) => {
                let half = if part == Part::Status { Half::Observed } else { Half::Asked };
                old::merge_put(standing, decoded, half)
            }
        }
    }
}

/// Unknown and duplicate fields are refused, warned of or dropped, as asked.
pub fn object(serve: &Serve, call: &Call, request: &Request) -> Result<SentObject, Fault> {
    let mut document = document(serve, call, request, Expected::of(call.shown))?;
    if let (Sent::V1(object), Some(alias)) = (&mut document.sent, call.shown.alias) {
        (alias.read)(object);
    }
    Ok(document)
}

/// A document that a patch in an older version came to.
pub fn older(call: &Call, version: old::Version, document: &Value) -> Result<SentObject, Fault> {
    let (decoded, unknown) = read_older(call, version, Expected::of(call.kind), document)?;
    Ok(SentObject {
        sent: Sent::Old(decoded),
        warnings: with_kind_warning(call, shortened(unknown.iter().map(self::unknown).collect())),
        _turn: None,
    })
}

fn read_older(
    call: &Call,
    version: old::Version,
    wanted: Expected<'_>,
    document: &Value,
) -> Result<(Decoded, Vec<Path>), Fault> {
    let mut decoded = decode(call, version, document)?;
    let unknown = decoded.unknown.clone();
    // Amounts and times come into the one form in which they are stored.
    decoded.object = shape(wanted, decoded.object, None)?.0;
    Ok((decoded, unknown))
}

/// The same of a document that is not of the call's kind: a scale, a token request.
pub fn document(serve: &Serve, call: &Call, request: &Request, wanted: Expected<'_>) -> Result<SentObject, Fault> {
    let BodyText { document, twice, of_yaml, turn: _turn } = read(serve, call, request, wanted)?;
    let json =
        (call.version == Version::V1 && matches!(media(call, request), Ok(Media::Json))).then_some(&*request.body);
    let (sent, unknown) = match call.version {
        Version::V1 => {
            right_kind(call.kinds, wanted, &document)?;
            let (object, unknown) = shape(wanted, document, json)?;
            (Sent::V1(object), unknown)
        }
        Version::Old(version) => {
            let (decoded, unknown) = read_older(call, version, wanted, &document)?;
            (Sent::Old(decoded), unknown)
        }
    };
    let strict = call.options.field_validation == FieldValidation::Strict;
    let unknown = match of_yaml.is_empty() {
        true => strictly(json, twice, unknown),
        false => {
            let unknown = unknown.iter().map(self::unknown);
            // What YAML says is one error, and several warnings.
            let of_yaml = if strict { vec![yaml_errors(of_yaml)] } else { of_yaml };
            of_yaml.into_iter().chain(unknown).collect()
        }
    };
    match call.options.field_validation {
        FieldValidation::Strict if !unknown.is_empty() => {
            let kind = wanted.kind;
            let version = if call.version == Version::V1 { wanted.version } else { call.version.name() };
            let unknown = shortened(unknown).join(", ");
            let message = format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {unknown}"
            );
            Err(Fault::bad_request(message))
        }
        FieldValidation::Warn | FieldValidation::Strict => {
            Ok(SentObject { sent, warnings: with_kind_warning(call, shortened(unknown)), _turn })
        }
        FieldValidation::Ignore => Ok(SentObject { sent, warnings: with_kind_warning(call, Vec::new()), _turn }),
    }
}

fn yaml_errors(of_yaml: Vec<String>) -> String {
    format!("yaml: unmarshal errors:\n  {}", shortened(of_yaml).join("\n  "))
}

/// And what is to be said of the kind.
fn with_kind_warning(call: &Call, mut warnings: Vec<String>) -> Vec<String> {
    warnings.extend(call.kind.warning());
    warnings
}

impl SentObject {
    /// A refusal, with what is to be said of the document's fields.
    pub fn refused(&self, call: &Call, mut fault: Fault) -> Fault {
        let of_kind = call.kind.warning();
        fault.warnings.extend(self.warnings.iter().filter(|warning| Some(*warning) != of_kind.as_ref()).cloned());
        fault
    }
}

/// The document in a body, by its content type, and its fields that stand there twice. Nothing in YAML is an empty
/// document.
pub fn read(serve: &Serve, call: &Call, request: &Request, wanted: Expected<'_>) -> Result<BodyText, Fault> {
    let unrecognized = |why: &str| {
        let summary = summary(&request.body);
        Fault::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({summary})",
            wanted.kind
        ))
    };
    // Kubernetes stores what is no UTF-8 with a sign in its place.
    let text = || String::from_utf8_lossy(&request.body);
    let (mut turn, mut of_yaml) = (None, Vec::new());
    let (document, twice) = match media(call, request)? {
        Media::Json => {
            let text = text();
            coracle_schema::read_typed(text.as_bytes()).map_err(|error| {
                let why = json_error(text.as_bytes(), &error);
                unrecognized(&format!("couldn't get version/kind; json parse error: {why}"))
            })?
        }
        Media::Yaml => {
            let reading = serve.turns.take()?;
            let text = text();
            let read = yaml::read(&text).map_err(|why| unrecognized(&format!("yaml: {why}")))?;
            of_yaml = if read.1.is_empty() { Vec::new() } else { yaml::twice(&text, 0) };
            turn = yaml::may_repeat(&text).then_some(reading);
            read
        }
        Media::Protobuf => {
            let document = protobuf(&request.body, wanted, unrecognized)?;
            return Ok(BodyText { document, twice: Vec::new(), of_yaml, turn });
        }
    };
    match &document {
        Value::Object(_) => Ok(BodyText { document, twice, of_yaml, turn }),
        Value::Null => Ok(BodyText { document: Value::Object(Map::new()), twice, of_yaml, turn }),
        other => {
            let found = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            let target = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
            let why = format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type \
                 {target}"
            );
            Err(unrecognized(&why))
        }
    }
}

/// A message of another kind is not looked into: its kind alone is reason enough to refuse it.
fn protobuf(body: &[u8], wanted: Expected<'_>, unrecognized: impl Fn(&str) -> Fault) -> Result<Value, Fault> {
    match body.len() {
        0 => return Err(unrecognized("empty data")),
        4 if body.starts_with(b"k8s\0") => return Err(unrecognized("empty body")),
        _ => {}
    }
    let envelope = protobuf::open(body).map_err(|why| unrecognized(&why.to_string()))?;
    let mut document = Value::Object(Map::new());
    if envelope.kind.is_empty() || envelope.kind == wanted.kind {
        let (kind, version) = (wanted.kind, wanted.version);
        let refused = |why: protobuf::Malformed| {
            Fault::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
        };
        document = protobuf::decode(wanted.types, wanted.type_name, envelope.raw).map_err(refused)?;
    }
    for (field, text) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
        if !text.is_empty() {
            document[field] = text.into();
        }
    }
    Ok(document)
}

/// A body without a content type is read as JSON.
fn media(call: &Call, request: &Request) -> Result<Media, Fault> {
    if call.version != Version::V1 {
        return media_of_old(call, request);
    }
    let Some(named) = request.headers.get(header::CONTENT_TYPE) else { return Ok(Media::Json) };
    let named = named.to_str().unwrap_or("?");
    let kind = named.split(';').next().unwrap_or_default().trim();
    match Media::named(named) {
        _ if kind.is_empty() => Ok(Media::Json),
        Some(media) => Ok(media),
        None => Err(Status::unsupported_media_type(&Media::offered()).into()),
    }
}

/// Clients of 2014 name their bodies anyhow or not at all (`curl -d` says that it sends a form), and send the files
/// that they were given: what does not begin as a JSON object may be YAML.
fn media_of_old(call: &Call, request: &Request) -> Result<Media, Fault> {
    let named = request.headers.get(header::CONTENT_TYPE).and_then(|named| named.to_str().ok()).unwrap_or_default();
    match Media::named(named) {
        Some(Media::Protobuf) => {
            let offered = [Media::Json, Media::Yaml].map(Media::content_type).join(", ");
            Err(Status::unsupported_media_type(&offered).into())
        }
        Some(Media::Yaml) => Ok(Media::Yaml),
        Some(Media::Json) => Ok(Media::Json),
        None => {
            let first = request.body.iter().find(|byte| !byte.is_ascii_whitespace());
            let is_yaml = call.version.is_flat() && !matches!(first, None | Some(b'{' | b'['));
            Ok(if is_yaml { Media::Yaml } else { Media::Json })
        }
    }
}

/// Why a text is no JSON, as Kubernetes says it.
pub fn json_error(text: &[u8], error: &serde_json::Error) -> String {
    go_json::fault(text).unwrap_or_else(|| error.to_string())
}

fn decode(call: &Call, version: old::Version, document: &Value) -> Result<Decoded, Fault> {
    old::decode(version, &call.kind.kind, document).map_err(|error| match error {
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
/// Where a text is given, what is wrong is told in its order.
fn shape(wanted: Expected<'_>, mut object: Value, json: Option<&[u8]>) -> Result<(Value, Vec<Path>), Fault> {
    let mut decoded = coracle_schema::decode(wanted.types, wanted.type_name, &mut object);
    if let Some(json) = json.filter(|_| decoded.faults.len() > 1) {
        let mut paths: Vec<Path> = decoded.faults.iter().map(|fault| fault.path.clone()).collect();
        coracle_schema::in_order(json, &mut paths);
        decoded.faults.sort_by_key(|fault| paths.iter().position(|path| *path == fault.path));
    }
    if let Some(message) = decoded.message() {
        let kind = wanted.kind;
        return Err(Fault::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: {message}",
            wanted.version
        )));
    }
    Ok((object, decoded.unknown))
}

/// The faults that strict field validation finds, in the order of the text if the text is JSON. Duplicate fields inside
/// an unknown field are not reported.
fn strictly(json: Option<&[u8]>, twice: Vec<Path>, unknown: Vec<Path>) -> Vec<String> {
    let strange: HashSet<&str> = unknown.iter().map(Path::as_str).collect();
    let looked_into = |path: &Path| {
        let outer = path.as_str().match_indices(['.', '[']).map(|(at, _)| &path.as_str()[..at]);
        !outer.chain([path.as_str()]).any(|outer| strange.contains(outer))
    };
    let twice: Vec<Path> = twice.into_iter().filter(looked_into).collect();
    let doubled: HashSet<String> = twice.iter().map(|path| path.as_str().to_owned()).collect();
    let mut all: Vec<Path> = twice.into_iter().chain(unknown.iter().cloned()).collect();
    if let Some(json) = json.filter(|_| all.len() > 1) {
        coracle_schema::in_order_of(json, &mut all, |path| 1 + usize::from(doubled.contains(path.as_str())));
    }
    let text = |path: &Path| {
        if doubled.contains(path.as_str()) {
            format!("duplicate field {:?}", path.as_str())
        } else {
            self::unknown(path)
        }
    };
    all.iter().map(text).collect()
}

/// A v1 document that the server made itself, of what stands and a client's words: brought into the form of its type.
/// The error says why it has none, or what strictness finds in it; `twice`: what the client said twice.
pub fn typed(call: &Call, kind: &Kind, mut object: Value, twice: &[String]) -> Result<(Value, Vec<String>), BodyError> {
    let decoded = coracle_schema::decode(&kind.types, &kind.type_name, &mut object);
    if let Some(fault) = decoded.faults.first() {
        return Err(BodyError { message: fault.message.clone(), restored: fault.restored.clone(), strict: false });
    }
    let found: Vec<String> = twice.iter().cloned().chain(decoded.unknown.iter().map(unknown)).collect();
    match call.options.field_validation {
        FieldValidation::Strict if !found.is_empty() => {
            Err(BodyError::of(format!("strict decoding error: {}", found.join(", "))))
        }
        FieldValidation::Strict | FieldValidation::Warn => Ok((object, with_kind_warning(call, shortened(found)))),
        FieldValidation::Ignore => Ok((object, with_kind_warning(call, Vec::new()))),
    }
}

/// Why a document that the server put together is none of its type.
pub struct BodyError {
    pub message: String,
    /// The same message for a document that was built from decoded values, not from text.
    restored: String,
    /// It has the form of its type, but strictness finds something.
    pub strict: bool,
}

impl BodyError {
    pub fn of(message: String) -> BodyError {
        BodyError { restored: message.clone(), message, strict: true }
    }

    pub fn restored(&self) -> String {
        let decoded = self.restored.starts_with("illegal base64") || self.restored.starts_with("parsing time");
        if decoded { format!("error decoding from json: {}", self.restored) } else { self.restored.clone() }
    }
}

fn unknown(path: &Path) -> String {
    format!("unknown field {:?}", path.as_str())
}

fn shortened(mut unknown: Vec<String>) -> Vec<String> {
    if unknown.len() > WARNINGS_MAX {
        let more = unknown.len() - WARNINGS_MAX;
        unknown.truncate(WARNINGS_MAX);
        unknown.push(format!("and {more} more fields"));
    }
    unknown
}

//! Checks that a document is of the kind that a call wants; errors are worded as in Kubernetes. PURE.
use super::registered::{is_kind, is_same};
use crate::fault::Fault;
use coracle_api::kinds::{Kind, Kinds};
use coracle_schema::Types;
use serde_json::Value;

/// The source line that Kubernetes names in refusals of unknown kinds.
pub const SCHEME: &str = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30";

/// Earlier versions with the same content as the current version: kubectl before 1.22 sends evictions in an earlier
/// version.
const SAME: &[(&str, &str, &str)] = &[("Eviction", "policy/v1beta1", "policy/v1")];

/// Bytes of a body that a refusal shows.
const SUMMARY_BYTES: usize = 30;

/// The expected content of a body.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// `apps`, or nothing.
    pub group: &'a str,
    /// Empty: any version is right, as of DeleteOptions.
    pub version: &'a str,
    pub kind: &'a str,
    /// Its type's name among these.
    pub type_name: &'a str,
    pub types: &'a Types,
}

impl<'a> Expected<'a> {
    pub fn of(kind: &'a Kind) -> Expected<'a> {
        Expected {
            group: &kind.resource.group,
            version: &kind.version,
            kind: &kind.kind,
            type_name: &kind.type_name,
            types: &kind.types,
        }
    }

    fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }
}

pub fn right_kind(kinds: &Kinds, wanted: Expected<'_>, document: &Value) -> Result<(), Fault> {
    let text = |field: &str| match &document[field] {
        Value::Null => Ok(""),
        Value::String(text) => Ok(text.as_str()),
        other => {
            let (found, summary) = (coracle_schema::json_kind(other), summary(document.to_string().as_bytes()));
            let why = format!("json: cannot unmarshal {found} into Go struct field .{field} of type string");
            let of = wanted.kind;
            Err(Fault::bad_request(format!(
                "the object provided is unrecognized (must be of type {of}): couldn't get version/kind; json parse \
                 error: {why} ({summary})"
            )))
        }
    };
    let (given_version, given_kind) = (text("apiVersion")?, text("kind")?);
    let kind = if given_kind.is_empty() { wanted.kind } else { given_kind };
    let expected = wanted.api_version();
    let given_version = if wanted.version.is_empty() { "" } else { given_version };
    let api_version = match given_version.split('/').collect::<Vec<_>>()[..] {
        [""] | ["", ""] => expected.as_str(),
        // No group is the core group.
        ["", version] => version,
        [_] | [_, _] => given_version,
        _ => {
            let (of, summary) = (wanted.kind, summary(document.to_string().as_bytes()));
            let why = format!("unexpected GroupVersion string: {given_version} ({summary})");
            return Err(Fault::bad_request(format!(
                "the object provided is unrecognized (must be of type {of}): {why}"
            )));
        }
    };
    if kind == wanted.kind && (api_version == expected || SAME.contains(&(kind, api_version, &expected))) {
        return Ok(());
    }
    if is_other_version(kinds, wanted, api_version, kind) {
        let why =
            format!("the API version in the data ({api_version}) does not match the expected API version ({expected})");
        return Err(Fault::bad_request(why));
    }
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let why = match version {
        "" => format!("Object 'apiVersion' is missing in '{document}'"),
        _ => unconverted(kinds, wanted, api_version, kind),
    };
    Err(Fault::bad_request(format!("{kind} in version {version:?} cannot be handled as a {}: {why}", wanted.kind)))
}

/// Why a document that names a kind itself is none of this one, in any version.
pub fn other_kind(kinds: &Kinds, wanted: Expected<'_>, document: &Value) -> Option<String> {
    let said = |field: &str, otherwise: &str| {
        document[field].as_str().filter(|said| !said.is_empty()).unwrap_or(otherwise).to_owned()
    };
    let (version, kind) = (said("apiVersion", &wanted.api_version()), said("kind", wanted.kind));
    let is_one = kind == wanted.kind && version == wanted.api_version();
    (!is_one && !is_other_version(kinds, wanted, &version, &kind)).then(|| unconverted(kinds, wanted, &version, &kind))
}

/// Whether a document is of the kind, in a version that Kubernetes could convert and does not take here.
fn is_other_version(kinds: &Kinds, wanted: Expected<'_>, api_version: &str, kind: &str) -> bool {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let known = || version == "__internal" || is_kind(kinds, api_version, kind);
    kind == wanted.kind && api_version != wanted.api_version() && is_same(kind, group, wanted.group) && known()
}

fn unconverted(kinds: &Kinds, wanted: Expected<'_>, api_version: &str, kind: &str) -> String {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    // Kubernetes' own type of an event is that of the core group.
    let group = if wanted.group == "events.k8s.io" { "" } else { wanted.group };
    let group = group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
    if is_kind(kinds, api_version, kind) {
        format!("converting ({version}.{kind}) to ({group}.{}): unknown conversion", wanted.kind)
    } else {
        format!("no kind {kind:?} is registered for version {api_version:?} in scheme {SCHEME:?}")
    }
}

/// The beginning of a body, as a refusal shows it.
pub fn summary(body: &[u8]) -> String {
    let shown = &body[..body.len().min(SUMMARY_BYTES)];
    let more = if body.len() > SUMMARY_BYTES { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => format!("{}{more}", shown.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

//! Turns every kind of refusal into a Status. PURE.

use crate::call::{Call, RouteError, Verb, Version};
use crate::prepare::InvalidDocument;
use crate::store::{Refused, SEALED};
use coracle_api::kinds::Kind;
use coracle_api::meta::Key;
use coracle_api::old;
use coracle_api::status::{Cause, Status};
use coracle_api::strategy;
use coracle_schema::{Path, Problem};
use serde_json::Value;

#[derive(Debug)]
pub struct Fault {
    pub status: Status,
    /// The path of the object that already exists.
    pub location: Option<String>,
    /// What is to be said all the same.
    pub warnings: Vec<String>,
}

impl From<Status> for Fault {
    fn from(status: Status) -> Fault {
        Fault { status, location: None, warnings: Vec::new() }
    }
}

impl From<RouteError> for Fault {
    fn from(misdirected: RouteError) -> Fault {
        match misdirected {
            RouteError::NotFound => Status::unknown_path(),
            RouteError::Method => Status::method_not_allowed(),
            RouteError::Malformed(why) => Status::bad_request(why),
        }
        .into()
    }
}

impl Fault {
    pub fn bad_request(why: impl Into<String>) -> Fault {
        Status::bad_request(why).into()
    }

    /// A refusal that Kubernetes gives no name.
    pub fn nameless(message: String) -> Fault {
        let mut status = Status::bad_request(message);
        (status.code, status.reason) = (500, None);
        status.into()
    }

    /// A revision that is none: the client's mistake, and to Kubernetes its own.
    pub fn misread(call: &Call, why: String) -> Fault {
        if call.version == Version::V1 { Fault::nameless(why) } else { Fault::bad_request(why) }
    }

    pub fn not_found(call: &Call) -> Fault {
        Status::not_found(&call.shown.resource, &call.name).into()
    }

    pub fn stale(call: &Call) -> Fault {
        Status::stale(&call.shown.resource, &call.name).into()
    }

    pub fn damaged(key: &Key, why: &str) -> Fault {
        let said = match why.strip_prefix(SEALED) {
            Some(why) => format!("unable to transform key {key}: {why}"),
            None => format!("the file of {key} is damaged, see /readyz?verbose: {why}"),
        };
        Status::internal_error(said).into()
    }

    /// The create was done before: `first` came of it.
    pub fn token_used(call: &Call, first: &Key) -> Fault {
        let location = Some(location(call.version, call.kind, first));
        Fault { location, ..Status::token_used(&first.resource, &first.name).into() }
    }

    /// Problems of a v1 document, told with the field paths of the version that was spoken.
    pub fn invalid(call: &Call, kind: &Kind, name: &str, problems: Vec<Problem>) -> Fault {
        let problems = match call.version {
            Version::V1 => problems,
            Version::Old(version) => old::reworded(version, &kind.kind, problems),
        };
        Status::invalid(kind, name, &problems).into()
    }

    /// A document that `prepare` would not let through.
    pub fn unfit(call: &Call, name: &str, unfit: InvalidDocument) -> Fault {
        let resource = &call.kind.resource;
        match unfit {
            InvalidDocument::Invalid { name, problems } => {
                let mut fault = Fault::invalid(call, call.kind, &name, problems);
                match call.verb {
                    Verb::Update | Verb::Patch => {
                        repeat(&mut fault.status, strategy::metadata_repeats(&call.kind.kind))
                    }
                    Verb::UpdateStatus | Verb::PatchStatus => {
                        repeat(&mut fault.status, strategy::metadata_repeats(&call.kind.kind).min(3))
                    }
                    _ => {}
                }
                return fault;
            }
            InvalidDocument::Forbidden { name, why } => Status::forbidden(resource, &name, &why),
            InvalidDocument::Unadmitted { name, problems } => return Fault::invalid(call, call.kind, &name, problems),
            InvalidDocument::NotThere { key } => Status::not_found(&key.resource, &key.name),
            InvalidDocument::TooMany { why, retry_after_s } => Status::too_many_requests(why, retry_after_s),
            InvalidDocument::Stale => Status::stale(resource, name),
            InvalidDocument::Unseen => {
                let problem =
                    Problem::invalid(&Path::new("metadata.resourceVersion"), 0, "must be specified for an update");
                // Kubernetes calls the object by its resource here, and by its kind wherever else one is invalid.
                Status::invalid_of(&resource.group, &resource.plural, name, &[problem])
            }
            InvalidDocument::NoRevision { why } => return Fault::misread(call, why),
            InvalidDocument::OtherUid { given, stands } => {
                let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {stands}");
                Status::conflict(resource, name, &why)
            }
            InvalidDocument::OtherRevision { given, stands } => {
                let why = format!(
                    "Precondition failed: ResourceVersion in precondition: {given}, ResourceVersion in object meta: \
                     {stands}"
                );
                Status::conflict(resource, name, &why)
            }
        }
        .into()
    }

    /// What the store would not take. `object` is what was to be written: a taken claim is shown where it stands
    /// in it.
    pub fn refused(call: &Call, key: &Key, object: Option<&Value>, refused: Refused) -> Fault {
        let (resource, name) = (&key.resource, &key.name);
        match refused {
            Refused::Exists { .. } => Status::already_exists(resource, name),
            Refused::Missing => Status::not_found(resource, name),
            Refused::Stale { .. } => Status::stale(resource, name),
            Refused::Claimed { claim, owner } if claim.space.starts_with("creationToken/") => {
                return Fault::token_used(call, &owner);
            }
            Refused::Claimed { claim, owner } => {
                let problem = object.and_then(|object| strategy::service::taken(object, &claim));
                let other = || {
                    // The client may know nothing of other namespaces.
                    let why = match owner.namespace == key.namespace {
                        true => format!("{} is taken by {owner}", claim.space),
                        false => format!("{} is taken by an object of another namespace", claim.space),
                    };
                    Problem::invalid(&Path::new("metadata"), claim.value.as_str(), why)
                };
                return Fault::invalid(call, call.kind, name, vec![problem.unwrap_or_else(other)]);
            }
            // What is sealed is whole: a write is no remedy.
            Refused::Damaged { why } if why.starts_with(SEALED) && call.verb != Verb::Create => {
                return Fault::damaged(key, &why);
            }
            Refused::Damaged { why } if object.is_some() => {
                let mut status = Status::already_exists(resource, name);
                let but = why.strip_prefix(SEALED).map_or_else(|| format!("its file is damaged: {why}"), str::to_owned);
                status.message.push_str(&format!(", but {but}"));
                status
            }
            Refused::Sealed { why } => Status::internal_error(format!(
                "nothing was written of {key}: it is to be sealed, and cannot be: {why}"
            )),
            Refused::Damaged { why } => return Fault::damaged(key, &why),
            Refused::TooLarge { bytes } => {
                let mut status = Status::too_large(bytes);
                status.message = format!(
                    "Request entity too large: {key} would be {bytes} bytes, which is more than the store takes"
                );
                status
            }
            Refused::Busy { why, retry_after_s } => {
                Status::too_many_requests(format!("nothing was written of {key}: {why}"), retry_after_s)
            }
            Refused::Full { why } => Status::insufficient_storage(format!("nothing was written of {key}: {why}")),
            // Whether it was written all the same is not known of every one of these.
            Refused::Disk { why, space: true } => {
                Status::insufficient_storage(format!("{key} could not be written: no space is left on the disk: {why}"))
            }
            Refused::Disk { why, space: false } => Status::unavailable(format!("{key} could not be written: {why}")),
        }
        .into()
    }
}

/// An update's metadata is looked at in several places of Kubernetes, each of which tells what it finds: two look at
/// what may not change, `looks` at labels, annotations and owners, and those of them that look at all of it at
/// finalizers.
fn repeat(status: &mut Status, looks: usize) {
    let Some(details) = status.details.as_mut() else { return };
    let times = |cause: &Cause| match cause.field.strip_prefix("metadata.") {
        Some("labels" | "annotations") => looks,
        Some(field) if field.starts_with("ownerReferences") || field.starts_with("managedFields") => looks,
        // New ones are told of twice already.
        Some(field) if field.starts_with("finalizers") && cause.reason != "FieldValueForbidden" => {
            looks.saturating_sub(2).max(1)
        }
        Some("uid" | "deletionTimestamp" | "deletionGracePeriodSeconds") => looks.saturating_sub(1).min(2),
        _ => 1,
    };
    let Some(last) = details.causes.iter().rposition(|cause| times(cause) > 1) else { return };
    let repeated: Vec<Cause> = (2..=looks)
        .flat_map(|round| details.causes.iter().filter(move |cause| times(cause) >= round).cloned())
        .collect();
    details.causes.splice(last + 1..last + 1, repeated);
}

/// The path of an object in a version's own words.
pub fn location(version: Version, kind: &Kind, key: &Key) -> String {
    let name = encoded(&key.name);
    let namespace = Some(encoded(&key.namespace)).filter(|_| kind.namespaced);
    let older = match version {
        Version::V1 => None,
        Version::Old(version) => old::path(version, &kind.kind, namespace.as_deref(), &name),
    };
    match older {
        Some(path) => path,
        _ if kind.namespaced => {
            format!("/api/v1/namespaces/{}/{}/{name}", encoded(&key.namespace), kind.resource.plural)
        }
        _ => format!("/api/v1/{}/{name}", kind.resource.plural),
    }
}

/// Names of 2014 and of v1 need no encoding; the function encodes any other name that a store may contain.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

//! Parses the query of a request. PURE.
//!
//! Percent-encodings are decoded here, once.

use crate::call::{RouteError, Version};
use coracle_api::query::{self, truth};
use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::time::Duration;

/// Query parameters of one request; more are somebody's mistake.
pub const PARAMETERS_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    pub labels: String,
    pub fields: String,
    pub resource_version: String,
    pub resource_version_match: String,
    /// The uid of the object to delete.
    pub uid: Option<String>,
    pub timeout: Option<Duration>,
    pub field_validation: FieldValidation,
    /// A word for it that means nothing.
    pub field_validation_wrong: Option<String>,
    pub grace_s: Option<i64>,
    pub propagation: Option<String>,
    /// The same in the word of before 2017.
    pub orphan: Option<bool>,
    /// At most so many objects in one answer.
    pub limit: Option<NonZeroUsize>,
    /// The token of the page before; empty: the first page.
    pub continues: String,
    /// Whether a watch wants the state first, if that was said.
    pub initial_events: Option<bool>,
    pub bookmarks: bool,
    /// As they came: only `All` means something.
    pub dry_run: Vec<String>,
    /// Who writes, as the client says it.
    pub field_manager: Option<String>,
    pub force: Option<bool>,
    pub pretty: Option<bool>,
    /// The part of the object that table rows carry.
    pub include_object: String,
    /// All parameters of a request that the node answers, as they came.
    pub of_node: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// `of_many`: whether the path names no single object; with a single object, list parameters are ignored.
pub fn options(version: Version, of_many: bool, parameters: &[(String, String)]) -> Result<Options, RouteError> {
    let mut options = Options::default();
    // What is said twice is heard once, the first time, as Go's server hears it; but for the list.
    let mut heard = HashSet::new();
    for (name, value) in parameters.iter().filter(|(name, _)| name == "dryRun" || heard.insert(name.as_str())) {
        let (name, value) = (name.as_str(), value.as_str());
        match (version, name) {
            (_, "labelSelector") | (Version::Old(_), "labels" | "label-selector") if !value.is_empty() => {
                options.labels = value.to_owned()
            }
            (_, "fieldSelector") | (Version::Old(_), "fields" | "field-selector") if !value.is_empty() => {
                options.fields = value.to_owned()
            }
            (_, "resourceVersion") => options.resource_version = value.to_owned(),
            (_, "resourceVersionMatch") => options.resource_version_match = value.to_owned(),
            // Zero is no limit, and what is below it is over at once.
            (_, "timeoutSeconds") if of_many && (!value.is_empty() || version == Version::V1) => {
                options.timeout = Some(whole(value)?)
                    .filter(|seconds| *seconds != 0)
                    .map(|seconds| Duration::from_secs(seconds.try_into().unwrap_or(0)))
            }
            (_, "fieldValidation") if !value.is_empty() => match field_validation(value) {
                Some(wanted) => options.field_validation = wanted,
                None => options.field_validation_wrong = Some(value.to_owned()),
            },
            (_, "gracePeriodSeconds") if !value.is_empty() || version == Version::V1 => {
                options.grace_s = Some(whole(value)?)
            }
            (_, "orphanDependents") if !value.is_empty() => options.orphan = Some(truth(value)),
            // Said empty it is no policy, which is told.
            (_, "propagationPolicy") => options.propagation = Some(value.to_owned()),
            // Clients of 2014 and 2015 know no pages, and would take the first for all.
            (Version::V1, "continue") => options.continues = value.to_owned(),
            (Version::V1, "limit") if of_many => {
                options.limit = NonZeroUsize::new(whole(value)?.try_into().unwrap_or(0))
            }
            (Version::V1, "uid") => options.uid = Some(value.to_owned()),
            (Version::V1, "export") if !of_many && !matches!(value, "0" | "f" | "F" | "false" | "False" | "FALSE") => {
                let why = "the export parameter, deprecated since v1.14, is no longer supported";
                return Err(RouteError::Malformed(why.to_owned()));
            }
            (_, "sendInitialEvents") => options.initial_events = Some(truth(value)),
            (_, "allowWatchBookmarks") => options.bookmarks = truth(value),
            (_, "includeObject") => options.include_object = value.to_owned(),
            (_, "dryRun") => options.dry_run.push(value.to_owned()),
            (_, "fieldManager") => options.field_manager = Some(value.to_owned()),
            (_, "force") => options.force = Some(truth(value)),
            (_, "pretty") => options.pretty = Some(truth(value)),
            _ => {}
        }
    }
    Ok(options)
}

/// Whether `timeout` says a time. How long a request takes is not for its client to say here.
pub fn timeout(parameters: &[(String, String)]) -> Result<(), RouteError> {
    let said = parameters.iter().find(|(name, value)| name == "timeout" && !value.is_empty());
    match said.and_then(|(_, value)| no_duration(value)) {
        Some(why) => Err(RouteError::Malformed(format!("invalid timeout specified in the request URL - time: {why}"))),
        None => Ok(()),
    }
}

/// What Go says of a text that is no duration such as `1m30.5s`.
fn no_duration(text: &str) -> Option<String> {
    let invalid = || Some(format!("invalid duration {text:?}"));
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return None;
    }
    if rest.is_empty() {
        return invalid();
    }
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = &rest[..rest.len() - unit.len()];
        if !number.bytes().any(|byte| byte.is_ascii_digit()) || number.matches('.').count() > 1 {
            return invalid();
        }
        let end = unit.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(unit.len());
        match &unit[..end] {
            "" => return Some(format!("missing unit in duration {text:?}")),
            "ns" | "us" | "\u{b5}s" | "\u{3bc}s" | "ms" | "s" | "m" | "h" => rest = &unit[end..],
            other => return Some(format!("unknown unit {other:?} in duration {text:?}")),
        }
    }
    None
}

fn whole(value: &str) -> Result<i64, RouteError> {
    query::whole(value).map_err(RouteError::Malformed)
}

fn field_validation(value: &str) -> Option<FieldValidation> {
    match value {
        "Ignore" => Some(FieldValidation::Ignore),
        "Warn" => Some(FieldValidation::Warn),
        "Strict" => Some(FieldValidation::Strict),
        _ => None,
    }
}

pub fn flag(parameters: &[(String, String)], name: &str) -> bool {
    parameters.iter().find(|(parameter, _)| parameter == name).is_some_and(|(_, value)| truth(value))
}

pub fn parameters(query: &str) -> Result<Vec<(String, String)>, RouteError> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    // A name that cannot be read is none of ours, and passed over as any other; a value that cannot be read may mean
    // much.
    let pairs: Vec<(String, String)> = pairs
        .filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name, true).ok()?;
            Some(decode(value, true).map(|value| (name, value)))
        })
        .collect::<Result<_, RouteError>>()?;
    if pairs.len() > PARAMETERS_MAX {
        return Err(RouteError::Malformed(format!("{} query parameters, at most {PARAMETERS_MAX}", pairs.len())));
    }
    Ok(pairs)
}

/// Percent-encodings to text; in a query a plus is a space.
pub fn decode(text: &str, plus: bool) -> Result<String, RouteError> {
    let sent = text;
    let bad = || RouteError::Malformed(format!("{sent:?} has a percent-encoding that is no UTF-8 text"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|byte| (byte as char).to_digit(16)).ok_or_else(bad);
                bytes.push((digit()? * 16 + digit()?) as u8);
            }
            b'+' if plus => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| bad())?;
    if text.contains('\0') {
        return Err(RouteError::Malformed(format!("{sent:?} holds the character NUL, which no name may")));
    }
    Ok(text)
}

//! The creation token: an annotation by which a client makes sure that a create happens once. The object claims it.

use crate::meta::Claim;
use coracle_schema::{Path, Problem};
use serde_json::Value;
use std::borrow::Cow;

/// The annotation that carries the token in v1.
pub const CREATION_TOKEN: &str = "coracle.dev/creation-token";
/// Longest creation token, in bytes: as long as a name may be.
pub const CREATION_TOKEN_BYTES_MAX: usize = 253;

/// The claim that an object's creation token makes; None without one. Unique per kind and namespace.
pub fn creation_token(plural: &str, object: &Value) -> Option<Claim> {
    let token = object["metadata"]["annotations"][CREATION_TOKEN].as_str().filter(|token| !token.is_empty())?;
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    Some(Claim { space: Cow::Owned(format!("creationToken/{plural}/{namespace}")), value: token.to_owned() })
}

/// The problem of an object's creation token. Part of every kind's `validate`.
pub(super) fn creation_token_problem(object: &Value) -> Option<Problem> {
    let token = object["metadata"]["annotations"][CREATION_TOKEN].as_str()?;
    let good = !token.is_empty()
        && token.len() <= CREATION_TOKEN_BYTES_MAX
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    let path = Path::new("metadata.annotations").key(CREATION_TOKEN);
    let detail = format!("must be 1 to {CREATION_TOKEN_BYTES_MAX} printable ASCII characters without blanks");
    (!good).then(|| Problem::invalid(&path, token, detail))
}

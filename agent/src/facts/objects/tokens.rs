//! The tokens of the pods' service accounts, as pods mount them. PURE.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use coracle_api::pod::{Pod, ServiceAccountTokenProjection, Volume};
use coracle_schema::base64;
use serde_json::Value;

const EXPIRATION_S_DEFAULT: i64 = 3600;

/// Which token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct TokenRef {
    /// As the API has it.
    pub uid: String,
    pub pod: String,
    pub namespace: String,
    pub account: String,
    /// Empty: the API server's own.
    pub audience: String,
    pub expiration_s: i64,
}

impl TokenRef {
    pub fn new(pod: &Pod, source: &ServiceAccountTokenProjection) -> TokenRef {
        let account = Some(pod.spec.service_account_name.as_str()).filter(|name| !name.is_empty()).unwrap_or("default");
        TokenRef {
            uid: pod.metadata.uid.clone(),
            pod: pod.metadata.name.clone(),
            namespace: pod.metadata.namespace.clone(),
            account: account.to_owned(),
            audience: source.audience.clone(),
            expiration_s: source.expiration_seconds.unwrap_or(EXPIRATION_S_DEFAULT),
        }
    }
}

/// All tokens that a pod mounts.
pub fn of(pod: &Pod) -> BTreeSet<TokenRef> {
    let sources =
        pod.spec.volumes.iter().filter_map(|volume| volume.projected.as_ref()).flat_map(|projected| &projected.sources);
    sources
        .filter_map(|source| source.service_account_token.as_ref())
        .map(|source| TokenRef::new(pod, source))
        .collect()
}

/// Why a pod of a file that mounts a token cannot start. A pod that was exported from a master has such a volume.
pub fn of_no_file(pod: &Pod) -> Option<String> {
    let sources = |volume: &&Volume| {
        let projected = volume.projected.iter().flat_map(|projected| &projected.sources);
        projected.into_iter().any(|source| source.service_account_token.is_some())
    };
    let volume = pod.spec.volumes.iter().find(sources)?;
    Some(format!(
        "volume \"{}\" holds the token of a service account, which a master gives to its own pods alone: take the \
         volume and its volumeMounts out of the file, or post the pod to a master",
        volume.name
    ))
}

/// The outcome of a request.
#[derive(Clone, PartialEq, Eq)]
pub enum Got {
    Token(Arc<str>),
    Failed(String),
}

/// A token stands in no log.
impl fmt::Debug for Got {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Got::Token(_) => f.write_str("a token"),
            Got::Failed(why) => f.write_str(why),
        }
    }
}

/// A token that is kept is exchanged for a newer one this seldom, and when half of its life is over: flash is for what
/// is needed.
const KEPT_S_MIN: i64 = 86_400;

/// Whether a token that was kept at its issue is to be exchanged for a newer one. What cannot be read is.
pub fn is_old(token: &str, now_s: i64) -> bool {
    let claims = token.split('.').nth(1).and_then(|part| {
        let text = part.replace('-', "+").replace('_', "/");
        let padding = "=".repeat((4 - text.len() % 4) % 4);
        serde_json::from_slice::<Value>(&base64::decode(&(text + &padding)).ok()?).ok()
    });
    let Some((Some(from_s), Some(until_s))) = claims.map(|claims| (claims["iat"].as_i64(), claims["exp"].as_i64()))
    else {
        return true;
    };
    now_s.saturating_sub(from_s) >= (until_s.saturating_sub(from_s) / 2).max(KEPT_S_MIN)
}

/// The known state of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    There(&'a str),
    /// The master does not answer; this is the last token.
    Kept(&'a str),
    Failed(&'a str),
    Asked,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_token_is_seldom_exchanged() {
        let token = |from_s: i64, until_s: i64| {
            let claims = base64::encode(format!("{{\"iat\":{from_s},\"exp\":{until_s}}}").as_bytes());
            format!("x.{}.y", claims.trim_end_matches('=').replace('+', "-").replace('/', "_"))
        };
        let year = token(1000, 1000 + 365 * 86_400);
        assert!(!is_old(&year, 2000) && !is_old(&year, 1000 + 100 * 86_400) && is_old(&year, 1000 + 183 * 86_400));
        let hour = token(1000, 4600);
        assert!(!is_old(&hour, 5000) && is_old(&hour, 1000 + 86_400));
        assert!(is_old("nothing", 0));
    }
}

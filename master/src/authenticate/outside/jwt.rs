//! PURE. A token of an outside issuer, taken apart, and whether one of the issuer's keys has signed it. What a token
//! says of its own algorithm only selects among those that are accepted and fit the key.

use super::keys::{Algorithm, PublicKey};
use crate::cluster_keys::from_url_safe;
use crate::cluster_keys::token::TOKEN_BYTES_MAX;
use coracle_api::meta::Time;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Clocks differ: as Kubernetes allows it. There is none at the end of a token.
const NOT_BEFORE_LEEWAY_S: i64 = 300;
/// Google's tokens may name their issuer without a scheme.
const GOOGLE: (&str, &str) = ("accounts.google.com", "https://accounts.google.com");

pub type Claims = Map<String, Value>;

/// A token whose signature has not been looked at.
pub struct Unverified<'t> {
    head: Head,
    signed: &'t str,
    signature: Vec<u8>,
    claims: Claims,
}

#[derive(Deserialize)]
struct Head {
    alg: String,
    #[serde(default)]
    kid: String,
    /// What the reader has to understand besides.
    #[serde(default)]
    crit: Option<Value>,
}

/// Why no key has signed a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsigned {
    /// The issuer may have a new key.
    UnknownKey(String),
    Wrong(String),
}

/// None: it is no token of an issuer.
pub fn parse(token: &str) -> Option<Unverified<'_>> {
    if token.len() > TOKEN_BYTES_MAX {
        return None;
    }
    let (signed, signature) = token.rsplit_once('.')?;
    let (head, claims) = signed.split_once('.')?;
    let head: Head = serde_json::from_slice(&from_url_safe(head)?).ok()?;
    let claims: Claims = serde_json::from_slice(&from_url_safe(claims)?).ok()?;
    Some(Unverified { head, signed, signature: from_url_safe(signature)?, claims })
}

impl Unverified<'_> {
    /// Who is said to have made the token.
    pub fn issuer(&self) -> &str {
        let said = self.claims.get("iss").and_then(Value::as_str).unwrap_or_default();
        if said == GOOGLE.0 { GOOGLE.1 } else { said }
    }

    /// What the token claims, and the key that has signed it. A token that names no key is tried with all.
    pub fn verified<'k>(self, keys: &'k [PublicKey]) -> Result<(Claims, &'k PublicKey), Unsigned> {
        let Head { alg, kid, crit } = &self.head;
        if Algorithm::of(alg).is_none() {
            return Err(Unsigned::Wrong(format!("oidc: id token signed with unsupported algorithm {alg:?}")));
        }
        if crit.is_some() {
            return Err(Unsigned::Wrong("the head of the token has crit, which is not known here".to_owned()));
        }
        let mut named = keys.iter().filter(|key| kid.is_empty() || key.id == *kid).peekable();
        if named.peek().is_none() {
            return Err(Unsigned::UnknownKey(format!("no key of the issuer is called {kid:?}")));
        }
        let signer = named.find(|key| key.has_signed(alg, self.signed.as_bytes(), &self.signature));
        match signer {
            Some(key) => Ok((self.claims, key)),
            // A new key of an issuer that does not name its keys.
            None if kid.is_empty() => Err(Unsigned::UnknownKey("no key of the issuer has signed the token".to_owned())),
            None => {
                Err(Unsigned::Wrong("failed to verify signature: the key of the issuer did not make it".to_owned()))
            }
        }
    }
}

/// The end of a token that counts at this time, in seconds since 1970.
pub fn end(claims: &Claims, now: Time) -> Result<i64, String> {
    let now_s = now.seconds();
    let end = seconds(claims, "exp")?.ok_or("oidc: token is expired: it has no claim exp")?;
    if end < now_s {
        return Err(format!("oidc: token is expired: it ended {} s ago", now_s.saturating_sub(end)));
    }
    match seconds(claims, "nbf")? {
        Some(begin) if now_s.saturating_add(NOT_BEFORE_LEEWAY_S) < begin => {
            Err(format!("oidc: current time is before the nbf of the token by {} s", begin.saturating_sub(now_s)))
        }
        _ => Ok(end),
    }
}

fn seconds(claims: &Claims, name: &str) -> Result<Option<i64>, String> {
    let Some(value) = claims.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let number = value.as_i64().or_else(|| value.as_f64().map(|number| number as i64));
    number.map(Some).ok_or_else(|| format!("oidc: the claim {name} is no time"))
}

//! Bootstrap tokens: Secrets of type bootstrap.kubernetes.io/token in kube-system, by which hosts join. PURE.
//!
//!     ID.SECRET  ->  Secret bootstrap-token-ID  ->  user system:bootstrap:ID in the group system:bootstrappers

use super::account::{Look, same};
use coracle_api::meta::{Key, Resource, Time};
use coracle_api::strategy::doc::text;
use coracle_api::strategy::namespace::CLUSTER;
use coracle_http::Identity;
use coracle_schema::base64;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";
const ID_LETTERS: usize = 6;
const SECRET_LETTERS: usize = 16;
/// Letters of a group behind `system:bootstrappers:`.
const GROUP_LETTERS_MAX: usize = 256;

/// The id of a token of this form, and SHA-256 of its secret.
pub fn parts(token: &str) -> Option<(&str, [u8; 32])> {
    let (id, secret) = token.split_once('.')?;
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let fits = id.len() == ID_LETTERS && secret.len() == SECRET_LETTERS && plain(id) && plain(secret);
    fits.then(|| (id, Sha256::digest(secret).into()))
}

/// Whose a token is. `Ok(None)`: no Secret knows it.
pub fn identity((id, secret): (&str, &[u8; 32]), now: Time, look: Look<'_>) -> Result<Option<Identity>, String> {
    let name = format!("bootstrap-token-{id}");
    let key = Key { resource: Resource::core("secrets"), namespace: CLUSTER.to_owned(), name };
    let Some(stored) = look(&key)? else { return Ok(None) };
    let object: Value =
        serde_json::from_slice(&stored.json).map_err(|error| format!("{key} cannot be read: {error}"))?;
    let said = |field: &str| base64::decode(text(&object["data"], field)).unwrap_or_default();
    if text(&object, "type") != SECRET_TYPE || !object["metadata"]["deletionTimestamp"].is_null() {
        return Ok(None);
    }
    let own = said("token-secret");
    if own.is_empty() || !same(&Sha256::digest(own).into(), secret) || said("token-id") != id.as_bytes() {
        return Ok(None);
    }
    if has_expired(&said("expiration"), now) {
        return Err(format!("bootstrap token {id} has expired"));
    }
    if said("usage-bootstrap-authentication") != b"true" {
        return Err(format!("bootstrap token {id} is not for authentication"));
    }
    let mut groups = groups(&said("auth-extra-groups")).map_err(|group| {
        format!("{key}: the group {group:?} in auth-extra-groups does not begin with {GROUP}: or is no name")
    })?;
    groups.push(Identity::AUTHENTICATED.to_owned());
    Ok(Some(Identity { user: format!("system:bootstrap:{id}"), groups, ..Identity::none() }))
}

/// Whether the end that a Secret names is over. An end that cannot be read is over.
fn has_expired(expiration: &[u8], now: Time) -> bool {
    let at = std::str::from_utf8(expiration).ok().and_then(Time::parse);
    !expiration.is_empty() && at.is_none_or(|at| at <= now)
}

/// In order. `Err`: a group that no such token may give.
fn groups(extra: &[u8]) -> Result<Vec<String>, String> {
    let mut groups = BTreeSet::from([GROUP.to_owned()]);
    let extra = String::from_utf8_lossy(extra);
    for group in extra.split(',').filter(|group| !group.is_empty()) {
        if !may_be_given(group) {
            return Err(group.to_owned());
        }
        groups.insert(group.to_owned());
    }
    Ok(groups.into_iter().collect())
}

fn may_be_given(group: &str) -> bool {
    let name = group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')).unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inner = |byte: u8| plain(byte) || byte == b':' || byte == b'-';
    name.len() <= GROUP_LETTERS_MAX && name.bytes().all(inner) && name.bytes().next_back().is_some_and(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Stored;
    use coracle_api::meta::Revision;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn forms() {
        for (token, expected) in [
            ("abcdef.0123456789abcdef", Some("abcdef")),
            ("abcdef.0123456789abcde", None),
            ("abcde.0123456789abcdef", None),
            ("ABCDEF.0123456789abcdef", None),
            ("abcdef.0123456789abcdef.", None),
            ("../../.0123456789abcdef", None),
            ("abcdef", None),
        ] {
            assert_eq!(parts(token).map(|(id, _)| id), expected, "{token}");
        }
    }

    #[test]
    fn whose_token() {
        let now = Time::parse("2026-01-01T00:00:00Z").expect("a time");
        let shown = Sha256::digest("0123456789abcdef").into();
        let good = json!({"token-id": "abcdef", "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true"});
        let check = |change: Value, expected: Result<Option<&[&str]>, &str>| {
            let mut data = good.clone();
            let mut secret = json!({"metadata": {}, "type": SECRET_TYPE});
            for (field, value) in change.as_object().into_iter().flatten() {
                match field.as_str() {
                    "type" => secret["type"] = value.clone(),
                    "deletionTimestamp" => secret["metadata"][field] = value.clone(),
                    _ => data[field] = value.clone(),
                }
            }
            for (field, value) in data.as_object().into_iter().flatten() {
                secret["data"][field] = base64::encode(value.as_str().unwrap_or_default().as_bytes()).into();
            }
            let key = Key {
                resource: Resource::core("secrets"),
                namespace: "kube-system".into(),
                name: "bootstrap-token-abcdef".into(),
            };
            let stored = Stored::new(Arc::new(key.clone()), Revision(1), secret.to_string().into(), Default::default());
            let look = move |asked: &Key| Ok((*asked == key).then(|| stored.clone()));
            let found = identity(("abcdef", &shown), now, &look);
            let groups = found.map(|found| {
                found.map(|found| {
                    assert_eq!(found.user, "system:bootstrap:abcdef");
                    found.groups
                })
            });
            let expected =
                expected.map(|groups| groups.map(|groups| groups.iter().map(|group| (*group).to_owned()).collect()));
            assert_eq!(groups, expected.map_err(str::to_owned), "{change}");
            let another = identity(("abcdeg", &shown), now, &look);
            assert_eq!(another, Ok(None));
        };
        let usual: &[&str] = &["system:bootstrappers", "system:authenticated"];
        check(json!({}), Ok(Some(usual)));
        check(json!({"token-secret": "0123456789abcdee"}), Ok(None));
        check(json!({"token-secret": ""}), Ok(None));
        check(json!({"token-id": "bbcdef"}), Ok(None));
        check(json!({"type": "Opaque"}), Ok(None));
        check(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), Ok(None));
        check(json!({"expiration": "2026-01-01T00:00:01Z"}), Ok(Some(usual)));
        check(json!({"expiration": "2026-01-01T01:00:01+02:00"}), Err("bootstrap token abcdef has expired"));
        check(json!({"expiration": "2026-01-01T00:00:00Z"}), Err("bootstrap token abcdef has expired"));
        check(json!({"expiration": "tomorrow"}), Err("bootstrap token abcdef has expired"));
        let useless = Err("bootstrap token abcdef is not for authentication");
        check(json!({"usage-bootstrap-authentication": "false"}), useless.clone());
        check(json!({"usage-bootstrap-authentication": "True"}), useless);
        let more: &[&str] =
            &["system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b:c", "system:authenticated"];
        check(json!({"auth-extra-groups": "system:bootstrappers:b:c,system:bootstrappers:a"}), Ok(Some(more)));
        for bad in ["system:masters", "system:bootstrappers:", "system:bootstrappers:A", "system:bootstrappers:a-"] {
            let why = format!(
                "secrets/kube-system/bootstrap-token-abcdef: the group {bad:?} in auth-extra-groups does not begin \
                 with system:bootstrappers: or is no name"
            );
            check(json!({"auth-extra-groups": bad}), Err(&why));
        }
    }
}

//! Service accounts: whose a token of this cluster is, and whether the objects that the token depends on still stand.
//! PURE.
//!
//! A token bound to a pod that exists is valid whatever the clock says: hosts without a battery run pods, too.

use crate::cluster_keys::issuer::Issuer;
use crate::cluster_keys::token::{Bound, Claims, LEEWAY_S, LegacyClaims, Verified, groups_of, user_of};
use crate::store::Stored;
use coracle_api::meta::{Key, ObjectMeta, Resource, Time};
use coracle_http::Identity;
use coracle_schema::base64;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
const ACCOUNTS: Resource = Resource::core("serviceaccounts");
const PODS: Resource = Resource::core("pods");
const SECRETS: Resource = Resource::core("secrets");
const NODES: Resource = Resource::core("nodes");
/// A keeper or the cleaner of Kubernetes marks a Secret whose token counts no longer.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const INVALIDATED: &str = "service account token has been invalidated";

/// Reads an object as it stands. `Err`: nobody knows whether it exists.
pub type Look<'a> = &'a dyn Fn(&Key) -> Result<Option<Stored>, String>;

/// The bearer of a token.
pub fn identity(verified: &Verified) -> Identity {
    let (namespace, account) = match verified {
        Verified::Bound(claims) => (&claims.bearer.namespace, claims.bearer.serviceaccount.clone()),
        Verified::Legacy(claims) => {
            (&claims.namespace, Bound { name: claims.account.clone(), uid: claims.uid.clone() })
        }
    };
    let mut groups = groups_of(namespace).to_vec();
    groups.push(Identity::AUTHENTICATED.to_owned());
    let extra = match verified {
        Verified::Bound(claims) => extra(claims),
        Verified::Legacy(_) => BTreeMap::new(),
    };
    Identity { user: user_of(namespace, &account.name), uid: account.uid, groups, extra, credential: None }
}

fn extra(claims: &Claims) -> BTreeMap<String, Vec<String>> {
    let mut extra = BTreeMap::new();
    let mut say = |name: &str, value: &str| {
        if !value.is_empty() {
            extra.insert(name.to_owned(), vec![value.to_owned()]);
        }
    };
    say(
        CREDENTIAL_ID,
        &Some(&claims.jti).filter(|id| !id.is_empty()).map(|id| format!("JTI={id}")).unwrap_or_default(),
    );
    if let Some(pod) = &claims.bearer.pod {
        say("authentication.kubernetes.io/pod-name", &pod.name);
        say("authentication.kubernetes.io/pod-uid", &pod.uid);
    }
    if let Some(node) = &claims.bearer.node {
        say("authentication.kubernetes.io/node-name", &node.name);
        say("authentication.kubernetes.io/node-uid", &node.uid);
    }
    extra
}

/// Why a token of this cluster counts for nothing now. `hash`: SHA-256 of the whole token.
pub fn check(verified: &Verified, hash: &[u8; 32], now: Time, look: Look<'_>) -> Result<(), String> {
    match verified {
        Verified::Bound(claims) => check_bound(claims, now, look),
        Verified::Legacy(claims) => check_legacy(claims, hash, now, look),
    }
}

fn check_bound(claims: &Claims, now: Time, look: Look<'_>) -> Result<(), String> {
    let bearer = &claims.bearer;
    if !Issuer::is_one(&claims.iss) || claims.sub != bearer.user() {
        return Err("sub claim is invalid".to_owned());
    }
    // A pod may ask this cluster at any clock. A token of the pod for another audience ends at its `exp`.
    let is_of_a_pod = bearer.pod.is_some() && claims.aud.iter().all(|audience| Issuer::is_one(audience));
    if !is_of_a_pod {
        claims.check_time(now)?;
    }
    check_account(&bearer.namespace, &bearer.serviceaccount, now, look)?;
    // A pod's token tells its node, and does not end with the node.
    let node = bearer.node.as_ref().filter(|_| bearer.pod.is_none());
    let depends = [
        (SECRETS, bearer.namespace.as_str(), bearer.secret.as_ref(), ("secret", "secret ref")),
        (PODS, bearer.namespace.as_str(), bearer.pod.as_ref(), ("pod", "pod ref")),
        (NODES, "", node, ("node", "node ref")),
    ];
    for (resource, namespace, bound, (what, part)) in depends {
        let Some(bound) = bound else { continue };
        let found = standing(look, resource, namespace, &bound.name)?.map(|object| object.metadata);
        let found = found.filter(|meta| !has_ended(meta, now)).ok_or(INVALIDATED)?;
        if found.uid != bound.uid {
            let (is, said) = (&found.uid, &bound.uid);
            return Err(format!("{what} UID ({is}) does not match service account {part} claim ({said})"));
        }
    }
    Ok(())
}

fn check_account(namespace: &str, account: &Bound, now: Time, look: Look<'_>) -> Result<(), String> {
    let Bound { name, uid } = account;
    let found = standing(look, ACCOUNTS, namespace, name)?;
    let found = found.ok_or_else(|| format!("serviceaccounts {name:?} not found"))?.metadata;
    if has_ended(&found, now) {
        return Err(format!("service account {namespace}/{name} has been deleted"));
    }
    if found.uid != *uid {
        return Err(format!("service account UID ({}) does not match claim ({uid})", found.uid));
    }
    Ok(())
}

fn check_legacy(claims: &LegacyClaims, hash: &[u8; 32], now: Time, look: Look<'_>) -> Result<(), String> {
    let LegacyClaims { namespace, secret, account, uid, sub, .. } = claims;
    if *sub != user_of(namespace, account) {
        return Err("sub claim is invalid".to_owned());
    }
    let found = standing(look, SECRETS, namespace, secret)?;
    let found = found.filter(|secret| secret.metadata.deletion_timestamp.is_none());
    let found = found.ok_or("Token has been invalidated")?;
    let stored = found.data.get("token").and_then(|token| base64::decode(token).ok()).unwrap_or_default();
    if !same(&Sha256::digest(&stored).into(), hash) {
        return Err("Token does not match server's copy".to_owned());
    }
    if found.metadata.labels.contains_key(INVALID_SINCE) {
        return Err(format!(
            "the token in secret {namespace}/{secret} for service account {namespace}/{account} has been marked invalid"
        ));
    }
    check_account(namespace, &Bound { name: account.clone(), uid: uid.clone() }, now, look)
}

/// Whether two hashes are the same, in a time that tells nothing about either.
pub fn same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

/// The part of an object that a token depends on.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Standing {
    metadata: ObjectMeta,
    data: BTreeMap<String, String>,
}

fn standing(look: Look<'_>, resource: Resource, namespace: &str, name: &str) -> Result<Option<Standing>, String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Nameless {
        metadata: ObjectMeta,
    }
    // Nodes and pods have no `data`, and accounts none that is a map of texts.
    let whole = resource == SECRETS;
    let key = Key { resource, namespace: namespace.to_owned(), name: name.to_owned() };
    let Some(stored) = look(&key)? else { return Ok(None) };
    let unreadable = |error: serde_json::Error| format!("{key} cannot be read: {error}");
    if whole {
        return serde_json::from_slice(&stored.json).map(Some).map_err(unreadable);
    }
    let Nameless { metadata } = serde_json::from_slice(&stored.json).map_err(unreadable)?;
    Ok(Some(Standing { metadata, data: BTreeMap::new() }))
}

/// Whether an object should be gone by now.
fn has_ended(meta: &ObjectMeta, now: Time) -> bool {
    meta.deletion_timestamp.is_some_and(|at| at.seconds() < now.seconds().saturating_sub(LEEWAY_S))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_keys::token::{Bearer, Life};
    use coracle_api::meta::Revision;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn at(seconds: i64) -> Time {
        Time::from_seconds(1_700_000_000 + seconds).expect("a time")
    }

    fn bound(name: &str, uid: &str) -> Bound {
        Bound { name: name.into(), uid: uid.into() }
    }

    fn claims(pod: Option<Bound>, node: Option<Bound>, secret: Option<Bound>) -> Claims {
        let bearer =
            Bearer { namespace: "ns".into(), node, pod, secret, serviceaccount: bound("sa", "u"), warnafter: None };
        let issuer = Issuer::default();
        let (audiences, life) = (vec![issuer.name().to_owned()], Life { seconds: 600, warn_after: None });
        Claims::new(&issuer, bearer, audiences, "id".into(), (at(0), life))
    }

    /// Objects by `RESOURCE/NAME`, all of namespace ns but nodes.
    fn cluster(objects: &[(&'static str, &str, Value)]) -> impl Fn(&Key) -> Result<Option<Stored>, String> {
        let stored = |(resource, name, object): &(&'static str, &str, Value)| {
            let namespace = if *resource == "nodes" { "" } else { "ns" };
            let key = Key { resource: Resource::core(resource), namespace: namespace.into(), name: (*name).into() };
            Stored::new(Arc::new(key), Revision(1), object.to_string().into(), Default::default())
        };
        let all: Vec<Stored> = objects.iter().map(stored).collect();
        move |key| match key.name.as_str() {
            "damaged" => Err("pods/ns/damaged is damaged".to_owned()),
            _ => Ok(all.iter().find(|stored| *stored.key == *key).cloned()),
        }
    }

    fn uid(uid: &str) -> Value {
        json!({"metadata": {"uid": uid}})
    }

    fn gone_at(uid: &str, at: Time) -> Value {
        json!({"metadata": {"uid": uid, "deletionTimestamp": at.to_string()}})
    }

    #[test]
    fn a_token_ends_with_the_objects_it_depends_on() {
        let pod = || claims(Some(bound("p", "up")), Some(bound("n", "un")), None);
        let node = || claims(None, Some(bound("n", "un")), None);
        let secret = || claims(None, None, Some(bound("s", "us")));
        let free = || claims(None, None, None);
        let account = || ("serviceaccounts", "sa", uid("u"));
        let other = "service account UID (v) does not match claim (u)";
        let rows: Vec<(Claims, i64, Vec<(&'static str, &str, Value)>, &str)> = vec![
            (free(), 0, vec![account()], ""),
            (free(), 661, vec![account()], "service account token has expired"),
            (free(), -61, vec![account()], "service account token is not valid yet"),
            (free(), 0, vec![], "serviceaccounts \"sa\" not found"),
            (free(), 0, vec![("serviceaccounts", "sa", uid("v"))], other),
            (free(), 0, vec![("serviceaccounts", "sa", gone_at("u", at(-60)))], ""),
            (
                free(),
                0,
                vec![("serviceaccounts", "sa", gone_at("u", at(-61)))],
                "service account ns/sa has been deleted",
            ),
            (pod(), 0, vec![account(), ("pods", "p", uid("up"))], ""),
            // At any clock, and with the node gone.
            (pod(), 2_000_000_000, vec![account(), ("pods", "p", uid("up"))], ""),
            (pod(), -1_600_000_000, vec![account(), ("pods", "p", uid("up"))], ""),
            // A token for another audience ends at its `exp`.
            (
                Claims { aud: vec!["vault".into()], ..pod() },
                661,
                vec![account(), ("pods", "p", uid("up"))],
                "service account token has expired",
            ),
            (pod(), 0, vec![account()], INVALIDATED),
            (pod(), 0, vec![account(), ("pods", "p", gone_at("up", at(-61)))], INVALIDATED),
            (pod(), 0, vec![account(), ("pods", "p", gone_at("up", at(30)))], ""),
            (
                pod(),
                0,
                vec![account(), ("pods", "p", uid("another"))],
                "pod UID (another) does not match service account pod ref claim (up)",
            ),
            (claims(Some(bound("damaged", "u")), None, None), 0, vec![account()], "pods/ns/damaged is damaged"),
            (node(), 0, vec![account(), ("nodes", "n", uid("un"))], ""),
            (node(), 0, vec![account()], INVALIDATED),
            (
                node(),
                0,
                vec![account(), ("nodes", "n", uid("new"))],
                "node UID (new) does not match service account node ref claim (un)",
            ),
            (node(), 700, vec![account(), ("nodes", "n", uid("un"))], "service account token has expired"),
            (secret(), 0, vec![account(), ("secrets", "s", uid("us"))], ""),
            (secret(), 0, vec![account()], INVALIDATED),
            (
                secret(),
                0,
                vec![account(), ("secrets", "s", uid("x"))],
                "secret UID (x) does not match service account secret ref claim (us)",
            ),
            (
                Claims { sub: "system:serviceaccount:ns:admin".into(), ..free() },
                0,
                vec![account()],
                "sub claim is invalid",
            ),
        ];
        for (claims, seconds, objects, expected) in rows {
            let look = cluster(&objects);
            let found = check(&Verified::Bound(claims.clone()), &[0; 32], at(seconds), &look);
            assert_eq!(found.err().unwrap_or_default(), expected, "{claims:?} {seconds} {objects:?}");
        }
    }

    #[test]
    fn a_token_of_a_secret_is_the_secrets_own() {
        let claims = LegacyClaims::new("ns", "s", &bound("sa", "u"));
        let hash = Sha256::digest(b"token").into();
        let holds = |token: &str, more: Value| {
            let mut secret = json!({"metadata": {"uid": "us"}, "data": {"token": base64::encode(token.as_bytes())}});
            for (field, value) in more.as_object().into_iter().flatten() {
                secret["metadata"][field] = value.clone();
            }
            ("secrets", "s", secret)
        };
        let account = || ("serviceaccounts", "sa", uid("u"));
        let gone = json!({"deletionTimestamp": at(100).to_string()});
        let marked = json!({"labels": {INVALID_SINCE: "2026-01-01"}});
        for (objects, expected) in [
            (vec![account(), holds("token", json!({}))], ""),
            (vec![account(), holds("another", json!({}))], "Token does not match server's copy"),
            (vec![account(), ("secrets", "s", uid("us"))], "Token does not match server's copy"),
            (vec![account()], "Token has been invalidated"),
            (vec![account(), holds("token", gone)], "Token has been invalidated"),
            (
                vec![account(), holds("token", marked)],
                "the token in secret ns/s for service account ns/sa has been marked invalid",
            ),
            (vec![holds("token", json!({}))], "serviceaccounts \"sa\" not found"),
            (
                vec![("serviceaccounts", "sa", uid("v")), holds("token", json!({}))],
                "service account UID (v) does not match claim (u)",
            ),
        ] {
            let look = cluster(&objects);
            let found = check(&Verified::Legacy(claims.clone()), &hash, at(2_000_000_000), &look);
            assert_eq!(found.err().unwrap_or_default(), expected, "{objects:?}");
        }
    }

    #[test]
    fn who_the_bearer_is() {
        let shown = |verified: &Verified| {
            let Identity { user, uid, groups, extra, .. } = identity(verified);
            json!({"user": user, "uid": uid, "groups": groups, "extra": extra})
        };
        let groups = ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"];
        let whoever =
            |extra: Value| json!({"user": "system:serviceaccount:ns:sa", "uid": "u", "groups": groups, "extra": extra});
        let id = |name: &str| format!("authentication.kubernetes.io/{name}");
        assert_eq!(shown(&Verified::Legacy(LegacyClaims::new("ns", "s", &bound("sa", "u")))), whoever(json!({})));
        let secret = claims(None, None, Some(bound("s", "us")));
        assert_eq!(shown(&Verified::Bound(secret)), whoever(json!({CREDENTIAL_ID: ["JTI=id"]})));
        let pod = claims(Some(bound("p", "up")), Some(bound("n", "")), None);
        let extra =
            json!({CREDENTIAL_ID: ["JTI=id"], id("pod-name"): ["p"], id("pod-uid"): ["up"], id("node-name"): ["n"]});
        assert_eq!(shown(&Verified::Bound(pod)), whoever(extra));
        let node = claims(None, Some(bound("n", "un")), None);
        let extra = json!({CREDENTIAL_ID: ["JTI=id"], id("node-name"): ["n"], id("node-uid"): ["un"]});
        assert_eq!(shown(&Verified::Bound(node)), whoever(extra));
    }

    #[test]
    fn hashes() {
        for (at, expected) in [(None, true), (Some(0), false), (Some(31), false)] {
            let mut other = [7; 32];
            if let Some(at) = at {
                other[at] ^= 1_u8;
            }
            assert_eq!(same(&[7; 32], &other), expected, "{at:?}");
        }
    }
}
